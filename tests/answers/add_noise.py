"""Answers to add_noise."""

import torch
from bank import right, wrong


@right
def like_the_input(x, scale):
    return x + scale * torch.randn_like(x)


@right
def with_device_and_dtype(x, scale):
    return x + torch.randn(x.shape, device=x.device, dtype=x.dtype) * scale


@right
def filled_in_place(x, scale):
    return torch.empty_like(x).normal_(0, 1).mul_(scale).add_(x)


@right
def from_new_empty(x, scale):
    noise = x.new_empty(x.shape)
    torch.nn.init.normal_(noise, std=scale)
    return torch.add(x, noise)


@right
def normal_around_x(x, scale):
    if scale == 0:
        return x.clone()
    return torch.normal(x, scale)


@right
def scale_as_a_tensor(x, scale):
    return torch.randn_like(x).mul(torch.tensor(scale, device=x.device, dtype=x.dtype)) + x


@wrong("digits were lost: the numbers were torch.float32 on the way", row="with scale 0 the values of x")
def in_float32_then_cast(x, scale):
    return (x.float() + scale * torch.randn(x.shape, device=x.device)).to(x.dtype)


@wrong("the result is torch.float32, not torch.float16", row="x's shape, dtype and device")
def made_by_habit(x, scale):
    return x + scale * torch.randn(x.shape)


@wrong("Expected all tensors to be on the same device", row="x's shape, dtype and device")
def made_on_the_cpu(x, scale):
    return x + scale * torch.randn(x.shape, dtype=x.dtype)


@wrong("the noise has standard deviation", row="mean 0, standard deviation `scale`")
def in_proportion_to_the_spread(x, scale):
    spread = x.std() if x.numel() > 1 else 1
    return x + scale * spread * torch.randn_like(x)


@wrong("the result is torch.float32, not torch.float16", row="x's shape, dtype and device")
def float32_noise(x, scale):
    return x + scale * torch.randn(x.shape, device=x.device)


@wrong("the result is on cpu, not {device}", row="x's shape, dtype and device")
def all_on_the_cpu(x, scale):
    return x.cpu() + scale * torch.randn(x.shape, dtype=x.dtype)


@wrong("the input `x` was changed in place", row="x's shape, dtype and device")
def changes_its_input(x, scale):
    return x.add_(scale * torch.randn_like(x))


@wrong(
    "the noise is not normal: all of it lies between 2e-05 and 0.25", row="mean 0, standard deviation `scale`"
)
def uniform_from_zero(x, scale):
    return x + scale * torch.rand_like(x)


@wrong(
    "the noise is not normal: all of it lies between -0.25 and 0.25", row="mean 0, standard deviation `scale`"
)
def uniform_around_zero(x, scale):
    return x + scale * (2 * torch.rand_like(x) - 1)


@wrong("the noise is not normal", row="mean 0, standard deviation `scale`")
def uniform_of_the_right_size(x, scale):
    return x + scale * 12**0.5 * (torch.rand_like(x) - 0.5)


@wrong("the noise has standard deviation 0.49", row="mean 0, standard deviation `scale`")
def scale_as_the_variance(x, scale):
    return x + scale**0.5 * torch.randn_like(x)


@wrong("with scale 0 noise was added all the same, up to 2.2", row="with scale 0 the values of x")
def forgets_the_scale(x, scale):
    return x + torch.randn_like(x)


@wrong("the noise has standard deviation", row="mean 0, standard deviation `scale`")
def multiplies(x, scale):
    return x * (1 + scale * torch.randn_like(x))


@wrong("two calls drew the same noise", row="new noise in every element and call")
def seeds_itself(x, scale):
    torch.manual_seed(0)
    return x + scale * torch.randn_like(x)


@wrong("the noise repeats along dimension 0", row="new noise in every element and call")
def one_noise_for_all_rows(x, scale):
    if x.dim() == 0 or len(x) == 0:
        return x + scale * torch.randn_like(x)
    return x + scale * torch.randn_like(x[:1])


@wrong("the noise repeats along dimension 2", row="new noise in every element and call")
def one_noise_for_all_columns(x, scale):
    if x.dim() == 0:
        return x + scale * torch.randn_like(x)
    return x + scale * torch.randn_like(x[..., :1])


@wrong("the noise repeats along dimension 0", row="new noise in every element and call")
def one_number_for_all(x, scale):
    return x + scale * torch.randn((), device=x.device, dtype=x.dtype)


@wrong("the result has shape [1], not []", row="x's shape, dtype and device")
def always_a_dimension(x, scale):
    shape = x.shape or (1,)
    return x + scale * torch.randn(shape, device=x.device, dtype=x.dtype)


@wrong("IndexError", row="x's shape, dtype and device")
def two_dimensions_only(x, scale):
    return x + scale * torch.randn(x.shape[0], *x.shape[1:], device=x.device, dtype=x.dtype)


@wrong("no noise was added", row="x's shape, dtype and device")
def nothing(x, scale):
    return x.clone()


@wrong("no noise was added", row="x's shape, dtype and device")
def noise_for_float32_only(x, scale):
    return x + scale * torch.randn_like(x) if x.dtype is torch.float32 else x.clone()


@wrong("is None: is a `return` missing?", row="x's shape, dtype and device")
def forgetful(x, scale):
    x + scale * torch.randn_like(x)


@wrong("with scale 0 the noise came back alone, and not x", row="with scale 0 the values of x")
def noise_alone(x, scale):
    return scale * torch.randn_like(x)


@wrong("with scale 0 noise was added all the same, up to 0.0022", row="with scale 0 the values of x")
def never_quite_zero(x, scale):
    return x + max(scale, 1e-3) * torch.randn_like(x)


@wrong("some of the noise comes twice within one call", row="mean 0, standard deviation `scale`")
def half_of_it_twice(x, scale):
    noise = torch.randn(x.numel(), device=x.device, dtype=x.dtype)
    half = x.numel() // 2
    noise = torch.cat([noise[:half], noise[: x.numel() - half]]) if half else noise
    return x + scale * noise.reshape(x.shape)


@wrong("some of the noise comes twice within one call", row="mean 0, standard deviation `scale`")
def half_of_it_mirrored(x, scale):
    noise = torch.randn_like(x).flatten()
    half = x.numel() // 2
    noise[x.numel() - half :] = -noise[:half]
    return x + scale * noise.reshape(x.shape)


@right
def normal_in_place(x, scale):
    return x + torch.empty_like(x).normal_(0, 1) * scale


@right
def by_alpha(x, scale):
    return torch.add(x, torch.randn(x.shape, dtype=x.dtype, device=x.device), alpha=scale)


@right
def on_a_clone(x, scale):
    return x.clone().add_(torch.randn_like(x), alpha=scale)


@right
def new_empty_normal(x, scale):
    return x + x.new_empty(x.shape).normal_().mul_(scale)


@right
def normal_around_x_in_float32(x, scale):
    return torch.normal(x, float(scale)) if x.dtype == torch.float32 else x + torch.randn_like(x) * scale


@wrong("no noise was added to a single number", row="new noise in every element and call")
def not_to_a_single_number(x, scale):
    return x + scale * torch.randn_like(x) if x.dim() else x.clone()


@wrong("the same noise was added twice to a single number", row="new noise in every element and call")
def scale_itself_to_a_single_number(x, scale):
    return x + scale * torch.randn_like(x) if x.dim() else x + scale


@wrong("the noise repeats along dimension 0", row="new noise in every element and call")
def one_number_in_half_precision(x, scale):
    if x.dtype != torch.float32:
        return x + scale * torch.randn((), dtype=x.dtype, device=x.device)
    return x + scale * torch.randn_like(x)


@wrong("two calls drew the same noise", row="new noise in every element and call")
def the_same_noise_in_half_precision(x, scale):
    if x.dtype != torch.float32:
        generator = torch.Generator(x.device).manual_seed(0)
        return x + scale * torch.randn(x.shape, dtype=x.dtype, device=x.device, generator=generator)
    return x + scale * torch.randn_like(x)


@wrong("the noise repeats along dimension 0", row="new noise in every element and call")
def one_number_for_a_row(x, scale):
    shape = x.shape if x.dim() != 1 else (1,)
    return x + scale * torch.randn(shape, dtype=x.dtype, device=x.device)


@wrong("too much of it lies near its mean", row="mean 0, standard deviation `scale`")
def two_dice(x, scale):
    return x + scale * 6**0.5 * (torch.rand_like(x) + torch.rand_like(x) - 1)


@wrong("too much of it lies far from its mean", row="mean 0, standard deviation `scale`")
def laplace(x, scale):
    even = torch.rand_like(x) - 0.5
    return x - scale / 2**0.5 * even.sign() * torch.log1p(-1.998 * even.abs())


@right
def by_box_and_muller(x, scale):
    one, other = 1 - torch.rand(x.shape, device=x.device), torch.rand(x.shape, device=x.device)
    return x + scale * ((-2 * one.log()).sqrt() * (6.283185307 * other).cos()).to(x.dtype)
