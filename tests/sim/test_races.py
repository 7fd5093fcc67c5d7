"""Work that does not wait for another stream computes with old contents, while races are visible."""

import random
import threading
import time

import pytest
import torch

import devlab.sim
from devlab.checks.settings import preserve_state
from devlab.sim import clock, racing

MIB = 1 << 20


@pytest.fixture(params=["virtual", "real"], autouse=True)
def either_clock(request):
    """Let waits be virtual, and then real."""
    clock.reset()
    clock.real_waits(request.param == "real")
    yield
    clock.real_waits(False)
    clock.reset()
    assert not racing.visible


@pytest.fixture
def races(either_clock):
    """Make races visible in a test, and see that nothing is left behind."""
    with devlab.sim.races():
        yield
    assert not racing._records
    assert not racing._leaving


@pytest.fixture
def side():
    """Return a second stream of the current device."""
    return torch.Stream("sim")


def keep_busy():
    """Let the current stream copy for 6 ms, or for 160 ms by real waits, since machines are busy too."""
    clock.copy(0, 64 * MIB, into=True, pinned=True)


def brought(side, values=1.0, busy=True, **how):
    """Copy four numbers from pinned memory in another, busy stream; return what will be there."""
    pinned = torch.full((4,), values).pin_memory()
    with side:
        if busy:
            keep_busy()
        return pinned.to("sim", non_blocking=True, **how)


def by_event(side):
    """Let the current stream wait for an event."""
    torch.accelerator.current_stream().wait_event(side.record_event())


def by_asking(side):
    """Ask an event until it is reached."""
    event = side.record_event()
    while not event.query():
        pass


WAITS = {
    "wait_stream": lambda side: torch.accelerator.current_stream().wait_stream(side),
    "wait_event": by_event,
    "event.wait": lambda side: side.record_event().wait(),
    "stream.synchronize": lambda side: side.synchronize(),
    "event.synchronize": lambda side: side.record_event().synchronize(),
    "synchronize": lambda side: torch.accelerator.synchronize(),
    "query": by_asking,
}


def test_they_are_hidden_until_asked_for(side):
    """Without `races` every result is everywhere at once, and nothing is noted."""
    assert (brought(side) + 1).tolist() == [2, 2, 2, 2]
    assert not racing._records


def test_work_that_does_not_wait_finds_what_was_there(races, side):
    """Zeros in fresh memory: by an elementwise operator, a product, a list, and a copy to the host."""
    weight = torch.full((4,), 3.0, device="sim")
    x = brought(side)
    early = x + 1, x @ weight, torch.cat([x, weight]), x.cpu()
    assert [value.tolist() for value in early] == [
        [1, 1, 1, 1],
        0,
        [0, 0, 0, 0, 3, 3, 3, 3],
        [0, 0, 0, 0],
    ]
    torch.accelerator.synchronize()
    assert (x + 1).tolist() == [2, 2, 2, 2]
    assert (x @ weight).item() == 12


@pytest.mark.parametrize("wait", WAITS)
def test_each_kind_of_wait_cures_it(races, side, wait):
    """Waits of the stream, of the host, and questions until the answer is yes."""
    x = brought(side)
    WAITS[wait](side)
    assert (x + 1).tolist() == [2, 2, 2, 2]


def test_with_real_waits_a_copy_also_arrives_by_itself(races, side):
    """When its time has long come, as in a program that does something else meanwhile."""
    clock.real_waits(True)
    x = brought(side)
    assert (x + 1).tolist() == [1, 1, 1, 1]
    x = brought(side)
    time.sleep(4 * clock.LANDS_AFTER)
    assert (x + 1).tolist() == [2, 2, 2, 2]


def test_work_in_the_same_stream_needs_no_wait(races, side):
    """A queue works in order."""
    pinned = torch.ones(4).pin_memory()
    assert (pinned.to("sim", non_blocking=True) + 1).tolist() == [2, 2, 2, 2]
    with side:
        assert (brought(side) + 1).tolist() == [2, 2, 2, 2]


def test_a_blocking_copy_needs_no_wait(races, side):
    """The host has waited for it."""
    with side:
        x = torch.ones(4).to("sim")
    assert (x + 1).tolist() == [2, 2, 2, 2]


def test_a_buffer_shows_its_old_numbers(races, side):
    """Of the part into which the copy goes, through every name of the memory."""
    buffer = torch.arange(6.0, device="sim")
    pinned = torch.full((2,), 9.0).pin_memory()
    with side:
        keep_busy()
        buffer[2:4].copy_(pinned, non_blocking=True)
    assert [(part + 0).tolist() for part in (buffer, buffer[3:], buffer.view(2, 3).t()[0])] == [
        [0, 1, 2, 3, 4, 5],
        [3, 4, 5],
        [0, 3],
    ]
    torch.accelerator.synchronize()
    assert buffer.tolist() == [0, 1, 9, 9, 4, 5]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int32, torch.bool])
def test_a_copy_that_changes_the_dtype(races, side, dtype):
    """The new elements are there when the device has converted them."""
    x = brought(side, dtype=dtype)
    early = x.clone()
    torch.accelerator.current_stream().wait_stream(side)
    assert (early.tolist(), x.tolist()) == ([0] * 4, [1] * 4)


def test_results_of_another_stream(races, side):
    """What a kernel there has not computed yet, new or in place, is not found."""
    x = torch.ones(4, device="sim")
    torch.accelerator.synchronize()
    with side:
        y = x * 5
        x.add_(1)
    early = torch.stack([x, y])
    torch.accelerator.current_stream().wait_stream(side)
    assert early.tolist() == [[1] * 4, [0] * 4]
    assert torch.stack([x, y]).tolist() == [[2] * 4, [5] * 4]


@pytest.mark.parametrize("name", ["maximum", "place", "of another size"])
def test_results_that_are_written_into_out(races, side, name):
    """By an operator of two results, and by one that gives its result more memory."""
    x, one = torch.tensor([1.0, 3.0], device="sim"), torch.ones((), device="sim")
    results = {"maximum": one, "place": one.long(), "of another size": torch.empty(0, device="sim")}
    torch.accelerator.synchronize()
    with side:
        keep_busy()
        torch.max(x, 0, out=(results["maximum"], results["place"]))
        torch.mul(x, 2, out=results["of another size"])
    early = results[name].clone()
    torch.accelerator.synchronize()
    wanted = {"maximum": (1, 3), "place": (1, 1), "of another size": ([0, 0], [2, 6])}
    assert (early.tolist(), results[name].tolist()) == wanted[name]


def test_work_before_a_copy_has_no_say_in_what_arrives(races, side):
    """What it writes into the same memory meanwhile is overwritten, and other elements stay."""
    buffer = torch.zeros(4, device="sim")
    pinned = torch.ones(2).pin_memory()
    with side:
        keep_busy()
        buffer[:2].copy_(pinned, non_blocking=True)
    buffer.add_(5)
    assert (buffer + 0).tolist() == [5, 5, 5, 5]
    torch.accelerator.synchronize()
    assert buffer.tolist() == [1, 1, 5, 5]


def test_work_that_ends_after_a_copy_has_the_last_word(races, side):
    """It began with the old numbers, and writes whole elements, of which only some bytes are new."""
    buffer, pinned = torch.ones(MIB // 16, device="sim"), torch.full((2,), 7.3).pin_memory()
    torch.accelerator.synchronize()
    with side:
        buffer[:2].copy_(pinned, non_blocking=True)
    buffer.add_(0.5)
    torch.accelerator.synchronize()
    assert buffer[:3].tolist() == [1.5, 1.5, 1.5]


def test_a_copy_to_another_device_or_to_the_host_does_not_wait_either(races, side):
    """Each finds what its stream has waited for."""
    x, back = brought(side), torch.full((4,), 8.0).pin_memory()
    back.copy_(x, non_blocking=True)
    there = brought(side).to("sim:1")
    torch.accelerator.synchronize()
    assert there.tolist() == back.tolist() == [0, 0, 0, 0]
    assert x.to("sim:1").tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(("source", "target"), [(0, 1), (1, 0)])
def test_a_copy_between_devices_finds_what_either_stream_has_waited_for(races, source, target):
    """PyTorch has the stream of the source wait for the target's before the copy."""
    x, side = torch.zeros(4, device=f"sim:{source}"), torch.Stream(f"sim:{source}")
    torch.accelerator.synchronize(source)
    with side:
        clock.copy(source, 16 * MIB, into=True, pinned=True)
        x.add_(1)
    torch.sim.current_stream(target).wait_stream(side)
    assert x.to(f"sim:{target}").tolist() == [1, 1, 1, 1]


# Ways to keep the side stream's next copy from the memory that the main stream still reads.
GUARDS = {
    "none": lambda side, x: None,
    "record_stream": lambda side, x: x.record_stream(torch.accelerator.current_stream()),
    "the side stream waits": lambda side, x: side.wait_stream(torch.accelerator.current_stream()),
    "the host waits": lambda side, x: torch.accelerator.synchronize(),
}


def work_on(x):
    """Keep the main stream busy, and then read `x` there."""
    clock.launch(0, 1e-3 * clock.devices[0].spec.bandwidth)
    return (x * 2).sum()


@pytest.mark.parametrize("guard", GUARDS)
def test_a_freed_block_is_copied_over_while_it_is_read(races, side, guard):
    """CUDA's allocator gives it to the side stream at once. On an H200, 175 of 200 sums were wrong."""
    sums = []
    for number in range(1, 5):
        x = brought(side, float(number), busy=False)
        by_event(side)
        sums.append(work_on(x))
        GUARDS[guard](side, x)
        del x
    found = torch.stack(sums).tolist()
    assert found == ([32, 32, 32, 32] if guard == "none" else [8, 16, 24, 32])


def test_a_block_in_use_is_not_copied_over(races, side):
    """The next copy goes into other memory while a name of the batch lives."""
    x = brought(side, 1.0, busy=False)
    by_event(side)
    total = work_on(x)
    y = brought(side, 2.0, busy=False)
    by_event(side)
    assert (total.item(), y.tolist()) == (8, [2] * 4)


def test_a_part_of_a_freed_block_may_be_written_again(races, side):
    """The allocator splits it: elements beyond the new tensor stay."""
    with side:
        x = torch.ones(1024, device="sim")
    by_event(side)
    clock.launch(0, 1e-3 * clock.devices[0].spec.bandwidth)
    doubled, pinned = x * 2, torch.full((512,), 5.0).pin_memory()
    del x
    with side:
        y = pinned.to("sim", non_blocking=True)
    by_event(side)
    assert (doubled[:512].unique().tolist(), doubled[512:].unique().tolist()) == ([10], [2])
    assert y.sum().item() == 2560


def test_a_buffer_is_copied_over_while_it_is_read(races, side):
    """The memory of one tensor, too: the copy has to wait for the work that reads the old numbers."""
    main = torch.accelerator.current_stream()
    for waits in (True, False):
        buffer, pinned = torch.ones(4, device="sim"), torch.full((4,), 3.0).pin_memory()
        torch.accelerator.synchronize()
        total = work_on(buffer)
        with side:
            if waits:
                side.wait_stream(main)
            buffer.copy_(pinned, non_blocking=True)
        main.wait_stream(side)
        assert (total.item(), buffer.tolist()) == (8 if waits else 24, [3] * 4)


def test_what_reads_the_wrong_result_is_wrong_too(races, side):
    """In place, through views, and on its way to the host; what was there before stays."""
    total, home = torch.full((2, 4), 10.0, device="sim"), torch.zeros(4).pin_memory()
    x = brought(side, 1.0, busy=False)
    by_event(side)
    clock.launch(0, 1e-3 * clock.devices[0].spec.bandwidth)
    total[1].add_(x)
    y = total.t()[:, 1].clone()
    home.copy_(x, non_blocking=True)
    del x
    kept = brought(side, 7.0, busy=False)
    torch.accelerator.synchronize()
    assert (total.tolist(), y.tolist()) == ([[10] * 4, [17] * 4], [17] * 4)
    assert home.tolist() == kept.tolist() == [7] * 4


def test_memory_that_is_not_filled_is_zero(races):
    """So a race shows the same numbers every time."""
    for _ in range(3):
        torch.full((1000,), torch.nan, device="sim")
        assert not torch.empty(1000, device="sim").any().item()
        assert not torch.empty_strided((1000,), (1,), device="sim").any().item()


def test_the_host_may_still_change_what_has_not_left(races, side):
    """Pinned memory that is overwritten before its copy has left sends the new numbers, and later none."""
    pinned = torch.ones(4).pin_memory()
    keep_busy()
    x, half = pinned.to("sim", non_blocking=True), pinned.to("sim", torch.float16, non_blocking=True)
    pinned.fill_(2.0)
    assert (x + 1).tolist() == [3, 3, 3, 3]
    torch.accelerator.synchronize()
    pinned.fill_(4.0)
    assert x.tolist() == half.tolist() == [2, 2, 2, 2]


def test_a_pinned_source_whose_copy_was_waited_for_is_free(races, side):
    """Also where the source is overwritten before anything reads the copy; ordinary memory always is."""
    pinned, ordinary = torch.ones(4).pin_memory(), torch.ones(4)
    x = pinned.to("sim", non_blocking=True)
    y = ordinary.to("sim", non_blocking=True)
    ordinary.fill_(4.0)
    torch.accelerator.synchronize()
    pinned.fill_(4.0)
    assert x.tolist() == y.tolist() == [1, 1, 1, 1]


def test_a_thread_that_loads_ahead(races):
    """Its copies are found by a stream of another thread that waits for them, and by no other."""
    found = {}
    for waits in (False, True):
        side, arrived, given = torch.Stream("sim"), [], threading.Event()

        def load(side=side, arrived=arrived, given=given):
            x = brought(side, 6.0)
            arrived.append((x, side.record_event()))
            given.set()

        thread = threading.Thread(target=load)
        thread.start()
        given.wait()
        ((x, event),) = arrived
        if waits:
            torch.accelerator.current_stream().wait_event(event)
        found[waits] = (x + 1).tolist()
        thread.join()
    assert found == {False: [1, 1, 1, 1], True: [7, 7, 7, 7]}


def test_the_memory_is_counted_as_ever(side):
    """The notes hold no memory of the device, and what dies is given back at once."""
    figures = []
    for on in (False, True):
        torch.sim.empty_cache()
        torch.sim.reset_peak_memory_stats()
        with devlab.sim.races(on):
            before = torch.sim.memory_allocated()
            x = brought(side)
            y = torch.zeros(1000, device="sim").add_(1)
            z = (x + 1).sum() + y.sum()
            held = torch.sim.memory_allocated() - before
            del x, y, z
            figures.append((held, torch.sim.memory_allocated() - before, torch.sim.max_memory_allocated()))
    assert figures[0] == figures[1]


def test_times_are_those_without_races(side):
    """What a program takes does not depend on what it shows."""
    ends = []
    with clock.virtual():
        for on in (False, True):
            clock.reset()
            with devlab.sim.races(on):
                x = brought(side)
                (x @ x + x.to(torch.float64)).cpu()
            ends.append(clock.now())
    assert ends[0] == ends[1]


def test_random_numbers_and_gradients_are_those_without_races():
    """A training step in one stream has no race."""
    losses = []
    for on in (False, True):
        with devlab.sim.races(on):
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(), torch.nn.Linear(8, 1))
            model.to("sim")
            optimizer = torch.optim.AdamW(model.parameters())
            x = torch.randn(16, 4, device="sim")
            for _ in range(3):
                optimizer.zero_grad()
                loss = model(x).square().mean()
                loss.backward()
                optimizer.step()
            losses.append(loss.item())
    assert losses[0] == losses[1]


def steps_that_wait(seed, on):
    """Take random steps in random streams, each after all the others, and return what came of it."""
    choose = random.Random(seed)
    with devlab.sim.races(on):
        streams = [torch.sim.default_stream(0), torch.Stream("sim"), torch.Stream("sim")]
        values = [torch.arange(12.0, device="sim").view(3, 4) + place for place in range(3)]
        for number in range(30):
            stream, place = choose.choice(streams), choose.randrange(3)
            for other in streams:
                stream.wait_event(other.record_event())
            pinned = torch.full((3, 4), float(number)).pin_memory()
            with stream:
                x, y = values[place], choose.choice(values)
                match choose.randrange(7):
                    case 0:
                        values[place] = pinned.to("sim", non_blocking=True)
                    case 1:
                        x[1:].copy_(pinned[1:], non_blocking=True)
                    case 2:
                        x.add_(y)
                    case 3:
                        values[place] = (x @ y.t()).softmax(1) @ x
                    case 4:
                        torch.sub(x, y, out=x)
                    case 5:
                        x[0, 1] = number
                    case 6:
                        values[place] = x.to("sim:1").to("sim:0")
        torch.accelerator.synchronize()
        return torch.stack(values).cpu()


@pytest.mark.parametrize("seed", range(10))
def test_a_program_that_waits_has_the_results_that_it_has_without_races(seed):
    """Each step finds what the steps before it wrote."""
    assert torch.equal(steps_that_wait(seed, True), steps_that_wait(seed, False))


def test_when_the_block_ends_everything_has_arrived(side):
    """Blocks nest, and a call without a block holds until the next."""
    with devlab.sim.races():
        x = brought(side)
        with devlab.sim.races(False):
            assert (x + 1).tolist() == [2, 2, 2, 2]
        assert racing.visible
        y = brought(side)
        pinned = torch.ones(4).pin_memory()
        z = pinned.to("sim", non_blocking=True)
        pinned.fill_(3.0)
    assert (y + z).tolist() == [4, 4, 4, 4]
    devlab.sim.races(True)
    assert (brought(side) + 1).tolist() == [1, 1, 1, 1]
    devlab.sim.races(False)
    assert (brought(side) + 1).tolist() == [2, 2, 2, 2]


def test_an_operator_that_fails_leaves_the_memory_as_it_was(races, side):
    """Its error is the usual one, and what was under way arrives."""
    x = brought(side)
    with pytest.raises(RuntimeError, match="must match the size"):
        x + torch.ones(3, device="sim")
    torch.accelerator.synchronize()
    assert x.tolist() == [1, 1, 1, 1]


def test_apples_rules_hold_beside(races):
    """The general path of every operator serves both."""
    with devlab.sim.rules("mps"):
        assert (torch.ones(2, device="sim") + 1).tolist() == [2, 2]
        with pytest.raises(TypeError, match="float64"):
            torch.ones(2, device="sim").double()


def test_a_check_sees_no_races(races, side):
    """Exercises are judged as if none were visible, and the notebook goes on as before."""
    with preserve_state():
        assert (brought(side) + 1).tolist() == [2, 2, 2, 2]
    assert (brought(side) + 1).tolist() == [1, 1, 1, 1]


def test_a_copy_that_lands_and_an_operator_never_wait_for_each_other():
    """A timer lands a copy that looks at memory, while an operator that looks at memory lands copies."""
    in_operator, ended = threading.Event(), threading.Event()

    def land():
        with racing._lock:
            pass

    def operator():
        with racing._lock:
            in_operator.set()
            time.sleep(0.05)  # until the timer is at its copy
            clock.deliver()
        ended.set()

    clock.arrive(clock.now(), land)
    threading.Thread(target=operator, daemon=True).start()
    in_operator.wait()
    threading.Thread(target=clock.deliver, daemon=True).start()
    assert ended.wait(10)
    clock.deliver()


def test_apples_gpu_reads_ordinary_memory_when_the_copys_turn_comes():
    """PyTorch lends it the host's pages (issues 189690 and 139550), where CUDA stages the bytes at once."""
    found = {}
    for rules in ("cuda", "mps"):
        with devlab.sim.rules(rules), devlab.sim.races():
            square = torch.ones(512, 512, device="sim:0")
            for _ in range(20):
                square @ square
            source = torch.ones(8)
            copied = source.to("sim:0", non_blocking=True)
            source.zero_()
            found[rules] = copied.cpu().tolist()
    assert found == {"cuda": [1.0] * 8, "mps": [0.0] * 8}
