"""Makes the teacher's and the students' copy of a lesson's exercises, and knows their cells again.

nbgrader starts from the teacher's copy.
"""

import copy
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
HIDDEN = "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"
LINK = re.compile(r"\[([^\]]+)\]\(\.\./notebooks/(\d\d)_\w+\.ipynb(#[^)\s]*)?\)")

# nbgrader takes the value of a check's cell, where it is a number, as the points of that check.
MARKS = {"rows": "devlab.check({name}).points", "whole": "{points} * devlab.check({name}).passed"}


def teachers(notebook: dict, marks: str = "rows") -> dict:
    """Return a solutions notebook as the source of an assignment: nothing executed, the marks chosen.

    `marks` is "rows", a point for each row that passes, or "whole", all points or none.
    """
    notebook = copy.deepcopy(notebook)
    for cell in notebook["cells"]:
        _set_back(cell)
        if cell["cell_type"] == "markdown":
            cell["source"] = without_links("".join(cell["source"]))
        elif facts := grade_facts(cell):
            name = facts["grade_id"].removeprefix("check_")
            cell["source"] = MARKS[marks].format(name=name, points=facts["points"])
    return notebook


def students(notebook: dict) -> dict:
    """Return an assignment's source as students get it: solutions cleared, the checks' cells locked."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook["cells"]:
        _set_back(cell)
        facts = cell["metadata"].get("nbgrader", {})
        if facts.get("solution"):
            cell["source"] = clear_solutions("".join(cell["source"]))
            cell["metadata"]["deletable"] = False
        elif facts.get("grade"):  # as nbgrader's ClearHiddenTests does
            cell["source"] = _clear("".join(cell["source"]), *HIDDEN)
        if facts.get("locked"):
            cell["metadata"] |= {"deletable": False, "editable": False}
    return notebook


def grade_facts(cell: dict) -> dict | None:
    """Return nbgrader's facts about a cell that gives points, None for any other."""
    facts = cell["metadata"].get("nbgrader", {})
    return facts if facts.get("grade") else None


def clear_solutions(source: str) -> str:
    """Return code as students get it: the stub, or a broken program, in place of each solution.

    It is what nbgrader's ClearSolutions makes of it, and devlab's step after that one. Raises ValueError
    where a mark is missing its partner: half a solution must never be handed out.

    >>> print(clear_solutions("def f():\\n    ### BEGIN SOLUTION\\n    return 1\\n    ### END SOLUTION"))
    def f():
        raise NotImplementedError("your code here")
    """
    return revive_programs(_clear(source, BEGIN, END, STUB))


def _clear(source: str, begin: str, end: str, stub: str = "") -> str:
    kept, inside = [], False
    for line in source.split("\n"):
        if begin in line or end in line:
            if inside is (begin in line):
                raise ValueError(f"{begin} and {end} do not come in pairs")
            inside = not inside
            if inside and stub:
                kept.append(line[: len(line) - len(line.lstrip())] + stub)
        elif not inside:
            kept.append(line)
    if inside:
        raise ValueError(f"{begin} has no {end} after it")
    return "\n".join(kept)


def _set_back(cell: dict) -> None:
    if cell["cell_type"] == "code":
        cell["outputs"], cell["execution_count"] = [], None


def without_links(text: str) -> str:
    """Name a lesson's section where the course links to it: a student's folder has no lessons beside it.

    >>> without_links("[Register it](../notebooks/05_buffers.ipynb#Register-it)")
    'Register it (lesson 05)'
    """

    def named(link: re.Match) -> str:
        words, lesson, anchor = link.groups()
        return f"{words} (lesson {lesson})" if anchor else words

    return LINK.sub(named, text)


STUB = 'raise NotImplementedError("your code here")'
BEGIN_BROKEN, END_BROKEN = "### BEGIN BROKEN", "### END BROKEN"


def revive_programs(source: str) -> str:
    """Return cleared code with each broken program in place of the stub that follows it.

    nbgrader knows no such region: where it clears alone, students read the program as comments above the
    stub. Raises ValueError where a mark has no partner, a line is no comment, or no stub follows.

    >>> print(revive_programs('''def f(x):
    ...     ### BEGIN BROKEN
    ...     # return x.cuda()
    ...     ### END BROKEN
    ...     raise NotImplementedError("your code here")'''))
    def f(x):
        return x.cuda()
    """
    kept, inside, stub_follows = [], False, False
    for line in source.split("\n"):
        mark = line.strip()
        if stub_follows:
            if mark != STUB:
                raise ValueError(f"{END_BROKEN} has no solution right below it")
            stub_follows = False
        elif mark in (BEGIN_BROKEN, END_BROKEN):
            if inside is (mark == BEGIN_BROKEN):
                raise ValueError(f"{BEGIN_BROKEN} and {END_BROKEN} do not come in pairs")
            inside, stub_follows = not inside, mark == END_BROKEN
        elif inside:
            if not mark.startswith("#"):
                raise ValueError(f"a line of the broken program is no comment: {mark or 'an empty line'}")
            kept.append(re.sub(r"# ?", "", line, count=1))
        else:
            kept.append(line)
    if inside or stub_follows:
        raise ValueError(f"{BEGIN_BROKEN} has no {END_BROKEN}, or {END_BROKEN} no solution below it")
    return "\n".join(kept)


CHECK = re.compile(r"(?:devlab\s*\.\s*)?check\(\s*(\w+)\s*\)(?:\s*\.\s*points)?\s*;?")
# The cell of a check, whose points may be weighed by plain numbers.
CHECKED = re.compile(r"(?:devlab\.)?check\(\w+\)(\.points|\.passed)?")
WORTH = re.compile(rf"[\d\s.*/+()-]*{CHECKED.pattern}[\d\s.*/+()-]*;?")
LONGEST = 500  # characters of a remark: a student's grade ids are whatever they made them
# Lines that say nothing to Python: a comment below the stub is no answer.
SILENT = re.compile(r"^[ \t]*(?:#.*)?\n", re.MULTILINE)


class Handout:
    """An assignment's cells: the teacher's `source`, what students got instead, and the `names` of tasks.

    Raises ValueError where the source marks half a solution.
    """

    def __init__(self, source: dict):
        self.source = source
        self.blank = [_text(cell) for cell in students(source)["cells"]]
        checks = [grade_id_of(cell) for cell in source["cells"] if grade_facts(cell)]
        self.names = [name[6:] for name in dict.fromkeys(checks) if name.startswith("check_")]
        # A change of what is run, or of what it is worth, changes this.
        code = [cell for cell in source["cells"] if cell["cell_type"] == "code"]
        facts = [("code", _text(cell), cell["metadata"].get("nbgrader")) for cell in code]
        self.digest = hashlib.sha256(repr(facts).encode()).hexdigest()
        self.tasks = {place for place, cell in enumerate(source["cells"]) if is_task(cell)}
        self.grade_ids, self.ids, self.texts = {}, {}, {}
        for place, cell in enumerate(source["cells"]):
            self.texts.setdefault(self.blank[place].strip(), place)
            self.texts.setdefault(_text(cell).strip(), place)
            if grade_id_of(cell):
                self.grade_ids[grade_id_of(cell)] = place
            if isinstance(cell.get("id"), str):
                self.ids[cell["id"]] = place
        names = "|".join(map(re.escape, self.names)) or "(?!)"
        self._defines = re.compile(rf"^[ \t>.]*(?:async +)?(?:def|class)\s+({names})\b", re.MULTILINE)

    def require_gradable(self) -> None:
        """Raise ValueError where `devlab grade` would leave a cell with points out, or misread its points."""
        for cell in self.source["cells"]:
            name = grade_id_of(cell)
            if grade_facts(cell) and not (name.startswith("check_") and WORTH.fullmatch(_text(cell).strip())):
                raise ValueError(
                    f"the cell {name} gives points and is no plain `devlab.check(...)`, the only kind that "
                    "devlab judges; mark this assignment with nbgrader, or take the cell's points away"
                )

    def place_of(self, cell: dict) -> int | None:
        """Return which of the teacher's cells a student's cell is, None for one that is the student's own.

        It is known by its grade id, else by its own id, by its text, or as the call of a check.
        """
        place = self.grade_ids.get(grade_id_of(cell))
        if place is None:
            place = self.ids.get(cell.get("id"))
        text = cell["source"].strip()
        if place is None and text:
            place = self.texts.get(text)
        if place is None and cell["cell_type"] == "code" and (called := CHECK.fullmatch(text)):
            place = self.grade_ids.get(f"check_{called[1]}")
        return place

    def defined_in(self, cell: dict) -> set[str]:
        """Return the tasks whose function or class a cell defines, as far as its text tells."""
        return set(self._defines.findall(cell["source"]))

    def untouched(self, cell: dict, place: int) -> bool:
        """Tell whether a cell says to Python what was handed out in its place, and no more."""
        return _significant_lines(cell["source"]) == _significant_lines(self.blank[place])

    def answers(self, notebook: dict) -> Iterator[tuple[str, dict, int | None]]:
        """Yield (task, cell, place) for each cell that may hold an answer, or a part of one."""
        for cell in notebook["cells"]:
            place = self.place_of(cell)
            if place in self.tasks:
                facts = self.source["cells"][place]
                if not grade_facts(facts):
                    yield grade_id_of(facts), cell, place
            elif place is None:
                for name in sorted(self.defined_in(cell)):
                    yield name, cell, None

    def known(self, notebook: dict) -> int:
        """Return how many of the tasks' cells a notebook holds: by this an assignment is told from others."""
        held = {place for cell in notebook["cells"] if (place := self.place_of(cell)) in self.tasks}
        return len(held | {name for name, _, place in self.answers(notebook) if place is None})

    def worked_on(self, notebook: dict) -> int:
        """Return how many tasks hold something that was not handed out."""
        return len(
            {
                name
                for name, cell, place in self.answers(notebook)
                if not self.untouched(cell, self.grade_ids.get(name, 0) if place is None else place)
            }
        )

    def remarks(self, notebook: dict) -> list[str]:
        """Return what a teacher should know of cells that are missing, split, retyped or from elsewhere."""
        held, retyped, bare, other = defaultdict(list), [], [], []
        for cell in notebook["cells"]:
            place, grade_id = self.place_of(cell), grade_id_of(cell)
            if grade_id and grade_id not in self.grade_ids:
                other.append(grade_id)
            if place not in self.tasks:
                continue
            task = self.source["cells"][place]
            name = grade_id_of(task)
            held[name].append(cell)
            if not grade_id:
                bare.append(name)
            if cell["cell_type"] != task["cell_type"]:
                retyped.append(f"{name} as {cell['cell_type']}")
            elif grade_facts(task) and not self._same_check(cell, task):
                other.append(name)
        elsewhere = {name for name, _, place in self.answers(notebook) if place is None}
        names = [grade_id_of(self.source["cells"][place]) for place in sorted(self.tasks)]
        lost = [name for name in names if name not in held and name not in elsewhere]
        split = [name for name, cells in held.items() if len(cells) > 1]
        beside = [name for name in self.names if name in elsewhere]
        told = (
            (lost, "cells are missing: {}"),
            (split, "several cells are {}: all of them run, in their order"),
            (retyped, "cells changed their type and are read as code: {}"),
            (bare, "cells lost nbgrader's marks, and were known by their ids or texts: {}"),
            (beside, "answers stand in cells of the student's own: {}"),
            (other, "cells are not of this hand-out, perhaps of an older one: {}"),
        )
        return [words.format(", ".join(dict.fromkeys(names)))[:LONGEST] for names, words in told if names]

    def _same_check(self, cell: dict, task: dict) -> bool:
        """Tell whether a check's cell calls what the teacher's does: for points, or to read the verdict."""
        calls = [CHECK.fullmatch(text.strip()) for text in (cell["source"], _text(task))]
        if all(calls):
            return calls[0][1] == calls[1][1]
        return _significant_lines(cell["source"]) == _significant_lines(_text(task))


def without_checks(source: str) -> str:
    """Return what a cell holds beside calls of checks: what a student merged into it is theirs.

    >>> without_checks("devlab.check(f).points\\n\\ndef g(): pass").strip()
    'def g(): pass'
    """
    return "\n".join(line for line in source.split("\n") if not CHECK.fullmatch(line.strip()))


def is_task(cell: dict) -> bool:
    """Tell whether a teacher's cell is a task's: what students fill in, or a check that gives points."""
    facts = cell["metadata"].get("nbgrader", {})
    return bool(facts.get("solution") or facts.get("grade"))


def grade_id_of(cell: dict) -> str:
    """Return nbgrader's name for a cell, "" where it has none."""
    return cell["metadata"].get("nbgrader", {}).get("grade_id", "")


def _significant_lines(source: str) -> str:
    lines = (line.rstrip() for line in SILENT.sub("", source + "\n").split("\n"))
    return "\n".join(line for line in lines if line)


def _text(cell: dict) -> str:
    return "".join(cell["source"])
