"""Lesson 01: the CPU, where data arrives, is prepared, and leaves from."""

import sys

import torch

from devlab.checks import expect, verbs
from devlab.checks.cases import rare
from devlab.checks.exercise import Lesson

lesson = Lesson("01_cpu", "The CPU", ("load_table", "standardize", "tensor_bytes", "storage_bytes", "places"))

NARROW = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int16, torch.uint8, torch.bool)
NARROW += (torch.int32, torch.int8, torch.complex64)


def each_dtype(trial) -> list[torch.Tensor]:
    """Return a tensor of each dtype, each with another number of elements."""
    dtypes = (*NARROW, *rare(trial.device))
    numbers = trial.randn(len(dtypes) + 1, 5, seed=trial.seeds[0])
    return [numbers[: 2 + row].to(dtype) for row, dtype in enumerate(dtypes)]


def expect_bytes(trial, x: torch.Tensor, wanted: int, what: str, slips: dict[str, int | None]) -> None:
    """Expect a number of bytes; `slips` has the numbers that usual slips give, by the words for each."""
    other = torch.ones(1001, device=trial.device)
    for words, part in (("the tensor", lambda x: x), ("its storage", torch.Tensor.untyped_storage)):
        size = sys.getsizeof(part(other))
        if size != 4004 and trial.call(x) == sys.getsizeof(part(x)) and trial.call(other) == size:
            said = f"that is the size of a Python object, {words}, and not of its memory on {trial.device}"
            expect.fail(said, "the bytes of the elements", f"{size} bytes, which sys.getsizeof gives")
    headline = f"{what} takes {{wanted}} bytes, the answer says {{got}}"
    verbs.number(trial.call(x), wanted, headline, slips, "{wanted} bytes", "{got} bytes")
