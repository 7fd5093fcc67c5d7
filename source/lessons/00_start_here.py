# %% [markdown]
# # 00 Start here
#
# A tensor is numbers in some memory. A computer that does deep learning has more than one memory, and
# PyTorch will not guess which one you meant. Most people meet this fact as an error message at midnight.
# In this course you meet it in daylight.
#
# After this lesson you can say where a tensor lives, tell what PyTorch does when two tensors live apart,
# and use the checks that judge your work.
#
# **Takes** about 20 minutes. **Needs** Python, and a little PyTorch: you have made a tensor and added two.
# **You do not need a GPU.**

# %% [markdown]
# ## Open the bench
#
# Every lesson has these three lines at its beginning. `start()` looks at your machine, says in one line what it
# found, and returns the device that the lesson works with.

# %%
import torch

import devlab

device = devlab.start()

# %% [markdown]
# These pages were made on a machine without a GPU, so the line above ends in *a simulated accelerator*. If
# yours has a GPU, you see its name instead, and wherever this text prints `sim:0` you see `cuda:0` or `mps:0`.
# The code is the same. That is the first promise of the course: **one program, any device.** (Lessons 03, 08 and 09
# use the simulated accelerator on every machine, and say why.)

# %% [markdown]
# ## A tensor has an address
#
# You know two things that every tensor carries: its shape and its dtype. Here are two tensors. Before you
# run the cell: `a` and `b` are made of the same three numbers. Which of the three printed facts will
# differ?

# %% facts=["D1"]
a = torch.tensor([1.0, 2.0, 3.0])
b = torch.tensor([1.0, 2.0, 3.0], device=device)

for name, x in [("a", a), ("b", b)]:
    print(f"{name}: shape {list(x.shape)}, dtype {x.dtype}, device {x.device}")

# %% [markdown] facts=["D1"]
# The third fact is the address. A **device** is two things at once: a memory, where the tensor's numbers
# are stored, and a processor beside that memory, which does the work when you compute with them.
#
# So `a` is in your computer's ordinary memory, and the CPU works on it. `b` is in the accelerator's
# memory, and the accelerator works on it. The address is a `torch.device`, with a type and, where there
# may be several of a kind, an index:

# %% facts=["D1"]
print(repr(b.device))
print("type ", b.device.type)
print("index", b.device.index)

# %% [markdown] facts=["D1"]
# ## Work happens where the data is
#
# Nobody tells PyTorch where to add. Before you run the next cell, say for each line on which device the
# result will be.

# %% facts=["D1"]
print((a + a).device)
print((b + b).device)
print((b * 10 - 1).sum().device)

# %% [markdown] facts=["D1"]
# The result is always where the inputs were. The number `10` has no device: plain Python numbers go along
# anywhere. This is why device code is mostly about *placing* things once. After that, the work follows
# the data by itself.

# %% [markdown] facts=["D3"]
# ## Two addresses, no sum
#
# Now add `a` and `b`. The shapes agree, the dtypes agree, the numbers are the same. Before you run it:
# what should a helpful library do? Copy one of them over? Which one?

# %% facts=["D3"]
try:
    print(a + b)
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["D3"]
# PyTorch refuses. It could copy, but a copy between memories can cost far more than the addition, and a
# silent copy inside a loop would make your program slow without a word. So it makes you say where the
# work is to be done. **Placement is part of correctness**: right numbers, right shape, right dtype and
# the wrong device is still a program that stops.
#
# Read the message once more: it names the two addresses it found. In every such error, ask first *which of
# my tensors is the one at the address I did not expect?*
#
# The cure is to bring one to the other, and you choose which:

# %% facts=["D3"]
print((a.to(device) + b).device)
print((a + b.cpu()).device)

# %% [markdown] facts=["D3"]
# Here you made both tensors a minute ago, and know them by name. In a real program the message names two devices and
# no tensor, and the one at fault was made in another file. `devlab.explain` looks it up. After `devlab.start()` it
# appears by itself under such an error; inside a `try` you hand it the error:

# %% facts=["D3"]
try:
    a + b
except RuntimeError as error:
    devlab.explain(error)

# %% [markdown] facts=["D3"]
# It names the tensor, says where it was made, and proposes the smallest change. It is a second opinion, not a verdict:
# you decide at which of the two places the work belongs.

# %% [markdown] facts=["D3"]
# Because placement matters, programs often ask whether two things are in the same place. Before you run
# this: three comparisons. Which of them print `True`?

# %% facts=["D3"]
print("the same numbers:       ", a.tolist() == b.tolist())
print("the same place:         ", a.device == b.device)
print("a bare name, the address:", torch.device(device.type) == device)

# %% [markdown] facts=["D3"]
# The last line surprises most people. `torch.device("cuda")` and `torch.device("cuda:0")` compare as
# *different*, although a tensor made on `"cuda"` may well land on `cuda:0`. A bare name means *whichever one
# is current*, and PyTorch fills the index in only when it makes a tensor. So compare the devices of
# tensors, never a tensor's device with a bare name. You will need this in a moment.

# %% [markdown] facts=["D2"]
# ## What is here
#
# Which devices exist depends on the machine and on what is installed. The CPU is always there. The most
# common accelerator is an NVIDIA GPU, which PyTorch calls `cuda`. AMD's GPUs go by the same name, with a PyTorch
# that is built for ROCm. Apple's chips have `mps`. There are more, and your program should not care. Ask:

# %% facts=["D2"]
devlab.devices()

# %% [markdown] facts=["D2"]
# On these pages two of the rows say *simulated*. On a machine without a GPU this course brings its own accelerator, `sim`,
# with two devices. It is not a picture of one. It holds real data, obeys PyTorch's own rule about mixing
# devices, gives PyTorch's own error messages, trains real networks and carries real gradients. A program that forgets a
# `.to(device)` fails here as it would on an NVIDIA GPU.
#
# A program that runs on `sim` may still have a fault that only a GPU shows. Two streams of work that should wait for
# each other, and do not, spoil each other's numbers here only where a cell asks for it, and a missing `record_stream`
# never does. And a GPU rounds in its own way, above all where it may use the short format TF32 in place of float32.
# Lesson 07 and `docs/simulator.md` say more.
#
# And `sim` is **not fast**. Your CPU does all its work, and in a notebook the device runs in slow motion on top, so
# that you can see it wait. Wherever the course talks about time or memory of the
# simulated device, the figures come from a model, and the text says *simulated* or *modelled*. Figures that somebody
# measured on hardware are called *measured*. The two are never mixed.

# %% [markdown] facts=["D2", "D4"]
# ### Look and touch
#
# Several lessons have a picture to play with, and this is the first: your machine as a map. Boxes are memories and
# processors, roads are the ways between them, each as wide as what it carries in a second. Run the cell, click a device
# to look at it, and send a gigabyte over its roads. **Find out:** which is the narrowest road on the way from the CPU's numbers to the
# accelerator's processor? And on the simulated device: what becomes of the roads under Apple's rules?

# %% facts=["D2", "D4"]
devlab.explore.devices()

# %% [markdown] facts=["D2", "D4"]
# The road between the two memories, by far. The processors have wide roads to their own memory, and whatever crosses
# over takes the narrow one. Half of this course is about that road: what takes it unasked, who waits for it, and how to
# take it less often. Under Apple's rules there is one memory for both; the accelerator is still an address of its own.

# %% [markdown] facts=["A4"]
# ## Why is my GPU not in the list
#
# Four things must be true before PyTorch can use an NVIDIA GPU. If one is missing, it cannot:
#
# | what must be there | how it goes missing |
# |---|---|
# | a **build of PyTorch** made for CUDA | `pip` installed the CPU-only build |
# | a **driver** that works | none installed, or too old for the build |
# | the **CUDA runtime** the build was made for | usually comes inside the PyTorch package, so rarely the culprit |
# | the **hardware**, visible to this process | no GPU, or hidden by `CUDA_VISIBLE_DEVICES` |
#
# Owning a GPU is only one of the four. The build says what it was made for:

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
# The first line is about the package, the others are about the machine. For an NVIDIA GPU the first must name CUDA and the
# second must say `True`. A build for CUDA on a laptop without a GPU answers `False` to the second question; a
# CPU-only build answers `False` in the most expensive workstation. Lesson 02 turns this table into a function.
#
# For an AMD GPU the first line must name ROCm, and it is `torch.cuda` again that says whether it can be used. On a Mac the
# first line names MPS, `torch.cuda` is never available, and nothing is wrong with that: the third line counts, and
# lesson 03 is about it.

# %% [markdown] facts=["D4"]
# ## Place is also pace
#
# Why have several memories at all? Because the fast processor needs a fast memory next to it. The table is that of the
# **reference machine**: a desktop with a four-core CPU and an accelerator like an NVIDIA T4. Wherever this course calculates
# with figures, they are its figures, and without a GPU of your own it is the machine on the map above. They are round
# values of such hardware, not measurements of your machine:
#
# | the road | gigabytes a second |
# |---|---|
# | inside the accelerator, its memory to its processor | 300 |
# | inside the computer, system memory to CPU | 51 |
# | between the two, from *pinned* memory (lesson 04) | 12 |
# | between the two, from ordinary memory | 4 |
#
# The road *between* the memories is the narrowest. While a tensor comes over once from ordinary memory, how often could
# the accelerator have read it in its own memory?

# %% facts=["D4"]
from devlab.sim.specs import CUDA_LIKE

readings = CUDA_LIKE.bandwidth / CUDA_LIKE.pageable
print(f"one transfer takes as long as {readings:.0f} readings on the accelerator (modelled)")

# %% [markdown] facts=["D4"]
# (Newer hardware has wider roads everywhere, and the same gap: NVIDIA's data sheet for the H100 SXM names 3350 GB/s for its
# memory, and 128 GB/s, both directions together, for its PCIe slot.)
#
# So speed is not a property of the GPU alone. It depends on moving the right data to the right place at the
# right time: once, early, and not back and forth. Here are two ways to do ten steps of work on each of four
# batches, and both give the same numbers. `devlab.watch()` counts what happens in its block. Count the transfers
# yourself before you run the cell.

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

# %% [markdown] facts=["D4"]
# Twenty times the traffic for the same forty additions. The first loop is not a strawman: put a `.cpu()` into
# a helper that somebody calls at every step, and there it is. Lesson 04 is about finding such lines.

# %% [markdown]
# ## How the exercises work
#
# Each lesson has a notebook of exercises. You write a function, and `devlab.check` judges it on **every device
# present**: the same answer must work on the CPU and on each accelerator, real or simulated. Here is the first
# exercise with a plausible answer, which is wrong. Before you run it: on which devices will it pass?


# %%
def device_of(x):
    return torch.device("cpu")


devlab.check(device_of)

# %% [markdown]
# Read a verdict from the top. The headline says what was found. The table has a row for each thing that was
# judged and a column for each device. Below it stand the call that went wrong, what was expected and what came. The
# cells of the table mean:
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
# This answer is right for every tensor on the CPU, where most people try their code first. For a tensor from anywhere
# else it is wrong. That is what the bench is for.
#
# The last line says what to do next. Hints come in steps, the gentlest first:

# %%
devlab.hint(device_of)

# %% [markdown]
# There is a second hint, and a third, and when they are used up (or after you passed)
# `devlab.solution(device_of)` shows a solution. `devlab.progress()` shows the whole course at a glance. What you have
# passed is remembered when you close the notebook.
#
# A cell that you have not filled in is *not attempted*, never *wrong*. So you can run a half-finished notebook from
# top to bottom at any time.

# %% [markdown]
# ## What to keep
#
# - A device is a memory and the processor beside it. `x.device` is a tensor's address.
# - Work happens where the data is, and the result stays there.
# - Tensors at two addresses do not mix. The error names both; find the one you did not expect.
# - A bare `"cuda"` is not the address `cuda:0`. Compare tensors' devices.
# - The road between memories is the slow one. Cross it once.
#
# **Now do it:** [the exercises of this lesson](../exercises/00_start_here.ipynb), two short functions.
# **Then:** [01 The CPU](01_cpu.ipynb), the device that is always there.
