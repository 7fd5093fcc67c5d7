"""How a broken program says what explain must find in it."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Broken:
    """A program that fails, with what must be said: the culprit's name, its origin, the mending line."""

    run: Callable[[], object]
    culprit: str
    origin: str
    mend: str

    @property
    def name(self) -> str:
        return f"{self.run.__module__.rpartition('.')[2]}.{self.run.__name__}"


def broken(culprit: str, origin: str, mend: str) -> Callable[[Callable], Broken]:
    """Make a function into a broken program."""
    return lambda run: Broken(run, culprit, origin, mend)
