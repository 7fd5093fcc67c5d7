# %% [markdown]
# # 00 Start here
#
# A tensor is a block of numbers in some memory. A computer that does deep learning has more than one memory, and
# PyTorch does not guess which of them you meant. Most programmers meet this fact as an error message at midnight.
# In this course you meet it in daylight.
#
# After this lesson you can say what a GPU is for, where a tensor lives, what PyTorch does when two tensors live
# apart, and roughly how long the common things take. You also know how the checks of this course judge your work.
#
# **Takes** about 40 minutes. **Needs** Python, and a little PyTorch: you have made a tensor and added two.
# **You do not need a GPU.**

# %% [markdown]
# ## Open the bench
#
# Every lesson begins with these three lines. `start()` looks at your machine, says in one line what it found, and
# returns the device that the lesson works with.

# %%
import torch

import devlab

device = devlab.start()

# %% [markdown]
# These pages were made on a machine without a GPU, so the line above ends in *a simulated accelerator*. If your
# machine has a GPU, you see its name instead, and wherever this text prints `sim:0` you see `cuda:0` or `mps:0`. The
# code is the same. That is the first promise of the course: **one program, any device.** (A few lessons work on the
# simulated accelerator on every machine. They say so, and why.)

# %% [markdown]
# ## What a GPU is
#
# A **GPU** is a processor that was invented to draw pictures. A picture has millions of points, each of them needs the
# same few multiplications and additions, and no point has to wait for another. So the makers spent the chip on
# arithmetic: thousands of small units that all carry out the same instructions, each on its own numbers.
#
# A neural network asks for the same kind of work. Most of its time goes into products of matrices, and each element of
# such a product can be computed without knowing any other. This is how a chip that was made for games came to train
# networks.
#
# ![On the left a CPU: four large cores that each decide for themselves and have a few arithmetic units, above large caches. On the right a GPU: six rows, each with one small control unit and eighteen arithmetic units, above a wide connection to its memory](drawing:few_and_many)
#
# A **CPU** is made for the opposite case. It has a few cores, and each core follows a program of its own, decides at
# every step what comes next, and keeps slow memory out of the way with large caches. A CPU has *one* result ready
# soon. A GPU has *many* results ready soon, provided that they are computed alike and that there are enough of them.
# Asked for a single sum, the GPU is the slower of the two.
#
# Three consequences run through the whole course:
#
# - **A GPU has its own memory.** Thousands of units have to be fed, and only a memory right beside them can do it.
#   Numbers must be in that memory before the GPU can work on them. (In Apple's chips, CPU and GPU share one memory.
#   Lesson 03 is about that exception.)
# - **The CPU stays in charge.** Your Python program runs on the CPU, which is therefore called the **host**. The host
#   *launches* work on the GPU in pieces called **kernels**, which are functions that run there, and usually goes on
#   without waiting for the result.
# - **Work must be large to be worth sending.** A launch takes the host as long for ten numbers as for ten million.
#
# PyTorch calls a GPU, and every other processor of this kind, an **accelerator**. How much faster is it? Whenever this
# course calculates with figures, they are those of one **reference machine**: a desktop with a four-core CPU and an
# accelerator like NVIDIA's T4, a modest GPU of 2018 that you can still borrow for nothing. A guess is remembered,
# counted by `devlab.progress()`, and never graded.

# %%
guess = devlab.predict(
    "How many times as fast as its CPU does the GPU of the reference machine calculate, at best?",
    "about 2 times",
    "about 20 times",
    "about 200 times",
)

# %%
from devlab.sim.specs import CUDA_LIKE, HOST

factor = CUDA_LIKE.rate / HOST.rate
print(f"CPU {HOST.rate / 1e9:5.0f} billion operations a second")
print(f"GPU {CUDA_LIKE.rate / 1e9:5.0f} billion operations a second, {factor:.0f} times as many")
guess.was(f"about {round(factor, -1):.0f} times")

# %% [markdown]
# Both figures are peaks for 32-bit floats, the kind of number that PyTorch uses unless told otherwise. When you read of
# a factor of several hundred, the GPU was usually compared with a single core of a CPU, or with a program that left
# the CPU's own arithmetic units idle. Lesson 01 shows how much a CPU can do.

# %% [markdown]
# ## A tensor has an address
#
# You know two things that every tensor carries, its shape and its dtype. Here are two tensors made of the same three
# numbers, and a third thing that each of them carries:

# %% facts=["D1"]
a = torch.tensor([1.0, 2.0, 3.0])
b = torch.tensor([1.0, 2.0, 3.0], device=device)

for name, x in [("a", a), ("b", b)]:
    print(f"{name}: shape {list(x.shape)}, dtype {x.dtype}, device {x.device}")

# %% [markdown] facts=["D1"]
# The third fact is the address. A **device** is two things at once: a memory, where the tensor's numbers are stored,
# and the processor beside that memory, which does the work when you compute with them.
#
# So `a` is in your computer's ordinary memory, and the CPU works on it. `b` is in the accelerator's memory, and the
# accelerator works on it. The address is a `torch.device`, with a type and, where there may be several of a kind, an
# index:

# %% facts=["D1"]
print(repr(b.device))
print("type ", b.device.type)
print("index", b.device.index)

# %% [markdown]
# ## How the exercises work
#
# Each lesson has a notebook of exercises. You write a function, and `devlab.check` judges it on **every device that is
# present**: one and the same answer must work on the CPU and on each accelerator, real or simulated. The first exercise
# asks for a function that returns the device of a tensor. Here is a plausible answer to it, which is wrong:


# %%
def device_of(x):
    return torch.device("cpu")


devlab.check(device_of)

# %% [markdown]
# Read a verdict from the top. The headline says what was found. The table has a row for each thing that was judged and
# a column for each device. Below it stand the call that went wrong, what was expected, and what came. The signs in the
# table mean:
#
# | sign | means |
# |---|---|
# | `✓` | passed |
# | `✗` | failed |
# | `!` | your code raised an error, or did not come to an end |
# | `–` | was not judged: this machine cannot, or something else went wrong first |
# | blank | this row is not asked on this device |
# | `○` | not attempted: nothing is written yet |
#
# The answer above is right for every tensor on the CPU, which is where most code is tried first, and wrong for every
# other tensor. To find such faults is what the bench is for.
#
# The last line of a verdict says what to do next. Hints come in steps, the gentlest first:

# %%
devlab.hint(device_of)

# %% [markdown]
# There is a second hint, and a third. When they are used up, or after you have passed, `devlab.solution(device_of)`
# shows a solution. `devlab.progress()` shows the whole course at a glance, and what you have passed is remembered when
# you close the notebook.
#
# A cell that you have not filled in counts as *not attempted*, never as *wrong*. So you can run a half-finished notebook
# from top to bottom at any time.
#
# **[Exercise](../exercises/00_start_here.ipynb#task_device_of):** `device_of`, your first one. One line is enough.

# %% [markdown] facts=["D1"]
# ## Work happens where the data is
#
# In the next cell nothing tells PyTorch where to calculate. The last of its three lines mixes a tensor on the
# accelerator with plain Python numbers, which have no device at all.

# %% facts=["D1"]
guess = devlab.predict("Where will the result of (b * 10 - 1).sum() be?", "on the CPU", "on the accelerator")

# %% facts=["D1"]
print("a + a              ", (a + a).device)
print("b + b              ", (b + b).device)

result = (b * 10 - 1).sum()
print("(b * 10 - 1).sum() ", result.device)
guess.was("on the CPU" if result.device.type == "cpu" else "on the accelerator")

# %% [markdown] facts=["D1"]
# The result is where the inputs were, even when it is a single number. Plain Python numbers go along anywhere. This is
# why code about devices is mostly about *placing* things once: afterwards the work follows the data by itself.

# %% [markdown] facts=["D3"]
# ## Two addresses, no sum
#
# Now add `a` and `b`. The shapes agree, the dtypes agree, and even the numbers are the same.

# %% facts=["D3"]
guess = devlab.predict(
    "What does PyTorch do with a + b?",
    "it copies a to the accelerator",
    "it copies b to the CPU",
    "it raises an error",
)

# %% facts=["D3"]
try:
    total = a + b
    guess.was("it copies b to the CPU" if total.device.type == "cpu" else "it copies a to the accelerator")
except RuntimeError as error:
    print(error)
    guess.was("it raises an error")

# %% [markdown] facts=["D3"]
# PyTorch could copy one of the two. But a copy between two memories can take far longer than the addition, and a silent
# copy inside a loop would make your program slow without a word. So PyTorch leaves the decision to you. **Placement is
# part of correctness**: a program with the right numbers, the right shape and the right dtype on the wrong device
# stops.
#
# Read the message once more. It names the two addresses that it found. In every such error the first question is *which
# of my tensors is at the address that I did not expect?* Then you bring one tensor to the other, and you choose which:

# %% facts=["D3"]
print((a.to(device) + b).device)
print((a + b.cpu()).device)

# %% [markdown] facts=["D3"]
# Here you made both tensors a minute ago and know them by name. In a real program the message names two devices and no
# tensor, and the tensor at fault was made in another file. `devlab.explain` looks it up. After `devlab.start()` the
# explanation appears by itself under such an error. Inside a `try` you hand the error to it:

# %% facts=["D3"]
try:
    a + b
except RuntimeError as error:
    devlab.explain(error)

# %% [markdown] facts=["D3"]
# The explanation names the tensor, says where it was made, and proposes the smallest change. It is a second opinion and
# not a verdict: you decide at which of the two places the work belongs.
#
# Because placement matters, programs often ask whether two things are in the same place. `device.type` is the bare name
# of your accelerator, such as `"cuda"`, without an index.

# %% facts=["D3"]
guess = devlab.predict(
    "b was made on the accelerator. Does torch.device(bare name) == b.device hold?", "it does", "it does not"
)

# %% facts=["D3"]
bare = torch.device(device.type)
print("b is on       ", repr(b.device))
print("the bare name ", repr(bare))
guess.was("it does" if bare == b.device else "it does not")

# %% [markdown] facts=["D3"]
# `torch.device("cuda")` and `torch.device("cuda:0")` compare as different, although a tensor made on `"cuda"` may well
# land on `cuda:0`. A bare name means *whichever of them is current*, and PyTorch fills in the index only when it makes
# a tensor. So compare the devices of two tensors, and never a tensor's device with a bare name.
#
# **[Exercise](../exercises/00_start_here.ipynb#task_same_place):** `same_place`, which has to give the right answer
# for tensors, devices and bare names alike.

# %% [markdown] facts=["D2"]
# ## What is here
#
# Which devices exist depends on the machine and on what is installed. The CPU is always there. The most common
# accelerator is an NVIDIA GPU, which PyTorch calls `cuda`. AMD's GPUs go by the same name, with a PyTorch that was built
# for ROCm. Apple's chips have `mps`. There are more, and your program should not depend on which. You can ask:

# %% facts=["D2"]
devlab.devices()

# %% [markdown] facts=["D2"]
# On these pages two of the rows say *simulated*. On a machine without a GPU this course brings its own accelerator,
# `sim`, with two devices. It holds real data, obeys PyTorch's own rule about mixing devices, gives PyTorch's own error
# messages, trains real networks and computes real gradients. A program that forgets a `.to(device)` fails here as it
# would on an NVIDIA GPU.
#
# A program that runs on `sim` may still have a fault that only a GPU shows. Two streams of work that should wait for
# each other, and do not, spoil each other's numbers here only where a cell asks for it, and a missing `record_stream`
# never does. And a GPU rounds in its own way, above all where it may use the short format TF32 in place of float32.
# Lesson 07 and `docs/simulator.md` say more.
#
# And `sim` is **not fast**. Your CPU does all its work, and in a notebook the device runs in slow motion on top of
# that, so that you can see it wait. Times and sizes of the simulated device come from a model, and this course calls
# them *simulated* or *modelled*. Figures that were taken from hardware with a clock are called *measured*, and those
# that a maker has published are called *documented*. The three are never mixed.

# %% [markdown] facts=["D2", "D4"]
# ### Look and touch
#
# Several lessons have a picture to play with, and this is the first: your machine as a map. Boxes are memories and
# processors. The lines between them, which the picture calls roads, are drawn as wide as what they carry in a second.
# Run the cell, click a device to look at it, and send a gigabyte. **Find out:** where is the narrowest line between
# the CPU's numbers and the accelerator's processor? And what becomes of the lines, on the simulated device, under
# Apple's rules?

# %% facts=["D2", "D4"]
devlab.explore.devices()

# %% [markdown] facts=["D2", "D4"]
# The narrowest line is the one between the two memories, by far. Each processor has a wide line to its own memory, and
# whatever has to be transferred from one memory to the other takes the narrow one. Half of this course is about that
# line: which lines of code use it without your asking, what has to wait meanwhile, and how to use it less often. Under
# Apple's rules there is one memory for both, and the accelerator is still an address of its own.

# %% [markdown] facts=["A4"]
# ## Why is my GPU not in the list
#
# Four things must be true before PyTorch can use an NVIDIA GPU. If one of them is missing, it cannot:
#
# | what must be there | how it goes missing |
# |---|---|
# | a **build of PyTorch** made for CUDA | `pip` installed the CPU-only build |
# | a **driver** that works | none is installed, or it is too old for the build |
# | the **CUDA runtime** that the build was made for | it usually comes inside the PyTorch package, so it is rarely the culprit |
# | the **hardware**, visible to this process | there is no GPU, or `CUDA_VISIBLE_DEVICES` hides it |
#
# Owning a GPU is only one of the four. PyTorch can tell you what it was built for, and what it can use:

# %% facts=["A4"] tags=["nbval-ignore-output"]
builds = {
    "CUDA (NVIDIA)": torch.version.cuda,
    "ROCm (AMD)": torch.version.hip,
    "MPS (Apple)": torch.backends.mps.is_built(),
    "XPU (Intel)": torch.version.xpu,
}
print("built for:", ", ".join(["the CPU", *(name for name, built in builds.items() if built)]))
print("torch.cuda can be used:", torch.cuda.is_available())
print("MPS can be used:       ", torch.backends.mps.is_available())

# %% [markdown] facts=["A4"]
# The first line is about the package, the others are about the machine. For an NVIDIA GPU the first line must name CUDA
# and the second must say `True`. A build for CUDA on a laptop without a GPU answers `False` to the second question, and
# so does a CPU-only build in the most expensive workstation. Lesson 02 turns this table into a function.
#
# For an AMD GPU the first line must name ROCm, and it is `torch.cuda` again that says whether the GPU can be used. On a
# Mac the first line names MPS, `torch.cuda` is never available, and nothing is wrong with that: the third line counts,
# and lesson 03 is about it. If something is missing on your machine, `devlab doctor` in a terminal names the cause and
# the cure.

# %% [markdown] facts=["D4"]
# ## Numbers to know
#
# Why have several memories at all? Because a fast processor needs a fast memory right next to it. The price is that
# data has to come over. One gigabyte lies in the host's ordinary memory, and the accelerator needs it.

# %% facts=["D4"]
guess = devlab.predict(
    "While the gigabyte is transferred once, how often could the accelerator read it in its own memory?",
    "about 3 times",
    "about 75 times",
    "about 1000 times",
)

# %% facts=["D4"]
readings = CUDA_LIKE.bandwidth / CUDA_LIKE.pageable
print(f"from the host's ordinary memory: {CUDA_LIKE.pageable / 1e9:4.0f} GB/s")
print(f"from the accelerator's own:      {CUDA_LIKE.bandwidth / 1e9:4.0f} GB/s (both modelled)")
guess.was(f"about {readings:.0f} times")

# %% [markdown] facts=["D4"]
# It is worth knowing a dozen such numbers by heart, or at least their powers of ten. Here they are for the reference
# machine. Each vertical line stands for ten times as long as the line before it. The times are computed from the
# machine's specs, in which bandwidths and rates are peaks, so they are modelled and not measured.
#
# ![A chart of times on the reference machine, from a microsecond to a second: a call on the CPU takes 1 microsecond, launching a kernel 5, the smallest kernel 2, bringing one number to the host 7. A transfer of a kilobyte takes 7 microseconds, of a megabyte 90 from pinned and 260 from pageable memory, of a gigabyte 83 and 250 milliseconds. The device reads a gigabyte of its own memory in 3.3 milliseconds, the CPU in 20. A product of two matrices with 4096 rows takes the GPU 17 milliseconds, 2.1 in 16 bits, and the CPU 360](drawing:numbers_to_know)
#
# (**Pageable** memory is the host's ordinary memory. **Pinned** memory is a part of it that the operating system has
# promised to leave in its place, so that the device can fetch from it directly. Lesson 04 makes some.)
#
# Four things can be read off it:
#
# - **A launch takes longer than a call.** Work that the CPU finishes in less than 5 µs is finished before the GPU has
#   been told about it.
# - **Small transfers all take the same time.** One number takes as long as a kilobyte, so bring many numbers in one
#   transfer, and not one number in each of many.
# - **Large transfers are slow.** A gigabyte from pageable memory takes fifteen times as long as a product of two
#   matrices with 4096 rows, which is 137 billion operations.
# - **Memory counts as much as arithmetic.** To read a gigabyte takes the GPU a fifth of the time of that product, and
#   more than the whole product takes in 16-bit numbers.

# %% [markdown] facts=["D4"]
# ### Real hardware
#
# ![The reference machine beside hardware that you can buy or rent](recorded:hardware)
#
# The accelerator of the reference machine calculates and reads as fast as the T4. Its transfers are slower than what the
# slot could carry, because that is how transfers are in practice: 12 GB/s from pinned memory is a usual figure for PCIe
# 3.0. And it has far less memory than any real card, so that you can run out of it cheaply (lesson 08).
#
# Read the table from left to right. Newer hardware has more of everything, and the gap does not close: the memory of the
# H100 delivers 52 times what its slot does, that of the T4 19 times. What you learn here about transfers matters more
# on a better card.
#
# Until a column of this table says *measured*, no figure in this course was measured on a GPU. You can do it yourself, for
# nothing and without buying one: **[Borrow a GPU for an hour](../docs/borrow_a_gpu.md)** says what to click, in order, how to read `nvidia-smi`,
# which lessons to run again there, and how your measurements get into the table above. The best moment for it is after
# lesson 07.

# %% [markdown] facts=["D4"]
# ## Place is also pace
#
# So speed is not a property of the GPU alone. It depends on moving the right data to the right place at the right time:
# once, early, and not back and forth. Here are two ways to do ten steps of work on each of four batches. Both give the
# same numbers. `devlab.watch()` counts what happens in its block.

# %% facts=["D4"]
guess = devlab.predict(
    "How many transfers will the first loop make, which moves each batch there and back at every step?",
    "8",
    "40",
    "80",
)

# %% facts=["D4"]
batches = [torch.full((1000,), float(number)) for number in range(4)]

with devlab.watch() as back_and_forth:
    for x in batches:
        for _ in range(10):
            x = (x.to(device) + 1).cpu()

with devlab.watch() as once:
    for x in batches:
        x = x.to(device)
        for _ in range(10):
            x = x + 1

print("moving at every step:", back_and_forth.transfers, "transfers,", back_and_forth.bytes_moved, "bytes")
print("moving once:         ", once.transfers, "transfers,", once.bytes_moved, "bytes")
guess.was(back_and_forth.transfers)

# %% [markdown] facts=["D4"]
# That is twenty times the traffic for the same forty additions. The first loop is not far-fetched: put a `.cpu()` into
# a helper that is called at every step, and there it is. Lesson 04 is about finding such lines.

# %% [markdown]
# ## What to keep
#
# - A GPU does many alike things at once, in its own memory. The host, your CPU, launches them.
# - A device is a memory and the processor beside it. `x.device` is a tensor's address.
# - Work happens where the data is, and the result stays there.
# - Tensors at two addresses do not mix. The error names both; find the one that you did not expect.
# - A bare `"cuda"` is not the address `cuda:0`. Compare the devices of tensors.
# - A launch takes microseconds, a large transfer takes milliseconds. Transfer once, and work there.
#
# **Now do it:** [the exercises of this lesson](../exercises/00_start_here.ipynb), two short functions.
# **Then:** [01 The CPU](01_cpu.ipynb), the device that is always there.
