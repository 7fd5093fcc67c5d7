"""Where in the learner's own code an exception arose, as a notebook's reader would say it."""

import linecache
import sysconfig
import traceback
from pathlib import Path

from devlab.panel import notebook_shell

PACKAGE = Path(__file__).resolve().parents[1]
INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def where_raised(error: BaseException) -> str:
    """Return the innermost line of the learner's own code on the way to the error; "" if there is none.

    In a notebook it reads `Cell In[5], line 3: return x + y`; elsewhere the file's name stands for the
    cell. Lines of devlab, of installed packages and of Python itself are passed over.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_learners(frame.filename)]
    if not frames:
        return ""
    last = frames[-1]
    line = (last.line or linecache.getline(last.filename, last.lineno or 0)).strip()
    return f"{place(last.filename)}, line {last.lineno}" + (f":  {line}" if line else "")


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
