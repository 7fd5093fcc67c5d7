"""How long a learner waits for a verdict: every right answer of every bank, on the whole bench.

Prints the median and the slowest, in milliseconds; the promise is a median under 100 ms and none over 1 s,
but for those in STARTS_PROCESSES, which start processes and wait for them to import torch.
"""

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from bank import all_answers
from promises import promise

from devlab.checks.exercise import find
from devlab.checks.judge import judge
from devlab.devices import bench

STARTS_PROCESSES = ("ddp_gradients", "mean_of_all", "sharded_step")


def milliseconds(answer) -> float:
    """Judge an answer once and return the wall time."""
    start = time.perf_counter()
    judge(find(answer.exercise), answer.code)
    return 1000 * (time.perf_counter() - start)


def main() -> None:
    """Print the table."""
    times: dict[str, list[float]] = {}
    for answer in all_answers():
        times.setdefault(answer.exercise, []).append(milliseconds(answer))
    print(f"verdicts on {', '.join(map(str, bench()))}, all answers of the banks")
    print(f"{'exercise':<24}{'median ms':>12}{'slowest ms':>12}")
    for exercise, found in times.items():
        print(f"{exercise:<24}{statistics.median(found):>12.1f}{max(found):>12.1f}")
    every = [one for found in times.values() for one in found]
    print(f"{'all ' + str(len(every)):<24}{statistics.median(every):>12.1f}{max(every):>12.1f}")
    beside = f"{len(every)} answers on {len(bench())} devices"
    promise("a verdict, median", statistics.median(every), "ms", beside=beside, most=100)
    slowest = max(
        (max(found), exercise) for exercise, found in times.items() if exercise not in STARTS_PROCESSES
    )
    promise("the slowest verdict", slowest[0], "ms", beside=f"of {slowest[1]}", most=1000)


if __name__ == "__main__":
    main()
