"""Tensors made in the right place, and tensors from two places brought together."""

import contextlib
from collections.abc import Iterator

import torch

from devlab.checks import expect, verbs
from devlab.devices import has_float64
from devlab.lessons.lesson_02_cuda import lesson
from devlab.watching.watch import Log, watch

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
                f"{_times(log.transfers)}, by {copy.cause}",
            )


def _times(count: int) -> str:
    return f"{count} transfer" + ("" if count == 1 else "s")


add_anywhere = lesson.exercise(
    "add_anywhere",
    signature="add_anywhere(x, y)",
    facts=("E1", "E2", "E3", "E6"),
    hints=(
        "The sum belongs where x is, so x stays and y comes. What does `.to` do with a tensor that is there "
        "already?",
        "`y.to(x.device)` brings y, and returns y itself when it is there. `y.to(x)` is something else: it "
        "takes over x's dtype too.",
        "The whole body is `return x + y.to(x.device)`. It needs no `if`, and no `try`.",
    ),
)


def _add(trial, x: torch.Tensor, y: torch.Tensor) -> tuple[object, Log]:
    """Call the answer, and watch nothing but it."""
    logs = []

    def add(x, y):
        with watch() as log:
            logs.append(log)
            return trial.answer(x, y)

    return trial.run(add, x, y, label="add_anywhere"), logs[0]


def _expect_sum(trial, x: torch.Tensor, y: torch.Tensor) -> None:
    wanted = x.cpu() + y.cpu()
    got = trial.call(x, y)
    if isinstance(got, torch.Tensor) and got.device != x.device:
        said = f"x is on {x.device}, y on {y.device}, and the sum on {got.device}"
        expect.fail(said, f"the sum on {x.device}", got)
    if isinstance(got, torch.Tensor) and got.dtype != wanted.dtype and got.dtype == x.dtype:
        said = f"the sum is {x.dtype}, as x is, but y is {y.dtype}"
        expect.fail(said, f"{wanted.dtype}, as x + y gives", got)
    if isinstance(got, torch.Tensor) and (got.shape, got.dtype) == (wanted.shape, wanted.dtype):
        mine = got.cpu()
        if not torch.equal(mine, wanted) and torch.equal(mine, x.cpu() + torch.zeros_like(y, device="cpu")):
            said = "the sum was taken before y had arrived"
            expect.fail(said, "a copy that is complete before it is read", "x plus zeros")
    if isinstance(got, torch.Tensor):
        _name_the_slip(got, wanted, x.detach().cpu(), y.detach().cpu())
    # In float64 a sum is rounded once, alike on every device.
    expect.tensor(got, wanted, x.device, "the sum", within=0.0 if wanted.dtype is torch.float64 else None)


def _name_the_slip(got: torch.Tensor, wanted: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> None:
    """Say so where another operation than the sum gives the result, or a third dtype on the way."""
    numbers = torch.bool not in (x.dtype, y.dtype)
    mistaken: dict[str, expect.Slip] = {
        "x and y were multiplied, and not added": lambda: x * y,
        "y was subtracted, and not added": lambda: x - y if numbers else x ^ y,
        "y was added twice": lambda: x + y + y,
        "x alone came back": x,
        "y alone came back": y,
    }
    if x.dim() and y.dim() and x.shape[:-1] == y.shape[:-1]:
        mistaken["x and y were joined, and not added"] = lambda: torch.cat([x, y], -1)
    if x.dim() and y.dim() and x.shape[1:] == y.shape[1:]:
        mistaken["the rows of y were joined to those of x, and not added"] = lambda: torch.cat([x, y])
    if torch.float64 in (x.dtype, y.dtype) and got.dtype == wanted.dtype:
        mistaken["digits were lost: the sum was taken in float32"] = lambda: x.float() + y.float()
    expect.named(got, wanted, mistaken, "x + y", within=0.0 if got.dtype is torch.float64 else None)
    if x.shape == y.shape:
        expect.lost_digits(got, wanted, y, lambda rounded: x + rounded)
        expect.lost_digits(got, wanted, x, lambda rounded: rounded + y)


def _others(trial) -> tuple[torch.device, ...]:
    trial.other()  # a row that needs a second device is skipped where there is none
    return trial.others


SIZES = (((4, 3), (4, 3)), ((4, 3), (3,)), ((5, 1), (2,)), ((0, 3), (3,)), ((2,), (3, 2)))


@add_anywhere.row("the sum, when both are in one place")
def in_one_place(trial):
    for left, right in SIZES:
        seed = trial.seeds[0]
        _expect_sum(trial, trial.randn(*left, seed=seed), trial.randn(*right, seed=seed + 7))
    _expect_sum(trial, trial.randn(3, 5).t(), trial.randn(5, 6)[:, ::2])


@add_anywhere.row("on x's device, when y is elsewhere")
def from_elsewhere(trial):
    for other in _others(trial):
        for left, right in SIZES[1:3]:
            _expect_sum(trial, trial.randn(*left), trial.randn(*right, seed=7, on=other))


@add_anywhere.row("on x's device, when one is a single number")
def single_numbers(trial):
    for other in _others(trial):
        many, one = trial.randn(4, 3, seed=trial.seeds[1]), trial.randn(3, seed=trial.seeds[2])[1]
        _expect_sum(trial, many, one.to(other))
        _expect_sum(trial, one, many.to(other))
        _expect_sum(trial, one, trial.randn(1)[0].to(other))
        _expect_sum(trial, many.half(), one.to(other))  # which stays float16: a single number widens nothing
        # A single float16 number makes integers float16; a Python number would make them float32.
        _expect_sum(trial, torch.arange(3).to(trial.device), one.half().to(other))
        for few in (torch.arange(3), torch.arange(3.0).half()):
            if has_float64(trial.device, other):  # a single float64 number widens integers, and no float
                _expect_sum(trial, one.double(), few.to(other))


@add_anywhere.row("y keeps its dtype")
def dtypes_stay(trial):
    wide = [(torch.float32, torch.float64)] if has_float64(trial.device) else []
    pairs = (
        (torch.bool, torch.bool),
        (torch.int64, torch.float32),
        (torch.float16, torch.float32),
        (torch.bool, torch.int64),
        *wide,
    )
    for one, other in pairs:
        x = (3 * trial.randn(4, 3, seed=trial.seeds[0])).to(one)
        y = (3 * trial.randn(4, 3, seed=trial.seeds[1], on=torch.device("cpu"))).to(other)
        if other.itemsize == 8:  # digits that a third dtype on the way would lose
            y = y + 2**53 if other is torch.int64 else y / 3
        places = [place for place in trial.others if torch.float64 not in (one, other) or has_float64(place)]
        _expect_sum(trial, x, y.to(places[-1] if places else trial.device))
    _expect_sum(trial, y.to(trial.device), x)


@add_anywhere.row("nothing moves but y, and y once")
def only_y_moves(trial):
    whole, column = trial.randn(4, 3, seed=trial.seeds[2]), trial.randn(3, seed=trial.seeds[0])
    for x, shape in ((whole, (4, 3)), (column, (4, 3)), (column[0], (4, 3)), (whole, (3,)), (whole, ())):
        _expect_one_journey(trial, x, shape)


def _expect_one_journey(trial, x: torch.Tensor, shape: tuple[int, ...]) -> None:
    """Expect that of x and a y of this shape from anywhere nothing moves but y, once."""
    for other in (trial.device, *_others(trial)):
        y = trial.randn(*shape, seed=7, on=other)
        _, log = _add(trial, x, y)
        allowed = (str(y.device), str(x.device))
        where = f"y from {y.device} to {x.device}, once" if x.device != y.device else "no transfer"
        for copy in log.events.transfers:
            went = f"{copy.source} to {copy.target}"
            if x.device == y.device:
                said = f"both are on {x.device}, and a copy went from {went}"
                expect.fail(said, where, f"a transfer, by {copy.cause}")
            if (copy.source, copy.target) == allowed:
                continue
            if copy.source == str(x.device):
                expect.fail(f"x was moved, from {went}", where, f"{_times(log.transfers)}")
            expect.fail(f"y took a detour, from {went}", where, f"{_times(log.transfers)}")
        if log.transfers > 1:
            causes = " and ".join(dict.fromkeys(copy.cause for copy in log.events.transfers))
            headline = f"y was moved {log.transfers} times, by {causes}"
            expect.fail(headline, where, str(log.events.transfers[0].line))
