"""Run an answer in several processes, and tell the learner what failed in them."""

import linecache
import time
import weakref
from collections.abc import Callable

from devlab.checks import expect
from devlab.checks.calls import AnswerRaised, place
from devlab.checks.placeholder import STUB
from devlab.checks.trial import Skip
from devlab.lessons import ranks

# The words of PyTorch in a process that waited for another process, which had ended or did not come.
ECHOES = ("connection closed", "timed out", "wait timeout", "connection reset", "by peer")
# An answer that used up its time in a row would do so in every row: for a minute the others repeat its fault.
MINUTE = 60.0
_slow: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def reports(trial, function: Callable, data: list[list], asked: str) -> list[ranks.Report]:
    """Run `function`, which calls the answer, in a process for each rank, and return their reports.

    `data` is as in `ranks.run`. Where a process failed, raises what a learner should read; `asked` says what
    was expected of the processes.
    """
    since, *words = _slow.get(trial.answer, (-MINUTE,))
    if time.monotonic() - since < MINUTE:
        expect.fail(words[0], asked, words[1])
    try:
        found = ranks.run(function, data)
    except ranks.CannotShip as problem:
        headline = f"the function cannot be sent to another process: {problem}"
        usable = "a function that uses modules, functions and plain values"
        expect.fail(headline, usable, "something that cannot leave the notebook")
    except OSError as problem:
        raise Skip(f"no processes could be started here ({problem.strerror})") from None
    except ranks.Apart as problem:
        raise Skip(f"its processes did not find each other ({problem}): run the check once more") from None
    if all(report.stub for report in found):
        raise AnswerRaised(NotImplementedError(STUB))
    # A process that waits for a failed process fails as well; the process that did not wait knows the cause.
    broken = [(rank, one) for rank, one in enumerate(found) if one.kind in ("error", "gone", "late")]
    for rank, report in sorted(broken, key=lambda pair: _is_echo(pair[1])):
        late = "timed out" in report.error.lower()
        fault = f"in the process of rank {rank}: {report.error}"
        if _is_echo(report):
            other = f"rank {1 - rank}" if len(found) == 2 else "another rank"
            fault = f"rank {rank} waited for {other}, {'in vain' if late else 'and it had ended'}: "
            fault += "each process has to take part in every communication"
        if late or report.kind == "late":
            _slow[trial.answer] = time.monotonic(), fault, _line(report)
        expect.fail(fault, asked, _line(report))
    return found


def _is_echo(report: ranks.Report) -> bool:
    return any(words in report.error.lower() for words in ECHOES)


def _line(report: ranks.Report) -> str:
    if not report.file:
        return report.error
    text = linecache.getline(report.file, report.line).strip()
    return f"{place(report.file)}, line {report.line}" + (f":  {text}" if text else "")
