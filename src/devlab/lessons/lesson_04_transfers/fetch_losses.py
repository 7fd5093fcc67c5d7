"""Many losses, fetched at once."""

import torch

from devlab.checks import cases, expect
from devlab.checks.verbs import Same, counts, flows, keep_busy, times
from devlab.lessons.lesson_04_transfers import CPU, lesson

fetch_losses = lesson.exercise(
    "fetch_losses",
    signature="fetch_losses(losses)",
    facts=("R1", "R4", "R5"),
    hints=(
        "Each `.item()` is a transfer of its own, and the host waits for each. What could you do on the "
        "device, so that only one thing is left to fetch?",
        "`torch.stack(losses)` makes one tensor of them, on their device, without any transfer.",
        "`return torch.stack(losses).tolist()`: `.tolist()` fetches the whole tensor at once, and makes "
        "Python floats of it.",
    ),
)


def _losses(trial, count: int, seed: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [loss.clone() for loss in (5 * trial.randn(count, seed=seed)).to(dtype)]


def _floats(losses: list[torch.Tensor]) -> torch.Tensor:
    return torch.tensor([loss.item() for loss in losses], dtype=torch.float64)


def _look(trial, got: torch.Tensor, wanted: torch.Tensor, losses: list[torch.Tensor]) -> None:
    if len(got) != len(wanted):
        headline = f"{times(len(got), 'number')} came for {times(len(wanted), 'loss')}"
        expect.fail(headline, f"{len(wanted)} floats", str(got.tolist()))
    if not got.equal(wanted) and got.sort().values.equal(wanted.sort().values):
        expect.fail("the losses came in another order", str(wanted[:3].tolist()), str(got[:3].tolist()))


def _slips(losses: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    right = _floats(losses)
    return {f"the losses were rounded to {times(n, 'digit')}": right.round(decimals=n) for n in range(5)} | {
        "a loss was read before its transfer had arrived": 0 * right,
        "the numbers are running sums of the losses": right.cumsum(0),
        "the numbers are running means of the losses": right.cumsum(0) / torch.arange(1, len(right) + 1),
    }


numbers = Same(
    _floats,
    _slips,
    lambda losses: str(_floats(losses)[:3].tolist()),
    "the list",
    within=1e-5,
    first=_look,
    then=lambda got, wanted, losses: expect.lost_digits(got, wanted, wanted),
)


def _expect_floats(trial, losses: list[torch.Tensor], within: float | None = None) -> None:
    got = trial.call(losses)
    expect.kind(got, list, "a list")
    for value in got:
        expect.kind(value, float, "a float", "an element of the list")
    numbers.compare(trial, torch.tensor(got, dtype=torch.float64), losses, on=CPU, within=within)


@fetch_losses.row("a list of floats, in order")
def floats_in_order(trial):
    for count, seed in zip((7, 1, 4), trial.seeds, strict=True):
        losses = _losses(trial, count, seed)
        keep_busy(trial.device)
        _expect_floats(trial, losses)
    # A loss may be no number, or a whole one, or come again.
    odd = torch.tensor([2.0, float("nan"), 0.5, 2.0, float("inf"), -float("inf"), 0.5])
    _expect_floats(trial, [loss.clone() for loss in odd.to(trial.device)])


@fetch_losses.row("one synchronization, however many losses", only="accelerator")
def one_synchronization(trial):
    for count in (9, 2, 70):  # with two losses alone, a wait for each looks like two waits for all
        _expect_one_wait(trial, _losses(trial, count, trial.seeds[1]))


def _expect_one_wait(trial, losses: list[torch.Tensor]) -> None:
    _, log = trial.watched(losses)
    waits, count = log.events.synchronizations, len(losses)
    why = ": {causes} each time" if len(waits) >= count else ", by {causes}" if waits else ""
    headline = f"the host waited {{times}} for {count} losses{why}"
    counts(waits, 1, headline, "1 synchronization", least=1, of="time")


@fetch_losses.row("losses with a graph, or in half precision")
def graphs_and_halves(trial):
    weight = trial.randn(4, seed=trial.seeds[0]).requires_grad_()
    losses = [weight.square().sum() * number for number in (1.0, 0.5, 3.0)]
    _expect_floats(trial, losses)
    left = weight.grad
    lost = "a loss has lost its graph"
    broken = "backward() of a loss fails after the call"
    asked = "backward() gives a gradient afterwards"
    wanted, pull = 2 * weight.detach(), torch.Tensor.backward
    flows(losses[0], weight, wanted, cut=lost, none=lost, broken=broken, asked=asked, pull=pull)
    if left is not None:
        expect.fail("a loss was sent backward", "the graphs as they came, without a gradient", left)
    # Some hold their graph, and others do not.
    plain, leaf = trial.randn(seed=trial.seeds[1]), trial.randn(seed=trial.seeds[2]).requires_grad_()
    for mixed in ([plain, weight.sum()], [weight.sum(), plain, leaf]):
        _expect_floats(trial, mixed)
    halves = _losses(trial, 5, trial.seeds[2], torch.float16)
    _expect_floats(trial, halves)
    if trial.device.type != "cpu":
        for some in (losses, halves):
            _expect_one_wait(trial, some)
    if cases.holds(trial.device, torch.float64):
        wide = [loss / 3 for loss in _losses(trial, 4, trial.seeds[1], torch.float64)]
        _expect_floats(trial, wide, within=0.0)
