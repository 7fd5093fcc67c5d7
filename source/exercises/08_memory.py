# %% [markdown]
# # 08 Memory: exercises
#
# Seven functions: three that read the account of a device's memory, one that gives memory back, one that
# does not let it grow, one that predicts it, and one that finds out how much fits. The lesson is
# [08 Memory](../notebooks/08_memory.ipynb).
#
# PyTorch keeps its account for accelerators, so what is about the account is judged there and not on the
# CPU. All names that the lesson uses work on the simulated device as on CUDA; `device` is always a
# `torch.device`, and not always the current one. Which is, is a setting of the whole program: leave it as it is.
#
# Write your answer in place of `raise NotImplementedError("your code here")`, run the cell, then run the
# check below it. Stuck? `devlab.hint(bytes_kept)`.

# %%
from collections.abc import Callable

import torch
from torch import nn

import devlab

device = devlab.start()

# %% [markdown]
# ## `bytes_kept(fn, device)`
#
# How much device memory does a function's result hold? Call `fn()` once, as it is, and return by how many bytes the
# **allocated** memory of `device` has grown **while the result is still held**. An `int`.
#
# - The result may be anything: a tensor, a list of them, a loss with a graph, an object that hides a
#   tensor, `None`. Whatever it keeps alive counts, and so does what fn has put somewhere itself.
# - What fn made and dropped again does not count.
# - Count as the account does, with its rounding; where fn frees more than it keeps, the answer is negative.
# - Judged on accelerators only.
#
# Needed: [What lives takes
# memory](../notebooks/08_memory.ipynb#What-lives-takes-memory)


# %% exercise="bytes_kept"
def bytes_kept(fn: Callable, device: torch.device) -> int:
    """Return by how many bytes allocated memory grows while fn's result is held."""
    ### BEGIN SOLUTION
    memory = torch.get_device_module(device)
    before = memory.memory_allocated(device)
    result = fn()
    kept = memory.memory_allocated(device) - before
    del result  # until here the name held it
    return kept
    ### END SOLUTION


# %% check="bytes_kept"
devlab.check(bytes_kept)

# %% [markdown]
# ## `peak_bytes(fn, device)`
#
# How much room does a function need while it runs? Call `fn()` once, as it is, and return the most that was
# allocated on `device` at any moment of it, **above what was allocated before**. An `int`, never negative.
#
# - What was allocated before fn does not count, and a higher peak of earlier work does not either.
# - You may reset the account's peak.
# - Judged on accelerators only.
#
# Needed: [The peak](../notebooks/08_memory.ipynb#The-peak)


# %% exercise="peak_bytes"
def peak_bytes(fn: Callable, device: torch.device) -> int:
    """Return the most that fn needed at once, above what was allocated before."""
    ### BEGIN SOLUTION
    memory = torch.get_device_module(device)
    memory.reset_peak_memory_stats(device)
    before = memory.memory_allocated(device)
    fn()
    return memory.max_memory_allocated(device) - before
    ### END SOLUTION


# %% check="peak_bytes"
devlab.check(peak_bytes)

# %% [markdown]
# ## `cached_bytes(device)`
#
# Return how many bytes the caching allocator holds for later on `device`: reserved, and in no live tensor.
# An `int`. Asking must not change anything: what was cached is still cached afterwards.
#
# Judged on accelerators only.
#
# Needed: [Reserved and cached](../notebooks/08_memory.ipynb#Reserved-and-cached)


# %% exercise="cached_bytes"
def cached_bytes(device: torch.device) -> int:
    """Return what is reserved on the device and held by no tensor."""
    ### BEGIN SOLUTION
    memory = torch.get_device_module(device)
    return memory.memory_reserved(device) - memory.memory_allocated(device)
    ### END SOLUTION


# %% check="cached_bytes"
devlab.check(cached_bytes)

# %% [markdown]
# ## `release(cache, key, device)`
#
# `cache` is a dict of tensors on `device`, and `key` is in it. Remove that entry, key and all, so that the
# **reserved** memory of the device falls. Return by how many bytes it fell during the call. An `int`.
#
# - The other entries stay: the same tensors, under the same keys.
# - Memory that was cached already when you were called may go back, too, and then counts.
# - Where another entry is a view of the same memory, dropping one of the two frees nothing. Then the answer
#   is what the device really got back, even if that is 0.
# - Judged on accelerators only.
#
# Needed: [Giving it back](../notebooks/08_memory.ipynb#Giving-it-back)


# %% exercise="release"
def release(cache: dict, key: object, device: torch.device) -> int:
    """Drop cache[key] and give its memory back; return by how much reserved memory fell."""
    ### BEGIN SOLUTION
    memory = torch.get_device_module(device)
    before = memory.memory_reserved(device)
    del cache[key]
    memory.empty_cache()
    return before - memory.memory_reserved(device)
    ### END SOLUTION


# %% check="release"
devlab.check(release)

# %% [markdown]
# ## `total_loss(step, n)`
#
# `step()` returns a loss: a zero-dimensional tensor with a graph, on some device. Call it n times (n is at
# least 1) and return the sum of the n losses, as a zero-dimensional tensor **without** a graph, on the
# losses' device. No backward is asked.
#
# - **Memory must not grow with n.** No graph outlives its step. Even a list of n detached losses grows: each
#   of them takes a block of 512 bytes.
# - The program must not wait for the device at each step.
# - The losses belong to `step`, which may keep them: leave their numbers as they are. `loss.detach()` is a
#   second name for the same memory.
#
# Needed: [Who still holds it](../notebooks/08_memory.ipynb#Who-still-holds-it)


# %% exercise="total_loss"
def total_loss(step: Callable, n: int) -> torch.Tensor:
    """Return the sum of n losses, in memory that does not depend on n."""
    ### BEGIN SOLUTION
    total = 0
    for _ in range(n):
        total = total + step().detach()
    return total
    ### END SOLUTION


# %% check="total_loss"
devlab.check(total_loss)

# %% [markdown]
# ## `training_bytes(model, optimizer_name)`
#
# What will training this model take, apart from activations? Return a number of bytes, an `int`:
#
# - all **parameters**, trained or not, each counted once even if it has two names;
# - a **gradient** for each parameter that is trained (`requires_grad`), in the parameter's own dtype;
# - the optimizer's **state** for each parameter that is trained: nothing for `"sgd"`, as much as the
#   parameter once for `"sgd_momentum"`, twice for `"adam"` and `"adamw"`.
#
# Any other name is a `ValueError`, for every model, even one of which nothing is trained.
#
# Count elements and their size; the allocator's rounding, buffers and step counters do not count. The
# model stays as it is.
#
# Needed: [What training takes](../notebooks/08_memory.ipynb#What-training-takes)


# %% exercise="training_bytes"
def training_bytes(model: nn.Module, optimizer_name: str) -> int:
    """Return the bytes of parameters, gradients and optimizer state."""
    ### BEGIN SOLUTION
    states = {"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}
    if optimizer_name not in states:
        raise ValueError(f"unknown optimizer {optimizer_name!r}; known are {', '.join(states)}")
    total = 0
    for parameter in model.parameters():
        copies = 2 + states[optimizer_name] if parameter.requires_grad else 1
        total += copies * parameter.numel() * parameter.element_size()
    return total
    ### END SOLUTION


# %% check="training_bytes"
devlab.check(training_bytes)

# %% [markdown]
# ## `largest_batch(step, limit)`
#
# `step(n)` runs a training step with n samples, and raises `torch.OutOfMemoryError` where they do not fit.
# If n samples fit, so do fewer. Return the largest n from 1 to `limit` that fits, and 0 if not even one
# does. An `int`.
#
# - Call `step` only with whole numbers from 1 to `limit`.
# - **Each try starts with nothing of the last one.** What `step` returns holds memory, and so does an error
#   that you keep, or are still handling: its traceback holds the variables of the code that failed.
# - Afterwards nothing of the search is left. Whether you empty the cache between two tries is up to you.
# - Any other error is a mistake in `step`, not a lack of memory: it passes through. (`OutOfMemoryError` is a
#   kind of `RuntimeError`, and so are most other errors of PyTorch.)
#
# On the simulated device one row really fills its memory, made small for the purpose. Real GPUs are not
# filled; there the step raises the error at a size.
#
# Needed: [Out of memory](../notebooks/08_memory.ipynb#Out-of-memory)


# %% exercise="largest_batch"
def largest_batch(step: Callable, limit: int) -> int:
    """Return the largest n up to limit for which step(n) fits in memory; 0 if none does."""

    ### BEGIN SOLUTION
    def fits(n):
        try:
            step(n)
            return True
        except torch.OutOfMemoryError:
            pass
        if torch.accelerator.is_available():
            torch.accelerator.empty_cache()  # only now: inside `except` the failed step is still held
        return False

    fitting, too_large = 0, limit + 1
    while too_large - fitting > 1:
        middle = (fitting + too_large) // 2
        if fits(middle):
            fitting = middle
        else:
            too_large = middle
    return fitting
    ### END SOLUTION


# %% check="largest_batch"
devlab.check(largest_batch)

# %% [markdown]
# All seven? Wrap `bytes_kept` and `peak_bytes` around a line of a program of your own; the numbers are
# seldom what one expects. Then on to
# [09 Several devices](../notebooks/09_several_devices.ipynb). `devlab.progress()` shows where you stand.
