"""The clinic: the batch, which a loop leaves where its loader made it."""

import torch
from torch import nn

from devlab.checks.scenes import scene
from devlab.checks.settings import seed_generators
from devlab.lessons.lesson_10_debugging import lesson, see_gradients, unchanged, watched_straight

fix_batch = lesson.exercise(
    "fix_batch",
    signature="fix_batch(model, batch, device)",
    facts=("X1", "X4", "E4"),
    hints=(
        "Print `inputs.device` after the line that should move it. What does `.to` return for a tensor, and "
        "which name holds the result?",
        "`model.to(device)` moves in place; `tensor.to(device)` returns a new tensor and leaves the old one "
        "where it was. The model is already right: leave it there.",
        "`inputs = inputs.to(device)`, then `return model(inputs)`.",
    ),
)


def ours(model, batch, device):
    return model(batch[0].to(device))


def ready(t, seed, rows):
    seed_generators(seed)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4)).to(t.device)
    return model, (t.randn(rows, 3, seed=seed).cpu(), torch.arange(rows) % 4)  # on the CPU, as from a loader


@scene(fix_batch, ours, "the inputs reach the model's device", "what the model makes of the inputs")
def batch_runs(t):
    for seed, rows in zip(t.seeds, (6, 1, 5), strict=True):
        yield "the result", t.call(*ready(t, seed, rows), t.device), 1e-4


@scene(fix_batch, ours, "the model stays as it is")
def batch_leaves_the_model(t):
    for training in (True, False):
        (model, _), (_, batch) = ready(t, t.seeds[0], 4), ready(t, t.seeds[1], 4)
        for parameter in model.train(training).parameters():  # the gradients of an earlier batch stay
            parameter.grad = torch.ones_like(parameter)
        with unchanged(model, "`{path}` of the model was changed"):
            got = watched_straight(t, model, batch, t.device, what="the inputs", spare=batch[1])
            yield "training of the model", model.training
            yield "the result", got, 1e-4


@scene(fix_batch, ours, "gradients reach the model")
def batch_keeps_the_graph(t):
    model, batch = ready(t, t.seeds[2], 6)
    leaves = {f"the model's {name}": one for name, one in model.named_parameters()}
    yield from see_gradients("the result", t.call(model, batch, t.device), leaves, 1e-4)
