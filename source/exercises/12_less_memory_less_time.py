# %% [markdown]
# # 12 Less memory, less time: exercises
#
# Six tasks: whether two results are the same, a training step in bfloat16 and one in float16, a large batch made of small
# ones, a block that does not keep its activations, and a function that compiles in one piece. The lesson is
# [12 Less memory, less time](../notebooks/12_less_memory_less_time.ipynb).
#
# `device` is a `torch.device`, and not always the current one. The model is on the device already. It is a classifier
# as in lesson 11: `model(inputs)` returns logits, the labels are whole numbers, and the loss is the mean
# cross-entropy. A batch is a pair of inputs and labels, both on the CPU.
#
# Write your answer in place of `raise NotImplementedError("your code here")`, run the cell, then run the
# check below it. Stuck? `devlab.hint(same_results)`.

# %%
import contextlib

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import devlab

device = devlab.start()

# %% [markdown]
# ## `same_results(a, b)`
#
# Return `True` if two tensors hold the same result, and `False` if they do not. Both have the same floating-point dtype.
# They may be on different devices.
#
# - Two numbers are the same if they differ **within the tolerance of their dtype**, which is the one that
#   `torch.testing.assert_close` uses when you do not give it another (for float32 a relative 1.3e-6 and an absolute 1e-5).
# - Tensors of different **shapes** hold different results, even if one of them could be broadcast.
# - **nan** is the same as nan, and inf is the same as inf of the same sign.
# - The answer is a `bool`. No exception leaves your function.
#
# Needed: [The same result](../notebooks/12_less_memory_less_time.ipynb#The-same-result)


# %% exercise="same_results"
def same_results(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors are equal within their dtype's tolerance, wherever they are."""
    ### BEGIN SOLUTION
    try:
        torch.testing.assert_close(a, b, check_device=False, equal_nan=True)
    except AssertionError:
        return False
    return True
    ### END SOLUTION


# %% check="same_results"
devlab.check(same_results)

# %% [markdown]
# ## `bfloat16_step(model, batch, optimizer, device, limit)`
#
# Take one training step in mixed precision, as it is done on GPUs that compute in bfloat16.
#
# - Put the model into **training mode**, and move each tensor of the batch to the device once.
# - **Forward and loss** run under autocast to **bfloat16**. Backward runs outside of it. The parameters stay in float32.
# - Then the gradients are **clipped**: all of the model's gradients together are made shorter by one common factor, so that
#   their norm is at most `limit`. If it was less already, they keep their length.
# - The optimizer takes one step by the clipped gradient of this batch alone, whatever stands in `.grad` when you are called.
# - Return a pair: the loss in **float32**, and the norm of the gradients **before clipping**. Both are zero-dimensional tensors
#   on the device, without a graph.
# - The host **does not wait** for the device. There is no scaler, so nobody has to ask whether a gradient is inf.
#
# Needed: [Autocast](../notebooks/12_less_memory_less_time.ipynb#Autocast)


# %% exercise="bfloat16_step"
def bfloat16_step(
    model: nn.Module, batch, optimizer: torch.optim.Optimizer, device: torch.device, limit: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Train on one batch in bfloat16; return its loss, and the norm of its gradients before clipping."""
    ### BEGIN SOLUTION
    model.train()
    inputs, labels = (tensor.to(device, non_blocking=device.type == "cuda") for tensor in batch)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        loss = F.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
    optimizer.step()
    return loss.detach(), norm
    ### END SOLUTION


# %% check="bfloat16_step"
devlab.check(bfloat16_step)

# %% [markdown]
# ## `mixed_step(model, batch, optimizer, scaler, device)`
#
# The same for a GPU without bfloat16, and without clipping: take one training step in float16. `scaler` is a
# `torch.amp.GradScaler` for the device's type.
#
# - Put the model into **training mode**, and move each tensor of the batch to the device once.
# - **Forward and loss** run under autocast to **float16**. Backward runs outside of it.
# - The optimizer takes one step by the gradient of this batch alone, whatever stands in `.grad` when you are called, and it
#   takes it **through the scaler**: gradients are scaled in backward and unscaled for the step, and if one of them is inf or
#   nan, the step is skipped. Afterwards the scaler is **updated** once, whether or not the step was skipped.
# - The parameters stay in float32.
# - Return the loss, unscaled and in **float32**: a zero-dimensional tensor on the device, without a graph. The host waits for
#   the device once at most, which is the scaler's own question in its `step`.
#
# Needed: [Gradients too small to see](../notebooks/12_less_memory_less_time.ipynb#Gradients-too-small-to-see)


# %% exercise="mixed_step"
def mixed_step(
    model: nn.Module,
    batch,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    device: torch.device,
) -> torch.Tensor:
    """Train on one batch in float16; return its loss in float32, on the device, without a graph."""
    ### BEGIN SOLUTION
    model.train()
    inputs, labels = (tensor.to(device, non_blocking=device.type == "cuda") for tensor in batch)
    with torch.autocast(device.type, dtype=torch.float16):
        loss = F.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()
    ### END SOLUTION


# %% check="mixed_step"
devlab.check(mixed_step)

# %% [markdown]
# ## `accumulate(model, batches, optimizer, device)`
#
# Take the **one** step that a large batch would take, from the small batches into which it was cut. `batches` is a list of
# batches, which **differ in size**.
#
# - The gradient is that of the **mean loss over all samples**, in which each sample counts the same. What stands in `.grad`
#   when you are called does not count.
# - Work on one batch at a time, with one forward for each. **What backward needs of a batch is gone before the next
#   forward**, and each tensor is moved once.
# - The model stays in the mode that it is in, training or evaluation.
# - Return that mean loss as a `float`. To read it the host waits for the device, once for all batches.
#
# Needed: [A large batch in small parts](../notebooks/12_less_memory_less_time.ipynb#A-large-batch-in-small-parts)


# %% exercise="accumulate"
def accumulate(
    model: nn.Module, batches: list, optimizer: torch.optim.Optimizer, device: torch.device
) -> float:
    """Take one step by the gradient of all samples' mean loss; return that loss."""
    ### BEGIN SOLUTION
    samples = sum(len(labels) for _, labels in batches)
    total = 0
    optimizer.zero_grad()
    for batch in batches:
        inputs, labels = (tensor.to(device, non_blocking=device.type == "cuda") for tensor in batch)
        part = F.cross_entropy(model(inputs), labels) * (len(labels) / samples)
        part.backward()
        total += part.detach()
    optimizer.step()
    return total.item()
    ### END SOLUTION


# %% check="accumulate"
devlab.check(accumulate)

# %% [markdown]
# ## `class Checkpointed(block)`
#
# Write a module that computes what `block`, another module, computes, and keeps none of the block's activations for backward.
#
# - `forward` takes whatever the block takes, by position and by name (no name is one of `checkpoint`'s
#   own), and returns what the block returns.
# - **Gradients** reach the block's parameters and its inputs as they would without `Checkpointed`, even if **no input asks
#   for a gradient**.
# - Until backward, only the block's inputs are kept, **in training and in evaluation mode**. In backward, which goes through
#   a result once, the block **runs once more**. It may begin with the buffers as the first run left them.
# - The second run draws **the same random numbers** as the first, if at least one tensor is given by position, and it leaves
#   the block's **buffers** as the first run left them, so that a batch norm counts each batch once.
# - The block is registered in the module, so that `.to` and an optimizer find its parameters.
#
# Needed: [Computed twice](../notebooks/12_less_memory_less_time.ipynb#Computed-twice)


# %% exercise="Checkpointed"
class Checkpointed(nn.Module):
    """Runs a block whose activations are computed again in backward."""

    def __init__(self, block: nn.Module):
        super().__init__()
        ### BEGIN SOLUTION
        self.block = block
        ### END SOLUTION

    def forward(self, *args, **kwargs):
        """Return what the block returns, and keep nothing but its inputs for backward."""
        ### BEGIN SOLUTION

        @contextlib.contextmanager
        def buffers_kept():
            held = [
                (module, name, buffer, buffer.clone())
                for module in self.block.modules()
                for name, buffer in module.named_buffers(recurse=False)
            ]
            try:
                yield
            finally:  # backward ends the second run early, by an exception
                with torch.no_grad():
                    for module, name, buffer, value in held:  # a forward may have put another tensor there
                        setattr(module, name, buffer.copy_(value))

        def runs():
            return contextlib.nullcontext(), buffers_kept()

        return checkpoint(self.block, *args, use_reentrant=False, context_fn=runs, **kwargs)
        ### END SOLUTION


# %% check="Checkpointed"
devlab.check(Checkpointed)

# %% [markdown]
# ## `pool(x, lengths, limit)`
#
# `x` has the shape (batch, length, width) and holds sequences that are padded at the end; `lengths` (int64, one for each
# sequence, on the device of x) says how much of each is real, which may be nothing. The function below returns the mean of
# each sequence's real vectors, and zeros for a sequence without any, as a tensor (batch, width). If the largest norm of
# these means is more than `limit`, all of them are scaled down by one factor, so that it is `limit`.


# %%
def pool_in_pieces(x, lengths, limit):
    means = []
    for row, length in zip(x, lengths.tolist(), strict=True):
        means.append(row[:length].mean(0) if length else torch.zeros_like(row[0]))
    means = torch.stack(means)
    largest = means.norm(dim=1).max()
    if largest > limit:
        means = means * (limit / largest)
    return means


# %% [markdown]
# Its numbers are right. But `torch.compile` cuts it in pieces, and compiles anew for each size of the batch. Write it so
# that it stays whole:
#
# - One call makes **one graph**. A second size of the batch, with another length, may cost one more graph, and all further
#   sizes none. Count them as the lesson does, by a `backend` that notes each graph; `fullgraph=True` says where a cut is.
# - The padding may hold anything, nan and inf, too. None of it reaches the result or the gradient of x.
# - Gradients flow back to x as they did.
# - The **host does not wait** for the device: what cuts a graph is mostly what waits.
#
# Do not call `torch.compile` in your function. Graphs are counted on the CPU.
#
# Needed: [Compiled](../notebooks/12_less_memory_less_time.ipynb#Compiled)


# %% exercise="pool"
def pool(x: torch.Tensor, lengths: torch.Tensor, limit: float) -> torch.Tensor:
    """Return the mean of each sequence without its padding, the largest of them limit long at most."""
    ### BEGIN SOLUTION
    there = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    sums = x.masked_fill(~there[:, :, None], 0).sum(1)
    means = sums / lengths.clamp(min=1)[:, None]
    longest = means.norm(dim=1).max()
    return means * torch.where(longest > limit, limit / longest, 1.0)
    ### END SOLUTION


# %% check="pool"
devlab.check(pool)

# %% [markdown]
# If all six are green, you have written what larger programs add to the step of lesson 11. Put them around a model of your
# own, and ask `devlab.memory()` what they save. For a model that fits on no device go on to [13 Bigger than one
# device](../notebooks/13_bigger_than_one_device.ipynb).
