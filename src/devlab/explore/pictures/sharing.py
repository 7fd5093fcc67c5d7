"""Two names in memory: a small program is run, and where each name's elements lie is read from addresses."""

import functools
import textwrap
import warnings
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch

from devlab import palette
from devlab.explore.controls import Action, Choice, Number, Switch
from devlab.explore.explorer import Explorer
from devlab.explore.paper import MONO, first_accelerator, sheet, source

STARTS = {
    "a tensor on the CPU": "x = torch.arange(6.0).reshape(2, 3)",
    "a tensor on the device": "x = torch.arange(6.0, device=device).reshape(2, 3)",
    "a NumPy array": "x = np.arange(6, dtype=np.float32).reshape(2, 3)",
}
WRITTEN = 9


@dataclass(frozen=True)
class Memory:
    """A stretch of memory: the device it is on, the bytes of each element, and all elements in order."""

    place: str
    itemsize: int
    values: tuple[float, ...]

    @property
    def bytes(self) -> int:
        """Return the bytes that it takes."""
        return self.itemsize * len(self.values)


@dataclass(frozen=True)
class Window:
    """What a name sees: its shape, offset and strides in elements, and which memory it looks at.

    `cells` pairs each index with the element's number in that memory.
    """

    name: str
    memory: int
    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]
    cells: tuple[tuple[tuple[int, ...], int], ...]


@dataclass(frozen=True)
class Scene:
    """A program that was run, the memories that names still look at, and why a line failed, if one did."""

    program: tuple[str, ...]
    memories: tuple[Memory, ...] = ()
    windows: tuple[Window, ...] = ()
    wrote: tuple[str, tuple[int, ...]] | None = None
    same: bool = False  # y is x itself
    shared: bool = False  # y looks at the memory that x looks at, or looked at before it was deleted
    error: str = ""

    @property
    def bytes(self) -> int:
        """Return the bytes that all the memories take together."""
        return sum(memory.bytes for memory in self.memories)

    def window(self, name: str) -> Window | None:
        """Return what a name sees; None where there is no such name."""
        return next((window for window in self.windows if window.name == name), None)


@functools.lru_cache(maxsize=256)
def scene(start: str, made: str, through: str, cell: int, deleted: bool, device: str) -> Scene:
    """Make x as `start` says and y as `made` says, write through a name, delete x, and read the memory.

    `through` is "x", "y" or "" for no write; `cell` counts in the name's own order, and one beyond the
    last means the last.

    >>> shared = scene("a tensor on the CPU", "x[:, 1:]", "y", 0, False, "cpu")
    >>> shared.bytes, shared.memories[0].values, shared.window("y").offset
    (24, (0.0, 9.0, 2.0, 3.0, 4.0, 5.0), 1)
    """
    names: dict = {"torch": torch, "np": np, "device": device}
    program = [STARTS[start], f"y = {made}"]
    exec(STARTS[start], names)
    error = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch.tensor(tensor) would rather be .clone()
            exec(program[1], names)
    except (AttributeError, RuntimeError, TypeError) as refused:
        error = f"{type(refused).__name__}: {str(refused).splitlines()[0]}"
    wrote = None
    if through in names:
        index = _indices(names[through])[: cell + 1][-1]
        program.append(f"{through}[{', '.join(map(str, index))}] = {WRITTEN}")
        exec(program[-1], names)
        wrote = (through, index)
    same = names.get("y") is names["x"]
    shared = "y" in names and _memory(names["x"])[:2] == _memory(names["y"])[:2]
    if deleted:
        program.append("del x")
        exec(program[-1], names)
    starts: list[tuple[str, int]] = []
    memories: list[Memory] = []
    windows = []
    for name in sorted(names.keys() & {"x", "y"}):
        place, first, memory = _memory(names[name])
        if (place, first) not in starts:
            starts.append((place, first))
            memories.append(memory)
        windows.append(_window(name, names[name], starts.index((place, first)), first))
    return Scene(tuple(program), tuple(memories), tuple(windows), wrote, same, shared, error)


def _memory(value) -> tuple[str, int, Memory]:
    """Return the place, the address and the content of the whole memory behind a tensor or an array."""
    if isinstance(value, np.ndarray):
        while value.base is not None:
            if not isinstance(value.base, np.ndarray):  # NumPy holds the tensor whose memory this is
                return _memory(value.base)
            value = value.base
        return "cpu", value.ctypes.data, Memory("cpu", value.itemsize, tuple(value.ravel("K").tolist()))
    storage = value.untyped_storage()
    size = value.element_size()
    whole = torch.as_strided(value.detach(), (storage.nbytes() // size,), (1,), 0)
    return str(value.device), storage.data_ptr(), Memory(str(value.device), size, tuple(whole.tolist()))


def _window(name: str, value, memory: int, first: int) -> Window:
    """Return what a name sees of the memory that begins at the address `first`."""
    if isinstance(value, np.ndarray):
        size, address = value.itemsize, value.ctypes.data
        strides = tuple(stride // size for stride in value.strides)  # NumPy counts strides in bytes
    else:
        size, address, strides = value.element_size(), value.data_ptr(), tuple(value.stride())
    offset = (address - first) // size
    cells = tuple(
        (index, offset + sum(step * stride for step, stride in zip(index, strides, strict=True)))
        for index in _indices(value)
    )
    return Window(name, memory, tuple(value.shape), offset, strides, cells)


def _indices(value) -> list[tuple[int, ...]]:
    return list(product(*(range(length) for length in value.shape)))


MADE = (
    "x", "x[:, 1:]", "x.T", "x.reshape(6)", "x.T.reshape(6)", "x[[0]]", "x[:1].expand(2, 3)", "x + 0",
    "x.clone()", "x.detach()", 'x.to("cpu")', "x.to(device)", "x.float()", "x.double()", "x.numpy()",
    "np.asarray(x)", "torch.from_numpy(x)", "torch.as_tensor(x)", "torch.as_tensor(x, dtype=torch.float64)",
    "torch.tensor(x)",
)  # fmt: skip
LINE = 0.26  # inches: the height of a line of the picture
AXIS = 0.55  # inches: the axis of bytes and its name
HIGH = 2.0  # lines: the height of a cell


@dataclass(frozen=True)
class State:
    """How x and y are made, through which name 9 is written and where, and whether x is deleted then."""

    device: str
    start: str = "a tensor on the CPU"
    made: str = "x[:, 1:]"
    through: str = "y"
    cell: int = 0
    deleted: bool = False

    @property
    def scene(self) -> Scene:
        """Return what the program of this state leaves in memory."""
        return scene(self.start, self.made, self.through, self.cell, self.deleted, self.device)


def draw(state: State):
    """Return the figure: cells of memory, over them what x sees and below them what y sees."""
    held = state.scene
    lines = len(held.program)
    tops = [lines + (4.4 if held.window("x") else 2.6)]
    if len(held.memories) == 2:
        tops.append(tops[0] + 3.2)
    bottom = (tops[len(held.memories) - 1] if held.memories else lines + 1) + 4.4
    height = LINE * bottom + AXIS
    margins = {"left": 0.09, "right": 0.985, "bottom": AXIS / height, "top": 1}
    figure, axes = sheet(height, margins=margins)
    axes.text(0, 0, "\n".join(held.program), va="top", linespacing=1.5, **MONO)
    axes.text(0, lines + 1, _headline(held), va="center", fontsize=12, weight="bold")
    for number, memory in enumerate(held.memories):
        windows = [one for one in held.windows if one.memory == number]
        _draw_memory(axes, memory, tops[number], held.wrote, windows)
    if held.error:
        axes.text(0, bottom - 1.2, f"y is not made: {_short(held.error)}", va="center", fontsize=9)
    widest = max((memory.bytes for memory in held.memories), default=24)
    axes.set_xlim(-0.1, max(24, widest) * 1.003)
    axes.set_ylim(bottom, -0.2)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xticks(range(0, max(24, widest) + 1, 4 if widest <= 24 else 8))
    axes.set_xlabel("bytes from the start of the memory")
    return figure


def _draw_memory(axes, memory: Memory, top: float, wrote, windows: list[Window]) -> None:
    """Draw one row of cells, its values, and the windows of the names that look at it."""
    written = {
        element
        for one in windows
        for index, element in one.cells
        if wrote is not None and (one.name, index) == wrote
    }
    size, colour = memory.itemsize, palette.of(memory.place)
    cells = [(element * size, size) for element in range(len(memory.values))]
    axes.broken_barh(cells, (top, HIGH), facecolor=colour, alpha=0.3, edgecolor="none")
    axes.broken_barh(cells, (top, HIGH), facecolor="none", edgecolor=colour)
    for element in written:
        axes.broken_barh([cells[element]], (top, HIGH), facecolor="none", edgecolor="black", linewidth=3)
    for element, value in enumerate(memory.values):
        axes.text(
            (element + 0.5) * size, top + HIGH / 2, f"{value:g}", ha="center", va="center",
            fontsize=13, weight="bold" if element in written else "normal",
        )  # fmt: skip
    axes.text(
        -0.012, top + HIGH / 2, f"{memory.place}\n{memory.bytes} B", transform=axes.get_yaxis_transform(),
        ha="right", va="center",
    )  # fmt: skip
    for one in windows:
        _draw_window(axes, one, memory, top, written)


def _draw_window(axes, window: Window, memory: Memory, top: float, written: set[int]) -> None:
    """Draw what x sees above a row of cells, and what y sees below it."""
    above = window.name == "x"
    side = -1 if above else 1
    edge = top - 0.2 if above else top + HIGH + 0.2
    size = memory.itemsize
    seen: dict[int, list[str]] = {}
    for index, element in window.cells:
        seen.setdefault(element, []).append(f"{window.name}[{', '.join(map(str, index))}]")
    axes.broken_barh(
        [(element * size + 0.15, size - 0.3) for element in seen], (edge - 0.05, 0.1), facecolor="black"
    )
    for element, indices in seen.items():
        axes.text(
            (element + 0.5) * size, edge + 0.2 * side, "\n".join(indices), ha="center",
            va="bottom" if above else "top", family="DejaVu Sans Mono", fontsize=8,
            weight="bold" if element in written else "normal",
        )  # fmt: skip
    lines = max(map(len, seen.values()))
    axes.text(0, edge + side * 0.6 * (lines + 1), _shape(window), va="center", fontsize=9)


def _shape(window: Window) -> str:
    return f"{window.name}: shape {window.shape}, strides {window.strides}, begins at element {window.offset}"


def _headline(held: Scene) -> str:
    """Return in a few words whether memory is shared, and what is held."""
    count = len(held.memories)
    if not count:
        return "No memory is held"
    if count == 2:
        return "Two memories: " + " and ".join(f"{memory.bytes} B" for memory in held.memories)
    return f"{'One tensor, two names' if held.same else 'One memory'}: {held.bytes} B"


def _short(error: str) -> str:
    """Return the first sentence of an error, or as much of it as one line holds."""
    return textwrap.shorten(error.split(". ")[0].rstrip("."), 84, placeholder=" …")


def describe(state: State) -> str:
    """Say whether x and y share, what is held, and whether the other name shows what was written."""
    held = state.scene
    sims = [memory.place for memory in held.memories if memory.place != "cpu"]
    head = f"{source(sims[0]) if sims else 'Nothing simulated'}: x is {state.start}"
    if held.error:
        return f"{head}; y = {state.made} fails: {_short(held.error)}. {_holding(state, held)}"
    relation = "is x itself" if held.same else "looks at x's memory" if held.shared else "has its own memory"
    said = f"{head}, y = {state.made} {relation}. {_holding(state, held)}"
    if held.wrote is None:
        return said
    name, index = held.wrote
    other = "x" if name == "y" else "y"
    place = f"{name}[{', '.join(map(str, index))}]"
    if state.deleted and other == "x":
        return (
            f"{said} What was written to {place} {'showed' if _shows(state) else 'did not show'} in x before."
        )
    return f"{said} What was written to {place} {'shows' if _shows(state) else 'does not show'} in {other}."


def _holding(state: State, held: Scene) -> str:
    """Say how many bytes are held, and by what."""
    if not state.deleted:
        return f"{held.bytes} bytes of storage are held."
    if held.shared:
        return f"After del x all {held.bytes} bytes of storage are still held: y keeps them."
    return f"After del x {held.bytes} bytes of storage are held, x's are given back."


def _shows(state: State) -> bool:
    """Tell whether what was written through one name can be read through the other."""
    before = replace(state, deleted=False).scene
    name, index = before.wrote
    written = dict(before.window(name).cells)[index]
    other = before.window("x" if name == "y" else "y")
    return before.shared and written in {element for _, element in other.cells}


def explorer() -> Explorer:
    """Return the explorer, with tensors on the first accelerator of this machine to choose besides."""
    device = first_accelerator()
    starts = [start for start in STARTS if device != "cpu" or start != "a tensor on the device"]
    return Explorer(
        "Two names: one memory or two?",
        State(device),
        draw,
        describe,
        [
            Choice("start", "x is", starts),
            Choice("made", "y =", MADE),
            Number("cell", "element to write", 0, 5),
            Action("Write 9 through y", lambda state: replace(state, through="y"), _can_write("y")),
            Action("Write 9 through x", lambda state: replace(state, through="x"), _can_write("x")),
            Switch("deleted", "then delete x"),
            Action("Start again", lambda state: replace(state, through="", deleted=False), _changed),
        ],
    )


def _can_write(name: str):
    """Return the test whether a write through this name would change the program."""
    return lambda state: state.through != name and not (name == "y" and state.scene.error)


def _changed(state: State) -> bool:
    return bool(state.through) or state.deleted
