"""The clinic: a table of positions, which a model keeps."""

import torch

from devlab.checks import expect, verbs
from devlab.checks.probes import Built
from devlab.checks.scenes import scene
from devlab.checks.seen import must
from devlab.lessons.lesson_10_debugging import lesson, sources

FixedPositions = lesson.exercise(
    "class FixedPositions(n, d)",
    ("X3", "X4", "X5", "E4"),
    "`device_report(module)` lists what the module has registered. Is the table on the list?",
    "A tensor that the module needs and that is not trained is a buffer. A buffer moves with the model and "
    "is saved with it.",
    '`self.register_buffer("table", torch.linspace(0, 1, n * d).reshape(n, d))`. The rest was right.',
)


class Ours(torch.nn.Module):
    """Registers the table."""

    def __init__(self, n, d):
        super().__init__()
        self.register_buffer("table", torch.linspace(0, 1, n * d).reshape(n, d))

    def forward(self, x):
        """Return x plus the first rows of the table."""
        return x + self.table[: x.shape[1]]


@scene(FixedPositions, Ours, "it works wherever the model has moved", asked="x plus the first rows")
def positions_move(t):
    made = Built(t, 7, 3)
    x = t.randn(2, 5, 3, seed=t.seeds[0])
    for device in (t.device, *sources(t)[1:], t.device):
        yield "the result", made.to(device)(x.to(device)), 1e-5


@scene(FixedPositions, Ours, "`table` is a buffer, and forward reads it")
def positions_buffer(t):
    made = Built(t, 6, 4)
    table = getattr(made.module, "table", None)
    words = "`table` is a parameter, not a buffer"
    yield must(not isinstance(table, torch.nn.Parameter), words, 'a buffer named "table"', table)
    words = "`table` asks for a gradient, and it is not to be trained"
    yield must(not getattr(table, "requires_grad", False), words, "requires_grad=False", table)
    yield "the table of a new module", made.buffer("table"), 1e-5
    made.require_only_buffers()
    made.to(t.device).require_on(t.device, "table")
    x = t.randn(2, 5, 4, seed=t.seeds[1])
    made.buffer("table").zero_()
    got = made(x)
    expect.kind(got, torch.Tensor, "a tensor")
    expect.device(made.buffer("table"), t.device, "after a forward the buffer `table`")
    words = "forward answers from another tensor than the buffer `table`"
    same = got.shape == x.shape and torch.equal(got.detach().cpu(), x.cpu())
    yield must(same, words, "x unchanged once `table` is filled with zeros", got)
    for other in t.others:
        made.require_stays("table", x.to(other))


@scene(FixedPositions, Ours, "`table` is saved with the module")
def positions_saved(t):
    made = Built(t, 5, 2)
    made.buffer("table")
    saved = made.module.to(t.device).state_dict()
    made.require_saved("table")
    yield must(len(saved) == 1, "the state_dict holds more than `table`", '["table"]', list(saved))
    again = Built(t, 5, 2)
    again.module.to(t.device).load_state_dict({"table": saved["table"].clone() * 2})
    yield "the result after load_state_dict", again(t.randn(3, 4, 2, seed=t.seeds[2])), 1e-5


@scene(FixedPositions, Ours, "the first rows, at every length", asked="x plus the first rows")
def positions_right(t):
    made = Built(t, 9, 2).to(t.device)
    for time, batch in ((3, 2), (9, 1), (1, 4), (6, 3)):
        yield "the result", made(t.randn(batch, time, 2, seed=t.seeds[0])), 1e-5
    x = t.randn(2, 4, 2, seed=t.seeds[1]).requires_grad_()
    verbs.flows(made(x), x, None)
    yield "the gradient that reaches x", x.grad.clone(), 1e-3
    # The table may change at any time, as loading a state_dict changes it, and after every move.
    for device in (*sources(t)[1:], t.device):
        made.to(device)(x.detach().to(device))
    made.buffer("table").mul_(2)
    yield "the result after the table has changed", made(x), 1e-5
