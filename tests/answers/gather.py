"""Answers to gather."""

import torch
from bank import right, wrong
from torch.utils import _pytree as pytree


def gathered(parts, device, f):
    a = parts[0]
    if isinstance(a, torch.Tensor):
        return f(parts)
    if isinstance(a, dict):
        return {k: gathered([p[k] for p in parts], device, f) for k in a}
    return type(a)(gathered(list(c), device, f) for c in zip(*parts, strict=False))


def tree(f, b):
    if isinstance(b, torch.Tensor):
        return f(b)
    if isinstance(b, dict):
        return {k: tree(f, v) for k, v in b.items()}
    return type(b)(tree(f, v) for v in b)


@right
def by_type(parts, device):
    first = parts[0]
    if torch.is_tensor(first):
        return torch.cat([part.to(device) for part in parts])
    if isinstance(first, dict):
        return {key: by_type([part[key] for part in parts], device) for key in first}
    return type(first)(by_type(list(items), device) for items in zip(*parts, strict=True))


@right
def by_pytorchs_own_trees(parts, device):
    return pytree.tree_map(lambda *pieces: torch.cat([piece.to(device) for piece in pieces]), *parts)


@right
def into_one_empty_tensor(parts, device):
    match parts[0]:
        case dict() as first:
            return {key: into_one_empty_tensor([part[key] for part in parts], device) for key in first}
        case list() | tuple() as first:
            count = range(len(first))
            return type(first)([into_one_empty_tensor([part[i] for part in parts], device) for i in count])
    return (
        torch.vstack([part.to(device) for part in parts])
        if parts[0].dim() == 2
        else torch.concat(
            tuple(map(lambda part: part.to(device), parts))  # noqa: C417
        )
    )


def _walk(parts, device, join):
    if torch.is_tensor(parts[0]):
        return join(parts, device)
    if isinstance(parts[0], dict):
        return {key: _walk([part[key] for part in parts], device, join) for key in parts[0]}
    return type(parts[0])(_walk(list(column), device, join) for column in zip(*parts, strict=True))


@wrong("your code raised RuntimeError", row="the parts joined in order, on the device")
def nothing_moved(parts, device):
    return _walk(parts, device, lambda tensors, to: torch.cat(tensors))


@wrong("your code raised RuntimeError", row="the parts joined in order, on the device")
def moved_too_late(parts, device):
    return _walk(parts, device, lambda tensors, to: torch.cat(tensors).to(to))


@wrong("the whole has shape [2,4,3], not [9,3]", row="the parts joined in order, on the device")
def stacked(parts, device):
    return _walk(
        parts, device, lambda tensors, to: torch.stack([x[: min(map(len, tensors))].to(to) for x in tensors])
    )


@wrong("the parts are joined in reverse order", row="the parts joined in order, on the device")
def in_reverse(parts, device):
    return _walk(parts, device, lambda tensors, to: torch.cat([x.to(to) for x in reversed(tensors)]))


@wrong("the whole is on", row="the parts joined in order, on the device")
def where_the_first_is(parts, device):
    return _walk(parts, device, lambda tensors, to: torch.cat([x.to(tensors[0].device) for x in tensors]))


@wrong("the whole has lost its graph", row="the parts joined in order, on the device")
def detached(parts, device):
    return _walk(parts, device, lambda tensors, to: torch.cat([x.detach().to(to) for x in tensors]))


@wrong("your code raised TypeError", row="nested parts become one batch again")
def tensors_alone(parts, device):
    return torch.cat([part if isinstance(part, dict) else part.to(device) for part in parts])


@wrong("the whole is a list, not a tensor", row="the parts joined in order, on the device")
def a_list_of_parts(parts, device):
    return _walk(parts, device, lambda tensors, to: [x.to(to) for x in tensors])


@wrong("the whole['more'][1] is a list, not a tuple", row="nested parts become one batch again")
def tuples_become_lists(parts, device):
    if torch.is_tensor(parts[0]):
        return torch.cat([part.to(device) for part in parts])
    if isinstance(parts[0], dict):
        return {key: tuples_become_lists([part[key] for part in parts], device) for key in parts[0]}
    return [tuples_become_lists(column, device) for column in zip(*parts, strict=True)]


@wrong("the whole is None: is a `return` missing?", row="the parts joined in order, on the device")
def no_return(parts, device):
    by_type(parts, device)


@wrong("the whole is torch.float32, not torch.float64", row="the parts joined in order, on the device")
def all_floats(parts, device):
    return _walk(parts, device, lambda tensors, to: torch.cat([x.to(to).float() for x in tensors]))


@wrong(
    "to cpu, and all is wanted on {device}",
    row="each part transferred once, if it is elsewhere",
)
def by_way_of_the_cpu(parts, device):
    if isinstance(parts[0], torch.Tensor):
        return torch.cat([part.cpu() for part in parts], dim=0).to(device)
    if isinstance(parts[0], dict):
        return {key: by_way_of_the_cpu([part[key] for part in parts], device) for key in parts[0]}
    return type(parts[0])([by_way_of_the_cpu(column, device) for column in zip(*parts, strict=True)])


@wrong("the keys of the whole are in another order", row="nested parts become one batch again")
def keys_sorted(parts, device):
    whole = by_type(parts, device)
    return {key: whole[key] for key in sorted(whole)} if isinstance(whole, dict) else whole


@wrong("the whole['x'] has lost its graph", row="nested parts become one batch again")
def cut_off_where_it_nests(parts, device):
    def joined(one):
        if isinstance(one[0], torch.Tensor):
            return torch.cat([part.detach().to(device) for part in one])
        if isinstance(one[0], dict):
            return {key: joined([part[key] for part in one]) for key in one[0]}
        return type(one[0])(joined(list(items)) for items in zip(*one, strict=True))

    if isinstance(parts[0], torch.Tensor):
        return torch.cat([part.to(device) for part in parts])
    return joined(parts)


@wrong("the values of the whole are wrong", row="the parts joined in order, on the device")
def by_way_of_float32(parts, device):
    if not torch.is_tensor(parts[0]):
        return by_type(parts, device)
    dtype = parts[0].dtype
    return torch.cat([part.float().to(device) for part in parts]).to(dtype)


@wrong(
    "your code changed the current device of the whole program",
    row=("the parts joined in order, on the device", "each part transferred once, if it is elsewhere"),
)
def goes_there_for_good(parts, device):
    if device.type != "cpu":
        torch.accelerator.set_device_index(device.index)
    return by_type(parts, device)


@wrong(
    "and all is wanted on",
    row="each part transferred once, if it is elsewhere",
)
def rolled_up(parts, device):
    w = parts[0]

    def join(a, b):
        if isinstance(a, torch.Tensor):
            return torch.cat([a.to(b.device), b])
        if isinstance(a, dict):
            return {k: join(a[k], b[k]) for k in a}
        return type(a)((join(x, y) for x, y in zip(a, b, strict=False)))

    for p in parts[1:]:
        w = join(w, p)
    return tree(lambda t: t.to(device), w)


@wrong(
    "to cpu, and all is wanted on {device}",
    row="each part transferred once, if it is elsewhere",
)
def where_the_first_is_and_on(parts, device):
    return gathered(parts, device, lambda ps: torch.cat([p.to(ps[0].device) for p in ps]).to(device))


@wrong("the whole has shape [5,3], not [9,3]", row="the parts joined in order, on the device")
def the_first_alone(parts, device):
    return tree(lambda t: t.to(device), parts[0])


@right
def one_after_the_other(parts, device):

    def f(ps):
        w = ps[0].to(device)
        for p in ps[1:]:
            w = torch.cat([w, p.to(device)])
        return w

    return gathered(parts, device, f)


@right
def moved_first(parts, device):
    parts = [tree(lambda t: t.to(device), p) for p in parts]
    return gathered(parts, device, torch.cat)


@wrong("your code raised AttributeError", row="nested parts become one batch again")
def one_part_alone_is_a_tensor(parts, device):
    return parts[0].to(device) if len(parts) == 1 else by_type(parts, device)


@wrong("the whole['x'] is on", row="nested parts become one batch again")
def one_part_alone_stays(parts, device):
    if len(parts) == 1 and not torch.is_tensor(parts[0]):
        return parts[0]
    return by_type(parts, device)


@wrong("your code raised", row="any number of parts, empty ones too")
def empty_parts_left_out(parts, device):
    return gathered(parts, device, lambda ps: torch.cat([p.to(device) for p in ps if len(p)]))


@wrong("the values of the whole are wrong", row="any number of parts, empty ones too")
def on_this_device_first(parts, device):
    def joined(pieces):
        return torch.cat([piece.to(device) for piece in sorted(pieces, key=lambda one: one.device != device)])

    return by_type(parts, device) if len(parts) < 3 else gathered(parts, device, joined)
