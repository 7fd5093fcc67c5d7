"""Answers to to_numpy."""

import numpy as np
import torch
from bank import right, wrong


@right
def step_by_step(x):
    x = x.detach().cpu()
    if x.dtype == torch.bfloat16:
        x = x.to(torch.float32)
    return x.numpy()


@right
def home_first(x):
    x = x.to("cpu").detach()
    return (x.float() if x.dtype is torch.bfloat16 else x).numpy()


@right
def by_force(x):
    if x.dtype == torch.bfloat16:
        x = x.float()
    return x.numpy(force=True)


@right
def in_a_copy(x):
    return np.array(x.detach().to("cpu", torch.float32 if x.dtype == torch.bfloat16 else x.dtype))


@right
def without_gradients(x):
    with torch.no_grad():
        if x.dtype == torch.bfloat16:
            x = x.float()
        return np.asarray(x.cpu())


@right
def tried_and_caught(x):
    x = x.detach().cpu()
    try:
        return x.numpy()
    except TypeError:
        return x.float().numpy()


@right
def through_dlpack(x):
    x = x.detach().cpu()
    if x.dtype == torch.bfloat16:
        x = x.float()
    return np.from_dlpack(x) if x.numel() else x.numpy()


@right
def through_bits(x):
    x = x.detach().cpu()
    if x.dtype != torch.bfloat16:
        return x.numpy().copy()
    bits = x.contiguous().view(torch.int16).numpy().astype(np.int32) << 16
    return np.asarray(bits).view(np.float32).reshape(tuple(x.shape))


@wrong("Use Tensor.cpu() to copy the tensor to host memory first", row="an array with x's shape and values")
def numpy_alone(x):
    return x.numpy()


@wrong("Use Tensor.cpu() to copy the tensor to host memory first", row="an array with x's shape and values")
def detach_alone(x):
    x = x.detach()
    return (x.float() if x.dtype == torch.bfloat16 else x).numpy()


@wrong("Use tensor.detach().numpy() instead", row="bfloat16 comes as float32")
def cpu_alone(x):
    x = x.cpu()
    return (x.float() if x.dtype == torch.bfloat16 else x).numpy()


@wrong("Got unsupported ScalarType BFloat16", row="bfloat16 comes as float32")
def no_bfloat16(x):
    return x.detach().cpu().numpy()


@wrong("Got unsupported ScalarType BFloat16", row="bfloat16 comes as float32")
def by_force_alone(x):
    return x.numpy(force=True)


@wrong("the array is float32, not float16", row="x's own dtype")
def everything_to_float32(x):
    return x.detach().cpu().float().numpy()


@wrong("the array is float32, not float16", row="x's own dtype")
def halves_to_float32(x):
    if x.dtype in (torch.bfloat16, torch.float16):
        x = x.float()
    return x.detach().cpu().numpy()


@wrong("the array of a bfloat16 tensor is float16, not float32", row="bfloat16 comes as float32")
def bfloat16_to_float16(x):
    if x.dtype == torch.bfloat16:
        x = x.half()
    return x.detach().cpu().numpy()


@wrong("the array of a bfloat16 tensor is float64, not float32", row="bfloat16 comes as float32")
def bfloat16_to_float64(x):
    if x.dtype == torch.bfloat16:
        x = x.to("cpu").double()
    return x.detach().cpu().numpy()


@wrong("the array of a bfloat16 tensor is int16, not float32", row="bfloat16 comes as float32")
def bits_of_bfloat16(x):
    if x.dtype == torch.bfloat16:
        x = x.view(torch.int16)
    return x.detach().cpu().numpy()


@wrong("the array is float64, not float32", row="an array with x's shape and values")
def through_a_list(x):
    return np.array(x.tolist())


@wrong("has shape [0], not [0,3]", row="an array with x's shape and values")
def through_a_list_with_dtype(x):
    names = {torch.bfloat16: "float32"}
    return np.array(x.tolist(), dtype=names.get(x.dtype, str(x.dtype).removeprefix("torch.")))


@wrong("the array of a single number has shape [1], not []", row="an array with x's shape and values")
def at_least_one_dimension(x):
    x = x.detach().cpu()
    return np.atleast_1d((x.float() if x.dtype == torch.bfloat16 else x).numpy())


@wrong("has shape [15], not [5,3]", row="an array with x's shape and values")
def flattened(x):
    x = x.detach().cpu().flatten()
    return (x.float() if x.dtype == torch.bfloat16 else x).numpy()


@wrong("is a NumPy float32, not a NumPy array", row="an array with x's shape and values")
def a_number_for_a_number(x):
    x = x.detach().cpu()
    return (x.float() if x.dtype == torch.bfloat16 else x).numpy()[()]


@wrong("the array is a Tensor, not a NumPy array", row="an array with x's shape and values")
def still_a_tensor(x):
    return x.detach().cpu()


@wrong("the array is a list, not a NumPy array", row="an array with x's shape and values")
def a_list(x):
    return x.tolist()


@wrong("the array was returned before its numbers had arrived", row="an array with x's shape and values")
def without_waiting(x):
    x = x.detach()
    x = x.float() if x.dtype == torch.bfloat16 else x
    return x.to("cpu", non_blocking=True).numpy()


@wrong("is None: is a `return` missing?", row="an array with x's shape and values")
def forgets_to_return(x):
    x.detach().cpu().float().numpy()


@wrong("the input `x` was changed in place", row="bfloat16 comes as float32")
def leaves_the_graph_for_good(x):
    x.requires_grad_(False) if x.is_leaf else x.detach_()
    return (x.float() if x.dtype == torch.bfloat16 else x).cpu().numpy()


@wrong("Can't detach views in-place", row="an array with x's shape and values")
def detaches_in_place(x):
    x.detach_()
    return (x.float() if x.dtype == torch.bfloat16 else x).cpu().numpy()


@wrong("the input `x` was changed in place", row="an array with x's shape and values")
def moves_the_input(x):
    x.data = x.data.cpu().float() if x.dtype == torch.bfloat16 else x.data.cpu()
    return x.detach().numpy()


@wrong("has no attribute 'numpy'", row="an array with x's shape and values")
def through_the_data_attribute_of_a_list(x):
    return x.tolist().numpy()


@wrong("the array is object, not float32", row="an array with x's shape and values")
def an_array_of_objects(x):
    return np.array(x.tolist(), dtype=object)


@wrong("the array of a bfloat16 tensor holds nan or inf", row="bfloat16 comes as float32")
def by_way_of_half(x):
    return (x.half().float() if x.dtype == torch.bfloat16 else x).detach().cpu().numpy()


@wrong("the gradient of x is gone after the call", row="with a gradient or without, x as it was")
def wipes_the_gradient(x):
    if x.is_leaf:
        x.grad = None
    return (x.float() if x.dtype == torch.bfloat16 else x).detach().cpu().numpy()


@wrong("the array of large integers", row="x's own dtype")
def integers_by_way_of_float64(x):
    x = x.detach().cpu()
    if x.dtype == torch.int64:
        return x.double().numpy().astype("int64")
    return (x.float() if x.dtype == torch.bfloat16 else x).numpy()


@wrong("complex64", row="x's own dtype")
def complex_numbers_of_one_width(x):
    x = x.detach().cpu()
    if x.is_complex():
        return x.to(torch.complex64).numpy()
    return (x.float() if x.dtype == torch.bfloat16 else x).numpy()


@right
def float32_where_numpy_refuses(x):
    x = x.detach().to("cpu")
    try:
        return x.numpy()
    except TypeError:
        return x.to(torch.float32).numpy()
