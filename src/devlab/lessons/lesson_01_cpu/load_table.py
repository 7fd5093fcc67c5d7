"""From lists to a table."""

import random

import numpy
import torch

from devlab.checks import expect
from devlab.checks.verbs import Same, kept
from devlab.lessons.lesson_01_cpu import lesson

load_table = lesson.exercise(
    "load_table",
    signature="load_table(rows)",
    facts=("C1", "C4"),
    hints=(
        "`torch.tensor` reads nested lists. Two things the lists cannot tell it: which dtype you want, and "
        "on which device.",
        "Whatever you leave out follows a default, and another part of the program may have changed that "
        "default. `torch.tensor` takes `dtype=` and `device=`.",
        'The whole body is `return torch.tensor(rows, dtype=torch.float32, device="cpu")`.',
    ),
)


CPU = torch.device("cpu")


def _rows(count: int, width: int, seed: int, whole: bool = False) -> list[list[float]]:
    source = random.Random(1000 + seed)
    # The whole numbers are too many for 8 or 16 bits.
    draw = (lambda: source.randint(-60_000, 60_000)) if whole else (lambda: round(source.uniform(-9, 9), 3))
    return [[draw() for _ in range(width)] for _ in range(count)]


def _small_and_large(seed: int) -> list[list[float]]:
    """Return rows of numbers with all their digits, from billionths to billions."""
    source = random.Random(2000 + seed)
    return [[source.uniform(1, 9) * 10.0**power for power in range(-9, 10)] for _ in range(2)]


def _exact(rows: list) -> torch.Tensor:
    return torch.from_numpy(numpy.array(rows, dtype=numpy.float64))


def _rounded(rows: list, digits: int) -> torch.Tensor:
    return _exact([[round(float(one), digits) for one in row] for row in rows])


def _slips(rows: list) -> dict[str, torch.Tensor]:
    exact = _exact(rows)
    slips = {
        "the numbers were cut to whole numbers": exact.trunc(),
        "the numbers were rounded to whole numbers": exact.round(),
        "the numbers were rounded to 1 digit": _rounded(rows, 1),
        "rows and columns have changed places": exact.T,
        "the rows stand one behind the other in one dimension": exact.flatten(),
        "a dimension of size 1 was squeezed away": exact.squeeze(),
        "the first row is missing": exact[1:],
        "the last row is missing": exact[:-1],
        "the rows came sorted, and not in their own order": _exact(sorted(rows)),
        "only the first row came": exact[:1],
        "only the last row came": exact[-1:],
        "the rows came in reverse order": exact.flip(0),
    } | {f"the numbers were rounded to {digits} digits": _rounded(rows, digits) for digits in range(2, 9)}
    return {words: slip.float() for words, slip in slips.items()}


table = Same(
    lambda rows: _exact(rows).float(),
    _slips,
    lambda rows: f"one row for each of the {len(rows)} lists, with every digit that float32 holds",
    "the table",
    then=lambda got, wanted, rows: expect.lost_digits(got, wanted, _exact(rows)),
    within=0.0,  # a number is rounded once, and alike on every way
)


@load_table.row("every number is in its place")
def every_number_in_place(trial):
    forms = zip([(5, 3), (1, 4), (6, 1), (2, 41), (1, 1)], (*trial.seeds, *trial.seeds[:2]), strict=True)
    table.each(trial, [_rows(*form, seed) for form, seed in forms], on=CPU)
    table(trial, _small_and_large(trial.seeds[0]), on=CPU)


@load_table.row("whole numbers become float32 too")
def whole_numbers_too(trial):
    for seed in trial.seeds:
        whole = _rows(4, 3, seed, whole=True)
        mixed = [a + b for a, b in zip(whole, _rows(4, 2, seed), strict=True)]
        one_whole_row = whole[:1] + _rows(2, 3, seed)
        table.each(trial, (whole, mixed, one_whole_row), on=CPU)


@load_table.row("the CPU, whatever the default device is", only="accelerator")
def whatever_the_default_device(trial):
    rows = _rows(3, 5, trial.seeds[1])
    got = kept(trial, rows, device=trial.device)
    if isinstance(got, torch.Tensor) and got.device == trial.device:
        asked = f"torch.set_default_device({str(trial.device)!r})"
        expect.fail(f"after {asked} the table is on {got.device}", "the table on cpu", got)
    table.compare(trial, got, rows, on=CPU)


@load_table.row("float32, whatever the default dtype is")
def whatever_the_default_dtype(trial):
    rows = _rows(3, 5, trial.seeds[2])
    for default in (torch.float64, torch.float16):
        got = kept(trial, rows, dtype=default)
        asked = f"after torch.set_default_dtype({default})"
        if isinstance(got, torch.Tensor) and got.dtype == default:
            expect.fail(f"{asked} the table is {got.dtype}", "torch.float32", got)
        wanted = _exact(rows).float()
        lost = {f"{asked} the numbers went through {default}, and lost digits there": wanted.to(default)}
        expect.named(got, wanted, lost, "numbers that are float32 from the start", within=0.0)
        table.compare(trial, got, rows, on=CPU)
