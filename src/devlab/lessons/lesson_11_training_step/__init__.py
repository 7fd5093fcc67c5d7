"""Lesson 11: the training step, checkpoints across devices, and the capstone."""

import contextlib
import copy
import itertools
from collections.abc import Callable, Iterable, Iterator
from unittest import mock

import torch
from torch import nn

from devlab.checks import expect, probes, verbs
from devlab.checks.exercise import Lesson
from devlab.checks.seen import Seen, most
from devlab.checks.settings import seed_generators
from devlab.watching.watch import Log, watch

lesson = Lesson(
    "11_training_step", "The training step", ("train_step", "evaluate", "fit", "continue_training")
)

CPU = torch.device("cpu")
FEATURES, CLASSES = 5, 3
# Float32 sums in another order stay well below this over a few steps, and a mistake well above.
WITHIN = 2e-4
MOST_FORWARDS = 200  # no task here needs a tenth of them


class Probe(nn.Module):
    """Passes its input on, and notes the mode of each forward."""

    def __init__(self):
        super().__init__()
        self.modes: list[bool] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x as it is."""
        if len(self.modes) >= MOST_FORWARDS:
            raise probes.Endless
        self.modes.append(self.training)
        return x


def make_model(seed: int, device: torch.device = CPU) -> nn.Sequential:
    """Return a small classifier whose two modes differ, with buffers, and a probe at its end."""
    seed_generators(seed)
    # No bias before the normalization, which takes it out again: its gradient would be rounding alone, and
    # Adam would make steps of that, in directions of their own on each device and for each way to a loss.
    layers = nn.Linear(FEATURES, 6, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, CLASSES), Probe()
    return nn.Sequential(*layers).to(device)


def make_optimizer(model: nn.Module, kind: str = "momentum") -> torch.optim.Optimizer:
    """Return an optimizer with state, which must be where the parameters are."""
    if kind == "adam":
        return torch.optim.Adam(model.parameters(), lr=0.02)
    if kind == "decay":  # moves whatever has a gradient, even one of zeros
        return torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def samples(trial, count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs, of which no two are alike, and their labels, on the CPU."""
    labels = trial.randint(0, CLASSES, (count,), seed=4000 + seed).cpu()
    return trial.randn(count, FEATURES, seed=seed, on=CPU), labels


def twin(model: nn.Module) -> nn.Module:
    """Return an independent copy of a model on the CPU."""
    return copy.deepcopy(model).to(CPU)


def see_weights(model: nn.Module, when: str) -> Iterator[tuple]:
    """See every parameter and saved buffer of a model as it is after something."""
    for name, tensor in model.state_dict().items():
        yield f"the model's {name} after {when}", tensor, WITHIN


def journeys(log: Log, device: torch.device) -> tuple[list, list, list]:
    """Return the transfers of whole tensors into a device, those of single numbers, and those out of it.

    An answer that begins a sum with `torch.tensor(0.0, device=d)` copies four bytes once an epoch, and with
    `torch.tensor(0, device=d)` eight: that is no tensor of a batch.
    """
    into = [one for one in log.events.transfers if one.target == str(device)]
    out = [one for one in log.events.transfers if one.source == str(device)]
    return [one for one in into if one.bytes > 8], [one for one in into if one.bytes <= 8], out


def count_sizes(copies: list, loader: Iterable, epochs: int = 1) -> int:
    """Return how many copies, one an epoch at most, may be a vector with a number for each batch.

    An answer that weighs the losses by the batches' sizes brings these in once; no batch tensor takes as many
    bytes.
    """
    sizes = [[tensor.nbytes for tensor in batch] for batch in loader]
    most, known = 8 * epochs * len(sizes), set(itertools.chain(*sizes))
    return min(epochs, sum(one.bytes <= most and one.bytes not in known for one in copies))


def watch_to_first_forward(t, model: nn.Sequential, *args: object) -> tuple[Log, list]:
    """Call the answer as `t.watched` does; return the log, and the copies in before the first forward."""
    log, before = watch(), []

    def note(*_: object) -> None:
        if not before:
            before.append(journeys(log, t.device)[0])

    # On its first layer, because an answer may call `model.forward(x)`, which runs no hook of the model's.
    with model[0].register_forward_pre_hook(note):
        t.run(t.answer, model, *args, label=t.name, log=log)
    return log, before[0] if before else []


def see_turns(before: list, device: torch.device) -> Seen:
    """See that at most three batches are on the device by the first forward: some may be fetched ahead."""
    headline = f"{{}} tensors of the batches were on {device} before the first forward"
    return most(headline, before, 6, "each batch moved when its turn comes: all of them need not fit")


ZERO, BACKWARD, STEP = "zero_grad", "backward", "step"


@contextlib.contextmanager
def note_calls(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[list[str]]:
    """Note the calls of zero_grad and step on this model and this optimizer, and every backward."""
    calls: list[str] = []

    def note(function: Callable, what: str) -> Callable:
        def noted(*args, **kwargs):
            calls.append(what)
            return function(*args, **kwargs)

        return noted

    with contextlib.ExitStack() as stack:
        homes = (optimizer, ZERO), (model, ZERO), (optimizer, STEP), (torch.autograd, BACKWARD)
        for home, name in homes:
            stack.enter_context(mock.patch.object(home, name, note(getattr(home, name), name)))
        yield calls


def find_fault(model: nn.Module, before: dict, calls: list[str], batches: int) -> str:
    """Return what is wrong with the steps that a model took, as far as the calls tell it, else ""."""
    steps = calls.count(STEP)
    still = [name for name, one in model.named_parameters() if expect.is_alike(one, before[name], 0.0)]
    if not steps:
        return "the optimizer that was given took no step"
    if steps != batches:
        asked = f"for {verbs.times(batches, 'batch')}: one is asked for each"
        return f"the optimizer took {verbs.times(steps, 'step')} {asked}"
    if not still:
        return ""
    if BACKWARD not in calls:
        return "backward was never called, so there is no gradient to step by"
    if calls.index(STEP) < calls.index(BACKWARD):
        return "step comes before backward, so it uses the gradients from before, or none"
    if (BACKWARD, ZERO) in itertools.pairwise(calls):
        return "zero_grad comes between backward and step, and takes away what the step needs"
    return f"the parameter {still[0]} has not changed: was a step taken?"
