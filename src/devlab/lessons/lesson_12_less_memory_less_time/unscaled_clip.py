"""Clipping under a scaler: the gradients as they are, not as they were scaled."""

import torch
from torch import nn
from torch.nn import functional as F

from devlab.checks import expect, verbs
from devlab.lessons.lesson_12_less_memory_less_time import (
    CPU,
    expect_parameters,
    lesson,
    make_model,
    make_optimizer,
    samples,
    twin,
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
CLOSE = 1e-4  # of a norm, relatively: clip_grad_norm_ itself adds 1e-6 to it


class _Scaled:
    """A model with scaled gradients on the device, and its twin there with those unscaled."""

    def __init__(self, trial, seed: int, factor: float = 1.0):
        self.model = make_model(seed, trial.device)
        self.ours = twin(self.model).to(trial.device)
        self.optimizer = make_optimizer(self.model)
        self.scaler = torch.amp.GradScaler(trial.device.type, init_scale=SCALE)
        inputs, labels = samples(trial, 7, seed)
        there = inputs.to(trial.device), labels.to(trial.device)
        self.scaler.scale(F.cross_entropy(self.model(there[0]), there[1]) * factor).backward()
        (F.cross_entropy(self.ours(there[0]), there[1]) * factor).backward()
        self.ours.to(CPU)  # with its gradients

    @property
    def parameters(self) -> list[nn.Parameter]:
        return list(self.model.parameters())

    def norm(self, places: slice = slice(None)) -> float:
        """Return the norm of the unscaled gradients, before any clipping."""
        held = [one.grad.double().square().sum() for one in list(self.ours.parameters())[places]]
        return float(torch.stack(held).sum().sqrt())


def _expect_norm(trial, got: object, wanted: float, limit: float) -> None:
    if isinstance(got, float | int):
        expect.fail("the norm is a Python number: the host waited for it", "a tensor on the device", got)
    expect.kind(got, torch.Tensor, "a tensor", "the norm")
    expect.device(got, trial.device, "the norm")
    if got.dim():
        expect.fail(f"the norm has shape {list(got.shape)}, not []", "one number", got)
    value = float(got)
    slips = {
        "that is the norm of the gradients as they are scaled": wanted * SCALE,
        "that is the norm after clipping, and the norm before it is asked": min(wanted, limit),
        "the gradients were divided by the scale twice": wanted / SCALE,
        "that is the square of the norm": wanted**2,
    }
    headline, asked = "that is not the norm of the unscaled gradients", "{wanted:.6g}"
    verbs.number(value, wanted, headline, slips, asked, "{got:.6g}", "the norm", CLOSE)


def _expect_gradients(model: nn.Module, ours: nn.Module, coefficient: float) -> None:
    """Expect each gradient as ours, unscaled and shortened to `coefficient` times its length."""
    for (name, one), other in zip(model.named_parameters(), ours.parameters(), strict=True):
        got, wanted = one.grad.detach().cpu().double(), other.grad.double()
        if torch.allclose(got, wanted * coefficient, rtol=1e-3, atol=1e-7):
            continue
        length = float(got.norm() / wanted.norm())
        headline = f"the gradient of {name} is not the unscaled one, clipped"
        if abs(length - SCALE) < 1e-2 * SCALE:
            headline = "the gradients are still scaled"
        elif coefficient < 1 and abs(length - 1) < 1e-3:
            headline = "the gradients are unscaled and were not clipped"
        elif coefficient == 1 and length > 1:
            headline = "gradients shorter than the limit were made longer: clipping only shortens"
        elif coefficient == 1 and length > 1e-2:
            headline = "gradients shorter than the limit were shortened: they keep their length"
        elif length < coefficient * 1e-2:
            headline = "the gradients are much too short: clipped as they were scaled, or unscaled twice"
        asked = f"{coefficient:.4g} of the unscaled gradient"
        expect.fail(headline, asked, f"{length:.4g} of it")


@unscaled_clip.row("the norm before clipping, of unscaled gradients")
def the_norm(trial):
    for seed, share in zip(trial.seeds, (0.5, 2.0, 0.1), strict=True):
        it = _Scaled(trial, seed)
        wanted = it.norm()
        limit = wanted * share
        got = trial.call(it.optimizer, it.scaler, it.parameters, limit, changes=True)
        _expect_norm(trial, got, wanted, limit)


@unscaled_clip.row("gradients no longer than the limit, in place")
def clipped(trial):
    for seed, share in zip(trial.seeds, (0.5, 0.25, 0.9), strict=True):
        it = _Scaled(trial, seed)
        limit = it.norm() * share
        trial.call(it.optimizer, it.scaler, it.parameters, limit, changes=True)
        _expect_gradients(it.model, it.ours, share)


@unscaled_clip.row("short gradients keep their length")
def short_ones_stay(trial):
    for seed, share in zip(trial.seeds, (1.5, 20.0, 3e4), strict=True):
        it = _Scaled(trial, seed, factor=10.0)  # longer than 1, and shorter than the limit
        trial.call(it.optimizer, it.scaler, it.parameters, it.norm() * share, changes=True)
        _expect_gradients(it.model, it.ours, 1.0)
    for parameter in it.parameters:  # as where every activation is cut off
        parameter.grad.zero_()
    it.scaler = torch.amp.GradScaler(trial.device.type, init_scale=SCALE)
    it.scaler.scale(it.parameters[0].sum())  # makes the scale
    trial.call(it.optimizer, it.scaler, it.parameters, 1.0, changes=True)
    for parameter in it.parameters:
        if parameter.grad.any():
            expect.fail(
                "gradients that were all 0 became others: limit / 0 is inf, and 0 * inf is nan",
                "0",
                parameter.grad,
            )


@unscaled_clip.row("the scaler's step after it")
def step_after(trial):
    it = _Scaled(trial, trial.seeds[1])
    limit = it.norm() / 3
    fresh = twin(it.model)
    trial.call(it.optimizer, it.scaler, it.parameters, limit, changes=True)
    if any(not torch.equal(a.cpu(), b) for a, b in zip(it.parameters, fresh.parameters(), strict=True)):
        expect.fail("the parameters changed: clip alone, the step comes after it", "no step", "a step")
    trial.run(it.scaler.step, it.optimizer, label="scaler.step(optimizer)", changes=True)
    trial.run(it.scaler.update, label="scaler.update()", changes=True)
    if (scale := it.scaler.get_scale()) != SCALE:
        expect.fail("the scale was changed", f"{SCALE:g}", f"{scale:g}")
    optimizer = make_optimizer(it.ours)
    for parameter in it.ours.parameters():
        parameter.grad /= 3
    optimizer.step()

    def why(name: str) -> str:
        if torch.allclose(it.model.get_parameter(name).cpu(), fresh.get_parameter(name), atol=1e-4):
            return "scaler.step unscales once more: the scaler was not told of it, as by `unscale_`"
        return f"after scaler.step {name} is not where a step by the clipped gradient takes it"

    expect_parameters(it.model, it.ours, 1e-4, why, "one step by the clipped gradient")


@unscaled_clip.row("a step on inf is still left out")
def inf_is_noticed(trial):
    it = _Scaled(trial, trial.seeds[2])
    fresh = twin(it.model)
    it.parameters[0].grad[0, 0] = float("inf")
    trial.call(it.optimizer, it.scaler, it.parameters, 1.0, changes=True)
    trial.run(it.scaler.step, it.optimizer, label="scaler.step(optimizer)", changes=True)

    def why(name: str) -> str:
        return f"the scaler took a step although a gradient was inf: {name} has changed"

    expect_parameters(it.model, fresh, 0.0, why, "no step: unscale_ looks for inf before anything is clipped")


@unscaled_clip.row("only the parameters that were given")
def those_given(trial):
    it = _Scaled(trial, trial.seeds[0], factor=3.0)
    wanted = it.norm(slice(2))
    held = [one.grad.clone() for one in it.parameters[2:]]
    # A generator, as `model.parameters()` is: it can be gone through once.
    got = trial.call(it.optimizer, it.scaler, (one for one in it.parameters[:2]), wanted / 2, changes=True)
    _expect_norm(trial, got, wanted, wanted / 2)
    for one, before in zip(it.parameters[2:], held, strict=True):
        if one.grad is None or not torch.allclose(one.grad, before / SCALE, rtol=1e-3, atol=1e-7):
            headline = "a parameter that was not given was clipped, or not unscaled"
            expect.fail(headline, "unscaled with all of the optimizer's, and not shortened", one.grad)
    _expect_gradients(it.model[0], it.ours[0], 0.5)


@unscaled_clip.row("nothing waits for the device", only="accelerator")
def no_wait(trial):
    for share in (0.5, 2.0):
        it = _Scaled(trial, trial.seeds[1])
        limit = it.norm() * share
        _, log = trial.watched(it.optimizer, it.scaler, it.parameters, limit, changes=True)
        headline = "the host waited for {one.device} {times}: {causes}"
        asked = "none: norm, comparison and division stay on the device"
        verbs.counts(log.events.synchronizations, 0, headline, asked, "{count}; {one.line}", of="time")
