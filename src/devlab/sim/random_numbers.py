"""Random numbers on a simulated device, which has a generator of its own, as a real accelerator has."""

import weakref

import torch

from devlab.sim import data, private

# On a GPU a seed gives other numbers than on the CPU; the salt does the same here.
_SALT = 0x51D0

# Each generator by its address: PyTorch hands a kernel the generator under another Python object.
_known: "weakref.WeakValueDictionary[int, Generator]" = weakref.WeakValueDictionary()


class Generator(private.GeneratorBase or object):
    """A `torch.Generator` of a simulated device."""

    def __new__(cls, device=None):
        """Make a generator of `device`; None and a bare `"sim"` mean the current device."""
        generator = super().__new__(cls)
        generator.index = data.index_of(device)
        _known[private.address_of(generator)] = generator
        return generator

    def __init__(self, device=None):
        self.manual_seed(0)  # as every new generator on a GPU

    @property
    def device(self) -> torch.device:
        """The simulated device of this generator."""
        return data.device_of(self.index)

    def manual_seed(self, seed: int):
        """Set the seed and return the generator."""
        self._seed = seed
        super().manual_seed((seed ^ _SALT) & 0xFFFF_FFFF_FFFF_FFFF)
        return self

    def initial_seed(self) -> int:
        """Return the seed last set."""
        return self._seed

    def seed(self) -> int:
        """Set a seed from the system's entropy and return it."""
        seed = super().seed()
        self.manual_seed(seed)
        return seed


default_generators: list[Generator] = []  # of each simulated device, once the simulator is enabled


def make_defaults() -> None:
    """Make each simulated device's default generator."""
    default_generators.extend(Generator(index) for index in range(data.COUNT))


def of(generator: torch.Generator | None, index: int) -> torch.Generator:
    """Return the generator to draw from on `sim:index`: the generator given, or the device's own.

    Raises:
        RuntimeError: when the generator given is of another kind of device, in PyTorch's wording.
    """
    if generator is None:
        return default_generators[index]
    if private.address_of(generator) not in _known:
        raise RuntimeError(
            f"Expected a '{data.NAME}' device type for generator but found '{generator.device.type}'"
        )
    return generator


def lend(place: int, host: list, named: dict, index: int) -> dict:
    """Put the device's generator among an operator's arguments, and return the arguments that have a name."""
    if place < len(host):
        host[place] = of(host[place], index)
        return named
    return named | {"generator": of(named.get("generator"), index)}


# The public functions and methods that draw, to which a generator can be given by name.
_DRAWING = {
    torch: "rand randn randint randperm rand_like randn_like randint_like normal bernoulli multinomial "
    "poisson binomial",
    torch.Tensor: "normal_ uniform_ random_ exponential_ geometric_ log_normal_ cauchy_ bernoulli "
    "bernoulli_ multinomial",
}


def route_hosts() -> None:
    """Let functions that draw on the CPU refuse a simulated device's generator, which they would accept."""

    def refusing(function):
        def draw(*args, **kwargs):
            if isinstance(kwargs.get("generator"), Generator) and _home(args, kwargs) == "cpu":
                raise RuntimeError(f"Expected a 'cpu' device type for generator but found '{data.NAME}'")
            return function(*args, **kwargs)

        return draw

    for owner, names in _DRAWING.items():
        for name in names.split():
            private.replace(owner, name, refusing)


def _home(args, kwargs) -> str:
    """Return the kind of device on which a call draws."""
    if kwargs.get("device") is not None:
        return torch.device(kwargs["device"]).type
    for value in (kwargs.get("out"), *args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            return value.device.type
    return torch.get_default_device().type


class drawing_from:
    """A block in which the CPU's operators draw from a simulated device's default generator.

    Operators that take no generator need the block, dropout among them.
    """

    def __init__(self, index: int):
        self._generator = default_generators[index]

    def __enter__(self):
        self._kept = torch.default_generator.get_state()
        torch.default_generator.set_state(self._generator.get_state())

    def __exit__(self, *error):
        self._generator.set_state(torch.default_generator.get_state())
        torch.default_generator.set_state(self._kept)
