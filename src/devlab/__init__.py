"""Learn where tensors live: a course on PyTorch devices, and the checks behind it."""

from importlib import import_module

from devlab.devices import devices  # at once: the module of this name must not stand in its place

__version__ = "1.0.0"
__all__ = [
    "CheckFailed",
    "apples_rules",
    "check",
    "devices",
    "digits",
    "explain",
    "explore",
    "hint",
    "launch",
    "memory",
    "memory_limit",
    "no_sync",
    "predict",
    "pretend",
    "progress",
    "reset",
    "solution",
    "start",
    "start_two",
    "time_op",
    "watch",
]

# Loaded when first used: `import devlab` stays light, and a command that needs no PyTorch loads none.
_PLACES = {
    "CheckFailed": "devlab.checks.result",
    "apples_rules": "devlab.lacking",
    "check": "devlab.checks.check",
    "digits": "devlab.data",
    "explain": "devlab.explaining",
    "hint": "devlab.checks.help",
    "launch": "devlab.launching",
    "memory": "devlab.watching.memory",
    "memory_limit": "devlab.watching.limits",
    "no_sync": "devlab.watching.quiet",
    "predict": "devlab.learner.predict",
    "pretend": "devlab.checks.pretend",
    "progress": "devlab.learner.overview",
    "reset": "devlab.checks.help",
    "solution": "devlab.checks.help",
    "start": "devlab.begin",
    "start_two": "devlab.begin",
    "time_op": "devlab.watching.timing",
    "watch": "devlab.watching.watch",
}


def __getattr__(name: str):
    if name == "explore":
        return import_module("devlab.explore")
    if name not in _PLACES:
        raise AttributeError(f"module 'devlab' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
