"""A full memory: which names hold how much of it, and how much is held by nothing that can be seen."""

import ast
import re

import torch

from devlab.explaining import flow
from devlab.explaining.frames import Scope
from devlab.explaining.reach import children, roots
from devlab.explaining.report import Explanation, Met, Problem
from devlab.watching.memory import size

_SAYS = (
    ("asked for", r"[Tt]ried to allocate ([\d.]+ \w+)"),
    ("allocated", r"([\d.]+ \w+) is allocated by PyTorch|(?:MPS|XPU) allocated: ([\d.]+ \w+)"),
    ("reserved and free", r"([\d.]+ \w+) is reserved by PyTorch but unallocated"),
    ("in all", r"total capacity of ([\d.]+ \w+)|max allowed: ([\d.]+ \w+)"),
)
_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SHOWN = 5
_MOST = 20_000


def explain_full(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """No memory is left: the names that hold most of it, what no name holds, and PyTorch's own account."""
    account = {}
    for words, pattern in _SAYS:
        if found := re.search(pattern, problem.message):
            account[words] = next(filter(None, found.groups()))
    card = re.search(r"GPU (\d+) has", problem.message)
    device = f"cuda:{card[1]}" if card else next((d for d in problem.devices if ":" in d), "")
    holders = sorted(_holders(scopes, device), key=lambda pair: -pair[1].bytes)
    number, _, unit = account.get("allocated", "").partition(" ")
    seen = sum({key: count for _, held in holders for key, count in held.memory.items()}.values())
    unseen = int(float(number or 0) * _UNITS.get(unit, 0)) - seen
    graphs = [pair for pair in holders if pair[1].graph]
    deepest = max(graphs, key=lambda pair: pair[1].graph, default=None)
    tensors = [v for s in scopes if not s.mine for v in s.values.values() if isinstance(v, torch.Tensor)]
    recording = _count_steps([t.grad_fn for t in tensors])  # by the learner's call that is under way
    told = ", ".join(f"{amount} {words}" for words, amount in account.items())
    report.headline = "the device's memory is full" + (f": {told}" if told else "")
    nowhere = f"{size(unseen)} are held by nothing that can be seen here"
    if not holders or unseen > holders[0][1].bytes:
        gathering = _gathering(scopes)
        if recording > (deepest[1].graph if deepest else 0):
            report.culprit = report.operation
            report.origin = f"for the backward pass, the call keeps what each of its steps made; {nowhere}"
        elif deepest is not None:
            report.culprit = deepest[0]
            report.origin = f"a gradient graph hangs on it, with all that the graph saved; {nowhere}"
        elif gathering:
            report.culprit = gathering
            report.origin = f"what it has gathered so far has no name yet; {nowhere}"
        elif unseen > 0:
            report.origin = nowhere
    else:
        report.culprit = holders[0][0]
        most = f"it holds {size(holders[0][1].bytes)}, more than any other name that can be seen from here"
        report.origin = most + (f"; {nowhere}" if unseen > seen / 10 else "")
    report.known = bool(report.culprit)
    shown = holders[:_SHOWN] + [pair for pair in graphs if pair is deepest and pair not in holders[:_SHOWN]]
    report.met = [
        Met(n, h.what, h.device, "with a gradient graph behind it" if h.graph else "", n == report.culprit)
        for n, h in shown
    ]
    graph = "keep `loss.item()` or `x.detach()` instead of what carries a graph, " if graphs else ""
    graph = "`torch.no_grad()` where no gradient is needed, " if recording and not graphs else graph
    also = "" if report.known or unseen <= 0 else f"{nowhere}: look at hooks, closures and other files; "
    report.note = (
        f"I know no single line that mends this: {also}{graph}`del` what is no longer needed, or take "
        "smaller batches; lesson 08 shows how to find what holds the memory"
    )


class _Held:
    """What one name holds on an accelerator: its memory, and how many steps hang on it as a graph."""

    def __init__(self, tensors: list[torch.Tensor]):
        self.memory = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
        self.bytes = sum(self.memory.values())
        self.device = str(tensors[0].device)
        self.graph = _count_steps([t.grad_fn for t in tensors if t.grad_fn is not None])
        shape = f"[{','.join(map(str, tensors[0].shape))}]"
        self.what = f"{shape if len(tensors) == 1 else f'{len(tensors)} tensors'}, {size(self.bytes)}"


def _count_steps(queue: list) -> int:
    """Return how many operations a graph recorded: a total over many losses has many times those of one."""
    seen = set()
    while queue and len(seen) < _MOST:
        step = queue.pop()
        if step is not None and step not in seen:
            seen.add(step)
            queue += [before for before, _ in step.next_functions]
    return len(seen)


def _gathering(scopes: list[Scope]) -> str:
    """Return the innermost comprehension in which a line of the learner's was; "" for none."""
    for scope in reversed(scopes):
        known = scope.mine and scope.source is not None and scope.failing in scope.source.parents
        if known and (found := scope.source.enclosing(scope.failing, _COMPREHENSIONS)):
            return scope.text(found)
    return ""


def _hooks(module: torch.nn.Module) -> list:
    tables = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    return [hook for inner in module.modules() for table in tables for hook in vars(inner)[table].values()]


def _holders(scopes: list[Scope], device: str) -> list[tuple[str, _Held]]:
    found, seen = [], set()
    for scope in (scope for scope in reversed(scopes) if scope.mine):
        wide = [(name, value) for name, value in scope.globals.items() if not name.startswith("_")]
        for name, value in [*roots(scope), *wide]:
            tensors = _tensors(value) if id(value) not in seen else []
            hooked = _tensors(_hooks(value)) if tensors and isinstance(value, torch.nn.Module) else []
            for whose, group in ((name, tensors), (f"the hooks of {name}", hooked)):
                if here := [t for t in group if not device or flow.same(str(t.device), device)]:
                    found.append((whose, _Held(here)))
            seen.add(id(value))
    return found


def _tensors(value: object) -> list[torch.Tensor]:
    """Return the accelerators' tensors that an object leads to, each once."""
    found, seen, queue = [], set(), [value]
    while queue and len(seen) < _MOST:
        one = queue.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, torch.Tensor):
            found += [one] if one.device.type not in ("cpu", "meta") and one.layout == torch.strided else []
            queue += [one.grad] if one.is_leaf and one.grad is not None else []
        else:
            queue += [item for _, _, item in children(one)]
    return found
