"""A process that was forked from one which had used the devices cannot use them, as with CUDA."""

import multiprocessing
import os
import subprocess
import sys

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import devlab
import devlab.sim

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system starts no process by a fork")
REFUSED = (
    "Cannot re-initialize sim in forked subprocess. To use sim with multiprocessing, "
    "you must use the 'spawn' start method"
)


def in_child(work, *args):
    """Return what a function returns in a forked process, or the error that it raises there."""
    reading, writing = multiprocessing.Pipe(duplex=False)

    def run():
        try:
            writing.send(work(*args))
        except Exception as error:
            writing.send(error)

    child = multiprocessing.get_context("fork").Process(target=run)
    child.start()
    said = reading.recv()
    child.join()
    return said


USES = {
    "a factory": lambda x: torch.ones(2, device="sim"),
    "random numbers": lambda x: torch.randn(2, device="sim"),
    "an empty tensor": lambda x: torch.empty(0, device="sim"),
    "a tensor of data": lambda x: torch.tensor([1.0], device="sim"),
    "an operator of one tensor": lambda x: x.sin(),
    "an operator of two": lambda x: x + 1,
    "in place": lambda x: x.add_(1),
    "into out=": lambda x: torch.add(x, x, out=x),
    "several tensors": lambda x: torch.cat([x, x]),
    "a copy to the CPU": lambda x: x.cpu(),
    "a copy into a CPU tensor": lambda x: torch.ones(2).copy_(x),
    "a copy from the CPU": lambda x: torch.ones(2).to(x),
    "a copy into the tensor": lambda x: x.copy_(torch.ones(2)),
    "a number": lambda x: x[0].item(),
    "printing": repr,
    "another size": lambda x: x.resize_(5),
    "waiting": lambda x: torch.sim.synchronize(),
}


@pytest.mark.parametrize("use", USES)
def test_a_forked_process_cannot_use_the_device(use, device):
    """Whatever it tries first, as on CUDA; the parent goes on."""
    x = torch.ones(2, device=device)
    said = in_child(USES[use], x)
    assert isinstance(said, RuntimeError)
    assert str(said) == REFUSED
    assert x.tolist() == [1, 1]


def test_what_a_forked_process_may_ask(device):
    """What is known without the device; the rule set stays CUDA's, and a block of rules opens no way."""
    x = torch.ones(2, 3, device=device)
    known = in_child(
        lambda: (
            x.shape,
            x.device,
            torch.sim.is_initialized(),
            torch.sim._is_in_bad_fork(),
            devlab.sim.following(),
        )
    )
    assert known == (x.shape, device, False, True, "cuda")
    assert (torch.sim.is_initialized(), torch.sim._is_in_bad_fork()) == (True, False)

    def under_rules(name):
        with devlab.sim.rules(name):
            return x + 1

    for name in ("cuda", "mps"):
        assert str(in_child(under_rules, name)) == REFUSED
    assert in_child(lambda: torch.manual_seed(1).initial_seed()) == 1


def test_devlabs_own_processes_are_let_in(device):
    """By `allow_after_fork` a forked process has the tensors of its parent; its own children have not."""
    x = torch.ones(2, device=device)

    def work():
        devlab.sim.allow_after_fork()
        return (x + 1).tolist(), str(in_child(x.sum))

    assert in_child(work) == ([2, 2], REFUSED)


class OnTheCpu(Dataset):
    """Four numbers; one more tensor lies on the device."""

    def __init__(self, device):
        self.there = torch.arange(4.0, device=device)

    def __len__(self):
        return 4

    def __getitem__(self, place):
        return torch.tensor(float(place))


class Inherited(OnTheCpu):
    """The numbers lie on the device."""

    def __getitem__(self, place):
        return self.there[place]


class Made(OnTheCpu):
    """The numbers are made on the device."""

    def __getitem__(self, place):
        return torch.tensor(float(place), device=self.there.device)


@pytest.mark.parametrize("pin", [False, True])
def test_forked_workers_may_hold_tensors_of_the_device(device, pin):
    """The data set's own tensors are on the CPU, and the worker looks into no other."""
    loader = DataLoader(OnTheCpu(device), 2, num_workers=2, pin_memory=pin, multiprocessing_context="fork")
    assert [batch.to(device).tolist() for batch in loader] == [[0, 1], [2, 3]]


@pytest.mark.parametrize("data", [Inherited, Made])
def test_forked_workers_cannot_use_the_device(data, device):
    """The loader passes the error on, and `explain` says what to do."""
    loader = DataLoader(data(device), 2, num_workers=2, multiprocessing_context="fork")
    with pytest.raises(RuntimeError, match="Caught RuntimeError in DataLoader worker process 0") as caught:
        next(iter(loader))
    assert str(caught.value).rstrip().endswith(REFUSED)
    said = str(devlab.explain(caught.value))
    assert "a worker process cannot use the accelerator that its parent has started" in said


BEFORE_USE = """
import torch, devlab.sim
devlab.sim.enable()


class Made(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, place):
        return torch.tensor(float(place), device="sim").cpu()


if __name__ == "__main__":
    assert not torch.sim.is_initialized()
    loader = torch.utils.data.DataLoader(Made(), num_workers=1, multiprocessing_context="fork")
    assert [x.item() for x in loader] == [0, 1]
    assert not torch.sim.is_initialized()
    torch.ones(1, device="sim:1")
    assert torch.sim.is_initialized()
    torch.accelerator.empty_cache()
    assert torch.sim.is_initialized()
"""


def test_the_parent_must_have_used_a_device(tmp_path):
    """A worker may use the devices where its parent did not, as with CUDA, which starts at its first use."""
    script = tmp_path / "before_use.py"
    script.write_text(BEFORE_USE)
    subprocess.run([sys.executable, script], check=True, timeout=120)
