# %% [markdown]
# # 02 CUDA: exercises
#
# Six functions: choose a device, list the GPUs, resolve a name, make a tensor in its place, add two tensors from
# anywhere, and say why there is no CUDA. The lesson is [02 CUDA](../notebooks/02_cuda.ipynb).
#
# **You do not need a GPU.** Some checks need another machine than yours, one without a GPU or one with three. They
# *pretend* it: while your function runs, `torch.cuda` and `torch.accelerator` answer as they would there, and tensors can
# be made there. You may ask in any way you like. A pretended GPU has no streams, events or generators. Where a verdict
# is about a pretended machine, it says so.
#
# Write your answer in place of `raise NotImplementedError("your code here")`, run the cell, then run the check below
# it. If you are stuck, `devlab.hint(pick_cuda_or_cpu)` gives a first hint.

# %%
import torch

import devlab

device = devlab.start()

# %% [markdown]
# ## `pick_cuda_or_cpu()`
#
# Return the device to work with, as a `torch.device`: CUDA where it can be used, and the CPU everywhere else.
#
# - The index may be there or not: `cuda` and `cuda:0` are both right, as long as that GPU exists.
# - The function is judged on several pretended machines, one after another. Its answer has to fit the machine **at the
#   time of the call**.
# - On a machine without a GPU the answer is the CPU, also where PyTorch was built for CUDA. On a Mac it is the CPU too.
#
# Needed: [The safe choice](../notebooks/02_cuda.ipynb#The-safe-choice)


# %% exercise="pick_cuda_or_cpu"
def pick_cuda_or_cpu() -> torch.device:
    """Return CUDA where it is available, else the CPU."""
    ### BEGIN SOLUTION
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ### END SOLUTION


# %% check="pick_cuda_or_cpu"
devlab.check(pick_cuda_or_cpu)

# %% [markdown]
# ## `list_gpus()`
#
# Return a list with one tuple for each GPU that CUDA can use: its index, an `int`, and its name, a `str`. The list is in
# the order of the indices. For two GPUs it is `[(0, "NVIDIA H100 PCIe"), (1, "NVIDIA L4")]`.
#
# - Where there is no GPU, the list is empty, and no error is raised.
# - Two GPUs may have the same name, and each has its own entry.
# - The name is the one that PyTorch gives the GPU.
#
# Needed: [Which ones are here](../notebooks/02_cuda.ipynb#Which-ones-are-here)


# %% exercise="list_gpus"
def list_gpus() -> list[tuple[int, str]]:
    """Return index and name of every GPU that CUDA can use."""
    ### BEGIN SOLUTION
    return [(index, torch.cuda.get_device_name(index)) for index in range(torch.cuda.device_count())]
    ### END SOLUTION


# %% check="list_gpus"
devlab.check(list_gpus)

# %% [markdown]
# ## `resolve(spec)`
#
# `spec` is the name of a device. Return the one device that it means, as a `torch.device`.
#
# - A name with an index, such as `"cuda:1"`, means that device.
# - A bare name, such as `"cuda"`, means the device of that kind that is **current at the time of the call**, and
#   the answer carries its index. This holds for any kind of accelerator: `"mps"` and `"sim"` too.
# - The CPU has one memory and needs no index: `"cpu"` and `"cpu:0"` give the CPU, and `device("cpu")` and
#   `device("cpu:0")` are equally right.
# - Which device is current and which is the default is afterwards as it was before.
# - Every name that is asked about is that of a device that is there.
#
# Needed: [The current device](../notebooks/02_cuda.ipynb#The-current-device)


# %% exercise="resolve"
def resolve(spec: str) -> torch.device:
    """Return the device that a name means, with its index."""
    ### BEGIN SOLUTION
    named = torch.device(spec)
    if named.type == "cpu":
        return named
    return torch.empty(0, device=named).device
    ### END SOLUTION


# %% check="resolve"
devlab.check(resolve)

# %% [markdown]
# ## `make_on(shape, device, dtype)`
#
# Return a new tensor of zeros. `shape` is a tuple of one or more sizes, `device` a `torch.device` with its index,
# `dtype` a `torch.dtype`.
#
# - It is **made on that device**, and nothing is transferred from another one. Transfers are counted.
# - Each call returns a tensor of its own, with memory for every element.
# - PyTorch's settings (default device, default dtype, current device) are afterwards what they were before.
#
# Needed: [Made there](../notebooks/02_cuda.ipynb#Made-there)


# %% exercise="make_on"
def make_on(shape: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Return zeros of a shape and dtype, made on the device."""
    ### BEGIN SOLUTION
    return torch.zeros(shape, device=device, dtype=dtype)
    ### END SOLUTION


# %% check="make_on"
devlab.check(make_on)

# %% [markdown]
# ## `add_anywhere(x, y)`
#
# Return `x + y` for two tensors that may be on one device or on two.
#
# - The sum is **on x's device**, always, also where x or y is a single number (a tensor without dimensions).
# - Shape, dtype and values are what `x + y` gives where both are on one device: PyTorch's rules for different shapes and
#   dtypes hold. y keeps its dtype until the sum.
# - x is not transferred. y is transferred at most once, straight to x's device, and not at all if it is there already.
#   Transfers are counted.
# - x and y themselves stay as they are.
#
# Needed: [Bring one to the other](../notebooks/02_cuda.ipynb#Bring-one-to-the-other) and [What may
# meet](../notebooks/02_cuda.ipynb#What-may-meet)


# %% exercise="add_anywhere"
def add_anywhere(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x + y on x's device, wherever y is."""
    ### BEGIN SOLUTION
    return x + y.to(x.device)
    ### END SOLUTION


# %% check="add_anywhere"
devlab.check(add_anywhere)

# %% [markdown]
# ## `why_no_cuda(facts)`
#
# A program does not find the GPU. You are given four facts about its machine, in a dict that always has all four keys, in
# any order:
#
# | key | value |
# |---|---|
# | `"build"` | what PyTorch was built for: `"cuda"` or `"cpu"` |
# | `"gpu"` | `True` if there is an NVIDIA GPU in the machine, else `False` |
# | `"driver"` | `True` if its driver works, else `False` |
# | `"visible"` | the text of `CUDA_VISIBLE_DEVICES`, or `None` where the variable is not set |
#
# Return the **first** cause that holds, in this order and in exactly these words:
#
# 1. `"cpu-only build"`
# 2. `"no GPU"`
# 3. `"no driver"`
# 4. `"hidden"`: `CUDA_VISIBLE_DEVICES` is `""` or `"-1"`. Every other text that is asked about shows at least one GPU, and
#    so does `None`.
#
# If none holds, the answer is `"available"`. It follows from the facts alone, whatever the machine is on which your function
# runs. The dict stays as it is. All combinations of the facts are asked about, impossible ones included, such as a driver that
# works without a GPU.
#
# Needed: [Why there is none](../notebooks/02_cuda.ipynb#Why-there-is-none)


# %% exercise="why_no_cuda"
def why_no_cuda(facts: dict) -> str:
    """Return the first cause why CUDA cannot be used, or "available"."""
    ### BEGIN SOLUTION
    if facts["build"] == "cpu":
        return "cpu-only build"
    if not facts["gpu"]:
        return "no GPU"
    if not facts["driver"]:
        return "no driver"
    if facts["visible"] in ("", "-1"):
        return "hidden"
    return "available"
    ### END SOLUTION


# %% check="why_no_cuda"
devlab.check(why_no_cuda)

# %% [markdown]
# When all six have passed, go on to [03 MPS](../notebooks/03_mps.ipynb). `devlab.progress()` shows where you stand.
