# %% [markdown]
# # 12 Less memory, less time
#
# The training step of the last lesson is right, and for many models it is all you need. Then comes a model that does
# not fit, or one that takes a week. Programs that train such models change the step in a handful of places, and each
# change is a trade: digits for time, time for memory, or transfers for memory.
#
# After this lesson you can say what each of these trades costs and what it changes, make it, and tell
# whether two results are the same.
#
# **Takes** about 60 minutes. **Needs** [08 Memory](08_memory.ipynb) and
# [11 The training step](11_training_step.ipynb).

# %%
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import devlab

device = devlab.start(account=True, threads=1)  # its memory is counted, as in lesson 08; the models are small
memory = torch.get_device_module(device)
kind = "modelled" if device.type == "sim" else "measured"

# %% [markdown]
# **With a GPU, this lesson measures yours.** Without one, every time is modelled and every figure of memory
# simulated, for the course's reference machine, which resembles an NVIDIA T4; the numbers inside the tensors
# are real, because the simulated device computes them with the CPU's arithmetic. What an NVIDIA H200 answered
# is called *H200, measured*, and [the last table](#What-to-keep) puts all changes of this lesson side by
# side.

# %% [markdown] facts=["F1"]
# ## What 16 bits can hold
#
# A floating-point number has three parts: a sign, an exponent and a fraction. The exponent decides how large or small a
# number may become, which is the format's **range**. The fraction decides how many digits it keeps, which is its
# **precision**. There are two formats of 16 bits, and they divide the bits between the two in different ways.
#
# ![Four formats as rows of bits. float32: one sign bit, 8 bits of exponent, 23 of fraction. TF32: 8 and 10. float16: 5 and 10. bfloat16: 8 and 7](drawing:four_formats)

# %% facts=["F1"]
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    info = torch.finfo(dtype)
    print(
        f"{dtype!s:<15} largest {info.max:.1e}  smallest normal {info.tiny:.1e}  next after 1: 1 + {info.eps:.1e}"
    )

# %% [markdown] facts=["F1"]
# **float16** keeps about three decimal digits and ends at 65504. **bfloat16** has the range of float32 and pays for it
# with precision: it keeps between two and three digits.
#
# What you gain is the same with both. Half the bytes mean half the memory and half the traffic. The **matrix
# units** of a GPU, which are made for products of matrices (NVIDIA calls them Tensor Cores), multiply 16-bit
# numbers much faster than the rest of the GPU multiplies 32-bit ones. NVIDIA's data sheet promises 65 TFLOP/s
# in float16 against 8.1 in float32 for a T4. H200, measured, for a product of 8192 × 8192: {measured:basics:operations/s, 8192 x 8192 product, float32} in
# float32, {measured:basics:operations/s, 8192 x 8192 product, float16} in float16, and {measured:basics:operations/s, 8192 x 8192 product, bfloat16} in bfloat16.
#
# What you lose shows in a place where you may not expect it. Suppose that a counter has reached 2048.

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
# From 2048 to 4096 float16 has only the even numbers, and further up still fewer, so a sum of ones stops growing at
# 2048. The number 70000 is beyond its
# range and becomes inf, and 1e-8 is below it and becomes 0. In bfloat16 both survive, but 1.001 turns into 1.
# **float16 loses large and small numbers, bfloat16 loses digits.** This is why sums, means, losses and parameters stay
# in float32 in everything that follows.

# %% [markdown] facts=["F4"]
# ## The same result
#
# Another dtype gives other digits, and so does another device, even in float32. The reason is that a sum depends on the
# order in which it is added up, and each device has an order of its own. Here is one list of numbers, added up forwards
# and then backwards.

# %% facts=["F4"]
numbers = torch.linspace(0, 1, 1001, dtype=torch.float64)
for dtype in (torch.float64, torch.float32):
    totals = {}
    for order, row in (("forwards", numbers), ("backwards", numbers.flip(0))):
        totals[order] = torch.zeros((), dtype=dtype)
        for number in row.to(dtype):
            totals[order] += number
    apart = (totals["forwards"] - totals["backwards"]).abs().item()
    print(f"{dtype!s:<15} forwards {totals['forwards'].item():.8g}, {apart:.0e} away from backwards")

# %% [markdown] facts=["F4"]
# The exact sum is 500.5. Neither order is wrong. What you want to know is whether two results differ by **no
# more than rounding in their dtype explains**. For each dtype `torch.testing.assert_close` has an absolute
# and a relative tolerance. Two numbers may differ by the absolute one plus the relative one times the
# expected number. If they differ by more, it raises an `AssertionError`. Its message names the two tolerances
# separately; what counts is their sum.

# %% facts=["F4"] tags=["raises-exception"]
a = torch.tensor([0.5, 100.0], device=device)
torch.testing.assert_close(a + 0.05, a)

# %% facts=["F4"]
guess = devlab.predict(
    "For which of the dtypes is 0.05 too far from 100?", "all three", "float32 alone", "none"
)

# %% facts=["F4"]
relative = {torch.float32: 1.3e-6, torch.float16: 1e-3, torch.bfloat16: 1.6e-2}  # PyTorch's own tolerances
strict = 0
for dtype, tolerance in relative.items():
    allowed = 1e-5 + tolerance * 100
    strict += allowed < 0.05
    step = 64 * torch.finfo(dtype).eps  # from 64 to 128 the numbers are as far apart as this
    print(f"{dtype!s:<15} may differ by {allowed:.5f} at 100; the next number is {100 + step:.6f}")
guess.was({3: "all three", 1: "float32 alone", 0: "none"}[strict])

# %% [markdown] facts=["F4"]
# The tolerance follows from what the dtype can tell apart. After 100, bfloat16 has no number before 100.5, so
# in bfloat16 100.05 is 100.
#
# Two habits follow. Compare with `assert_close`, with `check_device=False` where the two tensors are in different places,
# and by the tolerance of the dtype in which the numbers were **computed**: a bfloat16 result that was converted to
# float32 still has the digits of bfloat16. And do not expect the losses of a long training to agree between two devices
# in more than their first digits, because every step starts from what the step before has rounded.
#
# **[Exercise](../exercises/12_less_memory_less_time.ipynb#task_same_results):** `same_results` turns this into a question
# with the answer yes or no, for shapes, nan and inf as well.

# %% [markdown] facts=["F5"]
# ### TF32 and determinism
#
# NVIDIA's GPUs since Ampere can multiply float32 matrices faster and less exactly. With **TF32** the inputs
# of a product are rounded to 10 bits of fraction, as many as float16 has, while range and sums remain those
# of float32. PyTorch leaves TF32 off for products of matrices and on for the convolutions of cuDNN. So that
# it works anywhere, the next cell rounds the inputs by hand, and compares the product with one in float64.

# %% facts=["F5"]
guess = devlab.predict("About how many decimal digits does TF32 cost?", 1, 3, 6)


# %% facts=["F5"]
def as_tf32(x):
    """Return float32 numbers with 10 bits of fraction, rounded to the nearest."""
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


print("for products:    ", torch.get_float32_matmul_precision())
print("for convolutions:", "TF32 allowed" if torch.backends.cudnn.allow_tf32 else "float32")

generator = torch.Generator().manual_seed(0)
a, b = (torch.randn(64, 64, generator=generator) for _ in range(2))
exact = a.double() @ b.double()
digits = []
for name, product in (("float32", a @ b), ("TF32", as_tf32(a) @ as_tf32(b))):
    digits.append((product - exact).abs().max().log10().round().int().item())
    print(f"{name:<8} largest error about 1e{digits[-1]}")
guess.was_about(digits[1] - digits[0])

# %% [markdown] facts=["F5"]
# The word `"highest"` stands for full float32. With `torch.set_float32_matmul_precision("high")` PyTorch may
# use TF32 for products. That costs about three digits and buys a lot of time (H200, measured: {measured:basics:operations/s, 8192 x 8192 product, float32 with TF32}). If a
# GPU and a CPU disagree in the third digit after a convolution, look at TF32 first.
#
# Two runs on the **same** GPU may differ as well, because some kernels add up in whatever order their threads finish.
# `torch.use_deterministic_algorithms(True)` asks for kernels that keep an order. They may be slower, and an operation
# that has no such kernel refuses to run:

# %% facts=["F5"]
torch.use_deterministic_algorithms(True)
try:
    torch.histc(torch.ones(10, device=device), 4)
except RuntimeError as error:
    print(error)
torch.use_deterministic_algorithms(False)

# %% [markdown] facts=["F5"]
# (PyTorch's message names the CUDA function, here as on a GPU.) Determinism holds for one machine, one
# version of PyTorch and one program. Between devices you have tolerances and nothing better.

# %% [markdown] facts=["F2"]
# ## Autocast
#
# Some operations may run in 16 bits and others should not. A product may, since the matrix units of a GPU
# add up in float32. (A large product may be cut into parts whose sums are rounded in between, unless
# `torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction` is set to False; bfloat16 has a switch
# of its own.) A softmax, a norm or a loss should keep all its digits. **Autocast** keeps a list of each
# kind, and chooses the dtype for each operation at the moment when it is called. The next cell sends a
# batch through four layers under float16 autocast.

# %% facts=["F2"]
guess = devlab.predict(
    "Which dtype will the LayerNorm between two Linear layers return?", "float16", "float32"
)

# %% facts=["F2"]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 10)).to(device)
inputs, labels = torch.randn(16, 64, device=device), torch.arange(16, device=device) % 10

dtypes = {}
with torch.autocast(device.type, dtype=torch.float16):
    x = inputs
    for layer in model:
        x = layer(x)
        dtypes[type(layer).__name__] = str(x.dtype).removeprefix("torch.")
        print(f"{type(layer).__name__:<14} {x.dtype}")
    for words, logits in (("cross_entropy", x), ("of x.float()", x.float())):
        loss = F.cross_entropy(logits, labels)
        print(f"{words:<14} {loss.dtype}  {loss.item():.7f}")

print("parameters    ", {parameter.dtype for parameter in model.parameters()})
guess.was(dtypes["LayerNorm"])

# %% [markdown] facts=["F2"]
# Products run in float16, the norm and the loss return float32, and a `ReLU` takes whatever it is given. (The
# loss is float32 by its dtype alone: `cross_entropy` takes its softmax in the dtype that it is given, so on
# CUDA its digits are those of float16. If you need them all, give it `x.float()`.) The parameters **stay in
# float32**: autocast casts copies of them, and the optimizer adds its small steps to the full digits. Never
# call `model.half()` as well, because then these small steps would be rounded away. These are the rules for
# CUDA. The CPU has its own, and keeps a `LayerNorm` in 16 bits.
#
# Put the **forward and the loss** under autocast, and nothing else. Backward runs every operation in the dtype that its
# forward had, so it needs no autocast, and PyTorch's documentation advises against it.
#
# How much time does this save? The cell below times first one large product and then six small layers.

# %% facts=["F2"]
guess = devlab.predict("Six small layers under autocast will be…", "faster", "equally fast", "slower")


# %% facts=["F2"]
def microseconds(function):
    """Return how long a function takes on the device: the median of several calls."""
    return devlab.time_op(function, device, repeats=5, show=False).median * 1e6


def in_float16(function):
    """Return the function under autocast."""

    def run():
        with torch.autocast(device.type, dtype=torch.float16):
            return function()

    return run


side = 640 if device.type == "sim" else 4096
x = torch.randn(side, side, device=device)
layers = nn.Sequential(*(nn.Linear(64, 64) for _ in range(6))).to(device)
rows = torch.randn(16, 64, device=device)

times = []
for words, function in (("a large product", lambda: x @ x), ("six small layers", lambda: layers(rows))):
    times = [microseconds(function), microseconds(in_float16(function))]
    print(f"{words:<17} {times[0]:5.0f} µs in float32, {times[1]:5.0f} µs under autocast, {kind}")
ratio = times[1] / times[0]  # of the six small layers
guess.was("slower" if ratio > 1.1 else "faster" if ratio < 0.9 else "equally fast")

# %% [markdown] facts=["F2"]
# The large product gains, although its inputs are cast first. The small layers lose, because every cast is
# one more launch: they make 19 where there were 6, and small work spends nearly all its time on launches
# (lesson 07). H200, measured: 103 µs in float32, and 291 under autocast. Half precision is for models whose
# products are large.
#
# If you use **bfloat16**, autocast is all that you need. float16 needs one thing more.

# %% [markdown] facts=["F3"]
# ## Gradients too small to see
#
# Gradients are often far smaller than 1, and float16 has no number between 0 and 6e-8. A gradient below half of that
# becomes 0, and one below 6e-5 has lost digits already. The next cell computes a gradient of 1e-8 which passes through a
# product in float16. It multiplies the loss by a scale first, and divides the gradient by the same scale afterwards.

# %% facts=["F3"]
weight = nn.Parameter(torch.ones(1, device=device))
for scale in (1.0, 1024.0, 65536.0, 2.0**43):
    weight.grad = None
    loss = (weight.half() * 1.0).float().sum() * 1e-8
    (loss * scale).backward()
    print(f"scale {scale:8.3g}: gradient {(weight.grad / scale).item():.3g}")

# %% [markdown] facts=["F3"]
# Without a scale the gradient is gone and the parameter will never move. With too large a scale it is inf.
# Many scales between the two are right, but you cannot know beforehand which will stay right, because
# gradients change during training. A `torch.amp.GradScaler` therefore looks after the scale:
#
# - `scaler.scale(loss)` returns the loss times the scale, so that its backward makes scaled gradients.
# - `scaler.step(optimizer)` divides the gradients by the scale and looks for inf and nan among them. Where it
#   finds one, it **skips the step**.
# - `scaler.update()` halves the scale if the step was skipped, and doubles it after 2000 good steps in a row.
#
# Here a scaler that starts much too high looks after a single weight, whose gradient of 1 passes through float16, which
# ends at 65504.

# %% facts=["F3"]
guess = devlab.predict(
    "What becomes of the weight in the first step?", "inf", "it stays 1", "it moves as it should"
)

# %% facts=["F3"]
weight = nn.Parameter(torch.ones(1, device=device))
optimizer = torch.optim.SGD([weight], lr=0.1)
scaler = torch.amp.GradScaler(device.type, init_scale=2.0**20)
after = []
for step in range(6):
    scale = scaler.get_scale()
    weight.grad = None
    scaler.scale((weight.half() * 1.0).float().sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    after.append(weight.item())
    print(f"step {step}: scale {scale:8.0f}, weight {after[-1]:.2f}")
guess.was({1.0: "it stays 1", float("inf"): "inf"}.get(after[0], "it moves as it should"))

# %% [markdown] facts=["F3"]
# The scaled gradient is inf until the scale has been halved often enough, and each of those steps is skipped.
# The first steps of a training in float16 usually look like this. `scaler.step` makes the host wait for the
# device once in each step, since Python has to know whether to call the optimizer. An optimizer with
# `fused=True` is spared this wait, because its kernel decides on the device. (`get_scale` and `item` wait
# too; the cell calls them to show you the numbers.) bfloat16 has float32's range, so it needs no scaler.
#
# Between backward and `step` the gradients are **scaled**, and so is everything that you compute from them. If you
# clipped them to a norm of 1 there, `step` would still divide them by the scale, and next to nothing would be left.
# `scaler.unscale_(optimizer)` divides them earlier, and
# tells the scaler's `step` not to do it again:

# %% facts=["F3"]
weight.grad = None
scaler.scale((weight.half() * 1.0).float().sum()).backward()
print(f"after backward: {nn.utils.get_total_norm([weight.grad]).item():g}")
scaler.unscale_(optimizer)
print(f"after unscale_: {nn.utils.get_total_norm([weight.grad]).item():g}")

# %% [markdown] facts=["F2", "F3"]
# Lesson 11 has the whole step with bfloat16: its function `update` puts forward and loss under autocast,
# clips, and steps. For float16 the scaler comes in at three places:
#
# ```python
# scaler.scale(loss).backward()                 # in place of loss.backward()
# scaler.unscale_(optimizer)                    # before clip_grad_norm_
# scaler.step(optimizer); scaler.update()       # in place of optimizer.step()
# ```
#
# A scaler made with `enabled=False` passes everything through, so one program can serve both dtypes.
#
# **[Exercise](../exercises/12_less_memory_less_time.ipynb#task_mixed_step):** `mixed_step` puts autocast and
# scaler into the training step of lesson 11.
#
# **[Exercise](../exercises/12_less_memory_less_time.ipynb#task_unscaled_clip):** `unscaled_clip` clips
# gradients beside a scaler.

# %% [markdown] facts=["F6"]
# ## A large batch in small parts
#
# A batch that does not fit into memory can be cut. `backward` adds to `.grad`, so several small batches can share one
# step. The activations of one part are gone before the next part begins, which means that the peak falls with the size
# of a part. One question remains: is the gradient still that of the whole batch? Here 1000 samples come in parts of 300,
# so the last part has 100.

# %% facts=["F6"]
guess = devlab.predict(
    "The mean loss of each part, divided by the number of parts: what does its gradient equal?",
    "that of the whole batch",
    "nearly that of the whole batch",
    "something clearly different",
)


# %% facts=["F6"]
def peak_of(function):
    """Return the peak of memory above what was there, in KiB."""
    memory.reset_peak_memory_stats(device)
    before = memory.memory_allocated(device)
    function()
    return (memory.max_memory_allocated(device) - before) >> 10


def gradient_of(parts, reduction):
    """Return the gradient of the first layer that the losses of all parts add up to."""
    net.zero_grad()
    for x, y in parts:
        F.cross_entropy(net(x), y, reduction=reduction).backward()
    return net[0].weight.grad.clone()


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 10)).to(device)
x, y = torch.randn(1000, 64, device=device), torch.randint(10, (1000,), device=device)
parts = [*zip(x.split(300), y.split(300), strict=True)]

whole = gradient_of([(x, y)], "mean")
errors = []
for name, gradient in (
    ("sum of the means            ", gradient_of(parts, "mean")),
    ("mean of the means           ", gradient_of(parts, "mean") / len(parts)),
    ("sums, divided by all samples", gradient_of(parts, "sum") / len(y)),
):
    errors.append(((gradient - whole).norm() / whole.norm()).item())
    print(f"{name} off by {errors[-1]:.1%}")

print("peak, in one batch:", peak_of(lambda: gradient_of([(x, y)], "mean")), "KiB")
print("peak, in parts:    ", peak_of(lambda: gradient_of(parts, "mean")), "KiB")
off = errors[1]  # of the mean of the means
almost = "that of the whole batch" if off < 1e-4 else "nearly that of the whole batch"
guess.was("something clearly different" if off > 0.1 else almost)

# %% [markdown] facts=["F6"]
# The mean of the means is the usual mistake. It is right only while all parts have the same size, and the
# last part of an epoch is seldom as large as the others. Here each sample of the small part counts three
# times as much as any other. Add up the sums and divide once, as the cell does, or weight the mean of each
# part by its **share of the samples**: with both, every sample counts the same.
#
# In two ways the parts differ from the whole batch. A batch norm computes its statistics over the small part
# that it sees. And the step takes rather longer, because more parts mean more launches.
#
# **[Exercise](../exercises/12_less_memory_less_time.ipynb#task_accumulate):** `accumulate` makes a whole step of this, with
# one wait for the device.

# %% [markdown] facts=["F7"]
# ## Computed twice
#
# ![Memory over time, twice: without checkpoints it rises through the whole forward and falls through backward; with checkpoints it hardly rises in forward, and in backward it rises and falls once for each block, so that the peak is lower and the end later](drawing:one_mountain_or_many)
#
# Backward needs what forward has computed, and lesson 08 showed the mountain of memory that this makes.
# **Checkpointing** keeps only the inputs of each block, and runs the block a second time when backward
# comes to it. What you gain is that, beside those inputs, only one block's activations are in memory at a
# time. The price is at most one more forward, about a third more arithmetic. The next cells try it with six
# blocks of equal size.

# %% facts=["F7"]
guess = devlab.predict(
    "How much of the peak will be left?", "nine tenths", "two thirds", "a third", "a hundredth"
)


# %% facts=["F7"]
def make_block():
    return nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128))


torch.manual_seed(0)
blocks = nn.Sequential(*(make_block() for _ in range(6))).to(device)
rows = torch.randn(512 if device.type == "sim" else 32768, 128, device=device)


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
    took = microseconds(trained(forward))
    print(f"{forward.__name__:<15} peak {peaks[forward]:>7,} KiB, {took:6.0f} µs, {kind}")

share = peaks[computed_twice] / peaks[kept]
shares = {"nine tenths": 0.9, "two thirds": 0.67, "a third": 0.33, "a hundredth": 0.01}
guess.was(min(shares, key=lambda words: abs(shares[words] - share)))

# %% [markdown] facts=["F7"]
# The time grows by less than a third, because nothing needs the output of a block's last layer: in each block
# only the first layer is computed again. H200, measured, with larger blocks: 35 % of the peak, in 118 % of
# the time.
#
# The second run has to see what the first one saw. `checkpoint` restores the **random numbers**, so that a dropout drops
# the same elements: those of the CPU, and those of the devices of all tensors that it is given **by position**, also
# inside of a tuple or a dict. (PyTorch 2.13 does not do it for `mps`.) It does not look at tensors that are given by
# name. And it does not restore **buffers**: the second run begins with what the first one left in them, and changes them
# again.

# %% facts=["F7"]
norm = nn.BatchNorm1d(128).to(device)
checkpoint(norm, rows, use_reentrant=False).sum().backward()
print("batches counted after one batch:", norm.num_batches_tracked.item())

dropout = nn.Dropout(0.5)
x = torch.ones(1000, device=device, requires_grad=True)
for how, positional, named in (("by position", [x], {}), ("by name", [], {"input": x})):
    x.grad = None
    y = checkpoint(dropout, *positional, use_reentrant=False, **named)
    y.sum().backward()
    different = ((x.grad == 0) != (y == 0)).sum().item()
    print(f"input {how}: {different} of {len(x)} elements dropped in only one of the two runs")

# %% [markdown] facts=["F7"]
# With the input by name about half of the gradients are wrong, without a warning. It is the same on an
# NVIDIA GPU, because PyTorch decides it in the same lines.
#
# Always write `use_reentrant=False`. Where no input asks for a gradient, the older variant gives the block's
# parameters none either. It warns of that, and no error follows where something after the block has
# parameters.
#
# **[Exercise](../exercises/12_less_memory_less_time.ipynb#task_Checkpointed):** `Checkpointed` is a module that does this with
# any block, however its inputs are given, and deals with the buffers.

# %% [markdown] facts=["F8"]
# ## Kept elsewhere
#
# Activations can also wait in the memory of the CPU. `torch.autograd.graph.save_on_cpu` moves each tensor there as soon as
# autograd keeps it for backward, and brings it back when backward needs it. The cell measures the same six blocks.

# %% facts=["F8"]
guess = devlab.predict(
    "Compared with checkpoints, what does it take?",
    "less memory and less time",
    "less memory and more time",
    "more memory and less time",
)


# %% facts=["F8"]
def kept_on_the_cpu(x):
    with torch.autograd.graph.save_on_cpu(pin_memory=True, device_type=device.type):
        return blocks(x)


peak = peak_of(trained(kept_on_the_cpu))
with devlab.watch() as log:
    trained(kept_on_the_cpu)()
took = microseconds(trained(kept_on_the_cpu))
print(f"kept_on_the_cpu peak {peak:>7,} KiB, {took:6.0f} µs, {kind}")
print(log.transfers, "transfers,", f"{log.bytes_moved >> 10:,} KiB moved")
time = "more time" if took > microseconds(trained(computed_twice)) else "less time"
guess.was(f"{'less' if peak < peaks[computed_twice] else 'more'} memory and {time}")

# %% [markdown] facts=["F8"]
# This takes the least memory and two to six times as long, depending on how fast the device computes beside
# how fast it transfers (H200, measured: 26 % of the peak, in 2.4 times the time). Half of the transfers go to
# the CPU and half come back: every saved tensor makes both, **the parameters among them**, at 12 GB/s on the
# reference machine, whose own memory gives it 300 GB/s. Checkpointing computes again what offloading
# transfers, and for blocks like these computing is faster. Offloading pays for large tensors that are needed
# no more than once or twice in a step, such as the state of an optimizer or the inputs of checkpointed
# blocks.

# %% [markdown] facts=["F9"]
# ## Compiled
#
# `torch.compile(function)` reads a function's code at its first call, captures its operations as a **graph**,
# and generates kernels for it in which several operations are **fused**. Fused, `x * 2 + 1` reads and writes
# memory once and not twice, and is one launch. Neither what is computed nor how you call it changes, though
# results may differ by rounding.
#
# The price is the first call, which compiles and may take seconds to minutes. Some later calls compile again.
# Every graph that is captured is compiled, so the next cell counts graphs: it passes a function as `backend`,
# which `torch.compile` calls with each of them, and which runs them as they are. The simulator fuses nothing,
# so no times are taken here. H200, measured: five elementwise operations on 256 MiB took {measured:launch_bound:five operators on 256 MiB, eager} as they are
# and {measured:launch_bound:five operators on 256 MiB, compiled} compiled; the first call took {measured:launch_bound:torch.compile of it, first call}.

# %% facts=["F9"]
guess = devlab.predict("Batches of 8, 16, 32, 64 and 8 rows: how many graphs are captured?", 1, 2, 4, 5)


# %% facts=["F9"]
def graphs_for(sizes, **options):
    """Return how many graphs were captured after a call with each size."""
    torch.compiler.reset()  # PyTorch remembers the sizes of an earlier run of this cell
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
as_it_comes = graphs_for(sizes)
print("sizes        ", list(sizes))
print("as it comes  ", as_it_comes)
print("dynamic=False", graphs_for(sizes, dynamic=False))
print("dynamic=True ", graphs_for(sizes, dynamic=True))
guess.was(as_it_comes[-1])

# %% [markdown] facts=["F9"]
# The first size compiles, and the second compiles once more. From then on PyTorch has noted that this size
# **varies** and leaves it open. So a last, smaller batch costs one compilation, and so do sequences of many
# lengths. (A size of 1 costs one more, because PyTorch treats it by itself.) Only with `dynamic=False`, or
# where the code itself needs the size as a number, as in a Python loop over the rows, does each length cost
# one. Then, after eight graphs for one function, PyTorch warns and runs every further length uncompiled. In
# these two cases pad the sequences to a few lengths.
#
# A graph ends where Python needs a number, as in `.item()` or `if loss > 1:`, and at a call such as `print`.
# PyTorch then cuts the function in two. Compile the model and not the whole script, and leave the first calls
# out of every measurement.

# %% [markdown]
# ## What to keep
#
# | change | saves | costs |
# |---|---|---|
# | autocast to bfloat16 | time and memory of large products | digits; launches where work is small |
# | TF32 | time of float32 products, on GPUs that have it | about three digits |
# | autocast to float16 | the same, on GPUs without bfloat16 | a `GradScaler`, and a wait in each step unless the optimizer is fused |
# | accumulation | memory, by the size of a part | launches |
# | checkpointing | memory: the activations of all blocks but one, apart from the blocks' inputs | up to one more forward |
# | offloading | memory, in this lesson the most | transfers of all that is kept |
# | `torch.compile` | launches, memory traffic, and memory for what lies between | the first call, and some of those with a new size |
#
# What comes of it in a real model? This one is a language model with 124 million parameters, trained with
# AdamW on batches of 16 texts of 1024 tokens. Each of the first six rows keeps what the rows before it have
# brought, and each of the last three adds one thing to the sixth:
#
# | H200, measured | a step | tokens a second | peak |
# |---|---|---|---|
# | float32, attention written out | {measured:spine:float32, attention by hand:seconds a step} | {measured:spine:float32, attention by hand:tokens/s} | {measured:spine:float32, attention by hand:peak allocated} |
# | with `scaled_dot_product_attention` | {measured:spine:float32, scaled_dot_product_attention:seconds a step} | {measured:spine:float32, scaled_dot_product_attention:tokens/s} | {measured:spine:float32, scaled_dot_product_attention:peak allocated} |
# | and TF32 | {measured:spine:TF32:seconds a step} | {measured:spine:TF32:tokens/s} | {measured:spine:TF32:peak allocated} |
# | and float16 autocast, with a scaler | {measured:spine:float16 autocast and GradScaler:seconds a step} | {measured:spine:float16 autocast and GradScaler:tokens/s} | {measured:spine:float16 autocast and GradScaler:peak allocated} |
# | or bfloat16 autocast | {measured:spine:bfloat16 autocast:seconds a step} | {measured:spine:bfloat16 autocast:tokens/s} | {measured:spine:bfloat16 autocast:peak allocated} |
# | and AdamW with `fused=True` | {measured:spine:bfloat16, fused AdamW:seconds a step} | {measured:spine:bfloat16, fused AdamW:tokens/s} | {measured:spine:bfloat16, fused AdamW:peak allocated} |
# | all that, and `loss.item()` in each step | {measured:spine:bfloat16, fused, loss.item() each step:seconds a step} | {measured:spine:bfloat16, fused, loss.item() each step:tokens/s} | {measured:spine:bfloat16, fused, loss.item() each step:peak allocated} |
# | all that, and every block checkpointed | {measured:spine:bfloat16, fused, every block checkpointed:seconds a step} | {measured:spine:bfloat16, fused, every block checkpointed:tokens/s} | {measured:spine:bfloat16, fused, every block checkpointed:peak allocated} |
# | all that, and compiled | {measured:spine_compiled:bfloat16, fused, compiled:seconds a step} | {measured:spine_compiled:bfloat16, fused, compiled:tokens/s} | {measured:spine_compiled:bfloat16, fused, compiled:peak allocated} |
#
# From the first row to the last it is eleven times as fast, in a third of the memory. The largest steps are the dtype of the products, and
# compiling (whose first step took {measured:spine_compiled:bfloat16, fused, compiled:first step}). Checkpoints save memory and cost a quarter more time.
#
# Where to begin? With autocast to bfloat16, if your GPU supports it in hardware, and otherwise to float16
# with a scaler. If the batch still does not fit, make smaller parts and accumulate. If one sample is too
# much, use checkpointing.
#
# - float16 ends at 65504, and bfloat16 keeps between two and three digits. Sums and parameters stay in float32.
# - Compare results by the tolerance of their dtype, never with `==`.
# - Under a scaler gradients are scaled until `step` or `unscale_`.
# - Every sample of a batch in parts counts the same: weight the parts by their share of the samples.
# - A block that is computed twice updates its buffers twice. Give `checkpoint` its tensors by position.
#
# **Now do it:** [the exercises of this lesson](../exercises/12_less_memory_less_time.ipynb), five tasks. **Then:**
# [13 Bigger than one device](13_bigger_than_one_device.ipynb), for a model that fits nowhere whole.
