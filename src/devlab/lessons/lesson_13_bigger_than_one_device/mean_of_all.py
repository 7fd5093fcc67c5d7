"""The mean of one tensor from each of several processes."""

import functools
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist

from devlab.checks import expect
from devlab.checks.scenes import scene
from devlab.checks.seen import Seen, must
from devlab.lessons import among_ranks
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
WITHIN = {torch.float16: 2e-2, torch.bfloat16: 5e-2, torch.float64: 1e-12}


def ours(tensor):
    if not tensor.is_floating_point():
        raise TypeError("the mean of integers need not be an integer")
    total = tensor.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total / dist.get_world_size()


def make_tensors(seed: int, rank: int) -> list[torch.Tensor]:
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

    These are the result, its dtype, and in words what is wrong with the input, the memory and the graph.
    """
    found = []
    for tensor in make_tensors(int(data[0]), rank):
        before, asks = tensor.detach().clone(), tensor.requires_grad
        got = answer(tensor)
        if not isinstance(got, torch.Tensor):
            return [*found, got]
        marked = "" if tensor.requires_grad == asks else f"came back with requires_grad={not asks}"
        own, new = (one.untyped_storage().data_ptr() for one in (tensor, got))
        found += [got, str(got.dtype)[6:], marked if torch.equal(tensor.detach(), before) else "was changed"]
        shares = got is tensor or (got.numel() > 0 and new == own)
        found += ["the input" * shares, "a graph" * got.requires_grad]
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


def run_ranks(t, function: Callable, world: int, seed: int, asked: str) -> Iterator[tuple[int, list]]:
    """Yield each rank, with what came of its calls."""
    function = functools.partial(function, t.answer)
    for rank, report in enumerate(among_ranks.reports(t, function, [[seed]] * world, asked)):
        yield rank, list(report.result)


def see_means(t, world: int, seed: int) -> Iterator[Seen | tuple]:
    for rank, items in run_ranks(t, in_a_process, world, seed, ASKED):
        while items:
            got, *said = items[:5]
            if kind := got.get("is"):
                what = "None: is a `return` missing?" if kind == "NoneType" else f"a {kind}, and no tensor"
                expect.fail(f"rank {rank} returned {what}", ASKED, kind)
            dtype, changed, shared, graph = (one["says"] for one in said)
            asked = "the input as it came; all_reduce, and `/=`, write where they read"
            yield must(not changed, f"the input of rank {rank} {changed}", asked, f"it {changed}")
            headline = f"rank {rank} returned its input, or a view of it"
            yield must(not shared, headline, "a new tensor", "the input's memory")
            headline = f"rank {rank}'s mean asks for a gradient, and no gradient passes through an all_reduce"
            yield must(not graph, headline, "a tensor without a graph", "requires_grad=True")
            mean = torch.tensor(got["values"], dtype=getattr(torch, dtype)).reshape(got["shape"])
            yield f"rank {rank}'s mean", mean, WITHIN.get(mean.dtype, 1e-5)
            items = items[5:]


@scene(mean_of_all, ours, "every rank has the mean, and its input as it was", ASKED, only="cpu")
def the_mean_everywhere(t):
    yield from see_means(t, 2, t.seeds[0])


@scene(mean_of_all, ours, "of as many ranks as there are", ASKED, only="cpu")
def of_three(t):
    yield from see_means(t, 3, t.seeds[1])


@scene(mean_of_all, ours, "integers are refused by all, with a TypeError", only="cpu")
def integers_refused(t):
    for rank, found in run_ranks(t, with_integers, 2, t.seeds[2], REFUSED):
        what, says, more = (one.get("says", "") for one in found)
        headline = f"rank {rank} took an integer tensor: the mean of integers need not be an integer"
        yield must(what == "TypeError", headline, f"{REFUSED}: for {more}, too", f"{says} returned")
        headline = f"rank {rank} refused an integer tensor after something had been sent"
        yield must(not more, headline, REFUSED, "the error after a communication")
        yield must(says, "the TypeError says nothing", "a TypeError that says what is wrong", "no message")
