# %% [markdown]
# # 07 Asynchrony: exercises
#
# Seven tasks: two ways to time, one launch in place of many, the regime of a product, what a recorded trace says,
# copies that hide behind the work, and the decision which device to use. The lesson is
# [07 Asynchrony](../notebooks/07_asynchrony.ipynb).
#
# Times are judged on the simulated device's own clock, so that they are the same on every machine. While a
# check runs, Python's clocks (`time.perf_counter` and its kin) show that time, too. On a real device your
# functions are judged by real work.
#
# Write your answer in place of `raise NotImplementedError("your code here")`, run the cell, then run the
# check below it. If you are stuck, `devlab.hint(time_op)` helps.

# %%
import gzip
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

import devlab

device = devlab.start()

# %% [markdown]
# ## `time_op(fn, device, repeats)`
#
# How long does one call of `fn()` take on the device? Return **seconds** as a `float`: the **median** of `repeats`
# measured calls (at least one), each timed by itself. Where `repeats` is even, either of the two times in the middle
# will do, or their mean.
#
# - fn takes no arguments and starts its work on `device`, which may be the CPU, and need not be the current device.
# - Call fn **at least once before** the calls that are measured, because the first call may be slow.
# - When the clock starts, nothing from before is still running on `device`. When it stops, fn's work is done.
# - On the CPU there is nothing to wait for, and `torch.accelerator.synchronize` raises an error there.
# - Measure with PyTorch and one of Python's clocks. `devlab.time_op` does much of this, and may not be called here.
#
# Needed: [A clock that can be trusted](../notebooks/07_asynchrony.ipynb#A-clock-that-can-be-trusted)


# %% exercise="time_op"
def time_op(fn: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Return the median time of one call in seconds, warmed up and synchronized."""

    ### BEGIN SOLUTION
    def wait():
        if device.type != "cpu":
            torch.accelerator.synchronize(device)

    fn()
    times = []
    for _ in range(repeats):
        wait()
        start = time.perf_counter()
        fn()
        wait()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
    ### END SOLUTION


# %% check="time_op"
devlab.check(time_op)

# %% [markdown]
# ## `event_time(fn, device)`
#
# This is the same question, asked of the device itself. Call fn once as a warm-up, and then measure **one** more
# call: return the **seconds** (a `float`) that lie between two events in the device's stream, one recorded before
# that call and one after it.
#
# - `device` is an accelerator, and not always the current one. fn works in the stream that is current on `device`. The
#   current device of the program stays what it is.
# - What was launched before does not count.
# - This exercise is not judged on the CPU, which has no events.
#
# Needed: [Marks in the stream](../notebooks/07_asynchrony.ipynb#Marks-in-the-stream)


# %% exercise="event_time"
def event_time(fn: Callable[[], object], device: torch.device) -> float:
    """Return the time of one call in seconds, by events on the device."""
    ### BEGIN SOLUTION
    fn()
    stream = torch.accelerator.current_stream(device)  # the current device may be another one
    start = torch.Event(device=device, enable_timing=True)
    end = torch.Event(device=device, enable_timing=True)
    start.record(stream)
    fn()
    end.record(stream)
    end.synchronize()
    return start.elapsed_time(end) / 1000
    ### END SOLUTION


# %% check="event_time"
devlab.check(event_time)

# %% [markdown]
# ## `batched(xs, w)`
#
# `xs` has the shape (n, a, b) and `w` the shape (b, c), both on one device. Return what the loop
# `[x @ w for x in xs]` gives, stacked to (n, a, c), by **one** matrix product on that device. A few other
# launches are allowed, at most five, as long as they do not grow with n.
#
# - The result has the dtype of xs and w, which may be half precision or float64.
# - Gradients flow back to xs and to w.
# - xs may be a view and w transposed, so neither needs to be contiguous.
# - One line may be enough.
#
# Needed: [Overhead: the launch decides](../notebooks/07_asynchrony.ipynb#Overhead:-the-launch-decides)


# %% exercise="batched"
def batched(xs: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return all the products xs[i] @ w at once."""
    ### BEGIN SOLUTION
    return xs @ w
    ### END SOLUTION


# %% check="batched"
devlab.check(batched)

# %% [markdown]
# ## `regime(rows, inner, columns, dtype, chip)`
#
# A matrix of the shape (rows, inner) is multiplied by one of the shape (inner, columns). Which of the three regimes
# is this product in? No tensor is needed to find out. Count as the lesson does, and let the chip's figures decide.
#
# - Both matrices and their result are of `dtype`, which is float32, float16 or bfloat16. One number takes
#   `dtype.itemsize` bytes. Each of the two matrices is read once, and the result is written once.
# - Each number of the result takes `inner` multiplications and `inner` additions, and every one of them is an
#   operation.
# - `chip` is a dict of four figures: `launch` in seconds, `bandwidth` in bytes per second, and two rates in operations
#   per second, `rate` for float32 and `half_rate` for both 16-bit types. The reference machine is
#   `{"launch": 5e-6, "bandwidth": 300e9, "rate": 8.1e12, "half_rate": 65e12}`.
# - The regime is that of the **longest** of three times: `"overhead"` for the launch, `"bandwidth"` for the bytes at
#   the chip's bandwidth, `"compute"` for the operations at the rate of `dtype`. Of equal times the first in this order
#   counts, so overhead comes before bandwidth and bandwidth before compute.
# - Return a tuple of two: the regime, and the **arithmetic intensity** of the product in operations per byte, a
#   `float` that is not rounded.
#
# Needed: [Bandwidth or compute](../notebooks/07_asynchrony.ipynb#Bandwidth-or-compute:-the-arithmetic-intensity-decides)


# %% exercise="regime"
def regime(
    rows: int, inner: int, columns: int, dtype: torch.dtype, chip: dict[str, float]
) -> tuple[str, float]:
    """Return what decides how long a product of matrices takes, and its arithmetic intensity."""
    ### BEGIN SOLUTION
    operations = 2 * rows * inner * columns
    moved = dtype.itemsize * (rows * inner + inner * columns + rows * columns)
    rate = chip["rate"] if dtype == torch.float32 else chip["half_rate"]
    times = {
        "overhead": chip["launch"],
        "bandwidth": moved / chip["bandwidth"],
        "compute": operations / rate,
    }
    return max(times, key=times.get), operations / moved
    ### END SOLUTION


# %% check="regime"
devlab.check(regime)

# %% [markdown]
# ## `read_trace(path)`
#
# A colleague has recorded three steps of a training by `torch.profiler` and asks: what slows it down? The traces in
# the folder below are such files, from an H200; try them in ui.perfetto.dev, too.

# %%
folder = Path(devlab.__file__).parent / "data" / "h200"
for trace in sorted(folder.glob("*.json.gz")):
    print(trace.name)

# %% [markdown]
# `path` (a `str`) names a trace in Chrome's JSON, packed by gzip. Its `"traceEvents"` are a list of dicts. Those with
# `"ph": "X"` are the **slices**: `name`, `cat` (what kind), `tid` (the thread), `ts` and `dur` (begin and length, in
# microseconds), in no order. The **steps** are the slices of the category `user_annotation` whose name begins with
# `ProfilerStep`, at least one, and of every other slice counts what lies within a step. Return a tuple of three:
#
# - **how long the GPU idles in a step**, a `float` in microseconds, the mean of all steps: the time in which nothing of
#   the categories `kernel`, `gpu_memcpy` and `gpu_memset` runs. Several streams may work at once.
# - **the operator in which the host waits longest**, such as `"aten::item"`, all its waits added up, and `None` where no
#   operator waits. A wait is a slice whose name ends with `Synchronize`. Its operator is a slice of the category
#   `cpu_op` of the same thread that the wait lies in; operators call each other, and the outermost is the one that the
#   program called.
# - **what bounds the step**: `"GPU"` where it idles for less than a third of the steps' time; otherwise `"loader"` where
#   the slices whose name begins with `enumerate(DataLoader)` take at least half as long as the GPU idles, and
#   `"launches"` where they do not.
#
# It is judged on recorded traces and on small ones that the check writes, on the CPU alone. Call your function on each
# file of the folder, too: which of the five trainings would you help, and how?
#
# Needed: [A trace, read line by line](../notebooks/07_asynchrony.ipynb#A-trace,-read-line-by-line)


# %% exercise="read_trace"
def read_trace(path: str) -> tuple[float, str | None, str]:
    """Return how long the GPU idles in a step, the operator that waits longest, and what bounds the step."""
    ### BEGIN SOLUTION
    with gzip.open(path, "rt") as file:
        slices = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
    for one in slices:
        one["end"] = one["ts"] + one["dur"]
    slices.sort(key=lambda one: (one["ts"], -one["end"]))  # an operator before those that it calls
    marks = [one for one in slices if one["cat"] == "user_annotation"]
    steps = [one for one in marks if one["name"].startswith("ProfilerStep")]
    busy = loading = 0.0
    waits = {}
    for step in steps:
        mark = step["ts"]  # up to here the GPU is accounted for
        for one in slices:
            begin, end = max(one["ts"], step["ts"]), min(one["end"], step["end"])
            if end <= begin:
                continue
            if one["cat"] in ("kernel", "gpu_memcpy", "gpu_memset"):
                busy += max(0, end - max(begin, mark))
                mark = max(mark, end)
            elif one["name"].startswith("enumerate(DataLoader)"):
                loading += end - begin
            elif one["name"].endswith("Synchronize"):
                for operator in slices:
                    around = operator["ts"] <= one["ts"] and operator["end"] >= one["end"]
                    if operator["cat"] == "cpu_op" and operator["tid"] == one["tid"] and around:
                        waits[operator["name"]] = waits.get(operator["name"], 0) + end - begin
                        break
    whole = sum(step["dur"] for step in steps)
    idle = whole - busy
    if idle < whole / 3:
        bound = "GPU"
    else:
        bound = "loader" if loading >= idle / 2 else "launches"
    return idle / len(steps), max(waits, key=waits.get, default=None), bound
    ### END SOLUTION


# %% check="read_trace"
devlab.check(read_trace)

# %% [markdown]
# ## `class Prefetcher(loader, device)`
#
# This is an object to put around a loader. `for batch in Prefetcher(loader, device)` gives the loader's batches, in
# their order, **on the device**, and while you work on one batch the next one is already being copied.
#
# - A batch is a tensor or a tuple of tensors, and stays what it is. The loader's tensors are **already
#   pinned** where pinning helps, so you need not pin them.
# - `len(prefetcher)` is the loader's. The object can be **iterated again**, also after a loop that was left early, and
#   then iterates the loader again.
# - Work that is launched on a batch, in the stream that is current when the batch is given out, begins **after
#   the batch has arrived**, without a wait of the host. The loop may change its stream between two batches.
# - Copies and work overlap. A batch is given out while it is still being copied, for only a stream waits for the copy.
#   And a batch that is asked for after work longer than its copy is there, even where each step waits for the device,
#   as a step does that reads its loss. For that, the next copy has to be started before the batch is given out.
# - A batch's **memory is not used again** before the work has ended that was launched on the batch in the stream that
#   was current then. The allocator gives the memory of a dropped batch back to the stream that allocated it, at once. A
#   side stream that allocates there and copies on overwrites what the other stream still reads: measured on an NVIDIA
#   H200, the sums of 175 of 200 batches were wrong, and nothing said so. Three ways keep the memory: `record_stream`
#   for each tensor that is given out, a side stream that waits for the current stream before it copies the next batch,
#   or memory of your own for a few batches, which is written again after a wait for the work on it. A batch that was
#   given out need not stay when the next one is asked for.
# - While you work on a batch, at most **three** batches after it have been taken from the loader.
# - On the CPU there are no streams: give out the loader's batches themselves.
#
# Needed: [Two streams](../notebooks/07_asynchrony.ipynb#Two-streams)


# %% exercise="Prefetcher"
class Prefetcher:
    """Gives a loader's batches on the device, and copies the next one meanwhile."""

    def __init__(self, loader, device: torch.device):
        ### BEGIN SOLUTION
        self.loader = loader
        self.device = device
        self.side = None if device.type == "cpu" else torch.Stream(device)
        ### END SOLUTION

    def __len__(self) -> int:
        ### BEGIN SOLUTION
        return len(self.loader)
        ### END SOLUTION

    def __iter__(self) -> Iterator:
        ### BEGIN SOLUTION
        if self.side is None:
            yield from self.loader
            return
        waiting = None
        for batch in self.loader:
            started = self._start(batch)
            if waiting is not None:
                yield self._arrived(*waiting)
            waiting = started
        if waiting is not None:
            yield self._arrived(*waiting)

    def _start(self, batch):
        """Start the copy in the side stream; return what will be there, and the mark of its arrival."""
        with self.side:
            if isinstance(batch, torch.Tensor):
                there = batch.to(self.device, non_blocking=True)
            else:
                there = tuple(part.to(self.device, non_blocking=True) for part in batch)
        return there, self.side.record_event()

    def _arrived(self, there, mark):
        """Let the stream that computes wait for the mark; the host goes on."""
        main = torch.accelerator.current_stream(self.device)
        main.wait_event(mark)
        for part in (there,) if isinstance(there, torch.Tensor) else there:
            part.record_stream(main)  # no later copy gets the memory before the work launched on it has ended
        return there
        ### END SOLUTION


# %% check="Prefetcher"
devlab.check(Prefetcher)

# %% [markdown]
# ## `crossover(sizes, cpu_times, device_times, transfer_times)`
#
# Here are four sequences of one length, lists or tuples: sizes, and in the same places the times that were measured
# for them on the CPU, on the device, and for the transfer to it. Return the **first size** at which the device, its
# transfer included, is faster than the CPU, or `None` where there is none.
#
# - An equal time is not faster, and a win may be as narrow as you like.
# - The device may win at one size, lose at the next, and win again later. The first win counts.
# - The sizes need not be in rising order. In the lists that you are given, the first win is then also the smallest
#   size that wins, so "first" has one meaning.
# - A size that did not fit into memory has the time `math.inf`, on the CPU or on the device.
# - The sequences may be empty.
#
# Needed: [Which is faster](../notebooks/07_asynchrony.ipynb#Which-is-faster)


# %% exercise="crossover"
def crossover(
    sizes: Sequence[int],
    cpu_times: Sequence[float],
    device_times: Sequence[float],
    transfer_times: Sequence[float],
) -> int | None:
    """Return the first size at which the device wins, its transfer included."""
    ### BEGIN SOLUTION
    for size, cpu, there, transfer in zip(sizes, cpu_times, device_times, transfer_times, strict=True):
        if there + transfer < cpu:
            return size
    return None
    ### END SOLUTION


# %% check="crossover"
devlab.check(crossover)

# %% [markdown]
# When all seven are done, `devlab.time_op` is the course's own tool for the first task: it warms up, repeats as
# often as a short function needs, and says how far the samples lie apart. Lesson [08
# Memory](../notebooks/08_memory.ipynb) comes next. `devlab.progress()` shows where you stand.
