"""Eight pictures to play with: look and touch instead of reading. Each function opens one.

Each draws a still picture of a telling state; in a live notebook its controls stand below. `set(...)` and
`press(...)` on what is returned do what the controls do, `figure` is the picture for your own pages.
"""

from devlab.explore.explorer import Explorer, opened

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


def devices() -> Explorer:
    """Open the picture of what is here: host and devices, their memories, and what each can do."""
    from devlab.explore.pictures import devices as picture

    return opened(picture.explorer())


def transfers() -> Explorer:
    """Open the picture of copies: time and bandwidth over size, pinned or pageable, either way."""
    from devlab.explore.pictures import transfers as picture

    return opened(picture.explorer())


def mover() -> Explorer:
    """Open the picture of a module's tree, coloured by device, before and after `.to`."""
    from devlab.explore.pictures import mover as picture

    return opened(picture.explorer())


def sharing() -> Explorer:
    """Open the picture of two names for one memory: write through one, look through the other."""
    from devlab.explore.pictures import sharing as picture

    return opened(picture.explorer())


def timeline() -> Explorer:
    """Open the picture of host and device in time, statement by statement."""
    from devlab.explore.pictures import timeline as picture

    return opened(picture.explorer())


def pipeline() -> Explorer:
    """Open the picture of training batches on their way: loader, copy and compute."""
    from devlab.explore.pictures import pipeline as picture

    return opened(picture.explorer())


def allocator() -> Explorer:
    """Open the picture of device memory: segments and blocks as you allocate, free and empty the cache."""
    from devlab.explore.pictures import allocator as picture

    return opened(picture.explorer())


def crossover() -> Explorer:
    """Open the picture of the CPU against the accelerator, over size, operation and dtype."""
    from devlab.explore.pictures import crossover as picture

    return opened(picture.explorer())
