"""How long each lesson takes alone, and beside a process that keeps one processor busy, in seconds.

On a shared machine PyTorch's threads wait for each other in each small operation, unless a lesson asks for
fewer. Nothing is set here but the simulated device. Names of lessons as arguments run those alone.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from promises import promise

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
MOST = 3  # times as long as alone


def run(lesson: Path) -> float:
    """Return the seconds that a lesson takes from its first cell to its last."""
    where = {"metadata": {"path": str(NOTEBOOKS)}}
    client = NotebookClient(nbformat.read(lesson, 4), timeout=900, resources=where)
    with client.setup_kernel():
        start = time.perf_counter()
        for place, cell in enumerate(client.nb.cells):
            client.execute_cell(cell, place)
        return time.perf_counter() - start


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """Keep one processor busy with other work."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Measure and print; say at the end how the worst lesson does."""
    os.environ.pop("OMP_NUM_THREADS", None)
    os.environ["DEVLAB_DEVICE"] = "sim"
    worst = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["DEVLAB_PROGRESS"] = str(Path(scratch) / "progress.jsonl")
        for lesson in sorted(NOTEBOOKS.glob("*.ipynb")):
            if sys.argv[1:] and lesson.stem not in sys.argv[1:]:
                continue
            alone = run(lesson)
            with busy():
                beside = run(lesson)
            worst = max(worst, beside / alone)
            print(f"{lesson.stem:<28} alone {alone:6.1f} s, beside the other {beside:6.1f} s", flush=True)
    promise("the worst lesson", worst, "times as long", beside="beside a busy process", most=MOST)


if __name__ == "__main__":
    main()
