"""Run an answer through every row of its exercise, and say in words what was found."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from devlab.checks import settings, time_limits
from devlab.checks.calls import AnswerRaised, failure_of, loops_around, settle_devices, where_raised
from devlab.checks.exercise import Exercise, Row
from devlab.checks.expect import Mismatch
from devlab.checks.placeholder import holder, is_placeholder
from devlab.checks.pretend import BEYOND, is_beyond
from devlab.checks.result import Outcome, Result, RowResult
from devlab.checks.settings import fresh_defaults, preserve_state
from devlab.checks.trial import Caller, Elsewhere, Skip, Trial
from devlab.checks.values import shorten
from devlab.devices import bench

# Two rows that met the same fault may differ in the device and in numbers.
VARIES = re.compile(r"\b(cpu|cuda|mps|sim|xpu|meta)(:\d+)?\b|\d+")
STOPPED = (Outcome.FAILED, Outcome.ERROR)
LONGEST_LINE = 160
NAMED = ("named",)  # the cause of wrong values after a mistake that was named


@dataclass
class Finding:
    """What a row found on a device.

    `cause` identifies the fault, None where the fault is unknown. `assumed` says that the row stopped at what
    another row judges, which is no finding about its own question. `step` tells the learner what to do next
    in place of a hint. `endless` says that the learner's code did not end, `elsewhere` that another machine
    can judge the row, and `named` whether wrong values are those of a known mistake.
    """

    outcome: Outcome
    headline: str = ""
    details: tuple[tuple[str, str], ...] = ()
    cause: tuple | None = None
    assumed: bool = False
    step: str = ""
    endless: bool = False
    elsewhere: bool = False
    named: bool | None = None


Table = Sequence[Sequence[Finding | None]]


def same_words(headline: str) -> str:
    """Return a headline without the devices and numbers in it, to compare it with another one's.

    >>> same_words("the sum is on sim:1, not cpu") == same_words("the sum is on cpu, not sim:0")
    True
    """
    return VARIES.sub("#", headline)


def outcomes_of(table: Table) -> list[list[Outcome | None]]:
    """Return the outcome of each row on each device.

    A row was not reached where it stopped at a fault that a row above it reports on that device, or at what
    another row judges. Wrong values that no known mistake explains are not reached below a row that names a
    mistake.
    """
    told: list[set[tuple]] = [set() for _ in (table[0] if table else ())]
    found = []
    for row in table:
        found.append([one and _outcome(one, known) for one, known in zip(row, told, strict=True)])
    return found


def _outcome(finding: Finding, told: set[tuple]) -> Outcome:
    if finding.outcome in STOPPED:
        if finding.assumed or finding.cause in told or (finding.named is False and NAMED in told):
            return Outcome.NOT_REACHED
        if finding.cause:
            told.add(finding.cause)
        if finding.named:
            told.add(NAMED)
    return finding.outcome


def main_finding(table: Table) -> Finding | None:
    """Return the finding that a verdict tells in full: the first about a row's own question, if any."""
    stopped = [one for row in table for one in row if one and one.outcome in STOPPED]
    return next((one for one in stopped if not one.assumed), stopped[0] if stopped else None)


def also_failing(labels: Sequence[str], table: Table) -> str:
    """Return a line for each row that failed for another reason than the verdict's own: "" where none did."""
    main, lines = main_finding(table), []
    for label, row, reached in zip(labels, table, outcomes_of(table), strict=True):
        own = [one for one, outcome in zip(row, reached, strict=True) if outcome in STOPPED]
        if own and not any(one is main for one in own):
            at = dict(own[0].details).get("at", "")
            lines.append(shorten(f"{label}: {own[0].headline}{', at ' * bool(at)}{at}", LONGEST_LINE))
    return "\n".join(lines)


MIB = 1 << 20
MUCH = 0.5  # of a device's memory


@dataclass(frozen=True)
class Full:
    """A device whose memory is full, and the labelled lines that say of what and what to do."""

    device: torch.device
    lines: tuple[tuple[str, str], ...]


def full(devices: Iterable[torch.device]) -> Full | None:
    """Return the first device whose memory the notebook mostly holds itself, None where there is none.

    >>> full([torch.device("cpu")])
    """
    found = ((device, _describe_held_memory(device)) for device in devices)
    return next((Full(device, lines) for device, lines in found if lines), None)


def _describe_held_memory(device: torch.device) -> tuple[tuple[str, str], ...]:
    module = None if device.type == "cpu" else torch.get_device_module(device)
    if not (hasattr(module, "mem_get_info") and hasattr(module, "memory_allocated")):
        return ()
    held, (_, whole) = module.memory_allocated(device), module.mem_get_info(device)
    if held < MUCH * whole:
        return ()
    words = f"{held // MIB:,} of the {whole // MIB:,} MiB of {device}, by tensors of your notebook"
    return (
        ("held", words),
        ("next", "`del` the names that hold them, or restart the kernel; then run the check again"),
    )


# A verdict shows so much of an exception's message; a learner who calls the function sees all of it.
MOST_LINES, LONGEST_MESSAGE = 8, 1000
# Where PyTorch names the C++ function that looked at the arguments.
INSIDE = re.compile(r" \(when checking argument (?:for argument \w+ )?in method \w+\)")


def reason(stopped: BaseException, trial: Trial, label: str) -> Finding:
    """Return the finding of the row `label` that an exception stopped."""
    if isinstance(stopped, Skip):
        return Finding(Outcome.SKIPPED, str(stopped), elsewhere=isinstance(stopped, Elsewhere))
    if isinstance(stopped, Mismatch):
        found = [("expected", stopped.expected), ("got", stopped.got)]
        cause = ("found", same_words(stopped.headline))
        found = details(trial, found)
        return Finding(Outcome.FAILED, stopped.headline, found, cause, stopped.assumed, named=stopped.named)
    if isinstance(stopped, time_limits.TooLong):
        return _endless(stopped, trial)
    if failure_of(stopped) and where_raised(stopped):  # the answer launched the work that the row waited for
        stopped = AnswerRaised(stopped)
    if isinstance(stopped, AnswerRaised):
        return _find_in_error(stopped, trial)
    if isinstance(stopped, torch.OutOfMemoryError) and (held := full((trial.device, *trial.others))):
        headline = f"there is too little memory left on {held.device} to judge it"
        return Finding(Outcome.SKIPPED, headline, held.lines)
    # The row itself broke, most likely over a result that another row refuses: this row was then not reached.
    # No traceback of ours reaches a learner; where no row refuses, the verdict tells maintainers the error.
    found = [("raised", describe_error(stopped)), ("in", f"the row {label!r} of devlab")]
    headline = "devlab could not judge this answer; please report it"
    return Finding(Outcome.ERROR, headline, details(trial, found), assumed=True)


LATE = "this line launched the work and went on; the next wait raises the error. The device is usable again"


def _find_in_error(raised: AnswerRaised, trial: Trial) -> Finding:
    error, at = raised.error, where_raised(raised.error)
    if is_placeholder(error):
        return _unwritten(raised, trial, at)
    found = [("raised", describe_error(error)), ("at", at)]
    found += [("note", BEYOND)] if "NVIDIA GPU" in trial.situation and is_beyond(error) else []
    if isinstance(error, torch.OutOfMemoryError) and (held := full((trial.device, *trial.others))):
        found += held.lines[:1]
    where = trial.situation or f"on {trial.device}"
    headline = f"your code raised {type(error).__name__} {where}"
    if failure := failure_of(error):
        headline = f"the device found a value out of range {where}, after your code had gone on"
        found = [
            ("raised", describe_error(error).splitlines()[0]),
            ("because", failure.reason),
            ("at", at),
            ("note", LATE),
        ]
    cause = ("raised", type(error).__name__, at or same_words(str(error)))
    return Finding(Outcome.ERROR, headline, details(trial, found), cause, raised.assumed)


def _unwritten(raised: AnswerRaised, trial: Trial, at: str) -> Finding:
    name = holder(raised.error) or trial.name
    called = f", which {trial.name} calls" if name.partition(".")[0] != trial.name else ""
    headline = f"the placeholder still stands in `{name}`{called}"
    cause = ("placeholder", at)
    step = f"write what belongs there; if `{name}` is complete, delete that line"
    return Finding(Outcome.ERROR, headline, details(trial, [("at", at)]), cause, raised.assumed, step)


def _endless(stopped: time_limits.TooLong, trial: Trial) -> Finding:
    at = loops_around(stopped) or where_raised(stopped)
    headline = f"your code was still running after {stopped.seconds:g} seconds, and was stopped"
    found = details(trial, [("at", at)])
    step = "see what ends this loop, and whether that can come about" if at else ""
    return Finding(Outcome.ERROR, headline, found, ("endless",), step=step, endless=True)


def describe_error(error: BaseException) -> str:
    """Return an exception's type and message; PyTorch's own may go on for pages."""
    lines = INSIDE.sub("", f"{type(error).__name__}: {error}").splitlines()
    text = "\n".join(lines[:MOST_LINES])
    return f"{text[:LONGEST_MESSAGE]} …" if len(lines) > MOST_LINES or len(text) > LONGEST_MESSAGE else text


def details(trial: Trial, found: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the labelled lines of a verdict: the last call, what was found, what that call printed."""
    call = trial.last_call
    where = trial.situation or f"judged on {trial.device}"
    called = [("called with", f"{call.reads}, {where}")] if call else []
    printed = [("printed", call.printed.strip())] if call else []
    return tuple((label, text) for label, text in [*called, *found, *printed] if text)


UNREACHED = Finding(Outcome.NOT_REACHED)
NO_ACCELERATOR = Finding(Outcome.SKIPPED, "there is no accelerator here to judge it on")


def judge(
    exercise: Exercise,
    answer: Callable,
    devices: Sequence[torch.device] | None = None,
    seed: int = 0,
    caller: Caller | None = None,
    speak: Callable[[], None] | None = None,
) -> Result:
    """Judge an answer and return the Result; never raises for anything that the answer does.

    `devices` defaults to the bench of this machine. `seed` moves all random inputs, so that a grader
    can use numbers that no learner has seen. `caller` makes the calls of the answer; `speak` is called when
    a call takes long.
    """
    caller = caller or Caller()
    devices = bench() if devices is None else devices
    notebook = unusable()
    with preserve_state() as free, time_limits.watch_calls(speak):
        table = _judge_rows(exercise, answer, devices, seed, caller)
        if free and main_finding(table) is None:
            _judge_once_more(exercise, answer, devices, table)
    return _verdict(exercise, devices, table, notebook)


def unusable() -> tuple[tuple[str, str], ...]:
    """Return a labelled line that says which simulated device of the notebook has failed, if any has.

    >>> unusable()
    ()
    """
    from devlab.sim import clock  # here, so that importing devlab does not import the simulator

    if not clock.failures or clock.failures[0].once:
        return ()
    failure = clock.failures[0]
    at = where_raised(failure.error())
    words = f"sim:{failure.index} has met a value out of range{', at ' * bool(at)}{at}"
    return (("notebook", f"{words}\nit is usable here, and in your cells after devlab.sim.reset()"),)


def not_attempted(exercise: Exercise) -> Result:
    """Return the Result of an answer that is still empty."""
    rows = tuple(RowResult(row.label, {}) for row in exercise.rows)
    return Result(
        exercise.name,
        Outcome.NOT_ATTEMPTED,
        "not attempted yet",
        rows,
        (("next", f"write {exercise.name}, run its cell, then run this one again"),),
        exercise.possible,
    )


def _judge_rows(
    exercise: Exercise, answer: Callable, devices: Sequence[torch.device], seed: int, caller: Caller
) -> list[list[Finding | None]]:
    table, endless = [], False
    for row in exercise.rows:
        table.append([])
        for device in devices:
            found = UNREACHED if row.applies_to(device, devices) else None
            if found and not endless:  # a loop that did not end would not end in the next row, either
                found = judge_row(exercise, row, answer, device, devices, seed, caller)
                endless = found.endless
            table[-1].append(found)
    return table


def judge_row(
    exercise: Exercise,
    row: Row,
    answer: Callable,
    device: torch.device,
    devices: Sequence[torch.device],
    seed: int,
    caller: Caller,
) -> Finding:
    """Judge a row on a device. The other arguments are those of `judge`, which puts PyTorch's state back."""
    caller.row()
    others = tuple(other for other in devices if other != device)
    trial = Trial(answer, exercise.signature, device, others, seed, caller)
    fresh_defaults()
    try:
        row.judge(trial)
        if late := settle_devices():
            raise late
    except (Exception, time_limits.TooLong) as stopped:
        time_limits.disarm()
        return reason(stopped, trial, row.label)
    return Finding(Outcome.PASSED)


def _judge_once_more(exercise: Exercise, answer: Callable, devices: Sequence, table: list[list]) -> None:
    """Judge an answer that passes once more, on one device, with unusual settings in force.

    An answer that puts a setting back to PyTorch's default, and not to what it was, shows it only here. What
    it leaves changed goes into the table; its results do not, for they may follow a default, as most of
    PyTorch's do. A few calls of each row are judged under all settings at once; those of the first row, where
    the answer cannot work so, under each alone: for every row that would take too long.
    """
    for number, (row, found) in enumerate(zip(exercise.rows, table, strict=True)):
        place = next((place for place, one in enumerate(found) if one), None)
        if place is None or row.only == "cpu":  # what runs in processes of its own changes nothing here
            continue
        others = tuple(one for one in devices if one != devices[place])
        together, *alone = settings.unusual(devices[place], others)
        for unusual in (together, *alone) if number == 0 else (together,):
            trial = Trial(answer, exercise.signature, devices[place], others)
            trial.unusual = unusual
            fresh_defaults()
            try:
                row.judge(trial)
            except settings.Changed as changed:
                trial.last_call.after = settings.WORDS[changed.name](changed.before)
                found[place] = reason(changed, trial, row.label)
            except Skip:
                pass
            except (Exception, time_limits.TooLong):
                time_limits.disarm()
                continue
            break


def _verdict(
    exercise: Exercise, devices: Sequence, table: list[list[Finding | None]], notebook: tuple
) -> Result:
    labels = [row.label for row in exercise.rows]
    rows = tuple(
        RowResult(label, dict(zip(map(str, devices), outcomes, strict=True)))
        for label, outcomes in zip(labels, outcomes_of(table), strict=True)
    )
    main = main_finding(table)
    told = main.details if main else ()
    if main:
        also = also_failing(labels, table)
        told += (("also failing", also),) * bool(also)
        told += (("next", main.step or f"devlab.hint({exercise.name})"),)
    else:
        main = _find_unjudged(table) or _find_passed(table)
        told = main.details
    return Result(exercise.name, main.outcome, main.headline, rows, told + notebook, exercise.possible)


def _find_unjudged(table: list[list[Finding | None]]) -> Finding | None:
    """Return why a row was judged on no device: an answer with such a row has not passed.

    A row that only another machine can judge takes no pass away. A skipped row with details comes first,
    because the details say what a learner can do about the skip.
    """
    skipped = [one for one in _list_skipped(table) if one.details]
    if skipped:
        return skipped[0]
    none_passed = not any(one and one.outcome is Outcome.PASSED for row in table for one in row)
    for row in table:
        found = [one for one in row if one] or [NO_ACCELERATOR]
        judged = any(one.outcome is Outcome.PASSED for one in found)
        if none_passed or not (judged or any(one.elsewhere for one in found)):
            return found[0]
    return None


def _list_skipped(table: Table) -> list[Finding]:
    return [one for row in table for one in row if one and one.outcome is Outcome.SKIPPED]


def _find_passed(table: Table) -> Finding:
    """Return the finding of an answer that passes, with the reasons why a row was not judged on a device."""
    reasons = list(dict.fromkeys(one.headline for one in _list_skipped(table)))
    partly = any(one.elsewhere for one in _list_skipped(table))
    headline = "passed, as far as this machine can tell" if partly else "passed"
    return Finding(Outcome.PASSED, headline, (("not judged", "\n".join(reasons)),) if reasons else ())
