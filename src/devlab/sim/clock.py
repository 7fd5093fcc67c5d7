"""When work on a simulated device would have finished.

The host computes every result at once; this module keeps the time that the device would have taken. Each
device has three engines, one that computes and one that copies in either direction; each stream is a queue,
whose work runs in order. Starting work costs the host a launch. Only a wait brings the host's clock up to the
device's. `copy` and `copy_between` model the time of a copy.

The clock is virtual: it counts launches, staging, pinning, waits and questions to streams and events, and
nothing else, so the same program always takes the same time. `real_waits(True)` ties it to
`time.perf_counter` and makes every wait a real one. The device then runs in slow motion
(`specs.SLOW_MOTION`): at full speed its times would vanish beside those of the CPU, which computes
everything.
"""

import contextlib
import threading
import time
import weakref
from collections.abc import Iterator

from devlab.sim import events, specs


class Queue:
    """A stream as the clock sees it: the time at which its work ends, and at which its last work began."""

    __slots__ = ("began_at", "free_at", "stream_id")

    def __init__(self, stream_id: int):
        self.stream_id = stream_id
        self.free_at = self.began_at = 0.0


class Engines:
    """One device's engines and its queues."""

    __slots__ = ("compute", "copy_in", "copy_out", "default", "queues", "spec")

    def __init__(self, spec: specs.Spec):
        self.spec = spec
        self.default = Queue(0)
        self.queues = [self.default]
        self.compute = self.copy_in = self.copy_out = 0.0


# A copy to the host for which nothing waits arrives this many real seconds later, whatever its size: a
# program that reads it early sees old contents every time, and not only when the machine is slow.
LANDS_AFTER = 0.25

# So many bytes from pageable memory the driver stages while the stream is still busy. For more bytes the host
# waits until the stream is free, as CUDA's documentation allows. Measured on an H200: 2 MiB are staged at
# once and 4 MiB are not, so the border lies between the two (`held_by_copies` in its recording).
STAGED_AT_ONCE = 2 << 20

# How long a thread that is about to wait lets other threads run, in real seconds. Without such a turn the
# thread that waits first would bring the clock forward before a thread that loads ahead has had a processor
# to start its copy. On a busy machine that thread may still come too late: `turns_of` gives longer turns.
TURN = 1e-3

devices = [Engines(specs.CUDA_LIKE) for _ in range(specs.COUNT)]
_now = 0.0
_host_blocked_until = 0.0  # the end of the host's last wait
_real = False
_origin = 0.0
_arrivals: list = []  # (time, deliver): copies that the host cannot see yet
failures: list = []  # the kernels that have failed on their devices; see `assertions`
# Held while a copy lands, by the host or by a timer, so that it lands once, and by `racing` while memory
# looks as it did before. With two locks a copy that lands and an operator could wait for each other.
landing = threading.RLock()
_hosts: weakref.WeakSet[threading.Thread] = weakref.WeakSet()  # the threads that use a simulated device
_turn = TURN
_observers = events.observers
turns = 0  # how many turns were given; without any, no time depends on how busy the machine is


class _Current(threading.local):
    """The queue of each device that new work joins. Each thread has its own, and begins with the defaults."""

    def __init__(self):
        self.queues = [engines.default for engines in devices]
        _hosts.add(threading.current_thread())


current = _Current()


def now() -> float:
    """Return the host's time in seconds."""
    return time.perf_counter() - _origin if _real else _now


def ended_until() -> float:
    """Return the time up to which all work has ended: the host's last wait, or a past time by real waits."""
    return max(_host_blocked_until, now() - LANDS_AFTER) if _real else _host_blocked_until


def real_waits(on: bool = True) -> None:
    """Make waits take real time, with the device in slow motion, or make the clock virtual again.

    >>> real_waits(True)
    >>> real_waits(False)
    """
    global _real, _origin, _now
    if on == _real:
        return
    _finish()  # work under way ends by the clock by which it began
    if on:
        _origin = time.perf_counter() - _now
    else:
        _now = time.perf_counter() - _origin
    _real = on


@contextlib.contextmanager
def virtual() -> Iterator[None]:
    """Keep the clock virtual in a block, so that times in the block are the same on every machine.

    >>> with virtual():
    ...     before = now()
    >>> now() == before
    True
    """
    was_real = _real
    real_waits(False)
    try:
        yield
    finally:
        real_waits(was_real)


def _pace(engines: Engines) -> specs.Spec:
    """Return the rates that a device has at the moment."""
    return specs.SLOW_MOTION if _real else engines.spec


def _finish() -> None:
    for index in range(len(devices)):
        wait_for_device(index)


def reset() -> None:
    """Let every device finish, and set every clock to zero."""
    global _now, _origin, _host_blocked_until
    _finish()
    for engines in devices:
        engines.compute = engines.copy_in = engines.copy_out = 0.0
        for queue in engines.queues:
            queue.free_at = queue.began_at = 0.0
    _now = _host_blocked_until = 0.0
    _origin = time.perf_counter()


def spend(seconds: float) -> None:
    """Let the host be busy for some seconds, as a loader is."""
    wait_until(now() + seconds)


def spend_pinning(index: int, size: int) -> None:
    """Let the host be busy for as long as it copies some bytes into memory that is pinned for `sim:index`.

    Beside the main thread, in the thread in which a loader with workers pins, this costs the program nothing.
    """
    if threading.current_thread() is threading.main_thread():
        spend(size / _pace(devices[index]).staging)


def wait_until(moment: float) -> None:
    """Bring the host's time up to `moment`, and deliver the copies that have arrived by then."""
    global _now, _host_blocked_until
    if _real:
        remaining = moment - now()
        if remaining > 0:
            time.sleep(remaining)
    elif moment > _now:
        if len(_hosts) > 1:
            _give_turns()
        _now = max(_now, moment)
    if moment > _host_blocked_until:
        _host_blocked_until = moment
    if _arrivals:
        deliver()


def _give_turns() -> None:
    """Let other threads that use a simulated device go on, as they would while this thread waits."""
    global turns
    if sum(thread in _hosts for thread in threading.enumerate()) > 1:
        turns += 1
        time.sleep(_turn)


@contextlib.contextmanager
def turns_of(seconds: float) -> Iterator[None]:
    """Give other threads turns of so many real seconds in a block.

    >>> with turns_of(0.01):
    ...     wait_until(now() + 1e-6)
    """
    global _turn
    before, _turn = _turn, seconds
    try:
        yield
    finally:
        _turn = before


def launch(index: int, moved: int, operations: float = 0.0, operator: str = "") -> float:
    """Put a kernel on the device's current stream and return when it will have finished.

    A kernel takes as long as its arithmetic or its `moved` bytes, whichever takes longer. `operations`
    are in 32-bit floats; `in_float32` converts others. Observers are told the name of the `operator`.
    """
    global _now
    engines = devices[index]
    queue = current.queues[index]
    if _real:
        spec = specs.SLOW_MOTION
        start = time.perf_counter() - _origin
    else:
        spec = engines.spec
        start = _now = _now + (spec.product if operations else spec.launch)
    seconds = moved / spec.bandwidth
    if operations and operations / spec.rate > seconds:
        seconds = operations / spec.rate
    if queue.free_at > start:
        start = queue.free_at
    if engines.compute > start:
        start = engines.compute
    queue.began_at = start
    engines.compute = queue.free_at = end = start + spec.shortest + seconds
    if _arrivals:
        deliver()
    if _observers and operator:
        events.tell(events.Launch(index, operator, end))
    return end


def in_float32(index: int, operations: float, dtype) -> float:
    """Return how many operations in 32-bit floats take as long as `operations` in `dtype`."""
    spec = _pace(devices[index])
    return operations * spec.rate / spec.half_rate if dtype in specs.HALF else operations


def copy(index: int, size: int, into: bool, pinned: bool) -> float:
    """Put a copy between host and device on the current stream and return when the bytes will be there.

    To and from pageable memory the host copies the bytes, too: into the driver's pinned buffer before the
    device takes them from there, or out of that buffer afterwards. More than `STAGED_AT_ONCE` bytes are not
    staged before the stream is free.
    """
    engines, queue = devices[index], current.queues[index]
    spec = _pace(engines)
    staging = 0.0 if pinned else size / spec.staging
    launched = _launch(engines)
    if into and staging:
        wait_until(staging + (max(launched, queue.free_at) if size > STAGED_AT_ONCE else launched))
    start = queue.began_at = max(now(), queue.free_at, engines.copy_in if into else engines.copy_out)
    end = queue.free_at = start + spec.shortest + size / spec.pinned
    if into:
        engines.copy_in = end
        return end
    engines.copy_out = end
    return end + staging


def copy_between(source: int, target: int, size: int) -> float:
    """Put a copy from device to device on both current streams and return when it will have finished."""
    sender, receiver = devices[source], devices[target]
    from_queue, to_queue = current.queues[source], current.queues[target]
    spec = _pace(sender)
    seconds = spec.shortest + size / spec.peer
    start = max(_launch(sender), from_queue.free_at, to_queue.free_at, sender.copy_out, receiver.copy_in)
    from_queue.began_at = to_queue.began_at = start
    end = start + seconds
    sender.copy_out = receiver.copy_in = from_queue.free_at = to_queue.free_at = end
    return end


def _launch(engines: Engines) -> float:
    """Charge the host a launch and return the host's time after the launch."""
    global _now
    if not _real:
        _now += engines.spec.launch
    return now()


def synchronize(index: int, moment: float, cause: str) -> None:
    """Let the host wait until `moment` for work on a device, and tell observers the cause."""
    wait_until(moment)
    if _observers:
        events.tell(events.Synchronization(index, cause))
    if failures:
        notice(index, waited=True)


def notice(index: int, waited: bool = False) -> None:
    """Raise the error of a kernel that has failed on a device, if it has run by the host's clock.

    Launches, copies and waits ask this while there are `failures`. On MPS only waits learn of a failure.
    """
    for failure in failures:
        if failure.index == index and failure.moment <= now() and (waited or not failure.once):
            failure.tell()


def end_of(index: int) -> float:
    """Return when all the device's streams will have finished."""
    return max(queue.free_at for queue in devices[index].queues)


def wait_for_device(index: int) -> None:
    """Let the host wait for all the device's streams."""
    wait_until(end_of(index))


def arrive(moment: float, write) -> None:
    """Call `write` once the host's clock has reached `moment`: a copy lands."""
    _arrivals.append((moment, write))
    if _real:
        timer = threading.Timer(max(LANDS_AFTER, moment - now()), deliver)
        timer.daemon = True
        timer.start()


def deliver() -> None:
    """Land every copy whose time has come."""
    with landing:
        reached = now()
        for arrival in [one for one in _arrivals if one[0] <= reached]:
            arrival[1]()
            _arrivals.remove(arrival)  # not before: a host that sees none left reads what has landed
