"""Lesson 09: several devices: sums and stages across them, parts of a batch, and several processes."""

from collections.abc import Mapping

import torch

from devlab.checks import expect
from devlab.checks.calls import leaves
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


CPU = torch.device("cpu")


def make_batch(trial, rows: int, on: torch.device | None = None) -> dict:
    """Return a nested batch of `rows` rows, on the trial's device or another."""
    x = trial.randn(rows, 3, seed=trial.seeds[0], on=on)
    y = trial.randint(0, 9, (rows,), seed=trial.seeds[1]).to(on or trial.device)
    return {"x": x, "more": [y, (x[:, 1] * 2, x[:, :2, None])], "large": y > 4}


def rows_of(value: object, start: int, stop: int) -> object:
    """Return the reference of a part: rows `start` up to `stop` of every tensor, on the CPU."""
    if isinstance(value, torch.Tensor):
        return value[start:stop].cpu()
    return rebuilt(value, lambda item: rows_of(item, start, stop))


def rebuilt(value: object, change) -> object:
    if isinstance(value, Mapping):
        return {key: change(item) for key, item in value.items()}
    return type(value)(change(item) for item in value)


def tensors_in(value: object) -> list[torch.Tensor]:
    return [leaf for _, leaf in leaves(value) if isinstance(leaf, torch.Tensor)]


def expect_alike(got: object, wanted: object, device: torch.device, what: str) -> None:
    """Expect the same containers, and in them equal tensors on the device."""
    if isinstance(wanted, torch.Tensor):
        expect.tensor(got, wanted, device, what, within=0.0)  # copies differ in nothing
        return
    if type(got) is not type(wanted):
        words = type(wanted).__name__
        expect.fail(f"{what} is a {type(got).__name__}, not a {words}", f"a {words}", got)
    keys = list(wanted) if isinstance(wanted, Mapping) else range(len(wanted))
    if len(got) != len(wanted) or (isinstance(wanted, Mapping) and list(got) != keys):
        if isinstance(wanted, Mapping) and set(got) == set(wanted):
            expect.fail(f"the keys of {what} are in another order", f"{keys}", f"{list(got)}")
        expect.fail(f"items of {what} are missing or new", f"{len(wanted)} items", got)
    for key in keys:
        expect_alike(got[key], wanted[key], device, f"{what}[{key!r}]")
