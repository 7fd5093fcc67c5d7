"""At which call an error of the data is found: at its own, at the next launch, or when the host waits.

Each case is asked in a process of its own, because a kernel that asserts leaves no usable device, and twice:
as usual, and with `CUDA_LAUNCH_BLOCKING=1`.
"""

import os
import sys

import torch
from hardware import parts
from torch.nn import functional as F

MODES = ("0", "1")  # the values of CUDA_LAUNCH_BLOCKING


def cases(device: torch.device) -> dict[str, object]:
    """Return each call with data that only the device can see to be wrong."""
    x = torch.arange(12.0, device=device).reshape(4, 3)

    def numbers(*values, dtype=None):
        return torch.tensor(values, device=device, dtype=dtype)

    def whole(value):
        return torch.full((3,), value, device=device)

    large, negative, far = numbers(1, 7), numbers(1, -9), numbers(9, 9, 9)[None]
    pair, place = torch.ones(2, 3, device=device), numbers(99)
    labels = {"too large": numbers(0, 1, 2, 5), "negative": numbers(0, 1, 2, -5)}
    zero = torch.zeros(3, dtype=torch.int64, device=device)
    nan = float("nan")
    return {
        "embedding": lambda: F.embedding(large, x),
        "embedding negative": lambda: F.embedding(negative, x),
        "x[bad]": lambda: x[large],
        "x[neg]": lambda: x[negative],
        "x[bad] = 0": lambda: x.__setitem__(large, 0.0),
        "index_select": lambda: x.index_select(0, large),
        "gather": lambda: x.gather(0, far),
        "scatter_": lambda: x.scatter_(0, far, 1.0),
        "index_add_": lambda: x.index_add_(0, large, pair),
        "index_copy_": lambda: x.index_copy_(0, large, pair),
        "take": lambda: x.take(place),
        "put_": lambda: x.put_(place, torch.ones(1, device=device)),
        "index_fill_": lambda: x.index_fill_(0, large, 1.0),
        "cross_entropy label too large": lambda: F.cross_entropy(x, labels["too large"]),
        "cross_entropy label negative": lambda: F.cross_entropy(x, labels["negative"]),
        "nll_loss": lambda: F.nll_loss(x, labels["too large"]),
        "one_hot": lambda: F.one_hot(numbers(0, 9), 3),
        "bce out of range": lambda: F.binary_cross_entropy(x, torch.ones_like(x)),
        "multinomial nan": lambda: torch.multinomial(numbers(nan, 1.0), 1),
        "multinomial negative": lambda: torch.multinomial(numbers(-1.0, 1.0), 1),
        "bincount negative": lambda: torch.bincount(negative),
        "bernoulli 2": lambda: torch.bernoulli(whole(2.0)),
        "normal negative std": lambda: torch.normal(whole(0.0), whole(-1.0)),
        "integer division by zero": lambda: torch.ones_like(zero) // zero,
        "remainder by zero": lambda: torch.ones_like(zero) % zero,
        "linalg.inv singular": lambda: torch.linalg.inv(torch.zeros(3, 3, device=device)),
        "cholesky not positive": lambda: torch.linalg.cholesky(-torch.eye(3, device=device)),
        "torch._assert_async": lambda: torch._assert_async(numbers(False)[0]),
        "embedding_bag": lambda: F.embedding_bag(large, x, numbers(0)),
        "nan to int": lambda: whole(nan).long(),
        "repeat_interleave negative": lambda: torch.repeat_interleave(numbers(1, -2)),
        "masked_scatter too few": lambda: x.masked_scatter_(x > 0, torch.ones(2, device=device)),
        "max_unpool": lambda: F.max_unpool1d(pair[:1, None, :2], numbers(0, 99)[None, None], 2),
        "ctc_loss": lambda: F.ctc_loss(
            torch.randn(5, 1, 3, device=device).log_softmax(-1),
            numbers(9)[None],
            torch.tensor([5]),
            torch.tensor([1]),
        ),
        "grid of negative searchsorted": lambda: torch.searchsorted(numbers(3.0, 1.0), numbers(2.0)),
    }


def record(device: torch.device) -> dict[str, dict[str, dict]]:
    """Return, for each case and each mode, what every step after it said."""
    names = list(cases(torch.device("cpu")))
    table: dict[str, dict[str, dict]] = {name: {} for name in names}
    for mode in MODES:
        for name, steps in _asked(device, names, mode).items():
            table[name][mode] = steps
    return table


def _asked(device: torch.device, names: list[str], mode: str) -> dict[str, dict]:
    if device.type != "sim":
        settings = {"CUDA_LAUNCH_BLOCKING": mode}
        at_once = parts.most_at_once()
        return parts.ask_in_parts("late_errors", device, names, at_once=at_once, each=1, settings=settings)
    # The simulator reads the variable at each failure, and its devices can be used again.
    before = os.environ.get("CUDA_LAUNCH_BLOCKING")
    os.environ["CUDA_LAUNCH_BLOCKING"] = mode
    try:
        return parts.ask_here(sys.modules[__name__], device, names)
    finally:
        if before is None:
            del os.environ["CUDA_LAUNCH_BLOCKING"]
        else:
            os.environ["CUDA_LAUNCH_BLOCKING"] = before


def ask(name: str, device: torch.device) -> dict[str, object]:
    """Return what the call and each step after it said: "no error", or an error's type and words."""
    call = cases(device)[name]
    torch.accelerator.synchronize(device)
    said = {}
    for step, action in (
        ("call", call),
        ("next launch", lambda: torch.ones(3, device=device) + 1),
        ("synchronize", lambda: torch.accelerator.synchronize(device)),
        ("item", lambda: torch.ones((), device=device).item()),
        ("cpu work", lambda: torch.ones(3) + 1),
        ("memory_allocated", lambda: torch.accelerator.memory_allocated(device)),
    ):
        try:
            action()
            said[step] = "no error"
        except Exception as error:
            said[step] = [type(error).__name__, str(error)[:600]]
    return said
