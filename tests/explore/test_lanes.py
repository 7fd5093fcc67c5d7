"""The chart of lanes: its scale, its bars, and what they say."""

import pytest

from devlab.explore.lanes import LEFT, RIGHT, Chart
from devlab.explore.scene import Words


@pytest.fixture
def chart():
    """Return an empty chart of a run of 100 µs."""
    return Chart("sim:0", 100e-6, [130e-6], top=0, bottom=100)


def labels(chart) -> list[Words]:
    """Return what is written in a chart."""
    return [shape for shape in chart.shapes if isinstance(shape, Words)]


def test_the_scale_is_round_and_holds_the_runs_beside(chart):
    """So two runs that are drawn beside the same others have one scale."""
    assert chart.scale == pytest.approx(160e-6)
    assert Chart("sim:0", 130e-6, [100e-6], top=0, bottom=100).scale == chart.scale
    assert (chart.x(0), chart.x(160e-6)) == (LEFT, RIGHT)


@pytest.mark.parametrize(("end", "written"), [(30e-6, ["2 waits"]), (5e-6, ["2"]), (1e-6, [])])
def test_a_label_is_shortened_until_it_fits_into_its_bar(chart, end, written):
    """A bar that is too narrow for any has none, and can be asked by the pointer all the same."""
    chart.bar("host", (0, end), 0, 28, "", "2 waits", "the host waits")
    assert [text.words for text in labels(chart)] == written
    assert chart.shapes[0].says.startswith("the host waits, from 0 to ")


def test_a_label_comes_when_its_bar_has_grown_so_far(chart):
    """It never stands beside its bar."""
    chart.bar("host", (20e-6, 60e-6), 0, 28, "#3a86c8", "1", "the host works")
    bar, label = chart.shapes
    begin, end = bar.during
    reached = bar.x + bar.wide * (label.during[0] - begin) / (end - begin)
    assert label.x < reached < bar.x + bar.wide


def test_what_takes_no_time_can_be_seen(chart):
    """As a line."""
    chart.bar("host", (50e-6, 50e-6), 0, 28, "", "3", "the host waits")
    assert chart.shapes[0].wide > 1


def test_nothing_comes_after_the_end(chart):
    """By a device's clock something may end after the run; it would never be seen."""
    assert chart.share(90e-6, 101e-6) == (pytest.approx(0.9), 1.0)


def test_measured_times_are_said_to_be_measured():
    """Each bar says where its times are from."""
    chart = Chart("cuda:0", 1e-3, [2e-3], top=0, bottom=100)
    chart.bar("host", (0, 1e-3), 0, 28, "", "", "the host waits")
    chart.ghost("host", (0, 2e-3), 30, 10, "the host waits")
    assert chart.shapes[0].says == "the host waits, from 0 to 1 ms, measured"
    assert chart.shapes[1].says == "before: the host waits, from 0 to 2 ms, measured"
