"""Runs a notebook's cells: Python, and what IPython lets a cell hold beside it, which no verdict needs."""

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
    try:
        code = compile(source, name, "exec")
    except SyntaxError:
        source = python_of(source)
        code = compile(source, name, "exec")
    finally:
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(code, vars(into))


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
