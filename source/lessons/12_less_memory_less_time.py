# %% [markdown]
# # 12 Less memory, less time
#
# The training step of the last lesson is right. Real programs change it in five places, because a model does not fit, or
# takes too long. Each change trades one thing for another: digits for time, time for memory, memory for transfers.
#
# After this lesson you can say what each of them costs, use them without changing what is learned, and tell whether
# two results are the same.
#
# **Takes** about 60 minutes. **Needs** [08 Memory](08_memory.ipynb) and
# [11 The training step](11_training_step.ipynb).

# %%
import os

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

os.environ["DEVLAB_DEVICE"] = "sim"  # in this lesson, on every machine
import devlab

device = devlab.start()
memory = torch.get_device_module(device)

# %% [markdown]
# **Every time in this lesson is modelled, and every figure of memory is simulated.** The lesson runs on the simulated device
# everywhere, so that its figures can be explained. The numbers in the tensors are real: the simulated device computes with the
# CPU's arithmetic. On a GPU the same lines run with `cuda`, and where a GPU does otherwise, the text says so.

# %% [markdown] facts=["F1"]
# ## What 16 bits can hold
#
# A float has a sign, an exponent and a fraction. The exponent decides how large and how small a number may be, its **range**;
# the fraction decides how many digits it has, its **precision**. Two formats of 16 bits divide them differently.

# %% facts=["F1"]
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    info = torch.finfo(dtype)
    print(
        f"{dtype!s:<15} largest {info.max:.1e}  smallest normal {info.tiny:.1e}  next after 1: 1 + {info.eps:.1e}"
    )

# %% [markdown] facts=["F1"]
# **float16** has about three decimal digits, and ends at 65504. **bfloat16** has the range of float32, and pays for it
# with precision: between two and three digits. Half the bytes mean half the memory and half the traffic, and the matrix
# units of a GPU multiply 16-bit numbers several times as fast as 32-bit ones.
#
# What becomes of a count in float16?

# %% facts=["F1"]
guess = devlab.predict("What is 2048 + 1 in float16?", "2048", "2049", "2050", "inf")

# %% facts=["F1"]
count = torch.tensor(2048.0, dtype=torch.float16, device=device)
guess.was(f"{(count + 1).item():.0f}")

for number in (70000.0, 1e-8, 1.001):
    kept = [
        torch.tensor(number, dtype=dtype, device=device).item() for dtype in (torch.float16, torch.bfloat16)
    ]
    print(f"{number:<8g} in float16 {kept[0]:<8.4g} in bfloat16 {kept[1]:.4g}")

# %% [markdown] facts=["F1"]
# From 2048 on float16 has even numbers only, so a sum of ones stops growing there. 70000 is beyond its range and becomes inf,
# and 1e-8 below it becomes 0. In bfloat16 both survive, but 1.001 is 1. **float16 loses large and small numbers, bfloat16 loses
# digits.** Sums, means, losses and parameters therefore stay in float32.

# %% [markdown] facts=["F4"]
# ## The same result
#
# With other dtypes, and on other devices, the same program gives other digits. That starts in float32: a sum depends on
# its order, and each device adds up in its own. Here is one list of numbers, added up forwards and backwards, in two
# dtypes.

# %% facts=["F4"]
numbers = torch.linspace(0, 1, 1001, dtype=torch.float64)
for dtype in (torch.float64, torch.float32):
    total, reverse = torch.zeros((), dtype=dtype), torch.zeros((), dtype=dtype)
    for number in numbers.to(dtype):
        total += number
    for number in numbers.to(dtype).flip(0):
        reverse += number
    print(
        f"{dtype!s:<15} forwards {total.item():.8g}, backwards {reverse.item():.8g}, equal: {(total == reverse).item()}"
    )

# %% [markdown] facts=["F4"]
# The right sum is 500.5. No order is wrong, and `==` is the wrong question. The right one is whether two results differ by
# **no more than their dtype can hold**: `torch.testing.assert_close` has a relative and an absolute tolerance for each
# dtype. For float32 they are 1.3e-6 and 1e-5, for bfloat16 1.6e-2 and 1e-5.
#
# How far apart may two numbers near 100 be, for each dtype?

# %% facts=["F4"]
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    a = torch.tensor(100.0, dtype=dtype)
    for apart in (1e-4, 0.05, 1.0):
        try:
            torch.testing.assert_close(a, a + apart)
            verdict = "the same"
        except AssertionError:
            verdict = "different"
        print(f"{dtype!s:<15} 100 and {(a + apart).item():<9.7g} {verdict}")

# %% [markdown] facts=["F4"]
# Beside 100, bfloat16 has no number nearer than 100.5, so a difference of 0.05 is not there to be seen.
#
# Two habits follow. Compare with `assert_close`, on one device or with `check_device=False`, and in the dtype in which the numbers
# were **computed**: a bfloat16 result that was made float32 has bfloat16's digits still. And do not expect the losses of a long
# training to agree between two devices in more than the first digits, because each step starts from what the last one rounded.
#
# **[Exercise](../exercises/12_less_memory_less_time.ipynb#task_same_results):** `same_results`.

# %% [markdown] facts=["F5"]
# ### TF32 and determinism
#
# NVIDIA's GPUs since Ampere have a third way for float32. With **TF32** a product of matrices rounds its inputs to 10 bits of
# fraction, as many as float16 has, and keeps float32's range and float32's sums. PyTorch leaves it off for products of
# matrices and on for the convolutions of cuDNN. The simulated device has no TF32, so the cell rounds the inputs by hand, and
# compares the product with one in float64.


# %% facts=["F5"]
def as_tf32(x):
    """Return float32 numbers with 10 bits of fraction, rounded to the nearest."""
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


print("for products:    ", torch.get_float32_matmul_precision())
print("for convolutions:", "TF32 allowed" if torch.backends.cudnn.allow_tf32 else "float32")

numbers = torch.Generator().manual_seed(0)
a, b = (torch.randn(64, 64, generator=numbers) for _ in range(2))
exact = a.double() @ b.double()
for name, product in (("float32", a @ b), ("TF32", as_tf32(a) @ as_tf32(b))):
    print(f"{name:<8} largest error about 1e{(product - exact).abs().max().log10().round().int().item()}")

# %% [markdown] facts=["F5"]
# `"highest"` is full float32. `torch.set_float32_matmul_precision("high")` allows TF32 for products, which costs three digits and
# makes large products several times as fast on such a GPU. If a GPU and a CPU differ in the third digit of a convolution, this is
# the first thing to look at.
#
# Two runs on **one** GPU may differ, too: some kernels add up in whatever order their threads finish.
# `torch.use_deterministic_algorithms(True)` asks for kernels that keep an order. They may be slower, and where there is none, the
# operation refuses:

# %% facts=["F5"] tags=["raises-exception"]
torch.use_deterministic_algorithms(True)
try:
    torch.histc(torch.ones(10, device=device), 4)
finally:
    torch.use_deterministic_algorithms(False)

# %% [markdown] facts=["F5"]
# The message has CUDA's words. Determinism is for one machine, one version of PyTorch and one program: between devices a
# tolerance is all there is.

# %% [markdown] facts=["F2"]
# ## Autocast
#
# Which operations may run in 16 bits? Products may, since the matrix units of a GPU add up in float32. A softmax, a norm or a loss
# should not. **Autocast** knows a list, and chooses for each operation as it comes. Before you run the cell: what are the dtypes
# after each layer, and of the parameters?

# %% facts=["F2"]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 10)).to(device)
inputs, labels = torch.randn(16, 64, device=device), torch.arange(16, device=device) % 10

with torch.autocast(device.type, dtype=torch.float16):
    x = inputs
    for layer in model:
        x = layer(x)
        print(f"{type(layer).__name__:<14} {x.dtype}")
    print(f"{'cross_entropy':<14} {F.cross_entropy(x, labels).dtype}")

print("parameters    ", {parameter.dtype for parameter in model.parameters()})

# %% [markdown] facts=["F2"]
# Products in float16, normalization and loss in float32; `ReLU` takes what it is given. The parameters **stay float32**: autocast
# casts copies of them, and the optimizer adds its small steps to the full digits. So never call `model.half()` as well. These are
# the rules for CUDA. The CPU has rules of its own (its `LayerNorm` stays in 16 bits).
#
# Put the **forward and the loss** under autocast, and nothing else. Backward runs each operation in the dtype that its forward
# had, so it needs no autocast, and PyTorch advises against it.
#
# How much time does it save? One product, then a network of small layers, as the simulator models them:


# %% facts=["F2"]
def modelled(function):
    """Return the modelled time of a function, in microseconds."""
    return devlab.time_op(function, device, repeats=5, show=False).median * 1e6


def in_float16(function):
    """Return the function under autocast."""

    def run():
        with torch.autocast(device.type, dtype=torch.float16):
            return function()

    return run


x = torch.randn(512, 512, device=device)
half = x.half()
layers = nn.Sequential(*(nn.Linear(64, 64) for _ in range(6))).to(device)
rows = torch.randn(16, 64, device=device)

print(f"a product in float32     {modelled(lambda: x @ x):5.0f} µs")
print(f"a product in float16     {modelled(lambda: half @ half):5.0f} µs")
print(f"six small layers         {modelled(lambda: layers(rows)):5.0f} µs")
print(f"the same under autocast  {modelled(in_float16(lambda: layers(rows))):5.0f} µs")

# %% [markdown] facts=["F2"]
# The product gains, and the small layers lose: every cast is one more launch, and launches are what small work consists of
# (lesson 07). Half precision is for models whose products are large. With **bfloat16** this section is all you need. With float16
# something is missing.

# %% [markdown] facts=["F3"]
# ## Gradients too small to see
#
# Gradients are often far smaller than 1. A number under 3e-8 is 0 in float16, and one under 6e-5 has lost digits already. The
# cell computes a gradient of 1e-8, which goes back through a product in float16. Then it multiplies the loss by a scale
# first, and divides the gradient by it afterwards.

# %% facts=["F3"]
weight = torch.ones(1, device=device, requires_grad=True)
for scale in (1.0, 1024.0, 65536.0, 2.0**43):
    weight.grad = None
    loss = (weight.half() * 1.0).float().sum() * 1e-8
    (loss * scale).backward()
    print(f"scale {scale:8.3g}: gradient {(weight.grad / scale).item():.3g}")

# %% [markdown] facts=["F3"]
# Without a scale the gradient is gone, and the parameter will never move. With too large a scale it is inf. Between them there are many
# right scales, and no constant is right for a whole training. `torch.amp.GradScaler` keeps one:
#
# - `scaler.scale(loss).backward()` scales the loss, and so all gradients;
# - `scaler.step(optimizer)` divides the gradients by the scale, looks for inf and nan, and **leaves the step out** where it finds one;
# - `scaler.update()` halves the scale after a step that was left out, and doubles it after 2000 good ones.
#
# A scaler that starts much too high, and what it does:


# %% facts=["F3"]
def mixed(model, optimizer, scaler):
    with torch.autocast(device.type, dtype=torch.float16):
        loss = F.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device.type, init_scale=2.0**22)
for step in range(8):
    scale, before = scaler.get_scale(), model[0].weight.detach().clone()
    mixed(model, optimizer, scaler)
    moved = "stepped" if (model[0].weight != before).any() else "left out"
    print(f"step {step}: scale {scale:9.0f}, {moved}")

# %% [markdown] facts=["F3"]
# The first steps of a training in float16 are often left out like this, and that is no fault. `scaler.step` costs one wait a step,
# since Python has to know whether to call the optimizer. (`get_scale` costs another; the cell calls it to show you.) bfloat16 has
# float32's range and needs no scaler.
#
# Whoever looks at the gradients between `backward` and `step` sees them **scaled**. Clipping them to a norm of 1 would then clip
# nearly everything away. `scaler.unscale_(optimizer)` divides them now, and tells the scaler's `step` not to do it again:

# %% facts=["F3"]
with torch.autocast(device.type, dtype=torch.float16):
    loss = F.cross_entropy(model(inputs), labels)
optimizer.zero_grad()
scaler.scale(loss).backward()
print(f"scaled:   {nn.utils.get_total_norm([p.grad for p in model.parameters()]).item():.3g}")
scaler.unscale_(optimizer)
print(f"unscaled: {nn.utils.clip_grad_norm_(model.parameters(), 1.0).item():.3g}")

# %% [markdown]
# **Exercises:** [`mixed_step`](../exercises/12_less_memory_less_time.ipynb#task_mixed_step) and
# [`unscaled_clip`](../exercises/12_less_memory_less_time.ipynb#task_unscaled_clip).

# %% [markdown] facts=["F6"]
# ## A large batch in small parts
#
# A batch that does not fit can be cut. `backward` adds to `.grad`, so several small batches can share one step. The activations
# of a part are gone before the next part begins, and so the peak falls with the size of a part. Does the step stay the same?


# %% facts=["F6"]
def peak_of(function):
    """Return the peak of memory above what was there, in KiB."""
    memory.reset_peak_memory_stats(device)
    before = memory.memory_allocated(device)
    function()
    return (memory.max_memory_allocated(device) - before) >> 10


def gradient_of(parts, weigh):
    net.zero_grad()
    for x, y in parts:
        loss = F.cross_entropy(net(x), y)
        (loss * weigh(len(y))).backward()
    return net[0].weight.grad.clone()


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 10)).to(device)
x, y = torch.randn(1000, 64, device=device), torch.randint(10, (1000,), device=device)
parts = [*zip(x.split(300), y.split(300), strict=True)]
print("sizes of the parts:", [len(labels) for _, labels in parts])

whole = gradient_of([(x, y)], lambda size: 1)
for name, weigh in (
    ("added up", lambda size: 1),
    ("averaged", lambda size: 1 / len(parts)),
    ("weighted", lambda size: size / len(y)),
):
    gradient = gradient_of(parts, weigh)
    error = (gradient - whole).norm() / whole.norm()
    print(f"{name}: off by {error.item():.1%}")

print("peak, in one batch:", peak_of(lambda: gradient_of([(x, y)], lambda size: 1)), "KiB")
print("peak, in parts:    ", peak_of(lambda: gradient_of(parts, lambda size: size / len(y))), "KiB")

# %% [markdown] facts=["F6"]
# The mean of means is the usual mistake. It is right only while all parts have one size, and the last part of an epoch seldom
# has. Weigh each part by its **share of the samples**, `len(y) / total`. What adds up are gradients; what a layer computes *over
# the batch*, such as a batch norm's statistics, is that of the small batch. And no time is gained: smaller parts mean more
# launches.
#
# **[Exercise](../exercises/12_less_memory_less_time.ipynb#task_accumulate):** `accumulate`.

# %% [markdown] facts=["F7"]
# ## Computed twice
#
# ![Memory over time, twice: without checkpoints it rises through the whole forward and falls through backward; with checkpoints it hardly rises in forward, and in backward it rises and falls once for each block, so that the peak is lower and the end later](drawing:one_mountain_or_many)
#
# Backward needs what forward computed. **Checkpointing** keeps only the inputs of each block, and runs the block once more when
# backward comes to it. One forward more, which is about a third more arithmetic, and only one block's activations at a time.

# %% facts=["F7"]
guess = devlab.predict(
    "How much of the peak will be left?", "nine tenths", "two thirds", "a third", "a hundredth"
)


# %% facts=["F7"]
def make_block():
    return nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128))


torch.manual_seed(0)
blocks = nn.Sequential(*(make_block() for _ in range(6))).to(device)
rows = torch.randn(512, 128, device=device)


def kept(x):
    return blocks(x)


def computed_twice(x):
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=False)
    return x


def trained(forward):
    """Return a function that goes forward and backward once."""
    return lambda: forward(rows).square().mean().backward()


trained(kept)()  # makes the gradients, which stay
peaks = {}
for forward in (kept, computed_twice):
    peaks[forward] = peak_of(trained(forward))
    print(
        f"{forward.__name__:<15} peak {peaks[forward]:>6} KiB, modelled {modelled(trained(forward)):5.0f} µs"
    )

share = peaks[computed_twice] / peaks[kept]
shares = {"nine tenths": 0.9, "two thirds": 0.67, "a third": 0.33, "a hundredth": 0.01}
guess.was(min(shares, key=lambda words: abs(shares[words] - share)))

# %% [markdown] facts=["F7"]
# A second run must see what the first one saw. `checkpoint` restores the **random numbers** (of the CPU and of the inputs'
# device; PyTorch 2.13 does not do it for `mps`), so a dropout drops the same elements. It does not restore **buffers**: a batch
# norm in a block counts each batch twice.

# %% facts=["F7"]
norm = nn.BatchNorm1d(128).to(device)
checkpoint(norm, rows, use_reentrant=False).sum().backward()
print("batches counted:", norm.num_batches_tracked.item())

dropout = nn.Dropout(0.5)
x = torch.ones(1000, device=device, requires_grad=True)
y = checkpoint(dropout, x, use_reentrant=False)
y.sum().backward()
print("the same elements dropped:", torch.equal(x.grad, y))

# %% [markdown] facts=["F7"]
# Always say `use_reentrant=False`. The older way needs an input that asks for a gradient, and else gives the parameters none.
#
# **[Exercise](../exercises/12_less_memory_less_time.ipynb#task_Checkpointed):** `Checkpointed`.

# %% [markdown] facts=["F8"]
# ## Kept elsewhere
#
# Activations can also wait in the CPU's memory. `torch.autograd.graph.save_on_cpu` sends each of them there as it is kept, and
# brings it back for backward. What does that cost?


# %% facts=["F8"]
def kept_on_the_cpu(x):
    with torch.autograd.graph.save_on_cpu(pin_memory=True, device_type=device.type):
        return blocks(x)


peak = peak_of(trained(kept_on_the_cpu))
with devlab.watch() as log:
    trained(kept_on_the_cpu)()
print(f"kept_on_the_cpu peak {peak:>6} KiB, modelled {modelled(trained(kept_on_the_cpu)):5.0f} µs")
print(log.transfers, "transfers,", log.bytes_moved >> 10, "KiB moved")

# %% [markdown] facts=["F8"]
# The least memory, and several times as long. Every saved tensor crosses to the CPU and back, **the parameters among them**, at
# 12 GB/s on the reference machine, while its memory has 300. Checkpointing computes instead, and a GPU computes faster than it
# transfers. Offloading is for large tensors that are needed seldom: the optimizer's state, or the inputs of checkpointed
# blocks.

# %% [markdown] facts=["F9"]
# ## Compiled
#
# `torch.compile(function)` watches a function run once, captures its operations as a **graph**, and has kernels made for it in
# which several operations are **fused**: `x * 2 + 1` reads and writes memory once and not twice, and is one launch. It changes
# neither what is computed nor how you call it, but results may differ by rounding.
#
# The first call is slow, seconds to minutes, because it compiles. What makes it compile again? `backend` may be a function that is given each
# captured graph. Ours counts them and runs them as they are. **The simulator fuses nothing**, so no time stands here.


# %% facts=["F9"]
def graphs_for(sizes, **options):
    """Return how many graphs were captured after a call with each size."""
    captured, counts = [], []

    def backend(graph, example_inputs):
        captured.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: torch.relu(x * 2 + 1), backend=backend, **options)
    for size in sizes:
        compiled(torch.ones(size, 4, device=device))
        counts.append(len(captured))
    return counts


sizes = (8, 16, 32, 64, 8)
print("sizes        ", list(sizes))
print("as it comes  ", graphs_for(sizes))
print("dynamic=False", graphs_for(sizes, dynamic=False))
print("dynamic=True ", graphs_for(sizes, dynamic=True))

# %% [markdown] facts=["F9"]
# The first size compiles, the second compiles once more, and from then on PyTorch has noted that this size **varies**, and keeps it
# open. With `dynamic=False` every new size is compiled anew. So a last, smaller batch costs one compilation, and sequences of many
# lengths can cost many: pad them to a few lengths, or say `dynamic=True`.
#
# What stops a graph is Python that needs a number: `.item()`, `print`, `if loss > 1:`. PyTorch then cuts the function in two. The
# same lines also wait for the device, so they are worth removing twice. Compile the model, not the whole script, and measure
# without the first calls.

# %% [markdown]
# ## What to keep
#
# | change | saves | costs |
# |---|---|---|
# | autocast | time and memory of large products | digits; launches where work is small |
# | float16 | the same, on GPUs without bfloat16 | a `GradScaler`, a wait a step |
# | accumulation | memory, by the size of a part | launches |
# | checkpointing | memory, by the number of blocks | one more forward |
# | offloading | the most memory | transfers of all that is kept |
# | `torch.compile` | launches and memory traffic | the first calls, and those with a new size |
#
# - float16 ends at 65504, bfloat16 has between two and three digits; sums and parameters stay float32.
# - Compare results with the tolerance of their dtype, never with `==`.
# - Under a scaler gradients are scaled until `step` or `unscale_`.
# - Parts of a batch are weighted by their share of its samples.
# - A block that is computed twice updates its buffers twice.
#
# **Now do it:** [the exercises of this lesson](../exercises/12_less_memory_less_time.ipynb), five tasks. **Then:**
# [13 Bigger than one device](13_bigger_than_one_device.ipynb), for a model that fits nowhere whole.
