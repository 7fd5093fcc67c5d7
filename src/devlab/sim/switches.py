"""What a program may have set on the simulated devices, put back after a block of it."""

import contextlib
from collections.abc import Iterator

from devlab.sim import clock, data, racing
from devlab.sim.allocator import allocators
from devlab.sim.snapshot import history_of, record_history


@contextlib.contextmanager
def keep_switches() -> Iterator[None]:
    """Put back the current device and streams and the sizes of memories after a block.

    The streams are those of the thread that runs the block. Races and a history that began in the block end
    with it.

    >>> with keep_switches():
    ...     data.set_current_index(1)
    >>> data.current_index()
    0
    """
    index, queues = data.current_index(), list(clock.current.queues)
    capacities = [allocator.capacity for allocator in allocators]
    recording, visible = _records_history(), bool(racing.visible)
    try:
        yield
    finally:
        data.set_current_index(index)
        clock.current.queues[:] = queues
        for allocator, capacity in zip(allocators, capacities, strict=True):
            if allocator.capacity != capacity:
                allocator.resize(capacity)
        if racing.visible and not visible:
            racing.races(False)
        if _records_history() and not recording:
            record_history(None)


def _records_history() -> bool:
    return any(history_of(allocator) is not None for allocator in allocators)
