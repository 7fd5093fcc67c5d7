"""`devlab.start`: say what is here, make its time visible, and stand by to explain errors."""

import sys

import torch

from devlab import __version__
from devlab.devices import UnknownDevice, accelerators, introduce
from devlab.explaining.uncaught import explain_errors
from devlab.panel import Note, notebook_shell


def start() -> torch.device:
    """Say in one line what is here, return the device the lessons use, and stand by to explain errors.

    The device is the first accelerator, real or simulated, or the CPU when there is neither; a simulated one
    is always called so. In a notebook, from now on, an error about devices gets an explanation under it, as
    `devlab.explain()` gives it, and the waits of a simulated device take real time, so that
    `time.perf_counter()` sees them. Tracebacks of uncaught errors leave out the simulator's own frames, in a
    notebook and in a script.
    """
    head = f"devlab {__version__} · Python {sys.version.split()[0]} · torch {torch.__version__}"
    try:
        found, problem = accelerators(), ""
    except (UnknownDevice, RuntimeError) as error:
        found, problem = [], f"\n{error} Going on with the CPU."
    device = found[0] if found else torch.device("cpu")
    Note(f"{head} · {introduce(device)}{problem}").show()
    explain_errors(device)
    if device.type == "sim" and notebook_shell():
        from devlab.sim import clock

        clock.real_waits()
    return device
