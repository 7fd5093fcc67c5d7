"""Collects what students handed in, as a learning platform exports it, and loses nothing."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from devlab.classroom.owners import Owned, owners
from devlab.classroom.reading import doubles, notebook_of
from devlab.classroom.unpack import OTHER_ARCHIVES, File, Unreadable, files, kept_open

Cells = Mapping[str, Iterable[str]]


@dataclass(frozen=True)
class Submission:
    """One file that a student handed in for an assignment.

    `problem` says why it is not graded, and what to do; `remarks` what was guessed or noticed. Both names
    may be "" where nothing tells them.
    """

    student: str
    assignment: str
    path: str
    problem: str = ""
    remarks: tuple[str, ...] = ()
    late: bool = False
    file: File | None = field(default=None, repr=False, compare=False)

    def notebook(self) -> dict:
        """Read the notebook again, so that a large class need not be in memory; raises Unreadable."""
        return notebook_of(self.file.read())[0]


@dataclass
class Collection:
    """Everything that was found: the submissions, and the files set aside, each with the reason."""

    submissions: list[Submission]
    ignored: list[tuple[str, str]]

    @property
    def gradable(self) -> list[Submission]:
        """Return one submission for each student and assignment, those without a problem."""
        return [one for one in self.submissions if not one.problem]

    @property
    def problems(self) -> list[Submission]:
        """Return the submissions that cannot be graded as they are."""
        return [one for one in self.submissions if one.problem]

    def text(self) -> str:
        """Return what a teacher reads: how many, and each problem with what to do."""
        good, bad = self.gradable, self.problems
        students = len({one.student for one in good})
        lines = [f"{_count(good, 'notebook')} to grade, from {_count(range(students), 'student')}"]
        lines += [f"  {one.path}: {remark}" for one in good for remark in one.remarks]
        if bad:
            lines.append(f"{_count(bad, 'file')} not graded:")
            lines += [f"  {one.student or '(nobody known)'}, {one.path}: {one.problem}" for one in bad]
        if self.ignored:
            lines.append(f"{_count(self.ignored, 'file')} set aside:")
            lines += [f"  {path}: {why}" for path, why in self.ignored]
        return "\n".join(lines)


def collect(paths: Sequence[Path], cells: Cells) -> Collection:
    """Find the submissions under paths: files, folders and zips, nested as they come.

    `cells` maps each assignment to the grade ids of its cells, which tell what a notebook is for even
    where its name does not. Nothing is written, and nothing that a student wrote is run.
    """
    cells = {assignment: frozenset(ids) for assignment, ids in cells.items()}
    with kept_open():
        roots = [list(files(path)) for path in map(_inside_course, paths)]
        judged = [_judged(one, cells) for one in owners(roots, list(cells))]
    found = _settled(_told_apart(judged))
    good = {one.student for _, one in found if not one.problem}
    kept, ignored = [], []
    for owned, one in found:
        is_notebook = owned.file.name.lower().endswith(".ipynb")
        # A stray file beside a notebook is nothing to worry about; all that a student gave is.
        if one.problem and not is_notebook and (one.student in good or not owned.told):
            ignored.append((one.path, one.problem))
        else:
            kept.append(one)
    kept.sort(key=lambda one: (one.assignment, one.student, bool(one.problem), one.path))
    return Collection(kept, sorted(ignored))


def _inside_course(path: Path) -> Path:
    """Take a course's own `submitted/` where the course was named: its source is nobody's submission."""
    path = Path(path)
    return path / "submitted" if (path / "nbgrader_config.py").is_file() else path


def _judged(owned: Owned, cells: Mapping[str, frozenset[str]]) -> tuple[Owned, Submission]:
    """Read a file, to tell which assignment it is and whether it can be graded."""
    file = owned.file
    given = Submission(owned.student, owned.assignment, file.shown, late=owned.late, file=file)
    if not given.assignment and len(cells) == 1:
        (only,) = cells
        given = replace(given, assignment=only)
    if file.problem:
        return owned, replace(given, problem=file.problem)
    if not file.name.lower().endswith(".ipynb"):
        ending = Path(file.name).suffix
        advice = "unpack it and run this again" if ending in OTHER_ARCHIVES else "ask for the .ipynb file"
        return owned, replace(given, problem=f"not a notebook ({ending or 'no ending'}): {advice}")
    try:
        notebook, remarks = notebook_of(file.read())
    except Unreadable as problem:
        return owned, replace(given, problem=str(problem))
    ids = {
        cell["metadata"]["nbgrader"]["grade_id"]
        for cell in notebook["cells"]
        if "nbgrader" in cell["metadata"]
    }
    overlap = {name: len(ids & own) for name, own in cells.items()}
    best = max(overlap, key=overlap.__getitem__, default="")
    if not best or not overlap[best]:
        what = given.assignment or "the course"
        problem = f"it holds no cell of {what}: ask for the notebook that was handed out, filled in"
        return owned, replace(given, problem=problem)
    if owned.assignment and owned.assignment != best:
        remarks.append(f"named {owned.assignment}, but it is {best} by its cells")
    if twice := doubles(notebook):
        remarks.append(f"several cells are {', '.join(twice)}: the last one counts")
    if owned.late:
        remarks.append("marked late by the learning platform")
    if not owned.student:
        # Two such must not become one student.
        name = f"unnamed {hashlib.sha256(file.shown.encode('utf-8', 'replace')).hexdigest()[:6]}"
        given = replace(given, student=name)
        remarks.append("nothing in its path names the student: rename it and run this again")
    return owned, replace(given, assignment=best, remarks=tuple(remarks))


def _told_apart(found: list[tuple[Owned, Submission]]) -> list[tuple[Owned, Submission]]:
    """Give two people of one name two names, by the platform's numbers for them.

    Moodle numbers the same person anew in each assignment, so only numbers within one tell people apart.
    """
    numbers = defaultdict(set)
    for owned, one in found:
        numbers[one.student, one.assignment].add(owned.number)
    shared = {student for (student, _), several in numbers.items() if len(several) > 1}
    return [
        (
            owned,
            replace(one, student=f"{one.student} {owned.number}".strip()) if one.student in shared else one,
        )
        for owned, one in found
    ]


def _settled(found: list[tuple[Owned, Submission]]) -> list[tuple[Owned, Submission]]:
    """Take the latest where a student handed in one assignment several times; say so on each."""
    groups = defaultdict(list)
    for owned, one in found:
        if not one.problem:
            groups[one.student, one.assignment].append((owned, one))
    taken, passed_over = {}, {}
    for group in groups.values():
        _, last = max(group, key=lambda pair: (*pair[0].attempt, pair[0].file.changed, pair[1].path))
        others = [one for _, one in group if one is not last]
        if others:
            taken[id(last)] = f"the latest of {len(group)}; check that it is the one meant"
        for other in others:
            passed_over[id(other)] = f"a later one was taken: {last.path}"
    settled = []
    for owned, one in found:
        if remark := taken.get(id(one)):
            one = replace(one, remarks=(*one.remarks, remark))
        settled.append((owned, replace(one, problem=passed_over.get(id(one), one.problem))))
    return settled


def _count(things: Sequence, name: str) -> str:
    return f"{len(things)} {name}{'s' * (len(things) != 1)}"
