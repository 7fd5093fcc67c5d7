# %% [markdown]
# # 03 MPS and other accelerators
#
# The GPU of a Mac is not an NVIDIA GPU, and PyTorch calls it by another name: `mps`. Intel's GPUs are called
# `xpu`, and there are more kinds. A program that never names one of them runs on all, as long as it avoids
# what some of them lack.
#
# After this lesson you can choose a device on any machine, write code that does not care which one it got,
# and keep going when the device lacks a dtype or an operator.
#
# **Takes** about 20 minutes to read, and 25 for the tasks. **Needs** [02 CUDA](02_cuda.ipynb).

# %%
import numpy
import torch

import devlab

device = devlab.start()

# %% [markdown]
# None of these pages was run or measured on a Mac. What Apple's GPUs refuse can be refused here too: some
# cells run in a block `with devlab.apples_rules(device):`, where any accelerator lacks what MPS lacks. The
# block imitates only what MPS refuses, and not its speed, its rounding or its bugs. On a Mac it changes
# nothing, and on another maker's GPU its messages are shorter and say *pretended*.

# %% [markdown] facts=["I1"]
# ## A GPU beside the CPU
#
# **MPS** stands for *Metal Performance Shaders*, Apple's library for computing on its GPUs. PyTorch's device
# `"mps"` is the GPU of a Mac with Apple silicon: one of Apple's own chips, M1 or later, with a CPU and a GPU
# on it. For PyTorch a Mac has one GPU, number 0. Here is what your machine has, and what Apple's rules leave
# of it:

# %% facts=["I1"] tags=["nbval-ignore-output"]
print(torch.device("mps"), torch.device("mps:0"))
devlab.devices()
with devlab.apples_rules(device):
    print("under Apple's rules:")
    devlab.devices()

# %% [markdown] facts=["I1"]
# A graphics card has a memory of its own, and every transfer goes over a thin link. In Apple's chips, and in
# a few others, GPU and CPU use *the same* memory, which is called **unified**. These are the makers' figures;
# nothing in the table was measured here:
#
# | chip, as documented | memory | its bandwidth | its name in PyTorch | by |
# |---|---|---|---|---|
# | Apple M4 Max | up to 128 GB, unified | 546 GB/s | `mps` | Apple's press release of October 2024 |
# | NVIDIA GB10 (DGX Spark) | 128 GB, unified | 273 GB/s | `cuda` | NVIDIA's product page of DGX Spark |
# | AMD Ryzen AI Max+ 395 (Strix Halo) | up to 128 GB, unified | 256 GB/s | `cuda` | AMD's specification, 256 bits of LPDDR5x-8000 |
# | NVIDIA T4 | 16 GB, the GPU's own | 300 GB/s | `cuda` | NVIDIA's data sheet |
#
# What you gain is room: the GPU can use most of the computer's memory. On a Mac
# `torch.mps.recommended_max_memory()` says how much Apple recommends. PyTorch stops at 1.7 times that, which
# may be more than the machine has; then the Mac swaps and becomes slow.
# `torch.mps.set_per_process_memory_fraction(1.0)` makes it stop in time, with an error.
#
# With one memory for both, you might think that it does not matter whether a tensor is on `cpu` or on `mps`.

# %% facts=["I1"]
guess = devlab.predict(
    "On a Mac, what is the sum of a tensor on cpu and one on mps?",
    "a tensor on the CPU",
    "a tensor on the GPU",
    "an error",
)

# %% facts=["I1"]
with devlab.apples_rules(device):
    here = torch.ones(3)
    there = torch.ones(3, device=device)
    try:
        outcome = "a tensor on the CPU" if (here + there).is_cpu else "a tensor on the GPU"
    except RuntimeError as error:
        outcome = "an error"
        print(error)
guess.was(outcome)

# %% [markdown] facts=["I1"]
# It matters all the same. PyTorch keeps two separate parts of the one memory, and `.to("mps")` copies from
# one part to the other. What you learned about placement holds on a Mac. What you will learn in lesson 04
# about transfers does so with one exception: `non_blocking=True` may give wrong numbers there.
#
# ![A CPU and a GPU on either side of one memory, in which the tensors whose device is cpu and those whose device is mps have parts of their own; .to copies from one part to the other](drawing:one_memory_two_addresses)

# %% [markdown] facts=["I2"]
# ## Two questions about MPS
#
# `torch.backends.mps` answers two questions that sound alike. On your machine:

# %% facts=["I2"] tags=["nbval-ignore-output"]
print("is_built:    ", torch.backends.mps.is_built())
print("is_available:", torch.backends.mps.is_available())

# %% [markdown] facts=["I2"]
# **`is_built`** is about the package: was this PyTorch made with MPS in it? **`is_available`** is about the
# machine: can MPS be used, here and now? Take a Mac on which the program runs in a virtual machine that hides
# the GPU.

# %% facts=["I2"]
guess = devlab.predict(
    "What do is_built and is_available answer on that Mac?",
    "True and True",
    "True and False",
    "False and False",
)

# %% facts=["I2"]
a_hidden_gpu = devlab.pretend(built_for="mps")
with a_hidden_gpu:
    built, available = torch.backends.mps.is_built(), torch.backends.mps.is_available()
guess.was(f"{built} and {available}")

# %% [markdown] facts=["I2"]
# | built | available | what it means |
# |---|---|---|
# | yes | yes | use it |
# | yes | no | a PyTorch for Macs, where MPS cannot be used: macOS is older than 14, or the GPU is hidden from the program |
# | no | no | a PyTorch for other machines |
#
# If a Mac with Apple silicon says that it is not built, look at Python: where `platform.machine()` says
# `x86_64`, this Python is made for Intel chips, for which there is no PyTorch after 2.2. Install one for
# `arm64`.
#
# To **choose a device, ask `is_available` alone**. A program that does not ask gets an error where it makes
# its first tensor; its words depend on your machine:

# %% facts=["I2"] tags=["nbval-ignore-output"]
try:
    print(torch.zeros(2, device="mps").device)
except Exception as error:
    print(f"{type(error).__name__}: {str(error).partition('. ')[0]}.")

# %% [markdown] facts=["I6"]
# ## One door
#
# You know one line that chooses a device on any machine. It asks `torch.accelerator`, which is **one door for
# every kind**: `cuda`, `mps`, Intel's `xpu`, and those that a plug-in brings, such as Huawei's `npu`.

# %% facts=["I6"] tags=["nbval-ignore-output"]
print("is_available:       ", torch.accelerator.is_available())
print("current_accelerator:", torch.accelerator.current_accelerator())
print("device_count:       ", torch.accelerator.device_count())

# %% [markdown] facts=["I6"]
# There is one trap. Unless told otherwise, `current_accelerator()` says what this PyTorch was **built** for.
# The Mac with the hidden GPU shows the difference:

# %% facts=["I6"]
with a_hidden_gpu:
    print("is_available:", torch.accelerator.is_available())
    print("unchecked:   ", torch.accelerator.current_accelerator())
    print("checked:     ", torch.accelerator.current_accelerator(check_available=True))

# %% [markdown] facts=["I6"]
# The unchecked answer names a device on which no tensor can be made. With `check_available=True` the answer
# is `None`, and `None` is not yet the CPU: that is what the words `or torch.device("cpu")` in the line are
# for.
#
# **For a program of your own, use `torch.accelerator`**, and check. It came with PyTorch 2.6, and
# `check_available` with 2.7. It also has `synchronize()`, `device_count()` and `current_device_index()`,
# which replace what was `torch.cuda.…` in older code.
#
# **[Exercise](../exercises/03_mps.ipynb#task_current_accelerator_or_cpu):** `current_accelerator_or_cpu` asks
# `torch.accelerator`, and falls back to the CPU.

# %% [markdown] facts=["I5", "I2"]
# ## The ladder
#
# Older programs, and those that want particular kinds of devices and no others, ask one question after
# another and stop at the first yes: **CUDA, else MPS, else the CPU**. The order matters, and so does the word
# *else*. Here is a ladder that was put together from two separate questions, on three pretended machines. On
# one of them it goes wrong:


# %% facts=["I5", "I2"]
def two_ifs():
    """Return a device, by two questions that do not know of each other."""
    if torch.cuda.is_available():
        chosen = "cuda"
    if torch.backends.mps.is_available():
        chosen = "mps"
    else:
        chosen = "cpu"
    return torch.device(chosen)


machines = {
    "an NVIDIA GPU": devlab.pretend("NVIDIA L4"),
    "an Apple GPU": devlab.pretend(accelerator="mps"),
    "neither": devlab.pretend(),
}
for words, machine in machines.items():
    with machine:
        print(f"pretended: a machine with {words:<14} chosen: {two_ifs()}")

# %% [markdown] facts=["I5"]
# On every machine with an NVIDIA GPU the second question overwrites the answer to the first. There is no
# error. The program is slow there, and on the Mac where it was written, nothing shows it. One word repairs
# it: the second `if` has to be an `elif`. What stays is that a ladder knows the names on it and no others.
#
# **[Exercise](../exercises/03_mps.ipynb#task_choose_device):** `choose_device` is the ladder with its rungs
# in order, and it is judged on machines with one of the two, with both and with neither.

# %% [markdown] facts=["I4"]
# ## Code that names no device
#
# Choosing takes one line at the top. The other thousand lines should not know what it chose. Here are two
# functions that are meant to do the same:


# %% facts=["I4"]
def center_on_cuda(x):
    """Return x less its mean over the rows, with a name in it."""
    weights = torch.full((x.shape[0],), 1 / x.shape[0]).to("cuda")
    return x - weights @ x


def center(x):
    """Return x less its mean over the rows, where x is."""
    weights = x.new_full((x.shape[0],), 1 / x.shape[0])
    return x - weights @ x


# %% [markdown] facts=["I4"]
# The first runs on one kind of machine. The second runs in three places in the next cell, without a change.

# %% facts=["I4"]
x = torch.tensor([[1.0, 4.0], [3.0, 8.0]])
print("cpu:                ", center(x).tolist())
print("an accelerator:     ", center(x.to(device)).tolist())
with devlab.apples_rules(device):
    print("under Apple's rules:", center(x.to(device)).tolist())

# %% [markdown] facts=["I4"]
# `center` names no device, and it names no dtype either.

# %% facts=["I4"]
guess = devlab.predict(
    "What does center make of a float16 tensor on the accelerator?",
    "a float16 tensor",
    "a float32 tensor",
    "an error",
)

# %% facts=["I4"]
try:
    outcome = f"a {str(center(x.to(device, torch.float16)).dtype).removeprefix('torch.')} tensor"
except RuntimeError as error:
    outcome = "an error"
    print(error)
guess.was(outcome)

# %% [markdown] facts=["I4"]
# The reason is `x.new_full`, which makes the weights **on x's device and in x's dtype**. A device comes in as
# a tensor or as an argument, and never as a name. The table shows how to get rid of the names in old code:
#
# | it names a device | it does not |
# |---|---|
# | `x.cuda()` | `x.to(device)` |
# | `torch.zeros(n).cuda()` | `x.new_zeros(n)`, or `torch.zeros(n, device=x.device)` |
# | `torch.cuda.synchronize()` | `torch.accelerator.synchronize()` |
# | `torch.autocast("cuda")`, which lesson 12 explains | `torch.autocast(x.device.type)`, on `mps` too |
# | `torch.load(path, map_location="cuda")` | `torch.load(path, map_location=device)` |
#
# An `if x.is_cuda:` stays where what follows exists for CUDA alone, such as a kernel of your own. Around
# ordinary operators you can delete it.

# %% [markdown] facts=["I3"]
# ## No float64
#
# The difference between devices that you meet first on a Mac is that **MPS has no 64-bit floats**. Two of
# these four lines fail there:


# %% facts=["I3"]
def attempt(*lines):
    """Run each line; print the dtype of its result, or what PyTorch says against it."""
    for line in lines:
        try:
            print(f"{line}: {eval(line).dtype}")
        except (TypeError, RuntimeError) as error:
            print(f"{line}: {type(error).__name__}\n   {error}")


table = numpy.array([0.25, 0.5, 0.75])
ready = torch.ones(3, device=device)

with devlab.apples_rules(device):
    attempt(
        "torch.tensor([0.25, 0.5]).to(device)",
        "torch.from_numpy(table).to(device)",
        "ready * 2.5",
        "ready.double()",
    )

# %% [markdown] facts=["I3"]
# On a Mac, PyTorch 2.13 says this, by its source in `aten/src/ATen/mps/EmptyTensor.cpp`:
#
# ```text
# TypeError: Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't
# support float64. Please use float32 instead.
# ```
#
# The last line asks for it openly. The second is how it usually happens: **NumPy's floats are 64 bits wide**,
# `from_numpy` keeps them, and the word `float64` appears nowhere in your program. A list of Python floats
# becomes float32, and a Python float does not widen a float32 tensor.
#
# So ask for 32 bits. There are two ways to write it.

# %% facts=["I3"]
numbers = torch.from_numpy(table)
ways = {
    "numbers.to(device).float()": lambda: numbers.to(device).float(),
    "numbers.to(device, torch.float32)": lambda: numbers.to(device, torch.float32),
}
guess = devlab.predict("Which of the two fails under Apple's rules?", *ways, "both", "neither")

# %% facts=["I3"]
failing = []
with devlab.apples_rules(device):
    for words, way in ways.items():
        try:
            print(f"{words}: {way().dtype}")
        except TypeError as error:
            failing.append(words)
            print(f"{words}: {error}")
guess.was(failing)

# %% [markdown] facts=["I3"]
# The first wants to transfer 64 bits and shorten them there. In one `.to` with device and dtype they are
# shortened before they leave.
#
# What do you lose? float32 keeps about 7 decimal digits. That is plenty for a network's weights, and too
# little for some other things:

# %% facts=["I3", "C3"]
seconds = torch.tensor([1_700_000_000.0, 1_700_000_001.0], dtype=torch.float64)
print("a second apart, float64:", seconds.diff().item())
print("a second apart, float32:", seconds.float().diff().item())

# %% [markdown] facts=["I3", "C3"]
# Both moments became the same number, because at that size neighbours in float32 are 128 apart. Times and
# long sums belong on the CPU, which has float64. Subtract a starting time there, and transfer the small
# difference.
#
# Both kinds of 16-bit floats exist on MPS, and so does int64. Some of Intel's GPUs lack float64 as well. So
# do not go by the name of a device, and **ask the device**: make one element there and compute with it. MPS
# refuses to make it, with a `TypeError`. An Intel GPU without float64 may make it and refuse to compute, with
# a `RuntimeError`.

# %% facts=["I3"]
with devlab.apples_rules(device):
    for dtype in (torch.float16, torch.bfloat16, torch.int64):
        print((torch.ones(1, dtype=dtype, device=device) + 1).dtype)

# %% [markdown] facts=["I3"]
# **[Exercise](../exercises/03_mps.ipynb#task_supported_dtype):** `supported_dtype` asks that question for a
# program, and answers with a dtype that the device has.

# %% [markdown] facts=["I3"]
# ## Missing operators
#
# PyTorch has well over a thousand operators. Some are built from others, and the rest have to be written anew
# for each kind of device. For MPS some are not written yet. The cell tries five operations on a small matrix;
# off a Mac, it goes by the list of PyTorch 2.13.

# %% facts=["I3"]
square = torch.tensor([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]])
missing = []
with devlab.apples_rules(device):
    x = square.to(device)
    for line in ("x @ x", "x.softmax(0)", "x.inverse()", "torch.special.log_ndtr(x)", "x.mode(0).values"):
        try:
            eval(line)
            print(f"{line:<27} runs")
        except NotImplementedError as error:
            missing.append(error)
            print(f"{line:<27} is missing")

# %% [markdown] facts=["I3"]
# This is how a missing one is refused here:

# %% facts=["I3"]
print(missing[0] if missing else "nothing was missing")
print()
print(" is a kind of ".join(kind.__name__ for kind in NotImplementedError.__mro__[:3]))

# %% [markdown] facts=["I3"]
# On a Mac, PyTorch 2.13 says more, by its source in `aten/src/ATen/mps/MPSFallback.mm`:
#
# ```text
# NotImplementedError: The operator 'aten::special_log_ndtr.out' is not currently
# implemented for the MPS device. If you want this op to be considered for addition please
# comment on https://github.com/pytorch/pytorch/issues/141287 and mention use-case, that
# resulted in missing op as well as commit hash (...). As a temporary fix, you can set the
# environment variable `PYTORCH_ENABLE_MPS_FALLBACK=1` to use the CPU as a fallback for this
# op. WARNING: this will be slower than running natively on MPS.
# ```
#
# A missing operator raises `NotImplementedError` on any device. As the output says at its end, that is a kind
# of `RuntimeError`. So `except RuntimeError:` catches it too, together with mismatched devices, wrong shapes
# and memory that ran out.
#
# A missing operator at least raises an error. Two other differences raise none. An operator may be **slower**
# on MPS than on the CPU, which only measuring tells. And an operator may **give other numbers than the CPU**:
# PyTorch's issue tracker has a label for that, *correctness (silent)*, and many of its cases are about MPS,
# such as issue 178497, where sums and means went wrong. A [later section](#The-same-numbers-everywhere) shows
# how to check a result.

# %% [markdown] facts=["C3", "I3"]
# ## Working around a gap
#
# The CPU has nearly every operator. That is one of the things **the CPU is for**. The detour is written in
# one line, and it costs a transfer in each direction:

# %% facts=["C3", "I3"]
with devlab.apples_rules(device):
    x = square.to(device)
    with devlab.watch() as log:
        result = torch.special.log_ndtr(x.cpu()).to(x.device)
print(result.device, "transfers", log.transfers)

# %% [markdown] facts=["C3", "I3"]
# `PYTORCH_ENABLE_MPS_FALLBACK=1` lets PyTorch make the same detour by itself on a Mac, if it is set before
# torch is imported. You need not change the code, but you do not see where your time goes. It helps with
# **missing operators only**: float64 stays refused.
#
# The next cell repeats three steps four times: a sum, a division, and `log_ndtr`, the logarithm of the normal
# distribution's function, which is missing. In the first loop only the missing step leaves the device. In the
# second the whole loop stays on the CPU:

# %% facts=["C3"]
with devlab.apples_rules(device):
    with devlab.watch() as log:
        y = x
        for _ in range(4):
            y = y / y.sum()
            y = torch.special.log_ndtr(y.cpu()).to(device)
    print("step by step: transfers", log.transfers)

    with devlab.watch() as log:
        y = x.cpu()
        for _ in range(4):
            y = y / y.sum()
            y = torch.special.log_ndtr(y)
        y = y.to(device)
    print("in one piece: transfers", log.transfers)

# %% [markdown] facts=["C3"]
# **If the stretch of work around the missing step is short, run all of it on the CPU.**
#
# Here is a general fallback that catches a little too much. In the operation below nothing is missing, but
# its weights were forgotten on the CPU.

# %% facts=["I3", "E2"]
guess = devlab.predict(
    "What does careless(operation, batch) return?",
    "nothing, it raises an error",
    "a result on the accelerator",
    "a result on the CPU",
)


# %% facts=["I3", "E2"]
def careless(op, x):
    """Run op on the CPU if anything goes wrong."""
    try:
        return op(x)
    except RuntimeError:
        return op(x.cpu()).to(x.device)


weights = torch.ones(3, 2)
batch = torch.ones(4, 3, device=device)

with devlab.watch() as log:
    result = careless(lambda x: x @ weights, batch)
print(result.device, "transfers", log.transfers)
guess.was("a result on the CPU" if result.is_cpu else "a result on the accelerator")

# %% [markdown] facts=["I3", "C3"]
# It works, and that is the trouble. The mistake is hidden, and from now on every step is transferred to the
# CPU and back. With `except NotImplementedError:` in `careless` the error would have reached you, and
# `devlab.explain` would have named the cure.
#
# **[Exercise](../exercises/03_mps.ipynb#task_with_fallback):** `with_fallback` goes to the CPU for a missing
# operator, and for nothing else.

# %% [markdown] facts=["C3"]
# ## The same numbers everywhere
#
# When you do not trust a result, **compute it once more on the CPU, in float64**, and look at the difference:

# %% facts=["C3"] tags=["nbval-ignore-output"]
x = torch.randn(50, 30, generator=torch.Generator().manual_seed(1))
with devlab.apples_rules(device):
    quick = center(x.to(device)).cpu()
reference = center(x.double())
print(
    f"the numbers go up to {reference.abs().max():.1f}, and differ by {(quick - reference).abs().max():.0e} at most"
)

# %% [markdown] facts=["C3"]
# A difference in the seventh or eighth digit is rounding. A large one is a mistake, yours or now and then
# PyTorch's, and on the CPU you can look at it calmly: errors come at once, at the line that made them.
#
# Another difference is no mistake at all. A test passes on your laptop and fails on the server, with the same
# seed:

# %% facts=["I4"]
torch.manual_seed(0)
print("cpu:           ", torch.randn(3).tolist())
torch.manual_seed(0)
print("an accelerator:", torch.randn(3, device=device).tolist())

# %% [markdown] facts=["I4"]
# The CPU and the accelerators draw random numbers by different methods. Numbers that must agree have to be
# drawn in **one** place that every machine has, and the CPU is the only one. A `torch.Generator` of your own
# remembers its position in its sequence of random numbers. Here it decides the order in which six samples are
# visited:

# %% facts=["I4", "C3"]
generator = torch.Generator().manual_seed(7)
order = torch.randperm(6, generator=generator)
print("drawn:      ", order.tolist())
print("transferred:", order.to(device).tolist())

try:
    torch.randperm(6, generator=generator, device=device)
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["I4", "C3"]
# Drawn on the CPU and transferred, the numbers are identical on every device of the machine. From one machine
# to another this is usual but not promised. A generator belongs to a device, so drawing *there* with the
# CPU's generator is refused. And a generator of your own leaves the random numbers of the rest of the program
# alone, which `torch.manual_seed` does not. The price is a transfer: fine for initial weights and tests, too
# much for numbers that are drawn in every step.
#
# **[Exercise](../exercises/03_mps.ipynb#task_portable_randn):** `portable_randn` gives one seed's numbers on
# any device.

# %% [markdown]
# ## What to keep
#
# - `"mps"` is the GPU of an Apple silicon Mac with macOS 14 or later: one device, `mps:0`, whose tensors are
#   separate from the CPU's although the memory is shared.
# - `torch.accelerator` is one door for every kind; check it. The ladder CUDA, else MPS, else the CPU is the
#   older form.
# - Below the line that chooses there are no names: `x.new_zeros`, `device=x.device`, `.to(device)`.
# - MPS has no float64, and NumPy brings it in. Ask for `.to(device, torch.float32)`; where 64 bits matter,
#   stay on the CPU.
# - A missing operator is a `NotImplementedError`. Catch that alone, run the stretch around it on the CPU, and
#   come back.
# - The CPU keeps float64, runs what is missing, draws numbers that must agree, and checks a result when in
#   doubt.
#
# **Now do it:** [the exercises of this lesson](../exercises/03_mps.ipynb), five functions. **Then:** [04
# Transfers](04_transfers.ipynb), what it costs to move.
