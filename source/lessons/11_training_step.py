# %% [markdown]
# # 11 The training step
#
# Everything so far meets in one loop. It takes a batch, finds out how wrong the model is, and makes it a
# little less wrong, and it does so thousands of times, or millions. Each transfer and each wait in it is paid
# as often.
#
# In this lesson a model learns to read handwritten digits, on whatever device you have. First it trains with
# the bare step, and you count what that moves and where it waits. Then you add, one at a time, what real
# programs have: half precision, batches in parts, gradients that are clipped, a learning rate that follows a
# schedule, and a file from which an interrupted training goes on as if nothing had happened.
#
# **Takes** about 60 minutes. **Needs** [05 Models and buffers](05_buffers.ipynb) and [04
# Transfers](04_transfers.ipynb); [08 Memory](08_memory.ipynb) helps.

# %%
import copy
import tempfile
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.utils.data import DataLoader, TensorDataset

import devlab
from devlab.explore.curves import curves
from devlab.sim.clock import real_waits

device = devlab.start(threads=1)  # the model is small: lesson 01 says why more threads would only wait
real_waits(False)  # a simulated device need not take its time in a lesson that measures none

# %% [markdown]
# This lesson takes no times; those in it are an NVIDIA H200's. It counts transfers and waits with
# `devlab.watch()`, and the counts are the same on the simulated device as on a GPU. Losses and accuracies are
# real on both, because the simulated device computes with real numbers.

# %% [markdown]
# ## Real digits
#
# The course brings a small real data set: 1797 digits that 13 people wrote by hand, 8 by 8 pixels each.

# %%
images, labels = devlab.digits()
print(tuple(images.shape), images.dtype, images.device)
print(tuple(labels.shape), labels.dtype, labels.device)

for row in images[3]:
    print("".join(" .:+#"[int(4 * ink)] * 2 for ink in row))
print("labelled", labels[3].item())

# %% [markdown]
# They are on the CPU, like any data set that comes from a file, and there they stay: what moves to the device
# is one batch at a time.
#
# The digits are split three ways. The model learns from the **training set**. What you choose on the way,
# such as a rate or the number of epochs, you choose by the **validation set**. The **test set** is kept for
# the end and looked at once: a choice that was made by the test digits fits them a little, and then their
# figure flatters you. They are the last 297 digits of the file. The file seems to be ordered by writer, and
# most of the test digits are in two hands of which the other sets hold nothing.
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
# ![Memory over time in one step: parameters and the optimizer's state stay; activations grow in forward to the peak and are freed in backward, in which the gradients grow; those stay until they are cleared](drawing:memory_of_a_step)
#
# A step consists of a few calls:
#
# ```python
# inputs, answers = inputs.to(device), answers.to(device)  # move the batch
# loss = F.cross_entropy(model(inputs), answers)           # forward: how wrong is the model?
# loss.backward()                                          # how does the loss change with a parameter?
# optimizer.step()                                         # move each parameter a little against that
# optimizer.zero_grad()                                    # and clear that before the next batch
# ```
#
# How the loss changes with a parameter is its **gradient**. `backward` leaves it in the parameter's `.grad`,
# and the optimizer reads it from there. A program that reports its loss adds `loss.item()`. The next cell
# makes these six calls one by one under a watch.

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
# nothing, because parameters, gradients and the optimizer's state all live on the device. (The optimizer
# makes its state from the parameters when it first steps. Adam also counts its steps, and by default keeps
# that number on the CPU on purpose, where reading it costs no wait.)
#
# Only the clearing may stand in more than one place. `backward` **adds** to what is in `.grad`, so the
# gradients are cleared before `backward` or after `step`, and never between the two.

# %% [markdown] facts=["T3"]
# The one wait is `loss.item()`. It fetches four bytes, and for them the host stands still until the device
# has finished all the work that was launched before. In that time the host could have launched the next step.
# So **a step returns its loss as a tensor on the device, and the program reads it later**, when it needs the
# number.
#
# Return it **detached**. Until `backward` has run, a loss holds all the activations; afterwards it still
# holds the nodes of its graph. A program that collects its losses wants neither. It is worst in evaluation
# with a graph, where no `backward` follows to free the activations.
#
# A wait also hides in a plain `.to(device)`, which returns only when the device has the batch, and the device
# takes it after all the work launched before. (`devlab.watch()` lists that as a blocking transfer and not as
# a synchronization.) So into a CUDA device use `non_blocking=True`, as `moved` does. From pageable memory the
# host still has to stage the bytes, and it waits for the device all the same where the tensor is large (H200,
# measured: up to 2 MiB it did not, from 4 MiB on it did). Pinned memory spares it both (lesson 04). On other
# devices leave the argument out: on Apple's `mps` the copy may read its source when that is gone already, and
# the numbers are silently wrong (PyTorch's issue 189690). Back to the CPU take a plain `.to` everywhere, or
# the program may read numbers that have not arrived yet.
#
# **[Exercise](../exercises/11_training_step.ipynb#task_train_step):** `train_step` puts these calls together,
# for any model and any device.

# %% [markdown]
# ## Whole epochs
#
# An **epoch** is one pass through the training set. Here it has 12 steps, with a batch of 100 digits in each.
# The optimizer is SGD with *momentum*: it keeps a running sum of each parameter's gradients, so that steps
# which agree grow longer. Before the first step the model is put into training mode, in case something has
# evaluated it.
#
# Count what one epoch moves before you choose.

# %% facts=["Z1", "T2"]
guess = devlab.predict(
    "How many transfers go into the device in one epoch?",
    "12",
    "24",
    "36",
    "more, because the model moves too",
)

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
guess.was(into if into in (12, 24, 36) else "more, because the model moves too")

# %% [markdown] facts=["Z1"]
# Two tensors for each of 12 batches make 24 transfers. Nothing else is moved, and under CUDA's rules the host
# has not once waited for the device: it has staged the bytes of each batch, which are few here, and gone on.
# This is the whole course in one line:
#
# > **Move the model once, each batch once, and make helpers from existing tensors.**
#
# Has it learned anything? The losses are still on the device. After three more epochs `tolist()` fetches all
# of them, with one transfer and one wait.

# %% facts=["T3", "Z1"] tags=["nbval-ignore-output"]
for _ in range(3):
    plain_epoch()
steps = torch.stack(losses).tolist()
curves("The loss in training", each_step=steps)

# %% [markdown]
# This is what a healthy loss curve looks like: it falls steeply, then ever more slowly, and wobbles on the
# way, because each batch is another sample. A curve that rises from the start often means a rate that is too
# high. One that lies flat often means a gradient that does not arrive, or a rate that is far too low. Then
# give the model one batch again and again: if it cannot learn even that by heart, the fault is in the
# program.
#
# On a real GPU this model may well train more slowly than on the CPU. Its layers are tiny, and small work
# loses to launches and transfers ([07](07_asynchrony.ipynb)). Here is one step of a network of that size,
# three linear layers on data that is there already; the CPU has eight threads:
#
# | batch (H200, measured) | 32 | 256 | 2,048 | 16,384 |
# |---|---|---|---|---|
# | its host's CPU | {measured:small_training:cpu, batch 32, seconds a step} | {measured:small_training:cpu, batch 256, seconds a step} | {measured:small_training:cpu, batch 2048, seconds a step} | {measured:small_training:cpu, batch 16384, seconds a step} |
# | the GPU | {measured:small_training:cuda, batch 32, seconds a step} | {measured:small_training:cuda, batch 256, seconds a step} | {measured:small_training:cuda, batch 2048, seconds a step} | {measured:small_training:cuda, batch 16384, seconds a step} |
#
# The time on the GPU hardly depends on the batch: it is the launches'. Larger programs add what
# lesson 04 taught: a loader with worker processes and `pin_memory=True`.
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

# %% [markdown] facts=["T3"]
# Four epochs of the bare step are enough for most of them. Expect 93 to 98 %: another device or another seed
# misreads a few digits more or fewer, and three digits are one per cent.
#
# The counts grow on the device and are read when the loop is over.
#
# The function does three more things, which every measurement needs. It switches the model to **evaluation
# mode**, in which dropout is off and a batch norm uses the averages that it has gathered in training, and not
# those of the batch. It builds **no graph**. And it gives **each part** of the model back in the mode in
# which it came. One `model.train()` at the end is not enough for that. Here the first batch norm is kept in
# evaluation mode, as in fine-tuning, while the rest is trained:

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
# add a little noise while they train. The author of this one had a single machine with a single accelerator.

# %% facts=["T1"]
guess = devlab.predict("On how many of two devices, yours and the CPU, does the noisy model work?")


# %% facts=["T1"]
class Noisy(nn.Module):
    def forward(self, x):
        return x + 0.1 * torch.randn(x.shape, device=device)


works = 0
for place in (device, torch.device("cpu")):
    try:
        print("on", place.type, Noisy()(torch.ones(2, 3, device=place)).shape)
        works += 1
    except RuntimeError as error:
        print("on", place.type, "->", str(error).split("!")[0])
guess.was(works)

# %% [markdown] facts=["T1"]
# It works where it was written. The fixed device is here in a global name; it may hide better, in a `.cuda()`
# or in a default argument. **In the logic of a model no device is named.** The input knows where the work is,
# so the new tensor is made from the input:


# %% facts=["T1", "Z1"]
class Noisy(nn.Module):
    def forward(self, x):
        return x + 0.1 * torch.randn_like(x)


for place in (device, torch.device("cpu")):
    print("on", place.type, Noisy()(torch.ones(2, 3, device=place)).shape)

# %% [markdown]
# A program chooses its device in one place, near its top, and hands it down from there as an argument. Here
# `devlab.start()` did so. In a program of your own the line is
#
# ```python
# device = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
# ```
#
# which takes the accelerator that is present, whatever its kind, and the CPU where there is none.

# %% [markdown]
# ## One thing at a time
#
# The loop above trains, and you could stop here. Real programs add a few things to it, each for a reason of
# its own. We take them one by one and look at what each of them moves. How autocast chooses, and what parts
# save and cost, is the subject of [lesson 12](12_less_memory_less_time.ipynb); here they are used.

# %% [markdown]
# ### Shifted digits
#
# The digits are few, so we let each epoch see them a little differently: every picture is shifted by up to
# one pixel. For the model that is almost like more data. Shifting happens on the CPU, before the batch moves,
# and takes its random numbers from there. (Dropout, in the model, draws its random numbers on the device.)
# From the same state of the model above, training goes on for four epochs twice: with the digits as they are,
# and with the digits shifted.


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
# computes in bfloat16, so the program asks first. (NVIDIA's GPUs do since Ampere. Before it they imitate
# bfloat16, which saves no time.)


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
# and the optimizer steps once at the end. That is **gradient accumulation**. Each part's loss is a sum,
# divided by the number of samples in the *whole* batch, so that parts of unequal size count as they should.
# Here the gradient of a batch in parts of 60 and 40 is compared with that of the whole batch, once with the
# batch norms in evaluation mode and once in training mode.

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
# In evaluation mode the difference is rounding. In training mode each batch norm takes mean and spread from
# what it sees, and a part is not the batch. Training works with that, but it is no longer the same training.

# %% [markdown] facts=["T2"]
# ### Clipping
#
# A single odd batch can have a gradient so large that the step after it ruins the model. `clip_grad_norm_`
# shortens the gradient where its norm is above a limit. The norm is computed on the device. The next cell
# clips once, under the watch.

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
# It does not. `clip_grad_norm_` never asks how large the norm is: it computes a factor of at most 1 on the
# device and multiplies every gradient by it, whether that is needed or not. Only `error_if_nonfinite=True`
# asks, and waits. The norm that it returns is worth keeping: where a loss turns into `nan`, the norm often
# grew before.

# %% [markdown]
# ### A rate that rises and falls
#
# The learning rate says how far a step goes. At the beginning the gradients are large and change direction
# often, so the rate starts low and rises; that is called the *warm-up*. Near the end small steps find the
# bottom, so the rate falls along half a *cosine*. A scheduler sets the rate in the optimizer, and it steps
# once after each step of the optimizer. The training below takes 12 epochs of 12 steps, 144 in all.


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

# %% [markdown]
# The rate is an ordinary Python number, and the arithmetic of the schedule is done on the host. The schedule
# moves nothing and waits for nothing.

# %% [markdown] facts=["T2", "T3"]
# ### All of it
#
# Here is the step with everything in it. (Batches of 100 need no parts; they are cut here to show how.) `run`
# holds what belongs to a training: the model, the optimizer, the schedule, the loader, and whether to use
# half precision. The optimizer has a *weight decay* as well, which pulls every weight a little toward zero at
# each step. The mode is set once for all steps of an epoch, in `epoch`.


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


# %% [markdown]
# The first epoch runs under the watch, and eleven more complete the training. The losses of each are read
# when it is over.

# %% facts=["Z1", "T2", "T3"]
run = new_run(device, 12, half)
with devlab.watch() as log:
    first = epoch(run)
print(log.transfers, "transfers,", log.synchronizations, "waits")

# %% facts=["T3", "Z1"] tags=["nbval-ignore-output"]
steps = first.tolist()
epochs = [sum(steps) / len(steps)]
for _ in range(11):
    seen = epoch(run).tolist()
    steps += seen
    epochs.append(sum(seen) / len(seen))
curves("The loss in training", each_step=steps, each_epoch=epochs)

report("all of it, 12 epochs", run.model)

# %% [markdown] facts=["Z1"]
# Where there were 24 transfers there are 48 now: two tensors for each of two parts, 12 times. Nothing else is
# moved, and the host still has not waited once in the epoch. Most of the gain on these digits comes from the
# shifts. Half precision and accumulation are there for time and memory, clipping and the schedule for larger
# models, which often train badly without them.
#
# Now every choice is made, and the test digits come out of the drawer.

# %%
guess = devlab.predict(
    "How does the model do on the test digits, beside the validation digits?",
    "worse",
    "equally well",
    "better",
)

# %% tags=["nbval-ignore-output"]
rates = {}
for words, digits in (("validation", validation_set), ("test", test_set)):
    missed = errors_by_digit(run.model, DataLoader(digits, 100)).sum().item()
    rates[words] = 1 - missed / len(digits)
    print(f"{words:<12}{rates[words]:.1%}")
apart = rates["test"] - rates["validation"]
guess.was("worse" if apart < -0.005 else "better" if apart > 0.005 else "equally well")

# %% [markdown]
# Expect 96 to 98 % on the test digits, and one to four per cent more on the validation digits. Nothing was
# chosen by the test, so its figure is the one to report.

# %% [markdown] facts=["T4"]
# ## The same losses everywhere
#
# Nothing in `update` names a device, so it runs anywhere. Does it compute the same there? Each device adds in
# its own order, so results differ in the last digits, and every step builds on those of the step before. So
# we need a tolerance. For the first 12 steps of this training, a relative difference of at most **0.0001** is
# allowed in float32, and of at most **0.02** in bfloat16, which has only two to three digits.
#
# Two things have to be kept out of the comparison. Dropout draws its random numbers on the device, and a GPU
# draws other numbers than the CPU; it is switched off. And NVIDIA's GPUs since Ampere round the inputs of
# convolutions to a shorter format, TF32, unless told otherwise (lesson 12); here they are told.
#
# The last two lines compare dtypes instead of devices: bfloat16 with float32, and float64 with float32.


# %% facts=["T4"] tags=["nbval-ignore-output"]
def losses_of(place, **settings):
    """Return the losses of the first 12 steps of a training without dropout."""
    run = new_run(place, 2, dropout=0.0, **settings)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        return epoch(run).cpu().double()


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
# The simulated device borrows the CPU's arithmetic, so it cannot differ and the 0 proves little. On a real
# GPU you see a small number in its place. **The program works wherever model and data are moved together**;
# two lines do it, `.to(place, dtype)` in `new_run` and the line in `update` that moves a part. Shuffling and
# shifting are the CPU's work everywhere, so the order of the samples does not depend on the device either.

# %% [markdown]
# ## A file
#
# A **checkpoint** outlives the program, and perhaps the machine. What belongs in it is the `state_dict`:
# names and tensors. A whole model would be pickled, and reading it needs the very class, which another
# program may not have.
#
# The model is on the device. The next cell saves its `state_dict`, with the number of epochs beside it, and
# reads the file with no further argument.

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
# The file remembers the place of each tensor, and `torch.load` puts it back there. On a machine that has no
# such device this is an error: a file written on `cuda:3` cannot be read like this on your laptop.
#
# **[Exercise](../exercises/11_training_step.ipynb#task_save):** `save` writes a model to a file that holds
# data alone.

# %% [markdown]
# ## A file from elsewhere
#
# `map_location` says where to put the tensors, whatever the file remembers. Then `load_state_dict` **copies**
# the numbers into the tensors that the model has. Below, the file is read to the CPU while the new model is
# on the device.

# %% facts=["T4"]
held = torch.load(path, map_location="cpu", weights_only=True)
fresh = make_model().to(device)
fresh.load_state_dict(held["model"])

places = {tensor.device for tensor in fresh.state_dict().values()}
print("the file's tensors on", held["model"]["0.weight"].device, "- the model's on", *places)

# %% [markdown] facts=["T4"]
# The model is where it was. `map_location` places the tensors of the file and never moves a model; that is
# the work of `model.to(device)`, as always, before or after.
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
# **[Exercise](../exercises/11_training_step.ipynb#task_load):** `load` fills a model from a file that was
# written anywhere.

# %% [markdown]
# ## As if nothing had happened
#
# A training that was interrupted should go on as if it had not been. The weights alone do not achieve that.
# Everything that the rest of the training depends on has to be in the file:
#
# - the **model**, and the **optimizer** with its momentum;
# - the **schedule**, which knows how far the rate has come, and the number of the **epoch**;
# - the state of the **random numbers**: of the CPU, by which the images are shifted; of the device, which
#   dropout uses; of the loader's generator, by which it shuffles.
#
# A program that trains in float16 has a `GradScaler` as well (lesson 12). It has a `state_dict` like the
# others, and is one more entry.


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
# losses that a resumed one has to reach. Then the file is loaded into new objects several times, each time
# with one part left out.

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
# On the simulated device and on the CPU, a resume with all of it gives **the same** losses, not nearly the
# same. (On a GPU some convolutions add up in whatever order their threads finish, and then the last digits
# differ even between two runs that were never interrupted.) Whatever is left out shows, and nothing raises an
# error: the training goes on, and it is a different one.
#
# Four rules make a resume work:
#
# - **Move the model, make the optimizer and the schedule, then load into all three.**
#   `optimizer.load_state_dict` sends its state to where each parameter is *at that moment*.
# - **Load with `map_location="cpu"`.** Random states are CPU tensors, even that of a device's generator. With
#   `map_location=device` they would be moved, and refused: *RNG state must be a torch.ByteTensor*.
# - **Save between two epochs.** The loader's generator tells where the next epoch begins, not how far the
#   present one has come.
# - **Never write over the only good file.** Write to another name and rename it (`Path.replace`), so that an
#   interruption while saving costs nothing. Keep two files: the last state, to go on from, and the one that
#   was best on the validation set. When the validation has not improved for several epochs, you may stop: from
#   there on the model mostly learns its training set by heart, which is called **overfitting**.

# %% [markdown] facts=["T1", "T4"]
# ## A whole program
#
# Here are the pieces in one program, short enough to read in one go. It chooses its device, trains, measures
# after each epoch, keeps the last state and the best model, and goes on after the last epoch that was saved.
# It also goes on where another kind of device has saved: then only the random numbers that dropout draws on
# the device are others. A line of the course brings the digits. To make the program yours, put it into a file
# under the imports of this lesson, with your own data and model in place of these, and call it in the last
# line: `main("runs", 10)`.


# %% facts=["T1", "T2", "T3", "T4", "Z1"]
def main(folder, epochs):
    """Train until so many epochs are done, and begin where the last state in the folder ends."""
    device = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    torch.manual_seed(0)
    images, labels = devlab.digits()
    images = images.flatten(1)
    order = torch.Generator().manual_seed(0)
    train = DataLoader(TensorDataset(images[:1200], labels[:1200]), 100, shuffle=True, generator=order)
    validation = DataLoader(TensorDataset(images[1200:1500], labels[1200:1500]), 100)

    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = CosineAnnealingLR(optimizer, T_max=10 * len(train))  # past 10 epochs it would rise again
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
            loss = F.cross_entropy(model(inputs), answers)
            loss.backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            total += loss.detach()
        model.eval()
        right = torch.zeros((), dtype=torch.long, device=device)
        with torch.no_grad():
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
# It is called twice here, as if it had been stopped after two epochs and started again. Nothing but the files
# connects the two calls.

# %% facts=["T4"] tags=["nbval-ignore-output"]
main(folder.name, 2)
print("started again")
main(folder.name, 4)
folder.cleanup()

# %% [markdown]
# ## Summary
#
# One sheet for the wall. In JupyterLab, *File → Print* prints the notebook; the same sheet is
# `docs/summary.md` in the project.
#
# > **Move the model once, each batch once, and make helpers from existing tensors.**
#
# **The usual culprits** when PyTorch expected all tensors on one device:
#
# | what stayed behind | cure |
# |---|---|
# | the batch, or a part of it: `x.to(device)` without `x =` | `x = x.to(device)`, every part |
# | labels | move them with their inputs |
# | a mask, noise, zeros made in `forward` | `torch.zeros_like(x)`, `x.new_zeros(…)`, `device=x.device` |
# | a table of positions, kept as an attribute | `self.register_buffer("table", table)` |
# | modules in a plain list or dict | `nn.ModuleList`, `nn.ModuleDict` |
# | the weight of a loss | a buffer, or `criterion.to(device)` |
# | a hidden state from an earlier batch | `state.to(x.device)`, and `detach` |
# | a checkpoint, the optimizer's state | `map_location`, `model.to`, then the optimizer |
#
# **Timing.** Warm up. Synchronize, start the clock, run, synchronize, stop the clock. Repeat, and take the
# median. Without the second wait you have timed the launch.
#
# **These wait for the device:** `.item()`, `.cpu()`, `.tolist()`, `print`, `if tensor:`, `nonzero`, reading
# by a boolean mask; and every transfer from or to the CPU without `non_blocking=True`.
#
# **Transfers.** To a CUDA device with `non_blocking=True` the host goes on at once where its memory is
# pinned. From pageable memory it stages the bytes first, and for a large tensor it waits for the device.
# On `mps` leave the argument out. What comes to the CPU without blocking may be read only after a
# synchronization.
#
# **Memory.**
#
# | word | means |
# |---|---|
# | allocated | what live tensors hold, each rounded up to a multiple of 512 bytes |
# | reserved | what PyTorch's caching allocator has taken from the driver |
# | cached | reserved less allocated: for reuse, no leak |
# | peak | the most allocated at once since the last reset |
# | `empty_cache()` | gives back segments in which nothing is live; drop references first |
# | out of memory | leave the `except` block, drop references, try a smaller batch |

# %% [markdown]
# ## What to keep
#
# - No device is named in a model's logic; the inputs say where the work is.
# - In training mode, the step moves its batch without waiting, then forward, loss, backward, step, clear. It
#   returns the detached loss.
# - Losses and counts stay on the device until the epoch is over. Clipping and the schedule wait for nothing.
# - Measure in evaluation mode and without a graph, and give each part its own mode back. Choose by the
#   validation set, and use the test set once.
# - Save a `state_dict`; load it with `map_location` and `weights_only=True`; move the model; then the
#   optimizer.
# - To go on exactly, save the schedule, the epoch and all random numbers as well.
#
# **Now do it:** [the exercises of this lesson](../exercises/11_training_step.ipynb), five functions.
# **Then:** a program of your own. Put `devlab.watch()` around one epoch of it, and see what it moves. When it
# is too slow, or does not fit, go on with [12 Less memory, less time](12_less_memory_less_time.ipynb).
