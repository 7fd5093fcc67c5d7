# %% [markdown]
# # 01 The CPU
#
# Every computer has this device, every data set passes through it, and every GPU program is run by it.
# People who own a GPU tend to think of the CPU as the slow one. It is rather the one that can do anything,
# and you will see work that it wins.
#
# After this lesson you can say where a new tensor goes and why, count the bytes that it takes and the bytes
# that it keeps alive, prepare data so that the code runs on any device, and tell work that should stay on
# the CPU.
#
# **Takes** about 35 minutes. **Needs** [00 Start here](00_start_here.ipynb).

# %%
import numpy as np
import torch

import devlab

device = devlab.start()
torch.set_printoptions(precision=3, sci_mode=False)

# %% [markdown]
# ## Where new tensors go
#
# There is an accelerator on this bench, real or simulated. Here are five ways to make new numbers, and none
# of them mentions a device. Make a guess first; a guess is remembered, counted by `devlab.progress()`, and never graded.

# %% facts=["C1"]
guess = devlab.predict("How many of the five will be on the accelerator?", "none", "some", "all five")

# %% facts=["C1"]
new = {
    "torch.zeros(2, 3)": torch.zeros(2, 3),
    "torch.tensor([1.5, 2.5])": torch.tensor([1.5, 2.5]),
    "torch.arange(4)": torch.arange(4),
    "torch.randn(2, 3)": torch.randn(2, 3),
    "torch.nn.Linear(3, 2).weight": torch.nn.Linear(3, 2).weight,
}
for code, x in new.items():
    print(f"{code:<30} {x.device}")

there = sum(x.device.type != "cpu" for x in new.values())
guess.was("none" if there == 0 else "all five" if there == 5 else "some")

# %% [markdown] facts=["C1"]
# None. **Creation defaults to the CPU**, models included, whatever else is in the machine. PyTorch does not
# look for a better place, and that is a kindness: the same line does the same thing on every computer. To
# make a tensor elsewhere, say so when you make it:

# %% facts=["C1"]
print(torch.zeros(2, 3, device=device).device)

# %% [markdown]
# ## A default is a setting
#
# A default is what happens when you say nothing, and someone may have said something before you. The
# default device can be changed for a block, or for the rest of the program with `torch.set_default_device`.
# Five lines again, now inside such a block. Which of them does it move?

# %% facts=["C1"]
here = torch.zeros(2)  # made outside of the block, on the CPU

with torch.device(device):
    inside = {
        "torch.zeros(2)": torch.zeros(2),
        "torch.tensor([1.5, 2.5])": torch.tensor([1.5, 2.5]),
        "torch.zeros_like(here)": torch.zeros_like(here),
        "here * 2": here * 2,
        "torch.from_numpy(np.ones(2))": torch.from_numpy(np.ones(2)),
    }
for code, x in inside.items():
    print(f"{code:<30} {x.device}")

# %% [markdown] facts=["C1"]
# The setting decides for tensors made *from nothing*. What is made from an existing tensor stays with that
# tensor, and `from_numpy` wraps memory that NumPy already has, which no setting can move.
#
# So a line such as `torch.tensor(rows)` means *on the CPU* only as long as nobody changed the setting. In a
# notebook of your own you know. In a function that others call you do not: if it has to return a CPU
# tensor, let it say `device="cpu"`.
#
# The dtype has its own default, and the numbers have a say in it too. Predict the four dtypes:

# %% facts=["C1"]
print(torch.tensor([[1.5, 2.0]]).dtype)
print(torch.tensor([[1, 2]]).dtype)
print(torch.tensor([[1, 2.0]]).dtype)
print(torch.from_numpy(np.array([[1.5, 2.0]])).dtype)

# %% [markdown] facts=["C1"]
# Whole numbers become `int64`, one fraction among them makes all `float32` (the default dtype, also a
# setting), and NumPy's floats are `float64` unless told otherwise. A data file in which a column happens to
# hold only whole numbers today gives you another dtype tomorrow. When it matters, state it:
# `dtype=torch.float32`.
#
# **[Exercise](../exercises/01_cpu.ipynb#task_load_table):** `load_table`.

# %% [markdown]
# ## System memory
#
# The CPU's memory is the ordinary memory of the computer, the one that Python's lists, NumPy's arrays and
# your browser live in. It follows that other programs' libraries can look at a CPU tensor without a copy.
# Here NumPy makes an array, PyTorch wraps it, and then *NumPy* writes a number. What will the tensor show?

# %% facts=["C2"]
array = np.zeros(3)
wrapped = torch.from_numpy(array)

array[1] = 7.0
print(wrapped)

# %% [markdown] facts=["C2"]
# One memory, two names for it. (Lesson 06 is about what to do with this, and what can go wrong.) Now the
# same wish from the other side, for a tensor in the accelerator's memory:

# %% facts=["C2"]
try:
    torch.zeros(3, device=device).numpy()
except TypeError as error:
    print(error)

# %% [markdown] facts=["C2"]
# NumPy cannot see that memory. The message calls the computer's own memory *host memory*: the machine is
# the host, the accelerator its guest. **CPU tensors live in system memory**, with everything else you run,
# and that is where almost every other library expects its data.

# %% [markdown]
# ## How many bytes
#
# Memory is the first thing you run out of, so learn to count it. A tensor knows how many elements it has,
# and how many bytes one of them takes. `nbytes` is the product.

# %% facts=["C2"]
images = torch.zeros(32, 3, 224, 224)  # a batch of 32 colour pictures

print("elements        ", images.numel())
print("bytes an element", images.element_size())
print("bytes           ", images.nbytes)

# %% [markdown]
# About 19 MB for 32 pictures, and nothing computed yet. The dtype is the factor you can choose. Which of
# these take the same?

# %% facts=["C2"]
floats = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
for dtype in [*floats, torch.int64, torch.uint8, torch.bool]:
    print(f"{dtype!s:<16} {torch.zeros(32, 3, 224, 224, dtype=dtype).nbytes / 1e6:6.1f} MB")

# %% [markdown] facts=["C2"]
# Three pairs of them: the 8-byte dtypes, the 2-byte ones, and the 1-byte ones, for a `bool` takes a whole
# byte to say yes or no. The pictures came from a file as `uint8`. Turning them into `float32` made them
# four times as big, which is worth knowing before you send them anywhere.
#
# A Python list is far bigger. In it each number is an object of its own, with a pointer to it, of 8 bytes on a
# 64-bit machine:

# %% facts=["C2"]
import sys

pointer = 8
print("a float in a list:  ", sys.getsizeof(1.5) + pointer, "bytes")
print("a float in a tensor:", torch.tensor([1.5]).element_size(), "bytes")

# %% [markdown]
# ## A view keeps the whole storage
#
# Now take one picture out of the batch and count again. `images[5]` is a *view*: it copies nothing and
# looks at a part of the memory that is already there, its **storage**. Two sizes are printed. Before you
# run it, which of them is the 602112 bytes of one picture?

# %% facts=["C2"]
one = images[5]

print("its elements:           ", one.nbytes)
print("the storage behind them:", one.untyped_storage().nbytes())

# %% [markdown] facts=["C2"]
# The view shows one picture, and the storage behind it holds all 32. As long as anything refers to a
# storage, all of it stays. Suppose you keep one picture from each batch, and throw the batches away:

# %% facts=["C2"]
del images
print("kept alive by the view:", one.untyped_storage().nbytes())

copy = one.clone()
print("kept alive by a copy:  ", copy.untyped_storage().nbytes())

# %% [markdown] facts=["C2"]
# `del images` removed a name, not the memory: `one` still needs the storage. A "memory leak" that someone
# hunts for days can be a list of small views. `clone()` takes what you want and lets the rest go.
#
# It can also be the other way round. `expand` shows the same memory many times:

# %% facts=["C2"]
row = torch.tensor([[0.5, 1.0, 1.5]])
tall = row.expand(1000, 3)

print("its elements, written out:", tall.nbytes)
print("the storage behind them:  ", tall.untyped_storage().nbytes())

# %% [markdown] facts=["C2"]
# Twelve bytes that look like twelve thousand. So `nbytes` is what the elements *would* take side by side,
# and the storage is what *is* there. Both questions have the same answer on every device, simulated ones
# included. They count what the tensor asked for; an accelerator's allocator may set aside a little more,
# which is the subject of lesson 08.
#
# **Exercises:** [`tensor_bytes`](../exercises/01_cpu.ipynb#task_tensor_bytes) and
# [`storage_bytes`](../exercises/01_cpu.ipynb#task_storage_bytes).

# %% [markdown]
# ## Data arrives here first
#
# ![Files, the network, NumPy arrays and Python lists lead to the CPU, which decodes, shuffles, cuts, pads, prints and saves; from the CPU, minibatches go to the accelerator, and a loss or a metric comes back](drawing:data_arrives_at_the_cpu)
#
# Here is a very small file: flats, their prices, and a column in which somebody wrote floor 1 for all of
# them.

# %% facts=["C4"]
file = """\
area,rooms,floor,price
72,3,1,265
110,5,1,390
54,2,1,199
135,6,1,512
"""

header, *lines = file.splitlines()
rows = [[float(cell) for cell in line.split(",")] for line in lines]
table = torch.tensor(rows, dtype=torch.float32, device="cpu")

print(header)
print(table)

# %% [markdown] facts=["C4"]
# Follow the data: bytes on a disk, text, a list of Python numbers, a tensor in system memory. All those
# steps are the CPU's: it reads files, unpacks pictures, splits text into words. Only at the end is there
# something that an accelerator could take. **Data loads into CPU memory first, and then it moves.**
#
# PyTorch's own loader works like that. An accelerator is present in this notebook. On which device will the
# batches be?

# %% facts=["C4"]
from torch.utils.data import DataLoader, TensorDataset

flats = TensorDataset(table[:, :3], table[:, 3])
loader = DataLoader(flats, batch_size=2)

for features, price in loader:
    print("features", list(features.shape), features.device, "  price", list(price.shape), price.device)

# %% [markdown] facts=["C4"]
# On the CPU. Moving is your line, and there is one natural place for it: right after the loader, one batch
# at a time, so that a data set far bigger than the accelerator's memory can pass through. (There are ways
# to read files straight into a GPU's memory. They need special hardware or libraries, and you will know if
# you use one.)

# %% facts=["C4"]
for features, price in loader:
    features, price = features.to(device), price.to(device)
    print(features.device, price.device)

# %% [markdown] facts=["C4"]
# What did that cost? `devlab.watch()` notes each copy between two devices, and the line it came from. Two
# batches, each of features and prices: say how many copies there will be, and how many bytes all in all.

# %% facts=["C4"]
with devlab.watch() as log:
    for features, price in loader:
        features, price = features.to(device), price.to(device)

print(log.transfers, "copies,", log.bytes_moved, "bytes")

# %% [markdown] facts=["C4"]
# Four rows of three features and a price, 4 bytes each: every number of the file was transferred, once. (Counts
# like these are the same on a simulated device and on a real one. The time that they take is not.)

# %% [markdown]
# ## Where is this batch
#
# Real batches are nested, and then it is quickly done to move one half. This one has been "moved". Look for
# what stayed behind, before the cell tells you:

# %% facts=["C4"]
features, price = next(iter(loader))
batch = {"inputs": [features.to(device), {"age": torch.ones(2)}], "target": price.to(device), "name": "flats"}

print("target       ", batch["target"].device)
print("inputs[0]    ", batch["inputs"][0].device)
print("inputs[1].age", batch["inputs"][1]["age"].device)

# %% [markdown] facts=["C4"]
# `age` sits in a dict in a list in a dict, and whoever moved the batch stopped one layer too early. A model
# that gets this batch stops with the error you met in lesson 00, in the middle of its `forward`, far from
# the line that forgot. A function that answers *on which devices is this batch?* finds it in one line. It
# has to look into every container, at any depth, which is a job for a function that calls itself:


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

# %% [markdown]
# The keys of a dict are not counted, its values are. Anything that is no container and no text counts for
# nothing. Your `places`, an [exercise](../exercises/01_cpu.ipynb#task_places), has
# the same shape and collects devices.

# %% [markdown]
# ## Prepare, then move
#
# Look at the table again: areas around 100, rooms around 4, prices in the hundreds. Networks learn badly
# from columns of such different size, so one usually **standardizes** first: from each column take away its
# mean, divide by its standard deviation. Preparing like this, once, before training, is typical work for
# the CPU.
#
# Before you run it: one of the four columns will not survive. Which, and what will be in it?

# %% facts=["C3"]
mean, deviation = table.mean(0), table.std(0)

print("mean     ", mean)
print("deviation", deviation)
print((table - mean) / deviation)

# %% [markdown] facts=["C3"]
# `mean(0)` runs down the rows and leaves one number for each column. The `floor` column has deviation 0,
# and 0 / 0 is `nan`, *not a number*. One `nan` in a batch is enough to turn the weights of a network into
# `nan` at the next training step, and as a rule no error is raised on the way.
#
# A constant column tells the network nothing, so it may as well be zeros. Divide it by 1:

# %% facts=["C3"]
safe = torch.where(deviation == 0, 1, deviation)
print((table - mean) / safe)

# %% [markdown]
# ## Helpers follow the data
#
# Someone else has the same idea and writes it with a tensor of ones. It is tested on the CPU, it works, it
# is shipped. Then somebody passes a table that is already on the accelerator. Which line stops, and why
# that one?


# %% facts=["C3", "C1"]
def standardize_on_monday(x):
    deviation = x.std(0)
    ones = torch.ones(x.shape[1])
    safe = torch.where(deviation == 0, ones, deviation)
    return (x - x.mean(0)) / safe


print("cpu:", standardize_on_monday(table)[0])
try:
    standardize_on_monday(table.to(device))
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["C3", "C1"]
# The error came at `torch.where`. Is that the line to mend? Decide first, then ask for a second opinion:

# %% facts=["C3", "C1"]
try:
    standardize_on_monday(table.to(device))
except RuntimeError as error:
    devlab.explain(error)

# %% [markdown] facts=["C3", "C1"]
# `torch.where` stops, and the culprit is the line above it: `torch.ones` is made from nothing, so it went
# to the CPU. On a machine without an accelerator this bug cannot be seen. It is there all the same.
#
# There is a second bug in that line, and this one shows on the CPU. Predict the two dtypes:

# %% facts=["C3"]
half = table.to(torch.float16)

print("Monday's way:          ", standardize_on_monday(half).dtype)
print("half / a Python number:", (half / 1.0).dtype)

# %% [markdown] facts=["C3"]
# The helper was `float32`, so the result became `float32`: twice the memory, and the next layer, which
# expects half, refuses it. A Python number has no device and takes the dtype of the tensor it meets. That
# is why `torch.where(deviation == 0, 1, deviation)` fits everywhere, and why it is worth asking of each
# helper: *does this have to be a tensor at all?* If it must, make it from the data:
# `torch.ones_like(deviation)`.
#
# **[Exercise](../exercises/01_cpu.ipynb#task_standardize):** `standardize`, for any device and dtype.

# %% [markdown] facts=["C3"]
# ## What else the CPU is for
#
# | work | why the CPU |
# |---|---|
# | **preparing data** | files, text and pictures are there already |
# | **small models** | the work is done before an accelerator has been told about it |
# | **debugging** | errors come at once, at the line that caused them, in words |
# | **what the accelerator lacks** | Apple's GPUs have no `float64`; now and then a kernel is missing |
#
# The third row deserves an example. A table of 4 word vectors is asked for word number 9:

# %% facts=["C3"]
vectors = torch.randn(4, 2)
words = torch.tensor([0, 3, 9])
try:
    torch.nn.functional.embedding(words, vectors)
except IndexError as error:
    print(error)

# %% [markdown] facts=["C3"]
# A plain message, at the right line, and the notebook goes on. On an NVIDIA GPU the same mistake says
# *device-side assert triggered*, often at some later and innocent line, and after it no CUDA call works in
# that process, which has to be restarted. So a good first step with a puzzling GPU error is to run the failing
# batch once on the CPU. (Lesson 07 lets it happen on the simulated device, which can be given back.)

# %% [markdown] facts=["V2"]
# ## When the CPU wins
#
# An accelerator does each piece of work in two moves: the CPU *launches* it, and the accelerator carries it
# out. The launch costs about the same for ten numbers and for ten million. So the question is how much work
# one launch buys. Multiplying two n × n matrices takes 2 n³ operations. Let us do some arithmetic for the
# **reference machine** of lesson 00. Its figures are a model of such hardware and not measured on yours:
#
# | | CPU | accelerator |
# |---|---|---|
# | float32 operations a second | 384 · 10⁹ | 8.1 · 10¹², 21 times as many |
# | before it can compute | 1 µs for the call | 5 µs for the launch, and 2 µs until the device is at work |
# | two matrices there, one back | nothing | 7 µs for each, and 4 GB/s |
#
# At which n would you send the work away?

# %% facts=["V2"]
from devlab.sim.specs import CUDA_LIKE, HOST

print("                    µs on the    µs on the  µs there, with")
print("   n     operations       CPU  accelerator   the transfers  first")
for n in (8, 32, 128, 512, 2048):
    operations, size = 2 * n**3, 4 * n**2
    to_start = CUDA_LIKE.launch + CUDA_LIKE.shortest
    cpu = HOST.call + operations / HOST.rate
    accelerator = to_start + operations / CUDA_LIKE.rate
    moved = accelerator + 3 * (to_start + size / CUDA_LIKE.pageable)
    first = "CPU" if cpu < accelerator else "accelerator" if moved < cpu else "depends on where the data is"
    print(f"{n:4} {operations:14,} {cpu * 1e6:9.0f} {accelerator * 1e6:12.0f} {moved * 1e6:15.0f}  {first}")

# %% [markdown] facts=["V2"]
# With 8 × 8 matrices, a processor 21 times as strong comes in seven times as late: it spends its time
# being told what to do. With 2048 × 2048 it wins by far, and by a factor of three with the transfers. **Small work
# belongs to the CPU.** In between it depends on where the data is already. Where exactly the lines run depends on the
# machine, and in lesson 07 you measure it rather than believe this table.

# %% [markdown] facts=["V2"]
# ### Branching work
#
# The second kind of work is worse. Take a number; if it is even, halve it, otherwise take three times the
# number and one; go on until it is 1. Each step must *know* the last result before it can choose the next
# operation, and it is the CPU that runs your `if`. With the number on the accelerator, every `if` is a
# transfer, and a wait for it. How many questions does it take to bring the number 27 to 1?

# %% facts=["V2"]
x = torch.tensor(27, device=device)
questions = 1  # is x above 1?
while x > 1:
    x = x // 2 if x % 2 == 0 else 3 * x + 1
    questions += 2  # was it even? and is it still above 1?

print("questions:", questions)

# %% [markdown] facts=["V2"]
# More than two hundred times the accelerator computes one number and the CPU stands waiting for a yes or
# no. No size of accelerator helps: there is never more than one small thing to do. A Python integer on the
# CPU needs none of those transfers. Parsing text, walking trees, anything that decides at every step is like
# this. **Branching work belongs to the CPU**, unless you can turn it into one operation over many numbers:

# %% facts=["V2"]
x = torch.arange(1, 1001, device=device)
x = torch.where(x % 2 == 0, x // 2, 3 * x + 1)

print("a step for", x.numel(), "numbers, questions: 0")

# %% [markdown] facts=["V2"]
# The third kind is **work that is not supported**: strings, Python objects, a dtype or an operation that
# this accelerator does not have. There the CPU wins because it is the only one to run. You bring the data
# home, do that one thing, and bring the result back; lesson 03 does so in code.

# %% [markdown]
# ## What to keep
#
# - New tensors and new models go to the CPU unless you say otherwise, and the default is a setting. Say the
#   device and the dtype where they matter.
# - CPU tensors live in system memory, with NumPy and everyone else. `nbytes` is what the elements take, the
#   storage is what is kept alive.
# - Data loads on the CPU, is prepared there, and moves batch by batch. Look into every container.
# - Make helpers from the data, or use a Python number. `torch.ones(n)` is on the CPU and `float32`.
# - Small, branching or unsupported work is faster on the CPU, or possible there alone.
#
# **Now do it:** [the exercises of this lesson](../exercises/01_cpu.ipynb), five functions.
# **Then:** [02 CUDA](02_cuda.ipynb), the accelerator most people mean.
