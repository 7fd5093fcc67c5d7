"""A column of ones that takes its input's dtype and device."""

import torch

from devlab.checks import expect, slips
from devlab.lessons.lesson_05_buffers import floats_of, lesson

append_ones = lesson.exercise(
    "append_ones",
    signature="append_ones(x)",
    facts=("W1", "W2", "W4"),
    hints=(
        "The column has x's shape with a last dimension of 1, and x's device and dtype. `torch.ones(...)`"
        " knows neither of the two.",
        "`x.new_ones(shape)` makes ones like x in every respect but the shape. `x.shape[:-1]` is all of "
        "the shape but its last number.",
        "`return torch.cat([x, x.new_ones(*x.shape[:-1], 1)], dim=-1)`",
    ),
)


def _expect_ones(trial, x: torch.Tensor, within: float | None = None) -> None:
    # Put together from lists' worth of one column each, on the CPU.
    columns = [*x.cpu().unbind(-1), torch.tensor(1, dtype=x.dtype).expand(x.shape[:-1])]
    wanted = torch.stack(columns, -1)
    got, held = trial.call(x), x.cpu()
    ones = torch.ones_like(held[..., :1])
    mistaken: dict[str, slips.Slip] = {
        "the ones stand in front of x's columns, and not after them": lambda: torch.cat([ones, held], -1),
        "a column of ones was added on both sides of x": lambda: torch.cat([ones, held, ones], -1),
        "as many rows of ones were added as x has: it is to be one column": (
            lambda: torch.cat([held, torch.ones_like(held)])
        ),
        "the new column holds zeros": lambda: torch.cat([held, 0 * ones], -1),
        "as many columns of ones were added as x has: it is to be one": (
            lambda: torch.cat([held, torch.ones_like(held)], -1)
        ),
        "one was added to each element: no column was added": lambda: held + torch.ones_like(held),
        "the last column of x was overwritten: the ones are to stand after it": (
            lambda: torch.cat([held[..., :-1], ones], -1)
        ),
        "nothing was added": held,
    }
    for dim in range(x.dim() - 1):
        words = f"the ones were added along dimension {dim}, and not along the last"
        mistaken[words] = lambda dim=dim: torch.cat([held, torch.ones_like(held.narrow(dim, 0, 1))], dim)
    if x.numel():
        slips.named(got, wanted, mistaken, "x's columns, and after them a column of ones", within)
        slips.lost_digits(got, wanted, x, lambda rounded: torch.cat([rounded, ones], -1))
    if isinstance(got, torch.Tensor) and got.shape == wanted.shape and got.dtype == wanted.dtype:
        mine = got.detach().cpu()
        if not bool((mine[..., -1] == 1).all()):
            wrong = mine[..., -1][mine[..., -1] != 1].flatten()[0].item()
            expect.fail(f"the new column holds {wrong:.6g}, and not ones alone", "ones", got)
    expect.tensor(got, wanted, trial.device, within=within)


@append_ones.row("a column of ones at the end")
def ones_at_the_end(trial):
    for seed, shape in zip(trial.seeds, ((4, 3), (1, 7), (5, 1)), strict=True):
        _expect_ones(trial, trial.randn(*shape, seed=seed))


@append_ones.row("any number of dimensions, and views")
def ones_in_any_shape(trial):
    x = trial.randn(2, 3, 5, seed=trial.seeds[0])
    for given in (x, x[0, 0], x[0].t(), x[:, ::2, 1:4], x[:0], trial.randn(2, 1, 3, 4)):
        _expect_ones(trial, given)


@append_ones.row("x's own dtype, integers too")
def ones_in_any_dtype(trial):
    x = 5 * trial.randn(4, 3, seed=trial.seeds[1])
    floats = floats_of(trial.device)
    for dtype in floats:
        # Of float64 all digits: on the way through float32 they are rounded.
        _expect_ones(trial, x.to(dtype) / 3, within=0.0)
    # So are integers that float32, or even float64, does not hold.
    _expect_ones(trial, x.int() + 2**24 + 1)
    _expect_ones(trial, x.long() + 2**53 + 1)
    _expect_ones(trial, x.abs().to(torch.uint8))
    if torch.float64 in floats:
        _expect_ones(trial, torch.complex(x.double(), x.double().flip(0)))


@append_ones.row("ones beside inf and nan, too")
def ones_beside_anything(trial):
    x = trial.randn(3, 4, seed=trial.seeds[2])
    x[0], x[1, 2], x[2, 3] = float("inf"), float("nan"), float("nan")
    _expect_ones(trial, x)
    _expect_ones(trial, x.flip(-1))
