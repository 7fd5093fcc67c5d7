# %% [markdown]
# # 13 Bigger than one device
#
# A model with seven billion parameters takes 28 GB in float32. Training it with Adam takes four times that:
# as much again for the gradients, and twice as much for the optimizer's state. That is 112 GB before the
# first activation, and an A100 has 40 or 80. To train all of it on such GPUs you divide it, and it pays to
# plan the program for that from the start.
#
# After this lesson you can describe a model without having memory for it, load its weights straight onto its
# device, place its layers on several devices by the room that they have, let processes exchange tensors, find
# out who is missing when they hang, share out the state of an optimizer, and keep a `DataLoader`'s workers
# away from the GPU.
#
# **Takes** about 45 minutes. **Needs** [09 Several devices](09_several_devices.ipynb) and
# [08 Memory](08_memory.ipynb).

# %%
import os

import torch
from torch import nn

import devlab

asked = os.environ.get("DEVLAB_DEVICE")
first, second = devlab.start_two()
device = torch.device("cuda", 0) if torch.cuda.is_available() and not asked else first  # where one will do

# %% [markdown]
# **What is real here.** `devlab.start_two()` gives you two GPUs where PyTorch finds two, and otherwise the
# two simulated devices, `sim:0` and `sim:1`. Where one device is enough, the cells use your GPU, if you have
# one. Transfers and bytes are counted, and no time is measured. The processes in the second half are real
# processes on the CPU, which really send tensors to each other.

# %% [markdown] facts=["Q1"]
# ## A tensor without data
#
# To place a model you have to know how large its layers are. To know that, it seems, you have to build it, and for that
# you have no memory. PyTorch's answer is a device named `meta`. A tensor on it has a shape, a dtype and
# strides like any other, and **no data**. Inside `with torch.device("meta"):` everything that is created
# without a device of its own becomes such a tensor.

# %% facts=["Q1"]
with torch.device("meta"):
    layer = nn.Linear(100_000, 100_000)

print(layer.weight.shape, layer.weight.dtype, layer.weight.device)
print(f"{layer.weight.nbytes / 1e9:.0f} GB, if it had memory")

out = layer(torch.empty(8, 100_000, device="meta"))
print("and it can be run:", out.shape, "on", out.device)

# %% [markdown] facts=["Q1"]
# On the meta device operators work out shapes and dtypes and compute nothing, so even the forward of a layer
# of 40 GB is done at once. That is enough to plan with. What such a tensor cannot give you is a number, for
# it has none, and so the usual way to a device may surprise you.

# %% facts=["Q1", "Q2"]
guess = devlab.predict(
    "What does .to(device) do with a meta tensor?",
    "it makes random numbers there",
    "it raises an error",
    "it does nothing",
)

# %% facts=["Q1", "Q2"]
with torch.device("meta"):
    layer = nn.Linear(300, 200)
try:
    layer.to(device)
    guess.was("it does nothing" if layer.weight.is_meta else "it makes random numbers there")
except NotImplementedError as error:
    print(error)
    guess.was("it raises an error")

# %% [markdown] facts=["Q2"]
# ## From meta to a device
#
# `.to` copies data, and here there is none to copy. The message names the method that helps, which is `to_empty`. It
# allocates memory for every parameter and buffer on the device and leaves in it whatever happens to be there. The
# values come from a `state_dict` afterwards.
#
# The next cell does this with a small model that has two things which large models have as well: a table that is not
# saved, and one weight under two names. `state` stands for a file on the disk.

# %% facts=["Q2"]
guess = devlab.predict(
    "After to_empty and load_state_dict, what of the model is lost?",
    "nothing",
    "the table",
    "the tie",
    "the table and the tie",
)


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
    return {name: tensor.clone() for name, tensor in state.items()}  # a tensor for each name


torch.manual_seed(0)
trained = Net()
state = values(trained.state_dict())

with torch.device("meta"):
    model = Net()
model.to_empty(device=device)
model.load_state_dict(state)

pairs = (
    ("inner.weight", model.inner.weight, trained.inner.weight),
    ("outer.weight", model.outer.weight, trained.outer.weight),
    ("table", model.table, trained.table),
)
for name, ours, theirs in pairs:
    right = (ours.cpu() == theirs).sum().item()
    print(f"{name:<12} {right:>6} of {ours.numel():>6} values as in the trained model")
parameters = len({model.inner.weight, model.outer.weight})
print(f"inner.weight and outer.weight: {parameters} parameters")

lost = ["the table"] * (right < 300) + ["the tie"] * (parameters > 1)
guess.was(lost)

# %% [markdown] facts=["Q2"]
# Two things were lost without any warning.
#
# - **The table.** No `state_dict` contains it, so `load_state_dict` neither fills it nor misses it, and on the meta device
#   it had no values that could have come along. A buffer that is not saved has to be **made again**, here by
#   `model.table.copy_(torch.arange(1.0, 301).cos())`. Large projects give their modules a method for this, often called
#   `init_weights`, and call it after `to_empty`.
# - **The tie.** `to_empty` makes a new parameter for each name. Here both are filled with the same values, so the outputs are
#   right, until a training step changes the two in different ways. Parameters that were tied have to be tied again:
#   `model.outer.weight = model.inner.weight`.
#
# There is another way, without `to_empty`. With `assign=True` the tensors of the `state_dict` take the places of the
# parameters instead of being copied into them. (Without `assign=True` a copy into a meta tensor does nothing, and PyTorch
# warns about it.)

# %% facts=["Q2"]
with torch.device("meta"):
    model = Net()
model.load_state_dict({name: tensor.to(device) for name, tensor in state.items()}, assign=True)

for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
    print(f"{name:<13} {tensor.device}")

# %% [markdown] facts=["Q2"]
# Here you can at least see that the table is lost: it is still on the meta device, and the first forward raises an
# error. The tie is lost again, because `assign=True` makes a parameter of its own for each of the two names.
#
# What is gained by all this? The next cell counts the bytes that go to the device, and those of the usual way.

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
# The usual way sends random numbers to the device in order to overwrite them. (The tied weight moves with the
# model once and is loaded twice, which is why the first figure is less than twice the second.) The usual way
# also draws a random number for every parameter, and takes the CPU's memory twice: for the model that is
# built, and for the tensors of the file. H200, measured, for a file of {measured:loading:file bytes}: {measured:loading:made on the CPU, loaded, moved} if the model is
# built on the CPU, loaded and moved, and {measured:loading:made on meta, mapped, assigned} if it is built on the meta device and the file goes
# straight to the GPU, by `torch.load(..., mmap=True, map_location=device)` and `assign=True`.
#
# **[Exercise](../exercises/13_bigger_than_one_device.ipynb#task_materialize):** `materialize` fills such a
# model without losing the table and the tie, and transfers each byte once.

# %% [markdown] facts=["Q3"]
# ## Layers by a budget
#
# Where one device is too small, consecutive layers go to the next one, as the halves of a model did in lesson 09. The
# meta device tells how large each layer is before there is memory for any of them:

# %% facts=["Q3"]
with torch.device("meta"):
    blocks = [nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512), nn.Linear(512, 512), nn.Linear(512, 10)]

sizes = [sum(parameter.nbytes for parameter in block.parameters()) for block in blocks]
for block, size in zip(blocks, sizes, strict=True):
    print(f"{size:>10,}  {block}")

# %% [markdown] facts=["Q3"]
# A budget for each device then decides: layers go to the first device as long as they fit, the remaining ones to the
# next device, and so on. The budget has to be smaller than the device's memory, because the activations need room too, and in training also the
# gradients and the optimizer's state.
#
# You could fill the gaps better by putting a small late layer back on the first device. An extreme case shows what that
# costs. Put six layers on two devices, either the first three on one and the rest on the other, or alternately. A hook in front
# of each layer brings the layer's input to where its weight is.

# %% facts=["Q3"]
guess = devlab.predict("How many transfers does one forward make, with the layers alternating?", 0, 1, 5, 6)


# %% facts=["Q3"]
def bring(layer, inputs):
    """Return a layer's input where the layer's weight is; `.to` transfers nothing that is there already."""
    return inputs[0].to(layer.weight.device)


for words, placement in (
    ("three and three:  ", [first] * 3 + [second] * 3),
    ("alternating:      ", [first, second] * 3),
):
    layers = nn.Sequential(*(nn.Linear(256, 256).to(place) for place in placement))
    for layer in layers:
        layer.register_forward_pre_hook(bring)
    x = torch.ones(64, 256, device=first)
    with devlab.watch() as log:
        layers(x)
    print(words, f"transfers: {log.transfers}, bytes: {log.bytes_moved:,}")
guess.was(log.transfers)

# %% [markdown] facts=["Q3"]
# Each change of device costs a transfer in forward and one more in backward. This is why layers stay
# together: **the output of a layer is transferred where the device changes, and nowhere else**. How much a
# transfer costs depends on what connects the devices (lesson 09).
#
# Only one device works at a time, as in lesson 09, so you gain room and no speed. (Two other ways to divide a
# model keep the devices busier: a pipeline has several small batches on the way at once, and tensor
# parallelism divides each product. They are `pipelining` and `tensor.parallel` in `torch.distributed`.) For
# inference Hugging Face's libraries place the layers of a model with hooks like the one above.
# `device_map="sequential"` fills one device after the other, `"auto"` divides the layers evenly among the
# GPUs, and both use the CPU and even the disk as the last devices of the list.
#
# **[Exercise](../exercises/13_bigger_than_one_device.ipynb#task_place_layers):** `place_layers` decides which
# layer goes where.
#
# **[Exercise](../exercises/13_bigger_than_one_device.ipynb#task_Chain):** `Chain` runs layers without hooks,
# also those that have no weight to ask.

# %% [markdown] facts=["Q4"]
# ## Processes that talk
#
# In real programs there is one process for each device, as in lesson 09, where DDP sent the gradients without being
# asked. You can call what DDP uses yourself. A **collective** is a function that all ranks of a group call, each with a tensor of its
# own:
#
# | collective | what each rank has afterwards |
# |---|---|
# | `dist.all_reduce(x)` | the sum of all ranks' x, **in place of its own** |
# | `dist.broadcast(x, src=0)` | what rank 0 had in x |
# | `dist.all_gather(parts, x)` | the x of every rank, in the list `parts` |
#
# `all_reduce` adds up unless you ask for something else, such as a maximum. The processes of this lesson talk through
# **gloo**, PyTorch's backend for the CPU; on NVIDIA's GPUs it is **NCCL**. `devlab.launch` starts the program below in two
# processes, as `torchrun` would do outside a notebook. Every program of this lesson begins with `BEGIN`. Rank 0 has the
# tensor [1, 10] here, and rank 1 has [2, 20].

# %% facts=["Q4"]
guess = devlab.predict(
    "After dist.broadcast(given, src=1), what does rank 0 have?",
    "[1.0, 10.0]",
    "[2.0, 20.0]",
    "[3.0, 30.0]",
    "both tensors",
)

# %% facts=["Q4"]
BEGIN = """
import datetime, os, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")  # the others' address, rank and world size are in the environment
rank, world_size = dist.get_rank(), dist.get_world_size()
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

said = devlab.launch(BEGIN + TALK, 2)
(line,) = (line for line in said[0].splitlines() if "broadcast" in line)
guess.was(line.split(maxsplit=1)[1])

# %% [markdown] facts=["Q4"]
# `all_reduce` overwrites its input, so reduce a copy where you still need the input. All three send tensors of one shape
# and one dtype. In an `all_reduce` every rank gives and every rank gets, which suits gradients. `broadcast` is for what one
# rank knows, and `all_gather` for parts of which every rank needs all.
#
# One condition holds for all of them: **every rank calls the collective, and all ranks call their collectives in the same
# order.** A collective is not a letter, which waits until it is read. It is a meeting.
#
# **[Exercise](../exercises/13_bigger_than_one_device.ipynb#task_mean_of_all):** `mean_of_all` makes a mean of the sum, and
# leaves the input alone.

# %% [markdown] facts=["Q5"]
# ## Who is missing
#
# A program hangs when one rank does not call the collective that the others are waiting in. A line such as
# `if rank == 0:` in front of the collective is enough for that, or a loader that has one batch fewer on one rank. In the
# next program rank 1 is busy elsewhere.

# %% facts=["Q5"]
guess = devlab.predict(
    "Only rank 0 calls all_reduce. What does it do?",
    "it goes on with its own tensor",
    "it waits, and then raises an error",
    "it waits forever",
)

# %% facts=["Q5"]
HANG = """
done = __file__ + ".done"
x = torch.ones(2)
both = dist.new_group(timeout=datetime.timedelta(seconds=1))  # the same two ranks, with a shorter timeout

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
os._exit(0)  # the group is broken: exit without destroying it
"""
said = devlab.launch(BEGIN + HANG, 2)
raised = "RuntimeError" in said[0]
guess.was("it waits, and then raises an error" if raised else "it goes on with its own tensor")

# %% [markdown] facts=["Q5"]
# The rank that complains is **the one that came**, and the mistake is in a rank that says nothing. The program had set a
# timeout of one second. Without one of your own gloo waits for 30 minutes and NCCL for 10 (PyTorch's defaults), and all
# that time the job looks as if it were working. With gloo the call then raises an error. With NCCL the call
# returns at once and the GPU waits; when the time is up, a watchdog thread logs the collective and ends the
# process. Three things help you find out who is missing:
#
# - `dist.monitored_barrier()`, with gloo, has the others report to rank 0 one by one, and **names the rank**
#   that does not answer. Put it in front of the collective that hangs.
# - A short timeout while you search: `init_process_group(..., timeout=...)`.
# - `TORCH_DISTRIBUTED_DEBUG=DETAIL` in the environment makes PyTorch check that all ranks call the same collective with
#   the same shapes.
#
# A frequent cause is **uneven data**. Of ten batches two ranks get three each and two other ranks get two each, and
# in the third step two ranks wait for two that have left their loop. `DistributedSampler` gives every rank
# equally many samples, repeating some to do so. Where the ranks cannot be given equally many batches, put
# `with model.join():` around the loop: then a DDP model's finished ranks take part in the communication of
# the others until all are done.

# %% [markdown] facts=["Q6"]
# ## The optimizer in parts
#
# DDP keeps everything on every rank: the parameters, their gradients, and the optimizer's state, which is the largest of
# them with Adam. All ranks compute the same update from the same gradients and keep the same state for it. With four ranks
# the same work is done four times, and the same state takes memory four times.
#
# So share it out. Each parameter gets an **owner**, the rank that keeps its state, updates it, and **broadcasts** the new
# values. The other ranks need no state for it. Take the model from the top of this lesson, with 28 GB of parameters and
# Adam, on four ranks. With DDP each of them holds 112 GB or more.

# %% facts=["Q6"]
guess = devlab.predict(
    "How much does each of the four hold with the state in four parts?", "98 GB", "70 GB", "28 GB"
)

# %% facts=["Q6"]
parameters = 7_000_000_000 * 4 / 1e9
gradients, adam = parameters, 2 * parameters
held = {
    "everything on each rank:": parameters + gradients + adam,
    "the state in four parts:": parameters + gradients + adam / 4,
    "all three in four parts:": (parameters + gradients + adam) / 4,
}
for words, each in held.items():
    print(words, f"{each:.0f} GB per rank")
guess.was(f"{held['the state in four parts:']:.0f} GB")

# %% [markdown] facts=["Q6"]
# None of the three figures includes the activations. The first two leave out the buckets from which DDP sends
# gradients, another 28 GB unless you pass `gradient_as_bucket_view=True`, and the last leaves out the layer
# that is gathered at the moment.
#
# ![What each of four ranks holds of a model with seven billion parameters in float32, trained with Adam: with DDP 112 GB, with the optimizer's state in parts 70 GB, with FSDP 28 GB](drawing:shares_of_a_model)
#
# The second line is paid for with communication: once in each step, every rank receives the parameters that others own,
# instead of computing every update itself. The parts should be equal in *size* and not in number, because the fullest rank
# decides whether the model fits. And every rank must work out the same list of owners, without exchanging anything: a
# rank that expects another sender waits until its timeout.
#
# PyTorch's `distributed.optim.ZeroRedundancyOptimizer` does this around an ordinary optimizer class. The idea is known as **ZeRO**, and this is its first stage.
#
# **[Exercise](../exercises/13_bigger_than_one_device.ipynb#task_sharded_step):** `sharded_step` is a step of SGD with
# momentum whose momentum is shared out.

# %% [markdown] facts=["Q7"]
# ## What FSDP adds
#
# “All three in four parts” goes further. `fully_shard`, **FSDP**, keeps only this rank's part of each parameter,
# gradient and state. A layer cannot compute with a part of its weight, so FSDP gathers the whole weight of a layer just
# before it is used (an `all_gather`) and frees it afterwards. As soon as backward has a layer's gradients, FSDP leaves each
# rank its own part of their average (a *reduce-scatter*). The next program does this with two processes on the CPU. Its first layer has a weight
# with 16 rows and 8 columns.

# %% facts=["Q7"]
guess = devlab.predict(
    "What does each of the two ranks keep of that weight and its momentum?",
    "16 rows of both",
    "16 rows of the weight, 8 of its momentum",
    "8 rows of both",
)

# %% facts=["Q7"]
SHARD = """
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
mesh = init_device_mesh("cpu", (world_size,))  # the processes, in one row
for layer in (model[0], model[2], model):  # each layer by itself, then what is left
    fully_shard(layer, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

model(torch.ones(2, 8)).sum().backward()
optimizer.step()

weight = model[0].weight
print(f"rank {rank}: a {type(weight).__name__} of shape {tuple(weight.shape)}, of which it holds")
print("   values   ", tuple(weight.to_local().shape))
print("   gradient ", tuple(weight.grad.to_local().shape))
print("   momentum ", tuple(optimizer.state[weight]["momentum_buffer"].to_local().shape))
dist.destroy_process_group()
"""
said = devlab.launch(BEGIN + SHARD, 2)
halves = said[0].count("(8, 8)")  # of values, gradient and momentum
guess.was({3: "8 rows of both", 0: "16 rows of both"}.get(halves, "16 rows of the weight, 8 of its momentum"))

# %% [markdown] facts=["Q7"]
# Each rank has half of the rows, of everything. The parameter is a `DTensor`, which is one tensor in many processes and
# knows its whole shape. The optimizer is an ordinary one. It works on the parts, so its state comes in parts by itself.
#
# The price is communication. DDP sends gradients once in each step. FSDP also gathers the weights, once for forward and,
# by default, most of them once more for backward. So use DDP while the model fits, and FSDP when it does not. FSDP goes
# well with the meta device: build there, call `fully_shard`, then `to_empty`, and each rank takes memory only
# for its part. Then load the values, of which each rank reads its own part (`torch.distributed.checkpoint`
# does this), and make the unsaved buffers again, as above.

# %% [markdown] facts=["Q8"]
# ## Workers and CUDA
#
# One more kind of process takes part in a training: the workers of a `DataLoader`. Where Python starts them
# by `fork`, which was its default on Linux before 3.14, each worker is a copy of the running process, and
# what the process has set up for CUDA does not work in a copy. If the program has used the GPU before, as it
# has once the model is there, the first thing that a worker does with it raises
#
# ```
# RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method
# ```
#
# (The words are those of PyTorch 2.13; the simulated device raises the same error, with its own name in
# it.) There are two ways out.
#
# - **Leave the workers on the CPU**, which is nearly always right. A data set returns CPU tensors, and the loop moves each
#   batch, from pinned memory and without blocking, as in lesson 04. Look for a `.cuda()` or a `device=` in
#   `__getitem__`, in a transform or in `collate_fn`.
# - **Spawn them**: `DataLoader(..., multiprocessing_context="spawn")` starts new processes, each with a Python of its own.
#   They take longer to start, and each one that uses the GPU takes some of its memory for itself.
#
# The same goes for processes that you start yourself: `torch.multiprocessing.spawn` and `torchrun` begin with new ones.
# On Linux and macOS `devlab.launch` forks its processes from a server that has imported PyTorch and never
# touched a device, which is safe as well.
#
# **How many workers?** Enough that the loop never waits for a batch, and no more. Begin with two, time an epoch, and double
# them until the time no longer falls. Where the workers compute, more of them than CPU cores only take turns,
# and PyTorch warns that the loader may become slow or freeze. Where they wait for a disk or a network, more
# may still help. Each takes memory of its own.

# %% [markdown]
# ## What to keep
#
# - A meta tensor has a shape and a dtype and no data: build there, plan with it, and never `.to` it.
# - Use `to_empty`, then `load_state_dict`, or `load_state_dict(assign=True)`. Make unsaved buffers again, and tie what was
#   tied.
# - Consecutive layers fill one device after the other, and a tensor is transferred only where the device changes.
# - All ranks of a group call the same collectives in the same order.
# - In a hang the rank that complains is one that came. `monitored_barrier` names the one that is missing.
# - An optimizer's state can live in parts: the owner updates and broadcasts. FSDP divides the parameters and
#   gradients as well.
# - CUDA and `fork` do not go together. Leave workers on the CPU, or spawn them.
#
# **Now do it:** [the exercises of this lesson](../exercises/13_bigger_than_one_device.ipynb), five tasks. **And when you are
# stuck one day:** the page [Questions](../docs/questions.md) has what people ask most about devices, in their own words,
# with a link to the place in the course that answers it.
