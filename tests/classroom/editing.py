"""What editors and students do to a notebook: each edit changes one, as an accident or a habit would."""

import copy
import json
import random
from collections.abc import Callable

from classroom.students import own_cell

Edit = Callable[[dict, str, random.Random], None]


def task(notebook: dict, name: str) -> int:
    """Return where the cell of a task stands, the first of several; -1 where there is none."""
    for place, cell in enumerate(notebook["cells"]):
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == name:
            return place
    return -1


def text(cell: dict) -> str:
    """Return what a cell holds."""
    return "".join(cell["source"])


def _part(cell: dict, source: str, rng: random.Random) -> dict:
    """Return a part of a cell as JupyterLab makes it: the same metadata under a new id."""
    return copy.deepcopy(cell) | {"source": source, "id": f"{rng.getrandbits(32):08x}"}


def _in_parts(notebook: dict, name: str, sources: list[str], rng: random.Random) -> None:
    place = task(notebook, name)
    if place >= 0:
        cell = notebook["cells"][place]
        parts = [_part(cell, source, rng) for source in sources]
        notebook["cells"][place : place + 1] = [cell | {"source": sources[0]}, *parts[1:]]


def _blocks(source: str) -> list[str]:
    """Return the blocks of a cell: lines that begin at the margin, with what is indented below each."""
    blocks: list[str] = []
    for line in source.splitlines(keepends=True):
        opens = line.strip() and not line.startswith((" ", "\t", ")", "#"))
        decorated = bool(blocks) and blocks[-1].rstrip().rpartition("\n")[2].startswith("@")
        if (opens and not decorated) or not blocks:
            blocks.append(line)
        else:
            blocks[-1] += line
    return blocks


def split(notebook, name, rng):
    """Split between two statements, or with a comment alone in a part."""
    place = task(notebook, name)
    if place < 0:
        return
    source = text(notebook["cells"][place])
    blocks = _blocks(source)
    cut = rng.randrange(len(blocks) + 1)
    first, last = "".join(blocks[:cut]), "".join(blocks[cut:])
    _in_parts(notebook, name, [first or "# my answer:\n", last or "# done\n"], rng)


def split_thrice(notebook, name, rng):
    """A comment, a helper that nobody calls, the answer, a comment."""
    place = task(notebook, name)
    if place >= 0:
        source = text(notebook["cells"][place])
        _in_parts(notebook, name, ["# first\n", "def unused(x):\n    return x\n", source, "# last"], rng)


def split_anywhere(notebook, name, rng):
    """Split at any line, which mostly breaks the code."""
    place = task(notebook, name)
    if place >= 0:
        lines = text(notebook["cells"][place]).splitlines(keepends=True)
        cut = rng.randrange(len(lines) + 1)
        _in_parts(notebook, name, ["".join(lines[:cut]), "".join(lines[cut:])], rng)


def retype(notebook, name, rng):
    """Press M or R in command mode."""
    place = task(notebook, name)
    if place >= 0:
        cell = notebook["cells"][place]
        cell["cell_type"] = rng.choice(["markdown", "raw"])
        for key in ("outputs", "execution_count"):
            cell.pop(key, None)


def copy_below(notebook, name, rng):
    """Copy the cell and paste it, somewhere below."""
    place = task(notebook, name)
    if place >= 0:
        cell = notebook["cells"][place]
        at = rng.randrange(place + 1, len(notebook["cells"]) + 1)
        notebook["cells"].insert(at, _part(cell, text(cell), rng))


def keep_the_stub(notebook, name, rng):
    """Write the answer into a cell of one's own, above or below the stub, which stays."""
    place = task(notebook, name)
    if place >= 0:
        cell = notebook["cells"][place]
        written, cell["source"] = text(cell), text(notebook["blank"][name])
        notebook["cells"].insert(place + rng.randrange(2), own_cell(written, rng.getrandbits(32)))


def paste_the_stub(notebook, name, rng):
    """Paste the stub again below the answer, to start anew one day."""
    place = task(notebook, name)
    if place >= 0:
        cell = notebook["cells"][place]
        stub = text(notebook["blank"][name]) + rng.choice(["", "\n# later", "\n\n"])
        notebook["cells"].insert(place + 1, _part(cell, stub, rng))


def move(notebook, name, rng):
    """Move the answer's cell, or its check, anywhere."""
    place = task(notebook, rng.choice([name, f"check_{name}"]))
    if place >= 0:
        cell = notebook["cells"].pop(place)
        notebook["cells"].insert(rng.randrange(len(notebook["cells"]) + 1), cell)


def delete_check(notebook, name, rng):
    """Delete the check's cell."""
    place = task(notebook, f"check_{name}")
    if place >= 0:
        del notebook["cells"][place]


def unmark(notebook, name, rng):
    """Lose nbgrader's metadata, and perhaps the cell's id."""
    for one in (name, f"check_{name}"):
        place = task(notebook, one)
        if place >= 0:
            notebook["cells"][place]["metadata"] = {}
            if rng.random() < 0.5:
                notebook["cells"][place].pop("id", None)


def extract(notebook, name, rng):
    """Move imports and helpers into a cell of one's own, above the answer or at the very end."""
    place = task(notebook, name)
    if place >= 0:
        blocks = _blocks(text(notebook["cells"][place]))
        if len(blocks) > 1:
            notebook["cells"][place]["source"] = blocks[-1]
            at = rng.choice([place, 0, len(notebook["cells"])])
            notebook["cells"].insert(at, own_cell("".join(blocks[:-1]), rng.getrandbits(32)))


def try_out(notebook, name, rng):
    """Try things in cells of one's own, some of which fail."""
    place = task(notebook, name)
    trials = [
        "1 / 0",
        f"print({name})",
        "import torch\nx = torch.ones(3)",
        "%who",
        "import math\nhelper = math.pi",
    ]
    cell = own_cell(rng.choice(trials), rng.getrandbits(32))
    notebook["cells"].insert(max(place, 0) + rng.randrange(3), cell)


def merge_with_check(notebook, name, rng):
    """Merge the answer with the cell below it, mostly a check."""
    place = task(notebook, name)
    if 0 <= place < len(notebook["cells"]) - 1:
        below = notebook["cells"].pop(place + 1)
        cell = notebook["cells"][place]
        cell["source"] = text(cell) + "\n\n" + text(below)


def merge_with_above(notebook, name, rng):
    """Merge the answer into the nearest code cell above it, whose metadata stays."""
    place = task(notebook, name)
    above = [at for at, cell in enumerate(notebook["cells"][: max(place, 0)]) if cell["cell_type"] == "code"]
    if above:
        cell = notebook["cells"].pop(place)
        upper = notebook["cells"][above[-1]]
        upper["source"] = text(upper) + "\n\n" + text(cell)


def dress(notebook, name, rng):
    """Add what IPython takes and Python does not, comments, and Windows' line ends."""
    place = task(notebook, name)
    if place >= 0:
        cell = notebook["cells"][place]
        said = rng.choice(["%%time\n", "# größer\n", "", "\n\n"]) + text(cell) + rng.choice(["", "\n# …\n"])
        cell["source"] = rng.choice([said, said.replace("\n", "\r\n"), said.splitlines(keepends=True)])


ASIDES = (
    "files = !ls\nmany = len(files)\n",
    "here = %pwd\nimport os\nassert os.path.exists(here)\n",
    "%timeit -n 1 -r 1 \\\n  sum(range(9))\n!ls \\\n  -la\n",
    "took = %timeit -o -q -n 1 -r 1 sum(range(9))\nassert took.best >= 0\n",
    'seven = (7\n% 8)\nwords = """\n%s\n!ls\nwhy?\n"""\n%who\n',
    "import asyncio\nasync def later():\n    return 3\nassert await asyncio.create_task(later()) == 3\n",
    "from functools import partial\nprint = partial(print, flush=True)\n",
    "import torch\nold = torch.Tensor.__repr__\ntorch.Tensor.__repr__ = lambda self: 'one ' + old(self)\n",
    "import gc, torch\nmany = sum(isinstance(one, torch.Tensor) for one in gc.get_objects())\n",
)


def live_in_ipython(notebook, name, rng):
    """Write around the answer what a notebook allows: magics with values, commands, tasks, patches."""
    place = task(notebook, name)
    if place >= 0:
        cell = notebook["cells"][place]
        cell["source"] = rng.choice(ASIDES) + text(cell)


# Edits after which the answer is all there: one of them alone costs nothing.
HARMLESS = (split, split_thrice, retype, copy_below, keep_the_stub, paste_the_stub, delete_check, unmark)
HARMLESS += (try_out, dress, live_in_ipython, live_in_ipython)
CELLS: tuple[Edit, ...] = (*HARMLESS, split_anywhere, move, extract, merge_with_check, merge_with_above)


def strip(notebook: dict, blank: dict, rng: random.Random) -> None:
    """Pass through a tool that keeps no metadata, and perhaps no ids."""
    ids = rng.random() < 0.5
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        if ids:
            cell.pop("id", None)


def paste_twice(notebook: dict, blank: dict, rng: random.Random) -> None:
    """Paste the notebook into itself, or the untouched hand-out above or below it."""
    added = copy.deepcopy(rng.choice([blank, blank, notebook])["cells"])
    for cell in added:
        cell["id"] = f"{rng.getrandbits(32):08x}"
    notebook["cells"] = rng.choice([notebook["cells"] + added, added + notebook["cells"]])


def shuffle(notebook: dict, blank: dict, rng: random.Random) -> None:
    """Put the tasks into another order, each with its check."""
    head, groups = [], []
    for cell in notebook["cells"]:
        starts = cell["cell_type"] == "markdown" and text(cell).startswith("## ")
        if starts:
            groups.append([])
        (groups[-1] if groups else head).append(cell)
    rng.shuffle(groups)
    notebook["cells"] = head + [cell for group in groups for cell in group]


def lose_the_start(notebook: dict, blank: dict, rng: random.Random) -> None:
    """Delete the first code cell, or add to it."""
    first = next(at for at, cell in enumerate(notebook["cells"]) if cell["cell_type"] == "code")
    if rng.random() < 0.8:  # without it nothing works in nbgrader
        notebook["cells"][first]["source"] = text(notebook["cells"][first]) + "\nimport math"
    else:
        del notebook["cells"][first]


WHOLE = (strip, paste_twice, shuffle, lose_the_start)
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "cp1252")
NAMES = ("{}.ipynb", "homework.ipynb", "{}.ipynb.txt", "{}.json", "{}", "{}_exercises.ipynb", "{} (1).ipynb")


def content(notebook: dict, encoding: str) -> bytes:
    """Return a notebook's file."""
    kept = {key: value for key, value in notebook.items() if key != "blank"}
    return json.dumps(kept, ensure_ascii=False, indent=1).encode(encoding, "replace")
