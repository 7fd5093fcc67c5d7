"""Lesson 04: transfers: moving, loading, and reading back."""

import torch

from devlab.checks import expect
from devlab.checks.exercise import Lesson
from devlab.sim import clock
from devlab.watching.watch import Log

lesson = Lesson(
    "04_transfers",
    "Transfers",
    (
        "move",
        "cast_and_move",
        "returns_itself",
        "make_loader",
        "batches",
        "read_back",
        "fetch_losses",
        "no_ping_pong",
    ),
)

CPU = torch.device("cpu")
# Bytes of modelled work: a millisecond on the simulated device, and no time at all on the host.
MODELLED_WORK = 300_000_000


def sources(trial) -> tuple[torch.device, ...]:
    """Return the devices that a tensor may come from: the others, or the same one where it is alone."""
    return trial.others or (trial.device,)


def keep_busy(device: torch.device) -> None:
    """Give the device work that will last a while, so that a copy out of it has to wait its turn."""
    if device.type == "sim":
        clock.launch(device.index, MODELLED_WORK)
    elif device.type != "cpu":
        x = torch.ones(2048, 2048, device=device)
        for _ in range(50):
            x = x @ x


def read_at_once(trial, *args: object) -> tuple[object, object, Log]:
    """Call the answer; return its result, what the host sees in it right now, and the log.

    Nothing of ours may touch a device before the host has looked: that would wait for copies under way.
    """
    before = trial.snapshot(*args)
    got, log = trial.watched(*args, changes=True)
    seen = got.detach().clone() if isinstance(got, torch.Tensor) and got.is_cpu else got
    before.require_untouched(args)
    return got, seen, log


def expect_arrived(trial, got: object, seen: object, wanted: torch.Tensor, what: str) -> None:
    """Expect that the host saw the right values at once, where the values are right in the end."""
    if not isinstance(got, torch.Tensor) or got.shape != wanted.shape or got.dtype != wanted.dtype:
        return
    for device in (trial.device, *trial.others):
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
    late = _alike(got.detach().cpu(), wanted.cpu()) and not _alike(seen.cpu(), wanted.cpu())
    if late:
        headline = f"{what} was returned before the copy had arrived"
        expect.fail(headline, "the values at once", "what that memory held before: the values came later")


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one.double(), other.double(), rtol=1e-2, atol=1e-3)


def expect_numbers(got: list[float], wanted: list[float]) -> None:
    """Expect the floats of a list, in order; where they are others, say what they are."""
    if len(got) != len(wanted):
        headline = f"{times(len(got), 'number')} came for {times(len(wanted), 'loss', 'es')}"
        expect.fail(headline, f"{len(wanted)} floats", got)
    if got != wanted and sorted(got) == sorted(wanted):
        expect.fail("the losses came in another order", str(wanted[:3]), str(got[:3]))
    digits = next((n for n in range(5) if got == [round(value, n) for value in wanted] != wanted), None)
    if digits is not None:
        expect.fail(f"the losses were rounded to {times(digits, 'digit')}", str(wanted[:3]), str(got[:3]))
    mine, right = (torch.tensor(numbers, dtype=torch.float64) for numbers in (got, wanted))
    mistaken = {
        "a loss was read before its copy had arrived": 0 * right,
        "the numbers are running sums of the losses": right.cumsum(0),
        "the numbers are running means of the losses": right.cumsum(0) / torch.arange(1, len(wanted) + 1),
    }
    expect.named(mine, right, mistaken, str(wanted[:3]), within=1e-4)
    expect.lost_digits(mine, right, right)
    expect.tensor(mine.float(), right.float(), CPU, "the list")


def times(count: int, word: str, plural: str = "s") -> str:
    """Return a number with its noun.

    >>> times(1, "transfer"), times(3, "transfer")
    ('1 transfer', '3 transfers')
    """
    return f"{count} {word}" + ("" if count == 1 else plural)


def numbers_of(trial, dtype: torch.dtype, on: torch.device, seed: int) -> torch.Tensor:
    """Return numbers between 0 and 100 of any dtype: none that some dtype cannot hold."""
    plain = (20 * trial.randn(5, 3, seed=seed, on=CPU)).abs().clamp(max=100)
    return (plain > 15 if dtype is torch.bool else plain).to(dtype).to(on)


MOST = 50  # minibatches that are taken: no loader here has so many


def samples(trial, count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and labels on the CPU; every label is another number."""
    inputs = trial.randn(count, 3, seed=seed, on=CPU)
    return inputs, torch.arange(100, 100 + count)
