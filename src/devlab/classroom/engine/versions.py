"""Whether names in a namespace may have come, gone or changed, told by the number that CPython keeps of it.

Until 3.12 CPython gives a dict another number at every change (PEP 509). To read it takes as long as to look
at one name, and touches nothing: the memory of what the names stand for stays shared among forked processes.
Where no such numbers are kept, every namespace counts as changed.
"""

import ctypes
import sys
from collections.abc import Iterable, Mapping, Sequence

# In a dict the number follows the count of its items, in a view of a class's dict the dict comes first.
_FIELDS = object.__basicsize__
_NUMBER = _FIELDS + ctypes.sizeof(ctypes.c_ssize_t)


class Versions:
    """The versions of some namespaces, dicts or what `vars` gives of a class.

    >>> place = {"f": len}
    >>> versions = Versions([place])
    >>> versions.same(versions.now())
    True
    >>> before = versions.now()
    >>> place["f"] = print
    >>> versions.same(before), list(versions.differing(before))
    (False, [0])
    """

    def __init__(self, spaces: Iterable[Mapping[str, object]]):
        self.spaces = list(spaces)  # kept, so that their addresses stay theirs
        self._numbers = [_number_of(space) for space in self.spaces] if KEPT else None

    def now(self) -> bytes | None:
        """Return the versions, side by side; None where none are kept."""
        return None if self._numbers is None else b"".join(self._numbers)

    def same(self, before: bytes | None) -> bool:
        """Tell whether nothing has changed since `now` gave `before`."""
        # A number is its own eight bytes in memory: to join them takes a fifth of what it takes to read each.
        return before is not None and before == b"".join(self._numbers)

    def differing(self, before: bytes | None) -> Sequence[int]:
        """Return which namespaces, by place, may have changed since `now` gave `before`; None: all."""
        if before is None:
            return range(len(self.spaces))
        numbers = memoryview(before).cast("Q")
        return [place for place, one in enumerate(self._numbers) if one.value != numbers[place]]


def _number_of(space: Mapping[str, object]) -> ctypes.c_uint64:
    address = id(space)
    if not isinstance(space, dict):
        address = ctypes.c_void_p.from_address(address + _FIELDS).value
    return ctypes.c_uint64.from_address(address + _NUMBER)


def _are_kept() -> bool:
    """Tell whether this Python changes the number at every change, and at nothing else."""
    if sys.implementation.name != "cpython" or sys.version_info >= (3, 13):
        return False
    place, owner = {}, type("Owner", (), {})
    seen = []
    for number, change in (
        (_number_of(place), place.__setitem__),
        (_number_of(vars(owner)), lambda name, value: setattr(owner, name, value)),
    ):
        seen.append(number.value)
        for value in (1, 2):
            change("name", value)
            seen.append(number.value)
        if not (place.get("name") or owner.name) or number.value != seen[-1]:
            return False
    return len(set(seen)) == len(seen)


KEPT = _are_kept()
