"""The timeline: what the host and the device do, statement by statement, with and without waits."""

import functools
from dataclasses import dataclass, replace

import torch

from devlab import palette
from devlab.explore.controls import Action, Choice
from devlab.explore.explorer import Explorer
from devlab.explore.paper import WAITING_HATCH, sheet
from devlab.explore.places import first_accelerator, source
from devlab.instruments.lanes import COPYING, HOST, WAITING, Span, lay_out
from devlab.instruments.sizes import duration
from devlab.instruments.watch import watch

FILE = "<the timeline's program>"
PREPARATION = "import torch; x = torch.ones(1024, 1024, device=device); w = x / 1024; x @ w; scale = 0.5"
PROGRAMS = {
    "three matrix products": ("a = x @ w", "b = a @ w", "c = b @ w"),
    "a loop that prints its loss": (
        "loss = (x @ w).mean()",
        "print(loss.item())",
        "loss = (x @ w).mean()",
        "print(loss.item())",
    ),
    "bring the result home": ("y = x @ w", "y = y.relu()", "home = y.cpu()", "z = x @ w"),
}
NEVER, AT_THE_END, ALWAYS = "nowhere", "at the end", "after every statement"
WAIT = "torch.accelerator.synchronize()"


@dataclass(frozen=True)
class State:
    """A program, where the host synchronizes besides, and how many of its statements have been run."""

    device: str
    program: str = "three matrix products"
    synchronize: str = AT_THE_END
    shown: int = 99  # statements; more than there are means all

    @property
    def statements(self) -> tuple[str, ...]:
        """Return the statements, with the synchronizations that were asked for."""
        own = PROGRAMS[self.program]
        if self.synchronize == ALWAYS:
            return tuple(line for statement in own for line in (statement, WAIT))
        return (*own, WAIT) if self.synchronize == AT_THE_END else own

    @property
    def reached(self) -> int:
        """Return how many statements are shown as run, at least one."""
        return max(1, min(self.shown, len(self.statements)))


@functools.lru_cache(maxsize=32)
def run(statements: tuple[str, ...], device: str) -> dict[str, list[Span]]:
    """Run the statements under a watch and return what each lane did, in seconds."""
    names = {"device": device, "print": lambda *values: None}
    exec(PREPARATION, names)
    torch.accelerator.synchronize(device)
    with watch() as log:
        for number, statement in enumerate(statements):
            exec(compile("\n" * number + statement, FILE, "exec"), names)
    return lay_out(log.events)


def draw(state: State):
    """Return the figure: the statements on the left of their stretches of host and device."""
    statements = state.statements
    lanes = run(statements, state.device)
    lines = len(statements)
    figure, axes = sheet(1.6 + 0.34 * lines)
    unit, name = (1e3, "ms") if _end(lanes) >= 1e-3 else (1e6, "µs")
    for row, statement in enumerate(statements, start=1):
        reached = row <= state.reached
        axes.text(
            -0.015, row, f"{row}  {statement}", transform=axes.get_yaxis_transform(), ha="right", va="center",
            family="DejaVu Sans Mono", fontsize=8, alpha=1.0 if reached else 0.35,
        )  # fmt: skip
        if not reached:
            continue
        for lane, spans in lanes.items():
            for span in spans:
                if getattr(span.line, "number", 0) == row:
                    axes.broken_barh([(span.start * unit, span.seconds * unit)], **_look(lane, span, row))
    axes.set_ylim(lines + 0.6, 0.4)
    axes.set_xlim(0, _end(lanes) * unit * 1.02)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"time ({name})")
    _name_the_looks(figure, lanes)
    return figure


def _look(lane: str, span: Span, row: int) -> dict:
    """Return how a stretch is drawn: the host above the middle of its row, devices below."""
    if lane == HOST:
        above = {"yrange": (row - 0.38, 0.34)}
        if span.state == WAITING:
            return {**above, "facecolor": "none", "edgecolor": palette.WAIT, "hatch": WAITING_HATCH}
        return {**above, "facecolor": palette.HOST}
    if span.state == COPYING:
        return {"yrange": (row + 0.12, 0.18), "facecolor": palette.COPY}
    return {"yrange": (row + 0.04, 0.34), "facecolor": palette.of(lane.split()[0])}


def _name_the_looks(figure, lanes: dict[str, list[Span]]) -> None:
    from matplotlib.patches import Patch

    states = {
        (lane == HOST, span.state): _look(lane, span, 0) for lane, spans in lanes.items() for span in spans
    }
    handles = []
    for (host, what), look in states.items():
        look.pop("yrange")
        handles.append(Patch(label=f"{'host' if host else 'device'} {what}", **look))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)


def _end(lanes: dict[str, list[Span]]) -> float:
    return max(span.end for spans in lanes.values() for span in spans)


def describe(state: State) -> str:
    """Say how long the host waited, and who was done first."""
    lanes = run(state.statements, state.device)
    waited = sum(span.seconds for span in lanes[HOST] if span.state == WAITING)
    host = max(span.end for span in lanes[HOST])
    device = max((span.end for lane, spans in lanes.items() if lane != HOST for span in spans), default=0.0)
    ending = "before the device" if host < device else "with the device" if waited else "after the device"
    return (
        f"{source(state.device)}: the host is done after {duration(host)}, {ending} ({duration(device)}); "
        f"it waits for {duration(waited)} of that. Synchronize: {state.synchronize}. "
        f"Statement {state.reached} of {len(state.statements)}: {state.statements[state.reached - 1]}"
    )


def explorer() -> Explorer:
    """Return the explorer on the first accelerator of this machine."""
    return Explorer(
        "Host and device in time",
        State(first_accelerator()),
        draw,
        describe,
        [
            Choice("program", "program", list(PROGRAMS)),
            Choice("synchronize", "synchronize", [NEVER, AT_THE_END, ALWAYS]),
            Action("One statement back", _step(-1), lambda state: state.reached > 1),
            Action("One statement on", _step(1), lambda state: state.reached < len(state.statements)),
        ],
    )


def _step(by: int):
    return lambda state: replace(state, shown=state.reached + by)
