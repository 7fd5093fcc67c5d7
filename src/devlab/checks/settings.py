"""PyTorch's settings of the whole program, which an answer leaves as they are."""

import contextlib
import functools
from collections.abc import Callable, Iterator

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


def kept(
    trial: Trial,
    *args: object,
    names: tuple[str, ...] = PLACES,
    device: torch.device | None = None,
    dtype: torch.dtype | None = None,
) -> object:
    """Call the answer as `trial.call` does; raises Mismatch where it leaves one of the settings changed.

    `device` and `dtype` are the defaults while it runs: an answer that sets what a new process has, in place
    of what was there, changes them.
    """
    states = []  # before and after; a replay calls no answer, and has nothing to say of settings

    @functools.wraps(trial.answer)
    def noted(*args: object) -> object:
        with _defaults(device, dtype):
            states.append({name: SETTINGS[name]() for name in names})
            try:
                return trial.answer(*args)
            finally:
                states.append({name: SETTINGS[name]() for name in names})

    trial.require_parameters(args)
    told = [f"torch.set_default_device({str(device)!r})"] if device else []
    told += [f"torch.set_default_dtype({dtype})"] if dtype else []
    got = trial.run(noted, *args, label=f"after {' and '.join(told)}: {trial.name}" if told else trial.name)
    before, after = states or ({}, {})
    for name in before:
        if before[name] != after[name]:
            headline = f"your code changed the {name} of the whole program"
            expect.fail(headline, f"still {before[name]}", f"{after[name]}")
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


@contextlib.contextmanager
def _defaults(device: torch.device | None, dtype: torch.dtype | None) -> Iterator[None]:
    """Let new tensors go to a device and have a dtype, in a block, unless they are told otherwise."""
    if device is not None:
        torch.set_default_device(device)
    if dtype is not None:
        torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        if device is not None:
            torch.set_default_device(None)
        if dtype is not None:
            torch.set_default_dtype(torch.float32)
