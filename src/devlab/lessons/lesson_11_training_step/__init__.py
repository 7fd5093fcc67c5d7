"""Lesson 11: the training step, checkpoints across devices, and the capstone."""

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator
from unittest import mock

import torch
from torch import nn
from torch.nn import functional as F

from devlab.checks import expect
from devlab.checks.exercise import Lesson
from devlab.checks.isolation import seed_generators
from devlab.watching.watch import Log, watch

lesson = Lesson("11_training_step", "The training step", ("train_step", "evaluate", "save", "load", "fit"))

CPU = torch.device("cpu")
FEATURES, CLASSES = 5, 3
# Float32 sums in another order on another device, over a few steps: well above that, well below a mistake.
WITHIN = 2e-4


MOST_FORWARDS = 200  # no task here needs a tenth of them


class Endless(BaseException):
    """Ends a loop that would not end by itself."""


@contextlib.contextmanager
def ended(batches: int) -> Iterator[None]:
    """Expect a block to come to an end; it has so many batches to go through."""
    try:
        yield
    except Endless:
        headline = "the loop does not come to an end"
        expect.fail(headline, f"{times(batches, 'forward')}", f"{MOST_FORWARDS} forwards, and so on")


class Probe(nn.Module):
    """Passes its input on, and notes in which mode and with which graph each forward came by."""

    def __init__(self):
        super().__init__()
        self.modes: list[bool] = []
        self.graphs: list[bool] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x as it is."""
        if len(self.modes) >= MOST_FORWARDS:
            raise Endless
        self.modes.append(self.training)
        self.graphs.append(x.requires_grad)
        return x


def make_model(seed: int, device: torch.device = CPU) -> nn.Sequential:
    """Return a small classifier whose two modes differ, with buffers, and a probe at its end."""
    seed_generators(seed)
    # No bias before the normalization, which takes it out again: its gradient would be rounding alone, and
    # Adam would make steps of that, in directions of their own on each device and for each way to a loss.
    layers = nn.Linear(FEATURES, 6, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, CLASSES), Probe()
    return nn.Sequential(*layers).to(device)


class Net(nn.Module):
    """A model with everything that a state_dict may hold, and a table that it does not."""

    def __init__(self, seed: int):
        super().__init__()
        self.body = make_model(seed)
        self.register_buffer("scale", torch.rand(3))
        self.register_buffer("table", torch.arange(3.0), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        return self.body(x) + self.table * self.scale


def make_optimizer(model: nn.Module, kind: str = "momentum") -> torch.optim.Optimizer:
    """Return an optimizer with state, which must be where the parameters are."""
    if kind == "adam":
        return torch.optim.Adam(model.parameters(), lr=0.02)
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def samples(trial, count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and labels on the CPU, no two alike."""
    generator = torch.Generator().manual_seed(5000 + seed)
    labels = torch.randint(0, CLASSES, (count,), generator=generator)
    return trial.randn(count, FEATURES, seed=seed, on=CPU), labels


def reference_steps(model: nn.Module, batches: Iterable, kind: str = "momentum") -> list[tuple[float, int]]:
    """Train a model of ours on the CPU, in place; return the loss and the size of each batch."""
    optimizer, losses = make_optimizer(model, kind), []
    model.train()
    for inputs, labels in batches:
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append((float(loss.detach()), len(labels)))
    return losses


def twin(model: nn.Module) -> nn.Module:
    """Return an independent copy of a model on the CPU."""
    return copy.deepcopy(model).to(CPU)


def expect_weights(model: nn.Module, wanted: nn.Module, device: torch.device, why: Callable) -> None:
    """Expect every parameter and saved buffer on the device, with the values of a model of ours.

    `why(name)` is the headline where a value differs.
    """
    theirs = wanted.state_dict()
    for name, tensor in model.state_dict().items():
        expect.device(tensor, device, f"the model's {name}")
        right = theirs[name]
        if not torch.allclose(tensor.detach().cpu().double(), right.double(), rtol=0, atol=WITHIN):
            got, asked = (side.detach().cpu().double().norm().item() for side in (tensor, right))
            expect.fail(why(name), f"{name} of norm {asked:.5g}", f"{name} of norm {got:.5g}")


def journeys(log: Log, device: torch.device) -> tuple[list, list]:
    """Return the transfers into the device and those out of it."""
    here = str(device)
    into = [one for one in log.events.transfers if one.target == here]
    return into, [one for one in log.events.transfers if one.source == here]


def tensors_and_numbers(copies: list) -> tuple[list, list]:
    """Return the copies of whole tensors and those of single numbers, such as `torch.tensor(0.0, device=d)`.

    Whoever starts a sum that way copies eight bytes once an epoch; that is no tensor of a batch.
    """
    return [one for one in copies if one.bytes > 8], [one for one in copies if one.bytes <= 8]


def counts_of_batches(copies: list, loader: Iterable, epochs: int = 1) -> int:
    """Return how many copies, one an epoch at most, may be a vector with a number for each batch.

    Whoever weighs the losses by the batches' sizes brings these in once; no batch tensor takes as many bytes.
    """
    batches = [tensor.nbytes for batch in loader for tensor in batch]
    most = 8 * epochs * len(list(loader))
    return min(epochs, sum(one.bytes <= most and one.bytes not in batches for one in copies))


def watched_to_first_forward(trial, model: nn.Sequential, *args: object) -> tuple[Log, list]:
    """Call the answer as `trial.watched` does; return the log, and the copies in before the first forward."""
    log, before = watch(), []

    def note(*_: object) -> None:
        if not before:
            before.append(tensors_and_numbers(journeys(log, trial.device)[0])[0])

    # On its first layer, because an answer may call `model.forward(x)`, which runs no hook of the model's.
    with model[0].register_forward_pre_hook(note), ended(10):
        trial.run(trial.answer, model, *args, label=trial.name, log=log)
    return log, before[0] if before else []


def expect_turns(before: list, device: torch.device) -> None:
    """Expect at most three batches on the device by the first forward: one in use, and some fetched ahead."""
    if len(before) > 6:
        headline = f"{len(before)} tensors of the batches were on {device} before the first forward"
        words = "each batch moved when its turn comes: all of them need not fit"
        expect.fail(headline, words, f"{len(before)}{at(before[-1])}")


def at(event) -> str:
    """Return where a recorded event came from, for the end of a sentence.

    >>> at(None)
    ''
    """
    return f"; {event.line}" if event is not None and str(event.line) else ""


def times(count: int, word: str) -> str:
    """Return a number with its noun.

    >>> times(1, "copy"), times(3, "wait")
    ('1 copy', '3 waits')
    """
    if count == 1:
        return f"1 {word}"
    ending = "es" if word in ("loss", "batch") else "s"
    return f"{count} {word.removesuffix('y') + 'ies' if word.endswith('y') else word + ending}"


ZERO, BACKWARD, STEP = "zero", "backward", "step"


class Order:
    """The calls of `zero_grad`, `backward` and `step` in a block, in their order."""

    def __init__(self):
        self.calls: list[str] = []

    @contextlib.contextmanager
    def noted(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[None]:
        """Note the calls on this model and this optimizer, and every backward."""
        with contextlib.ExitStack() as stack:
            for home, name, what in (
                (optimizer, "zero_grad", ZERO),
                (model, "zero_grad", ZERO),
                (optimizer, "step", STEP),
                (torch.autograd, "backward", BACKWARD),
            ):
                stack.enter_context(mock.patch.object(home, name, self._noting(getattr(home, name), what)))
            yield

    def _noting(self, function, what: str):
        def noted(*args, **kwargs):
            self.calls.append(what)
            return function(*args, **kwargs)

        return noted

    def fault(self, batches: int) -> str:
        """Return what is wrong with the order for so many batches; "" where nothing is."""
        backwards, steps = self.calls.count(BACKWARD), self.calls.count(STEP)
        if not backwards:
            return "backward was never called, so there is no gradient to step by"
        if not steps:
            return "the optimizer that was given took no step"
        if steps != batches:
            return f"the optimizer took {_steps(steps)} for {_batches(batches)}: one is asked for each"
        if backwards != batches:
            return f"backward was called {backwards} times for {_batches(batches)}: one is asked for each"
        if ZERO in self.calls:
            for before, after in zip(self.calls, self.calls[1:], strict=False):
                if (before, after) == (BACKWARD, ZERO) and STEP in self._until_next(BACKWARD):
                    return "zero_grad comes between backward and step, and takes away what the step needs"
        if self.calls.index(STEP) < self.calls.index(BACKWARD):
            return "step comes before backward, so it uses the gradients from before, or none"
        if ZERO not in self.calls[: self.calls.index(BACKWARD)] or self.calls.count(ZERO) < batches:
            return "gradients from before were counted: call zero_grad before each backward"
        return ""

    def _until_next(self, what: str) -> list[str]:
        """Return the calls from the first one of a kind up to the second."""
        start = self.calls.index(what) + 1
        rest = self.calls[start:]
        return rest[: rest.index(what)] if what in rest else rest


def _steps(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps} steps"


def _batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count} batches"
