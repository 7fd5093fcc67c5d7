"""Coverage: every fact is taught in a lesson's cell, and needed by an exercise where the course says so."""

import tomllib
from pathlib import Path

import nbformat
import pytest

from devlab.checks.registry import exercises

ROOT = Path(__file__).resolve().parents[1]
FACTS = tomllib.loads((ROOT / "source" / "facts.toml").read_text("utf-8"))
LESSONS = {path.stem[:2]: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
every_fact = pytest.mark.parametrize("fact", FACTS)


def taught_in(lesson: str) -> set[str]:
    """Return the ids that the cells of a lesson carry."""
    cells = nbformat.read(LESSONS[lesson], as_version=4).cells
    return {fact for cell in cells for fact in cell.metadata.get("facts", [])}


@every_fact
def test_fact_is_taught(fact):
    """Some cell of the named lesson carries the fact."""
    lesson = FACTS[fact]["taught"]
    assert fact in taught_in(lesson), (
        f"no cell of source/lessons/{lesson}_*.py has {fact}: {FACTS[fact]['fact']}"
    )


@every_fact
def test_fact_is_needed(fact):
    """Some exercise of the named lesson needs the fact, once that lesson is written."""
    lesson = FACTS[fact].get("needed")
    needing = [one.name for one in exercises() if fact in one.facts]
    if lesson in LESSONS:
        assert needing, f"no exercise of lesson {lesson} has {fact}: {FACTS[fact]['fact']}"


def test_every_id_is_a_known_fact():
    """A mistyped id would be covered by nobody."""
    used = {fact for one in exercises() for fact in one.facts}
    for lesson in LESSONS:
        used |= taught_in(lesson)
    assert used <= set(FACTS)
