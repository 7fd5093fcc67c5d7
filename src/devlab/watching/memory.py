"""`devlab.memory`: what a device's memory holds. Also numbers of bytes and of seconds as people read them."""

import math
from dataclasses import dataclass

import torch

from devlab import palette
from devlab.devices import UnknownDevice
from devlab.panel import LABEL, Column, Note, Panel, Table, escape


def size(count: float) -> str:
    """Return a number of bytes.

    >>> size(12), size(4096), size(3 * 2**20 + 2**19), size(1010 * 2**20)
    ('12 B', '4 KiB', '3.5 MiB', '1010 MiB')
    """
    return _write_with_unit(count, 1024, ("B", "KiB", "MiB", "GiB"))


def duration(seconds: float) -> str:
    """Return a number of seconds.

    >>> duration(0.0000042), duration(0.00123), duration(0.0009996), duration(2)
    ('4.2 µs', '1.23 ms', '1 ms', '2 s')
    """
    return _write_with_unit(seconds * 1e6, 1000, ("µs", "ms", "s"))


def _write_with_unit(value: float, step: int, units: tuple[str, ...]) -> str:
    *smaller, largest = units
    for unit in smaller:
        shown = _three_digits(value)
        if abs(float(shown)) < step:  # 999.6 µs would be rounded to "1000 µs", and is shown as 1 ms
            return f"{shown} {unit}"
        value /= step
    return f"{value:,.4g} {largest}" if abs(value) < 1000 else f"{value:,.0f} {largest}"


def _three_digits(value: float) -> str:
    """Round to three significant digits, and to a whole number from 1000 on, where `g` writes an exponent."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"


BAR = 40
NO_ACCOUNT = (
    "PyTorch keeps no account of the CPU's memory: tensors take it from the system and give it back.\n"
    "devlab.watch() counts the bytes of the tensors that a block makes."
)


def name_of(device: torch.device) -> str:
    """Return a device's name, which says so where the device is simulated.

    >>> name_of(torch.device("cpu"))
    'cpu'
    """
    return f"{device} (simulated)" if device.type == "sim" else str(device)


@dataclass(repr=False, eq=False)
class Memory(Panel):
    """A device's memory in bytes; None where the device does not tell.

    `allocated` is what live tensors hold, `reserved` what PyTorch has taken from the device (its cache
    included), `peak` the most that was ever allocated, and `total` what the device has.
    """

    device: torch.device
    allocated: int
    reserved: int | None
    peak: int | None
    total: int | None

    @property
    def cached(self) -> int | None:
        """Return what is reserved and holds nothing."""
        return None if self.reserved is None else self.reserved - self.allocated

    def _rows(self) -> list[tuple[str, int, str]]:
        rows = [
            ("allocated", self.allocated, "live tensors"),
            ("reserved", self.reserved, "taken from the device: live tensors and cache"),
            ("peak", self.peak, "the most allocated so far"),
            ("total", self.total, "what the device has"),
        ]
        return [row for row in rows if row[1] is not None]

    @property
    def _most(self) -> int:
        return max(self.allocated, self.reserved or 0, self.peak or 0)

    def _bar(self) -> str:
        """Return the bar: full blocks for what is allocated, light ones for the cache, a stroke at peak."""
        cells = ["·"] * BAR
        for amount, sign in ((self.reserved, "░"), (self.allocated, "█")):
            for cell in range(_cells(amount, self._most)):
                cells[cell] = sign
        if self.peak:
            cells[_cells(self.peak, self._most) - 1] = "┃"
        return "".join(cells)

    def _legend(self) -> str:
        cache = "  ░ cached" if self.reserved is not None else ""
        peak = "  ┃ peak" if self.peak is not None else ""
        return f"0 to {size(self._most)}:  █ allocated{cache}{peak}"

    def text(self) -> str:
        """Return the figures and a bar."""
        lines = [f"  {name:<10} {size(amount):>9}  {meaning}" for name, amount, meaning in self._rows()]
        return "\n".join(
            [f"memory of {name_of(self.device)}", *lines, f"  {self._bar()}", f"  {self._legend()}"]
        )

    def html(self) -> str:
        """Return the same as HTML."""
        look = 'style="text-align:right"'
        columns = [Column(look=LABEL, labels=True), Column(look=look, html=size), Column()]
        return (
            f"<div><strong>memory of {escape(name_of(self.device))}</strong></div>"
            f"{Table(columns, self._rows()).html()}"
            f"{self._html_bar()}<div>0 to {size(self._most)}: &ensp;{self._html_legend()}</div>"
        )

    @property
    def _looks(self) -> dict[str, str]:
        """Return the style of each part of the bar: filled, outlined, and a stroke as dark as the letters."""
        colour = palette.of(self.device)
        looks = {"allocated": f"height:16px;background:{colour};border:1px solid {colour}"}
        if self.reserved is not None:
            looks["cached"] = f"height:16px;border:1px solid {colour}"
        if self.peak is not None:
            looks["peak"] = "height:24px;border-left:3px solid"
        return looks

    def _html_bar(self) -> str:
        """Return the bar; beyond what is reserved it is a thin line, as far as the peak."""
        looks = self._looks | {"": f"height:1px;border-bottom:1px solid {palette.WAIT}"}
        ends = {"allocated": self.allocated, "cached": self.reserved or 0, "": self._most}
        parts, start = [], 0
        for stop in sorted({*ends.values(), self.peak or 0} - {0}):
            name = next(name for name, end in ends.items() if stop <= end)
            parts.append(_span(f"{(stop - start) / self._most:.2%}", looks[name]))
            if stop == self.peak:
                parts.append(_span("3px", looks["peak"]))
            start = stop
        look = "display:flex;align-items:center;height:24px;max-width:480px"
        return f'<div aria-hidden="true" style="{look}">{"".join(parts)}</div>'

    def _html_legend(self) -> str:
        return " &ensp;".join(
            f"{_span('3px' if name == 'peak' else '16px', look)} {name} {size(getattr(self, name))}"
            for name, look in self._looks.items()
        )

    def __repr__(self) -> str:
        return f"<Memory of {name_of(self.device)}: {size(self.allocated)} allocated>"


def _span(wide: str, look: str) -> str:
    style = f"display:inline-block;box-sizing:border-box;vertical-align:middle;width:{wide};{look}"
    return f'<span style="{style}"></span>'


def _cells(amount: int | None, whole: int) -> int:
    """Return how many cells of the bar an amount fills; anything at all fills one."""
    return math.ceil((amount or 0) * BAR / max(whole, 1))


def memory(device: torch.device | str = "cpu", *, show: bool = True) -> Memory | Note:
    """Show what a device's memory holds and return it; on the CPU, say that no account is kept.

    `torch.get_device_module(device).reset_peak_memory_stats()` lets the peak start again.

    >>> panel = memory("cpu")
    PyTorch keeps no account of the CPU's memory: tensors take it from the system and give it back.
    devlab.watch() counts the bytes of the tensors that a block makes.
    """
    panel = _account(torch.device(device))
    if show:
        panel.show()
    return panel


def _account(device: torch.device) -> Memory | Note:
    if device.type == "cpu":
        return Note(NO_ACCOUNT)
    module = torch.get_device_module(device)
    if not module.is_available():
        raise UnknownDevice(f"{device} is not here; devlab.devices() lists what is")
    if device.index is None and hasattr(module, "current_device"):
        device = torch.device(device.type, module.current_device())
    if device.type == "mps":
        allocated, reserved = module.current_allocated_memory(), module.driver_allocated_memory()
        return Memory(device, allocated, reserved, None, module.recommended_max_memory())
    return Memory(
        device,
        module.memory_allocated(device),
        module.memory_reserved(device),
        module.max_memory_allocated(device),
        module.mem_get_info(device)[1],
    )
