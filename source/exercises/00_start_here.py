# %% [markdown]
# # 00 Start here: exercises
#
# Two short functions about addresses. The lesson is [00 Start here](../notebooks/00_start_here.ipynb).
#
# Write your answer in place of `raise NotImplementedError("your code here")`, run the cell, then run the
# check below it. Stuck? `devlab.hint(device_of)`.

# %%
import torch

import devlab

device = devlab.start()

# %% [markdown]
# ## `device_of(x)`
#
# Return the device of the tensor `x`, as a `torch.device`. The answer must be right for every tensor on every device:
# of any dtype, an empty one, a single number, a view, a parameter. Leave `x` as it is.
#
# Needed: [A tensor has an address](../notebooks/00_start_here.ipynb#A-tensor-has-an-address)


# %% exercise="device_of"
def device_of(x: torch.Tensor) -> torch.device:
    """Return the device that x lives on."""
    ### BEGIN SOLUTION
    return x.device
    ### END SOLUTION


# %% check="device_of"
devlab.check(device_of)

# %% [markdown]
# ## `same_place(a, b)`
#
# Return `True` if `a` and `b` are at the same address, else `False`. Each of them may be a tensor, a `torch.device`,
# or a name such as `"cpu"` or `"cuda:0"`.
#
# - A bare name, such as `"cuda"` or `"sim"`, means the device of that kind that is chosen at the moment, the
#   *current* one, and so does a `torch.device` that was made from a bare name. It is the same place as `cuda:0`
#   or as `cuda:1`, whichever is current. The lesson shows what PyTorch makes of a bare name.
# - The CPU has one memory, so `"cpu"` and `"cpu:0"` are the same place.
# - Shapes, dtypes and values do not matter. Leave the inputs as they are, and the default device and the current
#   device of the program as well.
#
# Needed: [Two addresses](../notebooks/00_start_here.ipynb#Two-addresses)


# %% exercise="same_place"
def same_place(a, b) -> bool:
    """Tell whether two tensors, devices or names mean one place."""

    ### BEGIN SOLUTION
    def address(x):
        named = x.device if isinstance(x, torch.Tensor) else torch.device(x)
        if named.type == "cpu":
            return torch.device("cpu")
        return torch.empty(0, device=named).device

    return address(a) == address(b)
    ### END SOLUTION


# %% check="same_place"
devlab.check(same_place)

# %% [markdown]
# Both passed? Then on to [01 The CPU](../notebooks/01_cpu.ipynb). `devlab.progress()` shows where you stand.
