"""One fault is told once: rows that it stopped are not reached, and every other row says why it failed."""

import pytest
import torch

from devlab.checks import expect
from devlab.checks.exercise import Exercise, find
from devlab.checks.judge import judge
from devlab.checks.result import Outcome
from devlab.devices import bench

CPU = (torch.device("cpu"),)
PASSED, FAILED, ERROR, UNREACHED = Outcome.PASSED, Outcome.FAILED, Outcome.ERROR, Outcome.NOT_REACHED


def doubling() -> Exercise:
    """Return an exercise with three rows: the values, the dtype, and what a number gives."""
    exercise = Exercise("double", "00_test", "double(x)", ("D1",), ("first hint", "second hint"))

    @exercise.row("twice the value")
    def twice(trial):
        x = trial.randn(3, 2)
        expect.tensor(trial.call(x), 2 * x, trial.device)

    @exercise.row("the dtype stays")
    def dtype_stays(trial):
        x = trial.randn(4, dtype=torch.float64)
        got = trial.call(x)
        expect.equal(got.dtype, x.dtype, "the dtype is another one")
        with trial.assumed():
            expect.tensor(got, 2 * x, trial.device)

    @exercise.row("twice a number")
    def of_a_number(trial):
        expect.equal(trial.call(3), 6, "that is not twice the number")

    return exercise


def column(answer, devices=CPU) -> list[Outcome]:
    """Judge an answer and return each row's outcome on the last device."""
    return [row.outcomes[str(devices[-1])] for row in judge(doubling(), answer, devices).rows]


def test_the_same_headline_marks_one_row_alone():
    """Wrong values keep the second row from its question; the third one asks another and answers it."""
    assert column(lambda x: 3 * x if isinstance(x, torch.Tensor) else 2 * x) == [FAILED, UNREACHED, PASSED]


def test_the_same_exception_marks_one_row_alone():
    """One line of the learner's raises the same in each row: the rows after the first were not reached."""

    def double(x):
        return x.no_such_attribute

    assert column(double) == [ERROR, UNREACHED, UNREACHED]

    def other(x):
        if isinstance(x, torch.Tensor):
            return x.no_such_attribute
        return {}[x]

    assert column(other) == [ERROR, UNREACHED, ERROR]


def test_a_rows_own_finding_is_its_own():
    """Another headline than the one above is another fault."""
    assert column(lambda x: 3 * x.float() if isinstance(x, torch.Tensor) else 6) == [FAILED, FAILED, PASSED]


def test_a_row_never_fails_by_what_it_assumes():
    """What only the second row meets is told as the headline, and the row is not marked by it."""

    def double(x):
        wrong = isinstance(x, torch.Tensor) and x.dtype is torch.float64
        return x + x + wrong

    result = judge(doubling(), double, CPU)
    assert result.outcome is FAILED
    assert result.headline == "the values of the result are wrong"
    assert [row.outcomes["cpu"] for row in result.rows] == [PASSED, UNREACHED, PASSED]
    assert result.points == 2


def test_a_finding_of_a_rows_own_is_told_first():
    """The headline is no row's assumption where a row has found something itself."""

    def double(x):
        if not isinstance(x, torch.Tensor):
            return 5
        return x + x + (x.dtype is torch.float64)

    result = judge(doubling(), double, CPU)
    assert result.headline == "that is not twice the number"
    assert [row.outcomes["cpu"] for row in result.rows] == [PASSED, UNREACHED, FAILED]


def test_devices_are_looked_at_one_by_one():
    """A fault on one device says nothing about another, and the device in its words makes no difference."""

    def double(x):
        return 2 * x.cpu() if isinstance(x, torch.Tensor) else 6

    devices = bench()
    result = judge(doubling(), double, devices)
    assert [row.outcomes["cpu"] for row in result.rows] == [PASSED, PASSED, PASSED]
    for name in ("sim:0", "sim:1"):
        assert [row.outcomes[name] for row in result.rows] == [FAILED, UNREACHED, PASSED]
    assert "the result is on cpu, not sim:0" in result.headline


def test_every_other_row_says_why_it_failed():
    """No row marked ✗ or ! stands there without a word; what is not reached needs none."""

    def double(x):
        if isinstance(x, torch.Tensor):
            return 3 * x
        return {}[x]

    result = judge(doubling(), double, CPU)
    said = dict(result.details)["also failing"]
    assert said.startswith("twice a number: your code raised KeyError on cpu, at test_findings.py, line ")
    assert "the dtype stays" not in said
    assert list(dict(result.details))[-2:] == ["also failing", "next"]


def test_a_row_that_breaks_adds_nothing_to_another_rows_finding():
    """A wrong answer may break a later row of ours: it was not reached, and there is nothing to report."""
    exercise = doubling()
    exercise.row("breaks on its own")(lambda trial: trial.call(3).nonsense())
    result = judge(exercise, lambda x: 2 * x if type(x) is int else 3 * x, CPU)
    assert result.rows[3].outcomes["cpu"] is UNREACHED
    assert "please report it" not in str(result)
    assert "please report it" in str(judge(exercise, lambda x: x + x, CPU))


def test_nothing_more_to_say():
    """One row's fault, told in full, needs no last line."""
    assert "also failing" not in str(judge(doubling(), lambda x: 2 * x if type(x) is int else 3 * x, CPU))


def test_not_reached_is_shown_as_a_dash_and_earns_nothing():
    """In text and HTML; a screen reader says the words."""
    result = judge(doubling(), lambda x: 2 * x if type(x) is int else 3 * x, CPU)
    assert "  the dtype stays      –" in str(result)
    assert 'aria-label="not reached"' in result.html()
    assert (result.points, result.possible) == (1, 3)


class OtherDiagonal(torch.nn.Module):
    """A causal mask that hides the present, too: only its numbers are wrong."""

    def __init__(self, max_length):
        super().__init__()
        self.register_buffer("mask", torch.ones(max_length, max_length, dtype=torch.bool).triu())

    def forward(self, x):
        """Cut the mask."""
        return self.mask[: x.shape[1], : x.shape[1]]


def population(x):
    """Standardize by the deviation of the population: only its numbers are wrong."""
    spread = x.std(0, correction=0)
    return (x - x.mean(0)) / torch.where(spread == 0, 1, spread)


@pytest.mark.parametrize(("name", "answer"), [("CausalMask", OtherDiagonal), ("standardize", population)])
def test_one_fault_marks_no_unrelated_row(name, answer):
    """On no device do wrong numbers mark more than one row: the others are right, or were not reached."""
    result = judge(find(name), answer, bench())
    assert result.outcome is FAILED
    for device in result.devices:
        marks = [row.outcomes[device] for row in result.rows]
        assert marks.count(FAILED) == 1, str(result)
        assert ERROR not in marks
