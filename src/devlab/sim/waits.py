"""Which operators make the host wait for the device, as on CUDA: those whose outcome the host must know.

A mask must be counted before there is room for what it selects; indices in the host's memory are copied over
first; a checked decomposition is asked whether it succeeded, while the `_ex` forms leave that to the caller.
"""

import torch

from devlab.sim.storage import is_number

_TAGS = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})
_CHECKED = frozenset(
    {
        "aten::_linalg_check_errors",
        "aten::_linalg_eigh",
        "aten::_linalg_eigvals",
        "aten::_linalg_svd",
        "aten::cholesky",
        "aten::linalg_eig",
        "aten::linalg_lstsq",
    }
)
_MASKS = frozenset({torch.bool, torch.uint8})
_READING = frozenset({"aten::index.Tensor", "aten::_unsafe_index.Tensor"})
_WRITING = frozenset(
    {"aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index_put"}
)


def rule(name: str, tags):
    """Return what tells from an operator's arguments whether the host waits; None where it never does."""
    if name in _READING:
        return _by_index
    if name in _WRITING:
        return _by_index_or_value
    return _always if name in _CHECKED or _TAGS & set(tags) else None


def _always(args) -> bool:
    return True


def _by_index(args) -> bool:
    """Masks are counted, and indices in the host's memory are copied."""
    return any(i is not None and (i.dtype in _MASKS or (i.is_cpu and i.dim() > 0)) for i in args[1])


def _by_index_or_value(args) -> bool:
    """A single value of the host fills a mask, which nobody has to count; else it is copied over first."""
    target, indices, value, *accumulate = args
    hosts = value.numel() == 1 and (value.is_cpu or is_number(value))
    if hosts and not any(accumulate[:1]) and _one_mask(indices, target):
        return False
    return hosts or _by_index(args)


def _one_mask(indices, target) -> bool:
    """Return whether one mask, on the device of what it selects from, is all that there is of indices."""
    given = [index for index in indices if index is not None]
    return len(given) == 1 and given[0].dtype in _MASKS and given[0].device == target.device
