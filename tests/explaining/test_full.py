"""A full memory: its holders by name, and what no name holds is said to be held by nothing that is seen."""

import gc

import pytest
import torch
from torch import nn

import devlab.sim
from devlab.explaining import explained


@pytest.fixture(autouse=True)
def small(empty_memory):
    """Each device has 64 MiB, and nothing in them."""
    gc.collect()
    for index in range(2):
        devlab.sim.memory.set_capacity(64 << 20, f"sim:{index}")


def full(run):
    """Return what is said of a memory that a function fills."""
    with pytest.raises(torch.OutOfMemoryError) as caught:
        run()
    return explained(caught.value)


def model() -> nn.Module:
    """Return a model of 130 KiB whose results of 4,096 rows take 2 MiB a layer."""
    return nn.Sequential(nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh()).to("sim")


def _losses_in_a_list():
    net, history = model(), []
    for _ in range(99):
        loss = net(torch.ones(4096, 128, device="sim")).pow(2).mean()
        history.append(loss)
    return history


def _running_total():
    net, total = model(), 0
    for _ in range(99):
        loss = net(torch.ones(4096, 128, device="sim")).pow(2).mean()
        total = total + loss
    return total


@pytest.mark.parametrize(("run", "culprit"), [(_losses_in_a_list, "history"), (_running_total, "total")])
def test_what_graphs_keep_is_not_blamed_on_the_model(run, culprit):
    """The largest name holds a fiftieth of the memory; the longest graph hangs on the culprit."""
    report = full(run)
    assert report.culprit == culprit, report.text()
    assert "MiB are held by nothing that can be seen here" in report.origin
    assert [one.name for one in report.met if one.culprit] == [culprit]
    assert "loss.item()" in report.note


def test_one_step_that_is_too_large_is_the_call_itself():
    """No name holds a graph yet: PyTorch's own frames do."""
    net = model()
    report = full(lambda: net(torch.ones(40000, 128, device="sim")))
    assert report.culprit == 'net(torch.ones(40000, 128, device="sim"))', report.text()
    assert "for the backward pass" in report.origin
    assert "torch.no_grad()" in report.note


def test_a_comprehension_holds_what_has_no_name():
    """Also where the line that failed is in a function that the comprehension calls."""

    def make():
        return torch.ones(1 << 21, device="sim")

    report = full(lambda: torch.stack([make() for _ in range(20)]))
    assert report.culprit == "[make() for _ in range(20)]", report.text()
    assert "48 MiB are held by nothing that can be seen here" in report.origin


def test_what_a_hook_keeps_is_not_the_models():
    """The hook hangs in the model, and its list is reached by no other name."""

    def follow(net):
        kept = []
        net.register_forward_hook(lambda module, given, out: kept.append(out))

    net = model().requires_grad_(False)
    follow(net)

    def run():
        for _ in range(99):
            net(torch.ones(4096, 128, device="sim"))

    assert full(run).culprit == "the hooks of net"


def test_only_the_full_device_is_told_of():
    """What lies on the other one fills nothing here."""
    elsewhere = torch.ones(3 << 21, device="sim:1")
    here = torch.ones(1 << 21, device="sim:0")
    report = full(lambda: (torch.ones(1 << 24, device="sim:0"), here, elsewhere))
    assert {one.name for one in report.met} == {"here", "run"}  # the function holds both
    assert {one.device for one in report.met} == {"sim:0"}


def test_where_nothing_is_seen_nothing_is_blamed():
    """The bytes that no name holds are said, with where to look."""

    def hidden():
        box = type("Box", (), {"__slots__": ("inside",)})()
        box.inside = torch.ones(7 << 21, device="sim")
        return box

    box = hidden()
    report = full(lambda: (torch.ones(1 << 22, device="sim"), box))
    assert (report.known, report.culprit) == (False, "")
    assert "56 MiB are held by nothing that can be seen here" in report.note
