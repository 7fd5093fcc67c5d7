"""A column of ones that takes its input's dtype and device."""

import torch

from devlab.checks import cases, expect, verbs
from devlab.lessons.lesson_05_buffers import lesson

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


def _column(got: torch.Tensor, *_: object) -> None:
    column = got[..., -1].detach().cpu()
    if not bool((column == 1).all()):
        expect.fail(
            f"the new column holds {column[column != 1][0].item():.6g}, and not ones alone", "ones", got
        )


ones = torch.ones_like
appended = verbs.Same(
    # x's columns and a column of ones, stacked.
    lambda x: torch.stack([*x.unbind(-1), torch.tensor(1, dtype=x.dtype).expand(x.shape[:-1])], -1),
    {
        "the ones stand in front of x's columns, and not after them": lambda x: torch.cat(
            [ones(x[..., :1]), x], -1
        ),
        "a column of ones was added on both sides of x": (
            lambda x: torch.cat([ones(x[..., :1]), x, ones(x[..., :1])], -1)
        ),
        "as many rows of ones were added as x has: it is to be one column": lambda x: torch.cat([x, ones(x)]),
        "the new column holds zeros": lambda x: torch.cat([x, 0 * ones(x[..., :1])], -1),
        "as many columns of ones were added as x has: it is to be one": lambda x: torch.cat([x, ones(x)], -1),
        "one was added to each element: no column was added": lambda x: x + ones(x),
        "the last column of x was overwritten: the ones are to stand after it": (
            lambda x: torch.cat([x[..., :-1], ones(x[..., :1])], -1)
        ),
        "nothing was added": lambda x: x,
        **{
            f"the ones were added along dimension {dim}, and not along the last": (
                lambda x, dim=dim: torch.cat([x, ones(x.narrow(dim, 0, 1))], dim)
            )
            for dim in range(3)
        },
    },
    "x's columns, and after them a column of ones",
    digits=True,
    then=_column,
)


@append_ones.row("a column of ones at the end")
def ones_at_the_end(trial):
    appended.each(trial, cases.shapes(trial, (4, 3), (1, 7), (5, 1)))


@append_ones.row("any number of dimensions, and views")
def ones_in_any_shape(trial):
    x = trial.randn(2, 3, 5, seed=trial.seeds[0])
    appended.each(trial, (x, x[0, 0], x[0].t(), x[:, ::2, 1:4], trial.randn(2, 1, 3, 4), x[None, :, None]))
    appended.each(trial, (x[:0], x[:, :0], x[0, :0]))


@append_ones.row("x's own dtype, integers too")
def ones_in_any_dtype(trial):
    x = 5 * trial.randn(4, 3, seed=trial.seeds[1])
    small = [x.to(dtype) for dtype in (torch.int8, torch.int16)]
    if cases.holds(trial.device, torch.complex64):
        small.append(torch.complex(x, x.flip(0)))
    appended.each(trial, [*cases.dtypes(x), *small], within=0.0)


@append_ones.row("ones beside inf and nan, too")
def ones_beside_anything(trial):
    appended.each(trial, cases.unruly(trial.randn(3, 4, seed=trial.seeds[2])))
