"""Numbers of bytes and seconds as people read them."""


def size(count: float) -> str:
    """Return a number of bytes.

    >>> size(12), size(4096), size(3 * 2**20 + 2**19), size(1010 * 2**20)
    ('12 B', '4 KiB', '3.5 MiB', '1010 MiB')
    """
    return _scaled(count, 1024, ("B", "KiB", "MiB", "GiB"))


def duration(seconds: float) -> str:
    """Return a number of seconds.

    >>> duration(0.0000042), duration(0.00123), duration(0.0009996), duration(2)
    ('4.2 µs', '1.23 ms', '1 ms', '2 s')
    """
    return _scaled(seconds * 1e6, 1000, ("µs", "ms", "s"))


def _scaled(value: float, step: int, units: tuple[str, ...]) -> str:
    *smaller, largest = units
    for unit in smaller:
        shown = _three_digits(value)
        if abs(float(shown)) < step:  # 999.6 µs reads "1000" when rounded, so it is shown as 1 ms
            return f"{shown} {unit}"
        value /= step
    return f"{value:,.4g} {largest}" if abs(value) < 1000 else f"{value:,.0f} {largest}"


def _three_digits(value: float) -> str:
    """Round to three significant digits, and to a whole number from 1000 on, where `g` writes an exponent."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"
