# %% [markdown]
# # 08 Memory
#
# "CUDA out of memory" is an error that you meet in your first weeks with a GPU, and again whenever the model
# or the batch grows. PyTorch keeps an exact account of what it takes from a device, and this lesson teaches
# you to read it.
#
# A training puts four kinds of tensors there: the **parameters**, their **gradients**, which say how the loss
# changes with each, the **optimizer's state**, and the **activations** that the forward leaves for the
# backward. A fifth part is what PyTorch keeps in reserve, and a sixth what CUDA takes for itself.
#
# After it you can say what each line of a program holds, how much memory the training of a model will take,
# and what to do when it runs out.
#
# **Takes** about 30 minutes to read, and 70 for the tasks. **Needs** [05 Models and
# buffers](05_buffers.ipynb); you know `loss.backward()` and have met `detach` in
# [06](06_numpy_sharing.ipynb).

# %%
import gzip
import pickle
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import devlab
from devlab.explore.runs import curves, mountain

device = devlab.start(account=True, threads=1)  # more threads would only wait: see lesson 01
memory = torch.get_device_module(device)

# %% [markdown]
# `account=True` asks for a device on which PyTorch counts memory: an NVIDIA GPU, an AMD GPU with a ROCm build
# (PyTorch calls both `cuda`), or an Intel GPU. Elsewhere the lesson runs on the simulated device, which
# follows the rules of PyTorch's allocator for CUDA.
#
# **The figures in the text are the simulated device's.** An H200, measured, gave the same sizes in all 32
# recorded sequences of allocations, and where a GPU may show another figure, the text says so. No cell fills
# your GPU: where memory has to run out, the lesson sets itself a limit first.
#
# `torch.get_device_module(device)` gives `torch.cuda`, or its like for your kind of device. Most of what
# follows also exists as `torch.accelerator.memory_allocated()` and so on.

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

# %% [markdown] facts=["H1", "H2", "H5"]
# `del` deletes a *name*. The memory goes when nothing leads to it any more, and a view of ten elements leads
# to all thousand. But then it goes **at once**: Python counts references, and with the last of them the block
# is free again.
#
# A thousand floats of 4 bytes each make 4000 bytes, and 4096 were taken: blocks are multiples of **512
# bytes**, so a tensor with one number takes as much as one with 128. A list of a million losses takes half a
# gigabyte.

# %% [markdown] facts=["H5"]
# A name is not all that can hold a tensor. Here is a calculation in four steps, of which only the last result
# is kept: one number. `memory_stats` reports, among much else, how many *blocks* are in use.


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
# Without gradients two blocks are in use, the weight and the one number. With them there is a third: the
# number now leads to a **graph**, and the graph keeps what `backward` will need, here the result of `exp`.
# The variable `result` looks the same both times.
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
# `max_memory_allocated` is the most that was ever allocated at once. In the first function, while `* 2` runs,
# `x`, the sum and the product are alive. The second works in place, on one tensor of its own.
#
# The figure belongs to the **whole device**: the 4 MiB of `x` are in it, though neither function made them.
# And "ever" means since `reset_peak_memory_stats`. This is what happens without the reset:

# %% facts=["H6"]
tall = torch.ones(4096, 1024, device=device)
del tall

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
# No tensor is alive now. `devlab.memory` shows the account of a device at a glance, and PyTorch's own
# `memory_summary` in all detail.

# %% facts=["H3", "H4"]
panel = devlab.memory(device)
print(memory.memory_summary(device, abbreviated=True))

# %% [markdown] facts=["H2", "H3", "H4"]
# *Allocated* is zero, and yet something is taken. **Reserved** is what PyTorch has taken from the device.
# Live tensors occupy part of it; the rest is PyTorch's **cache**, kept for the next tensor.
#
# ![The memory of a device as a bar: a part for CUDA itself, three segments that PyTorch has reserved, with blocks of live tensors in the first two of them and the rest of the three being the cache, and a part not taken](drawing:books_of_a_device)
#
# On a GPU, taking memory from the driver is slow, and giving it back waits for the device. So PyTorch takes
# memory in large **segments**, cuts **blocks** from them, and hands a freed block to the next tensor that
# asks. Below, two tensors are made and dropped in each of ten rounds.

# %% facts=["H3", "H4"]
guess = devlab.predict("How many segments will be taken from the device?", 1, 2, 10, 20)

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
guess.was(stats["segment.all.allocated"])

# %% [markdown] facts=["H3", "H5"]
# Twenty tensors, and one segment. Up to 1 MiB, PyTorch takes a segment of **2 MiB**, which many small tensors
# share. Above that and below 10 MiB it takes one of **20 MiB**, and from 10 MiB on one made to measure, in
# steps of 2 MiB. Each stream has its own blocks: what a side stream has freed, the main stream does not get.
#
# A tool of the system, such as `nvidia-smi`, cannot see tensors. It sees what has been taken from the device.
# What does it show of a large tensor that is gone?

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
# memory. The last line is what neither tensors nor the cache explain: other processes, and what CUDA takes
# for itself, some hundred MiB. So ask how much is *allocated*, and not what the system shows.

# %% [markdown]
# ## Giving it back
#
# `empty_cache` gives cached segments back. Below, four tensors of 5 MiB share one segment, and three of them
# die.

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
# blocks in them. Memory that is free in pieces, between blocks that live, is called *fragmented*.
#
# So `empty_cache` rarely makes room that PyTorch would not have found: before it gives up on a request,
# PyTorch empties the cache by itself. What it costs can be counted. This is the loop from above with one more
# line:

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
# Ten instead of one, and on a GPU giving a segment back waits for all work under way. **Keep it out of
# training loops.** It is good for **debugging**, because *reserved* then tells what is really held; for
# **notebooks** and several programs on one GPU; and a moment **after something big is gone**, such as a model
# that you will not need again.

# %% [markdown] facts=["H2", "K1", "K2"]
# ### Look and touch
#
# A small device of 64 MiB, simulated on every machine. Nine tensors of 6 MiB were made, and every second one
# freed. The next, J, wants 12 MiB, and 36 MiB are free. **Predict** whether it fits. Then drag it over the
# free pieces and let go. See whether *Empty the cache* helps. Then free one more tensor with a click: B, D, F
# or H. How long is the longest free piece after each of them?

# %% facts=["H2", "K1", "K2"]
devlab.explore.allocator()

# %% [markdown] facts=["H2", "K1", "K2"]
# Out of memory, with three times the room free: a tensor needs **one piece**, and the longest has 8 MiB.
# Emptying the cache gives nothing back, because a tensor lives in each segment. Freeing one neighbour makes
# one long piece of it and the free ones beside it, of 12 to 20 MiB; the 36 MiB before were never side by
# side.

# %% [markdown]
# ## Who still holds it
#
# "I deleted it, I emptied the cache, and the memory is still taken." Then something else leads to it. Below,
# two tensors of 10 MiB lose their names, one of which also stands in a list, and from the other a loss was
# computed.


# %% facts=["K5"]
def report(words, start):
    memory.empty_cache()
    print(f"{words:<20}", (memory.memory_allocated(device) - start) >> 20, "MiB still held")


start = memory.memory_allocated(device)

x = torch.ones(10 << 18, device=device)
batches = [x]
del x
report("also in a list:", start)
batches.clear()

x = torch.ones(10 << 18, device=device, requires_grad=True)
loss = (x * x).sum()
del x
report("a loss is left:", start)
del loss
report("both of them gone:", start)

# %% [markdown] facts=["K5"]
# **First drop every reference, then empty the cache**: `del` for names, `clear` for containers, `detach` for
# losses, and `gc.collect()` where objects refer to each other. In a notebook there is one more holder: if the
# last line of a cell is an expression, Jupyter keeps its value as `_` and `Out[...]`. Do not end a cell with
# a large tensor.
#
# **[Exercise](../exercises/08_memory.ipynb#task_release):** `release`, which gives the memory of one entry of
# a dict back to the device.
#
# The holder that is overlooked most often is a loss. Here are three ways to remember the largest of a
# hundred; the cell prints the memory that each has taken after 1, 10 and 100 steps.


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
# A hundred losses with their graphs take ten megabytes. Detached, each takes its block of 512 bytes, and if
# only the largest is kept, all together take 512. None of the three makes the host wait; `.item()` would, in
# every step.
#
# A program whose memory grows from step to step nearly always keeps losses with their graphs.
#
# **[Exercise](../exercises/08_memory.ipynb#task_total_loss):** `total_loss`, the sum of any number of losses
# in memory that does not grow.

# %% [markdown] facts=["K5"]
# ### Ask the memory itself
#
# PyTorch can write down, for every block of memory, which line asked for it: `_record_memory_history` begins
# the record, and `_snapshot` returns what is there now. The names may still change, says the underscore;
# PyTorch's documentation teaches them under *Understanding CUDA Memory Usage*.
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

# %% facts=["K5"]
guess = devlab.predict(
    "Most of what is held, beside the weight, was made by", "load", "predict", "score", "keep"
)

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
# `keep` does not appear at all, although the mistake is there. A snapshot names the line that **made** the
# memory, not the one that holds it. What holds it you find by asking what else should be gone by now: why are
# five outputs alive, when the loop needs one?
#
# `memory.memory._dump_snapshot("memory.pickle")` writes the file for PyTorch's **memory viewer**. Drop it on
# the page pytorch.org/memory_viz, which reads it in your browser and sends it nowhere. There each tensor is a
# coloured band from its first moment to its last, and under the mouse you see the lines that made it. A
# staircase of bands that never end is a leak. In a long training `max_entries=100_000` keeps the record
# short.
#
# A snapshot from an H200 comes with the course, of five training steps of a small convolutional network whose
# losses were kept, each *after* its backward. The next cell asks PyTorch's own summary of it, and then
# follows its history to the peak.

# %% facts=["K5", "H6"]
from torch.cuda import _memory_viz  # also `python -m torch.cuda._memory_viz`

memory.memory._record_memory_history(enabled=None)
history.clear()
del weight, loss

with gzip.open(Path(devlab.__file__).parent / "data/h200/snapshot_losses_kept.pickle.gz") as file:
    recorded = pickle.load(file)
print(_memory_viz.segsum(recorded).partition("Legend")[0])

alive, at_peak, most, heights = {}, {}, 0, []
for event in recorded["device_traces"][0]:
    if event["action"] == "alloc":
        alive[event["addr"]] = event
    elif event["action"] == "free_completed":
        alive.pop(event["addr"], None)
    held = sum(one["size"] for one in alive.values())
    heights.append(held / MIB)
    if held > most:
        most, at_peak = held, dict(alive)

curves("Allocated on the H200 in five steps, in MiB, after each event of the record", allocated=heights)
print(f"at the peak {most / MIB:.0f} MiB, of which")
for event in sorted(at_peak.values(), key=lambda one: -one["size"])[:5]:
    names = [frame["name"] for frame in event["frames"] if frame["name"] != "_call_impl"]
    print(f"{event['size'] / MIB:>6.0f} MiB, made by", " in ".join(names[:2]) or "no line of Python")
losses = [one for one in alive.values() if any(frame["name"] == "cross_entropy" for frame in one["frames"])]
print(f"the {len(losses)} kept losses, after their backwards: {sum(one['size'] for one in losses)} bytes")

# %% [markdown] facts=["K5"]
# A loss that is kept *after* its backward is its number alone, because backward frees the graph: what leaks
# is a loss whose backward never ran, as in evaluation. And what no line of Python made comes from the
# backward, which runs in C++, or is a workspace of a library, here the largest block of all, cuDNN's.

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
# | state: SGD, SGD with momentum, Adam or AdamW | 0, 1, 2 |
#
# Training with Adam takes **four times** the model: 16 bytes for each parameter in float32. Two of the four
# copies are made in the first step, so out of memory may come only in the first `optimizer.step()`. A
# parameter that is not trained takes its own place and nothing else, and a model that only predicts, under
# `torch.inference_mode()`, needs the first row alone.
#
# Here is the transformer of [lesson 07](07_asynchrony.ipynb#A-transformer,-bounded) again, with 124 million
# parameters. H200, measured: {measured:memory_by_phase:bytes of parameters} of parameters,
# {measured:memory_by_phase:step 0: after backward} after the first backward, {measured:memory_by_phase:step
# 0: after the optimizer} after the first step. For larger ones, without any activations:
#
# | parameters | with Adam, in float32 | an NVIDIA GPU with room for it (data sheets) |
# |---|---|---|
# | 1.5 billion | 24 GB | an A100 has 40 GB or 80 GB |
# | 7 billion | 112 GB | an H200 has 141 GB (an H100, with 80 GB, is too small) |
#
# **[Exercise](../exercises/08_memory.ipynb#task_training_bytes):** `training_bytes`, for models of which a
# part is frozen, shared, or in another dtype.

# %% [markdown] facts=["H2", "H6", "H8"]
# ### Activations on paper
#
# Activations can be counted, too: go through a block and note what its backward needs. Below is a block of
# that transformer. For each token it keeps, in units of its width, 1 for each of two norms' inputs and 1 for
# what each returns, 3 for queries, keys and values, 1 for what attention returns, and 4 before and 4 after
# the GELU: **16 × width** numbers. Attention adds little if it is fused. Written out, it adds for each head a
# table of length × length, and more than one.
#
# PyTorch counts for you: `saved_tensors_hooks` calls a function of yours with each tensor that a graph keeps.

# %% facts=["H2", "H6", "H8"]
guess = devlab.predict(
    "12 blocks of width 768, 8 texts of 1024 tokens, float32: how many GB of activations in the blocks?",
    0.5,
    5,
    50,
)


# %% facts=["H2", "H6", "H8"]
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        heads = [
            part.unflatten(-1, (-1, 64)).transpose(1, 2) for part in self.qkv(self.norm_1(x)).chunk(3, -1)
        ]
        attended = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.out(attended)
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


kept = {}


def note(tensor):
    storage = tensor.untyped_storage()
    kept[storage.data_ptr()] = storage.nbytes()
    return tensor.detach()


block, x = Block(128).to(device), torch.ones(8, 64, 128, device=device)
with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
    out = block(x)
weights = sum(kept.get(p.untyped_storage().data_ptr(), 0) for p in block.parameters())
print(f"your block keeps {(sum(kept.values()) - weights) / x.nbytes:.1f} × width numbers for each token")
in_blocks = 12 * 16 * 768 * 4 * 8 * 1024 / 1e9
scores = 8 * 1024 * 50_304 * 4 / 1e9
print(f"12 blocks: {in_blocks:.2f} GB, the scores of 50,304 words: {scores:.2f} GB")
guess.was_about(in_blocks)
del block, x, out

# %% [markdown] facts=["H2", "H6", "H8"]
# With the parameters that makes 6.98 GB after the forward. H200, measured: {measured:memory_by_phase:step 0:
# after forward}. The simulated device writes attention out, which adds 1 here; the scores of the last layer,
# one tensor, are a quarter of it all. So where memory is short, compute the loss in pieces of the text. The
# peak of {measured:memory_by_phase:step 0: peak of backward} came with the first results of the backward, two
# more tensors as large as the scores.
#
# **[Exercise](../exercises/08_memory.ipynb#task_activation_bytes):** `activation_bytes`, for the block that
# newer models have, with attention fused or written out.

# %% [markdown] facts=["H2", "H6"]
# ### The mountain of a step
#
# Not all of that is there at the same time.
#
# To look at the memory in the middle of a step, the next cell uses **hooks**, functions that PyTorch calls at
# a certain point. `register_forward_hook` has `look` called after each `Tanh` of the forward, and
# `register_hook` has a second function called when the backward comes to that layer's output.

# %% facts=["H2", "H6"]
guess = devlab.predict(
    "With a batch of 2048, when is most memory in use?",
    "in the middle of the forward",
    "between forward and backward",
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
# The forward piles activations up, layer by layer. The backward takes them down again, and creates the
# gradients as it goes. Two layers make two outputs of 2 MiB, and yet the mountain rises by only 2 MiB from
# one `Tanh` to the next. For its backward a `Tanh` keeps its output, and a `Linear` keeps its input, which is
# the same tensor.
#
# Here is the memory of a whole step with Adam, drawn from a run on your device: once with a large batch, once
# with a small one.

# %% facts=["H2", "H6"]
model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(256, 256), nn.Tanh()))).to(device)
optimizer = torch.optim.Adam(model.parameters())


def drawn_step(model, optimizer, batch, **beside):
    x = torch.ones(batch, 256, device=device)
    with mountain(f"a batch of {batch}", model, optimizer, **beside) as drawn:
        drawn.phase("forward")
        loss = model(x).mean()
        drawn.phase("backward")
        loss.backward()
        drawn.phase("the optimizer's step")
        optimizer.step()
    optimizer.zero_grad()
    return drawn


drawn_step(model, optimizer, 1, show=False)  # makes the optimizer's state
large = drawn_step(model, optimizer, 2048, show=False)
drawn_step(model, optimizer, 64, beside=large)
del model, optimizer

# %% [markdown] facts=["H2", "H6"]
# So **the peak of a step is a maximum over time and not a sum**. It is the larger of two moments:
#
# - **at the turn**: parameters, the optimizer's state, all activations, and the first results of the
#   backward; the old gradients too, if `zero_grad` is called after the forward.
# - **in the optimizer's step**: parameters, gradients, the state, and what the step itself needs for a
#   moment. On an NVIDIA GPU that is by default about one more copy of the parameters, says PyTorch's
#   documentation; `fused=True` or `foreach=False` in the optimizer avoids it.
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
# Where you cannot count activations, measure them like this, with a small batch and a larger one.

# %% [markdown]
# ## Out of memory
#
# `devlab.memory_limit` gives a block of code a small memory; for a GPU it calls PyTorch's own
# `set_per_process_memory_fraction`, which limits this process alone. Let us ask for more than is left:

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
# | **Tried to allocate** | Is it absurdly large? Then a shape is wrong, often by a broadcast. Is it small? Then the memory was full before |
# | **total capacity**, **is free** | Is little free, and does PyTorch hold little too? Then another process is using the device. Under a limit, compare with what is *allowed* |
# | **allocated by PyTorch** | This is what live tensors hold. Does something hold tensors that are not needed? |
# | **reserved but unallocated** | The cache, after it was emptied: what is left is free in pieces too small |
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
# Add it up. 98.75 MiB free and 14.46 GiB in this process make up the whole capacity, so no other process is
# using the GPU. PyTorch has 13.91 GiB and 427 MiB; the other 0.13 GiB of the process are CUDA's own. And 427
# MiB are free, more than the 256 that were wanted, so they are most likely in pieces.
#
# For that case the message names a setting, **`expandable_segments:True`**. With it PyTorch takes memory in
# segments that can grow, so fewer free pieces are left between them (on Linux). Set it before the program
# starts; the variable's newer name is `PYTORCH_ALLOC_CONF`. How much is free in pieces says `memory_stats`
# under `inactive_split_bytes.all.current`, and `max_split_size_mb` in the same variable forbids to cut large
# blocks.
#
# The error is an ordinary exception. Tensors that were there are still there. Make room, and try again:

# %% facts=["H7", "K5"]
del large
with devlab.memory_limit(device, GIB):
    more = torch.empty(400 * MIB, dtype=torch.uint8, device=device)
print("allocated:", (memory.memory_allocated(device) - beneath) >> 20, "MiB")
del more

# %% [markdown] facts=["H7"]
# In a program that is to recover by itself there is a trap. The step below takes its memory in two parts, and
# for a batch of 3 the second part does not fit. The program empties the cache and tries again with a batch of
# 2, for which there is room.


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
# ends, all of it goes. So inside `except` only note *that* it failed, and try again after it. In a notebook,
# an error that was not caught stays as `sys.last_value`, with all its tensors, until the next one.
#
# `empty_cache` has its place here, between two tries. Without it the next try cuts its first 440 MiB from a
# cached segment of 660. The 220 left over are too little for the second part, and cannot go back while the
# segment is in use:
#
# | | taken from a device of 1024 MiB | free on the device |
# |---|---|---|
# | after the failed try | 660, cached | 364 |
# | cache emptied, two parts of 440 | 440 + 440 | 144 |
# | cache kept, first part of 440 | 660, of which 220 are free | 364, too little for 440 |
#
# Other cures are a smaller batch, with gradients gathered over several, half precision, and activations that
# are computed again: [lesson 12](12_less_memory_less_time.ipynb) has them.
#
# **[Exercise](../exercises/08_memory.ipynb#task_largest_batch):** `largest_batch`, a search that runs out of
# memory on purpose and survives.

# %% [markdown]
# ## Where real hardware differs
#
# - Libraries take workspaces: the first product, and the first backward, leave memory allocated that you did
#   not ask for, on an H200, measured, 65 MiB in all. So the cells of this lesson subtract what was allocated
#   before.
# - The account is kept by the host, when an operation is launched. So these numbers need no `synchronize`.
# - On Apple's `mps` the account has other names: `torch.mps.current_allocated_memory()` and
#   `torch.mps.driver_allocated_memory()`, with no peak beside them.
# - **Unified memory** is shared by CPU and GPU, as on a Mac, NVIDIA's DGX Spark or AMD's Strix Halo. What the
#   GPU takes the system lacks. On a Spark the driver's *free* leaves out what Linux could still give back
#   (llama.cpp's pull request 17368); a Strix Halo of 128 GB may show its GPU 62, until firmware or kernel are
#   told otherwise (docs of antirez/ds4). PyTorch copies from `cpu` to the device all the same.
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
# - *Allocated* is what live tensors hold, in blocks of 512 bytes. *Reserved* is what PyTorch has taken, in
#   segments. The difference is the cache: fast reuse, no leak.
# - Memory is free when the **last** reference is gone: names, lists, views, graphs, tracebacks, Jupyter's
#   `Out`. A snapshot tells you which line made what is still there.
# - A peak counts since the last reset, and for the whole device.
# - `empty_cache` gives unused segments back, never live memory. Drop references first, and keep it out of the
#   training loop.
# - Training with Adam takes four copies of the model. Activations come on top, 16 × width for each token and
#   block of a transformer. The peak is a maximum over time, not the sum.
# - `torch.OutOfMemoryError`: read it as an account, leave the `except` block, then try something smaller.
#
# **Now do it:** [the exercises of this lesson](../exercises/08_memory.ipynb). **Then:** [09 Several
# devices](09_several_devices.ipynb).
