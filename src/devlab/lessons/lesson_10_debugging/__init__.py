"""Lesson 10: debugging, five tools that look and three broken programs to mend."""

import contextlib
from collections.abc import Iterator

import torch
from torch import nn

from devlab.checks import verbs
from devlab.checks.calls import leaves
from devlab.checks.exercise import Lesson
from devlab.watching.watch import Log

lesson = Lesson(
    "10_debugging",
    "Debugging",
    (
        "describe",
        "device_report",
        "find_strays",
        "fix_mask",
        "FixedPositions",
        "fix_hidden_state",
        "first_not_finite",
        "failing_step",
    ),
)

NUMBER = 8  # bytes of one number, such as a fill value, which is no detour
FEW = 2  # such numbers: more of them may be a tensor that goes element by element


def unchanged(module: nn.Module, headline: str) -> contextlib.AbstractContextManager[None]:
    """Expect of a block that it changes nothing of a module; `{path}` in the headline is what it changed."""
    return verbs.untouched(module, headline, "all as it came", "another `{path}`, or the same elsewhere")


def watched_straight(trial, *args: object, what: str = "", makes: str = "") -> object:
    """Call the answer; expect on an accelerator that each tensor it moves goes there once, and stays.

    `what` names the argument that may be elsewhere. `makes` names, with its verb ("the mask was"), what the
    answer makes itself: that has to be made there.
    """
    got, log = trial.watched(*args)
    home = str(trial.device)
    if home == "cpu":
        return got
    moved = whole_tensors(log)
    back = [copy for copy in moved if copy.source == home]
    verbs.counts(
        back,
        0,
        "something left {one.source} for {one.target}",
        f"all the work on {home}, where the others are",
    )
    given = [one for _, one in leaves(args) if isinstance(one, torch.Tensor)]
    away = sum(one.device != trial.device for one in given)
    headline, asked = (
        f"{{times}}, where {what} can go to {home} in one",
        "one transfer, straight to",
    )
    if makes and not away:
        headline, asked = f"{makes} made on the CPU and brought to {home} at each call", "made on"
    verbs.counts(moved, away, headline, f"{asked} {home}", "{last.line}")
    return got


def whole_tensors(log: Log) -> list:
    """Return the transfers of a log, but for a number or two."""
    copies = log.events.transfers
    numbers = [copy for copy in copies if copy.bytes <= NUMBER]
    return copies if len(numbers) > FEW else [copy for copy in copies if copy.bytes > NUMBER]


def sources(trial) -> tuple[torch.device, ...]:
    """Return the devices from which the answer may have to bring a tensor to the trial's.

    For a trial on the CPU that is the CPU alone. A copy to the CPU with `non_blocking=True` may be read
    before it has arrived, which is another lesson's subject; in the other direction that habit does no harm.
    """
    return (trial.device,) if trial.device.type == "cpu" else (trial.device, *trial.others)


def see_gradients(
    what: str, result: object, leaves: dict[str, torch.Tensor], within: float | None = None
) -> Iterator[tuple]:
    """See a result in a scene, and then the gradient that flows from it back to each leaf, by its name."""
    yield what, result, within
    for name, leaf in leaves.items():
        verbs.flows(result, leaf, None, name)
        yield f"the gradient that reaches {name}", leaf.grad, 1e-3
