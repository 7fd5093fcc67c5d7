"""Errors with a cure of their own: NumPy, lengths, generators, wrong names of devices, files, pinning."""

import ast
import re
from collections.abc import Callable

import torch

from devlab.explaining import error as kinds
from devlab.explaining import flow
from devlab.explaining.blame import blame, change, suspects
from devlab.explaining.dtypes import explain_dtype, explain_no_dtype
from devlab.explaining.edit import closed, in_statement, rewritten, with_argument
from devlab.explaining.emptiness import explain_meta
from devlab.explaining.error import Problem
from devlab.explaining.fullness import explain_full
from devlab.explaining.meeting import Operand, operands
from devlab.explaining.mismatch import innermost_mine
from devlab.explaining.randomness import explain_generator
from devlab.explaining.report import Explanation
from devlab.explaining.scope import Scope


def explain_numpy(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """An accelerator's tensor, one with a graph, or a bfloat16 one handed to NumPy."""
    if problem.kind == kinds.NUMPY:
        found = suspects(scopes, lambda o: bool(o.device) and o.device != "cpu")
        says = "{} is on an accelerator, and NumPy reads only the CPU's memory"
    elif problem.kind == kinds.GRAPH:
        found = suspects(scopes, lambda o: o.tensor is not None and o.tensor.requires_grad) or suspects(
            scopes, lambda o: o.tensor is None
        )
        says = "{} carries a gradient graph, and NumPy knows no gradients"
    else:
        found = suspects(
            scopes, lambda o: o.tensor is not None and o.tensor.dtype == torch.bfloat16
        ) or suspects(scopes, lambda o: o.tensor is None)
        says = "{} is bfloat16, and NumPy has no such dtype"
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


def _has_graph(operand: Operand) -> bool:
    return operand.tensor is not None and operand.tensor.requires_grad


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

    found = suspects(scopes, lambda o: o.device not in ("", "cpu"))
    found = [o for o in found if _is_lengths(o)] or [o for o in found if named(o)] or found[-1:]
    if not found:
        return
    blame(report, scopes, found[0], "{} belongs on the CPU here, and is on " + found[0].device)
    text = closed(found[0].scope.text(found[0].node))
    change(report, found[0], f"{text}.cpu()")
    report.note = "PyTorch reads it on the host to plan the work; the data itself stays on the accelerator"


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
    found = suspects(scopes, lambda o: o.device not in ("", "cpu"))
    loading = any("utils/data" in s.filename.replace("\\", "/") for s in scopes)
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
    """A data set that touches the accelerator inside a loader's worker."""
    report.known, report.culprit = True, "the data set's __getitem__"
    report.origin = "it uses the accelerator, and runs in a worker process"
    report.headline = "a worker process cannot use the accelerator that its parent has started"
    report.mend = "for x, y in loader: x, y = x.to(device), y.to(device)"
    report.note = "let the data set return CPU tensors, and move each batch in the loop"
    report.otherwise = "DataLoader(..., num_workers=0)"


def explain_no_operator(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """An operation that the device has not: go to the CPU for it, and back."""
    scope = innermost_mine(scopes)
    call = scope.failing if scope else None
    operator = re.search(r"aten::\w+", problem.message)
    named = operator[0] if operator else "this operation"
    found = suspects(scopes, lambda o: o.device not in ("", "cpu"))
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
    kinds.META: explain_meta,
    kinds.FULL: explain_full,
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
