"""The verdict as text and as HTML."""

import html.parser
import re

import pytest

import devlab
from devlab.checks.result import Outcome, Result, RowResult

PASSED, FAILED = Outcome.PASSED, Outcome.FAILED


def left_behind() -> Result:
    """Return the design's own example."""
    return Result(
        name="move",
        outcome=FAILED,
        headline="the label stayed behind",
        rows=(
            RowResult("every tensor reaches the device", {"cpu": PASSED, "sim:0": FAILED, "sim:1": FAILED}),
            RowResult("nothing is copied twice", {"cpu": PASSED, "sim:0": PASSED, "sim:1": None}),
        ),
        details=(("called with", '{"x": f32[4,3] cpu}, judged on sim:0'), ("next", "devlab.hint(move)")),
        possible=2,
    )


def test_text_is_aligned():
    """Signs stand under their device's name, points at the right edge."""
    assert str(left_behind()).splitlines() == [
        "✗ move: the label stayed behind             1 of 2 points",
        "                                      cpu   sim:0   sim:1",
        "  every tensor reaches the device      ✓      ✗       ✗",
        "  nothing is copied twice              ✓      ✓",
        '  called with   {"x": f32[4,3] cpu}, judged on sim:0',
        "  next          devlab.hint(move)",
    ]


class Reader(html.parser.HTMLParser):
    """Collects text, and checks that every tag is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.words, self.attributes = [], [], []

    def handle_starttag(self, tag, attrs):
        """Remember the tag."""
        self.open.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        """Match it."""
        assert self.open.pop() == tag

    def handle_data(self, data):
        """Collect the words."""
        self.words.append(data)


def test_html_says_what_the_text_says():
    """Every label, sign, device and detail; signs have names for a screen reader; no style sheet."""
    reader = Reader()
    reader.feed(left_behind().html())
    said = " ".join(reader.words)
    for words in (
        "the label stayed behind",
        "1 of 2 points",
        "sim:1",
        "nothing is copied twice",
        '{"x": f32[4,3] cpu}',
    ):
        assert words in said
    assert reader.open == []
    assert ("aria-label", "failed") in reader.attributes
    assert "<style" not in left_behind().html()
    assert "<script" not in left_behind().html()


def test_a_warning_comes_before_all_else():
    """Such as that the judged answer is an earlier one."""
    result = left_behind()
    result.warning = "In[3] <failed>"
    assert str(result).splitlines()[0] == "! In[3] <failed>"
    assert result.html().index("In[3] &lt;failed&gt;") < result.html().index("the label stayed behind")


@pytest.mark.parametrize(
    ("expected", "got", "marked"),
    [
        ("f32[4,3] sim:0", "f32[4,3] cpu", ["sim:0", "cpu"]),
        ("f32[4,3] cpu", "f64[4,2] cpu", ["f32", "3", "f64", "2"]),
        ("each row as it came: -6.654 at [0, 3]", "-6.65234 at [0, 3]", ["-6.654", "-6.65234"]),
        ('{"x": f32[2] sim:0}', '{"x": f32[2] sim:0, "y": <b>}', [", &quot;y&quot;: &lt;b&gt;"]),
        ("a tensor", "None", []),
        ("True", "False", []),
    ],
)
def test_what_differs_is_marked(expected, got, marked):
    """In both lines, as far as they say the same otherwise; where no word is the same nothing is marked."""
    result = left_behind()
    result.details = (("expected", expected), ("got", got), ("next", expected))
    assert re.findall(r"<mark[^>]*>(.*?)</mark>", result.html()) == marked
    reader = Reader()
    reader.feed(result.html())
    said = "".join(reader.words)
    assert reader.open == []
    assert expected in said
    assert got in said


def test_html_is_escaped():
    """A learner's text cannot become markup."""
    result = Result("f", FAILED, "<b>bold</b>", details=(("got", "<img src=x>"),))
    assert "<b>" not in result.html()
    assert "<img" not in result.html()


def test_code_in_a_headline_is_set_as_code():
    """The text keeps its backticks; in HTML they become what they mean, and the code in them stays text."""
    result = Result("f", FAILED, "the input `batch['<x>']` was replaced")
    assert "the input `batch['<x>']` was replaced" in str(result)
    assert "the input <code>batch[&#x27;&lt;x&gt;&#x27;]</code> was replaced" in result.html()


def test_code_in_a_rows_label_is_set_as_code():
    """A label such as "`table` is saved" reads in HTML as a headline does; the text keeps its backticks."""
    result = Result("f", FAILED, "wrong", (RowResult("`<table>` is saved", {"cpu": FAILED}),), possible=1)
    assert "`<table>` is saved" in str(result)
    assert "<code>&lt;table&gt;</code> is saved" in result.html()


def test_points_have_a_noun():
    """A bare "0 of 1" tells nobody of what."""
    assert (
        Result("f", FAILED, "wrong", (RowResult("a", {"cpu": FAILED}),), possible=1).score == "0 of 1 point"
    )
    assert left_behind().score == "1 of 2 points"


def test_a_device_counts_by_what_was_found_there():
    """A row that was not reached says less of a device than one that failed, wherever the two stand."""
    rows = [RowResult(str(one), {"cpu": one}) for one in (PASSED, Outcome.NOT_REACHED, FAILED)]
    assert Result("f", FAILED, "wrong", tuple(rows)).on("cpu") is FAILED
    assert Result("f", FAILED, "wrong", tuple(rows[:2])).on("cpu") is Outcome.NOT_REACHED
    assert Result("f", PASSED, "passed", tuple(rows[:1])).on("cpu") is PASSED
    assert not rows[1].passed


def test_properties():
    """What graders and tests read."""
    result = left_behind()
    assert (result.points, result.possible, result.passed) == (1, 2, False)
    assert result.outcome == "failed"
    assert [row.passed for row in result.rows] == [False, True]
    assert repr(result).startswith("<✗ move: the label stayed behind")


def test_strict_mode_raises_for_all_but_a_pass(monkeypatch, capsys):
    """A grader sets DEVLAB_STRICT=1; the message is the verdict."""
    monkeypatch.setenv("DEVLAB_STRICT", "1")

    def device_of(x):
        return x.device

    assert devlab.check(device_of).passed

    def device_of(x):
        return "cpu"

    with pytest.raises(devlab.CheckFailed, match=r"not a torch\.device"):
        devlab.check(device_of)

    def device_of(x):
        raise NotImplementedError("your code here")

    with pytest.raises(AssertionError, match="not attempted"):
        devlab.check(device_of)
    with pytest.raises(devlab.CheckFailed, match="this is an int"):
        devlab.check(3)
