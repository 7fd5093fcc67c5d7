"""What remembering births adds to one call of a factory, in microseconds, and to any other operation.

Timed in processor time in one process; the shortest round of each counts, as the least disturbed by others.
"""

import time

import torch

from devlab.explaining import births

CALLS = 5000
ROUNDS = 30


def microseconds(work) -> float:
    """Time one call of some work."""
    shortest = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        for _ in range(CALLS):
            work()
        shortest = min(shortest, time.process_time() - begun)
    return shortest / CALLS * 1e6


def main() -> None:
    """Print the cost on the home device, off it, and of an operation that is no factory."""
    x = torch.ones(4)
    plain, add = microseconds(lambda: torch.zeros(4)), microseconds(lambda: x + x)
    births.remember("cpu")
    at_home = microseconds(lambda: torch.zeros(4))
    births.remember("meta")
    noted, add_after = microseconds(lambda: torch.zeros(4)), microseconds(lambda: x + x)
    births.forget()
    print(f"torch.zeros(4)                 {plain:.2f} µs")
    print(f"  on the home device          +{at_home - plain:.2f} µs")
    print(f"  elsewhere, and so noted     +{noted - plain:.2f} µs")
    print(f"x + x                          {add:.2f} µs, then {add_after:.2f} µs")


if __name__ == "__main__":
    main()
