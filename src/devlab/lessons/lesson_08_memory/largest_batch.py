"""How much fits: a search that survives what it is looking for."""

import contextlib
import weakref
from collections.abc import Callable, Iterator

import torch

from devlab.checks import expect
from devlab.checks.calls import AnswerRaised
from devlab.checks.probes import Called, Endless
from devlab.checks.settings import undisturbed
from devlab.checks.values import a_type
from devlab.lessons.lesson_08_memory import MIB, books, gaps_filled, lesson

PIECE = 12 * MIB  # a whole segment, so that nothing else fits beside it
PIECES = 7
MOST_TRIES = 1000  # of a search that would take seven, or 64 one by one

largest_batch = lesson.exercise(
    "largest_batch(step, limit)",
    ("H7", "K4", "K5"),
    "Try a size, and let the error say that it was too large: `torch.OutOfMemoryError`, and no other.",
    "What holds memory when the next try begins? A name for the last result; and inside `except`, the error "
    "itself holds every variable of the code that failed.",
    "Write `fits(n)`: `try: step(n)`, then `return True`; `except torch.OutOfMemoryError: return False`. "
    "Then keep a size that fits and one that does not, and halve what lies between.",
)


class _Work:
    """What one try makes: as long as it is alive, its memory is taken."""


def _search(trial, step: Callable[[int], object], limit: int) -> tuple[object, Called]:
    """Call the answer with a step; raises Mismatch where it tries again and again."""
    tried = Called(step, "step", MOST_TRIES)
    try:
        return trial.call(tried, limit), tried
    except Endless:
        said = f"tries of {', '.join(str(n) for (n,) in tried.calls[-4:-1])}, …"
        expect.fail("the search does not come to an end", "less to search at each turn", said)


class _Memory:
    """A step with a memory of its own: `room` samples fit, less whatever earlier tries still hold."""

    def __init__(self, room: int):
        self.room = room
        self.alive: weakref.WeakSet[_Work] = weakref.WeakSet()
        self.held = 0  # the most that was held of earlier tries when another one began

    def step(self, n: int) -> list[_Work]:
        """Take memory for n samples, or raise after having taken some."""
        self.held = max(self.held, len(self.alive))
        work = [_Work() for _ in range(4)]
        self.alive.update(work)
        if n > self.room - len(self.alive) + 4:
            raise torch.OutOfMemoryError(f"out of memory. Tried {n} samples (pretended by devlab)")
        return work


def _judge_search(
    trial, room: int, limit: int, returns: Callable[[object], object] = lambda work: work
) -> tuple[_Memory, list[int]]:
    """Return what the search has left behind, and what it tried; `returns(work)` is what step returns."""
    memory, most = _Memory(room), min(room, limit)
    got, tried = _search(trial, lambda n: returns(memory.step(n)), limit)
    expect.that(got is not None or room, "None, where not even one sample fits", "0", "None")
    expect.kind(got, int, "an int", "the batch size")
    sizes = [n for n, *_ in filter(None, tried.calls)]
    for n in sizes:
        if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= limit:
            expect.fail(f"step was called with {n!r}", f"a whole number from 1 to {limit}", n)
    words = "step was called without gradients: a training step takes more"
    expect.that(tried.graphs, words, "step(n) as it is in training", "torch.no_grad() around it")
    if got != most and not memory.held:
        words = (
            f"{got} does not fit: step raises for it" if got > room else f"{got} is not the largest that fits"
        )
        words = f"{got} fits, but it is not the largest" if 0 < got < most else words
        expect.fail(words, f"{most}: step raises above {room}, and the limit is {limit}", got)
    return memory, sizes


@largest_batch.row("the largest that fits, 0 to limit")
def the_largest(trial):
    with undisturbed():
        odd = 5 + trial.seeds[2] % 40
        cases = [(13, 50), (odd, 64), (63, 64), (64, 64), (65, 64), (7, 12)]
        for room, limit in [*cases, (1, 9), (0, 9), (0, 1), (1, 1), (5, 1)]:
            _judge_search(trial, room, limit)
        for returned in (None, 0.0, []):  # what step returns says nothing
            _judge_search(trial, odd, 64, lambda work, returned=returned: returned)


@largest_batch.row("any other error passes through")
def other_errors(trial):
    for error in (
        RuntimeError("mat1 and mat2 shapes cannot be multiplied (4x3 and 2x5)"),
        RuntimeError("required rank 4 tensor to use channels_last memory format"),
        NotImplementedError("not implemented for this dtype"),
        ValueError("odd batch"),
        KeyError("labels"),
        MemoryError("the host's, not the device's"),
        TypeError("'NoneType' object is not callable"),
        IndexError("list index out of range"),
        AssertionError(),
        torch.AcceleratorError("device-side assert triggered"),
    ):

        def step(n, error=error):
            if n > 2:
                raise error
            return n

        try:
            got, _ = _search(trial, step, 20)
        except AnswerRaised as raised:
            if raised.error is not error:
                raise
        else:
            passed_on = f"the {type(error).__name__} of step, passed on"
            expect.fail(f"{a_type(error)} was taken for out of memory", passed_on, got)


@largest_batch.row("nothing of one try is left for the next")
def nothing_of_the_last(trial):
    with undisturbed():
        for room, limit in ((13, 50), (37, 41), (3, 8)):
            memory, tried = _judge_search(trial, room, limit)
            if memory.held:
                shown = ", ".join(map(str, tried[:6])) + (", …" if len(tried) > 6 else "")
                expect.fail(
                    "when a try began, something of an earlier one was still alive",
                    "no name for a result, and no try inside `except`",
                    f"tries of {shown}, and something of one held in the next",
                )
            headline = "after the search something of a try is still alive"
            expect.that(not memory.alive, headline, "nothing kept", "memory held")


@contextlib.contextmanager
def _few_pieces(device: torch.device, module) -> Iterator[Callable[[], torch.Tensor]]:
    """Yield a function that takes a piece of the device's memory, of which there is little.

    The simulated device is given a small memory, and runs out of it by itself. A real one is not filled,
    because others may be using it: the function raises where a small one would be full.
    """
    budget = module.memory_allocated(device) + PIECES * PIECE
    if device.type == "sim":
        from devlab.sim import accounts

        whole = accounts.of(device).capacity
        accounts.set_capacity(module.memory_reserved(device) + PIECES * PIECE, device)

    def piece() -> torch.Tensor:
        if device.type != "sim" and module.memory_allocated(device) + PIECE > budget:
            raise torch.OutOfMemoryError("out of memory (pretended by devlab)")
        return torch.empty(PIECE, dtype=torch.uint8, device=device)

    try:
        yield piece
    finally:
        if device.type == "sim":
            accounts.set_capacity(whole, device)


def _room(piece: Callable[[], torch.Tensor]) -> int:
    """Return how many pieces there are: fill the memory, and let go of all."""
    held = []
    with contextlib.suppress(torch.OutOfMemoryError):
        while len(held) < 2 * PIECES:
            held.append(piece())
    return len(held)


@largest_batch.row("where memory really runs out", only="accelerator")
def really_runs_out(trial):
    with (
        books(trial) as module,
        gaps_filled(module, PIECE, trial.device),
        _few_pieces(trial.device, module) as piece,
    ):
        room = _room(piece)

        def step(n):
            first = [piece() for _ in range(n - n // 2)]
            return {"outputs": [piece() for _ in range(n // 2)], "inputs": first}

        before = module.memory_allocated(trial.device)
        got, _ = _search(trial, step, room + 6)
        kept = module.memory_allocated(trial.device) - before
        expect.kind(got, int, "an int", "the batch size")
        words = "too small: was memory of one try still held in the next?" if got < room else "too large"
        expect.that(got == room, f"{got} is {words}", f"{room} samples fill the device's memory", got)
        headline = "after the search the device still holds memory of a try"
        expect.that(not kept, headline, "as much allocated as before", f"{kept / MIB:g} MiB more")
