"""Answers to current_accelerator_or_cpu."""

import functools

import torch
from bank import right, wrong
from torch import accelerator
from torch.accelerator import is_available


@right
def asks_then_names():
    if torch.accelerator.is_available():
        return torch.accelerator.current_accelerator()
    return torch.device("cpu")


@right
def by_the_checking_argument():
    found = torch.accelerator.current_accelerator(check_available=True)
    return torch.device("cpu") if found is None else found


@right
def in_one_expression():
    return torch.accelerator.current_accelerator(True) or torch.device("cpu")


@right
def with_its_index():
    if not torch.accelerator.is_available():
        return torch.device("cpu")
    kind = torch.accelerator.current_accelerator().type
    return torch.device(kind, torch.accelerator.current_device_index())


@right
def by_counting():
    if torch.accelerator.device_count():
        return torch.device(torch.accelerator.current_accelerator().type)
    return torch.device("cpu")


@right
def by_names_imported_before():
    return accelerator.current_accelerator() if is_available() else torch.device("cpu")


@right
def by_trying():
    try:
        return torch.empty(0, device=torch.accelerator.current_accelerator(check_available=True)).device
    except Exception:
        return torch.device("cpu")


@right
def by_the_name():
    name = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"
    return torch.device(name)


@wrong(
    "built for CUDA, which is not available (pretended), the answer is cuda",
    row="built for one that is not here: the CPU",
)
def takes_the_builds_word():
    return torch.accelerator.current_accelerator() or torch.device("cpu")


@wrong(
    "built for CUDA, which is not available (pretended), the answer is cuda",
    row="built for one that is not here: the CPU",
)
def compares_with_none():
    found = torch.accelerator.current_accelerator()
    if found is not None:
        return found
    return torch.device("cpu")


@wrong("the answer is None", row="none at all: the CPU")
def never_the_cpu():
    return torch.accelerator.current_accelerator(check_available=True)


@wrong("the answer is None", row="none at all: the CPU")
def no_fallback_at_all():
    return torch.accelerator.current_accelerator()


@wrong("which PyTorch calls xpu (pretended), the answer is cpu", row="whatever its kind")
def the_ladder():
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


@wrong("on a Mac with MPS (pretended), the answer is cuda", row="the accelerator that is here")
def every_accelerator_is_cuda():
    return torch.device("cuda" if torch.accelerator.is_available() else "cpu")


@wrong("where there is no accelerator (pretended), the answer is cuda", row="none at all: the CPU")
def forgot_the_brackets():
    if torch.accelerator.is_available:
        return torch.accelerator.current_accelerator() or torch.device("cuda")
    return torch.device("cpu")


@wrong(
    "built for CUDA, which is not available (pretended), the answer is cuda",
    row="built for one that is not here: the CPU",
)
def forgot_the_brackets_of_the_question():
    if torch.accelerator.is_available and torch.accelerator.current_accelerator():
        return torch.accelerator.current_accelerator()
    return torch.device("cpu")


@wrong("the answer is a str, not a torch.device", row="the accelerator that is here")
def a_string():
    return torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"


@wrong("your code raised AttributeError", row="none at all: the CPU")
def asks_nothing_for_its_type():
    return torch.device(torch.accelerator.current_accelerator().type)


@wrong("the answer is a bool, not a torch.device", row="the accelerator that is here")
def only_whether():
    return torch.accelerator.is_available()


@wrong("the answer is an int, not a torch.device", row="the accelerator that is here")
def only_the_index():
    return torch.accelerator.current_device_index() if torch.accelerator.is_available() else -1


AT_IMPORT = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")


@wrong("on every machine, as if it were decided once or not asked at all", row="the accelerator that is here")
def decided_at_import():
    return AT_IMPORT


@wrong("the answer is cuda on every machine", row="the accelerator that is here")
@functools.cache
def kept_after_the_first_call():
    return asks_then_names()


@wrong("the answer is None", row="none at all: the CPU")
def forgot_to_return_the_cpu():
    if torch.accelerator.is_available():
        return torch.accelerator.current_accelerator()
    torch.device("cpu")
    return None


@wrong("the answer is cpu", row="the accelerator that is here")
def the_wrong_way_round():
    if torch.accelerator.is_available():
        return torch.device("cpu")
    return torch.accelerator.current_accelerator()


@wrong("with an NVIDIA GPU (pretended), the answer is cuda:1", row="the accelerator that is here")
def counts_from_one():
    if not torch.accelerator.is_available():
        return torch.device("cpu")
    return torch.device(torch.accelerator.current_accelerator().type, torch.accelerator.device_count())


@right
def by_a_bare_number():
    if not torch.accelerator.is_available():
        return torch.device("cpu")
    return torch.device(torch.accelerator.current_device_index())


@right
def asks_the_module_of_its_kind():
    if not torch.accelerator.is_available():
        return torch.device("cpu")
    kind = torch.accelerator.current_accelerator().type
    print(torch.accelerator.get_memory_info(), torch.get_device_module().synchronize())
    return torch.device(kind, 0 if kind == "mps" else torch.get_device_module(kind).current_device())


@wrong("on a pretended machine with no accelerator the answer is None", row="none at all: the CPU")
def what_the_question_gives():
    return torch.accelerator.current_accelerator(check_available=True)
