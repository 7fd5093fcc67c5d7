"""Comparisons that say what was wrong, and known slips by name."""

import types
from collections.abc import Callable, Mapping
from functools import partial

import numpy
import torch

from devlab.checks.values import a_type, describe, describe_form, on_cpu, shorten

# What a dtype cannot hold, relative and absolute: the tolerances of torch.testing.
ROUNDING = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
}


class Mismatch(AssertionError):
    """An answer did something other than the task asks.

    `headline` is the finding in a few words; `expected` and `got` are the two sides, in words. `assumed` says
    that the row took for granted what failed (`Trial.assumed`), `named` whether wrong values are those of a
    known mistake.
    """

    assumed, named = False, None

    def __init__(self, headline: str, expected: str = "", got: str = ""):
        super().__init__(headline)
        self.headline = headline
        self.expected = expected
        self.got = got


def fail(headline: str, expected: str = "", got: object = None) -> None:
    """Raise the Mismatch; `got` may be any value and is described.

    >>> fail("too small", "at least 2", 1)
    Traceback (most recent call last):
    ...
    devlab.checks.expect.Mismatch: too small
    """
    raise Mismatch(headline, expected, got if isinstance(got, str) else describe(got))


def that(condition: object, headline: str, expected: str = "", got: object = None) -> None:
    """Expect something to be so; `fail` says what the other arguments are.

    >>> that(2 < 3, "two is not less than three")
    """
    if not condition:
        fail(headline, expected, got)


def kind(got: object, wanted: type | tuple[type, ...], words: str, what: str = "the result") -> None:
    """Expect a value of a type; `words` names that type for the learner, as in "a torch.device".

    A subclass will do, but for bool, which Python counts among the integers and a learner does not.

    >>> kind(2, int, "an int")
    """
    kinds = wanted if isinstance(wanted, tuple) else (wanted,)
    if isinstance(got, kinds) and not (isinstance(got, bool) and bool not in kinds):
        return
    if got is None:
        fail(f"{what} is None: is a `return` missing?", words, "None")
    if isinstance(got, types.BuiltinFunctionType | types.MethodType):
        fail(f"{what} is a method that was not called: are its parentheses missing?", words, describe(got))
    fail(f"{what} is {a_type(got)}, not {words}", words, describe(got))


def module(got: object, name: str, what: str = "the result") -> None:
    """Expect a module that was made one: without `super().__init__()` it can neither move nor be saved.

    `name` is the exercise's.

    >>> module(torch.nn.ReLU(), "Net")
    """
    kind(got, torch.nn.Module, "an nn.Module", what)
    if "_buffers" not in vars(got):
        asked = "`super().__init__()` first of all in __init__"
        fail(f"{name} was never made a module", asked, "an __init__ without it")


def equal(got: object, wanted: object, headline: str) -> None:
    """Expect a plain value that equals the wanted one.

    >>> equal({1, 2}, {2, 1}, "a value is missing")
    """
    if not bool(got == wanted):
        fail(headline, describe(wanted), got)


def device(got: object, wanted: torch.device, what: str = "the result") -> None:
    """Expect a tensor to be on a device.

    >>> device(torch.zeros(1), torch.device("cpu"))
    """
    if got.device != wanted:
        fail(f"{what} is on {got.device}, not {wanted}", f"{what} on {wanted}", f"{what} on {got.device}")


def tensor(
    got: object,
    wanted: torch.Tensor,
    on: torch.device,
    what: str = "the result",
    within: float | None = None,
) -> None:
    """Expect a tensor on device `on` that equals `wanted`, which may live anywhere.

    Compares type, shape, dtype, device, finiteness and values, in that order, and stops at the first
    that differs. Values may differ by what the dtype cannot hold (`torch.testing`'s own tolerances), or
    by `within` where good answers differ by more.

    >>> tensor(torch.ones(2), torch.ones(2), torch.device("cpu"))
    """
    kind(got, torch.Tensor, "a tensor", what)
    if odd := _differ_in_form(got, wanted):
        fail(f"{what} {odd}", describe_form(wanted.dtype, wanted.shape, on), got)
    device(got, on, what)
    values(got, wanted, what, within)


def readable(got: torch.Tensor) -> None:
    """Expect a tensor whose numbers lie in memory one by one, as those of all tasks do.

    >>> readable(torch.ones(2))
    """
    if got.layout is not torch.strided:
        fail(f"the result is a tensor of another layout, {got.layout}", "an ordinary (strided) tensor", got)
    # To read what is no longer there would end the process.
    if got.is_cpu and got.numel() and not got.untyped_storage().nbytes():
        fail(
            "the result's memory was given back: its storage has 0 bytes", "a tensor with its numbers", "none"
        )


def array(got: object, wanted: numpy.ndarray, what: str = "the result") -> None:
    """Expect a NumPy array that equals `wanted`: type, shape, dtype and values, in that order.

    >>> array(numpy.ones(2), numpy.ones(2))
    """
    kind(got, numpy.ndarray, "a NumPy array", what)
    if odd := _differ_in_form(got, wanted):
        fail(f"{what} {odd}", describe(wanted), got)
    if got.tobytes() != wanted.tobytes():
        values(*(torch.tensor(side.copy()) for side in (got, wanted)), what)


def values(
    got: torch.Tensor, wanted: torch.Tensor, what: str = "the result", within: float | None = None
) -> None:
    """Expect equal numbers in two tensors of one shape and dtype, wherever each lives.

    >>> values(torch.tensor([1.0]), torch.tensor([1.0]))
    >>> values(torch.tensor([1.0]), torch.tensor([1.01]), within=0.02)
    """
    mine, theirs = on_cpu(got), on_cpu(wanted)
    if mine.dtype == theirs.dtype and torch.equal(mine, theirs):
        return
    close = _close(mine, theirs, within)
    if bool(close.all()):
        return
    if mine.is_floating_point() and bool((lost := theirs.isfinite() & ~mine.isfinite()).any()):
        fail(f"{what} holds nan or inf", "finite numbers", _first(lost, mine, theirs))
    worst = (_wide(mine) - _wide(theirs)).abs().nan_to_num(nan=float("inf")).masked_fill(close, 0)
    wrong = worst >= worst.max()
    expected, found = _first(wrong, theirs), _first(wrong, mine)
    if expected == found:  # they differ in digits that are not shown
        expected, found = (_first(wrong, side, digits=17) for side in (theirs, mine))
    fail(f"the values of {what} are wrong", expected, found)


def _tolerances(dtype: torch.dtype, within: float | None) -> tuple[float, float]:
    """Return how far numbers may be apart, relative and absolute; `within` is absolute, and comes first."""
    return ROUNDING.get(dtype, ROUNDING[torch.float32]) if within is None else (0.0, within)


def _close(mine: torch.Tensor, theirs: torch.Tensor, within: float | None) -> torch.Tensor:
    # torch.testing.assert_close would say it too, but its first call imports sympy: two seconds.
    if not (theirs.is_floating_point() or theirs.is_complex()):
        return mine == theirs
    relative, absolute = _tolerances(theirs.dtype, within)
    return torch.isclose(_wide(mine), _wide(theirs), rtol=relative, atol=absolute, equal_nan=True)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128) if tensor.is_complex() else tensor.double()


def _first(
    where: torch.Tensor, mine: torch.Tensor, theirs: torch.Tensor | None = None, digits: int = 6
) -> str:
    """Return one place where `where` holds, and what stands there."""
    index = tuple(where.nonzero()[0].tolist())
    text = f"{_plain(mine[index], digits)}" + (f" at {list(index)}" if index else "")
    return text + (f", where {_plain(theirs[index], digits)} belongs" if theirs is not None else "")


def _plain(element: torch.Tensor, digits: int = 6) -> str:
    value = element.item()
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def _differ_in_form(got: torch.Tensor | numpy.ndarray, wanted: torch.Tensor | numpy.ndarray) -> str:
    if tuple(got.shape) != tuple(wanted.shape):
        return f"has shape {_shape(got)}, not {_shape(wanted)}"
    return f"is {got.dtype}, not {wanted.dtype}" if got.dtype != wanted.dtype else ""


def _shape(tensor: torch.Tensor | numpy.ndarray) -> str:
    return shorten(str(list(tensor.shape)).replace(" ", ""))


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


def name_slip(
    got: object,
    wanted: torch.Tensor,
    slips: Mapping[str, Slip],
    expected: str = "",
    within: float | None = None,
) -> None:
    """Fail with the words of the slip whose result `got` is; do nothing where `got` is right or unknown.

    Shape and numbers decide, dtype and device do not. `within` is the tolerance, as in `expect.tensor`. A
    slip that gives what is wanted says nothing.

    >>> name_slip(torch.tensor([1]), torch.tensor([2]), {"one was subtracted": torch.tensor([3])})
    >>> name_slip(torch.tensor([1]), torch.tensor([2]), {"one was subtracted": torch.tensor([1])})
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
            fail(words, expected, got)


def name_lost_digits(got: object, wanted: torch.Tensor, x: torch.Tensor) -> None:
    """Fail where `got` is x in the dtype of `wanted`, after x went through a third dtype; else do nothing.

    >>> x = torch.tensor([0.1], dtype=torch.float64)
    >>> name_lost_digits(x, x, x)
    >>> name_lost_digits(x.float().double(), x, x)
    Traceback (most recent call last):
    ...
    devlab.checks.expect.Mismatch: digits were lost: the numbers were torch.float32 on the way
    """
    if not isinstance(got, torch.Tensor) or got.dtype != wanted.dtype or x.is_complex():
        return
    mistaken = {
        f"digits were lost: the numbers were {third} on the way": partial(_convert_twice, x, third, wanted)
        for third in DTYPES
        if third not in (x.dtype, wanted.dtype)
    }
    way = f"{x.dtype} throughout" if wanted.dtype == x.dtype else f"from {x.dtype} to {wanted.dtype} at once"
    name_slip(got, wanted, mistaken, way, within=0.0)


def _convert_twice(x: torch.Tensor, third: torch.dtype, wanted: torch.Tensor) -> torch.Tensor:
    return on_cpu(x).to(third).to(wanted.dtype)


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
    relative, absolute = _tolerances(mine.dtype, within)
    wide = torch.complex128 if mine.is_complex() or theirs.is_complex() else torch.float64
    return torch.allclose(mine.to(wide), theirs.to(wide), rtol=relative, atol=absolute, equal_nan=True)
