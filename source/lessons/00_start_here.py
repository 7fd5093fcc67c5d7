# %% [markdown]
# # 00 Start here
#
# A tensor is a block of numbers in some memory. A computer that does deep learning has more than one memory,
# and PyTorch does not guess which of them you meant. Most programmers first meet this fact as an error
# message in a program that worked yesterday. In this course you meet it on purpose.
#
# After this lesson you can say what a GPU is for, where a tensor lives, what PyTorch does when two tensors
# live apart, and roughly how long the common things take. You also know how the checks of this course judge
# your work.
#
# **Takes** about 40 minutes. **Needs** Python, and a little PyTorch: you have made a tensor and added two.
# **You do not need a GPU.**

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
# These pages were made on a machine without a GPU, so the line above says *a simulated accelerator*. The
# course brings it along for machines like this one. It has two devices, `sim:0` and `sim:1`, and [further
# down](#What-is-here) you meet it properly. If your machine has a GPU, you see its name instead, and wherever
# this text prints `sim:0` you see `cuda:0` or `mps:0`. The code is the same. That is the first promise of the
# course: **one program, any device.** (Now and then a lesson needs what your machine may not have, such as a
# second GPU. Then it uses the simulated accelerator in its place, and it says so.)
#
# `device = devlab.start()` is also the one line of this text that you replace in a program of your own. There
# you ask PyTorch whether a GPU can be used, take it if the answer is yes, and fall back on the CPU if it is
# no. In lesson 02 you write that line for NVIDIA's and AMD's GPUs, and in lesson 03 for every other kind.

# %% [markdown]
# ## What a GPU is
#
# A **GPU** is a processor that was invented to draw pictures. A picture has millions of points, each of them
# needs the same few multiplications and additions, and no point has to wait for another. So the makers spent
# the chip on arithmetic: thousands of small units, in groups. All units of a group carry out the same
# instruction, each on its own numbers.
#
# A neural network asks for the same kind of work. Most of its time goes into products of matrices, and each
# element of such a product can be computed without knowing any other. This is how a chip that was made for
# games came to train networks.
#
# ![On the left a CPU: four large cores that each decide for themselves and have a few arithmetic units, above large caches. On the right a GPU: six rows, each with one small control unit and eighteen arithmetic units, above a wide connection to its memory](drawing:few_and_many)
#
# A **CPU** is made for the opposite case. It has a few cores, and each core follows a program of its own and
# decides at every step what comes next. Large caches, which are fast memories on the chip, keep what was used
# last, so that the cores seldom have to wait for the slower memory outside. A CPU finishes *one* result
# quickly. A GPU takes longer over a single result, but computes thousands of them side by side, if all are
# computed the same way. Asked to add two numbers, the GPU is the slower of the two.
#
# Three consequences run through the whole course:
#
# - **A GPU has its own memory.** Thousands of units have to be fed, and only a memory right beside them can
#   do it. Your program has to put a tensor's numbers into that memory before the GPU can work on them. (In
#   Apple's chips, and in a GPU that is built into a laptop's processor, CPU and GPU share one memory.
#   Lesson 03 is about Apple's.)
# - **The CPU stays in charge.** Your Python program runs on the CPU, which is therefore called the **host**.
#   The host *launches* work on the GPU in pieces called **kernels**, which are functions that run there, and
#   usually goes on without waiting for the result.
# - **Work must be large to be worth sending.** A launch takes the host a few microseconds, for ten numbers as
#   for ten million, so ten numbers are not worth one.
#
# PyTorch calls a GPU, and every other processor of this kind, an **accelerator**. How much faster is it?
# Whenever this course calculates with figures, they are those of one **reference machine**: a desktop with a
# four-core CPU and an accelerator like NVIDIA's T4, a modest GPU of 2018 that Google Colab and Kaggle lend
# free of charge. In the code, `CUDA_LIKE` holds the figures of that accelerator and `HOST` those of the CPU.
# Beside them stands what a clock said on one large GPU of today, an NVIDIA H200. Such a figure is always
# called *H200, measured*.
#
# Guess first, then look. `devlab.predict` remembers your guess, and it is never graded.

# %%
guess = devlab.predict(
    "At best, how many times as fast as its CPU is the GPU of the reference machine?",
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
# Both figures are peaks for 32-bit floats, the kind of number that PyTorch uses unless told otherwise. (H200,
# measured: {measured:basics:operations/s, 8192 x 8192 product, float32} in large products, and
# {measured:basics:operations/s, 8192 x 8192 product, bfloat16} in 16 bits. A TFLOP/s is a trillion operations
# a second.) But some of the large factors that you read come from a comparison with a single core of a CPU,
# or with a program that left the CPU's own arithmetic units idle. Lesson 01 shows how much a CPU can do.

# %% [markdown]
# ## A tensor has an address
#
# You know two things that every tensor carries, its shape and its dtype. Here are two tensors made of the
# same three numbers, and a third thing that each of them carries:

# %% facts=["D1"]
a = torch.tensor([1.0, 2.0, 3.0])
b = torch.tensor([1.0, 2.0, 3.0], device=device)

for name, x in [("a", a), ("b", b)]:
    print(f"{name}: shape {list(x.shape)}, dtype {x.dtype}, device {x.device}")

# %% [markdown] facts=["D1"]
# The third thing is the tensor's address. By *address* this course means the device, and not a position
# within a memory. A **device** is two things at once: a memory, where the tensor's numbers are stored, and
# the processor beside that memory, which does the work when you compute with them.
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
# device that is present**: one and the same answer must work on the CPU and on each accelerator, real or
# simulated. The first exercise asks for a function that returns the device of a tensor. Here is an answer
# that looks right and is wrong:


# %%
def device_of(x):
    return torch.device("cpu")


devlab.check(device_of)

# %% [markdown]
# The table has a row for each thing that was judged and a column for each device. Below it are the call that
# went wrong, the result that was expected, and the result that came back. The answer above is right for every
# tensor on the CPU, which is where most code is tried first, and wrong for every other tensor.
#
# **[Exercise](../exercises/00_start_here.ipynb#task_device_of):** `device_of`, your first one. One line is
# enough.

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
# The result is where the inputs were, even when it is a single number. A plain Python number can be combined
# with a tensor anywhere. This is why code about devices is mostly about *placing* things once: afterwards the
# work follows the data by itself.

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
# PyTorch could copy one of the two. But a copy between two memories can take far longer than the addition,
# and silent copies inside a loop would make your program slow for no visible reason. So PyTorch leaves the
# decision to you. **Placement is part of correctness**: a program stops when one tensor is on the wrong
# device, even if its numbers, shape and dtype are right. (There are a few exceptions. The commonest is a CPU
# tensor that is a single number, with shape `[]`: in operations such as `+` and `*` it may be combined with a
# tensor anywhere, as a Python number may. Lesson 02 has the rest.)
#
# Read the message once more. It names the two addresses that it found. In every such error the first question
# is *which of my tensors is at the address that I did not expect?* Then you bring one tensor to the other,
# and you choose which:

# %% facts=["D3"]
print((a.to(device) + b).device)
print((a + b.cpu()).device)

# %% [markdown] facts=["D3"]
# Other libraries need the same care. NumPy and Matplotlib work in the CPU's memory only, so you give them
# `b.cpu().numpy()`.
#
# You made `a` and `b` a minute ago and know them by name. In a real program PyTorch's message names two
# devices and at best an argument such as `mat1`, but none of your variables, and the tensor at fault was
# often made in another file. `devlab.explain` finds that tensor. After `devlab.start()` its explanation
# appears by itself under such an error. Inside a `try` you hand the error to it:

# %% facts=["D3"]
try:
    a + b
except RuntimeError as error:
    devlab.explain(error)

# %% [markdown] facts=["D3"]
# The explanation names the tensor, says where it was made, and shows a change with which your cells, run again
# in a process of their own, have gone through. It is a second opinion and not a verdict: you decide at which of
# the two places the work belongs.
#
# Because placement matters, programs often ask whether two things are in the same place. `device.type` is the
# bare name of your accelerator, such as `"cuda"`, without an index.

# %% facts=["D3"]
guess = devlab.predict(
    "b was made on the accelerator. Is its device equal to torch.device(device.type)?", "it is", "it is not"
)

# %% facts=["D3"]
bare = torch.device(device.type)
print("b is on       ", repr(b.device))
print("the bare name ", repr(bare))
guess.was("it is" if bare == b.device else "it is not")

# %% [markdown] facts=["D3"]
# A bare name means *whichever of them is current*, and PyTorch fills in the index only when it makes a
# tensor. So compare the devices of two tensors, and never a tensor's device with the bare name of an
# accelerator. (Lesson 02 says more about current devices.)
#
# **[Exercise](../exercises/00_start_here.ipynb#task_same_place):** `same_place`, which has to give the right
# answer for tensors, devices and bare names alike.

# %% [markdown]
# ## How to read a verdict
#
# Back to the verdict on `device_of` for a moment. Its headline says what was found, and in the call below the
# table `f32[5,3]` is short for a `float32` tensor of shape 5 × 3. The signs in the table mean:
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
# The last line of a verdict says what to do next. Hints come in steps, the gentlest first:

# %%
devlab.hint(device_of)

# %% [markdown]
# There is a second hint, and a third. When they are used up, or after you have passed,
# `devlab.solution(device_of)` shows a solution. `devlab.progress()` shows the whole course at a glance, and
# what you have passed is remembered when you close the notebook.
#
# A cell that you have not filled in counts as *not attempted*, never as *wrong*. So you can run a
# half-finished notebook from top to bottom at any time.

# %% [markdown] facts=["D2"]
# ## What is here
#
# Which devices exist depends on the machine and on what is installed. The CPU is always there. The most
# common accelerator is an NVIDIA GPU, which PyTorch calls `cuda`. AMD's GPUs go by the same name, with a
# PyTorch that was built for ROCm, AMD's counterpart of CUDA. Apple's chips have `mps`, and Intel's GPUs
# `xpu`. You can ask:

# %% facts=["D2"]
devlab.devices()

# %% [markdown] facts=["D2"]
# On these pages two of the rows say *simulated*. On a machine without a GPU this course brings its own
# accelerator, `sim`, with two devices. (With a GPU you see no such row; a lesson that needs two devices
# fetches them.) `sim` holds real data, obeys PyTorch's own rule about mixing devices, gives PyTorch's own
# error messages, trains real networks and computes real gradients. A program that forgets a `.to(device)`
# fails here as it would on an NVIDIA GPU.
#
# Some faults of a real GPU are hidden here. A forgotten wait between two queues of work, for instance, shows
# only in a block that asks for it (lesson 07). And a GPU rounds in its own way. `docs/simulator.md` has the
# whole list, and says how far `sim` agrees with what an H200 answered.
#
# And `sim` is **not fast**. Your CPU does all the work of `sim`, and in a notebook `sim` is slowed down
# further, so that you can watch your program wait for it. Times and sizes of the simulated device come from a
# model, and this course calls them *simulated* or *modelled*. Figures that were taken from hardware with a
# clock are called *measured*, and those that a maker has published are called *documented*. The three are
# never mixed.

# %% [markdown] facts=["D2", "D4"]
# ### Look and touch
#
# Several lessons have a picture to play with. This first one is a map of your machine. Boxes are memories and
# processors. The lines between them are drawn as wide as what they carry in a second. The host's memory can
# be in two states. Normally it is **pageable**: the operating system may move it. A part of it can be
# **pinned**, which means that the operating system has promised to leave it in its place, so that the device
# can fetch from it directly. (Lesson 04 pins some.)
#
# Run the cell, click a device to look at it, and send a gigabyte. **Find out:** where is the narrowest line
# between the CPU's numbers and the accelerator's processor? Then, if your accelerator is the simulated one,
# switch its rules to *like Apple's MPS*, with one memory for the CPU and the GPU. Which line changes?

# %% facts=["D2", "D4"]
devlab.explore.devices()

# %% [markdown] facts=["D2", "D4"]
# The narrowest line is the one between the two memories, by far. Each processor has a wide line to its own
# memory, and whatever has to be transferred from one memory to the other takes the narrow one. Half of this
# course is about that line, and how to use it less often. Under Apple's rules there is one memory for both,
# and the accelerator is still an address of its own.

# %% [markdown] facts=["A4"]
# ## Why is my GPU not in the list
#
# Four things must be there before PyTorch can use an NVIDIA GPU. If one of them is missing, it cannot:
#
# | what must be there | how it goes missing |
# |---|---|
# | a **build** of PyTorch for CUDA | `pip` installed the CPU-only build |
# | an **NVIDIA GPU** | the machine has none |
# | its **driver**, in working order | none is installed, or it is too old for the build |
# | **visibility** to this process | `CUDA_VISIBLE_DEVICES` hides the GPU |
#
# (The build also needs the CUDA runtime for which it was made. It comes with the PyTorch package, so you need
# not install CUDA yourself.) Owning a GPU is only one of the four. PyTorch can tell you what it was built
# for, and what it can use:

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
# For an NVIDIA GPU the first line must name CUDA and the second must say `True`. Lesson 02 turns this table
# into a function.
#
# For an AMD GPU the first line must name ROCm, and it is `torch.cuda` again that says whether the GPU can be
# used. For an Intel GPU it must name XPU, and you ask `torch.xpu.is_available()`. On a Mac the first line
# names MPS, `torch.cuda` is never available, and nothing is wrong with that: the third line counts, and
# lesson 03 is about it. If something is missing on your machine, `devlab doctor` in a terminal names the
# cause and the cure.

# %% [markdown] facts=["D4"]
# ## Moving costs time
#
# How fast a program is does not depend on the GPU alone. It also depends on moving the right data to the
# right place at the right time: once, early, and not back and forth. Here are two ways to do ten steps of
# work on each of four batches. Both give the same numbers. (The second leaves them on the accelerator; to
# bring them back would take 4 transfers more.) `devlab.watch()` counts what happens in its block.

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
# step, and there it is. Lesson 04 is about finding such lines.

# %% [markdown] facts=["D4"]
# ## Numbers to know
#
# How long does a transfer take, then? One gigabyte is in the host's ordinary memory, and the accelerator
# needs it.

# %% facts=["D4"]
guess = devlab.predict(
    "In the time of that one transfer, how many times could the GPU of the reference machine read a gigabyte of "
    "its own memory?",
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
# On the H200 a transfer from pageable memory was measured at {measured:bandwidth:pageable to the device,
# 268435456 bytes:bytes/s} and its own memory at {measured:basics:device memory bytes/s (copy 1 GiB, read +
# written)}, nearly two hundred times as fast. The map above says what it is on your machine.
#
# Here are more such numbers for the reference machine. It is enough to remember their powers of ten. Each
# vertical line marks a time ten times as long as the line before it. The times are computed from the
# machine's specs, in which bandwidths and rates are peaks, so they are modelled.
#
# ![A chart of times on the reference machine, from a microsecond to a second: a call on the CPU takes 1 microsecond, launching a kernel 5, the smallest kernel 2, bringing one number to the host 7. A transfer of a kilobyte takes 7 microseconds, of a megabyte 90 from pinned and 260 from pageable memory, of a gigabyte 83 and 250 milliseconds. The device reads a gigabyte of its own memory in 3.3 milliseconds, the CPU in 20. A product of two matrices with 4096 rows takes the GPU 17 milliseconds, 2.1 in 16 bits, and the CPU 360](drawing:numbers_to_know)
#
# Four things can be read off it, and the H200 shows them, too:
#
# - **A launch takes longer than a call.** Work that the CPU finishes in less than 5 µs is finished before the
#   GPU has been told about it. (H200, measured: {measured:launches:host, one launch of x.add_(1)} for a
#   launch.)
# - **Small transfers all take the same time.** One number takes as long as a kilobyte, so send many numbers
#   in one transfer, not one number at a time. (H200, measured: {measured:basics:seconds of one.item(), queue
#   empty} and {measured:bandwidth:pageable to the device, 1024 bytes:seconds}.)
# - **Large transfers are slow.** A gigabyte from pageable memory takes fifteen times as long as a product of
#   two matrices with 4096 rows, which is 137 billion operations. (H200, measured: a quarter of a gigabyte
#   takes {measured:bandwidth:pageable to the device, 268435456 bytes:seconds} from pageable and
#   {measured:bandwidth:pinned to the device, 268435456 bytes:seconds} from pinned memory.)
# - **Memory counts as much as arithmetic.** Reading a gigabyte takes the GPU a fifth of the time of that
#   product, and longer than the same product in 16-bit numbers. (H200, measured: a third longer than that
#   product's {measured:launch_bound:bfloat16 (rows x 4096) @ (4096 x 4096), 4096 rows, device seconds}.)

# %% [markdown] facts=["D4"]
# ### Real hardware
#
# The table puts the reference machine beside hardware that you can borrow, buy or rent. **PCIe** is the slot
# that joins a card to the computer, and **NVLink** is NVIDIA's faster link between GPUs. (SXM is a module for
# servers, in place of a card.)
#
# ![The reference machine beside real hardware](recorded:hardware)
#
# The accelerator of the reference machine calculates and reads as fast as the T4. Its transfers are slower
# than what the slot could carry, because that is how transfers are in practice: 12 GB/s from pinned memory is
# a usual figure for PCIe 3.0. And it has far less memory than any card in this table, so that you can run out
# of it cheaply (lesson 08).
#
# For each NVIDIA GPU compare the row *its bandwidth* with the row *from the host's memory*. The memory of the
# T4 delivers 19 times what its slot does, that of the RTX 4090 32 times, and that of the H100 52 times. So
# what you learn here about transfers matters more on a better card.
#
# You can add a column of your own, free of charge, on Colab or Kaggle. **[Borrow a GPU for an
# hour](../docs/borrow_a_gpu.md)** says what to click, in order, how to read `nvidia-smi` (a program that
# shows what an NVIDIA GPU is doing), and how your measurements get into the table above. Go whenever you
# like; after lesson 07 you will know what to measure.

# %% [markdown]
# ## What to keep
#
# - A GPU does many alike things at once, in its own memory. The host, your CPU, launches them.
# - A device is a memory and the processor beside it. `x.device` is a tensor's address.
# - Work happens where the data is, and the result stays there.
# - Tensors at two addresses do not mix, with few exceptions. The error names both addresses; find the one
#   that you did not expect.
# - A bare `"cuda"` is not the address `cuda:0`. Compare the devices of tensors.
# - A launch takes microseconds, a large transfer takes milliseconds. Transfer once, and work there.
#
# **Now do it:** [the exercises of this lesson](../exercises/00_start_here.ipynb), two short functions.
# **Then:** [01 The CPU](01_cpu.ipynb), the device that is always there.
