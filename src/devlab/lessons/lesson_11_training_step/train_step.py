"""One training step: batch moved, forward, loss, zero, backward, step, and no wait."""

import torch
from torch import nn
from torch.nn import functional as F

from devlab.checks import expect, verbs
from devlab.checks.scenes import scene
from devlab.checks.seen import most, must
from devlab.checks.settings import seed_generators
from devlab.lessons import lesson_11_training_step as kit
from devlab.lessons.lesson_11_training_step import lesson

train_step = lesson.exercise(
    "train_step(model, batch, optimizer, device)",
    ("T1", "T2", "T3", "T4", "Z1", "P2", "R4"),
    "About seven lines: training mode, two moves, the forward with its loss, three calls for the gradients, "
    "and the return. Which of the three calls must come before `backward`?",
    '`inputs, labels = batch`, each `.to(device, non_blocking=device.type == "cuda")`; the loss is '
    "`torch.nn.functional.cross_entropy(model(inputs), labels)`; then `optimizer.zero_grad()`, "
    "`loss.backward()`, `optimizer.step()`. What would `loss.item()` cost, and what can you return instead?",
    "Begin with `model.train()` and end with `return loss.detach()`. That is a tensor on the device, without "
    "a graph, and the host has not waited for it.",
)


def ours(model, batch, optimizer, device):
    model.train()
    x, y = (tensor.to(device) for tensor in batch)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


def take_step(t, model, batch):
    """Let the answer take a step, and return its loss; Mismatch where it returns none."""
    got = t.call(model, batch, kit.make_optimizer(model), t.device)
    if isinstance(got, float | int):
        expect.fail("the loss is a Python number: the host waited for it", "a tensor on the device", got)
    expect.kind(got, torch.Tensor, "a tensor", "the loss")
    return got


@scene(train_step, ours, "the loss of the batch, on the device")
def loss_of_the_batch(t):
    for count, seed in zip((7, 4), t.seeds, strict=False):
        batch = [*kit.samples(t, count, seed)]  # a list, as a DataLoader makes it; other rows have tuples
        yield "the loss", take_step(t, kit.make_model(seed, t.device).eval(), batch), kit.WITHIN


@scene(train_step, ours, "the loss is detached")
def detached(t):
    got = take_step(t, kit.make_model(t.seeds[0], t.device), [*kit.samples(t, 6, t.seeds[1])])
    said = "requires_grad=True: to keep it is to keep the graph"
    yield must(not got.requires_grad, "the loss still holds its graph", "requires_grad=False", said)


@scene(train_step, ours, "one step, by this batch's gradient alone", "each by its own batch's gradient")
def one_step_each(t):
    for kind, seed in zip(("momentum", "adam"), t.seeds, strict=False):
        model = kit.make_model(seed, t.device)
        optimizer, before = kit.make_optimizer(model, kind), kit.make_model(seed, t.device).state_dict()
        with kit.note_calls(model, optimizer) as calls:
            for count in (6, 5, 8):
                for parameter in model.parameters():  # left over from something earlier, as in any notebook
                    parameter.grad = torch.ones_like(parameter)
                t.call(model, kit.samples(t, count, seed + count), optimizer, t.device)
        fault = kit.find_fault(model, before, calls, 3)
        yield must(not fault, fault, "zero_grad, backward, step for each batch", " → ".join(calls[:6]))
        yield from kit.see_weights(model, "three steps")
    # A gradient far longer than 10 counts in full, too.
    seed_generators(t.seeds[2])
    model, (inputs, labels) = nn.Linear(kit.FEATURES, kit.CLASSES).to(t.device), kit.samples(t, 6, t.seeds[2])
    t.call(model, (40 * inputs, labels), kit.make_optimizer(model), t.device)
    yield from kit.see_weights(model, "a step by a long gradient")


@scene(train_step, ours, "what is frozen or unused stays as it is")
def frozen_stays(t):
    model = kit.make_model(t.seeds[1], t.device)
    model[3].requires_grad_(False)
    model.register_parameter("spare", nn.Parameter(torch.ones(3, device=t.device)))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    t.call(model, kit.samples(t, 6, t.seeds[1]), kit.make_optimizer(model, "decay"), t.device)
    for name, parameter in model.named_parameters():
        frozen = name.startswith("3.")
        changed = "frozen and can be trained now" if frozen else "trainable and is frozen now"
        yield must(parameter.requires_grad != frozen, f"{name} came {changed}", f"requires_grad={not frozen}")
        if frozen or name == "spare":
            what = "is frozen" if frozen else "has no part in the loss"
            same, asked = expect.is_alike(parameter, before[name], 0.0), "left alone, as it has no gradient"
            yield must(same, f"the parameter {name} {what}, and was changed", asked, parameter.detach())
    yield from kit.see_weights(model, "the step")


@scene(train_step, ours, "in training mode, whatever it was before")
def training_mode(t):
    for before in (False, True):
        model = kit.make_model(t.seeds[2], t.device).train(before)
        t.call(model, kit.samples(t, 5, t.seeds[0]), kit.make_optimizer(model), t.device)
        modes, asked = model[-1].modes, "model.train() before the forward"
        yield must(len(modes) == 1, f"the model ran {len(modes)} times", "one forward", len(modes))
        yield must(all(modes), "the forward ran in evaluation mode", asked, "model.training was False")
        left = all(module.training for module in model.modules())
        yield must(left, "the model was left in evaluation mode", "training mode", "training is False")


@scene(train_step, ours, "two transfers in, and no wait", only="accelerator")
def two_transfers_no_wait(t):
    model = kit.make_model(t.seeds[0], t.device)
    optimizer, batch = kit.make_optimizer(model), kit.samples(t, 6, t.seeds[1])
    there = tuple(tensor.to(t.device) for tensor in batch)
    words = {2: "2 transfers: inputs and labels once each", 0: "0 transfers: the batch was there already"}
    for given, asked in ((batch, 2), (there, 0)):
        _, log = t.watched(model, given, optimizer, t.device)
        # Waits are counted first: `.item()` is a wait and a transfer, and the wait is what costs.
        waits, headline = log.events.synchronizations, f"the host waited for {t.device}: {{causes}}"
        yield most(headline, waits, 0, "no synchronization in a step")
        yield most(f"{{times}} out of {t.device}", kit.journeys(log, t.device)[2], 0, "none", "transfer")
        headline, said = f"{{times}} between devices, not {asked}", "{count}; {last.line}"
        verbs.counts(log.events.transfers, asked, headline, words[asked], said, asked)


@scene(train_step, ours, "the batch may come from any device")
def from_any_device(t):
    # Into the CPU a transfer that does not block may be read too early; lesson 04 judges that.
    batch = kit.samples(t, 5, t.seeds[2])
    for source in (kit.CPU, *(t.others if t.device != kit.CPU else ())):
        given = tuple(tensor.to(source) for tensor in batch)
        yield "the loss", take_step(t, kit.make_model(t.seeds[1], t.device), given), kit.WITHIN
    if t.device.type != "cpu":
        model, given = kit.make_model(t.seeds[1], t.device), tuple(tensor.to(t.other()) for tensor in batch)
        _, log = t.watched(model, given, kit.make_optimizer(model), t.device)
        headline, asked = f"{{times}} for two tensors on {t.other()}", f"one for each, straight to {t.device}"
        verbs.counts(log.events.transfers, 2, headline, asked, "{routes}; {last.line}")
        t.second()
