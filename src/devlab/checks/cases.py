"""Cases: the inputs that rows judge with, from plain shapes to what only a right answer can stand."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from devlab.checks.trial import Trial

FLOATS = (torch.float16, torch.bfloat16, torch.float64)
RARE = (torch.float64, torch.complex128, torch.uint16, torch.float8_e5m2)


def holds(device: torch.device, dtype: torch.dtype) -> bool:
    """Tell whether a device can compute in a dtype: Apple's GPUs have no float64, nor have some of Intel's.

    >>> holds(torch.device("cpu"), torch.float64)
    True
    """
    try:
        torch.ones(1, dtype=dtype, device=device).add(1)  # an Intel GPU may make what it cannot compute with
    except (TypeError, RuntimeError):
        return False
    return True


def floats(device: torch.device) -> list[torch.dtype]:
    """Return the floating dtypes other than float32 that a device holds.

    >>> floats(torch.device("cpu"))
    [torch.float16, torch.bfloat16, torch.float64]
    """
    return [dtype for dtype in FLOATS if holds(device, dtype)]


def rare(device: torch.device) -> list[torch.dtype]:
    """Return the dtypes that few programs use, of those in which a device can hold a tensor.

    >>> rare(torch.device("cpu"))
    [torch.float64, torch.complex128, torch.uint16, torch.float8_e5m2]
    """
    found = []
    for dtype in RARE:
        with contextlib.suppress(TypeError, RuntimeError):
            found.append(torch.ones(1, device=device).to(dtype).dtype)
    return found


def shapes(trial: "Trial", *shapes: tuple[int, ...]) -> Iterator[torch.Tensor]:
    """Yield a tensor of each shape on the trial's device, from its seeds in turn.

    >>> from devlab.checks.trial import Trial
    >>> [tuple(x.shape) for x in shapes(Trial(abs, "f(x)", torch.device("cpu")), (4, 3), (1, 7))]
    [(4, 3), (1, 7)]
    """
    for place, shape in enumerate(shapes):
        yield trial.randn(*shape, seed=trial.seeds[place % len(trial.seeds)])


def views(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return views of a tensor of two or more dimensions, each by what it is.

    >>> for words, view in views(torch.ones(4, 6)).items():
    ...     print(words, tuple(view.shape))
    a transposed view (6, 4)
    a view with steps (4, 3)
    a row (6,)
    a part (3, 4)
    an expanded view (3, 6)
    an empty tensor (0, 6)
    """
    return {
        "a transposed view": x.transpose(0, 1),
        "a view with steps": x[:, ::2],
        "a row": x[0],
        "a part": x[1:, 1:-1],
        "an expanded view": x[:1].expand(3, *x.shape[1:]),
        "an empty tensor": x[:0],
    }


def kinds(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return tensors of other kinds with the numbers of a matrix, each by what it is.

    >>> list(kinds(torch.ones(2, 2)))
    ['a single number', 'a parameter', 'a leaf that asks for a gradient', 'a result in a graph']
    """
    return {
        "a single number": x[0, 0],
        "a parameter": nn.Parameter(x.clone()),
        "a leaf that asks for a gradient": x.clone().requires_grad_(),
        "a result in a graph": x.clone().requires_grad_() * 2,
    }


def dtypes(x: torch.Tensor) -> list[torch.Tensor]:
    """Return tensors of each dtype that a device holds, made of a float32 tensor that is there.

    Most of them lose digits where a third dtype is on the way: float64 has more than float32, float32 holds
    only some of the integers beyond 2**24, and float64 only some of those beyond 2**53.

    >>> [one.dtype for one in dtypes(torch.ones(1))]
    [torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.uint8, torch.complex128]
    """
    wide = holds(x.device, torch.float64)
    found = [x.to(dtype) / 3 for dtype in floats(x.device)]
    found += [x.int() + 2**24 + 1, x.long() + 2**53 + 1, x.abs().to(torch.uint8)]
    return found + ([torch.complex(x.double() / 3, x.double().flip(0))] if wide else [])


def unruly(x: torch.Tensor) -> list[torch.Tensor]:
    """Return copies of a matrix with inf and nan in it, at the beginning, at the end and between.

    >>> [int(one.isnan().sum()) for one in unruly(torch.ones(3, 4))]
    [2, 2]
    """
    x = x.clone()
    x[0], x[1, x.shape[1] // 2], x[-1, -1] = float("inf"), float("nan"), float("nan")
    return [x, x.flip(-1)]


def places(trial: "Trial") -> list[torch.device]:
    """Return every device of the bench, the trial's own first; raises Skip where there is only one.

    >>> from devlab.checks.trial import Trial
    >>> places(Trial(abs, "f(x)", torch.device("cpu"), (torch.device("meta"),)))
    [device(type='cpu'), device(type='meta')]
    """
    trial.other()
    return [trial.device, *trial.others]


def module(**attributes: object) -> nn.Module:
    """Return a bare module with the attributes, set as `self.name = value` sets them.

    >>> sorted(module(weight=nn.Parameter(torch.ones(1)), scale=torch.ones(1)).state_dict())
    ['weight']
    """
    made = nn.Module()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made
