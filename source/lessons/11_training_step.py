# %% [markdown]
# # 11 The training step
#
# Everything so far meets in one function of seven lines. It is called a million times in the life of a model,
# so each copy and each wait in it counts a million times.
#
# After this lesson you can write a training step, a measure of accuracy and a checkpoint that work unchanged
# on any device, and say of each line what it moves and what it waits for. At the end you train on real
# handwritten digits, and there is a summary for the wall.
#
# **Takes** about 40 minutes. **Needs** [05 Models and buffers](05_buffers.ipynb) and
# [04 Transfers](04_transfers.ipynb); [08 Memory](08_memory.ipynb) helps.

# %%
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import devlab

device = devlab.start()

# %% [markdown]
# No figure of time stands in this lesson. Transfers and waits are counted by `devlab.watch()`, and they are the same on
# the simulated device as on a GPU. The losses and accuracies are real: the simulated device computes with
# real numbers.

# %% [markdown]
# ## Real digits
#
# The course brings a small real data set: 1797 digits, written by 13 people, 8 by 8 pixels each. Before you
# run the cell: on which device are they?

# %%
images, labels = devlab.digits()
print(tuple(images.shape), images.dtype, images.device)
print(tuple(labels.shape), labels.dtype, labels.device)

for row in images[3]:
    print("".join(" .:+#"[int(4 * ink)] * 2 for ink in row))
print("labelled", labels[3].item())

# %% [markdown]
# On the CPU, as any data set that comes from a file. It stays there; what moves to the device is one batch at a time.
# We keep the last 297 digits for the test, and make a model and a batch.

# %%
inputs = images.flatten(1)
train_set, test_set = TensorDataset(inputs[:1500], labels[:1500]), TensorDataset(inputs[1500:], labels[1500:])


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


batch = inputs[:50], labels[:50]

# %% [markdown]
# ## The model knows no device
#
# This model adds a little noise while it trains. Its author had one machine and one accelerator. Before you
# run the cell: on which of the two devices does it work?


# %% facts=["T1"]
class Noisy(nn.Module):
    def forward(self, x):
        return x + 0.1 * torch.randn(x.shape, device=device)


for place in (device, torch.device("cpu")):
    try:
        print(Noisy()(torch.ones(2, 3, device=place)).shape, "on", place.type)
    except RuntimeError as error:
        print("on", place.type, "->", str(error).split("!")[0])


# %% [markdown] facts=["T1"]
# It works where it was written. The constant may hide better than here: in a `.cuda()`, in a default
# argument, in a global name as above. **In the logic of a model no device is named.** The input says where the
# work is, so ask it:


# %% facts=["T1", "Z1"]
class Noisy(nn.Module):
    def forward(self, x):
        return x + 0.1 * torch.randn_like(x)


for place in (device, torch.device("cpu")):
    print(Noisy()(torch.ones(2, 3, device=place)).shape, "on", place.type)

# %% [markdown]
# The device is chosen in one place of a program, near its top, and handed down as an argument.

# %% [markdown]
# ## The step
#
# ![Memory over time in one step: parameters and the optimizer's state stay; activations grow in forward to the peak and are freed in backward, in which the gradients grow; those stay until they are cleared](drawing:memory_of_a_step)
#
# Here is the step in its usual order. Read it line by line and say for each: does it move anything? Does it
# wait?


# %% facts=["T2"]
def step_with_item(model, batch, optimizer, device):
    model.train()
    inputs, labels = (tensor.to(device) for tensor in batch)
    loss = F.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


model = make_model().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

with devlab.watch() as log:
    for _ in range(3):
        step_with_item(model, batch, optimizer, device)

for event in log.events.transfers[:3]:
    print(event.source, "->", event.target, event.bytes, "bytes")
print(log.transfers, "transfers,", log.synchronizations, "synchronizations in 3 steps")

# %% [markdown] facts=["T2"]
# The batch goes in, two transfers. Forward, loss, `zero_grad`, `backward` and `step` move nothing: parameters,
# gradients and the optimizer's state all live on the device. (The optimizer makes its state from the
# parameters when it first steps. It is a helper made from an existing tensor. Adam also counts its steps, and by
# default keeps that one number on the CPU on purpose, where reading it costs no wait.)
#
# The order matters in one point. `backward` **adds** to what is in `.grad`, so the gradients are zeroed
# somewhere before it, and not between `backward` and `step`.
#
# The third transfer of each step is `item()`: four bytes, and the host waits until the device has done everything that
# was started before. It could have prepared the next batch instead. What should the step return, then?
#
# The same wait hides in the line that moves the batch. A plain `.to(device)` comes back only when the device has the
# batch, and the device takes it after all the work that was started before, the last step included. `devlab.watch()`
# lists it as a blocking transfer and not as a synchronization, because nothing comes back. With
# `non_blocking=True`, as in lesson 04, the host goes on.


# %% facts=["T3"]
def step(model, batch, optimizer, device):
    model.train()
    inputs, labels = (tensor.to(device, non_blocking=True) for tensor in batch)
    loss = F.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


with devlab.watch() as log:
    for _ in range(3):
        loss = step(model, batch, optimizer, device)

print(log.transfers, "transfers,", log.synchronizations, "synchronizations in 3 steps")
print(loss.device, loss.requires_grad)

# %% [markdown] facts=["T3"]
# A tensor with one number, on the device, without a graph. Whoever wants to know the number asks for it,
# when it suits. `detach` matters as much as the missing `item`: a loss that somebody keeps would hold the
# graph of its step, and memory would grow with each.
#
# `model.train()` is there because somebody may have evaluated the model a moment ago. It costs next to
# nothing.
#
# Nothing in the step names a device. So it should run anywhere, and give the same losses. Does it?

# %% facts=["T4"]
for place in (torch.device("cpu"), device):
    model = make_model().to(place)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = [step(model, batch, optimizer, place) for _ in range(4)]
    print(f"{place.type:<4}", [f"{loss:.3f}" for loss in torch.stack(losses).tolist()])

# %% [markdown] facts=["T4"]
# The same to three decimals. The last digits may differ, since each device adds up in its own order. **It works
# wherever model and data are moved together**; the line `make_model().to(place)` and the line in the step that
# moves the batch are the only two that move anything.
#
# One habit protects from a puzzling error: move the model **before** you make the optimizer. In most moves the
# parameters stay the same objects, as lesson 05 showed, and an optimizer made before would still hold them. But
# PyTorch does not promise it, and what the optimizer has gathered would stay behind.
#
# **[Exercise](../exercises/11_training_step.ipynb#task_train_step):** `train_step`.

# %% [markdown]
# ## Measuring
#
# Accuracy is the share of right answers. Both functions below compute it. How many times does each of them
# wait, for a loader of six batches?


# %% facts=["T3"]
def accuracy_by_item(model, loader, device):
    correct = 0
    for batch in loader:
        inputs, labels = (tensor.to(device, non_blocking=True) for tensor in batch)
        correct += (model(inputs).argmax(1) == labels).sum().item()
    return correct / len(loader.dataset)


def accuracy(model, loader, device):
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    correct = 0
    with torch.no_grad():
        for batch in loader:
            inputs, labels = (tensor.to(device, non_blocking=True) for tensor in batch)
            correct += (model(inputs).argmax(1) == labels).sum()
    for part, was_training in modes:
        part.training = was_training
    return correct.item() / len(loader.dataset)


test_loader = DataLoader(test_set, batch_size=50)
for measure in (accuracy_by_item, accuracy):
    with devlab.watch() as log:
        measure(model, test_loader, device)
    print(f"{measure.__name__:<17}", log.synchronizations, "synchronizations")

# %% [markdown] facts=["T3"]
# Six against one. In the second function `correct` begins as a Python 0 and becomes a tensor on the device
# with the first addition; it is read when the loop is over.
#
# The second function does three more things. It switches the model to evaluation mode, in which dropout is off and a
# batch norm uses its running statistics. It builds no graph, because of `no_grad`. And it gives **each part** of the
# model back in the mode in which it came, so that nobody trains on in evaluation mode by accident. One
# `model.train(was_training)` at the end would not do: it sets all parts alike, and a batch norm that somebody froze with
# `.eval()` inside a training model would be training again.
#
# **[Exercise](../exercises/11_training_step.ipynb#task_evaluate):** `evaluate`.

# %% [markdown]
# ## A file
#
# A checkpoint outlives the program, and perhaps the machine. What belongs into it is the `state_dict`: names
# and tensors. The model itself would be saved as a pickle of its class, which another program may not have.
#
# We save a model that is on the device, and read the file without a further word. Where are the tensors?

# %% facts=["T4"]
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "model.pt"

torch.save(model.state_dict(), path)

state = torch.load(path)
print({name: str(tensor.device) for name, tensor in state.items()})

# %% [markdown]
# On the device: the file remembers the place of each tensor, and `torch.load` puts it back there. On a
# machine that has no such device that is an error. A file written on `cuda:3` cannot be read like this on
# your laptop.
#
# **[Exercise](../exercises/11_training_step.ipynb#task_save):** `save`.

# %% [markdown]
# ## A file from elsewhere
#
# `map_location` says where to put the tensors, whatever the file remembers. Then `load_state_dict` **copies**
# the numbers into the tensors that the model has. Before you run the cell: where is the model afterwards?

# %% facts=["T4"]
state = torch.load(path, map_location="cpu", weights_only=True)
print("in memory ", state["0.weight"].device)

fresh = make_model().to(device)
fresh.load_state_dict(state)
print("the model ", fresh[0].weight.device)

# %% [markdown] facts=["T4"]
# Where it was. `map_location` places the file's tensors and never moves a model. So the model's device is
# a matter of `model.to(device)`, as always, before or after.
#
# `weights_only=True`, the default since PyTorch 2.6, admits tensors, plain containers and little else. A file that
# holds more could run code when it is read:

# %%
whole = Path(folder.name) / "whole.pt"
torch.save(model, whole)
try:
    torch.load(whole, map_location="cpu", weights_only=True)
except Exception as error:
    print(type(error).__name__, "- the file holds more than data")

# %% [markdown]
# To go on with a training one needs the optimizer's state, too. Here the momentum comes out of a file on the
# CPU, and the model is on the device.

# %% facts=["T4"]
guess = devlab.predict("Where will the momentum be?", "on the CPU", "with the model", "it raises an error")

# %% facts=["T4"]
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
held = torch.load(path, map_location="cpu", weights_only=True)

fresh = make_model().to(device)
fresh.load_state_dict(held["model"])
optimizer_again = torch.optim.SGD(fresh.parameters(), lr=0.1, momentum=0.9)
optimizer_again.load_state_dict(held["optimizer"])

momentum = optimizer_again.state[fresh[0].weight]["momentum_buffer"]
print("in memory   ", held["optimizer"]["state"][0]["momentum_buffer"].device)
print("in use      ", momentum.device)
guess.was("with the model" if momentum.device == fresh[0].weight.device else "on the CPU")
one, other = (step(*both, device) for both in ((model, batch, optimizer), (fresh, batch, optimizer_again)))
print("same losses ", torch.equal(one, other))

# %% [markdown] facts=["T4"]
# On the device. `optimizer.load_state_dict` moves the state to where its parameter is **at that moment**. So
# the order is: move the model, make the optimizer, load into it.
#
# **[Exercise](../exercises/11_training_step.ipynb#task_load):** `load`.

# %%
folder.cleanup()

# %% [markdown]
# ## Whole epochs
#
# A program wants the mean loss of an epoch. Batches may differ in size, so each loss counts as many times as
# its batch has samples. The sum stays on the device, the count is Python's. How many transfers do you expect
# for two epochs of 30 batches, and how many synchronizations?


# %% facts=["Z1", "T2", "T3"]
def fit(model, loader, optimizer, device, epochs):
    losses = []
    for _ in range(epochs):
        total = count = 0
        for batch in loader:
            total += step(model, batch, optimizer, device) * len(batch[1])
            count += len(batch[1])
        losses.append((total / count).item())
    return losses


def train(place, epochs):
    model = make_model().to(place)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    order = torch.Generator().manual_seed(0)
    loader = DataLoader(train_set, 50, shuffle=True, generator=order)
    with devlab.watch() as log:
        losses = fit(model, loader, optimizer, place, epochs)
    return model, losses, log


_, _, log = train(device, 2)
into = sum(copy.target == str(device) for copy in log.events.transfers)
print(into, "transfers into the device,", log.transfers - into, "out of it")
print(log.synchronizations, "synchronizations")

# %% [markdown] facts=["Z1"]
# Two tensors, 30 batches, two epochs: 120 transfers in. Two numbers out, one wait for each. Nothing else is moved,
# though the model ran 60 times. That is the whole course in one line:
#
# > **Move the model once, each batch once, and make helpers from existing tensors.**
#
# And the digits? The same program, on the CPU and on the device.

# %% facts=["T4", "Z1"]
for place in (torch.device("cpu"), device):
    model, losses, _ = train(place, 4)
    print(f"{place.type:<4} losses {[f'{loss:.2f}' for loss in losses]}")
    share = accuracy(model, test_loader, place)
    print(f"     right on new digits: {share:.0%}")

# %% [markdown] facts=["T4"]
# The same on both, as far as they are printed. Shuffling is the loader's work, and its generator stays on the CPU; so
# the order of the samples does not depend on the device either.
#
# On a real GPU this model may well train more slowly than on the CPU: its layers are tiny, and small work
# loses to launches and transfers ([07](07_asynchrony.ipynb)); measure it. Larger programs add what lesson 04 taught: a
# loader with worker processes and `pin_memory=True`, so that the host need not even wait until the bytes are staged.
#
# **[Exercise](../exercises/11_training_step.ipynb#task_fit):** `fit`.

# %% [markdown]
# ## Summary
#
# One sheet for the wall. In JupyterLab, *File → Print* prints the notebook; the same sheet is
# `docs/summary.md` in the project.
#
# > **Move the model once, each batch once, and make helpers from existing tensors.**
#
# **The usual culprits** when PyTorch expected all tensors on one device:
#
# | what stayed behind | cure |
# |---|---|
# | the batch, or a part of it: `x.to(device)` without `x =` | `x = x.to(device)`, every part |
# | labels | move them with their inputs |
# | a mask, noise, zeros made in `forward` | `torch.zeros_like(x)`, `x.new_zeros(…)`, `device=x.device` |
# | a table of positions, kept as an attribute | `self.register_buffer("table", table)` |
# | modules in a plain list or dict | `nn.ModuleList`, `nn.ModuleDict` |
# | the weight of a loss | a buffer, or `criterion.to(device)` |
# | a hidden state from an earlier batch | `state.to(x.device)`, and `detach` |
# | a checkpoint, the optimizer's state | `map_location`, `model.to`, then the optimizer |
#
# **Timing.** Warm up. Synchronize, start the clock, run, synchronize, stop the clock. Repeat, and take the
# median. Without the second wait you have timed the launch.
#
# **These wait for the device:** `.item()`, `.cpu()`, `.tolist()`, `print`, `if tensor:`, `nonzero`, reading by a
# boolean mask; and every transfer without `non_blocking=True`.
#
# **Transfers.** With `non_blocking=True` the host goes on: at once where its memory is pinned, and from ordinary memory as
# soon as the bytes are staged. What comes to the CPU without blocking may be read only after a synchronization. With a
# change of dtype, a blocking transfer to or from a GPU converts on the CPU, a non-blocking one on the GPU.
#
# **Memory.**
#
# | word | means |
# |---|---|
# | allocated | what live tensors hold, in blocks of 512 bytes |
# | reserved | what PyTorch's caching allocator has taken from the driver |
# | cached | reserved less allocated: for reuse, no leak |
# | peak | the most allocated at once since the last reset |
# | `empty_cache()` | gives back what is cached, never what is live; drop references first |
# | out of memory | leave the `except` block, drop references, try a smaller batch |

# %% [markdown]
# ## What to keep
#
# - No device is named in a model's logic; the inputs say where the work is.
# - The step: training mode, move the batch without waiting, forward, loss, zero, backward, step, return the detached
#   loss.
# - Sums of losses and of right answers stay on the device until the epoch is over.
# - Save a `state_dict`; load it with `map_location` and `weights_only=True`; move the model; then the optimizer.
#
# **Now do it:** [the exercises of this lesson](../exercises/11_training_step.ipynb), five functions. **Then:** a
# program of your own. Put `devlab.watch()` around one epoch of it, and see what it moves. When it is too slow, or does not
# fit, go on with [12 Less memory, less time](12_less_memory_less_time.ipynb).
