"""Eight pictures to play with: look and touch instead of reading. Each function opens one.

Each draws a still picture of a telling state; in a live notebook the picture moves, and its controls stand
above it. `set(...)` and `press(...)` on what is returned do what the controls do, and `html()` returns the
picture for your own pages.
"""

from importlib import import_module

from devlab.explore.explorer import Explorer

__all__ = [
    "allocator",
    "crossover",
    "devices",
    "mover",
    "pipeline",
    "sharing",
    "timeline",
    "transfers",
]


def _open(name: str) -> Explorer:
    """Show the explorer of a picture, whose module is imported only now, and return it."""
    explorer = import_module(f"devlab.explore.pictures.{name}").explorer()
    explorer.show()
    return explorer


def devices() -> Explorer:
    """Open the picture of what is here: host and devices, their memories, and what each can do."""
    return _open("devices")


def transfers() -> Explorer:
    """Open the picture of copies: time and bandwidth over size, pinned or pageable, either way."""
    return _open("transfers")


def mover() -> Explorer:
    """Open the picture of a module's tree: guess which tensors a line moves, then run it and see."""
    return _open("mover")


def sharing() -> Explorer:
    """Open the picture of two names, for one memory or for two: guess, then click a cell to write."""
    return _open("sharing")


def timeline() -> Explorer:
    """Open the picture of host and device in time, statement by statement."""
    return _open("timeline")


def pipeline() -> Explorer:
    """Open the picture of training batches on their way: loader, copy and compute."""
    return _open("pipeline")


def allocator() -> Explorer:
    """Open the picture of device memory: segments and blocks as you allocate, free and empty the cache."""
    return _open("allocator")


def crossover() -> Explorer:
    """Open the picture of the CPU against the accelerator, over size, operation and dtype."""
    return _open("crossover")
