"""Reading what tensors hold, and values in a few words, as verdicts print them: `f32[4,3] sim:0`."""

import re
import sys
from collections.abc import Callable, Mapping
from functools import partial

import numpy
import torch
from torch.utils.data import DataLoader


def on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's elements in the host's memory; they may share it with the tensor.

    A simulated device's memory is read where it lies, so that no log shows a copy; the host waits for the
    device as a copy would.

    >>> on_cpu(torch.ones(2, requires_grad=True))
    tensor([1., 1.])
    """
    if tensor.is_cpu:
        return tensor.detach()
    return _read_simulated(tensor, wait=True) if is_simulated(tensor) else tensor.detach().cpu()


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of a tensor without waiting for its device; on a real device the copy stays there.

    >>> copy_of(torch.ones(2, requires_grad=True))
    tensor([1., 1.])
    """
    return (_read_simulated(tensor, wait=False) if is_simulated(tensor) else tensor.detach()).clone()


def is_simulated(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor is on a simulated device.

    >>> is_simulated(torch.ones(2))
    False
    """
    return not tensor.is_cpu and tensor.device.type == "sim"


def _read_simulated(tensor: torch.Tensor, wait: bool) -> torch.Tensor:
    # Looked up, not imported: `import` takes as long as all else here. Where the tensor is, the simulator is.
    return sys.modules["devlab.sim.crossing"].read(tensor, wait)


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
MOST_SHOWN = 8
WHOLE = frozenset({torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool})


def describe(value: object) -> str:
    """Return a short description of any value: type, shape, dtype and device of each tensor in it.

    >>> describe({"x": torch.zeros(4, 3), 2: "k"})
    '{"x": f32[4,3] cpu, 2: "k"}'
    >>> describe([torch.nn.Linear(2, 1), torch.tensor([2, 0])])
    '[Linear on cpu, i64[2] cpu [2, 0]]'
    >>> describe(object())
    'an object'
    """
    try:
        return shorten(_describe(value))
    except Exception:  # a learner's own class may have a __repr__ that fails
        return a_type(value)


def describe_later(value: object) -> Callable[[], str]:
    """Return a function that gives the description of a value as it is now; most are never called.

    >>> x = torch.zeros(3)
    >>> later = describe_later(x)
    >>> _ = x.resize_(2)
    >>> later()
    'f32[3] cpu'
    """
    if type(value) is torch.Tensor and value.dim() and not _is_shown(value):
        return partial(describe_form, value.dtype, value.shape, value.device, _graph(value))
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


def times(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> times(1, "transfer"), times(3, "loss"), times(2, "copy"), times(0, "batch"), times(2, "epoch")
    ('1 transfer', '3 losses', '2 copies', '0 batches', '2 epochs')
    >>> times(1, "time")
    'once'
    """
    if count == 1:
        return "once" if noun == "time" else f"1 {noun}"
    if noun.endswith(("s", "sh", "ch", "x")) and not noun.endswith("epoch"):  # its "ch" is spoken as k
        return f"{count} {noun}es"
    return f"{count} {noun[:-1]}ies" if noun[-2:-1] not in "aeiou" and noun[-1] == "y" else f"{count} {noun}s"


def shorten(text: str, longest: int = LONGEST) -> str:
    """Return the text on one line, cut in the middle of nothing: long text ends in an ellipsis.

    >>> shorten("one  two", 5)
    'one …'
    """
    flat = " ".join(text.split())
    return flat if len(flat) <= longest else flat[: longest - 1] + "…"


def describe_tensor(tensor: torch.Tensor) -> str:
    """Return dtype, shape and device of a tensor, whether it has a graph, and its values where they are few.

    Those are the value of a single number, and some integers or booleans, such as indices, labels, lengths.

    >>> describe_tensor(torch.tensor([1.0, 2.0]))
    'f32[2] cpu'
    >>> describe_tensor(torch.tensor(3))
    'i64[] cpu, value 3'
    >>> describe_tensor(torch.ones(2, requires_grad=True) * 2)
    'f32[2] cpu with a graph'
    """
    text = describe_form(tensor.dtype, tensor.shape, tensor.device, _graph(tensor))
    if _is_shown(tensor):
        return f"{text} {copy_of(tensor).tolist()}"
    if tensor.dim() == 0 and tensor.device.type != "meta":
        text += f", value {tensor.item():.6g}" if tensor.is_floating_point() else f", value {tensor.item()}"
    return text


def _graph(tensor: torch.Tensor) -> str:
    """Return words for what `backward` does with a tensor; "" where that is nothing."""
    if not tensor.requires_grad:
        return ""
    return " that requires a gradient" if tensor.is_leaf else " with a graph"


def _is_shown(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor is a few whole numbers that can be read at no cost."""
    few = tensor.dim() == 1 and 0 < len(tensor) <= MOST_SHOWN and tensor.dtype in WHOLE
    return few and (tensor.is_cpu or is_simulated(tensor))


def describe_form(dtype: torch.dtype, shape: torch.Size, device: torch.device, graph: str = "") -> str:
    """Return a tensor's dtype, shape and device in a few words.

    >>> describe_form(torch.int64, torch.Size([2, 3]), torch.device("cpu"))
    'i64[2,3] cpu'
    """
    short = SHORT_DTYPES.get(dtype, str(dtype).removeprefix("torch."))
    return f"{short}[{','.join(map(str, shape))}] {device}{graph}"


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
    if isinstance(value, torch.optim.Optimizer):
        count = sum(len(group["params"]) for group in value.param_groups)
        return f"{type(value).__name__} of {times(count, 'tensor')}"
    if isinstance(value, DataLoader):
        return f"a DataLoader of {times(len(value), 'batch')}"
    if isinstance(value, Mapping):
        inside = [f"{_describe(key)}: {_describe(item)}" for key, item in list(value.items())[:MOST_ITEMS]]
        return "{" + _join_items(inside, len(value)) + "}"
    if isinstance(value, list | tuple | set | frozenset):
        return _describe_collection(value)
    if isinstance(value, torch.device):
        return f'device("{value}")'
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, type):
        return f"the class {value.__name__}"
    # An address in memory says nothing, and differs at every run.
    return _unspoken(value) if ADDRESS.search(text := repr(value)) else text


def _unspoken(value: object) -> str:
    """Describe what has no words of its own; a name that only devlab's sources have says nothing either."""
    if not type(value).__module__.startswith("devlab."):
        return a_type(value)
    if callable(value):
        return "a function"
    return "something to iterate over" if hasattr(value, "__iter__") else "an object"


def _describe_collection(value: list | tuple | set | frozenset) -> str:
    inside = _join_items([_describe(item) for item in list(value)[:MOST_ITEMS]], len(value))
    if isinstance(value, list):
        return f"[{inside}]"
    if isinstance(value, tuple):
        name = type(value).__name__ if hasattr(value, "_fields") else ""
        return f"{name}({inside})"
    return "{" + inside + "}" if value else "an empty set"


def _join_items(inside: list[str], count: int) -> str:
    return ", ".join(inside + ["…"] * (count > len(inside)))


def describe_module(module: torch.nn.Module) -> str:
    """Return a module's class, what is inside of it, and the devices of what it registered.

    >>> describe_module(torch.nn.ReLU())
    'ReLU'
    >>> describe_module(torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.ReLU()))
    'Sequential(Linear, ReLU) on cpu'
    """
    places = {str(tensor.device) for tensor in [*module.parameters(), *module.buffers()]}
    inside = _parts(module)
    name = type(module).__name__ + (f"({_join_items(inside[:MOST_ITEMS], len(inside))})" if inside else "")
    return f"{name} on {' and '.join(sorted(places))}" if places else name


def _parts(module: torch.nn.Module) -> list[str]:
    """Return a module's own modules, and the tensors that it holds beside what it registered.

    Of a bare nn.Module, whose class says nothing, what it registered is named as well.
    """
    if isinstance(module, torch.nn.Sequential | torch.nn.ModuleList):
        return [type(child).__name__ for child in module]
    parts = [f"{name}: {type(child).__name__}" for name, child in module.named_children()]
    if type(module) is torch.nn.Module:
        parts += [f"{name}: a parameter" for name, _ in module.named_parameters(recurse=False)]
        parts += [f"{name}: a buffer" for name, _ in module.named_buffers(recurse=False)]
    plain = [(name, value) for name, value in vars(module).items() if isinstance(value, torch.Tensor)]
    return parts + [f"{name}: {describe_tensor(value)}" for name, value in plain]
