"""Answers to choose_device."""

import functools
import platform

import torch
from bank import right, wrong
from torch.backends.mps import is_available as mps_is_available


@right
def three_rungs():
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


@right
def in_one_expression():
    return torch.device(
        "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    )


@right
def from_the_lowest_rung_up():
    device = torch.device("cpu")
    if torch.backends.mps.is_available():
        device = torch.device("mps", 0)
    if torch.cuda.is_available():
        device = torch.device("cuda", torch.cuda.current_device())
    return device


@right
def in_a_loop():
    for name, module in (("cuda", torch.cuda), ("mps", torch.backends.mps)):
        if module.is_available():
            return torch.device(name)
    return torch.device("cpu")


@right
def by_the_module_torch_mps():
    for kind in ("cuda", "mps"):
        if torch.get_device_module(kind).device_count() > 0:
            return torch.device(kind)
    return torch.device("cpu")


@right
def by_a_name_imported_before():
    if torch.cuda.is_available():
        return torch.device("cuda:0")
    return torch.device("mps") if mps_is_available() else torch.device("cpu")


@right
def by_trying():
    for kind in ("cuda", "mps"):
        try:
            return torch.empty(0, device=kind).device
        except Exception:
            continue
    return torch.device("cpu")


@right
def by_the_accelerator_if_it_is_on_the_ladder():
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is not None and accelerator.type in ("cuda", "mps"):
        return accelerator
    return torch.device("cpu")


@right
def asks_both_questions_about_mps():
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_built() and torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


@right
def careful_with_old_versions():
    mps = getattr(torch.backends, "mps", None)
    if torch.cuda.is_available():
        return torch.device("cuda")
    if mps is not None and mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


@wrong("on a Mac with MPS (pretended), the answer is cpu", row="else MPS where it is available")
def no_rung_for_mps():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@wrong("with an NVIDIA GPU (pretended), the answer is cpu", row="CUDA where it is available")
def no_rung_for_cuda():
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


@wrong("where there is no accelerator (pretended), the answer is mps", row="else the CPU")
def no_rung_for_the_cpu():
    return torch.device("cuda" if torch.cuda.is_available() else "mps")


@wrong(
    "where both CUDA and MPS are available (pretended), the answer is mps", row="CUDA where it is available"
)
def mps_first():
    if torch.backends.mps.is_available():
        return torch.device("mps")
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("cpu")


@wrong(
    "where both CUDA and MPS are available (pretended), the answer is mps", row="CUDA where it is available"
)
def overwritten_on_the_way():
    device = "cpu"
    if torch.cuda.is_available():
        device = "cuda"
    if torch.backends.mps.is_available():
        device = "mps"
    return torch.device(device)


@wrong("with an NVIDIA GPU (pretended), the answer is cpu", row="CUDA where it is available")
def the_else_of_the_second_if():
    device = "cpu"
    if torch.cuda.is_available():
        device = "cuda"
    device = "mps" if torch.backends.mps.is_available() else "cpu"
    return torch.device(device)


@wrong("built for MPS, which is not available (pretended), the answer is mps", row="else the CPU")
def by_is_built():
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_built() else "cpu")


@wrong("a PyTorch that knows CUDA too (pretended), the answer is cuda", row="else MPS where it is available")
def by_is_built_for_cuda():
    if torch.backends.cuda.is_built():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


@wrong(
    "the answer is cuda on every machine, as if it were decided once or not asked at all",
    row="else MPS where it is available",
)
def forgot_the_brackets():
    if torch.cuda.is_available:
        return torch.device("cuda")
    if torch.backends.mps.is_available:
        return torch.device("mps")
    return torch.device("cpu")


@wrong("where there is no accelerator (pretended), the answer is mps", row="else the CPU")
def forgot_the_second_brackets():
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available else "cpu")


@wrong("the answer is a str, not a torch.device", row="CUDA where it is available")
def a_string():
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


AT_IMPORT = three_rungs()


@wrong(
    "on every machine, as if it were decided once or not asked at all",
    row=("CUDA where it is available", "else MPS where it is available"),
)
def decided_at_import():
    return AT_IMPORT


@wrong("the answer is cuda on every machine", row="else MPS where it is available")
@functools.cache
def first_asked_under_the_gpu():
    return three_rungs() if torch.cuda.is_available() else torch.device("cpu")


remembered = []


@wrong(
    "the answer is cuda on every machine, as if it were decided once or not asked at all",
    row="else MPS where it is available",
)
def kept_after_the_first_call():
    if not remembered:
        remembered.append(three_rungs())
    return remembered[0]


@wrong("the answer is xpu", row="else the CPU")
def any_accelerator():
    if torch.accelerator.is_available():
        return torch.accelerator.current_accelerator()
    return torch.device("cpu")


@wrong("the answer is mps", row="else the CPU")
def any_accelerator_but_cuda_is_mps():
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.accelerator.is_available() else "cpu")


@wrong("on a Mac with MPS (pretended), the answer is cpu", row="else MPS where it is available")
def by_the_operating_system():
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if platform.system() == "Plan 9" else "cpu")


@wrong("the answer is None", row="else the CPU")
def nothing_for_the_cpu():
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return None


@wrong("the answer is None", row="CUDA where it is available")
def prints_it():
    print(three_rungs())


@wrong("the answer is a Tensor, not a torch.device", row="CUDA where it is available")
def a_tensor_that_is_there():
    return torch.empty(0, device=three_rungs())


@wrong("the answer is cuda:1", row="CUDA where it is available")
def the_second_gpu():
    if torch.cuda.is_available():
        return torch.device("cuda:1")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


RUNGS = [("cuda", torch.cuda.is_available), ("mps", torch.backends.mps.is_available), ("cpu", lambda: True)]


@right
def down_a_list_of_questions():
    return next(torch.device(name) for name, is_here in RUNGS if is_here())


@right
def with_the_questions_as_defaults(cuda=torch.cuda.is_available, mps=mps_is_available):
    return torch.device("cuda" if cuda() else "mps" if mps() else "cpu")


ASKED_EARLIER = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}


@wrong(
    "on every machine, as if it were decided once or not asked at all",
    row=("CUDA where it is available", "else MPS where it is available"),
)
def down_a_list_of_old_answers():
    return torch.device(next(name for name, is_here in ASKED_EARLIER.items() if is_here))


@right
def asks_which_macos_it_is():
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available() and torch.backends.mps.is_macos_or_newer(13, 0):
        return torch.device("mps")
    return torch.device("cpu")


@wrong("on a pretended machine with no accelerator the answer is None", row="else the CPU")
def no_last_rung():
    for kind in ("cuda", "mps"):
        if torch.get_device_module(kind).is_available():
            return torch.device(kind)
    return None
