"""Which operators make the host wait for the device, as on CUDA: those whose outcome the host must know.

A mask must be counted before there is room for what it selects; indices in the host's memory are copied over
first; a checked decomposition is asked whether it succeeded, while the `_ex` forms leave that to the caller.
The simulator waits by this table, and `devlab.watch` counts by it, on every accelerator.
"""

import torch

from devlab.sim.storage import is_number

MASKS = frozenset({torch.bool, torch.uint8})
INDEXING = frozenset(
    {"index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put"}
)

_TAGS = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})
_CHECKED = frozenset(
    {
        "_linalg_check_errors",
        "_linalg_eigh",
        "_linalg_eigvals",
        "_linalg_svd",
        "cholesky",
        "linalg_eig",
        "linalg_lstsq",
    }
)


def short(name: str) -> str:
    """Return an operator's name without its library and overload.

    >>> short("aten::index.Tensor"), short("aten::cholesky")
    ('index', 'cholesky')
    """
    return name.rpartition("::")[2].partition(".")[0]


def rule(name: str, tags):
    """Return what tells from an operator's arguments whether the host waits; None where it never does.

    >>> rule("aten::add.Tensor", ()) is None, rule("aten::cholesky", ())((), {})
    (True, True)
    """
    if short(name) in INDEXING:
        return _by_index
    return _unless_size_is_given if short(name) in _CHECKED or _TAGS & set(tags) else None


def _unless_size_is_given(args, kwargs) -> bool:
    """The size that `repeat_interleave` is given need not be found out."""
    return kwargs.get("output_size") is None


def _by_index(args, kwargs) -> bool:
    """Masks are counted; indices in the host's memory are copied, and so is one number that is written."""
    if len(args) > 2:
        if fills_mask(args):
            return False
        if args[2].numel() == 1 and (args[2].is_cpu or is_number(args[2])):
            return True
    return any(i is not None and (i.dtype in MASKS or (i.is_cpu and i.dim() > 0)) for i in args[1])


def counts_mask(args) -> bool:
    """Tell whether reading or writing by index has to count the True elements of a mask on the device."""
    if len(args) > 2 and fills_mask(args):
        return False
    return any(i is not None and i.dtype in MASKS and not i.is_cpu for i in args[1])


def fills_mask(args) -> bool:
    """Tell whether `index_put_` writes a single value of the host under one mask, which needs no count.

    >>> fills_mask((torch.ones(2), [torch.tensor([True, False])], torch.tensor(0.0)))
    True
    """
    target, indices, value, *accumulate = args
    given = [index for index in indices if index is not None]
    return (
        value.numel() == 1
        and (value.is_cpu or is_number(value))
        and not any(accumulate[:1])
        and len(given) == 1
        and given[0].dtype in MASKS
        and given[0].device == target.device
    )
