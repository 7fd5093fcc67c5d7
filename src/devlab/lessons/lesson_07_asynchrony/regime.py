"""Three regimes: what decides how long a product of matrices takes, worked out on paper."""

import contextlib
from collections.abc import Callable

import torch

from devlab.checks import expect, verbs
from devlab.checks.calls import AnswerRaised
from devlab.lessons.lesson_07_asynchrony import lesson
from devlab.sim import specs

regime = lesson.exercise(
    "regime",
    signature="regime(rows, inner, columns, dtype, chip)",
    facts=("J1", "J2", "J3", "J4"),
    hints=(
        "Count first, and divide afterwards. How many bytes do the three matrices have, and how many "
        "operations does a single number of the result take?",
        "There are 2 · rows · inner · columns operations, and `dtype.itemsize` bytes for every number of the "
        "three matrices. Their quotient is the intensity. Each of the two, divided by one of the chip's "
        "figures, is a time. Which of the two rates does this dtype have?",
        "Put the three times into a dict, `times = {'overhead': …, 'bandwidth': …, 'compute': …}`, and "
        "`return max(times, key=times.get), operations / moved`. Of equal times `max` finds the first.",
    ),
)

OVERHEAD, BANDWIDTH, COMPUTE = REGIMES = ("overhead", "bandwidth", "compute")
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
# In each call one time is at least a tenth longer than the others, and each mistake below shows in some.
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
)


def _counts(rows, inner, columns, dtype):
    """Return how many operations there are, and how many bytes each of the three matrices has."""
    numbers = rows * inner, inner * columns, rows * columns
    return 2 * rows * inner * columns, [dtype.itemsize * one for one in numbers]


def _times(rows, inner, columns, dtype, chip, halves=specs.HALF):
    """Return the seconds of the launch, of the bytes and of the operations; `halves` have the half rate."""
    operations, matrices = _counts(rows, inner, columns, dtype)
    rate = chip["half_rate" if dtype in halves else "rate"]
    return chip["launch"], sum(matrices) / chip["bandwidth"], operations / rate


def _longest(launch, moving, computing):
    """Return the regime of the longest time, the first of equal ones."""
    return max(zip((launch, moving, computing), REGIMES, strict=True), key=lambda pair: pair[0])[1]


def _slips(rows, inner, columns, dtype) -> dict[str, float]:
    """Return the intensities that mistakes give."""
    operations, (first, second, result) = _counts(rows, inner, columns, dtype)
    moved, size = first + second + result, dtype.itemsize
    right, other = operations / moved, 6 - size
    unwritten, unread = operations / (first + second), operations / result
    again = operations / (size * (operations + rows * columns))
    return {
        f"{other} bytes were taken for each number, and {dtype} has {size}": right * size / other,
        "the result's bytes are missing: it is written, and that takes bandwidth, too": unwritten,
        "the result's bytes alone were counted: the two matrices are read, too": unread,
        "the first matrix's bytes are missing": operations / (second + result),
        "the second matrix's bytes are missing": operations / (first + result),
        "the operations are twice as many: each term takes a multiplication and an addition": right / 2,
        "the operations of a single number of the result were counted": 2 * inner / moved,
        "the numbers were counted, and not their bytes": right * size,
        "the bytes were counted as bits": right / 8,
        "that is bytes ÷ operations: the intensity is operations ÷ bytes": 1 / right,
        "the matrices' numbers were read again for every term: each is read once": again,
        "a sum was counted with one addition fewer than it has terms": right * (1 - 0.5 / inner),
        "rows ÷ 2 is the lesson's estimate for a layer that is large beside its rows": rows / 2,
        "n ÷ 6 holds for square matrices in float32 alone": inner / 6,
        "the intensity was rounded to a whole number": (right // 1, round(right)),
        "the intensity was rounded": tuple(round(right, digits) for digits in range(1, 8)),
    }


def _of_times(chosen: Callable, **others) -> Callable:
    """Return the answer that gives what `chosen` makes of the three times."""
    return lambda *call: chosen(*_times(*call, **others))


def _by_balance(balance: Callable) -> Callable:
    """Return the answer that compares the intensity with `balance(dtype, chip)`, after the launch."""

    def answer(*call):
        launch, moving, computing = _times(*call)
        operations, matrices = _counts(*call[:4])
        high = operations / sum(matrices) > balance(*call[3:])
        return OVERHEAD if launch >= max(moving, computing) else (COMPUTE if high else BANDWIDTH)

    return answer


MISTAKES = {
    "the launch was left out: it is one of the three times": _of_times(lambda _, *two: _longest(0, *two)),
    "half_rate was left out: 16-bit floats have a rate of their own": _of_times(_longest, halves=()),
    "half_rate was taken for every dtype": _of_times(_longest, halves=(F32, F16, BF16)),
    "half_rate is that of bfloat16, too, and not of float16 alone": _of_times(_longest, halves=(F16,)),
    "bandwidth and compute are the wrong way round: a high intensity means compute": _of_times(
        lambda launch, *two: _longest(launch, *two) if launch >= max(two) else _longest(0, two[1], two[0])
    ),
    "that is the regime of the shortest time: the longest decides": _of_times(
        lambda *three: _longest(*(-one for one in three))
    ),
    "the launch was compared with the sum of the other two: the three go on side by side": _of_times(
        lambda launch, *two: OVERHEAD if launch >= sum(two) else _longest(0, *two)
    ),
    "the launch was compared with the bytes' time alone": _of_times(
        lambda launch, *two: OVERHEAD if launch >= two[0] else _longest(0, *two)
    ),
    "the launch was compared with the operations' time alone": _of_times(
        lambda launch, *two: OVERHEAD if launch >= two[1] else _longest(0, *two)
    ),
    "a launch that is longer than one of the other two need not be the longest": _of_times(
        lambda launch, *two: OVERHEAD if launch >= min(two) else _longest(0, *two)
    ),
    "above the balance, too, the launch may be the longest": _of_times(
        lambda launch, *two: COMPUTE if two[1] > two[0] else _longest(launch, two[0], 0)
    ),
    "the time of the bytes is eight times too long: the chip's bandwidth is in bytes, not in bits": _of_times(
        lambda launch, moving, computing: _longest(launch, 8 * moving, computing)
    ),
    "27 is the reference machine's balance in float32: each chip and dtype has its own": _by_balance(
        lambda dtype, chip: 27
    ),
    "the balance is a rate ÷ the bandwidth, and not the other quotient": _by_balance(
        lambda dtype, chip: chip["bandwidth"] / chip["half_rate" if dtype in specs.HALF else "rate"]
    ),
} | {f'it is always "{word}"': lambda *call, word=word: word for word in REGIMES}


def _answered(trial, *counted_and_chip):
    """Call the answer, and return the regime and the intensity that it gives."""
    *counted, chip = counted_and_chip
    got = trial.call(*counted, dict(chip))  # a copy, which an answer may spoil
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


def _mistake(trial) -> str:
    """Return what is wrong with an answer that makes one mistake and gives its regimes in every call."""
    with verbs.aside(trial), contextlib.suppress(AnswerRaised, expect.Mismatch):
        calls = PLAIN + HALVED + OTHERS
        intensity(trial)  # wrong counts give wrong regimes, and are told by their own rows
        intensity_in_16_bits(trial)
        got = [_answered(trial, *call)[0] for call in calls]
        found = [words for words, answer in MISTAKES.items() if [answer(*call) for call in calls] == got]
        return found[0] if len(found) == 1 else ""
    return ""


LONGEST = {OVERHEAD: "the launch takes", BANDWIDTH: "moving the bytes takes", COMPUTE: "the operations take"}


def _judge_regime(trial, *call, headline: str = "") -> None:
    got, wanted = _answered(trial, *call)[0], _longest(*_times(*call))
    if got != wanted:
        launch, moving, computing = (f"{1e6 * one:.3g} µs" for one in _times(*call))
        asked = f"{wanted}: launch {launch}, bytes {moving}, operations {computing}"
        expect.fail(_mistake(trial) or headline or f"{LONGEST[wanted]} longest here", asked, got)


def _judge_intensity(trial, *counted) -> None:
    operations, matrices = _counts(*counted)
    verbs.number(
        _answered(trial, *counted, REFERENCE)[1],
        operations / sum(matrices),
        "not the operations ÷ the bytes that are read and written",
        lambda: _slips(*counted),
        f"{{wanted:.9g}}: {operations:,} operations ÷ {sum(matrices):,} bytes",
        "{got:.9g}",
        within=1e-9,
    )


@regime.row("the arithmetic intensity in float32")
def intensity(trial):
    for shape in COUNTED:
        _judge_intensity(trial, *shape, F32)


@regime.row("the arithmetic intensity in 16 bits")
def intensity_in_16_bits(trial):
    with trial.assumed():
        _judge_intensity(trial, *COUNTED[0], F32)
    for dtype in specs.HALF:
        _judge_intensity(trial, *COUNTED[0], dtype)


@regime.row("the longest of three times decides")
def longest_decides(trial):
    for call in PLAIN:
        _judge_regime(trial, *call)


@regime.row("16-bit floats at half_rate")
def half_rate(trial):
    for call in HALVED:
        _judge_regime(trial, *call)


@regime.row("every chip by its own figures")
def every_chip(trial):
    for call in OTHERS:
        _judge_regime(trial, *call)


@regime.row("equal times: the first in the order")
def equal_times(trial):
    square, row = (96, 96, 96, F32), (1, 96, 96, F32)
    same = "bytes and operations take equally long here, and bandwidth comes before compute"
    _judge_regime(trial, *square, EVEN, headline=same)
    moving, computing = _times(*row, EVEN)[1], _times(*square, EVEN)[2]
    same = "launch and bytes take equally long here, and overhead comes before bandwidth"
    _judge_regime(trial, *row, EVEN | {"launch": moving}, headline=same)
    same = "launch and operations take equally long here, and overhead comes before compute"
    _judge_regime(trial, *square, EVEN | {"launch": computing, "bandwidth": 2.0**35}, headline=same)
    same = "all three take equally long here, and overhead comes first"
    _judge_regime(trial, *square, EVEN | {"launch": computing}, headline=same)
