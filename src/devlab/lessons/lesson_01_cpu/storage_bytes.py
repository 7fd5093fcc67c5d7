"""How many bytes the storage behind a tensor takes."""

import torch

from devlab.lessons.lesson_01_cpu import each_dtype, expect_bytes, lesson, refuse_getsizeof

storage_bytes = lesson.exercise(
    "storage_bytes",
    signature="storage_bytes(x)",
    facts=("C2",),
    hints=(
        "A view has no memory of its own. The numbers are in a storage, which it may share with other "
        "tensors; ask the storage how big it is.",
        "`x.untyped_storage()` is the memory behind x, whatever the dtype.",
        "The whole body is `return x.untyped_storage().nbytes()`.",
    ),
)


def _storage(trial, x: torch.Tensor, wanted: int, size: int, what: str) -> None:
    mistaken = {
        "those are its own elements, not the storage behind them": x.numel() * size,
        "that is the number of elements in the storage, not of bytes": wanted // size,
        f"every element was counted as 4 bytes, but one of {x.dtype} takes {size}": wanted // size * 4,
        "that is the part of the storage up to the view's last element": _reach(x) * size,
        "that is the part of the storage from the view's first element on": wanted
        - x.storage_offset() * size,
        **{
            f"that is rounded up to a multiple of {unit}": -(-wanted // unit) * unit for unit in (512, 64, 16)
        },
        "that is the storage's bytes times the size of one element": wanted * size,
    }
    refuse_getsizeof(trial, x)
    expect_bytes(trial.call(x), wanted, what, mistaken)


def _reach(x: torch.Tensor) -> int:
    """Return how many elements of the storage lie before or under the last element of x."""
    steps = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    return x.storage_offset() + steps + 1 if x.numel() else x.storage_offset()


@storage_bytes.row("a tensor of its own: the elements' bytes")
def storage_of_a_whole_tensor(trial):
    for x, size in each_dtype(trial):
        own = x.clone()
        _storage(trial, own, own.numel() * size, size, f"a {own.dtype} tensor with a storage of its own")


@storage_bytes.row("a view: all that is behind it")
def storage_of_a_view(trial):
    x = trial.randn(6, 5, seed=trial.seeds[0])
    for view in (x[1:3], x[:, 2], x.t()[1:4], x[::2, ::3][1:], x[4, 4], x[:0]):
        what = f"the storage behind a view of shape {list(view.shape)}"
        _storage(trial, view, 6 * 5 * 4, 4, what)
    _storage(trial, x.half()[2:], 6 * 5 * 2, 2, "the storage behind a view in float16")


@storage_bytes.row("an expanded view: less than it shows")
def storage_of_an_expanded_view(trial):
    row = trial.randn(1, 5, seed=trial.seeds[1])
    _storage(trial, row.expand(7, 5), 5 * 4, 4, "the storage behind an expanded view")


@storage_bytes.row("a view that does not know its base")
def storage_without_a_base(trial):
    # `_base` is autograd's note, not the memory's: a detached slice has none and keeps it all alive.
    x = trial.randn(9, 4, seed=trial.seeds[2])
    for view in (x[2:5].detach(), x[:3].detach(), torch.nn.Parameter(x[2:5])):
        headline = "a detached slice still has the whole storage behind it"
        expect_bytes(trial.call(view), 9 * 4 * 4, "the storage", {headline: view.nbytes})


@storage_bytes.row("a copy of a view: its own storage again")
def storage_of_a_copy(trial):
    x = trial.randn(9, 4, seed=trial.seeds[2])
    for copy in (x[2:5].clone(), x[:, 1].contiguous()):
        _storage(trial, copy, copy.numel() * 4, 4, "the storage of a copied slice")
    _storage(trial, trial.randn(0), 0, 4, "an empty tensor of its own")
