"""Collects what students handed in, as a learning platform exports it, and loses nothing."""

import csv
import hashlib
import json
import platform
import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

from devlab import __version__
from devlab.classroom.download import (
    OTHER_ARCHIVES,
    File,
    Unreadable,
    attempt_of,
    files,
    is_notebook,
    notebook_of,
    printable,
    reason_of,
    without_doubles,
)
from devlab.classroom.handout import Handout
from devlab.classroom.owners import Owned, owners
from devlab.classroom.results import plain

# The most bytes that are read of a student, since a zip of some kilobytes may unpack to any size, and as how
# many bytes a smaller file counts.
MOST_BYTES, LEAST_BYTES = 2**30, 50_000
TOO_MUCH = "too much was handed in beside it to be read: ask for the notebook itself"
MOST_BESIDE = 16 << 20  # bytes of what lies beside a notebook that are there when it runs
# What `devlab.start()` shows in a student's notebook.
STARTED = re.compile(r"devlab ([\w.]{1,20}) · Python ([\w.]{1,20}) · torch ([\w.]{1,20})")
HEAD = 4096  # characters of a line that a teacher reads, since a student chooses how long a name is


@dataclass(frozen=True)
class Submission:
    """One file that a student handed in for an assignment.

    `problem` says why it is not graded, and what to do; `remarks` what was guessed or noticed. `student` and
    `assignment` may be "" where nothing tells them. `digest` changes with what was handed in and with what
    judges it; `work` says how many tasks hold more than what was handed out. `number` is the platform's for
    the student, `prefix` what the platform put before the file's name, and `beside` are the files that lie
    beside the notebook, by their paths from there.
    """

    student: str
    assignment: str
    path: str
    problem: str = ""
    remarks: tuple[str, ...] = ()
    late: bool = False
    file: File | None = field(default=None, repr=False, compare=False)
    digest: str = ""
    work: int = 0
    number: str = ""
    prefix: str = ""
    beside: tuple[tuple[str, File], ...] = field(default=(), repr=False, compare=False)

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
        return "\n".join([*(printable(line)[:HEAD] for line in lines), *self.set_aside()])

    def set_aside(self) -> list[str]:
        """Return lines that name the files set aside, none where there are none."""
        lines = [f"{_count(self.ignored, 'file')} beside the notebooks:"] if self.ignored else []
        return [
            printable(line)[:HEAD] for line in (*lines, *(f"  {path}: {why}" for path, why in self.ignored))
        ]


def collect(paths: Sequence[Path], handouts: Mapping[str, Handout]) -> Collection:
    """Find the submissions under paths: files, folders and zips, nested as they come.

    `handouts` are the assignments, whose cells tell what a notebook is for even where its name does not.
    Nothing is written, and nothing that a student wrote is run. What goes wrong over a file is that file's
    problem.
    """
    roots = [list(files(path)) for path in map(_inside_course, paths)]
    left = defaultdict(lambda: MOST_BYTES)
    # Notebooks come first: what else lies beside them may be large.
    owned = sorted(owners(roots, list(handouts)), key=lambda one: not one.file.called_notebook)
    judged = [_read_safely(one, handouts, left) for one in owned]
    found = _lay_together(_take_latest(_tell_apart(judged)))
    good = {one.student for _, one in found if not one.problem}
    kept, ignored = [], []
    for owned, one in found:
        # A stray file beside a notebook is nothing to worry about; all that a student gave is.
        told = owned.told or owned.file.problem
        if one.problem and not _is_notebooks(one) and (one.student in good or not told):
            ignored.append((one.path, one.problem))
        else:
            kept.append(one)
    kept.sort(key=lambda one: (one.assignment, one.student, bool(one.problem), one.path))
    return Collection(kept, sorted(ignored))


def _lay_together(found: list[tuple[Owned, Submission]]) -> list[tuple[Owned, Submission]]:
    """Have each notebook find the helpers and the data that its student handed in with it."""
    others = defaultdict(list)
    for owned, one in found:
        if one.problem not in ("", TOO_MUCH) and not owned.file.problem and not _is_notebooks(one):
            others[owned.key].append(owned)
    told, there = [], set()
    for owned, one in found:
        if not one.problem:
            beside = _beside(owned.file, others[owned.key])
            facts = "".join(f"{name} {file.size} {file.changed}" for name, file in beside.items())
            digest = hashlib.sha256((one.digest + facts).encode()).hexdigest() if beside else one.digest
            one = replace(one, beside=tuple(beside.items()), digest=digest)
            there.update(map(id, beside.values()))
        told.append((owned, one))
    words = "a helper or data: it is there when the notebook runs"
    return [(owned, replace(one, problem=words) if id(owned.file) in there else one) for owned, one in told]


def _beside(notebook: File, others: Sequence[Owned]) -> dict[str, File]:
    """Return the files at or below a notebook's place by their paths from there, as far as there is room.

    A file that a platform renamed has its own name again. Where Canvas counted it, as in `my_helpers-1.py`,
    the file is there without the count, too.
    """
    folder, left = notebook.parts[:-1], MOST_BESIDE
    found, counted = {}, {}
    for one in sorted(others, key=lambda owned: owned.file.size):
        left -= max(one.file.size, LEAST_BYTES)
        inside = one.file.parts[len(folder) :]
        if one.file.parts[: len(folder)] == folder and left >= 0 and not {"..", ""} & {*inside}:
            own = inside[-1].removeprefix(one.prefix)
            found["/".join((*inside[:-1], own))] = one.file
            stem, dot, ending = own.rpartition(".")
            if own != inside[-1]:
                counted[attempt_of(stem)[0] + dot + ending] = one.file
    return counted | found


def _is_notebooks(one: Submission) -> bool:
    """Tell whether a file was meant as a notebook, by its name or by what it holds."""
    return one.file.called_notebook or bool(one.digest)


def _inside_course(path: Path) -> Path:
    """Take a course's own `submitted/` where the course was named: its source is nobody's submission."""
    path = Path(path)
    return path / "submitted" if (path / "nbgrader_config.py").is_file() else path


def _read_safely(
    owned: Owned, handouts: Mapping[str, Handout], left: dict[tuple[str, ...], int]
) -> tuple[Owned, Submission]:
    """Read a file as `_read` does; `left` says how many bytes of each student's may still be read."""
    given = Submission(owned.student, owned.assignment, owned.file.shown, late=owned.late, file=owned.file)
    given = replace(given, number=owned.number, prefix=owned.prefix)
    if not given.assignment and len(handouts) == 1:
        (only,) = handouts
        given = replace(given, assignment=only)
    left[owned.key] -= max(owned.file.size, LEAST_BYTES)
    if left[owned.key] < 0:
        return owned, replace(given, problem=owned.file.problem or TOO_MUCH)
    try:
        return owned, _read(owned, given, handouts)
    except Unreadable as problem:
        return owned, replace(given, problem=str(problem))
    except Exception as problem:
        kind, reason = type(problem).__name__, reason_of(problem)
        why = f"devlab could not read it ({kind}: {reason}): look into it yourself"
        return owned, replace(given, problem=why)


def _read(owned: Owned, given: Submission, handouts: Mapping[str, Handout]) -> Submission:
    """Read a file, to tell which assignment it is and whether it can be graded."""
    file = owned.file
    if file.problem:
        return replace(given, problem=file.problem)
    called_so = file.name.lower().endswith(".ipynb")
    ending = Path(file.name).suffix
    other = f"not a notebook ({ending or 'no ending'}): "
    if not called_so and ending in OTHER_ARCHIVES:
        return replace(given, problem=f"{other}unpack it and run this again")
    content = file.read()
    if not called_so and not is_notebook(content):
        return replace(given, problem=f"{other}ask for the .ipynb file")
    given = replace(given, digest=hashlib.sha256(content).hexdigest())
    try:
        notebook, remarks = notebook_of(content)
    except Unreadable as problem:
        return replace(given, problem=str(problem))
    known = {name: handout.known(notebook) for name, handout in handouts.items()}
    # Of assignments that fit equally well, the assignment that the path names counts.
    best = max(known, key=lambda name: (known[name], name == owned.assignment), default="")
    if not best or not known[best]:
        what = given.assignment or "the course"
        problem = f"it holds no cell of {what}: ask for the notebook that was handed out, filled in"
        return replace(given, problem=problem)
    if not called_so:
        remarks.append(f"called {printable(file.name)}, though it is a notebook")
    if owned.assignment and owned.assignment != best:
        remarks.append(f"named {owned.assignment}, but it is {best} by its cells")
    remarks += handouts[best].remarks(notebook) + _compare_versions(notebook)
    if owned.late:
        remarks.append("marked late by the learning platform")
    if not owned.student:
        # Two such files must not become one student's.
        given = replace(given, student=f"unnamed {_few_letters(file.shown)}")
        remarks.append("nothing in its path names the student: rename it and run this again")
    work = handouts[best].worked_on(notebook)
    digest = hashlib.sha256((given.digest + handouts[best].digest).encode()).hexdigest()
    return replace(given, assignment=best, remarks=tuple(remarks), work=work, digest=digest)


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
    here = {"devlab": __version__, "Python": platform.python_version(), "torch": version("torch")}
    other = [name for name, its in there.items() if its.split(".")[:2] != here[name].split(".")[:2]]
    theirs, ours = (
        " and ".join(f"{name} {which[name]}" for name in sorted(other)) for which in (there, here)
    )
    return [f"made with {theirs}, graded with {ours}"] if other else []


def _few_letters(text: str) -> str:
    """Return a few letters that stand for a text, the same each time."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:6]


def _tell_apart(found: list[tuple[Owned, Submission]]) -> list[tuple[Owned, Submission]]:
    """Give two people of one name two names, by the platform's numbers for them or by where their files lie.

    They count as two people only if both handed in the same assignment: from one assignment to another Moodle
    gives the same person another number, and a teacher may keep another folder.
    """
    keys = defaultdict(set)
    for owned, one in found:
        if not one.problem or owned.told or _is_notebooks(one):
            keys[one.student, one.assignment].add(owned.key)
    shared = {student for (student, _), several in keys.items() if student and len(several) > 1}
    told = []
    for owned, one in found:
        if one.student in shared:
            which = owned.number or _few_letters("/".join(owned.key))
            one = replace(one, student=f"{one.student} {which}")
            if not owned.number and not one.problem:
                remark = "others have the same name: the letters after it tell them apart"
                one = replace(one, remarks=(*one.remarks, remark))
        told.append((owned, one))
    return told


def _take_latest(found: list[tuple[Owned, Submission]]) -> list[tuple[Owned, Submission]]:
    """Take the latest where a student handed in one assignment several times; say so on each.

    A notebook that is as it was handed out never takes the place of one with work in it.
    """
    groups = defaultdict(list)
    for owned, one in found:
        if not one.problem:
            groups[one.student, one.assignment].append((owned, one))
    taken, passed_over = {}, {}
    for group in groups.values():
        _, last = max(
            group,
            key=lambda pair: (
                bool(pair[1].work),
                *pair[0].attempt,
                pair[0].file.changed,
                pair[1].work,
                pair[1].path,
            ),
        )
        others = [one for _, one in group if one is not last]
        if others:
            blank = any(not one.work for one in others) and last.work
            which = "the latest with work in it" if blank else "the latest"
            taken[id(last)] = f"{which} of {len(group)}; check that it is the one meant"
        for other in others:
            later = "another one with work in it" if last.work and not other.work else "a later one"
            passed_over[id(other)] = f"{later} was taken: {last.path}"
    settled = []
    for owned, one in found:
        if remark := taken.get(id(one)):
            one = replace(one, remarks=(*one.remarks, remark))
        settled.append((owned, replace(one, problem=passed_over.get(id(one), one.problem))))
    return settled


def _count(things: Sequence, name: str) -> str:
    return f"{len(things)} {name}{'s' * (len(things) != 1)}"


COLUMNS = ("student", "assignment", "path", "problem", "remarks")


def write(collection: Collection, course: Path) -> Path:
    """Write each gradable notebook to `submitted/STUDENT/ASSIGNMENT/` of a course, and a list of everything.

    Each is written as UTF-8, with the time it was changed last beside it, as nbgrader reads it. What cannot
    be written is a problem of that submission, which `collection` then holds too. Returns the path
    of the list, `collected.csv`: a row for each file found, those included that cannot be graded.
    """
    collection.submissions[:] = [one if one.problem else _save(one, course) for one in collection.submissions]
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


def _save(one: Submission, course: Path) -> Submission:
    folder = course / "submitted" / one.student / one.assignment
    try:
        text = json.dumps(without_doubles(one.notebook()), indent=1)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{one.assignment}.ipynb").write_text(text + "\n", encoding="utf-8", newline="\n")
        (folder / "timestamp.txt").write_text(_time(one) + "\n", encoding="utf-8")
    except Exception as problem:
        return replace(one, problem=f"it cannot be put into {folder.name} ({reason_of(problem)})")
    return one


def _time(submission: Submission) -> str:
    changed = submission.file.changed if submission.file else 0.0
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(changed or time.time()))
