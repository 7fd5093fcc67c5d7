# %% [markdown]
# # 04 Transfers
#
# Data arrives on the CPU, and the work is done on another device. A copy from the memory of one device into
# the memory of another is a **transfer**. This lesson is about transfers: when they happen, how often, in
# which dtype, and who has to wait for them.
#
# After it you can move any batch, choose which dtype is sent, load data so that the program hardly waits for
# its transfers, and find the lines that make a program slow although none of them looks slow.
#
# **Takes** about 50 minutes. **Needs** [00 Start here](00_start_here.ipynb); a `DataLoader` is explained
# where it comes.

# %%
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import devlab

device = devlab.start()
how = "modelled" if device.type == "sim" else "measured"

# %% [markdown]
# **What is counted here, and what is modelled.** `devlab.watch()` counts transfers, bytes and waits. The
# counts come from what PyTorch really does, and an H200 gave the same ones. (A *wait*, or synchronization, is
# a place where the host waits for a result from the device. A blocking transfer *to* the device holds up the
# host, too, but the log lists it as a blocking transfer and not as a wait.) *Times* on the simulated device
# come from a model of the course's reference machine, a GPU like NVIDIA's T4 on PCIe 3.0, and each output
# says which kind of time it shows.

# %% [markdown]
# ## Moving
#
# One method is enough for transfers in both directions:

# %% facts=["M1"]
x = torch.tensor([1.0, 2.0, 3.0])
y = x.to(device)

print("x", x.device)
print("y", y.device)

# %% [markdown] facts=["M1", "M6"]
# In spite of its name, `.to` did not move anything. It made a **new tensor** on the device and left the
# original where it was. From now on the two lead separate lives, so `y += 1` would not change `x`.
#
# To bring it back, name the CPU. And sometimes `.to` makes nothing at all. Decide for each of these four
# lines whether it makes a tensor, and then run the cell.

# %% facts=["M2", "M6"]
back = y.to("cpu")

for code, result, given in (
    ("y.to('cpu')", back, x),
    ("x.to('cpu')", x.to("cpu"), x),
    ("y.to(device)", y.to(device), y),
    ("x.to(torch.float64)", x.to(torch.float64), x),
):
    print(f"{code:<21}{'the tensor itself' if result is given else 'a new tensor'}")

# %% [markdown] facts=["M6"]
# `back` has the values of `x`, but it is a copy of a copy. The second and the third line show the rule:
# **where nothing has to change, `.to` returns the tensor itself**, so an extra call costs nothing. A new
# dtype is a change, too, as the last line shows.
#
# The rule has a sharp edge. After `z = x.to(device)` you cannot tell from the code whether `z` shares its
# memory with `x`: if the device is the CPU, `z` *is* `x`. If you are going to write into `z`, say
# `x.to(device, copy=True)`.
#
# You will meet two older spellings:

# %% facts=["M3"]
print("y.cpu()", y.cpu().device)

try:
    print("x.cuda()", x.cuda().device)
except (RuntimeError, AssertionError):
    print("x.cuda() fails: this machine has no CUDA device in use")

# %% [markdown] facts=["M3", "M4"]
# `.cpu()` is harmless, since every machine has a CPU. `.cuda()` writes one kind of machine into the program:
# it fails on a Mac and on every machine without an NVIDIA or AMD GPU. Prefer `.to(device)`. The same
# line runs everywhere, and it can do more:

# %% facts=["M4", "M5"]
image = torch.randint(0, 256, (3, 4, 4), dtype=torch.uint8)
ready = image.to(device, torch.float32)

print(image.device, image.dtype)
print(ready.device, ready.dtype)

# %% [markdown] facts=["M5"]
# **Device and dtype in one call.** A third form, `a.to(b)`, gives `a` the device and the dtype of `b`.
#
# **[Exercise](../exercises/04_transfers.ipynb#task_returns_itself):** `returns_itself` predicts what `.to`
# will do, without calling it.

# %% [markdown]
# ## Which dtype travels
#
# One call makes two changes, and you did not choose their order. The image above has 48 elements of one byte
# each, and as `float32` each of them takes four. It goes to the device by one call, and then in two steps.

# %% facts=["M5"]
guess = devlab.predict("How many bytes does the one call transfer?", 48, 192)

# %% facts=["M5", "R1"]
with devlab.watch() as log:
    image.to(device, torch.float32)
print("in one call: ", log.bytes_moved, "bytes")
guess.was(log.bytes_moved)

with devlab.watch() as log:
    image.to(device).to(torch.float32)
print("in two steps:", log.bytes_moved, "bytes")

# %% [markdown] facts=["M2", "M5", "R1"]
# In the one call PyTorch changed the dtype first, on the CPU, and transferred the larger form: four times
# as much as necessary. In the other direction the bytes travel first, and the CPU changes the dtype
# afterwards. So make it two steps, in the order that you want: `x.to(dtype).to(device)` changes the dtype
# before the transfer, `x.to(device).to(dtype)` after it. **The smaller form should travel.**
#
# **[Exercise](../exercises/04_transfers.ipynb#task_cast_and_move):** `cast_and_move` lets the smaller dtype
# travel, for any two dtypes and between any two devices. (How a call with `non_blocking=True` orders the two
# changes is explained [further down](#Where-the-dtype-is-changed).)

# %% [markdown]
# ## A batch is a tree
#
# So far you have moved single tensors. A real loader may hand you this:

# %% facts=["P2"]
batch = {"tokens": torch.ones(2, 5, dtype=torch.long), "more": [torch.ones(2), "a name"]}

try:
    batch.to(device)
except AttributeError as error:
    print(error)

# %% [markdown] facts=["M1", "P2"]
# Containers have no `.to`, so your program has to go through them. This function does it for a list of
# tensors, and the marked line holds the most frequent mistake in such code. Say what is wrong with it before
# you run the cell.


# %% facts=["M1", "M6"]
def send(parts):
    for part in parts:
        part.to(device)  # <-
    return parts


inputs, labels = send([torch.ones(2, 5), torch.zeros(2)])
print("inputs", inputs.device, " labels", labels.device)

# %% [markdown] facts=["M1", "M6", "P2"]
# Both tensors are still on the CPU. `.to` made a new one of each, and the loop dropped them. On a *tensor*,
# `.to` returns its result and changes nothing, so build a **new** container from the results. (A *module* is
# moved in place. That is the subject of [05](05_buffers.ipynb).)
#
# A function for every batch has three more things to get right. It has to look inside each container,
# because in the dict above one tensor is inside a list. It has to leave alone what is no tensor, such as
# the name. And each container should come back as the same kind of container, which takes care with one
# kind, the namedtuple:

# %% facts=["P2"]
from collections import namedtuple

Pair = namedtuple("Pair", ["inputs", "labels"])
values = [torch.ones(2), torch.zeros(2)]

print("a tuple of", len(tuple(values)))
try:
    print("a Pair of", len(Pair(values)))
except TypeError as error:
    print(error)
print("a Pair has the fields", Pair._fields)

# %% [markdown] facts=["P2"]
# A tuple is made from one iterable that holds its values. A namedtuple takes its values one by one, as a
# function takes its arguments. It is a tuple, too; what tells it apart is that it has `_fields`.
#
# **[Exercise](../exercises/04_transfers.ipynb#task_move):** `move` brings a whole tree to a device.

# %% [markdown]
# ## From the loader
#
# A `DataLoader` takes samples from a data set and stacks them into minibatches. Here is one, in a program
# that has a device.

# %% facts=["P1"]
guess = devlab.predict("Where will the loader's minibatches be?", "on the CPU", "on the device")

# %% facts=["P1"]
features = torch.arange(10 * 3.0).reshape(10, 3)
labels = torch.arange(10)
dataset = TensorDataset(features, labels)

for x, y in DataLoader(dataset, batch_size=4):
    print(list(x.shape), x.device, list(y.shape), y.device)

guess.was("on the CPU" if x.is_cpu else "on the device")

# %% [markdown] facts=["P1", "P2"]
# **A loader yields CPU tensors**, since its data set gives it CPU tensors. It does not know your device, and
# need not: to read files and stack samples is work for the CPU. So the training loop moves each minibatch
# **as it comes**, and every part of it, labels too:
#
# ```python
# for x, y in loader:
#     x, y = x.to(device), y.to(device)
# ```
#
# "Why not move the whole data set once?" If it fits, and nothing else needs the room, do it. A large data set
# does not fit. The device then holds one minibatch at a time, and there is a transfer in every step.

# %% [markdown]
# ## Pinned memory
#
# Ordinary memory is **pageable**: your operating system may move its pages, or put them on the disk for a
# while. The GPU reads the host's memory without asking the operating system, so a page must not move
# meanwhile. That is why the driver keeps a buffer that is **pinned**, which means locked in its place. The
# host first copies the bytes into this buffer (this step is called *staging*), and the GPU takes them from
# there. A tensor that is in pinned memory from the start needs no staging.
#
# ![Above, a pageable tensor in host memory is copied by the host into the staging buffer, and by the GPU from there to the device; with non_blocking=True the host waits for the staging alone if the tensor is small, and to the end if it is large. Below, a pinned tensor is copied by the GPU directly; with non_blocking=True the host does not wait at all. A blocking transfer holds the host until it has ended in both cases](drawing:staged_or_pinned)
#
# A loader puts its minibatches into pinned memory if you ask it to:

# %% facts=["P3"]
plain = DataLoader(dataset, batch_size=4)
pinned = DataLoader(dataset, batch_size=4, pin_memory=True)

for name, loader in (("plain", plain), ("pinned", pinned)):
    x, y = next(iter(loader))
    print(f"{name:<7}on {x.device}, in {'pinned' if x.is_pinned() else 'pageable'} memory")

# %% [markdown] facts=["P3"]
# Pinned memory is still the CPU's memory, with a promise. (While it is pinned the system can put nothing else
# there, so pin minibatches and not a large data set.) It makes transfers faster; how much faster depends on
# the machine. On the course's reference machine the GPU takes 12 GB/s from pinned memory. From pageable
# memory the bytes are staged at 6 GB/s before that, so that the whole transfer runs at 4 GB/s. (H200,
# measured: {measured:bandwidth:pinned to the device, 268435456 bytes:bytes/s} and
# {measured:bandwidth:pageable to the device, 268435456 bytes:bytes/s}.) Here the model is simpler than a real
# driver, which stages a large transfer in chunks: while one chunk travels, the next is staged, and the two
# times overlap.
#
# Either way a transfer takes about **a start, plus its bytes divided by the rate**. On the reference machine
# the start takes 7 µs. A single number costs nothing else, from either memory, while 4 MB take 333 µs more
# from pinned and 1000 µs more from pageable memory. (H200, measured, 4 MiB: {measured:bandwidth:pinned to the
# device, 4194304 bytes:seconds} and {measured:bandwidth:pageable to the device, 4194304 bytes:seconds}, start
# included.)
#
# That stays somewhat below the peak of the slot, which is 16 GB/s for PCIe 3.0 as NVIDIA's data sheet of the
# T4 documents it ([lesson 00](00_start_here.ipynb#Real-hardware) has newer ones). If you have a GPU, measure
# yours with the picture [below](#Look-and-touch).
#
# On a Mac the GPU shares its memory with the CPU, and a `DataLoader` does not pin for `mps`. For a model on
# the CPU there is no transfer, so the time for pinning is lost.

# %% [markdown]
# ### Worker processes
#
# Loading can take longer than training, because files have to be read and images decoded. `num_workers=2`
# hands this work to two more processes. They are real ones, on your machine, whatever your accelerator is. A
# minibatch is then made in another process and has to reach yours:

# %% facts=["P1", "P3"]
for workers, pin in ((0, False), (0, True), (2, False), (2, True)):
    loader = DataLoader(dataset, batch_size=4, num_workers=workers, pin_memory=pin)
    x, y = next(iter(loader))
    kind = "pinned" if x.is_pinned() else "shared" if x.is_shared() else "its own"
    print(f"{workers} workers, pin_memory={pin!s:<6}on {x.device}, memory: {kind}")

# %% [markdown] facts=["P1", "P3"]
# A worker puts its minibatch into **shared memory**, which both processes see, so that the bytes need not be
# sent. With `pin_memory=True` a thread of *your* process copies it on into pinned memory while you work on
# the minibatch before. **Without workers there is no such thread**: the loader pins in your loop, between two
# minibatches, and the loop stands still meanwhile.
#
# **How many workers?** Start with 2, time an epoch, and take more only as long as the time falls.
# [13](13_bigger_than_one_device.ipynb#Workers-and-CUDA) explains why workers should leave the accelerator
# alone. With `persistent_workers=True` the same workers serve every epoch. Where Python starts each worker
# afresh, as on Windows, on macOS and, since Python 3.14, on Linux, a script has to keep its main part under
# `if __name__ == "__main__":`.
#
# **[Exercise](../exercises/04_transfers.ipynb#task_make_loader):** `make_loader` pins where it helps, and
# only there.

# %% [markdown]
# ## Without waiting
#
# Faster transfers are the smaller half of what pinned memory is good for. The larger half is what the host
# can do meanwhile. Work for a device waits in a **stream**, which is a queue: the host *launches* an
# operation, which puts it at the queue's end, and goes on, while the device takes up one operation after the
# other. `non_blocking=True` asks that a transfer be launched like any other operation.
#
# Below, the device has some work already, a matrix product, and a transfer is queued behind it: of a small
# tensor and of a large one, from pageable and from pinned memory, blocking and not.

# %% facts=["P4"]
guess = devlab.predict("In how many of the eight cases must the host wait for the product?", *range(9))

# %% facts=["P4"]
side = 1024 if device.type == "sim" else 4096  # On a real GPU only a large product takes longer than staging.
square = torch.ones(side, side, device=device)
product = devlab.time_op(lambda: square @ square, device, repeats=5, show=False).median


def host_held(x, non_blocking):
    """Return how many seconds the host spends in a transfer that stands behind a product."""
    torch.accelerator.synchronize(device)
    with devlab.watch() as log:
        square @ square
        x.to(device, non_blocking=non_blocking)
    when = log.events.transfers[0].when
    return when.ended - when.began


waited = 0
for pageable in (torch.ones(64, 1024), torch.ones(4096, 1024)):
    for kind, x in (("pageable", pageable), ("pinned", pageable.pin_memory())):
        for non_blocking in (False, True):
            held = host_held(x, non_blocking)
            waited += held > product / 2
            how_long = f"holds the host up for {held * 1e6:5.0f} µs ({how})"
            print(f"{x.nbytes >> 10:>5} KiB, {kind:<8}, non_blocking={non_blocking!s:<5} {how_long}")

guess.was(waited)

# %% [markdown] facts=["P4"]
# Three rules explain the eight lines:
#
# - **A blocking transfer waits for its stream**: for all the work that was launched before it, and then for
#   the transfer.
# - **From pinned memory, `non_blocking=True` does not hold the host up at all.** What remains is the launch.
# - **From pageable memory it depends on the size.** A small tensor holds the host up while its bytes are
#   staged, and no longer. For a large one the host waits as in a blocking transfer.
#
# The simulated device does as an H200 did. There {measured:held_by_copies:seconds of the work in front} of
# work stood in front, and the host was held up for:
#
# | H200, measured | 256 KiB | 2 MiB | 4 MiB | 16 MiB |
# |---|---|---|---|---|
# | pageable | {measured:held_by_copies:pageable.to(device), 256 KiB} | {measured:held_by_copies:pageable.to(device), 2048 KiB} | {measured:held_by_copies:pageable.to(device), 4096 KiB} | {measured:held_by_copies:pageable.to(device), 16384 KiB} |
# | pageable, `non_blocking=True` | {measured:held_by_copies:pageable.to(device, non_blocking), 256 KiB} | {measured:held_by_copies:pageable.to(device, non_blocking), 2048 KiB} | {measured:held_by_copies:pageable.to(device, non_blocking), 4096 KiB} | {measured:held_by_copies:pageable.to(device, non_blocking), 16384 KiB} |
# | pinned | {measured:held_by_copies:pinned.to(device), 256 KiB} | {measured:held_by_copies:pinned.to(device), 2048 KiB} | {measured:held_by_copies:pinned.to(device), 4096 KiB} | {measured:held_by_copies:pinned.to(device), 16384 KiB} |
# | pinned, `non_blocking=True` | {measured:held_by_copies:pinned.to(device, non_blocking), 256 KiB} | {measured:held_by_copies:pinned.to(device, non_blocking), 2048 KiB} | {measured:held_by_copies:pinned.to(device, non_blocking), 4096 KiB} | {measured:held_by_copies:pinned.to(device, non_blocking), 16384 KiB} |
#
# The border lies between 2 and 4 MiB; the simulated device has it at 2. (NVIDIA's documentation, *API
# synchronization behavior*, leaves it to the driver.) A batch of 32 images has 19 MB, so without pinned
# memory the flag gains nothing for it.
#
# Is it safe to *use* the result on the device? On CUDA it is. The device works through its stream in order,
# so an operation that you launch after the transfer also runs after it. The host is early, the device is not.
# What you must not do is write into a *pinned* tensor while its transfer may still be under way, because the
# GPU reads that very memory. Bytes that were staged are safe.
#
# **On other devices the flag is not safe.** On Apple's `mps` the GPU reads the tensor itself, some time
# later. If your program has overwritten it by then (in older releases, merely dropped it), other numbers
# arrive, without an error: PyTorch's issues 189690 and 139550. So in code for any device, ask for it only
# where the memory is pinned: `x.to(device, non_blocking=x.is_pinned())`. (Lesson 11 asks for it on CUDA
# alone, which is as safe.)
#
# **[Exercise](../exercises/04_transfers.ipynb#task_batches):** `batches` goes through a loader and waits for
# no transfer from pinned memory.

# %% [markdown]
# ### A loop in time
#
# The gain is easiest to see on a timeline. Here is a loop over four minibatches, first with blocking
# transfers. In the model, moving a minibatch, staging and copying together, takes about twice as long as
# computing with it. (On a GPU a lane shows the time between a mark before an operator and a mark after it.
# Where the GPU is idle, the launch counts, too.)

# %% facts=["P5"]
work = TensorDataset(torch.ones(256, 1024), torch.arange(256))
weight = torch.ones(1024, 2048, device=device)
torch.ones(64, 1024, device=device) @ weight  # The first product costs more, and is not to count.


def loop(loader, non_blocking):
    """Go through a loader, with one product for each batch, and return the log."""
    torch.accelerator.synchronize(device)  # Nothing older is still running, so the log starts from rest.
    with devlab.watch() as log:
        for x, _ in loader:
            x.to(device, non_blocking=non_blocking) @ weight
    return log


plain = loop(DataLoader(work, batch_size=64), non_blocking=False)
waiting = plain.timeline()

# %% [markdown] facts=["P4", "P5"]
# Read the lanes from the top. The host waits (the low grey bars, `░` in the text form) for each transfer and
# for the product before it, and all the while it cannot load the next minibatch. Now the same loop with
# pinned memory and without blocking:

# %% facts=["P5", "P7"]
alone = loop(DataLoader(work, batch_size=64, pin_memory=True), non_blocking=True)
alone.timeline(beside=waiting)

# %% [markdown] facts=["P5", "P7"]
# The host never waits, and has launched everything early: **the host's work and the device's overlap.** It
# was not free, though. *Staging* is the host's own copy into pinned memory, since this loader has no workers
# and pins in the loop. So let another thread pin. A loader with workers has one:

# %% facts=["P3", "P5", "P7"]
helped = loop(DataLoader(work, batch_size=64, pin_memory=True, num_workers=2), non_blocking=True)
helped.timeline(beside=waiting)

# %% [markdown] facts=["P5", "P7"]
# Now the host does nothing but launch, and all the rest of the time is its own. But the model leaves out what
# it takes to stack a minibatch and to hand it over from a worker. **Workers pay off where loading is slow,
# and cost where it is cheap.** With images that are tensors in memory already, and batches of 13 MB, a small
# network trained like this (H200, measured):
#
# | loop | images a second |
# |---|---|
# | pageable memory, `.item()` in each step | {measured:traces:loader_in_the_main_process_waits:images/s} |
# | pinned memory, no workers, no wait | {measured:traces:pinned_no_wait:images/s} |
# | pinned memory, four workers, no wait | {measured:traces:workers_pinned_no_wait:images/s} |
#
# Copying and computing still take turns, because the work in one stream runs in order. A second stream lets
# them overlap, too; you build that in [07 Asynchrony](07_asynchrony.ipynb).
#
# One temptation is left. If pinned memory is good, why not pin by hand, just before the transfer? A batch of
# 32 images goes to the device as it is, and pinned by hand.

# %% facts=["P7"]
guess = devlab.predict(
    "Is pinning by hand and then transferring faster than the plain transfer?", "yes", "no"
)

# %% facts=["P7"]
images = torch.ones(32, 3, 224, 224)
ways = {
    "blocking": lambda: images.to(device),
    "not blocking": lambda: images.to(device, non_blocking=True),
    "pinned by hand": lambda: images.pin_memory().to(device, non_blocking=True),
}
took = {}
for name, send in ways.items():
    took[name] = devlab.time_op(send, device, repeats=5, show=False).median
    print(f"{name:<15}{took[name] * 1e6:6.0f} µs ({how})")

guess.was("yes" if took["pinned by hand"] < 0.95 * took["blocking"] else "no")

# %% [markdown] facts=["P7"]
# `pin_memory()` copies every byte, as the driver does when it stages, so in the model nothing is gained. On a
# real machine two things are different. **The first time you lose much**: a new block of pinned memory costs
# a system call, and its pages have to be locked. **Later you may win**, because PyTorch keeps such blocks and
# fills them with several CPU threads. (H200, measured with 8 threads:
# {measured:transfers:x.pin_memory().to(device, non_blocking), pinned memory cached} against
# {measured:transfers:pageable .to} for the plain `.to`. The cell does not count the first time either.)
# PyTorch's own guide to `pin_memory` and `non_blocking` warns of up to twice the time of a plain `.to`. So
# measure, or let the loader pin: from pinned memory the transfer itself takes {measured:transfers:pinned .to}
# (H200, measured).

# %% [markdown] facts=["P3", "P4"]
# ### Look and touch
#
# This picture shows what a transfer costs, over its size. Run the cell, drag the ring along the sizes, and
# change what stands above the curves. The two lanes below them show what the host does while the bytes
# travel; *Play* lets you watch. **Find out** how much pinned memory saves for a single number, and how much
# for 32 images. And for which transfers does the host go on before they have ended?

# %% facts=["P3", "P4"]
devlab.explore.transfers()

# %% [markdown] facts=["P3", "P4"]
# In the model pinned memory saves nothing for the number, and two thirds of the time for the images. A small
# transfer costs what a start costs, from either memory; only in large ones do the bytes count. That is a
# reason to send a batch as one tensor and not as thirty-two. (H200, measured: {measured:transfers:pageable
# .to} for the images in one, {measured:transfers:one by one, 32 transfers of a 32nd} one by one.) With
# `non_blocking=True` the host goes on early from pinned memory, and with a small tensor in pageable memory
# once its bytes are staged. For a transfer from the device into pageable memory the host always waits.

# %% [markdown]
# ### Where the dtype is changed
#
# The flag also decides where a single call changes the dtype. The image goes to the device as `float32`, and
# a thousand `float32` scores come home as `float16`. The smaller forms take 48 and 2000 bytes.

# %% facts=["P8"]
scores = torch.ones(1000, device=device)
for non_blocking in (False, True):
    with devlab.watch() as log:
        image.to(device, torch.float32, non_blocking=non_blocking)
        scores.to("cpu", torch.float16, non_blocking=non_blocking)
    there, home = log.events.transfers
    print(f"non_blocking={non_blocking!s:<6}there {there.bytes:>4} bytes   home {home.bytes:>4} bytes")

torch.accelerator.synchronize(device)  # The host has not waited for the last transfer.

# %% [markdown] facts=["P8"]
# **A blocking transfer changes the dtype on the CPU, a non-blocking one on the accelerator**, in both
# directions. (This is so for CUDA and for `sim`. On `mps` the CPU changes the dtype of what goes there, and
# the GPU the dtype of what comes back.) In two steps the smaller form travels, whatever the flag says.

# %% [markdown]
# ## The other direction
#
# On the way to the device it was safe for the host to go on early. On the way back it is a trap. Fetch three
# sevens from the device without blocking, while it has work to do, and read them at once.

# %% facts=["P6"]
guess = devlab.predict(
    "What does y show, right after its transfer was launched?", "the sevens", "something else"
)

# %% facts=["P6"]
x = torch.full((3,), 7.0, device=device)
square @ square  # The transfer stands in the stream behind this product.
y = x.to("cpu", non_blocking=True)

seen = y.tolist()
print(seen)
guess.was("the sevens" if seen == [7.0, 7.0, 7.0] else "something else")

# %% [markdown] facts=["P6"]
# There was no error and no warning, only old contents. The transfer stood in the stream, and Python looked
# before it had arrived. (`.to("cpu", non_blocking=True)` puts its result into pinned memory by itself, so
# that nothing holds up the host.) The *device* keeps its order, but the *host* reads memory whenever it
# likes. Without work in front, a short transfer often arrives in time on a real GPU. Such code passes its
# tests, and under load it returns a few old numbers.
#
# **A non-blocking transfer to the CPU must be waited for before it is read.** Which wait is the right one?
# Here the program waits twice, once before the transfer and once after it.

# %% facts=["P6"]
torch.accelerator.synchronize(device)
square @ square
y = x.to("cpu", non_blocking=True)
print("it waited before the transfer:   ", y.tolist())

x.sum().item()  # The sum was launched after the transfer, so it ends after the transfer.
print("it waited for what came after it:", y.tolist())

# %% [markdown] facts=["P6"]
# Two details decide:
#
# - **Wait after the transfer was launched.** Before it there is nothing to wait for. The `.item()` above was
#   late enough, because the stream keeps its order, but it made a second transfer only to wait.
#   `torch.accelerator.synchronize(…)` waits and transfers nothing.
# - **Wait for the right device.** Without an argument, `torch.accelerator.synchronize()` waits for the current
#   device, which need not be the one that the tensor comes from.
#
# A plain `y = x.cpu()` waits by itself and is always right. The non-blocking form pays if the program has
# something to do in between.
#
# **[Exercise](../exercises/04_transfers.ipynb#task_read_back):** `read_back` fetches a tensor without
# blocking, and safely.

# %% [markdown]
# ## One number at a time
#
# How expensive is a small transfer? Here are ten losses on the device. One block adds them up in Python, the
# other adds them up where they are.

# %% facts=["R1", "R4"]
losses = [torch.tensor(float(step), device=device) for step in range(10)]

with devlab.watch() as log:
    total = 0.0
    for loss in losses:
        total += loss.item()
print(f"in Python:     {total}, {log.transfers} transfers, {log.synchronizations} waits")

with devlab.watch() as log:
    total = torch.zeros((), device=device)
    for loss in losses:
        total += loss
    total = total.item()
print(f"on the device: {total}, {log.transfers} transfer,  {log.synchronizations} wait")

# %% [markdown] facts=["R1", "R4"]
# Both give 45. **`.item()` transfers one scalar and synchronizes**: the host stops until the device has
# finished everything in its stream, and launches nothing meanwhile. Once in an epoch this does no harm. In
# every step it takes away the lead that the host has over the device, and the device is idle until the next
# launch. What that costs depends on the loop. (H200, measured: a step of a language model takes
# {measured:spine:bfloat16, fused, loss.item() each step:seconds a step} with it and {measured:spine:bfloat16,
# fused AdamW:seconds a step} without. A network so small that the host never had a lead lost nothing.)
#
# So keep the numbers on the device and fetch the result. If you keep the losses themselves, keep
# `loss.detach()`: each `loss` holds on to its whole graph.
#
# **[Exercise](../exercises/04_transfers.ipynb#task_fetch_losses):** `fetch_losses` needs every single number,
# and still the host waits once.

# %% [markdown] facts=["R5"]
# ### What else waits
#
# `.item()` has relatives, and some of them do not look like transfers at all. Here are eight lines.

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
guess = devlab.predict("How many of the eight make the host wait?", *range(2, 9))

# %% facts=["R5"]
waits = {}
for words, suspect in suspects.items():
    with devlab.watch() as log:
        suspect()
    waits[words] = log.synchronizations > 0
    print(f"{words:<26}{'the host waits' if waits[words] else 'the host goes on'}")

guess.was(sum(waits.values()))

# %% [markdown] facts=["R5"]
# Whatever brings a value to Python makes the host wait: `.cpu()`, `.tolist()`, `bool()` and so every `if`
# that asks about a value, and `print`. `nonzero` and the boolean mask wait for a subtler reason: the *shape*
# of their result depends on the data, and Python has to know it. The last two compute something of a known
# shape, so they only join the stream. `torch.where` with three arguments is the usual way to do without
# indexing by a mask in a loop. (With the condition alone it is a `nonzero`, and waits.)
#
# Here is an evaluation loop as it is often written, with a guard and two statistics. Before you run it, count
# the transfers and the waits of its four minibatches.

# %% facts=["R4", "R5"]
model = nn.Linear(1024, 1).to(device)
total, worst = 0.0, 0.0

with devlab.watch() as log, torch.no_grad():
    for x, _ in DataLoader(work, batch_size=64):
        loss = model(x.to(device)).square().mean()
        if loss.isnan():
            break
        total += loss.item()
        worst = max(worst, float(loss))

print(log.transfers, "transfers,", log.synchronizations, "waits")
print("made to wait by", sorted({wait.cause for wait in log.events.synchronizations}))

# %% [markdown] facts=["R4", "R5"]
# Four transfers were needed on the way in, and one on the way out. The other eleven were not. `print(log)`
# shows each line of code with its counts. Use it on your own loops: it is the quickest way to find the line
# that costs. Now change the cell above so that it says 5 transfers and 1 wait, and still knows the total, the
# worst, and whether any loss was nan.

# %% [markdown]
# ## There and back again
#
# One more habit is the most expensive of all, and it often hides between two functions that are fine by
# themselves. This function takes a tensor, works on the device, and politely returns a CPU tensor. It is
# called three times.


# %% facts=["R2"]
def double(x):
    return (x.to(device) * 2).cpu()


x = torch.ones(4, 3)
with devlab.watch() as log:
    for _ in range(3):
        x = double(x)
print(log.transfers, "transfers,", log.synchronizations, "waits")

# %% [markdown] facts=["R2"]
# It took six transfers for three multiplications, so most of the time goes into transfers. This is
# **ping-pong**. The cure is a rule: a function works where its input is and leaves its result there.
# Only the edges of the program transfer anything.


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
# One transfer in and one out, however many steps lie between. How much does it matter? Here is a square
# matrix in three sizes: the time of its transfer from pageable and from pinned memory, and the time of two
# operations on it. Watch which of the four columns grows fastest.

# %% facts=["R1"]
print(f"   n   pageable   pinned   adding 1   product   µs ({how})")
for n in (512, 1024, 2048):
    here, there = torch.ones(n, n), torch.ones(n, n, device=device)
    locked = here.pin_memory()
    actions = (
        lambda x=here: x.to(device),
        lambda x=locked: x.to(device),
        lambda x=there: x + 1,
        lambda x=there: x @ x,
    )
    times = [devlab.time_op(action, device, repeats=5, show=False).median * 1e6 for action in actions]
    print("{:>4}{:>11.0f}{:>9.0f}{:>11.0f}{:>10.0f}".format(n, *times))

# %% [markdown] facts=["R1"]
# | H200, measured: n | pageable | pinned | addition | product |
# |---|---|---|---|---|
# | 512 | {measured:bandwidth:pageable to the device, 1048576 bytes:seconds} | {measured:bandwidth:pinned to the device, 1048576 bytes:seconds} | {measured:crossover:add, float32, 512 x 512:device} | {measured:crossover:matrix product, float32, 512 x 512:device} |
# | 1024 | {measured:bandwidth:pageable to the device, 4194304 bytes:seconds} | {measured:bandwidth:pinned to the device, 4194304 bytes:seconds} | {measured:crossover:add, float32, 1024 x 1024:device} | {measured:crossover:matrix product, float32, 1024 x 1024:device} |
# | 2048 | {measured:bandwidth:pageable to the device, 16777216 bytes:seconds} | {measured:bandwidth:pinned to the device, 16777216 bytes:seconds} | {measured:crossover:add, float32, 2048 x 2048:device} | {measured:crossover:matrix product, float32, 2048 x 2048:device} |
#
# The addition does one operation for each number, and either transfer takes several times as long, in all
# three sizes. Most operations are of this kind: activations, normalisation, dropout. The product does about
# 2n operations for each number, so its time grows faster than the bytes do: at n = 512 either transfer takes
# longer, at n = 2048 the product takes longer than the transfer from pinned memory. Where the two meet
# depends on the machine. The rule holds on all of them: **transfers are expensive next to most operations, so
# keep them out of inner loops.**
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
# **[Exercise](../exercises/04_transfers.ipynb#task_no_ping_pong):** `no_ping_pong` runs a model over a whole
# loader and fetches once.

# %% [markdown] facts=["P2", "P4", "R1"]
# ## The whole loop
#
# This is how a training loop looks when all of it comes together. A loader with workers pins the minibatches,
# each is transferred without waiting where it is pinned, and the losses are added up where they are. The data
# are made so that a price follows from eight columns; they come in four minibatches. The log counts one
# epoch.

# %% facts=["P2", "P4", "R1", "R4"]
guess = devlab.predict("How many transfers will an epoch make, in both directions?", 5, 9, 12, 16)

# %% facts=["P2", "P4", "R1", "R4"]
torch.manual_seed(0)
columns = torch.randn(256, 8)
prices = columns.sum(1, keepdim=True)
loader = DataLoader(
    TensorDataset(columns, prices),
    batch_size=64,
    shuffle=True,
    num_workers=2,
    persistent_workers=True,
    pin_memory=True,
)
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for epoch in range(3):
    with devlab.watch() as log:
        total = torch.zeros((), device=device)
        for batch in loader:
            x, y = (part.to(device, non_blocking=part.is_pinned()) for part in batch)
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        mean = total.item() / len(loader)
    print(f"epoch {epoch}: {log.transfers} transfers, {log.synchronizations} wait, mean loss {mean:.2f}")
guess.was(log.transfers)

# %% [markdown] facts=["P2", "R1", "R4"]
# Each epoch transfers two tensors for each of its four minibatches, and one number home. That number is the
# only thing on the device for which the host waits. (With so little data the workers make the loop slower;
# they are here to show the whole pattern.) Lesson [11](11_training_step.ipynb) takes such a loop apart, and
# makes functions of it that you can trust.

# %% [markdown]
# ## What to keep
#
# - `x.to(device)` returns a new tensor and leaves x; where nothing has to change it returns x. Keep the result.
#   With a dtype, one call makes both changes; in two steps you choose which form travels.
# - A loader yields CPU tensors. Move every tensor of each minibatch as it comes.
# - A blocking transfer waits for its stream. With `non_blocking=True` the host goes on at once from pinned
#   memory. From pageable memory a small tensor holds it up while the bytes are staged, and a large one as if
#   it blocked. Off CUDA the flag is safe for pinned memory alone.
# - Workers pay off where loading is slow; their minibatches are pinned beside your loop. Without workers the
#   loader pins in your loop, as you would by hand just before the transfer. Measure what gains.
# - After a non-blocking transfer *to* the CPU, synchronize its device before you read the result.
# - `.item()`, `.cpu()`, `.tolist()`, `if`, `print`, `nonzero` and boolean masks wait. Collect on the device,
#   and fetch once.
# - One transfer in, one out. What lies between stays on the device.
#
# **Now do it:** [the exercises of this lesson](../exercises/04_transfers.ipynb) are eight short functions for
# the edges of a training script. **Then:** [05 Models and buffers](05_buffers.ipynb).
