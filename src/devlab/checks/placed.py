"""Tensors that say they are on an accelerator which is not here: they are made on the CPU, and noted."""

from abc import abstractmethod
from collections.abc import Callable

import torch
from torch.overrides import TorchFunctionMode

# What PyTorch shows to a function mode although it makes no tensor.
MAKES_NO_TENSOR = (torch.device, torch.get_device_module)
# What makes a tensor on the default device, where nobody names another.
FACTORIES = frozenset({"empty", "zeros", "ones", "full", "rand", "randn", "randint", "randperm", "arange"})
FACTORIES |= {"linspace", "eye", "tensor", "as_tensor", "asarray"}
MOVES = ("cuda", "xpu")  # methods of a tensor that move it
# How a tensor is asked where it is.
ADDRESS = {
    torch.Tensor.device.__get__: lambda place: place,
    torch.Tensor.get_device: lambda place: place.index,
    torch.Tensor.is_cuda.__get__: lambda place: place.type == "cuda",
    torch.Tensor.is_mps.__get__: lambda place: place.type == "mps",
    torch.Tensor.is_xpu.__get__: lambda place: place.type == "xpu",
    torch.Tensor.is_cpu.__get__: lambda place: place.type == "cpu",
}
PRETENDED = ("cuda", "mps", "xpu")


class Placed(TorchFunctionMode):
    """Makes each tensor that is wanted on an accelerator on the CPU, and has it say that it is there.

    What comes of such a tensor is there as well, a parameter or a view of it too.
    """

    def __init__(self):
        super().__init__()
        # By storage, so that a view, a parameter and `.data` are where their tensor is.
        self._placed: dict[int, tuple[torch.Tensor, torch.device]] = {}

    @abstractmethod
    def _place(self, wanted: torch.device) -> torch.device:
        """Return the device with its index, or raise as PyTorch does where there is none."""

    @abstractmethod
    def _require(self, place: torch.device) -> None:
        """Raise as PyTorch does where no tensor can be made, since there are fewer devices of its kind."""

    @abstractmethod
    def _kind(self) -> str:
        """Return the kind of device that a bare number means."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is torch.device and args and type(args[0]) is int:
            return self._place(torch.device(self._kind(), args[0]))
        if func in MAKES_NO_TENSOR:
            return func(*args, **kwargs)
        if func in ADDRESS and (place := self._place_of(args[0])):
            return ADDRESS[func](place)
        args = self._named(func, args, kwargs)
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
            return self._placed_there(args[0].clone(), place)
        made = func(*map(_here, args), **{name: _here(one) for name, one in kwargs.items()})
        if not isinstance(made, torch.Tensor):  # as where a module's `to` has its arguments read
            return func(*args, **kwargs)
        shared = _storage(made) in map(_storage, _tensors(args))
        return self._placed_there(made.clone() if shared else made, place)

    def _named(self, func: Callable, args: tuple, kwargs: dict) -> list:
        """Return what a call is given, with a device's name where PyTorch takes a bare number for one."""
        kind = _name(func) if _name(func) in MOVES else self._kind()
        if type(kwargs.get("device")) is int:
            kwargs["device"] = torch.device(kind, kwargs["device"])
        moves = _name(func) in (*MOVES, "to") and type((*args, None, None)[1]) is int
        return [*args[:1], torch.device(kind, args[1]), *args[2:]] if moves else list(args)

    def _result(self, func: Callable, args: tuple, kwargs: dict) -> object:
        """Call a function; where it makes a tensor of one that says it is elsewhere, so does that."""
        made = func(*args, **kwargs)
        place = next(filter(None, map(self._place_of, _tensors(args))), None)
        if place is None:
            return made
        if _name(func) == "cpu" or any(map(_is_cpu, (*args, *kwargs.values()))):
            return made.clone() if isinstance(made, torch.Tensor) else made
        return self._placed_there(made, place)

    def _is_unplaced(self, func: Callable, args: tuple, kwargs: dict) -> bool:
        """Tell whether a function makes a tensor of nothing, and nobody names a place for it."""
        takes_a_place = _name(func) in FACTORIES and kwargs.get("device") is None
        return takes_a_place and not _tensors((*args, *kwargs.values()))

    def _placed_there(self, made: object, place: torch.device) -> object:
        if isinstance(made, torch.Tensor):
            self._placed[_storage(made)] = (made, place)
        return made

    def _place_of(self, tensor: torch.Tensor) -> torch.device | None:
        return self._placed.get(_storage(tensor), (None, None))[1]

    def has_default(self) -> bool:
        """Tell whether the default device is an accelerator, which is not there outside of the pretence."""
        return self._default() is not None

    def _default(self) -> torch.device | None:
        """Return the default device where it is an accelerator, as it was given."""
        try:
            chosen = torch.get_default_device()
        except (AssertionError, RuntimeError) as refused:  # it made a tensor to learn the index
            named = (kind for kind in PRETENDED if kind in str(refused).lower())
            chosen = torch.device(next(named, self._kind()))
        return chosen if _is_accelerator(chosen) else None


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
    """Return what tells a tensor's storage from every other one's."""
    return tensor.untyped_storage()._cdata


def _is_cpu(value: object) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cpu"
    return isinstance(value, str) and value.partition(":")[0] == "cpu"


def _is_accelerator(value: object) -> bool:
    if isinstance(value, torch.device):
        return value.type in PRETENDED
    return isinstance(value, str) and value.partition(":")[0] in PRETENDED
