"""Which operators make the host wait: PyTorch's own list of what synchronizes on CUDA, and what does not."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import devlab.sim
from devlab.sim import events


def waits(call) -> bool:
    """Return whether the host waited for the device in a call."""
    seen: list[tuple] = []
    observer = seen.append
    events.observers.append(observer)
    try:
        call()
    finally:
        events.observers.remove(observer)
    return any(isinstance(event, events.Synchronization) for event in seen)


def put(x, index, value):
    """Assign to a part of a tensor."""
    x[index] = value


def operands():
    """Return a vector, a matrix that decomposes, indices, a mask, and a value for each that it selects."""
    x = torch.tensor([1.0, -2.0, 3.0, -4.0], device="sim")
    return x, torch.eye(4, device="sim"), torch.tensor([0, 2], device="sim"), x > 0, x[:2].clone()


@pytest.mark.parametrize(
    "call",
    [
        lambda x, a, i, m, v: x[m],
        lambda x, a, i, m, v: x[i.cpu()],
        lambda x, a, i, m, v: put(x, m, v),
        lambda x, a, i, m, v: put(x, m, v[0]),
        lambda x, a, i, m, v: put(x, m.cpu(), 1.0),
        lambda x, a, i, m, v: put(x, i, torch.tensor(1.0)),
        lambda x, a, i, m, v: x.index_put_((m,), torch.tensor(1.0), accumulate=True),
        lambda x, a, i, m, v: x.nonzero(),
        lambda x, a, i, m, v: x.masked_select(m),
        lambda x, a, i, m, v: torch.linalg.inv(a),
        lambda x, a, i, m, v: torch.linalg.solve(a, x),
        lambda x, a, i, m, v: torch.linalg.cholesky(a),
        lambda x, a, i, m, v: torch.linalg.eigh(a),
        lambda x, a, i, m, v: torch.linalg.svd(a),
        lambda x, a, i, m, v: torch.linalg.pinv(a),
        lambda x, a, i, m, v: torch.linalg.pinv(a, hermitian=True),
        lambda x, a, i, m, v: torch.linalg.matrix_exp(a),
        lambda x, a, i, m, v: torch.linspace(x[0], 3, 4, device="sim"),
        lambda x, a, i, m, v: torch.logspace(0, x[0], 4, device="sim"),
        lambda x, a, i, m, v: torch.normal(x, v[0].abs()),
        lambda x, a, i, m, v: torch.normal(0.0, x.abs()),
        lambda x, a, i, m, v: torch.histc(x),
        lambda x, a, i, m, v: torch.histc(x, bins=3, min=1, max=1),
        lambda x, a, i, m, v: torch.segment_reduce(x, "max", lengths=i + 1),
        lambda x, a, i, m, v: torch.equal(x, x.clone()),
    ],
)
def test_what_the_host_must_know_makes_it_wait(call):
    """Sizes that depend on values, indices and values from the host, checks, and checked decompositions.

    The second half is what `torch.cuda.set_sync_debug_mode` said on an H200.
    """
    given = operands()
    assert waits(lambda: call(*given))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, a, i, m, v: x[i],
        lambda x, a, i, m, v: x[i, None],
        lambda x, a, i, m, v: a[i, i],
        lambda x, a, i, m, v: put(x, i, v),
        lambda x, a, i, m, v: put(x, i, v[0]),
        lambda x, a, i, m, v: put(x, 0, 1.0),
        lambda x, a, i, m, v: put(x, m, 1.0),
        lambda x, a, i, m, v: put(x, m, torch.tensor(1.0)),
        lambda x, a, i, m, v: x.index_put_((i,), v, accumulate=True),
        lambda x, a, i, m, v: x.masked_fill_(m, 0.0),
        lambda x, a, i, m, v: torch.where(m, x, 0.0),
        lambda x, a, i, m, v: torch.linalg.inv_ex(a),
        lambda x, a, i, m, v: torch.linalg.solve_ex(a, x),
        lambda x, a, i, m, v: torch.linalg.cholesky_ex(a),
        lambda x, a, i, m, v: torch.linalg.qr(a),
        lambda x, a, i, m, v: torch.linalg.svd(a[:0, :0]),
        lambda x, a, i, m, v: torch.linalg.matrix_exp(a[:1, :1]),
        lambda x, a, i, m, v: torch.linspace(0, 3, 4, device="sim"),
        lambda x, a, i, m, v: torch.normal(x, 1.0),
        lambda x, a, i, m, v: torch.histc(x, bins=3, min=0, max=1),
        lambda x, a, i, m, v: torch.segment_reduce(x, "max", lengths=i + 1, unsafe=True),
        lambda x, a, i, m, v: torch.equal(x, x),
        lambda x, a, i, m, v: torch.equal(x, v),
    ],
)
def test_what_stays_on_the_device_does_not(call):
    """Indices of the device, filling under a mask, and decompositions that leave the check to the caller."""
    given = operands()
    assert not waits(lambda: call(*given))


class Asked(TorchDispatchMode):
    """Notes the names of the operators that are asked for."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        """Note one and run it."""
        self.names = [*getattr(self, "names", []), function.__name__]
        return function(*args, **(kwargs or {}))


def test_a_number_assigned_to_rows_waits_where_pytorch_copies_it():
    """PyTorch 2.13 makes a tensor of it on the CPU and has `index_put_` copy that; 2.15 fills the rows."""
    x, _, i, _, _ = operands()
    with Asked() as asked:
        put(x, i, 1.0)
    assert {"index_put_.default", "index_fill_.int_Scalar"} & set(asked.names)
    assert waits(lambda: put(x, i, 1.0)) == ("index_put_.default" in asked.names)


def test_on_mps_an_assigned_number_is_on_the_device():
    """There it is not copied; a mask must be counted, unless PyTorch fills under it."""
    with devlab.sim.rules("mps"):
        x, _, i, m, _ = operands()
        assert not waits(lambda: put(x, i, 1.0))
        with Asked() as asked:
            put(x, m, 1.0)
        assert waits(lambda: put(x, m, 1.0)) == ("index_put_.default" in asked.names)
