# %% [markdown]
# # 04 Transfers
#
# Data arrives on the CPU, and the work is done on another device. A copy from the memory of one device into
# the memory of another is a **transfer**. After this lesson you can move any batch, choose which dtype is
# sent, load data so that the program hardly waits, and find the lines that make a program slow although none
# of them looks slow.
#
# **Takes** about 20 minutes to read, and 40 for the tasks. **Needs** [00 Start here](00_start_here.ipynb).

# %%
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import devlab

device = devlab.start()
how = "modelled" if device.type == "sim" else "measured"

# %% [markdown]
# `devlab.watch()` counts transfers, bytes and **waits**, which are places where the host stops for a result
# from the device. The counts come from what PyTorch really does, and an H200 gave the same ones. *Times* on
# the simulated device come from a model of a GPU like NVIDIA's T4.

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
# original where it was. Sometimes it makes nothing at all. Decide for each of these four lines whether it
# makes a tensor, and then run the cell.

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
# **Where nothing has to change, `.to` returns the tensor itself**, so an extra call costs nothing. But after
# `z = x.to(device)` you cannot tell from the code whether `z` shares its memory with `x`: if the device is
# the CPU, `z` *is* `x`. If you are going to write into `z`, say `x.to(device, copy=True)`.
#
# You will meet two older spellings:

# %% facts=["M3"]
print("y.cpu()", y.cpu().device)

try:
    print("x.cuda()", x.cuda().device)
except (RuntimeError, AssertionError):
    print("x.cuda() fails: this machine has no CUDA device in use")

# %% [markdown] facts=["M3", "M4"]
# `.cuda()` writes one kind of machine into the program. Prefer `.to(device)`, which runs everywhere and can
# do more:

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
# each; as `float32` each of them takes four.

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
# The one call changed the dtype first, on the CPU, and sent four times as much as necessary. On the way back
# it sends the bytes first, and the CPU changes the dtype afterwards. So make it two steps, in the order that
# you want: `x.to(dtype).to(device)` or `x.to(device).to(dtype)`. **The smaller form should travel.** 32
# colour images took {measured:transfers:pageable .to} as `float32`, and {measured:transfers:uint8 pageable
# .to and division there} as `uint8`, the change of dtype and a division on the GPU included (H200, measured).
#
# **[Exercise](../exercises/04_transfers.ipynb#task_cast_and_move):** `cast_and_move` lets the smaller dtype
# travel.

# %% [markdown]
# ## A batch is a tree
#
# A real loader may hand you more than one tensor:

# %% facts=["P2"]
batch = {"tokens": torch.ones(2, 5, dtype=torch.long), "more": [torch.ones(2), "a name"]}

try:
    batch.to(device)
except AttributeError as error:
    print(error)

# %% [markdown] facts=["M1", "P2"]
# Containers have no `.to`, so your program has to go through them. The marked line holds the most frequent
# mistake in such code. Say what is wrong before you run the cell.


# %% facts=["M1", "M6"]
def send(parts):
    for part in parts:
        part.to(device)  # <-
    return parts


inputs, labels = send([torch.ones(2, 5), torch.zeros(2)])
print("inputs", inputs.device, " labels", labels.device)

# %% [markdown] facts=["M1", "M6", "P2"]
# Both tensors are still on the CPU: the loop dropped what `.to` made. So build a **new** container from the
# results. Only a *module* is moved in place, as [05](05_buffers.ipynb) shows.
#
# A function for every batch also looks inside each container, leaves alone what is no tensor, and returns
# each container as the same kind of container. That takes care with a namedtuple:

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
# A tuple is made from one iterable. A namedtuple takes its values one by one, and what tells it from other
# tuples is that it has `_fields`.
#
# **[Exercise](../exercises/04_transfers.ipynb#task_move):** `move` brings a whole tree to a device.

# %% [markdown]
# ## From the loader
#
# A `DataLoader` takes samples from a data set and stacks them into **minibatches**.

# %% facts=["P1"]
features = torch.arange(10 * 3.0).reshape(10, 3)
labels = torch.arange(10)
dataset = TensorDataset(features, labels)

for x, y in DataLoader(dataset, batch_size=4):
    print(list(x.shape), x.device, list(y.shape), y.device)

# %% [markdown] facts=["P1", "P2"]
# **A loader yields CPU tensors**, since its data set gives it CPU tensors. It does not know your device. So
# the training loop moves each minibatch **as it comes**, and every part of it, labels too:
#
# ```python
# for x, y in loader:
#     x, y = x.to(device), y.to(device)
# ```
#
# Only a data set that fits on the device beside everything else is better moved there once.

# %% [markdown]
# ## Pinned memory
#
# Ordinary memory is **pageable**: the operating system may move its pages. The GPU reads the host's memory
# without asking the operating system, so a page must not move meanwhile. That is why the driver keeps a
# buffer that is **pinned**, which means locked in its place. The host first copies the bytes into this
# buffer, which is called *staging*, and the GPU takes them from there. A tensor that is pinned from the start
# needs no staging.
#
# ![Above, a pageable tensor in host memory is copied by the host into the staging buffer, and by the GPU from there to the device; with non_blocking=True the host waits for the staging alone if the tensor is small, and to the end if it is large. Below, a pinned tensor is copied by the GPU directly; with non_blocking=True the host does not wait at all. A blocking transfer holds the host until it has ended in both cases](drawing:staged_or_pinned)
#
# A loader pins its minibatches if you ask it to:

# %% facts=["P3"]
plain = DataLoader(dataset, batch_size=4)
pinned = DataLoader(dataset, batch_size=4, pin_memory=True)

for name, loader in (("plain", plain), ("pinned", pinned)):
    x, y = next(iter(loader))
    print(f"{name:<7}on {x.device}, in {'pinned' if x.is_pinned() else 'pageable'} memory")

# %% [markdown] facts=["P3"]
# The system can put nothing else into pinned memory, so pin minibatches and not a large data set. A transfer
# takes about **a start, plus its bytes divided by the rate**, and from pinned memory the rate is better:
#
# | | start | pageable | pinned |
# |---|---|---|---|
# | reference machine, modelled | 7 µs | 4 GB/s | 12 GB/s |
# | H200, measured | {measured:bandwidth:pageable to the device, 1024 bytes:seconds} | {measured:bandwidth:pageable to the device, 268435456 bytes:bytes/s} | {measured:bandwidth:pinned to the device, 268435456 bytes:bytes/s} |
#
# A Mac's GPU shares the CPU's memory, and a `DataLoader` does not pin for `mps`. For a model on the CPU
# pinning is lost time.

# %% [markdown]
# ### Worker processes
#
# Reading files and decoding images can take longer than training. `num_workers=2` hands this work to two more
# processes, and each minibatch has to come from there to yours:

# %% facts=["P1", "P3"]
for workers, pin in ((0, False), (0, True), (2, False), (2, True)):
    loader = DataLoader(dataset, batch_size=4, num_workers=workers, pin_memory=pin)
    x, y = next(iter(loader))
    kind = "pinned" if x.is_pinned() else "shared" if x.is_shared() else "its own"
    print(f"{workers} workers, pin_memory={pin!s:<6}on {x.device}, memory: {kind}")

# %% [markdown] facts=["P1", "P3"]
# A worker puts its minibatch into **shared memory**, which both processes see. With `pin_memory=True` a
# thread of *your* process copies it on into pinned memory while you work on the minibatch before. **Without
# workers there is no such thread**: the loader pins in your loop, and the loop stands still meanwhile.
#
# **How many workers?** Start with 2, time an epoch, and take more only as long as the time falls. Each keeps
# `prefetch_factor` minibatches ready, 2 by default; more help if some samples take far longer than others.
# `persistent_workers=True` keeps them from epoch to epoch. A script that starts workers has its main part
# under `if __name__ == "__main__":`.
#
# **[Exercise](../exercises/04_transfers.ipynb#task_make_loader):** `make_loader` pins where it helps, and
# only there.

# %% [markdown]
# ## Without waiting
#
# A **stream** is a device's queue of work. The host *launches* an operation, which puts it at the end of the
# queue, and goes on; the device takes up one operation after the other. `non_blocking=True` asks that a
# transfer be launched like any other operation.
#
# Below, a transfer is queued behind a matrix product: of a small tensor and of a large one, from pageable and
# from pinned memory, blocking and not.

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
# - **A blocking transfer waits for its stream**, and for all the work in it.
# - **From pinned memory, `non_blocking=True` does not hold the host up at all.**
# - **From pageable memory it depends on the size.** A small tensor holds the host up while its bytes are
#   staged, a large one as if it blocked.
#
# On an H200 {measured:held_by_copies:seconds of the work in front} of work stood in front, and the host was
# held up for:
#
# | H200, measured | 256 KiB | 2 MiB | 4 MiB | 16 MiB |
# |---|---|---|---|---|
# | pageable | {measured:held_by_copies:pageable.to(device), 256 KiB} | {measured:held_by_copies:pageable.to(device), 2048 KiB} | {measured:held_by_copies:pageable.to(device), 4096 KiB} | {measured:held_by_copies:pageable.to(device), 16384 KiB} |
# | pageable, `non_blocking=True` | {measured:held_by_copies:pageable.to(device, non_blocking), 256 KiB} | {measured:held_by_copies:pageable.to(device, non_blocking), 2048 KiB} | {measured:held_by_copies:pageable.to(device, non_blocking), 4096 KiB} | {measured:held_by_copies:pageable.to(device, non_blocking), 16384 KiB} |
# | pinned | {measured:held_by_copies:pinned.to(device), 256 KiB} | {measured:held_by_copies:pinned.to(device), 2048 KiB} | {measured:held_by_copies:pinned.to(device), 4096 KiB} | {measured:held_by_copies:pinned.to(device), 16384 KiB} |
# | pinned, `non_blocking=True` | {measured:held_by_copies:pinned.to(device, non_blocking), 256 KiB} | {measured:held_by_copies:pinned.to(device, non_blocking), 2048 KiB} | {measured:held_by_copies:pinned.to(device, non_blocking), 4096 KiB} | {measured:held_by_copies:pinned.to(device, non_blocking), 16384 KiB} |
#
# A batch of 32 images has 19 MB, so without pinned memory the flag gains nothing for it. NVIDIA leaves the
# border to the driver (*API synchronization behavior*).
#
# On CUDA it is safe to *use* the result on the device, which works through its stream in order. But do not
# write into a *pinned* tensor while its transfer may still be under way, because the GPU reads that very
# memory.
#
# **On other devices the flag is not safe.** Apple's GPU reads the tensor itself, some time later. If your
# program has overwritten it by then, or in older releases merely dropped it, other numbers arrive without an
# error: PyTorch's issues 189690 and 139550. So in code for any device, ask for it only where the memory is
# pinned: `x.to(device, non_blocking=x.is_pinned())`.
#
# **[Exercise](../exercises/04_transfers.ipynb#task_batches):** `batches` goes through a loader and waits for
# no transfer from pinned memory.

# %% [markdown]
# ### A loop in time
#
# Here is a loop over four minibatches on a timeline, first with blocking transfers. Each bar is the time
# between a mark before an operator and a mark after it.

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
# The host waits (the hatched bars, `░` in the text form) for each transfer and for the product before it,
# and cannot load the next minibatch meanwhile. Now the same loop with pinned memory and without blocking:

# %% facts=["P5", "P7"]
alone = loop(DataLoader(work, batch_size=64, pin_memory=True), non_blocking=True)
alone.timeline(beside=waiting)

# %% [markdown] facts=["P5", "P7"]
# The host never waits: **its work and the device's overlap.** *Staging* is the host's own copy into pinned
# memory, since a loader without workers pins in the loop. **Workers pay off where loading is slow, and cost
# where it is cheap.** With images that were tensors in memory already, and batches of 13 MB, a small network
# trained like this:
#
# | loop | images a second (H200, measured) |
# |---|---|
# | pageable memory, `.item()` in each step | {measured:traces:loader_in_the_main_process_waits:images/s} |
# | pinned memory, no workers, no wait | {measured:traces:pinned_no_wait:images/s} |
# | pinned memory, four workers, no wait | {measured:traces:workers_pinned_no_wait:images/s} |
#
# Copying and computing still take turns, because the work in one stream runs in order. In [07
# Asynchrony](07_asynchrony.ipynb) a second stream lets them overlap.
#
# Why not pin by hand, just before the transfer? Here a batch of 32 images goes to the device in three ways:

# %% facts=["P7"]
images = torch.ones(32, 3, 224, 224)
ways = {
    "blocking": lambda: images.to(device),
    "not blocking": lambda: images.to(device, non_blocking=True),
    "pinned by hand": lambda: images.pin_memory().to(device, non_blocking=True),
}
for name, send in ways.items():
    took = devlab.time_op(send, device, repeats=5, show=False).median
    print(f"{name:<15}{took * 1e6:6.0f} µs ({how})")

# %% [markdown] facts=["P7"]
# `pin_memory()` copies every byte, as the driver does when it stages, so in the model nothing is gained. On a
# real machine **the first time you lose much**, for a new block of pinned memory costs a system call. **Later
# you may win**, because PyTorch keeps such blocks. After a first time, an H200 took
# {measured:transfers:x.pin_memory().to(device, non_blocking), pinned memory cached} with 8 threads, and
# {measured:transfers:pageable .to} by the plain `.to` (measured). PyTorch's guide to `pin_memory` measured
# with one thread, and warns of twice the time. So measure, or let the loader pin.

# %% [markdown] facts=["P3", "P4"]
# ### Look and touch
#
# This picture shows what a transfer costs, over its size. Drag the ring. **Find out** how much pinned memory
# saves for a single number, and how much for 32 images.

# %% facts=["P3", "P4"]
devlab.explore.transfers()

# %% [markdown] facts=["P3", "P4"]
# In the model pinned memory saves nothing for the number, and two thirds of the time for the images. So send
# a batch as one tensor: the 32 images took {measured:transfers:pageable .to} in one, and
# {measured:transfers:one by one, 32 transfers of a 32nd} one by one (H200, measured).

# %% [markdown]
# ### Where the dtype is changed
#
# The flag also decides where one call changes the dtype, on the way there and on the way home.

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
# directions, for CUDA and for `sim`. On `mps` the CPU changes what goes there, and the GPU what comes back.
# In two steps the smaller form travels everywhere.

# %% [markdown]
# ## The other direction
#
# Now fetch three sevens from the device without blocking, while it is busy, and read them at once.

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
# There was no error and no warning, only old contents: Python looked before the transfer had arrived. On CUDA
# `.to("cpu", non_blocking=True)` puts its result into pinned memory by itself, so nothing held up the host.
# Without work in front, a short transfer often arrives in time. Such code passes its tests and fails under
# load.
#
# **A non-blocking transfer to the CPU must be waited for before it is read.** Here the program waits twice,
# once before the transfer and once after it.

# %% facts=["P6"]
torch.accelerator.synchronize(device)
square @ square
y = x.to("cpu", non_blocking=True)
print("it waited before the transfer:   ", y.tolist())

x.sum().item()  # The sum was launched after the transfer, so it ends after the transfer.
print("it waited for what came after it:", y.tolist())

# %% [markdown] facts=["P6"]
# **Wait after the transfer was launched, and for the right device.** The `.item()` above was late enough,
# because the stream keeps its order, but it made a second transfer only to wait.
# `torch.accelerator.synchronize(device)` transfers nothing. Without its argument it waits for the current
# device, which need not be the tensor's.
#
# A plain `y = x.cpu()` waits by itself and is always right. The non-blocking form pays if the program has
# something to do in between.
#
# **[Exercise](../exercises/04_transfers.ipynb#task_read_back):** `read_back` fetches a tensor without
# blocking, and safely.

# %% [markdown]
# ## One number at a time
#
# Here are ten losses on the device. One block adds them up in Python, the other adds them up where they are.

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
# finished everything in its stream, and launches nothing meanwhile. In every step this takes away the lead
# that the host has over the device: a step of a language model took {measured:spine:bfloat16, fused,
# loss.item() each step:seconds a step} with it and {measured:spine:bfloat16, fused AdamW:seconds a step}
# without (H200, measured). Where the host never had a lead, nothing is lost.
#
# So keep the numbers on the device and fetch the result. If you keep the losses themselves, keep
# `loss.detach()`: each `loss` holds on to its whole graph.
#
# **[Exercise](../exercises/04_transfers.ipynb#task_fetch_losses):** `fetch_losses` needs every single number,
# and still the host waits once.

# %% [markdown] facts=["R5"]
# ### What else waits
#
# `.item()` has relatives, and some do not look like transfers at all. Mark those of the nine lines for which
# the host has to wait, and then run the cells.

# %% facts=["R5"]
x = torch.tensor([3.0, -1.0, 2.0], device=device)

lines = (
    "x.cpu()",
    "x.tolist()",
    "bool(x.sum() > 0)",
    "str(x)",
    "x.nonzero()",
    "x[x > 0]",
    "x * x.sum()",
    "x.clamp(min=0)",
    "torch.where(x > 0, x, 0)",
)
guess = devlab.predict(
    "One of these four makes the host wait. Which?",
    "x * x.sum()",
    "x.clamp(min=0)",
    "torch.where(x > 0, x, 0)",
    "x[x > 0]",
)

# %% facts=["R5"]
waits = {}
for line in lines:
    with devlab.watch() as log:
        eval(line)
    waits[line] = log.synchronizations > 0
    print(f"{line:<26}{'the host waits' if waits[line] else 'the host goes on'}")

guess.was(next(line for line in guess.choices if waits[line]))

# %% [markdown] facts=["R5"]
# Whatever brings a value to Python makes the host wait: `.cpu()`, `.tolist()`, `str` and so `print`, `bool`
# and so every `if` that asks about a value. `nonzero` and the boolean mask wait because the *shape* of their
# result depends on the data; `torch.where` with three arguments does without.
#
# **PyTorch's own tool** for CUDA is `torch.cuda.set_sync_debug_mode`. With `"warn"` each line that waits
# warns, and with `"error"` it stops there:

# %% facts=["R5"]
if torch.cuda.is_available():
    torch.cuda.set_sync_debug_mode("warn")
    x[x > 0]  # UserWarning: called a synchronizing CUDA operation
    torch.cuda.set_sync_debug_mode("default")
else:
    print("there is no CUDA device here")

# %% [markdown] facts=["R4", "R5"]
# The mode leaves out sparse tensors and `torch.distributed`, and does not see that a large pageable transfer
# waits in spite of `non_blocking=True`.
#
# Here is an evaluation loop as it is often written, with a guard and two statistics. Before you run it, count
# the transfers and the waits of its four minibatches.

# %% facts=["R4", "R5"]
model = nn.Linear(1024, 1).to(device).eval()
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
# shows each line with its counts. This is the same evaluation, mended:

# %% facts=["R4", "R5"]
with devlab.watch() as log, torch.inference_mode():
    losses = [model(x.to(device)).square().mean() for x, _ in DataLoader(work, batch_size=64)]
    losses = torch.stack(losses)
    total, worst, nans = torch.stack([losses.sum(), losses.max(), losses.isnan().sum()]).tolist()

print(log.transfers, "transfers,", log.synchronizations, "wait,", nans, "losses were nan")

# %% [markdown] facts=["R4", "R5"]
# It hears of a nan at the end and not in the middle, which is early enough for an evaluation.
# `torch.inference_mode()` does what `no_grad` does and spares PyTorch more of its bookkeeping; in return,
# what is made in it can never enter a graph.

# %% [markdown]
# ## There and back again
#
# The most expensive habit often hides between functions that are fine by themselves. This one politely
# returns a CPU tensor, and is called three times.


# %% facts=["R2"]
def double(x):
    return (x.to(device) * 2).cpu()


x = torch.ones(4, 3)
with devlab.watch() as log:
    for _ in range(3):
        x = double(x)
print(log.transfers, "transfers,", log.synchronizations, "waits")

# %% [markdown] facts=["R2"]
# It took six transfers for three multiplications. This is **ping-pong**. The cure: a function works where its
# input is and leaves its result there.


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
# How much does it matter? Here is a square matrix in three sizes. Watch which of the four columns grows
# fastest.

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
# The addition does one operation for each number, as activations and dropout do, and either transfer takes
# several times as long. The product does about 2n: at n = 2048 it takes longer than the transfer from pinned
# memory. Where the two meet depends on the machine, and the rule holds on all of them: **transfers are
# expensive next to most operations, so keep them out of inner loops.**
#
# Four good reasons to go to the CPU lie at the edge of a program:

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
# In this training loop all of it comes together. The log counts one epoch.

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
# Each epoch transfers two tensors for each of its four minibatches, and one number home, for which the host
# waits. Lesson [11](11_training_step.ipynb) makes functions of such a loop.

# %% [markdown]
# ## What to keep
#
# - `x.to(device)` returns a new tensor, or x itself where nothing has to change. Keep the result, and let the
#   smaller dtype travel.
# - A loader yields CPU tensors. Move each minibatch as it comes, every part of it.
# - A blocking transfer waits for its stream. With `non_blocking=True` the host goes on at once from pinned
#   memory; a large pageable tensor blocks all the same. Off CUDA the flag is safe for pinned memory alone.
# - After a non-blocking transfer *to* the CPU, synchronize before you read the result.
# - `.item()`, `.cpu()`, `.tolist()`, `if`, `print`, `nonzero` and boolean masks wait. Collect on the device,
#   and fetch once.
# - One transfer in, one out. What lies between stays on the device.
#
# **Now do it:** [the exercises of this lesson](../exercises/04_transfers.ipynb) are eight short functions for
# the edges of a training script. **Then:** [05 Models and buffers](05_buffers.ipynb).
