# %% [markdown]
# # 06 Sharing memory with NumPy
#
# Plots, tables, pictures, older libraries: sooner or later your numbers go from PyTorch to NumPy, or come
# from there. On the CPU the step costs next to nothing, because no number moves: both libraries look at the same
# memory. That is a gift and a trap.
#
# After this lesson you can bring any tensor to NumPy, say of any line whether it shared or copied, choose
# the one you want, and read the errors of the things that cannot cross.
#
# **Takes** about 40 minutes. **Needs** [01 The CPU](01_cpu.ipynb), where views and storages appeared, and
# [05 Models and buffers](05_buffers.ipynb).

# %%
import numpy as np
import torch

import devlab

device = devlab.start()

# %% [markdown]
# ## One memory, two names
#
# NumPy makes an array, and PyTorch wraps it in a tensor. Then each of the two writes one number. Before you
# run the cell: what will the two lines show?

# %% facts=["N4", "N5"]
a = np.zeros(4)
t = torch.from_numpy(a)

t[0] = 7
a[3] = -1

print("array ", a)
print("tensor", t)

# %% [markdown] facts=["N4", "N5"]
# Both writes are in both. There is one piece of memory here and two objects that describe it, each with its
# own idea of shape and dtype. The other direction is the same: **a CPU tensor and its `.numpy()` share
# memory**.

# %% facts=["N4", "N5"]
t = torch.zeros(2, 3)
a = t.numpy()

a[1] += 5
print(t)

# %% [markdown] facts=["N5"]
# So a change to one shows in the other, *if it is a change to the memory*. Here are two ways to double an
# array that a tensor shares. One of them reaches the tensor. Which?

# %% facts=["N5"]
a = np.ones(3)
t = torch.from_numpy(a)

a = a * 2
print("after a = a * 2:", t)

a = t.numpy()
a *= 2
print("after a *= 2:   ", t)

# %% [markdown] facts=["N5"]
# `a * 2` made a new array, and `a =` gave it the old name. The tensor still looks at the old memory.
# `a *= 2` wrote into the memory itself. The same holds on the side of PyTorch: `t = t * 2` moves a name,
# `t *= 2` and `t.mul_(2)` change numbers.
#
# Now the trap. This function prepares a picture for a model. It looks harmless. What is in the data set
# after two epochs?


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
# The first epoch was right, and it spoiled the data for the second. No error, no warning. The line at fault
# is `x -= 100`: written as `x = x - 100`, the function would be right, at the price of new memory. A
# function that is given an array should say which of the two it does, and so you have to know.

# %% [markdown]
# ## How to tell
#
# You cannot tell from the numbers. `t` and `copy` below are equal to the array in every element:

# %% facts=["N4"]
a = np.arange(6.0)
t = torch.from_numpy(a)
copy = torch.tensor(a)

print("equal:        ", np.array_equal(t, a), np.array_equal(copy, a))
print("same address: ", t.data_ptr() == a.ctypes.data, copy.data_ptr() == a.ctypes.data)

# %% [markdown] facts=["N4"]
# The address of the first element tells them apart, so far. But views begin anywhere. In each of the three
# pairs below both parts are cut from one array. For each: is the first address the same, and would a write
# to one show in the other?

# %% facts=["N4", "N5"]
pairs = {
    "overlapping   ": (t[0:4], a[2:6]),
    "halves        ": (t[0:3], a[3:6]),
    "even and odd  ": (t[0::2], a[1::2]),
}
for words, (part, other) in pairs.items():
    same_start = part.data_ptr() == other.ctypes.data
    print(words, "same start:", same_start, "  shared:", np.shares_memory(part.numpy(), other))

# %% [markdown] facts=["N4", "N5"]
# None begins where the other does, and only the first pair has elements in common. `np.shares_memory`
# compares the places of all elements and touches none of them. It works on arrays, and a CPU tensor has an
# array for the asking.
#
# (There is a quicker `np.may_share_memory`, which compares only where the two begin and end. For the even
# and the odd places it says `True`, which is why its name has a *may* in it.)
#
# **[Exercise](../exercises/06_numpy_sharing.ipynb#task_shares_memory):** `shares_memory`, for tensors on any device.

# %% [markdown]
# ## Which share and which copy
#
# There are many ways from an array to a tensor. Before you run the cell, decide for each line: does it
# share, or copy?

# %% facts=["N6"]
a = np.ones(3, dtype=np.float32)

ways = {
    "torch.from_numpy(a)": torch.from_numpy(a),
    "torch.as_tensor(a)": torch.as_tensor(a),
    "torch.tensor(a)": torch.tensor(a),
    "torch.from_numpy(a).clone()": torch.from_numpy(a).clone(),
    "torch.from_numpy(a).float()": torch.from_numpy(a).float(),
    "torch.from_numpy(a).double()": torch.from_numpy(a).double(),
    'torch.from_numpy(a).to("cpu")': torch.from_numpy(a).to("cpu"),
    "torch.from_numpy(a).detach()": torch.from_numpy(a).detach(),
}
for code, t in ways.items():
    print(f"{code:<31}{'shares' if np.shares_memory(t.numpy(), a) else 'copies'}")

# %% [markdown] facts=["N6"]
# `.float()` and `.to("cpu")` give what was asked for; when it is there already, that is the same memory.
# `.double()` had to make other numbers. So the rule has three parts:
#
# | | memory | if it cannot be shared |
# |---|---|---|
# | `torch.from_numpy(a)` | **always shares** | an error |
# | `torch.as_tensor(a)`, with or without `dtype=` and `device=` | shares **if it can** | copies |
# | `torch.tensor(a)` | **always copies** | |
#
# `as_tensor` is for when you do not care. Ask the same function for another dtype, and it no longer shares.
# Which line below would be a bug if somebody relied on sharing?

# %% facts=["N6"]
a = np.ones(3)  # NumPy's own default is float64

for dtype in (torch.float64, torch.float32):
    t = torch.as_tensor(a, dtype=dtype)
    print(dtype, "shares" if np.shares_memory(t.numpy(), a) else "copies")

# %% [markdown] facts=["N6"]
# And that default is good for one more surprise. An array made without a dtype is `float64`, and so is the
# tensor over it. Layers are `float32`:

# %% facts=["N6"]
try:
    torch.nn.Linear(3, 1)(torch.from_numpy(a))
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["N6"]
# `torch.from_numpy(a).float()` mends it, with a copy.
#
# Who owns shared memory? Here the array is made inside a function, and only the tensor comes out. The name
# `local` is gone when the function ends. Is the memory?


# %% facts=["N4"]
def make():
    local = np.arange(3)
    return torch.from_numpy(local)


print(make())

# %% [markdown] facts=["N4"]
# It is still there. The tensor holds the array, and the memory lives as long as anyone looks at it. Sharing
# is safe in that respect, and like the views of lesson 01 it can keep a big array alive for a small slice.
#
# **Exercises:** [`sharing_tensor`](../exercises/06_numpy_sharing.ipynb#task_sharing_tensor) and
# [`independent_tensor`](../exercises/06_numpy_sharing.ipynb#task_independent_tensor).
# Both also meet arrays that you will see under [What cannot cross](#What-cannot-cross).

# %% [markdown] facts=["N1", "N6"]
# ### Look and touch
#
# Two names, and between them one memory or two: that is hidden at first. Choose how y is made of x, guess whether a write
# through one name shows in the other, and click a cell to write into it. **Find out:** which ways of making y share for
# one kind of x and copy for another? There are several; start with `x.to(device)`.

# %% facts=["N1", "N6"]
devlab.explore.sharing()

# %% [markdown] facts=["N1", "N6"]
# `x.to(device)` gives x itself back where x is on the device already. `torch.as_tensor` shares an array and copies it
# for another dtype. `reshape` shares where strides allow it and copies after `.T`. None of them says which it did. When
# it matters, use one that always does the same: `view` and `from_numpy` share or fail, `clone` and `torch.tensor` copy.

# %% [markdown]
# ## Work in place
#
# Sharing can be put to use: let PyTorch do the work on an array that belongs to someone else. The array
# below has a million numbers, 4 MB. `devlab.watch` counts the bytes of new tensors that each line makes.
# Which of the three makes none?

# %% facts=["N5", "N6"]
a = np.ones((1000, 1000), dtype=np.float32)

with devlab.watch() as log:
    torch.tensor(a).clamp_(0, 0.5)
print("on a copy:    ", log.bytes_allocated, "bytes, a[0, 0] is", a[0, 0])

with devlab.watch() as log:
    torch.from_numpy(a).clamp(0, 0.5)
print("out of place: ", log.bytes_allocated, "bytes, a[0, 0] is", a[0, 0])

with devlab.watch() as log:
    torch.from_numpy(a).clamp_(0, 0.5)
print("in place:     ", log.bytes_allocated, "bytes, a[0, 0] is", a[0, 0])

# %% [markdown] facts=["N5", "N6"]
# Two things have to come together: a tensor that *shares*, and an operation that works *in place*. In
# PyTorch those end in `_`. With only one of the two, the work is done and thrown away, and the array never
# hears of it.
#
# A tensor over a slice knows its strides, so it writes to the slice and not to its neighbours:

# %% facts=["N5"]
grid = np.zeros((3, 5))
torch.from_numpy(grid[:, 1::2]).add_(1)
print(grid)

# %% [markdown] facts=["N5", "N6"]
# Beware of anything that makes the slice tidy on the way. `np.ascontiguousarray(grid[:, 1::2])` is a new
# array, and so is what `.reshape(-1)` gives for such a slice. Work on them in place, and you have worked on
# a copy.
#
# **[Exercise](../exercises/06_numpy_sharing.ipynb#task_scale_in_place):** `scale_in_place`.

# %% [markdown]
# ## The array at home
#
# So far everything was in the computer's own memory. Now a tensor on the accelerator, and two ways to ask
# for its array. Before you run the cell: what will each do?

# %% facts=["N1"]
x = torch.arange(4.0, device=device)

for convert in (torch.Tensor.numpy, np.asarray):
    try:
        print(convert(x))
    except TypeError as error:
        print(error)

# %% [markdown] facts=["N1"]
# NumPy knows one memory. **A tensor on an accelerator has no NumPy view**, and neither library copies it
# behind your back: a transfer is slow, so PyTorch wants you to write it down. The message says how. (*Host
# memory* is the computer's own. The wording is PyTorch's for CUDA, which the simulated device repeats.)
#
# After the transfer, do the two still share? Say what the last line prints:

# %% facts=["N1", "N2"]
home = x.cpu().numpy()
home[0] = 99

print("array ", home)
print("tensor", x)

# %% [markdown] facts=["N1", "N2"]
# No. `x.cpu()` made a second tensor, and the array shares with *that*. So the same line, `x.cpu().numpy()`,
# gives a copy for an accelerator tensor and shared memory for a CPU tensor, where `.cpu()` does nothing. A
# function that writes into the result then behaves one way on a laptop and another on a GPU. Copy when you
# mean to write: `x.cpu().numpy().copy()`.
#
# (On Apple's chips the accelerator uses the same memory chips as the CPU. PyTorch still keeps the two
# apart, and `.cpu()` copies there, too.)
#
# `.cpu()` waits until the numbers are here. A transfer with `non_blocking=True`, as in lesson 04, does not, and
# NumPy knows nothing of transfers under way: it may read what was in that memory before. So wait first.
#
# The transfer can be counted:

# %% facts=["N2"]
with devlab.watch() as log:
    x.cpu().numpy()
print(log.transfers, "transfer,", log.bytes_moved, "bytes")

# %% [markdown]
# ## Off the graph
#
# The second obstacle has nothing to do with devices. These are weights on the CPU:

# %% facts=["N3", "N7"]
weights = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)

try:
    weights.numpy()
except RuntimeError as error:
    print(error)

# %% [markdown] facts=["N3", "N7"]
# Autograd follows what happens to this tensor, and it cannot follow NumPy. What NumPy computes has no
# gradient, and PyTorch makes you say that you know. **`detach()` gives a tensor outside of the graph**, with
# the same numbers. The same memory, too? Predict the last line:

# %% facts=["N3", "N4"]
outside = weights.detach().numpy()
outside[0] = 100

print(weights)

# %% [markdown] facts=["N3", "N4"]
# `detach` leaves the graph and not the memory. You have just changed a parameter through NumPy. That is
# worse than it looks, since autograd did not see it. Below, the graph of `loss` remembers the weights as
# they were, to compute the gradient 2 w. Two ways to write to a weight afterwards: which of them is caught?

# %% facts=["N3", "N5"]
for how in ("by PyTorch", "by NumPy"):
    weights = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    loss = (weights * weights).sum()
    if how == "by PyTorch":
        with torch.no_grad():
            weights[0] = 100
    else:
        weights.detach().numpy()[0] = 100
    try:
        loss.backward()
        print(how, "->", weights.grad)
    except RuntimeError as error:
        print(how, "->", str(error).partition(":")[0])

# %% [markdown] facts=["N3", "N5"]
# PyTorch counts its own writes and refuses to compute a gradient from numbers that have changed. NumPy's
# writes are not counted: the gradient of the first weight should be 2, and it is 200 without a word. So an
# array made from a tensor that is still in use is for *reading*. To write, copy first.
#
# Together, the road home for any tensor is **`x.detach().cpu().numpy()`**: leave the graph, leave the
# device, then NumPy. Detach first, so that autograd need not note the transfer. The steps cost next to nothing where
# they are not needed:

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
# `x.numpy(force=True)` is short for the same steps. Long or short, both hide from you whether the result
# shares, so the last paragraph holds for both.

# %% [markdown]
# ## What cannot cross
#
# **A dtype that NumPy lacks.** Models are often run in `bfloat16`. Three roads; which of them work?

# %% facts=["N7"]
x = torch.tensor([1.0, 0.1, 3e38], dtype=torch.bfloat16)

roads = {
    "x.numpy()": lambda: x.numpy(),
    "x.half().numpy()": lambda: x.half().numpy(),
    "x.float().numpy()": lambda: x.float().numpy(),
}
for code, go in roads.items():
    try:
        print(f"{code:<18}{go()}")
    except TypeError as error:
        print(f"{code:<18}{error}")

# %% [markdown] facts=["N7"]
# `float16` has as many bits, divided in another way: 3e38 is beyond it. `float32` holds every `bfloat16`
# number exactly. (The 0.1 is printed as what it became on the way in: `bfloat16` keeps two to three
# digits.) Note that `force=True` does not help here, and that a converted tensor shares no memory.
#
# **Memory that is read backwards.** NumPy reverses an array without moving a number. It keeps the address
# of the *last* element and a negative **stride**, the step from one element to the next:

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
# A tensor's strides are never negative, so no tensor can look at that memory. Even `torch.tensor`, which
# copies anyway, cannot read it. You meet this after flipping a picture, or after `image[..., ::-1]`, which
# turns BGR into RGB. NumPy has to do the copy:

# %% facts=["N6", "N7"]
t = torch.from_numpy(backwards.copy())
print(t, "strides", t.stride())
print("shares with a:", np.shares_memory(t.numpy(), a))

# %% [markdown] facts=["N7"]
# `np.ascontiguousarray(backwards)` would do as well, and would copy only where it must. Which of the two is
# right depends on whether you want a tensor that never shares, or one that sometimes does. Decide it, and
# do not leave it to the strides of today's data.
#
# One road is missing from the cell above: `torch.from_dlpack`, a newer door between libraries. For negative
# strides it ends the whole Python process in torch 2.13, so do not try it here. (The checks of this course
# put a guard in front of it: an answer that goes that way gets a `BufferError`, not a dead kernel.)
#
# **Other things that stay on their side:**
#
# | | what happens | the cure |
# |---|---|---|
# | text, Python objects | `TypeError` that lists the supported dtypes | turn them into numbers |
# | numbers in another byte order (`>f4`, from old file formats) | `ValueError` | `a.astype(np.float32)` |
# | a read-only array | a warning, and a tensor that can write where nobody should | `a.copy()` |
# | a tensor that requires grad | `RuntimeError` | `detach()` |
# | a tensor on an accelerator | `TypeError` | `cpu()` |
#
# **[Exercise](../exercises/06_numpy_sharing.ipynb#task_to_numpy):** `to_numpy`, for all of these tensors.

# %% [markdown]
# ## Many losses, one array
#
# The most frequent transfer of all: a training loop that collects its losses to plot them. First look at what
# *one* collected loss holds on to. Everything that `backward` will need is saved in its graph, and PyTorch
# lets us watch it being saved:

# %% facts=["N3"]
saved = []


def note(tensor):
    saved.append(tensor.nbytes)
    return tensor


weights = torch.ones(100_000, device=device, requires_grad=True)
with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
    loss = (weights.exp() * 2).mean()

print("the loss itself:", loss.nbytes, "bytes")
print("its graph keeps:", sum(saved), "bytes")

# %% [markdown] facts=["N3"]
# Four bytes of news, and a hundred thousand times as much behind them. A list with all the losses of an
# epoch keeps all of their graphs, until the memory is full. What should be kept is the number without the
# graph.
#
# Here is a list of eight losses, on the accelerator. NumPy cannot take it as it is:

# %% facts=["N1", "N3"]
weights = torch.ones(3, device=device, requires_grad=True)
losses = [(step * weights).mean() for step in range(8)]

try:
    np.array(losses)
except (TypeError, RuntimeError) as error:
    print(error)

# %% [markdown]
# Below are two ways that work. How often does each go to the accelerator, and how often does the program
# stand and wait for it?

# %% facts=["N2", "N3"]
with devlab.watch() as log:
    one_by_one = np.array([loss.item() for loss in losses])
print(f"item, item, item: {log.transfers} transfers, {log.synchronizations} waits")

with devlab.watch() as log:
    together = torch.stack(losses).detach().cpu().numpy()
print(f"stack, then home: {log.transfers} transfer,  {log.synchronizations} wait")

print(one_by_one.dtype, together.dtype, np.array_equal(one_by_one, together))

# %% [markdown] facts=["N2", "N3"]
# The numbers are the same. (`item` gives Python floats, which NumPy makes `float64`.) `torch.stack` puts
# the losses side by side *on the device*, `detach` lets go of all graphs at once, and one small tensor goes
# home. In a loop one writes `losses.append(loss.detach())`, so that no graph outlives its step, and
# converts once at the end.
#
# The counts are what PyTorch really does, on this simulated device and on a GPU alike. How long a wait
# takes is a matter of hardware, and of lesson 07.
#
# **[Exercise](../exercises/06_numpy_sharing.ipynb#task_history):** `history`.

# %% [markdown]
# ## What to keep
#
# - A CPU tensor and its NumPy array are two names for one memory. A write in place to either shows in both;
#   `=` only moves a name.
# - `from_numpy` always shares, `torch.tensor` always copies, `as_tensor` and `.to` share if they can. Equal
#   numbers prove nothing: ask `np.shares_memory`.
# - To work on an array through PyTorch: a tensor that shares, and an operation that ends in `_`.
# - The road home is `x.detach().cpu().numpy()`. From the CPU the result shares, from an accelerator it is a
#   copy. Autograd does not see what NumPy writes.
# - `bfloat16` goes by way of `float32`; negative strides need `a.copy()` first.
# - Keep losses detached, stack them, and bring them home once.
#
# **Now do it:** [the exercises of this lesson](../exercises/06_numpy_sharing.ipynb), six functions. **Then:**
# [07 Asynchrony](07_asynchrony.ipynb).
