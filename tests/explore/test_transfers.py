"""The transfers: the model's own figures on sim, the same path on a real device, and every control."""

import pytest
import torch
from explore.fitting import faults

from devlab import sim
from devlab.explore.controls import Refused
from devlab.explore.lanes import LEFT
from devlab.explore.pictures import transfers
from devlab.explore.pictures.transfers import INTO, OUT_OF, PAGEABLE, PINNED, SIZES, State, copies, copy
from devlab.explore.scene import Words
from devlab.explore.stopwatch import Lap
from devlab.sim.specs import CUDA_LIKE
from devlab.watching.timeline import COPYING, STAGING, STARTING, WAITING

FEE = CUDA_LIKE.launch + CUDA_LIKE.shortest
IMAGES = 32 * 3 * 224 * 224 * 4
MIB = 1 << 20


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
    ("memory", "bandwidth"), [(PAGEABLE, CUDA_LIKE.pageable), (PINNED, CUDA_LIKE.pinned)]
)
@pytest.mark.parametrize("count", [4, 1 << 20, IMAGES])
def test_a_copy_takes_the_fee_and_its_bytes_over_the_bandwidth(direction, memory, bandwidth, count):
    """Whoever looks the chip's figures up finds the picture's."""
    expected = FEE + count / bandwidth
    one = copy("sim:0", direction, memory, False, count)
    assert one.done == pytest.approx(expected, abs=1e-10)
    assert one.returned == one.done


def test_when_the_host_goes_on():
    """At once with pinned memory, after the staging of up to 2 MiB, else when the copy has ended."""
    for direction in (INTO, OUT_OF):
        for memory in (PAGEABLE, PINNED):
            blocking = copy("sim:0", direction, memory, False, IMAGES)
            assert blocking.returned == blocking.done
        early = copy("sim:0", direction, PINNED, True, IMAGES)
        assert early.returned == pytest.approx(CUDA_LIKE.launch)
    staged = copy("sim:0", INTO, PAGEABLE, True, MIB)
    assert staged.returned == pytest.approx(CUDA_LIKE.launch + MIB / CUDA_LIKE.staging)
    assert staged.done == pytest.approx(FEE + MIB / CUDA_LIKE.pageable)
    assert copy("sim:0", INTO, PAGEABLE, True, IMAGES) == copy("sim:0", INTO, PAGEABLE, False, IMAGES)
    home = copy("sim:0", OUT_OF, PAGEABLE, True, IMAGES)
    assert home.returned == home.done


def test_the_first_picture_is_half_fee(explorer):
    """16 KiB: as long for the fee as for the bytes, nearly."""
    assert explorer.words == (
        "Simulated: 16 KiB from pageable memory to sim:0 take 11.1 µs, which is 1.5 GB/s. "
        "Even 4 B take 7 µs. The host goes on after 11.1 µs. "
        "A change of dtype in the same call is made on the CPU."
    )


def test_each_control_changes_the_words_as_it_should(explorer):
    """One after the other."""
    explorer.set(looked_at="18.4 MiB")
    assert "18.4 MiB from pageable memory to sim:0 take 4.82 ms, which is 4 GB/s" in explorer.words
    explorer.set(non_blocking=True)
    assert "of more than 2 MiB from pageable memory returns when it has ended, whatever" in explorer.words
    explorer.set(looked_at="1 MiB")
    assert "goes on after 180 µs, when the bytes are in the driver's staging memory" in explorer.words
    explorer.set(looked_at="18.4 MiB")
    explorer.set(direction=OUT_OF)
    assert "into pageable memory returns when it has ended, whatever non_blocking says" in explorer.words
    explorer.set(direction=INTO)
    explorer.set(memory=PINNED)
    assert "take 1.61 ms, which is 12 GB/s" in explorer.words
    assert "The host goes on after 5 µs, while the copy is under way." in explorer.words
    assert "A change of dtype in the same call is made on sim:0." in explorer.words
    explorer.set(direction=OUT_OF)
    assert "from sim:0 into pinned memory" in explorer.words
    assert "may read old contents" in explorer.words


def written(scene) -> set[str]:
    """Return the texts in a scene."""
    return {shape.words for shape in scene.shapes if isinstance(shape, Words)}


def shape(scene, name):
    """Return the shape of this name."""
    (found,) = [one for one in scene.shapes if one.id == name]
    return found


def test_the_picture_shows_what_the_words_say(explorer):
    """The size, its time, its bandwidth, both memories, and the host: it waits, or goes on early."""
    explorer.set(looked_at=IMAGES, memory=PINNED)
    waiting = written(explorer.scene)
    figures = {"18.4 MiB (32 images of 224 × 224): 1.61 ms, 12 GB/s", "time of the copy, simulated"}
    assert waiting >= figures | {"pinned memory", "pageable memory", "on at 1.61 ms", "there at 1.61 ms"}
    assert "waiting 1.61 ms" in waiting
    explorer.set(non_blocking=True)
    assert written(explorer.scene) - waiting == {"host goes on", "on at 5 µs", "free to go on 1.61 ms"}
    assert explorer.scene.caption.endswith("take 1.61 ms; the host goes on after 5 µs.")


LAUNCH, AHEAD, BACK = CUDA_LIKE.launch, MIB / CUDA_LIKE.staging, FEE + MIB / CUDA_LIKE.pinned


@pytest.mark.parametrize(
    ("direction", "memory", "non_blocking", "expected"),
    [
        (INTO, PAGEABLE, False, [(STARTING, LAUNCH), (STAGING, LAUNCH + AHEAD), (WAITING, AHEAD + BACK)]),
        (
            INTO,
            PAGEABLE,
            True,
            [(STARTING, LAUNCH), (STAGING, LAUNCH + AHEAD), (transfers.FREE, AHEAD + BACK)],
        ),
        (INTO, PINNED, False, [(STARTING, LAUNCH), (WAITING, BACK)]),
        (OUT_OF, PINNED, True, [(STARTING, LAUNCH), (transfers.FREE, BACK)]),
        (OUT_OF, PAGEABLE, True, [(STARTING, LAUNCH), (WAITING, BACK), (STAGING, BACK + AHEAD)]),
    ],
)
def test_the_host_starts_stages_waits_or_is_free(direction, memory, non_blocking, expected):
    """Each until when, as the chip's figures say; nothing is left out between two of them."""
    one = copy("sim:0", direction, memory, non_blocking, MIB)
    found = transfers.phases(State("sim:0", direction), one)
    assert [phase.does for phase in found] == [does for does, _ in expected]
    assert [phase.end for phase in found] == pytest.approx([end for _, end in expected], abs=1e-9)
    assert [phase.start for phase in found] == [0, *(phase.end for phase in found[:-1])]


def test_of_a_real_call_it_is_known_when_it_returned_and_no_more():
    """Waiting where that is as good as the end of the copy, and no staging that nobody has seen."""
    state = State("cuda:0", non_blocking=True)
    early = [tuple(phase) for phase in transfers.phases(state, Lap(1e-3, 4e-3))]
    assert early == [(transfers.CALLING, 0, 1e-3), (transfers.FREE, 1e-3, 4e-3)]
    assert [phase.does for phase in transfers.phases(state, Lap(4e-3, 4e-3))] == [WAITING]


def test_the_lanes_are_in_proportion_and_fill_as_time_goes(explorer):
    """Host and copy in one scale, each stretch in its own share of the playing time; waiting is hatched."""
    scene = explorer.scene
    host, copied = shape(scene, "host waiting 1"), shape(scene, "bytes travel")
    assert host.hatched
    assert (host.x, host.wide, host.during) == (copied.x, copied.wide, copied.during)
    one = copy("sim:0", INTO, PAGEABLE, False, explorer.state.looked_at)
    assert copied.during == pytest.approx((one.working[0] / one.done, 1))
    assert shape(scene, "host starting work 1").wide / copied.wide == pytest.approx(
        LAUNCH / (one.done - one.working[0]), rel=0.01
    )
    assert scene.seconds > 0


def test_two_memories_are_drawn_on_one_scale_of_time(explorer):
    """So that a pinned copy looks as much shorter as it is, and nothing is stretched to the same width."""
    wide = {}
    for memory in (PAGEABLE, PINNED):
        explorer.set(looked_at=IMAGES, memory=memory)
        wide[memory] = shape(explorer.scene, "head").points[0][0] - LEFT
    assert wide[PINNED] / wide[PAGEABLE] == pytest.approx(1.61 / 4.82, rel=0.01)


def test_the_ring_is_dragged_from_anywhere_over_the_curves(explorer):
    """The ground holds every point of the curves, and the labels of the sizes."""
    ring = shape(explorer.scene, "handle")
    left, top, wide, high = ring.ground
    assert all(left <= stop.x <= left + wide and top <= stop.y <= top + high for stop in ring.stops)
    assert shape(explorer.scene, f"label at {SIZES[0]}").y <= top + high


def test_the_ring_goes_along_all_sizes(explorer):
    """On the curve, the size looked at the nearest; each stop asks for its size."""
    ring = shape(explorer.scene, "handle")
    middle = ring.x + ring.wide / 2, ring.y + ring.high / 2
    assert [stop.asks["set"]["looked_at"] for stop in ring.stops] == SIZES
    (here,) = [stop for stop in ring.stops if (stop.x, stop.y) == pytest.approx(middle)]
    assert here.asks["set"]["looked_at"] == explorer.state.looked_at
    explorer.set(**ring.stops[-1].asks["set"])
    assert "64 MiB: 16.8 ms, 4 GB/s" in written(explorer.scene)
    names = {one.id for one in explorer.scene.shapes}
    assert "pinned 4" not in names  # it would lie under "pageable 4", where no pointer comes
    assert "pageable 4" in names
    explorer.set(**shape(explorer.scene, f"pinned {IMAGES}").asks["set"])
    assert (explorer.state.memory, explorer.state.looked_at) == (PINNED, IMAGES)
    explorer.set(**shape(explorer.scene, "name pageable").asks["set"])
    assert explorer.state.memory == PAGEABLE


def test_the_curves_are_of_time_or_of_bandwidth(explorer):
    """On one axis for each, whatever else is turned to."""
    labels = {words for words in written(explorer.scene) if words.startswith("1")}
    assert {"1 µs", "100 ms"} <= labels
    explorer.set(curve="bandwidth")
    assert {"0.1 MB/s", "1 GB/s", "100 GB/s", "bandwidth of the copy, simulated"} <= written(explorer.scene)
    assert explorer.words.endswith("The curves show the bandwidth over the size.")


def test_two_memories_of_one_speed_are_named_without_touching(explorer, monkeypatch):
    """As on a chip whose CPU and GPU share their memory."""
    monkeypatch.setattr(
        transfers, "copy", lambda device, direction, memory, *rest: copy(device, INTO, PINNED, *rest)
    )
    assert faults(explorer.scene) == []


def test_the_curve_ends_where_the_device_is_full(explorer):
    """A learner's tensors may fill the device: that is said, and nothing breaks."""
    transfers._copy_once.cache_clear()
    torch.sim.empty_cache()
    room = torch.sim.mem_get_info("sim:0")[0] - (8 << 20)
    held = torch.empty(room, dtype=torch.uint8, device="sim:0")
    try:
        explorer.set(looked_at="64 MiB")
        assert list(copies(explorer.state, PAGEABLE))[-1] < 64 << 20
        assert "64 MiB do not fit on sim:0 at the moment" in explorer.words
        assert faults(explorer.scene) == []
    finally:
        del held
        torch.sim.empty_cache()
    assert list(copies(explorer.state, PAGEABLE))[-1] == 64 << 20


def test_without_an_accelerator_the_cpus_own_copies_are_measured(monkeypatch):
    """The same code, by the real clock; nothing to pin, no direction to choose."""
    monkeypatch.setenv("DEVLAB_DEVICE", "cpu")
    monkeypatch.setattr(transfers, "SIZES", SIZES[:6])
    explorer = transfers.explorer()
    assert [control.field for control in explorer.controls] == ["looked_at", "curve"]
    assert explorer.words.startswith("Measured on the CPU: 16 KiB copied within the CPU's memory")
    curve = copies(State("cpu"), PAGEABLE)
    assert all(one.done > 0 for one in curve.values())
    (phase,) = transfers.phases(explorer.state, curve[256])
    assert phase == (COPYING, 0, curve[256].done)  # the host copies the bytes itself
    assert faults(explorer.scene) == []


def test_a_size_that_is_not_offered_is_refused(explorer):
    """With the sizes that are."""
    with pytest.raises(Refused, match="16 KiB"):
        explorer.set(looked_at=17)


def test_the_default_device_and_the_rules_are_heeded(explorer):
    """Tensors on the CPU are there whatever the default is; under MPS's rules the figures are its chip's."""
    transfers._copy_once.cache_clear()
    before = explorer.words
    transfers._copy_once.cache_clear()
    torch.set_default_device("sim:1")
    try:
        assert explorer.words == before
    finally:
        torch.set_default_device(None)
    with sim.rules("mps"):
        assert "16 KiB from pageable memory to sim:0 take 14.3 µs" in explorer.words
        explorer.set(non_blocking=True)
        assert "goes on after 10 µs, while the copy is under way" in explorer.words  # nothing is staged
        explorer.set(non_blocking=False)
        assert faults(explorer.scene) == []
    assert explorer.words == before
