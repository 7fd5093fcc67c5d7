# %% [markdown]
# # 11 The training step
#
# Everything so far meets in one loop. It takes a batch, finds out how wrong the model is, and makes it a
# little less wrong, thousands or millions of times. Each transfer and each wait in it is paid as often.
#
# In this lesson a model learns to read handwritten digits, on whatever device you have. First it trains with
# the bare step, and you count what that moves and where it waits. Then you add what real programs have: half
# precision, batches in parts, gradients that are clipped, a learning rate that follows a schedule, and a file
# from which an interrupted training goes on as if nothing had happened.
#
# **Takes** about 35 minutes to read, and 50 for the tasks. **Needs** [05 Models and
# buffers](05_buffers.ipynb) and [04 Transfers](04_transfers.ipynb); [08 Memory](08_memory.ipynb) helps.

# %%
import copy
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.utils.data import DataLoader, TensorDataset

import devlab
from devlab.explore.runs import curves, mountain, show_digits
from devlab.sim.clock import real_waits

device = devlab.start(threads=1)  # the model is small: lesson 01 says why more threads would only wait
real_waits(False)  # a simulated device need not take its time in a lesson that measures none

# %% [markdown]
# The counts of transfers and waits, by `devlab.watch()`, are the same on the simulated device as on a GPU.
# Losses and accuracies are real on both, because the simulated device computes with real numbers.

# %% [markdown]
# ## Real digits
#
# The course brings a small real data set: 1797 digits that 13 people wrote by hand, 8 by 8 pixels each.

# %%
images, labels = devlab.digits()
print(tuple(images.shape), images.dtype, images.device)
print(tuple(labels.shape), labels.dtype, labels.device)
show_digits(images[:12], labels[:12].tolist())

# %% [markdown]
# They are on the CPU, like any data set that comes from a file, and there they stay: what moves to the device
# is one batch at a time.
#
# The model learns from the **training set**. What you choose on the way, you choose by the **validation
# set**. The **test set** is looked at once, at the end. The file is ordered by writer, about 130 digits each;
# most test digits are by two people whose hand is in no other set.
#
# The model is small: two convolutions, each with a batch norm, then dropout and a linear layer.

# %%
pictures = images[:, None]
train_set = TensorDataset(pictures[:1200], labels[:1200])
validation_set = TensorDataset(pictures[1200:1500], labels[1200:1500])
test_set = TensorDataset(pictures[1500:], labels[1500:])


def make_model(dropout=0.3):
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(1024, 10),
    )


# %% [markdown]
# ## The step
#
# A step moves the batch, computes the loss (*forward*), and asks how the loss changes with each parameter,
# which is the parameter's **gradient** (*backward*). `backward` leaves it in the parameter's `.grad`, the
# optimizer moves each parameter a little against it, and the gradients are cleared. A program that reports
# its loss adds `loss.item()`. The next cell makes these six calls one by one under a watch.

# %% facts=["T2"]
guess = devlab.predict("How many of these six calls make the host wait?")


# %% facts=["T2", "T3"]
def moved(batch, place):
    """Return the tensors of a batch on a device, without a wait where that is safe: under CUDA's rules."""
    safe = place.type in ("cuda", "sim")
    return [tensor.to(place, non_blocking=safe) for tensor in batch]


def watched(words, call):
    """Make a call, print what it moved and how often the host waited, and return its result."""
    with devlab.watch() as log:
        result = call()
    print(f"{words:<22}transfers: {log.transfers}, synchronizations: {log.synchronizations}")
    waits.append(log.synchronizations)
    return result


torch.manual_seed(0)
model = make_model().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
batch = train_set[:100]
waits = []

inputs, answers = watched("move the batch", lambda: moved(batch, device))
loss = watched("forward and loss", lambda: F.cross_entropy(model(inputs), answers))
watched("backward", loss.backward)
watched("step", optimizer.step)
watched("clear the gradients", optimizer.zero_grad)
watched("loss.item()", loss.item)
guess.was(sum(count > 0 for count in waits))

# %% [markdown] facts=["T2"]
# **The step moves its batch, and nothing else.** Forward, loss, `backward`, `step` and `zero_grad` move
# nothing, because parameters, gradients and the optimizer's state all live on the device.
#
# Only `zero_grad` can be moved. `backward` **adds** to what is in `.grad`, so the gradients are cleared
# before `backward` or after `step`, and never between the two.

# %% [markdown] facts=["T3"]
# The one wait is `loss.item()`. For four bytes the host stands still until the device has finished all the
# work that was launched before. So **a step returns its loss as a tensor on the device, and the program reads
# it later**, when it needs the number.
#
# Return it **detached**. Until `backward` has run, a loss holds all the activations; in an evaluation with a
# graph no `backward` follows to free them.
#
# A wait also hides in a plain `.to(device)`, which `devlab.watch()` lists as a blocking transfer. So into a
# CUDA device use `non_blocking=True`, as `moved` does. From pageable memory the host still stages the bytes,
# and waits for the device where the tensor is large; H200, measured: from 4 MiB on, and not up to 2 MiB.
# Pinned memory spares it both (lesson 04). On other devices leave the argument out: on Apple's `mps` the copy
# may read its source when that is gone already, and the numbers are silently wrong (PyTorch's issue 189690).
# Back to the CPU take a plain `.to` everywhere.
#
# What a step needs of memory, and when, you see in the second step, when the optimizer has its state. Green is
# what the forward keeps for the backward.

# %% facts=["T2"]
with mountain("The memory of a step, operator by operator", model, optimizer) as drawn:
    drawn.phase("forward")
    loss = F.cross_entropy(model(inputs), answers)
    drawn.phase("backward")
    loss.backward()
    drawn.phase("step")
    optimizer.step()
optimizer.zero_grad()

# %% [markdown] facts=["T2", "T3"]
# **[Exercise](../exercises/11_training_step.ipynb#task_train_step):** `train_step` puts these calls together,
# for any model and any device.

# %% [markdown]
# ## Whole epochs
#
# An **epoch** is one pass through the training set, here 12 batches of 100 digits. The optimizer is SGD with
# *momentum*: it keeps a running sum of each parameter's gradients, so that steps which agree grow longer.
# Before the first step the model is put into training mode, in case something has evaluated it.

# %% facts=["Z1", "T2", "T3"]
torch.manual_seed(0)
model = make_model().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
loader = DataLoader(train_set, 100, shuffle=True, generator=torch.Generator().manual_seed(0))
losses = []


def plain_epoch(change=lambda inputs: inputs):
    model.train()
    for inputs, answers in loader:
        inputs = change(inputs)  # a later section shifts the digits here
        inputs, answers = moved((inputs, answers), device)
        loss = F.cross_entropy(model(inputs), answers)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())


with devlab.watch() as log:
    plain_epoch()
into = sum(copy.target == str(device) for copy in log.events.transfers)
print(into, "transfers into the device,", log.transfers - into, "out of it,", log.synchronizations, "waits")

# %% [markdown] facts=["Z1"]
# Two tensors for each of 12 batches make 24 transfers. Nothing else is moved, and the host has not once
# waited for the device. This is the whole course in one line:
#
# > **Move the model once, each batch once, and make helpers from existing tensors.**
#
# Has it learned anything? The losses are still on the device. After three more epochs `tolist()` fetches all
# of them, with one transfer and one wait.

# %% facts=["T3", "Z1"] tags=["nbval-ignore-output"]
for _ in range(3):
    plain_epoch()
curves("The loss in training", each_step=torch.stack(losses).tolist())

# %% [markdown]
# A healthy loss curve falls steeply, then ever more slowly, and wobbles, because each batch is another
# sample. A curve that rises from the start often means a rate that is too high; one that lies flat, a
# gradient that does not arrive. Then give the model one batch again and again: if it cannot learn even that
# by heart, the fault is in the program.

# %% [markdown] facts=["T2"]
# ### How fast?
#
# An epoch takes at least as long as its loader needs to make the batches, and at least as long as the device
# needs for the steps. Measure the two apart, and you know which of them to mend:

# %% facts=["T2"] tags=["nbval-ignore-output"]
trial = copy.deepcopy(model)  # so that the training itself is left as it is
trial_optimizer = torch.optim.SGD(trial.parameters(), lr=0.01, momentum=0.9)


def one_step():
    F.cross_entropy(trial(inputs), answers).backward()
    trial_optimizer.step()
    trial_optimizer.zero_grad()


start = time.perf_counter()
for _ in DataLoader(train_set, 100):
    pass
loading = time.perf_counter() - start
step = devlab.time_op(one_step, device, repeats=3, show=False).median
kind = "modelled" if device.type == "sim" else "measured"
print(f"the loader alone: {len(train_set) / loading:>9,.0f} digits a second, measured")
print(f"the step alone:   {len(inputs) / step:>9,.0f} digits a second, {kind}")

# %% [markdown] facts=["T2"]
# A slow loader gets worker processes: `num_workers=2`, `persistent_workers=True` so that they outlive an
# epoch, `pin_memory=True`, and `prefetch_factor`, the number of batches that each has ready, 2 unless you say
# otherwise. For data that is in memory already, indexing a tensor by hand may beat any loader.
#
# A slow step of small layers is all launches, and its time hardly depends on the batch. Here is one step of a
# network of three linear layers, on data that is there already; the CPU has eight threads:
#
# | batch (H200, measured) | 32 | 256 | 2,048 | 16,384 |
# |---|---|---|---|---|
# | its host's CPU | {measured:small_training:cpu, batch 32, seconds a step} | {measured:small_training:cpu, batch 256, seconds a step} | {measured:small_training:cpu, batch 2048, seconds a step} | {measured:small_training:cpu, batch 16384, seconds a step} |
# | the GPU | {measured:small_training:cuda, batch 32, seconds a step} | {measured:small_training:cuda, batch 256, seconds a step} | {measured:small_training:cuda, batch 2048, seconds a step} | {measured:small_training:cuda, batch 16384, seconds a step} |
#
# The transformer of [lesson 07](07_asynchrony.ipynb#A-transformer,-bounded) shows the same, trained in
# bfloat16 with texts of 1024 tokens:
#
# | texts in a batch (H200, measured) | 1 | 4 | 8 | 16 | 64 |
# |---|---|---|---|---|---|
# | tokens a second | {measured:spine:bfloat16, fused, batch 1:tokens/s} | {measured:spine:bfloat16, fused, batch 4:tokens/s} | {measured:spine:bfloat16, fused, batch 8:tokens/s} | {measured:spine:bfloat16, fused AdamW:tokens/s} | {measured:spine:bfloat16, fused, batch 64:tokens/s} |
# | peak of memory | {measured:spine:bfloat16, fused, batch 1:peak allocated} | {measured:spine:bfloat16, fused, batch 4:peak allocated} | {measured:spine:bfloat16, fused, batch 8:peak allocated} | {measured:spine:bfloat16, fused AdamW:peak allocated} | {measured:spine:bfloat16, fused, batch 64:peak allocated} |
#
# Up to 8 texts the batch is nearly free; from 16 on it costs memory and gains little. How long will a
# training take? It needs about 6 operations for each of N parameters and D tokens. For 124 million parameters
# and 2.5 billion tokens that is 1.9e18, and at the measured {measured:spine:bfloat16, fused AdamW:tokens/s}
# tokens a second nearly two hours.
#
# **[Exercise](../exercises/11_training_step.ipynb#task_fit):** `fit` returns each epoch's mean loss over
# samples, for batches that need not all have the same size.

# %% [markdown]
# ## Measuring
#
# How well does it read digits that it has not learned from? The function below counts the errors for each
# digit, and the host waits for nothing in it.


# %% facts=["T1", "T3"]
def errors_by_digit(model, loader):
    """Return how many of each digit the model misreads: ten counts, on the model's device."""
    place = next(model.parameters()).device
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    digits = torch.arange(10, device=place)[:, None]
    wrong = torch.zeros(10, dtype=torch.long, device=place)
    with torch.no_grad():
        for batch in loader:
            images, labels = moved(batch, place)
            misread = model(images).argmax(1) != labels
            wrong += (misread & (labels == digits)).sum(1)
    for part, was_training in modes:
        part.training = was_training
    return wrong


validation_loader = DataLoader(validation_set, batch_size=100)
with devlab.watch() as log:
    wrong = errors_by_digit(model, validation_loader)
print(log.transfers, "transfers,", log.synchronizations, "synchronizations")

# %% facts=["T3"] tags=["nbval-ignore-output"]
counts = wrong.tolist()  # the one wait
for digit, count in enumerate(counts):
    print(digit, "misread", count, "times of", (labels[1200:1500] == digit).sum().item())
print(
    f"{1 - sum(counts) / len(validation_set):.1%} of {len(validation_set)} validation digits are read correctly"
)

model.eval()
with torch.no_grad():
    read = model(pictures[1200:1500].to(device)).argmax(1).cpu()
model.train()
misread = (read != labels[1200:1500]).nonzero()[:9, 0]
show_digits(images[1200 + misread], [f"{labels[1200 + one]} read as {read[one]}" for one in misread])

# %% [markdown] facts=["T3"]
# Expect 93 to 98 %: another device or another seed misreads a few digits more or fewer. The counts grow on
# the device and are read when the loop is over.
#
# Every measurement needs three more things. The function switches the model to **evaluation mode**, in which
# dropout is off and a batch norm uses the averages that it has gathered in training. It builds **no graph**.
# And it gives **each part** of the model back in the mode in which it came. One `model.train()` at the end is
# not enough for that, if a part is frozen as in fine-tuning:

# %%
model[1].eval()
errors_by_digit(model, validation_loader)
print("in evaluation mode afterwards:", [n for n, part in model.named_children() if not part.training])
model.train()
print("and after model.train():      ", [n for n, part in model.named_children() if not part.training])

# %% [markdown]
# **[Exercise](../exercises/11_training_step.ipynb#task_evaluate):** `evaluate` returns the accuracy, and
# waits once.

# %% [markdown]
# ## The model knows no device
#
# The loop got its device from one name at the top of the notebook. What about the model itself? Some models
# add a little noise while they train. A global `device` in their `forward`, a `.cuda()` or a default argument
# would tie them to one machine. **In the logic of a model no device is named.** The input knows where the
# work is, so the new tensor is made from the input:


# %% facts=["T1", "Z1"]
class Noisy(nn.Module):
    def forward(self, x):
        return x + 0.1 * torch.randn_like(x)


for place in (device, torch.device("cpu")):
    print("on", place.type, Noisy()(torch.ones(2, 3, device=place)).shape)

# %% [markdown] facts=["T1"]
# A program chooses its device in one place, near its top, and hands it down from there as an argument:
#
# ```python
# device = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
# ```

# %% [markdown]
# ## One thing at a time
#
# Real programs add a few things to the loop, each for a reason of its own. What they save and cost is the
# subject of [lesson 12](12_less_memory_less_time.ipynb); here you see what each of them moves.

# %% [markdown]
# ### Shifted digits
#
# The digits are few, so we let each epoch see them a little differently: every picture is shifted by up to
# one pixel. Shifting happens on the CPU, before the batch moves, and takes its random numbers from there.
# From the same state of the model, training goes on for four epochs twice.


# %% facts=["Z1"] tags=["nbval-ignore-output"]
def shifted(images):
    """Return the images, each shifted by up to one pixel in each direction."""
    windows = F.pad(images, (1, 1, 1, 1)).unfold(2, 8, 1).unfold(3, 8, 1)  # the nine shifts of each image
    down, right = torch.randint(3, (2, len(images)))
    return windows[torch.arange(len(images)), :, down, right]


def report(words, model):
    missed = errors_by_digit(model, validation_loader).sum().item()
    print(f"{words:<34}{1 - missed / len(validation_set):.1%} of the validation digits")


report("4 epochs", model)
after_four = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
for words, change in (
    ("4 more, digits as they are", lambda inputs: inputs),
    ("4 more, digits shifted", shifted),
):
    model.load_state_dict(after_four[0])
    optimizer.load_state_dict(after_four[1])
    for _ in range(4):
        plain_epoch(change)
    report(words, model)

# %% [markdown]
# In most runs the shifted digits bring more than four further epochs of the old ones. One run proves little.

# %% [markdown] facts=["T2"]
# ### Half precision
#
# Under `torch.autocast` the products run in bfloat16, and the parameters stay float32. Not every device
# computes in bfloat16, so the program asks first. NVIDIA's GPUs do since Ampere; before it they imitate
# bfloat16, which saves no time.


# %% facts=["T1"] tags=["nbval-ignore-output"]
def computes_in_bfloat16(place):
    """Return whether a device has bfloat16; a GPU that only imitates it does not count."""
    if place.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        return False
    try:
        ones = torch.ones(2, 2, dtype=torch.bfloat16, device=place)
        return (ones @ ones).dtype == torch.bfloat16
    except (RuntimeError, TypeError):
        return False


half = computes_in_bfloat16(device)
print(device, "computes in bfloat16" if half else "lacks bfloat16: the lesson goes on in float32")

# %% [markdown] facts=["T2"]
# ### Gradient accumulation
#
# A batch may be too large for the device. Since `backward` adds, the batch can go through the model in parts,
# and the optimizer steps once at the end. Each part's loss is a sum, divided by the number of samples in the
# *whole* batch. Here the gradient of a batch in parts of 60 and 40 is compared with that of the whole batch.

# %% facts=["T2"]
guess = devlab.predict(
    "In which of the two modes is it the same gradient, but for rounding?",
    "in evaluation mode",
    "in training mode",
    "both",
)


# %% facts=["T2"] tags=["nbval-ignore-output"]
def gradient(net, size):
    """Return the gradient of the batch, which goes through the model in parts of this size."""
    net.zero_grad()
    for part, right in zip(inputs.split(size), answers.split(size), strict=True):
        (F.cross_entropy(net(part), right, reduction="sum") / len(inputs)).backward()
    return torch.cat([parameter.grad.flatten() for parameter in net.parameters()])


same = []
for mode in ("evaluation", "training"):
    net = make_model(dropout=0.0).to(device).train(mode == "training")
    whole = gradient(net, 100)
    apart = ((gradient(net, 60) - whole).norm() / whole.norm()).item()
    print(f"batch norms in {mode} mode: the gradients differ by {apart:.1e} of their length")
    same += [f"in {mode} mode"] if apart < 5e-3 else []  # rounding stays below this, and so does TF32's
guess.was(same)

# %% [markdown] facts=["T2"]
# In training mode each batch norm takes mean and spread from what it sees, and a part is not the batch.
# Training works with that, but it is no longer the same training.

# %% [markdown] facts=["T2"]
# ### Clipping
#
# A single odd batch can have a gradient so large that the step after it ruins the model. `clip_grad_norm_`
# shortens the gradient where its norm is above a limit.

# %% facts=["T2"]
guess = devlab.predict("Does clipping make the host wait?", "yes, once", "yes, for each parameter", "no")

# %% facts=["T2"]
F.cross_entropy(model(inputs), answers).backward()
waits = []
norm = watched("clip to a norm of 1", lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0))
print("the norm is on", norm.device)
guess.was({0: "no", 1: "yes, once"}.get(waits[0], "yes, for each parameter"))
optimizer.zero_grad()

# %% [markdown] facts=["T2", "T3"]
# `clip_grad_norm_` never asks how large the norm is: it computes a factor of at most 1 on the device and
# multiplies every gradient by it. Only `error_if_nonfinite=True` asks, and waits. The norm that it returns is
# worth keeping: where a loss turns into `nan`, the norm often grew before.

# %% [markdown]
# ### A rate that rises and falls
#
# The learning rate says how far a step goes. At the beginning the gradients are large and change direction
# often, so the rate rises from a low start, the *warm-up*. Then it falls along half a *cosine*, a curve that
# begins and ends gently. A scheduler sets the rate in the optimizer, and steps once after each step of the
# optimizer. The rate is a Python number, so the schedule moves nothing and waits for nothing.


# %%
def make_schedule(optimizer, updates, warm_up=12):
    rise = LinearLR(optimizer, start_factor=0.1, total_iters=warm_up)
    fall = CosineAnnealingLR(optimizer, T_max=updates - warm_up)
    return SequentialLR(optimizer, [rise, fall], milestones=[warm_up])


trial = torch.optim.SGD([nn.Parameter(torch.ones(1, device=device))], lr=0.05)
schedule = make_schedule(trial, updates=144)
rates = []
for _ in range(144):
    rates.append(trial.param_groups[0]["lr"])
    trial.step()
    schedule.step()
curves("The learning rate over 12 epochs of 12 steps", learning_rate=rates)

# %% [markdown] facts=["T2", "T3"]
# ### All of it
#
# Here is the step with everything in it. `run` holds what belongs to a training. The optimizer has a *weight
# decay* as well, which pulls every weight a little toward zero at each step.


# %% facts=["T1", "T2", "T3", "Z1"]
def update(run, images, labels):
    """Let the optimizer take one step from a batch, which goes through the model in parts of 60."""
    weight = next(run.model.parameters())  # it knows the device, and the dtype of the inputs
    total = 0
    for part, answers in zip(images.split(60), labels.split(60), strict=True):
        part, answers = moved((part, answers), weight.device)
        with torch.autocast(weight.device.type, dtype=torch.bfloat16, enabled=run.half):
            loss = F.cross_entropy(run.model(part.to(weight.dtype)), answers, reduction="sum") / len(labels)
        loss.backward()
        total += loss.detach()
    nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
    run.optimizer.step()
    run.schedule.step()
    run.optimizer.zero_grad()
    return total


def new_run(place, epochs, half, dropout=0.3, dtype=torch.float32):
    """Return all that belongs to a training, as it is before the first step."""
    torch.manual_seed(0)
    model = make_model(dropout).to(place, dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    loader = DataLoader(train_set, 100, shuffle=True, generator=torch.Generator().manual_seed(0))
    schedule = make_schedule(optimizer, updates=len(loader) * epochs)
    return SimpleNamespace(model=model, optimizer=optimizer, schedule=schedule, loader=loader, half=half)


def epoch(run):
    """Train for one epoch; return the loss of each step, on the device."""
    run.model.train()
    return torch.stack([update(run, shifted(images), labels) for images, labels in run.loader])


# %% facts=["Z1", "T2", "T3"]
run = new_run(device, 12, half)
with devlab.watch() as log:
    first = epoch(run)
print(log.transfers, "transfers,", log.synchronizations, "waits")

# %% facts=["T3", "Z1"] tags=["nbval-ignore-output"]
grown = curves("The loss in training", each_step=[], each_epoch=[])  # the picture grows epoch by epoch
seen = first.cpu()
grown.add(each_step=seen, each_epoch=[seen.mean()])
for _ in range(11):
    seen = epoch(run).cpu()
    grown.add(each_step=seen, each_epoch=[seen.mean()])

report("all of it, 12 epochs", run.model)

# %% [markdown] facts=["Z1"]
# Where there were 24 transfers there are 48 now: two tensors for each of two parts, 12 times. Nothing else is
# moved, and the host still has not waited once in the epoch. Most of the gain on these digits comes from the
# shifts.
#
# Now every choice is made, and the test digits come out of the drawer.

# %% tags=["nbval-ignore-output"]
for words, digits in (("validation", validation_set), ("test", test_set)):
    missed = errors_by_digit(run.model, DataLoader(digits, 100)).sum().item()
    print(f"{words:<12}{1 - missed / len(digits):.1%}")

# %% [markdown]
# Expect 96 to 98 % on the test digits, by two hands that the model has not seen, and one to four per cent
# more on the validation digits. Nothing was chosen by the test, so its figure is the one to report.

# %% [markdown] facts=["T4"]
# ## The same losses everywhere
#
# Nothing in `update` names a device, so it runs anywhere. Does it compute the same there? Each device adds in
# its own order, and every step builds on those before. So we need a tolerance: for the first 12 steps, a
# relative difference of at most **0.0001** in float32, and of **0.02** in bfloat16, which has only two to
# three digits.
#
# Two things are kept out of the comparison. Dropout draws its random numbers on the device, and a GPU draws
# other numbers than the CPU. And NVIDIA's GPUs since Ampere round the inputs of convolutions to a shorter
# format, TF32, unless `fp32_precision` is `"ieee"` (lesson 12).


# %% facts=["T4"] tags=["nbval-ignore-output"]
def losses_of(place, **settings):
    """Return the losses of the first 12 steps of a training without dropout."""
    run = new_run(place, 2, dropout=0.0, **settings)
    as_before = torch.backends.cudnn.conv.fp32_precision
    torch.backends.cudnn.conv.fp32_precision = "ieee"
    try:
        return epoch(run).cpu().double()
    finally:
        torch.backends.cudnn.conv.fp32_precision = as_before


def compare(words, ours, theirs, tolerance):
    apart = ((ours - theirs).abs() / theirs).max().item()
    verdict = "within" if apart <= tolerance else "NOT within"
    print(f"{words:<26} differ by {apart:.1e} at most, {verdict} the tolerance of {tolerance:g}")


cpu = torch.device("cpu")
reference = losses_of(cpu, half=False)
compare(f"{device} and cpu, float32", losses_of(device, half=False), reference, 1e-4)
if half and computes_in_bfloat16(cpu):
    halved = losses_of(device, half=True)
    compare(f"{device} and cpu, bfloat16", halved, losses_of(cpu, half=True), 2e-2)
    compare("bfloat16 and float32", halved, reference, 2e-2)
compare("float64 and float32", losses_of(cpu, half=False, dtype=torch.float64), reference, 1e-4)

# %% [markdown] facts=["T4"]
# The simulated device borrows the CPU's arithmetic, so its 0 proves little; on a GPU you see a small number.
# **The program works wherever model and data are moved together**; two lines do it, `.to(place, dtype)` in
# `new_run` and the line in `update` that moves a part.

# %% [markdown]
# ## A file
#
# A **checkpoint** outlives the program, and perhaps the machine. What belongs in it is the `state_dict`:
# names and tensors. A whole model would be pickled, and reading it needs the very class.
#
# The model is on the device. The next cell saves its `state_dict` and reads the file with no further
# argument.

# %% facts=["T4"]
guess = devlab.predict("Where will the tensors from the file be?", "on the CPU", "on the device")

# %% facts=["T4"]
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "trained.pt"
torch.save({"epochs": 12, "model": run.model.state_dict()}, path)

weight = torch.load(path)["model"]["0.weight"]
print(weight.device)
guess.was("on the device" if weight.device == device else "on the CPU")

# %% [markdown]
# The file remembers the place of each tensor, and `torch.load` puts it back there. A file written on `cuda:3`
# cannot be read like this on your laptop.

# %% [markdown]
# ## A file from elsewhere
#
# `map_location` says where to put the tensors, whatever the file remembers. Then `load_state_dict` **copies**
# the numbers into the tensors that the model has.

# %% facts=["T4"]
held = torch.load(path, map_location="cpu", weights_only=True)
fresh = make_model().to(device)
fresh.load_state_dict(held["model"])

places = {tensor.device for tensor in fresh.state_dict().values()}
print("the file's tensors on", held["model"]["0.weight"].device, "- the model's on", *places)

# %% [markdown] facts=["T4"]
# The model is where it was. `map_location` places the tensors of the file and never moves a model.
#
# `weights_only=True`, the default since PyTorch 2.6, admits tensors, plain containers and little else. A file
# that holds more could run code when it is read:

# %%
whole = Path(folder.name) / "whole.pt"
torch.save(fresh, whole)
try:
    torch.load(whole, map_location="cpu", weights_only=True)
except Exception as error:
    print(type(error).__name__, "- the file holds more than data")

# %% [markdown]
# ## As if nothing had happened
#
# A training that was interrupted should go on as if it had not been. Everything that the rest of the training
# depends on has to be in the file:
#
# - the **model**, and the **optimizer** with its momentum;
# - the **schedule**, and the number of the **epoch**;
# - the state of the **random numbers**: of the CPU, by which the images are shifted; of the device, which
#   dropout uses; of the loader's generator, by which it shuffles;
# - in float16, the `GradScaler` (lesson 12).


# %% facts=["T4"]
def state_of(run, done):
    """Return all that the rest of a training depends on, after so many epochs."""
    place = next(run.model.parameters()).device
    state = {
        "epoch": done,
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "schedule": run.schedule.state_dict(),
        "cpu random": torch.get_rng_state(),
        "order": run.loader.generator.get_state(),
    }
    if place.type != "cpu":
        state[f"{place.type} random"] = torch.get_device_module(place).get_rng_state(place)
    return state


def restore(run, state):
    """Set a training back to a state, or to those parts of it that are there; return the epochs done."""
    place = next(run.model.parameters()).device
    setters = {
        "model": run.model.load_state_dict,
        "optimizer": run.optimizer.load_state_dict,
        "schedule": run.schedule.load_state_dict,
        "cpu random": torch.set_rng_state,
        "order": run.loader.generator.set_state,
    }
    if place.type != "cpu":
        setters[f"{place.type} random"] = lambda held: torch.get_device_module(place).set_rng_state(
            held, place
        )
    for name, set_back in setters.items():
        if name in state:
            set_back(state[name])
    return state["epoch"]


# %% [markdown] facts=["T4"]
# A training of two epochs is saved after the first. The second epoch of the uninterrupted training gives the
# losses that a resumed one has to reach. Then the file is loaded several times, each time with one part left
# out.

# %% facts=["T4"]
guess = devlab.predict(
    "All is restored but the random numbers of the device. By how much do the losses differ?",
    "not at all",
    "by rounding",
    "visibly",
)

# %% facts=["T4"] tags=["nbval-ignore-output"]
path = Path(folder.name) / "training.pt"
run = new_run(device, 2, half)
epoch(run)
torch.save(state_of(run, done=1), path)
uninterrupted = epoch(run).cpu()


def resumed(missing):
    """Return the losses of the second epoch, resumed from the file without one of its parts."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    state.pop(missing, None)
    run = new_run(device, 2, half)
    for _ in range(restore(run, state), 2):
        losses = epoch(run)
    return losses.cpu()


drawn_there = f"{device.type} random"
parts = ("nothing", "optimizer", "schedule", "cpu random", drawn_there, "order")
runs = {missing: resumed(missing) for missing in parts}
print("uninterrupted:", *(f"{loss:.6f}" for loss in uninterrupted[-4:].tolist()), "are the last losses")
print("resumed:      ", *(f"{loss:.6f}" for loss in runs["nothing"][-4:].tolist()))

apart = {}
for missing, losses in runs.items():
    apart[missing] = ((losses - uninterrupted).abs() / uninterrupted).max().item()
    print(f"{missing:<14} left out: largest relative difference of a loss {apart[missing]:.2g}")
difference = apart[drawn_there]
guess.was("not at all" if difference == 0 else "by rounding" if difference < 1e-4 else "visibly")

# %% [markdown] facts=["T4"]
# On the simulated device and on the CPU, a resume with all of it gives **the same** losses. On a GPU some
# convolutions add up in whatever order their threads finish, and then the last digits differ even between two
# runs that were never interrupted. Whatever is left out shows, and nothing raises an error: the training goes
# on, and it is a different one.
#
# Four rules make a resume work:
#
# - **Move the model, make the optimizer and the schedule, then load into all three.**
#   `optimizer.load_state_dict` sends its state to where each parameter is *at that moment*.
# - **Load with `map_location="cpu"`.** Random states are CPU tensors, even that of a device's generator. With
#   `map_location=device` they would be moved, and refused: *RNG state must be a torch.ByteTensor*.
# - **Save between two epochs**, or save more. The loader's generator tells where the next epoch begins, not
#   how far the present one has come. In the middle of an epoch, save its state as it was when the epoch began,
#   and the number of batches done; a resumed program passes over so many.
# - **Never write over the only good file.** Write to another name and rename it (`Path.replace`). Keep the
#   last state, and the one that was best on the validation set: after it the model mostly learns its training
#   set by heart, which is called **overfitting**.
#
# **[Exercise](../exercises/11_training_step.ipynb#task_continue_training):** `continue_training` stops and
# goes on anywhere, also in the middle of an epoch.

# %% [markdown] facts=["T1", "T4"]
# ## A whole program
#
# Here are the pieces in one program. It chooses its device, trains with clipping, a schedule and, if asked,
# in half precision, measures after each epoch, keeps the last state and the best model, and goes on after the
# last epoch that was saved, also where another kind of device has saved it. What you would change stands in
# its first line. To make it yours, put it into a file `train.py` under the imports of this lesson, with your
# own data and model, and call it in the last line: `main("runs", 10)`.


# %% facts=["T1", "T2", "T3", "T4", "Z1"]
def main(folder, epochs, *, planned=10, batch=100, rate=3e-3, clip=1.0, half=False):
    """Train until so many epochs are done, and begin where the last state in the folder ends."""
    device = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    torch.manual_seed(0)
    images, labels = devlab.digits()
    images = images.flatten(1)
    order = torch.Generator().manual_seed(0)
    train = DataLoader(TensorDataset(images[:1200], labels[:1200]), batch, shuffle=True, generator=order)
    validation = DataLoader(TensorDataset(images[1200:1500], labels[1200:1500]), batch)

    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    schedule = CosineAnnealingLR(optimizer, T_max=max(planned, epochs) * len(train))
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}

    Path(folder).mkdir(exist_ok=True)
    last, best = Path(folder) / "last.pt", Path(folder) / "best.pt"
    done, record, random = 0, 0.0, f"{device.type} random"
    if last.exists():
        state = torch.load(last, map_location="cpu", weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(state[name])
        torch.set_rng_state(state["cpu random"])
        order.set_state(state["order"])
        if device.type != "cpu" and random in state:  # not if another kind of device has saved it
            torch.get_device_module(device).set_rng_state(state[random], device)
        done, record = state["epoch"], state["record"]

    def batches(loader):
        for batch in loader:
            yield [tensor.to(device, non_blocking=device.type == "cuda") for tensor in batch]

    def write(state, path):
        new = path.with_suffix(".new")
        torch.save(state, new)
        new.replace(path)

    for epoch in range(done + 1, epochs + 1):
        model.train()
        total = torch.zeros((), device=device)
        for inputs, answers in batches(train):
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=half):
                loss = F.cross_entropy(model(inputs), answers)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            total += loss.detach()
        model.eval()
        right = torch.zeros((), dtype=torch.long, device=device)
        with torch.inference_mode():
            for inputs, answers in batches(validation):
                right += (model(inputs).argmax(1) == answers).sum()
        loss, score = torch.stack([total / len(train), right]).tolist()  # one wait for both
        print(f"epoch {epoch}: loss {loss:.4f}, {score:.0f} of 300 digits right")

        if score > record:
            record = score
            write(model.state_dict(), best)
        state = {name: part.state_dict() for name, part in parts.items()}
        state |= {"epoch": epoch, "record": record}
        state |= {"cpu random": torch.get_rng_state(), "order": order.get_state()}
        if device.type != "cpu":
            state[random] = torch.get_device_module(device).get_rng_state(device)
        write(state, last)


# %% [markdown] facts=["T4"]
# It is called twice here, as if it had been stopped after two epochs and started again.

# %% facts=["T4"] tags=["nbval-ignore-output"]
main(folder.name, 2)
print("started again")
main(folder.name, 4)
folder.cleanup()

# %% [markdown]
# ## What to keep
#
# - No device is named in a model's logic; the inputs say where the work is.
# - In training mode, the step moves its batch without waiting, then forward, loss, backward, step, clear. It
#   returns the detached loss. Losses and counts stay on the device until the epoch is over.
# - Time the loader and the step apart: the slower of the two is what you mend.
# - Measure in evaluation mode and without a graph, and give each part its own mode back.
# - Save a `state_dict`; load it with `map_location` and `weights_only=True`; move the model; then the
#   optimizer. To go on exactly, save the schedule, the epoch and all random numbers as well.
#
# The whole course on one sheet for the wall is [the page Summary](../docs/summary.md).
#
# **Now do it:** [the exercises of this lesson](../exercises/11_training_step.ipynb), four functions.
# **Then:** a program of your own. Put `devlab.watch()` around one epoch of it, and see what it moves. When it
# is too slow, or does not fit, go on with [12 Less memory, less time](12_less_memory_less_time.ipynb).
