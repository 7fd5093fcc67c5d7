# %% [markdown]
# # 12 Less memory, less time: exercises
#
# Five tasks: when two results are the same, a step in half precision, a large batch from small ones, a block
# that forgets its activations, and clipping beside a scaler. The lesson is
# [12 Less memory, less time](../notebooks/12_less_memory_less_time.ipynb).
#
# `device` is a `torch.device`, and not always the current one. A model is on the device already and is a
# classifier, as in lesson 11: `model(inputs)` returns logits, labels are whole numbers, and the loss is the mean
# cross-entropy. Batches are pairs of inputs and labels, on the CPU.
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
# Return `True` where two tensors hold the same result, and `False` where they do not. They have one floating dtype and
# may be on different devices.
#
# - Numbers are the same **within the tolerance of their dtype**: that of `torch.testing.assert_close`, whose documentation
#   has the table (for float32 a relative 1.3e-6 and an absolute 1e-5).
# - Tensors of different **shapes** are different results, also where one could be broadcast.
# - **nan** is the same as nan, inf the same as inf.
# - The answer is a `bool`.
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
# ## `mixed_step(model, batch, optimizer, scaler, device)`
#
# One step of training in mixed precision. `scaler` is a `torch.amp.GradScaler` of the device's type.
#
# - The model is put into **training mode**, and the batch is moved to the device, each tensor once.
# - **Forward and loss** run under autocast to **float16**; backward does not.
# - The optimizer takes one step by this batch's gradient alone, **through the scaler**: scaled for backward, unscaled for
#   the step. A step on gradients that are inf is left out. The scaler is **updated** once after each.
# - Parameters stay float32.
# - Return the loss, unscaled, in **float32**: a zero-dimensional tensor on the device, without a graph. The host waits
#   for nothing but what the scaler asks in its `step`.
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
    inputs, labels = (tensor.to(device, non_blocking=True) for tensor in batch)
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
# Take **one** step that a large batch would take, from the small batches that it was cut into. `batches` is a list, and
# the batches **differ in size**.
#
# - The gradient is that of the **mean loss over all samples**, each of which counts the same. What was in `.grad` before does
#   not count.
# - One batch is on its way at a time: one forward for each, and **what backward needs of a batch is gone before the next
#   forward**. Each tensor is moved once.
# - The model stays in the mode in which it came.
# - Return that mean loss, a `float`. The host waits for the device once, for this.
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
        inputs, labels = (tensor.to(device, non_blocking=True) for tensor in batch)
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
# A module that does what `block` does, a module too, and keeps none of its activations for backward.
#
# - `forward` takes whatever the block takes, by position and by name, and returns what it returns.
# - **Gradients** reach the block's parameters and its inputs as they do without `Checkpointed`, also where **no input asks for
#   a gradient**.
# - Until backward, only the block's inputs are kept. In backward the block **runs a second time**.
# - The second run draws **the same random numbers**, and leaves the block's **buffers** as the first run left them: a batch
#   norm counts each batch once.
# - The block is a part of the module, so that `.to` and an optimizer find its parameters.
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
            held = [(buffer, buffer.clone()) for buffer in self.block.buffers()]
            try:
                yield
            finally:  # backward ends the second run early, by an exception
                with torch.no_grad():
                    for buffer, value in held:
                        buffer.copy_(value)

        def runs():
            return contextlib.nullcontext(), buffers_kept()

        return checkpoint(self.block, *args, use_reentrant=False, context_fn=runs, **kwargs)
        ### END SOLUTION


# %% check="Checkpointed"
devlab.check(Checkpointed)

# %% [markdown]
# ## `unscaled_clip(optimizer, scaler, parameters, limit)`
#
# Clip gradients beside a scaler. It is called after `scaler.scale(loss).backward()` and before
# `scaler.step(optimizer)`. `parameters` are some or all of the optimizer's, in any iterable; each has a gradient.
#
# - Afterwards all gradients of the optimizer are **unscaled**, and those of `parameters` are shortened together, so that
#   **the norm of all of them is at most `limit`**. Where it is less already they keep their length.
# - Return their norm **before clipping**, as unscaled gradients have it: a zero-dimensional tensor on the device.
# - The scaler's `step` then takes the step by the clipped gradients, and still leaves it out where one was inf.
# - **Nothing waits** for the device.
#
# Needed: [Gradients too small to see](../notebooks/12_less_memory_less_time.ipynb#Gradients-too-small-to-see)


# %% exercise="unscaled_clip"
def unscaled_clip(
    optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler, parameters, limit: float
) -> torch.Tensor:
    """Unscale the gradients, clip those of the parameters; return their norm before that."""
    ### BEGIN SOLUTION
    scaler.unscale_(optimizer)
    return nn.utils.clip_grad_norm_(parameters, limit)
    ### END SOLUTION


# %% check="unscaled_clip"
devlab.check(unscaled_clip)

# %% [markdown]
# All green? These five are what larger programs add to lesson 11's step. Put them around a model of your own, and ask
# `devlab.memory()` what they save.
