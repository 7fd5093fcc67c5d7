"""`devlab.no_sync` refuses each wait of the host at its line, and nothing else."""

import threading
import warnings

import pytest
import torch

import devlab
from devlab import sim
from devlab.watching.quiet import HostWaited

sim.enable()
SIM = torch.device("sim", 0)
WAITS = {
    ".item()": lambda x: x.sum().item(),
    "float()": lambda x: float(x.sum()),
    "bool()": lambda x: bool((x > 0).all()),
    ".cpu()": lambda x: x.cpu(),
    ".tolist()": lambda x: x.tolist(),
    "nonzero()": lambda x: x.nonzero(),
    "boolean mask": lambda x: x[x > 0],
    "print": lambda x: repr(x),
    ".to()": lambda x: torch.ones(3).to(x.device),
    "synchronize()": lambda x: torch.accelerator.synchronize(),
}


@pytest.mark.parametrize("cause", WAITS)
def test_each_wait_is_refused_with_its_cause(cause):
    """PyTorch's own name for the call stands first, and the device that the host waited for."""
    x = torch.ones(3, device=SIM)
    with pytest.raises(HostWaited) as found, devlab.no_sync():
        WAITS[cause](x)
    assert str(found.value).startswith(f"{cause} makes the host wait for sim:0, in a block")


def test_the_traceback_ends_at_the_learners_line():
    """What devlab and PyTorch do below it tells a learner nothing."""
    x = torch.ones(3, device=SIM)
    with pytest.raises(HostWaited) as found, devlab.no_sync():
        x.sum().item()
    assert found.traceback[-1].path.name == "test_quiet.py"


def test_work_that_only_launches_is_left_alone():
    """A training step whose loss stays on the device, copies from pinned memory, and anything on the CPU."""
    model = torch.nn.Linear(4, 2).to(SIM)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    batch = torch.ones(3, 4).pin_memory()
    with devlab.no_sync() as quiet:
        loss = model(batch.to(SIM, non_blocking=True)).square().mean()
        loss.backward()
        optimizer.step()
        assert torch.ones(3).sum().item() == 3
    assert quiet.synchronizations == 0
    assert quiet.transfers == 1


def test_an_allowed_region_may_wait_and_the_rest_may_not():
    """Logging every hundred steps is no fault; a read beside it is."""
    x = torch.ones(3, device=SIM)
    with devlab.no_sync() as quiet:
        with quiet.allowed():
            assert x.sum().item() == 3
        with pytest.raises(HostWaited):
            x.sum().item()


def test_an_allowed_region_ends_as_it_began():
    """Within another one the host may go on waiting, and after the block nothing is watched again."""
    x = torch.ones(3, device=SIM)
    with devlab.no_sync() as quiet, quiet.allowed():
        with quiet.allowed():
            x.sum().item()
        x.sum().item()
    with quiet.allowed():
        x.sum().item()
    assert not quiet.open


def test_a_warning_names_the_learners_line_once():
    """With `warn` the program goes on, and the line is the learner's, in this file."""
    x = torch.ones(3, device=SIM)
    with warnings.catch_warnings(record=True) as said, devlab.no_sync(warn=True):
        warnings.simplefilter("always")
        assert x.sum().item() == 3
    assert len(said) == 1
    assert said[0].filename == __file__
    assert "makes the host wait" in str(said[0].message)


def test_the_wait_is_refused_in_a_thread_too():
    """A thread that the block starts belongs to it."""
    x, met = torch.ones(3, device=SIM), []

    def read():
        try:
            x.sum().item()
        except HostWaited as error:
            met.append(error)

    with devlab.no_sync():
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
    assert len(met) == 1


def test_nothing_is_refused_after_the_block():
    """Whether it ended well or by an error."""
    x = torch.ones(3, device=SIM)
    with pytest.raises(HostWaited), devlab.no_sync():
        x.sum().item()
    assert x.sum().item() == 3
