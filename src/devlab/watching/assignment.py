"""One Python number written into a tensor on an accelerator: `x[0] = 3.0`.

PyTorch turns the number into a tensor first: for CUDA on the CPU, for a device like `sim` on the device
itself, by an operator of its own. What follows is told here as it happens on CUDA, so that both count alike.
"""

import torch

from devlab.watching.operators import Kind, kind_of

NUMBER = "scalar_tensor"


def as_on_cuda(kind: Kind, args: tuple) -> tuple[Kind, tuple]:
    """Return the operator and the arguments with which CUDA writes the number that was made just before.

    >>> kind, args = as_on_cuda(kind_of(torch.ops.aten.copy_.default), (torch.ones(3), torch.ones(())))
    >>> kind.name
    'fill_'
    """
    if kind.name == "copy_":
        target, value = args[:2]
        if target.dim():
            return kind_of(torch.ops.aten.fill_.Scalar), args
        return kind, (target, _on_cpu(value))
    if kind.name == "index_put_":
        target, indices, value, *rest = args
        return kind, (target, indices, _on_cpu(value), *rest)
    return kind, args


def _on_cpu(value: torch.Tensor) -> torch.Tensor:
    return torch.empty((), dtype=value.dtype, device="cpu")
