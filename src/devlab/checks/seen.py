"""What a scene sees: a thing by its name, a number with a limit, and something that has to be so."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

UNJUDGED = object()  # the value of a thing that another row judges


class Seen(NamedTuple):
    """One thing that a scene saw; a scene may yield the first three fields alone, as a tuple.

    `what` names the thing. Numbers may differ by `within`, or by `rel` of the largest number expected.
    `asked` says what the task wanted, and `got` what came, where the values alone do not tell. `right` is the
    right value where that follows from what the answer did before; otherwise it is what our answer showed.
    `wrong` is the headline where numbers are wrong in a way that no known mistake is.

    A thing with `most` is a number that must not be larger, unless ours is; `events` are what was counted,
    and `noun` names each. A thing with `must` has to be true, and `what` is the headline where it is not.
    """

    what: str
    value: object = None
    within: float | None = None
    asked: str = ""
    got: object = None
    rel: float = 0.0
    right: object = None
    wrong: str = ""
    most: float | None = None
    events: Sequence = ()
    noun: str = "time"
    must: bool = False
    home: torch.device | None = None  # where a tensor of ours was, before it was remembered on the CPU


def most(what: str, value: float | Sequence, limit: float, asked: str = "", noun: str = "time") -> Seen:
    """See a number, or how many events a log has, that must not exceed a limit.

    `what` may hold `{}`, the number; `{times}`, the number with its noun; and `{causes}` of the events.

    >>> most("{} waits", [], 1).value
    0
    """
    events, value = ((), value) if isinstance(value, int | float) else (value, len(value))
    return Seen(what, value, most=limit, asked=asked or f"at most {limit}", events=events, noun=noun)


def must(condition: object, headline: str, asked: str = "", got: object = "") -> Seen:
    """See something that has to be so; a scene may look at it as often as the answer gives cause to.

    >>> must(2 < 3, "two is not less than three").value
    True
    """
    return Seen(headline, bool(condition), asked=asked, got=got, must=True)
