"""Requests for memory that wait: whatever is asked afterwards, it is as if each had been served at once."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from devlab.sim.allocator import Allocator, PatientAllocator

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


class Note:
    """What a tensor's memory leaves with its device's allocator."""

    def __init__(self, allocator, requested, stream):
        """Ask for a block as `new_on_device` does."""
        self.requested, self.stream = requested, stream
        self.block = allocator.allocate_at_once(requested, stream)
        if self.block is None:
            allocator.request(self)


def figures(allocator):
    """Return all that an allocator can be asked."""
    allocator.count()
    books = allocator.books
    parts = ("current", "peak", "allocated", "freed")
    counted = [
        (name, [getattr(one, part) for part in parts]) for b in books for name, one in b.counters().items()
    ]
    blocks = [(b.address, b.size, b.requested, b.used) for _, found in allocator.blocks() for b in found]
    return counted, blocks, allocator.retries, allocator.failures


small = st.one_of(*(st.integers(1, most) for most in (4 * KIB, 40 * KIB, 3 * MIB, 30 * MIB)))


@given(
    st.sampled_from([4 * MIB, 40 * MIB, GIB]),
    st.lists(st.one_of(st.tuples(small, st.integers(0, 1)), st.integers(0, 30), st.none()), max_size=60),
)
def test_what_waits_comes_out_as_if_it_had_not(capacity, steps):
    """Requests that are only written down leave every figure and address as they would be, failures too."""
    waiting, eager, live = PatientAllocator(0, capacity), Allocator(0, capacity), []
    for step in steps:
        if step is None:
            assert figures(waiting) == figures(eager)
        elif isinstance(step, int):
            if live:
                one, other = live.pop(step % len(live))
                waiting.free(one)
                eager.free(other)
        else:
            try:
                other = eager.allocate(*step)
            except torch.OutOfMemoryError:
                with pytest.raises(torch.OutOfMemoryError):
                    Note(waiting, *step)
                continue
            live.append((Note(waiting, *step), other))
    assert figures(waiting) == figures(eager)


@pytest.mark.parametrize("size", [512, 31 * KIB, 32 * KIB, 33 * KIB, MIB])
@pytest.mark.parametrize("streams", [1, 1000])
def test_no_request_that_waits_can_fail(size, streams):
    """A device is filled to the last block, then its gaps: the request that fails says so at once."""
    waiting, eager, pairs = PatientAllocator(0, 8 * MIB), Allocator(0, 8 * MIB), []
    for more in (0, 512, 0):
        for number in itertools.count():
            try:
                other = eager.allocate(size + more, number % streams)
            except torch.OutOfMemoryError:
                break
            pairs.append((Note(waiting, size + more, number % streams), other))
        with pytest.raises(torch.OutOfMemoryError):
            Note(waiting, size + more, number % streams)
        for one, other in pairs[::2]:
            waiting.free(one)
            eager.free(other)
        del pairs[::2]
    assert figures(waiting) == figures(eager)
