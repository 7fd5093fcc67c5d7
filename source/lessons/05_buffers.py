# %% [markdown]
# # 05 Models and buffers
#
# Moving a model takes one line, and the line works. Then the first batch arrives, and an error says that
# something is still on the CPU.
#
# After this lesson you can say what `model.to(device)` moves and what it leaves behind, put every tensor of a
# model in its right place, and make helper tensors in `forward` that fit any device and any dtype.
#
# **Takes** about 20 minutes to read, and 60 for the tasks. **Needs** [00 Start here](00_start_here.ipynb);
# you have written a small `nn.Module` before.

# %%
import tempfile
from pathlib import Path

import torch
from torch import nn

import devlab

device = devlab.start()

# %% [markdown]
# ## Where is the model
#
# Here is a fresh layer, and a batch that has been moved already:

# %% facts=["L1"]
layer = nn.Linear(3, 2)
batch = torch.ones(4, 3, device=device)

try:
    print(layer(batch).shape)
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["L1"]
# New tensors are made on the CPU, the layer's among them, and **the parameters must be where the inputs
# are**. Now a layer and a batch are moved with the same call:

# %% facts=["L2"]
batch = torch.ones(4, 3)

layer.to(device)
batch.to(device)

print("layer.weight", layer.weight.device)
print("batch       ", batch.device)

# %% [markdown] facts=["L2"]
# `tensor.to(device)` returned a new tensor, which the cell dropped. `module.to(device)` moves the module **in
# place**, and returns that same module. So always write `batch = batch.to(device)`.
#
# In place goes further than you may expect:

# %% facts=["L2"]
held = layer.weight
moved = layer.to("cpu")

print("the module is   ", "the same object" if moved is layer else "a new object")
print("the parameter is", "the same object" if held is layer.weight else "a new object", "on", held.device)

# %% [markdown] facts=["L2"]
# Even the parameter is the same object, and only the memory behind it is new. PyTorch does not promise that,
# and an optimizer's momentum would stay where it was. So move the model first, and make the optimizer after
# it.
#
# A module has no attribute `device`, because nothing forces its tensors to be in one place. So programs read
# the device **from a parameter**, mostly by `next(model.parameters()).device`. Two of these three models trip
# it up:

# %% facts=["L3"]
for name, model in (
    ("one place", nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1)).to(device)),
    ("split", nn.Sequential(nn.Linear(3, 3).to(device), nn.Linear(3, 1))),
    ("no weights", nn.ReLU()),
):
    try:
        print(f"{name:<11}", next(model.parameters()).device)
    except StopIteration:
        print(f"{name:<11}", "StopIteration: there is no first parameter")

# %% [markdown] facts=["L3"]
# The model without weights fails at once. The split model gets a confident wrong answer.
#
# **[Exercise](../exercises/05_buffers.ipynb#task_model_device):** `model_device` does better on both.

# %% [markdown]
# ## What stays behind
#
# This model predicts a price from three columns: the area of a house, its rooms, and its age in decades. It
# first standardizes them, with the mean and deviation of the data it was trained on.


# %% facts=["L5"]
class Price(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = torch.tensor([100.0, 4.0, 2.0])
        self.deviation = torch.tensor([30.0, 1.5, 1.0])
        self.linear = nn.Linear(3, 1)

    def forward(self, x):
        return self.linear((x - self.mean) / self.deviation)


houses = torch.tensor([[86.0, 3.0, 4.0], [120.0, 5.0, 0.0]])
model = Price()
print(model(houses).shape, model(houses).device)

# %% [markdown] facts=["L4"]
# A small tool lists the tensors of a module. There are three kinds: **parameters**, which training changes;
# **buffers**, which you will meet in a moment; and everything else, **plain attributes**.


# %%
def contents(module):
    """Print name, kind and device of each tensor in a module."""
    for name, tensor in module.named_parameters():
        print(f"{name:<15}parameter        {tensor.device}")
    for name, tensor in module.named_buffers():
        print(f"{name:<15}buffer           {tensor.device}")
    for name, value in vars(module).items():
        if isinstance(value, torch.Tensor):
            print(f"{name:<15}plain attribute  {value.device}")


guess = devlab.predict("Price holds four tensors. How many of them does model.to(device) move?")

# %% facts=["L4", "L5"]
model.to(device)
contents(model)

held = (model.linear.weight, model.linear.bias, model.mean, model.deviation)
guess.was(sum(tensor.device == device for tensor in held))

# %% [markdown] facts=["L4", "L5"]
# `.to` moves what is **registered**: the parameters of every layer, and the buffers. `mean` and `deviation`
# are plain attributes, which `.to` ignores, as it ignores a learning rate or a file name. The error comes
# with the first batch:

# %% facts=["B4", "L5"]
try:
    model(houses.to(device))
except RuntimeError as error:
    print(error)
    devlab.explain(error)

# %% [markdown] facts=["B4"]
# The change that it shows is in `__init__`, where the mistake was made, and not in the line that failed;
# `explain` has run the cells again with the change. The section *Register it* says what it does. On the CPU
# there is no error at all.
#
# A list hides its content just as well, and so does a dict. This deeper price model keeps its numbers in a
# dict and its layers in a list:


# %% facts=["L5"]
class DeepPrice(nn.Module):
    def __init__(self):
        super().__init__()
        self.data = {"mean": torch.tensor([100.0, 4.0, 2.0]), "deviation": torch.tensor([30.0, 1.5, 1.0])}
        self.layers = [nn.Linear(3, 3), nn.Linear(3, 3)]
        self.head = nn.Linear(3, 1)

    def forward(self, x):
        x = (x - self.data["mean"]) / self.data["deviation"]
        for layer in self.layers:
            x = layer(x).relu()
        return self.head(x)


deep = DeepPrice().to(device)
print("registered:", [name for name, _ in deep.named_parameters()])
print("head is on", deep.head.weight.device, "and layers[0] on", deep.layers[0].weight.device)

# %% [markdown] facts=["L5"]
# Of six parameters two are registered. That four did not move is the *smaller* harm: an optimizer that is
# given `deep.parameters()` never trains the two layers, and `state_dict()` does not save them. It needs a
# list that registers:

# %% facts=["L4", "L5"]
deep = DeepPrice()
deep.layers = nn.ModuleList(deep.layers)
deep.to(device)

print("layers[0] is on   ", deep.layers[0].weight.device)
print("data['mean'] is on", deep.data["mean"].device)

# %% [markdown] facts=["L5"]
# `nn.ModuleList` and `nn.ModuleDict` register modules, `nn.ParameterList` and `nn.ParameterDict` parameters.
# `mean` and `deviation` have to become buffers.
#
# ![.to(device) brings a module's parameter and buffer to the device, and leaves its plain attribute on the CPU](drawing:registered_or_loose)

# %% [markdown] facts=["L1", "L5"]
# ### Look and touch
#
# Here are five modules, and six lines that are meant to bring them to a device. **Click the tensors that you
# expect to move**, and only then run the line. Three of the six lines move no tensor of any module. Which?

# %% facts=["L1", "L5"]
devlab.explore.mover()

# %% [markdown] facts=["L1", "L5"]
# Ask of each line whether it names a device, whether its result is kept, and whether it replaces tensors or
# only the values in them.
#
# **[Exercise](../exercises/05_buffers.ipynb#task_left_behind):** `left_behind` finds what `.to` will miss,
# however deep it is hidden.

# %% [markdown]
# ## Register it
#
# A **buffer** is a tensor that belongs to the module and is not trained. There are two ways to register one,
# and here is the price model with one of each:


# %% facts=["B2", "B3"]
class RegisteredPrice(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([100.0, 4.0, 2.0]))
        self.deviation = nn.Buffer(torch.tensor([30.0, 1.5, 1.0]))  # newer, and the same
        self.linear = nn.Linear(3, 1)

    def forward(self, x):
        return self.linear((x - self.mean) / self.deviation)


model = RegisteredPrice()
held = model.mean
model.to(device)

contents(model)
print("the result is on", model(houses.to(device)).device)
print("held is on      ", held.device)

# %% [markdown] facts=["B1", "B2", "B3"]
# `forward` did not change, and each buffer **moves with the model**, and as a part of any larger model. But a
# moved buffer is a *new* tensor under the old name, and `held` is still the old one. So never keep a buffer
# under a second name, in a list or in a cache: write `self.mean` where you use it.
#
# A buffer is for every tensor that the module needs and the optimizer must not touch:
#
# | kind of buffer | for example | what changes it |
# |---|---|---|
# | a **mask** | which words of a sentence a model may look at | nothing |
# | a **fixed encoding** | positions in a sequence | nothing |
# | a **table** | mean and deviation of the data | nothing, or you, once |
# | a **running statistic** | the mean and variance in `nn.BatchNorm1d` | the module itself, in training |
#
# A parameter with `requires_grad=False` would move, too, until fine-tuning unfreezes all parameters and
# trains the mean of your data.
#
# **[Exercise](../exercises/05_buffers.ipynb#task_CausalMask):** `CausalMask` keeps a mask for sequences of
# any length.

# %% [markdown]
# ## A buffer that changes
#
# This price model remembers the largest value that it has seen in each column, so that it can warn of a house
# unlike all others, and the mean of the latest batch for a plot.


# %% facts=["B1", "B3"]
class WatchfulPrice(RegisteredPrice):
    def __init__(self):
        super().__init__()
        self.register_buffer("largest", torch.zeros(3))
        self.register_buffer("latest", torch.zeros(3))

    def forward(self, x):
        self.largest.copy_(torch.maximum(self.largest, x.amax(0)))
        self.latest = x.mean(0).cpu()
        return super().forward(x)


guess = devlab.predict(
    "After a forward on the device, which of the two buffers are on the device?",
    "largest",
    "latest",
    "both",
    "neither",
)

# %% facts=["B1", "B3"]
model = WatchfulPrice().to(device)
model(houses.to(device))
print("largest", model.largest)
print("latest ", model.latest)

there = [name for name in ("largest", "latest") if getattr(model, name).device == device]
guess.was(there)

# %% [markdown] facts=["B3"]
# `copy_` wrote into the tensor that was there. The assignment put a **new** tensor under the name: still a
# registered buffer, and in the wrong place until the next `.to`. So update buffers **in place**: `self.count
# += 1`, `add_`, `copy_`, `self.table[i] = ...`. Do not write to `self.table.data`, which hides the change
# from autograd.
#
# And keep the update out of the graph of the gradients. Here the inputs ask for a gradient, as the output of
# any layer does:

# %% facts=["B1"]
for gradients in (True, False):
    model = WatchfulPrice()
    with torch.set_grad_enabled(gradients):
        model(houses.clone().requires_grad_())
    step = model.largest.grad_fn
    print("with a graph:" if gradients else "with no_grad:", "largest.grad_fn is", step and step.name())

# %% [markdown] facts=["B1"]
# `largest` has become a part of the graph, so every batch since the start of training stays in memory. So
# write a statistic like this: `if self.training:`, then `with torch.no_grad():`, then the update in place.
# `self.training` is what `model.train()` and `model.eval()` switch.
#
# **[Exercise](../exercises/05_buffers.ipynb#task_RunningMean):** `RunningMean` keeps the exact mean of all
# rows, whatever the size of the batches.

# %% [markdown]
# ## Saved or not saved
#
# A model is saved as its `state_dict`, a dictionary from names to tensors:

# %% facts=["B5"]
print("registered:", list(RegisteredPrice().state_dict()))
print("plain:     ", list(Price().state_dict()))

# %% [markdown] facts=["B5"]
# Buffers are saved, plain attributes are not. A table of positions can be made again from its length and
# width: `register_buffer(…, persistent=False)` keeps it out of the file.
#
# Suppose that yesterday's file holds the price model from above, and today you add a table with a factor for
# each month.

# %% facts=["B5"]
guess = devlab.predict(
    "With which kind of table can the model still read yesterday's file?",
    "saved",
    "not saved",
    "either",
    "neither",
)

# %% facts=["B5"]
yesterday = RegisteredPrice().state_dict()
readable = []
for name, persistent in (("saved", True), ("not saved", False)):
    model = RegisteredPrice()
    model.register_buffer("months", torch.linspace(0.9, 1.1, 12), persistent=persistent)
    model.to(device)
    print(f"{name}: on {model.months.device}, in the state_dict: {'months' in model.state_dict()}")
    try:
        print(model.load_state_dict(yesterday))
        readable.append(name)
    except RuntimeError as error:
        print(error)

guess.was(readable)

# %% [markdown] facts=["B5"]
# Both tables move. A saved one is a promise about the file: each file must have it, unless you load with
# `strict=False`. Save what cannot be computed again, and leave out what can:
#
# | | parameter | buffer | buffer, `persistent=False` | plain attribute |
# |---|---|---|---|---|
# | `.to` moves it | yes | yes | yes | **no** |
# | the optimizer trains it | yes | no | no | no |
# | the `state_dict` has it | yes | yes | **no** | no |
#
# A large model need not be made twice, once with random numbers and once from its file. On the **meta**
# device tensors have shapes and no numbers. `mmap=True` reads of the file what is used, and `assign=True`
# puts the file's tensors in the place of the model's:

# %% facts=["B5"]
with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    file = Path(folder) / "price.pt"
    torch.save(RegisteredPrice().state_dict(), file)

    with torch.device("meta"):
        model = RegisteredPrice()
    print("made on   ", {tensor.device for tensor in model.state_dict().values()})
    model.load_state_dict(torch.load(file, mmap=True), assign=True)
    print("loaded on ", {tensor.device for tensor in model.state_dict().values()})
    model.to(device)
    print("moved to  ", {tensor.device for tensor in model.state_dict().values()})

# %% [markdown] facts=["B5"]
# For a file of 498 MB an H200 machine took {measured:loading:made on the CPU, loaded, moved} in the usual
# way, and {measured:loading:made on meta, mapped, assigned} in this one, measured. A buffer that is not saved
# has no numbers afterwards; [13](13_bigger_than_one_device.ipynb) fills it after `to_empty`.

# %% [markdown]
# ## Made inside forward
#
# Other tensors are made in `forward` from the input, at every call, because their size or content depends on
# it: a mask from the lengths of sequences, zeros to begin with, noise. They need not be registered, but they
# have to be made on the right device.
#
# This function gives recent prices more weight. Find the line that is wrong before you run it.


# %% facts=["E4", "E5"]
def recent_steps_count_more(x):
    weights = torch.linspace(0, 1, x.shape[1])
    return (x * weights).sum(1)


series = torch.ones(2, 5)
print(recent_steps_count_more(series))
try:
    recent_steps_count_more(series.to(device))
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["E4", "E5"]
# `linspace` was not told where, so it made its numbers on the CPU. The error points at the line below it. The
# input knows better than a name: **a helper made in `forward` takes the device of the input**.


# %% facts=["E5", "W2"]
def recent_steps_count_more(x):
    weights = torch.linspace(0, 1, x.shape[1], device=x.device)
    return (x * weights).sum(1)


for x in (series, series.to(device)):
    print(recent_steps_count_more(x))

# %% [markdown] facts=["E4", "E5"]
# What else a function is given, such as lengths or a mask, may be anywhere. `lengths.to(x.device)` costs
# nothing if they are there already.
#
# **[Exercise](../exercises/05_buffers.ipynb#task_mask_like):** `mask_like` marks the real steps of padded
# sequences.

# %% [markdown]
# ## The dtype is half of it
#
# The function is right on every device now. But many models run in half precision, `float16` or `bfloat16`.

# %% facts=["E5", "W1"]
half = series.to(device, torch.float16)
result = recent_steps_count_more(half)
print(half.dtype, "->", result.dtype)

next_layer = nn.Linear(2, 1).to(device, torch.float16)
try:
    next_layer(result)
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["E5", "W1"]
# `weights` is `float32` by default, and where two floating tensors with dimensions meet, the wider dtype
# wins. If a layer follows, it refuses the result. If none follows, there is no error: the result takes twice
# the memory, and the model becomes slower.
#
# So a helper inherits **both**, device *and* dtype:


# %% facts=["W1", "W2"]
def recent_steps_count_more(x):
    weights = torch.linspace(0, 1, x.shape[1], device=x.device, dtype=x.dtype)
    return (x * weights).sum(1)


for x in (series, series.double(), half):
    result = recent_steps_count_more(x)
    print(x.device, x.dtype, "->", result.device, result.dtype)

# %% [markdown] facts=["E5", "W1"]
# A registered table needs the same care, for the dtype only: `x + self.table.to(x.dtype)` keeps x's dtype.
# Write it in the expression, since assigning it to `self.table` would lose digits for good. Masks are `bool`
# and indices are integers, whatever x is; they take the device alone.
#
# **[Exercise](../exercises/05_buffers.ipynb#task_SinusoidalPositions):** `SinusoidalPositions` adds a table
# to inputs of any dtype, and does not save it.

# %% [markdown]
# ## Like the input
#
# There are four ways to make a helper that fits. The input is unusual on purpose:

# %% facts=["W2", "W3", "W4", "W5"]
x = torch.ones(2, 3, device=device, dtype=torch.bfloat16)

helpers = {
    "a Python number": x * 0.5,
    "torch.tensor(...)": x * torch.tensor([0.5, 1.0, 2.0], device=x.device, dtype=x.dtype),
    "x.new_zeros(...)": x.new_zeros(4),
    "torch.zeros_like(x)": torch.zeros_like(x),
}
for words, result in helpers.items():
    print(f"{words:<21}{list(result.shape)!s:<8}{result.dtype}  {result.device}")

# %% [markdown] facts=["W2", "W3", "W4", "W5"]
# All four fit. How to choose:
#
# - **A Python number** goes with any tensor, has no device, and takes the dtype of the tensor it meets,
#   unless the number is of a higher kind: `0.5` times integers gives floats.
# - **`torch.tensor(v, device=x.device, dtype=x.dtype)`** is for values that you list.
# - **`x.new_zeros(shape)`**, `new_ones`, `new_full`, `new_tensor`, `new_empty` have x's device and dtype, and
#   a *shape of your own*.
# - **`torch.zeros_like(x)`**, `ones_like`, `full_like`, `rand_like`, `randn_like` have x's device, dtype *and
#   shape*.
#
# The next function brings x to a number of rows. It names no device and no dtype, so there is none to get
# wrong:


# %% facts=["W4", "W6"]
def with_rows(x, rows):
    filled = x.new_full((rows, *x.shape[1:]), 7)
    filled[: len(x)] = x
    return filled


small = torch.ones(2, 3)
for x in (small, small.double(), small.long(), small.to(device), small.to(device, torch.float16)):
    filled = with_rows(x, 3)
    print(f"{filled.dtype!s:<15}{filled.device!s:<7}{filled[-1].tolist()}")

# %% [markdown] facts=["W6"]
# The function works for devices and dtypes that its author never tried, because **its helper is made from the
# input**.
#
# **[Exercise](../exercises/05_buffers.ipynb#task_add_noise):** `add_noise` needs a helper of x's shape.
#
# **[Exercise](../exercises/05_buffers.ipynb#task_append_ones):** `append_ones` needs a helper of another
# shape.

# %% [markdown]
# ## A cache remembers where it was filled
#
# This module makes its helper from the input, and keeps it for the next call. It is tried on the CPU with
# length 5, moved, and called on the device with lengths 6 and 5.


# %% facts=["E4", "L5"]
class Ramp(nn.Module):
    def __init__(self):
        super().__init__()
        self.ramps = {}

    def forward(self, x):
        length = x.shape[1]
        if length not in self.ramps:
            self.ramps[length] = torch.linspace(0, 1, length, device=x.device, dtype=x.dtype)
        return x * self.ramps[length]


guess = devlab.predict("Which of the three calls fails?", "the first", "the second", "the third", "none")

# %% facts=["E4", "L5"]
ramp = Ramp()
ramp(torch.ones(2, 5))
ramp.to(device)

failed = "none"
for name, length in (("the second", 6), ("the third", 5)):
    try:
        print(f"{name}, of length {length}:", ramp(torch.ones(2, length, device=device)).device)
    except RuntimeError as error:
        print(f"{name}, of length {length}:", error)
        failed = name

guess.was(failed)

# %% [markdown] facts=["E4", "L5"]
# The trial run had left a ramp of length 5 in the dict, on the CPU, and `.to` does not see a plain attribute.
# Either make the largest table once, register it and cut from it, or make the helper anew at each call.

# %% [markdown] facts=["L1", "L2"]
# ## All in one place
#
# A step of training needs five things on one device: the parameters, the buffers, the inputs, the labels, and
# what the optimizer keeps:

# %% facts=["L1", "L2"]
model = RegisteredPrice().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

x, y = houses.to(device), torch.tensor([[310.0], [475.0]]).to(device)
loss = nn.functional.mse_loss(model(x), y)
loss.backward()
optimizer.step()

momentum = optimizer.state[model.linear.weight]["momentum_buffer"]
for name, tensor in (("prediction", model(x)), ("loss", loss), ("momentum", momentum)):
    print(f"{name:<11}on {tensor.device}")

# %% [markdown] facts=["L1", "L2"]
# What the program computes and what the optimizer accumulates is where its inputs were. An exception: Adam
# and some others keep their count of steps on the CPU, on purpose, unless they are made with `fused=True` or
# `capturable=True`.

# %% [markdown]
# ## What to keep
#
# - `module.to(device)` moves in place; `tensor.to(device)` returns a new tensor that you must keep.
# - `module.to` moves parameters and buffers, those of registered submodules included. Plain attributes, lists
#   and dicts stay behind, and the CPU never tells you.
# - A tensor that the model needs and the optimizer must not touch is a buffer: `register_buffer` or
#   `nn.Buffer`, with `persistent=False` when it can be computed again. Update it in place, under `no_grad`.
# - A helper made in `forward` takes device and dtype from the input: a number, `x.new_*`, `*_like`. A mask
#   takes the device alone.
# - A module has no device. Read it from the parameters, from all of them to be sure.
#
# **Now do it:** [the exercises of this lesson](../exercises/05_buffers.ipynb) are three modules, three
# helpers and two tools that you may want to keep. **Then:** [06 Sharing memory with
# NumPy](06_numpy_sharing.ipynb).
