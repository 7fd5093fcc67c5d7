"""Two names in memory: a small program is run, and where each name's elements lie is read from addresses."""

import functools
import warnings
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch

STARTS = {
    "a tensor on the CPU": "x = torch.arange(6.0).reshape(2, 3)",
    "a tensor on the device": "x = torch.arange(6.0, device=device).reshape(2, 3)",
    "a NumPy array": "x = np.arange(6, dtype=np.float32).reshape(2, 3)",
}
WRITTEN = 9


@dataclass(frozen=True)
class Memory:
    """A stretch of memory: the device it is on, the bytes of each element, and all elements in order."""

    place: str
    itemsize: int
    values: tuple[float, ...]

    @property
    def bytes(self) -> int:
        """Return the bytes that it takes."""
        return self.itemsize * len(self.values)


@dataclass(frozen=True)
class Window:
    """What a name sees: its shape, offset and strides in elements, and which memory it looks at.

    `cells` pairs each index with the element's number in that memory.
    """

    name: str
    memory: int
    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]
    cells: tuple[tuple[tuple[int, ...], int], ...]


@dataclass(frozen=True)
class Scene:
    """A program that was run, the memories that names still look at, and why a line failed, if one did."""

    program: tuple[str, ...]
    memories: tuple[Memory, ...] = ()
    windows: tuple[Window, ...] = ()
    wrote: tuple[str, tuple[int, ...]] | None = None
    same: bool = False  # y is x itself
    shared: bool = False  # y looks at the memory that x looks at, or looked at before it was deleted
    error: str = ""

    @property
    def bytes(self) -> int:
        """Return the bytes that all the memories take together."""
        return sum(memory.bytes for memory in self.memories)

    def window(self, name: str) -> Window | None:
        """Return what a name sees; None where there is no such name."""
        return next((window for window in self.windows if window.name == name), None)


@functools.lru_cache(maxsize=256)
def scene(start: str, made: str, through: str, cell: int, deleted: bool, device: str) -> Scene:
    """Make x as `start` says and y as `made` says, write through a name, delete x, and read the memory.

    `through` is "x", "y" or "" for no write; `cell` counts in the name's own order, and one beyond the
    last means the last.

    >>> shared = scene("a tensor on the CPU", "x[:, 1:]", "y", 0, False, "cpu")
    >>> shared.bytes, shared.memories[0].values, shared.window("y").offset
    (24, (0.0, 9.0, 2.0, 3.0, 4.0, 5.0), 1)
    """
    names: dict = {"torch": torch, "np": np, "device": device}
    program = [STARTS[start], f"y = {made}"]
    exec(STARTS[start], names)
    error = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch.tensor(tensor) would rather be .clone()
            exec(program[1], names)
    except (AttributeError, RuntimeError, TypeError) as refused:
        error = f"{type(refused).__name__}: {str(refused).splitlines()[0]}"
    wrote = None
    if through in names:
        index = _indices(names[through])[: cell + 1][-1]
        program.append(f"{through}[{', '.join(map(str, index))}] = {WRITTEN}")
        exec(program[-1], names)
        wrote = (through, index)
    same = names.get("y") is names["x"]
    shared = "y" in names and _memory(names["x"])[:2] == _memory(names["y"])[:2]
    if deleted:
        program.append("del x")
        exec(program[-1], names)
    starts: list[tuple[str, int]] = []
    memories: list[Memory] = []
    windows = []
    for name in sorted(names.keys() & {"x", "y"}):
        place, first, memory = _memory(names[name])
        if (place, first) not in starts:
            starts.append((place, first))
            memories.append(memory)
        windows.append(_window(name, names[name], starts.index((place, first)), first))
    return Scene(tuple(program), tuple(memories), tuple(windows), wrote, same, shared, error)


def _memory(value) -> tuple[str, int, Memory]:
    """Return the place, the address and the content of the whole memory behind a tensor or an array."""
    if isinstance(value, np.ndarray):
        while value.base is not None:
            if not isinstance(value.base, np.ndarray):  # NumPy holds the tensor whose memory this is
                return _memory(value.base)
            value = value.base
        return "cpu", value.ctypes.data, Memory("cpu", value.itemsize, tuple(value.ravel("K").tolist()))
    storage = value.untyped_storage()
    size = value.element_size()
    whole = torch.as_strided(value.detach(), (storage.nbytes() // size,), (1,), 0)
    return str(value.device), storage.data_ptr(), Memory(str(value.device), size, tuple(whole.tolist()))


def _window(name: str, value, memory: int, first: int) -> Window:
    """Return what a name sees of the memory that begins at the address `first`."""
    if isinstance(value, np.ndarray):
        size, address = value.itemsize, value.ctypes.data
        strides = tuple(stride // size for stride in value.strides)  # NumPy counts strides in bytes
    else:
        size, address, strides = value.element_size(), value.data_ptr(), tuple(value.stride())
    offset = (address - first) // size
    cells = tuple(
        (index, offset + sum(step * stride for step, stride in zip(index, strides, strict=True)))
        for index in _indices(value)
    )
    return Window(name, memory, tuple(value.shape), offset, strides, cells)


def _indices(value) -> list[tuple[int, ...]]:
    return list(product(*(range(length) for length in value.shape)))
