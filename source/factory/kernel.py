"""The world a notebook of the course is executed in: the same on every machine."""

import os
from pathlib import Path

# What differs from machine to machine all the same, and what to read in its place.
VARIES = Path(__file__).with_name("varies.ini")

# A line of output may not depend on the window or on how many processors there are.
FIXED = {
    "COLUMNS": "80",
    "LINES": "24",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "DEVLAB_DEVICE": "sim",
    "SOURCE_DATE_EPOCH": "0",
}


def environment(scratch: Path, *, strict: bool = False) -> dict[str, str]:
    """Describe a machine without a GPU, whose learner's own progress and settings stay out of reach.

    What a run leaves behind goes under `scratch`. With `strict`, a check that does not pass raises.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DEVLAB_")}
    own = {
        "DEVLAB_PROGRESS": str(scratch / "progress.jsonl"),
        "IPYTHONDIR": str(scratch / "ipython"),
        "DEVLAB_STRICT": "1" if strict else "",
    }
    return inherited | FIXED | own


def sockets(folder: Path) -> dict[str, str]:
    """Say by what Jupyter is to talk with one kernel: by files in a folder, on Windows by ports.

    Jupyter chooses five ports, lets go of them, and has the kernel take them a second later. Where much
    starts at the same time another process is now and then faster, and the kernel ends before its first cell.
    """
    return {} if os.name == "nt" else {"transport": "ipc", "ip": str(folder / "kernel")}
