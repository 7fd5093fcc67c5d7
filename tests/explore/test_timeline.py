"""The timeline: where the host waits, who is done first, what is printed, for each program."""

from dataclasses import replace
from itertools import pairwise

import pytest
from explore.fitting import faults
from matplotlib.colors import to_hex

import devlab.sim
from devlab import palette
from devlab.explore.controls import Refused
from devlab.explore.paper import source
from devlab.explore.pictures import timeline
from devlab.explore.pictures.timeline import ALWAYS, AT_THE_END, EARLY, NEVER, PROGRAMS, offered, run
from devlab.watching.timeline import COMPUTING, COPYING, HOST, STAGING, WAITING

devlab.sim.enable()
SIM = "sim:0"
IN_THE_LOOP, AFTER_IT = "a loss printed in the loop", "losses printed at the end"
ONE_STREAM, TWO_STREAMS = "a batch in the same stream", "a batch in a second stream"


@pytest.fixture
def picture():
    """Return the explorer as it opens."""
    return timeline.explorer()


def done(program: str, synchronize: str = NEVER):
    """Return the run of a program on the simulated device."""
    return run(timeline.State(SIM, program, synchronize).statements, SIM)


def waits(program: str, synchronize: str = NEVER) -> list:
    """Return the stretches in which the host waits."""
    return [span for span in done(program, synchronize).lanes[HOST] if span.state == WAITING]


def test_without_a_wait_the_host_is_done_while_the_device_computes():
    """Three launches, back to back, and the device's work one after the other behind them."""
    lanes = done("three matrix products").lanes
    assert [span.line.number for span in lanes[HOST]] == [1, 2, 3]
    assert not waits("three matrix products")
    work = lanes[f"{SIM} {COMPUTING}"]
    assert lanes[HOST][-1].end < work[0].end
    assert all(one.end == pytest.approx(next.start) for one, next in pairwise(work))


def test_a_wait_at_the_end_ends_with_the_device():
    """The host is busy for as long as the device."""
    one = done("three matrix products", AT_THE_END)
    (wait,) = waits("three matrix products", AT_THE_END)
    assert wait.line.number == 4
    assert wait.end == pytest.approx(one.lanes[f"{SIM} {COMPUTING}"][-1].end)


def test_waiting_after_every_statement_lets_the_device_run_dry():
    """The device stands still while the host starts the next product, so all of it takes longer."""
    assert len(waits("three matrix products", ALWAYS)) == 3
    dry, full = (done("three matrix products", where) for where in (ALWAYS, AT_THE_END))
    assert dry.end > full.end
    work = dry.lanes[f"{SIM} {COMPUTING}"]
    assert all(one.end < next.start for one, next in pairwise(work))


def test_printing_in_the_loop_waits_each_time():
    """The same numbers, three waits or one."""
    assert len(waits(IN_THE_LOOP)) == 3
    assert len(waits(AFTER_IT)) == 1
    assert done(IN_THE_LOOP).end > done(AFTER_IT).end
    assert done(IN_THE_LOOP).printed == {2: "1.0", 4: "1.0", 6: "1.0"}
    assert done(AFTER_IT).printed == {4: "[1.0, 1.0, 1.0]"}


def test_a_copy_home_makes_the_host_wait_and_the_next_launch_late():
    """`.cpu()` waits for the product, for relu and for the copy."""
    (wait,) = waits("bring the result home")
    launch = done("bring the result home").lanes[HOST][-1]
    assert wait.line.number == 3
    assert launch.start >= wait.end


@pytest.mark.parametrize(
    ("synchronize", "printed"), [(NEVER, {3: "0.0"}), (AT_THE_END, {3: "0.0"}), (ALWAYS, {5: "1.0"})]
)
def test_a_copy_home_that_nobody_waits_for_is_read_too_early(synchronize, printed):
    """A wait helps between the copy and the reading alone."""
    one = done(EARLY, synchronize)
    assert one.printed == printed
    assert one.home == 1.0


def test_the_wait_is_for_the_device_of_the_program():
    """Not for the current one, which may be another."""
    statements = timeline.State("sim:1", EARLY, ALWAYS).statements
    assert run(statements, "sim:1").printed == {5: "1.0"}


def test_only_a_second_stream_copies_while_the_device_computes():
    """In one stream the copy stands in the queue behind the product."""
    for program, together in ((ONE_STREAM, False), (TWO_STREAMS, True)):
        lanes = done(program).lanes
        (copy,), first = lanes[f"{SIM} {COPYING}"], lanes[f"{SIM} {COMPUTING}"][0]
        assert (copy.start < first.end - 1e-9) == together
        assert lanes[f"{SIM} {COMPUTING}"][1].start >= copy.end - 1e-9
    assert done(TWO_STREAMS).end < 0.8 * done(ONE_STREAM).end


def test_from_ordinary_memory_the_host_stages_and_only_the_blocking_copy_waits():
    """The first copy is queued while the product runs; the second waits for product and copies."""
    lanes = done("a batch from ordinary memory").lanes
    _, staging, waiting, _ = lanes[HOST]
    assert (staging.state, waiting.state) == (STAGING, WAITING)
    product, (first, second) = lanes[f"{SIM} {COMPUTING}"][0], lanes[f"{SIM} {COPYING}"]
    assert staging.end < product.end == pytest.approx(first.start)
    assert waiting.end == pytest.approx(second.end)


def test_the_words_say_who_is_done_first_and_how_long_the_host_waits(picture):
    """With the numbers of the run, as the picture draws them."""
    assert picture.words.startswith("Simulated: the host is done after ")
    assert ", with the device (" in picture.words
    picture.set(synchronize=NEVER)
    assert ", before the device (" in picture.words
    assert "it waits for 0 µs of that" in picture.words


def test_the_words_tell_of_an_early_reading(picture):
    """What was printed, and what the copy brought."""
    picture.set(program=EARLY)
    assert "printed so far: 0.0, read before the copy had ended, which brought 1.0" in picture.words
    picture.set(synchronize=ALWAYS)
    assert picture.words.endswith("printed so far: 1.0")


def test_steps_go_through_the_statements(picture):
    """What is not reached yet is faint, and what it prints is not told."""
    picture.set(program=IN_THE_LOOP)
    assert not any(text.get_alpha() == 0.35 for text in picture.figure.axes[0].texts)
    with pytest.raises(Refused, match="'One statement on' can do nothing"):
        picture.press("One statement on")
    for _ in range(4):
        picture.press("One statement back")
    assert "Statement 3 of 7" in picture.words
    assert picture.words.endswith("printed so far: 1.0")
    assert sum(text.get_alpha() == 0.35 for text in picture.figure.axes[0].texts) == 4
    assert [text for text in texts(picture) if text.startswith("prints")] == ["prints 1.0"]
    picture.press("One statement on")
    assert "Statement 4 of 7" in picture.words


def test_the_first_statement_is_always_shown(picture):
    """There is nothing before it."""
    for _ in range(3):
        picture.press("One statement back")
    with pytest.raises(Refused, match="'One statement back' can do nothing"):
        picture.press("One statement back")


def test_the_reading_is_marked_where_nothing_else_is_drawn(picture):
    """At the time at which the host reads: before the copy, or at its end."""
    picture.set(program=EARLY, synchronize=NEVER)
    early, copy = marked(picture), done(EARLY).lanes[f"{SIM} {COPYING}"][0]
    assert early < copy.start * 1e6
    picture.set(synchronize=ALWAYS)
    assert marked(picture) == pytest.approx(done(EARLY, ALWAYS).lanes[f"{SIM} {COPYING}"][0].end * 1e6)
    picture.set(program=IN_THE_LOOP)
    assert "host reads" not in texts(picture)


def test_a_stretch_lies_at_its_statement_in_the_colour_of_who_is_busy(picture):
    """Host above the middle of the row and device below; a wait is hatched, a copy low."""
    picture.set(program="bring the result home", synchronize=NEVER)
    drawn = {}
    for bars in picture.figure.axes[0].collections:
        box = bars.get_paths()[0].get_extents()
        drawn.setdefault(round(box.y0 + 0.2), []).append(bars)
    copied = drawn[3]
    assert [bars.get_hatch() for bars in copied] == ["////", None]
    assert to_hex(copied[1].get_facecolor()[0]) == palette.COPY
    for row in (1, 2, 4):
        host, device = drawn[row]
        assert to_hex(host.get_facecolor()[0]) == palette.HOST
        assert to_hex(device.get_facecolor()[0]) == palette.of(SIM)
        assert host.get_paths()[0].get_extents().y1 < row < device.get_paths()[0].get_extents().y0


@pytest.mark.parametrize("synchronize", [NEVER, AT_THE_END, ALWAYS])
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_text_can_be_read_in_every_state(picture, program, synchronize):
    """Every program with every synchronization, whole and at its first statement."""
    for shown in (1, 99):
        state = replace(picture.state, program=program, synchronize=synchronize, shown=shown)
        assert faults(picture.draw(state)) == []


def test_without_an_accelerator_the_host_does_all_the_work(monkeypatch):
    """The same picture of a real run, with nobody to wait for, and without what a CPU lacks."""
    monkeypatch.setattr(timeline, "first_accelerator", lambda: "cpu")
    picture = timeline.explorer()
    assert picture.words.startswith(f"{source('cpu')}: there is no accelerator here")
    assert {span.state for span in run(picture.state.statements, "cpu").lanes[HOST]} == {COMPUTING}
    assert faults(picture.figure) == []
    with pytest.raises(Refused, match="program cannot be"):
        picture.set(program=TWO_STREAMS)
    picture.set(program=EARLY)
    assert picture.words.endswith("printed so far: 1.0")


def test_what_a_device_lacks_is_not_offered():
    """Apple's has no streams to choose; every program is offered where all of it is there."""
    assert offered("cuda:1") == offered(SIM) == list(PROGRAMS)
    assert TWO_STREAMS not in offered("mps:0")
    assert ONE_STREAM in offered("mps:0")


def texts(picture) -> list[str]:
    """Return what is written in the picture."""
    return [text.get_text() for text in picture.figure.axes[0].texts]


def marked(picture) -> float:
    """Return when the host is drawn to read, in the picture's own unit."""
    (line,) = [line for line in picture.figure.axes[0].lines if line.get_color() == palette.HOST]
    return line.get_xdata()[0]
