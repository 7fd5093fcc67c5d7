"""What an answer that gives wrong bytes has counted, found out by asking it once more about known amounts."""

from collections.abc import Callable

import torch

from devlab.checks.calls import AnswerRaised
from devlab.checks.expect import Mismatch
from devlab.lessons.lesson_08_memory import MIB, UNITS, Once, floats

LARGE = 20 * MIB + 512  # bytes, which need a segment of their own: it is larger by more than a MiB
SEGMENT = 22 * MIB


def _asked(trial, fn: Callable) -> int | None:
    """Return what the answer says of a function, None where it raises or gives no number."""
    call = trial.last_call
    try:
        got = trial.call(Once(fn), trial.device)
    except (AnswerRaised, Mismatch):
        return None
    finally:
        trial.last_call = call  # verdicts show the call that was judged
    return got if isinstance(got, int) else None


def what_it_keeps(trial, module) -> str:
    """Return what an answer to `bytes_kept` counts instead of what a result holds; "" where nothing shows."""
    shelf: list[torch.Tensor] = []

    def large_result():
        return floats(LARGE // 4, trial.device)

    def large_on_a_shelf():
        shelf.append(floats(LARGE // 4, trial.device))

    if found := _elsewhere(trial):
        return found
    module.empty_cache()
    got = _asked(trial, large_result)
    module.empty_cache()
    if got == SEGMENT:
        return "that is the growth of reserved memory, which grows by whole segments, and seldom"
    if got == 0 and _asked(trial, large_on_a_shelf) == LARGE:
        return "the result was gone when the account was read again: hold it under a name until then"
    if got == 0:
        order = "one has to come before fn is called, and one after it"
        return f"both looks at the account saw the same: {order}, both at {trial.device}"
    return _in_units(got, LARGE)


def what_it_takes(trial, module) -> str:
    """Return what an answer to `peak_bytes` counts in place of the peak; "" where nothing shows."""

    def large_on_the_way():
        floats(LARGE // 4, trial.device)

    if found := _elsewhere(trial):
        return found
    module.empty_cache()
    module.reset_peak_memory_stats(trial.device)
    got = _asked(trial, large_on_the_way)
    module.empty_cache()
    if got == SEGMENT:
        return "that is the peak of reserved memory, which grows by whole segments, and seldom"
    if got == 0:
        return f"the peak was reset after fn had run, or read before, or is not that of {trial.device}"
    floats(LARGE // 2, trial.device)  # an earlier peak, gone again
    if got == LARGE and (_asked(trial, large_on_the_way) or 0) < LARGE:
        return "the peak before fn was taken off, not what was allocated then"
    return _in_units(got, LARGE)


def _elsewhere(trial) -> str:
    """Return that another device's account is read, if a tensor there is counted."""
    other = next((one for one in trial.others if one.type == trial.device.type), None)
    if other is None:
        return ""

    def large_elsewhere():
        return floats(LARGE // 4, other)

    def large_here():
        return floats(LARGE // 4, trial.device)

    if (_asked(trial, large_elsewhere) or 0) <= 0:
        return ""
    if (_asked(trial, large_here) or 0) > 0:
        return f"memory on {other} is counted as well, and {trial.device} alone was asked about"
    return f"the account of {other} was read, and {trial.device} was asked about: name the device"


def _in_units(got: int | None, wanted: int) -> str:
    found = [unit for size, unit in UNITS.items() if got is not None and got == wanted // size]
    return f"that is a number of {found[0]}, and bytes are asked" if found else ""
