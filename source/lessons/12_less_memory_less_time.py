# %% [markdown]
# # 12 Less memory, less time
#
# Then comes a model that does not fit, or one that takes a week. Programs that train such models change the
# step in a handful of places, and each change is a trade: digits for time, time for memory, or transfers for
# memory. After this lesson you can make each of these trades, say what it costs, and tell whether two results
# are the same.
#
# **Takes** about 30 minutes to read, and 60 for the tasks. **Needs** [08 Memory](08_memory.ipynb) and [11 The
# training step](11_training_step.ipynb).

# %%
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import devlab
from devlab.explore.runs import mountain

device = devlab.start(account=True, threads=1)  # its memory is counted, as in lesson 08; the models are small
memory = torch.get_device_module(device)
kind = "modelled" if device.type == "sim" else "measured"

# %% [markdown]
# **With a GPU, this lesson measures yours.** Without one, every time is modelled and every figure of memory
# simulated, for the course's reference machine, which resembles an NVIDIA T4; the numbers inside the tensors
# are real. [The last table](#What-to-keep) puts all changes side by side, measured on an NVIDIA H200.

# %% [markdown] facts=["F1"]
# ## What 16 bits can hold
#
# A floating-point number has three parts: a sign, an exponent and a fraction. The exponent gives the format
# its **range**, the fraction its **precision**. The two formats of 16 bits divide them between range and
# precision in different ways.
#
# ![Four formats as rows of bits. float32: one sign bit, 8 bits of exponent, 23 of fraction. TF32: 8 and 10. float16: 5 and 10. bfloat16: 8 and 7](drawing:four_formats)

# %% facts=["F1"]
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    info = torch.finfo(dtype)
    print(
        f"{dtype!s:<15} largest {info.max:.1e}  smallest normal {info.tiny:.1e}  next after 1: 1 + {info.eps:.1e}"
    )

# %% [markdown] facts=["F1"]
# **float16** keeps about three decimal digits and ends at 65504. **bfloat16** has the range of float32 and
# pays for it with precision: it keeps between two and three digits.
#
# With both, half the bytes mean half the memory and half the traffic, and the **matrix units** of a GPU,
# NVIDIA's tensor cores, multiply 16-bit numbers much faster. H200, measured, for a product of 8192 × 8192:
# {measured:basics:operations/s, 8192 x 8192 product, float32} in float32, {measured:basics:operations/s, 8192
# x 8192 product, float16} in float16, and {measured:basics:operations/s, 8192 x 8192 product, bfloat16} in
# bfloat16. NVIDIA's GPUs since Hopper and Ada also have formats of 8 bits, which need a scale for each tensor
# or block; libraries such as torchao bring them.
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
# From 2048 to 4096 float16 has only the even numbers, so a sum of ones stops growing at 2048. **float16 loses
# large and small numbers, bfloat16 loses digits.** This is why sums, means, losses and parameters stay in
# float32 in everything that follows.

# %% [markdown] facts=["F4"]
# ## The same result
#
# Another dtype gives other digits, and so does another device, even in float32: a sum depends on the order in
# which it is added up, and each device has an order of its own.

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
# expected number.

# %% facts=["F4"] tags=["raises-exception"]
a = torch.tensor([0.5, 100.0], device=device)
torch.testing.assert_close(a + 0.05, a)

# %% [markdown] facts=["F4"]
# The relative tolerance is 1.3e-6 for float32, 1e-3 for float16, and 1.6e-2 for bfloat16. The absolute one,
# 1e-5 and less, hardly counts beside 100.

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
# The tolerance follows from what the dtype can tell apart: in bfloat16 100.05 is 100.
#
# Compare with `assert_close`, with `check_device=False` where the two tensors are in different places, and by
# the tolerance of the dtype in which the numbers were **computed**: a bfloat16 result that was converted to
# float32 still has the digits of bfloat16.
#
# **[Exercise](../exercises/12_less_memory_less_time.ipynb#task_same_results):** `same_results` turns this
# into a question with the answer yes or no, for shapes, nan and inf as well.

# %% [markdown] facts=["F5"]
# ### TF32 and determinism
#
# With **TF32** NVIDIA's GPUs since Ampere round the inputs of a float32 product to 10 bits of fraction, as
# many as float16 has, while range and sums remain those of float32. `fp32_precision` says whether they may,
# for products and for convolutions apart: `"tf32"`, `"ieee"` for full float32, `"none"` for PyTorch's choice.
# The next cell rounds the inputs by hand, so that it works anywhere.

# %% facts=["F5"]
guess = devlab.predict("About how many decimal digits does TF32 cost?", 1, 3, 6)


# %% facts=["F5"]
def as_tf32(x):
    """Return float32 numbers with 10 bits of fraction, rounded to the nearest."""
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


print("for products:    ", torch.backends.cuda.matmul.fp32_precision)
print("for convolutions:", torch.backends.cudnn.conv.fp32_precision)

generator = torch.Generator().manual_seed(0)
a, b = (torch.randn(64, 64, generator=generator) for _ in range(2))
exact = a.double() @ b.double()
digits = []
for name, product in (("float32", a @ b), ("TF32", as_tf32(a) @ as_tf32(b))):
    digits.append((product - exact).abs().max().log10().round().int().item())
    print(f"{name:<8} largest error about 1e{digits[-1]}")
guess.was_about(digits[1] - digits[0])

# %% [markdown] facts=["F5"]
# With `torch.backends.cuda.matmul.fp32_precision = "tf32"` products may use TF32. Older programs say
# `torch.set_float32_matmul_precision("high")` or `allow_tf32`; who mixes the two kinds gets an error. It
# costs about three digits and buys a lot of time; H200, measured: {measured:basics:operations/s, 8192 x 8192
# product, float32 with TF32}. If a GPU and a CPU disagree in the third digit after a convolution, look at
# TF32 first.
#
# Two runs on the **same** GPU may differ as well, because some kernels add up in whatever order their threads
# finish. `torch.use_deterministic_algorithms(True)` asks for kernels that keep an order. They may be slower,
# and an operation that has none refuses to run:

# %% facts=["F5"]
torch.use_deterministic_algorithms(True)
try:
    torch.histc(torch.ones(10, device=device), 4)
except RuntimeError as error:
    print(error)
torch.use_deterministic_algorithms(False)

# %% [markdown] facts=["F5"]
# Determinism holds for one machine, one version of PyTorch and one program.

# %% [markdown] facts=["F2"]
# ## Autocast
#
# A product may run in 16 bits, since the matrix units of a GPU add up in float32. A softmax, a norm or a loss
# should keep all its digits. **Autocast** keeps a list of each kind, and chooses the dtype for each operation
# at the moment when it is called. With bfloat16 it is all that you need, on every GPU that computes in it.
# The next cell shows the choice with float16.

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
# Products run in float16, the norm and the loss return float32, and a `ReLU` takes whatever it is given.
# `cross_entropy` takes its softmax in the dtype that it is given, so on CUDA its digits are those of float16,
# unless you give it `x.float()`. The parameters **stay in float32**: autocast casts copies of them, and the
# optimizer adds its small steps to the full digits. Never call `model.half()` as well. The CPU has rules of
# its own.
#
# Put the **forward and the loss** under autocast, and nothing else. Backward runs every operation in the
# dtype that its forward had.
#
# **[Exercise](../exercises/12_less_memory_less_time.ipynb#task_bfloat16_step):** `bfloat16_step` trains under
# autocast, and clips.
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
# The large product gains. The small layers lose, because every cast is one more launch: they make 19 where
# there were 6. H200, measured: 103 µs in float32, and 291 under autocast. Half precision is for models whose
# products are large.

# %% [markdown] facts=["F3"]
# ## Gradients too small to see
#
# On GPUs without bfloat16, NVIDIA's before Ampere, float16 needs one thing more. Gradients are often far
# smaller than 1, and float16 has no number between 0 and 6e-8. The next cell sends a gradient of 1e-8 through
# a product in float16. It multiplies the loss by a scale first, and divides the gradient by it afterwards.

# %% facts=["F3"]
weight = nn.Parameter(torch.ones(1, device=device))
for scale in (1.0, 1024.0, 65536.0, 2.0**43):
    weight.grad = None
    loss = (weight.half() * 1.0).float().sum() * 1e-8
    (loss * scale).backward()
    print(f"scale {scale:8.3g}: gradient {(weight.grad / scale).item():.3g}")

# %% [markdown] facts=["F3"]
# Without a scale the gradient is gone. With too large a scale it is inf. You cannot know beforehand which
# scale will stay right, so a `torch.amp.GradScaler` looks after it:
#
# - `scaler.scale(loss)` returns the loss times the scale, so that its backward makes scaled gradients.
# - `scaler.step(optimizer)` divides the gradients by the scale and looks for inf and nan among them. Where it
#   finds one, it **skips the step**.
# - `scaler.update()` halves the scale if the step was skipped, and doubles it after 2000 good steps in a row.
#
# Here a scaler that starts much too high looks after a single weight, whose gradient of 1 passes through
# float16.

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
# The scaled gradient is inf until the scale has been halved often enough. `scaler.step` makes the host wait
# once in each step, since Python has to know whether to call the optimizer; an optimizer with `fused=True`
# decides on the device.
#
# Between backward and `step` the gradients are **scaled**. If you clipped them to a norm of 1 there, next to
# nothing would be left. `scaler.unscale_(optimizer)` divides them earlier, and tells the scaler's `step` not
# to do it again:

# %% facts=["F3"]
weight.grad = None
scaler.scale((weight.half() * 1.0).float().sum()).backward()
print(f"after backward: {nn.utils.get_total_norm([weight.grad]).item():g}")
scaler.unscale_(optimizer)
print(f"after unscale_: {nn.utils.get_total_norm([weight.grad]).item():g}")

# %% [markdown] facts=["F2", "F3"]
# In lesson 11's step the scaler comes in at three places:
#
# ```python
# scaler.scale(loss).backward()                 # in place of loss.backward()
# scaler.unscale_(optimizer)                    # before clip_grad_norm_
# scaler.step(optimizer); scaler.update()       # in place of optimizer.step()
# ```
#
# A scaler made with `enabled=False` passes everything through, so one program can serve both dtypes.
# *Attempting to unscale FP16 gradients* means that the parameters themselves were made float16: leave them
# float32.
#
# **[Exercise](../exercises/12_less_memory_less_time.ipynb#task_mixed_step):** `mixed_step` puts autocast and
# scaler into the training step of lesson 11.

# %% [markdown] facts=["F6"]
# ## A large batch in small parts
#
# `backward` adds to `.grad`, so several small batches can share one step. The activations of one part are
# gone before the next part begins. Is the gradient still that of the whole batch? Here 1000 samples come in
# parts of 300, so the last part has 100.

# %% facts=["F6"]
guess = devlab.predict(
    "Which gradient is that of the whole batch?",
    "the sum of the parts' mean losses",
    "the mean of their mean losses",
    "the sum of all losses, divided by all samples",
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
errors = {}
for name, gradient in (
    ("the sum of the parts' mean losses", gradient_of(parts, "mean")),
    ("the mean of their mean losses", gradient_of(parts, "mean") / len(parts)),
    ("the sum of all losses, divided by all samples", gradient_of(parts, "sum") / len(y)),
):
    errors[name] = ((gradient - whole).norm() / whole.norm()).item()
    print(f"{name:<46} off by {errors[name]:.1%}")

print("peak, in one batch:", peak_of(lambda: gradient_of([(x, y)], "mean")), "KiB")
print("peak, in parts:    ", peak_of(lambda: gradient_of(parts, "mean")), "KiB")
guess.was(min(errors, key=errors.get))

# %% [markdown] facts=["F6"]
# The mean of the means is the usual mistake. It is right only while all parts have the same size: here each
# sample of the small part counts three times as much as any other. Add up the sums and divide once, or weight
# the mean of each part by its **share of the samples**.
#
# A batch norm computes its statistics over the small part that it sees. And more parts mean more launches, so
# make them as large as fits. Under DDP all parts but the last go backward inside `model.no_sync()` (lesson
# 09).
#
# **[Exercise](../exercises/12_less_memory_less_time.ipynb#task_accumulate):** `accumulate` makes a whole step
# of this, with one wait for the device.

# %% [markdown] facts=["F7"]
# ## Computed twice
#
# **Checkpointing** keeps only the inputs of each block, and runs the block a second time when backward comes
# to it. The price is at most one more forward. Here are six blocks of equal size.

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

drawn = None
for forward in peaks:
    with mountain(forward.__name__, blocks, beside=drawn, show=drawn is not None) as drawn:
        drawn.phase("forward")
        loss = forward(rows).square().mean()
        drawn.phase("backward")
        loss.backward()
del loss

share = peaks[computed_twice] / peaks[kept]
shares = {"nine tenths": 0.9, "two thirds": 0.67, "a third": 0.33, "a hundredth": 0.01}
guess.was(min(shares, key=lambda words: abs(shares[words] - share)))

# %% [markdown] facts=["F7"]
# The time grows by less than a third, because nothing needs the output of a block's last layer: in each block
# only the first Linear is run again. H200, measured, with larger blocks: 35 % of the peak, in 118 % of the
# time. Between all and nothing lies *selective* checkpointing: `context_fn=` names operations whose results
# are kept, such as products, and compiled code has a budget,
# `torch._functorch.config.activation_memory_budget`.
#
# The second run has to see what the first one saw. `checkpoint` restores the **random numbers** of the CPU,
# and of the devices of all tensors that it is given **by position**. It does not look at tensors that are
# given by name. And it does not restore **buffers**: the second run changes them again.

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
# With the input by name about half of the gradients are wrong, without a warning.
#
# Always write `use_reentrant=False`. Where no input asks for a gradient, the older variant gives the block's
# parameters none either. If the whole model is such a block, backward raises an error; if something after it
# has parameters, there is a warning only.
#
# **[Exercise](../exercises/12_less_memory_less_time.ipynb#task_Checkpointed):** `Checkpointed` is a module
# that does this with any block, however its inputs are given, and deals with the buffers.

# %% [markdown] facts=["F8"]
# ## Kept elsewhere
#
# Activations can also wait in the memory of the CPU. `torch.autograd.graph.save_on_cpu` moves each tensor
# there as soon as autograd keeps it for backward, and brings it back when backward needs it.

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
# This takes the least memory and two to six times as long; H200, measured: 26 % of the peak, in 2.4 times the
# time. Every saved tensor makes two transfers, **the parameters among them**, at 12 GB/s on the reference
# machine, whose own memory gives it 300 GB/s. Offloading pays for large tensors that are needed once or twice
# in a step, such as the inputs of checkpointed blocks, if their copies run in a stream of their own; and
# where CPU and GPU are joined more closely than by PCIe, it pays sooner.

# %% [markdown] facts=["F9"]
# ## Compiled
#
# `torch.compile(function)` reads a function's code at its first call, captures its operations as a **graph**,
# and generates kernels for it in which several operations are **fused**. Fused, `x * 2 + 1` reads and writes
# memory once and not twice, and is one launch.
#
# The price is the first call, which compiles. H200, measured: five elementwise operations on 256 MiB took
# {measured:launch_bound:five operators on 256 MiB, eager} as they are and {measured:launch_bound:five
# operators on 256 MiB, compiled} compiled, and the first call {measured:launch_bound:torch.compile of it,
# first call}. Some later calls compile again. Every graph that is captured is compiled, so the next cell
# counts graphs: it passes a function as `backend`, which `torch.compile` calls with each of them.

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
# lengths; a size of 1 costs one more. Only with `dynamic=False`, or where the code itself needs the size as a
# number, does each length cost one. Then, after eight graphs for one function, PyTorch warns and runs every
# further length uncompiled: pad the sequences to a few lengths.
#
# A graph also ends where Python needs a number. The function below is cut in two by its `if`. With
# `fullgraph=True` a cut is an error that says where and why; on the GPU each cut is also a wait. Both
# functions compute the same.

# %% facts=["F9"]
guess = devlab.predict("How many graphs does the function with the if make?", 1, 2, 3)


# %% facts=["F9"]
def with_if(x):
    y = x * 2
    if y.sum() > 10:
        y = y / 10
    return y + 1


def with_where(x):
    y = x * 2
    return torch.where(y.sum() > 10, y / 10, y) + 1


def note(graph, example_inputs):
    captured.append(graph)
    return graph.forward


counts = {}
for function in (with_if, with_where):
    torch.compiler.reset()
    captured = []
    torch.compile(function, backend=note)(torch.ones(4))
    counts[function] = len(captured)
    try:
        torch.compiler.reset()
        torch.compile(function, backend=note, fullgraph=True)(torch.ones(4))
        said = "one piece"
    except Exception as error:
        said = str(error).partition("\n")[0]
    print(f"{function.__name__:<11} {counts[function]} graphs; with fullgraph=True: {said}")
guess.was(counts[with_if])

# %% [markdown] facts=["F9"]
# For a whole program, `TORCH_LOGS="graph_breaks,recompiles" python train.py` prints each cut and each
# recompilation with its line and its reason. Compile the model and not the whole script, and leave the first
# calls out of every measurement.
#
# **[Exercise](../exercises/12_less_memory_less_time.ipynb#task_pool):** `pool`, a function that is cut in
# pieces, and that you bring into one graph for every size of the batch.

# %% [markdown]
# ## Measured, one by one
#
# Here is the transformer of [lesson 07](07_asynchrony.ipynb#A-transformer,-bounded) on your device, in small,
# and on a GPU in its real size. Each row is measured by itself.


# %% tags=["nbval-ignore-output"] facts=["F2", "F7", "F9"]
def transformer(width, blocks, words):
    """Return the small language model of lesson 07."""
    block = nn.TransformerEncoderLayer(
        width, width // 64, 4 * width, dropout=0.0, activation=F.gelu, batch_first=True, norm_first=True
    )
    encoder = nn.TransformerEncoder(block, blocks, enable_nested_tensor=False)
    return nn.Sequential(nn.Embedding(words, width), encoder, nn.Linear(width, words, bias=False))


small = device.type == "sim"
gpt = transformer(*((128, 2, 512) if small else (768, 12, 50_304))).to(device)
text = torch.randint(512, (8, 65) if small else (4, 1025), device=device)


def step_of(model, **autocast):
    """Return a function that goes forward and backward once."""

    def step():
        with torch.autocast(device.type, **autocast):
            scores = model(text[:, :-1])
            loss = F.cross_entropy(scores.flatten(0, 1).float(), text[:, 1:].flatten())
        loss.backward()

    return step


def checkpointed(tokens):
    x = gpt[0](tokens)
    for block in gpt[1].layers:
        x = checkpoint(block, x, use_reentrant=False)
    return gpt[2](x)


steps = {
    "float32": step_of(gpt, enabled=False),
    "bfloat16 autocast": step_of(gpt, dtype=torch.bfloat16),
    "and checkpointed": step_of(checkpointed, dtype=torch.bfloat16),
}
if device.type == "cuda":
    steps["and compiled"] = step_of(torch.compile(gpt), dtype=torch.bfloat16)
for words, step in steps.items():
    took = microseconds(step)
    print(
        f"{words:<18} {took / 1000:8.2f} ms, {1e6 * text[:, 1:].numel() / took:>9,.0f} tokens a second, {kind}, "
        f"peak {peak_of(step) / 1024:8.1f} MiB"
    )

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
# This is the same transformer with 124 million parameters, trained with AdamW on batches of 16 texts of 1024
# tokens. Each of the first six rows keeps what the rows before it have brought, and each of the last three
# adds one thing to the sixth:
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
# From the first row to the last it is eleven times as fast, in a third of the memory. Compiling took
# {measured:spine_compiled:bfloat16, fused, compiled:first step} in the first step. In the last row the model
# does {measured:spine_compiled:bfloat16, fused, compiled:model FLOP/s (6 N a token)}, an MFU of 48 % of what
# a large product reached in bfloat16.
#
# Where to begin? With autocast to bfloat16 and `scaled_dot_product_attention` (for masks of your own there is
# FlexAttention), then `fused=True`, then `torch.compile`. If the batch does not fit, accumulate; if one
# sample is too much, use checkpointing. Convolutions gain by `memory_format=torch.channels_last`. Where the
# optimizer's state is what does not fit, there are optimizers with states of 8 bits, and [lesson
# 13](13_bigger_than_one_device.ipynb).
#
# **Now do it:** [the exercises of this lesson](../exercises/12_less_memory_less_time.ipynb), six tasks.
# **Then:** [13 Bigger than one device](13_bigger_than_one_device.ipynb), for a model that fits nowhere whole.
