"""Errors with a cure of their own: NumPy, generators, data on meta, names of devices, files."""

import ast
import re
from collections.abc import Callable

import torch

from devlab.explaining import flow
from devlab.explaining import report as kinds
from devlab.explaining.amp import explain_amp
from devlab.explaining.culprit import Operand, aliases, identify, operands, origin
from devlab.explaining.frames import Scope, own_nodes
from devlab.explaining.full import explain_full
from devlab.explaining.late import explain_late
from devlab.explaining.mismatch import describe, explain_dtype, explain_no_dtype, innermost_mine
from devlab.explaining.report import Explanation, Met, Problem


def blame(report: Explanation, scopes: list[Scope], operand: Operand, headline: str, **words: str) -> None:
    """Make an operand the culprit of a report."""
    identify(operand, scopes)
    report.known = True
    report.culprit, report.origin, report.aliases = operand.name, origin(operand), aliases(operand)
    report.met = [Met(operand.name, describe(operand), operand.device, "", True)]
    report.headline = headline.format(operand.name, on=operand.device, **words)


def suspects(scopes: list[Scope], fits: Callable[[Operand], bool]) -> list[Operand]:
    """Return the operands that fit, of the learner's innermost frame that has any; else of any frame."""
    for mine in (True, False):
        for scope in reversed(scopes):
            if scope.mine is mine and (found := [o for o in operands(scope) if fits(o)]):
                return found
    return []


def _is_away(operand: Operand) -> bool:
    """Tell whether an operand is known to be on another device than the CPU."""
    return operand.device not in ("", "cpu")


def _has_graph(operand: Operand) -> bool:
    return operand.tensor is not None and operand.tensor.requires_grad


def _is_bfloat(operand: Operand) -> bool:
    return operand.tensor is not None and operand.tensor.dtype == torch.bfloat16


_IN_WORKERS = (
    "a worker process cannot use the accelerator that its parent has started: let the data set, its "
    "transforms and the collate function work on the CPU, and move each batch in the loop"
)
_PLANNED = "PyTorch reads it on the host to plan the work; the data itself stays on the accelerator"
# What to look for among the operands, what to say of the operand found, and what else is to be known.
_OPERANDS: dict[str, tuple[Callable[[Operand], bool], str, str]] = {
    kinds.NUMPY: (_is_away, "{} is on an accelerator, and NumPy reads only the CPU's memory", ""),
    kinds.GRAPH: (_has_graph, "{} carries a gradient graph, and NumPy knows no gradients", ""),
    kinds.NUMPY_DTYPE: (_is_bfloat, "{} is bfloat16, and NumPy has no such dtype", ""),
    kinds.HOST_ONLY: (_is_away, "{} belongs on the CPU here, and is on {on}", _PLANNED),
    kinds.PINNED: (_is_away, "{} is already on {on}; only CPU memory can be pinned", ""),
    kinds.FORK: (_is_away, "{} is on {on}, and is used in a worker process", _IN_WORKERS),
    kinds.NO_OPERATOR: (_is_away, "{operator} does not exist on {on}, where {} is", ""),
}
# What to say of the first argument of the call that failed, and where the argument is from.
_ARGUMENTS = {
    kinds.STRIDES: (
        "{} is a NumPy view that runs backwards, which a tensor cannot share",
        "a NumPy array with negative strides",
    ),
    kinds.LOAD: (
        "{} was saved on another machine's device",
        "its tensors were saved on a device that is not here",
    ),
}


def explain_operand(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """One operand is on a device, or of a kind, that the operation does not take."""
    fits, says, note = _OPERANDS[problem.kind]
    found = suspects(scopes, fits)
    if not found and problem.kind in (kinds.GRAPH, kinds.NUMPY_DTYPE):
        found = suspects(scopes, lambda operand: operand.tensor is None)
    if problem.kind == kinds.HOST_ONLY:
        found = [o for o in found if "length" in o.text or "state" in o.text] or found[-1:]
        if "RNG" in problem.message:
            note = "the state of a generator is a tensor of bytes on the CPU, for a generator of any device"
    if found:
        operator = re.search(r"aten::\w+", problem.message)
        found[0].device = found[0].device or "cpu"
        blame(report, scopes, found[0], says, operator=operator[0] if operator else "this operation")
        report.note = note
    if problem.kind == kinds.NO_OPERATOR and report.known and found[0].device.startswith("mps"):
        report.note = "or set PYTORCH_ENABLE_MPS_FALLBACK=1 in the environment, before Python starts"
    elif problem.kind == kinds.PINNED and _in_loader(scopes):
        report.known, report.culprit = True, report.culprit or "the loader's batch"
        report.note = "keep the data set on the CPU, and move each batch in the loop"
    elif problem.kind == kinds.FORK and not found:
        report.headline = "a worker process cannot use the accelerator that its parent has started"
        report.known, report.culprit, report.note = bool(report.operation), report.operation, note


def explain_argument(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """What a call was given, a file or an array, is the matter."""
    scope = innermost_mine(scopes)
    call = scope.failing if scope else None
    if isinstance(call, ast.Call):
        says, report.origin = _ARGUMENTS[problem.kind]
        report.known, report.culprit = True, scope.text(call.args[0] if call.args else call)
        report.headline = says.format(report.culprit)


def explain_generator(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """A generator of random numbers on another device than the numbers."""
    wanted = re.search(r"Expected a '?(\w+)'? device type for generator but found '?(\w+)", problem.message)
    wants, has = (wanted[1], wanted[2]) if wanted else ("", "")
    scope = innermost_mine(scopes)
    if scope is None:
        return
    loading = _in_loader(scopes)
    node, home = _generator_expression(scopes)
    report.known = True
    if node is not None:
        operand = Operand(node, home, None, has)
        blame(
            report,
            scopes,
            operand,
            "the generator {} is on " + f"{has}, and the numbers are drawn on {wants}",
        )
        value = home.evaluate(node)
        report.met = [Met(operand.name, "Generator", str(getattr(value, "device", has)), "", True)]
    else:
        report.culprit, report.origin = "generator", f"the loader's own generator, on {has}"
        report.headline = f"a generator on {has}, while the numbers are drawn on {wants}"
    if loading and wants == "cpu":
        report.note = "a loader draws its order on the CPU, so its generator stays there"
    elif loading:
        report.note = "the default device is an accelerator, so the loader draws its order there"


def _in_loader(scopes: list[Scope]) -> bool:
    """Tell whether the error passed through PyTorch's data loading."""
    return any("utils/data" in scope.filename.replace("\\", "/") for scope in scopes)


def _generator_expression(scopes: list[Scope]) -> tuple[ast.expr | None, Scope | None]:
    mine = [scope for scope in reversed(scopes) if scope.mine and scope.node is not None]
    calls = [(s.failing, s) for s in mine] + [(node, s) for s in mine for node in own_nodes(s.node)]
    for call, scope in calls:
        if isinstance(call, ast.Call):
            if (given := flow.keyword(call, "generator")) is not None:
                return given, scope
            for node in call.args:
                if isinstance(scope.evaluate(node), torch.Generator):
                    return node, scope
    return None, None


def explain_meta(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """What has no data was computed with, moved or read."""
    mine = [scope for scope in scopes if scope.mine]
    held = [(scope, *found) for scope in mine if (found := _module(scope))]
    empty = [o for scope in reversed(mine) for o in operands(scope) if o.device == "meta"]
    if held:
        _empty(report, *held[0])
    elif empty:
        blame(report, scopes, empty[0], "{} is on meta: it has a shape and a dtype, and holds no data")
        report.note = "make it on a device with memory; what is on meta cannot be moved or read"


def _module(scope: Scope) -> tuple[str, torch.nn.Module] | None:
    """Return the module without data that a frame was calling or moving, with its name."""
    call = scope.failing
    function = call.func if isinstance(call, ast.Call) else None
    receiver = function.value if isinstance(function, ast.Attribute) else None
    for node in (function, receiver):
        value = scope.evaluate(node) if node is not None else None
        if isinstance(value, torch.nn.Module) and any(t.is_meta for t in _held_by(value).values()):
            return scope.text(node), value
    return None


def _held_by(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return a module's parameters and buffers by name, those that no checkpoint holds among them."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _empty(report: Explanation, scope: Scope, name: str, module: torch.nn.Module) -> None:
    """A module without data."""
    state = _held_by(module)
    empty = [key for key, value in state.items() if value.is_meta]
    path = _only(module, empty)
    inner = None if path is None else name + "".join(_step(part) for part in path.split(".") if part)
    report.known, report.culprit = True, inner or name
    some = f": {', '.join(empty[:4])}" if len(empty) < len(state) else ""
    report.headline = f"{report.culprit} is on meta, and holds no data yet{some}"
    report.origin = "made on meta, with shapes and without values, so that .to has nothing to copy"
    report.met = [
        Met(f"{name}.{key}", str(list(state[key].shape)), "meta", "", key == empty[0]) for key in empty[:4]
    ]
    if not set(empty) & set(module.state_dict()):
        report.note = (
            f"no checkpoint holds {', '.join(empty[:4])}, so give it its values again where the model is, as "
            "`__init__` did on meta; `to_empty` would undo what was loaded"
        )
        report.culprit, report.origin = f"{name}.{empty[0]}", "a buffer made on meta, with `persistent=False`"
        report.headline = f"{report.culprit} is on meta, and holds no data yet"
        return
    report.note = (
        f"load a checkpoint by {name}.load_state_dict(..., assign=True), or give it memory by "
        f"{name}.to_empty(device=...) and every parameter and buffer its values"
    )


def _only(module: torch.nn.Module, empty: list[str]) -> str | None:
    """Return the path of the one module below, "" for the module itself, that holds just what is empty."""
    for path, inner in module.named_modules():
        own = [f"{path}.{key}" if path else key for key in _held_by(inner)]
        if sorted(own) == sorted(empty):
            return path
    return None


def _step(part: str) -> str:
    """Return how code reaches a module by one part of its path: `net.0` is no Python."""
    return f"[{part}]" if part.isdigit() else f".{part}"


def explain_no_device(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """A device that is not here: a wrong index, a misspelt name, a build without CUDA."""
    scope = innermost_mine(scopes)
    if scope is None:
        return
    node, device = _device_expression(scope)
    kind = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    count = torch.accelerator.device_count() if kind is not None else 0
    here = ", ".join(["cpu", *(f"{kind.type}:{i}" for i in range(count))])
    wanted = device or next(iter(problem.devices), "cuda")
    report.known, report.culprit = True, device or scope.text(node or scope.failing or scope.node)
    report.origin = f"asked for at {scope.where()}"
    report.headline = f"{wanted} is not here; this machine has {here}"


def _device_expression(scope: Scope) -> tuple[ast.expr | None, str]:
    call = scope.failing
    if isinstance(call, ast.Call):
        for node in [*call.args, *(k.value for k in call.keywords)]:
            if name := flow.named_device(node, scope):
                return node, name
            value = scope.evaluate(node)
            if isinstance(value, str):
                return node, value
        if isinstance(call.func, ast.Attribute) and call.func.attr in flow.MOVERS:
            return call, call.func.attr
    return None, ""


SPECIAL: dict[str, Callable[[Explanation, list[Scope], Problem], None]] = {
    **dict.fromkeys(_OPERANDS, explain_operand),
    **dict.fromkeys(_ARGUMENTS, explain_argument),
    kinds.AMP: explain_amp,
    kinds.META: explain_meta,
    kinds.FULL: explain_full,
    kinds.LATE: explain_late,
    kinds.GENERATOR: explain_generator,
    kinds.NO_DEVICE: explain_no_device,
    kinds.DTYPE: explain_dtype,
    kinds.NO_DTYPE: explain_no_dtype,
}
