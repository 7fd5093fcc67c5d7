"""Wrong results that are told apart: each is what some mistake gives, worked out beside the right one."""

from collections.abc import Callable, Mapping

import torch

from devlab.checks import expect
from devlab.checks.reading import on_cpu


def tensor(
    got: object,
    wanted: torch.Tensor,
    on: torch.device,
    what: str = "the result",
    within: float | None = None,
    known: Callable[[], Mapping[str, torch.Tensor]] = dict,
) -> None:
    """Expect what `expect.tensor` does; where the result is that of a known mistake, the headline names it.

    `known` returns for each mistake, in words, the result that it gives. It is asked only about a result of
    the right dtype in the right place. Two mistakes with this very result tell nothing, and neither is named.

    >>> tensor(torch.ones(2), torch.ones(2), torch.device("cpu"))
    >>> tensor(torch.ones(2), torch.zeros(2), torch.device("cpu"), known=lambda: {"all ones": torch.ones(2)})
    Traceback (most recent call last):
    ...
    devlab.checks.expect.Mismatch: all ones
    """
    try:
        expect.tensor(got, wanted, on, what, within)
    except expect.Mismatch as found:
        named = isinstance(got, torch.Tensor) and (got.dtype, got.device) == (wanted.dtype, on)
        if named and (words := recognized(got, known(), within)):
            raise expect.Mismatch(words, found.expected, found.got) from None
        raise


def recognized(got: torch.Tensor, known: Mapping[str, torch.Tensor], within: float | None = None) -> str:
    """Return the words of the one mistake whose result this is, "" where it is none or may be several.

    >>> recognized(torch.ones(()), {"a one": torch.ones(()), "a two": torch.ones(()) * 2})
    'a one'
    """
    found = [words for words, value in known.items() if _alike(got, value, within)]
    return found[0] if len(found) == 1 else ""


def number(got: float, known: Mapping[str, float], within: float) -> str:
    """Return the words of the one mistake whose number this is, within a share of it; else "".

    >>> number(0.5, {"a half": 0.5, "one": 1.0}, within=0.01)
    'a half'
    """
    found = [words for words, value in known.items() if abs(got - value) <= within * abs(value)]
    return found[0] if len(found) == 1 else ""


def _alike(got: torch.Tensor, value: torch.Tensor, within: float | None) -> bool:
    if got.shape != value.shape or got.dtype != value.dtype:
        return False
    try:
        expect.values(on_cpu(got), value, within=within)
    except expect.Mismatch:
        return False
    return True
