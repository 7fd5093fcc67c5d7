"""A cheap memory of where tensors were made on another device than the course's own.

While the memory is active, PyTorch's factories (`torch.zeros`, `torch.tensor` and their like) note the file
and line of the code that called them, if the tensor is not on the home device. Nothing else is touched, no
tensor is kept alive, and other operations cost what they did.

>>> remember("meta")
>>> x = torch.zeros(2)
>>> birth_of(x) is not None
True
>>> forget()
>>> birth_of(x) is None
True
"""

import functools
import sys
import weakref
from collections.abc import Callable

import torch

from devlab.attribution import point_at_callers
from devlab.checks.calls import PACKAGE, is_learners, place
from devlab.sim.snapshot import hide_instruments

WATCHED = (
    "arange", "as_tensor", "asarray", "empty", "eye", "from_numpy", "full", "linspace", "logspace",
    "ones", "rand", "randint", "randn", "randperm", "tensor", "zeros", "zeros_like", "ones_like",
    "full_like", "rand_like", "randn_like", "tril_indices", "triu_indices",
)  # fmt: skip
_MOST = 50_000

_originals: dict[str, Callable] = {}
_births: dict[int, "_Birth"] = {}
_whose: dict[str, str] = {}
_home: list[torch.device] = []
_refraining: list[bool] = []


def remember(home: torch.device | str) -> None:
    """Begin to remember where tensors on any other device than `home` are made."""
    _home[:] = [torch.device(home)]
    if _originals or _refraining:
        return
    point_at_callers()
    hide_instruments()
    with torch.device("cpu"):  # PyTorch lists its factories once, and must list the original ones
        torch.empty(0)
    for name in WATCHED:
        original = getattr(torch, name)
        _originals[name] = original
        setattr(torch, name, _noting(original))


def forget() -> None:
    """Stop remembering, and put PyTorch's own factories back."""
    while _originals:
        name, original = _originals.popitem()
        if getattr(getattr(torch, name), "__wrapped__", None) is original:
            setattr(torch, name, original)
    _births.clear()
    _home.clear()


def refrain() -> None:
    """Remember nothing from now on, for as long as this process lives: no reader awaits an explanation."""
    forget()
    _refraining[:] = [True]


def active() -> bool:
    """Tell whether births are being remembered."""
    return bool(_originals)


def birth_of(tensor: torch.Tensor) -> str | None:
    """Return the place at which a tensor was made, if it was remembered."""
    birth = _births.get(id(tensor))
    if birth is None or birth() is not tensor:
        return None
    return f"{place(birth.filename)}, line {birth.line}"


def _noting(original: Callable) -> Callable:
    @functools.wraps(original)
    def factory(*args, **kwargs):
        made = original(*args, **kwargs)
        if isinstance(made, torch.Tensor) and made.device != _home[0] and not torch.compiler.is_compiling():
            _note(made, sys._getframe(1))
        return made

    return factory


class _Birth(weakref.ref):
    """A weak reference to a tensor, with the place of its birth, that strikes itself off the list."""

    __slots__ = ("filename", "key", "line")


def _forget_one(birth: _Birth, births: dict[int, _Birth] = _births) -> None:
    # `births` is bound here: when Python ends, a tensor may outlive the names of this module.
    births.pop(birth.key, None)


def _owner(filename: str) -> str:
    """Return whose code a file holds: the learner's, the judge's, or any other."""
    if is_learners(filename):
        return "learner"
    judges = (str(PACKAGE / "checks"), str(PACKAGE / "lessons"))
    return "judge" if filename.startswith(judges) else "other"


def _note(tensor: torch.Tensor, frame) -> None:
    while frame is not None:
        filename = frame.f_code.co_filename
        whose = _whose.get(filename)
        if whose is None:
            whose = _whose[filename] = _owner(filename)
        if whose == "learner":
            break
        if whose == "judge":  # the line that asked for a verdict did not make the judge's inputs
            return
        frame = frame.f_back
    if frame is None or len(_births) >= _MOST:
        return
    birth = _Birth(tensor, _forget_one)
    birth.key, birth.filename, birth.line = id(tensor), filename, frame.f_lineno
    _births[birth.key] = birth
