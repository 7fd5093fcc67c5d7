"""Streams and events of a simulated device, with the names and the meaning that `torch.cuda` gives them."""

import itertools

import torch

from devlab.sim import clock, data, private

# Seconds of the host that one question about a stream or an event takes. The clock is virtual: if questions
# took no time, a program that asks until the answer is yes would ask forever.
ASKING = 1e-6
_ids = itertools.count(1)


def _has_ended(index: int | None, moment: float) -> bool:
    """Return whether what ends at `moment` has ended. Asking takes the host a moment, so a loop ends.

    The host learns, too, of a kernel that has failed on the device.
    """
    clock.spend(ASKING)
    if clock.failures:
        clock.notice(index, waited=True)
    if moment > clock.now():
        return False
    clock.wait_until(moment)  # takes no time: the clock notes that the host knows
    return True


def _find_queue(index: int, stream_id: int) -> clock.Queue:
    found = next((queue for queue in clock.devices[index].queues if queue.stream_id == stream_id), None)
    if found is None:
        raise ValueError(f"{data.NAME}:{index} has no stream of the number {stream_id}")
    return found


class Stream:
    """A queue of work on a simulated device: work runs in order, and beside the work of other streams.

    >>> import torch, devlab.sim
    >>> devlab.sim.enable()
    >>> side = torch.sim.Stream()
    >>> with torch.sim.stream(side):
    ...     torch.sim.current_stream() == side
    True
    """

    def __init__(
        self,
        device=None,
        priority: int = 0,
        *,
        stream_id: int | None = None,
        device_index: int | None = None,
        device_type: int | None = None,
        _queue: clock.Queue | None = None,
    ):
        """Make a new stream of `device`; None means the current device.

        With a `stream_id` and a `device_index` it is the stream of that number, once more.

        Raises:
            ValueError: when the device has no stream of that number.
        """
        self.device_index = data.index_of(device if stream_id is None else device_index)
        self.priority = priority
        if stream_id is not None:
            _queue = _find_queue(self.device_index, stream_id)
        if _queue is None:
            _queue = clock.Queue(next(_ids))
            clock.devices[self.device_index].queues.append(_queue)
        self._queue = _queue
        self._outer: list[tuple[clock.Queue, int]] = []

    @property
    def device(self) -> torch.device:
        """The device of the stream."""
        return data.device_of(self.device_index)

    @property
    def device_type(self) -> int:
        """The number by which PyTorch's C++ knows devices of this kind."""
        return int(private.DeviceType.PrivateUse1)

    @property
    def stream_id(self) -> int:
        """The number of the stream; that of the default stream is 0."""
        return self._queue.stream_id

    def query(self) -> bool:
        """Return whether all work has finished; asking takes the host a moment."""
        return _has_ended(self.device_index, self._queue.free_at)

    def synchronize(self) -> None:
        """Let the host wait for all work in the stream."""
        clock.synchronize(self.device_index, self._queue.free_at, "stream.synchronize")

    def wait_stream(self, stream: "Stream") -> None:
        """Let future work in this stream wait for the work now in another stream."""
        self._queue.free_at = max(self._queue.free_at, stream._queue.free_at)

    def wait_event(self, event: "Event") -> None:
        """Let future work in this stream wait for an event."""
        if event._moment is not None:
            self._queue.free_at = max(self._queue.free_at, event._moment)

    def record_event(self, event: "Event | None" = None) -> "Event":
        """Record an event, a new one unless given, and return it."""
        event = event or Event(self.device)
        event.record(self)
        return event

    def is_capturing(self) -> bool:
        """Return False: nothing is ever captured."""
        return False

    def __enter__(self):
        queues = clock.current.queues
        self._outer.append((queues[self.device_index], data.current_index()))
        set_stream(self)
        return self

    def __exit__(self, *error):
        clock.current.queues[self.device_index], outer = self._outer.pop()
        data.set_current_index(outer)

    def __eq__(self, other):
        return isinstance(other, Stream) and other._queue is self._queue

    def __hash__(self):
        return hash(id(self._queue))

    def __repr__(self):
        return f"<simulated stream {self.stream_id} of {self.device}>"


class Event:
    """A mark in a stream, which tells whether and when the work before the mark has finished.

    >>> import torch, devlab.sim
    >>> devlab.sim.enable()
    >>> start, end = torch.sim.Event(enable_timing=True), torch.sim.Event(enable_timing=True)
    >>> x = torch.ones(100, 100, device="sim")
    >>> start.record()
    >>> y = x @ x
    >>> end.record()
    >>> torch.sim.synchronize()
    >>> start.elapsed_time(end) > 0
    True
    """

    def __init__(
        self, device=None, *, enable_timing: bool = False, blocking: bool = False, interprocess=False
    ):
        """Make an event that is not yet recorded; `elapsed_time` needs `enable_timing`.

        As in PyTorch, `device` only names the kind of device. The first recording decides which device of
        that kind the event marks.
        """
        data.index_of(device)
        self.device_index: int | None = None
        self.enable_timing = enable_timing
        self._moment: float | None = None

    @property
    def event_id(self) -> int:
        """The number of the event; 0 before it was recorded."""
        return 0 if self._moment is None else id(self)

    @property
    def device(self) -> torch.device:
        """The device of the stream that the event marks, without an index before the event was recorded."""
        index = self.device_index
        return torch.device(data.NAME) if index is None else data.device_of(index)

    def record(self, stream: Stream | None = None) -> None:
        """Mark the work now in `stream`, or in the current stream of the current device.

        Raises:
            RuntimeError: when the event was recorded on another device before.
        """
        stream = stream or current_stream()
        if self.device_index not in (None, stream.device_index):
            raise RuntimeError(
                f"Event device {self.device_index} does not match recording stream's device "
                f"{stream.device_index}: an event stays with the device that recorded it first"
            )
        if clock.failures:
            clock.notice(stream.device_index)
        self.device_index = stream.device_index
        self._moment = max(stream._queue.free_at, clock.now())

    def wait(self, stream: Stream | None = None) -> None:
        """Let future work of `stream`, or of the current stream of the current device, wait for the event."""
        (stream or current_stream()).wait_event(self)

    def query(self) -> bool:
        """Return whether the marked work has finished; asking takes the host a moment."""
        return _has_ended(self.device_index, self._moment or 0.0)

    def synchronize(self) -> None:
        """Let the host wait for the marked work."""
        if self._moment is not None:
            clock.synchronize(self.device_index, self._moment, "event.synchronize")

    def elapsed_time(self, end_event: "Event") -> float:
        """Return the milliseconds on the device between this event and a later one.

        Raises:
            ValueError: when either cannot measure or was not recorded.
            RuntimeError: when the work has not finished, or they mark two devices, whose clocks have nothing
                in common.
        """
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._moment is None or end_event._moment is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if self.device_index != end_event.device_index:
            raise RuntimeError(
                f"{data.NAME} error: invalid resource handle: the events mark two devices, "
                f"{self.device} and {end_event.device}"
            )
        if not (self.query() and end_event.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return (end_event._moment - self._moment) * 1e3

    def __repr__(self):
        return f"<simulated event of {self.device}>"


def current_stream(device=None) -> Stream:
    """Return the device's current stream in this thread; each thread begins with the default stream."""
    index = data.index_of(device)
    return Stream(index, _queue=clock.current.queues[index])


def default_stream(device=None) -> Stream:
    """Return the stream that is current where none was chosen."""
    index = data.index_of(device)
    return Stream(index, _queue=clock.devices[index].default)


def set_stream(stream: Stream) -> None:
    """Make `stream` the current stream of its device, in this thread, and its device the current device."""
    data.set_current_index(stream.device_index)
    clock.current.queues[stream.device_index] = stream._queue


class stream:
    """A block in which `stream` is the current stream; None changes nothing."""

    def __init__(self, stream: Stream | None):
        self.stream = stream

    def __enter__(self):
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *error):
        if self.stream is not None:
            self.stream.__exit__(*error)
