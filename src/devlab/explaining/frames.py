"""The frames of a traceback, and their source as trees, in which expressions are looked up and never run."""

import ast
import builtins
import contextlib
import functools
import inspect
import linecache
import types
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

import torch

from devlab.checks.calls import PACKAGE, is_learners, place

MISSING = type("Missing", (), {"__repr__": lambda self: "MISSING"})()
_SAME_PLACE = frozenset({"T", "mT", "H", "mH", "data", "real", "imag"})
_NN_CONTAINERS = ("ModuleList", "ModuleDict", "Sequential", "ParameterList", "ParameterDict")
_CONTAINERS = (list, tuple, dict, *(getattr(torch.nn, name) for name in _NN_CONTAINERS))
# A key of any other type might run a hash of the learner's own.
_KEYS = (str, int, float, slice, torch.Tensor, torch.device, torch.dtype)


def attribute(owner: object, name: str) -> object:
    """Return an attribute that can be read without running code, or MISSING.

    >>> attribute(torch.nn.Linear(2, 1), "bias").shape
    torch.Size([1])
    """
    if isinstance(owner, torch.Tensor):
        if name in _SAME_PLACE:
            return owner
        return getattr(owner, name) if name in ("device", "dtype", "shape", "grad", "is_cuda") else MISSING
    if isinstance(owner, torch.nn.Module):
        for table in registered(owner):
            if name in table:
                return table[name]
    if isinstance(owner, types.ModuleType):
        return vars(owner).get(name, MISSING)
    if isinstance(owner, torch.device):
        return getattr(owner, name, MISSING)
    found = inspect.getattr_static(owner, name, MISSING)
    if isinstance(found, types.FunctionType) and not isinstance(owner, type):
        return types.MethodType(found, owner)
    if isinstance(found, staticmethod):
        return found.__func__
    if isinstance(found, types.MemberDescriptorType) or type(found).__name__ == "_tuplegetter":
        return getattr(owner, name, MISSING)
    if hasattr(type(found), "__get__"):
        return getattr(owner, "__dict__", {}).get(name, MISSING)
    return found


def registered(module: torch.nn.Module) -> tuple[dict, dict, dict]:
    """Return what a module registered itself: its parameters, buffers and submodules, by name."""
    try:
        return (
            dict(module.named_parameters(recurse=False, remove_duplicate=False)),
            dict(module.named_buffers(recurse=False, remove_duplicate=False)),
            dict(module.named_children()),
        )
    except Exception:  # a module whose own __init__ has not run to its end
        return {}, {}, {}


def element(container: object, key: object) -> object:
    """Return an element of a list, tuple, mapping or module list, or MISSING.

    >>> element({"x": 3}, "x")
    3
    """
    if not isinstance(key, _KEYS) or not isinstance(container, _CONTAINERS):
        return MISSING
    try:
        if isinstance(container, dict):
            return dict.get(container, key, MISSING)  # a defaultdict would make what is not there
        if isinstance(container, list | tuple):
            return (list if isinstance(container, list) else tuple).__getitem__(container, key)
        return container[key]
    except Exception:  # the key may be what was wrong
        return MISSING


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_FILLERS = frozenset({"append", "add", "insert", "extend", "appendleft", "setdefault", "update"})


@dataclass(frozen=True)
class Write:
    """One place that gives a name a value: the statement, the expression, and in what manner.

    `how` is "assign", "part" (one of several, at `position`), "each" (an element of a loop's iterable),
    "item" (an element put into a container) or "with".
    """

    statement: ast.AST
    value: ast.expr
    how: str
    position: int = -1
    key: ast.expr | None = None

    @property
    def line(self) -> int:
        """Return the line on which the statement begins."""
        return self.statement.lineno


class Source:
    """A parsed file or notebook cell."""

    def __init__(self, filename: str, text: str):
        self.filename = filename
        self.text = text
        self.lines = text.splitlines()
        self.tree = ast.parse(text)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def segment(self, node: ast.AST) -> str:
        """Return the text of a node on one line."""
        if node not in self.parents and node is not self.tree:  # parsed from elsewhere
            return ast.unparse(node)
        return " ".join((ast.get_source_segment(self.text, node) or ast.unparse(node)).split())

    def enclosing(self, node: ast.AST, kinds: tuple) -> ast.AST | None:
        """Return the nearest node of one of the kinds around a node."""
        node = self.parents.get(node)
        while node is not None and not isinstance(node, kinds):
            node = self.parents.get(node)
        return node

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the statement that a node belongs to."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def function(self, code: CodeType) -> ast.AST:
        """Return the function that a code object was compiled from; the whole file for a module's code."""
        first = code.co_firstlineno
        for node in self.parents:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
                if first == min([node.lineno, *(d.lineno for d in node.decorator_list)]):
                    return node
            elif isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == first:
                names = [argument.arg for argument in parameters(node)]
                if tuple(names) == code.co_varnames[: len(names)]:
                    return node
        return self.tree

    def failing(self, code: CodeType, instruction: int) -> ast.AST | None:
        """Return the expression or statement that an instruction of a code object was compiled from.

        IPython's `executing` finds no node for 32 of 1,370 frames of the tests' programs, where this method
        finds all: 27 `raise` statements, four calls, a comparison. The other 1,338 nodes are the same.
        """
        positions = next((p for i, p in enumerate(code.co_positions()) if i == instruction // 2), (None,) * 4)
        if None in positions:
            return None
        line, end_line, column, end_column = positions
        ended = (n for n in self.parents if getattr(n, "end_lineno", None) == end_line)
        found = [n for n in ended if n.end_col_offset == end_column]
        exact = [n for n in found if (n.lineno, n.col_offset) == (line, column)]
        # Newer Pythons place a call on a chain's last line from the method's name on.
        wider = [n for n in found if isinstance(n, ast.Call) and (n.lineno, n.col_offset) <= (line, column)]
        return (exact or wider or [None])[-1]


@functools.lru_cache(maxsize=128)
def _parsed(filename: str, text: str) -> Source | None:
    try:
        return Source(filename, text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def source_of(filename: str) -> Source | None:
    """Return a file's or a notebook cell's source, or None where there is none to read."""
    text = "".join(linecache.getlines(filename))
    return _parsed(filename, text) if text else None


def parameters(function: ast.AST) -> list[ast.arg]:
    """Return a function's parameters in the order of `co_varnames`."""
    if not isinstance(function, FUNCTIONS):
        return []
    a = function.args
    return [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Walk a function's own nodes in the order of the text, leaving out functions and classes inside it."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            yield from own_nodes(child)


def writes(function: ast.AST, text: str) -> list[Write]:
    """Return every place in a function's own code that gives `text`, a name or `self.name`, a value.

    >>> tree = ast.parse("x, y = batch\\nx = x + 1")
    >>> [(write.how, write.line) for write in writes(tree, "x")]
    [('part', 1), ('assign', 2)]
    """
    return [write for node in own_nodes(function) for write in _writes_of(node, text)]


def _writes_of(node: ast.AST, text: str) -> Iterator[Write]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _targets(node, target, node.value, text)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield from _targets(node, node.target, node.value, text)
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        place = node if isinstance(node, ast.stmt) else node.target
        for write in _targets(place, node.target, node.iter, text):
            yield Write(place, node.iter, "each", write.position)
    elif isinstance(node, ast.With):
        for item in node.items:
            if item.optional_vars is not None and ast.unparse(item.optional_vars) == text:
                yield Write(node, item.context_expr, "with")
    elif _fills(node) and ast.unparse(node.func.value) == text:
        yield Write(node, node.args[-1], "item", key=node.args[0] if len(node.args) > 1 else None)


def called_name(call: ast.Call) -> str:
    """Return the last name of what is called: `cat` in `torch.cat(x)`; "" for no name.

    >>> called_name(ast.parse("torch.cat(x)").body[0].value)
    'cat'
    """
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _fills(node: ast.AST) -> bool:
    """Tell whether a node is a call such as `cache.append(x)`."""
    return isinstance(node, ast.Call) and bool(node.args) and getattr(node.func, "attr", "") in _FILLERS


def _targets(statement: ast.AST, target: ast.expr, value: ast.expr, text: str) -> Iterator[Write]:
    if isinstance(target, ast.Tuple | ast.List):
        for position, element in enumerate(target.elts):
            if isinstance(element, ast.Starred):
                element = element.value
            whole = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            for write in _targets(statement, element, value.elts[position] if whole else value, text):
                how = "part" if write.how == "assign" and not whole else write.how
                yield Write(statement, write.value, how, write.position if whole else position)
    elif isinstance(target, ast.Subscript) and ast.unparse(target.value) == text:
        yield Write(statement, value, "item", key=target.slice)
    elif ast.unparse(target) == text:
        yield Write(statement, value, "assign")


TORCH = str(torch.__path__[0])


@dataclass(eq=False)
class Scope:
    """One function's names and values: of a frame in the traceback, or of a function that has returned.

    `failing` is the expression that a frame was at. `mine` says whether the code is the learner's own.
    """

    name: str
    filename: str
    line: int
    source: Source | None
    node: ast.AST | None
    values: dict
    globals: dict
    failing: ast.AST | None = None
    caller: "Scope | None" = None
    call: ast.AST | None = None
    mine: bool = True
    free: tuple = ()
    function: object = None
    names: tuple = ()

    def where(self, line: int | None = None) -> str:
        """Return the place as a reader finds it: the cell or file, and the line."""
        return f"{place(self.filename)}, line {line or self.line}"

    def text(self, node: ast.AST) -> str:
        """Return the source text of a node."""
        return self.source.segment(node) if self.source else ast.unparse(node)

    def parameters(self) -> list[str]:
        """Return the names of the function's parameters."""
        return [argument.arg for argument in parameters(self.node)]

    def is_local(self, name: str) -> bool:
        """Tell whether the name is given its value in this function, or is one of its parameters."""
        if name in self.free or self.node is None:
            return False
        return name in self.parameters() or bool(writes(self.node, name))

    def lookup(self, name: str) -> object:
        """Return the value of a name, or MISSING."""
        for table in (self.values, self.globals, vars(builtins)):
            if name in table:
                return table[name]
        return MISSING

    def writes_before(self, text: str, line: int) -> list[Write]:
        """Return the places before a line that gave a name its value, the last one first."""
        found = writes(self.node, text) if self.node is not None else []
        before = [w for w in found if w.how != "item" and w.line < line]
        return sorted(before, key=lambda w: -w.line)

    def write_before(self, text: str, line: int) -> Write | None:
        """Return the last place before a line that gave a name its value."""
        return next(iter(self.writes_before(text, line)), None)

    def evaluate(self, node: ast.AST) -> object:
        """Return the value of names, attributes and elements without running anyone's code, or MISSING.

        IPython's `pure_eval` gives no value for 158 of 5,905 expressions of the tests' programs that this
        method reads, and raises an error for others: PyTorch's modules keep their parameters out of reach.
        """
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            value = self.lookup(node.id)
            if value is MISSING and self.function is not None and (passed := argument_for(self, node.id)):
                return passed[1].evaluate(passed[0])
            return value
        if isinstance(node, ast.Attribute):
            owner = self.evaluate(node.value)
            return MISSING if owner is MISSING else attribute(owner, node.attr)
        if isinstance(node, ast.Subscript):
            return element(self.evaluate(node.value), self.evaluate(node.slice))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.evaluate(node.operand)
            return -value if type(value) in (int, float) else MISSING
        if isinstance(node, ast.Call) and self.evaluate(node.func) is torch.device:
            values = [self.evaluate(argument) for argument in node.args]
            return torch.device(*values) if values and MISSING not in values else MISSING
        return MISSING


def in_torch(scope: Scope) -> bool:
    """Tell whether a scope's code is PyTorch's own."""
    return scope.filename.startswith(TORCH)


def called(function: object, caller: Scope, call: ast.Call) -> Scope | None:
    """Return the scope of a Python function that was called and has returned, its arguments unknown."""
    bound = function.__self__ if isinstance(function, types.MethodType) else None
    function = function.__func__ if isinstance(function, types.MethodType) else function
    if isinstance(function, torch.nn.Module):
        bound, function = function, type(function).forward
    function = inspect.unwrap(function) if callable(function) else function
    if not isinstance(function, types.FunctionType):
        return None
    code = function.__code__
    source = source_of(code.co_filename)
    if source is None:
        return None
    values = dict(captured(function))
    node = source.function(code)
    names = [argument.arg for argument in parameters(node)]
    if bound is not None and names:
        values[names[0]] = bound
    return Scope(
        name=code.co_name,
        filename=code.co_filename,
        line=getattr(node, "end_lineno", 0) or 0,
        source=source,
        node=node,
        values=values,
        globals=function.__globals__,
        caller=caller,
        call=call,
        mine=is_learners(code.co_filename),
        free=code.co_freevars,
        function=function,
        names=code.co_names,
    )


def captured(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    """Yield the names that a function took from the function around it, with their values."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # a name that has no value yet
            yield name, cell.cell_contents


def same_as_passed(scope: Scope, name: str) -> tuple[ast.expr, Scope] | None:
    """Return what a caller passed for a parameter, if that very object is still the parameter's value."""
    caller = scope.caller
    call = scope.call or (caller.failing if caller else None)
    value = scope.values.get(name, MISSING)
    if caller is None or not isinstance(value, torch.Tensor | torch.nn.Module | list | tuple | dict):
        return None
    return _passed_as(value, caller, call)


def argument_for(scope: Scope, name: str) -> tuple[ast.expr, Scope] | None:
    """Return the expression that a caller passed for a parameter, with the caller's scope."""
    caller = scope.caller
    call = scope.call or (caller.failing if caller else None)
    if caller is None or not isinstance(call, ast.Call):
        return None
    if found := same_as_passed(scope, name):
        return found
    if handed_on(scope, name):
        return None
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value, caller
    a = getattr(scope.node, "args", None)
    positional = [p.arg for p in (*a.posonlyargs, *a.args)] if a else []
    if name not in positional or any(isinstance(p, ast.Starred) for p in call.args):
        return None
    place = positional.index(name)
    if positional and positional[0] in ("self", "cls", "ctx"):
        place -= 1
    function = caller.evaluate(call.func)
    if isinstance(function, functools.partial):
        place -= len(function.args)
    return (call.args[place], caller) if 0 <= place < len(call.args) else None


def handed_on(scope: Scope, name: str) -> bool:
    """Tell whether an `nn.Sequential` has already given the name the result of one of its modules."""
    values = (scope.values.get("self"), scope.values.get("module"))
    if not isinstance(values[0], torch.nn.Sequential) or name not in scope.parameters():
        return False
    return len(values[0]) > 0 and values[1] is not values[0][0]


def _passed_as(value: object, caller: Scope, call: ast.Call) -> tuple[ast.expr, Scope] | None:
    """Find the expression that passed an object, through functions that only hand on `*args` too."""
    while isinstance(call, ast.Call):
        for expression in passed(call):
            if caller.evaluate(expression) is value:
                return expression, caller
        handed_on = any(isinstance(a, ast.Starred) for a in call.args) or any(
            not k.arg for k in call.keywords
        )
        if not handed_on or caller.caller is None:
            return None
        caller, call = caller.caller, caller.caller.failing
    return None


def passed(call: ast.Call) -> Iterator[ast.expr]:
    """Yield the expressions passed to a call, those inside literal lists and tuples too."""
    for value in (*call.args, *(keyword.value for keyword in call.keywords)):
        yield from elements(value)


def elements(node: ast.expr) -> Iterator[ast.expr]:
    """Yield an expression, or what a literal list, tuple or starred one holds."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        for inner in node.elts:
            yield from elements(inner)
    elif isinstance(node, ast.Starred):
        yield from elements(node.value)
    else:
        yield node


# PyTorch's compiler, whose values are not the program's.
_COMPILER = tuple(f"{TORCH}/{part}" for part in ("_dynamo", "_inductor", "fx"))
# PyTorch's functions that only pass a call on.
_CALLING = ("__torch_function__", "handle_torch_function", "_call_impl", "_wrapped_call_impl")
_RELAYS = (*_CALLING, "wrapper", "_use_grad", "maybe_fallback", "decorate_context", "fn")


def scopes_of(error: BaseException) -> list[Scope]:
    """Return the traceback's frames as scopes, outermost first, without devlab's own and PyTorch's relays."""
    scopes: list[Scope] = []
    entry = error.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        relay = code.co_filename.startswith(TORCH) and code.co_name in _RELAYS
        compiling = code.co_filename.startswith(_COMPILER)
        if not relay and not compiling and not code.co_filename.startswith(str(PACKAGE)):
            scopes.append(_scope(entry, scopes[-1] if scopes else None))
        entry = entry.tb_next
    return scopes


def _locals(frame: types.FrameType) -> dict:
    """Return a copy of a frame's variables.

    Before Python 3.13 a function's frame keeps what `f_locals` once gave. An error in it would keep its
    traceback alive, and with it the memory of a device that was full, until the function returns.
    """
    kept = frame.f_locals
    values = dict(kept)
    if type(kept) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        for name in [name for name, value in values.items() if isinstance(value, BaseException)]:
            del kept[name]
    return values


def _scope(entry: types.TracebackType, caller: Scope | None) -> Scope:
    frame = entry.tb_frame
    code = frame.f_code
    source = source_of(code.co_filename)
    values = _locals(frame)
    free = code.co_freevars
    failing = node = None
    if source is not None:
        failing = source.failing(code, entry.tb_lasti)
        if code.co_name in ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"):
            node = source.enclosing(failing, FUNCTIONS) if failing is not None else None
            node = node or source.tree
            values = (caller.values if caller else {}) | values
            if caller is not None and caller.node is node:
                caller, free = caller.caller, caller.free
        else:
            node = source.function(code)
    return Scope(
        name=code.co_name,
        filename=code.co_filename,
        line=entry.tb_lineno,
        source=source,
        node=node,
        values=values,
        globals=frame.f_globals,
        failing=failing,
        caller=caller,
        mine=is_learners(code.co_filename),
        free=free,
        names=code.co_names,
    )
