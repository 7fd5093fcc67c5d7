"""The process that has submissions run, watches each while it runs, and reads what its worker sends.

A watcher forks nothing after its template: so no worker is born with another student's work in its memory.
"""

import base64
import contextlib
import json
import math
import os
import secrets
import select
import socket
import struct
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from pathlib import Path

from devlab.checks.exercise import find
from devlab.classroom.engine import quota
from devlab.classroom.engine.processes import MOST_SAID, receive, send
from devlab.classroom.engine.walls import Walls
from devlab.classroom.engine.worker import TEXT, early
from devlab.classroom.results import OF_ROWS, OUTCOMES, row_passed
from devlab.devices import bench


def is_verdict(name: str, said: dict) -> bool:
    """Tell whether a message is a verdict of devlab's on an exercise: every report is made from it.

    Its outcome is known, each row bears the exercise's own label, each mark a device of this machine, and its
    texts are no longer than a worker makes them. A pass has rows. A "grader error" is no worker's to choose,
    other than for an exercise that devlab does not have.

    >>> is_verdict("device_of", {"outcome": "error", "headline": "no cell defines device_of"})
    True
    >>> is_verdict("device_of", {"outcome": "passed", "rows": [["mine", {"cpu": "passed"}]]})
    False
    """
    rows, details = said.get("rows", []), said.get("details", [])
    outcome, exercise = said.get("outcome"), find(name)
    devices, marks = {str(device) for device in bench()}, {None, *OF_ROWS}
    try:
        return (
            isinstance(outcome, str)
            and outcome in OUTCOMES
            and (outcome != "grader error" or exercise is None)
            and (outcome != "passed" or bool(rows))
            and len(details) <= MOST_DETAILS
            and all(
                isinstance(text, str) and len(text) <= TEXT
                for texts in ([said.get("headline", "")], *details)
                for text in texts
            )
            and all(len(texts) == 2 for texts in details)
            and all(isinstance(name, str) and len(name) <= TEXT for name in said.get("exchanged", ()))
            and all(devices.issuperset(row.keys()) and marks.issuperset(row.values()) for _, row in rows)
            and (not rows or [label for label, _ in rows] == [row.label for row in exercise.rows])
        )
    except (TypeError, ValueError, AttributeError):
        return False


def rank(verdict: dict) -> tuple[bool, int]:
    """Return what makes one verdict better than another: a pass, and how many rows passed."""
    return verdict.get("outcome") == "passed", sum(row_passed(marks) for _, marks in verdict.get("rows", ()))


FORGED = early("error", "tampered with what judges it: a forged verdict", tampered=True)
MOST_DETAILS = 50  # labelled lines of a verdict
UNREAD = "what your code gave there cannot be read where it is judged a second time, so it earns nothing"


def settle_verdict(verdict: dict, said: dict | None, forged: bool = False) -> dict:
    """Return a verdict as a replay leaves it; `said` is the checker's answer, None where it ended early.

    A row that the checker could not read earns nothing, and neither does a row that the worker skipped though
    the reference is judged there. Beside a `forged` verdict only confirmed rows earn anything.

    >>> settle_verdict({"outcome": "passed", "rows": [["a", {"cpu": "passed"}]]}, None)["confirmed"]
    '0 of 1 rows'
    >>> refuted = {"confirmed": [], "refuted": ["a"], "unread": []}
    >>> settle_verdict({"outcome": "passed", "rows": [["a", {"cpu": "passed"}]]}, refuted)["headline"]
    'tampered with what judges it: by its own results the row "a" does not pass'
    """
    passes = [label for label, marks in verdict["rows"] if row_passed(marks)]
    said = said or {"confirmed": [], "refuted": [], "unread": passes}
    if said["refuted"]:
        which = f'by its own results the row "{said["refuted"][0]}" does not pass'
        return early("error", f"tampered with what judges it: {which}", tampered=True)
    lost = [label for label in passes if label not in said["confirmed"]] if forged else said["unread"]
    confirmed = f"{len(said['confirmed'])} of {len(verdict['rows'])} rows"
    verdict = verdict | {"confirmed": confirmed, "unread": said["unread"]}
    if lost:
        verdict["rows"] = [
            [label, _not_reached(marks) if label in lost else marks] for label, marks in verdict["rows"]
        ]
        verdict["details"] = [*verdict.get("details", ()), ["not confirmed", "; ".join(lost)]]
        if forged:
            verdict |= {"outcome": "error", "headline": VOID, "tampered": True}
        elif verdict["outcome"] in ("passed", "skipped"):
            verdict |= {"outcome": "error", "headline": f'the row "{lost[0]}": {UNREAD}'}
    elif verdict["outcome"] == "skipped" and len(passes) == len(verdict["rows"]):
        verdict["outcome"] = "passed"
    return verdict


VOID = "tampered with what judges it: what was claimed beside a forged verdict earns nothing"
FACTS = frozenset(
    {"outcome", "headline", "rows", "details", "exchanged", "tampered"}
)  # what a verdict may hold
IN_DOUBT = ("failed", "error", "not attempted")  # outcomes that may come from leaving a cell out
GRACE = 0.1  # seconds in which a worker that has finished may end by itself
CAUSE = "the process ended while this exercise was being graded (os._exit, a signal or a crash)"
TICK = 0.1  # seconds between looks at what the processes use
# For so many seconds these looks pass over processes that were there before the submission began, since a
# machine may have many. After that their numbers may have been given to the submission's processes.
KNOWN = 1.0


def _not_reached(marks: dict[str, str | None]) -> dict[str, str | None]:
    return {place: mark and "not reached" for place, mark in marks.items()}


class Gone(Exception):
    """The template has ended."""


class Watcher:
    """Has its template fork a worker for each submission, watches it, and leaves nothing of it behind.

    `template` is the template's process and `control` the socket to it; `before` is how many bytes the
    template holds before a submission begins; `ask` asks the checker about verdicts.
    """

    def __init__(
        self,
        template: int,
        control: socket.socket,
        walls: Walls,
        limits: quota.Limits,
        before: int,
        ask: Callable,
    ):
        self.template, self.control, self.walls = template, control, walls
        self.limits, self.before, self.ask = limits, before, ask
        self.beside: dict[str, str] = {}  # files that were handed in beside the notebook, as base64
        self.names: list[str] = []  # of the exercises that are judged
        self.skipped: Collection[str] = ()  # exercises that the running process has to leave out
        self.deadline = math.inf  # for the whole submission
        self.needs: object = None  # what the worker said of the own cells that exercises need
        self._begin_to_look()

    def grade(self, steps: list, names: list[str], beside: dict[str, str]) -> dict:
        """Return {"exercises": {name: verdict}, "own": {name: places of cells}, "seconds": how long it took}.

        "own" are the student's own cells that each exercise needs, as the worker said. Each death of a worker
        costs the exercise that the worker was at.
        """
        done: dict[str, dict] = {}
        self.names, self.needs, self.beside = names, None, beside
        started = time.monotonic()
        self.deadline = started + quota.longest(self.limits.seconds, len(names))
        # The teacher's cells, and an answer for each check: a student's own cells raise no limit.
        count = sum({"setup": 1, "check": 2}.get(kind, 0) for kind, _, _ in steps)
        with tempfile.TemporaryFile() as notebook:
            notebook.write(json.dumps(steps).encode())
            notebook.flush()
            self._run_to_the_end(notebook.fileno(), count, done)
            self.needs = _places(self.needs, names, len(steps))
            self._try_with_everything(notebook.fileno(), count, done, steps)
        self._confirm(done)
        seconds = time.monotonic() - started
        return {"exercises": done, "own": self.needs, "seconds": seconds}

    def _run_to_the_end(self, notebook: int, count: int, done: dict[str, dict]) -> None:
        """Have workers run the steps until every exercise has a verdict.

        Each death costs the exercise that the worker was at, and the next worker leaves that exercise out.
        All that is unfinished after a forged message, or at the deadline, is lost: the next worker would do
        the same again.
        """
        for _ in range(len(self.names) + 1):
            at, why = self._run(notebook, count, done)
            left = [name for name in self.names if name not in done and name != at]
            if why is None or why is FORGED or time.monotonic() > self.deadline:
                done |= dict.fromkeys([at] * bool(at and why) + left, why or FORGED)
                return
            if at or left:
                done[at or left[0]] = why
            if len(done) >= len(self.names):
                return

    def _try_with_everything(self, notebook: int, count: int, done: dict[str, dict], steps: list) -> None:
        """Run all of a student's cells, as nbgrader does, where some were left out and an answer fails.

        The text of an answer does not always show which cells the answer needs. The better verdict counts.
        """
        needs, names = self.needs, self.names
        taken = {place for places in needs.values() for place in places}
        left = [place for place, (kind, _, _) in enumerate(steps) if kind == "own" and place not in taken]
        doubted = [name for name in names if done.get(name, {}).get("outcome") in IN_DOUBT]
        poor = [name for name in doubted if "tampered" not in done[name]]
        if not left or not poor:
            return
        self.needs, found = None, {name: one for name, one in done.items() if name not in poor}
        self._run(notebook, count, found, everything=True)
        said = _places(self.needs, names, len(steps))
        better = [name for name in poor if rank(found.get(name, {})) > rank(done[name])]
        done |= {name: found[name] for name in better}
        self.needs = needs | {name: said.get(name, []) for name in better}

    def _confirm(self, done: dict[str, dict]) -> None:
        """Have the checker judge again what workers claimed, by the transcripts that they sent."""
        claims = {name: one for name, one in done.items() if one.get("rows")}
        said = self.ask(claims) if claims else {}
        forged = any(one.get("tampered") for one in done.values())
        forged = forged or any(one["refuted"] for one in said.values())
        for name, one in done.items():
            kept = {key: one[key] for key in FACTS & one.keys()}
            done[name] = settle_verdict(kept, said.get(name), forged) if name in claims else kept

    def _run(
        self, notebook: int, count: int, done: dict[str, dict], everything: bool = False
    ) -> tuple[str, dict | None]:
        """Have a worker run what is not done; return the exercise it ended at and why, None for the end."""
        nonce, self.skipped = secrets.token_hex(16), frozenset(() if everything else done)
        self._clean()
        self._lay_beside()
        self._begin_to_look()
        reading, writing = os.pipe()
        grace = 0.0
        try:
            try:
                asked = {"steps": count, "skip": list(done), "nonce": nonce, "everything": everything}
                self._tell(asked, notebook, writing)
            finally:
                os.close(writing)
            at, why = self._watch(reading, nonce, done)
            grace = GRACE if why is None else 0.0
            return at, why
        finally:
            os.close(reading)
            self._tell({"end": grace})
            self._clean()

    def _watch(self, reading: int, nonce: str, done: dict[str, dict]) -> tuple[str, dict | None]:
        held, total, at = b"", 0, ""
        looked = since = time.monotonic()
        # What each exercise has left of its time: the cells of an exercise need not stand together.
        left: dict[str, float] = defaultdict(lambda: self.limits.seconds)
        while True:
            ready, _, _ = select.select([reading, self.control], [], [], TICK)
            if self.control in ready:  # the template was not asked anything, so it has ended
                raise Gone
            now = time.monotonic()
            if now > self.deadline:
                return at, early("timeout", "the submission as a whole took too long")
            if now > since + left[at]:
                return at, early("timeout", f"no answer within {self.limits.seconds:g} seconds")
            if now > looked + TICK:  # a worker that never stops sending is looked at, too
                if over := self._excess():
                    return at, early(*over)
                looked = time.monotonic()
            if not ready:
                continue
            got = os.read(reading, 1 << 16)
            total += len(got)
            if total > self.limits.output << 20:
                return at, early("killed", "it wrote to where verdicts go")
            if not got and not total:
                ours = f"the walls of isolation level {self.walls.level} could not be built; nothing was run"
                return at, early("grader error", ours)
            if not got:
                return at, early("killed", CAUSE)
            held += got
            while len(held) >= 4 and len(held) >= 4 + (size := struct.unpack(">I", held[:4])[0]):
                text, held = held[4 : 4 + size], held[4 + size :]
                if (message := _read_message(text, nonce)) is None or self._is_strange(message, at, done):
                    return at, FORGED
                if "end" in message:
                    return "", None
                if "own" in message:
                    # The first such message says all, and is sent before any cell of the student's runs.
                    self.needs = message["own"] if self.needs is None else self.needs
                elif "done" in message:
                    done[message.pop("done")] = message
                elif message["begin"] != at:
                    # What an exercise leaves in the scratch folder must not cost the next exercise.
                    if at and not quota.is_empty(self.walls.scratch) and (over := self._excess()):
                        return at, early(*over)
                    left[at] -= now - since
                    at, since = message["begin"], now
            if len(held) >= 4 and struct.unpack(">I", held[:4])[0] > self.limits.output << 20:
                return at, FORGED

    def _is_strange(self, message: dict, at: str, done: Collection[str]) -> bool:
        """Tell whether a message names an exercise that is none of this notebook's, or that was settled."""
        if "begin" not in message and "done" not in message:
            return False
        name = message.get("done", message.get("begin"))
        if not name:  # the worker's first message, which comes before any exercise
            return "done" in message or bool(at)
        settled_before = name in self.skipped or ("done" in message and name in done)
        return settled_before or (bool(self.names) and name not in self.names)

    def _begin_to_look(self) -> None:
        """Remember the processes that are there before a submission is."""
        self.others, self.known_until = quota.everyone(), time.monotonic() + KNOWN

    def _excess(self) -> tuple[str, str] | None:
        others = self.others if time.monotonic() < self.known_until else ()
        return quota.excess(self.template, self.walls.scratch, self.limits, self.before, others)

    def _tell(self, what: dict, *files: int) -> None:
        """Have the template do something, and wait until it is done; raises Gone where it has ended."""
        try:
            socket.send_fds(self.control, [json.dumps(what).encode()], files)
            answer = self.control.recv(MOST_SAID)
        except OSError as problem:
            raise Gone from problem
        if not answer:
            raise Gone
        if problem := json.loads(answer).get("problem"):
            raise RuntimeError(problem)

    def _lay_beside(self) -> None:
        """Put what was handed in beside the notebook into the scratch folder, which is empty."""
        for name, content in self.beside.items():
            path = self.walls.scratch / name
            with contextlib.suppress(OSError, ValueError):  # a name that no file can have
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(base64.b64decode(content))
                for one in (path, *path.relative_to(self.walls.scratch).parents[:-1]):
                    self._give(self.walls.scratch / one)

    def _give(self, path: Path) -> None:
        if os.geteuid() == 0 and self.walls.uid:
            os.chown(path, self.walls.uid, self.walls.uid)

    def _clean(self) -> None:
        """Empty the scratch folder and leave it open to the submission's user."""
        os.chmod(self.walls.scratch, 0o700)
        quota.empty(self.walls.scratch)
        self._give(self.walls.scratch)


def _read_message(text: bytes, nonce: str) -> dict | None:
    """Return a worker's message without the nonce, None for a message that no worker sends."""
    facts, _, calls = text.partition(b"\n")
    try:
        message = json.loads(facts)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.pop("nonce", None) != nonce:
        return None
    if calls:
        message["calls"] = calls.decode(errors="replace")
    if "done" in message:
        return message if isinstance(message["done"], str) and is_verdict(message["done"], message) else None
    return message if isinstance(message.get("begin"), str) or "end" in message or "own" in message else None


def _places(said: object, names: list[str], count: int) -> dict[str, list[int]]:
    """Return which own cells exercises need, as a worker said, less what is no exercise or no step.

    >>> _places({"f": [0, 0, 9, "1"], "nobody": [0]}, ["f"], 2)
    {'f': [0]}
    """
    found = {name: said.get(name) for name in names} if isinstance(said, dict) else {}
    return {
        name: sorted({one for one in places if type(one) is int and 0 <= one < count})
        for name, places in found.items()
        if isinstance(places, list)
    }


def serve(watcher: Watcher, requests: socket.socket) -> None:
    """Answer the grader's requests until they end, or until the template does."""
    asked, answers = requests.makefile("rb", buffering=0), requests.makefile("wb")
    send(answers, {"learned": os.getpid()})
    while (request := receive(asked)) is not None:
        try:
            send(answers, watcher.grade(**request))
        except Gone:
            return  # the grader sees that the watcher has ended, and begins anew
        except Exception as ours:
            send(answers, {"problem": f"{type(ours).__name__}: {ours}"})
