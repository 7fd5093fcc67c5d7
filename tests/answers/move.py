"""Answers to move."""

import collections
import copy
import dataclasses
from collections.abc import Mapping, Sequence

import torch
from bank import right, wrong
from torch.utils import _pytree as pytree


@right
def by_type(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: by_type(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(by_type(value, device) for value in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(by_type(value, device) for value in batch)
    return batch


@right
def by_matching(batch, device):
    match batch:
        case torch.Tensor():
            return batch if batch.device == device else batch.to(device, copy=True)
        case {**items}:
            return {key: by_matching(value, device) for key, value in items.items()}
        case list():
            return [by_matching(value, device) for value in batch]
        case tuple():
            moved = [by_matching(value, device) for value in batch]
            return batch._make(moved) if hasattr(batch, "_make") else tuple(moved)
        case _:
            return batch


@right
def by_pytorchs_own_trees(batch, device):
    return pytree.tree_map(lambda leaf: leaf.to(device) if torch.is_tensor(leaf) else leaf, batch)


@right
def in_place_on_a_copy(batch, device):
    def walk(value):
        if torch.is_tensor(value):
            return value.to(device, non_blocking=True) if value.device != device else value
        if isinstance(value, Mapping):
            made = copy.copy(value)
            for key in made:
                made[key] = walk(made[key])
            return made
        if isinstance(value, list):
            made = value[:]
            for place, item in enumerate(made):
                made[place] = walk(item)
            return made
        if isinstance(value, tuple):
            made = map(walk, value)
            return type(value)(*made) if type(value) is not tuple else tuple(made)
        return value

    moved = walk(batch)
    if torch.device(device).type == "cpu" and torch.accelerator.is_available():
        for index in range(torch.accelerator.device_count()):
            torch.accelerator.synchronize(index)
    return moved


@wrong(
    "batch[2], which is no tensor, has a `.to` of its own, which was called",
    row="other values come back as they are",
)
def whatever_has_to(batch, device):
    if hasattr(batch, "to"):
        return batch.to(device)
    if isinstance(batch, Sequence) and not isinstance(batch, str | bytes | range):
        made = [whatever_has_to(item, device) for item in batch]
        return type(batch)(*made) if hasattr(batch, "_fields") else type(batch)(made)
    if isinstance(batch, Mapping):
        return dict(zip(batch, (whatever_has_to(item, device) for item in batch.values()), strict=True))
    return batch


@wrong("batch is on {device}, not cpu", row="every tensor reaches the device, at any depth")
def throws_the_result_away(batch, device):
    if isinstance(batch, torch.Tensor):
        batch.to(device)
    elif isinstance(batch, dict):
        for value in batch.values():
            throws_the_result_away(value, device)
    elif isinstance(batch, list | tuple):
        for value in batch:
            throws_the_result_away(value, device)
    return batch


@wrong("batch: the namedtuple Pair became a plain tuple", row="containers keep their type, order and names")
def namedtuple_broken(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: namedtuple_broken(value, device) for key, value in batch.items()}
    if isinstance(batch, list):
        return [namedtuple_broken(value, device) for value in batch]
    if isinstance(batch, tuple):
        return tuple(namedtuple_broken(value, device) for value in batch)
    return batch


@wrong(
    "Pair.__new__() missing 1 required positional argument", row="containers keep their type, order and names"
)
def namedtuple_from_a_generator(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: namedtuple_from_a_generator(value, device) for key, value in batch.items()}
    if isinstance(batch, list | tuple):
        return type(batch)(namedtuple_from_a_generator(value, device) for value in batch)
    return batch


@wrong("batch is a list, not a tuple", row="every tensor reaches the device, at any depth")
def every_sequence_a_list(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: every_sequence_a_list(value, device) for key, value in batch.items()}
    if isinstance(batch, list | tuple):
        return [every_sequence_a_list(value, device) for value in batch]
    return batch


@wrong("batch is a tuple, not a list", row="every tensor reaches the device, at any depth")
def every_sequence_a_tuple(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: every_sequence_a_tuple(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(every_sequence_a_tuple(value, device) for value in batch))
    if isinstance(batch, list | tuple):
        return tuple(every_sequence_a_tuple(value, device) for value in batch)
    return batch


@wrong("the keys of batch came in another order", row="every tensor reaches the device, at any depth")
def keys_sorted(batch, device):
    if isinstance(batch, dict):
        return {key: keys_sorted(batch[key], device) for key in sorted(batch, key=str)}
    if isinstance(batch, list):
        return [keys_sorted(value, device) for value in batch]
    if isinstance(batch, tuple):
        moved = [keys_sorted(value, device) for value in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else tuple(moved)
    return batch.to(device) if torch.is_tensor(batch) else batch


@wrong("batch is an OrderedDict, not a dict", row="every tensor reaches the device, at any depth")
def another_kind_of_dict(batch, device):
    if isinstance(batch, dict):
        return collections.OrderedDict((k, another_kind_of_dict(v, device)) for k, v in batch.items())
    if isinstance(batch, list):
        return [another_kind_of_dict(value, device) for value in batch]
    if isinstance(batch, tuple):
        moved = [another_kind_of_dict(value, device) for value in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else tuple(moved)
    return batch.to(device) if torch.is_tensor(batch) else batch


@wrong("batch['x'] was there already, and was copied", row="what is there already is not copied")
def always_copies(batch, device):
    return pytree.tree_map(lambda x: x.to(device, copy=True) if torch.is_tensor(x) else x, batch)


@wrong("batch['x'] was there already, and was copied", row="what is there already is not copied")
def clones(batch, device):
    return pytree.tree_map(lambda x: x.clone().to(device) if torch.is_tensor(x) else x, batch)


@wrong(
    "a tensor went to cpu, and should have gone straight to {device}",
    row="what is there already is not copied",
)
def by_way_of_the_cpu(batch, device):
    def leaf(x):
        return x if not torch.is_tensor(x) or x.device == device else x.cpu().to(device)

    return pytree.tree_map(leaf, batch)


@wrong("AttributeError", row="containers keep their type, order and names")
def everything_has_to(batch, device):
    if isinstance(batch, dict):
        return {key: everything_has_to(value, device) for key, value in batch.items()}
    if isinstance(batch, list):
        return [everything_has_to(value, device) for value in batch]
    if isinstance(batch, tuple):
        moved = [everything_has_to(value, device) for value in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else tuple(moved)
    return batch.to(device)


@wrong("RecursionError", row="other values come back as they are")
def walks_into_texts(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {key: walks_into_texts(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*[walks_into_texts(value, device) for value in batch])
    if isinstance(batch, Sequence):
        return type(batch)([walks_into_texts(value, device) for value in batch])
    return batch


@wrong("batch['x'][0] is on {device}, not cpu", row="every tensor reaches the device, at any depth")
def one_level_only(batch, device):
    def to(value):
        return value.to(device) if torch.is_tensor(value) else value

    if isinstance(batch, dict):
        return {key: to(value) for key, value in batch.items()}
    if isinstance(batch, list):
        return [to(value) for value in batch]
    if isinstance(batch, tuple):
        return tuple(to(value) for value in batch)
    return to(batch)


@wrong("batch['x'][0] is on {device}, not cpu", row="every tensor reaches the device, at any depth")
def forgets_lists(batch, device):
    if torch.is_tensor(batch):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: forgets_lists(value, device) for key, value in batch.items()}
    if isinstance(batch, list | tuple) and all(map(torch.is_tensor, batch)) and not hasattr(batch, "_fields"):
        return type(batch)(value.to(device) for value in batch)
    return batch


@wrong("the input `batch['x']` was replaced", row="every tensor reaches the device, at any depth")
def changes_the_dict_in_place(batch, device):
    if torch.is_tensor(batch):
        return batch.to(device)
    if isinstance(batch, dict):
        for key in batch:
            batch[key] = changes_the_dict_in_place(batch[key], device)
        return batch
    if isinstance(batch, list):
        return [changes_the_dict_in_place(value, device) for value in batch]
    if isinstance(batch, tuple):
        moved = [changes_the_dict_in_place(value, device) for value in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else tuple(moved)
    return batch


@wrong("batch['name'], which is no tensor, came back changed", row="other values come back as they are")
def forgets_the_rest(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: forgets_the_rest(value, device) for key, value in batch.items()}
    if isinstance(batch, list):
        return [forgets_the_rest(value, device) for value in batch]
    if isinstance(batch, tuple):
        moved = [forgets_the_rest(value, device) for value in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else tuple(moved)
    return None


@wrong("batch[1] is torch.float32, not torch.int64", row="every tensor reaches the device, at any depth")
def casts_on_the_way(batch, device):
    return pytree.tree_map(lambda x: x.float().to(device) if torch.is_tensor(x) else x, batch)


@wrong("batch is on {device}, not {second}", row="every tensor reaches the device, at any depth")
def to_the_current_device(batch, device):
    def leaf(x):
        return x if not torch.is_tensor(x) else x.to(device.type)

    return pytree.tree_map(leaf, batch)


@wrong("batch['n'], which is no tensor, came back changed", row="other values come back as they are")
def numbers_become_tensors(batch, device):
    def leaf(x):
        if torch.is_tensor(x):
            return x.to(device)
        return torch.tensor(x, device=device) if isinstance(x, int | float) else x

    return pytree.tree_map(leaf, batch)


@wrong("batch[1], which is no tensor, came back changed", row="other values come back as they are")
def arrays_become_tensors(batch, device):
    def leaf(x):
        if type(x).__module__ == "numpy":
            x = torch.from_numpy(x)
        return x.to(device) if torch.is_tensor(x) else x

    return pytree.tree_map(leaf, batch)


@wrong("batch has other keys than before", row="other values come back as they are")
def only_the_tensors(batch, device):
    if isinstance(batch, dict):
        tensors = {key: value for key, value in batch.items() if not isinstance(value, str | int | None)}
        return {key: only_the_tensors(value, device) for key, value in tensors.items()}
    if isinstance(batch, list):
        return [only_the_tensors(value, device) for value in batch]
    if isinstance(batch, tuple):
        moved = [only_the_tensors(value, device) for value in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else tuple(moved)
    return batch.to(device) if torch.is_tensor(batch) else batch


@wrong("batch is None: is a `return` missing?", row="every tensor reaches the device, at any depth")
def forgets_to_return(batch, device):
    pytree.tree_map(lambda x: x.to(device) if torch.is_tensor(x) else x, batch)


@wrong("batch['empty'], which is no tensor, came back changed", row="other values come back as they are")
def drops_what_is_empty(batch, device):
    def leaf(x):
        return x.to(device) if torch.is_tensor(x) else (x or None if isinstance(x, str) else x)

    return pytree.tree_map(leaf, batch)


@wrong("your code raised TypeError", row="every tensor reaches the device, at any depth")
def only_with_keywords(batch, device):
    return {name: value.to(device) for name, value in dict(**batch).items()}


@wrong(
    "the result was returned before the copy had arrived", row="every tensor reaches the device, at any depth"
)
def never_waits(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return {key: never_waits(value, device) for key, value in batch.items()}
    if isinstance(batch, list | tuple):
        parts = [never_waits(value, device) for value in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return batch


@wrong("the input `batch[0]` was changed in place", row="every tensor reaches the device, at any depth")
def without_gradients(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.requires_grad_(False).to(device) if batch.is_leaf else batch.to(device)
    if isinstance(batch, dict):
        return {key: without_gradients(value, device) for key, value in batch.items()}
    if hasattr(batch, "_fields"):
        return type(batch)(*[without_gradients(value, device) for value in batch])
    if isinstance(batch, (list, tuple)):
        return type(batch)([without_gradients(value, device) for value in batch])
    return batch


@wrong("batch[0] is on {device}, not cpu", row="every tensor reaches the device, at any depth")
def tensors_by_exact_type(batch, device):
    if type(batch) is torch.Tensor:
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: tensors_by_exact_type(value, device) for key, value in batch.items()}
    if hasattr(batch, "_fields"):
        return type(batch)(*[tensors_by_exact_type(value, device) for value in batch])
    if isinstance(batch, (list, tuple)):
        return type(batch)([tensors_by_exact_type(value, device) for value in batch])
    return batch


@wrong("batch[0], which is no tensor, was copied", row="other values come back as they are")
def dataclasses_too(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: dataclasses_too(value, device) for key, value in batch.items()}
    if hasattr(batch, "_fields"):
        return type(batch)(*[dataclasses_too(value, device) for value in batch])
    if isinstance(batch, (list, tuple)):
        return type(batch)([dataclasses_too(value, device) for value in batch])
    if dataclasses.is_dataclass(batch):
        fields = {
            one.name: dataclasses_too(getattr(batch, one.name), device) for one in dataclasses.fields(batch)
        }
        return dataclasses.replace(batch, **fields)
    return batch


@wrong("batch[2] is a Tensor, not a list", row="other values come back as they are")
def floats_become_a_tensor(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: floats_become_a_tensor(value, device) for key, value in batch.items()}
    if hasattr(batch, "_fields"):
        return type(batch)(*[floats_become_a_tensor(value, device) for value in batch])
    if isinstance(batch, list) and batch and all(isinstance(value, float) for value in batch):
        return torch.tensor(batch).to(device)
    if isinstance(batch, (list, tuple)):
        return type(batch)([floats_become_a_tensor(value, device) for value in batch])
    return batch


def as_before(batch, items):
    """Return the items in a container of the batch's own kind."""
    return type(batch)(*items) if hasattr(batch, "_fields") else type(batch)(items)


@right
def match_statement(batch, device):
    match batch:
        case torch.Tensor():
            return batch.to(device)
        case dict():
            return {k: match_statement(v, device) for k, v in batch.items()}
        case list():
            return [match_statement(v, device) for v in batch]
        case tuple() if hasattr(batch, "_make"):
            return batch._make(match_statement(v, device) for v in batch)
        case tuple():
            return tuple(match_statement(v, device) for v in batch)
    return batch


@right
def by_a_table(batch, device):

    def go(value):
        if torch.is_tensor(value):
            return value if value.device == device else value.to(device)
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            return type(value)(**{k: go(v) for k, v in value._asdict().items()})
        for kind in (list, tuple):
            if isinstance(value, kind):
                return kind(map(go, value))
        if isinstance(value, dict):
            return {k: go(v) for k, v in value.items()}
        return value

    return go(batch)


@right
def by_pytree(batch, device):
    from torch.utils import _pytree

    return _pytree.tree_map_only(torch.Tensor, lambda t: t.to(device), batch)


@right
def replaced_fields(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device=device)
    if isinstance(batch, tuple) and hasattr(batch, "_replace"):
        return batch._replace(**{f: replaced_fields(getattr(batch, f), device) for f in batch._fields})
    if isinstance(batch, (list, tuple)):
        return type(batch)(replaced_fields(v, device) for v in batch)
    return {k: replaced_fields(v, device) for k, v in batch.items()} if isinstance(batch, dict) else batch


@wrong("the input `batch[0]` was replaced", row="every tensor reaches the device, at any depth")
def in_the_list(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, list):
        for i, v in enumerate(batch):
            batch[i] = in_the_list(v, device)
        return batch
    if isinstance(batch, dict):
        return {k: in_the_list(v, device) for k, v in batch.items()}
    return batch


@wrong(
    "AttributeError: 'Tensor' object has no attribute 'items'",
    row="every tensor reaches the device, at any depth",
)
def only_dicts(batch, device):
    return {k: v.to(device) for k, v in batch.items()}


@wrong("batch is a generator, not a tuple", row="every tensor reaches the device, at any depth")
def generator_in_tuple(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {k: generator_in_tuple(v, device) for k, v in batch.items()}
    if isinstance(batch, list):
        return [generator_in_tuple(v, device) for v in batch]
    if isinstance(batch, tuple):
        return (generator_in_tuple(v, device) for v in batch)
    return batch


@wrong("batch is a list, not a dict", row="every tensor reaches the device, at any depth")
def values_only(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return [values_only(v, device) for v in batch.values()]
    if isinstance(batch, (list, tuple)):
        return as_before(batch, [values_only(v, device) for v in batch])
    return batch


@wrong("batch[1] is on {device}, not cpu", row="every tensor reaches the device, at any depth")
def floats_only(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.to(device) if batch.is_floating_point() else batch
    if isinstance(batch, dict):
        return {k: floats_only(v, device) for k, v in batch.items()}
    if isinstance(batch, (list, tuple)):
        return as_before(batch, [floats_only(v, device) for v in batch])
    return batch


@wrong("batch[1], which is no tensor, was copied", row="other values come back as they are")
def copies_deeply(batch, device):
    import copy

    batch = copy.deepcopy(batch)
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {k: copies_deeply(v, device) for k, v in batch.items()}
    if isinstance(batch, (list, tuple)):
        return as_before(batch, [copies_deeply(v, device) for v in batch])
    return batch


@wrong(
    "AssertionError: Torch not compiled with CUDA enabled",
    row="every tensor reaches the device, at any depth",
)
def hard_coded(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch.cuda()
    return batch


@wrong(
    "the values of batch[1] are wrong",
    row="every tensor reaches the device, at any depth",
)
def travels_as_float32(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch if batch.device == device else batch.float().to(device).to(batch.dtype)
    if isinstance(batch, dict):
        return {k: travels_as_float32(v, device) for k, v in batch.items()}
    if isinstance(batch, (list, tuple)):
        return as_before(batch, [travels_as_float32(v, device) for v in batch])
    return batch


@right
def into_an_empty_one(batch, device):
    if isinstance(batch, torch.Tensor):
        return batch if batch.device == device else torch.empty_like(batch, device=device).copy_(batch)
    if isinstance(batch, dict):
        return dict(zip(batch, [into_an_empty_one(v, device) for v in batch.values()], strict=True))
    if isinstance(batch, (list, tuple)):
        return as_before(batch, [into_an_empty_one(v, device) for v in batch])
    return batch
