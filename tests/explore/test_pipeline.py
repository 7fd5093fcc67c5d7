"""The pipeline's picture: its times against the simulated chip's rates, and what each switch does."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

import devlab.sim
from devlab.explore.controls import Refused
from devlab.explore.pictures import pipeline
from devlab.explore.pictures.pipeline import COMPUTING, LOADING, State, Way, run_epoch
from devlab.explore.scene import Words
from devlab.sim import clock
from devlab.sim.specs import CUDA_LIKE
from devlab.watching.memory import duration

SECONDS, (ROWS, INPUTS, OUTPUTS) = pipeline.SIMULATED
BYTES = 4 * ROWS * INPUTS
PRODUCT = CUDA_LIKE.shortest + 2 * ROWS * INPUTS * OUTPUTS / CUDA_LIKE.rate
PAGEABLE = CUDA_LIKE.shortest + BYTES / CUDA_LIKE.pageable
PINNED = CUDA_LIKE.shortest + BYTES / CUDA_LIKE.pinned
LAUNCH, STARTED = CUDA_LIKE.launch, CUDA_LIKE.product  # what the host takes to start a copy, and a product
# When the plainest loop has started the first product, and when that is done and the second batch has come.
BEGUN = SECONDS + LAUNCH + PAGEABLE + STARTED
SECOND = f"from {duration(BEGUN + PRODUCT)} to {duration(BEGUN + SECONDS + LAUNCH + PAGEABLE)}, simulated"
SWIFT = Way(5, pinned=True, non_blocking=True, side_stream=True, workers=2)


@pytest.fixture(autouse=True)
def simulated():
    """Here everything runs on the simulated device."""
    devlab.sim.enable()


def lasting(spans) -> list[float]:
    """Return how long each stretch takes."""
    return [end - start for start, end in spans]


def test_the_plainest_loop_is_the_sum_of_its_steps():
    """The host waits for the copy, the copy for the product before it; only loading has company."""
    lanes = run_epoch(Way(5), "sim:0")
    assert lasting(lanes.loads) == pytest.approx([SECONDS] * 5)
    assert lasting(lanes.copies)[0] == pytest.approx(LAUNCH + PAGEABLE, abs=2e-9)
    assert lasting(lanes.computations)[0] == pytest.approx(STARTED + PRODUCT, abs=2e-9)
    assert lanes.waits[0] == pytest.approx(lanes.copies[0])
    beside = PRODUCT - SECONDS  # the product goes on while the host loads
    assert 0 <= beside < LAUNCH  # and is done in time for the next copy, or a launch later
    assert lanes.total == pytest.approx(5 * (SECONDS + LAUNCH + STARTED + PAGEABLE) + PRODUCT, rel=0.02)


def test_without_workers_the_host_pins_each_batch_while_it_loads():
    """As a loader does, so nothing is gained; workers' batches are pinned beside the loop."""
    filling = BYTES / CUDA_LIKE.staging
    alone, helped = (run_epoch(Way(5, pinned=True, workers=count), "sim:0") for count in (0, 2))
    assert lasting(alone.loads) == pytest.approx([SECONDS + filling] * 5, abs=2e-9)
    assert lasting(helped.loads) == pytest.approx([SECONDS] * 5, abs=2e-9)
    for non_blocking in (False, True):
        pinned, staged = (
            run_epoch(Way(5, pinned=pin, non_blocking=non_blocking), "sim:0") for pin in (True, False)
        )
        assert pinned.total == pytest.approx(staged.total, abs=1e-8)


def test_pinned_copies_are_faster_and_wait_all_the_same():
    """Three times as fast in the model; without non_blocking the host stands by."""
    lanes = run_epoch(Way(5, pinned=True, workers=1), "sim:0")
    assert lasting(lanes.copies)[0] == pytest.approx(LAUNCH + PINNED, abs=2e-9)
    assert len(lanes.waits) > 5  # for the worker and for the copies
    assert lanes.total < run_epoch(Way(5, workers=1), "sim:0").total


def test_from_pageable_memory_the_host_is_kept_while_the_bytes_are_staged():
    """With non_blocking=True it waits neither for the copy nor for the product before it."""
    lanes, plain = run_epoch(Way(5, non_blocking=True), "sim:0"), run_epoch(Way(5), "sim:0")
    assert lasting(lanes.waits) == pytest.approx([LAUNCH + BYTES / CUDA_LIKE.staging] * 5, abs=2e-9)
    assert lanes.total < plain.total
    explorer = pipeline.explorer()
    explorer.set(non_blocking=True)
    assert "the host is kept while the bytes are staged" in explorer.words
    explorer.set(pinned=True)
    assert "staged" not in explorer.words
    assert "The host loads and pins" in explorer.words


def test_pinned_and_non_blocking_the_host_never_waits():
    """It loads and pins the next batch while the device works."""
    lanes = run_epoch(Way(5, pinned=True, non_blocking=True), "sim:0")
    assert lanes.waits == ()
    assert lanes.loads[1][0] == pytest.approx(lanes.loads[0][1] + LAUNCH + STARTED, abs=2e-9)
    # Copies and products still take turns: they are in one stream.
    for number in range(1, 5):
        assert lanes.copies[number][0] >= lanes.computations[number - 1][1] - 2e-9


def test_in_a_stream_of_their_own_copies_run_beside_products():
    """Products alone are in turn then, and none begins before its copy has come."""
    lanes = run_epoch(SWIFT, "sim:0")
    assert lanes.copies[1][0] < lanes.computations[0][1]
    for copied, computed in zip(lanes.copies, lanes.computations, strict=True):
        assert computed[0] >= copied[1] - 2e-9
    assert lanes.total == pytest.approx(SECONDS + LAUNCH + PINNED + 5 * PRODUCT, rel=0.02)


def test_workers_load_side_by_side_and_not_too_far_ahead():
    """Two at most for each worker lie ready, as with DataLoader."""
    one, four = (run_epoch(replace(SWIFT, workers=count, loading=3), "sim:0") for count in (1, 4))
    assert [start for start, _ in four.loads[:4]] == [0.0] * 4
    assert one.loads[1][0] == pytest.approx(one.loads[0][1])
    assert four.total < 0.6 * one.total
    slow = run_epoch(Way(8, workers=1, computing=3), "sim:0")
    gaps = [after[0] - before[1] for before, after in pairwise(slow.loads)]
    assert gaps[:1] == pytest.approx([0.0], abs=1e-8)
    assert all(gap > SECONDS for gap in gaps[3:])  # two lie ready, and the worker stands still


@pytest.mark.parametrize(("longest", "lane"), [(LOADING, "load"), (COMPUTING, "compute")])
def test_the_longest_step_is_the_busiest_lane(longest, lane):
    """However the loop is written."""
    explorer = pipeline.explorer()
    explorer.set(longest=longest)
    assert f"the busiest lane is “{lane}”" in explorer.words


def test_every_batch_is_in_every_lane():
    """As many as there are to be, numbered."""
    explorer = pipeline.explorer()
    for batches in (2, 5, 8):
        explorer.set(batches=batches)
        numbers = [text for text in written(explorer) if text.isdigit()]
        assert sorted(numbers) == sorted(["0", *[str(one + 1) for one in range(batches)] * 3])
        bars = {f"{lane} {batch}" for lane in ("load", "copy", "compute") for batch in range(batches)}
        assert bars <= set(shapes(explorer))
        assert f"copy {batches}" not in shapes(explorer)
        assert f"{batches} batches take" in explorer.words


def test_the_scale_stays_when_a_switch_is_turned():
    """A faster loop is a shorter picture, and is played for a shorter time."""
    explorer = pipeline.explorer()
    before, scene = shapes(explorer), explorer.scene
    explorer.set(pinned=True, non_blocking=True, side_stream=True, workers=4)
    after = shapes(explorer)
    assert after["time 4"] == before["time 4"]
    assert "500 µs" in written(explorer)
    plainest, swift = (
        5 * (SECONDS + LAUNCH + PAGEABLE + STARTED) + PRODUCT,
        SECONDS + LAUNCH + PINNED + 5 * PRODUCT,
    )
    assert explorer.scene.seconds / scene.seconds == pytest.approx(swift / plainest, rel=1e-3)
    assert f"{swift / plainest:.0%} of the plainest loop's time" in explorer.words


def test_the_loop_before_stays_as_an_outline_and_the_difference_is_written():
    """Where its bars were; the first loop is guessed, every other one played at once."""
    explorer = pipeline.explorer()
    first = shapes(explorer)
    assert "Then press Play." in explorer.scene.guess
    assert not any(name.startswith("before") for name in first)
    explorer.set(pinned=True, non_blocking=True)
    now = shapes(explorer)
    for name in ("load 1", "host waits 2", "copy 3", "compute 4"):
        assert (now[f"before {name}"].x, now[f"before {name}"].wide) == (first[name].x, first[name].wide)
    assert now["before host waits 2"].hatched
    assert (explorer.scene.take, explorer.scene.guess) == (1, "")
    loading = SECONDS + BYTES / CUDA_LIKE.staging
    total = 5 * (loading + LAUNCH + STARTED) - STARTED + PINNED + PRODUCT
    difference = f"the epoch takes {duration(total)}, 1.2 times shorter than before"
    assert difference in written(explorer)
    assert explorer.scene.caption == (
        f"Simulated: {difference}, {duration(total / 5)} a batch; the device computes for "
        f"{5 * PRODUCT / total:.0%} of it, and the host waits for nothing."
    )
    assert "1.2 times shorter than before" in explorer.words
    explorer.set(pinned=True)  # which it was already
    assert explorer.scene.take == 1


def test_the_loop_before_is_compared_only_where_its_work_was_the_same():
    """More batches, or a longer step, take longer whatever the loop is like."""
    explorer = pipeline.explorer()
    for change in ({"batches": 8}, {"longest": LOADING}):
        explorer.set(**change)
        assert explorer.state.before is None
        assert "before" not in explorer.scene.caption
    explorer.set(workers=1)
    assert "than before" in explorer.scene.caption


def test_a_batch_stands_beside_its_floor():
    """Its longest step alone, and the rest that a better loop would save; a better loop comes nearer."""
    explorer = pipeline.explorer()
    explorer.set(longest=LOADING)
    assert explorer.state.floor == (pytest.approx(3 * SECONDS), "load")
    left = []
    for workers in (0, 4):
        explorer.set(workers=workers)
        drawn = shapes(explorer)
        needed, rest = drawn["batch needed"], drawn["batch to save"]
        until = drawn["head"].points[0][0] - drawn["time 0"].x
        assert (needed.wide + rest.wide) * 5 == pytest.approx(until, rel=0.01)
        assert rest.hatched
        assert needed.during == (1.0, 1.0)  # it is part of what the reader guesses
        left.append(rest.wide)
    assert left[1] < left[0]
    assert explorer.state.floor[1] == "compute"  # four workers load four batches at once


def test_a_bar_is_as_long_as_what_it_stands_for_and_says_so():
    """From when to when, and that it is simulated."""
    explorer = pipeline.explorer()
    lanes, drawn = explorer.state.lanes, shapes(explorer)
    (x, wide), (start, end) = (drawn["copy 1"].x, drawn["copy 1"].wide), lanes.copies[1]
    assert wide / (drawn["time 4"].x - drawn["time 0"].x) == pytest.approx((end - start) / 500e-6, rel=1e-3)
    assert drawn["copy 1"].during == pytest.approx((start / lanes.total, end / lanes.total))
    assert drawn["copy 1"].says == f"copy batch 2, {SECOND}"
    assert drawn["way 1 1"].points == (
        (x + wide, drawn["copy 1"].y + drawn["copy 1"].high),
        (drawn["compute 1"].x, drawn["compute 1"].y),
    )


def test_what_the_device_waits_for_is_hatched():
    """Before each batch that has not come when the one before it is done."""
    explorer = pipeline.explorer()
    idle = shapes(explorer)["idle 1"]
    assert idle.hatched
    assert idle.says == f"the device waits for batch 2, {SECOND}"
    explorer.set(pinned=True, non_blocking=True, side_stream=True, workers=2)
    assert [name for name in shapes(explorer) if name.startswith("idle")] == ["idle 0"]


def test_the_shares_are_not_told_before_the_end():
    """They are what the reader guesses."""
    assert shapes(pipeline.explorer())["lane compute below"].during == (1.0, 1.0)


def test_workers_lie_side_by_side():
    """Each has its own part of the lane."""
    explorer = pipeline.explorer()
    explorer.set(workers=4)
    loads = [shapes(explorer)[f"load {number}"] for number in range(5)]
    assert [load.high for load in loads] == [11] * 5
    assert len({load.y for load in loads[:4]}) == 4
    assert loads[4].y == loads[0].y


def test_shares_are_of_time_under_way():
    """Two workers at once do not make 200 %."""
    assert all(0 < share <= 1 for share in pipeline._shares(run_epoch(replace(SWIFT, workers=4), "sim:0")))


def test_a_real_device_is_asked_through_the_same_calls(monkeypatch):
    """By the host's own clock, and loading is slept; here the device is the simulated one."""
    monkeypatch.setattr(pipeline, "SIMULATED", (2e-3, (8, 16, 16)))
    monkeypatch.setattr(pipeline, "host_clock", lambda kind: pipeline.time.perf_counter)
    monkeypatch.setattr(pipeline, "time_of_one", lambda *shape: 1.0)
    slept = []
    monkeypatch.setattr(pipeline.time, "sleep", slept.append)
    run_epoch.cache_clear()
    lanes = run_epoch(Way(3), "sim:0")
    run_epoch.cache_clear()
    assert len(slept) == 3
    assert all(0 < seconds <= 2e-3 for seconds in slept)
    assert len(lanes.copies) == len(lanes.computations) == 3
    assert lanes.total > 0


def test_playing_works_while_waits_are_real():
    """The picture's clock is virtual whatever the lesson's is."""
    run_epoch.cache_clear()
    wanted = run_epoch(Way(2), "sim:0")
    run_epoch.cache_clear()
    clock.real_waits(True)
    try:
        lanes = run_epoch(Way(2), "sim:0")
    finally:
        clock.real_waits(False)
    assert lanes.total == pytest.approx(wanted.total)
    assert lasting(lanes.copies) == pytest.approx(lasting(wanted.copies))


@pytest.mark.usefixtures("empty_memory")
def test_nothing_is_left_on_the_device():
    """Neither batches nor the stream that was current."""
    before, stream = torch.sim.memory_allocated(), torch.sim.current_stream()
    run_epoch.cache_clear()
    run_epoch(SWIFT, "sim:0")
    assert torch.sim.memory_allocated() == before
    assert torch.sim.current_stream() == stream


def test_a_device_without_streams_gets_the_model(monkeypatch):
    """Neither the CPU nor Apple's GPUs have any."""
    for name in ("cpu", "mps:0"):
        monkeypatch.setattr(pipeline, "first_accelerator", lambda name=name: name)
        assert pipeline.explorer().words.startswith("Simulated: 5 batches")


def test_what_cannot_be_is_refused():
    """With the values that there are."""
    explorer = pipeline.explorer()
    with pytest.raises(Refused, match="batches is a whole number from 2 to 8, not 9"):
        explorer.set(batches=9)
    with pytest.raises(Refused, match="choose one of: 0, 1, 2, 4"):
        explorer.set(workers=3)


def test_every_text_can_be_read_at_the_extremes():
    """Most batches, most workers, fastest and slowest."""
    from explore.fitting import faults

    for longest, workers, swift in (
        (pipeline.ALIKE, 4, True),
        (LOADING, 0, False),
        (LOADING, 4, True),
        (COMPUTING, 4, False),
    ):
        state = State("sim:0", workers, swift, swift, swift, longest, 8)
        assert faults(pipeline.draw(state)) == [], state


def written(explorer) -> list[str]:
    """Return what is written in the picture."""
    return [shape.words for shape in explorer.scene.shapes if isinstance(shape, Words)]


def shapes(explorer) -> dict:
    """Return the shapes of the picture by their ids."""
    return {shape.id: shape for shape in explorer.scene.shapes}
