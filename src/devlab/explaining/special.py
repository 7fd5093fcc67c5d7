"""Errors with a cure of their own: NumPy, generators, data on meta, names of devices, files."""

import ast
import re
from collections.abc import Callable

import torch

from devlab.explaining import flow
from devlab.explaining import report as kinds
from devlab.explaining.amp import explain_amp
from devlab.explaining.culprit import Operand, aliases, identify, operands, origin
from devlab.explaining.edit import (
    closed,
    in_statement,
    rebindable,
    reference,
    remade,
    rewritten,
    with_argument,
)
from devlab.explaining.frames import Scope, own_nodes
from devlab.explaining.full import explain_full
from devlab.explaining.late import explain_late
from devlab.explaining.mismatch import describe, explain_dtype, explain_no_dtype, innermost_mine
from devlab.explaining.report import Explanation, Met, Problem
from devlab.explaining.story import MADE, Hop, follow


def blame(report: Explanation, scopes: list[Scope], operand: Operand, headline: str) -> None:
    """Make an operand the culprit of a report."""
    identify(operand, scopes)
    report.known = True
    report.culprit, report.origin, report.aliases = operand.name, origin(operand), aliases(operand)
    report.met = [Met(operand.name, describe(operand), operand.device, "", True)]
    report.headline = headline.format(operand.name)


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


def change(report: Explanation, operand: Operand, new: str, otherwise: str = "", *more: tuple) -> None:
    """Propose a change to an operand's own expression, with `more` changes in the same line."""
    scope, node = operand.scope, operand.node
    report.mend = in_statement(scope, node, new, *more)
    report.mend_where, report.otherwise = scope.where(), otherwise
    if not report.mend and isinstance(node, ast.Name) and rebindable(Hop(node.id, scope, scope.line, node)):
        report.mend, report.mend_before = f"{node.id} = {new}", True


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
    made = _maker(report, scopes, node, home)
    at = (made[1], made[0].lineno) if made is not None else (scope, scope.line)
    device = reference(*at, _device_of_kind(wants, scopes))
    new = "torch.Generator()" if wants == "cpu" else f"torch.Generator(device={device})"
    if made is not None and not (loading and wants != "cpu"):
        call, inner = made
        report.mend, report.mend_where = in_statement(inner, call, new) or new, inner.where(call.lineno)
    else:
        report.mend = f"generator={new}"
        report.mend_where = "the DataLoader or sampler" if loading else scope.where()
    if loading and wants == "cpu":
        report.note = "a loader draws its order on the CPU, so its generator stays there"
    elif loading:
        report.note = "the default device is an accelerator, so the loader draws its order there"


def _in_loader(scopes: list[Scope]) -> bool:
    """Tell whether the error passed through PyTorch's data loading."""
    return any("utils/data" in scope.filename.replace("\\", "/") for scope in scopes)


def _device_of_kind(kind: str, scopes: list[Scope]) -> str:
    """Return the device of that kind that the failing code works on, with its index where one is seen."""
    values = (value for scope in reversed(scopes) for value in scope.values.values())
    seen = (value.device for value in values if isinstance(value, torch.Tensor))
    return next((str(device) for device in seen if device.type == kind), kind)


def _generator_expression(scopes: list[Scope]) -> tuple[ast.expr | None, Scope | None]:
    for scope in reversed(scopes):
        if scope.mine and isinstance(scope.failing, ast.Call):
            given = flow.keyword(scope.failing, "generator")
            if given is not None:
                return given, scope
            for node in scope.failing.args:
                if isinstance(scope.evaluate(node), torch.Generator):
                    return node, scope
    for scope in reversed(scopes):
        if scope.mine and scope.node is not None:
            for node in own_nodes(scope.node):
                if isinstance(node, ast.Call) and (given := flow.keyword(node, "generator")) is not None:
                    return given, scope
    return None, None


def _maker(report: Explanation, scopes: list[Scope], node, home: Scope | None):
    if node is None:
        return None
    story = follow(node, home, report.met[0].device)
    made = flow.is_call_of(story.node, story.scope, frozenset({"Generator"})) if story.scope else ""
    if not made and isinstance(story.node, ast.Call) and story.scope:
        inner = [n for n in ast.walk(story.node) if flow.is_call_of(n, story.scope, frozenset({"Generator"}))]
        return (inner[0], story.scope) if inner else None
    return (story.node, story.scope) if made else None


_ANEW = "lambda m: m.reset_parameters() if hasattr(m, 'reset_parameters') else None"


def explain_meta(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """What has no data was computed with, moved or read."""
    found = [(scope, *held) for scope in scopes if scope.mine for held in [_module(scope)] if held]
    if found:
        _load(report, *found[0], _home(scopes, problem))
        return
    for scope in reversed(scopes):
        empty = [o for o in operands(scope) if o.device == "meta"] if scope.mine else []
        if empty:
            _fill(report, scopes, empty[0], _home(scopes, problem))
            return


def _module(scope: Scope) -> tuple[str, torch.nn.Module] | None:
    """Return the module without data that a frame was calling or moving, with its name."""
    call = scope.failing
    function = call.func if isinstance(call, ast.Call) else None
    receiver = function.value if isinstance(function, ast.Attribute) else None
    for node in (function, receiver):
        value = scope.evaluate(node) if node is not None else None
        if isinstance(value, torch.nn.Module) and any(map(_is_empty, _held_by(value).values())):
            return scope.text(node), value
    return None


def _held_by(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return a module's parameters and buffers by name, those that no checkpoint holds among them."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _is_empty(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "meta"


def _home(scopes: list[Scope], problem: Problem) -> str:
    """Return the device that the others are on: as the message has it, or as the failing lines have it."""
    met = [o.device for s in reversed(scopes) for o in operands(s)]
    asked = [flow.moved_to(s.failing, s) for s in reversed(scopes) if s.failing is not None]
    named = [*problem.devices, *met, *asked]
    here = str(torch.accelerator.current_accelerator()) if torch.accelerator.is_available() else "cpu"
    return next((device for device in named if device not in ("", "meta")), here)


def _load(report: Explanation, scope: Scope, name: str, module: torch.nn.Module, home: str) -> None:
    """A module without data: give it trained values, or fresh ones."""
    state = _held_by(module)
    empty = [key for key, value in state.items() if _is_empty(value)]
    path = _only(module, empty)
    inner = None if path is None else name + "".join(_step(part) for part in path.split(".") if part)
    report.known, report.culprit = True, inner or name
    some = f": {', '.join(empty[:4])}" if len(empty) < len(state) else ""
    report.headline = f"{report.culprit} is on meta, and holds no data yet{some}"
    report.origin = "made on meta, with shapes and without values, so that .to has nothing to copy"
    report.met = [
        Met(f"{name}.{key}", str(list(state[key].shape)), "meta", "", key == empty[0]) for key in empty[:4]
    ]
    saved = module.state_dict()
    loaded = _loaded(scope, module, set(saved))
    ref = reference(scope, scope.line, home)
    if not set(empty) & set(saved):
        report.note = (
            f"I know no single line that mends this: no checkpoint holds {', '.join(empty[:4])}, so give it "
            f"its values again on {home}, as `__init__` did on meta; `to_empty` would undo what was loaded"
        )
        report.culprit, report.origin = f"{name}.{empty[0]}", "a buffer made on meta, with `persistent=False`"
        report.headline = f"{report.culprit} is on meta, and holds no data yet"
    elif isinstance(loaded, ast.Call):  # a line that copies into what is not there, which does nothing
        report.mend = in_statement(scope, loaded, with_argument(loaded, scope, "assign", "True"))
        report.mend_where = scope.where(loaded.lineno)
    elif loaded:
        report.mend, report.mend_before = f"{name}.load_state_dict({loaded}, assign=True)", True
        report.mend_where = scope.where()
    elif inner and _can_begin(module.get_submodule(path)):
        report.mend, report.mend_before = f"{inner}.to_empty(device={ref}).apply({_ANEW})", True
        report.mend_where = scope.where()
        report.otherwise = f"{name}.load_state_dict(..., assign=True) with a checkpoint, for trained values"
        report.note = (
            "`to_empty` alone gives memory with whatever is in it; `reset_parameters` gives fresh values"
        )
    else:
        report.note = (
            f"no single line mends this: load a checkpoint by {name}.load_state_dict(..., assign=True), or "
            f"{name}.to_empty(device={ref}) and give every parameter and buffer its values"
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


def _can_begin(module: torch.nn.Module) -> bool:
    """Tell whether every module with values of its own can give itself fresh values."""
    own = [m for m in module.modules() if [*m.parameters(recurse=False), *m.buffers(recurse=False)]]
    return all(hasattr(m, "reset_parameters") for m in own)


def _loaded(scope: Scope, module: torch.nn.Module, keys: set[str]) -> ast.Call | str:
    """Return the call that was to load the module, or the name of a dictionary with all its keys."""
    for node in own_nodes(scope.node) if scope.source is not None and scope.node is not None else ():
        loads = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "load_state_dict"
        if loads and flow.keyword(node, "assign") is None and scope.evaluate(node.func.value) is module:
            return node
    fits = [n for n, v in scope.values.items() if isinstance(v, dict) and keys <= v.keys()]
    full = [n for n in fits if not any(_is_empty(scope.values[n][key]) for key in keys)]
    return full[0] if full else ""


def _fill(report: Explanation, scopes: list[Scope], operand: Operand, home: str) -> None:
    """A tensor without data: make it where there is memory for it."""
    blame(report, scopes, operand, "{} is on meta: it has a shape and a dtype, and holds no data")
    story = operand.story
    call, scope = story.node, story.scope
    if story.end == MADE and scope.mine and isinstance(call, ast.Call):
        report.mend = in_statement(
            scope, call, remade(call, scope, reference(scope, call.lineno, home), MADE)
        )
        report.mend_where = scope.where(call.lineno)
    report.note = (
        "" if report.mend else "make it on a device with memory; what is on meta cannot be moved or read"
    )


def _has_graph(operand: Operand) -> bool:
    return operand.tensor is not None and operand.tensor.requires_grad


# What to look for among the operands, and what to say of the operand found.
_NOT_FOR_NUMPY: dict[str, tuple[Callable[[Operand], bool], str]] = {
    kinds.NUMPY: (_is_away, "{} is on an accelerator, and NumPy reads only the CPU's memory"),
    kinds.GRAPH: (_has_graph, "{} carries a gradient graph, and NumPy knows no gradients"),
    kinds.NUMPY_DTYPE: (
        lambda o: o.tensor is not None and o.tensor.dtype == torch.bfloat16,
        "{} is bfloat16, and NumPy has no such dtype",
    ),
}


def explain_numpy(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """An accelerator's tensor, one with a graph, or a bfloat16 one handed to NumPy."""
    fits, says = _NOT_FOR_NUMPY[problem.kind]
    found = suspects(scopes, fits)
    if not found and problem.kind != kinds.NUMPY:
        found = suspects(scopes, lambda o: o.tensor is None)
    if not found:
        return
    operand = found[0]
    operand.device = operand.device or "cpu"
    blame(report, scopes, operand, says)
    text = closed(operand.scope.text(operand.node))
    away = (".detach()" if problem.kind != kinds.NUMPY_DTYPE or _has_graph(operand) else "") + ".cpu()"
    away = away + ".float()" * (problem.kind == kinds.NUMPY_DTYPE) + ".numpy()"
    failing = operand.scope.failing
    items = operand.scope.evaluate(operand.node) if operand.suffix else ()
    built = isinstance(operand.node, ast.Call) and operand.scope.evaluate(operand.node.func) in (list, tuple)
    shapes = {getattr(item, "shape", None) for item in items}
    if built or None in shapes or len(shapes) > 1:
        one = "x.item()" if shapes <= {None, torch.Size([])} and items else "x.detach().cpu().numpy()"
        change(report, operand, f"[{one} if torch.is_tensor(x) else x for x in {text}]")
        return
    if operand.suffix:
        change(
            report, operand, f"torch.stack({text}){away}", f"[x.item() for x in {text}], for a few numbers"
        )
        return
    called_numpy = isinstance(failing, ast.Call) and isinstance(failing.func, ast.Attribute)
    if called_numpy and failing.func.attr in ("numpy", "__array__") and failing.func.value is operand.node:
        report.mend, report.mend_where = (
            in_statement(operand.scope, failing, text + away),
            operand.scope.where(),
        )
    else:
        others = [o for o in operands(operand.scope) if o.tensor is not None and o.node is not operand.node]
        more = [(o.node, f"{closed(o.text)}.detach().cpu().numpy()") for o in others if not o.suffix]
        change(report, operand, text + away, "", *more)


def explain_strides(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """A NumPy array that runs backwards."""
    scope = innermost_mine(scopes)
    call = scope.failing if scope else None
    if isinstance(call, ast.Call) and call.args:
        text = scope.text(call.args[0])
        report.known, report.culprit = True, text
        report.headline = f"{text} is a NumPy view that runs backwards, which a tensor cannot share"
        report.origin = "a NumPy array with negative strides"
        report.mend, report.mend_where = in_statement(scope, call.args[0], f"{text}.copy()"), scope.where()


def explain_host_only(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """Lengths and states of generators, which belong on the CPU whatever the rest does."""

    def named(operand: Operand) -> bool:
        return "length" in operand.text or "state" in operand.text

    found = suspects(scopes, _is_away)
    found = [o for o in found if _is_lengths(o)] or [o for o in found if named(o)] or found[-1:]
    if not found:
        return
    blame(report, scopes, found[0], "{} belongs on the CPU here, and is on " + found[0].device)
    text = closed(found[0].scope.text(found[0].node))
    change(report, found[0], f"{text}.cpu()")
    report.note = "PyTorch reads it on the host to plan the work; the data itself stays on the accelerator"
    if "RNG" in problem.message:
        report.note = (
            "the state of a generator is a tensor of bytes on the CPU, for a generator of any device"
        )


def _is_lengths(operand: Operand) -> bool:
    call = operand.scope.failing
    if not isinstance(call, ast.Call) or "pack_padded_sequence" not in operand.scope.text(call.func):
        return False
    return operand.node is flow.keyword(call, "lengths") or operand.node in call.args[1:2]


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
    new = f'"{kind.type}:0"' if kind is not None else '"cpu"'
    if node is not None and isinstance(node, ast.Call):
        base = scope.text(node.func.value)
        report.mend = in_statement(scope, node, f"{base}.to(device)")
        report.note = f"with device = torch.device({new}), or device = devlab.start()"
    elif node is not None:
        report.mend = in_statement(scope, node, new)
    else:
        report.mend = f"device = torch.device({new})"
    report.mend_where = scope.where()


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


def explain_load(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """A file saved on a device that this machine has not."""
    scope = innermost_mine(scopes)
    call = scope.failing if scope else None
    if not isinstance(call, ast.Call):
        return
    text = scope.text(call.args[0]) if call.args else scope.text(call)
    report.known, report.culprit = True, text
    report.origin = "its tensors were saved on a device that is not here"
    report.headline = f"{text} was saved on another machine's device"
    report.mend = in_statement(scope, call, with_argument(call, scope, "map_location", '"cpu"'))
    report.mend_where = scope.where()


def explain_pinned(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """Pinning is for CPU memory, before the copy."""
    found = suspects(scopes, _is_away)
    loading = _in_loader(scopes)
    if found:
        blame(
            report,
            scopes,
            found[0],
            "{} is already on " + found[0].device + "; only CPU memory can be pinned",
        )
    if loading:
        report.known, report.mend = True, "pin_memory=False"
        report.culprit = report.culprit or "the loader's batch"
        report.otherwise = "keep the data set on the CPU, and move each batch in the loop"
    elif found:
        call = found[0].scope.failing
        report.mend = in_statement(found[0].scope, call, found[0].scope.text(found[0].node))
        report.mend_where = found[0].scope.where()


def explain_fork(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """A data set, or a transform of it, that touches the accelerator inside a loader's worker."""
    scope = innermost_mine(scopes)
    found = [operand for operand in operands(scope) if _is_away(operand)] if scope is not None else []
    if found:
        blame(report, scopes, found[0], "{} is on " + found[0].device + ", and is used in a worker process")
    else:
        report.headline = "a worker process cannot use the accelerator that its parent has started"
        report.known, report.culprit = bool(report.operation), report.operation
    report.note = (
        "a worker process cannot use the accelerator that its parent has started: let the data set, its "
        "transforms and the collate function work on the CPU, and move each batch in the loop"
    )
    report.otherwise = "DataLoader(..., num_workers=0)"


def explain_no_operator(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """An operation that the device has not: go to the CPU for it, and back."""
    scope = innermost_mine(scopes)
    call = scope.failing if scope else None
    operator = re.search(r"aten::\w+", problem.message)
    named = operator[0] if operator else "this operation"
    found = suspects(scopes, _is_away)
    if not found or not isinstance(call, ast.Call):
        return
    blame(report, scopes, found[0], named + " does not exist on " + found[0].device + ", where {} is")
    text = found[0].scope.text(found[0].node)
    whole = rewritten(found[0].scope.source, call, (found[0].node, f"{closed(text)}.cpu()"))
    report.mend = in_statement(found[0].scope, call, f"{whole}.to({closed(text)}.device)")
    report.mend_where = found[0].scope.where()
    if found[0].device.startswith("mps"):
        report.otherwise = "PYTORCH_ENABLE_MPS_FALLBACK=1 in the environment, before Python starts"


SPECIAL: dict[str, Callable[[Explanation, list[Scope], Problem], None]] = {
    kinds.AMP: explain_amp,
    kinds.META: explain_meta,
    kinds.FULL: explain_full,
    kinds.LATE: explain_late,
    kinds.NUMPY: explain_numpy,
    kinds.GRAPH: explain_numpy,
    kinds.NUMPY_DTYPE: explain_numpy,
    kinds.STRIDES: explain_strides,
    kinds.HOST_ONLY: explain_host_only,
    kinds.GENERATOR: explain_generator,
    kinds.NO_DEVICE: explain_no_device,
    kinds.LOAD: explain_load,
    kinds.PINNED: explain_pinned,
    kinds.FORK: explain_fork,
    kinds.NO_OPERATOR: explain_no_operator,
    kinds.DTYPE: explain_dtype,
    kinds.NO_DTYPE: explain_no_dtype,
}
