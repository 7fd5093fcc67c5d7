"""Two names in memory: a small program is run, and where each name's elements lie is read from addresses."""

import functools
import textwrap
import warnings
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch

from devlab import palette
from devlab.explore.controls import Action, Choice, Switch
from devlab.explore.explorer import Explorer
from devlab.explore.origin import first_accelerator, source
from devlab.explore.scene import INK, LARGE, SMALL, Box, Path, Scene, Shape, Words

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
class Held:
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
def run_program(start: str, made: str, through: str, cell: int, deleted: bool, device: str) -> Held:
    """Make x as `start` says and y as `made` says, write through a name, delete x, and read the memory.

    `through` is "x", "y" or "" for no write; `cell` counts in the name's own order, and one beyond the
    last means the last.

    >>> shared = run_program("a tensor on the CPU", "x[:, 1:]", "y", 0, False, "cpu")
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
    return Held(tuple(program), tuple(memories), tuple(windows), wrote, same, shared, error)


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
HIGH, LEFT, BYTE = 326, 96, 13.2  # of the picture; where cells begin; how wide a byte is
X_ROW, Y_ROW, CELL = 104, 266, 26  # the tops of the cells of x and of y, and how high a cell is
ONE, TWO = (185,), (156, 214)  # the tops of one memory, and of two
GAP = 8  # between the rows of a matrix
ANSWERS, GUESS_WIDE = (480, 760), 136  # from where to where the guess stands
GUESSES = {True: "yes, it shows", False: "no, it does not"}
SECONDS = 1.6  # for which a write is on its way


@dataclass(frozen=True)
class State:
    """How x and y are made, what the reader guesses and writes, and whether x is deleted then.

    A guess and a write belong to the way in which x and y were made: they end with it.
    """

    device: str
    start: str = "a tensor on the CPU"
    made: str = "x[:, 1:]"
    guessed: tuple[str, str, bool] | None = None  # start, made, and whether a write shows in the other name
    written: tuple[str, str, str, int] | None = None  # start, made, and the name and element written to
    deleted: bool = False
    writes: int = 0  # how many there were

    @property
    def guess(self) -> bool | None:
        """Return whether the reader expects a write to show in the other name; None without a guess."""
        return self.guessed[2] if self.guessed and self.guessed[:2] == (self.start, self.made) else None

    @property
    def write(self) -> tuple[str, int]:
        """Return the name and the element that is written to; no name where there is no write."""
        return self.written[2:] if self.written and self.written[:2] == (self.start, self.made) else ("", 0)

    @property
    def held(self) -> Held:
        """Return what the program of this state leaves in memory."""
        return run_program(self.start, self.made, *self.write, self.deleted, self.device)

    @property
    def living(self) -> Held:
        """Return what there is in memory before x is deleted."""
        return replace(self, deleted=False).held

    @property
    def shown(self) -> bool:
        """Tell whether the memory is shown: after a write, and where there is nothing to guess."""
        return bool(self.write[0] or self.held.error)


def draw(state: State) -> Scene:
    """Return the scene: the program, what each name sees, and between the names the memory that they see."""
    held, living = state.held, state.living
    shapes: list[Shape] = [] if held.error else _draw_guess(state, held)
    tops = TWO if len(living.memories) == 2 else ONE
    for window in living.windows:
        shapes += _draw_name(state, window, living, tops[window.memory])
    for number, memory in enumerate(living.memories if state.shown else ()):
        freed = state.deleted and number == 0 and not (held.shared and held.windows)
        shapes += _draw_memory(number, memory, tops[number], _written_elements(living).get(number), freed)
    if not state.shown:
        middle, high = (TWO[0] + TWO[1] + CELL) / 2, TWO[1] + CELL - TWO[0]
        for left in (LEFT, 490):
            box = {"x": left, "y": TWO[0], "wide": 240, "high": high}
            shapes.append(Box(id=f"hidden {left}", edge=palette.WAIT, hatched=True, **box))
        shapes.append(_words("hidden", 413, middle, "one memory, or two?", anchor="middle", bold=True))
    for number, line in enumerate(held.program):
        shapes.append(_words(f"line {number}", 0, 8 + 16 * number, line, mono=True))
    if held.error:
        shapes.append(_words("failed", LEFT, Y_ROW + CELL / 2, f"y is not made: {_short(held.error)}"))
    seconds = SECONDS if state.write[0] else 0.0
    return Scene(HIGH, sorted(shapes, key=_layer), caption(state), seconds, state.writes)


def _layer(shape: Shape) -> int:
    """Return the layer of a shape: cells, lines, the write over both, words.

    No neighbour covers the edges of a written cell. Cells come first and keep their order, and the focus with
    it, whatever comes and goes after them.
    """
    if isinstance(shape, Words):
        return 3
    if shape.during:
        return 2
    return 1 if isinstance(shape, Path) or shape.hatched else 0


def _words(name: str, x: float, y: float, words: str, **look) -> Words:
    return Words(id=name, x=x, y=y, words=words, **{"size": SMALL} | look)


def _draw_guess(state: State, held: Held) -> list[Shape]:
    """Draw the question with its two answers; after a write what is true, and how good the guess was."""
    left, right = ANSWERS
    lines = (
        (_headline(held), f"{WRITTEN} {'shows' if _shows(state) else 'does not show'} in the other name")
        if state.shown
        else ("When you write through one name,", "does it show in the other?")
    )
    drawn: list[Shape] = [_words("question 0", left, 8, lines[0], bold=True)]
    drawn.append(_words("question 1", left, 24, lines[1], bold=not state.shown))
    for answer, words in GUESSES.items():
        x = left if answer else right - GUESS_WIDE
        own = state.guess is answer
        drawn += [
            Box(
                id=words, x=x, y=34, wide=GUESS_WIDE, high=24, thick=3 if own else 1,
                faint=state.shown and not own, asks=None if state.shown else {"press": words},
                says=f"your guess: {words}" if own else f"guess: {words}",
            ),
            _words(f"{words} words", x + GUESS_WIDE / 2, 46, words, anchor="middle", bold=own),
        ]  # fmt: skip
        if own and state.shown:
            drawn.append(_words("mark", x + GUESS_WIDE / 2, 68, _mark(state), anchor="middle", bold=True))
    return drawn


def _mark(state: State) -> str:
    return "✓ right" if state.guess is state.living.shared else "✗ wrong"


def _written_elements(held: Held) -> dict[int, int]:
    """Return the element that was written to, by the number of its memory."""
    if held.wrote is None:
        return {}
    window = held.window(held.wrote[0])
    return {window.memory: dict(window.cells)[held.wrote[1]]}


def _draw_cell(box: Box, value: float, over: tuple[float, float] | None = None) -> list[Shape]:
    """Draw a cell and its value; what was written comes `over` it, in this share of the playing time."""
    centre = box.x + box.wide / 2, box.y + box.high / 2
    look = {"size": LARGE, "anchor": "middle", "faint": box.faint}
    drawn: list[Shape] = [box]
    if over:
        strong = {"fill": palette.tint(box.edge, 0.65), "edge": INK, "thick": 3}
        drawn.append(replace(box, id=f"{box.id} written", says="", asks=None, during=over, **strong))
        look |= {"bold": True, "during": (over[1], over[1])}
    return [*drawn, _words(f"{box.id} value", *centre, f"{value:g}", **look)]


def _draw_memory(number: int, memory: Memory, top: float, written: int | None, freed: bool) -> list[Shape]:
    """Draw a row of cells, each as wide as its bytes; faint where the memory is given back."""
    wide, colour = memory.itemsize * BYTE, palette.of(memory.place)
    title = "given back" if freed else "memory"
    drawn: list[Shape] = [
        _words(f"memory {number}", 0, top + 6, title, bold=True),
        _words(f"memory {number} size", 0, top + 21, f"{memory.place}, {memory.bytes} B"),
    ]
    for element, value in enumerate(memory.values):
        box = Box(
            id=f"memory {number} {element}", x=LEFT + element * wide, y=top, wide=wide, high=CELL, round=0,
            fill=palette.tint(colour), edge=colour, faint=freed,
            says=f"element {element} of a memory of {memory.bytes} bytes on {memory.place}: {value:g}",
        )  # fmt: skip
        drawn += _draw_cell(box, value, (0.35, 0.55) if element == written else None)
    return drawn


def _draw_name(state: State, window: Window, held: Held, memory_top: float) -> list[Shape]:
    """Draw the cells that a name sees, in its own order, and a line from each to its memory."""
    name, above = window.name, window.name == "x"
    memory, top = held.memories[window.memory], X_ROW if window.name == "x" else Y_ROW
    away, near, far = (-1, top + CELL, memory_top) if above else (1, top, memory_top + CELL)
    faint = above and state.deleted
    outside = top if above else top + CELL
    drawn: list[Shape] = [
        _words(name, 0, top + 6, name, mono=True, bold=True, size=LARGE, faint=faint),
        _words(f"{name} place", 0, top + 21, f"on {memory.place}", faint=faint),
        _words(
            f"{name} shape", LEFT, outside + 25 * away, _shape(window, state.shown), quiet=True, faint=faint
        ),
    ]
    wide, colour, lines = memory.itemsize * BYTE, palette.of(memory.place), []
    for number, (index, element) in enumerate(window.cells):
        place, value = _place(name, index), memory.values[element]
        x = LEFT + number * wide + GAP * (index[0] if len(index) == 2 else 0)
        over = None
        if _written_elements(held).get(window.memory) == element:
            over = (0.0, 0.2) if held.wrote == (name, index) else (0.75, 0.95)
        box = Box(
            id=f"{name} {number}", x=x, y=top, wide=wide, high=CELL, edge=colour, faint=faint,
            asks={"press": _label(name, number)}, says=f"{place} is {value:g}; click to write {WRITTEN} here",
        )  # fmt: skip
        drawn += _draw_cell(box, value, over)
        middle = x + wide / 2
        look = {"anchor": "middle", "mono": True, "size": 11, "bold": bool(over), "faint": faint}
        drawn.append(_words(f"{name} {number} index", middle, outside + 9 * away, place, **look))
        way = Path(
            id=f"{name} {number} line", points=((middle, near), (LEFT + (element + 0.5) * wide, far)),
            edge=colour, faint=faint,
        )  # fmt: skip
        lines.append(way)
        if over:
            out = 0.25 if over[0] == 0 else 0.6
            lines.append(replace(way, id=f"{name} {number} way", edge=INK, thick=4, during=(out, out)))
    return drawn + lines * state.shown


def _place(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]"


def _shape(window: Window, shown: bool) -> str:
    """Return a name's shape; how it lies in memory is part of the answer."""
    lies = f", strides {window.strides}, begins at element {window.offset}" if shown else ""
    return f"{window.name}: shape {window.shape}{lies}"


def _headline(held: Held) -> str:
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


def caption(state: State) -> str:
    """Say in a sentence what to do, or where the write shows and why."""
    held, guess = state.held, state.guess
    if held.error:
        return f"y is not made, so there is one name alone: {_short(held.error)}."
    if not state.shown:
        then = ", and then x is deleted" if state.deleted else ""
        if guess is None:
            return f"Guess first; then click a cell of x or y, and {WRITTEN} is written into it{then}."
        return f"You guess: {GUESSES[guess]}. Now click a cell of x or y to write {WRITTEN} into it{then}."
    if state.deleted:
        return _describe_held(state, held)
    name, index = held.wrote
    other, shows = "x" if name == "y" else "y", _shows(state)
    lead = "" if guess is None else f"You guessed {_mark(state)[2:]}: "
    if held.shared and not shows:
        said = (
            f"both names look at one memory, but {other} leaves {_place(name, index)} out, "
            f"so this {WRITTEN} does not show in {other}"
        )
    else:
        why = "both names look at one memory" if held.shared else "y has a memory of its own"
        why = "x and y are one tensor" if held.same else why
        does = "shows" if shows else "does not show"
        said = f"the {WRITTEN} in {_place(name, index)} {does} in {other}, because {why}"
    return f"{lead}{said if lead else said[0].upper() + said[1:]}."


def describe(state: State) -> str:
    """Say whether x and y share, what is held, and whether the other name shows what was written."""
    held = state.held
    sims = [memory.place for memory in held.memories if memory.place != "cpu"]
    head = f"{source(sims[0]) if sims else 'Nothing simulated'}: x is {state.start}"
    if held.error:
        return f"{head}; y = {state.made} fails: {_short(held.error)}. {_describe_held(state, held)}"
    guess = "" if state.guess is None else f" You guess: {GUESSES[state.guess]}."
    if not state.shown:
        then = " After the write x is deleted." if state.deleted else ""
        return f"{head}, y = {state.made}. Does a write through one name show in the other?{guess}{then}"
    relation = "is x itself" if held.same else "looks at x's memory" if held.shared else "has its own memory"
    guess = guess and f" Your guess was {_mark(state)[2:]}."
    said = f"{head}, y = {state.made} {relation}.{guess} {_describe_held(state, held)}"
    name, index = held.wrote
    other, place = "x" if name == "y" else "y", _place(name, index)
    if state.deleted and other == "x":
        return (
            f"{said} What was written to {place} {'showed' if _shows(state) else 'did not show'} in x before."
        )
    return f"{said} What was written to {place} {'shows' if _shows(state) else 'does not show'} in {other}."


def _describe_held(state: State, held: Held) -> str:
    """Say how many bytes are held, and by what."""
    if not state.deleted:
        return f"{held.bytes} bytes of storage are held."
    if held.shared:
        return f"After del x all {held.bytes} bytes of storage are still held: y keeps them."
    return f"After del x {held.bytes} bytes of storage are held, x's are given back."


def _shows(state: State) -> bool:
    """Tell whether what was written through one name can be read through the other."""
    before = state.living
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
            Switch("deleted", "then delete x"),
            Action("Start again", _fresh, lambda state: state != _fresh(state)),
            *(_action_to_guess(answer) for answer in GUESSES),
            *(_action_to_write(name, number) for name in "xy" for number in range(6)),
        ],
    )


def _fresh(state: State) -> State:
    return State(state.device, state.start, state.made, writes=state.writes)


def _action_to_guess(answer: bool) -> Action:
    """Return what a click on an answer asks for."""
    return Action(
        GUESSES[answer],
        lambda state: replace(state, guessed=(state.start, state.made, answer)),
        lambda state: not state.shown,
        drawn=True,
    )


def _label(name: str, number: int) -> str:
    return f"write {name}, element {number}"


def _action_to_write(name: str, number: int) -> Action:
    """Return what a click on a cell asks for; elements count in the name's own order."""

    def can(state: State) -> bool:
        window = state.living.window(name)
        return window is not None and number < len(window.cells)

    def act(state: State) -> State:
        return replace(state, written=(state.start, state.made, name, number), writes=state.writes + 1)

    return Action(_label(name, number), act, can, drawn=True)
