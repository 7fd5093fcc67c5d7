"""What operators keep and what they need on the way, as an NVIDIA H200 answered."""

import dataclasses
import gc
import gzip
import json
import pickle
import warnings
from pathlib import Path

import pytest
import torch
from sim.test_operators import database, full_name, moved
from torch import nn
from torch.nn import functional as F

from devlab.sim import clock, workspaces

H200 = Path(__file__).parents[2] / "benchmarks/recorded/h200"
TRACES = Path(__file__).parents[2] / "src/devlab/data/h200"
# The chip by which a reduction is split: an H200 has 132 multiprocessors of 2,048 threads.
CHIP = dataclasses.replace(clock.devices[0].spec, processors=132, threads=2048)
# There the peak is another: RMS norm is one kernel on CUDA, and what these others take was not found.
NEWER = {"combinations"}  # PyTorch 2.14 composes it of other operators than the 2.11 that was recorded
OTHER_PEAK = {"matrix_exp", "nn.functional.multi_head_attention_forward", "nn.functional.rms_norm"}


@pytest.fixture
def without_collection():
    """Keep Python from collecting cycles, which would free earlier operators' tensors during a later one."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def as_on_h200(monkeypatch):
    """Let device 0 split its reductions as an H200 does."""
    monkeypatch.setattr(clock.devices[0], "spec", CHIP)


def recorded() -> dict[str, tuple[int, int]]:
    """Return the bytes that each operator kept, and the most that it held, on the H200."""
    text = gzip.decompress((H200 / "operators_waits_and_bytes.jsonl.gz").read_bytes()).decode()
    rows = map(json.loads, text.splitlines())
    return {row["op"]: (row["kept"], row["peak"]) for row in rows if "kept" in row}


def asked(op, device="sim:0") -> tuple[int, int]:
    """Return the same of an operator on a simulated device, for its first sample."""
    torch.manual_seed(0)
    sample = next(iter(op.sample_inputs("cpu", torch.float32, requires_grad=False)))
    args, kwargs = moved(((sample.input, *sample.args), sample.kwargs), device)
    before = torch.sim.memory_allocated()
    torch.sim.reset_peak_memory_stats()
    result = op(*args, **kwargs)
    kept, peak = torch.sim.memory_allocated() - before, torch.sim.max_memory_allocated() - before
    del result
    return kept, peak


def test_operators_keep_and_need_what_they_did_on_the_h200(as_on_h200, without_collection):
    """Bytes kept by all of 661 operators, and the peak of all but three."""
    answers, kept, peaks, compared = recorded(), [], set(), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in database():
            name = full_name(op)
            if name not in answers or "jiterator" in name or "sparse" in name:
                continue
            compared += 1
            ours = asked(op)
            if ours[0] != answers[name][0]:
                kept.append((name, ours[0], answers[name][0]))
            if ours[1] != answers[name][1]:
                peaks.add(name)
    assert compared >= 655
    assert not kept
    assert peaks - NEWER == OTHER_PEAK


@pytest.mark.parametrize(
    ("shape", "dims", "expected"),
    [
        ((64, 64, 64, 64), (0, 2, 3), (2304, 256)),  # the gradient of a bias, in the recorded snapshot
        ((64, 64, 32, 32), (0, 2, 3), ()),  # so is this one
        ((4096, 256), (0,), (8 << 20, 8)),  # lesson 08: 5,376 bytes a sample, and not 4,352
        ((1024, 256), (0,), (2 << 20, 8)),
        ((512, 256), (0,), ()),
        ((1 << 20,), (0,), (512, 4)),  # "512 and 4 bytes", lesson 08
    ],
)
def test_a_large_reduction_has_a_buffer_for_its_first_stage(shape, dims, expected):
    """How large it is depends on the shape, the strides and the chip: all six on an H200."""
    assert workspaces.two_stages(torch.empty(shape, device="meta"), dims, 4, 4, CHIP) == expected


class Net(nn.Module):
    """The convolutional network of the recorded snapshot."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 64, 3, padding=1), nn.Conv2d(64, 64, 3, stride=2, padding=1)
        self.n, self.c = nn.BatchNorm2d(64), nn.Linear(64, 10)

    def forward(self, x):
        return self.c(F.relu(self.n(self.b(F.relu(self.a(x))))).mean((2, 3)))


def sizes(trace: list[dict]) -> list[int]:
    """Return what was asked for, positive, and given back, negative; cuDNN's workspaces are left out."""
    signs = {"alloc": 1, "free_requested": -1}
    found = [signs[event["action"]] * event["size"] for event in trace if event["action"] in signs]
    return [size for size in found if abs(size) not in (84033683, 86098599)]


def test_a_training_step_takes_and_returns_memory_in_the_same_order(as_on_h200):
    """Every request of the recorded training, and what is given back, up to the second step's forward."""
    snapshot = pickle.loads(gzip.decompress((TRACES / "snapshot_losses_kept.pickle.gz").read_bytes()))
    torch.sim.memory._record_memory_history(clear_history=True)
    try:
        net = Net().to("sim")
        optimizer = torch.optim.AdamW(net.parameters())
        x = torch.randn(64, 3, 64, 64, device="sim")
        y = torch.randint(0, 10, (64,), device="sim")
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ours = sizes(torch.sim.memory._snapshot()["device_traces"][0])
    finally:
        torch.sim.memory._record_memory_history(enabled=None)
    assert len(ours) > 90
    assert ours == sizes(snapshot["device_traces"][0])[: len(ours)]


def test_what_an_operator_took_on_the_way_is_given_back():
    """The peak shows the memory that a sort takes, and nothing stays allocated."""
    x = torch.rand(8000, device="sim")
    before = torch.sim.memory_allocated()
    torch.sim.reset_peak_memory_stats()
    values, indices = x.sort()
    kept = values.untyped_storage().nbytes() + indices.untyped_storage().nbytes()
    assert torch.sim.memory_allocated() - before == 32256 + 64000 >= kept
    assert torch.sim.max_memory_allocated() - before == 267264


def test_a_view_that_the_schema_hides_takes_no_memory():
    """`unsafe_chunk` and a product of three dimensions share their memory, as on the H200."""
    x = torch.ones(5, 5, 5, device="sim")
    before = torch.sim.memory_allocated()
    parts = x.unsafe_chunk(2)
    assert torch.sim.memory_allocated() == before
    assert parts[0].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_log_sigmoid_keeps_no_buffer_for_its_backward():
    """The CPU's backward reads a buffer that CUDA's does not have."""
    x = torch.randn(1000, device="sim", requires_grad=True)
    before = torch.sim.memory_allocated()
    loss = F.logsigmoid(x)
    assert torch.sim.memory_allocated() - before == 4096
    loss.sum().backward()
    expected = torch.autograd.functional.vjp(F.logsigmoid, x.detach().cpu(), torch.ones(1000))[1]
    assert torch.equal(x.grad.cpu(), expected)


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: torch.isin(x, 3.0),
        lambda x: torch.isin(2.0, x),
        lambda x: torch.equal(x, x[:1]),
        lambda x: x.max(),
        lambda x: x.max(0),
        lambda x: x.argmax(),
        lambda x: x.std(dim=[0, 1]),
        lambda x: x.norm(2, 0),
        lambda x: x.sum(dtype=torch.float64),
        lambda x: (x > 0).any(0),
        lambda x: x.sort(stable=True, dim=0, descending=True),
        lambda x: x.masked_select(torch.tensor(True, device="sim")),
        lambda x: torch.normal(x, 1.0),
        lambda x: torch.median(x, 1),
        lambda x: x.index_put_((torch.tensor([1]), torch.tensor([2])), torch.tensor(1.0)),
    ],
)
def test_every_overload_has_a_rule_that_works(ask):
    """What an operator needs on the way is found for each form of its arguments, and given back."""
    x = torch.randn(300, 400).to("sim")
    before = torch.sim.memory_allocated()
    ask(x)
    assert torch.sim.memory_allocated() == before
    assert torch.sim.max_memory_allocated() > before


def test_a_sum_of_truth_values_needs_them_as_whole_numbers():
    """CUDA converts what it adds up: eight bytes for each comparison, says `ReduceOpsUtils.h`."""
    right = torch.ones(1000, dtype=torch.bool, device="sim")
    before = torch.sim.memory_allocated()
    torch.sim.reset_peak_memory_stats()
    right.sum()
    assert torch.sim.max_memory_allocated() - before == 512 + 8192
