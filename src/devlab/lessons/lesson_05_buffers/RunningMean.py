"""A module with saved buffers that each batch updates: the running mean."""

import torch
from torch import nn

from devlab.checks.probes import Built
from devlab.checks.scenes import scene
from devlab.checks.seen import must
from devlab.lessons.lesson_05_buffers import lesson

running_mean = lesson.exercise(
    "class RunningMean(n)",
    ("B1", "B2", "B3", "L2", "L4"),
    "Register two buffers: `mean`, n zeros, and `count`, a single integer, `torch.zeros((), "
    "dtype=torch.long)`. How far does one new row pull the mean of `count` rows?",
    "Once `count` is up to date, the mean moves by `(x - mean).sum(0) / count`. `self.training` tells which "
    "mode the module is in.",
    "`self.mean = ...` puts a new tensor in the old one's place. `self.mean += ...`, `add_` and `copy_` "
    "change the tensor that is there. `with torch.no_grad():` keeps the update out of the graph.",
)


def rows(t, count, n, seed):
    """Return rows whose columns have different means, none of them 0."""
    return (t.randn(count, n, seed=seed, on=torch.device("cpu")) + torch.arange(1.0, n + 1)).to(t.device)


class Ours(nn.Module):
    """Keeps all rows that it has seen."""

    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        """Return x without the mean of all rows seen so far."""
        if self.training:
            with torch.no_grad():
                self.count += len(x)
                self.mean += (x - self.mean).sum(0) / self.count
        return x - self.mean


def state(made, when):
    """See the two buffers, with the words for when."""
    yield f"`count` {when}", int(made.buffer("count"))
    yield f"`mean` {when}", made.buffer("mean").detach().float().clone(), 1e-4


def gradient(made, x, when):
    """See the gradient for the layer before."""
    scale = torch.full((), 2.0, device=x.device, requires_grad=True)
    got = made(x * scale)
    made.buffer("mean")  # which must not ask for a gradient
    yield must(got.requires_grad, f"the result{when} is cut off from x: no layer before this one can learn")
    (got * torch.arange(1.0, x.numel() + 1).reshape(x.shape).to(x.device)).sum().backward()
    yield must(
        scale.grad is not None, "no gradient of the result reaches x", "a gradient for the layer before"
    )
    yield "the gradient for the layer before", scale.grad.clone(), 0.05


@scene(running_mean, Ours, "`mean` and `count` are saved buffers")
def saved_buffers(t):
    made = Built(t, 3)
    mean, count = made.buffer("mean"), made.buffer("count")
    made.require_only_buffers()
    yield "the shape of `mean`", tuple(mean.shape)
    yield must(
        mean.is_floating_point(), f"`mean` is {mean.dtype}, not a floating dtype", "a floating tensor", mean
    )
    whole = not (count.is_floating_point() or count.is_complex() or count.dtype is torch.bool)
    yield must(whole, f"`count` is {count.dtype}, not an integer dtype", "an integer tensor", count)
    bits = torch.iinfo(count.dtype).bits
    yield must(
        bits >= 32, f"`count` is {count.dtype}, which ends at {torch.iinfo(count.dtype).max}", "more rows"
    )
    yield "the shape of `count`", tuple(count.shape)
    yield "`count` at first", count.item()
    made.require_saved("mean", "count")
    made.to(t.device).require_on(t.device, "mean", "count")


@scene(running_mean, Ours, "the exact mean of all rows seen")
def exact(t):
    for seed, n, sizes in zip(t.seeds, (3, 1), ((4, 1, 7), (1, 6)), strict=False):
        made = Built(t, n).to(t.device)
        batches = [rows(t, size, n, seed + 10 * place) for place, size in enumerate(sizes)]
        for place, x in enumerate([*batches, batches[0]]):
            got = made(x)
            for name in ("count", "mean"):
                yield f"forward left `{name}` on another device:", made.buffer(name).device != t.device
            yield from state(made, f"after batch {place + 1}")
            yield "the result", got, 1e-4


@scene(running_mean, Ours, "both are updated in place")
def in_place(t):
    made = Built(t, 4).to(t.device)
    held = {name: made.buffer(name) for name in ("mean", "count")}
    for batch, seed in enumerate(t.seeds[1:]):
        made(rows(t, 3 + batch, 4, seed))
        for name, before in held.items():
            same = torch.equal(before.detach().cpu(), made.buffer(name).detach().cpu())
            yield must(
                same, f"`{name}` was replaced by a new tensor, not updated in place", "the same tensor"
            )
    yield from gradient(made, rows(t, 3, 4, t.seeds[0]), "")


@scene(running_mean, Ours, "eval mode leaves both alone")
def eval_mode(t):
    made = Built(t, 3).to(t.device)
    made(rows(t, 5, 3, t.seeds[0]))
    before = made.buffer("count").clone(), made.buffer("mean").clone()
    made.module.eval()
    x = rows(t, 4, 3, t.seeds[1])
    for when, grad in ((" in evaluation mode", True), (" in evaluation mode, under torch.no_grad()", False)):
        with torch.set_grad_enabled(grad):
            got = made(x)
        for name, old in zip(("count", "mean"), before, strict=True):
            yield must(torch.equal(old, made.buffer(name)), f"forward changed `{name}`{when}", "as it was")
        yield f"the result{when}", got.detach(), 1e-4
    yield from gradient(made, x, " in eval mode")
    made.module.train()
    made(rows(t, 2, 3, t.seeds[2]))
    yield from state(made, "in training mode again")


@scene(running_mean, Ours, "a move or a reload in between changes nothing")
def goes_on(t):
    elsewhere = t.other()
    made = Built(t, 3).to(elsewhere)
    batches = [rows(t, count, 3, seed) for count, seed in zip((5, 2, 4), t.seeds, strict=True)]
    for x, device in zip(batches, (elsewhere, t.device), strict=False):
        made.to(device)(x.to(device))
        made.require_on(device, "mean", "count")
        yield from state(made, "after a move")
    made.require_saved("mean", "count")
    saved = {name: value.clone() for name, value in made.module.state_dict().items()}
    made = Built(t, 3).to(t.device)
    made.module.load_state_dict(saved)
    made(batches[2])
    yield from state(made, "after a reload")
    with torch.no_grad():
        got = made(rows(t, 3, 3, t.seeds[0]))
    yield from state(made, "under torch.no_grad()")
    yield "the result under torch.no_grad()", got, 1e-4
    made.module.eval()
    made.require_stays("mean", rows(t, 2, 3, t.seeds[1]).to(elsewhere))
