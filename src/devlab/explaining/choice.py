"""Which change is shown: of those that run when they are tried, the one nearest to what the program meant."""

import re
import time

from devlab.explaining import report as kinds
from devlab.explaining import wall
from devlab.explaining.candidates import PRIOR_COST, Candidate, candidates_of
from devlab.explaining.edit import changed, shown
from devlab.explaining.frames import scopes_of
from devlab.explaining.report import UNTRIED, Explanation, Problem, cause_of
from devlab.explaining.template import Template
from devlab.explaining.trials import LIMIT, Trial, agree, inside, place_of, trial_of

_ENOUGH, _STEPS = 5, 3
_SECONDS, _LONGEST = 8.0, 240.0  # of a processor's time, and by the clock
_NARROW, _WIDE = re.compile(r"half|float16"), re.compile(r"\.float\(\)|float32")
_LITERAL = re.compile(r'"(sim|cuda|mps|xpu)\b')
_template: list[Template] = []


def propose(report: Explanation, error: BaseException | None) -> None:
    """Fill a report with the change that the trials speak for, or say why there is none; never raises."""
    reason = ""
    try:
        if isinstance(error, BaseException) and not inside():
            error, problem = cause_of(error)
            reason = _proposed(report, error, problem) if problem.kind not in UNTRIED else ""
    except KeyboardInterrupt:
        reason = "the trials were interrupted"
    except Exception as own:  # what is known stays known
        reason = f"changes could not be tried ({type(own).__name__}: {own})"
    report.untried = reason and f"none is shown: {reason}"


def _proposed(report: Explanation, error: BaseException, problem: Problem) -> str:
    if not wall.landlock_here():
        return "changes are tried only where Linux can wall a program in, and none is shown untried"
    scopes = scopes_of(error)
    trial = trial_of(scopes)
    if trial is None:
        return "the program cannot be run again from here"
    if not _template or not _template[0].mine():
        _template[:] = [Template()]
    files = {s.filename: s.source.text for s in scopes if s.mine and s.source is not None}
    trial = trial._replace(changed=dict(trial.units) | files)
    first = _template[0].tried(trial._replace(lines=True))
    if (first["status"], first.get("kind"), first.get("place")) != ("error", problem.kind, place_of(scopes)):
        late = first["status"] == "time"
        return f"run again, the program {'takes too long' if late else 'does not fail in the same way'}"
    search = _Search(trial, first, problem)
    met = {(file, line) for file, line in first["lines"]}
    ran = [c for c in candidates_of(scopes, problem, list(trial.changed)) if _ran(c, met, problem)]
    search.go_through(ran)
    if not search.good:
        search.go_on()
    if not search.good:
        return f"{search.count} changes were tried, and with none of them does the program run"
    _, steps, report.changed = search.good[0]
    texts = dict(trial.changed)
    for step in steps:
        report.changes += shown(step.file, texts[step.file], step.edits)
        texts[step.file] = changed(texts[step.file], step.edits)
    return ""


def _ran(one: Candidate, met: set, problem: Problem) -> bool:
    """Tell whether the code that a change is in ran; of compiled code and of workers that is not known."""
    unknown = problem.kind == kinds.FORK or "from user code" in problem.message
    return unknown or any((one.file, line) in met for line in range(one.first, one.last + 1))


class _Search:
    """Trials of one program's candidates: those that run to the end, and those that get further."""

    def __init__(self, trial: Trial, first: dict, problem: Problem):
        self.trial, self.first, self.problem, self.count = trial, first, problem, 0
        self.ask, self.end = _template[0].tried, time.monotonic() + _LONGEST
        blind = self.ask(trial._replace(blind=True))
        self.blind = blind if blind["status"] == "ok" else None
        self.good: list[tuple] = []
        self.further: list[tuple] = []

    def go_through(self, candidates: list[Candidate], before: tuple = ()) -> None:
        """Try candidates, after earlier changes, until enough of them run or the time is over."""
        texts, budget = dict(self.trial.changed), _SECONDS / (1 + bool(before))
        for step in before:
            texts[step.file] = changed(texts[step.file], step.edits)
        for one in candidates:
            clear = sum(not any(rank[:2]) for rank, *_ in self.good)
            if clear >= _ENOUGH or budget < 0 or time.monotonic() > self.end:
                break
            new = {**texts, one.file: changed(texts[one.file], one.edits)}
            got = self.ask(self.trial._replace(changed=new))
            self.count += 1
            budget -= got.get("seconds", LIMIT / 4 if got["status"] == "time" else 0.3)
            rank = self._rank(one, got) if got["status"] == "ok" else None
            if rank is not None:
                self.good.append((rank, (*before, one), new))
            elif not before and not one.away and self._is_further(one, got):
                self.further.append(((-_ops(got), got["transfers"], PRIOR_COST[one.kind][1]), one, new))
        self.good.sort(key=lambda found: found[0])
        self.further.sort(key=lambda found: found[0])

    def _is_further(self, one: Candidate, got: dict) -> bool:
        """Tell whether a change led to another error, after more work than before."""
        if got["status"] != "error" or _ops(got) <= _ops(self.first):
            return False
        file, line = self.first["place"]
        same = [[file, line], [file, line + sum(new.count("\n") for _, _, new in one.edits)]]
        return got["kind"] != self.problem.kind or got["place"] not in same

    def go_on(self) -> None:
        """Look for a second change after those that led to another error: two causes at once."""
        for _, one, new in self.further[:_STEPS]:
            got = self.ask(self.trial._replace(changed=new, more=True))
            self.go_through([Candidate(*found) for found in got.get("more", ())], (one,))
            if self.good:
                return

    def _rank(self, one: Candidate, got: dict) -> tuple | None:
        """Return how good a change that runs is, the smallest best; None where it undoes what was meant."""
        meant = (self.blind or self.first)["ops"]
        if _ops(got) < 0.6 * sum(meant.values()) - 1 or "on meta" in got["value"]:
            return None  # it runs because the work has left the accelerator, or has not been done
        left = sum(max(0, count - got["ops"].get(device, 0)) for device, count in meant.items())
        shifted = left > (0.25 * sum(meant.values()) + 2 if self.blind else 0)
        raw = self.trial.changed[one.file].encode()
        parts = [(raw[begin:end].decode(), code) for begin, end, code in one.edits]
        met = self.problem.kind in (kinds.MISMATCH, kinds.INDEX)
        to_host = met and (one.away or any('"cpu"' in code or ".cpu()" in code for _, code in parts))
        literal = any(_LITERAL.search(code) and not _LITERAL.search(old) for old, code in parts)
        narrow = any(
            _NARROW.search(old) and (_WIDE.search(code) or not _NARROW.search(code)) for old, code in parts
        )
        differs = self.blind is not None and not agree(got["value"], self.blind["value"])
        # Fewer copies than before are no merit: they come from data made elsewhere. And a loop that draws
        # batches copies each of them.
        limit = min if one.kind == "batch" else max
        price = limit(got["transfers"], self.first["transfers"]) + PRIOR_COST[one.kind][1] / 2
        price += 1.5 * got["waits"]
        price += 5 * literal + 4 * to_host + 9 * narrow + min(left, 6)
        return (shifted + to_host, differs, price, one.prior, len(parts))


def _ops(got: dict) -> int:
    return sum(got.get("ops", {}).values())
