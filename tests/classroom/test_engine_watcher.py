"""What a watcher makes of what comes through the pipe for verdicts, through which anything may come."""

import itertools
import json
import os
import socket
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from devlab.checks.exercise import find
from devlab.classroom.engine import quota, watcher
from devlab.classroom.engine.quota import Limits
from devlab.classroom.engine.walls import Walls
from devlab.classroom.engine.watcher import Gone, Watcher

NONCE = "a secret"


class Place:
    """A watcher whose template is this test."""

    def __init__(self, scratch):
        self.scratch = scratch
        ours, self.template = socket.socketpair()
        self.watcher = Watcher(os.getpid(), ours, Walls(1, scratch, 0, -1), Limits(), 1 << 40, None)

    def watch(self, *sent: bytes) -> tuple[str, dict | None, dict]:
        """Return where a process that sends this ended, why, and the verdicts."""
        reading, writing = os.pipe()
        done: dict[str, dict] = {}
        with ThreadPoolExecutor(1) as pool, os.fdopen(writing, "wb") as stream:
            pool.submit(stream.write, b"".join(sent)).add_done_callback(lambda _: stream.close())
            at, why = self.watcher._watch(reading, NONCE, done)
            os.close(reading)
        return at, why, done


@pytest.fixture
def place(tmp_path):
    """A watcher, and a scratch folder."""
    made = Place(tmp_path)
    with made.template, made.watcher.control:
        yield made


def message(**facts) -> bytes:
    """A message as a worker sends it."""
    text = json.dumps({"nonce": NONCE} | facts).encode()
    return struct.pack(">I", len(text)) + text


LABELS = [row.label for row in find("device_of").rows]
ROWS = [[label, {"cpu": "passed"}] for label in LABELS]
STRANGE = (
    "outcome",
    "outcome's type",
    "headline",
    "detail",
    "half a detail",
    "long detail",
    "long headline",
    "no rows",
    "label",
    "rows",
    "mark",
    "unknown mark",
    "device",
    "marks",
)
BEFORE = (message(begin=""), message(begin="a"), message(done="a", outcome="failed"))


def test_verdicts_come_one_by_one(place):
    """Each under its exercise, and nothing has ended early."""
    assert place.watch(*BEFORE, message(end=True)) == ("", None, {"a": {"outcome": "failed"}})


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"a": [3, 5], "b": [3]}, {"a": [3, 5], "b": [3]}),
        ({"a": [3, "5", None, True, 2.5, [1], -1, 6, 3]}, {"a": [3]}),
        ({"a": 3, "b": "34", "nobody": [1]}, {}),
        ([["a", [3]]], {}),
        ("a", {}),
    ],
)
def test_which_own_cells_are_needed_is_no_more_than_places(place, said, kept):
    """A worker says it once for all; what else comes there is passed over, and costs nothing."""
    later = message(own={"a": [1], "b": [1]})
    assert place.watch(message(own=said), *BEFORE, later, message(end=True))[1] is None
    assert watcher._places(place.watcher.needs, ["a", "b"], 6) == kept


@pytest.mark.parametrize(
    "forged",
    [
        message(nonce="a guess", done="b"),
        message(),
        message(done=["b"]),
        message(done={"b": 1}),
        message(begin=7),
        message(done="b", outcome="splendid"),
        message(done="b", outcome=["failed"]),
        message(done="b", outcome="failed", headline={}),
        message(done="b", outcome="failed", details=[["got", 3]]),
        message(done="b", outcome="failed", details=[["got"]]),
        message(done="b", outcome="failed", details=[["got", "x" * 4001]]),
        message(done="b", outcome="failed", headline="x" * 4001),
        message(done="device_of", outcome="passed"),
        message(done="device_of", outcome="passed", rows=[["mine", {"cpu": "passed"}]]),
        message(done="device_of", outcome="passed", rows=7),
        message(done="device_of", outcome="passed", rows=[[LABELS[0], {"cpu": {}}], *ROWS[1:]]),
        message(done="device_of", outcome="passed", rows=[[LABELS[0], {"cpu": "splendid"}], *ROWS[1:]]),
        message(done="device_of", outcome="passed", rows=[[LABELS[0], {"gpu": "passed"}], *ROWS[1:]]),
        message(done="device_of", outcome="passed", rows=[[LABELS[0], ["cpu"]], *ROWS[1:]]),
        struct.pack(">I", 3) + b"[1]",
        struct.pack(">I", 3) + b"{x}",
        struct.pack(">I", 1 << 31),
        struct.pack(">I", 40000) + b"[" * 40000,
    ],
    ids=[
        "nonce",
        "nothing",
        "a list",
        "a dict",
        "a number",
        *STRANGE,
        "no dict",
        "no JSON",
        "no end",
        "deep",
    ],
)
def test_what_no_worker_sends_costs_the_exercise_it_was_at(place, forged):
    """Whoever finds the pipe, and even the secret, is told to have tampered; the verdict before stands."""
    at, why, done = place.watch(*BEFORE, message(begin="b"), forged)
    assert (at, why["outcome"], why["tampered"]) == ("b", "error", True)
    assert "forged verdict" in why["headline"]
    assert done == {"a": {"outcome": "failed"}}


def test_a_verdict_of_devlabs_is_taken(place):
    """The proof of the refusals above: what differs from them in nothing else is heard."""
    verdict = {"outcome": "passed", "headline": "passed", "rows": ROWS, "details": [["got", "1"]]}
    sent = (message(begin="device_of"), message(done="device_of", **verdict), message(end=True))
    assert place.watch(*BEFORE, *sent)[1:] == (None, {"a": {"outcome": "failed"}, "device_of": verdict})
    place.watcher.names = ["a"]
    assert place.watch(*BEFORE, *sent)[1]["tampered"]


def test_an_end_before_its_time(place):
    """A process that is gone costs the exercise it was at; one that never sent anything, nobody's."""
    at, why, _ = place.watch(*BEFORE, message(begin="b"))
    assert (at, why["outcome"]) == ("b", "killed")
    assert place.watch()[1]["outcome"] == "grader error"


def test_what_an_exercise_leaves_is_its_own(place):
    """Too many files are found before the next one begins, however soon that is; a few cost nothing."""
    (place.scratch / "few").touch()
    assert place.watch(*BEFORE, message(begin="b"), message(end=True))[1] is None
    for number in range(2001):
        (place.scratch / str(number)).touch()
    at, why, _ = place.watch(*BEFORE, message(begin="b"), message(end=True))
    assert (at, why["outcome"]) == ("a", "killed")
    assert "2000 files" in why["headline"]


def test_a_template_that_is_gone(place):
    """Nobody waits for what its orphans may still send."""
    place.template.close()
    with pytest.raises(Gone):
        place.watch(message(begin="a"))


def test_whoever_was_there_before_is_passed_over_for_a_second(place, monkeypatch):
    """A machine has many processes; but a number that comes again may be the submission's."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    looked, clock = [], itertools.count(100.0, 0.5)
    monkeypatch.setattr(quota, "excess", lambda *facts: looked.append(quota.descendants(facts[0], facts[-1])))
    monkeypatch.setattr(watcher.time, "monotonic", lambda: next(clock))
    try:
        place.watcher._begin_to_look()
        assert str(child.pid) in place.watcher.others
        place.watcher._excess()
        place.watcher._excess()
        assert child.pid not in looked[0]
        assert child.pid in looked[1]
    finally:
        child.communicate()
