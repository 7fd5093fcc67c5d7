"""From an array to a tensor: over the same memory, or in memory of its own."""

import numpy
import torch

from devlab.checks import expect, slips
from devlab.checks.calls import AnswerRaised
from devlab.lessons.lesson_06_numpy_sharing import CPU, changed, fresh, lesson, tensor_of
from devlab.sim.private import negative_strides_refused

sharing_tensor = lesson.exercise(
    "sharing_tensor",
    signature="sharing_tensor(a)",
    facts=("N4", "N5", "N6", "N7"),
    hints=(
        "Of the ways from an array to a tensor, one promises to share and refuses where it cannot. Any step "
        "that makes the array tidy first, such as `np.ascontiguousarray`, may make a copy.",
        "`torch.from_numpy(a)` shares. Try it on an array with negative strides: what does it raise, and "
        "what does the message say?",
        'The whole body is `return torch.from_numpy(a)`: its own error is a ValueError that says "negative".',
    ),
)

independent_tensor = lesson.exercise(
    "independent_tensor",
    signature="independent_tensor(a)",
    facts=("N6", "N7"),
    hints=(
        "One copy has to be made. PyTorch cannot read an array with negative strides, not even to "
        "copy it. NumPy can.",
        "`a.copy()` gives an array in memory of its own, with ordinary strides. What is the cheapest way "
        "from there to a tensor?",
        "`return torch.from_numpy(a.copy())`: nothing else uses the copy, so sharing its memory is safe.",
    ),
)

DTYPES = ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64")


def _call(trial, a: numpy.ndarray, why: str) -> torch.Tensor:
    """Call the answer, and expect a CPU tensor with the array's shape, dtype and numbers."""
    wanted = tensor_of(a)
    with negative_strides_refused():
        got = trial.call(a)
    turned = a[tuple(slice(None, None, -1) if step < 0 else slice(None) for step in a.strides)]
    mistaken = {
        "the numbers came in the order of the memory: the negative stride was left out": tensor_of(turned),
        "the rows and columns have changed places": wanted.T if wanted.dim() == 2 else wanted,
        "the numbers came in reverse order": wanted.flip(tuple(range(wanted.dim()))),
        "all dimensions were joined to one": wanted.flatten(),
    }
    slips.named(got, wanted, mistaken, f"{why} in its own form")
    expect.tensor(got, wanted, CPU, f"the tensor of {why}")
    if got.requires_grad:
        expect.fail("the tensor asks for a gradient", "requires_grad=False", got)
    return got


def _show(t: torch.Tensor, a: numpy.ndarray) -> bool:
    """Tell whether the tensor shows the array's numbers."""
    return torch.equal(t, tensor_of(a))


def _expect_shared(trial, a: numpy.ndarray, why: str) -> None:
    got = _call(trial, a, why)
    wanted = "the array's own memory"
    a[...] = changed(a)
    if not _show(got, a):
        words = f"{why}: the tensor is a copy, and does not show a change in the array"
        expect.fail(words, wanted, "other memory")
    got.copy_(tensor_of(changed(a)))
    if not _show(got, a):
        expect.fail(f"{why}: a change in the tensor does not show in the array", wanted, "other memory")


@sharing_tensor.row("the array's own memory, both ways")
def shared_both_ways(trial):
    for seed in trial.seeds:
        _expect_shared(trial, fresh(5, 3, seed=seed), "an array")
        _expect_shared(trial, fresh(7, seed=seed, dtype="float64"), "an array of float64")
    _expect_shared(trial, fresh(2, 3, 1, 4, seed=0), "an array of four dimensions")


@sharing_tensor.row("the array's own dtype")
def shared_dtype(trial):
    for dtype in DTYPES:
        _expect_shared(trial, fresh(4, 3, seed=trial.seeds[0], dtype=dtype), f"an array of {dtype}")


@sharing_tensor.row("slices, transposes, empty arrays")
def shared_views(trial):
    a = fresh(6, 5, seed=trial.seeds[1])
    _expect_shared(trial, a[1:4], "a slice")
    _expect_shared(trial, a[::2, 1::3], "a slice with steps")
    _expect_shared(trial, a.T, "a transposed array")
    _expect_shared(trial, a[:, 2], "a column")
    _expect_shared(trial, a[::-1][::-1], "an array reversed twice")
    _call(trial, a[:, :0], "an empty array")


@sharing_tensor.row("negative strides: a ValueError says so")
def refused(trial):
    a = fresh(4, 6, seed=trial.seeds[2])
    for given in (a[0, ::-1], a[::-1], a[:, ::-1], a.T[1:, ::-2], fresh(5, seed=0, dtype="int64")[::-1]):
        _expect_refusal(trial, given)


def _expect_refusal(trial, a: numpy.ndarray) -> None:
    asked = 'a ValueError that says "negative"'
    try:
        with negative_strides_refused():
            got = trial.call(a)
    except AnswerRaised as raised:
        error = raised.error
    else:
        words = "the array has negative strides, and no error was raised"
        expect.fail(words, asked, f"{expect.describe(got)}, which cannot share that memory")
    if not isinstance(error, ValueError):
        expect.fail(f"{expect.a_type(error)} was raised, not a ValueError", asked, f"{error!r}")
    if "negative" not in str(error).lower():
        expect.fail('the ValueError does not say "negative"', asked, f'ValueError: "{error}"')


def _expect_independent(trial, a: numpy.ndarray, why: str) -> None:
    got = _call(trial, a, why)
    before = tensor_of(a)
    if a.flags.writeable:
        a[...] = changed(a)
        if not torch.equal(got, before):
            words = f"{why}: the tensor shares its memory, and shows a change in the array"
            expect.fail(words, "memory of its own", "the array's own memory")
    kept = a.copy()
    got.copy_(tensor_of(changed(a)))
    if a.tobytes() != kept.tobytes():
        words = f"{why}: the tensor shares its memory, and a change in it shows in the array"
        expect.fail(words, "memory of its own", "the array's own memory")


@independent_tensor.row("the array's numbers in memory of its own")
def independent_both_ways(trial):
    for seed in trial.seeds:
        _expect_independent(trial, fresh(5, 3, seed=seed), "an array")
        _expect_independent(trial, fresh(7, seed=seed, dtype="float64"), "an array of float64")
    first = _call(trial, a := fresh(3, 2, seed=0), "an array")
    _call(trial, fresh(3, 2, seed=1), "the next array")
    if not _show(first, a):
        words = "the tensor of the first array shows the numbers of the next one"
        expect.fail(words, "memory of its own for each", "one memory for both")


@independent_tensor.row("the array's own dtype")
def independent_dtype(trial):
    for dtype in DTYPES:
        _expect_independent(trial, fresh(4, 3, seed=trial.seeds[0], dtype=dtype), f"an array of {dtype}")


@independent_tensor.row("slices, transposes, read-only arrays")
def independent_views(trial):
    a = fresh(6, 5, seed=trial.seeds[1])
    for given, why in (
        (a[1:4], "a slice"),
        (a[::2, 1::3], "a slice with steps"),
        (a.T, "a transposed array"),
        (a[:, :0], "an empty array"),
        (a[:0], "an empty array"),
        (a[:1, 2:3], "an array of one element"),
    ):
        _expect_independent(trial, given, why)
    locked = a.view()
    locked.flags.writeable = False
    _expect_independent(trial, locked, "a read-only array")


@independent_tensor.row("negative strides, too")
def independent_of_negative(trial):
    a = fresh(4, 6, seed=trial.seeds[2])
    for given in (a[0, ::-1], a[::-1], a[:, ::-1], a.T[1:, ::-2], fresh(5, seed=0, dtype="int64")[::-1]):
        _expect_independent(trial, given, "an array with negative strides")
