"""What each of PyTorch's operators does: compute, copy, wait, or only look at the same memory differently."""

from collections.abc import Iterator

import torch

from devlab.sim import waits

_SEQUENCES = (list, tuple)
_COPIES = frozenset({"_to_copy", "copy_"})
_MAKES_MEMORY = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
)
# They change how a tensor describes its memory, and touch no element.
_LOOKS = frozenset(
    {
        "_unsafe_view",
        "as_strided_",
        "detach_",
        "record_stream",
        "resize_",
        "set_",
        "squeeze_",
        "swapaxes_",
        "swapdims_",
        "t_",
        "transpose_",
        "unsqueeze_",
    }
)


class Kind:
    """What one operator does.

    `role` is "copy", "read" (one value, to Python), "arrive" (a tensor just made from Python's values),
    "index", or "" for any other. `only_looks` tells whether it only looks at memory differently, `works`
    whether it starts work, `allocates` whether what it returns is new memory, `is_plain` whether it works and
    nothing else, and `is_composite` whether it is made of other operators (None until it has been tried).
    `waits` tells from its arguments whether the host needs its outcome; it is None where the host never does.

    >>> Kind(torch.ops.aten.mm.default).works, Kind(torch.ops.aten.t.default).works
    (True, False)
    """

    __slots__ = ("allocates", "is_composite", "is_plain", "name", "only_looks", "role", "waits", "works")

    def __init__(self, operator):
        full = getattr(operator, "name", str)()
        self.name = waits.short(full)
        self.is_composite = None if hasattr(operator, "decompose") else False
        self.role = _role(self.name)
        in_place = self.name.endswith("_") or full.endswith(("out", "_out"))
        looks = getattr(operator, "is_view", False) or self.name in _LOOKS
        self.only_looks = looks and self.role == ""
        self.works = not looks and self.name not in _MAKES_MEMORY and self.role != "read"
        self.allocates = not looks and not in_place and self.role != "read"
        self.waits = None if self.role else waits.rule(full, getattr(operator, "tags", ()))
        self.is_plain = self.works and not self.waits and self.role == ""


def _role(name: str) -> str:
    if name in _COPIES:
        return "copy"
    if name in waits.INDEXING:
        return "index"
    return {"_local_scalar_dense": "read", "lift_fresh": "arrive"}.get(name, "")


_kinds: dict = {}


def kind_of(operator) -> Kind:
    """Return what an operator does, worked out once for each."""
    kind = _kinds.get(operator)
    if kind is None:
        kind = _kinds[operator] = Kind(operator)
    return kind


def accelerator(args: tuple, kwargs: dict) -> torch.device | None:
    """Return the first device other than the CPU among an operator's arguments, None if there is none.

    >>> accelerator((torch.ones(2), 1), {}) is None
    True
    >>> accelerator((3,), {"device": torch.device("meta")})
    device(type='meta')
    """
    for value in args:
        if isinstance(value, torch.Tensor):
            if not value.is_cpu:
                return value.device
        elif isinstance(value, _SEQUENCES):
            for item in value:
                if isinstance(item, torch.Tensor) and not item.is_cpu:
                    return item.device
    if kwargs:
        device = kwargs.get("device")
        if device is not None and device.type != "cpu":
            return _with_index(device)
        for value in kwargs.values():
            if isinstance(value, torch.Tensor) and not value.is_cpu:
                return value.device
    return None


def _with_index(device: torch.device) -> torch.device:
    """Return the device that a bare name means at the moment."""
    if device.index is not None or device.type == "meta":
        return device
    current = getattr(torch.get_device_module(device), "current_device", lambda: 0)
    return torch.device(device.type, current())


def tensors(result) -> Iterator[torch.Tensor]:
    """Yield the tensors that an operator returned.

    >>> len(list(tensors((torch.ones(1), None, [torch.ones(2)]))))
    2
    """
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, _SEQUENCES):
        for item in result:
            yield from tensors(item)


def new_bytes(result) -> int:
    """Return the bytes of what an operator returned.

    >>> new_bytes([torch.ones(3), torch.ones(2, dtype=torch.int64)])
    28
    """
    if isinstance(result, torch.Tensor):
        return result.numel() * result.itemsize
    return sum(tensor.numel() * tensor.itemsize for tensor in tensors(result))
