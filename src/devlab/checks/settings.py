"""An answer called with settings that its task speaks of: a default device or dtype, a current device."""

import contextlib
import functools
from collections.abc import Iterator

import torch

from devlab.checks import defaults
from devlab.checks.trial import Trial


def kept(
    trial: Trial, *args: object, device: torch.device | None = None, dtype: torch.dtype | None = None
) -> object:
    """Call the answer as `trial.call` does, with these defaults in force; a verdict names them.

    For tasks that promise a result whatever the defaults are. That the settings stay as they are is part of
    every call.
    """
    asked, left = defaults.Unusual(device, dtype), []

    @functools.wraps(trial.answer)
    def called(*args: object) -> object:
        with asked.in_force():
            before = defaults.now()
            result = trial.answer(*args)
            left.extend(defaults.changes(before))
            return result

    trial.require_parameters(args)
    values = {"default device": device, "default dtype": dtype}
    told = " and ".join(defaults.WORDS[name](value) for name, value in values.items() if value)
    got = trial.run(called, *args, label=f"after {told}: {trial.name}" if told else trial.name)
    if left:  # raised here, because in there it would be an exception of the learner's
        raise left[0]
    return got


@contextlib.contextmanager
def current(device: torch.device) -> Iterator[None]:
    """Make a device the one that a bare name of its kind means, for a block; of the CPU there is one."""
    if device.type == "cpu":
        yield
        return
    before = torch.accelerator.current_device_index()
    torch.accelerator.set_device_index(device.index)
    try:
        yield
    finally:
        torch.accelerator.set_device_index(before)
