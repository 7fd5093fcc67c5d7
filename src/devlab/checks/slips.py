"""Known slips: a wrong result that equals what a usual mistake gives is called by that mistake's name."""

from collections.abc import Callable, Mapping

import torch

from devlab.checks import expect
from devlab.checks.reading import on_cpu

# A slip's result, or what makes it: most are never asked for.
Slip = torch.Tensor | Callable[[], torch.Tensor]

# The widest first: of several that lose the same digits, the one that loses the least is named.
DTYPES = (
    torch.float64,
    torch.int64,
    torch.float32,
    torch.int32,
    torch.bfloat16,
    torch.float16,
    torch.uint8,
)


def named(
    got: object,
    wanted: torch.Tensor,
    slips: Mapping[str, Slip],
    expected: str = "",
    within: float | None = None,
) -> None:
    """Fail with the words of the slip whose result `got` is; do nothing where `got` is right or unknown.

    Shape and numbers decide, dtype and device do not. `within` is the tolerance, as in `expect.tensor`. A
    slip that gives what is wanted says nothing.

    >>> named(torch.tensor([1]), torch.tensor([2]), {"one was subtracted": torch.tensor([3])})
    >>> named(torch.tensor([1]), torch.tensor([2]), {"one was subtracted": torch.tensor([1])})
    Traceback (most recent call last):
    ...
    devlab.checks.expect.Mismatch: one was subtracted
    """
    if not isinstance(got, torch.Tensor) or got.is_meta or got.layout is not torch.strided:
        return
    if is_alike(got, wanted, within):
        return
    for words, slip in slips.items():
        try:
            wrong = slip() if callable(slip) else slip
        except (RuntimeError, TypeError, ValueError, IndexError):  # it cannot be made of inputs of this form
            continue
        if is_alike(got, wrong, within) and not is_alike(wrong, wanted, within):
            expect.fail(words, expected, got)


def lost_digits(
    got: object,
    wanted: torch.Tensor,
    x: torch.Tensor,
    made: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> None:
    """Fail where `got` is what `made` makes of x after x went through a third dtype; do nothing otherwise.

    By default what is made is x itself, in the dtype of `wanted`.

    >>> x = torch.tensor([0.1], dtype=torch.float64)
    >>> lost_digits(x, x, x)
    >>> lost_digits(x.float().double(), x, x)
    Traceback (most recent call last):
    ...
    devlab.checks.expect.Mismatch: digits were lost: the numbers were torch.float32 on the way
    """
    if not isinstance(got, torch.Tensor) or got.dtype != wanted.dtype or x.is_complex():
        return
    held, back = on_cpu(x), x.dtype if made else wanted.dtype
    made = made or (lambda rounded: rounded)
    mistaken = {
        f"digits were lost: the numbers were {third} on the way": (
            lambda third=third: made(held.to(third).to(back))
        )
        for third in DTYPES
        if third not in (x.dtype, wanted.dtype)
    }
    way = f"{x.dtype} throughout" if wanted.dtype == x.dtype else f"from {x.dtype} to {wanted.dtype} at once"
    named(got, wanted, mistaken, way, within=0.0)


def is_alike(one: torch.Tensor, other: torch.Tensor, within: float | None = None) -> bool:
    """Tell whether two tensors have one shape and the same numbers, as far as the dtype of the first goes.

    >>> is_alike(torch.ones(2), torch.ones(2, dtype=torch.float64))
    True
    """
    if one.shape != other.shape:
        return False
    mine, theirs = on_cpu(one), on_cpu(other)
    if not (mine.is_floating_point() or mine.is_complex()):
        return torch.equal(mine, theirs.to(mine.dtype)) and torch.equal(theirs, mine.to(theirs.dtype))
    relative, absolute = expect.ROUNDING.get(mine.dtype, expect.ROUNDING[torch.float32])
    if within is not None:
        relative, absolute = 0.0, within
    wide = torch.complex128 if mine.is_complex() or theirs.is_complex() else torch.float64
    return torch.allclose(mine.to(wide), theirs.to(wide), rtol=relative, atol=absolute, equal_nan=True)


def tensor(
    got: object,
    wanted: torch.Tensor,
    on: torch.device,
    what: str = "the result",
    within: float | None = None,
    known: Callable[[], Mapping[str, torch.Tensor]] = dict,
) -> None:
    """Expect what `expect.tensor` does; where the result is that of a known slip, the headline names it.

    `known` returns for each slip, in words, the result that it gives. It is asked only about a result of
    the right dtype in the right place. Two slips with this very result tell nothing, and neither is named.

    >>> tensor(torch.ones(2), torch.ones(2), torch.device("cpu"))
    >>> tensor(torch.ones(2), torch.zeros(2), torch.device("cpu"), known=lambda: {"all ones": torch.ones(2)})
    Traceback (most recent call last):
    ...
    devlab.checks.expect.Mismatch: all ones
    """
    try:
        expect.tensor(got, wanted, on, what, within)
    except expect.Mismatch as found:
        in_place = isinstance(got, torch.Tensor) and (got.dtype, got.device) == (wanted.dtype, on)
        if in_place and (words := recognized(got, known(), within)):
            raise expect.Mismatch(words, found.expected, found.got) from None
        raise


def recognized(got: torch.Tensor, known: Mapping[str, torch.Tensor], within: float | None = None) -> str:
    """Return the words of the one slip whose result this is, "" where it is none or may be several.

    >>> recognized(torch.ones(()), {"a one": torch.ones(()), "a two": torch.ones(()) * 2})
    'a one'
    """
    found = [w for w, value in known.items() if got.dtype == value.dtype and is_alike(got, value, within)]
    return found[0] if len(found) == 1 else ""


def number(got: float, known: Mapping[str, float], within: float) -> str:
    """Return the words of the one slip whose number this is, within a share of it; else "".

    >>> number(0.5, {"a half": 0.5, "one": 1.0}, within=0.01)
    'a half'
    """
    found = [words for words, value in known.items() if abs(got - value) <= within * abs(value)]
    return found[0] if len(found) == 1 else ""
