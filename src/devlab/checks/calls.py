"""Calling a learner's code: inputs watched for changes, its own exceptions told from ours."""

import contextlib
import inspect
import io
import warnings
from collections.abc import Callable, Mapping

import numpy
import torch

from devlab.checks.describe import describe
from devlab.checks.expect import Mismatch

STUB = "your code here"


class NotAttempted(Exception):
    """The answer is still the stub."""


class AnswerRaised(Exception):
    """The learner's code raised; `error` is its own exception."""

    def __init__(self, error: BaseException):
        super().__init__(str(error))
        self.error = error


class Call:
    """One call of a learner's code: how it reads in a verdict, and what it printed."""

    def __init__(self, label: str, arguments: Mapping[str, object]):
        self.reads = f"{label}({_arguments(arguments)})"
        self.printed = ""


def run(function: Callable, call: Call, args: tuple, kwargs: dict) -> object:
    """Run the learner's code and return what it returns.

    Raises NotAttempted for the stub, AnswerRaised for any other exception, which SystemExit counts
    among; an interrupt passes through. What the code prints or warns is kept in `call`, not shown.
    """
    heard = io.StringIO()
    try:
        with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs)
    except NotImplementedError as error:
        if error.args in ((), (STUB,)):
            raise NotAttempted from None
        raise AnswerRaised(error) from error
    except (Exception, SystemExit) as error:
        raise AnswerRaised(error) from error
    finally:
        call.printed = heard.getvalue()


def require_parameters(function: Callable, signature: str, args: tuple, kwargs: dict) -> None:
    """Raise Mismatch where the function cannot take the arguments that the task gives it.

    >>> require_parameters(lambda x: x, "f(x)", (1,), {})
    """
    try:
        parameters = inspect.signature(function)
    except (TypeError, ValueError):  # some callables, such as built-in ones, have no signature to read
        return
    try:
        parameters.bind(*args, **kwargs)
    except TypeError:
        name = getattr(function, "__name__", "the answer")
        raise Mismatch("the parameters are not those of the task", signature, f"{name}{parameters}") from None


class Snapshot:
    """What the inputs held before a call, to tell afterwards whether they came back untouched."""

    def __init__(self, inputs: tuple):
        self.before = [(path, leaf, _state(leaf)) for path, leaf in leaves(inputs)]

    def require_untouched(self, inputs: tuple) -> None:
        """Raise Mismatch where a value in the inputs was changed, replaced, added or removed."""
        after = dict(leaves(inputs))
        if list(after) != [path for path, _, _ in self.before]:
            raise Mismatch("the input was changed", "the input as it came", "items added or removed")
        for path, leaf, state in self.before:
            # The first step of the path only says which argument it is.
            where = "the input" + path.partition("]")[2]
            if after[path] is not leaf:
                raise Mismatch(f"{where} was replaced", "the input as it came", describe(after[path]))
            if not _same(_state(leaf), state):
                got = describe(leaf) + _marked(leaf, state)
                raise Mismatch(f"{where} was changed in place", "the input as it came", got)


def leaves(value: object, path: str = "") -> list[tuple[str, object]]:
    """Return every value in nested dicts, lists and tuples, each with the path that leads to it.

    >>> leaves({"x": [1, 2]})
    [("['x'][0]", 1), ("['x'][1]", 2)]
    """
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    else:
        return [(path, value)]
    return [found for key, item in items for found in leaves(item, f"{path}[{key!r}]")]


def _state(leaf: object) -> tuple | None:
    if isinstance(leaf, numpy.ndarray):
        return leaf.tobytes(), leaf.dtype, leaf.shape, leaf.strides, leaf.flags.writeable
    if isinstance(leaf, torch.Tensor):
        return leaf.detach().clone(), leaf.device, leaf.requires_grad, leaf.stride()
    return None


def _marked(leaf: object, before: tuple | None) -> str:
    if isinstance(leaf, torch.Tensor) and before and leaf.requires_grad != before[2]:
        return f", requires_grad={leaf.requires_grad}"
    return ""


def _same(one: tuple | None, other: tuple | None) -> bool:
    if one is None or not isinstance(one[0], torch.Tensor):
        return one == other
    if one[1:] != other[1:] or one[0].shape != other[0].shape or one[0].dtype != other[0].dtype:
        return False
    return torch.equal(*(torch.nan_to_num(state[0].cpu()) for state in (one, other)))


def _arguments(arguments: Mapping[str, object]) -> str:
    return ", ".join(
        describe(value) if name.startswith("*") else f"{name}={describe(value)}"
        for name, value in arguments.items()
    )
