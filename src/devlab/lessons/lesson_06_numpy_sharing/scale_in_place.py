"""Work on an array's memory through a tensor, and count what it costs."""

from collections.abc import Iterator
from unittest import mock

import numpy
import torch

from devlab.checks import expect
from devlab.checks.scenes import scene
from devlab.checks.seen import Seen, must
from devlab.lessons.lesson_06_numpy_sharing import Work, fresh, lesson, tensor_of, views

scale_in_place = lesson.exercise(
    "scale_in_place(a, k)",
    ("N4", "N5", "N6"),
    "Two things are needed: a tensor over the array's memory, and a multiplication in place. `t * k` makes a "
    "new tensor; which method writes into t itself?",
    "`torch.from_numpy(a)` shares a's memory, and methods that end in `_` work in place. Nothing has to be "
    "copied back, and nothing is returned.",
    "The whole body is `torch.from_numpy(a).mul_(k)`, without `return`.",
)

ASKED = "every element times k, in the array itself"


def ours(a, k):
    torch.from_numpy(a).mul_(k)


def see_scaled(t, a: numpy.ndarray, k: float, why: str, within: float | None = None) -> Iterator[Seen]:
    """See an array once the answer has multiplied it by k."""
    before = tensor_of(a)
    got = t.call(a, k, changes=True)
    still = torch.equal(tensor_of(a), before) and not torch.equal(before, before * k)
    yield must(not still, f"{why}: nothing in it has changed", ASKED, "the array as it was")
    yield Seen(f"{why}, scaled,", tensor_of(a), within)
    headline = "a value is returned, and the task asks for none: the work is in the array"
    yield must(got is None, headline, "None", got)


@scene(scale_in_place, ours, "every element times k, in the array", ASKED)
def scaled_in_place(t):
    for seed, k in zip(t.seeds, (2.5, -3, 0), strict=True):
        yield from see_scaled(t, fresh(5, 3, seed=seed), k, "the array")
        yield from see_scaled(t, fresh(7, seed=seed, dtype="float64"), k, "the array")
    yield from see_scaled(t, fresh(2, 3, 1, 4, seed=0), 0.1, "the array of four dimensions")
    odd = numpy.array([numpy.inf, numpy.nan, 1.0], dtype="float32")
    for k in (0, 2):
        yield from see_scaled(t, odd.copy(), k, "the array with inf and nan")
    # float32 does not hold 0.1 as float64 does.
    yield from see_scaled(t, fresh(5, seed=seed, dtype="float64"), 0.1, "the array of float64", 1e-12)


PARTS = "a slice", "a column", "a slice with steps", "a transposed array", "an array without a row"


@scene(scale_in_place, ours, "seen in all of that memory, only there", ASKED)
def scaled_views(t):
    parts = views(t)
    for words in (*PARTS, "an array without a column"):
        part = parts[words]
        before, whole = part.copy(), part.base.copy()
        yield from see_scaled(t, part, 1.5, words)
        part[...] = before
        same, headline = (
            part.base.tobytes() == whole.tobytes(),
            f"elements outside of {words} were changed, too",
        )
        yield must(same, headline, "only the elements of the given array", "others of the memory behind it")


@scene(scale_in_place, ours, "the array keeps its dtype", ASKED)
def scaled_dtypes(t):
    for dtype in ("float16", "float64", "int64", "int32", "uint8"):
        yield from see_scaled(t, fresh(4, 3, seed=t.seeds[0], dtype=dtype), 2, f"the array of {dtype}")
    yield from see_scaled(t, fresh(4, 3, seed=t.seeds[1], dtype="float16"), 0.5, "the array of float16")
    whole = fresh(4, 3, seed=t.seeds[2], dtype="int64")
    for k in (2, -3):
        yield from see_scaled(t, whole - 50, k, "the array of negative and positive integers")
        yield from see_scaled(t, whole + 2**53, k, "the array of large integers")


@scale_in_place.row("through a tensor, without a copy")
def without_a_copy(trial):
    base = fresh(12, 18, seed=trial.seeds[2], dtype="float64")
    parts = [(one, 1.5) for one in (base, base[:, 1::2], base.T, base.reshape(-1), base.reshape(3, 4, 18))]
    for dtype in ("float32", "float16", "int64", "uint8"):
        parts.append((fresh(12, 18, seed=trial.seeds[2], dtype=dtype), 2))
    for a, k in parts:
        work = Work(a if a.base is None else base)
        with work, _note_method("apply_", work), _note_method("map_", work):
            trial.call(a, k, changes=True)
        headline = "the array was not scaled through a tensor over its memory"
        expect.that(work.writes, headline, "an operation in place on such a tensor", "none")
        if work.bytes > a.nbytes // 2:
            headline = "other memory was used: for the product, or for a copy of the array"
            if work.tensors > 2:
                headline = f"{work.tensors} small tensors were made, one after another"
            expect.fail(
                headline, f"no more than the array's own {a.nbytes} bytes", f"{work.bytes} bytes more"
            )


def _note_method(name: str, work: Work):
    """Count a method that calls a Python function for each element, and so no operator, as a write."""
    original = getattr(torch.Tensor, name)

    def method(tensor, *args):
        work.writes += work.is_the_arrays(tensor)
        return original(tensor, *args)

    return mock.patch.object(torch.Tensor, name, method)
