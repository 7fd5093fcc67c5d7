"""The transcript of what a student's code returned, call by call, and its replay.

A value is written as JSON that says its kind: numbers, text and containers as they are, tensors by dtype,
shape, strides, device and bytes, arrays as tensors of the same numbers. A value whose class extends a type of
Python's, such as a named tuple, comes back as that type. A result that is an argument, or a view of an
argument, is written as that, and is so again in a replay. Any other value is opaque: only its type is named,
and a replay cannot put it back. Nothing is written of a tensor's graph.
"""

import base64
import builtins
import contextlib
import json
from binascii import b2a_base64
from collections.abc import Callable, Mapping, Sequence
from unittest import mock

import numpy
import torch

from devlab.checks.calls import AnswerRaised, Call
from devlab.checks.exercise import Exercise, Row
from devlab.checks.judge import judge_row
from devlab.checks.result import Outcome
from devlab.checks.settings import preserve_state
from devlab.checks.trial import Caller, Trial
from devlab.checks.values import is_simulated
from devlab.sim.data import on_host

MOST = 1 << 20  # characters of data that one exercise's results may take
CONTAINERS = {"Size": torch.Size, "list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
DTYPES = {str(one): one for one in vars(torch).values() if isinstance(one, torch.dtype)}
NAMES = {dtype: name for name, dtype in DTYPES.items()}  # quicker than str(dtype)


class Impossible(BaseException):
    """A replay reached what it cannot give; no `except Exception` of a row hides it."""


class Opaque:
    """Stands for a value that cannot be put back: any look at it ends the replay."""

    def __getattribute__(self, name: str):
        raise Impossible(name)

    def __bool__(self):
        raise Impossible("bool")

    __str__ = __repr__ = __eq__ = __iter__ = __len__ = __call__ = __getitem__ = __contains__ = __float__ = (
        __bool__
    )
    __hash__ = __index__ = __int__ = __add__ = __radd__ = __mul__ = __rmul__ = __lt__ = __gt__ = __bool__


def write(value: object, given: Sequence = ()) -> list:
    """Return a value as plain data for `as_json`; `given` holds the arguments that it may be or be a view of.

    >>> write((1, "a"))
    ['tuple', [['is', 1], ['is', 'a']]]
    >>> write(len)
    ['opaque', 'builtin_function_or_method']
    """
    kind = type(value)  # `isinstance` would ask a student's object for its class
    if issubclass(kind, numpy.generic):
        value = value.item()
        kind = type(value)
    if value is None or kind is bool or (issubclass(kind, int) and int.bit_length(value) < 1000):
        return ["is", value]
    for place, one in enumerate(given):
        if one is value:
            return ["given", place]
    if kind in (torch.Tensor, torch.nn.Parameter):
        return _write_view(value, given) or _write_tensor(value)
    if issubclass(kind, str):
        return ["is", value]
    for base in (float, complex):
        if issubclass(kind, base):
            return [base.__name__, base.__repr__(value)]
    if kind in (torch.device, torch.dtype):
        return [kind.__name__, str(value)]
    if issubclass(kind, dict):
        return ["dict", [[write(key, given), write(one, given)] for key, one in dict.items(value)]]
    for name, base in CONTAINERS.items():
        if issubclass(kind, base):
            return [name, [write(one, given) for one in base.__iter__(value)]]
    if issubclass(kind, numpy.ndarray) and f"torch.{value.dtype.name}" in DTYPES:
        return ["array", _write_array(value.astype(value.dtype.newbyteorder("="), order="C"))]
    return ["opaque", kind.__name__]


def as_json(written: object) -> str:
    """Return what was written as JSON; data is bytes until then."""
    return json.dumps(written, default=bytes.decode)


def read(data: list, given: Sequence = ()) -> object:
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
    if kind == "device":
        return torch.device(facts[0])
    if kind == "dtype":
        return DTYPES[facts[0]]
    if kind == "tensor":
        return _read_tensor(*facts)
    if kind == "view":
        return _read_view(given, *facts)
    if kind == "array":
        return read(facts[0]).numpy()
    if kind == "dict":
        return {read(key, given): read(one, given) for key, one in facts[0]}
    if kind in CONTAINERS:
        return CONTAINERS[kind]([read(one, given) for one in facts[0]])
    if kind == "opaque":
        return Opaque()
    raise ValueError(f"{kind!r} is nothing that is written")


def inside(value: object) -> list:
    """Return a value and all that is in it, in order: what a result may turn out to be.

    >>> inside([1, (2,)])
    [[1, (2,)], 1, (2,), 2]
    """
    items = value if isinstance(value, (list, tuple)) else ()
    # To ask a tensor whether it is a mapping takes long, and every call has some.
    if type(value) is not torch.Tensor and isinstance(value, Mapping):
        items = list(value.values())
    return [value, *(found for one in items for found in inside(one))]


def _write_view(value: torch.Tensor, given: Sequence) -> list | None:
    """Return a tensor as a view of an argument; None where its memory is no argument's."""
    if value.layout is not torch.strided or value.is_meta or not value.untyped_storage().data_ptr():
        return None
    for place, one in enumerate(given):
        alike = type(one) is torch.Tensor and one.device == value.device and one.layout is torch.strided
        if alike and one.untyped_storage().data_ptr() == value.untyped_storage().data_ptr():
            if value.is_conj() or value.is_neg():  # a view that says otherwise how the memory is read
                return ["opaque", "Tensor"]
            form = [list(value.shape), list(value.stride()), value.storage_offset()]
            return ["view", place, NAMES[value.dtype], *form, value.requires_grad]
    return None


def _read_view(given: Sequence, place: int, dtype: str, shape: list, stride: list, offset: int, grad: bool):
    base = given[place].detach()
    if str(base.dtype) != dtype:
        whole = base.untyped_storage().nbytes() // base.element_size()
        base = base.as_strided((whole,), (1,), 0).view(DTYPES[dtype])
    made = base.as_strided(shape, stride, offset)
    return made.requires_grad_() if grad else made


def _write_tensor(value: torch.Tensor) -> list:
    if value.layout is not torch.strided or value.is_quantized or value.is_meta:
        return ["opaque", "Tensor"]
    stride, data = list(value.stride()), b""
    if value.numel():
        # A simulated device's memory is read where it lies: a copy would take its time, and be seen.
        flat = on_host(value) if is_simulated(value) else value.detach()
        span = _span(flat.shape, stride)
        # A tensor that is read otherwise than its memory says, or that reaches far, is written in order.
        if value.is_conj() or value.is_neg() or span * value.element_size() > MOST:
            flat = flat.resolve_conj().resolve_neg().contiguous()
            stride, span = list(flat.stride()), flat.numel()
        flat = flat.as_strided((span,), (1,)).cpu().view(torch.uint8)
        data = b2a_base64(flat.numpy(), newline=False)
    facts = [NAMES[value.dtype], list(value.shape), stride, str(value.device), value.requires_grad]
    return ["tensor", *facts, value.is_cpu and value.is_pinned(), type(value).__name__, data]


def _write_array(value: numpy.ndarray) -> list:
    """Return what is written of a tensor of the same numbers; a row may count operators, so none is run."""
    stride = [step // value.itemsize for step in value.strides]
    facts = [f"torch.{value.dtype.name}", list(value.shape), stride, "cpu", False, False, "Tensor"]
    return ["tensor", *facts, b2a_base64(value.tobytes(), newline=False)]


def _span(shape: Sequence[int], stride: Sequence[int]) -> int:
    """Return how many elements lie from a tensor's first to its last."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))


def _read_tensor(dtype: str, shape: list, stride: list, device: str, grad, pinned, name: str, data: str):
    flat = torch.frombuffer(bytearray(base64.b64decode(data)) or bytearray(8), dtype=DTYPES[dtype])
    if not 0 <= _span(shape, stride) <= len(flat) or min([*shape, *stride, 0]) < 0:
        raise ValueError("there is less data than the tensor's shape says")
    made = flat.pin_memory() if pinned else flat.clone()
    made = (made if device == "cpu" else made.to(device)).as_strided(shape, stride)
    made = torch.nn.Parameter(made, grad) if name == "Parameter" else made
    return made.requires_grad_() if grad else made


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


class Recorder(Caller):
    """The calls of one exercise: for each row on each device a list, in the order of the judgement.

    A call is {"of": label}, with "gave" the result or "raised" the error, and "left" what became of arguments
    that the row lets an answer change. Arguments are not kept: the replay makes them anew.
    """

    def __init__(self):
        self.rows: list[list[dict]] = []
        self.left = MOST

    def take(self) -> str:
        """Return what was recorded, as JSON, and begin anew."""
        rows, self.rows, self.left = self.rows, [], MOST
        return as_json(rows)

    def row(self) -> None:
        """Begin the next row."""
        self.rows.append([])

    def call(self, trial: Trial, function: Callable, args: tuple, label: str, changes: bool, log) -> object:
        """Make a call and keep it; what it raises goes on."""
        entry = {"of": label}
        if self.rows:
            self.rows[-1].append(entry)
        # Where an answer may free its arguments, the recorder must not keep them alive.
        given = None if changes else inside(args)
        try:
            result = super().call(trial, function, args, label, changes, log)
        except AnswerRaised as raised:
            entry["raised"] = write_error(raised.error)
            raise
        entry["gave"] = self._write(result, inside(args) if changes else given)
        if changes:
            entry["left"] = self._write(args)
        return result

    def _write(self, value: object, given: Sequence = ()) -> list:
        if self.left <= 0:
            return ["opaque", "more than is kept"]
        written = write(value, given)
        self.left -= len(as_json(written))
        return written if self.left > 0 else ["opaque", "more than is kept"]


# How a row asks a device's module about memory; a replay cannot know what the student's code took.
MEMORY = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
MEMORY += ("memory_stats", "mem_get_info")


class Differs(BaseException):
    """The row asked for something other than the transcript says, or the transcript is none."""


class Tape(Caller):
    """The calls of one row on one device, given back one by one.

    `watched` tells whether the row also logged what the code did, which no transcript holds; `blind` whether
    the code was given a function, which a replay does not call.
    """

    replays = True

    def __init__(self, calls: Sequence[dict]):
        self.calls = list(calls)
        self.watched = self.blind = False

    def call(self, trial: Trial, function: Callable, args: tuple, label: str, changes: bool, log) -> object:
        """Give back a call's result or raise its error, and change arguments as it changed them."""
        trial.last_call = Call(label, {})
        if not self.calls:
            raise Differs
        given = inside(args)
        self.blind |= any(callable(one) and not isinstance(one, torch.nn.Module) for one in given)
        self.watched |= log is not None
        with log or contextlib.nullcontext():  # the log stays empty
            pass
        try:
            return self._again(self.calls.pop(0), args, given, label, changes)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as wrong:
            raise Differs from wrong  # nothing that a recorder writes

    def _again(self, call: dict, args: tuple, given: list, label: str, changes: bool) -> object:
        if call["of"] != label:
            raise Differs
        if "raised" in call:
            raise AnswerRaised(read_error(*call["raised"]))
        if changes:
            _change(args, read(call["left"]))
            given = inside(args)
        return read(call["gave"], given)


def judge_again(
    exercise: Exercise, row: Row, device: torch.device, devices: Sequence, seed: int, calls: Sequence[dict]
) -> tuple[str, bool]:
    """Return what a row's transcript says of it, and whether the row watched the code at work.

    It "passes" or "fails"; it is "unread" where what the code gave cannot be put back, and "a claim" where
    the code was given something to call, so that another transcript may be as right.
    """
    tape = Tape(calls)
    try:
        with preserve_state(), _memory_unknown():
            found = judge_row(exercise, row, _stand_in(exercise), device, devices, seed, tape)
    except Differs:
        return "fails", tape.watched
    except (Impossible, RuntimeError):
        judged = False
    else:
        if found.outcome is Outcome.PASSED and not tape.calls:
            return "passes", tape.watched
        judged = found.outcome in (Outcome.FAILED, Outcome.ERROR) and "could not judge" not in found.headline
    return "a claim" if tape.blind else "fails" if judged else "unread", tape.watched


def places(exercise: Exercise, devices: Sequence[torch.device]) -> list[tuple[Row, torch.device]]:
    """Return each row with each device it is judged on, in the order of the judgement."""
    return [(row, device) for row in exercise.rows for device in devices if row.applies_to(device, devices)]


def _memory_unknown() -> contextlib.AbstractContextManager:
    """Return a block in which no row learns how much memory an answer took."""

    def memory(*_: object, **__: object) -> None:
        raise Impossible("memory")

    module = torch.get_device_module(torch.accelerator.current_accelerator() or "cpu")
    names = {name: memory for name in MEMORY if hasattr(module, name)}
    return mock.patch.multiple(module, **names) if names else contextlib.nullcontext()


def _stand_in(exercise: Exercise) -> Callable:
    def answer(*_: object, **__: object) -> None:
        raise Impossible(exercise.name)

    answer.__name__ = exercise.name
    return type(exercise.name, (), {"__init__": answer}) if exercise.wants_class else answer


def _change(given: object, left: object) -> None:
    """Make arguments what they were after the call; raises Impossible where that is not to be had."""
    if isinstance(given, torch.Tensor) and given.shape == left.shape:
        given.detach().copy_(left)
    elif isinstance(given, list | tuple | dict) and len(given) == len(left):
        for key in given if isinstance(given, dict) else range(len(given)):
            _change(given[key], left[key])
    elif type(given) is not type(left) or given != left:
        raise Impossible("an argument")
