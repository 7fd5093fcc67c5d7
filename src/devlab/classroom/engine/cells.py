"""Runs a notebook's cells: Python, and what IPython lets a cell hold beside it, which no verdict needs."""

import __future__

import ast
import asyncio
import inspect
import linecache
import re
import textwrap
import types

# A line for IPython alone: a magic, a command of the shell or a question; and a name that is set by one.
_ASIDE = re.compile(r"^(\s*)(?:[%!?].*|[\w.]+\?\??\s*)$")
_ASSIGNED = re.compile(r"^(\s*[\w., ]+=)\s*[%!].*$")
# What stands before lines that were copied from an interpreter.
_PROMPT = re.compile(r"^(?:>>> ?|\.\.\. ?|In \[\d+\]: ?|\s*\.\.\.: ?)")


class Shell:
    """Stands for IPython's shell: whatever a cell asks of it, nothing is done."""

    def __getattr__(self, name: str):
        return lambda *_, **__: None


def notebook() -> types.ModuleType:
    """Return an empty notebook, with the two names that IPython puts into each."""
    made, shell = types.ModuleType("__main__"), Shell()
    made.get_ipython = lambda: shell
    made.display = lambda *_, **__: None
    return made


def run(source: str, name: str, into: types.ModuleType) -> None:
    """Run a cell in a notebook; `name` is what tracebacks call it."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | _future(into)
    try:
        code = compile(source, name, "exec", flags, dont_inherit=True)
    except SyntaxError:
        source = python_of(source)
        code = compile(source, name, "exec", flags, dont_inherit=True)
    finally:
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    awaited = eval(code, vars(into))
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(awaited)


def _future(notebook: types.ModuleType) -> int:
    """Return the flags for what earlier cells imported from `__future__`, which holds on in a notebook."""
    flags = 0
    for value in list(vars(notebook).values()):
        flags |= value.compiler_flag if type(value) is __future__._Feature else 0
    return flags


def python_of(source: str) -> str:
    """Return a cell with nothing, line by line, in the place of what only IPython understands.

    >>> print(python_of("%matplotlib inline\\nfiles = !ls\\ntorch.ones?\\nx = 1"))
    pass
    files = None
    pass
    x = 1
    """
    lines = textwrap.dedent(source).split("\n")
    if _PROMPT.match(next((line for line in lines if line.strip()), "")):
        lines = [_PROMPT.sub("", line) for line in lines]
    return "\n".join(_ASSIGNED.sub(r"\1 None", _ASIDE.sub(r"\1pass", line)) for line in lines)
