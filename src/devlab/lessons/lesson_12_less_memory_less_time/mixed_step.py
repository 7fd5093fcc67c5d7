"""One training step in mixed precision: float16 autocast, and a scaler around the gradients."""

import torch
from torch import nn
from torch.nn import functional as F

from devlab.checks.scenes import scene
from devlab.checks.seen import most
from devlab.lessons import lesson_12_less_memory_less_time as kit
from devlab.lessons.lesson_12_less_memory_less_time import lesson

mixed_step = lesson.exercise(
    "mixed_step(model, batch, optimizer, scaler, device)",
    ("F1", "F2", "F3"),
    "Two lines stand under `torch.autocast`: the forward and the loss. Some gradients are too small for "
    "float16, so all are made larger first. What does that, and what undoes it before the step?",
    "`with torch.autocast(device.type, dtype=torch.float16):` around forward and loss. After it, in place of "
    "`loss.backward()` and `optimizer.step()`: `scaler.scale(loss).backward()`, then "
    "`scaler.step(optimizer)`, which leaves a step with inf out, then `scaler.update()`.",
    "Training mode, two moves, `optimizer.zero_grad()`, the block under autocast, the three calls of the "
    "scaler, `return loss.detach()`.",
)

SCALE = 1024.0
TOO_LARGE = 2.0**26  # with this scale the gradient of any logit is inf in float16
WITHIN = 2e-3  # what float16 may round differently in two steps at a rate of 0.1


def ours(model, batch, optimizer, scaler, device):
    model.train()
    x, y = (part.to(device) for part in batch)
    optimizer.zero_grad()
    with torch.autocast(device.type, dtype=torch.float16):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


def ready(t, seed, scale=SCALE):
    """Return a model, its optimizer, and a scaler that doubles its scale after every second good step."""
    model = kit.make_model(seed, t.device)
    return model, kit.make_optimizer(model), kit.make_scaler(t, scale, growth_interval=2)


@scene(mixed_step, ours, "the loss in float32, on the device")
def loss_in_float32(t):
    for count, seed in zip((7, 4, 9), t.seeds, strict=True):
        model, optimizer, scaler = ready(t, seed)
        inputs, labels = kit.samples(t, count, seed)
        got = t.call(model.eval(), [inputs, labels], optimizer, scaler, t.device)
        yield from kit.see_loss(got, model, labels, torch.float16)


@scene(mixed_step, ours, "forward under float16 autocast, backward outside")
def under_autocast(t):
    model, optimizer, scaler = ready(t, t.seeds[1])
    batch = kit.samples(t, 6, t.seeds[2])
    yield from kit.see_autocast(t, model, torch.float16, batch, optimizer, scaler, t.device)


@scene(mixed_step, ours, "a step by this batch's unscaled gradient")
def one_step_each(t):
    model, optimizer, scaler = ready(t, t.seeds[0])
    for count in (6, 5):
        t.call(
            kit.soil_gradients(model), kit.samples(t, count, t.seeds[0] + count), optimizer, scaler, t.device
        )
    yield from kit.see_parameters(model, "two steps", WITHIN)
    # A gradient longer than 1 counts in full, and nan in `.grad` counts for nothing.
    inputs, labels = kit.samples(t, 6, t.seeds[2])
    model, (_, _, scaler) = nn.Linear(kit.FEATURES, kit.CLASSES).to(t.device), ready(t, 0)
    t.call(
        kit.soil_gradients(model, float("nan")),
        (5 * inputs, labels),
        kit.make_optimizer(model),
        scaler,
        t.device,
    )
    yield from kit.see_parameters(model, "a step of a long gradient", WITHIN)


@scene(mixed_step, ours, "a step on inf is left out, the scale updated")
def inf_is_left_out(t):
    model, optimizer, scaler = ready(t, t.seeds[1], TOO_LARGE)
    batch = kit.samples(t, 6, t.seeds[0])
    t.call(model, batch, optimizer, scaler, t.device)
    yield from kit.see_parameters(model, "gradients that are inf", 0.0)
    yield "the scale after gradients that are inf", scaler.get_scale(), 0.0
    model, optimizer, scaler = ready(t, t.seeds[2])
    for _ in range(2):
        t.call(model, batch, optimizer, scaler, t.device)
    yield "the scale after two good steps", scaler.get_scale(), 0.0


@scene(mixed_step, ours, "two transfers, no wait but the scaler's", only="accelerator")
def few_waits(t):
    model, optimizer, scaler = ready(t, t.seeds[0])
    for seed in t.seeds[:2]:  # the first makes what the scaler and the optimizer keep
        _, log = t.watched(model, kit.samples(t, 6, seed), optimizer, scaler, t.device)
    asked = "one at most: scaler.step asks whether a gradient was inf"
    yield most(f"the host waited for {t.device} {{times}}: {{causes}}", log.events.synchronizations, 1, asked)
    into = [one for one in log.events.transfers if one.target == str(t.device) and one.bytes > 8]
    yield f"the number of transfers to {t.device}", len(into)
