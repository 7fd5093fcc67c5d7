"""Lesson 09: several devices: sums and stages across them, parts of a batch, and several processes."""

from collections.abc import Callable, Mapping

import torch

from devlab.checks import cases, expect, verbs
from devlab.checks.calls import leaves
from devlab.checks.exercise import Lesson
from devlab.watching.watch import Log

lesson = Lesson(
    "09_several_devices",
    "Several devices",
    ("add_across", "mean_across", "TwoStage", "scatter", "gather", "ddp_gradients"),
)

CPU = torch.device("cpu")
MOVES = "{routes}; the last at {last.line}"


def have_float64(trial) -> bool:
    """Tell whether every device of the bench has float64."""
    return all(cases.holds(device, torch.float64) for device in cases.places(trial))


def expect_at_most(log: Log, count: int, needed: str, size: int | None = None, why: str = "") -> None:
    """Expect at most `count` transfers, of `size` bytes in all.

    `needed` says which transfers those are, and `why` what makes more bytes than that.
    """
    enough = {0: "none is needed", 1: "1 is enough"}.get(count, f"{count} are enough")
    verbs.counts(log.events.transfers, count, f"{{times}}, and {enough}", needed, MOVES)
    if size is not None and log.bytes_moved > size:
        headline = f"{log.bytes_moved} bytes were transferred, and {size} are enough: {why}"
        verbs.counts(log.events.transfers, 0, headline, needed, MOVES)


def expect_straight(
    log: Log, tensors: list[torch.Tensor], device: torch.device, itemsize: int | None = None
) -> None:
    """Expect each tensor to go to the device at most once, straight, and not at all where it is there.

    `itemsize` is how many bytes a number may take on the way, if that is not what it takes in the tensor.
    """
    away = [tensor for tensor in tensors if tensor.device != device]
    needed = f"each tensor that is not on {device} once, straight, and none that is there already"
    detours = [copy for copy in log.events.transfers if copy.target != str(device)]
    headline = f"something goes from {{one.source}} to {{one.target}}, and all is wanted on {device}"
    verbs.counts(detours, 0, headline, needed, MOVES)
    size = sum(tensor.numel() * (itemsize or tensor.itemsize) for tensor in away)
    expect_at_most(log, len(away), needed, size, "something goes twice")


def still_under_way(log: Log) -> list:
    """Return the copies to the CPU for which nothing waited."""
    copies = [copy for copy in log.events.transfers if copy.target == "cpu" and not copy.blocking]
    return [] if log.synchronizations else copies


def expect_gradients(got: object, function: Callable, inputs: Mapping[str, torch.Tensor], what: str) -> None:
    """Expect that the gradients of a function of these inputs flow back to those that ask for one."""
    twins = [one.detach().cpu().requires_grad_(one.requires_grad) for one in inputs.values()]
    verbs.pull(function(*twins))
    for (name, leaf), twin in zip(inputs.items(), twins, strict=True):
        if leaf.requires_grad:
            verbs.flows(
                got,
                leaf,
                twin.grad,
                name,
                cut=f"{what} has lost its graph",
                none="no gradient came back to {what}",
                wrong="the gradient of {what}",
                asked=f"{what} with a graph that leads back to {{what}}",
            )


def make_batch(trial, rows: int, on: torch.device | None = None) -> dict:
    """Return a nested batch of `rows` rows, on the trial's device or another."""
    x = trial.randn(rows, 3, seed=trial.seeds[0], on=on)
    y = trial.randint(0, 9, (rows,), seed=trial.seeds[1]).to(on or trial.device)
    return {"x": x, "more": [y, (x[:, 1] * 2, x[:, :2, None])], "large": y > 4}


def each(value: object, change: Callable) -> object:
    """Return nested dicts, lists and tuples with `change(tensor)` in the place of every tensor.

    >>> each({"x": [torch.ones(2)]}, len)
    {'x': [2]}
    """
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: each(item, change) for key, item in value.items()}
    return type(value)(each(item, change) for item in value)


def rows_of(value: object, start: int, stop: int) -> object:
    """Return the reference of a part: rows `start` up to `stop` of every tensor, on the CPU."""
    return each(value, lambda tensor: tensor[start:stop].cpu())


def tensors_in(value: object) -> list[torch.Tensor]:
    """Return the tensors in nested dicts, lists and tuples, in their order."""
    return [leaf for _, leaf in leaves(value) if isinstance(leaf, torch.Tensor)]


def expect_alike(got: object, wanted: object, device: torch.device, what: str) -> None:
    """Expect the same containers, and in them equal tensors on the device."""
    if isinstance(wanted, torch.Tensor):
        expect.tensor(got, wanted, device, what, within=0.0)  # copies differ in nothing
        return
    if type(got) is not type(wanted):
        words = type(wanted).__name__
        expect.fail(f"{what} is a {type(got).__name__}, not a {words}", f"a {words}", got)
    found, keys = (list(one) if isinstance(one, dict) else list(range(len(one))) for one in (got, wanted))
    if found != keys and set(found) == set(keys):
        expect.fail(f"the keys of {what} are in another order", f"{keys}", f"{found}")
    if found != keys:
        expect.fail(f"items of {what} are missing or new", f"{len(wanted)} items", got)
    for key in keys:
        expect_alike(got[key], wanted[key], device, f"{what}[{key!r}]")
