"""Errors that only the device can notice, and that the host meets later: CUDA's device-side assertions.

Shapes, dtypes and devices are the host's business, and a wrong one raises at its line. Whether an index, a
label or a probability is in range stands in the device's memory. CUDA's kernels look at it when they run,
which is after the launch has succeeded. The CPU's kernels, which compute here, look at it at once. Where one
refuses the values alone, the launch succeeds here, too, and `note` keeps what has failed: the error arrives
where the host next has to do with the device, once the kernel has run. A device of CUDA is lost then for the
rest of the process; here `reset` gives it back.

MPS reports an index out of range at the next wait, once, and works on.
"""

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch

from devlab.sim import clock, data, operators
from devlab.sim.operators import Operator, short, split_names


class _Assertion(NamedTuple):
    """What CUDA's kernels of an operator assert.

    `refusal` matches what the CPU's kernel says when it refuses the values, and no other error of it.
    `arguments` are what it looked at, and `harmless` is a number that it takes there in place of any other.
    """

    refusal: str
    arguments: frozenset[str]
    harmless: int = 0


# Operators that launch another kernel after the asserting kernel, and whether they do for given arguments.
_GOING_ON = {"multinomial": lambda args: True, "binary_cross_entropy": lambda args: args[3:] != (0,)}


_INDEX = r"index -?\d+ is out of bounds|index out of range in self"
_ELEMENT = rf"{_INDEX}|element is out of DATA bounds"
_BAG = r"is not in the valid range|Expected idx >= 0 && idx < num_embeddings"
_TARGET = r"(?s)Target .* is out of bounds"  # an 8-bit number reads as a character
_CHANCES = r"probability tensor contains either|invalid multinomial distribution"

# The assertion in each operator's CUDA kernel, or in that of an operator that it calls.
_ASSERTIONS = {
    "index _unsafe_index index_put_ index_put _index_put_impl_ _unsafe_index_put": (_INDEX, "indices"),
    "index_select index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_reduce "
    "index_reduce_ gather scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_": (
        _ELEMENT,
        "index",
    ),
    "take": (r"tried to access index", "index"),
    "put put_": (r"tried to access index", "index"),
    "embedding": (_INDEX, "indices"),
    # This kernel asserts nothing; the look-up that always follows asserts.
    "embedding_renorm_": (r"select\(\): index -?\d+ out of range", "indices"),
    "_embedding_bag _embedding_bag_forward_only": (_BAG, "indices"),
    "nll_loss_forward nll_loss2d_forward": (_TARGET, "target"),
    "multi_margin_loss": (r"target out of range", "target"),
    "binary_cross_entropy": (r"should be between 0 and 1", "self target"),
    "multinomial": (_CHANCES, "self", 1),
    "bernoulli bernoulli_": (r"Expected p_in >= 0", "self p"),
    "poisson": (r"invalid Poisson rate", "self"),
    "max_unpool2d max_unpool3d": (r"invalid max index", "indices"),
    "masked_scatter masked_scatter_": (r"Number of elements of source", "mask"),
    "_assert_async": ("", "self", 1),
}
ASSERTIONS = {
    name: _Assertion(refusal, split_names(arguments), *harmless)
    for names, (refusal, arguments, *harmless) in _ASSERTIONS.items()
    for name in split_names(names)
}
# The derivatives of some of them. The CPU's kernels trust the indices, which are known to be in range where
# the operator itself has run: behind one that failed these would write outside of their memory.
TRUSTING = {
    name: _Assertion("", split_names(arguments))
    for name, arguments in {
        "embedding_dense_backward": "indices",
        "_embedding_bag_backward": "indices",
        "_embedding_bag_dense_backward": "indices",
        "_embedding_bag_per_sample_weights_backward": "indices",
        "nll_loss_backward": "target",
        "nll_loss2d_backward": "target",
        "multi_margin_loss_backward": "target",
    }.items()
}
# The errors with which the CPU's kernels refuse values.
REFUSALS = (IndexError, RuntimeError)


@dataclass(eq=False)
class Failure:
    """A kernel that has failed on a device, and whether the program has `heard` of it.

    `operator` is its name, `reason` what was wrong in words, `frames` the (file, line) of what called it, the
    innermost first, and `moment` the time on the clock at which it has run. On MPS the error comes `once`.
    """

    index: int
    operator: str
    reason: str
    frames: tuple[tuple[str, int], ...]
    moment: float
    once: bool
    heard: bool = False

    def error(self) -> torch.AcceleratorError:
        """Return the error that the host learns, in CUDA's words or in MPS's; `failure` is this failure."""
        error = torch.AcceleratorError(self.reason if self.once else self._words())
        error.failure = self
        return error

    def tell(self) -> None:
        """Raise what the host learns, from MPS once.

        Raises:
            torch.AcceleratorError: always.
        """
        self.heard = True
        if self.once:
            reset()
        raise self.error()

    def _words(self) -> str:
        place = data.device_of(self.index)
        late = (
            ""
            if launches_block()
            else f"{data.NAME} kernel errors might be asynchronously reported at some other API call, so the "
            "stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
        )
        return (
            f"{data.NAME} error: device-side assert triggered\n{late}{place} is unusable until "
            "devlab.sim.reset() is called; a CUDA device stays unusable until the process ends.\n"
        )


def launches_block() -> bool:
    """Return whether each launch waits for its kernel: the environment has CUDA_LAUNCH_BLOCKING=1.

    PyTorch reads the variable once; here it is read whenever a kernel has failed.
    """
    return os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"


def is_of_values(name: str, reason: str) -> bool:
    """Return whether the CPU's kernel gave a reason that CUDA's kernel would leave to the device.

    >>> is_of_values("aten::gather", "index 7 is out of bounds for dimension 0 with size 3")
    True
    >>> is_of_values("aten::gather", "Dimension out of range (expected to be in range of [-2, 1], but got 5)")
    False
    """
    return re.search(ASSERTIONS[short(name)].refusal, reason) is not None


class Harmless(Operator):
    """An operator as it runs on values out of range: to no effect.

    A result has the right shape and dtype, and holds NaN where it can and else 0. A tensor that the operator
    was to change stays as it is.
    """

    def __init__(self, name: str):
        super().__init__(name)
        base = short(name)
        self._assertion = ASSERTIONS.get(base) or TRUSTING[base]
        self._compute, self.call = self.call, self._call

    def _call(self, *host, **given):
        if self.returned and self.returned[0] is not None and not self.outputs:
            return host[self.returned[0]]
        names = [argument.name for argument in self.schema.arguments]
        host = [self._mend(name, value) for name, value in zip(names, host, strict=False)]
        given = {name: self._mend(name, value) for name, value in given.items()}
        out = self._compute(*host, **given)
        for made in data.tensors(out):
            made.fill_(float("nan") if made.is_floating_point() or made.is_complex() else 0)
        return out

    def _mend(self, name: str, value):
        wrong = name in self._assertion.arguments
        return _fill_like(value, self._assertion.harmless) if wrong else value


def _fill_like(value, number: int):
    """Return a tensor like `value`, or a list of such, filled with a number; masks in a list stay."""
    if isinstance(value, (list, tuple)):
        masks = [isinstance(item, torch.Tensor) and item.dtype in operators.MASKS for item in value]
        return [item if mask else _fill_like(item, number) for item, mask in zip(value, masks, strict=True)]
    return torch.full_like(value, number) if isinstance(value, torch.Tensor) else value


def note(name: str, index: int, reason: str, args: tuple) -> None:
    """Note that an operator, which was launched on `sim:index` just now, will fail for a reason.

    Raises:
        torch.AcceleratorError: at once, where each launch waits for its kernel, and where the operator
            launches another kernel when this one has run.
    """
    frames, frame = [], sys._getframe(1)
    while frame is not None:
        frames.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    moment = clock.current.queues[index].free_at
    failure = Failure(index, name, reason.splitlines()[0], tuple(frames), moment, bool(data.refusals))
    data.set_failures([*clock.failures, failure])
    if launches_block() and not failure.once:
        clock.synchronize(index, moment, "CUDA_LAUNCH_BLOCKING")
    elif short(name) in _GOING_ON and _GOING_ON[short(name)](args):
        clock.launch(index, 0)
        clock.notice(index)


def reset() -> None:
    """Make every simulated device usable again after an error that a device noticed.

    On CUDA only a new process does so, and no tensor survives. Here tensors stay; what the kernel that failed
    was to compute was never computed, so make anew whatever depends on it.

    >>> import torch, devlab.sim
    >>> devlab.sim.enable()
    >>> rows = torch.zeros(3, 2, device="sim")[torch.tensor([0, 3], device="sim")]
    >>> torch.sim.synchronize()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    torch.AcceleratorError: sim error: device-side assert triggered
    ...
    >>> devlab.sim.reset()
    >>> torch.sim.synchronize()
    """
    data.set_failures([])


def settle() -> torch.AcceleratorError | None:
    """Return the error of the first kernel that has failed, whether the host knows or not, and reset."""
    if not clock.failures:
        return None
    error = clock.failures[0].error()
    reset()
    return error


@contextlib.contextmanager
def sound() -> Iterator[None]:
    """Make every device usable in a block, and as it was before after the block.

    >>> with sound():
    ...     torch.sim.synchronize()
    """
    before = list(clock.failures)
    reset()
    try:
        yield
    finally:
        data.set_failures(before)
