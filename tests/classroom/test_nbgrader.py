"""nbgrader's own commands run on a course that devlab laid out, with real submissions."""

import csv
import html
import re
from dataclasses import replace

import nbformat
import pytest
from classroom.students import CLASS, LESSON, POSSIBLE, deserved, marked_here
from traitlets.config import Config

from devlab.classroom.handout import STUB
from devlab.classroom.results import nbgrader_csv


def exported(marked) -> dict[str, dict[str, str]]:
    """Read what `nbgrader export` wrote, by student."""
    with (marked.folder / "grades.csv").open(encoding="utf-8") as stream:
        return {row["student_id"]: row for row in csv.DictReader(stream)}


def test_everybody_gets_the_marks_they_deserve(marked):
    """Right, wrong, unfinished and broken answers, cells copied or lost: a point for each row that passes."""
    rows = exported(marked)
    assert {name: float(row["score"]) for name, row in rows.items()} == {
        name: sum(points.values()) for name, points in deserved().items()
    }
    assert {float(row["max_score"]) for row in rows.values()} == {sum(POSSIBLE.values())}


def test_marks_stand_exercise_by_exercise_in_the_gradebook(marked):
    """The gradebook holds each check's points, and nothing waits for a teacher's hand."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{marked.folder / 'gradebook.db'}") as gradebook:
        for student, points in deserved().items():
            grades = gradebook.find_submission_notebook(LESSON, LESSON, student).grades
            assert {grade.name.removeprefix("check_"): grade.score for grade in grades} == points
            assert not any(grade.needs_manual_grade for grade in grades)


def test_devlabs_table_is_the_one_that_nbgrader_exports(marked):
    """The same class judged by devlab alone gives `nbgrader export`'s columns, and two more after them."""
    records = []
    for one in marked_here():
        stamp = marked.folder / "submitted" / one.student / LESSON / "timestamp.txt"
        records.append(replace(one, submitted=stamp.read_text().strip()))
    ours = [row[:-2] for row in csv.reader(nbgrader_csv(records).splitlines())]
    assert ours == list(csv.reader((marked.folder / "grades.csv").read_text(encoding="utf-8").splitlines()))


def test_no_command_warns(marked):
    """From the assignment to the export nobody reads a warning, an error or a traceback."""
    for command, said in marked.said.items():
        assert not re.search(r"WARN|\| ERROR|CRITICAL|Warning|Traceback", said), f"{command}:\n{said}"


# Thorough: nbval runs the same notebook with every check strict.
@pytest.mark.thorough
def test_the_solutions_validate(marked):
    """`nbgrader validate` gives the teacher's own notebook full marks."""
    said = marked.run("nbgrader", "validate", f"source/{LESSON}/{LESSON}.ipynb")
    assert "Success! Your notebook passes all the tests." in said


def test_feedback_shows_the_verdict(marked):
    """nbgrader's feedback page holds devlab's verdict and the student's own code."""
    for student, (answers, _) in CLASS.items():
        page = (marked.folder / "feedback" / student / LESSON / f"{LESSON}.html").read_text(encoding="utf-8")
        assert "is right for every kind of tensor" in page
        assert ("not attempted yet" in page) == (len(answers) < 2)
        text = re.sub(r"<[^>]+>", "", page)
        assert all(answer.splitlines()[1].strip() in html.unescape(text) for answer in answers.values())


def test_the_release_holds_no_solution(marked):
    """What nbgrader hands out and what `handout/` holds have the same tasks, and no answer to them."""
    for folder in ("release", "handout"):
        text = (marked.folder / folder / LESSON / f"{LESSON}.ipynb").read_text(encoding="utf-8")
        assert text.count("your code here") == 3  # the two stubs, and the words that explain them
        assert "return x.device" not in text
        assert "SOLUTION" not in text


def test_nbgrader_hands_out_a_broken_program_where_a_task_has_one(tmp_path):
    """devlab's step runs after nbgrader's, so release and handout hold the same code."""
    from devlab.classroom.handout import clear_solutions
    from devlab.classroom.steps import generate_assignment_steps

    source = """\
def move(x):
    ### BEGIN BROKEN
    # return x.cuda()
    ### END BROKEN
    ### BEGIN SOLUTION
    return x.to("cpu")
    ### END SOLUTION"""
    facts = {"grade_id": "move", "solution": True, "grade": False, "locked": False, "task": False}
    cell = nbformat.v4.new_code_cell(source, metadata={"nbgrader": {**facts, "schema_version": 3}})
    notebook = nbformat.v4.new_notebook(cells=[cell])
    names = [step.__name__ for step in generate_assignment_steps()]
    at = names.index("ClearSolutions")
    assert names[at + 1] == "HandOutBroken"
    config = Config({"ClearSolutions": {"code_stub": {"python": STUB}}})
    for step in generate_assignment_steps()[at : at + 2]:
        notebook, _ = step(config=config).preprocess(notebook, {"language": "python"})
    assert notebook.cells[0].source == clear_solutions(source) == "def move(x):\n    return x.cuda()"
