"""Lesson 10: debugging, three tools that look and six broken programs to mend."""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from devlab.checks import expect, slips
from devlab.checks.exercise import Lesson
from devlab.checks.holding import changed

lesson = Lesson(
    "10_debugging",
    "Debugging",
    (
        "describe",
        "device_report",
        "find_strays",
        "fix_batch",
        "fix_labels",
        "fix_loss_weight",
        "fix_mask",
        "FixedPositions",
        "fix_hidden_state",
    ),
)

NUMBER = 8  # bytes of one number, such as a fill value, which is no detour


def holding(**attributes: object) -> nn.Module:
    """Return a bare module with the attributes, set as `self.name = value` sets them."""
    module = nn.Module()
    for name, value in attributes.items():
        setattr(module, name, value)
    return module


def weights(module: nn.Module) -> list[torch.Tensor]:
    """Return a copy on the CPU of everything that a module's results depend on."""
    return [tensor.detach().cpu().clone() for tensor in [*module.parameters(), *module.buffers()]]


def require_same(module: nn.Module, before: dict, what: str = "the model") -> None:
    """Expect a module as `holdings` saw it before a call."""
    if path := changed(before, module):
        expect.fail(
            f"{what} was changed: looking must change nothing",
            f"{what} as it came",
            f"another `{path}`, or the same elsewhere",
        )


def pull(result: torch.Tensor) -> None:
    """Run backward from a result, in such a way that a gradient comes from where it is 0, too.

    >>> pull(x := torch.zeros(2, requires_grad=True)); x.grad
    tensor([2., 2.])
    """
    (result.float() + 1).square().sum().backward()


def gradient(function: Callable, source: torch.Tensor) -> torch.Tensor:
    """Return the gradient that `pull` sends through a function, at a source, on the CPU.

    >>> gradient(lambda x: 3 * x, torch.ones(2))
    tensor([24., 24.])
    """
    leaf = source.detach().cpu().clone().requires_grad_()
    pull(function(leaf))
    return leaf.grad


def require_graph(result: torch.Tensor, source: torch.Tensor, what: str, wanted: torch.Tensor) -> None:
    """Expect that the wanted gradient flows from the result back to the source, a leaf that asks for one."""
    if not result.requires_grad:
        expect.fail("the result has left the graph", f"a gradient that reaches {what}", result)
    source.grad = None
    try:
        pull(result)
    except Exception as error:  # a graph that the answer has used up, or whose tensors it has changed
        headline = "no backward leads through the result any more"
        expect.fail(headline, f"a gradient that reaches {what}", f"{type(error).__name__}: {error}")
    if source.grad is None:
        expect.fail(f"no gradient reaches {what}", f"a gradient that reaches {what}", "none")
    expect.values(source.grad, wanted, f"the gradient that reaches {what}", within=1e-3)


def watched_straight(trial, *args: object, comes: tuple[str, ...] = (), makes: str = "") -> object:
    """Call the answer; expect of what it moves on an accelerator that each thing goes there once, and stays.

    `comes` names the arguments that may be elsewhere, `makes` what the answer makes itself: it is made there.
    """
    got, log = trial.watched(*args)
    home = str(trial.device)
    moved = [copy for copy in log.events.transfers if copy.bytes > NUMBER]
    if trial.device.type == "cpu":
        return got
    for copy in moved:
        if copy.source == home:
            asked = f"all the work on {home}, where the others are"
            expect.fail(f"something left {home} for {copy.target}", asked, f"{copy.line}")
    tensors = [one for one in args if isinstance(one, torch.Tensor) and one.device != trial.device]
    if len(moved) > len(tensors):
        line = f"{moved[-1].line}"
        if makes and not tensors:
            headline = f"{makes} made on the CPU and brought to {home} at each call"
            expect.fail(headline, f"made on {home}", line)
        what = " and ".join(comes) or "what is elsewhere"
        headline = f"{len(moved)} transfers, where {what} can go to {home} in one"
        expect.fail(headline, f"one transfer, straight to {home}", line)
    return got


def sources(trial) -> tuple[torch.device, ...]:
    """Return the devices that a tensor comes from which the answer has to bring to the trial's.

    To the CPU nothing has to come: a copy there with `non_blocking=True`, a habit that does no harm in the
    other direction, may be read before it has arrived, and that is another lesson's subject.
    """
    return (trial.device,) if trial.device.type == "cpu" else (trial.device, *trial.others)


def make_logits(trial, rows: int, classes: int, seed: int) -> torch.Tensor:
    return trial.randn(rows, classes, seed=seed).requires_grad_()


def _each(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return -log p(label) of each row, by its definition and in float64."""
    rows = logits.detach().cpu().double().log_softmax(1)
    return -rows[torch.arange(len(labels)), labels.cpu()]


def _loss(logits: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    """Return the mean of -log p(label), each row weighed by its class."""
    each = _each(logits, labels)
    share = torch.ones_like(each) if weight is None else weight.cpu().double()[labels.cpu()]
    return ((each * share).sum() / share.sum()).float()


def _other_losses(
    logits: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor | None
) -> dict[str, torch.Tensor]:
    """Return what mistakes give in place of the loss."""
    scores, targets, each = logits.detach().cpu().double(), labels.cpu(), _each(logits, labels)
    picked = scores[torch.arange(len(targets)), targets]
    known = {
        "that is the sum over the rows, and their mean is asked": each.sum(),
        "softmax was applied before: cross_entropy takes the logits as they are": _each(
            scores.softmax(1), targets
        ).mean(),
        "log_softmax is missing: `nll_loss` takes log-probabilities": -picked.mean(),
        "that is the share of right answers, and the loss is asked": (scores.argmax(1) == targets)
        .double()
        .mean(),
    }
    if weight is not None:
        weights = weight.cpu().double()
        share = weights[targets]
        known = {
            "the weight was not used": each.mean(),
            "the weighted rows were divided by their number, and the sum of the weights used is asked": (
                (each * share).mean()
            ),
            "that is the sum of the weighted rows, not divided by the weights used": (each * share).sum(),
            "it was divided by the sum of all classes' weights, and those of the labels at hand are asked": (
                (each * share).sum() / weights.sum()
            ),
            "the weights are upside down: 1 / weight": (each / share).sum() / (1 / share).sum(),
            "the weight was multiplied with the logits, and it belongs to the rows of the loss": _each(
                scores * weights, targets
            ).mean(),
        }
    return {words: value.float() for words, value in known.items()}


def expect_loss(trial, got: object, logits, labels, weight: torch.Tensor | None = None) -> None:
    known = partial(_other_losses, logits, labels, weight)
    slips.tensor(got, _loss(logits, labels, weight), trial.device, "the loss", known=known)
