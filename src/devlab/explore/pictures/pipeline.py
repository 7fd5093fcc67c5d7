"""The pipeline: batches on their way through loader, copy and computation, and who waits for whom."""

from dataclasses import dataclass

from devlab import palette
from devlab.devices import simulated_accelerators
from devlab.explore.controls import Choice, Number, Switch
from devlab.explore.epoch import Lanes, Way, run
from devlab.explore.explorer import Explorer
from devlab.explore.paper import WAITING_HATCH, margins, sheet
from devlab.explore.places import first_accelerator, source
from devlab.watching.memory import duration

ALIKE, LOADING, COMPUTING = "none, all are alike", "loading", "computing"
LONG = 3  # how much longer the longest step is than it is otherwise
LANES = ("load", "host waits", "copy", "compute")


@dataclass(frozen=True)
class State:
    """How the loop is written, how many batches there are, and which of their steps takes longest."""

    device: str
    workers: int = 0
    pinned: bool = False
    non_blocking: bool = False
    side_stream: bool = False
    longest: str = ALIKE
    batches: int = 5

    @property
    def way(self) -> Way:
        """Return the loop that is to be run."""
        return Way(
            batches=self.batches,
            loading=LONG if self.longest == LOADING else 1,
            computing=LONG if self.longest == COMPUTING else 1,
            pinned=self.pinned,
            non_blocking=self.non_blocking,
            side_stream=self.side_stream,
            workers=self.workers,
        )

    @property
    def lanes(self) -> Lanes:
        """Return what happened when."""
        return run(self.way, self.device)

    @property
    def plain(self) -> Lanes:
        """Return the same work in the plainest loop: everything in turn."""
        return run(State(self.device, longest=self.longest, batches=self.batches).way, self.device)


def draw(state: State):
    """Return the figure: a lane for each of loader, host, copies and computation, the batches numbered."""
    lanes, plain = state.lanes, state.plain
    unit, name = (1e3, "ms") if plain.total >= 1e-3 else (1e6, "µs")
    end = max(plain.total, lanes.total) * 1.02
    figure, axes = sheet(3.3)
    margins(figure, left=0.105, right=0.985, top=0.985, bottom=0.15)
    axes.set_xlim(0, end * unit)
    axes.set_ylim(3.6, -0.75)
    looks = (
        _filled(palette.HOST),
        {"facecolor": "none", "edgecolor": palette.WAIT, "hatch": WAITING_HATCH},
        _filled(palette.COPY),
        _filled(palette.of(state.device)),
    )
    workers = max(1, state.workers)
    for row, (spans, look) in enumerate(zip(_spans(lanes), looks, strict=True)):
        shares = workers if row == 0 else 1  # of the lane's height: workers load side by side
        for share in range(shares):
            own = [(start * unit, (stop - start) * unit) for start, stop in spans[share::shares]]
            height = 0.76 / shares
            axes.broken_barh(own, (row - 0.38 + share * height, height * 0.96), **look)
        if row != 1:
            for number, (start, stop) in enumerate(spans):
                if stop - start > 0.02 * end:
                    middle = row - 0.38 + (number % shares + 0.48) * 0.76 / shares
                    size = 9 if shares < 4 else 7.5
                    axes.text(
                        (start + stop) / 2 * unit, middle, number + 1, ha="center", va="center", fontsize=size
                    )
    _mark_end(axes, lanes.total, end, unit)
    shares = _shares(lanes)
    axes.set_yticks(range(4), [f"{lane}\n{share:.0%}" for lane, share in zip(LANES, shares, strict=True)])
    axes.tick_params("y", length=0)
    axes.set_xlabel(f"time ({name}); percentages are of the epoch")
    return figure


def _filled(colour: str) -> dict:
    """Return the look of what is under way; the edges tell one batch from the next."""
    return {"facecolor": (colour, 0.55), "edgecolor": colour}


def _mark_end(axes, total: float, end: float, unit: float) -> None:
    """Draw the end of the epoch and say when it is."""
    axes.axvline(total * unit, color="black", linewidth=1.5)
    left = total > 0.5 * end
    axes.text(
        (total + (-0.01 if left else 0.01) * end) * unit,
        -0.58,
        f"the epoch takes {duration(total)}",
        ha="right" if left else "left",
        va="center",
        fontweight="bold",
    )


def _spans(lanes: Lanes) -> tuple:
    return lanes.loads, lanes.waits, lanes.copies, lanes.computations


def _shares(lanes: Lanes) -> list[float]:
    """Return the share of the epoch during which each lane is busy."""
    return [_covered(spans) / lanes.total for spans in _spans(lanes)]


def _covered(spans: tuple[tuple[float, float], ...]) -> float:
    """Return the seconds in which at least one of some spans is under way.

    >>> _covered(((0.0, 2.0), (1.0, 3.0), (5.0, 6.0)))
    4.0
    """
    covered, reached = 0.0, 0.0
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered


def describe(state: State) -> str:
    """Say how long the epoch takes, how busy the device is, and how the loop is written."""
    lanes = state.lanes
    shares = _shares(lanes)
    busiest = max((share, lane) for share, lane in zip(shares, LANES, strict=True) if lane != "host waits")
    memory = "pinned" if state.pinned else "pageable"
    manner = "non_blocking=True" if state.non_blocking else "blocking"
    staged = (
        " (the host is kept while the bytes are staged)" if state.non_blocking and not state.pinned else ""
    )
    alone = "The host loads and pins" if state.pinned else "The host loads"
    loader = {0: alone, 1: "One worker loads"}.get(state.workers, f"{state.workers} workers load")
    streams = "a stream of its own" if state.side_stream else "the stream of the computation"
    return (
        f"{source(state.device)}: {state.batches} batches take {duration(lanes.total)}, "
        f"{lanes.total / state.plain.total:.0%} of the plainest loop's time; the device computes for "
        f"{shares[3]:.0%} of it, the host waits for {shares[1]:.0%}; the busiest lane is “{busiest[1]}” with "
        f"{busiest[0]:.0%}. {loader}; copies are from {memory} memory, {manner}{staged}, in {streams}; "
        f"longest step: {state.longest}."
    )


def explorer() -> Explorer:
    """Return the explorer on the first accelerator of this machine that has streams."""
    device = first_accelerator()
    if not device.startswith(("cuda", "xpu")):
        device = str(simulated_accelerators()[0])  # neither the CPU nor mps has streams
    return Explorer(
        "What does the device wait for?",
        State(device),
        draw,
        describe,
        [
            Switch("pinned", "pinned memory"),
            Switch("non_blocking", "non_blocking=True"),
            Switch("side_stream", "copies in their own stream"),
            Choice("workers", "workers", [0, 1, 2, 4]),
            Choice("longest", "longest step", [ALIKE, LOADING, COMPUTING]),
            Number("batches", "batches", 2, 8),
        ],
    )
