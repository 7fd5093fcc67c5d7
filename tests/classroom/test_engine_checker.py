"""Transcripts judged again: the verdict is the same for every answer of a bank, right or wrong."""

import json
import os
from collections import OrderedDict, defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy
import pytest
import torch
from bank import ANSWERS, load

from devlab.checks.exercise import find
from devlab.checks.judge import judge
from devlab.classroom.engine import checker, transcript
from devlab.devices import bench

SEED = 4711
# Values, views, errors, models, a pretended machine, arguments changed in place, memory, a class.
SAMPLE = ["device_of", "add_across", "mask_like", "model_device", "list_gpus", "scale_in_place"]
SAMPLE += ["bytes_kept", "CausalMask", "cast_and_move"]


def recorded(code, exercise) -> dict:
    """Judge an answer as a worker does; return the verdict with its transcript, as it comes over a pipe."""
    kept = transcript.Recorder()
    result = judge(exercise, code, bench(), SEED, kept)
    rows = [
        [row.label, {place: one and str(one) for place, one in row.outcomes.items()}] for row in result.rows
    ]
    return json.loads(json.dumps({"rows": rows, "calls": kept.take()}))


def with_rows(verdict: dict, change) -> dict:
    """Return a verdict with another transcript, which is made of that one's rows."""
    return verdict | {"calls": json.dumps(change(json.loads(verdict["calls"])))}


@pytest.mark.parametrize("name", SAMPLE)
def test_a_replay_agrees_with_every_verdict(name):
    """Whatever a bank's answer earned, right or wrong, it keeps; a right one leaves nothing unread."""
    exercise, answers = find(name), load(ANSWERS / f"{name}.py")
    known = checker.Checker(bench(), SEED)
    known.learn(name, recorded(answers[0].code, exercise))
    for answer in answers:
        said = known.check(name, recorded(answer.code, exercise))
        assert not said["refuted"], f"{answer.name}: {said}"
        assert answer.fragment or not said["unread"], f"{answer.name}: {said}"


def changed(call: dict, **facts) -> dict:
    """Return a call of a transcript with other facts."""
    return {**call, **facts}


@pytest.mark.parametrize(
    ("said", "change"),
    [
        ("refuted", lambda row: []),
        ("refuted", lambda row: [7]),
        ("refuted", lambda row: [changed(call, gave=["is", 3]) for call in row]),
        ("refuted", lambda row: [changed(call, of="another call") for call in row]),
        ("refuted", lambda row: [changed(call, raised=["ValueError", "no"]) for call in row]),
        (
            "refuted",
            lambda row: [changed(call, gave=["tensor", "torch.float32", [1 << 40], []]) for call in row],
        ),
        ("unread", lambda row: [changed(call, gave=["opaque", "device"]) for call in row]),
        ("unread", lambda row: [*row, row[0]]),
    ],
)
def test_another_transcript_than_the_work_left(said, change):
    """A claim that its own results do not bear out is refuted; one whose results are hidden, named."""
    exercise = find("device_of")
    right = recorded(load(ANSWERS / "device_of.py")[0].code, exercise)
    known = checker.Checker(bench(), SEED)
    known.learn("device_of", right)
    every = [row.label for row in exercise.rows]
    assert known.check("device_of", right)["confirmed"] == every
    found = known.check("device_of", with_rows(right, lambda rows: [change(row) for row in rows]))
    assert found == {"confirmed": [], "refuted": [], "unread": []} | {said: every}


@pytest.mark.parametrize("name", ["standardize", "append_ones"])
def test_wrong_results_that_claim_to_have_passed_are_refuted(name):
    """A row that is a scene finds them wrong without a further call, which no transcript holds."""
    exercise, answers = find(name), load(ANSWERS / f"{name}.py")
    known = checker.Checker(bench(), SEED)
    right = recorded(answers[0].code, exercise)
    known.learn(name, right)
    sure = known.check(name, right)["confirmed"]
    caught = 0
    for answer in [one for one in answers if one.fragment][:6]:
        verdict = recorded(answer.code, exercise)
        failed = {label for label, marks in verdict["rows"] if "failed" in marks.values()} & {*sure}
        claim = verdict | {
            "rows": [[label, dict.fromkeys(marks, "passed")] for label, marks in right["rows"]]
        }
        assert failed <= {*known.check(name, claim)["refuted"]}, answer.name
        caught += len(failed)
    assert caught > 3


@pytest.mark.parametrize("calls", [None, 7, [], "", "[", "{}", "[" * 100_000, "\ud800", '"[]"'])
def test_what_is_no_transcript_bears_nothing_out(calls):
    """A worker may send anything: it is told apart from the reference's, and refuted."""
    right = recorded(load(ANSWERS / "device_of.py")[0].code, find("device_of"))
    known = checker.Checker(bench(), SEED)
    known.learn("device_of", right)
    found = known.check("device_of", right | {"calls": calls})
    assert found["refuted"] == [row.label for row in find("device_of").rows]


def test_a_transcript_like_the_references_is_not_read(monkeypatch):
    """Rows and calls must both be alike; what else a verdict says is of no account."""
    right = recorded(load(ANSWERS / "device_of.py")[0].code, find("device_of"))
    known = checker.Checker(bench(), SEED)
    known.learn("device_of", right)
    told = {"device_of": known.check("device_of", right)}
    marks = [[label, dict.fromkeys(places, "failed")] for label, places in right["rows"]]
    others = (
        right | {"rows": right["rows"][:-1]},
        with_rows(right, lambda rows: rows[:-1]),
        right | {"rows": marks},
        right | {"calls": None},
    )
    monkeypatch.setattr(checker, "_run_in_child", lambda work, seconds: {"device_of": "read"})
    (questions, question), (answer, answers) = os.pipe(), os.pipe()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(checker.serve, known, questions, answers)
        with os.fdopen(question, "wb") as ask, os.fdopen(answer, "rb") as hear:
            assert checker.ask(ask, hear, {"device_of": right}) == told
            assert checker.ask(ask, hear, {"device_of": right | {"headline": "other words"}}) == told
            for other in others:
                assert checker.ask(ask, hear, {"device_of": other}) == {"device_of": "read"}


@pytest.mark.parametrize(
    "value",
    [
        torch.arange(6.0).reshape(2, 3).t(),
        torch.ones(3, 1).expand(3, 4),
        torch.zeros(0, 5, dtype=torch.int64),
        torch.tensor([1 + 2j]),
        torch.tensor(True),
        torch.randn(3).to(torch.bfloat16),
        torch.nn.Parameter(torch.ones(2)),
        torch.arange(12.0).reshape(3, 4)[:, ::2],
        torch.arange(6.0).as_strided((3, 3), (1, 1)),
        torch.arange(9).to(torch.bfloat16)[1::3],
        numpy.arange(6).reshape(2, 3),
        numpy.arange(4).astype("float16"),
        [float("inf"), -0.0, 1 + 2j, "ü"],
        {"a": (None, True), 1: {2, 3}, torch.float32: torch.Size([2, 1])},
        [torch.ones(2), '", "'],
    ],
)
def test_values_come_back_as_they_were(value):
    """Type, numbers and memory's order survive the way through JSON."""
    written = transcript.write(value)
    again = transcript.read(json.loads(transcript.as_json(written)))
    assert type(again) is type(value)
    assert transcript.write(again) == transcript.write(value)
    assert getattr(again, "dtype", None) == getattr(value, "dtype", None)


@pytest.mark.parametrize("device", bench(), ids=str)
@pytest.mark.parametrize("lazy", [torch._neg_view, torch.conj])
def test_what_is_negated_or_conjugated_lazily_comes_back_as_numbers(device, lazy):
    """Its values are read like any other's; of an argument's memory, read otherwise, no copy is made."""
    x = torch.tensor([1 + 2j, 3 - 1j]).to(device)
    again = transcript.read(json.loads(transcript.as_json(transcript.write(lazy(x)))))
    assert again.device == x.device
    assert again.tolist() == lazy(x).tolist()
    assert transcript.write(lazy(x), [x]) == ["opaque", "Tensor"]


class Celsius(float):
    """A number of a student's own class."""


class Batch(NamedTuple):
    """A tuple of a student's own class."""

    x: int


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Celsius(1.5), 1.5),
        (numpy.float64(1.5), 1.5),
        (numpy.bool_(True), True),
        (Batch(3), (3,)),
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(int, a=1), {"a": 1}),
        (torch.ones(1).max(0), (torch.ones(()), torch.zeros((), dtype=torch.int64))),
    ],
)
def test_a_value_whose_class_extends_a_type_of_pythons_is_read_as_that_type(value, plain):
    """Honest results are of such classes, and to lose their marks for that would accuse their authors."""
    assert transcript.write(value) == transcript.write(plain)


def test_what_lies_between_elements_is_no_part_of_a_result():
    """A tensor that reaches far takes as much as its elements."""
    far = torch.zeros(1 << 20)[:: (1 << 20) - 1]
    written = transcript.write(far)
    assert len(transcript.as_json(written)) < 200
    assert transcript.read(json.loads(transcript.as_json(written))).tolist() == far.tolist()
    written[3] = [1 << 40]
    with pytest.raises(ValueError, match="less data"):
        transcript.read(json.loads(transcript.as_json(written)))


def test_a_view_of_an_argument_is_one_again():
    """What shares memory with an argument shares it after a replay, on a simulated device too."""
    for device in bench():
        x, other = torch.arange(6.0).to(device), torch.zeros(6).to(device)
        view = x.view(2, 3)[:, 1:]
        written = transcript.write([view, x], transcript.inside((x,)))
        again, same = transcript.read(json.loads(transcript.as_json(written)), transcript.inside((other,)))
        assert same is other
        again.add_(1)
        assert other.tolist() == [0, 1, 1, 0, 1, 1]


def test_what_cannot_be_put_back_says_so_at_the_first_look():
    """A module stands for itself in no replay: whoever asks it anything ends the replay."""
    stand_in = transcript.read(transcript.write(torch.nn.Linear(1, 1)))
    for look in (len, bool, str, lambda one: one.weight, lambda one: isinstance(one, torch.nn.Module)):
        with pytest.raises(transcript.Impossible):
            look(stand_in)
