# %% [markdown]
# # 02 CUDA
#
# CUDA is NVIDIA's platform for general work on a GPU, and `cuda` is PyTorch's name for such a GPU. AMD's GPUs
# answer to the same name: a PyTorch that is built for ROCm, AMD's counterpart of CUDA, calls them `cuda` as
# well, so that one program runs on both. The name is easy to type, but it leaves three questions open: which
# of several GPUs it means, whether there is one at all, and what happens to the tensors that are somewhere
# else.
#
# ![The CPU with its own memory beside a GPU with its own memory. Each reads its own memory through a broad link, the GPU at 300 and the CPU at 51 gigabytes a second; the link between the two memories is thin, 12 gigabytes a second at best, and .to copies over it](drawing:gpu_beside_cpu)
#
# After this lesson you can name one GPU among several, choose a device that exists, find out why PyTorch sees
# no GPU, make tensors where you need them, run a model there, and read the error that every user of a GPU
# sees sooner or later.
#
# **Takes** about 50 minutes. **Needs** [00 Start here](00_start_here.ipynb); [01 The CPU](01_cpu.ipynb)
# helps.

# %%
import os
from collections import Counter
from copy import deepcopy

import torch
from torch.nn.functional import cross_entropy

import devlab

device = devlab.start()

# %% [markdown]
# **What is real here.** The tensors on `device` are real tensors, on your own accelerator where you have one
# and on the simulated accelerator where you have none. When a cell asks about a machine with three NVIDIA
# GPUs, that machine is *pretended*, and the text says so. Transfers and bytes are counted, not modelled. One
# cell takes times, and says whether they are measured or modelled. The figures in the drawing are those of
# the reference machine from lesson 00.

# %% [markdown] facts=["G1", "G3"]
# ## The name of a GPU
#
# The next cell writes down three names: `cuda`, `cuda:0` and `cuda:7`. Your machine may have no NVIDIA GPU,
# and it almost certainly has no eighth one.

# %% facts=["G1", "G3"]
guess = devlab.predict("For how many of the three names does torch.device(name) work on your machine?")

# %% facts=["G1", "G3"]
names, worked = ("cuda", "cuda:0", "cuda:7"), 0
for name in names:
    named = torch.device(name)
    print(f"{name:<7} type {named.type}, index {named.index}")
    worked += 1
guess.was(worked)

# %% [markdown] facts=["G1", "G3"]
# A `torch.device` is an address on an envelope, and you can write down a street that does not exist. PyTorch
# looks for the house when it has something to deliver, which is when it makes a tensor there. So the moment
# of truth comes one line later, and what it prints depends on your machine:

# %% facts=["G1"] tags=["nbval-ignore-output"]
try:
    print(torch.zeros(2, device="cuda").device)
except (AssertionError, RuntimeError) as error:
    print(f"{type(error).__name__}: {error}")

# %% [markdown] facts=["G1"]
# These pages were made with a PyTorch that is built for the CPU alone, and the message says so. On a Mac you
# read the same words, and all is well: a Mac's GPU is called `mps`, and lesson 03 is about it. With an NVIDIA
# GPU, or with an AMD GPU and a ROCm build, you see `cuda:0`. (With a build for CUDA but no working driver you
# read a `RuntimeError` about the driver.) The answer `cuda:0` deserves a second look, because the cell asked
# for `cuda` and the tensor is on `cuda:0`. The accelerator that you work with here does the same with its own
# name:

# %% facts=["G1"]
bare = device.type  # "cuda" with an NVIDIA or AMD GPU, "mps" on a Mac, "sim" for the simulated accelerator
x = torch.zeros(2, 3, device=bare)
print("asked for ", bare)
print("reads back", x.device)

# %% [markdown] facts=["G1", "G3"]
# The address of a tensor is always complete: **`device="cuda"` makes a tensor on an NVIDIA or AMD GPU, and
# it reads back with an index, most often as `cuda:0`**. The indices count from 0, and an index selects one
# GPU of several. (Why the 0? The next section has the answer.) These are all the accelerators of this
# machine:

# %% facts=["G3"]
for index in range(torch.accelerator.device_count()):
    print(torch.zeros(2, device=f"{device.type}:{index}").device)

# %% [markdown] facts=["G3"]
# If you ask CUDA for an index that is not there, it refuses, with the words *invalid device ordinal*. It
# never gives you the nearest GPU instead.

# %% [markdown] facts=["G2"]
# ## The current device
#
# Why did `cuda` become `cuda:0` and not `cuda:1`? One device of each kind is the **current** one, and a bare
# name means that one. When a program starts, the current device is number 0. The next cell makes the last one
# current for the length of a block, and uses the same bare name before, inside and after it:

# %% facts=["G2"]
last = torch.accelerator.device_count() - 1

before = torch.ones(2, device=bare)
with torch.accelerator.device_index(last):
    inside = torch.ones(2, device=bare)
after = torch.ones(2, device=bare)

print("before", before.device)
print("inside", inside.device)
print("after ", after.device)

# %% [markdown] facts=["G2"]
# The same line of code made tensors in two places. (With a single GPU there is one place, here and in the
# next two cells.) So a bare `"cuda"` is not short for `cuda:0`. It means **the current CUDA device, which
# need not be 0**.
#
# For CUDA alone you can write `with torch.cuda.device(1):` for a block, and `torch.cuda.set_device(1)` for
# the rest of the program. PyTorch's documentation prefers the block. Programs that train on many GPUs set the
# device once in each of their processes, and often a library does it for them, so you may never see that
# line.
#
# So two tensors can be made with the same word, and with two GPUs PyTorch refuses to add them: *Expected all
# tensors to be on the same device, but found at least two devices, cuda:0 and cuda:1!*

# %% facts=["G2", "E1"]
try:
    print((before + inside).device)
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["G2"]
# If you want to know where a bare name leads at this moment, ask for the current index:

# %% facts=["G2"]
print("outside:", torch.accelerator.current_device_index())
with torch.accelerator.device_index(last):
    print("inside: ", torch.accelerator.current_device_index())

# %% [markdown] facts=["G2"]
# This asks about the accelerator that PyTorch has chosen, of whatever kind. For CUDA alone there is
# `torch.cuda.current_device()`.
#
# **[Exercise](../exercises/02_cuda.ipynb#task_resolve):** `resolve` turns any name into the one device that
# it means now.

# %% [markdown] facts=["A1", "A2", "A3"]
# ## Which ones are here
#
# `torch.cuda` answers three questions: whether CUDA can be used, how many GPUs there are, and what each one
# is called. These are the answers of your machine:

# %% facts=["A1", "A2", "A3"] tags=["nbval-ignore-output"]
print("is_available:", torch.cuda.is_available())
print("device_count:", torch.cuda.device_count())
if torch.cuda.is_available():
    print("the current one:", torch.cuda.get_device_name())

# %% [markdown] facts=["A1", "A2"]
# On the machine that made these pages the answers are `False` and `0`. The first two questions raise no error
# and are safe to ask anywhere, even in a build without CUDA. The third is not: `get_device_name` raises an
# error where there is no such GPU. `torch.cuda` does not count the simulated accelerator, so the answers are
# the same with it and without it.
#
# To see how a machine with several GPUs would answer, we pretend to have one. Inside a `devlab.pretend(…)`
# block PyTorch answers as if GPUs of these names were installed. **The answers are invented**: behind them
# stands your CPU.

# %% facts=["A1", "A2", "A3"]
three_gpus = devlab.pretend("NVIDIA H100 PCIe", "NVIDIA L4", "NVIDIA L4")
no_gpu = devlab.pretend()

with three_gpus:
    print("pretended: CUDA available", torch.cuda.is_available())
    models = Counter(
        torch.cuda.get_device_name(f"cuda:{index}") for index in range(torch.cuda.device_count())
    )
for name, count in models.items():
    print(f"pretended: {count} of {name}")

# %% [markdown] facts=["A3"]
# Two of the three share a **name**, so only the index tells them apart. Pass the index when you ask: without
# it, `get_device_name()` always names the current device.
#
# The name does tell you what the GPU can do. These are the maker's figures, documented and not measured here
# (a TFLOP/s is a trillion operations a second):
#
# | `get_device_name` | memory | the GPU reads it at | float32 arithmetic | documented in |
# |---|---|---|---|---|
# | Tesla T4 | 16 GB | 300 GB/s | 8.1 TFLOP/s | NVIDIA's T4 data sheet |
# | NVIDIA L4 | 24 GB | 300 GB/s | 30.3 TFLOP/s | NVIDIA's L4 data sheet |
# | NVIDIA H100 PCIe | 80 GB | 2000 GB/s | 51 TFLOP/s | NVIDIA's H100 data sheet |
#
# The order of the indices may surprise you. Unless told otherwise, CUDA guesses which GPU is the fastest and
# makes it number 0, while the tool `nvidia-smi` goes by the slot on the board. With
# `CUDA_DEVICE_ORDER=PCI_BUS_ID` in the environment both use the same order.
#
# **[Exercise](../exercises/02_cuda.ipynb#task_list_gpus):** `list_gpus` pairs each index with its name, and
# answers without an error where there is no GPU.

# %% [markdown] facts=["G4"]
# ## The safe choice
#
# A program that says `device="cuda"` stops on every machine without such a GPU, so a program asks first and
# then decides. In the next cell the answer decides about a dtype, on two pretended machines:

# %% facts=["G4", "A1"]
for words, machine in (("three GPUs", three_gpus), ("no GPU", no_gpu)):
    with machine:
        dtype = torch.float16 if torch.cuda.is_available() else torch.float32
    print(f"{words} pretended: {dtype}")

# %% [markdown] facts=["G4"]
# The same question decides about the device. Put the two devices in the place of the two dtypes, and you have
# the line with which nearly every PyTorch program begins: **CUDA where it is available, and the CPU
# elsewhere.** Below it the program says `device=device`, and the word `"cuda"` does not occur again. (Lesson
# 03 adds a step for Apple's GPUs.)
#
# The line is short, and it goes wrong in two ways. The first is to leave out the parentheses after
# `is_available`.

# %% facts=["G4", "A1"]
guess = devlab.predict(
    "Without the parentheses, what does the line choose on a machine without a GPU?",
    "torch.float16",
    "torch.float32",
    "neither, it is an error",
)

# %% facts=["G4", "A1"]
with no_gpu:
    dtype = torch.float16 if torch.cuda.is_available else torch.float32
guess.was(dtype)

# %% [markdown] facts=["A1"]
# Without its parentheses nothing is asked: `torch.cuda.is_available` is a function, and to Python a function
# counts as true. On a machine with a GPU the line seems to work.
#
# The second way is to ask at the wrong time. In the next cell, the line `HAS_GPU = …` stands for the top of a
# module: it runs once, on import, on a pretended machine without a GPU. The function is called later, on a
# pretended machine with three:

# %% facts=["G4"]
with no_gpu:
    HAS_GPU = torch.cuda.is_available()  # at import


def dtype_to_use():
    return torch.float16 if HAS_GPU else torch.float32


with three_gpus:
    print("3 GPUs pretended:", dtype_to_use())

# %% [markdown] facts=["G4"]
# The question was asked on import, and the answer was kept. A test that pretends another machine, as this
# cell does, then sees the old answer. So ask inside a function, which runs when the program does, and pass
# the device along as an argument.
#
# **[Exercise](../exercises/02_cuda.ipynb#task_pick_cuda_or_cpu):** `pick_cuda_or_cpu` chooses a device, and
# asks anew at every call.

# %% [markdown] facts=["A4"]
# ## Why there is none
#
# "But I *have* a GPU." In a terminal, `devlab doctor` looks for what is missing and says what to do. These
# are the questions behind its answer:
#
# | ask | how to find out | if not |
# |---|---|---|
# | Is this **build** of PyTorch made for CUDA? | `torch.version.cuda` is not `None` | if there is an NVIDIA GPU, install a build for CUDA; nothing else will help |
# | Is there an **NVIDIA GPU**? | the *Device Manager* of Windows; on Linux `lspci` lists what is plugged in | use the CPU, another accelerator, or a GPU that you borrow |
# | Does its **driver** work? | `nvidia-smi` in a terminal prints a table | install it, or a newer one |
# | Is the GPU **visible** to this process? | `CUDA_VISIBLE_DEVICES` | change it and restart the program |
#
# These are the four things from lesson 00, in the same order. Work through them from the top, because often
# several fail at once: a laptop without a GPU usually has no driver either. To install a build for CUDA, take
# the command that the selector on pytorch.org makes for your system. Two of the four questions can be asked
# from here:

# %% facts=["A4"] tags=["nbval-ignore-output"]
print("built for CUDA:      ", torch.version.cuda)
print("built for ROCm:      ", torch.version.hip)
print("CUDA_VISIBLE_DEVICES:", repr(os.environ.get("CUDA_VISIBLE_DEVICES")))

# %% [markdown] facts=["A4"]
# (These pages were built with the variable set to an empty string, on purpose, so that no GPU can change
# them.) If there is no GPU in your machine, the page [Borrow a GPU for an hour](../docs/borrow_a_gpu.md) says
# where you can borrow one, free of charge.
#
# The first row is the one most often misread. `torch.version.cuda` and `torch.backends.cuda.is_built()` speak
# of the *package*: they say the same on a laptop without a GPU as on the largest server. Only
# `torch.cuda.is_available()` looks at the machine. (One case gets past it. A build contains code for some
# generations of GPUs, which `torch.cuda.get_arch_list()` names. On a GPU outside these generations the first
# operation may fail with *no kernel image is available*, and another build is what helps.)
#
# **With an AMD GPU** the build is one for ROCm: `torch.version.hip` names it, and `torch.version.cuda` is
# `None` although all is well, so keep that build. The driver's tools are `rocm-smi` and `amd-smi`. GPUs are
# hidden by `ROCR_VISIBLE_DEVICES` or `HIP_VISIBLE_DEVICES`, and by `CUDA_VISIBLE_DEVICES` too. **On a Mac**
# none of the four applies, and lesson 03 has its own two questions.

# %% [markdown] facts=["A4", "G3"]
# ### Hidden and renumbered
#
# The last row is the one to check when the first three are fine. `CUDA_VISIBLE_DEVICES` is an environment
# variable, and often a colleague's script has set it, or the scheduler that shares out the GPUs of a cluster.
# It decides which GPUs a process can see, and it **renumbers** them in the order in which it lists them. Here
# is a machine on which `nvidia-smi` lists an H100 as 0, the upper L4 as 1 and the lower L4 as 2.
# `CUDA_DEVICE_ORDER=PCI_BUS_ID` is set, so that CUDA counts them in the same order.

# %% facts=["A4", "G3"]
guess = devlab.predict(
    'With CUDA_VISIBLE_DEVICES="2,0", which of the three is cuda:0?',
    "the H100",
    "the upper L4",
    "the lower L4",
)

# %% [markdown] facts=["A4", "G3"]
# The function below is a model of the variable's rule in plain Python, and not the driver itself. (It leaves
# out that an entry may also be a GPU's long identifier, such as `GPU-8932f937-…`, and that no GPU may be
# named twice.)


# %% facts=["A4", "G3"]
def visible_gpus(names, visible):
    """Return the GPUs that a process sees, in the order of its own indices."""
    if visible is None:  # not set
        return names
    seen = []
    for entry in map(str.strip, visible.split(",")):
        if not entry.isdigit() or int(entry) >= len(names):
            break  # an entry that is no GPU ends the list
        seen.append(names[int(entry)])
    return seen


gpus = ["the H100", "the upper L4", "the lower L4"]
for visible in (None, "1", "2,0", ""):
    seen = visible_gpus(gpus, visible)
    print(f"{visible!r:<8}", ", ".join(f"cuda:{i} is {name}" for i, name in enumerate(seen)) or "none")
guess.was(visible_gpus(gpus, "2,0")[0])

# %% [markdown] facts=["A4", "G3"]
# With `"1"` there is one GPU, and its address is `cuda:0`. A program that asks for `cuda:1` fails there,
# although that GPU *is* number 1 for `nvidia-smi`. With `""` everything is hidden, and so it is with `"-1"`,
# which is no GPU. `None` means that the variable is not set, and that hides nothing: an empty string is not
# the same as unset. (In a longer list, everything after an entry that is no GPU is ignored, without a
# message.)
#
# The variable is read once, when the process first uses CUDA. To change it in a notebook, set it in the first
# cell, before torch is imported, and restart the notebook's Python (*Kernel*, *Restart Kernel*).
#
# **[Exercise](../exercises/02_cuda.ipynb#task_why_no_cuda):** `why_no_cuda` turns the table into a function
# that names the first of several causes.

# %% [markdown] facts=["G1", "G3"]
# ## Made there
#
# Back to tensors. You need the numbers from 0 to 999,999 on the accelerator, and there are two ways to say
# so. Both give the same tensor in the same place. `devlab.watch` counts what each of them does:

# %% facts=["G1"]
with devlab.watch() as log:
    there = torch.arange(1_000_000, device=device)
print(f"device=device: transfers {log.transfers}, bytes moved {log.bytes_moved:,}")

with devlab.watch() as log:
    moved = torch.arange(1_000_000).to(device)
print(f".to(device):   transfers {log.transfers}, bytes moved {log.bytes_moved:,}")

# %% [markdown] facts=["G1"]
# The second line wrote eight megabytes into the host's memory and then transferred them. The first let the
# accelerator write its own numbers. So **give the device to the function that makes the tensor**. Nearly all
# of them take it. One of the following needs a transfer all the same:

# %% facts=["G1"]
makers = {
    "torch.ones(4, device=device)": lambda: torch.ones(4, device=device),
    "torch.linspace(0, 1, 5, device=device)": lambda: torch.linspace(0, 1, 5, device=device),
    "torch.randn(4, device=device)": lambda: torch.randn(4, device=device),
    "torch.tensor([1, 2, 3, 4], device=device)": lambda: torch.tensor([1, 2, 3, 4], device=device),
    "torch.full((2, 2), 7, device=device)": lambda: torch.full((2, 2), 7, device=device),
}
for code, make in makers.items():
    with devlab.watch() as log:
        make()
    print(f"{code:<44} {log.transfers}")

# %% [markdown] facts=["G1"]
# The numbers of `torch.tensor([1, 2, 3, 4])` are Python's, so they are in the host's memory and have to be
# transferred. The other functions need only to be *told* what to write.
#
# **[Exercise](../exercises/02_cuda.ipynb#task_make_on):** `make_on` makes zeros of any shape and dtype on a
# device, and the transfers are counted.

# %% [markdown] facts=["G1"]
# ## A model there
#
# What does a GPU gain you? Here is a small network for pictures of 28 × 28 points. A model is made on the
# CPU, and `model.to(device)` transfers all its weights. The pictures are made where they are needed:

# %% facts=["G1"]
model = torch.nn.Sequential(torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).to(device)
images = torch.rand(4096, 784, device=device)

with devlab.watch() as log:
    scores = model(images)
print(f"scores {list(scores.shape)} on {scores.device}, transfers {log.transfers}")

# %% [markdown] facts=["G1"]
# The whole network ran on the accelerator and nothing was transferred, because everything that it needs was
# there. Its two layers take 3.3 billion operations for the 4096 pictures. The next cell compares the
# accelerator with a CPU. With a real accelerator all times are measured on your machine. With the simulated
# one they are modelled: the reference machine's CPU would need 8.7 ms at its peak of 384 billion operations a
# second, and more in practice.

# %% facts=["G1"]
guess = devlab.predict("About how many times as long as the accelerator does the CPU take?", 2, 20, 200)

# %% facts=["G1"] tags=["nbval-ignore-output"]
how = "modelled" if device.type == "sim" else "measured"
on_the_host = images.cpu()
with torch.no_grad():
    at_hand = devlab.time_op(lambda: model(images), device, show=False).median
    brought = devlab.time_op(lambda: model(on_the_host.to(device)), device, show=False).median

if device.type == "sim":
    cpu, which = 2 * 4096 * (784 * 512 + 512 * 10) / 384e9, "the reference machine's CPU at best"
else:
    on_the_cpu, which = deepcopy(model).cpu(), "this machine's CPU"
    with torch.no_grad():
        cpu = devlab.time_op(lambda: on_the_cpu(on_the_host), "cpu", show=False).median

print(f"{cpu * 1e3:5.2f} ms on {which} ({how})")
print(f"{at_hand * 1e3:5.2f} ms on {device}, where the pictures are ({how})")
print(f"{brought * 1e3:5.2f} ms on {device}, if they are transferred first ({how})")
guess.was_about(cpu / at_hand)

# %% [markdown] facts=["G1"]
# The first figure divided by the second is what the accelerator gains; the third shows how much of that is
# left if the pictures have to come from the host. In the model the accelerator takes a seventeenth of the
# CPU's time, and the transfer leaves little more than twofold. On a large GPU both effects are stronger: it
# computes far faster, and then nearly all of the time goes into the transfer. So a GPU is worth having, and
# placement decides how much of its speed you get. (Lesson 07 is about taking such times.)

# %% [markdown] facts=["E1", "E2"]
# ## When two devices meet
#
# In lesson 00 you saw that a tensor on the CPU and one on the accelerator cannot be added. That error comes
# in three common forms, and it is worth learning to read them. Each of these five operations is given one
# tensor on the accelerator and one on the CPU:


# %% facts=["E1", "E2"]
def attempt(words, operation):
    """Print where the result is, or what PyTorch says against it."""
    try:
        print(f"{words}: works, on {operation().device}\n")
    except RuntimeError as error:
        print(f"{words}:\n    {error}\n")


there = torch.ones(2, 3, device=device)
here = torch.ones(2, 3)
rows = torch.tensor([1, 0], device=device)
labels = torch.tensor([0, 2])

attempt("there + here", lambda: there + here)
attempt("there @ here.T", lambda: there @ here.T)
attempt("torch.cat([there, here])", lambda: torch.cat([there, here]))
attempt("cross_entropy(there, labels)", lambda: cross_entropy(there, labels))
attempt("here[rows]", lambda: here[rows])

# %% [markdown] facts=["E1", "E2"]
# **Most operations need all their inputs on one device.** The words are those that PyTorch prints on CUDA;
# the simulated accelerator puts `sim:0` where `cuda:0` would stand. (It even says `wrapper_CUDA`, so that you
# meet the real text. On Apple's `mps` the first and the last are worded alike, and most others are not:
# *Tensor for argument weight is on cpu but expected on mps*, says a `Linear`.)
#
# There is one trap in these messages. In the next cell the batch was made on the accelerator, and the layer
# was never moved there.

# %% facts=["E2"]
guess = devlab.predict("Which of the two does PyTorch's message name?", "the batch", "the layer")

# %% facts=["E2"]
layer = torch.nn.Linear(3, 2)
batch = torch.ones(4, 3, device=device)

try:
    layer(batch)
except RuntimeError as error:
    print(error)
    guess.was("the batch" if "mat1" in str(error) else "the layer")

# %% [markdown] facts=["E2"]
# `mat1` is the batch, which is where it should be. PyTorch compares every argument with one of them and
# reports the first that differs; it cannot know which of them you *meant*. So the message tells you that two
# places have met, and you decide which one is wrong. Three steps lead there:
#
# 1. Read the two addresses in the message.
# 2. In the traceback, find the last line that is *yours*.
# 3. Print the device of every tensor in that line.

# %% facts=["E2"]
print("batch       ", batch.device)
print("layer.weight", layer.weight.device)
print("layer.bias  ", layer.bias.device)

# %% [markdown] facts=["E2"]
# The layer stayed behind. For the first of the three steps, this is what the three forms of the message tell
# you:
#
# | the form | where it comes from | what it tells you |
# |---|---|---|
# | found **at least two devices**, A and B! | operations that work element by element, such as `+` and `*` | two addresses, and no names |
# | got **mat2** is on A, different from other tensors on B (… **wrapper_CUDA_mm**) | most others: `@`, `Linear`, `cat`, `cross_entropy` | the argument, and the operation, in PyTorch's names |
# | **indices** should be either on cpu or on the same device as the indexed tensor | `x[i]` | i is on an accelerator, and x is on another device |
#
# PyTorch's names are not yours, and it pays to know the common ones:
#
# | it says | you wrote |
# |---|---|
# | `mat1`, `mat2` in `mm` or `addmm` | the input and the weights of a `Linear`, or the two sides of `@` |
# | `index` in `_index_select` | the word numbers that you gave an `Embedding` |
# | `target` in `nll_loss_forward` | the labels, in cross-entropy |
# | `tensors` in `cat` | one of the list, in `cat` or `stack` |
#
# Convolutions have words of their own: *Input type (torch.cuda.FloatTensor) and weight type
# (torch.FloatTensor) should be the same*. Here the types contain the places: the pictures are on the GPU, and
# the layer's weights are on the CPU. The other way round a `Conv2d` uses the second form: *got weight is on
# cuda:0, different from other tensors on cpu (… wrapper_CUDA___slow_conv2d_forward)*. Older releases of
# PyTorch mix the first two forms: *found at least two devices, cuda:0 and cpu! (when checking argument for
# argument mat2 in method wrapper_CUDA_mm)*. It means the same.
#
# `devlab.explain`, which you know from lesson 00, takes the same three steps and then guesses what you meant.
# (It writes `f32[4,3]` for a float32 tensor of shape [4, 3].)

# %% facts=["E2"]
try:
    layer(batch)
except RuntimeError as error:
    devlab.explain(error)

# %% [markdown] facts=["E2"]
# It names the layer, because the program took the trouble to make the batch on the accelerator and never
# moved the layer. Most often that is right; it is still a guess.

# %% [markdown] facts=["E3"]
# ## Bring one to the other
#
# One `.to` mends it, and there are two ways to write that. Both give the same product, and they differ in
# what has to be transferred:

# %% facts=["E3"]
table = torch.ones(1000, 1000, device=device)
row = torch.ones(1000)

with devlab.watch() as log:
    scaled = table * row.to(table.device)
print("row to table:", scaled.device, f"{log.bytes_moved:,} bytes moved")

with devlab.watch() as log:
    scaled = table.to(row.device) * row
print("table to row:", scaled.device, f"{log.bytes_moved:,} bytes moved")

# %% [markdown] facts=["E3"]
# The first is better in nearly every program. It moves a thousandth of the bytes, and it leaves the result
# where the next step of the work will be. **Bring the small one to the big one, and stay on the
# accelerator.**
#
# Write the other tensor's device, `row.to(table.device)`, rather than a name like `"cuda"`. Then the line is
# right wherever the table is, and it needs no `if`, because `.to` does nothing where the tensor is there
# already:

# %% facts=["E3"]
with devlab.watch() as log:
    table.to(table.device)
print("transfers", log.transfers, "new bytes", log.bytes_allocated)

# %% [markdown] facts=["E3"]
# There is a shorter form, `row.to(table)`, common in other people's code. In the next cell x holds the counts
# 10, 20 and 30, on the accelerator, and y holds the shares 0.5, 0.25 and 0.75, on the CPU.

# %% facts=["E3"]
guess = devlab.predict("What is x * y.to(x)?", "[5.0, 5.0, 22.5]", "[0, 0, 0]", "an error")

# %% facts=["E3"]
x = torch.tensor([10, 20, 30], device=device)
y = torch.tensor([0.5, 0.25, 0.75])

print("x * y.to(x.device):", (x * y.to(x.device)).tolist())
print("x * y.to(x):       ", (x * y.to(x)).tolist())
guess.was((x * y.to(x)).tolist())

# %% [markdown] facts=["E3"]
# `y.to(x)` copies x's device **and x's dtype**. The shares became integers, and no message says that the
# fractions are gone. If you mean the device, say the device.

# %% [markdown] facts=["E6"]
# ## What may meet
#
# The rule has exceptions, and they explain why some mixed code runs. Of these seven lines, five work:

# %% facts=["E6"]
attempt("1  there * 2.5", lambda: there * 2.5)
attempt("2  there * torch.tensor(2.5)", lambda: there * torch.tensor(2.5))
attempt("3  there * torch.tensor([2.5])", lambda: there * torch.tensor([2.5]))
attempt("4  here * torch.tensor(2.5, device=device)", lambda: here * torch.tensor(2.5, device=device))
attempt("5  there[torch.tensor([1, 0])]", lambda: there[torch.tensor([1, 0])])
attempt("6  here.clone().copy_(there)", lambda: here.clone().copy_(there))
attempt("7  there.clone().copy_(here)", lambda: there.clone().copy_(here))

# %% [markdown] facts=["E6"]
# The difference between 2, 3 and 4 is worth a minute:
#
# - **A Python number** (1) has no device and may go anywhere.
# - **A zero-dimensional tensor on the CPU** (2) counts as such a number, in operations that work element by
#   element: its value is passed along with the command that starts the operation. With one pair of brackets
#   more (3) it is an ordinary tensor of one element, and is refused.
# - **The other way round is refused** (4): a CPU tensor of several numbers does not take a single number from
#   the accelerator. That number may not be computed yet, and the CPU would have to wait for it.
# - **An index on the CPU** may index an accelerator's tensor (5). You have seen the opposite fail above.
# - **`copy_`** writes into memory that exists, from wherever the numbers are (6 and 7), and the result stays
#   where that memory is. In line 6 the CPU does wait, because you asked it to fetch the numbers.
#
# What is allowed still has a cost:

# %% facts=["E6"]
allowed = {
    "there * torch.tensor(2.5)": lambda: there * torch.tensor(2.5),
    "there[torch.tensor([1, 0])]": lambda: there[torch.tensor([1, 0])],
    "here.clone().copy_(there)": lambda: here.clone().copy_(there),
}
for code, operation in allowed.items():
    with devlab.watch() as log:
        operation()
    print(f"{code:<28} transfers {log.transfers}, bytes {log.bytes_moved}")

# %% [markdown] facts=["E6"]
# The number was passed along with the command and is not counted as a transfer; the index and the copy are.
# Inside a loop, keep your indices where the data is.
#
# One last case surprises nearly everyone once. A running total begins as a number on the CPU, and each loss
# that is added to it is on the accelerator.

# %% facts=["E6"]
guess = devlab.predict(
    "Where is the total after three losses?", "on the CPU", "on the accelerator", "nowhere, it is an error"
)

# %% facts=["E6"]
total = torch.tensor(0.0)
print("before:", total.device)
for loss in torch.tensor([0.9, 0.7, 0.4], device=device):
    total = total + loss
print("after: ", total.device)
guess.was("on the CPU" if total.is_cpu else "on the accelerator")

# %% [markdown] facts=["E6"]
# Two single numbers may meet, and the *accelerator's* device wins, on whichever side it stands. There was no
# error, and the total has moved. (`total += loss` would have been refused, because it has to write its result
# into the CPU's tensor.) So "x plus something" is not always where x is. If a result has to be in a certain
# place, bring the other tensor there yourself.
#
# **[Exercise](../exercises/02_cuda.ipynb#task_add_anywhere):** `add_anywhere` adds two tensors from any two
# places, and its sum is always on the device of the first.

# %% [markdown]
# ## What to keep
#
# - `"cuda"` is a name; a tensor is at a full address, such as `cuda:0`. A bare name means the current device.
# - `torch.cuda.is_available()`, `device_count()` and `get_device_name(i)` say what is here. Mind the
#   parentheses.
# - CUDA where it is available and the CPU elsewhere: ask inside a function, when the program runs and not on
#   import, and pass the device along.
# - No CUDA? The build, the GPU, the driver, `CUDA_VISIBLE_DEVICES`, in this order. Hiding some GPUs renumbers
#   the rest.
# - Make tensors where you need them: `device=device` in the function that makes them. `model.to(device)`
#   takes a model there.
# - A mismatch names two addresses. Find your line, print its devices, decide which is wrong, then bring one
#   to the other.
# - Numbers, zero-dimensional CPU tensors, CPU indices and `copy_` may mix devices. Nearly all other operands
#   must be brought together.
#
# **Now do it:** [the exercises of this lesson](../exercises/02_cuda.ipynb), six functions. **Then:** [03
# MPS](03_mps.ipynb), the GPU in a Mac.
