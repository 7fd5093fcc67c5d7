# %% [markdown]
# # 03 MPS and other accelerators
#
# The GPU of a Mac is not an NVIDIA GPU, and PyTorch calls it by another name: `mps`. Intel's GPUs are called
# `xpu`, and there are more kinds. They do the same kind of work, but some lack a dtype or an operator. A
# program that was written for one of them and never names it runs on the others too, as long as it avoids
# what they lack.
#
# After this lesson you can choose a device on any machine, write code that does not care which one it got,
# and keep going when the device lacks a dtype or an operator.
#
# **Takes** about 40 minutes. **Needs** [02 CUDA](02_cuda.ipynb).

# %%
import numpy
import torch

import devlab

device = devlab.start()

# %% [markdown]
# `device` is your own accelerator, or the simulated one where you have none. These pages were made on the
# simulated one, and none of them was run or measured on a Mac. What Apple's GPUs refuse can be refused here
# too: some cells run in a block `with devlab.apples_rules(device):`, where any accelerator lacks what MPS
# lacks. (The block imitates only what MPS refuses, and not its speed, its rounding or its bugs. On a Mac it
# changes nothing. On a real GPU of another maker it refuses 64-bit floats and two operators, which is enough
# for this lesson.)

# %% [markdown] facts=["I1"]
# ## A GPU beside the CPU
#
# **MPS** stands for *Metal Performance Shaders*, Apple's library for computing on its GPUs. PyTorch's device
# `"mps"` is the GPU of a Mac with Apple silicon: one of Apple's own chips, M1 or later, with a CPU and a GPU
# on it. The name reads like any other:

# %% facts=["I1"]
for name in ("mps", "mps:0"):
    named = torch.device(name)
    print(f"{name:<6} type {named.type}, index {named.index}")

# %% [markdown] facts=["I1"]
# For PyTorch a Mac has one GPU, number 0. The next cell shows what is here on your machine, and what Apple's
# rules leave of it:

# %% facts=["I1"] tags=["nbval-ignore-output"]
devlab.devices()
with devlab.apples_rules(device):
    print("under Apple's rules:")
    devlab.devices()

# %% [markdown] facts=["I1"]
# A Mac differs from a computer with an NVIDIA card in one important way. The card has a memory of its own,
# and every transfer goes over a thin link. The GPU of an Apple chip and its CPU use *the same* memory. The
# speeds of these memories are documented by the makers, and nothing in the table was measured here:
#
# | chip | memory bandwidth | the memory belongs to | documented by |
# |---|---|---|---|
# | Apple M2 | 100 GB/s | CPU and GPU together | Apple's press release of June 2022 |
# | Apple M4 Max | 546 GB/s | CPU and GPU together | Apple's press release of October 2024 |
# | NVIDIA T4 | 300 GB/s | the GPU alone | NVIDIA's data sheet |
#
# So a Mac's GPU can use most of the computer's memory, though not all of it: the system and the CPU's tensors
# need their share, and `torch.mps.recommended_max_memory()` says how much Apple recommends for the GPU. What
# you gain is room: an M4 Max may have 128 GB in all, by the same press release, while most graphics cards
# have far less. Whether the GPU makes *your* program faster, only measuring tells, which is lesson 07.
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
# It matters all the same. There is one memory, but PyTorch keeps two separate parts of it, one for each
# device. `.to("mps")` copies from one part to the other. All that you learned about placement holds on a Mac.
# (On a Mac the error has the same words, with `mps:0` in them.)
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
# Together the two answers say what is wrong:
#
# | built | available | what it means |
# |---|---|---|
# | yes | yes | use it |
# | yes | no | a PyTorch for Macs, where MPS cannot be used: macOS is older than 14, or the GPU is hidden from the program |
# | no | no | a PyTorch for other machines |
#
# If a Mac answers *no*, look at three things:
#
# - **macOS.** PyTorch 2.13 wants version 14 or later.
# - **Your Python.** If `platform.machine()` says `x86_64`, this Python is made for Intel chips, and for such
#   a Python there is no PyTorch after 2.2. On a Mac with Apple silicon it runs through Apple's Rosetta:
#   install one made for `arm64`. A Mac with an Intel chip has no Apple GPU.
# - **A virtual machine** or a sandbox around your program, which may hide the GPU.
#
# To **choose a device, ask `is_available` alone**. `is_built` is for finding out why the answer was no. A
# program that does not ask gets an error where it makes its first tensor. (Its words depend on your machine.
# A name that begins with `aten::` is one of PyTorch's own operators.)

# %% facts=["I2"] tags=["nbval-ignore-output"]
try:
    print(torch.zeros(2, device="mps").device)
except Exception as error:
    print(f"{type(error).__name__}: {str(error).partition('. ')[0]}.")

# %% [markdown] facts=["I5", "I2"]
# ## The ladder
#
# In lesson 02 you chose between CUDA and the CPU. With one more step the choice is right on Macs too: **CUDA,
# else MPS, else the CPU**. It is a ladder of questions, and you stop at the first yes. (An AMD GPU with a
# ROCm build stands on the first rung, under the name `cuda`.)
#
# The order matters, and so does the word *else*. Here is a ladder that was put together from two separate
# questions, on three pretended machines. On one of them it goes wrong:


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
# it: the second `if` has to be an `elif`, so that it is asked only after a no.
#
# **[Exercise](../exercises/03_mps.ipynb#task_choose_device):** `choose_device` is the ladder with its rungs
# in order, and it is judged on machines with one of the two, with both and with neither.

# %% [markdown] facts=["I6"]
# ## One door
#
# The ladder has a limit: it knows the names on it and no others. `torch.accelerator` is **one door for every
# kind**. It knows which accelerator this PyTorch works with, whatever it is called:

# %% facts=["I6"] tags=["nbval-ignore-output"]
print("is_available:       ", torch.accelerator.is_available())
print("current_accelerator:", torch.accelerator.current_accelerator())
print("device_count:       ", torch.accelerator.device_count())

asked = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
print("by the ladder:      ", [kind for kind, here in asked.items() if here] or "nothing but the CPU")

# %% [markdown] facts=["I6"]
# With an NVIDIA GPU, an AMD GPU or a Mac both ways find the same. On the machine of these pages the ladder
# finds nothing, because it has no rung for `sim`, and it has none for Intel's `xpu` either.
# `torch.accelerator` found it.
#
# There is one trap. Unless told otherwise, `current_accelerator()` says what this PyTorch was **built** for.
# The Mac with the hidden GPU shows the difference:

# %% facts=["I6"]
with a_hidden_gpu:
    print("is_available:", torch.accelerator.is_available())
    print("unchecked:   ", torch.accelerator.current_accelerator())
    print("checked:     ", torch.accelerator.current_accelerator(check_available=True))

# %% [markdown] facts=["I6"]
# The unchecked answer names a device on which no tensor can be made; it is `is_built` under another name.
# With `check_available=True` the answer is `None`. So ask `is_available()` first, or check. `None` is not yet
# the CPU: you have to fall back to the CPU yourself.
#
# Which of the two should you use? **For a program of your own, use `torch.accelerator`**, and check. The
# ladder is for programs that have to run on older releases, since `torch.accelerator` came with PyTorch 2.6
# and `check_available` with 2.7, or that want particular kinds of devices and no others. `torch.accelerator`
# also has `synchronize()`, `device_count()` and `current_device_index()`, which replace what was
# `torch.cuda.…` in older code.
#
# **[Exercise](../exercises/03_mps.ipynb#task_current_accelerator_or_cpu):** `current_accelerator_or_cpu` asks
# `torch.accelerator`, and falls back to the CPU.

# %% [markdown] facts=["I4"]
# ## Code that names no device
#
# Choosing takes one line at the top. The other thousand lines should not know what it chose. Here are two
# functions that are meant to do the same. (`x - x.mean(0)` would do it without a helper. The weights stand
# for the masks, kernels and positions that larger functions have to make.)


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
# (`x.new_full(…)` makes a tensor with the help of `x`. What it takes over from `x` is the next question.)

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
# The reason is `x.new_full`, which makes the weights **on x's device and in x's dtype**. (`torch.full` would
# have made them in float32, and the product would have been refused.) A device comes in as a tensor or as an
# argument, and never as a name. The table shows how to get rid of the names in old code. (`torch.autocast`,
# in its fourth row, computes in 16 bits where that is safe; lesson 12 is about it.)
#
# | it names a device | it does not |
# |---|---|
# | `x.cuda()` | `x.to(device)` |
# | `torch.zeros(n).cuda()` | `x.new_zeros(n)`, or `torch.zeros(n, device=x.device)` |
# | `torch.cuda.synchronize()` | `torch.accelerator.synchronize()` |
# | `torch.autocast("cuda")` | `torch.autocast(x.device.type)` |
# | `torch.load(path, map_location="cuda")` | `torch.load(path, map_location=device)` |
# | `if x.is_cuda:` | most often you can delete it: the code below it works in both cases |

# %% [markdown] facts=["I3"]
# ## No float64
#
# Code without names still meets differences between devices. The one that comes first on a Mac is that **MPS
# has no 64-bit floats**. Two of these four lines fail there:


# %% facts=["I3"]
def attempt(words, operation):
    """Print the dtype of the result, or what PyTorch says against it."""
    try:
        print(f"{words}: {operation().dtype}")
    except (TypeError, RuntimeError) as error:
        print(f"{words}: {type(error).__name__}\n   {error}")


table = numpy.array([0.25, 0.5, 0.75])
ready = torch.ones(3, device=device)

with devlab.apples_rules(device):
    attempt("1  torch.tensor([0.25, 0.5]).to(device)", lambda: torch.tensor([0.25, 0.5]).to(device))
    attempt("2  torch.from_numpy(table).to(device)", lambda: torch.from_numpy(table).to(device))
    attempt("3  ready * 2.5", lambda: ready * 2.5)
    attempt("4  ready.double()", lambda: ready.double())

# %% [markdown] facts=["I3"]
# The accelerator that follows Apple's rules puts its own name into the message. On a Mac, PyTorch 2.13 says
# this (the text stands in `aten/src/ATen/mps/EmptyTensor.cpp`):
#
# ```text
# TypeError: Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't
# support float64. Please use float32 instead.
# ```
#
# Line 4 asks for it openly. Line 2 is how it usually happens: **NumPy's floats are 64 bits wide**,
# `from_numpy` keeps them, and the word `float64` appears nowhere in your program. A list of Python floats
# becomes float32 (1), but a list of NumPy's floats stays float64. A Python float does not widen a float32
# tensor (3).
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
# shortened before they leave, and half as many bytes are transferred.
#
# What do you lose? float32 keeps about 7 decimal digits. That is plenty for a network's weights and what it
# computes with them, and too little for some other things:

# %% facts=["I3", "C3"]
seconds = torch.tensor([1_700_000_000.0, 1_700_000_001.0], dtype=torch.float64)
print("a second apart, float64:", seconds.diff().item())
print("a second apart, float32:", seconds.float().diff().item())

# %% [markdown] facts=["I3", "C3"]
# Both moments became the same number, because at that size neighbours in float32 are 128 apart. Times and
# long sums belong on the CPU, which has float64. Subtract a starting time there, and transfer the small
# difference.
#
# The short floats are no problem. Both kinds of 16-bit floats exist on MPS, `float16` and `bfloat16`, and so
# does int64. Some of Intel's GPUs lack float64 as well. So do not go by the name of a device, and **ask the
# device**: make one element there and compute with it. MPS refuses to make it, with a `TypeError`. An Intel
# GPU without float64 may make it and refuse to compute, with a `RuntimeError`.

# %% facts=["I3"]
with devlab.apples_rules(device):
    for dtype in (torch.float16, torch.bfloat16, torch.int64, torch.complex128):
        attempt(f"{dtype!s:<16}", lambda dtype=dtype: torch.ones(1, dtype=dtype, device=device) + 1)

# %% [markdown] facts=["I3"]
# (The last message is the simulation's. For `complex128` a Mac has other words.)
#
# **[Exercise](../exercises/03_mps.ipynb#task_supported_dtype):** `supported_dtype` asks that question for a
# program, and answers with a dtype that the device has.

# %% [markdown] facts=["I3"]
# ## Missing operators
#
# PyTorch has well over a thousand operators. Some are built from others, and the rest have to be written anew
# for each kind of device. For MPS some are not written yet. (The list gets shorter from release to release.
# Off a Mac, the cell goes by the list of PyTorch 2.13.) The next cell tries five operations on a small
# matrix: a product, a softmax, an inverse, a matrix exponential, and the most frequent value of each column.

# %% facts=["I3"]
guess = devlab.predict("How many of the five does MPS lack?")

# %% facts=["I3"]
square = torch.tensor([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]])
operations = {
    "square @ square": lambda x: x @ x,
    "softmax": lambda x: x.softmax(dim=0),
    "linalg.inv": torch.linalg.inv,
    "linalg.matrix_exp": torch.linalg.matrix_exp,
    "mode": lambda x: x.mode(dim=0).values,
}
missing = []
with devlab.apples_rules(device):
    for name, operation in operations.items():
        try:
            operation(square.to(device))
            print(f"{name:<18} runs")
        except NotImplementedError as error:
            missing.append(error)
            print(f"{name:<18} is missing")
guess.was(len(missing))

# %% [markdown] facts=["I3"]
# By PyTorch's list, most networks find all that they need, and what is missing is rarely used. This is how
# it is refused here:

# %% facts=["I3"]
print(missing[0] if missing else "nothing was missing")
print()
print(" is a kind of ".join(kind.__name__ for kind in NotImplementedError.__mro__[:3]))

# %% [markdown] facts=["I3"]
# On a Mac, PyTorch 2.13 says more (the text stands in `aten/src/ATen/mps/MPSFallback.mm`):
#
# ```text
# NotImplementedError: The operator 'aten::linalg_matrix_exp' is not currently implemented
# for the MPS device. If you want this op to be considered for addition please comment on
# https://github.com/pytorch/pytorch/issues/141287 and mention use-case, that resulted in
# missing op as well as commit hash (...). As a temporary fix, you can set the environment
# variable `PYTORCH_ENABLE_MPS_FALLBACK=1` to use the CPU as a fallback for this op.
# WARNING: this will be slower than running natively on MPS.
# ```
#
# The message names the operator and a way out. A missing operator raises the same type on any device,
# `NotImplementedError`. (Where the operator is there and refuses only your dtype, the type varies: a
# softmax of integers raises `NotImplementedError` on the CPU as well, and a `Linear` of integers raises a
# plain `RuntimeError` on MPS.) As the output says at its end, `NotImplementedError` is a kind of
# `RuntimeError`. So `except RuntimeError:` catches it too, together with mismatched devices, wrong shapes
# and memory that ran out.
#
# A missing operator at least raises an error. Two other differences raise none:
#
# - An operator may exist on MPS and be **slower** than on the CPU. No list tells you that. Only measuring
#   does, which is lesson 07.
# - An operator may exist and **give other numbers than the CPU**. PyTorch's issue tracker has a label for
#   wrong results that raise no error, *correctness (silent)*, and many of its cases are about MPS. A [later
#   section](#The-same-numbers-everywhere) shows how to check a result.

# %% [markdown] facts=["C3", "I3"]
# ## Working around a gap
#
# The CPU has nearly every operator. That is one of the things **the CPU is for**: it does what an accelerator
# lacks. The detour is written in one line, and it costs a transfer in each direction:

# %% facts=["C3", "I3"]
with devlab.apples_rules(device):
    x = square.to(device)
    with devlab.watch() as log:
        result = torch.linalg.matrix_exp(x.cpu()).to(x.device)
print(result.device, "transfers", log.transfers)

# %% [markdown] facts=["C3", "I3"]
# Before a transfer to the CPU, the CPU also has to wait for the accelerator's work. The variable that the
# message names, `PYTORCH_ENABLE_MPS_FALLBACK=1`, lets PyTorch make the same detour by itself on a Mac, if
# it is set before torch is imported. You need not change the code, but you do not see where your time goes.
# It helps with **missing operators only**. float64 stays refused, because there the tensor itself cannot be
# made.
#
# In your own code you can do better. The next cell repeats three steps four times: a sum, a division, and the
# exponential, which is missing. In the first loop only the missing step leaves the device. In the second the
# whole loop stays on the CPU:

# %% facts=["C3"]
with devlab.apples_rules(device):
    with devlab.watch() as log:
        y = x
        for _ in range(4):
            y = y / y.sum()
            y = torch.linalg.matrix_exp(y.cpu()).to(device)
    print("step by step: transfers", log.transfers)

    with devlab.watch() as log:
        y = x.cpu()
        for _ in range(4):
            y = y / y.sum()
            y = torch.linalg.matrix_exp(y)
        y = y.to(device)
    print("in one piece: transfers", log.transfers)

# %% [markdown] facts=["C3"]
# **If the stretch of work around the missing step is short, run all of it on the CPU.**
#
# Now back to `except`. Here is a general fallback that catches a little too much. In the operation below
# nothing is missing, but its weights were forgotten on the CPU.

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
# `devlab.explain` would have named the cure:

# %% facts=["I3"]
try:
    batch @ weights
except RuntimeError as error:
    devlab.explain(error)

# %% [markdown] facts=["I3"]
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
# The same function ran in two places and in two precisions, which is what code without names buys you. A
# difference in the seventh or eighth digit is rounding. A large one is a mistake, yours or now and then
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
# The CPU and the accelerators draw random numbers by different methods, so the same seed gives different
# numbers on different kinds of device. Numbers that must agree have to be drawn in **one** place that every
# machine has, and the CPU is the only one. A `torch.Generator` of your own remembers its position in its
# sequence of random numbers. Here it decides the order in which six samples are visited:

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
# Drawn on the CPU and transferred, the numbers are identical, bit for bit, on every device of the machine.
# (From one machine to another this is usual but not promised: PyTorch's documentation guarantees the same
# numbers neither across its releases nor across platforms. A file with the numbers is safer.) A generator
# belongs to a device, so drawing *there* with the CPU's generator is refused. And a generator of your own
# leaves the random numbers of the rest of the program alone, which `torch.manual_seed` does not. The price is
# a transfer. That is fine for initial weights and tests, and too much for numbers that are drawn in every
# step of a training.
#
# **[Exercise](../exercises/03_mps.ipynb#task_portable_randn):** `portable_randn` gives one seed's numbers on
# any device.

# %% [markdown]
# ## What to keep
#
# - `"mps"` is the GPU of an Apple silicon Mac with macOS 14 or later: one device, `mps:0`, whose tensors are
#   separate from the CPU's although the memory is shared.
# - `torch.backends.mps.is_available()` is for choosing, and `is_built()` for finding out why not.
# - The ladder is CUDA, else MPS, else the CPU. `torch.accelerator` is one door for every kind; check it with
#   `is_available()`.
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
