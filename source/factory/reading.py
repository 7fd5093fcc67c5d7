"""Reads a source file into a notebook whose cells know where they came from and keep their ids."""

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import jupytext
from nbformat import NotebookNode
from nbformat.v4 import new_notebook

from factory.links import cell_id, headings

KNOWN_METADATA = ("facts", "tags", "exercise", "check", "launch")
CELL = re.compile(r"# ?%%")

# Fixed, so that a rebuild on another machine or Python changes nothing.
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
        "version": "3.11",
    },
}


class SourceError(Exception):
    """A source that cannot become a notebook; the message says where, what is wrong and the cure."""


@dataclass
class Source:
    """A source file as read: its cells, and the line in the file where each begins."""

    name: str
    cells: list[NotebookNode]
    lines: list[int]

    def error(self, cell: NotebookNode, problem: str, line: int = 0) -> SourceError:
        """Say what is wrong with a cell, at its place in the file."""
        position = next(i for i, other in enumerate(self.cells) if other is cell)
        return SourceError(f"{self.name}:{self.lines[position] + line}: {problem}")

    def notebook(self) -> NotebookNode:
        """Make a notebook around the very cells of this source."""
        return new_notebook(metadata=METADATA, cells=self.cells)


def read(path: Path, root: Path) -> Source:
    """Read a py:percent file; `root` is the folder that messages name it from."""
    name = path.relative_to(root).as_posix()
    text = path.read_text(encoding="utf-8")
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if CELL.match(line)]
    if not lines:
        raise SourceError(f"{name}:1: no cell found; begin the file with `# %% [markdown]`")
    cells = jupytext.reads(text, fmt="py:percent").cells
    if len(cells) != len(lines):
        raise SourceError(
            f"{name}:1: {len(lines)} lines begin with `# %%` but {len(cells)} cells were read; "
            "begin the file with a cell, and begin no line inside a string with `# %%`"
        )
    source = Source(name, cells, lines)
    for cell in cells:
        for own in [key for key in cell.metadata if key.startswith("lines_to_")]:
            del cell.metadata[own]  # jupytext's note of unusual spacing
        _check_metadata(source, cell)
        if ranks := cell.metadata.pop("launch", ""):
            cell.source = f"%%launch {ranks}\n{cell.source}"
    _identify(path.stem, cells)
    return source


def _check_metadata(source: Source, cell: NotebookNode) -> None:
    for key, value in cell.metadata.items():
        if key not in KNOWN_METADATA:
            known = ", ".join(KNOWN_METADATA)
            raise source.error(cell, f"the header has `{key}`, which means nothing here; known: {known}")
        if key in ("facts", "tags"):
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise source.error(cell, f'write {key} as a list of words: {key}=["…", "…"]')
        elif key != "launch" and not (isinstance(value, str) and value.isidentifier()):
            raise source.error(cell, f'write {key} as the name of a function or class: {key}="…"')
        elif cell.cell_type != "code":
            raise source.error(cell, f"`{key}` belongs on a code cell")
    if not cell.source.strip():
        raise source.error(cell, "this cell is empty; fill it or delete it")
    if (found := headings(cell)) and not (len(found) == 1 and cell.source.startswith("#")):
        raise source.error(
            cell, f"links lead to cells; begin one, by `# %% [markdown]`, at each heading: {', '.join(found)}"
        )


def _identify(lesson: str, cells: list[NotebookNode]) -> None:
    """Give every cell an id that depends on itself alone, so that an inserted cell moves no other's.

    A cell that a heading begins is named by it, because links name the cell.
    """
    seen: Counter[tuple[str, str]] = Counter()
    for cell in cells:
        if name := cell.metadata.get("exercise"):
            cell.id = name
        elif name := cell.metadata.get("check"):
            cell.id = f"check_{name}"
        elif found := headings(cell):
            cell.id = cell_id(found[0])
            seen["heading", cell.id] += 1
            if (again := seen["heading", cell.id]) > 1:
                cell.id += f"-{again}"
        else:
            content = (cell.cell_type, cell.source)
            seen[content] += 1
            identity = "\0".join([lesson, *content, str(seen[content])])
            cell.id = hashlib.sha256(identity.encode()).hexdigest()[:12]
