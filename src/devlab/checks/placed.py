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
# How a tensor is asked where it is.
ADDRESS = {
    torch.Tensor.device.__get__: lambda place: place,
    torch.Tensor.get_device: lambda place: place.index,
    torch.Tensor.is_cuda.__get__: lambda place: place.type == "cuda",
    torch.Tensor.is_mps.__get__: lambda place: place.type == "mps",
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
        moves = getattr(func, "__name__", "") == "cuda"
        wanted = [torch.device(one) for one in (*args, *kwargs.values()) if _is_accelerator(one)]
        if not (moves or wanted) and self._is_unplaced(func, args, kwargs) and (default := self._default()):
            wanted, kwargs["device"] = [default], "cpu"
        if not (moves or wanted):
            return self._result(func, args, kwargs)
        place = self._place(wanted[0] if wanted else torch.device("cuda"))
        if args and isinstance(args[0], torch.Tensor):
            made = args[0].clone()
        else:
            here = {name: "cpu" if _is_accelerator(one) else one for name, one in kwargs.items()}
            made = func(*args, **here)
        return self._placed_there(made, place)

    def _result(self, func: Callable, args: tuple, kwargs: dict) -> object:
        """Call a function; where it makes a tensor of one that says it is elsewhere, so does that."""
        made = func(*args, **kwargs)
        place = next(filter(None, map(self._place_of, _tensors(args))), None)
        if place is None:
            return made
        if getattr(func, "__name__", "") == "cpu" or any(map(_is_cpu, (*args, *kwargs.values()))):
            return made.clone() if isinstance(made, torch.Tensor) else made
        return self._placed_there(made, place)

    def _is_unplaced(self, func: Callable, args: tuple, kwargs: dict) -> bool:
        """Tell whether a function makes a tensor of nothing, and nobody names a place for it."""
        takes_a_place = getattr(func, "__name__", "") in FACTORIES and kwargs.get("device") is None
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
        except (AssertionError, RuntimeError):  # PyTorch made a tensor to learn the index, of a kind not here
            chosen = torch.device(self._kind())
        return chosen if _is_accelerator(chosen) else None


def _tensors(args: tuple) -> list[torch.Tensor]:
    """Return the tensors among arguments, and in lists of them."""
    several = [one for arg in args for one in (arg if isinstance(arg, list | tuple) else [arg])]
    return [one for one in several if isinstance(one, torch.Tensor)]


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
