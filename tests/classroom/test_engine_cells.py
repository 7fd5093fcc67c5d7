"""Cells as students leave them in a notebook: what IPython takes, devlab's grader takes."""

import json
import os
import subprocess
import sys

import pytest
import torch
from classroom.students import RIGHT

from devlab.classroom.engine import cells

ANSWER = RIGHT["device_of"]
INDENTED = "".join(f"    {line}\n" for line in ANSWER.splitlines())
# What stands beside an answer, by what it is.
LEFT = {
    "plain": ANSWER,
    "a magic": f"%who\n{ANSWER}",
    "a magic after it": f"{ANSWER}%timeit -n1 -r1 1 + 1\n",
    "a magic in a block": f"{ANSWER}if True:\n    %timeit -n1 -r1 1 + 1\n",
    "what a magic gave": f"took = %timeit -o -q -n1 -r1 1\n{ANSWER}",
    "a cell magic": f"%%time\n{ANSWER}",
    "a cell magic with options": f"\n%%capture --no-stderr said\n{ANSWER}",
    "a command": f"!true\n{ANSWER}",
    "what a command gave": f"files = !ls\n{ANSWER}",
    "a question": f"torch.Tensor.to?\n{ANSWER}",
    "a question for the source": f"torch.nn.Linear??\n{ANSWER}",
    "a question ahead": f"?torch.Tensor.to\n{ANSWER}",
    "a display": f"display(torch.ones(1))\n{ANSWER}",
    "the shell": f"get_ipython().run_line_magic('pwd', '')\n{ANSWER}",
    "prompts": "".join(
        f"{'...' if number else '>>>'} {line}\n" for number, line in enumerate(ANSWER.splitlines())
    ),
    "one indentation more": INDENTED,
    "a remainder on a line of its own": f"seven = (7\n% 8)\n{ANSWER}",
    "a text of many lines": f'text = """\n%s\n!\n"""\nassert text[1] == "%"\n{ANSWER}',
    "await": f"import asyncio\nawait asyncio.sleep(0)\n{ANSWER}",
    # These end early in IPython, too.
    "no Python": f"def (\n{ANSWER}",
    "an error before it": f"nothing\n{ANSWER}",
    "a return": f"return\n{ANSWER}",
    "a letter that cannot be seen": ANSWER.replace("    return", "\N{NO-BREAK SPACE}   return"),
}
IN_IPYTHON = """
import io, json, sys, contextlib, torch
from IPython.core.interactiveshell import InteractiveShell
shell, found = InteractiveShell.instance(), {}
for name, cell in json.load(sys.stdin).items():
    shell.user_ns.update(torch=torch, device_of=None)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        shell.run_cell(cell)
    found[name] = shell.user_ns["device_of"] is not None
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def in_ipython(tmp_path_factory) -> dict[str, bool]:
    """Run all cells in IPython's own shell; return which of them left an answer."""
    own = tmp_path_factory.mktemp("ipython")
    done = subprocess.run(
        [sys.executable, "-c", IN_IPYTHON],
        input=json.dumps(LEFT),
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"IPYTHONDIR": str(own), "PYTHONUTF8": "1"},
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", LEFT)
def test_an_answer_is_there_where_ipython_has_one(in_ipython, name):
    """What a student saw work is not lost to the grader, and what failed does not work here either."""
    notebook = cells.new_notebook()
    notebook.torch = torch
    try:
        cells.run_cell(LEFT[name], f"<{name}>", notebook)
    except Exception:
        assert not in_ipython[name]
    answer = vars(notebook).get("device_of")
    assert (answer is not None) == in_ipython[name]
    assert answer is None or str(answer(torch.ones(1))) == "cpu"


def test_what_a_cell_imports_from_the_future_holds_in_later_cells():
    """As in IPython: an annotation that names nothing is then asked by nobody; in another notebook it is."""
    notebook, annotated = cells.new_notebook(), ANSWER.replace("(x)", "(x: Tensor)")
    cells.run_cell("from __future__ import annotations", "<1>", notebook)
    cells.run_cell(annotated, "<2>", notebook)
    assert str(notebook.device_of(torch.ones(1))) == "cpu"
    with pytest.raises(NameError):
        cells.run_cell(annotated, "<2>", cells.new_notebook())
