# %% [markdown]
# # 13 Bigger than one device
#
# A model with seven billion parameters takes 28 GB in float32. A training step with Adam takes four times that: as much
# again for the gradients, and twice as much for the optimizer's state. Such a model is never whole in one place, not
# even for a moment, and a program that works with it has to be written so from its first line.
#
# After this lesson you can describe a model without having memory for it, fill it only where it will live, place its
# layers on several devices by the room that they have, let processes exchange tensors, find out who is missing when
# they hang, and share out an optimizer's state.
#
# **Takes** about 45 minutes. **Needs** [09 Several devices](09_several_devices.ipynb) and
# [08 Memory](08_memory.ipynb).

# %%
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

os.environ["DEVLAB_DEVICE"] = "sim"  # this lesson needs two devices, so it runs on the simulated ones

import devlab

device = devlab.start()

# %% [markdown]
# **What is real here.** The devices are the two simulated ones, `sim:0` and `sim:1`, whatever else is in your machine.
# Transfers and bytes are counted, and no time is measured. The processes in the second half are real processes on the
# CPU, which really send tensors to each other.

# %%
first, second = torch.device(device.type, 0), torch.device(device.type, 1)
print(first, second)

# %% [markdown] facts=["Q1"]
# ## A tensor without data
#
# To place a model you have to know how large its layers are, and to know that you would have to build it, which takes
# the memory that you do not have. PyTorch's way out is a device named `meta`. A tensor on it has a shape, a dtype and
# strides like any other, and **no data**. Inside `with torch.device("meta"):` whatever is created without a device of
# its own becomes such a tensor.

# %% facts=["Q1"]
with torch.device("meta"):
    layer = nn.Linear(100_000, 100_000)

print(layer.weight.shape, layer.weight.dtype, layer.weight.device)
print(f"{layer.weight.nbytes / 1e9:.0f} GB, if it had memory")

out = layer(torch.empty(8, 100_000, device="meta"))
print("and it can be run:", out.shape, "on", out.device)

# %% [markdown] facts=["Q1"]
# The operators work out shapes and dtypes and compute nothing, so even the forward of a layer of 40 GB is done at once.
# Creating the layer took no time either: the random numbers of its initialization are left out with everything else.
# That is enough to plan with. Only a number cannot be had from such a tensor, because it has none. What will the usual
# way to a device do?

# %% facts=["Q1", "Q2"]
guess = devlab.predict(
    "What does `.to(device)` do with a meta tensor?",
    "it makes random numbers there",
    "it raises an error",
    "it does nothing",
)

# %% facts=["Q1", "Q2"]
with torch.device("meta"):
    layer = nn.Linear(300, 200)
try:
    layer.to(device)
    guess.was("it makes random numbers there")
except NotImplementedError as error:
    print(error)
    guess.was("it raises an error")

# %% [markdown] facts=["Q2"]
# ## From meta to a device
#
# `.to` copies data, and there is none to copy. The message names the method that helps, `to_empty`: it gives memory to
# every parameter and buffer on the device and leaves in it whatever was there before. The values come from a
# `state_dict` afterwards.
#
# Here is a small model with two things that large ones have as well: a table that is not saved, and one weight under
# two names. `state` stands for a file on the disk. What will be right afterwards, and what will not?


# %% facts=["Q2"]
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(1.0, 301).cos(), persistent=False)
        self.inner, self.outer = nn.Linear(300, 300), nn.Linear(300, 300)
        self.outer.weight = self.inner.weight  # tied: one parameter under two names

    def forward(self, x):
        return self.outer(self.inner(x + self.table).relu())


def values(state):
    return {name: tensor.clone() for name, tensor in state.items()}  # as from a file


torch.manual_seed(0)
trained = Net()
state = values(trained.state_dict())

with torch.device("meta"):
    model = Net()
model.to_empty(device=device)
model.load_state_dict(state)

print("weights as saved: ", torch.equal(model.inner.weight.cpu(), trained.inner.weight))
print("table as built:   ", torch.equal(model.table.cpu(), trained.table))
print("still tied:       ", model.outer.weight is model.inner.weight)

# %% [markdown] facts=["Q2"]
# Two things were lost without a word.
#
# - **The table.** No `state_dict` has it, so `load_state_dict` neither fills it nor misses it. On the meta device it
#   had no values that could have come along. A buffer that is not saved has to be **made again**. Large projects give
#   their modules a method that does this, and call it after `to_empty`.
# - **The tie.** `to_empty` makes a new parameter for each name. Both are filled with the same values here, so the
#   outputs are right, until a training step changes the two in different ways. Whoever ties parameters has to tie them
#   again.
#
# The other way leaves out `to_empty`. With `assign=True` the tensors of the `state_dict` take the places of the
# parameters, instead of being copied into them. Without `assign=True` a copy into a meta tensor does nothing, and
# PyTorch warns about it.

# %% facts=["Q2"]
with torch.device("meta"):
    model = Net()
model.load_state_dict({name: tensor.to(device) for name, tensor in state.items()}, assign=True)

for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
    print(f"{name:<13} {tensor.device}")

# %% [markdown] facts=["Q2"]
# Here the lost table can at least be seen: it is still on the meta device, and the first forward raises an error. The
# tie is lost again, because `state` has a tensor under each of the two names.
#
# What is gained by all this? Compare the bytes that go to the device with those of the usual way.

# %% facts=["Q2"]
with devlab.watch() as log:
    model = Net().to(device)
    model.load_state_dict(state)
print(f"built, moved, loaded: {log.bytes_moved:,} bytes")

with devlab.watch() as log:
    with torch.device("meta"):
        model = Net()
    model.to_empty(device=device)
    model.load_state_dict(state)
print(f"meta, empty, loaded:  {log.bytes_moved:,} bytes")

# %% [markdown] facts=["Q2"]
# The usual way sends random numbers to the device in order to overwrite them. (The tied weight moves with the model
# once and is loaded twice, which is why the first figure is less than twice the second.) It has also had the whole
# model in the memory of the CPU, beside the file's tensors, and has drawn a random number for each of its parameters.
#
# **[Exercise](../exercises/13_bigger_than_one_device.ipynb#task_materialize):** `materialize`.

# %% [markdown] facts=["Q3"]
# ## Layers by a budget
#
# Where one device is too small, consecutive layers go to the next one, as the halves of a model did in lesson 09. The
# meta device says how large each layer is, before there is memory for any of them:

# %% facts=["Q3"]
with torch.device("meta"):
    blocks = [nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512), nn.Linear(512, 512), nn.Linear(512, 10)]

sizes = [sum(parameter.nbytes for parameter in block.parameters()) for block in blocks]
for block, size in zip(blocks, sizes, strict=True):
    print(f"{size:>10,}  {block}")

# %% [markdown] facts=["Q3"]
# A budget for each device then decides: layers go to the first device while they fit, and on to the next one when they
# do not. The budget has to be smaller than the device's memory, because the activations need room as well, and in
# training also the gradients and the optimizer's state.
#
# Why in order? One could use each gap, and put a small late layer back on the first device. Take six layers on two
# devices, three and three, or in turn. How many transfers does one forward make?


# %% facts=["Q3"]
def run(layers, placement, x):
    for layer, place in zip(layers, placement, strict=True):
        x = layer(x.to(place))  # `.to` transfers nothing where x is there already
    return x


for words, placement in (
    ("three and three:", [first] * 3 + [second] * 3),
    ("in turn:        ", [first, second] * 3),
):
    layers = [nn.Linear(256, 256).to(place) for place in placement]
    x = torch.ones(64, 256, device=first)
    with devlab.watch() as log:
        run(layers, placement, x)
    print(words, f"transfers: {log.transfers}, bytes: {log.bytes_moved:,}")

# %% [markdown] facts=["Q3"]
# Each change of device is a transfer in forward and one more in backward. So layers stay together, and **the output of
# a layer crosses only where the device changes**. Only one device works at a time, as in lesson 09: this gives room,
# and no speed. Hugging Face's `device_map="auto"` places the layers of a model in this way, and uses the CPU and even
# the disk as the last devices of the list.
#
# **Exercises:** [`place_layers`](../exercises/13_bigger_than_one_device.ipynb#task_place_layers) and
# [`Chain`](../exercises/13_bigger_than_one_device.ipynb#task_Chain).

# %% [markdown] facts=["Q4"]
# ## Processes that talk
#
# In earnest there is one process for each device, as in lesson 09, where DDP sent the gradients without being asked.
# What it uses can be called directly. A **collective** is a function that all ranks of a group call, each with its own
# tensor:
#
# | collective | what each rank has afterwards |
# |---|---|
# | `dist.all_reduce(x)` | the sum of all ranks' x, **in place of its own** |
# | `dist.broadcast(x, src=0)` | what rank 0 had in x |
# | `dist.all_gather(parts, x)` | the x of every rank, in the list `parts` |
#
# A sum is the default of `all_reduce`; others can be asked for, such as the maximum. What will the two ranks print?

# %% facts=["Q4"]
BEGIN = """
import datetime, os, sys, time
import torch
import torch.distributed as dist

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", init_method=sys.argv[1], rank=rank, world_size=world_size)
"""

TALK = """
x = torch.tensor([1.0, 10.0]) * (rank + 1)
print(f"rank {rank} begins with {x.tolist()}")

total = x.clone()
dist.all_reduce(total)
print("   all_reduce ", total.tolist())

given = x.clone()
dist.broadcast(given, src=1)
print("   broadcast  ", given.tolist())

parts = [torch.empty(2) for _ in range(world_size)]
dist.all_gather(parts, x)
print("   all_gather ", [part.tolist() for part in parts])

dist.destroy_process_group()
"""


def run_processes(program, world_size=2):
    """Run a program as each rank of a group, and print what the ranks have said, in their order."""
    with tempfile.TemporaryDirectory() as folder:
        script, meeting = Path(folder) / "program.py", Path(folder) / "meeting"
        script.write_text(BEGIN + program)
        processes = [
            subprocess.Popen(
                [sys.executable, str(script), meeting.as_uri()],
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


run_processes(TALK)

# %% [markdown] facts=["Q4"]
# `all_reduce` overwrites its input, so a copy is reduced where the input is still needed. All three send tensors of one
# shape and one dtype. In an `all_reduce` every rank gives and every rank gets, which is why it suits gradients.
# `broadcast` is for what one rank knows, and `all_gather` for parts where every rank needs all of them.
#
# The condition is the same for all: **every rank calls it, and all ranks call their collectives in the same order.** A
# call is not a letter, which waits until it is read. It is a meeting.
#
# **[Exercise](../exercises/13_bigger_than_one_device.ipynb#task_mean_of_all):** `mean_of_all`.

# %% [markdown] facts=["Q5"]
# ## Who is missing
#
# What if a rank does not come? A line such as `if rank == 0:` in front of a collective is enough, or a loader that has
# one batch fewer on one rank. In the next program rank 1 is busy elsewhere. Rank 0 waits with a timeout of two seconds.

# %% facts=["Q5"]
guess = devlab.predict(
    "What does rank 0 do, which calls all_reduce alone?",
    "it goes on with its own tensor",
    "it waits, and then raises an error",
    "it waits for ever",
)

# %% facts=["Q5"]
HANG = """
done = os.path.join(os.path.dirname(__file__), "done")
x = torch.ones(2)
both = dist.new_group(timeout=datetime.timedelta(seconds=2))  # the same two ranks, with less patience

if rank == 0:
    try:
        dist.all_reduce(x, group=both)
        print("rank 0 went on with", x.tolist())
    except RuntimeError as error:
        print("rank 0: RuntimeError,", "timed out" if "Timed out" in str(error) else error)
    try:
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=1))
    except RuntimeError as error:
        print("rank 0:", str(error).splitlines()[0])
    open(done, "w").close()
else:
    while not os.path.exists(done):
        time.sleep(0.05)
    print("rank 1 was busy elsewhere, and has noticed nothing")

sys.stdout.flush()
os._exit(0)  # this group is beyond repair: end without taking leave
"""
run_processes(HANG)
guess.was("it waits, and then raises an error")

# %% [markdown] facts=["Q5"]
# A hang is a meeting that one rank does not attend. The rank that complains is **the one that came**; the mistake is in
# a rank that says nothing. Without a timeout of your own gloo waits for 30 minutes and NCCL for 10, in which a job
# looks as if it were working. Three things help to find out who is missing:
#
# - `dist.monitored_barrier()`, with gloo, has rank 0 call the others one by one, and **names the rank** that does not
#   answer. Put it in front of the collective that hangs.
# - A short timeout while you search: `init_process_group(..., timeout=...)`.
# - `TORCH_DISTRIBUTED_DEBUG=DETAIL` in the environment lets PyTorch check that all ranks call the same collective with
#   the same shapes.
#
# A frequent cause is **uneven data**. Ten batches for four ranks are three for two of them and two for the
# others; in the third step two ranks wait for two that have left their loop. `DistributedSampler` gives every rank
# equally many samples, and repeats some for that. Where the data cannot be evened out, `with model.join():` around the
# loop lets a DDP model's finished ranks take part in the others' communication until all are done.

# %% [markdown] facts=["Q6"]
# ## The optimizer in parts
#
# DDP keeps everything on every rank: the parameters, their gradients, and the optimizer's state, which is the largest
# part with Adam. All ranks compute the same update from the same gradients, and keep the same state for it. That is
# work and memory spent as many times as there are ranks.
#
# ![What each of four ranks holds of a model with seven billion parameters in float32, trained with Adam: with DDP 112 GB, with the optimizer's state in parts 70 GB, with FSDP 28 GB](drawing:shares_of_a_model)
#
# So share it out. Each parameter gets an **owner**, the rank that keeps its state, updates it, and **broadcasts** the
# new values. The others need no state for it. What does that save on each of four ranks, for seven billion parameters
# in float32 with Adam?

# %% facts=["Q6"]
GB = 1e9
parameters = 7_000_000_000 * 4 / GB
gradients, adam = parameters, 2 * parameters
for words, each in (
    ("everything on each rank:  ", parameters + gradients + adam),
    ("the state in four parts:  ", parameters + gradients + adam / 4),
    ("all three in four parts:  ", (parameters + gradients + adam) / 4),
):
    print(words, f"{each:.0f} GB a rank")

# %% [markdown] facts=["Q6"]
# The second line is paid for with communication: once a step, each rank receives the parameters that others own, instead
# of computing every update itself. The parts should be equal in *size* and not in number, because the fullest rank decides
# whether it fits. And every rank must come to the same list of owners, without a word between them: a rank that expects
# the wrong sender waits until its timeout.
#
# PyTorch's own is `ZeroRedundancyOptimizer`, in its module `distributed.optim`, which wraps an ordinary optimizer class.
# The idea is known as **ZeRO**, and its first stage is this one.
#
# **[Exercise](../exercises/13_bigger_than_one_device.ipynb#task_sharded_step):** `sharded_step`.

# %% [markdown] facts=["Q7"]
# ## What FSDP adds
#
# The third line of the table goes further. `fully_shard`, **FSDP**, keeps of each parameter, gradient and state only
# this rank's part. A layer cannot compute with a part of its weight, so FSDP gathers the whole weight of a layer (an
# `all_gather`) just before it is used, frees it afterwards, and after backward lets each rank keep its own part of the
# averaged gradients (a *reduce-scatter*). The next program does this with two processes on the CPU. What will each rank
# have of a weight with 16 rows?

# %% facts=["Q7"]
SHARD = """
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
mesh = init_device_mesh("cpu", (world_size,))
for layer in (model[0], model[2], model):  # each layer by itself, then what is left
    fully_shard(layer, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

model(torch.ones(2, 8)).sum().backward()
optimizer.step()

weight = model[0].weight
print(f"rank {rank}: a {type(weight).__name__} of shape {tuple(weight.shape)}, and here of it")
print("   values   ", tuple(weight.to_local().shape))
print("   gradient ", tuple(weight.grad.to_local().shape))
print("   momentum ", tuple(optimizer.state[weight]["momentum_buffer"].to_local().shape))
dist.destroy_process_group()
"""
run_processes(SHARD)

# %% [markdown] facts=["Q7"]
# Half of the rows, of everything. The parameter is a `DTensor`, one tensor in many processes, and knows its whole
# shape. The optimizer is an ordinary one: it works on the parts, so its state comes in parts by itself.
#
# The price is communication. DDP sends gradients once a step, FSDP also gathers the weights, once for forward and, by
# default, most of them once more for backward. So use DDP while the model fits, and FSDP when it does not. FSDP starts
# well from the meta device: build there, `fully_shard`, then `to_empty`, so that each rank only ever has memory for its
# part.

# %% [markdown] facts=["Q8"]
# ## Workers and CUDA
#
# One more kind of process stands beside a training: the workers of a `DataLoader`. Where Python starts them by `fork`,
# which was its way on Linux before 3.14, each worker is a copy of the running process, and CUDA does not survive to be
# copied. The first thing that a worker does with the GPU then raises
#
# ```
# RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method
# ```
#
# (The simulated device does not show this. The words are those of PyTorch 2.13.) There are two ways out.
#
# - **Leave the workers on the CPU**, which is nearly always right. A data set returns CPU tensors; the loop moves each
#   batch, from pinned memory and without blocking, as in lesson 04. Look for a `.cuda()` or a `device=` in
#   `__getitem__`, in a transform or in `collate_fn`.
# - **Spawn them**: `DataLoader(..., multiprocessing_context="spawn")` starts new processes, each with a Python of its
#   own. They take longer to start, and each that uses the GPU takes some of its memory for itself.
#
# The same goes for processes that you start yourself: `torch.multiprocessing.spawn` and `torchrun` begin with new ones.

# %% [markdown]
# ## What to keep
#
# - A meta tensor has a shape and a dtype and no data: build there, plan with it, and never `.to` it.
# - `to_empty`, then `load_state_dict`; or `load_state_dict(assign=True)`. Make unsaved buffers again, and tie what was
#   tied.
# - Consecutive layers fill one device after the other. What flows between them crosses where the device changes, and
#   nowhere else.
# - Collectives are meetings: every rank, the same order, the same shapes.
# - In a hang the rank that complains came, and another one did not. `monitored_barrier` names it.
# - An optimizer's state can live in parts: the owner updates and broadcasts. FSDP does so with everything.
# - CUDA and `fork` do not go together. Leave workers on the CPU, or spawn them.
#
# **Now do it:** [the exercises of this lesson](../exercises/13_bigger_than_one_device.ipynb), five tasks.
