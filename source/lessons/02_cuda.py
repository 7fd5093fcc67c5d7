# %% [markdown]
# # 02 CUDA
#
# CUDA is NVIDIA's way to run general work on a GPU, and `cuda` is PyTorch's name for such a GPU. AMD's GPUs
# answer to the same name: a PyTorch that is built for ROCm, AMD's counterpart of CUDA, calls them `cuda` too, so
# that programs run on both. The name is easy to type, and much is hidden in it: which of several GPUs it
# means, whether there is one at all, and what happens to the tensors that are somewhere else.
#
# ![The CPU with its own memory beside a GPU with its own memory, and between the two memories a thin line on which .to copies](drawing:gpu_beside_cpu)
#
# After this lesson you can choose a device that exists, name one GPU among several, find out why there is
# none, make tensors where you need them, and read the error that everyone who uses a GPU gets to see.
#
# **Takes** about 50 minutes. **Needs** [00 Start here](00_start_here.ipynb); [01 The CPU](01_cpu.ipynb) helps.

# %%
import os
from unittest.mock import patch

import torch
from torch.nn.functional import cross_entropy

import devlab

device = devlab.start()

# %% [markdown]
# **What is real here.** The tensors on `device` are real tensors: on your GPU, or on the simulated accelerator.
# Where a cell asks about a machine with three NVIDIA GPUs, their *answers* are pretended, and the text says so.
# Nothing in this lesson is timed. What it counts, transfers and bytes, is counted and not modelled.

# %% [markdown] facts=["G1", "G3"]
# ## The name of a GPU
#
# There may be no NVIDIA GPU in the machine that runs this cell. Which of the three lines will fail?

# %% facts=["G1", "G3"]
for name in ("cuda", "cuda:0", "cuda:7"):
    named = torch.device(name)
    print(f"{name:<7} type {named.type}, index {named.index}")

# %% [markdown] facts=["G1", "G3"]
# None. A `torch.device` is an address on an envelope: you can write down a street that does not exist. PyTorch
# looks for the house when it has something to deliver, which is when it makes a tensor there.
#
# So the moment of truth is this one. What it prints depends on your machine:

# %% facts=["G1"] tags=["nbval-ignore-output"]
try:
    print(torch.zeros(2, device="cuda").device)
except (AssertionError, RuntimeError) as error:
    print(f"{type(error).__name__}: {error}")

# %% [markdown] facts=["G1"]
# These pages were made with a PyTorch that is built for the CPU only, and it says so. With an NVIDIA GPU, or with an
# AMD GPU and a ROCm build, you see
# `cuda:0`. Read that closely: we asked for `cuda`, and the tensor is on `cuda:0`. The accelerator of
# this bench does the same with its own name. Before you run it: what will the second line say?

# %% facts=["G1"]
bare = device.type  # "cuda" on an NVIDIA GPU, "sim" on the simulated accelerator
x = torch.zeros(2, 3, device=bare)
print("asked for ", bare)
print("reads back", x.device)

# %% [markdown] facts=["G1", "G3"]
# A tensor on an accelerator is always at a full address: `device="cuda"` **creates on an NVIDIA GPU and reads back
# as `cuda:0`**. The number is an **index**, it counts from 0, and it selects one GPU of several. This
# bench has as many as the next cell prints lines:

# %% facts=["G3"]
for index in range(torch.accelerator.device_count()):
    print(torch.zeros(2, device=f"{device.type}:{index}").device)

# %% [markdown] facts=["G3"]
# Ask for an index that is not there, and PyTorch refuses at once, with the words *invalid device ordinal*. Nobody
# is given the nearest one instead.

# %% [markdown] facts=["G2"]
# ## The current device
#
# Why did `cuda` become `cuda:0`, then, and not `cuda:1`? Not because 0 is the first. One device of each kind is
# the **current** one, and a bare name means that. At the start it is number 0. Here the last one is made
# current, for the length of a block. Predict the three addresses:

# %% facts=["G2"]
last = torch.accelerator.device_count() - 1

before = torch.zeros(2, device=bare)
with torch.accelerator.device_index(last):
    inside = torch.zeros(2, device=bare)
after = torch.zeros(2, device=bare)

print("before", before.device)
print("inside", inside.device)
print("after ", after.device)

# %% [markdown] facts=["G2"]
# The same line of code, two places. (With one GPU in your machine you see one place: there is no other.) So a
# bare `"cuda"` is not short for `cuda:0`. It means **the current CUDA device, which need not be 0**. For CUDA alone
# the same is said with `with torch.cuda.device(1):` for a block, and `torch.cuda.set_device(1)` for the rest of the
# program. PyTorch's documentation prefers the block. Programs that train on many GPUs set the device once in each
# of their processes, often inside a library, so you may never see that line.
#
# Two tensors can be made with the same word and still not meet. Will this sum work?

# %% facts=["G2", "E1"]
try:
    print((before + inside).device)
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["G2"]
# Both were made with `device=bare`, and they are on two devices. If you want to know where a name leads *now*,
# ask for the current index, or let PyTorch make an empty tensor there and read its address:

# %% facts=["G2"]
with torch.accelerator.device_index(last):
    print("by number:", torch.accelerator.current_device_index())
    print("by tensor:", torch.empty(0, device=bare).device)

# %% [markdown] facts=["G2"]
# For CUDA alone there is `torch.cuda.current_device()`, and `torch.get_device_module(name).current_device()` finds
# the right module for a kind. (`torch.mps` has no such question: a Mac has one GPU, number 0.)
#
# **[Exercise](../exercises/02_cuda.ipynb#task_resolve):** `resolve`.

# %% [markdown] facts=["A1", "A2", "A3"]
# ## Which ones are here
#
# `torch.cuda` answers three questions. Can CUDA be used, how many GPUs are there, what is each one called? The
# answers are those of your machine:

# %% facts=["A1", "A2", "A3"] tags=["nbval-ignore-output"]
print("is_available:", torch.cuda.is_available())
print("device_count:", torch.cuda.device_count())
for index in range(torch.cuda.device_count()):
    print(index, torch.cuda.get_device_name(index))

# %% [markdown] facts=["A1", "A2"]
# On the machine that made these pages: `False`, `0`, and nothing to name. Note what did not happen: no
# error. `is_available` and `device_count` are safe to ask anywhere, also with a PyTorch that knows no CUDA. (With a
# ROCm build and an AMD GPU they say `True` and count AMD's GPUs.)
# (`get_device_name` is not: it raises where there is no such GPU.) The simulated accelerator is not CUDA and does
# not pretend to be, so it changes none of the three answers.
#
# To see a machine with several GPUs, we fake one. `patch` replaces the three functions by others, for the length
# of a `with` block, and puts them back afterwards. **The answers are invented, and nothing else is there**: no tensor
# can be made on these GPUs.


# %%
def pretend_gpus(names):
    """Let torch.cuda say, for a block, that GPUs of these names are here."""
    return patch.multiple(
        torch.cuda,
        is_available=lambda: bool(names),
        device_count=lambda: len(names),
        get_device_name=lambda index=0: names[index],
    )


# %% [markdown]
# Before you run it: how many lines, and what is in the last one?

# %% facts=["A1", "A2", "A3"]
three = ["NVIDIA H100 PCIe", "NVIDIA L4", "NVIDIA L4"]

with pretend_gpus(three):
    print("pretended: CUDA available", torch.cuda.is_available())
    for index in range(torch.cuda.device_count()):
        print(f"pretended: cuda:{index} is", torch.cuda.get_device_name(index))

# %% [markdown] facts=["A3"]
# Two of the three have the same name. A **name** is for people: it tells you what to expect. The **index** is the
# address. Say the index when you ask for a name; `get_device_name()` without one names the current device,
# however often you ask.
#
# The order may surprise you: unless told otherwise, CUDA guesses which GPU is the fastest and makes that number 0,
# while the tool `nvidia-smi` goes by the slot on the board. With `CUDA_DEVICE_ORDER=PCI_BUS_ID` in the environment
# both count alike.
#
# **[Exercise](../exercises/02_cuda.ipynb#task_list_gpus):** `list_gpus`.

# %% [markdown] facts=["G4"]
# ## The safe choice
#
# A program that says `device="cuda"` stops on every machine without a GPU. So nearly every PyTorch program begins
# with this line, or one like it. The pretended machines show both of its answers:

# %% facts=["G4", "A1"]
for gpus in (three, []):
    with pretend_gpus(gpus):
        chosen = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        print(f"{len(gpus)} GPUs pretended: {chosen}")

# %% [markdown] facts=["G4"]
# **CUDA where it is available, and the CPU elsewhere.** From here on the program says `device=chosen` and never
# `"cuda"` again. (Lesson 03 adds a step for Apple's GPUs.)
#
# The line is short, and it goes wrong in two ways. Here is the first. What does it choose on a machine without a
# GPU?

# %% facts=["G4", "A1"]
with pretend_gpus([]):
    print("cuda" if torch.cuda.is_available else "cpu")

# %% [markdown] facts=["A1"]
# The brackets are missing. Without them nothing is asked: `torch.cuda.is_available` is a function, and to Python a
# function counts as true. On the author's machine, which has a GPU, nobody will notice.
#
# The second one is about *when* it is asked. Think of the line with `CHOSEN` as the top of a module, which runs once,
# on import, and suppose that no GPU was there at that time. What will the function answer later, with three?

# %% facts=["G4"]
with pretend_gpus([]):
    CHOSEN = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # at import


def device_to_use():
    return CHOSEN


with pretend_gpus(three):
    print("3 GPUs pretended:", device_to_use())

# %% [markdown] facts=["G4"]
# The question was asked once, and the answer kept. A real machine seldom gains a GPU between two lines. But a test
# that wants to see the other branch, a tool that imports your module only to read its documentation, or a child
# process that was given other GPUs: all of them get an answer from the wrong time. Ask inside a
# function, and hand the device on as an argument.
#
# **[Exercise](../exercises/02_cuda.ipynb#task_pick_cuda_or_cpu):** `pick_cuda_or_cpu`.

# %% [markdown] facts=["A4"]
# ## Why there is none
#
# "But I *have* a GPU." Lesson 00 named what CUDA needs. In the order in which it is worth checking:
#
# | ask | how to find out | if not |
# |---|---|---|
# | Is this **build** of PyTorch made for CUDA? | `torch.version.cuda` is not `None` | if there is an NVIDIA GPU, install a build for CUDA; nothing else will help |
# | Is there an **NVIDIA GPU**? | the list of the system's devices | use the CPU, or another accelerator |
# | Does its **driver** work? | `nvidia-smi` in a terminal prints a table | install it, or a newer one |
# | Is the GPU **visible** to this process? | `CUDA_VISIBLE_DEVICES` | change it and start anew |
#
# Two of the four can be asked from here. On your machine:

# %% facts=["A4"] tags=["nbval-ignore-output"]
print("built for CUDA:      ", torch.version.cuda)
print("built for ROCm:      ", torch.version.hip)
print("CUDA_VISIBLE_DEVICES:", repr(os.environ.get("CUDA_VISIBLE_DEVICES")))

# %% [markdown] facts=["A4"]
# (These pages were built with the variable set to an empty text, on purpose: so no GPU can change them. The CUDA
# runtime is not in the table, because it usually comes inside the PyTorch package. When something is wrong there,
# it is most often a driver too old for it. In a terminal, `devlab doctor` asks all of these questions for you.)
#
# **With an AMD GPU** the table reads a little differently: the build is one for ROCm, `torch.version.hip` names it, and
# `torch.version.cuda` is `None` although all is well. Do not change such a build. The driver's own tools are
# `rocm-smi` and `amd-smi`, and the variable that hides GPUs is `HIP_VISIBLE_DEVICES`. Whether the GPU can be used is
# still what `torch.cuda.is_available()` says.
#
# The first row fools people most often. `torch.version.cuda` and `torch.backends.cuda.is_built()` speak of the
# *package*: they say the same on a laptop without a GPU as on the largest server. Only `is_available` looks at the
# machine.
#
# The last row fools the rest. `CUDA_VISIBLE_DEVICES` is an environment variable, often set by somebody else: a job
# scheduler, a colleague's script. It decides which GPUs a process can see, and it **renumbers** them. The function
# below is a model of that rule in plain Python, and not the driver itself. (It leaves out that an entry may also be a
# GPU's long identifier, such as `GPU-8932f937-…`, and that no GPU may be named twice.) Our three GPUs again: which one
# will be `cuda:0` for the text `"2,0"`?


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


gpus = ["H100", "L4 (upper)", "L4 (lower)"]
for visible in (None, "1", "2,0", "", "-1"):
    seen = visible_gpus(gpus, visible)
    print(f"{visible!r:<6}", ", ".join(f"cuda:{i} = {name}" for i, name in enumerate(seen)) or "none")

# %% [markdown] facts=["A4", "G3"]
# With `"1"` there is one GPU, and its address is `cuda:0`. A program that asks for `cuda:1` fails there, although
# that GPU *is* number 1 to everyone else. With `""` or `"-1"` all are hidden, and `None`, a variable that is not
# set, hides nothing: an empty text and no text are two different things.
#
# The variable is read once, when the process first uses CUDA. To change it in a notebook, set it in the first
# cell, before torch is imported, and restart the kernel.
#
# **[Exercise](../exercises/02_cuda.ipynb#task_why_no_cuda):** `why_no_cuda`.

# %% [markdown] facts=["G1", "G3"]
# ## Made there
#
# Back to tensors. You need a million zeros on the accelerator, and there are two ways to say so. Both
# give the same tensor in the same place. `devlab.watch` counts what a block of code does. What will differ?

# %% facts=["G1"]
with devlab.watch() as log:
    there = torch.zeros(1000, 1000, device=device)
print(f"device=device: transfers {log.transfers}, bytes moved {log.bytes_moved:,}")

with devlab.watch() as log:
    moved = torch.zeros(1000, 1000).to(device)
print(f".to(device):   transfers {log.transfers}, bytes moved {log.bytes_moved:,}")

# %% [markdown] facts=["G1"]
# The second line made four megabytes of zeros in the computer's own memory and carried them over, zero by zero.
# The first let the accelerator write its own zeros. So **give the device to the function that makes the
# tensor**. Nearly all of them take it. One of the following still needs a trip: which one, and why?

# %% facts=["G1"]
makers = {
    "torch.ones(4, device=device)": lambda: torch.ones(4, device=device),
    "torch.arange(4, device=device)": lambda: torch.arange(4, device=device),
    "torch.randn(4, device=device)": lambda: torch.randn(4, device=device),
    "torch.tensor([1, 2, 3, 4], device=device)": lambda: torch.tensor([1, 2, 3, 4], device=device),
    "torch.full((2, 2), 7, device=device)": lambda: torch.full((2, 2), 7, device=device),
}
for code, make in makers.items():
    with devlab.watch() as log:
        make()
    print(f"{code:<44} {log.transfers}")

# %% [markdown] facts=["G1"]
# The numbers of `torch.tensor([1, 2, 3, 4])` are Python's, so they are in the computer's memory, and somebody has to
# carry them. `arange` needs only to be *told* what to write.
#
# **[Exercise](../exercises/02_cuda.ipynb#task_make_on):** `make_on`.

# %% [markdown] facts=["E1", "E2"]
# ## When two devices meet
#
# In lesson 00 you saw that a tensor here and a tensor there cannot be added. It is time to look at that error
# properly, because it comes in three forms. Five operations, each on one tensor of the accelerator and one of the
# CPU. Which of them do you expect to work?


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
# None of them. **Most operations need all their inputs on one device.** The words are those that PyTorch prints on
# CUDA, with `sim:0` where an NVIDIA GPU would be `cuda:0`. (The simulated accelerator says even
# `wrapper_CUDA`, so that you meet the real text. Apple's `mps` words it differently.) How to read them:
#
# | the form | where it comes from | what it tells you |
# |---|---|---|
# | found **at least two devices**, A and B! | operations that work element by element, such as `+` and `*` | two addresses, and no names |
# | got **mat2** is on A, different from other tensors on B (… **wrapper_CUDA_mm**) | most others: `@`, `Linear`, `cat`, losses | the argument, and the operation, in PyTorch's names |
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
# Older releases of PyTorch mix the first two forms: *found at least two devices, cuda:0 and cpu! (when checking
# argument for argument mat2 in method wrapper_CUDA_mm)*. It means the same.

# %% [markdown] facts=["E2"]
# There is one trap in it. Here somebody moved the batch and forgot the model. Before you run it: which of
# the two will PyTorch blame?

# %% facts=["E2"]
layer = torch.nn.Linear(3, 2)
batch = torch.ones(4, 3, device=device)

attempt("layer(batch)", lambda: layer(batch))

# %% [markdown] facts=["E2"]
# It blames `mat1`, the batch, which is where it should be. PyTorch takes one of the arguments as the measure and
# reports the first that differs. It cannot know which of them you *meant*. So the message tells you that two places
# have met, and you decide which one is wrong. Three steps always lead there:
#
# 1. Read the two addresses in the message.
# 2. In the traceback, find the last line that is *yours*.
# 3. Print the device of every tensor in that line.

# %% facts=["E2"]
print("batch       ", batch.device)
print("layer.weight", layer.weight.device)
print("layer.bias  ", layer.bias.device)

# %% [markdown] facts=["E2"]
# Now it is plain who stayed at home. `devlab.explain`, which you know from lesson 00, takes the same three steps and then
# makes a guess at what you meant. Will it blame the batch, as PyTorch did?

# %% facts=["E2"]
try:
    layer(batch)
except RuntimeError as error:
    devlab.explain(error)

# %% [markdown] facts=["E2"]
# It blames the layer, because somebody took the trouble to make the batch on the accelerator and nobody ever moved the
# layer. Most often that is right. It is a guess all the same: you know the program, it only knows the tensors.

# %% [markdown] facts=["E3"]
# ## Bring one to the other
#
# The cure is one `.to`, and there are two ways to write it. Both lines give the same sum. Which one is better?

# %% facts=["E3"]
table = torch.ones(1000, 1000, device=device)
row = torch.ones(1000)

with devlab.watch() as log:
    total = table + row.to(table.device)
print("row to table:", total.device, f"{log.bytes_moved:,} bytes moved")

with devlab.watch() as log:
    total = table.to(row.device) + row
print("table to row:", total.device, f"{log.bytes_moved:,} bytes moved")

# %% [markdown] facts=["E3"]
# The first, in nearly every program: it moves a thousandth of the bytes, and it leaves the result where
# the next step of the work will be. **Bring the small one to the big one, and stay on the accelerator.**
#
# Write the *other tensor's* device, `row.to(table.device)`, and no name. Then the line is right wherever the
# table is, and you need no `if`: where the row is there already, `.to` has nothing to do. Predict:

# %% facts=["E3"]
print("the same tensor:", table.to(table.device) is table)

# %% [markdown] facts=["E3"]
# There is a shorter line, `row.to(table)`, that people like. Here x counts something, and y is a share. What
# will the two sums be?

# %% facts=["E3"]
x = torch.tensor([10, 20, 30], device=device)
y = torch.tensor([0.5, 0.25, 0.75])

print("y.to(x.device):", (x + y.to(x.device)).tolist())
print("y.to(x):       ", (x + y.to(x)).tolist())

# %% [markdown] facts=["E3"]
# `y.to(x)` takes over x's device **and x's dtype**. The shares became integers, and the fractions are gone
# without a word. If you mean the device, say the device.

# %% [markdown] facts=["E6"]
# ## What may meet
#
# The rule has exceptions, and they explain why some mixed code runs. Seven lines. Mark those that you expect to
# fail before you run the cell:

# %% facts=["E6"]
attempt("1  there * 2.5", lambda: there * 2.5)
attempt("2  there * torch.tensor(2.5)", lambda: there * torch.tensor(2.5))
attempt("3  there * torch.tensor([2.5])", lambda: there * torch.tensor([2.5]))
attempt("4  here * torch.tensor(2.5, device=device)", lambda: here * torch.tensor(2.5, device=device))
attempt("5  there[torch.tensor([1, 0])]", lambda: there[torch.tensor([1, 0])])
attempt("6  here.clone().copy_(there)", lambda: here.clone().copy_(there))
attempt("7  there.clone().copy_(here)", lambda: there.clone().copy_(here))

# %% [markdown] facts=["E6"]
# Two failed, and the difference between 2, 3 and 4 is worth a minute:
#
# - **A Python number** (1) has no device and goes along anywhere.
# - **A zero-dimensional tensor on the CPU** (2) counts as such a number, in operations that work element by element.
#   One pair of brackets more (3), and it is an ordinary tensor of one element: refused.
# - **The other way round is refused** (4). To send a number along with an operation costs the CPU nothing. To *fetch*
#   one from the accelerator means to wait until it is computed, and PyTorch does not wait behind your back.
# - **An index on the CPU** may index an accelerator's tensor (5). You have seen the opposite fail above.
# - **`copy_`** writes into memory that exists, from wherever it likes (6 and 7). Where the memory is, the result
#   stays.
#
# Allowed does not mean free. How many transfers will each of these cost?

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
# The number rides along; the index and the copy are real trips. Inside a loop, keep your indices where the data is.
#
# One last line, because it surprises everyone once. A running total begins as a number on the CPU, and the loss is on
# the accelerator. Where will the total be?

# %% facts=["E6"]
total = torch.tensor(0.0)
print("before:", total.device)
for loss in torch.tensor([0.9, 0.7, 0.4], device=device):
    total = total + loss
print("after: ", total.device)

# %% [markdown] facts=["E6"]
# Two single numbers may meet, and the *accelerator's* device wins, whichever side it stands on. No error, and the total
# has moved. So "x plus something" is not always where x is. If your function promises a place, bring the other
# one there yourself.
#
# **[Exercise](../exercises/02_cuda.ipynb#task_add_anywhere):** `add_anywhere`.

# %% [markdown]
# ## What to keep
#
# - `"cuda"` is a name; a tensor is at a full address, such as `cuda:0`. A bare name means the current device.
# - `torch.cuda.is_available()`, `device_count()`, `get_device_name(i)`. Mind the brackets, ask inside a function.
# - `torch.device("cuda" if torch.cuda.is_available() else "cpu")`, once, and then hand the device on.
# - No CUDA? The build, the GPU, the driver, `CUDA_VISIBLE_DEVICES`, in this order. Hidden GPUs renumber the rest.
# - Make tensors where you need them: `device=device` in the function that makes them.
# - A mismatch names two addresses. Find your line, print its devices, decide who is wrong, then `y.to(x.device)`.
# - Numbers, zero-dimensional CPU tensors, CPU indices and `copy_` may cross. All else must be brought.
#
# **Now do it:** [the exercises of this lesson](../exercises/02_cuda.ipynb), six functions. **Then:**
# [03 MPS](03_mps.ipynb), the GPU in a Mac.
