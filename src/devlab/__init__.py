"""Learn where tensors live: a course on PyTorch devices, and the checks behind it."""

from importlib import import_module

from devlab.begin import start
from devlab.checks.check import check
from devlab.checks.help import hint, solution
from devlab.checks.overview import progress
from devlab.checks.result import CheckFailed
from devlab.devices import devices

__version__ = "0.1.0"
__all__ = [
    "CheckFailed",
    "check",
    "devices",
    "digits",
    "explain",
    "explore",
    "hint",
    "memory",
    "progress",
    "solution",
    "start",
    "time_op",
    "watch",
]

# Loaded when first used, so that `import devlab` stays light.
_INSTRUMENTS = {
    "digits": "devlab.data",
    "explain": "devlab.instruments.explain",
    "memory": "devlab.instruments.memory",
    "time_op": "devlab.instruments.timing",
    "watch": "devlab.instruments.watch",
}


def __getattr__(name: str):
    if name == "explore":
        return import_module("devlab.explore")
    if name not in _INSTRUMENTS:
        raise AttributeError(f"module 'devlab' has no attribute {name!r}")
    return getattr(import_module(_INSTRUMENTS[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
