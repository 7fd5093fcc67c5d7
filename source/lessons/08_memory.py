# %% [markdown]
# # 08 Memory
#
# "CUDA out of memory" is an error that you meet in your first weeks with a GPU, and again whenever the model
# or the batch grows. The memory of a device is small, and PyTorch keeps an exact account of what it takes
# from it. This lesson teaches you to read that account.
#
# A training puts four kinds of tensors there: the **parameters**, their **gradients**, the **optimizer's
# state**, and the **activations** that the forward leaves for the backward. A fifth part is what PyTorch
# keeps in reserve, and a sixth what CUDA takes for itself. You will see five of the six at work, and on a
# real GPU a line shows the sixth.
#
# After it you can say what each line of a program holds, what PyTorch keeps in reserve and why, how much
# memory the training of a model will take, and what to do when it runs out.
#
# **Takes** about an hour. **Needs** [05 Models and buffers](05_buffers.ipynb); you know `loss.backward()`
# and have met `detach` in [06](06_numpy_sharing.ipynb).

# %%
import torch
from torch import nn

import devlab

device = devlab.start(account=True)
memory = torch.get_device_module(device)

# %% [markdown]
# `account=True` asks for a device whose memory PyTorch keeps an account of. That is an NVIDIA GPU, an AMD GPU
# with a ROCm build (PyTorch calls both `cuda`), or an Intel GPU. On a Mac, PyTorch reports fewer figures,
# under other names; there, and on a machine without a GPU, the lesson runs on the simulated device, which
# hands out memory by the rules and with the constants of PyTorch's allocator for CUDA.
#
# **The figures in the text are the simulated device's.** A GPU follows the same rules: an H200, measured,
# gave the same sizes in all 32 recorded sequences of allocations. Where a GPU may show another figure, the
# text says so. No cell fills your GPU: where memory has to run out, the lesson sets itself a limit first.
#
# `torch.get_device_module(device)` gives the module of your kind of device, such as `torch.cuda` or
# `torch.sim`, so the cells need only one name. Most of what follows also exists as
# `torch.accelerator.memory_allocated()` and so on.

# %% [markdown]
# ## What lives takes memory
#
# `memory_allocated` is what live tensors hold on the device, in bytes. The tensor below gets a second name
# and a view. Then all three are deleted, one after the other.

# %% facts=["H1", "H2"]
guess = devlab.predict("After which line is its memory free?", "del x", "del same", "del part")

# %% facts=["H1", "H2"]
x = torch.ones(1000, device=device)
same, part = x, x[:10]
whole = memory.memory_allocated(device)
print("all three", whole)

after = {}
del x
after["del x"] = memory.memory_allocated(device)
del same
after["del same"] = memory.memory_allocated(device)
del part
after["del part"] = memory.memory_allocated(device)

for line, allocated in after.items():
    print(f"{line:<9}", allocated)
guess.was(next(line for line, allocated in after.items() if allocated < whole))

# %% [markdown] facts=["H1", "H2"]
# `del` deletes a *name*. The memory goes when nothing leads to it any more, and a view of ten elements leads
# to all thousand. But then it goes **at once**: Python counts references, and with the last of them the block
# is free again. You need not ask for it, and no garbage collector is involved. (The one exception is a tensor
# held by objects that refer to each other in a ring. It stays until Python's collector, `gc`, finds the
# ring.)
#
# A thousand floats of 4 bytes each make 4000 bytes, and 4096 were taken. These sizes show how PyTorch rounds:

# %% facts=["H5"]
for count in (1, 128, 129, 256, 1000):
    before = memory.memory_allocated(device)
    x = torch.ones(count, device=device)
    taken = memory.memory_allocated(device) - before
    print(f"{count:>5} floats, {x.nbytes:>5} bytes: {taken:>5} taken")
    del x

# %% [markdown] facts=["H5"]
# Blocks are multiples of **512 bytes**. A tensor with one number takes as much as one with 128. This matters
# for many tiny tensors only: a list of a million losses takes half a gigabyte.
#
# A name is not all that can hold a tensor. Here is a calculation in four steps, of which only the last result
# is kept: one number. `memory_stats` reports many more figures than `memory_allocated`, among them how many
# *blocks* are in use.


# %% facts=["H2"]
def four_steps(weight):
    return ((weight * 3).exp() * 2).sum()


weight = torch.ones(1024, device=device)
for needs_gradient in (False, True):
    weight.requires_grad_(needs_gradient)
    result = four_steps(weight)
    in_use = memory.memory_stats(device)["allocation.all.current"]
    print(f"requires_grad={needs_gradient!s:<5}  blocks in use: {in_use}")
    del result
del weight

# %% [markdown] facts=["H2"]
# `allocation.all.current` counts the blocks in use, small and large ones together. Without gradients there
# are two, the weight and the one number. With them there is a third: the number now leads to a **graph**, and
# the graph keeps what `backward` will need, here the result of `exp`. The variable `result` looks the same
# both times.
#
# **[Exercise](../exercises/08_memory.ipynb#task_bytes_kept):** `bytes_kept`, which says in bytes what any
# result holds, whatever hides in it.

# %% [markdown]
# ## The peak
#
# What is left at the end is only half the question. The steps in between need memory too, if only for a
# moment. Here are two functions that compute the same thing; `x` has 4 MiB. Which of them needs more room?


# %% facts=["H6"]
def in_new_tensors(x):
    return (x + 1) * 2 - 3


def in_one_new_tensor(x):
    return x.add(1).mul_(2).sub_(3)


MIB = 1 << 20
x = torch.ones(1024, 1024, device=device)
for function in (in_new_tensors, in_one_new_tensor):
    memory.reset_peak_memory_stats(device)
    function(x)
    peak = memory.max_memory_allocated(device) / MIB
    now = memory.memory_allocated(device) / MIB
    print(f"{function.__name__:<18} peak {peak:g} MiB, now {now:g} MiB")

# %% [markdown] facts=["H6"]
# `max_memory_allocated` is the most that was ever allocated at once. In the first function each step needs
# its input and its output at the same time. While `* 2` runs, `x`, the sum and the product are alive: 12 MiB.
# Then the sum goes, and `- 3` gets its block. The second function works in place, on one tensor of its own.
#
# Be careful what this figure counts. It belongs to the **whole device**: the 4 MiB of `x` are in it, though
# neither function made them. And "ever" means since the start of the program, or since
# `reset_peak_memory_stats`. This is what happens without the reset:

# %% facts=["H6"]
mountain = torch.ones(4096, 1024, device=device)
del mountain

in_one_new_tensor(x)
print("not reset:", memory.max_memory_allocated(device) / MIB, "MiB")

memory.reset_peak_memory_stats(device)
in_one_new_tensor(x)
print("reset:    ", memory.max_memory_allocated(device) / MIB, "MiB")
del x

# %% [markdown] facts=["H6"]
# The first line reports a mountain that is long gone. A peak means something only together with two facts:
# since when it counts, and what was there already.
#
# **[Exercise](../exercises/08_memory.ipynb#task_peak_bytes):** `peak_bytes`, the room that a function needs
# for itself.

# %% [markdown]
# ## Reserved and cached
#
# No tensor is alive now. `devlab.memory` shows the account of a device at a glance.

# %% facts=["H3", "H4"]
panel = devlab.memory(device)

# %% [markdown] facts=["H2", "H3", "H4"]
# *Allocated* is zero, and yet something is taken. **Reserved** is what PyTorch has taken from the device.
# Live tensors occupy part of it; the rest is PyTorch's **cache**, kept for the next tensor.
#
# ![The memory of a device as a bar: a part for CUDA itself, three segments that PyTorch has reserved, with blocks of live tensors in the first two of them and the rest of the three being the cache, and a part not taken](drawing:books_of_a_device)
#
# Why does PyTorch keep memory in which nothing lives? On a GPU, taking memory from the driver is slow, and
# giving it back makes the host wait until the device's work is done. A training loop makes and drops the same
# tensors thousands of times. So PyTorch takes memory in large **segments**, cuts **blocks** from them, and
# hands a freed block to the next tensor that asks. Below are ten rounds of a loop, in each of which two
# tensors are made and dropped. How many segments will be taken from the device: one, two, ten or twenty?

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

# %% [markdown] facts=["H3", "H5"]
# Twenty tensors, and one segment. Segments have sizes of their own, too. Try to see the rule in these:

# %% facts=["H5"]
KIB = 1 << 10
for size in (1, 512 * KIB, 1 * MIB, 1 * MIB + 1, 9 * MIB, 10 * MIB, 11 * MIB):
    memory.empty_cache()
    before = memory.memory_reserved(device)
    x = torch.empty(size, dtype=torch.uint8, device=device)
    print(f"asked for {size:>8} bytes: {(memory.memory_reserved(device) - before) >> 20:>2} MiB reserved")
    del x

# %% [markdown] facts=["H5"]
# Up to 1 MiB, PyTorch takes a segment of **2 MiB**, which many small tensors share. Above that and below 10
# MiB it takes one of **20 MiB**. From 10 MiB on, a segment is made to measure, in steps of 2 MiB. (These are
# the constants of PyTorch's allocator for CUDA, as it comes; a setting can change them. Remember that there
# are segments; their sizes you can look up.)
#
# A tool of the system, such as `nvidia-smi`, cannot see tensors. It sees what has been taken from the device:
# after your first small tensor it shows 2 MiB more, on top of what CUDA takes for itself. What does it show
# of a large tensor that is gone?

# %% facts=["H4"]
memory.empty_cache()
free_before, total = memory.mem_get_info(device)
x = torch.empty(100 * MIB, dtype=torch.uint8, device=device)
del x
free, total = memory.mem_get_info(device)

print("PyTorch says allocated:  ", memory.memory_allocated(device) >> 20, "MiB")
print("the system says, in use: ", (free_before - free) >> 20, "MiB more than before")
print("and not by PyTorch:      ", (total - free - memory.memory_reserved(device)) >> 20, "MiB")

# %% [markdown] facts=["H4"]
# A hundred MiB more in use, and no tensor anywhere. That is no leak: the next tensor that fits gets this
# memory, and the driver is not asked. The last line is what neither tensors nor the cache explain: other
# processes, and what CUDA takes for itself in this one, some hundred MiB. The simulated device takes nothing
# for itself. So ask how much is *allocated*, and not what the system shows.
#
# **[Exercise](../exercises/08_memory.ipynb#task_cached_bytes):** `cached_bytes`, while tensors come, go, and
# leave views behind.

# %% [markdown]
# ## Giving it back
#
# `empty_cache` gives cached segments back, on every device that the program uses. Programs often call it in
# the hope of more. Below, four tensors of 5 MiB share one segment, and three of them die.

# %% facts=["K1", "K2"]
guess = devlab.predict("How many MiB are reserved after empty_cache?", 0, 5, 20)


# %% facts=["K1", "K2"]
def reserved_after_emptying():
    memory.empty_cache()
    return memory.memory_reserved(device) >> 20


x = torch.empty(100 * MIB, dtype=torch.uint8, device=device)
print("x alive:         ", reserved_after_emptying(), "MiB reserved")
del x
print("x gone:          ", reserved_after_emptying(), "MiB reserved")

parts = [torch.empty(5 * MIB, dtype=torch.uint8, device=device) for _ in range(4)]
parts = parts[2:3]
left = reserved_after_emptying()
print("one part of four:", left, "MiB reserved")
guess.was_about(left)

for segment in memory.memory_snapshot():
    if segment["device"] != device.index:
        continue
    pieces = [
        f"{block['size'] >> 20} MiB {'free' if block['state'] == 'inactive' else 'in use'}"
        for block in segment["blocks"]
    ]
    print(f"a segment of {segment['total_size'] >> 20} MiB:", ", ".join(pieces))
del parts

# %% [markdown] facts=["K1", "K2"]
# It gives back what is **unused**, and **never the memory of live tensors**. And it gives back whole
# segments: 5 MiB are alive, and the 20 MiB around them stay. `memory_snapshot` lists all segments and the
# blocks in them, and shows why: the part that lives stands in the middle of its segment. Memory that is free
# in pieces, between blocks that live, is called *fragmented*.
#
# So `empty_cache` rarely makes room that PyTorch would not have found: before it gives up on a request,
# PyTorch empties the cache by itself. (The section *Out of memory* has one of the rare cases.) What it costs
# can be counted. This is the loop from above with one more line:

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
# Ten instead of one. On a GPU each of them means two calls to the driver, and giving a segment back waits for
# all work under way. **Keep it out of training loops.** It is good for:
#
# - **debugging**: after it, *reserved* tells what is really held;
# - **notebooks** and several programs on one GPU: another process can have what you give back;
# - a moment **after something big is gone**, such as a model that you will not need again.

# %% [markdown] facts=["H2", "K1", "K2"]
# ### Look and touch
#
# A small device of 64 MiB, simulated on every machine, its segments, and the blocks in them. Nine tensors of
# 6 MiB were made, and every second one freed. The next, J, wants 12 MiB, and 36 MiB are free. **Predict**
# whether it fits. Then drag it over the free pieces and let go. See whether *Empty the cache* helps. Then
# free one more tensor with a click: B, D, F or H. How long is the longest free piece after each of them?

# %% facts=["H2", "K1", "K2"]
devlab.explore.allocator()

# %% [markdown] facts=["H2", "K1", "K2"]
# Out of memory, with three times the room free: a tensor needs **one piece**, and the longest has 8 MiB.
# Emptying the cache gives nothing back, because a tensor lives in each segment. But any one of the four makes
# room, because its block joins the free ones beside it: D makes a piece of 12 MiB, F one of 14, and B or H
# one of 20. So what counts is not only how much is free but what lies beside it.

# %% [markdown]
# ## Who still holds it
#
# "I deleted it, I emptied the cache, and the memory is still taken." Then something else leads to it. Four
# tensors of 10 MiB are made below: one has a name and nothing else, one also stands in a list, one has a
# view, and from one a loss was computed. Then their names are deleted. How many of the four are gone?


# %% facts=["K5"]
def ten_mib():
    return torch.ones(10 << 18, device=device)


def report(words, start):
    memory.empty_cache()
    print(f"{words:<26}", (memory.memory_allocated(device) - start) >> 20, "MiB still held")


start = memory.memory_allocated(device)

x = ten_mib()
del x
report("one name, deleted:", start)

x = ten_mib()
batches = [x]
del x
report("also in a list:", start)
batches.clear()

x = ten_mib()
first_row = x[:4]
del x
report("a view is left:", start)
del first_row

x = ten_mib().requires_grad_()
loss = (x * x).sum()
del x
report("a loss is left:", start)
del loss
report("all of them gone:", start)

# %% [markdown] facts=["K5"]
# One: the list, the view and the graph of the loss each held 10 MiB. **First drop every reference, then empty
# the cache**: `del` for names, `clear` for containers, `detach` for losses, and `gc.collect()` where objects
# refer to each other. In a notebook there is one more holder. If the last line of a cell is an expression,
# its value is shown, and Jupyter keeps it as `_` and `Out[...]`. Do not end a cell with a large tensor.
#
# **[Exercise](../exercises/08_memory.ipynb#task_release):** `release`, which gives the memory of one entry of
# a dict back to the device.
#
# The holder that is overlooked most often is a loss. Here is a loop that wants to know the largest loss in
# the end. There are three ways to remember; the cell prints the memory that each has taken after 1, 10 and
# 100 steps.


# %% facts=["H2", "K5"]
def keeps_losses(kept, loss):
    return [*kept, loss]


def keeps_numbers(kept, loss):
    return [*kept, loss.detach()]


def keeps_the_largest(kept, loss):
    return [torch.maximum(kept[0], loss.detach()) if kept else loss.detach()]


parameter = torch.ones(25_000, device=device, requires_grad=True)
for remember in (keeps_losses, keeps_numbers, keeps_the_largest):
    kept, grown = [], []
    start = memory.memory_allocated(device)
    for step in range(1, 101):
        loss = (parameter.exp() * step).mean()
        kept = remember(kept, loss)
        del loss
        if step in (1, 10, 100):
            grown.append(memory.memory_allocated(device) - start)
    print(f"{remember.__name__:<18}", grown)
del parameter, kept

# %% [markdown] facts=["K5"]
# A hundred losses with their graphs take ten megabytes, and a real network has more than one layer. Detached,
# each takes its block of 512 bytes. If only the largest is kept, all together take 512. None of the three
# makes the host wait; `.item()` would, in every step.
#
# A program whose memory grows from step to step nearly always has a list, or a sum, of losses that still have
# their graphs.
#
# **[Exercise](../exercises/08_memory.ipynb#task_total_loss):** `total_loss`, the sum of any number of losses
# in memory that does not grow.

# %% [markdown] facts=["K5"]
# ### Ask the memory itself
#
# In a large program you cannot guess what holds what. But PyTorch can write down, for every block of memory,
# which line asked for it: `_record_memory_history` begins the record, and `_snapshot` returns what is there
# now. For a GPU both are in `torch.cuda.memory`, and the simulated device has them too. The underscore means
# that PyTorch may still change these names, though its documentation teaches them, under *Understanding CUDA
# Memory Usage*.
#
# Here is a program of the kind that you have just seen. It keeps five losses, with their graphs.

# %% facts=["K5"]
history = []


def load(step):
    return torch.full((256, 1024), float(step), device=device)


def predict(batch, weight):
    return batch @ weight


def score(output):
    return output.square().mean()


def keep(loss):
    history.append(loss)


weight = torch.ones(1024, 4096, device=device, requires_grad=True)
predict(load(0), weight)  # a GPU's first product also takes a workspace: memory for the product's own use
del weight
memory.empty_cache()

memory.memory._record_memory_history(stacks="python")  # a GPU would add the lines of PyTorch's own C++
weight = torch.ones(1024, 4096, device=device, requires_grad=True)
for step in range(5):
    loss = score(predict(load(step), weight))
    keep(loss)
snapshot = memory.memory._snapshot()

# %% [markdown] facts=["K5"]
# The weight has 16 MiB. Apart from it, which of the four functions made most of the memory that is held now?

# %% facts=["K5"]
guess = devlab.predict("Most of what is held was made by", "load", "predict", "score", "keep")

# %% facts=["K5"]
ours = ("load", "predict", "score", "keep", "<module>")


def maker(frames):
    """Return the innermost of our own functions; the innermost line comes first."""
    return next((frame["name"] for frame in frames if frame["name"] in ours), "elsewhere")


made = {}
for segment in snapshot["segments"]:
    for block in segment["blocks"]:
        # A block in use has lines only if it was made since the record began.
        if block["state"] == "active_allocated" and block["frames"]:
            function = maker(block["frames"])
            made[function] = made.get(function, 0) + block["requested_size"]

for function, size in sorted(made.items(), key=lambda item: -item[1]):
    print(f"{function:<10} {size:>12,} bytes")

guess.was(max(ours[:4], key=lambda name: made.get(name, 0)))

# %% [markdown] facts=["K5"]
# The outputs weigh most, 4 MiB in each of five steps: the graph of a loss needs them for the backward pass.
# (`<module>` is the cell itself, which made the weight. Of all the lines that led to a block, the cell takes
# the innermost that is ours.) `keep` does not appear at all, although the mistake is there. A snapshot names
# the line that **made** the memory, not the one that holds it. What holds it you find by asking what else
# should be gone by now: why are five outputs alive, when the loop needs one?
#
# The snapshot also has the history: what was handed out and taken back, in order. Here are the first two
# steps, with what was alive after each event. Blocks of less than 4 KiB are left out; a GPU takes some more
# of them.

# %% facts=["K5"]
alive = steps = 0
for event in snapshot["device_traces"][device.index]:
    if event["action"] not in ("alloc", "free_completed") or event["size"] < 4 * KIB:
        continue
    function = maker(event["frames"])
    steps += function == "load" and event["action"] == "alloc"  # each step begins with it
    if steps > 2:
        break
    alive += event["size"] if event["action"] == "alloc" else -event["size"]
    bar = "█" * round(alive / MIB)
    print(f"{event['action']:<14} {event['size']:>10,}  {function:<8} {alive >> 20:>3} MiB {bar}")

memory.memory._record_memory_history(None)
history.clear()
del weight, loss

# %% [markdown] facts=["K5"]
# Lay the bars on their side and you have the picture that PyTorch's memory viewer draws.
# `memory.memory._dump_snapshot("memory.pickle")` writes the file for it; drop it on the page
# pytorch.org/memory_viz, which reads it in your browser and sends it nowhere. There each tensor is a coloured
# band from its first moment to its last, and under the mouse you see the lines that made it. A staircase of
# bands that never end is a leak, as this one is. In a terminal,
# `python -m torch.cuda._memory_viz trace memory.pickle` prints the same history.

# %% [markdown]
# ## What training takes
#
# A model has one million parameters, 4 bytes each: 4 MB. The table below counts memory in copies of the
# model: after it was moved to the device, after the first `backward`, and after the first step of three
# optimizers.

# %% facts=["H1", "H2"]
guess = devlab.predict("How many copies are there after Adam's first step?", 1, 2, 3, 4)

# %% facts=["H1", "H2"]
# A backward takes a workspace of its own on a GPU. It is taken here, before anything is counted.
nn.Linear(8, 8).to(device)(torch.ones(1, 8, device=device)).sum().backward()


def copies(start):
    return round((memory.memory_allocated(device) - start) / 4_000_000)


for name, make in (
    ("SGD", lambda p: torch.optim.SGD(p, lr=0.1)),
    ("SGD, momentum", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    ("Adam", lambda p: torch.optim.Adam(p)),
):
    start = memory.memory_allocated(device)
    model = nn.Linear(1000, 1000, bias=False).to(device)
    optimizer = make(model.parameters())
    line = f"{name:<14} model: {copies(start)}"
    model(torch.ones(1, 1000, device=device)).sum().backward()
    line += f"  after backward: {copies(start)}"
    optimizer.step()
    held = copies(start)
    print(line + f"  after step: {held}")
    optimizer.zero_grad()
    del model, optimizer
guess.was_about(held)

# %% [markdown] facts=["H1", "H2"]
# | | copies |
# |---|---|
# | parameters | 1 |
# | gradients, from the first backward on | 1 for each that is trained |
# | state: SGD | 0 |
# | state: SGD with momentum | 1 |
# | state: Adam, AdamW | 2 |
#
# Training with Adam takes **four times** the model: 16 bytes for each parameter in float32. Two of the four
# copies appear in the first `step`, so memory may run out as late as there. H200, measured, for a language
# model of 124 million parameters: {measured:memory_by_phase:bytes of parameters} of parameters, {measured:memory_by_phase:step 0: after backward} after the first backward, {measured:memory_by_phase:step 0: after the optimizer} after
# the first step. Under `torch.autocast` all four stay float32, and the activations shrink; while a step runs,
# there are copies of the weights in the short dtype as well (lesson 12). A model that only predicts needs the
# first row alone, and under `torch.no_grad()` no activation stays longer than the next layer needs it. A
# parameter that is not trained takes its own place and nothing else. That is one reason why fine-tuning a
# part of a model fits where training all of it does not.
#
# How far that goes on real hardware can be computed, without any activations yet:
#
# | parameters | with Adam, in float32 | an NVIDIA GPU with room for it (data sheets) |
# |---|---|---|
# | 124 million | 2 GB | a T4 has 16 GB |
# | 1.5 billion | 24 GB | an A100 has 40 GB or 80 GB |
# | 7 billion | 112 GB | an H200 has 141 GB (an H100, with 80 GB, is too small) |
#
# What the GPU has beyond that is for the activations and all the rest: 29 GB on the H200. The activations are
# often the larger part. Take that language model, which chooses among 50,304 words, and a batch of 8 texts of
# 1024 tokens: its last activation alone, the scores in float32, has 8 x 1024 x 50,304 x 4 bytes, which is 1.6
# GB. H200, measured, for the first step: {measured:memory_by_phase:step 0: after forward} after the forward, and a peak of {measured:memory_by_phase:step 0: peak of backward}, which came with
# the first results of the backward, two more tensors as large as the scores. Lessons
# [12](12_less_memory_less_time.ipynb) and [13](13_bigger_than_one_device.ipynb) show what to do when it does
# not fit.
#
# **[Exercise](../exercises/08_memory.ipynb#task_training_bytes):** `training_bytes`, for models of which a
# part is frozen, shared, or in another dtype.

# %% [markdown] facts=["H2", "H6"]
# ### The mountain of a step
#
# Then there are the **activations**, what the graph keeps until `backward`. They cannot simply be added to
# the rest, because not everything is there at the same time. The forward piles activations up, layer by
# layer. The backward takes them down again, and creates the gradients as it goes.
#
# ![Memory over a training step. Parameters and the optimizer's state are there all the time. With a large batch the activations pile up to a peak at the turn from forward to backward; with a small batch the most is needed in the optimizer's step](drawing:two_moments)
#
# To look at the memory in the middle of a step, the next cell uses **hooks**, functions that PyTorch calls at
# a certain point. `register_forward_hook` has `look` called after each `Tanh` of the forward, and
# `register_hook` has a second function called when the backward comes to that layer's output.

# %% facts=["H2", "H6"]
guess = devlab.predict(
    "When is most memory in use?",
    "in the middle of the forward",
    "at the turn, from forward to backward",
    "at the end of the backward",
)


# %% facts=["H2", "H6"]
def height():
    return (memory.memory_allocated(device) - start) / MIB


def look(layer, inputs, output):
    forward.append(height())
    output.register_hook(lambda gradient: backward.append(height()))


layers = [layer for _ in range(4) for layer in (nn.Linear(256, 256), nn.Tanh())]
model = nn.Sequential(*layers).to(device)
for layer in layers[1::2]:
    layer.register_forward_hook(look)
x = torch.ones(2048, 256, device=device)  # 2 MiB, and so is the output of each layer

forward, backward = [], []
start = memory.memory_allocated(device)  # the model and its input are there, and are not counted
model(x).mean().backward()
end = height()

print("forward  (MiB):", *(f"{one:.1f}" for one in forward))
print("backward (MiB):", *(f"{one:.1f}" for one in backward))
print(f"at the end     : {end:.1f}")
moments = [max(forward[:-1]), max(forward[-1], backward[0]), end]  # the most in each of the three
guess.was(guess.choices[moments.index(max(moments))])
del model, layers, layer, x

# %% [markdown] facts=["H2", "H6"]
# Two layers make two outputs of 2 MiB, and yet the mountain rises by only 2 MiB from one `Tanh` to the next.
# For its backward a `Tanh` keeps its output, and a `Linear` keeps its input, which is the same tensor. The
# output of a `Linear` is kept by nothing; only the last one is still alive when the hook looks, which makes
# the first figure 4 and not 2. On the way back each pair of layers gives 2 MiB free and leaves gradients of a
# quarter of a MiB.
#
# At the turn all activations are alive, and hardly a gradient is. At the end it is the other way round: what
# is left are the gradients. And the optimizer's first step, which makes its state, comes when the activations
# are gone. So **the peak of a step is a maximum over time and not a sum**. It is the larger of two moments:
#
# - **at the turn**: parameters, the optimizer's state, all activations, and the first results of the
#   backward. (The old gradients too, if `zero_grad` is called after the forward and not before it.)
# - **in the optimizer's step**: parameters, gradients, the state, and what the step itself needs for a
#   moment. On an NVIDIA GPU that is by default about one more copy of the parameters, says PyTorch's
#   documentation, because the step handles them all at once; `foreach=False` in the optimizer avoids it.
#
# With a large batch it is the first, because activations grow with the batch:

# %% facts=["H6"]
model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1))
model.to(device)
peaks = {}
for batch in (512, 1024, 2048, 4096):
    x = torch.ones(batch, 64, device=device)
    before = memory.memory_allocated(device)  # the model and its input; on a GPU workspaces, too
    memory.reset_peak_memory_stats(device)
    model(x).mean().backward()
    peaks[batch] = memory.max_memory_allocated(device) - before
    print(f"batch of {batch:>4}: peak {peaks[batch] / MIB:6.2f} MiB")
    model.zero_grad()
print(f"each sample: {(peaks[4096] - peaks[2048]) / 2048:.0f} bytes")
del model, x

# %% [markdown] facts=["H6"]
# Twice the batch, nearly twice the peak above what was there before. Parameters, gradients and state you can
# compute beforehand. The activations are best measured, with a small batch and a larger one: the difference
# tells you what each sample takes, and so how many of them there is room for.

# %% [markdown]
# ## Out of memory
#
# `devlab.memory_limit` gives a block of code a small memory. The simulated device really gets one of 1 GiB;
# for a GPU it calls PyTorch's own `set_per_process_memory_fraction`, which limits this process and touches no
# other. Let us ask for more than is left:

# %% facts=["H7"]
GIB = 1 << 30
memory.empty_cache()
beneath = memory.memory_allocated(device)  # 0, or the workspaces of a GPU's libraries
with devlab.memory_limit(device, GIB):
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
# | **Tried to allocate** | Is it absurdly large? Then a shape is wrong somewhere, often by a broadcast. Is it small? Then the memory was full before, and this line is only the last drop |
# | **total capacity**, **is free** | Is little free, and does PyTorch hold little too? Then another process is using the device. (Under a limit, compare with what is *allowed*) |
# | **allocated by PyTorch** | This is what live tensors hold. Does the batch have to be so large, and does something hold tensors that are not needed? |
# | **reserved but unallocated** | The cache. It was emptied before the error, so what is left here is free in pieces too small: fragmentation. Can sizes differ less from step to step? Does the setting below help? |
#
# On an NVIDIA GPU the message is longer. This one is an **example**: the words are those of PyTorch 2.13, and
# on an H200 they were the same; the figures were made up for a T4, so that they fit together.
#
# ```
# torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB. GPU
# 0 has a total capacity of 14.56 GiB of which 98.75 MiB is free. Including
# non-PyTorch memory, this process has 14.46 GiB memory in use. Of the allocated
# memory 13.91 GiB is allocated by PyTorch, and 427.20 MiB is reserved by
# PyTorch but unallocated. If reserved but unallocated memory is large try
# setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid
# fragmentation. See documentation for Memory Management
# (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)
# ```
#
# (A GB is a thousand MB, and a GiB is 1024 MiB, or 1.07 GB. Data sheets are not strict about it: an H200,
# sold with 141 GB, has 139.80 GiB, measured, which is 150 GB.)
#
# Add it up. 98.75 MiB free and 14.46 GiB in this process make up the whole capacity, so no other process
# is using the GPU. (Otherwise there would be a sentence such as *Process 4711 has 5.20 GiB memory in use*.)
# PyTorch has 13.91 GiB and 427 MiB, which is 14.33 GiB; the other 0.13 GiB of the process are CUDA's own. And
# 427 MiB are free, more than the 256 that were wanted, so they are most likely in pieces.
#
# For that case the message names a setting, **`expandable_segments:True`**. With it PyTorch takes memory in
# segments that can grow, so fewer free pieces are left between them (on Linux). Set it before the program
# starts. (PyTorch's documentation now calls the variable `PYTORCH_ALLOC_CONF`; the older name in the message
# works, too.)
#
# If the message does not tell you which line is to blame, take a snapshot, as under *Ask the memory itself*:
# the mountain of your own training step, block by block.
#
# The error is an ordinary exception, and nothing is broken by it. Tensors that were there are still there.
# Make room, and try again:

# %% facts=["H7", "K5"]
del large
with devlab.memory_limit(device, GIB):
    more = torch.empty(400 * MIB, dtype=torch.uint8, device=device)
print("allocated:", (memory.memory_allocated(device) - beneath) >> 20, "MiB")
del more

# %% [markdown] facts=["H7"]
# In a program that is to recover by itself there is a trap. The step below takes its memory in two parts, and
# for a batch of 3 the second part does not fit. The program empties the cache and tries again with a batch of
# 2, for which there is room. Both versions look right.


# %% facts=["H7", "K5"]
def step(batch):
    inputs = torch.empty(batch * 220 * MIB, dtype=torch.uint8, device=device)
    outputs = torch.empty(batch * 220 * MIB, dtype=torch.uint8, device=device)
    return inputs.numel() + outputs.numel()


def again_inside():
    try:
        return step(3)
    except torch.OutOfMemoryError:
        memory.empty_cache()
        print("inside except, held:", (memory.memory_allocated(device) - beneath) >> 20, "MiB")
        return step(2)


def again_after():
    try:
        return step(3)
    except torch.OutOfMemoryError:
        pass
    memory.empty_cache()
    print("after except, held: ", (memory.memory_allocated(device) - beneath) >> 20, "MiB")
    return step(2)


guess = devlab.predict("Which one works?", "again_inside", "again_after", "both", "neither")

# %% facts=["H7", "K5"]
works = []
with devlab.memory_limit(device, GIB):
    for version in (again_inside, again_after):
        try:
            version()
            works.append(version.__name__)
        except torch.OutOfMemoryError:
            print("                     and out of memory again")
        memory.empty_cache()
guess.was(works)

# %% [markdown] facts=["H7", "K5"]
# While an exception is being handled it has a **traceback**, the traceback has the frame of the function that
# failed, and the frame has its variables: `inputs` is still alive, with 660 MiB. When the `except` block
# ends, all of it goes. So inside `except` only note *that* it failed, and try again after it. For the same
# reason do not keep the exception in a variable of your own. And in a notebook, an error that was not caught
# stays as `sys.last_value`, with its traceback and all its tensors, until the next one. (From Python 3.12 on,
# `sys.last_exc` holds it too.)
#
# `empty_cache` has its place here, between two tries. Without it the next try finds a cached segment of 660
# MiB and cuts its first 440 from that. The 220 left over are too little for the second part, and cannot go
# back to the device while the segment is in use; and 660 and 440 together are more than the device has. So
# let each new try begin with an empty cache.
#
# Other cures, from small to large: a smaller batch, with gradients gathered over several; `torch.no_grad()`
# where no backward follows; half precision; giving up activations and computing them again
# (`torch.utils.checkpoint`). [Lesson 12](12_less_memory_less_time.ipynb) has them.
#
# **[Exercise](../exercises/08_memory.ipynb#task_largest_batch):** `largest_batch`, a search that runs out of
# memory on purpose and survives.

# %% [markdown]
# ## Where real hardware differs
#
# - Memory is counted in gigabytes, and CUDA takes a part of it before your first tensor.
# - Libraries take workspaces: the first product, and the first backward, leave memory allocated that you did
#   not ask for, on an H200, measured, 65 MiB in all. So the cells of this lesson subtract what was allocated
#   before. The simulated device counts results only.
# - A GPU works asynchronously ([lesson 07](07_asynchrony.ipynb)), but the account is kept by the host, when
#   an operation is launched. So these numbers need no `synchronize`.
# - On Apple's `mps` the account has other names: `torch.mps.current_allocated_memory()` and
#   `torch.mps.driver_allocated_memory()`, with no peak beside them. (By its source, PyTorch 2.13 also answers
#   there to `torch.accelerator.max_memory_allocated()`; we had no Mac to try it.) The memory is the
#   computer's own.
# - For the CPU PyTorch keeps no such account. `devlab.watch()` counts the bytes of new tensors there:

# %% facts=["H1"]
with devlab.watch() as log:
    x = torch.ones(1000, 100)
    y = x.to(device) * 2
for place, count in log.allocated.items():
    print(f"new tensors on {place}: {count:,} bytes")
del x, y

# %% [markdown]
# ## What to keep
#
# - *Allocated* is what live tensors hold, each rounded up to a multiple of 512 bytes. *Reserved* is what
#   PyTorch has taken, in segments of 2 or 20 MiB, or made to measure. What is reserved and not allocated is
#   the cache: fast reuse, no leak.
# - Memory is free when the **last** reference is gone: names, lists, views, graphs, tracebacks, Jupyter's
#   `Out`. A snapshot tells you which line made what is still there.
# - A peak counts since the last reset, and for the whole device.
# - `empty_cache` gives unused segments back, never live memory. Drop references first, and do not call it in
#   a training loop.
# - Keep losses detached, or better, only their sum or their largest. Never keep the losses themselves.
# - Training with Adam takes four copies of the model: parameters, gradients, and two of state. Activations
#   come on top; they are most at the turn from forward to backward. The peak is a maximum over time, not the
#   sum.
# - `torch.OutOfMemoryError`: read it as an account, leave the `except` block, then try something smaller.
#
# **Now do it:** [the exercises of this lesson](../exercises/08_memory.ipynb), seven functions. **Then:**
# [09 Several devices](09_several_devices.ipynb).
