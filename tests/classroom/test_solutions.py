"""The course's own solutions earn every point from `devlab grade`, whatever rows do to judge them."""

import json

import pytest
from classroom.students import fill

from devlab import cli
from devlab.classroom import course

LESSONS = [f"{number:02}" for number in range(12)]


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_solutions_of_a_lesson_earn_every_point(tmp_path, lesson):
    """Rows pretend machines, count calls, use files and free memory: no wall may come between."""
    assignment = course.lay_out(tmp_path / "course", [lesson]).assignments[0]
    source, handout = (
        course.read(tmp_path / "course" / place / assignment / f"{assignment}.ipynb")
        for place in ("source", "handout")
    )
    facts = [(cell["metadata"].get("nbgrader", {}), "".join(cell["source"])) for cell in source["cells"]]
    solutions = {one["grade_id"]: text for one, text in facts if one.get("solution")}
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"anna_{assignment}.ipynb").write_text(json.dumps(fill(handout, solutions)))
    out = tmp_path / "out" / "r.jsonl"
    command = ["grade", str(tmp_path / "in"), "--course", str(tmp_path / "course"), "--jobs", "1"]
    assert cli.main([*command, "--out", str(out)]) == 0
    (record,) = map(json.loads, out.read_text().splitlines())
    told = {one["name"]: (one["outcome"], one["headline"]) for one in record["exercises"]}
    at_level = {"ddp_gradients"} if record["isolation"] == 2 else set()
    assert {name for name, (outcome, _) in told.items() if outcome != "passed"} <= at_level, told
    assert not any(one.startswith("tampered") for one in record["remarks"])
