"""The lesson itself, and what its judgements share: two places, copies counted, graphs followed."""

import torch

from devlab.checks import expect
from devlab.checks.exercise import Lesson
from devlab.instruments.watch import Log

lesson = Lesson("09_several_devices", "Several devices")


def places(trial) -> list[torch.device]:
    """Return every device of the bench, the trial's own first; raises Skip where there is only one."""
    trial.other()
    return [trial.device, *trial.others]


def expect_at_most(log: Log, count: int, needed: str) -> None:
    """Expect at most `count` transfers; `needed` says which those are."""
    if log.transfers > count:
        plural = "s" if log.transfers > 1 else ""
        shown = [f"{copy.source} to {copy.target}" for copy in log.events.transfers[:4]]
        journeys = ", ".join(shown) + (" …" if log.transfers > len(shown) else "")
        expect.fail(f"{log.transfers} transfer{plural}, where {count or 'none'} would do", needed, journeys)


def expect_graph(got: torch.Tensor, what: str) -> None:
    """Expect a tensor that backward can start from."""
    if not got.requires_grad:
        expect.fail(f"{what} has lost its graph", f"{what} with a graph that leads back to the inputs", got)


def expect_gradient(tensor: torch.Tensor, wanted: torch.Tensor, name: str) -> None:
    """Expect that backward left the wanted gradient in a tensor, where the tensor is."""
    if tensor.grad is None:
        expect.fail(f"no gradient came back to {name}", f"{name}.grad on {tensor.device}", "None")
    expect.tensor(tensor.grad, wanted, tensor.device, f"the gradient of {name}", within=1e-4)
