"""The placeholder of an answer: whether nothing else was written, and where it still stands."""

import dis
import functools
import inspect
import json
import traceback
import types

from torch import nn

from devlab import carried
from devlab.checks.calls import is_learners
from devlab.checks.exercise import find

STUB = "your code here"
# The instructions of a function that does nothing and returns None.
IDLE = frozenset(
    {"RESUME", "NOP", "COPY_FREE_VARS", "MAKE_CELL", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE"}
)


Codes = dict[str, types.CodeType]


def _empty():
    """As a function of the notebooks is before anything is written into it."""
    raise NotImplementedError("your code here")


class _Empty(nn.Module):
    def __init__(self):
        """As the first method of a module is handed out."""
        super().__init__()
        raise NotImplementedError("your code here")


def is_blank(answer: object) -> bool:
    """Tell whether nothing was written: the placeholder alone, or no more than a docstring, `pass` or `...`.

    A class is blank where each of its methods is, as it is handed out.

    >>> def later(x):
    ...     '''Do it tomorrow.'''
    >>> is_blank(later)
    True
    """
    if isinstance(answer, type):
        own = [one for name, one in vars(answer).items() if not _is_pythons(name, one)]
        return bool(own) and all(map(is_blank, own))
    function = inspect.unwrap(answer) if callable(answer) else answer
    if not inspect.isfunction(function):
        return False
    if any(_same(function, one) for one in (_empty, _Empty.__init__)):
        return True  # without a call, which takes `ddp_gradients` seconds
    returned = []
    for step in dis.get_instructions(function):
        if step.opname not in IDLE:
            return False  # usually after a few steps, for to read all of an answer takes long
        if step.opname in ("LOAD_CONST", "RETURN_CONST"):
            returned.append(step.argval)
    return returned == [None]


def _is_pythons(name: str, value: object) -> bool:
    """Tell whether Python, not the learner, put an attribute into a class."""
    return name.startswith("__") and not inspect.isfunction(value)


def _same(function: types.FunctionType, empty: types.FunctionType) -> bool:
    """Tell whether two functions do the same; their docstrings are not compared."""
    code, other = function.__code__, empty.__code__
    return (code.co_code, code.co_names) == (other.co_code, other.co_names) and STUB in code.co_consts


def is_placeholder(error: BaseException) -> bool:
    """Tell whether an exception is the placeholder's: with its words, or with none in the learner's own line.

    >>> is_placeholder(NotImplementedError("your code here")), is_placeholder(NotImplementedError("sparse"))
    (True, False)
    """
    if type(error) is not NotImplementedError:
        return False
    return error.args == (STUB,) or (not error.args and bool(holder(error)))


def holder(error: BaseException) -> str:
    """Return the name of the learner's function in which an exception was raised; "" for any other's."""
    code = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
    learners = code is not None and is_learners(code.co_filename)
    return code.co_qualname.rpartition("<locals>.")[2] if learners else ""


def is_printed(name: str, answer: object) -> bool:
    """Tell whether an answer is what a notebook of the course prints: a program to mend, a demonstration.

    A learner who runs that cell has tried nothing yet. False where the installation carries no notebooks.
    """
    own = _own(answer)
    return bool(own) and any(_alike(own, printed) for printed in _printed_codes(name))


def _own(answer: object) -> Codes:
    """Return the code of a function, or of each method of a class, by name."""
    functions = vars(answer).values() if isinstance(answer, type) else [answer]
    plain = [inspect.unwrap(one) for one in functions if inspect.isfunction(one)]
    return {one.__code__.co_name: one.__code__ for one in plain}


def _alike(own: Codes, printed: Codes) -> bool:
    return own.keys() == printed.keys() and all(_equal(own[name], printed[name]) for name in own)


@functools.cache
def _printed_codes(name: str) -> list[Codes]:
    """Return the code of each function or class of this name that the notebooks of its lesson define."""
    found, exercise = [], find(name)
    files = [one for kind in ("lessons", "exercises") for one in carried.files(kind)]
    for path in (one for one in files if exercise and one.name.startswith(exercise.lesson)):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "code" and (f"def {name}(" in source or f"class {name}" in source):
                found += [_codes(code) for code in _inside(_compile(source)) if code.co_name == name]
    return found


def _compile(source: str) -> types.CodeType:
    try:
        return compile(source, "<cell>", "exec", dont_inherit=True)
    except SyntaxError:  # a line for IPython alone
        return compile("", "<cell>", "exec")


def _inside(code: types.CodeType) -> list[types.CodeType]:
    return [one for one in code.co_consts if isinstance(one, types.CodeType)]


def _codes(code: types.CodeType) -> Codes:
    """Return the code of a function, or of each method where the code is a class's body."""
    is_function = code.co_flags & inspect.CO_NEWLOCALS
    methods = [one for one in _inside(code) if one.co_flags & inspect.CO_NEWLOCALS]
    return {one.co_name: one for one in ([code] if is_function else methods)}


def _equal(one: types.CodeType, other: types.CodeType) -> bool:
    """Tell whether two functions do the same by the same code, wherever each was written."""
    facts = ("co_code", "co_names", "co_varnames", "co_freevars", "co_argcount")
    if any(getattr(one, fact) != getattr(other, fact) for fact in facts):
        return False
    same_count = len(one.co_consts) == len(other.co_consts)
    return same_count and all(map(_equal_constants, one.co_consts, other.co_consts))


def _equal_constants(one: object, other: object) -> bool:
    both = isinstance(one, types.CodeType) and isinstance(other, types.CodeType)
    return _equal(one, other) if both else (type(one), one) == (type(other), other)
