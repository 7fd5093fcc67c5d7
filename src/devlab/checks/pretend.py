"""Another machine, pretended: PyTorch's questions about accelerators are answered as they would be there."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import CodeType, FunctionType, SimpleNamespace
from unittest import mock

import torch

from devlab.checks.calls import plain_function
from devlab.checks.machine import Machine
from devlab.checks.trial import Trial


@contextlib.contextmanager
def machine(trial: Trial, names: Sequence[str], **options) -> Iterator[Machine]:
    """Let the trial's answer believe, for a block, that it runs on such a `Machine`; a verdict says so.

    PyTorch's questions are pretended under any name and in any container that the answer keeps them in, as
    after `from torch.cuda import is_available`.

    >>> with machine(Trial(print, "f()", torch.device("cpu")), ["NVIDIA T4"]):
    ...     torch.cuda.is_available(), torch.cuda.get_device_name(0)
    (True, 'NVIDIA T4')
    """
    pretended = Machine(names, **options)
    trial.situation = pretended.words
    pairs = [
        (torch.cuda, "is_available", pretended.is_available),
        (torch.cuda, "device_count", pretended.device_count),
        (torch.cuda, "current_device", pretended.current_device),
        (torch.cuda, "set_device", pretended.set_device),
        (torch.cuda, "device", pretended.device_class()),
        (torch.cuda, "init", pretended.init),
        (torch.cuda, "current_stream", pretended.current_stream),
        (torch.cuda, "default_stream", pretended.current_stream),
        (torch.cuda, "can_device_access_peer", pretended.can_device_access_peer),
        (torch.cuda, "synchronize", pretended.synchronize),
        (torch.cuda, "mem_get_info", pretended.mem_get_info),
        (torch.cuda, "get_device_name", pretended.get_device_name),
        (torch.cuda, "get_device_properties", pretended.get_device_properties),
        (torch, "get_device_module", pretended.device_module),
        (torch.version, "cuda", "12.8" if pretended.built else None),
        (torch.backends.cuda, "is_built", pretended.is_built),
        (torch.backends.mps, "is_available", partial(pretended.has, "mps")),
        (torch.backends.mps, "is_built", partial(pretended.is_built_for, "mps")),
        (torch.mps, "is_available", partial(pretended.has, "mps")),
        (torch.mps, "device_count", lambda: int(pretended.has("mps"))),
        (torch.xpu, "is_available", partial(pretended.has, "xpu")),
        (torch.xpu, "device_count", lambda: int(pretended.has("xpu"))),
        (torch.accelerator, "is_available", pretended.accelerator_available),
        (torch.accelerator, "device_count", pretended.accelerator_count),
        (torch.accelerator, "current_accelerator", pretended.current_accelerator),
        (torch.accelerator, "current_device_index", pretended.current_accelerator_index),
        (torch.accelerator, "set_device_index", pretended.set_accelerator_index),
        (torch.accelerator, "device_index", pretended.accelerator_index),
        (torch.accelerator, "current_stream", pretended.accelerator_stream),
        (torch.accelerator, "synchronize", pretended.accelerator_synchronize),
        (torch.accelerator, "get_memory_info", pretended.accelerator_memory),
        *_of_other_kinds(pretended),
    ]
    theirs = getattr(plain_function(trial.answer), "__globals__", {})
    with contextlib.ExitStack() as stack:
        for module, name, value in pairs:
            real = getattr(module, name, None)
            function = inspect.unwrap(real) if callable(real) else None
            if inspect.isfunction(function) and not function.__code__.co_freevars:
                forget = getattr(real, "cache_clear", lambda: None)  # some keep their first answer
                forget()
                stack.callback(forget)
                stack.enter_context(answered_by(function, value))
            elif callable(real):
                for own in [own for own, held in theirs.items() if held is real]:
                    stack.callback(theirs.__setitem__, own, real)
                    theirs[own] = value
            stack.enter_context(mock.patch.object(module, name, value, create=real is None))
        stack.enter_context(pretended)
        try:
            yield pretended
        finally:
            if pretended.has_default():
                torch.set_default_device(None)


def _of_other_kinds(pretended: Machine) -> list[tuple]:
    """Return what is asked of Intel's and Apple's accelerators alone: each is one device, and unused."""
    memory, name = 16 << 30, "Intel Graphics"
    answers = {
        "xpu": {
            torch.xpu: {
                "current_device": 0,
                "get_device_name": name,
                "get_device_properties": SimpleNamespace(name=name, total_memory=memory),
                "get_device_capability": {"max_compute_units": 128},
                "mem_get_info": (memory, memory),
                **dict.fromkeys(("init", "set_device", "synchronize", "empty_cache")),
            }
        },
        "mps": {
            torch.mps: {
                "recommended_max_memory": memory,
                "current_allocated_memory": 0,
                "driver_allocated_memory": 0,
                **dict.fromkeys(("synchronize", "empty_cache")),
            },
            torch.backends.mps: {
                "is_macos_or_newer": True,
                "is_macos13_or_newer": True,
                "get_name": "Apple M2",
                "get_core_count": 10,
            },
        },
    }
    return [
        (module, question, partial(pretended.answer_if_there, kind, answer))
        for kind, modules in answers.items()
        for module, questions in modules.items()
        for question, answer in questions.items()
    ]


_answers: dict[int, Callable] = {}


@functools.cache
def _asking(number: int) -> CodeType:
    """Return the code of a function that gives whatever answer stands under a number."""
    here = f"__import__({__name__!r}, fromlist=['_'])"
    return eval(f"lambda *args, **kwargs: {here}._answers[{number}](*args, **kwargs)").__code__


@contextlib.contextmanager
def answered_by(function: FunctionType, answer: Callable) -> Iterator[None]:
    """Let a function of PyTorch answer something else, whoever holds it: its code is exchanged."""
    before = function.__code__
    number = id(function)
    _answers[number] = answer
    function.__code__ = _asking(number)
    try:
        yield
    finally:
        function.__code__ = before
        del _answers[number]
