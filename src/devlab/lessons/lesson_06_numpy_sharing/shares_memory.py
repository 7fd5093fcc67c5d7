"""Whether a tensor and an array show the same memory."""

from collections.abc import Callable

import numpy
import torch

from devlab.checks import cases, expect, verbs
from devlab.lessons.lesson_06_numpy_sharing import Work, fresh, lesson, tensor_of
from devlab.sim.private import negative_strides_refused

shares_memory = lesson.exercise(
    "shares_memory(t, a)",
    ("N1", "N3", "N4", "N5"),
    "Equal numbers prove nothing: a copy has them too. And two views may begin at different addresses and "
    "still overlap. NumPy has a function that answers this for two arrays.",
    "`np.shares_memory(one, other)` compares addresses, element by element, and changes nothing. A CPU "
    "tensor has a NumPy view; a tensor elsewhere cannot share, so that question comes first.",
    '`if t.device.type != "cpu": return False`, and then `return np.shares_memory(t.detach().numpy(), a)`',
)


WRITING = "__setitem__", "__iadd__", "__isub__", "__imul__", "__ixor__", "fill", "put"
written: list[str] = []  # the methods by which an array of the class below was written to


def note_writes(name: str) -> Callable:
    def method(self, *args):
        written.append(f"a.{name}(...)")
        return getattr(numpy.ndarray, name)(self, *args)

    return method


Noticing = type("Noticing", (numpy.ndarray,), {name: note_writes(name) for name in WRITING})
Pairs = list[tuple[str, torch.Tensor, numpy.ndarray]]  # the words for a pair, the tensor and the array


def _expect(trial, wanted: bool, pairs: Pairs) -> None:
    """Expect the answer for each pair; on an accelerator for a copy of t there, which shares nothing."""
    away = trial.device.type != "cpu"
    shared = wanted and not away
    for why, t, a in pairs:
        if t.dtype == torch.float64 and not cases.holds(trial.device, t.dtype):
            continue
        if away:
            why = f"t is on {trial.device}, and the array in the computer's own memory"
        with negative_strides_refused():
            got = trial.call(t.detach().to(trial.device) if away else t, a)
        expect.kind(got, (bool, numpy.bool_), "a bool", "the answer")
        if bool(got) != shared and _goes_by_numbers(trial):
            headline = "equal numbers were taken for shared memory: a copy has them, too"
            expect.fail(headline, "what is stored in the same place", why)
        expect.equal(bool(got), shared, why)


def _goes_by_numbers(trial) -> bool:
    """Tell whether equal numbers decide: True of a copy that has them, False where they differ."""
    a = numpy.array([[1.0, 2.0], [3.0, 4.0]], dtype="float32")
    with verbs.aside(trial):
        equal, other = trial.call(torch.tensor(a), a), trial.call(torch.tensor(a) + 1, a)
    return (bool(equal), bool(other)) == (True, False)


@shares_memory.row("one memory under two names: True")
def one_memory(trial):
    for seed in trial.seeds:
        a, made = fresh(4, 6, seed=seed), torch.randn(3, 5)
        t = torch.from_numpy(a)
        pairs = [
            ("t is torch.from_numpy(a), which copies nothing", t, a),
            ("both are views of one array, transposed", t.t()[2:], a.T),
            ("a is the same bytes, read as other numbers", t, a.view("int32")),
            ("a is a view of t.numpy(), which copies nothing", made, made.numpy()[1:]),
            ("a is the second half of the bytes of every number", t, a.view("int16")[:, 1::2]),
        ]
        _expect(trial, True, pairs)
    single = numpy.array(2.5, dtype="float32")
    wanting = torch.from_numpy(a).requires_grad_()
    pairs = [
        ("a tensor that requires a gradient has its memory like others", wanting, a),
        ("an array of no dimensions is shared, too", torch.from_numpy(single), single),
        ("a tensor in a graph has its memory like others", wanting[1:], a),
    ]
    for dtype in ("int64", "complex64"):
        other = fresh(3, 2, seed=seed, dtype=dtype)
        pairs.append((f"numbers of {dtype} are shared like others", torch.from_numpy(other), other))
    _expect(trial, True, pairs)


@shares_memory.row("equal numbers in two memories: False")
def two_memories(trial):
    for seed in trial.seeds:
        a = fresh(5, 3, seed=seed)
        shared = torch.from_numpy(a)
        pairs = [
            ("t is torch.tensor(a), which copies", torch.tensor(a), a),
            ("t is a clone: equal numbers in its own memory", shared.clone(), a),
            ("a is a copy of the array that t shares", shared, a.copy()),
            ("t was converted, and that took other memory", shared.double(), a),
        ]
        _expect(trial, False, pairs)
    zeros = numpy.zeros((5, 3), dtype="float32")
    _expect(trial, False, [("both are zeros, each in its own memory", torch.zeros(5, 3), zeros)])


@shares_memory.row("an overlap in part: True")
def partial_overlap(trial):
    base = fresh(24, seed=trial.seeds[0])
    grid = base.reshape(4, 6)
    overlaps = (
        (base[2:9], base[6:15]),
        (base[6:15], base[2:9]),
        (base[:8], base[7:]),
        (base, base[11:12]),
        (grid[1], grid[:, 4]),
        (grid[::2, 1:], grid[2, ::-1]),
        (base[::2], base[::3]),
        (base[3:12], base[::-1]),
    )
    why = "some elements of t are elements of a, too"
    _expect(trial, True, [(why, torch.from_numpy(under), over) for under, over in overlaps])


@shares_memory.row("neighbours in one memory: False")
def neighbours(trial):
    base = fresh(24, seed=trial.seeds[1])
    whole, grid = torch.from_numpy(base), base.reshape(4, 6)
    same_base = "t and a are parts of one array, without one element in common"
    pairs = [
        (same_base, whole[:12], base[12:]),
        (same_base, whole[20:], base[3:9][::-1]),
        (same_base, torch.from_numpy(grid[:, 0]), grid[:, 1:]),
        ("every second element each: nothing in common", whole[::2], base[1::2]),
        ("an empty tensor has no element to share", whole[:0], base),
        ("an empty array has no element to share", whole, base[5:5]),
        ("both are empty, there is nothing to share", whole[7:7], base[7:7]),
    ]
    _expect(trial, False, pairs)


@shares_memory.row("neither of the two is changed")
def nothing_is_changed(trial):
    a = fresh(3, 4, seed=trial.seeds[2])
    locked = a.view()
    locked.flags.writeable = False
    _expect(trial, True, [("a read-only array is shared all the same", torch.from_numpy(a), locked)])
    t = torch.from_numpy(a) if trial.device.type == "cpu" else tensor_of(a).to(trial.device)
    weight = trial.randn(3, 4, seed=trial.seeds[0]).requires_grad_()
    product = weight * t  # keeps t for its gradient, and would notice a write to it
    work = Work(a)
    with work:
        trial.call(t, a)
    said = f"{verbs.times(work.writes, 'operation')} in place on their memory"
    expect.that(not work.writes, "t was written to, if only for a moment", "both looked at alone", said)
    noticing = tensor_of(a).numpy().view(Noticing)
    written.clear()
    trial.call(torch.from_numpy(noticing), noticing)
    asked, said = "both looked at alone", ", ".join(written)
    expect.that(not written, "a was written to, if only for a moment", asked, said)
    broken = "t was written to, and the graph that uses it is broken"
    verbs.flows(product, weight, None, broken=broken, asked="t only looked at")
