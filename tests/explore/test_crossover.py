"""The crossover: the crossing that the models must have, measured CPUs said to be, and every control."""

import asyncio
import math
from dataclasses import replace

import pytest
import torch
from explore.fitting import faults

from devlab import sim
from devlab.explore import live, stopwatch
from devlab.explore.controls import Refused
from devlab.explore.pictures import crossover
from devlab.explore.pictures.crossover import (
    COMES,
    RETURNS,
    STAYS,
    Found,
    State,
    Took,
    exactly,
    times,
)
from devlab.explore.scene import Words
from devlab.sim import clock
from devlab.sim.specs import CUDA_LIKE, HOST, MPS_LIKE
from devlab.watching.memory import duration

COPY, PRODUCT = (began + CUDA_LIKE.shortest for began in (CUDA_LIKE.launch, CUDA_LIKE.product))


@pytest.fixture(autouse=True, scope="module")
def simulated():
    """Let `sim:0` be there."""
    sim.enable()


@pytest.fixture
def explorer():
    """Return the explorer, opened nowhere, after the guess that the crossing is at 128."""
    explorer = crossover.explorer()
    look(explorer, looked_at=128)
    return explorer


def look(explorer, **values) -> None:
    """Set something, and guess where a guess is asked for."""
    explorer.set(**values)
    if explorer.state.asks:
        explorer.press(crossover.SHOW)


def draw(state: State):
    """Return the scene of a state after the guess."""
    return crossover.draw(state.guessed() if state.asks else state)


def describe(state: State) -> str:
    """Return the words for a state after the guess."""
    return crossover.describe(state.guessed() if state.asks else state)


def test_the_crossing_is_guessed_before_the_times_are_shown():
    """Once for an operation and its data; the guess stays in the picture, and is said."""
    explorer = crossover.explorer()
    for change in ({}, {"data": COMES}, {"operation": "x + 1"}):
        explorer.set(**change)
        assert explorer.scene.caption == crossover.ASK
        assert not [one for one in explorer.scene.shapes if one.id.startswith(("curve", "cpu", "crossing"))]
        assert faults(explorer.scene) == []
        handle = shape(explorer.scene, "handle")
        assert not any("takes" in stop.says for stop in handle.stops)
        explorer.set(**handle.stops[8].asks["set"])
        explorer.press(crossover.SHOW)
        assert explorer.scene.caption.endswith("; you said n = 128.")
        explorer.set(looked_at=16, dtype="float16")
        assert explorer.scene.caption.endswith("; you said n = 128.")
        explorer.set(dtype="float32")
        assert shape(explorer.scene, "guess").points[0][0] == handle.stops[8].x
    explorer.set(operation="x @ x", data=STAYS)
    assert not explorer.state.asks


def test_what_is_noise_is_said_with_an_offer_to_measure_again(explorer):
    """A spread wider than a third, or a larger size that took clearly less."""
    sides = explorer.state.sides

    def caption(change: dict[int, Took]) -> str:
        quiet = {side: around(1e-6 * (1 + (side / 64) ** 3), 1.01) for side in sides}
        found = tuple(Found(("cpu", "x @ x", "float32", STAYS), *one) for one in (quiet | change).items())
        return draw(replace(explorer.state, found=found)).caption

    assert "noise" not in caption({})
    assert "The times at n = 64 are noise, for something" in caption({64: Took(2e-6, 1.9e-6, 2.7e-6)})
    assert "The times at n = 16 are noise" in caption({16: around(3e-6, 1.01)})  # though it is sure of itself
    assert caption({side: Took(1e-6, 0.9e-6, 1.4e-6) for side in sides[:5]}).endswith(": measure again.")


def product(n: float, data: str) -> float:
    """Return what a product in float32 should take on the simulated chip, written down anew."""
    way = n * n * 4 / CUDA_LIKE.pageable + COPY
    ways = {STAYS: 0.0, COMES: way, RETURNS: 2 * way}[data]
    return ways + PRODUCT + max(2 * n**3 / CUDA_LIKE.rate, 12 * n * n / CUDA_LIKE.bandwidth)


@pytest.mark.parametrize("data", [STAYS, COMES])
def test_the_device_takes_what_its_data_sheet_says(data):
    """Launch, way, arithmetic or traffic."""
    for side, took in times(State("sim:0", data=data), "sim:0").items():
        assert took.low == took.middle == took.high == pytest.approx(product(side, data), rel=1e-4)


@pytest.mark.parametrize("data", [STAYS, COMES, RETURNS])
def test_the_crossing_is_where_the_models_are_equal(data):
    """Found by halving the interval between the formulas, to a few per cent."""
    low, high = 8.0, 512.0
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        cpu = HOST.call + max(2 * middle**3 / HOST.rate, 12 * middle**2 / HOST.bandwidth)
        low, high = (low, middle) if product(middle, data) < cpu else (middle, high)
    state = State("sim:0", data=data)
    first, surely = crossover.crossings(times(state, "cpu"), times(state, "sim:0"))
    assert first == surely == pytest.approx(low, rel=0.05)


def test_the_transfer_moves_the_crossing_and_may_undo_it():
    """What lesson 07 says of products and of additions."""

    def of(operation, data):
        state = State("sim:0", operation=operation, data=data)
        return crossover.crossings(times(state, "cpu"), times(state, "sim:0"))[0]

    assert of("x @ x", STAYS) < of("x @ x", COMES) < of("x @ x", RETURNS)
    assert 0 < of("x + 1", STAYS) < math.inf
    assert of("x + 1", COMES) == math.inf
    assert of("x + 1, row by row", STAYS) == math.inf


def test_the_crossing_is_the_last_one():
    """A single slow run of the CPU is no victory of the device."""
    device = dict.fromkeys((1, 2, 4, 8, 16), 2.0)
    assert crossover.find_crossing({1: 1, 2: 9, 4: 1, 8: 4, 16: 9}, device) == pytest.approx(4 * 2**0.5)
    assert crossover.find_crossing({1: 1, 2: 9, 4: 1}, device) == math.inf
    assert crossover.find_crossing({1: 3, 2: 9, 4: 3}, device) == 0
    assert crossover.find_crossing({1: 2, 2: 2, 4: 2}, device) == math.inf


@pytest.mark.parametrize("outlier", [*crossover.SIDES[:5], *crossover.SIDES[8:]])
@pytest.mark.parametrize("factor", [500.0, 0.002])
def test_one_disturbed_time_does_not_decide_the_headline(outlier, factor):
    """Of a CPU that falls behind from n = 64 on, and a device of which a single time is wrong by much."""
    cpu = {side: around(1e-6 * (side / 60) ** 2) for side in crossover.SIDES}
    device = dict.fromkeys(crossover.SIDES, around(1e-6))
    true = crossover.crossings(cpu, device)
    assert true == pytest.approx((60 / 1.1, 60 * 1.1), rel=1e-9)
    device[outlier] = around(1e-6 * factor)
    assert crossover.crossings(cpu, device) == true


@pytest.mark.parametrize("outlier", crossover.SIDES[5:8])
@pytest.mark.parametrize("factor", [500.0, 0.002])
def test_a_disturbed_time_beside_the_crossing_moves_it_by_a_step_at_most(outlier, factor):
    """Nothing else was measured there, and the next sizes say how far it can be."""
    cpu = {side: around(1e-6 * (side / 60) ** 2) for side in crossover.SIDES}
    device = dict.fromkeys(crossover.SIDES, around(1e-6)) | {outlier: around(1e-6 * factor)}
    first, surely = crossover.crossings(cpu, device)
    assert 32 <= first <= surely <= 128


def around(seconds: float, by: float = 1.1) -> Took:
    """Return a time of which half of the runs are up to some per cent off."""
    return Took(seconds, seconds / by, seconds * by)


def test_where_the_spreads_overlap_two_sizes_are_said(explorer):
    """Instead of a number that the times do not support."""
    sides = crossover.sides("x @ x", "float32", simulated=True)
    device = times(explorer.state, "sim:0")

    def shown(cpu) -> tuple[str, set[str]]:
        found = tuple(Found(("cpu", "x @ x", "float32", STAYS), side, cpu(side)) for side in sides)
        scene = draw(State("sim:0", found=found, looked_at=91))
        assert faults(scene) == []
        return scene.caption, written(scene)

    # Were the device's product as long at every size, the CPU would be as fast at n = 90.
    caption, texts = shown(lambda side: around(PRODUCT * (side / 90) ** 2, 1.5))
    assert "sim:0 becomes faster somewhere between n = 74 and n = 110; at n = 91" in caption
    assert {
        "between n = 74 and n = 110",
        "n = 91: the CPU takes 10.2 µs, sim:0 10.3 µs: too close to tell",
    } <= texts
    caption, texts = shown(lambda side: around(device[side].middle, 1.2))
    assert "the times are too close to tell who is faster" in caption
    caption, texts = shown(lambda side: Took(1e-3, 1e-6 if side < 64 else 1e-3, 1e-3))
    assert "sim:0 is faster from n = 51 on at the latest" in caption
    assert "n = 51 at the latest" in texts
    caption, texts = shown(lambda side: Took(1e-6, 1e-6, 1e-6 if side < 64 else 1e-3))
    assert "sim:0 is not faster before n =" in caption
    assert any(words.startswith("not before n =") for words in texts)
    caption, texts = shown(lambda side: exactly(PRODUCT * (side / 90) ** 2))
    assert "sim:0 is faster from about n = 92 on" in caption
    assert caption.endswith("the CPU takes 10.2 µs, sim:0 10.3 µs: equally long; you said n = 91.")


def test_a_disturbed_run_moves_neither_the_time_nor_its_spread(monkeypatch):
    """One of five runs took a thousand times as long."""
    runs = iter([1.0, 1.1, 1000.0, 1.2, 1.3] * 2)
    monkeypatch.setattr(stopwatch, "WARM_UPS", 0)
    monkeypatch.setattr(stopwatch, "PATIENCE", 0)
    monkeypatch.setattr(stopwatch, "_once", lambda *_: stopwatch.Lap(1.0, next(runs)))
    assert crossover.take("cpu", "x + 1", "float32", STAYS, 8) == Took(1.2, 1.1, 1.3)


def test_two_times_are_compared_at_the_side_that_is_dragged_to(explorer):
    """The handle has a stop for each side, and a dot can be clicked; the gap between the two is drawn."""
    device, cpu = product(128, STAYS), HOST.call + 2 * 128**3 / HOST.rate
    words = (
        f"n = 128: sim:0 takes {duration(device)}, the CPU {duration(cpu)}: {cpu / device:.2g} times as long"
    )
    assert words in written(explorer.scene)
    handle = shape(explorer.scene, "handle")
    assert [stop.asks["set"]["looked_at"] for stop in handle.stops] == explorer.state.sides
    look(explorer, **handle.stops[0].asks["set"])
    scene = explorer.scene
    device, cpu = product(8, STAYS), HOST.call + 12 * 8**2 / HOST.bandwidth
    words = (
        f"n = 8: the CPU takes {duration(cpu)}, sim:0 {duration(device)}: {device / cpu:.2g} times as long"
    )
    assert words in written(scene)
    handle, dots = shape(scene, "handle"), [shape(scene, "cpu 8"), shape(scene, "sim:0 8")]
    middles = [dot.y + dot.high / 2 for dot in dots]
    assert handle.x + handle.wide / 2 == dots[0].x + dots[0].wide / 2
    assert [y for _, y in shape(scene, "apart").points] == pytest.approx(middles)
    look(explorer, **handle.stops[6].asks["set"])
    assert explorer.state.looked_at == 64
    look(explorer, dtype="float16", looked_at=512)
    assert any(words.startswith("n = 128: sim:0 takes") for words in written(explorer.scene))


def test_a_spread_is_drawn_where_there_is_one(explorer):
    """Of measured times, with the middle half of the runs; a model says that it is a model."""
    assert not any(one.id.startswith("spread ") for one in explorer.scene.shapes)
    assert "both are models: they have no spread, and no machine is like them" in written(explorer.scene)
    state = State("sim:0", found=found_on_the_cpu(lambda side: around(side * 1e-7)))
    area = shape(draw(state), "spread cpu")
    assert area.fill
    assert len(area.points) == 2 * len(state.sides)
    assert shape(draw(state), "cpu 64").says == (
        "n = 64: CPU, measured: 6.4 µs, the middle half of the runs 5.82 µs to 7.04 µs"
    )


def test_what_contradicts_the_headline_is_said():
    """In the words: a size whose time says otherwise is noise, be it a peak or a dip."""
    state = State("sim:0", found=found_on_the_cpu(lambda side: exactly(100.0 if side == 16 else 1e-9)))
    assert "the CPU is faster up to n = 512; at n = 8" in describe(state)
    assert "The times at n = 16 are noise" in describe(state)
    state = State("sim:0", found=found_on_the_cpu(lambda side: exactly(1e-9 if side == 256 else 100.0)))
    assert "sim:0 is faster at every size;" in describe(state)
    assert "The times at n = 256 are noise" in draw(state).caption
    assert faults(draw(state)) == []


def found_on_the_cpu(seconds) -> tuple[Found, ...]:
    """Return times of products on the CPU as if they had been measured."""
    sides = crossover.sides("x @ x", "float32", simulated=True)
    return tuple(Found(("cpu", "x @ x", "float32", STAYS), side, seconds(side)) for side in sides)


def written(scene) -> set[str]:
    """Return the texts in a scene."""
    return {shape.words for shape in scene.shapes if isinstance(shape, Words)}


def shape(scene, name):
    """Return the shape of this name."""
    (found,) = [one for one in scene.shapes if one.id == name]
    return found


def test_the_first_picture_says_where_and_that_nothing_was_measured(explorer):
    """In the picture and in the words."""
    assert written(explorer.scene) >= {
        "CPU, modelled", "sim:0, simulated", "← CPU faster", "sim:0 faster →", "n = 120",
        "n, where x is n × n in float32; x is there already",
    }  # fmt: skip
    assert explorer.words.startswith("Simulated: for x @ x in float32, where x is there already, sim:0 is")
    assert "faster from about n = 120 on" in explorer.words
    assert explorer.words.endswith(
        "The CPU is modelled, too: four cores, 384 GFLOP/s in float32, 51 GB/s, 1 µs a call."
    )


def test_each_control_changes_picture_and_words(explorer):
    """One after the other."""
    look(explorer, data=COMES)
    assert "n = 240" in written(explorer.scene) or "n = 250" in written(explorer.scene)
    look(explorer, operation="x + 1")
    assert "the CPU is faster up to n = 512" in written(explorer.scene)
    assert "the CPU is faster up to n = 512" in explorer.words
    look(explorer, operation="x @ x", dtype="float16", data=STAYS)
    assert "n = 26" in written(explorer.scene)
    assert "n, where x is n × n in float16; x is there already" in written(explorer.scene)


def test_a_measured_cpu_is_called_so_wherever_it_is_shown(explorer, monkeypatch):
    """The button measures this machine: what was modelled is replaced, and nothing is mixed silently."""
    monkeypatch.setattr(crossover, "SIDES", [8, 64])
    explorer.press("Measure this CPU")
    assert "CPU, measured" in written(explorer.scene)
    assert "CPU, modelled" not in written(explorer.scene)
    assert "The CPU is measured on this machine, sim:0 is not: it is simulated." in explorer.words
    assert explorer.scene.caption.startswith("sim:0 simulated, the CPU measured: ")
    assert sorted(times(explorer.state, "cpu")) == [8, 64]
    look(explorer, operation="x + 1")
    assert "CPU, modelled" in written(explorer.scene)
    look(explorer, operation="x @ x", data=COMES)
    assert "CPU, measured" in written(explorer.scene)


def test_measuring_again_replaces_and_stops_where_it_is_stopped(monkeypatch):
    """Each step is one size, and what is there by then is drawn."""
    monkeypatch.setattr(crossover, "take", lambda place, operation, dtype, data, side: exactly(side * 1e-6))
    old = Found(("cpu", "x @ x", "float32", STAYS), 8, exactly(1.0))
    steps = crossover.measure(State("sim:0", found=(old,)))
    share, state = next(steps)
    assert share == pytest.approx(1 / 13)
    assert times(state, "cpu") == {8: exactly(8e-6)}
    assert faults(draw(state)) == []
    assert describe(state).count("at n = 8 the CPU takes 8 µs, sim:0 10 µs") == 1
    assert [share for share, _ in steps][-1] == 1


def test_what_is_chosen_while_points_arrive_stays(explorer, monkeypatch):
    """And the points go on to arrive, until there is one for each size or the reader stops them."""
    monkeypatch.setattr(crossover, "take", lambda *about: exactly(1e-5))

    async def use(*wishes) -> None:
        shown = live.Live(explorer, "mark")
        shown.ask({"press": "Measure this CPU"})
        await asyncio.sleep(0)  # until the first point is there
        for wish in wishes:
            shown.ask(wish)
        (task,) = shown._measuring.values()
        await asyncio.wait([task])

    asyncio.run(use({"set": {"looked_at": 8}}, {"stop": "Measure this CPU"}))
    assert explorer.state.looked_at == 8
    assert 0 < len(explorer.state.measured("cpu")) < len(explorer.state.sides)
    asyncio.run(use({"set": {"looked_at": 512}}))
    assert explorer.state.looked_at == 512
    assert sorted(explorer.state.measured("cpu")) == explorer.state.sides


def test_on_a_real_device_both_are_measured(monkeypatch):
    """The path that a GPU takes, with the CPU by another name in its place."""
    monkeypatch.setattr(crossover, "SIDES", [8, 16, 32, 64])
    state = State("cpu:0", data=COMES)
    assert list(times(state, "cpu:0")) == [16, 64]
    assert written(draw(state)) >= {"CPU, measured", "cpu:0, measured"}
    assert faults(draw(state)) == []
    words = describe(state)
    assert words.startswith("Measured on CPU (cpu:0): for x @ x in float32, where x comes from the CPU")
    assert words.endswith("Both are measured on this machine.")
    *_, (_, finer) = crossover.measure(state)
    assert list(times(finer, "cpu")) == list(times(finer, "cpu:0")) == [8, 16, 32, 64]


@pytest.mark.parametrize("factor", [0.001, 0.2, 0.9, 1.1, 50.0])
def test_the_words_fit_wherever_the_crossing_is(factor):
    """From a device that always wins to one that never does."""
    base = State("sim:0")
    cpu = times(base, "sim:0")
    found = tuple(
        Found(("cpu", "x @ x", "float32", STAYS), side, around(took.middle * factor * side / 90))
        for side, took in cpu.items()
    )
    assert faults(draw(replace(base, found=found))) == []


def test_without_an_accelerator_the_cpu_is_alone(monkeypatch):
    """And the picture says so."""
    monkeypatch.setenv("DEVLAB_DEVICE", "cpu")
    monkeypatch.setattr(crossover, "SIDES", [16, 64])
    explorer = crossover.explorer()
    assert "There is no accelerator here to compare with." in explorer.words
    assert "CPU, measured" in written(explorer.scene)
    assert not any("faster" in words for words in written(explorer.scene))
    assert faults(explorer.scene) == []
    assert explorer.words.startswith("Measured on the CPU")


def test_a_full_device_ends_the_curve(monkeypatch):
    """No error: what fits is drawn."""

    def take(place, operation, dtype, data, side, rules):
        if side > 64:
            raise torch.OutOfMemoryError("full")
        return exactly(1e-5)

    monkeypatch.setattr(crossover, "_take_once", take)
    state = State("sim:0")
    assert max(times(state, "sim:0")) == 64
    assert faults(draw(state)) == []
    assert "at n = 64" in describe(state)


def test_float64_is_not_offered_where_there_is_no_model_of_it(explorer):
    """The simulated chip has a rate for 32-bit and one for 16-bit floats."""
    with pytest.raises(Refused, match="float32, float16"):
        look(explorer, dtype="float64")


def test_the_default_device_and_the_rules_are_heeded():
    """The input is on the CPU whatever the default is; under MPS's rules the chip is another."""
    crossover._take_once.cache_clear()
    state = State("sim:0", data=COMES)
    before = times(state, "sim:0")
    crossover._take_once.cache_clear()
    torch.set_default_device("sim:1")
    try:
        assert times(state, "sim:0") == before
    finally:
        torch.set_default_device(None)
    with sim.rules("mps"):
        assert times(state, "sim:0")[8].middle == pytest.approx(
            MPS_LIKE.launch + MPS_LIKE.product + 2 * MPS_LIKE.shortest, rel=0.01
        )
    assert times(state, "sim:0") == before


def test_the_model_is_the_same_after_a_long_day():
    """To the last digit, so that a saved picture stays as it is."""
    row = ("sim:0", "x + 1, row by row", "float32", STAYS, 512)
    before = crossover.take(*row)
    clock.spend(3600)
    assert crossover.take(*row) == before
