"""Axes whose steps are factors: from a microsecond to a second, from a byte to a gigabyte."""

from collections.abc import Sequence

from devlab.watching.memory import duration, size

SECONDS = [10.0**power for power in range(-7, 3)]


def of_time(axis, limits: tuple[float, float]) -> None:
    """Make a y axis one of time, in factors of ten: µs, ms and s."""
    _factors(axis, limits, SECONDS, [duration(one) for one in SECONDS])


def of_bytes(axis, limits: tuple[float, float], ticks: Sequence[int]) -> None:
    """Make an x axis one of bytes, with these ticks."""
    _factors(axis, limits, ticks, [size(one) for one in ticks])


def of_counts(axis, limits: tuple[float, float], ticks: Sequence[int]) -> None:
    """Make an x axis one of whole numbers, with these ticks."""
    _factors(axis, limits, ticks, [f"{one:,}" for one in ticks])


def _factors(axis, limits: tuple[float, float], ticks: Sequence[float], labels: Sequence[str]) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    low, high = limits
    shown = [(tick, label) for tick, label in zip(ticks, labels, strict=True) if low <= tick <= high]
    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": limits})
    axis.set_major_locator(FixedLocator([tick for tick, _ in shown]))
    axis.set_major_formatter(FixedFormatter([label for _, label in shown]))
    axis.set_minor_locator(NullLocator())  # ticks cost most of the time that a picture takes
