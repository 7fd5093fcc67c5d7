# %% [markdown]
# # 07 Asynchrony
#
# Here are two measurements of the same work, taken in the same run with the same Python clock. Both are
# correct, and they contradict each other.
#
# After this lesson you can time work on any device, say what decides how long it takes, read a profiler's
# trace, copy the next batch while the current one is being processed, and tell when an accelerator is worth
# using.
#
# **Takes** about 60 minutes, with a good place for a break before [Three regimes](#Three-regimes). **Needs**
# [04 Transfers](04_transfers.ipynb).

# %%
import math
import os
import time

os.environ["KINETO_LOG_LEVEL"] = "99"  # keeps the profiler's own log lines out of this notebook

import torch
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile
from torch.utils.benchmark import Timer

import devlab

device = devlab.start()

# %% [markdown]
# **What is measured here, and what is modelled.** Without a GPU, a simulated device takes its place. Its
# waits are real, but stretched (for a product more than a thousand times), so that a clock in Python can see
# them. Figures that a clock took are called *measured*, and yours will differ. What is called *modelled* or
# *simulated* is computed for the course's reference machine at full speed. *H200, measured* is what an NVIDIA
# H200 answered, so that you can see what the model gets right.

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
# Which of the two is how long five products take? The second. **Operations on an accelerator are
# asynchronous**: the call, which is named a **launch**, returns as soon as the work is queued in the device's
# **stream**, and the device works through that stream in its own time. (PyTorch gives each device one such
# queue to begin with. The program that the device runs for a launch is called a **kernel**.) The first clock
# measured how long it takes to launch five products, the second how long it takes to compute them.
#
# ![The host launches five products one after the other, and is done with that early. The device begins the first product after the first launch and works on all five in turn. The first clock stops after the last launch, the second when the last product is done.](drawing:launched_and_done)
#
# Between the two moments Python is free. (On a GPU the first figure is far smaller still: on the simulated
# device your CPU computes the results while it launches. H200, measured: a product of two 8192 × 8192
# matrices took {measured:held_by_copies:seconds of the work in front}, and the line that launched it {measured:launch_bound:without a wait: time of an 8192 product by the host's clock}.) But sooner or later the host has to wait.
# Here is the time of each line of a small program:

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
# The host knows a shape without asking the device. `item()` needs a number. The copy that fetches it takes
# its turn in the stream, so `item()` waits for everything that was launched before it, needed or not. Within
# one stream the results are what they would be without asynchrony. What changes is **which line you wait
# at**: a line that launches is quick, and the first line that needs a value waits for all lines before it.
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
# the device idles until the next launch. With `torch.maximum` the decision is made on the device, and the
# host never has to know it. **Let the host run ahead**, and ask for numbers when you need them.
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_running_total):** `running_total`, a sum of losses that
# may hold graphs, without a single wait.

# %% [markdown] facts=["Y1", "Y2"]
# ### Look and touch
#
# Here are short programs, and what host and device do in them, from left to right in time. Read a program,
# guess, and press *Play*. The bar below a line says how long that line holds the host up. **Find out:** if
# you synchronize *nowhere*, which programs keep the host waiting all the same? And which one prints a number
# that is not there yet?

# %% facts=["Y1", "Y2"]
devlab.explore.timeline()

# %% [markdown] facts=["Y1", "Y2"]
# The programs that ask for a value wait, and so does a blocking copy, in either direction. A non-blocking one
# of a few bytes from pageable memory holds the host up only while they are staged, which means copied into
# pinned memory. A large one waits like a blocking copy (H200, measured: from 4 MiB on, and not up to 2 MiB).
# One program waits for nothing and reads the host's memory while a copy to it is still under way: it prints
# what happened to be there before, lesson 04's trap as a picture.

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
# Without the first wait the clock also counts what was launched before. There are **two waits: one before the
# clock starts, and one before it stops**. Three more habits make a figure that you can repeat:
#
# - **Warm up.** The first call is special: libraries are loaded, memory is allocated, and the best kernel may
#   have to be found.
# - **Repeat.** A single measurement is an anecdote.
# - **Take the median.** Now and then something else needs the machine. One such call drags a mean along, and
#   the median does not notice it.
#
# Mind the device, too. `torch.accelerator.synchronize()` waits for the **current** device, which is number 0
# until a program chooses another. If the work is on another one, say so:
# `torch.accelerator.synchronize(device)`.
#
# Two tools have these habits built in: `devlab.time_op`, which on the simulated device gives the model's
# time, and PyTorch's own `torch.utils.benchmark.Timer`. How often `Timer` waits can be counted:

# %% tags=["nbval-ignore-output"] facts=["Y5"]
timing = devlab.time_op(lambda: x @ x, device)

small = torch.ones(8, 8, device=device)
with devlab.watch() as log:
    Timer("x @ x", globals={"x": small}).timeit(200)
print(f"Timer, 200 calls: {log.launches} launches, {log.synchronizations} waits")

# %% [markdown] facts=["Y4", "Y5"]
# `Timer` makes all calls in a row between its waits, so launches overlap with work, as they do in a program.
# `timeit` gives the mean of one run, `blocked_autorange()` the median of several. If your version of PyTorch
# counts 0 waits here, end the statement with `torch.accelerator.synchronize()`.
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_time_op):** `time_op`, which puts all of these habits
# into one function, for any device.

# %% [markdown] facts=["Y6"]
# ## Marks in the stream
#
# To measure with its own clock, the host has to wait until the device is idle. The *device* can read its own
# clock instead. An **event** is a mark that you put into the stream, and when the device comes to it, it
# notes the time. Three marks around two pieces of work show where the time goes:

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
# The first mark has usually been reached by then, because the stream was empty. Only `synchronize` waits:
# `record` queues its mark like other work. `elapsed_time` raises an error while one of its marks is not
# reached (on `mps` it waits for them), and it counts in **milliseconds**. Events see the device alone. What
# Python did meanwhile, and the launches, are not in the figure, unless the stream ran empty between the
# marks.
#
# With two GPUs there is a trap: `record()` marks a stream of the **current** device, whatever device the
# event was made for. `torch.accelerator.current_stream(device)` gives the stream that you mean, and `record`
# takes it.
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_event_time):** `event_time`, on a device that need not be
# the current one.

# %% [markdown] facts=["J1", "V4"]
# ## Three regimes
#
# You can now measure how long work takes. The next question is why. Picture the device as the kitchen of a
# restaurant. A waiter, who is the host, writes slips and hangs them on the rail: each slip is a launch, and
# the rail is the stream. Thousands of cooks, the processors, work on one slip together. Their bench holds
# next to nothing, so for each slip the ingredients are fetched from the **pantry**, the device's memory, and
# the result is carried back there.
#
# ![A waiter, the host, hangs slips on a rail, the stream. Many cooks, the processors, stand at a bench; what they cook with is fetched from the pantry, the memory, and carried back there. Overhead holds the kitchen up where the slips are written, compute at the bench, bandwidth between bench and pantry.](drawing:kitchen)
#
# Such a kitchen can be slow for three reasons, which are called regimes:
#
# - **Overhead.** The dishes are so small that the cooks have finished one before the waiter has written the
#   next slip.
# - **Bandwidth.** The cooks stand at an empty bench, because fetching and carrying back takes longer than the
#   cooking.
# - **Compute.** There are slips on the rail and food on the bench, and the cooks cannot cook any faster.
#
# More cooks help in the third case and in no other. Along a full rail, writing, carrying and cooking go on at
# the same time, so **the slowest of the three decides**, and making one of the others faster changes nothing.
# (On the simulated device the tables below time each call by itself, so nothing hides the launch, and its
# time is added.)

# %% [markdown] facts=["J1", "V4"]
# ### Overhead: the launch decides
#
# A slip takes the waiter as long for one egg as for a hundred. A launch takes the host a few microseconds,
# however much work it starts. On the reference machine a launch takes 5 µs for an addition and 8 µs for a
# product, and the smallest kernel takes the device another 2 µs. Python itself is part of it, so what takes
# more lines of Python takes longer.
# H200, measured: {measured:basics:host seconds to start x + 1 (8 numbers)} for `x + 1`, {measured:basics:host seconds to start a 64 x 64 product} for a small product, and {measured:basics:host seconds to start nn.Linear forward} for a call of `nn.Linear`.

# %% facts=["J1", "V4"]
guess = devlab.predict(
    "Adding 1 to 1,000 numbers takes about how many times as long as adding 1 to 10?", 1, 10, 100
)

# %% facts=["J1", "V4"]
kind = "modelled" if device.type == "sim" else "measured"


def launches_and_microseconds(function, *inputs):
    """Return how many launches a function makes, and how long a call takes: the median of several."""
    with devlab.watch() as log:
        function(*inputs)
    timing = devlab.time_op(lambda: function(*inputs), device, repeats=7, show=False)
    return log.launches, 1e6 * timing.median


def nearest(ratio, *choices):
    """Return the choice that comes nearest to a ratio."""
    return min(choices, key=lambda choice: abs(math.log(ratio / choice)))


took = {}
for count in (10, 1000, 10_000, 100_000, 1_000_000, 10_000_000):
    values = torch.zeros(count, device=device)
    _, took[count] = launches_and_microseconds(torch.add, values, 1)
    print(f"{count:>12,} numbers: {took[count]:7.1f} µs, {kind}")

guess.was(nearest(took[1000] / took[10], 1, 10, 100))

# %% [markdown] facts=["J1", "V4"]
# On the reference machine nearly all of the time is the launch and the kernel's start up to about ten
# thousand numbers, and for most of it the cooks stand idle. The faster the device, the further that goes: on
# an H200, measured, four million numbers take hardly longer than 256. **Small work loses**, and a loop of
# small steps loses at every turn. Below, each of 200 rows is multiplied by a factor of its own, first in a
# loop, then all at once, by a column of factors that is broadcast:

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
# The results are the same, in less than a hundredth of the time. The cures for overhead are larger batches,
# operations that take many tensors or rows at once, and, for a step that is launched again and again in the
# same form, a **CUDA graph** (`torch.cuda.CUDAGraph`, or `torch.compile(mode="reduce-overhead")`). It is the
# kitchen's set menu: a row of launches is recorded once, and from then on is ordered with a single slip.
# H200, measured: 150 small operators took {measured:launch_bound:150 small operators, eager, until done} one by one, and {measured:launch_bound:150 small operators, one graph replay, until done} as a graph.
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_batched):** `batched`, a loop of matrix products as one
# launch.

# %% [markdown] facts=["J2", "J3", "J4"]
# ### Bandwidth or compute: the arithmetic intensity decides
#
# When the work is large enough, the limit is either the pantry or the cooks. Which of them it is can be
# worked out on paper, by asking how much is done with each byte that is carried:
#
# > **arithmetic intensity** = operations ÷ bytes that are read and written
#
# - `x + 1` in float32 reads 4 bytes, does 1 operation and writes 4 bytes for each number: **1/8 FLOP per
#   byte**, whatever the size. (FLOP stands for one operation with floating-point numbers.) Everything is
#   fetched, stirred once, and carried back.
# - A product of two n × n matrices does n multiplications and n additions for each of n² results, so 2n³
#   operations. It reads two matrices and writes one, 3 · 4n² bytes. That makes **n/6 FLOP per byte**, 171 for
#   n = 1024. (Each number is used n times and fetched nearly once, because good kernels work on blocks that
#   fit on the bench, which means into the caches.)
# - A layer with n inputs and n outputs, given b rows, does 2bn² operations, and reads 4n² bytes of weights.
#   As long as b is small beside n, that is about **b/2 FLOP per byte**. One row uses each weight once.
#
# The machine has such a number as well, the **balance**: how many operations its cooks can do in the time in
# which its pantry hands out one byte. The reference machine does 8.1 TFLOP/s and moves 300 GB/s: 8.1e12 ÷
# 300e9 = **27 FLOP per byte**. Work below 27 is limited by bandwidth, work above it by compute. A
# **roofline** shows both limits. Its slope is what the pantry can hand out, its flat top what the cooks can
# do, and no work lies above it:
#
# ![The roofline of the reference machine. Below 27 operations for each byte the rate rises with the arithmetic intensity, because bandwidth decides: x + 1 is at the foot of the slope, a layer with one row a little higher, and with 32 rows near its top. Above 27 the roof is flat at 8.1 TFLOP/s, because the operations decide; a product of two matrices with n = 1024 is there.](drawing:roofline)
#
# Use it for a prediction: a layer with 2048 inputs and 2048 outputs is given one row, and then 32 rows at
# once, which are 32 times as many operations.

# %% facts=["J2", "J4"]
guess = devlab.predict("32 rows take about how many times as long as one row?", 1, 8, 32)

# %% facts=["J2", "J3", "J4"]
weights = torch.ones(2048, 2048, device=device)

print(f"{'rows':>5}{'FLOP per byte':>16}{'TFLOP/s':>10}{'µs':>10}, {kind}")
took = {}
for count in (1, 8, 32, 128, 256):
    inputs = torch.ones(count, 2048, device=device)
    operations = 2 * count * 2048 * 2048
    moved = 4 * (2 * count * 2048 + 2048 * 2048)
    _, took[count] = launches_and_microseconds(torch.matmul, inputs, weights)
    print(f"{count:>5}{operations / moved:>16.1f}{operations / took[count] / 1e6:>10.2f}{took[count]:>10.1f}")

guess.was(nearest(took[32] / took[1], 1, 8, 32))

# %% [markdown] facts=["J2", "J3", "J4"]
# Up to the balance more rows are nearly free: the time goes into fetching the weights, and they are fetched
# once, for one plate or for 32. Beyond it the time grows with the rows, and the rate stays just below the
# roof. An H200 shows the same in bfloat16, in which its measured balance is 188, with weights of 4096 × 4096:
#
# | rows | 1 | 32 | 256 | 512 | 1024 | 4096 |
# |---|---|---|---|---|---|---|
# | H200, measured | {measured:launch_bound:bfloat16 (rows x 4096) @ (4096 x 4096), 1 rows, device seconds} | {measured:launch_bound:bfloat16 (rows x 4096) @ (4096 x 4096), 32 rows, device seconds} | {measured:launch_bound:bfloat16 (rows x 4096) @ (4096 x 4096), 256 rows, device seconds} | {measured:launch_bound:bfloat16 (rows x 4096) @ (4096 x 4096), 512 rows, device seconds} | {measured:launch_bound:bfloat16 (rows x 4096) @ (4096 x 4096), 1024 rows, device seconds} | {measured:launch_bound:bfloat16 (rows x 4096) @ (4096 x 4096), 4096 rows, device seconds} |
#
# This is why larger batches make training and serving efficient, and why a language model that writes for
# one reader, one row at a time, is limited by the memory's bandwidth and hardly uses its processors.
#
# ![The balance of real machines, from their makers' peaks](recorded:balance)
#
# In 16 bits a number has half the bytes, so each intensity doubles. The balance doubles as well on the RTX
# 4090. On the T4 it rises by a factor of 8 and on the H100 by 15, because their units for matrix products in
# 16 bits, which NVIDIA calls tensor cores, are so much faster: better cooks, and the same pantry. On those
# GPUs, more work is limited by bandwidth in 16 bits than in 32.
#
# In which regime is your own work? Here are the signs, and the cures:
#
# | regime | it is cured by | how you tell |
# |---|---|---|
# | overhead | fewer, larger launches | `x + 1` on a tenth of the numbers takes just as long; launches leave gaps in the device's lane |
# | bandwidth | fewer bytes: fusion, smaller dtypes | the intensity is below the balance; bytes ÷ time is near the peak |
# | compute | fewer operations, matrix units (autocast, TF32: [lesson 12](12_less_memory_less_time.ipynb)) | the intensity is above the balance; operations ÷ time is near the peak |
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_regime):** `regime`, which says on paper what decides how
# long a product takes: for matrices of any shape, in 32 or 16 bits, on any chip.

# %% [markdown] facts=["J5"]
# ## Fusion: fewer bytes, fewer launches
#
# Most lines of a model are elementwise, and their intensity lies far below the balance. GELU, an activation
# function, can be written out in Python with eight operations on tensors. That makes eight slips, and for
# each of them a bowl is fetched from the pantry, stirred once, and carried back. PyTorch also has GELU as one
# operation: the whole recipe on a single slip, and the bowl stays on the bench from the first step to the
# last. Such a kernel is called **fused**. Both compute the same, up to rounding.

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
# Written out, 18 tensors pass through the memory, fused only 2. With a million numbers that saves bytes, with
# a thousand it saves launches: **fusion helps in both regimes**. It makes no large product faster, but what
# comes before and after one can be fused with it.
#
# So look for the fused operation first: `F.gelu`, `F.layer_norm`, `F.scaled_dot_product_attention`,
# `torch.addcmul`, or an optimizer with `fused=True`. For everything else there is **`torch.compile`**, which
# captures the operations of a function as a graph and writes kernels for it: for a GPU in Triton, a language
# for kernels, and for the CPU in C++. Its loop for `written_out` has one load and one store, and everything
# between them stays in the processor. (The simulated device runs the captured operations one by one, so its
# model shows no gain.)
#
# H200, measured: GELU of 100 million numbers took 1.7 ms written out, 0.19 ms fused, and 0.19 ms compiled.
# With a thousand numbers it took 64, 6.6 and 38 µs: a compiled function makes one launch, but calling it costs
# the host more than calling one operation. And the first call compiles: for five operators it took {measured:launch_bound:torch.compile of it, first call}.
# [Lesson 12](12_less_memory_less_time.ipynb#Compiled) says when a function is compiled again.


# %% [markdown] facts=["J6"]
# ## A trace, read line by line
#
# A program has hundreds of operations, and you cannot work out all of them on paper. A **profiler** notes
# each of them while the program runs. Here is a program with one piece of work for each regime: a product, an
# addition over a million numbers, and 10,000 multiplications of ten numbers each. It runs on the CPU, where
# waiter and cook are one person, who spends time on every slip all the same.

# %% facts=["J6"]
matrix, large, tiny = torch.ones(256, 256), torch.ones(1_000_000), torch.ones(10)


def three_works(matrix, large, tiny, turns):
    """Do many small multiplications, a large addition and a product."""
    for _ in range(turns):
        tiny * tiny
    large + 1
    matrix @ matrix


works = {"aten::mm": "the product", "aten::add": "the addition", "aten::mul": "the 10,000 small ones"}
guess = devlab.predict("Which of the three takes most of the CPU's time?", *works.values())

# %% tags=["nbval-ignore-output"] facts=["J6"]
three_works(matrix, large, tiny, 10)  # a warm-up
with profile(activities=[ProfilerActivity.CPU]) as trace:
    three_works(matrix, large, tiny, 10_000)

rows_of = trace.key_averages()
print(rows_of.table(sort_by="self_cpu_time_total", row_limit=8, max_name_column_width=20))

guess.was(works[max(rows_of, key=lambda row: row.self_cpu_time_total).key])

if device.type == "cuda":  # the same program on your GPU, with a column for it
    there = [tensor.to(device) for tensor in (matrix, large, tiny)]
    three_works(*there, 10)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as trace:
        three_works(*there, 1000)
        torch.accelerator.synchronize()
    print(trace.key_averages().table(row_limit=8, max_name_column_width=20))

# %% [markdown] facts=["J6"]
# Each row is an operator of PyTorch's library `aten`; `*` is `aten::mul`, and `@` is `aten::matmul`, which
# calls `aten::mm` for two matrices.
#
# - **Self CPU** is the time in the operator itself, **CPU total** includes what it called. Sort by *self* to
#   find where the time goes, by *total* to find the operation that caused it.
# - **# of Calls** and **CPU time avg** tell the regimes apart. Thousands of calls of about a microsecond are
#   overhead, since multiplying ten numbers takes a CPU a few nanoseconds. A single call that takes long is
#   bandwidth or compute, and its intensity says which.
# - The profiler itself takes time for each call, so it makes small operators look slower than they are.
#
# With `ProfilerActivity.CUDA` among the activities, there are columns for the GPU as well; if you have one, a
# second table above shows them. *Self CUDA* has the kernels, and among the CPU's rows `cudaLaunchKernel` is
# the launching, `cudaDeviceSynchronize` or `cudaStreamSynchronize` the waiting. If the sum of the GPU's times
# is far below the duration, the device idles: because of launches, which is overhead, or because it waits for
# data. What the host does in the gaps tells you which.
#
# A table has no order in time, a **trace** has. `log.timeline()` of this course draws a trace in the
# notebook, with a lane for the host and one for each engine of the device. Here is the same program on the
# device, with 8 small multiplications and other sizes:

# %% facts=["J1", "J6"]
shapes = ((384, 384), 700_000, 10) if device.type == "sim" else ((4096, 4096), 100_000_000, 10)
on_device = [torch.ones(shape, device=device) for shape in shapes]
three_works(*on_device, 1)  # a warm-up

torch.accelerator.synchronize()
with devlab.watch() as log:
    three_works(*on_device, 8)
    torch.accelerator.synchronize()
log.timeline()

# %% [markdown] facts=["J1", "J6"]
# On the left the host is busy without a pause, and the device has gaps: the cooks have finished each small
# dish before the next slip is written. That is what overhead looks like in every tool. On the right all slips
# hang on the rail, the waiter waits, and the kitchen works without a gap: first on the addition, limited by
# bandwidth, then on the product, limited by compute. Those two look alike, because a trace does not show what
# the cooks wait for. Their intensities tell them apart: 1/8 for the addition, and n/6, at least 64, for the
# product.

# %% [markdown] facts=["Y1"]
# ## Two streams
#
# A stream works in order, and a copy to the device waits its turn in it like any other work. Here two batches
# from pinned memory are copied and multiplied, one after the other. Watch the lane *computing* for idle time.

# %% facts=["Y1"]
side = 1024 if device.type == "sim" else 4096
weight = torch.ones(side, side, device=device)
first, second = (torch.full((side // 2, side), value).pin_memory() for value in (1.0, 2.0))


def in_one_stream():
    first.to(device, non_blocking=True) @ weight
    second.to(device, non_blocking=True) @ weight


in_one_stream()  # a warm-up
torch.accelerator.synchronize()
with devlab.watch() as log:
    in_one_stream()
in_turn = log.timeline()

# %% [markdown] facts=["Y1", "P5"]
# Copies and products take turns, although the device has an engine for each. But there may be several
# streams: what is in one of them runs in order, and two of them know nothing of each other. So give the
# second copy a stream of its own, and let it run while the first product is computed. `torch.Stream(device)`
# makes a stream, and what you launch in a block `with stream:` goes into it. What one stream guaranteed, you
# now have to restore:
#
# - **A product may not begin before its batch has arrived.** Put an event behind the copy, and let the other
#   stream wait for it.
# - **A batch's memory may not be used again before its product is done.** PyTorch's allocator (lesson 08)
#   gives a freed block at once to the next tensor of the stream that allocated it, here the side stream, and
#   asks no other stream. `record_stream(main)` tells it that the main stream uses the block as well.

# %% facts=["Y1", "P5"]
main, copies = torch.accelerator.current_stream(device), torch.Stream(device)


def in_two_streams():
    here = first.to(device, non_blocking=True)
    with copies:
        there = second.to(device, non_blocking=True)
        arrived = copies.record_event()
    here @ weight
    main.wait_event(arrived)  # the stream waits; the host does not
    there.record_stream(main)  # the memory is not handed out again before main is done with it
    there @ weight


in_two_streams()  # a warm-up: the first tensor of a stream needs memory from the driver, which takes long
torch.accelerator.synchronize()
with devlab.watch() as log:
    in_two_streams()
overlapped = log.timeline(beside=in_turn)

print(f"it takes {overlapped.total / in_turn.total:.0%} of the time ({kind})")

# %% [markdown] facts=["Y1", "P5"]
# The second copy now runs beside the first product. Over many batches all copies but the first can hide
# behind the work, or all the work but the last behind the copies, whichever takes longer.
# `main.wait_event(arrived)` does not hold the host up. It only puts an order into the main stream: *wait here
# until the copy has arrived*.
#
# If you leave that line out, nothing fails and the picture gets even better. But a product may then read
# memory into which nothing has been copied yet, and the only sign is wrong numbers. Such a mistake is called
# a **race**. A GPU races without being asked, and in a block `with races():` the simulated device shows what
# it would do: work that does not wait finds what was in the memory before. In the cell below the copy of a
# batch of ones has to wait behind long work, and the main stream adds the batch up in the meantime.

# %% facts=["Y1"]
from devlab.sim import races
from devlab.sim.clock import real_waits

real_waits(False)  # no cell measures a simulated device's waits from here on, and races depend on them


def mean_of_a_batch(waits):
    """Copy a batch of ones in the side stream, behind long work, and take its mean in the main stream."""
    with copies:
        work()
        there = first.to(device, non_blocking=True)
        arrived = copies.record_event()
    if waits:
        main.wait_event(arrived)
    there.record_stream(main)
    return there.mean().item()


torch.accelerator.synchronize()
with races():
    print("without the wait:", mean_of_a_batch(waits=False))
    print("with the wait:   ", mean_of_a_batch(waits=True))

# %% [markdown] facts=["Y1"]
# The first line is the mean of what the memory held before: of nothing yet, or of an earlier batch, and then
# the wrong number looks right. Without the long work in front, whether the copy or the mean comes first may
# change from run to run.
#
# Without `record_stream` there is another race: Python drops a batch while work on it is still waiting in the
# main stream, and the next copy goes into the same memory. The cell below copies batches of ones, twos, threes
# and fours, and takes their means behind long work.

# %% facts=["Y1", "P5"]
batches = [torch.full((side // 2, side), float(number)).pin_memory() for number in (1, 2, 3, 4)]


def means_of_all(recorded):
    """Copy each batch in the side stream, take its mean in the main stream, and drop it."""
    means = []
    for batch in batches:
        with copies:
            there = batch.to(device, non_blocking=True)
            arrived = copies.record_event()
        main.wait_event(arrived)
        work()
        means.append(there.mean())
        if recorded:
            there.record_stream(main)
        del there
    return torch.stack(means).tolist()


torch.accelerator.synchronize()
with races():
    print("without record_stream:", means_of_all(recorded=False))
    print("with record_stream:   ", means_of_all(recorded=True))

# %% [markdown] facts=["Y1", "P5"]
# H200, measured: without `record_stream` 175 of 200 sums were wrong, and no error was raised. The other cure is
# to let the side stream wait for the main one, by `copies.wait_stream(main)`, before it copies.
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_Prefetcher):** `Prefetcher`, which does this for every
# batch of a loader, and never takes more than a few in advance.

# %% [markdown] facts=["Y1", "J6"]
# A whole epoch does not fit into such a drawing. `save` writes the lanes to a file for `ui.perfetto.dev`, a
# page that lets you zoom in and click on a piece of work to see its line of code, its bytes and its shapes.
# PyTorch's profiler writes such a file by `trace.export_chrome_trace("trace.json")`.

# %% tags=["nbval-ignore-output"] facts=["Y1", "J6"]
import tempfile

path = os.path.join(tempfile.mkdtemp(), "trace.json")
overlapped.save(path)
print(f"{os.path.getsize(path):,} bytes in", os.path.basename(path))

# %% [markdown] facts=["Y1", "J6"]
# There, an **arrow** leads from each launch to its work on the device. In the trace of the simulated device
# the first arrow is a few microseconds long, and the last is far longer, because the host has queued
# everything at once. Arrows that grow are a sign of health. Where every arrow is short, the device is waiting
# for the host, which launches too slowly (overhead) or is busy with something else, such as loading data.

# %% [markdown] facts=["Y1", "P5"]
# ### Look and touch
#
# Here each batch is loaded, copied and computed, and a line leads it from lane to lane. The longest of the
# three steps decides how long the epoch takes. **Find out:** press *Play* with everything off, then turn on
# one switch at a time. Which of them change nothing on their own? How short can you make the epoch?

# %% facts=["Y1", "P5"]
devlab.explore.pipeline()

# %% [markdown] facts=["Y1", "P5"]
# <details><summary>What you will have found</summary>
#
# In the model, pinned memory alone changes nothing, because without workers the host pins each batch itself,
# which takes as long as the copy gains. (On a host with several threads it may gain something: lesson 04.) A
# stream for copies changes nothing either, because the host waits for each copy. `non_blocking=True` alone
# helps a little in the model, whose batches are small: the host is held up only while the bytes are staged.
# All three together, with two workers, bring the model to about half of the plainest loop's time. Then the
# device itself is the longest of the three, which is the goal.
#
# </details>

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
# out of range. Below, a table has ten rows, and row 12 is asked for. On an NVIDIA GPU such an error is the end
# of the process, so the cells give this program a process of its own.

# %% facts=["Y7"]
LOOK_UP = """
import devlab
import torch
from torch.nn import functional as F

device = devlab.start()
table = torch.ones(10, 4, device=device)
wanted = torch.tensor([3, 12], device=device)
try:
    found = F.embedding(wanted, table)
    print("looked up: a tensor of shape", list(found.shape))
    print("the first number is", found[0, 0].item())
except (IndexError, torch.AcceleratorError) as error:  # as the CPU raises it, and as an accelerator does
    print(type(error).__name__ + ":", str(error).splitlines()[0])
try:
    print("the sum of the table is", table.sum().item())
except torch.AcceleratorError as error:
    print("the sum of the table:", str(error).splitlines()[0])
"""

guess = devlab.predict("Which line will raise the error?", "the look-up", "the shape", "the number", "none")

# %% facts=["Y7"]
(said,) = devlab.launch(LOOK_UP, 1)
raised = "the number" if "looked up" in said else "the look-up"
guess.was("none" if "first number" in said else raised)

# %% [markdown] facts=["Y7"]
# On an accelerator the line with the bad index passes: it only launched, and a result of the right shape was
# promised. The error is raised where the host next waits, at an innocent `.item()` or `print`; on CUDA also
# at any launch that is made after the device has met the error. (H200, measured: of 35 kinds of errors in
# values, 22 come late in this way. On `mps` some operations do not check their indices at all: no error, and
# wrong numbers.)
#
# Nor does the error end there. The sum asks for nothing wrong, and fails too: **the process cannot use its
# CUDA device any more**, whatever you ask of it. In a notebook you would have to restart the kernel, and all
# tensors on the GPU would be gone. (The simulated device can be made usable again by `devlab.sim.reset()`.)
#
# To find the line that is to blame, let each launch wait for its kernel: `CUDA_LAUNCH_BLOCKING=1` in the
# environment, set before the program starts, because CUDA reads it once, when it is first used. Everything is
# slow then, so take it out again. Now the same program does not get past its first line:

# %% facts=["Y7"]
os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
devlab.launch(LOOK_UP, 1)
del os.environ["CUDA_LAUNCH_BLOCKING"]

# %% [markdown] facts=["Y7"]
# Or run the same step on the CPU, where the error is raised at its own line ([lesson
# 10](10_debugging.ipynb#Run-it-on-the-CPU)).

# %% [markdown] facts=["V1", "V3", "V4"]
# ## Which is faster
#
# An accelerator is not one fast processor. It has thousands of slow ones, which a launch starts together. So
# it wins where there is much to do at once: big batches, data that stays there, dense products and
# convolutions, few Python loops without waits, and memory that is read in order. Where most of this is
# missing **the CPU may win**: for small models, text processing, trees, and anything with an `if` for each
# element.
#
# The transfer has to be counted, too. Here a matrix, which has to be brought to the device first, is
# multiplied by itself. The column `cpu` is measured on this machine, and the two others are measured on the
# device, or modelled:

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
# | side (H200, measured) | CPU, one thread | device | transfer |
# |---|---|---|---|
# | 16 | {measured:crossover:matrix product, float32, 16 x 16:cpu} | {measured:crossover:matrix product, float32, 16 x 16:device} | {measured:crossover:matrix product, float32, 16 x 16:transfer} |
# | 64 | {measured:crossover:matrix product, float32, 64 x 64:cpu} | {measured:crossover:matrix product, float32, 64 x 64:device} | {measured:crossover:matrix product, float32, 64 x 64:transfer} |
# | 256 | {measured:crossover:matrix product, float32, 256 x 256:cpu} | {measured:crossover:matrix product, float32, 256 x 256:device} | {measured:crossover:matrix product, float32, 256 x 256:transfer} |
# | 1024 | {measured:crossover:matrix product, float32, 1024 x 1024:cpu} | {measured:crossover:matrix product, float32, 1024 x 1024:device} | {measured:crossover:matrix product, float32, 1024 x 1024:transfer} |
#
# The size from which device and transfer together take less time than the CPU is the **crossover**. (Here the
# result stays on the device.) It moves with the shape, the dtype, the hardware and the operation: for an
# addition it may never come, for a product it comes early. No table can tell you where it is for your
# program. **Measure it.**
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_crossover):** `crossover`, from measurements in which
# nothing is as tidy as here.

# %% [markdown] facts=["V1", "V5"]
# ### Look and touch
#
# Here CPU and device race in one picture. On the simulated device both are modelled, the CPU with four cores;
# *Measure this CPU* puts yours in its place. Drag the handle under the curves to compare the two at one size.
# **Find out:** at which size does the accelerator win a matrix product, and how far does that move when x has
# to be brought to the device, and the result taken back? Does it ever win `x + 1`?

# %% facts=["V1", "V5"]
devlab.explore.crossover()

# %% [markdown] facts=["V1", "V5"]
# In the model the accelerator wins the product from n = 120 on, from 250 if x has to be brought, and from 420
# if the result goes back as well. It wins an addition only where x is there already: the transfer alone takes
# as long as the addition on the CPU, or longer.

# %% [markdown]
# ## What to keep
#
# - A launch returns before the work is done. The line that needs a value waits for all before it.
# - Timing: warm up; wait, start the clock, run, wait, stop the clock; repeat; the median. Name the device you
#   wait for.
# - Events are marks in the stream. They count in milliseconds, and the device need not stop for them.
# - Overhead, bandwidth, compute: the waiter, the pantry or the cooks, and the slowest decides. Operations ÷
#   bytes, against the machine's balance, says which of the last two. Fusion saves bytes and launches.
# - In a profiler's table, look at calls and averages first; in a trace, at gaps in the device's lane.
# - A second stream lets copies and work overlap, if work waits for its copy by an event, and `record_stream`
#   keeps the memory until the work is done.
# - Errors about values come late on a GPU, and a CUDA device is unusable until a restart. To find the line to
#   blame: `CUDA_LAUNCH_BLOCKING=1`, or the CPU.
# - Big, dense, few launches, data that stays: the accelerator. Small or branching: perhaps the CPU. Measure.
#
# **Now do it:** [the exercises of this lesson](../exercises/07_asynchrony.ipynb), seven tasks. **Then:** [08
# Memory](08_memory.ipynb), which is counted by the host and so needs no waiting.
