"""Random numbers that are the same on every device."""

import torch

from devlab.checks import expect
from devlab.lessons.lesson_03_mps import lesson

portable_randn = lesson.exercise(
    "portable_randn(shape, device, seed)",
    ("I4",),
    "Each kind of device draws numbers in its own way, so one seed gives different numbers on each. Is there "
    "a device that every machine has?",
    "Draw on the CPU and transfer the numbers. A `torch.Generator()` of your own, with `.manual_seed(seed)`, "
    "leaves the random numbers of the rest of the program alone.",
    "`torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)`",
)

SHAPES = ((3, 4), (7,), (2, 3, 5), (0, 3), (1,), (1, 1))
# Shapes with enough numbers to tell how the numbers are distributed.
MANY = ((50, 81), (4050,), (5, 9, 90))


def _draw(trial, shape: tuple[int, ...], seed: int, device: torch.device | None = None) -> torch.Tensor:
    """Call the answer, expect a tensor in its place, and return a copy of its numbers on the CPU."""
    on = device or trial.device
    got = trial.call(shape, on, seed)
    expect.tensor(got, torch.zeros(shape), on, within=float("inf"))  # any finite numbers
    numbers = got.detach().cpu().clone()
    try:
        got.zero_()  # a tensor that the answer keeps and returns again is zeros then
    except RuntimeError as error:
        expect.fail("the caller cannot change the result", "a plain tensor", f"RuntimeError: {error}")
    return numbers


@portable_randn.row("that shape, on that device")
def in_its_place(trial):
    for shape in SHAPES:
        _draw(trial, shape, trial.seeds[0])
    trial.second()


@portable_randn.row("the same seed, the same numbers again")
def same_again(trial):
    one, two = (trial.call((5, 3), trial.device, trial.seeds[0]) for _ in range(2))
    if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor) and one.data_ptr() == two.data_ptr():
        said = "the second call returned the tensor of the first, which its owner may have changed"
        expect.fail(said, "a tensor of its own at each call", "the same memory")
    for seed in sorted({0, *trial.seeds}):  # an answer may take the seed 0 for no seed
        first = _draw(trial, (5, 3), seed)
        torch.default_generator.manual_seed(seed + 100)
        torch.randn(3)
        torch.randn(3, device=trial.device)
        second = _draw(trial, (5, 3), seed)
        if not torch.equal(first, second):
            said = f"seed {seed} gave other numbers at the second call"
            expect.fail(said, f"again {_some(first)}", _some(second))


@portable_randn.row("the same numbers on every device")
def same_everywhere(trial):
    for seed, shape in zip(trial.seeds, ((4, 3), (33,), MANY[2]), strict=True):
        mine = _draw(trial, shape, seed)
        for other in trial.others:
            theirs = _draw(trial, shape, seed, other)
            if not torch.allclose(mine, theirs, atol=1e-6):
                said = f"seed {seed} gives other numbers on {other} than on {trial.device}"
                expect.fail(said, f"as on {trial.device}: {_some(mine)}", _some(theirs))


@portable_randn.row("another seed, other numbers")
def others_for_another_seed(trial):
    first = _draw(trial, (5, 3), trial.seeds[0])
    further = (100, 1000, 1 << 16, 1 << 24, 1 << 31)
    for seed in (*trial.seeds[1:], *(trial.seeds[0] + more for more in further)):
        if torch.equal(first, numbers := _draw(trial, (5, 3), seed)):
            said = f"seeds {trial.seeds[0]} and {seed} give the same numbers"
            expect.fail(said, "other numbers", _some(numbers))


@portable_randn.row("normal: mean 0, standard deviation 1")
def normal(trial):
    for seed, shape in zip(trial.seeds, MANY, strict=True):
        numbers = _draw(trial, shape, seed)
        if numbers.unique().numel() < numbers.numel() * 0.9:
            expect.fail("the same numbers come again and again", "each drawn anew", _some(numbers))
        ends = int((numbers == numbers.max()).sum() + (numbers == numbers.min()).sum())
        if ends > 4:
            lowest, highest = numbers.min().item(), numbers.max().item()
            said = f"the numbers were cut off at {lowest:.4g} and {highest:.4g}"
            expect.fail(said, "normal numbers, as far out as they go", f"{ends} of them are one of the two")
        mean, deviation = numbers.mean().item(), numbers.std().item()
        inside = (numbers.abs() < 1).float().mean().item()
        if abs(mean) > 0.1 or abs(deviation - 1) > 0.1 or abs(inside - 0.683) > 0.05:
            asked = "mean near 0, deviation near 1, about 68% between -1 and 1"
            said = f"mean {mean:.2f}, deviation {deviation:.2f}, {inside:.0%} between -1 and 1"
            expect.fail("the numbers are not normally distributed", asked, said)


def _some(numbers: torch.Tensor) -> str:
    return ", ".join(f"{number:.4f}" for number in numbers.flatten()[:3].tolist()) + ", …"
