"""A module with a saved buffer that never changes: the causal mask."""

import torch

from devlab.checks.probes import Built
from devlab.checks.scenes import scene
from devlab.checks.seen import must
from devlab.lessons.lesson_05_buffers import expect_moves, lesson

causal_mask = lesson.exercise(
    "class CausalMask(max_length)",
    ("B1", "B2", "B3", "B4", "L4"),
    "Make the whole triangle once, in `__init__`, and only cut from it in `forward`. What must it be so that "
    "`.to` moves it?",
    '`self.register_buffer("mask", table)` registers a tensor under a name. From then on `self.mask` is that '
    "tensor, wherever the module has been moved.",
    "`torch.ones(n, n, dtype=torch.bool).triu(1)` is True above the diagonal. `forward` returns "
    "`self.mask[:time, :time]`, where `time = x.shape[1]`.",
)


class Ours(torch.nn.Module):
    """Cuts from a triangle that is made once."""

    def __init__(self, max_length):
        super().__init__()
        self.register_buffer("mask", torch.ones(max_length, max_length, dtype=torch.bool).triu(1))

    def forward(self, x):
        """Return the mask for the time of x."""
        return self.mask[: x.shape[1], : x.shape[1]]


@causal_mask.row("`mask` is a buffer, and forward reads it")
def mask_is_a_buffer(t):
    made = Built(t, 6)
    made.buffer("mask")
    made.require_only_buffers()
    made.to(t.device).require_read("mask", t.randn(2, 5, 3), "the mask")


@causal_mask.row("it moves with the model, at any time")
def mask_moves(t):
    expect_moves(Built(t, 7), "mask", t.randn(2, 5, 3, seed=t.seeds[0]), "the mask")


@causal_mask.row("it is saved with the model")
def mask_is_saved(t):
    made = Built(t, 5).to(t.device)
    made.require_saved("mask")
    made(t.randn(3, 4, 2))
    made.require_saved("mask")


@scene(causal_mask, Ours, "True for the future, at every length")
def mask_is_right(t):
    made = Built(t, 9).to(t.device)
    room = made.buffer("mask").shape[-1]
    yield must(room == 9, f"the buffer `mask` has room for {room} steps, and max_length is 9", "9", room)
    inputs = [t.randn(2, time, 6, seed=t.seeds[0]) for time in (4, 9, 1)]
    inputs += [t.randint(0, 50, (4, 7), seed=t.seeds[1]), t.randn(3, 5, 2, 4, seed=t.seeds[2]).half()]
    for x in (*inputs, t.randn(8, 2, 3, seed=t.seeds[2]).transpose(0, 1), t.randn(0, 4, 6)):
        got, table = made(x), made.buffer("mask")
        words = "forward cut the buffer `mask` itself, and a longer x no longer fits"
        yield must(table.shape[-1] >= 9, words, "`mask` as it was, and a part of it as the result", table)
        yield "the mask", got, None, "True where column j > row i, shape [{0},{0}]".format(x.shape[1])
    table, future = table.detach().squeeze().bool(), made(inputs[1])
    words = "the buffer `mask` does not hold the triangle, although forward gives the right mask"
    held = table.equal(future) or table.equal(~future)
    yield must(held, words, "the whole triangle, 9 by 9, made once", table)
