"""How many bytes a tensor's elements take."""

import torch

from devlab.devices import has_float64
from devlab.lessons.lesson_01_cpu import each_dtype, expect_bytes, lesson, refuse_getsizeof

tensor_bytes = lesson.exercise(
    "tensor_bytes",
    signature="tensor_bytes(x)",
    facts=("C2",),
    hints=(
        "Two facts make the answer: how many elements there are, and how many bytes one of them takes. "
        "A tensor tells both.",
        "`x.numel()` counts the elements, and `x.element_size()` is the size of one in bytes.",
        "The whole body is `return x.numel() * x.element_size()`. PyTorch also has the product: `x.nbytes`.",
    ),
)


def _elements(trial, x: torch.Tensor, size: int, what: str) -> None:
    mistaken = {
        "that is the storage behind it, not its own elements": x.untyped_storage().nbytes(),
        "that is the number of elements, not of bytes": x.numel(),
        f"every element was counted as 4 bytes, but one of {x.dtype} takes {size}": 4 * x.numel(),
        f"every element was counted as 8 bytes, but one of {x.dtype} takes {size}": 8 * x.numel(),
        "that is the size of one element": size,
        "those are bits, and a byte has 8 of them": 8 * x.numel() * size,
        "only the first dimension was counted": x.shape[0] * size if x.dim() else -1,
        "a single number has one element, and was counted as none": -1 if x.dim() else 0,
    }
    refuse_getsizeof(trial, x)
    expect_bytes(trial.call(x), x.numel() * size, what, mistaken)


@tensor_bytes.row("one element's size follows from its dtype")
def elements_of_each_dtype(trial):
    for x, size in each_dtype(trial):
        _elements(trial, x.clone(), size, f"a tensor of {x.numel()} elements of {x.dtype}")


@tensor_bytes.row("a view counts its own elements only")
def elements_of_a_view(trial):
    x = trial.randn(6, 5, seed=trial.seeds[0])
    for view in (x[1:3], x[:, 2], x.t()[1:4], x[::2, ::3], x.detach().view(-1)[7:]):
        _elements(trial, view, 4, f"a view of {view.numel()} elements")
    half = x.half()[2:]
    _elements(trial, half, 2, f"a view of {half.numel()} elements")


@tensor_bytes.row("an expanded view counts all that it shows")
def elements_of_an_expanded_view(trial):
    row = trial.randn(1, 5, seed=trial.seeds[1])
    for view in (row.expand(7, 5), row.double().expand(3, 5) if has_float64(trial.device) else row):
        size = 8 if view.dtype == torch.float64 else 4
        _elements(trial, view, size, f"a view that shows {view.numel()} elements")


@tensor_bytes.row("an empty tensor takes 0 bytes, a number its size")
def elements_of_little(trial):
    x = trial.randn(4, 3)
    for little, size in ((x[:0], 4), (x.sum(), 4), (x.sum().half(), 2), (torch.nn.Parameter(x), 4)):
        _elements(trial, little, size, f"a tensor of shape {list(little.shape)}")
