"""The notebook's settings: judging puts them back, finds changes of them, and tries unusual values."""

import contextlib
import gc
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy
import torch

from devlab.checks.calls import settle_devices
from devlab.checks.expect import Mismatch


@contextlib.contextmanager
def preserve_state() -> Iterator[bool]:
    """Run a block under PyTorch's defaults, and put the settings back afterwards.

    A simulated device that has failed is usable in the block. Gives whether a default device may be set:
    inside of two blocks `with torch.device(...)` that breaks PyTorch's own order of them.

    >>> before = torch.get_rng_state()
    >>> with preserve_state():
    ...     _ = torch.manual_seed(0)
    >>> torch.equal(before, torch.get_rng_state())
    True
    """
    # Here, so that importing devlab does not import the simulator.
    from devlab.sim import assertions, clock, races

    with assertions.sound():
        python, array, numbers = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
        there = _random_states()
        dtype, device, grad = torch.get_default_dtype(), _unset_device(), torch.is_grad_enabled()
        threads, current = torch.get_num_threads(), current_index()
        try:
            # Inputs are tiny: a second thread only waits, for milliseconds on a busy machine.
            torch.set_num_threads(1)
            with _outside() as free, clock.virtual(), races(False):
                fresh_defaults()
                yield free
        finally:
            random.setstate(python)
            numpy.random.set_state(array)
            torch.set_rng_state(numbers)
            _set_random_states(there)
            torch.set_default_dtype(dtype)
            torch.set_default_device(device)
            torch.set_grad_enabled(grad)
            torch.set_num_threads(threads)
            _set_current_index(current)


def _random_states() -> list[torch.Tensor]:
    """Return the states of the accelerators' own generators: Apple's GPU has a single generator."""
    if not torch.accelerator.is_available():
        return []
    module = torch.get_device_module(torch.accelerator.current_accelerator())
    return module.get_rng_state_all() if hasattr(module, "get_rng_state_all") else [module.get_rng_state()]


def _set_random_states(states: list[torch.Tensor]) -> None:
    if not states:
        return
    module = torch.get_device_module(torch.accelerator.current_accelerator())
    if hasattr(module, "set_rng_state_all"):
        module.set_rng_state_all(states)
    else:
        module.set_rng_state(states[0])


def _unset_device() -> torch.device | None:
    """Take the default device back, and return it: None where only a `with` around says where tensors go."""
    before = torch.get_default_device()
    torch.set_default_device(None)
    return None if torch.get_default_device() == before else before


@contextlib.contextmanager
def _outside() -> Iterator[bool]:
    """Run a block as if none of these were around it: inference mode, autocast, `with torch.device(...)`.

    The search for anomalies is off as well, because it waits for the device at every step of a backward pass.
    Gives whether there was no `with torch.device(...)`.
    """
    with contextlib.ExitStack() as stack:
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        if torch.is_anomaly_enabled():
            stack.enter_context(torch.autograd.set_detect_anomaly(False))
        accelerator = torch.accelerator.current_accelerator()
        for kind in ("cpu", accelerator.type) if accelerator else ("cpu",):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        free = torch.get_default_device().type == "cpu"
        if not free:
            stack.enter_context(torch.device("cpu"))
        yield free


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Keep older garbage out of a measurement: what dies in this block was made in it.

    A notebook's unreachable cycles may hold device memory, which a collection in the middle would give back.
    The block also makes every `gc.collect()` in it quick, an answer's own included.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def fresh_defaults() -> None:
    """Set PyTorch's defaults as a new process has them, so that no row meets another row's settings."""
    settle_devices()
    plain_defaults()
    _set_current_index(0)
    seed_generators(0)


def current_index() -> int:
    """Return which device a bare name means; 0 where there are not several."""
    several = torch.accelerator.is_available() and torch.accelerator.device_count() > 1
    return torch.accelerator.current_device_index() if several else 0


def _set_current_index(index: int) -> None:
    if current_index() != index:
        torch.accelerator.set_device_index(index)


def seed_generators(seed: int) -> None:
    """Seed PyTorch's own generators, of the host and of every accelerator.

    `torch.manual_seed` also keeps a call for CUDA, XPU and MTIA each, where that is not in use, and reads the
    stack for it every time: that takes most of a millisecond.

    >>> seed_generators(3)
    >>> torch.initial_seed()
    3
    """
    torch.default_generator.manual_seed(seed)
    if torch.accelerator.is_available():
        module = torch.get_device_module(torch.accelerator.current_accelerator())
        getattr(module, "manual_seed_all", module.manual_seed)(seed)


def plain_defaults() -> None:
    """Set the default dtype, device and gradient mode as a new process has them."""
    if torch.get_default_dtype() is not torch.float32:  # asking takes a tenth of the time of setting
        torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    if not torch.is_grad_enabled():
        torch.set_grad_enabled(True)


def default_device() -> torch.device | str:
    """Return the default device, or words that say that this machine lacks it."""
    try:
        return torch.get_default_device()
    except (AssertionError, RuntimeError):  # PyTorch makes a tensor there to learn the index
        return "a device that is not here"


GETTERS: dict[str, Callable[[], object]] = {
    "default device": default_device,
    "default dtype": torch.get_default_dtype,
    "gradient mode": torch.is_grad_enabled,
    "current device": current_index,
}
# The line of code with which a learner changes each setting.
WORDS: dict[str, Callable[[object], str]] = {
    "default device": lambda value: f"torch.set_default_device({str(value)!r})",
    "default dtype": lambda value: f"torch.set_default_dtype({value})",
    "gradient mode": lambda value: f"torch.set_grad_enabled({value})",
    "current device": lambda value: f"torch.accelerator.set_device_index({value})",
}


class Changed(Mismatch):
    """An answer left a setting of the whole program changed: `name` says which, `before` what it was."""

    def __init__(self, name: str, before: object, after: object):
        super().__init__(f"your code changed the {name} of the whole program", f"still {before}", str(after))
        self.name = name
        self.before = before


def now() -> dict[str, object]:
    """Return the value of each setting.

    >>> now()["gradient mode"]
    True
    """
    return {name: value() for name, value in GETTERS.items()}


def changes(before: dict[str, object]) -> list[Changed]:
    """Return a Changed for each setting that is not what it was before."""
    after = now()
    return [Changed(name, value, after[name]) for name, value in before.items() if after[name] != value]


def restore(before: dict[str, object]) -> None:
    """Make each setting what it was."""
    device = before["default device"]
    torch.set_default_device(None)
    # The CPU is the default again by now: asking would take as long as the rest of this function.
    if isinstance(device, torch.device) and device.type != "cpu" and default_device() != device:
        torch.set_default_device(device)
    if torch.get_default_dtype() is not before["default dtype"]:  # to set takes ten times as long
        torch.set_default_dtype(before["default dtype"])
    if torch.is_grad_enabled() is not before["gradient mode"]:
        torch.set_grad_enabled(before["gradient mode"])
    _set_current_index(before["current device"])


@dataclass(frozen=True)
class Unusual:
    """Settings that are not those of a new process, to call an answer under; None leaves a setting as it is.

    >>> with Unusual(dtype=torch.float64).in_force():
    ...     torch.ones(1).dtype
    torch.float64
    """

    device: torch.device | None = None
    dtype: torch.dtype | None = None
    grad: bool | None = None
    current: int | None = None

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Set them for a block, and put the former settings back afterwards."""
        before = now()
        try:
            if self.device is not None:
                torch.set_default_device(self.device)
            if self.dtype is not None:
                torch.set_default_dtype(self.dtype)
            if self.grad is not None:
                torch.set_grad_enabled(self.grad)
            if self.current is not None:
                torch.accelerator.set_device_index(self.current)
            yield
        finally:
            restore(before)


def unusual(device: torch.device, others: tuple[torch.device, ...]) -> list[Unusual]:
    """Return settings to judge an answer under: all together, then each alone for a row that fails."""
    elsewhere = others[-1] if others else torch.device("meta")
    several = sum(one.type != "cpu" for one in (device, *others)) > 1
    single = [Unusual(device=elsewhere), Unusual(dtype=torch.float64), Unusual(grad=False)]
    single += [Unusual(current=1)] if several else []
    return [Unusual(elsewhere, torch.float64, False, 1 if several else None), *single]
