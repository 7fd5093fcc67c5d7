"""How a broken program says what explain must find in it."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Broken:
    """A program that fails, with what must be said: the culprit's name, its origin, a mending line."""

    run: Callable[[], object]
    culprit: str
    origin: str
    mend: str
    name: str

    def __call__(self, *args, **kwargs):  # as a trial calls the program, by its name
        return self.run.func(*args, **kwargs)

    @property
    def function(self) -> str:
        return self.name.rpartition(".")[2]


def broken(culprit: str, origin: str, mend: str) -> Callable[[Callable], Broken]:
    """Make a function into a broken program; it is given simulated devices for its parameters."""

    def make(run: Callable) -> Broken:
        devices = [torch.device(f"sim:{place}") for place in range(len(inspect.signature(run).parameters))]
        name = f"{run.__module__.rpartition('.')[2]}.{run.__name__}"
        return Broken(functools.partial(run, *devices), culprit, origin, mend, name)

    return make
