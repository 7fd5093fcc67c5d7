"""PyTorch's settings of the whole program, which an answer leaves as they are."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from devlab.checks import expect

if TYPE_CHECKING:
    from devlab.checks.trial import Trial


def _current() -> int | None:
    return torch.accelerator.current_device_index() if torch.accelerator.is_available() else None


SETTINGS: dict[str, Callable[[], object]] = {
    "default device": torch.get_default_device,
    "default dtype": torch.get_default_dtype,
    "current device": _current,
    "gradient mode": lambda: "on" if torch.is_grad_enabled() else "off",
}
PLACES = ("default device", "default dtype", "current device")


def kept(trial: "Trial", *args: object, names: tuple[str, ...] = PLACES) -> object:
    """Call the answer as `trial.call` does; raises Mismatch where it leaves one of the settings changed."""
    before = {name: SETTINGS[name]() for name in names}
    after = before  # a replay calls no answer: it has nothing to say of settings

    @functools.wraps(trial.answer)
    def noted(*args: object) -> object:
        nonlocal after
        try:
            return trial.answer(*args)
        finally:
            after = {name: SETTINGS[name]() for name in names}

    trial.require_parameters(args)
    got = trial.run(noted, *args, label=trial.name)
    for name in names:
        if before[name] != after[name]:
            headline = f"your code changed the {name} of the whole program"
            expect.fail(headline, f"still {before[name]}", f"{after[name]}")
    return got
