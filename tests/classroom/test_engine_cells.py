"""Cells as students leave them in a notebook: what IPython takes, devlab's grader takes."""

import ast
import json
import os
import subprocess
import sys

import pytest
import torch
from classroom.students import RIGHT
from IPython.core.inputtransformer2 import TransformerManager

from devlab.shell import Shell, python_of

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


@pytest.fixture
def shell():
    """Return a shell, whose loop ends with the test."""
    made = Shell()
    yield made
    if made._loop:
        made._loop.close()


@pytest.mark.parametrize("name", LEFT)
def test_an_answer_is_there_where_ipython_has_one(in_ipython, name, shell):
    """What a student saw work is not lost to the grader, and what failed does not work here either."""
    shell.notebook.torch = torch
    try:
        shell.run(LEFT[name], f"<{name}>")
    except Exception:
        assert not in_ipython[name]
    answer = shell.user_ns.get("device_of")
    assert (answer is not None) == in_ipython[name]
    assert answer is None or str(answer(torch.ones(1))) == "cpu"


def test_what_a_cell_imports_from_the_future_holds_in_later_cells():
    """As in IPython: an annotation that names nothing is then asked by nobody; in another notebook it is."""
    shell, annotated = Shell(), ANSWER.replace("(x)", "(x: Tensor)")
    shell.run("from __future__ import annotations", "<1>")
    shell.run(annotated, "<2>")
    assert str(shell.notebook.device_of(torch.ones(1))) == "cpu"
    with pytest.raises(NameError):
        Shell().run(annotated, "<2>")


# Texts that IPython understands otherwise than Python, or that look so; and where its marks mean nothing.
TEXTS = [
    "%time\nx = 1",
    "%timeit -n 1 \\\n  sum(range(10))\ny = 2",
    "!ls -la \\\n   --color=never\nx = 1",
    "files = !ls\nn = len(files)",
    "here = %pwd",
    "x.y, z[0] = %timeit -o f(1)",
    "if True:\n    !ls\n    here = !pwd\n    %cd ..\nelse:\n    x?",
    "!!ls\n??\n?\ntorch.on*?\n%time?\nx = a.b??",
    "x = (7\n% 8)\n%pwd",
    "x = [\n    '?',\n    5\n    % 3]\n!ls",
    'text = """\n%s\n!ls\nwhat?\n"""\n%pwd',
    "text = 'a\\\n%s'\n%pwd",
    "y = 9 \\\n  % 4\n%pwd",
    "def f(x):\n    '''\n    %magic?\n    '''\n    return x  # why?\n%pwd",
    "f(a='%d', b=3)\nx = y == 3\n%pwd -l",
    "x: int = 3\nz = !echo 'a b' \"c\" {x} $x\n!echo it's",
    "# %pwd\n# what?\n%pwd  # no comment",
    "%%time\nx = 1\n!ls",
    "%%capture --no-stderr out\nprint(1)",
    "\n\n%%bash\nls",
    "%%time?\n",
    "    x = 1\n    %pwd",
    ">>> x = 1\n>>> %pwd\n... \n",
    "In [3]: x = 1\n   ...: y = !ls",
    ",f a b\n;f a b\n/f a b",
    "%pwd",
    "%",
    "x = 'unfinished\n%pwd",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_means_what_ipython_says(text):
    """The calls that a cell becomes are those of IPython's own rules."""
    theirs = TransformerManager().transform_cell(text)
    try:
        wanted = ast.dump(ast.parse(theirs))
    except SyntaxError:
        with pytest.raises(SyntaxError):
            ast.parse(python_of(text))
        return
    assert ast.dump(ast.parse(python_of(text))) == wanted


def test_values_are_those_of_a_notebook(tmp_path, monkeypatch, shell):
    """What magics and commands give, the last value, and tasks that go on from cell to cell."""
    monkeypatch.chdir(tmp_path)
    cells = [
        "%%writefile a.txt\none\ntwo",
        "files = !ls\nassert files == ['a.txt']\nname = files[0]",
        "lines = !cat {name}\nassert lines == ['one', 'two'] and lines.n == 'one\\ntwo'",
        "here = %pwd\nimport os\nassert here == os.getcwd()",
        "took = %timeit -o -n 2 -r 3 sum(range(9))\nassert took.loops == 2 and took.best > 0",
        "6 * 7",
        "assert _ == 42",
        "%%time\nseven = 7\nseven",
        "assert seven == 7 == _",
        "%%capture said\nprint('hello')",
        "assert said.stdout == 'hello\\n'",
        "x = %time 6 * 8\nassert x == 48",
        "import asyncio\nqueue = asyncio.Queue()\nasync def put():\n    await asyncio.sleep(0)\n"
        "    await queue.put(3)\ntask = asyncio.create_task(put())",
        "assert task.done()",
        "three = await queue.get()\nassert three == 3",
        "%env WORD=word\nassert os.environ['WORD'] == 'word'",
        "%matplotlib inline\n%load_ext autoreload\nget_ipython().ask_exit()",
    ]
    monkeypatch.setenv("WORD", "")
    for number, cell in enumerate(cells):
        shell.run(cell, f"<cell {number}>")
