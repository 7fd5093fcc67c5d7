# %% [markdown]
# # 05 Models and buffers
#
# Moving a model takes one line, and the line works. Then the first batch arrives, and an error says that
# something is still on the CPU. This lesson is about that something.
#
# After it you can say what `model.to(device)` moves and what it leaves behind, give every tensor in a model the
# right home, and make helper tensors in `forward` that fit any device and any dtype.
#
# **Takes** about 40 minutes. **Needs** [00 Start here](00_start_here.ipynb); you have written a small
# `nn.Module` before.

# %%
import torch
from torch import nn

import devlab

device = devlab.start()

# %% [markdown]
# ## Where is the model
#
# A layer has weights, weights are tensors, and every tensor is somewhere. Here is a fresh layer, and a batch
# that has been moved already:

# %% facts=["L1"]
layer = nn.Linear(3, 2)
batch = torch.ones(4, 3, device=device)

try:
    print(layer(batch).shape)
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["L1"]
# New tensors are made on the CPU, the layer's among them, and the rule of lesson 00 holds for those, too: **the
# parameters must be where the inputs are**. (The message is worded as on an NVIDIA GPU; Apple's `mps` has other
# words.)
#
# Now a layer and a batch are moved with the same call:

# %% facts=["L2"]
batch = torch.ones(4, 3)

layer.to(device)
batch.to(device)

print("layer.weight", layer.weight.device)
print("batch       ", batch.device)

# %% [markdown] facts=["L2"]
# `tensor.to(device)` returned a new tensor, which the cell dropped. `module.to(device)` moves the module **in
# place**, and returns the module itself to make `model = Net().to(device)` possible. So always write `batch =
# batch.to(device)`.
#
# In place goes further than you may expect:

# %% facts=["L2"]
held = layer.weight
moved = layer.to("cpu")

print("the module is   ", "the same object" if moved is layer else "a new object")
print("the parameter is", "the same object" if held is layer.weight else "a new object", "on", held.device)

# %% [markdown] facts=["L2"]
# Even the parameter is the same object, and only the memory behind it is new, so an optimizer that was made
# before the move still holds the right parameters. PyTorch does so today between the CPU and the usual
# accelerators, and does not promise it: `torch.__future__.set_overwrite_module_params_on_conversion(True)`
# makes `.to` put new parameters in place of the old ones, and on XLA devices they always are new. So make the
# optimizer after the move all the same. What it has gathered by then, such as momentum, would stay where it
# was.
#
# A module has no attribute `device`, because nothing forces its tensors to be in one place. So programs read
# the device **from a parameter**, mostly by `next(model.parameters()).device`. This asks the *first* parameter
# and believes it for all. Two of these three models defeat it:

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
# The model without weights fails at once. The split model gets a confident wrong answer, and the error comes
# later, somewhere else.
#
# **[Exercise](../exercises/05_buffers.ipynb#task_model_device):** `model_device` does better on both.

# %% [markdown]
# ## What stays behind
#
# This model predicts a price from three columns. It first standardizes them, with the mean and deviation of the
# data it was trained on. On the CPU it works.


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
    """Yield name, kind and tensor of what the module has registered, and of what it holds besides."""
    yield from ((name, "parameter", tensor) for name, tensor in module.named_parameters())
    yield from ((name, "buffer", tensor) for name, tensor in module.named_buffers())
    for name, value in vars(module).items():
        if isinstance(value, torch.Tensor):
            yield name, "plain attribute", value


guess = devlab.predict("Price holds four tensors. How many of them will move?", *range(5))

# %% facts=["L4", "L5"]
model.to(device)

for name, kind, tensor in contents(model):
    print(f"{name:<15}{kind:<17}{tensor.device}")
guess.was(sum(tensor.device == device for *_, tensor in contents(model)))

# %% [markdown] facts=["L4", "L5"]
# `.to` moves what is **registered**: the parameters of every layer, and the buffers. `mean` and `deviation` are
# plain attributes, which `.to` passes by like a learning rate or a file name. The error comes with the first
# batch. It names two devices and no tensor, so `devlab.explain` looks for the tensor:

# %% facts=["B4", "L5"]
try:
    model(houses.to(device))
except RuntimeError as error:
    print(error)
    devlab.explain(error)

# %% [markdown] facts=["B4"]
# The proposed change repairs this one line; the better cure, which comes next, is in `__init__`, where the
# mistake was made. On the CPU there is no error at all, so every test on a laptop passes. Of about 200 public
# reports of device errors that we read while making this course, this was the most frequent kind: a table that
# was never registered.
#
# A container hides its content just as well. This model keeps its layers in a list:


# %% facts=["L5"]
class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = [nn.Linear(3, 3), nn.Linear(3, 3)]
        self.cache = {"ones": torch.ones(3)}
        self.head = nn.Linear(3, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x + self.cache["ones"])


stack = Stack().to(device)
print("registered:", [name for name, _ in stack.named_parameters()])
print("head is on", stack.head.weight.device, "and blocks[0] on", stack.blocks[0].weight.device)

# %% [markdown] facts=["L5"]
# Of six parameters two are registered. The missing move is the *smaller* harm: an optimizer that is given
# `stack.parameters()` never trains the two blocks, and `state_dict()` does not save them. On the CPU this runs
# for weeks without a complaint. The cure is a list that registers:

# %% facts=["L4", "L5"]
stack = Stack()
stack.blocks = nn.ModuleList(stack.blocks)
stack.to(device)

print("blocks[0] is on", stack.blocks[0].weight.device)
print("cache is on    ", stack.cache["ones"].device)

# %% [markdown] facts=["L5"]
# `nn.ModuleList` and `nn.ModuleDict` register modules, `nn.ParameterList` and `nn.ParameterDict` parameters.
# The tensor in the dict, like `mean` and `deviation`, has to become a buffer.
#
# ![.to(device) brings a module's parameter and buffer to the device, and leaves its plain attribute on the CPU](drawing:registered_or_loose)

# %% [markdown] facts=["L1", "L5"]
# ### Look and touch
#
# Here are five modules, and six lines that are meant to bring them to a device. Choose a module and a line,
# **click the tensors that you expect to move**, and only then run the line. Three of the six lines move no
# tensor of any module. Which?

# %% facts=["L1", "L5"]
devlab.explore.mover()

# %% [markdown] facts=["L1", "L5"]
# `model.to(torch.float16)` names no device. `p.to(device)` of a single parameter makes a new tensor, which is
# then thrown away. Loading a file copies values into the tensors that are there, and they stay where they are
# (unless `load_state_dict` is told `assign=True`). Come back to this picture after `persistent=False`, and
# again after lesson 11.
#
# **[Exercise](../exercises/05_buffers.ipynb#task_left_behind):** `left_behind` finds what `.to` will miss,
# however deep it is hidden.

# %% [markdown]
# ## Register it
#
# A **buffer** is a tensor that belongs to the module and is not trained. You register it under a name, and from
# then on it is an attribute like any other. Here is the price model with two lines changed:


# %% facts=["B2", "B3"]
class RegisteredPrice(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([100.0, 4.0, 2.0]))
        self.register_buffer("deviation", torch.tensor([30.0, 1.5, 1.0]))
        self.linear = nn.Linear(3, 1)

    def forward(self, x):
        return self.linear((x - self.mean) / self.deviation)


model = RegisteredPrice()
held = model.mean
model.to(device)

for name, kind, tensor in contents(model):
    print(f"{name:<15}{kind:<17}{tensor.device}")
print("the result is on", model(houses.to(device)).device)
print("held is on      ", held.device)

# %% [markdown] facts=["B1", "B2", "B3"]
# `forward` is the same to the letter, and the buffer **moves with the model**, to any device and back, and as a
# part of any larger model. (Newer code may say `self.mean = nn.Buffer(tensor)`, which does the same.) But a
# moved buffer is a *new* tensor under the old name, and `held` is still the old one. So never keep a buffer
# under a second name, in a list or in a cache: write `self.mean` where you use it, every time.
#
# A buffer is for every tensor that the module needs and the optimizer must not touch:
#
# | kind of buffer | for example | what changes it |
# |---|---|---|
# | a **mask** | which steps a model may look at | nothing |
# | a **fixed encoding** | positions in a sequence | nothing |
# | a **table** | mean and deviation of the data, anchor boxes, a schedule | nothing, or you, once |
# | a **running statistic** | the mean and variance in `nn.BatchNorm1d` | the module itself, in training |
#
# A parameter with `requires_grad=False` would move, too. But fine-tuning often unfreezes all parameters with
# one line, `model.requires_grad_(True)`, and then the optimizer trains the mean of your data. A buffer says
# what it is: part of the state, and not of what is learned.
#
# **[Exercise](../exercises/05_buffers.ipynb#task_CausalMask):** `CausalMask` keeps a mask for sequences of any
# length.

# %% [markdown]
# ## A buffer that changes
#
# Running statistics are buffers that the module updates by itself. This module remembers the largest value it
# has seen, of inputs that are never negative, and how many batches it has been given. It updates one buffer in
# one way and the other in another.


# %% facts=["B1", "B3"]
class Largest(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("largest", torch.zeros(()))
        self.register_buffer("batches", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.largest.copy_(torch.maximum(self.largest, x.max()))
        self.batches = torch.tensor(self.batches.item() + 1)
        return x / self.largest


guess = devlab.predict(
    "After a forward on the device, which of the two buffers are there?",
    "largest",
    "batches",
    "both",
    "neither",
)

# %% facts=["B1", "B3"]
tracker = Largest().to(device)
tracker(torch.tensor([1.0, 8.0, 3.0], device=device))
print("largest", tracker.largest)
print("batches", tracker.batches)

there = [name for name, buffer in tracker.named_buffers() if buffer.device == device]
guess.was({0: "neither", 2: "both"}.get(len(there)) or there[0])

# %% [markdown] facts=["B3"]
# `copy_` wrote into the tensor that was there. The assignment put a **new** tensor under the name, and
# `torch.tensor` made it on the CPU: still a registered buffer, and in the wrong place until the next `.to`. So
# update buffers **in place**: `self.batches += 1`, `add_`, `copy_`, `self.table[i] = ...`. Then everything else
# that holds the tensor sees the change, too.
#
# And keep the update out of the graph of the gradients. Here the inputs ask for a gradient, as the output of
# any layer does:


# %% facts=["B1"]
class Total(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x):
        if self.training:
            self.total += x.sum(0)
        return x


for gradients in (True, False):
    module = Total()
    for _ in range(5):
        with torch.set_grad_enabled(gradients):
            module(torch.ones(3, 2, requires_grad=True))

    kept, step = 0, module.total.grad_fn
    while step is not None:  # Each step of the graph leads to the step of the batch before.
        kept, step = kept + 1, step.next_functions[0][0]
    print("with a graph:" if gradients else "with no_grad:", kept, "batches kept alive")

# %% [markdown] facts=["B1"]
# In a graph the buffer is the end of a chain that holds every batch since the start of training. Memory grows,
# and where the output depends on the buffer, the second `backward` fails. So write a statistic like this: `if
# self.training:`, then `with torch.no_grad():`, then the update in place. `self.training` is what
# `model.train()` and `model.eval()` switch; in evaluation the statistics stay as they are.
#
# **[Exercise](../exercises/05_buffers.ipynb#task_RunningMean):** `RunningMean` keeps the exact mean of all
# rows, whatever the size of the batches.

# %% [markdown]
# ## Saved or not saved
#
# A model is saved as its `state_dict`, a dictionary from names to tensors. This is what it holds of the price
# model:

# %% facts=["B5"]
print("registered:", list(RegisteredPrice().state_dict()))
print("plain:     ", list(Price().state_dict()))

# %% [markdown] facts=["B5"]
# Buffers are saved, plain attributes are not. For the mean of the training data this is what you want. A table
# of positions is different: its length and width say all that is in it, and it may be larger than the layers
# around it. `register_buffer(…, persistent=False)` keeps a buffer out of the file.
#
# Suppose that yesterday's files come from a model without any table, and today you add one.

# %% facts=["B5"]
guess = devlab.predict(
    "With which kind of table can the model still read yesterday's file?",
    "saved",
    "not saved",
    "either",
    "neither",
)


# %% facts=["B5"]
class Positions(nn.Module):
    def __init__(self, length, persistent):
        super().__init__()
        self.register_buffer("table", torch.linspace(0, 1, length), persistent=persistent)


yesterday = {}  # This state_dict comes from a model without a table.
readable = []
for name, persistent in (("saved", True), ("not saved", False)):
    positions = Positions(5, persistent).to(device)
    print(f"{name}: on {positions.table.device}, in the state_dict: {list(positions.state_dict())}")
    try:
        print(positions.load_state_dict(yesterday))
        readable.append(name)
    except RuntimeError as error:
        print(error)

guess.was({0: "neither", 2: "either"}.get(len(readable)) or readable[0])

# %% [markdown] facts=["B5"]
# Both tables move. A saved one is a promise about the file: unless it is loaded with `strict=False`, each file
# must have it, in this shape. Save what cannot be computed again, and leave out what can. These are the homes
# of a tensor:
#
# | | parameter | buffer | buffer, `persistent=False` | plain attribute |
# |---|---|---|---|---|
# | `.to` moves it | yes | yes | yes | **no** |
# | the optimizer trains it | yes | no | no | no |
# | the `state_dict` has it | yes | yes | **no** | no |

# %% [markdown]
# ## Made inside forward
#
# Registering solves the problem for tensors that are made once. Others are made in `forward`, from the input.
# These are the usual suspects when a model will not run on a GPU:
#
# | suspect | the cure |
# |---|---|
# | labels | move them with the inputs |
# | a mask, made in `forward` from lengths | make it from the input |
# | positional encodings, kept as an attribute | register them |
# | anything else made in `forward`: zeros, noise, steps, `eye` | make it from the input |
#
# This function weighs recent steps more. Find the line that is wrong before you run it.


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
# `linspace` was not told where, so it made its numbers on the CPU, where every test passes. The error points at
# the line below it. With `device="cuda"` the function would fail on every machine that has none. The input
# knows better: **a helper made in `forward` takes the device of the input**.


# %% facts=["E5", "W2"]
def recent_steps_count_more(x):
    weights = torch.linspace(0, 1, x.shape[1], device=x.device)
    return (x * weights).sum(1)


for x in (series, series.to(device)):
    print(recent_steps_count_more(x))

# %% [markdown] facts=["E4", "E5"]
# What else a function is given, such as lengths, indices or a mask, may be anywhere. `lengths.to(x.device)`
# costs nothing if they are there already.
#
# **[Exercise](../exercises/05_buffers.ipynb#task_mask_like):** `mask_like` marks the real steps of padded
# sequences.

# %% [markdown]
# ## The dtype is half of it
#
# The function is right on every device now. But many models run in half precision, `float16` or `bfloat16`.

# %% facts=["E5", "W1"]
guess = devlab.predict(
    "It is given a float16 input. Which dtype comes out?", "torch.float16", "torch.float32"
)

# %% facts=["E5", "W1"]
half = series.to(device, torch.float16)
result = recent_steps_count_more(half)
guess.was(result.dtype)

next_layer = nn.Linear(2, 1).to(device, torch.float16)
try:
    next_layer(result)
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["E5", "W1"]
# `weights` is `float32` by default, and where two floating dtypes of different width meet, the wider one wins.
# If a layer follows, it refuses the result. If none follows, there is no error: the result takes twice the
# memory, and the model becomes slower.
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
# A registered table needs the same care, for the dtype only. `model.half()` changes floating buffers along with
# the weights, but a `float16` x may also meet a `float32` table, and then `x + self.table.to(x.dtype)` keeps
# x's dtype. (Write it in the expression. To assign it to `self.table` would throw away half of the table's
# digits for good.)
#
# There is one exception: masks are `bool` and indices are integers, whatever x is. They take the device alone.
#
# **[Exercise](../exercises/05_buffers.ipynb#task_SinusoidalPositions):** `SinusoidalPositions` adds a table to
# inputs of any dtype, and does not save it.

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
# - **A Python number** goes with any tensor, has no device, and takes the dtype of the tensor it meets. (One
#   exception: `0.5` times a tensor of integers gives floats.) Most helpers need not be tensors at all: `x + 1`
#   needs no `torch.ones`.
# - **`torch.tensor(v, device=x.device, dtype=x.dtype)`** is for values that you list.
# - **`x.new_zeros(shape)`**, `new_ones`, `new_full`, `new_tensor`, `new_empty` have x's device and dtype, and a
#   *shape of your own*.
# - **`torch.zeros_like(x)`**, `ones_like`, `full_like`, `rand_like`, `randn_like` have x's device, dtype *and
#   shape*.
#
# `new_*` and `*_like` still take `dtype=` where you need another one, as a mask does. The next function brings
# x to a number of rows. It names no device and no dtype, so there is none to get wrong:


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
# The function works for devices and dtypes that its author never tried: **helpers made from the input leave
# fewer places for device and dtype bugs to live in.**
#
# **Exercises:** [`add_noise`](../exercises/05_buffers.ipynb#task_add_noise) needs a helper of x's shape, and
# [`append_ones`](../exercises/05_buffers.ipynb#task_append_ones) a helper of another.

# %% [markdown]
# ## A cache remembers where it was filled
#
# One last trap combines a plain attribute with a helper made in `forward`. This module makes its helper from
# the input, and keeps it for the next call. It is tried on the CPU with length 5, moved, and called on the
# device with lengths 6 and 5.


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
# Either make the largest table once, register it and cut from it, or make the helper anew at each call, which
# for six numbers costs next to nothing.

# %% [markdown]
# ## What to keep
#
# - `module.to(device)` moves in place; `tensor.to(device)` returns a new tensor that you must keep.
# - `module.to` moves parameters and buffers, those of registered submodules included. Plain attributes, lists
#   and dicts stay behind, and the CPU never tells you.
# - A tensor that the model needs and the optimizer must not touch is a buffer: `register_buffer`, with
#   `persistent=False` when it can be computed again. Update it in place, under `no_grad`.
# - A helper made in `forward` takes device and dtype from the input: a number, `device=x.device,
#   dtype=x.dtype`, `x.new_*`, `*_like`. A mask takes the device alone.
# - A module has no device. Read it from the parameters, from all of them to be sure.
#
# **Now do it:** [the exercises of this lesson](../exercises/05_buffers.ipynb) are three modules, three helpers
# and two tools that you may want to keep. **Then:** [06 Sharing memory with NumPy](06_numpy_sharing.ipynb).
