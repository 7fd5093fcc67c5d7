"""One step from several small batches, by the gradient of the large batch that they make together."""

import weakref
from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.nn import functional as F

from devlab.checks import expect, verbs
from devlab.lessons.lesson_12_less_memory_less_time import (
    CLASSES,
    FEATURES,
    calls_of_a_step,
    expect_parameters,
    furthest,
    lesson,
    make_model,
    make_optimizer,
    samples,
    soiled,
    twin,
)

accumulate = lesson.exercise(
    "accumulate",
    signature="accumulate(model, batches, optimizer, device)",
    facts=("F6",),
    hints=(
        "`backward` adds to `.grad`, so a backward for each batch and one step at the end will do. But the "
        "mean of a batch of two counts as much as the mean of a batch of ten. How does each sample count "
        "the same?",
        "`samples = sum(len(labels) for _, labels in batches)` is known before the first forward. A batch's "
        "part of the large mean is `loss * len(labels) / samples`.",
        "Zero the gradients; for each batch move it, `part = F.cross_entropy(model(x), y) * len(y) / "
        "samples`, `part.backward()`, `total += part.detach()`; then one step, and `return total.item()`.",
    ),
)

SIZES = ((7, 3, 1), (2, 9), (4,))
WITHIN = 1e-4  # a step of float32 at a rate of 0.1: well above its rounding, well below a mistake


class _Token:
    """Something that lives as long as what backward needs of one batch."""


class Keeping(nn.Module):
    """Passes its input on, and counts of how many batches something is still kept for backward."""

    def __init__(self):
        super().__init__()
        self.kept: weakref.WeakSet = weakref.WeakSet()
        self.seen: list[tuple[int, int, bool]] = []  # of each forward: samples, batches kept before, the mode
        self.register_buffer("one", torch.ones(1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x as it is, behind a step of the graph that keeps a token for backward."""
        self.seen.append((len(x), len(self.kept), self.training))

        def pack(tensor: torch.Tensor) -> tuple:
            token = _Token()
            self.kept.add(token)
            return token, tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed[1]):
            return x * self.one


def _model(trial, seed: int) -> nn.Sequential:
    model = make_model(seed)
    return nn.Sequential(*model[:2], Keeping(), *model[2:]).to(trial.device)


def _batches(trial, sizes: tuple[int, ...], seed: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [samples(trial, size, 10 * seed + place) for place, size in enumerate(sizes)]


def _losses(trial, model: nn.Module, batches: list) -> Iterator[torch.Tensor]:
    """Yield the mean loss of each batch, on the trial's device."""
    for batch in batches:
        inputs, labels = (one.to(trial.device) for one in batch)
        yield F.cross_entropy(model(inputs), labels)


def _stepped(trial, model: nn.Module, batches: list, weights: list[float], steps: int = 1) -> nn.Module:
    """Take steps of ours by the weighted sum of the batches' mean losses, on the trial's device."""
    optimizer = make_optimizer(model.to(trial.device))
    for _ in range(steps):
        optimizer.zero_grad()
        for loss, weight in zip(_losses(trial, model, batches), weights, strict=True):
            (loss * weight).backward()
        optimizer.step()
    return model


def _weights(batches: list) -> list[float]:
    sizes = [len(labels) for _, labels in batches]
    return [size / sum(sizes) for size in sizes]


@accumulate.row("the mean loss of all samples, a float")
def mean_loss(trial):
    for sizes, seed in zip(SIZES, trial.seeds, strict=True):
        model, batches = _model(trial, seed), _batches(trial, sizes, seed)
        ours = twin(model)
        got = trial.call(model, batches, make_optimizer(model), trial.device)
        if isinstance(got, torch.Tensor):
            expect.fail("the loss is a tensor, and a float is asked", "float(total)", got)
        _expect_loss(trial, got, ours, batches)


def _expect_loss(trial, got: object, ours: nn.Module, batches: list) -> None:
    with torch.no_grad():
        means = [float(loss) for loss in _losses(trial, ours.to(trial.device), batches)]
    weights = _weights(batches)
    wanted = sum(mean * weight for mean, weight in zip(means, weights, strict=True))
    count = sum(len(labels) for _, labels in batches)
    slips = {
        "that is the mean of the batches' means: a small batch counts like a large one": sum(means)
        / len(means),
        "that is the sum of the batches' means": sum(means),
        "that is the sum over all samples, and their mean is asked": wanted * count,
        "that is the last batch's loss alone": means[-1],
        "that is the last batch's part alone": means[-1] * weights[-1],
        "that is the mean divided by the number of batches once more": wanted / len(means),
    }
    asked = "{wanted:.6g}, where every sample counts the same"
    headline, said, what = "that is not the mean loss", "{got:.6g}", "the loss"
    verbs.number(got, wanted, headline, slips, asked, said, what, 2e-5, otherwise=lambda: _fault(trial))


@accumulate.row("one step, by the gradient of that mean")
def one_step(trial):
    for sizes, seed in zip(SIZES, trial.seeds, strict=True):
        model, batches = _model(trial, seed), _batches(trial, sizes, seed)
        fresh = twin(model)
        ours = _stepped(trial, twin(model), batches, _weights(batches))
        trial.call(soiled(model), batches, make_optimizer(model), trial.device)
        asked = "one step by the gradient of the mean over all samples"
        expect_parameters(model, ours, WITHIN, _why(trial, model, fresh, batches), asked)
    # A gradient longer than 1 counts in full, nan in `.grad` for nothing; the optimizer remembers two steps.
    batches = [(5 * inputs, labels) for inputs, labels in batches]
    fresh = nn.Linear(FEATURES, CLASSES)
    ours = _stepped(trial, twin(fresh), batches, _weights(batches), steps=2)
    model = twin(fresh).to(trial.device)
    optimizer = make_optimizer(model)
    for _ in range(2):
        trial.call(soiled(model, float("nan")), batches, optimizer, trial.device)
    expect_parameters(model, ours, WITHIN, _why(trial, model, fresh, batches), asked)


def _why(trial, model: nn.Module, fresh: nn.Module, batches: list) -> Callable[[str], str]:
    """Return a headline maker that says which other step the answer took."""
    count, number = sum(len(labels) for _, labels in batches), len(batches)
    sizes = [float(len(labels)) for _, labels in batches]
    last = [0.0] * (number - 1) + [1.0]
    other = {
        "the batches' means were averaged: a small batch counts like a large one": [1 / number] * number,
        "the batches' means were added up, and the mean over all samples is asked": [1.0] * number,
        "that is the gradient of the sum over all samples, and their mean is asked": sizes,
        "only the last batch's gradient was used: zero_grad comes once, before the first": last,
        "only the last batch's part was used: zero_grad comes once, before the first": [
            one * sizes[-1] / count for one in last
        ],
        "the mean was divided by the number of batches once more": [one / count / number for one in sizes],
    }

    def why(name: str) -> str:
        if all(torch.equal(one.cpu(), fresh.get_parameter(name)) for name, one in model.named_parameters()):
            return "no parameter has changed: was a step taken?"
        if fault := _fault(trial):
            return fault
        for words, weights in other.items():
            if furthest(model, _stepped(trial, twin(fresh), batches, weights))[1] <= WITHIN:
                return words
        return f"{name} is not where one step by the gradient of all samples' mean takes it"

    return why


def _fault(trial) -> str:
    """Let the answer take one more step, and say what is wrong with its calls."""
    model = _model(trial, trial.seeds[0])
    batches = _batches(trial, (4, 3, 2), trial.seeds[0])
    calls = calls_of_a_step(trial, model, batches, make_optimizer(model))
    if (steps := calls.count("step")) > 1:
        return f"the optimizer took {steps} steps for 3 batches: one is asked for all of them"
    if "backward" in calls and not steps:
        return "the optimizer that was given took no step"
    if "backward" in calls and "zero_grad" not in calls:
        return "gradients from before were counted: call zero_grad before the first backward"
    return ""


@accumulate.row("one batch at a time, its graph let go")
def one_at_a_time(trial):
    model = _model(trial, trial.seeds[1])
    batches = _batches(trial, (4, 6, 3, 5), trial.seeds[2])
    trial.call(model, batches, make_optimizer(model), trial.device)
    seen = model[2].seen
    largest = max((size for size, _, _ in seen), default=0)
    if largest > 6:
        headline = f"{largest} samples went through the model at once"
        expect.fail(headline, "one batch at a time, 6 samples at most", f"a forward of {largest} samples")
    if len(seen) != 4:
        expect.fail(
            f"the model ran {verbs.times(len(seen), 'time')} for 4 batches", "4 forwards", f"{len(seen)}"
        )
    if most := max(kept for _, kept, _ in seen):
        headline = (
            f"when a forward began, the graphs of {verbs.times(most, 'batch')} before it were still kept"
        )
        said = f"what backward needs of {verbs.times(most, 'batch')} in memory"
        expect.fail(headline, "backward after each forward, which lets the graph go", said)
    for training, other, call in ((True, "evaluation", "model.eval()"), (False, "training", "model.train()")):
        model = _model(trial, trial.seeds[1]).train(training)
        trial.call(model, batches, make_optimizer(model), trial.device)
        if any(mode != training for _, _, mode in model[2].seen) or model.training != training:
            expect.fail(f"the model was put into {other} mode", "the mode in which it came", call)
    model = _model(trial, trial.seeds[1])
    model[2].eval()  # as a normalization evaluates while the rest is trained
    trial.call(model, batches, make_optimizer(model), trial.device)
    if any(mode for _, _, mode in model[2].seen) or model[2].training or not model[0].training:
        expect.fail(
            "a part of the model was put into another mode", "each in its own mode", "all in one mode"
        )


@accumulate.row("each batch moved once, one wait at most", only="accelerator")
def few_waits(trial):
    model, batches = _model(trial, trial.seeds[0]), _batches(trial, (4, 6, 3), trial.seeds[1])
    _, log = trial.watched(model, batches, make_optimizer(model), trial.device)
    headline, asked = "the host waited for {one.device} {times}: {causes}", "one, for the float at the end"
    verbs.counts(log.events.synchronizations, 1, headline, asked, "{count}; {last.line}", of="time")
    into = [one for one in log.events.transfers if one.target == str(trial.device) and one.bytes > 8]
    headline = f"{{times}} to {trial.device}, not 6"
    verbs.counts(into, 6, headline, "inputs and labels of 3 batches once each", "{count}", 6)
