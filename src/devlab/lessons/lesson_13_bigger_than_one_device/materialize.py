"""A model built without memory, then made real where it is wanted."""

import torch
from torch import nn

from devlab.checks import expect, probes, verbs
from devlab.checks.settings import seed_generators, undisturbed
from devlab.checks.trial import Skip
from devlab.lessons import ranks
from devlab.lessons.lesson_13_bigger_than_one_device import lesson

materialize = lesson.exercise(
    "materialize(build, state, device)",
    ("Q1", "Q2"),
    "Three steps: `build()` where tensors take no memory, then memory for them on the device, then the "
    "values. Each step can lose something: which buffers does `state` not know, and is what was one "
    "parameter under two names still one?",
    'Inside `with torch.device("meta"):` call `build()`. `model.to_empty(device=device)` makes a new '
    "parameter for each name, so write down first which names share one: "
    "`model.named_parameters(remove_duplicate=False)`. Set them again after it, then "
    "`model.load_state_dict(state)`.",
    "`made = dict(build().named_buffers())` has the buffers that `state` lacks. Copy them in place: for each "
    "name of `model.named_buffers()` that is not in `state`, `buffer.copy_(made[name])`. To tie: "
    "`setattr(model.get_submodule(path), leaf, model.get_parameter(first))`.",
)

VALUES = "the values of state, on the device"


class _Positions(nn.Module):
    """Adds a table that is not saved."""

    def __init__(self, width: int):
        super().__init__()
        self.register_buffer("table", torch.arange(1.0, width + 1).cos(), persistent=False)
        self.register_buffer("odd", torch.arange(width) % 2 == 1, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x with the table added where `odd` says so."""
        return x + self.table * self.odd


class _Linear(nn.Linear):
    """A layer that notes whether it was filled where its parameters take memory."""

    filled = False

    def reset_parameters(self) -> None:
        """Fill the parameters with random numbers."""
        self.filled = not self.weight.is_meta
        super().reset_parameters()


class _Net(nn.Module):
    """A model with all that matters here: tied and frozen parameters, buffers that are saved or are not."""

    def __init__(self, width: int = 6, tied: bool = True):
        super().__init__()
        self.positions = _Positions(width)
        self.encode, self.decode = _Linear(width, width), _Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.register_buffer("limit", torch.linspace(2, 3, width))
        self.encode.bias.requires_grad_(False)
        if tied:
            self.decode.weight = self.encode.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return an output in which every tensor has a part."""
        return self.decode(self.norm(self.encode(self.positions(x)))).minimum(self.limit)


class _Build(probes.Called):
    """Builds the model; notes each model, and where its parameters were when it was done."""

    def __init__(self, width: int = 6, tied: bool = True):
        self.built: list[tuple[nn.Module, str]] = []
        super().__init__(lambda: self._note(_Net(width, tied)), "build")

    def _note(self, model: nn.Module) -> nn.Module:
        self.built.append((model, next(model.parameters()).device.type))
        return model


def _make_trained(seed: int, width: int = 6, tied: bool = True) -> nn.Module:
    """Return a model on the CPU with other numbers than a new one has."""
    seed_generators(seed)
    model = _Net(width, tied)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.copy_(torch.randn(tensor.shape) if tensor.is_floating_point() else 7)
    return model


def _copy_state(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return a state_dict as a file has it: each entry with memory of its own."""
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def _make_real(
    trial, seed: int, device: torch.device, half: bool = False
) -> tuple[nn.Module, nn.Module, _Build]:
    """Return what the answer makes, what it is to be, and the probe that built it."""
    build, wanted = _Build(), _make_trained(seed)
    state = _copy_state(wanted.half() if half else wanted)
    wanted.float()
    model = trial.call(build, state, device)
    expect.kind(model, nn.Module, "an nn.Module", "what is returned")
    return model, wanted, build


def _list_places(trial) -> list[torch.device]:
    return [trial.device, *trial.others[-1:]]


@materialize.row(VALUES)
def values_on_the_device(trial):
    ranks.wake()  # the exercise after this one needs processes that take seconds to start
    places = [*_list_places(trial), trial.device]
    for number, (seed, device) in enumerate(zip(trial.seeds, places, strict=False)):
        model, wanted, _ = _make_real(trial, seed, device, half=number == len(places) - 1)
        got = model.state_dict()
        for name, right in wanted.state_dict().items():
            if name not in got:
                expect.fail(f"the model that you returned has no {name}", "what build() makes", list(got))
            tensor = got[name]
            headline = f"{name} is still on the meta device: it has no values"
            expect.that(not tensor.is_meta, headline, f"{name} on {device}, with the values of state", tensor)
            expect.device(tensor, device, name)
            headline = f"{name} is not what `state` holds: is it loaded, and after the memory is there?"
            _expect_tensor(tensor, right, name, headline, within=0.0)  # a copy rounds nothing
        _expect_trainable(model, wanted)


def _expect_tensor(
    tensor: torch.Tensor, right: torch.Tensor, what: str, headline: str, within: float | None = None
) -> None:
    """Expect a tensor's shape, dtype and values; where the values are wrong, the headline says why."""
    try:
        expect.tensor(tensor, right, tensor.device, what, within)
    except expect.Mismatch as found:
        formed = (tensor.shape, tensor.dtype) == (right.shape, right.dtype)
        expect.fail(headline if formed else found.headline, found.expected, found.got)


def _expect_trainable(model: nn.Module, wanted: nn.Module) -> None:
    asks = {name: one.requires_grad for name, one in model.named_parameters(remove_duplicate=False)}
    for name, right in wanted.named_parameters(remove_duplicate=False):
        expect.that(name in asks, f"{name} is no longer a parameter", "an nn.Parameter", "a tensor")
        if asks[name] != right.requires_grad:
            headline = f"{name} has requires_grad={asks[name]}, and build() gave it another value"
            expect.fail(headline, f"requires_grad={right.requires_grad}", f"requires_grad={asks[name]}")


@materialize.row("buffers that state lacks, as build() makes them")
def buffers_as_built(trial):
    for seed, device in zip(trial.seeds[1:], _list_places(trial), strict=False):
        model, wanted, _ = _make_real(trial, seed, device)
        buffers = dict(model.named_buffers())
        for name, right in wanted.positions.named_buffers(prefix="positions"):
            if name not in buffers:
                expect.fail(f"the buffer {name} is no longer a buffer", "a registered buffer", list(buffers))
            if buffers[name].is_meta:
                headline = f"the buffer {name} is still on the meta device: no state_dict brings it"
                expect.fail(headline, f"{name} on {device}, as build() makes it", buffers[name])
            expect.device(buffers[name], device, f"the buffer {name}")
            if buffers[name].dtype != right.dtype:
                headline = f"the buffer {name} is {buffers[name].dtype}, and build() makes it {right.dtype}"
                expect.fail(headline, expect.describe(right), buffers[name])
            headline = f"the buffer {name} lacks the values that build() gives it: it is not in `state`"
            _expect_tensor(buffers[name], right, f"the buffer {name}", headline)
        saved = [name for name in model.state_dict() if name not in wanted.state_dict()]
        if saved:
            headline = f"{saved[0]} has become a part of the state_dict"
            expect.fail(headline, "persistent=False, as build() has it", saved)


@materialize.row("parameters that build() ties stay tied")
def tied_stay_tied(trial):
    wanted = _make_trained(trial.seeds[2])
    with torch.no_grad():
        wanted.decode.bias.copy_(wanted.encode.bias)
    model = trial.call(_Build(), _copy_state(wanted), trial.device)
    expect.kind(model, nn.Module, "an nn.Module", "what is returned")
    if model.encode.weight is not model.decode.weight:
        headline = "encode.weight and decode.weight are two parameters now, and build() makes them one"
        expect.fail(headline, "one parameter under both names", "two with equal values")
    if model.encode.bias is model.decode.bias:
        headline = "encode.bias and decode.bias are one parameter now, and build() makes them two"
        expect.fail(headline, "two, although `state` holds equal values for them", "one under both names")


@materialize.row("the model is built on the meta device")
def built_on_meta(trial):
    model, _, build = _make_real(trial, trial.seeds[0], trial.device)
    expect.that(build.built, "build was never called", "build() on the meta device", "no call")
    places = [place for _, place in build.built]
    place = next((place for one, place in build.built if one is model), None)
    if "meta" not in places or place not in ("meta", None):
        place = place or places[0]
        headline = f"the model was built on {place}: its parameters took memory and were filled for nothing"
        expect.fail(headline, 'build() inside `with torch.device("meta"):`', f"built on {', '.join(places)}")
    if len(places) > 2:
        asked = "once on the meta device, and once more on the CPU for the buffers that state lacks"
        expect.fail(f"build() was called {len(places)} times", asked, f"built on {', '.join(places)}")
    if model.encode.filled or model.decode.filled:
        headline = "the model was filled with random numbers before it got the values of state"
        expect.fail(headline, "the values of state alone", "reset_parameters() where the memory is there")


@materialize.row("the device gets and holds one model, no more", only="accelerator")
def once_to_the_device(trial):
    module = torch.get_device_module(trial.device)
    if not hasattr(module, "max_memory_allocated"):
        raise Skip(f"PyTorch keeps no peak of the memory of {trial.device.type}")
    width = 200 + trial.seeds[0] % 7
    wanted = _make_trained(trial.seeds[0], width, tied=False)
    state, size = _copy_state(wanted), sum(one.nbytes for one in (*wanted.parameters(), *wanted.buffers()))
    with undisturbed():
        module.reset_peak_memory_stats(trial.device)
        before = module.memory_allocated(trial.device)
        _, log = trial.watched(_Build(width, tied=False), state, trial.device)
        peak = module.max_memory_allocated(trial.device) - before
    moved = sum(one.bytes for one in log.events.transfers)
    if moved > size * 1.02:
        asked = f"{size:,} bytes, for the values of state and the buffers that it lacks"
        headline = f"{moved:,} bytes were transferred, and the whole model has {size:,}"
        verbs.counts(log.events.transfers, 0, headline, asked, "{times}: {routes}")
    headline = f"the device held {peak:,} bytes at once, and the whole model has {size:,}"
    expect.that(peak <= size * 1.5, headline, "the model alone on the device, at any time", f"{peak:,} bytes")
