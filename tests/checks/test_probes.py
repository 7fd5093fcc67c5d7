"""What rows give an answer: inputs of many kinds, and probes that note what is done with them."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from devlab.checks import cases, probes
from devlab.checks.expect import Mismatch
from devlab.checks.trial import Skip, Trial
from devlab.devices import bench

CPU, SIM = bench()[:2]


def test_no_smaller_dtype_holds_the_numbers_of_cases():
    """A dtype in between must show, so the next smaller one rounds."""
    smaller = {
        torch.float64: torch.float32,
        torch.complex128: torch.complex64,
        torch.int32: torch.float32,
        torch.int64: torch.float64,
    }
    for x in cases.dtypes(torch.tensor([[1.0, 2.0], [3.0, 5.0]])):
        if x.dtype in smaller:
            assert not torch.equal(x.to(smaller[x.dtype]).to(x.dtype), x)


def test_views_share_the_memory_and_unruly_ones_do_not():
    """A row may change an unruly tensor without changing what it made it of."""
    x = torch.ones(4, 6)
    assert all(one.untyped_storage().data_ptr() == x.data_ptr() for one in cases.views(x).values())
    assert bool(cases.unruly(x)[0].isinf().any())
    assert bool((x == 1).all())
    assert [one.requires_grad for one in cases.kinds(x).values()] == [False, True, True, True]


def test_places():
    """A row about two places is skipped where there is one; and so is one about what comes from elsewhere."""
    alone, pair = Trial(abs, "f(x)", CPU), Trial(abs, "f(x)", SIM, (CPU,))
    assert cases.places(pair) == [SIM, CPU]
    with pytest.raises(Skip):
        cases.places(alone)


def test_a_function_that_is_called():
    """Calls are counted, with gradients or without, and come to an end."""
    step = probes.Called(lambda n: n, "step", most=2)
    assert step(3) == 3
    step.require_calls(1)
    with torch.no_grad():
        step(4)
    with pytest.raises(Mismatch, match="step was called without gradients"):
        step.require_calls(2)
    with pytest.raises(Mismatch, match="step was called 2 times, not once"):
        step.require_calls(1)
    with pytest.raises(probes.Endless):
        step(5)
    with pytest.raises(Mismatch, match="fn was never called"):
        probes.Called(lambda: 0, "fn").require_calls(1)
    step = probes.Called(lambda n: n, "step")
    with torch.no_grad():
        assert step(n=2) == 2
    assert step.calls == [(2,)]
    step.require_calls(1, graphs=False)
    with pytest.raises(Mismatch, match="fn was called once, not 2 times"):
        step.require_calls(2, "fn")


def test_a_loader_that_counts():
    """It counts batches of a pass and passes, and is otherwise the loader that it wraps."""
    whole = DataLoader(torch.arange(7), batch_size=3)
    loader = probes.CountingLoader(whole, most=2)
    assert len(loader) == 3
    assert repr(loader) == "a loader of 3 batches"
    assert loader.batch_size == 3
    assert isinstance(loader, DataLoader)
    assert not isinstance(probes.CountingLoader([1]), DataLoader)
    assert copy.copy(loader).batches is whole
    for batch in loader:
        assert loader.taken == batch[0].item() // 3 + 1
    list(loader)
    assert (loader.taken, loader.passes) == (3, 2)
    with pytest.raises(probes.Endless):
        iter(loader)


def test_graphs_that_are_alive():
    """A loss keeps its graph alive until it is detached, backward or not."""
    graphs = probes.Graphs()
    weight = torch.ones(2, requires_grad=True)
    losses = [graphs.mark((weight * n).sum()) for n in range(3)]
    losses[0].backward()
    assert weight.grad is not None
    assert graphs.alive == 3
    losses[:2] = [loss.detach() for loss in losses[:2]]
    assert graphs.left() == 1
    del losses
    assert graphs.left() == 0


class Table(nn.Module):
    def __init__(self, n, kind="buffer"):
        super().__init__()
        table = torch.arange(1.0, n + 1)
        if kind == "buffer":
            self.register_buffer("table", table)
        else:
            self.table = {"parameter": nn.Parameter(table), "list": table.tolist()}.get(kind, table)

    def forward(self, x):
        return x + self.table.to(x.device)


def built(*sizes):
    """Return a module that a class made, as a row has it."""
    return probes.Built(Trial(Table, "class Table(n)", SIM, (CPU,)), *sizes)


def test_a_module_that_was_built():
    """A buffer that moves, is saved and is read passes."""
    made = built(3).to(SIM)
    made.require_on(SIM, "table")
    made.require_saved("table")
    made.require_stays("table", torch.ones(3))
    made.require_read("table", torch.ones(3, device=SIM), "the result")
    built(2).require_only_buffers()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("parameter", "`table` is a parameter: an optimizer would train it"),
        ("attribute", "`table` is a plain attribute: `.to` leaves it behind"),
        ("list", "`table` is a list, not a buffer"),
    ],
)
def test_what_a_buffer_is_instead(kind, words):
    """A table that is no buffer is told what it is."""
    with pytest.raises(Mismatch, match=words.replace(".", "[.]")):
        built(2, kind).buffer("table")
    with pytest.raises(Mismatch, match="there is no buffer named `other` after __init__"):
        built(2).buffer("other")


def test_a_copy_of_what_a_module_gives():
    """What forward gives comes as a copy on the CPU; where it is elsewhere than x, that is told."""
    made, x = built(3).to(SIM), torch.ones(3, device=SIM)
    assert made.copy_result(x).equal(made(x).cpu())
    made.trial.run = lambda *_, **__: x
    with pytest.raises(Mismatch, match="the sum is on sim:0, not cpu"):
        made.copy_result(x.cpu(), "the sum")
