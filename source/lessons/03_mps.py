# %% [markdown]
# # 03 MPS and other accelerators
#
# The GPU of a Mac is not an NVIDIA GPU, and PyTorch calls it by another name: `mps`. Intel's are called `xpu`, and there
# are more. They do the same work, and each lacks something. A program that was written for one of them and never
# names it runs on the others too.
#
# After this lesson you can choose a device on any machine, write code that does not care which one it got, and
# go on when the device lacks a dtype or an operator.
#
# **Takes** about 40 minutes. **Needs** [02 CUDA](02_cuda.ipynb).

# %%
import os
from contextlib import ExitStack
from functools import partial
from unittest.mock import patch

import numpy
import torch

os.environ["DEVLAB_DEVICE"] = "sim"  # `device` is the simulated accelerator, whatever else is here

import devlab

device = devlab.start()

# %% [markdown]
# **What is real here.** Nothing on these pages was run or measured on a Mac. The simulated accelerator can follow
# *Apple's rules* for the length of a block, `with devlab.sim.rules("mps"):`. Then it is one device, it has no float64, and
# it refuses the operators that PyTorch lists for CUDA and not for MPS. That is true to PyTorch's list. It is
# not a Mac: no speed, no rounding and no bug of MPS shows here. Where a Mac's *answers* are pretended, the text
# says so. If you have a Mac, `device` is still the simulated one, so that all readers see the same; your own GPU
# answers in the cells that are said to depend on your machine.

# %% [markdown] facts=["I1"]
# ## A GPU beside the CPU
#
# **MPS** stands for *Metal Performance Shaders*, Apple's library for computing on its GPUs. PyTorch's device `"mps"` is the
# GPU in a Mac with Apple silicon (M1 and later). The name reads like any other:

# %% facts=["I1"]
for name in ("mps", "mps:0"):
    named = torch.device(name)
    print(f"{name:<6} type {named.type}, index {named.index}")

# %% [markdown] facts=["I1"]
# A Mac has one GPU for PyTorch, number 0. Under Apple's rules the simulated accelerator, which has two devices
# otherwise, has one as well. What will the last line say?

# %% facts=["I1"]
print("as usual:           ", torch.accelerator.device_count(), "devices")
with devlab.sim.rules("mps"):
    print("under Apple's rules:", torch.accelerator.device_count(), "device")
    try:
        torch.zeros(2, device="sim:1")
    except RuntimeError as error:
        print(error)

# %% [markdown] facts=["I1"]
# There is one thing special about it. An NVIDIA GPU has memory of its own. The GPU of an Apple chip and its CPU use
# *the same* memory. So it should not matter where a tensor is, should it? Predict:

# %% facts=["I1"]
with devlab.sim.rules("mps"):
    here = torch.ones(3)
    there = torch.ones(3, device=device)
    try:
        print((here + there).device)
    except RuntimeError as error:
        print(error)

# %% [markdown] facts=["I1"]
# It matters as much as ever. CPU and GPU share the memory, and PyTorch still keeps two separate parts of it, one for each
# device. `.to("mps")` copies from one part to the other. All that you learned about placement holds on a Mac. (The words of
# the message are those of CUDA; a Mac's may differ.)
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
# **`is_built`** is about the package: was this PyTorch made with MPS in it? **`is_available`** is about the machine: can
# MPS be used, here and now? Together they say what is wrong. Three machines, with pretended answers:


# %% facts=["I2"]
def pretend_mps(built, available):
    """Let torch.backends.mps give these two answers, for a block."""
    return patch.multiple(
        torch.backends.mps,
        is_built=lambda: built,
        is_available=lambda: available,
    )


for built, available in ((True, True), (True, False), (False, False)):
    with pretend_mps(built, available):
        answers = torch.backends.mps.is_built(), torch.backends.mps.is_available()
        print("pretended: is_built {!s:<5}  is_available {!s:<5}".format(*answers))

# %% [markdown] facts=["I2"]
# | built | available | what it means |
# |---|---|---|
# | yes | yes | use it |
# | yes | no | a PyTorch for Macs, where MPS cannot work: a macOS before 14, or a virtual machine without a GPU |
# | no | no | a PyTorch for other machines |
#
# (macOS 14 is what PyTorch 2.13 asks for; later versions ask for more. One case is easy to overlook: a Python made for
# Intel chips runs on a Mac with Apple silicon too, in translation, and `platform.machine()` then says `x86_64`. For such
# a Python there is no PyTorch after 2.2.) To **choose a
# device, ask `is_available` alone**. `is_built` is for finding out why the answer was no.
#
# And if you do not ask? What this prints depends on your machine. Here it is a PyTorch without MPS:

# %% facts=["I2"] tags=["nbval-ignore-output"]
try:
    print(torch.zeros(2, device="mps").device)
except Exception as error:
    print(f"{type(error).__name__}: {str(error).partition('. ')[0]}.")

# %% [markdown] facts=["I1", "I3"]
# If that was your Mac's answer, ask your GPU a little more. On a Mac the next cell shows what the rest of this lesson
# simulates: a sum with a tensor of the CPU, an operator that may be missing, and four dtypes.

# %% facts=["I1", "I3"] tags=["nbval-ignore-output"]
if torch.backends.mps.is_available():
    there = torch.ones(3, 3, device="mps")
    questions = {
        "there + a CPU tensor": lambda: there + torch.ones(3, 3),
        "linalg.matrix_exp": lambda: torch.linalg.matrix_exp(there),
    }
    for dtype in (torch.float16, torch.bfloat16, torch.int64, torch.float64):
        questions[f"there.to({dtype})"] = partial(there.to, dtype)
    for words, question in questions.items():
        try:
            print(f"{words}: {question().dtype}, on {there.device}")
        except (RuntimeError, TypeError) as error:
            print(f"{words}: {type(error).__name__}: {str(error).splitlines()[0]}")
else:
    print("MPS is not available here; this cell has something to say on a Mac")

# %% [markdown] facts=["I5"]
# ## The ladder
#
# In lesson 02 you chose between CUDA and the CPU. One more step, and the choice is right on nearly all machines that
# people have: **CUDA, else MPS, else the CPU**. (An AMD GPU with a ROCm build stands on the first rung, under the name
# `cuda`.) Both questions are pretended here, in all four combinations. (The fourth does not exist: no build of PyTorch
# has both.)


# %% facts=["I5", "I2"]
def ladder():
    """Return the first of the three that is available."""
    return torch.device(
        "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    )


def pretend(cuda, mps):
    """Let PyTorch say, for a block, that CUDA and MPS are here or not."""
    both = ExitStack()
    both.enter_context(patch.object(torch.cuda, "is_available", lambda: cuda))
    both.enter_context(pretend_mps(built=mps, available=mps))
    return both


for cuda, mps in ((False, False), (False, True), (True, False), (True, True)):
    with pretend(cuda, mps):
        print(f"pretended: CUDA {cuda!s:<5}  MPS {mps!s:<5}  chosen: {ladder()}")

# %% [markdown] facts=["I5"]
# The order matters, and so does each `else`. Here is a version that somebody wrote with two separate `if`s. On
# which kind of machine does it go wrong?


# %% facts=["I5"]
def two_ifs():
    """Return a device, by two questions that do not know of each other."""
    if torch.cuda.is_available():
        chosen = "cuda"
    if torch.backends.mps.is_available():
        chosen = "mps"
    else:
        chosen = "cpu"
    return torch.device(chosen)


for cuda, mps in ((False, False), (False, True), (True, False)):
    with pretend(cuda, mps):
        print(f"pretended: CUDA {cuda!s:<5}  MPS {mps!s:<5}  chosen: {two_ifs()}")

# %% [markdown] facts=["I5"]
# On every machine with an NVIDIA GPU: the second question overwrites the answer to the first. There is no error.
# The program is slow, and it was written on a Mac, where all was well.
#
# **[Exercise](../exercises/03_mps.ipynb#task_choose_device):** `choose_device`.

# %% [markdown] facts=["I6"]
# ## One door
#
# The ladder has a limit: it knows the names on it. `torch.accelerator`, which came with PyTorch 2.6, is **one door for
# every kind**. It knows which accelerator this PyTorch works with, whatever it is called:

# %% facts=["I6"]
print("is_available:       ", torch.accelerator.is_available())
print("current_accelerator:", torch.accelerator.current_accelerator())
print("device_count:       ", torch.accelerator.device_count())
print("found by the ladder:", ladder().type == torch.accelerator.current_accelerator().type)

# %% [markdown] facts=["I6"]
# `False` in the last line: the ladder has no rung for `sim`, and it has none for Intel's `xpu`. The door found it.
#
# There is one trap in it. Unless told otherwise, `current_accelerator()` says what this PyTorch was **built** for. Here the machine's answer is pretended:
# a PyTorch that knows an accelerator, and none is plugged in. What will the two lines print?

# %% facts=["I6"]
with patch.object(torch.accelerator, "is_available", lambda: False):
    print("unchecked:", torch.accelerator.current_accelerator())
    print("checked:  ", torch.accelerator.current_accelerator(check_available=True))

# %% [markdown] facts=["I6"]
# The first names a device on which no tensor can be made. It is `is_built` under another name. With
# `check_available=True` the answer is `None`. So ask `is_available()` first, or check. `None` is not the CPU:
# that last step is yours.
#
# Which of the two to use? The **ladder** where you know which machines your program is for, or must run on a PyTorch before 2.6.
# The **door** where you do not want to know. Behind it there are also `torch.accelerator.synchronize()`, `device_count()`
# and `current_device_index()`, which replace what was `torch.cuda.…` in older code.
#
# **[Exercise](../exercises/03_mps.ipynb#task_current_accelerator_or_cpu):** `current_accelerator_or_cpu`.

# %% [markdown] facts=["I4"]
# ## Code that names no device
#
# Choosing is one line at the top. The other thousand lines should not know what it chose. Two functions that do the same:


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
# The first runs on one kind of machine. The second runs in three places in the next cell, without a change:

# %% facts=["I4"]
x = torch.tensor([[1.0, 4.0], [3.0, 8.0]])
print("cpu:                ", center(x).tolist())
print("an accelerator:     ", center(x.to(device)).tolist())
with devlab.sim.rules("mps"):
    print("under Apple's rules:", center(x.to(device)).tolist())

# %% [markdown] facts=["I4"]
# What makes it so: `x.new_full` makes its helper **on x's device, in x's dtype**. A device comes in as a tensor, or as an
# argument, and never as a name. This is how to get rid of the names in old code:
#
# | it names a device | it does not |
# |---|---|
# | `x.cuda()` | `x.to(device)` |
# | `torch.zeros(n).cuda()` | `x.new_zeros(n)`, or `torch.zeros(n, device=x.device)` |
# | `torch.cuda.synchronize()` | `torch.accelerator.synchronize()` |
# | `torch.autocast("cuda")` | `torch.autocast(x.device.type)` |
# | `torch.load(path, map_location="cuda")` | `torch.load(path, map_location=device)` |
# | `if x.is_cuda:` | most often, nothing: the code below works in both cases |

# %% [markdown] facts=["I3"]
# ## No float64
#
# Code without names still meets differences between devices. The one that people meet first on a Mac: **MPS has no
# 64-bit floats**. Which of these lines fail under Apple's rules?


# %% facts=["I3"]
def attempt(words, operation):
    """Print the dtype of the result, or what PyTorch says against it."""
    try:
        print(f"{words}: {operation().dtype}")
    except (TypeError, NotImplementedError) as error:
        print(f"{words}: {type(error).__name__}\n   {error}")


table = numpy.array([0.25, 0.5, 0.75])
ready = torch.ones(3, device=device)

with devlab.sim.rules("mps"):
    attempt("1  torch.tensor([0.25, 0.5]).to(device)", lambda: torch.tensor([0.25, 0.5]).to(device))
    attempt("2  torch.from_numpy(table).to(device)", lambda: torch.from_numpy(table).to(device))
    attempt("3  ready * 2.5", lambda: ready * 2.5)
    attempt("4  ready.double()", lambda: ready.double())

# %% [markdown] facts=["I3"]
# Line 4 asks for it openly. Line 2 is how it happens: **NumPy's floats are 64 bits wide**, `from_numpy` keeps
# them, and nobody wrote `float64` anywhere. Lists become float32 (1), and a Python number takes the tensor's dtype (3).
#
# The cure is to ask for 32 bits, and the order matters. One of these two fails. Which?

# %% facts=["I3"]
numbers = torch.from_numpy(table)

with devlab.sim.rules("mps"):
    attempt("numbers.to(device).float()       ", lambda: numbers.to(device).float())
    attempt("numbers.to(device, torch.float32)", lambda: numbers.to(device, torch.float32))

# %% [markdown] facts=["I3"]
# The first wants to carry 64 bits over, and shorten them there. In one `.to` with device and dtype they are shortened
# before they leave, and half as many bytes travel. (With `non_blocking=True` CUDA converts after the transfer instead;
# lesson 04 shows it.)
#
# What do you lose? float32 keeps about 7 decimal digits. That is plenty for weights and activations. It is too little for
# some other things:

# %% facts=["I3", "C3"]
seconds = torch.tensor([1_700_000_000.0, 1_700_000_001.0], dtype=torch.float64)
print("a second apart, float64:", seconds.diff().item())
print("a second apart, float32:", seconds.float().diff().item())

# %% [markdown] facts=["I3", "C3"]
# Both moments became the same number: at that size, neighbours in float32 are 128 apart. Times, money and long sums belong on the CPU,
# which has float64; subtract the start there and send the small rest. The other dtypes of this course are no problem:
# int64 exists on MPS, and so do both kinds of 16-bit floats, `float16` and `bfloat16`.
#
# MPS is not alone: some of Intel's GPUs have no float64 either. So do not look at the name, **ask the device**. An empty
# tensor costs nothing:

# %% facts=["I3"]
attempt("as usual           ", lambda: torch.empty(0, dtype=torch.float64, device=device))
with devlab.sim.rules("mps"):
    attempt("under Apple's rules", lambda: torch.empty(0, dtype=torch.float64, device=device))

# %% [markdown] facts=["I3"]
# **[Exercise](../exercises/03_mps.ipynb#task_supported_dtype):** `supported_dtype`.

# %% [markdown] facts=["I3"]
# ## Missing operators
#
# PyTorch has well over a thousand operators, and somebody has to write each one for each kind of device. For MPS some are not
# written yet. Five operations on a small matrix. Which do you expect to be there?

# %% facts=["I3"]
square = torch.tensor([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]])
operations = {
    "square @ square": lambda x: x @ x,
    "softmax": lambda x: x.softmax(dim=0),
    "linalg.inv": torch.linalg.inv,
    "linalg.matrix_exp": torch.linalg.matrix_exp,
    "mode": lambda x: x.mode(dim=0).values,
}
with devlab.sim.rules("mps"):
    for name, operation in operations.items():
        try:
            operation(square.to(device))
            print(f"{name:<18} runs")
        except NotImplementedError:
            print(f"{name:<18} is missing")

# %% [markdown] facts=["I3"]
# What a neural network does every day is there. What is missing is rare, and the list has become shorter from release
# to release. (This one is the list of the PyTorch in use.) An operator may also exist and be **slower** than on the CPU;
# that no list tells, only measuring does, which is lesson 07. And now and then one has existed and **given other
# numbers than the CPU, without an error**: PyTorch's issue tracker has the label *correctness (silent)* for such
# cases, and several of them are about MPS. The end of this lesson shows how to check a result.
#
# This is the message for a missing operator, nearly as a Mac prints it:

# %% facts=["I3"]
with devlab.sim.rules("mps"):
    try:
        torch.linalg.matrix_exp(square.to(device))
    except NotImplementedError as error:
        print(error)

# %% [markdown] facts=["I3"]
# It names the operator, as PyTorch calls it inside, and it names a way out. Its type is the same for a missing
# operator on any device: `NotImplementedError`. One more thing about that type. True or false?

# %% facts=["I3"]
print(issubclass(NotImplementedError, RuntimeError))

# %% [markdown] facts=["I3"]
# True, in Python itself. So `except RuntimeError:` catches it too, together with mismatched devices, wrong shapes and
# memory that ran out. Keep that in mind for a minute.

# %% [markdown] facts=["C3", "I3"]
# ## Round the gap
#
# The CPU has nearly every operator. That is one of the things **the CPU is for**: it does what an accelerator lacks. The trip is
# written in one line. How many transfers will it cost?

# %% facts=["C3", "I3"]
with devlab.sim.rules("mps"):
    x = square.to(device)
    with devlab.watch() as log:
        result = torch.linalg.matrix_exp(x.cpu()).to(x.device)
print(result.device, "transfers", log.transfers)

# %% [markdown] facts=["C3", "I3"]
# Two, one each way, and on the way out the CPU has to wait for the accelerator's work. The variable that the
# message names, `PYTORCH_ENABLE_MPS_FALLBACK=1`, lets PyTorch make the same trip by itself, on a Mac, if it is set before
# torch is imported. You need not change the code; and you do not see where your time goes. It helps with **missing
# operators only**: float64 stays refused, because there the tensor itself cannot be made.
#
# In your own code you can do better. Here are three steps, and the one in the middle is missing. Once each
# missing step travels alone, four times over; once the loop stays on the CPU. What will the two counts be?

# %% facts=["C3"]
with devlab.sim.rules("mps"):
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
# Eight and two. **Let the whole stretch of work stay on the CPU, not the missing step alone**, where that stretch is short.
#
# Now back to `except`. Somebody wrote a general fallback, and caught a little too much. The operation below has nothing
# missing, but its weights were forgotten on the CPU. What will happen?


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

# %% [markdown] facts=["I3", "C3"]
# It works, and that is the trouble. The mistake is hidden; every step from now on travels to the CPU and back. With
# `except NotImplementedError:` you would have read this, with the cure beside it:

# %% facts=["I3"]
try:
    batch @ weights
except NotImplementedError:
    print("not this one")
except RuntimeError as error:
    devlab.explain(error)

# %% [markdown] facts=["I3"]
# **[Exercise](../exercises/03_mps.ipynb#task_with_fallback):** `with_fallback`.

# %% [markdown] facts=["I4"]
# ## The same numbers everywhere
#
# A test passes on your laptop and fails on the server, with the same seed. Before you run it: are the two equal?

# %% facts=["I4"]
torch.manual_seed(0)
on_cpu = torch.randn(3)
torch.manual_seed(0)
on_device = torch.randn(3, device=device)
print(torch.equal(on_cpu, on_device.cpu()))

# %% [markdown] facts=["I4"]
# The CPU and the accelerators draw random numbers by different methods, and one seed gives other numbers on another kind of
# device. Numbers that must agree have to be drawn in **one** place that every machine has, and the CPU is the only one:

# %% facts=["I4", "C3"]
generator = torch.Generator().manual_seed(0)
drawn = torch.randn(3, generator=generator)
print("equal:", torch.equal(drawn, drawn.to(device).cpu()))

try:
    torch.randn(3, generator=generator, device=device)
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["I4", "C3"]
# Drawn on the CPU and moved, the numbers are the same bits on every device of the machine. (From one machine to
# another that is usual and not promised: PyTorch's documentation guarantees the same numbers neither across its releases nor
# across platforms. A file with the numbers is surer.) A generator belongs to a device, so drawing *there* with
# the CPU's is refused. (A `Generator` of your own also leaves everybody else's random numbers alone, which
# `torch.manual_seed` does not.) The price is a transfer: fine for initial weights and tests, too much for dropout in each
# step.
#
# **[Exercise](../exercises/03_mps.ipynb#task_portable_randn):** `portable_randn`.

# %% [markdown] facts=["C3"]
# ## What the CPU is for
#
# You have seen the CPU do four things in this lesson that not every accelerator can: keep float64, run a missing operator,
# draw numbers that do not depend on the accelerator, and be there. The fifth is the most useful. When you do not trust a result, **compute it
# once more on the CPU, in float64**, and compare:

# %% facts=["C3"]
x = torch.randn(50, 30, generator=torch.Generator().manual_seed(1))
with devlab.sim.rules("mps"):
    quick = center(x.to(device)).cpu()
reference = center(x.double())
print("largest difference below 0.00001:", bool((quick - reference).abs().max() < 1e-5))

# %% [markdown] facts=["C3"]
# The same function, two places, two precisions: that is what code without names buys. A small difference is rounding. A large one
# is a mistake, yours or now and then PyTorch's, and on the CPU you can look at it in peace: errors come at once, at the line that made them.

# %% [markdown]
# ## What to keep
#
# - `"mps"` is the GPU of an Apple silicon Mac with macOS 14 or later. One device, number 0, and a place of its own although the memory is shared.
# - `torch.backends.mps.is_available()` to choose; `is_built()` to find out why not.
# - The ladder: CUDA, else MPS, else the CPU. Or one door: `torch.accelerator`, checked with `is_available()`.
# - Below that line, no names: `x.new_zeros`, `device=x.device`, `.to(device)`.
# - No float64 on MPS, and NumPy brings it in. `.to(device, torch.float32)`; where 64 bits matter, the CPU.
# - A missing operator is a `NotImplementedError`. Catch that alone, go to the CPU in one piece, and come back.
# - When in doubt, compute once more on the CPU, in float64, and compare.
# - Random numbers that must agree are drawn on the CPU and moved.
#
# **Now do it:** [the exercises of this lesson](../exercises/03_mps.ipynb), five functions. **Then:**
# [04 Transfers](04_transfers.ipynb), what it costs to move.
