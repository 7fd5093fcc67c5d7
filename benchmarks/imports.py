"""What `import devlab` adds to `import torch`, in milliseconds; the promise is under 60.

Each runs several times in a fresh process, taking turns, and the medians are compared.
"""

import statistics
import subprocess
import sys

from promises import promise

CODE = """
import time
start = time.perf_counter()
import torch
between = time.perf_counter()
import devlab
print(1000 * (between - start), 1000 * (time.perf_counter() - between))
"""
REPEATS = 7


def added() -> tuple[float, float]:
    """Return the milliseconds that torch takes, and that devlab takes once torch is there."""
    heard = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    torch_alone, more = heard.stdout.split()
    return float(torch_alone), float(more)


def main() -> None:
    """Print the median."""
    times = [added() for _ in range(REPEATS)]
    torch_alone = statistics.median(seconds[0] for seconds in times)
    more = statistics.median(seconds[1] for seconds in times)
    print(f"import torch takes {torch_alone:.0f} ms, import devlab {more:.1f} ms more (median of {REPEATS})")
    promise("import devlab", more, "ms more", beside=f"import torch alone, {torch_alone:.0f} ms", most=60)


if __name__ == "__main__":
    main()
