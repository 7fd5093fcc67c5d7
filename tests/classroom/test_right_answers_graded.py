"""Every right answer of the banks earns its points from `devlab grade`, whatever rows do to judge it.

Walls, the seal and the recorder must not come between, and nobody may be suspected. The seed is a fresh one
each time: verdicts are about the answers, not about the numbers that they are asked for. The machine has one
GPU, as most people's have; two are what checks/test_banks.py judges on.
"""

import json
import sys
from itertools import zip_longest

import pytest
from bank import ANSWERS, handed_in, load
from classroom.students import fill, handed_out

from devlab import cli
from devlab.checks.exercise import lessons

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's")

# Its processes cannot find each other without a network of their own.
AT_LEVEL_3 = {"accumulated_gradients", "ddp_gradients", "mean_of_all", "sharded_step"}
# They import PyTorch anew, too, which takes long: beside the solution these many stand for all.
OF_THOSE = 1


def students(lesson) -> dict[str, dict[str, tuple[str, str]]]:
    """Return answer and cell by exercise for each student: the n-th has each exercise's n-th right answer."""
    columns = []
    for path in (ANSWERS / f"{one.name}.py" for one in lesson.exercises):
        cells, right = handed_in(path), [one.name for one in load(path) if one.fragment is None]
        right = right[:OF_THOSE] if path.stem in AT_LEVEL_3 else right
        columns.append([(path.stem, (name, cells[name])) for name in right])
    return {f"Rita {n}": dict(filter(None, row)) for n, row in enumerate(zip_longest(*columns))}


# Three lessons that have values, copies and memory. The others are thorough: their answers are judged in
# checks/test_banks.py, and the walls and the seal around them are these lessons'.
PARTS = [
    pytest.param(n, id=f"lessons {n}, {n + 4} and {n + 8}", marks=[pytest.mark.thorough] if n else [])
    for n in range(4)
]


@pytest.mark.parametrize("part", PARTS)
def test_right_answers_earn_every_point(tmp_path, part, monkeypatch):
    """The course's own solutions, and those of the banks, which go about it by other roads.

    Many lessons in one run: each run begins with seconds of importing PyTorch.
    """
    monkeypatch.setenv("DEVLAB_DEVICE", "sim:0")
    everyone = {}
    for lesson in lessons()[part::4]:
        assignment, handout, solutions = handed_out(tmp_path / "course", lesson.id)
        own = students(lesson) | {"Sol": {name: ("solution", cell) for name, cell in solutions.items()}}
        everyone |= {(who, assignment): row for who, row in own.items()}
        for who, row in own.items():
            file = tmp_path / "in" / who / f"{assignment}.ipynb"
            file.parent.mkdir(parents=True, exist_ok=True)
            cells = {name: cell for name, (_, cell) in row.items()}
            file.write_text(json.dumps(fill(handout, cells)), encoding="utf-8")
    exercises = {one.name for lesson in lessons()[part::4] for one in lesson.exercises}
    assert {name for row in everyone.values() for name in row} == exercises
    results = tmp_path / "out" / "r.jsonl"
    command = ["grade", str(tmp_path / "in"), "--course", str(tmp_path / "course"), "--jobs", "2"]
    assert cli.main([*command, "--out", str(results)]) == 0
    records = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    refused = []
    for record in records:
        row = everyone.pop((record["student"], record["assignment"]))
        refused += [
            f"{one['name']}, {row[one['name']][0]}: {one['headline']}"
            for one in record["exercises"]
            if one["name"] in row and one["outcome"] != "passed"
            if not (record["isolation"] == 2 and one["name"] in AT_LEVEL_3)
        ]
    assert not refused, "\n".join(refused)
    assert not everyone  # each has a record
    assert not [one for record in records for one in record["remarks"] if one.startswith("tampered")]
