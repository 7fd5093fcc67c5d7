"""Tensors from two places brought together."""

import torch

from devlab.checks import cases, expect
from devlab.checks.verbs import Same, counts, times
from devlab.devices import has_float64
from devlab.lessons.lesson_02_cuda import lesson

add_anywhere = lesson.exercise(
    "add_anywhere",
    signature="add_anywhere(x, y)",
    facts=("E1", "E2", "E3", "E6"),
    hints=(
        "The sum belongs where x is, so x stays and y is brought there. What does `.to` do with a tensor "
        "that is there already?",
        "`y.to(x.device)` brings y to x, and returns y itself when it is there. `y.to(x)` is something else, "
        "because it takes over x's dtype too.",
        "The whole body is `return x + y.to(x.device)`. It needs neither `if` nor `try`.",
    ),
)


def _look(trial, got: torch.Tensor, wanted: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> None:
    if got.device != x.device:
        said = f"x is on {x.device}, y on {y.device}, and the sum on {got.device}"
        expect.fail(said, f"the sum on {x.device}", got)
    if got.dtype != wanted.dtype and got.dtype == x.dtype:
        said = f"the sum is {x.dtype}, as x is, but y is {y.dtype}"
        expect.fail(said, f"{wanted.dtype}, as x + y gives", got)
    if x.device != y.device and (got.shape, got.dtype) == (wanted.shape, wanted.dtype):
        early = x.cpu() + torch.zeros_like(y, device="cpu")
        if torch.equal(got.cpu(), early) and not torch.equal(early, wanted):
            said = "the sum was taken before y had arrived"
            expect.fail(said, "a copy that is complete before it is read", "x plus zeros")


def _look_at_digits(got: torch.Tensor, wanted: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> None:
    if wanted.dtype is torch.float64:
        lost = {"digits were lost: the sum was taken in float32": x.cpu().float() + y.cpu().float()}
        expect.named(got, wanted, lost, "x + y", within=0.0)


total = Same(
    torch.add,
    {
        "x and y were multiplied, and not added": torch.mul,
        "y was subtracted, and not added": (
            lambda x, y: x ^ y if torch.bool in (x.dtype, y.dtype) else x - y
        ),
        "y was added twice": lambda x, y: x + y + y,
        "x alone came back": lambda x, y: x,
        "y alone came back": lambda x, y: y,
        "x and y were joined, and not added": lambda x, y: torch.cat([x, y], -1),
        "the rows of y were joined to those of x, and not added": lambda x, y: torch.cat([x, y]),
    },
    "x + y",
    "the sum",
    digits=True,
    first=_look,
    then=_look_at_digits,
)


def _expect_sum(trial, x: torch.Tensor, y: torch.Tensor) -> None:
    # A float64 sum is rounded once, alike on every device, so it is compared exactly.
    total(trial, x, y, within=0.0 if torch.result_type(x, y) is torch.float64 else None)


SIZES = (((4, 3), (4, 3)), ((4, 3), (3,)), ((5, 1), (2,)), ((0, 3), (3,)), ((2,), (3, 2)), ((4, 1), (1,)))


@add_anywhere.row("the sum, when both are in one place")
def in_one_place(trial):
    for left, right in SIZES:
        seed = trial.seeds[0]
        total(trial, trial.randn(*left, seed=seed), trial.randn(*right, seed=seed + 7))
    total(trial, trial.randn(3, 5).t(), trial.randn(5, 6)[:, ::2])


@add_anywhere.row("on x's device, when y is elsewhere")
def from_elsewhere(trial):
    for other in cases.places(trial)[1:]:
        for left, right in SIZES[1:]:
            total(trial, trial.randn(*left), trial.randn(*right, seed=7, on=other))
    trial.second()


@add_anywhere.row("on x's device, when one is a single number")
def single_numbers(trial):
    for other in cases.places(trial)[1:]:
        many, one = trial.randn(4, 3, seed=trial.seeds[1]), trial.randn(3, seed=trial.seeds[2])[1]
        total.each(trial, [(many, one.to(other)), (one, many.to(other)), (one, trial.randn(1)[0].to(other))])
        total(trial, many.half(), one.to(other))  # the sum stays float16: a single number widens no float
        # A single float16 number makes integers float16; a Python number would make them float32.
        total(trial, torch.arange(3).to(trial.device), one.half().to(other))
        for few in (torch.arange(3), torch.arange(3.0).half()):
            if has_float64(trial.device, other):  # a single float64 number widens integers, but no float
                _expect_sum(trial, one.double(), few.to(other))


@add_anywhere.row("y keeps its dtype")
def dtypes_stay(trial):
    pairs = [(torch.bool, torch.bool), (torch.int64, torch.float32), (torch.float16, torch.float32)]
    pairs += [(torch.bool, torch.int64), (torch.bfloat16, torch.float16), (torch.float32, torch.complex64)]
    pairs += [(torch.float32, torch.float64)] if has_float64(trial.device) else []
    for one, other in pairs:
        x = (3 * trial.randn(4, 3, seed=trial.seeds[0])).to(one)
        y = (3 * trial.randn(4, 3, seed=trial.seeds[1], on=torch.device("cpu"))).to(other)
        if other.itemsize == 8:  # digits that a third dtype on the way would lose
            y = y + 2**53 if other is torch.int64 else y / 3
        places = [place for place in trial.others if torch.float64 not in (one, other) or has_float64(place)]
        _expect_sum(trial, x, y.to(places[-1] if places else trial.device))
        _expect_sum(trial, y.to(trial.device), x)


@add_anywhere.row("only y is transferred, at most once")
def only_y_moves(trial):
    whole, column = trial.randn(4, 3, seed=trial.seeds[2]), trial.randn(3, seed=trial.seeds[0])
    for x, shape in ((whole, (4, 3)), (column, (4, 3)), (column[0], (4, 3)), (whole, (3,)), (whole, ())):
        for other in cases.places(trial):
            _expect_one_transfer(trial, x, trial.randn(*shape, seed=7, on=other))
    for other in cases.places(trial):
        y = trial.randn(3, 4, seed=7, on=other)
        for one in (y.t(), y.t().half(), y.t().long()):
            _expect_one_transfer(trial, whole, one)
    trial.second()


def _expect_one_transfer(trial, x: torch.Tensor, y: torch.Tensor) -> None:
    _, log = trial.watched(x, y)
    copies, way = log.events.transfers, (str(y.device), str(x.device))
    went, said = "from {one.source} to {one.target}", times(len(copies), "transfer")
    if x.device == y.device:
        headline = f"both are on {x.device}, and a transfer went {went}"
        counts(copies, 0, headline, "no transfer", "a transfer, by {one.cause}")
    asked = f"y from {y.device} to {x.device}, once"
    counts([copy for copy in copies if copy.source == way[1]], 0, f"x was transferred, {went}", asked, said)
    others = [copy for copy in copies if (copy.source, copy.target) != way]
    counts(others, 0, f"y took a detour, {went}", asked, said)
    counts(copies, 1, "y was transferred {count} times, by {causes}", asked)
