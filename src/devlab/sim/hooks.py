"""Hooks on gradients that raise, brought home: PyTorch's engine ends the process over them on such a device.

The engine restores its device while the error is on its way, which for a device written in Python calls
Python, and Python cannot be called with an error pending. So the error waits until the engine has returned.
"""

import functools
import threading

import torch

from devlab.sim import placement

_waiting = threading.local()


def install() -> None:
    """Let hooks of simulated tensors carry their errors past the engine."""
    for name in ("register_hook", "register_post_accumulate_grad_hook"):
        setattr(torch.Tensor, name, _carrying(getattr(torch.Tensor, name)))


def raise_waiting() -> None:
    """Raise the first error that a hook met in the backward pass that has ended."""
    error = getattr(_waiting, "error", None)
    if error is not None:
        _waiting.error = None
        raise error


def _carrying(register):
    @functools.wraps(register)
    def register_hook(tensor, hook):
        return register(tensor, _held(hook) if tensor.device.type == placement.NAME else hook)

    return register_hook


def _held(hook):
    @functools.wraps(hook)
    def run(*args):
        try:
            return hook(*args)
        except BaseException as error:
            _waiting.error = getattr(_waiting, "error", None) or error
            return None

    return run
