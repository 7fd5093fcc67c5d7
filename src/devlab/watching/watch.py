"""`devlab.watch`: what a block of code moved, waited for, started and made, on every device."""

import contextlib

from devlab.panel import Panel
from devlab.sim import clock
from devlab.watching import patches, report
from devlab.watching.record import Record
from devlab.watching.recorder import recording
from devlab.watching.timeline import Timeline


class Log(Record, Panel):
    """What a watched block did; `print` it, or ask for its counts.

    `transfers`, `synchronizations`, `launches`, `bytes_moved` and `bytes_allocated` are counts; `operators`
    and `allocated` hold counts for each device; `events.transfers`, `events.synchronizations` and
    `events.launches` are lists with the learner's line of each.
    """

    def __init__(self):
        super().__init__()
        self._entered: contextlib.ExitStack | None = None

    def __enter__(self) -> "Log":
        if self._entered is not None:
            raise RuntimeError("this watch is in use or has been used; make another: devlab.watch()")
        with contextlib.ExitStack() as stack:
            stack.enter_context(clock.virtual())
            patches.install()
            stack.callback(patches.uninstall)
            stack.enter_context(recording([self]))
            self._entered = stack.pop_all()
        self.open = True
        return self

    def __exit__(self, kind, error, traceback) -> None:
        self.open = False
        self.error = error
        self._entered.close()

    def timeline(self, *, beside: Timeline | None = None, show: bool = True) -> Timeline:
        """Show what the host and each device did, side by side in time, and return it.

        It is drawn at least to the scale of the timeline `beside`, so that the two can be compared.
        """
        panel = Timeline(self.events, beside)
        if show:
            panel.show()
        return panel

    def text(self) -> str:
        """Return the counts and a table of transfers and synchronizations."""
        return report.text(self)

    def html(self) -> str:
        """Return the same as HTML."""
        return report.html(self)

    def __repr__(self) -> str:
        return (
            f"<Log: {self.transfers} transfers, {self.synchronizations} synchronizations, "
            f"{self.launches} launches>"
        )


def watch() -> Log:
    """Record every transfer, synchronization, launch and byte of new memory in a block.

    The block may hold anything: modules, backward passes, loaders, other watches, threads that it starts;
    and it may raise, which the watch passes on.

    >>> import torch
    >>> with watch() as log:
    ...     total = torch.ones(2, 3).sum().item()
    >>> log.transfers, log.synchronizations, log.operators, log.bytes_allocated
    (0, 0, {'cpu': 2}, 28)
    """
    return Log()
