"""Lesson 12: fewer bytes and fewer seconds for the same training, and when results are the same."""

import contextlib
from collections.abc import Callable, Iterator
from unittest import mock

import torch
from torch import nn
from torch.nn import functional as F

from devlab.checks import cases
from devlab.checks.exercise import Lesson
from devlab.checks.seen import Seen, must
from devlab.checks.settings import seed_generators
from devlab.checks.trial import Skip

lesson = Lesson(
    "12_less_memory_less_time",
    "Less memory, less time",
    ("same_results", "bfloat16_step", "mixed_step", "accumulate", "Checkpointed", "pool"),
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


def soil_gradients(model: nn.Module, value: float = 1000.0) -> nn.Module:
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


def see_loss(got: object, model: nn.Sequential, labels: torch.Tensor, dtype: torch.dtype) -> Iterator[Seen]:
    """See a step's loss, in whose digits autocast leaves the answer a choice, and the mode of its forward."""
    number = isinstance(got, float | int)
    yield must(
        not number, "the loss is a Python number: the host waited for it", "a tensor on the device", got
    )
    yield must(model[-1].modes, "the model that was given never ran", "one forward", "none")
    logits = model[-1].logits[0]
    with torch.autocast(logits.device.type, dtype=dtype):
        logs = [F.log_softmax(logits, 1, dtype=one) for one in (None, torch.float32, logits.dtype)]
        found = [F.nll_loss(one, labels.to(logits.device)) for one in logs]
    right = min(found, key=lambda loss: abs(float(loss) - float(got.detach())))
    yield Seen("the loss", got, 1e-5, right=right)
    yield must(not got.requires_grad, "the loss still holds its graph", "requires_grad=False", got)
    trained = model[-1].modes[0] and model.training
    yield must(trained, "the forward ran in evaluation mode", "model.train() before the forward")


def see_autocast(trial, model: nn.Sequential, dtype: torch.dtype, *args: object) -> Iterator[object]:
    """Call the answer for a step of a model; see that the forward alone runs under autocast to a dtype."""
    enabled, kind = [], trial.device.type
    with noted(torch.autograd, "backward", lambda: enabled.append(torch.is_autocast_enabled(kind))):
        trial.call(model, *args)
    asked = f"with torch.autocast({kind!r}, dtype={dtype})"
    yield "the number of forwards", len(model[-1].autocast)
    found = model[-1].autocast[0]
    yield must(found, f"the forward ran without autocast for {kind!r}", asked, model[-1].logits[0])
    yield must(found == dtype, f"the forward ran under autocast to {found}", asked, str(found))
    yield must(not any(enabled), "backward ran inside autocast", "forward and loss alone under autocast")


def see_parameters(model: nn.Module, when: str, within: float) -> Iterator[tuple]:
    """See the parameters of a model as they are after something."""
    for name, parameter in model.named_parameters():
        yield f"the parameter {name} after {when}", parameter.detach(), within
