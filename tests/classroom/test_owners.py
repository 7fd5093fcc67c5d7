"""Who a file belongs to: the outermost part of its path that tells students apart, and nothing inside it."""

from pathlib import Path

import pytest
from classroom.test_collect import FIVE, HANDOUTS, SIX, lay, notebook, zipped

from devlab.classroom.collect import collect

OTHER = notebook(text="of another student")
MOODLE = "{}_assignsubmission_file_"
# Paths with the student that each file is of; each is the whole download, in which nobody's file is lost.
DOWNLOADS = {
    "a neighbour's name inside one's own folder": {
        "Doe Jane_12_assignsubmission_file_/Roe Rick_13_assignsubmission_file_/x.ipynb": "Doe Jane",
        "Roe Rick_13_assignsubmission_file_/x.ipynb": "Roe Rick",
    },
    "a neighbour's name as one's file": {
        "Doe Jane_12_assignsubmission_file_/Roe Rick_13_assignsubmission_file_x.ipynb": "Doe Jane",
        "Roe Rick_13_assignsubmission_file_/x.ipynb": "Roe Rick",
    },
    "another platform's pattern inside a folder": {
        "anna/ben_1_2_x.ipynb": "anna",
        "ben/x.ipynb": "ben",
    },
    "files called alike by chance": {
        "anna/week_5_1_hw.ipynb": "anna",
        "ben/week_5_1_hw.ipynb": "ben",
        "carl/hw_carl_attempt_2026-01-30-15-00-00_x.ipynb": "carl",
    },
    "a pattern that nobody else follows": {
        "anna.ipynb": "anna",
        "anna_1_2_x.ipynb": "anna_1_2_x",
        "ben.ipynb": "ben",
    },
    "a download's name with numbers in it": {
        "CS101_2026_1_hw.zip/anna/x.ipynb": "anna",
        "CS101_2026_1_hw.zip/ben/x.ipynb": "ben",
    },
    "such a download with files alone": {
        "CS101_2026_1_hw.zip/anna.ipynb": "anna",
        "CS101_2026_1_hw.zip/ben.ipynb": "ben",
    },
    "such a folder": {"CS101_2026_1_hw/anna/x.ipynb": "anna", "CS101_2026_1_hw/ben/x.ipynb": "ben"},
    "the same word in front of all": {"hw_05_buffers_anna.ipynb": "anna", "hw_05_buffers_ben.ipynb": "ben"},
    "a student's words behind all": {
        "anna_05_buffers_final.ipynb": "anna",
        "ben_05_buffers_final.ipynb": "ben",
    },
    "the exercises' own name": {
        "anna_05_buffers_exercises.ipynb": "anna",
        "05_buffers_exercises_ben.ipynb": "ben",
    },
    "the exercises' own name in a folder": {
        "anna/05_buffers_exercises.ipynb": "anna",
        "ben/05_buffers.ipynb": "ben",
    },
    "endings that hide it": {
        "anna/05_buffers.ipynb.txt": "anna",
        "ben/05_buffers.json": "ben",
        "carl/x": "carl",
    },
}


def students(root: Path, *named: str) -> dict[str, str]:
    """Collect, and return whose each file is, after a look that none is lost."""
    collection = collect([root / name for name in named] or [root], HANDOUTS)
    assert not collection.problems, collection.text()
    return {Path(one.path).relative_to(root).as_posix(): one.student for one in collection.gradable}


def laid(root: Path, paths) -> Path:
    """Write a notebook to each path; a part that ends in .zip is one."""
    packed: dict[str, dict[str, bytes]] = {}
    for path in paths:
        archive, inside, name = path.partition(".zip/")
        if inside:
            packed.setdefault(f"{archive}.zip", {})[name] = FIVE
    files = {path: FIVE for path in paths if ".zip/" not in path}
    return lay(root, files | {name: zipped(members) for name, members in packed.items()})


@pytest.mark.parametrize("wanted", DOWNLOADS.values(), ids=DOWNLOADS)
def test_whose_a_file_is(wanted, tmp_path):
    """The same in a folder and in a zip whose own name looks like a student's."""
    root = laid(tmp_path / "downloads", wanted)
    assert students(root) == wanted
    path = tmp_path / "CS101_2026_1_hw.zip"
    path.write_bytes(
        zipped({f.relative_to(root).as_posix(): f.read_bytes() for f in root.rglob("*") if f.is_file()})
    )
    assert {one.student for one in collect([path], HANDOUTS).gradable} == set(wanted.values())


def test_folders_named_one_by_one_with_the_same_folder_inside(tmp_path):
    """What the teacher named tells students apart, and is the outermost."""
    root = laid(tmp_path, ["anna/work/x.ipynb", "ben/work/x.ipynb", "carl/final.ipynb"])
    assert set(students(root, "anna", "ben", "carl").values()) == {"anna", "ben", "carl"}


def test_notebooks_named_one_by_one(tmp_path):
    """A shell's `*.ipynb` in one folder: each is a student's."""
    root = laid(tmp_path, ["anna.ipynb", "ben.ipynb"])
    assert set(students(root, "anna.ipynb", "ben.ipynb").values()) == {"anna", "ben"}


def test_two_downloads_of_one_class(tmp_path):
    """The same name in another assignment is the same student."""
    files = {"w5/anna/x.ipynb": FIVE, "w5/ben/x.ipynb": FIVE, "w6/anna/x.ipynb": SIX, "w6/ben/x.ipynb": SIX}
    assert set(students(lay(tmp_path, files), "w5", "w6").values()) == {"anna", "ben"}


@pytest.mark.parametrize(
    "paths",
    [
        ("anna?/x.ipynb", "anna*/x.ipynb"),
        ("a" * 120 + "1/x.ipynb", "a" * 120 + "2/x.ipynb"),
        ("anna maria_05_buffers.ipynb", "anna maria 05_buffers.ipynb"),
        ("w5/anna/x.ipynb", "w5/ben/x.ipynb", "w5 late/anna/x.ipynb", "w5 late/ben/x.ipynb"),
    ],
    ids=["signs", "length", "spaces", "two downloads"],
)
def test_nobodys_file_takes_the_place_of_anothers(paths, tmp_path):
    """Two names that become one, where nothing says that they are one person: both are graded, told apart."""
    root = laid(tmp_path, paths)
    named = ("w5", "w5 late") if len(paths) > 2 else ()
    found = students(root, *named)
    assert set(found) == set(paths)
    assert len(set(found.values())) == len(paths)
    assert students(root, *named) == found  # the same each time, by which results are known again


def test_attempts_are_of_one_student_where_they_lie_side_by_side(tmp_path):
    """A count in brackets is the browser's, or JupyterLab's: the teacher is told which one counts."""
    root = lay(tmp_path, {"anna_05_buffers.ipynb": FIVE, "anna_05_buffers (1).ipynb": OTHER})
    collection = collect([root], HANDOUTS)
    (one,) = collection.gradable
    assert (one.student, Path(one.path).name) == ("anna", "anna_05_buffers (1).ipynb")
    assert one.remarks == ("the latest of 2; check that it is the one meant",)


def test_a_students_drafts_are_one_students_beside_anothers_file(tmp_path):
    """Folders inside a student's own tell nobody apart, where another student's notebook lies beside it."""
    root = laid(tmp_path, ["anna/draft/x.ipynb", "anna/final/x.ipynb", "ben.ipynb"])
    assert {one.student for one in collect([root], HANDOUTS).submissions} == {"anna", "ben"}
