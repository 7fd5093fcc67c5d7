"""Training that goes on from a file as if it had never been interrupted."""

import contextlib
import itertools
import pickle
import tempfile
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from devlab.checks import expect
from devlab.checks.calls import AnswerRaised
from devlab.checks.scenes import scene
from devlab.checks.seen import Seen, must
from devlab.checks.settings import seed_generators
from devlab.lessons.lesson_11_training_step import (
    CLASSES,
    CPU,
    FEATURES,
    WITHIN,
    lesson,
    make_optimizer,
    samples,
    see_weights,
)

continue_training = lesson.exercise(
    "continue_training(model, loader, optimizer, device, steps, path)",
    ("T1", "T2", "T4", "R3", "L4"),
    "Write down what the next step depends on: the model, the optimizer, the random numbers that dropout "
    "draws, the order of this epoch, and how many of its batches are done. Each belongs in the file.",
    "The order is drawn from `loader.generator` as an epoch begins. Keep its `get_state()` from before "
    "`iter(loader)`, and count the batches taken. To come back, set the generator to that state, begin "
    "the epoch, and pass over so many batches.",
    "`torch.get_rng_state()` has the CPU's random numbers, and `get_rng_state(device)` of "
    "`torch.get_device_module(device)` those of an accelerator: keep them under `device.type`. Read the "
    'file by `torch.load(path, map_location="cpu", weights_only=True)`; `load_state_dict` copies from it '
    "to where model and optimizer are.",
)


def ours(model, loader, optimizer, device, steps, path):
    begun, taken, state = loader.generator.get_state(), 0, {}
    rng = torch if device.type == "cpu" else torch.get_device_module(device)
    here = () if device.type == "cpu" else (device,)
    if Path(path).exists():
        state = torch.load(path, map_location="cpu", weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begun, taken = state["begun"], state["taken"]
        loader.generator.set_state(begun)
    batches, losses = itertools.islice(loader, taken, None), []
    if device.type in state:
        rng.set_rng_state(state[device.type], *here)
    model.train()
    while len(losses) < steps:
        if (batch := next(batches, None)) is None:
            begun, taken, batches = loader.generator.get_state(), 0, iter(loader)
            continue
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0].to(device)), batch[1].to(device))
        loss.backward()
        optimizer.step()
        losses, taken = [*losses, loss.item()], taken + 1
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "begun": begun, "taken": taken}
    torch.save(state | {device.type: rng.get_rng_state(*here)}, path)
    return losses


def start(t, number, on=None, dropout=0.0, shuffle=False):
    """Return a model, a loader of three batches and an optimizer, as a program makes them when it starts."""
    seed_generators(number)
    generator, data = torch.Generator().manual_seed(number), TensorDataset(*samples(t, 9, t.seeds[0]))
    layers = nn.Linear(FEATURES, 8, bias=False), nn.BatchNorm1d(8), nn.Dropout(dropout), nn.Linear(8, CLASSES)
    model = nn.Sequential(*layers).to(on or t.device).eval()
    return model, DataLoader(data, 3, shuffle=shuffle, generator=generator), make_optimizer(model)


def train(t, pieces, path, on=None, **how):
    """Let the answer train in pieces, each as a program of its own; return the losses and the last model."""
    found = []
    for number, steps in enumerate(pieces):
        model, loader, optimizer = start(t, number, on, **how)
        got = t.call(model, loader, optimizer, on or t.device, steps, path)
        expect.kind(got, list, "a list of floats")
        if not all(type(loss) is float for loss in got):
            expect.fail("the losses are no floats", "a list of floats", got)
        if len(got) != steps:
            expect.fail(f"{len(got)} losses for {steps} steps", "a float for each step of this call", got)
        found += got
    return found, model


def see_restart(t, pieces, **how):
    """See that training in pieces ends as this very answer's unbroken training does."""
    with tempfile.TemporaryDirectory() as folder:
        right, whole = train(t, [sum(pieces)], Path(folder) / "whole.pt", **how)
        losses, model = train(t, pieces, f"{folder}/pieces.pt", **how)
    asked = f"as {sum(pieces)} steps in one call"
    for step in range(pieces[0], sum(pieces)):
        yield Seen(
            f"the loss of step {step + 1}, after a restart,", losses[step], WITHIN, asked, right=right[step]
        )
    for name, tensor in model.state_dict().items():
        yield Seen(f"the model's {name}", tensor, WITHIN, asked, right=whole.state_dict()[name])


@scene(continue_training, ours, "a training that is not interrupted")
def uninterrupted(t):
    with tempfile.TemporaryDirectory() as folder:
        losses, model = train(t, [7], Path(folder) / "new.pt", shuffle=True)
    for step, loss in enumerate(losses, start=1):
        yield f"the loss of step {step}", loss, WITHIN, "as train_step's, batch after batch of the loader"
    yield from see_weights(model, "seven steps")


@scene(continue_training, ours, "model and optimizer go on")
def model_and_optimizer(t):
    yield from see_restart(t, [3, 3])


@scene(continue_training, ours, "the random numbers go on")
def random_numbers(t):
    yield from see_restart(t, [3, 3], dropout=0.5)


@scene(continue_training, ours, "the data goes on where it stopped")
def position_in_the_data(t):
    yield from see_restart(t, [3, 1, 3], shuffle=True)  # at the end of an epoch, and in the middle of one


@scene(continue_training, ours, "a file from another device or machine")
def from_elsewhere(t):
    with tempfile.TemporaryDirectory() as folder:
        right, _ = train(t, [4], Path(folder) / "whole.pt")
        for place in (*t.others[-1:], None):
            path, tag = Path(folder) / "moved.pt", contextlib.nullcontext()
            if place is None:  # the file says that its tensors come from a device which no machine has
                path = Path(folder) / "elsewhere.pt"
                tag = mock.patch.object(torch.serialization, "location_tag", return_value="cuda:63")
            with tag:
                train(t, [3], path, on=place or CPU)
            (loss,), model = train(t, [1], path)
            yield Seen(
                "the loss of step 4", loss, WITHIN, "as in a training on this device alone", right=right[3]
            )
            homes = {str(tensor.device) for tensor in model.state_dict().values()}
            yield must(homes == {str(t.device)}, f"the model is on {' and '.join(homes)}", str(t.device))


class Trap(NamedTuple):
    """What a file from a stranger may hold: unpickling runs code, which here makes a harmless file."""

    mark: Path

    def __reduce__(self):
        return Path.touch, (self.mark,)


@scene(continue_training, ours, "the file is data, and nothing else is read")
def data_alone(t):
    with tempfile.TemporaryDirectory() as folder:
        path, mark = Path(folder) / "training.pt", Path(folder) / "mark"
        train(t, [1], path)
        if not path.is_file():
            expect.fail("there is no file at the path", "a file of torch.save", "no file of this name")
        try:
            torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:
            asked = "what torch.load(path, weights_only=True) reads"
            expect.fail("the file holds more than data", asked, "objects of classes")
        torch.save({"model": Trap(mark)}, path)
        with contextlib.suppress(AnswerRaised):  # refused, as it should be
            train(t, [1], path)
        asked = "weights_only=True, which refuses such a file"
        yield must(not mark.exists(), "code from the file was run", asked, "weights_only=False")
