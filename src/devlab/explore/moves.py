"""What a line of code moves of a module: the place of each tensor before and after, and if a step runs."""

import copy
import functools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from devlab.explore.specimens import SPECIMENS

CALLS = (
    "model.to(device)",
    "model.to(torch.float16)",
    "for p in model.parameters(): p.to(device)",
    "model.load_state_dict(saved_on_device)",
    "model.load_state_dict(saved_on_device, assign=True)",
    "model = copy.deepcopy(model).to(device)",
)


@dataclass(frozen=True)
class Row:
    """A line of the tree: its path, its text, and for a tensor its kind and its place before and after."""

    path: tuple[str, ...]
    text: str
    kind: str = ""
    saved: bool = False
    before: tuple[str, str] = ("", "")  # device and dtype
    after: tuple[str, str] = ("", "")

    @property
    def name(self) -> str:
        """Return the path as PyTorch writes it."""
        return ".".join(self.path)

    @property
    def moved(self) -> bool:
        """Tell whether it is on another device than before."""
        return self.before[0] != self.after[0]


@dataclass(frozen=True)
class Move:
    """The tree, whether a training step with a batch on the device runs then, and what is wrong with it."""

    rows: tuple[Row, ...]
    runs: bool
    trouble: str = ""

    @property
    def tensors(self) -> list[Row]:
        """Return the rows that are tensors."""
        return [row for row in self.rows if row.kind]


@functools.lru_cache(maxsize=64)
def move(specimen: str, call: str, device: str) -> Move:
    """Make a module on the CPU, run one line, read all the places, and try a training step on the device.

    >>> [row.name for row in move("a table as a plain attribute", CALLS[0], "meta").tensors if not row.moved]
    ['mean']
    """
    model, optimizer = SPECIMENS[specimen]()
    names = {"torch": torch, "copy": copy, "device": device, "model": model}
    if "saved_on_device" in call:
        names["saved_on_device"] = copy.deepcopy(model).to(device).state_dict()
    before = list(_tree(model, optimizer))
    old = [_place(tensor) for _, _, _, tensor in before]
    exec(call, names)
    model = names["model"]
    saved = {id(tensor) for tensor in model.state_dict(keep_vars=True).values()}
    rows = tuple(
        Row(path, text, kind, id(tensor) in saved, was, _place(tensor))
        for (path, text, kind, tensor), was in zip(_tree(model, optimizer), old, strict=True)
    )
    return Move(rows, *_try(model, optimizer, device))


def _place(tensor: torch.Tensor | None) -> tuple[str, str]:
    if tensor is None:
        return "", ""
    return str(tensor.device), str(tensor.dtype).removeprefix("torch.")


def _tree(model: nn.Module, optimizer) -> Iterator[tuple]:
    """Yield path, text, kind and tensor of all that a module and its optimizer hold."""
    yield (), f"model: {type(model).__name__}", "", None
    yield from _inside(model, (), "")
    if optimizer is None:
        return
    yield (), f"optimizer: {type(optimizer).__name__}", "", None
    for (name, _), state in zip(model.named_parameters(), optimizer.state.values(), strict=True):
        for what, tensor in state.items():
            yield (what, name), f"{what} of {name}", "optimizer state", tensor


def _inside(module: nn.Module, path: tuple[str, ...], container: str) -> Iterator[tuple]:
    """Yield what a module holds, the registered first; `container` is the plain kind that it is in."""
    hidden = f"in a plain {container}" if container else ""
    for name, tensor in module.named_parameters(recurse=False):
        yield (*path, name), name, hidden or "parameter", tensor
    for name, tensor in module.named_buffers(recurse=False):
        yield (*path, name), name, hidden or "buffer", tensor
    for name, child in module.named_children():
        yield (*path, name), f"{name}: {type(child).__name__}", "", None
        yield from _inside(child, (*path, name), container)
    for name, value in vars(module).items():
        if isinstance(value, torch.Tensor):
            yield (*path, name), name, hidden or "plain attribute", value
        elif isinstance(value, list | dict) and not name.startswith("_"):
            yield from _contents(value, (*path, name))


def _contents(values: list | dict, path: tuple[str, ...]) -> Iterator[tuple]:
    """Yield what a plain container holds; `.to` sees none of it."""
    kind = type(values).__name__
    yield path, f"{path[-1]}: {kind}", "", None
    for key, value in values.items() if isinstance(values, dict) else enumerate(values):
        inner = (*path, str(key))
        if isinstance(value, nn.Module):
            yield inner, f"{key}: {type(value).__name__}", "", None
            yield from _inside(value, inner, kind)
        elif isinstance(value, torch.Tensor):
            yield inner, str(key), f"in a plain {kind}", value


def _try(model: nn.Module, optimizer, device: str) -> tuple[bool, str]:
    """Return whether a training step with a batch on the device runs, and what is wrong with it."""
    first = next(model.parameters())
    before = first.detach().clone()
    try:
        model(torch.ones(2, 3, device=device)).sum().backward()
        if optimizer is not None:
            optimizer.step()
    except RuntimeError as error:
        return False, f"{type(error).__name__}: {str(error).splitlines()[0]}"
    if optimizer is not None and torch.equal(first, before):
        return True, "The optimizer holds the parameters of before: it trains none of the model's."
    return True, ""
