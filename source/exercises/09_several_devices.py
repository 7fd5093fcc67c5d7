# %% [markdown]
# # 09 Several devices: exercises
#
# Five tasks, each with two places in it: a sum and a mean across devices, a model in two halves, and the
# gradients of two real processes, exchanged in each backward or once for several. The lesson is
# [09 Several devices](../notebooks/09_several_devices.ipynb).
#
# A device is always given as a `torch.device`, and may be the CPU, which is a place like the others. The
# checks use your GPUs; with one GPU the second place is the CPU, and without a GPU you have `sim:0` and
# `sim:1`. (The lesson needs two accelerators, so with one GPU it takes the simulated ones.) Which device is
# current is a setting of the whole program; leave it as it is.
#
# Write your answer in place of `raise NotImplementedError("your code here")`, run the cell, then run the
# check below it. Stuck? `devlab.hint(add_across)`.

# %%
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import devlab

device = devlab.start()

# %% [markdown]
# ## `add_across(x, y, out_device)`
#
# Return x + y as a tensor on `out_device`. The three places may all differ, or two of them, or none. When
# your function returns, the sum can be read.
#
# - Shapes and dtypes are those that `+` gives for two tensors in one place, broadcasting included.
# - Gradients flow back to x and to y, wherever each is, also where one of them is a single number
#   (zero-dimensional).
# - x and y stay as they are.
# - There are **two transfers at most**, and none where x, y and `out_device` are one place. Nothing is
#   transferred to a place that has no part in the sum.
#
# Needed: [A tensor has one address](../notebooks/09_several_devices.ipynb#A-tensor-has-one-address)


# %% exercise="add_across"
def add_across(x: torch.Tensor, y: torch.Tensor, out_device: torch.device) -> torch.Tensor:
    """Return x + y on out_device, wherever the two are."""
    ### BEGIN SOLUTION
    return x.to(out_device) + y.to(out_device)
    ### END SOLUTION


# %% check="add_across"
devlab.check(add_across)

# %% [markdown]
# ## `mean_across(tensors, device)`
#
# `tensors` is a list of at least one tensor, all of one shape and one floating dtype, on any devices. The
# same tensor may stand in it twice, and then it counts twice. Return their **elementwise mean** on `device`:
# a tensor of that shape and dtype.
#
# - Each entry that is elsewhere is transferred once, straight to `device`. One that is there already is not
#   transferred.
# - The tensors in the list stay as they are.
# - The sum of the tensors fits into their dtype.
#
# Needed: [The sum of many](../notebooks/09_several_devices.ipynb#The-sum-of-many)


# %% exercise="mean_across"
def mean_across(tensors: list[torch.Tensor], device: torch.device) -> torch.Tensor:
    """Return the elementwise mean of tensors from several devices."""
    ### BEGIN SOLUTION
    return torch.stack([tensor.to(device) for tensor in tensors]).mean(0)
    ### END SOLUTION


# %% check="mean_across"
devlab.check(mean_across)

# %% [markdown]
# ## `class TwoStage(first, second, devices)`
#
# A model that is too large for one device is cut into two halves, and the second works with what the first
# gives. `first` and `second` are modules on the CPU, and `devices` is a pair: the first half lives on
# `devices[0]`, the second on `devices[1]`. `forward(x)` takes a tensor x from any device and returns
# `second(first(x))`, on `devices[1]`.
#
# - The halves move **once**, when the model is made. You may move the modules you are given, or copies. They
#   keep their modes (training or evaluation), and what is frozen in them stays frozen.
# - A half may have no parameters, as `nn.Flatten()` has none. So remember the devices, and do not ask the
#   halves.
# - Both halves are parts of the model: `parameters()` and `buffers()` know them all.
# - Gradients flow back through both halves, and to x.
# - At each call x is transferred if it is elsewhere, and what flows between the halves is; nothing else.
#
# Needed: [A model in two places](../notebooks/09_several_devices.ipynb#A-model-in-two-places)


# %% exercise="TwoStage"
class TwoStage(nn.Module):
    """Two halves of a model, each on a device of its own."""

    def __init__(self, first: nn.Module, second: nn.Module, devices: tuple[torch.device, torch.device]):
        super().__init__()
        ### BEGIN SOLUTION
        self.first = first.to(devices[0])
        self.second = second.to(devices[1])
        self.devices = devices
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return second(first(x)) on the second device."""
        ### BEGIN SOLUTION
        middle = self.first(x.to(self.devices[0]))
        return self.second(middle.to(self.devices[1]))
        ### END SOLUTION


# %% check="TwoStage"
devlab.check(TwoStage)

# %% [markdown]
# ## `ddp_gradients(rank, world_size, data)`
#
# This is how it is done in practice. Your function is called in **two real processes**, with `rank` 0 in one
# and 1 in the other, and `world_size` 2 in both. The group exists already, on the `gloo` backend, which needs
# no GPU, so do not make another. `data` is the whole data set in each process, a pair (x, y) of CPU tensors
# of shapes (rows, 4) and (rows, 1); the rows divide evenly.
#
# - Each process works on rows `rank::world_size`, and on no others.
# - The model is `nn.Linear(4, 1)`, made directly after `torch.manual_seed(0)`, and wrapped in
#   `DistributedDataParallel`.
# - The loss is the mean squared error of the process's own rows. Call `backward` once.
# - Return the gradients as a list, in the order of the model's parameters. They are tensors on the CPU, and
#   equal to those that one process would get from all rows.
#
# The check sends your function to the processes, with the functions, modules and plain values of this
# notebook that it uses. What it prints there is not shown. The first time, the processes take some seconds to
# start.
#
# Needed: [Many processes](../notebooks/09_several_devices.ipynb#Many-processes)


# %% exercise="ddp_gradients"
def ddp_gradients(rank: int, world_size: int, data: tuple) -> list[torch.Tensor]:
    """Return this process's gradients, averaged over all processes by DistributedDataParallel."""
    ### BEGIN SOLUTION
    x, y = (part[rank::world_size] for part in data)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(4, 1))
    nn.functional.mse_loss(model(x), y).backward()
    return [parameter.grad for parameter in model.parameters()]
    ### END SOLUTION


# %% check="ddp_gradients"
devlab.check(ddp_gradients)

# %% [markdown]
# ## `accumulated_gradients(rank, world_size, data)`
#
# An exchange of gradients takes time, and several backwards can share one. Your function is again called in
# **two real processes** of a group that exists. This time `data` is a pair (x, y) of what this process works
# on alone: **parts** of a batch, x of shape (parts, rows, 4) and y of shape (parts, rows, 1).
#
# - The model is `nn.Linear(4, 1)`, made directly after `torch.manual_seed(0)`, and wrapped in
#   `DistributedDataParallel`.
# - Take **one part at a time**: a forward and a backward for each.
# - The gradients add up to those of the **mean squared error over all rows of all parts**, in both processes
#   together.
# - They are **exchanged once**, in the backward of the last part, by DistributedDataParallel itself.
# - Return the gradients as a list, in the order of the model's parameters.
#
# Needed: [What it costs](../notebooks/09_several_devices.ipynb#What-it-costs)


# %% exercise="accumulated_gradients"
def accumulated_gradients(rank: int, world_size: int, data: tuple) -> list[torch.Tensor]:
    """Return the gradients of all parts of all processes, after a single exchange."""
    ### BEGIN SOLUTION
    x, y = data
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(4, 1))

    def add_gradients(part):
        (nn.functional.mse_loss(model(x[part]), y[part]) / len(x)).backward()

    with model.no_sync():
        for part in range(len(x) - 1):
            add_gradients(part)
    add_gradients(len(x) - 1)  # this backward exchanges what has been added up
    return [parameter.grad for parameter in model.parameters()]
    ### END SOLUTION


# %% check="accumulated_gradients"
devlab.check(accumulated_gradients)

# %% [markdown]
# All five? Then you have done by hand what the libraries do, and you know where it is better to leave it to
# them. [10 Debugging](../notebooks/10_debugging.ipynb) is next. `devlab.progress()` shows where you stand.
