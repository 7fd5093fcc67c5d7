"""Another machine, pretended: its answers to PyTorch's questions, and tensors that say they are on it."""

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import CodeType, FunctionType, SimpleNamespace
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from devlab.checks.calls import plain_function
from devlab.checks.trial import Trial
from devlab.checks.values import times

# PyTorch shows these calls to a function mode although they make no tensor.
MAKES_NO_TENSOR = (torch.device, torch.get_device_module)
# Functions that make a tensor on the default device, where their arguments name no other.
FACTORIES = frozenset({"empty", "zeros", "ones", "full", "rand", "randn", "randint", "randperm", "arange"})
FACTORIES |= {"linspace", "eye", "tensor", "as_tensor", "asarray"}
MOVES = ("cuda", "xpu")  # methods that move a tensor
# The attributes and methods that tell where a tensor is.
ADDRESS = {
    torch.Tensor.device.__get__: lambda place: place,
    torch.Tensor.get_device: lambda place: place.index,
    torch.Tensor.is_cuda.__get__: lambda place: place.type == "cuda",
    torch.Tensor.is_mps.__get__: lambda place: place.type == "mps",
    torch.Tensor.is_xpu.__get__: lambda place: place.type == "xpu",
    torch.Tensor.is_cpu.__get__: lambda place: place.type == "cpu",
}
OTHERS = ("mps", "xpu")
PRETENDED = ("cuda", *OTHERS)
# The words of a PyTorch without CUDA about a GPU that only the check pretends.
REAL_ONES_MISSED = ("dummy base class", "ATen_cuda", "CUDA enabled", "'torch._C' has no attribute")
BEYOND = (
    "this GPU is pretended: it answers questions and lends tensors, and has no streams, events, generators "
    "or memory statistics of its own"
)
NO_DRIVER = "Found no NVIDIA driver on your system (pretended for this check)"


class Machine(TorchFunctionMode):
    """A machine with NVIDIA GPUs of these names, or with none; `other` names another kind that it has.

    `built` says whether PyTorch was built for CUDA, and `idle` names a kind that it was built for and that
    is not here. Questions are answered as PyTorch answers them there. A tensor that is wanted on an
    accelerator is made on the CPU and says that it is there, as does what comes of it, a parameter or a view
    as well; it is refused where there is no such device.
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
        # By storage, so that a view, a parameter and `.data` are where their tensor is.
        self._placed: dict[int, tuple[torch.Tensor, torch.device]] = {}

    @property
    def words(self) -> str:
        """Say which machine it is, as in "on a pretended machine with 3 NVIDIA GPUs"."""
        count = len(self.names)
        gpus = [times(count, "NVIDIA GPU")] if count else []
        has = " and ".join([*gpus, *filter(None, [self.other])]) or "no accelerator"
        idle = "cuda" if self.built and not count else self.idle
        return f"on a pretended machine with {has}" + (f" and a PyTorch built for {idle}" if idle else "")

    def current_device(self) -> int:
        """Answer `torch.cuda.current_device()`."""
        self._require_gpus()
        return self.current

    def set_device(self, device) -> None:
        """Stand for `torch.cuda.set_device(device)`."""
        self.current = self._index(device)

    def device_class(self) -> type:
        """Return what stands for `torch.cuda.device`, for `with torch.cuda.device(1):` and for its `idx`."""
        machine = self

        class device:
            def __init__(self, device):
                self.idx = machine._index(device)

            def __enter__(self):
                self.prev_idx, machine.current = machine.current, self.idx

            def __exit__(self, *error):
                machine.current = self.prev_idx

        return device

    @contextlib.contextmanager
    def _while_current(self, choose: Callable, device) -> Iterator[None]:
        before = self.current
        choose(device)
        try:
            yield
        finally:
            self.current = before

    def synchronize(self, device=None) -> None:
        """Stand for `torch.cuda.synchronize(device)`: here nothing is ever under way."""
        self._index(device)

    def current_stream(self, device=None) -> "_Stream":
        """Answer `torch.cuda.current_stream(device)` with the default stream, the only stream here."""
        return _Stream(torch.device("cuda", self._index(device)))

    def accelerator_stream(self, device=None) -> "_Stream":
        """Answer `torch.accelerator.current_stream(device)`."""
        return _Stream(torch.device(self.other, 0)) if self._is_other() else self.current_stream(device)

    def can_device_access_peer(self, device, peer_device) -> bool:
        """Answer `torch.cuda.can_device_access_peer(device, peer_device)`: all reach each other."""
        return self._index(device) != self._index(peer_device)

    def device_module(self, device=None):
        """Answer `torch.get_device_module(device)`: without a device it is the accelerator's."""
        device = self.current_accelerator(check_available=True) if device is None else device
        return getattr(torch, torch.device(device or "cpu").type)

    def accelerator_synchronize(self, device=None) -> None:
        """Stand for `torch.accelerator.synchronize(device)`."""
        if not self._is_other():
            self.synchronize(device)

    def mem_get_info(self, device=None) -> tuple[int, int]:
        """Answer `torch.cuda.mem_get_info(device)`: nothing is in use."""
        return (self.get_device_properties(device).total_memory,) * 2

    def get_device_properties(self, device=None) -> SimpleNamespace:
        """Answer `torch.cuda.get_device_properties(device)`."""
        return _CudaDeviceProperties(
            name=self.names[self._index(device)],
            total_memory=16 << 30,
            major=9,
            minor=0,
            multi_processor_count=40,
            warp_size=32,
        )

    def get_device_name(self, device=None) -> str:
        """Answer `torch.cuda.get_device_name(device)`."""
        return self.get_device_properties(device).name

    def accelerator_available(self) -> bool:
        """Answer `torch.accelerator.is_available()`."""
        return bool(self.names or self.other)

    def accelerator_memory(self, device=None) -> tuple[int, int]:
        """Answer `torch.accelerator.get_memory_info(device)`: nothing is in use."""
        return (16 << 30, 16 << 30) if self._is_other() else self.mem_get_info(device)

    def current_accelerator(self, check_available: bool = False) -> torch.device | None:
        """Answer `torch.accelerator.current_accelerator()`: what the build is for, unless asked to check."""
        kind = "cuda" if self.names else self.other or self.idle or ("cuda" if self.built else None)
        if kind is None or (check_available and not self.accelerator_available()):
            return None
        return torch.device(kind)

    def current_accelerator_index(self) -> int:
        """Answer `torch.accelerator.current_device_index()`."""
        return 0 if self._is_other() else self.current_device()

    def set_accelerator_index(self, device) -> None:
        """Stand for `torch.accelerator.set_device_index(device)`."""
        if not self._is_other():
            self.set_device(device)

    def accelerator_index(self, device) -> contextlib.AbstractContextManager[None]:
        """Stand for `with torch.accelerator.device_index(device):`."""
        return self._while_current(self.set_accelerator_index, device)

    def _is_other(self) -> bool:
        return bool(self.other) and not self.names

    def has(self, kind: str) -> bool:
        """Answer `torch.backends.mps.is_available()`, and the like for other kinds than CUDA."""
        return self.other == kind

    def answer_if_there(self, kind: str, answer: object, *args: object, **named: object) -> object:
        """Answer any question that only a machine with that kind of accelerator answers."""
        if not self.has(kind):
            raise RuntimeError(f"PyTorch is not linked with support for {kind} devices (pretended)")
        return answer

    def is_built_for(self, kind: str) -> bool:
        """Answer `torch.backends.mps.is_built()`."""
        return kind in (self.other, self.idle)

    def _kind(self) -> str:
        return "cuda" if self.names else self.other or "cuda"

    def _place(self, wanted: torch.device) -> torch.device:
        if wanted.type == "cuda":
            self._require_gpus()
            return torch.device("cuda", self.current if wanted.index is None else wanted.index)
        if wanted.type != self.other:
            raise RuntimeError(f"PyTorch is not linked with support for {wanted.type} devices (pretended)")
        return torch.device(wanted.type, wanted.index or 0)

    def _require(self, place: torch.device) -> None:
        count = len(self.names) if place.type == "cuda" else 1
        if place.index >= count:
            raise torch.AcceleratorError(f"{place.type.upper()} error: invalid device ordinal (pretended)")

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

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is torch.device and args and type(args[0]) is int:
            return self._place(torch.device(self._kind(), args[0]))
        if func in MAKES_NO_TENSOR:
            return func(*args, **kwargs)
        if func in ADDRESS and (place := self._place_of(args[0])):
            return ADDRESS[func](place)
        args = self._name_devices(func, args, kwargs)
        wanted = next(filter(_is_accelerator, (*args, *kwargs.values())), None)
        if wanted is None and _name(func) in MOVES:
            wanted = _name(func)
        if wanted is None and self._is_unplaced(func, args, kwargs):
            wanted = kwargs["device"] = self._default()
        if wanted is None:
            return self._result(func, args, kwargs)
        place = self._place(torch.device(wanted))
        self._require(place)
        if _name(func) in MOVES:
            return self._place_there(args[0].clone(), place)
        made = func(*map(_here, args), **{name: _here(one) for name, one in kwargs.items()})
        if not isinstance(made, torch.Tensor):  # a module's `to` only has its arguments parsed
            return func(*args, **kwargs)
        shared = _storage(made) in map(_storage, _tensors(args))
        return self._place_there(made.clone() if shared else made, place)

    def _name_devices(self, func: Callable, args: tuple, kwargs: dict) -> list:
        """Return a call's arguments, with a device in place of a number that stands for a device."""
        kind = _name(func) if _name(func) in MOVES else self._kind()
        if type(kwargs.get("device")) is int:
            kwargs["device"] = torch.device(kind, kwargs["device"])
        moves = _name(func) in (*MOVES, "to") and type((*args, None, None)[1]) is int
        return [*args[:1], torch.device(kind, args[1]), *args[2:]] if moves else list(args)

    def _result(self, func: Callable, args: tuple, kwargs: dict) -> object:
        """Call a function; what it makes of a placed tensor is placed on the same device."""
        made = func(*args, **kwargs)
        place = next(filter(None, map(self._place_of, _tensors(args))), None)
        if place is None:
            return made
        if _name(func) == "cpu" or any(map(_is_cpu, (*args, *kwargs.values()))):
            return made.clone() if isinstance(made, torch.Tensor) else made
        return self._place_there(made, place)

    def _is_unplaced(self, func: Callable, args: tuple, kwargs: dict) -> bool:
        """Tell whether a call makes a tensor of no other tensor, and names no device for it."""
        takes_a_place = _name(func) in FACTORIES and kwargs.get("device") is None
        return takes_a_place and not _tensors((*args, *kwargs.values()))

    def _place_there(self, made: object, place: torch.device) -> object:
        if isinstance(made, torch.Tensor):
            self._placed[_storage(made)] = (made, place)
        return made

    def _place_of(self, tensor: torch.Tensor) -> torch.device | None:
        return self._placed.get(_storage(tensor), (None, None))[1]

    def has_default(self) -> bool:
        """Tell whether the default device is an accelerator, which is not there outside of the pretence."""
        return self._default() is not None

    def _default(self) -> torch.device | None:
        """Return the default device where it is an accelerator, as it was given: a bare name has no index.

        PyTorch makes a tensor to learn the index. A real GPU would answer for itself.
        """
        with _Noticing() as made:
            try:
                chosen = torch.get_default_device()
            except (AssertionError, RuntimeError) as refused:
                named = (kind for kind in PRETENDED if kind in str(refused).lower())
                chosen = torch.device(next(named, self._kind()))
        chosen = torch.device(chosen.type) if made.any else chosen
        return chosen if _is_accelerator(chosen) else None


class _Noticing(TorchFunctionMode):
    """Notices whether a block makes a tensor."""

    any = False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.any = True
        return func(*args, **(kwargs or {}))


def _tensors(args: tuple) -> list[torch.Tensor]:
    """Return the tensors among arguments, and in lists of them."""
    several = [one for arg in args for one in (arg if isinstance(arg, list | tuple) else [arg])]
    return [one for one in several if isinstance(one, torch.Tensor)]


def _name(func: Callable) -> str:
    return getattr(func, "__name__", "")


def _here(value: object) -> object:
    """Return the CPU for an accelerator, anything else as it is."""
    return "cpu" if _is_accelerator(value) else value


def _storage(tensor: torch.Tensor) -> int:
    """Return the identity of a tensor's storage."""
    return tensor.untyped_storage()._cdata


def _is_cpu(value: object) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cpu"
    return isinstance(value, str) and value.partition(":")[0] == "cpu"


def _is_accelerator(value: object) -> bool:
    if isinstance(value, torch.device):
        return value.type in PRETENDED
    return isinstance(value, str) and value.partition(":")[0] in PRETENDED


def is_beyond(error: BaseException) -> bool:
    """Tell whether an error comes of asking a pretended machine for more than it has.

    >>> is_beyond(AssertionError("Torch not compiled with CUDA enabled"))
    True
    """
    return any(words in str(error) for words in REAL_ONES_MISSED)


class _CudaDeviceProperties(SimpleNamespace):
    """What `torch.cuda.get_device_properties` returns, under the name that it has there."""


@dataclasses.dataclass(frozen=True)
class _Stream:
    """What `torch.cuda.current_stream` returns: the default stream of a device, with nothing to do."""

    device: torch.device
    stream_id: int = 0

    @property
    def device_index(self) -> int:
        return self.device.index

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """Wait for nothing."""


@contextlib.contextmanager
def machine(trial: Trial, names: Sequence[str], **options) -> Iterator[Machine]:
    """Let the trial's answer believe, for a block, that it runs on such a `Machine`; a verdict says so.

    PyTorch's questions are pretended under any name and in any container that the answer keeps them in, as
    after `from torch.cuda import is_available`.

    >>> with machine(Trial(print, "f()", torch.device("cpu")), ["NVIDIA T4"]):
    ...     torch.cuda.is_available(), torch.cuda.get_device_name(0)
    (True, 'NVIDIA T4')
    """
    pretended = Machine(names, **options)
    trial.situation = pretended.words
    with _let_answer(pretended, getattr(plain_function(trial.answer), "__globals__", {})):
        yield pretended


class pretend:
    """A block in which PyTorch answers as on another machine: with NVIDIA GPUs of these names, or with none.

    `accelerator` names another kind that is there, `"mps"` or `"xpu"`; `built_for` names a kind that this
    PyTorch was made for although the machine has none of it. Only the answers are of that machine: a tensor
    that is made "there" is in this computer's memory and says otherwise. The same block can be entered again.

    Raises:
        ValueError: when PyTorch has no such kind, or when `built_for` names a kind that is there.

    >>> with pretend("NVIDIA L4", "NVIDIA T4"):
    ...     torch.cuda.device_count(), torch.cuda.get_device_name(1)
    (2, 'NVIDIA T4')
    >>> with pretend(built_for="mps"):
    ...     torch.backends.mps.is_built(), torch.backends.mps.is_available()
    (True, False)
    """

    def __init__(self, *gpus: str, accelerator: str | None = None, built_for: str | None = None):
        if accelerator not in (None, *OTHERS):
            raise ValueError(
                f"accelerator is {accelerator!r}, and can be 'mps' or 'xpu'; GPUs go by their names"
            )
        there = {accelerator, "cuda" if gpus else None} - {None}
        if built_for not in (None, *PRETENDED) or built_for in there:
            raise ValueError(
                f"built_for is {built_for!r}, and can be 'cuda', 'mps' or 'xpu' where none is there"
            )
        self.gpus, self.accelerator, self.built_for = gpus, accelerator, built_for
        self._entered: list[contextlib.ExitStack] = []

    def __enter__(self) -> "pretend":
        for_cuda = bool(self.gpus) or self.built_for == "cuda"
        idle = self.built_for if self.built_for in OTHERS else None
        machine = Machine(self.gpus, built=for_cuda, other=self.accelerator, idle=idle)
        with contextlib.ExitStack() as stack:
            stack.enter_context(_let_answer(machine, {}))
            self._entered.append(stack.pop_all())
        return self

    def __exit__(self, *error) -> None:
        self._entered.pop().close()


@contextlib.contextmanager
def _let_answer(pretended: Machine, theirs: dict) -> Iterator[None]:
    """Let a machine answer PyTorch's questions; `theirs` are the global names of the answer's module."""
    pairs = [
        (torch.cuda, "is_available", lambda: bool(pretended.names)),
        (torch.cuda, "device_count", lambda: len(pretended.names)),
        (torch.cuda, "current_device", pretended.current_device),
        (torch.cuda, "set_device", pretended.set_device),
        (torch.cuda, "device", pretended.device_class()),
        (torch.cuda, "init", pretended._require_gpus),
        (torch.cuda, "current_stream", pretended.current_stream),
        (torch.cuda, "default_stream", pretended.current_stream),
        (torch.cuda, "can_device_access_peer", pretended.can_device_access_peer),
        (torch.cuda, "synchronize", pretended.synchronize),
        (torch.cuda, "mem_get_info", pretended.mem_get_info),
        (torch.cuda, "get_device_name", pretended.get_device_name),
        (torch.cuda, "get_device_properties", pretended.get_device_properties),
        (torch, "get_device_module", pretended.device_module),
        (torch.version, "cuda", "12.8" if pretended.built else None),
        (torch.backends.cuda, "is_built", lambda: pretended.built),
        (torch.backends.mps, "is_available", partial(pretended.has, "mps")),
        (torch.backends.mps, "is_built", partial(pretended.is_built_for, "mps")),
        (torch.mps, "is_available", partial(pretended.has, "mps")),
        (torch.mps, "device_count", lambda: int(pretended.has("mps"))),
        (torch.xpu, "is_available", partial(pretended.has, "xpu")),
        (torch.xpu, "device_count", lambda: int(pretended.has("xpu"))),
        (torch.accelerator, "is_available", pretended.accelerator_available),
        (torch.accelerator, "device_count", lambda: len(pretended.names) or int(bool(pretended.other))),
        (torch.accelerator, "current_accelerator", pretended.current_accelerator),
        (torch.accelerator, "current_device_index", pretended.current_accelerator_index),
        (torch.accelerator, "set_device_index", pretended.set_accelerator_index),
        (torch.accelerator, "device_index", pretended.accelerator_index),
        (torch.accelerator, "current_stream", pretended.accelerator_stream),
        (torch.accelerator, "synchronize", pretended.accelerator_synchronize),
        (torch.accelerator, "get_memory_info", pretended.accelerator_memory),
        *_of_other_kinds(pretended),
    ]
    with contextlib.ExitStack() as stack:
        for module, name, value in pairs:
            real = getattr(module, name, None)
            function = inspect.unwrap(real) if callable(real) else None
            if inspect.isfunction(function) and not function.__code__.co_freevars:
                forget = getattr(real, "cache_clear", lambda: None)  # some keep their first answer
                forget()
                stack.callback(forget)
                stack.enter_context(exchange_answer(function, value))
            elif callable(real):
                for own in [own for own, held in theirs.items() if held is real]:
                    stack.callback(theirs.__setitem__, own, real)
                    theirs[own] = value
            stack.enter_context(mock.patch.object(module, name, value, create=real is None))
        stack.enter_context(pretended)
        try:
            yield
        finally:
            if pretended.has_default():
                torch.set_default_device(None)


def _of_other_kinds(pretended: Machine) -> list[tuple]:
    """Return the answers that only Intel's and Apple's accelerators give: each is a single, unused device."""
    memory, name = 16 << 30, "Intel Graphics"
    answers = {
        "xpu": {
            torch.xpu: {
                "current_device": 0,
                "get_device_name": name,
                "get_device_properties": SimpleNamespace(name=name, total_memory=memory),
                "get_device_capability": {"max_compute_units": 128},
                "mem_get_info": (memory, memory),
                **dict.fromkeys(("init", "set_device", "synchronize", "empty_cache")),
            }
        },
        "mps": {
            torch.mps: {
                "recommended_max_memory": memory,
                "current_allocated_memory": 0,
                "driver_allocated_memory": 0,
                **dict.fromkeys(("synchronize", "empty_cache")),
            },
            torch.backends.mps: {
                "is_macos_or_newer": True,
                "is_macos13_or_newer": True,
                "get_name": "Apple M2",
                "get_core_count": 10,
            },
        },
    }
    return [
        (module, question, partial(pretended.answer_if_there, kind, answer))
        for kind, modules in answers.items()
        for module, questions in modules.items()
        for question, answer in questions.items()
    ]


_answers: dict[int, Callable] = {}


@functools.cache
def _code_that_asks(number: int) -> CodeType:
    """Return the code of a function that calls the answer of this number."""
    here = f"__import__({__name__!r}, fromlist=['_'])"
    return eval(f"lambda *args, **kwargs: {here}._answers[{number}](*args, **kwargs)").__code__


@contextlib.contextmanager
def exchange_answer(function: FunctionType, answer: Callable) -> Iterator[None]:
    """Let a function of PyTorch answer something else, under all its names: its code is exchanged."""
    before = function.__code__
    number = id(function)
    outer = _answers.get(number)  # of a pretended machine around this machine
    _answers[number] = answer
    function.__code__ = _code_that_asks(number)
    try:
        yield
    finally:
        function.__code__ = before
        if outer is None:
            del _answers[number]
        else:
            _answers[number] = outer
