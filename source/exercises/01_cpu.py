# %% [markdown]
# # 01 The CPU: exercises
#
# Five functions: load a table, prepare it, count its bytes, and find out where a batch is. The lesson is
# [01 The CPU](../notebooks/01_cpu.ipynb).
#
# Write your answer in place of `raise NotImplementedError("your code here")`, run the cell, then run the
# check below it. Stuck? `devlab.hint(load_table)`.

# %%
import torch

import devlab

device = devlab.start()

# %% [markdown]
# ## `load_table(rows)`
#
# Turn a table, given as a list of rows, into a tensor. Each row is a list of numbers, and all rows have the
# same length. There is at least one row and at least one column.
#
# - The result has the shape (rows, columns), and every number is in its place.
# - It is `float32`, also where all numbers are whole, and **whatever the default dtype is**. What was made in
#   float16 and widened afterwards has lost digits.
# - It is on the CPU, **whatever the default device is**. Another part of the program may have called
#   `torch.set_default_device` before you are called.
# - Leave the lists as they are, and those two settings too.
#
# Needed: [A default is a setting](../notebooks/01_cpu.ipynb#A-default-is-a-setting)


# %% exercise="load_table"
def load_table(rows: list[list[float]]) -> torch.Tensor:
    """Return the rows as a float32 tensor on the CPU."""
    ### BEGIN SOLUTION
    return torch.tensor(rows, dtype=torch.float32, device="cpu")
    ### END SOLUTION


# %% check="load_table"
devlab.check(load_table)

# %% [markdown]
# ## `standardize(x)`
#
# Return x with every column at mean 0 and standard deviation 1. x has the shape (rows, columns), with at
# least two rows, and is of a floating dtype: `float16`, `bfloat16`, `float32` or `float64`.
#
# - The deviation is PyTorch's default one, the *sample* standard deviation (it divides by n - 1).
# - A column whose deviation is 0, with one number in every row, becomes zeros. (Rounding can leave a column of
#   0.1 a deviation that is not quite 0. That is another subject, and not judged here.)
# - The result has x's shape, x's dtype and x's device. `float64` keeps its precision.
# - x stays as it is.
#
# Values are judged to three digits, in half precision to two. An epsilon up to `1e-5` in the denominator
# does no harm, as long as x's dtype can hold it.
#
# Needed: [Prepare, then move](../notebooks/01_cpu.ipynb#Prepare,-then-move) and [Helpers follow the
# data](../notebooks/01_cpu.ipynb#Helpers-follow-the-data)


# %% exercise="standardize"
def standardize(x: torch.Tensor) -> torch.Tensor:
    """Return x with mean 0 and deviation 1 in each column; a constant column becomes zeros."""
    ### BEGIN SOLUTION
    deviation = x.std(0)
    return (x - x.mean(0)) / torch.where(deviation == 0, 1, deviation)
    ### END SOLUTION


# %% check="standardize"
devlab.check(standardize)

# %% [markdown]
# ## `tensor_bytes(x)`
#
# Return how many bytes the elements of x take, written out side by side, as an `int`. This is what a fresh
# copy of x would need.
#
# - x may have any dtype and any shape. It may be empty, a single number, a parameter, a view.
# - Of a view, only its own elements count. An expanded view counts each element that it shows.
#
# Needed: [How many bytes](../notebooks/01_cpu.ipynb#How-many-bytes)


# %% exercise="tensor_bytes"
def tensor_bytes(x: torch.Tensor) -> int:
    """Return the bytes that the elements of x take side by side."""
    ### BEGIN SOLUTION
    return x.numel() * x.element_size()
    ### END SOLUTION


# %% check="tensor_bytes"
devlab.check(tensor_bytes)

# %% [markdown]
# ## `storage_bytes(x)`
#
# Return how many bytes the storage behind x has, as an `int`: all the memory that stays in use as long as x
# exists.
#
# - For a tensor that has its memory to itself, this is the same as `tensor_bytes(x)`.
# - For a view it is the whole storage that the view looks into, also where the view is empty, and also
#   where it was cut from a bigger tensor and then detached.
# - For an expanded view it is less than it seems.
#
# Needed: [A view keeps the whole storage](../notebooks/01_cpu.ipynb#A-view-keeps-the-whole-storage)


# %% exercise="storage_bytes"
def storage_bytes(x: torch.Tensor) -> int:
    """Return the bytes of the storage behind x."""
    ### BEGIN SOLUTION
    return x.untyped_storage().nbytes()
    ### END SOLUTION


# %% check="storage_bytes"
devlab.check(storage_bytes)

# %% [markdown]
# ## `places(batch)`
#
# Return the set of devices that the tensors of a batch are on, each as a `torch.device`.
#
# - The batch may be a tensor itself, or dicts, lists and tuples in one another, at any depth. Named tuples
#   are tuples. Of a dict, the values count.
# - Any other value is passed over, whatever it is: numbers, texts, `None`, NumPy arrays; also sets, modules and
#   other objects, even where they hold tensors.
# - No tensor inside, no device: an empty set.
#
# Needed: [Where is this batch](../notebooks/01_cpu.ipynb#Where-is-this-batch)


# %% exercise="places"
def places(batch) -> set[torch.device]:
    """Return the devices of all tensors in a nested batch."""
    ### BEGIN SOLUTION
    if isinstance(batch, torch.Tensor):
        return {batch.device}
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, list | tuple):
        return set().union(*(places(item) for item in batch))
    return set()
    ### END SOLUTION


# %% check="places"
devlab.check(places)

# %% [markdown]
# All five passed? Then on to [02 CUDA](../notebooks/02_cuda.ipynb). `devlab.progress()` shows where you
# stand.
