"""A model filled from a file that was saved on another device."""

import contextlib
import copy
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn

from devlab.checks import expect, verbs
from devlab.checks.calls import AnswerRaised, where_raised
from devlab.lessons.lesson_11_training_step import (
    CPU,
    Net,
    expect_weights,
    lesson,
    make_model,
    samples,
    train_further,
)

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


# A place that no machine has, so that every machine meets a file from elsewhere.
NOWHERE = b"cuda:63"


@contextlib.contextmanager
def _file(state: dict) -> Iterator[Path]:
    """Yield the path of a file that `torch.save` made, which is deleted after the block."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt"
        torch.save(state, path)
        yield path


def _expect_loaded(trial, model: nn.Module, wanted: nn.Module, before: nn.Module) -> None:
    """Expect the wanted numbers on the device; `before` is a model with those that it came with."""
    for kind, named in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
        for name, tensor in named:
            if tensor.device != trial.device:
                headline = f"the {kind} {name} is on {tensor.device}, not {trial.device}"
                expect.fail(headline, f"the whole model on {trial.device}", f"{name} on {tensor.device}")
    if not torch.equal(model.table.cpu(), before.table):
        headline = "the buffer table, which no file holds, lost its values"
        expect.fail(headline, "what the model came with, moved", "other numbers: does `to_empty` run?")
    _expect_dtypes(model, before)
    now, old = model.state_dict(), before.state_dict()
    kept = {name for name, tensor in now.items() if torch.equal(tensor.cpu(), old[name])}
    if kept == old.keys():
        headline = "the model holds what it held before: does `load_state_dict` of this very model run?"
        expect.fail(headline, "the numbers of the file", "those that the model came with")

    def why(name: str) -> str:
        held = "still holds what the model came with, and not what the file holds"
        return f"{name} {held}" if name in kept else f"{name} is not what the file holds"

    expect_weights(model, wanted, trial.device, why)


def _expect_dtypes(model: nn.Module, before: nn.Module) -> None:
    came = before.state_dict()
    for name, tensor in model.state_dict().items():
        if tensor.dtype != came[name].dtype:
            expect.fail(f"{name} became {tensor.dtype}", f"{came[name].dtype}, as it was", tensor)


@load.row("the file's numbers, on the device")
def numbers_on_the_device(trial):
    places = (CPU, trial.device, *trial.others[-1:])
    for seed, source in zip(trial.seeds, places, strict=False):
        wanted = Net(seed)
        with _file(copy.deepcopy(wanted).to(source).state_dict()) as path:
            models = [Net(seed + 50).to(start) for start in (*places, trial.device)]
            models[-1].body[3].to(places[-1])  # the last one is on several devices at once
            for number, model in enumerate(models):
                trial.call(model, path if number else str(path), trial.device)
                _expect_loaded(trial, model, wanted, Net(seed + 50))


@load.row("on a device that is not the current one", only="accelerator")
def not_the_current_device(trial):
    with verbs.current(trial.second()):
        numbers_on_the_device(trial)


@load.row("a file from a device that is not here")
def from_elsewhere(trial):
    wanted, model = Net(trial.seeds[0]), Net(trial.seeds[1])
    with _file(wanted.state_dict()) as plain:
        path = plain.with_name("elsewhere.pt")
        with zipfile.ZipFile(plain) as source, zipfile.ZipFile(path, "w") as target:
            for item in source.infolist():
                # A text in a pickle is an X, its length in four bytes, and the letters.
                is_pickle, text = item.filename.endswith("/data.pkl"), b"X\x07\x00\x00\x00" + NOWHERE
                held = source.read(item)
                held = held.replace(b"X\x03\x00\x00\x00cpu", text) if is_pickle else held
                target.writestr(item.filename, held)
        try:
            trial.call(model, path, trial.device)
        except AnswerRaised as raised:
            if "Attempting to deserialize" not in str(raised.error):
                raise
            headline = "the tensors were sent to the device that they were saved on, which is not here"
            asked = "`map_location`, which says where they go instead"
            expect.fail(headline, asked, f"{raised.error}; {where_raised(raised.error)}")
    _expect_loaded(trial, model, wanted, Net(trial.seeds[1]))


@load.row("training goes on from there")
def training_goes_on(trial):
    wanted, model = make_model(trial.seeds[0]), make_model(trial.seeds[1])
    with _file(wanted.state_dict()) as path:
        trial.call(model, path, trial.device)
    _expect_dtypes(model, wanted)
    frozen = [name for name, parameter in model.named_parameters() if not parameter.requires_grad]
    if frozen:
        expect.fail(f"{frozen[0]} cannot be trained any more", "requires_grad=True", "requires_grad=False")
    # An operator given only tensors made under torch.inference_mode() records no graph, even where
    # requires_grad is True; and none of them can be saved for backward.
    if any(tensor.is_inference() for tensor in (*model.parameters(), *model.buffers())):
        headline = "the model cannot be trained any more"
        expect.fail(headline, "tensors that training may use", "tensors made under torch.inference_mode()")
    batches = [samples(trial, 6, seed) for seed in trial.seeds]
    for one in (wanted, model):
        train_further(one, batches, trial.device)
    expect_weights(model, wanted, trial.device, lambda name: f"after more training {name} is wrong")


@load.row("a file of another model is an error")
def another_model(trial):
    model, seed = make_model(trial.seeds[0]), trial.seeds[1]
    for missing in ("3.weight", "3.bias", "1.running_mean"):
        for renamed in (False, True):  # or under a name that the model does not have
            state = model.state_dict()
            tensor = state.pop(missing)
            state |= {"another": tensor} if renamed else {}
            said = f"no error, and {missing} as it was"
            _expect_refused(trial, model, state, f"a file without {missing}", said)
    state = make_model(seed).state_dict()
    state["3.bias"] = torch.zeros(len(state["3.bias"]) + 1)
    _expect_refused(trial, model, state, "a file whose 3.bias has another shape", "no error")


def _expect_refused(trial, model: nn.Module, state: dict, what: str, got: str) -> None:
    with _file(state) as path, contextlib.suppress(AnswerRaised):
        trial.call(model, path, trial.device)
        expect.fail(f"{what} was loaded as if it were whole", "the error of load_state_dict", got)


class Trap:
    """What a file from a stranger may hold: unpickling runs code, here a harmless line."""

    sprung = 0

    def __reduce__(self):
        return _spring, ()


def _spring() -> dict:
    Trap.sprung += 1
    return {}


@load.row("a file is data: nothing in it is run")
def nothing_is_run(trial):
    Trap.sprung = 0
    with _file({"weights": Trap()}) as path, contextlib.suppress(AnswerRaised):  # refused, as it should be
        trial.call(make_model(trial.seeds[0]), path, trial.device)
    if Trap.sprung:
        headline = "code from the file was run"
        expect.fail(headline, "weights_only=True, which refuses such a file", "weights_only=False")
