"""Broken programs as people really write them: explain names the culprit, its origin and the mending line."""

import importlib
from pathlib import Path

import pytest
from explaining.broken import Broken

from devlab import sim
from devlab.explaining import explained

sim.enable()

HERE = Path(__file__).parent
FILES = sorted(path.stem for path in (HERE / "programs").glob("*.py"))
PROGRAMS = [
    thing
    for name in FILES
    for thing in vars(importlib.import_module(f"explaining.programs.{name}")).values()
    if isinstance(thing, Broken)
]


def outcome(program: Broken):
    """Run a broken program and return what explain says of its error."""
    try:
        program.run()
    except Exception as error:
        return explained(error)
    pytest.fail("the program did not fail")


def test_there_are_enough_programs():
    """The issue asks for forty."""
    assert len(PROGRAMS) >= 45


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.name for program in PROGRAMS])
def test_a_broken_program_is_explained(program):
    """Culprit, origin and mend, on the simulated accelerator."""
    report = outcome(program)
    assert report.culprit == program.culprit, report.text()
    assert program.origin in report.origin + report.text(), report.text()
    assert program.mend in report.mend, report.text()
