# %% [markdown]
# # 11 The training step: exercises
#
# These four functions together are a program that trains on any device: one step, a measure of how good the
# model is, whole epochs, and a training that goes on after an interruption. They are the bare frame of a
# training; the lesson, [11 The training step](../notebooks/11_training_step.ipynb), adds to it what larger
# programs need. None of the four asks for half precision, parts, clipping or a schedule.
#
# In all four, `device` is a `torch.device`, and not always the current one. Where the task does not say
# otherwise, the model is on that device already. It is a classifier: `model(inputs)` returns logits of shape
# (batch, classes), and labels are whole numbers of shape (batch). Waits are counted as `devlab.watch()`
# counts synchronizations. A transfer to the device is not counted as a wait, although without
# `non_blocking=True` it keeps the host as well. Ask for that on CUDA alone: on Apple's `mps` such a copy may
# read its source after the source has been freed, and the numbers are wrong without an error.
#
# Write your answer in place of `raise NotImplementedError("your code here")`, run the cell, and then run the
# check below it. If you are stuck, `devlab.hint(train_step)` helps.

# %%
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

import devlab

device = devlab.start()

# %% [markdown]
# ## `train_step(model, batch, optimizer, device)`
#
# Take one step of training. `batch` is a pair (a tuple or a list) of inputs and labels. They are on the
# CPU, as a loader yields them, or on any accelerator, if `device` is one too.
#
# - Put the model into **training mode**, whatever mode it was in, and leave it there.
# - Move the batch to `device` with **one transfer for each of the two tensors**, and with none for a tensor
#   that is there.
# - Run the model once. The loss is the mean **cross-entropy** of the batch.
# - Let the optimizer take **one step**, by the gradient of this batch alone. Gradients may be left over from
#   earlier, and must not count.
# - Parameters that are frozen (`requires_grad=False`), or that have no part in the loss, **stay as they
#   are**.
# - Return the loss of this forward, as a zero-dimensional tensor **on the device, without a graph**.
# - Where `device` is an accelerator, the host **never waits** for it.
#
# Needed: [The step](../notebooks/11_training_step.ipynb#The-step)


# %% exercise="train_step"
def train_step(
    model: nn.Module, batch, optimizer: torch.optim.Optimizer, device: torch.device
) -> torch.Tensor:
    """Train on one batch; return its loss, on the device, without a graph."""
    ### BEGIN SOLUTION
    model.train()
    inputs, labels = (tensor.to(device, non_blocking=device.type == "cuda") for tensor in batch)
    loss = F.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
    ### END SOLUTION


# %% check="train_step"
devlab.check(train_step)

# %% [markdown]
# ## `evaluate(model, loader, device)`
#
# Return the **accuracy**: the number of right answers divided by the number of samples, a `float` between 0
# and 1. An answer is right when the class with the largest logit is the label. The loader yields at least one
# pair (inputs, labels) of CPU tensors. The last pair may be smaller, and **every sample counts the same**.
#
# - The model runs in **evaluation mode** and **without building a graph**.
# - Afterwards the model is as it was, and **each of its modules is in the mode in which it came**. The modes
#   need not be the same: a normalization may be in evaluation mode while the rest is trained.
# - Batches go to the device one at a time, each tensor at most once.
# - The host waits for the device **once**, at the end.
#
# Needed: [Measuring](../notebooks/11_training_step.ipynb#Measuring)


# %% exercise="evaluate"
def evaluate(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    """Return the share of samples that the model gets right."""
    ### BEGIN SOLUTION
    modes = {module: module.training for module in model.modules()}
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for batch in loader:
            inputs, labels = (tensor.to(device, non_blocking=device.type == "cuda") for tensor in batch)
            correct += (model(inputs).argmax(dim=1) == labels).sum()  # a tensor, on the device
            total += len(labels)
    for module, training in modes.items():
        module.training = training
    return correct.item() / total
    ### END SOLUTION


# %% check="evaluate"
devlab.check(evaluate)

# %% [markdown]
# ## `fit(model, loader, optimizer, device, epochs)`
#
# Train for whole epochs, and return a list with one `float` for each epoch: **the mean loss
# over the samples of that epoch**, as the steps saw it. The last batch may be smaller, and every sample
# counts the same.
#
# - Each step is as in `train_step`, which you may call: training mode, cross-entropy, this batch's gradient
#   alone. If your `train_step` is not done yet, write its lines here.
# - Each epoch goes **once through the loader**, which yields pairs of CPU tensors and may shuffle anew.
# - Each tensor of a batch goes to the device in **one transfer**, when its turn comes.
# - The host waits for the device **at most once in an epoch**.
# - **No graph outlives its step.**
#
# One row of the verdict trains on the real digits that come with the course, `devlab.digits()`. The losses
# must be the same on every device, up to rounding.
#
# Needed: [Whole epochs](../notebooks/11_training_step.ipynb#Whole-epochs)


# %% exercise="fit"
def fit(model: nn.Module, loader: DataLoader, optimizer, device: torch.device, epochs: int) -> list[float]:
    """Train for whole epochs; return the mean loss over the samples of each."""
    ### BEGIN SOLUTION
    losses = []
    for _ in range(epochs):
        total = count = 0
        for batch in loader:
            size = len(batch[1])
            total += train_step(model, batch, optimizer, device) * size  # on the device
            count += size
        losses.append((total / count).item())  # the one wait of the epoch
    return losses
    ### END SOLUTION


# %% check="fit"
devlab.check(fit)

# %% [markdown]
# ## `continue_training(model, loader, optimizer, device, steps, path)`
#
# The capstone. Take `steps` more steps of training, and write to the file `path` all that the rest of the
# training depends on. If the file is there already, **go on from it as if nothing had happened**: a training
# that is cut into several calls, each in a program of its own, has the same losses and the same model as one
# call that takes all the steps.
#
# - Return the losses of the steps of this call, a list of `float`. Each step is as in `train_step`.
# - The batches are those of `for batch in loader`, epoch after epoch. A call may end **in the middle of an
#   epoch**, and the next begins with the batch that would have come. The loader may shuffle: it draws each
#   epoch's order from its own `loader.generator`, which a new program has made anew.
# - A new program has made the model and the optimizer anew, too, with other numbers in them. The optimizer has
#   a memory. Dropout draws from the default generator of `device`, of the CPU or of the accelerator.
# - **A file is data**: `torch.load(path, weights_only=True)` must be able to read it, and a file that would run
#   code when it is read must be refused.
# - The file may come from **another device**, even from one that this machine does not have. Then everything
#   goes on but the random numbers of the device, for which there are none. The model stays on `device`.
#
# Needed: [As if nothing had happened](../notebooks/11_training_step.ipynb#As-if-nothing-had-happened) and [A
# file from elsewhere](../notebooks/11_training_step.ipynb#A-file-from-elsewhere)


# %% exercise="continue_training"
def continue_training(
    model: nn.Module, loader: DataLoader, optimizer, device: torch.device, steps: int, path
) -> list[float]:
    """Train for more steps, from where the file ends if there is one; return their losses."""
    ### BEGIN SOLUTION
    begun, taken, held = loader.generator.get_state(), 0, {}  # of the epoch: its generator, its batches done
    if Path(path).exists():
        held = torch.load(path, map_location="cpu", weights_only=True)
        model.load_state_dict(held["model"])
        optimizer.load_state_dict(held["optimizer"])
        begun, taken = held["begun"], held["taken"]
        loader.generator.set_state(begun)
    batches = iter(loader)
    for _ in range(taken):
        next(batches)
    if device.type == "cpu" and "cpu" in held:
        torch.set_rng_state(held["cpu"])
    elif device.type in held:
        torch.get_device_module(device).set_rng_state(held[device.type], device)

    losses = []
    while len(losses) < steps:
        batch = next(batches, None)
        if batch is None:  # the epoch is over
            begun, taken = loader.generator.get_state(), 0
            batches = iter(loader)
        else:
            losses.append(train_step(model, batch, optimizer, device))
            taken += 1

    held = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "begun": begun, "taken": taken}
    if device.type == "cpu":
        held["cpu"] = torch.get_rng_state()
    else:
        held[device.type] = torch.get_device_module(device).get_rng_state(device)
    torch.save(held, path)
    return torch.stack(losses).tolist()
    ### END SOLUTION


# %% check="continue_training"
devlab.check(continue_training)

# %% [markdown]
# With all four you have a program that runs unchanged on a laptop and on any of a server's GPUs, and you know
# what each line of it moves and waits for. The page *Summary* has it on one sheet
# of paper. When a program is too slow, or its model does not fit, go on to [12 Less memory, less
# time](../notebooks/12_less_memory_less_time.ipynb). `devlab.progress()` shows the whole course at a glance.
