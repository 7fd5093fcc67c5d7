"""Lesson 01: the CPU, where data arrives, is prepared, and leaves from."""

import sys

import torch

from devlab.checks import expect
from devlab.checks.exercise import Lesson
from devlab.devices import has_float64

lesson = Lesson("01_cpu", "The CPU", ("load_table", "standardize", "tensor_bytes", "storage_bytes", "places"))


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


def each_dtype(trial) -> list[tuple[torch.Tensor, int]]:
    """Return tensors of odd shapes, each with the size of one element."""
    wide = {torch.float64: 8, torch.complex128: 16} if has_float64(trial.device) else {}
    sizes = SIZES | wide
    numbers = trial.randn(len(sizes) + 1, 5, seed=trial.seeds[0])
    return [(numbers[: 2 + row].to(dtype), size) for row, (dtype, size) in enumerate(sizes.items())]


def expect_bytes(got: object, wanted: int, what: str, mistaken: dict[str, int]) -> None:
    """Expect a number of bytes; `mistaken` has the numbers that usual slips give, by the words for each."""
    expect.kind(got, int, "an int", "the answer")
    for words, value in mistaken.items():
        if got == value != wanted:
            expect.fail(words, f"{wanted} bytes", f"{got} bytes")
    if got != wanted:
        expect.fail(f"{what} takes {wanted} bytes, the answer says {got}", f"{wanted} bytes", f"{got} bytes")


def refuse_getsizeof(trial, x: torch.Tensor) -> None:
    """Say so where the answer gives what sys.getsizeof says of two tensors, or of their storages."""
    other = torch.ones(1001, device=trial.device)
    for words, part in (("the tensor", lambda x: x), ("its storage", torch.Tensor.untyped_storage)):
        wanted = sys.getsizeof(part(other))
        if wanted != 4004 and trial.call(x) == sys.getsizeof(part(x)) and trial.call(other) == wanted:
            said = f"that is the size of a Python object, {words}, and not of its memory on {trial.device}"
            expect.fail(said, "the bytes of the elements", f"{wanted} bytes, which sys.getsizeof gives")
