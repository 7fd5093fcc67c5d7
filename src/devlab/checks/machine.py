"""A machine that is pretended: what PyTorch says there of its accelerators, and where its tensors are."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace

import torch

from devlab.checks.placed import Placed

# What a PyTorch without CUDA says of a GPU that only the check pretends.
REAL_ONES_MISSED = ("dummy base class", "ATen_cuda", "CUDA enabled", "'torch._C' has no attribute")
BEYOND = (
    "this GPU is pretended: it answers questions and lends tensors, and has no streams, events, generators "
    "or memory statistics of its own"
)
NO_DRIVER = "Found no NVIDIA driver on your system (pretended for this check)"


class Machine(Placed):
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

    @property
    def words(self) -> str:
        """Say which machine it is, as in "on a pretended machine with 3 NVIDIA GPUs"."""
        count = len(self.names)
        gpus = [f"{count} NVIDIA GPU{'' if count == 1 else 's'}"] if count else []
        has = " and ".join([*gpus, *filter(None, [self.other])]) or "no accelerator"
        idle = "cuda" if self.built and not count else self.idle
        return f"on a pretended machine with {has}" + (f" and a PyTorch built for {idle}" if idle else "")

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

    def init(self) -> None:
        """Stand for `torch.cuda.init()`."""
        self._require_gpus()

    def synchronize(self, device=None) -> None:
        """Stand for `torch.cuda.synchronize(device)`: here nothing is ever under way."""
        self._index(device)

    def current_stream(self, device=None) -> "_Stream":
        """Answer `torch.cuda.current_stream(device)`: nobody chose another one than the default."""
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

    def is_built(self) -> bool:
        """Answer `torch.backends.cuda.is_built()`."""
        return self.built

    def accelerator_available(self) -> bool:
        """Answer `torch.accelerator.is_available()`."""
        return bool(self.names or self.other)

    def accelerator_count(self) -> int:
        """Answer `torch.accelerator.device_count()`."""
        return len(self.names) or int(bool(self.other))

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
