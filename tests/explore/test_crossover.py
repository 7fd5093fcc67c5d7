"""The crossover: the crossing that the models must have, measured CPUs said to be, and every control."""

from dataclasses import replace

import pytest
import torch
from explore.fitting import faults

from devlab import sim
from devlab.explore.controls import Refused
from devlab.explore.pictures import crossover
from devlab.explore.pictures.crossover import COMES, RETURNS, STAYS, Found, State, describe, draw, times
from devlab.sim import clock
from devlab.sim.specs import CUDA_LIKE, HOST, MPS_LIKE

FEE = CUDA_LIKE.launch + CUDA_LIKE.shortest


@pytest.fixture(autouse=True, scope="module")
def simulated():
    """Let `sim:0` be there."""
    sim.enable()


@pytest.fixture
def explorer():
    """Return the explorer, opened nowhere."""
    return crossover.explorer()


def product(n: float, data: str) -> float:
    """Return what a product in float32 should take on the simulated chip, written down anew."""
    way = n * n * 4 / CUDA_LIKE.pageable + FEE
    ways = {STAYS: 0.0, COMES: way, RETURNS: 2 * way}[data]
    return ways + FEE + max(2 * n**3 / CUDA_LIKE.rate, 12 * n * n / CUDA_LIKE.bandwidth)


@pytest.mark.parametrize("data", [STAYS, COMES])
def test_the_device_takes_what_its_data_sheet_says(data):
    """Launch, way, arithmetic or traffic."""
    for side, seconds in times(State("sim:0", data=data), "sim:0").items():
        assert seconds == pytest.approx(product(side, data), rel=1e-4)


@pytest.mark.parametrize("data", [STAYS, COMES, RETURNS])
def test_the_crossing_is_where_the_models_are_equal(data):
    """Found by halving the interval between the formulas, to a few per cent."""
    low, high = 8.0, 512.0
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        cpu = HOST.call + max(2 * middle**3 / HOST.rate, 12 * middle**2 / HOST.bandwidth)
        low, high = (low, middle) if product(middle, data) < cpu else (middle, high)
    state = State("sim:0", data=data)
    found = crossover.crossing(times(state, "cpu"), times(state, "sim:0"))
    assert found == pytest.approx(low, rel=0.05)


def test_the_transfer_moves_the_crossing_and_may_undo_it():
    """What lesson 07 says of products and of additions."""

    def of(operation, data):
        state = State("sim:0", operation=operation, data=data)
        return crossover.crossing(times(state, "cpu"), times(state, "sim:0"))

    assert of("x @ x", STAYS) < of("x @ x", COMES) < of("x @ x", RETURNS)
    assert of("x + 1", STAYS) > 0
    assert of("x + 1", COMES) is None
    assert of("x + 1, row by row", STAYS) is None


def test_the_crossing_is_the_last_one():
    """A single slow run of the CPU is no victory of the device."""
    device = dict.fromkeys((1, 2, 4, 8, 16), 2.0)
    assert crossover.crossing({1: 1, 2: 9, 4: 1, 8: 4, 16: 9}, device) == pytest.approx(4 * 2**0.5)
    assert crossover.crossing({1: 1, 2: 9, 4: 1}, device) is None
    assert crossover.crossing({1: 3, 2: 9, 4: 3}, device) == 0
    assert crossover.crossing({1: 2, 2: 2, 4: 2}, device) is None


@pytest.mark.parametrize("outlier", [*crossover.SIDES[:5], *crossover.SIDES[7:]])
@pytest.mark.parametrize("factor", [500.0, 0.002])
def test_one_disturbed_time_does_not_decide_the_headline(outlier, factor):
    """Of a CPU that falls behind from n = 64 on, and a device of which a single time is wrong by much."""
    cpu = {side: 1e-6 * (side / 60) ** 2 for side in crossover.SIDES}
    device = dict.fromkeys(crossover.SIDES, 1e-6)
    true = crossover.crossing(cpu, device)
    assert true == pytest.approx(60, rel=1e-9)
    device[outlier] *= factor
    assert crossover.crossing(cpu, device) == true
    wrong = (device[outlier] < cpu[outlier]) != (outlier > 60)
    assert crossover.exceptions(cpu, device) == ([outlier] if wrong else [])


def test_what_contradicts_the_headline_is_said():
    """In the words: they claim nothing of a size whose time says otherwise."""
    state = State("sim:0", found=found_on_the_cpu(lambda side: 100.0 if side == 16 else 1e-9))
    assert "the CPU is faster up to n = 512, except n = 16; at n = 8" in describe(state)
    state = State("sim:0", found=found_on_the_cpu(lambda side: 1e-9 if side == 256 else 100.0))
    assert "sim:0 is faster at every size, except n = 256;" in describe(state)
    assert "sim:0 faster at every size, except n = 256" in written(draw(state))
    assert faults(draw(state)) == []


def found_on_the_cpu(seconds) -> tuple[Found, ...]:
    """Return times of products on the CPU as if they had been measured."""
    sides = crossover.sides("x @ x", "float32", simulated=True)
    return tuple(Found(("cpu", "x @ x", "float32", STAYS), side, seconds(side)) for side in sides)


def written(figure) -> set[str]:
    """Return the texts in a figure's axes."""
    return {text.get_text() for text in figure.axes[0].texts}


def test_the_first_picture_says_where_and_that_nothing_was_measured(explorer):
    """In the picture and in the words."""
    assert written(explorer.figure) == {
        "CPU, modelled", "sim:0, simulated", "← CPU faster", "sim:0 faster →", "n = 110",
    }  # fmt: skip
    assert label(explorer.figure) == "n, where x is n × n in float32; x is there already"
    assert explorer.words.startswith("Simulated: for x @ x in float32, where x is there already, sim:0 is")
    assert "faster from about n = 110 on" in explorer.words
    assert explorer.words.endswith(
        "The CPU is modelled, too: four cores, 384 GFLOP/s in float32, 51 GB/s, 1 µs a call."
    )


def label(figure) -> str:
    """Return what the x axis is called."""
    return figure.axes[0].get_xlabel()


def test_each_control_changes_picture_and_words(explorer):
    """One after the other."""
    explorer.set(data=COMES)
    assert "n = 240" in written(explorer.figure) or "n = 250" in written(explorer.figure)
    explorer.set(operation="x + 1")
    assert "CPU still faster at n = 512" in written(explorer.figure)
    assert "the CPU is faster up to n = 512" in explorer.words
    explorer.set(operation="x @ x", dtype="float16", data=STAYS)
    assert "n = 23" in written(explorer.figure)
    assert "float16" in label(explorer.figure)


def test_a_measured_cpu_is_called_so_wherever_it_is_shown(explorer, monkeypatch):
    """The button measures this machine: what was modelled is replaced, and nothing is mixed silently."""
    monkeypatch.setattr(crossover, "SIDES", [8, 64])
    explorer.press("Measure this CPU")
    assert "CPU, measured" in written(explorer.figure)
    assert "CPU, modelled" not in written(explorer.figure)
    assert "The CPU is measured on this machine, sim:0 is not: it is simulated." in explorer.words
    assert sorted(times(explorer.state, "cpu")) == [8, 64]
    explorer.set(operation="x + 1")
    assert "CPU, modelled" in written(explorer.figure)
    explorer.set(operation="x @ x", data=COMES)
    assert "CPU, measured" in written(explorer.figure)


def test_measuring_again_replaces_and_stops_where_it_is_stopped(monkeypatch):
    """Each step is one size, and what is there by then is drawn."""
    monkeypatch.setattr(crossover, "take", lambda place, operation, dtype, data, side: side * 1e-6)
    old = Found(("cpu", "x @ x", "float32", STAYS), 8, 1.0)
    steps = crossover.measure(State("sim:0", found=(old,)))
    share, state = next(steps)
    assert share == pytest.approx(1 / 13)
    assert times(state, "cpu") == {8: 8e-6}
    assert faults(draw(state)) == []
    assert describe(state).count("at n = 8 the CPU takes 8 µs, sim:0 7 µs") == 1
    assert [share for share, _ in steps][-1] == 1


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
        Found(("cpu", "x @ x", "float32", STAYS), side, seconds * factor * side / 90)
        for side, seconds in cpu.items()
    )
    assert faults(draw(replace(base, found=found))) == []


def test_without_an_accelerator_the_cpu_is_alone(monkeypatch):
    """And the picture says so."""
    monkeypatch.setenv("DEVLAB_DEVICE", "cpu")
    monkeypatch.setattr(crossover, "SIDES", [16, 64])
    explorer = crossover.explorer()
    assert "There is no accelerator here to compare with." in explorer.words
    assert written(explorer.figure) == {"CPU, measured"}
    assert explorer.words.startswith("Measured on the CPU")


def test_a_full_device_ends_the_curve(monkeypatch):
    """No error: what fits is drawn."""

    def take(place, operation, dtype, data, side, rules):
        if side > 64:
            raise torch.OutOfMemoryError("full")
        return 1e-5

    monkeypatch.setattr(crossover, "_taken", take)
    state = State("sim:0")
    assert max(times(state, "sim:0")) == 64
    assert faults(draw(state)) == []
    assert "at n = 64" in describe(state)


def test_float64_is_not_offered_where_there_is_no_model_of_it(explorer):
    """The simulated chip has a rate for 32-bit and one for 16-bit floats."""
    with pytest.raises(Refused, match="float32, float16"):
        explorer.set(dtype="float64")


def test_the_default_device_and_the_rules_are_heeded():
    """The input is on the CPU whatever the default is; under MPS's rules the chip is another."""
    crossover._taken.cache_clear()
    state = State("sim:0", data=COMES)
    before = times(state, "sim:0")
    crossover._taken.cache_clear()
    torch.set_default_device("sim:1")
    try:
        assert times(state, "sim:0") == before
    finally:
        torch.set_default_device(None)
    with sim.rules("mps"):
        assert times(state, "sim:0")[8] == pytest.approx(2 * (MPS_LIKE.launch + MPS_LIKE.shortest), rel=0.01)
    assert times(state, "sim:0") == before


def test_the_model_is_the_same_after_a_long_day():
    """To the last digit, so that a saved picture stays as it is."""
    row = ("sim:0", "x + 1, row by row", "float32", STAYS, 512)
    before = crossover.take(*row)
    clock.spend(3600)
    assert crossover.take(*row) == before
