"""Tensors from two places brought together."""

import torch

from devlab.checks import cases
from devlab.checks.scenes import scene
from devlab.checks.seen import most, must
from devlab.devices import has_float64
from devlab.lessons.lesson_02_cuda import lesson

add_anywhere = lesson.exercise(
    "add_anywhere(x, y)",
    ("E1", "E2", "E3", "E6"),
    "The sum belongs where x is, so x stays and y is brought there. What does `.to` do with a tensor that is "
    "there already?",
    "`y.to(x.device)` brings y to x, and returns y itself when it is there. `y.to(x)` is something else, "
    "because it takes over x's dtype too.",
    "The whole body is `return x + y.to(x.device)`. It needs neither `if` nor `try`.",
)

SIZES = (((4, 3), (4, 3)), ((4, 3), (3,)), ((5, 1), (2,)), ((0, 3), (3,)), ((2,), (3, 2)), ((4, 1), (1,)))


def ours(x, y):
    return x + y.to(x.device)


def see_sum(t, x, y):
    """See a sum. One in float64 is rounded once, alike on every device, so it is compared exactly."""
    got = t.call(x, y)
    there = got.device if isinstance(got, torch.Tensor) else x.device
    yield must(there == x.device, f"x is on {x.device}, y on {y.device}, and the sum on {there}", got=got)
    what = "the sum" + f" of {x.dtype} and {y.dtype}" * (x.dtype != y.dtype)
    yield what, got, 0.0 if torch.result_type(x, y) is torch.float64 else None


def see_transfers(t, x, y):
    """See each transfer that is not y's way to x, and how many there are."""
    copies, way = t.watched(x, y)[1].events.transfers, [str(y.device), str(x.device)]
    for one in copies:
        went = [one.source, one.target]
        words = "x was transferred," if went[0] == way[1] else "y took a detour,"
        words = f"both are on {x.device}, and a transfer went" if x.device == y.device else words
        yield must(went == way, f"{words} from {went[0]} to {went[1]}", got=one.line)
    yield most("y was transferred {} times, by {causes}", copies, 1)


@scene(add_anywhere, ours, "the sum, when both are in one place", asked="x + y on x's device")
def in_one_place(t):
    for left, right in SIZES:
        yield from see_sum(t, t.randn(*left, seed=t.seeds[0]), t.randn(*right, seed=t.seeds[0] + 7))
    yield from see_sum(t, t.randn(3, 5).t(), t.randn(5, 6)[:, ::2])


@scene(add_anywhere, ours, "on x's device, when y is elsewhere", asked="x + y on x's device")
def from_elsewhere(t):
    for other in cases.places(t)[1:]:
        for left, right in SIZES[1:]:
            yield from see_sum(t, t.randn(*left), t.randn(*right, seed=7, on=other))
    t.second()


@scene(add_anywhere, ours, "on x's device, when one is a single number", asked="x + y on x's device")
def single_numbers(t):
    for other in cases.places(t)[1:]:
        many, one = t.randn(4, 3, seed=t.seeds[1]), t.randn(3, seed=t.seeds[2])[1]
        pairs = [(many, one), (one, many), (one, t.randn(1)[0]), (many.half(), one)]
        pairs += [(many.long(), one.half())]  # float16, where a Python number would give float32
        if has_float64(t.device, other):  # a single float64 number widens integers, but no float
            pairs += [(one.double(), torch.arange(3)), (one.double(), torch.arange(3.0).half())]
        for x, y in pairs:
            yield from see_sum(t, x, y.to(other))


@scene(add_anywhere, ours, "y keeps its dtype", asked="x + y on x's device")
def dtypes_stay(t):
    pairs = [(torch.bool, torch.bool), (torch.int64, torch.float32), (torch.float16, torch.float32)]
    pairs += [(torch.bool, torch.int64), (torch.bfloat16, torch.float16), (torch.float32, torch.complex64)]
    pairs += [(torch.float32, torch.float64)] if has_float64(t.device) else []
    for one, other in pairs:
        x, y = (3 * t.randn(4, 3, seed=seed) for seed in t.seeds[:2])
        x, y = x.to(one), y.to(other)
        # A third dtype on the way would lose digits of this y.
        y = y + 2**53 if other is torch.int64 else y / 3 if other.itemsize == 8 else y
        places = [place for place in t.others if other is not torch.float64 or has_float64(place)]
        yield from see_sum(t, x, y.to((t.device, *places)[-1]))
        yield from see_sum(t, y, x)


@scene(add_anywhere, ours, "only y is transferred, at most once", asked="y to x's device, if it is elsewhere")
def only_y_moves(t):
    whole, column = t.randn(4, 3, seed=t.seeds[2]), t.randn(3, seed=t.seeds[0])
    for other in cases.places(t):
        y, tall = t.randn(4, 3, seed=7, on=other), t.randn(3, 4, seed=7, on=other).t()
        for x in (whole, column, column[0]):
            yield from see_transfers(t, x, y)
        for part in (y[0].clone(), y[0, 0].clone(), tall, tall.half(), tall.long()):
            yield from see_transfers(t, whole, part)
    t.second()
