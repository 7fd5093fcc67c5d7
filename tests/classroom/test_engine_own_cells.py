"""Cells that students added or changed: what an answer needs of them is run, and no other."""

import copy
import json
import re
import sys

import pytest
from classroom.hostile_answers import TAMPERS
from classroom.students import RIGHT, fill, handed_out, own_cell

from devlab import cli
from devlab.classroom import course
from devlab.classroom.engine.merge import Step, answers, merged
from devlab.classroom.engine.own_cells import chosen, needed

SOLUTION, CHECK = ("solution", "f", "def f(x):\n    return helper(x)"), ("check", "f", "")


def own(*sources: str) -> list:
    """Return steps of cells that a student added."""
    return [("own", "", source) for source in sources]


def run(steps: list, skip: tuple = ()) -> list:
    """Return the steps that are run."""
    return chosen(steps, needed(steps, skip), skip)


@pytest.mark.parametrize(
    ("sources", "many"),
    [
        (["def helper(x): pass"], 1),
        (["from math import *"], 1),
        (["from __future__ import annotations"], 1),
        (["helper = make()", "def make():\n    return deeper.sum", "import numpy as deeper"], 3),
        (["%%time\nhelper = 3"], 1),
        (["if True:\n    helper = 1"], 1),
        (["def g():\n    global helper\n    helper = 1"], 1),
        (["f = 3"], 1),
        (["helper(1)"], 0),
        (["def g(helper):\n    return helper"], 0),
        (["while True:\n    pass"], 0),
        (["x = 1"], 0),
        (["print = 3"], 0),
        (["def helper(:"], 0),
        (["(" * 5000 + "helper"], 0),
        (["helper\0 = 1"], 0),
    ],
)
def test_a_cell_is_run_where_an_answer_needs_a_name_that_it_sets(sources, many):
    """Trials, and what sets other names or none, are left out."""
    found = run([SOLUTION, *own(*sources), CHECK])
    assert [kind for kind, _, _ in found] == ["solution", *["own"] * many, "check"]
    assert {name for _, name, _ in found} == {"f"}


def test_what_another_cell_sets_is_not_needed():
    """The teacher's helper stands, whatever a student made of it elsewhere."""
    setup = ("setup", "", "def helper(x): pass")
    assert run([setup, SOLUTION, *own("helper = 3"), CHECK]) == [setup, SOLUTION, CHECK]


def test_what_only_a_settled_exercise_needs_is_left_out():
    """What killed its process at one exercise is not run for the next, unless that needs it, too."""
    other = [("solution", "g", "def g(): return 1"), ("check", "g", "")]
    assert run([*own("helper = 1"), SOLUTION, CHECK, *other], ("f",)) == other
    needing = [("solution", "g", "def g(): return helper"), ("check", "g", "")]
    assert run([*own("helper = 1"), SOLUTION, CHECK, *needing], ("f",))[0] == ("own", "g", "helper = 1")


@pytest.fixture
def lesson(tmp_path):
    """Return the teacher's notebook of lesson 00, and the one that is handed out."""
    assignment, handout, _ = handed_out(tmp_path, "0")
    return course.read(tmp_path / "source" / assignment / f"{assignment}.ipynb"), handout


def place_of(notebook: dict, grade_id: str) -> int:
    """Return where a cell stands."""
    ids = [cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in notebook["cells"]]
    return ids.index(grade_id)


def test_only_what_students_wrote_is_theirs(lesson):
    """The hand-out's own cells are none of a student's, also where a platform took the cells' ids away."""
    source, handout = lesson
    bare = copy.deepcopy(handout)
    for cell in bare["cells"]:
        cell.pop("id", None)
    for notebook in (handout, bare):
        steps = merged(source, fill(notebook, RIGHT))
        assert [step.kind for step in steps].count("own") == 0
        assert [step.name for step in steps if step.kind == "solution"] == list(RIGHT)


def test_cells_keep_their_places(lesson):
    """An added cell follows what it followed, a changed one the teacher's; none precedes the first task."""
    source, handout = lesson
    notebook = fill(handout, RIGHT)
    first = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    first["source"] += "\nimport math"
    notebook["cells"].insert(0, own_cell("before = 1", 1))
    notebook["cells"].insert(place_of(notebook, "device_of") + 1, own_cell("def device_of(x): pass", 2))
    notebook["cells"].append(own_cell("after = 1", 3))
    steps = merged(source, notebook)
    theirs = [(step.kind, step.source.splitlines()[-1]) for step in steps if step.kind != "check"]
    kinds = [kind for kind, _ in theirs]
    begin = kinds.index("own")
    assert kinds[:begin] == ["setup"] * begin
    assert theirs[begin : begin + 2] == [("own", "before = 1"), ("own", "import math")]
    assert theirs[kinds.index("solution") + 1] == ("own", "def device_of(x): pass")
    assert theirs[-1] == ("own", "after = 1")
    wrote = answers(steps, needed([(step.kind, step.name, step.source) for step in steps]))
    assert wrote["device_of"] == RIGHT["device_of"] + "\n\ndef device_of(x): pass"
    assert wrote["same_place"] == RIGHT["same_place"]


def test_an_answer_is_told_with_all_own_cells_that_it_needs():
    """Of a helper that two exercises need both are told; what is no place of an own cell says nothing."""
    steps = [Step("own", "", "helper = 1"), Step("solution", "f", "f = helper"), Step("check", "f", "")]
    steps += [Step("solution", "g", "g = helper"), Step("own", "", "1 / 0"), Step("check", "g", "")]
    needs = needed([(step.kind, step.name, step.source) for step in steps])
    assert needs == {"f": [0], "g": [0]}
    both = {"f": "helper = 1\n\nf = helper", "g": "helper = 1\n\ng = helper"}
    assert answers(steps, needs) == both
    assert answers(steps, {"f": [0, 1, 2, -1, 99], "g": [0]}) == both
    assert answers(steps, {}) == {"f": "f = helper", "g": "g = helper"}


@pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's")
def test_the_record_holds_what_was_run_for_an_answer(lesson, tmp_path):
    """A helper in a cell of its own stands with the answer, also where that killed its process."""
    written = {"device_of": "def device_of(x):\n    return helper(x)", "same_place": RIGHT["same_place"]}
    helpers = {"Anna": "def helper(x):\n    return x.device"}
    helpers["Ben"] = "import os\ndef helper(x):\n    os._exit(3)"
    for who, helper in helpers.items():
        notebook = fill(lesson[1], written)
        place = place_of(notebook, "device_of")
        notebook["cells"][place:place] = [own_cell("1 / 0", 1), own_cell(helper, 2)]
        (tmp_path / "in" / who).mkdir(parents=True)
        (tmp_path / "in" / who / "00_start_here.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    out = tmp_path / "out" / "r.jsonl"
    assert cli.main(["grade", str(tmp_path / "in"), "--course", str(tmp_path), "--out", str(out)]) == 0
    for line in out.read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        told = {each["name"]: (each["outcome"], each["source"]) for each in one["exercises"]}
        code = f"{helpers[one['student']]}\n\n{written['device_of']}"
        assert told["device_of"] == ("passed" if one["student"] == "Anna" else "killed", code)
        assert told["same_place"] == ("passed", RIGHT["same_place"])


@pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's")
def test_who_tampers_in_a_cell_of_their_own_gains_nothing(lesson, tmp_path):
    """What the hostile corpus tries in an answer's cell earns the same in one that an answer needs."""
    # Words in capitals are places of the corpus's own tests.
    tried = {who: one for who, one in TAMPERS.items() if not re.search("[A-Z]{5}", one.source)}
    for number, (who, one) in enumerate(tried.items()):
        notebook = fill(lesson[1], {**RIGHT, one.answers: "helped = helper"})
        added = own_cell(f"{one.source}\nhelper = 1\n")
        notebook["cells"].insert(place_of(notebook, one.answers), added)
        (tmp_path / "in" / who).mkdir(parents=True)
        (tmp_path / "in" / who / f"{number}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    out = tmp_path / "out" / "r.jsonl"
    assert cli.main(["grade", str(tmp_path / "in"), "--course", str(tmp_path), "--out", str(out)]) == 0
    records = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    got = {one["student"]: tuple(each["points"] for each in one["exercises"]) for one in records}
    assert got == {who: tuple(one.points) for who, one in tried.items()}
    assert len(got) > 10
