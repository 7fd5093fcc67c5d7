"""nbgrader's execution with a process forked for each notebook in the place of a kernel.

`nbgrader autograde` spends most of its time on kernels that import PyTorch. All else is nbgrader's own: what
it does to cells before, which of them it runs, and what it reads from the outputs.
"""

import json
import os

import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbformat.v4 import new_output
from nbgrader.preprocessors import NbGraderPreprocessor

import devlab.lessons.lesson_05_buffers
import devlab.sim

SECONDS = 60  # for a notebook


class ForkedExecute(NbGraderPreprocessor):
    """Runs a notebook's code cells as IPython does, whatever they raise."""

    def preprocess(self, nb, resources):
        """Return the notebook with what a check's cell shows: its value, or its error."""
        torch.set_num_threads(1)
        cells = [cell for cell in nb.cells if cell.cell_type == "code"]
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _run([cell.source for cell in cells], writing)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as stream:
            shown = json.loads(stream.read() or "[]")
        os.waitpid(child, 0)
        for cell, outputs in zip(cells, shown, strict=False):
            cell.outputs = [new_output(kind, **facts) for kind, facts in outputs]
        return nb, resources


def _run(sources: list[str], writing: int) -> None:
    """Run cells and write what each shows; never returns."""
    import signal

    try:
        devlab.sim.allow_after_fork()
        signal.alarm(SECONDS)
        shell = InteractiveShell.instance()
        shown = [_outputs(shell, source) for source in sources]
        with os.fdopen(writing, "w", encoding="utf-8") as stream:
            stream.write(json.dumps(shown))
    finally:
        os._exit(0)


def _outputs(shell: InteractiveShell, source: str) -> list:
    with capture_output() as captured:
        ended = shell.run_cell(source, store_history=True)
    outputs = []
    if captured.stderr:
        outputs.append(("stream", {"name": "stderr", "text": captured.stderr}))
    if error := ended.error_before_exec or ended.error_in_exec:
        facts = {"ename": type(error).__name__, "evalue": str(error), "traceback": []}
        outputs.append(("error", facts))
    elif ended.result is not None:
        data = {"text/plain": repr(ended.result)}
        outputs.append(("execute_result", {"data": data, "execution_count": 1}))
    return outputs
