"""Tensors made in the right place."""

from collections.abc import Callable

import torch

from devlab.checks import cases, expect, pretend
from devlab.checks.verbs import Same, counts, current, kept
from devlab.lessons.lesson_02_cuda import lesson

make_on = lesson.exercise(
    "make_on",
    signature="make_on(shape, device, dtype)",
    facts=("G3", "G1"),
    hints=(
        "A tensor that is made first and moved afterwards takes memory in two places, and a transfer. "
        "PyTorch's functions that make tensors take the device as an argument.",
        "`torch.zeros` takes the shape, and `device=` and `dtype=` by name.",
        "The whole body is `return torch.zeros(shape, device=device, dtype=dtype)`.",
    ),
)

SHAPES = ((2, 3), (5,), (1, 4, 3), (2, 1, 3, 2), (0, 7), torch.Size([3, 2]))
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool)
FURTHER = (torch.int32, torch.uint8, torch.complex64)


def _marked(call: Callable, *args: object) -> object:
    """Make a call during which new memory holds nan, or the largest integer, until something is written."""
    # `use_deterministic_algorithms` does the same, but takes more than a second: it imports the compiler.
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")
    try:
        return call(*args)
    finally:
        torch.set_deterministic_debug_mode(before)


def _look(trial, got: torch.Tensor, wanted: torch.Tensor, shape: tuple, *_: object) -> None:
    """Say what the elements are, where they are not zeros."""
    if (got.dtype, got.device) != (wanted.dtype, trial.device) or not got.numel():
        return
    dtype, flat = got.dtype, got.detach().cpu().flatten()
    mark = torch.iinfo(dtype).max if dtype is torch.int64 else True if dtype is torch.bool else None
    if bool((flat.isnan() if mark is None else flat == mark).all()):
        headline = "the tensor was never filled with zeros: it shows what its memory held before"
        expect.fail(headline, "zeros", f"{flat[0].item()} in each place")
    if got.shape == wanted.shape and bool(flat.any()):
        alike = f"every element is {flat[0].item():.6g}, and not 0"
        headline = alike if bool((flat == flat[0]).all()) else "the tensor holds other numbers than zeros"
        expect.fail(headline, "zeros", got)


def _slips(shape: tuple, device: torch.device, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    wanted = torch.zeros(tuple(shape))
    return {
        "only the first size was used: the tensor has one dimension": torch.zeros(shape[0]),
        "all sizes were multiplied: the tensor has one dimension": wanted.flatten(),
        "the sizes are in reverse order": torch.zeros(wanted.shape[::-1]),
    }


zeros = Same(
    lambda shape, device, dtype: torch.zeros(tuple(shape), dtype=dtype),
    _slips,
    lambda shape, *_: f"zeros of shape {list(shape)}",
    first=_look,
)


def _expect_zeros(trial, shape: tuple, dtype: torch.dtype) -> torch.Tensor:
    asked = shape, trial.device, dtype
    return zeros.compare(trial, _marked(trial.call, *asked), *asked)


@make_on.row("zeros of that shape, on that device")
def zeros_there(trial):
    for shape in SHAPES:
        _expect_zeros(trial, shape, torch.float32)
    trial.second()


@make_on.row("of the dtype asked for")
def of_that_dtype(trial):
    wide = [torch.float64] if cases.holds(trial.device, torch.float64) else []
    for dtype in (*DTYPES, *FURTHER, *wide):
        _expect_zeros(trial, (3, 2), dtype)


@make_on.row("PyTorch's settings stay as they are")
def settings_stay(trial):
    trial.call((2, 5), trial.device, torch.float16)
    asked, elsewhere = ((2, 5), trial.device, torch.int64), next(iter(trial.others), None)
    zeros.compare(trial, kept(trial, *asked, device=elsewhere, dtype=torch.bfloat16), *asked)
    for device in (one for one in (trial.device, *trial.others) if one.type != "cpu"):
        with current(device):
            trial.call((2, 5), trial.device, torch.float16)
    trial.second()


@make_on.row("a new tensor at every call")
def new_every_time(trial):
    _expect_new(trial, (4, 3), torch.float32)
    _expect_new(trial, (5,), torch.float16)


def _expect_new(trial, shape: tuple, dtype: torch.dtype) -> None:
    asked = shape, trial.device, dtype
    first = zeros.compare(trial, _marked(trial.call, *asked), *asked)
    if first.untyped_storage().nbytes() < first.nbytes:
        said = "all its elements share one place in memory"
        expect.fail(said, "memory for each element", "an expanded view")
    with torch.inference_mode():  # outside of it a tensor that was made in it refuses to be changed
        first.fill_(7)
    second = _marked(trial.call, *asked)
    if isinstance(second, torch.Tensor) and second.numel() and bool((second == 7).all()):
        said = "the second call returned the tensor of the first"
        expect.fail(said, "a new tensor at each call", "the same one")
    if not bool((first == 7).all()):
        words = "the second call wrote into the tensor that the first returned"
        expect.fail(words, "the first as it was", "the same memory")
    zeros.compare(trial, second, *asked)


@make_on.row("made there, with no transfer", only="accelerator")
def nothing_transferred(trial):
    for shape, dtype in zip((*SHAPES[:4], (3, 2)), DTYPES, strict=True):
        _, log = _marked(trial.watched, shape, trial.device, dtype)
        copies = log.events.transfers
        headline = "the tensor was made on {one.source} and transferred to {one.target}"
        if len(copies) > 1 and all(copy.target == str(trial.device) for copy in copies):
            headline = "{times}: each number assigned to a part of the tensor is one"
        counts(copies, 0, headline, f"made on {trial.device}, no transfer", "{times}, by {one.cause}")
    with pretend.machine(trial, (), built=False, other="mps"):  # an accelerator of another kind
        got = trial.call((2, 3), torch.device("mps", 0), torch.float32)
        expect.kind(got, torch.Tensor, "a tensor")
        expect.device(got, torch.device("mps", 0))
