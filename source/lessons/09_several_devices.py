# %% [markdown]
# # 09 Several devices
#
# Two GPUs in one machine are two separate memories with a connection between them. PyTorch moves nothing over
# it unless you say so, and it does not complain when you say so too often.
#
# Work can be shared out over several devices in three ways: **by layers**, where each device has some of
# them; **within a layer**, where each has a part of its weight ([lesson
# 13](13_bigger_than_one_device.ipynb)); and **by data**, where each has the whole model and some of the rows.
# If the model fits on one device, take the third. This lesson does the first and the third by hand, because
# that shows what moves, and then does the third as programs do it.
#
# After this lesson you can compute with tensors from several devices, put the parts of a model on two of
# them, cut a batch into parts, and count what all of that costs. And you can start two real processes that
# train one model together, which is how it is done in practice.
#
# **Takes** about 45 minutes. **Needs** [04 Transfers](04_transfers.ipynb) and
# [05 Models and buffers](05_buffers.ipynb); [07 Asynchrony](07_asynchrony.ipynb) helps with one picture.

# %%
import torch
from torch import nn
from torch.nn import functional as F

import devlab

first, second = devlab.start_two()
print(first, second)

# %% [markdown]
# **What is real here.** `devlab.start_two()` gives you two GPUs where PyTorch finds two, and otherwise the
# two simulated devices, `sim:0` and `sim:1`. Tensors, results, gradients and transfers of the simulated ones
# are real and counted. Their *times* come from the simulator's model, and the one picture with times says so.
# The two processes at the end are real processes that really talk to each other, whatever you have. With one
# GPU you get the simulated pair; a group of processes can have a single member, too, and the last section
# says how to run one on your GPU.

# %% [markdown] facts=["U1"]
# ## A tensor has one address
#
# A tensor is on **one device at a time**, and no operation fetches its inputs from another GPU; only a copy
# does. Both tensors below are on an accelerator.

# %% facts=["U1", "U2"]
x = torch.ones(1000, 1000, device=first)
y = torch.ones(1000, 1000, device=second)

guess = devlab.predict("What does x + y give?", "a sum on x's device", "a sum on y's device", "an error")

# %% facts=["U1", "U2"]
try:
    place = (x + y).device
    guess.was("a sum on x's device" if place == first else "a sum on y's device")
except RuntimeError as error:
    print(error)
    guess.was("an error")

# %% [markdown] facts=["U2", "U3"]
# For PyTorch two GPUs are even further apart than a GPU and the CPU. A zero-dimensional tensor, a single
# number, may come from the CPU, as lesson 02 shows; from another GPU it is refused like any other tensor.
# So **work across devices needs movement that you write down**. You do it with `.to`, straight from device to
# device. Compare it with a detour:

# %% facts=["U3"]
with devlab.watch() as log:
    there = y.to(first)
print("y.to(first):      ", log.transfers, "transfer, ", f"{log.bytes_moved:,} bytes")

with devlab.watch() as log:
    there = y.cpu().to(first)
print("y.cpu().to(first):", log.transfers, "transfers,", f"{log.bytes_moved:,} bytes")

# %% [markdown]
# By way of the CPU twice as many bytes are transferred, and the host waits for them.
#
# ![Two GPUs, first and second, with a memory each, and the CPU with the host's memory above them. y.to(first) is one transfer from second to first, over NVLink or PCIe where there is peer access; y.cpu().to(first) is two transfers, by way of the host's memory](drawing:two_memories)
#
# Two GPUs may have **peer access**: one reads the other's memory without the host, over PCIe or over a
# connection of their own, which NVIDIA calls NVLink. Where they have none, CUDA goes by way of the host's
# memory by itself, and your line stays the same. `torch.cuda.can_device_access_peer(0, 1)` tells which it is.
# On your machine:

# %% tags=["nbval-ignore-output"]
if torch.cuda.device_count() > 1:
    access = torch.cuda.can_device_access_peer(0, 1)
    print("peer access from cuda:0 to cuda:1:", "yes" if access else "no, by way of the host")
else:
    print("there are no two GPUs here that PyTorch calls cuda")

# %% [markdown]
# How fast such connections are, by NVIDIA's data sheets of the GPUs in the last column. The sheets add up
# both directions; here is one of them, beside the GPU's own memory:
#
# | connection (data sheets) | GB/s, one direction | the GPU's own memory, GB/s | GPU |
# |---|---|---|---|
# | PCIe 3.0, 16 lanes | 16 | 300 | T4 |
# | PCIe 4.0, 16 lanes | 32 | 2,039 | A100, 80 GB, SXM |
# | NVLink, third generation | 300 | 2,039 | A100, 80 GB, SXM |
# | NVLink, fourth generation | 450 | 3,350 | H100, SXM |
#
# At these peaks the 4 MB of `y` take 250 µs over PCIe 3.0, and a T4 reads them from its own memory in 13 µs.
# (The simulator models 10 GB/s between its two devices, for two GPUs on PCIe 3.0.) Even NVLink is several
# times slower than the memory at either end, so the first question stays the same: does this have to move?
#
# Suppose x and y are to be multiplied and added up, and the CPU wants to know the one number that comes out.
# There are two obvious ways:

# %%
home = torch.device("cpu")
for words, way in {
    "(x.to(home) * y.to(home)).sum()": lambda: (x.to(home) * y.to(home)).sum(),
    "(x * y.to(x.device)).sum().to(home)": lambda: (x * y.to(x.device)).sum().to(home),
}.items():
    with devlab.watch() as log:
        way()
    print(f"{words:<36} {log.transfers} transfers, {log.bytes_moved:>9,} bytes")

# %% [markdown]
# Two transfers each, and half the bytes in the second: y goes to where x is, and what goes home is one
# number. When tensors from two places meet and the result is wanted in a third, two transfers are enough. A
# program that gathers both on some other device first, and then sends the result home, makes three.
#
# And gradients? Below, x is on one device and the loss on the other.

# %% facts=["U3"]
x = torch.ones(3, device=first, requires_grad=True)
y = torch.tensor([1.0, 2.0, 3.0], device=second)
loss = (x.to(second) * y).sum()

guess = devlab.predict("How many transfers does backward make?", 0, 1, 2, 3)

# %% facts=["U3"]
with devlab.watch() as log:
    loss.backward()

print("loss on", loss.device, "and x.grad on", x.grad.device)
guess.was_about(log.transfers)

# %% [markdown]
# `.to` is an operation like any other, and autograd knows its derivative: a transfer **back**. Each transfer
# that you write in forward is made once more in backward, in the other direction, where a gradient has to
# come back.
#
# **[Exercise](../exercises/09_several_devices.ipynb#task_add_across):** `add_across`, a sum with its
# gradients, in any three places.

# %% [markdown]
# ## The sum of many
#
# Each device has computed something of the same shape, gradients perhaps, and the sum of all is wanted. Four
# tensors stand on two devices. `torch.stack` refuses them as they are.

# %%
parts = [torch.full((2,), float(number), device=(first, second)[number % 2]) for number in range(4)]
print("they are on", *(part.device for part in parts))

try:
    torch.stack(parts).sum(0)
except RuntimeError as error:
    print(str(error).partition("(")[0])

# %% [markdown]
# So a loop adds one after the other, to a total that begins as part 0.

# %%
guess = devlab.predict("Part 0 is [0, 0] now. What is it after the loop?", [0.0, 0.0], [3.0, 3.0], [6.0, 6.0])

# %%
total = parts[0]
for part in parts[1:]:
    total += part.to(total.device)
print("the sum:", total.tolist())
guess.was(parts[0].tolist())

# %% [markdown] facts=["U2"]
# The sum is right, and `parts[0]` is ruined. `total = parts[0]` is a second name, and `+=` writes into the
# tensor. With `.to(device)` in front it would look safer and be the same: where nothing has to move, `.to`
# returns the tensor itself. So a tensor that you are going to write into must be a new one:

# %%
parts = [torch.full((2,), float(number), device=(first, second)[number % 2]) for number in range(4)]
total = parts[0].to(first, copy=True)
with devlab.watch() as log:
    for part in parts[1:]:
        total += part.to(first)
print(total.tolist(), "and part 0 is", parts[0].tolist())
print("transfers:", log.transfers)

# %% [markdown]
# Two of the four were elsewhere, and each was transferred once. This is the heart of training on several
# devices. Each computes gradients of its own part of a batch, and then **all of them need the mean**. The
# last section does it with real processes.
#
# **[Exercise](../exercises/09_several_devices.ipynb#task_mean_across):** `mean_across`, the mean of any
# number of tensors, in their own dtype, all of them left as they were.

# %% [markdown]
# ## A model in two places
#
# A model that does not fit on one device can live on two. The one below has two towers side by side, one on
# each device; both see the same input, and their results are added. Here is a first attempt.

# %% facts=["U1", "U2"]
left, right = nn.Linear(64, 10).to(first), nn.Linear(64, 10).to(second)


def towers(x):
    return left(x.to(first)) + right(x.to(second))


batch = torch.ones(8, 64)
try:
    print(towers(batch).device)
except RuntimeError as error:
    devlab.explain(error)

# %% [markdown]
# The input was moved to each tower, and the two results still meet from two devices. The modules move once,
# when the model is made. What **flows** between them must be moved at every call, wherever the next operation
# is on another device, and the lines for it belong in `forward`:


# %% facts=["U3"]
def towers(x):
    return left(x.to(first)).to(second) + right(x.to(second))


guess = devlab.predict("How many transfers does a call with a batch on the CPU make?", 1, 2, 3, 4)

# %% facts=["U3"]
with devlab.watch() as log:
    out = towers(batch)
print("the output is on", out.device)
for copy in log.events.transfers:  # one by one, with their places and bytes
    print(copy.source, "to", copy.target, copy.bytes, "bytes")
guess.was_about(log.transfers)

# %% [markdown]
# The usual form has two halves, one after the other: the input goes to the first half, and what comes out of
# it to the second.
#
# **[Exercise](../exercises/09_several_devices.ipynb#task_TwoStage):** `TwoStage`, two halves as one module
# that can be trained.
#
# Now the price. Are two devices twice as fast? Here are two wide layers, one on each device, and one large
# batch. `timeline()` draws what `watch` has seen.

# %%
wide = [nn.Linear(2048, 2048, bias=False).to(place) for place in (first, second)]


def through(pieces):
    """Run pieces of a batch through both layers; return the log."""
    for place in (first, second):
        torch.accelerator.synchronize(place)
    with torch.no_grad(), devlab.watch() as log:
        for x in pieces:
            wide[1](wide[0](x).to(second, non_blocking=True))
    return log


large = torch.ones(1024, 2048, device=first)
through([large])  # a warm-up
whole = through([large]).timeline()

# %% [markdown]
# One works while the other has nothing to do: two devices, and never more than one of them busy. (On the
# simulated devices the times are the simulator's model.) You gained room, and no speed. The usual remedy is
# to cut the batch into pieces, so that the first device can begin the next piece while the second works on
# this one.

# %%
guess = devlab.predict(
    "In four pieces, how long does it take?", "half the time", "about three quarters", "as long as before"
)

# %%
through(large.tensor_split(4))  # a warm-up
cut = through(large.tensor_split(4)).timeline(beside=whole)  # drawn to the same scale

how = "modelled" if first.type == "sim" else "measured"
share = cut.total / whole.total
print(f"in four pieces it takes {share:.0%} of the time ({how})")
guess.was("half the time" if share < 0.6 else "about three quarters" if share < 0.88 else "as long as before")

# %% [markdown]
# That is **pipelining**. With four pieces each device works four turns. Without overlap that is eight turns
# in all; with overlap it is five, and the transfers come on top, because a copy from one GPU to another takes
# its turn in the streams of both: while it is under way, neither computes. In the first turn the second
# device still has nothing to do, and in the last turn the first device has nothing left to do. The more
# pieces there are, the shorter these two turns are, until the pieces get so small that launches and transfers
# cost more than you save. Libraries do this for you (`torch.distributed.pipelining` is PyTorch's own). A
# model in two places is for models that do not fit. If yours fits on one device, there is a better use for
# two.

# %% [markdown]
# ## A batch in parts
#
# The better use: the same model on each device, and a part of the batch for each. So cut the batch. PyTorch
# has three functions that look as if they did it; here they cut ten rows for four devices, and one of them
# five rows.

# %% facts=["U2"]
rows = torch.arange(10)
print("chunk(4):       ", [len(part) for part in rows.chunk(4)])
print("split(10 // 4): ", [len(part) for part in rows.split(10 // 4)])
print("tensor_split(4):", [len(part) for part in rows.tensor_split(4)])

print("chunk(4), of 5: ", [len(part) for part in rows[:5].chunk(4)])

# %% [markdown]
# `chunk` makes parts of one size and a rest, and sometimes fewer parts than you asked for: then a device is
# left with nothing, and a loop over pairs of parts and devices ends early without a word. `split` fixes the
# length of a part, and the number of parts follows from it. `tensor_split` gives the number you asked for,
# with lengths that differ by one at most.
#
# A part of a batch has to be cut and moved. Does the order matter?

# %% facts=["U5"]
batch = torch.ones(10, 1000, device=first)

with devlab.watch() as log:
    part = batch.tensor_split(2)[1].to(second)
print("cut, then moved:", log.bytes_moved, "bytes")

with devlab.watch() as log:
    part = batch.to(second).tensor_split(2)[1]
print("moved, then cut:", log.bytes_moved, "bytes")

# %% [markdown]
# Both give the second device its five rows, and the second line transfers all ten. Cut first, then move.
#
# Afterwards the results stand on two devices, and the whole is wanted in one place. `torch.cat` joins only
# what is together, so move first, and join then:

# %% facts=["U5"]
results = [part.to(place).sum(1) for part, place in zip(batch.tensor_split(2), (first, second), strict=True)]
with devlab.watch() as log:
    joined = torch.cat([results[0], results[1].to(first)])
print(f"{len(joined)} results on {joined.device}: {log.transfers} transfer, {log.bytes_moved} bytes")

# %% [markdown] facts=["U5"]
# One transfer, because half of the results were there already, and few bytes, because each row has become one
# number.
#
# **[Exercise](../exercises/09_several_devices.ipynb#task_scatter):** `scatter` cuts a batch of any structure
# into parts.
#
# **[Exercise](../exercises/09_several_devices.ipynb#task_gather):** `gather` joins such parts again.
#
# Now a whole training step on two devices, by hand. Each device has a replica of the model and half of the
# batch, which begins on the first device. Then the gradients are averaged, and both replicas take the same
# step, or they would drift apart. The model has two parameter tensors, a weight and a bias.

# %% facts=["U5"]
torch.manual_seed(0)
model = nn.Linear(20, 5)
replicas = [nn.Linear(20, 5).to(place) for place in (first, second)]
for replica in replicas:
    replica.load_state_dict(model.state_dict())
inputs, labels = torch.randn(8, 20, device=first), torch.arange(8, device=first) % 5

with devlab.watch() as log:
    # Each device: its part of the batch, forward, backward.
    for replica, place, x, y in zip(
        replicas, (first, second), inputs.tensor_split(2), labels.tensor_split(2), strict=True
    ):
        F.cross_entropy(replica(x.to(place)), y.to(place)).backward()
    # The mean of the gradients, computed on the first device and sent back.
    for one, other in zip(*(replica.parameters() for replica in replicas), strict=True):
        one.grad.add_(other.grad.to(first)).div_(2)
        other.grad.copy_(one.grad)
    # The same step everywhere.
    for replica in replicas:
        torch.optim.SGD(replica.parameters(), lr=0.1).step()
print("transfers in one step:", log.transfers)

F.cross_entropy(model(inputs.cpu()), labels.cpu()).backward()
apart = (replicas[1].weight.grad.cpu() - model.weight.grad).abs().max().item()
print(f"furthest from the gradient in one place: {apart:.5f}")
apart = (replicas[0].weight.cpu() - replicas[1].weight.cpu()).abs().max().item()
print(f"furthest apart after the step, the two replicas: {apart:.5f}")

# %% [markdown] facts=["U5"]
# It is right, and takes six transfers: two for the batch, two gradients to the first device and two back.
# With a thousand parameter tensors it would be two thousand small transfers, one after the other, all by way
# of the first device. With eight devices there would be seven times as many. And one Python program has to
# feed them all.
#
# So: **do not scatter tensors by hand, unless you can say exactly what travels, when, and who waits for it.**
# (`nn.DataParallel` does roughly this in one line, and copies the whole model to every device in every step.
# PyTorch's documentation recommends DDP, the next section, in its place.)

# %% [markdown] facts=["U4"]
# ## Many processes
#
# Serious training on several GPUs uses `DistributedDataParallel`, **DDP**. It works differently: there are as
# many *processes* as devices, each a whole Python program that runs the same lines and works with one device.
# They find each other when they start, and form a *group*. Each has a number, its **rank**; the size of the
# group is the **world size**.
#
# | | by hand, one process | DDP |
# |---|---|---|
# | who feeds the devices | one Python program, one device after the other | a program for each |
# | the data | cut and sent from one place | each process loads its own rows |
# | the gradients | collected in one place, then sent back | averaged by an *all-reduce*, in which all take part at once |
# | when | after backward | **during** backward, as soon as some are ready |
#
# ![Two ranks with four rows each: both go forward and backward, an all-reduce adds up their gradients and divides by two, and both make the same step with the mean](drawing:all_reduce)
#
# You need no second GPU to see it. The messages between the processes are carried by a library, which PyTorch
# calls the *backend*: `nccl` between NVIDIA's GPUs, and `gloo` between processes on the CPU. In the picture
# the ranks take rows in turn. The program below, which is complete, gives each rank half of the rows in one
# piece: the left half of a curve to rank 0, the right half to rank 1. Both train a small network for 200
# steps, and neither sees the other half.

# %% facts=["U4"]
PROGRAM = """
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")  # the others' address, rank and world size are in the environment
rank, world_size = dist.get_rank(), dist.get_world_size()

x = torch.linspace(-2, 2, 64)[:, None]  # the whole data set, the same in each process
y = torch.sin(2 * x)
my_x, my_y = (rows.tensor_split(world_size)[rank] for rows in (x, y))  # and the rows for this process

torch.manual_seed(rank)  # on purpose not the same: DDP sends the parameters of rank 0 to all
network = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
model = DistributedDataParallel(network)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(200):
    optimizer.zero_grad()
    loss = F.mse_loss(model(my_x), my_y)
    loss.backward()
    optimizer.step()

with torch.no_grad():
    all_rows = F.mse_loss(network(x), y)
print(f"rank {rank} of {world_size}: loss on its own rows {loss.item():.3f}, on all rows {all_rows.item():.3f}")

dist.destroy_process_group()  # leave the group before the process ends
"""

guess = devlab.predict(
    "How does the loss on all rows compare with one process that trains on all of them?",
    "it is lower",
    "it is the same",
    "it is higher, because each rank saw one half",
)

# %% facts=["U4"]
said = devlab.launch(PROGRAM, 2)

# %% [markdown] facts=["U4", "U2"]
# `devlab.launch` starts the program once for each rank, as PyTorch's `torchrun` does. (The first start
# takes some seconds, in which PyTorch is imported.) The ranks had different rows and have different losses
# on them, and **the same model**: the loss on all rows agrees. No line of the program sends a gradient. DDP
# sent them, during each `backward`, and averaged them. It had also copied the parameters of rank 0 to all
# others when the model was wrapped, so the two seeds did no harm. Both models are equal before a step and
# equal after it, and in the step nothing but gradients is sent. (A model with buffers, such as a batch
# norm's running statistics, also gets those of rank 0 before each forward.)
#
# Is it the right model? Here is one process with all the rows:

# %% facts=["U4"]
x = torch.linspace(-2, 2, 64)[:, None]
y = torch.sin(2 * x)
torch.manual_seed(0)  # as in rank 0
network = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for _ in range(200):
    optimizer.zero_grad()
    F.mse_loss(network(x), y).backward()
    optimizer.step()

alone = F.mse_loss(network(x), y).item()
print(f"one process: loss on all rows {alone:.3f}")
difference = float(said[0].split()[-1]) - alone
verdict = "it is lower" if difference < 0 else "it is higher, because each rank saw one half"
guess.was("it is the same" if abs(difference) < 0.002 else verdict)

# %% [markdown]
# It is the same, because both processes have equally many rows, so that the mean of the two means is the mean
# of all.
#
# Three things go wrong again and again, and none of them gives an error at once:
#
# - **The model inside.** `model.module(x)` computes the same and tells DDP nothing. Each process keeps its
#   own gradients, and the replicas drift apart. Call the wrapped model.
# - **The same rows everywhere.** If the rows do not depend on the rank, all processes do the same work, and
#   the result looks fine. (For a loader, `DistributedSampler` chooses the rows of each rank; the next
#   section shows it.)
# - **Only rank 0 does something.** Whatever all have to take part in, such as a backward or a mean over all
#   ranks, must be reached by all. If one stays away, the others wait until the backend's timeout, which is 30
#   minutes for gloo and 10 for NCCL unless you set another; then they fail. The error appears in the ranks
#   that waited, and the mistake is in the one that did not come.
#
# **[Exercise](../exercises/09_several_devices.ipynb#task_ddp_gradients):** `ddp_gradients`, in two real
# processes that take rows in turn, as in the picture.

# %% [markdown]
# ## On real GPUs
#
# The program above changes in these lines:
#
# ```python
# import os
#
# local_rank = int(os.environ["LOCAL_RANK"])       # which GPU of this machine
# torch.accelerator.set_device_index(local_rank)   # from now on a bare "cuda" means that one
# device = torch.device("cuda", local_rank)
# dist.init_process_group("nccl")                  # NVIDIA's backend
# model = DistributedDataParallel(network.to(device), device_ids=[local_rank])
# inputs, labels = my_x.to(device), my_y.to(device)
# loss = F.mse_loss(model(inputs), labels)
# ```
#
# The data come from a loader whose *sampler* picks the rows of this rank:
#
# ```python
# sampler = torch.utils.data.DistributedSampler(train_set)  # the rows of this rank, shuffled
# loader = DataLoader(train_set, batch_size=100, sampler=sampler)
# for epoch in range(10):
#     sampler.set_epoch(epoch)                              # or the order is the same in every epoch
#     for inputs, labels in loader:
#         ...
# ```
#
# It gives every rank equally many rows, and repeats a few where they do not come out even.
#
# The labels are easily forgotten. With `device_ids` DDP moves what you give to `model(...)` to its device by
# itself, so the forward works with inputs from the CPU. The labels never pass through the model. They stay
# where they were, and the loss raises the error that you know. So move the model once, and each batch once,
# all of it.
#
# `torchrun` starts the processes, sets `RANK`, `LOCAL_RANK` and `WORLD_SIZE` in each, and ends all if one
# fails:
#
# ```
# torchrun --standalone --nproc-per-node=4 train.py
# ```
#
# With one GPU, `--nproc-per-node=1` makes a group of one rank, in which the program runs on NCCL as it would
# with more: a good test before you rent them. Programs that use gloo start just as well: save the text of
# `PROGRAM` as `train.py`, and it runs under `torchrun` on a machine without any GPU.
#
# **The batch has grown.** The batch size in the program is that of one rank, and the gradient is the mean
# over all ranks: with 4 GPUs and a batch of 100 on each, the *effective batch* is 400, and an epoch has a
# quarter of the steps. That is where the speed comes from, at best four times as many samples in a second.
# But fewer steps at the old learning rate learn less. A usual first try with SGD is to multiply the rate by
# the number of ranks, and to rise to it over the first epochs (lesson 11 has such a *warm-up*); then
# measure whether the model is still as good. Or give each rank a batch of 25: then the training is that of
# one GPU, as in the comparison above. (A batch norm, though, sees 25 rows. On GPUs
# `nn.SyncBatchNorm.convert_sync_batchnorm(network)`, before the model is wrapped, lets it see those of all
# ranks, and sends its statistics around in every forward.)
#
# **What it costs.** In each step every rank sends gradients and receives them. A model with 100 million
# parameters in float32 has 400 MB of them, and of two ranks each sends 400 MB. By the data sheets' peaks
# that takes 25 ms over PCIe 3.0, where a T4 is, and 1.3 ms over an A100's NVLink. DDP hides a part of it:
# it sends the gradients of the last layers while the backward is still at work on the first.
#
# **Rank 0 alone saves.** The replicas are equal, and four processes that write one file can ruin it.
# `model.module` is the model without its wrapper, so the file can be read without DDP, too. The others wait
# until the file is complete, if they are to read it:
#
# ```python
# if rank == 0:
#     torch.save(model.module.state_dict(), "trained.pt")
# dist.barrier()  # reached by all ranks
# ```
#
# After `set_device_index(local_rank)` a bare `"cuda"` is another GPU in each process, as lesson 02 warned,
# and a fixed `"cuda:0"` is the first GPU in all of them: it puts a tensor of every process there.
#
# DDP keeps the whole model, its gradients and the optimizer's state in each process. Where that does not fit,
# `torch.distributed.fsdp.fully_shard` (**FSDP**) keeps only a part of each parameter, gradient and state in
# each process, as `DTensor`s, and collects the parameters of a layer when it is that layer's turn.
# [Lesson 13](13_bigger_than_one_device.ipynb) goes on there.

# %% [markdown]
# ## What to keep
#
# - A tensor is on one device. Tensors of two accelerators never mix, not even a single number.
# - `.to` goes straight from device to device. A transfer in forward comes once more in backward, where a
#   gradient has to come back.
# - Compute where the data is, and move what is small.
# - A model in two places: modules move once, what flows moves at each call. It gives room; speed comes only
#   with pieces in a pipeline.
# - `tensor_split` for parts; cut first, then move. By hand only if you can say what travels and when.
# - In practice: one process for each device, `DistributedDataParallel`, other rows for each rank, the wrapped
#   model called, the labels moved. The batch grows with the ranks, the learning rate may have to follow, and
#   rank 0 alone saves.
#
# **Now do it:** [the exercises of this lesson](../exercises/09_several_devices.ipynb), six tasks. **Then:**
# [10 Debugging](10_debugging.ipynb), for when two devices meet and you did not mean them to.
