"""Mixed precision: what a scaler and autocast refuse is explained by its cause."""

import pytest
import torch
from torch import nn

from devlab.explaining import explained
from devlab.explaining.report import worth_explaining

DEVICE = torch.device("sim", 0)


def training(dtype=torch.float32):
    """Return a model with gradients of a scaled loss, its optimizer, and the scaler."""
    model = nn.Linear(2, 1).to("sim", dtype)
    optimizer, scaler = torch.optim.SGD(model.parameters()), torch.amp.GradScaler("sim")
    scaler.scale(model(torch.ones(1, 2, device="sim", dtype=dtype)).sum()).backward()
    return model, optimizer, scaler


def _half_parameters():
    model, optimizer, scaler = training(torch.float16)
    scaler.step(optimizer)
    return model


def _no_gradients():
    model, optimizer, scaler = training()
    optimizer.zero_grad()
    scaler.step(optimizer)
    return model


def _updated_at_once():
    scaler = training()[2]
    scaler.update()


def _nothing_scaled():
    torch.amp.GradScaler("sim").update()


def _unscaled_twice():
    _, optimizer, scaler = training()
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)


def _unscaled_after_the_step():
    _, optimizer, scaler = training()
    scaler.step(optimizer)
    scaler.unscale_(optimizer)


def _stepped_twice():
    _, optimizer, scaler = training()
    scaler.step(optimizer)
    scaler.step(optimizer)


def _loss_of_probabilities():
    x = torch.rand(2, device="sim")
    with torch.autocast("sim", dtype=torch.float16):
        nn.functional.binary_cross_entropy(x, x)


def _kind_not_named(device=DEVICE):
    return torch.autocast(dtype=torch.float16), device


def _device_for_a_kind(device=DEVICE):
    return torch.autocast(device, dtype=torch.float16)


@pytest.mark.parametrize(
    ("run", "culprit", "headline", "note"),
    [
        (_half_parameters, "model.weight", "is float16 itself", "in float32, without `.half()`"),
        (_no_gradients, "optimizer", "no parameter that optimizer holds has a gradient", "`zero_grad()`"),
        (_updated_at_once, "scaler.update()", "before it has looked at any gradient", "no `scaler.step("),
        (_nothing_scaled, "", "has scaled no loss yet", "`scaler.scale(loss).backward()`"),
        (_unscaled_twice, "optimizer", "a second time in one step", "once for each step"),
        (_unscaled_after_the_step, "optimizer", "after their step", "once for each step"),
        (_stepped_twice, "optimizer", "before `scaler.update()`", "once for each step"),
        (_loss_of_probabilities, "x", "rounds these to 16 bits", "binary_cross_entropy_with_logits"),
        (_kind_not_named, "torch.autocast(", "not told on which kind of device", "device.type"),
        (_device_for_a_kind, "device", "device is no kind of device", "`.type`"),
    ],
)
def test_the_cause_is_said(run, culprit, headline, note):
    """In words of the headline, with what to do; the words are PyTorch's own in none of them."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        run()
    assert worth_explaining(caught.value)
    report = explained(caught.value)
    assert report.culprit.startswith(culprit), report.text()
    assert headline in report.headline
    assert note in report.note
