"""One training step: batch moved, forward, loss, zero, backward, step, and no wait."""

import contextlib

import torch
from torch import nn
from torch.nn import functional as F

from devlab.checks import expect, verbs
from devlab.checks.calls import AnswerRaised
from devlab.lessons.lesson_11_training_step import (
    CLASSES,
    CPU,
    FEATURES,
    WITHIN,
    Order,
    expect_weights,
    journeys,
    lesson,
    make_model,
    make_optimizer,
    reference_steps,
    samples,
    twin,
)

train_step = lesson.exercise(
    "train_step",
    signature="train_step(model, batch, optimizer, device)",
    facts=("T1", "T2", "T3", "T4", "Z1", "P2", "R4"),
    hints=(
        "About seven lines: training mode, two moves, the forward with its loss, three calls for the "
        "gradients, and the return. Which of the three calls must come before `backward`?",
        '`inputs, labels = batch`, each `.to(device, non_blocking=device.type == "cuda")`; the loss is '
        "`torch.nn.functional.cross_entropy(model(inputs), labels)`; then `optimizer.zero_grad()`, "
        "`loss.backward()`, `optimizer.step()`. What would `loss.item()` cost, and what can you return "
        "instead?",
        "Begin with `model.train()` and end with `return loss.detach()`. That is a tensor on the device, "
        "without a graph, and the host has not waited for it.",
    ),
)


def _step(trial, model: nn.Module, batch: tuple | list) -> torch.Tensor:
    """Let the answer take a step, and return its loss; Mismatch where it returns none."""
    got = trial.call(model, batch, make_optimizer(model), trial.device)
    if isinstance(got, float | int):
        expect.fail("the loss is a Python number: the host waited for it", "a tensor on the device", got)
    expect.kind(got, torch.Tensor, "a tensor", "the loss")
    return got


def _logits(seed: int, inputs: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return make_model(seed)(inputs)


def _evaluating(seed: int, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(make_model(seed).eval()(inputs), labels)


def _after(seed: int, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.tensor(reference_steps(make_model(seed), [(inputs, labels)] * 2, CPU)[1][0])


def _first_loss(
    seed: int, inputs: torch.Tensor, labels: torch.Tensor, on: torch.device = CPU
) -> torch.Tensor:
    return torch.tensor(reference_steps(make_model(seed), [(inputs, labels)], on)[0][0])


# Of a model from a seed, and a batch on the CPU.
loss = verbs.Same(
    _first_loss,
    {
        "the forward ran in evaluation mode": _evaluating,
        "that is the sum over the batch, and the mean is asked": (
            lambda seed, x, y: F.cross_entropy(_logits(seed, x), y, reduction="sum")
        ),
        "softmax was applied before: cross_entropy takes the logits as they are": (
            lambda seed, x, y: F.cross_entropy(_logits(seed, x).softmax(1), y)
        ),
        "log_softmax is missing: `nll_loss` takes log-probabilities": (
            lambda seed, x, y: F.nll_loss(_logits(seed, x), y)
        ),
        "that is the loss after a step: one forward, before the step, is asked": _after,
        "that is the share of right answers, and the loss is asked": (
            lambda seed, x, y: (_logits(seed, x).argmax(1) == y).float().mean()
        ),
    },
    what="the loss",
    within=WITHIN,
)


@train_step.row("the loss of the batch, on the device")
def loss_of_the_batch(trial):
    for count, seed in zip((7, 4), trial.seeds, strict=False):
        batch = [*samples(trial, count, seed)]  # a list, as a DataLoader makes it; other rows have tuples
        got = _step(trial, make_model(seed, trial.device).eval(), batch)
        wanted = _first_loss(seed, *batch, on=trial.device)
        loss.compare(trial, got.detach(), seed, *batch, on=trial.device, wanted=wanted)


@train_step.row("the loss is detached")
def detached(trial):
    got = _step(trial, make_model(trial.seeds[0], trial.device), [*samples(trial, 6, trial.seeds[1])])
    if got.requires_grad:
        headline = "the loss still holds its graph"
        expect.fail(headline, "requires_grad=False", "requires_grad=True: to keep it is to keep the graph")


@train_step.row("one step, by this batch's gradient alone")
def one_step_each(trial):
    for kind, seed in zip(("momentum", "adam"), trial.seeds, strict=False):
        model = make_model(seed, trial.device)
        ours, optimizer = twin(model), make_optimizer(model, kind)
        batches = [samples(trial, count, seed + count) for count in (6, 5, 8)]
        reference_steps(ours, batches, trial.device, kind)
        for batch in batches:
            for parameter in model.parameters():  # left over from something earlier, as in any notebook
                parameter.grad = torch.ones_like(parameter)
            trial.call(model, batch, optimizer, trial.device)
        expect_weights(model, ours, trial.device, _why_not_moved(trial, model, make_model(seed)))
    # A gradient far longer than 10 counts in full, too.
    inputs, labels = samples(trial, 6, trial.seeds[2])
    inputs *= 40
    ours = nn.Linear(FEATURES, CLASSES)
    model, fresh = twin(ours).to(trial.device), twin(ours)
    reference_steps(ours, [(inputs, labels)], trial.device)
    trial.call(model, (inputs, labels), make_optimizer(model), trial.device)
    expect_weights(model, ours, trial.device, _why_not_moved(trial, model, fresh))


def _why_not_moved(trial, model: nn.Module, fresh: nn.Module):
    """Return a headline maker that says what is wrong with the step, where the order of calls tells it."""

    def why(name: str) -> str:
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
    order, model = Order(), make_model(trial.seeds[0], trial.device)
    optimizer = make_optimizer(model)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    with (
        verbs.aside(trial),
        order.noted(model, optimizer),
        contextlib.suppress(AnswerRaised, expect.Mismatch),
    ):
        trial.call(model, samples(trial, 6, trial.seeds[1]), optimizer, trial.device)
    return order.fault(1)


@train_step.row("what is frozen or unused stays as it is")
def frozen_stays(trial):
    seed = trial.seeds[1]
    model = make_model(seed, trial.device)
    model[3].requires_grad_(False)
    model.register_parameter("spare", nn.Parameter(torch.ones(3, device=trial.device)))
    ours, batch = twin(model), samples(trial, 6, seed)
    reference_steps(ours, [batch], trial.device, "decay")
    trial.call(model, batch, make_optimizer(model, "decay"), trial.device)
    for name, parameter in model.named_parameters():
        frozen = name.startswith("3.")
        if parameter.requires_grad == frozen:
            changed = "frozen and can be trained now" if frozen else "trainable and is frozen now"
            expect.fail(f"{name} came {changed}", f"requires_grad={not frozen}", f"requires_grad={frozen}")
        if (frozen or name == "spare") and not torch.equal(parameter.cpu(), ours.get_parameter(name)):
            what = "is frozen" if frozen else "has no part in the loss"
            asked = "a parameter that the step leaves alone, as it has no gradient"
            expect.fail(f"the parameter {name} {what}, and was changed", asked, parameter.detach())
    expect_weights(model, ours, trial.device, _why_not_moved(trial, model, make_model(seed)))


@train_step.row("in training mode, whatever it was before")
def training_mode(trial):
    for before in (False, True):
        model = make_model(trial.seeds[2], trial.device).train(before)
        trial.call(model, samples(trial, 5, trial.seeds[0]), make_optimizer(model), trial.device)
        modes = model[-1].modes
        if len(modes) != 1:
            said = verbs.times(len(modes), "forward")
            expect.fail(f"the model ran {len(modes)} times", "one forward", said)
        if not modes[0]:
            headline = "the forward ran in evaluation mode"
            expect.fail(headline, "model.train() before it", "a model that came in evaluation mode stayed so")
        if not all(module.training for module in model.modules()):
            expect.fail("the model was left in evaluation mode", "training mode", "model.training is False")


@train_step.row("two transfers in, and no wait", only="accelerator")
def two_transfers_no_wait(trial):
    model = make_model(trial.seeds[0], trial.device)
    optimizer = make_optimizer(model)
    batch = samples(trial, 6, trial.seeds[1])
    there = tuple(tensor.to(trial.device) for tensor in batch)
    words = {2: "2 transfers: inputs and labels once each", 0: "0 transfers: the batch was there already"}
    for given, asked in ((batch, 2), (there, 0)):
        _, log = trial.watched(model, given, optimizer, trial.device)
        # Waits are counted first: `.item()` is a wait and a transfer, and the wait is what costs.
        headline = "the host waited for {one.device}: {one.cause}"
        verbs.counts(log.events.synchronizations, 0, headline, "no synchronization in a step")
        headline, said = f"{{times}} out of {trial.device}", "{count}; {one.line}"
        verbs.counts(journeys(log, trial.device)[2], 0, headline, "none", said)
        headline, said = f"{{times}} between devices, not {asked}", "{count}; {last.line}"
        verbs.counts(log.events.transfers, asked, headline, words[asked], said, asked)


@train_step.row("the batch may come from any device")
def from_any_device(trial):
    # Into the CPU a transfer that does not block may be read too early; lesson 04 judges that.
    for source in (CPU, *(trial.others if trial.device != CPU else ())):
        batch = samples(trial, 5, trial.seeds[2])
        model = make_model(trial.seeds[1], trial.device)
        got = _step(trial, model, tuple(tensor.to(source) for tensor in batch))
        wanted = _first_loss(trial.seeds[1], *batch, on=trial.device)
        expect.tensor(got.detach(), wanted, trial.device, "the loss", within=WITHIN)
    if trial.device.type != "cpu":
        there = tuple(tensor.to(trial.other()) for tensor in batch)
        _, log = trial.watched(model, there, make_optimizer(model), trial.device)
        headline = f"{{times}} for two tensors on {trial.other()}"
        asked = f"one transfer for each, straight to {trial.device}"
        verbs.counts(log.events.transfers, 2, headline, asked, "{routes}; {last.line}")
        trial.second()
