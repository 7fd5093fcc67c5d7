"""One training step in mixed precision: float16 autocast, and a scaler around the gradients."""

import torch
from torch import nn
from torch.nn import functional as F

from devlab.checks import expect, verbs
from devlab.lessons.lesson_12_less_memory_less_time import (
    CLASSES,
    FEATURES,
    calls_of_a_step,
    expect_parameters,
    lesson,
    make_model,
    make_optimizer,
    noted,
    samples,
    soiled,
    twin,
)

mixed_step = lesson.exercise(
    "mixed_step",
    signature="mixed_step(model, batch, optimizer, scaler, device)",
    facts=("F1", "F2", "F3"),
    hints=(
        "Two lines stand under `torch.autocast`: the forward and the loss. Some gradients are too small for "
        "float16, so all are made larger first. What does that, and what undoes it before the step?",
        "`with torch.autocast(device.type, dtype=torch.float16):` around forward and loss. After it, in "
        "place of `loss.backward()` and `optimizer.step()`: `scaler.scale(loss).backward()`, then "
        "`scaler.step(optimizer)`, which leaves a step with inf out, then `scaler.update()`.",
        "Training mode, two moves, `optimizer.zero_grad()`, the block under autocast, the three calls of the "
        "scaler, `return loss.detach()`.",
    ),
)

SCALE = 1024.0
TOO_LARGE = 2.0**26  # with this scale the gradient of any logit is inf in float16
# What float16 may round differently in another order of the same operations: autocast keeps either the
# digits of float16 in a float32 loss or those of float32, as cross_entropy or log_softmax is called.
WITHIN = 2e-3


def _scaler(trial, scale: float = SCALE) -> torch.amp.GradScaler:
    """Return a scaler that doubles its scale after every second good step."""
    return torch.amp.GradScaler(trial.device.type, init_scale=scale, growth_interval=2)


def _step(trial, model: nn.Module, batch, optimizer, scaler) -> torch.Tensor:
    got = trial.call(model, batch, optimizer, scaler, trial.device)
    if isinstance(got, float | int):
        expect.fail("the loss is a Python number: the host waited for it", "a tensor on the device", got)
    expect.kind(got, torch.Tensor, "a tensor", "the loss")
    return got


def _trained(trial, model: nn.Module, batches: list, scale: float = SCALE) -> torch.Tensor:
    """Train a model of ours on the trial's device, in float16 and with a scale; return the last loss."""
    optimizer = make_optimizer(model.to(trial.device))
    for batch in batches:
        inputs, labels = (one.to(trial.device) for one in batch)
        with torch.autocast(trial.device.type, dtype=torch.float16):
            loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        (loss * scale).backward()
        for parameter in model.parameters():
            parameter.grad /= scale
        optimizer.step()
    return loss.detach()


def _expect_loss(trial, got: torch.Tensor, wanted: torch.Tensor, count: int) -> None:
    """Expect a loss in float32; `wanted` is the mean over `count` samples."""
    if got.dtype != torch.float32:
        headline = f"the loss is {got.dtype}, not torch.float32"
        expect.fail(headline, "the loss under autocast as well, which computes it in float32", got)
    slips = {
        "that is the sum over the batch, and the mean is asked": wanted * count,
        "that is the scaled loss, and the loss itself is asked": wanted * SCALE,
    }
    near = WITHIN * float(got.abs().clamp(min=1))
    expect.named(got.detach(), wanted, slips, "the mean cross-entropy of the logits", near)
    expect.tensor(got.detach(), wanted, trial.device, "the loss", within=WITHIN)


@mixed_step.row("the loss in float32, on the device")
def loss_in_float32(trial):
    losses = []
    for count, seed in zip((7, 4, 9), trial.seeds, strict=True):
        batch = [*samples(trial, count, seed)]
        model = make_model(seed, trial.device).eval()
        wanted = _trained(trial, twin(model), [batch])
        got = _step(trial, model, batch, make_optimizer(model), _scaler(trial))
        if got.requires_grad:
            words = "requires_grad=True: to keep it is to keep the graph"
            expect.fail("the loss still holds its graph", "requires_grad=False", words)
        if not model[-1].modes:
            expect.fail("the model that was given never ran", "one forward", "none")
        _expect_loss(trial, got, wanted, count)
        losses.append(got)
        if not model[-1].modes[0] or not model.training:
            asked, said = "model.train() before the forward", "a model that came in evaluation mode stayed so"
            expect.fail("the forward ran in evaluation mode", asked, said)
    # A mean over seven samples or over nine is hardly ever a number that float16 holds.
    if all(torch.equal(one, one.half().float()) for one in losses):
        headline = "the loss was computed in float16: it belongs under autocast, too"
        expect.fail(headline, "a mean with the digits of float32", losses[-1])


@mixed_step.row("forward under float16 autocast, backward outside")
def under_autocast(trial):
    model = make_model(trial.seeds[1], trial.device)
    enabled, kind = [], trial.device.type
    with noted(torch.autograd, "backward", lambda: enabled.append(torch.is_autocast_enabled(kind))):
        _step(trial, model, samples(trial, 6, trial.seeds[2]), make_optimizer(model), _scaler(trial))
    probe = model[-1]
    asked = f"with torch.autocast({kind!r}, dtype=torch.float16)"
    if len(probe.autocast) != 1:
        expect.fail(f"the model ran {verbs.times(len(probe.autocast), 'time')}", "one forward", "")
    dtype = probe.autocast[0]
    if dtype is None:
        headline = f"the forward ran without autocast for {kind!r}"
        expect.fail(headline, asked, f"logits that are {probe.logits[0].dtype}")
    if dtype != torch.float16:
        expect.fail(f"the forward ran under autocast to {dtype}", asked, str(dtype))
    if any(enabled):
        headline = "backward ran inside autocast"
        expect.fail(headline, "forward and loss alone under autocast", "autocast on as backward began")


@mixed_step.row("a step by this batch's unscaled gradient")
def one_step_each(trial):
    model = make_model(trial.seeds[0], trial.device)
    fresh = twin(model)
    batches = [samples(trial, count, trial.seeds[0] + count) for count in (6, 5)]
    ours = twin(model)
    _trained(trial, ours, batches)
    optimizer, scaler = make_optimizer(model), _scaler(trial)
    for batch in batches:
        trial.call(soiled(model), batch, optimizer, scaler, trial.device)

    def why(name: str) -> str:
        if torch.equal(model.get_parameter(name).cpu(), fresh.get_parameter(name)):
            return f"the parameter {name} has not changed: was a step taken?"
        return _fault(trial) or f"{name} is not where a step by this batch's unscaled gradient takes it"

    asked = "zero_grad, scaled backward, and the scaler's step, which unscales"
    expect_parameters(model, ours, WITHIN, why, asked)
    # A gradient longer than 1 counts in full, and nan in `.grad` counts for nothing.
    inputs, labels = samples(trial, 6, trial.seeds[2])
    fresh = nn.Linear(FEATURES, CLASSES)
    ours = twin(fresh)
    _trained(trial, ours, [(5 * inputs, labels)])
    model = soiled(twin(fresh).to(trial.device), float("nan"))
    trial.call(model, (5 * inputs, labels), make_optimizer(model), _scaler(trial), trial.device)
    expect_parameters(model, ours, WITHIN, why, asked)


def _fault(trial) -> str:
    """Let the answer take one more step, and say what is wrong with its calls."""
    model = make_model(trial.seeds[0], trial.device)
    batch = samples(trial, 6, trial.seeds[1])
    calls = calls_of_a_step(trial, model, batch, make_optimizer(model), _scaler(trial))
    if "backward" in calls and "zero_grad" not in calls[: calls.index("backward")]:
        return "gradients from before were counted: call zero_grad before backward"
    if "step" in calls and "scaler.step" not in calls:
        return "the optimizer stepped by itself, with gradients that are still scaled: scaler.step unscales"
    return ""


@mixed_step.row("a step on inf is left out, the scale updated")
def inf_is_left_out(trial):
    model = make_model(trial.seeds[1], trial.device)
    fresh, optimizer = twin(model), make_optimizer(model)
    scaler, batch = _scaler(trial, TOO_LARGE), samples(trial, 6, trial.seeds[0])
    trial.call(model, batch, optimizer, scaler, trial.device)

    def why(name: str) -> str:
        return f"a step was taken on gradients that are inf: {name} has changed"

    expect_parameters(model, fresh, 0.0, why, "no step: scaler.step leaves it out")
    _expect_scale(scaler, TOO_LARGE / 2, "the scale was not halved after gradients that are inf")
    # Of two good steps the scaler doubles its scale.
    model = make_model(trial.seeds[2], trial.device)
    optimizer, scaler = make_optimizer(model), _scaler(trial)
    for _ in range(2):
        trial.call(model, batch, optimizer, scaler, trial.device)
    _expect_scale(scaler, SCALE * 2, "the scaler was not updated once after each step")


def _expect_scale(scaler: torch.amp.GradScaler, wanted: float, headline: str) -> None:
    if (got := scaler.get_scale()) != wanted:
        expect.fail(headline, f"a scale of {wanted:g}: scaler.update() after the step", f"{got:g}")


@mixed_step.row("two transfers, no wait but the scaler's", only="accelerator")
def few_waits(trial):
    model = make_model(trial.seeds[0], trial.device)
    optimizer, scaler = make_optimizer(model), _scaler(trial)
    for seed in trial.seeds[:2]:  # the first makes what the scaler and the optimizer keep
        batch = samples(trial, 6, seed)
        _, log = trial.watched(model, batch, optimizer, scaler, trial.device)
    asked = "one at most: scaler.step asks whether a gradient was inf"
    headline = "the host waited for {one.device} {times}: {causes}"
    verbs.counts(log.events.synchronizations, 1, headline, asked, "{count}; {last.line}", of="time")
    into = [one for one in log.events.transfers if one.target == str(trial.device) and one.bytes > 8]
    headline = f"{{times}} to {trial.device}, not 2"
    verbs.counts(into, 2, headline, "inputs and labels once each", "{count}", 2)
