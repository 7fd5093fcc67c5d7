"""Numbers of bytes and seconds, at the edges of their units."""

import pytest

from devlab.watching.memory import duration, size

MIB = 2**20


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (999, "999 B"),
        (1000, "1000 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1000 * 1024, "1000 KiB"),
        (1000 * MIB, "1000 MiB"),
        (1023 * MIB, "1023 MiB"),
        (1023.6 * MIB, "0.9996 GiB"),
        (5000 * 1024 * MIB, "5,000 GiB"),
    ],
)
def test_bytes_are_never_written_with_an_exponent(count, text):
    """Sizes from 1000 to 1023 of a unit are whole numbers of that unit."""
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (999.4e-6, "999 µs"),
        (999.6e-6, "1 ms"),
        (0.9994, "999 ms"),
        (0.9996, "0.9996 s"),
        (12345, "12,345 s"),
    ],
)
def test_a_time_that_rounds_to_a_thousand_takes_the_next_unit(seconds, text):
    """999.6 µs is 1 ms and never 1e+03 µs."""
    assert duration(seconds) == text
