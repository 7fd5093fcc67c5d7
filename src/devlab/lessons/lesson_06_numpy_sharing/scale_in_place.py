"""Work on an array's memory through a tensor, and count what it costs."""

import contextlib
from collections.abc import Callable, Iterator

import numpy
import torch

from devlab.checks import expect
from devlab.lessons.lesson_06_numpy_sharing import fresh, lesson
from devlab.lessons.lesson_06_numpy_sharing.work import Work

scale_in_place = lesson.exercise(
    "scale_in_place",
    signature="scale_in_place(a, k)",
    facts=("N4", "N5", "N6"),
    hints=(
        "Two things have to be in place: the tensor over the array's memory, and the multiplication. "
        "`t * k` makes a new tensor; which method writes into t itself?",
        "`torch.from_numpy(a)` shares a's memory, and methods that end in `_` work in place. Nothing has to "
        "be copied back, and nothing is returned.",
        "The whole body is `torch.from_numpy(a).mul_(k)`, without `return`.",
    ),
)


@contextlib.contextmanager
def _python_loops(work: Work) -> Iterator[None]:
    """Count `apply_` and `map_` as well, which call a Python function for each element and no operator."""
    before = {name: vars(torch.Tensor).get(name) for name in ("apply_", "map_")}
    for name in before:
        setattr(torch.Tensor, name, _noticed(getattr(torch.Tensor, name), work))
    try:
        yield
    finally:
        for name, method in before.items():
            delattr(torch.Tensor, name)  # what is inherited shows again
            if method:
                setattr(torch.Tensor, name, method)


def _noticed(original: Callable, work: Work) -> Callable:
    def method(tensor, *args):
        work.writes += work.is_the_arrays(tensor)
        return original(tensor, *args)

    return method


PARTS = {
    "a slice": lambda base: base[1:4],
    "a column": lambda base: base[:, 2],
    "a slice with steps": lambda base: base[::2, 1::3],
    "a transposed slice": lambda base: base.T[3:],
    "an empty slice": lambda base: base[2:2],
}


def _expect_scaled(trial, a: numpy.ndarray, k: float, why: str) -> None:
    wanted = (torch.tensor(a.copy()) * k).numpy()
    before = a.copy()
    got = trial.call(a, k, changes=True)
    if a.tobytes() == before.tobytes() != wanted.tobytes():
        words = f"{why}: nothing in it has changed"
        expect.fail(words, "every element times k, in the array itself", "the array as it was")
    held, right = torch.tensor(before), torch.tensor(wanted)
    mistaken = {
        "k was added to every element, and not multiplied": lambda: held + k,
        "every element was multiplied by k twice": lambda: held * k * k,
        "every element was divided by k": lambda: held / k,
        "every element was set to k": lambda: torch.full_like(held, k),
        "only the first row was multiplied by k": lambda: torch.cat([held[:1] * k, held[1:]]),
    }
    if a.shape == wanted.shape and a.dtype == wanted.dtype:
        expect.named(torch.tensor(a.copy()), right, mistaken, "every element times k")
    expect.array(a, wanted, f"{why}, scaled,")
    if got is not None:
        expect.fail("a value is returned, and the task asks for none: the work is in the array", "None", got)


@scale_in_place.row("every element times k, in the array")
def scaled(trial):
    for seed, k in zip(trial.seeds, (2.5, -3, 0), strict=True):
        _expect_scaled(trial, fresh(5, 3, seed=seed), k, "the array")
        _expect_scaled(trial, fresh(7, seed=seed, dtype="float64"), k, "the array")
    _expect_scaled(trial, fresh(2, 3, 1, 4, seed=0), 0.1, "the array of four dimensions")
    a = fresh(5, seed=seed, dtype="float64")
    wanted, before = torch.tensor(a * 0.1), a.copy()
    trial.call(a, 0.1, changes=True)  # which float32 does not hold as float64 does
    expect.named(
        torch.tensor(a),
        wanted,
        {"k was float32 on the way, and lost digits": torch.tensor(before) * torch.tensor(0.1).double()},
        "k as Python has it, in float64",
        within=1e-12,
    )
    expect.values(torch.tensor(a), wanted, "the array of float64, scaled by 0.1,", within=1e-12)


@scale_in_place.row("seen in all of that memory, only there")
def scaled_views(trial):
    for seed in trial.seeds:
        base = fresh(6, 8, seed=seed)
        for words, cut in PARTS.items():
            wanted = base.copy()
            cut(wanted)[...] *= 1.5
            _expect_scaled(trial, cut(base), 1.5, words)
            outside = numpy.ones(base.shape, dtype=bool)
            cut(outside)[...] = False
            if (base[outside] != wanted[outside]).any():
                said = f"elements outside of {words} were changed, too"
                expect.fail(said, "only the elements of the given array", "others of the memory behind it")
            expect.array(base, wanted, f"the array behind {words}")


@scale_in_place.row("the array keeps its dtype")
def scaled_dtypes(trial):
    for dtype in ("float16", "float64", "int64", "int32", "uint8"):
        _expect_scaled(trial, fresh(4, 3, seed=trial.seeds[0], dtype=dtype), 2, f"the array of {dtype}")
    _expect_scaled(trial, fresh(4, 3, seed=trial.seeds[1], dtype="float16"), 0.5, "the array of float16")


@scale_in_place.row("through a tensor, without a copy")
def without_a_copy(trial):
    base = fresh(12, 18, seed=trial.seeds[2], dtype="float64")
    for a in (base, base[:, 1::2]):
        work = Work(base)
        with work, _python_loops(work):
            trial.call(a, 1.5, changes=True)
        if not work.writes:
            words = "the array was not scaled through a tensor over its memory"
            expect.fail(words, "an operation in place on such a tensor", "none")
        if work.bytes > a.nbytes // 2:
            words = "other memory was used: for the product, or for a copy of the array"
            if work.tensors > 2:
                words = f"{work.tensors} small tensors were made on the way, one after another"
            expect.fail(words, f"no more than the array's own {a.nbytes} bytes", f"{work.bytes} bytes more")
