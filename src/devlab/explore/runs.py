"""Pictures of a reader's own run, which a stored notebook keeps: curves, mountains and digits."""

import base64
import contextlib
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import torch

from devlab import palette
from devlab.explore.axes import apart, guide
from devlab.explore.scene import SMALL, WIDE, Box, Path, Scene, Shape, Words
from devlab.explore.still import image
from devlab.panel import Panel, escape, notebook_shell
from devlab.sim.private import OperatorMode
from devlab.watching.memory import name_of, size
from devlab.watching.timeline import round_up

LEFT, RIGHT, TOP, LOW = 60, WIDE - 136, 24, 200
COLOURS = palette.HOST, palette.COPY, *palette.DEVICES
ROUND = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)  # where axes end
# The key of every mountain, from the bottom to the top. What no other kind explains is called activations.
KINDS = {
    "parameters": palette.HOST,
    "optimizer's state": palette.DEVICES[1],
    "gradients": palette.COPY,
    "activations": palette.DEVICES[0],
}


class Drawn(Panel):
    """A picture below its title, which can be drawn anew in its place."""

    accent = ""
    title = ""
    _shown = None

    @property
    def scene(self) -> Scene:
        """Return what there is to see."""
        raise NotImplementedError

    def html(self) -> str:
        """Return the picture as an image below its title."""
        return (
            f'<figure style="margin:0"><div><strong>{escape(self.title)}</strong></div>'
            f"{image(self.scene, self.text())}</figure>"
        )

    def show(self) -> None:
        """Show the picture in a notebook, the words elsewhere."""
        if (shell := notebook_shell()) is None:
            print(self.text())
            return
        from IPython.display import display

        self._shown_in_cell = shell.execution_count
        self._shown = display(self._content(), raw=True, display_id=True)

    def redraw(self) -> None:
        """Draw the picture anew where it is shown."""
        if self._shown is not None:
            self._shown.update(self._content(), raw=True)


class Curves(Drawn):
    """A picture of numbers over the steps in which they came, a curve for each name."""

    def __init__(self, title: str, curves: Mapping[str, Sequence[float]]):
        self.title = title
        self.curves = {name: [float(value) for value in values] for name, values in curves.items()}

    def add(self, **more: Sequence[float]) -> None:
        """Let curves go on with more values, and the axes with them, in the picture that is shown already.

        Raises:
            ValueError: as `curves` does, and for a curve that is not there.
        """
        for name, values in more.items():
            known = self.curves.get(name.replace("_", " "))
            if known is None:
                raise ValueError(f"there is no curve {name}; there is: {', '.join(self.curves)}")
            known += _check(name, values)
        self.redraw()

    def text(self) -> str:
        """Return the title, and for each curve where it begins, where it ends, and its extremes."""
        said = [
            f"{name}: {len(values)} values from {values[0]:.3g} to {values[-1]:.3g}, "
            f"the least {min(values):.3g}, the most {max(values):.3g}"
            for name, values in self.curves.items()
            if values
        ]
        return "\n".join([self.title, *said])

    @property
    def scene(self) -> Scene:
        """Return the curves as a scene: the first value at the left edge, 0 at the bottom.

        The axes end at round numbers, so that they seldom change while values arrive.
        """
        most = (
            round_up(max([0.0, *(max(values, default=0.0) for values in self.curves.values())]), ROUND) or 1
        )
        longest = max([2, *map(len, self.curves.values())])
        steps = max(10, round_up(longest, ROUND))
        shapes: list[Shape] = []
        for share in (0, 0.5, 1):
            y, x = LOW - share * (LOW - TOP), LEFT + share * (RIGHT - LEFT)
            shapes.append(guide(f"line {share}", (LEFT, y), (RIGHT, y)))
            shapes.append(guide(f"step line {share}", (x, TOP), (x, LOW)))
            words, look = f"{share * most:.3g}", {"size": SMALL}
            shapes.append(Words(id=f"at {share}", x=LEFT - 8, y=y, words=words, anchor="end", **look))
            words = "step" if share == 0 else f"{share * steps:,.0f}"
            shapes.append(Words(id=f"step {share}", x=x, y=LOW + 17, words=words, anchor="middle", **look))
        ends = {}
        reached = (RIGHT - LEFT) * (longest - 1) / (steps - 1)
        for (name, values), colour in zip(self.curves.items(), COLOURS, strict=False):
            points = [
                (
                    round(LEFT + place * reached / max(1, len(values) - 1), 1),
                    round(LOW - value / most * (LOW - TOP), 1),
                )
                for place, value in enumerate(values)
            ]
            if len(points) > 1:
                shapes.append(Path(id=name, points=tuple(points), edge=colour, thick=2))
            ends[name] = points[-1][1] if points else LOW
        for name, y in apart(ends).items():
            colour = COLOURS[list(self.curves).index(name)]
            shapes.append(
                Box(id=f"key of {name}", x=RIGHT + 8, y=y - 5, wide=10, high=10, fill=colour, edge="")
            )
            shapes.append(Words(id=f"name of {name}", x=RIGHT + 23, y=y, words=name, size=SMALL))
        return Scene(LOW + 26, shapes, "")


def curves(title: str, **named: Sequence[float]) -> Curves:
    """Draw curves, each named by its argument, whose underscores become spaces; return the picture.

    All curves share one axis up, which begins at 0, and end at one place: so one value for each epoch can
    stand beside one for each step. A curve may begin empty: `add` lets it grow while a training runs.

    Raises:
        ValueError: when there is no curve, more than four, or one with a value that cannot be drawn, such as
            nan or a negative number.

    >>> shown = curves("The loss falls", training=[2.0, 1.0, 0.5])
    The loss falls
    training: 3 values from 2 to 0.5, the least 0.5, the most 2
    >>> shown.add(training=[0.25])
    >>> len(shown.curves["training"])
    4
    """
    if not 1 <= len(named) <= len(COLOURS):
        raise ValueError(f"one to {len(COLOURS)} curves can be drawn, not {len(named)}")
    drawn = Curves(title, {name.replace("_", " "): _check(name, values) for name, values in named.items()})
    drawn.show()
    return drawn


def _check(name: str, values: Sequence[float]) -> list[float]:
    found = [float(value) for value in values]
    if not all(0 <= value < float("inf") for value in found):
        raise ValueError(f"{name} needs values that are finite and not negative")
    return found


class _AfterEach(OperatorMode):
    """Calls a function after each operator."""

    def __init__(self, note):
        super().__init__()
        self.note = note

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.note()
        return result


class Mountain(Drawn):
    """What of a device's memory was parameters, state, gradients and activations, after each operator.

    `moments` holds for each operator the phase that it ran in and the bytes of each kind. What was allocated
    before, and is none of the first three, is left out.
    """

    def __init__(self, title: str, model, optimizer=None, beside: "Mountain | None" = None):
        self.model, self.optimizer = model, optimizer
        self.stack = [*(beside.stack if beside else ()), self]
        self.device = next(model.parameters()).device
        self.title = f"{title}, on {name_of(self.device)}"
        self.moments: list[tuple[str, Counter]] = []
        self._phase = ""
        self._before = (self._allocated() or 0) - self._known().total()

    def phase(self, name: str) -> None:
        """Give what follows a name, which stands below it."""
        if not self._phase:  # what was there before it had a name
            self.moments = [(name, held) for _, held in self.moments]
        self._phase = name

    def _allocated(self) -> int | None:
        """Return the bytes that PyTorch's account of the device says; None where there is none."""
        module = torch.get_device_module(self.device)
        if hasattr(module, "memory_allocated"):
            return module.memory_allocated(self.device)
        return module.current_allocated_memory() if self.device.type == "mps" else None

    def _known(self) -> Counter:
        """Return the bytes of what the model and its optimizer hold."""
        held = Counter(dict.fromkeys(KINDS, 0))
        for parameter in self.model.parameters():
            held["parameters"] += parameter.nbytes
            held["gradients"] += 0 if parameter.grad is None else parameter.grad.nbytes
        for state in self.optimizer.state.values() if self.optimizer else ():
            tensors = (value for value in state.values() if isinstance(value, torch.Tensor))
            held["optimizer's state"] += sum(one.nbytes for one in tensors if one.device == self.device)
        return held

    def note(self) -> None:
        """Write the present moment down."""
        held, allocated = self._known(), self._allocated()
        if allocated is not None:
            held["activations"] = max(0, allocated - self._before - held.total())
            self.moments.append((self._phase, held))

    @property
    def peak(self) -> int:
        """Return the most bytes that were held at one moment."""
        return max(held.total() for _, held in self.moments)

    def text(self) -> str:
        """Return the title, and the most that each phase held."""
        lines = [self.title]
        if not self.moments:
            return f"{self.title}: PyTorch keeps no account of its memory that could be drawn"
        for phase, group in groupby(self.moments, key=lambda moment: moment[0]):
            most = max((held for _, held in group), key=Counter.total)
            parts = ", ".join(f"{size(count)} {kind}" for kind, count in most.items() if count)
            lines.append(f"{phase or 'all of it'}: {size(most.total())} at the most: {parts}")
        return "\n".join(lines)

    @property
    def scene(self) -> Scene:
        """Return the mountains of the stack below each other, to one scale of memory and one of operators."""
        most, longest = max(one.peak for one in self.stack), max(len(one.moments) for one in self.stack)
        scale, high = _round_bytes(most), 176 if len(self.stack) == 1 else 112
        shapes: list[Shape] = []
        for number, one in enumerate(self.stack):
            top = 24 + number * (high + 44)
            step = (RIGHT - LEFT) / max(1, longest - 1)
            shapes += one._draw(f"{number} ", top, top + high, scale, step, len(self.stack) > 1)
        for number, (kind, colour) in enumerate(KINDS.items()):
            y = 40 + 20 * (len(KINDS) - number)
            look = {"wide": 10, "high": 10, "fill": palette.tint(colour, 0.6), "edge": colour}
            shapes.append(Box(id=f"key of {kind}", x=RIGHT + 8, y=y - 5, **look))
            shapes.append(Words(id=f"name of {kind}", x=RIGHT + 23, y=y, words=kind, size=SMALL))
        return Scene(24 + len(self.stack) * (high + 44) - 14, shapes, "")

    def html(self) -> str:
        """Return the picture as an image; of several each has its own title in it."""
        if not self.moments:
            return escape(self.text())
        return image(self.scene, self.text()) if len(self.stack) > 1 else super().html()

    def _draw(
        self, name: str, top: float, low: float, scale: float, step: float, titled: bool
    ) -> Iterator[Shape]:
        if titled:
            yield Words(id=f"{name}title", x=LEFT, y=top - 12, words=self.title, size=SMALL, bold=True)
        for share in (0, 0.5, 1):
            y = low - share * (low - top)
            yield guide(f"{name}line {share}", (LEFT, y), (RIGHT, y))
            look = {"size": SMALL, "anchor": "end", "words": size(share * scale) if share else "0"}
            yield Words(id=f"{name}at {share}", x=LEFT - 8, y=y, **look)
        below = [0] * len(self.moments)
        for kind, colour in KINDS.items():
            above = [base + held[kind] for base, (_, held) in zip(below, self.moments, strict=True)]
            edge, floor = (
                [
                    (round(LEFT + at * step, 1), round(low - held / scale * (low - top), 1))
                    for at, held in enumerate(line)
                ]
                for line in (above, below)
            )
            if above != below:
                fill = palette.tint(colour, 0.6)
                yield Path(id=f"{name}{kind}", points=(*edge, *floor[::-1]), edge=colour, thick=1, fill=fill)
            below = above
        at = 0
        for phase, group in groupby(self.moments, key=lambda moment: moment[0]):
            start, at = LEFT + at * step, at + len(list(group))
            end = LEFT + (at - 1) * step
            yield Path(id=f"{name}end of {phase}", points=((end, low), (end, low + 8)), edge=palette.WAIT)
            look = {"size": SMALL, "anchor": "middle", "words": phase or "operator by operator"}
            yield Words(id=f"{name}{phase}", x=(start + end) / 2, y=low + 15, **look)


def _round_bytes(count: int) -> float:
    """Return the next round number of bytes, in the unit in which `size` writes it."""
    unit = 1024 ** max(0, (int(count).bit_length() - 1) // 10)
    return round_up(count / unit, ROUND) * unit


@contextlib.contextmanager
def mountain(
    title: str, model, optimizer=None, *, beside: Mountain | None = None, show: bool = True
) -> Iterator[Mountain]:
    """Draw the memory of a model's device in a block, after each operator: what of it is what.

    Call `phase("backward")` on what the block is given, to name what follows. The mountain `beside` is drawn
    above this one, to the same scale. Of the CPU's memory PyTorch keeps no account: then that is said.

    >>> import devlab.sim
    >>> devlab.sim.enable()
    >>> model = torch.nn.Linear(256, 256, bias=False, device="sim:0")
    >>> with mountain("One product", model) as drawn:
    ...     out = model(torch.ones(256, 256, device="sim:0"))
    One product, on sim:0 (simulated)
    all of it: 768 KiB at the most: 256 KiB parameters, 512 KiB activations
    """
    drawn = Mountain(title, model, optimizer, beside)
    drawn.note()
    with _AfterEach(drawn.note):
        yield drawn
    drawn.note()
    if show:
        drawn.show()


class Digits(Panel):
    """Small pictures in a row, each above its words, in the colour of the device that holds them."""

    accent = ""

    def __init__(self, pictures: torch.Tensor, words: Sequence[object]):
        self.colour = palette.of(pictures.device)
        self.pictures = pictures.detach().float().cpu().reshape(-1, *pictures.shape[-2:])
        self.words = [str(word) for word in words]

    def text(self) -> str:
        """Return how many pictures there are, and the words of each."""
        rows, columns = self.pictures.shape[-2:]
        return f"{len(self.pictures)} pictures of {rows} × {columns} pixels: {', '.join(self.words)}"

    def html(self) -> str:
        """Return the pictures as images, which need no trust; what is not ink is clear, in either theme."""
        most = self.pictures.max().item() or 1.0
        shown = [
            f'<figure style="margin:0;text-align:center"><img alt="picture of {escape(word)}" width="56" '
            f'height="56" style="image-rendering:pixelated;border:1px solid {palette.WAIT}" '
            f'src="data:image/png;base64,{_png(picture / most, self.colour)}">'
            f"<figcaption>{escape(word)}</figcaption></figure>"
            for picture, word in zip(self.pictures, self.words, strict=True)
        ]
        return f'<div style="display:flex;flex-wrap:wrap;gap:8px">{"".join(shown)}</div>'


def _png(ink: torch.Tensor, colour: str) -> str:
    """Return a picture as a PNG in base64: one colour, and as much of it as there is ink, from 0 to 1."""
    red_green_blue = bytes.fromhex(colour[1:])
    alpha = (ink.clamp(0, 1) * 255).round().to(torch.uint8).tolist()
    rows = b"".join(b"\0" + b"".join(red_green_blue + bytes([one]) for one in row) for row in alpha)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", len(alpha[0]), len(alpha), 8, 6, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + parts).decode()


def show_digits(pictures: torch.Tensor, words: Sequence[object]) -> Digits:
    """Show pictures of gray, such as digits, each with its words below; return them.

    `pictures` has the shape (count, rows, columns) or (count, 1, rows, columns); 0 is paper, the most is ink.

    Raises:
        ValueError: when there are not as many words as pictures.

    >>> shown = show_digits(torch.ones(2, 8, 8), ["3", "read as 8"])
    2 pictures of 8 × 8 pixels: 3, read as 8
    """
    if len(pictures) != len(words):
        raise ValueError(f"{len(pictures)} pictures need as many words, not {len(words)}")
    shown = Digits(pictures, words)
    shown.show()
    return shown
