"""Lesson 09: several devices: sums and stages across them, and several processes."""

from collections.abc import Iterator, Mapping, Sequence

import torch

from devlab.checks import cases, expect, verbs
from devlab.checks.exercise import Lesson
from devlab.checks.seen import Seen, must
from devlab.checks.values import times
from devlab.lessons import among_ranks, ranks
from devlab.watching.watch import Log

lesson = Lesson(
    "09_several_devices",
    "Several devices",
    ("add_across", "mean_across", "TwoStage", "ddp_gradients", "accumulated_gradients"),
)

CPU = torch.device("cpu")
LIST, EACH = "a list of gradients", "a gradient for each parameter"


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


def run_in_processes(trial, data: Sequence[tuple[torch.Tensor, ...]]) -> list[ranks.Report]:
    """Run the answer in a process for each rank; raise what a learner should read where one failed."""
    given = [[part.tolist() for part in own] for own in data]
    reports = among_ranks.reports(trial, trial.answer, given, "gradients from each process")
    for rank, report in enumerate(reports):
        if report.kind == "NoneType":
            expect.fail(f"rank {rank} returned None: is a `return` missing?", LIST, "None")
        if report.kind != "list":
            headline = f"rank {rank} returned a {report.kind}, and the task asks for a list"
            expect.fail(headline, LIST, report.kind)
    return reports


def read_gradients(report: ranks.Report, rank: int) -> list[torch.Tensor]:
    """Return a rank's gradients; raises where something else is in the list."""
    found = []
    for number, item in enumerate(report.result):
        kind, what = item.get("is"), f"item {number} of rank {rank}'s list"
        if kind == "NoneType":
            headline = f"{what} is None: backward fills it, and `zero_grad` takes it away again"
            expect.fail(headline, EACH, "None")
        if kind:
            expect.fail(f"{what} is a {kind}, and the task asks for a tensor", EACH, kind)
        if item["parameter"]:
            headline = f"rank {rank} returned the parameters, and the task asks for their gradients"
            expect.fail(headline, "`parameter.grad` of each", "the parameters themselves")
        if not item["device"].startswith("cpu"):
            expect.fail(f"rank {rank}'s gradients are on {item['device']}", "the CPU", item["device"])
        found.append(torch.tensor(item["values"]).reshape(item["shape"]))
    return found
