"""Apple's rules on any accelerator: what MPS refuses, refused for the length of a block."""

import contextlib
from collections.abc import Iterator

import torch
from torch.overrides import TorchFunctionMode

from devlab import sim
from devlab.sim import rule

# Functions that CUDA has and MPS does not, and the names that stand in the message.
FUNCTIONS = {"special_log_ndtr": "aten::special_log_ndtr.out", "mode": "aten::mode"}


class _Lacking(TorchFunctionMode):
    """Lets an accelerator refuse what MPS refuses: 64-bit floats, and the functions `FUNCTIONS`."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        given = (*args, kwargs.get("input"))[0]
        if name in FUNCTIONS and not getattr(given, "is_cpu", True):
            raise rule.lacks_operator(FUNCTIONS[name], given.device.type)
        result = func(*args, **kwargs)
        if isinstance(result, torch.Tensor) and not result.is_cpu:
            rule.refuse_dtype(result.dtype, result.device.type)
        return result


@contextlib.contextmanager
def apples_rules(device: torch.device) -> Iterator[None]:
    """Let an accelerator follow Apple's rules in a block: no float64, and some operators are missing.

    A Mac's own GPU always follows them, and there the block changes nothing. The simulated accelerator has
    them among its own rules. Any other accelerator refuses the same dtypes and two of the operators.

    >>> sim.enable()
    >>> with apples_rules(torch.device("sim")):
    ...     torch.sim.device_count()
    1
    """
    if device.type == "sim":
        with sim.rules("mps"):
            yield
    elif device.type in ("cpu", "mps"):
        yield
    else:
        with _Lacking():
            yield
