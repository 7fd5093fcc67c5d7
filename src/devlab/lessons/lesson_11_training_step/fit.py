"""The capstone: whole epochs, the mean loss of each, and the counts that make them fast."""

import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from devlab.checks import expect, verbs
from devlab.checks.probes import CountingLoader, Graphs
from devlab.checks.settings import seed_generators
from devlab.data import digits
from devlab.lessons.lesson_11_training_step import (
    STEP,
    WITHIN,
    Order,
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
    twin,
    watched_to_first_forward,
)

fit = lesson.exercise(
    "fit",
    signature="fit(model, loader, optimizer, device, epochs)",
    facts=("T1", "T2", "T3", "T4", "Z1", "P2", "R1", "R4", "K5", "W3"),
    hints=(
        "Two loops around your `train_step`. Which number does Python have to read, and how often in an "
        "epoch?",
        "Batches differ in size, so a loss counts as many times as its batch has samples. Add up `loss * "
        "len(labels)` on the device, count the samples in Python, and divide at the end of the epoch.",
        "Begin each epoch with `total = count = 0`. For each batch `total += len(batch[1]) * "
        "train_step(model, batch, optimizer, device)` and `count += len(batch[1])`. At its end "
        "`losses.append((total / count).item())`.",
    ),
)


MOST_PASSES = 50  # through a loader, where two epochs are asked
WRONG = "the loss of"  # how the headline begins where no mistake is recognized
Epochs = list[list[tuple[float, int]]]  # the loss and the size of each batch, for each epoch


def _loader(inputs: torch.Tensor, labels: torch.Tensor, size: int, shuffled: int | None = None):
    generator = None if shuffled is None else torch.Generator().manual_seed(shuffled)
    data = TensorDataset(inputs, labels)
    loader = DataLoader(data, size, shuffle=shuffled is not None, generator=generator)
    return CountingLoader(loader, most=MOST_PASSES)


def _reference(
    trial, model: nn.Module, loader: CountingLoader, epochs: int, kind: str = "momentum"
) -> Epochs:
    """Train a model of ours in place; return the losses and sizes of each epoch's batches."""
    batches = [(x.clone(), y.clone()) for _ in range(epochs) for x, y in loader]
    steps = reference_steps(model, batches, trial.device, kind)
    return [steps[start : start + len(loader)] for start in range(0, len(steps), len(loader))]


def _fitted(trial, *args: object) -> object:
    """Call the answer, which has to come to an end."""
    with ended():
        return trial.call(*args)


def _expect_losses(got: object, epochs: Epochs, size: int | None = None) -> None:
    """Expect the mean loss over samples of each epoch; mistakes have names where `size` is a full batch's."""
    expect.kind(got, list, "a list of floats")
    for loss in got:
        if isinstance(loss, torch.Tensor):
            expect.fail("the losses are tensors, not floats", "a list of floats", got)
        expect.kind(loss, float, "a float", "a loss")
    if len(got) != len(epochs):
        headline = f"{verbs.times(len(got), 'loss')} for {verbs.times(len(epochs), 'epoch')}"
        expect.fail(headline, "one loss for each epoch", got)
    parts = [numpy.array(epoch).T for epoch in epochs]
    total = numpy.array([losses @ sizes for losses, sizes in parts])
    count = numpy.array([sizes.sum() for _, sizes in parts])
    for epoch, (mine, right) in enumerate(zip(got, total / count, strict=True), start=1):
        if not _near(mine, right):
            known = _slips(epochs, total, count, size) if size else {}
            found = [words for words, losses in known.items() if all(map(_near, got, losses))]
            headline = found[0] if len(found) == 1 else f"{WRONG} epoch {epoch} is wrong"
            expect.fail(headline, f"{right:.6g}, the mean over its samples", f"{mine:.6g}")


def _near(mine: float, right: float) -> bool:
    return abs(mine - right) <= WITHIN * max(1, abs(right))


def _slips(epochs: Epochs, total: numpy.ndarray, count: numpy.ndarray, size: int) -> dict[str, numpy.ndarray]:
    summed = numpy.array([sum(loss for loss, _ in epoch) for epoch in epochs])
    return {
        "the mean over batches counts the samples of a small batch more": summed / len(epochs[0]),
        "that is the loss of each epoch's last batch alone": [epoch[-1][0] for epoch in epochs],
        "that is the loss of each epoch's first batch alone": [epoch[0][0] for epoch in epochs],
        "that is the sum of the batches' losses, not divided by anything": summed,
        "that is the sum over the samples: divide it by how many there are": total,
        "the batches' means were added and divided by the samples: weigh each by its size": summed / count,
        "sum and count were never reset: an epoch's loss holds those before it": (
            total.cumsum() / count.cumsum()
        ),
        "the count was never reset: each epoch's sum is divided by the samples of all so far": (
            total / count.cumsum()
        ),
        "the sum was never reset: it holds the epochs before": total.cumsum() / count,
        "each batch was weighed as a full one, and the last one is smaller": summed * size / count,
    }


@fit.row("the mean loss over samples, for each epoch")
def mean_loss(trial):
    for (count, size, epochs), seed in zip(((10, 4, 2), (7, 7, 1)), trial.seeds, strict=False):
        model = make_model(seed, trial.device).eval()
        loader = _loader(*samples(trial, count, seed), size)
        wanted = _reference(trial, twin(model), loader, epochs)
        optimizer = make_optimizer(model)
        order, loader.passes = Order(), 0
        with order.noted(model, optimizer):
            got = _fitted(trial, model, loader, optimizer, trial.device, epochs)
        try:
            _expect_losses(got, wanted, size)
        except expect.Mismatch as found:
            if found.headline.startswith(WRONG):
                _expect_training(model, order, epochs * len(loader), epochs)
            raise


def _expect_training(model: nn.Sequential, order: Order, batches: int, epochs: int) -> None:
    """Expect a step for each batch as train_step makes it: another step may be why the losses are wrong."""
    if not all(model[-1].modes):
        headline = "a forward ran in evaluation mode"
        expect.fail(headline, "training mode in each step, as in train_step", "model.training was False")
    steps = order.calls.count(STEP)
    if steps == epochs and batches != epochs:
        headline = "the optimizer took one step in an epoch, and one for each batch is asked"
        expect.fail(headline, f"{batches} steps", verbs.times(steps, "step"))
    if fault := order.fault(batches):
        expect.fail(fault, "each step as in train_step", " → ".join(order.calls[:6]) or "none of the three")
    if len(model[-1].modes) > batches:
        headline = f"the model ran {len(model[-1].modes)} times for {verbs.times(batches, 'batch')}"
        expect.fail(headline, "the loss as the steps saw it, by one forward for each", "further forwards")


@fit.row("every batch of every epoch trains the model")
def trains_the_model(trial):
    kind, seed = "adam", trial.seeds[1]
    model = make_model(seed, trial.device).eval()
    model[3].bias.requires_grad_(False)
    ours = twin(model)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
    data = samples(trial, 10, seed + 7)
    # The loader shuffles: each epoch has another order, so the first epoch's batches in a list will not do.
    wanted = _reference(trial, ours, _loader(*data, 4, shuffled=seed), 2, kind)
    loader = _loader(*data, 4, shuffled=seed)
    got = _fitted(trial, model, loader, make_optimizer(model, kind), trial.device, 2)
    if loader.passes != 2:
        headline = f"the loader was gone through {verbs.times(loader.passes, 'time')} for 2 epochs"
        expect.fail(headline, "once in each epoch, which may have another order", f"{loader.passes}")
    if model[3].bias.requires_grad:
        headline = "3.bias came frozen and can be trained now"
        expect.fail(headline, "each step as in train_step", "requires_grad=True")
    expect_weights(model, ours, trial.device, lambda name: f"after two epochs {name} is wrong")
    _expect_losses(got, wanted)


def _task(trial) -> tuple:
    """Return the arguments for a call; no tensor of its 4 batches has as many bytes as their 4 sizes."""
    model = make_model(trial.seeds[2], trial.device)
    loader = _loader(*samples(trial, 18, trial.seeds[0]), 5)
    return model, loader, make_optimizer(model), trial.device, 2


@fit.row("one transfer for each tensor of a batch", only="accelerator")
def one_transfer_each(trial):
    model, loader, *rest = _task(trial)
    log, before = watched_to_first_forward(trial, model, loader, *rest)
    into, numbers, _ = journeys(log, trial.device)
    into += numbers[4:]  # a sum or two may begin as a number of Python's, in each epoch
    sizes = [tensor.nbytes for batch in loader for tensor in batch]
    more = "each batch goes in as it comes"
    if len(into) > 16:
        twice = sum(one.bytes in sizes for one in into) > 16
        more = "some tensor goes twice" if twice else "more goes in than the batches"
    headline = f"{{times}} into {trial.device} for 16 tensors: {more}"
    asked, said = "16 transfers: inputs and labels of 4 batches, in 2 epochs", "{count}; {last.line}"
    most = 16 + counts_of_batches(into, loader, 2)
    verbs.counts(into, most, headline, asked, said, least=16)
    expect_turns(before, trial.device)


@fit.row("at most one wait in an epoch", only="accelerator")
def one_wait_an_epoch(trial):
    with ended():
        _, log = trial.watched(*_task(trial))
    waits = max(log.events.synchronizations, journeys(log, trial.device)[2], key=len)
    headline, said = "the host waited {times} in 2 epochs", "{one.cause}; {one.line}"
    verbs.counts(waits, 2, headline, "at most once in an epoch", said, of="time")


class _Counted(nn.Module):
    """Notes, at each forward, how many graphs of earlier ones are still alive."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model, self.graphs, self.most = model, Graphs(), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the model's output, whose graph is counted."""
        self.most = max(self.most, self.graphs.alive)
        return self.graphs.mark(self.model(x))


@fit.row("no graph outlives its step")
def no_graph_kept(trial):
    model = _Counted(make_model(trial.seeds[1])).to(trial.device)
    loader = _loader(*samples(trial, 12, trial.seeds[1]), 3)
    _fitted(trial, model, loader, make_optimizer(model), trial.device, 2)
    if left := model.graphs.left():
        headline = f"when fit had returned, {verbs.times(left, 'graph')} of its steps lived on"
        expect.fail(headline, "no graph that outlives its step", "memory that is held for nothing")
    # A name such as `loss` or `logits` may hold the last step's graph until the next step takes the name.
    if model.most > 2:
        headline, asked = f"{model.most} graphs of earlier steps were still alive", "a detached loss"
        expect.fail(headline, f"{asked}, where it is kept or added", "memory that grows with each batch")


@fit.row("it learns to read real digits")
def learns_digits(trial):
    images, labels = digits()
    seed_generators(trial.seeds[0])
    ours = nn.Linear(64, 10)
    model = twin(ours).to(trial.device)
    loader = _loader(images[:96].flatten(1), labels[:96], 40)
    wanted = _reference(trial, ours, loader, 3)
    _expect_losses(_fitted(trial, model, loader, make_optimizer(model), trial.device, 3), wanted)
    expect_weights(model, ours, trial.device, lambda name: f"after three epochs {name} is wrong")
