"""The devices: rates as the chips' data sheets say, facts that are tried, and rules that change both."""

import pytest
import torch
from explore.fitting import faults

from devlab import sim
from devlab.explore.controls import Refused
from devlab.explore.pictures import devices
from devlab.explore.pictures.devices import Connections, State, connections_of, describe, draw, facts
from devlab.explore.scene import Box, Words
from devlab.sim.specs import CUDA_LIKE, MPS_LIKE

EIGHT = ("cpu", *(f"cuda:{index}" for index in range(8)))


@pytest.fixture(autouse=True, scope="module")
def simulated():
    """Let `sim:0` be there."""
    sim.enable()


@pytest.fixture
def explorer():
    """Return the explorer, opened nowhere."""
    return devices.explorer()


def written(scene) -> set[str]:
    """Return the texts in a scene."""
    return {shape.words for shape in scene.shapes if isinstance(shape, Words)}


def wide(scene) -> dict[str, float]:
    """Return how wide each connection is drawn, by its name."""
    connections = [
        shape for shape in scene.shapes if isinstance(shape, Box) and "a gigabyte takes" in shape.says
    ]
    return {connection.id: min(connection.wide, connection.high) for connection in connections}


@pytest.mark.parametrize(("rules", "chip"), [("cuda", CUDA_LIKE), ("mps", MPS_LIKE)])
def test_the_connections_are_those_of_the_chip(rules, chip):
    """What is measured on the model is what the model was given."""
    found = connections_of("sim:0", None, rules)
    assert found.own == pytest.approx(chip.bandwidth, rel=1e-4)
    assert found.pageable == pytest.approx(chip.pageable, rel=1e-4)
    assert found.pinned == pytest.approx(chip.pinned, rel=1e-4)
    assert found.pinning_helps is (rules == "cuda")


def test_two_devices_have_a_connection_between_them():
    """At the chip's rate, and in the picture."""
    assert connections_of("sim:0", "sim:1", "cuda").peer == pytest.approx(CUDA_LIKE.peer, rel=1e-4)
    assert "10 GB/s" in written(devices.explorer().scene)


def test_what_a_device_can_do_is_tried():
    """Each fact is the device's answer, and the rules change it."""
    known = facts("sim:0", "cuda")
    assert (known["float64"], known["torch.linalg.eig"], known["index"]) == ("yes", "yes", "0, of 2 here")
    assert known["memory"] == "1 GiB"
    known = facts("sim:0", "mps")
    assert (known["float64"], known["memory"]) == ("none: use float32", "shared with the CPU")
    assert known["torch.linalg.eig"] == "missing: run it on the CPU"
    assert known["index"] == "0, of 1 here"


def test_looking_leaves_the_rules_as_they_were(explorer):
    """The picture follows MPS's rules for itself alone."""
    explorer.set(rules="like Apple's MPS")
    assert "mps-like" in explorer.words
    explorer.html()
    assert sim.following() == "cuda"
    assert torch.empty(1, dtype=torch.float64, device="sim:1").device.index == 1


def test_the_first_picture_shows_wide_connections_inside_and_narrow_ones_between(explorer):
    """Names, rates, and that nothing was measured."""
    words = written(explorer.scene)
    assert {"cpu, rates modelled", "sim:0, simulated", "sim:1, simulated"} <= words
    assert {"300 GB/s", "51 GB/s", "pinned 12 GB/s", "pageable 4 GB/s"} <= words
    assert "sim:0: simulated accelerator, cuda-like" in words
    assert "3 times as fast" in words
    connections = wide(explorer.scene)
    assert connections["sim:0 own"] / connections["sim:0 pinned"] == pytest.approx(
        CUDA_LIKE.bandwidth / CUDA_LIKE.pinned, rel=1e-4
    )


def test_each_control_changes_picture_and_words(explorer):
    """The device looked at, and the rules, under which the second device is gone."""
    explorer.set(looked_at="sim:1")
    assert "sim:1: simulated accelerator, cuda-like" in written(explorer.scene)
    explorer.set(rules="like Apple's MPS")
    assert "sim:1: not there, because Apple's chips have one GPU" in written(explorer.scene)
    assert explorer.words.endswith(
        "there is cpu, sim:0. sim:1 is not there, because Apple's chips have one GPU."
    )
    assert faults(explorer.scene) == []
    explorer.set(looked_at="sim:0")
    words = written(explorer.scene)
    assert "sim:0: simulated accelerator, mps-like" in words
    assert "sim:1, simulated" not in words
    assert {"68 GB/s", "no use: no faster", "one memory", "for both", "a copy in it: 50 GB/s"} <= words
    assert "system" not in words
    assert (
        "sim:0 reads and writes the one memory that there is at 68 GB/s; a tensor is copied" in explorer.words
    )
    assert "there is cpu, sim:0." in explorer.words
    explorer.set(rules="like CUDA", looked_at="cpu")
    assert "cpu: CPU" in written(explorer.scene)
    assert "51 GB/s, by a model" in explorer.words


def test_a_connection_is_as_wide_under_the_other_rules(explorer):
    """The two chips can be compared: a point of width stands for as many bytes per second in both."""

    before = wide(explorer.scene)
    explorer.set(rules="like Apple's MPS")
    after = wide(explorer.scene)
    assert after["cpu own"] == before["cpu own"]
    assert before["cpu own"] == pytest.approx(devices.WIDEST * 51.2e9 / CUDA_LIKE.bandwidth)
    assert after["sim:0 own"] / before["sim:0 own"] == pytest.approx(
        MPS_LIKE.bandwidth / CUDA_LIKE.bandwidth, rel=1e-4
    )


def test_a_gigabyte_takes_its_time_on_each_connection(explorer):
    """In proportion, for the device looked at; each time is written where the gigabyte arrives."""
    assert explorer.scene.seconds == 0
    explorer.press(devices.SEND)
    scene = explorer.scene
    assert scene.seconds > 0
    flows = {shape.id: shape for shape in scene.shapes if getattr(shape, "flows", 0)}
    assert flows["bytes of sim:0 pageable"].during == (0, 1)
    assert flows["bytes of sim:0 own"].during[1] == pytest.approx(4 / 300, rel=1e-3)
    # Equal ways in unequal times: the bytes go as many times as fast as the connection carries more of them.
    assert len({shape.flows for shape in flows.values()}) == 1
    assert all(shape.goes == shape.during[1] for shape in flows.values())
    assert {"3.3 ms", "83 ms", "100 ms", "250 ms"} <= written(scene)
    assert "Gigabytes sent: 1; each took 3.3 ms in its own memory, 83 ms from pinned memory" in explorer.words
    takes = [scene.take]
    explorer.press(devices.SEND)
    takes.append(explorer.scene.take)
    assert takes[1] == takes[0] + 1


def test_a_click_on_a_device_looks_at_it(explorer):
    """As the list of devices does."""
    (box,) = [shape for shape in explorer.scene.shapes if shape.id == "sim:1"]
    explorer.set(**box.asks["set"])
    assert explorer.state.looked_at == "sim:1"


def test_real_devices_of_one_kind_are_drawn_to_one_scale():
    """Their measured bandwidths differ by little, and the scale by nothing."""
    state = State(EIGHT, "cuda:0")
    assert devices.widest(state, {"cuda:0": Connections(2.9e12)}) == devices.widest(
        state, {"cuda:1": Connections(3.1e12)}
    )
    assert devices.widest(state, {"cuda:0": Connections(2.9e12), "cuda:1": None}) == 5e12


def test_a_full_device_is_said_to_be_full(explorer):
    """No error, and no figure that was not found."""
    devices.connections_of.cache_clear()
    torch.sim.empty_cache()
    held = [
        torch.empty(torch.sim.mem_get_info(index)[0], dtype=torch.uint8, device=f"sim:{index}")
        for index in (0, 1)
    ]
    try:
        assert "too full to try" in written(explorer.scene)
        assert "sim:0 is too full to try its connections" in explorer.words
        assert faults(explorer.scene) == []
    finally:
        held.clear()
        torch.sim.empty_cache()
    assert "300 GB/s" in explorer.words


def test_the_cpu_alone_is_measured(monkeypatch):
    """Where there is no accelerator nothing is modelled."""
    monkeypatch.setenv("DEVLAB_DEVICE", "cpu")
    explorer = devices.explorer()
    assert [control.label for control in explorer.controls] == [devices.SEND]
    assert explorer.words.startswith("Measured on the CPU: there is the CPU alone.")
    words = written(explorer.scene)
    assert {"cpu, measured", "no accelerator here"} <= words
    assert faults(explorer.scene) == []


@pytest.mark.parametrize("looked_at", ["cpu", "cuda:1", "cuda:5"])
def test_of_many_devices_two_are_drawn_the_one_looked_at_among_them(looked_at, monkeypatch):
    """On a machine with eight GPUs, whose answers are put in here."""

    def connections(device, other, rules):
        return (
            Connections(2.1e11)
            if device == "cpu"
            else Connections(2.9e12, 9e9, 5.5e10, 3.8e11 if other else 0.0)
        )

    known = {"name": "NVIDIA H100 80GB HBM3", "memory": "79.2 GiB", "capability": "9.0"}
    monkeypatch.setattr(devices, "connections_of", connections)
    monkeypatch.setattr(devices, "facts", lambda device, rules: known)
    monkeypatch.setattr(devices, "source", lambda device: "Measured on NVIDIA H100 80GB HBM3")
    state = State(EIGHT, looked_at)
    words = written(draw(state))
    assert {"cuda:0, measured", f"cuda:{5 if looked_at == 'cuda:5' else 1}, measured", "380 GB/s"} <= words
    assert faults(draw(state)) == []
    assert describe(state).startswith("Measured on NVIDIA H100 80GB HBM3: there is cpu, cuda:0, cuda:1")


def test_what_is_not_here_is_refused(explorer):
    """With the devices that are."""
    with pytest.raises(Refused, match="cpu, sim:0, sim:1"):
        explorer.set(looked_at="cuda:0")
