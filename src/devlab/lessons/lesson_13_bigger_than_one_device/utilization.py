"""The account of a training step: parameters, operations, and how much of the device's peak they reach."""

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from devlab.checks import expect, verbs
from devlab.checks.scenes import scene
from devlab.checks.seen import Seen
from devlab.lessons.lesson_13_bigger_than_one_device import lesson

utilization = lesson.exercise(
    "utilization(model, tokens, seconds, peak)",
    ("Q1", "Q9"),
    "`model.parameters()` names each parameter once, also one that stands in two places. Which of them "
    "take part in a product of matrices? A lookup and a sum are none.",
    "Go through `model.modules()`. Each `nn.Linear` multiplies each token by its weight: 2 operations a "
    "number in the forward, and 4 in the backward, for the gradients of the input and of the weight.",
    "`weights = sum(one.weight.numel() for one in model.modules() if isinstance(one, nn.Linear))`, then "
    "`operations = 6 * weights * tokens`, and the share is `operations / seconds / peak`.",
)


def make_model(words, width, blocks=1, tied=False, hidden=20):
    """Return a model that scores each word as the next one, by its table of words where that is tied."""
    layers = nn.LayerNorm(width), nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width, bias=False)
    more = [*(nn.Linear(width, width) for _ in range(blocks)), nn.Linear(width, words, bias=False)]
    model = nn.Sequential(nn.Embedding(words, width), *layers, *more)
    if tied:
        model[-1].weight = model[0].weight
    return model


def ours(model, tokens, seconds, peak):
    weights = sum(one.weight.numel() for one in model.modules() if isinstance(one, nn.Linear))
    operations = 6 * weights * tokens
    return sum(one.numel() for one in model.parameters()), operations, operations / seconds / peak


def answered(t, model, tokens=24, seconds=0.5, peak=1e7):
    """Call the answer, and return the three parts of what it gives."""
    with verbs.untouched(model, "the model was changed: `{path}`", "the model as it came"):
        got = t.call(model, tokens, seconds, peak)
    expect.kind(got, tuple, "a tuple of three", "what was answered")
    if len(got) != 3:
        expect.fail("the tuple has three parts: parameters, operations, share", "3 parts", f"{len(got)}")
    for part, name in zip(got[:2], ("parameters", "operations"), strict=True):
        expect.kind(part, int, "an int", f"the number of {name}")
    return got


@scene(utilization, ours, "each parameter once", "all numbers of all parameters")
def parameters(t):
    for tied in (False, True):
        model = make_model(31 + t.seeds[0] % 5, 8, tied=tied).to(t.device)
        model[2].requires_grad_(tied)
        yield "the number of parameters", answered(t, model)[0]


@scene(utilization, ours, "the operations that a step is counted to do")
def operations(t):
    for words, width, blocks, tied in ((40, 8, 1, False), (23, 12, 3, True), (5, 6, 0, False)):
        model = make_model(words, width, blocks, tied).to(t.device)
        batch = t.randint(0, words, (4, 5 + t.seeds[1] % 4))
        with FlopCounterMode(display=False) as counter:
            model(batch).sum().backward()
        model.zero_grad()
        got = answered(t, model, tokens=batch.numel())[1]
        yield Seen(
            "the number of operations", got, asked="what PyTorch counts", right=counter.get_total_flops()
        )


@scene(utilization, ours, "the share of the peak")
def share(t):
    for tokens, seconds, peak in ((24, 0.5, 1e7), (64, 0.032, 3e7)):
        got = answered(t, make_model(40, 8).to(t.device), tokens, seconds, peak)
        yield Seen("the share in %", 100 * got[2], 1e-6, right=100 * got[1] / seconds / peak)


@scene(utilization, ours, "a model without data, billions of parameters", only="cpu")
def on_meta(t):
    with torch.device("meta"):
        model = make_model(50_000, 20_000, blocks=8, hidden=40_000)
    got = answered(t, model, 1 << 22, 60.0, 1e18)
    yield "the number of parameters", got[0]
    yield "the number of operations", got[1]
