"""Lesson 01: the CPU, where data arrives, is prepared, and leaves from."""

import sys

import torch

from devlab.checks.cases import rare
from devlab.checks.exercise import Lesson
from devlab.checks.seen import must

lesson = Lesson("01_cpu", "The CPU", ("load_table", "standardize", "tensor_bytes", "storage_bytes", "places"))

NARROW = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int16, torch.uint8, torch.bool)
NARROW += (torch.int32, torch.int8, torch.complex64)


def each_dtype(trial) -> list[torch.Tensor]:
    """Return a tensor of each dtype, each with another number of elements."""
    dtypes = (*NARROW, *rare(trial.device))
    numbers = trial.randn(len(dtypes) + 1, 5, seed=trial.seeds[0])
    return [numbers[: 2 + row].to(dtype) for row, dtype in enumerate(dtypes)]


def see_bytes(trial, what: str, *tensors: torch.Tensor):
    """See what the answer gives for tensors, which `what` names, as in "of a view"."""
    for x in tensors:
        yield f"the number of bytes {what} of shape {list(x.shape)} in {x.dtype}", trial.call(x)


def see_object_size(trial):
    """See whether the answer gives the size of a Python object, which is not the same on every machine."""
    x = torch.ones(1001, 1, device=trial.device)
    got = trial.call(x)
    for words, part in (("the tensor", x), ("its storage", x.untyped_storage())):
        size = sys.getsizeof(part)
        said = f"that is the size of a Python object, {words}, and not of its memory on {trial.device}"
        found = f"{size} bytes, which sys.getsizeof gives"
        yield must(type(got) is not int or got != size or size == x.nbytes, said, "4 bytes an element", found)
