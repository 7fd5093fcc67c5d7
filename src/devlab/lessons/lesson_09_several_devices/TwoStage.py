"""A model in two places."""

import itertools

import torch
from torch import nn

from devlab.checks import expect, verbs
from devlab.checks.scenes import scene
from devlab.checks.seen import must
from devlab.checks.settings import seed_generators
from devlab.lessons.lesson_09_several_devices import CPU, lesson, see_gradients, see_transfers
from devlab.watching.watch import watch

TwoStage = lesson.exercise(
    "class TwoStage(first, second, devices)",
    ("U1", "U2", "U3"),
    "Three things have to be somewhere: the first half, the second half, and what flows between them. The "
    "halves move once, when the model is made. What flows moves at every call.",
    "In `__init__`: `super().__init__()`, then `self.first = first.to(devices[0])`, the second likewise, and "
    "remember the devices. In `forward`, a `.to` before each half.",
    "`x = self.first(x.to(self.devices[0]))`, then `return self.second(x.to(self.devices[1]))`",
)


class Ours(nn.Sequential):
    """Moves each half when it is made, and what flows at each call."""

    def __init__(self, first, second, devices):
        super().__init__(first.to(devices[0]), second.to(devices[1]))
        self.devices = devices

    def forward(self, x):
        """Return what the second half makes of what the first half makes."""
        return self[1](self[0](x.to(self.devices[0])).to(self.devices[1]))


def make_halves(seed):
    seed_generators(seed)
    first = nn.Sequential(nn.Linear(5, 7), nn.Tanh())
    return first, nn.Sequential(nn.BatchNorm1d(7), nn.Linear(7, 2)).eval()


def make_model(t, halves, devices):
    model = t.call(*halves, devices, changes=True)
    expect.kind(model, nn.Module, "an nn.Module", "what TwoStage makes")
    return model, lambda x, log=None: t.run(model, x, label="TwoStage(first, second, devices)", log=log)


@scene(TwoStage, Ours, "the right output, on the second device")
def right_output(t):
    for seed, devices in zip(t.seeds, [*itertools.permutations((t.device, t.other()))] * 2, strict=False):
        _, run = make_model(t, make_halves(seed), devices)
        for place, start in enumerate(devices):
            yield f"the output for x on {start}", run(t.randn(6, 5, seed=seed + 10 * place, on=start))
        _, run = make_model(t, (nn.Flatten(), nn.Tanh()), devices)  # a half need not have parameters
        yield "the output", run(t.randn(3, 2, 2, seed=seed, on=devices[0])), 1e-5


@scene(TwoStage, Ours, "each half lives on its own device")
def halves_in_place(t):
    for devices in itertools.permutations((t.device, t.other())):
        halves = make_halves(t.seeds[0])
        kept = [[*half.state_dict().values()] for half in halves]
        model, run = make_model(t, halves, devices)
        tensors, count = model.state_dict().values(), sum(map(len, kept))
        headline = f"the model knows {len(tensors)} of {count} parameters and buffers: "
        yield must(len(tensors) >= count, f"{headline}are both halves attributes of it?", f"{count} in all")
        yield from see_halves_as_given(t, devices)
        for name, half, device in zip(("first", "second"), kept, devices, strict=True):
            for one in half:
                alike = [o.device for o in tensors if o.shape == one.shape and torch.equal(o.cpu(), one)]
                headline = f"the {name} half was left on {(alike or [device])[0]} when the model was made"
                yield must(device in (alike or [device]), headline, f"the {name} half on {device}", alike)
        _, log = t.watched(*make_halves(t.seeds[0]), devices, changes=True)
        away = sum(len(half) for half, device in zip(kept, devices, strict=True) if device != CPU)
        yield from see_transfers(log, away, "each parameter and buffer once, straight to its own device")
        model.train()  # the second half then normalizes by the batch
        yield "the output in training mode", run(t.randn(6, 5, seed=t.seeds[1], on=devices[0])), 1e-4


def see_halves_as_given(t, devices):
    """See each half in its own mode, and a frozen parameter still frozen."""
    for training in (False, True):
        halves = make_halves(t.seeds[0])
        halves[0].train(not training), halves[1].train(training)
        halves[1][0].eval()  # a part of a half that trains may evaluate
        halves[0].requires_grad_(False), halves[1][1].weight.requires_grad_(False)
        model, run = make_model(t, halves, devices)
        for when in ("after the model was made", "after a call of the model"):
            evaluates = (str(one) for one in model.modules() if not (one.training or [*one.children()]))
            yield f"what evaluates {when}", sorted(evaluates)
            frozen = (list(one.shape) for one in model.parameters() if not one.requires_grad)
            yield f"what is frozen {when}", sorted(frozen)
            run(t.randn(6, 5, seed=t.seeds[0], on=devices[0]))


@scene(TwoStage, Ours, "gradients flow back through both halves")
def gradients_flow(t):
    for devices in itertools.permutations((t.device, t.other())):
        model, run = make_model(t, make_halves(t.seeds[1]), devices)
        name, parameter = next(model.named_parameters())
        words = {"cut": "the output has lost its graph", "none": "no gradient reached {what}"}
        verbs.flows(run(t.randn(4, 5, seed=t.seeds[2], on=devices[0])), parameter, None, name, **words)
        yield from see_lengths_of_gradients(model)
        for start in devices:
            x = t.randn(6, 5, seed=t.seeds[1], on=start).requires_grad_()
            yield from see_gradients(run(x), {f"x on {start}": x}, "the output")
            yield from see_lengths_of_gradients(model)


def see_lengths_of_gradients(model):
    """See how long the parameters' gradients are, under whatever names."""
    for name, parameter in model.named_parameters():
        yield must(parameter.grad is not None, f"no gradient reached {name}", "one for each parameter")
    yield "the gradients", torch.tensor(sorted(one.grad.norm().item() for one in model.parameters())), 1e-3


@scene(TwoStage, Ours, "only x and the middle are transferred")
def two_transfers(t):
    needed = "x to the first device if it is elsewhere, the middle to the second, and nothing more"
    for devices in itertools.permutations((t.device, t.other())):
        _, run = make_model(t, make_halves(t.seeds[2]), devices)
        run(t.randn(3, 5, on=devices[0]))  # what happens only once has happened
        for start, count in zip(devices, (1, 2), strict=True):
            run(t.randn(6, 5, seed=t.seeds[2], on=start), log=(log := watch()))
            yield from see_transfers(log, count, needed)
    t.second()
