"""`devlab grade` gives honest work its marks, and forgers none; hostile work is in test_hostile.py."""

import sys

import pytest
from classroom.students import ALWAYS_CPU, CLASS, LESSON, RIGHT, deserved, hand_in

from devlab import cli
from devlab.classroom import course
from devlab.classroom.collect import collect
from devlab.classroom.engine import cells
from devlab.classroom.engine.grade import Settings, grade
from devlab.classroom.engine.quota import Limits
from devlab.classroom.engine.walls import isolation_available

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's")


def sandboxed(tmp_path, answers):
    """Lay out a course, hand answers in, grade them, and return the records by student."""
    folder = tmp_path / "course"
    course.lay_out(folder, ["0"])
    downloads = hand_in(folder / "handout" / LESSON / f"{LESSON}.ipynb", tmp_path / "downloads", answers)
    source = folder / "source" / LESSON / f"{LESSON}.ipynb"
    before = source.read_bytes()
    # On a busy machine PyTorch takes long to import what an optimizer or a compiler needs.
    settings = Settings(isolation_available(), Limits(seconds=200))
    records = {
        one.student: one for one in grade(collect([downloads], course.handouts_of(folder)), folder, settings)
    }
    assert source.read_bytes() == before
    return records


def test_honest_marks_are_those_deserved(tmp_path):
    """The class that nbgrader marks in test_nbgrader.py gets the same points here, exercise by exercise."""
    records = sandboxed(tmp_path, CLASS)
    got = {who: {one.name: one.points for one in record.exercises} for who, record in records.items()}
    assert got == deserved()
    assert {record.isolation for record in records.values()} == {isolation_available()}
    confirmed = {one.name: one.confirmed for one in records["Right Rita"].exercises}
    assert confirmed == {"device_of": "3 of 3 rows", "same_place": "5 of 5 rows"}
    assert not any("confirmed" in note for record in records.values() for note in record.remarks)


def test_whatever_goes_wrong_over_one_submission_is_its_own(tmp_path, monkeypatch):
    """An exception that nobody foresaw costs one student a line that says so, and nobody else anything."""
    merged = cells.merge_cells

    def strange(handout, notebook):
        if "Anna" in str(notebook):
            raise RecursionError("out of the blue")
        return merged(handout, notebook)

    monkeypatch.setattr(cells, "merge_cells", strange)
    answers = {"Anna": ({**RIGHT, "device_of": "# Anna's\n" + RIGHT["device_of"]}, {}), "Ben": (RIGHT, {})}
    records = sandboxed(tmp_path, answers)
    assert records["Ben"].points == 8
    assert "RecursionError: out of the blue" in records["Anna"].problem


def test_a_function_that_is_not_there_is_not_attempted(tmp_path):
    """Whoever emptied the cell tampered with nothing; nor who wrote something else, which is told."""
    written = {
        "Empty Ed": "",
        "Other Otto": "def another_name(a, b):\n    return True\n",
        "Just Jo": "x = 1\n",
        "Long Lou": 'raise ValueError("x" * 9999)\n',
    }
    answers = {who: ({**RIGHT, "same_place": source}, {}) for who, source in written.items()}
    for record in sandboxed(tmp_path, answers).values():
        first, second = record.exercises
        assert (first.outcome, first.points) == ("passed", 3)
        wrote = written[record.student]
        assert (second.outcome, second.points) == ("error" if wrote else "not attempted", 0)
        if record.student == "Long Lou":
            assert second.headline.startswith("ValueError: xxxx")
        else:
            assert (second.headline == "no cell defines same_place") == bool(wrote)
        assert not record.remarks


# What stands beside an answer in honest notebooks, and moves something in PyTorch, NumPy or Python.
BESIDE = {
    "an optimizer": "model = torch.nn.Linear(2, 2)\nmodel(torch.ones(1, 2)).sum().backward()\n"
    "torch.optim.Adam(model.parameters()).step()",
    "a default dtype": "torch.set_default_dtype(torch.float64)",
    "a default tensor type": "torch.set_default_tensor_type(torch.DoubleTensor)",
    "a default device": "torch.set_default_device('meta')",
    "no gradients": "torch.set_grad_enabled(False)",
    "determinism": "torch.use_deterministic_algorithms(True)\ntorch.manual_seed(seed=3)",
    "strict numbers": "import numpy\nnumpy.seterr(all='raise')\ntorch.autograd.set_detect_anomaly(True)",
    "warnings as errors": "import warnings\nwarnings.simplefilter('error')",
    "names of builtins": "print = sum = len = list = 3",
    "another standard output": "import io, sys\nsys.stdout = io.StringIO()",
    "a profile": "import cProfile\nprofile = cProfile.Profile()\nprofile.enable()\nprofile.disable()",
    "a scripted function": "@torch.jit.script\ndef one_more(x):\n    return x + 1\none_more(torch.ones(1))",
    "a mode": "from torch.overrides import TorchFunctionMode as Mode\nwith Mode():\n    torch.ones(2) + 1",
    "a machine of the student's own": "from unittest import mock\n"
    "with mock.patch('torch.cuda.is_available', return_value=True):\n    print(torch.cuda.is_available())",
    "the course's own beginning once more": "import devlab\ndevice = devlab.start()\ntorch.ones(2)",
    "another folder": "import os\nos.makedirs('data')\nos.chdir('data')",
    "a picture": "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
    "a magic": "%timeit device_of(torch.ones(1))\ndisplay(1)",
}


def test_nobody_is_suspected_for_what_stands_beside_an_answer(tmp_path):
    """Settings, tools, what PyTorch imports late: the answers pass, and no word is said of tampering."""
    answers = {
        who: ({**RIGHT, "device_of": f"{RIGHT['device_of']}\n{beside}\n"}, {})
        for who, beside in BESIDE.items()
    }
    for who, record in sandboxed(tmp_path, answers).items():
        assert [one.outcome for one in record.exercises] == ["passed", "passed"], f"{who}: {record}"
        assert not record.remarks, who


def test_a_teachers_source_counts(tmp_path, capsys):
    """A check is worth what its cell says, and a change of the source has old results made anew."""
    records = sandboxed(tmp_path, {"Middle Mia": ({**RIGHT, "device_of": ALWAYS_CPU}, {})})
    assert records["Middle Mia"].points == 6
    source = tmp_path / "course" / "source" / LESSON / f"{LESSON}.ipynb"
    text = source.read_text(encoding="utf-8")
    changed = text.replace("devlab.check(device_of).points", "2 * devlab.check(device_of).points")
    changed = changed.replace('"points": 3', '"points": 6')
    command = ["grade", str(tmp_path / "downloads"), "--course", str(tmp_path / "course")]
    command += ["--out", str(tmp_path / "out" / "r.jsonl"), "--seconds", "200"]
    for words, marks in ((text, "6 of 8"), (changed, "7 of 11"), (changed, "")):
        source.write_text(words, encoding="utf-8")
        assert cli.main(command) == 0
        said = capsys.readouterr().out
        assert ("Middle Mia, 00_start_here: " in said) == bool(marks)
        assert marks in said
        assert ("1 of these are graded anew: what was handed in or its source/ changed since." in said) == (
            marks == "7 of 11"
        )


# They find what judges them through the frames below their own, and have wrong answers called right.
FRAMES = """
import sys
def found(name):
    frame = sys._getframe()
    while frame and name not in frame.f_locals:
        frame = frame.f_back
    return frame and frame.f_locals[name]
def device_of(x):
    {deed}
    return torch.device("meta")
def same_place(a, b):
    return None
"""
PASSED = """
    from devlab.checks.exercise import find
    for name in ("device_of", "same_place"):
        marks = dict.fromkeys(("cpu", "sim:0", "sim:1"), "passed")
        rows = [[row.label, marks] for row in find(name).rows]
        found("send")({"done": name, "outcome": "passed", "headline": "passed", "rows": rows, "calls": CALLS})
    found("send")({"end": True})
"""
FORGED = {
    "the channel": PASSED.replace("CALLS", "[]"),
    "the channel, and an empty transcript": PASSED.replace("CALLS", "'[]'"),
    "the channel, and nonsense for a transcript": PASSED.replace("CALLS", "str([[7]] * 30)"),
    "the channel, and half a transcript": PASSED.replace("CALLS", "'[[{'"),
    "the channel, and a transcript without end": PASSED.replace("CALLS", "'[' * 100000"),
    "the channel, and its own transcript": PASSED.replace("CALLS", 'found("witness").take()'),
    "the seal, then the checks": """
    seal = found("seal")
    seal.put_back = seal.put_back_after_call = list
    import devlab.checks.judge as judge
    judge.judge_row = lambda *a: judge.Finding(judge.Outcome.PASSED)
""",
}


def test_forged_verdicts_earn_nothing(tmp_path):
    """Results are judged again where no student's code ran: wrong ones stay wrong, whatever a worker says."""
    answers = {
        way: ({"device_of": FRAMES.replace("{deed}", deed.strip()), "same_place": "same_place = 3"}, {})
        for way, deed in FORGED.items()
    }
    for way, record in sandboxed(tmp_path, answers).items():
        assert record.points == 0, f"{way}: {record}"
        assert any(note.startswith("tampered: device_of") for note in record.remarks), f"{way}: {record}"
