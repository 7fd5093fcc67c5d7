# %% [markdown]
# # 06 Sharing memory with NumPy: exercises
#
# Six functions on the border between two libraries: out to NumPy, in from NumPy, and a tool that tells
# whether anything was copied. The lesson is
# [06 Sharing memory with NumPy](../notebooks/06_numpy_sharing.ipynb).
#
# Write your answer in place of `raise NotImplementedError("your code here")`, run the cell, then run the
# check below it. If you are stuck, `devlab.hint(to_numpy)` helps.

# %%
import numpy as np
import torch

import devlab

device = devlab.start()

# %% [markdown]
# ## `to_numpy(x)`
#
# Return a tensor as a NumPy array.
#
# - x has one of NumPy's dtypes or `bfloat16`. It is not sparse, and PyTorch has not put off a conjugation
#   or a change of sign, as it does in `z.conj()`.
# - x may be on any device, may require a gradient or be computed from something that does, may be a view,
#   a single number (the array then has no dimensions) or empty.
# - The array has x's shape, x's values and x's dtype. NumPy has no `bfloat16`: those come as `float32`.
#   Every other dtype stays what it is, `float16` too.
# - x stays as it is: its device, its gradient, its graph.
# - The array is complete when you return it. Whether it shares x's memory or is a copy is up to you.
#
# Needed: [The array on the CPU](../notebooks/06_numpy_sharing.ipynb#The-array-on-the-CPU), [Off the
# graph](../notebooks/06_numpy_sharing.ipynb#Off-the-graph) and [What cannot
# cross](../notebooks/06_numpy_sharing.ipynb#What-cannot-cross)


# %% exercise="to_numpy"
def to_numpy(x: torch.Tensor) -> np.ndarray:
    """Return x as an array: any device, any graph, bfloat16 as float32."""
    ### BEGIN SOLUTION
    x = x.detach()
    if x.dtype == torch.bfloat16:
        x = x.float()
    return x.cpu().numpy()
    ### END SOLUTION


# %% check="to_numpy"
devlab.check(to_numpy)

# %% [markdown]
# ## `shares_memory(t, a)`
#
# Tell whether the tensor t and the array a share memory: return `True` where at least one element of t and one
# element of a are stored in the same place, so that a write to one would show in the other, and `False` otherwise.
#
# - A partial overlap is enough. Shapes and dtypes of the two may differ.
# - Equal numbers in two places are not shared. Neither are neighbours: two parts of one array that have no
#   element in common, such as its first and its second half, or its even and its odd places.
# - An empty tensor or array shares nothing. A tensor on an accelerator shares nothing with NumPy.
# - t may require a gradient, and has a dtype that NumPy knows. a may be a view with any strides, negative
#   ones too, and may be read-only.
# - Neither is changed, not even for a moment.
#
# Needed: [How to tell](../notebooks/06_numpy_sharing.ipynb#How-to-tell)


# %% exercise="shares_memory"
def shares_memory(t: torch.Tensor, a: np.ndarray) -> bool:
    """Return whether some element of t is stored where some element of a is."""
    ### BEGIN SOLUTION
    if t.device.type != "cpu":
        return False
    return np.shares_memory(t.detach().numpy(), a)
    ### END SOLUTION


# %% check="shares_memory"
devlab.check(shares_memory)

# %% [markdown]
# ## `sharing_tensor(a)`
#
# Return a CPU tensor over the array's own memory, so that a change in either shows in the other.
#
# - It has a's shape, a's dtype and a's numbers, and does not require a gradient.
# - a has one dimension or more, and may be a slice, a transposed array, an array with steps, or an empty one.
#   It may be written to.
# - Nothing is ever copied: where the array has negative strides, no tensor can share its memory, and the
#   function raises a `ValueError` whose text contains the word *negative*.
# - One line may be enough: find out what PyTorch's own functions do. (Leave out `torch.from_dlpack`: in torch
#   2.13 it ends the whole Python process for negative strides. While a check runs, it raises a `BufferError`.)
#
# Needed: [Which share and which copy](../notebooks/06_numpy_sharing.ipynb#Which-share-and-which-copy) and
# [What cannot cross](../notebooks/06_numpy_sharing.ipynb#What-cannot-cross)


# %% exercise="sharing_tensor"
def sharing_tensor(a: np.ndarray) -> torch.Tensor:
    """Return a tensor over a's memory; raise ValueError for negative strides."""
    ### BEGIN SOLUTION
    return torch.from_numpy(a)  # its own ValueError names the negative strides
    ### END SOLUTION


# %% check="sharing_tensor"
devlab.check(sharing_tensor)

# %% [markdown]
# ## `independent_tensor(a)`
#
# Return a CPU tensor that has nothing to do with the array any more: a change in either does not show in
# the other.
#
# - It has a's shape, a's dtype and a's numbers, and does not require a gradient.
# - a has one dimension or more, and may be any view, **with negative strides too**, may be empty, and may be
#   read-only. It stays as it is.
#
# Needed: [Which share and which copy](../notebooks/06_numpy_sharing.ipynb#Which-share-and-which-copy) and
# [What cannot cross](../notebooks/06_numpy_sharing.ipynb#What-cannot-cross)


# %% exercise="independent_tensor"
def independent_tensor(a: np.ndarray) -> torch.Tensor:
    """Return a tensor with a's numbers in memory of its own."""
    ### BEGIN SOLUTION
    return torch.from_numpy(a.copy())
    ### END SOLUTION


# %% check="independent_tensor"
devlab.check(independent_tensor)

# %% [markdown]
# ## `scale_in_place(a, k)`
#
# Multiply every element of the array by k, in the array itself, with PyTorch doing the work through a
# tensor over the array's memory.
#
# - The function returns nothing. Every name for the array, or for a view of it, shows the new numbers.
# - Only a's own elements change. Where a is a slice, its neighbours in memory stay what they are.
# - Nothing is copied. The bytes of all other tensors that are made are counted: together they stay below
#   half of the array's own.
# - a has one dimension or more, may be empty, may be written to, and has no negative strides. Its dtype
#   stays. k is an `int` where a holds integers, and an `int` or a `float` where it holds floats.
#
# Needed: [Work in place](../notebooks/06_numpy_sharing.ipynb#Work-in-place)


# %% exercise="scale_in_place"
def scale_in_place(a: np.ndarray, k: int | float) -> None:
    """Multiply a by k in place, through a tensor that shares its memory."""
    ### BEGIN SOLUTION
    torch.from_numpy(a).mul_(k)
    ### END SOLUTION


# %% check="scale_in_place"
devlab.check(scale_in_place)

# %% [markdown]
# ## `history(losses)`
#
# After an epoch there is a list of losses, which you want to plot. Return them as one array.
#
# - `losses` is a list of at least one tensor, each a single number (no dimensions) in `float32`, all on one
#   device, which may be any. Most of them hold a graph. A loss may be nan.
# - The array has one dimension and one number for each loss, in order, in `float32` or `float64`.
# - When the list is gone, **no graph may stay in memory** because of your function or its result.
# - The list and the losses stay as they are, so that `backward` may still be called on them.
#
# How often your function waits for the device is not judged. Think about it all the same: once is
# enough.
#
# Needed: [An epoch in one array](../notebooks/06_numpy_sharing.ipynb#An-epoch-in-one-array)


# %% exercise="history"
def history(losses: list[torch.Tensor]) -> np.ndarray:
    """Return the losses as one array, without their graphs."""
    ### BEGIN SOLUTION
    return torch.stack(losses).detach().cpu().numpy()
    ### END SOLUTION


# %% check="history"
devlab.check(history)

# %% [markdown]
# `shares_memory` and `to_numpy` are worth keeping. Lesson
# [07 Asynchrony](../notebooks/07_asynchrony.ipynb) comes next. `devlab.progress()` shows where you stand.
