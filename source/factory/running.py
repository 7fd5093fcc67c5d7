"""Executes a notebook and keeps of its outputs what every machine agrees on."""

import configparser
import functools
import os
import re
import sys
import tempfile
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from traitlets.config import Config

from factory import kernel
from factory.reading import Source, SourceError

SECONDS_A_CELL = 120
MEASURED = "nbval-ignore-output"
# The answer of `devlab.predict` is stored folded, so that nobody reads it below the question.
ANSWER = re.compile(r"\.was(_about)?\(")
FOLDED = {"collapsed": True, "jupyter": {"outputs_hidden": True}}
QUIET = ["--IPKernelApp.log_level=ERROR"]  # a kernel need not warn of eavesdroppers here

ANSI = re.compile(r"\x1b\[[0-9;]*m")
ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}")


def run(source: Source, folder: Path, *, strict: bool, previous: NotebookNode | None = None) -> NotebookNode:
    """Execute the cells of a source in `folder` and return the notebook with its outputs.

    A cell tagged nbval-ignore-output holds a measurement, which no two runs repeat: while the cell stays
    as it is in `previous`, so does its output.
    """
    notebook = source.notebook()
    _execute(source, notebook, folder, strict)
    notebook.metadata = source.notebook().metadata  # nbclient wrote this machine's Python into it
    earlier = {cell.id: cell for cell in previous.cells} if previous else {}
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        tags = cell.metadata.get("tags", [])
        if MEASURED in tags and cell.id in earlier:
            _repeat_measurement(cell, earlier[cell.id])
        _settle_outputs(cell)
        if ANSWER.search(cell.source):
            cell.metadata.update(FOLDED)
        if problem := _problem(cell):
            raise source.error(cell, problem)
    return notebook


def _execute(source: Source, notebook: NotebookNode, folder: Path, strict: bool) -> None:
    at = notebook.cells[0]

    def remember(cell: NotebookNode, cell_index: int) -> None:
        nonlocal at
        at = cell

    with tempfile.TemporaryDirectory() as scratch:
        client = NotebookClient(
            notebook,
            kernel_name="python3",
            timeout=SECONDS_A_CELL,
            record_timing=False,
            coalesce_streams=True,
            store_widget_state=False,
            resources={"metadata": {"path": str(folder)}},
            on_cell_start=remember,
            extra_arguments=QUIET,
            config=Config(KernelManager=kernel.sockets(Path(scratch))),
        )
        try:
            client.execute(env=kernel.environment(Path(scratch), strict=strict))
        except CellExecutionError as failure:
            raise _as_source_error(source, at) from failure
        except CellTimeoutError as failure:
            raise source.error(at, f"this cell took over {SECONDS_A_CELL} s; make it smaller") from failure
        except DeadKernelError as failure:
            raise source.error(at, "the kernel died in this cell") from failure


def _as_source_error(source: Source, cell: NotebookNode) -> SourceError:
    """Point at the line of the source file that raised, and show what was raised there."""
    error = next(output for output in cell.outputs if output.output_type == "error")
    traceback = ANSI.sub("", "\n".join(error.traceback))
    line = re.search(r"Cell In\[\d+\], line (\d+)", traceback)
    return source.error(
        cell,
        f"this cell raised {error.ename}: {ANSI.sub('', error.evalue)}\n\n{traceback}\n\n"
        'If the error is the lesson, tag the cell: # %% tags=["raises-exception"]',
        line=int(line.group(1)) if line else 0,
    )


def _repeat_measurement(cell: NotebookNode, earlier: NotebookNode) -> None:
    cell.outputs = earlier.outputs
    for output in cell.outputs:
        if output.output_type == "execute_result":
            output.execution_count = cell.execution_count


def _settle_outputs(cell: NotebookNode) -> None:
    """Drop from the outputs what differs from run to run or from machine to machine."""
    for output in cell.outputs:
        if output.output_type == "error":
            output.traceback = [frame for frame in output.traceback if not _is_library_frame(frame)]
        elif "data" in output:
            # A widget's model lives in the kernel; saved, its id would change on every run.
            output.data.pop("application/vnd.jupyter.widget-view+json", None)
            output.data = {kind: _as_everywhere(shown) for kind, shown in output.data.items()}
        else:
            output.text = _as_everywhere(output.text)


def _as_everywhere(shown: object) -> object:
    """Replace what varies.ini lists, which nbval reads too."""
    if isinstance(shown, str):
        for varying, same in _varies():
            shown = varying.sub(same, shown)
    return shown


@functools.cache
def _varies() -> list[tuple[re.Pattern[str], str]]:
    parser = configparser.RawConfigParser()
    parser.read(kernel.VARIES, encoding="utf-8")
    parts = [parser[name] for name in parser.sections() if "saved" not in parser[name]]
    return [(re.compile(part["regex"]), part["replace"]) for part in parts]


def _is_library_frame(frame: str) -> bool:
    """Tell whether a frame shows an installed file, whose path and line are this machine's own."""
    return ANSI.sub("", frame).startswith("File ")


def _problem(cell: NotebookNode) -> str | None:
    """Say why a finished cell may not go into a notebook, if it may not."""
    raised = any(output.output_type == "error" for output in cell.outputs)
    if "raises-exception" in cell.metadata.get("tags", []) and not raised:
        return "tagged raises-exception, but nothing was raised; remove the tag or mend the cell"
    for output in cell.outputs:
        if output.get("name") == "stderr":
            return f"this cell writes to stderr, which nbgrader marks with 0 points:\n\n{output.text}"
        shown = output.get("text", "") + str(output.get("data", "")) + "".join(output.get("traceback", []))
        if address := ADDRESS.search(shown):
            return f"this cell shows an address ({address.group()}), new on every run; show something else"
        if place := _place_on_this_machine(shown):
            return f"this cell shows a folder of this machine ({place}); show something else"
    return None


def _place_on_this_machine(shown: str) -> str | None:
    repository = Path(__file__).resolve().parents[2]
    places = {str(repository), str(Path.home()), sys.prefix, sys.base_prefix, tempfile.gettempdir()}
    return next((place for place in sorted(places) if len(place) > 4 and place + os.sep in shown), None)
