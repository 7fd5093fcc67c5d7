# %% [markdown]
# # 00 Start here
#
# A tensor is a block of numbers in some memory. A computer that does deep learning has more than one memory,
# and PyTorch does not guess which of them you meant. Most programmers first meet this fact as an error
# message in a program that worked yesterday. In this course you meet it on purpose.
#
# Below is a map of your machine. The boxes are memories and processors, and the lines between them are drawn as
# wide as what they carry in a second. **Run the next cell**: click into it and press Shift+Enter. Then press
# *Send a gigabyte*, and see where it has to wait.

# %%
from devlab import explore

explore.devices()

# %% [markdown]
# The narrowest lines are those between the two memories, by far. Which tensor crosses them, how often, and who
# waits for it: that is what this course is about.
#
# After this lesson you can say what a GPU is for, where a tensor lives, what PyTorch does when two tensors
# live apart, and roughly how long the common things take.
#
# **Takes** about 20 minutes to read, and 10 for the tasks. **Needs** Python, and a little PyTorch: you have
# made a tensor and added two. **You do not need a GPU.**

# %% [markdown]
# ## Start devlab
#
# Every lesson begins with these three lines. `start()` looks at your machine, says in one line what it found,
# and returns the device that the lesson works with.

# %%
import torch

import devlab

device = devlab.start()

# %% [markdown]
# These pages were made on a machine without a GPU, so the line above says *a simulated accelerator*, which
# the course brings along. It has two devices, `sim:0` and `sim:1`. If your machine has a GPU, you see its
# name instead, and wherever this text prints `sim:0` you see `cuda:0` or `mps:0`. The code is the same: **one
# program, any device.**
#
# In a program of your own there is no devlab, and PyTorch chooses the device. This line takes whatever
# accelerator can be used, and the CPU where there is none. You would write `device = …`:

# %%
chosen = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
print(chosen.type)

# %% [markdown]
# In older programs you meet another line, which knows NVIDIA's and AMD's GPUs alone: `device =
# torch.device("cuda" if torch.cuda.is_available() else "cpu")`. Lessons 02 and 03 take both apart.

# %% [markdown]
# ## What a GPU is
#
# A **GPU** is a processor that was invented to draw pictures. A picture has millions of points, each of them
# needs the same few multiplications and additions, and no point has to wait for another. So the makers spent
# the chip on arithmetic: thousands of small units, in groups. All units of a group carry out the same
# instruction, each on its own numbers.
#
# A neural network asks for the same kind of work. Most of its time goes into products of matrices, and each
# element of such a product can be computed without knowing any other.
#
# ![On the left a CPU: four large cores that each decide for themselves and have a few arithmetic units, above large caches. On the right a GPU: six rows, each with one small control unit, which decides for its whole row, and eighteen arithmetic units, above a wide connection to its memory](drawing:few_and_many)
#
# A **CPU** is made for the opposite case. Each of its few cores follows a program of its own and decides at
# every step what comes next. Caches, which are fast memories on the chip, keep what was used last, so that a
# core seldom has to wait for the slower memory outside. A CPU finishes *one* result quickly. A GPU takes
# longer over a single result, but computes thousands of them side by side, if all are computed the same way.
#
# Three consequences run through the whole course:
#
# - **A GPU has its own memory.** Thousands of units have to be fed, and only a memory right beside them can
#   do it. Your program has to put a tensor's numbers there before the GPU can work on them. Apple's chips are
#   an exception, and lesson 03 is about them.
# - **The CPU stays in charge.** Your Python program runs on the CPU, which is therefore called the **host**.
#   The host *launches* work on the GPU in pieces called **kernels**, which are functions that run there, and
#   usually goes on without waiting for the result.
# - **Work must be large to be worth sending.** A launch takes the host a few microseconds, for ten numbers as
#   for ten million.
#
# PyTorch calls a GPU, and every other processor of this kind, an **accelerator**. How much faster is it?
# Whenever this course calculates with figures, they are those of one **reference machine**: a desktop with a
# four-core CPU and an accelerator like NVIDIA's T4, a modest GPU of 2018 that Google Colab lends free of
# charge. Beside them stands what a clock said on one large GPU of today, an NVIDIA H200; such a figure is
# called *measured*.

# %%
from devlab.sim.specs import CUDA_LIKE, HOST

print(f"CPU {HOST.rate / 1e9:5.0f} billion operations a second")
print(f"GPU {CUDA_LIKE.rate / 1e9:5.0f} billion operations a second")
print(f"that is {CUDA_LIKE.rate / HOST.rate:.0f} times as many")

# %% [markdown]
# Both figures are peaks for 32-bit floats, the kind of number that PyTorch uses unless told otherwise. A
# large product on the H200 runs at {measured:basics:operations/s, 8192 x 8192 product, float32} in 32 bits
# and at {measured:basics:operations/s, 8192 x 8192 product, bfloat16} in 16 bits, measured; a TFLOP/s is a
# trillion operations a second. Much larger factors that you read come from a comparison with a single core,
# or with a program that left the CPU's own arithmetic units idle.

# %% [markdown]
# ## A tensor has an address
#
# Here are two tensors made of the same three numbers. You know their shape and their dtype. Each of them
# carries a third thing:

# %% facts=["D1"]
a = torch.tensor([1.0, 2.0, 3.0])
b = torch.tensor([1.0, 2.0, 3.0], device=device)

for name, x in [("a", a), ("b", b)]:
    print(f"{name}: shape {list(x.shape)}, dtype {x.dtype}, device {x.device}")

# %% [markdown] facts=["D1"]
# The third thing is the tensor's address. A **device** is two things at once: a memory, where the tensor's
# numbers are stored, and the processor beside that memory, which does the work when you compute with them.
#
# So `a` is in your computer's ordinary memory, and the CPU works on it. `b` is in the accelerator's memory,
# and the accelerator works on it. The address is a `torch.device`, with a type and, where there may be
# several of a kind, an index:

# %% facts=["D1"]
print(repr(b.device))
print("type ", b.device.type)
print("index", b.device.index)

# %% [markdown]
# ### Your first exercise
#
# Each lesson has a notebook of exercises. You write a function, and `devlab.check` judges it on **every
# device that is present**, real or simulated. The first exercise asks for a function that returns the device
# of a tensor. Here is an answer that looks right and is wrong:


# %%
def device_of(x):
    return torch.device("cpu")


devlab.check(device_of)

# %% [markdown]
# The table has a row for each thing that was judged and a column for each device: ✓ is passed, ✗ is failed.
# Below it are the call that went wrong, the result that was expected, and the result that came back;
# `f32[5,3]` is a `float32` tensor of shape 5 × 3. The answer is right for every tensor on the CPU, which is
# where most code is tried first, and wrong for every other tensor.
#
# **[Exercise](../exercises/00_start_here.ipynb#task_device_of):** `device_of`, your first one. One line is
# enough.

# %% [markdown] facts=["D1"]
# ## Work happens where the data is
#
# Nothing in the next cell tells PyTorch where to calculate. The last of its three lines mixes a tensor on the
# accelerator with plain Python numbers, which have no device at all.

# %% facts=["D1"]
print("a + a              ", (a + a).device)
print("b + b              ", (b + b).device)
print("(b * 10 - 1).sum() ", (b * 10 - 1).sum().device)

# %% [markdown] facts=["D1"]
# The result is where the inputs were, even when it is a single number. This is why code about devices is
# mostly about *placing* things once: afterwards the work follows the data by itself.

# %% [markdown] facts=["D3"]
# ## Two addresses
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
# PyTorch could copy one of the two. But a copy between two memories can take far longer than the addition,
# and silent copies inside a loop would make your program slow for no visible reason. So PyTorch leaves the
# decision to you. **Placement is part of correctness**: a program stops when one tensor is on the wrong
# device, even if its numbers, shape and dtype are right. The few exceptions are in lesson 02.
#
# The message names the two addresses that it found. In every such error the first question is *which of my
# tensors is at the address that I did not expect?* Then you bring one tensor to the other, and you choose
# which:

# %% facts=["D3"]
print((a.to(device) + b).device)
print((a + b.cpu()).device)

# %% [markdown] facts=["D3"]
# Other libraries need the same care. NumPy and Matplotlib work in the CPU's memory only, so you give them
# `b.cpu().numpy()`.
#
# In a real program the message is the end of a traceback, and it names none of your variables. The tensor at
# fault was often made in another file. After `devlab.start()` an explanation appears by itself under such an
# error:

# %% facts=["D3"] tags=["raises-exception"]
a + b

# %% [markdown] facts=["D3"]
# The explanation names the tensor, says where it was made, and shows a change with which your cells, run again
# in a process of their own, have gone through. It is a second opinion: you decide at which of the two places
# the work belongs.
#
# Programs often ask whether two things are in the same place. `device.type` is the bare name of your
# accelerator, such as `"cuda"`, without an index.

# %% facts=["D3"]
guess = devlab.predict(
    "b was made on the accelerator. Is its device equal to torch.device(device.type)?", "it is", "it is not"
)

# %% facts=["D3"]
bare = torch.device(device.type)
print("b is on             ", repr(b.device))
print("the bare name       ", repr(bare))
print("a tensor made there ", repr(torch.empty(0, device=bare).device))
guess.was("it is" if bare == b.device else "it is not")

# %% [markdown] facts=["D3"]
# A bare name means *whichever of them is chosen at the moment*, and PyTorch fills in the index only when it
# makes a tensor, as the last line shows. So compare the devices of two tensors, and never a tensor's device
# with a bare name.
#
# **[Exercise](../exercises/00_start_here.ipynb#task_same_place):** `same_place`, which has to give the right
# answer for tensors, devices and bare names alike.

# %% [markdown]
# ## Hints and solutions
#
# The last line of a verdict says what to do next. Besides ✓ and ✗ you may meet `!`, where your code raised an
# error, `–`, where this machine cannot judge, and `○`, where nothing is written yet. Hints come in steps, the
# gentlest first:

# %%
devlab.hint(device_of)

# %% [markdown]
# There is a second hint, and a third. When they are used up, or after you have passed,
# `devlab.solution(device_of)` shows a solution. `devlab.progress()` shows the whole course at a glance. A
# cell that you have not filled in counts as *not attempted*, never as *wrong*, so you can run a half-finished
# notebook from top to bottom at any time.

# %% [markdown] facts=["D2"]
# ## What is here
#
# The CPU is always there. The most common accelerator is an NVIDIA GPU, which PyTorch calls `cuda`. AMD's
# GPUs go by the same name, Apple's chips have `mps`, and Intel's GPUs are `xpu`. You can ask:

# %% facts=["D2"]
devlab.devices()

# %% [markdown] facts=["D2"]
# On a machine without a GPU the last two rows say *simulated*. `sim` holds real data, obeys PyTorch's own
# rule about mixing devices, gives PyTorch's own error messages, and trains real networks. A program that
# forgets a `.to(device)` fails here as it would on an NVIDIA GPU. Some faults of a real GPU are hidden here;
# `docs/simulator.md` has the list, and says how far `sim` agrees with what an H200 answered.
#
# And `sim` is **not fast**, because your CPU does all its work. Times and sizes of the simulated device come
# from a model, and this course calls them *simulated* or *modelled*. Figures that were taken from hardware
# with a clock are called *measured*, and those that a maker has published are called *documented*. The three
# are never mixed.

# %% [markdown] facts=["D2", "D4"]
# ### Look and touch
#
# Here is the map from the top of this lesson again; by now you know its words. **Find out:** click a device to
# look at it. How many times as wide is the line between an accelerator's memory and its processor as the line
# from the CPU's memory? If your accelerator is the simulated one, switch its rules to *like Apple's MPS*. Which
# line changes?

# %% facts=["D2", "D4"]
devlab.explore.devices()

# %% [markdown] facts=["D2", "D4"]
# Half of this course is about the narrow line between the two memories, and how to use it less often. Under
# Apple's rules there is one memory for both, and the accelerator is still an address of its own.

# %% [markdown] facts=["A4"]
# ## Why is my GPU not in the list
#
# Four things must be there before PyTorch can use an NVIDIA GPU: a **build** of PyTorch for CUDA, the **GPU**
# itself, its **driver**, and **visibility**, since the variable `CUDA_VISIBLE_DEVICES` can hide it. The CUDA
# runtime comes with the build. PyTorch can tell you what it was built for, and what it can use:

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
# The first line is about the package alone. The others need both, the right package and the right machine.
# For an NVIDIA GPU the first line must name CUDA and the second must say `True`; for an AMD GPU the first
# must name ROCm. On a Mac the third line counts. If something is missing, `devlab doctor` in a terminal names
# the cause and the cure, and lesson 02 explains it.

# %% [markdown] facts=["D4"]
# ## Moving costs time
#
# Speed depends on moving the right data to the right place at the right time: once, early, and not back and
# forth. Here are two ways to do ten steps of work on each of four batches. Both give the same numbers.
# `devlab.watch()` counts what happens in its block.

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
# That is twenty times the traffic for the same forty additions, and still ten times if the second loop brings
# its results back. The first loop is not far-fetched: put a `.cpu()` into a helper that is called at every
# step, and there it is.

# %% [markdown] facts=["D4"]
# ## Numbers to know
#
# How long does a transfer take, then? One gigabyte is in the host's ordinary memory, and an H200 needs it.
# Reading a gigabyte of its own memory takes it far less time. By what factor?

# %% facts=["D4"]
guess = devlab.predict(
    "On an H200: bytes a second from its own memory ÷ bytes a second from the host's?", 2, 20, 200
)

# %% facts=["D4"]
own, from_the_host = 4243, 21.9  # GB/s, measured on an H200
print(f"H200, measured:              {own / from_the_host:.0f} times as fast")
modelled = CUDA_LIKE.bandwidth / CUDA_LIKE.pageable
print(f"reference machine, modelled: {modelled:.0f} times as fast")
guess.was_about(own / from_the_host)

# %% [markdown] facts=["D4"]
# The map above says what the factor is on your machine. Here are more such numbers, computed from the specs
# of the reference machine. It is enough to remember their powers of ten: each vertical line marks a time ten
# times as long as the line before it.
#
# ![A chart of times on the reference machine, from a microsecond to a second: a call on the CPU takes 1 microsecond, launching a kernel 5, the smallest kernel 2, bringing one number to the host 7. A transfer of a kilobyte takes 7 microseconds, of a megabyte 90 from pinned and 260 from pageable memory, of a gigabyte 83 and 250 milliseconds. The device reads a gigabyte of its own memory in 3.3 milliseconds, the CPU in 20. A product of two matrices with 4096 rows takes the GPU 17 milliseconds, 2.1 in 16 bits, and the CPU 360](drawing:numbers_to_know)
#
# A tensor in *pinned* memory, which lesson 04 explains, travels faster than one in ordinary, *pageable*
# memory. Four things can be read off the chart, and the H200 shows them, too:
#
# - **A launch takes longer than a call.** Work that the CPU finishes in less than 5 µs is finished before the
#   GPU has been told about it. H200, measured: {measured:launches:host, one launch of x.add_(1)} for a
#   launch.
# - **Small transfers all take the same time**, so send many numbers in one transfer. H200, measured:
#   {measured:basics:seconds of one.item(), queue empty} for one number, {measured:bandwidth:pageable to the
#   device, 1024 bytes:seconds} for a kilobyte.
# - **Large transfers are slow.** A gigabyte from pageable memory takes fifteen times as long as a product of
#   two matrices with 4096 rows, which is 137 billion operations. H200, measured: {measured:bandwidth:pageable
#   to the device, 268435456 bytes:seconds} for a quarter of a gigabyte from pageable memory.
# - **Memory counts as much as arithmetic.** Reading a gigabyte takes the GPU a fifth of the time of that
#   product, and longer than the same product in 16-bit numbers. H200, measured: a third longer than that
#   product's {measured:launch_bound:bfloat16 (rows x 4096) @ (4096 x 4096), 4096 rows, device seconds}.
#
# So one of three things takes a program's time: launches, bytes or arithmetic. Lesson 07 finds out which.

# %% [markdown] facts=["D4"]
# ### Real hardware
#
# The table puts the reference machine beside hardware that you can borrow, buy or rent. **PCIe** is the slot
# that joins a card to the computer, **NVLink** is NVIDIA's faster link between GPUs, and SXM is a module for
# servers in place of a card.
#
# ![The reference machine beside real hardware](recorded:hardware)
#
# The reference machine has far less memory than any card in this table, so that you can run out of it cheaply
# in lesson 08. You can add a column of your own, free of charge, on Colab or Kaggle: **[Borrow a GPU for an
# hour](../docs/borrow_a_gpu.md)** says what to click, in order. After lesson 07 you will know what to
# measure.

# %% [markdown]
# ## What to keep
#
# - A GPU does many alike things at once, in its own memory. The host, your CPU, launches them.
# - A device is a memory and the processor beside it. `x.device` is a tensor's address.
# - `torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")` chooses a device.
# - Work happens where the data is, and the result stays there.
# - Tensors at two addresses do not mix, with few exceptions. The error names both; find the one that you did
#   not expect.
# - A bare `"cuda"` is not the address `cuda:0`. Compare the devices of tensors.
# - A launch takes microseconds, a large transfer takes milliseconds. Transfer once, and work there.
#
# The [glossary](../docs/glossary.md) has all terms of the course in a sentence each.
#
# **Now do it:** [the exercises of this lesson](../exercises/00_start_here.ipynb), two short functions.
# **Then:** [01 The CPU](01_cpu.ipynb), the device that is always there.
