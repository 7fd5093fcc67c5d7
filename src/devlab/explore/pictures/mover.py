"""The mover: a module as a tree, and where each of its tensors is before and after one line of code."""

import textwrap
from dataclasses import dataclass
from typing import NamedTuple

from devlab import palette
from devlab.explore.controls import Choice, Switch
from devlab.explore.explorer import Explorer
from devlab.explore.moves import CALLS, Move, Row, move
from devlab.explore.paper import WIDTH, sheet
from devlab.explore.places import first_accelerator, source
from devlab.explore.specimens import SPECIMENS

LINE = 0.29  # inches: the height of a row
KIND, SAVED, BEFORE, AFTER, STAYS = 2.35, 3.65, 4.25, 5.8, 7.2  # inches from the left: where columns begin
CHIP = 1.3  # inches: the width of a place
MONO = {"family": "DejaVu Sans Mono", "fontsize": 9}


@dataclass(frozen=True)
class State:
    """Which module, which line is run, and whether what it does is shown."""

    device: str
    module: str = "a table as a plain attribute"
    call: str = CALLS[0]
    shown: bool = True

    @property
    def move(self) -> Move:
        """Return what the line does to the module."""
        return move(self.module, self.call, self.device)


def draw(state: State):
    """Return the figure: the tree on the left, the places before and after beside each tensor."""
    done = state.move
    count = len(done.rows)
    below = 2.4 if state.shown else 0.2
    figure, axes = sheet(LINE * (count + 3.6 + below))
    axes.set_axis_off()
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(count + below, -3.6)
    axes.text(0, -3.2, state.call, **MONO)
    axes.text(0, -1.7, _headline(state), fontsize=12, weight="bold")
    for at, title in ((0, "name"), (KIND, "kind"), (SAVED, "saved"), (BEFORE, "before"), (AFTER, "after")):
        axes.text(at, -0.3, title, fontsize=9)
    contrast = any(row.moved for row in done.tensors)
    chips: list[Chip] = []
    for at, row in enumerate(done.rows):
        axes.text(0, at + 0.65, _twig(row) + row.text, **MONO)
        if row.kind:
            axes.text(KIND, at + 0.65, row.kind, fontsize=9)
            axes.text(SAVED, at + 0.65, "yes" if row.saved else "no", fontsize=9)
            chips.append(Chip(BEFORE, at, *row.before))
            behind = contrast and not row.moved
            chips.append(Chip(AFTER, at, *row.after, behind) if state.shown else Chip(AFTER, at, "?", ""))
            if behind and state.shown:
                axes.text(STAYS, at + 0.65, "stays", fontsize=9, weight="bold")
    _draw_chips(axes, chips)
    if state.shown:
        said = f"Then a training step with a batch on {state.device} {_verdict(done)}"
        axes.text(0, count + 1.0, said, fontsize=11, weight="bold")
        axes.text(0, count + 2.1, _short(done.trouble), fontsize=9)
    return figure


class Chip(NamedTuple):
    """The place of a tensor, at some inches from the left and in some row; a heavy edge where it stayed."""

    left: float
    row: int
    device: str
    dtype: str
    heavy: bool = False


def _draw_chips(axes, chips: list[Chip]) -> None:
    """Draw each place in its device's colour; a device that is not told yet has the colour of waiting."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgba

    colours = [palette.WAIT if chip.device == "?" else palette.of(chip.device) for chip in chips]
    corners = [
        [(left, row + 0.1), (left + CHIP, row + 0.1), (left + CHIP, row + 0.9), (left, row + 0.9)]
        for left, row, *_ in chips
    ]
    edges = ["black" if chip.heavy else colour for chip, colour in zip(chips, colours, strict=True)]
    faces = [to_rgba(colour, 0.3) for colour in colours]
    widths = [2.5 if chip.heavy else 1.0 for chip in chips]
    axes.add_collection(PolyCollection(corners, facecolors=faces, edgecolors=edges, linewidths=widths))
    for chip in chips:
        axes.text(
            chip.left + CHIP / 2, chip.row + 0.63, f"{chip.device} {chip.dtype}".strip(), ha="center",
            **MONO | {"fontsize": 8},
        )  # fmt: skip


def _twig(row: Row) -> str:
    """Return what leads to a row of the tree; an optimizer's state hangs on the optimizer itself."""
    depth = 1 if row.kind == "optimizer state" else len(row.path)
    return "  " * (depth - 1) + "└ " if depth else ""


def _headline(state: State) -> str:
    """Return the question, or how many tensors moved."""
    tensors = state.move.tensors
    if not state.shown:
        return f"Which of the {len(tensors)} tensors will move?"
    moved = sum(row.moved for row in tensors)
    cast = sum(row.before[1] != row.after[1] for row in tensors)
    return (
        f"{moved} of {len(tensors)} tensors moved to {state.device}"
        if moved
        else f"None of {len(tensors)} tensors moved" + (f"; {cast} changed dtype" if cast else "")
    )


def _verdict(done: Move) -> str:
    """Return how the training step ends, in a few words."""
    if not done.runs:
        return "fails"
    return "runs and trains nothing" if done.trouble else "runs"


def _short(trouble: str) -> str:
    """Return as much of what is wrong as one line of the picture holds."""
    return textwrap.shorten(trouble.partition(" (when checking")[0], 112, placeholder=" …")


def describe(state: State) -> str:
    """Say how many tensors moved, which stayed, and whether a training step runs then."""
    done = state.move
    head = f"{source(state.device)}: {state.module}, made on the CPU; then {state.call}. {_headline(state)}"
    if not state.shown:
        return head
    stays = [row.name for row in done.tensors if not row.moved]
    behind = f"; {_list(stays)} stayed" if 0 < len(stays) < len(done.tensors) else ""
    then = f"A training step with a batch on {state.device} then {_verdict(done)}"
    return f"{head}{behind}. {then}{f': {_short(done.trouble)}' if done.trouble else '.'}"


def _list(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def explorer() -> Explorer:
    """Return the explorer on the first accelerator of this machine."""
    return Explorer(
        "What moves, and what stays behind?",
        State(first_accelerator()),
        draw,
        describe,
        [
            Choice("module", "module", list(SPECIMENS)),
            Choice("call", "line", CALLS),
            Switch("shown", "show what it does"),
        ],
    )
