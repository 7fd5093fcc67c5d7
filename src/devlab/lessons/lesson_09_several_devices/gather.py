"""Parts on several devices joined to one batch again."""

import itertools

import torch

from devlab.checks import cases
from devlab.checks.scenes import scene
from devlab.lessons import ranks
from devlab.lessons.lesson_09_several_devices import (
    cut,
    each,
    have_float64,
    lesson,
    make_batch,
    see_alike,
    see_gradients,
    see_straight_transfers,
    tensors_in,
)

gather = lesson.exercise(
    "gather",
    signature="gather(parts, device)",
    facts=("U1", "U2", "U5"),
    hints=(
        "Move every part to the device, and join them there along dimension 0, in their order.",
        "`torch.cat` joins only what is in one place. For parts that nest: gather the same place of all "
        "parts together, and build one container from the results.",
        "For tensors: `torch.cat([part.to(device) for part in parts])`. For dicts: "
        "`{key: gather([part[key] for part in parts], device) for key in parts[0]}`. Lists and tuples "
        "likewise.",
    ),
)


def ours(parts, device):
    return each(lambda *pieces: torch.cat([piece.to(device) for piece in pieces]), *parts)


def make_parts(batch, sizes, devices):
    """Return parts of a batch, of these lengths, on these devices in turn."""
    stops = [0, *itertools.accumulate(sizes)]
    bounds = zip(stops, stops[1:], itertools.cycle(devices), strict=False)
    return [cut(batch, start, stop, device) for start, stop, device in bounds]


def see_whole(t, batch, sizes, devices, target):
    got = t.call(make_parts(batch, sizes, devices), target)
    yield from see_alike(got, cut(batch, 0, sum(sizes)), "the whole")


def see_gradients_of_parts(t, devices, shape, keys):
    """See the gradients that flow back to the parts, each of which is in a dict where there is a key."""
    parts = [t.randn(*shape, seed=seed, on=at).requires_grad_() for seed, at in enumerate(devices)]
    whole = t.call([dict.fromkeys(keys, part) or part for part in parts], t.device)
    joined = torch.cat([part.detach().to(t.device) for part in parts])
    yield from see_alike(whole, dict.fromkeys(keys, joined) or joined, "the whole")
    inputs = {f"part {number}": part for number, part in enumerate(parts)}
    what = "the whole" + "".join(f"[{key!r}]" for key in keys)
    yield from see_gradients(whole["x"] if keys else whole, inputs, what)


@scene(gather, ours, "the parts joined in order, on the device", "the order of the list")
def joined(t):
    ranks.wake()  # the exercise after this one needs processes that take seconds to start
    ways = ([5, 4], [t.device, t.other()]), ([4, 5], [t.other(), t.device])
    for seed, target, way in itertools.product(t.seeds, cases.places(t), ways):
        yield from see_whole(t, t.randn(9, 3, seed=seed), *way, target)
    if have_float64(t):
        wide = t.randn(5, 2, seed=t.seeds[0]).double() + 1e-12
        yield from see_whole(t, wide, [3, 2], [t.device, t.other()], t.device)
    yield from see_gradients_of_parts(t, [t.device, t.other()], (2, 3), "")


@scene(gather, ours, "any number of parts, empty ones too", "the order of the list")
def any_parts(t):
    x = t.randn(6, 3, seed=t.seeds[0])
    for sizes in ([6], [2, 2, 2], [3, 3, 0], [0, 6], [1, 2, 0, 3], [1, 1, 2, 2], [0, 0]):
        yield from see_whole(t, x, sizes, cases.places(t), t.device)
        yield from see_whole(t, x[:, 0], sizes, cases.places(t), t.other())


@scene(gather, ours, "nested parts become one batch again")
def joined_nested(t):
    devices = [t.device, t.other()]
    for target in cases.places(t):
        yield from see_whole(t, make_batch(t, 7), [4, 3], devices, target)
    for sizes in ([2, 1, 1], [0, 3, 1], [0, 0, 0]):
        yield from see_whole(t, make_batch(t, 4), sizes, devices, t.device)
    yield from see_whole(t, make_batch(t, 4), [4], devices[1:], t.device)
    x, y = t.randn(5, 2, seed=t.seeds[2]), t.randint(0, 9, (5,))
    for batch in ((x, y), [y, x], (x,), [{"x": x}]):
        yield from see_whole(t, batch, [3, 2], devices, t.other())
    yield from see_gradients_of_parts(t, [*devices, t.device], (2,), "x")


@scene(gather, ours, "each part transferred once, if it is elsewhere")
def gathered_once(t):
    parts, together = (
        make_parts(make_batch(t, 7), [3, 2, 2], at) for at in ([t.device, t.other()], [t.device])
    )
    for target, given in [*((target, parts) for target in cases.places(t)), (t.device, together)]:
        _, log = t.watched(given, target)
        yield from see_straight_transfers(log, tensors_in(given), target)
    t.second()
