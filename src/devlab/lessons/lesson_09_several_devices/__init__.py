"""Lesson 09: several devices: sums and stages across them, parts of a batch, and several processes."""

import torch

from devlab.checks import expect
from devlab.checks.exercise import Lesson
from devlab.watching.watch import Log

lesson = Lesson(
    "09_several_devices",
    "Several devices",
    ("add_across", "mean_across", "TwoStage", "scatter", "gather", "ddp_gradients"),
)


def places(trial) -> list[torch.device]:
    """Return every device of the bench, the trial's own first; raises Skip where there is only one."""
    trial.other()
    return [trial.device, *trial.others]


def expect_at_most(log: Log, count: int, needed: str) -> None:
    """Expect at most `count` transfers; `needed` says which those are."""
    if log.transfers > count:
        made = "1 transfer" if log.transfers == 1 else f"{log.transfers} transfers"
        enough = {0: "none is needed", 1: "1 is enough"}.get(count, f"{count} are enough")
        expect.fail(f"{made}, and {enough}", needed, _moves(log))


def expect_straight(log: Log, tensors: list[torch.Tensor], device: torch.device) -> None:
    """Expect each tensor to go to the device at most once, straight, and not at all where it is there."""
    away = [tensor for tensor in tensors if tensor.device != device]
    needed = f"each tensor that is not on {device} once, straight, and none that is there already"
    detour = next((copy for copy in log.events.transfers if copy.target != str(device)), None)
    if detour is not None:
        headline = f"something goes from {detour.source} to {detour.target}, and all is wanted on {device}"
        expect.fail(headline, needed, _moves(log))
    expect_at_most(log, len(away), needed)
    size = sum(tensor.nbytes for tensor in away)
    if log.bytes_moved > size:
        headline = f"{log.bytes_moved} bytes were transferred, and {size} are enough: something goes twice"
        expect.fail(headline, needed, _moves(log))


def _moves(log: Log) -> str:
    """Return the first transfers of a log, and the line of the last."""
    moved = log.events.transfers
    shown = ", ".join(f"{copy.source} to {copy.target}" for copy in moved[:4]) + (" …" if moved[4:] else "")
    line = f"{moved[-1].line}"
    return f"{shown}; the last at {line}" if line else shown


def expect_graph(got: torch.Tensor, what: str) -> None:
    """Expect a tensor that backward can start from."""
    if not got.requires_grad:
        expect.fail(f"{what} has lost its graph", f"{what} with a graph that leads back to the inputs", got)


def expect_gradient(tensor: torch.Tensor, wanted: torch.Tensor, name: str) -> None:
    """Expect that backward left the wanted gradient in a tensor, where the tensor is."""
    if tensor.grad is None:
        expect.fail(f"no gradient came back to {name}", f"{name}.grad on {tensor.device}", "None")
    expect.tensor(tensor.grad, wanted, tensor.device, f"the gradient of {name}", within=1e-4)
