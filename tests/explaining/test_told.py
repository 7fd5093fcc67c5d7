"""Code of which only the message tells: a loader's worker, compiled code."""

import traceback

import pytest
import torch
from torch import nn

from devlab.explaining import explained, known_of


class Rows:
    """A data set with a table, and a transform."""

    def __init__(self, table, transform):
        self.table, self.transform = table, transform

    def __getitem__(self, place):
        return self.transform(self.table[place])


def told(rows) -> Exception:
    """Return the error that a loader raises in the parent for one of a worker, as PyTorch 2.13 words it."""
    message = "nothing was raised"
    try:
        rows[0]
    except Exception as error:
        message = f"Caught {type(error).__name__} in DataLoader worker process 0.\nOriginal "
        message += traceback.format_exc()
    try:
        raise RuntimeError(message)
    except RuntimeError as error:
        return error


def test_a_workers_line_is_read_from_the_message():
    """File, line, function and the signs under the expression: the lambda's captured tensor is found."""
    mean = torch.ones(3, device="sim")
    report = explained(told(Rows(torch.ones(4, 3), lambda row: row.abs() - mean)))
    assert report.operation == "row.abs() - mean"
    assert report.where.endswith(f"line {told.__code__.co_firstlineno + 17}, in <lambda>")
    assert report.culprit == "mean"
    assert "captured from the function around this one" in report.origin


def test_a_worker_that_needs_the_accelerator_is_told_why_not():
    """CUDA's words for it: the tensor is named where the line shows which, else the line is."""

    def refused(row):
        raise RuntimeError(
            "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, …"
        )

    report = explained(told(Rows(torch.ones(4, 3), refused)))
    assert "worker process" in report.headline
    assert "move each batch in the loop" in report.note
    assert not report.changes


def test_a_workers_error_that_is_none_of_ours_is_placed():
    """Its own line, not the loop over the loader."""
    report = explained(told(Rows({}, abs)))
    assert report.operation == "self.table[place]"
    assert report.where.endswith("in __getitem__")


class Flow(nn.Module):
    """A model that adds up in a tensor of the CPU."""

    def __init__(self, depth):
        super().__init__()
        self.steps = nn.ModuleList(nn.Linear(3, 3) for _ in range(depth))

    def forward(self, x):
        total = torch.zeros(3)
        for step in self.steps:
            x = step(x)
            total += x[0]
        return total


def test_compiled_code_is_read_where_two_devices_meet():
    """A module that is called under its own name; `+=` in place, whose other side only a run could tell."""
    flow = torch.compile(Flow(2).to("sim"), backend="eager")
    with pytest.raises(Exception, match="device") as caught:
        flow(torch.ones(2, 3, device="sim"))
    report = known_of(caught.value)
    assert (report.operation, report.culprit) == ("total += x[0]", "total")


def test_where_no_tensor_is_to_blame_the_statements_are_listed():
    """The compiled model is PyTorch's own class: its parameters and buffers are told by device."""
    net = nn.BatchNorm1d(3)
    net.running_mean = net.running_mean.to("sim")
    x = torch.ones(2, 3, device="sim")
    with pytest.raises(Exception, match="device") as caught:
        torch.compile(net, backend="eager")(x)
    report = explained(caught.value)
    assert not report.known
    assert [(one.name, one.what, one.device) for one in report.met] == [
        ("net", "weight, bias, running_var, num_batches_tracked", "cpu"),
        ("net", "running_mean", "sim:0"),
        ("x", "[2, 3]", "sim:0"),
    ]
