"""What a log looks like laid out in time."""

import itertools
import re

import pytest
import torch

import devlab
from devlab.panel import escape
from devlab.watching.memory import duration
from devlab.watching.record import NOWHERE, Events, Launch, Synchronization, Transfer, When
from devlab.watching.timeline import (
    COMPUTING,
    COPYING,
    HOST,
    STARTING,
    WAITING,
    Span,
    Timeline,
    lay_out,
    paint,
    round_up,
)

SIM = "sim:0"


def step(x, w):
    """One copy in, one product, one value out."""
    return (x.to(SIM) @ w).sum().item()


@pytest.fixture
def log():
    """A log of two steps."""
    x, w = torch.ones(256, 256), torch.ones(256, 256, device=SIM)
    with devlab.watch() as log:
        step(x, w)
        step(x, w)
    return log


def test_lanes_hold_what_happened_in_order(log):
    """Host and device in the simulator's time: the copy, then the products, then the value."""
    lanes = log.timeline(show=False).lanes
    assert list(lanes) == [HOST, "sim:0 computing", "sim:0 copying"]
    assert [span.name for span in lanes["sim:0 computing"]] == ["mm", "sum"] * 2
    assert [span.name for span in lanes["sim:0 copying"]] == [".to()", ".item()"] * 2
    assert [span.state for span in lanes[HOST]] == [WAITING, STARTING, STARTING, WAITING] * 2
    for lane in lanes.values():
        assert all(one.end <= other.start + 1e-12 for one, other in itertools.pairwise(lane))
    first_copy, first_product = lanes["sim:0 copying"][0], lanes["sim:0 computing"][0]
    assert first_product.start >= first_copy.end


def test_the_same_program_takes_the_same_simulated_time():
    """Nothing of the wall clock gets in."""

    def total():
        x, w = torch.ones(64, 64), torch.ones(64, 64, device=SIM)
        torch.sim.synchronize()
        with devlab.watch() as log:
            step(x, w)
        return log.timeline(show=False).total

    assert total() == pytest.approx(total(), rel=1e-9)


def test_two_streams_overlap_and_one_does_not():
    """A pinned, non-blocking copy on a stream of its own runs beside the computing."""
    x, w = torch.ones(1024, 1024).pin_memory(), torch.ones(1024, 1024, device=SIM)

    def overlap(stream):
        torch.sim.synchronize()
        with devlab.watch() as log:
            w @ w
            with torch.sim.stream(stream):
                x.to(SIM, non_blocking=True)
            torch.sim.synchronize()
        lanes = log.timeline(show=False).lanes
        (product,), (copy,) = lanes["sim:0 computing"], lanes["sim:0 copying"]
        return min(product.end, copy.end) - max(product.start, copy.start)

    assert overlap(torch.sim.Stream()) > 0
    assert overlap(torch.sim.current_stream()) <= 1e-12


def test_as_text(log, capsys):
    """It says that it is simulated, draws each lane, and names the longest waits with their lines."""
    panel = log.timeline()
    text = capsys.readouterr().out.rstrip("\n")
    assert text == panel.text()
    lines = text.splitlines()
    assert "of simulated time" in lines[0]
    assert [line.split("  ")[0] for line in lines[2:5]] == ["host", "sim:0 computing", "sim:0 copying"]
    assert "░ waiting" in lines[5]
    assert "█ computing" in lines[5]
    assert lines[6].startswith("the host waited ")
    assert "2 × .to()" in text
    assert "return (x.to(SIM) @ w).sum().item()" in text
    assert len({len(line) for line in lines[2:5]}) == 1


def test_as_html(log):
    """A drawing that a screen reader can tell, in the theme's own colour for words."""
    html = log.timeline(show=False).html()
    assert '<svg role="img" aria-label="timeline of ' in html
    assert 'fill="currentColor"' in html
    assert "<script" not in html
    assert "<style" not in html
    assert html.count("<rect") >= 6


def test_words_of_a_drawing_that_is_taken_out(log):
    """A notebook that is not trusted loses a drawing's tags, not its words: one sentence is left to read."""
    html = log.timeline(show=False).html()
    inside = html.partition('<div style="font-size:0px">')[2].partition("</svg></div>")[0]
    assert html.count("<text ") == inside.count('<text x="') == inside.count('font-size="12"') > 0
    assert inside.count('<span style="font-size:13px">Run this cell, and the drawing is here.</span>') == 1


def lasting(seconds: float, **beside) -> Timeline:
    """Return the timeline of one wait that takes so long."""
    return Timeline(Events([Synchronization("cuda:0", "wait", NOWHERE, When(3.0, 3.0 + seconds))]), **beside)


def drawn(timeline: Timeline) -> tuple[int, int]:
    """Return how wide its only lane is drawn: in columns of the text, and in pixels."""
    (lane,) = (line for line in timeline.text().splitlines() if line.startswith(HOST))
    width = re.findall(r'<rect x="124.0" y="\d+" width="([\d.]+)"', timeline.html())[-1]
    return len(lane.removeprefix(HOST).strip()), float(width)


def test_two_that_are_compared_are_drawn_to_one_scale():
    """A program that takes 157 µs in place of 221 is drawn shorter by as much, and the scale is written."""
    before = lasting(221e-6)
    for after in (lasting(157e-6), lasting(157e-6, beside=before)):
        assert before.scale == after.scale == 250e-6
        assert drawn(before) == (64, pytest.approx(622 * 221 / 250, abs=1))
        assert drawn(after) == (46, pytest.approx(622 * 157 / 250, abs=1))
        for one in (before, after):
            assert one.text().splitlines()[1].endswith("250 µs")
            assert ">250 µs</text>" in one.html()
    assert drawn(lasting(10e-6, beside=before)) == (3, pytest.approx(622 * 10 / 250, abs=1))


def test_three_that_are_compared_stand_in_one_figure():
    """One above the other, to the scale of all three, each with its own words."""
    first = lasting(900e-6)
    third = lasting(300e-6, beside=lasting(150e-6, beside=first))
    widths = re.findall(r'<rect x="124.0" y="(\d+)" width="([\d.]+)"', third.html())
    assert [float(width) for _, width in widths] == [
        pytest.approx(622 * t, abs=0.1) for t in (0.9, 0.15, 0.3)
    ]
    assert len({y for y, _ in widths}) == 3
    assert [words for words in ("900 µs, m", "150 µs, m", "300 µs, m") if words not in third.html()] == []
    assert third.html().count("1 ms</text>") == 1


def test_a_stretch_says_its_operator_its_time_and_its_line(log):
    """Under the pointer; what is too short to be seen shares a rectangle with its like, and is counted."""
    panel = log.timeline(show=False)
    html = panel.html()
    product = panel.lanes["sim:0 computing"][0]
    assert f"<title>computing: mm, {duration(product.seconds)}\n{escape(str(product.line))}</title>" in html
    assert ">mm</text>" in html
    with devlab.watch() as many:
        for _ in range(500):
            torch.ones(4, device=SIM).add(1)
    titles = re.findall("<title>([^<]+)</title>", many.timeline(show=False).html())
    assert len(titles) < 2 * 622
    assert any(re.match(r"starting work:\n\d+ × (add|ones)  ", title) for title in titles)


def test_a_longer_one_has_its_own_scale_and_says_so():
    """What has been drawn stays as it is, so the words tell that the two differ."""
    longer = lasting(900e-6, beside=lasting(221e-6))
    assert longer.scale == 1e-3
    assert longer.text().splitlines()[0] == "900 µs, measured; drawn over 1 ms, the one before over 250 µs"


@pytest.mark.parametrize("seconds", [1e-9, 1e-6, 2.4e-5, 2.5e-5, 2.6e-5, 0.0999, 0.1, 7.0, 1000.0])
def test_a_scale_is_a_round_number_that_holds_everything(seconds):
    """At most two and a half times too long."""
    scale = round_up(seconds)
    assert seconds <= scale < 2.5001 * seconds
    assert f"{scale:e}".partition(".")[0] + f"{scale:e}".partition(".")[2][0] in {"10", "25", "50"}


def test_nothing_to_draw():
    """On the CPU alone there is one lane too few."""
    with devlab.watch() as log:
        torch.ones(2) + 1
    assert log.timeline(show=False).text() == "nothing left the CPU, so there are no lanes to draw"
    assert "no lanes" in log.timeline(show=False).html()


class Mark:
    """What a real device leaves in its queue, made up: milliseconds on its own clock."""

    def __init__(self, at):
        self.at = at
        self.waited = False

    def synchronize(self):
        self.waited = True

    def elapsed_time(self, other):
        return other.at - self.at


def test_a_real_devices_marks_are_put_on_the_hosts_clock():
    """The first mark was left when the host began; the others follow by the device's own clock."""
    moved = When(100.0, 100.002, (Mark(5.0), Mark(7.0)))
    launched = When(100.002, 100.0021, (Mark(7.0), Mark(10.0)))
    waited = When(100.0021, 100.005)
    events = Events([
        Transfer("cpu", "cuda:0", 8, False, True, False, ".to()", NOWHERE, moved),
        Launch("cuda:0", "mm", NOWHERE, launched),
        Synchronization("cuda:0", "synchronize()", NOWHERE, waited),
    ])  # fmt: skip
    lanes = lay_out(events)
    (copy,), (product,) = lanes["cuda:0 copying"], lanes["cuda:0 computing"]
    assert (copy.start, copy.end, copy.state) == (pytest.approx(0.0), pytest.approx(0.002), COPYING)
    assert (product.start, product.end, product.state) == (
        pytest.approx(0.002),
        pytest.approx(0.005),
        COMPUTING,
    )
    assert lanes[HOST][-1].end == pytest.approx(0.005)
    # On an idle GPU the first mark is reached when it is set, so the title says what a stretch is.
    assert Timeline(events).text().startswith("5 ms, measured, on the device between two marks")


def test_a_copy_between_two_gpus_is_in_the_lane_whose_marks_it_has():
    """CUDA compares the times of two marks on one device only."""
    marks = Mark(5.0), Mark(7.0)
    for mark in marks:
        mark.device = torch.device("cuda:0")
    moved = When(1.0, 1.001, marks)
    copy = Transfer("cuda:0", "cuda:1", 8, False, False, True, ".to()", NOWHERE, moved)
    assert list(lay_out(Events([copy]))) == [HOST, "cuda:0 copying"]


def test_a_device_without_marks_has_no_lane_of_its_own():
    """The host's lane is drawn all the same, and called measured."""
    launched = When(1.0, 1.5, (None, None))
    panel = Timeline(Events([Launch("mps:0", "mm", NOWHERE, launched)]))
    assert list(panel.lanes) == [HOST]
    assert panel.text().startswith("500 ms, measured")
    assert "the host never waited" in panel.text()


def test_a_stretch_shorter_than_a_column_is_still_seen():
    """The column shows what took most of it."""
    lane = [
        Span(0.0, 0.01, STARTING, "", None),
        Span(0.5, 0.54, WAITING, "", None),
        Span(0.54, 0.55, STARTING, "", None),
    ]
    assert paint(lane, 1.0, 10) == [STARTING, "", "", "", "", WAITING, "", "", "", ""]


def test_a_border_on_a_columns_own_does_not_flicker():
    """A span that ends where a column does is not drawn in the next one, whatever its last digits are."""
    for off in (-1e-13, 0.0, 1e-13):
        lane = [Span(0.0, 0.3 + off, STARTING, "a", None), Span(0.3 + off, 0.5, WAITING, "b", None)]
        assert paint(lane, 1.0, 10) == [STARTING] * 3 + [WAITING] * 2 + [""] * 5


def test_states_that_share_columns_have_as_many_as_their_time_asks_for():
    """A host that waits 40 % of each short step is drawn waiting in 40 % of the columns."""
    steps = [(STARTING, 0.6), (WAITING, 0.4)] * 50
    lane, at = [], 0.0
    for state, seconds in steps:
        lane.append(Span(at, at + seconds, state, "step", None))
        at += seconds
    drawn = paint(lane, at, 25)
    assert drawn.count(WAITING) == 10
    assert drawn.count(STARTING) == 15


def test_short_work_is_seen_and_is_not_drawn_as_if_it_never_stopped():
    """Copies of a few bytes, a long way apart, each have a mark, and gaps between the marks."""
    apart = [Span(at, at + 0.01, COPYING, "copy", None) for at in (0.0, 3.0, 6.0)]
    assert paint(apart, 9.0, 9) == [COPYING, "", "", COPYING, "", "", COPYING, "", ""]
    often = [Span(float(at), at + 0.01, COPYING, "copy", None) for at in range(60)]
    assert paint(often, 60.0, 60).count("") == 30
