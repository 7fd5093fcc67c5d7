"""PyTorch's settings of the whole program, which an answer leaves as they are."""

import functools
from collections.abc import Callable

import torch

from devlab.checks import expect
from devlab.checks.isolation import current_index
from devlab.checks.trial import Trial

SETTINGS: dict[str, Callable[[], object]] = {
    "default device": torch.get_default_device,
    "default dtype": torch.get_default_dtype,
    "current device": current_index,
    "gradient mode": lambda: "on" if torch.is_grad_enabled() else "off",
}
PLACES = ("default device", "default dtype", "current device")


def kept(trial: Trial, *args: object, names: tuple[str, ...] = PLACES) -> object:
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
