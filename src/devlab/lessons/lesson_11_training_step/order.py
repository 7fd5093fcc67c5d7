"""In which order an answer asks for gradients, steps and zeros, and what is wrong with it."""

import contextlib
from collections.abc import Iterator
from unittest import mock

import torch
from torch import nn

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
            return f"the optimizer took {_times(steps)} for {_batches(batches)}: one is asked for each"
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


def _times(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps} steps"


def _batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count} batches"
