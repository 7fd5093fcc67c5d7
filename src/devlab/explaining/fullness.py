"""A device whose memory is full: what holds it, as far as names reach."""

import re

import torch

from devlab.explaining.error import Problem
from devlab.explaining.reach import children, roots
from devlab.explaining.report import Explanation, Met
from devlab.explaining.scope import Scope
from devlab.watching.memory import size

_SAYS = (
    ("asked for", r"[Tt]ried to allocate ([\d.]+ \w+)"),
    ("allocated", r"([\d.]+ \w+) is allocated by PyTorch|(?:MPS|XPU) allocated: ([\d.]+ \w+)"),
    ("reserved and free", r"([\d.]+ \w+) is reserved by PyTorch but unallocated"),
    ("in all", r"total capacity of ([\d.]+ \w+)|max allowed: ([\d.]+ \w+)"),
)
_SHOWN = 5
_MOST = 20_000


def explain_full(report: Explanation, scopes: list[Scope], problem: Problem) -> None:
    """No memory is left: the names that hold most of it, and PyTorch's own account."""
    account = []
    for words, pattern in _SAYS:
        if found := re.search(pattern, problem.message):
            account.append(f"{next(filter(None, found.groups()))} {words}")
    holders = sorted(_holders(scopes), key=lambda pair: -pair[1].bytes)[:_SHOWN]
    report.headline = "the device's memory is full" + (f": {', '.join(account)}" if account else "")
    report.met = [
        Met(name, held.what, held.device, "with a gradient graph behind it" if held.graph else "", n == 0)
        for n, (name, held) in enumerate(holders)
    ]
    if holders:
        name, held = holders[0]
        report.known, report.culprit = True, name
        report.origin = f"it holds {size(held.bytes)}, more than any other name that can be seen from here"
    graph = (
        "keep `loss.item()` or `x.detach()` instead of what carries a graph, " if _any_graph(holders) else ""
    )
    report.note = (
        f"I know no single line that mends this: {graph}`del` what is no longer needed, or take smaller "
        "batches; lesson 08 shows how to find what holds the memory"
    )


class _Held:
    """What one name holds on accelerators: bytes, tensors, and whether a graph hangs on them."""

    def __init__(self, tensors: list[torch.Tensor]):
        memory = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
        self.bytes = sum(memory.values())
        self.device = str(tensors[0].device)
        self.graph = any(t.grad_fn is not None for t in tensors)
        shape = f"[{','.join(map(str, tensors[0].shape))}]"
        self.what = f"{shape if len(tensors) == 1 else f'{len(tensors)} tensors'}, {size(self.bytes)}"


def _holders(scopes: list[Scope]) -> list[tuple[str, _Held]]:
    found, seen = [], set()
    for scope in (scope for scope in reversed(scopes) if scope.mine):
        wide = [(name, value) for name, value in scope.globals.items() if not name.startswith("_")]
        for name, value in [*roots(scope), *wide]:
            if id(value) not in seen and (tensors := _tensors(value)):
                found.append((name, _Held(tensors)))
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


def _any_graph(holders: list[tuple[str, _Held]]) -> bool:
    return any(held.graph for _, held in holders)
