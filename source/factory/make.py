"""What each source becomes: which notebooks, and their text to the last byte."""

import re
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from devlab.carried import notebook
from factory import drawings, exercises, links, recorded, running
from factory.reading import SourceError, read

LESSON = "lessons"
KINDS = {LESSON: ("notebooks",), "exercises": ("solutions", "exercises")}
NAME = re.compile(r"\d\d_[a-z0-9_]+")


def sources(root: Path) -> list[Path]:
    """List every source file, lessons first, in the order of the course."""
    found = [path for kind in KINDS for path in sorted((root / "source" / kind).glob("*.py"))]
    for path in found:
        if not NAME.fullmatch(path.stem):
            raise SourceError(f"{path.relative_to(root).as_posix()}: name it NN_name.py, as in 05_buffers.py")
    return found


def targets(source: Path) -> list[str]:
    """Name the notebooks that a source becomes, as paths from the root."""
    return [notebook(folder, source.stem) for folder in KINDS[source.parent.name]]


def make(source: Path, root: Path, points: exercises.Points = exercises.rows_of) -> dict[str, str]:
    """Make the notebooks of one source: the text of each, by its path from the root. Nothing is written."""
    cells = read(source, root)
    if source.parent.name == LESSON:
        _refuse_exercises(cells)
    else:
        exercises.mark(cells, points)
    executed = targets(source)[0]
    folder = (root / executed).parent
    folder.mkdir(exist_ok=True)
    strict = source.parent.name != LESSON  # a lesson may show a check that fails, a solution may not
    notebook = running.run(cells, folder, strict=strict, previous=_existing(root / executed))
    made = [notebook] if source.parent.name == LESSON else [notebook, exercises.cleared(notebook)]
    return {target: _text(notebook, target) for target, notebook in zip(targets(source), made, strict=True)}


def orphans(root: Path) -> list[Path]:
    """List notebooks of the course whose source is gone; other files in those folders are left alone."""
    wanted = {target for source in sources(root) for target in targets(source)}
    folders = [folder for folders in KINDS.values() for folder in folders]
    found = [path for folder in folders for path in sorted((root / folder).glob("*.ipynb"))]
    return [p for p in found if NAME.fullmatch(p.stem) and p.relative_to(root).as_posix() not in wanted]


def _refuse_exercises(cells) -> None:
    for cell in cells.cells:
        if {"exercise", "check"} & set(cell.metadata):
            raise cells.error(cell, "a lesson only shows; put exercises into source/exercises")


def _existing(path: Path) -> NotebookNode | None:
    try:
        return nbformat.read(path, as_version=4)
    except (OSError, nbformat.reader.NotJSONError):
        return None  # missing or damaged: made afresh


def _text(notebook: NotebookNode, target: str) -> str:
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            prose = links.settled(cell.source, Path(target).parent.name)
            cell.source = drawings.drawn(recorded.tabled(prose))
    nbformat.validate(notebook)
    return nbformat.writes(notebook) + "\n"
