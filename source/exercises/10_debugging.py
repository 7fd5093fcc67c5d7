# %% [markdown]
# # 10 Debugging: exercises
#
# First you write three tools that look. Then comes a clinic with three broken programs, each of which has one
# of the usual culprits in the wrong place. At the end come two tools for faults without a line:
# values that are not finite, and errors that come late. The lesson is [10
# Debugging](../notebooks/10_debugging.ipynb).
#
# For the tools, write your answer in place of `raise NotImplementedError("your code here")`, as usual. The
# programs of the clinic are already written, and wrong. Run the check first and read the verdict: the error
# in it is PyTorch's own. Then mend the program where it stands. If you are stuck, `devlab.hint(describe)`
# helps.

# %%
import torch
from torch import nn

import devlab

device = devlab.start()

# %% [markdown]
# ## `describe(x)`
#
# Write the line that you will print a hundred times: return a text (`str`) that names the **shape, dtype and
# device** of the tensor x.
#
# - The format is yours: `torch.float32 [4, 3] cuda:0` will do, and so will any order, with or without words
#   in between.
# - The shape is written as its numbers in their order, as in `[4, 3]`, `(4, 3)` or `4x3`, and the shape of a
#   tensor without dimensions as `[]` or `()`. The dtype has PyTorch's name or devlab's short one (`f32`). The
#   device is what `str(x.device)` says, with its index.
# - x may have any shape and any dtype. None of its values is read, since a debugging line must not make the
#   host wait.
#
# Needed: [Print three things](../notebooks/10_debugging.ipynb#Print-three-things)


# %% exercise="describe"
def describe(x: torch.Tensor) -> str:
    """Return a text that names the shape, dtype and device of x."""
    ### BEGIN SOLUTION
    return f"{x.dtype} {list(x.shape)} {x.device}"
    ### END SOLUTION


# %% check="describe"
devlab.check(describe)

# %% [markdown]
# ## `device_report(model)`
#
# Return a dict with an entry for each parameter and each buffer of the model, whether it is saved or not. The
# key is its dotted name, as PyTorch's own walks give it, and the value is its device (a `torch.device`).
# Nothing else is in the dict, and a model without parameters and buffers gives an empty one. A tensor that
# two names share may stand under one of them or under both. The model stays as it is.
#
# Needed: [Walk the model](../notebooks/10_debugging.ipynb#Walk-the-model)


# %% exercise="device_report"
def device_report(model: nn.Module) -> dict[str, torch.device]:
    """Return the device of every parameter and buffer, by name."""
    ### BEGIN SOLUTION
    registered = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor.device for name, tensor in registered}
    ### END SOLUTION


# %% check="device_report"
devlab.check(device_report)

# %% [markdown]
# ## `find_strays(model, batch)`
#
# This is the tool for the whole scene. **Home** is the device of the model's first parameter (there is at
# least one). Return a list of names, in any order: one name for each tensor of the model or of the batch that
# is on another device than home.
#
# - Of the model, look at parameters, buffers, and everything that is held by a plain attribute: a tensor, a
#   module, or a list, tuple or dict of them, however deep. The name is `model.` and the dotted path:
#   `model.head.weight`, `model.scale`, `model.tables.0`, `model.cache.key`, `model.blocks.0.weight`. A plain
#   attribute that is at home is not astray.
# - Of the batch, which is a dict, look at the top (`batch.labels`) and at whatever lies deeper, in dicts,
#   lists and tuples (`batch.extra.mask`, `batch.pair.1`).
# - A tensor with a single number counts, too. Whatever is not a tensor does not count. A key of a dict stands
#   in the name as `str` writes it.
# - A tensor with two names is listed once, under either.
# - `sim:0` and `sim:1` are two places.
# - Model and batch stay as they are.
#
# One inner function that calls itself does it all, in about twenty-five lines, and the hints lead to it. If
# your `left_behind` of lesson 05 is at hand, you can start from a copy of that: it walks plain attributes
# already.
#
# Needed: [Look at the whole scene](../notebooks/10_debugging.ipynb#Look-at-the-whole-scene)


# %% exercise="find_strays"
def find_strays(model: nn.Module, batch: dict) -> list[str]:
    """Return the names of the tensors that are not where the model's first parameter is."""
    ### BEGIN SOLUTION
    home = next(model.parameters()).device
    seen, names = set(), []

    def walk(name, value):
        if isinstance(value, torch.Tensor):
            if id(value) not in seen and value.device != home:
                names.append(name)
            seen.add(id(value))
        elif isinstance(value, nn.Module):
            for key, item in vars(value).items():
                registered = key in ("_parameters", "_buffers", "_modules")
                walk(name if registered else f"{name}.{key}", item)
        elif isinstance(value, dict):
            for key, item in value.items():
                walk(f"{name}.{key}", item)
        elif isinstance(value, (list, tuple)):
            for place, item in enumerate(value):
                walk(f"{name}.{place}", item)

    walk("model", model)
    walk("batch", batch)
    return names
    ### END SOLUTION


# %% check="find_strays"
devlab.check(find_strays)

# %% [markdown]
# ## The clinic
#
# Here are three broken programs. Each of them runs on the CPU, as most broken programs do. Run the check, read the
# error, say which tensor is where, find the line that made it, and only then change something. To have a
# patient on the table, call it yourself in a new cell with tensors on `device`; afterwards ask
# `devlab.explain()` whether it agrees.
#
# A program that runs again is not always mended. So in each of the three, the work is done **where the large
# tensors are** (the cell or x), and nothing leaves that device in between: no `.cpu()`, and no
# transfer there and back. A tensor from another device goes there in **one** transfer, and a tensor that is
# there already in none. What the program makes itself, such as a mask or zeros, it makes there at once, and
# not on the CPU first.

# %% [markdown]
# ### `fix_mask(x)`
#
# x holds the scores of an attention: its shape is (batch, time, time), its dtype any floating dtype. Return the
# scores that hide the future from each step: x on and below the diagonal, and **−inf** above it, of which a
# softmax makes 0. (Of a zero it would make e⁰ = 1, and the future would count.) The mask is made inside. The
# result has x's device and **x's dtype**, and gradients reach x.
#
# Needed: [Made in forward](../notebooks/10_debugging.ipynb#Made-in-forward)


# %% exercise="fix_mask"
def fix_mask(x: torch.Tensor) -> torch.Tensor:
    """Return x with -inf above the diagonal of each matrix."""
    time = x.shape[1]
    ### BEGIN BROKEN
    # mask = torch.full((time, time), float("-inf")).triu(1)
    ### END BROKEN
    ### BEGIN SOLUTION
    mask = torch.full((time, time), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
    ### END SOLUTION
    return x + mask


# %% check="fix_mask"
devlab.check(fix_mask)

# %% [markdown]
# ### `class FixedPositions(n, d)`
#
# `forward(x)` takes x of shape (batch, time, d), where time is at most n, and returns x plus the first rows
# of `table`: a tensor of shape (n, d), filled row by row with `torch.linspace(0, 1, n * d)`. The table is a
# buffer named `table`, made once on the CPU. It moves with the module, and it is **saved**: it is the only
# thing in the module's `state_dict`. There is nothing to train. Gradients reach x.
#
# Needed: [Tables that are not registered](../notebooks/10_debugging.ipynb#Tables-that-are-not-registered)


# %% exercise="FixedPositions"
class FixedPositions(nn.Module):
    """Adds a fixed table of positions to its input."""

    def __init__(self, n: int, d: int):
        super().__init__()
        table = torch.linspace(0, 1, n * d).reshape(n, d)
        ### BEGIN BROKEN
        # self.table = table
        ### END BROKEN
        ### BEGIN SOLUTION
        self.register_buffer("table", table)
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x, of shape (batch, time, d), plus the first rows of the table."""
        return x + self.table[: x.shape[1]]


# %% check="FixedPositions"
devlab.check(FixedPositions)

# %% [markdown]
# ### `fix_hidden_state(cell, x, state)`
#
# One step of an `nn.GRUCell`, which is where x is, has x's dtype and stays as it is. x has the shape (rows,
# features). `state` is what the step before returned, of shape (rows, `cell.hidden_size`) and in x's dtype,
# on any device; or `None` before the first step, and then the state is zeros. Return the new state, on x's
# device and in x's dtype. Gradients flow back into x, and into the state that came in, even from elsewhere.
#
# Needed: [Made in forward](../notebooks/10_debugging.ipynb#Made-in-forward)


# %% exercise="fix_hidden_state"
def fix_hidden_state(cell: nn.GRUCell, x: torch.Tensor, state: torch.Tensor | None) -> torch.Tensor:
    """Return the state after one more step."""
    if state is None:
        ### BEGIN BROKEN
        # state = torch.zeros(x.shape[0], cell.hidden_size)
        ### END BROKEN
        ### BEGIN SOLUTION
        state = x.new_zeros(x.shape[0], cell.hidden_size)
        ### END SOLUTION
    ### BEGIN BROKEN
    # return cell(x, state)
    ### END BROKEN
    ### BEGIN SOLUTION
    return cell(x, state.to(x.device))
    ### END SOLUTION


# %% check="fix_hidden_state"
devlab.check(fix_hidden_state)

# %% [markdown]
# ## `first_not_finite(model, x)`
#
# A loss has become `nan`. Run `model(x)` once, and return the **dotted name** of the module whose output was the
# first that was not finite, as `model.named_modules()` names it: `decoder.2.norm`. Return `None` if every
# output was finite.
#
# - `inf` and `-inf` count as `nan` does, whatever later modules make of them. A ReLU turns `-inf` into 0, perhaps
#   in the very same tensor.
# - The first is the first **in time**. Modules need not run in the order in which they were registered, and
#   a module may run twice. A part has its output before the module that it is a part of. The model itself has
#   the name `""`, and may be the first, too.
# - An output is a tensor, or a tuple, list or dict in which tensors stand beside other things, at any depth.
# - The model is left **as it came, without a hook**, even when its forward raises an error, which comes out
#   of your function.
# - The host **waits at most once**, however many modules there are.
#
# Needed: [When the values go wrong](../notebooks/10_debugging.ipynb#When-the-values-go-wrong)


# %% exercise="first_not_finite"
def first_not_finite(model: nn.Module, x: torch.Tensor) -> str | None:
    """Return the name of the module that makes the first output with inf or nan in it."""
    ### BEGIN SOLUTION
    names, flags = [], []

    def look(name, value):
        if isinstance(value, torch.Tensor):
            names.append(name)
            flags.append(value.isfinite().all())  # stays on the device
        elif isinstance(value, dict):
            look(name, list(value.values()))
        elif isinstance(value, (list, tuple)):
            for part in value:
                look(name, part)

    hooks = [
        module.register_forward_hook(lambda module, inputs, output, name=name: look(name, output))
        for name, module in model.named_modules()
    ]
    try:
        model(x)
    finally:
        for hook in hooks:
            hook.remove()
    finite = torch.stack(flags).tolist()  # the one wait
    return None if all(finite) else names[finite.index(False)]
    ### END SOLUTION


# %% check="first_not_finite"
devlab.check(first_not_finite)

# %% [markdown]
# ## `failing_step(steps, x)`
#
# On an accelerator an error of the device comes late: at whatever line next waits. `steps` is a list of
# functions, the pieces of a program. Each takes a tensor and returns a tensor; the first is given x, and each
# later step what the one before has returned. Run them in their order, and return the **index of the step that
# launched the work which failed**, counted from 0. If all went well, return `None`.
#
# - Each step runs **once**, and none runs after the one that failed. An error may come from the last step, too.
# - On the CPU a step raises its error itself, such as an `IndexError`. On an accelerator the error is a
#   `torch.AcceleratorError`, which is a `RuntimeError`, and it comes **where you wait**, or where a later step
#   waits.
# - Wait for the device **on which x is**. It need not be the current one, and all steps work there.
# - Work that was launched **before your function was called** may have failed as well. That is no step's fault, so
#   let its error out.
#
# A device that has failed is lost until the process ends. So the check only pretends it: `synchronize` of the
# accelerator or of its module, `.item()`, `.tolist()` and `.cpu()` raise the error there.
#
# Needed: [Run it on the CPU](../notebooks/10_debugging.ipynb#Run-it-on-the-CPU)


# %% exercise="failing_step"
def failing_step(steps: list, x: torch.Tensor) -> int | None:
    """Return the index of the step whose work fails on x's device."""

    ### BEGIN SOLUTION
    def wait():
        if x.device.type != "cpu":
            torch.accelerator.synchronize(x.device)

    wait()  # an error of earlier work comes here
    for place, step in enumerate(steps):
        try:
            x = step(x)
            wait()
        except (IndexError, RuntimeError):
            return place
    return None
    ### END SOLUTION


# %% check="failing_step"
devlab.check(failing_step)

# %% [markdown]
# With all of them done, keep `describe`, `find_strays` and `first_not_finite` where you can paste them from. Then go on to [11 The
# training step](../notebooks/11_training_step.ipynb), which puts everything into one loop.
# `devlab.progress()` shows where you stand.
