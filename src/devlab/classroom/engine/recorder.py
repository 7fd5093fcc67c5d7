"""Keeps what a student's code answered, row by row, while its answer is judged."""

from collections.abc import Callable

from devlab.checks.calls import AnswerRaised
from devlab.checks.trial import Caller, Trial
from devlab.classroom.engine import transcript


class Recorder(Caller):
    """The calls of one exercise: for each row on each device a list, in the order of the judgement.

    A call is {"of": label}, with "gave" the result or "raised" the error, and "left" what became of arguments
    that the row lets an answer change. What it was given is not kept: whoever judges the row again asks anew.
    """

    def __init__(self):
        self.rows: list[list[dict]] = []
        self.left = transcript.MOST

    def take(self) -> str:
        """Return what was recorded, as JSON, and begin anew.

        As text it goes on unread: it is the reference's to the letter, or one process alone reads it.
        """
        rows, self.rows, self.left = self.rows, [], transcript.MOST
        return transcript.as_json(rows)

    def row(self) -> None:
        """Begin the next row."""
        self.rows.append([])

    def call(
        self, trial: Trial, function: Callable, args: tuple, label: str, changes: bool, log: object
    ) -> object:
        """Make a call and keep it; what it raises goes on."""
        if trial.unusual:  # no row's own judgement rests on it, and no replay asks for it
            return super().call(trial, function, args, label, changes, log)
        entry = {"of": label}
        if self.rows:
            self.rows[-1].append(entry)
        # While an answer may let go what it is given, nothing that is in there may be held here.
        given = None if changes else transcript.inside(args)
        try:
            result = super().call(trial, function, args, label, changes, log)
        except AnswerRaised as raised:
            entry["raised"] = transcript.write_error(raised.error)
            raise
        entry["gave"] = self._written(result, transcript.inside(args) if changes else given)
        if changes:
            entry["left"] = self._written(args, None)
        return result

    def _written(self, value: object, given: list | None) -> list:
        if self.left <= 0:
            return ["opaque", "more than is kept"]
        written = transcript.write(value, given)
        self.left -= transcript.length(written)
        return written if self.left > 0 else ["opaque", "more than is kept"]
