"""Tensors made in the right place."""

import torch

from devlab.checks import cases, pretend
from devlab.checks.scenes import scene
from devlab.checks.seen import Seen, most, must
from devlab.checks.verbs import current, kept
from devlab.lessons.lesson_02_cuda import lesson

make_on = lesson.exercise(
    "make_on(shape, device, dtype)",
    ("G3", "G1"),
    "A tensor that is made first and moved afterwards takes memory in two places, and a transfer. PyTorch's "
    "functions that make tensors take the device as an argument.",
    "`torch.zeros` takes the shape, and `device=` and `dtype=` by name.",
    "The whole body is `return torch.zeros(shape, device=device, dtype=dtype)`.",
)

SHAPES = ((2, 3), (5,), (1, 4, 3), (2, 1, 3, 2), (0, 7), torch.Size([3, 2]))
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool)


def ours(shape, device, dtype):
    return torch.zeros(tuple(shape), device=device, dtype=dtype)


def mark_memory(call, *args):
    """Make a call during which new memory holds nan, or the largest integer, until something is written."""
    # `use_deterministic_algorithms` does the same, but takes more than a second: it imports the compiler.
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")
    try:
        return call(*args)
    finally:
        torch.set_deterministic_debug_mode(before)


@scene(make_on, ours, "zeros of that shape, on that device", asked="zeros")
def zeros_there(t):
    for shape in SHAPES:
        yield "the result", mark_memory(t.call, shape, t.device, torch.float32)
    t.second()


@scene(make_on, ours, "of the dtype asked for", asked="zeros")
def of_that_dtype(t):
    wide = [torch.float64] if cases.holds(t.device, torch.float64) else []
    for dtype in (*DTYPES, torch.int32, torch.uint8, torch.complex64, *wide):
        yield "the result", mark_memory(t.call, (3, 2), t.device, dtype)


@scene(make_on, ours, "PyTorch's settings stay as they are", asked="zeros")
def settings_stay(t):
    for device in (t.device, *t.others):
        with current(device):
            t.call((2, 5), t.device, torch.float16)
    elsewhere = next(iter(t.others), None)
    yield "the result", kept(t, (2, 5), t.device, torch.int64, device=elsewhere, dtype=torch.bfloat16)
    t.second()


@scene(make_on, ours, "a new tensor at every call")
def new_every_time(t):
    for shape, dtype in (((4, 3), torch.float32), ((5,), torch.float16)):
        first = mark_memory(t.call, shape, t.device, dtype)
        yield Seen("the result", first, asked="zeros")
        size = first.untyped_storage().nbytes()
        yield must(size >= first.nbytes, "all its elements share one place in memory", "a place for each")
        with torch.inference_mode():  # outside of it a tensor that was made in it refuses to be changed
            first.fill_(7)
        second = mark_memory(t.call, shape, t.device, dtype)
        yield Seen("the first tensor after the second call", first, asked="as it was filled before")
        yield must(second is not first, "the second call returned the tensor of the first", "a new tensor")
        yield Seen("the second tensor", second, asked="zeros")


@scene(make_on, ours, "made there, with no transfer", only="accelerator")
def nothing_transferred(t):
    for shape, dtype in zip((*SHAPES[:4], (3, 2)), DTYPES, strict=True):
        _, log = mark_memory(t.watched, shape, t.device, dtype)
        copies = log.events.transfers
        words = [f"the tensor was made on {one.source} and transferred to {one.target}" for one in copies[:1]]
        if len(copies) > 1 and all(one.target == str(t.device) for one in copies):
            words = ["{times}: each number assigned to a part of the tensor is one"]
        yield most("".join(words), copies, 0, f"made on {t.device}, no transfer", noun="transfer")
    with pretend.machine(t, (), built=False, other="mps"):  # an accelerator of another kind
        yield "the result", t.call((2, 3), torch.device("mps", 0), torch.float32)
