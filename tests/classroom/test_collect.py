"""Collecting what learning platforms export: nothing is lost, and every problem says what to do."""

import csv
import io
import json
import lzma
import os
import platform
import time
import unicodedata
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devlab import cli
from devlab.classroom import collect as collecting
from devlab.classroom import download
from devlab.classroom.collect import collect, write
from devlab.classroom.engine import quota
from devlab.classroom.handout import Handout

LESSONS = {
    "05_buffers": ["CausalMask", "check_CausalMask"],
    "06_numpy_sharing": ["to_numpy", "check_to_numpy"],
}


def notebook(lesson="05_buffers", text="pass", ids=None) -> bytes:
    """Make a small notebook with a lesson's cells; `text` is what the student wrote."""
    cells = [
        {
            "cell_type": "code",
            "metadata": {"nbgrader": {"grade_id": grade_id, "solution": True}},
            "source": [text],
            "outputs": [],
            "execution_count": None,
        }
        for grade_id in (LESSONS[lesson] if ids is None else ids)
    ]
    made = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, ensure_ascii=False).encode()


HANDOUTS = {lesson: Handout(json.loads(notebook(lesson, text="# your code here"))) for lesson in LESSONS}


def zipped(files: dict[str, bytes], way: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Zip files in memory."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", way) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def lay(root: Path, files: dict[str, bytes]) -> Path:
    """Write files below a folder and return it."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def found(*paths: Path) -> set[tuple[str, str]]:
    """Collect paths and return who is graded for what, after a look that nobody has a problem."""
    collection = collect(paths, HANDOUTS)
    assert not collection.problems, collection.text()
    return {(one.student, one.assignment) for one in collection.gradable}


BOTH = {("anna", "05_buffers"), ("ben", "05_buffers")}
FIVE, SIX = notebook(), notebook("06_numpy_sharing")
LAYOUTS = {
    "a folder a student": ({"anna/05_buffers.ipynb": FIVE, "ben/whatever.ipynb": FIVE}, BOTH),
    "as nbgrader keeps them": (
        {
            "anna/05_buffers/05_buffers.ipynb": FIVE,
            "anna/06_numpy_sharing/06_numpy_sharing.ipynb": SIX,
            "ben/05_buffers/05_buffers.ipynb": FIVE,
        },
        BOTH | {("anna", "06_numpy_sharing")},
    ),
    "one student, as nbgrader keeps them": (
        {
            "anna/05_buffers/05_buffers.ipynb": FIVE,
            "anna/06_numpy_sharing/06_numpy_sharing.ipynb": SIX,
        },
        {("anna", "05_buffers"), ("anna", "06_numpy_sharing")},
    ),
    "student_assignment in one folder": ({"anna_05_buffers.ipynb": FIVE, "ben_05_buffers.ipynb": FIVE}, BOTH),
    "assignment_student in one folder": (
        {"05_buffers_anna.ipynb": FIVE, "05 Buffers - ben.ipynb": FIVE},
        BOTH,
    ),
    "student_notebook in one folder": ({"anna_homework.ipynb": FIVE, "ben_final.ipynb": FIVE}, BOTH),
    "names of several words, one ending": (
        {"anna_maria_homework.ipynb": FIVE, "anna_lena_homework.ipynb": FIVE},
        {("anna_maria", "05_buffers"), ("anna_lena", "05_buffers")},
    ),
    "a name and nothing else": ({"anna.ipynb": FIVE, "ben.ipynb": FIVE}, BOTH),
    "an assignment's folder first": (
        {
            "05_buffers/anna/x.ipynb": FIVE,
            "05_buffers/ben/y.ipynb": FIVE,
            "06_numpy_sharing/ben/z.ipynb": SIX,
        },
        BOTH | {("ben", "06_numpy_sharing")},
    ),
    "wrapped in a folder": ({"Class 7/anna/x.ipynb": FIVE, "Class 7/ben/y.ipynb": FIVE}, BOTH),
    "a zip a student": (
        {"anna.zip": zipped({"work/05.ipynb": FIVE}), "ben.zip": zipped({"05.ipynb": FIVE})},
        BOTH,
    ),
    "Moodle's folders": (
        {
            "Ångström Zoë_4711_assignsubmission_file_/x y.ipynb": FIVE,
            "Ångström Zoë_4711_assignsubmission_onlinetext_/onlinetext.html": b"<p>hello</p>",
            "O'Neil Ana-Lucía_4712_assignsubmission_file_/05_buffers.ipynb": FIVE,
        },
        {("Ångström Zoë", "05_buffers"), ("O'Neil Ana-Lucía", "05_buffers")},
    ),
    "Moodle's files": (
        {
            "Doe Jane_12_assignsubmission_file_05_buffers.ipynb": FIVE,
            "Roe Rick_13_assignsubmission_file_notebook.ipynb": FIVE,
        },
        {("Doe Jane", "05_buffers"), ("Roe Rick", "05_buffers")},
    ),
    "Moodle's two people of one name": (
        {
            "Doe Jane_12_assignsubmission_file_/05_buffers.ipynb": FIVE,
            "Doe Jane_13_assignsubmission_file_/05_buffers.ipynb": FIVE,
        },
        {("Doe Jane 12", "05_buffers"), ("Doe Jane 13", "05_buffers")},
    ),
    "Moodle's new numbers in each assignment": (
        {
            "05_buffers/Doe Jane_12_assignsubmission_file_/x.ipynb": FIVE,
            "06_numpy_sharing/Doe Jane_77_assignsubmission_file_/x.ipynb": SIX,
        },
        {("Doe Jane", "05_buffers"), ("Doe Jane", "06_numpy_sharing")},
    ),
    "Canvas": (
        {
            "doejane_12345_67890_05_buffers.ipynb": FIVE,
            "roerick_LATE_12346_67891_my notebook-1.ipynb": FIVE,
        },
        {("doejane", "05_buffers"), ("roerick", "05_buffers")},
    ),
    "Blackboard": (
        {
            "Week 5_jdoe_attempt_2026-01-30-15-00-00_solution.ipynb": FIVE,
            "Week 5_jdoe_attempt_2026-01-30-15-00-00.txt": b"Name: Jane Doe (jdoe)",
        },
        {("jdoe", "05_buffers")},
    ),
    "Brightspace": (
        {
            "397063-2557369 - Mary-Ann Smith - Sep 24, 2026 926 PM/05_buffers.ipynb": FIVE,
            "397064-2557369 - John Doe - Sep 24, 2026 926 PM/05_buffers.ipynb": FIVE,
            "index.html": b"<html></html>",
        },
        {("Mary-Ann Smith", "05_buffers"), ("John Doe", "05_buffers")},
    ),
}


@pytest.mark.parametrize(("files", "wanted"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_folder_as_it_was_exported(files, wanted, tmp_path):
    """Each layout tells the students and the assignments, by content where names do not."""
    assert found(lay(tmp_path / "downloads", files)) == wanted


@pytest.mark.parametrize(("files", "wanted"), LAYOUTS.values(), ids=LAYOUTS)
def test_the_same_in_a_zip(files, wanted, tmp_path):
    """A platform's zip is read as it is, unpacked or not."""
    path = tmp_path / "Course-Week 5-4711.zip"
    path.write_bytes(zipped(files))
    assert found(path) == wanted


def test_folders_and_files_named_one_by_one(tmp_path):
    """A shell's `*` names each student's folder, or each notebook, by itself."""
    root = lay(tmp_path, {"anna/05_buffers.ipynb": FIVE, "ben/homework.ipynb": FIVE})
    assert found(root / "anna", root / "ben") == BOTH
    assert found(root / "anna/05_buffers.ipynb", root / "ben/homework.ipynb") == BOTH


def test_the_course_itself_means_its_submitted_folder(tmp_path):
    """`devlab grade .` in a course must not take the solutions for a student's."""
    files = {"nbgrader_config.py": b"", "source/05_buffers/05_buffers.ipynb": FIVE}
    root = lay(tmp_path, files | {"submitted/anna/05_buffers/05_buffers.ipynb": FIVE})
    assert found(root) == {("anna", "05_buffers")}


def test_one_name_in_two_spellings_of_unicode_is_one_student(tmp_path):
    """macOS writes é as two characters, others as one; in file names both look the same."""
    name = "Zoë"
    files = {
        unicodedata.normalize("NFD", f"{name}/05_buffers.ipynb"): FIVE,
        unicodedata.normalize("NFC", f"{name}/06_numpy_sharing.ipynb"): SIX,
    }
    path = tmp_path / "x.zip"
    path.write_bytes(zipped(files))
    assert found(path) == {(name, "05_buffers"), (name, "06_numpy_sharing")}


def test_a_zip_without_the_flag_for_utf8_keeps_its_letters(tmp_path):
    """Some tools write UTF-8 names and forget to say so."""
    content = zipped({"Zo\xeb/05_buffers.ipynb": FIVE})
    plain = bytearray(content)
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.index(mark) + offset
        plain[at : at + 2] = (int.from_bytes(plain[at : at + 2], "little") & ~0x800).to_bytes(2, "little")
    path = tmp_path / "x.zip"
    path.write_bytes(plain)
    assert found(path) == {("Zoë", "05_buffers")}


WRITTEN = "# größer – naïve"
ENCODINGS = {
    "UTF-8 with a mark": notebook(text=WRITTEN).decode().encode("utf-8-sig"),
    "UTF-16 with a mark": notebook(text=WRITTEN).decode().encode("utf-16"),
    "UTF-16 without": notebook(text=WRITTEN).decode().encode("utf-16-le"),
    "Windows-1252": notebook(text=WRITTEN).decode().encode("cp1252"),
    "CRLF": notebook(text=WRITTEN).replace(b", ", b",\r\n"),
    "CRLF in the code": notebook(text=WRITTEN + "\r\n"),
}


@pytest.mark.parametrize("content", ENCODINGS.values(), ids=ENCODINGS)
def test_what_editors_do_to_a_file_is_undone(content, tmp_path):
    """The student's letters arrive, in any encoding that an editor might have saved."""
    collection = collect([lay(tmp_path, {"anna/05_buffers.ipynb": content})], HANDOUTS)
    (one,) = collection.gradable
    assert one.notebook()["cells"][0]["source"].rstrip("\n") == WRITTEN
    assert "\r" not in one.notebook()["cells"][0]["source"]
    assert bool(one.remarks) == (content == ENCODINGS["Windows-1252"])


REFUSED = {
    "empty": (b"", "the file is empty"),
    "blank": (b" \r\n\0\0", "the file is empty"),
    "a PDF": (b"%PDF-1.7 ...", "this is a PDF"),
    "a web page": (b"\n<!DOCTYPE html><html>...", "this is a saved web page"),
    "an office document": (b"\xd0\xcf\x11\xe0 ...", "this is an office document"),
    "Python": (b"import torch\n\ndef f():\n    pass\n", "this is Python code, not a notebook"),
    "a letter": (b"Dear teacher, my dog ate it", "this is text, but no notebook"),
    "cut off": (FIVE[:-40], "it is cut off in the middle"),
    "damaged": (FIVE.replace(b'"cells"', b"cells", 1) + b"\n\n\n", "its JSON is damaged at line 1"),
    "a conflict": (b'{\n<<<<<<< HEAD\n"cells": []\n=======\n>>>>>>> mine\n}', "merge conflict"),
    "other JSON": (b'{"name": "anna"}', "this is JSON, but no notebook"),
    "a list": (b"[1, 2]", "this is JSON, but no notebook"),
    "damaged cells": (b'{"cells": 3}', "its cells are damaged"),
    "nested JSON": (b"[" * 200_000, "nested too deep"),
    "git-lfs": (b"version https://git-lfs.github.com/spec/v1\n", "git-lfs"),
    "another notebook": (notebook(ids=["hw1"]), "it holds no cell of 05_buffers"),
    "a damaged zip": (b"PK\x03\x04 and no more", "the zip is damaged"),
    "an empty zip": (zipped({}), "the zip is empty"),
}


@pytest.mark.parametrize(("content", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_notebook_says_what_to_do(content, message, tmp_path):
    """One file costs only itself, is listed, and its message says what it is and what to ask for."""
    files = {"anna/05_buffers.ipynb": content, "ben/05_buffers.ipynb": FIVE}
    collection = collect([lay(tmp_path, files)], HANDOUTS)
    assert [one.student for one in collection.gradable] == ["ben"]
    (problem,) = collection.problems
    assert (problem.student, problem.assignment) == ("anna", "05_buffers")
    assert message in problem.problem
    assert "ask" in problem.problem or "open it" in problem.problem
    assert message in collection.text()


def test_what_a_student_gave_is_never_lost(tmp_path):
    """A student with no notebook at all is listed by name; strays beside a notebook are set aside, named."""
    files = {
        "anna/homework.docx": b"PK\x03\x04 office",
        "ben/05_buffers.ipynb": FIVE,
        "ben/notes.txt": b"mine",
        "carl/all.tar.gz": b"\x1f\x8b",
        "ben/.ipynb_checkpoints/05_buffers-checkpoint.ipynb": FIVE,
        "ben/__MACOSX/._05_buffers.ipynb": b"\0\5\x16\7",
        "list.csv": b"a,b",
    }
    root = lay(tmp_path / "downloads", files)
    (root / "dora").mkdir()
    collection = collect([root], HANDOUTS)
    assert [one.student for one in collection.gradable] == ["ben"]
    assert {one.student: one.problem.split(":")[0] for one in collection.problems} == {
        "anna": "not a notebook (.docx)",
        "carl": "not a notebook (.gz)",
        "dora": "the folder is empty",
    }
    assert [Path(path).name for path, _ in collection.ignored] == ["notes.txt", "list.csv"]
    assert len(collection.set_aside()) == len(collection.set_aside(2)) == 3
    assert collection.set_aside(1)[2:] == ["  and more: `devlab collect` lists all"]
    assert collecting.Collection([], []).set_aside(1) == []


def test_a_file_that_cannot_be_read_is_no_stray(tmp_path, monkeypatch):
    """Neither a folder nor a zip that the teacher may not open is set aside: a student may be in it."""
    root = lay(tmp_path, {"ben/x.ipynb": FIVE, "anna/x.ipynb": FIVE, "carl.zip": zipped({"x.ipynb": FIVE})})
    for name in ("iterdir", "open"):
        right = getattr(Path, name)

        def closed(self, *rest, right=right, **facts):
            if self.name in ("anna", "carl.zip"):
                raise PermissionError(13, "Permission denied")
            return right(self, *rest, **facts)

        monkeypatch.setattr(Path, name, closed)
    collection = collect([root], HANDOUTS)
    assert [one.student for one in collection.gradable] == ["ben"]
    assert [(one.student, one.problem) for one in collection.problems] == [
        (name, "it cannot be opened (Permission denied)") for name in ("anna", "carl")
    ]


def test_links_are_not_followed(tmp_path):
    """A link in a submission must not hand in somebody else's file."""
    lay(tmp_path, {"secret.ipynb": FIVE})
    root = lay(tmp_path / "downloads", {"ben/05_buffers.ipynb": FIVE})
    (root / "anna").mkdir()
    try:
        (root / "anna/05_buffers.ipynb").symlink_to(tmp_path / "secret.ipynb")
    except OSError:
        pytest.skip("this system makes no links")
    collection = collect([root], HANDOUTS)
    assert [one.student for one in collection.gradable] == ["ben"]
    assert "not followed" in collection.problems[0].problem


def test_of_several_the_latest_is_taken_and_both_are_named(tmp_path):
    """Canvas counts hand-ins, Blackboard and Brightspace date them; on a disk the time of change tells."""
    canvas = {
        f"doe_1_{2 + n}_05_buffers{f'-{n}' if n else ''}.ipynb": notebook(text=f"{n}") for n in (0, 1, 2, 10)
    }
    board = {f"w5_roe_attempt_2026-01-{day}-15-00-00_x.ipynb": notebook(text=day) for day in ("09", "30")}
    collection = collect([lay(tmp_path, canvas | board)], HANDOUTS)
    taken = {one.student: one for one in collection.gradable}
    assert {name: one.notebook()["cells"][0]["source"] for name, one in taken.items()} == {
        "doe": "10",
        "roe": "30",
    }
    assert taken["doe"].remarks == ("the latest of 4; check that it is the one meant",)
    assert [one.problem.startswith("a later one was taken: ") for one in collection.problems] == [True] * 4

    days = ("Aug 30, 2026 1126 AM", "Sep 9, 2026 926 PM", "Sep 24, 2026 1226 PM", "Sep 24, 2026 126 PM")
    bright = {f"7-1 - Jane Doe - {day}/x.ipynb": notebook(text=day) for day in days}
    (one,) = collect([lay(tmp_path / "bright", bright)], HANDOUTS).gradable
    assert one.notebook()["cells"][0]["source"] == days[-1]

    root = lay(
        tmp_path / "disk", {"anna/first.ipynb": notebook(text="1"), "anna/again.ipynb": notebook(text="2")}
    )
    os.utime(root / "anna/first.ipynb", (1, 1_000_000))
    os.utime(root / "anna/again.ipynb", (1, 2_000_000))
    (one,) = collect([root], HANDOUTS).gradable
    assert one.notebook()["cells"][0]["source"] == "2"


def test_a_broken_later_file_does_not_cost_the_earlier(tmp_path):
    """What cannot be read is never the one taken."""
    files = {"doe_1_2_05_buffers.ipynb": FIVE, "doe_1_3_05_buffers-1.ipynb": b""}
    collection = collect([lay(tmp_path, files)], HANDOUTS)
    assert [Path(one.path).name for one in collection.gradable] == ["doe_1_2_05_buffers.ipynb"]
    assert "empty" in collection.problems[0].problem


def test_a_wrong_name_is_told_by_the_cells(tmp_path):
    """A notebook named for one lesson that holds another counts as the other, and says so."""
    (one,) = collect([lay(tmp_path, {"anna/05_buffers.ipynb": SIX})], HANDOUTS).gradable
    assert one.assignment == "06_numpy_sharing"
    assert one.remarks == ("named 05_buffers, but it is 06_numpy_sharing by its cells",)


def test_late_marks_are_kept(tmp_path):
    """Canvas marks late hand-ins in the name."""
    collection = collect([lay(tmp_path, {"doe_LATE_1_2_05_buffers.ipynb": FIVE})], HANDOUTS)
    assert collection.gradable[0].late


def test_zips_that_would_eat_the_machine(tmp_path):
    """Zeros that unpack to gigabytes, and zips in zips without end, cost a line each."""
    deep = FIVE
    for _ in range(9):
        deep = zipped({"inner.zip" if deep is not FIVE else "05_buffers.ipynb": deep})
    big = zipped({"05_buffers.ipynb": b"\0" * (60 * 2**20)})
    collection = collect([lay(tmp_path, {"anna/a.zip": big, "ben/b.zip": deep})], HANDOUTS)
    assert not collection.gradable
    problems = {one.student: one.problem for one in collection.problems}
    assert "60 MB" in problems["anna"]
    assert "nested more than 5 deep" in problems["ben"]


def test_names_without_end_cost_a_line_and_no_time(tmp_path):
    """A zip may hold names that no disk has, and patterns take seconds for what they nearly match."""
    long = {f"05_buffers{' ' * 60_000}x.ipynb": FIVE, f"{'d' * 60_000}/05_buffers.ipynb": FIVE}
    root = lay(tmp_path, {"anna/x.zip": zipped(long), "ben/05_buffers.ipynb": FIVE})
    started = time.perf_counter()
    collection = collect([root], HANDOUTS)
    assert time.perf_counter() - started < 5
    assert [one.student for one in collection.gradable] == ["ben"]
    problems = [one.problem for one in collection.problems if one.student == "anna"]
    assert len(problems) == 2
    assert all("characters: ask for it by a shorter name" in problem for problem in problems)
    assert all(len(line) < 1000 for line in collection.text().splitlines())


def test_zips_in_a_zip_have_a_share_of_what_is_unpacked(tmp_path, monkeypatch):
    """One student's may be as full as they like: those beside it are opened all the same."""
    monkeypatch.setattr(download, "SHARE", (5, 10_000))
    monkeypatch.setattr(download, "WHOLE", (20, 30_000))
    full = zipped({f"{number}.txt": b"x" for number in range(6)})
    large = zipped({str(number): zipped({"x": bytes(6000)}, zipfile.ZIP_STORED) for number in range(2)})
    members = {"anna.zip": full, "ben.zip": zipped({"05_buffers.ipynb": FIVE}), "carl.zip": large}
    lay(tmp_path, {"class.zip": zipped(members | {"dora/05_buffers.ipynb": FIVE})})
    collection = collect([tmp_path / "class.zip"], HANDOUTS)
    assert [one.student for one in collection.gradable] == ["ben", "dora"]
    told = {one.path.partition("class.zip/")[2]: one.problem for one in collection.problems}
    told |= {path.partition("class.zip/")[2]: why for path, why in collection.ignored}
    assert "too much is packed into this zip" in told["anna.zip"]
    assert "too much is packed into this zip" in told["carl.zip/1"]


def test_what_is_read_of_a_student_has_an_end(tmp_path, monkeypatch):
    """Notebooks come first, whatever lies beside them; the next student's are read all the same."""
    monkeypatch.setattr(collecting, "MOST_BYTES", 3 * collecting.LEAST_BYTES)
    many = {f"0{number}.txt": b"x" for number in range(5)} | {"05_buffers.ipynb": FIVE}
    collection = collect([lay(tmp_path, {"anna/x.zip": zipped(many), "ben/x.ipynb": FIVE})], HANDOUTS)
    assert [one.student for one in collection.gradable] == ["anna", "ben"]
    assert [why for _, why in collection.ignored].count(collecting.TOO_MUCH) == 3


def test_the_platforms_id_and_lateness_come_with_a_submission(tmp_path):
    """A table that goes back to Moodle or Canvas needs the id that was in the download."""
    for names, number in (
        (
            ["Doe Jane_4711_assignsubmission_file_/x.ipynb", "Roe Rick_4712_assignsubmission_file_/x.ipynb"],
            "4711",
        ),
        (["doejane_LATE_12345_67890_x.ipynb", "roerick_12346_67891_x.ipynb"], "12345"),
    ):
        collection = collect([lay(tmp_path / number, dict.fromkeys(names, FIVE))], HANDOUTS)
        assert collection.gradable[0].number == number
        assert [one.late for one in collection.gradable] == [number == "12345", False]


def test_helpers_and_data_beside_a_notebook_come_with_it(tmp_path):
    """By their paths from there; what another student handed in does not, nor a second notebook."""
    files = {
        "anna/x.ipynb": FIVE,
        "anna/my_helpers.py": b"x = 1",
        "anna/data/y.csv": b"1",
        "ben/x.ipynb": FIVE,
    }
    collection = collect([lay(tmp_path, files | {"anna/old/z.ipynb": b"{}"})], HANDOUTS)
    beside = {
        one.student: {name: file.read() for name, file in one.beside.items()} for one in collection.gradable
    }
    assert beside == {"anna": {"my_helpers.py": b"x = 1", "data/y.csv": b"1"}, "ben": {}}
    assert "a helper or data: it is there when the notebook runs" in {why for _, why in collection.ignored}


def test_a_helper_that_canvas_renamed_has_its_own_name_again(tmp_path):
    """With the platform's words in front of it, and with a count behind it after a second hand-in."""
    names = {"doejane_12345_67890_x-1.ipynb": FIVE, "roerick_12346_67892_x.ipynb": FIVE}
    names |= {"doejane_12345_67891_my_helpers-1.py": b"x = 1", "doejane_12345_67893_data-2.csv": b"2"}
    jane, rick = collect([lay(tmp_path, names)], HANDOUTS).gradable
    assert set(jane.beside) == {"my_helpers-1.py", "my_helpers.py", "data-2.csv", "data.csv"}
    assert rick.beside == {}


HERE = ".".join(platform.python_version_tuple()[:2])
TORCH = ".".join(version("torch").split(".")[:2])
THERE = {
    "the same, with other last parts": (
        f"{HERE}.99",
        f"devlab 1.0.7 · Python {HERE}.1 · torch {TORCH}.9+cu",
        "",
    ),
    "the hand-out's own two parts": ("3.2", "", ""),
    "a kernel's Python": ("3.2.1", "", "made with Python 3.2.1, graded with Python"),
    "packages": (
        f"{HERE}.1",
        f"devlab 1.0.0 · Python {HERE}.1 · torch 1.2.3 · cpu",
        "made with torch 1.2.3,",
    ),
    "all of them": (
        3,
        "devlab 0.1 · Python 3.2.1 · torch 1.2.3",
        "Python 3.2.1 and devlab 0.1 and torch 1.2.3",
    ),
}


@pytest.mark.parametrize(("noted", "shown", "remark"), THERE.values(), ids=THERE)
def test_other_versions_than_here_are_remarked(noted, shown, remark, tmp_path):
    """Jupyter notes its Python in the notebook, and `devlab.start()` shows the packages there."""
    made = json.loads(FIVE)
    made["metadata"] = {"language_info": {"version": noted}}
    output = {"output_type": "display_data", "data": {"text/plain": [shown]}, "metadata": {}}
    made["cells"].append(
        {"cell_type": "code", "source": "devlab.start()", "outputs": [output], "metadata": {}}
    )
    (one,) = collect([lay(tmp_path, {"anna/x.ipynb": json.dumps(made).encode()})], HANDOUTS).gradable
    assert len(one.remarks) == bool(remark)
    assert remark in "".join(one.remarks)


def test_cells_without_end_cost_a_line(tmp_path):
    """No page and no process is made for them."""
    cell = {"cell_type": "code", "metadata": {}, "source": "1"}
    endless = json.dumps({"cells": [cell] * 10_001}).encode()
    collection = collect([lay(tmp_path, {"anna/x.ipynb": endless, "ben/x.ipynb": FIVE})], HANDOUTS)
    assert [one.student for one in collection.gradable] == ["ben"]
    assert "it has 10,001 cells" in collection.problems[0].problem


def test_a_member_outside_its_zip_stays_in_memory(tmp_path):
    """A zip's `../` names nothing but a part of a name: nothing is ever unpacked to the disk."""
    path = tmp_path / "x.zip"
    path.write_bytes(zipped({"../../anna/05_buffers.ipynb": FIVE, "ben/05_buffers.ipynb": FIVE}))
    before = sorted(tmp_path.rglob("*"))
    assert len(collect([path], HANDOUTS).gradable) == 2
    assert sorted(tmp_path.rglob("*")) == before


def test_a_name_cannot_leave_the_course(tmp_path):
    """Whatever a folder is called, what is put for nbgrader lies in `submitted/`."""
    files = {"../..\\evil/05_buffers.ipynb": FIVE, "..._7_assignsubmission_file_/05_buffers.ipynb": FIVE}
    path = tmp_path / "x.zip"
    path.write_bytes(zipped(files))
    course = tmp_path / "course"
    course.mkdir()
    write(collect([path], HANDOUTS), course)
    written = {p.resolve() for p in tmp_path.rglob("*.ipynb")}
    assert written
    assert all(p.is_relative_to((course / "submitted").resolve()) for p in written)


def test_collecting_for_nbgrader_writes_every_notebook_and_lists_every_file(tmp_path):
    """submitted/STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb in UTF-8, helpers, a time, and a list with problems."""
    content = notebook(text=WRITTEN).decode().encode("cp1252")
    files = {"Zoë A/hand in.ipynb": content, "Zoë A/data/x.csv": b"1,2", "ben/05_buffers.ipynb": b""}
    root = lay(tmp_path / "in", files)
    course = tmp_path / "course"
    course.mkdir()
    listed = write(collect([root], HANDOUTS), course)
    written = course / "submitted/Zoë A/05_buffers/05_buffers.ipynb"
    assert json.loads(written.read_text(encoding="utf-8"))["cells"][0]["source"] == WRITTEN
    assert written.with_name("timestamp.txt").read_text().endswith(" UTC\n")
    assert (written.parent / "data" / "x.csv").read_bytes() == b"1,2"
    lines = listed.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "student,assignment,path,problem,remarks"
    assert len(lines) == 4


def test_a_copied_cell_counts_once_and_is_told(tmp_path):
    """A copied cell has its grade id twice: all count; for nbgrader all but the last are ordinary cells."""
    content = json.loads(notebook(ids=["CausalMask", "check_CausalMask", "CausalMask"]))
    for cell, name in zip(content["cells"], ("one", "two", "one"), strict=True):
        cell["id"] = name
    root = lay(tmp_path / "in", {"anna/05_buffers.ipynb": json.dumps(content).encode()})
    collection = collect([root], HANDOUTS)
    assert collection.gradable[0].remarks == (
        "several cells are CausalMask: all of them run, in their order",
    )
    write(collection, tmp_path)
    written = json.loads((tmp_path / "submitted/anna/05_buffers/05_buffers.ipynb").read_text())["cells"]
    assert [bool(cell["metadata"]) for cell in written] == [False, True, True]
    assert len({cell["id"] for cell in written}) == 3


NAMES = st.one_of(
    st.sampled_from(
        ["anna", "ben_05_buffers", "05_buffers", "LATE", "..", " ", "_", "+", "x-Copy1", "a (1)"]
    ),
    st.sampled_from(["doe_1_2_x-3", "w_roe_attempt_2026-01-30-15-00-00_x", "Doe_1_assignsubmission_file_"]),
    st.text(st.characters(exclude_characters="/\0\\", exclude_categories=("Cs",)), min_size=1, max_size=12),
)
ENDINGS = st.sampled_from([".ipynb", ".ipynb", ".ipynb", ".txt", ".zip", ".IPYNB", ""])
ZIPS = [zipped({"a/x.ipynb": FIVE}), zipped({"y.txt": b"1"}), b"PK"]
CONTENTS = st.sampled_from([FIVE, SIX, b"", b"{", *ZIPS])
PATHS = st.tuples(st.lists(NAMES, max_size=3), NAMES, ENDINGS).map(lambda t: "/".join([*t[0], t[1] + t[2]]))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(PATHS, CONTENTS, min_size=1, max_size=6))
def test_whatever_is_handed_in_every_file_is_named_once(files, tmp_path):
    """No name and no content makes collecting fail, lose a file, or give a student two for one assignment."""
    path = tmp_path / "download.zip"
    path.write_bytes(zipped(files))
    wanted = sorted(file.shown for file in download.walk_files(path))
    collection = collect([path], HANDOUTS)
    named = [one.path for one in collection.submissions] + [name for name, _ in collection.ignored]
    assert sorted(named) == wanted
    taken = [(one.student, one.assignment) for one in collection.gradable]
    assert len(taken) == len(set(taken))
    assert all(student and "/" not in student and student not in (".", "..") for student, _ in taken)
    assert collection.text()


def test_a_member_that_is_damaged_costs_only_itself(tmp_path):
    """Bits that changed on the way, in one file of a class's zip."""
    content = bytearray(
        zipped({"anna/05_buffers.ipynb": notebook(text="x" * 999), "ben/05_buffers.ipynb": FIVE})
    )
    at = content.index(b"05_buffers.ipynb") + 40
    content[at : at + 60] = bytes(range(60))
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    collection = collect([path], HANDOUTS)
    assert [one.student for one in collection.gradable] == ["ben"]
    assert "it cannot be read" in collection.problems[0].problem


def test_a_classs_zip_is_opened_once_not_once_a_student(tmp_path, monkeypatch):
    """Each opening reads the whole table of contents: a thousand of them would take ten seconds."""
    path = tmp_path / "x.zip"
    path.write_bytes(zipped({f"s{number}/05_buffers.ipynb": FIVE for number in range(30)}))
    opened = []

    class Counted(zipfile.ZipFile):
        def __init__(self, file, *args):
            opened.append(self)
            super().__init__(file, *args)

    monkeypatch.setattr(download.zipfile, "ZipFile", Counted)
    assert len(collect([path], HANDOUTS).gradable) == 30
    assert len(opened) == 1


BLANK = notebook(text="# your code here")


def test_what_was_handed_out_never_takes_the_place_of_work(tmp_path):
    """An untouched copy that was saved later, beside what was filled in: the teacher is told of both."""
    files = {"anna/05_buffers.ipynb": notebook(text="mine"), "anna/05_buffers-Copy1.ipynb": BLANK}
    root = lay(tmp_path, files | {"ben/05_buffers.ipynb": BLANK})
    os.utime(root / "anna/05_buffers-Copy1.ipynb", (1, 4e9))
    collection = collect([root], HANDOUTS)
    taken = {one.student: one for one in collection.gradable}
    assert taken["anna"].notebook()["cells"][0]["source"] == "mine"
    assert taken["anna"].remarks == ("the latest with work in it of 2; check that it is the one meant",)
    assert set(taken) == {"anna", "ben"}
    assert collection.problems[0].problem.startswith("another one with work in it was taken: ")


HIDDEN = {
    "a text file": "05_buffers.ipynb.txt",
    "JSON": "05_buffers.json",
    "no ending": "05_buffers",
    "a wrong one": "05_buffers.docx",
    "capitals": "05_BUFFERS.IPYNB",
}


@pytest.mark.parametrize("name", HIDDEN.values(), ids=HIDDEN)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "utf-32-le"])
def test_a_notebook_is_one_whatever_it_is_called(name, encoding, tmp_path):
    """By what it holds, in every encoding; and the teacher is told of an odd name."""
    content = notebook(text=WRITTEN).decode().encode(encoding)
    (one,) = collect([lay(tmp_path, {f"anna/{name}": content})], HANDOUTS).gradable
    assert (one.student, one.assignment) == ("anna", "05_buffers")
    assert one.notebook()["cells"][0]["source"] == WRITTEN
    assert bool(one.remarks) == (not name.lower().endswith(".ipynb"))


@pytest.mark.parametrize("error", [MemoryError, RecursionError, KeyError, OSError, AssertionError])
@pytest.mark.parametrize("place", ["read", "notebook_of", "is_notebook"])
def test_whatever_goes_wrong_over_one_file_is_its_own_problem(place, error, tmp_path, monkeypatch):
    """Exceptions that nobody foresaw, wherever a file is read; all others are graded."""
    module = collecting if place != "read" else download.File
    right = getattr(module, place)

    def strange(given, *rest):
        held = given.shown if place == "read" else given
        if b"anna" in (held.encode() if isinstance(held, str) else held):
            raise error("out of the blue\x1b[2J")
        return right(given, *rest)

    files = {"anna/x.txt": notebook(text="anna"), "ben/x.txt": FIVE}
    root = lay(tmp_path / "in", files)
    monkeypatch.setattr(module, place, strange)
    collection = collect([root], HANDOUTS)
    assert [one.student for one in collection.gradable] == ["ben"]
    assert [one.student for one in collection.problems] == ["anna"]
    assert "\x1b" not in collection.text()


@pytest.mark.parametrize("error", [lzma.LZMAError, EOFError, NotImplementedError, MemoryError, SystemError])
def test_a_decompressor_may_raise_what_it_likes(error, tmp_path, monkeypatch):
    """A member, and a zip inside a zip, cost only themselves."""
    archive = {"anna/05_buffers.ipynb": notebook(text="broken"), "ben/05_buffers.ipynb": FIVE}
    path = tmp_path / "x.zip"
    path.write_bytes(zipped(archive | {"carl/carl.zip": zipped({"broken.ipynb": FIVE})}))
    opened = zipfile.ZipFile.open

    def strange(self, name, *rest, **facts):
        if "anna" in name or "broken" in name:
            raise error
        return opened(self, name, *rest, **facts)

    monkeypatch.setattr(zipfile.ZipFile, "open", strange)
    collection = collect([path], HANDOUTS)
    assert [one.student for one in collection.gradable] == ["ben"]
    assert sorted(one.student for one in collection.problems) == ["anna", "carl"]
    assert {one.problem.split(" (")[0] for one in collection.problems} == {"it cannot be read"}


@pytest.fixture
def endless(tmp_path):
    """Return a folder with eleven hundred inside each other; shutil could not delete them afterwards."""
    root, here = tmp_path / "in", os.getcwd()
    root.mkdir()
    os.chdir(root)
    try:
        for name in ("anna", *"d" * 1100):
            os.mkdir(name)
            os.chdir(name)
        os.chdir(here)
        yield root
    finally:
        os.chdir(here)
        quota.empty(root)


def test_folders_without_end_cost_a_line(endless):
    """On the disk and in a zip."""
    lay(endless, {"ben/05_buffers.ipynb": FIVE})
    lay(endless, {"carl/x.zip": zipped({"d/" * 1100 + "05_buffers.ipynb": FIVE})})
    collection = collect([endless], HANDOUTS)
    assert [one.student for one in collection.gradable] == ["ben"]
    told = {one.student: one.problem for one in collection.problems}
    assert set(told) == {"anna", "carl"}
    assert all("folders lie inside each other" in problem for problem in told.values())


def test_names_that_are_not_utf8_and_ids_that_are_no_text(tmp_path, capsys):
    """What is collected for nbgrader crashes over nothing, prints no codes, and holds no formulas."""
    course = tmp_path / "course"
    lay(course / "source" / "05_buffers", {"05_buffers.ipynb": BLANK})
    strange = json.loads(FIVE)
    for cell, odd in zip(strange["cells"], ({"a": 1}, ["b"]), strict=True):
        cell["id"] = odd
    root = tmp_path / "in"
    for name in (b"Zo\xeb", b"=1+1", b"red\x1b[31m", "Zoë2".encode()):
        folder = os.path.join(os.fsencode(root), name)
        os.makedirs(folder)
        with open(os.path.join(folder, b"x.ipynb"), "wb") as stream:
            stream.write(json.dumps(strange).encode())
    assert cli.main(["collect", str(root), "--course", str(course)]) == 0
    said = capsys.readouterr().out
    assert "4 notebooks to grade, from 4 students" in said
    assert "\x1b" not in said
    listed = (course / "collected.csv").read_text(encoding="utf-8")
    assert "\x1b" not in listed
    rows = list(csv.reader(listed.splitlines()))[1:]
    assert sorted(row[0] for row in rows) == ["'=1_1", "Zoë", "Zoë2", "red__31m"]
    assert not [field for row in rows for field in row if field.startswith(("=", "+", "-", "@"))]
    written = [json.loads(path.read_text(encoding="utf-8")) for path in course.rglob("submitted/*/*/*.ipynb")]
    assert len(written) == 4
    assert not [cell for one in written for cell in one["cells"] if not isinstance(cell.get("id", ""), str)]


def test_what_cannot_be_put_for_nbgrader_is_told(tmp_path):
    """A file stands where a student's folder should be: the others are put all the same."""
    lay(tmp_path / "course", {"submitted/anna": b"in the way"})
    root = lay(tmp_path / "in", {"anna/x.ipynb": FIVE, "ben/x.ipynb": FIVE})
    collection = collect([root], HANDOUTS)
    write(collection, tmp_path / "course")
    assert [(one.student, bool(one.problem)) for one in collection.submissions] == [
        ("anna", True),
        ("ben", False),
    ]
    assert (tmp_path / "course/submitted/ben/05_buffers/05_buffers.ipynb").exists()
