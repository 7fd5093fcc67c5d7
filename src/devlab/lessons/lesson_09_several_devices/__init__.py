"""Lesson 09: several devices: sums and stages across them, parts of a batch, and several processes."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

from devlab.checks import cases, verbs
from devlab.checks.calls import leaves
from devlab.checks.exercise import Lesson
from devlab.checks.seen import Seen, must
from devlab.checks.values import times
from devlab.watching.watch import Log

lesson = Lesson(
    "09_several_devices",
    "Several devices",
    ("add_across", "mean_across", "TwoStage", "scatter", "gather", "ddp_gradients"),
)

CPU = torch.device("cpu")


def have_float64(trial) -> bool:
    """Tell whether every device of the bench has float64."""
    return all(cases.holds(device, torch.float64) for device in cases.places(trial))


def see_transfers(log: Log, most: int, needed: str, size: int | None = None, why: str = "") -> Iterator[Seen]:
    """See that a log has at most so many transfers, of `size` bytes in all.

    `needed` says which transfers those are, and `why` what makes more bytes than that.
    """
    copies = log.events.transfers
    enough = {0: "none is needed", 1: "1 is enough"}.get(most, f"{most} are enough")
    headline = f"{times(len(copies), 'transfer')}, and {enough}"
    yield must(len(copies) <= most, headline, needed, name_routes(copies))
    if size is not None:
        headline = f"{log.bytes_moved} bytes were transferred, and {size} are enough: {why}"
        yield must(log.bytes_moved <= size, headline, needed, name_routes(copies))


def see_straight_transfers(
    log: Log, tensors: list[torch.Tensor], device: torch.device, itemsize: int | None = None
) -> Iterator[Seen]:
    """See that each tensor goes to the device at most once, straight, and not at all where it is there.

    `itemsize` is how many bytes a number may take on the way, if that is not what it takes in the tensor.
    """
    away = [tensor for tensor in tensors if tensor.device != device]
    needed = f"each tensor that is not on {device} once, straight, and none that is there already"
    detours = [copy for copy in log.events.transfers if copy.target != str(device)]
    for copy in detours:
        headline = f"something goes from {copy.source} to {copy.target}, and all is wanted on {device}"
        yield must(False, headline, needed, name_routes(detours))
    size = sum(tensor.numel() * (itemsize or tensor.itemsize) for tensor in away)
    yield from see_transfers(log, len(away), needed, size, "something goes twice")


def name_routes(copies: Sequence) -> str:
    """Return the ways of the first transfers, and the line that made the last."""
    return f"{verbs.routes(copies)}; the last at {copies[-1].line}" if copies else ""


def see_gradients(got: object, inputs: Mapping[str, torch.Tensor], what: str) -> Iterator[tuple]:
    """See the gradients that flow from a result back to those inputs that ask for a gradient."""
    for name, leaf in inputs.items():
        if leaf.requires_grad:
            verbs.flows(
                got,
                leaf,
                None,
                name,
                cut=f"{what} has lost its graph",
                none=f"no gradient came back to {name}",
                asked=f"{what} with a graph that leads back to {name}",
            )
            yield f"the gradient of {name}", leaf.grad, 1e-3


def see_alike(got: object, like: object, what: str) -> Iterator[Seen]:
    """See the same containers as in `like`, and in them equal tensors on the devices where ours are."""
    if isinstance(like, torch.Tensor):
        yield Seen(what, got, 0.0, right=like)  # copies differ in nothing
        return
    asked = type(like).__name__
    same = type(got) is type(like)
    yield must(same, f"{what} is a {type(got).__name__}, not a {asked}", f"a {asked}", got)
    found, keys = (list(one) if isinstance(one, dict) else list(range(len(one))) for one in (got, like))
    in_order = found == keys or set(found) != set(keys)
    yield must(in_order, f"the keys of {what} are in another order", f"{keys}", f"{found}")
    yield must(found == keys, f"items of {what} are missing or new", f"{len(like)} items", got)
    for key in keys:
        yield from see_alike(got[key], like[key], f"{what}[{key!r}]")


def cut(batch: object, start: int, stop: int, device: torch.device | None = None) -> object:
    """Return rows `start` up to `stop` of every tensor of a batch, on a device if one is named."""
    return each(lambda tensor: tensor[start:stop].to(device or tensor.device), batch)


def still_under_way(log: Log) -> list:
    """Return the copies to the CPU for which nothing waited."""
    copies = [copy for copy in log.events.transfers if copy.target == "cpu" and not copy.blocking]
    return [] if log.synchronizations else copies


def make_batch(trial, rows: int, on: torch.device | None = None) -> dict:
    """Return a nested batch of `rows` rows, on the trial's device or another."""
    x = trial.randn(rows, 3, seed=trial.seeds[0], on=on)
    y = trial.randint(0, 9, (rows,), seed=trial.seeds[1]).to(on or trial.device)
    return {"x": x, "more": [y, (x[:, 1] * 2, x[:, :2, None])], "large": y > 4}


def each(change: Callable, *values: object) -> object:
    """Return nested dicts, lists and tuples with `change(tensor)` in the place of every tensor.

    Of several values of one form `change` gets the tensors that stand in the same place.

    >>> each(len, {"x": [torch.ones(2)]})
    {'x': [2]}
    """
    first = values[0]
    if isinstance(first, torch.Tensor):
        return change(*values)
    if isinstance(first, dict):
        return {key: each(change, *(value[key] for value in values)) for key in first}
    return type(first)(each(change, *items) for items in zip(*values, strict=True))


def tensors_in(value: object) -> list[torch.Tensor]:
    """Return the tensors in nested dicts, lists and tuples, in their order."""
    return [leaf for _, leaf in leaves(value) if isinstance(leaf, torch.Tensor)]
