# %% [markdown]
# # 07 Asynchrony
#
# When Python says `y = x @ x` to an accelerator, it does not wait for y. It writes an order, drops it into a
# queue, and goes on. Nearly everything that surprises people about the speed of a GPU comes from this.
#
# After this lesson you can time work on any device so that the figure means something, keep the queue full,
# copy the next batch while this one is worked on, and tell when an accelerator is worth its price.
#
# **Takes** about 50 minutes. **Needs** [04 Transfers](04_transfers.ipynb).

# %%
import os
import statistics
import time

import torch

import devlab
import devlab.sim

device = devlab.start()

# %% [markdown]
# **What is measured here, and what is modelled.** Without a GPU the simulated device does in *slow motion* what
# a GPU does: in this notebook its waits are real, so you can feel them, but its speed is no chip's. Pictures and
# tables that say *simulated* or *modelled* come from its model of a GPU. Figures that a clock took on this
# machine are called measured, and yours will differ.

# %% [markdown] facts=["Y1", "Y2"]
# ## The host runs ahead
#
# Some work: five matrix products. The function below times them twice at once: one clock stops after the last line
# that starts a product, the other when the device says that all is done. Before you run it: will the two clocks agree?

# %% tags=["nbval-ignore-output"] facts=["Y2", "Y3"]
side = 512 if device.type == "sim" else 4096
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
print(f"measured without a wait: five products in {1000 * started:5.1f} ms")
print(f"measured with a wait:    five products in {1000 * done:5.1f} ms")

# %% [markdown] facts=["Y1", "Y2"]
# Two clocks, one piece of work, and two answers. **Operations on an accelerator are asynchronous**: the call, which is
# named a **launch**, returns as soon as the order is in the device's queue, and the device works it off in its own
# time. The first clock timed how long it takes to give five orders, the second how long it takes to carry them out.
#
# Between the two, Python was free. (On the simulated device your CPU computes the results while it starts them, so the
# first figure is far larger than on a GPU, where a launch takes some millionths of a second.)
#
# Is there any danger that you see y before it is ready? Predict what the cell prints:

# %% facts=["Y1"]
y = work()
print("a number of y:", y[0, 0].item() == side)

# %% [markdown]
# `item()` needs the number, so it waits: for everything in the queue, up to this product. Within one queue nothing is
# read before it is ready, so results are what they would be without asynchrony; what changes is **when you pay**. A
# line that only starts work is cheap, and the first line that needs a value pays for all of them. That is why people
# blame the wrong line for being slow.
#
# There are two ways around the queue, and on both you can read too early: the *host* that looks into memory to which a
# non-blocking copy is still on its way (lesson 04), and a *second queue* that does not wait for the first. You meet
# both again below.
#
# Here is a training loop's habit, twice. Each version adds up ten losses. Which one keeps the host waiting, and
# how often?

# %% facts=["Y1", "Y2"]
losses = [torch.tensor(0.5 * step, device=device) for step in range(10)]

with devlab.watch() as log:
    total = 0.0
    for loss in losses:
        total += loss.item()
print("item in the loop:  waits", log.synchronizations, " total", total)

with devlab.watch() as log:
    total = torch.zeros((), device=device)
    for loss in losses:
        total += loss
print("sum on the device: waits", log.synchronizations, " total", total.item())

# %% [markdown]
# Ten waits against none. (The `item` in the last `print` is outside the watch, and is needed once.) Between two
# waits nobody writes orders, so the queue runs empty and the device idles. **Let the host run ahead**, and ask for
# numbers when you need them.
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_running_total):** `running_total`.

# %% [markdown] facts=["Y1", "Y2"]
# ### Look and touch
#
# Short programs, and below them what host and device do, from left to right in time. Read a program, guess, and press
# *Play*. The bar that grows below a line says how long the line keeps the host. A click on a line plays the program up
# to there. Synchronize nowhere, at the end, or after every statement: the run before stays as an outline. **Find out:**
# with *nowhere*, which programs keep the host waiting all the same? And which one prints a number that is not there yet?

# %% facts=["Y1", "Y2"]
devlab.explore.timeline()

# %% [markdown] facts=["Y1", "Y2"]
# Those that ask for a value wait: `item`, `tolist`, a blocking `cpu()`. So does a blocking copy to the device, which waits
# for its stream; a non-blocking one from ordinary memory keeps the host for the staging alone. The loop that prints
# waits three times, and the device idles after each. *Bring it home, read it early* waits for nothing, and prints
# what happened to be in the memory before: lesson 04's trap, now with its picture.

# %% [markdown] facts=["Y3"]
# ## A clock that can be trusted
#
# You have seen what a naive clock measures: with a look before and a look after, it measures **the launch**. So one
# wait is missing. Is one enough? Below something is still running when the clock starts. What will be wrong
# with this measurement of one product?


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


careless = min(seconds_of_one(wait_first=False) for _ in range(3))
careful = min(seconds_of_one(wait_first=True) for _ in range(3))
print(f"measured without the first wait: one product in {1000 * careless:5.1f} ms")
print(f"measured with the first wait:    one product in {1000 * careful:5.1f} ms")

# %% [markdown] facts=["Y4", "Y5"]
# The queue works in order. Without the first wait, the clock also counts what was queued before. So there are **two
# waits: one before the clock starts, one before it stops**. And three more habits make a figure that you can
# repeat:
#
# - **Warm up.** The first call is special: a library is loaded, memory is taken from the driver, a kernel is
#   chosen. Call once or more before you measure.
# - **Repeat.** One measurement is an anecdote.
# - **Take the median.** Now and then something else needs the machine. A mean is dragged along by one such call;
#   the median does not notice it.
#
# Ten made-up times, one of them disturbed. Which summary would you report?

# %% facts=["Y5"]
times = [2.1, 2.0, 2.1, 2.2, 40.0, 2.0, 2.1, 2.1, 2.0, 2.2]
print("mean  ", statistics.mean(times))
print("median", statistics.median(times))

# %% [markdown]
# Mind the device, too. `torch.accelerator.synchronize()` waits for the **current** device. If the work is on another
# one, say so: `torch.accelerator.synchronize(device)`.
#
# All of that in one function is the exercise `time_op`. The course has it ready as well, and says how sure it is.
# On the simulated device it shows the model's time:

# %% tags=["nbval-ignore-output"] facts=["Y5"]
timing = devlab.time_op(lambda: x @ x, device)

# %% [markdown]
# **[Exercise](../exercises/07_asynchrony.ipynb#task_time_op):** `time_op`.

# %% [markdown] facts=["Y6"]
# ## Marks in the queue
#
# The host's clock has to stop the whole parade to take one figure. There is another way: let the *device* look at
# its own clock. An **event** is a mark that you put into the queue. When the device comes to it, it notes the
# time. Before you run the cell: which of its lines waits?

# %% facts=["Y6"]
start = torch.Event(device=device, enable_timing=True)
end = torch.Event(device=device, enable_timing=True)

start.record()
work()
end.record()
print("is the second mark reached?", end.query())

end.synchronize()
print("and now?                   ", end.query())
print("some milliseconds between: ", start.elapsed_time(end) > 0)

# %% [markdown] facts=["Y6"]
# Only `end.synchronize()` waits. `record` does not: marks are orders like others. When you want the figure the last
# mark has to be reached; ask earlier, and `elapsed_time` raises an error. It counts in **milliseconds**.
#
# Events see the device alone. What Python did meanwhile, and the launch, are not in the figure, unless the queue
# ran empty between the marks. With `torch.cuda.Event` older code says the same for CUDA alone.
#
# One trap waits for machines with two GPUs: `record()` marks the queue of the **current** device, whatever device
# the event was made for. `start.record(torch.accelerator.current_stream(device))` says which queue you mean.
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_event_time):** `event_time`.

# %% [markdown] facts=["Y1"]
# ## Two queues
#
# A queue works in order, and a copy to the device stands in it like any other order. In lesson 04 you saw what that
# means: copy, compute, copy, compute. Here once more, in the simulator's model, four batches from pinned memory. How
# much of the time will the lane *computing* be idle?

# %% facts=["Y1"]
weight = torch.ones(1024, 1024, device=device)
batches = [torch.ones(256, 1024).pin_memory() for _ in range(4)]


def one_queue():
    """Copy and compute, in the order in which they are written."""
    for batch in batches:
        batch.to(device, non_blocking=True) @ weight


torch.accelerator.synchronize()
with devlab.watch() as log:
    one_queue()
in_turn = log.timeline()

# %% [markdown]
# Copies and products take turns, though the device has an engine for each. A **stream** is such a queue, and
# there may be several. What is in one stream runs in order; two streams know nothing of each other. So give the
# copies a stream of their own, and let each batch be copied while the one before it is worked on.
#
# Two things must not be lost. A product may not begin before *its* batch has arrived: in one stream the order took
# care of that, and between two you have to say it, with an event. And a batch's memory may not be used again before its
# product is done. The allocator hands memory out in the order of the stream in which it was made, here the side
# stream; it has to be told that the main stream uses it as well, by `record_stream`. Before you run the cell: how long
# will it take, compared with the picture above?

# %% facts=["Y1"]
copies = torch.Stream(device)


def start_copy(batch):
    """Start a copy in the side stream; return what will be there, and a mark of its arrival."""
    with copies:
        there = batch.to(device, non_blocking=True)
    return there, copies.record_event()


def two_queues():
    """Copy the next batch while this one is worked on."""
    main = torch.accelerator.current_stream(device)
    waiting = None
    for batch in [*batches, None]:
        started = start_copy(batch) if batch is not None else None
        if waiting is not None:
            there, arrived = waiting
            main.wait_event(arrived)  # the stream waits; the host does not
            there.record_stream(main)  # the memory is not handed out again before main is done with it
            there @ weight
        waiting = started


torch.accelerator.synchronize()
with devlab.watch() as log:
    two_queues()
overlapped = log.timeline(beside=in_turn)

print(f"it takes {overlapped.total / in_turn.total:.0%} of the time (modelled)")

# %% [markdown]
# The copies now follow each other without a gap, and every product but the last runs beside one. (A copy takes longer
# than a product here. Were it the other way round, the copies would hide behind the work.) Look at the host's lane as
# well: it has written all its orders at the very beginning. `main.wait_event(arrived)` does not wait. It is an order, too: *let this stream
# wait there*.
#
# If you leave that line out, nothing fails and the picture gets even better. But a product may then read memory into
# which nothing has been copied yet: no error, only wrong numbers. Such a mistake is called a **race**. The simulated
# device computes at once and hides races, unless it is asked to show them: in a block `with races():`, work that does
# not wait finds what was in the memory before. The cell below adds up a batch of 262,144 ones, while its copy is on
# its way in the side stream. Before you run it: what will the first line say?

# %% facts=["Y1"]
from devlab.sim import races


def sum_of_a_batch(waits):
    """Copy a batch of ones in the side stream, and add it up in the main stream."""
    main = torch.accelerator.current_stream(device)
    there, arrived = start_copy(batches[0])
    if waits:
        main.wait_event(arrived)
    return there.sum().item()


torch.accelerator.synchronize()
with races():
    print("without the wait:", sum_of_a_batch(waits=False))
    print("with the wait:   ", sum_of_a_batch(waits=True))

# %% [markdown] facts=["Y1"]
# The first sum is that of the memory before the copy. The simulated device keeps zeros there, so the first line is
# wrong every time. A real GPU races without being asked. Which of the two comes first may change from run to run, and
# the memory holds whatever was there, an earlier batch for example, so that the wrong numbers look right.
#
# Without `record_stream` there is another race: Python drops `there` while its product is still queued, and the next
# copy may get the same memory and overwrite the batch. The simulated device cannot show that kind. The check of the
# exercise finds a missing wait by the clock, without any wrong number.
#
# **[Exercise](../exercises/07_asynchrony.ipynb#task_Prefetcher):** `Prefetcher`.

# %% [markdown] facts=["Y1"]
# ### Look and touch
#
# Loading, copying and computing, batch by batch; a line leads each batch from lane to lane. The percentages say how
# busy each lane is, and the longest of the three steps decides how long the epoch takes. Whenever you turn a switch, the
# loop is played again, and the loop before stays as an outline. **Find out:** press *Play* with everything off. Which two
# switches change nothing on their own, and what do they need? How short can you make the epoch?

# %% facts=["Y1"]
devlab.explore.pipeline()

# %% [markdown] facts=["Y1"]
# Pinned memory alone changes nothing, because without workers the host pins each batch itself, which takes as long as the
# copy gains. A stream for copies changes nothing either, because the host waits for each copy before it goes on to
# the next batch. `non_blocking=True` alone helps a little: the host is kept only while the bytes are staged. All three
# together, with two workers, bring the model to about half of the plainest loop's time. After that the device itself
# is the longest of the three, and nothing on the host makes it shorter. That is the goal.

# %% [markdown] facts=["Y7"]
# ## Errors that come late
#
# If the work is done later, so are its mistakes. PyTorch checks what the *host* can see when it writes the order:
# shapes, dtypes, devices. So these errors come at once, at their own line:

# %% facts=["Y7"]
try:
    x @ torch.ones(3, 3, device=device)
except RuntimeError as error:
    print("at once:", error)

# %% [markdown] facts=["Y7"]
# What depends on *values* only the device can see. An index that is out of range, in an `Embedding` or as a label, is
# such a thing. Below, a table has ten rows, and row 12 is asked for. Which line will fail, the one that looks up or
# the one that prints? (The cells run on the simulated device or on the CPU. A real GPU would be lost by them for the
# rest of this notebook.)

# %% facts=["Y7"]
here = device if device.type == "sim" else torch.device("cpu")
table = torch.ones(10, 4, device=here)
rows = torch.tensor([3, 12], device=here)


def look_up():
    """Ask for rows, and wait for what they hold."""
    found = torch.nn.functional.embedding(rows, table)
    print("looked up: a tensor of shape", list(found.shape))
    print("the first number is", found[0, 0].item())


try:
    look_up()
except (IndexError, torch.AcceleratorError) as error:  # as the CPU raises it, and as an accelerator does
    print(f"{type(error).__name__}: {error}")

# %% [markdown] facts=["Y7"]
# On an accelerator the line with the bad index passes: it wrote an order, and a result of the right shape was promised. The
# error comes where the host next waits, at an innocent `.item()` or `print`, or at a launch after the device got
# there. On an NVIDIA GPU the message says `CUDA` where it says `sim` here. (On the CPU there is no queue, and the
# line itself fails.)
#
# The message tells you about itself: the traceback points to the wrong line. And it is not the end. On CUDA the
# device is lost to this process, whatever you ask of it:

# %% facts=["Y7"]
try:
    print(torch.zeros(2, device=here) + 1)
except torch.AcceleratorError as error:
    print("still:", str(error).splitlines()[0])

# %% [markdown] facts=["Y7"]
# On a real GPU you would restart the kernel now. The simulated device can be given back: `devlab.sim.reset()`. Its tensors are
# still there; on a GPU they would be gone.
#
# To find the line that is to blame, let each launch wait for its kernel: `CUDA_LAUNCH_BLOCKING=1` in the environment,
# set before the program starts, because PyTorch reads it once. (The simulated device reads it each time, so it can be
# shown here.) Everything is slow then, so take it out again. Now the same call does not get past its first line:

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
# Or run the same step on the CPU. There the line is right, and most messages say which value it was:

# %% facts=["Y7"]
try:
    table.cpu()[rows.cpu()]
except IndexError as error:
    print("on the CPU:", error)

# %% [markdown] facts=["V1", "V4"]
# ## Which is faster
#
# An accelerator is not a fast computer. It is a slow one with thousands of hands, a long way off. Each launch costs a
# few microseconds whatever it starts (5 µs on the reference machine), and each transfer costs its bytes besides. Here is
# what the model says of adding 1 to tensors of different sizes. Before you run it: from which size on does the time
# begin to grow?

# %% facts=["V4"]
for count in (10, 1000, 100_000, 10_000_000):
    values = torch.zeros(count, device=device)
    torch.accelerator.synchronize()
    with devlab.watch() as log:
        values + 1
        torch.accelerator.synchronize()
    print(f"{count:>10} numbers: {1e6 * log.timeline(show=False).total:7.1f} µs (modelled)")

# %% [markdown] facts=["V4"]
# Ten numbers take as long as a thousand, and a hundred thousand take little longer. Up to there you pay for the launch,
# and most hands are idle. **Small work loses.** A loop of small steps loses at every turn. The two lines below compute the
# same. How many launches does each make?

# %% facts=["V3", "V4"]
matrices = torch.ones(200, 8, 8, device=device)
square = torch.ones(8, 8, device=device)

for words, compute in (
    ("a loop:    ", lambda: torch.stack([matrix @ square for matrix in matrices])),
    ("one launch:", lambda: matrices @ square),
):
    with devlab.watch() as log:
        compute()
        torch.accelerator.synchronize()
    print(words, f"{log.launches:>4} launches, {1e6 * log.timeline(show=False).total:6.0f} µs (modelled)")

# %% [markdown] facts=["V1", "V3"]
# The same numbers, in about a hundredth of the time. So the accelerator wins where there is much to do at once:
#
# 1. **Big batches**, so that all hands have work.
# 2. **Data that stays there**, so that the way is paid once.
# 3. **Good kernels**: dense matrix products and convolutions, not branches and lookups.
# 4. **Few Python loops**, and no waits in them.
# 5. **Memory read in order**, neighbours together.
#
# Where most of these fail, **the CPU may win**, and there is no shame in using it: small models, text processing, trees,
# anything with an `if` for each element.
#
# And the transfer belongs to the bill. A product of two matrices, with the way of one of them. `cpu` is measured on
# this machine, the two others on the device, or by its model:

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
# Find the first row in which device plus transfer beats the CPU. That is the **crossover**. It moves with the shape, the
# dtype, the hardware and the operation: for an addition it may never come, for a product it comes early, and if the
# data is there already it comes earlier still. Nobody can tell you where it is for your program. **Measure it.**
#
# **Exercises:** [`batched`](../exercises/07_asynchrony.ipynb#task_batched) and
# [`crossover`](../exercises/07_asynchrony.ipynb#task_crossover).

# %% [markdown] facts=["V1", "V5"]
# ### Look and touch
#
# The race in one picture. On a GPU both sides are measured. On the simulated device both come from a model, of a CPU
# with four cores too; *Measure this CPU* puts yours in its place. Drag the handle under the curves to compare the two at
# one size. Measured times scatter: the shaded areas hold the middle half of the runs, and where two of them overlap, the
# picture names no single size. **Find out:** at which size does the accelerator win a matrix product, and how far does
# that move when x has to be brought, and the result taken back? Does it ever win `x + 1`?

# %% facts=["V1", "V5"]
devlab.explore.crossover()

# %% [markdown] facts=["V1", "V5"]
# In the model the product is won from n = 110 on, from 250 if x is brought, from 420 if the result goes back. An addition
# does one operation for each number and is won only where x is there already: to bring it costs more than to do it.

# %% [markdown]
# ## What to keep
#
# - A launch returns before the work is done. Within one stream results are right; the line that waits pays for all
#   before it.
# - Timing: warm up; wait, start the clock, run, wait, stop the clock; repeat; the median. Name the device you wait for.
# - Events are marks in the queue, in milliseconds, and need no stop.
# - One stream runs in order, copies included. A second one lets them overlap, if work waits for its copy by an event, and
#   `record_stream` keeps the memory until the work is done.
# - Errors about values come late on a GPU, at a line that waits, and the device is lost until a restart. To find
#   the line to blame: `CUDA_LAUNCH_BLOCKING=1`, or the CPU.
# - Big, dense, few launches, data that stays: the accelerator. Small or branching: perhaps the CPU. Measure.
#
# **Now do it:** [the exercises of this lesson](../exercises/07_asynchrony.ipynb), six tasks. **Then:**
# [08 Memory](08_memory.ipynb), which is counted by the host and so needs no waiting.
