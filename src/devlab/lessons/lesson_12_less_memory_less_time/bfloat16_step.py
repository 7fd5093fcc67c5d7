"""One training step under bfloat16 autocast, clipped, without a scaler and without a wait."""

import torch
from torch import nn
from torch.nn import functional as F

from devlab.checks import expect
from devlab.checks.scenes import scene
from devlab.checks.seen import Seen, most, must
from devlab.lessons import lesson_12_less_memory_less_time as kit
from devlab.lessons.lesson_12_less_memory_less_time import lesson

bfloat16_step = lesson.exercise(
    "bfloat16_step(model, batch, optimizer, device, limit)",
    ("F1", "F2", "T3"),
    "bfloat16 has the range of float32, so no gradient has to be made larger first. What is left of "
    "mixed precision is a single `with` around two lines. Which two?",
    "`with torch.autocast(device.type, dtype=torch.bfloat16):` around forward and loss. The gradients "
    "arrive in float32 and as they are: after `loss.backward()` comes "
    "`torch.nn.utils.clip_grad_norm_(model.parameters(), limit)`, which returns the norm from before.",
    "Training mode, two moves, the block under autocast, `optimizer.zero_grad()`, `loss.backward()`, "
    "`norm = ...` by `clip_grad_norm_`, `optimizer.step()`, `return loss.detach(), norm`.",
)

WITHIN = 2e-3  # what bfloat16 may round differently in two steps of a clipped gradient at a rate of 0.1
FAR = 1e4  # a limit beyond every gradient here


def ours(model, batch, optimizer, device, limit):
    model.train()
    x, y = (part.to(device) for part in batch)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
    optimizer.step()
    return loss.detach(), norm


def take_step(t, model, batch, limit):
    """Let the answer take a step, and return the two that it returned."""
    got = t.call(model, batch, kit.make_optimizer(model), t.device, limit)
    expect.kind(got, tuple | list, "a pair of loss and norm")
    if len(got) != 2:
        expect.fail(f"{len(got)} values were returned", "a pair of loss and norm", got)
    return got


@scene(bfloat16_step, ours, "the loss in float32, on the device")
def loss_in_float32(t):
    for count, seed in zip((7, 4, 9), t.seeds, strict=True):
        model, (inputs, labels) = kit.make_model(seed, t.device).eval(), kit.samples(t, count, seed)
        yield from kit.see_loss(take_step(t, model, [inputs, labels], FAR)[0], model, labels, torch.bfloat16)


@scene(bfloat16_step, ours, "bfloat16 autocast in forward, not in backward")
def under_autocast(t):
    model = kit.make_model(t.seeds[1], t.device)
    args = kit.samples(t, 6, t.seeds[2]), kit.make_optimizer(model), t.device, FAR
    yield from kit.see_autocast(t, model, torch.bfloat16, *args)


@scene(bfloat16_step, ours, "the norm before clipping, on the device")
def the_norm(t):
    for seed, limit in zip(t.seeds, (0.05, FAR, 0.5), strict=True):
        model, (inputs, labels) = kit.make_model(seed, t.device), kit.samples(t, 7, seed)
        norm = take_step(t, kit.soil_gradients(model), (inputs, labels), limit)[1]
        number = isinstance(norm, float | int)
        yield must(not number, "the norm is a Python number: the host waited for it", "a tensor", norm)
        yield Seen("the norm", norm, rel=0.02, asked="of all the model's gradients, before they are clipped")


@scene(
    bfloat16_step, ours, "a step by this batch's gradient, clipped", "float32, after a step by the gradient"
)
def one_step_each(t):
    model = kit.make_model(t.seeds[0], t.device)
    optimizer = kit.make_optimizer(model)
    for count, value in ((6, 1000.0), (5, float("nan"))):  # what stands in `.grad` counts for nothing
        batch = kit.samples(t, count, t.seeds[0] + count)
        t.call(kit.soil_gradients(model, value), batch, optimizer, t.device, FAR)
    yield from kit.see_parameters(model, "two short gradients", WITHIN)
    (inputs, labels), model = kit.samples(t, 6, t.seeds[2]), nn.Linear(kit.FEATURES, kit.CLASSES).to(t.device)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.5)
    take_step(t, model, (50 * inputs, labels), 0.5)
    yield from kit.see_parameters(model, "a step of a long gradient", WITHIN)


@scene(bfloat16_step, ours, "two transfers, and no wait", only="accelerator")
def no_wait(t):
    model = kit.make_model(t.seeds[0], t.device)
    _, log = t.watched(model, kit.samples(t, 6, t.seeds[1]), kit.make_optimizer(model), t.device, 0.1)
    headline = f"the host waited for {t.device} {{times}}: {{causes}}"
    yield most(headline, log.events.synchronizations, 0, "none: nothing has to be asked of the gradients")
    into = [one for one in log.events.transfers if one.target == str(t.device) and one.bytes > 8]
    yield f"the number of transfers to {t.device}", len(into)
