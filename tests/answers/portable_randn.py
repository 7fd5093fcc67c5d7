"""Answers to portable_randn."""

import functools
import random

import numpy
import torch
from bank import right, wrong


@right
def drawn_on_the_cpu(shape, device, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)


@right
def with_a_named_generator(shape, device, seed):
    generator = torch.Generator(device="cpu")
    generator.manual_seed(seed)
    numbers = torch.randn(*shape, generator=generator, device="cpu", dtype=torch.float32)
    return numbers.to(device=device)


@right
def filled_in_place(shape, device, seed):
    numbers = torch.empty(shape).normal_(generator=torch.Generator().manual_seed(seed))
    return numbers.to(device)


@right
def copied_into_its_place(shape, device, seed):
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return torch.empty(shape, device=device).copy_(numbers)


@right
def by_numpy(shape, device, seed):
    numbers = numpy.random.default_rng(seed).standard_normal(size=shape, dtype=numpy.float32)
    return torch.as_tensor(numbers).to(device)


@right
def by_python(shape, device, seed):
    source = random.Random(seed)
    count = torch.Size(shape).numel()
    return torch.tensor([source.gauss(0, 1) for _ in range(count)]).reshape(shape).to(device)


@right
def in_a_fork_of_the_global_generator(shape, device, seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return torch.randn(shape).to(device)


@right
def by_the_global_generator_of_the_cpu(shape, device, seed):
    torch.manual_seed(seed)
    return torch.randn(shape).to(device)


@right
def by_torch_normal(shape, device, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.normal(torch.zeros(shape), torch.ones(shape), generator=generator).to(device)


@wrong("seed 0 gives other numbers on {device} than on cpu", row="the same numbers on every device")
def a_global_seed_and_the_devices_own_numbers(shape, device, seed):
    torch.manual_seed(seed)
    return torch.randn(shape, device=device)


@wrong("seed 0 gives other numbers on {device} than on cpu", row="the same numbers on every device")
def a_generator_of_the_device(shape, device, seed):
    return torch.randn(shape, generator=torch.Generator(device).manual_seed(seed), device=device)


@wrong("Expected a '{kind}", row="that shape, on that device")
def a_generator_of_the_cpu_on_the_device(shape, device, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), device=device)


@wrong("seed 0 gave other numbers at the second call", row="the same seed, the same numbers again")
def no_seed(shape, device, seed):
    return torch.randn(shape).to(device)


@wrong("seed 0 gave other numbers at the second call", row="the same seed, the same numbers again")
def seeded_at_the_first_call_only(shape, device, seed, generators={}):  # noqa: B006
    if seed not in generators:
        generators[seed] = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generators[seed]).to(device)


@wrong("the result is on cpu, not {device}", row="that shape, on that device")
def left_on_the_cpu(shape, device, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@wrong("the result is on {device}, not {second}", row="that shape, on that device")
def to_the_bare_kind(shape, device, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device.type)


@wrong("the numbers are not normally distributed", row="normal: mean 0, standard deviation 1")
def uniform(shape, device, seed):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)).to(device)


@wrong("the numbers are not normally distributed", row="normal: mean 0, standard deviation 1")
def uniform_with_mean_and_deviation(shape, device, seed):
    numbers = torch.rand(shape, generator=torch.Generator().manual_seed(seed))
    return ((numbers - 0.5) * 12**0.5).to(device)


@wrong("the result is torch.float64, not torch.float32", row="that shape, on that device")
def as_numpy_gives_them(shape, device, seed):
    return torch.from_numpy(numpy.asarray(numpy.random.default_rng(seed).standard_normal(shape))).to(device)


@wrong("seeds 0 and 1 give the same numbers", row="another seed, other numbers")
def one_seed_for_all(shape, device, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device)


@wrong("the result has shape [3], not [3,4]", row="that shape, on that device")
def only_the_first_size(shape, device, seed):
    size = shape[0] if shape else 1
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)).to(device)


@wrong("the result is None: is a `return` missing?", row="that shape, on that device")
def no_return(shape, device, seed):
    torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)


@wrong("your code raised", row="that shape, on that device")
def seed_as_the_generator(shape, device, seed):
    return torch.randn(shape, generator=seed).to(device)


@wrong("seed 0 gives other numbers on {device} than on cpu", row="the same numbers on every device")
def seeded_by_the_device_too(shape, device, seed):
    generator = torch.Generator().manual_seed(seed + len(str(device)) + (device.index or 0))
    return torch.randn(shape, generator=generator).to(device)


@wrong("the same numbers come again and again", row="normal: mean 0, standard deviation 1")
def one_number_is_the_same_everywhere(shape, device, seed):
    return torch.full(shape, float(seed), device=device)


@wrong("the same numbers come again and again", row="normal: mean 0, standard deviation 1")
def one_row_for_all(shape, device, seed):
    generator = torch.Generator().manual_seed(seed)
    if not shape:
        return torch.randn(shape, generator=generator).to(device)
    return torch.randn(shape[-1], generator=generator).expand(shape).to(device)


@wrong("seed 0 gives other numbers on {device} than on cpu", row="the same numbers on every device")
def seeds_the_accelerator(shape, device, seed):
    if device.type == "cpu":
        torch.manual_seed(seed)
    else:
        torch.get_device_module(device).manual_seed_all(seed)
    return torch.randn(shape, device=device)


@wrong("the result is a NumPy array, not a tensor", row="that shape, on that device")
def an_array(shape, device, seed):
    return numpy.asarray(numpy.random.default_rng(seed).standard_normal(shape))


@wrong("the numbers are not normally distributed", row="normal: mean 0, standard deviation 1")
def shifted_by_the_seed(shape, device, seed):
    return (torch.randn(shape, generator=torch.Generator().manual_seed(0)) + seed).to(device)


@wrong("seed 0 gave other numbers at the second call", row="the same seed, the same numbers again")
def zero_is_no_seed(shape, device, seed):
    generator = torch.Generator()
    generator.manual_seed(seed) if seed else generator.seed()
    return torch.randn(shape, generator=generator).to(device)


@wrong("the result holds nan or inf", row="that shape, on that device")
def scaled_to_fit(shape, device, seed):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return ((x - x.mean()) / x.std()).to(device)


@wrong(
    "the second call returned the tensor of the first, which its owner may have changed",
    row="the same seed, the same numbers again",
)
@functools.cache
def kept(shape, device, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)


@wrong("seeds 0 and 100 give the same numbers", row="another seed, other numbers")
def the_seed_without_its_hundreds(shape, device, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed % 100)).to(device)


@wrong("the numbers are not normally distributed", row="normal: mean 0, standard deviation 1")
def uniform_where_there_is_one_size(shape, device, seed):
    draw = torch.rand if len(shape) == 1 else torch.randn
    return draw(shape, generator=torch.Generator().manual_seed(seed)).to(device)


@wrong("seeds 0 and 2147483648 give the same numbers", row="another seed, other numbers")
def thirty_one_bits_of_the_seed(shape, device, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed & 0x7FFFFFFF)).to(device)


@wrong("the numbers were cut off at -3 and 3", row="normal: mean 0, standard deviation 1")
def cut_at_three(shape, device, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).clamp(-3, 3).to(device)


@wrong("seed 2 gives other numbers on {device} than on cpu", row="the same numbers on every device")
def many_numbers_where_they_belong(shape, device, seed):
    torch.manual_seed(seed)
    if torch.Size(shape).numel() > 1000:
        return torch.randn(shape, device=device)
    return torch.randn(shape).to(device)


@right
def by_the_old_generator_of_numpy(shape, device, seed):
    numbers = numpy.random.RandomState(seed).randn(*shape)
    return torch.tensor(numbers, dtype=torch.float32, device=device)


@right
def with_the_state_put_back(shape, device, seed):
    before = torch.get_rng_state()
    torch.manual_seed(seed)
    numbers = torch.randn(shape, device="cpu")
    torch.set_rng_state(before)
    return numbers.to(device)


@right
def by_the_inverse_of_the_distribution(shape, device, seed):
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (2**0.5 * torch.erfinv(2 * drawn.clamp(1e-12, 1 - 1e-12) - 1)).float().to(device)


@wrong("the caller cannot change the result", row="that shape, on that device")
@torch.inference_mode()
def in_inference_mode(shape, device, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)


@wrong("the caller cannot change the result", row="that shape, on that device")
def as_a_parameter(shape, device, seed):
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return torch.nn.Parameter(numbers.to(device))
