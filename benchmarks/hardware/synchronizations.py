"""Which operations make the host wait: each is started behind long work, which is then asked if it is done.

`watch` is what `devlab.watch` says of the same operation, so that the instrument is held to the hardware too:
a copy that waits is a transfer there, and `blocking`. PyTorch's source (`aten/src/ATen/native/cuda/Copy.cu`)
and CUDA's documentation ("API synchronization behavior") say what to expect of copies: a blocking one waits
for its stream; a non-blocking one to the device does not, and from pageable memory a small one does not
either, because its bytes are staged. `copies_that_wait` asks from which size on that ends.
"""

import torch
from torch.nn import functional as F

from devlab.sim import clock
from devlab.watching.watch import watch

# Matrix products of this side, many of them, take much longer than starting an operation behind them.
SIDES = {"cuda": 4096, "sim": 512}


def operations(device: torch.device) -> dict[str, object]:
    """Return each operation by the line that a learner would write."""
    x = torch.arange(12.0, device=device).reshape(3, 4) - 5
    square = torch.eye(3, device=device) * 2
    one = torch.ones((), device=device)
    mask, another = x > 0, x.clone()
    rows = torch.tensor([2, 0], device=device)
    here, pinned = torch.ones(3, 4), torch.ones(3, 4).pin_memory()
    cpu_rows = torch.tensor([2, 0])
    labels = torch.tensor([0, 1, 2], device=device)
    return {
        "x + x": lambda: x + x,
        "x @ x.T": lambda: x @ x.T,
        "x.sum()": lambda: x.sum(),
        "torch.zeros(3, device=device)": lambda: torch.zeros(3, device=device),
        "torch.randn(3, device=device)": lambda: torch.randn(3, device=device),
        "torch.tensor([1.0], device=device)": lambda: torch.tensor([1.0], device=device),
        "torch.empty_like(x)": lambda: torch.empty_like(x),
        "x.item()": lambda: one.item(),
        "float(x)": lambda: float(one),
        "bool(x)": lambda: bool(one),
        "x.tolist()": lambda: x.tolist(),
        "x.cpu()": lambda: x.cpu(),
        "x.to('cpu', non_blocking=True)": lambda: x.to("cpu", non_blocking=True),
        "str(x)": lambda: str(x),
        "pageable.to(device)": lambda: here.to(device),
        "pageable.to(device, non_blocking=True)": lambda: here.to(device, non_blocking=True),
        "pinned.to(device)": lambda: pinned.to(device),
        "pinned.to(device, non_blocking=True)": lambda: pinned.to(device, non_blocking=True),
        "pageable.to(device, float16, non_blocking=True)": lambda: here.to(
            device, torch.float16, non_blocking=True
        ),
        "x.copy_(pageable)": lambda: x.clone().copy_(here),
        "x.copy_(pageable, non_blocking=True)": lambda: x.clone().copy_(here, non_blocking=True),
        "pageable.copy_(x, non_blocking=True)": lambda: here.clone().copy_(x, non_blocking=True),
        "pinned.copy_(x, non_blocking=True)": lambda: pinned.copy_(x, non_blocking=True),
        "x.nonzero()": lambda: x.nonzero(),
        "torch.where(mask)": lambda: torch.where(mask),
        "torch.where(mask, x, 0)": lambda: torch.where(mask, x, 0),
        "x[mask]": lambda: x[mask],
        "x[mask] = 0": lambda: x.clone().__setitem__(mask, 0),
        "x[mask] = tensor of one number": lambda: x.clone().__setitem__(mask, one),
        "x[mask] = tensor of many": lambda: x.clone().__setitem__(mask, x[x > 0] * 2),
        "x[rows]": lambda: x[rows],
        "x[cpu rows]": lambda: x[cpu_rows],
        "x[[2, 0]]": lambda: x[[2, 0]],
        "x[mask] += number of the CPU": lambda: x.clone().index_put_(
            (mask,), torch.tensor(1.0), accumulate=True
        ),
        "x[rows] = 0": lambda: x.clone().__setitem__(rows, 0),
        "x[0]": lambda: x[0],
        "x.index_select(0, rows)": lambda: x.index_select(0, rows),
        "x.masked_fill(mask, 0)": lambda: x.masked_fill(mask, 0),
        "x.masked_select(mask)": lambda: x.masked_select(mask),
        "x.unique()": lambda: x.unique(),
        "x.sort()": lambda: x.sort(),
        "x.topk(2)": lambda: x.topk(2),
        "x.repeat_interleave(rows, output_size=2)": lambda: x[:2].repeat_interleave(
            rows, dim=0, output_size=2
        ),
        "x.repeat_interleave(rows)": lambda: x[:2].repeat_interleave(rows, dim=0),
        "labels.bincount()": lambda: labels.bincount(),
        "F.one_hot(labels)": lambda: F.one_hot(labels),
        "F.one_hot(labels, 3)": lambda: F.one_hot(labels, 3),
        "F.cross_entropy(x, labels)": lambda: F.cross_entropy(x, labels),
        "x.allclose(x)": lambda: x.allclose(x),
        "torch.equal(x, x)": lambda: torch.equal(x, x),
        "torch.equal(x, another)": lambda: torch.equal(x, another),
        "x.isnan().any()": lambda: x.isnan().any(),
        "torch.linalg.inv(square)": lambda: torch.linalg.inv(square),
        "torch.linalg.cholesky(square)": lambda: torch.linalg.cholesky(square),
        "torch.linalg.cholesky_ex(square)": lambda: torch.linalg.cholesky_ex(square),
        "torch.linalg.eigh(square)": lambda: torch.linalg.eigh(square),
        "torch.linalg.eig(square)": lambda: torch.linalg.eig(square),
        "torch.linalg.svd(square)": lambda: torch.linalg.svd(square),
        "torch.linalg.lstsq(square, x)": lambda: torch.linalg.lstsq(square, x),
        "torch.linalg.solve(square, x)": lambda: torch.linalg.solve(square, x),
        "torch.accelerator.synchronize()": lambda: torch.accelerator.synchronize(device),
        "event.synchronize()": lambda: _recorded(device).synchronize(),
        "event.query()": lambda: _recorded(device).query(),
        "del x": lambda: (lambda kept: None)(x.clone()),
        "memory_allocated()": lambda: torch.get_device_module(device).memory_allocated(device),
    }


def record(device: torch.device) -> dict[str, dict[str, bool]]:
    """Return, for each operation, whether the host waited for the work before it, and what watch says."""
    table = {}
    side = SIDES.get(device.type, 4096)
    work = torch.ones(side, side, device=device)
    with clock.virtual():
        for name, operation in operations(device).items():
            operation()  # what happens only once has happened
            table[name] = {"waits": waits(device, work, operation), "watch": _counted(operation)}
    return table


def waits(device: torch.device, work: torch.Tensor, operation, products: int = 10) -> bool:
    """Tell whether an operation returns only when the products in front of it are done.

    Raises:
        RuntimeError: when they were done before the operation could be started.
    """
    torch.accelerator.synchronize(device)
    for _ in range(products):
        torch.mm(work, work)
    done = _recorded(device)
    if done.query():
        raise RuntimeError(f"the work on {device} was done before anything could be started behind it")
    operation()
    waited = done.query()
    torch.accelerator.synchronize(device)
    return waited


def _counted(operation) -> bool:
    with watch() as log:
        operation()
    return log.synchronizations > 0 or any(copy.blocking for copy in log.events.transfers)


def _recorded(device: torch.device):
    event = torch.get_device_module(device).Event()
    event.record()
    return event
