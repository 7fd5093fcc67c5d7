"""`devlab course DIR`: a ready nbgrader course, and the same exercises to hand out without nbgrader."""

import difflib
import json
import zipfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devlab import carried
from devlab.classroom import handout
from devlab.classroom.handout import Handout

# The time of every member of a zip file, so that the same course gives the same bytes.
NO_TIME = (1980, 1, 1, 0, 0, 0)


class CourseError(Exception):
    """A course that cannot be laid out; the message says why and what to do."""


@dataclass
class Layout:
    """What `lay_out` did: the assignments of the course, and the files kept and refused.

    `kept` are files that were there and differ from what a new course would have: the teacher's own.
    `refused` says what of these `devlab grade` cannot judge.
    """

    folder: Path
    assignments: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return what a teacher reads after the command."""
        count = len(self.assignments)
        lines = [f"{self.folder}: {count} assignment{'s' * (count > 1)} ({', '.join(self.assignments)})"]
        if self.kept:
            lines += ["left as you changed them:", *(f"  {name}" for name in self.kept)]
        lines += self.refused
        return "\n".join([*lines, f"What to type next is in {self.folder / 'README.md'}"])


def available() -> dict[str, Path]:
    """Return the solutions notebook of each lesson of the course, by the lesson's id.

    >>> available()["05_buffers"].name
    '05_buffers.ipynb'
    """
    if found := carried.files("solutions"):
        return {path.stem: path for path in found}
    raise CourseError(
        "This installation of devlab carries no solutions. Install it from its wheel or from a clone."
    )


def choose(wanted: Sequence[str], lessons: Sequence[str]) -> list[str]:
    """Return the ids of the lessons that the words name, in course order; no words name all.

    >>> choose(["5", "00_start_here"], ["00_start_here", "05_buffers"])
    ['00_start_here', '05_buffers']
    """
    chosen = set()
    for word in (part for words in wanted for part in words.split(",") if part):
        named = [one for one in lessons if word in (one, one[:2]) or word.zfill(2) == one[:2]]
        if not named:
            near = difflib.get_close_matches(word, lessons, n=1, cutoff=0.4)
            asked = f"Did you mean {near[0]}? " if near else ""
            raise CourseError(f"There is no lesson {word}. {asked}There are: {', '.join(lessons)}")
        chosen |= set(named)
    return [one for one in lessons if one in chosen] if wanted else list(lessons)


def lay_out(folder: Path, lessons: Sequence[str] = (), marks: str = "rows") -> Layout:
    """Make a folder an nbgrader course with one assignment a lesson, and fill its `handout/`.

    `lessons` are ids or numbers, by default those that the folder has, or all in a new one; `marks` is "rows"
    (part marks) or "whole". What is there already stays as it is, so a teacher's changes are safe and a
    second call adds the lessons that are named; only `handout/` is made anew from `source/`.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise CourseError(f"{folder} is a file. Name a folder, new or one that `devlab course` made.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "nbgrader_config.py").exists():
        raise CourseError(f"{folder} holds other things and is no course. Name a new folder.")
    known = available()
    layout = Layout(folder)
    there = [one for one in assignments(folder) if one in known]
    for lesson in choose(lessons, list(known)) if lessons or not there else there:
        several = (marks, *handout.MARKS)
        made = [text_of(handout.teachers(read_notebook(known[lesson]), one)) for one in several]
        _keep_or_write(layout, source_of("", lesson).as_posix(), *made)
    layout.assignments = assignments(folder)
    _keep_or_write(layout, "nbgrader_config.py", CONFIG)
    _keep_or_write(layout, "README.md", PAGE)
    for name in layout.assignments:
        hand_out(folder, name)
        try:
            Handout(read_notebook(source_of(folder, name))).require_gradable()
        except ValueError as problem:
            layout.refused.append(f"`devlab grade` will refuse {name}: {problem}")
    for page in carried.files("pages"):
        write_text(folder / "handout" / page.name, handout.without_links(page.read_text(encoding="utf-8")))
    return layout


def assignments(folder: Path) -> list[str]:
    """Return the names of a course's assignments, by what is in its `source/`."""
    paths = (Path(folder) / "source").glob("*/*.ipynb")
    return sorted(path.parent.name for path in paths if path.stem == path.parent.name)


def source_of(folder: Path, assignment: str) -> Path:
    """Return the path of an assignment's source in a course."""
    return Path(folder) / "source" / assignment / f"{assignment}.ipynb"


def handouts_of(folder: Path) -> dict[str, Handout]:
    """Return what was handed out of each assignment, by which a notebook is known whatever its name."""
    found = {}
    for assignment in assignments(folder):
        path = source_of(folder, assignment)
        try:
            found[assignment] = Handout(read_notebook(path))
            found[assignment].require_gradable()
        except ValueError as problem:
            raise CourseError(f"{path} cannot be graded: {problem}") from problem
    if not found:
        raise CourseError(f"{folder} is no course, it has no source/. Name yours: --course DIR")
    return found


def hand_out(folder: Path, assignment: str) -> None:
    """Make `handout/`'s folder of an assignment and a zip of it, from `source/`."""
    source = source_of(folder, assignment)
    try:
        text = text_of(handout.students(read_notebook(source)))
    except ValueError as problem:
        raise CourseError(f"{source} cannot be handed out: {problem}") from problem
    given = {f"{assignment}/{source.name}": text}
    if rules := carried.rules_for_helpers():
        given[f"{assignment}/{rules.name}"] = rules.read_text(encoding="utf-8")
    for name, content in given.items():
        write_text(folder / "handout" / name, content)
    write_zip(folder / "handout" / f"{assignment}.zip", given)


def write_zip(archive: Path, files: dict[str, str | bytes], programs: Collection[str] = ()) -> None:
    """Write a zip of files by their names, the same bytes each time; `programs` may be run once unpacked."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w") as zipped:
        for name, text in files.items():
            member = zipfile.ZipInfo(name, NO_TIME)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = (0o755 if name in programs else 0o644) << 16
            zipped.writestr(member, text)


def read_notebook(path: Path) -> dict:
    """Read a notebook of the teacher's; raises CourseError where it is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise CourseError(f"{path} cannot be read as a notebook: {problem}") from problem


def text_of(notebook: dict) -> str:
    """Return a notebook as nbformat writes it: a line of JSON for each line of source."""
    cells = [
        cell | {"source": "".join(cell["source"]).splitlines(keepends=True)} for cell in notebook["cells"]
    ]
    return json.dumps(notebook | {"cells": cells}, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _keep_or_write(layout: Layout, name: str, *texts: str) -> None:
    """Write the first text where no file is; a file that is another of the texts was changed by nobody."""
    path = layout.folder / name
    if not path.exists():
        write_text(path, texts[0])
    elif path.read_text(encoding="utf-8") not in texts:
        layout.kept.append(name)


def write_text(path: Path, text: str) -> None:
    """Write a file, and the folders around it, with the same ends of lines on every system."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


CONFIG = '''"""nbgrader's settings for this course. Change what you like: `devlab course` leaves it be."""

import os
import warnings

from devlab.classroom.steps import autograde_steps, generate_assignment_steps

c = get_config()  # noqa: F821  nbgrader provides it

c.CourseDirectory.course_id = "devlab"

# Every submission is judged on the CPU and two simulated accelerators: marks do not depend on the machine.
os.environ.setdefault("DEVLAB_DEVICE", "sim")
# What students pass is not your own progress.
os.environ.setdefault("DEVLAB_PROGRESS", os.devnull)

# SQLAlchemy 2.1 warns of how nbgrader 0.9 adds a submission; the submission is added all the same.
warnings.filterwarnings("ignore", message="Object of type <Submitted", module="nbgrader")

# The stub that devlab knows: calling it means "not attempted", never "wrong".
c.ClearSolutions.code_stub = {"python": 'raise NotImplementedError("your code here")'}

# Some tasks hand out a broken program in place of the stub, and nbgrader alone would leave it in comments.
c.GenerateAssignment.preprocessors = generate_assignment_steps()
# A copied or deleted cell costs neither its student nor the class anything.
c.Autograde.sanitize_preprocessors = autograde_steps()

# Seconds a cell. The first one imports PyTorch, which takes long on a cold machine.
c.Execute.timeout = 60
c.Execute.extra_arguments = ["--HistoryManager.hist_file=:memory:", "--IPKernelApp.log_level=ERROR"]
'''

PAGE = """# Your course

One assignment a lesson. Run the commands in this folder; ASSIGNMENT stands for one of the names in `source/`.
`source/` holds the tasks with their solutions: yours to change, and to keep to yourself. (devlab is open,
though: `devlab.solution(...)` shows a solution to whoever gives up.)

## Hand out

`handout/ASSIGNMENT.zip`, unpacked in `handout/ASSIGNMENT/`, is what students get: the tasks without their
solutions, and `AGENTS.md`, which asks an AI helper to explain and not to solve. Students need devlab
and JupyterLab, nothing else. `handout/questions.md` has the questions about devices that are asked most, with
short answers; hand it out, too. After a change in `source/`, `devlab course .` makes `handout/` anew.

## Mark with one command

Download all submissions from your platform, as a zip or unpacked, and

```
devlab grade DOWNLOADS --course .
```

Marks and feedback are then in `results/`; `devlab report --help` says how they go back to Moodle and Canvas.
Each submission runs in a sandbox: a broken or hostile one costs only itself.

## Or mark with nbgrader

```
nbgrader generate_assignment ASSIGNMENT
devlab collect DOWNLOADS --course .
nbgrader autograde ASSIGNMENT
nbgrader generate_feedback ASSIGNMENT
nbgrader export
```

nbgrader runs what students wrote with your rights, on your machine, one submission after another: only for
people you trust. `nbgrader validate source/ASSIGNMENT/ASSIGNMENT.ipynb` says "Success!" where the solutions
get full marks on your machine.

## Marks

A check gives a point for each row of its verdict that passes on every device, or in a course made with
`--marks whole` all its points or none. To weigh a check double, double both: the points of its cell in
`source/` (nbgrader's Create Assignment panel shows them) and its code, `2 * devlab.check(f).points`.
All is judged on the CPU and on two simulated accelerators, so that marks do not depend on your machine.
"""
