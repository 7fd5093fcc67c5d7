"""Collects what students handed in, as a learning platform exports it, and loses nothing."""

import csv
import functools
import hashlib
import json
import platform
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from devlab import __version__
from devlab.classroom.course import write_text
from devlab.classroom.download import (
    OTHER_ARCHIVES,
    File,
    Unreadable,
    is_notebook,
    notebook_of,
    printable,
    reason_of,
    walk_files,
    without_doubles,
)
from devlab.classroom.handout import Handout
from devlab.classroom.owners import Owned, find_owners, split_attempt
from devlab.classroom.results import plain

# The most bytes that are read of a student, since a zip of some kilobytes may unpack to any size, and as how
# many bytes a smaller file counts.
MOST_BYTES, LEAST_BYTES = 2**30, 50_000
TOO_MUCH = "too much was handed in beside it to be read: ask for the notebook itself"
MOST_BESIDE = 16 << 20  # bytes of what lies beside a notebook that are there when it runs
# What `devlab.start()` shows in a student's notebook.
STARTED = re.compile(r"devlab ([\w.]{1,20}) · Python ([\w.]{1,20}) · torch ([\w.]{1,20})")
HEAD = 4096  # characters of a line that a teacher reads, since a student chooses how long a name is


@dataclass(eq=False)
class Submission(Owned):
    """One file that a student handed in for an assignment.

    `problem` says why it is not graded, and what to do; `remarks` what was guessed or noticed. `student` and
    `assignment` may be "" where nothing tells them. `digest` changes with what was handed in and with what
    judges it; `work` says how many tasks hold more than what was handed out. `beside` are the files that lie
    beside the notebook, by their paths from there.
    """

    problem: str = ""
    remarks: tuple[str, ...] = ()
    digest: str = ""
    work: int = 0
    beside: dict[str, File] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Return the file's path, as a teacher is shown it."""
        return self.file.shown

    @property
    def is_notebooks(self) -> bool:
        """Tell whether the file was meant as a notebook, by its name or by what it holds."""
        return self.file.called_notebook or bool(self.digest)

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
        students = {one.student for one in good}
        lines = [f"{_count(good, 'notebook')} to grade, from {_count(students, 'student')}"]
        lines += [f"  {one.path}: {remark}" for one in good for remark in one.remarks]
        if bad:
            lines.append(f"{_count(bad, 'file')} not graded:")
            lines += [f"  {one.student or '(nobody known)'}, {one.path}: {one.problem}" for one in bad]
        return "\n".join([*(printable(line)[:HEAD] for line in lines), *self.set_aside()])

    def set_aside(self, most: int | None = None) -> list[str]:
        """Return lines that name the files set aside, or the first of them, none where there are none."""
        lines = [f"{_count(self.ignored, 'file')} beside the notebooks:"] if self.ignored else []
        lines += [f"  {path}: {why}" for path, why in self.ignored[:most]]
        lines += (
            ["  and more: `devlab collect` lists all"] if self.ignored[most or len(self.ignored) :] else []
        )
        return [printable(line)[:HEAD] for line in lines]


def collect(paths: Sequence[Path], handouts: Mapping[str, Handout]) -> Collection:
    """Find the submissions under paths: files, folders and zips, nested as they come.

    `handouts` are the assignments, whose cells tell what a notebook is for even where its name does not.
    Nothing is written, and nothing that a student wrote is run. What goes wrong over a file is that file's
    problem.
    """
    roots = [list(walk_files(path)) for path in map(_inside_course, paths)]
    found = [Submission(**vars(one)) for one in find_owners(roots, list(handouts))]
    left = defaultdict(lambda: MOST_BYTES)
    # Notebooks come first: what else lies beside them may be large.
    for one in sorted(found, key=lambda one: not one.file.called_notebook):
        _read_safely(one, handouts, left)
    _tell_apart(found)
    _take_latest(found)
    _lay_together(found)
    good = {one.student for one in found if not one.problem}
    kept, ignored = [], []
    for one in found:
        # A stray file beside a notebook is nothing to worry about; all that a student gave is.
        told = one.told or one.file.problem
        stray = one.problem and not one.is_notebooks and (one.student in good or not told)
        (ignored if stray else kept).append(one)
    kept.sort(key=lambda one: (one.assignment, one.student, bool(one.problem), one.path))
    return Collection(kept, sorted((one.path, one.problem) for one in ignored))


def _lay_together(found: list[Submission]) -> None:
    """Have each notebook find the helpers and the data that its student handed in with it."""
    others = defaultdict(list)
    for one in found:
        if one.problem not in ("", TOO_MUCH) and not one.file.problem and not one.is_notebooks:
            others[one.key].append(one)
    for one in found:
        if not one.problem and (there := _find_beside(one.file, others[one.key])):
            facts = "".join(f"{name} {other.file.size} {other.file.changed}" for name, other in there.items())
            one.digest = hashlib.sha256((one.digest + facts).encode()).hexdigest()
            one.beside = {name: other.file for name, other in there.items()}
            for other in there.values():
                other.problem = "a helper or data: it is there when the notebook runs"


def _find_beside(notebook: File, others: Sequence[Submission]) -> dict[str, Submission]:
    """Return the files at or below a notebook's place by their paths from there, as far as there is room.

    A file that a platform renamed has its own name again. Where Canvas counted it, as in `my_helpers-1.py`,
    the file is there without the count, too.
    """
    folder, left = notebook.parts[:-1], MOST_BESIDE
    found, counted = {}, {}
    for one in sorted(others, key=lambda one: one.file.size):
        left -= max(one.file.size, LEAST_BYTES)
        inside = one.file.parts[len(folder) :]
        if one.file.parts[: len(folder)] == folder and left >= 0 and not {"..", ""} & {*inside}:
            own = inside[-1].removeprefix(one.prefix)
            found["/".join((*inside[:-1], own))] = one
            if own != inside[-1]:
                stem, dot, ending = own.rpartition(".")
                counted[split_attempt(stem)[0] + dot + ending] = one
    return counted | found


def _inside_course(path: Path) -> Path:
    """Take a course's own `submitted/` where the course was named: its source is nobody's submission."""
    path = Path(path)
    return path / "submitted" if (path / "nbgrader_config.py").is_file() else path


def _read_safely(one: Submission, handouts: Mapping[str, Handout], left: dict[tuple[str, ...], int]) -> None:
    """Read a file as `_read` does; `left` says how many bytes of each student's may still be read."""
    if not one.assignment and len(handouts) == 1:
        (one.assignment,) = handouts
    left[one.key] -= max(one.file.size, LEAST_BYTES)
    try:
        if one.file.problem or left[one.key] < 0:
            raise Unreadable(one.file.problem or TOO_MUCH)
        _read(one, handouts)
    except Unreadable as problem:
        one.problem = str(problem)
    except Exception as problem:
        kind, reason = type(problem).__name__, reason_of(problem)
        one.problem = f"devlab could not read it ({kind}: {reason}): look into it yourself"


def _read(one: Submission, handouts: Mapping[str, Handout]) -> None:
    """Read a file, to tell which assignment it is; raises Unreadable where it cannot be graded."""
    file, called_so = one.file, one.file.name.lower().endswith(".ipynb")
    ending = Path(file.name).suffix
    other = f"not a notebook ({ending or 'no ending'}): "
    if not called_so and ending in OTHER_ARCHIVES:
        raise Unreadable(f"{other}unpack it and run this again")
    content = file.read()
    if not called_so and not is_notebook(content):
        raise Unreadable(f"{other}ask for the .ipynb file")
    one.digest = hashlib.sha256(content).hexdigest()
    notebook, remarks = notebook_of(content)
    known = {name: handout.known(notebook) for name, handout in handouts.items()}
    # Of assignments that fit equally well, the assignment that the path names counts.
    best = max(known, key=lambda name: (known[name], name == one.assignment), default="")
    if not best or not known[best]:
        what = one.assignment or "the course"
        raise Unreadable(f"it holds no cell of {what}: ask for the notebook that was handed out, filled in")
    if not called_so:
        remarks.append(f"called {printable(file.name)}, though it is a notebook")
    if one.assignment not in ("", best):
        remarks.append(f"named {one.assignment}, but it is {best} by its cells")
    remarks += handouts[best].remarks(notebook) + _compare_versions(notebook)
    if one.late:
        remarks.append("marked late by the learning platform")
    if not one.student:
        # Two such files must not become one student's.
        one.student = f"unnamed {_few_letters(file.shown)}"
        remarks.append("nothing in its path names the student: rename it and run this again")
    one.assignment, one.remarks = best, tuple(remarks)
    one.work = handouts[best].worked_on(notebook)
    one.digest = hashlib.sha256((one.digest + handouts[best].digest).encode()).hexdigest()


def _compare_versions(notebook: dict) -> list[str]:
    """Return a remark where a student worked with another Python, torch or devlab than is here.

    The notebook tells: Jupyter notes all parts of its kernel's version, and `devlab.start()` shows all three.
    """
    there, metadata = {}, notebook.get("metadata")
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    noted = re.match(r"[\d.]{1,20}", str(info.get("version"))) if isinstance(info, dict) else None
    if noted and noted[0].count(".") > 1:  # the hand-out has two parts, and no kernel's
        there["Python"] = noted[0]
    for cell in notebook["cells"]:
        if "devlab.start" in cell["source"] and cell.get("outputs"):
            shown = STARTED.search(json.dumps(cell["outputs"], ensure_ascii=False))
            there |= zip(("devlab", "Python", "torch"), shown.groups(), strict=True) if shown else ()
    here = {"devlab": __version__, "Python": platform.python_version(), "torch": _version_of("torch")}
    other = [name for name, its in there.items() if its.split(".")[:2] != here[name].split(".")[:2]]
    theirs, ours = (
        " and ".join(f"{name} {which[name]}" for name in sorted(other)) for which in (there, here)
    )
    return [f"made with {theirs}, graded with {ours}"] if other else []


_version_of = functools.cache(version)  # looked up once, and not for each notebook


def _few_letters(text: str) -> str:
    """Return a few letters that stand for a text, the same each time."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:6]


def _tell_apart(found: list[Submission]) -> None:
    """Give two people of one name two names, by the platform's numbers for them or by where their files lie.

    They count as two people only if both handed in the same assignment: from one assignment to another Moodle
    gives the same person another number, and a teacher may keep another folder.
    """
    keys = defaultdict(set)
    for one in found:
        if not one.problem or one.told or one.is_notebooks:
            keys[one.student, one.assignment].add(one.key)
    shared = {student for (student, _), several in keys.items() if student and len(several) > 1}
    for one in found:
        if one.student in shared:
            one.student += f" {one.number or _few_letters('/'.join(one.key))}"
            if not one.number and not one.problem:
                one.remarks += ("others have the same name: the letters after it tell them apart",)


def _take_latest(found: list[Submission]) -> None:
    """Take the latest where a student handed in one assignment several times; say so on each.

    A notebook that is as it was handed out never takes the place of one with work in it.
    """
    groups = defaultdict(list)
    for one in found:
        if not one.problem:
            groups[one.student, one.assignment].append(one)
    for group in groups.values():
        group.sort(key=lambda one: (bool(one.work), *one.attempt, one.file.changed, one.work, one.path))
        *others, last = group
        if others:
            blank = last.work and not others[0].work
            which = "the latest with work in it" if blank else "the latest"
            last.remarks += (f"{which} of {len(group)}; check that it is the one meant",)
        for other in others:
            later = "another one with work in it" if last.work and not other.work else "a later one"
            other.problem = f"{later} was taken: {last.path}"


def _count(things: Sized, name: str) -> str:
    return f"{len(things)} {name}{'s' * (len(things) != 1)}"


COLUMNS = ("student", "assignment", "path", "problem", "remarks")


def write(collection: Collection, course: Path) -> Path:
    """Write each gradable notebook to `submitted/STUDENT/ASSIGNMENT/` of a course, and a list of everything.

    Each is written as UTF-8, with the helpers and data that it needs and the time it was changed last beside
    it, as nbgrader reads it. What cannot be written is a problem of that submission, which `collection` then
    holds too. Returns the path of the list, `collected.csv`: a row for each file found.
    """
    for one in collection.gradable:
        _save(one, course)
    listed = course / "collected.csv"
    with listed.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(COLUMNS)
        rows = [
            (one.student, one.assignment, one.path, one.problem, "; ".join(one.remarks))
            for one in collection.submissions
        ]
        rows += [("", "", path, why, "") for path, why in collection.ignored]
        table.writerows(map(plain, row) for row in rows)
    return listed


def _save(one: Submission, course: Path) -> None:
    folder = course / "submitted" / one.student / one.assignment
    try:
        text = json.dumps(without_doubles(one.notebook()), indent=1)
        for name, file in one.beside.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(file.read())
        write_text(folder / f"{one.assignment}.ipynb", text + "\n")
        write_text(folder / "timestamp.txt", one.file.date + "\n")
    except Exception as problem:
        one.problem = f"it cannot be put into {folder.name} ({reason_of(problem)})"
