"""Small modules, each with a culprit of lesson 05 in it: what `.to` moves there, and what it does not."""

import copy
import functools
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import nn

from devlab import palette
from devlab.explore.controls import Action, Choice
from devlab.explore.explorer import Explorer
from devlab.explore.origin import first_accelerator, source
from devlab.explore.scene import INK, SMALL, WIDE, Box, Path, Scene, Shape, Words
from devlab.panel import join_words


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


def train_model() -> tuple[nn.Module, torch.optim.Optimizer]:
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
    "a model and its optimizer": train_model,
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


HIGH, TOP, ROWS = 312, 42, 230  # of the picture; where the tree begins, and how much room all its rows have
SECONDS, ARRIVE, DROP = 4.0, 0.6, 0.85  # of the playing, and by which share copies arrive and are dropped
KIND, CPU_LANE, DEVICE_LANE, LANE, RESULT = 204, 318, 474, 148, 630  # where columns begin; a lane's width
TALLEST = 30
RUN, AGAIN = "Run the line", "Guess again"


@dataclass(frozen=True)
class State:
    """Which module and which line are looked at, which tensors are marked, and which lines were run.

    A mark says that the reader expects this line to move this tensor of this module.
    """

    device: str
    module: str = "a table as a plain attribute"
    call: str = CALLS[0]
    marks: frozenset[tuple[str, str, str]] = frozenset()
    ran: frozenset[tuple[str, str]] = frozenset()
    takes: int = 0  # how many times a line was run

    @property
    def move(self) -> Move:
        """Return what the line does to the module."""
        return move(self.module, self.call, self.device)

    @property
    def shown(self) -> bool:
        """Tell whether the line was run on the module."""
        return (self.module, self.call) in self.ran

    def expects(self, name: str) -> bool:
        """Tell whether the reader expects a tensor to move."""
        return (self.module, self.call, name) in self.marks

    @property
    def wrong(self) -> list[Row]:
        """Return the tensors that did something else than the reader expected."""
        return [row for row in self.move.tensors if row.moved != self.expects(row.name)]

    def marked(self, name: str) -> "State":
        """Return the state with the mark of a tensor set, or taken away."""
        return replace(self, marks=self.marks ^ {(self.module, self.call, name)})

    def run(self) -> "State":
        """Return the state in which the line was run."""
        return replace(self, ran=self.ran | {(self.module, self.call)}, takes=self.takes + 1)

    def again(self) -> "State":
        """Return the state before the line was run and before anything was expected of it."""
        here = self.module, self.call
        return replace(
            self, ran=self.ran - {here}, marks=frozenset(one for one in self.marks if one[:2] != here)
        )


REASONS = {
    "device is the CPU": "device is the CPU, where it is already",
    "no device named": "the line names no device",
    "not in the model": "the optimizer holds it, not the model",
    "its copy is dropped": "its copy on the device is thrown away",
    "not a parameter": "the line asks for parameters alone",
    "not registered": "it is not registered, so the module does not know of it",
    "values copied into it": "loading only copies values into it",
    "not in state_dict": "it is not in the state_dict",
}


def reason(row: Row, state: State) -> str:
    """Return in a few words why a tensor stayed where it was: a key of REASONS."""
    registered = row.kind in ("parameter", "buffer")
    if row.before[0] == state.device:
        return "device is the CPU"
    if state.call == "model.to(torch.float16)":
        return "no device named"
    if row.kind == "optimizer state":
        return "not in the model"
    if "load_state_dict" in state.call:
        return "values copied into it" if row.saved else "not in state_dict"
    if registered and "p.to" in state.call:
        return "its copy is dropped" if row.kind == "parameter" else "not a parameter"
    return "not registered"


def draw(state: State) -> Scene:
    """Return the scene: the tree, and a box for each tensor in the lane of the device where it is."""
    done = state.move
    shapes: list[Shape] = [
        Box(
            id="line", x=0, y=0, wide=7.4 * len(state.call) + 16, high=24, thick=1 if state.shown else 2,
            asks=None if state.shown else {"press": RUN},
            says="this line was run" if state.shown else "run this line",
        ),
        Words(id="line words", x=8, y=12, words=state.call, size=SMALL, mono=True),
        Words(id="headline", x=WIDE, y=12, words=_headline(state), anchor="end", bold=True),
    ]  # fmt: skip
    alone = state.device == "cpu"
    for place, left in (("cpu", CPU_LANE), ("" if alone else state.device, DEVICE_LANE)):
        edge = palette.of(place) if place else INK
        words = place or "no accelerator here"
        lane = {"x": left, "y": 28, "wide": LANE, "high": ROWS + TOP - 24}
        shapes.append(Box(id=f"lane {left}", edge=edge, round=6, faint=not place, **lane))
        shapes.append(_words(f"lane {left} name", left + LANE / 2, 40, words, anchor="middle", bold=True))
    tall = min(TALLEST, ROWS / len(done.rows))
    guesses: list[Shape] = []  # come last, so that they come and go without a change of the others' order
    for number, row in enumerate(done.rows):
        middle = TOP + (number + 0.5) * tall
        name = row.name if row.kind else f"branch {number}"
        shapes.append(_words(f"{name} in the tree", 0, middle, _twig(row) + row.text, mono=True))
        if row.kind:
            shapes += _draw_tensor(state, row, middle, tall - 3)
            guesses += _draw_guess(state, row, middle, tall - 3)
            guesses += _draw_copy(state, row, middle, tall - 3)
    if state.shown:
        fails, trouble = "", _short(done.trouble)
        if not done.runs:
            fails, _, trouble = f" with {trouble}".partition(": ")
        said = f"Then a training step with a batch on {state.device} {_verdict(done)}{fails}"
        shapes.append(_words("step", 0, HIGH - 25, f"{said}{':' if trouble else '.'}", bold=True))
        if trouble:
            shapes.append(_words("trouble", 0, HIGH - 8, trouble, says=done.trouble))
    moves = any(shape.comes for shape in shapes + guesses)
    return Scene(HIGH, shapes + guesses, caption(state), SECONDS * moves, state.takes)


def _words(name: str, x: float, y: float, words: str, **look) -> Words:
    return Words(id=name, x=x, y=y, words=words, **{"size": SMALL} | look)


def _draw_tensor(state: State, row: Row, middle: float, tall: float) -> list[Shape]:
    """Draw a tensor's box in the lane where it is, and what the tensor is."""
    place, dtype = row.after if state.shown else row.before
    behind = state.shown and not row.moved and any(one.moved for one in state.move.tensors)
    kind = row.kind if row.saved or row.kind != "buffer" else "buffer, not saved"
    left = DEVICE_LANE if state.shown and row.moved else CPU_LANE
    way = {"during": (0.0, ARRIVE), "comes": (DEVICE_LANE - CPU_LANE, 0.0)} if left == DEVICE_LANE else {}
    return [
        _words(f"{row.name} kind", KIND, middle, kind, quiet=True),
        Box(
            id=row.name, x=left + 5, y=middle - tall / 2, wide=LANE - 10, high=tall,
            fill=palette.tint(palette.of(place)), edge=INK if behind else palette.of(place),
            thick=2.5 if behind else 1.5, asks=None if state.shown else {"press": f"mark {row.name}"},
            says=_says(state, row), **way,
        ),
        _words(f"{row.name} dtype", left + LANE / 2, middle, dtype, anchor="middle", mono=True, **way),
    ]  # fmt: skip


def _draw_copy(state: State, row: Row, middle: float, tall: float) -> list[Shape]:
    """Draw a copy that comes and goes again: one that the line drops, or values that the line copies in."""
    why = reason(row, state) if state.shown and not row.moved else ""
    far = DEVICE_LANE - CPU_LANE
    look = {"y": middle - tall / 2, "wide": LANE - 10, "high": tall, "goes": DROP, "during": (0.0, ARRIVE)}
    look |= {"fill": palette.tint(palette.of(state.device)), "edge": palette.of(state.device)}
    if why == "its copy is dropped":
        return [Box(id=f"{row.name} copy", x=DEVICE_LANE + 5, comes=(far, 0.0), **look)]
    if why == "values copied into it":
        return [Box(id=f"{row.name} values", x=CPU_LANE + 5, comes=(-far, 0.0), **look)]
    return []


def _draw_guess(state: State, row: Row, middle: float, tall: float) -> list[Shape]:
    """Draw the place where a tensor is expected, and what became of that."""
    expected, drawn = state.expects(row.name), []
    if expected:
        x, to_x, y, to_y = DEVICE_LANE + 5, DEVICE_LANE + LANE - 5, middle - tall / 2, middle + tall / 2
        corners = (x, y), (to_x, y), (to_x, to_y), (x, to_y), (x, y)
        drawn.append(Path(id=f"{row.name} expected", points=corners, dashed=True))
    note = reason(row, state) if state.shown and not row.moved else "your guess"
    if not row.moved if state.shown else expected:
        drawn.append(
            _words(
                f"{row.name} note", DEVICE_LANE + LANE / 2, middle, note, anchor="middle", during=(DROP, DROP)
            )
        )
    if state.shown:
        mark, fate = "✓ right" if expected == row.moved else "✗ wrong", "moved" if row.moved else "stayed"
        drawn.append(_words(f"{row.name} mark", RESULT, middle, f"{mark}: it {fate}", during=(DROP, DROP)))
    return drawn


def _says(state: State, row: Row) -> str:
    """Return what a tensor is, and what became of it or can be expected of it."""
    what = f"{row.name}, {row.kind}, {'saved' if row.saved else 'not saved'}"
    if not state.shown:
        click = (
            "click to take your mark away" if state.expects(row.name) else "click if you expect it to move"
        )
        return f"{what}, {row.before[1]} on {row.before[0]}; {click}"
    if row.moved:
        return f"{what}: moved to {row.after[0]}"
    return f"{what}: stayed on {row.after[0]}, because {REASONS[reason(row, state)]}"


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
    """Return as much of what is wrong as a line holds."""
    return textwrap.shorten(trouble.partition(" (when checking")[0], 122, placeholder=" …")


def caption(state: State) -> str:
    """Say in a sentence what to do, or what the line did and how well that was foreseen."""
    tensors = state.move.tensors
    marked = sum(state.expects(row.name) for row in tensors)
    if not state.shown:
        if not marked:
            return "Click the tensors that you expect to move, or none of them, and then run the line."
        return f"You expect {marked} of the {len(tensors)} tensors to move; run the line to see what moves."
    said = f"{_headline(state)}, and you were right about {len(tensors) - len(state.wrong)} of {len(tensors)}"
    for row in sorted(state.wrong, key=lambda row: row.moved)[:1]:  # what stayed has a reason, so it is told
        said += f": {row.name} "
        said += "moved" if row.moved else f"stayed, because {REASONS[reason(row, state)]}"
    return f"{said}."


def describe(state: State) -> str:
    """Say how many tensors moved, which stayed, and whether a training step runs then."""
    done = state.move
    head = f"{source(state.device).replace('Measured on', 'On')}: {state.module}, made on the CPU"
    if not state.shown:
        marked = join_words([row.name for row in done.tensors if state.expects(row.name)])
        return f"{head}; next comes {state.call}. {_headline(state)} You expect it of {marked or 'none'}."
    stays = [row.name for row in done.tensors if not row.moved]
    behind = f"; {join_words(stays)} stayed" if 0 < len(stays) < len(done.tensors) else ""
    then = f"A training step with a batch on {state.device} then {_verdict(done)}"
    trouble = f": {_short(done.trouble)}" if done.trouble else "."
    said = f"{head}; then {state.call}. {_headline(state)}{behind}. "
    wrong = join_words([row.name for row in state.wrong])
    return f"{said}{f'You were wrong about {wrong}' if wrong else 'All as you expected'}. {then}{trouble}"


def explorer() -> Explorer:
    """Return the explorer on the first accelerator of this machine, before anything has happened."""
    return Explorer(
        "What moves, and what stays behind?",
        State(first_accelerator()),
        draw,
        describe,
        [
            Choice("module", "module", list(SPECIMENS)),
            Choice("call", "line", CALLS),
            Action(RUN, State.run, lambda state: not state.shown),
            Action(AGAIN, State.again, lambda state: state.shown),
            *(_offer_mark(name) for name in dict.fromkeys(name for one in SPECIMENS for name in names(one))),
        ],
    )


def _offer_mark(name: str) -> Action:
    """Return what a click on a tensor's box asks for."""
    return Action(
        f"mark {name}",
        lambda state: state.marked(name),
        lambda state: not state.shown and name in names(state.module),
        drawn=True,
    )


@functools.cache
def names(specimen: str) -> list[str]:
    """Return the names of a module's tensors, and of its optimizer's."""
    return [".".join(path) for path, _, kind, _ in _tree(*SPECIMENS[specimen]()) if kind]
