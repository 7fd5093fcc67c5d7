"""Cells that students added or changed: what an answer needs of them is run, and no other."""

import copy
import json
import re
import sys

import pytest
from bank import one_of_each
from classroom.hostile_answers import TAMPERS
from classroom.students import RIGHT, fill, handed_out, own_cell

from devlab import cli
from devlab.classroom import course
from devlab.classroom.download import notebook_of
from devlab.classroom.engine.cells import Step, answers, merge_cells, plan_run

SOLUTION, CHECK = ("solution", "f", "def f(x):\n    return helper(x)"), ("check", "f", "")


def own(*sources: str) -> list:
    """Return steps of cells that a student added."""
    return [("own", "", source) for source in sources]


def run(steps: list, skip: tuple = ()) -> list:
    """Return the steps that are run."""
    return plan_run(steps, skip).steps


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
        (["def helper(:"], 1),
        (["helper = []", "helper.append(2)", "helper.count(2) == 1"], 2),
        (["f = 3", "f.helped = 2", "setattr(f, 'more', 2)", "f[0] = 2"], 4),
        (["import torch\ntorch.set_grad_enabled(False)"], 0),
        (["(" * 5000 + "helper"], 0),
        (["helper\0 = 1"], 0),
    ],
)
def test_a_cell_is_run_where_an_answer_needs_a_name_that_it_sets(sources, many):
    """Trials, and what sets other names or none, are left out."""
    found = run([SOLUTION, *own(*sources), CHECK])
    assert [kind for kind, _, _ in found] == ["solution", *["own"] * many, "check"], found
    assert {name for _, name, _ in found} == {"f"}


def test_a_name_that_is_set_again_is_what_it_was_set_to_last():
    """As in nbgrader: a student's own helper takes the teacher's place, and is not only imported again."""
    setup = ("setup", "", "def helper(x): pass")
    assert run([setup, SOLUTION, *own("helper = 3"), CHECK])[2] == ("own", "f", "helper = 3")
    setup = ("setup", "", "from tools import helper")
    trial = own("from tools import helper\nhelper(1)")
    assert run([setup, SOLUTION, *trial, CHECK]) == [setup, SOLUTION, CHECK]


def test_what_another_answer_sets_later_is_not_there_yet():
    """An import that an answer needs is run, though the answer below it makes the same import of its own."""
    other = [("solution", "g", "import helper\ndef g(): return helper"), ("check", "g", "")]
    assert run([*own("import helper"), SOLUTION, CHECK, *other])[0] == ("own", "f", "import helper")


def test_what_was_handed_out_never_wins():
    """Copies of the stub, with a comment or without, run above what fills it in; all other parts in order."""
    filled = ("solution", "f", "def f(x):\n    return 1")
    stub = "import math\ndef f(x):\n    '''Later.'''\n    raise NotImplementedError('your code here')"
    blank, commented = ("blank", "f", stub), ("own", "", stub + "  # how?")
    assert run([filled, blank, CHECK]) == [blank, filled, CHECK]
    assert run([filled, CHECK, commented]) == [("own", "f", commented[2]), filled, CHECK]
    assert run([filled, commented, CHECK]) == [("own", "f", commented[2]), filled, CHECK]
    assert run([blank, CHECK]) == [blank, CHECK]
    again = ("solution", "f", "def f(x):\n    return 2")
    assert run([filled, again, CHECK]) == [filled, again, CHECK]


def test_a_check_waits_for_what_its_answer_needs():
    """A check above its answer, or above a helper, comes at the end; a later trial does not move it."""
    helper = own("def helper(x): pass")
    assert run([CHECK, SOLUTION, *helper]) == [SOLUTION, ("own", "f", helper[0][2]), CHECK]
    assert run([SOLUTION, CHECK, *helper]) == [SOLUTION, ("own", "f", helper[0][2]), CHECK]
    assert run([*helper, SOLUTION, CHECK, *own("f = 3", "helper = 2")])[-1] == CHECK


def test_text_in_a_cell_that_is_none_of_code_is_run_where_nothing_else_answers():
    """A retyped answer counts; an old attempt that was kept as prose does not."""
    spare = ("spare", "f", "def f(x):\n    return 2")
    assert run([spare, CHECK]) == [spare, CHECK]
    assert run([("solution", "f", "def f(x):\n    return 1"), spare, CHECK])[1:] == [CHECK]
    stub = ("blank", "f", "def f(x):\n    raise NotImplementedError")
    assert run([spare, stub, CHECK]) == [stub, spare, CHECK]


def test_what_holds_work_is_told_from_what_does_not():
    """A part that is no more than comments is no attempt; a function of another name is one."""
    assert plan_run([("solution", "f", "# nothing yet"), CHECK]).written == set()
    assert plan_run([("solution", "f", "def g(x):\n    return 1"), CHECK]).written == {"f"}
    assert plan_run([("own", "", "def f(:"), CHECK]).written == {"f"}


def test_everything_is_run_on_request():
    """As nbgrader runs it: trials too, and the answers that were settled before, without their checks."""
    trial, other = own("1 / 0")[0], [("solution", "g", "def g(): return 1"), ("check", "g", "")]
    steps = [trial, SOLUTION, CHECK, *other, *own("after = 1")]
    assert plan_run(steps, ("g",), True).steps == [("own", "f", "1 / 0"), SOLUTION, CHECK, other[0]]
    assert plan_run(steps, ("g",), True).needs == {"f": [0]}


def test_what_only_a_settled_exercise_needs_is_left_out():
    """What killed its process at one exercise is not run for the next, unless that needs it, too."""
    other = [("solution", "g", "def g(): return 1"), ("check", "g", "")]
    assert run([*own("helper = 1"), SOLUTION, CHECK, *other], ("f",)) == other
    needing = [("solution", "g", "def g(): return helper"), ("check", "g", "")]
    assert run([*own("helper = 1"), SOLUTION, CHECK, *needing], ("f",))[0] == ("own", "g", "helper = 1")


@pytest.fixture
def lesson(tmp_path):
    """Return what is known of lesson 00's hand-out, and the notebook itself."""
    assignment, handout, _ = handed_out(tmp_path, "0")
    return course.handouts_of(tmp_path)[assignment], handout


def read(notebook: dict) -> dict:
    """Return a notebook as it is read from a student's file."""
    return notebook_of(json.dumps(notebook).encode())[0]


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
        steps = merge_cells(source, read(fill(notebook, RIGHT)))
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
    steps = merge_cells(source, read(notebook))
    theirs = [(step.kind, step.source.splitlines()[-1]) for step in steps if step.kind != "check"]
    kinds = [kind for kind, _ in theirs]
    begin = kinds.index("own")
    assert kinds[:begin] == ["setup"] * begin
    assert theirs[begin : begin + 2] == [("own", "before = 1"), ("own", "import math")]
    assert theirs[kinds.index("solution") + 1] == ("own", "def device_of(x): pass")
    assert theirs[-1] == ("own", "after = 1")
    wrote = answers(steps, plan_run([(step.kind, step.name, step.source) for step in steps]).needs)
    assert wrote["device_of"] == RIGHT["device_of"] + "\n\ndef device_of(x): pass"
    assert wrote["same_place"] == RIGHT["same_place"]


def test_an_answer_is_told_with_all_own_cells_that_it_needs():
    """Of a helper that two exercises need both are told; what is no place of an own cell says nothing."""
    steps = [Step("own", "", "helper = 1"), Step("solution", "f", "f = helper"), Step("check", "f", "")]
    steps += [Step("solution", "g", "g = helper"), Step("own", "", "1 / 0"), Step("check", "g", "")]
    needs = plan_run([(step.kind, step.name, step.source) for step in steps]).needs
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


@pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's")
def test_what_no_text_tells_is_found_by_running_everything(lesson, tmp_path):
    """A cell that only changes the state of something counts where its answer would not pass without it."""
    answer = "import os\ndef device_of(x):\n    return x.device if os.environ.get('MINE') else 0"
    notebook = fill(lesson[1], {**RIGHT, "device_of": answer})
    place = place_of(notebook, "device_of")
    state = own_cell("from os import environ\nenviron['MINE'] = '1'", 2)
    notebook["cells"][place:place] = [own_cell("1 / 0", 1), state]
    (tmp_path / "in" / "Anna").mkdir(parents=True)
    (tmp_path / "in" / "Anna" / "x.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    out = tmp_path / "out" / "r.jsonl"
    assert cli.main(["grade", str(tmp_path / "in"), "--course", str(tmp_path), "--out", str(out)]) == 0
    (one,) = map(json.loads, out.read_text(encoding="utf-8").splitlines())
    assert [each["outcome"] for each in one["exercises"]] == ["passed", "passed"]
    assert "environ['MINE']" in one["exercises"][0]["source"]


NAMES = [f"f{number}" for number in range(30)]
BULK = "helper = 1\n" + "# bulk\n" * 100_000


@pytest.mark.parametrize(
    "sources",
    one_of_each(
        [
            [BULK],
            ["helper = 1", *["helper += 1  # " + "bulk " * 400] * 2000],
            [BULK.replace("\n", "\r\n")],
            ["helper = '" + "ü" * 500_000 + "'"],
            ["helper = '" + "\0" * 500_000 + "'"],
            ["from math import *\n" + BULK],
            ["(" * 500_000 + "\ndef helper(): pass"],
            ["\n" * 700_000 + "helper = 1"],
        ],
        lambda _: "",
    ),
)
@pytest.mark.parametrize("kind", ["own", "spare"])
def test_a_cell_that_every_exercise_needs_does_not_fill_the_results(sources, kind):
    """A file of a few kilobytes would become hundreds of megabytes of records."""
    steps = [Step(kind, "", source) for source in sources]
    for name in NAMES:
        steps += [Step("solution", name, f"def {name}(x):\n    return helper"), Step("check", name, "")]
    needs = {name: list(range(len(steps))) for name in NAMES}
    wrote = answers(steps, needs)
    assert list(wrote) == NAMES
    assert sum(map(len, wrote.values())) < 30 * 51_000
    assert all("more characters, in the notebook" in text for text in wrote.values())
