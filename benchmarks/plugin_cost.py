"""What the pytest plug-in costs a run in which no test asks for a device, in milliseconds of processor time.

The same run of one empty test with the plug-in and with `-p no:devlab`, taking turns, in fresh processes.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from promises import promise

REPEATS = 15


def milliseconds(folder: str, *options: str) -> float:
    """Return the processor time of one run of pytest."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", ".", *options]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    """Print the medians."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_empty.py").write_text("def test_nothing(): pass\n")
        pairs = [(milliseconds(folder), milliseconds(folder, "-p", "no:devlab")) for _ in range(REPEATS)]
    with_it, without = (statistics.median(times) for times in zip(*pairs, strict=True))
    more = statistics.median(one - other for one, other in pairs)
    print(f"pytest takes {without:.0f} ms without the plug-in and {with_it:.0f} ms with it")
    promise("the pytest plug-in", more, "ms more", beside=f"a run without, {without:.0f} ms", most=20)


if __name__ == "__main__":
    main()
