"""The counts of a watch: one sheet for each thread, so that no two threads write on the same."""

import threading
from collections import Counter


class Tally:
    """What one thread did."""

    __slots__ = (
        "allocated",
        "cpu_bytes",
        "cpu_operators",
        "moved",
        "operators",
        "synchronizations",
        "transfers",
    )

    def __init__(self):
        # The CPU has plain numbers of its own: they are written at every operator.
        self.cpu_operators = self.cpu_bytes = 0
        self.transfers = self.synchronizations = self.moved = 0
        self.operators: Counter[str] = Counter()
        self.allocated: Counter[str] = Counter()


class ThreadTally(threading.local):
    """The calling thread's own sheet, which `sheets` holds together with those of all other threads."""

    def __init__(self, sheets: list[Tally]):
        self.own = Tally()
        sheets.append(self.own)


def operators(sheets: list[Tally]) -> dict[str, int]:
    """Return how many operators ran on each device.

    >>> sheet = Tally()
    >>> sheet.cpu_operators = 2
    >>> operators([sheet])
    {'cpu': 2}
    """
    return _together({"cpu": sum(s.cpu_operators for s in sheets)}, [s.operators for s in sheets])


def allocated(sheets: list[Tally]) -> dict[str, int]:
    """Return how many bytes of new tensors were made on each device."""
    return _together({"cpu": sum(s.cpu_bytes for s in sheets)}, [s.allocated for s in sheets])


def _together(cpu: dict[str, int], others: list[Counter]) -> dict[str, int]:
    total = sum(others, Counter(cpu))
    return {device: total[device] for device in sorted(total) if total[device]}
