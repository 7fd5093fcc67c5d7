# %% [markdown]
# # 13 Bigger than one device: exercises
#
# Five tasks about models that one device cannot hold: say what their training computes, run layers that are placed on
# several devices, fill a model only where it will live, take a mean over processes, and make a step of an optimizer whose state
# is shared out. The lesson is [13 Bigger than one device](../notebooks/13_bigger_than_one_device.ipynb).
#
# A device is always given as a `torch.device`, and may be the CPU. Without a GPU you have `sim:0` and `sim:1`. The last
# two tasks are judged in two and in three real processes on the CPU, which have formed a gloo group before your function is
# called. The first time, it takes a few seconds until they have started.
#
# Write your answer in place of `raise NotImplementedError("your code here")`, run the cell, then run the
# check below it. Stuck? `devlab.hint(utilization)`.

# %%
import torch
import torch.distributed as dist
from torch import nn

import devlab

device = devlab.start()

# %% [markdown]
# ## `utilization(model, tokens, seconds, peak)`
#
# How much of a GPU does a training use? `model` is a language model: `nn.Embedding`, `nn.LayerNorm`, activations without
# parameters, and `nn.Linear`. A step of its training takes `tokens` tokens and `seconds` seconds, on a device that does at
# most `peak` operations a second. Return a tuple of three:
#
# - the number of the model's **parameters**, an `int`: all of them, trained or not, each counted once even if it has two
#   names.
# - the **operations** of the step's products, an `int`: of forward and backward, of a model that is trained as a whole.
#   A table that is looked up multiplies nothing. The same table does where a Linear has it for its weight.
# - the **share** of the peak that they reach, a `float`: the MFU, at most 1 for a step that was really measured.
#
# The model may be on the meta device, far too large for any memory here. It stays as it is. Your second number is compared
# with what PyTorch's `FlopCounterMode` counts in a forward and a backward on each device.
#
# Needed: [What a training computes](../notebooks/13_bigger_than_one_device.ipynb#What-a-training-computes)


# %% exercise="utilization"
def utilization(model: nn.Module, tokens: int, seconds: float, peak: float) -> tuple[int, int, float]:
    """Return the number of parameters, the operations of a step, and the share of the peak."""
    ### BEGIN SOLUTION
    parameters = sum(parameter.numel() for parameter in model.parameters())
    weights = sum(module.weight.numel() for module in model.modules() if isinstance(module, nn.Linear))
    operations = 6 * weights * tokens
    return parameters, operations, operations / seconds / peak
    ### END SOLUTION


# %% check="utilization"
devlab.check(utilization)

# %% [markdown]
# ## `class Chain(layers, placement)`
#
# Write a model that runs `layers`, a list of modules on the CPU, one after the other. `placement` is a list of as many
# devices, and layer `i` lives on `placement[i]`. `forward(x)` takes a tensor x from any device and returns the output of the
# last layer, on that layer's device.
#
# - The layers move **once**, when the model is made. You may move the modules that you are given, or copies of them. They keep
#   their modes (training or evaluation), and what is frozen in them stays frozen.
# - A layer may have no parameters, so remember the devices instead of asking the layers.
# - All layers are registered in the model, so that `parameters()` and `buffers()` know them.
# - In `forward` there is **one transfer where the device changes**, directly from one device to the other, and none between
#   two layers on the same device. If x is not where the first layer is, it is transferred there first.
# - Gradients flow back through all layers, and to x.
#
# Needed: [Layers by a budget](../notebooks/13_bigger_than_one_device.ipynb#Layers-by-a-budget)


# %% exercise="Chain"
class Chain(nn.Module):
    """Layers on several devices, run one after the other."""

    def __init__(self, layers: list[nn.Module], placement: list[torch.device]):
        super().__init__()
        ### BEGIN SOLUTION
        self.layers = nn.ModuleList(layer.to(device) for layer, device in zip(layers, placement, strict=True))
        self.placement = list(placement)
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the last layer's output, on its device."""
        ### BEGIN SOLUTION
        for layer, device in zip(self.layers, self.placement, strict=True):
            x = layer(x.to(device))  # no transfer where x is there already
        return x
        ### END SOLUTION


# %% check="Chain"
devlab.check(Chain)

# %% [markdown]
# ## `materialize(build, state, device)`
#
# `build()` makes a model. `state` is the `state_dict` of a trained model of that kind, on the CPU. Return a model on `device`
# with the values of `state`, **without filling a model with other values first**.
#
# - Build the model that you return on the **meta device**, so that its parameters take no memory before they have it on
#   `device`.
# - Every parameter and every saved buffer has the values of `state`. It keeps the dtype and the `requires_grad` that `build()`
#   gave it.
# - Buffers that `state` lacks, because they are not saved, are **as `build()` makes them**. They are on `device`, and are still
#   not saved. For them you may run `build()` once more, on the CPU, and copy those buffers alone.
# - Parameters that `build()` ties (one `nn.Parameter` under two names) **stay tied**. `state` has an entry for each name.
# - The bytes that are transferred to `device` are those of one model, and at no time does `device` hold much more than that. A
#   tied parameter may be transferred once for each of its names.
# - `state` stays as it is. (If `device` is the CPU, the model may share its memory.)
#
# Needed: [From meta to a device](../notebooks/13_bigger_than_one_device.ipynb#From-meta-to-a-device)


# %% exercise="materialize"
def materialize(build, state: dict[str, torch.Tensor], device: torch.device) -> nn.Module:
    """Return what build() makes, on the device, with the values of state."""
    ### BEGIN SOLUTION
    with torch.device("meta"):
        model = build()
    names = {}  # of each parameter
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)

    model.to_empty(device=device)
    for first, *others in names.values():  # a new parameter for each name: tie them again
        for other in others:
            path, _, leaf = other.rpartition(".")
            setattr(model.get_submodule(path), leaf, model.get_parameter(first))
    model.load_state_dict(state)

    made = dict(build().named_buffers())
    for name, buffer in model.named_buffers():
        if name not in state:
            buffer.copy_(made[name])
    return model
    ### END SOLUTION


# %% check="materialize"
devlab.check(materialize)

# %% [markdown]
# ## `mean_of_all(tensor)`
#
# Your function runs in each of several processes, which have formed a group. `tensor` is this process's own tensor, on the
# CPU. It is a floating-point tensor, and all ranks have one of the same shape and dtype, though perhaps not of the same strides.
# The dtype can hold the sum over all ranks, too. Return **the mean over all ranks**, element by element, **in every process**.
#
# - The result is a new tensor of the same shape and dtype, without a graph. `tensor` stays **as it was**.
# - Your function works for any number of ranks, and for a tensor with one number, an empty one and a view.
# - An **integer tensor** is refused with a `TypeError` whose message says why. Every process raises it, before anything is sent.
#
# Needed: [Processes that talk](../notebooks/13_bigger_than_one_device.ipynb#Processes-that-talk)


# %% exercise="mean_of_all"
def mean_of_all(tensor: torch.Tensor) -> torch.Tensor:
    """Return the mean of the tensors of all ranks, on every rank."""
    ### BEGIN SOLUTION
    if not tensor.is_floating_point():
        raise TypeError(f"a mean of {tensor.dtype} is no {tensor.dtype}: give a floating-point tensor")
    # A copy, because all_reduce writes where it reads; contiguous, because it goes in the order of memory.
    total = tensor.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total / dist.get_world_size()
    ### END SOLUTION


# %% check="mean_of_all"
devlab.check(mean_of_all)

# %% [markdown]
# ## `sharded_step(rank, world_size, model, state, lr)`
#
# Your function runs in each process of a group and makes one step of SGD with momentum. The model, on the CPU, is the same in
# all of them, and so are the gradients in `p.grad`, as after DDP's backward. For each parameter $p$ with gradient $g$:
#
# $$v \leftarrow 0.9\,v + g \qquad\qquad p \leftarrow p - \mathrm{lr} \cdot v$$
#
# where $v$ begins with zeros, and $\mathrm{lr}$ may be another number in each step. The momentum $v$ of each parameter lives on
# **one rank alone**, its owner, which updates the parameter and sends the new values to all others.
#
# - **All ranks end with the same parameters**, those that a single process would have.
# - `state` is a dict of this process. It is empty before the first step, and you are given the same dict at each later step.
#   The only tensors of more than one number in it are the momenta of the parameters that **this rank owns**. Anything else,
#   such as a counter or the list of owners, may be kept there too.
# - The momentum is shared out **by size**: no rank holds more than one and a half times its even share of the numbers, unless a
#   single parameter is larger than that, and then its owner holds nothing else. Among two or three ranks this holds if you give
#   the largest parameter away first, and each one to the rank that has least so far.
# - A parameter whose `p.grad` is None stays as it is and has no momentum. These are the same parameters in every step.
# - The next backward writes into the same `p.grad`, so a momentum needs memory of its own.
#
# Return nothing.
#
# Needed: [The optimizer in parts](../notebooks/13_bigger_than_one_device.ipynb#The-optimizer-in-parts)


# %% exercise="sharded_step"
@torch.no_grad()
def sharded_step(rank: int, world_size: int, model: nn.Module, state: dict, lr: float) -> None:
    """Make one step of SGD with momentum, whose momentum is shared out among the ranks."""
    ### BEGIN SOLUTION
    trained = {name: p for name, p in model.named_parameters() if p.grad is not None}
    load = [0] * world_size
    for name in sorted(trained, key=lambda name: -trained[name].numel()):
        p, owner = trained[name], load.index(min(load))
        load[owner] += p.numel()
        if owner == rank:
            v = state.setdefault(name, torch.zeros_like(p))
            v.mul_(0.9).add_(p.grad)
            p.sub_(lr * v)
        dist.broadcast(p.data, src=owner)  # every rank takes part
    ### END SOLUTION


# %% check="sharded_step"
devlab.check(sharded_step)

# %% [markdown]
# If all five are green, you have written, in small, what libraries do for models that no device can hold.
# `devlab.progress()` shows the whole course at a glance.
