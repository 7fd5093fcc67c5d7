"""From lists to a table."""

import random

import torch

from devlab.checks.scenes import scene
from devlab.checks.seen import Seen, must
from devlab.checks.values import times
from devlab.checks.verbs import kept
from devlab.lessons.lesson_01_cpu import lesson

load_table = lesson.exercise(
    "load_table(rows)",
    ("C1", "C4"),
    "`torch.tensor` reads nested lists. Two things the lists cannot tell it: which dtype you want, and on "
    "which device.",
    "Whatever you leave out follows a default, and another part of the program may have changed that "
    "default. `torch.tensor` takes `dtype=` and `device=`.",
    'The whole body is `return torch.tensor(rows, dtype=torch.float32, device="cpu")`.',
)


def ours(rows):
    return torch.tensor(rows, dtype=torch.float32, device="cpu")


def rows_of(count, width, seed, whole=False):
    source = random.Random(1000 + seed)
    # The whole numbers are too many for 8 or 16 bits.
    draw = (lambda: source.randint(-60_000, 60_000)) if whole else (lambda: round(source.uniform(-9, 9), 3))
    return [[draw() for _ in range(width)] for _ in range(count)]


def see(t, rows, after="", **defaults):
    """See the table; `after` says in words which other defaults are in force."""
    got = kept(t, rows, **defaults) if defaults else t.call(rows)
    asked = f"one row for each of the {len(rows)} lists, with every digit that float32 holds"
    if isinstance(got, torch.Tensor):
        told = f"the table{after} is {got.dtype}, not torch.float32"
        yield must(got.dtype == torch.float32, told, "torch.float32", got)
        yield must(got.is_cpu, f"the table{after} is on {got.device}, not cpu", "the table on cpu", got)
        for digits in range(1, 9) if not torch.equal(got, ours(rows)) else ():
            less = ours([[round(float(one), digits) for one in row] for row in rows])
            told = f"the numbers were rounded to {times(digits, 'digit')}"
            yield must(not torch.equal(got, less), told, asked, got)
    yield Seen(f"the table{after}", got, 0.0, asked)  # a number is rounded once, and alike on every way


@scene(load_table, ours, "every number is in its place")
def every_number_in_place(t):
    for form, seed in zip([(5, 3), (1, 4), (6, 1), (2, 41), (1, 1)], t.seeds + t.seeds[:2], strict=True):
        yield from see(t, rows_of(*form, seed))
    # Numbers with all their digits, from billionths to billions.
    source = random.Random(2000 + t.seeds[0])
    yield from see(t, [[source.uniform(1, 9) * 10.0**power for power in range(-9, 10)] for _ in range(2)])


@scene(load_table, ours, "whole numbers become float32 too")
def whole_numbers_too(t):
    for seed in t.seeds:
        whole = rows_of(4, 3, seed, whole=True)
        yield from see(t, whole)
        yield from see(t, [a + b for a, b in zip(whole, rows_of(4, 2, seed), strict=True)])
        yield from see(t, whole[:1] + rows_of(2, 3, seed))


@scene(load_table, ours, "the CPU, whatever the default device is", only="accelerator")
def whatever_the_default_device(t):
    after = f" after torch.set_default_device({str(t.device)!r})"
    yield from see(t, rows_of(3, 5, t.seeds[1]), after, device=t.device)


@scene(load_table, ours, "float32, whatever the default dtype is")
def whatever_the_default_dtype(t):
    for default in (torch.float64, torch.float16):
        after = f" after torch.set_default_dtype({default})"
        yield from see(t, rows_of(3, 5, t.seeds[2]), after, dtype=default)
