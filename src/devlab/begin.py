"""`devlab.start`: say what is here, make its time visible, and stand by to explain errors."""

import os
import sys
from collections.abc import Callable

import torch

from devlab import __version__
from devlab.devices import UnknownDevice, accelerators, introduce, two, with_account
from devlab.explaining.uncaught import explain_errors
from devlab.launching import launch_cell
from devlab.panel import Note, notebook_shell


def start(*, account: bool = False, threads: int | None = None) -> torch.device:
    """Say in one line what is here, return the device the lessons use, and stand by to explain errors.

    The device is the first accelerator, real or simulated, or the CPU when there is neither; a simulated one
    is always called so. With `account=True` it is one of whose memory PyTorch keeps an account: the simulated
    one on a Mac, and where there is no accelerator. `threads` is how many threads of the CPU PyTorch uses,
    unless OMP_NUM_THREADS says so: where work is small and the machine has other work as well, several
    threads mostly wait for each other. In a notebook, from now on, an error about devices gets an explanation
    under it, as `devlab.explain()` gives it, and the waits of a simulated device take real time, so that
    `time.perf_counter()` sees them. Tracebacks of uncaught errors leave out the simulator's own frames, in a
    notebook and in a script.
    """
    if threads and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(threads)
    found, problem = _find(with_account if account else accelerators)
    device = found[0] if found else torch.device("cpu")
    _begin(device, introduce(device), problem)
    return device


def start_two() -> tuple[torch.device, torch.device]:
    """Begin as `start` does, for a lesson that needs two accelerators, and return both.

    They are two real ones where there are two, and otherwise the two simulated ones.
    """
    found, problem = _find(two)
    found = found or [torch.device("cpu")]
    first, second = found[0], found[-1]  # twice the same device where it is alone, as under Apple's rules
    if first.type == "sim":
        words = f"{first} and {second}, simulated accelerators (no two GPUs in use)"
    else:
        words = " and ".join(dict.fromkeys((introduce(first), introduce(second))))
    _begin(first, words, problem)
    return first, second


def _find(which: Callable[[], list[torch.device]]) -> tuple[list[torch.device], str]:
    """Return the devices that a function finds, and why there are none."""
    try:
        return which(), ""
    except (UnknownDevice, RuntimeError) as error:
        return [], f"\n{error} Going on with the CPU."


def _begin(device: torch.device, words: str, problem: str) -> None:
    head = f"devlab {__version__} · Python {sys.version.split()[0]} · torch {torch.__version__}"
    Note(f"{head} · {words}{problem}").show()
    explain_errors(device)
    if shell := notebook_shell():
        shell.register_magic_function(launch_cell, "cell", "launch")
    if device.type == "sim" and shell:
        from devlab.sim import clock

        clock.real_waits()
