# %% [markdown]
# # 05 Models and buffers
#
# Moving a model takes one line, and the line works. Then the first batch arrives and an error says that
# something is still on the CPU. This lesson is about that something.
#
# After it you can say what `model.to(device)` moves and what it leaves behind, give every tensor in a model
# the right home, and make helper tensors in `forward` that fit any device and any dtype.
#
# **Takes** about 45 minutes. **Needs** [00 Start here](00_start_here.ipynb); you have written a small
# `nn.Module` before.

# %%
import torch
from torch import nn

import devlab

device = devlab.start()

# %% [markdown]
# ## Where is the model
#
# A layer has weights, and weights are tensors, so they have an address. Here is a layer as it comes, and a
# batch that has already been moved. Before you run the cell: will the layer take the batch?

# %% facts=["L1"]
layer = nn.Linear(3, 2)
batch = torch.ones(4, 3, device=device)

try:
    print(layer(batch).shape)
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["L1"]
# A layer is a function with tensors inside, and the rule of lesson 00 holds for those as for any others:
# **the parameters must be where the inputs are**. A fresh layer is on the CPU, because that is where new
# tensors go.
#
# (The end of the message, `wrapper_CUDA_addmm`, is how PyTorch words it on an NVIDIA GPU. The simulated
# device obeys the same rule and repeats the words. Apple's `mps` has other words for it. No figure of time
# or memory stands in this lesson, so none of its outputs comes from the simulation's model.)
#
# Now move both the model and a batch. One of the two lines below does nothing. Which?

# %% facts=["L2"]
batch = torch.ones(4, 3)

layer.to(device)
batch.to(device)

print("layer.weight", layer.weight.device)
print("batch       ", batch.device)

# %% [markdown] facts=["L2"]
# `tensor.to(device)` returns a new tensor and leaves the old one alone, so a result that nobody keeps is
# lost. `module.to(device)` moves the module **in place**, and returns the module itself to make `model =
# Net().to(device)` possible. The same word, two habits. So write `batch = batch.to(device)`, always with
# the assignment.
#
# In place goes further than you may expect. Say for both lines what they print:

# %% facts=["L2"]
held = layer.weight
moved = layer.to("cpu")

print("the same module:   ", moved is layer)
print("the same parameter:", held is layer.weight, "and it is on", held.device)

# %% [markdown] facts=["L2"]
# Even the parameter is the same object. Only the memory behind it is new. That is why an optimizer that was
# made before the move still holds the right parameters. It is what PyTorch does today between the CPU and the
# usual accelerators, and it is not promised: `torch.__future__.set_overwrite_module_params_on_conversion(True)`
# makes `.to` put new parameters in place of the old ones, and on some kinds of device, such as XLA, they
# always are new. So make the optimizer after the move all the same. Besides, what an optimizer has already
# gathered, such as momentum, does not move with the model.
#
# And the model's own address? Ask for it as you would ask a tensor:

# %% facts=["L3"]
try:
    print(layer.device)
except AttributeError as error:
    print(error)

# %% [markdown] facts=["L3"]
# A module has no `device`, and for a good reason: it is a bag of tensors, and nothing forces them to be in
# one place. So one reads the device **from a parameter**. This line is in thousands of programs:

# %% facts=["L3"]
layer.to(device)
print(next(layer.parameters()).device)

# %% [markdown] facts=["L3"]
# It asks the *first* parameter and believes it for all. Two models below make it fail, each in its own way.
# Which of the two failures would you rather have?

# %% facts=["L3"]
split = nn.Sequential(nn.Linear(3, 3).to(device), nn.Linear(3, 1))
print("split model:", next(split.parameters()).device)

try:
    print("no weights: ", next(nn.ReLU().parameters()).device)
except StopIteration:
    print("no weights:  StopIteration, there is no first parameter")

# %% [markdown] facts=["L3"]
# The second stops at once. The first gives a confident wrong answer, and the error comes later, somewhere
# else. In the exercises you write `model_device`, which does better on both.

# %% [markdown]
# ## What stays behind
#
# The model below predicts a price from three columns of very different size, so it first standardizes them,
# with the mean and deviation of the data it was trained on. Read the class. On the CPU it works.


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
# To see what a move does, here is a small tool. It lists each tensor that a module has, says what kind of
# thing it is, and where it was before and after `.to`. There are three kinds: **parameters**, which
# training changes; **buffers**, which you will meet in a moment; and everything else, **plain attributes**.


# %%
def contents(module):
    """Return name, kind and tensor of everything that the module holds directly, or has registered."""
    plain = [(name, value) for name, value in vars(module).items() if isinstance(value, torch.Tensor)]
    return (
        [(name, "parameter", tensor) for name, tensor in module.named_parameters()]
        + [(name, "buffer", tensor) for name, tensor in module.named_buffers()]
        + [(name, "plain attribute", tensor) for name, tensor in plain]
    )


def watch_the_move(module, device):
    """Move the module and print where each of its tensors was and is."""
    before = [tensor.device for _, _, tensor in contents(module)]
    module.to(device)
    print(f"{'name':<15}{'kind':<17}{'before':<9}after")
    for (name, kind, tensor), was in zip(contents(module), before, strict=True):
        print(f"{name:<15}{kind:<17}{was!s:<9}{tensor.device}")


# %% [markdown]
# Before you run it: four tensors. Which of the four rows will say that something moved?

# %% facts=["L4", "L5"]
watch_the_move(model, device)

# %% [markdown] facts=["L4", "L5"]
# `.to` moves what is **registered**: the parameters of every layer, and the buffers. `mean` and `deviation`
# are plain attributes. To `.to` they are like a learning rate or a file name: something you keep, nothing
# to move. No error, no warning. The error comes with the first batch:

# %% facts=["B4", "L5"]
try:
    model(houses.to(device))
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["B4"]
# The message names two devices and no tensor. `devlab.explain` goes and looks which one it was:

# %% facts=["B4", "L5"]
try:
    model(houses.to(device))
except RuntimeError as error:
    devlab.explain(error)

# %% [markdown] facts=["B4"]
# Look at where we are. The mistake is in `__init__`. The error is in `forward`, later, perhaps in another
# file. And on the CPU there is no error at all, so every test on a laptop passes. Of about 200 public
# reports of device errors that we read while making this course, this was the most frequent kind: a table
# that was never registered.
#
# A container hides its content just as well. This model keeps its layers in a list. How many parameters
# does it have?


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
# Two, not six. A plain list is a plain attribute, whatever is in it. And the missing move is the *smaller*
# harm: an optimizer that is given `stack.parameters()` never trains the two blocks, and `state_dict()` does
# not save them. On the CPU this runs for weeks without a complaint.
#
# For modules the cure is a list that registers. What changes?

# %% facts=["L4", "L5"]
stack = Stack()
stack.blocks = nn.ModuleList(stack.blocks)
stack.to(device)

print("blocks[0] is on", stack.blocks[0].weight.device)
print("cache is on    ", stack.cache["ones"].device)

# %% [markdown] facts=["L5"]
# `nn.ModuleList` and `nn.ModuleDict` register modules, `nn.ParameterList` and `nn.ParameterDict`
# parameters. The tensor in the dict is still behind: for it, and for `mean` and `deviation`, there is
# something else.
#
# ![A module on the CPU with a parameter, a buffer and a plain attribute; after .to(device) the parameter and the buffer are on the device, and the attribute is still on the CPU](drawing:registered_or_loose)

# %% [markdown] facts=["L1", "L5"]
# ### Look and touch
#
# Five modules, and six lines that people write to bring them to a device, some in vain. Each tensor is a box in the lane
# of the place where it really is. Choose a module and a line, **click the tensors that you expect to move**, and only then
# run the line. Three of the six lines move no tensor of any of the five modules. Which?

# %% facts=["L1", "L5"]
devlab.explore.mover()

# %% [markdown] facts=["L1", "L5"]
# `model.to(torch.float16)` names no device. And `p.to(device)` of a single parameter makes a new tensor and throws it
# away: only of modules does `.to` work in place. Loading without `assign=True` copies values into the tensors that are
# there, and they stay where they are. Come back to this picture when you have read about
# `persistent=False`, and to the module with its optimizer after lesson 11.

# %% [markdown]
# ## Register it
#
# A **buffer** is a tensor that belongs to the module but is not trained. You register it under a name, and
# from then on it is an attribute like any other. This is the price model again, with two lines changed.
# What will the table of the move say now?


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
watch_the_move(model, device)
print(model(houses.to(device)).device)

# %% [markdown] facts=["B1", "B2", "B3"]
# `forward` did not change by a letter: `self.mean` is still `self.mean`. But the buffer **moves with the
# model**, to any device, and back, and as a part of any larger model. (Newer code may say `self.mean =
# nn.Buffer(tensor)`, which does the same.)
#
# What is a buffer for? For every tensor that the module needs and the optimizer must not touch:
#
# | kind of buffer | for example | who changes it |
# |---|---|---|
# | a **mask** | which steps a model may look at | nobody |
# | a **fixed encoding** | positions in a sequence | nobody |
# | a **table** | mean and deviation of the data, anchor boxes, a schedule | nobody, or you, once |
# | a **running statistic** | the mean and variance in `nn.BatchNorm1d` | the module itself, in training |
#
# "Then why not make it a parameter that asks for no gradient? That moves too." It does. Look at what else
# it does:


# %% facts=["B1"]
class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Parameter(torch.tensor([100.0, 4.0, 2.0]), requires_grad=False)
        self.linear = nn.Linear(3, 1)


def trainable(module):
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


frozen = Frozen()
print("trainable numbers at first:    ", trainable(frozen))
frozen.requires_grad_(True)  # as one does to fine-tune a whole model
print("trainable numbers, fine-tuning:", trainable(frozen))

# %% [markdown] facts=["B1"]
# One line that unfreezes *all parameters*, as fine-tuning does, and an optimizer made from them would train the
# mean of your data. A buffer says what it is: part of the state, not of what is learned.
#
# One thing about buffers can still surprise. Here `held` is a second name for one, taken before a move. For
# a parameter both names led to the new place. Here?

# %% facts=["B3"]
model = RegisteredPrice()
held = model.mean
model.to(device)

print("model.mean is on", model.mean.device)
print("held is on      ", held.device)

# %% [markdown] facts=["B3"]
# A moved buffer is a *new* tensor under the old name. So never keep a buffer under a second name, in a
# list, or in a cache: write `self.mean` where you use it, every time.

# %% [markdown]
# ## A buffer that changes
#
# Running statistics are buffers that the module updates by itself. This one remembers the largest value it
# has seen, and how many batches came by. It updates its two buffers in two ways. Before you run the cell:
# after a forward on the accelerator, where is each of them?


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


tracker = Largest().to(device)
tracker(torch.tensor([1.0, 8.0, 3.0], device=device))
print("largest", tracker.largest)
print("batches", tracker.batches)

# %% [markdown] facts=["B3"]
# `copy_` wrote into the tensor that was there, so it stayed there. The assignment put a **new** tensor
# under the name, and `torch.tensor` made it on the CPU. It is still a registered buffer, and it is in the
# wrong place until the next `.to`.
#
# So update buffers **in place**: `self.batches += 1`, `add_`, `copy_`, `self.table[i] = ...`. It is also
# the only way for others who hold the tensor to see the change. And keep the update out of the graph of the
# gradients. Before you run the cell: which of the two buffers below will ask for a gradient?


# %% facts=["B1"]
class Total(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x):
        if self.training:
            self.total += x.sum(0)
        return x


x = torch.ones(3, 2, requires_grad=True)  # as any output of a layer with weights
total = Total()
total(x)
print("asks for a gradient:", total.total.requires_grad)

with torch.no_grad():
    quiet = Total()
    quiet(x)
print("under no_grad:      ", quiet.total.requires_grad)

# %% [markdown] facts=["B1"]
# Without `no_grad` the buffer becomes the end of a chain that holds every batch since the start of
# training. Memory grows, and where the output depends on the buffer, the second `backward` fails. So a
# statistic is written like this: `if self.training:`, then `with torch.no_grad():`, then the update in
# place. `self.training` is what `model.train()` and `model.eval()` switch; in evaluation the statistics
# stay as they are.

# %% [markdown]
# ## Saved or not saved
#
# A model is saved as its `state_dict`, a dictionary from names to tensors. Which of the names of the price
# model will be in it?

# %% facts=["B5"]
print("registered:", list(RegisteredPrice().state_dict()))
print("plain:     ", list(Price().state_dict()))

# %% [markdown] facts=["B5"]
# Buffers are saved, plain attributes are not. For the mean of the training data this is what you want:
# nobody can compute it again from a file of weights.
#
# A table of positions is different. Two numbers, its length and its width, say all that is in it, and it
# may be larger than the layers around it. The third argument of `register_buffer` keeps it out:


# %% facts=["B5"]
class Positions(nn.Module):
    def __init__(self, length, persistent):
        super().__init__()
        self.register_buffer("table", torch.linspace(0, 1, length), persistent=persistent)


for persistent in (True, False):
    positions = Positions(5, persistent).to(device)
    print(
        f"persistent={persistent}: table on {positions.table.device}, saved: {list(positions.state_dict())}"
    )

# %% [markdown] facts=["B5"]
# It moves like every buffer. It is only left out of the file. There is a second reason to want that.
# Suppose that yesterday's files were saved by a model without any table, and today you add one. Can the new
# model still read the old file?

# %% facts=["B5"]
yesterday = {}  # a state_dict without a table
print("not saved:", Positions(5, persistent=False).load_state_dict(yesterday))
try:
    Positions(5, persistent=True).load_state_dict(yesterday)
except RuntimeError as error:
    print("saved:", error)

# %% [markdown] facts=["B5"]
# A saved buffer is a promise about the file: each file must have it, in this shape. Save what cannot be
# computed again, and leave out what can. With that you can tell the homes of a tensor apart:
#
# | | parameter | buffer | buffer, `persistent=False` | plain attribute |
# |---|---|---|---|---|
# | `.to` moves it | yes | yes | yes | **no** |
# | the optimizer trains it | yes | no | no | no |
# | the `state_dict` has it | yes | yes | **no** | no |

# %% [markdown]
# ## Made inside forward
#
# Registering cures tensors that are made once. Others are made in `forward`, because they depend on the
# input: on its length, on its batch size, on the lengths of its rows. These, together with the unregistered
# ones, are the usual suspects when a model will not run on a GPU:
#
# | suspect | where it is made | the cure |
# |---|---|---|
# | labels | with the data | move them with the inputs |
# | a mask | in `forward`, from lengths | make it from the input |
# | positional encodings | in `__init__`, as an attribute | register them |
# | anything else made inside `forward`: zeros, noise, steps, `eye` | in `forward` | make it from the input |
#
# Here is one. It weighs recent steps more. Name the line that will fail, and why no test on the CPU finds
# it.


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
# `linspace` was not told where, so it asked nobody and went to the CPU. The error points at the
# multiplication; the cause is the line above. You could write `device="cuda"` there, and the function would
# fail on every machine that has none. The input knows better: **a helper made in `forward` takes the device
# of the input**.


# %% facts=["E5", "W2"]
def recent_steps_count_more(x):
    weights = torch.linspace(0, 1, x.shape[1], device=x.device)
    return (x * weights).sum(1)


for x in (series, series.to(device)):
    print(recent_steps_count_more(x))

# %% [markdown] facts=["E4", "E5"]
# Not only x may come from somewhere. Lengths, indices, a mask from the data loader: each has an address of
# its own, and the function should say at which it works. `lengths.to(x.device)` costs nothing where the
# lengths are there already, because then it returns the same tensor.

# %% [markdown]
# ## The dtype is half of it
#
# The function is right on every device now. Many models run in half precision, `float16` or `bfloat16`, to
# save memory and time. Before you run the cell: which dtype comes out, and what will the next layer say?

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
# `weights` is `float32`, since that is the default, and where two dtypes meet the wider one wins. If the
# next step is a layer, you get an error. If not, you get a result that is twice as large and a model that
# is quietly slower. Nobody is told.
#
# So a helper inherits **both**: device *and* dtype. Two words cure the function:


# %% facts=["W1", "W2"]
def recent_steps_count_more(x):
    weights = torch.linspace(0, 1, x.shape[1], device=x.device, dtype=x.dtype)
    return (x * weights).sum(1)


for x in (series, series.double(), half):
    result = recent_steps_count_more(x)
    print(x.device, x.dtype, "->", result.device, result.dtype)

# %% [markdown] facts=["E5", "W1"]
# A registered table needs the same care, for the dtype only. `model.half()` changes floating buffers along
# with the weights. But a `float16` x may also meet a `float32` table, and then `x + self.table.to(x.dtype)`
# keeps x's dtype. (Write it in the expression. `self.table = self.table.to(x.dtype)` would throw away half
# of the table's digits for good.)
#
# There is one exception, and it has a reason: masks are `bool` and indices are integers, whatever x is.
# From x they take the device alone.

# %% [markdown]
# ## Like the input
#
# There are four ways to make a helper that fits, from the lightest to the most general. The input below is
# unusual on purpose. Before you run the cell: will any of the four lines differ from the others in dtype or
# device?

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
# All the same, and that is the point. How to choose:
#
# - **A Python number** goes with any tensor, has no device, and takes the dtype of the tensor it meets.
#   (One exception: `0.5` times a tensor of integers gives floats.) Most helpers do not have to be tensors
#   at all. `x + 1` needs no `torch.ones`.
# - **`torch.tensor(v, device=x.device, dtype=x.dtype)`** for values that you list.
# - **`x.new_zeros(shape)`**, `new_ones`, `new_full`, `new_tensor`, `new_empty`: x's device and dtype, and a
#   *shape of your own*.
# - **`torch.zeros_like(x)`**, `ones_like`, `full_like`, `rand_like`, `randn_like`: x's device, dtype *and
#   shape*.
#
# `new_*` and `*_like` still take `dtype=` where you need another one. What does the next cell print for the
# mask?

# %% facts=["W4", "W5"]
mask = x.new_zeros(x.shape[:1], dtype=torch.bool)
noise = torch.randn_like(x)
print("mask ", mask.dtype, mask.device, list(mask.shape))
print("noise", noise.dtype, noise.device, list(noise.shape))

# %% [markdown] facts=["W6"]
# Here is the reward. `pad_end` adds rows of a value at the end of x. It names no device and no dtype, so
# there is none to get wrong. Before you run it, say what could break it:


# %% facts=["W6"]
def pad_end(x, rows, value):
    return torch.cat([x, x.new_full((rows, *x.shape[1:]), value)])


small = torch.ones(2, 3)
for x in (small, small.double(), small.long(), small.to(device), small.to(device, torch.float16)):
    padded = pad_end(x, 1, 7)
    print(f"{padded.dtype!s:<15}{padded.device!s:<7}{padded[-1].tolist()}")

# %% [markdown] facts=["W6"]
# Nothing did. One function, written once, for devices and dtypes that its author never tried: **helpers
# made from the input leave fewer places for device and dtype bugs to live in.**

# %% [markdown]
# ## A cache remembers where it was filled
#
# One last trap joins both halves of this lesson. The function below makes its helper from the input, as it
# should, and keeps it for the next call, to save time. People try a model once on the CPU before they move
# it. Follow the three lines: which one fails?


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


ramp = Ramp()
print(ramp(series).device)
print(ramp.to(device)(torch.ones(2, 6, device=device)).device)
try:
    print(ramp(series.to(device)).device)
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["E4", "L5"]
# The second line worked because no one had asked for length 6 before. The third met a length that the trial
# run had left in a dict, on the CPU. A cache is a plain attribute, so `.to` does not see it. Either make
# the largest table once, register it, and cut from it, or make the helper anew at each call. For a ramp of
# six numbers that costs next to nothing.

# %% [markdown]
# ## What to keep
#
# - `module.to(device)` moves in place; `tensor.to(device)` returns a new tensor that you must keep.
# - It moves what is registered: parameters, buffers, and those of registered submodules. Plain attributes,
#   lists and dicts stay behind, and the CPU never tells you.
# - A tensor that the model needs and the optimizer must not touch is a buffer: `register_buffer`, with
#   `persistent=False` when it can be computed again. Update it in place, under `no_grad`.
# - A helper made in `forward` takes device and dtype from the input: a number, `device=x.device,
#   dtype=x.dtype`, `x.new_*`, `*_like`. A mask takes the device alone.
# - A module has no device. Read it from the parameters, all of them if you want to be sure.
#
# **Now do it:** [the exercises of this lesson](../exercises/05_buffers.ipynb), three modules, three helpers
# and two tools that you may want to keep. **Then:** [06 Sharing memory with NumPy](06_numpy_sharing.ipynb).
