# %% [markdown]
# # 13 Bigger than one device
#
# A model with seven billion parameters takes 28 GB in float32. Training it with Adam takes four times that,
# 112 GB before the first activation, and an A100 has 40 or 80. To train all of it on such GPUs you divide it.
#
# After this lesson you can describe a model without having memory for it, load its weights straight onto its
# device, let processes exchange tensors, find out who is missing when they hang, divide a model and its
# optimizer among processes and save it, and keep a `DataLoader`'s workers away from the GPU.
#
# **Takes** about 25 minutes to read, and 75 for the tasks. **Needs** [09 Several
# devices](09_several_devices.ipynb) and [08 Memory](08_memory.ipynb).

# %%
import os
import tempfile

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import devlab

asked = os.environ.get("DEVLAB_DEVICE")
first, second = devlab.start_two()
device = torch.device("cuda", 0) if torch.cuda.is_available() and not asked else first  # where one will do

# %% [markdown]
# **What is real here.** `devlab.start_two()` gives you two GPUs where PyTorch finds two, and otherwise the
# two simulated devices. Where one device is enough, the cells use your GPU. Transfers and bytes are counted.
# The processes in the second half are real processes on the CPU, which really send tensors to each other.

# %% [markdown] facts=["Q1"]
# ## A tensor without data
#
# To place a model you have to know how large its layers are. PyTorch's answer is a device named `meta`. A
# tensor on it has a shape, a dtype and strides like any other, and **no data**. Inside `with
# torch.device("meta"):` everything that is created without a device of its own becomes such a tensor.

# %% facts=["Q1"]
with torch.device("meta"):
    layer = nn.Linear(100_000, 100_000)

print(layer.weight.shape, layer.weight.dtype, layer.weight.device)
print(f"{layer.weight.nbytes / 1e9:.0f} GB, if it had memory")

out = layer(torch.empty(8, 100_000, device="meta"))
print("and it can be run:", out.shape, "on", out.device)

# %% [markdown] facts=["Q1"]
# On the meta device operators work out shapes and dtypes and compute nothing. That is enough to plan with.

# %% [markdown] facts=["Q1", "Q9"]
# ### What a training computes
#
# A plan needs the time, too. PyTorch counts the operations of products, on the meta device as on any other. Here
# is that layer in a step of training, with eight tokens.

# %% facts=["Q1", "Q9"]
guess = devlab.predict(
    "How many operations does each weight take for a token, forward and backward?", 1, 2, 4, 6
)

# %% facts=["Q1", "Q9"]
tokens = torch.empty(8, 100_000, device="meta", requires_grad=True)
with FlopCounterMode(display=False) as counter:
    layer(tokens).sum().backward()

each = counter.get_total_flops() / (8 * layer.weight.numel())
print(f"{counter.get_total_flops():,} operations: {each:g} for each weight and token")
guess.was(round(each))

# %% [markdown] facts=["Q1", "Q9"]
# A multiplication and an addition forward, and the same again for each of two gradients, that of the input and
# that of the weight. So N weights and D tokens take **6 · N · D** operations (Kaplan et al., *Scaling laws for
# neural language models*, 2020). Norms and lookups are left out, and attention's own products.
#
# Seven billion weights and a trillion tokens make 4.2 · 10²² operations. The H200 of [lesson
# 12](12_less_memory_less_time.ipynb#Measured,-one-by-one) did {measured:spine_compiled:bfloat16, fused,
# compiled:model FLOP/s (6 N a token)} in training: 1,000 of them would need about thirty hours, if nothing were
# lost between them. The share of the peak that is reached, the **MFU**, tells how far a program is from the
# limit.
#
# **[Exercise](../exercises/13_bigger_than_one_device.ipynb#task_utilization):** `utilization`, the account of a
# model that need not exist yet.

# %% [markdown] facts=["Q1"]
# ### From meta to a device
#
# What a meta tensor cannot give you is a number, and so the usual way to a device may surprise you.

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
# `.to` copies data, and here there is none to copy. `to_empty` allocates memory for every parameter and
# buffer on the device and leaves in it whatever happens to be there. The values come from a `state_dict`
# afterwards.
#
# The next cell does this with a small model that has two things which large models have as well: a table that
# is not saved, and one weight under two names. `state` stands for a file on the disk.

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
# - **The table.** No `state_dict` contains it, so `load_state_dict` neither fills it nor misses it. A buffer
#   that is not saved has to be **made again**, here by `model.table.copy_(torch.arange(1.0, 301).cos())`.
#   Large projects give their modules a method for this, often called `init_weights`.
# - **The tie.** `to_empty` makes a new parameter for each name. Both are filled with the same values, so the
#   outputs are right, until a training step changes the two in different ways. Tie them again:
#   `model.outer.weight = model.inner.weight`.
#
# There is another way, without `to_empty`. With `assign=True` the tensors of the `state_dict` take the places
# of the parameters. They may come from a file that is **mapped**: `torch.load(..., mmap=True)` reads of it
# only what is used, when it is used.

# %% facts=["Q2"]
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "trained.pt")
    torch.save(state, path)
    mapped = torch.load(path, mmap=True, map_location="cpu", weights_only=True)
    with torch.device("meta"):
        model = Net()
    with devlab.watch() as log:
        model.load_state_dict({name: tensor.to(device) for name, tensor in mapped.items()}, assign=True)
    del mapped  # some systems delete no file that is mapped

for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
    print(f"{name:<13} {tensor.device}")
print(f"from the file to the device: {log.bytes_moved:,} bytes")

with devlab.watch() as log:
    model = Net().to(device)
    model.load_state_dict(state)
print(f"built, moved, loaded:        {log.bytes_moved:,} bytes")

# %% [markdown] facts=["Q2"]
# Here you can at least see that the table is lost: it is still on the meta device, and the first forward
# raises an error. The tie is lost again.
#
# The usual way sends random numbers to the device in order to overwrite them. It also draws a random number
# for every parameter, and takes the CPU's memory twice. For the transformer of [lesson
# 07](07_asynchrony.ipynb#A-transformer,-bounded), a file of {measured:loading:file bytes}, H200, measured:
#
# | built on the CPU, loaded, moved | on meta, mapped, assigned |
# |---|---|
# | {measured:loading:made on the CPU, loaded, moved} | {measured:loading:made on meta, mapped, assigned} |
#
# **[Exercise](../exercises/13_bigger_than_one_device.ipynb#task_materialize):** `materialize` fills such a
# model without losing the table and the tie, and transfers each byte once.

# %% [markdown] facts=["Q3"]
# ## Layers by a budget
#
# Where one device is too small, consecutive layers go to the next one. The meta device tells how large each
# layer is before there is memory for any of them, and a budget for each device decides: layers go to the
# first device as long as they fit, the remaining ones to the next. The budget has to be smaller than the
# device's memory, because activations need room too, and in training gradients and the optimizer's state. A
# hook in front of each layer brings the layer's input to where its weight is:


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

# %% [markdown] facts=["Q3"]
# A gap that is filled with a late layer costs two transfers. And only one device works at a time, so you gain
# room and no speed; a pipeline (`torch.distributed.pipelining`) shortens the idle time and leaves a bubble,
# as in lesson 09. For inference Hugging Face's libraries place the layers of a model with hooks like the one
# above: `device_map="sequential"` fills one device after the other, `"auto"` divides the layers evenly among
# the GPUs.
#
# **[Exercise](../exercises/13_bigger_than_one_device.ipynb#task_Chain):** `Chain` runs layers without hooks,
# also those that have no weight to ask.

# %% [markdown] facts=["Q4"]
# ## Processes that talk
#
# In real programs there is one process for each device, as in lesson 09. You can call what DDP uses yourself.
# A **collective** is a function that all ranks of a group call, each with a tensor of its own:
#
# | collective | what each rank has afterwards |
# |---|---|
# | `dist.all_reduce(x)` | the sum of all ranks' x, **in place of its own** |
# | `dist.broadcast(x, src=0)` | what rank 0 had in x |
# | `dist.all_gather(parts, x)` | the x of every rank, in the list `parts` |
#
# The processes of this lesson talk through **gloo**; on NVIDIA's GPUs it is **NCCL**. A cell that begins
# with `%%launch 2` is a program by itself, which starts in two processes, as `torchrun` would do.

# %% facts=["Q4"] launch="2"
import torch
import torch.distributed as dist

dist.init_process_group("gloo")  # the others' address, rank and world size are in the environment
rank, world_size = dist.get_rank(), dist.get_world_size()

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

# %% [markdown] facts=["Q4"]
# `all_reduce` overwrites its input, so reduce a copy where you still need the input. One condition holds for
# all of them: **every rank calls the collective, and all ranks call their collectives in the same order.** A
# collective is not a letter, which waits until it is read. It is a meeting.
#
# **[Exercise](../exercises/13_bigger_than_one_device.ipynb#task_mean_of_all):** `mean_of_all` makes a mean of
# the sum, and leaves the input alone.

# %% [markdown] facts=["Q5"]
# ## Who is missing
#
# A program hangs when one rank does not call the collective that the others are waiting in. A line such as
# `if rank == 0:` in front of the collective is enough for that. In the next program rank 1 is busy elsewhere.

# %% facts=["Q5"]
guess = devlab.predict(
    "Only rank 0 calls all_reduce. What does it do?",
    "it goes on with its own tensor",
    "it waits, and then raises an error",
    "it waits forever",
)

# %% facts=["Q5"] launch="2 said"
import datetime
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

os.environ["TORCH_FR_BUFFER_SIZE"] = "100"  # turns the flight recorder on
dist.init_process_group("gloo")
rank = dist.get_rank()

done = __file__ + ".done"
x = torch.ones(2)
dist.all_reduce(x)  # both are here
both = dist.new_group(timeout=datetime.timedelta(seconds=1))  # the same two ranks, with a shorter timeout


def recorded():
    "What the flight recorder of this process has: the last collectives, in order."
    entries = json.loads(c10d._dump_fr_trace_json())["entries"]
    return [
        f"{entry['profiling_name']} {entry['input_sizes'][0]}" for entry in entries if entry["input_sizes"]
    ]


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
if hasattr(c10d, "_dump_fr_trace_json"):
    print(f"   flight recorder of rank {rank}:", recorded())

sys.stdout.flush()
os._exit(0)  # the group is broken: exit without destroying it

# %% facts=["Q5"]
print(*said, sep="")
raised = "RuntimeError" in said[0]
guess.was("it waits, and then raises an error" if raised else "it goes on with its own tensor")

# %% [markdown] facts=["Q5"]
# The rank that complains is **the one that came**, and the mistake is in a rank that says nothing. Without a
# timeout of your own gloo waits for 30 minutes and NCCL for 10. With gloo the call then raises an error. With
# NCCL the call returns at once and the GPU waits; when the time is up, a watchdog thread logs the collective
# and ends the process. These help you find out who is missing:
#
# - The **flight recorder**: each process keeps its last collectives, with their shapes and lines. Above, rank
#   0 has one that rank 1 lacks. With NCCL set `TORCH_FR_BUFFER_SIZE=2000`, in older versions
#   `TORCH_NCCL_TRACE_BUFFER_SIZE`, and `TORCH_NCCL_DUMP_ON_TIMEOUT=1`: each rank writes a file when the time
#   is up, and `python -m torch.distributed.flight_recorder.fr_trace` compares them.
# - `dist.monitored_barrier()`, for gloo alone, **names the rank** that does not answer.
# - A short timeout while you search: `init_process_group(..., timeout=...)`.
# - `TORCH_DISTRIBUTED_DEBUG=DETAIL` makes PyTorch check that all ranks call the same collective with the same
#   shapes.
#
# A frequent cause is **uneven data**: in the third step two ranks wait for two that have left their loop.
# `DistributedSampler` gives every rank equally many samples. Where that cannot be, put `with model.join():`
# around the loop: then a DDP model's finished ranks take part in the communication of the others until all
# are done.

# %% [markdown] facts=["Q6"]
# ## The optimizer in parts
#
# DDP keeps everything on every rank, also the optimizer's state, the largest part with Adam. So share it out.
# Each parameter gets an **owner**, the rank that keeps its state, updates it, and **broadcasts** the new
# values. Take the model from the top of this lesson on four ranks. With DDP each of them holds 112 GB or
# more.

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
# None of the three figures includes the activations, nor DDP's buckets, another 28 GB unless you pass
# `gradient_as_bucket_view=True`.
#
# ![What each of four ranks holds of a model with seven billion parameters in float32, trained with Adam: with DDP 112 GB, with the optimizer's state in parts 70 GB, with FSDP 28 GB](drawing:shares_of_a_model)
#
# The state in parts costs communication: once in each step, every rank receives the parameters that others
# own, here three quarters of 28 GB. The parts should be equal in *size* and not in number, and every rank
# must work out the same list of owners. PyTorch's `distributed.optim.ZeroRedundancyOptimizer` does this
# around an ordinary optimizer class. The idea is known as **ZeRO**; this is its first stage, and all three in
# parts is its third, **ZeRO-3**.
#
# **[Exercise](../exercises/13_bigger_than_one_device.ipynb#task_sharded_step):** `sharded_step` is a step of
# SGD with momentum whose momentum is shared out.

# %% [markdown] facts=["Q7"]
# ## What FSDP adds
#
# `fully_shard`, **FSDP**, is PyTorch's ZeRO-3. A layer cannot compute with a part of its weight, so FSDP
# gathers the weights of a block just before they are used (an `all_gather`) and frees them afterwards. As
# soon as backward has a block's gradients, each rank is left its own part of their mean (a *reduce-scatter*).
# While one block computes, the next is gathered:
#
# ![Two lanes over time. Sending: gather block 1, gather block 2, later gather block 1 again, scatter the gradients of block 2 and of block 1. Computing: forward of blocks 1 and 2, backward of blocks 2 and 1, each beside the sending for its neighbour](drawing:gathered_layer_by_layer)
#
# That is why each block is wrapped by itself: a model that is wrapped only as a whole is gathered as a whole.
# The next program builds on the meta device, wraps, makes room for its part alone, takes a step, and saves
# and loads a **distributed checkpoint**, in which each rank writes and reads its own part. Its first layer
# has a weight with 16 rows and 8 columns.

# %% facts=["Q7"]
guess = devlab.predict(
    "What does each of the two ranks keep of that weight and its momentum, between two steps?",
    "16 rows of both",
    "16 rows of the weight, 8 of its momentum",
    "8 rows of both",
)

# %% facts=["Q7"] launch="2 said"
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world_size,))  # the processes, in one row


def new_training():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    for block in (model[0], model[2], model):  # each block by itself, then what is left
        fully_shard(block, mesh=mesh)
    model.to_empty(device="cpu")
    torch.manual_seed(0)
    for block in (model[0], model[2]):
        block.reset_parameters()
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


model, optimizer = new_training()
model(torch.ones(2, 8)).sum().backward()
norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()

weight = model[0].weight
print(f"rank {rank}: a {type(weight).__name__} of shape {tuple(weight.shape)}, of which it holds")
print("   values   ", tuple(weight.to_local().shape))
print("   gradient ", tuple(weight.grad.to_local().shape))
print("   momentum ", tuple(optimizer.state[weight]["momentum_buffer"].to_local().shape))
print(f"   the norm of all gradients is {norm.full_tensor().item():.3f}")

folder = __file__ + ".saved"
states = get_state_dict(model, optimizer)
dcp.save(dict(zip(("model", "optimizer"), states, strict=True)), checkpoint_id=folder)

model, optimizer = new_training()
held = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
dcp.load(held, checkpoint_id=folder)  # fills the tensors in place
set_state_dict(model, optimizer, model_state_dict=held["model"], optim_state_dict=held["optimizer"])
print("   loaded as saved:", torch.equal(model[0].weight.to_local(), weight.to_local()))

# Another way to divide: half of the outputs of one layer, and half of the inputs of the next.
layers = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
x = torch.randn(3, 8)
whole = layers(x)
parallelize_module(layers, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
held = tuple(layers[0].weight.to_local().shape)
print("   within a layer: holds", held, "- the same result:", torch.allclose(layers(x), whole, atol=1e-6))
dist.destroy_process_group()

# %% facts=["Q7"]
print(*said, sep="")
halves = said[0].partition("within")[0].count("(8, 8)")  # of values, gradient and momentum
guess.was({3: "8 rows of both", 0: "16 rows of both"}.get(halves, "16 rows of the weight, 8 of its momentum"))

# %% [markdown] facts=["Q7"]
# The parameter is a `DTensor`, one tensor in many processes that knows its whole shape. The optimizer is an
# ordinary one and works on the parts. The norm of the gradients is a DTensor too, and `full_tensor()` asks
# all ranks.
#
# The price is communication. In each step DDP sends 2(N − 1)/N times the model's bytes, and FSDP 3(N − 1)/N:
# two gathers and a reduce-scatter. `reshard_after_forward=False` keeps the weights between forward and
# backward, which saves one gather and not the memory. What is sent hides behind computing as long as each
# rank has enough tokens. So use DDP while the model fits, and FSDP when it does not, or when the memory that
# it frees pays for a larger batch. Over many machines a mesh of two rows, *HSDP*, divides the model inside
# each and copies it between them.
#
# `mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16)` gathers and computes in 16 bits and keeps
# float32 in the parts; `offload_policy=CPUOffloadPolicy()` keeps the parts on the CPU. And where one layer's
# weight is too large, **tensor parallelism** divides the product itself, as the last lines of the program do.

# %% [markdown] facts=["Q7"]
# Tensor parallelism sends activations in every layer, here one all-reduce after the second product, so it
# stays inside one machine. A mesh with two dimensions puts FSDP around it, and PyTorch's TorchTitan is a
# whole program that does. For the transformer of this course, with 124 million parameters, none of it is
# needed: all that training holds without activations, 2 GB, fits seventy times into the H200 on which
# {measured:spine_compiled:bfloat16, fused, compiled:tokens/s} tokens a second were measured.

# %% [markdown] facts=["Q8"]
# ## Workers and CUDA
#
# One more kind of process takes part in a training: the workers of a `DataLoader`. Where Python starts them
# by `fork`, which was its default on Linux before 3.14, each worker is a copy of the running process, and
# what the process has set up for CUDA does not work in a copy. The first thing that a worker does with the
# GPU raises, in the words of PyTorch 2.13,
#
# ```
# RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method
# ```
#
# There are two ways out.
#
# - **Leave the workers on the CPU**, which is nearly always right: the loop moves each batch. Look for a
#   `.cuda()` or a `device=` in `__getitem__`, in a transform or in `collate_fn`.
# - **Spawn them**: `DataLoader(..., multiprocessing_context="spawn")` starts new processes. They take longer
#   to start, and each one that uses the GPU takes some of its memory for itself. The same goes for processes
#   that you start yourself.
#
# **How many workers?** Enough that the loop never waits for a batch, and no more. Begin with two, time an
# epoch, and double them until the time no longer falls. Where the workers compute, more of them than CPU
# cores only take turns; where they wait for a disk, more may still help.

# %% [markdown]
# ## What to keep
#
# - A meta tensor has a shape and a dtype and no data: build there, plan with it, and never `.to` it.
# - Use `to_empty`, then `load_state_dict`, or `assign=True` from a mapped file. Make unsaved buffers again,
#   and tie what was tied.
# - All ranks of a group call the same collectives in the same order. In a hang the rank that complains is one
#   that came; the flight recorder shows which one lacks a call.
# - DDP while the model fits; FSDP, each block wrapped, where it does not, with a distributed checkpoint.
# - CUDA and `fork` do not go together. Leave workers on the CPU, or spawn them.
#
# **Now do it:** [the exercises of this lesson](../exercises/13_bigger_than_one_device.ipynb), five tasks.
# **And when you are stuck one day:** the page [Questions](../docs/questions.md) has what people ask most
# about devices, in their own words, with a link to the place in the course that answers it.
