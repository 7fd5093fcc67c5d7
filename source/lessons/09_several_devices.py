# %% [markdown]
# # 09 Several devices
#
# Two GPUs in one machine are two separate memories with a connection between them. PyTorch moves nothing over
# it unless you say so, and it does not complain when you say so too often.
#
# Work can be shared out in three ways: **by layers**, where each device has some of them; **within a layer**,
# where each has a part of its weight ([lesson 13](13_bigger_than_one_device.ipynb)); and **by data**, where
# each has the whole model and some of the rows. If the model fits on one device, take the third. This lesson
# does a little of it by hand, because that shows what moves, and then trains one model with two real
# processes, as programs do it.
#
# **Takes** about 20 minutes to read, and 60 for the tasks. **Needs** [04 Transfers](04_transfers.ipynb) and
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
# two simulated devices. Tensors, gradients and transfers of the simulated ones are real and counted; their
# *times* come from the simulator's model. The two processes at the end are real processes, whatever you have.

# %% [markdown] facts=["U1"]
# ## A tensor has one address
#
# A tensor is on **one device at a time**, and no operation fetches its inputs from another GPU; only a copy
# does. Both tensors below are on an accelerator.

# %% facts=["U1", "U2"]
x = torch.ones(1000, 1000, device=first)
y = torch.ones(1000, 1000, device=second)
try:
    x + y
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["U2", "U3"]
# For PyTorch two GPUs are even further apart than a GPU and the CPU: from the CPU a single number may come,
# and from another GPU nothing. So **work across devices needs movement that you write down**, straight from
# device to device. Compare it with a detour:

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
# Two GPUs may have **peer access**: one reads the other's memory without the host, over PCIe or over NVIDIA's
# NVLink. Where they have none, CUDA goes by way of the host's memory by itself.
# `torch.cuda.can_device_access_peer(0, 1)` tells which it is. Each sheet adds up both directions; here is one
# direction, beside the GPU's own memory:
#
# | connection (data sheets) | GB/s, one direction | the GPU's own memory, GB/s | GPU |
# |---|---|---|---|
# | PCIe 3.0, 16 lanes | 16 | 300 | T4 |
# | PCIe 4.0, 16 lanes | 32 | 2,039 | A100, 80 GB, SXM |
# | NVLink, third generation | 300 | 2,039 | A100, 80 GB, SXM |
# | NVLink, fourth generation | 450 | 3,350 | H100, SXM |
#
# Even NVLink is several times slower than the memory at either end, so compute where the data is, and move
# what is small: for the sum of `x * y` one of the two tensors travels, and one number goes home. And
# gradients? Below, x is on one device and the loss on the other.

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
# `.to` is an operation like any other, and its derivative is a transfer **back**. A copy in forward is
# repeated backwards if a gradient flows through it.
#
# **[Exercise](../exercises/09_several_devices.ipynb#task_add_across):** `add_across`, a sum with its
# gradients, in any three places.

# %% [markdown]
# ## The sum of many
#
# Each device has computed something of the same shape, gradients perhaps, and the sum of all is wanted.
# `torch.stack` refuses tensors from two devices, so a loop adds one after the other, to a total that begins
# as part 0.

# %%
guess = devlab.predict("Part 0 is [0, 0] now. What is it after the loop?", [0.0, 0.0], [3.0, 3.0], [6.0, 6.0])

# %%
parts = [torch.full((2,), float(number), device=(first, second)[number % 2]) for number in range(4)]
total = parts[0]
for part in parts[1:]:
    total += part.to(total.device)
print("the sum:", total.tolist())
guess.was(parts[0].tolist())

# %% [markdown] facts=["U2"]
# The sum is right, and `parts[0]` is ruined: `total = parts[0]` is a second name, and `+=` writes into the
# tensor. With `.to(device)` in front it would be the same, because where nothing has to move, `.to` returns
# the tensor itself. So begin with a new one, `parts[0].to(first, copy=True)`. Two of the four parts were
# elsewhere, and each is transferred once.
#
# This is the heart of training on several devices. Each computes gradients of its own part of a batch, and
# then **all of them need the mean**.
#
# **[Exercise](../exercises/09_several_devices.ipynb#task_mean_across):** `mean_across`, the mean of any
# number of tensors, in their own dtype, all of them left as they were.

# %% [markdown]
# ## A model in two places
#
# A model that does not fit on one device can live on two, as two halves. The modules move once, when the
# model is made. What **flows** between them must be moved at every call, wherever the next operation is on
# another device, and the lines for it belong in `forward`.
#
# **[Exercise](../exercises/09_several_devices.ipynb#task_TwoStage):** `TwoStage`, two halves as one module
# that can be trained.
#
# Now the price. Here are two wide layers, one on each device, and one large batch. `timeline()` draws what
# `watch` has seen.

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
# One works while the other has nothing to do: you gained room, and no speed. The usual remedy is to cut the
# batch into pieces, so that the first device can begin the next piece while the second works on this one.
# Without overlap four pieces take eight turns, four on each device.

# %%
guess = devlab.predict("With overlap, how many turns do four pieces take on two devices?", 4, 5, 6, 8)

# %%
through(large.tensor_split(4))  # a warm-up
cut = through(large.tensor_split(4)).timeline(beside=whole)  # drawn to the same scale

how = "modelled" if first.type == "sim" else "measured"
print(f"in four pieces it takes {cut.total / whole.total:.0%} of the time ({how}); 5 of 8 turns would be 62%")
guess.was(4 + 2 - 1)

# %% [markdown]
# That is **pipelining**. In the first turn the second device still has nothing to do, and in the last turn
# the first device has nothing left to do; that is the *bubble*. The transfers come on top, because a copy
# from one GPU to another takes its turn in the streams of both. More pieces make the bubble smaller, until
# launches and transfers cost more than you save. `torch.distributed.pipelining` does this for you. If your
# model fits on one device, there is a better use for two.

# %% [markdown]
# ## A batch in parts
#
# The better use: the same model on each device, and a part of the batch for each. `tensor_split(n)` makes n
# parts whose lengths differ by one at most. `chunk(n)` may make fewer than you asked for, and then a device
# is left with nothing. Does it matter whether a part is cut or moved first?

# %% facts=["U5"]
batch = torch.ones(10, 1000, device=first)

with devlab.watch() as log:
    part = batch.tensor_split(2)[1].to(second)
print("cut, then moved:", log.bytes_moved, "bytes")

with devlab.watch() as log:
    part = batch.to(second).tensor_split(2)[1]
print("moved, then cut:", log.bytes_moved, "bytes")

# %% [markdown] facts=["U5"]
# Both give the second device its five rows, and the second line transfers all ten. Cut first, then move.
# Afterwards the results stand on two devices, and `torch.cat` joins only what is together: move first, and
# join then.
#
# Now a whole training step on two devices, by hand. Each device has a replica of the model and half of the
# batch. Then the gradients are averaged, and both replicas take the same step, or they would drift apart. The
# model has two parameter tensors, a weight and a bias.

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
# of the first device, and one Python program has to feed them all.
#
# So: **do not scatter tensors by hand, unless you can say exactly what travels, when, and who waits for it.**
# `nn.DataParallel` does roughly this in one line; PyTorch's documentation recommends DDP, the next section,
# in its place.

# %% [markdown] facts=["U4"]
# ## Many processes
#
# Serious training on several GPUs uses `DistributedDataParallel`, **DDP**. There are as many *processes* as
# devices, each a whole Python program that runs the same lines and works with one device. They find each
# other when they start, and form a *group*. Each has a number, its **rank**; the size of the group is the
# **world size**. Each process loads its own rows. The gradients are averaged by an *all-reduce*, in which all
# take part at once, and that happens **during** backward.
#
# ![Two ranks with four rows each: both go forward and backward, an all-reduce adds up their gradients and divides by two, and both make the same step with the mean](drawing:all_reduce)
#
# You need no second GPU to see it. The messages between the processes are carried by a *backend*: `nccl`
# between NVIDIA's GPUs, `gloo` between processes on the CPU. The program below is complete. Rank 0 gets the
# left half of a curve, rank 1 the right half, and neither sees the other half. Both have equally many rows.

# %% facts=["U4"]
guess = devlab.predict(
    "How does the loss on all rows compare with one process that trains on all of them?",
    "it is lower",
    "it is the same",
    "it is higher, because each rank saw one half",
)

# %% facts=["U4"] launch="2 said"
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
for _ in range(200):
    optimizer.zero_grad()
    loss = F.mse_loss(model(my_x), my_y)
    loss.backward()
    optimizer.step()

with torch.no_grad():
    all_rows = F.mse_loss(network(x), y)
print(
    f"rank {rank} of {world_size}: loss on its own rows {loss.item():.3f}, on all rows {all_rows.item():.3f}"
)

dist.destroy_process_group()  # leave the group before the process ends

# %% facts=["U4"]
print(*said, sep="")

# %% [markdown] facts=["U4", "U2"]
# `%%launch 2` makes a program of its cell, which knows no name of the notebook, and starts it once for each
# rank, as PyTorch's `torchrun` does; `said` is the list of what each has printed. The ranks have different
# losses on their own rows, and **the same model**: the loss on all rows agrees. No line of the program sends a
# gradient. DDP sent them, during each `backward`. It had also copied the parameters and buffers of rank 0 to
# all others when the model was wrapped, so the two seeds did no harm.
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
# It is the same, because the mean of two means is the mean of all where both have equally many rows.
#
# Three things go wrong again and again, and none of them gives an error at once:
#
# - **The model inside.** `model.module(x)` computes the same and tells DDP nothing, and the replicas drift
#   apart. Call the wrapped model.
# - **The same rows everywhere.** If the rows do not depend on the rank, all processes do the same work, and
#   the result looks fine.
# - **Only rank 0 does something.** Whatever all have to take part in must be reached by all. If one stays
#   away, the others wait until the backend's timeout, which is 30 minutes for gloo and 10 for NCCL unless you
#   set another; then the ranks that waited fail, and the mistake is in the one that did not come.
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
# device = torch.device("cuda", local_rank)
# torch.accelerator.set_device_index(local_rank)   # from now on a bare "cuda" means that one
# dist.init_process_group("nccl", device_id=device)
# model = DistributedDataParallel(network.to(device), device_ids=[local_rank])
# sampler = torch.utils.data.DistributedSampler(train_set)  # the rows of this rank, shuffled
# loader = DataLoader(train_set, batch_size=100, sampler=sampler)
# for epoch in range(10):
#     sampler.set_epoch(epoch)                     # or the order is the same in every epoch
#     for inputs, labels in loader:
#         inputs, labels = inputs.to(device), labels.to(device)
#         loss = F.mse_loss(model(inputs), labels)
#         ...
# if rank == 0:
#     torch.save(model.module.state_dict(), "trained.pt")  # without DDP's wrapper
# dist.barrier()                                   # reached by all ranks
# dist.destroy_process_group()
# ```
#
# The sampler gives every rank equally many rows, and repeats a few where they do not come out even. The
# labels are easily forgotten: DDP moves what you give to `model(...)`, and the labels never pass through the
# model. Rank 0 alone saves, because several processes that write one file can ruin it. Start it with
#
# ```
# torchrun --standalone --nproc-per-node=4 train.py
# ```
#
# With one GPU, `--nproc-per-node=1` makes a group of one rank, in which the program runs on NCCL as it would
# with more: a good test before you rent them.
#
# **The batch has grown.** With 4 GPUs and a batch of 100 on each, the *effective batch* is 400, and an epoch
# has a quarter of the steps. Fewer steps at the old learning rate learn less: a usual first try with SGD is
# to multiply the rate by the number of ranks, and to rise to it over the first epochs. A batch norm sees the
# rows of its own rank, unless `nn.SyncBatchNorm.convert_sync_batchnorm(network)` makes it ask the others.

# %% [markdown] facts=["U4"]
# ### What it costs
#
# DDP does not wait for the end of backward. It fills **buckets** of 25 MiB with gradients, and sends one
# while backward computes those of the layers before:
#
# ![Two lanes over time. Computing: forward, then backward of blocks 3, 2 and 1, then the step. Sending: the bucket of each block goes out while backward computes the next; only the last bucket has nothing to hide behind](drawing:buckets_behind_backward)
#
# In an all-reduce over N ranks in a *ring* each rank sends 2(N − 1)/N times the bytes of the gradients. How
# long is that for the transformer of [lesson 07](07_asynchrony.ipynb#A-transformer,-bounded), with 124
# million parameters in float32, on two GPUs?

# %% facts=["U4"]
guess = devlab.predict("Over PCIe 3.0, at the data sheet's 16 GB/s: how many ms?", 3, 30, 300)

# %% facts=["U4"]
gradients = 124_475_904 * 4
for connection, rate in (("PCIe 3.0", 16), ("PCIe 4.0", 32), ("NVLink, 4th generation", 450)):  # in GB/s
    took = {ranks: 2 * (ranks - 1) / ranks * gradients / (1e9 * rate) for ranks in (2, 8)}
    print(
        f"{connection:<23} {1000 * took[2]:5.1f} ms with 2 ranks, {1000 * took[8]:5.1f} ms with 8, at the peak"
    )
    if connection == "PCIe 3.0":
        guess.was_about(1000 * took[2])

# %% [markdown] facts=["U4"]
# | the transformer on one H200, measured | a step |
# |---|---|
# | float32, attention written out | {measured:spine:float32, attention by hand:seconds a step} |
# | bfloat16, fused and compiled | {measured:spine_compiled:bfloat16, fused, compiled:seconds a step} |
#
# Backward is about two thirds of a step. So behind the slow step all of it hides, over any of these. Behind
# the fast one, PCIe 3.0 does not: with two ranks sending takes as long as the whole step of one GPU. And if
# its batch is split between them, so that each computes for half as long, two GPUs are slower than one. What
# helps is more work for each exchange: a larger batch on each rank, gradients in 16 bits, or several
# backwards for each step. For the last, forward and backward of every part but the last stand under `with
# model.no_sync():`, in which DDP sends nothing. The gradients add up, and the last backward sends the sum.
#
# **[Exercise](../exercises/09_several_devices.ipynb#task_accumulated_gradients):** `accumulated_gradients`, in
# two real processes with a single exchange.
#
# Two more options are asked for by error messages. `find_unused_parameters=True` is for a model of which a
# step uses a part only, and costs a walk through the graph; `static_graph=True` promises that it is the same
# part in each step. For ranks in two directions, such as data and layers, `torch.distributed.device_mesh`
# arranges them in a table. And where the model does not fit on one device, `fully_shard` keeps only a part of
# it on each: [lesson 13](13_bigger_than_one_device.ipynb).

# %% [markdown]
# ## What to keep
#
# - A tensor is on one device. Tensors of two accelerators never mix, not even a single number.
# - `.to` goes straight from device to device. A transfer in forward comes once more in backward, if a
#   gradient flows through it.
# - A model in two places gives room; speed comes only with pieces in a pipeline.
# - Cut first, then move. By hand only if you can say what travels and when.
# - In practice: one process for each device, `DistributedDataParallel`, other rows for each rank, the wrapped
#   model called, the labels moved, rank 0 alone saves. Count what an exchange takes, and give each rank
#   enough to do meanwhile.
#
# **Now do it:** [the exercises of this lesson](../exercises/09_several_devices.ipynb). **Then:** [10
# Debugging](10_debugging.ipynb), for when two devices meet and you did not mean them to.
