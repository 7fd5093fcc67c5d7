"""The transfers: the model's own figures on sim, the same path on a real device, and every control."""

import pytest
import torch
from explore.fitting import faults

from devlab import sim
from devlab.explore.controls import Refused
from devlab.explore.pictures import transfers
from devlab.explore.pictures.transfers import INTO, ORDINARY, OUT_OF, PINNED, SIZES, State, copies, copy
from devlab.sim.specs import CUDA_LIKE

FEE = CUDA_LIKE.launch + CUDA_LIKE.shortest
IMAGES = 32 * 3 * 224 * 224 * 4


@pytest.fixture(autouse=True, scope="module")
def simulated():
    """Let `sim:0` be there."""
    sim.enable()


@pytest.fixture
def explorer():
    """Return the explorer, opened nowhere."""
    return transfers.explorer()


@pytest.mark.parametrize("direction", [INTO, OUT_OF])
@pytest.mark.parametrize(
    ("memory", "bandwidth"), [(ORDINARY, CUDA_LIKE.pageable), (PINNED, CUDA_LIKE.pinned)]
)
@pytest.mark.parametrize("count", [4, 1 << 20, IMAGES])
def test_a_copy_takes_the_fee_and_its_bytes_over_the_bandwidth(direction, memory, bandwidth, count):
    """Whoever looks the chip's figures up finds the picture's."""
    expected = FEE + count / bandwidth
    one = copy("sim:0", direction, memory, False, count)
    assert one.done == pytest.approx(expected, abs=1e-10)
    assert one.returned == one.done


def test_when_the_host_goes_on():
    """At once with pinned memory, after the staging from ordinary memory, else when the copy has ended."""
    for direction in (INTO, OUT_OF):
        for memory in (ORDINARY, PINNED):
            blocking = copy("sim:0", direction, memory, False, IMAGES)
            assert blocking.returned == blocking.done
        early = copy("sim:0", direction, PINNED, True, IMAGES)
        assert early.returned == pytest.approx(CUDA_LIKE.launch)
    staged = copy("sim:0", INTO, ORDINARY, True, IMAGES)
    assert staged.returned == pytest.approx(CUDA_LIKE.launch + IMAGES / CUDA_LIKE.staging)
    assert staged.done == pytest.approx(FEE + IMAGES / CUDA_LIKE.pageable)
    home = copy("sim:0", OUT_OF, ORDINARY, True, IMAGES)
    assert home.returned == home.done


def test_the_first_picture_is_half_fee(explorer):
    """16 KiB: as long for the fee as for the bytes, nearly."""
    assert explorer.words == (
        "Simulated: 16 KiB from ordinary memory to sim:0 take 11.1 µs, which is 1.5 GB/s. "
        "Even 4 B take 7 µs. The host goes on after 11.1 µs. "
        "A change of dtype in the same call is made on the CPU."
    )


def test_each_control_changes_the_words_as_it_should(explorer):
    """One after the other."""
    explorer.set(looked_at="32 images of 224 × 224, 18.4 MiB")
    assert "18.4 MiB from ordinary memory to sim:0 take 4.82 ms, which is 4 GB/s" in explorer.words
    explorer.set(non_blocking=True)
    assert "goes on after 3.22 ms, when the bytes are in the driver's staging memory" in explorer.words
    explorer.set(direction=OUT_OF)
    assert "into ordinary memory returns when it has ended, whatever non_blocking says" in explorer.words
    explorer.set(direction=INTO)
    explorer.set(memory=PINNED)
    assert "take 1.61 ms, which is 12 GB/s" in explorer.words
    assert "The host goes on after 5 µs, while the copy is under way." in explorer.words
    assert "A change of dtype in the same call is made on sim:0." in explorer.words
    explorer.set(direction=OUT_OF)
    assert "from sim:0 into pinned memory" in explorer.words
    assert "may read old contents" in explorer.words


def written(figure) -> set[str]:
    """Return the texts that a figure's axes hold."""
    return {text.get_text() for axes in figure.axes for text in axes.texts}


def test_the_picture_shows_what_the_words_say(explorer):
    """The size, its time, its bandwidth, both memories, and the host: it waits, or goes on early."""
    explorer.set(looked_at=IMAGES, memory=PINNED)
    waiting = written(explorer.figure)
    figures = {"18.4 MiB in 1.61 ms", "18.4 MiB at 12 GB/s", "even 4 B take 7 µs"}
    assert waiting == figures | {"pinned memory", "ordinary memory", "the host (thin line) waits"}
    explorer.set(non_blocking=True)
    assert written(explorer.figure) - waiting == {"the host goes on"}


def test_two_memories_of_one_speed_are_named_without_touching(explorer, monkeypatch):
    """As on a chip whose CPU and GPU share their memory."""
    monkeypatch.setattr(
        transfers, "copy", lambda device, direction, memory, *rest: copy(device, INTO, PINNED, *rest)
    )
    assert faults(explorer.figure) == []


def test_the_curve_ends_where_the_device_is_full(explorer):
    """A learner's tensors may fill the device: that is said, and nothing breaks."""
    transfers._copied.cache_clear()
    torch.sim.empty_cache()
    room = torch.sim.mem_get_info("sim:0")[0] - (8 << 20)
    held = torch.empty(room, dtype=torch.uint8, device="sim:0")
    try:
        explorer.set(looked_at="64 MiB")
        assert list(copies(explorer.state, ORDINARY))[-1] < 64 << 20
        assert "64 MiB do not fit on sim:0 at the moment" in explorer.words
        assert faults(explorer.figure) == []
    finally:
        del held
        torch.sim.empty_cache()
    assert list(copies(explorer.state, ORDINARY))[-1] == 64 << 20


def test_without_an_accelerator_the_cpus_own_copies_are_measured(monkeypatch):
    """The same code, by the real clock; nothing to pin, no direction to choose."""
    monkeypatch.setenv("DEVLAB_DEVICE", "cpu")
    monkeypatch.setattr(transfers, "SIZES", SIZES[:6])
    explorer = transfers.explorer()
    assert [control.field for control in explorer.controls] == ["looked_at"]
    assert explorer.words.startswith("Measured on the CPU: 16 KiB copied within the CPU's memory")
    assert all(one.done > 0 for one in copies(State("cpu"), ORDINARY).values())
    assert faults(explorer.figure) == []


def test_a_size_that_is_not_offered_is_refused(explorer):
    """With the sizes that are."""
    with pytest.raises(Refused, match="64 digits of 8 × 8, 16 KiB"):
        explorer.set(looked_at=17)


def test_the_default_device_and_the_rules_are_heeded(explorer):
    """Tensors on the CPU are there whatever the default is; under MPS's rules the figures are its chip's."""
    transfers._copied.cache_clear()
    before = explorer.words
    transfers._copied.cache_clear()
    torch.set_default_device("sim:1")
    try:
        assert explorer.words == before
    finally:
        torch.set_default_device(None)
    with sim.rules("mps"):
        assert "16 KiB from ordinary memory to sim:0 take 14.3 µs" in explorer.words
        assert faults(explorer.figure) == []
    assert explorer.words == before
