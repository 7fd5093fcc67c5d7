"""What a teacher gets: each format says what the learner's own overview says."""

import csv
import html.parser
import io
import json
import os
import re

import pytest

import devlab
from devlab import cli
from devlab.checks.exercise import exercises
from devlab.learner.overview import as_page, standing

ENTRIES = (
    {"outcome": "failed", "points": 1, "devices": {"cpu": "passed", "sim:0": "failed", "sim:1": "skipped"}},
    {"outcome": "passed", "points": 3, "devices": {"cpu": "passed", "sim:0": "passed", "sim:1": "skipped"}},
    {"outcome": "error", "points": 0, "devices": {"cpu": "error", "sim:0": "error"}},
)


@pytest.fixture
def begun(progress_file):
    """Leave a course begun: every outcome, on three devices, with a hint and a time."""
    progress_file.parent.mkdir()
    lines = []
    for number, exercise in enumerate(exercises()[:20]):
        entry = ENTRIES[number % 3]
        lines.append({"exercise": exercise.name, "time": "2026-11-20T10:00:00+0000"} | entry)
    lines.append({"exercise": "device_of", "hint": 2})
    progress_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return standing()


class Cells(html.parser.HTMLParser):
    """Reads the tables of a page: each row as its cells' texts, a sign as its words."""

    def __init__(self, page: str):
        super().__init__()
        self.rows, self.captions, self.scopes, self.open, self.loads = [], [], [], [], []
        self.feed(page)
        assert self.open == [], "each tag is closed"

    def handle_starttag(self, tag, attrs):
        """Begin a row or a cell; read the words of a sign."""
        given = dict(attrs)
        self.loads += [value for name, value in attrs if name in ("src", "href")]
        if tag in ("meta", "wbr"):
            return
        self.open.append(tag)
        if tag == "caption":
            self.captions.append("")
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.scopes += [given.get("scope")] if tag == "th" else []
        elif "aria-label" in given and {"td", "th"} & set(self.open):
            self.rows[-1][-1] += given["aria-label"]

    def handle_endtag(self, tag):
        """Match it."""
        assert self.open.pop() == tag

    def handle_data(self, data):
        """Collect a cell's text but for its sign, which was read as words."""
        if {"td", "th"} & set(self.open) and self.open[-1] in ("td", "th", "a"):
            self.rows[-1][-1] += data
        elif self.open and self.open[-1] == "caption":
            self.captions[-1] += data


def test_the_table_says_what_the_overview_says(begun, tmp_path):
    """A line for each exercise, and a column for each device that says where it is simulated."""
    begun.save(tmp_path / "me.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "me.csv").read_text(encoding="utf-8"))))
    assert [row["exercise"] for row in rows] == [line.name for line in begun.lines]
    for row, line in zip(rows, begun.lines, strict=True):
        assert (row["outcome"], int(row["points"]), int(row["tries"])) == (
            line.outcome,
            line.points,
            line.record.attempts,
        )
        for device, column in (
            ("cpu", "cpu"),
            ("sim:0", "sim:0 (simulated)"),
            ("sim:1", "sim:1 (simulated)"),
        ):
            assert row[column] == (line.on(device) or "")
    assert rows[0]["hints"] == "2"
    assert (rows[1]["time"], rows[30]["time"]) == ("2026-11-20T10:00:00+0000", "")


def test_json_says_the_same(begun, tmp_path):
    """Nested by lesson, and null where nothing was judged."""
    begun.save(tmp_path / "me.JSON")
    made = json.loads((tmp_path / "me.JSON").read_text(encoding="utf-8"))
    assert (made["passed"], made["possible"], made["next"]) == (begun.passed, begun.possible, begun.next)
    assert made["devices"][1] == {"name": "sim:0", "simulated": True}
    read = [one for lesson in made["lessons"] for one in lesson["exercises"]]
    for one, line in zip(read, begun.lines, strict=True):
        assert (one["exercise"], one["outcome"], one["possible"]) == (
            line.name,
            line.outcome,
            line.exercise.possible,
        )
        assert one["devices"] == {device: line.on(device) for device in begun.devices}


def test_the_page_says_the_same_and_stands_alone(begun, tmp_path):
    """Every lesson open, each table with a caption and heads; nothing to load, nothing to follow."""
    begun.save(tmp_path / "me.html")
    page = (tmp_path / "me.html").read_text(encoding="utf-8")
    cells = Cells(page)
    assert page.count("<details") == page.count(" open><summary") == len(begun.course)
    assert cells.captions[4] == "04 Transfers, with the outcome on each device"
    assert cells.loads == []
    assert set(cells.scopes) == {"col", "row"}
    head = ["exercise", "cpu", "sim:0 (simulated)", "sim:1 (simulated)", "remarks"]
    rows = [row for row in cells.rows if row != head]
    assert len(cells.rows) - len(rows) == len(begun.course)
    for row, line in zip(rows, begun.lines, strict=True):
        outcomes = [line.on(device) or "" for device in begun.devices]
        assert row == [f"{line.outcome} {line.name}", *outcomes, line.remark]


def test_the_notebook_shows_the_same_tables_with_one_lesson_open(begun):
    """The lesson that is next stands open; the others show a sign for each exercise."""
    shown = begun.html()
    assert Cells(shown).rows == Cells(as_page(begun)).rows
    assert re.findall(r" open><summary[^>]*><strong[^>]*>([^<]*)<", shown) == ["00 Start here"]
    assert 'aria-label="1 passed, 1 failed"' in shown
    assert "<style" not in shown


def test_links_lead_to_notebooks_that_are_there(tmp_path, monkeypatch):
    """From a notebook's own folder and from the course's; nowhere, where there is no such file."""
    (tmp_path / "exercises").mkdir()
    monkeypatch.chdir(tmp_path / "exercises")
    assert "<a " not in standing().html()
    (tmp_path / "exercises" / "00_start_here_exercises.ipynb").touch()
    assert '<a href="../exercises/00_start_here_exercises.ipynb">' in standing().html()
    monkeypatch.chdir(tmp_path)
    assert '<a href="exercises/00_start_here_exercises.ipynb">' in standing().html()


def test_nothing_of_the_stored_file_runs_in_a_page(progress_file):
    """A name in the file that is markup is text in the page."""
    progress_file.parent.mkdir()
    line = {"exercise": "<script>alert(1)</script>", "outcome": "passed", "points": 1, "devices": {}}
    progress_file.write_text(json.dumps(line) + "\n")
    assert "&lt;script&gt;" in standing().html()
    assert "<script" not in standing().html()


def test_a_course_not_begun_can_be_saved(tmp_path):
    """All rows are there, and no device."""
    for ending in ("csv", "json", "html"):
        saved = standing().save(tmp_path / f"me.{ending}")
        assert saved.path == tmp_path / f"me.{ending}"
        assert "device_of" in saved.path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("me.pdf", "'me.pdf' has none of those. Try \"me.html\""),
        ("me", "'me' has none of those. Try \"me.html\""),
        (".csv", "'.csv' has none of those. Try \"csv.html\""),
        ("", "has none of those. Try"),
        ("nowhere/me.csv", "there is no folder"),
        ("a\0b.csv", "cannot be written"),
        ("folder.csv", "cannot be written"),
        (3, "give the file a name in quotes"),
        (None, "give the file a name in quotes"),
    ],
)
def test_what_cannot_be_saved_says_why(path, said, tmp_path, monkeypatch, capsys):
    """No traceback, no file, and the next step."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.csv").mkdir()
    saved = devlab.progress().save(path)
    assert saved.path is None
    assert said in str(saved)
    assert "Not saved: " in capsys.readouterr().out
    assert os.listdir(tmp_path) == ["folder.csv"]


def test_a_name_may_begin_at_home_and_a_file_is_replaced(tmp_path, monkeypatch):
    """`~` is the home folder, and the second time replaces the first."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "me.json").write_text("x" * 100_000)
    saved = standing().save("~/me.json")
    assert saved.path == tmp_path / "me.json"
    assert json.loads(saved.path.read_text())["passed"] == 0


def test_the_command_line_saves_too(tmp_path, capsys):
    """`devlab progress --save` says where; status 1 and the reason where it cannot."""
    assert cli.main(["progress", "--save", str(tmp_path / "me.csv")]) == 0
    assert f"saved: {tmp_path / 'me.csv'}" in capsys.readouterr().out
    assert cli.main(["progress", "--save", str(tmp_path / "me.doc")]) == 1
    assert "Not saved" in capsys.readouterr().out
