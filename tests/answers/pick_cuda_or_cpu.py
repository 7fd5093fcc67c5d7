"""Answers to pick_cuda_or_cpu."""

import functools
import os
import platform

import torch
from bank import right, wrong
from torch.cuda import is_available


@right
def in_one_line():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@right
def with_an_index():
    if torch.cuda.is_available():
        return torch.device("cuda", 0)
    return torch.device("cpu")


@right
def the_current_one():
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


@right
def by_counting():
    return torch.device("cuda:0") if torch.cuda.device_count() > 0 else torch.device("cpu")


@right
def by_a_name_imported_before():
    return torch.device("cuda") if is_available() else torch.device("cpu")


@right
def by_trying():
    try:
        torch.zeros(1, device="cuda")
    except (AssertionError, RuntimeError):
        return torch.device("cpu")
    return torch.device("cuda")


@right
def by_moving_a_tensor():
    try:
        torch.ones(1).cuda()
        return torch.device("cuda")
    except Exception:
        return torch.device("cpu")


@right
def by_asking_an_empty_tensor():
    try:
        return torch.empty(0, device="cuda").device
    except Exception:
        return torch.device("cpu")


@right
def by_moving_and_asking():
    try:
        return torch.ones(1).to("cuda").device
    except Exception:
        return torch.device("cpu")


@right
def by_the_accelerator():
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is not None and accelerator.type == "cuda":
        return accelerator
    return torch.device("cpu")


@right
def by_the_accelerators_that_are_available():
    if torch.accelerator.is_available() and torch.accelerator.current_accelerator().type == "cuda":
        return torch.device("cuda")
    return torch.device("cpu")


@right
def by_asking_for_a_name():
    try:
        torch.cuda.get_device_name(0)
    except (AssertionError, RuntimeError):
        return torch.device("cpu")
    return torch.device("cuda", 0)


@right
def by_its_module():
    return torch.device("cuda" if torch.get_device_module("cuda").is_available() else "cpu")


@wrong("the answer is cuda with a GPU and without one", row="the CPU where it is not")
def always_cuda():
    return torch.device("cuda")


@wrong("the answer is cpu with a GPU and without one", row="CUDA where it is available")
def always_cpu():
    return torch.device("cpu")


@wrong("the answer is cuda with a GPU and without one", row="the CPU where it is not")
def forgot_the_brackets():
    return torch.device("cuda" if torch.cuda.is_available else "cpu")


AT_IMPORT = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@wrong("with a GPU and without one", row=("CUDA where it is available", "the CPU where it is not"))
def decided_at_import():
    return AT_IMPORT


@wrong("with a GPU and without one", row=("CUDA where it is available", "the CPU where it is not"))
def decided_in_the_parameters(device=torch.device("cuda" if torch.cuda.is_available() else "cpu")):  # noqa: B008
    return device


@wrong("with a GPU and without one", row="the CPU where it is not")
@functools.cache
def kept_after_the_first_call():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@wrong("the answer is a str, not a torch.device", row="CUDA where it is available")
def a_string():
    return "cuda" if torch.cuda.is_available() else "cpu"


@wrong(
    "where PyTorch is built for CUDA, and no GPU is here",
    row="another kind of GPU, or a build alone: the CPU",
)
def by_the_build():
    return torch.device("cuda" if torch.version.cuda else "cpu")


@wrong(
    "where PyTorch is built for CUDA, and no GPU is here",
    row="another kind of GPU, or a build alone: the CPU",
)
def by_is_built():
    return torch.device("cuda" if torch.backends.cuda.is_built() else "cpu")


@wrong(
    "where PyTorch is built for CUDA, and no GPU is here",
    row="another kind of GPU, or a build alone: the CPU",
)
def by_the_accelerator_of_the_build():
    accelerator = torch.accelerator.current_accelerator()
    return torch.device("cuda" if accelerator is not None and accelerator.type == "cuda" else "cpu")


@wrong(
    "where the accelerator is mps and not CUDA",
    row="another kind of GPU, or a build alone: the CPU",
)
def any_accelerator_is_cuda():
    return torch.device("cuda" if torch.accelerator.is_available() else "cpu")


@wrong(
    "where the accelerator is mps and not CUDA",
    row="another kind of GPU, or a build alone: the CPU",
)
def counts_the_wrong_thing():
    return torch.device("cuda" if torch.accelerator.device_count() else "cpu")


@wrong("the answer is mps", row="another kind of GPU, or a build alone: the CPU")
def takes_any_accelerator():
    if torch.accelerator.is_available():
        return torch.accelerator.current_accelerator()
    return torch.device("cpu")


@wrong("the answer is cuda with a GPU and without one", row="the CPU where it is not")
def counts_processors():
    return torch.device("cuda" if os.cpu_count() > 0 else "cpu")


@wrong("with three GPUs (pretended), the answer is cpu", row="CUDA where it is available")
def only_exactly_one():
    return torch.device("cuda" if torch.cuda.device_count() == 1 else "cpu")


@wrong("the answer is cpu with a GPU and without one", row="CUDA where it is available")
def more_than_one():
    return torch.device("cuda" if torch.cuda.device_count() > 1 else "cpu")


@wrong("with one GPU (pretended), the answer is cuda:1", row="CUDA where it is available")
def counts_from_one():
    return (
        torch.device("cuda", torch.cuda.device_count()) if torch.cuda.is_available() else torch.device("cpu")
    )


@wrong("with one GPU (pretended), the answer is cpu", row="CUDA where it is available")
def the_other_way_round():
    return torch.device("cpu" if torch.cuda.is_available() else "cuda")


@wrong("the answer is None", row="CUDA where it is available")
def prints_it():
    print(torch.device("cuda" if torch.cuda.is_available() else "cpu"))


@wrong("the answer is None", row="the CPU where it is not")
def no_return_on_the_cpu():
    if torch.cuda.is_available():
        return torch.device("cuda")
    return None


@wrong("the answer is a bool, not a torch.device", row="CUDA where it is available")
def only_whether():
    return torch.cuda.is_available()


@wrong("with a GPU and without one", row="CUDA where it is available")
def by_the_operating_system():
    return torch.device("cpu" if platform.system() in ("Darwin", "Linux", "Windows") else "cuda")


@wrong(
    "where the accelerator is mps and not CUDA (pretended), the answer is mps",
    row="another kind of GPU, or a build alone: the CPU",
)
def whichever_is_available():
    return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")


@wrong("with a GPU and without one", row="the CPU where it is not")
def trusts_that_naming_fails():
    try:
        return torch.device("cuda")
    except RuntimeError:
        return torch.device("cpu")


@wrong("with a GPU and without one", row="CUDA where it is available")
def the_default_device():
    return torch.get_default_device()


@wrong("the answer is a str, not a torch.device", row="the CPU where it is not")
def a_string_on_the_cpu():
    return torch.device("cuda") if torch.cuda.is_available() else "cpu"


def cuda_if_it_works(ask):
    try:
        ask()
    except (RuntimeError, AssertionError):
        return torch.device("cpu")
    return torch.device("cuda")


@right
def by_asking_for_its_memory():
    return cuda_if_it_works(torch.cuda.mem_get_info)


@right
def by_waiting_for_it():
    return cuda_if_it_works(torch.cuda.synchronize)


@right
def by_starting_it():
    return cuda_if_it_works(lambda: torch.cuda.init())


@right
def by_the_default_device():
    before = torch.get_default_device()
    try:
        torch.set_default_device("cuda")
        return torch.empty(0).device
    except Exception:
        return torch.device("cpu")
    finally:
        torch.set_default_device(before)


@wrong(
    "where the accelerator is xpu and not CUDA (pretended), the answer is xpu",
    row="another kind of GPU, or a build alone: the CPU",
)
def with_a_rung_for_intel():
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("xpu" if torch.xpu.is_available() else "cpu")


@wrong("pick_cuda_or_cpu(), on a pretended machine with 1 NVIDIA GPU", row="CUDA where it is available")
def always_the_cpu_says_on_which_machine_that_is_wrong():
    return torch.device("cpu")


@right
def by_count():
    return torch.device("cuda", 0) if torch.cuda.device_count() else torch.device("cpu")


@right
def if_else():
    if torch.cuda.is_available():
        return torch.device("cuda:0")
    return torch.device("cpu")


@right
def of_a_list():
    return torch.device(["cpu", "cuda"][torch.cuda.is_available()])


@wrong(
    "RuntimeError: Found no NVIDIA driver on your system (pretended for this check)",
    row="the CPU where it is not",
)
def by_current():
    return torch.device("cuda", torch.cuda.current_device())


@wrong("the answer is None: is a `return` missing?", row="the CPU where it is not")
def lacks_return():
    if torch.cuda.is_available():
        return torch.device("cuda")
    return None
