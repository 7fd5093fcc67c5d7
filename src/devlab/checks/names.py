"""Names of tensors: where a module or a batch holds tensors, and lists of their names that answers return."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

import torch
from torch import nn

from devlab.checks.calls import list_items
from devlab.checks.expect import fail, kind
from devlab.checks.values import a_type


class Found(NamedTuple):
    """A tensor that something holds: its dotted name, and in words where it is."""

    name: str
    tensor: torch.Tensor
    words: str


def find_tensors(value: object, name: str, where: str, leave_out: Collection[int] = ()) -> Iterator[Found]:
    """Yield every tensor in nested modules, dicts, lists and tuples, once for each of its names.

    `where` says what holds the value; modules whose ids are in `leave_out` are not entered.

    >>> for found in find_tensors({"x": [torch.ones(1)]}, "batch", "the batch"):
    ...     print(found.name, "is", found.words)
    batch.x.0 is in a list in the batch
    """
    how = "an attribute of" if isinstance(value, nn.Module) else "in"
    for key, item in () if id(value) in leave_out else list_items(value):
        yield from _enter(item, f"{name}.{key}", where, how, leave_out)


def _enter(value: object, name: str, where: str, how: str, leave_out: Collection[int]) -> Iterator[Found]:
    if not isinstance(value, torch.Tensor):
        yield from find_tensors(value, name, f"{a_type(value)} in {where}", leave_out)
        return
    facts = {
        "a parameter": isinstance(value, nn.Parameter),
        "no parameter": value.requires_grad and not isinstance(value, nn.Parameter),
        "a result in a graph": not value.is_leaf,
        "a single number": value.ndim == 0,
        "private or not": "._" in name,
    }
    yield Found(name, value, ", ".join([f"{how} {where}", *(words for words, true in facts.items() if true)]))


def expect_names(got: object, tensors: Iterable[Found], unwanted: Callable[[str], str]) -> None:
    """Expect a list with the name of each tensor once, in any order; of several names of a tensor, any.

    `unwanted` says what is wrong with any other name.

    >>> expect_names(["a"], [Found("a", torch.ones(1), "an attribute")], lambda name: "is no tensor")
    """
    kind(got, list, "a list", "the answer")
    for item in got:
        kind(item, str, "a str", "an item of the list")
    groups: dict[int, list[str]] = {}
    tensors = list(tensors)
    for found in tensors:
        groups.setdefault(id(found.tensor), []).append(found.name)
    memories = [found.tensor.untyped_storage().data_ptr() for found in tensors if found.tensor.numel()]
    words = {found.name: found.words for found in tensors}
    for name, tensor, _ in tensors:
        if memories.count(tensor.untyped_storage().data_ptr()) > len(groups[id(tensor)]):
            words[name] += ", a tensor of its own, although others share its memory"
    asked = ", ".join(names[0] for names in groups.values()) or "an empty list"
    said = ", ".join(got) or "an empty list"
    for names in groups.values():
        count = sum(got.count(name) for name in names)
        if count == 0:
            other = next((item for item in got if item not in words and _is_part(item, names)), None)
            named = f"is named `{other}`" if other else "is missing"
            fail(f"`{names[0]}` {named}: it is {words[names[0]]}", asked, said)
        if count > 1:
            times = "twice" if count == 2 else f"{count} times"
            fail(f"one tensor is listed {times}: {' or '.join(f'`{name}`' for name in names)}", asked, said)
    for name in got:
        if name not in words:
            fail(f"`{name}` {unwanted(name)}", asked, said)


def _is_part(name: str, names: Iterable[str]) -> bool:
    """Tell whether a name is another whose path lacks its first steps, or has more before them."""
    return any(one.endswith(f".{name}") or name.endswith(f".{one}") for one in names)
