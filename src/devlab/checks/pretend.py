"""Another machine, pretended: what PyTorch says there of the accelerators that it has."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import CodeType, FunctionType, SimpleNamespace
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

# What PyTorch shows to a function mode although it makes no tensor.
MAKES_NO_TENSOR = (torch.device, torch.get_device_module, torch.get_default_device)
# How a tensor is asked where it is.
ADDRESS = {
    torch.Tensor.device.__get__: lambda place: place,
    torch.Tensor.get_device: lambda place: place.index,
    torch.Tensor.is_cuda.__get__: lambda place: place.type == "cuda",
    torch.Tensor.is_mps.__get__: lambda place: place.type == "mps",
    torch.Tensor.is_cpu.__get__: lambda place: place.type == "cpu",
}
PRETENDED = ("cuda", "mps", "xpu")
NO_DRIVER = "Found no NVIDIA driver on your system (pretended for this check)"


class Machine(TorchFunctionMode):
    """A machine with NVIDIA GPUs of these names, or with none; `other` names another kind that it has.

    `built` says whether PyTorch was built for CUDA, and `idle` names a kind that it was built for and that
    is not here. Questions are answered as PyTorch answers them there. A tensor that is wanted on an
    accelerator is made on the CPU and says that it is there, or is refused where there is none.
    """

    def __init__(
        self,
        names: Sequence[str],
        current: int = 0,
        built: bool = True,
        other: str | None = None,
        idle: str | None = None,
    ):
        super().__init__()
        self.names = list(names)
        self.current = current
        self.built = built
        self.other = other
        self.idle = idle
        self._placed: dict[int, tuple[torch.Tensor, torch.device]] = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in MAKES_NO_TENSOR:
            return func(*args, **kwargs)
        if func in ADDRESS and id(args[0]) in self._placed:
            return ADDRESS[func](self._placed[id(args[0])][1])
        moves = getattr(func, "__name__", "") == "cuda"
        wanted = [torch.device(one) for one in (*args, *kwargs.values()) if _is_accelerator(one)]
        if not (moves or wanted):
            return self._result(func, args, kwargs)
        place = self._place(wanted[0] if wanted else torch.device("cuda"))
        if args and isinstance(args[0], torch.Tensor):
            made = args[0].clone()
        else:
            here = {name: "cpu" if _is_accelerator(one) else one for name, one in kwargs.items()}
            made = func(*args, **here)
        self._placed[id(made)] = (made, place)
        return made

    def _result(self, func: Callable, args: tuple, kwargs: dict) -> object:
        """Call a function; where it makes a tensor of one that says it is elsewhere, so does that."""
        made = func(*args, **kwargs)
        place = next((self._placed[id(one)][1] for one in args if id(one) in self._placed), None)
        if place is None or not isinstance(made, torch.Tensor):
            return made
        if getattr(func, "__name__", "") == "cpu" or any(map(_is_cpu, (*args, *kwargs.values()))):
            return made.clone()
        self._placed[id(made)] = (made, place)
        return made

    def device_count(self) -> int:
        """Answer `torch.cuda.device_count()`."""
        return len(self.names)

    def is_available(self) -> bool:
        """Answer `torch.cuda.is_available()`."""
        return bool(self.names)

    def current_device(self) -> int:
        """Answer `torch.cuda.current_device()`."""
        self._require_gpus()
        return self.current

    def set_device(self, device) -> None:
        """Stand for `torch.cuda.set_device(device)`."""
        self.current = self._index(device)

    def device(self, device) -> contextlib.AbstractContextManager[None]:
        """Stand for `with torch.cuda.device(device):`."""
        return self._while_current(self.set_device, device)

    @contextlib.contextmanager
    def _while_current(self, choose: Callable, device) -> Iterator[None]:
        before = self.current
        choose(device)
        try:
            yield
        finally:
            self.current = before

    def init(self) -> None:
        """Stand for `torch.cuda.init()`."""
        self._require_gpus()

    def synchronize(self, device=None) -> None:
        """Stand for `torch.cuda.synchronize(device)`: here nothing is ever under way."""
        self._index(device)

    def mem_get_info(self, device=None) -> tuple[int, int]:
        """Answer `torch.cuda.mem_get_info(device)`: nothing is in use."""
        return (self.get_device_properties(device).total_memory,) * 2

    def get_device_properties(self, device=None) -> SimpleNamespace:
        """Answer `torch.cuda.get_device_properties(device)`."""
        return _CudaDeviceProperties(
            name=self.names[self._index(device)], total_memory=16 << 30, major=9, minor=0
        )

    def get_device_name(self, device=None) -> str:
        """Answer `torch.cuda.get_device_name(device)`."""
        return self.get_device_properties(device).name

    def is_built(self) -> bool:
        """Answer `torch.backends.cuda.is_built()`."""
        return self.built

    def accelerator_available(self) -> bool:
        """Answer `torch.accelerator.is_available()`."""
        return bool(self.names or self.other)

    def accelerator_count(self) -> int:
        """Answer `torch.accelerator.device_count()`."""
        return len(self.names) or int(bool(self.other))

    def current_accelerator(self, check_available: bool = False) -> torch.device | None:
        """Answer `torch.accelerator.current_accelerator()`: what the build is for, unless asked to check."""
        kind = "cuda" if self.names else self.other or self.idle or ("cuda" if self.built else None)
        if kind is None or (check_available and not self.accelerator_available()):
            return None
        return torch.device(kind)

    def current_accelerator_index(self) -> int:
        """Answer `torch.accelerator.current_device_index()`."""
        return 0 if self.other and not self.names else self.current_device()

    def set_accelerator_index(self, device) -> None:
        """Stand for `torch.accelerator.set_device_index(device)`."""
        if self.names or not self.other:
            self.set_device(device)

    def accelerator_index(self, device) -> contextlib.AbstractContextManager[None]:
        """Stand for `with torch.accelerator.device_index(device):`."""
        return self._while_current(self.set_accelerator_index, device)

    def has(self, kind: str) -> bool:
        """Answer `torch.backends.mps.is_available()`, and the like for other kinds than CUDA."""
        return self.other == kind

    def is_built_for(self, kind: str) -> bool:
        """Answer `torch.backends.mps.is_built()`."""
        return kind in (self.other, self.idle)

    def _place(self, wanted: torch.device) -> torch.device:
        if wanted.type == "cuda":
            self._require_gpus()
            return torch.device("cuda", self.current if wanted.index is None else wanted.index)
        if wanted.type != self.other:
            raise RuntimeError(f"PyTorch is not linked with support for {wanted.type} devices (pretended)")
        return torch.device(wanted.type, wanted.index or 0)

    def _index(self, device) -> int:
        self._require_gpus()
        if device is not None and not isinstance(device, int):
            device = torch.device(device)
            if device.type != "cuda":
                raise ValueError(f"Expected a cuda device, but got: {device}")
            device = device.index
        index = self.current if device is None else device
        if not 0 <= index < len(self.names):
            raise AssertionError("Invalid device id")
        return index

    def _require_gpus(self) -> None:
        if not self.names:
            raise RuntimeError(NO_DRIVER)


class _CudaDeviceProperties(SimpleNamespace):
    """What `torch.cuda.get_device_properties` returns, under the name that it has there."""


def _is_cpu(value: object) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cpu"
    return isinstance(value, str) and value.partition(":")[0] == "cpu"


def _is_accelerator(value: object) -> bool:
    if isinstance(value, torch.device):
        return value.type in PRETENDED
    return isinstance(value, str) and value.partition(":")[0] in PRETENDED


@contextlib.contextmanager
def machine(answer: Callable, names: Sequence[str], **options) -> Iterator[Machine]:
    """Let the answer believe, for a block, that it runs on such a `Machine`.

    PyTorch's questions are pretended under any name and in any container that the answer keeps them in, as
    after `from torch.cuda import is_available`.

    >>> with machine(print, ["NVIDIA T4"]):
    ...     torch.cuda.is_available(), torch.cuda.get_device_name(0)
    (True, 'NVIDIA T4')
    """
    pretended = Machine(names, **options)
    pairs = [
        (torch.cuda, "is_available", pretended.is_available),
        (torch.cuda, "device_count", pretended.device_count),
        (torch.cuda, "current_device", pretended.current_device),
        (torch.cuda, "set_device", pretended.set_device),
        (torch.cuda, "device", pretended.device),
        (torch.cuda, "init", pretended.init),
        (torch.cuda, "synchronize", pretended.synchronize),
        (torch.cuda, "mem_get_info", pretended.mem_get_info),
        (torch.cuda, "get_device_name", pretended.get_device_name),
        (torch.cuda, "get_device_properties", pretended.get_device_properties),
        (torch.version, "cuda", "12.8" if pretended.built else None),
        (torch.backends.cuda, "is_built", pretended.is_built),
        (torch.backends.mps, "is_available", partial(pretended.has, "mps")),
        (torch.backends.mps, "is_built", partial(pretended.is_built_for, "mps")),
        (torch.mps, "is_available", partial(pretended.has, "mps")),
        (torch.mps, "device_count", lambda: int(pretended.has("mps"))),
        (torch.xpu, "is_available", partial(pretended.has, "xpu")),
        (torch.xpu, "device_count", lambda: int(pretended.has("xpu"))),
        (torch.accelerator, "is_available", pretended.accelerator_available),
        (torch.accelerator, "device_count", pretended.accelerator_count),
        (torch.accelerator, "current_accelerator", pretended.current_accelerator),
        (torch.accelerator, "current_device_index", pretended.current_accelerator_index),
        (torch.accelerator, "set_device_index", pretended.set_accelerator_index),
        (torch.accelerator, "device_index", pretended.accelerator_index),
    ]
    theirs = getattr(inspect.unwrap(answer), "__globals__", {})
    with contextlib.ExitStack() as stack:
        for module, name, value in pairs:
            real = getattr(module, name, None)
            function = inspect.unwrap(real) if callable(real) else None
            if inspect.isfunction(function) and not function.__code__.co_freevars:
                forget = getattr(real, "cache_clear", lambda: None)  # some keep their first answer
                forget()
                stack.callback(forget)
                stack.enter_context(answered_by(function, value))
            elif callable(real):
                for own in [own for own, held in theirs.items() if held is real]:
                    stack.callback(theirs.__setitem__, own, real)
                    theirs[own] = value
            stack.enter_context(mock.patch.object(module, name, value, create=real is None))
        stack.enter_context(pretended)
        yield pretended


_answers: dict[int, Callable] = {}


@functools.cache
def _asking(number: int) -> CodeType:
    """Return the code of a function that gives whatever answer stands under a number."""
    here = f"__import__({__name__!r}, fromlist=['_'])"
    return eval(f"lambda *args, **kwargs: {here}._answers[{number}](*args, **kwargs)").__code__


@contextlib.contextmanager
def answered_by(function: FunctionType, answer: Callable) -> Iterator[None]:
    """Let a function of PyTorch answer something else, whoever holds it: its code is exchanged."""
    before = function.__code__
    number = id(function)
    _answers[number] = answer
    function.__code__ = _asking(number)
    try:
        yield
    finally:
        function.__code__ = before
        del _answers[number]
