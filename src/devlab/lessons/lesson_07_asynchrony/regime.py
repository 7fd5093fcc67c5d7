"""Three regimes: what decides how long a product of matrices takes, worked out on paper."""

import torch

from devlab.checks import expect
from devlab.checks.scenes import scene
from devlab.checks.seen import Seen
from devlab.lessons.lesson_07_asynchrony import lesson
from devlab.sim import specs

regime = lesson.exercise(
    "regime(rows, inner, columns, dtype, chip)",
    ("J1", "J2", "J3", "J4"),
    "Count first, and divide afterwards. How many bytes do the three matrices have, and how many "
    "operations does a single number of the result take?",
    "There are 2 · rows · inner · columns operations, and `dtype.itemsize` bytes for every number of the "
    "three matrices. Their quotient is the intensity. Each of the two, divided by one of the chip's "
    "figures, is a time. Which of the two rates does this dtype have?",
    "Put the three times into a dict, `times = {'overhead': …, 'bandwidth': …, 'compute': …}`, and "
    "`return max(times, key=times.get), operations / moved`. Of equal times `max` finds the first.",
)

REGIMES = ("overhead", "bandwidth", "compute")
FIGURES = ("launch", "bandwidth", "rate", "half_rate")
REFERENCE, SHARED = (
    {name: getattr(one, name) for name in FIGURES} for one in (specs.CUDA_LIKE, specs.MPS_LIKE)
)
HOST = {"launch": specs.HOST.call} | {name: getattr(specs.HOST, name) for name in FIGURES[1:]}
# Faster than the reference machine, as later GPUs are, and no quicker to launch.
LATER = {name: more * REFERENCE[name] for name, more in zip(FIGURES, (1, 11, 8, 15), strict=True)}
# No chip: powers of two, so that equal times are equal in floating point, too.
EVEN = {"launch": 2.0**-20, "bandwidth": 2.0**34, "rate": 2.0**38, "half_rate": 2.0**38}

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
COUNTED = ((32, 2048, 512), (1, 1000, 10), (5, 3, 7), (1024, 2048, 512))  # in all three regimes
# In each call one time is at least a tenth longer than the others.
PLAIN = (
    (16, 16, 16, F32, REFERENCE),
    (1, 2048, 2048, F32, REFERENCE),
    (1024, 1024, 1024, F32, REFERENCE),
    (256, 256, 256, F32, REFERENCE),
    (256, 512, 256, F32, REFERENCE),
    (4096, 16, 4096, F32, REFERENCE),  # nearly all of its bytes are the result's
)
HALVED = (
    (64, 4096, 4096, F32, REFERENCE),
    (64, 4096, 4096, F16, REFERENCE),
    (64, 4096, 4096, BF16, REFERENCE),
    (512, 4096, 4096, BF16, REFERENCE),
    (1, 1024, 1024, F16, HOST),
)
OTHERS = (
    (72, 2048, 2048, F32, SHARED),
    (320, 320, 320, F32, SHARED),
    (48, 8192, 8192, F32, LATER),
    (448, 512, 512, F32, LATER),
    (32, 512, 512, F32, HOST),
    (2, 512, 512, F32, HOST),
    (64, 1024, 1024, BF16, LATER),
    (48, 8192, 8192, F16, LATER),
    (4096, 4096, 4096, F16, LATER),
    (32, 128, 128, F32, HOST),  # it takes longer than this chip's launch, and not than the reference's
)


def times_of(rows, inner, columns, dtype, chip):
    """Return the seconds of launch, bytes and operations, by the regime, and the intensity."""
    moved = dtype.itemsize * (rows * inner + inner * columns + rows * columns)
    operations = 2 * rows * inner * columns
    rate = chip["half_rate" if dtype in specs.HALF else "rate"]
    times = chip["launch"], moved / chip["bandwidth"], operations / rate
    return dict(zip(REGIMES, times, strict=True)), operations / moved


def ours(*call):
    times, intensity = times_of(*call)
    return max(times, key=times.get), intensity


def answered(t, *call):
    """Call the answer, and return the regime and the intensity that it gives."""
    *counted, chip = call
    got = t.call(*counted, dict(chip))  # a copy, which an answer may spoil
    expect.kind(got, tuple, "a tuple of the regime and the intensity")
    if len(got) != 2:
        expect.fail("the tuple has two parts, the regime and the intensity", "2 parts", f"{len(got)}")
    if isinstance(got[0], float) and isinstance(got[1], str):
        expect.fail("the regime comes first, and the intensity second", "(regime, intensity)", got)
    expect.kind(got[0], str, "a str", "the regime")
    if got[0] not in REGIMES:
        asked = '"overhead", "bandwidth" or "compute"'
        expect.fail("that is no name of a regime: they are three, in small letters", asked, got[0])
    expect.kind(got[1], float, "a float", "the intensity")
    return got


def intensity(t, *counted):
    got = answered(t, *counted, REFERENCE)[1]
    yield Seen("the intensity", got, 1e-9, asked="operations ÷ the bytes that are read and written")


def regimes(t, *calls):
    for call in calls:
        launch, moving, computing = (f"{1e6 * one:.3g} µs" for one in times_of(*call)[0].values())
        asked = f"the longest of: launch {launch}, bytes {moving}, operations {computing}"
        yield Seen("the regime", answered(t, *call)[0], asked=asked)


@scene(regime, ours, "the arithmetic intensity in float32")
def intensity_in_float32(t):
    for shape in COUNTED:
        yield from intensity(t, *shape, F32)


@scene(regime, ours, "the arithmetic intensity in 16 bits")
def intensity_in_16_bits(t):
    for dtype in specs.HALF:
        yield from intensity(t, *COUNTED[0], dtype)


@scene(regime, ours, "the longest of three times decides")
def longest_decides(t):
    yield from regimes(t, *PLAIN)


@scene(regime, ours, "16-bit floats at half_rate")
def half_rate(t):
    yield from regimes(t, *HALVED)


@scene(regime, ours, "every chip by its own figures")
def every_chip(t):
    yield from regimes(t, *OTHERS)


@scene(regime, ours, "equal times: the first in the order")
def equal_times(t):
    square, row = (96, 96, 96, F32), (1, 96, 96, F32)
    moving, computing = times_of(*row, EVEN)[0]["bandwidth"], times_of(*square, EVEN)[0]["compute"]
    yield from regimes(t, (*square, EVEN), (*row, EVEN | {"launch": moving}))
    yield from regimes(t, (*square, EVEN | {"launch": computing, "bandwidth": 2.0**35}))
    yield from regimes(t, (*square, EVEN | {"launch": computing}))
