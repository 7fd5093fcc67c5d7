# %% [markdown]
# # 10 Debugging
#
# The model is written, it runs on your laptop, and on the GPU it stops with *Expected all tensors to be on
# the same device*. This lesson goes through its few causes, and then turns to faults that raise no error:
# work that takes a detour, and values that turn into `nan`.
#
# ![Three lines of a program: the first makes a mask on the CPU, the second hands it on, the third fails; a dashed arrow leads from the failing line back to the line that made the mask](drawing:from_maker_to_failure)
#
# After it you can read the message, find out which tensor is where and which line put it there, and mend that
# line instead of the one that failed.
#
# **Takes** about 25 minutes to read, and 70 for the tasks. **Needs** [05 Models and
# buffers](05_buffers.ipynb) and the habit of [04 Transfers](04_transfers.ipynb).

# %%
import traceback
import warnings
from pathlib import Path

import numpy
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

import devlab

device = devlab.start()

# %% [markdown]
# ## Print three things
#
# When two tensors do not fit together, the reason is one of three: shape, dtype or device. Three of the four
# tensors below differ from what `x` needs. Their values show none of it, and to print a value the host waits
# for the device. Ask for the three properties instead, which the host knows anyway:


# %% facts=["X1"]
def show(**tensors):
    """Print shape, dtype and device of each tensor, under each other."""
    for name, tensor in tensors.items():
        print(f"{name:<8}{list(tensor.shape)!s:<9}{tensor.dtype!s:<15}{tensor.device}")


x = torch.ones(2, 3, device=device)
others = {
    "a": torch.ones(3),
    "b": torch.ones(3, device=device),
    "c": torch.ones(2, device=device),
    "d": torch.ones(3, device=device, dtype=torch.float16),
}
show(x=x, **others)

# %% [markdown] facts=["X1"]
# Now each of the three stands out. Always print them **together**.
#
# Most of this lesson is about devices. Here is what the other two look like when they fail:

# %% facts=["X1"]
layer = nn.Linear(3, 2).to(device)
guess = devlab.predict("How many are refused: x + c, x + d, and layer(x.half())?", 0, 1, 2, 3)

# %% facts=["X1"]
refused = 0
for words, call in {
    "x + c": lambda: x + others["c"],
    "x + d": lambda: x + others["d"],
    "layer(x.half())": lambda: layer(x.half()),
}.items():
    try:
        print(f"{words:<16} gives {call().dtype}")
    except RuntimeError as error:
        print(f"{words:<16} {error}")
        refused += 1
guess.was(refused)

# %% [markdown] facts=["X1"]
# An addition converts both to one dtype, here float32, and a matrix product refuses. Its message calls the
# input `mat1` and the weight `mat2`, and gives the dtypes their names in C++: `Half` is float16, `Float` is
# float32, `Double` is float64, `Long` is int64.
#
# **[Exercise](../exercises/10_debugging.ipynb#task_describe):** `describe` returns such a line for any
# tensor.

# %% [markdown] facts=["X1"]
# ### The wrong GPU
#
# `cuda:0` and `cuda:1` are two places, and a bare `"cuda"`, or `.cuda()`, means the *current* GPU, which is
# number 0 unless the program has changed it. Below, the model is on the last device, and a helper was made
# with a name without a number. With a single accelerator nothing fails. With two GPUs PyTorch says *Expected
# all tensors to be on the same device, but got mat1 is on cuda:0, different from other tensors on cuda:1*.

# %% facts=["X1", "E4"]
last = torch.device(device.type, torch.accelerator.device_count() - 1)
layer = nn.Linear(3, 2).to(last)
helper = torch.ones(2, 3, device=device.type)  # as .cuda() would have made it
show(weight=layer.weight, helper=helper)
try:
    layer(helper)
except RuntimeError as error:
    print(error)

# %% [markdown]
# `is_cuda` and `device.type` would have said that all is well. So print `.device`, and take devices from
# tensors, never from a name in the middle of a model.

# %% [markdown] facts=["X1"]
# ## Read the message
#
# Here is a model with a fault. It reads a sequence step by step: its `GRUCell` takes one step of the input
# and the state that the step before has left, and returns the new state. It has passed every test on the CPU.


# %% facts=["E4", "X5"]
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)
        self.head = nn.Linear(4, 2)

    def first_state(self, x):
        return torch.zeros(x.shape[0], 4)

    def forward(self, x):
        state = self.first_state(x)
        for step in x.unbind(1):
            state = self.cell(step, state)
        return self.head(state)


def my_lines(error):
    """Print the lines of a traceback that are yours, and leave out those of PyTorch."""
    for frame in traceback.extract_tb(error.__traceback__):
        if not {"torch", "devlab"} & set(Path(frame.filename).parts):
            print(f"{frame.name:<15}{frame.line}")


recurrent = Recurrent().to(device)
sequence = torch.ones(2, 5, 3, device=device)
try:
    recurrent(sequence)
except RuntimeError as error:
    my_lines(error)
    print(error)
    failure = error

# %% [markdown] facts=["E4", "X5"]
# The message says *what* is wrong: two devices in one operation. It names one tensor, by the name that an
# argument has inside PyTorch, and that may be an innocent one. The rest is found by three questions, and they
# work on any such error.
#
# 1. **Which operation?** It is in the last line of *your* code in the traceback, `self.cell(step, state)`.
# 2. **Which of its tensors is where?** Print the three things for each. A layer has parameters, and they
#    count.
# 3. **Which line made the culprit?** The culprit is whichever tensor is not where the work should happen,
#    however many others share its place. Go back to the line that made it. That is the line to change.

# %% facts=["E4", "X5"]
guess = devlab.predict("Which of these tensors is the culprit?", "step", "state", "weight")

# %% facts=["E4", "X5", "X1"]
operation = {
    "step": sequence[:, 0],
    "state": recurrent.first_state(sequence),
    "weight": recurrent.cell.weight_hh,
}
show(**operation)

(culprit,) = [name for name, tensor in operation.items() if tensor.device != device]
guess.was(culprit)

# %% [markdown] facts=["X5"]
# The message spoke of `mat2`, the weight, which is in its place.
#
# The third question leads to `first_state`. That function had returned long before the failure, so it stands
# in no line of the traceback. `model.to(device)` moves what exists at that moment and is registered, so two
# kinds of tensor escape it: **one that is made later**, by a line that does not say where, as here, and **one
# that was there before and was never registered**.
#
# Now let `devlab.explain` answer the same questions.

# %% facts=["E4", "X5"]
devlab.explain(failure)

# %% [markdown] facts=["X5"]
# The tempting repair is at the line that failed: `self.cell(step, state.to(x.device))`. From then on the
# program makes zeros on the CPU and transfers them at every call. Mend the line that makes the tensor, and
# let x give it the dtype, too: `torch.zeros(x.shape[0], 4, device=x.device, dtype=x.dtype)`.

# %% [markdown]
# **[Exercise](../exercises/10_debugging.ipynb#task_fix_hidden_state):** `fix_hidden_state`, where a state may
# also come in from elsewhere.

# %% [markdown]
# ## Walk the model
#
# Is everything that the model *has* in its place? `next(model.parameters()).device` looks at one parameter.
# When something is wrong, look at all of them. To this model a head was added after the move.

# %% facts=["X2"]
model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(device)
model.append(nn.Linear(4, 2))

print("the first parameter is on", next(model.parameters()).device)
for name, parameter in model.named_parameters():
    print(f"{name:<10}{parameter.device}")

# %% [markdown] facts=["X2", "X3"]
# The first parameter alone would have said that all is well. The same walk exists for buffers. Here the
# running mean was read from a file a moment ago.

# %% facts=["X3"]
model.to(device)
model[1].running_mean = torch.tensor([0.1, 0.2, 0.3, 0.4])  # from a file, say

print("astray:", [name for name, buffer in model.named_buffers() if buffer.device != device])

# %% [markdown]
# An assignment replaces a buffer by whatever tensor comes. `copy_` into the old buffer, or `load_state_dict`,
# would have kept the place.
#
# **[Exercise](../exercises/10_debugging.ipynb#task_device_report):** `device_report` makes both walks at
# once.

# %% [markdown] facts=["X2", "X3"]
# ## Tables that are not registered
#
# The walks show what is registered. A very frequent culprit is not: a table, of positions for example, that
# was made in `__init__` and kept as a plain attribute.


# %% facts=["X4", "E4"]
class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.linspace(0, 1, 8)

    def forward(self, x):
        return x + self.table[: x.shape[1]]


positions = Positions().to(device)
print("registered:", [name for name, _ in (*positions.named_parameters(), *positions.named_buffers())])
print("attributes:", {n: str(one.device) for n, one in vars(positions).items() if torch.is_tensor(one)})
try:
    positions(torch.ones(2, 5, device=device))
except RuntimeError as error:
    my_lines(error)

# %% [markdown] facts=["X4", "E4"]
# No walk lists the table, so `.to` passed it by. `vars` shows the plain attributes that were set on an
# object. The cure is a buffer, as in lesson 05. Whole modules get lost in the same way, in a plain list:


# %% facts=["X2", "E4"]
class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.blocks = [nn.Linear(3, 3)]

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return x


tower = Tower().to(device)
print("registered:", [name for name, _ in tower.named_parameters()])
try:
    tower(torch.ones(2, 3, device=device))
except RuntimeError as error:
    devlab.explain(error)

# %% [markdown]
# The missing names in the walk are the earlier sign, and the more important one: an optimizer made from
# `tower.parameters()` would never train these blocks, on any device. A second model, such as a teacher, has
# to be moved by a `.to` of its own.
#
# **[Exercise](../exercises/10_debugging.ipynb#task_FixedPositions):** `FixedPositions`, whose table has to be
# saved as well.

# %% [markdown] facts=["X2"]
# ## Made in forward
#
# Tensors made inside `forward`, or inside a loss, come after the move: zeros for a hidden state, noise,
# `eye`, one-hot tables, masks, padding. The function below hides the future from each step of a text: it adds
# −inf there, of which a softmax makes 0. To multiply by zeros instead would leave the future its share.


# %% facts=["X5", "E4"]
def causal_scores(scores):
    time = scores.shape[-1]
    mask = torch.full((time, time), float("-inf")).triu(1)
    return scores + mask


try:
    causal_scores(torch.ones(2, 4, 4, device=device))
except RuntimeError as error:
    my_lines(error)
    devlab.explain(error)

# %% [markdown] facts=["X5"]
# The cure is to let the input say where and of which dtype. The device alone is only half of it: a float32
# mask on the right device turns float16 scores into float32, with no error and twice the memory.

# %% facts=["X5"]
scores = torch.ones(2, 4, 4, device=device, dtype=torch.float16)
for words, mask in (
    ("device alone", torch.full((4, 4), float("-inf"), device=device).triu(1)),
    ("device and dtype", scores.new_full((4, 4), float("-inf")).triu(1)),
):
    masked = scores + mask
    print(f"{words:<17}{masked.dtype!s:<15}{masked.nbytes} bytes")

# %% [markdown]
# **[Exercise](../exercises/10_debugging.ipynb#task_fix_mask):** `fix_mask`, for every floating dtype.

# %% [markdown] facts=["X5", "E4"]
# ## Part of a batch
#
# Moving a batch means moving all of it, and keeping the result. The next cell makes two mistakes.

# %% facts=["X4", "E4"]
layer = nn.Linear(3, 4).to(device)
inputs, labels = torch.ones(2, 3), torch.tensor([1, 3])

inputs.to(device)
try:
    layer(inputs)
except RuntimeError as error:
    print("1.", error)

logits = layer(inputs.to(device))
try:
    functional.cross_entropy(logits, labels)
except RuntimeError as error:
    print("2.", error)

# %% [markdown]
# 1. `inputs.to(device)` made a copy, and the program threw it away.
# 2. The labels were never moved. The message ends in the name of an inner function with `nll_loss` in it,
#    which tells you that it was the loss and not a layer.
#
# Nested targets and attention masks are forgotten in the same way.

# %% [markdown] facts=["X4"]
# ### The weight of a loss
#
# A loss can be a module, and many programs call it the *criterion*. Where it weighs the classes, the weight
# is its buffer. Without weights it holds no tensor and runs anywhere, so the habit of moving it never forms.

# %% facts=["X4"]
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 2.0, 5.0]))
print("its buffers:", [(name, str(buffer.device)) for name, buffer in criterion.named_buffers()])

labels = labels.to(device)
try:
    criterion(logits, labels)
except RuntimeError as error:
    print(error)

print("after the move:", criterion.to(device)(logits, labels).device)

# %% [markdown] facts=["X4"]
# ## Look at the whole scene
#
# An error names one culprit. Mend it, and the next one fails. It is quicker to look at everything before the
# first step: parameters, buffers, plain attributes, lists, and the whole batch.
#
# **[Exercise](../exercises/10_debugging.ipynb#task_find_strays):** `find_strays` sees all of it.
#
# Where you know what must hold, say so in the code: `assert x.device == home, "move the batch first"` costs
# next to nothing, because a tensor knows its device.

# %% [markdown] facts=["X2"]
# ## Bisect a fault without a message
#
# Some faults raise no error. This model gives the right answers and is slower than it need be, because one of
# its eight layers takes its work to the CPU and back. Then **bisect**: ask of the first half whether it has
# the fault, and go on with the half that has it.


# %% facts=["X2"]
class OnTheHost(nn.Module):
    def forward(self, x):
        return x.cpu().sort().values.to(x.device)


torch.manual_seed(0)
layers = [nn.Linear(4, 4) for _ in range(8)]
layers[torch.randint(8, ()).item()] = OnTheHost()
deep = nn.Sequential(*layers).to(device)

first, end = 0, len(deep)
x = torch.ones(2, 4, device=device)
while end - first > 1:
    middle = (first + end) // 2
    with devlab.watch() as log:
        deep[first:middle](x)
    print(f"layers {first} to {middle - 1}: {log.transfers} transfers")
    first, end = (first, middle) if log.transfers else (middle, end)
print("it is layer", first, "-", type(deep[first]).__name__)

# %% [markdown]
# Each look halves what is left, so a thousand layers would take ten. The same works on the commits of a
# project, by `git bisect`. And make a large model small first: two layers, a width of 64, and a batch of one
# fail in a second and for the same reason.
#
# On an NVIDIA GPU `torch.cuda.set_sync_debug_mode("warn")` names each line at which the host waits ([lesson
# 07](07_asynchrony.ipynb#The-host-runs-ahead)). What does such a line cost? The transformer of that lesson,
# H200, measured:
#
# | | a step | tokens a second |
# |---|---|---|
# | bfloat16, fused AdamW | {measured:spine:bfloat16, fused AdamW:seconds a step} | {measured:spine:bfloat16, fused AdamW:tokens/s} |
# | and `loss.item()` | {measured:spine:bfloat16, fused, loss.item() each step:seconds a step} | {measured:spine:bfloat16, fused, loss.item() each step:tokens/s} |
#
# Three per cent, because its steps are long. Where the device idles anyway, it costs nothing. Measure before
# you mend.

# %% [markdown]
# ## When the values go wrong
#
# Everything is in its place, and the loss is `nan`, *not a number*. In training it comes most often from a
# learning rate that is too high, from data that holds them already, or from an overflow in float16
# ([12](12_less_memory_less_time.ipynb)). But it is always one operation that makes the first of them.

# %%
guess = devlab.predict("How many of the four results in the next cell are nan?", 1, 2, 3, 4)

# %%
large = torch.tensor(60000.0, device=device, dtype=torch.float16)
left_out = torch.tensor([-100, -100], device=device)  # the label that cross_entropy leaves out
results = {
    "60000 + 60000, in float16": large + large,
    "the logarithm of 0": torch.zeros((), device=device).log(),
    "inf - inf": (large + large) - (large + large),
    "a loss without any label": functional.cross_entropy(torch.zeros(2, 4, device=device), left_out),
}
for words, result in results.items():
    print(f"{words:<28}{result.item()}")
guess.was(sum(result.isnan().item() for result in results.values()))

# %% [markdown]
# A float16 ends at 65504, and what does not round to that becomes `inf`. A mean over no labels is 0 / 0,
# which is `nan`, as are `inf - inf` and `0 * inf`. Nearly all that is computed from a `nan` is `nan` too.
# Here are five layers in float16, which end in `nan`.

# %%
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2))
for parameter in net.parameters():
    nn.init.constant_(parameter, 10.0)
net.to(device, torch.float16)
pixels = torch.full((2, 4), 100.0, device=device, dtype=torch.float16)

names = {layer: f"{name} {type(layer).__name__}" for name, layer in net.named_children()}
guess = devlab.predict("Whose output is the first that is not finite?", *names.values())

# %% [markdown]
# A **forward hook** is a function that PyTorch calls after a layer. This one keeps the largest value of each
# output, on the device and detached, so that it neither waits nor holds a graph.

# %%
largest = {}


def look(layer, inputs, output):
    largest[layer] = output.detach().abs().max()


hooks = [layer.register_forward_hook(look) for layer in net]
with devlab.watch() as log:
    net(pixels)
for hook in hooks:
    hook.remove()
print("waits in the forward:", log.synchronizations)
values = torch.stack(list(largest.values()))
for layer, value in zip(largest, values.tolist(), strict=True):
    print(f"{names[layer]:<12}{value:g}")
guess.was(names[list(largest)[values.isfinite().tolist().index(False)]])

# %% [markdown]
# The second `Linear` made an `inf`: four times 4010 times its weights of 10 is more than 65504. The
# `LayerNorm`, which subtracts the mean, made `nan` of it. So look for what is not finite, and not for `nan`
# alone.
#
# **[Exercise](../exercises/10_debugging.ipynb#task_first_not_finite):** `first_not_finite` hunts it down in
# any model.
#
# Sometimes the loss is finite, and its *gradient* is not. Below, one row is all zeros, as padding often is.
# `torch.autograd.detect_anomaly()`, put around forward and backward, looks for `nan` after each operation of
# the backward, stops at the first, and warns with the line of the forward that it belongs to.


# %%
def lengths_of(rows):
    squares = rows.square().sum(1)
    return squares.sqrt()


rows = torch.tensor([[3.0, 4.0], [0.0, 0.0]], device=device, requires_grad=True)
loss = lengths_of(rows).sum()
(gradient,) = torch.autograd.grad(loss, rows)
print("loss", loss.item(), "- gradient", gradient.tolist())

with warnings.catch_warnings(record=True) as caught, devlab.watch() as log:
    warnings.simplefilter("always")
    try:
        with torch.autograd.detect_anomaly():
            lengths_of(rows).sum().backward()
    except RuntimeError as error:
        print(error)
print(*(line.strip() for line in str(caught[-1].message).splitlines() if "rows.square" in line))
print("waits:", log.synchronizations)

# %% [markdown]
# It names the line of the square, and the culprit is the line after it, `squares.sqrt()`. At 0 the slope of a
# square root is infinite, and the backward of the square multiplies that `inf` by 0. The mode looks for `nan`
# and not for `inf`, so look one operation closer to the loss as well; `(squares + 1e-12).sqrt()` has a finite
# slope everywhere. It waits again and again, so switch it off afterwards.

# %% [markdown]
# ## What belongs on the CPU
#
# "Move it to the accelerator" is not always right. Four things belong on the CPU. The first is an **index
# into a CPU tensor**:

# %% facts=["E4"]
names = torch.arange(10) * 10  # a table on the CPU
chosen = torch.tensor([1, 3], device=device)
try:
    names[chosen]
except RuntimeError as error:
    print(error)
print(names[chosen.cpu()])

# %% [markdown] facts=["E4"]
# The other way round PyTorch transfers the index at each use. If the table is used in every step, move the
# table, once.
#
# **Lengths** of padded sequences are the second. PyTorch reads them on the host, to plan the work:

# %% facts=["E4"]
padded = torch.ones(2, 4, 3, device=device)
lengths = torch.tensor([4, 2], device=device)  # moved along with everything else in the batch
try:
    pack_padded_sequence(padded, lengths, batch_first=True)
except (RuntimeError, ValueError) as error:
    devlab.explain(error)

packed = pack_padded_sequence(padded, lengths.cpu(), batch_first=True)
print("data on", packed.data.device, "- sizes on", packed.batch_sizes.device)

# %% [markdown] facts=["E4"]
# On an NVIDIA GPU the words are *'lengths' argument should be a 1D CPU int64 tensor*.
#
# The third is whatever goes to **NumPy**, which reads the CPU's memory alone and knows no gradients: a plot,
# or a metric from another library, takes `detach().cpu()`.

# %% facts=["E4"]
try:
    numpy.asarray(logits)
except (RuntimeError, TypeError) as error:
    print(error)
print(numpy.asarray(logits.detach().cpu()).shape)

# %% [markdown]
# ### Generators
#
# A `torch.Generator`, which holds the state of random numbers, has a device as well.

# %% facts=["E4", "X5"]
guess = devlab.predict(
    "Which generator may draw there?", "the one made on the CPU", "the one made on the accelerator", "both"
)

# %% facts=["E4", "X5"]
worked = []
for where in ("cpu", device):
    generator = torch.Generator(device=where).manual_seed(0)
    try:
        print(torch.randn(3, device=device, generator=generator).device)
        worked.append(str(where))
    except RuntimeError as error:
        print(error)
only = "the one made on the CPU" if worked == ["cpu"] else "the one made on the accelerator"
guess.was("both" if len(worked) == 2 else only)

# %% [markdown]
# The generator that you give to a `DataLoader` shuffles indices, and does so on the CPU. So it is the fourth
# thing that **stays** there, wherever the model is.

# %% [markdown] facts=["E4"]
# ## A default that does half the work
#
# `torch.set_default_device` looks like the cure for all of this: from now on every new tensor is made on the
# accelerator. The cell sets it, and then looks at the weight of a model that was there before, and at three
# new tensors.

# %% facts=["X5"]
guess = devlab.predict("How many of the four will be on the accelerator?", 0, 1, 2, 3, 4)

# %% facts=["X5"]
made_before = nn.Linear(3, 2)
array = numpy.ones(3, dtype=numpy.float32)

torch.set_default_device(device)
four = {
    "a model made before": made_before.weight,
    "torch.ones": torch.ones(3),
    "torch.from_numpy": torch.from_numpy(array),
    "weight.new_ones": made_before.weight.new_ones(3),
}
torch.set_default_device(None)

for name, tensor in four.items():
    print(f"{name:<20}{tensor.device}")
guess.was(sum(tensor.device.type != "cpu" for tensor in four.values()))

# %% [markdown] facts=["X5"]
# What existed stays where it is, `from_numpy` shares memory with an array and so must stay, and `new_*`
# follows its tensor. The rest of the program now makes its tensors on the accelerator, also those that belong
# on the CPU: a `DataLoader` with `shuffle=True` fails at once. Where you want the setting, keep it around the
# lines that make a model: `with torch.device(device):`.

# %% [markdown]
# ## An optimizer that remembers
#
# Today's PyTorch moves parameters in place, so an optimizer made before the move still holds the right ones.
# In the next cell a training takes one step on the CPU, as a test, and then moves its model and takes
# another.

# %% facts=["X5"]
guess = devlab.predict("Which step fails?", "the one on the CPU", "the one after the move", "neither")

# %% facts=["X5"]
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def train_once(on):
    optimizer.zero_grad()
    net(torch.ones(2, 3, device=on)).sum().backward()
    optimizer.step()
    return f"a step on {on}"


print(train_once("cpu"))
net.to(device)
failed = "neither"
try:
    print(train_once(device))
except RuntimeError as error:
    failed = "the one after the move"
    my_lines(error)
    print(error)
guess.was(failed)

# %% [markdown] facts=["X5"]
# It fails in `optimizer.step()`, far from any tensor of yours: with `momentum` an optimizer keeps a running
# sum of each parameter's gradients, and no `.to` of the model moves that. The order that works is **make the
# model, move it, make the optimizer, load the checkpoint into both.** `load_state_dict` of an optimizer
# brings its state to the parameters, and that mends this one too:

# %% facts=["X5"]
optimizer.load_state_dict(optimizer.state_dict())
print(train_once(device))

# %% [markdown] facts=["X1"]
# ## Run it on the CPU
#
# Some errors are not about devices at all and are hard to read on a GPU. The classes of this data set are
# called 1 to 4, and PyTorch counts from 0. A GPU would be lost for this notebook, so the program has a
# process of its own.

# %% facts=["E4"]
STEP = """
import devlab
import torch
from torch.nn import functional

device = devlab.start()
scores, classes = torch.zeros(3, 4, device=device), torch.tensor([1, 3, 4], device=device)
try:
    loss = functional.cross_entropy(scores, classes)
    print("the loss has been launched")
    print("the loss is", loss.item())
except (IndexError, torch.AcceleratorError) as error:  # as the CPU raises it, and as an accelerator does
    print(str(error).splitlines()[0])
    devlab.explain(error)
"""
said = devlab.launch(STEP, 1)

# %% [markdown] facts=["E4"]
# The device reports when the host next waits (lesson 07), so the error comes from an innocent line and names
# no value. The simulated device has kept which line launched what failed. A real GPU prints the condition
# that failed to the terminal, ``Assertion `t >= 0 && t < n_classes` failed``, after the name of a function
# with `nll_loss` in it: so it was the loss, and a label was out of range.
#
# **Run the step once with the model and one batch on the CPU**: errors in indices, shapes and dtypes then
# come with their values, at their own line.

# %% facts=["E4"]
scores, classes = torch.zeros(3, 4), torch.tensor([1, 3, 4])
try:
    functional.cross_entropy(scores, classes)
except IndexError as error:
    print(error)
print("highest label:", classes.max().item(), "of", scores.shape[1], "classes, counted from 0")

# %% [markdown] facts=["E4", "X1"]
# If an error comes on the GPU alone, there are more tools:
#
# - `CUDA_LAUNCH_BLOCKING=1` in the environment, set before PyTorch touches the GPU: the traceback points at
#   the true line, and everything gets slower.
# - `torch.accelerator.synchronize()` in the middle of the step: on which side of it does the error come?
# - NVIDIA's `compute-sanitizer python train.py` finds kernels that read or write out of bounds, the CUDA
#   stream sanitizer of [lesson 07](07_asynchrony.ipynb#Two-streams) finds streams that do not wait for each
#   other.
# - A program that **hangs** raises nothing. `py-spy dump --pid 4711`, a tool from outside, prints the line at
#   which each thread of a running process is; `faulthandler.dump_traceback_later(60)` from Python's library
#   prints it after a minute. For several processes [lesson
#   13](13_bigger_than_one_device.ipynb#Who-is-missing) has the flight recorder.
#
# **[Exercise](../exercises/10_debugging.ipynb#task_failing_step):** `failing_step` brings a late error to the
# piece of a program that it comes from.
#
# Errors of placement do not exist on the CPU; a test on two devices, simulated or not, finds them.

# %% [markdown] facts=["X4"]
# ## What to keep
#
# - Print shape, dtype and device **together**; about a placement, values say the least and cost the most.
# - Which operation, which of its tensors is where, which line made the culprit? Mend the line that *made* it.
# - A fault without a message is found by bisection, the first value that is not finite by forward hooks, and
#   in the backward by `detect_anomaly`.
# - What the walks do not list, `.to` did not move and the optimizer does not train.
# - Indices into CPU tensors, lengths, what goes to NumPy, and a loader's generator belong on the CPU.
# - Model, move, optimizer, checkpoint: in this order. A default device is no cure.
#
# And these are the **six usual culprits**, with what to check in your own code:
#
# | culprit | how it gets lost | where to mend it |
# |---|---|---|
# | batch | the result of `.to` is thrown away | `inputs = inputs.to(device)` |
# | labels | only the inputs were moved | with the inputs, in the loop |
# | mask | made in `forward`, on the default device | `device=x.device` where it is made |
# | positional encoding | a plain attribute | `register_buffer` |
# | loss weight | computed with the data, never moved | `criterion.to(device)`, or `weight.to(logits.device)` |
# | cached hidden state | zeros made on the CPU, a state from another run | `x.new_zeros`; `.to(x.device)` for one that comes in |
#
# **Now do it:** [the exercises of this lesson](../exercises/10_debugging.ipynb), five tools and three broken
# programs. **Then:** [11 The training step](11_training_step.ipynb).
