# %% [markdown]
# # 04 Transfers
#
# Data begins on the CPU, and the work is done somewhere else. Between the two lies a cable. A copy across it is
# a *transfer*. This lesson is about transfers: when they happen, how often, in what form, and who has to wait.
#
# After it you can move any batch, choose what travels, load data so that the host hardly waits for copies, and
# see the lines of a program that make it slow although no line looks slow.
#
# **Takes** about 50 minutes. **Needs** [00 Start here](00_start_here.ipynb); a `DataLoader` is explained
# where it comes.

# %%
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import devlab

device = devlab.start()

# %% [markdown]
# **What is measured here, and what is modelled.** `devlab.watch()` counts transfers, bytes and waits. Those
# counts come from what PyTorch really does, and a real GPU gives the same. *Times* on the simulated device
# come from a model of a GPU behind a PCIe cable, the course's reference machine, and each place that shows one
# says so. A wait of the host for a result is counted as a *synchronization*. A copy to the device for which the
# host waits is not: it is listed as a *blocking* transfer.

# %% [markdown]
# ## Moving
#
# One method does it all. Before you run the cell: where is `x` afterwards, and where is `y`?

# %% facts=["M1"]
x = torch.tensor([1.0, 2.0, 3.0])
y = x.to(device)

print("x", x.device)
print("y", y.device)

# %% [markdown] facts=["M1", "M6"]
# `.to` did not move anything, in spite of its name. It made a **new tensor** on the device and left the
# original where it was. From now on the two lead separate lives: `y += 1` would not change `x`.
#
# The way back is the same method with another address. And there is a case in which `.to` makes nothing.
# Which of these four lines print `True`?

# %% facts=["M2", "M6"]
back = y.to("cpu")

print("back is x:                 ", back is x)
print("x.to('cpu') is x:          ", x.to("cpu") is x)
print("y.to(device) is y:         ", y.to(device) is y)
print("x.to(torch.float64) is x:  ", x.to(torch.float64) is x)

# %% [markdown] facts=["M6"]
# The values of `back` equal those of `x`, but it has been to the device and back: a copy of a copy. Lines
# two and three are `True`: **where nothing has to change, `.to` returns the tensor itself**, so calling it
# once too often costs nothing. A change of dtype is a change, so the last line is `False`.
#
# (This has a sharp edge. After `z = x.to(device)` you do not know whether `z` shares memory with `x`: on
# the CPU it is `x`. If you are going to write into `z`, say `x.to(device, copy=True)`.)
#
# You will meet two older spellings:

# %% facts=["M3"]
print("y.cpu()", y.cpu().device)

try:
    print("x.cuda()", x.cuda().device)
except (RuntimeError, AssertionError):
    print("x.cuda() fails: this machine has no CUDA device in use")

# %% [markdown] facts=["M3", "M4"]
# `.cpu()` is harmless, since every machine has one. `.cuda()` writes the machine into the program: it fails
# on a laptop, on a Mac, and here. Prefer `.to(device)`. The same line runs everywhere, and it can do more:

# %% facts=["M4", "M5"]
image = torch.randint(0, 256, (3, 4, 4), dtype=torch.uint8)
ready = image.to(device, torch.float32)

print(image.device, image.dtype)
print(ready.device, ready.dtype)

# %% [markdown] facts=["M5"]
# **Device and dtype in one call.** There is a third form, `a.to(b)`: as `b` is, in both respects.

# %% [markdown]
# ## Which dtype travels
#
# One call, two changes, and an order that you did not choose. The image above has 48 elements of one byte;
# as `float32` each takes four. How many bytes went through the cable?

# %% facts=["M5", "R1"]
with devlab.watch() as log:
    image.to(device, torch.float32)
print("cast on the way:", log.bytes_moved, "bytes")

with devlab.watch() as log:
    image.to(device).to(torch.float32)
print("cast on arrival:", log.bytes_moved, "bytes")

# %% [markdown] facts=["M5", "R1"]
# PyTorch cast first, on the CPU, and sent the larger form: four times as much as necessary. With `float64`
# to `float16` the same order would have been the right one. In two steps you decide:
# `x.to(dtype).to(device)` casts before the transfer, `x.to(device).to(dtype)` after it. **The smaller form
# should travel.**
#
# On the way back the one call casts on the CPU as well, so *after* the transfer. Below, 1,000 scores come home as
# `float16`, by one call and in two steps.

# %% facts=["M2", "M5"]
guess = devlab.predict("Which of the two sends fewer bytes?", "the one call", "the two steps", "neither")

# %% facts=["M2", "M5"]
scores = torch.ones(1000, device=device)

with devlab.watch() as log:
    scores.to("cpu", torch.float16)
at_once = log.bytes_moved
print("one call: ", at_once, "bytes")

with devlab.watch() as log:
    scores.to(torch.float16).to("cpu")
print("two steps:", log.bytes_moved, "bytes")

fewer = "the two steps" if log.bytes_moved < at_once else "the one call"
guess.was("neither" if log.bytes_moved == at_once else fewer)

# %% [markdown] facts=["M5"]
# The one call casts on the CPU because these are copies for which the host waits. A copy with `non_blocking=True`,
# which you meet [further down](#Without-waiting), casts on the accelerator instead. Two steps say what travels,
# whatever the kind of copy.

# %% [markdown]
# ## A batch is a tree
#
# So far one tensor. Here is what a real loader may hand you:

# %% facts=["P2"]
batch = {"tokens": torch.ones(2, 5, dtype=torch.long), "more": [torch.ones(2), "a name"]}

try:
    batch.to(device)
except AttributeError as error:
    print(error)

# %% [markdown] facts=["M1", "P2"]
# A dict has no `.to`. Somebody has to walk through it. This function does so for dicts; the line marked
# with an arrow holds the most frequent mistake in such code. What will the output say?


# %% facts=["M1", "M6"]
def move_tokens(batch, device):
    for value in batch.values():
        if isinstance(value, torch.Tensor):
            value.to(device)  # <-
    return batch


print(move_tokens(batch, device)["tokens"].device)

# %% [markdown] facts=["M1", "M6"]
# Still `cpu`: the new tensor was made and thrown away. `.to` on a *tensor* returns its result, so build a
# **new** container from the results. (A *module* moves in place. That is the subject of
# [05](05_buffers.ipynb).)


# %% facts=["M1", "P2"]
def move_tokens(batch, device):
    return {
        key: value.to(device) if isinstance(value, torch.Tensor) else value for key, value in batch.items()
    }


moved = move_tokens(batch, device)
print("tokens: ", moved["tokens"].device)
print("more[0]:", moved["more"][0].device)

# %% [markdown] facts=["P2"]
# One level down a tensor was missed: the list is no tensor, so it passed as it is. The exercise `move` asks
# for the whole tree. Containers have a class of their own that should survive the walk; one of them resists:

# %% facts=["P2"]
from collections import namedtuple

Pair = namedtuple("Pair", ["inputs", "labels"])
pair = Pair(torch.ones(2), torch.zeros(2))
parts = [part.to(device) for part in pair]

try:
    type(pair)(parts)
except TypeError as error:
    print(error)
print(type(pair)(*parts).labels.device)

# %% [markdown] facts=["P2"]
# A tuple is made from one iterable, a namedtuple from its values, one by one. Its `_fields` tell the two
# apart.

# %% [markdown]
# ## From the loader
#
# A `DataLoader` takes samples from a data set and stacks them into minibatches. Our program has a device.
# Before you run the cell: which device are the minibatches on?

# %% facts=["P1"]
features = torch.arange(10 * 3.0).reshape(10, 3)
labels = torch.arange(10)
dataset = TensorDataset(features, labels)

for x, y in DataLoader(dataset, batch_size=4):
    print(list(x.shape), x.device, list(y.shape), y.device)

# %% [markdown] facts=["P1", "P2"]
# **A loader yields CPU tensors.** It does not know your device, and it should not: its worker processes
# would have to share one GPU between them. So the training loop moves each minibatch **as it comes**, all
# parts of it, labels too:
#
# ```python
# for x, y in loader:
#     x, y = x.to(device), y.to(device)
# ```
#
# "Why not the whole data set, once?" If it fits, and nothing else needs the room, do it. Most do not fit.
# The device then holds one minibatch at a time, and the cable is used again and again. It pays to know how.

# %% [markdown]
# ## Pinned memory
#
# Your operating system may move the memory of a program around, or put it on the disk for a while. A GPU
# that copies on its own cannot cope with that. So the driver keeps a region that is *pinned*, locked in its place,
# and the CPU first copies the bytes into it, which is called *staging*. From there the GPU takes them: two copies.
#
# If the tensor is in pinned memory from the start, the first copy is not needed. That is what
# `pin_memory=True` asks of a loader:

# %% facts=["P3"]
plain = DataLoader(dataset, batch_size=4)
pinned = DataLoader(dataset, batch_size=4, pin_memory=True)

for name, loader in (("plain", plain), ("pinned", pinned)):
    x, y = next(iter(loader))
    print(f"{name:<7}", x.device, "pinned:", x.is_pinned())

# %% [markdown] facts=["P3"]
# Still on the CPU: pinned memory is ordinary memory with a promise. It **can speed up copies to CUDA**. By
# how much depends on the machine: on the bus, the size, and what else is going on. On the course's reference
# machine the GPU takes 12 GB/s from pinned memory. From ordinary memory the bytes are staged at 6 GB/s before that,
# so that the whole copy runs at 4 GB/s. On a Mac, `mps` shares its memory with the CPU, and a `DataLoader` does not
# pin for it. For the CPU itself there is nothing to copy, so pinning is time lost.
#
# Something has to bring the minibatch into pinned memory, of course. What does it, and when, decides whether anything
# is gained.

# %% [markdown]
# ## Worker processes
#
# Loading can take longer than training: files are read, images decoded. `num_workers=2` hands that to two
# more processes. These are real ones, on your machine, whatever your accelerator. A minibatch is made in
# another process then, and has to reach yours. Before you run the cell: in which kind of memory does it arrive?

# %% facts=["P1", "P3"]
for workers, pin in ((0, False), (2, False), (2, True)):
    loader = DataLoader(dataset, batch_size=4, num_workers=workers, pin_memory=pin)
    x, y = next(iter(loader))
    print(
        f"{workers} workers, pin_memory={pin!s:<5}",
        x.device,
        "shared:",
        x.is_shared(),
        "pinned:",
        x.is_pinned(),
    )

# %% [markdown] facts=["P1", "P3"]
# A worker puts its minibatch into **shared memory**, which both processes see, so that nothing is sent byte by
# byte. With `pin_memory=True` a thread of *your* process copies it on into pinned memory, while you work on the
# minibatch before. **Without workers there is no such thread**: the loader pins in your loop, between two
# minibatches, and the loop stands still meanwhile. The workers themselves stay on the CPU: leave the accelerator to
# the process that trains.

# %% [markdown]
# ## Without waiting
#
# Faster copies are the smaller half. The larger half is what the host can do meanwhile. `non_blocking=True` says:
# start the copy, and let me go on. Below, the device already has some work, a matrix product that takes longer than
# the copy queued behind it. There are four combinations. Before you run the cell: in which of them is the host kept
# until the product is done?

# %% facts=["P4"]
ordinary = torch.ones(100, 1000)
locked = ordinary.pin_memory()
square = torch.ones(1024, 1024, device=device)
how = "modelled" if device.type == "sim" else "measured"

for name, x in (("ordinary", ordinary), ("pinned", locked)):
    for non_blocking in (False, True):
        torch.accelerator.synchronize(device)
        with devlab.watch() as log:
            square @ square
            x.to(device, non_blocking=non_blocking)
        (copy,) = log.events.transfers
        kept = copy.when.ended - copy.when.began
        print(f"{name:<9}non_blocking={non_blocking!s:<6} keeps the host for {kept * 1e6:4.0f} µs ({how})")

# %% [markdown] facts=["P4"]
# The flag decides whether the host waits for the device, and the memory decides how soon the host is free:
#
# - **A blocking copy waits for its stream**: for all the work that was queued before, and then for the copy. The first
#   and the third line are about the product more than about the copy.
# - **From ordinary memory, `non_blocking=True` keeps the host while the bytes are staged**, and no longer. The copy
#   joins the queue, and the host waits neither for it nor for the product.
# - **From pinned memory, `non_blocking=True` does not keep the host at all**: what remains is the launch.
#
# So `x.to(device, non_blocking=True)` is worth writing whatever the memory. (This is how PyTorch's source and NVIDIA's
# CUDA documentation, under *API synchronization behavior*, describe it. The documentation allows the driver to wait for
# the stream before it stages, so a real GPU may keep the host longer in the second line. Pinned memory makes sure.)
#
# Is it safe to *use* the result? Yes. The device works through its queue in order, so an operation that
# you start after the copy runs after the copy. The host is early, the device is not.
#
# What you must not do is write into a *pinned* tensor while its copy may still be under way, because the GPU reads that
# very memory. Bytes that were staged are safe.

# %% [markdown]
# ### Where the dtype is changed
#
# The flag decides one more thing. The image from above goes to the device as `float32`, the scores come home as
# `float16`, each in one call. Each pair of dtypes has a smaller one. In which of the four calls does it travel?

# %% facts=["P8"]
for non_blocking in (False, True):
    with devlab.watch() as log:
        image.to(device, torch.float32, non_blocking=non_blocking)
        scores.to("cpu", torch.float16, non_blocking=non_blocking)
    there, home = log.events.transfers
    print(f"non_blocking={non_blocking!s:<6}there {there.bytes:>4} bytes   home {home.bytes:>4} bytes")

torch.accelerator.synchronize(device)  # the last copy home was not waited for

# %% [markdown] facts=["P8"]
# The image takes 48 bytes in `uint8`, and the scores take 2000 in `float16`: in the second line both smaller forms
# travel. **A blocking copy changes the dtype on the CPU, a non-blocking one on the accelerator**, in both directions.
# On the CPU the change takes none of the GPU's memory, which is why PyTorch prefers it; but a host that does not
# wait cannot do it. (This is so for CUDA and for `sim`. For `mps` the CPU changes what goes there, and the GPU
# what comes back.) With `float64` to `float16` the first line would have been the better one on the way there. You need
# not remember the table: in two steps the smaller form travels whatever the flag says.

# %% [markdown]
# ### A loop in time
#
# What is gained shows best in time. Here is a loop of four batches, in the simulator's model of time, first
# the plain way:

# %% facts=["P5"]
work = TensorDataset(torch.ones(64, 1024), torch.arange(64))
weight = torch.ones(1024, 2048, device=device)


def loop(loader, non_blocking):
    """Go through a loader, with one product for each batch, and return the log."""
    torch.accelerator.synchronize(device)  # so that nothing older is still running
    with devlab.watch() as log:
        for x, _ in loader:
            x.to(device, non_blocking=non_blocking) @ weight
    return log


plain = loop(DataLoader(work, batch_size=16), non_blocking=False)
waiting = plain.timeline()

# %% [markdown] facts=["P4", "P5"]
# Read the lanes from the top. The host waits (the low grey bars) for each copy. A copy joins the device's queue behind the
# product before it, so the host waits for that product as well, and all the while it cannot load the next
# batch. Now pinned and non-blocking. What will the host's lane look like?

# %% facts=["P5", "P7"]
alone = loop(DataLoader(work, batch_size=16, pin_memory=True), non_blocking=True)
alone.timeline(beside=waiting)

# %% [markdown] facts=["P5", "P7"]
# The host never waits. It has started everything early: **the host's work and the device's overlap.** But it was not
# free. *Staging* is the host's own copy into pinned memory: this loader has no workers, so it pins in the loop. From
# ordinary memory, with `non_blocking=True`, the driver would have staged the same bytes in the same time. (Try it: in
# the model both loops take equally long.)
#
# So let another thread pin. A loader with workers has one:

# %% facts=["P3", "P5", "P7"]
helped = loop(DataLoader(work, batch_size=16, pin_memory=True, num_workers=2), non_blocking=True)
helped.timeline(beside=waiting)

# %% [markdown] facts=["P5", "P7"]
# Now the host does nothing but start work, and all the rest of the time is its own. **Workers, pinned memory and
# `non_blocking=True` belong together.** (The model leaves out what it takes to stack a minibatch and to hand it over from
# a worker. Workers are worth their price where loading takes long.)
#
# Copying and computing still take turns, though, because work on one *stream* runs in order. A second
# stream lets them overlap, too; you build that in [07 Asynchrony](07_asynchrony.ipynb).
#
# One more temptation. If pinning is good, why not pin by hand, just before the copy? Here a larger tensor goes to the
# device in three ways. Which will be the fastest?

# %% facts=["P7"]
large = torch.ones(1000, 1000)

for name, send in (
    ("blocking", lambda: large.to(device)),
    ("not blocking", lambda: large.to(device, non_blocking=True)),
    ("pinned by hand", lambda: large.pin_memory().to(device, non_blocking=True)),
):
    torch.accelerator.synchronize(device)
    with devlab.watch() as log:
        send()
        torch.accelerator.synchronize(device)
    made = log.allocated.get("cpu", 0)
    print(f"{name:<16}{log.timeline(show=False).total * 1e6:5.0f} µs ({how}), new on the CPU: {made} bytes")

# %% [markdown] facts=["P7"]
# In the model nothing is gained. `pin_memory()` copies every byte, just as the driver does when it stages, and the host
# is busy for as long. On real machines something is lost, because memory that is pinned for the first time has to be
# locked, which is slow: PyTorch's own guide to `pin_memory` and `non_blocking` warns of up to twice the time of a plain
# `.to`. **Pinning by hand just before the copy usually costs more than it saves, and a loader without workers does
# just that.** Pin early, or let another thread pin.

# %% [markdown] facts=["P3", "P4"]
# ### Look and touch
#
# What a copy costs, over its size. The picture is made to be played with: run the cell, drag the ring along the sizes, and
# change what stands above the curves. The two lanes below them show what the host does while the bytes travel; *Play*
# lets you watch. (On a GPU the times are measured, on the simulated device they come from the model; the picture says
# which.) **Find out:** how much does pinned memory save for a single number, and how much for 32 images? And for which
# copies does the host go on before they have ended?

# %% facts=["P3", "P4"]
devlab.explore.transfers()

# %% [markdown] facts=["P3", "P4"]
# In the model: nothing for the number, and two thirds of the time for the images. A small copy costs what it takes to
# start one, from wherever it comes; only in large ones do the bytes count. That is one more reason to send a batch as
# one tensor and not as sixteen. With `non_blocking=True` the host goes on early: at once with pinned memory, and from
# ordinary memory after two thirds of the time, when the bytes are staged. Into ordinary memory it always waits.

# %% [markdown]
# ## The other direction
#
# Going to the device, early was safe. Coming back, there is a trap, and the course can show it to you every
# time, which real hardware does not. Before you run the cell: what do the two lines print?

# %% facts=["P6"]
x = torch.full((3,), 7.0, device=device)

y = x.to("cpu", non_blocking=True)
print("at once:", y)

torch.accelerator.synchronize(x.device)
print("later:  ", y)

# %% [markdown] facts=["P6"]
# No error, no warning, old contents. The copy was on its way, and Python looked before it had arrived.
# (`.to("cpu", non_blocking=True)` puts its result into pinned memory by itself, so that nothing keeps the host.) The
# *device* keeps its order; the *host* reads memory whenever it likes. On a real GPU a short copy often
# arrives in time (there, the first line above may well show sevens), so such code passes its tests and
# then, under load, returns a few old numbers.
#
# **A non-blocking copy to the CPU must be waited for before it is read.** Two details decide:
#
# - Wait *after* the copy was started. Before it, there is nothing to wait for.
# - Wait for the *right device*. `torch.accelerator.synchronize()` without an argument waits for the current
#   one.
#
# Plain `y = x.cpu()` waits by itself and is always right. The non-blocking form pays if you have something
# to do in between.

# %% [markdown]
# ## One number at a time
#
# How expensive is a small transfer? Here are ten numbers, fetched one by one and then together. Guess how
# many times the host waits in each block.

# %% facts=["R1", "R4"]
losses = [torch.tensor(float(step), device=device) for step in range(10)]

with devlab.watch() as log:
    values = [loss.item() for loss in losses]
print(log.transfers, "transfers", log.bytes_moved, "bytes", log.synchronizations, "waits")

with devlab.watch() as log:
    values = torch.stack(losses).tolist()
print(log.transfers, "transfer ", log.bytes_moved, "bytes", log.synchronizations, "wait")

# %% [markdown] facts=["R1", "R4"]
# The same forty bytes, and ten waits against one. **`.item()` transfers one scalar and synchronizes**: the
# host stops until the device has finished everything in its queue, and meanwhile queues nothing new. Once
# an epoch nobody notices. Once a step, in a loop of short steps, the device idles most of the time.
#
# So keep the numbers on the device, in a list, and fetch them together: stack, then one `.tolist()`. (Keep
# `loss.detach()`, not `loss`, or each number holds on to its whole graph.)
#
# `.item()` has relatives. Some do not look like transfers at all. Before you run the cell: which of these
# eight make the host wait?

# %% facts=["R5"]
x = torch.tensor([3.0, -1.0, 2.0], device=device)

suspects = {
    "x.cpu()": lambda: x.cpu(),
    "x.tolist()": lambda: x.tolist(),
    "if x.sum() > 0": lambda: 1 if x.sum() > 0 else 0,
    "print(x)": lambda: str(x),
    "x.nonzero()": lambda: x.nonzero(),
    "x[x > 0]": lambda: x[x > 0],
    "x.clamp(min=0)": lambda: x.clamp(min=0),
    "torch.where(x > 0, x, 0)": lambda: torch.where(x > 0, x, 0),
}
for words, suspect in suspects.items():
    with devlab.watch() as log:
        suspect()
    print(f"{words:<26}{'the host waits' if log.synchronizations else 'it does not'}")

# %% [markdown] facts=["R5"]
# Six of eight. Whatever brings a value to Python waits: `.cpu()`, `.tolist()`, `bool()` and so every `if`,
# and `print`. `nonzero` and the boolean mask wait for a subtler reason: the *shape* of the result depends on
# the data, and Python has to know it. The last two compute something of a known shape, so they only join
# the queue. `torch.where` is the usual way out of a mask in a loop.
#
# Here is an evaluation loop as people write it, with a guard and two statistics. Before you run it, count:
# four batches; how many transfers, how many waits?

# %% facts=["R4", "R5"]
model = nn.Linear(1024, 1).to(device)
total, worst = 0.0, 0.0

with devlab.watch() as log, torch.no_grad():
    for x, _ in DataLoader(work, batch_size=16):
        loss = model(x.to(device)).square().mean()
        if loss.isnan():
            break
        total += loss.item()
        worst = max(worst, float(loss))

print(log.transfers, "transfers,", log.synchronizations, "waits")
print("made to wait by", sorted({wait.cause for wait in log.events.synchronizations}))

# %% [markdown] facts=["R4", "R5"]
# Four transfers that were needed, and twelve that were not. `print(log)` shows each line of code with its
# counts. Use it on your own loops: it is the quickest way to find the line that costs. Change the cell above
# now, so that it says 5 transfers and 1 wait, and still knows the total and the worst.

# %% [markdown]
# ## There and back again
#
# The last habit is the most expensive one, and it often hides between two functions that are fine by
# themselves. Each of these takes a tensor, works on the device, and politely returns a CPU tensor. How many
# transfers will three steps make?


# %% facts=["R2"]
def double(x):
    return (x.to(device) * 2).cpu()


x = torch.ones(4, 3)
with devlab.watch() as log:
    for _ in range(3):
        x = double(x)
print(log.transfers, "transfers,", log.synchronizations, "waits")

# %% [markdown] facts=["R2"]
# Six, for a multiplication that takes less time than one of them. This is **ping-pong**. The cure: a
# function works where its input is and leaves its result there. Only the program's edges move things.


# %% facts=["R1", "R2"]
def double(x):
    return x * 2


with devlab.watch() as log:
    x = torch.ones(4, 3).to(device)
    for _ in range(3):
        x = double(x)
    result = x.cpu()
print(log.transfers, "transfers,", log.synchronizations, "wait")

# %% [markdown] facts=["R1", "R3"]
# One in, one out, however many steps lie between. How far does it matter? Here is a square matrix in three sizes: the
# time of its transfer from ordinary and from pinned memory, and the time of two operations on it. Which of the four
# columns grows fastest?

# %% facts=["R1"]
print(f"   n   ordinary   pinned   adding 1   product   µs ({how})")
for n in (512, 1024, 2048):
    here, there = torch.ones(n, n), torch.ones(n, n, device=device)
    locked = here.pin_memory()
    times = []
    for action in (
        lambda x=here: x.to(device),
        lambda x=locked: x.to(device),
        lambda x=there: x + 1,
        lambda x=there: x @ x,
    ):
        torch.accelerator.synchronize(device)
        with devlab.watch() as log:
            action()
            torch.accelerator.synchronize(device)
        times.append(log.timeline(show=False).total * 1e6)
    print("{:>4}{:>11.0f}{:>9.0f}{:>11.0f}{:>10.0f}".format(n, *times))

# %% [markdown] facts=["R1"]
# The addition does one operation for each number, and either transfer takes many times as long, whatever the size. Most
# operations are of this kind: activations, normalisation, dropout. The product does about 2n operations for each number,
# so its time grows faster than the bytes do: at n = 512 either transfer takes longer, at n = 2048 the product takes
# longer than the pinned one. Where the two meet depends on the machine. The rule holds on all of them: **transfers are
# expensive next to most operations, so keep them out of inner loops.**
#
# When is it right to go to the CPU? There are four good reasons, and they lie at the edge of a program:

# %% [markdown] facts=["R3"]
# | reason | how often |
# |---|---|
# | **logging**: a loss, a metric | once an epoch, or every hundred steps |
# | **NumPy** and plotting | when the results are complete |
# | **serialization**: a file to be read elsewhere | at a checkpoint |
# | a **library that only knows the CPU** | as rarely as you can arrange |
#
# "My GPU is nearly full" and "I want to look at it" are reasons, too, for a while. "It was there before" is
# none.

# %% [markdown]
# ## What to keep
#
# - `x.to(device)` returns a new tensor and leaves x; where nothing has to change it returns x. Keep the
#   result. With a dtype, one call makes both changes; in two steps you choose which form travels.
# - A loader yields CPU tensors. Move every tensor of each minibatch as it comes.
# - A blocking copy waits for its stream. With `non_blocking=True` the host goes on: at once from pinned memory, from
#   ordinary memory when the bytes are staged.
# - A blocking copy changes the dtype on the CPU, a non-blocking one on the accelerator.
# - `num_workers`, `pin_memory=True` and `non_blocking=True` belong together. Without workers the loader pins in your
#   loop, as you would by hand just before the copy, and nothing is gained.
# - A non-blocking copy *to* the CPU: synchronize its device before you read it.
# - `.item()`, `.cpu()`, `.tolist()`, `if`, `print`, `nonzero` and boolean masks wait. Collect on the device,
#   fetch once.
# - One transfer in, one out. What lies between stays on the device.
#
# **Now do it:** [the exercises of this lesson](../exercises/04_transfers.ipynb), eight short functions for
# the edges of a training script. **Then:** [05 Models and buffers](05_buffers.ipynb).
