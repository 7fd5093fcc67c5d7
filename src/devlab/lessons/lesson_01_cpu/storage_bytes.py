"""How many bytes the storage behind a tensor takes."""

import torch

from devlab.checks import verbs
from devlab.lessons.lesson_01_cpu import each_dtype, expect_bytes, lesson

storage_bytes = lesson.exercise(
    "storage_bytes",
    signature="storage_bytes(x)",
    facts=("C2",),
    hints=(
        "A view has no memory of its own. Its numbers are in a storage, which it may share with other "
        "tensors. Ask the storage how many bytes it has.",
        "`x.untyped_storage()` is the memory behind x, whatever the dtype.",
        "The whole body is `return x.untyped_storage().nbytes()`.",
    ),
)


def _storage(trial, x: torch.Tensor, count: int, what: str) -> None:
    """Expect the bytes of a storage of `count` elements."""
    size = x.dtype.itemsize
    wanted = count * size
    # `steps` counts the storage's elements from x's first to its last; `reach` counts those before x, too.
    steps = sum((one - 1) * stride for one, stride in zip(x.shape, x.stride(), strict=True)) + 1
    reach = x.storage_offset() + steps * bool(x.numel())
    slips = {
        "those are its own elements, not the storage behind them": x.numel() * size,
        "that is the number of elements in the storage, not of bytes": count,
        f"every element was counted as 4 bytes, but one of {x.dtype} takes {size}": count * 4,
        "that is the part of the storage up to the view's last element": reach * size,
        "that is the part of the storage from the view's first element on": wanted
        - x.storage_offset() * size,
        **{
            f"that is rounded up to a multiple of {unit}": -(-wanted // unit) * unit for unit in (512, 64, 16)
        },
        "that is the storage's bytes times the size of one element": wanted * size,
    }
    expect_bytes(trial, x, wanted, what, slips)


@storage_bytes.row("a tensor of its own: the elements' bytes")
def storage_of_a_whole_tensor(trial):
    for x in each_dtype(trial):
        _storage(trial, x.clone(), x.numel(), f"a {x.dtype} tensor with a storage of its own")


@storage_bytes.row("a view: all that is behind it")
def storage_of_a_view(trial):
    x = trial.randn(6, 5, seed=trial.seeds[0])
    for view in (x[1:3], x[:, 2], x.t()[1:4], x[::2, ::3][1:], x[4, 4], x[:0]):
        _storage(trial, view, 6 * 5, f"the storage behind a view of shape {list(view.shape)}")
    _storage(trial, x.half()[2:], 6 * 5, "the storage behind a view in float16")


@storage_bytes.row("an expanded view: less than it shows")
def storage_of_an_expanded_view(trial):
    row = trial.randn(1, 5, seed=trial.seeds[1])
    _storage(trial, row.expand(7, 5), 5, "the storage behind an expanded view")
    part = trial.randn(9, 4, seed=trial.seeds[1])[2:3]
    _storage(trial, part.expand(7, 4), 9 * 4, "the storage behind an expanded part of a tensor")


@storage_bytes.row("a view that does not know its base")
def storage_without_a_base(trial):
    # Only autograd sets `_base`: a detached slice has none, and still keeps the whole storage alive.
    x = trial.randn(9, 4, seed=trial.seeds[2])
    for view in (x[2:5].detach(), x[:3].detach(), torch.nn.Parameter(x[2:5])):
        slip = {"a detached slice still has the whole storage behind it": view.nbytes}
        headline = "the storage takes {wanted} bytes, the answer says {got}"
        verbs.number(trial.call(view), 9 * 4 * 4, headline, slip, "{wanted} bytes", "{got} bytes")


@storage_bytes.row("a copy of a view: its own storage again")
def storage_of_a_copy(trial):
    x = trial.randn(9, 4, seed=trial.seeds[2])
    for copy in (x[2:5].clone(), x[:, 1].contiguous()):
        _storage(trial, copy, copy.numel(), "the storage of a copied slice")
    _storage(trial, trial.randn(0), 0, "an empty tensor of its own")
