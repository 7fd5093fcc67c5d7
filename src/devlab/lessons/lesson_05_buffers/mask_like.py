"""A mask made from the input: it takes its device, wherever the lengths are."""

import torch

from devlab.checks import cases, expect
from devlab.checks.scenes import scene
from devlab.checks.seen import must
from devlab.lessons.lesson_05_buffers import lesson

mask_like = lesson.exercise(
    "mask_like(x, lengths)",
    ("E4", "E5", "W1", "W2"),
    "Compare step numbers 0, 1, 2, … with each row's length. Where must the step numbers be made, and where "
    "may `lengths` be?",
    "`torch.arange(time, device=x.device)` makes the step numbers in the right place. `lengths.to(x.device)` "
    "brings the lengths there, and costs nothing when they are there already.",
    "`return torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]`",
)

# (batch, time, features): the longest row need not reach the end, a row may be empty, and there may be one.
CASES = (((3, 5, 2), [2, 5, 1]), ((4, 7, 3), [0, 3, 6, 1]), ((1, 6, 1), [3]), ((2, 1, 3), [1, 0]))


def ours(x, lengths):
    return torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]


def each(t, *calls):
    """See the mask of each call; a wrong mask is asked for again, with an x that holds zeros."""
    for x, lengths in calls:
        given = f"lengths {lengths.tolist()} and time {x.shape[1]}"
        got, right = t.call(x, lengths), ours(x, lengths)
        if isinstance(got, torch.Tensor):
            words = f"the mask is on {got.device}, x on {x.device}"
            yield must(got.device == x.device, words, f"the mask on {x.device}", got)
            if got.shape == right.shape and lengths.device == x.device and not expect.is_alike(got, right):
                kept, again = got.clone(), t.call(torch.zeros_like(x), lengths)
                same = not isinstance(again, torch.Tensor) or expect.is_alike(again, kept)
                words = "the mask depends on the contents of x, and the lengths alone decide"
                asked = f"one mask for {given}, whatever x holds"
                yield must(same, words, asked, "another where x holds only zeros")
        yield f"the mask for {given}", got, None, f"for {given}: True in the first steps"


@scene(mask_like, ours, "True inside each row's length")
def inside_each_length(t):
    for seed, (shape, lengths) in enumerate(CASES, start=t.seeds[0]):
        x, ends = t.randn(*shape, seed=seed), torch.tensor(lengths, device=t.device)
        yield from each(t, (x, ends))
        if lengths[1:]:  # the next batch of the same shape has others, which may be smaller integers
            yield from each(t, (x, ends.int().flip(0)))


@scene(mask_like, ours, "lengths may come from any device")
def lengths_from_elsewhere(t):
    shape, lengths = CASES[1]
    for where in cases.places(t)[1:]:
        yield from each(t, (t.randn(*shape, seed=t.seeds[1]), torch.tensor(lengths, device=where)))


@scene(mask_like, ours, "a boolean mask, whatever x holds")
def any_contents(t):
    shape, lengths = CASES[0]
    x, ends = t.randn(*shape, seed=t.seeds[2]), torch.tensor(lengths, device=t.device)
    # Zeros inside and numbers outside: the lengths say what is padding, the contents do not.
    contents = torch.zeros_like(x), torch.full_like(x, float("nan")), x
    kinds = [one.to(dtype) for one, dtype in zip(contents, cases.floats(t.device), strict=False)]
    # bfloat16 holds 256 and 258 and not 257, so steps counted in x's dtype go wrong; uint8 ends at 255.
    long = t.randn(2, 301, 1).to(torch.bfloat16)
    far = torch.tensor([257, 299], device=t.device)
    near = torch.tensor([200, 3], dtype=torch.uint8, device=t.device)
    yield from each(t, *((one, ends) for one in (*kinds, x.long(), t.randn(3, 2, 5).transpose(1, 2))))
    yield from each(t, (long, far), (long, near), (x > 0, ends), (x.abs().to(torch.uint8), ends))
    if cases.holds(t.device, torch.complex64):
        yield from each(t, (torch.complex(x, x), ends))
    yield from each(t, *((x, ends.to(dtype)) for dtype in (torch.int8, torch.int16)))
