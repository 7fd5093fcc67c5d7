"""Calling a learner's code: what it changed of its inputs, what it raised, and where."""

import ast
import contextlib
import inspect
import io
import linecache
import re
import sys
import sysconfig
import traceback
import types
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path

import numpy
import torch
from torch import nn

from devlab.checks.expect import Mismatch
from devlab.checks.time_limits import limited
from devlab.checks.values import UNCHANGING, copy_of, describe, describe_later, on_cpu
from devlab.panel import notebook_shell


class AnswerRaised(Exception):
    """The learner's code raised; `error` is its own exception, `assumed` as a Mismatch has it."""

    assumed = False

    def __init__(self, error: BaseException):
        super().__init__(str(error))
        self.error = error


class Call:
    """One call of a learner's code: how it reads in a verdict, and what it printed."""

    def __init__(self, label: str, arguments: Mapping[str, object]):
        self._label = label
        self._arguments = [(name, describe_later(value)) for name, value in arguments.items()]
        self.printed = ""
        self.after = ""  # the settings before the call, as a learner would write them

    @property
    def reads(self) -> str:
        """Return the call with its arguments as they were at the time of the call."""
        said = [later() if name.startswith("*") else f"{name}={later()}" for name, later in self._arguments]
        after = f"after {self.after}: " if self.after else ""
        return f"{after}{self._label}({', '.join(said)})"


def run(function: Callable, call: Call, args: tuple, kwargs: dict) -> object:
    """Run the learner's code and return what it returns.

    Raises AnswerRaised for any exception, which SystemExit counts among, and for what a simulated device will
    report at the next wait, without that wait; an interrupt passes through, and so does TooLong where the
    code does not end. What the code prints or warns is kept in `call`, not shown.
    """
    heard = io.StringIO()
    shown = sys.stdout, sys.stderr
    try:
        with warnings.catch_warnings():
            warnings.resetwarnings()  # `simplefilter` searches the list of filters: an empty list is quicker
            warnings.simplefilter("ignore")
            sys.stdout = sys.stderr = heard
            with limited():
                result = function(*args, **kwargs)
        if late := settle_devices():
            raise late
        return result
    except (Exception, SystemExit) as error:
        settle_devices()
        raise AnswerRaised(error) from error
    finally:
        sys.stdout, sys.stderr = shown
        call.printed = heard.getvalue()


def failure_of(error: BaseException):
    """Return what the simulator knows of an error that a device of its noticed; None of every other error.

    >>> failure_of(IndexError("index 7 is out of bounds"))
    """
    return getattr(error, "failure", None) if type(error) is torch.AcceleratorError else None


def settle_devices() -> Exception | None:
    """Return what a simulated device noticed, whether the host knows or not, and make it usable again.

    >>> settle_devices()
    """
    # Looked up, not imported: a simulator that is not loaded has nothing to tell.
    simulator = sys.modules.get("devlab.sim.assertions")
    return simulator.settle() if simulator else None


def require_parameters(function: Callable, signature: str, args: tuple) -> None:
    """Raise Mismatch where the function cannot take the arguments that the task gives it.

    >>> require_parameters(lambda x: x, "f(x)", (1,))
    """
    try:
        parameters = inspect.signature(function)
    except (TypeError, ValueError):  # built-in functions, among others, have no signature to read
        return
    try:
        parameters.bind(*args)
    except TypeError:
        name = getattr(function, "__name__", "the answer")
        raise Mismatch("the parameters are not those of the task", signature, f"{name}{parameters}") from None


def plain_function(answer: object) -> types.FunctionType | None:
    """Return the function in Python that a call of an answer runs first; None for what is built in.

    >>> plain_function(print)
    >>> plain_function(partial(describe)) is describe
    True
    """
    while isinstance(answer, partial):
        answer = answer.func
    answer = inspect.unwrap(getattr(answer, "__func__", answer))
    if not isinstance(answer, types.FunctionType | type):
        answer = getattr(type(answer), "__call__", None)  # noqa: B004
    return answer if isinstance(answer, types.FunctionType) else None


def name_inputs(function: Callable, args: tuple) -> dict[str, object]:
    """Return the arguments of a call under the function's names for them, `*0` and so on where it has none.

    >>> name_inputs(lambda x, *rest: x, (1, 2, 3))
    {'x': 1, '*0': 2, '*1': 3}
    """
    # A module is called as its `forward` is; nn.Module's own signature says nothing.
    runs = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        bound = inspect.signature(runs).bind(*args)
    except (TypeError, ValueError):
        return {f"*{position}": value for position, value in enumerate(args)}
    found = {}
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            found |= {f"*{place}": item for place, item in enumerate(value)}
        else:
            found[name] = value
    return found


class Snapshot:
    """What the inputs held before a call, to tell afterwards whether they came back untouched.

    `names` are what the function calls them, as `name_inputs` gives them.
    """

    def __init__(self, inputs: tuple, names: Iterable[str] = ()):
        self.names = tuple(names)
        self.before = [(path, leaf, _state(leaf)) for path, leaf in leaves(inputs)]
        self.kinds = kinds(inputs)

    def require_untouched(self, inputs: tuple) -> None:
        """Raise Mismatch where a value in the inputs was changed, replaced, added or removed."""
        self._require_in_place(leaves(inputs), kinds(inputs))
        for path, leaf, state in self.before:
            if state is not None and not _is_unchanged(leaf, state):
                got = describe(leaf) + _describe_new_grad(leaf, state)
                raise Mismatch(f"{self._where(path)} was changed in place", "the input as it came", got)

    def _require_in_place(self, after: list[tuple[str, object]], kinds: list[tuple[str, type]]) -> None:
        """Raise Mismatch where a container's item was replaced, removed or added."""
        for held, found in ((self.before, after), (self.kinds, kinds)):
            paths = [path for path, *_ in held], [path for path, _ in found]
            # Where two places differ, the earlier argument grew or shrank.
            if differ := next((set(pair) for pair in zip_longest(*paths) if len(set(pair)) > 1), None):
                where = self._where(f"[{min(map(_argument, differ - {None}))}]")
                raise Mismatch(f"{where} was changed", "the input as it came", "items added or removed")
        for (path, before), (_, now) in zip(self.kinds, kinds, strict=True):
            if now is not before:
                got = f"a {now.__name__} in its place"
                raise Mismatch(f"{self._where(path)} was replaced", f"the {before.__name__} as it came", got)
        for (path, leaf, _), (_, now) in zip(self.before, after, strict=True):
            if now is not leaf and not _alike(leaf, now):
                got = _another(leaf, now)
                raise Mismatch(f"{self._where(path)} was replaced", "the input as it came", got)

    def _where(self, path: str) -> str:
        """Return a place in the inputs as the learner's code calls it: the input `batch['x']`."""
        number, inside = _argument(path), path.partition("]")[2]
        name = self.names[number] if number < len(self.names) else "*"
        if name.startswith("*"):
            return f"the input at {inside}" if inside else "the input"
        return f"the input `{name}{inside}`"


def _argument(path: str) -> int:
    """Return which argument the first step of a path says."""
    return int(path[1:].partition("]")[0])


def _holds_others(value: object) -> bool:
    # `isinstance(tensor, Mapping)` is slow, and nearly every call is given a tensor.
    return type(value) is not torch.Tensor and isinstance(value, (list, tuple, Mapping))


def leaves(value: object, path: str = "") -> list[tuple[str, object]]:
    """Return every value in nested dicts, lists and tuples, each with the path that leads to it.

    >>> leaves({"x": [1, 2]})
    [("['x'][0]", 1), ("['x'][1]", 2)]
    """
    if not _holds_others(value):
        return [(path, value)]
    items = value.items() if isinstance(value, Mapping) else enumerate(value)
    return [found for key, item in items for found in leaves(item, f"{path}[{key!r}]")]


def _alike(before: object, now: object) -> bool:
    """Tell whether two objects are equal plain values, such as floats: replacing them changes nothing."""
    return type(before) is type(now) and type(now) in (*UNCHANGING, str) and before == now


def _another(before: object, now: object) -> str:
    """Describe what stands where another value stood, so that it never reads as if it were that value."""
    if not (isinstance(before, torch.Tensor) and isinstance(now, torch.Tensor)):
        return describe(now)
    cut = before.requires_grad and not now.requires_grad
    return f"another tensor{', without its graph' if cut else ''}: {describe(now)}"


def kinds(value: object, path: str = "") -> list[tuple[str, type]]:
    """Return the type of every container in nested dicts, lists and tuples, each with the path to it.

    >>> kinds([{"x": ()}])
    [('', <class 'list'>), ('[0]', <class 'dict'>), ("[0]['x']", <class 'tuple'>)]
    """
    if not _holds_others(value):
        return []
    items = value.items() if isinstance(value, Mapping) else enumerate(value)
    return [(path, type(value)), *(found for key, item in items for found in kinds(item, f"{path}[{key!r}]"))]


def _state(leaf: object) -> tuple | None:
    """Return a copy of what a tensor or an array holds, and its form."""
    if isinstance(leaf, torch.Tensor):
        return copy_of(leaf), *_form(leaf)
    if isinstance(leaf, numpy.ndarray):
        return leaf.tobytes(), leaf.dtype, leaf.shape, leaf.strides, leaf.flags.writeable
    return None


def _form(tensor: torch.Tensor) -> tuple:
    return tensor.device, tensor.requires_grad, tensor.stride(), tensor.shape, tensor.dtype


def _describe_new_grad(leaf: object, before: tuple) -> str:
    if isinstance(leaf, torch.Tensor) and leaf.requires_grad != before[2]:
        return f", requires_grad={leaf.requires_grad}"
    return ""


def _is_unchanged(leaf: object, before: tuple) -> bool:
    if not isinstance(leaf, torch.Tensor):
        return _state(leaf) == before
    held, *form = before
    if list(_form(leaf)) != form:
        return False
    holds, held = on_cpu(leaf), held.cpu()
    # NaN is not equal to itself, so tensors that hold NaN are compared once more without.
    return torch.equal(holds, held) or torch.equal(torch.nan_to_num(holds), torch.nan_to_num(held))


# These entries of a module's dict hold what is registered: `module.weight` is in `_parameters`.
REGISTERED = ("_parameters", "_buffers", "_modules")
# Values of these types hold nothing and are not walked: a module has twenty such attributes.
SIMPLE = frozenset({bool, int, float, str, type(None)})
CONTAINERS = frozenset({list, tuple, set, dict, OrderedDict})

# An object that is held, and the state of a tensor, which can change in place.
Held = tuple[object, tuple]


def holdings(value: object) -> dict[str, Held]:
    """Return what a module, list, tuple or dict holds, by dotted path; registered or not, tensor or not.

    >>> sorted(path for path in holdings(nn.Linear(2, 1)) if not path.startswith("_"))
    ['bias', 'in_features', 'out_features', 'training', 'weight']
    """
    found: dict[str, Held] = {}
    _gather(value, "", found, {id(value)})
    return found


def changed(before: Mapping[str, Held], value: object) -> str:
    """Return the path of the first thing that `value` no longer holds as `holdings` saw it; "" for none.

    >>> module = nn.Linear(2, 1)
    >>> before = holdings(module)
    >>> _ = module.eval()
    >>> changed(before, module)
    'training'
    """
    now = holdings(value)
    for path, (item, facts) in before.items():
        held = now.get(path)
        if held is None or held[0] is not item or held[1] != facts:
            return path
    return next((path for path in now if path not in before), "")


def _gather(value: object, path: str, found: dict[str, Held], walked: set[int]) -> None:
    for key, item in list_items(value):
        place = f"{path}{key}"
        if isinstance(item, torch.Tensor):
            tensors = {place: item, f"{place}.grad": item.grad if item.is_leaf else None}
            for name, one in tensors.items():
                if one is not None:
                    found[name] = one, (one.device, one.requires_grad, one.dtype, _bytes(one))
            continue
        found[place] = item, ()
        kind = type(item)
        if kind in SIMPLE or (kind in CONTAINERS and not item) or id(item) in walked:
            continue
        walked.add(id(item))  # an object that is held twice, or by itself, is walked once
        _gather(item, f"{place}.", found, walked)


def list_items(value: object) -> Iterable[tuple[object, object]]:
    """Return what a module, list, tuple or dict holds, with the keys; what a module registered is first.

    >>> [key for key, _ in list_items(nn.Linear(2, 1))][:2]
    ['weight', 'bias']
    """
    if isinstance(value, nn.Module):
        own = vars(value)
        registered = (item for key in REGISTERED for item in own.get(key, {}).items())
        return chain(registered, (item for item in own.items() if item[0] not in REGISTERED))
    if isinstance(value, (list, tuple)):
        return enumerate(value)
    return value.items() if isinstance(value, (dict, Mapping)) else ()


def _bytes(tensor: torch.Tensor) -> bytes:
    if tensor.is_meta:
        return b""
    whole = on_cpu(tensor).resolve_conj().resolve_neg().contiguous()
    return whole.reshape(-1).view(torch.uint8).numpy().tobytes()


PACKAGE = Path(__file__).resolve().parents[1]
LOOPS = (ast.For, ast.While, ast.AsyncFor, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})

PACKAGES = frozenset({"site-packages", "dist-packages"})


def where_raised(error: BaseException) -> str:
    """Return the innermost line of the learner's own code on the way to the error; "" if there is none.

    In a notebook it reads `Cell In[5], line 3: return x + y`; elsewhere the file's name stands for the
    cell. Lines of devlab, of installed packages and of Python itself are passed over. Of an error that a
    simulated device noticed it is the line that launched the work, and not the line that waited.
    """
    if failure := failure_of(error):
        return next((_line(*one) for one in failure.frames if is_learners(one[0])), "")
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

    >>> is_learners(linecache.__file__), is_learners("lib/site-packages/torch/_ops.py")
    (False, False)
    """
    if filename.startswith("<frozen"):
        return False
    # Lessons are judged from inside the package, though a learner's project may hold a copy of the package.
    if filename.startswith((str(PACKAGE), *INSTALLED)):
        return False
    # Packages may also come from the user's folder, or from the Python on which an environment was made.
    return PACKAGES.isdisjoint(Path(filename).parts)


def place(filename: str) -> str:
    """Return how a reader finds the file: the notebook's cell, or the file's name.

    >>> place("some/folder/answer.py")
    'answer.py'
    """
    shell = notebook_shell()
    named = shell.compile.format_code_name(filename) if shell else None
    if named and _latest and (number := _run_of(filename, shell, _latest[-1])):
        named = named[0], f"In[{number}]"
    return " ".join(named) if named else Path(filename).name


_latest: list[int] = []


@contextlib.contextmanager
def name_cells_as_in(error: BaseException) -> Iterator[int]:
    """Name each cell in a block by the run that an error came from, and give that run's number, 0 for none.

    IPython knows a text's last run alone.
    """
    frame = error.__traceback__.tb_frame if error.__traceback__ else None
    while frame is not None and frame.f_code.co_name != "run_code":
        frame = frame.f_back
    number = getattr(frame.f_locals.get("result"), "execution_count", None) if frame else None
    _latest.append(number or 0)
    try:
        yield _latest[-1]
    finally:
        _latest.pop()


def find_failed_cell(answer: object) -> str:
    """Say that an answer is an earlier version, where the cell that writes it anew has failed; else ""."""
    shell, name = notebook_shell(), getattr(answer, "__name__", "")
    methods = vars(answer).values() if isinstance(answer, type) else [answer]
    code = next((one.__code__ for one in map(plain_function, methods) if one), None)
    if not (shell and name and code):
        return ""
    raw = shell.history_manager.input_hist_raw
    writes = re.compile(rf"^(?:(?:async )?def |class ){re.escape(name)}\b|^({re.escape(name)}) *=", re.M)
    newest = next((n for n in range(len(raw) - 1, 0, -1) if writes.search(raw[n])), 0)
    own = _run_of(code.co_filename, shell, newest)
    if own in (0, newest) or writes.search(raw[newest])[1]:
        return ""
    return f"In[{newest}] writes {name} anew and has failed; this is your earlier version, from In[{own}]"


def _run_of(filename: str, shell, latest: int) -> int:
    """Return the last run, up to `latest`, of the cell that IPython compiled under a name; 0 for none."""
    raw, cells = shell.history_manager.input_hist_raw, shell.history_manager.input_hist_parsed
    runs = range(min(latest, len(raw) - 1, len(cells) - 1), 0, -1)
    return next((n for n in runs if shell.compile.get_code_name(raw[n], cells[n], n) == filename), 0)
