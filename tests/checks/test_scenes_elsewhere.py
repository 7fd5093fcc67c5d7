"""Scenes on a device that nobody of us has seen: it rounds otherwise, and its host waits more often.

What a scene expects is what our own answer shows on that device, so that no right answer is refused there. A
wrong answer may lose its name, and never gets another mistake's. The number of threads changes nothing,
because `judge` sets it to one.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from unittest import mock

import pytest
from bank import ANSWERS, Answer, load
from other_rounding import OtherRounding

from devlab.checks import scenes
from devlab.checks.exercise import find
from devlab.checks.judge import judge, same_words
from devlab.watching.record import NOWHERE, Events, Synchronization, When
from factory import mistakes

TABLES = mistakes.tables()
FEW = 2  # right answers of a bank
real_waits = Events.synchronizations.fget


def see_more_waits(events: Events) -> list[Synchronization]:
    """Return the waits that a log has, and two more where an accelerator worked or copied."""
    more = Synchronization("sim:0", "elsewhere", NOWHERE, When(0.0, 0.0))
    there = events.launches or events.transfers
    return real_waits(events) + [more, more] * bool(there)


@contextlib.contextmanager
def unseen_device() -> Iterator[None]:
    """Judge on an accelerator with a rounding and waits of its own, which our own answer meets as well."""
    scenes.remember.cache_clear()
    try:
        with OtherRounding(), mock.patch.object(Events, "synchronizations", property(see_more_waits)):
            yield
    finally:
        scenes.remember.cache_clear()


def judge_there(answers: list[Answer]) -> list[str]:
    """Return what is wrong with the verdicts on answers to one exercise, on a device unlike ours."""
    kept = json.loads(TABLES[answers[0].exercise].read_text(encoding="utf-8"))["words"]
    names = {same_words(words) for words in kept if words}
    here = [answer.fragment and judge(find(answer.exercise), answer.code).headline for answer in answers]
    with unseen_device():
        there = [judge(find(answer.exercise), answer.code) for answer in answers]
    found = []
    for answer, said, verdict in zip(answers, here, there, strict=True):
        if answer.fragment is None and not verdict.passed:
            found.append(f"{answer.name} is right and refused: {verdict}")
        elif said and same_words(said) != same_words(verdict.headline) in names:
            found.append(f"{answer.name} has another mistake's name: {verdict.headline}, not {said}")
    return found


def divide(name: str) -> tuple[list[Answer], list[Answer]]:
    """Divide a bank: two right answers and a wrong one of each row; the rest."""
    first, rest, met = [], [], Counter()
    for answer in load(ANSWERS / f"{name}.py"):
        met[answer.rows] += 1
        few = 1 if answer.fragment else FEW
        (first if met[answer.rows] <= few else rest).append(answer)
    return first, rest


@pytest.mark.parametrize("name", TABLES)
def test_right_answers_pass_and_no_name_is_wrong(one_accelerator, name):
    """Of each bank two right answers, and a wrong one of each row."""
    assert not judge_there(divide(name)[0])


# Thorough, for the names of a table hang on the same numbers in every row.
@pytest.mark.thorough
@pytest.mark.parametrize("name", TABLES)
def test_no_name_of_a_bank_is_wrong(one_accelerator, name):
    """The same of the other answers."""
    assert not judge_there(divide(name)[1])
