# %% [markdown]
# # 03 MPS and other accelerators: exercises
#
# Five functions that work on any machine: two that choose a device, one that finds a dtype it has, one that
# works around an operator it lacks, and one that draws the same random numbers everywhere. The lesson is [03
# MPS and other accelerators](../notebooks/03_mps.ipynb).
#
# **You do not need a Mac.** Some checks need another machine than yours, and *pretend* it: while your
# function runs, `torch.cuda`, `torch.backends.mps`, `torch.xpu` and `torch.accelerator` answer as they would
# there. Rows that say *under Apple's rules* run on your accelerator, real or simulated, while it follows
# MPS's rules: it has no float64, and lacks some operators. A Mac's own GPU follows them anyway. In the
# verdict these rows have a tick for one accelerator only, since a Mac has one GPU.

# %%
import torch

import devlab

device = devlab.start()

# %% [markdown]
# ## `current_accelerator_or_cpu()`
#
# Return the accelerator that is here, **whatever its kind**, and the CPU where there is none. Ask
# `torch.accelerator`. The answer is a `torch.device` in both cases.
#
# - The index may be there or not, as long as that device exists: `mps` and `mps:0` are both right.
# - Where PyTorch was *built* for an accelerator and the machine has none, the answer is the CPU.
# - The function is judged on several pretended machines, one after another. The answer has to fit the machine
#   **at the time of the call**.
#
# Needed: [One door](../notebooks/03_mps.ipynb#One-door)


# %% exercise="current_accelerator_or_cpu"
def current_accelerator_or_cpu() -> torch.device:
    """Return the accelerator that is here, of any kind, else the CPU."""
    ### BEGIN SOLUTION
    if torch.accelerator.is_available():
        return torch.accelerator.current_accelerator()
    return torch.device("cpu")
    ### END SOLUTION


# %% check="current_accelerator_or_cpu"
devlab.check(current_accelerator_or_cpu)

# %% [markdown]
# ## `choose_device()`
#
# This is the same question, answered by the ladder: CUDA where it is available, else MPS where that is
# available, else the CPU. Return a `torch.device`.
#
# - Nothing else is on this ladder. On a machine whose accelerator is of a third kind (`xpu`, or the simulated
#   one) the answer is the CPU.
# - As before, the function is judged on pretended machines. One of them has both CUDA and MPS, which no real
#   machine does. On some, PyTorch was built for CUDA or MPS and cannot use it.
#
# Needed: [Two questions about MPS](../notebooks/03_mps.ipynb#Two-questions-about-MPS) and [The
# ladder](../notebooks/03_mps.ipynb#The-ladder)


# %% exercise="choose_device"
def choose_device() -> torch.device:
    """Return CUDA, MPS or the CPU: the first that is available."""
    ### BEGIN SOLUTION
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")
    ### END SOLUTION


# %% check="choose_device"
devlab.check(choose_device)

# %% [markdown]
# ## `supported_dtype(dtype, device)`
#
# A program wants tensors of this `dtype` on this `device`. Return the `torch.dtype` that it should use:
# `torch.float32` if it wants `torch.float64` and **the device has none**, and otherwise the dtype that it
# wants.
#
# - MPS is not the only kind without float64, so a list of names will not do. The simulated accelerator has
#   float64, and under Apple's rules it has none. Ask the device. MPS refuses float64 with a `TypeError`, and
#   so do Apple's rules. Some of Intel's GPUs refuse it with a `RuntimeError`, perhaps only when they have to
#   compute.
# - The rules may change while a program runs, so what counts is what the device has at the time of the call.
# - Every other dtype comes back as it is, on every device. You are asked about complex dtypes on the CPU
#   only.
# - `device` is a `torch.device` that is here, an accelerator or the CPU.
#
# Needed: [No float64](../notebooks/03_mps.ipynb#No-float64)


# %% exercise="supported_dtype"
def supported_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """Return the dtype, or float32 in place of a float64 that the device lacks."""
    ### BEGIN SOLUTION
    if dtype != torch.float64:
        return dtype
    try:
        torch.ones(1, dtype=dtype, device=device).add(1)
    except (TypeError, RuntimeError):
        return torch.float32
    return dtype
    ### END SOLUTION


# %% check="supported_dtype"
devlab.check(supported_dtype)

# %% [markdown]
# ## `with_fallback(op, x)`
#
# `op` is a function that takes a tensor and returns a tensor. Return `op(x)`, **on x's device**, even where
# that device lacks an operator that `op` needs.
#
# - Run `op` where x is. If that works, it runs once, and nothing is transferred. Calls and transfers are
#   counted.
# - If it raises PyTorch's `NotImplementedError`, run it on the CPU, and bring the result back to x's device.
# - Every other exception is a real mistake and passes through: it reaches the caller as it is, and `op` is
#   not tried again.
# - If `op` then raises on the CPU, that exception passes through as well, even when it is a
#   `NotImplementedError`; there is no third try. (Where x itself is on the CPU, a second try gains nothing.
#   You may leave it out or make it.)
# - An operator that is missing for one x may exist for the next, so the device is tried at every call.
#
# Needed: [Missing operators](../notebooks/03_mps.ipynb#Missing-operators) and [Working around
# a gap](../notebooks/03_mps.ipynb#Working-around-a-gap)


# %% exercise="with_fallback"
def with_fallback(op, x: torch.Tensor) -> torch.Tensor:
    """Return op(x) on x's device, computed on the CPU where the device lacks an operator."""
    ### BEGIN SOLUTION
    try:
        return op(x)
    except NotImplementedError:
        return op(x.cpu()).to(x.device)
    ### END SOLUTION


# %% check="with_fallback"
devlab.check(with_fallback)

# %% [markdown]
# ## `portable_randn(shape, device, seed)`
#
# Return a tensor of random numbers on `device`, in float32, normally distributed with mean 0 and standard
# deviation 1. `shape` is a tuple of one or more sizes, and `seed` an integer from 0 to 2**32 - 1.
#
# - One seed gives **the same numbers on every device**, and the same again at every call, whatever was drawn
#   in between.
# - Another seed gives other numbers.
# - Which numbers a seed gives is up to you. Each call returns a tensor of its own, which the caller may
#   change.
#
# Needed: [The same numbers everywhere](../notebooks/03_mps.ipynb#The-same-numbers-everywhere)


# %% exercise="portable_randn"
def portable_randn(shape: tuple[int, ...], device: torch.device, seed: int) -> torch.Tensor:
    """Return normal random numbers, the same for one seed on every device."""
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(device)
    ### END SOLUTION


# %% check="portable_randn"
devlab.check(portable_randn)

# %% [markdown]
# When all five have passed, go on to [04 Transfers](../notebooks/04_transfers.ipynb). `devlab.progress()`
# shows where you stand.
