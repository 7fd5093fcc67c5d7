# %% [markdown]
# # 04 Transfers: exercises
#
# These are eight short functions that a training script needs at its edges, where data comes in and where
# results go out. The lesson is [04 Transfers](../notebooks/04_transfers.ipynb).
#
# `device` is always a `torch.device`, and unless the task says otherwise it has its index. Several rows of
# these checks count transfers and synchronizations, as `devlab.watch()` does, so use it while you try things
# out.
#
# Write your answer in place of `raise NotImplementedError("your code here")`, run the cell, then run the
# check below it. Stuck? `devlab.hint(move)`.

# %%
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import devlab

device = devlab.start()

# %% [markdown]
# ## `move(batch, device)`
#
# A batch is seldom one tensor. Return the same batch with every tensor in it on `device`.
#
# - Dicts, lists, tuples and namedtuples may be nested to any depth, and the batch itself may be any of them, or
#   a single tensor. Each comes back as what it was: a list as a list, a tuple as a tuple, a namedtuple as its
#   own class, a dict as a `dict` with its keys in their order.
# - Everything else (numbers, text, `None`, NumPy arrays, any other object) comes back as it is, the same
#   object, even if it has a `.to` of its own.
# - A tensor that is on `device` already is not copied. A tensor that has to move needs one transfer, straight
#   to `device`, and keeps its dtype. The result is safe to read as soon as it is returned.
# - The batch that came in, with all its containers, stays as it was.
#
# Needed: [Moving](../notebooks/04_transfers.ipynb#Moving) and [A batch is a
# tree](../notebooks/04_transfers.ipynb#A-batch-is-a-tree)


# %% exercise="move"
def move(batch, device: torch.device):
    """Return the batch with every tensor in it on the device."""
    ### BEGIN SOLUTION
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: move(value, device) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        moved = [move(value, device) for value in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch
    ### END SOLUTION


# %% check="move"
devlab.check(move)

# %% [markdown]
# ## `cast_and_move(x, device, dtype)`
#
# Return x's values on `device` and in `dtype`, and transfer as few bytes as possible.
#
# - There is one transfer, in whichever of the two dtypes takes fewer bytes for an element. That holds in every
#   direction: to an accelerator, back to the CPU, and between two accelerators.
# - If x is on `device` already, nothing is transferred. If nothing has to change, x is not copied at all.
# - The values are converted once, straight from x's dtype to the new one. A third dtype in between could lose
#   digits.
# - The result is safe to read as soon as it is returned.
#
# `dtype.itemsize` is the number of bytes that one element takes. If one call changes device and dtype, it
# depends on the kind of transfer which of the two forms travels.
#
# Needed: [Which dtype travels](../notebooks/04_transfers.ipynb#Which-dtype-travels) and [Where the dtype is
# changed](../notebooks/04_transfers.ipynb#Where-the-dtype-is-changed)


# %% exercise="cast_and_move"
def cast_and_move(x: torch.Tensor, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Return x on the device and in the dtype; the smaller dtype travels."""
    ### BEGIN SOLUTION
    if dtype.itemsize < x.dtype.itemsize:
        return x.to(dtype).to(device)
    return x.to(device).to(dtype)
    ### END SOLUTION


# %% check="cast_and_move"
devlab.check(cast_and_move)

# %% [markdown]
# ## `returns_itself(x, device, dtype)`
#
# Predict whether `x.to(device, dtype)` would return x itself. Return a `bool`, `True` or `False`.
#
# - Find out without a transfer and without making a tensor, not even an empty one.
# - In this task `device` may come without its index, as `torch.device("cuda")` does. It then means the current
#   device of its kind, and a tensor that is on that one counts as being there already. `torch.device("cpu")`
#   has no index, and neither has the device of a CPU tensor. `torch.accelerator.current_device_index()` gives
#   the index of the current accelerator.
#
# Needed: [Moving](../notebooks/04_transfers.ipynb#Moving)


# %% exercise="returns_itself"
def returns_itself(x: torch.Tensor, device: torch.device, dtype: torch.dtype) -> bool:
    """Tell whether x.to(device, dtype) is x."""
    ### BEGIN SOLUTION
    if device.index is None and device.type != "cpu":
        device = torch.device(device.type, torch.accelerator.current_device_index())
    return x.device == device and x.dtype == dtype
    ### END SOLUTION


# %% check="returns_itself"
devlab.check(returns_itself)

# %% [markdown]
# ## `make_loader(dataset, batch_size, device)`
#
# Return a `DataLoader` over the data set, for a model that lives on `device`.
#
# - In each epoch it yields every sample once, in minibatches of `batch_size`; the last one may be smaller. The
#   order is up to you, and worker processes are not needed.
# - What it yields is on the CPU. To move it is the next task.
# - The minibatches are in pinned memory if `device` is any accelerator except `mps`. For `cpu` and `mps`
#   nothing is pinned, and the loader is not asked to pin. On the simulated device pinning is modelled.
#
# Needed: [Pinned memory](../notebooks/04_transfers.ipynb#Pinned-memory)


# %% exercise="make_loader"
def make_loader(dataset: Dataset, batch_size: int, device: torch.device) -> DataLoader:
    """Return a loader of minibatches on the CPU, pinned where that helps the device."""
    ### BEGIN SOLUTION
    pin = device.type not in ("cpu", "mps")
    return DataLoader(dataset, batch_size=batch_size, pin_memory=pin)
    ### END SOLUTION


# %% check="make_loader"
devlab.check(make_loader)

# %% [markdown]
# ## `batches(loader, device)`
#
# The loader yields minibatches on the CPU, each of them a pair `(inputs, labels)` of tensors, as a tuple or a
# list. Yield the same pairs on `device`, in the same order and with the same dtypes. A pair may be a tuple or a
# list.
#
# - Each minibatch is moved when it is wanted, not all of them first.
# - There is one transfer for each tensor. From pinned memory no transfer makes the host wait, and nothing else
#   in the loop does.
# - Some loaders pin and some do not. If a loader does not pin, transfer from pageable memory, and do not pin
#   by hand. Such a transfer has to wait: on Apple's GPU PyTorch may read the minibatch after the loader has given
#   its memory to something else.
#
# Needed: [Without waiting](../notebooks/04_transfers.ipynb#Without-waiting)


# %% exercise="batches"
def batches(loader: DataLoader, device: torch.device) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the loader's minibatches on the device."""
    ### BEGIN SOLUTION
    for inputs, labels in loader:
        yield (
            inputs.to(device, non_blocking=inputs.is_pinned()),
            labels.to(device, non_blocking=labels.is_pinned()),
        )
    ### END SOLUTION


# %% check="batches"
devlab.check(batches)

# %% [markdown]
# ## `read_back(x)`
#
# Return a CPU tensor with x's values, in x's dtype. x may be on any device.
#
# - There is one transfer, and it is one for which the host need not wait: non-blocking, and into pinned memory.
# - The result is safe to read as soon as you return it, whatever else x's device was busy with. Work that was
#   launched before the call may still write into x, and the transfer comes after it.
# - x's device need not be the current one, and the current device stays what it is.
# - If x is on the CPU already, you may return x.
#
# (A blocking transfer would be safe, too. The point of this one is the gap between launch and wait, in which a
# program can do something else.)
#
# Needed: [The other direction](../notebooks/04_transfers.ipynb#The-other-direction)


# %% exercise="read_back"
def read_back(x: torch.Tensor) -> torch.Tensor:
    """Return x on the CPU by a non-blocking transfer that has arrived."""
    ### BEGIN SOLUTION
    if x.device.type == "cpu":
        return x
    arriving = x.to("cpu", non_blocking=True)
    torch.accelerator.synchronize(x.device)
    return arriving
    ### END SOLUTION


# %% check="read_back"
devlab.check(read_back)

# %% [markdown]
# ## `fetch_losses(losses)`
#
# `losses` is a list of zero-dimensional tensors, all of one dtype (`float16`, `float32` or `float64`) and on one
# device, with at least one in it: a loss for each step of an epoch. Some may still hold their graph. Return their
# values as a list of Python floats, in order and with all their digits.
#
# However many there are, the host waits for the device **once**. The list, the losses and their graphs stay as
# they are.
#
# Needed: [One number at a time](../notebooks/04_transfers.ipynb#One-number-at-a-time)


# %% exercise="fetch_losses"
def fetch_losses(losses: list[torch.Tensor]) -> list[float]:
    """Return the values of the losses, all fetched at once."""
    ### BEGIN SOLUTION
    return torch.stack(losses).tolist()
    ### END SOLUTION


# %% check="fetch_losses"
devlab.check(fetch_losses)

# %% [markdown]
# ## `no_ping_pong(model, loader, device)`
#
# The model is on `device`, and the loader yields input tensors on the CPU. Each is a batch, and the model
# returns one tensor for it. Return the outputs for all of them as one tensor on the CPU: joined along dimension
# 0 in the loader's order, in the outputs' own dtype, and without a graph.
#
# - Each batch goes to the device by itself, in one transfer, when its turn comes.
# - All the outputs come back together at the end, in one transfer, and the host waits once, for them. A
#   blocking transfer to the device does not count as a wait here.
# - The model stays where it is and as it is, its mode included.
#
# Needed: [There and back again](../notebooks/04_transfers.ipynb#There-and-back-again)


# %% exercise="no_ping_pong"
def no_ping_pong(model: nn.Module, loader: DataLoader, device: torch.device) -> torch.Tensor:
    """Return the model's outputs for every batch, on the CPU."""
    ### BEGIN SOLUTION
    with torch.no_grad():
        outputs = [model(inputs.to(device)) for inputs in loader]
        return torch.cat(outputs).cpu()
    ### END SOLUTION


# %% check="no_ping_pong"
devlab.check(no_ping_pong)

# %% [markdown]
# All eight passed? `move`, `make_loader` and `batches` will carry every training loop that you write. Go on to
# [05 Models and buffers](../notebooks/05_buffers.ipynb). `devlab.progress()` shows where you stand.
