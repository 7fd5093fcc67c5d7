"""Judging leaves the notebook as it was: random state, defaults and modes are put back."""

import contextlib
import random
from collections.abc import Iterator

import numpy
import torch


@contextlib.contextmanager
def preserved_state() -> Iterator[None]:
    """Run a block under PyTorch's defaults, and put back afterwards whatever was set before.

    >>> before = torch.get_rng_state()
    >>> with preserved_state():
    ...     _ = torch.manual_seed(0)
    >>> torch.equal(before, torch.get_rng_state())
    True
    """
    python, array, numbers = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    dtype, device, grad = torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled()
    try:
        fresh_defaults()
        yield
    finally:
        random.setstate(python)
        numpy.random.set_state(array)
        torch.set_rng_state(numbers)
        torch.set_default_dtype(dtype)
        torch.set_default_device(None if device.type == "cpu" else device)
        torch.set_grad_enabled(grad)


def fresh_defaults() -> None:
    """Set PyTorch's defaults as a new process has them, so that no row sees what another one set."""
    plain_defaults()
    torch.manual_seed(0)


def plain_defaults() -> None:
    """Set the default dtype, device and gradient mode as a new process has them."""
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.set_grad_enabled(True)
