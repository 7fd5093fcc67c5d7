"""The allocator: a device's memory as tensors come and go, and what stays taken when they have gone."""

from dataclasses import dataclass, replace

from devlab import palette
from devlab.explore.controls import Action, Choice
from devlab.explore.explorer import Explorer
from devlab.explore.paper import margins, sheet
from devlab.explore.places import first_accelerator, source
from devlab.explore.replay import NAMES, STRANGER, Allocate, Deed, Empty, Free, Memory, Piece, replay
from devlab.sim.allocator import segment_size
from devlab.watching.memory import size as text_of

MIB = 1 << 20
SIZES = {text_of(one): one for one in (MIB // 2, MIB, 3 * MIB, 6 * MIB, 12 * MIB, 20 * MIB)}
OLDEST, NEWEST, EVERY_SECOND = "the oldest", "the newest", "every second one"
LINE = 22.4  # MiB side by side: a segment of 20, or ten of 2 with a gap after each
GAP = 0.25
ROOMY = 1.9  # MiB that a block needs for its size to be written in it
LINES = 4  # that most stories on the simulated device need
# Nine tensors of 6 MiB, of which every second has gone: much is free, and nothing in one piece.
HOLES = (*(Allocate(6 * MIB) for _ in range(9)), Free(tuple("ACEGI")))


@dataclass(frozen=True)
class State:
    """What was done so far, and what the buttons would do next."""

    device: str
    deeds: tuple[Deed, ...] = HOLES
    size: int = 12 * MIB
    which: str = OLDEST

    @property
    def memory(self) -> Memory:
        """Return the memory after all that was done."""
        return replay(self.deeds, self.device)

    @property
    def chosen(self) -> tuple[str, ...]:
        """Return the names of the tensors that the choice means, if they live."""
        names = [name for name, _ in self.memory.living]
        if self.which == EVERY_SECOND:
            return tuple(names[::2])
        wanted = {OLDEST: names[:1], NEWEST: names[-1:]}.get(self.which, [self.which])
        return tuple(name for name in wanted if name in names)


def draw(state: State):
    """Return the figure: three bars for the sums, and below them each segment with its blocks, to scale."""
    memory = state.memory
    lines = _lines(memory)
    # In inches: the sums, the segments with the next request, and the room above, between and below.
    above, below, top, gap, bottom = 0.95, 0.43 * (len(lines) + 1), 0.28, 0.66, 0.48
    height = top + above + gap + below + bottom
    figure, (sums, blocks) = sheet(height, rows=2, height_ratios=(above, below))
    room = {"top": 1 - top / height, "bottom": bottom / height, "hspace": gap / ((above + below) / 2)}
    margins(figure, left=0.18, right=0.985, **room)
    colour = palette.of(state.device)
    _draw_sums(sums, memory, colour, state.device)
    _draw_segments(blocks, state, lines, colour)
    return figure


def _draw_sums(axes, memory: Memory, colour: str, device: str) -> None:
    """Draw what lives, what is taken, and the most that lived."""
    full, hollow = {"facecolor": colour, "alpha": 0.5}, {"facecolor": "none", "edgecolor": colour}
    rows = (
        ("allocated", memory.allocated, full),
        ("reserved", memory.reserved, {**hollow, "linewidth": 1.5}),
        ("peak", memory.peak, {**hollow, "linestyle": ":", "linewidth": 1.5}),
    )
    for row, (_, amount, look) in enumerate(rows):
        axes.broken_barh([(0, amount / MIB)], (row - 0.33, 0.66), **look)
    axes.set_yticks(range(len(rows)), [f"{name}  {text_of(amount)}" for name, amount, _ in rows])
    axes.set_ylim(2.6, -0.6)
    axes.tick_params("y", length=0)
    most = max(memory.reserved, memory.peak, MIB) / MIB
    if device.startswith("sim"):
        most = memory.capacity / MIB
        axes.axvline(most, color="black", linewidth=1.5)
        axes.set_title(f"the device has {text_of(memory.capacity)}", loc="right", fontsize=9)
    axes.set_xlim(0, most * 1.005)
    axes.set_xlabel("MiB")


def _lines(memory: Memory) -> list[list[tuple[float, tuple]]]:
    """Return the segments in lines, each with where it begins, in MiB: each in the first line with room."""
    lines: list[list] = [[] for _ in range(LINES)]
    ends = [0.0] * LINES
    for segment in memory.segments:
        width = sum(piece.size for piece in segment) / MIB
        at = next((line for line, end in enumerate(ends) if end + width <= LINE or not end), len(lines))
        if at == len(lines):
            lines.append([])
            ends.append(0.0)
        lines[at].append((ends[at], segment))
        ends[at] += width + GAP
    return lines


def _draw_segments(axes, state: State, lines: list, colour: str) -> None:
    """Draw each segment as a box, the tensors in it filled, and above them the next request."""
    chosen = state.chosen
    for row, line in enumerate(lines, start=1):
        for start, segment in line:
            at = start
            for piece in segment:
                width = piece.size / MIB
                _draw_piece(axes, at, row, width, piece, colour, piece.name in chosen)
                at += width
            axes.broken_barh(
                [(start, at - start)], (row - 0.4, 0.8), facecolor="none", edgecolor="black", linewidth=1.3
            )
    _draw_next(axes, state)
    axes.tick_params("y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(lines) + 0.6, -0.6)
    axes.set_xlim(0, LINE)
    axes.set_xticks(range(0, 21, 5))
    axes.set_xlabel("segments to scale (MiB)")


def _draw_piece(axes, start: float, row: int, width: float, piece: Piece, colour: str, chosen: bool) -> None:
    """Draw a block: filled where something lives, with a thick edge where that is to be freed next."""
    name = {STRANGER: "others", "": "free"}.get(piece.name, piece.name)
    if piece.name:
        colour = palette.WAIT if piece.name == STRANGER else colour
        place = [(start, width)], (row - 0.36, 0.72)
        axes.broken_barh(*place, facecolor=colour, alpha=0.45)
        axes.broken_barh(*place, facecolor="none", edgecolor=colour, linewidth=3 if chosen else 0.8)
    words = f"{name}\n{text_of(piece.size)}" if width >= ROOMY else piece.name
    axes.text(start + width / 2, row, words, ha="center", va="center", fontsize=8, linespacing=1.05)


def _draw_next(axes, state: State) -> None:
    """Draw what is to be allocated next, or what found no room, to the scale of the segments."""
    width = state.size / MIB
    axes.broken_barh(
        [(0, width)],
        (-0.3, 0.6),
        facecolor="none",
        edgecolor=palette.WAIT,
        linestyle="--",
        linewidth=1.5,
    )
    refused = state.memory.refused and state.deeds[-1] == Allocate(state.size)
    words = f"{text_of(state.size)}: out of memory" if refused else text_of(state.size)
    inside = width >= 6 or (width >= ROOMY and not refused)
    axes.text(0.3 if inside else width + 0.3, 0, words, va="center", fontsize=9)
    axes.set_yticks([0, 1], ["no room for" if refused else "next", "segments"])


def describe(state: State) -> str:
    """Say what lives, what is reserved, how the free memory is cut up, and what the last deed did."""
    memory = state.memory
    simulated = state.device.startswith("sim")
    device = f", a device of {text_of(memory.capacity)}" if simulated else ""
    free = f"of which free: {text_of(sum(memory.free))}"
    if len(memory.free) > 1:
        free += f" in {len(memory.free)} pieces, the longest {text_of(max(memory.free))}"
    untaken = f"; never taken: {text_of(memory.capacity - memory.reserved)}" if simulated else ""
    chosen = ", ".join(state.chosen) or "nothing"
    return (
        f"{source(state.device)}{device}: living tensors: {len(memory.living)}, with "
        f"{text_of(memory.allocated)} allocated (peak {text_of(memory.peak)}); segments: "
        f"{len(memory.segments)}, with {text_of(memory.reserved)} reserved, {free}{untaken}. "
        f"{_outcome(state)}To allocate next: {text_of(state.size)}; to free next, {state.which}: {chosen}."
    )


def _outcome(state: State) -> str:
    """Return in words what the last deed did."""
    memory, last = state.memory, state.deeds[-1] if state.deeds else None
    grown = memory.reserved - memory.reserved_before
    if isinstance(last, Free):
        return f"Last: {', '.join(last.names)} freed; the memory stays reserved. "
    if isinstance(last, Empty):
        given = (
            f"{text_of(-grown)} given back" if grown else "no segment is free as a whole, nothing given back"
        )
        return f"Last: the cache emptied, {given}. "
    if not isinstance(last, Allocate):
        return ""
    wanted = text_of(last.size)
    if memory.refused:
        return (
            f"Last: out of memory: {wanted} need one free piece, or a new segment of "
            f"{text_of(segment_size(last.size))}, and there is neither. "
        )
    if memory.retried:
        return f"Last: {wanted} found no room, so PyTorch emptied its cache and took a new segment. "
    if grown:
        return (
            f"Last: no free piece was long enough for {wanted}; a new segment of {text_of(grown)} was taken. "
        )
    return f"Last: {wanted} went into a free piece; nothing was taken from the device. "


def explorer() -> Explorer:
    """Return the explorer on the first accelerator of this machine that tells of its segments."""
    device = first_accelerator()
    if not device.startswith(("cuda", "xpu")):
        device = "sim:0"  # modelled: neither the CPU nor mps keeps such books
    return Explorer(
        "Device memory: what lives, what stays taken, what still fits",
        State(device),
        draw,
        describe,
        [
            Choice("size", "size", list(SIZES.items())),
            Action("Allocate", _allocate, lambda state: len(state.memory.living) < len(NAMES)),
            Choice("which", "tensor", [OLDEST, NEWEST, EVERY_SECOND, *NAMES]),
            Action("Free", lambda state: _did(state, Free(state.chosen)), lambda state: bool(state.chosen)),
            Action("Empty the cache", lambda state: _did(state, Empty())),
            Action(
                "Undo", lambda state: replace(state, deeds=state.deeds[:-1]), lambda state: bool(state.deeds)
            ),
            Action("Start empty", lambda state: replace(state, deeds=()), lambda state: bool(state.deeds)),
        ],
    )


def _allocate(state: State) -> State:
    return _did(state, Allocate(state.size))


def _did(state: State, deed: Deed) -> State:
    return replace(state, deeds=(*state.deeds, deed))
