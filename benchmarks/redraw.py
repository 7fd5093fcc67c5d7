"""How long a reader waits for the next picture of an explorer, in milliseconds; the promise: under 200.

Each explorer is brought to every state that one change of a control makes, and drawn there as a notebook
shows it: calculation, picture and words. The first picture is left out: it loads matplotlib. The promise is
of the median. On a machine that has other work, processor time tells more than what the clock on the wall
says, though of two threads it counts both; the smaller of the two medians is held against the promise.
"""

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from explore.test_every_picture import NAMES, opened, states
from promises import promise

LIMIT = 200


def milliseconds(explorer, state) -> tuple[float, float]:
    """Draw a state and return the wall and the processor time."""
    explorer.state = state
    wall, processor = time.perf_counter(), time.process_time()
    explorer.html()
    return 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - processor)


def main() -> None:
    """Print the table and the promise."""
    print(f"{'explorer':<12}{'states':>8}{'wall ms':>10}{'slowest':>10}{'processor ms':>14}")
    medians = {}
    for name in NAMES:
        explorer = opened(name)
        explorer.html()
        reached = states(explorer)
        walls, processors = zip(*(milliseconds(explorer, state) for state in reached), strict=True)
        medians[name] = min(statistics.median(walls), statistics.median(processors))
        print(
            f"{name:<12}{len(reached):>8}{statistics.median(walls):>10.0f}{max(walls):>10.0f}"
            f"{statistics.median(processors):>14.0f}"
        )
    slowest = max(medians, key=medians.get)
    promise("redraw of an explorer", medians[slowest], "ms", beside=f"the slowest, {slowest}", most=LIMIT)


if __name__ == "__main__":
    main()
