"""Sources as scripts, notebooks cell by cell, the examples of a page: each in a process forked for it.

That process has imported PyTorch before, which is most of the time that it would take.
"""

import contextlib
import doctest
import io
import multiprocessing
import os
import runpy
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import nbformat
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import devlab.sim

ROOT = Path(__file__).resolve().parents[2]
PRELOADED = ["torch", "devlab.sim", "nbformat", "IPython.core.interactiveshell", "IPython.utils.capture"]
SECONDS = 120  # that a script or a notebook may take


@dataclass
class Ran:
    """What a cell showed: its standard error, the data it displayed, and the error it ended with."""

    red: str
    displayed: list[dict]
    error: str


def script(source: Path, environment: dict[str, str], said: Path, rules: str = "cuda") -> int:
    """Run a source from its first line to its last; return its exit status. What it says goes to a file."""
    return apart(_script, source, environment, said, rules)


def cells(notebook: Path, environment: dict[str, str], rules: str | None = None) -> list[Ran]:
    """Run every code cell of a notebook as IPython does, whatever it raises; return what each showed.

    With `rules` the simulator is there before the first cell, and follows them.
    """
    return apart(_cells, notebook, environment, rules)


def examples(text: str, name: str) -> str:
    """Run the examples of a text as one session, with the simulator on; return what doctest says."""
    return apart(_examples, text, name)


def apart(function, *args):
    """Call a function of a module in a process of its own, which has PyTorch already; return its result."""
    ways = multiprocessing.get_all_start_methods()
    start = multiprocessing.get_context("forkserver" if "forkserver" in ways else "spawn")
    if "forkserver" in ways:
        start.set_forkserver_preload(PRELOADED)
    with ProcessPoolExecutor(1, mp_context=start) as one:
        return one.submit(function, *args).result(timeout=SECONDS)


@contextlib.contextmanager
def _world(folder: Path, environment: dict[str, str], rules: str | None) -> Iterator[None]:
    os.environ.update(environment)
    torch.set_num_threads(1)  # PyTorch is here already and reads no environment
    multiprocessing.set_start_method(None, force=True)  # what starts workers in a notebook, too
    os.chdir(folder)
    with contextlib.ExitStack() as stack:
        if rules:
            devlab.sim.enable()
            stack.enter_context(devlab.sim.rules(rules))
        yield


def _script(source: Path, environment: dict[str, str], said: Path, rules: str) -> int:
    with said.open("w", encoding="utf-8") as stream:
        for standard in (1, 2):
            os.dup2(stream.fileno(), standard)
    with _world(ROOT / "exercises", environment, rules):
        try:
            runpy.run_path(str(source), run_name="__main__")
        except Exception:
            traceback.print_exc()
            return 1
        finally:
            sys.stdout.flush()
    return 0


def _examples(text: str, name: str) -> str:
    devlab.sim.enable()
    session = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    said = io.StringIO()
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(session, out=said.write)
    return said.getvalue()


def _cells(notebook: Path, environment: dict[str, str], rules: str | None) -> list[Ran]:
    read = nbformat.read(notebook, as_version=4)
    sys.path.insert(0, "")
    with _world(notebook.parent, environment, rules):
        shell = InteractiveShell.instance()
        return [_ran(shell, cell.source) for cell in read.cells if cell.cell_type == "code"]


def _ran(shell: InteractiveShell, source: str) -> Ran:
    with capture_output() as shown:
        ended = shell.run_cell(source, store_history=True)
    error = ended.error_before_exec or ended.error_in_exec
    displayed = [one.data for one in shown.outputs]
    return Ran(shown.stderr, displayed, f"{type(error).__name__}: {error}" if error else "")
