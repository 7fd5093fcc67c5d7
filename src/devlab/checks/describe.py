"""Values in a few words, as verdicts print them: `f32[4,3] sim:0`, not pages of numbers."""

import re
from collections.abc import Callable, Mapping
from functools import partial

import numpy
import torch

SHORT_DTYPES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
}
PLAIN = frozenset({type(None), bool, int, float, complex})
UNCHANGING = PLAIN | {torch.device, torch.dtype}
LONGEST = 120
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+>$")
MOST_ITEMS = 6


def describe(value: object) -> str:
    """Return a short description of any value: type, shape, dtype and device of each tensor in it.

    >>> describe({"x": torch.zeros(4, 3), 2: "k"})
    '{"x": f32[4,3] cpu, 2: "k"}'
    >>> describe(torch.nn.Linear(2, 1))
    'Linear on cpu'
    >>> describe(object())
    'an object'
    """
    try:
        return shorten(_describe(value))
    except Exception:  # a learner's own class may have a __repr__ that fails
        return a_type(value)


def describe_later(value: object) -> Callable[[], str]:
    """Return what gives the description of a value as it is now, whenever it is asked: mostly nobody asks.

    >>> x = torch.zeros(3)
    >>> later = describe_later(x)
    >>> _ = x.resize_(2)
    >>> later()
    'f32[3] cpu'
    """
    if type(value) is torch.Tensor and value.dim():
        return partial(_form, value.dtype, value.shape, value.device)
    return partial(describe, value) if type(value) in UNCHANGING else partial(str, describe(value))


def a_type(value: object) -> str:
    """Return the type of a value with its article: `a str`, `an int`.

    >>> a_type("x")
    'a str'
    >>> a_type(numpy.float64(1))
    'a NumPy float64'
    """
    if type(value) is numpy.ndarray:
        return "a NumPy array"
    name = f"{'NumPy ' if isinstance(value, numpy.generic) else ''}{type(value).__name__}"
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def shorten(text: str, longest: int = LONGEST) -> str:
    """Return the text on one line, cut in the middle of nothing: long text ends in an ellipsis.

    >>> shorten("one  two", 5)
    'one …'
    """
    flat = " ".join(text.split())
    return flat if len(flat) <= longest else flat[: longest - 1] + "…"


def describe_tensor(tensor: torch.Tensor) -> str:
    """Return dtype, shape and device of a tensor, and its value where it is a single number.

    >>> describe_tensor(torch.tensor([1.0, 2.0]))
    'f32[2] cpu'
    >>> describe_tensor(torch.tensor(3))
    'i64[] cpu, value 3'
    """
    text = _form(tensor.dtype, tensor.shape, tensor.device)
    if tensor.dim() == 0 and tensor.device.type != "meta":
        text += f", value {tensor.item():.6g}" if tensor.is_floating_point() else f", value {tensor.item()}"
    return text


def _form(dtype: torch.dtype, shape: torch.Size, device: torch.device) -> str:
    short = SHORT_DTYPES.get(dtype, str(dtype).removeprefix("torch."))
    return f"{short}[{','.join(map(str, shape))}] {device}"


def describe_array(array: numpy.ndarray) -> str:
    """Return dtype and shape of a NumPy array, its value where it is a single number, and what is odd in it.

    >>> describe_array(numpy.zeros((3, 2))[::-1])
    'array f64[3,2], strides (-16, 8)'
    """
    known = getattr(torch, array.dtype.name, None)
    dtype = SHORT_DTYPES.get(known, array.dtype.name)
    text = f"array {dtype}[{','.join(map(str, array.shape))}]"
    if array.ndim == 0:
        value = array.item()
        text += f", value {value:.6g}" if isinstance(value, float) else f", value {value}"
    if any(step < 0 for step in array.strides):
        text += f", strides {array.strides}"
    return text if array.flags.writeable else f"{text}, read-only"


def _describe(value: object) -> str:
    if type(value) is torch.Tensor:
        return describe_tensor(value)
    if type(value) in PLAIN:
        return repr(value)
    if isinstance(value, torch.nn.Parameter):
        return f"Parameter {describe_tensor(value.data)}"
    if isinstance(value, torch.Tensor):
        return describe_tensor(value)
    if isinstance(value, numpy.ndarray):
        return describe_array(value)
    if isinstance(value, torch.nn.Module):
        return describe_module(value)
    if isinstance(value, Mapping):
        inside = [f"{_describe(key)}: {_describe(item)}" for key, item in list(value.items())[:MOST_ITEMS]]
        return "{" + _listed(inside, len(value)) + "}"
    if isinstance(value, list | tuple | set | frozenset):
        return _describe_collection(value)
    if isinstance(value, torch.device):
        return f'device("{value}")'
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, type):
        return f"the class {value.__name__}"
    # An address in memory says nothing, and differs at every run.
    return a_type(value) if ADDRESS.search(text := repr(value)) else text


def _describe_collection(value: list | tuple | set | frozenset) -> str:
    inside = _listed([_describe(item) for item in list(value)[:MOST_ITEMS]], len(value))
    if isinstance(value, list):
        return f"[{inside}]"
    if isinstance(value, tuple):
        name = type(value).__name__ if hasattr(value, "_fields") else ""
        return f"{name}({inside})"
    return "{" + inside + "}" if value else "an empty set"


def _listed(inside: list[str], count: int) -> str:
    return ", ".join(inside + ["…"] * (count > len(inside)))


def describe_module(module: torch.nn.Module) -> str:
    """Return a module's class and the devices of what it registered.

    >>> describe_module(torch.nn.ReLU())
    'ReLU'
    """
    places = {str(tensor.device) for tensor in [*module.parameters(), *module.buffers()]}
    name = type(module).__name__
    return f"{name} on {' and '.join(sorted(places))}" if places else name
