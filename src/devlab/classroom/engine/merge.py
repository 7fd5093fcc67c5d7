"""What is run for a submission: the student's cells in the student's order, between the teacher's own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from devlab.classroom.handout import Handout, grade_id_of, graded, without_checks


@dataclass(frozen=True)
class Task:
    """One exercise as the teacher's notebook has it: its points, and whether rows earn them one by one."""

    name: str
    possible: float
    by_rows: bool = True


@dataclass(frozen=True)
class Step:
    """One cell to run; `name` is the exercise that it belongs to, and that a failure is charged to, or "".

    `kind` says what it is: "setup" of the teacher's, a part of an answer ("solution"), one that is as it was
    handed out ("blank"), what a student added or changed ("own"), text in a cell that is none of code and may
    be part of an answer ("spare"), or a "check".
    """

    kind: str
    name: str
    source: str


def tasks(source: dict) -> list[Task]:
    """Return the exercises of a teacher's notebook in its order."""
    return [
        Task(_exercise(cell), facts["points"], ".points" in "".join(cell["source"]))
        for cell in source["cells"]
        if (facts := graded(cell)) and facts["grade_id"].startswith("check_")
    ]


def reference(handout: Handout) -> list[Step]:
    """Return the steps to run for the teacher's own solutions."""
    found = []
    for place, cell in enumerate(handout.source["cells"]):
        kind, name = _role(handout, place)
        if kind:
            found.append(Step(kind, name, "" if kind == "check" else "".join(cell["source"])))
    return found


def merged(handout: Handout, submission: dict) -> list[Step]:
    """Return the steps to run for a submission: its cells in its order, as nbgrader runs them.

    The teacher's cells that are no tasks come from the teacher: those above the first task before anything
    else, each other one before all that it precedes in the teacher's notebook. Of each check the last cell
    tells the place, and a check that was deleted comes at the end.
    """
    cells = submission["cells"]
    # A trial of a check, or a copy without nbgrader's mark, does not take the place of the marked cell.
    by_mark = sorted(range(len(cells)), key=lambda number: bool(grade_id_of(cells[number])))
    last = {handout.place_of(cells[number]): number for number in by_mark}
    setups = [place for place in range(len(handout.blank)) if _role(handout, place)[0] == "setup"]
    steps: list[Step] = []

    def set_up(until: float) -> None:
        while setups and setups[0] < until:
            steps.append(Step("setup", "", "".join(handout.source["cells"][setups.pop(0)]["source"])))

    set_up(min(handout.tasks, default=0))
    for number, cell in enumerate(cells):
        place = handout.place_of(cell)
        if place is None:
            steps += _own(handout, cell)
            continue
        kind, name = _role(handout, place)
        set_up(place + (kind == "setup"))
        if kind == "check":
            steps += _own(handout, {**cell, "source": without_checks(cell["source"])})
            steps += [Step("check", name, "")] if last[place] == number else []
        elif kind == "solution":
            steps.append(Step(_part(handout, cell, place), name, cell["source"]))
        elif not handout.untouched(cell, place):
            steps += _own(handout, cell)
    set_up(float("inf"))
    there = {step.name for step in steps if step.kind == "check"}
    every = (_role(handout, place) for place in sorted(handout.tasks))
    return steps + [Step("check", name, "") for kind, name in every if kind == "check" and name not in there]


def _role(handout: Handout, place: int) -> tuple[str, str]:
    """Return the kind and the exercise of a teacher's cell; the kind is "" where it is not run."""
    cell = handout.source["cells"][place]
    if cell["cell_type"] != "code":
        return "", ""
    if graded(cell):
        return ("check", _exercise(cell)) if grade_id_of(cell).startswith("check_") else ("", "")
    if place not in handout.tasks:
        return "setup", ""
    return "solution", grade_id_of(cell) if grade_id_of(cell) in handout.names else ""


def _part(handout: Handout, cell: dict, place: int) -> str:
    if handout.untouched(cell, place):
        return "blank"
    return "solution" if cell["cell_type"] == "code" else "spare"


def _own(handout: Handout, cell: dict) -> Iterator[Step]:
    """Yield the step for what a student added or changed; prose is none."""
    if cell["source"].strip():
        if cell["cell_type"] == "code":
            yield Step("own", "", cell["source"])
        elif handout.defined_in(cell):
            yield Step("spare", "", cell["source"])


def answers(steps: Sequence[Step], needs: Mapping[str, Sequence[int]]) -> dict[str, str]:
    """Return what a student wrote for each exercise, with the own cells that it needs, in their order.

    `needs` is what a submission's own process says of that: the places of steps by exercise. What is no such
    place is passed over. Where nothing was written, it is what was handed out.
    """
    found: dict[str, list[str]] = {}
    for place, step in enumerate(steps):
        if step.kind == "solution" and step.name:
            found.setdefault(step.name, []).append(step.source)
        elif step.kind in ("own", "spare"):
            for name in [name for name, places in needs.items() if place in places]:
                found.setdefault(name, []).append(step.source)
    blank = {step.name: [step.source] for step in steps if step.kind == "blank" and step.name}
    return {name: "\n\n".join(texts) for name, texts in (blank | found).items()}


def _exercise(cell: dict) -> str:
    return grade_id_of(cell).removeprefix("check_")
