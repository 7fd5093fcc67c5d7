"""The clinic: the batch, which a loop leaves where its loader made it."""

import copy

import torch
from torch import nn

from devlab.checks import expect
from devlab.checks.holding import changed, holdings
from devlab.checks.isolation import seed_generators
from devlab.lessons.lesson_10_debugging import (
    lesson,
    pull,
    require_graph,
    weights,
)

batch = lesson.exercise(
    "fix_batch",
    signature="fix_batch(model, batch, device)",
    facts=("X1", "X4", "E4"),
    hints=(
        "Print `inputs.device` after the line that moves it. What does `.to` of a tensor return, and "
        "which name holds it then?",
        "`model.to(device)` moves in place; `tensor.to(device)` returns a new tensor and leaves the old one "
        "where it was. The model is already right: leave it there.",
        "`inputs = inputs.to(device)`, then `return model(inputs)`.",
    ),
)


def _model(trial, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        seed_generators(seed)
        return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4)).to(trial.device)


def _run_batch(trial, seed: int, rows: int = 6) -> tuple[nn.Module, object]:
    """Call the answer with a model on the device and a batch on the CPU; expect the reference's logits."""
    model = _model(trial, seed)
    inputs = trial.randn(rows, 3, seed=seed, on=torch.device("cpu"))
    labels = torch.arange(rows) % 4
    wanted = copy.deepcopy(model).cpu()(inputs).detach()
    got = trial.call(model, (inputs, labels), trial.device)
    expect.tensor(got, wanted, trial.device, "the result", within=1e-4)
    return model, got


@batch.row("the inputs reach the model's device")
def batch_runs(trial):
    for seed, rows in zip(trial.seeds, (6, 1, 5), strict=True):
        _run_batch(trial, seed, rows)


@batch.row("the model stays as it is")
def batch_leaves_the_model(trial):
    for training in (True, False):
        model = _model(trial, trial.seeds[0]).train(training)
        for parameter in model.parameters():  # left over from another batch, and none of the answer's
            parameter.grad = torch.ones_like(parameter)
        before, values = holdings(model), weights(model)
        inputs = trial.randn(4, 3, seed=trial.seeds[1], on=torch.device("cpu"))
        wanted = copy.deepcopy(model).cpu()(inputs).detach()
        got, log = trial.watched(model, (inputs, torch.arange(4)), trial.device)
        if model.training != training:
            headline = "the model's mode was changed"
            expect.fail(headline, f"training is {training}", f"training is {model.training}")
        for now, then in zip(weights(model), values, strict=True):
            expect.values(now, then, "the model's parameters")
        for parameter in model.parameters():
            if parameter.grad is None or not bool((parameter.grad == 1).all()):
                headline, words = "the model's gradients were changed", "the gradients as they were"
                expect.fail(headline, words, parameter.grad)
        for transfer in log.events.transfers:
            if torch.device(transfer.source) == trial.device:
                headline = f"something left {transfer.source} for {transfer.target}"
                words = "only the batch moves, to the device"
                expect.fail(headline, words, f"{transfer.line}")
        if path := changed(before, model):
            words = f"the model as it came, on {trial.device}"
            expect.fail("the model was changed", words, f"another `{path}`, or the same elsewhere")
        expect.tensor(got, wanted, trial.device, "the result", within=1e-4)


@batch.row("gradients reach the model")
def batch_keeps_the_graph(trial):
    model, got = _run_batch(trial, trial.seeds[2])
    twin = _model(trial, trial.seeds[2]).cpu()
    pull(twin(trial.randn(6, 3, seed=trial.seeds[2], on=torch.device("cpu"))))
    first, *others = zip(model.parameters(), twin.parameters(), strict=True)
    require_graph(got, first[0], "the model's parameters", first[1].grad)
    for mine, its in others:
        if mine.grad is None:
            expect.fail("a parameter of the model gets no gradient", "a gradient for each", "None")
        expect.values(mine.grad, its.grad, "the gradient that reaches the model's parameters", within=1e-3)
