"""PyTorch's settings of the whole program: what they are, what changed them, and unusual ones."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from devlab.checks.expect import Mismatch
from devlab.checks.isolation import current_index


def default_device() -> torch.device | str:
    """Return the default device, or words for one that is not on this machine."""
    try:
        return torch.get_default_device()
    except (AssertionError, RuntimeError):  # PyTorch makes a tensor there to learn the index
        return "a device that is not here"


GETTERS: dict[str, Callable[[], object]] = {
    "default device": default_device,
    "default dtype": torch.get_default_dtype,
    "gradient mode": torch.is_grad_enabled,
    "current device": current_index,
}
# How a setting is changed, as a learner would write it.
WORDS: dict[str, Callable[[object], str]] = {
    "default device": lambda value: f"torch.set_default_device({str(value)!r})",
    "default dtype": lambda value: f"torch.set_default_dtype({value})",
    "gradient mode": lambda value: f"torch.set_grad_enabled({value})",
    "current device": lambda value: f"torch.accelerator.set_device_index({value})",
}


class Changed(Mismatch):
    """An answer left a setting of the whole program changed: `name` says which, `before` what it was."""

    def __init__(self, name: str, before: object, after: object):
        super().__init__(f"your code changed the {name} of the whole program", f"still {before}", str(after))
        self.name = name
        self.before = before


def now() -> dict[str, object]:
    """Return the value of each setting.

    >>> now()["gradient mode"]
    True
    """
    return {name: value() for name, value in GETTERS.items()}


def changes(before: dict[str, object]) -> list[Changed]:
    """Return what is another than before."""
    after = now()
    return [Changed(name, value, after[name]) for name, value in before.items() if after[name] != value]


def restore(before: dict[str, object]) -> None:
    """Make each setting what it was."""
    torch.set_default_device(None)
    if default_device() != before["default device"] and isinstance(before["default device"], torch.device):
        torch.set_default_device(before["default device"])
    if torch.get_default_dtype() is not before["default dtype"]:  # to set takes ten times as long
        torch.set_default_dtype(before["default dtype"])
    if torch.is_grad_enabled() is not before["gradient mode"]:
        torch.set_grad_enabled(before["gradient mode"])
    if current_index() != before["current device"]:
        torch.accelerator.set_device_index(before["current device"])


@dataclass(frozen=True)
class Unusual:
    """Settings that are not those of a new process, to call an answer under; None leaves one as it is.

    >>> with Unusual(dtype=torch.float64).in_force():
    ...     torch.ones(1).dtype
    torch.float64
    """

    device: torch.device | None = None
    dtype: torch.dtype | None = None
    grad: bool | None = None
    current: int | None = None

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Set them for a block, and put back afterwards whatever was there."""
        before = now()
        try:
            if self.device is not None:
                torch.set_default_device(self.device)
            if self.dtype is not None:
                torch.set_default_dtype(self.dtype)
            if self.grad is not None:
                torch.set_grad_enabled(self.grad)
            if self.current is not None:
                torch.accelerator.set_device_index(self.current)
            yield
        finally:
            restore(before)


def unusual(device: torch.device, others: tuple[torch.device, ...]) -> list[Unusual]:
    """Return settings to judge an answer under: all at once, then one by one for what fails under all."""
    elsewhere = others[-1] if others else torch.device("meta")
    several = sum(one.type != "cpu" for one in (device, *others)) > 1
    single = [Unusual(device=elsewhere), Unusual(dtype=torch.float64), Unusual(grad=False)]
    single += [Unusual(current=1)] if several else []
    return [Unusual(elsewhere, torch.float64, False, 1 if several else None), *single]
