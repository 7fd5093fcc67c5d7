"""Calls of a learner's code: what verdicts call its arguments, and which changes to them are seen."""

import functools
import re

import numpy
import pytest
import torch

from devlab.checks.calls import Call, Snapshot, name_inputs, require_parameters
from devlab.checks.expect import Mismatch
from devlab.checks.values import copy_of, describe, on_cpu
from devlab.devices import bench
from devlab.sim import clock
from devlab.watching.watch import watch


class Whole:
    """A class with a method, each called in its own way."""

    def __init__(self, one, two=2):
        self.one, self.two = one, two

    def method(self, x, y=1):
        """Take one or two."""


def some(x, y=1, *rest, z=2):
    """Take many."""


@functools.wraps(some)
def wrapped(*args):
    """Be said to take what another takes."""


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (some, {"x": 1, "y": 2, "*0": 3}),
        (wrapped, {"x": 1, "y": 2, "*0": 3}),
        (functools.partial(some, 0), {"y": 1, "*0": 2, "*1": 3}),
        (Whole(1).method, {"*0": 1, "*1": 2, "*2": 3}),  # it takes no third
        (Whole.method, {"self": 1, "x": 2, "y": 3}),
        (torch.nn.Bilinear(1, 1, 1).forward, {"*0": 1, "*1": 2, "*2": 3}),
        (torch.nn.MultiheadAttention(2, 1), {"query": 1, "key": 2, "value": 3}),
        (max, {"*0": 1, "*1": 2, "*2": 3}),  # Python cannot say what it takes
    ],
)
def test_inputs_are_named_as_the_function_names_them(function, names):
    """A module is called as its forward is; what cannot take the inputs has no names for them."""
    assert name_inputs(function, (1, 2, 3)) == names


@pytest.mark.parametrize("function", [Whole, Whole(1).method, lambda x, *, key: x, lambda: 0])
def test_what_cannot_take_the_arguments_is_refused(function):
    """The verdict shows the parameters that the task gives, before the function runs."""
    with pytest.raises(Mismatch, match="the parameters are not those of the task"):
        require_parameters(function, "f()", (1, 2, 3))


def _numpy(x):
    x.detach().cpu().numpy()[0] = 7  # the same memory on the CPU, a copy elsewhere


CHANGES = {
    "in place": lambda x: x.add_(1),
    "by .data": lambda x: x.data.mul_(3),
    "by other .data": lambda x: setattr(x, "data", torch.zeros_like(x)),
    "by a view": lambda x: x[1:].zero_(),
    "requires_grad": lambda x: x.requires_grad_(),
    "strides": lambda x: x.resize_(1, 3),
    "dtype": lambda x: setattr(x, "data", x.data.double()),
    "a number to nan": lambda x: x[0].fill_(float("nan")),
}


@pytest.mark.parametrize("device", bench(), ids=str)
@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_every_change_of_an_input_is_seen(change, device):
    """Whichever road it takes."""
    x = torch.tensor([1.0, 2.0, 3.0]).to(device)
    before = Snapshot((x, [x]))
    before.require_untouched((x, [x]))
    CHANGES[change](x)
    with pytest.raises(Mismatch, match="the input was changed in place"):
        before.require_untouched((x, [x]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda batch, rest: batch["x"].zero_(), "the input `batch['x']` was changed in place"),
        (lambda batch, rest: batch.update(x=torch.ones(2)), "the input `batch['x']` was replaced"),
        (lambda batch, rest: batch.pop("x"), "the input `batch` was changed"),
        (lambda batch, rest: batch.update(y=1), "the input `batch` was changed"),
        (lambda batch, rest: rest.append(1), "the input was changed"),
        (lambda batch, rest: rest[0].zero_(), "the input at [0] was changed in place"),
        (lambda batch, rest: rest.__setitem__(0, torch.ones(2)), "the input at [0] was replaced"),
        (lambda batch, rest: rest.clear(), "the input was changed"),
    ],
)
def test_a_changed_input_is_named_as_the_learner_names_it(change, said):
    """With its place in it; what came by `*rest` has no name."""
    inputs = ({"x": torch.ones(2)}, [torch.ones(2)])
    before = Snapshot(inputs, ("batch", "*0"))
    before.require_untouched(inputs)
    change(*inputs)
    with pytest.raises(Mismatch, match=re.escape(said) + "$"):
        before.require_untouched(inputs)


@pytest.mark.parametrize(
    ("before", "now", "got"),
    [
        (torch.ones(2), torch.ones(2), "another tensor: f32[2] cpu"),
        (
            torch.ones((), requires_grad=True),
            torch.ones(()),
            "another tensor, without its graph: f32[] cpu, value 1",
        ),
        (torch.ones(2), 3.0, "3.0"),
        (2.0, 2, "2"),
    ],
)
def test_what_replaced_an_input_does_not_read_like_it(before, now, got):
    """A copy has the same numbers and form; what tells it from the input is said."""
    rows = [before]
    snapshot = Snapshot((rows,), ("rows",))
    rows[0] = now
    with pytest.raises(Mismatch, match="was replaced") as found:
        snapshot.require_untouched((rows,))
    assert found.value.got == got


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows.__setitem__(0, (1, 2)), "the input `rows[0]` was replaced"),
        (lambda rows: rows.__setitem__(1, ()), "the input `rows[1]` was replaced"),
        (lambda rows: rows.pop(1), "the input `rows` was changed"),
        (lambda rows: rows.append({}), "the input `rows` was changed"),
        (lambda rows: rows.__setitem__(1, None), "the input `rows` was changed"),
    ],
)
def test_containers_stay_what_they_were(change, said):
    """Also where what they hold is the same, or nothing."""
    rows = [[1, 2], []]
    snapshot = Snapshot((rows,), ("rows",))
    snapshot.require_untouched((rows,))
    change(rows)
    with pytest.raises(Mismatch, match=re.escape(said) + "$"):
        snapshot.require_untouched((rows,))


@pytest.mark.parametrize(
    "make", [lambda: float("1.5"), lambda: int("12345"), lambda: "".join("name"), lambda: torch.device("cpu")]
)
def test_a_value_in_the_place_of_its_equal_is_no_change(make):
    """Nobody can tell them apart, so nobody is accused."""
    rows = [make()]
    snapshot = Snapshot((rows,), ("rows",))
    before, rows[0] = rows[0], make()
    assert rows[0] is not before
    snapshot.require_untouched((rows,))


def test_a_change_by_numpy_is_seen():
    """An array that shares an input's memory."""
    x = torch.ones(3)
    before = Snapshot((x,))
    _numpy(x)
    with pytest.raises(Mismatch):
        before.require_untouched((x,))


@pytest.mark.parametrize("device", bench(), ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_what_is_untouched_is_not_accused(dtype, device):
    """Nan, which equals nothing, included; other views of the same memory too."""
    x = torch.tensor([0.0, 1.0, float("nan"), float("inf")]).nan_to_num(
        0.0 if dtype.is_floating_point else 1.0
    )
    if dtype.is_floating_point or dtype.is_complex:
        x[2] = float("nan")
    x = x.to(dtype).to(device)
    inputs = (x, x[1:], x.view(2, 2).t(), {"k": x.expand(2, 4)}, numpy.ones(2))
    Snapshot(inputs).require_untouched(inputs)


@pytest.mark.usefixtures("empty_memory")
def test_looking_at_inputs_takes_nothing_of_a_simulated_device_before_a_call():
    """Neither time nor memory, at any time: what a row measures of a call is the call's alone."""
    x = torch.ones(1000, device="sim:0")
    figures, moment = torch.accelerator.memory_stats(0), clock.now()
    before = Snapshot((x,))
    assert clock.now() == moment
    with watch() as log:
        before.require_untouched((x,))
    assert torch.accelerator.memory_stats(0) == figures
    assert not log.transfers
    assert not log.synchronizations


def test_reading_waits_for_the_device():
    """As every copy to the host does: what was under way has arrived."""
    x = torch.ones(1000, device="sim:0")
    late = x.to("cpu", non_blocking=True)
    assert not late.any()
    copy_of(x)
    assert not late.any()
    on_cpu(x)
    assert late.all()


@pytest.mark.parametrize("device", bench(), ids=str)
def test_what_is_read_has_the_values_and_no_graph(device):
    """Whatever view of the memory is read."""
    x = torch.arange(6.0).to(device).view(2, 3).requires_grad_()
    z = torch.tensor([1 + 2j, 3 - 4j]).to(device).requires_grad_()
    for seen in (
        x,
        x.t(),
        x[:, 1:],
        2 * x,
        x.expand(2, 2, 3),
        torch.nn.Parameter(x),
        z,
        z.conj(),
        z.conj().imag,
    ):
        held = on_cpu(seen)
        assert held.is_cpu
        assert not held.requires_grad
        assert torch.equal(held, seen.detach().cpu())


@pytest.mark.parametrize("device", bench(), ids=str)
def test_a_call_reads_as_it_was_made(device):
    """The words are found later; they are those of the moment of the call."""
    module, x, one = (
        torch.nn.Linear(2, 1).to(device),
        torch.ones(4, 3, device=device),
        torch.ones((), device=device),
    )
    many, array = [x, 1], numpy.ones(2)
    given = {"x": x, "one": one, "many": many, "array": array, "*0": 7, "k": None, "m": module, "t": "a  b"}
    call = Call("f", given | {"huge": 10**200})
    wanted = ", ".join(
        describe(value) if name == "*0" else f"{name}={describe(value)}" for name, value in given.items()
    )
    x.data, many[0] = torch.zeros(2, dtype=torch.int64), 3
    one.add_(1)
    array.setflags(write=False)
    module.to("meta")
    assert call.reads == f"f({wanted}, huge={describe(10**200)})"
