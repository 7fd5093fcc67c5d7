"""Broken programs as people really write them. What explain says of each is in test_mends.py."""

import importlib
from pathlib import Path

from explaining.broken import Broken

from devlab import sim

sim.enable()

HERE = Path(__file__).parent
FILES = sorted(path.stem for path in (HERE / "programs").glob("*.py"))
PROGRAMS = [
    thing
    for name in FILES
    for thing in vars(importlib.import_module(f"explaining.programs.{name}")).values()
    if isinstance(thing, Broken)
]


def test_there_are_enough_programs():
    """Forty-five at least: explain is judged by many programs."""
    assert len(PROGRAMS) >= 45
