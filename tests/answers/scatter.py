"""Answers to scatter."""

import torch
from bank import right, wrong
from torch.utils import _pytree as pytree


def in_form(batch, devices, f):
    if isinstance(batch, torch.Tensor):
        return f(batch, devices)
    if isinstance(batch, dict):
        c = {k: in_form(v, devices, f) for k, v in batch.items()}
        return [{k: v[i] for k, v in c.items()} for i in range(len(devices))]
    c = [in_form(v, devices, f) for v in batch]
    return [type(batch)(v[i] for v in c) for i in range(len(devices))]


@right
def one_device_at_a_time(batch, devices):
    def share(value, place):
        if torch.is_tensor(value):
            return torch.tensor_split(value, len(devices))[place].to(devices[place])
        if isinstance(value, dict):
            return {key: share(item, place) for key, item in value.items()}
        return type(value)(share(item, place) for item in value)

    return [share(batch, place) for place in range(len(devices))]


@right
def items_first(batch, devices):
    if isinstance(batch, torch.Tensor):
        return [part.to(at) for part, at in zip(batch.tensor_split(len(devices)), devices, strict=True)]
    if isinstance(batch, dict):
        parts = {key: items_first(value, devices) for key, value in batch.items()}
        return [{key: parts[key][i] for key in parts} for i in range(len(devices))]
    return [type(batch)(part) for part in zip(*(items_first(item, devices) for item in batch), strict=True)]


@right
def by_boundaries(batch, devices):
    n = len(devices)

    def cut(value, i):
        if isinstance(value, dict):
            return {key: cut(item, i) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)([cut(item, i) for item in value])
        return value[i * len(value) // n : (i + 1) * len(value) // n].to(devices[i])

    return tuple(cut(batch, i) for i in range(n))


@right
def by_pytorchs_own_trees(batch, devices):
    flat, tree = pytree.tree_flatten(batch)
    cuts = [tensor.tensor_split(len(devices)) for tensor in flat]
    return [
        pytree.tree_unflatten([cut[i].to(device) for cut in cuts], tree) for i, device in enumerate(devices)
    ]


@right
def copies_of_their_own(batch, devices):
    def sizes(rows):
        each, more = divmod(rows, len(devices))
        return [each + (place < more) for place in range(len(devices))]

    def walk(value, place):
        match value:
            case dict():
                return {key: walk(item, place) for key, item in value.items()}
            case list():
                return [walk(item, place) for item in value]
            case tuple():
                return tuple(walk(item, place) for item in value)
        return value.split(sizes(len(value)))[place].to(devices[place], copy=True)

    return [walk(batch, place) for place in range(len(devices))]


def _walk(batch, devices, cut):
    if torch.is_tensor(batch):
        return cut(batch, devices)
    if isinstance(batch, dict):
        parts = {key: _walk(value, devices, cut) for key, value in batch.items()}
        return [{key: parts[key][i] for key in parts} for i in range(len(devices))]
    parts = [_walk(value, devices, cut) for value in batch]
    return [type(batch)(part[i] for part in parts) for i in range(len(devices))]


@wrong(
    "10 rows for 4 devices became parts of [3, 3, 3, 1]", row="as equal as possible, one part for each device"
)
def by_chunk(batch, devices):
    def cut(x, devices):
        return [part.to(at) for part, at in zip(x.chunk(len(devices)), devices)]  # noqa: B905

    if torch.is_tensor(batch):
        return cut(batch, devices)
    return one_device_at_a_time(batch, devices)


@wrong(
    "10 rows for 4 devices became parts of [2, 2, 2, 4]", row="as equal as possible, one part for each device"
)
def the_rest_to_the_last(batch, devices):
    def cut(x, devices):
        each, last = len(x) // len(devices), len(devices) - 1
        return [x[i * each : None if i == last else (i + 1) * each].to(at) for i, at in enumerate(devices)]

    return _walk(batch, devices, cut)


@wrong("4 of 5 rows are in the parts", row="consecutive parts, each on its device")
def the_rest_dropped(batch, devices):
    def cut(x, devices):
        each = len(x) // len(devices)
        return [x[i * each : (i + 1) * each].to(at) for i, at in enumerate(devices)]

    return _walk(batch, devices, cut)


@wrong("part 0 holds every 2nd row", row="consecutive parts, each on its device")
def every_nth_row(batch, devices):
    return _walk(batch, devices, lambda x, to: [x[i :: len(to)].to(at) for i, at in enumerate(to)])


@wrong("part 1 is on cpu, not", row="consecutive parts, each on its device")
def cut_but_not_moved(batch, devices):
    return _walk(batch, devices, lambda x, to: list(x.tensor_split(len(to))))


@wrong("8 rows for 2 devices became parts of [8, 8]", row="consecutive parts, each on its device")
def a_copy_to_each(batch, devices):
    return _walk(batch, devices, lambda x, to: [x.to(at) for at in to])


@wrong("part 0 is on ", row="consecutive parts, each on its device")
def devices_reversed(batch, devices):
    return one_device_at_a_time(batch, devices[::-1])


@wrong("your code raised AttributeError", row="nested batches keep their form")
def tensors_alone(batch, devices):
    return [part.to(at) for part, at in zip(batch.tensor_split(len(devices)), devices, strict=True)]


@wrong("8 rows for 2 devices became parts of [8, 8]", row="consecutive parts, each on its device")
def along_the_last(batch, devices):
    return _walk(
        batch,
        devices,
        lambda x, to: [p.to(at) for p, at in zip(x.tensor_split(len(to), -1), to, strict=True)],
    )


@wrong("part 0 is a list, not a dict", row="nested batches keep their form")
def the_nesting_lost(batch, devices):
    if torch.is_tensor(batch):
        return one_device_at_a_time(batch, devices)
    return [list(part.values()) for part in one_device_at_a_time(batch, devices)]


@wrong("part 0['more'][1] is a list, not a tuple", row="nested batches keep their form")
def tuples_become_lists(batch, devices):
    def lists(value):
        if isinstance(value, dict):
            return {key: lists(item) for key, item in value.items()}
        return [lists(item) for item in value] if isinstance(value, list | tuple) else value

    return [lists(part) for part in one_device_at_a_time(batch, devices)]


@wrong("the result is None: is a `return` missing?", row="consecutive parts, each on its device")
def no_return(batch, devices):
    one_device_at_a_time(batch, devices)


@wrong("the keys of part 0 are in another order", row="nested batches keep their form")
def keys_sorted(batch, devices):
    parts = items_first(batch, devices)
    return [{key: part[key] for key in sorted(part)} if isinstance(part, dict) else part for part in parts]


@wrong(
    "a part for the CPU was returned while its copy was still under way, and nothing waits for it",
    row="a part on the CPU has arrived",
)
def to_the_cpu_without_waiting(batch, devices):
    if isinstance(batch, torch.Tensor):
        return [
            p.to(d, non_blocking=True) for p, d in zip(batch.tensor_split(len(devices)), devices, strict=True)
        ]
    if isinstance(batch, dict):
        cut = {key: to_the_cpu_without_waiting(value, devices) for key, value in batch.items()}
        return [{key: cut[key][i] for key in cut} for i in range(len(devices))]
    cut = [to_the_cpu_without_waiting(value, devices) for value in batch]
    return [type(batch)(one) for one in zip(*cut, strict=True)]


@wrong("part 0 is torch.float32, not torch.bfloat16", row="consecutive parts, each on its device")
def floats_in_float32(batch, devices):
    if isinstance(batch, torch.Tensor):
        dtype = torch.float32 if batch.is_floating_point() else batch.dtype
        return [p.to(d, dtype) for p, d in zip(batch.tensor_split(len(devices)), devices, strict=True)]
    if isinstance(batch, dict):
        cut = {key: floats_in_float32(value, devices) for key, value in batch.items()}
        return [{key: cut[key][i] for key in cut} for i in range(len(devices))]
    cut = [floats_in_float32(value, devices) for value in batch]
    return [type(batch)(one) for one in zip(*cut, strict=True)]


@wrong("the values of part 0 are wrong", row="consecutive parts, each on its device")
def by_way_of_float32(batch, devices):
    if not torch.is_tensor(batch):
        return items_first(batch, devices)
    return [part.to(batch.dtype) for part in items_first(batch.float(), devices)]


@wrong(
    "your code changed the current device of the whole program",
    row=("consecutive parts, each on its device", "a part moves once, or not at all"),
)
def goes_there_for_good(batch, devices):
    if devices[-1].type != "cpu":
        torch.accelerator.set_device_index(devices[-1].index)
    return items_first(batch, devices)


@right
def longer_parts_last(batch, devices):

    def f(t, ds):
        n = len(t)
        q, r = divmod(n, len(ds))
        out = []
        s = 0
        for i, d in enumerate(ds):
            k = q + (1 if i >= len(ds) - r else 0)
            out.append(t[s : s + k].to(d))
            s += k
        return out

    return in_form(batch, devices, f)


@right
def by_sizes(batch, devices):
    k = len(devices)
    return in_form(
        batch,
        devices,
        lambda t, ds: [
            p.to(d) for p, d in zip(t.split([(len(t) + k - 1 - i) // k for i in range(k)]), ds, strict=False)
        ],
    )


@wrong("3 parts for 4 devices", row="as equal as possible, one part for each device")
def each_device_once(batch, devices):
    ds = list(dict.fromkeys(devices))
    return in_form(
        batch, ds, lambda t, ds: [p.to(d) for p, d in zip(t.tensor_split(len(ds)), ds, strict=False)]
    )


@wrong(
    "231 bytes were transferred, and 99 are enough: cut first, then move",
    row="a part moves once, or not at all",
)
def moved_whole(batch, devices):
    return in_form(batch, devices, lambda t, ds: [t.to(d).tensor_split(len(ds))[i] for i, d in enumerate(ds)])


@wrong("10 rows for 4 devices became parts of [3, 3, 3, 1]", row="nested batches keep their form")
def by_chunk_where_it_nests(batch, devices):
    if torch.is_tensor(batch):
        return items_first(batch, devices)

    def cut(x, devices):
        parts = [*x.chunk(len(devices)), *[x[:0]] * len(devices)]
        return [part.to(at) for part, at in zip(parts, devices, strict=False)]

    return _walk(batch, devices, cut)


@wrong("part 0 is a Tensor, not a tuple", row="nested batches keep their form")
def a_tuple_of_one_is_what_is_in_it(batch, devices):
    if isinstance(batch, tuple) and len(batch) == 1:
        return a_tuple_of_one_is_what_is_in_it(batch[0], devices)
    return items_first(batch, devices)


@wrong("2 parts for 3 devices", row="nested batches keep their form")
def fewer_parts_for_fewer_rows(batch, devices):
    if torch.is_tensor(batch):
        return items_first(batch, devices)
    rows = len(pytree.tree_leaves(batch)[0])
    return items_first(batch, devices[: max(rows, 1)])


@wrong(
    "a part for the CPU was returned while its copy was still under way, and nothing waits for it",
    row="a part on the CPU has arrived",
)
def one_tensor_without_waiting(batch, devices):
    if not torch.is_tensor(batch):
        return items_first(batch, devices)
    parts = batch.tensor_split(len(devices))
    return [part.to(at, non_blocking=True) for part, at in zip(parts, devices, strict=True)]
