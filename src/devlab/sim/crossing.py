"""Copies between devices: what travels, which side waits, when the host sees it. `clock` models the time."""

from typing import NamedTuple

import torch

from devlab.sim import clock, data, events, private, racing
from devlab.sim.data import on_device, on_host
from devlab.sim.racing import visible


class Crossing(NamedTuple):
    """One copy between two devices.

    `bytes` is what travels; `pinned` tells whether the host's end of the copy is pinned memory, `blocking`
    whether the host waits until the stream has done the copy, `converts_there` whether an accelerator changes
    the dtype.
    """

    bytes: int
    pinned: bool
    blocking: bool
    converts_there: bool


def plan_copy(
    source: torch.Tensor, target: torch.Tensor, non_blocking: bool, pinned: bool, mps: bool = False
) -> Crossing:
    """Return how PyTorch copies `source` into `target`, which is on another device.

    `pinned` tells whether the tensor on the CPU is in pinned memory, `mps` whether the accelerator is
    Apple's or follows Apple's rules.

    >>> wide = torch.ones(3, dtype=torch.float64, device="meta")
    >>> [plan_copy(torch.ones(3), wide, non_blocking, False).bytes for non_blocking in (False, True)]
    [24, 12]
    """
    converts = source.dtype != target.dtype
    count = target.numel()  # a smaller source is expanded before the copy
    if not source.is_cpu and not target.is_cpu:
        return Crossing(count * target.itemsize, False, False, converts)
    into = source.is_cpu
    converts_there = converts and (non_blocking if not mps else not into)
    travels = source if into == converts_there else target
    here = source if into else target
    # Where source and target cannot be copied as one run of memory, PyTorch copies by way of a temporary
    # tensor on the CPU, which is in pageable memory.
    as_it_is = not converts and _one_run(source, target)
    as_it_is = as_it_is or (
        (non_blocking or not converts) and here.is_contiguous() and source.shape == target.shape
    )
    pinned = pinned and as_it_is
    size = count * travels.itemsize
    waits = not (mps or pinned) and (not into or size > clock.STAGED_AT_ONCE)
    return Crossing(size, pinned, waits or not non_blocking, converts_there)


def _one_run(source: torch.Tensor, target: torch.Tensor) -> bool:
    """Tell whether both tensors hold their elements in the same order and without gaps."""
    if source.shape != target.shape:
        return False
    length = 1
    axes = zip(target.stride(), source.stride(), target.shape, strict=True)
    for *strides, size in sorted(axis for axis in axes if axis[-1] != 1):
        if strides != [length, length]:
            return False
        length *= size
    return True


_form = torch.preserve_format


def copy_(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Copy the elements of `source` into `target`, across devices where they differ, and return `target`.

    The host sees a copy from a device at once, unless the copy is non-blocking and into pinned memory:
    the host sees such a copy when the copy would have arrived.
    """
    if not isinstance(source, torch.Tensor):
        source = torch.tensor(source, device="cpu")  # `x.copy_(2.0)`
    into, out_of = target.get_device(), source.get_device()
    if clock.failures:
        clock.notice(into)
        clock.notice(out_of)
    start = _find_contents(source, into)
    if into < 0:
        return _to_host(target, source, start, non_blocking)
    if not visible:
        on_host(target).copy_(start)
    leaves = _arrives(target, source, non_blocking)
    if visible:
        racing.write_in_flight(target, start, source if leaves else None)
    return target


def _find_contents(source: torch.Tensor, into: int) -> torch.Tensor:
    """Return on the CPU what a copy of `source` finds there, to the CPU or to `sim:into`."""
    if source.is_cpu:
        return source
    return racing.find_for_copy(source, into) if visible else on_host(source)


def _arrives(
    target: torch.Tensor, source: torch.Tensor, non_blocking: bool, operator: str = "aten::copy_"
) -> bool:
    """Let the clock run for a copy into a device; return whether the host's memory is read later."""
    into, out_of = target.get_device(), source.get_device()
    if into == out_of:
        clock.launch(into, source.nbytes + target.nbytes, 0.0, operator)
        return False
    way = plan_copy(source, target, non_blocking, data.is_pinned(source), bool(data.refusals))
    if out_of >= 0:
        if way.converts_there:
            _convert(out_of, source, target)
        end = clock.copy_between(out_of, into, way.bytes)
    else:
        end = clock.copy(into, way.bytes, True, way.pinned)
        if way.converts_there:
            _convert(into, source, target)
    _tell(source, target, way, end)
    if way.blocking:
        clock.wait_until(end)
        if clock.failures:
            clock.notice(into, waited=True)
    # A copy to Apple's GPU reads the host's pages when its turn comes, pinned or not (PyTorch's Copy.mm).
    return not way.blocking and (way.pinned or bool(data.refusals))


def _to_host(target: torch.Tensor, source: torch.Tensor, start: torch.Tensor, non_blocking: bool):
    """Copy `source`, on a device, whose elements are in `start`, into `target` in the host's memory."""
    out_of = source.get_device()
    way = plan_copy(source, target, non_blocking, data.is_pinned(target), bool(data.refusals))
    if way.converts_there:
        _convert(out_of, source, target)
    end = clock.copy(out_of, way.bytes, False, way.pinned)
    _tell(source, target, way, end)
    if way.blocking:
        clock.synchronize(out_of, end, "copy to cpu")
        target.copy_(start)
    else:
        snapshot = start.clone()
        if visible:
            racing.leaves(source, snapshot.copy_, end)
        clock.arrive(end, _writer_of(target, snapshot))
    return target


def _convert(index: int, source: torch.Tensor, target: torch.Tensor) -> None:
    """Let a device change the dtype, for which the device needs memory for the elements in both dtypes."""
    here = target if source.get_device() == index else source  # of the second dtype
    on_device(torch.empty(target.shape, dtype=here.dtype, device="cpu"), index)
    clock.launch(index, target.numel() * (source.element_size() + target.element_size()))


def _writer_of(goal: torch.Tensor, snapshot: torch.Tensor):
    """Return the function that writes a copy into its target, whether or not inference mode is on then."""

    def land():
        with torch.inference_mode():
            goal.copy_(snapshot)

    return land


def _tell(source: torch.Tensor, target: torch.Tensor, way: Crossing, end: float) -> None:
    if events.observers:
        places = str(source.device), str(target.device)
        events.tell(events.Transfer(*places, way.bytes, way.pinned, way.blocking, end))


def to_copy(
    source,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=None,
    non_blocking=False,
    memory_format=None,
):
    """Return a copy of a tensor from or to `sim`, on another device or in another dtype."""
    if isinstance(source, private.uninitialized):
        source = source.data  # a lazy module's parameter forbids most questions
    dtype = dtype or source.dtype
    own = source.get_device()
    home = own if device is None else _index(device)
    if clock.failures:
        clock.notice(own)
        clock.notice(home)
    form = memory_format or _form
    host = _find_contents(source, home)
    if home < 0:
        made = torch.empty_like(host, dtype=dtype, memory_format=form)
        if non_blocking:
            # PyTorch pins the target of a non-blocking copy to the host; until the copy arrives it is zero.
            data.pin(made.zero_())
        return _to_host(made, source, host, non_blocking)
    same = dtype is host.dtype
    values = host.clone(memory_format=form) if same else host.to(dtype, copy=True, memory_format=form)
    made = on_device(torch.zeros_like(values) if visible else values, home)
    leaves = _arrives(made, source, non_blocking, "aten::_to_copy")
    if visible:
        racing.write_in_flight(made, values, source if leaves else None)
    return made


def _index(device: torch.device) -> int:
    if device.type == data.NAME:
        return data.index_of(device)
    if device.type != "cpu":
        raise RuntimeError(f"a simulated device copies to the CPU and to its like, not to {device}")
    return -1


def item(tensor: torch.Tensor):
    """Return the only element of a tensor to Python, which waits for the device."""
    index = tensor.get_device()
    host = _find_contents(tensor, -1)
    number = private.number_of(host)
    end = clock.copy(index, host.nbytes, False, True)
    clock.wait_until(end)
    if events.observers:
        events.tell(events.Transfer(str(tensor.device), "cpu", host.nbytes, True, True, end))
        events.tell(events.Synchronization(index, "item"))
    if clock.failures:
        clock.notice(index, waited=True)
    return number


def read(tensor: torch.Tensor, wait: bool) -> torch.Tensor:
    """Return a CPU tensor in the memory of a tensor on the device: no copy is made, no observer is told.

    If the host is to `wait`, it waits as long as it would for a copy. `devlab.checks.values` looks this
    function up by the module's name.
    """
    if wait:
        clock.wait_until(clock.copy(tensor.get_device(), tensor.nbytes, False, False))
    return on_host(tensor)


def copy_from(source, target, non_blocking=False):
    """Copy, in the argument order of PyTorch's older operator."""
    return copy_(target, source, non_blocking)


def copy_from_and_resize(source, target):
    """Copy into a target of any size."""
    if target.shape != source.shape:
        target.resize_(source.shape)
    return copy_(target, source)
