"""What a watch records: transfers, synchronizations and launches, each with the line that caused it."""

import linecache
from typing import Any, NamedTuple

from devlab.checks.calls import place

# What brings a single value to Python, from no memory that anybody chose.
READS = frozenset({".item()", "float()", "int()", "bool()", "complex()", "an index", "format()"})


class Line(NamedTuple):
    """One line of the learner's code; "" and 0 when none of it was running.

    >>> str(Line("lesson/train.py", 12))
    'train.py, line 12'
    >>> str(Line("", 0))
    ''
    """

    filename: str
    number: int

    def __str__(self) -> str:
        if not self.filename:
            return ""
        code = linecache.getline(self.filename, self.number).strip()
        return f"{place(self.filename)}, line {self.number}" + (f":  {code}" if code else "")


NOWHERE = Line("", 0)


class When(NamedTuple):
    """When the host began and ended something, and the device's own marks around it if it keeps any."""

    began: float
    ended: float
    marks: Any = None


class Transfer(NamedTuple):
    """One copy of `bytes` bytes from one device to another.

    `pinned` tells whether the host's side was page-locked memory, `blocking` whether the host waited until
    the accelerator's stream had done the copy, and `non_blocking` whether the program asked it not to.
    """

    source: str
    target: str
    bytes: int
    pinned: bool
    blocking: bool
    non_blocking: bool
    cause: str
    line: Line
    when: When

    @property
    def staged(self) -> bool:
        """Tell whether the host copied the bytes into the driver's buffer before the accelerator took them.

        Apple's chips need no such buffer: the GPU reads the program's own memory.
        """
        return self.source == "cpu" and not self.pinned and not self.target.startswith("mps")

    @property
    def manner(self) -> str:
        """Return in words how it was copied."""
        if "cpu" not in (self.source, self.target):
            return "device to device"
        if self.cause in READS:
            return "one value, blocking"
        memory = "pinned" if self.pinned else "pageable"
        if not self.blocking:
            return f"{memory}, not blocking" + (" once staged" if self.staged else "")
        return f"{memory}, blocking" + (" although non_blocking was asked" if self.non_blocking else "")


class Synchronization(NamedTuple):
    """The host waiting for `device`, and what in the program made it wait."""

    device: str
    cause: str
    line: Line
    when: When


class Launch(NamedTuple):
    """One operator started on an accelerator."""

    device: str
    operator: str
    line: Line
    when: When


class Pinning(NamedTuple):
    """One copy of `bytes` bytes by the host, from ordinary memory into pinned memory."""

    bytes: int
    line: Line
    when: When


class Events(list):
    """Everything that was recorded, in the order in which it happened.

    `pinnings` lists beside it what the thread that opened the record copied into pinned memory.

    >>> launch = Launch("sim:0", "add", NOWHERE, When(0.0, 0.0))
    >>> Events([launch]).launches == [launch]
    True
    """

    def __init__(self, *events):
        super().__init__(*events)
        self.pinnings: list[Pinning] = []

    @property
    def transfers(self) -> list[Transfer]:
        """Return the copies between devices."""
        return [event for event in self if type(event) is Transfer]

    @property
    def synchronizations(self) -> list[Synchronization]:
        """Return the waits of the host for a device."""
        return [event for event in self if type(event) is Synchronization]

    @property
    def launches(self) -> list[Launch]:
        """Return the operators started on accelerators."""
        return [event for event in self if type(event) is Launch]
