"""What a recorded trace says: how long the GPU idles, where the host waits, and what bounds the step."""

import gzip
import json
import tempfile
from pathlib import Path

from devlab.checks import expect
from devlab.checks.scenes import scene
from devlab.lessons.lesson_07_asynchrony import lesson

read_trace = lesson.exercise(
    "read_trace(path)",
    ("J1", "J6"),
    'Keep the events with `"ph": "X"`, the slices, which have `ts`, `dur`, `tid`, `cat` and `name`. The '
    "steps are the slices of the category `user_annotation` that are called `ProfilerStep#…`.",
    "Sort the GPU's slices by their begin, and keep a mark of how far a step is accounted for: a slice "
    "adds what of it lies behind the mark and within the step, and moves the mark. Around a wait, look "
    "for the slices of `cpu_op` with its `tid`; the longest is the operator that the program called.",
    "`busy += max(0, min(ends, end) - max(begins, mark))`, then `mark = max(mark, min(ends, end))`. "
    "Idle is the sum of the steps' lengths less busy. Add waits up in a dict by operator, and take "
    "`max(waits, key=waits.get, default=None)`.",
)

RECORDED = Path(__file__).parents[2] / "data" / "h200"
GPU = "kernel", "gpu_memcpy", "gpu_memset"
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
STEP, WAIT = "ProfilerStep#3", "cudaStreamSynchronize"
# What else stands in each trace that is made here: steps as the GPU saw them, and the profiler's own span.
BESIDE = ("gpu_user_annotation", 1100, 900, STEP), ("Trace", 0, 9000, "PyTorch Profiler (0)")
STEPS = ("user_annotation", 1000, 400, STEP), ("user_annotation", 1500, 600, "ProfilerStep#4"), *BESIDE


def ours(path):
    with gzip.open(path) as file:
        slices = [one for one in json.load(file)["traceEvents"] if one["ph"] == "X"]
    slices.sort(key=lambda one: (one["ts"], -one["dur"]))
    marks = [one for one in slices if one["cat"] == "user_annotation"]
    steps = [one for one in marks if one["name"].startswith("ProfilerStep")]
    whole = idle = sum(step["dur"] for step in steps)
    loads, waits = 0, {}
    for step in steps:
        mark = step["ts"]
        for one in slices:
            begin, end = max(one["ts"], step["ts"]), min(one["ts"] + one["dur"], step["ts"] + step["dur"])
            if end > begin and one["cat"] in GPU:
                idle -= max(0, end - max(begin, mark))
                mark = max(mark, end)
            elif end > begin and one["name"].startswith("enumerate(DataLoader)"):
                loads += end - begin
            elif end > begin and one["name"].endswith("Synchronize"):
                own = [op for op in slices if op["cat"] == "cpu_op" and op["tid"] == one["tid"]]
                around = [op["name"] for op in own if op["ts"] <= begin and op["ts"] + op["dur"] >= end]
                waits.update({name: waits.get(name, 0) + end - begin for name in around[:1]})
    bound = "GPU" if idle < whole / 3 else "loader" if loads >= idle / 2 else "launches"
    return idle / len(steps), max(waits, key=waits.get, default=None), bound


def write(path, slices):
    """Write a trace of slices: category, begin, length, and where it matters a name and a thread."""
    events = [{"ph": "M", "name": "process_name", "ts": 0}, {"ph": "s", "cat": "ac2g", "ts": 1200}]
    for cat, begin, length, *rest in (*slices, *STEPS):
        name, thread = (*(rest or ["gemm"]), 1)[:2]
        events.append({"ph": "X", "cat": cat, "ts": begin, "dur": length, "name": name, "tid": thread})
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    return path


def see_part(t, part, what, *traces):
    """See a part of what is answered for traces: names of recorded files, or slices to write into a file."""
    with tempfile.TemporaryDirectory() as folder:
        for trace in traces:
            recorded = isinstance(trace, str)
            path = RECORDED / f"{trace}.json.gz" if recorded else write(Path(folder, "trace.json.gz"), trace)
            got = t.call(str(path))
            expect.kind(got, tuple, "a tuple of three", "what was answered")
            if len(got) != 3:
                expect.fail("the tuple has three parts: idle, operator, bound", "3 parts", f"{len(got)}")
            yield what, got[part], None if part else 1e-6


@scene(read_trace, ours, "idle: neither kernel nor copy nor fill runs", only="cpu")
def idle_time(t):
    plain = ("kernel", 1100, 100 + t.seeds[1] % 7), ("gpu_memcpy", 1300, 50), ("gpu_memset", 1600, 80)
    reach = ("kernel", 1390, 150), ("kernel", 900, 250), ("kernel", 2050, 300)
    both = (
        ("kernel", 1600, 300, "gemm", 7),
        ("gpu_memcpy", 1650, 20, "copy", 9),
        ("kernel", 1850, 90, "add", 9),
    )
    recorded = "small_batches_item", "workers_pinned_no_wait"
    yield from see_part(t, 0, "the idle time", *recorded, plain, reach, both)


@scene(read_trace, ours, "the operator that waits longest", only="cpu")
def longest_wait(t):
    item = ("cpu_op", 1205, 80, "aten::_local_scalar_dense"), ("cuda_runtime", 1210, 50, WAIT)
    item += ("cpu_op", 1200, 90, "aten::item"), ("cpu_op", 1190, 300, "aten::mul", 2)
    twice = [("cpu_op", begin, 40, "aten::to") for begin in (1000, 1600)]
    twice += [("cuda_runtime", begin, 30, WAIT) for begin in (1005, 1605)]
    event = ("cpu_op", 1300, 70, "aten::index"), ("cuda_runtime", 1305, 60, "cudaEventSynchronize")
    between = ("cpu_op", 1410, 80, "aten::nonzero"), ("cuda_runtime", 1415, 70, WAIT)
    alone = ("cuda_runtime", 1700, 300, "cudaDeviceSynchronize"), ("cpu_op", 1700, 20, "aten::mul")
    made = item + between + alone, (*item, *twice), item + event, alone
    yield from see_part(t, 1, "the operator that waits longest", *made, "loader_in_the_main_process_waits")


@scene(read_trace, ours, "what bounds the step", only="cpu")
def bound(t):
    loads = ("user_annotation", 1010, 250, LOADER), ("user_annotation", 1510, 150, LOADER)
    often = [("kernel", begin, 70) for begin in range(1000, 2100, 100)]
    rest = ("kernel", 1260, 140), ("kernel", 1660, 200)
    recorded = "small_batches_launch_bound", "workers_pinned_no_wait"
    yield from see_part(
        t, 2, "what bounds the step", *recorded, rest + loads, rest + loads[1:], [*often, *loads]
    )
