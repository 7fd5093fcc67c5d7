# %% [markdown]
# # 08 Memory
#
# "CUDA out of memory" is the error that everyone meets on the first day with a GPU, and many meet weekly
# ever after. The memory of a device is small, and PyTorch keeps exact books about it. This lesson teaches
# to read them.
#
# After it you can say what each line of a program holds, what PyTorch holds besides and why, how much
# training a model will take, and what to do when memory runs out.
#
# **Takes** about 45 minutes. **Needs** [05 Models and buffers](05_buffers.ipynb); you know `loss.backward()`
# and have met `detach` in [06](06_numpy_sharing.ipynb).

# %%
import os

import torch
from torch import nn

os.environ["DEVLAB_DEVICE"] = "sim"  # in this lesson, on every machine
import devlab

device = devlab.start()
memory = torch.get_device_module(device)

# %% [markdown]
# **Every figure in this lesson is simulated.** The lesson runs on the simulated device even where there is a
# real GPU, since we shall fill the memory until it is full, and a device of 1 GiB is filled without harm.
# The simulator hands out memory by the rules and with the constants of PyTorch's allocator for CUDA, so on a
# GPU the same lines give the same kind of numbers. The end of the lesson says what differs.
#
# `torch.get_device_module(device)` is `torch.cuda` for an NVIDIA GPU and `torch.sim` here, under one name.
# Most of what follows also exists as `torch.accelerator.memory_allocated()` and so on.

# %% [markdown]
# ## What lives takes memory
#
# `memory_allocated` is what live tensors hold on the device, in bytes. A tensor of 1000 floats takes 4 bytes
# for each. Below it gets a second name and a view. Before you run the cell: after which of the lines does the
# number fall?

# %% facts=["H1", "H2"]
print("at first        ", memory.memory_allocated(device))

x = torch.ones(1000, device=device)
print("one tensor      ", memory.memory_allocated(device))

same = x
part = x[:10]
print("a name and a view", memory.memory_allocated(device))

del x
print("del x           ", memory.memory_allocated(device))
del same
print("del same        ", memory.memory_allocated(device))
del part
print("del part        ", memory.memory_allocated(device))

# %% [markdown] facts=["H1", "H2"]
# After the last one only. `del` deletes a *name*. The memory goes when nothing leads to it any more, and a
# view of ten elements leads to all thousand. On the other hand it goes **at once**: Python counts
# references, and with the last of them the block is free again. Nobody has to ask for it.
#
# You also saw 4096, not 4000. Guess the rule from these sizes:

# %% facts=["H5"]
for count in (1, 128, 129, 256, 1000):
    before = memory.memory_allocated(device)
    x = torch.ones(count, device=device)
    print(f"{count:>5} floats, {x.nbytes:>5} bytes: {memory.memory_allocated(device) - before:>5} allocated")
    del x

# %% [markdown] facts=["H5"]
# Blocks are multiples of **512 bytes**. A tensor with one number takes as much as one with 128. It matters
# for many tiny tensors only: a list of a million losses takes half a gigabyte.
#
# A name is not all that can hold a tensor. Here is a calculation in four steps. Of its results only the last
# is kept, one number. Before you run it: how many blocks of 4096 bytes does each version leave behind?


# %% facts=["H2"]
def four_steps(weight):
    return ((weight * 3).exp() * 2).sum()


weight = torch.ones(1024, device=device)
for needs_gradient in (False, True):
    weight.requires_grad_(needs_gradient)
    before = memory.memory_allocated(device)
    result = four_steps(weight)
    print(f"requires_grad={needs_gradient!s:<6}", memory.memory_allocated(device) - before)
    del result
del weight

# %% [markdown] facts=["H2"]
# Without gradients: the one number, 512 bytes. With them: the number and a **graph**, which keeps what
# `backward` will need, here the result of `exp`. The variable `result` looks the same both times.
#
# **[Exercise](../exercises/08_memory.ipynb#task_bytes_kept):** `bytes_kept`.

# %% [markdown]
# ## The peak
#
# What is left at the end is one question. Whether there was room on the way is another: intermediate results
# need memory, too, if only for a moment. Two ways to compute the same; x has 4 MiB. Which needs more room?


# %% facts=["H6"]
def in_new_tensors(x):
    return (x + 1) * 2 - 3


def in_one_new_tensor(x):
    return x.add(1).mul_(2).sub_(3)


x = torch.ones(1024, 1024, device=device)
for function in (in_new_tensors, in_one_new_tensor):
    memory.reset_peak_memory_stats(device)
    before = memory.memory_allocated(device)
    function(x)
    peak = memory.max_memory_allocated(device) - before
    left = memory.memory_allocated(device) - before
    print(f"{function.__name__:<18} peak {peak >> 20} MiB, left {left} bytes")

# %% [markdown] facts=["H6"]
# `max_memory_allocated` is the most that was ever allocated at once. In the first function each step holds
# its input and makes its output, so two blocks live at a time (the third step reuses the first one's). The
# second works in place on a tensor of its own.
#
# "Ever" means since the start of the program, or since `reset_peak_memory_stats`. What happens if one
# forgets the reset?

# %% facts=["H6"]
mountain = torch.ones(4096, 1024, device=device)
del mountain

before = memory.memory_allocated(device)
in_one_new_tensor(x)
print("not reset:", (memory.max_memory_allocated(device) - before) >> 20, "MiB")

memory.reset_peak_memory_stats(device)
in_one_new_tensor(x)
print("reset:    ", (memory.max_memory_allocated(device) - before) >> 20, "MiB")
del x

# %% [markdown] facts=["H6"]
# The first line reports a mountain that is long gone. So: **reset, remember what is allocated, run, read the
# peak, subtract.**
#
# **[Exercise](../exercises/08_memory.ipynb#task_peak_bytes):** `peak_bytes`.

# %% [markdown]
# ## Reserved and cached
#
# No tensor is alive now. `devlab.memory` shows the books of a device at a glance. Before you run it:
# what should *allocated* and *reserved* say?

# %% facts=["H3", "H4"]
panel = devlab.memory(device)

# %% [markdown] facts=["H2", "H3", "H4"]
# Two figures for one memory:
#
# - **allocated** is what live tensors hold;
# - **reserved** is what PyTorch has taken from the device. The difference is its **cache**: memory in which
#   nothing lives, and which PyTorch keeps.
#
# Why does it keep it? On a GPU, taking memory from the driver is slow, and giving it back makes the whole
# device wait until its work is done. A training loop makes and drops the same tensors thousands of times. So
# PyTorch takes memory in large **segments**, cuts blocks from them, and hands out a freed block to the next
# tensor that asks. Here are ten rounds of a loop, in each of which two tensors are made and dropped.

# %% facts=["H3", "H4"]
guess = devlab.predict("How many segments are taken from the device?", "one", "two", "ten", "twenty")

# %% facts=["H3", "H4"]
memory.empty_cache()
memory.reset_accumulated_memory_stats(device)
for _ in range(10):
    x = torch.ones(3 << 18, device=device)  # 3 MiB
    y = x + 1
    del x, y

stats = memory.memory_stats(device)
print("blocks handed out:", stats["allocation.all.allocated"])
print("segments taken:   ", stats["segment.all.allocated"])
print("reserved now:     ", memory.memory_reserved(device) >> 20, "MiB")
guess.was({1: "one", 2: "two", 10: "ten", 20: "twenty"}[stats["segment.all.allocated"]])

# %% [markdown] facts=["H3", "H5"]
# Twenty tensors, and one segment of 20 MiB. Segments have sizes of their own, too. What is the rule here?

# %% facts=["H5"]
KIB, MIB = 1 << 10, 1 << 20
for size in (1, 512 * KIB, 1 * MIB, 1 * MIB + 1, 9 * MIB, 10 * MIB, 11 * MIB):
    memory.empty_cache()
    x = torch.empty(size, dtype=torch.uint8, device=device)
    print(f"asked for {size:>8} bytes: a segment of {memory.memory_reserved(device) >> 20:>2} MiB")
    del x

# %% [markdown] facts=["H5"]
# Up to 1 MiB: a segment of **2 MiB**, which many small tensors share. Above that and below 10 MiB: one of
# **20 MiB**. From 10 MiB on: a segment made to measure, in steps of 2 MiB. These are the constants
# of PyTorch's allocator for CUDA, as it comes. They are the reason why the first small tensor makes a tool of the
# system show 2 MiB more (on a GPU, besides what CUDA takes for itself).
#
# Such a tool, `nvidia-smi` for one, cannot see tensors. It sees what has been taken:

# %% facts=["H4"]
memory.empty_cache()
x = torch.empty(100 * MIB, dtype=torch.uint8, device=device)
del x
free, total = memory.mem_get_info(device)

print("what PyTorch calls allocated:", memory.memory_allocated(device) >> 20, "MiB")
print("what the system calls used:  ", (total - free) >> 20, "MiB")

# %% [markdown] facts=["H4"]
# A hundred MiB in use, and no tensor anywhere. That is no leak: the next tensor that fits gets this memory
# without a detour. So never judge a program by what the system shows. Ask how much is *allocated*.
#
# **[Exercise](../exercises/08_memory.ipynb#task_cached_bytes):** `cached_bytes`.

# %% [markdown]
# ## Giving it back
#
# `empty_cache` gives cached segments back to the device. Many people call it hoping for more. Three cases;
# say for each how many MiB are reserved at the end:


# %% facts=["K1", "K2"]
def reserved_after_emptying():
    memory.empty_cache()
    return f"{memory.memory_reserved(device) >> 20} MiB reserved"


x = torch.empty(100 * MIB, dtype=torch.uint8, device=device)
print("x alive:          ", reserved_after_emptying())

del x
print("x gone:           ", reserved_after_emptying())

parts = [torch.empty(5 * MIB, dtype=torch.uint8, device=device) for _ in range(4)]
parts = parts[2:3]
print("one part of four: ", reserved_after_emptying())
del parts

# %% [markdown] facts=["K1", "K2"]
# It gives back what is **unused**, and **never the memory of live
# tensors**. And it gives back whole segments: in the third case 5 MiB are alive, and the 20 MiB around them
# stay. Memory that is free in pieces, between blocks that live, is called *fragmented*.
#
# So it rarely makes room that PyTorch would not have found: before it gives up on a request, PyTorch empties
# the cache by itself. (Rarely, not never. The end of this lesson has a case.) And what it costs can be
# counted. The loop from above, with one line more. How many segments now?

# %% facts=["K3"]
memory.empty_cache()
memory.reset_accumulated_memory_stats(device)
for _ in range(10):
    x = torch.ones(3 << 18, device=device)
    y = x + 1
    del x, y
    memory.empty_cache()

print("segments taken:", memory.memory_stats(device)["segment.all.allocated"])

# %% [markdown] facts=["K3", "K4"]
# Ten for one. On a GPU each of them means two calls to the driver, and giving a segment back waits for all work under
# way. **Keep it out of training loops.** It is good for:
#
# - **debugging**: after it, *reserved* tells what is really held;
# - **notebooks** and several programs on one GPU: another process can have what you give back;
# - a moment **after something big is gone**, such as a model that you will not need again.

# %% [markdown] facts=["H2", "K1", "K2"]
# ### Look and touch
#
# A small device of 64 MiB, its segments, and the blocks in them. Nine tensors of 6 MiB were made, and every second one
# freed. The next, J, wants 12 MiB, and 36 MiB are free. **Predict** whether it fits. Then drag it over the free pieces and
# let go. A click on a tensor frees it: find one whose death makes room, and see whether *Empty the cache* would have
# helped.

# %% facts=["H2", "K1", "K2"]
devlab.explore.allocator()

# %% [markdown] facts=["H2", "K1", "K2"]
# Out of memory, with three times the room free: a tensor needs **one piece**, and the longest has 8 MiB. Emptying the
# cache gives nothing back, because a tensor lives in each segment. Let B go, and its two neighbours and its own block
# become one piece of 20 MiB. So what counts is not how much you free but what lies beside it.

# %% [markdown]
# ## Who still holds it
#
# "I deleted it, I emptied the cache, and the memory is still taken." Then something else leads to it. Four
# tensors of 10 MiB are deleted below. Which of them are gone?


# %% facts=["K5"]
def ten_mib():
    return torch.ones(10 << 18, device=device)


def report(words, before):
    memory.empty_cache()
    print(f"{words:<28}", (memory.memory_allocated(device) - before) >> 20, "MiB still held")


before = memory.memory_allocated(device)

x = ten_mib()
del x
report("one name, deleted:", before)

x = ten_mib()
batches = [x]
del x
report("also in a list:", before)
batches.clear()

x = ten_mib()
first_row = x[:4]
del x
report("a view is left:", before)
del first_row

x = ten_mib().requires_grad_()
loss = (x * x).sum()
del x
report("a loss is left:", before)
del loss
report("all of them gone:", before)

# %% [markdown] facts=["K5"]
# Only the first was gone at once. The list, the view and the graph of the loss each held 10 MiB. **First drop every
# reference, then empty the cache**: `del` for names, `clear` for containers, `detach` for losses. In a
# notebook there is one more holder. If the last line of a cell is an expression, its value is shown, and
# Jupyter keeps it as `_` and `Out[...]`. Do not end a cell with a large tensor.
#
# The loss is the holder that costs the most sleep. Here is a loop that wants the average loss in the end.
# Three ways to remember, and the memory that each takes after 1, 10 and 100 steps:


# %% facts=["H2", "K5"]
def remembers_losses(losses, loss):
    losses.append(loss)


def remembers_numbers(losses, loss):
    losses.append(loss.detach())


def adds_up(losses, loss):
    losses[:] = [sum(losses) + loss.detach()]


parameter = torch.ones(25_000, device=device, requires_grad=True)
for remember in (remembers_losses, remembers_numbers, adds_up):
    losses, grown = [], []
    before = memory.memory_allocated(device)
    for step in range(1, 101):
        loss = (parameter.exp() * step).mean()
        remember(losses, loss)
        del loss
        if step in (1, 10, 100):
            grown.append(memory.memory_allocated(device) - before)
    print(f"{remember.__name__:<18}", grown)
del parameter, losses

# %% [markdown] facts=["K5"]
# A hundred losses with their graphs: ten megabytes, and a real network has more than one layer. Detached,
# each takes its 512 bytes. Added up, all together take 512. None of the three waits for the device, as
# `.item()` would in each step.
#
# A program whose memory grows from step to step has nearly always a list, or a sum, of losses that still
# have their graphs.
#
# **Exercises:** [`release`](../exercises/08_memory.ipynb#task_release) and
# [`total_loss`](../exercises/08_memory.ipynb#task_total_loss).

# %% [markdown]
# ## What training takes
#
# A model has one million parameters, 4 bytes each: 4 MB. How many of these 4 MB are there after the first
# backward, and after the first step of an optimizer? Say a number for each line before you run the cell.


# %% facts=["H1", "H2"]
def copies(before):
    return round((memory.memory_allocated(device) - before) / 4_000_000, 1)


for name, make in (
    ("SGD", lambda p: torch.optim.SGD(p, lr=0.1)),
    ("SGD, momentum", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    ("Adam", lambda p: torch.optim.Adam(p)),
):
    before = memory.memory_allocated(device)
    model = nn.Linear(1000, 1000, bias=False).to(device)
    optimizer = make(model.parameters())
    line = f"{name:<14} model: {copies(before)}"
    model(torch.ones(1, 1000, device=device)).sum().backward()
    line += f"  after backward: {copies(before)}"
    optimizer.step()
    print(line + f"  after step: {copies(before)}")
    optimizer.zero_grad()
    del model, optimizer

# %% [markdown] facts=["H1", "H2"]
# | | copies |
# |---|---|
# | parameters | 1 |
# | gradients, from the first backward on | 1 for each that is trained |
# | state: SGD | 0 |
# | state: SGD with momentum | 1 |
# | state: Adam, AdamW | 2 |
#
# In the optimizer's step, training with Adam takes **four times** the model. Two of the four appear in the first `step`,
# so an error may come as late as there. A parameter that is not trained takes its own place and nothing else: one reason why
# fine-tuning a part of a model fits where training all of it does not.
#
# Then there are the **activations**, what the graph keeps until `backward`. They cannot simply be added to the rest,
# because not everything is there at the same time. The forward piles activations up, layer by layer. The backward
# takes them down again, and makes the gradients meanwhile. The next cell looks at the memory after each `Tanh` of the
# forward, and again when the backward comes to that layer. The model and its input were there before and are not
# counted. When will the memory be highest?


# %% facts=["H2", "H6"]
def height():
    return (memory.memory_allocated(device) - before) / MIB


def look(layer, inputs, output):
    forward.append(f"{height():.1f}")
    output.register_hook(lambda gradient: backward.append(f"{height():.1f}"))


layers = [layer for _ in range(4) for layer in (nn.Linear(256, 256), nn.Tanh())]
model = nn.Sequential(*layers).to(device)
for layer in layers[1::2]:
    layer.register_forward_hook(look)
x = torch.ones(2048, 256, device=device)  # 2 MiB, and so is the output of each layer

forward, backward = [], []
memory.reset_peak_memory_stats(device)
before = memory.memory_allocated(device)
model(x).mean().backward()
print("forward  (MiB):", *forward)
print("backward (MiB):", *backward)
print(f"left {height():.1f}, peak {(memory.max_memory_allocated(device) - before) / MIB:.1f}")
del model, layers, layer, x

# %% [markdown] facts=["H2", "H6"]
# At the turn, when the forward is done and the backward begins. There all activations are alive, and hardly a gradient
# is. At the end it is the other way round: what is left are the gradients. And the optimizer's first step, which makes
# its state, comes when the activations are gone. So **the peak of a step is a maximum over time and not a sum**. It is
# the larger of two moments:
#
# - **at the turn**: parameters, the optimizer's state, all activations, and the first results of the backward. (The old
#   gradients too, if `zero_grad` is called after the forward and not before it.)
# - **in the optimizer's step**: parameters, gradients, the state, and what the step itself needs for a moment.
#
# With a large batch it is the first, for activations grow with the batch:

# %% facts=["H6"]
model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1)).to(
    device
)
for batch in (256, 512, 1024, 2048):
    x = torch.ones(batch, 64, device=device)
    memory.reset_peak_memory_stats(device)
    before = memory.memory_allocated(device)
    model(x).mean().backward()
    peak = memory.max_memory_allocated(device) - before
    model.zero_grad()
    print(f"batch of {batch:>4}: peak {peak / MIB:5.2f} MiB")
del model, x

# %% [markdown] facts=["H6"]
# Twice the batch, twice the peak, counted above the parameters, which were there before. Parameters, gradients and
# state you can compute beforehand. The activations are best measured, with a small batch and a large one.
#
# **[Exercise](../exercises/08_memory.ipynb#task_training_bytes):** `training_bytes`.

# %% [markdown]
# ## Out of memory
#
# The simulated device has 1 GiB. Let us ask for more than is left:

# %% facts=["H7"]
memory.empty_cache()
large = torch.empty(700 * MIB, dtype=torch.uint8, device=device)
try:
    more = torch.empty(400 * MIB, dtype=torch.uint8, device=device)
except torch.OutOfMemoryError as error:
    print(error)

# %% [markdown] facts=["H7"]
# Read it from left to right, as an account:
#
# | the message says | ask yourself |
# |---|---|
# | **Tried to allocate** | Is it absurdly large? Then a shape is wrong somewhere, often a broadcast. Is it small? Then the memory was full before, and this line is only the last drop |
# | **total capacity**, **is free** | Free is little, and PyTorch has little too? Then another process is using the device |
# | **allocated by PyTorch** | This is what live tensors hold: a smaller batch, or fewer holders |
# | **reserved but unallocated** | The cache. It was emptied before the error, so what is left here is free in pieces too small: fragmentation |
#
# On an NVIDIA GPU the message is longer. This one is an **example**: the words are those of PyTorch 2.13, and the figures
# were made up for a T4, so that they fit together.
#
# ```
# torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB. GPU 0 has a total capacity of 14.56 GiB
# of which 98.75 MiB is free. Including non-PyTorch memory, this process has 14.46 GiB memory in use. Of the allocated
# memory 13.91 GiB is allocated by PyTorch, and 427.20 MiB is reserved by PyTorch but unallocated. If reserved but
# unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.
# See documentation for Memory Management
# (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)
# ```
#
# Do the account. 98.75 MiB free and 14.46 GiB in this process make up the whole capacity, so nobody else is using the
# GPU. (Otherwise there would be a sentence such as *Process 4711 has 5.20 GiB memory in use*.) PyTorch has 13.91 GiB and
# 427 MiB, which is 14.33 GiB; the other 0.13 GiB of the process are CUDA's own. And 427 MiB are free, more than the 256
# that were wanted: so they are in pieces.
#
# For that case the message names a setting, **`expandable_segments:True`**. With it PyTorch takes memory in segments
# that can grow, so fewer free pieces are left between them (on Linux). The variable is read when the process first uses
# CUDA, so set it before the program starts. PyTorch's documentation now calls it `PYTORCH_ALLOC_CONF`, one name for every
# kind of accelerator; the one in the message is the older name, which works too.
#
# The error is an ordinary exception, and nothing is broken by it. Tensors that were there are still there.
# Make room, and try again:

# %% facts=["H7", "K5"]
del large
more = torch.empty(400 * MIB, dtype=torch.uint8, device=device)
print("allocated:", memory.memory_allocated(device) >> 20, "MiB")
del more

# %% [markdown] facts=["H7"]
# In a program that is to recover by itself there is a trap. The step below takes its memory in two parts,
# and for a batch of 3 the second part does not fit. The program empties the cache and tries again with a
# smaller batch, which fits. Both versions look right. Which one works?


# %% facts=["H7", "K5"]
def step(batch):
    inputs = torch.empty(batch * 200 * MIB, dtype=torch.uint8, device=device)
    outputs = torch.empty(batch * 200 * MIB, dtype=torch.uint8, device=device)
    return inputs.numel() + outputs.numel()


def again_inside():
    try:
        return step(3)
    except torch.OutOfMemoryError:
        memory.empty_cache()
        held = memory.memory_allocated(device) >> 20
        print(f"inside except, {held} MiB are held")
        return step(2)


def again_outside():
    try:
        return step(3)
    except torch.OutOfMemoryError:
        pass
    memory.empty_cache()
    held = memory.memory_allocated(device) >> 20
    print(f"after except, {held} MiB are held")
    return step(2)


for version in (again_inside, again_outside):
    try:
        version()
        print(version.__name__, "works")
    except torch.OutOfMemoryError:
        print(version.__name__, "runs out of memory again")

# %% [markdown] facts=["H7", "K5"]
# While an exception is being handled it has a **traceback**, the traceback has the frame of the function that
# failed, and the frame has its variables: `inputs` is still alive, with 600 MiB. When the `except` block
# ends, all of it goes. So inside `except` only note *that* it failed, and try again after it. For the same
# reason do not keep the exception in a variable of your own. And in a notebook: an error that nobody caught
# stays as `sys.last_value`, with its traceback and all its tensors, until the next one. (From Python 3.12 on,
# `sys.last_exc` holds it too.)
#
# `empty_cache` has its place here, between two tries. Without it the next try finds a cached segment of
# 600 MiB and cuts its 400 from that. 200 are left over, too little for the second part, and they cannot go
# back to the device while the segment is in use. So each new try should begin with an empty cache.
#
# Other cures, from small to large: a smaller batch, with gradients gathered over several; `torch.no_grad()`
# where no backward follows; half precision; giving up activations and computing them again
# (`torch.utils.checkpoint`). `empty_cache` alone is no cure: PyTorch did that before it raised the error.
#
# **[Exercise](../exercises/08_memory.ipynb#task_largest_batch):** `largest_batch`.

# %% [markdown]
# ## Where real hardware differs
#
# - Sizes are gigabytes, and a part is taken before your first tensor: CUDA itself needs some hundred MB for each
#   process. They are neither in *allocated* nor in *reserved*; `mem_get_info` and `nvidia-smi` show them.
# - Libraries take workspaces. A first matrix product may leave several MiB allocated that you did not ask
#   for. The simulated device counts results only.
# - A GPU works asynchronously ([lesson 07](07_asynchrony.ipynb)), but the books are kept by the host, when
#   an operation is started. So these numbers need no `synchronize`.
# - On Apple's `mps` the account has other names: `torch.mps.current_allocated_memory()` and
#   `torch.mps.driver_allocated_memory()`, with no peak beside them. (By its source, PyTorch 2.13 also answers there to
#   `torch.accelerator.max_memory_allocated()`; we had no Mac to try it.) The memory is the computer's own.
# - For the CPU PyTorch keeps no such account. `devlab.watch()` counts the bytes of new tensors there.
#
# If you have an NVIDIA GPU, or an AMD GPU with a ROCm build, this cell asks it what the lesson asked the simulated device:

# %% facts=["H1"] tags=["nbval-ignore-output"]
if torch.cuda.is_available():
    x = torch.ones(1000, device="cuda")
    free, total = torch.cuda.mem_get_info()
    print(
        torch.cuda.get_device_name(),
        "has",
        total >> 20,
        "MiB, of which",
        (total - free) >> 20,
        "MiB are in use",
    )
    print(
        "allocated:",
        torch.cuda.memory_allocated(),
        "bytes, reserved:",
        torch.cuda.memory_reserved() >> 20,
        "MiB",
    )
    del x
else:
    print("no GPU here that PyTorch calls cuda")

# %% [markdown]
# And for the CPU, where only new tensors can be counted:

# %% facts=["H1"]
with devlab.watch() as log:
    x = torch.ones(1000, 100)
    y = x.to(device) * 2
print("new tensors, in bytes:", log.allocated)

# %% [markdown]
# ## What to keep
#
# - *Allocated* is what live tensors hold, in blocks of 512 bytes. *Reserved* is what PyTorch has taken, in
#   segments of 2 or 20 MiB, or made to measure. The difference is the cache: fast reuse, no leak.
# - Memory is free when the **last** reference is gone: names, lists, views, graphs, tracebacks,
#   Jupyter's `Out`.
# - Peak: reset, remember, run, read, subtract.
# - `empty_cache` gives unused segments back, never live memory. Drop references first. Not in a loop.
# - Keep losses detached, or their sum. Never the losses themselves.
# - Training takes parameters, gradients, and with Adam twice as much again; and the activations of a batch, which are
#   most at the end of the forward. The peak is a maximum over time, not the sum.
# - `torch.OutOfMemoryError`: read it as an account, leave the `except` block, then try something smaller.
#
# **Now do it:** [the exercises of this lesson](../exercises/08_memory.ipynb), seven functions. **Then:**
# [09 Several devices](09_several_devices.ipynb).
