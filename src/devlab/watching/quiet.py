"""`devlab.no_sync`: a block of code in which the host must not wait for an accelerator."""

import contextlib
import warnings
from collections.abc import Iterator

import torch

from devlab.checks.calls import is_learners
from devlab.watching.record import Copy, When, learners_line, state
from devlab.watching.watch import Log


class HostWaited(RuntimeError):
    """The host waited for an accelerator in a block of `devlab.no_sync()`."""


class Quiet(Log):
    """A watch that refuses each wait of the host; it can be printed and asked like `devlab.watch()`."""

    def __init__(self, warn: bool):
        super().__init__()
        self.warn = warn

    def __exit__(self, kind, error, traceback) -> None:
        super().__exit__(kind, error, traceback)
        if kind is HostWaited:
            last = traceback
            while traceback := traceback.tb_next:
                last = traceback if is_learners(traceback.tb_frame.f_code.co_filename) else last
            last.tb_next = None  # the frames below the learner's line are devlab's and PyTorch's

    @contextlib.contextmanager
    def allowed(self) -> Iterator[None]:
        """Let the host wait in a block within the block; nothing that happens there is counted."""
        before, self.open = self.open, False
        try:
            yield
        finally:
            self.open = before

    def transfer(self, copy: Copy, when: When) -> None:
        """Count a copy, and refuse one for which the host waits."""
        if self.open:
            super().transfer(copy, when)
            if copy.blocking and not copy.awaits_result:  # for a result the wait is told below
                self._refuse(copy.target, state.cause or copy.cause)

    def synchronization(self, device: torch.device | str, cause: str, when: When) -> None:
        """Count a wait, and refuse it."""
        if self.open:
            super().synchronization(device, cause, when)
            self._refuse(device, state.cause or cause)

    def _refuse(self, device: torch.device | str, cause: str) -> None:
        words = (
            f"{cause} makes the host wait for {device}, in a block of devlab.no_sync(). Keep the value on "
            "the device, copy from pinned memory with non_blocking=True, or allow the line: `with "
            "devlab.no_sync() as quiet: ... with quiet.allowed(): ...`"
        )
        if not self.warn:
            raise HostWaited(words)
        line = learners_line(self._owner)
        warnings.warn_explicit(words, RuntimeWarning, line.filename or "<unknown>", line.number or 1)


def no_sync(*, warn: bool = False) -> Quiet:
    """Refuse, in a block, each line that makes the host wait for an accelerator, on every kind of device.

    The error comes at the line, once its wait is over; with `warn` it is a warning. What waits is what
    `devlab.watch()` counts: reads of values, calls of `synchronize()`, and copies that block, from pageable
    memory too. PyTorch's own `torch.cuda.set_sync_debug_mode` is for CUDA alone and for the whole program,
    and does not cover every operation, as its documentation says.

    Raises:
        HostWaited: at the line that makes the host wait.

    >>> import torch
    >>> from devlab import sim
    >>> sim.enable()
    >>> losses = torch.ones(3, device="sim")
    >>> with no_sync() as quiet:
    ...     total = losses.sum()
    ...     with quiet.allowed():
    ...         print(total.item())
    ...     float(total)
    Traceback (most recent call last):
    ...
    devlab.watching.quiet.HostWaited: float() makes the host wait for sim:0, in a block of ...
    """
    return Quiet(warn)
