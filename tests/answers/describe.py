"""Answers to describe."""

import torch
from bank import right, wrong


@right
def in_one_line(x):
    return f"{x.dtype} {list(x.shape)} {x.device}"


@right
def as_a_tuple_of_words(x):
    return f"shape={tuple(x.shape)}, dtype={x.dtype}, device={x.device}"


@right
def with_pytorchs_size(x):
    return " | ".join(map(str, (x.shape, x.dtype, x.device)))


@right
def repr_of_all_three(x):
    return f"shape: {x.size()!r}\ndtype: {x.dtype!r}\ndevice: {x.device!r} ({x.device})"


@right
def short_as_devlab(x):
    dtype = str(x.dtype).removeprefix("torch.")
    return f"{dtype}{str(list(x.shape)).replace(' ', '')} on {x.device}"


@right
def with_crosses(x):
    shape = "x".join(map(str, x.shape)) or "scalar"
    return f"<{shape}> {x.dtype} @ {x.device}"


@right
def with_more_to_say(x):
    return (
        f"device {x.device}; dtype {x.dtype}; shape {tuple(x.shape)}; "
        f"{x.numel()} elements, requires_grad={x.requires_grad}"
    )


@right
def from_the_empty_like(x):
    meta = torch.empty_like(x, device="meta")
    return "%s %s %s" % (meta.dtype, meta.size(), x.device)  # noqa: UP031


@wrong("the shape [4,3] is not in the text", row="it names the shape")
def no_shape(x):
    return f"{x.dtype} on {x.device}"


@wrong("the dtype torch.float32 is not in the text", row="it names the dtype")
def no_dtype(x):
    return f"{list(x.shape)} on {x.device}"


@wrong("is not in the text", row="it names the device, with its index")
def no_device(x):
    return f"{x.dtype} {list(x.shape)}"


@wrong("the device {device} is not in the text", row="it names the device, with its index")
def kind_of_device(x):
    return f"{x.dtype} {list(x.shape)} {x.device.type}"


@wrong("the device {device} is not in the text", row="it names the device, with its index")
def said_to_be_on_the_cpu(x):
    return f"{x.dtype} {list(x.shape)} cpu"


@wrong("the shape [4,3] is not in the text", row="it names the shape")
def the_tensor_itself(x):
    return f"{x} {x.dtype} {x.device}"


@wrong("the shape [4,3] is not in the text", row="it names the shape")
def how_many(x):
    return f"{x.numel()} elements, {x.dtype}, {x.device}"


@wrong("the shape [4,3] is not in the text", row="it names the shape")
def how_many_dimensions(x):
    return f"{x.dim()} dimensions, {x.dtype}, {x.device}"


@wrong("your code raised", row="it names the shape")
def rows_and_columns(x):
    return f"{x.shape[0]}x{x.shape[1]} {x.dtype} {x.device}"


@wrong("the shape [4,3] is not in the text", row="it names the shape")
def only_the_length(x):
    return f"{len(x)} rows, {x.dtype}, {x.device}"


@wrong("the shape", row="it names the shape")
def reversed_shape(x):
    return f"{list(x.shape)[::-1]} {x.dtype} {x.device}"


@wrong("is None: is a `return` missing?", row="it names the shape")
def prints(x):
    print(x.shape, x.dtype, x.device)


@wrong("not a str", row="it names the shape")
def three_values(x):
    return x.shape, x.dtype, x.device


@wrong("the dtype torch.float16 is not in the text", row="it names the dtype")
def always_float32(x):
    return f"torch.float32 {list(x.shape)} {x.device}"


@wrong("the dtype", row="it names the dtype")
def legacy_type(x):
    return f"{x.type()} {list(x.shape)} {x.device}"


@wrong("fetched values from the device", row="it reads no value")
def with_its_mean(x):
    if x.numel() and x.is_floating_point():
        return f"{x.dtype} {list(x.shape)} {x.device}, mean {x.mean().item():.3f}."
    return f"{x.dtype} {list(x.shape)} {x.device}"


@wrong("fetched values from the device", row="it reads no value")
def with_its_values(x):
    return f"{x} {list(x.shape)} {x.dtype} {x.device}"


@wrong("the dtype torch.int64 is not in the text", row="it names the dtype")
def as_floats(x):
    x = x if x.is_floating_point() else x.float()
    return f"{x.dtype} {list(x.shape)} {x.device}"


@wrong("is not in the text", row="it names the device, with its index")
def moved_first(x):
    x = x.cpu()
    return f"{x.dtype} {list(x.shape)} {x.device}"


@right
def device_and_a_colon(x):
    return f"{x.device}: {x.dtype} {list(x.shape)}"


@right
def crossed_and_counted(x):
    size = "x".join(map(str, x.shape)) or "[]"
    return f"{size}, {x.numel()} elements, {x.dtype}, {x.device}"


@wrong("describing the tensor fetched values from the device", row="it reads no value")
def reads_a_single_number(x):
    shape = list(x.shape) if x.ndim else f"[] ({x.item()})"
    return f"{x.dtype} {shape} {x.device}"


@wrong("describing the tensor fetched values from the device", row="it reads no value")
def reads_what_is_large(x):
    extra = f" mean {x.float().mean():.2f}" if x.numel() >= 100 else ""
    return f"{x.dtype} {list(x.shape)} {x.device}{extra}"


@right
def with_underscores(x):
    return f"{x.dtype}_{list(x.shape)}_{x.device}"


@wrong("the dtype torch.float64 is not in the text", row="it names the dtype")
def all_floats_alike(x):
    dtype = "torch.float32" if x.dtype == torch.float64 else str(x.dtype)
    return f"{dtype} {list(x.shape)} {x.device}"


@wrong("the shape [4,3] is not in the text", row="it names the shape")
def its_strides(x):
    return f"{x.dtype} {x.stride()} {x.device}"


@wrong("is not in the text", row="it names the device, with its index")
def the_index_alone(x):
    return f"{x.dtype} {tuple(x.shape)} {x.get_device()}"


@right
def by_format(x):
    return f"{list(x.shape)} {x.dtype} {x.device}"


@right
def by_percent(x):
    return "{} on {}: {}".format(
        str(x.dtype).replace("torch.", ""), x.device, "x".join(map(str, x.shape)) or "()"
    )


@wrong("the shape [2,3,1,4] is not in the text", row="it names the shape")
def three_sizes_at_most(x):
    return f"{x.dtype} {list(x.shape[:3])} {x.device}"


@wrong("describing the tensor fetched values from the device", row="it reads no value")
def reads_what_asks_for_a_gradient(x):
    extra = f" norm {x.norm():.3g}" if x.requires_grad else ""
    return f"{x.dtype} {list(x.shape)} {x.device}{extra}"
