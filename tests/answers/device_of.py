"""Answers to device_of."""

import torch
from bank import right, wrong


@right
def attribute(x):
    return x.device


@right
def through_an_empty_twin(x):
    return torch.empty_like(x, requires_grad=False).device


@right
def from_its_own_name(x):
    return torch.device(str(x.device))


@right
def from_a_new_tensor(x):
    return x.new_zeros(()).device


@right
def from_type_and_index(x):
    return torch.device(x.device.type, x.get_device()) if x.device.type != "cpu" else torch.device("cpu")


@wrong("the answer is a str, not a torch.device", row="answers with a torch.device")
def text(x):
    return str(x.device)


@wrong("a matrix is on {device}, and the answer is cpu", row="is right for every kind of tensor")
def always_cpu(x):
    return torch.device("cpu")


@wrong("a matrix is on cpu, and the answer is {kind}", row="is right for every kind of tensor")
def always_the_first_accelerator(x):
    return torch.accelerator.current_accelerator() or torch.device("cpu")


@wrong("the answer is {kind}, without its index", row="is right for every kind of tensor")
def index_forgotten(x):
    return torch.device(x.device.type)


@wrong("the answer is None: is a `return` missing?", row="answers with a torch.device")
def forgot_to_return(x):
    print(x.device)


@wrong("the answer is a str, not a torch.device", row="answers with a torch.device")
def the_type_alone(x):
    return x.device.type


@wrong("the answer is an int, not a torch.device", row="answers with a torch.device")
def the_index_alone(x):
    return x.get_device()


@wrong("the answer is a Tensor, not a torch.device", row="answers with a torch.device")
def moved_instead(x):
    return x.cpu()


@wrong("IndexError", row="is right for every kind of tensor")
def looks_at_an_element(x):
    return x[0].device


@wrong("was changed in place", row="answers with a torch.device")
def spoils_the_input(x):
    x.data.zero_()
    return x.device


@wrong("the parameters are not those of the task", row="answers with a torch.device")
def wants_two(x, device):
    return device


@wrong("an empty tensor is on {device}, and the answer is cpu", row="is right for every kind of tensor")
def by_an_element(x):
    return x.flatten()[0].device if x.numel() else torch.device("cpu")


@wrong("a tensor of torch.bool is on {device}", row="is right for every kind of tensor")
def not_for_every_dtype(x):
    if x.dtype in (torch.bool, torch.uint8, torch.bfloat16):
        return torch.device("cpu")
    return x.device


@wrong("your code raised RuntimeError", row="is right for every kind of tensor")
def by_a_difference(x):
    return (x - x).device


@right
def from_text(x):
    return torch.device(str(x.device))


@right
def of_an_empty_like(x):
    return x.detach().new_empty(0).device


@right
def by_get_device(x):
    return torch.device(x.get_device()) if x.get_device() >= 0 else torch.device("cpu")


@wrong("AttributeError: 'NoneType' object has no attribute 'device'", row="answers with a torch.device")
def of_the_gradient(x):
    return x.grad.device


@wrong("the answer is a tuple, not a torch.device", row="answers with a torch.device")
def a_pair(x):
    return (x.device, x.dtype)


@wrong(
    "a tensor of torch.float64 is on {device}, and the answer is cpu", row="is right for every kind of tensor"
)
def wide_numbers_forgotten(x):
    return torch.device("cpu") if x.dtype in (torch.float64, torch.complex128) else x.device


@wrong("a tensor of torch.complex64 is on {device}", row="is right for every kind of tensor")
def complex_numbers_forgotten(x):
    return torch.device("cpu") if x.is_complex() else x.device


@wrong("your code raised NotImplementedError", row="is right for every kind of tensor")
def by_a_sum(x):
    return (x + 0).device


@right
def of_its_storage(x):
    return x.untyped_storage().device


@right
def of_a_contiguous_one(x):
    return x.detach().contiguous().device
