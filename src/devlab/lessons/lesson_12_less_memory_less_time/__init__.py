"""Lesson 12: fewer bytes and fewer seconds for the same training, and when results are the same."""

import contextlib
from collections.abc import Callable, Iterator
from unittest import mock

import torch
from torch import nn

from devlab.checks import cases
from devlab.checks.exercise import Lesson
from devlab.checks.settings import seed_generators
from devlab.checks.trial import Skip

lesson = Lesson(
    "12_less_memory_less_time",
    "Less memory, less time",
    ("same_results", "mixed_step", "accumulate", "Checkpointed", "unscaled_clip", "pool"),
)

CPU = torch.device("cpu")
FEATURES, CLASSES = 5, 3


class Probe(nn.Module):
    """Passes its input on, and notes of each forward the mode, the dtype, the logits and autocast's dtype."""

    def __init__(self):
        super().__init__()
        self.modes: list[bool] = []
        self.logits: list[torch.Tensor] = []
        self.autocast: list[torch.dtype | None] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x as it is."""
        kind = x.device.type
        on = torch.is_autocast_enabled(kind)
        self.modes.append(self.training)
        self.logits.append(x.detach().clone())
        self.autocast.append(torch.get_autocast_dtype(kind) if on else None)
        return x


def make_model(seed: int, device: torch.device = CPU) -> nn.Sequential:
    """Return a small classifier with a probe at its end."""
    seed_generators(seed)
    return nn.Sequential(nn.Linear(FEATURES, 6), nn.Tanh(), nn.Linear(6, CLASSES), Probe()).to(device)


def make_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """Return an optimizer with a state, so that a second step is not like the first."""
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def make_scaler(trial, scale: float, **more: int) -> torch.amp.GradScaler:
    """Return a scaler; raise Skip where PyTorch's own cannot divide by its scale."""
    # GradScaler.unscale_ asks for the reciprocal in float64, but on mps:0.
    if trial.device != torch.device("mps:0") and not cases.holds(trial.device, torch.float64):
        raise Skip(f"PyTorch's GradScaler computes in float64, which {trial.device} lacks")
    return torch.amp.GradScaler(trial.device.type, init_scale=scale, **more)


def samples(trial, count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and their labels, on the CPU."""
    labels = trial.randint(0, CLASSES, (count,), seed=4000 + seed).cpu()
    return trial.randn(count, FEATURES, seed=seed, on=CPU), labels


def soiled(model: nn.Module, value: float = 1000.0) -> nn.Module:
    """Return a model with gradients left over from something earlier, as in any notebook."""
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, value)
    return model


@contextlib.contextmanager
def noted(home: object, name: str, note: Callable[[], None]) -> Iterator[None]:
    """Call `note` before each call of a function, for a block."""
    function = getattr(home, name)

    def first_noted(*args: object, **named: object) -> object:
        note()
        return function(*args, **named)

    with mock.patch.object(home, name, first_noted):
        yield
