"""A sum of two tensors, wherever each of them is."""

import itertools

import torch

from devlab.checks import cases, verbs
from devlab.checks.scenes import scene
from devlab.checks.seen import must
from devlab.lessons.lesson_09_several_devices import have_float64, lesson, see_gradients, see_transfers

add_across = lesson.exercise(
    "add_across(x, y, out_device)",
    ("U1", "U2", "U3"),
    "A sum is computed in one place, so both tensors have to be there first. Which place spares the result a "
    "transfer of its own?",
    "`.to(out_device)` gives a tensor there, from any device, with its graph. Where the tensor is there "
    "already, it is returned as it is, without a transfer.",
    "`return x.to(out_device) + y.to(out_device)`",
)


def ours(x, y, out_device):
    return x.to(out_device) + y.to(out_device)


def routes(t):
    """Yield places for x, which is on the trial's device, for y and for the sum, and the route's number."""
    for (row, y_at), (column, out) in itertools.product(enumerate(cases.places(t)), repeat=2):
        yield t.device, y_at, out, 3 * row + column


@scene(add_across, ours, "the sum, on out_device", "the sum of x and y")
def sum_there(t):
    for x_at, y_at, out, number in routes(t):
        x, y = (t.randn(4, 3, seed=t.seeds[0] + number + more, on=at) for more, at in ((0, x_at), (50, y_at)))
        for one, other in ((x, y), (y, x))[: 1 + (y_at != x_at)]:
            what = f"the sum of x on {one.device} and y on {other.device}"
            yield what, verbs.at_once(t, one, other, out, what="the sum")


@scene(add_across, ours, "shapes and dtypes as + gives them", "the sum of x and y")
def like_plus(t):
    x, whole = t.randn(4, 3), t.randint(-9, 9, (3,)).to(there := t.other())
    half, single = t.randn(2, 0, 3, dtype=torch.float16), t.randn(on=there)
    wide, truths = (t.randn(3, dtype=torch.bfloat16), t.randn(2, 1, on=there)), (x > 0, (x < 1).to(there))
    pairs = [(x, whole), (whole, x), (half, single), (single, half), (x.T, whole[:1]), wide, truths]
    pairs += [(whole.to(t.device), whole + 2**53)]  # digits that a third dtype on the way would lose
    calls = [(*pair, None) for pair in pairs]
    if have_float64(t):  # where a sum is rounded once, alike on every device
        calls.append((x.double() / 3, single.double(), 0.0))
    for (one, other, within), out in itertools.product(calls, (t.device, there)):
        yield "the sum", t.call(one, other, out), within


@scene(add_across, ours, "gradients flow back to both", "the sum of x and y")
def gradients_return(t):
    x, y = t.randn(3, 2, seed=t.seeds[0]), t.randn(3, 2, seed=t.seeds[1], on=(there := t.other()))
    both = x.clone().requires_grad_(), y.clone().requires_grad_()
    # A single number asks for a gradient, and what it is added to does not.
    single, last = x[0, 0].clone().requires_grad_(), y[0, 0].clone().requires_grad_()
    for (one, other), out in itertools.product((both, (single, y), (x, last)), (t.device, there)):
        got = t.call(one, other, out)
        yield "the sum", got
        yield from see_gradients(got, {"x": one, "y": other}, "the sum")


@scene(add_across, ours, "two transfers at most, none if all are together")
def few_transfers(t):
    for x_at, y_at, out, _ in routes(t):
        x, y = t.randn(6, 5, seed=t.seeds[0], on=x_at), t.randn(6, 5, seed=t.seeds[1], on=y_at)
        needed, together = "each tensor straight to the place of the other or of the sum", x_at == y_at == out
        needed = f"x, y and the sum are all on {out}: nothing has to move" if together else needed
        for given in (y, y[0, 0]) if together else (y,):
            _, log = t.watched(x, given, out)
            yield from see_transfers(log, 0 if together else 2, needed)
            for copy in log.events.transfers:
                has_part = torch.device(copy.target) in (x_at, y_at, out)
                yield must(has_part, f"something goes to {copy.target}, which has no part in the sum", needed)
    t.second()
