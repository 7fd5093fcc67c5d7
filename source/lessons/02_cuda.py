# %% [markdown]
# # 02 CUDA
#
# CUDA is NVIDIA's platform for general work on a GPU, and `cuda` is PyTorch's name for such a GPU. AMD's GPUs
# answer to the same name, with a PyTorch that is built for ROCm, AMD's counterpart of CUDA. The name leaves
# three questions open: which of several GPUs it means, whether there is one at all, and what happens to the
# tensors that are somewhere else.
#
# ![The CPU with its own memory beside a GPU with its own memory. Each reads its own memory through a broad link, the GPU at 300 and the CPU at 51 gigabytes a second; the link between the two memories is thin, 12 gigabytes a second at best, and .to copies over it](drawing:gpu_beside_cpu)
#
# After this lesson you can name one GPU among several, choose a device that exists, find out why PyTorch sees
# no GPU, make tensors where you need them, run a model there, and read the error that every user of a GPU
# sees sooner or later.
#
# **Takes** about 25 minutes to read, and 30 for the tasks. **Needs** [00 Start here](00_start_here.ipynb).

# %%
import os
from collections import Counter
from copy import deepcopy

import torch

import devlab

device = devlab.start()

# %% [markdown]
# The figures in the drawing are those of the reference machine from lesson 00. When a cell asks about a
# machine with three NVIDIA GPUs, that machine is *pretended*, and the text says so.

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
# looks for the house when it has something to deliver, which is when it makes a tensor there. What the next
# cell prints depends on your machine:

# %% facts=["G1"] tags=["nbval-ignore-output"]
try:
    print(torch.zeros(2, device="cuda").device)
except (AssertionError, RuntimeError) as error:
    print(f"{type(error).__name__}: {error}")

# %% [markdown] facts=["G1"]
# These pages were made with a PyTorch that is built for the CPU alone, and the message says so. On a Mac you
# read the same words, and all is well: lesson 03 is about its GPU. With an NVIDIA or AMD GPU you see
# `cuda:0`, although the cell asked for `cuda`. The accelerator that you work with here does the same with its
# own name:

# %% facts=["G1"]
bare = device.type  # "cuda" with an NVIDIA or AMD GPU, "mps" on a Mac, "sim" for the simulated accelerator
x = torch.zeros(2, 3, device=bare)
print("asked for ", bare)
print("reads back", x.device)

# %% [markdown] facts=["G1", "G3"]
# The address of a tensor is always complete: **`device="cuda"` makes a tensor on an NVIDIA or AMD GPU, and it
# reads back with an index, most often as `cuda:0`**. The indices count from 0, and an index selects one GPU
# of several. These are all the accelerators of this machine:

# %% facts=["G3"]
for index in range(torch.accelerator.device_count()):
    print(torch.zeros(2, device=f"{device.type}:{index}").device)

# %% [markdown] facts=["G3"]
# If you ask CUDA for an index that is not there, it refuses, with the words *invalid device ordinal*.

# %% [markdown] facts=["G2"]
# ## The current device
#
# One device of each kind is the **current** one, and a bare name means that one. When a program starts, it is
# number 0. The next cell makes the last one current for the length of a block, and uses the same bare name
# before, inside and after it:

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
# The same line of code made tensors in two places, if your machine has two GPUs. So a bare `"cuda"` is not
# short for `cuda:0`. It means **the current CUDA device, which need not be 0**, and two tensors that were
# made with the same word may not meet:

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
# `torch.accelerator` speaks of the accelerator that PyTorch has chosen, of whatever kind. For CUDA alone
# there are `torch.cuda.current_device()`, the block `with torch.cuda.device(1):`, and
# `torch.cuda.set_device(1)` for the rest of the program. PyTorch's documentation discourages the last: it
# prefers the block, and in most cases the variable `CUDA_VISIBLE_DEVICES`, which comes
# [below](#Hidden-and-renumbered).
#
# **[Exercise](../exercises/02_cuda.ipynb#task_resolve):** `resolve` turns any name into the one device that
# it means now.

# %% [markdown] facts=["A1", "A2", "A3"]
# ## Which ones are here
#
# `torch.cuda` says whether CUDA can be used, how many GPUs there are, and what each one is called and can do.
# These are the answers of your machine:

# %% facts=["A1", "A2", "A3"] tags=["nbval-ignore-output"]
print("is_available:", torch.cuda.is_available())
print("device_count:", torch.cuda.device_count())
if torch.cuda.is_available():
    print("the current one:", torch.cuda.get_device_name())
    print(torch.cuda.get_device_properties())
    print("compute capability:", torch.cuda.get_device_capability())

# %% [markdown] facts=["A1", "A2"]
# The first two questions raise no error and are safe to ask anywhere. The others raise one where there is no
# such GPU. The **compute capability** is NVIDIA's number for a generation: 7.5 is a T4, 9.0 an H100 or H200.
# A build of PyTorch has code for some of them, which `torch.cuda.get_arch_list()` names.
#
# To see how a machine with several GPUs would answer, we pretend to have one. **The answers are invented**:
# behind them stands your CPU.

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
# it, `get_device_name()` always names the current device. The order of the indices is CUDA's guess at which
# GPU is the fastest, while the program `nvidia-smi` goes by the slot on the board. With
# `CUDA_DEVICE_ORDER=PCI_BUS_ID` in the environment both use the same order. [Read
# nvidia-smi](../docs/borrow_a_gpu.md) explains the rest of its table.
#
# **[Exercise](../exercises/02_cuda.ipynb#task_list_gpus):** `list_gpus` pairs each index with its name, and
# answers without an error where there is no GPU.

# %% [markdown] facts=["G4"]
# ## The safe choice
#
# A program that says `device="cuda"` stops on every machine without such a GPU. The line of lesson 00 asks
# `torch.accelerator`. Most programs that you will read begin with an older line, **CUDA where it is
# available, and the CPU elsewhere**, here on two pretended machines:

# %% facts=["G4", "A1"]
for words, machine in (("three GPUs", three_gpus), ("no GPU", no_gpu)):
    with machine:
        chosen = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print(f"{words} pretended: {chosen}")

# %% [markdown] facts=["G4"]
# Below that line the program says `device=device`, and the word `"cuda"` does not occur again. The line goes
# wrong in two ways. The first is to leave out the parentheses after `is_available`.

# %% facts=["G4", "A1"]
guess = devlab.predict(
    "Without the parentheses, what does the line choose on a machine without a GPU?",
    "cuda",
    "cpu",
    "neither, it is an error",
)

# %% facts=["G4", "A1"]
with no_gpu:
    chosen = torch.device("cuda" if torch.cuda.is_available else "cpu")
guess.was(chosen)

# %% [markdown] facts=["A1"]
# Without its parentheses nothing is asked: `torch.cuda.is_available` is a function, and to Python a function
# counts as true. On a machine with a GPU the line seems to work.
#
# The second way is to ask at the wrong time. The line `HAS_GPU = …` stands for the top of a module: it runs
# once, on import. The function is called later, on a pretended machine with three GPUs:

# %% facts=["G4"]
with no_gpu:
    HAS_GPU = torch.cuda.is_available()  # at import


def remembered_choice():
    return torch.device("cuda" if HAS_GPU else "cpu")


with three_gpus:
    print("3 GPUs pretended:", remembered_choice())

# %% [markdown] facts=["G4"]
# So ask inside a function, which runs when the program does, and pass the device along as an argument.
#
# **[Exercise](../exercises/02_cuda.ipynb#task_pick_cuda_or_cpu):** `pick_cuda_or_cpu` makes the older line a
# function that fits the machine of each call.

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
# Work through them from the top, because often several fail at once: a laptop without a GPU usually has no
# driver either. The command that installs a build for CUDA is on pytorch.org. Two of the four questions can
# be asked from here:

# %% facts=["A4"] tags=["nbval-ignore-output"]
print("built for CUDA:      ", torch.version.cuda)
print("built for ROCm:      ", torch.version.hip)
print("CUDA_VISIBLE_DEVICES:", repr(os.environ.get("CUDA_VISIBLE_DEVICES")))

# %% [markdown] facts=["A4"]
# These pages were built with the variable set to an empty string, so that no GPU can change them. If there is
# no GPU in your machine, [Borrow a GPU for an hour](../docs/borrow_a_gpu.md) says where you can borrow one,
# free of charge.
#
# The first row is the one most often misread. `torch.version.cuda` speaks of the *package*: it says the same
# on a laptop without a GPU as on the largest server. Only `torch.cuda.is_available()` looks at the machine.
# One case gets past it: if the build has no code for the GPU's compute capability, the first operation fails
# with *no kernel image is available*, and another build is what helps.
#
# **With an AMD GPU** `torch.version.hip` names the build, and `torch.version.cuda` is `None` although all is
# well. The driver's tool is `amd-smi`, and `HIP_VISIBLE_DEVICES` hides GPUs, too. **On a Mac** none of the
# four applies, and lesson 03 has its own two questions.

# %% [markdown] facts=["A4", "G3"]
# ### Hidden and renumbered
#
# `CUDA_VISIBLE_DEVICES` is an environment variable, and often a colleague's script has set it, or the
# scheduler that shares out the GPUs of a cluster. It decides which GPUs a process can see, and it
# **renumbers** them in the order in which it lists them. Here is a machine on which `nvidia-smi` lists an
# H100 as 0, the upper L4 as 1 and the lower L4 as 2, and CUDA counts them in the same order.

# %% facts=["A4", "G3"]
guess = devlab.predict(
    'With CUDA_VISIBLE_DEVICES="2,0", which of the three is cuda:0?',
    "the H100",
    "the upper L4",
    "the lower L4",
)

# %% [markdown] facts=["A4", "G3"]
# The function below is a model of the variable's rule in plain Python, for entries that are numbers.


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
# although that GPU *is* number 1 for `nvidia-smi`. With `""` everything is hidden, and so it is with `"-1"`.
# `None` means that the variable is not set, and that hides nothing.
#
# The variable is read once, when the process first uses CUDA. To change it in a notebook, set it in the first
# cell, before torch is imported, and restart the notebook's Python.
#
# **[Exercise](../exercises/02_cuda.ipynb#task_why_no_cuda):** `why_no_cuda` turns the table into a function
# that names the first of several causes.

# %% [markdown] facts=["G1", "G3"]
# ## Made there
#
# You need the numbers from 0 to 999,999 on the accelerator. Here are two ways to say so, and `devlab.watch`
# counts what each of them does:

# %% facts=["G1"]
with devlab.watch() as log:
    there = torch.arange(1_000_000, device=device)
print(f"device=device: transfers {log.transfers}, bytes moved {log.bytes_moved:,}")

with devlab.watch() as log:
    moved = torch.arange(1_000_000).to(device)
print(f".to(device):   transfers {log.transfers}, bytes moved {log.bytes_moved:,}")

# %% [markdown] facts=["G1"]
# The second line wrote eight megabytes into the host's memory and then transferred them. The first let the
# accelerator write its own numbers. So **give the device to the function that makes the tensor**. One of the
# following needs a transfer all the same:

# %% facts=["G1"]
for line in (
    "torch.ones(4, device=device)",
    "torch.linspace(0, 1, 5, device=device)",
    "torch.randn(4, device=device)",
    "torch.tensor([1, 2, 3, 4], device=device)",
    "torch.full((2, 2), 7, device=device)",
):
    with devlab.watch() as log:
        eval(line)
    print(f"{line:<44} {log.transfers}")

# %% [markdown] facts=["G1"]
# The numbers of `torch.tensor([1, 2, 3, 4])` are Python's, so they are in the host's memory and have to be
# transferred. The other functions need only to be *told* what to write.
#
# **[Exercise](../exercises/02_cuda.ipynb#task_make_on):** `make_on` makes zeros of any shape and dtype on a
# device, and the transfers are counted.

# %% [markdown] facts=["G1"]
# ## A model there
#
# What does a GPU gain you? A model is made on the CPU, and `model.to(device)` transfers all its weights. The
# pictures, of 28 × 28 points, are made where they are needed:

# %% facts=["G1"]
model = torch.nn.Sequential(torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).to(device)
images = torch.rand(4096, 784, device=device)

with devlab.watch() as log:
    scores = model(images)
print(f"scores {list(scores.shape)} on {scores.device}, transfers {log.transfers}")

# %% [markdown] facts=["G1"]
# The whole network ran on the accelerator and nothing was transferred. How does the time compare with a
# CPU's? With a real accelerator the next cell measures both; with the simulated one both are modelled.

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
# left if the pictures have to come from the host. On a large GPU both effects are stronger: it computes far
# faster, and then nearly all of the time goes into the transfer.
#
# One setting gains more. NVIDIA's GPUs since Ampere multiply float32 matrices several times as fast if each
# number may be shortened to 10 bits of fraction, a format called **TF32**. A large product on the H200 ran at
# {measured:basics:operations/s, 8192 x 8192 product, float32} without and at {measured:basics:operations/s,
# 8192 x 8192 product, float32 with TF32} with it, measured. PyTorch allows it for convolutions, and for
# products only if you ask:

# %% facts=["G1"]
print("products:    ", torch.backends.cuda.matmul.fp32_precision)
print("convolutions:", torch.backends.cudnn.conv.fp32_precision)

# %% [markdown] facts=["G1"]
# `torch.backends.cuda.matmul.fp32_precision = "tf32"` asks for it. The older form,
# `torch.set_float32_matmul_precision("high")`, does the same; a program that mixes the two gets an error.
# What it costs in digits is in lesson 12.

# %% [markdown] facts=["E1", "E2"]
# ## When two devices meet
#
# A tensor on the CPU and one on the accelerator cannot be added. That error comes in three common forms, and
# it is worth learning to read them. Each of these five operations is given one tensor on the accelerator and
# one on the CPU:


# %% facts=["E1", "E2"]
def attempt(*lines):
    """Run each line; print where its result is, or what PyTorch says against it."""
    for line in lines:
        try:
            print(f"{line}: works, on {eval(line).device}\n")
        except RuntimeError as error:
            print(f"{line}:\n    {error}\n")


there = torch.ones(2, 3, device=device)
here = torch.ones(2, 3)
rows = torch.tensor([1, 0], device=device)
labels = torch.tensor([0, 2])

attempt(
    "there + here",
    "there @ here.T",
    "torch.cat([there, here])",
    "torch.nn.functional.cross_entropy(there, labels)",
    "here[rows]",
)

# %% [markdown] facts=["E1", "E2"]
# **Most operations need all their inputs on one device.** The words are those that PyTorch prints on CUDA;
# the simulated accelerator puts `sim:0` where `cuda:0` would stand, and an H200 gave the same. On Apple's
# `mps` the first and the last are worded alike, and most others are not.
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
# `mat1` is the batch, which is where it should be. PyTorch compares every argument with the first one, which
# for a `Linear` is its bias, and reports the first that differs; it cannot know which of them you *meant*. So
# the message tells you that two places have met, and you decide which one is wrong:
#
# 1. Read the two addresses in the message.
# 2. In the traceback, find the last line that is *yours*.
# 3. Print the device of every tensor in that line.

# %% facts=["E2"]
print("batch       ", batch.device)
print("layer.weight", layer.weight.device)
print("layer.bias  ", layer.bias.device)

# %% [markdown] facts=["E2"]
# The layer stayed behind. PyTorch's names are not yours, and it pays to know the common ones:
#
# | it says | you wrote |
# |---|---|
# | found **at least two devices**, A and B! | an operation that works element by element, such as `+` |
# | `mat1`, `mat2` in `mm` or `addmm` | the input and the weights of a `Linear`, or the two sides of `@` |
# | `index` in `_index_select` | the word numbers that you gave an `Embedding` |
# | `target` in `nll_loss_forward` | the labels, in cross-entropy |
# | `tensors` in `cat` | one of the list, in `cat` or `stack` |
# | **indices** should be either on cpu or on the same device as the indexed tensor | `x[i]`, with i on an accelerator and x elsewhere |
# | *Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same* | a `Conv2d` that stayed on the CPU, and pictures on the GPU |
# | *Tensor device mismatch*, then the first form as its *Explanation* | the line that stands below *from user code*, in a function under `torch.compile` |
# | `weight` in `slow_conv2d_forward` | a `Conv2d` on the GPU, and pictures that stayed on the CPU |
#
# `devlab.explain` takes the same three steps and then guesses what you meant:

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
# The first moves a thousandth of the bytes, and it leaves the result where the next step of the work will be.
# **Bring the small one to the big one, and stay on the accelerator.** Write the other tensor's device,
# `row.to(table.device)`, rather than a name like `"cuda"`. Then the line is right wherever the table is, and
# it needs no `if`:

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
# The rule has exceptions. Of these seven lines, five work:

# %% facts=["E6"]
attempt(
    "there * 2.5",
    "there * torch.tensor(2.5)",
    "there * torch.tensor([2.5])",
    "here * torch.tensor(2.5, device=device)",
    "there[torch.tensor([1, 0])]",
    "here.clone().copy_(there)",
    "there.clone().copy_(here)",
)

# %% [markdown] facts=["E6"]
# - **A Python number** has no device and may go anywhere.
# - **A zero-dimensional tensor on the CPU** counts as such a number, in operations that work element by
#   element: its value is passed along with the launch. With one pair of brackets more it is an ordinary
#   tensor of one element, and is refused.
# - **The other way round is refused**: a CPU tensor of several numbers does not take a single number from the
#   accelerator. That number may not be computed yet, and the CPU would have to wait for it.
# - **An index on the CPU** may index an accelerator's tensor. You have seen the opposite fail above.
# - **`copy_`** writes into memory that exists, from wherever the numbers are, and the result stays where that
#   memory is.
#
# What is allowed still has a cost:

# %% facts=["E6"]
for line in ("there * torch.tensor(2.5)", "there[torch.tensor([1, 0])]", "here.clone().copy_(there)"):
    with devlab.watch() as log:
        eval(line)
    print(f"{line:<28} transfers {log.transfers}, bytes {log.bytes_moved}")

# %% [markdown] facts=["E6"]
# The number was passed along and is not counted. The index and the copy are, and the host waits for each of
# the two. Inside a loop, keep your indices where the data is.
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
# error, and the total has moved; `total += loss` would have been refused, because it has to write its result
# into the CPU's tensor. If a result has to be in a certain place, bring the other tensor there yourself.
#
# **[Exercise](../exercises/02_cuda.ipynb#task_add_anywhere):** `add_anywhere` adds two tensors from any two
# places, and its sum is always on the device of the first.

# %% [markdown]
# ## What to keep
#
# - `"cuda"` is a name; a tensor is at a full address, such as `cuda:0`. A bare name means the current device.
# - `torch.cuda.is_available()`, `device_count()` and `get_device_name(i)` say what is here. Mind the
#   parentheses, and ask when the program runs, not on import.
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
