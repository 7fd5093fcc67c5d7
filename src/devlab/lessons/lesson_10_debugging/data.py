"""The clinic, first half: the batch, its labels, the loss weight. What comes with the data."""

import copy
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from devlab.checks import expect
from devlab.checks.calls import changed, holdings
from devlab.checks.isolation import seed_generators
from devlab.lessons.lesson_10_debugging import (
    gradient,
    lesson,
    pull,
    require_graph,
    sources,
    watched_straight,
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


labels_ = lesson.exercise(
    "fix_labels",
    signature="fix_labels(logits, labels)",
    facts=("X1", "X4", "E4"),
    hints=(
        "The model has done its work, and the loss fails. Which two tensors meet in it, and where is each?",
        "Bring the small one to the large one: the labels to the logits. The logits carry the graph.",
        "`return functional.cross_entropy(logits, labels.to(logits.device))`",
    ),
)


def _logits(trial, rows: int, classes: int, seed: int) -> torch.Tensor:
    return trial.randn(rows, classes, seed=seed).requires_grad_()


def _each(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return -log p(label) of each row, by its definition and in float64."""
    rows = logits.detach().cpu().double().log_softmax(1)
    return -rows[torch.arange(len(labels)), labels.cpu()]


def _loss(logits: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    """Return the mean of -log p(label), each row weighed by its class."""
    each = _each(logits, labels)
    share = torch.ones_like(each) if weight is None else weight.cpu().double()[labels.cpu()]
    return ((each * share).sum() / share.sum()).float()


def _other_losses(
    logits: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor | None
) -> dict[str, torch.Tensor]:
    """Return what mistakes give in place of the loss."""
    scores, targets, each = logits.detach().cpu().double(), labels.cpu(), _each(logits, labels)
    picked = scores[torch.arange(len(targets)), targets]
    known = {
        "that is the sum over the rows, and their mean is asked": each.sum(),
        "softmax was applied before: cross_entropy takes the logits as they are": _each(
            scores.softmax(1), targets
        ).mean(),
        "log_softmax is missing: `nll_loss` takes log-probabilities": -picked.mean(),
        "that is the share of right answers, and the loss is asked": (scores.argmax(1) == targets)
        .double()
        .mean(),
    }
    if weight is not None:
        weights = weight.cpu().double()
        share = weights[targets]
        known = {
            "the weight was not used": each.mean(),
            "the weighted rows were divided by their number, and the sum of the weights used is asked": (
                (each * share).mean()
            ),
            "that is the sum of the weighted rows, not divided by the weights used": (each * share).sum(),
            "it was divided by the sum of all classes' weights, and those of the labels at hand are asked": (
                (each * share).sum() / weights.sum()
            ),
            "the weights are upside down: 1 / weight": (each / share).sum() / (1 / share).sum(),
            "the weight was multiplied with the logits, and it belongs to the rows of the loss": _each(
                scores * weights, targets
            ).mean(),
        }
    return {words: value.float() for words, value in known.items()}


def _expect_loss(trial, got: object, logits, labels, weight: torch.Tensor | None = None) -> None:
    known = partial(_other_losses, logits, labels, weight)
    expect.told(got, _loss(logits, labels, weight), trial.device, "the loss", known=known)


@labels_.row("labels from any device")
def labels_from_anywhere(trial):
    for source in sources(trial):
        logits = _logits(trial, 7, 3, trial.seeds[0])
        labels = (trial.randint(0, 3, (7,), seed=trial.seeds[1])).to(source)
        got = watched_straight(trial, logits, labels, comes=("the labels",))
        _expect_loss(trial, got, logits, labels)


@labels_.row("it is the mean cross-entropy")
def labels_right(trial):
    for seed, (rows, classes) in zip(trial.seeds, ((5, 4), (1, 3), (12, 2)), strict=True):
        logits = _logits(trial, rows, classes, seed)
        labels = trial.randint(0, classes, (rows,), seed=seed).cpu()
        _expect_loss(trial, trial.call(logits, labels), logits, labels)


@labels_.row("the gradient reaches the logits")
def labels_graph(trial):
    logits, labels = _logits(trial, 4, 3, trial.seeds[2]), torch.tensor([2, 0, 1, 1])
    got = trial.call(logits, labels)
    _expect_loss(trial, got, logits, labels)
    wanted = gradient(lambda one: functional.cross_entropy(one, labels), logits)
    require_graph(got, logits, "the logits", wanted)


loss_weight = lesson.exercise(
    "fix_loss_weight",
    signature="fix_loss_weight(logits, labels, weight)",
    facts=("X1", "X4", "E4"),
    hints=(
        "Three tensors meet in this loss. Print the device of each.",
        "The weights were computed from the data set, once, on the CPU, and they have stayed there: no model "
        "holds them and no loader yields them.",
        "`functional.cross_entropy(logits, labels, weight=weight.to(logits.device))`",
    ),
)


def _weight(trial, classes: int, seed: int) -> torch.Tensor:
    """Return positive weights, no two alike, the largest first."""
    return trial.randn(classes, seed=seed).abs() + torch.arange(2.0 * classes, 0, -2).to(trial.device)


@loss_weight.row("a weight from any device")
def weight_from_anywhere(trial):
    for source in sources(trial):
        logits = _logits(trial, 7, 3, trial.seeds[0])
        labels = trial.randint(0, 3, (7,), seed=trial.seeds[1])
        weight = _weight(trial, 3, trial.seeds[2]).to(source)
        got = watched_straight(trial, logits, labels, weight, comes=("the weight",))
        _expect_loss(trial, got, logits, labels, weight)


@loss_weight.row("each label counts by its class's weight")
def weight_counts(trial):
    for seed, (rows, classes) in zip(trial.seeds, ((6, 4), (1, 3), (11, 2)), strict=True):
        logits = _logits(trial, rows, classes, seed)
        labels = trial.randint(0, classes, (rows,), seed=seed)
        weight = _weight(trial, classes, seed).cpu()
        _expect_loss(trial, trial.call(logits, labels, weight), logits, labels, weight)


@loss_weight.row("the gradient reaches the logits")
def weight_graph(trial):
    logits = _logits(trial, 4, 3, trial.seeds[2])
    labels, weight = torch.tensor([2, 0, 1, 1], device=trial.device), torch.tensor([1.0, 2.0, 5.0])
    got = trial.call(logits, labels, weight)
    _expect_loss(trial, got, logits, labels, weight)
    wanted = gradient(lambda one: functional.cross_entropy(one, labels.cpu(), weight), logits)
    require_graph(got, logits, "the logits", wanted)
