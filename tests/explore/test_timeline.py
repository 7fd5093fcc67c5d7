"""The timeline: where the host waits, who is done first, what is printed, for each program."""

from dataclasses import replace
from itertools import pairwise

import pytest
from explore.fitting import extent, faults

import devlab.sim
from devlab import palette
from devlab.explore import lanes
from devlab.explore.controls import Refused
from devlab.explore.origin import source
from devlab.explore.pictures import timeline
from devlab.explore.pictures.timeline import (
    ALWAYS,
    AT_THE_END,
    EARLY,
    NEVER,
    PROGRAMS,
    programs_for,
    run_statements,
)
from devlab.explore.scene import Words
from devlab.sim.specs import CUDA_LIKE
from devlab.watching.memory import duration
from devlab.watching.timeline import COMPUTING, COPYING, HOST, STAGING, WAITING

devlab.sim.enable()
SIM = "sim:0"
IN_THE_LOOP, AFTER_IT = "a loss printed in the loop", "losses printed at the end"
ONE_STREAM, TWO_STREAMS = "a batch in the same stream", "a batch in a second stream"
LAUNCH, PRODUCT = CUDA_LIKE.launch, CUDA_LIKE.product
# What the device takes for a product, for one of a batch, for the mean of a product and for bringing a batch.
RUNNING, OF_A_BATCH = (CUDA_LIKE.shortest + 2 * rows * 512**2 / CUDA_LIKE.rate for rows in (512, 128))
MEAN = CUDA_LIKE.shortest + 4 * 512**2 / CUDA_LIKE.bandwidth
BRINGING = CUDA_LIKE.shortest + 4 * 128 * 512 / CUDA_LIKE.pinned
# The host waits from the two launches of a loss until its number is there.
STARTED, THERE = PRODUCT + LAUNCH, PRODUCT + RUNNING + MEAN + CUDA_LIKE.shortest


@pytest.fixture
def picture():
    """Return the explorer as it opens."""
    return timeline.explorer()


def done(program: str, synchronize: str = NEVER):
    """Return the run of a program on the simulated device."""
    return run_statements(timeline.State(SIM, program, synchronize).statements, SIM)


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
    assert run_statements(statements, "sim:1").printed == {5: "1.0"}


def test_only_a_second_stream_copies_while_the_device_computes():
    """In one stream the copy stands in the queue behind the product."""
    for program, together in ((ONE_STREAM, False), (TWO_STREAMS, True)):
        lanes = done(program).lanes
        (copy,), first = lanes[f"{SIM} {COPYING}"], lanes[f"{SIM} {COMPUTING}"][0]
        assert (copy.start < first.end - 1e-9) == together
        assert lanes[f"{SIM} {COMPUTING}"][1].start >= copy.end - 1e-9
    assert done(TWO_STREAMS).end < 0.8 * done(ONE_STREAM).end


def test_from_pageable_memory_the_host_stages_and_only_the_blocking_copy_waits():
    """The first copy is queued while the product runs; the second waits for product and copies."""
    lanes = done("a batch from pageable memory").lanes
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


def test_a_click_on_a_line_plays_the_program_up_to_there(picture):
    """What is not reached yet is faint, and what it prints is not told."""
    picture.set(program=IN_THE_LOOP)
    assert not any(shape.faint for shape in picture.scene.shapes)
    take = picture.scene.take
    picture.set(**shapes(picture)["line 3"].asks["set"])
    assert picture.scene.take == take + 1
    assert "Statement 3 of 7" in picture.words
    assert picture.words.endswith("printed so far: 1.0")
    assert [shape.id for shape in picture.scene.shapes if shape.faint] == [
        "line 4", "line 5", "line 6", "line after 6",
    ]  # fmt: skip
    assert [text for text in written(picture) if "prints" in text] == ["2 prints 1.0"]
    assert "host 4 0" not in shapes(picture)
    assert picture.scene.caption == (
        f"Simulated: up to line 3, it takes {duration(THERE + PRODUCT + RUNNING + MEAN)}, "
        f"and the host waits for {duration(THERE - STARTED)} of that, at line 2."
    )
    picture.set(shown=1)
    assert "Statement 1 of 7" in picture.words
    with pytest.raises(Refused, match="shown is a whole number from 1 to 12"):
        picture.set(shown=0)


def test_a_program_is_guessed_before_it_is_played(picture):
    """When it is new; another synchronization of the same program is played at once."""
    assert "how much of the time does the host wait" in picture.scene.guess
    assert picture.scene.seconds > 0
    takes = [picture.scene.take]
    for change, guessed in (
        ({"synchronize": ALWAYS}, False),
        ({"program": EARLY}, True),
        ({"synchronize": NEVER}, False),
    ):
        picture.set(**change)
        assert bool(picture.scene.guess) is guessed, change
        takes.append(picture.scene.take)
    assert takes == [0, 1, 2, 3]
    picture.set(synchronize=NEVER)  # which it was already
    assert picture.scene.take == 3


def test_there_is_a_question_for_every_program():
    """By its name."""
    assert list(timeline.GUESSES) == list(PROGRAMS)


def test_the_run_before_stays_as_an_outline_and_the_difference_is_written(picture):
    """Drawn to the same scale: an outline is where the bar was."""
    for synchronize in (ALWAYS, NEVER):
        picture.set(program=ONE_STREAM, synchronize=synchronize)
    bar = shapes(picture)["copying 2 0"]
    picture.set(synchronize=AT_THE_END)
    outline = shapes(picture)["before copying 2 0"]
    assert (outline.x, outline.wide) == (bar.x, bar.wide)
    assert (outline.during, outline.fill, outline.hatched) == (None, "", False)
    start = PRODUCT + RUNNING
    when = f"from {duration(start)} to {duration(start + BRINGING)}, simulated"
    assert outline.says == f"before: line 2: sim:0 copies for .to(), {duration(BRINGING)}, {when}"
    assert "about as long as before" in picture.scene.caption
    picture.set(program=TWO_STREAMS)
    assert shapes(picture)["before host 4 0"].hatched  # where the host synchronized at the end
    beside, after = (PRODUCT + RUNNING + waited + OF_A_BATCH for waited in (0.0, BRINGING))
    shorter = f"{after / beside:.2g} times shorter than before"
    difference = f"takes {duration(beside)}, {shorter}"
    assert f"the program {difference}" in written(picture)
    assert difference in picture.scene.caption
    assert f"{shorter} (a batch in the same stream)" in picture.words
    assert shapes(picture)["end before"].points[0][0] > shapes(picture)["head"].points[0][0]


def test_the_lines_can_be_moved_and_written_anew(picture):
    """By a drag to the place of another, or by writing in their place; the run before is compared."""
    picture.set(program="bring the result home", synchronize=NEVER)
    line = shapes(picture)["line 4"]
    assert line.writes == ("own", PROGRAMS["bring the result home"], 3)
    (up,) = [stop for stop in line.stops if stop.says == "let line 4 be line 3"]
    alone = picture.state.done.waited
    picture.set(**up.asks["set"])
    assert written(picture)[2:4] == [" 3  z = x @ w", " 4  home = y.cpu()"]
    assert picture.state.done.waited > alone  # the copy waits for one more product
    assert picture.state.before is not None
    field, lines, _ = shapes(picture)["new line"].writes
    picture.set(**{field: [*lines, "print(home[0, 0].item())"]})
    assert "5 prints 1.0" in written(picture)
    picture.set(own=["y = x @ w", " ", "home = y.cpu()"])  # an empty line goes
    assert picture.state.own == ("y = x @ w", "home = y.cpu()")
    picture.set(program=ONE_STREAM)
    assert picture.state.own == ()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["b = a @ w"], "NameError: name 'a' is not defined"),
        (["y = x @"], "SyntaxError: invalid syntax"),
        (["n = 3"], "nothing in them is work for sim:0"),
    ],
)
def test_lines_that_do_not_run_are_put_back_and_answered(picture, lines, said):
    """With the error, and without a trace of it in the picture."""
    before = picture.state
    with pytest.raises(Refused, match=said):
        picture.set(own=lines)
    assert picture.state == before
    with pytest.raises(Refused, match="own is a list of 1 to 6 lines of code"):
        picture.set(own=[])


def test_the_scale_is_the_same_wherever_the_host_synchronizes(picture):
    """It is round, holds every run of the program and the run before, and is played at one speed."""
    ends = []
    for synchronize in (NEVER, AT_THE_END, ALWAYS):
        picture.set(synchronize=synchronize)
        assert "160 µs" in written(picture)
        run = picture.state.done.end
        assert picture.scene.seconds == pytest.approx(lanes.PLAYED * run / 160e-6)
        ends.append(shapes(picture)["head"].points[0][0])
    assert ends[2] > ends[1] == pytest.approx(ends[0])
    picture.set(program="bring the result home")
    assert "400 µs" in written(picture)
    picture.set(program=ONE_STREAM)  # which takes 90 µs, and has nothing to do with the run before, of 369
    assert "400 µs" not in written(picture)
    assert "before" not in picture.scene.caption


def test_what_happens_comes_about_in_its_time(picture):
    """Each bar from its start to its end, in shares of the playing time; the head goes all the way."""
    picture.set(synchronize=NEVER)
    end = picture.state.done.end
    for name, span in (("host 1 0", (0, PRODUCT)), ("computing 3 0", (end - RUNNING, end))):
        assert shapes(picture)[name].during == pytest.approx([moment / end for moment in span], abs=1e-3)
    head = shapes(picture)["head"]
    assert head.during == (0.0, 1.0)
    assert head.points[0][0] - head.comes[0] == lanes.LEFT


def test_a_statement_keeps_its_id_wherever_the_host_synchronizes(picture):
    """So that it moves to its new place, and its bars with it."""
    before = shapes(picture)
    picture.set(synchronize=ALWAYS)
    after = shapes(picture)
    assert before["line 2"].words == " 2  b = a @ w"
    assert after["line 2"].words == " 3  b = a @ w"
    assert (before["host 2 0 label"].words, after["host 2 0 label"].words) == ("2", "3")


def test_what_is_printed_stands_where_the_host_prints_it(picture):
    """Before the copy, or at its end; it appears when the host prints it."""
    copied = done(EARLY).lanes[f"{SIM} {COPYING}"][0]
    picture.set(program=EARLY, synchronize=NEVER)
    early = shapes(picture)["prints 3"]
    assert early.words == "3 prints 0.0"
    assert early.during[0] * picture.state.done.end < copied.start
    assert "; it prints 0.0, because the copy has not brought 1.0 yet." in picture.scene.caption
    picture.set(synchronize=ALWAYS)
    late = shapes(picture)["prints 3"]
    assert late.words == "5 prints 1.0"
    ended = done(EARLY, ALWAYS).lanes[f"{SIM} {COPYING}"][0].end
    assert late.during[0] * picture.state.done.end == pytest.approx(ended)
    assert "prints" not in picture.scene.caption


def test_a_bar_has_the_colour_of_who_is_busy_and_says_what_it_is(picture):
    """A wait is hatched; host and device have lanes of their own."""
    picture.set(program="bring the result home", synchronize=NEVER)
    drawn = shapes(picture)
    wait, copy = drawn["host 3 0"], drawn["copying 3 0"]
    assert (wait.hatched, wait.fill, copy.hatched, copy.fill) == (True, "", False, palette.COPY)
    relu, bringing = (4 * 512**2 * one for one in (2 / CUDA_LIKE.bandwidth, 1 / CUDA_LIKE.pageable))
    home = PRODUCT + RUNNING + relu + bringing + 2 * CUDA_LIKE.shortest
    assert wait.says == (
        f"line 3: the host waits in .cpu(), {duration(home - STARTED)}, "
        f"from {duration(STARTED)} to {duration(home)}, simulated"
    )
    assert drawn["host 3 0 label"].words == "3 waits"
    for row in (1, 2, 4):
        host, device = drawn[f"host {row} 0"], drawn[f"computing {row} 0"]
        assert (host.fill, device.fill) == (palette.HOST, palette.of(SIM))
        assert host.y + host.high < device.y < device.y + device.high < copy.y


def test_an_order_leads_to_its_work(picture):
    """From where the host has given it to where the device begins."""
    picture.set(synchronize=NEVER)
    for row in (1, 2, 3):
        (x, _), (to_x, _) = shapes(picture)[f"order {row} 0"].points
        host, work = shapes(picture)[f"host {row} 0"], shapes(picture)[f"computing {row} 0"]
        assert (x, to_x) == pytest.approx((host.x + host.wide, work.x))


def test_below_a_line_stands_how_long_it_keeps_the_host(picture):
    """In proportion, and hatched where the host waits."""
    picture.set(program=IN_THE_LOOP, synchronize=NEVER)
    start, wait = shapes(picture)["spent 1 0"], shapes(picture)["spent 2 0"]
    assert wait.wide / start.wide == pytest.approx((THERE - STARTED) / PRODUCT, rel=0.01)
    assert (start.hatched, wait.hatched) == (False, True)


@pytest.mark.parametrize("synchronize", [NEVER, AT_THE_END, ALWAYS])
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_text_can_be_read_in_every_state(picture, program, synchronize):
    """Every program with every synchronization, whole and at its first statement."""
    for shown in (1, timeline.MOST):
        state = replace(picture.state, program=program, synchronize=synchronize, shown=shown)
        assert faults(picture.draw(state)) == []


@pytest.mark.parametrize("before", PROGRAMS)
@pytest.mark.parametrize("synchronize", [NEVER, ALWAYS])
def test_prints_stand_side_by_side_however_long_the_run_before_was(picture, before, synchronize):
    """None is written over another, and none over its own moment, at which the head may stand."""
    state = replace(
        picture.state,
        program=IN_THE_LOOP,
        synchronize=synchronize,
        before=replace(picture.state, program=before, synchronize=ALWAYS),
    )
    scene = picture.draw(state)
    assert faults(scene) == []
    drawn = {shape.id: shape for shape in scene.shapes}
    for key in ("2", "4", "6"):
        left, _, right, _ = extent(drawn[f"prints {key}"])
        at = drawn[f"host {key} 0"].x + drawn[f"host {key} 0"].wide
        assert right < at or left > at


def test_without_an_accelerator_the_host_does_all_the_work(monkeypatch):
    """The same picture of a real run, with nobody to wait for, and without what a CPU lacks."""
    monkeypatch.setattr(timeline, "first_accelerator", lambda: "cpu")
    picture = timeline.explorer()
    assert picture.words.startswith(f"{source('cpu')}: there is no accelerator here")
    assert {span.state for span in run_statements(picture.state.statements, "cpu").lanes[HOST]} == {COMPUTING}
    assert "there is no accelerator here" in written(picture)
    assert "measured" in shapes(picture)["host 1 0"].says
    assert faults(picture.scene) == []
    with pytest.raises(Refused, match="program cannot be"):
        picture.set(program=TWO_STREAMS)
    picture.set(program=EARLY)
    assert picture.words.endswith("printed so far: 1.0")


def test_what_a_device_lacks_is_not_offered():
    """Apple's has no streams to choose; every program is offered where all of it is there."""
    assert programs_for("cuda:1") == programs_for(SIM) == list(PROGRAMS)
    assert TWO_STREAMS not in programs_for("mps:0")
    assert ONE_STREAM in programs_for("mps:0")


def written(picture) -> list[str]:
    """Return what is written in the picture."""
    return [shape.words for shape in picture.scene.shapes if isinstance(shape, Words)]


def shapes(picture) -> dict:
    """Return the shapes of the picture by their ids."""
    return {shape.id: shape for shape in picture.scene.shapes}
