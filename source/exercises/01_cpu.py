# %% [markdown]
# # 01 The CPU: exercises
#
# Five functions that load a table, prepare it, count its bytes in two ways, and find out where a batch is. The lesson
# is [01 The CPU](../notebooks/01_cpu.ipynb).
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
# - It is `float32`, even where all numbers are whole, and **whatever the default dtype is**. Make it in `float32` from
#   the start: numbers that went through `float16` and were widened afterwards have lost digits.
# - It is on the CPU, **whatever the default device is**. Another part of the program may have called
#   `torch.set_default_device` before it calls your function.
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
# Return x with every column brought to mean 0 and standard deviation 1: from each number the mean of its column is taken
# away, and the rest is divided by the standard deviation of that column. x has the shape (rows, columns), with at least
# two rows, and a floating dtype: `float16`, `bfloat16`, `float32` or `float64`.
#
# - The deviation is PyTorch's default one, the *sample* standard deviation, which divides by n - 1: `x.std(0)`.
# - A column whose deviation is 0, with the same number in every row, becomes zeros. (Rounding can leave a column of
#   0.1 a deviation that is not quite 0. That is another subject, and not judged here.)
# - The result has x's shape, x's dtype and x's device. In `float64` it has the precision of `float64`.
# - Leave x as it is.
#
# Values are judged to three digits, in half precision to two. If you add an epsilon to the denominator, up to `1e-5`
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
# Return how many bytes the elements of x take when they are written out side by side, as an `int`. This is what a fresh
# copy of x would need.
#
# - x may have any dtype and any shape. It may be empty, a single number, a parameter or a view.
# - Of a view, only its own elements count. Of an expanded view, each element that it shows counts, as often as it is
#   shown.
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
# Return how many bytes the storage behind x has, as an `int`. This is all the memory that stays in use as long as x
# exists.
#
# - For a tensor that has its memory to itself, this is the same as `tensor_bytes(x)`.
# - For a view it is the whole storage that the view looks into, also where the view is empty, and also
#   where it was cut from a bigger tensor and then detached.
# - For an expanded view it is less than it seems.
#
# Needed: [What a view takes](../notebooks/01_cpu.ipynb#What-a-view-takes)


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
# - The batch may be a tensor itself, or dicts, lists and tuples inside one another, at any depth. Named tuples are
#   tuples. Of a dict the values count, and not the keys.
# - Any other value is passed over, whatever it is: numbers, texts, `None` and NumPy arrays, but also sets, modules and
#   other objects, even where they hold tensors.
# - Where there is no tensor at all, the answer is an empty set.
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
