# %% [markdown]
# # 07 Asynchrony
#
# Here are two measurements of the same work, taken in the same run with the same Python clock. Both are
# correct, and they contradict each other. This lesson begins with that contradiction, because nearly
# everything that is surprising about the speed of a GPU follows from its explanation.
#
# After it you can time work on any device so that the figure means something, say what decides how long a
# piece of work takes, read a profiler's trace, copy the next batch while this one is worked on, and tell when
# an accelerator is worth using.
#
# **Takes** about 70 minutes. **Needs** [04 Transfers](04_transfers.ipynb).
#
# The lesson has two halves. The first teaches how to time work, the second what decides how long it takes. A
# good place for a break is before [Three regimes](#Three-regimes).

# %%
import math
import os
import statistics
import time

os.environ["KINETO_LOG_LEVEL"] = "99"  # keeps the profiler's own log lines out of this notebook

import torch
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile
from torch.utils.benchmark import Timer

import devlab
import devlab.sim

device = devlab.start()

# %% [markdown]
# **What is measured here, and what is modelled.** Without a GPU the simulated device does in *slow motion* what
# a GPU does: in this notebook its waits are real, so that a clock sees them, but its speed is no chip's. Pictures and
# tables that say *simulated* or *modelled* come from the model of the course's reference machine. Figures that a clock
# took on this machine are called *measured*, and yours will differ. On a real GPU, everything is measured.

# %% [markdown] facts=["Y1", "Y2"]
# ## The host runs ahead
#
# The work is five matrix products. The function notes the time twice: after the last line that starts a
# product, and again when the device has done everything.

# %% tags=["nbval-ignore-output"] facts=["Y2", "Y3"]
side = 384 if device.type == "sim" else 4096
x = torch.ones(side, side, device=device)


def work():
    """Start five matrix products."""
    for _ in range(5):
        y = x @ x
    return y


def two_clocks():
    """Return the seconds until the work was started, and until it was done."""
    torch.accelerator.synchronize()
    start = time.perf_counter()
    work()
    started = time.perf_counter()
    torch.accelerator.synchronize()
    done = time.perf_counter()
    return started - start, done - start


two_clocks()
started, done = min(two_clocks() for _ in range(3))  # the calmest of three
print(f"measured without waiting: five products in {1000 * started:6.1f} ms")
print(f"measured with waiting:    five products in {1000 * done:6.1f} ms")

# %% [markdown] facts=["Y1", "Y2", "Y3"]
# Which of the two is the time of five products? The second. **Operations on an accelerator are
# asynchronous**: the call, which is named a **launch**, returns as soon as the work is queued in the device's
# **stream**, and the device works through that stream in its own time. (A stream is a queue, and PyTorch
# gives each device one to begin with. The program that the device runs for a launch is called a **kernel**.)
# The first clock measured how long it takes to launch five products, the second how long it takes to compute
# them.
#
# ![The host launches five products one after the other, and is done with that early. The device begins the first product after the first launch and works on all five in turn. The first clock stops after the last launch, the second when the last product is done.](drawing:launched_and_done)
#
# Between the two moments Python is free. (On the simulated device your CPU computes the results while it launches, so
# the first figure is far larger than on a GPU, where a launch takes a few millionths of a second.)
#
# Sooner or later the host has to wait for those five products. Here is the time of each line of a small
# program:

# %% tags=["nbval-ignore-output"] facts=["Y1", "Y2"]
torch.accelerator.synchronize()
moments = [time.perf_counter()]
y = work()
moments.append(time.perf_counter())
shape = y.shape
moments.append(time.perf_counter())
number = y[0, 0].item()
moments.append(time.perf_counter())

for line, start, end in zip(("y = work()", "y.shape", "y[0, 0].item()"), moments, moments[1:], strict=False):
    print(f"{line:<16}{1000 * (end - start):7.2f} ms, measured")

# %% [markdown] facts=["Y1", "Y2"]
# Asking for a shape costs nothing, since the host knows it without the device. `item()` needs a number, so it
# waits for everything in the stream up to the product that makes it. Within one stream the device reads
# nothing before it is ready, and its results are what they would be without asynchrony. What changes is
# **which line you wait at**: a line that launches is quick, and the first line that needs a value waits for
# all lines before it. If you read a profile without knowing this, you blame the wrong line.
#
# (Memory can be read too early in two situations: by the *host*, while a non-blocking copy to it is still
# under way, as in lesson 04, and by a *second stream* that does not wait for the first. You will meet both
# below.)
#
# Waits hide in ordinary Python. This loop keeps the largest of ten losses, and contains no `item`:
#
# ```python
# for loss in losses:
#     if loss > worst:
#         worst = loss
# ```

# %% facts=["Y1", "Y2"]
guess = devlab.predict("How many times does the host wait for the device in these ten turns?", 0, 1, 10)

# %% facts=["Y1", "Y2"]
losses = [torch.tensor(0.5 * step, device=device) for step in range(10)]
zero = torch.zeros((), device=device)

worst = zero
with devlab.watch() as by_if:
    for loss in losses:
        if loss > worst:
            worst = loss
print(f"with if:      {by_if.synchronizations:>2} waits, the worst is {worst.item()}")

worst = zero
with devlab.watch() as on_the_device:
    for loss in losses:
        worst = torch.maximum(worst, loss)
print(f"with maximum: {on_the_device.synchronizations:>2} waits, the worst is {worst.item()}")

guess.was(by_if.synchronizations)

# %% [markdown] facts=["Y1", "Y2"]
# `if` needs a yes or a no, and Python asks the tensor for it. After each answer the stream has run empty, and
# the device idles until the host has launched the next piece of work. With `torch.maximum` the decision is
# made on the device, and the host never has to know it. **Let the host run ahead**, and ask for numbers when
# you need them.
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_running_total):** `running_total`, a sum of losses that may hold
# graphs, without a single wait.

# %% [markdown] facts=["Y1", "Y2"]
# ### Look and touch
#
# Short programs, and below them what host and device do, from left to right in time. Read a program, guess,
# and press *Play*. The bar that grows below a line says how long the host is kept at that line. A click on a
# line plays the program up to there. Synchronize nowhere, at the end, or after every statement: the previous
# run stays as an outline. **Find out:** with *nowhere*, which programs keep the host waiting all the same?
# And which one prints a number that is not there yet?

# %% facts=["Y1", "Y2"]
devlab.explore.timeline()

# %% [markdown] facts=["Y1", "Y2"]
# Programs that ask for a value wait: `item`, `tolist`, a blocking `cpu()`. So does a blocking copy to the
# device, which waits for its stream. A non-blocking one from pageable memory keeps the host only while the
# bytes are staged, which means copied into pinned memory. The loop that prints waits three times, and the
# device idles after each wait. *Bring it home, read it early* waits for nothing, and prints what happened to
# be in the memory before: this is lesson 04's trap as a picture.

# %% [markdown] facts=["Y3"]
# ## A clock that can be trusted
#
# A clock that is read right after a launch has measured **the launch**, so there has to be a wait before the
# clock stops. That alone is not enough. Below, other work is still running when the clock starts, and one
# product is measured, without and with a wait before the start.


# %% tags=["nbval-ignore-output"] facts=["Y3", "Y4"]
def seconds_of_one(wait_first):
    """Time one product, while five others may still be running."""
    work()
    if wait_first:
        torch.accelerator.synchronize()
    start = time.perf_counter()
    x @ x
    torch.accelerator.synchronize()
    return time.perf_counter() - start


careless = min(seconds_of_one(wait_first=False) for _ in range(5))  # the calmest of five
careful = min(seconds_of_one(wait_first=True) for _ in range(5))
print(f"measured without the first wait: one product in {1000 * careless:5.1f} ms")
print(f"measured with the first wait:    one product in {1000 * careful:5.1f} ms")

# %% [markdown] facts=["Y4", "Y5"]
# A stream works in order, so without the first wait the clock also counts what was launched before. There are **two
# waits: one before the clock starts, and one before it stops**. Three more habits make a figure that you can repeat:
#
# - **Warm up.** The first call is special: libraries are loaded, memory is allocated, and the best kernel may
#   have to be found. Make one call or more before you measure.
# - **Repeat.** A single measurement is an anecdote.
# - **Take the median.** Now and then something else needs the machine. One such call drags a mean along, and
#   the median does not notice it.
#
# Ten made-up times, one of them disturbed:

# %% facts=["Y5"]
times = [2.1, 2.0, 2.1, 2.2, 40.0, 2.0, 2.1, 2.1, 2.0, 2.2]
print("mean  ", statistics.mean(times))
print("median", statistics.median(times))

# %% [markdown] facts=["Y4", "Y5"]
# Mind the device, too. `torch.accelerator.synchronize()` waits for the **current** device, which is number 0
# until a program chooses another. If the work is on another one, say so:
# `torch.accelerator.synchronize(device)`.
#
# Two tools have these habits built in. `devlab.time_op` also says how sure it is, and on the simulated device
# it shows the model's time. `torch.utils.benchmark.Timer` is PyTorch's own. It takes the statement as text,
# and how often it waits can be counted:

# %% tags=["nbval-ignore-output"] facts=["Y5"]
timing = devlab.time_op(lambda: x @ x, device)

figure = Timer("x @ x", globals={"x": x}).timeit(5)
print(f"Timer: {1000 * figure.mean:.1f} ms a call, measured")

small = torch.ones(8, 8, device=device)
with devlab.watch() as log:
    Timer("x @ x", globals={"x": small}).timeit(200)
print(f"Timer, 200 calls: {log.launches} launches, {log.synchronizations} waits")

# %% [markdown] facts=["Y4", "Y5"]
# `Timer` makes a few calls as a warm-up, waits, starts the clock, makes all calls in a row, and waits again.
# It does not wait after each call, so launches overlap with work, as they do in a program. Its figure is a
# mean over the calls of one run; `blocked_autorange()` makes several runs and gives their median. On the
# simulated device its figure is measured in slow motion. In PyTorch 2.13 it waits for the *current*
# accelerator, whatever its kind. Older releases do not wait for every kind, and then measure only the
# launches: where the count above says 0 waits, end the statement with `torch.accelerator.synchronize()`.
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_time_op):** `time_op`, which puts all of these habits into one
# function, for any device.

# %% [markdown] facts=["Y6"]
# ## Marks in the stream
#
# To measure with its own clock, the host has to wait until the device is idle. There is another method, in
# which the *device* reads its own clock. An **event** is a mark that you put into the stream. When the device
# comes to it, it notes the time. Three marks around two pieces of work show where the time goes:

# %% tags=["nbval-ignore-output"] facts=["Y6"]
marks = [torch.Event(device=device, enable_timing=True) for _ in range(3)]

torch.accelerator.synchronize()
marks[0].record()
x @ x
marks[1].record()
work()
marks[2].record()
print("marks reached right after the launches:", sum(mark.query() for mark in marks), "of 3")

marks[2].synchronize()
print("marks reached after waiting for the last:", sum(mark.query() for mark in marks), "of 3")
print(f"one product:   {marks[0].elapsed_time(marks[1]):6.1f} ms")
print(f"five products: {marks[1].elapsed_time(marks[2]):6.1f} ms")

# %% [markdown] facts=["Y6"]
# The first mark has been reached by then, because the stream was empty, and the others are reached when the
# device comes to them. (A busy CPU takes so long to simulate the launches that a second mark may be reached,
# too.) The only line that waits is `synchronize`. `record` does not, because a mark is queued like other
# work. `elapsed_time` raises an error while one of its marks is not reached, and it counts in
# **milliseconds**.
#
# Events see the device alone. What Python did meanwhile, and the launches, are not in the figure, unless the
# stream ran empty between the marks. Older code uses `torch.cuda.Event`, which does the same for CUDA alone.
#
# There is a trap on machines with two GPUs: `record()` marks a stream of the **current** device, whatever
# device the event was made for. `torch.accelerator.current_stream(device)` gives the stream that you mean,
# and `record` takes it.
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_event_time):** `event_time`, on a device that need not be the
# current one.

# %% [markdown] facts=["J1", "V4"]
# ## Three regimes
#
# You can now measure how long work takes. The next question is why. Every piece of work on a device needs
# three things: the host has to launch it, its bytes have to be read and written, and its operations have to
# be done. In a long row of work the three go on side by side, so **the slowest of them decides**, and making
# one of the others faster changes nothing. The three cases are called regimes: *overhead*, *bandwidth* and
# *compute*.

# %% [markdown] facts=["J1", "V4"]
# ### Overhead: the launch decides
#
# A launch takes the host a few microseconds, whatever it starts: 5 µs on the reference machine, a figure that is
# usual for real ones. Python itself is part of it. The smallest kernel takes the device another 2 µs.

# %% facts=["J1", "V4"]
guess = devlab.predict(
    "Adding 1 to 1,000 numbers takes about how many times as long as adding 1 to 10?", 1, 10, 100
)

# %% facts=["J1", "V4"]
kind = "modelled" if device.type == "sim" else "measured"


def launches_and_microseconds(function, *inputs):
    """Return how many launches a function makes, and how long they and their work take."""
    function(*inputs)  # a warm-up
    torch.accelerator.synchronize()
    with devlab.watch() as log:
        function(*inputs)
        torch.accelerator.synchronize()
    return log.launches, 1e6 * log.timeline(show=False).total


def nearest(ratio, *choices):
    """Return the choice that comes nearest to a ratio."""
    return min(choices, key=lambda choice: abs(math.log(ratio / choice)))


took = {}
for count in (10, 1000, 100_000, 1_000_000, 10_000_000):
    values = torch.zeros(count, device=device)
    _, took[count] = launches_and_microseconds(torch.add, values, 1)
    print(f"{count:>12,} numbers: {took[count]:7.1f} µs, {kind}")

guess.was(nearest(took[1000] / took[10], 1, 10, 100))

# %% [markdown] facts=["J1", "V4"]
# Up to about a hundred thousand numbers nearly all of the time is the launch and the kernel's start, and most
# of the device is idle. **Small work loses**, and a loop of small steps loses at every turn. Below, each of
# 200 rows is multiplied by a factor of its own, first in a loop, then all at once, by a column of factors
# that is broadcast:

# %% facts=["J1", "V3", "V4"]
rows = torch.ones(200, 64, device=device)
factors = torch.linspace(0, 1, 200, device=device)

for words, function in (
    ("a loop:    ", lambda: torch.stack([row * factor for row, factor in zip(rows, factors, strict=True)])),
    ("one launch:", lambda: rows * factors[:, None]),
):
    launches, microseconds = launches_and_microseconds(function)
    print(f"{words} {launches:>4} launches, {microseconds:7.1f} µs, {kind}")

# %% [markdown] facts=["J1", "V3"]
# The results are the same, and take less than a hundredth of the time. The cures for overhead are larger
# batches, operations that take many tensors or rows at once, and, for a step that is launched again and again
# in the same form, a **CUDA graph** (`torch.cuda.CUDAGraph`, or `torch.compile(mode="reduce-overhead")`),
# which records a row of launches and replays them as one.
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_batched):** `batched`, a loop of matrix products as one launch.

# %% [markdown] facts=["J2", "J3", "J4"]
# ### Bandwidth or compute: the arithmetic intensity decides
#
# When the work is large enough, the device itself is the limit. Either the memory cannot bring the bytes faster, or the
# processors cannot compute faster. Which of them it is can be worked out on paper, by one division:
#
# > **arithmetic intensity** = operations ÷ bytes that are read and written
#
# - `x + 1` in float32 reads 4 bytes, does 1 operation and writes 4 bytes for each number: **1/8 FLOP per
#   byte**, whatever the size. (FLOP stands for one operation with floating-point numbers.)
# - A product of two n × n matrices does n multiplications and n additions for each of n² results, so 2n³
#   operations. It reads two matrices and writes one, 3 · 4n² bytes. That makes **n/6 FLOP per byte**, 171 for
#   n = 1024: each number that is read is used n times.
# - A layer with n inputs and n outputs, given b rows, does 2bn² operations, and reads 4n² bytes of weights.
#   As long as b is small beside n, that is about **b/2 FLOP per byte**. One row uses each weight once.
#
# (The count assumes that each number is fetched from memory once. Good kernels come close to that, because
# they work on blocks that fit into the caches.)
#
# The machine has such a number as well, the **balance**: how many operations it can do in the time in which its
# memory moves one byte. The reference machine does 8.1 TFLOP/s and moves 300 GB/s: 8.1e12 ÷ 300e9 = **27 FLOP per
# byte**. Work below 27 is limited by bandwidth, work above it by compute.
#
# ![The roofline of the reference machine. Below 27 operations for each byte the rate rises with the arithmetic intensity, because bandwidth decides: x + 1 is at the foot of the slope, a layer with one row a little higher, and with 32 rows near its top. Above 27 the roof is flat at 8.1 TFLOP/s, because the operations decide; a product of two matrices with n = 1024 is there.](drawing:roofline)
#
# This picture is called a **roofline**. Its slope is the memory's bandwidth, and its flat part is what the processors
# can do. No work lies above the roof. Use it for a prediction: a layer with 2048 inputs and 2048 outputs is given one
# row, and then 32 rows at once, which are 32 times as many operations.

# %% facts=["J2", "J4"]
guess = devlab.predict("32 rows take about how many times as long as one row?", 1, 8, 32)

# %% facts=["J2", "J3", "J4"]
weights = torch.ones(2048, 2048, device=device)

print(f"{'rows':>5}{'FLOP per byte':>16}{'TFLOP/s':>10}")
took = {}
for count in (1, 8, 32, 128, 256):
    inputs = torch.ones(count, 2048, device=device)
    operations = 2 * count * 2048 * 2048
    moved = 4 * (2 * count * 2048 + 2048 * 2048)
    _, took[count] = launches_and_microseconds(torch.matmul, inputs, weights)
    print(
        f"{count:>5}{operations / moved:>16.1f}{operations / took[count] / 1e6:>10.2f}{took[count]:>10.1f} µs, {kind}"
    )

guess.was(nearest(took[32] / took[1], 1, 8, 32))

# %% [markdown] facts=["J2", "J3", "J4"]
# Up to the balance more rows are nearly free, because the time goes into reading the weights, and they are
# read once in any case. Beyond it the time grows with the rows, and the rate stays just below the roof. (What
# is missing to 8.1 TFLOP/s is the launch and the kernel's own 2 µs.) This is why larger batches make training
# and serving efficient, and why a language model that writes for one reader, one row at a time, is limited by
# the memory's bandwidth and hardly uses its processors.
#
# ![The balance of real machines, from their makers' peaks](recorded:balance)
#
# (The reference host, a CPU with four cores, has a balance of 7.5.) In 16 bits a number has half the bytes,
# so each intensity doubles. The balance doubles as well on the RTX 4090. On the other GPUs it rises by a
# factor of 8 to 16, because their special units for matrix products in 16 bits, which NVIDIA calls tensor
# cores, are so much faster. There, more work is limited by bandwidth in 16 bits than in 32.
#
# To find out in which regime your own work is, change one thing and look at the time:
#
# | regime | it is cured by | how you tell |
# |---|---|---|
# | overhead | fewer, larger launches | half the batch takes as long as the whole batch; the device's lane has gaps |
# | bandwidth | fewer bytes: fusion, smaller dtypes | the intensity is below the balance; bytes ÷ time is near the peak |
# | compute | fewer operations, matrix units (autocast, TF32: [lesson 12](12_less_memory_less_time.ipynb)) | the intensity is above the balance; operations ÷ time is near the peak |
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_regime):** `regime`, which says on paper what decides how long
# a product takes: for matrices of any shape, in 32 or 16 bits, on any chip of the first table.

# %% [markdown] facts=["J5"]
# ## Fusion: fewer bytes, fewer launches
#
# Most lines of a model are elementwise, and their intensity lies far below the balance. GELU, an activation
# function, can be written out in Python with eight operations on tensors. PyTorch also has it as one, whose
# kernel reads a number, does everything that has to be done with it, and writes the result. Such a kernel is
# called **fused**. Both compute the same, up to rounding.

# %% facts=["J5"]
guess = devlab.predict(
    "Written out, GELU of a million numbers takes about how many times as long as fused?", 1, 2, 8
)


# %% facts=["J2", "J5"]
def written_out(x):
    """Compute GELU, by its approximation with tanh, one operation after the other."""
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))


took = {}
for count in (1000, 1_000_000):
    numbers = torch.linspace(-3, 3, count, device=device)
    for words, function, tensors in (
        ("written out", written_out, 6 * 2 + 2 * 3),  # two of the eight steps read two tensors each
        ("fused", lambda x: F.gelu(x, approximate="tanh"), 2),
    ):
        launches, took[words, count] = launches_and_microseconds(function, numbers)
        print(
            f"{count:>9,} numbers {words:<11} {launches} launches, {tensors * numbers.nbytes / 1e6:6.2f} MB moved, "
            f"{took[words, count]:6.1f} µs, {kind}"
        )

guess.was(nearest(took["written out", 1_000_000] / took["fused", 1_000_000], 1, 2, 8))

# %% [markdown] facts=["J5"]
# Each of the eight steps reads one tensor or two from memory and writes its whole result back, only for the
# next step to read it again. Written out, 18 tensors pass through the memory, fused only 2. With a million
# numbers that saves bytes, with a thousand it saves launches: **fusion helps in both regimes**. It does
# nothing for large products, whose time goes into operations.
#
# So look for the fused operation first: `F.gelu`, `F.layer_norm`, `F.scaled_dot_product_attention`,
# `torch.addcmul`, or an optimizer with `fused=True`. For everything else there is **`torch.compile`**, which
# captures the operations of a function as a graph, and hands the graph to a *backend* that makes kernels for
# it. The backend below prints what was captured, and runs it as it is:


# %% facts=["J5"]
def show_graph(graph, example_inputs):
    """A backend for torch.compile: name the captured operations, and change nothing."""
    names = [node.target.__name__ for node in graph.graph.nodes if node.op == "call_function"]
    print(len(names), "operations in one graph:", ", ".join(names))
    return graph.forward


numbers = torch.linspace(-3, 3, 5, device=device)
print(torch.compile(written_out, backend=show_graph)(numbers).cpu())

# %% [markdown] facts=["J5"]
# PyTorch's own backends `"eager"` and `"aot_eager"` run the graph as it is, too; they are there to find out
# at which stage something fails. The default, Inductor, fuses: for a GPU it writes kernels in Triton, a
# language for kernels, and for the CPU loops in C++, which a compiler on your machine translates. Its loop
# for `written_out` has one load and one store, and everything between them stays in the processor. The
# simulated device runs every graph as it is and says so in a warning, so its model shows no gain.
#
# Measured once with torch 2.13 on one core of an AMD EPYC, for four million numbers, the fastest of 15 calls
# each: written out 114 ms, compiled 15 ms, `F.gelu` 10 ms, and 21 **seconds** for the first call, which
# compiles. It is left out of this notebook for that reason. When a function is compiled again, and what cuts
# a graph in two, is a matter of [lesson 12](12_less_memory_less_time.ipynb#Compiled).

# %% [markdown] facts=["J6"]
# ## A trace, read line by line
#
# A program has hundreds of operations, and you cannot work out all of them on paper. A **profiler** notes each of
# them while the program runs. Here is a program with one piece of work for each regime: a product, an addition over a
# million numbers, and 2,000 multiplications of ten numbers each. It runs on the CPU, which every reader has.

# %% facts=["J6"]
matrix, large, tiny = torch.ones(256, 256), torch.ones(1_000_000), torch.ones(10)


def three_works(matrix, large, tiny, turns):
    """Do many small multiplications, a large addition and a product."""
    for _ in range(turns):
        tiny * tiny
    large + 1
    matrix @ matrix


works = {"aten::mm": "the product", "aten::add": "the addition", "aten::mul": "the 2,000 small ones"}
guess = devlab.predict("Which of the three takes most of the CPU's time?", *works.values())

# %% tags=["nbval-ignore-output"] facts=["J6"]
three_works(matrix, large, tiny, 10)  # a warm-up
with profile(activities=[ProfilerActivity.CPU]) as trace:
    three_works(matrix, large, tiny, 2000)

rows_of = trace.key_averages()
print(rows_of.table(sort_by="self_cpu_time_total", row_limit=8, max_name_column_width=20))

guess.was(works[max(rows_of, key=lambda row: row.self_cpu_time_total).key])

# %% [markdown] facts=["J6"]
# Read it by rows. Each row is an operator of PyTorch's library `aten`; `*` is `aten::mul`, and `@` is `aten::matmul`,
# which calls `aten::mm` for two matrices. Then read the columns:
#
# - **Self CPU** is the time in the operator itself, **CPU total** includes what it called. `aten::matmul` has
#   a large total and hardly any time of its own, because everything is done in `aten::mm`. Sort by *self* to
#   find where the time goes, by *total* to find which of your lines caused it. (`aten::to` and what it calls
#   turn the 1 of `large + 1` into a float.)
# - **# of Calls** and **CPU time avg** tell the regimes apart. Thousands of calls of about a microsecond are
#   overhead, since multiplying ten numbers takes a CPU a few nanoseconds. A single call that takes long is
#   bandwidth or compute, and its intensity says which.
# - The percentages are shares of all that was recorded. The profiler itself takes time for each call, so it
#   makes small operators look slower than they are.
#
# With `activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]` the table has the same columns once more for
# the GPU. There `cudaLaunchKernel` among the CPU's rows is the launching, `cudaStreamSynchronize` or
# `cudaDeviceSynchronize` is the host waiting, and the *Self CUDA* column has the kernels. If the sum of the
# GPU's times is far below the duration, the GPU is idle in between, and you are in the overhead regime.
#
# A table has no order in time. `trace.export_chrome_trace("trace.json")` writes a file that you can look at
# in the browser, at `ui.perfetto.dev`: one lane for each thread and each stream. `log.timeline()` of this
# course draws such lanes in the notebook. Here is the same program on the device, with 8 small
# multiplications:

# %% facts=["J1", "J6"]
on_device = [torch.ones(shape, device=device) for shape in ((384, 384), 700_000, 10)]

torch.accelerator.synchronize()
with devlab.watch() as log:
    three_works(*on_device, 8)
    torch.accelerator.synchronize()
log.timeline()

# %% [markdown] facts=["J1", "J6"]
# On the left the host is busy without a pause, and the device has gaps: each small kernel is over before the
# next one has been launched. That is what overhead looks like in every tool. On the right the host has long
# finished and waits, and the device works without a gap: first on the addition, limited by bandwidth, then on
# the product, limited by compute. Those two look alike in a trace. Their intensities, 1/8 and 64, tell them
# apart.

# %% [markdown] facts=["Y1"]
# ## Two streams
#
# A stream works in order, and a copy to the device stands in it like any other work. Here two batches from
# pinned memory are copied and multiplied, in the order in which the lines are written. Watch the lane
# *computing* for idle time.

# %% facts=["Y1"]
weight = torch.ones(1024, 1024, device=device)
first, second = (torch.ones(512, 1024).pin_memory() for _ in range(2))

torch.accelerator.synchronize()
with devlab.watch() as log:
    first.to(device, non_blocking=True) @ weight
    second.to(device, non_blocking=True) @ weight
in_turn = log.timeline()

# %% [markdown] facts=["Y1", "P5"]
# Copies and products take turns, although the device has an engine for each. But there may be several
# streams: what is in one of them runs in order, and two of them know nothing of each other. So give the
# second copy a stream of its own, and let it run while the first product is computed. `torch.Stream(device)`
# makes a stream, and what you launch in a block `with stream:` goes into it.
#
# One stream gave you two guarantees, and with two streams you have to restore both:
#
# - **A product may not begin before its batch has arrived.** Put an event behind the copy, and let the other
#   stream wait for it.
# - **A batch's memory may not be used again before its product is done.** PyTorch's allocator (lesson 08)
#   gives a freed block at once to the next tensor of the stream that allocated it, here the side stream, and
#   asks no other stream. `record_stream(main)` tells it that the main stream uses the block as well, so that
#   it waits for both.

# %% facts=["Y1", "P5"]
main, copies = torch.accelerator.current_stream(device), torch.Stream(device)

torch.accelerator.synchronize()
with devlab.watch() as log:
    here = first.to(device, non_blocking=True)
    with copies:
        there = second.to(device, non_blocking=True)
        arrived = copies.record_event()
    here @ weight
    main.wait_event(arrived)  # the stream waits; the host does not
    there.record_stream(main)  # the memory is not handed out again before main is done with it
    there @ weight
overlapped = log.timeline(beside=in_turn)

print(f"it takes {overlapped.total / in_turn.total:.0%} of the time ({kind})")

# %% [markdown] facts=["Y1", "P5"]
# The second copy now runs beside the first product. Over many batches all copies but the first can hide
# behind the work, or all the work but the last behind the copies, whichever takes longer. Look at the host's
# lane as well: it has launched everything at the very beginning. `main.wait_event(arrived)` does not keep the
# host. It only puts an order into the main stream: *wait here until the copy has arrived*.
#
# If you leave that line out, nothing fails and the picture gets even better. But a product may then read
# memory into which nothing has been copied yet, and there is no error, only wrong numbers. Such a mistake is
# called a **race**. The simulated device computes at once and hides races, unless it is asked to show them:
# in a block `with races():`, work that does not wait finds what was in the memory before. The cell below adds
# up a batch of 524,288 ones while its copy is under way in the side stream.

# %% facts=["Y1"]
from devlab.sim import races


def sum_of_a_batch(waits):
    """Copy a batch of ones in the side stream, and add it up in the main stream."""
    with copies:
        there = first.to(device, non_blocking=True)
        arrived = copies.record_event()
    if waits:
        main.wait_event(arrived)
    return there.sum().item()


torch.accelerator.synchronize()
with races():
    print("without the wait:", sum_of_a_batch(waits=False))
    print("with the wait:   ", sum_of_a_batch(waits=True))

# %% [markdown] facts=["Y1"]
# The first sum is that of the memory before the copy. The simulated device keeps zeros there, so the first
# line is wrong every time. A real GPU races without being asked. Whether the copy or the sum comes first may
# change from run to run, and the memory may hold an earlier batch, for example, so that the wrong numbers
# look right.
#
# Without `record_stream` there is another race: Python drops `there` while its product is still waiting in
# the stream, and the next copy may get the same memory and overwrite the batch. The simulated device cannot
# show that kind. (The check of the exercise finds a missing wait by the clock, without any wrong number.)
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_Prefetcher):** `Prefetcher`, which does this for every
# batch of a loader, and never takes more than a few in advance.

# %% [markdown] facts=["Y1", "J6"]
# ### The same picture in Perfetto
#
# A drawing of two batches fits into a notebook, and a drawing of a whole epoch does not. `timeline.save` therefore
# writes it to a file of the same format as `export_chrome_trace` above, and `ui.perfetto.dev` opens it: you can zoom
# in, and a click on a piece of work shows its line of code, its bytes and its shapes. From each launch on the host's
# lane an **arrow** leads to the work on the device. The file is plain JSON, so it can be asked as well. How long do
# the arrows of the two copies and the two products become?

# %% facts=["Y1", "J6"]
import json
import tempfile

path = os.path.join(tempfile.mkdtemp(), "trace.json")
overlapped.save(path)
with open(path, encoding="utf-8") as file:
    events = json.load(file)["traceEvents"]

launched = {event["id"]: event["ts"] for event in events if event["ph"] == "s"}
for event in sorted(
    (event for event in events if event["ph"] == "f"), key=lambda event: launched[event["id"]]
):
    begun = [other for other in events if other["ph"] == "X" and other["ts"] == event["ts"]]
    name = next(
        other["name"] for other in begun if other["tid"] == event["tid"] and other["pid"] == event["pid"]
    )
    waited = event["ts"] - launched[event["id"]]
    print(f"{name:<32} launched at {launched[event['id']]:5.1f} µs, begun {waited:6.1f} µs later ({kind})")

# %% [markdown] facts=["Y1", "J6"]
# The host has launched everything within a few microseconds, and the device takes up one thing after the other, so
# the arrows grow longer. That is what a healthy trace looks like. Where every arrow is short, the device is waiting
# for the host, and you are in the overhead regime. (The trace of a simulated device says of itself that its times
# are modelled.)

# %% [markdown] facts=["Y1", "P5"]
# ### Look and touch
#
# Here each batch is loaded, copied and computed, and a line leads it from lane to lane. The percentages say
# how busy each lane is, and the longest of the three steps decides how long the epoch takes. Whenever you
# turn a switch, the loop is played again, and the previous one stays as an outline. **Find out:** press
# *Play* with everything off. Which two switches change nothing on their own, and what do they need? How short
# can you make the epoch?

# %% facts=["Y1", "P5"]
devlab.explore.pipeline()

# %% [markdown] facts=["Y1", "P5"]
# Pinned memory alone changes nothing, because without workers the host pins each batch itself, which takes as long as
# the copy gains. A stream for copies changes nothing either, because the host waits for each copy before it goes on
# to the next batch. `non_blocking=True` alone helps a little: the host is kept only while the bytes are staged. All
# three together, with two workers, bring the model to about half of the plainest loop's time. After that the device
# itself is the longest of the three, and nothing on the host makes it shorter. That is the goal.

# %% [markdown] facts=["Y7"]
# ## Errors that come late
#
# Work that is done later also fails later. What the *host* can see when it launches, PyTorch checks at once:
# shapes, dtypes and devices. Such an error is raised at its own line:

# %% facts=["Y7"]
try:
    x @ torch.ones(3, 3, device=device)
except RuntimeError as error:
    print("at once:", error)

# %% [markdown] facts=["Y7"]
# What depends on *values*, only the device can see, for example that an index of an `Embedding` or a label is
# out of range. Below, a table has ten rows, and row 12 is asked for. (The cells run on the simulated device
# or on the CPU. On a real GPU they would make the device unusable until you restart the notebook's kernel.)

# %% facts=["Y7"]
here = device if device.type == "sim" else torch.device("cpu")
table = torch.ones(10, 4, device=here)
wanted = torch.tensor([3, 12], device=here)
passed = []  # the lines that raised nothing


def look_up():
    """Ask for rows, for their shape, and for a number in them."""
    found = F.embedding(wanted, table)
    passed.append("the look-up")
    print("looked up: a tensor of shape", list(found.shape))
    passed.append("the shape")
    print("the first number is", found[0, 0].item())
    passed.append("the number")


guess = devlab.predict("Which line will raise the error?", "the look-up", "the shape", "the number")

# %% facts=["Y7"]
try:
    look_up()
except (IndexError, torch.AcceleratorError) as error:  # as the CPU raises it, and as an accelerator does
    print(f"{type(error).__name__}: {error}")

guess.was(("the look-up", "the shape", "the number")[len(passed)])

# %% [markdown] facts=["Y7"]
# On an accelerator the line with the bad index passes: it only launched, and a result of the right shape was
# promised. The error is raised where the host next waits, at an innocent `.item()` or `print`, or at any
# launch that is made after the device has met the error. On an NVIDIA GPU the message says `CUDA` where it
# says `sim` here. (On the CPU nothing is asynchronous, and the line itself fails.)
#
# The message itself warns you that the traceback may point to the wrong line. And the error does not end
# there. After such an error a process cannot use its CUDA device any more, whatever you ask of it:

# %% facts=["Y7"]
try:
    print(torch.zeros(2, device=here) + 1)
except torch.AcceleratorError as error:
    print("still:", str(error).splitlines()[0])

# %% [markdown] facts=["Y7"]
# On a real GPU you would restart the notebook's kernel now, and all tensors on it would be gone. The
# simulated device can be made usable again by `devlab.sim.reset()`, and keeps its tensors.
#
# To find the line that is to blame, let each launch wait for its kernel: `CUDA_LAUNCH_BLOCKING=1` in the
# environment, set before the program starts, because CUDA reads it once, when it starts. (The simulated
# device reads it each time, so it can be shown here.) Everything is slow then, so take it out again. Now the
# same call does not get past its first line:

# %% facts=["Y7"]
devlab.sim.reset()
os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
try:
    look_up()
except (IndexError, torch.AcceleratorError) as error:
    print(str(error).splitlines()[0])
del os.environ["CUDA_LAUNCH_BLOCKING"]
devlab.sim.reset()

# %% [markdown] facts=["Y7"]
# Or run the same step on the CPU, where the error is raised at its own line. If the message does not say
# which value it was, look the rows up by an index in brackets, whose message does:

# %% facts=["Y7"]
for words, step in (
    ("F.embedding:  ", lambda: F.embedding(wanted.cpu(), table.cpu())),
    ("table[wanted]:", lambda: table.cpu()[wanted.cpu()]),
):
    try:
        step()
    except IndexError as error:
        print(words, error)

# %% [markdown] facts=["V1", "V3", "V4"]
# ## Which is faster
#
# An accelerator is not one fast processor. It has thousands of slow ones, which a launch starts together. So
# it wins where there is much to do at once, under five conditions:
#
# 1. **Big batches**, so that all of its processors have work.
# 2. **Data that stays there**, so that each transfer is made once.
# 3. **Good kernels**: dense matrix products and convolutions, not branches and lookups.
# 4. **Few Python loops**, and no waits in them.
# 5. **Memory read in order**, neighbours together.
#
# Where most of these fail, **the CPU may win**, and there is no shame in using it: for small models, text
# processing, trees, and anything with an `if` for each element.
#
# The transfer has to be counted, too. Here a matrix, which has to be brought to the device first, is
# multiplied by itself. `cpu` is measured on this machine, the two others are measured on the device, or
# modelled:

# %% tags=["nbval-ignore-output"] facts=["V1", "V5"]
print("  side       cpu    device  transfer")
for side in (16, 64, 256, 1024):
    here = torch.ones(side, side)
    there = here.to(device)
    cpu, on_device, transfer = (
        1e6 * devlab.time_op(function, place, repeats=7, show=False).median
        for function, place in (
            (lambda x=here: x @ x, "cpu"),
            (lambda x=there: x @ x, device),
            (lambda x=here: x.to(device), device),
        )
    )
    print(f"{side:>6}{cpu:>10.1f}{on_device:>10.1f}{transfer:>10.1f}   µs")

# %% [markdown] facts=["V5"]
# The first row in which device and transfer together take less time than the CPU is the **crossover**. It
# moves with the shape, the dtype, the hardware and the operation: for an addition it may never come, for a
# product it comes early, and if the data is there already it comes earlier still. No table can tell you where
# it is for your program. **Measure it.**
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_crossover):** `crossover`, from measurements in which nothing is as
# tidy as here.

# %% [markdown] facts=["V1", "V5"]
# ### Look and touch
#
# Here CPU and device race in one picture. On a GPU both sides are measured. On the simulated device both come
# from a model, of a CPU with four cores too; *Measure this CPU* puts yours in its place. Drag the handle
# under the curves to compare the two at one size. Measured times scatter: the shaded areas hold the middle
# half of the runs, and where two of them overlap, the picture names no single size. **Find out:** at which
# size does the accelerator win a matrix product, and how far does that move when x has to be brought to the
# device, and the result taken back? Does it ever win `x + 1`?

# %% facts=["V1", "V5"]
devlab.explore.crossover()

# %% [markdown] facts=["V1", "V5"]
# In the model the accelerator wins the product from n = 110 on, from 250 if x has to be brought, and from 420
# if the result goes back as well. An addition has an intensity of 1/8, and the accelerator wins it only where
# x is there already: the transfer alone takes longer than the addition on the CPU.

# %% [markdown]
# ## What to keep
#
# - A launch returns before the work is done. Within one stream results are right; the line that needs a value
#   waits for all before it.
# - Timing: warm up; wait, start the clock, run, wait, stop the clock; repeat; the median. Name the device you wait for.
# - Events are marks in the stream. They count in milliseconds, and the device need not stop for them.
# - Overhead, bandwidth, compute: the slowest decides. Operations ÷ bytes, against the machine's balance, says
#   which of the last two. Fusion saves bytes and launches.
# - In a trace, look at calls and averages first, and at gaps in the device's lane.
# - One stream runs in order, copies included. A second one lets them overlap, if work waits for its copy by
#   an event, and `record_stream` keeps the memory until the work is done.
# - Errors about values come late on a GPU, at a line that waits, and the device is unusable until a restart.
#   To find the line to blame: `CUDA_LAUNCH_BLOCKING=1`, or the CPU.
# - Big, dense, few launches, data that stays: the accelerator. Small or branching: perhaps the CPU. Measure.
#
# **Now do it:** [the exercises of this lesson](../exercises/07_asynchrony.ipynb), seven tasks. **Then:**
# [08 Memory](08_memory.ipynb), which is counted by the host and so needs no waiting.
