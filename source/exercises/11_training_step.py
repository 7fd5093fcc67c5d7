# %% [markdown]
# # 11 The training step: exercises
#
# These five functions together are a program that trains on any device: one step, a measure of how good the
# model is, a file that outlives the program, and whole epochs. They are the bare frame of a training; the
# lesson, [11 The training step](../notebooks/11_training_step.ipynb), adds to it what larger programs need.
# None of the five asks for half precision, parts, clipping or a schedule.
#
# In all five, `device` is a `torch.device`, and not always the current one. Where the task does not say
# otherwise, the model is on that device already. It is a classifier: `model(inputs)` returns logits of shape
# (batch, classes), and labels are whole numbers of shape (batch). Waits are counted as `devlab.watch()`
# counts synchronizations. A transfer to the device is not counted as a wait, although without
# `non_blocking=True` it keeps the host as well. Ask for that on CUDA alone: on Apple's `mps` such a copy may
# read its source after the source has been freed, and the numbers are wrong without an error.
#
# Write your answer in place of `raise NotImplementedError("your code here")`, run the cell, and then run the
# check below it. If you are stuck, `devlab.hint(train_step)` helps.

# %%
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
# ## `save(model, path)`
#
# Write the model's `state_dict` to the file `path`, which is a `str` or a `Path`. A file that is there
# already is replaced.
#
# - The file holds **the `state_dict` itself**, and no dict around it: every tensor by its name, with its
#   values and its dtype. `torch.load(path, weights_only=True)` must be able to read it. On which device the
#   tensors are in the file is up to you.
# - The model stays as it is, and **where** it is.
#
# Needed: [A file](../notebooks/11_training_step.ipynb#A-file)


# %% exercise="save"
def save(model: nn.Module, path) -> None:
    """Write the model's state_dict to a file."""
    ### BEGIN SOLUTION
    torch.save(model.state_dict(), path)
    ### END SOLUTION


# %% check="save"
devlab.check(save)

# %% [markdown]
# ## `load(model, path, device)`
#
# Fill the model from a file that holds a `state_dict`, and leave **the whole model on `device`**.
#
# - The model may be on any device when you are called.
# - The file may come from a machine with **devices that this one does not have**.
# - The model can be trained further: what could be trained before can be trained afterwards.
# - A file that lacks a tensor of the model is an error. The error that `load_state_dict` raises will do.
# - A file is data. A file that would **run code** when it is read must be refused.
#
# Needed: [A file from elsewhere](../notebooks/11_training_step.ipynb#A-file-from-elsewhere)


# %% exercise="load"
def load(model: nn.Module, path, device: torch.device) -> None:
    """Fill the model from a file, wherever that was written, and move it to the device."""
    ### BEGIN SOLUTION
    state = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(state)
    model.to(device)
    ### END SOLUTION


# %% check="load"
devlab.check(load)

# %% [markdown]
# ## `fit(model, loader, optimizer, device, epochs)`
#
# The capstone. Train for whole epochs, and return a list with one `float` for each epoch: **the mean loss
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
# With all five you have a program that runs unchanged on a laptop and on any of a server's GPUs, and you know
# what each line of it moves and waits for. The page *Summary* has it on one sheet
# of paper. When a program is too slow, or its model does not fit, go on to [12 Less memory, less
# time](../notebooks/12_less_memory_less_time.ipynb). `devlab.progress()` shows the whole course at a glance.
