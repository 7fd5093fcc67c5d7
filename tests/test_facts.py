"""Coverage: every fact is taught in a lesson's cell, and needed by an exercise where the course says so."""

import tomllib
from pathlib import Path

import nbformat

from devlab.checks.exercise import exercises

ROOT = Path(__file__).resolve().parents[1]
FACTS = tomllib.loads((ROOT / "source" / "facts.toml").read_text("utf-8"))
LESSONS = {path.stem[:2]: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
# The ids of the curriculum, group by group, so that none is lost from facts.toml.
GROUPS = {
    group: int(count)
    for group, count in zip("ABCDEFGHIJKLMNPQRTUVWXYZ", "454469486655678954556571", strict=True)
}


def taught() -> dict[str, list[str]]:
    """Return for each fact the lessons with cells that carry it, a lesson as often as it has such cells."""
    found: dict[str, list[str]] = {}
    for number, path in LESSONS.items():
        for cell in nbformat.read(path, as_version=4).cells:
            for fact in cell.metadata.get("facts", []):
                found.setdefault(fact, []).append(number)
    return found


def needed() -> dict[str, list[str]]:
    """Return for each fact the exercises that need it."""
    found: dict[str, list[str]] = {}
    for exercise in exercises():
        for fact in exercise.facts:
            found.setdefault(fact, []).append(exercise.name)
    return found


def test_every_fact_is_covered():
    """Prints the table of coverage (pytest -s shows it), and names what is missing."""
    cells, names = taught(), needed()
    print(f"\n{'fact':<6}{'lesson':<8}{'cells':<7}needed by")
    for fact, entry in FACTS.items():
        asked = ", ".join(names.get(fact, [])) or ("-" if "needed" not in entry else "MISSING")
        lesson = entry["taught"]
        print(f"{fact:<6}{lesson:<8}{cells.get(fact, []).count(lesson) or 'MISSING':<7}{asked}")
    untaught = [
        f"{fact} is taught by no cell of lesson {entry['taught']}: {entry['fact']}"
        for fact, entry in FACTS.items()
        if entry["taught"] not in cells.get(fact, [])
    ]
    unneeded = [
        f"{fact} is needed by no exercise: {entry['fact']}"
        for fact, entry in FACTS.items()
        if "needed" in entry and fact not in names
    ]
    assert not untaught + unneeded, "\n".join(untaught + unneeded)


def test_no_fact_of_the_curriculum_is_lost():
    """The file has each id, once, and no other."""
    assert sorted(FACTS) == sorted(f"{group}{n + 1}" for group, count in GROUPS.items() for n in range(count))


def test_every_id_is_a_known_fact():
    """A mistyped id would be covered by nobody."""
    assert set(taught()) | set(needed()) <= set(FACTS)
