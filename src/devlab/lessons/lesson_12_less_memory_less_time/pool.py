"""A function without graph breaks: what `torch.compile` captures in one piece, for every size."""

import contextlib
import io
import logging
import warnings

import torch

from devlab.checks.scenes import scene
from devlab.checks.seen import most, must
from devlab.lessons.lesson_12_less_memory_less_time import lesson

pool = lesson.exercise(
    "pool(x, lengths, limit)",
    ("F9",),
    "Two lines need a number on the host: `lengths.tolist()` and `if`. Can both become tensors of their "
    "own? And a loop over the batch is written out: each batch size is another graph.",
    "`there = torch.arange(x.shape[1], device=x.device) < lengths[:, None]` is a mask of all rows at "
    "once. `masked_fill` keeps nan out, which a product with 0 does not. `torch.where` takes the place "
    "of `if`.",
    "Sum `x.masked_fill(~there[:, :, None], 0)` over the length, divide by `lengths.clamp(min=1)`, "
    "and multiply by `torch.where(largest > limit, limit / largest, 1.0)`.",
)


def ours(x, lengths, limit):
    there = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    means = x.masked_fill(~there[:, :, None], 0).sum(1) / lengths.clamp(min=1)[:, None]
    largest = means.norm(dim=1).max()
    return means * torch.where(largest > limit, limit / largest, 1.0)


def make_batch(t, lengths, length, width=3, seed=0):
    """Return rows on the device with nan behind their lengths, and the lengths."""
    x = t.randn(len(lengths), length, width, seed=t.seeds[seed])
    for row, begin in zip(x, lengths, strict=True):
        row[begin:] = float("nan")
    return x, torch.tensor(lengths, device=t.device)


def count_graphs(function, calls):
    """Call a function under torch.compile; return how many graphs there were after each call."""
    graphs, counts, quiet = [], [], logging.root.manager.disable

    def note(graph, inputs):
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()  # of an earlier check of the same code
    logging.disable(logging.ERROR)  # the compiler's own words about each break
    try:
        compiled = torch.compile(function, backend=note)
        with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
            for one in calls:
                compiled(*one)
                counts.append(len(graphs))
    finally:
        logging.disable(quiet)
        torch.compiler.reset()
    return counts


@scene(pool, ours, "each row's mean, and the largest within limit")
def same_numbers(t):
    cases = ([4, 2, 1], 5, 0.1), ([3, 3], 3, 100.0), ([0, 6], 6, 0.5), ([0], 2, 1.0), ([7, 1, 5, 0], 7, 100.0)
    for number, (lengths, length, limit) in enumerate(cases):
        x, lengths = make_batch(t, lengths, length, seed=number % 3)
        yield "the result", t.call(x, lengths, limit), 1e-5


@scene(pool, ours, "gradients flow back to x")
def gradients(t):
    for limit in (0.1, 100.0):
        x, lengths = make_batch(t, [2, 4], 4)
        got = t.call(x.requires_grad_(), lengths, limit)
        yield must(got.requires_grad, "the result is cut off from x's graph", "a gradient for x")
        yield "the gradient of x", torch.autograd.grad(got.square().sum(), x)[0], 1e-4


@scene(pool, ours, "one graph, and one more for all other sizes", only="cpu")
def one_graph(t):
    sizes = (4, [2]), (5, [3, 0]), (7, [5] * 4)
    counts = count_graphs(
        t.answer, [(*make_batch(t, [length, 1, *rest], length), 0.1) for length, rest in sizes]
    )
    words = "one call makes {} graphs: some lines are left to Python"
    yield most(
        words, counts[0], 1, "one graph; with fullgraph=True, PyTorch's error names the line that cuts it"
    )
    words = "{} graphs for three sizes of the batch"
    yield most(words, counts[-1], 2, "one for the first size, and one for all the others")


@scene(pool, ours, "the host never waits", only="accelerator")
def never_waits(t):
    x, lengths = make_batch(t, [2, 3], 4)
    _, log = t.watched(x, lengths, 0.1)
    yield most("the host waited for the device {times}: {causes}", log.events.synchronizations, 0, "no wait")
