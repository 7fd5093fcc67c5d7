"""How many bytes a tensor's elements take."""

import torch

from devlab.checks.cases import holds
from devlab.lessons.lesson_01_cpu import each_dtype, expect_bytes, lesson

tensor_bytes = lesson.exercise(
    "tensor_bytes",
    signature="tensor_bytes(x)",
    facts=("C2",),
    hints=(
        "The answer follows from two numbers: how many elements there are, and how many bytes one of them "
        "takes. The tensor knows both.",
        "`x.numel()` counts the elements, and `x.element_size()` is the size of one in bytes.",
        "The whole body is `return x.numel() * x.element_size()`. PyTorch also has the product: `x.nbytes`.",
    ),
)


def _elements(trial, x: torch.Tensor, what: str) -> None:
    size = x.dtype.itemsize
    slips = {
        "that is the storage behind it, not its own elements": x.untyped_storage().nbytes(),
        "that is the number of elements, not of bytes": x.numel(),
        f"every element was counted as 4 bytes, but one of {x.dtype} takes {size}": 4 * x.numel(),
        f"every element was counted as 8 bytes, but one of {x.dtype} takes {size}": 8 * x.numel(),
        "that is the size of one element": size,
        "those are bits, and a byte has 8 of them": 8 * x.numel() * size,
        "only the first dimension was counted": x.shape[0] * size if x.dim() else None,
        "a single number has one element, and was counted as none": None if x.dim() else 0,
    }
    expect_bytes(trial, x, x.numel() * size, what, slips)


@tensor_bytes.row("one element's size follows from its dtype")
def elements_of_each_dtype(trial):
    for x in each_dtype(trial):
        _elements(trial, x.clone(), f"a tensor of {x.numel()} elements of {x.dtype}")


@tensor_bytes.row("a view counts its own elements only")
def elements_of_a_view(trial):
    x = trial.randn(6, 5, seed=trial.seeds[0])
    views = (x[1:3], x[:, 2], x.t()[1:4], x[::2, ::3], x.view(-1)[7:], x.half()[2:], x.view(2, 3, 5)[:, 1:])
    for view in views:
        _elements(trial, view, f"a view of {view.numel()} elements")


@tensor_bytes.row("an expanded view counts all that it shows")
def elements_of_an_expanded_view(trial):
    row = trial.randn(1, 5, seed=trial.seeds[1])
    for view in (row.expand(7, 5), row.double().expand(3, 5) if holds(row.device, torch.float64) else row):
        _elements(trial, view, f"a view that shows {view.numel()} elements")


@tensor_bytes.row("an empty tensor takes 0 bytes, a number its size")
def elements_of_little(trial):
    x = trial.randn(4, 3)
    for little in (x[:0], x.sum(), x.sum().half(), torch.nn.Parameter(x)):
        _elements(trial, little, f"a tensor of shape {list(little.shape)}")
