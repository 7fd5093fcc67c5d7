"""Sequences of requests whose outcome PyTorch's constants fix, and what must hold after any sequence."""

import gc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from devlab import sim
from devlab.sim import accounts, clock, data
from devlab.sim.allocator import Allocator, allocators, round_up, segment_size

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def fresh():
    """Return the empty memory of a device of 1 GiB."""
    return Allocator(0, GIB)


@pytest.mark.parametrize(
    ("requests", "allocated", "reserved"),
    [
        ([1], 512, 2 * MIB),
        ([512], 512, 2 * MIB),
        ([513], 1024, 2 * MIB),
        ([MIB], MIB, 2 * MIB),
        ([MIB, MIB], 2 * MIB, 2 * MIB),
        ([MIB, MIB, 1], 2 * MIB + 512, 4 * MIB),
        ([MIB + 1], MIB + 512, 20 * MIB),
        ([5 * MIB] * 4, 20 * MIB, 20 * MIB),
        ([10 * MIB], 10 * MIB, 10 * MIB),
        ([10 * MIB - 512], 10 * MIB - 512, 20 * MIB),
        ([10 * MIB - 1], 10 * MIB, 10 * MIB),
        ([11 * MIB], 12 * MIB, 12 * MIB),
        ([1, 3 * MIB, 11 * MIB], 512 + 14 * MIB, 22 * MIB),
    ],
)
def test_known_sequences(requests, allocated, reserved):
    """Bytes allocated and reserved after a sequence of requests, from PyTorch's constants."""
    allocator = fresh()
    blocks = [allocator.allocate(size) for size in requests]
    assert (allocator.allocated, allocator.reserved) == (allocated, reserved)
    assert len({block.address for block in blocks}) == len(blocks)


def test_a_large_block_is_split_only_when_more_than_a_mebibyte_remains():
    """Where less remains, the whole block is handed out."""
    allocator = fresh()
    assert allocator.allocate(11 * MIB).size == 12 * MIB
    assert allocator.allocate(10 * MIB + 512).size == 10 * MIB + 512
    assert allocator.allocate(3 * MIB).size == 3 * MIB


def test_freed_memory_stays_reserved_until_the_cache_is_emptied():
    """Allocated falls at once, reserved only with the cache."""
    allocator = fresh()
    keep, drop = allocator.allocate(KIB), allocator.allocate(30 * MIB)
    allocator.free(drop)
    assert (allocator.allocated, allocator.reserved) == (KIB, 32 * MIB)
    allocator.empty_cache()
    assert (allocator.allocated, allocator.reserved) == (KIB, 2 * MIB)
    allocator.free(keep)
    allocator.empty_cache()
    assert (allocator.allocated, allocator.reserved) == (0, 0)


def test_best_fit_and_merging():
    """A request takes the smallest block that fits; a gap closes when both sides are free."""
    allocator = fresh()
    first, second, third = (allocator.allocate(size * KIB) for size in (100, 50, 100))
    allocator.free(second)
    assert allocator.allocate(50 * KIB).address == second.address
    allocator.free(first)
    block = allocator.allocate(30 * KIB)
    assert block.address == first.address
    allocator.free(block)
    again = allocator.allocate(100 * KIB)
    assert again.address == first.address
    assert third.used


def test_fragmentation_defeats_a_request_that_would_fit_in_sum():
    """Half of the memory is free, in pieces too small."""
    allocator = Allocator(0, 40 * MIB)
    blocks = [allocator.allocate(5 * MIB) for _ in range(8)]
    for block in blocks[::2]:
        allocator.free(block)
    assert allocator.reserved - allocator.allocated == 20 * MIB
    with pytest.raises(torch.OutOfMemoryError):
        allocator.allocate(10 * MIB)


def test_out_of_memory_frees_the_cache_first():
    """One retry after freeing the cache; then PyTorch's words."""
    allocator = Allocator(0, 64 * MIB)
    allocator.free(allocator.allocate(40 * MIB))
    assert allocator.allocate(60 * MIB).size == 60 * MIB
    assert allocator.retries == 1
    with pytest.raises(
        torch.OutOfMemoryError,
        match=r"^sim out of memory\. Tried to allocate 40\.00 MiB\. sim:0 \(simulated\) has a total capacity "
        r"of 64\.00 MiB of which 4\.00 MiB is free\. Of the allocated memory 60\.00 MiB is allocated by "
        r"PyTorch, and 0 bytes is reserved by PyTorch but unallocated\.$",
    ):
        allocator.allocate(40 * MIB)
    assert allocator.failures == 1


requests = st.one_of(st.integers(1, 4 * KIB), st.integers(1, 3 * MIB), st.integers(1, 30 * MIB))


@given(st.lists(st.one_of(requests, st.tuples(st.integers(0, 30)), st.none()), max_size=60))
def test_whatever_happens_the_books_balance(steps):
    """Any sequence of requests, frees and emptied caches."""
    allocator, live = Allocator(0, 200 * MIB), []
    for step in steps:
        if step is None:
            allocator.empty_cache()
        elif isinstance(step, tuple):
            if live:
                allocator.free(live.pop(step[0] % len(live)))
        else:
            try:
                live.append(allocator.allocate(step))
            except torch.OutOfMemoryError:
                assert allocator.reserved + segment_size(round_up(step)) > allocator.capacity
        check_books(allocator, live)
    for block in live:
        allocator.free(block)
    check_books(allocator, [])
    assert allocator.allocated == 0
    allocator.empty_cache()
    assert allocator.reserved == 0


def check_books(allocator, live):
    """Hold the allocator's figures to the blocks that are really there."""
    assert allocator.allocated == sum(block.size for block in live)
    assert 0 <= allocator.allocated <= allocator.reserved <= allocator.capacity
    assert allocator.all.allocated_bytes.peak >= allocator.allocated
    whole = used = 0
    for first, blocks in allocator.blocks():
        address = first.address
        for block, after in zip(blocks, [*blocks[1:], None], strict=True):
            assert block.address == address
            assert after is None or block.used or after.used
            address += block.size
            whole += block.size
            used += block.size if block.used else 0
    assert (whole, used) == (allocator.reserved, allocator.allocated)


@given(st.lists(st.one_of(requests, st.tuples(st.integers(0, 30))), max_size=60))
def test_taking_the_last_block_back_changes_nothing(steps):
    """The shortcut hands out the blocks that merging and splitting would."""
    quick, slow = fresh(), fresh()
    slow._comes_back = lambda block: False
    pairs = []
    for step in steps:
        if isinstance(step, tuple):
            if pairs:
                one, other = pairs.pop(step[0] % len(pairs))
                quick.free(one)
                slow.free(other)
        else:
            try:
                pairs.append((quick.allocate(step), slow.allocate(step)))
            except torch.OutOfMemoryError:
                return
            assert pairs[-1][0].address == pairs[-1][1].address
    describe = [(first.address, [(b.size, b.used) for b in blocks]) for first, blocks in quick.blocks()]
    assert describe == [(f.address, [(b.size, b.used) for b in blocks]) for f, blocks in slow.blocks()]
    for one, other in zip((quick.all, *quick.pools), (slow.all, *slow.pools), strict=True):
        quick.count()
        for name, counter in one.counters().items():
            expected = other.counters()[name]
            for part in ("current", "peak", "allocated", "freed"):
                assert (name, part, getattr(counter, part)) == (name, part, getattr(expected, part))


@pytest.mark.usefixtures("empty_memory")
def test_tensors_take_and_give_memory(device):
    """A storage counts until its last view, or the graph that holds it, is gone."""
    before = torch.sim.memory_allocated(device)
    x = torch.ones(1000, device=device)
    assert torch.sim.memory_allocated(device) - before == 4096
    view = x[10:]
    del x
    assert torch.sim.memory_allocated(device) - before == 4096
    del view
    assert torch.sim.memory_allocated(device) == before
    w = torch.ones(1000, device=device, requires_grad=True)
    loss = (w.exp() * 2).sum()
    assert torch.sim.memory_allocated(device) - before == 2 * 4096 + 512
    del loss
    assert torch.sim.memory_allocated(device) - before == 4096
    assert torch.accelerator.memory_allocated(device) == torch.sim.memory_allocated(device)


@pytest.mark.usefixtures("empty_memory")
def test_peaks(device):
    """A temporary shows in the peak, and in the cache until that is emptied."""
    torch.sim.reset_peak_memory_stats(device)
    before = torch.sim.memory_allocated(device)
    torch.ones(MIB, device=device)
    assert torch.sim.max_memory_allocated(device) - before == 4 * MIB
    torch.accelerator.reset_peak_memory_stats(device)
    assert torch.accelerator.max_memory_allocated(device) == torch.sim.memory_allocated(device)
    assert torch.sim.memory_reserved(device) >= 20 * MIB
    torch.sim.empty_cache()
    assert torch.sim.memory_reserved(device) < 20 * MIB
    free, total = torch.sim.mem_get_info(device)
    assert total - free == torch.sim.memory_reserved(device)
    assert torch.accelerator.get_memory_info(device) == (free, total)


def test_both_public_modules_of_pytorch_answer_alike(device):
    """`torch.accelerator.memory.f` is asked by some libraries where others ask `torch.accelerator.f`."""
    x = torch.ones(1000, device=device)
    modules = (torch.accelerator, torch.accelerator.memory)
    for name in torch.accelerator.memory.__all__:
        arguments = () if name.startswith("empty") else (str(device),)
        first, second = (getattr(module, name)(*arguments) for module in modules)
        assert first == second, name
    assert torch.accelerator.memory.memory_allocated(device) >= x.nbytes


@pytest.mark.usefixtures("empty_memory")
def test_statistics_and_snapshot(device):
    """PyTorch's keys, and sums that agree with the totals."""
    x = torch.ones(1000, device=device)
    stats = torch.sim.memory_stats(device)
    assert stats["allocated_bytes.all.current"] == torch.sim.memory_allocated(device)
    assert stats["reserved_bytes.all.peak"] == torch.sim.max_memory_reserved(device)
    assert stats["allocation.all.current"] >= 1
    assert stats["requested_bytes.small_pool.current"] >= x.nbytes
    assert torch.accelerator.memory_stats(device) == stats
    segments = torch.sim.memory_snapshot(device)
    assert sum(s["total_size"] for s in segments) == torch.sim.memory_reserved(device)
    assert sum(s["allocated_size"] for s in segments) == torch.sim.memory_allocated(device)
    every = torch.sim.memory_snapshot()  # as torch.cuda's, of all devices
    assert [s for s in every if s["device"] == torch.device(device).index] == segments
    states = {block["state"] for s in segments for block in s["blocks"]}
    assert states <= {"active_allocated", "inactive"}
    assert "simulated" in torch.sim.memory_summary(device)


@pytest.mark.parametrize(
    "ask",
    [
        lambda d: torch.empty(1 << 40, device=d),
        lambda d: torch.zeros(1 << 20, 1 << 20, device=d),
        lambda d: torch.ones(1 << 17, 1, device=d) + torch.ones(1, 1 << 17, device=d),
        lambda d: torch.ones(1 << 17, 1, device=d) @ torch.ones(1, 1 << 17, device=d),
        lambda d: torch.ones(1, device=d).expand(1 << 34).clone(),
        lambda d: torch.ones(1, device=d).expand(1 << 34).contiguous() * 2,
        lambda d: torch.where(torch.ones(1 << 17, 1, device=d) > 0, torch.ones(1, 1 << 17, device=d), 0.0),
    ],
)
def test_requests_beyond_the_device_fail_without_touching_the_host(ask, device):
    """Factories, broadcasting, products and copies of expanded views."""
    with pytest.raises(torch.OutOfMemoryError, match=r"sim out of memory\. Tried to allocate"):
        ask(device)


@pytest.mark.usefixtures("empty_memory")
def test_recovering_from_out_of_memory(device):
    """After dropping a tensor the same request fits."""
    accounts.set_capacity(64 * MIB, device)
    try:
        torch.sim.empty_cache()
        x = torch.empty(40 * MIB, dtype=torch.uint8, device=device)
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(40 * MIB, dtype=torch.uint8, device=device)
        del x
        torch.empty(60 * MIB, dtype=torch.uint8, device=device)
    finally:
        accounts.set_capacity(GIB, device)


@pytest.mark.usefixtures("empty_memory")
def test_many_operations_leave_nothing(device):
    """Temporaries, views and products, thousands of times."""
    x = torch.ones(8, 8, device=device)
    gc.collect()
    before = torch.sim.memory_allocated(device)
    for _ in range(5000):
        y = (x + x).t() @ x
    del y
    gc.collect()
    assert torch.sim.memory_allocated(device) == before


@pytest.mark.usefixtures("empty_memory")
def test_every_key_of_torch_cuda(device):
    """The counters of `torch.cuda.memory_stats`, sorted, and what they say of one tensor."""
    torch.sim.empty_cache()
    torch.sim.reset_peak_memory_stats(device)
    torch.sim.reset_accumulated_memory_stats(device)
    before = torch.sim.memory_stats(device)
    kinds = (
        "active active_bytes allocated_bytes allocation inactive_split inactive_split_bytes requested_bytes"
    )
    expected = {
        f"{kind}.{pool}.{part}"
        for kind in (*kinds.split(), "reserved_bytes", "segment")
        for pool in ("all", "large_pool", "small_pool")
        for part in ("current", "peak", "allocated", "freed")
    }
    parts = ("current", "peak", "allocated", "freed")
    expected |= {f"oversize_{kind}.{part}" for kind in ("allocations", "segments") for part in parts}
    expected |= {"max_split_size", "num_alloc_retries", "num_ooms", "num_sync_all_streams"}
    expected |= {"num_device_alloc", "num_device_free"}
    assert list(before) == sorted(expected)
    x = torch.empty(5 * MIB - 100, dtype=torch.uint8, device=device)
    during = torch.sim.memory_stats(device)
    del x
    torch.sim.empty_cache()
    after = torch.sim.memory_stats(device)
    for key, size in (
        ("allocation", 1),
        ("allocated_bytes", 5 * MIB),
        ("requested_bytes", 5 * MIB - 100),
        ("segment", 1),
        ("reserved_bytes", 20 * MIB),
        ("inactive_split", 1),
        ("inactive_split_bytes", 15 * MIB),
    ):
        for pool in ("all", "large_pool"):
            name = f"{key}.{pool}"
            assert during[f"{name}.current"] - before[f"{name}.current"] == size
            assert after[f"{name}.peak"] - before[f"{name}.current"] == size
            assert (after[f"{name}.allocated"], after[f"{name}.freed"]) == (size, size)
            assert after[f"{name}.current"] == before[f"{name}.current"]


@pytest.mark.usefixtures("empty_memory")
def test_two_labels_on_one_memory_both_count_and_both_end(device):
    """A second tensor made of memory that has a label takes a block of its own, and neither is kept."""
    from devlab.sim.data import on_device, on_host

    before = torch.sim.memory_allocated(device)
    x = torch.ones(1000, device=device)
    y = on_device(on_host(x), device.index)
    assert torch.sim.memory_allocated(device) - before == 2 * 4096
    del x, y
    assert torch.sim.memory_allocated(device) == before


@pytest.mark.parametrize(
    "number", [0, -0.0, 1, 1.0, True, -3, 0.1, 1e-45, 1e39, 2**70, float("inf"), float("nan"), 2j]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.float64])
def test_numbers_meet_tensors_as_on_the_cpu(number, dtype, device):
    """Bit for bit, also where the simulator keeps the tensor that stands for the number."""
    x = torch.tensor([[-3, 0, 2, 7]]).to(dtype)
    for call in (torch.add, torch.mul, torch.sub, torch.div, lambda a, b: torch.div(b, a)):
        try:
            expected = call(x, number)
        except (RuntimeError, OverflowError) as error:
            with pytest.raises(type(error)):
                call(x.to(device), number)
            continue
        for _ in range(2):
            got = call(x.to(device), number)
            assert (got.dtype, got.device) == (expected.dtype, device)
            assert str(got.cpu().tolist()) == str(expected.tolist())


@pytest.mark.parametrize(("left", "right"), [((1, 50_000), (50_000, 1)), ((50_000,), (50_000,))])
def test_a_long_inner_product_fits(left, right, device):
    """Its result is small, however many pairs of elements there are."""
    x, y = torch.ones(left, device=device), torch.ones(right, device=device)
    assert (x @ y).sum().item() == 50_000


@pytest.mark.usefixtures("empty_memory")
def test_a_device_that_shrinks_keeps_what_it_holds(device):
    """What was there before is there afterwards; the next request is refused."""
    tensors = [torch.zeros(30 * 256, device=device) for _ in range(500)]
    accounts.set_capacity(4 * MIB, device)
    try:
        assert torch.sim.memory_allocated(device) == 500 * 30 * KIB
        with pytest.raises(torch.OutOfMemoryError):
            tensors += [torch.zeros(30 * 256, device=device) for _ in range(500)]
    finally:
        accounts.set_capacity(GIB, device)


@pytest.fixture
def shared():
    """Return a side stream of `sim:0`, where no block is shared before, and see that none is left shared."""
    sim.enable()
    clock.reset()
    memory = allocators[0]
    torch.sim.empty_cache()
    assert not memory.shared
    yield torch.Stream("sim")
    torch.sim.synchronize()
    torch.sim.empty_cache()
    assert not memory.shared
    torch.empty(1, device="sim")
    assert "allocate_at_once" not in vars(memory)  # requests may wait again
    clock.reset()


def address_of(x) -> int:
    """Return the address of a tensor's block on `sim:0`."""
    return data.block_of(x.untyped_storage(), 0).address


def of_side(side):
    """Return a tensor of 1 MiB whose memory belongs to the side stream."""
    with side:
        return torch.ones(MIB // 4, device="sim")


def test_a_freed_block_goes_back_to_its_stream_at_once(shared):
    """CUDACachingAllocator.cpp: pools are kept by stream, and other streams are not asked."""
    x = of_side(shared)
    where = address_of(x)
    clock.launch(0, 1e9)
    del x
    assert address_of(torch.ones(MIB // 4, device="sim")) != where
    assert address_of(of_side(shared)) == where


def test_record_stream_holds_a_freed_block_until_the_stream_has_passed(shared):
    """CUDACachingAllocator.cpp: `insert_events` when it is freed, `process_events` at each request."""
    torch.sim.reset_peak_memory_stats()
    torch.sim.reset_accumulated_memory_stats()
    x = of_side(shared)
    where, main = address_of(x), torch.accelerator.current_stream()
    x.record_stream(shared)  # of its own stream nothing is noted
    assert not allocators[0].shared
    x.record_stream(main)
    x.record_stream(main)
    clock.launch(0, 1e9)
    until = clock.end_of(0)
    del x
    clock.launch(0, 1e9)  # what is queued after the block was freed does not count
    y = of_side(shared)
    assert address_of(y) != where
    stats = torch.sim.memory_stats()
    here = stats["allocated_bytes.all.current"]
    active = [stats[f"active_bytes.all.{part}"] for part in ("current", "peak", "freed")]
    assert active == [here + MIB, here + MIB, 0]
    assert stats["active.all.current"] == stats["allocation.all.current"] + 1
    blocks = [block for segment in torch.sim.memory_snapshot(0) for block in segment["blocks"]]
    assert [block["state"] for block in blocks if block["address"] == where] == ["active_pending_free"]
    clock.wait_until(until)
    assert address_of(of_side(shared)) == where
    assert torch.sim.memory_stats()["active_bytes.all.current"] == here


def test_empty_cache_waits_for_blocks_that_are_held(shared):
    """CUDACachingAllocator.cpp: `release_cached_blocks` synchronizes the outstanding events first."""
    x = of_side(shared)
    x.record_stream(torch.accelerator.current_stream())
    clock.launch(0, 1e9)
    until = clock.end_of(0)
    del x
    torch.sim.empty_cache()
    assert clock.now() >= until
    assert torch.sim.memory_stats()["active_bytes.all.current"] == torch.sim.memory_allocated()
    assert not allocators[0].held


def test_a_history_has_both_ends_of_a_block_that_is_held(shared):
    """It is asked to be freed when the tensor dies, and is free when the stream has passed."""
    torch.sim.memory._record_memory_history()
    x = of_side(shared)
    x.record_stream(torch.accelerator.current_stream())
    clock.launch(0, 1e9)
    del x
    of_side(shared)
    torch.sim.empty_cache()
    trace = torch.sim.memory._snapshot()["device_traces"][0]
    torch.sim.memory._record_memory_history(None)
    actions = [event["action"] for event in trace if event["size"] == MIB]
    assert actions[:3] == ["alloc", "free_requested", "alloc"]
    assert actions.count("free_completed") == actions.count("free_requested") == 2
