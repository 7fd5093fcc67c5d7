"""What `import devlab` adds to `import torch`, in milliseconds; the promise is under 60.

Each runs several times in a fresh process, taking turns, and the medians are compared.
"""

import statistics
import subprocess
import sys

CODE = """
import time
import torch
start = time.perf_counter()
import devlab
print(1000 * (time.perf_counter() - start))
"""
REPEATS = 7


def added() -> float:
    """Return the milliseconds that devlab takes once torch is there."""
    heard = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    return float(heard.stdout)


def main() -> None:
    """Print the median."""
    times = [added() for _ in range(REPEATS)]
    print(f"import devlab adds {statistics.median(times):.1f} ms to import torch (median of {REPEATS})")


if __name__ == "__main__":
    main()
