# %% [markdown]
# # 07 Asynchrony
#
# Here are two measurements of the same work, taken in one run with the same Python clock. Both are correct,
# and they contradict each other.
#
# After this lesson you can time work on any device, say what decides how long it takes, read a profiler's
# trace, copy the next batch while the current one is processed, and tell when an accelerator is worth using.
#
# **Takes** about 35 minutes to read, and 90 for the tasks, with a good place for a break before [Three
# regimes](#Three-regimes). **Needs** [04 Transfers](04_transfers.ipynb).

# %%
import gzip
import json
import math
import os
import tempfile
import time
from pathlib import Path

os.environ["KINETO_LOG_LEVEL"] = "99"  # keeps the profiler's own log lines out of this notebook

import torch
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile, schedule

import devlab

device = devlab.start()

# %% [markdown]
# Without a GPU, a simulated device takes its place. Its waits are real, but stretched, so that Python can see
# them. What a clock took is called *measured*; *modelled* or *simulated* is computed for the course's
# reference machine; *H200, measured* is what an NVIDIA H200 answered.

# %% [markdown] facts=["Y1", "Y2"]
# ## The host runs ahead
#
# The work is five matrix products. The function notes the time twice: after the last line that starts a
# product, and again when the device has done everything.

# %% facts=["Y1", "Y2"]
guess = devlab.predict(
    "Of the whole time, how much has passed when the last product was started?",
    "more than half",
    "less than half",
)

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

guess.was("more than half" if started > 0.5 * done else "less than half")

# %% [markdown] facts=["Y1", "Y2", "Y3"]
# The second figure is how long they take. **Operations on an accelerator are asynchronous.** To call one is a
# **launch**: the call puts the work into a queue and returns. The queue is the device's **stream**, and the
# device works through it in its own time. The program that it runs for a launch is called a **kernel**.
#
# ![The host launches five products one after the other, and is done with that early. The device begins the first product after the first launch and works on all five in turn. The first clock stops after the last launch, the second when the last product is done.](drawing:launched_and_done)
#
# H200, measured: a product of two 8192 × 8192 matrices took {measured:held_by_copies:seconds of the work in
# front}, and the line that launched it {measured:launch_bound:without a wait: time of an 8192 product by the
# host's clock}. But sooner or later the host has to wait:

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
# The host knows a shape without asking the device. `item()` needs a number, and the copy that fetches it
# takes its turn in the stream. One stream runs its work in order, so results are as if every call had waited.
# Only **the line at which you wait** changes.
#
# The first function below keeps the largest of ten losses, and contains no `item`.

# %% facts=["Y1", "Y2"]
guess = devlab.predict("How many times does the host wait for the device in these ten turns?", 0, 1, 10)

# %% facts=["Y1", "Y2"]
losses = [torch.tensor(0.5 * step, device=device) for step in range(10)]
zero = torch.zeros((), device=device)


def largest_by_if(losses):
    worst = zero
    for loss in losses:
        if loss > worst:
            worst = loss
    return worst


def largest_on_the_device(losses):
    worst = zero
    for loss in losses:
        worst = torch.maximum(worst, loss)
    return worst


waits = {}
for function in (largest_by_if, largest_on_the_device):
    with devlab.watch() as log:
        worst = function(losses)
    waits[function] = log.synchronizations
    print(f"{function.__name__:<22} {log.synchronizations:>2} waits, the worst is {worst.item()}")

guess.was(waits[largest_by_if])

# %% [markdown] facts=["Y1", "Y2"]
# `if` needs a yes or a no, and Python asks the tensor for it. Then the stream has run empty, and the device
# idles until the next launch. With `torch.maximum` the decision is made on the device. **Let the host run
# ahead**, and ask for numbers when you need them.
#
# PyTorch finds such lines for you. `torch.cuda.set_sync_debug_mode("warn")` makes each wait on CUDA a warning
# at its line, *UserWarning: called a synchronizing CUDA operation* (pytorch issue 84291), and `"error"` an
# exception. The mode is experimental, holds for the whole process and does not see every wait.
# `devlab.no_sync` does the same for a block, on any device.

# %% facts=["Y1", "Y2"]
try:
    if device.type == "cuda":
        torch.cuda.set_sync_debug_mode("error")
        largest_by_if(losses)
    else:
        with devlab.no_sync():
            largest_by_if(losses)
except RuntimeError as error:
    print(f"{type(error).__name__}: {str(error).partition(',')[0]}")
finally:
    if device.type == "cuda":
        torch.cuda.set_sync_debug_mode("default")

# %% [markdown] facts=["Y1", "Y2"]
# ### Look and touch
#
# Here are short programs, and what host and device do in them. The bar below a line says how long that line
# holds the host up. **Find out:** if you synchronize *nowhere*, which programs keep the host waiting all the
# same? And which one prints a number that is not there yet?

# %% facts=["Y1", "Y2"]
devlab.explore.timeline()

# %% [markdown] facts=["Y1", "Y2"]
# Asking for a value waits, and so does a blocking copy. A non-blocking one from pageable memory waits like a
# blocking one if it is large: H200, measured, from 4 MiB on, and not up to 2 MiB. One program waits for
# nothing and reads the host's memory while a copy to it is still under way: lesson 04's trap.

# %% [markdown] facts=["Y3"]
# ## A clock that can be trusted
#
# A clock that is read right after a launch has measured **the launch**. So there has to be a wait before it
# stops, and that is not enough. Below, other work is still running when the clock starts.


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
# - **Warm up.** The first call loads libraries and allocates memory.
# - **Repeat.**
# - **Take the median.** One disturbed call drags a mean along.
#
# `torch.accelerator.synchronize()` waits for the **current** device, which is number 0 until a program
# chooses another; `torch.accelerator.synchronize(device)` for the one that you mean. Two tools have these
# habits built in: `devlab.time_op`, and PyTorch's own `torch.utils.benchmark.Timer`, whose waits can be
# counted:

# %% tags=["nbval-ignore-output"] facts=["Y5"]
from torch.utils.benchmark import Timer

timing = devlab.time_op(lambda: x @ x, device)

small = torch.ones(8, 8, device=device)
with devlab.watch() as log:
    Timer("x @ x", globals={"x": small}).timeit(200)
print(f"Timer, 200 calls: {log.launches} launches, {log.synchronizations} waits")

# %% [markdown] facts=["Y4", "Y5"]
# `Timer` makes all calls in a row between its waits, as a program does. `timeit` gives the mean of one run,
# `blocked_autorange()` the median of several. Older `Timer`s wait for CUDA only: if yours shows 0 waits, end
# the statement with `torch.accelerator.synchronize()`.
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_time_op):** `time_op`, all of these habits in one
# function, for any device.

# %% [markdown] facts=["Y6"]
# ## Marks in the stream
#
# The device can also read its own clock. An **event** is a mark that you put into the stream, and when the
# device comes to it, it notes the time:

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
# `record` queues its mark like other work, and only `synchronize` waits. `elapsed_time` raises an error while
# one of its marks is not reached (on `mps` it waits), and counts in **milliseconds**. Events measure the
# device. Python's time shows only if the device ran out of work between the marks.
#
# With two GPUs, `record()` marks a stream of the **current** device; give it
# `torch.accelerator.current_stream(device)`.
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_event_time):** `event_time`, on a device that need not be
# the current one.

# %% [markdown] facts=["J1", "V4"]
# ## Three regimes
#
# Why does work take as long as it does? Picture the device as a kitchen, in which the host is the waiter and
# the processors are the cooks.
#
# ![A waiter, the host, hangs slips on a rail, the stream. Many cooks, the processors, stand at a bench; what they cook with is fetched from the pantry, the memory, and carried back there. Overhead holds the kitchen up where the slips are written, compute at the bench, bandwidth between bench and pantry.](drawing:kitchen)
#
# Three things can hold it up, and they are called regimes: **overhead**, where work is finished before the
# next launch has been made; **bandwidth**, where fetching and carrying takes longer than the work; and
# **compute**, where the processors are busy. All three go on at once, so **the slowest decides**: the largest
# of the three times is the least that work can take, and their sum about the most. Making another one faster
# changes nothing.

# %% [markdown] facts=["J1", "V4"]
# ### Overhead: the launch decides
#
# A launch takes the host a few microseconds, however much work it starts: on the reference machine 5 µs for
# an addition and 8 µs for a product. Python is part of it. H200, measured: {measured:basics:host seconds to
# start x + 1 (8 numbers)} for `x + 1`, and {measured:basics:host seconds to start nn.Linear forward} for a
# call of `nn.Linear`.

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
# The faster the device, the further that goes: on an H200, measured, four million numbers take hardly longer
# than 256. **Small work loses.** Below, each of 200 rows is multiplied by a factor of its own, in a loop and
# all at once. The third function is 150 small operations, of which none can be left out.

# %% facts=["J1", "V3", "V4"]
rows = torch.ones(200, 64, device=device)
factors = torch.linspace(0, 1, 200, device=device)


def chain(x):
    """Launch 150 small operations."""
    for _ in range(50):
        x = torch.relu(x * 1.01 + 0.1)
    return x


for words, function in (
    ("a loop:    ", lambda: torch.stack([row * factor for row, factor in zip(rows, factors, strict=True)])),
    ("one launch:", lambda: rows * factors[:, None]),
    ("the chain: ", lambda: chain(factors)),
):
    launches, microseconds = launches_and_microseconds(function)
    print(f"{words} {launches:>4} launches, {microseconds:7.1f} µs, {kind}")

if device.type == "cuda":  # the same chain, recorded once and launched as a whole
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):  # PyTorch asks for a warm-up outside of the main stream
        chain(factors)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = chain(factors)
    microseconds = 1e6 * devlab.time_op(graph.replay, device, show=False).median
    print(f"the graph:      1 launch,   {microseconds:7.1f} µs, {kind}")

# %% [markdown] facts=["J1", "V3"]
# The cures for overhead are larger batches, operations that take many tensors or rows at once, and, for a
# step that is repeated in the same form, a **CUDA graph**: launches are recorded once and then started by
# one. The cell records one if there is an NVIDIA GPU. H200, measured: the chain took
# {measured:launch_bound:150 small operators, eager, until done} one by one, and {measured:launch_bound:150
# small operators, one graph replay, until done} as a graph. New input is copied into the old tensor before a
# replay. `torch.accelerator.Graph` (PyTorch 2.13) does this on other devices too, and
# `torch.compile(mode="reduce-overhead")` by itself.
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_batched):** `batched`, a loop of matrix products as one
# launch.

# %% [markdown] facts=["J2", "J3", "J4"]
# ### Bandwidth or compute: the arithmetic intensity decides
#
# For large work, memory or processors set the limit. Which of them can be worked out on paper:
#
# > **arithmetic intensity** = operations ÷ bytes that are read and written
#
# - `x + 1` in float32 does 1 operation for 8 bytes: **1/8 FLOP per byte**, whatever the size. FLOP stands for
#   one operation with floating-point numbers.
# - A product of two n × n matrices does 2n³ operations, and moves three matrices of 4n² bytes: **n/6 FLOP per
#   byte**.
# - A layer with n inputs and n outputs, given b rows, does 2bn² operations, and reads 4n² bytes of weights:
#   about **b/2 FLOP per byte**, while b is small beside n. In a language model the rows are tokens.
#
# The machine's **balance** is how many operations it can do in the time in which its memory hands out one
# byte. The reference machine does 8.1 TFLOP/s and moves 300 GB/s, so its balance is **27 FLOP per byte**.
# Work below 27 is limited by bandwidth, work above it by compute. A **roofline** shows it:
#
# ![The roofline of the reference machine. Below 27 operations for each byte the rate rises with the arithmetic intensity, because bandwidth decides: x + 1 is at the foot of the slope, a layer with one row a little higher, and with 32 rows near its top. Above 27 the roof is flat at 8.1 TFLOP/s, because the operations decide; a product of two matrices with n = 1024 is there.](drawing:roofline)
#
# A layer with 2048 inputs and outputs is given one row, and then 32 rows at once, which are 32 times as many
# operations.

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
# Up to the balance more rows are nearly free, because the weights are fetched once. An H200 shows the same in
# bfloat16, in which its measured balance is 188, with weights of 4096 × 4096:
#
# | rows | 1 | 256 | 512 | 1024 | 4096 |
# |---|---|---|---|---|---|
# | H200, measured | {measured:launch_bound:bfloat16 (rows x 4096) @ (4096 x 4096), 1 rows, device seconds} | {measured:launch_bound:bfloat16 (rows x 4096) @ (4096 x 4096), 256 rows, device seconds} | {measured:launch_bound:bfloat16 (rows x 4096) @ (4096 x 4096), 512 rows, device seconds} | {measured:launch_bound:bfloat16 (rows x 4096) @ (4096 x 4096), 1024 rows, device seconds} | {measured:launch_bound:bfloat16 (rows x 4096) @ (4096 x 4096), 4096 rows, device seconds} |
#
# ![The balance of real machines, from their makers' peaks](recorded:balance)
#
# In 16 bits each intensity doubles, and on GPUs with tensor cores, units for matrix products, the balance
# rises by more: on an H100 it becomes 15 times as large.
#
# | regime | it is cured by | how you tell |
# |---|---|---|
# | overhead | fewer, larger launches | a tenth of the numbers takes as long; gaps in the device's lane of a trace |
# | bandwidth | fewer bytes: fusion, smaller dtypes | the intensity is below the balance, no gaps |
# | compute | fewer operations, matrix units ([lesson 12](12_less_memory_less_time.ipynb)) | the intensity is above the balance |
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_regime):** `regime`, what decides how long a product
# takes, on any chip.

# %% [markdown] facts=["J1", "J2", "J3"]
# ### A transformer, bounded
#
# From here to lesson 13 one model comes back: a small transformer that scores the next word at each place of
# a text. Three bounds for its forward and backward can be written down before it runs:
#
# - **launches**: their number times the time of one;
# - **bytes**: the parameters are read twice, and their gradients written once;
# - **operations**: 6 for each parameter and token, 2 in the forward and 4 in the backward, at the rate of a
#   large product.

# %% facts=["J1"]
guess = devlab.predict(
    "Which of the three bounds is the largest, for 512 tokens?", "launches", "bytes", "operations"
)

# %% facts=["J1", "J2", "J3"]
from torch import nn


def transformer(width, blocks, words):
    """Return a small language model: an embedding, blocks with attention, and scores for each word."""
    block = nn.TransformerEncoderLayer(
        width, width // 64, 4 * width, dropout=0.0, activation=F.gelu, batch_first=True, norm_first=True
    )
    encoder = nn.TransformerEncoder(block, blocks, enable_nested_tensor=False)
    return nn.Sequential(nn.Embedding(words, width), encoder, nn.Linear(width, words, bias=False))


def forward_and_backward():
    scores = model(text[:, :-1])
    F.cross_entropy(scores.flatten(0, 1), text[:, 1:].flatten()).backward()


model = transformer(width=128, blocks=2, words=512).to(device)
text = torch.randint(512, (8, 65), device=device)
parameters, tokens = sum(p.numel() for p in model.parameters()), text[:, 1:].numel()

one, ten_million = torch.ones(1, device=device), torch.ones(10_000_000, device=device)
square = torch.eye(1024 if device.type == "sim" else 8192, device=device)
_, launch = launches_and_microseconds(torch.add, one, 1)
_, carried = launches_and_microseconds(torch.add, ten_million, 1)
_, multiplied = launches_and_microseconds(torch.matmul, square, square)
launches, microseconds = launches_and_microseconds(forward_and_backward)
bounds = {
    "launches": launches * launch,
    "bytes": 3 * 4 * parameters * carried / 80_000_000,
    "operations": 6 * parameters * tokens * multiplied / (2 * len(square) ** 3),
}
for name, bound in bounds.items():
    print(f"{name:<11}{bound:9.1f} µs")
print(f"{'it takes':<11}{microseconds:9.1f} µs, {1e6 * tokens / microseconds:,.0f} tokens a second, {kind}")
guess.was(max(bounds, key=bounds.get))

# %% [markdown] facts=["J1", "J3", "V1"]
# So small a model is all launches. One of a real size, 12 blocks of width 768 with 124 million parameters,
# 16,384 tokens in a batch, is at the other end. H200, measured, in float32 and with its optimizer:
#
# | | a step | tokens a second | FLOP a second |
# |---|---|---|---|
# | attention written out | {measured:spine:float32, attention by hand:seconds a step} | {measured:spine:float32, attention by hand:tokens/s} | {measured:spine:float32, attention by hand:model FLOP/s (6 N a token)} |
#
# A large product reached {measured:basics:operations/s, 8192 x 8192 product, float32}, so the bound by
# operations is 242 ms, two thirds of the step. The share of the peak that a model's own operations reach is
# its **MFU**, *model FLOPs utilization*. The next lessons add rows to this table.

# %% [markdown] facts=["J5"]
# ## Fusion: fewer bytes, fewer launches
#
# GELU, an activation function, can be written out in Python with eight operations on tensors. PyTorch also
# has it as one, which is called **fused**. Both compute the same, up to rounding.

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
# a thousand launches: **fusion helps in both regimes**.
#
# So look for the fused operation first: `F.layer_norm`, `F.scaled_dot_product_attention`, an optimizer with
# `fused=True`. For everything else there is **`torch.compile`**, which captures a function's operations and
# writes kernels for them.
#
# H200, measured: GELU of 100 million numbers took 1.7 ms written out, 0.19 ms fused, and 0.19 ms compiled.
# With a thousand numbers it took 64, 6.6 and 38 µs. And the first call compiles: for five operators it took
# {measured:launch_bound:torch.compile of it, first call} ([lesson
# 12](12_less_memory_less_time.ipynb#Compiled)).

# %% [markdown] facts=["J6"]
# ## A trace, read line by line
#
# A **profiler** notes each operation while a program runs. Here is one with work for each regime: a product
# of two matrices, an addition over a million numbers, and a loop of multiplications of ten numbers, all on
# the CPU.

# %% facts=["J6"]
matrix, large, tiny = torch.ones(256, 256), torch.ones(1_000_000), torch.ones(10)


def three_works(matrix, large, tiny, turns):
    """Do many small multiplications, a large addition and a product."""
    for _ in range(turns):
        tiny * tiny
    large + 1
    matrix @ matrix


works = {"aten::mm": "the product", "aten::add": "the addition", "aten::mul": "the multiplications"}
guess = devlab.predict("Which of the three takes most of the CPU's time, with 5,000 turns?", *works.values())

# %% tags=["nbval-ignore-output"] facts=["J6"]
activities, tensors = [ProfilerActivity.CPU], (matrix, large, tiny)
if device.type == "cuda":  # your GPU's kernels, too
    activities.append(ProfilerActivity.CUDA)
    tensors = [tensor.to(device) for tensor in tensors]

with profile(activities=activities, schedule=schedule(wait=1, warmup=1, active=2)) as trace:
    for _ in range(4):
        three_works(*tensors, 5000)
        trace.step()

rows_of = trace.key_averages()
print(rows_of.table(sort_by="self_cpu_time_total", row_limit=8, max_name_column_width=20))
path = os.path.join(tempfile.mkdtemp(), "trace.json")
trace.export_chrome_trace(path)
print(f"{os.path.getsize(path):,} bytes in", os.path.basename(path))

guess.was(
    works[max((row for row in rows_of if row.key in works), key=lambda row: row.self_cpu_time_total).key]
)

# %% [markdown] facts=["J6"]
# `schedule` lets one step pass, warms up in the next and records two; `trace.step()` ends a step. Each row is
# an operator of PyTorch's library `aten`; `@` calls `aten::mm`.
#
# - **Self CPU** is the time in the operator itself, **CPU total** includes what it called.
# - **# of Calls** and **CPU time avg** tell the regimes apart. Thousands of calls of a microsecond are
#   overhead. A single long call is bandwidth or compute, and its intensity says which.
# - With a GPU, *Self CUDA* has the kernels.
# - `record_shapes=True` adds shapes, `with_stack=True` Python's lines, `with record_function("my part"):` a
#   row of your own.
#
# A **trace** has an order in time. Drop the file on ui.perfetto.dev, which reads it in your browser. An
# **arrow** leads from each launch to its kernel. Where every arrow is short, the device waits for the host.
#
# A trace is JSON, so a few lines can read one. Five come with the course: an H200 trained a small
# convolutional network, in batches of 16 and of 256 images.

# %% facts=["J6"]
guess = devlab.predict(
    "Small batches, the loss not read: how much of the time does the H200 idle, in %?", 5, 50, 95
)

# %% facts=["J1", "J6"]
idle = {}
print("                                       H200 idles   host loads   launches    waits")
for name in (
    "small_batches_item",
    "small_batches_launch_bound",
    "loader_in_the_main_process_waits",
    "pinned_no_wait",
    "workers_pinned_no_wait",
):
    with gzip.open(Path(devlab.__file__).parent / "data" / "h200" / f"{name}.json.gz") as file:
        slices = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
    spent = dict.fromkeys(("all", "GPU", "loads", "launches", "waits"), 0)
    for one in slices:
        if one["name"].startswith("PyTorch Profiler"):
            spent["all"] += one["dur"]
        elif one["cat"] in ("kernel", "gpu_memcpy", "gpu_memset"):
            spent["GPU"] += one["dur"]  # all in one stream, so no two at a time
        elif one["name"].startswith("enumerate(DataLoader)"):
            spent["loads"] += one["dur"]
        elif one["name"].startswith("cudaLaunch"):
            spent["launches"] += one["dur"]
        elif one["name"].endswith("Synchronize"):
            spent["waits"] += one["dur"]
    idle[name] = 1 - spent["GPU"] / spent["all"]
    shares = [idle[name], *(spent[kind_of] / spent["all"] for kind_of in ("loads", "launches", "waits"))]
    print(f"{name:<38}", *(f"{share:>9.0%}  " for share in shares))

guess.was_about(100 * idle["small_batches_launch_bound"])

# %% [markdown] facts=["J1", "J6"]
# With small batches the GPU idles: the host needs all of the time to launch some forty kernels a step, so
# `.item()` costs nothing. With large batches the loader in the main process keeps the GPU idle for half of
# the time; where it also pins, loading takes longer still. With workers the GPU itself is nearly the limit.
#
# Over a whole epoch of 12 batches the H200 did {measured:traces:loader_in_the_main_process_waits:images/s},
# {measured:traces:pinned_no_wait:images/s} and {measured:traces:workers_pinned_no_wait:images/s} images a
# second, in the order of the last three rows: starting workers took longer than they saved. Only a clock
# around the epoch says what you gain.
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_read_trace):** `read_trace`, which says of any trace how
# long the GPU idles, where the host waits, and what bounds the step.
#
# `log.timeline()` of this course draws a trace, with a lane for each **engine** of the device, the part that
# computes and the parts that copy:

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
# On the left the host is busy without a pause, and the device has gaps: overhead. On the right the host
# waits, and the device works without a gap, first limited by bandwidth, then by compute. Those two look alike
# in a trace, and their intensities tell them apart.

# %% [markdown] facts=["Y1"]
# ## Two streams
#
# A copy to the device waits its turn in a stream like any other work. Here two batches from pinned memory are
# copied and multiplied. Watch the lane *computing* for idle time.

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
# streams, which know nothing of each other. `torch.Stream(device)` makes one, and what you launch in a block
# `with stream:` goes into it. One stream gave you two guarantees for free. With two you must give them
# yourself:
#
# - **A product may not begin before its batch has arrived.** Put an event behind the copy, and let the other
#   stream wait for it.
# - **A batch's memory may not be used again before its product is done.** PyTorch's allocator gives a freed
#   block at once to the next tensor of the stream that allocated it, here the side stream.
#   `record_stream(main)` tells it that the main stream uses the block as well.

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
# The second copy now runs beside the first product. `main.wait_event(arrived)` does not hold the host up. It
# only orders the main stream to wait.
#
# If you leave that line out, nothing fails. But a product may then read memory into which nothing has been
# copied yet. Such a mistake is called a **race**. A GPU races without being asked, the simulated device in a
# block `with races():`. Below, the copy of a batch of ones has to wait behind long work.

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
# The first line is the mean of what the memory held before. Where that is an earlier batch, the wrong number
# looks right.
#
# Without `record_stream` there is another race: Python drops a batch while work on it is still waiting, and
# the next copy goes into the same memory. Here are batches of ones, twos, threes and fours.

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
# H200, measured: without `record_stream` 175 of 200 sums were wrong, and no error was raised. `record_stream`
# has a price, says its documentation: how much memory a program needs comes to depend on timing. The other
# cure has none: the side stream waits for the main one, by `copies.wait_stream(main)`, before it copies.
#
# PyTorch's tool for races is the **CUDA stream sanitizer**, a prototype: started with
# `TORCH_CUDA_SANITIZER=1`, a program ends at the first access that no wait orders, even on a day on which the
# numbers are right. For the program below its documentation shows *CSAN detected a possible data race on
# tensor with data pointer 139719969079296*, with both operators and their lines.

# %% facts=["Y1"]
RACE = """
import torch
import torch.cuda._sanitizer as sanitizer

sanitizer.enable_cuda_sanitizer()  # what TORCH_CUDA_SANITIZER=1 does
a = torch.rand(4, 2, device="cuda")
with torch.cuda.stream(torch.cuda.Stream()):
    torch.mul(a, 5, out=a)
"""
if device.type == "cuda":
    devlab.launch(RACE, 1)
else:
    print("no NVIDIA GPU here: the sanitizer watches CUDA's streams alone")

# %% [markdown] facts=["Y1", "P5"]
# **[Exercise](../exercises/07_asynchrony.ipynb#task_Prefetcher):** `Prefetcher`, which does all this for
# every batch of a loader, and never takes more than a few in advance.

# %% [markdown] facts=["Y1", "P5"]
# ### Look and touch
#
# Each batch is loaded, copied and computed, and the longest of the three decides how long the epoch takes.
# **Find out:** press *Play* with everything off, then turn on one switch at a time. Which of them change
# nothing on their own?

# %% facts=["Y1", "P5"]
devlab.explore.pipeline()

# %% [markdown] facts=["Y1", "P5"]
# <details><summary>What you will have found</summary>
#
# In the model, pinned memory alone changes nothing, because the host pins each batch itself; nor does a
# stream, because the host waits for each copy. All together, with two workers, halve the time.
#
# </details>

# %% [markdown] facts=["Y7"]
# ## Errors that come late
#
# Shapes, dtypes and devices PyTorch checks when it launches. What depends on *values*, only the device can
# see. Below, a table has ten rows, and row 12 is asked for. On an NVIDIA GPU such an error is the end of the
# process, so the program gets a process of its own.

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
# On an accelerator the line with the bad index passes: it only launched. The error is raised where the host
# next waits, at an innocent `.item()`; on CUDA also at a later launch. H200, measured: of 35 kinds of errors
# in values, 22 come late in this way. On `mps` some operations check no indices, and give wrong numbers.
#
# The sum asks for nothing wrong, and fails too: **the process cannot use its CUDA device any more**. In a
# notebook, restart the Python process.
#
# To find the line that is to blame, let each launch wait for its kernel: `CUDA_LAUNCH_BLOCKING=1` in the
# environment, set before the program starts, and taken out again afterwards.

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
# An accelerator wins where there is much to do at once: big batches, data that stays there, good kernels for
# dense products, few Python loops, and memory that is read in order. Where most of this is missing **the CPU
# may win**: for small models, trees, and anything with an `if` for each element.
#
# Here a matrix, which has to be brought to the device first, is multiplied by itself; the column `cpu` is
# measured.

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
# | 64 | {measured:crossover:matrix product, float32, 64 x 64:cpu} | {measured:crossover:matrix product, float32, 64 x 64:device} | {measured:crossover:matrix product, float32, 64 x 64:transfer} |
# | 256 | {measured:crossover:matrix product, float32, 256 x 256:cpu} | {measured:crossover:matrix product, float32, 256 x 256:device} | {measured:crossover:matrix product, float32, 256 x 256:transfer} |
# | 1024 | {measured:crossover:matrix product, float32, 1024 x 1024:cpu} | {measured:crossover:matrix product, float32, 1024 x 1024:device} | {measured:crossover:matrix product, float32, 1024 x 1024:transfer} |
#
# The **crossover** is the size from which device and transfer together are faster than the CPU. It moves with
# the shape, the dtype, the hardware and the operation. **Measure it.**
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_crossover):** `crossover`, from measurements in which
# nothing is as tidy as here.

# %% [markdown] facts=["V1", "V5"]
# ### Look and touch
#
# Here CPU and device race in one picture. Drag the handle under the curves. **Find out:** at which size does
# the accelerator win a matrix product, and how far does that move when x has to be brought to the device, and
# the result taken back? Does it ever win `x + 1`?

# %% facts=["V1", "V5"]
devlab.explore.crossover()

# %% [markdown] facts=["V1", "V5"]
# In the model the accelerator wins the product from n = 120 on, from 250 if x has to be brought, and from 420
# if the result goes back as well; an addition only where x is there already.

# %% [markdown]
# ## What to keep
#
# - A launch returns before the work is done. The line that needs a value waits for all before it.
# - Timing: warm up; wait, start the clock, run, wait, stop the clock; repeat; the median.
# - The slowest of overhead, bandwidth and compute decides; intensity against balance tells the last two
#   apart.
# - In a trace, look at gaps in the device's lane and at what the host does meanwhile.
# - With two streams, work waits for its copy by an event, and the memory is kept until the work is done.
# - Errors about values come late: `CUDA_LAUNCH_BLOCKING=1`, or the CPU.
#
# **Now do it:** [the exercises of this lesson](../exercises/07_asynchrony.ipynb). **Then:** [08
# Memory](08_memory.ipynb), which is counted by the host and so needs no waiting.
