"""PyTorch's own database of operators: which there are, and the first sample of each, on any device."""

import contextlib
import signal
import sys
import threading
import types
import unittest
import warnings

import torch
from torch.utils._pytree import tree_map

SECONDS = 20  # more than any operator needs for one sample


class NoDatabase(RuntimeError):
    """PyTorch is installed without its database of operators."""


def database() -> dict[str, object]:
    """Return PyTorch's operators by their full names.

    Importing the database asks for the package `expecttest`, of which nothing is used here: a stand-in
    takes its place where it is not installed.

    Raises:
        NoDatabase: when this PyTorch cannot import it; the message says why.
    """
    stand_in = types.ModuleType("expecttest")
    stand_in.TestCase, stand_in.assert_expected_inline = unittest.TestCase, None
    sys.modules.setdefault("expecttest", stand_in)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        raise NoDatabase(f"PyTorch's database of operators cannot be imported here: {error}") from error
    return {".".join(filter(None, (op.name, op.variant_test_name))): op for op in op_db}


def moved(values, device: torch.device):
    """Return arguments with every tensor, and every mention of the CPU, on `device`."""

    def move(value):
        if isinstance(value, torch.Tensor):
            return value.to(device)
        is_cpu = isinstance(value, str | torch.device) and str(value) == "cpu"
        return device if is_cpu else value

    return tree_map(move, values)


def first_sample(op, dtype: torch.dtype):
    """Return the first sample of an operator, on the CPU, from the same seed each time."""
    torch.manual_seed(0)
    return next(iter(op.sample_inputs("cpu", dtype, requires_grad=False)))


def called(op, sample, device: torch.device):
    """Return what an operator gives for a sample on `device`."""
    first, args, kwargs = moved((sample.input, sample.args, sample.kwargs), device)
    return op(first, *args, **kwargs)


def told(error: BaseException) -> list[str]:
    """Return the type of an error and the first line of its message."""
    return [type(error).__name__, str(error).partition("\n")[0][:300]]


@contextlib.contextmanager
def time_limit(seconds: int = SECONDS):
    """Let what runs inside raise TimeoutError after some seconds, where the system can ring a main thread."""
    if not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_):
        raise TimeoutError(f"took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
