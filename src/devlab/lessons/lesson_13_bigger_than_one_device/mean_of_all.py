"""The mean of one tensor from each of several processes."""

import functools
from collections.abc import Callable

import torch

from devlab.checks import expect
from devlab.lessons import among_ranks, ranks
from devlab.lessons.lesson_13_bigger_than_one_device import lesson

mean_of_all = lesson.exercise(
    "mean_of_all(tensor)",
    ("Q4", "Q5"),
    "`dist.all_reduce(x)` puts the sum over all ranks into x, in place, in every process. What must not "
    "change here, and how many ranks are there?",
    "Reduce a copy whose numbers stand in one order on all ranks: a plain `clone()` keeps the strides, and "
    "`tensor.detach().clone(memory_format=torch.contiguous_format)` does not. Divide by "
    "`dist.get_world_size()`. An integer tensor is refused first, by all ranks alike: before anything is "
    "sent.",
    '`if not tensor.is_floating_point(): raise TypeError("...")`, then `dist.all_reduce(total)` and `return '
    "total / dist.get_world_size()`.",
)

WHOLE = (torch.int64, torch.int32, torch.uint8, torch.int16, torch.int8)
ASKED = "the mean over all ranks, from each process"
REFUSED = "a TypeError in every rank, before anything is sent"


def given(seed: int, rank: int) -> list[torch.Tensor]:
    """Return the tensors of one rank: plain, one number, two of halves, empty, transposed, a leaf.

    The transposed one is a view in every second rank alone: ranks agree in the shape and not in the strides.
    """
    numbers = torch.randn(40, generator=torch.Generator().manual_seed(100 * seed + rank)) + rank
    transposed = numbers[20:32].reshape(3, 4).T
    return [
        numbers[:12].reshape(3, 4),
        numbers[12].clone(),
        numbers[13:21].to(torch.float16),
        numbers[35:].to(torch.bfloat16),
        numbers[:0],
        transposed.contiguous() if rank % 2 else transposed,
        numbers[32:35].double().requires_grad_(),
    ]


def in_a_process(answer: Callable, rank: int, world_size: int, data: tuple) -> list:
    """Call the answer with each tensor of this rank; return what came of each.

    These are the result, whether the input is as it was, and words on the result's dtype and graph.
    """
    found = []
    for tensor in given(int(data[0]), rank):
        before, asks = tensor.detach().clone(), tensor.requires_grad
        got = answer(tensor)
        if not isinstance(got, torch.Tensor):
            return [*found, got]
        marked = "" if tensor.requires_grad == asks else f"came back with requires_grad={not asks}"
        own, new = (one.untyped_storage().data_ptr() for one in (tensor, got))
        found += [got, marked if torch.equal(tensor.detach(), before) else "was changed"]
        shares = got is tensor or (got.numel() > 0 and new == own)
        found += ["the input" * shares, str(got.dtype), "a graph" * got.requires_grad]
    return found


def with_integers(answer: Callable, rank: int, world_size: int, data: tuple) -> list:
    """Call the answer with integer tensors; return what came of the first that it did not refuse as asked.

    These are the error or "returned", the message or a dtype, and which dtype it was or whether it was sent.
    """
    for dtype in WHOLE:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
            try:
                got = answer(torch.arange(4, dtype=dtype) + rank)
            except TypeError as error:
                found = ["TypeError", str(error), ""]
            else:
                return ["returned", str(getattr(got, "dtype", type(got).__name__)), f"{dtype}"]
        if any(event.name.startswith("c10d::") for event in seen.events()):
            found[2] = "sent"
        if found[2] or not found[1]:
            return found
    return found


def _run(trial, function: Callable, world: int, seed: int, asked: str) -> list[ranks.Report]:
    return among_ranks.reports(trial, functools.partial(function, trial.answer), [[seed]] * world, asked)


def _expect_all(trial, world: int, seed: int) -> None:
    every = [given(seed, rank) for rank in range(world)]
    for rank, report in enumerate(_run(trial, in_a_process, world, seed, ASKED)):
        items = list(report.result)
        for number, own in enumerate(every[rank]):
            got, said = items[0], [one.get("says") for one in items[1:5]]
            if kind := got.get("is"):
                what = "None: is a `return` missing?" if kind == "NoneType" else f"a {kind}, and no tensor"
                expect.fail(f"rank {rank} returned {what}", ASKED, kind)
            _expect(got, said, rank, own, [one[number].detach() for one in every])
            items = items[5:]


def _by_memory(own: torch.Tensor, parts: list[torch.Tensor]) -> torch.Tensor:
    """Return the sum over all ranks of copies that keep their strides, in the strides of one rank's own."""
    held = [one.double().clone() for one in parts]
    total = sum(one.as_strided((one.numel(),), (1,)) for one in held)
    return total.as_strided(own.shape, own.clone().stride())


def _expect(got: dict, said: list[str], rank: int, own: torch.Tensor, parts: list[torch.Tensor]) -> None:
    world, kind = len(parts), str(own.dtype)
    total = torch.stack([part.double() for part in parts]).sum(0)
    wanted, mine = total / world, torch.tensor(got["values"], dtype=torch.float64).reshape(got["shape"])
    within = {torch.float16: 2e-2, torch.bfloat16: 5e-2, torch.float64: 1e-12}.get(own.dtype, 1e-5)
    asked = f"the mean of {world} tensors, one from each rank"
    if wanted.numel():
        slips = {
            f"rank {rank} has the sum of the {world} tensors, and their mean is asked": total,
            f"the sum is divided by 2, and there are {world} ranks": total / 2,
            f"rank {rank} has its own tensor, and not the mean over all": own.detach().double(),
            f"rank {rank} has the mean divided once more": wanted / world,
            f"rank {rank} has sums of numbers that belong to other places: the ranks' strides differ, "
            "and what is sent goes in the order of memory": _by_memory(own, parts) / world,
        }
        expect.named(mine, wanted, slips, asked, within)
        if rank and parts[0].dim() and not mine.any():
            expect.fail(f"rank {rank} has zeros, and every rank should have the mean", asked, "zeros")
    changed, shared, dtype, graph = said
    if changed:
        asked = "the input as it came; all_reduce, and `/=`, write where they read"
        expect.fail(f"the input of rank {rank} {changed}", asked, f"it {changed}")
    if shared:
        expect.fail(f"rank {rank} returned its input, or a view of it", "a new tensor", "the input's memory")
    if dtype != kind:
        expect.fail(f"rank {rank}'s mean is {dtype}, not {kind}", f"the dtype of the input, {kind}", dtype)
    if graph:
        headline = f"rank {rank}'s mean asks for a gradient, and no gradient passes through an all_reduce"
        expect.fail(headline, "a tensor without a graph", "requires_grad=True")
    expect.tensor(mine, wanted, torch.device("cpu"), f"rank {rank}'s mean", within)


@mean_of_all.row("every rank has the mean, and its input as it was", only="cpu")
def the_mean_everywhere(trial):
    _expect_all(trial, 2, trial.seeds[0])


@mean_of_all.row("of as many ranks as there are", only="cpu")
def of_three(trial):
    _expect_all(trial, 3, trial.seeds[1])


@mean_of_all.row("integers are refused by all, with a TypeError", only="cpu")
def integers_refused(trial):
    for rank, report in enumerate(_run(trial, with_integers, 2, trial.seeds[2], REFUSED)):
        what, says, more = (one.get("says", "") for one in report.result)
        if what != "TypeError":
            headline = f"rank {rank} took an integer tensor: the mean of integers need not be an integer"
            expect.fail(headline, f"{REFUSED}: for {more}, too", f"{says} returned")
        if more:
            headline = f"rank {rank} refused an integer tensor after something had been sent"
            expect.fail(headline, REFUSED, "the error after a communication")
        if not says:
            expect.fail("the TypeError says nothing", "a TypeError that says what is wrong", "no message")
