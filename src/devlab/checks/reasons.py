"""Why a row stopped, in words: what was found, what the learner's code raised, where it did not end."""

import re

import torch

from devlab.checks import waiting
from devlab.checks.calls import AnswerRaised
from devlab.checks.expect import Mismatch
from devlab.checks.findings import Finding, same_words
from devlab.checks.full import full
from devlab.checks.machine import BEYOND, is_beyond
from devlab.checks.placeholder import holder, is_placeholder
from devlab.checks.result import Outcome
from devlab.checks.trace import loops_around, where_raised
from devlab.checks.trial import Skip, Trial

# Of the message of an exception; whoever wants it whole calls the function.
MOST_LINES, LONGEST = 8, 1000
# Where PyTorch names the C++ function that looked at the arguments.
INSIDE = re.compile(r" \(when checking argument (?:for argument \w+ )?in method \w+\)")


def reason(stopped: BaseException, trial: Trial, label: str) -> Finding:
    """Return the finding of the row `label` that an exception stopped."""
    if isinstance(stopped, Skip):
        return Finding(Outcome.SKIPPED, str(stopped))
    if isinstance(stopped, Mismatch):
        found = [("expected", stopped.expected), ("got", stopped.got)]
        cause = ("found", same_words(stopped.headline))
        return Finding(Outcome.FAILED, stopped.headline, details(trial, found), cause, stopped.assumed)
    if isinstance(stopped, waiting.TooLong):
        return _endless(stopped, trial)
    if isinstance(stopped, AnswerRaised):
        return _raised(stopped, trial)
    if isinstance(stopped, torch.OutOfMemoryError) and (held := full((trial.device, *trial.others))):
        headline = f"there is too little memory left on {held.device} to judge it"
        return Finding(Outcome.SKIPPED, headline, held.lines)
    # The row itself broke, most likely over a result that nobody thought of: its question was not reached. No
    # traceback of ours reaches a learner; the report says what a maintainer needs.
    found = [("raised", said(stopped)), ("in", f"the row {label!r} of devlab")]
    headline = "devlab could not judge this answer; please report it"
    return Finding(Outcome.ERROR, headline, details(trial, found), assumed=True)


def _raised(raised: AnswerRaised, trial: Trial) -> Finding:
    error, at = raised.error, where_raised(raised.error)
    if is_placeholder(error):
        return _unwritten(raised, trial, at)
    found = [("raised", said(error)), ("at", at)]
    found += [("note", BEYOND)] if "NVIDIA GPU" in trial.situation and is_beyond(error) else []
    if isinstance(error, torch.OutOfMemoryError) and (held := full((trial.device, *trial.others))):
        found += held.lines[:1]
    headline = f"your code raised {type(error).__name__} {trial.situation or f'on {trial.device}'}"
    cause = ("raised", type(error).__name__, at or same_words(str(error)))
    return Finding(Outcome.ERROR, headline, details(trial, found), cause, raised.assumed)


def _unwritten(raised: AnswerRaised, trial: Trial, at: str) -> Finding:
    name = holder(raised.error) or trial.name
    called = f", which {trial.name} calls" if name.partition(".")[0] != trial.name else ""
    headline = f"the placeholder still stands in `{name}`{called}"
    cause = ("placeholder", at)
    step = f"write what belongs there; if `{name}` is complete, delete that line"
    return Finding(Outcome.ERROR, headline, details(trial, [("at", at)]), cause, raised.assumed, step)


def _endless(stopped: waiting.TooLong, trial: Trial) -> Finding:
    at = loops_around(stopped) or where_raised(stopped)
    headline = f"your code was still running after {stopped.seconds:g} seconds, and was stopped"
    found = details(trial, [("at", at)])
    step = "see what ends this loop, and whether that can come about" if at else ""
    return Finding(Outcome.ERROR, headline, found, ("endless",), step=step, endless=True)


def said(error: BaseException) -> str:
    """Return an exception's type and message; PyTorch's own may go on for pages."""
    lines = INSIDE.sub("", f"{type(error).__name__}: {error}").splitlines()
    text = "\n".join(lines[:MOST_LINES])
    return f"{text[:LONGEST]} …" if len(lines) > MOST_LINES or len(text) > LONGEST else text


def details(trial: Trial, found: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the labelled lines of a verdict: the last call, what was found, what that call printed."""
    call = trial.last_call
    where = trial.situation or f"judged on {trial.device}"
    called = [("called with", f"{call.reads}, {where}")] if call else []
    printed = [("printed", call.printed.strip())] if call else []
    return tuple((label, text) for label, text in [*called, *found, *printed] if text)
