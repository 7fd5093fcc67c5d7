"""Numbers of bytes and seconds as people read them."""


def size(count: float) -> str:
    """Return a number of bytes.

    >>> size(12), size(4096), size(3 * 2**20 + 2**19)
    ('12 B', '4 KiB', '3.5 MiB')
    """
    return _scaled(count, 1024, ("B", "KiB", "MiB", "GiB"))


def duration(seconds: float) -> str:
    """Return a number of seconds.

    >>> duration(0.0000042), duration(0.00123), duration(2)
    ('4.2 µs', '1.23 ms', '2 s')
    """
    return _scaled(seconds * 1e6, 1000, ("µs", "ms", "s"))


def _scaled(value: float, step: int, units: tuple[str, ...]) -> str:
    *smaller, largest = units
    for unit in smaller:
        if abs(value) < step:
            return f"{value:.3g} {unit}"
        value /= step
    return f"{value:,.4g} {largest}"
