"""Cases that were told: honest work gets full marks and no word of suspicion, and forgery gets nothing."""

import sys

import pytest
from classroom.students import fill, handed_out

from devlab.classroom import course
from devlab.classroom.collect import collect
from devlab.classroom.engine.grade import Settings, grade
from devlab.classroom.engine.quota import Limits
from devlab.classroom.engine.walls import isolation_available

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's")
# What honest students of lesson 05 had around the answer `append_ones`; SOLUTION stands for the answer.
HONEST = {
    "an answer in a file beside": "from my_helpers import append_ones",
    "a remainder at a line's beginning under a magic": "%%time\nseven = (7\n    % 8)\nSOLUTION",
    "a magic over two lines": "%timeit -n 1 -r 1 \\\n  sum(range(10))\n!ls \\\n   --color=never\nSOLUTION",
    "a command's result": "files = !ls\nassert 'my_helpers.py' in files\nSOLUTION",
    "the folder": "cwd = %pwd\nimport os\nassert os.path.exists(cwd)\nSOLUTION",
    "tensors counted": "import gc\nsum(isinstance(o, torch.Tensor) for o in gc.get_objects())\nSOLUTION",
    "a prettier tensor": "_old = torch.Tensor.__repr__\n"
    "torch.Tensor.__repr__ = lambda self: f'{tuple(self.shape)} ' + _old(self)\nSOLUTION",
    "another print": "import builtins\nfrom functools import partial\n"
    "print = builtins.print = partial(print, flush=True)\nSOLUTION",
    "a wrapped operator": "_add, counted = torch.Tensor.__add__, []\n"
    "torch.Tensor.__add__ = lambda a, b: counted.append(1) or _add(a, b)\ntorch.ones(2) + 1\nSOLUTION",
    "a profile": "import cProfile\nprofile = cProfile.Profile()\nprofile.enable()\nSOLUTION",
    "workers of a loader": "from torch.utils.data import DataLoader, TensorDataset\n"
    "for b in DataLoader(TensorDataset(torch.arange(8)), batch_size=2, num_workers=2): pass\nSOLUTION",
    "a pool of processes": "import multiprocessing\ndef square(x): return x * x\n"
    "with multiprocessing.Pool(2) as pool: assert pool.map(square, range(4)) == [0, 1, 4, 9]\nSOLUTION",
    "a task": "import asyncio\nasync def later(): return 3\n"
    "assert await asyncio.create_task(later()) == 3\nSOLUTION",
    "a compiled function": "f = torch.compile(lambda x: x + 1, backend='eager')\nf(torch.ones(2))\nSOLUTION",
}
# All verdicts forged, also those that no transcript can confirm.
FORGED = """
import sys, os
def up(name):
    frame = sys._getframe(1)
    while frame:
        if name in frame.f_locals: return frame.f_locals[name]
        frame = frame.f_back
send, ready = up("send"), up("ready")
for name in NAMES:
    passed = lambda row: {str(d): "passed" for d in ready.devices if row.applies_to(d, ready.devices)}
    rows = [[row.label, passed(row)] for row in ready.exercises[name].rows]
    send({"begin": name})
    send({"done": name, "outcome": "passed", "headline": "passed", "rows": rows, "calls": "[]"})
send({"end": True})
os._exit(0)
"""


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Hand in the told cases, and return their records by student."""
    root = tmp_path_factory.mktemp("told")
    assignment, handout, solutions = handed_out(root / "course", "5")
    names = list(solutions)
    everyone = {
        who: solutions | {"append_ones": source.replace("SOLUTION", solutions["append_ones"])}
        for who, source in HONEST.items()
    }
    forged = FORGED.replace("NAMES", repr(names))
    everyone["all forged"] = solutions | {names[0]: forged} | dict.fromkeys(names[1:], "x = 1")
    for who, answers in everyone.items():
        folder = root / "in" / who
        folder.mkdir(parents=True)
        (folder / f"{assignment}.ipynb").write_text(course.text_of(fill(handout, answers)), encoding="utf-8")
        helper = f"import torch\n{solutions['append_ones']}"
        (folder / "my_helpers.py").write_text(helper, encoding="utf-8")
    # On a busy machine PyTorch takes long to import what a compiler needs.
    settings = Settings(isolation_available(), Limits(seconds=300), jobs=2)
    found = collect([root / "in"], course.handouts_of(root / "course"))
    return {one.student: one for one in grade(found, root / "course", settings)}


@pytest.mark.parametrize("who", HONEST)
def test_honest_work_earns_all_and_no_word_of_suspicion(records, who):
    """Full marks, as from nbgrader; neither the teacher nor the student is told of anything."""
    one = records[who]
    wrong = [(each.name, each.outcome, each.headline) for each in one.exercises if each.outcome != "passed"]
    assert not wrong
    assert (one.points, one.possible) == (34, 34)
    assert one.remarks == ()


def test_forged_verdicts_earn_nothing(records):
    """One refuted row voids all that the process claimed, which no transcript confirms either."""
    one = records["all forged"]
    assert (one.points, one.possible) == (0, 34)
    assert [remark for remark in one.remarks if remark.startswith("tampered: ")]
