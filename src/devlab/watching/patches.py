"""Names put in place of PyTorch's public ones while a watch is open, to learn what the program asked for.

An operator says that one number was read; only the method says whether it was `.item()`, `float()` or `if`.
Waiting for a device calls no operator at all. Every replacement calls the original and adds nothing else.
"""

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch

from devlab.watching.copies import Copy
from devlab.watching.events import When
from devlab.watching.marks import host_clock
from devlab.watching.recorder import follow
from devlab.watching.state import state

READERS = {
    "item": ".item()",
    "tolist": ".tolist()",
    "cpu": ".cpu()",
    "cuda": ".cuda()",
    "numpy": ".numpy()",
    "__float__": "float()",
    "__int__": "int()",
    "__complex__": "complex()",
    "__bool__": "bool()",
    "__index__": "an index",
    "__format__": "format()",
}
# Those that always bring one value to Python.
ONE_VALUE = frozenset(READERS) - {"tolist", "cpu", "cuda", "numpy", "__format__"}
# A printed tensor of more elements than this shows the first and last three along each dimension.
_PRINTED_WHOLE = 1000
_PRINTED_EDGE = 6
_ACCELERATORS = ("cuda", "xpu", "mps", "sim")

_lock = threading.Lock()
_replaced: list[tuple[Any, str, Any, Any]] = []
_MISSING = object()
_users = 0


def install() -> None:
    """Put the replacements in place, unless another watch has done so."""
    global _users
    with _lock:
        _users += 1
        if _users == 1:
            _replace_all()


def uninstall() -> None:
    """Put PyTorch's own names back when the last watch closes."""
    global _users
    with _lock:
        _users -= 1
        if _users == 0:
            _put_back_all()


def _replace_all() -> None:
    for name, cause in READERS.items():
        _replace(torch.Tensor, name, _naming(getattr(torch.Tensor, name), cause, name in ONE_VALUE))
    _replace(torch.Tensor, "__repr__", _printing(torch.Tensor.__repr__))
    _replace(torch.accelerator, "synchronize", _waiting(torch.accelerator.synchronize, "synchronize()"))
    for kind in _ACCELERATORS:
        module = sys.modules.get(f"torch.{kind}")
        if module is not None:
            _replace(module, "synchronize", _waiting(module.synchronize, "synchronize()", kind))
            _watch_class(module, "Event")
            _watch_class(module, "Stream")
    _watch_class(torch, "Event")
    _watch_class(torch, "Stream")
    _replace(threading.Thread, "start", _following(threading.Thread.start))


def _put_back_all() -> None:
    while _replaced:
        owner, name, original, ours = _replaced.pop()
        if vars(owner).get(name) is not ours:
            continue  # somebody else has replaced it since; ours passes everything on
        if original is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, original)


def _replace(owner, name: str, ours) -> None:
    original = vars(owner).get(name, _MISSING)
    setattr(owner, name, ours)
    _replaced.append((owner, name, original, ours))


def _naming(original: Callable, cause: str, reads: bool) -> Callable:
    """Return a method that notes under what name it was called; the outermost name counts."""

    @functools.wraps(original)
    def method(*args, **kwargs):
        if not state.logs or state.cause is not None:
            return original(*args, **kwargs)
        state.cause = cause
        try:
            return _telling(original, args, kwargs, cause) if reads else original(*args, **kwargs)
        finally:
            state.cause = None

    return method


def _telling(original: Callable, args: tuple, kwargs: dict, cause: str):
    """Read one value and note it: `torch.tensor([a, b])` hides the operators that read a and b."""
    device, size = args[0].device, args[0].itemsize
    if device.type in ("cpu", "meta"):
        return original(*args, **kwargs)
    seen = [record.sheet.transfers for record in state.logs]
    clock = host_clock(device.type)
    began = clock()
    result = original(*args, **kwargs)
    when = When(began, clock())
    for record, before in zip(state.logs, seen, strict=True):
        if record.sheet.transfers == before:
            record.transfer(Copy(device, torch.device("cpu"), size, False, True, False, cause), when)
            record.synchronization(device, cause, when)
    return result


def _printing(original: Callable) -> Callable:
    """Return a `__repr__` that notes the reading: PyTorch hides the operators of its own printing."""

    @functools.wraps(original)
    def method(tensor, *args, **kwargs):
        device, before = tensor.device, state.cause
        # `format()` of a tensor with dimensions prints it, and nothing else notes that.
        if not state.logs or before not in (None, "format()") or device.type in ("cpu", "meta"):
            return original(tensor, *args, **kwargs)
        clock = host_clock(device.type)
        began = clock()
        state.cause = "print"
        try:
            result = original(tensor, *args, **kwargs)
        finally:
            state.cause = before
        when = When(began, clock())
        for record in state.logs:
            size = _printed_elements(tensor) * tensor.itemsize
            record.transfer(Copy(device, torch.device("cpu"), size, False, True, False, "print"), when)
            record.synchronization(device, "print", when)
        return result

    return method


def _printed_elements(tensor: torch.Tensor) -> int:
    if tensor.numel() <= _PRINTED_WHOLE:
        return tensor.numel()
    elements = 1
    for length in tensor.shape:
        elements *= min(length, _PRINTED_EDGE)
    return elements


def _waiting(original: Callable, cause: str, kind: str = "") -> Callable:
    """Return a function that waits as the original does, and notes it."""

    @functools.wraps(original)
    def wait(*args, **kwargs):
        if not state.logs or state.cause is not None:
            return original(*args, **kwargs)
        device = _device_of(kind or _current_kind(), *args, **kwargs)
        clock = host_clock(device.type)
        began = clock()
        state.cause = cause  # torch.accelerator.synchronize may call the module's own
        try:
            result = original(*args, **kwargs)
        finally:
            state.cause = None
        if device.type != "cpu":
            when = When(began, clock())
            for record in state.logs:
                record.synchronization(device, cause, when)
        return result

    return wait


def _current_kind() -> str:
    current = torch.accelerator.current_accelerator()
    return current.type if current is not None else "cpu"


def _device_of(kind: str, *args, **kwargs) -> torch.device:
    """Return the device that a wait was for: the one given, the object's own, or the current one."""
    given = args[0] if args else kwargs.get("device")
    given = getattr(given, "device", given)
    if isinstance(given, int):
        return torch.device(kind, given)
    device = torch.device(given if isinstance(given, str | torch.device) else kind)
    if device.index is None and device.type != "cpu":
        module = torch.get_device_module(device)
        return torch.device(device.type, module.current_device() if hasattr(module, "current_device") else 0)
    return device


def _watch_class(module, name: str) -> None:
    """Note every call of `synchronize()` on a module's events or streams."""
    original = getattr(module, name, None)
    if not isinstance(original, type) or not hasattr(original, "synchronize"):
        return
    kind = "" if module is torch else module.__name__.rpartition(".")[2]
    wait = _waiting(original.synchronize, f"{name.lower()}.synchronize()", kind)
    try:
        _replace(original, "synchronize", wait)
    except TypeError:  # a class written in C takes no new method: let a subclass stand in for it
        body = {"synchronize": wait, "stands_for": original}
        _replace(module, name, _Stand(original.__name__, (original,), body))


class _Stand(type):
    """The type of a subclass that counts as the class it stands for."""

    def __instancecheck__(cls, instance) -> bool:
        return isinstance(instance, cls.stands_for)

    def __subclasscheck__(cls, subclass) -> bool:
        return issubclass(subclass, cls.stands_for)


def _following(original: Callable) -> Callable:
    """Return a `Thread.start` that takes the open watches along into the new thread."""

    @functools.wraps(original)
    def start(thread):
        if state.logs:
            follow(thread, state.logs)
        return original(thread)

    return start
