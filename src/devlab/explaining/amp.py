"""Errors of mixed precision: what `GradScaler` and `autocast` refuse in PyTorch 2.13, and why."""

import ast
import re

import torch

from devlab.explaining.frames import Scope
from devlab.explaining.mismatch import innermost_mine
from devlab.explaining.reach import find
from devlab.explaining.report import Explanation, Problem

_ORDER = "once for each step: `scaler.scale(loss).backward()`, `scaler.unscale_(optimizer)` if the gradients "
_ORDER += "are clipped, `scaler.step(optimizer)`, `scaler.update()`"
# PyTorch's words, the headline, and what to do. `{}` is the culprit.
_CAUSES = (
    (
        r"unscale FP16 gradients",
        "{} is float16 itself, and a GradScaler unscales the gradients of float32 parameters",
        "keep the parameters in float32, without `.half()` and `dtype=torch.float16` in the model: "
        "autocast takes float16 where that is safe; or train in bfloat16, which needs no scaler",
    ),
    (
        r"No inf checks were recorded for this optimizer",
        "no parameter that {} holds has a gradient, so the scaler has nothing to look at",
        "does `scaler.scale(loss).backward()` come before, and `zero_grad()` not in between? Are these the "
        "parameters of the model that the loss came from, and does one of them require a gradient?",
    ),
    (
        r"No inf checks were recorded prior to update",
        "the scaler is updated before it has looked at any gradient",
        f"no `scaler.step(optimizer)` or `scaler.unscale_(optimizer)` came before it; {_ORDER}",
    ),
    (r"_scale is None|_growth_tracker is None", "the scaler has scaled no loss yet", _ORDER),
    (r"unscale_\(\) has already been", "the gradients of {} are unscaled a second time in one step", _ORDER),
    (r"unscale_\(\) is being called after", "the gradients of {} are unscaled after their step", _ORDER),
    (r"step\(\) has already been called", "{} steps a second time before `scaler.update()`", _ORDER),
    (
        r"unsafe to autocast",
        "the loss takes the logarithm of probabilities, and autocast rounds these to 16 bits, many to 0 or 1",
        "leave out the sigmoid and give its input to `binary_cross_entropy_with_logits` "
        "(`nn.BCEWithLogitsLoss`), which is computed in float32; or compute the loss of `x.float()` in a "
        "block of `torch.autocast(..., enabled=False)`",
    ),
    (
        r"missing 1 required positional argument: 'device_type'",
        "autocast is not told on which kind of device it is to choose dtypes",
        "write `torch.autocast(device.type, ...)`: `torch.cuda.amp.autocast()` alone needed no kind",
    ),
    (
        r"Expected `device_type` of type `str`|unsupported autocast device_type",
        "{} is no kind of device: autocast takes the kind alone, such as `cuda` or `cpu`, without an index",
        "write `.type` after a device, and leave out the index of a name",
    ),
)


def explain_amp(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """Say what was wrong with a scaler's or an autocast's use."""
    headline, note = next((h, n) for pattern, h, n in _CAUSES if re.search(pattern, problem.message))
    scope = innermost_mine(scopes)
    call = scope.failing if scope is not None else None
    if not isinstance(call, ast.Call):
        report.headline, report.note = headline.format("the optimizer"), note
        return
    given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "device_type")]
    optimizers = [s.values.get("optimizer") for s in reversed(scopes) if "optimizer" in s.values]
    report.culprit = scope.text(given[0] if given else call)
    if "FP16" in problem.message and optimizers:
        _name_halves(report, scopes, optimizers[0])
    report.known = True
    report.headline, report.note = headline.format(report.culprit), note


def _name_halves(report: Explanation, scopes: list[Scope], optimizer: torch.optim.Optimizer) -> None:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    halves = [p for p in parameters if p.dtype == torch.float16]
    mine = [scope for scope in reversed(scopes) if scope.mine]
    paths = (find(p, scope) for p in halves for scope in mine)
    path = next((path for path in paths if path and not path.of_optimizer), None)
    report.culprit = path.text if path else report.culprit
    report.origin = f"{len(halves)} of the {len(parameters)} parameters that the optimizer holds are float16"
