"""Short programs for an accelerator, run statement by statement: what host and device did, and when."""

import functools
import time
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from devlab import palette
from devlab.explore.controls import Action, Choice
from devlab.explore.explorer import Explorer
from devlab.explore.paper import WAITING_HATCH, WIDTH, first_accelerator, sheet, source
from devlab.watching.memory import duration
from devlab.watching.record import Line
from devlab.watching.timeline import COMPUTING, COPYING, HOST, STAGING, WAITING, Span, lay_out
from devlab.watching.watch import watch

FILE = "<the timeline's program>"
WAIT = "torch.accelerator.synchronize(device)"
PREPARATION = "x = torch.ones(n, n, device=device); w = x / n"
# Prepared only for the programs that use the name: not every device has it.
NEEDED = {
    "batch": "batch = torch.ones(n // 4, n).pin_memory()",
    "plain": "plain = torch.ones(n // 8, n)",
    "side": "main = torch.accelerator.current_stream(device); side = torch.Stream(device)",
}
MISSING = {"cpu": ("batch", "plain", "side"), "mps": ("side",)}
EARLY = "bring it home, read it early"
PROGRAMS = {
    "three matrix products": ("a = x @ w", "b = a @ w", "c = b @ w"),
    "a loss printed in the loop": ("loss = (x @ w).mean()", "print(loss.item())") * 3,
    "losses printed at the end": (
        "a = (x @ w).mean()",
        "b = (x @ w).mean()",
        "c = (x @ w).mean()",
        "print(torch.stack([a, b, c]).tolist())",
    ),
    "bring the result home": ("y = x @ w", "y = y.relu()", "home = y.cpu()", "z = x @ w"),
    EARLY: ("y = x @ w", 'home = y.to("cpu", non_blocking=True)', "print(home[0, 0].item())"),
    "a batch from ordinary memory": (
        "y = x @ w",
        "b = plain.to(device, non_blocking=True)",
        "c = plain.to(device)",
        "z = c @ w",
    ),
    "a batch in the same stream": (
        "y = x @ w",
        "b = batch.to(device, non_blocking=True)",
        "z = b @ w",
    ),
    "a batch in a second stream": (
        "y = x @ w",
        "with side: b = batch.to(device, non_blocking=True)",
        "main.wait_stream(side)",
        "z = b @ w",
    ),
}


class Run(NamedTuple):
    """What each lane did, in seconds, and what the statements printed, by their number from 1."""

    lanes: dict[str, list[Span]]
    printed: dict[int, str]
    home: float | None  # what `home` holds at its first place, once everything has arrived

    @property
    def end(self) -> float:
        """Return when the last of them was done."""
        return max(span.end for spans in self.lanes.values() for span in spans)


def offered(device: str) -> list[str]:
    """Return the names of the programs that can run there.

    >>> len(offered("cuda:0")), len(offered("mps:0")), len(offered("cpu"))
    (8, 7, 5)
    """
    missing = MISSING.get(device.partition(":")[0], ())
    return [name for name, lines in PROGRAMS.items() if not any(word in "".join(lines) for word in missing)]


@functools.lru_cache(maxsize=32)
def run(statements: tuple[str, ...], device: str) -> Run:
    """Run the statements under a watch; on a real device twice: the first time it has kernels to load.

    >>> run(("a = x @ w", "print(a[0, 0].item())"), "cpu").printed
    {2: '1.0'}
    """
    if device == "cpu":
        return _run_here(statements)
    for _ in range(1 if device.startswith("sim") else 2):
        names = _prepared(device)
        for word, preparation in NEEDED.items():
            if word in "".join(statements):
                exec(preparation, names)
        torch.accelerator.synchronize(device)
        with watch() as log:
            for number, statement in enumerate(statements, start=1):
                _execute(statement, number, names)
        torch.accelerator.synchronize(device)
    return Run(lay_out(log.events), names["printed"], _home(names))


def _run_here(statements: tuple[str, ...]) -> Run:
    """Run the statements where there is no accelerator: the host does all the work, and never waits."""
    spans = []
    for _ in range(2):
        names = _prepared("cpu")
        spans.clear()
        first = time.perf_counter()
        for number, statement in enumerate(statements, start=1):
            began = time.perf_counter() - first
            if statement != WAIT:
                _execute(statement, number, names)
            ended = time.perf_counter() - first
            spans.append(Span(began, ended, COMPUTING, statement, Line(FILE, number)))
    return Run({HOST: spans}, names["printed"], _home(names))


def _prepared(device: str) -> dict:
    """Return the names that the programs use; what they print is kept by the number of the statement."""
    real = not device.startswith(("cpu", "sim"))
    names: dict = {"torch": torch, "device": device, "n": 2048 if real else 512, "printed": {}, "number": 0}
    names["print"] = lambda value: names["printed"].update({names["number"]: str(value)})
    exec(PREPARATION, names)
    return names


def _execute(statement: str, number: int, names: dict) -> None:
    """Run a statement on the line of its number, by which the log knows it."""
    names["number"] = number
    exec(compile("\n" * (number - 1) + statement, FILE, "exec"), names)


def _home(names: dict) -> float | None:
    return names["home"][0, 0].item() if "home" in names else None


LETTER = 0.068  # inches: the width of a letter of the statements; what they print is set narrower
NEVER, AT_THE_END, ALWAYS = "nowhere", "at the end", "after every statement"


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


def draw(state: State):
    """Return the figure: the statements on the left of their stretches of host and device."""
    statements = state.statements
    lanes, printed, _ = done = run(statements, state.device)
    lines = len(statements)
    height = 1.0 + 0.4 * lines
    left = 0.5 + LETTER * max(map(len, statements))
    right = 0.15 + LETTER * max((len(f"prints {text}") for text in printed.values()), default=0)
    margins = {
        "left": left / WIDTH,
        "right": 1 - right / WIDTH,
        "bottom": 0.55 / height,
        "top": 1 - 0.4 / height,
    }
    figure, axes = sheet(height, margins=margins)
    unit, name = (1e3, "ms") if done.end >= 1e-3 else (1e6, "µs")
    for row, statement in enumerate(statements, start=1):
        reached = row <= state.reached
        axes.text(
            -0.015, row, f"{row}  {statement}", transform=axes.get_yaxis_transform(), ha="right", va="center",
            family="DejaVu Sans Mono", fontsize=8, alpha=1.0 if reached else 0.35,
        )  # fmt: skip
        if not reached:
            continue
        if row in printed:
            axes.text(
                1.01, row, f"prints {printed[row]}", transform=axes.get_yaxis_transform(), va="center",
                fontsize=9,
            )  # fmt: skip
            _mark_the_reading(axes, done, row, unit)
        for lane, spans in lanes.items():
            for span in spans:
                if getattr(span.line, "number", 0) == row:
                    axes.broken_barh([(span.start * unit, span.seconds * unit)], **_look(lane, span, row))
    axes.set_ylim(lines + 0.6, 0.4)
    axes.set_xlim(0, done.end * unit * 1.02)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"time ({name})")
    _name_the_looks(figure, lanes)
    return figure


def _mark_the_reading(axes, done: Run, row: int, unit: float) -> None:
    """Mark when the host printed what was at hand, which takes no time worth drawing."""
    spans = [span for span in done.lanes[HOST] if getattr(span.line, "number", 0) <= row]
    if spans and spans[-1].line.number == row:
        return  # printing had to wait, and that wait is drawn
    at = spans[-1].end * unit if spans else 0.0
    early = at < done.end * unit / 2
    axes.plot([at], [row], marker="D", color=palette.HOST)
    axes.annotate(
        "host reads", (at, row), (8 if early else -8, 0), textcoords="offset points", va="center",
        ha="left" if early else "right", fontsize=9,
    )  # fmt: skip


def _look(lane: str, span: Span, row: int) -> dict:
    """Return how a stretch is drawn: the host above the middle of its row, devices below."""
    if lane == HOST:
        above = {"yrange": (row - 0.38, 0.34)}
        if span.state == WAITING:
            return {**above, "facecolor": "none", "edgecolor": palette.WAIT, "hatch": WAITING_HATCH}
        return {**above, "facecolor": palette.COPY if span.state == STAGING else palette.HOST}
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
    look = {"loc": "upper center", "frameon": False, "columnspacing": 1.0, "handlelength": 1.2}
    figure.legend(handles=handles, ncols=len(handles), **look)


def describe(state: State) -> str:
    """Say how long the host waited, which device was done first, and what was printed."""
    done = run(state.statements, state.device)
    waited = sum(span.seconds for span in done.lanes[HOST] if span.state == WAITING)
    host = max(span.end for span in done.lanes[HOST])
    device = max(
        (span.end for lane, spans in done.lanes.items() if lane != HOST for span in spans), default=0.0
    )
    if state.device == "cpu":
        told = f"there is no accelerator here, so the host does all the work itself, in {duration(host)}"
    else:
        ending = "before the device" if host < device else "with the device" if waited else "after the device"
        told = (
            f"the host is done after {duration(host)}, {ending} ({duration(device)}); "
            f"it waits for {duration(waited)} of that"
        )
    return (
        f"{source(state.device)}: {told}. Synchronize: {state.synchronize}. "
        f"Statement {state.reached} of {len(state.statements)}: {state.statements[state.reached - 1]}"
        f"{_told(state, done)}"
    )


def _told(state: State, done: Run) -> str:
    """Say what has been printed so far, and what it would have been had the copy arrived."""
    printed = [text for row, text in done.printed.items() if row <= state.reached]
    if not printed:
        return ""
    said = f"; printed so far: {', '.join(printed)}"
    if done.home is not None and printed[-1] != str(done.home):
        said += f", read before the copy had ended, which brought {done.home}"
    return said


def explorer() -> Explorer:
    """Return the explorer on the first accelerator of this machine."""
    device = first_accelerator()
    return Explorer(
        "Host and device in time",
        State(device),
        draw,
        describe,
        [
            Choice("program", "program", offered(device)),
            Choice("synchronize", "synchronize", [NEVER, AT_THE_END, ALWAYS]),
            Action("One statement back", _step(-1), lambda state: state.reached > 1),
            Action("One statement on", _step(1), lambda state: state.reached < len(state.statements)),
        ],
    )


def _step(by: int):
    return lambda state: replace(state, shown=state.reached + by)
