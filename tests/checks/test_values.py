"""Values in a few words: what matters is in them, and what only devlab's sources know is not."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from devlab.checks.values import describe, times
from devlab.devices import bench
from devlab.sim import clock


def bare() -> nn.Module:
    """Return a module whose class says nothing, with one of each kind of tensor."""
    module = nn.Module()
    module.head = nn.Linear(2, 1)
    module.scale = nn.Parameter(torch.ones(3))
    module.register_buffer("mean", torch.zeros(2))
    module.table = torch.zeros(2, 3)
    return module


class Net(nn.Module):
    """A module of a learner's own."""

    def __init__(self):
        super().__init__()
        self.body, self.weight = nn.Linear(2, 2), nn.Parameter(torch.ones(1))


OURS = type("Work", (), {"__module__": "devlab.lessons.x", "__call__": lambda self: None})()
LOADER = type("_Passes", (), {"__module__": "devlab.lessons.x", "__iter__": lambda self: iter(())})()
LEARNERS = type("Mine", (), {"__module__": "__main__"})()

WORDS = [
    (torch.ones(2, 2, requires_grad=True), "f32[2,2] cpu that requires a gradient"),
    (torch.ones(2, 2, requires_grad=True) * 2, "f32[2,2] cpu with a graph"),
    (nn.Parameter(torch.ones(2)), "Parameter f32[2] cpu"),
    (torch.tensor([3, 1, 2]), "i64[3] cpu [3, 1, 2]"),
    (torch.tensor([3, 1], dtype=torch.int32), "i32[2] cpu [3, 1]"),
    (torch.tensor([True, False]), "bool[2] cpu [True, False]"),
    (torch.arange(9), "i64[9] cpu"),
    (torch.ones(3), "f32[3] cpu"),
    (torch.zeros(0, dtype=torch.int64), "i64[0] cpu"),
    (torch.zeros(2, dtype=torch.int64, device="meta"), "i64[2] meta"),
    (nn.Sequential(nn.Linear(2, 1), nn.Tanh()), "Sequential(Linear, Tanh) on cpu"),
    (Net(), "Net(body: Linear) on cpu"),
    (bare(), "Module(head: Linear, scale: a parameter, mean: a buffer, table: f32[2,3] cpu) on cpu"),
    (nn.Linear(2, 1), "Linear on cpu"),
    (torch.optim.SGD(nn.Linear(2, 1).parameters(), lr=0.1), "SGD of 2 tensors"),
    (torch.optim.Adam([torch.ones(1)]), "Adam of 1 tensor"),
    (DataLoader(TensorDataset(torch.ones(5)), batch_size=2), "a DataLoader of 3 batches"),
    (DataLoader(TensorDataset(torch.ones(5)), batch_size=5), "a DataLoader of 1 batch"),
    (OURS, "a function"),
    (LOADER, "something to iterate over"),
    (LEARNERS, "a Mine"),
]


@pytest.mark.parametrize(("value", "words"), WORDS, ids=[words for _, words in WORDS])
def test_a_value_in_words(value, words):
    """Graph, index, dtype, layers; no page of an optimizer's and no name that nobody can look up."""
    assert describe(value) == words


def test_a_number_with_its_noun():
    """One time is once, as in: the host waited once."""
    assert [times(count, "time") for count in (0, 1, 2)] == ["0 times", "once", "2 times"]
    assert (times(1, "loss"), times(2, "day"), times(2, "NVIDIA GPU")) == (
        "1 loss",
        "2 days",
        "2 NVIDIA GPUs",
    )


def test_looking_at_indices_takes_no_time_of_a_device():
    """A row that measures a call measures nothing of how the call is shown."""
    x = torch.tensor([3, 1, 2]).to(bench()[1])
    moment = clock.now()
    assert describe([x]) == "[i64[3] sim:0 [3, 1, 2]]"
    assert clock.now() == moment
