# %% [markdown]
# # 09 Several devices
#
# Two GPUs in one machine are two separate memories with a connection between them. PyTorch moves nothing over it unless
# you say so, and nobody tells you when you say it too often.
#
# After this lesson you can compute with tensors from several devices, put the halves of a model on two of
# them, cut a batch into parts, count what all of that costs, and start two real processes that train one
# model together, which is what people do in earnest.
#
# **Takes** about 45 minutes. **Needs** [04 Transfers](04_transfers.ipynb) and
# [05 Models and buffers](05_buffers.ipynb); [07 Asynchrony](07_asynchrony.ipynb) helps with one picture.

# %%
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

os.environ["DEVLAB_DEVICE"] = "sim"  # this lesson needs two devices, so it runs on the simulated ones

import devlab

device = devlab.start()

# %% [markdown]
# **What is real here.** Few people have two GPUs, so this lesson uses the two simulated ones, `sim:0` and `sim:1`,
# whatever else is in your machine. Their tensors, results, gradients and transfers are real and counted. The *times*
# in one picture come from the simulator's model, and the picture says so. The two processes at the end are real
# processes that really talk to each other.

# %%
count = torch.accelerator.device_count()
devices = [torch.device(device.type, index) for index in range(count)]
first, second = devices[0], devices[-1]
print(*devices)

# %% [markdown] facts=["U1"]
# ## A tensor has one address
#
# A tensor is on **one device at a time**. An ordinary tensor never lies across two GPUs, and apart from those that
# copy, no operator of PyTorch fetches its inputs from another GPU. (`torch.distributed` has a `DTensor`, which stands for one large
# tensor in many processes. What each process holds of it is again an ordinary tensor, on one device.) Both tensors
# below are "on the accelerator". Will their sum work?

# %% facts=["U1", "U2"]
x = torch.ones(1000, 1000, device=first)
y = torch.ones(1000, 1000, device=second)

try:
    print((x + y).device)
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["U2", "U3"]
# Two GPUs are as far apart for PyTorch as a GPU and the CPU. So **work across devices needs movement that you
# write down**, and the word for it is the one you know: `.to`, straight from device to device. Before you run the
# cell: how many transfers does each of the two lines make, and how many bytes travel?

# %% facts=["U3"]
with devlab.watch() as log:
    there = y.to(first)
print("y.to(first):      ", log.transfers, "transfer, ", f"{log.bytes_moved:,} bytes")

with devlab.watch() as log:
    there = y.cpu().to(first)
print("y.cpu().to(first):", log.transfers, "transfers,", f"{log.bytes_moved:,} bytes")

# %% [markdown]
# The way by the CPU moves twice as many bytes, and the host waits for it. On real machines the direct transfer can be
# faster still. Two GPUs may have *peer access*: one reads the other's memory without the host, over a connection of
# their own (NVIDIA's is called NVLink) or over PCIe. `torch.cuda.can_device_access_peer(0, 1)` tells whether they do.
# Where they have none, CUDA goes by way of the host's memory by itself, and your line stays the same. On your machine:

# %% tags=["nbval-ignore-output"]
if torch.cuda.device_count() > 1:
    print("peer access from cuda:0 to cuda:1:", torch.cuda.can_device_access_peer(0, 1))
else:
    print("there are no two GPUs here that PyTorch calls cuda")

# %% [markdown]
# Where to put a sum of two? Where the next step needs it. If both are elsewhere, there is a choice. Say for
# each line how many transfers it will make:

# %%
home = torch.device("cpu")  # the result is wanted here
for words, way in {
    "x.to(home) + y.to(home)": lambda: x.to(home) + y.to(home),
    "(x + y.to(x.device)).to(home)": lambda: (x + y.to(x.device)).to(home),
    "x.to(home) + y.cpu().to(home)": lambda: x.to(home) + y.cpu().to(home),
}.items():
    with devlab.watch() as log:
        way()
    print(f"{words:<31}{log.transfers} transfers")

# %% [markdown]
# Two each. (In the last line the second `.to` has nothing to do, and returns its tensor.) When two tensors meet in a
# third place, two transfers are needed, whichever way you write it. What you should not write is a third one.
#
# And gradients? x is on one device, the loss on the other. Before you run the cell: on which device will
# `x.grad` be, and how many transfers will `backward` make?

# %% facts=["U3"]
x = torch.ones(3, device=first, requires_grad=True)
y = torch.tensor([1.0, 2.0, 3.0], device=second)

loss = (x.to(second) * y).sum()
with devlab.watch() as log:
    loss.backward()

print("loss on", loss.device)
print("x.grad ", x.grad)
print("transfers in backward:", log.transfers)

# %% [markdown]
# `.to` is an operation like any other, and autograd knows its derivative: a transfer **back**. Each transfer that you
# write in forward is made once more in backward, in the other direction, where a gradient has to come back.
#
# **[Exercise](../exercises/09_several_devices.ipynb#task_add_across):** `add_across`.

# %% [markdown]
# ## The mean of many
#
# Each device has computed something of the same shape, gradients perhaps, and the mean of them is wanted. Four
# tensors on two devices. What will the first try say, and what is wrong with the second?

# %%
parts = [torch.full((2,), float(number), device=devices[number % count]) for number in range(4)]
print("they are on", *(part.device for part in parts))

try:
    torch.stack(parts).mean(0)
except RuntimeError as error:
    print(str(error).partition("(")[0])

total = parts[0]
for part in parts[1:]:
    total += part.to(total.device)
print("the mean:", (total / len(parts)).tolist())
print("part 0 was [0.0, 0.0], and is", parts[0].tolist())

# %% [markdown] facts=["U2"]
# The mean is right, and `parts[0]` is ruined. `total = parts[0]` is a second name, and `+=` writes into the tensor.
# With `.to(device)` in front it would look safer and be the same: where nothing has to move, `.to` returns the tensor
# itself. Bring all to one place, side by side, and let one operation do the rest:

# %%
parts = [torch.full((2,), float(number), device=devices[number % count]) for number in range(4)]
mean = torch.stack([part.to(first) for part in parts]).mean(0)
print(mean, "and part 0 is", parts[0].tolist())

# %% [markdown]
# This is the heart of training on several devices. Each computes gradients of its own part of a batch, and
# then **everyone needs the mean**. The last section does it with real processes.
#
# **[Exercise](../exercises/09_several_devices.ipynb#task_mean_across):** `mean_across`.

# %% [markdown]
# ## A model in two places
#
# A model that does not fit on one device can live on two: the first half here, the second half there, and a transfer
# between them at each call. Here is a first try. Which line fails, and in which module?

# %% facts=["U1", "U2"]
start, end = nn.Linear(64, 64).to(first), nn.Linear(64, 10).to(second)


def forward(x):
    middle = start(x.to(first))
    return end(middle)


batch = torch.ones(8, 64)
try:
    print(forward(batch).device)
except RuntimeError as error:
    devlab.explain(error)

# %% [markdown]
# The input was moved, the middle was not. A model in two places needs **two** moves at each call: the input to the
# first half, and the middle to the second. The modules themselves move once, when the model is made. What will
# `watch` say of one call?


# %% facts=["U3"]
def forward(x):
    middle = start(x.to(first))
    return end(middle.to(second))


with devlab.watch() as log:
    out = forward(batch)
print("the output is on", out.device)
for copy in log.events.transfers:
    print(copy.source, "to", copy.target, copy.bytes, "bytes")

# %% [markdown]
# Now the price. Two devices, so twice as fast? Here are two wide layers, one on each device, and one large batch. Before
# you look at the picture: how much of the time will each device work?

# %%
wide = [nn.Linear(2048, 2048, bias=False).to(place) for place in (first, second)]


@torch.no_grad()
def through(pieces):
    for x in pieces:
        wide[1](wide[0](x).to(second, non_blocking=True))


large = torch.ones(1024, 2048, device=first)
torch.accelerator.synchronize(first)
torch.accelerator.synchronize(second)

with devlab.watch() as log:
    through([large])
whole = log.timeline()

# %% [markdown]
# One works while the other waits for it: two devices, and never more than one of them busy. (Times are the
# simulator's model.) You gained room, and no speed. The usual remedy is to cut the batch into pieces, so that the
# first device can begin the next piece while the second works on this one. What will change?

# %%
torch.accelerator.synchronize(second)
with devlab.watch() as log:
    through(large.tensor_split(4))
cut = log.timeline(beside=whole)

print(f"in four pieces it takes {cut.total / whole.total:.0%} of the time (modelled)")

# %% [markdown]
# That is **pipelining**. At its beginning and its end one device still has nothing to do, so many small pieces
# are better than few large ones, until the pieces get so small that launches and transfers cost more than they
# save. Libraries do this for you (`torch.distributed.pipelining` is PyTorch's own). A model in two places is
# for models that do not fit. If yours fits on one device, there is a better use for two.
#
# **[Exercise](../exercises/09_several_devices.ipynb#task_TwoStage):** `TwoStage`.

# %% [markdown]
# ## A batch in parts
#
# The better use: the same model on each device, and a part of the batch for each. So cut the batch. Ten rows for
# four devices: what sizes do you expect from each of these three?

# %% facts=["U2"]
rows = torch.arange(10)
print("chunk(4):       ", [len(part) for part in rows.chunk(4)])
print("split(10 // 4): ", [len(part) for part in rows.split(10 // 4)])
print("tensor_split(4):", [len(part) for part in rows.tensor_split(4)])

print("chunk(4), of 5: ", [len(part) for part in rows[:5].chunk(4)])

# %% [markdown]
# `chunk` makes parts of one size and a rest, and sometimes fewer parts than you asked for: then a device is left
# with nothing, and a loop over pairs of parts and devices ends early without a word. `split` makes as many as
# come out. `tensor_split` gives the number you asked for, with lengths that differ by one at most.
#
# Cut first, then move. Both lines below give the second device its five rows. How many bytes travel in each?

# %% facts=["U5"]
batch = torch.ones(10, 1000, device=first)

with devlab.watch() as log:
    part = batch.tensor_split(2)[1].to(second)
print("cut, then moved:", log.bytes_moved, "bytes")

with devlab.watch() as log:
    part = batch.to(second).tensor_split(2)[1]
print("moved, then cut:", log.bytes_moved, "bytes")

# %% [markdown]
# Now a whole training step on two devices, by hand. Each device has a copy of the model and half of the
# batch. Afterwards the gradients are averaged, and both replicas take the same step, or they would drift
# apart. Count the transfers before you run it: the model has two parameters.

# %% facts=["U5"]
torch.manual_seed(0)
model = nn.Linear(20, 5)
replicas = [nn.Linear(20, 5).to(place) for place in (first, second)]
for replica in replicas:
    replica.load_state_dict(model.state_dict())
inputs, labels = torch.randn(8, 20, device=first), torch.arange(8, device=first) % 5

with devlab.watch() as log:
    for replica, place, x, y in zip(
        replicas, (first, second), inputs.tensor_split(2), labels.tensor_split(2), strict=True
    ):
        F.cross_entropy(replica(x.to(place)), y.to(place)).backward()
    for one, other in zip(*(replica.parameters() for replica in replicas), strict=True):
        mean = (one.grad + other.grad.to(first)) / 2
        one.grad.copy_(mean)
        other.grad.copy_(mean)
print(log.transfers, "transfers in one step")

F.cross_entropy(model(inputs.cpu()), labels.cpu()).backward()
print("as in one place:", torch.allclose(replicas[1].weight.grad.cpu(), model.weight.grad, atol=1e-6))

# %% [markdown] facts=["U5"]
# Right, and six transfers: two for the batch, two gradients one way, two the other. With a thousand
# parameters it would be two thousand small transfers, one after the other, all by way of the first device. With
# eight devices there would be seven times as many. And one Python program has to feed them all.
#
# So: **do not scatter tensors by hand, unless you can say exactly what travels, when, and who waits for it.** It
# is a good exercise and a bad habit. (`nn.DataParallel` does about this, with one line, and copies the whole
# model to every device in every step. PyTorch's documentation recommends DDP, the next section, in its place.)
#
# **Exercises:** [`scatter`](../exercises/09_several_devices.ipynb#task_scatter) and
# [`gather`](../exercises/09_several_devices.ipynb#task_gather).

# %% [markdown] facts=["U4"]
# ## Many processes
#
# Serious training on several GPUs uses `DistributedDataParallel`, **DDP**. Its idea is another one: as many
# *processes* as devices, each a whole Python program that runs the same lines and works with one device. They find each
# other when they start, and form a *group*. Each has a number, its **rank**; the size of the group is the
# **world size**.
#
# | | by hand, one process | DDP |
# |---|---|---|
# | who feeds the devices | one Python program, one after the other | a program for each |
# | the data | cut and sent from one place | each process loads its own rows |
# | the gradients | collected in one place, then sent back | averaged by an *all-reduce*, in which all take part at once |
# | when | after backward | **during** backward, as soon as some are ready |
#
# ![Two ranks with four rows each: both go forward and backward, an all-reduce adds up their gradients and divides by two, and both make the same step with the mean](drawing:all_reduce)
#
# No second GPU is needed to see it. DDP also works between processes on the CPU, by a backend called `gloo`. Here
# is a whole program. Each process prints what it has got. Before you run it: what will be the same in both
# processes, and what will differ?

# %% facts=["U4"]
PROGRAM = """
import os, sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", init_method=sys.argv[1], rank=rank, world_size=world_size)

x = torch.arange(8.0).reshape(8, 1)  # the whole data set, the same in each process
y = 3 * x + 1
rows = slice(rank, None, world_size)  # and the rows for this process

torch.manual_seed(rank)  # on purpose not the same: DDP sends the parameters of rank 0 to all
model = DistributedDataParallel(nn.Linear(1, 1))
loss = nn.functional.mse_loss(model(x[rows]), y[rows])
loss.backward()

print(f"rank {rank} of {world_size}: rows {x[rows].flatten().int().tolist()}")
print(f"   loss     {loss.item():.3f}")
print(f"   gradient {model.module.weight.grad.item():.3f}")

dist.destroy_process_group()  # leave the group before the process ends
"""


def run_processes(program, world_size):
    """Start a program in some processes, each with its own rank, and print what each has said."""
    with tempfile.TemporaryDirectory() as folder:
        script, meeting = Path(folder) / "train.py", Path(folder) / "meeting"
        script.write_text(program)
        command = [sys.executable, str(script), meeting.as_uri()]
        processes = [
            subprocess.Popen(
                command,
                env=os.environ | {"RANK": str(rank), "WORLD_SIZE": str(world_size)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(world_size)
        ]
        for process in processes:
            said, complained = process.communicate(timeout=180)
            print(said or complained, end="")


run_processes(PROGRAM, 2)

# %% [markdown] facts=["U4", "U2"]
# Different rows, different losses, and **the same gradient**, although no line of the program sends one. DDP did, during
# `backward`, and it averaged them. It had also copied the parameters of rank 0 to all others when the model was wrapped; so
# the two seeds did no harm. Both models are equal before a step and equal after it, and in the step nothing but
# gradients is sent. (A model with buffers, such as a batch norm's running statistics, also gets those of rank 0 before each
# forward.)
#
# Is it the right gradient? One process with all the rows should get the same:

# %% facts=["U4"]
x = torch.arange(8.0).reshape(8, 1)
torch.manual_seed(0)  # as in rank 0
model = nn.Linear(1, 1)
F.mse_loss(model(x), 3 * x + 1).backward()
print(f"one process, all rows: gradient {model.weight.grad.item():.3f}")

# %% [markdown]
# It does, because both processes have equally many rows, so that the mean of the two means is the mean of all.
#
# Three things go wrong again and again, and none of them gives an error at once:
#
# - **The model inside.** `model.module(x)` computes the same and tells DDP nothing. Each process keeps its own
#   gradients, and the replicas drift apart. Call the wrapped model.
# - **The same rows everywhere.** Without `rank::world_size` (or a `DistributedSampler` in the loader) all
#   processes do the same work, and the result looks fine.
# - **Only rank 0 does something.** Whatever all have to take part in, a step, a mean, a barrier, must be reached by all.
#   If one stays away, the others wait until the backend's timeout, which is 30 minutes for gloo and 10 for NCCL unless
#   you set another; then they fail.

# %% [markdown]
# ## On real GPUs
#
# The program above changes in these lines:
#
# ```python
# local_rank = int(os.environ["LOCAL_RANK"])       # which GPU of this machine
# torch.accelerator.set_device_index(local_rank)   # from now on a bare "cuda" means that one
# device = torch.device("cuda", local_rank)
# dist.init_process_group("nccl")                  # NVIDIA's backend; the addresses come from the environment
# model = DistributedDataParallel(nn.Linear(1, 1).to(device), device_ids=[local_rank])
# inputs, labels = x[rows].to(device), y[rows].to(device)
# loss = nn.functional.mse_loss(model(inputs), labels)
# ```
#
# The labels are easily forgotten here. With `device_ids` DDP moves what you give to `model(...)` to its device by itself, so
# the forward works with inputs from the CPU. The labels never pass through the model. They stay where they were, and the
# loss raises the error that you know. So move the model once, and each batch once, all of it.
#
# `torchrun` starts the processes, sets `RANK`, `LOCAL_RANK` and `WORLD_SIZE` in each, and ends all if one fails:
#
# ```
# torchrun --standalone --nproc-per-node=4 train.py
# ```
#
# It starts programs that use gloo just as well: with `dist.init_process_group("gloo")` and no more arguments the
# program above runs under it, on a machine without any GPU.
#
# That `set_device_index` is where lesson 02's warning comes true: in seven of eight processes a bare `"cuda"` is not
# `cuda:0`. A program that says `"cuda:0"` somewhere puts a tensor of every process on the first GPU.
#
# DDP keeps the whole model, its gradients and the optimizer's state in each process. Where that does not fit,
# `torch.distributed.fsdp.fully_shard` (**FSDP**) keeps only a part of each parameter, gradient and state in each process, as
# `DTensor`s, and collects the parameters of a layer when it is that layer's turn.

# %% [markdown]
# ## What to keep
#
# - A tensor is on one device. Two accelerators mix as little as an accelerator and the CPU.
# - `.to` goes straight from device to device. Each transfer in forward comes once more in backward.
# - A model in two places: modules move once, the input and the middle at each call. It gives room; speed comes
#   only with pieces in a pipeline.
# - `tensor_split` for parts; cut first, then move. By hand only if you can say what travels and when.
# - In earnest: one process a device, `DistributedDataParallel`, other rows for each rank, the wrapped model called,
#   the labels moved.
#
# **Now do it:** [the exercises of this lesson](../exercises/09_several_devices.ipynb), six tasks. **Then:**
# [10 Debugging](10_debugging.ipynb), when two devices meet and nobody meant them to.
