# %% [markdown]
# # 06 Sharing memory with NumPy
#
# Plots, tables, pictures, older libraries: sooner or later your numbers go from PyTorch to NumPy, or come
# from there. On the CPU no number moves, because both libraries look at the same memory. That is a gift and a
# trap.
#
# After this lesson you can bring nearly any tensor to NumPy, say which conversions share and which copy,
# choose between the two, and hand a tensor to other libraries without a copy.
#
# **Takes** about 20 minutes to read, and 30 for the tasks. **Needs** [01 The CPU](01_cpu.ipynb), where views
# and storages appeared, and [05 Models and buffers](05_buffers.ipynb).

# %%
import numpy as np
import torch

import devlab

device = devlab.start()

# %% [markdown]
# ## One memory, two names
#
# NumPy makes an array, and PyTorch wraps it in a tensor. Then each of the two writes one number.

# %% facts=["N4", "N5"]
a = np.zeros(4)
t = torch.from_numpy(a)

t[0] = 7
a[3] = -1

print("array ", a)
print("tensor", t)

# %% [markdown] facts=["N4", "N5"]
# There is one piece of memory here and two objects that describe it, each with its own idea of shape and
# dtype. A copy would have memory of its own:
#
# ![The array a and the tensor t over it both point to one row of four numbers, 7, 0, 0 and -1, in which the writes of both are seen. The tensor that torch.tensor made is a copy with four zeros of its own.](drawing:two_names_one_memory)
#
# The other direction is the same: **a CPU tensor and its `.numpy()` share memory**.

# %% facts=["N4", "N5"]
t = torch.zeros(2, 3)
a = t.numpy()

a[1] += 5
print(t)

# %% [markdown] facts=["N5"]
# So a change to one shows in the other, *if it is a change to the memory*. Here are two lines that double an
# array of ones whose memory a tensor shares.

# %% facts=["N5"]
guess = devlab.predict(
    "Which lines change the tensor?", "a = a * 2", "a *= 2", "a = a * 2 and a *= 2", "none"
)

# %% facts=["N5"]
lines = []  # those that change the tensor

t = torch.ones(3)
a = t.numpy()
a = a * 2
print("after a = a * 2:", t)
if t[0] == 2:
    lines.append("a = a * 2")

t = torch.ones(3)
a = t.numpy()
a *= 2
print("after a *= 2:   ", t)
if t[0] == 2:
    lines.append("a *= 2")

guess.was(lines)

# %% [markdown] facts=["N5"]
# `a * 2` made a new array, and `a =` gave it the old name. The tensor still looks at the old memory. `a *= 2`
# wrote into the memory itself, and so does `a[:] = a * 2`. The same holds in PyTorch: `t *= 2`, `t[:] = t *
# 2` and `t.mul_(2)` change the numbers in the old memory.
#
# Now the trap. This function prepares a picture for a model, and it looks harmless.


# %% facts=["N4", "N5"]
def prepare(picture):
    x = torch.from_numpy(picture)
    x -= 100
    return x


dataset = [np.full((2, 2), 150.0)]
for epoch in range(2):
    for picture in dataset:
        print("epoch", epoch, "sees", prepare(picture)[0])
print("the data set now:", dataset[0].tolist())

# %% [markdown] facts=["N5"]
# The first epoch spoiled the data for the second, without an error or a warning. The line at fault is `x -=
# 100`.

# %% [markdown]
# ## How to tell
#
# You cannot tell from the numbers. `t` and `copy` below equal the array in every element, until the array
# changes:

# %% facts=["N4"]
a = np.arange(6.0)
t = torch.from_numpy(a)
copy = torch.tensor(a)

print("before:", t[0].item(), copy[0].item())
a[0] = 50
print("after: ", t[0].item(), copy[0].item())

print("begins where the array begins:", t.data_ptr() == a.ctypes.data, copy.data_ptr() == a.ctypes.data)

# %% [markdown] facts=["N4"]
# Writing just to find out would change your data. For whole arrays the addresses of the first elements tell.
# For views they do not, because a view may begin in the middle of the memory. Below are three pairs of views
# of one array of six numbers: the first four and the last four; the first half and the second; the even
# places and the odd ones.

# %% facts=["N4", "N5"]
guess = devlab.predict(
    "In how many of the three pairs would a write to one view show in the other?", 0, 1, 2, 3
)

# %% facts=["N4", "N5"]
a = np.arange(6)
t = torch.from_numpy(a)

pairs = {
    "overlapping ": (t[0:4], a[2:6]),
    "halves      ": (t[0:3], a[3:6]),
    "even and odd": (t[0::2], a[1::2]),
}
sharing = 0
for words, (part, other) in pairs.items():
    shares = np.shares_memory(part.numpy(), other)
    sharing += shares
    print(f"{words} {part.tolist()} and {other.tolist()}: {'shared' if shares else 'nothing in common'}")

guess.was(sharing)

# %% [markdown] facts=["N4", "N5"]
# Only the first pair has elements in common. `np.shares_memory` works out whether two arrays have an element
# in common, without reading any; for a CPU tensor, pass `t.numpy()`. NumPy's documentation warns that this
# can be exponentially slow for views with many strides. `np.may_share_memory` is quick and compares only
# where the two begin and end, so it says *may* of the even and the odd places, too.
#
# **[Exercise](../exercises/06_numpy_sharing.ipynb#task_shares_memory):** `shares_memory`, for tensors on any
# device, with a gradient or without.

# %% [markdown]
# ## Which share and which copy
#
# There are many ways from an array to a tensor. Here are eight, and an array of float32 to try them on.
# Decide for each line whether it shares or copies.

# %% facts=["N6"]
a = np.ones(3, dtype=np.float32)
t = torch.from_numpy(a)
lines = (
    "torch.from_numpy(a)",
    "torch.as_tensor(a)",
    "torch.tensor(a)",
    "t.clone()",
    "t.float()",
    "t.double()",
    't.to("cpu")',
    "t.detach()",
)
guess = devlab.predict(
    "One of these four copies. Which?", "torch.as_tensor(a)", "torch.tensor(a)", "t.float()", 't.to("cpu")'
)

# %% facts=["N6"]
shared = {}
for line in lines:
    shared[line] = np.shares_memory(eval(line).numpy(), a)
    print(f"{line:<22}{'shares' if shared[line] else 'copies'}")
guess.was(next(line for line in guess.choices if not shared[line]))

# %% [markdown] facts=["N6"]
# If the tensor already has that dtype or is already on that device, `.float()` and `.to("cpu")` return the
# tensor itself. These functions are of three kinds:
#
# | | memory | if it cannot be shared |
# |---|---|---|
# | `torch.from_numpy(a)` | **always shares** | an error |
# | `t.detach()` | **always shares** | never happens |
# | `torch.as_tensor(a)`, `t.to(...)`, `t.float()` | shares **if it can** | copies, for another dtype or device; negative strides are an error |
# | `torch.tensor(a)`, `t.clone()` | **always copies** | negative strides are an error here, too |
#
# `torch.asarray` does any of the three, because you can tell it which you want. NumPy's own floats are
# `float64`:

# %% facts=["N6"]
a = np.ones(3)  # float64

for line in (
    "torch.asarray(a)",
    "torch.asarray(a, dtype=torch.float32)",
    "torch.asarray(a, copy=True)",
    "torch.asarray(a, copy=False)",
    "torch.asarray(a, dtype=torch.float32, copy=False)",
):
    try:
        print(f"{line:<50}{'shares' if np.shares_memory(eval(line).numpy(), a) else 'copies'}")
    except ValueError as error:
        print(f"{line:<50}{error}")

# %% [markdown] facts=["N6"]
# With `copy=False` it shares or fails, and never copies behind your back. NumPy's `float64` has one more
# surprise for you. Layers are `float32`:

# %% facts=["N6"]
try:
    torch.nn.Linear(3, 1)(torch.from_numpy(a))
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["N6"]
# `torch.from_numpy(a).float()` solves this, at the price of a copy. A pandas table comes by
# `torch.tensor(frame.to_numpy(dtype="float32"))`, and a picture of PIL by
# `torch.from_numpy(np.array(picture))`.
#
# What happens to shared memory when the array goes out of scope? Here only the tensor comes out of the
# function:


# %% facts=["N4"]
def make():
    local = np.arange(3)
    return torch.from_numpy(local)


print(make())

# %% [markdown] facts=["N4"]
# The memory lives as long as any array or tensor uses it. Like the views of lesson 01, sharing can keep a big
# array alive for a small slice.

# %% [markdown] facts=["N1", "N6"]
# ### Look and touch
#
# There are two names, x and y. Whether they share one memory is hidden at first. Choose how y is made of x,
# and click a cell to write into it. **Find out:** which ways of making y share for one kind of x and copy for
# another? Start with `x.to(device)`.

# %% facts=["N1", "N6"]
devlab.explore.sharing()

# %% [markdown] facts=["N1", "N6"]
# `x.to(device)` gives x itself back where x is on the device already, `torch.as_tensor` copies for another
# dtype, and `reshape` shares where strides allow it. None says which it did. When it matters, `view`,
# `from_numpy` and `asarray(copy=False)` share or fail, `clone` and `asarray(copy=True)` copy.

# %% [markdown]
# ## Work in place
#
# Sharing can be put to use: let one library do the work on memory that belongs to the other. Here NumPy clips
# a tensor in three ways. Which of them changes the tensor?

# %% facts=["N5", "N6"]
for line in (
    "np.clip(t.numpy().copy(), 0, 0.5)",
    "np.clip(t.numpy(), 0, 0.5)",
    "np.clip(t.numpy(), 0, 0.5, out=t.numpy())",
):
    t = torch.ones(1000, 1000)
    eval(line)
    print(f"{line:<43} t[0, 0] is {t[0, 0].item()}")

# %% [markdown] facts=["N5", "N6"]
# To work without new memory, two things have to come together: an array that *shares*, and an operation that
# works *in place*. Operators like `*=` do that, and so do NumPy's functions with `out=` and PyTorch's methods
# whose names end in `_`. A tensor over a slice knows its strides, so it writes to the slice and not to its
# neighbours:

# %% facts=["N5"]
grid = np.ones((3, 5))
torch.from_numpy(grid[:, 1::2]).zero_()
print(grid)

# %% [markdown] facts=["N5", "N6"]
# Beware of anything that puts the elements of the slice together first. `np.ascontiguousarray(grid[:, 1::2])`
# is a new array, and so is what `.reshape(-1)` gives for such a slice.
#
# **[Exercise](../exercises/06_numpy_sharing.ipynb#task_scale_in_place):** `scale_in_place`, where PyTorch
# works on an array of any shape, and the bytes that it takes are counted.

# %% [markdown]
# ## The array on the CPU
#
# Three obstacles may stand between a tensor and NumPy: its device, its graph and its dtype. The first is the
# **device**. Here is a tensor on the accelerator, and two ways to ask for its array:

# %% facts=["N1"]
x = torch.arange(4.0, device=device)

for convert in (torch.Tensor.numpy, np.asarray):
    try:
        print(convert(x))
    except TypeError as error:
        print(error)

# %% [markdown] facts=["N1"]
# **A tensor on an accelerator has no NumPy view**, and neither library copies it behind your back: a transfer
# is slow, so PyTorch wants you to ask for it. Now the same line brings two tensors to NumPy, one from the
# accelerator and one that is on the CPU already, and a 99 is written into each array.

# %% facts=["N1", "N2"]
guess = devlab.predict(
    "Which tensor has the 99 afterwards?", "neither", "the accelerator's", "the CPU's", "both"
)

# %% facts=["N1", "N2"]
tensors = {"the accelerator's": torch.arange(4.0, device=device), "the CPU's": torch.arange(4.0)}
changed = []
for words, x in tensors.items():
    with devlab.watch() as log:
        a = x.cpu().numpy()
    a[0] = 99
    print(f"{words:<18}{log.transfers} transfers, afterwards {x.tolist()}")
    changed += [words] if x[0].item() == 99 else []
guess.was({0: "neither", 2: "both"}.get(len(changed)) or changed[0])

# %% [markdown] facts=["N1", "N2"]
# On an accelerator `x.cpu()` makes a second tensor, and the array shares with *that*. For a CPU tensor
# `.cpu()` does nothing. So a function that writes into the result behaves one way on a laptop and another way
# on a GPU. Copy when you mean to write: `x.cpu().numpy().copy()`.
#
# `.cpu()` waits until the numbers have arrived. A transfer with `non_blocking=True` does not, and NumPy knows
# nothing of transfers under way.

# %% [markdown]
# ## Off the graph
#
# The second obstacle is the **graph**, on every device:

# %% facts=["N3", "N7"]
weights = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)

try:
    weights.numpy()
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["N3", "N7"]
# Autograd follows what happens to this tensor, and it cannot follow NumPy. So PyTorch makes you call
# `detach()`, by which you say that you need no gradient here. **`detach()` gives a tensor outside of the
# graph**, with the same numbers, and with the same memory:

# %% facts=["N3", "N4"]
outside = weights.detach().numpy()
outside[0] = 100

print(weights)

# %% [markdown] facts=["N3", "N4"]
# You have just changed a parameter through NumPy. That is worse than it looks. Below, the graph of `loss`
# remembers the weights as they were, to compute the gradient 2 w, and then one weight is overwritten, once by
# PyTorch and once by NumPy.

# %% facts=["N3", "N5"]
guess = devlab.predict(
    "Whose write will backward notice?", "PyTorch's", "NumPy's", "PyTorch's and NumPy's", "none"
)

# %% facts=["N3", "N5"]
noticed = []
for how in ("PyTorch's", "NumPy's"):
    weights = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    loss = (weights * weights).sum()
    if how == "PyTorch's":
        with torch.no_grad():
            weights[0] = 100
    else:
        weights.detach().numpy()[0] = 100
    try:
        loss.backward()
        print(how, "write: the gradient is", weights.grad)
    except RuntimeError as error:
        print(how, "write:", str(error).partition(":")[0])
        noticed.append(how)
guess.was(noticed)

# %% [markdown] facts=["N3", "N5"]
# PyTorch counts its own writes and refuses to compute a gradient from numbers that have changed. NumPy's
# writes are not counted: the gradient of the first weight should be 2, and it is 200, without an error. So an
# array made from a tensor that is still in use is for *reading*.
#
# Together, the steps to NumPy are **`x.detach().cpu().numpy()`**: leave the graph, leave the device, then
# NumPy. A step that is not needed costs next to nothing:

# %% facts=["N2", "N3"]
anything = {
    "on the CPU       ": torch.ones(2),
    "with a gradient  ": torch.ones(2, requires_grad=True),
    "on an accelerator": torch.ones(2, device=device),
    "both             ": torch.ones(2, device=device, requires_grad=True) * 3,
}
for words, x in anything.items():
    print(words, x.detach().cpu().numpy())

# %% [markdown] facts=["N2", "N3"]
# `x.numpy(force=True)` does the same steps, and two more that matter only for complex numbers. Both spellings
# hide from you whether the result shares.

# %% [markdown]
# ## Other libraries
#
# NumPy is not the only neighbour. **DLPack** is a small standard by which libraries hand each other a tensor
# without a copy, on the GPU, too: `cupy.from_dlpack(x)` and `jax.dlpack.from_dlpack(x)` take a CUDA tensor
# where it is, and `torch.from_dlpack(y)` takes theirs. NumPy speaks DLPack for the CPU's memory:

# %% facts=["N6"]
t = torch.arange(3.0)
a = np.from_dlpack(t)
print("NumPy has", a, "shared" if np.shares_memory(a, t.numpy()) else "copied")

try:
    np.from_dlpack(t.to(device))
except (RuntimeError, BufferError) as error:
    print("from the accelerator:", error)

# %% [markdown]
# DLPack shares or fails. Hand it no array with negative strides, which the next section explains: torch 2.13
# ends the whole process.

# %% [markdown]
# ## What cannot cross
#
# The third obstacle is a **dtype that NumPy lacks**. Models are often run in `bfloat16`. Here are three
# numbers of that dtype, one of them as large as 3e38, and three ways to convert them.

# %% facts=["N7"]
guess = devlab.predict(
    "Which keeps the 3e38?", "x.numpy()", "x.half().numpy()", "x.float().numpy()", "none of them"
)

# %% facts=["N7"]
x = torch.tensor([1.0, 0.1, 3e38], dtype=torch.bfloat16)

ways = {
    "x.numpy()": lambda: x.numpy(),
    "x.half().numpy()": lambda: x.half().numpy(),
    "x.float().numpy()": lambda: x.float().numpy(),
}
kept = "none of them"
for code, convert in ways.items():
    try:
        array = convert()
        print(f"{code:<18}{array}")
        kept = code if np.isfinite(array[2]) else kept
    except TypeError as error:
        print(f"{code:<18}{error}")
guess.was(kept)

# %% [markdown] facts=["N7"]
# `float16` has as many bits, divided in another way: 3e38 is beyond it. `float32` holds every `bfloat16`
# number exactly. `bfloat16` keeps two to three digits, as the 0.1 shows.
#
# A fourth obstacle stands between an array and PyTorch: **memory that is read backwards**. NumPy reverses an
# array without moving a number. It keeps the address of the *last* element and a negative **stride**, the
# step from one element to the next:

# %% facts=["N7"]
a = np.arange(4.0)
backwards = a[::-1]

print("strides in bytes:", a.strides, "and", backwards.strides)
for convert in (torch.from_numpy, torch.as_tensor, torch.tensor):
    try:
        convert(backwards)
    except ValueError as error:
        print(f"{convert.__name__}: {str(error).split(',')[0]}")

# %% [markdown] facts=["N7"]
# A tensor's strides are never negative, and even `torch.tensor` cannot read that memory. You meet this after
# flipping a picture, or after `image[..., ::-1]`, which turns BGR into RGB. The cure is a copy in the new
# order, by NumPy before the conversion or by PyTorch after it:

# %% facts=["N6", "N7"]
for words, t in (
    ("by NumPy:  ", torch.from_numpy(np.ascontiguousarray(backwards))),
    ("by PyTorch:", torch.from_numpy(a).flip(0)),
):
    shares = "shares" if np.shares_memory(t.numpy(), a) else "copies"
    print(words, t, "strides", t.stride(), shares)

# %% [markdown] facts=["N7"]
# `np.ascontiguousarray` copies only where it must: given `a` itself, it would share. If the tensor must never
# share, write `a.copy()`.
#
# A **read-only** array becomes a tensor with a mere warning, and the tensor can write where nothing should;
# into a file mapped for reading the write ends Python with a segmentation fault. Use
# `torch.from_numpy(a.copy())`.
#
# | | what happens | the cure |
# |---|---|---|
# | a tensor on an accelerator | `TypeError` | `cpu()` |
# | a tensor that requires grad | `RuntimeError` | `detach()` |
# | `bfloat16`, and floats of 8 bits | `TypeError` | `float()` |
# | a conjugated complex tensor | `RuntimeError` | `resolve_conj()`, `resolve_neg()` |
# | a sparse tensor | `TypeError` | `to_dense()` |
# | an array with negative strides | `ValueError` | `a.copy()` |
# | numbers in another byte order (`>f4`, from old file formats) | `ValueError` | `a.astype(np.float32)` |
# | text, Python objects | `TypeError` that lists the supported dtypes | turn them into numbers |
#
# **[Exercise](../exercises/06_numpy_sharing.ipynb#task_to_numpy):** `to_numpy` removes the three obstacles of
# a tensor, and no more than it has to.
#
# **[Exercise](../exercises/06_numpy_sharing.ipynb#task_sharing_tensor):** `sharing_tensor` has to share or to
# refuse.
#
# **[Exercise](../exercises/06_numpy_sharing.ipynb#task_independent_tensor):** `independent_tensor` never
# shares.

# %% [markdown]
# ## An epoch in one array
#
# What a program brings to NumPy most often is its losses. First look at what *one* collected loss keeps in
# memory, before `backward` and after it:

# %% facts=["N3"]
weights = torch.ones(100_000, device=device, requires_grad=True)
loss = (weights.exp() * 2).mean()

saved = loss.grad_fn.next_functions[0][0].next_functions[0][0]  # the node of exp, which needs its result
print("the loss itself:", loss.nbytes, "bytes")
print("its graph keeps:", saved._saved_result.nbytes, "bytes")
loss.backward()
try:
    print("after backward: ", saved._saved_result.nbytes, "bytes")
except RuntimeError as error:
    print("after backward: ", str(error).partition(".")[0])

# %% [markdown] facts=["N3"]
# You want four bytes, and before `backward` the loss keeps a hundred thousand times as much. `backward` lets
# the saved tensors go. But a list of losses on which `backward` is not called, in a validation loop without
# `no_grad` for example, or one sum over them, keeps everything until the memory is full. Keep the number
# without the graph: `loss.detach()`.
#
# Here is a larger list: a model's outputs for eight batches, on the accelerator and each with a graph. NumPy
# cannot take it as it is, and two ways work:

# %% facts=["N1", "N2", "N3"]
weights = torch.ones(3, device=device, requires_grad=True)
outputs = [torch.ones(rows, 3, device=device) @ weights for rows in (4, 4, 4, 4, 4, 4, 4, 2)]

try:
    np.concatenate(outputs)
except (TypeError, RuntimeError) as error:
    print(error)

with devlab.watch() as log:
    one_by_one = np.concatenate([output.detach().cpu().numpy() for output in outputs])
print(f"each by itself:   {log.transfers} transfers, {log.synchronizations} waits, {one_by_one.shape}")

with devlab.watch() as log:
    together = torch.cat([output.detach() for output in outputs]).cpu().numpy()
print(f"joined, then one: {log.transfers} transfer,  {log.synchronizations} wait,  {together.shape}")

# %% [markdown] facts=["N2", "N3"]
# `torch.cat` joins the outputs *on the device*, and one tensor is transferred. In a loop, append what is
# detached, so that no graph outlives its step, and convert once at the end.
#
# **[Exercise](../exercises/06_numpy_sharing.ipynb#task_history):** `history`, of losses, which have no
# dimension along which they could be joined.

# %% [markdown]
# ## What to keep
#
# - A CPU tensor and its NumPy array are two names for one memory. A write in place to either shows in both.
# - `from_numpy` always shares, `torch.tensor` always copies, `as_tensor` and `.to` share if they can, and
#   `torch.asarray(a, copy=…)` does what you say. Ask `np.shares_memory`.
# - The steps to NumPy are `x.detach().cpu().numpy()`. From the CPU the result shares, from an accelerator it
#   is a copy. Autograd does not see what NumPy writes.
# - DLPack hands a tensor to CuPy and JAX without a copy. `bfloat16` becomes `float32` first, and negative
#   strides need a copy first.
# - Keep losses and outputs detached, join them on the device, and transfer them once.
#
# **Now do it:** [the exercises of this lesson](../exercises/06_numpy_sharing.ipynb), six functions. **Then:**
# [07 Asynchrony](07_asynchrony.ipynb).
