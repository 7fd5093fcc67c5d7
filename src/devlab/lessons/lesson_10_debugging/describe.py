"""A tensor's shape, dtype and device in one line of text."""

import math
import re

import torch

from devlab.checks import cases, expect, verbs
from devlab.checks.values import SHORT_DTYPES
from devlab.lessons.lesson_10_debugging import lesson

describe = lesson.exercise(
    "describe(x)",
    ("X1",),
    "Three attributes of a tensor, in one line of text. None of them asks for a single element.",
    "An f-string turns each into text: `{x.dtype}` gives `torch.float32`, `{x.device}` the name with its "
    "index. `x.shape` reads `torch.Size([4, 3])`, `list(x.shape)` reads `[4, 3]`.",
    '`return f"{x.dtype} {list(x.shape)} {x.device}"`',
)

NUMBERS = r"(?<![\w.])\d+(?:\s*(?:,|x|X|×|\*|by)\s*\d+)*"
CROSSED = r"(?<![\w.])\d+(?:\s*(?:x|X|×|\*|by)\s*\d+)+"  # a comma after such a shape begins something else
SPACED = r"(?<![\w.])\d+(?:\s+\d+)*"
NO_DIMENSION = r"\(\s*\)|\[\s*\]|\bscalar\b|\b(?:0|zero)[- ]?d"
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in SHORT_DTYPES} | {
    short: dtype for dtype, short in SHORT_DTYPES.items()
}


def _text(trial, x: torch.Tensor) -> str:
    got = trial.call(x)
    expect.kind(got, str, "a str")
    return got


def _find_dtypes(text: str) -> set[torch.dtype]:
    words = re.findall(r"[a-z]+\d*", text.lower())
    return {DTYPES[word] for word in words if word in DTYPES}


def _find_shapes(text: str, device: torch.device) -> set[tuple[int, ...]]:
    rest = text.replace(str(device), " ")
    found = [one for pattern in (NUMBERS, CROSSED, SPACED) for one in re.findall(pattern, rest)]
    shapes = {tuple(int(number) for number in re.findall(r"\d+", one)) for one in found}
    return shapes | ({()} if re.search(NO_DIMENSION, rest.lower()) else set())


@describe.row("it names the shape")
def names_shape(trial):
    for seed, shape in enumerate([(4, 3), (7,), (2, 5, 3), (), (0, 6), (1, 11), (2, 3, 1, 4)]):
        x = trial.randn(math.prod(shape), seed=trial.seeds[seed % 3]).reshape(shape)
        got = _text(trial, x)
        if shape not in _find_shapes(got, x.device):
            asked = str(list(shape)).replace(" ", "")
            expect.fail(f"the shape {asked} is not in the text", asked, repr(got))
    got = _text(trial, trial.randn(5, 2).t())
    if (2, 5) not in _find_shapes(got, trial.device):
        expect.fail("the shape of a transposed tensor is not in the text", "[2, 5]", repr(got))


@describe.row("it names the dtype")
def names_dtype(trial):
    dtypes = [dtype for dtype in SHORT_DTYPES if dtype is not torch.float64]
    for dtype in dtypes + [torch.float64] * cases.holds(trial.device, torch.float64):
        got = _text(trial, trial.randint(0, 2, (3, 2), seed=trial.seeds[0]).to(dtype))
        said = _find_dtypes(got)
        expect.that(dtype in said, f"the dtype {dtype} is not in the text", str(dtype), repr(got))
        expect.that(said == {dtype}, "the text names more than one dtype", str(dtype), repr(got))


@describe.row("it names the device, with its index")
def names_device(trial):
    for device in (trial.device, *trial.others):
        got = _text(trial, trial.randn(2, 3, seed=trial.seeds[1], on=device))
        if not re.search(rf"(?<![A-Za-z0-9]){re.escape(str(device))}(?!\w|:\d)", got):
            expect.fail(f"the device {device} is not in the text", str(device), repr(got))


@describe.row("it reads no value", only="accelerator")
def reads_nothing(trial):
    x = trial.randn(3, 4, seed=trial.seeds[2])
    for given in (x, x[0, 0], x[0, :2], x > 0, x.long(), trial.randn(20, 15), x.clone().requires_grad_()):
        got, log = trial.watched(given)
        expect.kind(got, str, "a str")
        headline = "describing the tensor fetched values from the device"
        said = f"{verbs.times(log.transfers, 'transfer')}, {verbs.times(log.synchronizations, 'wait')}"
        expect.that(not (log.transfers or log.synchronizations), headline, "no transfer and no wait", said)
