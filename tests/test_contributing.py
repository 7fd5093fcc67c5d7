"""The exercise that the contributing guide writes, from its judgement to its cells."""

import re
from pathlib import Path

import pytest
import show
import torch
from bank import fault, load

from devlab.checks import known
from devlab.checks.exercise import Exercise, Lesson
from devlab.checks.judge import judge
from devlab.lessons import lesson_05_buffers
from factory import exercises, mistakes, reading

GUIDE = Path(__file__).resolve().parents[1] / "CONTRIBUTING.md"
NAMED = re.compile(r"^```python\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = dict(NAMED.findall(GUIDE.read_text(encoding="utf-8")))
JUDGEMENT, BANK, TASK = FILES


@pytest.fixture
def eye_like(monkeypatch) -> Exercise:
    """Make the exercise, in a lesson that has no other."""
    lesson = Lesson("05_buffers", "Models and buffers", ("eye_like",))
    monkeypatch.setattr(lesson_05_buffers, "lesson", lesson)
    exec(compile(FILES[JUDGEMENT], JUDGEMENT, "exec"), {"__name__": "eye_like"})
    return lesson.made["eye_like"]


def test_the_files_are_where_the_course_has_them():
    """The judgement in its lesson, the bank beside the others, the cells in the notebook's source."""
    assert JUDGEMENT == "src/devlab/lessons/lesson_05_buffers/eye_like.py"
    assert BANK == "tests/answers/eye_like.py"
    assert TASK == "source/exercises/05_buffers.py"
    assert all((show.ROOT / path).parent.is_dir() for path in FILES)


def test_each_answer_of_its_bank_is_judged_as_the_bank_says(eye_like, tmp_path, monkeypatch):
    """And the bank has what the guide asks for."""
    path = tmp_path / "eye_like.py"
    path.write_text(FILES[BANK], encoding="utf-8")
    bank = load(path)
    table = mistakes.know(eye_like, bank)
    monkeypatch.setattr(known, "read", lambda _: table)
    assert [what for answer in bank if (what := fault(answer, judge(eye_like, answer.code)))] == []
    # It has no file of its own, and its cells are not in the course.
    elsewhere = ("its judgement in", "the cell ")
    assert [one for one in show.missing(eye_like, bank) if not any(word in one for word in elsewhere)] == []


def test_its_judgement_is_as_short_as_the_guide_says():
    """A pure function needs fewer lines than that beside its declaration."""
    assert 10 < show.lines_of_judgement(FILES[JUDGEMENT]) < show.MOST_LINES


def test_its_cells_are_what_the_factory_reads(eye_like, tmp_path):
    """The solution passes, and learners get the stub in its place."""
    path = tmp_path / TASK
    path.parent.mkdir(parents=True)
    path.write_text(FILES[TASK], encoding="utf-8")
    source = reading.read(path, tmp_path)
    exercises.mark(source, lambda name: eye_like.possible)
    _, solution, check = (cell.source for cell in source.cells)
    notebook = {"torch": torch}
    exec(solution, notebook)
    assert judge(eye_like, notebook["eye_like"]).passed
    assert check == "devlab.check(eye_like)"
    assert "your code here" in exercises.cleared(source.notebook()).cells[1].source
