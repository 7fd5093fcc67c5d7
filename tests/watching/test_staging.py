"""Copies into pinned memory in time: the host makes them, and the lanes show when."""

import pytest
import torch

import devlab
from devlab.sim.specs import CUDA_LIKE
from devlab.watching.timeline import HOST, STAGING, STARTING, WAITING

SIM = "sim:0"


def test_the_host_fills_pinned_memory_itself():
    """In a copy that is staged, and in `pin_memory()`: the host is busy, and waits for nothing."""
    x, w = torch.ones(256, 256), torch.ones(256, 256, device=SIM)
    filling = x.nbytes / CUDA_LIKE.staging
    torch.sim.synchronize()
    with devlab.watch() as log:
        x.to(SIM, non_blocking=True)
        x.pin_memory().to(SIM, non_blocking=True) @ w
    timeline = log.timeline(show=False)
    lanes = timeline.lanes
    assert [span.state for span in lanes[HOST]] == [STAGING, STAGING, STARTING, STARTING]
    staged, pinned, *_ = lanes[HOST]
    assert staged.seconds == pytest.approx(CUDA_LIKE.launch + filling)
    assert (pinned.name, pinned.seconds) == ("pin_memory()", pytest.approx(filling))
    assert lanes["sim:0 copying"][0].start == pytest.approx(staged.end)
    assert timeline.waited == 0
    assert "▓ staging" in timeline.text()
    assert "in which the host only starts work and stages bytes" in timeline.text()
    assert log.transfers == 2
    assert log.dropped == 0


@pytest.mark.parametrize(("workers", "filled"), [(0, 4), (2, 0)])
def test_a_loaders_own_pinning_shows(workers, filled):
    """What lesson 04 draws: without workers the gain is paid for in the loop."""
    data = torch.utils.data.TensorDataset(torch.ones(8, 64))
    with devlab.watch() as log:
        for (x,) in torch.utils.data.DataLoader(data, 2, num_workers=workers, pin_memory=True):
            x.to(SIM, non_blocking=True)
    host = log.timeline(show=False).lanes[HOST]
    assert sum(span.state == STAGING for span in host) == filled
    assert all(not copy.blocking and copy.pinned for copy in log.events.transfers)


def test_a_blocking_copy_from_pageable_memory_reaches_the_device_after_the_staging():
    """The lane of the device shows what the device does, not what the host does before."""
    x = torch.ones(256, 256)
    torch.sim.synchronize()
    with devlab.watch() as log:
        x.to(SIM)
    lanes = log.timeline(show=False).lanes
    (copy,), (wait,) = lanes["sim:0 copying"], lanes[HOST]
    assert wait.state == WAITING
    assert copy.seconds == pytest.approx(CUDA_LIKE.shortest + x.nbytes / CUDA_LIKE.pinned)
    assert copy.end == pytest.approx(wait.end)


def test_pinning_in_a_loop_is_paid_for_each_time():
    """The timeline and `time_op` say so; memory that is pinned once, before, is not spoken of."""
    x, once = torch.ones(256, 256), torch.ones(256, 256).pin_memory()
    with devlab.watch() as log:
        for _ in range(3):
            x.pin_memory().to(SIM, non_blocking=True)
    said = log.timeline(show=False)
    assert "3 × pin_memory(), paid for each time" in said.text()
    assert "3 × pin_memory(), paid for each time" in said.html()
    with devlab.watch() as log:
        once.pin_memory().to(SIM, non_blocking=True)
    assert "paid for" not in log.timeline(show=False).text()
    before = torch.Tensor.pin_memory
    again = devlab.time_op(lambda: x.pin_memory().to(SIM, non_blocking=True), SIM, repeats=5, show=False)
    assert "Each call pins 256 KiB anew" in again.text()
    held = devlab.time_op(lambda: once.pin_memory().to(SIM, non_blocking=True), SIM, repeats=5, show=False)
    assert "pins" not in held.text()
    assert torch.Tensor.pin_memory is before
