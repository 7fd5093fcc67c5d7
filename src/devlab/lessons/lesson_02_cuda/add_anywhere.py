"""Tensors from two places brought together."""

import torch

from devlab.checks import expect
from devlab.devices import has_float64
from devlab.lessons.lesson_02_cuda import lesson, times
from devlab.watching.watch import Log, watch

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
                expect.fail(f"x was moved, from {went}", where, f"{times(log.transfers)}")
            expect.fail(f"y took a detour, from {went}", where, f"{times(log.transfers)}")
        if log.transfers > 1:
            causes = " and ".join(dict.fromkeys(copy.cause for copy in log.events.transfers))
            headline = f"y was moved {log.transfers} times, by {causes}"
            expect.fail(headline, where, str(log.events.transfers[0].line))
