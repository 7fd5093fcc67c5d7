"""One training step: batch moved, forward, loss, zero, backward, step, and no wait."""

import contextlib
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from devlab.checks import expect, slips
from devlab.checks.calls import AnswerRaised
from devlab.lessons.lesson_11_training_step import (
    CLASSES,
    CPU,
    FEATURES,
    WITHIN,
    Order,
    at,
    expect_weights,
    journeys,
    lesson,
    make_model,
    make_optimizer,
    reference_steps,
    samples,
    times,
    twin,
)

train_step = lesson.exercise(
    "train_step",
    signature="train_step(model, batch, optimizer, device)",
    facts=("T1", "T2", "T3", "T4", "Z1", "P2", "R4"),
    hints=(
        "Seven lines: training mode, two moves, forward with the loss, then three calls around the "
        "gradients, and the return. Which of the three must come before `backward`?",
        "`inputs, labels = batch`, each `.to(device, non_blocking=True)`; the loss is "
        "`torch.nn.functional.cross_entropy(model(inputs), labels)`; then `optimizer.zero_grad()`, "
        "`loss.backward()`, `optimizer.step()`. What does `loss.item()` cost, what else could you return?",
        "Begin with `model.train()` and end with `return loss.detach()`: a tensor on the device, without a "
        "graph, for which the host has not waited.",
    ),
)


def _loss_of(trial, got: object) -> torch.Tensor:
    """Return the loss as a tensor that can be compared; Mismatch where it is none."""
    if isinstance(got, float | int):
        expect.fail("the loss is a Python number: the host waited for it", "a tensor on the device", got)
    expect.kind(got, torch.Tensor, "a tensor", "the loss")
    return got


@train_step.row("the loss of the batch, on the device")
def loss_of_the_batch(trial):
    for count, seed in zip((7, 4), trial.seeds, strict=False):
        model = make_model(seed, trial.device)
        inputs, labels = samples(trial, count, seed)
        ((wanted, _),) = reference_steps(twin(model), [(inputs, labels)])
        with torch.no_grad():
            unmoved = float(F.cross_entropy(twin(model).eval()(inputs), labels))
        model.eval()
        # A list, as a DataLoader makes it; other rows have tuples.
        got = _loss_of(trial, trial.call(model, [inputs, labels], make_optimizer(model), trial.device))
        if got.shape == () and abs(float(got.detach().cpu()) - unmoved) < WITHIN / 10:
            headline = "the forward ran in evaluation mode"
            expect.fail(headline, f"the loss in training mode, {wanted:.6g}", f"{unmoved:.6g}")
        known = partial(_other_losses, make_model(seed), inputs, labels)
        slips.tensor(got.detach(), torch.tensor(wanted), trial.device, "the loss", WITHIN, known)


def _other_losses(model, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return what people take for the loss of a batch; `model` is as it came, on the CPU."""
    with torch.no_grad():
        logits = twin(model).train()(inputs)
        trained = twin(model)
    reference_steps(trained, [(inputs, labels)])
    with torch.no_grad():
        after = F.cross_entropy(trained.train()(inputs), labels)
    return {
        "that is the sum over the batch, and the mean is asked": F.cross_entropy(
            logits, labels, reduction="sum"
        ),
        "softmax was applied before: cross_entropy takes the logits as they are": F.cross_entropy(
            logits.softmax(1), labels
        ),
        "log_softmax is missing: `nll_loss` takes log-probabilities": F.nll_loss(logits, labels),
        "that is the loss after a step: one forward, before the step, is asked": after,
        "that is the share of right answers, and the loss is asked": torch.tensor(
            float((logits.argmax(1) == labels).float().mean())
        ),
    }


@train_step.row("the loss is detached")
def detached(trial):
    model = make_model(trial.seeds[0], trial.device)
    batch = list(samples(trial, 6, trial.seeds[1]))
    got = _loss_of(trial, trial.call(model, batch, make_optimizer(model), trial.device))
    if got.requires_grad:
        headline = "the loss still holds its graph"
        expect.fail(headline, "requires_grad=False", "requires_grad=True: to keep it is to keep the graph")


@train_step.row("one step, by this batch's gradient alone")
def one_step_each(trial):
    for kind, seed in zip(("momentum", "adam"), trial.seeds, strict=False):
        model = make_model(seed, trial.device)
        ours, optimizer = twin(model), make_optimizer(model, kind)
        batches = [samples(trial, count, seed + count) for count in (6, 5, 8)]
        reference_steps(ours, batches, kind)
        for batch in batches:
            for parameter in model.parameters():  # left over from something earlier, as in any notebook
                parameter.grad = torch.ones_like(parameter)
            trial.call(model, batch, optimizer, trial.device)
        expect_weights(model, ours, trial.device, _why_not_moved(trial, model, make_model(seed)))
    # A gradient longer than 1 counts in full, too.
    inputs, labels = samples(trial, 6, trial.seeds[2])
    ours = nn.Linear(FEATURES, CLASSES)
    model, fresh = twin(ours).to(trial.device), twin(ours)
    reference_steps(ours, [(5 * inputs, labels)])
    trial.call(model, (5 * inputs, labels), make_optimizer(model), trial.device)
    expect_weights(model, ours, trial.device, _why_not_moved(trial, model, fresh))


def _why_not_moved(trial, model, fresh):
    """Return a headline maker that says what is wrong with the step, where the order of calls tells it."""

    def why(name):
        if "running" in name or "tracked" in name:
            return f"the running statistics ({name}) are not those of one forward in training mode"
        if fault := _fault(trial):
            return fault
        if torch.equal(model.state_dict()[name].cpu(), fresh.state_dict()[name]):
            return f"the parameter {name} has not changed: was a step taken?"
        return f"{name} is not where one step of the optimizer by this batch's gradient takes it"

    return why


def _fault(trial) -> str:
    """Let the answer take one more step, and return what is wrong with the order of its calls."""
    call, order = trial.last_call, Order()
    model = make_model(trial.seeds[0], trial.device)
    optimizer = make_optimizer(model)
    with order.noted(model, optimizer), contextlib.suppress(AnswerRaised, expect.Mismatch):
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        trial.call(model, samples(trial, 6, trial.seeds[1]), optimizer, trial.device)
    trial.last_call = call
    return order.fault(1)


@train_step.row("in training mode, whatever it was before")
def training_mode(trial):
    for before in (False, True):
        model = make_model(trial.seeds[2], trial.device).train(before)
        trial.call(model, samples(trial, 5, trial.seeds[0]), make_optimizer(model), trial.device)
        modes = model[-1].modes
        if len(modes) != 1:
            expect.fail(f"the model ran {len(modes)} times", "one forward", times(len(modes), "forward"))
        if not modes[0]:
            headline = "the forward ran in evaluation mode"
            expect.fail(headline, "model.train() before it", "a model that came in evaluation mode stayed so")
        if not all(module.training for module in model.modules()):
            expect.fail("the model was left in evaluation mode", "training mode", "model.training is False")


@train_step.row("two copies in, and no wait", only="accelerator")
def two_copies_no_wait(trial):
    model = make_model(trial.seeds[0], trial.device)
    optimizer = make_optimizer(model)
    batch = samples(trial, 6, trial.seeds[1])
    _, log = trial.watched(model, batch, optimizer, trial.device)
    _expect_counts(trial, log, 2, "inputs and labels once each")
    there = tuple(tensor.to(trial.device) for tensor in batch)
    _, log = trial.watched(model, there, optimizer, trial.device)
    _expect_counts(trial, log, 0, "the batch was there already")


def _expect_counts(trial, log, copies: int, words: str) -> None:
    into, out = journeys(log, trial.device)
    # Waits first: a read such as `.item()` is a copy as well, and the wait is the news.
    for wait in log.events.synchronizations:
        headline = f"the host waited for {wait.device}: {wait.cause}"
        expect.fail(headline, "no synchronization in a step", str(wait.line))
    if out:
        expect.fail(f"{times(len(out), 'copy')} out of {trial.device}", "none", f"{len(out)}{at(out[0])}")
    if len(into) != copies or log.transfers != copies:
        asked = f"{times(copies, 'copy')}: {words}"
        headline = f"{times(log.transfers, 'copy')} between devices, not {copies}"
        expect.fail(headline, asked, f"{log.transfers}{at((into or log.events.transfers)[-1])}")


@train_step.row("the batch may come from any device")
def from_any_device(trial):
    # Into the CPU a copy that does not block may be read too early; lesson 04 judges that.
    for source in (CPU, *(trial.others if trial.device != CPU else ())):
        model = make_model(trial.seeds[1], trial.device)
        ours = twin(model)
        inputs, labels = samples(trial, 5, trial.seeds[2])
        ((wanted, _),) = reference_steps(ours, [(inputs, labels)])
        batch = (inputs.to(source), labels.to(source))
        got = _loss_of(trial, trial.call(model, batch, make_optimizer(model), trial.device))
        expect.tensor(got.detach(), torch.tensor(wanted), trial.device, "the loss", within=WITHIN)
