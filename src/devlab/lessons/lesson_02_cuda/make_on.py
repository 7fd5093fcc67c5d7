"""Tensors made in the right place."""

import contextlib
from collections.abc import Iterator

import torch

from devlab.checks import expect, verbs
from devlab.lessons.lesson_02_cuda import lesson, times

make_on = lesson.exercise(
    "make_on",
    signature="make_on(shape, device, dtype)",
    facts=("G3", "G1"),
    hints=(
        "A tensor that is made first and moved afterwards takes memory in two places, and a copy. PyTorch's "
        "functions that make tensors take the place as an argument.",
        "`torch.zeros` takes the shape, and `device=` and `dtype=` by name.",
        "The whole body is `return torch.zeros(shape, device=device, dtype=dtype)`.",
    ),
)

SHAPES = ((2, 3), (5,), (1, 4, 3), (0, 7), torch.Size([3, 2]))
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool)


@contextlib.contextmanager
def _marked_memory() -> Iterator[None]:
    """Let new memory hold nan, or the largest integer, until somebody writes into it."""
    # `use_deterministic_algorithms` does the same, and imports the compiler first: more than a second.
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)


def _make(trial, shape: tuple, dtype: torch.dtype) -> object:
    with _marked_memory():
        return trial.call(shape, trial.device, dtype)


def _expect_zeros(trial, got: object, shape: tuple, dtype: torch.dtype) -> None:
    wanted = torch.zeros(tuple(shape), dtype=dtype)
    if isinstance(got, torch.Tensor) and got.dtype == dtype and got.device == trial.device and got.numel():
        mark = torch.iinfo(dtype).max if dtype is torch.int64 else True if dtype is torch.bool else None
        flat = got.detach().cpu().flatten()
        if bool((flat.isnan() if mark is None else flat == mark).all()):
            headline = "the tensor was never filled with zeros: it comes of what its memory held before"
            expect.fail(headline, "zeros", f"{flat[0].item()} in each place")
        if tuple(got.shape) == tuple(shape) and bool((flat == flat[0]).all()) and flat[0] != 0:
            expect.fail(f"every element is {flat[0].item():.6g}, and not 0", "zeros", got)
        if tuple(got.shape) == tuple(shape) and bool(flat.any()):
            expect.fail("the tensor holds other numbers than zeros", "zeros", got)
    mistaken = {
        "only the first size was used: the tensor has one dimension": wanted.flatten()[: shape[0]],
        "all sizes were multiplied: the tensor has one dimension": wanted.flatten(),
        "the sizes are in reverse order": torch.zeros(tuple(shape)[::-1], dtype=dtype),
    }
    expect.named(got, wanted, mistaken if len(shape) > 1 else {}, f"zeros of shape {list(shape)}")
    expect.tensor(got, wanted, trial.device)


@make_on.row("zeros of that shape, on that device")
def zeros_there(trial):
    for shape in SHAPES:
        _expect_zeros(trial, _make(trial, shape, torch.float32), shape, torch.float32)


@make_on.row("of the dtype asked for")
def of_that_dtype(trial):
    for dtype in DTYPES:
        _expect_zeros(trial, _make(trial, (3, 2), dtype), (3, 2), dtype)


@make_on.row("PyTorch's settings stay as they are")
def settings_stay(trial):
    trial.call((2, 5), trial.device, torch.float16)
    elsewhere = next(iter(trial.others), None)
    got = verbs.kept(trial, (2, 5), trial.device, torch.int64, device=elsewhere, dtype=torch.bfloat16)
    _expect_zeros(trial, got, (2, 5), torch.int64)
    for current in (one for one in (trial.device, *trial.others) if one.type != "cpu"):
        with verbs.current(current):
            trial.call((2, 5), trial.device, torch.float16)


@make_on.row("a new tensor at every call")
def new_every_time(trial):
    first = _make(trial, (4, 3), torch.float32)
    _expect_zeros(trial, first, (4, 3), torch.float32)
    if first.untyped_storage().nbytes() < 4 * 3 * 4:
        expect.fail(
            "all its elements share one place in memory", "memory for each element", "an expanded view"
        )
    with torch.inference_mode():  # which may write into a tensor that was made in it, too
        first.fill_(7)
    second = _make(trial, (4, 3), torch.float32)
    if isinstance(second, torch.Tensor) and second.numel() and bool((second == 7).all()):
        expect.fail(
            "the second call returned the tensor of the first", "a new tensor at each call", "the same one"
        )
    if not bool((first == 7).all()):
        words = "the second call wrote into the tensor that the first returned"
        expect.fail(words, "the first as it was", "the same memory")
    _expect_zeros(trial, second, (4, 3), torch.float32)


@make_on.row("made there: nothing is transferred", only="accelerator")
def nothing_transferred(trial):
    for shape, dtype in zip(SHAPES[:3], (torch.float32, torch.float16, torch.int64), strict=True):
        with _marked_memory():
            _, log = trial.watched(shape, trial.device, dtype)
        for copy in log.events.transfers[:1]:
            headline = f"the tensor was made on {copy.source} and copied to {copy.target}"
            if log.transfers > 1 and all(one.target == str(trial.device) for one in log.events.transfers):
                headline = f"{log.transfers} transfers: each number assigned to a part of the tensor is one"
            expect.fail(
                headline,
                f"made on {trial.device}, no transfer",
                f"{times(log.transfers)}, by {copy.cause}",
            )
