"""Whether a tensor and an array show the same memory."""

import numpy
import torch

from devlab.checks import expect
from devlab.devices import has_float64
from devlab.lessons.lesson_06_numpy_sharing import fresh, lesson, tensor_of
from devlab.lessons.lesson_06_numpy_sharing.work import Work
from devlab.sim.private import negative_strides_refused

shares_memory = lesson.exercise(
    "shares_memory",
    signature="shares_memory(t, a)",
    facts=("N1", "N3", "N4", "N5"),
    hints=(
        "Equal numbers prove nothing: a copy has them too. And two views may begin at different "
        "addresses and still overlap. NumPy has a function that answers this for two arrays.",
        "`np.shares_memory(one, other)` compares addresses, element by element, and changes nothing. A CPU "
        "tensor has a NumPy view; a tensor elsewhere cannot share, so that question comes first.",
        '`if t.device.type != "cpu": return False`, and then '
        "`return np.shares_memory(t.detach().numpy(), a)`",
    ),
)


def _expect_answer(trial, t: torch.Tensor, a: numpy.ndarray, shared: bool, why: str) -> None:
    """Expect the answer for the pair; on an accelerator for a copy of t there, which shares nothing."""
    if t.dtype == torch.float64 and not has_float64(trial.device):
        return
    if trial.device.type != "cpu":
        t, shared = t.detach().to(trial.device), False
        why = f"t is on {trial.device}, and the array in the computer's own memory"
    with negative_strides_refused():
        got = trial.call(t, a)
    expect.kind(got, (bool, numpy.bool_), "a bool", "the answer")
    if bool(got) != shared:
        _refuse_comparing_numbers(trial, why)
    expect.equal(bool(got), shared, why)


def _refuse_comparing_numbers(trial, why: str) -> None:
    """Say so where equal numbers decide: True of a copy that has them, False of a view of another form."""
    seen = trial.last_call
    a = numpy.array([[1.0, 2.0], [3.0, 4.0]], dtype="float32")
    equal, other = trial.call(torch.tensor(a), a), trial.call(torch.tensor(a) + 1, a)
    trial.last_call = seen  # the verdict is about the call that was wrong
    if (bool(equal), bool(other)) == (True, False):
        headline = "equal numbers were taken for shared memory: a copy has them, too"
        expect.fail(headline, "what is stored in the same place", why)


@shares_memory.row("one memory under two names: True")
def one_memory(trial):
    for seed in trial.seeds:
        a = fresh(4, 6, seed=seed)
        t = torch.from_numpy(a)
        _expect_answer(trial, t, a, True, "t is torch.from_numpy(a), which copies nothing")
        _expect_answer(trial, t.t()[2:], a.T, True, "both are views of one array, transposed")
        _expect_answer(trial, t, a.view("int32"), True, "a is the same bytes, read as other numbers")
        made = torch.randn(3, 5)
        _expect_answer(trial, made, made.numpy()[1:], True, "a is a view of t.numpy(), which copies nothing")
        halves = a.view("int16")[:, 1::2]
        _expect_answer(trial, t, halves, True, "a is the second half of the bytes of every number")
    wanting = torch.from_numpy(a).requires_grad_()
    _expect_answer(trial, wanting, a, True, "a tensor that asks for a gradient has its memory like others")
    single = numpy.array(2.5, dtype="float32")
    _expect_answer(trial, torch.from_numpy(single), single, True, "an array of no dimensions is shared, too")


@shares_memory.row("equal numbers in two memories: False")
def two_memories(trial):
    for seed in trial.seeds:
        a = fresh(5, 3, seed=seed)
        shared = torch.from_numpy(a)
        _expect_answer(trial, torch.tensor(a), a, False, "t is torch.tensor(a), which copies")
        _expect_answer(trial, shared.clone(), a, False, "t is a clone: equal numbers in its own memory")
        _expect_answer(trial, shared, a.copy(), False, "a is a copy of the array that t shares")
        _expect_answer(trial, shared.double(), a, False, "t was converted, and that took other memory")
    zeros = numpy.zeros((5, 3), dtype="float32")
    _expect_answer(trial, torch.zeros(5, 3), zeros, False, "both are zeros, each in its own memory")


@shares_memory.row("an overlap in part: True")
def partial_overlap(trial):
    base = fresh(24, seed=trial.seeds[0])
    grid = base.reshape(4, 6)
    pairs = (
        (base[2:9], base[6:15]),
        (base[6:15], base[2:9]),
        (base[:8], base[7:]),
        (base, base[11:12]),
        (grid[1], grid[:, 4]),
        (grid[::2, 1:], grid[2, ::-1]),
        (base[::2], base[::3]),
        (base[3:12], base[::-1]),
    )
    for under, over in pairs:
        why = "some elements of t are elements of a, too"
        _expect_answer(trial, torch.from_numpy(under), over, True, why)


@shares_memory.row("neighbours in one memory: False")
def neighbours(trial):
    base = fresh(24, seed=trial.seeds[1])
    whole, grid = torch.from_numpy(base), base.reshape(4, 6)
    same_base = "t and a are parts of one array, without one element in common"
    _expect_answer(trial, whole[:12], base[12:], False, same_base)
    _expect_answer(trial, whole[20:], base[3:9][::-1], False, same_base)
    _expect_answer(trial, torch.from_numpy(grid[:, 0]), grid[:, 1:], False, same_base)
    _expect_answer(trial, whole[::2], base[1::2], False, "every second element each: nothing in common")
    _expect_answer(trial, whole[:0], base, False, "an empty tensor has no element to share")
    _expect_answer(trial, whole, base[5:5], False, "an empty array has no element to share")
    _expect_answer(trial, whole[7:7], base[7:7], False, "both are empty, there is nothing to share")


@shares_memory.row("neither of the two is changed")
def nothing_is_changed(trial):
    a = fresh(3, 4, seed=trial.seeds[2])
    locked = a.view()
    locked.flags.writeable = False
    _expect_answer(trial, torch.from_numpy(a), locked, True, "a read-only array is shared all the same")
    t = torch.from_numpy(a) if trial.device.type == "cpu" else tensor_of(a).to(trial.device)
    weight = trial.randn(3, 4, seed=trial.seeds[0]).requires_grad_()
    product = weight * t  # keeps t for its gradient, and would notice a write to it
    work = Work(a)
    with work:
        trial.call(t, a)
    if work.writes:
        headline = "t was written to, if only for a moment"
        expect.fail(headline, "both looked at alone", f"{work.writes} operations in place on their memory")
    try:
        product.sum().backward()
    except RuntimeError as error:
        expect.fail("t was written to, and the graph that uses it is broken", "t only looked at", str(error))
