"""Answers to mixed_step."""

import torch
from bank import right, wrong
from torch import nn
from torch.nn import functional as F

LOSS = "the loss in float32, on the device"
AUTOCAST = "forward under float16 autocast, backward outside"
STEP = "a step by this batch's unscaled gradient"
INF = "a step on inf is left out, the scale updated"
WAITS = "two transfers, no wait but the scaler's"


def moved(batch, device):
    return [tensor.to(device, non_blocking=device.type == "cuda") for tensor in batch]


def half(device):
    return torch.autocast(device.type, dtype=torch.float16)


@right
def plain(model, batch, optimizer, scaler, device):
    model.train()
    inputs, labels = moved(batch, device)
    with torch.autocast(device.type, dtype=torch.float16):
        loss = F.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


@right
def unscaled_by_hand_first(model, batch, optimizer, scaler, device):
    model.train()
    optimizer.zero_grad(set_to_none=False)
    x, y = (part.to(device) for part in batch)
    with half(device):
        output = model(x)
        loss = nn.CrossEntropyLoss()(output, y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    return loss.data


@right
def loss_outside_from_float32(model, batch, optimizer, scaler, device):
    model.train()
    x, y = moved(batch, device)
    with half(device):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    model.zero_grad()
    scaled = scaler.scale(loss)
    scaled.backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.detach().clone()


@right
def autocast_as_a_decorator(model, batch, optimizer, scaler, device):
    @torch.autocast(device.type, dtype=torch.float16)
    def forward(x, y):
        return F.cross_entropy(model(x), y)

    model.train()
    loss = forward(*moved(batch, device))
    for parameter in model.parameters():
        parameter.grad = None
    torch.autograd.backward(scaler.scale(loss))
    scaler.step(optimizer)
    scaler.update()
    return loss.detach_()


@right
def gradients_asked_for(model, batch, optimizer, scaler, device):
    model.train()
    x, y = moved(batch, device)
    with half(device):
        loss = F.cross_entropy(model(x), y)
    parameters = list(model.parameters())
    for parameter, gradient in zip(
        parameters, torch.autograd.grad(scaler.scale(loss), parameters), strict=True
    ):
        parameter.grad = gradient
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


@right
def loss_by_log_softmax(model, batch, optimizer, scaler, device):
    model.train()
    x, y = moved(batch, device)
    with half(device):
        loss = F.nll_loss(F.log_softmax(model(x), dim=1), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


@right
def loss_by_log_softmax_in_float16(model, batch, optimizer, scaler, device):
    """What cross_entropy itself does under CUDA's autocast, which leaves a dtype that is given."""
    model.train()
    x, y = moved(batch, device)
    with half(device):
        logits = model(x)
        loss = F.nll_loss(F.log_softmax(logits, dim=1, dtype=logits.dtype), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


@wrong("backward ran inside autocast", row=AUTOCAST)
def backward_inside(model, batch, optimizer, scaler, device):
    model.train()
    x, y = moved(batch, device)
    optimizer.zero_grad()
    with half(device):
        loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


@wrong("the forward ran without autocast for 'cpu'", row=AUTOCAST)
def no_autocast(model, batch, optimizer, scaler, device):
    model.train()
    x, y = moved(batch, device)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


@wrong("under autocast to torch.bfloat16", row=AUTOCAST)
def bfloat16(model, batch, optimizer, scaler, device):
    model.train()
    x, y = moved(batch, device)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


@wrong("Attempting to unscale FP16 gradients", row=LOSS)
def parameters_made_half(model, batch, optimizer, scaler, device):
    model.train().half()
    x, y = moved(batch, device)
    with half(device):
        loss = F.cross_entropy(model(x.half()), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


@wrong("the loss is torch.float16, not torch.float32", row=LOSS)
def loss_outside_in_float16(model, batch, optimizer, scaler, device):
    model.train()
    x, y = moved(batch, device)
    with half(device):
        logits = model(x)
    loss = F.cross_entropy(logits, y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


@wrong("the loss was computed in float16: it belongs under autocast, too", row=LOSS)
def float16_made_float32(model, batch, optimizer, scaler, device):
    model.train()
    x, y = moved(batch, device)
    with half(device):
        logits = model(x)
    loss = F.cross_entropy(logits, y).float()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


@wrong("gradients from before were counted: call zero_grad before backward", row=STEP)
def forgets_zero_grad(model, batch, optimizer, scaler, device):
    model.train()
    x, y = moved(batch, device)
    with half(device):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


@wrong(
    "the optimizer stepped by itself, with gradients that are still scaled: scaler.step unscales", row=STEP
)
def steps_by_the_optimizer(model, batch, optimizer, scaler, device):
    model.train()
    x, y = moved(batch, device)
    with half(device):
        loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    optimizer.step()
    return loss.detach()


@wrong("a step was taken on gradients that are inf: 0.weight has changed", row=INF)
def takes_every_step(model, batch, optimizer, scaler, device):
    model.train()
    x, y = moved(batch, device)
    with half(device):
        loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    optimizer.step()
    scaler.update()
    return loss.detach()


@wrong("the scale was not halved after gradients that are inf", row=INF)
def no_scaler(model, batch, optimizer, scaler, device):
    model.train()
    x, y = moved(batch, device)
    with half(device):
        loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    if all(p.grad.isfinite().all() for p in model.parameters()) and scaler.get_scale() < 2**20:
        optimizer.step()
    return loss.detach()


@wrong("step() has already been called since the last update()", row=STEP)
def never_updates(model, batch, optimizer, scaler, device):
    model.train()
    x, y = moved(batch, device)
    with half(device):
        loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    return loss.detach()


@wrong("No inf checks were recorded", row=LOSS)
def scales_nothing(model, batch, optimizer, scaler, device):
    model.train()
    x, y = moved(batch, device)
    with half(device):
        loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss)
    scaler.step(optimizer)
    scaler.update()
    loss.backward()
    return loss.detach()


@wrong("_scale is None", row=LOSS)
def scaler_without_scale(model, batch, optimizer, scaler, device):
    model.train()
    x, y = moved(batch, device)
    with half(device):
        loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


@wrong("that is the scaled loss, and the loss itself is asked", row=LOSS)
def returns_the_scaled_loss(model, batch, optimizer, scaler, device):
    model.train()
    x, y = moved(batch, device)
    with half(device):
        loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss = scaler.scale(loss)
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


@wrong("the loss still holds its graph", row=LOSS)
def forgets_to_detach(model, batch, optimizer, scaler, device):
    model.train()
    x, y = moved(batch, device)
    with half(device):
        loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss


@wrong("the loss is a Python number: the host waited for it", row=LOSS)
def returns_item(model, batch, optimizer, scaler, device):
    return plain(model, batch, optimizer, scaler, device).item()


@wrong("the forward ran in evaluation mode", row=LOSS)
def leaves_the_mode(model, batch, optimizer, scaler, device):
    x, y = moved(batch, device)
    with half(device):
        loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


@wrong("the host waited for {device} 2 times: .item()", row=WAITS)
def looks_at_the_scale(model, batch, optimizer, scaler, device):
    before = scaler.get_scale()
    loss = plain(model, batch, optimizer, scaler, device)
    if before == 0:
        raise ValueError("the scale is 0")
    return loss


@wrong("weight is not where a step by this batch's unscaled gradient takes it", row=STEP)
def clipped(model, batch, optimizer, scaler, device):
    model.train()
    x, y = moved(batch, device)
    with half(device):
        loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


@wrong("the parameter weight has not changed: was a step taken?", row=STEP)
def zeroes_by_a_product(model, batch, optimizer, scaler, device):
    model.train()
    x, y = moved(batch, device)
    with half(device):
        loss = F.cross_entropy(model(x), y)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad *= 0
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


OWN = (
    "another scaler than the one that was given made the step: only that one keeps its scale for later steps"
)


@wrong(OWN, row=STEP)
def a_scaler_of_its_own(model, batch, optimizer, scaler, device):
    return plain(model, batch, optimizer, torch.amp.GradScaler(device.type), device)


@wrong(OWN, row=INF)
def a_scaler_of_its_own_with_a_small_scale(model, batch, optimizer, scaler, device):
    return plain(model, batch, optimizer, torch.amp.GradScaler(device.type, init_scale=1024.0), device)
