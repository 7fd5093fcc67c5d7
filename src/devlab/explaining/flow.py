"""Which device and dtype an expression's value has, or must have had, read from values and source text."""

import ast
import copy
import inspect
import types

import numpy
import torch

from devlab.explaining.frames import MISSING, Scope, argument_for, called, called_name, own_nodes

FACTORIES = frozenset((
    "arange", "as_tensor", "asarray", "bartlett_window", "blackman_window", "complex", "empty",
    "empty_strided", "eye", "frombuffer", "from_numpy", "full", "hamming_window", "hann_window",
    "kaiser_window", "linspace", "logspace", "normal", "ones", "rand", "randint", "randn", "randperm",
    "range", "scalar_tensor", "sparse_coo_tensor", "tensor", "tril_indices", "triu_indices", "zeros",
    "Tensor", "FloatTensor", "LongTensor", "BoolTensor", "IntTensor", "DoubleTensor", "HalfTensor",
    "ByteTensor", "Generator",
))  # fmt: skip
LIKE = frozenset(
    ["empty_like", "full_like", "ones_like", "rand_like", "randint_like", "randn_like", "zeros_like"]
)
MOVERS = frozenset({"to", "cuda", "cpu", "xpu", "mps", "sim"})
# These return no tensor, but values of Python's own.
_NO_TENSOR = frozenset(
    ["item", "tolist", "numpy", "size", "dim", "numel", "shape", "dtype", "device", "ndim"]
)
_DEEPEST = 12
_OPERATIONS = (ast.BinOp, ast.Compare, ast.UnaryOp, ast.IfExp, ast.NamedExpr)
_PLAIN = (
    torch.Tensor,
    torch.device,
    torch.dtype,
    numpy.ndarray,
    numpy.generic,
    int,
    float,
    str,
    slice,
    type(None),
)


def same(one: str, other: str) -> bool:
    """Tell whether two devices' names may mean one device: a bare `cuda` and `cuda:0` do.

    >>> same("cuda", "cuda:0"), same("cuda:0", "cuda:1")
    (True, False)
    """
    first, second = one.partition(":"), other.partition(":")
    return first[0] == second[0] and (first[2] == second[2] or not first[2] or not second[2])


def is_call_of(node: ast.AST, scope: Scope, names: frozenset) -> str:
    """Return the name of PyTorch's function that a call makes, if it is one of the names; else ""."""
    if not isinstance(node, ast.Call):
        return ""
    name = called_name(node)
    if name not in names:
        return ""
    if isinstance(node.func, ast.Attribute):
        return name if is_torchs(node, scope) else ""
    value = scope.lookup(name)
    known = value is not MISSING and str(getattr(value, "__module__", "torch")).startswith("torch")
    return name if known else ""


def is_torchs(node: ast.Call, scope: Scope) -> bool:
    """Tell whether a call is of a function in one of PyTorch's modules, as `torch.cat` is."""
    root = scope.evaluate(node.func.value) if isinstance(node.func, ast.Attribute) else None
    return isinstance(root, types.ModuleType) and root.__name__.split(".")[0] == "torch"


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """Return the expression passed to a call under a keyword, or None."""
    return next((k.value for k in call.keywords if k.arg == name), None)


def device_argument(call: ast.Call, scope: Scope) -> tuple[ast.expr | None, str]:
    """Return the argument of `.to(...)` or of a factory that names a device, and that device; else None."""
    given = keyword(call, "device")
    method = isinstance(call.func, ast.Attribute) and call.func.attr in MOVERS
    candidates = [given] if given is not None else (call.args[:2] if method else [])
    for node in candidates:
        if name := named_device(node, scope):
            return node, name
    if given is not None:
        return given, ""
    return None, ""


def named_device(node: ast.expr, scope: Scope) -> str:
    """Return the device that an expression names (`"cuda"`, `device`, `x.device`, a tensor), or ""."""
    value = scope.evaluate(node)
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, str):
        try:
            return str(torch.device(value))
        except RuntimeError:
            return ""
    if isinstance(value, torch.Tensor):
        return str(value.device)
    if isinstance(node, ast.Attribute) and node.attr == "device":
        return infer(node.value, scope)
    if isinstance(node, ast.Name) and value is MISSING and (passed := argument_for(scope, node.id)):
        return named_device(*passed)
    return ""


def moved_to(call: ast.AST, scope: Scope) -> str:
    """Return where `.to(device)`, `.cpu()` or `.cuda()` puts its tensor; "" for any other call."""
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in MOVERS):
        return ""
    if call.func.attr == "to":
        return device_argument(call, scope)[1]
    if call.func.attr == "cpu":
        return "cpu"
    index = scope.evaluate(call.args[0]) if call.args else None
    return f"{call.func.attr}:{index}" if isinstance(index, int) else call.func.attr


def infer(node: ast.AST, scope: Scope, depth: int = 0) -> str:
    """Return the device of the tensor that an expression is, or made; "" where it cannot be known."""
    if depth > _DEEPEST:
        return ""
    value = scope.evaluate(node)
    if isinstance(value, torch.Tensor | torch.Generator):
        return str(value.device)
    if isinstance(value, list | tuple | dict):
        return _common(value)
    if getattr(getattr(node, "func", node), "attr", "") in _NO_TENSOR:
        return ""
    if isinstance(node, ast.Call):
        return _of_call(node, scope, depth + 1)
    if isinstance(node, ast.Name) and value is MISSING:
        return _of_missing(node.id, scope, depth + 1)
    if isinstance(node, ast.Subscript | ast.Attribute | ast.Starred):
        holder = scope.evaluate(node.value)
        if isinstance(holder, list | tuple | dict):
            return _common(holder)
        return infer(node.value, scope, depth + 1)
    parts = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
    parts = [n for n in parts if n is not getattr(node, "test", None)]
    return _joint(parts, scope, depth + 1) if isinstance(node, _OPERATIONS) else ""


def is_on(node: ast.AST, scope: Scope, device: str) -> bool:
    """Tell whether the tensor that an expression stands for is known to be on a device."""
    return same(infer(node, scope) or "?", device)


def device_of(module: torch.nn.Module) -> str:
    """Return the device of a module's first parameter; "" for a module without parameters."""
    first = next(iter(module.parameters()), None)
    return "" if first is None else str(first.device)


def devices_of(module: torch.nn.Module) -> set[str]:
    """Return the devices of everything that a module registered."""
    return {str(tensor.device) for tensor in [*module.parameters(), *module.buffers()]}


def _common(holder: list | tuple | dict) -> str:
    """The device of a container's tensors, if all are on one."""
    items = list(holder.values() if isinstance(holder, dict) else holder)[:1000]
    firsts = (next(iter(i.parameters()), None) if isinstance(i, torch.nn.Module) else i for i in items)
    places = {str(item.device) for item in firsts if isinstance(item, torch.Tensor)}
    return places.pop() if len(places) == 1 else ""


def _joint(nodes: list, scope: Scope, depth: int) -> str:
    """The device of what several operands give: an accelerator wins over a scalar on the CPU."""
    found = [device for node in nodes if (device := infer(node, scope, depth))]
    return next((device for device in found if device != "cpu"), found[0] if found else "")


def _of_missing(name: str, scope: Scope, depth: int) -> str:
    write = scope.write_before(name, 1 << 30)
    if write is not None and write.how in ("assign", "part"):
        return infer(write.value, scope, depth)
    passed = argument_for(scope, name)
    return infer(passed[0], passed[1], depth) if passed else ""


def _of_call(call: ast.Call, scope: Scope, depth: int) -> str:
    if is_call_of(call, scope, FACTORIES):
        return factory_device(call, scope)
    if target := moved_to(call, scope):
        return target
    if is_call_of(call, scope, frozenset({"load"})):
        given = keyword(call, "map_location")
        return named_device(given, scope) if given is not None else ""
    if isinstance(call.func, ast.Attribute):
        if keyword(call, "device") is not None:
            return device_argument(call, scope)[1]
        owner = scope.evaluate(call.func.value)
        if device := ("" if isinstance(owner, types.ModuleType) else infer(call.func.value, scope, depth)):
            return device
    function = scope.evaluate(call.func)
    inside = returned(function, scope, call)
    for expression, inner in inside:
        if device := infer(expression, inner, depth + 2):
            return device
    if isinstance(function, torch.nn.Module) and (device := device_of(function)):
        return device
    return "" if inside else _joint([*call.args, *(k.value for k in call.keywords)], scope, depth)


def factory_device(call: ast.Call, scope: Scope) -> str:
    """Return where a factory such as `torch.zeros` makes its tensor."""
    given, device = device_argument(call, scope)
    if given is not None:
        return device
    name = called_name(call)
    follows = name in ("as_tensor", "asarray", "normal", "complex") and call.args
    if follows and (device := infer(call.args[0], scope)):
        return device
    return "cpu" if name == "from_numpy" else default_device(scope)


def default_device(scope: Scope | None) -> str:
    """Return the device that `with torch.device(...)` set around a line or its callers; else the default."""
    while scope is not None:
        node = scope.failing
        while scope.source is not None and (node := scope.source.enclosing(node, (ast.With,))) is not None:
            for item in node.items:
                if isinstance(device := scope.evaluate(item.context_expr), torch.device):
                    return str(device)
        scope = scope.caller
    return str(torch.get_default_device())


def returned(function: object, scope: Scope, call: ast.Call) -> list[tuple[ast.expr, Scope]]:
    """Return what a Python function of the learner's returns or yields, each with the function's scope."""
    if function is MISSING or (isinstance(function, torch.nn.Module) and _is_torchs(type(function))):
        return []
    if inspect.isclass(function) or _is_torchs(function):
        return []
    try:
        inner = called(function, scope, call)
    except Exception:  # an object that only looks like a function
        return []
    if inner is None or isinstance(inner.node, ast.Module):
        return []
    if isinstance(inner.node, ast.Lambda):
        return [(inner.node.body, inner)]
    return [
        (node.value, inner)
        for node in own_nodes(inner.node)
        if isinstance(node, ast.Return | ast.Yield) and node.value is not None
    ]


def _is_torchs(thing: object) -> bool:
    return str(getattr(thing, "__module__", "") or "").split(".")[0] in ("torch", "numpy")


def from_numpy(node: ast.AST, scope: Scope) -> bool:
    """Tell whether a factory makes its tensor out of a NumPy array."""
    if is_call_of(node, scope, frozenset({"from_numpy"})):
        return True
    if not is_call_of(node, scope, FACTORIES) or not node.args:
        return False
    return isinstance(scope.evaluate(node.args[0]), numpy.ndarray | numpy.generic)


def dtype_of(node: ast.AST, scope: Scope) -> torch.dtype | None:
    """Return the dtype of the tensor that an expression is, or would give; None where it cannot be known.

    PyTorch's own operations are carried out on `meta`, without data; nobody else's code is run.
    """
    names: dict[str, object] = {}
    while scope.evaluate(node) is MISSING and isinstance(node, ast.Subscript | ast.Starred | ast.NamedExpr):
        node = node.value  # a mask as an index needs the data
    try:
        tree = ast.Expression(_Twins(scope, names).visit(copy.deepcopy(node)))
        value = eval(compile(ast.fix_missing_locations(tree), "<twin>", "eval"), {"__builtins__": {}}, names)
    except Exception:  # code of others, or an operation that needs the data
        return None
    return value.dtype if isinstance(value, torch.Tensor) else None


class _Twins(ast.NodeTransformer):
    """Puts a tensor on `meta` for each tensor that code reads, and raises LookupError at others' code."""

    def __init__(self, scope: Scope, names: dict, depth: int = 0):
        self.scope, self.names, self.depth = scope, names, depth

    def visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, ast.expr):
            return self.generic_visit(node)
        value = self.scope.evaluate(node)
        if isinstance(node, ast.Call):
            function = self.scope.evaluate(node.func)
            if (
                isinstance(function, torch.nn.Module)
                and (own := next(function.parameters(), None)) is not None
            ):
                value = own
            elif getattr(node.func, "attr", "") in ("cpu", "cuda"):
                return self.visit(node.func.value)
        if isinstance(value, torch.Tensor):
            value = torch.empty_like(value.detach().as_subclass(torch.Tensor), device="meta")
        elif isinstance(value, torch.device):
            value = torch.device("meta")
        if value is not MISSING:
            if not _is_torchs(value) and not isinstance(value, _PLAIN):
                raise LookupError(value)
            self.names[f"_{len(self.names)}"] = value
            return ast.Name(f"_{len(self.names) - 1}", ast.Load())
        if isinstance(node, ast.Name):
            write = self.scope.write_before(node.id, 1 << 30)
            if write is None or write.how != "assign" or self.depth > _DEEPEST:
                raise LookupError(node.id)
            return _Twins(self.scope, self.names, self.depth + 1).visit(copy.deepcopy(write.value))
        return self.generic_visit(node)
