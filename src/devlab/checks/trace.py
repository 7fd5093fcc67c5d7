"""Where in the learner's own code an exception arose, as a notebook's reader would say it."""

import ast
import linecache
import sysconfig
import traceback
from pathlib import Path

from devlab.panel import notebook_shell

PACKAGE = Path(__file__).resolve().parents[1]
LOOPS = (ast.For, ast.While, ast.AsyncFor, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def where_raised(error: BaseException) -> str:
    """Return the innermost line of the learner's own code on the way to the error; "" if there is none.

    In a notebook it reads `Cell In[5], line 3: return x + y`; elsewhere the file's name stands for the
    cell. Lines of devlab, of installed packages and of Python itself are passed over.
    """
    frames = _frames(error)
    return _line(frames[-1].filename, frames[-1].lineno or 0) if frames else ""


def loops_around(error: BaseException) -> str:
    """Return the first line of each loop that was under way, the outermost first; "" for none."""
    frames = [(one.filename, one.lineno or 0) for one in _frames(error)]
    return "\n".join(_line(file, loop) for file, number in frames for loop in _loops(file, number))


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    return [frame for frame in traceback.extract_tb(error.__traceback__) if is_learners(frame.filename)]


def _line(filename: str, number: int) -> str:
    line = linecache.getline(filename, number).strip()
    return f"{place(filename)}, line {number}" + (f":  {line}" if line else "")


def _loops(filename: str, number: int) -> list[int]:
    """Return the lines that begin the loops around a line of a file, the outermost first."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:  # as a cell with a line for IPython alone has
        return []
    found = (one for one in ast.walk(tree) if isinstance(one, LOOPS))
    return sorted({one.lineno for one in found if one.lineno <= number <= one.end_lineno})


def is_learners(filename: str) -> bool:
    """Tell whether code of that file is the learner's, not devlab's, a package's or Python's.

    >>> is_learners(linecache.__file__)
    False
    """
    if filename.startswith("<frozen"):
        return False
    # Lessons are judged from inside the package, but a learner's project may well hold a copy of it.
    return not filename.startswith((str(PACKAGE), *INSTALLED))


def place(filename: str) -> str:
    """Return how a reader finds the file: the notebook's cell, or the file's name.

    >>> place("some/folder/answer.py")
    'answer.py'
    """
    shell = notebook_shell()
    named = shell.compile.format_code_name(filename) if shell else None
    return " ".join(named) if named else Path(filename).name
