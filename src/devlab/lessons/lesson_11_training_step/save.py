"""Checkpoints: a state_dict in a file."""

import pickle
import tempfile
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy
import torch
from torch import nn

from devlab.checks import expect
from devlab.checks.calls import changed, holdings
from devlab.lessons.lesson_11_training_step import CPU, Net, expect_weights, lesson, twin

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


UNREADABLE = "torch.load cannot read the file", "a file of torch.save"
DATA = "more than data"
NEWEST_READ = 3  # the newest pickle protocol that weights_only=True reads; torch.save writes 2 by itself


def _save_and_read(trial, model: nn.Module, path: str | Path) -> Mapping:
    """Let the answer save, and return what the file holds; Mismatch where it cannot be read as data."""
    trial.call(model, path)
    if not Path(path).is_file():
        expect.fail("there is no file at the path", f"a file {Path(path).name}", "no file of this name")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about files that are refused in the next line anyway
            held = torch.load(path, weights_only=True, map_location="cpu")
    except pickle.UnpicklingError:
        _refuse(path)
    except Exception as error:
        expect.fail(*UNREADABLE, type(error).__name__)
    expect.kind(held, Mapping, "a state_dict", "what the file holds")
    return held


def _refuse(path: str | Path) -> None:
    """Say what a file holds that `torch.load` refuses to read as data."""
    if not zipfile.is_zipfile(path):
        expect.fail(*UNREADABLE, "another kind of file")
    kind = _kind_of(path)
    with zipfile.ZipFile(path) as held:
        name = next(name for name in held.namelist() if name.endswith("data.pkl"))
        protocol = held.read(name)[1]  # a pickle says its protocol in its second byte
    if kind == DATA and protocol > NEWEST_READ:
        headline = f"the file is written in pickle protocol {protocol}, which weights_only=True does not read"
        expect.fail(headline, "torch.save without `pickle_protocol`", f"pickle_protocol={protocol}")
    headline = f"the file holds {kind}: it cannot be loaded with weights_only=True"
    expect.fail(headline, "a file that torch.load(path, weights_only=True) reads", kind)


def _kind_of(path: str | Path) -> str:
    """Return what the answer's own file holds, in words."""
    try:
        held = torch.load(path, weights_only=False, map_location="cpu")
    except Exception:
        return DATA
    if isinstance(held, nn.Module):
        return "the model itself, and its state_dict is asked"
    items = held.values() if isinstance(held, Mapping) else [held]
    arrays = any(isinstance(item, numpy.ndarray) for item in items)
    return "NumPy arrays, and tensors are asked" if arrays else DATA


@save.row("the file holds the state_dict, all of it")
def holds_the_state_dict(trial):
    with tempfile.TemporaryDirectory() as folder:
        for seed, as_text in zip(trial.seeds, (True, False, True), strict=True):
            model = Net(seed).to(trial.device)
            model.body[3].requires_grad_(False)  # what is not trained is saved all the same
            model.scale = model.scale.half()
            if not as_text:
                model.head = model.body[3]  # one layer under two names
            wanted = {name: tensor.cpu().clone() for name, tensor in model.state_dict().items()}
            path = Path(folder) / f"model {seed}.{'ckpt' if as_text else 'pt'}"
            held = _save_and_read(trial, model, str(path) if as_text else path)
            _expect_names(held, wanted)
            for name, right in wanted.items():
                expect.tensor(held[name], right, CPU, f"{name} in the file")


def _expect_names(held: Mapping, wanted: dict) -> None:
    missing = [name for name in wanted if name not in held]
    if missing:
        first = missing[0]
        if any(isinstance(value, Mapping) for value in held.values()):
            headline = "the file holds a dict with the state_dict in it, not the state_dict itself"
            expect.fail(headline, f"names of tensors, such as {first}", held)
        before = [name.removesuffix(first) for name in map(str, held) if name.endswith(f".{first}")]
        if before:
            headline = (
                f"the names in the file begin with `{before[0]}`, and those of model.state_dict() do not"
            )
            expect.fail(headline, first, before[0] + first)
        weights = any(name.endswith(("weight", "bias")) for name in missing)
        what = f"{first} is" if weights else "the buffers are"
        expect.fail(f"{what} not in the file", "every name of model.state_dict()", f"missing: {missing}")
    extra = [str(name) for name in held if name not in wanted]
    if extra:
        expect.fail(f"{extra[0]} is in the file as well", "the names of model.state_dict()", f"more: {extra}")


@save.row("the model is untouched, where it was")
def model_untouched(trial):
    for mode in (True, False):
        model = Net(trial.seeds[0]).to(trial.device).train(mode)
        model.body[1].train(not mode)  # the mode of a part is its own, as in fine-tuning
        model.body[0].requires_grad_(False)
        before = twin(model)
        if mode:  # the second time all of it is on one device
            model.body[3].to(trial.others[-1] if trial.others else CPU)
        came = {name: (tensor.device, tensor.dtype) for name, tensor in model.state_dict().items()}
        for parameter in model.parameters():  # gradients of a step that was not taken yet
            parameter.grad = torch.ones_like(parameter)
        held = holdings(model)
        with tempfile.TemporaryDirectory() as folder:
            _save_and_read(trial, model, str(Path(folder) / "m"))
        now = changed(held, model)
        if model.table.device != trial.device:
            expect.fail(f"the model was moved to {model.table.device}", f"a model on {trial.device}", model)
        for name, tensor in model.state_dict().items():
            place, dtype = came[name]
            if tensor.dtype != dtype:
                expect.fail(f"the model's {name} became {tensor.dtype}", f"{dtype}, as it was", tensor)
            if tensor.device != place:
                headline = f"the model was moved to {tensor.device}: its {name} was on {place}"
                expect.fail(headline, "a model that stays where it was", model)
        model.to(trial.device)
        expect_weights(model, before, trial.device, lambda name: f"the model's {name} was changed")
        if model.training != mode:
            headline = "the model's mode was changed"
            expect.fail(headline, f"training is {mode}", f"training is {model.training}")
        if not model.body[3].weight.requires_grad:
            expect.fail("the parameters were frozen", "requires_grad=True", "requires_grad=False")
        if now:
            expect.fail(f"`{now}` of the model was changed", "the model as it came", "another one")


@save.row("a second file replaces the first")
def saved_again(trial):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt"
        for seed, more in zip(trial.seeds, (20_000, 1), strict=False):  # the second is the smaller one
            model = Net(seed).to(trial.device)
            model.register_buffer(f"more{more}", torch.ones(more))
            before = path.read_bytes() if path.is_file() else b""
            try:
                held = _save_and_read(trial, model, path)
            except expect.Mismatch as found:
                if before and path.is_file() and path.read_bytes().startswith(before):
                    headline = "the second file was written behind the first: it replaces the first one"
                    raise expect.Mismatch(headline, found.expected, "both, one behind the other") from None
                raise
            right = model.state_dict()["body.0.weight"].cpu()
            if not torch.equal(held.get("body.0.weight", right), right):
                expect.fail("the file still holds the first model", "the model saved last", "an older one")
            _expect_names(held, model.state_dict())
