"""Honest work never earns less from `devlab grade` than from `nbgrader autograde` on the same file.

Full, half and wrong submissions are edited as editors and students do, and both grade the outcome. The edits
are drawn anew for each number, and always the same for one: `DEVLAB_EDITED=400` tries 400 submissions.
"""

import copy
import json
import os
import random
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from bank import ANSWERS, handed_in, load
from classroom import editing
from classroom.conftest import Marked
from classroom.students import fill

from devlab import cli
from devlab.checks.exercise import lessons
from devlab.classroom import course, results
from devlab.classroom.download import notebook_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's")
LESSON = "05_buffers"
MANY = int(os.environ.get("DEVLAB_EDITED", "8"))
# What nbgrader runs the cells in, in place of a kernel for each submission.
SETTINGS = """
from classroom.forked_execute import ForkedExecute
from nbgrader.converters import Autograde
from nbgrader.preprocessors import Execute
steps = Autograde.class_traits()["autograde_preprocessors"].default()
c.Autograde.autograde_preprocessors = [ForkedExecute if step is Execute else step for step in steps]
"""


@dataclass
class Edited:
    """A submission: what was done to each exercise and to the file, and what was written."""

    notebook: dict
    did: dict[str, list[str]]
    whole: list[str] = field(default_factory=list)
    quality: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, list[str]]]:
    """Return the right and the wrong answers of each exercise of the lesson, as cells."""
    found = {}
    (lesson,) = (one for one in lessons() if one.id == LESSON)
    for path in (ANSWERS / f"{one.name}.py" for one in lesson.exercises):
        cells, bank = handed_in(path), load(path)
        found[path.stem] = {
            "right": [cells[one.name] for one in bank if one.fragment is None and one.name in cells],
            "wrong": [cells[one.name] for one in bank if one.fragment is not None and one.name in cells],
        }
    return found


def edited(number: int, handout: dict, answers: dict) -> Edited:
    """Return the submission of a number: answers of any quality, and edits of any kind."""
    rng = random.Random(number)
    blank = copy.deepcopy(handout)
    stubs = {cell["metadata"].get("nbgrader", {}).get("grade_id"): cell for cell in blank["cells"]}
    names = [name for name in answers if name in stubs]
    quality = {name: rng.choice(["right", "right", "right", "wrong", "blank"]) for name in names}
    written = {name: rng.choice(answers[name][how]) for name, how in quality.items() if how != "blank"}
    notebook = fill(handout, written) | {"blank": stubs}
    done = Edited(notebook, {}, [], quality)
    for name in names:
        edits = rng.sample(editing.CELLS, rng.choice([0, 1, 1, 1, 2]))
        for edit in edits:
            edit(notebook, name, rng)
        done.did[name] = [edit.__name__ for edit in edits]
    for edit in rng.sample(editing.WHOLE, rng.choice([0, 0, 0, 1, 1, 2])):
        edit(notebook, blank, rng)
        done.whole.append(edit.__name__)
    return done


@pytest.fixture(scope="module")
def graded_by_both(tmp_path_factory, answers):
    """Have everybody's notebook graded by nbgrader and by devlab; return the submissions and both marks."""
    root = tmp_path_factory.mktemp("edited")
    marked = Marked(root / "course", root / "in")
    course.lay_out(marked.folder, [LESSON])
    (root / "home" / "ipython").mkdir(parents=True)
    with (marked.folder / "nbgrader_config.py").open("a", encoding="utf-8") as stream:
        stream.write(SETTINGS)
    handout = course.read_notebook(marked.folder / "handout" / LESSON / f"{LESSON}.ipynb")
    everyone = {f"s{number:03}": edited(number, handout, answers) for number in range(MANY)}
    for number, (who, one) in enumerate(everyone.items()):
        plain = marked.folder / "submitted" / who / LESSON / f"{LESSON}.ipynb"
        encoding = editing.ENCODINGS[number % len(editing.ENCODINGS)]
        name = editing.NAMES[number % len(editing.NAMES)].format(LESSON)
        for path, how in ((plain, "utf-8"), (marked.downloads / who / name, encoding)):
            path.parent.mkdir(parents=True)
            path.write_bytes(editing.content(one.notebook, how))
        if number % 3 == 0:  # an untouched copy that was saved last
            beside = marked.downloads / who / "again.ipynb"
            beside.write_text(json.dumps(handout), encoding="utf-8")
            os.utime(beside, (1, 4e9))
    marked.environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    marked.run("nbgrader", "generate_assignment", LESSON)
    marked.run("nbgrader", "autograde", LESSON, may_fail=True)
    return everyone, marked, graded(marked, root / "out" / "r.jsonl")


def graded(marked: Marked, out: Path) -> dict[str, results.Record]:
    """Return the records of `devlab grade`, by student."""
    command = ["grade", str(marked.downloads), "--course", str(marked.folder), "--out", str(out)]
    assert cli.main(command) in (0, 1)
    return {one.student: one for one in results.read_all([out])}


def nbgraders(marked: Marked) -> dict[str, dict[str, float]]:
    """Return nbgrader's points by student and exercise, of all whose notebooks it could read."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{marked.folder / 'gradebook.db'}") as book:
        return {
            one.student.id: {
                grade.name.removeprefix("check_"): grade.score for grade in one.notebooks[0].grades
            }
            for one in book.assignment_submissions(LESSON)
            if (marked.folder / "autograded" / one.student.id / LESSON / f"{LESSON}.ipynb").exists()
        }


def told(everyone: dict[str, Edited], student: str, name: str) -> str:
    """Say what was done to an answer."""
    one = everyone[student]
    return f"{student}, {name} ({one.quality[name]}), {' '.join([*one.did[name], *one.whole])}"


def is_there(submission: Edited, name: str) -> bool:
    """Tell whether an answer is still in a notebook: edits of other answers' cells may have deleted it."""
    stub, defines = (
        editing.text(submission.notebook["blank"][name]),
        re.compile(rf"^(def|class) {name}\b", re.M),
    )
    texts = [editing.text(cell) for cell in submission.notebook["cells"]]
    return any(defines.search(text.replace(stub, "")) for text in texts)


def test_nobody_earns_less_than_from_nbgrader(graded_by_both):
    """Exercise by exercise, for every edit and combination of edits."""
    everyone, marked, ours = graded_by_both
    less, compared, earned = [], 0, 0
    for student, theirs in nbgraders(marked).items():
        for one in ours[student].exercises:
            compared += 1
            earned += theirs[one.name] > 0
            if one.points < theirs[one.name]:
                verdict = f"{one.points:g} for {theirs[one.name]:g}: {one.outcome}: {one.headline}"
                less.append(f"{told(everyone, student, one.name)}: {verdict}")
    assert not less, "\n".join(less)
    assert compared > 6 * MANY
    assert earned > compared / 4


def test_what_is_all_there_earns_all(graded_by_both):
    """A right answer after an edit that loses nothing is worth every point, though nbgrader gives none."""
    everyone, _, ours = graded_by_both
    harmless, less = {edit.__name__ for edit in editing.HARMLESS}, []
    for student, submission in everyone.items():
        for one in ours[student].exercises:
            did, kept = submission.did[one.name], {"strip", "paste_twice", "lose_the_start"}
            lost = (
                set(did) - harmless
                or len(did) > 1
                or set(submission.whole) - kept
                or len(submission.whole) > 1
            )
            if submission.quality[one.name] == "right" and not lost and one.points < one.possible:
                less.append(f"{told(everyone, student, one.name)}: {one.outcome}: {one.headline}")
    assert not less, "\n".join(less)


def test_work_is_never_called_not_attempted(graded_by_both):
    """Whatever was done to it; and a stub is never called anything else."""
    everyone, _, ours = graded_by_both
    wrong = [
        f"{told(everyone, student, one.name)}: {one.outcome}"
        for student, submission in everyone.items()
        for one in ours[student].exercises
        if one.outcome == "not attempted" and submission.quality[one.name] != "blank"
        if is_there(submission, one.name)
    ]
    assert not wrong, "\n".join(wrong)


def test_a_teacher_is_told_what_was_done_to_cells(graded_by_both):
    """A remark stands wherever cells are missing, split, copied, retyped or have lost their marks."""
    everyone, _, ours = graded_by_both
    seen = {"delete_check", "split_thrice", "retype", "unmark", "paste_the_stub", "strip"}
    for student, submission in everyone.items():
        did = {edit for edits in submission.did.values() for edit in edits} | {*submission.whole}
        if did & seen:
            assert [note for note in ours[student].remarks if "cells" in note], f"{student}: {did}"


def test_the_files_are_read_as_they_are(graded_by_both):
    """The proof of the encodings and names: every one of them came to be graded, with what it says."""
    everyone, marked, ours = graded_by_both
    assert set(ours) == set(everyone)
    assert not [one.problem for one in ours.values() if one.problem]
    for path in marked.downloads.rglob("*.txt"):
        assert notebook_of(path.read_bytes())[0]["cells"]
