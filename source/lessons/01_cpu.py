# %% [markdown]
# # 01 The CPU
#
# Every computer has this device, every data set passes through it, and every GPU program is run by it. Owners of a GPU
# tend to think of the CPU as the slow one. It is rather the one that can do anything, and in this lesson you see work
# that it wins.
#
# After this lesson you can say what a CPU is made of and what it is good at, where a new tensor goes and why, how many
# bytes it takes and how many it keeps alive. You can prepare data so that the code runs on any device, and tell which
# work should stay on the CPU.
#
# **Takes** about 50 minutes. **Needs** [00 Start here](00_start_here.ipynb).

# %%
import io
import mmap
import os
import time

import numpy as np
import torch

import devlab

device = devlab.start()
torch.set_printoptions(precision=3, sci_mode=False)

# %% [markdown] facts=["C3"]
# ## Inside a CPU
#
# ![A CPU with four cores. Each core has a unit that works on eight numbers at once, and caches of its own; below them is a cache that all cores share, and outside of the chip is the system memory, in pages of 4 KiB, behind a connection of 51 GB/s](drawing:inside_a_cpu)
#
# A CPU has a few **cores**, and each of them runs a program of its own. Each core has vector units, which apply one
# instruction to several numbers at once, and small, fast memories, the **caches**, which keep what was used last.
# Behind them all is the system memory. The picture shows the CPU of the reference machine. About your own you can ask PyTorch:

# %% facts=["C3"] tags=["nbval-ignore-output"]
threads = torch.get_num_threads()

print("cores that the system counts:", os.cpu_count())
print("threads that PyTorch uses:   ", threads)
print("vector instructions in use:  ", torch.backends.cpu.get_cpu_capability())

# %% [markdown] facts=["C3"]
# A **thread** is a piece of a program that one core runs. For a large operation PyTorch divides the work among its
# threads, usually one for each physical core. (The system often counts each core twice, because a core can keep two
# threads at hand. For arithmetic that gains little.) `torch.set_num_threads` changes the number, and so does the
# environment variable `OMP_NUM_THREADS`, which has to be set before Python starts.
#
# More threads are not always better. An operation on fewer than 32768 elements is not divided at all, because it would
# take longer to wake the other threads than to do the work. (Products of matrices are divided by rules of their own.)

# %% facts=["C3"] tags=["nbval-ignore-output"]
large, small = torch.ones(1024, 1024), torch.ones(100, 100)

for count in (1, max(2, threads)):
    torch.set_num_threads(count)
    product = devlab.time_op(lambda: large @ large, "cpu", repeats=5, show=False).median
    addition = devlab.time_op(lambda: small + 1, "cpu", show=False).median
    print(
        f"{count} thread(s): a product of 1024 × 1024 {product * 1e3:6.1f} ms, 10 000 additions {addition * 1e6:4.1f} µs"
    )
torch.set_num_threads(threads)

# %% [markdown] facts=["C3"]
# These times are measured on the machine that ran the cell. On a quiet one the product gains nearly as much as there
# are cores, and the small addition gains nothing. On a busy machine the product may even lose, since threads that have
# to share a core wait for each other. Remember this when a program starts several processes, such as the workers of a
# data loader: each of them brings threads of its own.

# %% [markdown] facts=["C3"]
# ### Many numbers at once
#
# The vector units are called **SIMD**: *single instruction, multiple data*. With AVX2, eight 32-bit floats are
# multiplied by eight others in one step, and eight more are added to the result. This is where the peak of the
# reference machine's CPU comes from: 4 cores · 3 · 10⁹ steps a second · 2 units · 8 floats · 2 operations = 384 · 10⁹
# operations a second.
#
# A Python loop uses none of this. For each single number the interpreter looks up what `+` means, makes a new object,
# and stores a pointer to it. Here are 100 000 additions in a Python loop, and the same on one thread of PyTorch.

# %% facts=["C3"]
guess = devlab.predict(
    "How many times as fast as the Python loop is the tensor?",
    "up to 10 times",
    "10 to 100 times",
    "more than 100 times",
)

# %% facts=["C3"] tags=["nbval-ignore-output"]
x = torch.arange(100_000.0)
values = x.tolist()
torch.set_num_threads(1)

loop = devlab.time_op(lambda: [value + 1 for value in values], "cpu", repeats=5, show=False).median
tensor = devlab.time_op(lambda: x + 1, "cpu", show=False).median
print(f"the loop {loop * 1e6:7.0f} µs, the tensor {tensor * 1e6:5.0f} µs, {loop / tensor:.0f} times as fast")
guess.was(
    "more than 100 times"
    if loop > 100 * tensor
    else "10 to 100 times"
    if loop > 10 * tensor
    else "up to 10 times"
)

# %% [markdown] facts=["C3"]
# So before you send slow code to a GPU, check whether it is a loop over single numbers. Written as one operation on a
# tensor, it may be quick enough where it is.

# %% [markdown] facts=["C3"]
# ### Caches
#
# A core can add far faster than the system memory delivers. The caches bridge the gap: what was read or written a
# moment ago is still in one of them, as long as it fits. The cell adds 1 to every number of a tensor, again and again,
# for tensors of four sizes, and prints how many bytes a second went in and out.

# %% facts=["C3"]
guess = devlab.predict(
    "Compared with 1 MB, at what rate are the numbers of a tensor of 256 MB worked on?",
    "about the same",
    "less than two thirds of it",
)

# %% facts=["C3"] tags=["nbval-ignore-output"]
rates = {}
for kilobytes in (64, 1024, 16 * 1024, 256 * 1024):
    x = torch.zeros(kilobytes * 256)
    seconds = devlab.time_op(lambda x=x: x.add_(1), "cpu", repeats=5, show=False).median
    rates[kilobytes] = 2 * x.nbytes / seconds / 1e9
    print(f"{kilobytes / 1024:9.4g} MB {rates[kilobytes]:6.1f} GB/s")
guess.was("less than two thirds of it" if rates[256 * 1024] < rates[1024] / 1.5 else "about the same")

# %% [markdown] facts=["C3"]
# On most machines the rate rises at first, because the time for the call counts less and less, and falls where the
# tensor no longer fits into the caches. Makers document how large these are:
#
# | CPU, documented by its maker | cores | last cache | system memory |
# |---|---|---|---|
# | reference machine (modelled) | 4 | – | 51 GB/s |
# | Intel Core i7-13700K | 16, of two kinds | 30 MB | 90 GB/s |
# | Apple M4 | 10, of two kinds | – | 120 GB/s, shared with its GPU |
# | AMD EPYC 9654 (a server) | 96 | 384 MB | 461 GB/s |
#
# (Sources: Intel's and AMD's product pages, and Apple's announcement of the M4 in May 2024. These are peaks, not
# measurements. A dash stands for what is not published, or not modelled.)
#
# Memory is fetched in lines of 64 bytes or more, which is sixteen floats, and always a whole line. A program that reads
# every sixteenth number therefore waits for as many lines as one that reads all of them:

# %% facts=["C3"] tags=["nbval-ignore-output"]
table = torch.ones(500_000, 16)
column = table[:, 0]  # a view: its numbers are 64 bytes apart
packed = column.clone()  # the same numbers, side by side

apart = devlab.time_op(lambda: column + 1, "cpu", repeats=5, show=False).median
beside = devlab.time_op(lambda: packed + 1, "cpu", repeats=5, show=False).median
print(f"64 bytes apart {apart * 1e6:6.0f} µs, side by side {beside * 1e6:6.0f} µs")

# %% [markdown] facts=["C3"]
# The same half a million additions take many times as long when their numbers are scattered. A GPU has the same weakness.

# %% [markdown] facts=["C2"]
# ### Memory comes in pages
#
# The operating system hands out memory in **pages**, of 4096 bytes on most machines. And it does so late. When
# `torch.empty` asks for 128 MB, the system only notes that these addresses are in use. A page of real memory is put
# behind an address when something is first written there. The cell fills the same fresh memory twice.

# %% facts=["C2"]
guess = devlab.predict(
    "Which of the two takes longer?", "the first fill", "the second fill", "they take about the same time"
)

# %% facts=["C2"] tags=["nbval-ignore-output"]
print("a page has", mmap.PAGESIZE, "bytes")
x = torch.empty(32 * 2**20)
took = []
for _ in range(2):
    begun = time.perf_counter()
    x.fill_(1)
    took.append(time.perf_counter() - begun)

first, second = took
print(f"first {first * 1e3:6.1f} ms, second {second * 1e3:6.1f} ms")
guess.was(
    "the first fill"
    if first > 1.3 * second
    else "the second fill"
    if second > 1.3 * first
    else "they take about the same time"
)
torch.set_num_threads(threads)
del x

# %% [markdown] facts=["C2"]
# The first fill has to wait for a page every 4096 bytes. This is why the first use of anything is no measurement, neither
# on the CPU nor on a GPU.
#
# The system may also move a page elsewhere, or write it to disk, without telling your program. Such memory is called
# **pageable**. A GPU that fetches data by itself cannot work with pages that move; for that, memory can be **pinned** to
# its place. Lesson 04 makes use of it.

# %% [markdown] facts=["C3"]
# ### What the CPU is good at
#
# A core guesses which way an `if` will go, works ahead on that guess, and is usually right. It fetches what a program
# will probably read next. It switches between a hundred programs without losing any of them. All this serves one aim,
# that a *single* chain of steps, each of which depends on the last, gets to its end soon.
#
# | work | why the CPU |
# |---|---|
# | **preparing data** | files, text and pictures are there already, and each record is different |
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
# A plain message, at the right line, and the notebook goes on. On an NVIDIA GPU the same mistake says *device-side
# assert triggered*, often at some later and innocent line, and after it no CUDA call works in that process, which has to
# be restarted. So a good first step with a puzzling GPU error is to run the failing batch once on the CPU. (Lesson 07
# lets it happen on the simulated device, which can be given back.)

# %% [markdown]
# ## Where new tensors go
#
# There is an accelerator on this bench, real or simulated. Here are five ways to make new numbers, and none of them
# mentions a device.

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
# **Creation defaults to the CPU**, models included, whatever else is in the machine. PyTorch does not look for a better
# place, and that is a kindness: the same line does the same thing on every computer. To make a tensor elsewhere, say so
# when you make it:

# %% facts=["C1"]
print(torch.zeros(2, 3, device=device).device)

# %% [markdown]
# ## A default is a setting
#
# A default is what happens when you say nothing, and another part of the program may have said something before you. The
# default device can be changed for a block, or for the rest of the program with `torch.set_default_device`. Here are
# five lines again, now inside such a block. See which of them it moves.

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
# The setting decides for tensors that are made *from nothing*, or from Python numbers. What is made from an existing
# tensor stays with that tensor, and `from_numpy` wraps memory that NumPy already has, which no setting can move.
#
# So a line that names no device means *on the CPU* only as long as the setting is what it was at the start. In a
# notebook of your own you know that. In a function that others call you do not, and such a function had better name the
# device that it promises.
#
# The dtype has a default of its own, and the numbers have a say in it too:

# %% facts=["C1"]
print(torch.tensor([[1.5, 2.0]]).dtype)
print(torch.tensor([[1, 2]]).dtype)
print(torch.tensor([[1, 2.0]]).dtype)
print(torch.from_numpy(np.array([[1.5, 2.0]])).dtype)

# %% [markdown] facts=["C1"]
# Whole numbers become `int64`, one fraction among them makes all of them `float32`, which is the default dtype and also
# a setting, and NumPy's floats are `float64` unless told otherwise. A data file in which a column happens to hold only
# whole numbers today gives you another dtype tomorrow. When the dtype matters, state it.
#
# **[Exercise](../exercises/01_cpu.ipynb#task_load_table):** `load_table`, a function that keeps its promise whatever
# the two settings are.

# %% [markdown]
# ## System memory
#
# The CPU's memory is the ordinary memory of the computer, in which Python's lists, NumPy's arrays and your browser live.
# So the libraries of other programs can look at a CPU tensor without a copy. Here NumPy makes an array, PyTorch wraps
# it, and then *NumPy* writes a number:

# %% facts=["C2"]
array = np.zeros(3)
wrapped = torch.from_numpy(array)

array[1] = 7.0
print(wrapped)

# %% [markdown] facts=["C2"]
# It is one memory with two names. (Lesson 06 is about what to do with this, and what can go wrong.) Now the same wish
# from the other side, for a tensor in the accelerator's memory:

# %% facts=["C2"]
try:
    torch.zeros(3, device=device).numpy()
except TypeError as error:
    print(error)

# %% [markdown] facts=["C2"]
# NumPy cannot see that memory. The message calls the computer's own memory *host memory*. **CPU tensors live in system
# memory**, with everything else that you run, and that is where almost every other library expects its data.

# %% [markdown] facts=["C2"]
# ## How many bytes
#
# Memory is the first thing that you run out of, so learn to count it. A tensor knows how many elements it has, and its
# dtype knows how many bytes one of them takes.

# %% facts=["C2"]
images = torch.zeros(32, 3, 224, 224)  # a batch of 32 colour pictures
print(f"{images.numel():,} elements\n")

for dtype in [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.uint8,
    torch.bool,
]:
    print(f"{dtype!s:<16} {dtype.itemsize} bytes an element")

# %% [markdown] facts=["C2"]
# About 19 MB in `float32`, and nothing has been computed yet. The dtype is the factor that you can choose. The pictures
# came from a file as `uint8`, and turning them into `float32` made them four times as big, which is worth knowing before
# you send them anywhere. A `bool` takes a whole byte to say yes or no.
#
# A Python list is far bigger. In it each number is an object of its own, with a pointer to it, of 8 bytes on a 64-bit
# machine:

# %% facts=["C2"]
import sys

pointer = 8
print("a float in a list:  ", sys.getsizeof(1.5) + pointer, "bytes")
print("a float in a tensor:", torch.float32.itemsize, "bytes")

# %% [markdown] facts=["C2"]
# **[Exercise](../exercises/01_cpu.ipynb#task_tensor_bytes):** `tensor_bytes`, for tensors of any dtype and shape.

# %% [markdown]
# ## A view keeps the whole storage
#
# Now take one picture out of the batch. `images[5]` is a *view*: it copies nothing and looks at a part of the memory
# that is already there, its **storage**. One picture has 602 112 bytes. Suppose that you save it to a file, with
# `torch.save`. (The cell writes to memory in place of a file, and counts the bytes.)

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
# `torch.save` writes the storage, because several tensors may share it and are to share it again when they are loaded.
# The same holds in memory: the view shows one picture, and the storage behind it holds all 32. As long as anything
# refers to a storage, all of it stays. `del images` would remove a name and not the memory, for `one` still needs it. A
# "memory leak" that is hunted for days can be a list of small views. `clone()` takes what you want and lets the rest go.
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
# The step to the next row is 0, so three numbers look like three thousand. There are two questions, then: how many bytes
# the elements *would* take side by side, and how many bytes *are* there, in the storage, which is
# `tall.untyped_storage()`. Both have the same answers on every device, simulated ones included. They count what the tensor asked for. An accelerator's allocator may
# set aside a little more, which is the subject of lesson 08.
#
# **[Exercise](../exercises/01_cpu.ipynb#task_storage_bytes):** `storage_bytes`, which answers the second question in bytes.

# %% [markdown] facts=["C4"]
# ## Data arrives here first
#
# ![Files, the network, NumPy arrays and Python lists lead to the CPU, which decodes, shuffles, cuts, pads, prints and saves; from the CPU, minibatches go to the accelerator, and a loss or a metric comes back](drawing:data_arrives_at_the_cpu)
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
# Follow the data: bytes on a disk, text, NumPy's numbers, a tensor in system memory. All these steps are the CPU's, which
# reads files, unpacks pictures and splits text into words. Only at the end is there something that an accelerator could
# take. **Data loads into CPU memory first, and then it moves.** (There are ways to read files straight into a GPU's
# memory. They need special hardware or libraries, and you will know if you use one.)
#
# PyTorch's own loader works like that, although an accelerator is present:

# %% facts=["C4"]
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(flats[:, :3], flats[:, 3]), batch_size=2)

with devlab.watch() as log:
    for features, price in loader:
        print("from the loader:", features.device, price.device, end="   ")
        features, price = features.to(device), price.to(device)
        print("then:", features.device, price.device)

print(log.transfers, "transfers,", log.bytes_moved, "bytes")

# %% [markdown] facts=["C4"]
# Moving is your line, and there is one natural place for it: right after the loader, one batch at a time, so that a data
# set far bigger than the accelerator's memory can pass through. `devlab.watch()` has counted the transfers: four rows of
# three features and a price, 4 bytes each, so every number of the file was transferred once. (Counts like these are the
# same on a simulated device and on a real one. The time that they take is not.)

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
# `age` sits in a dict in a list in a dict, and the line that moved the batch stopped one layer too early. A model that
# gets this batch stops with the error that you met in lesson 00, in the middle of its `forward`, far from the line that
# forgot. A function that answers *on which devices is this batch?* finds it in one line. It has to look into every
# container, at any depth, which is a job for a function that calls itself. Here is one that counts strings:


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
# The keys of a dict are not counted, its values are. Anything that is neither a container nor a text counts for nothing.
#
# **[Exercise](../exercises/01_cpu.ipynb#task_places):** `places`, which has the same shape and collects devices.

# %% [markdown] facts=["C3"]
# ## Prepare, then move
#
# Look at the flats again: areas around 100, rooms around 4, prices in the hundreds. Networks learn badly from columns of
# such different size, so columns are brought to a common scale first. Preparing like this, once, before training, is
# typical work for the CPU. One way is to map each column to the range from 0 to 1: take away its smallest number, and
# divide by the distance from the smallest to the largest.

# %% facts=["C3"]
low, high = flats.amin(0), flats.amax(0)

print("low  ", low)
print("high ", high)
print((flats - low) / (high - low))

# %% [markdown] facts=["C3"]
# `amin(0)` runs down the rows and leaves one number for each column. In the `floor` column all numbers are equal, the
# distance is 0, and 0 / 0 is `nan`, *not a number*. One `nan` in a batch is enough to turn all weights of a network into
# `nan` at the next training step, and as a rule no error is raised on the way.
#
# A constant column tells the network nothing, so it may as well be zeros. For that it can be divided by 1:

# %% facts=["C3"]
width = high - low
print((flats - low) / torch.where(width == 0, 1, width))

# %% [markdown] facts=["C3", "C1"]
# ## Helpers follow the data
#
# Suppose that the same idea is written with a tensor of ones. It is tested on the CPU, it works, and it is released.
# Then the function is given a table that is already on the accelerator:


# %% facts=["C3", "C1"]
def to_range_on_monday(x):
    width = x.amax(0) - x.amin(0)
    ones = torch.ones(x.shape[1])
    return (x - x.amin(0)) / torch.where(width == 0, ones, width)


print("cpu:", to_range_on_monday(flats)[0])
try:
    to_range_on_monday(flats.to(device))
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["C3", "C1"]
# The error came at `torch.where`. Decide whether that is the line to mend, and then ask for a second opinion:

# %% facts=["C3", "C1"]
try:
    to_range_on_monday(flats.to(device))
except RuntimeError as error:
    devlab.explain(error)

# %% [markdown] facts=["C3", "C1"]
# `torch.where` stops, and the culprit is the line above it: `torch.ones` is made from nothing, so it went to the CPU. On
# a machine without an accelerator this bug cannot be seen. It is there all the same.
#
# There is a second bug in that line, and this one shows on the CPU. Compare what becomes of a table in half precision:

# %% facts=["C3"]
half = flats.to(torch.float16)

print("Monday's way:          ", to_range_on_monday(half).dtype)
print("half / a Python number:", (half / 1.0).dtype)

# %% [markdown] facts=["C3"]
# The helper was `float32`, so the result became `float32`: it takes twice the memory, and the next layer, which expects
# half precision, refuses it. A Python number has no device and takes the dtype of the tensor that it meets. That is why
# the plain `1` above fits everywhere, and why it is worth asking of each helper *does this have to be a tensor at all?*
# If it must, make it from the data: `torch.ones_like(width)`.
#
# **[Exercise](../exercises/01_cpu.ipynb#task_standardize):** `standardize`, the other common scale: mean 0 and standard
# deviation 1 in each column, for any device and any floating dtype.

# %% [markdown] facts=["V2"]
# ## When the CPU wins
#
# An accelerator does each piece of work in two moves: the CPU *launches* it, and the accelerator carries it out. The
# launch takes about as long for ten numbers as for ten million. So the question is how much work one launch buys.
# Multiplying two n × n matrices takes 2 n³ operations. Some arithmetic for the reference machine of lesson 00 shows at
# which n it is worth sending the work away. The figures are modelled, and not measured on your machine:

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
# With 8 × 8 matrices, a processor that calculates 21 times as fast comes in seven times as late: it spends its time being
# told what to do. With 2048 × 2048 it wins by far, and still by a factor of three with the transfers. **Small work belongs
# to the CPU.** In between it depends on where the data is already. Where exactly the lines run depends on the machine, and
# in lesson 07 you measure it rather than believe this table.

# %% [markdown] facts=["V2"]
# ### Branching work
#
# The second kind of work is worse for the accelerator. Take a number. If it is even, halve it, otherwise take three times
# the number and one, and go on until it is 1. Each step must *know* the last result before it can choose the next
# operation, and it is the CPU that runs your `if`. With the number on the accelerator, every `if` is a transfer and a
# wait for it.

# %% facts=["V2"]
guess = devlab.predict(
    "How many such questions does it take to bring the number 27 to 1?",
    "about 5",
    "about 50",
    "more than 200",
)

# %% facts=["V2"]
x = torch.tensor(27, device=device)
questions = 1  # is x above 1?
while x > 1:
    x = x // 2 if x % 2 == 0 else 3 * x + 1
    questions += 2  # was it even? and is it still above 1?

print("questions:", questions)
guess.was("more than 200" if questions > 200 else "about 50" if questions > 20 else "about 5")

# %% [markdown] facts=["V2"]
# Each time the accelerator computes one number, and the CPU stands waiting for a yes or no. No size of
# accelerator helps, because there is never more than one small thing to do. A Python integer on the CPU needs none of
# those transfers. Parsing text, walking trees, anything that decides at every step is like this. **Branching work belongs
# to the CPU**, unless you can turn it into one operation over many numbers:

# %% facts=["V2"]
x = torch.arange(1, 1001, device=device)
x = torch.where(x % 2 == 0, x // 2, 3 * x + 1)

print("a step for", x.numel(), "numbers, questions: 0")

# %% [markdown] facts=["V2"]
# The third kind is **work that is not supported**: strings, Python objects, a dtype or an operation that this accelerator
# does not have. There the CPU wins because it is the only one to run. You bring the data to the CPU, do that one thing,
# and send the result back. Lesson 03 does so in code.

# %% [markdown]
# ## What to keep
#
# - A CPU has few cores, each with vector units and caches. One operation on a tensor uses them; a Python loop does not.
# - Fresh memory comes page by page. What fits into a cache, and lies side by side, is fast.
# - New tensors and new models go to the CPU unless you say otherwise, and the default is a setting. Say the device and
#   the dtype where they matter.
# - CPU tensors live in system memory, with NumPy and everything else. A small view keeps its whole storage alive.
# - Data loads on the CPU, is prepared there, and moves batch by batch. Look into every container.
# - Make helpers from the data, or use a Python number. `torch.ones(n)` is on the CPU and `float32`.
# - Small, branching or unsupported work is faster on the CPU, or possible there alone.
#
# **Now do it:** [the exercises of this lesson](../exercises/01_cpu.ipynb), five functions.
# **Then:** [02 CUDA](02_cuda.ipynb), the accelerator that most programs are written for.
