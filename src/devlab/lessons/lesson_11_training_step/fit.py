"""The capstone: whole epochs, the mean loss of each, and the counts that make them fast."""

import gc
import itertools
import weakref
from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from devlab.checks import expect
from devlab.checks.isolation import seed_generators
from devlab.data import digits
from devlab.lessons.lesson_11_training_step import (
    STEP,
    WITHIN,
    Endless,
    Order,
    at,
    counts_of_batches,
    ended,
    expect_turns,
    expect_weights,
    journeys,
    lesson,
    make_model,
    make_optimizer,
    reference_steps,
    samples,
    tensors_and_numbers,
    times,
    twin,
    watched_to_first_forward,
)

fit = lesson.exercise(
    "fit",
    signature="fit(model, loader, optimizer, device, epochs)",
    facts=("T1", "T2", "T3", "T4", "Z1", "P2", "R1", "R4", "K5", "W3"),
    hints=(
        "Two loops and your `train_step`. What has to be read by Python, and how many times in an epoch?",
        "Batches differ in size: add up `loss * len(labels)` on the device, count the samples in Python, and "
        "divide at the end of the epoch.",
        "Each epoch begins with `total = count = 0`. For each batch `total += len(batch[1]) * "
        "train_step(model, batch, optimizer, device)` and `count += len(batch[1])`. At its end "
        "`losses.append((total / count).item())`.",
    ),
)


MOST_PASSES = 50  # through a loader, where two epochs are asked


class _Passes(DataLoader):
    """A loader that counts how many times it was gone through."""

    passes = 0

    def __iter__(self):
        """Begin another pass, and count it."""
        self.passes += 1
        if self.passes > MOST_PASSES:
            raise Endless
        return super().__iter__()

    def __repr__(self) -> str:
        return f"a loader of {len(self)} batches"


def _loader(trial, inputs: torch.Tensor, labels: torch.Tensor, size: int, shuffled: int | None = None):
    generator = None if shuffled is None else torch.Generator().manual_seed(shuffled)
    data = TensorDataset(inputs, labels)
    return _Passes(data, size, shuffle=shuffled is not None, generator=generator)


def _reference(model: nn.Module, loader: DataLoader, epochs: int, kind: str = "momentum") -> list[float]:
    """Train a model of ours in place; return the mean loss over samples of each epoch."""
    batches = [[(x.clone(), y.clone()) for x, y in loader] for _ in range(epochs)]
    steps = reference_steps(model, [batch for epoch in batches for batch in epoch], kind)
    sizes = [len(epoch) for epoch in batches]
    means = []
    for size in sizes:
        epoch, steps = steps[:size], steps[size:]
        means.append(sum(loss * count for loss, count in epoch) / sum(count for _, count in epoch))
    return means


@fit.row("the mean loss over samples, for each epoch")
def mean_loss(trial):
    for (count, size, epochs), seed in zip(((10, 4, 2), (7, 7, 1)), trial.seeds, strict=False):
        model = make_model(seed, trial.device).eval()
        inputs, labels = samples(trial, count, seed)
        loader = _loader(trial, inputs, labels, size)
        steps = reference_steps(twin(model), [batch for _ in range(epochs) for batch in loader])
        each = [steps[start : start + len(loader)] for start in range(0, len(steps), len(loader))]
        wanted = [sum(loss * size for loss, size in epoch) / count for epoch in each]
        optimizer = make_optimizer(model)
        order, loader.passes = Order(), 0
        with order.noted(model, optimizer):
            got = _fitted(trial, model, loader, optimizer, trial.device, epochs)
        try:
            expect_losses(got, wanted, partial(other_losses, each, size))
        except expect.Mismatch as found:
            if found.headline.startswith(WRONG):
                _expect_training(model, order, epochs * len(loader), epochs)
            raise


def _fitted(trial, *args: object) -> object:
    """Call the answer, which has to come to an end."""
    with ended(10):
        return trial.call(*args)


def _expect_training(model: nn.Sequential, order: Order, batches: int, epochs: int) -> None:
    """Expect a step as train_step makes it for each batch, where the losses are wrong: that may be why."""
    if not all(model[-1].modes):
        headline = "a forward ran in evaluation mode"
        expect.fail(headline, "training mode in each step, as in train_step", "model.training was False")
    steps = order.calls.count(STEP)
    if steps == epochs and batches != epochs:
        headline = "the optimizer took one step in an epoch, and one for each batch is asked"
        expect.fail(headline, f"{batches} steps", times(steps, "step"))
    if fault := order.fault(batches):
        expect.fail(fault, "each step as in train_step", " → ".join(order.calls[:6]) or "none of the three")
    if len(model[-1].modes) > batches:
        headline = f"the model ran {len(model[-1].modes)} times for {times(batches, 'batch')}"
        expect.fail(headline, "the loss as the steps saw it, by one forward for each", "further forwards")


@fit.row("every batch of every epoch trains the model")
def trains_the_model(trial):
    kind, seed = "adam", trial.seeds[1]
    model = make_model(seed, trial.device).eval()
    ours = twin(model)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    data = samples(trial, 10, seed + 7)
    # Shuffled by a seed: each epoch has another order, so a list of the first one is no loader.
    wanted = _reference(ours, _loader(trial, *data, 4, shuffled=seed), 2, kind)
    loader = _loader(trial, *data, 4, shuffled=seed)
    got = _fitted(trial, model, loader, make_optimizer(model, kind), trial.device, 2)
    if loader.passes != 2:
        headline = f"the loader was gone through {times(loader.passes, 'time')} for 2 epochs"
        expect.fail(headline, "once in each epoch, which may have another order", f"{loader.passes}")
    expect_weights(model, ours, trial.device, lambda name: f"after two epochs {name} is wrong")
    expect_losses(got, wanted)


@fit.row("one copy for each tensor of a batch", only="accelerator")
def one_copy_each(trial):
    model, (loader, *rest) = _task(trial)
    log, before = watched_to_first_forward(trial, model, loader, *rest)
    into, _ = journeys(log, trial.device)
    into, numbers = tensors_and_numbers(into)
    into += numbers[4:]  # a sum or two may begin as a number of Python's, in each epoch
    asked = "16 copies: inputs and labels of 4 batches, in 2 epochs"
    beside = counts_of_batches(into, loader, 2)
    if not 16 <= len(into) <= 16 + beside:
        sizes = [tensor.nbytes for batch in loader for tensor in batch]
        twice = sum(one.bytes in sizes for one in into) > 16
        more = "some tensor goes twice" if twice else "more than the batches goes in"
        more = more if len(into) > 16 else "each batch goes in as it comes"
        headline = f"{times(len(into), 'copy')} into {trial.device} for 16 tensors: {more}"
        expect.fail(headline, asked, f"{len(into)}{at(into[-1] if into else None)}")
    expect_turns(before, trial.device)


@fit.row("at most one wait in an epoch", only="accelerator")
def one_wait_an_epoch(trial):
    model, rest = _task(trial)
    with ended(10):
        _, log = trial.watched(model, *rest)
    _, out = journeys(log, trial.device)
    waits = log.events.synchronizations
    if len(waits) > 2 or len(out) > 2:
        worst = waits if len(waits) >= len(out) else out
        headline = f"the host waited {times(len(worst), 'time')} in 2 epochs"
        expect.fail(headline, "at most once in an epoch", f"{worst[0].cause}{at(worst[0])}")


def _task(trial) -> tuple:
    """Return a model and the other arguments; no tensor of the 4 batches is as large as their 4 sizes are."""
    model = make_model(trial.seeds[2], trial.device)
    loader = _loader(trial, *samples(trial, 18, trial.seeds[0]), 5)
    return model, (loader, make_optimizer(model), trial.device, 2)


class _Token:
    """Something that lives as long as what holds it."""


class _Witness(torch.autograd.Function):
    """Passes its input on; its node in the graph holds a token."""

    @staticmethod
    def forward(ctx, x, living):
        ctx.token = _Token()
        living.add(ctx.token)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class _Counted(nn.Module):
    """Notes, at each forward, how many graphs of earlier ones are still alive."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model
        self.living: weakref.WeakSet = weakref.WeakSet()
        self.most = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the model's output, with a witness in its graph."""
        self.most = max(self.most, len(self.living))
        return _Witness.apply(self.model(x), self.living)


@fit.row("no graph outlives its step")
def no_graph_kept(trial):
    model = _Counted(make_model(trial.seeds[1])).to(trial.device)
    loader = _loader(trial, *samples(trial, 12, trial.seeds[1]), 3)
    _fitted(trial, model, loader, make_optimizer(model), trial.device, 2)
    if model.living:
        gc.collect()  # what only holds itself goes
    if model.living:
        headline = f"when fit had returned, {times(len(model.living), 'graph')} of its steps lived on"
        expect.fail(headline, "no graph that outlives its step", "memory that is held for nothing")
    # The last step's own may be held by a name until the next takes it, such as `loss` or `logits`.
    if model.most > 2:
        headline = f"{model.most} graphs of earlier steps were still alive"
        expect.fail(
            headline, "a detached loss, where it is kept or added", "memory that grows with each batch"
        )


@fit.row("it learns to read real digits")
def learns_digits(trial):
    images, labels = digits()
    inputs, labels = images[:96].flatten(1), labels[:96]
    seed_generators(trial.seeds[0])
    ours = nn.Linear(64, 10)
    model = twin(ours).to(trial.device)
    loader = _loader(trial, inputs, labels, 40)
    wanted = _reference(ours, loader, 3)
    got = _fitted(trial, model, loader, make_optimizer(model), trial.device, 3)
    expect_losses(got, wanted)
    expect_weights(model, ours, trial.device, lambda name: f"after three epochs {name} is wrong")
    assert wanted[-1] < wanted[0]  # the row itself is worth nothing otherwise


WRONG = "the loss of"  # how the headline begins where no mistake is recognized


def expect_losses(got: object, wanted: list[float], known: Callable = dict) -> None:
    """Expect one float for each epoch; `known` gives for each mistake, in words, the losses that it makes."""
    expect.kind(got, list, "a list of floats")
    for loss in got:
        if isinstance(loss, torch.Tensor):
            expect.fail("the losses are tensors, not floats", "a list of floats", got)
        expect.kind(loss, float, "a float", "a loss")
    if len(got) != len(wanted):
        headline = f"{times(len(got), 'loss')} for {times(len(wanted), 'epoch')}"
        expect.fail(headline, "one loss for each epoch", got)
    for epoch, (mine, right) in enumerate(zip(got, wanted, strict=True), start=1):
        if not _near(mine, right):
            found = {words for words, losses in known().items() if all(map(_near, got, losses))}
            headline = found.pop() if len(found) == 1 else f"{WRONG} epoch {epoch} is wrong"
            expect.fail(headline, f"{right:.6g}, the mean over its samples", f"{mine:.6g}")


def _near(mine: float, right: float) -> bool:
    return abs(mine - right) <= WITHIN * max(1, abs(right))


def other_losses(epochs: list[list[tuple[float, int]]], size: int) -> dict[str, list[float]]:
    """Return what else people make of each epoch's losses and sizes; `size` is that of a full batch."""

    def each(of: Callable) -> list[float]:
        return [of(epoch) for epoch in epochs]

    total = each(lambda epoch: sum(loss * count for loss, count in epoch))
    count = each(lambda epoch: sum(count for _, count in epoch))
    summed = each(lambda epoch: sum(loss for loss, _ in epoch))
    so_far, counted = list(itertools.accumulate(total)), list(itertools.accumulate(count))
    return {
        "the mean over batches counts the samples of a small batch more": each(
            lambda epoch: sum(loss for loss, _ in epoch) / len(epoch)
        ),
        "that is the loss of each epoch's last batch alone": each(lambda epoch: epoch[-1][0]),
        "that is the loss of each epoch's first batch alone": each(lambda epoch: epoch[0][0]),
        "that is the sum of the batches' losses, not divided by anything": summed,
        "that is the sum over the samples: divide it by how many there are": total,
        "the batches' means were added and divided by the samples: weigh each by its size": [
            one / many for one, many in zip(summed, count, strict=True)
        ],
        "sum and count were never reset: an epoch's loss holds those before it": [
            one / many for one, many in zip(so_far, counted, strict=True)
        ],
        "the count was never reset: each epoch's sum is divided by the samples of all so far": [
            one / many for one, many in zip(total, counted, strict=True)
        ],
        "the sum was never reset: it holds the epochs before": [
            one / many for one, many in zip(so_far, count, strict=True)
        ],
        "each batch was weighed as a full one, and the last one is smaller": [
            one * size / many for one, many in zip(summed, count, strict=True)
        ],
    }
