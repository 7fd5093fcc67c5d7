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


@wrong("scaler.step unscales once more: the scaler was not told of it, as by `unscale_`", row=STEP)
def divides_by_hand(optimizer, scaler, parameters, limit):
    for group in optimizer.param_groups:
        for one in group["params"]:
            one.grad /= scaler.get_scale()
    return nn.utils.clip_grad_norm_(parameters, limit)


@wrong("that is the norm after clipping, and the norm before it is asked", row=NORM)
def norm_after(optimizer, scaler, parameters, limit):
    parameters = list(parameters)
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(parameters, limit)
    return nn.utils.get_total_norm([one.grad for one in parameters])


@wrong("the norm is a Python number: the host waited for it", row=NORM)
def returns_item(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    return nn.utils.clip_grad_norm_(parameters, limit).item()


@wrong("the gradients are unscaled and were not clipped", row=CLIPPED)
def only_the_norm(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    return nn.utils.get_total_norm([one.grad for one in parameters])


@wrong("gradients shorter than the limit were made longer: clipping only shortens", row=SHORT)
def always_to_the_limit(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    gradients = [one.grad for one in parameters]
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    for gradient in gradients:
        gradient.mul_(limit / norm)
    return norm


@wrong("the host waited for {device} once: bool()", row=WAITS)
def asks_on_the_host(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    gradients = [one.grad for one in parameters]
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    if norm > limit:
        for gradient in gradients:
            gradient.mul_(limit / norm)
    return norm


@wrong("that is the norm of all of the optimizer's gradients, and only some parameters were given", row=GIVEN)
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


@wrong("the parameters changed: clip alone, the step comes after it", row=STEP)
def steps_too(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(parameters, limit)
    scaler.step(optimizer)
    scaler.update()
    return norm


@wrong("the norm is None: is a `return` missing?", row=NORM)
def forgets_to_return(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(parameters, limit)


@wrong("each value was clipped on its own, and that is the norm after it: clip_grad_norm_ is asked", row=NORM)
def clips_each_value(optimizer, scaler, parameters, limit):
    parameters = list(parameters)
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_value_(parameters, limit / 4)
    return nn.utils.get_total_norm([one.grad for one in parameters])


@wrong("the norm is None: is a `return` missing?", row=NORM)
def clips_values_alone(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    return nn.utils.clip_grad_value_(parameters, limit)


@wrong("gradients shorter than the limit were shortened: they keep their length", row=SHORT)
def never_longer_than_one(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    return nn.utils.clip_grad_norm_(parameters, min(limit, 1.0))


@wrong("gradients that were all 0 became others: limit / 0 is inf, and 0 * inf is nan", row=SHORT)
def divided_by_a_norm_of_zero(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    held = [one for one in parameters if one.grad is not None]
    norm = torch.stack([one.grad.norm() for one in held]).norm()
    for one in held:
        one.grad *= torch.minimum(norm, torch.full_like(norm, limit)) / norm
    return norm


@wrong("each value was clipped on its own, and not the norm of all: clip_grad_norm_ does that", row=CLIPPED)
def clips_values_by_the_limit(optimizer, scaler, parameters, limit):
    parameters = list(parameters)
    scaler.unscale_(optimizer)
    norm = nn.utils.get_total_norm([one.grad for one in parameters])
    nn.utils.clip_grad_value_(parameters, limit)
    return norm


@wrong("each gradient was clipped on its own, and not the norm of all of them together", row=CLIPPED)
def clips_each_gradient(optimizer, scaler, parameters, limit):
    parameters = list(parameters)
    scaler.unscale_(optimizer)
    norm = nn.utils.get_total_norm([one.grad for one in parameters])
    for one in parameters:
        nn.utils.clip_grad_norm_([one], limit)
    return norm


@wrong("the gradients were clipped as they were scaled, which leaves them much too short", row=CLIPPED)
def clips_before_it_unscales(optimizer, scaler, parameters, limit):
    norm = nn.utils.clip_grad_norm_(parameters, limit)
    scaler.unscale_(optimizer)
    return norm / scaler.get_scale()


@wrong("the gradients were divided by the scale twice: they are much too short", row=CLIPPED)
def divides_after_it_unscales(optimizer, scaler, parameters, limit):
    parameters = list(parameters)
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(parameters, limit)
    for one in parameters:
        one.grad /= scaler.get_scale()
    return norm


@wrong("the gradients were divided by the scale twice", row=NORM)
def divides_and_unscales(optimizer, scaler, parameters, limit):
    parameters = list(parameters)
    for one in parameters:
        one.grad /= scaler.get_scale()
    scaler.unscale_(optimizer)
    return nn.utils.clip_grad_norm_(parameters, limit)


@wrong("that is the square of the norm", row=NORM)
def leaves_out_the_root(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    return nn.utils.clip_grad_norm_(parameters, limit).square()


@wrong("scaler.update was called before scaler.step, so the scaler forgot that it had unscaled", row=STEP)
def updates_too(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(parameters, limit)
    scaler.update()
    return norm


@wrong("the scaler took a step although a gradient was inf", row=INF)
def hides_what_is_inf(optimizer, scaler, parameters, limit):
    parameters = list(parameters)
    for one in parameters:
        one.grad.nan_to_num_(0.0, 0.0, 0.0)
    scaler.unscale_(optimizer)
    return nn.utils.clip_grad_norm_(parameters, limit)


@wrong("a parameter that was not given was clipped as well", row=GIVEN)
def clips_all_of_the_optimizer(optimizer, scaler, parameters, limit):
    scaler.unscale_(optimizer)
    norm = nn.utils.get_total_norm([one.grad for one in parameters])
    held = [one for group in optimizer.param_groups for one in group["params"]]
    nn.utils.clip_grads_with_norm_(held, limit, norm)
    return norm


@wrong("the gradient of 0.weight was thrown away", row=CLIPPED)
def throws_gradients_away(optimizer, scaler, parameters, limit):
    parameters = list(parameters)
    scaler.unscale_(optimizer)
    norm = nn.utils.get_total_norm([one.grad for one in parameters])
    optimizer.zero_grad()
    return norm
