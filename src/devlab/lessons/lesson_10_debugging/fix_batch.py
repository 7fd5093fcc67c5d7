"""The clinic: the batch, which a loop leaves where its loader made it."""

import copy

import torch
from torch import nn

from devlab.checks import expect, verbs
from devlab.checks.isolation import seed_generators
from devlab.lessons.lesson_10_debugging import lesson, whole_tensors

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


def _model(trial, seed: int) -> nn.Module:
    seed_generators(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4)).to(trial.device)


def _batch(trial, seed: int, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a batch on the CPU, as a loader yields it."""
    return trial.randn(rows, 3, seed=seed, on=torch.device("cpu")), torch.arange(rows) % 4


logits = verbs.Same(lambda model, batch, device: copy.deepcopy(model).cpu()(batch[0]).detach(), within=1e-4)


@fix_batch.row("the inputs reach the model's device")
def batch_runs(trial):
    for seed, rows in zip(trial.seeds, (6, 1, 5), strict=True):
        logits(trial, _model(trial, seed), _batch(trial, seed, rows), trial.device)


@fix_batch.row("the model stays as it is")
def batch_leaves_the_model(trial):
    for training in (True, False):
        model = _model(trial, trial.seeds[0]).train(training)
        for parameter in model.parameters():  # gradients of an earlier batch, which the answer leaves alone
            parameter.grad = torch.ones_like(parameter)
        args = model, _batch(trial, trial.seeds[1], 4), trial.device
        wanted = logits.reference(*args)
        words = f"the model as it came, on {trial.device}", "another `{path}`, or the same elsewhere"
        with verbs.untouched(model, "the model was changed", *words):
            got, log = trial.watched(*args)
            if model.training != training:
                headline = "the model's mode was changed"
                expect.fail(headline, f"training is {training}", f"training is {model.training}")
            for parameter in model.parameters():
                if parameter.grad is None or not bool((parameter.grad == 1).all()):
                    headline, words = "the model's gradients were changed", "the gradients as they were"
                    expect.fail(headline, words, parameter.grad)
            left = [copy for copy in log.events.transfers if copy.source == str(trial.device)]
            headline = "something left {one.source} for {one.target}"
            verbs.counts(left, 0, headline, "only the batch moves, to the device")
            # Labels may go with the inputs, though they are not needed.
            moved = [copy for copy in whole_tensors(log) if copy.bytes != args[1][1].nbytes]
            headline = f"{{times}}, where the inputs can go to {trial.device} in one"
            verbs.counts(moved, 1, headline, f"one transfer, straight to {trial.device}", "{last.line}")
        logits.compare(trial, got, *args, wanted=wanted)


@fix_batch.row("gradients reach the model")
def batch_keeps_the_graph(trial):
    seed = trial.seeds[2]
    model, twin, batch = _model(trial, seed), _model(trial, seed).cpu(), _batch(trial, seed, 6)
    got = logits(trial, model, batch, trial.device)
    verbs.pull(twin(batch[0]))
    for (name, mine), its in zip(model.named_parameters(), twin.parameters(), strict=True):
        verbs.flows(got, mine, its.grad, f"the model's {name}")
