"""What passed between a row and a student's code, call by call, as plain data; and the same put back.

A value is written as JSON that says what it is: numbers, text and containers as they are, tensors and arrays
by dtype, shape, strides, device and bytes. What is one of the arguments, or a view of one, is written as
that: in a replay it is one again. Anything else is opaque: its type is named, and it cannot be put back. A
tensor's graph is not written: it comes back as a leaf.
"""

import base64
import builtins
import json
from binascii import b2a_base64
from collections.abc import Mapping

import numpy
import torch

from devlab.checks.reading import simulated
from devlab.sim.data import on_host

MOST = 1 << 20  # characters of data that one exercise's results may take
MARK = "\0data\0"  # stands for data while the rest becomes JSON
CONTAINERS = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "Size": torch.Size}
DTYPES = {str(one): one for one in vars(torch).values() if isinstance(one, torch.dtype)}
NAMES = {dtype: name for name, dtype in DTYPES.items()}  # to make one anew takes three times as long


class Impossible(BaseException):
    """A replay reached what it cannot give; no `except Exception` of a row hides it."""


class Opaque:
    """Stands for a value that cannot be put back: whoever looks at it learns that the replay ends here."""

    def __getattribute__(self, name: str):
        raise Impossible(name)

    def __bool__(self):
        raise Impossible("bool")

    __str__ = __repr__ = __eq__ = __iter__ = __len__ = __call__ = __getitem__ = __contains__ = __float__ = (
        __bool__
    )
    __hash__ = __index__ = __int__ = __add__ = __radd__ = __mul__ = __rmul__ = __lt__ = __gt__ = __bool__


def write(value: object, given: list | None = None) -> list:
    """Return a value as plain data for `as_json`; `given` holds what it may be or share memory with.

    >>> write((1, "a"))
    ['tuple', [['is', 1], ['is', 'a']]]
    >>> write(len)
    ['opaque', 'builtin_function_or_method']
    """
    kind = type(value)
    if value is None or kind is bool or (kind is int and value.bit_length() < 1000):
        return ["is", value]
    for place, one in enumerate(given or ()):
        if one is value:
            return ["given", place]
    if kind is str:
        return ["is", value]
    if kind in (float, complex):
        return [kind.__name__, repr(value)]
    if kind is bytes:
        return ["bytes", base64.b64encode(value)]
    if kind in (torch.device, torch.dtype):
        return [kind.__name__, str(value)]
    if kind in (torch.Tensor, torch.nn.Parameter):
        return _tensor(value, given or ())
    if isinstance(value, numpy.generic) or kind is numpy.ndarray:
        return _array(value, given or ())
    if kind is dict:
        return ["dict", [[write(key, given), write(one, given)] for key, one in value.items()]]
    if kind.__name__ in CONTAINERS and kind is CONTAINERS[kind.__name__]:
        return [kind.__name__, [write(one, given) for one in value]]
    for place, one in enumerate(given or ()):
        # A container of the caller's own kind, such as a namedtuple.
        if type(one) is kind and isinstance(value, tuple | dict):
            items = list(value.items()) if isinstance(value, dict) else list(value)
            return ["kind of", place, [write(item, given) for item in items]]
    return ["opaque", kind.__name__]


def length(written: list) -> int:
    """Return about how many characters what was written takes as JSON.

    >>> length(write("four"))
    10
    """
    if written[:1] == ["tensor"]:  # of which there are most: all but the data takes little
        return 100 + len(written[-1])
    total = 0
    for one in written:
        total += len(one) if type(one) in (str, bytes) else length(one) if type(one) is list else 4
    return total + 2 * len(written)


def as_json(written: list) -> str:
    """Return what was written as JSON.

    Data, which is bytes here and text there, goes in as it is: to look in it for what to escape takes longer
    than to make it.

    >>> as_json(write(b"four"))
    '["bytes", "Zm91cg=="]'
    """
    data: list[bytes] = []

    def marked(one: bytes) -> str:
        data.append(one)
        return MARK

    parts = json.dumps(written, default=marked).split(json.dumps(MARK))
    if len(parts) != len(data) + 1:  # somebody's text is the mark
        return json.dumps(written, default=bytes.decode)
    texts = [f'"{one.decode()}"{part}' for one, part in zip(data, parts[1:], strict=True)]
    return "".join([parts[0], *texts])


def read(data: list, given: list | None = None) -> object:
    """Return the value that was written; raises ValueError where the data is no such thing.

    >>> read(write({"x": [1.5, None]}))
    {'x': [1.5, None]}
    """
    kind, *facts = data
    if kind == "is":
        return facts[0]
    if kind == "given":
        return given[facts[0]]
    if kind in ("float", "complex"):
        return getattr(builtins, kind)(facts[0])
    if kind == "bytes":
        return base64.b64decode(facts[0])
    if kind == "device":
        return torch.device(facts[0])
    if kind == "dtype":
        return DTYPES[facts[0]]
    if kind == "tensor":
        return _made_tensor(*facts)
    if kind == "view":
        return _made_view(given, *facts)
    if kind in ("array", "number"):
        return _made_array(kind, *facts)
    if kind == "dict":
        return {read(key, given): read(one, given) for key, one in facts[0]}
    if kind in CONTAINERS:
        return CONTAINERS[kind]([read(one, given) for one in facts[0]])
    if kind == "kind of":
        wanted, items = type(given[facts[0]]), [read(one, given) for one in facts[1]]
        return wanted(*items) if hasattr(wanted, "_fields") else wanted(items)
    if kind == "opaque":
        return Opaque()
    raise ValueError(f"{kind!r} is nothing that is written")


def inside(value: object, found: list | None = None) -> list:
    """Return a value and all that is in it, in order: what a result may turn out to be.

    >>> inside([1, (2,)])
    [[1, (2,)], 1, (2,), 2]
    """
    found = [] if found is None else found
    found.append(value)
    if isinstance(value, (list, tuple)):
        for one in value:
            inside(one, found)
    # To ask a tensor whether it is a mapping takes long, and every call has some.
    elif type(value) is not torch.Tensor and isinstance(value, Mapping):
        for one in list(value.values()):
            inside(one, found)
    return found


def _tensor(value: torch.Tensor, given: list) -> list:
    plain = value.layout is torch.strided and not (value.is_conj() or value.is_neg() or value.is_quantized)
    if not plain:
        return ["opaque", "Tensor"]
    device, shape, stride = value.device, list(value.shape), list(value.stride())
    memory = 0 if value.is_meta else value.untyped_storage().data_ptr()
    for place, one in enumerate(given):
        if type(one) is torch.Tensor and memory and one.device == device:
            if one.untyped_storage().data_ptr() == memory:
                offset = value.storage_offset()
                return ["view", place, NAMES[value.dtype], shape, stride, offset, value.requires_grad]
        elif type(one) is numpy.ndarray and _has_numpy(value) and _meet(one, value.detach().numpy()):
            return ["opaque", "Tensor"]
    data, on_cpu = b"", value.is_cpu
    if memory:
        # A simulated device's memory is read where it lies: a copy would take its time, and be seen.
        flat = on_host(value) if simulated(value) else value.detach()
        if not (flat.is_cpu and flat.dtype in NUMPYS and flat.is_contiguous()):
            flat = flat.as_strided((_span(shape, stride),), (1,)).cpu().view(torch.uint8)
        data = b2a_base64(flat.numpy(), newline=False)
    facts = [NAMES[value.dtype], shape, stride, str(device), value.requires_grad]
    return ["tensor", *facts, on_cpu and value.is_pinned(), type(value).__name__, data]


def _span(shape: list[int], stride: list[int]) -> int:
    """Return how many elements lie from a tensor's first to its last."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))


def _made_tensor(
    dtype: str, shape: list, stride: list, device: str, grad: bool, pinned: bool, name: str, data: str
) -> torch.Tensor:
    if device == "meta":
        made = torch.empty_strided(shape, stride, dtype=DTYPES[dtype], device="meta")
    else:
        flat = torch.frombuffer(bytearray(base64.b64decode(data)) or bytearray(8), dtype=DTYPES[dtype])
        if (span := _span(shape, stride)) > len(flat) or min([*shape, *stride, 0]) < 0:
            raise ValueError("there is less data than the tensor's shape says")
        flat = flat[:span].pin_memory() if pinned else flat[:span].clone()
        made = (flat if device == "cpu" else flat.to(device)).as_strided(shape, stride)
    made = torch.nn.Parameter(made, grad) if name == "Parameter" else made
    return made.requires_grad_() if grad else made


def _made_view(given: list, place: int, dtype: str, shape: list, stride: list, offset: int, grad: bool):
    base = given[place].detach()
    if str(base.dtype) != dtype:
        base = base.as_strided((base.untyped_storage().nbytes() // base.element_size(),), (1,), 0)
        base = base.view(DTYPES[dtype])
    made = base.as_strided(shape, stride, offset)
    return made.requires_grad_() if grad else made


def _array(value, given: list) -> list:
    name = "array" if isinstance(value, numpy.ndarray) else "number"
    shared = name == "array" and any(
        _meet(value, one if isinstance(one, numpy.ndarray) else one.detach().numpy())
        for one in given
        if isinstance(one, numpy.ndarray)
        or (type(one) is torch.Tensor and one.is_cpu and one.dtype in NUMPYS)
    )
    if value.dtype.hasobject or shared or (name == "array" and not value.flags.c_contiguous):
        return ["opaque", "ndarray"]
    data = base64.b64encode(value.tobytes())
    return [name, value.dtype.str, list(value.shape), bool(value.flags.writeable), data]


def _meet(one: numpy.ndarray, other: numpy.ndarray) -> bool:
    return numpy.may_share_memory(one, other)  # by their bounds: exact answers can take forever


def _has_numpy(value: object) -> bool:
    return type(value) is torch.Tensor and value.is_cpu and value.dtype in NUMPYS


NUMPYS = frozenset(
    {torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8}
)
NUMPYS |= {torch.uint8, torch.bool}


def _made_array(name: str, dtype: str, shape: list, writeable: bool, data: str):
    made = numpy.frombuffer(bytearray(base64.b64decode(data)), dtype=numpy.dtype(dtype)).reshape(shape)
    made.flags.writeable = writeable
    return made if name == "array" else made[()]


def write_error(error: BaseException) -> list[str]:
    """Return what was raised: its type's name, or the nearest that Python or PyTorch has; and what it says.

    >>> write_error(ZeroDivisionError("twice"))
    ['ZeroDivisionError', 'twice']
    """
    try:
        said = str(error)[:4000]
    except Exception:  # a class of the student's may fail at it
        said = ""
    names = [one.__name__ for one in type(error).__mro__ if _error(one.__name__) is one]
    return [names[0] if names else type(error).__name__, said]


def read_error(name: str, said: str) -> Exception:
    """Return an exception of that name; raises Impossible where neither Python nor PyTorch has it."""
    if kind := _error(name):
        return kind(said)
    raise Impossible(name)


def _error(name: str) -> type[Exception] | None:
    kind = getattr(builtins, name, None) or getattr(torch, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, Exception) else None
