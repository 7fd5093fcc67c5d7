"""Checkpoints: a state_dict in a file, and a model filled from one that was saved on another device."""

import contextlib
import copy
import pickle
import tempfile
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from devlab.checks import expect
from devlab.checks.calls import AnswerRaised
from devlab.lessons.lesson_11_training_step.base import (
    CPU,
    expect_weights,
    lesson,
    make_model,
    make_optimizer,
    reference_steps,
    samples,
    twin,
)

# A place that no machine has, so that every machine meets a file from elsewhere.
NOWHERE = b"cuda:63"


class Net(nn.Module):
    """A model with everything that a state_dict may hold, and a table that it does not."""

    def __init__(self, seed: int):
        super().__init__()
        self.body = make_model(seed)
        self.register_buffer("scale", torch.rand(3))
        self.register_buffer("table", torch.arange(3.0), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        return self.body(x) + self.table * self.scale


save = lesson.exercise(
    "save",
    signature="save(model, path)",
    facts=("T1", "T4", "R3", "B5"),
    hints=(
        "A file should hold numbers, not the model's class. Which method of a module returns all its saved "
        "tensors by name?",
        "`torch.save(what, path)` writes. What it writes is `model.state_dict()`; the model itself is moved "
        "nowhere.",
        "`torch.save(model.state_dict(), path)`",
    ),
)


def _saved(trial, model: nn.Module, path) -> Mapping:
    """Let the answer save, and return what the file holds; Mismatch where it cannot be read as data."""
    trial.call(model, path)
    if not Path(path).is_file():
        expect.fail("there is no file at the path", f"a file {Path(path).name}", "no file of this name")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about files that are refused in the next line anyway
            held = torch.load(path, weights_only=True, map_location="cpu")
    except pickle.UnpicklingError:
        if not zipfile.is_zipfile(path):
            expect.fail("torch.load cannot read the file", "a file of torch.save", "another kind of file")
        headline = "the file holds more than data: it cannot be loaded with weights_only=True"
        expect.fail(headline, "the model's state_dict", "objects of Python, such as the model itself")
    except Exception as error:
        expect.fail("torch.load cannot read the file", "a file of torch.save", type(error).__name__)
    expect.kind(held, Mapping, "a state_dict", "what the file holds")
    return held


@save.row("the file holds the state_dict, all of it")
def holds_the_state_dict(trial):
    with tempfile.TemporaryDirectory() as folder:
        for seed, as_text in zip(trial.seeds, (True, False, True), strict=True):
            model = Net(seed).to(trial.device)
            model.body[3].requires_grad_(False)  # what is not trained is saved all the same
            wanted = {name: tensor.cpu().clone() for name, tensor in model.state_dict().items()}
            path = Path(folder) / f"model {seed}.{'ckpt' if as_text else 'pt'}"
            held = _saved(trial, model, str(path) if as_text else path)
            _expect_names(held, wanted)
            for name, right in wanted.items():
                expect.tensor(held[name], right, CPU, f"{name} in the file")


def _expect_names(held: Mapping, wanted: dict) -> None:
    missing = [name for name in wanted if name not in held]
    if missing and any(isinstance(value, Mapping) for value in held.values()):
        headline = "the file holds a dict with the state_dict in it, not the state_dict itself"
        expect.fail(headline, "names of tensors, such as " + missing[0], held)
    if missing:
        weights = any(name.endswith(("weight", "bias")) for name in missing)
        what = f"{missing[0]} is" if weights else "the buffers are"
        expect.fail(f"{what} not in the file", "every name of model.state_dict()", f"missing: {missing}")
    extra = [str(name) for name in held if name not in wanted]
    if extra:
        expect.fail(f"{extra[0]} is in the file, too", "the names of model.state_dict()", f"more: {extra}")


@save.row("the model is untouched, where it was")
def model_untouched(trial):
    for mode in (True, False):
        model = Net(trial.seeds[0]).to(trial.device).train(mode)
        before = twin(model)
        if mode:  # the second time all of it is on one device
            model.body[3].to(trial.others[-1] if trial.others else CPU)
        places = {name: tensor.device for name, tensor in model.state_dict().items()}
        with tempfile.TemporaryDirectory() as folder:
            _saved(trial, model, str(Path(folder) / "m"))
        if model.table.device != trial.device:
            expect.fail(f"the model was moved to {model.table.device}", f"a model on {trial.device}", model)
        for name, tensor in model.state_dict().items():
            if tensor.device != places[name]:
                headline = f"the model was moved to {tensor.device}: its {name} was on {places[name]}"
                expect.fail(headline, "a model that stays where it was", model)
        model.to(trial.device)
        expect_weights(model, before, trial.device, lambda name: f"the model's {name} was changed")
        if model.training != mode:
            expect.fail(
                "the model's mode was changed", f"training is {mode}", f"training is {model.training}"
            )
        if not all(parameter.requires_grad for parameter in model.parameters()):
            expect.fail("the parameters were frozen", "requires_grad=True", "requires_grad=False")


@save.row("a second file replaces the first")
def saved_again(trial):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt"
        for seed in trial.seeds[:2]:
            model = Net(seed).to(trial.device)
            held = _saved(trial, model, path)
            right = model.state_dict()["body.0.weight"].cpu()
            if not torch.equal(held.get("body.0.weight", right), right):
                expect.fail("the file still holds the first model", "the model saved last", "an older one")


load = lesson.exercise(
    "load",
    signature="load(model, path, device)",
    facts=("T1", "T4", "L4", "M6"),
    hints=(
        "A file remembers on which device each tensor was. This machine need not have such a device: "
        "`torch.load` has an argument that says where to put the tensors instead.",
        '`state = torch.load(path, map_location="cpu", weights_only=True)`, and the model takes the numbers: '
        "`model.load_state_dict(state)`. Which tensors of the model are where afterwards?",
        "`load_state_dict` copies into the tensors that the model has, wherever they are; so end with "
        "`model.to(device)`.",
    ),
)


def _write(model: nn.Module, path: Path, elsewhere: bool = False) -> None:
    """Save a model's state_dict, if asked as a machine with 64 GPUs would have."""
    if not elsewhere:
        torch.save(model.state_dict(), path)
        return
    plain = path.with_suffix(".cpu")
    torch.save(twin(model).state_dict(), plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(path, "w") as target:
        for item in source.infolist():
            held = source.read(item)
            if item.filename.endswith("/data.pkl"):
                # A text in a pickle is an X, its length in four bytes, and the letters.
                held = held.replace(b"X\x03\x00\x00\x00cpu", b"X\x07\x00\x00\x00" + NOWHERE)
            target.writestr(item.filename, held)


def _expect_loaded(trial, model: nn.Module, wanted: nn.Module, before: nn.Module) -> None:
    """Expect the wanted numbers on the device; `before` is a model with those that it came with."""
    old = before.state_dict()
    for kind, named in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
        for name, tensor in named:
            if tensor.device != trial.device:
                headline = f"the {kind} {name} is on {tensor.device}, not {trial.device}"
                expect.fail(headline, f"the whole model on {trial.device}", f"{name} on {tensor.device}")
    now = model.state_dict()
    if now.keys() == old.keys() and all(torch.equal(now[name].cpu(), old[name]) for name in old):
        headline = "the model holds what it held before: does `load_state_dict` of this very model run?"
        expect.fail(headline, "the numbers of the file", "those that the model came with")
    expect_weights(model, wanted, trial.device, lambda name: f"{name} is not what the file holds")


@load.row("the file's numbers, on the device")
def numbers_on_the_device(trial):
    with tempfile.TemporaryDirectory() as folder:
        for seed, source in zip(trial.seeds, (CPU, trial.device, *trial.others[-1:]), strict=False):
            wanted, path = Net(seed), Path(folder) / f"{seed}.pt"
            _write(copy.deepcopy(wanted).to(source), path)
            starts = (CPU, trial.device, *trial.others[-1:])
            models = [Net(seed + 50).to(start) for start in (*starts, trial.device)]
            models[-1].body[3].to(starts[-1])  # the last one is on several devices at once
            for number, model in enumerate(models):
                trial.call(model, path if number else str(path), trial.device)
                _expect_loaded(trial, model, wanted, Net(seed + 50))


@load.row("a file from a device that is not here")
def from_elsewhere(trial):
    wanted, model = Net(trial.seeds[0]), Net(trial.seeds[1])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "elsewhere.pt"
        _write(wanted, path, elsewhere=True)
        trial.call(model, path, trial.device)
    _expect_loaded(trial, model, wanted, Net(trial.seeds[1]))


@load.row("training goes on from there")
def training_goes_on(trial):
    wanted, model = make_model(trial.seeds[0]), make_model(trial.seeds[1])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt"
        _write(wanted, path)
        trial.call(model, path, trial.device)
    frozen = [name for name, parameter in model.named_parameters() if not parameter.requires_grad]
    if frozen:
        expect.fail(f"{frozen[0]} cannot be trained any more", "requires_grad=True", "requires_grad=False")
    # Tensors made under torch.inference_mode() stay outside of every graph, whatever requires_grad says.
    if any(tensor.is_inference() for tensor in (*model.parameters(), *model.buffers())):
        headline = "the model cannot be trained any more"
        expect.fail(headline, "tensors that training may use", "tensors made under torch.inference_mode()")
    batches = [samples(trial, 6, seed) for seed in trial.seeds]
    reference_steps(wanted, batches)
    optimizer = make_optimizer(model)
    model.train()
    for inputs, labels in batches:
        logits = model(inputs.to(trial.device))
        optimizer.zero_grad()
        nn.functional.cross_entropy(logits, labels.to(trial.device)).backward()
        optimizer.step()
    expect_weights(model, wanted, trial.device, lambda name: f"after more training {name} is wrong")


@load.row("a file of another model is an error")
def another_model(trial):
    model = make_model(trial.seeds[0])
    for missing in ("3.weight", "3.bias", "1.running_mean"):
        for renamed in (False, True):  # or under a name that the model does not have
            state = model.state_dict()
            tensor = state.pop(missing)
            state |= {"another": tensor} if renamed else {}
            if not _refuses(trial, model, state):
                headline = f"a file without {missing} was loaded as if it were whole"
                got = f"no error, and {missing} as it was"
                expect.fail(headline, "the error of load_state_dict", got)


def _refuses(trial, model: nn.Module, state: dict) -> bool:
    """Tell whether the answer raises for a file with this state."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part.pt"
        torch.save(state, path)
        try:
            trial.call(model, path, trial.device)
        except AnswerRaised:
            return True
    return False


class Trap:
    """What a file from a stranger may hold: unpickled, it runs code, here a harmless line."""

    sprung = 0

    def __reduce__(self):
        return _spring, ()


def _spring() -> dict:
    Trap.sprung += 1
    return {}


@load.row("a file is data: nothing in it is run")
def nothing_is_run(trial):
    Trap.sprung = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stranger.pt"
        torch.save({"weights": Trap()}, path)
        with contextlib.suppress(AnswerRaised):  # refused, as it should be
            trial.call(make_model(trial.seeds[0]), path, trial.device)
    if Trap.sprung:
        headline = "code from the file was run"
        expect.fail(headline, "weights_only=True, which refuses such a file", "weights_only=False")
