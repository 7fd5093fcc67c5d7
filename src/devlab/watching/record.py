"""The raw record that a watch keeps: counts that are always complete, and events up to a limit."""

import threading

import torch

from devlab.watching import tally
from devlab.watching.copies import Copy
from devlab.watching.events import Events, Launch, Pinning, Synchronization, Transfer, When
from devlab.watching.state import state
from devlab.watching.where import learners_line

# A long training run under watch must not fill the memory with its own history.
MOST_EVENTS = 100_000


class Record:
    """Counts and events of one block, written by every thread that works in it."""

    def __init__(self):
        self.events = Events()
        self.open = False
        self.error: BaseException | None = None
        self._sheets: list[tally.Tally] = []
        self._mine = tally.ThreadTally(self._sheets)
        self._owner = threading.get_ident()

    @property
    def sheet(self) -> tally.Tally:
        """Return the calling thread's counts."""
        return self._mine.own

    @property
    def transfers(self) -> int:
        """Return how many copies went from one device to another."""
        return sum(sheet.transfers for sheet in self._sheets)

    @property
    def synchronizations(self) -> int:
        """Return how often the host waited for an accelerator."""
        return sum(sheet.synchronizations for sheet in self._sheets)

    @property
    def launches(self) -> int:
        """Return how many operators were started on accelerators."""
        return sum(count for device, count in self.operators.items() if device != "cpu")

    @property
    def bytes_moved(self) -> int:
        """Return how many bytes all transfers moved together."""
        return sum(sheet.moved for sheet in self._sheets)

    @property
    def bytes_allocated(self) -> int:
        """Return the bytes of all new tensors together, on every device."""
        return sum(self.allocated.values())

    @property
    def operators(self) -> dict[str, int]:
        """Return how many operators ran on each device, the CPU among them."""
        return tally.operators(self._sheets)

    @property
    def allocated(self) -> dict[str, int]:
        """Return the bytes of new tensors on each device."""
        return tally.allocated(self._sheets)

    @property
    def dropped(self) -> int:
        """Return how many events were counted but not kept, because there were too many."""
        return self.transfers + self.synchronizations + self.launches - len(self.events)

    def transfer(self, copy: Copy, when: When) -> None:
        """Count and keep one copy between devices."""
        sheet = self.sheet
        sheet.transfers += 1
        sheet.moved += copy.bytes
        if self._keeps():
            source, target, *facts, cause = copy
            line = learners_line(self._owner)
            self.events.append(Transfer(str(source), str(target), *facts, state.cause or cause, line, when))

    def synchronization(self, device: torch.device | str, cause: str, when: When) -> None:
        """Count and keep one wait of the host for a device."""
        self.sheet.synchronizations += 1
        if self._keeps():
            line = learners_line(self._owner)
            self.events.append(Synchronization(str(device), state.cause or cause, line, when))

    def launch(self, device: torch.device, operator: str, when: When) -> None:
        """Count and keep one operator started on an accelerator."""
        name = str(device)
        self.sheet.operators[name] += 1
        if self._keeps():
            self.events.append(Launch(name, operator, learners_line(self._owner), when))

    def pinning(self, size: int, when: When) -> None:
        """Keep one copy into pinned memory, where the record's own thread made the copy."""
        pinnings = self.events.pinnings
        if threading.get_ident() == self._owner and len(pinnings) < MOST_EVENTS:
            pinnings.append(Pinning(size, learners_line(self._owner), when))

    def allocation(self, device: torch.device, size: int) -> None:
        """Count the bytes of new tensors."""
        self.sheet.allocated[str(device)] += size

    def _keeps(self) -> bool:
        return len(self.events) < MOST_EVENTS
