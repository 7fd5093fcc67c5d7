"""How much will it take, and how much fits: training's bytes, and a search that survives."""

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator

import torch
from torch import nn

from devlab.checks import expect
from devlab.checks.calls import AnswerRaised
from devlab.checks.isolation import undisturbed
from devlab.lessons.lesson_08_memory.base import MIB, books, bytes_equal, gaps_filled, lesson

training_bytes = lesson.exercise(
    "training_bytes",
    signature="training_bytes(model, optimizer_name)",
    facts=("H1", "H7"),
    hints=(
        "Three sums: all parameters; a gradient for each that is trained; and what the optimizer remembers "
        "of each that is trained.",
        "`parameter.numel() * parameter.element_size()` is what its elements take. Which parameters have "
        "`requires_grad`?",
        '`{"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}` says how many numbers the optimizer '
        "remembers for each one trained. The gradient makes it one more.",
    ),
)

PIECE = 12 * MIB  # a whole segment, so that nothing else fits beside it
PIECES = 7
MOST_TRIES = 1000  # of a search that would take seven, or 64 one by one
STATES = {"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}


def _nbytes(tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _judge_bytes(trial, model: nn.Module) -> None:
    """Judge all four names on a model; each wrong reading that people have gets its own words."""
    model.to(trial.device)
    state = [(p, p.requires_grad, p.grad) for p in model.parameters()]
    held = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    every = list(model.parameters())
    trained = _nbytes(p for p in every if p.requires_grad)
    whole, buffers = _nbytes(every), _nbytes(model.buffers())
    shared = _nbytes(p for _, p in model.named_parameters(remove_duplicate=False)) - whole
    for name, times in STATES.items():
        wanted = whole + (1 + times) * trained
        guesses = [
            (whole if name == "sgd" else None, "the gradients are missing"),
            ((2 + times) * whole, "parameters that are not trained have no gradient and no state"),
            ((2 + times) * trained, "parameters that are not trained are missing: they take memory, too"),
            (wanted + buffers, "buffers are counted, too"),
            ((2 + times) * (whole + shared), "a parameter with two names is counted twice"),
            (sum((2 + times) * 4 * p.numel() for p in every), "4 bytes each: not every parameter is float32"),
            (sum((2 + times) * p.numel() for p in every), "that is how many numbers, not how many bytes"),
            *((whole + (1 + t) * trained, f"that is not the state that {name!r} keeps") for t in range(4)),
        ]
        bytes_equal(
            trial.call(model, name), wanted, f"that is not what training with {name!r} takes", *guesses
        )
    for parameter, (before, trains, grad) in zip(model.parameters(), state, strict=True):
        if parameter is not before or parameter.requires_grad != trains or parameter.grad is not grad:
            expect.fail("the model was changed", "the model as it came", parameter)
    if [module.training for module in model.modules()] != modes:
        expect.fail("the model's mode was changed", "train or eval as it came", "another mode")
    now = model.state_dict()
    for name in (*held, *now):
        if name not in now or name not in held or not torch.equal(held[name], now[name]):
            expect.fail(f"the model was changed: `{name}`", "the model as it came", now.get(name))


@training_bytes.row("parameters, gradients, optimizer state")
def three_sums(trial):
    n = 3 + trial.seeds[1] % 7
    _judge_bytes(trial, nn.Sequential(nn.Linear(n, 5), nn.ReLU(), nn.Linear(5, 2, bias=False)))
    _judge_bytes(trial, nn.Linear(1, 1 + n))
    _judge_bytes(trial, nn.ReLU())
    nested = nn.Sequential(nn.Sequential(nn.Linear(n, 3), nn.Sequential(nn.Linear(3, 4))))
    nested.scale = nn.Parameter(torch.ones(5))
    _judge_bytes(trial, nested)


@training_bytes.row("what is not trained only takes its place")
def frozen(trial):
    model = nn.Sequential(nn.Linear(7, 5), nn.Linear(5, 3))
    model[0].requires_grad_(False)
    _judge_bytes(trial, model)
    _judge_bytes(trial, nn.Linear(6, 6).requires_grad_(False))
    half = nn.Linear(6, 4)
    half.bias.requires_grad_(False)
    half.weight.grad = torch.zeros(4, 6)  # what is left of a step stays there
    _judge_bytes(trial, half)


@training_bytes.row("each dtype its size, a shared one once")
def dtypes_and_shared(trial):
    _judge_bytes(trial, nn.Sequential(nn.Linear(7, 5).to(torch.float16), nn.Linear(5, 3)))
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    _judge_bytes(trial, model)


@training_bytes.row("buffers and step counters do not count")
def no_buffers(trial):
    _judge_bytes(trial, nn.Sequential(nn.Linear(7, 5), nn.BatchNorm1d(5)))


@training_bytes.row("another name is a ValueError")
def another_name(trial):
    model = nn.Linear(3, 2).to(trial.device)
    for name in ("rmsprop", "lbfgs", "adamax", "nadam", "sgd_nesterov", "Adam", "SGD", " adam", ""):
        try:
            got = trial.call(model, name)
        except AnswerRaised as raised:
            if not isinstance(raised.error, ValueError):
                raise
        else:
            expect.fail(f"{name!r} was accepted", "a ValueError", got)


largest_batch = lesson.exercise(
    "largest_batch",
    signature="largest_batch(step, limit)",
    facts=("H7", "K4", "K5"),
    hints=(
        "Try a size, and let the error say that it was too large: `torch.OutOfMemoryError`, and no other.",
        "What holds memory when the next try begins? A name for the last result; and inside `except`, the "
        "error itself holds every variable of the code that failed.",
        "Write `fits(n)`: `try: step(n)`, then `return True`; `except torch.OutOfMemoryError: return False`. "
        "Then keep a size that fits and one that does not, and halve what lies between.",
    ),
)


class _Work:
    """What one try makes: as long as it is alive, its memory is taken."""


class _Endless(BaseException):
    """Ends a search that would not end by itself."""


def _searched(trial, step: Callable[[int], object], limit: int) -> object:
    """Call the answer with a step; raises Mismatch where it tries again and again."""
    tried = []

    @functools.wraps(step, updated=())
    def counted(n: int) -> object:
        tried.append(n)
        if len(tried) > MOST_TRIES:
            raise _Endless
        return step(n)

    try:
        return trial.call(counted, limit)
    except _Endless:
        last = ", ".join(map(str, tried[-4:-1]))
        expect.fail(
            "the search does not come to an end", "less to search at each turn", f"tries of {last}, …"
        )


class _Step:
    """A step with a memory of its own: `room` samples fit, less whatever earlier tries still hold."""

    def __init__(self, room: int):
        self.room = room
        self.tried: list[int] = []
        self.alive: weakref.WeakSet[_Work] = weakref.WeakSet()
        self.held = 0
        self.graphs = True

    def __call__(self, n: int) -> list[_Work]:
        """Take memory for n samples, or raise after having taken some."""
        self.tried.append(n)
        self.graphs = self.graphs and torch.is_grad_enabled()
        self.held = max(self.held, len(self.alive))
        work = [_Work() for _ in range(4)]
        self.alive.update(work)
        if n > self.room - len(self.alive) + 4:
            raise torch.OutOfMemoryError(f"out of memory. Tried {n} samples (pretended by devlab)")
        return work

    def __repr__(self) -> str:
        return "step"

    def require_tries(self, limit: int) -> None:
        """Expect tries of 1 to `limit` samples, and nothing else."""
        for n in self.tried:
            if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= limit:
                expect.fail(f"step was called with {n!r}", f"a whole number from 1 to {limit}", n)


def _judge_search(trial, room: int, limit: int) -> _Step:
    step = _Step(room)
    got = _searched(trial, step, limit)
    expect.kind(got, int, "an int", "the batch size")
    step.require_tries(limit)
    if not step.graphs:
        words = "step was called without gradients: a training step takes more"
        expect.fail(words, "step(n) as it is in training", "torch.no_grad() around it")
    if got != min(room, limit) and not step.held:
        words = (
            f"{got} fits, but it is not the largest"
            if 0 < got < min(room, limit)
            else f"{got} is not the answer"
        )
        expect.fail(words, f"{min(room, limit)}: step raises above {room}, and the limit is {limit}", got)
    return step


@largest_batch.row("the largest that fits, 0 to limit")
def the_largest(trial):
    with undisturbed():
        odd = 5 + trial.seeds[2] % 40
        cases = [(13, 50), (odd, 64), (63, 64), (64, 64), (65, 64), (7, 12)]
        for room, limit in [*cases, (1, 9), (0, 9), (0, 1), (1, 1), (5, 1)]:
            _judge_search(trial, room, limit)


@largest_batch.row("any other error passes through")
def other_errors(trial):
    for error in (
        RuntimeError("mat1 and mat2 shapes cannot be multiplied (4x3 and 2x5)"),
        RuntimeError("required rank 4 tensor to use channels_last memory format"),
        NotImplementedError("not implemented for this dtype"),
        ValueError("odd batch"),
        KeyError("labels"),
        MemoryError("the host's, not the device's"),
    ):

        def step(n, error=error):
            if n > 2:
                raise error
            return n

        try:
            got = _searched(trial, step, 20)
        except AnswerRaised as raised:
            if raised.error is not error:
                raise
        else:
            kind = type(error).__name__
            expect.fail(f"a {kind} was taken for out of memory", f"the {kind} of step, passed on", got)


@largest_batch.row("each try starts with nothing of the last")
def nothing_of_the_last(trial):
    with undisturbed():
        for room, limit in ((13, 50), (37, 41), (3, 8)):
            step = _judge_search(trial, room, limit)
            if step.held:
                expect.fail(
                    "when a try began, something of an earlier one was still alive",
                    "no name for a result, and no try inside `except`",
                    f"memory of earlier tries held in the sizes {step.tried}",
                )
            if step.alive:
                expect.fail(
                    "after the search something of a try is still alive", "nothing kept", "memory held"
                )


@contextlib.contextmanager
def _few_pieces(device: torch.device, module) -> Iterator[Callable[[], torch.Tensor]]:
    """Yield a function that takes a piece of the device's memory, of which there is little.

    The simulated device is given a small memory, and runs out of it by itself. A real one is not filled,
    because others may be using it: the function raises where a small one would be full.
    """
    budget = module.memory_allocated(device) + PIECES * PIECE
    if device.type == "sim":
        from devlab.sim import memory

        whole = memory.of(device).capacity
        memory.set_capacity(module.memory_reserved(device) + PIECES * PIECE, device)

    def piece() -> torch.Tensor:
        if device.type != "sim" and module.memory_allocated(device) + PIECE > budget:
            raise torch.OutOfMemoryError("out of memory (pretended by devlab)")
        return torch.empty(PIECE, dtype=torch.uint8, device=device)

    try:
        yield piece
    finally:
        if device.type == "sim":
            memory.set_capacity(whole, device)


def _room(piece: Callable[[], torch.Tensor]) -> int:
    """Return how many pieces there are: fill the memory, and let go of all."""
    held = []
    try:
        while len(held) < 2 * PIECES:
            held.append(piece())
    except torch.OutOfMemoryError:
        pass
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
        got = _searched(trial, step, room + 6)
        kept = module.memory_allocated(trial.device) - before
        expect.kind(got, int, "an int", "the batch size")
        if got != room:
            words = "too small: was memory of one try still held in the next?" if got < room else "too large"
            expect.fail(f"{got} is {words}", f"{room} samples fill the device's memory", got)
        if kept:
            expect.fail(
                "after the search the device still holds memory of a try",
                "as much allocated as before",
                f"{kept / MIB:g} MiB more",
            )
