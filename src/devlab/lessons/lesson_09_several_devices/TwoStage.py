"""A model in two places."""

import copy

import torch
from torch import nn

from devlab.checks import expect, verbs
from devlab.checks.settings import seed_generators
from devlab.lessons.lesson_09_several_devices import CPU, expect_at_most, expect_gradients, lesson
from devlab.watching.watch import watch

TwoStage = lesson.exercise(
    "TwoStage",
    signature="class TwoStage(first, second, devices)",
    facts=("U1", "U2", "U3"),
    hints=(
        "Three things have to be somewhere: the first half, the second half, and what flows between them. "
        "The halves move once, when the model is made. What flows moves at every call.",
        "In `__init__`: `super().__init__()`, then `self.first = first.to(devices[0])`, the second likewise, "
        "and remember the devices. In `forward`, a `.to` before each half.",
        "`x = self.first(x.to(self.devices[0]))`, then `return self.second(x.to(self.devices[1]))`",
    ),
)

Devices = tuple[torch.device, torch.device]
output = verbs.Same(lambda reference, x: reference(x).detach(), what="the output")


def _halves(seed: int) -> tuple[nn.Module, nn.Module]:
    """Return two small modules on the CPU, with parameters from a seed, and a buffer in the second."""
    seed_generators(seed)
    first = nn.Sequential(nn.Linear(5, 7), nn.Tanh())
    second = nn.Sequential(nn.BatchNorm1d(7), nn.Linear(7, 2)).eval()
    return first, second


def _made(trial, devices: Devices, *halves: nn.Module) -> tuple[nn.Module, nn.Sequential]:
    """Return the answer's model for two halves, and a reference of the halves that stays on the CPU."""
    reference = nn.Sequential(*map(copy.deepcopy, halves))
    model = trial.call(*halves, devices, changes=True)
    if not isinstance(model, nn.Module):
        expect.fail("TwoStage makes no nn.Module", "class TwoStage(nn.Module)", model)
    return model, reference


def _run(trial, model: nn.Module, x: torch.Tensor, log=None) -> torch.Tensor:
    return trial.run(model, x, label="TwoStage(first, second, devices)", log=log)


def _routes(trial) -> list[Devices]:
    """Return pairs of devices for the two stages, both ways."""
    return [(trial.device, trial.other()), (trial.other(), trial.device)]


@TwoStage.row("the right output, on the second device")
def right_output(trial):
    for seed, devices in zip(trial.seeds, _routes(trial) * 2, strict=False):
        model, reference = _made(trial, devices, *_halves(seed))
        for place, start in enumerate(devices):
            x = trial.randn(6, 5, seed=seed + 10 * place, on=start)
            what = f"the output for x on {start}"
            output.compare(trial, _run(trial, model, x), reference, x, on=devices[1], what=what)
        # A half need not have parameters.
        model, reference = _made(trial, devices, nn.Flatten(), nn.Tanh())
        x = trial.randn(3, 2, 2, seed=seed, on=devices[0])
        output.compare(trial, _run(trial, model, x), reference, x, on=devices[1], within=1e-5)


@TwoStage.row("each half lives on its own device")
def halves_in_place(trial):
    for devices in _routes(trial):
        model, reference = _made(trial, devices, *_halves(trial.seeds[0]))
        tensors = [*model.parameters(), *model.buffers()]
        count = len([*reference.parameters(), *reference.buffers()])
        if len(tensors) < count:
            headline = f"the model knows {len(tensors)} of {count} parameters and buffers: "
            headline += "are both halves attributes of it?"
            said = f"{len(tensors)} parameters and buffers"
            expect.fail(headline, "both halves registered in the model", said)
        _expect_as_given(trial, devices)
        for name, part, device in zip(("first", "second"), reference, devices, strict=True):
            _expect_half(tensors, part, device, name)
        _expect_one_move(trial, devices)
        x = trial.randn(6, 5, seed=trial.seeds[1], on=devices[0])
        model.train(), reference.train()  # in training mode the second half normalizes by the batch
        got = _run(trial, model, x)
        output.compare(
            trial, got, reference, x, on=devices[1], what="the output in training mode", within=1e-4
        )


def _expect_as_given(trial, devices: Devices) -> None:
    """Expect the halves of a model as they came: each in its own mode, a frozen parameter still frozen."""
    for training in (0, 1):
        halves = _halves(trial.seeds[0])
        for place, half in enumerate(halves):
            half.train(place == training)
        halves[1][0].eval()  # in a half that trains, too, a part may evaluate
        halves[0].requires_grad_(False)
        halves[1][1].weight.requires_grad_(False)
        model, reference = _made(trial, devices, *halves)
        _expect_state(model, reference, "making the model")
        _run(trial, model, trial.randn(6, 5, seed=trial.seeds[0], on=devices[0]))
        _expect_state(model, reference, "a call of the model")


def _expect_state(model: nn.Module, reference: nn.Module, what: str) -> None:
    """Expect the reference's modes and frozen parameters; `what` says after what."""
    found, asked = (
        sorted(f"{one}" for one in side.modules() if not (one.training or [*one.children()]))
        for side in (model, reference)
    )
    if found != asked:
        headline = f"{what} has changed a half's mode"
        expect.fail(headline, *(f"evaluating: {', '.join(one) or 'nothing'}" for one in (asked, found)))
    found, asked = (
        sorted(f"{list(one.shape)}" for one in side.parameters() if not one.requires_grad)
        for side in (model, reference)
    )
    if found != asked:
        headline = f"{what} has changed which parameters are trained"
        expect.fail(headline, *(f"frozen, by shape: {', '.join(one) or 'none'}" for one in (asked, found)))


def _expect_half(tensors: list[torch.Tensor], part: nn.Module, device: torch.device, name: str) -> None:
    for wanted in (*part.parameters(), *part.buffers()):
        found = [one for one in tensors if one.shape == wanted.shape and torch.equal(one.cpu(), wanted)]
        if found and all(one.device != device for one in found):
            headline = f"the {name} half was left on {found[0].device} when the model was made"
            said = f"a parameter or buffer of it on {found[0].device}"
            expect.fail(headline, f"the {name} half on {device}", said)


def _expect_one_move(trial, devices: Devices) -> None:
    """Expect each parameter and buffer to go once, from the CPU to its own device, as the model is made."""
    halves = _halves(trial.seeds[0])
    count = sum(
        len([*half.parameters(), *half.buffers()])
        for half, device in zip(halves, devices, strict=True)
        if device != CPU
    )
    _, log = trial.watched(*halves, devices, changes=True)
    needed = "each parameter and buffer of a half once, straight to its own device"
    expect_at_most(log, count, needed)


@TwoStage.row("gradients flow back through both halves")
def gradients_flow(trial):
    for devices in _routes(trial):
        model, reference = _made(trial, devices, *_halves(trial.seeds[1]))
        x = trial.randn(4, 5, seed=trial.seeds[2], on=devices[0])
        got = _run(trial, model, x)
        verbs.pull(reference(x.cpu()))
        name, parameter = next(model.named_parameters())
        words = {"none": "no gradient reached {what}", "asked": "a gradient for each parameter"}
        verbs.flows(got, parameter, None, name, cut="the output has lost its graph", **words)
        _expect_gradients(model, reference)
        for start in devices:
            model.zero_grad(), reference.zero_grad()
            x = trial.randn(6, 5, seed=trial.seeds[1], on=start).requires_grad_()
            expect_gradients(_run(trial, model, x), reference, {f"x on {start}": x}, "the output")
            _expect_gradients(model, reference)


def _expect_gradients(model: nn.Module, reference: nn.Module) -> None:
    """Expect the reference's gradients, under whatever names: they are told apart by their size."""
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            expect.fail(f"no gradient reached {name}", "a gradient for each parameter", "None")
    got, wanted = (
        torch.tensor(sorted(parameter.grad.norm().item() for parameter in side.parameters()))
        for side in (model, reference)
    )
    expect.values(got, wanted, "the gradients", within=1e-3)


@TwoStage.row("only x and the middle are transferred")
def two_transfers(trial):
    needed = "x to the first device if it is elsewhere, the middle to the second, and nothing more"
    for devices in _routes(trial):
        model, _ = _made(trial, devices, *_halves(trial.seeds[2]))
        _run(trial, model, trial.randn(3, 5, on=devices[0]))  # what happens only once has happened
        for start, count in zip(devices, (1, 2), strict=True):
            log = watch()
            _run(trial, model, trial.randn(6, 5, seed=trial.seeds[2], on=start), log)
            expect_at_most(log, count, needed)
    trial.second()
