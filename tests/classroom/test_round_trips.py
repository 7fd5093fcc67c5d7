"""What goes back to Moodle and Canvas: pages and marks are found again by the platforms' own rules.

The rules are those of their sources: `assignfeedback_file_zip_importer` (from 4.1 on) and
`assignfeedback_offline_grade_importer` of Moodle, and `infer_comment_context_from_filename` and
`GradebookImporter` of Canvas. Neither platform was at hand.
"""

import csv
import json
import re
import zipfile
from io import StringIO

import pytest
from classroom.students import LESSON, handed_out

from devlab import cli
from devlab.classroom import feedback
from devlab.classroom.collect import collect
from devlab.classroom.handout import Handout
from devlab.classroom.results import Graded, Record


def read_by_moodle(name: str) -> tuple[str, str] | None:
    """Return the participant that Moodle finds in the path of a member, and the name of the feedback."""
    parts = name.split("/")
    for place, part in enumerate(parts):
        facts = part.split("_", 4)
        if len(facts) >= 4 and facts[1].isdecimal() and facts[2:4] == ["assignsubmission", "file"]:
            rest = [*facts[4:], *parts[place + 1 :]]
            return facts[1], "/".join(rest).strip("/")
    return None


def read_by_canvas(name: str) -> tuple[str, str] | None:
    """Return the user and the attachment that Canvas finds in the name of a member."""
    words = [word for word in name.rpartition("/")[2].split("_") if word != "LATE"]
    if words[0] == "anon":
        return words[1], words[2]
    numbers = [word for word in words if re.fullmatch(r"\d+", word)]
    return (numbers[0], numbers[1]) if len(numbers) > 1 else None


MOODLE = {
    "in folders, from 4.1 on": "{name}_{number}_assignsubmission_file/05_x.ipynb",
    "in folders, before 4.1": "{name}_{number}_assignsubmission_file_/week 5/05_x.ipynb",
    "in one folder": "{name}_{number}_assignsubmission_file_05_x_7_8.ipynb",
}
CANVAS = {
    "with names": ("doejane_12345_67890_05_x.ipynb", "roerick_LATE_12346_67891_05_x-2.ipynb"),
    "without names": ("anon_aB3cD_67890_05_x.ipynb", "LATE_anon_9xYz1_67891_05_x-2.ipynb"),
}


@pytest.fixture(scope="module")
def handed(tmp_path_factory) -> tuple[Handout, bytes]:
    """The hand-out of lesson 00 as its makers know it, and as students get it."""
    folder = tmp_path_factory.mktemp("course")
    handed_out(folder, "0")
    source, given = (folder / place / LESSON / f"{LESSON}.ipynb" for place in ("source", "handout"))
    return Handout(json.loads(source.read_text(encoding="utf-8"))), given.read_bytes()


def go_back(names: list[str], handed: tuple[Handout, bytes], tmp_path) -> list[str]:
    """Collect a download, and return the names in the zip that goes back; pages lie there under the same."""
    handout, content = handed
    with zipfile.ZipFile(tmp_path / "download.zip", "w") as zipped:
        for name in names:
            zipped.writestr(name, content)
    found = collect([tmp_path / "download.zip"], {LESSON: handout}).gradable
    made = [Record(one.student, LESSON, one.path, number=one.number, prefix=one.prefix) for one in found]
    written = feedback.write(made, tmp_path / "out")
    assert f"to upload  {tmp_path / 'out' / 'feedback' / LESSON}.zip" in written.text()
    with zipfile.ZipFile(*written.archives) as zipped:
        back = zipped.namelist()
    assert sorted(back) == sorted(
        page.relative_to(tmp_path / "out" / "feedback").as_posix() for page in written.feedback
    )
    return sorted(back)


@pytest.mark.parametrize("pattern", MOODLE.values(), ids=MOODLE)
def test_moodle_knows_whose_a_page_is(pattern, handed, tmp_path):
    """By the participant's number; names with commas, apostrophes and two people of one name included."""
    students = ("Doe, Jane", "O’Neil Áine", "Roe Rick", "Roe Rick")
    names = [pattern.format(name=name, number=4711 + place) for place, name in enumerate(students)]
    back = go_back(names, handed, tmp_path)
    page = f"{LESSON}.html"
    assert {read_by_moodle(name) for name in back} == {(str(4711 + place), page) for place in range(4)}


@pytest.mark.parametrize("names", CANVAS.values(), ids=CANVAS)
def test_canvas_knows_whose_a_page_is(names, handed, tmp_path):
    """By the student's number, or the letters of an anonymous one, and by that of what was handed in."""
    assert {read_by_canvas(name) for name in go_back([*names], handed, tmp_path)} == {
        read_by_canvas(name) for name in names
    }


def test_no_zip_is_made_where_no_platform_asks_for_it(tmp_path):
    """Names put together by hand go back to nobody."""
    written = feedback.write([Record("anna", LESSON, "anna.ipynb")], tmp_path)
    assert written.archives == ()
    assert written.feedback == (tmp_path / "feedback" / "anna" / f"{LESSON}.html",)


@pytest.fixture
def marked(tmp_path):
    """Results of two lessons: Moodle's numbers differ from lesson to lesson, Canvas's do not."""

    def write(numbers: dict[tuple[str, str], str]):
        worth = {"05_buffers": 2.5, "06_numpy_sharing": 4}
        lines = [
            Record(who, lesson, "x", (Graded("f", "failed", worth[lesson], 9),), number=number).line()
            for (who, lesson), number in numbers.items()
        ]
        out = tmp_path / "out" / "results.jsonl"
        out.parent.mkdir()
        out.write_text("\n".join(lines), encoding="utf-8")
        return out

    return write


def table(path, separator=",") -> list[list[str]]:
    """Read a table as the platforms do, after the mark that may stand in front."""
    return list(csv.reader(StringIO(path.read_text(encoding="utf-8-sig")), delimiter=separator))


WORKSHEET = (
    'Identifier,"Full name",Status,Grade,"Last modified (grade)","Feedback comments"\n'
    '"Participant 4711","Doe, Jane",Submitted,,-,"two\nlines"\n'
    '"Participant 4712","Roe, Rick",Submitted,1.00,-,\n'
    '"Participant 47","Absent, Ann",-,,-,\n'
)
GRADEBOOK = (
    "\ufeffStudent;ID;SIS Login ID;Section;05 Buffers (99);Current Score\n;;;;Manual Posting;\n"
    '"    Points Possible";;;;9;(read only)\n"Doe; Jane";12345;jd;A;;1\nStudent, Test;;t;A;;\n'
)


def test_moodles_worksheet_comes_back_with_the_marks(marked, tmp_path, capsys):
    """The columns that Moodle asks for are as they were but for the marks; who is not in it is named."""
    (tmp_path / "w.csv").write_text(WORKSHEET, encoding="utf-8")
    out = marked({("Doe Jane", "05_buffers"): "4711", ("Lost Leo", "05_buffers"): "5000"})
    assert cli.main(["report", str(out), "--fill", str(tmp_path / "w.csv"), "Grade"]) == 0
    said = capsys.readouterr().out
    assert "(1 of 2 marks)" in said
    assert "not in it: Lost Leo, 05_buffers" in said
    before, after = table(tmp_path / "w.csv"), table(out.parent / "w.csv")
    assert [row[3] for row in after] == ["Grade", "2.5", "1.00", ""]
    assert [row[:3] + row[4:] for row in after] == [row[:3] + row[4:] for row in before]


def test_canvas_gradebook_comes_back_with_the_marks(marked, tmp_path):
    """The column's name tells which lesson; rows that are no student's, mark and semicolons stay."""
    (tmp_path / "g.csv").write_text(GRADEBOOK, encoding="utf-8")
    out = marked({("doejane", lesson): "12345" for lesson in ("05_buffers", "06_numpy_sharing")})
    assert cli.main(["report", str(out), "--fill", str(tmp_path / "g.csv"), "05 Buffers (99)"]) == 0
    assert (out.parent / "g.csv").read_bytes().startswith(b"\xef\xbb\xbf")
    column = [row[4] for row in table(out.parent / "g.csv", ";")]
    assert column == ["05 Buffers (99)", "Manual Posting", "9", "2.5", ""]


def test_a_column_that_is_not_there_or_not_clear_is_told(marked, tmp_path, capsys):
    """The columns that there are; and no lesson's mark is written as another's."""
    (tmp_path / "g.csv").write_text(GRADEBOOK.replace("05 Buffers", "Week 5"), encoding="utf-8")
    out = marked({("doejane", lesson): "12345" for lesson in ("05_buffers", "06_numpy_sharing")})
    for column, words in (("Week", "It has: Student, ID"), ("Week 5 (99)", "05_buffers, 06_numpy_sharing")):
        assert cli.main(["report", str(out), "--fill", str(tmp_path / "g.csv"), column]) == 1
        assert words in capsys.readouterr().err
    (tmp_path / "g.csv").write_bytes(b"\0\xff" * 99_999)
    assert cli.main(["report", str(out), "--fill", str(tmp_path / "g.csv"), "Grade"]) == 1
    assert not (out.parent / "g.csv").exists()
