# %% [markdown]
# # 01 The CPU
#
# Every computer has this device, nearly every data set passes through it, and every GPU program is run by it.
# It runs nearly every operation that PyTorch has, and in this lesson you see work that it wins.
#
# After this lesson you can say where a new tensor goes and why, how many bytes it takes and how many it keeps
# alive. You can prepare data so that the code runs on any device, and you know which work should stay on the
# CPU.
#
# **Takes** about 25 minutes to read, and 25 for the tasks. **Needs** [00 Start here](00_start_here.ipynb).

# %%
import io
import os

import numpy as np
import torch

import devlab

device = devlab.start()
torch.set_printoptions(precision=3, sci_mode=False)

# %% [markdown]
# ## Where new tensors go
#
# Below, five lines make new tensors, and none of them mentions a device.

# %% facts=["C1"]
guess = devlab.predict("How many of the five will be on the accelerator?", 0, 3, 5)

# %% facts=["C1"]
lines = (
    "torch.zeros(2, 3)",
    "torch.tensor([1.5, 2.5])",
    "torch.arange(4)",
    "torch.randn(2, 3)",
    "torch.nn.Linear(3, 2).weight",
)
there = 0
for line in lines:
    x = eval(line)
    there += x.device.type != "cpu"
    print(f"{line:<30} {x.device}")
guess.was(there)

# %% [markdown] facts=["C1"]
# **Creation defaults to the CPU**, models included, whatever else is in the machine. That is a kindness: the
# same line does the same thing on every computer. To make a tensor elsewhere, say so when you make it:

# %% facts=["C1"]
print(torch.zeros(2, 3, device=device).device)

# %% [markdown]
# ## A default is a setting
#
# The default device can be changed for a block, or for the rest of the program with
# `torch.set_default_device`. Here are five lines inside such a block. See which of them it moves.

# %% facts=["C1"]
here = torch.zeros(2)  # made outside of the block, on the CPU

with torch.device(device):
    print("the default is", torch.get_default_device(), "\n")
    for line in (
        "torch.zeros(2)",
        "torch.as_tensor(here)",
        "torch.zeros_like(here)",
        "here * 2",
        "torch.from_numpy(np.ones(2))",
    ):
        print(f"{line:<30} {eval(line).device}")

# %% [markdown] facts=["C1"]
# The setting decides for tensors that are made *from nothing*, or from Python numbers. `zeros_like` and
# arithmetic stay with the tensor that they started from, and `from_numpy` wraps memory that NumPy already
# has. The surprise is the second line: `torch.tensor` and `torch.as_tensor` follow the setting even when you
# hand them a tensor that is on the CPU already.
#
# So a line that names no device means *on the CPU* only as long as nobody has changed the setting. In a
# function that others call, name the device. The dtype has a default of its own, and the numbers have a say
# in it too:

# %% facts=["C1"]
print(torch.tensor([[1.5, 2.0]]).dtype)
print(torch.tensor([[1, 2]]).dtype)
print(torch.tensor([[1, 2.0]]).dtype)
print(torch.from_numpy(np.array([[1.5, 2.0]])).dtype)

# %% [markdown] facts=["C1"]
# Python's ints become `int64`. A single float among them makes all of them `float32`, which is the default
# dtype and also a setting. NumPy's floats are `float64` unless told otherwise. When the dtype matters, state
# it.
#
# **[Exercise](../exercises/01_cpu.ipynb#task_load_table):** `load_table`, which returns the same device and
# dtype whatever the two settings are.

# %% [markdown]
# ## System memory
#
# The CPU's memory is the ordinary memory of the computer, in which Python's lists and NumPy's arrays live.
# Below, NumPy makes an array, PyTorch makes a tensor of it, and then *NumPy* writes into its array.

# %% facts=["C2"]
array = np.zeros(3)
wrapped = torch.from_numpy(array)

array[1] = 7.0
print(wrapped)

# %% [markdown] facts=["C2"]
# The tensor shows the 7: it is one memory with two names, and lesson 06 is about what can go wrong. Now the
# same wish for a tensor in the accelerator's memory:

# %% facts=["C2"]
try:
    torch.zeros(3, device=device).numpy()
except TypeError as error:
    print(error)

# %% [markdown] facts=["C2"]
# NumPy cannot see that memory. The message calls the computer's own memory *host memory*. **CPU tensors live
# in system memory**, and that is where almost every other library expects its data.

# %% [markdown] facts=["C2"]
# ## How many bytes
#
# Memory is the first thing that you run out of. A tensor knows how many elements it has, and its dtype knows
# how many bytes one of them takes.

# %% facts=["C2"]
images = torch.zeros(32, 3, 224, 224)  # a batch of 32 colour pictures
print(f"{images.numel():,} elements\n")

for dtype in [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool]:
    print(f"{dtype!s:<16} {dtype.itemsize} bytes an element")

# %% [markdown] facts=["C2"]
# About 19 MB in `float32`, and nothing has been computed yet. Pictures usually come from a file as `uint8`,
# and turning them into `float32` makes them four times as big. A `bool` takes a whole byte to say yes or no.
# A Python list of floats is far bigger still: on a 64-bit machine each float is an object of 24 bytes, with a
# pointer of 8 bytes to it.
#
# **[Exercise](../exercises/01_cpu.ipynb#task_tensor_bytes):** `tensor_bytes`, for tensors of any dtype and
# shape.

# %% [markdown]
# ## What a view takes
#
# Now take one picture out of the batch. `images[5]` is a *view*: it copies nothing and looks at a part of the
# memory that is already there, its **storage**. One picture has 602,112 bytes. Suppose that you save it with
# `torch.save`. The cell counts the bytes that a file would have.

# %% facts=["C2"]
guess = devlab.predict(
    "How large is the file of the one picture?",
    "as large as one picture",
    "as large as all 32 pictures",
)


# %% facts=["C2"]
def saved(x):
    """Return how many bytes torch.save writes for a tensor."""
    file = io.BytesIO()
    torch.save(x, file)
    return file.getbuffer().nbytes


one = images[5]
print(f"all 32 pictures    {saved(images) / 1e6:6.2f} MB")
print(f"one, a view        {saved(one) / 1e6:6.2f} MB")
print(f"one, copied before {saved(one.clone()) / 1e6:6.2f} MB")
guess.was("as large as all 32 pictures" if saved(one) > 1e7 else "as large as one picture")

# %% [markdown] facts=["C2"]
# `torch.save` writes the storage, because several tensors may share it and are to share it again when they
# are loaded. The same holds in memory: as long as anything refers to a storage, all of it stays. `del images`
# would remove a name and not the memory, for `one` still needs it. A list of small views, kept from every
# batch, keeps every batch. `clone()` takes what you want and lets the rest go.
#
# It can also be the other way round. `expand` shows the same memory many times:

# %% facts=["C2"]
row = torch.tensor([[0.5, 1.0, 1.5]])
tall = row.expand(1000, 3)

print("elements that were made: ", row.numel())
print("elements that it shows:  ", tall.numel())
print("steps to the next row, and to the next element:", tall.stride())
del images, one

# %% [markdown] facts=["C2"]
# The step to the next row is 0, so three numbers look like three thousand. There are two questions, then: how
# many bytes the elements *would* take side by side, and how many bytes *are* there, in
# `tall.untyped_storage()`. A tensor's `nbytes` is a number; a storage's is a method.
#
# **[Exercise](../exercises/01_cpu.ipynb#task_storage_bytes):** `storage_bytes`, which answers the second
# question in bytes.

# %% [markdown] facts=["C4"]
# ## Data arrives here first
#
# Here is a very small file: flats, their prices, and a column in which floor 1 was written for all of them.

# %% facts=["C4"]
file = """\
area,rooms,floor,price
72,3,1,265
110,5,1,390
54,2,1,199
135,6,1,512
"""

flats = torch.from_numpy(np.loadtxt(io.StringIO(file), delimiter=",", skiprows=1, dtype=np.float32))

print(flats)

# %% [markdown] facts=["C4"]
# Bytes on a disk, text, NumPy's numbers, a tensor in system memory: all these steps are the CPU's. **Data
# loads into CPU memory first, and then it moves.** PyTorch's own loader works like that. The next cell moves
# the whole file to the device, batch by batch.

# %% facts=["C4"]
guess = devlab.predict("How many bytes will it transfer?", 16, 64, 128)

# %% facts=["C4"]
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(flats[:, :3], flats[:, 3]), batch_size=2)

with devlab.watch() as log:
    for features, price in loader:
        print("from the loader:", features.device, price.device, end="   ")
        features, price = features.to(device), price.to(device)
        print("then:", features.device, price.device)

print(log.transfers, "transfers,", log.bytes_moved, "bytes")
guess.was(log.bytes_moved)

# %% [markdown] facts=["C4"]
# Moving is your line, and there is one natural place for it: right after the loader, one batch at a time, so
# that a data set far bigger than the accelerator's memory can pass through. `devlab.watch()` has counted four
# rows of three features and a price, 4 bytes each, so every number of the file was transferred once.

# %% [markdown] facts=["C4"]
# ## Where is this batch
#
# Real batches are nested, and a part that lies deep inside is easily left behind. This batch was "moved":

# %% facts=["C4"]
features, price = next(iter(loader))
batch = {"inputs": [features.to(device), {"age": torch.ones(2)}], "target": price.to(device), "name": "flats"}

print("target       ", batch["target"].device)
print("inputs[0]    ", batch["inputs"][0].device)
print("inputs[1].age", batch["inputs"][1]["age"].device)

# %% [markdown] facts=["C4"]
# `age` sits in a dict in a list in a dict, and the line that moved the batch stopped one layer too early. A
# model that gets this batch stops in the middle of its `forward`, far from the line that forgot. To ask *on
# which devices is this batch?* you need a function that looks into every container and therefore calls
# itself. This one counts strings:


# %%
def count_texts(value):
    """Count the strings in nested dicts, lists and tuples."""
    if isinstance(value, str):
        return 1
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return sum(count_texts(item) for item in value)
    return 0


print(count_texts(["a", {"b": ("c", 3)}, [["d"]], None]))

# %% [markdown] facts=["C4"]
# **[Exercise](../exercises/01_cpu.ipynb#task_places):** `places`, which has the same shape and collects
# devices.

# %% [markdown] facts=["C3"]
# ## Prepare, then move
#
# Look at the flats again: areas around 100, rooms around 4, prices in the hundreds. Networks learn badly from
# columns of such different size, so the CPU brings them to a common scale first. One way is to map each
# column to the range from 0 to 1:

# %% facts=["C3"]
low, high = flats.amin(0), flats.amax(0)

print("low  ", low)
print("high ", high)
print((flats - low) / (high - low))

# %% [markdown] facts=["C3"]
# In the `floor` column all numbers are equal, and 0 / 0 is `nan`, *not a number*. One `nan` in a batch is
# usually enough to turn all weights of a network into `nan` at the next training step, and no error is raised
# on the way. A constant column tells the network nothing, so it may as well be zeros. For that it can be
# divided by 1:

# %% facts=["C3"]
width = high - low
print((flats - low) / torch.where(width == 0, 1, width))

# %% [markdown] facts=["C3", "C1"]
# ## Helpers follow the data
#
# A *helper tensor* is one that a function makes for its own use. Here is the same scaling, written with a
# helper tensor of ones, and given a table that is already on the accelerator:


# %% facts=["C3", "C1"]
def to_range_with_ones(x):
    width = x.amax(0) - x.amin(0)
    ones = torch.ones(x.shape[1])
    return (x - x.amin(0)) / torch.where(width == 0, ones, width)


print("cpu:", to_range_with_ones(flats)[0])
try:
    to_range_with_ones(flats.to(device))
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["C3", "C1"]
# Decide whether `torch.where` is the line to mend, and then ask for a second opinion:

# %% facts=["C3", "C1"]
try:
    to_range_with_ones(flats.to(device))
except RuntimeError as error:
    devlab.explain(error)

# %% [markdown] facts=["C3", "C1"]
# The culprit is the line above: `torch.ones` makes its tensor from nothing, so it went to the CPU. If you
# test on the CPU alone, you never see this bug. There is a second one in the same line, and it shows on the
# CPU. Compare what becomes of a table in half precision:

# %% facts=["C3"]
half = flats.to(torch.float16)

print("with the tensor of ones:", to_range_with_ones(half).dtype)
print("half / a Python number: ", (half / 1.0).dtype)

# %% [markdown] facts=["C3"]
# The helper tensor was `float32`, so the result became `float32`: it takes twice the memory, and the next
# layer refuses it. A Python number has no device, and where it meets a tensor of floats, it takes the dtype
# of that tensor. So ask of each helper tensor *does this have to be a tensor at all?* If it must, make it
# from the data: `torch.ones_like(width)`.
#
# **[Exercise](../exercises/01_cpu.ipynb#task_standardize):** `standardize`, the other common scale: mean 0
# and standard deviation 1 in each column, for any device and any floating dtype.

# %% [markdown] facts=["C3"]
# ## Inside a CPU
#
# This section explains why a CPU is as fast as it is. You may leave it out and go on with [what the CPU is
# good at](#What-the-CPU-is-good-at).
#
# ![A CPU with four cores. Each core has a unit that works on eight numbers at once, and caches of its own; below them is a cache that all cores share, and outside of the chip is the system memory, in pages of 4 KiB, behind a connection of 51 GB/s](drawing:inside_a_cpu)
#
# A CPU has a few **cores**. Each has vector units, which apply one instruction to several numbers at once,
# and small, fast memories, the **caches**. The picture shows the CPU of the reference machine. You can ask
# about your own:

# %% facts=["C3"] tags=["nbval-ignore-output"]
threads = torch.get_num_threads()

print("cores that the system counts:", os.cpu_count())
print("threads that PyTorch uses:   ", threads)
print("vector instructions in use:  ", torch.backends.cpu.get_cpu_capability())

# %% [markdown] facts=["C3"]
# A **thread** is a sequence of instructions. A core runs one thread at a time. For a large operation PyTorch
# divides the work among its threads, usually one for each physical core; `torch.set_num_threads` changes the
# number. Threads that have to share a core wait for each other.

# %% [markdown] facts=["C3"]
# ### Many numbers at once
#
# The vector units of most desktop CPUs multiply eight 32-bit floats by eight others and add eight more in one
# step, a *fused multiply-add*. So the peak of the reference machine's CPU is 4 cores · 3 · 10⁹ steps a second
# · 2 units · 8 floats · 2 operations = 384 · 10⁹ operations a second.
#
# A Python loop uses none of this. Each number is an object of its own, which the interpreter has to unpack,
# add, and pack again. Here are 100,000 additions in a Python loop, and the same in PyTorch, timed by
# **PyTorch's own stopwatch**, `torch.utils.benchmark.Timer`. It warms up, repeats, waits for the device, and
# uses one thread unless told otherwise.

# %% facts=["C3"]
guess = devlab.predict("About how many times as fast as the Python loop is the tensor?", 3, 30, 300)

# %% facts=["C3"] tags=["nbval-ignore-output"]
from torch.utils.benchmark import Timer

x = torch.arange(100_000.0)
values = x.tolist()

loop = Timer("[value + 1 for value in values]", globals={"values": values}).blocked_autorange().median
tensor = Timer("x + 1", globals={"x": x}).blocked_autorange().median
print(f"measured on this CPU: the loop {loop * 1e6:.0f} µs, the tensor {tensor * 1e6:.0f} µs")
print(f"the tensor is {loop / tensor:.0f} times as fast")
guess.was_about(loop / tensor)

# %% [markdown] facts=["C3"]
# So before you send slow code to a GPU, check whether it is a loop over single numbers.

# %% [markdown] facts=["C2", "C3"]
# ### Caches and pages
#
# What was used a moment ago is still in a cache, as long as it fits. The last cache of a desktop CPU holds
# some tens of megabytes; that of Intel's Core i7-13700K has 30, by Intel's product page. The cell adds 1 to
# every number of a tensor, again and again, and prints how many bytes a second went in and out.

# %% facts=["C3"]
guess = devlab.predict("Bytes per second: a tensor of 1 MB ÷ a tensor of 256 MB?", 1, 3, 30)

# %% facts=["C3"] tags=["nbval-ignore-output"]
rates = []
for megabytes in (1, 256):
    x = torch.zeros(megabytes * 250_000)
    seconds = Timer("x.add_(1)", globals={"x": x}).blocked_autorange().median
    rates.append(2 * x.nbytes / seconds / 1e9)
    print(f"{megabytes:4} MB {rates[-1]:6.1f} GB/s, measured on this CPU")
guess.was_about(rates[0] / rates[1])
del x

# %% [markdown] facts=["C2", "C3"]
# Memory is fetched in fixed pieces, called **lines**, of 64 bytes on most CPUs. NVIDIA's GPUs fetch 32 bytes
# or more. So numbers that lie side by side are read faster than scattered ones on both, and for convolutions
# `x.to(memory_format=torch.channels_last)` puts the colours of a point side by side. The operating system
# hands memory out in **pages**, of 4096 bytes on most machines, and only when a program first writes to them,
# which is one reason why the first use of anything is no measurement.

# %% [markdown] facts=["C3"]
# ## What the CPU is good at
#
# | work | why the CPU |
# |---|---|
# | **preparing data** | files, text and pictures are there already, and each record is different |
# | **small models** | the work is done before an accelerator has been told about it |
# | **debugging** | errors come at once, at the line that caused them |
# | **what the accelerator lacks** | Apple's GPUs have no `float64`; now and then an operator is missing |
#
# The third row deserves an example. A model knows 4 classes, and one of the labels is 7:

# %% facts=["C3"]
scores = torch.randn(3, 4)
labels = torch.tensor([0, 3, 7])
try:
    torch.nn.functional.cross_entropy(scores, labels)
except IndexError as error:
    print(error)

# %% [markdown] facts=["C3"]
# A plain message, at the right line, and the notebook goes on. On an NVIDIA GPU the same mistake says
# *device-side assert triggered*, often at some later and innocent line, and after it no CUDA call works in
# that process, which has to be restarted. So a good first step with a puzzling GPU error is to run the
# failing batch once on the CPU.

# %% [markdown] facts=["V2"]
# ## When the CPU wins
#
# A launch takes as long for little work as for much. So the question is how much work one launch buys.
# Multiplying two n × n matrices takes 2 n³ operations. Some arithmetic for the reference machine of lesson
# 00, modelled, shows at which n it is worth sending the work away.

# %% facts=["V2"]
sizes = (8, 32, 128, 512, 1024, 2048)
guess = devlab.predict(
    "On the reference machine: the smallest n at which the accelerator wins, three transfers included?",
    *sizes,
)

# %% facts=["V2"]
from devlab.sim.specs import CUDA_LIKE, HOST

print("   n     CPU   accelerator   with transfers   µs (modelled)")
wins = []
for n in sizes:
    operations, size = 2 * n**3, 4 * n**2
    cpu = HOST.call + operations / HOST.rate
    accelerator = CUDA_LIKE.product + CUDA_LIKE.shortest + operations / CUDA_LIKE.rate
    transfer = CUDA_LIKE.launch + CUDA_LIKE.shortest + size / CUDA_LIKE.pageable
    moved = accelerator + 3 * transfer  # two matrices there, one back
    print(f"{n:4} {cpu * 1e6:7.0f} {accelerator * 1e6:13.0f} {moved * 1e6:16.0f}")
    if moved < cpu:
        wins.append(n)
guess.was(wins[0])

# %% [markdown] facts=["V2"]
# With 8 × 8 matrices, a processor that calculates 21 times as fast takes ten times as long: it spends its
# time being told what to do. With 2048 × 2048 it wins by far. **Small work belongs to the CPU.** In between
# it depends on where the data is already, and on the machine. This is what was measured on an H200, beside a
# CPU that used one thread:
#
# | n | CPU | H200, measured | each transfer there |
# |---|---|---|---|
# | 32 | {measured:crossover:matrix product, float32, 32 x 32:cpu} | {measured:crossover:matrix product, float32, 32 x 32:device} | {measured:crossover:matrix product, float32, 32 x 32:transfer} |
# | 128 | {measured:crossover:matrix product, float32, 128 x 128:cpu} | {measured:crossover:matrix product, float32, 128 x 128:device} | {measured:crossover:matrix product, float32, 128 x 128:transfer} |
# | 512 | {measured:crossover:matrix product, float32, 512 x 512:cpu} | {measured:crossover:matrix product, float32, 512 x 512:device} | {measured:crossover:matrix product, float32, 512 x 512:transfer} |
# | 2048 | {measured:crossover:matrix product, float32, 2048 x 2048:cpu} | {measured:crossover:matrix product, float32, 2048 x 2048:device} | {measured:crossover:matrix product, float32, 2048 x 2048:transfer} |
#
# Here n = 512 is enough, even with the transfers. In lesson 07 you measure your own.

# %% [markdown] facts=["V2"]
# ### Branching work
#
# The second kind of work is worse for the accelerator. Take a number on it. If it is even, halve it,
# otherwise triple it and add 1, and repeat this until it is 1. It is the CPU that runs your `while` and your
# `if`.

# %% facts=["V2"]
guess = devlab.predict("How many transfers does each step take?", 0, 1, 2)

# %% facts=["V2"]
x, steps = torch.tensor(27, device=device), 0

with devlab.watch() as log:
    while x > 1:
        x = x // 2 if x % 2 == 0 else 3 * x + 1
        steps += 1

print(f"{steps} steps, {log.transfers} transfers")
guess.was_about(log.transfers / steps)

# %% [markdown] facts=["V2"]
# At each step the CPU asks twice, and each time it stands waiting for a yes or no. A bigger accelerator does
# not help, because there is never more than one small thing to do. Parsing text, walking trees, anything that
# decides at every step is like this. **Branching work belongs to the CPU**, unless the same step can be taken
# for many numbers at once:

# %% facts=["V2"]
x = torch.arange(1, 1001, device=device)

with devlab.watch() as log:
    x = torch.where(x % 2 == 0, x // 2, 3 * x + 1)

print("a step for", x.numel(), "numbers, transfers:", log.transfers)

# %% [markdown] facts=["V2"]
# The third kind is **work that is not supported**: strings, Python objects, a dtype or an operation that this
# accelerator does not have. There the CPU is the only one in the race, as lesson 03 shows in code.

# %% [markdown]
# ## What to keep
#
# - New tensors and new models go to the CPU unless you say otherwise, and the default is a setting. Say the
#   device and the dtype where they matter.
# - CPU tensors live in system memory, with NumPy and everything else. A small view keeps its whole storage
#   alive.
# - Data loads on the CPU, is prepared there, and moves batch by batch. Look into every container.
# - Make helpers from the data, or use a Python number. `torch.ones(n)` is on the CPU and `float32`.
# - One operation on a tensor uses a CPU's vector units; a Python loop does not. What fits into a cache is
#   fast.
# - Small, branching or unsupported work is faster on the CPU, or possible there alone.
#
# **Now do it:** [the exercises of this lesson](../exercises/01_cpu.ipynb), five functions. **Then:** [02
# CUDA](02_cuda.ipynb), the accelerator that most programs are written for.
