"""The same program gives the same counts on every accelerator, and those are the ones in the table."""

import pytest
import torch
from watching.programs import PROGRAMS

import devlab
from devlab.sim import events


def watched(program, device):
    """Run a program under watch and return what was seen, 'dev' standing for the device."""
    work = program.prepare(device)
    with devlab.watch() as log:
        work()

    def place(name):
        return "dev" if name == str(device) else name

    transfers = [(place(t.source), place(t.target), t.bytes) for t in log.events.transfers]
    waits = [wait.cause for wait in log.events.synchronizations]
    launches = [launch.operator for launch in log.events.launches]
    assert {launch.device for launch in log.events.launches} <= {str(device)}
    assert (log.transfers, log.synchronizations, log.launches) == (len(transfers), len(waits), len(launches))
    assert log.bytes_moved == sum(size for *_, size in transfers)
    return transfers, waits, launches, log


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_sim(name, sim):
    """What the table says is what is counted on the simulated accelerator."""
    program = PROGRAMS[name]
    transfers, waits, launches, _ = watched(program, sim)
    assert transfers == list(program.transfers)
    assert waits == list(program.waits)
    if program.launches is not None:
        assert launches == program.launches


# Told as CUDA does them, which on sim goes another way; and printing, many small readings told as one.
TOLD_DIFFERENTLY = {
    "print",
    "element, one value",
    "slice, one value",
    "rows, one value",
    "mask, one value",
    "index from the CPU",
}


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - TOLD_DIFFERENTLY))
def test_the_simulator_itself_says_the_same(name, sim):
    """What the simulator reports of copies, launches and waits is what was counted from outside."""
    work = PROGRAMS[name].prepare(sim)
    said = []
    events.observers.append(said.append)
    try:
        with devlab.watch() as log:
            work()
    finally:
        events.observers.clear()
    copies = [(e.source, e.target, e.bytes, e.blocking) for e in said if isinstance(e, events.Transfer)]
    assert copies == [(t.source, t.target, t.bytes, t.blocking) for t in log.events.transfers]
    assert sum(isinstance(event, events.Launch) for event in said) == log.launches
    assert sum(isinstance(event, events.Synchronization) for event in said) == log.synchronizations


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_cuda(name, sim, cuda):
    """A real GPU is counted alike: transfers, waits, launches and new bytes."""
    program = PROGRAMS[name]
    *on_sim, sim_log = watched(program, sim)
    *on_cuda, cuda_log = watched(program, cuda)
    assert on_cuda == on_sim
    assert cuda_log.bytes_allocated == sim_log.bytes_allocated


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_the_cpu_nothing_crosses(name):
    """The same programs on the CPU move nothing and wait for nothing."""
    if name in ("accelerator", "event", "synchronize"):
        pytest.skip("there is nothing to wait for on the CPU")
    *_, log = watched(PROGRAMS[name], torch.device("cpu"))
    assert (log.transfers, log.synchronizations, log.launches) == (0, 0, 0)
