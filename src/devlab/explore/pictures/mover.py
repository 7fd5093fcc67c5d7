"""Small modules, each with a culprit of lesson 05 in it: what `.to` moves there, and what it does not."""

import copy
import functools
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from devlab import palette
from devlab.explore.controls import Choice, Switch
from devlab.explore.explorer import Explorer
from devlab.explore.paper import MONO, WIDTH, first_accelerator, sheet, source


class Price(nn.Module):
    """Two tables beside a layer; one of them was never registered."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 1)
        self.register_buffer("deviation", torch.ones(3))
        self.mean = torch.zeros(3)

    def forward(self, x):
        """Return the price of each row of three columns."""
        return self.linear((x - self.mean) / self.deviation)


class Stack(nn.Module):
    """Layers in a plain list, a parameter in a plain dict."""

    def __init__(self):
        super().__init__()
        self.blocks = [nn.Linear(3, 3), nn.Linear(3, 3)]
        self.gains = {"out": nn.Parameter(torch.ones(3))}
        self.head = nn.Linear(3, 1)

    def forward(self, x):
        """Return the head's answer to what the blocks make of x."""
        for block in self.blocks:
            x = block(x)
        return self.head(x * self.gains["out"])


class RegisteredStack(Stack):
    """The same in containers that register what they hold."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(self.blocks)
        self.gains = nn.ParameterDict(self.gains)


class Positions(nn.Module):
    """A table that is not saved, and a count that is: both are buffers."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 1)
        self.register_buffer("table", torch.linspace(0, 1, 3), persistent=False)
        self.register_buffer("batches", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        """Return one number a row, and count the batch."""
        self.batches += 1
        return self.linear(x + self.table)


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return a model and its optimizer after one step on the CPU: the optimizer has gathered momentum."""
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


SPECIMENS = {
    "a table as a plain attribute": lambda: (Price(), None),
    "layers in a list": lambda: (Stack(), None),
    "layers in a ModuleList": lambda: (RegisteredStack(), None),
    "buffers, one not saved": lambda: (Positions(), None),
    "a model and its optimizer": trained,
}


CALLS = (
    "model.to(device)",
    "model.to(torch.float16)",
    "for p in model.parameters(): p.to(device)",
    "model.load_state_dict(saved_on_device)",
    "model.load_state_dict(saved_on_device, assign=True)",
    "model = copy.deepcopy(model).to(device)",
)


@dataclass(frozen=True)
class Row:
    """A line of the tree: its path, its text, and for a tensor its kind and its place before and after."""

    path: tuple[str, ...]
    text: str
    kind: str = ""
    saved: bool = False
    before: tuple[str, str] = ("", "")  # device and dtype
    after: tuple[str, str] = ("", "")

    @property
    def name(self) -> str:
        """Return the path as PyTorch writes it."""
        return ".".join(self.path)

    @property
    def moved(self) -> bool:
        """Tell whether it is on another device than before."""
        return self.before[0] != self.after[0]


@dataclass(frozen=True)
class Move:
    """The tree, whether a training step with a batch on the device runs then, and what is wrong with it."""

    rows: tuple[Row, ...]
    runs: bool
    trouble: str = ""

    @property
    def tensors(self) -> list[Row]:
        """Return the rows that are tensors."""
        return [row for row in self.rows if row.kind]


@functools.lru_cache(maxsize=64)
def move(specimen: str, call: str, device: str) -> Move:
    """Make a module on the CPU, run one line, read all the places, and try a training step on the device.

    >>> [row.name for row in move("a table as a plain attribute", CALLS[0], "meta").tensors if not row.moved]
    ['mean']
    """
    model, optimizer = SPECIMENS[specimen]()
    names = {"torch": torch, "copy": copy, "device": device, "model": model}
    if "saved_on_device" in call:
        names["saved_on_device"] = copy.deepcopy(model).to(device).state_dict()
    before = list(_tree(model, optimizer))
    old = [_place(tensor) for _, _, _, tensor in before]
    exec(call, names)
    model = names["model"]
    saved = {id(tensor) for tensor in model.state_dict(keep_vars=True).values()}
    rows = tuple(
        Row(path, text, kind, id(tensor) in saved, was, _place(tensor))
        for (path, text, kind, tensor), was in zip(_tree(model, optimizer), old, strict=True)
    )
    return Move(rows, *_try(model, optimizer, device))


def _place(tensor: torch.Tensor | None) -> tuple[str, str]:
    if tensor is None:
        return "", ""
    return str(tensor.device), str(tensor.dtype).removeprefix("torch.")


def _tree(model: nn.Module, optimizer) -> Iterator[tuple]:
    """Yield path, text, kind and tensor of all that a module and its optimizer hold."""
    yield (), f"model: {type(model).__name__}", "", None
    yield from _inside(model, (), "")
    if optimizer is None:
        return
    yield (), f"optimizer: {type(optimizer).__name__}", "", None
    for (name, _), state in zip(model.named_parameters(), optimizer.state.values(), strict=True):
        for what, tensor in state.items():
            yield (what, name), f"{what} of {name}", "optimizer state", tensor


def _inside(module: nn.Module, path: tuple[str, ...], container: str) -> Iterator[tuple]:
    """Yield what a module holds, the registered first; `container` is the plain kind that it is in."""
    hidden = f"in a plain {container}" if container else ""
    for name, tensor in module.named_parameters(recurse=False):
        yield (*path, name), name, hidden or "parameter", tensor
    for name, tensor in module.named_buffers(recurse=False):
        yield (*path, name), name, hidden or "buffer", tensor
    for name, child in module.named_children():
        yield (*path, name), f"{name}: {type(child).__name__}", "", None
        yield from _inside(child, (*path, name), container)
    for name, value in vars(module).items():
        if isinstance(value, torch.Tensor):
            yield (*path, name), name, hidden or "plain attribute", value
        elif isinstance(value, list | dict) and not name.startswith("_"):
            yield from _contents(value, (*path, name))


def _contents(values: list | dict, path: tuple[str, ...]) -> Iterator[tuple]:
    """Yield what a plain container holds; `.to` sees none of it."""
    kind = type(values).__name__
    yield path, f"{path[-1]}: {kind}", "", None
    for key, value in values.items() if isinstance(values, dict) else enumerate(values):
        inner = (*path, str(key))
        if isinstance(value, nn.Module):
            yield inner, f"{key}: {type(value).__name__}", "", None
            yield from _inside(value, inner, kind)
        elif isinstance(value, torch.Tensor):
            yield inner, str(key), f"in a plain {kind}", value


def _try(model: nn.Module, optimizer, device: str) -> tuple[bool, str]:
    """Return whether a training step with a batch on the device runs, and what is wrong with it."""
    first = next(model.parameters())
    before = first.detach().clone()
    try:
        model(torch.ones(2, 3, device=device)).sum().backward()
        if optimizer is not None:
            optimizer.step()
    except RuntimeError as error:
        return False, f"{type(error).__name__}: {str(error).splitlines()[0]}"
    if optimizer is not None and torch.equal(first, before):
        return True, "The optimizer holds the parameters of before: it trains none of the model's."
    return True, ""


LINE = 0.29  # inches: the height of a row
KIND, SAVED, BEFORE, AFTER, STAYS = 2.35, 3.65, 4.25, 5.8, 7.2  # inches from the left: where columns begin
CHIP = 1.3  # inches: the width of a place


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
    height = LINE * (count + 3.6 + below)
    figure, axes = sheet(height, margins={"left": 0, "right": 1, "bottom": 0, "top": 1})
    axes.set_axis_off()
    axes.set_xlim(-0.05, WIDTH - 0.05)
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
