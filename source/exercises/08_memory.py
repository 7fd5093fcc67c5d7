# %% [markdown]
# # 08 Memory: exercises
#
# Seven functions: two read the account of a device's memory, one gives memory back, one keeps it from
# growing, two predict it, and one finds out how much fits. The lesson is
# [08 Memory](../notebooks/08_memory.ipynb).
#
# PyTorch keeps its account for accelerators, so whatever is about the account is judged there and not on the
# CPU. All names that the lesson uses work on the simulated device as on CUDA. `device` is always a
# `torch.device` with a number, and not always the current one: name it in each question. Which device is
# current is a setting of the whole program; leave it as it is.
#
# Write your answer in place of `raise NotImplementedError("your code here")`, run the cell, then run the
# check below it. Stuck? `devlab.hint(bytes_kept)`.

# %%
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

import devlab

device = devlab.start(account=True)  # on a Mac the simulated one: its GPU keeps a shorter account

# %% [markdown]
# ## `bytes_kept(fn, device)`
#
# How much device memory does a function's result hold? Call `fn()` once, as it is, and return by how many
# bytes the **allocated** memory of `device` has grown **while the result is still held**, as an `int`.
#
# - The result may be anything: a tensor, a list of tensors, a loss with a graph, an object that hides a
#   tensor, `None`. Whatever it keeps alive counts, and so does a tensor that fn has stored elsewhere, for
#   example in a list.
# - What fn made and dropped again does not count.
# - Count as the account does, with its rounding. Where fn frees more than it keeps, the answer is negative.
# - It is judged on accelerators only.
#
# Needed: [What lives takes memory](../notebooks/08_memory.ipynb#What-lives-takes-memory)


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
# allocated on `device` at any moment of the call, **above what was allocated before it**, as an `int`. It is
# never negative.
#
# - What was allocated before fn does not count, and neither does a higher peak of earlier work.
# - You may reset the account's peak.
# - It is judged on accelerators only.
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
# ## `release(cache, key, device)`
#
# `cache` is a dict of tensors on `device`, and `key` is one of its keys. Remove that entry, key and all, and
# give its memory back to the device, so that **reserved** memory falls. Return by how many bytes it fell
# during the call, as an `int`.
#
# - The same dict loses the entry. The other entries stay: the same tensors, under the same keys.
# - Memory that was already cached when your function was called may go back as well, and then it counts.
# - Where another entry is a view of the same memory, removing one of the two frees nothing. The answer is
#   what the device really got back, even if that is 0.
# - It is judged on accelerators only.
#
# Needed: [Giving it back](../notebooks/08_memory.ipynb#Giving-it-back) and
# [Who still holds it](../notebooks/08_memory.ipynb#Who-still-holds-it)


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
# losses' device. Do not call `backward`.
#
# - **Memory must not grow with n.** No graph outlives its step. Even a list of n detached losses grows,
#   because each of them takes a block of 512 bytes.
# - The program must not wait for the device at each step.
# - The losses belong to `step`, which may keep them, so leave their numbers as they are. Mind that
#   `loss.detach()` shares the memory of `loss`.
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
# How much memory will the training of this model take, apart from activations? Return a number of bytes, as
# an `int`. Add up
#
# - all **parameters**, trained or not, each counted once even if it has two names;
# - a **gradient** for each parameter that is trained (`requires_grad`), in the parameter's own dtype, whether
#   it is there yet or not;
# - the optimizer's **state** for each parameter that is trained: nothing for `"sgd"`, as much as the
#   parameter once for `"sgd_momentum"`, and twice for `"adam"` and `"adamw"`.
#
# Any other name is a `ValueError`, for every model, even one of which nothing is trained.
#
# Count elements and their size. The allocator's rounding, buffers and step counters do not count. The model
# stays as it is.
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
# ## `activation_bytes(shape, hidden, heads, dtype, fused)`
#
# How many bytes does this block of a transformer keep for its backward? The two Linears that are multiplied
# in its last line are the gated kind that Llama and its relatives have in place of the GELU.


# %%
class Block(nn.Module):
    def __init__(self, width, hidden, heads, fused):
        super().__init__()
        self.heads, self.fused = heads, fused
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gate, self.up = nn.Linear(width, hidden), nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def attention(self, q, k, v):
        if self.fused:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
        scores = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
        return scores.masked_fill(later, float("-inf")).softmax(-1) @ v

    def forward(self, x):
        qkv = self.qkv(self.norm_1(x))
        heads = [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in qkv.chunk(3, -1)]
        x = x + self.out(self.attention(*heads).transpose(1, 2).flatten(2))
        normed = self.norm_2(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


# %% [markdown]
# `shape` is that of `x`: batch, length, width. All numbers are of `dtype`, the block's parameters, too. Return
# the bytes as an `int`. No block has to be built for that: think of each line what its backward needs.
#
# - A tensor counts once, however many operations need it. The parameters do not count.
# - With `fused=True` attention is PyTorch's own, which computes the table of length × length again in its
#   backward and keeps none of it.
# - Your number is compared with what autograd saves of such a block on each device, storage by storage, and may
#   differ by 2 %. What the norms keep of each token, the mask and one number for each token and head are less
#   than that.
# - Fused attention is judged on the CPU alone, because not every device has it.
#
# Needed: [Activations on paper](../notebooks/08_memory.ipynb#Activations-on-paper)


# %% exercise="activation_bytes"
def activation_bytes(
    shape: tuple[int, int, int], hidden: int, heads: int, dtype: torch.dtype, fused: bool
) -> int:
    """Return the bytes that a block keeps for its backward, besides its parameters."""
    ### BEGIN SOLUTION
    batch, length, width = shape
    numbers = 8 * width  # x, norm_1, q, k, v, attention, the sum, norm_2
    numbers += 4 * hidden  # gate, silu, up, their product
    if not fused:
        numbers += heads * length  # for each token a row of the table in each head
    return batch * length * numbers * dtype.itemsize
    ### END SOLUTION


# %% check="activation_bytes"
devlab.check(activation_bytes)

# %% [markdown]
# ## `largest_batch(step, limit)`
#
# `step(n)` runs a training step with n samples, and raises `torch.OutOfMemoryError` where they do not fit. If
# n samples fit, so do fewer. Return the largest n from 1 to `limit` that fits, as an `int`, and 0 if not even
# one sample does.
#
# - Call `step` only with whole numbers from 1 to `limit`, and with gradients on, as in training.
# - **Nothing of one try may be left when the next one begins.** What `step` returns holds memory. So does an
#   error that you keep, or are still handling: its traceback holds the variables of the code that failed.
# - Nothing of the search is left afterwards. Whether you empty the cache between two tries is up to you.
# - Any other error is a mistake in `step` and no lack of memory: it passes through. (`OutOfMemoryError` is a
#   kind of `RuntimeError`, and so are most other errors of PyTorch.)
#
# On the simulated device one line of the check's report, *where memory really runs out*, fills the device,
# whose memory is made small for the purpose. Real GPUs are not filled; there the step raises the error from a
# certain size on.
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
# All seven? Wrap `bytes_kept` and `peak_bytes` around a line of a program of your own, and guess the numbers
# first. Then go on to [09 Several devices](../notebooks/09_several_devices.ipynb). `devlab.progress()` shows
# where you stand.
