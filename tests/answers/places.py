"""Answers to places."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass

import torch
from bank import right, wrong
from torch.utils import _pytree


@right
def calls_itself(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    if isinstance(batch, dict):
        items = batch.values()
    elif isinstance(batch, list | tuple):
        items = batch
    else:
        return set()
    return set().union(*(calls_itself(item) for item in items))


@right
def with_a_stack(batch):
    found, waiting = set(), [batch]
    while waiting:
        value = waiting.pop()
        if torch.is_tensor(value):
            found.add(value.device)
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, (list, tuple)):
            waiting.extend(value)
    return found


@right
def with_a_generator(batch):
    def tensors(value):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, Mapping):
            for item in value.values():
                yield from tensors(item)
        elif isinstance(value, list | tuple):
            for item in value:
                yield from tensors(item)

    return {x.device for x in tensors(batch)}


@right
def with_pytree(batch):
    return {x.device for x in _pytree.tree_leaves(batch) if isinstance(x, torch.Tensor)}


@right
def with_an_accumulator(batch):
    found = set()

    def visit(value):
        match value:
            case torch.Tensor():
                found.add(value.device)
            case dict():
                for item in value.values():
                    visit(item)
            case list() | tuple():
                for item in value:
                    visit(item)

    visit(batch)
    return found


@right
def with_none_as_default(batch, found=None):
    found = set() if found is None else found
    if isinstance(batch, torch.Tensor):
        found.add(batch.device)
    elif isinstance(batch, dict):
        for item in batch.values():
            with_none_as_default(item, found)
    elif isinstance(batch, list | tuple):
        for item in batch:
            with_none_as_default(item, found)
    return found


@right
def frozen(batch):
    return frozenset(calls_itself(batch))


def items_of(batch):
    if isinstance(batch, dict):
        return list(batch.values())
    return list(batch) if isinstance(batch, list | tuple) else []


@wrong("a tensor in a list in a list was missed", row="looks into dicts, lists and tuples")
def top_level_only(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    return {item.device for item in items_of(batch) if isinstance(item, torch.Tensor)}


@wrong("the set holds a str, not a torch.device", row="a set of torch.device")
def strings(batch):
    return {str(device) for device in calls_itself(batch)}


@wrong("the set holds a str, not a torch.device", row="a set of torch.device")
def types(batch):
    return {device.type for device in calls_itself(batch)}


@wrong("the answer is a list, not a set", row="a set of torch.device")
def a_list(batch):
    return list(calls_itself(batch))


kept = set()


@wrong(
    "devices of an earlier batch are still in the set: it is kept from call to call",
    row="a set of torch.device",
)
def keeps_what_it_found(batch, found=kept):
    if isinstance(batch, torch.Tensor):
        found.add(batch.device)
    for item in items_of(batch):
        keeps_what_it_found(item, found)
    return found


@wrong("the batch is a tensor itself, and that counts too", row="a set of torch.device")
def containers_only(batch):
    found = set()
    for item in items_of(batch):
        found |= {item.device} if isinstance(item, torch.Tensor) else containers_only(item)
    return found


@wrong("a tensor in a list in a dict was missed", row="looks into dicts, lists and tuples")
def dicts_in_lists_only(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    if isinstance(batch, dict):
        return {item.device for item in batch.values() if isinstance(item, torch.Tensor)}
    return set().union(*(dicts_in_lists_only(item) for item in items_of(batch)))


@wrong("a tensor in a namedtuple was missed", row="looks into dicts, lists and tuples")
def exact_types(batch):
    if type(batch) is torch.Tensor:
        return {batch.device}
    if type(batch) is dict:
        return set().union(*map(exact_types, batch.values()))
    return set().union(*map(exact_types, batch)) if type(batch) in (list, tuple) else set()


@wrong("an empty tensor was missed", row="looks into dicts, lists and tuples")
def plain_tensors_only(batch):
    if type(batch) is torch.nn.Parameter:
        return set()
    if isinstance(batch, torch.Tensor):
        return {batch.device} if batch.numel() else set()
    return set().union(*map(plain_tensors_only, items_of(batch)))


@wrong("AttributeError: 'int' object has no attribute 'device'", row="looks into dicts, lists and tuples")
def tensors_expected(batch):
    if isinstance(batch, dict):
        return set().union(*map(tensors_expected, batch.values()))
    if isinstance(batch, list | tuple):
        return set().union(*map(tensors_expected, batch))
    return {batch.device}


@wrong(
    "a NumPy array was counted: its own `.device` is a text, and it is no tensor",
    row="passes over what is no tensor",
)
def anything_with_a_device(batch):
    if hasattr(batch, "device"):
        return {batch.device}
    return set().union(*map(anything_with_a_device, items_of(batch)))


@wrong("the set holds a NoneType, not a torch.device", row="looks into dicts, lists and tuples")
def none_for_the_rest(batch):
    if isinstance(batch, dict | list | tuple):
        return set().union(*map(none_for_the_rest, items_of(batch)))
    return {getattr(batch, "device", None)}


@wrong("the tensors of the batch are on ", row="names every device of a mixed batch")
def first_tensor(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    for item in items_of(batch):
        if found := first_tensor(item):
            return found
    return set()


@wrong("a tensor in a tuple was missed", row="looks into dicts, lists and tuples")
def no_tuples(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    if isinstance(batch, dict):
        return set().union(*map(no_tuples, batch.values()))
    return set().union(*map(no_tuples, batch)) if isinstance(batch, list) else set()


@wrong("a tensor in a tuple was missed", row="looks into dicts, lists and tuples")
def pairs_forgotten(batch):
    if isinstance(batch, list):
        return set().union(*(calls_itself(item) for item in batch))
    return set() if isinstance(batch, tuple) else calls_itself(batch)


@wrong("{kind} came without its index", row="a set of torch.device")
def without_the_index(batch):
    return {torch.device(device.type) for device in calls_itself(batch)}


@wrong("RecursionError", row="looks into dicts, lists and tuples")
def anything_iterable(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    items = batch.values() if isinstance(batch, dict) else batch
    try:
        return set().union(*map(anything_iterable, items))
    except TypeError:
        return set()


@wrong("was counted, and it is no tensor, dict, list or tuple", row="looks into dicts, lists and tuples")
def cpu_for_the_rest(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    found = set().union(*map(cpu_for_the_rest, items_of(batch)))
    return found or {torch.device("cpu")}


@wrong("needs an argument", row="looks into dicts, lists and tuples")
def unites_nothing(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    if isinstance(batch, dict | list | tuple):
        return set.union(*map(unites_nothing, items_of(batch)))
    return set()


@wrong("the answer is a dict, not a set", row="passes over what is no tensor")
def braces(batch):
    return calls_itself(batch) or {}


@wrong("the answer is None: is a `return` missing?", row="a set of torch.device")
def forgets_to_return(batch):
    calls_itself(batch)


@wrong("a parameter was missed", row="looks into dicts, lists and tuples")
def no_parameters(batch):
    if type(batch) is torch.Tensor:
        return {batch.device}
    return set().union(*map(no_parameters, items_of(batch)))


@wrong("an empty tensor was missed", row="looks into dicts, lists and tuples")
def nothing_in_it(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device} if batch.numel() else set()
    return set().union(*map(nothing_in_it, items_of(batch)))


@wrong(
    "{f32[3,2] cpu} was counted, and it is no tensor, dict, list or tuple",
    row="passes over what is no tensor",
)
def sets_too(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    return set().union(*map(sets_too, batch if isinstance(batch, set) else items_of(batch)))


@wrong("a tensor that is a key was counted", row="passes over what is no tensor")
def keys_as_well(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    if isinstance(batch, dict):
        batch = [*batch.keys(), *batch.values()]
    if isinstance(batch, list | tuple):
        return set().union(*(keys_as_well(item) for item in batch))
    return set()


@wrong("a tensor seven containers deep was missed", row="looks into dicts, lists and tuples")
def five_deep(batch, depth=5):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, list | tuple) and depth:
        return set().union(*(five_deep(item, depth - 1) for item in batch))
    return set()


@wrong("was counted, and it is no tensor, dict, list or tuple", row="passes over what is no tensor")
def searches_objects(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    if hasattr(batch, "__dict__") and not isinstance(batch, (dict, list, tuple)):
        batch = vars(batch)
    if isinstance(batch, dict):
        batch = batch.values()
    elif not isinstance(batch, (list, tuple)):
        return set()
    return set().union(*map(searches_objects, batch))


@right
def by_a_generator(batch):

    def walk(item):
        if isinstance(item, torch.Tensor):
            yield item.device
        if isinstance(item, dict):
            item = tuple(item.values())
        if isinstance(item, (tuple, list)):
            for one in item:
                yield from walk(one)

    return set(walk(batch))


@right
def none_as_default(batch, found=None):
    found = set() if found is None else found
    if isinstance(batch, torch.Tensor):
        found.add(batch.device)
    elif isinstance(batch, dict):
        for v in batch.values():
            none_as_default(v, found)
    elif isinstance(batch, (list, tuple)):
        for v in batch:
            none_as_default(v, found)
    return found


@right
def matched(batch):
    match batch:
        case torch.Tensor():
            return {batch.device}
        case dict():
            return {d for v in batch.values() for d in matched(v)}
        case list() | tuple():
            return {d for v in batch for d in matched(v)}
    return set()


@wrong(
    "Linear on cpu was counted, and it is no tensor, dict, list or tuple", row="passes over what is no tensor"
)
def modules_too(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    if isinstance(batch, torch.nn.Module):
        return {p.device for p in batch.parameters()}
    if isinstance(batch, dict):
        return set().union(*map(modules_too, batch.values()))
    if isinstance(batch, (list, tuple)):
        return set().union(*map(modules_too, batch))
    return set()


@wrong("a tensor in a dict in a list was missed", row="looks into dicts, lists and tuples")
def returns_in_the_loop(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        for item in batch:
            return returns_in_the_loop(item)
    return set()


@wrong("a tensor in a dict was missed", row="a set of torch.device")
def iterates_keys(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    if isinstance(batch, (list, tuple, dict)):
        return set().union(*map(iterates_keys, batch))
    return set()


@wrong("TypeError: 'NoneType' object is not iterable", row="looks into dicts, lists and tuples")
def none_for_others(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    if isinstance(batch, dict):
        return set().union(*map(none_for_others, batch.values()))
    if isinstance(batch, (list, tuple)):
        return set().union(*map(none_for_others, batch))
    return None


@wrong("the answer is an int, not a set", row="a set of torch.device")
def as_the_lesson_counts_texts(batch):
    if isinstance(batch, str):
        return 1
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, list | tuple):
        return sum(as_the_lesson_counts_texts(item) for item in batch)
    return 0


@wrong("was counted, and it is no tensor, dict, list or tuple", row="passes over what is no tensor")
def any_sequence(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    if isinstance(batch, Mapping):
        return set().union(*map(any_sequence, batch.values()))
    if isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
        return set().union(*map(any_sequence, batch))
    return set()


@wrong("was counted, and it is no tensor, dict, list or tuple", row="passes over what is no tensor")
def dataclasses_too(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    if is_dataclass(batch):
        batch = asdict(batch)
    return set().union(*map(dataclasses_too, items_of(batch)))


@wrong("was counted, and it is no tensor, dict, list or tuple", row="passes over what is no tensor")
def whatever_has_a_torch_device(batch):
    if isinstance(device := getattr(batch, "device", None), torch.device):
        return {device}
    return set().union(*map(whatever_has_a_torch_device, items_of(batch)))


@wrong("was counted, and it is no tensor, dict, list or tuple", row="passes over what is no tensor")
def frozen_sets_too(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    items = batch if isinstance(batch, frozenset) else items_of(batch)
    return set().union(*map(frozen_sets_too, items))


@wrong("a tensor in a list in a namedtuple was missed", row="looks into dicts, lists and tuples")
def the_first_field_alone(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    items = batch[:1] if hasattr(batch, "_fields") else items_of(batch)
    return set().union(*map(the_first_field_alone, items))


@wrong("a tensor of integers was missed", row="looks into dicts, lists and tuples")
def floating_tensors_alone(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device} if batch.is_floating_point() else set()
    return set().union(*map(floating_tensors_alone, items_of(batch)))


@wrong("a tensor under a key that is a number was missed", row="looks into dicts, lists and tuples")
def under_names_alone(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    if isinstance(batch, dict):
        batch = [value for key, value in batch.items() if isinstance(key, str)]
    return set().union(*map(under_names_alone, items_of(batch)))


@wrong("a tensor forty containers deep was missed", row="looks into dicts, lists and tuples")
def ten_deep(batch, depth=10):
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    return set().union(*(ten_deep(item, depth - 1) for item in items_of(batch) if depth))


@right
def in_a_class_that_visits(batch):
    class Visitor:
        def __init__(self):
            self.found = set()

        def visit(self, value):
            if isinstance(value, torch.Tensor):
                self.found.add(value.device)
            for item in items_of(value):
                self.visit(item)

    visitor = Visitor()
    visitor.visit(batch)
    return visitor.found


@right
def flattened_first(batch):
    def flat(value):
        if isinstance(value, dict | list | tuple):
            return [leaf for item in items_of(value) for leaf in flat(item)]
        return [value]

    return {leaf.device for leaf in flat(batch) if isinstance(leaf, torch.Tensor)}


@right
def by_tree_map(batch):
    found = set()
    _pytree.tree_map_only(torch.Tensor, lambda x: found.add(x.device), batch)
    return found


@wrong("a tensor in a graph was missed", row="looks into dicts, lists and tuples")
def leaves_of_graphs_alone(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device} if batch.is_leaf else set()
    return set().union(*map(leaves_of_graphs_alone, items_of(batch)))


@wrong("a transposed view was missed", row="looks into dicts, lists and tuples")
def contiguous_tensors_alone(batch):
    if isinstance(batch, torch.Tensor):
        return {batch.device} if batch.is_contiguous() else set()
    return set().union(*map(contiguous_tensors_alone, items_of(batch)))
