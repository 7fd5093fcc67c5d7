"""Answers to unscaled_clip."""

import torch
from bank import right, wrong
from torch import nn

NORM = "the norm before clipping, of unscaled gradients"
CLIPPED = "gradients no longer than the limit, in place"
SHORT = "short gradients keep their length"
STEP = "the scaler's step after it"
INF = "a step on inf is still left out"
GIVEN = "only the parameters that were given"
WAITS = "nothing waits for the device"


@right
def plain(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    return nn.utils.clip_grad_norm_(parameters, limit)


@right
def in_two_parts(optimizer, scaler, parameters, limit):
    parameters = list(parameters)
    scaler.unscale_(optimizer)
    norm = nn.utils.get_total_norm([one.grad for one in parameters if one.grad is not None])
    nn.utils.clip_grads_with_norm_(parameters, limit, norm)
    return norm


@right
def by_hand(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    gradients = [one.grad for one in parameters if one.grad is not None]
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    factor = (limit / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor)
    return norm


@right
def by_where(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    held = [one for one in parameters if one.grad is not None]
    norm = sum(one.grad.square().sum() for one in held).sqrt()
    factor = torch.where(norm > limit, limit / norm, torch.ones_like(norm))
    for one in held:
        one.grad = one.grad * factor
    return norm


@wrong("that is the norm of the gradients as they are scaled", row=NORM)
def never_unscales(optimizer, scaler, parameters, limit):
    return nn.utils.clip_grad_norm_(parameters, limit)


@wrong("that is the norm of the gradients as they are scaled", row=NORM)
def clips_before(optimizer, scaler, parameters, limit):
    norm = nn.utils.clip_grad_norm_(parameters, limit)
    scaler.unscale_(optimizer)
    return norm


@wrong("the gradients are still scaled", row=CLIPPED)
def limit_scaled_and_left(optimizer, scaler, parameters, limit):
    parameters = list(parameters)
    scale = scaler.get_scale()
    return nn.utils.get_total_norm([one.grad for one in parameters]) / scale


@wrong("scaler.step unscales once more", row=STEP)
def divides_by_hand(optimizer, scaler, parameters, limit):
    for group in optimizer.param_groups:
        for one in group["params"]:
            one.grad /= scaler.get_scale()
    return nn.utils.clip_grad_norm_(parameters, limit)


@wrong("that is the norm after clipping", row=NORM)
def norm_after(optimizer, scaler, parameters, limit):
    parameters = list(parameters)
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(parameters, limit)
    return nn.utils.get_total_norm([one.grad for one in parameters])


@wrong("the norm is a Python number", row=NORM)
def returns_item(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    return nn.utils.clip_grad_norm_(parameters, limit).item()


@wrong("the gradients are unscaled and were not clipped", row=CLIPPED)
def only_the_norm(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    return nn.utils.get_total_norm([one.grad for one in parameters])


@wrong("gradients shorter than the limit were made longer", row=SHORT)
def always_to_the_limit(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    gradients = [one.grad for one in parameters]
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    for gradient in gradients:
        gradient.mul_(limit / norm)
    return norm


@wrong("the host waited for {device} once", row=WAITS)
def asks_on_the_host(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    gradients = [one.grad for one in parameters]
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    if norm > limit:
        for gradient in gradients:
            gradient.mul_(limit / norm)
    return norm


@wrong("that is not the norm of the unscaled gradients", row=GIVEN)
def all_of_the_optimizer(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    return nn.utils.clip_grad_norm_(
        [one for group in optimizer.param_groups for one in group["params"]], limit
    )


@wrong("unscale_() has already been called", row=NORM)
def unscales_twice(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)
    return nn.utils.clip_grad_norm_(parameters, limit)


@wrong("the parameters changed", row=STEP)
def steps_too(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(parameters, limit)
    scaler.step(optimizer)
    scaler.update()
    return norm


@wrong("is a `return` missing?", row=NORM)
def forgets_to_return(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(parameters, limit)


@wrong("that is not the norm of the unscaled gradients", row=NORM)
def clips_each_value(optimizer, scaler, parameters, limit):
    parameters = list(parameters)
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_value_(parameters, limit / 4)
    return nn.utils.get_total_norm([one.grad for one in parameters])


@wrong("a `return` missing?", row=NORM)
def clips_values_alone(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    return nn.utils.clip_grad_value_(parameters, limit)


@wrong("gradients shorter than the limit were shortened", row=SHORT)
def never_longer_than_one(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    return nn.utils.clip_grad_norm_(parameters, min(limit, 1.0))


@wrong("gradients that were all 0 became others", row=SHORT)
def divided_by_a_norm_of_zero(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    held = [one for one in parameters if one.grad is not None]
    norm = torch.stack([one.grad.norm() for one in held]).norm()
    for one in held:
        one.grad *= torch.minimum(norm, torch.full_like(norm, limit)) / norm
    return norm
