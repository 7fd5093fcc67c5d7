"""A snapshot of a simulated device's memory is PyTorch's: its own tools and signatures are asked."""

import gc
import inspect
import pickle
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
import torch
from torch.cuda import _memory_viz as viz

import devlab
from devlab.sim import snapshot
from devlab.sim.allocator import PatientAllocator, allocators

memory = torch.sim.memory
MIB = 1 << 20


@pytest.fixture(autouse=True)
def fresh(empty_memory):
    """Begin each test with empty memories, and end it without a history."""
    yield
    memory._record_memory_history(None)


def actions(index: int = 0) -> list[str]:
    """Name what happened on a device, the snapshot that asks left out."""
    return [entry["action"] for entry in memory._snapshot()["device_traces"][index]][:-1]


def make(size: int, device="sim:0") -> torch.Tensor:
    """Make a tensor in a function whose name is in the frames."""
    return torch.empty(size, dtype=torch.uint8, device=device)


def test_signatures_are_pytorchs():
    """Code that is written for `torch.cuda.memory` calls these as they are."""
    for name in ("_record_memory_history", "_snapshot", "_dump_snapshot"):
        theirs = inspect.signature(getattr(torch.cuda.memory, name)).parameters.values()
        ours = inspect.signature(getattr(memory, name)).parameters.values()
        here, there = ([(p.name, p.default) for p in found] for found in (ours, theirs))
        assert here[: len(there)] == there  # an older PyTorch has fewer arguments at the end
        assert {name for name, _ in here[len(there) :]} <= {"record_pinned_host_memory", "record_cuda"}


def test_devices_can_be_left_out_of_the_history():
    """As in newer releases of PyTorch, where the pinned memory alone is recorded then."""
    memory._record_memory_history(record_cuda=False, record_pinned_host_memory=True)
    kept = make(MIB)
    assert torch.sim.memory._snapshot()["device_traces"][0] == []
    del kept


def test_only_devices_that_are_there_are_in_it():
    """Where one device is simulated, a snapshot of all of them leaves out what stands on the other one."""
    kept = make(4 * MIB), make(4 * MIB, "sim:1")
    assert [one["device"] for one in torch.sim.memory_snapshot()] == [0, 1]
    with devlab.sim.rules("mps"):
        assert [one["device"] for one in torch.sim.memory_snapshot()] == [0]
        taken = memory._snapshot()
    assert [one["device"] for one in taken["segments"]] == [0]
    assert len(taken["device_traces"]) == 1
    del kept


def test_a_history_tells_what_happened_and_where():
    """Segments, allocations and both halves of freeing, the innermost line first."""
    memory._record_memory_history()
    kept, gone = make(4 * MIB), make(100)
    del gone
    memory._record_memory_history(context="all")  # a second call goes on with the same history
    torch.sim.empty_cache()
    assert actions() == [
        *("segment_alloc", "alloc") * 2,
        "free_requested",
        "free_completed",
        "segment_free",
    ]
    first, second = memory._snapshot()["device_traces"][0][:2]
    assert (first["size"], second["size"]) == (20 * MIB, 4 * MIB)
    assert [frame["name"] for frame in second["frames"][:2]] == [
        "make",
        "test_a_history_tells_what_happened_and_where",
    ]
    assert second["frames"][0]["filename"] == __file__
    (segment,) = memory._snapshot()["segments"]
    assert segment["frames"][0]["name"] == "make"
    (block, rest) = segment["blocks"]
    assert (block["requested_size"], block["frames"][0]["name"]) == (kept.nbytes, "make")
    assert (rest["state"], rest["frames"]) == ("inactive", [])


def test_what_is_freed_in_the_middle_of_a_request_is_freed_after_it():
    """Python may collect garbage at any moment, and other threads let tensors go."""
    memory._record_memory_history()

    def work():
        for _ in range(200):
            ring = [make(1000)]
            ring.append(ring)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        memory._snapshot()  # meanwhile
    gc.collect()
    found = actions()
    assert found.count("alloc") == found.count("free_requested") == found.count("free_completed") == 600
    assert torch.sim.memory_allocated(0) == 0


def test_a_request_that_was_put_off_before_the_history_began():
    """Another thread may be between its question and its request when a history begins."""
    allocator = PatientAllocator(0, capacity=1 << 30)
    note = SimpleNamespace(requested=1000, stream=0, block=allocator.allocate_at_once(1000, 0))
    snapshot.begin(allocator, snapshot.History())
    allocator.request(note)
    assert (allocator.allocated, note.block.requested) == (1024, 1000)
    assert [event[0] for event in allocator.history.events] == ["segment_alloc", "alloc"]


def test_a_request_that_fails_is_there_with_what_was_free():
    """Out of memory is the last word of many a history."""
    memory._record_memory_history()
    kept = make(10 * MIB)
    with pytest.raises(torch.OutOfMemoryError):
        make(2 << 30)
    with pytest.raises(torch.OutOfMemoryError):
        make(1020 * MIB)
    too_large = [entry for entry in memory._snapshot()["device_traces"][0] if entry["action"] == "oom"]
    assert [entry["size"] for entry in too_large] == [2 << 30, 1020 * MIB]
    assert [entry["device_free"] for entry in too_large] == [(1 << 30) - kept.nbytes] * 2
    assert too_large[0]["frames"][0]["name"] == "make"


def test_instruments_have_no_lines():
    """A watch puts functions around PyTorch's."""
    memory._record_memory_history()
    with devlab.watch():
        kept = [torch.ones(10, device="sim:0"), torch.tensor([1.0], device="sim:0")]
    here = test_instruments_have_no_lines.__name__
    blocks = memory._snapshot()["segments"][0]["blocks"][: len(kept)]
    assert [block["frames"][0]["name"] for block in blocks] == [here] * len(kept)


@pytest.mark.parametrize(
    ("context", "allocated", "freed", "live"),
    [
        (None, [], [], []),
        ("state", [], [], ["make"]),
        ("alloc", ["make"], ["make"], ["make"]),
        ("all", ["make"], ["test_context_says_of_what_the_lines_are_noted"], ["make"]),
    ],
)
def test_context_says_of_what_the_lines_are_noted(context, allocated, freed, live):
    """As in PyTorch, where a freed block has the lines of its allocation if its own were not asked for."""
    memory._record_memory_history(context=context)
    kept, gone = make(100), make(100)
    del gone
    taken = memory._snapshot()
    by_action = {entry["action"]: entry for entry in taken["device_traces"][0]}
    assert [frame["name"] for frame in by_action["alloc"]["frames"][:1]] == allocated
    assert [frame["name"] for frame in by_action["free_completed"]["frames"][:1]] == freed
    assert [frame["name"] for frame in taken["segments"][0]["blocks"][0]["frames"][:1]] == live
    assert kept.nbytes == 100


def test_a_history_can_be_short_and_can_leave_things_out():
    """The last entries are kept; "state" keeps only where live memory was made; a word clears it."""
    memory._record_memory_history(max_entries=3, skip_actions=["free_requested"])
    for _ in range(5):
        make(100)
    assert actions() == ["alloc", "free_completed"]  # the third is the snapshot's own entry
    memory._record_memory_history(clear_history=True)
    assert actions() == []
    memory._record_memory_history("state")
    kept = make(100)
    assert actions() == []
    assert memory._snapshot()["segments"][0]["blocks"][0]["frames"][0]["name"] == "make"
    memory._record_memory_history(None)
    assert memory._snapshot()["device_traces"] == [[], []]
    assert kept.nbytes == torch.sim.memory_snapshot(0)[0]["requested_size"]


@pytest.mark.parametrize(
    "wrong", [{"enabled": "on"}, {"context": "some"}, {"stacks": "c"}, {"skip_actions": ["malloc"]}]
)
def test_a_choice_that_pytorch_does_not_know_is_refused(wrong):
    """In words that name the choices."""
    with pytest.raises(RuntimeError, match="to be one of"):
        memory._record_memory_history(**wrong)


def test_a_history_costs_nothing_when_it_is_off_and_changes_no_figure():
    """The allocators are then what they are without this module, and the figures are the same with it."""
    figures = []
    for record in (False, True):
        if record:
            memory._record_memory_history()
        torch.sim.empty_cache()
        torch.sim.reset_peak_memory_stats()
        torch.sim.reset_accumulated_memory_stats()
        kept = [make(size) for size in (100, 5000, 3 * MIB, 12 * MIB)]
        for _ in range(10):
            loss = (torch.ones(300, 300, device="sim") * 2).sum()
        figures.append({**torch.sim.memory_stats()})
        del kept, loss
    assert figures[0] == figures[1]
    memory._record_memory_history(None)
    assert {type(one) for one in allocators} == {PatientAllocator}
    assert all(one.free == one._diary.append for one in allocators)


def test_pytorchs_own_tools_read_it(tmp_path):
    """`torch.cuda._memory_viz`, which checks its sums itself, and which writes the viewer's page."""
    memory._record_memory_history()
    net = torch.nn.Linear(1000, 1000, device="sim:1")
    net(torch.ones(512, 1000, device="sim:1")).sum().backward()
    before = memory._snapshot()
    kept = make(30 * MIB, "sim:1")
    path = tmp_path / "memory.pickle"
    memory._dump_snapshot(path)
    taken = pickle.loads(path.read_bytes())
    assert f"total_reserved: {viz.Bytes(torch.sim.memory_reserved(1))}" in viz.segsum(taken)
    assert "Device 1 ----" in (trace := viz.trace(taken))
    assert "cudaMalloc(" in trace
    flames = viz.memory(taken, format_flamegraph=str)
    assert f"test_snapshot.py:{make.__code__.co_firstlineno + 2}:make {kept.nbytes}" in flames
    assert "make" in viz.compare(before["segments"], taken["segments"], format_flamegraph=str)
    assert "MemoryViz.js" in viz.trace_plot(taken)
    assert "Allocator State History" in viz.segment_plot(taken)
    left = viz.trace_plot(taken, filter_freed=True)
    assert len(left) < len(viz.segment_plot(pickle.loads(path.read_bytes())))
    done = subprocess.run(
        [sys.executable, "-m", "torch.cuda._memory_viz", "stats", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Summary of segments" in done.stdout


def test_keys_are_pytorchs():
    """Those that PyTorch's documentation of `_snapshot` lists, and that its C++ adds."""
    memory._record_memory_history()
    kept = make(100)
    taken = torch.accelerator.memory._snapshot() if hasattr(torch.accelerator.memory, "_snapshot") else None
    taken = taken or memory._snapshot()
    words = torch.cuda.memory._snapshot.__doc__
    for found in (taken["segments"][0], taken["segments"][0]["blocks"][0], taken["device_traces"][0][1]):
        for key in found:
            added = {"device", "requested_size", "is_expandable", "frames", "time_us", "compile_context"}
            assert f"{key}:" in words or key in {*added, "user_metadata"}
    assert {entry["action"] for entry in taken["device_traces"][0]} <= set(snapshot.ACTIONS)
    assert "simulated" in taken["allocator_settings"]["sim"]
    assert kept.nbytes == 100
