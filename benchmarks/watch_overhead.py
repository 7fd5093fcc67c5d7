"""What `devlab.watch` adds to one operator on CPU tensors, in microseconds; the promise is at most 15.

The reference is a dispatch mode that does nothing but pass the operator on: the least that any watcher in
Python can cost. All are timed in turns in one process, in processor time; the shortest round of each counts,
as the least disturbed by other programs.
"""

import time
from contextlib import nullcontext

import torch
from promises import promise

import devlab
from devlab.sim.private import OperatorMode

OPERATORS = 200
ROUNDS = 150


class PassOn(OperatorMode):
    """The least a watcher can do."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **kwargs or {})


def add(x: torch.Tensor) -> None:
    """One operator that makes a new tensor, many times."""
    for _ in range(OPERATORS):
        x + x


def layer(x: torch.Tensor, linear=torch.nn.Linear(4, 4)) -> None:  # noqa: B008
    """A layer, forward and backward: views, products, sums, and lines deep in a module."""
    for _ in range(OPERATORS // 20):
        linear(x).sum().backward()


def seconds(work, under) -> float:
    """Time one round of work under a watcher."""
    x = torch.ones(4, 4)
    with under():
        start = time.thread_time()
        work(x)
        return time.thread_time() - start


def operators_in(work) -> int:
    """Count the operators of one round, views included."""

    class Count(PassOn):
        number = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.number += 1
            return func(*args, **kwargs or {})

    with Count() as counted:
        work(torch.ones(4, 4))
    return counted.number


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    watchers = {"plain": nullcontext, "empty dispatch mode": PassOn, "devlab.watch": devlab.watch}
    print(f"microseconds an operator on CPU tensors of 16 elements, the least of {ROUNDS} rounds")
    print(f"{'':<24}{'plain':>10}{'empty mode':>14}{'watch':>10}{'watch adds':>14}")
    for work in (add, layer):
        times: dict[str, list[float]] = {name: [] for name in watchers}
        for _ in range(ROUNDS):
            for name, under in watchers.items():
                times[name].append(seconds(work, under))
        number = operators_in(work)
        plain, empty, watch = (1e6 * min(found) / number for found in times.values())
        print(f"{work.__name__:<24}{plain:>10.2f}{empty:>14.2f}{watch:>10.2f}{watch - plain:>14.2f}")
        beside = f"{plain:.1f} µs plain, {empty:.1f} µs under an empty dispatch mode"
        promise(f"devlab.watch, {work.__name__}", watch - plain, "µs an operator", beside=beside, most=15)


if __name__ == "__main__":
    main()
