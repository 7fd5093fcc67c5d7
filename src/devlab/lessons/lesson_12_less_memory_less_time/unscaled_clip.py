"""Clipping under a scaler: the gradients as they are, not as they were scaled."""

import torch
from torch import nn
from torch.nn import functional as F

from devlab.checks.scenes import scene
from devlab.checks.seen import Seen, most, must
from devlab.lessons.lesson_12_less_memory_less_time import (
    lesson,
    make_model,
    make_optimizer,
    make_scaler,
    samples,
)

unscaled_clip = lesson.exercise(
    "unscaled_clip",
    signature="unscaled_clip(optimizer, scaler, parameters, limit)",
    facts=("F3",),
    hints=(
        "After `scaler.scale(loss).backward()` every gradient is `scale` times too large, and so is their "
        "norm. The scaler can take the factor out now, and does not do it again in its own step.",
        "`scaler.unscale_(optimizer)` divides the gradients on the device and notes whether one is inf. "
        "`torch.nn.utils.clip_grad_norm_(parameters, limit)` shortens them in place and returns a norm. Of "
        "what?",
        "`scaler.unscale_(optimizer)`, then `return torch.nn.utils.clip_grad_norm_(parameters, limit)`: it "
        "returns the norm before clipping, a tensor on the device.",
    ),
)

SCALE = 4096.0
CLOSE = 1e-4  # clip_grad_norm_ itself adds 1e-6 to a norm


def ours(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    return nn.utils.clip_grad_norm_(parameters, limit)


def ready(t, seed, share, factor=1.0, some=slice(None)):
    """Return a model with scaled gradients, and an answer's arguments: a limit of a share of their norm."""
    model, scaler = make_model(seed, t.device), make_scaler(t, SCALE)
    inputs, labels = (part.to(t.device) for part in samples(t, 7, seed))
    scaler.scale(F.cross_entropy(model(inputs), labels) * factor).backward()
    parameters = list(model.parameters())[some]
    norm = float(sum(one.grad.square().sum() for one in parameters).sqrt()) / SCALE
    return model, (make_optimizer(model), scaler, parameters, norm * share or 1.0)


def stands_still(t, model, seed):
    """Tell whether a model's parameters are those that it was made with."""
    return all(map(torch.equal, model.parameters(), make_model(seed, t.device).parameters()))


def norms(t, got):
    number = isinstance(got, float | int)
    headline = "the norm is a Python number: the host waited for it"
    yield must(not number, headline, "a tensor on the device", got)
    got = got.float() if isinstance(got, torch.Tensor) and got.dtype is torch.float64 else got
    yield Seen("the norm", got, CLOSE, asked="the norm of the unscaled gradients before they were clipped")


def gradients(model, asked):
    for name, one in model.named_parameters():
        yield must(one.grad is not None, f"the gradient of {name} was thrown away", asked, one.grad)
        yield Seen(f"the gradient of {name}", one.grad, rel=CLOSE, asked=asked)


@scene(unscaled_clip, ours, "the norm before clipping, of unscaled gradients")
def the_norm(t):
    for seed, share in zip(t.seeds, (0.5, 2.0, 0.1), strict=True):
        _, given = ready(t, seed, share)
        yield from norms(t, t.call(*given, changes=True))


@scene(unscaled_clip, ours, "gradients no longer than the limit, in place")
def clipped(t):
    for seed, share in zip(t.seeds, (0.5, 0.25, 0.9), strict=True):
        model, given = ready(t, seed, share)
        t.call(*given, changes=True)
        yield from gradients(model, f"{share:g} of the unscaled gradient")


@scene(unscaled_clip, ours, "short gradients keep their length")
def short_ones_stay(t):
    for seed, share in zip(t.seeds, (1.5, 20.0, 3e4), strict=True):
        model, given = ready(t, seed, share, 10.0)  # longer than 1, and shorter than the limit
        t.call(*given, changes=True)
        yield from gradients(model, "the unscaled gradient, as long as it is")
    model, given = ready(t, seed, 1.0, 0.0)  # as where every activation is cut off
    t.call(*given, changes=True)
    yield from gradients(model, "gradients that are all 0 stay so")


@scene(unscaled_clip, ours, "the scaler's step after it")
def step_after(t):
    model, given = ready(t, t.seeds[1], 1 / 3)
    optimizer, scaler, *_ = given
    t.call(*given, changes=True)
    headline = "the parameters changed: clip alone, the step comes after it"
    yield must(stands_still(t, model, t.seeds[1]), headline, "no step", "a step")
    early = "scaler.update was called before scaler.step, so the scaler forgot that it had unscaled"
    updates = scaler.state_dict()["_growth_tracker"]
    yield must(
        not updates, early, "unscale and clip alone: scaler.step and scaler.update come after it", "an update"
    )
    t.run(scaler.step, optimizer, label="scaler.step", changes=True)
    t.run(scaler.update, label="scaler.update", changes=True)
    yield "the scale", scaler.get_scale()
    for name, one in model.named_parameters():
        asked = "one step by the clipped gradient"
        yield Seen(f"the parameter {name} after scaler.step", one.detach(), CLOSE, asked=asked)


@scene(unscaled_clip, ours, "a step on inf is still left out")
def inf_is_noticed(t):
    model, given = ready(t, t.seeds[2], 1.0)
    model[0].weight.grad[0, 0] = float("inf")
    t.call(*given, changes=True)
    t.run(given[1].step, given[0], label="scaler.step", changes=True)
    headline, asked = (
        "the scaler took a step although a gradient was inf",
        "no step: unscale_ looks for inf before anything is clipped",
    )
    yield must(stands_still(t, model, t.seeds[2]), headline, asked, "a step")


@scene(unscaled_clip, ours, "only the parameters that were given")
def those_given(t):
    model, (optimizer, scaler, parameters, limit) = ready(t, t.seeds[0], 0.5, 3.0, slice(2))
    # A generator, as `model.parameters()` is: it can be gone through once.
    yield from norms(t, t.call(optimizer, scaler, iter(parameters), limit, changes=True))
    yield from gradients(model, "half of the unscaled gradient, and all of it where that was not given")


@scene(unscaled_clip, ours, "nothing waits for the device", only="accelerator")
def no_wait(t):
    for share in (0.5, 2.0):
        _, given = ready(t, t.seeds[1], share)
        _, log = t.watched(*given, changes=True)
        asked = "none: norm, comparison and division stay on the device"
        headline = f"the host waited for {t.device} {{times}}: {{causes}}"
        yield most(headline, log.events.synchronizations, 0, asked)
