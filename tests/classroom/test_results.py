"""Results: lines of JSON, tables, pages for students, and nbgrader's gradebook say the same marks."""

import csv
import json
from html.parser import HTMLParser
from io import StringIO

import pytest
from classroom.students import LESSON, deserved, marked_here

from devlab import cli
from devlab.checks.exercise import find
from devlab.checks.result import SIGNS, Outcome
from devlab.classroom import feedback, gradescope, results
from devlab.classroom.results import Graded, Record


@pytest.fixture(scope="module")
def records() -> list[Record]:
    """The small class of lesson 00, marked."""
    return marked_here(submitted="2026-11-20 10:00:00 UTC")


class Page(HTMLParser):
    """What a page of feedback holds: its tags, its text, the ids and where links lead."""

    def __init__(self, html: str):
        super().__init__()
        self.tags, self.text, self.ids, self.links = [], "", [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        facts = dict(attrs)
        self.tags.append(tag)
        self.ids += [facts["id"]] if "id" in facts else []
        self.links += [value for name, value in attrs if name in ("href", "src", "action")]
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data):
        self.text += data


def test_marks_are_those_deserved(records):
    """The fixture's own proof: what follows tells of real verdicts."""
    assert {one.student: {e.name: e.points for e in one.exercises} for one in records} == deserved()


def test_lines_of_json_concatenate(records, tmp_path):
    """Shards read as one; the last line of a student counts, and a line cut off costs only itself."""
    lines = [one.line() + "\n" for one in records]
    again = Record(records[1].student, LESSON, "later.ipynb")
    (tmp_path / "1.jsonl").write_text("".join(lines[:2]) + lines[2][:100])
    (tmp_path / "2.jsonl").write_text("".join(lines[2:]) + "not json\n" + again.line() + "\n")
    read = list(results.read_all([tmp_path / "1.jsonl", tmp_path / "2.jsonl"]))
    assert {one.student: one for one in read} == {one.student: one for one in (*records, again)}


def test_the_csv_is_nbgraders(records, tmp_path):
    """The very columns of `nbgrader export`, and the totals of the class."""
    from nbgrader.apps import ExportApp  # noqa: F401  nbgrader is there, and so is its plugin
    from nbgrader.plugins import CsvExportPlugin

    class Nobody:
        assignments = ()

    plugin = CsvExportPlugin()
    plugin.to = str(tmp_path / "empty.csv")
    plugin.export(Nobody())
    header = (tmp_path / "empty.csv").read_text()
    text = results.nbgrader_csv(records)
    assert text.startswith(header.rstrip("\n"))
    rows = list(csv.DictReader(StringIO(text)))
    assert {row["student_id"]: float(row["score"]) for row in rows} == {
        name: sum(points.values()) for name, points in deserved().items()
    }
    assert {(row["raw_score"] == row["score"], row["max_score"]) for row in rows} == {(True, "8.0")}


def test_a_name_is_no_formula_and_no_column():
    """Commas are quoted, and what a spreadsheet would run is shown."""
    rows = list(
        csv.reader(StringIO(results.nbgrader_csv([Record('=HYPERLINK("http://x")', "05, part 1", "x")])))
    )
    assert rows[1][0] == "05, part 1"
    assert rows[1][3] == '\'=HYPERLINK("http://x")'


def test_gradescope_gets_a_test_for_each_exercise(records):
    """Scores add up, statuses are Gradescope's own two words, and what failed is explained."""
    for one in records:
        made = json.loads(gradescope.results_json(one))
        assert made["score"] == sum(test["score"] for test in made["tests"]) == one.points
        assert [test["max_score"] for test in made["tests"]] == [3, 5]
        assert {test["status"] for test in made["tests"]} <= {"passed", "failed"}
        assert {test["output_format"] for test in made["tests"]} == {"text"}
    wrong = json.loads(gradescope.results_json(records[1]))["tests"][0]["output"]
    assert "not right yet" in wrong
    assert "is right for every kind of tensor: cpu passed, sim:0 failed, sim:1 failed" in wrong


def test_a_student_reads_their_verdicts_and_their_code(records):
    """The page has the points, each row on each device, the message, and what they wrote."""
    page = Page(feedback.page(records[1], "00 Start here"))
    assert "3 of 8 points" in page.text
    assert "is right for every kind of tensor" in page.text
    assert 'return torch.device("cpu")' in page.text
    assert "Judged on cpu, sim:0, sim:1. A sim device is a simulated accelerator" in page.text
    assert page.ids == ["device_of", "same_place"]
    assert page.links == ["#device_of", "#same_place"]
    assert page.tags.count("h1") == 1


def test_nothing_of_the_tests_is_shown(records):
    """No page holds a line of the code that judges, nor of the solutions."""
    import inspect

    from devlab.checks.help import solution_source
    from devlab.lessons.lesson_00_start_here import device_of, same_place

    pages = "".join(Page(feedback.page(one, "x")).text for one in records[1:])
    sources = map(inspect.getsource, (device_of, same_place))
    lines = [line.strip() for source in sources for line in source.splitlines()]
    hidden = [
        line for line in lines if line.startswith(("expect.", "_expect", "def ", "for ")) and len(line) > 20
    ]
    hidden += [line.strip() for line in solution_source(find("same_place")).splitlines() if "named" in line]
    assert len(hidden) > 20
    assert [line for line in hidden if line in pages] == []


def test_code_in_a_headline_is_set_as_code():
    """As in the notebook."""
    one = Graded("f", "failed", 0, 1, "the input `losses[0]` was replaced")
    page = feedback.page(Record("a", "b", "c", (one,)), "b")
    assert "the input <code>losses[0]</code> was replaced" in page


HOSTILE = "`</code></pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'&<!--`"


def test_a_page_is_harmless_whatever_a_submission_holds():
    """Markup, control characters, half a character and a megabyte of text stay text."""
    nasty = HOSTILE + "\x1b[31m\0\ud800" + "x" * 1_000_000
    one = Graded("f", "error", 0, 1, nasty, ((nasty, {nasty: nasty}),), ((nasty, nasty),), nasty)
    html = feedback.page(Record(nasty, nasty, nasty, (one,), nasty, (nasty,)), nasty)
    html.encode("utf-8")
    page = Page(html)
    assert not {"script", "img"} & set(page.tags)
    assert page.links == ["#f"]
    assert "\0" not in html
    assert "\x1b" not in html
    assert len(html) < 1_000_000
    assert "more characters" in page.text


@pytest.mark.parametrize("outcome", [*results.WORDS, "something new"])
def test_every_outcome_has_words(outcome):
    """A student never has to guess from a colour or a sign."""
    page = Page(feedback.page(Record("a", "b", "c", (Graded("f", outcome, 0, 1),)), "b"))
    assert results.WORDS.get(outcome, ("", outcome))[1] in page.text
    assert "There is none in this cell." in page.text


def test_reports_are_written_beside_the_results(records, tmp_path, capsys):
    """`devlab report` makes the tables, a page a student, and Gradescope's file of a single one."""
    out = tmp_path / "results.jsonl"
    out.write_text("".join(one.line() + "\n" for one in records))
    assert cli.main(["report", str(out)]) == 0
    assert "(5 pages)" in capsys.readouterr().out
    assert (tmp_path / "grades.csv").exists()
    assert "device_of" in (tmp_path / "exercises.csv").read_text(encoding="utf-8-sig")
    page = (tmp_path / "feedback" / "Half Hélène" / f"{LESSON}.html").read_text(encoding="utf-8")
    assert "<h1>00 Start here</h1>" in page
    assert cli.main(["report", str(out), "--gradescope", str(tmp_path / "results.json")]) == 1
    assert "Each of these files holds one submission, and there are 5." in capsys.readouterr().err
    out.write_text(records[0].line())
    assert cli.main(["report", str(out), "--gradescope", str(tmp_path / "results.json")]) == 0
    assert json.loads((tmp_path / "results.json").read_text())["score"] == 8


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course whose gradebook knows lesson 00, as `nbgrader generate_assignment` leaves it."""
    from pathlib import Path
    from sys import executable

    from nbgrader.api import Gradebook

    monkeypatch.setenv("PATH", str(Path(executable).parent), prepend=":")
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as book:
        book.add_assignment(LESSON)
        book.add_notebook(LESSON, LESSON)
        for name, points in (("device_of", 3), ("same_place", 5)):
            facts = {"max_score": points, "cell_type": "code"}
            book.add_solution_cell(name, LESSON, LESSON)
            book.add_grade_cell(f"check_{name}", LESSON, LESSON, **facts)
    return tmp_path


def test_marks_go_into_nbgraders_gradebook(records, course):
    """Exercise by exercise; a mark that a teacher gave by hand stays, and asks for a look."""
    from nbgrader.api import Gradebook

    def find_grades(book, student):
        notebook = book.find_submission_notebook(LESSON, LESSON, student)
        return {grade.name.removeprefix("check_"): grade for grade in notebook.grades}

    assert results.write_gradebook(records, course) == len(records)
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        for student, points in deserved().items():
            assert {
                n.removeprefix("check_"): g.score for n, g in find_grades(book, student).items()
            } == points
        find_grades(book, "Wrong Will")["device_of"].manual_score = 2.0
        book.db.commit()
    results.write_gradebook(records, course)
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        changed = find_grades(book, "Wrong Will")["device_of"]
        assert (changed.score, changed.auto_score, changed.needs_manual_grade) == (2.0, 1.0, True)
        assert str(book.find_submission(LESSON, "Right Rita").timestamp) == "2026-11-20 10:00:00"


def test_an_assignment_that_the_gradebook_does_not_know_is_told(records, course):
    """Nothing is written before all is known to fit, and the message says what to type."""
    other = Record("anna", "05_buffers", "x", (Graded("f", "passed", 1, 1),))
    with pytest.raises(results.GradebookError, match="nbgrader generate_assignment 05_buffers"):
        results.write_gradebook([*records, other], course)
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        assert not book.students
    with pytest.raises(results.GradebookError, match="has no gradebook"):
        results.write_gradebook(records, course / "elsewhere")


def test_titles(records):
    """A lesson's page carries its title, a teacher's own assignment its name."""
    assert feedback.title_of("00_start_here") == "00 Start here"
    assert feedback.title_of("exam_2") == "exam 2"


def test_who_handed_in_what_cannot_be_marked_is_in_every_report(records, tmp_path):
    """No marks, out of what others could get; the page says why, and what is asked for."""
    unreadable = Record("Lost Leo", LESSON, "x.ipynb", problem="the file is empty: ask for it again")
    rows = list(csv.DictReader(StringIO(results.nbgrader_csv([*records, unreadable]))))
    assert [(row["score"], row["max_score"]) for row in rows if row["student_id"] == "Lost Leo"] == [
        ("0.0", "8.0")
    ]
    page = Page(feedback.page(unreadable, "00 Start here"))
    assert "Not marked: the file is empty: ask for it again" in page.text
    assert " points" not in page.text
    assert json.loads(gradescope.results_json(unreadable))["output"] == unreadable.problem


# What is none of devlab's, by the field that it replaces in a line of results.
STRANGE = {
    "an unknown outcome": ("outcome", "splendid"),
    "an outcome that is no text": ("outcome", ["passed"]),
    "a headline that is no text": ("headline", {"a": 1}),
    "points that are no number": ("points", "3"),
    "points beyond all numbers": ("points", float("inf")),
    "marks that are no table": ("rows", [["a", ["cpu"]]]),
    "a mark that is no text": ("rows", [["a", {"cpu": {}}]]),
    "an unknown mark": ("rows", [["a", {"cpu": "splendid"}]]),
    "a row without marks": ("rows", [["a"]]),
    "a label that is no text": ("rows", [[3, {"cpu": "passed"}]]),
    "a detail that is no text": ("details", [["got", 3]]),
    "no details": ("details", 7),
    "code that is no text": ("source", None),
}


@pytest.mark.parametrize(("field", "value"), STRANGE.values(), ids=STRANGE)
def test_a_malformed_line_costs_only_itself(records, field, value, tmp_path, capsys):
    """Reports are made of all others, also when they are made again; the line counts as not graded yet."""
    from devlab.classroom.engine.grade import find_finished

    first = json.loads(records[0].line()) | {"digest": "d"}
    first["exercises"][0][field] = value
    lines = [json.dumps(first), *(one.line() for one in records[1:])]
    out = tmp_path / "results.jsonl"
    out.write_text("\n".join(lines), encoding="utf-8")
    for _ in range(2):
        assert cli.main(["report", str(out)]) == 0
        assert "(4 pages)" in capsys.readouterr().out
    assert not find_finished(out)


def test_each_outcome_of_a_row_has_a_sign():
    """Whatever devlab's own verdicts hold is read, and shown by the sign that it has there."""
    for outcome in Outcome:
        one = Graded("f", "failed", 0, 1, rows=(("a row", {"cpu": str(outcome), "sim:0": None}),))
        record_of = Record("a", LESSON, "c", (one,))
        assert Record.from_line(record_of.line()) == record_of
        assert f'aria-label="{outcome}">{SIGNS[outcome]}<' in feedback.page(record_of, "b")


def test_a_page_that_cannot_be_written_costs_only_itself(records, tmp_path, monkeypatch, capsys):
    """All others are written, and it is named with the reason."""
    right = feedback.page

    def page(one, title):
        if one is records[1]:
            raise RecursionError("out of the blue\x1b[2J")
        return right(one, title)

    monkeypatch.setattr(feedback, "page", page)
    written = feedback.write(records, tmp_path)
    assert len(written.feedback) == len(records) - 1
    assert f"no page for {records[1].student}, {LESSON}: out of the blue?[2J" in written.text()
    assert (tmp_path / "grades.csv").exists()


@pytest.mark.parametrize("command", ["course", "collect", "grade", "report"])
def test_a_place_that_cannot_be_used_is_told_in_a_line(command, records, tmp_path, capsys):
    """A file stands where a folder is needed: one line names it and says what to do, with no traceback."""
    if command != "course":
        assert cli.main(["course", str(tmp_path / "c"), "--lessons", "0"]) == 0
        (tmp_path / "c" / "collected.csv").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "file").write_text(records[0].line(), encoding="utf-8")
    (tmp_path / "results.jsonl").write_text(records[0].line(), encoding="utf-8")
    inside, where = str(tmp_path / "file" / "inside"), ["--course", str(tmp_path / "c")]
    words = {
        "course": ["course", inside],
        "collect": ["collect", str(tmp_path / "in"), *where],
        "grade": ["grade", str(tmp_path / "in"), *where, "--out", str(tmp_path / "in")],
        "report": ["report", str(tmp_path / "results.jsonl"), "--to", inside],
    }
    capsys.readouterr()
    assert cli.main(words[command]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"devlab stopped. {tmp_path}")
    assert "Name a place that you may use." in told
    assert told.count("\n") == 1


def test_what_could_not_be_graded_takes_no_marks_away(records, tmp_path):
    """A second file, or a second run over it, leaves what was graded; a later mark replaces an earlier."""
    lost = Record(records[0].student, LESSON, "copy.ipynb", problem="a later one was taken")
    again = Record(records[0].student, LESSON, "again.ipynb", records[0].exercises)
    for lines, kept in (([records[0], lost], records[0]), ([lost, again], again), ([lost, lost], lost)):
        path = tmp_path / "r.jsonl"
        path.write_text("".join(one.line() + "\n" for one in lines), encoding="utf-8")
        assert list(results.read_all([path])) == [kept]
