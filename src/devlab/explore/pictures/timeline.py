"""Short programs for an accelerator, run statement by statement: what host and device did, and when."""

import functools
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from devlab import palette
from devlab.explore.controls import Choice, Lines, Number, Refused
from devlab.explore.explorer import Explorer
from devlab.explore.lanes import GHOST, LEFT, LETTER, RIGHT, Chart, compare
from devlab.explore.origin import first_accelerator, source
from devlab.explore.scene import INK, Scene, Stop
from devlab.panel import join_words
from devlab.watching.memory import duration
from devlab.watching.record import Line
from devlab.watching.timeline import COMPUTING, COPYING, HOST, STAGING, STARTING, WAITING, Span, lay_out
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
    "a batch from pageable memory": (
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


# The kind of a lane, the row of the statement, and a number for each span of the two.
Part = tuple[str, int, int, Span]


class Run(NamedTuple):
    """What each lane did, in seconds, and what the statements printed, by their number from 1."""

    lanes: dict[str, list[Span]]
    printed: dict[int, str]
    home: float | None  # what `home` holds at its first place, once everything has arrived

    @property
    def end(self) -> float:
        """Return when the last of them was done."""
        return max(span.end for spans in self.lanes.values() for span in spans)

    @property
    def waits(self) -> list[Span]:
        """Return when the host waited."""
        return [span for span in self.lanes[HOST] if span.state == WAITING and span.seconds > 0]

    @property
    def waited(self) -> float:
        """Return how long the host waited."""
        return sum(span.seconds for span in self.waits)

    @property
    def read_early(self) -> str:
        """Return what was printed last, if the copy that brings it had not ended; else nothing."""
        last = list(self.printed.values())[-1:]
        return last[0] if last and self.home is not None and last[0] != str(self.home) else ""

    def until(self, row: int) -> "Run":
        """Return what came of the statements up to a row."""
        lanes = {lane: [span for span in spans if _row(span) <= row] for lane, spans in self.lanes.items()}
        return self._replace(
            lanes=lanes, printed={at: text for at, text in self.printed.items() if at <= row}
        )

    @property
    def parts(self) -> list[Part]:
        """Return every span of a statement with where it belongs."""
        found, count = [], Counter()
        for lane, spans in self.lanes.items():
            for span in filter(_row, spans):
                place = HOST if lane == HOST else lane.split()[-1], _row(span)
                found.append((*place, count[place], span))
                count[place] += 1
        return found


def _row(span: Span) -> int:
    return getattr(span.line, "number", 0)


def programs_for(device: str) -> list[str]:
    """Return the names of the programs that can run there.

    >>> len(programs_for("cuda:0")), len(programs_for("mps:0")), len(programs_for("cpu"))
    (8, 7, 5)
    """
    missing = MISSING.get(device.partition(":")[0], ())
    return [name for name, lines in PROGRAMS.items() if not any(word in "".join(lines) for word in missing)]


@functools.lru_cache(maxsize=32)
def run_statements(statements: tuple[str, ...], device: str) -> Run:
    """Run the statements under a watch; on a real device twice: the first time it has kernels to load.

    >>> run_statements(("a = x @ w", "print(a[0, 0].item())"), "cpu").printed
    {2: '1.0'}
    """
    if device == "cpu":
        return _run_here(statements)
    for _ in range(1 if device.startswith("sim") else 2):
        names = _prepare(device)
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
        names = _prepare("cpu")
        spans.clear()
        first = time.perf_counter()
        for number, statement in enumerate(statements, start=1):
            began = time.perf_counter() - first
            if statement != WAIT:
                _execute(statement, number, names)
            ended = time.perf_counter() - first
            spans.append(Span(began, ended, COMPUTING, statement, Line(FILE, number)))
    return Run({HOST: spans}, names["printed"], _home(names))


def _prepare(device: str) -> dict:
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


NEVER, AT_THE_END, ALWAYS = "nowhere", "at the end", "after every statement"
MOST = 2 * max(map(len, PROGRAMS.values()))  # statements
HIGH, TOP, BOTTOM = 327, 114, 304  # where the picture ends, and where the lanes begin and end
ROWS, ROW, COLUMN, INDENT = 6, 18, 392, 29  # how many statements stand below each other, and how far apart
PRINTS, BAR, PLACES = 140, 28, {HOST: 150, COMPUTING: 206, COPYING: 262}
TASKS = {HOST: "gives orders", COMPUTING: "computes", COPYING: "copies"}
SPENT = 300  # how wide the whole scale of time is below a statement
DOES = {
    STARTING: "starts",
    STAGING: "stages the bytes for",
    WAITING: "waits in",
    COMPUTING: "computes",
    COPYING: "copies for",
}
# What the reader is asked before a program is played for the first time.
GUESSES = {
    "three matrix products": "how much of the time does the host wait, and at which line?",
    "a loss printed in the loop": "at which lines does the host wait, and what does the device do then?",
    "losses printed at the end": "how often does the host wait, and is that shorter than with prints?",
    "bring the result home": "at which line does the host wait, and when does the last product begin?",
    EARLY: "at which line does the host wait, and what does the program print?",
    "a batch from pageable memory": "which of the two copies makes the host wait?",
    "a batch in the same stream": "does the device copy while it computes?",
    "a batch in a second stream": "does the device copy while it computes, and is that shorter?",
}


# Programs that do the same work, so that their times can be compared.
SAME_WORK = (
    {"a loss printed in the loop", "losses printed at the end"},
    {"a batch in the same stream", "a batch in a second stream"},
)


@dataclass(frozen=True)
class State:
    """A program, where the host synchronizes besides, and how many of its statements have been run.

    `own` are the lines as the reader has changed them. `before` is the state before, where it did the same
    work. `take` counts what has been asked for, and `guess` tells that the reader has a new program before
    them, which was not played yet.
    """

    device: str
    program: str = "three matrix products"
    synchronize: str = AT_THE_END
    shown: int = MOST  # more than there are means all
    own: tuple[str, ...] = ()
    before: "State | None" = None
    take: int = 0
    guess: bool = True

    @property
    def program_lines(self) -> tuple[str, ...]:
        """Return the lines of the program, without the synchronizations."""
        return self.own or PROGRAMS[self.program]

    @property
    def lines(self) -> dict[str, str]:
        """Return the statements, with the synchronizations that were asked for.

        A statement keeps its key wherever the host synchronizes.
        """
        own, lines = self.program_lines, {}
        for number, statement in enumerate(own, start=1):
            lines[f"{number}"] = statement
            if self.synchronize == ALWAYS or (self.synchronize == AT_THE_END and number == len(own)):
                lines[f"after {number}"] = WAIT
        return lines

    @property
    def statements(self) -> tuple[str, ...]:
        """Return the statements alone."""
        return tuple(self.lines.values())

    @property
    def reached(self) -> int:
        """Return how many statements are shown as run, at least one."""
        return max(1, min(self.shown, len(self.lines)))

    @property
    def whole(self) -> bool:
        """Tell whether all statements are shown as run."""
        return self.reached == len(self.lines)

    @property
    def done(self) -> Run:
        """Return the run of the statements up to the one reached."""
        return run_statements(self.statements, self.device).until(self.reached)

    @property
    def done_before(self) -> Run | None:
        """Return the whole run before."""
        return self.before and run_statements(self.before.statements, self.device)


def follow(before: State, now: State) -> State:
    """Return the state after a setting: played at once, or guessed first if the program is new.

    Raises Refused where the reader's own lines do not run.
    """
    if now == before:
        return now
    new = now.program != before.program
    now = replace(now, take=before.take + 1, guess=new, own=() if new else now.own)
    if now.lines == before.lines:
        return now
    try:
        lanes = run_statements(now.statements, now.device).lanes.values()
    except Exception as error:
        said = f"{type(error).__name__}: {str(error).splitlines()[0].partition(f' ({FILE}')[0]}"
        raise Refused(f"These lines do not run, so they were put back. {said}") from None
    if not any(span.seconds > 0 for lane in lanes for span in lane):
        raise Refused(f"The lines were put back: nothing in them is work for {now.device}.")
    alike = not new or any({now.program, before.program} <= pair for pair in SAME_WORK)
    return replace(now, shown=MOST, before=replace(before, before=None) if alike else None)


def draw(state: State) -> Scene:
    """Return the scene: the statements, and below them the lanes of host and device."""
    done, before = state.done, state.done_before
    each = [replace(state, synchronize=where).statements for where in (NEVER, AT_THE_END, ALWAYS)]
    beside = [run_statements(statements, state.device).end for statements in each]
    chart = Chart(state.device, done.end, beside + ([before.end] if before else []), TOP, BOTTOM)
    _write_statements(chart, state, done.parts)
    alone = state.device == "cpu"
    if alone:
        chart.words("alone", (LEFT + RIGHT) / 2, 248, "there is no accelerator here", anchor="middle")
    for kind, y in PLACES.items():
        who = "host" if kind == HOST else state.device
        if not alone or kind == HOST:
            chart.lane(kind, y, BAR, who, "computes" if alone else TASKS[kind], before is not None)
    for kind, row, number, span in before.parts if before else ():
        name, says = f"{kind} {row} {number}", _says(state, kind, row, span)
        place = PLACES[kind] + BAR + 3
        chart.ghost(name, span[:2], place, GHOST, says, hatched=span.state == WAITING)
    _draw_lanes(chart, state, done.parts)
    _write_prints(chart, state, done)
    name = "the program" if state.whole else f"up to line {state.reached}, it"
    chart.finish(name, before.end if before and state.whole else None)
    question = "which line takes longest?" if alone else GUESSES[state.program]
    guess = f"Read the program and guess: {question} Then press Play." if state.guess else ""
    return Scene(HIGH, chart.shapes, caption(state), chart.played, state.take, guess)


def _fill(state: State, kind: str, span: Span) -> str:
    """Return the colour of a stretch, none for waiting."""
    if span.state == WAITING:
        return ""
    if span.state in (STAGING, COPYING):
        return palette.COPY
    return palette.HOST if kind == HOST else palette.of(state.device)


def _says(state: State, kind: str, row: int, span: Span) -> str:
    who = "the host" if kind == HOST else state.device
    return f"line {row}: {who} {DOES[span.state]} {span.name}, {duration(span.seconds)}"


def _write_statements(chart: Chart, state: State, parts: list[Part]) -> None:
    """Write the program; a bar below each statement is as long as the statement keeps the host."""
    places = [(COLUMN * (row // ROWS), 8 + ROW * (row % ROWS)) for row in range(len(state.lines) + 1)]
    field, written = "own", state.program_lines
    for row, (key, statement) in enumerate(state.lines.items(), start=1):
        x, y = places[row - 1]
        at = int(key) - 1 if key.isdigit() else None  # of the reader's own lines
        stops = [
            Stop(
                *places[to],
                {"set": {field: move_line(written, at, number)}},
                f"let line {row} be line {to + 1}",
            )
            for to, number in _places_of_lines(state)
            if at is not None
        ]
        own = [(number, span) for kind, one, number, span in parts if (kind, one) == (HOST, row)]
        chart.words(
            f"line {key}", x, y, f"{row:>2}  {statement}", mono=True, faint=row > state.reached,
            says=f"line {row}: click to play up to here"
            + (", double-click (or F2) to write, drag to move" if stops else ""),
            asks={"set": {"shown": row}}, stops=tuple(stops), writes=(field, written, at) if stops else None,
        )  # fmt: skip
        x += INDENT
        for number, span in own:
            wide = round(SPENT * span.seconds / chart.scale, 2)
            if wide >= 1:
                place, says = (x, y + 8, wide, 4), _says(state, HOST, row, span)
                chart.box(f"spent {key} {number}", span[:2], place, _fill(state, HOST, span), says)
            x += wide
    _offer_line(chart, state, places[-1])


def _offer_line(chart: Chart, state: State, place: tuple[float, float]) -> None:
    """Write that a line can be added, where there is room for it."""
    lines, (x, y) = state.program_lines, place
    if len(lines) < MOST // 2 and not state.guess:
        chart.words(
            "new line", x + 12, y, "+ a line of your own", quiet=True, writes=("own", lines, len(lines)),
            says="click to write one more line",
        )  # fmt: skip


def _places_of_lines(state: State) -> list[tuple[int, int]]:
    """Return for each line of the program its row among all statements and its own number, from 0."""
    return [(row, int(key) - 1) for row, key in enumerate(state.lines) if key.isdigit()]


def move_line(lines: tuple[str, ...], at: int, to: int) -> tuple[str, ...]:
    """Return lines of which one was moved to another place.

    >>> move_line(("a", "b", "c"), 0, 2)
    ('b', 'c', 'a')
    """
    rest = [*lines[:at], *lines[at + 1 :]]
    return (*rest[:to], lines[at], *rest[to:])


def _draw_lanes(chart: Chart, state: State, parts: list[Part]) -> None:
    """Draw the bars, and a line from each order of the host to the work that the device does for it."""
    keys = list(state.lines)
    for row, key in enumerate(keys, start=1):
        own = [(kind, span) for kind, one, _, span in parts if one == row]
        orders = [span for kind, span in own if kind == HOST]
        works = sorted(((span, kind) for kind, span in own if kind != HOST), key=lambda one: one[0].start)
        for number, (order, (work, kind)) in enumerate(zip(orders, works, strict=False)):
            if order.state != WAITING:
                ends = (chart.x(order.end), PLACES[HOST] + BAR), (chart.x(work.start), PLACES[kind])
                during = chart.share(work.start, work.start)
                chart.line(f"order {key} {number}", *ends, arrow=True, edge=INK, during=during)
    for kind, row, number, span in parts:
        label = f"{row}" + {WAITING: " waits", STAGING: " stages"}.get(span.state, "")
        name, says = f"{kind} {keys[row - 1]} {number}", _says(state, kind, row, span)
        chart.bar(name, span[:2], PLACES[kind], BAR, _fill(state, kind, span), label, says)


def _write_prints(chart: Chart, state: State, done: Run) -> None:
    """Write above the host what it prints, after the time at which it does, or before where room is short."""
    room, keys = RIGHT, list(state.lines)
    for row, text in reversed(done.printed.items()):
        at = max((span.end for span in done.lanes[HOST] if _row(span) <= row), default=0.0)
        words = f"{row} prints {text}"
        x, wide, anchor = chart.x(at) + 6, LETTER * len(words), "start"
        if x + wide > room:  # up to the words that come later
            x, anchor = min(x - 12, room), "end"
        chart.words(f"prints {keys[row - 1]}", x, PRINTS, words, at, anchor=anchor)
        room = x - 6 - wide * (anchor == "end")


def caption(state: State) -> str:
    """Say in a sentence how long it takes, where the host waits, and what is read too early."""
    done, before = state.done, state.done_before
    name = "the program" if state.whole else f"up to line {state.reached}, it"
    taken = f"{name} takes {duration(done.end)}"
    if before and state.whole:
        taken += f", {compare(done.end, before.end)}"
    rows = sorted({_row(span) for span in done.waits})
    if state.device == "cpu":
        told = "and the host does all the work itself, for there is no accelerator here"
    elif rows:
        places = f"at line{'s' * (len(rows) > 1)} {join_words(list(map(str, rows)))}"
        told = f"and the host waits for {duration(done.waited)} of that, {places}"
    else:
        told = f"and the host, which waits for nothing, is done after {duration(done.lanes[HOST][-1].end)}"
    early = done.read_early
    told += f"; it prints {early}, because the copy has not brought {done.home} yet" if early else ""
    return f"{source(state.device)}: {taken}, {told}."


def describe(state: State) -> str:
    """Say how long the host waited, which device was done first, and what was printed."""
    done, before = run_statements(state.statements, state.device), state.done_before
    host = max(span.end for span in done.lanes[HOST])
    device = max([0.0, *(span.end for lane, spans in done.lanes.items() if lane != HOST for span in spans)])
    if state.device == "cpu":
        told = f"there is no accelerator here, so the host does all the work itself, in {duration(host)}"
    else:
        ending = (
            "before the device" if host < device else "with the device" if done.waits else "after the device"
        )
        told = (
            f"the host is done after {duration(host)}, {ending} ({duration(device)}); "
            f"it waits for {duration(done.waited)} of that"
        )
    if before:
        told += f"; all of it takes {duration(done.end)}, {compare(done.end, before.end)}"
        told += f" ({state.before.program})"
    return (
        f"{source(state.device)}: {told}. Synchronize: {state.synchronize}. "
        f"Statement {state.reached} of {len(state.lines)}: {state.statements[state.reached - 1]}"
        f"{_describe_prints(state.done)}"
    )


def _describe_prints(done: Run) -> str:
    """Say what has been printed so far, and what it would have been had the copy arrived."""
    if not done.printed:
        return ""
    said = f"; printed so far: {', '.join(done.printed.values())}"
    if done.read_early:
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
            Choice("program", "program", programs_for(device)),
            Choice("synchronize", "synchronize", [NEVER, AT_THE_END, ALWAYS]),
            Number("shown", "statements", 1, MOST, drawn=True),
            Lines("own", "lines", MOST // 2),
        ],
        follow,
    )
