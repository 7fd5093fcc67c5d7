"""Sequences of launches, copies and waits whose times are known, and the invariants behind them."""

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import devlab
from devlab.sim import clock, data, events, specs

RECORDED = Path(__file__).parents[2] / "benchmarks/recorded"
SPEC = specs.CUDA_LIKE
MIB = 1 << 20


@pytest.fixture(autouse=True)
def fresh_clock():
    """Set every clock to zero before and after each test."""
    clock.reset()
    yield
    clock.real_waits(False)
    clock.reset()


def device_time(index=0):
    """Return when the device's current stream will be idle."""
    return clock.current.queues[index].free_at


def test_a_launch_costs_the_host_little_and_the_device_the_traffic():
    """Elementwise work takes its bytes over the bandwidth."""
    x = torch.ones(1 << 20, device="sim")
    torch.sim.synchronize()
    before, busy = clock.now(), device_time()
    y = x + x
    assert clock.now() - before == pytest.approx(SPEC.launch)
    expected = SPEC.launch + SPEC.shortest + 3 * x.nbytes / SPEC.bandwidth
    assert device_time() - max(busy, before) == pytest.approx(expected)
    torch.sim.synchronize()
    assert clock.now() == pytest.approx(device_time())
    assert y.shape == x.shape


def test_a_matrix_product_takes_its_arithmetic():
    """Operations over the rate; sixteen-bit floats are faster."""
    x = torch.ones(512, 512, device="sim")
    torch.sim.synchronize()
    before = clock.now()
    x @ x
    torch.sim.synchronize()
    whole = SPEC.product + SPEC.shortest + 2 * 512**3 / SPEC.rate
    assert clock.now() - before == pytest.approx(whole)
    half = x.half()
    torch.sim.synchronize()
    before = clock.now()
    half @ half
    torch.sim.synchronize()
    assert clock.now() - before < whole


def test_a_product_costs_the_host_more_than_an_elementwise_operator_as_on_the_h200():
    """The proportion is the recorded one, for the host alone; `nn.Linear` adds Python of its own."""
    root = Path(__file__).parents[2]
    basics = json.loads((root / "benchmarks/recorded/h200/measured.json").read_text())["cases"]["basics"]
    measured = [
        basics[f"host seconds to start {what}"] for what in ("a 64 x 64 product", "x + 1 (8 numbers)")
    ]
    for spec in (specs.CUDA_LIKE, specs.MPS_LIKE):
        assert spec.product / spec.launch == pytest.approx(measured[0] / measured[1], rel=0.01)


@pytest.mark.parametrize("wait", ["item", "cpu", "tolist", "bool", "print", "nonzero", "mask", "numpy"])
def test_implicit_waits_wait(wait):
    """Everything that hands data to Python brings the host up to the device."""
    x = torch.ones(1 << 20, device="sim")
    for _ in range(5):
        x = x * 1.0
    pending = device_time()
    assert clock.now() < pending
    {
        "item": lambda: x[0].item(),
        "cpu": lambda: x[:1].cpu(),
        "tolist": lambda: x[:2].tolist(),
        "bool": lambda: bool(x[0] > 0),
        "print": lambda: repr(x[:1]),
        "nonzero": lambda: x[:2].nonzero(),
        "mask": lambda: x[:2][x[:2] > 0],
        "numpy": lambda: x[:2].cpu().numpy(),
    }[wait]()
    assert clock.now() >= pending


def test_what_does_not_wait():
    """Questions of shape and place, views, reductions and copies between devices."""
    x = torch.ones(1 << 20, device="sim")
    for _ in range(5):
        x = x * 1.0
    pending = device_time()
    x.shape, x.device, x.view(2, -1).t(), x.sum(), x.to("sim:0"), x.to("sim:1"), x.detach()
    assert clock.now() < pending


def busy(index=0):
    """Give the device a millisecond of work, and return when it will be done."""
    return clock.launch(index, 1e-3 * SPEC.bandwidth)


@pytest.mark.parametrize("loaded", [False, True])
def test_a_blocking_copy_waits_for_its_stream(loaded):
    """From any memory, and for earlier work, too: PyTorch's `memcpy_and_sync` synchronizes the stream."""
    for source, rate in ((torch.ones(MIB), SPEC.pageable), (torch.ones(MIB).pin_memory(), SPEC.pinned)):
        clock.reset()
        done = busy() if loaded else 0.0
        source.to("sim")
        assert clock.now() == device_time() >= done
        if not loaded:
            assert clock.now() == pytest.approx(SPEC.launch + SPEC.shortest + source.nbytes / rate)


def test_a_copy_from_pageable_memory_keeps_the_host_while_the_bytes_are_staged():
    """With non_blocking=True, up to 2 MiB and whatever was queued before; the copy joins the queue then."""
    source = torch.ones(MIB // 2)
    assert source.nbytes == clock.STAGED_AT_ONCE
    staging = source.nbytes / SPEC.staging
    source.to("sim", non_blocking=True)
    assert clock.now() == pytest.approx(SPEC.launch + staging)
    assert device_time() == pytest.approx(clock.now() + SPEC.shortest + source.nbytes / SPEC.pinned)
    clock.reset()
    done = busy()
    source.to("sim", non_blocking=True)
    assert clock.now() == pytest.approx(2 * SPEC.launch + staging)
    assert clock.now() < done
    assert device_time() == pytest.approx(done + SPEC.shortest + source.nbytes / SPEC.pinned)


def test_a_large_copy_from_pageable_memory_is_staged_when_the_stream_is_free():
    """With non_blocking=True or not: the host waits for the stream, then stages the bytes."""
    source = torch.ones(MIB)
    for non_blocking in (False, True):
        clock.reset()
        done = busy()
        source.to("sim", non_blocking=non_blocking)
        assert clock.now() == device_time()
        assert clock.now() == pytest.approx(done + SPEC.shortest + source.nbytes / SPEC.pageable)


HELD = json.loads((RECORDED / "h200/measured.json").read_text(encoding="utf-8"))["cases"]["held_by_copies"]
IN_FRONT = HELD.pop("seconds of the work in front")
COPIES = {
    "pageable.to(device)": lambda plain, pinned, x: plain.to("sim"),
    "pageable.to(device, non_blocking)": lambda plain, pinned, x: plain.to("sim", non_blocking=True),
    "pinned.to(device)": lambda plain, pinned, x: pinned.to("sim"),
    "pinned.to(device, non_blocking)": lambda plain, pinned, x: pinned.to("sim", non_blocking=True),
    "x.cpu()": lambda plain, pinned, x: x.cpu(),
    "x.to(cpu, non_blocking)": lambda plain, pinned, x: x.to("cpu", non_blocking=True),
    "pageable.copy_(x, non_blocking)": lambda plain, pinned, x: plain.copy_(x, non_blocking=True),
    "pinned.copy_(x, non_blocking)": lambda plain, pinned, x: pinned.copy_(x, non_blocking=True),
}


@pytest.mark.parametrize("case", HELD)
def test_a_copy_waits_for_the_work_in_front_where_an_h200_waits(case):
    """Each size and kind of copy, behind 20 ms of work; watch calls those copies blocking that wait."""
    kind, _, size = case.rpartition(", ")
    plain = torch.zeros(int(size.removesuffix(" KiB")) << 10, dtype=torch.uint8)
    operands = plain, plain.pin_memory(), plain.to("sim")
    torch.sim.synchronize()
    done = clock.launch(0, IN_FRONT * SPEC.bandwidth)
    with devlab.watch() as log:
        COPIES[kind](*operands)
    assert (clock.now() >= done) == (HELD[case] > IN_FRONT / 2)
    assert log.events.transfers[0].blocking == (HELD[case] > IN_FRONT / 2)


def test_a_copy_from_pinned_memory_need_not_keep_the_host():
    """With non_blocking=True only the launch is the host's, whatever was queued before."""
    source = torch.ones(MIB).pin_memory()
    clock.reset()
    done = busy()
    source.to("sim", non_blocking=True)
    assert clock.now() == pytest.approx(2 * SPEC.launch)
    assert device_time() == pytest.approx(done + SPEC.shortest + source.nbytes / SPEC.pinned)


def test_a_copy_into_pageable_memory_keeps_the_host_until_it_is_there():
    """Whatever non_blocking says: CUDA's documentation, of a device and pageable memory."""
    there, here = torch.ones(MIB, device="sim"), torch.empty(MIB)
    for non_blocking in (False, True):
        clock.reset()
        done = busy()
        here.copy_(there, non_blocking=non_blocking)
        copied = done + SPEC.shortest + here.nbytes / SPEC.pinned
        assert device_time() == pytest.approx(copied)
        assert clock.now() == pytest.approx(copied + here.nbytes / SPEC.staging)


def test_a_blocking_copy_changes_the_dtype_on_the_cpu_and_a_non_blocking_one_on_the_device():
    """PyTorch's `copy_kernel_cuda`: so the one or the other of the two dtypes travels, in both directions."""
    source = torch.ones(MIB).pin_memory()
    for non_blocking, moved in ((False, 2 * MIB), (True, 4 * MIB)):
        clock.reset()
        source.to("sim", torch.float16, non_blocking=non_blocking)
        # Converted on the CPU, the elements are in another tensor, which is not pinned.
        took = SPEC.launch + SPEC.shortest + moved / (SPEC.pinned if non_blocking else SPEC.pageable)
        convert = SPEC.launch + SPEC.shortest + 6 * MIB / SPEC.bandwidth
        if non_blocking:
            assert clock.now() == pytest.approx(2 * SPEC.launch)
            took += convert - SPEC.launch
        assert device_time() == pytest.approx(took)
    there = torch.ones(MIB, device="sim")
    for non_blocking, moved in ((False, 4 * MIB), (True, 2 * MIB)):
        clock.reset()
        there.to("cpu", torch.float16, non_blocking=non_blocking)
        took = SPEC.launch + SPEC.shortest + moved / SPEC.pinned
        took += SPEC.shortest + 6 * MIB / SPEC.bandwidth if non_blocking else 0.0
        assert device_time() == pytest.approx(took)


def test_the_device_needs_room_to_change_a_dtype():
    """PyTorch lets a blocking copy convert on the CPU because that takes no memory of the GPU."""
    peaks = []
    for non_blocking in (False, True):
        torch.sim.synchronize()
        torch.sim.reset_peak_memory_stats()
        before = torch.sim.memory_allocated()
        x = torch.ones(MIB).to("sim", torch.float16, non_blocking=non_blocking)
        peaks.append(torch.sim.max_memory_allocated() - before)
        del x
    assert peaks == [2 * MIB, 6 * MIB]


def test_part_of_a_pinned_tensor_is_not_copied_from_pinned_memory():
    """PyTorch gathers what is not one run of memory in a temporary tensor, which is pageable."""
    source = torch.ones(2, MIB).pin_memory()
    for view, pageable in ((source[:1], False), (source.t(), False), (source[:, ::2], True)):
        clock.reset()
        view.to("sim", non_blocking=True)
        assert (clock.now() > 2 * SPEC.launch) == pageable


def test_a_read_back_seen_too_early_shows_old_contents():
    """Zeros in fresh memory, what was there in used memory."""
    x = torch.arange(1.0, 5.0, device="sim")
    y = x.to("cpu", non_blocking=True)
    assert y.tolist() == [0, 0, 0, 0]
    torch.sim.synchronize()
    assert y.tolist() == [1, 2, 3, 4]
    kept = torch.full((4,), 9.0).pin_memory()
    kept.copy_(x, non_blocking=True)
    assert kept.tolist() == [9, 9, 9, 9]
    torch.sim.current_stream().synchronize()
    assert kept.tolist() == [1, 2, 3, 4]
    ordinary = torch.zeros(4)
    ordinary.copy_(x, non_blocking=True)
    assert ordinary.tolist() == [1, 2, 3, 4]
    assert x.cpu().tolist() == [1, 2, 3, 4]


def test_a_read_back_lands_after_inference_mode():
    """What was asked for in one mode may arrive in another."""
    x = torch.ones(2, device="sim")
    with torch.inference_mode():
        y = (x * 2).to("cpu", non_blocking=True)
    torch.sim.synchronize()
    assert y.tolist() == [2, 2]


def test_the_read_back_is_of_the_moment_it_was_asked_for():
    """Later writes on the device do not show."""
    x = torch.ones(2, device="sim")
    y = x.to("cpu", non_blocking=True)
    x.add_(1)
    torch.accelerator.synchronize()
    assert y.tolist() == [1, 1]


def test_two_threads_land_each_copy_once():
    """With real waits timers land copies, and the host lands them when it waits: at times both at once."""
    landed, others = [], []

    def first():
        landed.append("first")
        others.append(threading.Thread(target=clock.deliver))
        others[0].start()
        others[0].join(0.2)  # it must not land the second before this thread does

    clock.arrive(clock.now(), first)
    clock.arrive(clock.now(), lambda: landed.append("second"))
    clock.deliver()
    others[0].join()
    assert landed == ["first", "second"]


def test_threads_may_begin_while_another_waits():
    """The thread that waits counts the threads that use a device, and their number grows meanwhile."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(1) as pool, clock.turns_of(0):
            begun = pool.submit(begin_threads, 1500)
            while not begun.done():
                clock.spend(1e-6)
    finally:
        sys.setswitchinterval(interval)


def begin_threads(count):
    """Let threads use the devices, one after the other."""
    for _ in range(count):
        thread = threading.Thread(target=lambda: clock.current.queues)
        thread.start()
        thread.join()


def run_batches(side):
    """Copy and compute eight batches; with `side`, copy them on a stream of their own."""
    batches = [torch.ones(MIB).pin_memory() for _ in range(8)]
    clock.reset()
    main = torch.sim.current_stream()
    copying = torch.sim.Stream() if side else main
    for batch in batches:
        with torch.sim.stream(copying):
            x = batch.to("sim", non_blocking=True)
        main.wait_stream(copying)
        for _ in range(27):
            x = x * 1.0
    torch.sim.synchronize()
    return clock.now()


def test_copies_overlap_computation_only_on_a_second_stream():
    """On one stream times add up; on two the longer one rules."""
    copy = 8 * (SPEC.shortest + 4 * MIB / SPEC.pinned)
    compute = 8 * 27 * (SPEC.shortest + 8 * MIB / SPEC.bandwidth)
    assert run_batches(side=False) > 0.95 * (copy + compute)
    assert run_batches(side=True) < 1.2 * max(copy, compute)


def test_events_measure_the_device():
    """Milliseconds between two marks, and PyTorch's errors where there are none."""
    x = torch.ones(1 << 20, device="sim")
    start, end = torch.sim.Event(enable_timing=True), torch.Event("sim", enable_timing=True)
    torch.sim.synchronize()
    start.record()
    x * 2
    end.record()
    with pytest.raises(RuntimeError, match="Both events must be completed"):
        start.elapsed_time(end)
    end.synchronize()
    expected = SPEC.launch + SPEC.shortest + 2 * x.nbytes / SPEC.bandwidth
    assert start.elapsed_time(end) == pytest.approx(expected * 1e3)
    assert end.query()
    with pytest.raises(ValueError, match="enable_timing=True"):
        torch.sim.Event().elapsed_time(end)
    with pytest.raises(ValueError, match="must be recorded"):
        torch.sim.Event(enable_timing=True).elapsed_time(end)


def test_streams_by_pytorchs_names():
    """torch.Stream, torch.accelerator and torch.sim mean the same streams."""
    side = torch.Stream("sim:1")
    assert isinstance(side, torch.Stream)
    assert side.device == torch.device("sim:1")
    assert torch.accelerator.current_stream("sim:1") == torch.sim.default_stream(1)
    with side:
        assert torch.sim.current_stream(1) == side
    torch.accelerator.set_stream(side)
    assert torch.accelerator.current_stream("sim:1") == side
    torch.sim.set_stream(torch.sim.default_stream(1))
    event = side.record_event()
    assert event.query()
    event.wait(torch.sim.current_stream())
    assert side.query()
    torch.ones(2, device="sim:1").record_stream(side)


def test_an_event_marks_the_current_device():
    """Without a stream it is the current device's, whatever device the event was made for, as in PyTorch."""
    start, end = (torch.Event("sim:1", enable_timing=True) for _ in range(2))
    assert start.device == torch.device("sim")
    start.record()
    assert start.device == torch.device("sim:0")
    end.record(torch.sim.current_stream(1))
    with pytest.raises(RuntimeError, match="the events mark two devices"):
        start.elapsed_time(end)
    with pytest.raises(RuntimeError, match="does not match recording stream's device 1"):
        start.record(torch.sim.current_stream(1))
    with torch.sim.device(1):
        end.record()
    torch.Event("sim").synchronize()  # an event that was never recorded: no wait


def test_a_stream_brings_its_device():
    """Whoever enters a stream, or sets it, works on its device, as in PyTorch."""
    side = torch.Stream("sim:1")
    with side, side:
        assert torch.accelerator.current_device_index() == 1
    assert torch.accelerator.current_device_index() == 0
    assert torch.sim.current_stream(1) == torch.sim.default_stream(1)
    torch.accelerator.set_stream(side)
    assert torch.accelerator.current_device_index() == 1
    torch.sim.set_stream(torch.sim.default_stream(1))
    torch.sim.set_device(0)


def test_each_thread_has_its_own_current_stream():
    """A thread begins in the default stream, and what it chooses is chosen for it alone."""
    side, seen = torch.sim.Stream(), []

    def elsewhere():
        seen.append(torch.sim.current_stream())
        torch.sim.set_stream(torch.sim.Stream())

    with torch.sim.stream(side):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert torch.sim.current_stream() == side
    assert seen == [torch.sim.default_stream()]


def test_whoever_waits_lets_a_thread_start_its_copy():
    """A thread that loads ahead starts its copy before a host that waits brings the clock forward."""
    source, work = torch.ones(1 << 18).pin_memory(), torch.ones(1 << 22, device="sim")
    go, begun = threading.Event(), []

    def load():
        source.to("sim", non_blocking=True)  # the simulator gets to know the thread
        go.wait()
        begun.append(clock.now())
        source.to("sim", non_blocking=True)

    thread = threading.Thread(target=load)
    thread.start()
    torch.sim.synchronize()
    for _ in range(20):
        work.mul_(1.0)
    go.set()
    torch.sim.synchronize()
    thread.join()
    assert begun[0] < clock.now()


def test_devices_run_beside_each_other():
    """Work on both takes hardly longer than work on one."""
    x, y = torch.ones(MIB, device="sim:0"), torch.ones(MIB, device="sim:1")
    torch.sim.synchronize(0), torch.sim.synchronize(1)
    before = clock.now()
    for _ in range(10):
        x * 2.0, y * 2.0
    torch.sim.synchronize(0)
    torch.sim.synchronize(1)
    one = SPEC.shortest + 8 * MIB / SPEC.bandwidth
    assert clock.now() - before < 12 * one


def test_real_waits_take_real_time():
    """time.perf_counter sees the device's time."""
    clock.real_waits(True)
    x = torch.ones(1 << 20, device="sim")

    def ten() -> tuple[float, float]:
        torch.sim.synchronize()
        start = time.perf_counter()
        for _ in range(10):
            x.mul_(1.0)
        launched = time.perf_counter() - start
        torch.sim.synchronize()
        return launched, time.perf_counter() - start

    took = [ten() for _ in range(3)]
    assert all(finished > 10 * 2 * x.nbytes / specs.SLOW_MOTION.bandwidth for _, finished in took)
    # A busy machine may hold the host up while it launches, though hardly each time.
    assert any(launched < finished / 2 for launched, finished in took)


def test_with_real_waits_a_copy_lands_by_itself():
    """When its time has come, even if the program does not wait."""
    clock.real_waits(True)
    x = torch.ones(1 << 20, device="sim")
    y = x[:1].to("cpu", non_blocking=True)
    assert y.tolist() == [0]
    time.sleep(2 * clock.LANDS_AFTER)
    assert y.tolist() == [1]


def test_slow_motion_ends_with_the_block_that_needs_the_model():
    """What is modelled stays modelled while waits are real elsewhere."""
    x = torch.ones(1 << 20, device="sim")

    def modelled() -> float:
        with clock.virtual():
            torch.sim.synchronize()
            before = clock.now()
            x.mul_(1.0)
            torch.sim.synchronize()
            return clock.now() - before

    wanted = modelled()
    clock.real_waits(True)
    assert modelled() == pytest.approx(wanted)
    start = time.perf_counter()
    x.mul_(1.0)
    torch.sim.synchronize()
    assert time.perf_counter() - start > wanted


def test_observers_hear_of_everything():
    """Launches, transfers, synchronizations and allocations, in order."""
    heard = []
    events.observers.append(heard.append)
    try:
        x = torch.ones(4).to("sim:1")
        (x + x).sum().item()
        torch.sim.synchronize(1)
    finally:
        events.observers.clear()
    kinds = {type(event).__name__ for event in heard}
    assert kinds == {"Launch", "Transfer", "Synchronization", "Allocation"}
    first = next(event for event in heard if isinstance(event, events.Transfer))
    assert (first.source, first.target, first.bytes, first.pinned, first.blocking) == (
        "cpu",
        "sim:1",
        16,
        False,
        True,
    )
    assert [e.operator for e in heard if isinstance(e, events.Launch)] == ["aten::add.Tensor", "aten::sum"]


def test_pinned_memory_is_known_while_it_lives():
    """Views count, copies do not, and nothing is remembered of the dead."""
    x = torch.ones(4)
    assert not x.is_pinned()
    y = x.pin_memory()
    assert y.is_pinned()
    assert y[1:].is_pinned()
    assert y.pin_memory() is y
    assert torch.equal(x, y)
    like, there = torch.ones(2, 3), torch.ones(2, 3, device="sim")
    for made in (
        torch.empty(3, pin_memory=True),
        torch.randint(0, 9, (3,), pin_memory=True),
        torch.empty_strided((3,), (1,), pin_memory=True),
        torch.ones_like(like, pin_memory=True),
        torch.full_like(like, 2.0, pin_memory=True),
        like.new_zeros(3, pin_memory=True),
        there.new_empty(there.shape, device="cpu", pin_memory=True),
    ):
        assert made.is_pinned()
    assert not like.new_zeros(3).is_pinned()
    assert there.new_zeros(3).device == there.device
    assert not torch.empty(3).is_pinned()
    noted = len(data._pinned)
    del y
    assert len(data._pinned) == noted - 1
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(2, device="sim").pin_memory()


def test_pinning_keeps_the_host_and_a_thread_beside_it_keeps_nobody():
    """A loader without workers pins in the main thread (`_next_data`), one with workers in another thread."""
    x = torch.ones(MIB)
    torch.sim.synchronize()
    before = clock.now()
    y = x.pin_memory()
    assert clock.now() - before == pytest.approx(x.nbytes / SPEC.staging)
    y.pin_memory()
    thread = threading.Thread(target=x.pin_memory)
    thread.start()
    thread.join()
    assert clock.now() - before == pytest.approx(x.nbytes / SPEC.staging)


@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_pin(workers):
    """With and without worker processes."""
    data = torch.utils.data.TensorDataset(torch.arange(8.0), torch.arange(8))
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=workers, pin_memory=True)
    seen = []
    for x, y in loader:
        assert x.is_pinned()
        assert y.is_pinned()
        seen += x.to("sim", non_blocking=True).tolist()
    assert seen == list(range(8))


@given(st.lists(st.tuples(st.sampled_from("kcrsw"), st.integers(0, 1), st.integers(1, 1 << 22))))
def test_no_clock_ever_runs_backwards(steps):
    """Any sequence of launches, copies and waits on two devices."""
    clock.reset()
    latest, busy = 0.0, [0.0, 0.0]
    for what, index, size in steps:
        if what == "k":
            clock.launch(index, size)
        elif what == "c":
            clock.copy(index, size, True, pinned=bool(size % 2))
        elif what == "r":
            clock.copy(index, size, False, pinned=True)
        elif what == "s":
            clock.wait_for_device(index)
            assert clock.now() >= device_time(index)
        else:
            clock.copy_between(index, 1 - index, size)
        assert clock.now() >= latest
        latest = clock.now()
        for device in (0, 1):
            assert device_time(device) >= busy[device]
            busy[device] = device_time(device)


def test_a_stream_is_made_again_from_its_number(device):
    """As PyTorch does when it hands a stream to another library; a number that no stream has is refused."""
    made = torch.Stream(device)
    parts = {"stream_id": made.stream_id, "device_index": made.device_index, "device_type": made.device_type}
    assert torch.Stream(**parts) == made
    assert torch.sim.Stream(**parts | {"stream_id": 0}) == torch.sim.default_stream(device)
    with pytest.raises(ValueError, match="has no stream of the number 98765"):
        torch.Stream(**parts | {"stream_id": 98765})


def test_a_slice_of_a_pinned_storage_is_pinned():
    """CUDA is asked for an address, and one in the middle of pinned memory is pinned."""
    pinned = torch.arange(10.0).pin_memory()
    storage = pinned.untyped_storage()
    assert [part.is_pinned() for part in (storage, storage[8:24], storage[36:])] == [True] * 3
    assert pinned[3:].is_pinned()
    assert not torch.arange(10.0).untyped_storage()[8:24].is_pinned()
