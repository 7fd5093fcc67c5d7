# %% [markdown]
# # 05 Models and buffers: exercises
#
# These are three modules that own a table, three helpers made from their input, and two tools that look through a
# whole model. The lesson is [05 Models and buffers](../notebooks/05_buffers.ipynb).
#
# Make the tensors of each of the three modules on the CPU, in `__init__`, as PyTorch does by default, and
# let nothing but `.to` move them later.
#
# Write your answer in place of `raise NotImplementedError("your code here")`, run the cell, then run the
# check below it. A class has one such place in `__init__` and one in `forward`, and both are to be filled. Stuck?
# `devlab.hint(CausalMask)`.

# %%
import torch
from torch import nn

import devlab

device = devlab.start()

# %% [markdown]
# ## `class CausalMask(max_length)`
#
# A model that writes text may look at the past and not at the future. Write the module that says which is which.
#
# - In a buffer named `mask` it holds the whole triangle for `max_length` steps, made once.
# - `forward(x)` takes any x of shape (batch, time, …), where time is 1 to `max_length`, and cuts its answer from
#   the buffer, which stays whole: a boolean tensor of shape (time, time), on the device of x and of the module. Row
#   *i*, column *j* is `True` where *j* lies in the future of *i*, which is above the diagonal.
# - The buffer is saved: it is in the `state_dict`. There is nothing to train.
#
# Needed: [Register it](../notebooks/05_buffers.ipynb#Register-it)


# %% exercise="CausalMask"
class CausalMask(nn.Module):
    """Tells, for a sequence of any length up to max_length, which steps lie in the future."""

    def __init__(self, max_length: int):
        super().__init__()
        ### BEGIN SOLUTION
        triangle = torch.ones(max_length, max_length, dtype=torch.bool).triu(diagonal=1)
        self.register_buffer("mask", triangle)
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the (time, time) mask for x of shape (batch, time, ...)."""
        ### BEGIN SOLUTION
        time = x.shape[1]
        return self.mask[:time, :time]
        ### END SOLUTION


# %% check="CausalMask"
devlab.check(CausalMask)

# %% [markdown]
# ## `class RunningMean(n)`
#
# Write a module that centres its input around the mean of everything it has seen.
#
# - It has two saved buffers: `mean`, with n elements, and `count`, a zero-dimensional integer tensor that begins
#   at 0.
# - `forward(x)` takes x of shape (batch, n). In training mode it first brings both up to date: `count`
#   becomes the number of rows seen so far, and `mean` the exact mean of all of them. Batches may differ in
#   size, but none is empty, and every row counts the same.
# - Both are updated **in place**, so that what held the tensor before sees the new numbers.
# - In evaluation mode both stay as they are. The mode alone decides, and not whether gradients are on.
# - It returns x minus the mean, which in training mode is the updated one. x itself stays as it is.
# - The update is not part of the graph, or every batch would stay alive in it. The result is part of the graph, so
#   that layers before this one learn through it; the mean in it counts as a fixed number.
# - Moved to another device between two batches, or saved and loaded into a new module, it goes on as if nothing had
#   happened.
#
# Needed: [A buffer that changes](../notebooks/05_buffers.ipynb#A-buffer-that-changes)


# %% exercise="RunningMean"
class RunningMean(nn.Module):
    """Subtracts the mean of all rows seen in training."""

    def __init__(self, n: int):
        super().__init__()
        ### BEGIN SOLUTION
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x, of shape (batch, n), minus the mean; learn from x first in training mode."""
        ### BEGIN SOLUTION
        if self.training:
            with torch.no_grad():
                self.count += x.shape[0]
                self.mean += (x - self.mean).sum(dim=0) / self.count
        return x - self.mean
        ### END SOLUTION


# %% check="RunningMean"
devlab.check(RunningMean)

# %% [markdown]
# ## `class SinusoidalPositions(n, d)`
#
# This is the positional encoding of the first transformer. Every step *t*, counted from 0, gets its own pattern of d
# numbers, and d is even. Column *2i* holds sin(*t* / 10000^(*2i* / d)), and column *2i* + 1 the cosine of the same
# angle.
#
# - A buffer named `table` holds the pattern for n steps. It is made once, and it is **not** saved: n and d say all
#   that is in it.
# - `forward(x)` takes x of shape (batch, time, d), where time is at most n. To each row of the batch it adds the
#   first rows of the table, and returns the result on x's device **and in x's dtype**: a float16 x gives a float16
#   result, a float64 x a float64 one.
# - x itself stays as it is, and so does the table, its dtype included. The result keeps the graph of x, so that
#   layers before this one can learn.
#
# Needed: [Saved or not saved](../notebooks/05_buffers.ipynb#Saved-or-not-saved) and [The dtype is half of
# it](../notebooks/05_buffers.ipynb#The-dtype-is-half-of-it)


# %% exercise="SinusoidalPositions"
class SinusoidalPositions(nn.Module):
    """Adds a fixed pattern of sines and cosines to every step."""

    def __init__(self, n: int, d: int):
        super().__init__()
        ### BEGIN SOLUTION
        rates = 10000 ** (-torch.arange(0, d, 2) / d)
        angles = torch.arange(n)[:, None] * rates
        pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)  # (n, d / 2, 2)
        self.register_buffer("table", pairs.flatten(1), persistent=False)
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x, of shape (batch, time, d), plus the encoding of its steps."""
        ### BEGIN SOLUTION
        return x + self.table[: x.shape[1]].to(x.dtype)
        ### END SOLUTION


# %% check="SinusoidalPositions"
devlab.check(SinusoidalPositions)

# %% [markdown]
# ## `mask_like(x, lengths)`
#
# Sequences of different lengths are padded to fit into one tensor. Tell which part of it is real.
#
# x has the shape (batch, time, features) and any dtype. `lengths` is a one-dimensional tensor with an
# integer between 0 and time for each row. It is in `uint8` or a signed integer dtype, and may be **on any
# device**, whichever x is on. Return a boolean tensor of shape (batch, time) on x's device: `True` for the
# first `lengths[i]` steps of row i, `False` beyond. Nothing depends on the contents of x.
#
# Needed: [Made inside forward](../notebooks/05_buffers.ipynb#Made-inside-forward)


# %% exercise="mask_like"
def mask_like(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Return a (batch, time) mask on x's device, True inside each row's length."""
    ### BEGIN SOLUTION
    steps = torch.arange(x.shape[1], device=x.device)
    return steps < lengths.to(x.device)[:, None]
    ### END SOLUTION


# %% check="mask_like"
devlab.check(mask_like)

# %% [markdown]
# ## `add_noise(x, scale)`
#
# Return x plus normal noise of mean 0 and standard deviation `scale`, drawn anew for every element and at every call.
# x is a floating tensor of any shape (a single number, too) and any dtype, on any device. The result has x's shape,
# dtype and device, and x stays as it is. `scale` is a Python number; with 0 the result has the values of x.
#
# Needed: [Like the input](../notebooks/05_buffers.ipynb#Like-the-input)


# %% exercise="add_noise"
def add_noise(x: torch.Tensor, scale: float) -> torch.Tensor:
    """Return x plus normal noise of standard deviation scale."""
    ### BEGIN SOLUTION
    return x + scale * torch.randn_like(x)
    ### END SOLUTION


# %% check="add_noise"
devlab.check(add_noise)

# %% [markdown]
# ## `append_ones(x)`
#
# Return x with one more column, filled with ones, at the end of its last dimension. Shape (…, k) becomes (…, k + 1),
# and k is at least 1.
#
# - x has one dimension or more, and any dtype of numbers, integers and complex numbers among them. It may hold inf
#   or nan, and the new column holds ones all the same. Any dimension but the last may be 0, as in an empty batch of
#   shape (0, k).
# - The result is on x's device and has x's dtype. x's numbers keep all their digits, and x stays as it is.
#
# Needed: [Like the input](../notebooks/05_buffers.ipynb#Like-the-input)


# %% exercise="append_ones"
def append_ones(x: torch.Tensor) -> torch.Tensor:
    """Return x with a column of ones after its last one."""
    ### BEGIN SOLUTION
    ones = x.new_ones(*x.shape[:-1], 1)
    return torch.cat([x, ones], dim=-1)
    ### END SOLUTION


# %% check="append_ones"
devlab.check(append_ones)

# %% [markdown]
# ## `left_behind(module)`
#
# Write the tool that finds the mistake before the error does. Return a list of names (`str`, in any order), one for
# each tensor that the module holds, directly or inside something, and that `module.to(...)` will **not** move.
#
# - Plain attributes count, in the module and in its submodules, with dotted names: `scale`, `encoder.1.scale`. Names
#   that begin with `_` count, too.
# - Lists, tuples and dicts are looked into, however deep, and the name goes on with the place or the key: `tables.0`,
#   `cache.key`, `cache.deep.0`. (A namedtuple's items may be named by place or by field.)
# - A module that is kept in a plain list, tuple or dict, and nowhere else, is not registered. So everything it holds
#   stays behind, its parameters, buffers and plain attributes: `blocks.0.weight`.
# - What moves is not listed: parameters and buffers of registered modules, saved or not.
# - A registered **parameter** that a list or an attribute holds *as well* moves, and is not listed: `.to` gives the
#   same object other memory (`nn.GRU` keeps such a list). With a registered **buffer** it is otherwise: `.to` puts a
#   new tensor in its place, and the list still holds the old one. That one stays behind, and is listed under the
#   list's name.
# - A tensor that stays behind and has two names is listed once, under either of them. Two tensors that
#   share memory are two.
# - The names are a fact about the module, wherever it is at the moment. Look at it only: nothing may move or change.
#
# `vars(part)` of a module holds all its attributes. The registered ones stand in three dicts among them,
# `_parameters`, `_buffers` and `_modules`. Let a helper yield a name and a tensor for each tensor that stays behind.
# Here the names are enough, but `find_strays` of lesson 10 will ask where each of these tensors is.
#
# Needed: [What stays behind](../notebooks/05_buffers.ipynb#What-stays-behind)


# %% exercise="left_behind"
def left_behind(module: nn.Module) -> list[str]:
    """Return the dotted names of the tensors that `.to` will not move."""
    ### BEGIN SOLUTION
    registered = {"_parameters", "_buffers", "_modules"}
    parts = set(module.modules())
    seen = {id(parameter) for parameter in module.parameters()}

    def attributes(part):
        return {key: value for key, value in vars(part).items() if key not in registered}

    def loose(name, value):
        if isinstance(value, torch.Tensor) and id(value) not in seen:
            seen.add(id(value))
            yield name, value
        elif isinstance(value, nn.Module) and value not in parts:
            held = attributes(value) | value._parameters | value._buffers | value._modules
            yield from loose(name, held)
        elif isinstance(value, (list, tuple)):
            yield from loose(name, dict(enumerate(value)))
        elif isinstance(value, dict):
            for key, item in value.items():
                yield from loose(f"{name}.{key}" if name else str(key), item)

    return [name for path, part in module.named_modules() for name, _ in loose(path, attributes(part))]
    ### END SOLUTION


# %% check="left_behind"
devlab.check(left_behind)

# %% [markdown]
# ## `model_device(model)`
#
# A module has no attribute `device`, because its tensors may be in several places. Return the one place where this
# model is, as a `torch.device` with its index, or say that there is no one place.
#
# - If all its parameters are on one device, return that one. Frozen parameters count, and buffers do not matter.
# - If they are on several, raise a `ValueError` whose text names two of the devices and, for each of the two, a
#   parameter that is there: `encoder.weight is on cpu, head.weight is on cuda:0`. Two indices of one kind are two
#   devices.
# - If the model has no parameters at all, the same two rules hold for its buffers, saved or not.
# - If it has neither, return the CPU.
#
# Needed: [Where is the model](../notebooks/05_buffers.ipynb#Where-is-the-model)


# %% exercise="model_device"
def model_device(model: nn.Module) -> torch.device:
    """Return the device that the whole model is on; raise ValueError where it is on several."""
    ### BEGIN SOLUTION
    tensors = list(model.named_parameters()) or list(model.named_buffers())
    if not tensors:
        return torch.device("cpu")
    first_name, first = tensors[0]
    for name, tensor in tensors:
        if tensor.device != first.device:
            raise ValueError(f"{first_name} is on {first.device}, {name} is on {tensor.device}")
    return first.device
    ### END SOLUTION


# %% check="model_device"
devlab.check(model_device)

# %% [markdown]
# All eight passed? `left_behind` and `model_device` are worth keeping: paste them into the next program that fails
# on a GPU. Go on to [06 Sharing memory with NumPy](../notebooks/06_numpy_sharing.ipynb). `devlab.progress()` shows
# where you stand.
