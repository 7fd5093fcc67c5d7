"""No public call ends the process: each is made in a forked child, and deaths are compared with the CPU's."""

import contextlib
import os
import signal
import sys
import warnings

import pytest
import torch

import devlab.sim

# They end or stop a process on purpose, wait for a second process, or open what a child must not.
LEFT_OUT = {"share_memory_", "share_memory", "_share_fd_cpu_", "is_shared"}


def calls(device: str) -> list[tuple[str, object, str, tuple]]:
    """List the public methods of a tensor and its storages, and the functions about the accelerator."""
    x = torch.ones(2, 3, device=device)
    owners = [
        ("tensor", x),
        ("storage", x.untyped_storage()),
        ("typed", torch.TypedStorage([1.0], device=device)),
    ]
    if device != "cpu":
        owners += [
            ("torch.accelerator", torch.accelerator),
            ("torch.accelerator.memory", torch.accelerator.memory),
            ("torch.sim", torch.sim),
            ("stream", torch.Stream(device)),
            ("event", torch.Event(device)),
        ]
    arguments = ((), (0,), (1,), (x,), (device,), (x, x), (0, x))
    return [
        (f"{kind}.{name}{given!r}"[:60], owner, name, given)
        for kind, owner in owners
        for name in dir(owner)
        if not name.startswith("_") and name not in LEFT_OUT
        for given in arguments
    ]


def deaths(device: str) -> list[str]:
    """Make every call in a child; where it dies, another goes on; return the calls that ended a child."""
    with warnings.catch_warnings(action="ignore"):
        todo, found, at = calls(device), [], 0
    while at < len(todo):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            _make(todo, at, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            made = len(pipe.read())
        _, status = os.waitpid(child, 0)
        at += made
        if status == 0:
            break
        found.append(f"{todo[at][0]} (status {status})")
        at += 1
    return found


def _make(todo: list, begin: int, writer: int) -> None:
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - the child ends with it
    os.dup2(sys.stderr.fileno(), 2)
    warnings.simplefilter("ignore")
    devlab.sim.allow_after_fork()
    signal.alarm(60)
    for _, owner, name, given in todo[begin:]:
        with contextlib.suppress(BaseException):
            getattr(owner, name)(*given)
        os.write(writer, b".")
    os._exit(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a call that ends the process is made in a forked child")
def test_no_public_call_ends_the_process():
    """What the CPU survives, a simulated device survives: an error is raised, or a result returned."""
    devlab.sim.enable()
    torch.set_num_threads(1)
    on_cpu = {call.replace("cpu", "sim:0") for call in deaths("cpu")}
    assert [call for call in deaths("sim:0") if call not in on_cpu] == []
