"""Lesson 12: fewer bytes and fewer seconds for the same training, and when results are the same."""

import contextlib
import copy
from collections.abc import Callable, Iterator
from unittest import mock

import torch
from torch import nn

from devlab.checks import expect, verbs
from devlab.checks.calls import AnswerRaised
from devlab.checks.exercise import Lesson
from devlab.checks.settings import seed_generators

lesson = Lesson(
    "12_less_memory_less_time",
    "Less memory, less time",
    ("same_results", "mixed_step", "accumulate", "Checkpointed", "unscaled_clip"),
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


def samples(trial, count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and their labels, on the CPU."""
    labels = trial.randint(0, CLASSES, (count,), seed=4000 + seed).cpu()
    return trial.randn(count, FEATURES, seed=seed, on=CPU), labels


def twin(model: nn.Module) -> nn.Module:
    """Return an independent copy of a model on the CPU."""
    return copy.deepcopy(model).to(CPU)


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


def calls_of_a_step(trial, model: nn.Module, given: object, optimizer: object, *more: object) -> list[str]:
    """Let the answer take one more step; return its calls of zero_grad, backward and step, in their order.

    `more` is a scaler, whose step is noted as another one, or nothing.
    """
    calls: list[str] = []
    homes = [
        (optimizer, "zero_grad"),
        (model, "zero_grad"),
        (optimizer, "step"),
        (torch.autograd, "backward"),
    ]
    with contextlib.ExitStack() as stack:
        stack.enter_context(verbs.aside(trial))
        for home, name in homes + [(one, "step") for one in more]:
            word = "scaler.step" if home in more else name
            stack.enter_context(noted(home, name, lambda word=word: calls.append(word)))
        stack.enter_context(contextlib.suppress(AnswerRaised, expect.Mismatch))
        trial.call(soiled(model), given, optimizer, *more, trial.device)
    return calls


def furthest(model: nn.Module, wanted: nn.Module) -> tuple[str, float]:
    """Return the name of the parameter that is furthest from a model's of ours, and how far it is."""
    theirs = dict(wanted.named_parameters())
    away = {
        name: float((one.detach().cpu().double() - theirs[name].detach().cpu().double()).abs().max())
        for name, one in model.named_parameters()
    }
    name = max(away, key=lambda one: (away[one] != away[one], away[one]))
    return name, away[name]


def expect_parameters(
    model: nn.Module, wanted: nn.Module, within: float, why: Callable[[str], str], asked: str
) -> None:
    """Expect float32 parameters with the values of a model of ours; `why(name)` is the headline."""
    for name, parameter in model.named_parameters():
        if parameter.dtype != torch.float32:
            headline = f"the parameter {name} is {parameter.dtype} after the call: parameters stay float32"
            expect.fail(headline, "torch.float32", parameter)
    name, away = furthest(model, wanted)
    if not away <= within:
        expect.fail(why(name), asked, f"{name} is {away:.3g} away from there")
