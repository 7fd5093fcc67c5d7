"""A saved timeline is a Chrome trace like torch.profiler's: PyTorch's own trace and reader are asked."""

import gzip
import json

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import devlab
from devlab.watching.record import NOWHERE, Events, Launch, When
from devlab.watching.timeline import Timeline
from devlab.watching.trace import chrome_trace

SIM = "sim:0"


@pytest.fixture
def log():
    """Two streams, both ways of copying in, a copy to the other device, and one value out."""
    w = torch.ones(256, 256, device=SIM)
    side = torch.sim.Stream(SIM)
    with devlab.watch() as log:
        pinned = torch.ones(256, 256).pin_memory()
        with torch.sim.stream(side):
            x = pinned.to(SIM, non_blocking=True)
        torch.sim.current_stream(SIM).wait_stream(side)
        y = torch.cat([x @ w, torch.ones(2, 256).to(SIM)])
        y.to("sim:1")
        y.sum().item()
        torch.sim.synchronize(SIM)
    return log


@pytest.fixture
def saved(log, tmp_path):
    """The log's timeline, read back from its file."""
    log.timeline(show=False).save(path := tmp_path / "trace.json")
    return json.loads(path.read_text(encoding="utf-8"))


def of(trace: dict, phase: str, category: str | None = None) -> list[dict]:
    """Return the events of a phase and a category."""
    return [e for e in trace["traceEvents"] if e["ph"] == phase and category in (None, e.get("cat"))]


def named(trace: dict, kind: str) -> dict[tuple, str]:
    """Return the names of processes or threads by their numbers."""
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in of(trace, "M") if e["name"] == kind}


def test_a_thread_for_the_host_and_one_for_each_stream(saved, log):
    """No two slices of a thread overlap, and the names say that the times are simulated."""
    assert list(named(saved, "process_name").values()) == [
        "host (simulated)",
        "sim:0 (simulated)",
        "sim:1 (simulated)",
    ]
    threads = named(saved, "thread_name")
    side = next(t.when.stream for t in log.events.transfers if t.target == SIM)
    assert list(threads.values()) == ["host", "default stream", f"stream {side}", "default stream"]
    for thread in threads:
        slices = sorted((e["ts"], e["dur"]) for e in of(saved, "X") if (e["pid"], e["tid"]) == thread)
        assert slices
        ends = [began + took for began, took in slices]
        assert all(end <= next_began + 0.002 for end, (next_began, _) in zip(ends, slices[1:], strict=False))


def test_slices_last_as_long_as_the_timeline_says(saved, log):
    """In microseconds from the start of the first."""
    timeline = log.timeline(show=False)
    slices = of(saved, "X")
    assert max(e["ts"] + e["dur"] for e in slices) == pytest.approx(timeline.total * 1e6, abs=0.01)
    copied = [e for e in of(saved, "X", "gpu_memcpy") if e["pid"] == 2]
    lane = timeline.lanes["sim:0 copying"]
    assert sum(e["dur"] for e in copied) == pytest.approx(sum(span.seconds for span in lane) * 1e6, abs=0.01)
    assert not any(key in e for e in slices for key in ("end", "seconds"))


def test_arrows_lead_from_a_launch_to_its_kernel(saved):
    """Each has its two ends, in slices of one correlation."""
    starts, ends = of(saved, "s", "ac2g"), of(saved, "f", "ac2g")
    slices = of(saved, "X")
    assert [e["id"] for e in starts] == [e["id"] for e in ends] == list(range(1, len(starts) + 1))
    assert len(starts) == len(of(saved, "X", "kernel")) + len(of(saved, "X", "gpu_memcpy"))
    for start, end in zip(starts, ends, strict=True):
        a, b = (
            next(e for e in slices if (e["pid"], e["tid"], e["ts"]) == (p["pid"], p["tid"], p["ts"]))
            for p in (start, end)
        )
        assert a["args"].get("External id", a["args"].get("correlation")) == b["args"]["External id"]
        assert end["bp"] == "e"
        assert start["pid"] == 1 < end["pid"]


def test_slices_say_what_they_are(saved):
    """Bytes of copies, sizes and dtypes of arguments, and the line of the program."""
    names = [e["name"] for e in of(saved, "X", "gpu_memcpy")]
    assert "Memcpy HtoD (Pinned -> Device)" in names
    assert "Memcpy HtoD (Pageable -> Device)" in names
    assert "Memcpy PtoP (Device -> Device)" in names
    assert "Memcpy DtoH (Device -> Pageable)" in names
    pinned = next(e for e in of(saved, "X", "gpu_memcpy") if "Pinned" in e["name"])
    assert pinned["args"]["bytes"] == 256 * 256 * 4
    assert "x = pinned.to(SIM, non_blocking=True)" in pinned["args"]["line"]
    (product,) = [e for e in of(saved, "X", "kernel") if e["name"] == "mm"]
    assert product["args"]["Input Dims"] == [[256, 256]] * 2
    assert product["args"]["Input type"] == ["float"] * 2
    joined = next(e for e in of(saved, "X", "cpu_op") if e["name"] == "aten::cat")
    assert joined["args"]["Input Dims"][0] == [[256, 256], [2, 256]]
    waits = [e["name"] for e in of(saved, "X") if e["args"]["state"] == "waiting"]
    assert {".item()", "synchronize()"} <= set(waits)
    (pinning,) = [e for e in of(saved, "X") if e["name"] == "pin_memory()"]
    assert (pinning["args"]["state"], pinning["args"]["bytes"]) == ("staging", 256 * 256 * 4)


def test_simulated_times_are_called_so_and_measured_ones_too(saved):
    """In the file as a whole, in every process's name and label, and in each slice."""
    assert saved["otherData"]["simulated"] is True
    assert "not measured" in saved["otherData"]["times"]
    assert all(e["args"]["simulated"] is True for e in of(saved, "X"))
    assert {e["args"]["labels"] for e in of(saved, "M") if e["name"] == "process_labels"} == {"simulated"}
    assert all(device["simulated"] for device in saved["deviceProperties"])
    measured = Timeline(Events([Launch("cuda:0", "mm", NOWHERE, When(1.0, 1.5, (None, None)))]))
    trace = chrome_trace(measured.lanes, measured.simulated)
    assert trace["otherData"]["times"] == "measured"
    assert [e["args"]["simulated"] for e in of(trace, "X")] == [False]
    assert "simulated" not in str(named(trace, "process_name"))


def test_an_event_has_the_keys_of_torch_profilers(saved, tmp_path):
    """A trace that PyTorch exports here, of the CPU, is the pattern."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as run:
        torch.ones(8, 8) @ torch.ones(8, 8)
    run.export_chrome_trace(str(path := tmp_path / "theirs.json"))
    theirs = json.loads(path.read_text())
    for key in ("schemaVersion", "deviceProperties", "displayTimeUnit", "baseTimeNanoseconds"):
        assert type(saved[key]) is type(theirs[key]), key
    for phase, category in (("X", "cpu_op"), ("M", None)):
        pattern, ours = of(theirs, phase, category), of(saved, phase, category)
        for key, value in pattern[0].items():
            assert all(type(e[key]) is type(value) for e in ours), key
    known = set().union(*(e["args"] for e in of(theirs, "X", "cpu_op")))
    product = next(e for e in of(saved, "X", "cpu_op") if e["name"] == "aten::mm")
    assert {"External id", "Input Dims", "Input type", "Concrete Inputs"} <= known & set(product["args"])
    assert product["args"].keys() - known == {"state", "simulated", "line"}
    assert {e["name"] for e in of(saved, "M")} <= {e["name"] for e in of(theirs, "M")}


def test_pytorchs_own_reader_reads_it(log, tmp_path):
    """PyTorch's reader of such traces finds the devices and the kernels, and counts the operations."""
    analysis = pytest.importorskip("torch._inductor.analysis.profile_analysis")
    log.timeline(show=False).save(path := tmp_path / "trace.json")
    read = analysis.JsonProfile(str(path), dtype="float32")
    read.augment_trace()
    product = next(e for e in of(read.data, "X", "kernel") if e["name"] == "mm")
    assert product["args"]["kernel_flop"] == 2 * 256**3
    report = read.report()
    assert report.count("Device(simulated accelerator") == 2
    assert " mm " in report


def test_a_name_that_ends_in_gz_is_compressed(log, tmp_path):
    """As torch.profiler has it. A block in which nothing left the CPU gives a trace without slices."""
    log.timeline(show=False).save(str(tmp_path / "trace.json.gz"))
    assert of(json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes())), "X")
    with devlab.watch() as idle:
        torch.ones(2)
    idle.timeline(show=False).save(tmp_path / "idle.json")
    assert not of(json.loads((tmp_path / "idle.json").read_text()), "X")
