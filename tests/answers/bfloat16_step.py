"""Answers to bfloat16_step."""

import torch
from bank import right, wrong
from torch import nn
from torch.nn import functional as F

LOSS = "the loss in float32, on the device"
AUTOCAST = "bfloat16 autocast in forward, not in backward"
NORM = "the norm before clipping, on the device"
STEP = "a step by this batch's gradient, clipped"
WAITS = "two transfers, and no wait"


def moved(batch, device):
    return [tensor.to(device, non_blocking=device.type == "cuda") for tensor in batch]


def half(device):
    return torch.autocast(device.type, dtype=torch.bfloat16)


def loss_of(model, batch, device):
    """The first half of a right answer: training mode, moves, forward and loss."""
    model.train()
    inputs, labels = moved(batch, device)
    with half(device):
        return F.cross_entropy(model(inputs), labels)


@right
def plain(model, batch, optimizer, device, limit):
    loss = loss_of(model, batch, device)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
    optimizer.step()
    return loss.detach(), norm


@right
def loss_outside_from_float32(model, batch, optimizer, device, limit):
    model.train()
    inputs, labels = moved(batch, device)
    with half(device):
        logits = model(inputs)
    loss = F.cross_entropy(logits.float(), labels)
    model.zero_grad(set_to_none=True)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
    optimizer.step()
    return [loss.detach(), norm]


@right
def clipped_by_hand(model, batch, optimizer, device, limit):
    loss = loss_of(model, batch, device)
    optimizer.zero_grad()
    loss.backward()
    gradients = [one.grad for one in model.parameters() if one.grad is not None]
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    for gradient in gradients:
        gradient.mul_(torch.where(norm > limit, limit / norm, torch.ones_like(norm)))
    optimizer.step()
    return loss.data, norm


@right
def gradients_asked_for(model, batch, optimizer, device, limit):
    @torch.autocast(device.type, dtype=torch.bfloat16)
    def forward(x, y):
        return F.cross_entropy(model(x), y)

    model.train()
    loss = forward(*moved(batch, device))
    parameters = list(model.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient
    norm = nn.utils.get_total_norm([one.grad for one in parameters])
    nn.utils.clip_grads_with_norm_(parameters, limit, norm)
    optimizer.step()
    return loss.detach(), norm


@wrong("the loss was computed in bfloat16: it belongs under autocast, too", row=LOSS)
def loss_in_bfloat16(model, batch, optimizer, device, limit):
    model.train()
    inputs, labels = moved(batch, device)
    with half(device):
        logits = model(inputs)
    loss = F.cross_entropy(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
    optimizer.step()
    return loss.detach().float(), norm


@wrong("the loss is torch.bfloat16, not torch.float32", row=LOSS)
def bfloat16_throughout(model, batch, optimizer, device, limit):
    model.train()
    inputs, labels = moved(batch, device)
    with half(device):
        logits = model(inputs)
    loss = F.cross_entropy(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
    optimizer.step()
    return loss.detach(), norm


@wrong("the norm is torch.bfloat16, not torch.float32", row=NORM)
def the_model_made_bfloat16(model, batch, optimizer, device, limit):
    loss = loss_of(model.bfloat16(), batch, device)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
    optimizer.step()
    return loss.detach(), norm


@wrong("backward ran inside autocast", row=AUTOCAST)
def backward_inside(model, batch, optimizer, device, limit):
    model.train()
    inputs, labels = moved(batch, device)
    with half(device):
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
        optimizer.step()
    return loss.detach(), norm


@wrong("the forward ran without autocast", row=AUTOCAST)
def no_autocast(model, batch, optimizer, device, limit):
    model.train()
    inputs, labels = moved(batch, device)
    loss = F.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
    optimizer.step()
    return loss.detach(), norm


@wrong("the forward ran under autocast to torch.float16", row=AUTOCAST)
def in_float16(model, batch, optimizer, device, limit):
    model.train()
    inputs, labels = moved(batch, device)
    with torch.autocast(device.type, dtype=torch.float16):
        loss = F.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
    optimizer.step()
    return loss.detach(), norm


@wrong("the norm after clipping was returned, and that from before is asked", row=NORM)
def the_norm_after(model, batch, optimizer, device, limit):
    loss = loss_of(model, batch, device)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), limit)
    norm = nn.utils.get_total_norm([one.grad for one in model.parameters()])
    optimizer.step()
    return loss.detach(), norm


@wrong("the norm is a Python number: the host waited for it", row=NORM)
def both_read(model, batch, optimizer, device, limit):
    loss, norm = plain(model, batch, optimizer, device, limit)
    return loss, norm.item()


@wrong("the loss is a Python number: the host waited for it", row=LOSS)
def the_loss_read(model, batch, optimizer, device, limit):
    loss, norm = plain(model, batch, optimizer, device, limit)
    return loss.item(), norm


@wrong("the gradients of an earlier batch are still in the norm", row=NORM)
def forgets_zero_grad(model, batch, optimizer, device, limit):
    loss = loss_of(model, batch, device)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
    optimizer.step()
    return loss.detach(), norm


@wrong("each gradient was clipped by itself, and all together are asked", row=NORM)
def each_by_itself(model, batch, optimizer, device, limit):
    loss = loss_of(model, batch, device)
    optimizer.zero_grad()
    loss.backward()
    norms = [nn.utils.clip_grad_norm_(one, limit) for one in model.parameters()]
    optimizer.step()
    return loss.detach(), torch.stack(norms).max()


@wrong("the gradients were not clipped before the step", row=STEP)
def never_clips(model, batch, optimizer, device, limit):
    loss = loss_of(model, batch, device)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.get_total_norm([one.grad for one in model.parameters()])
    optimizer.step()
    return loss.detach(), norm


@wrong("the gradients were not clipped before the step", row=STEP)
def clips_after_the_step(model, batch, optimizer, device, limit):
    loss = loss_of(model, batch, device)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach(), nn.utils.clip_grad_norm_(model.parameters(), limit)


@wrong("gradients shorter than the limit were made as long as it", row=STEP)
def to_the_limit(model, batch, optimizer, device, limit):
    loss = loss_of(model, batch, device)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.get_total_norm([one.grad for one in model.parameters()])
    for one in model.parameters():
        one.grad *= limit / norm
    optimizer.step()
    return loss.detach(), norm


@wrong("no step was taken", row=STEP)
def no_step(model, batch, optimizer, device, limit):
    loss = loss_of(model, batch, device)
    optimizer.zero_grad()
    loss.backward()
    return loss.detach(), nn.utils.clip_grad_norm_(model.parameters(), limit)


@wrong("the loss still holds its graph", row=LOSS)
def forgets_to_detach(model, batch, optimizer, device, limit):
    loss = loss_of(model, batch, device)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
    optimizer.step()
    return loss, norm


@wrong("the forward ran in evaluation mode", row=LOSS)
def leaves_the_mode(model, batch, optimizer, device, limit):
    inputs, labels = moved(batch, device)
    with half(device):
        loss = F.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
    optimizer.step()
    return loss.detach(), norm


@wrong("is a Tensor, not a pair of loss and norm", row=LOSS)
def the_loss_alone(model, batch, optimizer, device, limit):
    return plain(model, batch, optimizer, device, limit)[0]


@wrong("the host waited for {device} once: bool()", row=WAITS)
def skips_what_is_not_finite(model, batch, optimizer, device, limit):
    loss = loss_of(model, batch, device)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
    if norm.isfinite():
        optimizer.step()
    return loss.detach(), norm


@wrong("the host waited for {device} once", row=WAITS)
def with_a_scaler(model, batch, optimizer, device, limit):
    scaler = torch.amp.GradScaler(device.type)
    loss = loss_of(model, batch, device)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
    scaler.step(optimizer)
    return loss.detach(), norm
