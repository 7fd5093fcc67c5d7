"""A tensor over an array's memory."""

import numpy

from devlab.checks import expect
from devlab.checks.calls import AnswerRaised
from devlab.lessons.lesson_06_numpy_sharing import (
    DTYPES,
    changed,
    fresh,
    lesson,
    shows,
    tensor_from,
    tensor_of,
)
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


def _expect_shared(trial, a: numpy.ndarray, why: str) -> None:
    got = tensor_from(trial, a, why)
    wanted = "the array's own memory"
    a[...] = changed(a)
    if not shows(got, a):
        words = f"{why}: the tensor is a copy, and does not show a change in the array"
        expect.fail(words, wanted, "other memory")
    got.copy_(tensor_of(changed(a)))
    if not shows(got, a):
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
    tensor_from(trial, a[:, :0], "an empty array")


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
