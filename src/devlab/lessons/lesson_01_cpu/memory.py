"""How many bytes a tensor's elements take, and how many the storage behind it."""

import sys

import torch

from devlab.checks import expect
from devlab.devices import has_float64
from devlab.lessons.lesson_01_cpu import lesson

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

SIZES = {
    torch.float32: 4,
    torch.float16: 2,
    torch.bfloat16: 2,
    torch.int64: 8,
    torch.int16: 2,
    torch.uint8: 1,
    torch.bool: 1,
    torch.int32: 4,
    torch.int8: 1,
    torch.complex64: 8,
}


def _each_dtype(trial) -> list[tuple[torch.Tensor, int]]:
    """Return tensors of odd shapes, each with the size of one element."""
    wide = {torch.float64: 8, torch.complex128: 16} if has_float64(trial.device) else {}
    sizes = SIZES | wide
    numbers = trial.randn(len(sizes) + 1, 5, seed=trial.seeds[0])
    return [(numbers[: 2 + row].to(dtype), size) for row, (dtype, size) in enumerate(sizes.items())]


def _expect_bytes(got: object, wanted: int, what: str, mistaken: dict[str, int]) -> None:
    """Expect a number of bytes; `mistaken` has the numbers that usual slips give, by the words for each."""
    expect.kind(got, int, "an int", "the answer")
    for words, value in mistaken.items():
        if got == value != wanted:
            expect.fail(words, f"{wanted} bytes", f"{got} bytes")
    if got != wanted:
        expect.fail(f"{what} takes {wanted} bytes, the answer says {got}", f"{wanted} bytes", f"{got} bytes")


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
    _refuse_getsizeof(trial, x)
    _expect_bytes(trial.call(x), x.numel() * size, what, mistaken)


def _refuse_getsizeof(trial, x: torch.Tensor) -> None:
    """Say so where the answer gives what sys.getsizeof says of two tensors, or of their storages."""
    other = torch.ones(1001, device=trial.device)
    for words, part in (("the tensor", lambda x: x), ("its storage", torch.Tensor.untyped_storage)):
        wanted = sys.getsizeof(part(other))
        if wanted != 4004 and trial.call(x) == sys.getsizeof(part(x)) and trial.call(other) == wanted:
            said = f"that is the size of a Python object, {words}, and not of its memory on {trial.device}"
            expect.fail(said, "the bytes of the elements", f"{wanted} bytes, which sys.getsizeof gives")


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
    _refuse_getsizeof(trial, x)
    _expect_bytes(trial.call(x), wanted, what, mistaken)


def _reach(x: torch.Tensor) -> int:
    """Return how many elements of the storage lie before or under the last element of x."""
    steps = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    return x.storage_offset() + steps + 1 if x.numel() else x.storage_offset()


@tensor_bytes.row("one element's size follows from its dtype")
def elements_of_each_dtype(trial):
    for x, size in _each_dtype(trial):
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


@storage_bytes.row("a tensor of its own: the elements' bytes")
def storage_of_a_whole_tensor(trial):
    for x, size in _each_dtype(trial):
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
        _expect_bytes(trial.call(view), 9 * 4 * 4, "the storage", {headline: view.nbytes})


@storage_bytes.row("a copy of a view: its own storage again")
def storage_of_a_copy(trial):
    x = trial.randn(9, 4, seed=trial.seeds[2])
    for copy in (x[2:5].clone(), x[:, 1].contiguous()):
        _storage(trial, copy, copy.numel() * 4, 4, "the storage of a copied slice")
    _storage(trial, trial.randn(0), 0, 4, "an empty tensor of its own")
