"""A model in two places."""

import copy

import torch
from torch import nn

from devlab.checks import expect
from devlab.checks.calls import AnswerRaised
from devlab.checks.isolation import seed_generators
from devlab.lessons.lesson_09_several_devices import expect_at_most, expect_gradient, expect_graph, lesson
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


def _halves(seed: int) -> tuple[nn.Module, nn.Module]:
    """Return two small modules on the CPU, with parameters from a seed, and a buffer in the second."""
    seed_generators(seed)
    first = nn.Sequential(nn.Linear(5, 7), nn.Tanh())
    second = nn.Sequential(nn.BatchNorm1d(7), nn.Linear(7, 2)).eval()
    return first, second


def _made(trial, seed: int, devices: tuple[torch.device, torch.device]):
    """Return the answer's model for two halves, and a reference of the halves that stays on the CPU."""
    first, second = _halves(seed)
    reference = nn.Sequential(copy.deepcopy(first), copy.deepcopy(second))
    model = trial.call(first, second, devices, changes=True)
    if not isinstance(model, nn.Module):
        expect.fail("TwoStage makes no nn.Module", "class TwoStage(nn.Module)", model)
    return model, reference


def _run(trial, model: nn.Module, x: torch.Tensor, log=None) -> torch.Tensor:
    return trial.run(model, x, label="TwoStage(first, second, devices)", log=log)


def _routes(trial):
    """Yield pairs of devices for the two stages, both ways."""
    other = trial.other()
    yield trial.device, other
    yield other, trial.device


@TwoStage.row("the right output, on the second device")
def right_output(trial):
    for seed, devices in zip(trial.seeds, (*_routes(trial), *_routes(trial)), strict=False):
        model, reference = _made(trial, seed, devices)
        for place, start in enumerate((devices[0], devices[1])):
            x = trial.randn(6, 5, seed=seed + 10 * place, on=start)
            with torch.no_grad():
                wanted = reference(x.cpu())
            expect.tensor(_run(trial, model, x), wanted, devices[1], f"the output for x on {start}")
        # A half need not have parameters.
        model = trial.call(nn.Flatten(), nn.Tanh(), devices, changes=True)
        x = trial.randn(3, 2, 2, seed=seed, on=devices[0])
        expect.tensor(_run(trial, model, x), x.cpu().flatten(1).tanh(), devices[1], "the output", within=1e-5)


@TwoStage.row("each half lives on its own device")
def halves_in_place(trial):
    for devices in _routes(trial):
        model, reference = _made(trial, trial.seeds[0], devices)
        tensors = [*model.parameters(), *model.buffers()]
        count = len([*reference.parameters(), *reference.buffers()])
        if len(tensors) < count:
            expect.fail(
                f"the model knows {len(tensors)} of {count} parameters and buffers: are both halves "
                "attributes of it?",
                "both halves registered in the model",
                f"{len(tensors)} parameters and buffers",
            )
        _expect_as_given(trial, devices)
        for number, part in enumerate(reference):
            _expect_half(tensors, part, devices[number], ("first", "second")[number])
        x = trial.randn(6, 5, seed=trial.seeds[1], on=devices[0])
        with torch.no_grad():  # in training mode the second half normalizes by the batch
            wanted = reference.train()(x.cpu())
        model.train()
        expect.tensor(_run(trial, model, x), wanted, devices[1], "the output in training mode", within=1e-4)


def _expect_as_given(trial, devices: tuple[torch.device, torch.device]) -> None:
    """Expect of the halves, each of which has its mode and may have parameters that are not trained."""
    first, second = _halves(trial.seeds[0])
    first[0].bias.requires_grad_(False)
    model = trial.call(first, second, devices, changes=True)
    evaluating = [type(one).__name__ for one in model.modules() if not (one.training or [*one.children()])]
    if sorted(evaluating) != ["BatchNorm1d", "Linear"]:
        asked = "the first half as it came, training, and the second evaluating"
        said = f"evaluating: {', '.join(evaluating) or 'nothing'}"
        expect.fail("making the model has changed a half's mode", asked, said)
    frozen = sum(not parameter.requires_grad for parameter in model.parameters())
    if frozen != 1:
        words = "making the model has changed which parameters are trained"
        expect.fail(words, "1 frozen parameter, as it came", f"{frozen} frozen")


def _expect_half(tensors: list[torch.Tensor], part: nn.Module, device: torch.device, name: str) -> None:
    for wanted in (*part.parameters(), *part.buffers()):
        found = [one for one in tensors if one.shape == wanted.shape and torch.equal(one.cpu(), wanted)]
        if found and all(one.device != device for one in found):
            expect.fail(
                f"the {name} half was left on {found[0].device} when the model was made",
                f"the {name} half on {device}",
                f"a parameter or buffer of it on {found[0].device}",
            )


@TwoStage.row("gradients cross from half to half")
def gradients_flow(trial):
    for devices in _routes(trial):
        model, reference = _made(trial, trial.seeds[1], devices)
        plain = trial.randn(4, 5, seed=trial.seeds[2], on=devices[0])
        _backward(_run(trial, model, plain))
        reference(plain.cpu()).square().sum().backward()
        _expect_gradients(model, reference)
        for module in (model, reference):
            module.zero_grad()
        x = trial.randn(6, 5, seed=trial.seeds[1], on=devices[0]).requires_grad_()
        y = x.detach().cpu().requires_grad_()
        out = _run(trial, model, x)
        _backward(out)
        reference(y).square().sum().backward()
        _expect_gradients(model, reference)
        expect_gradient(x, y.grad, "x")


def _backward(out: object) -> None:
    expect.kind(out, torch.Tensor, "a tensor", "the output")
    expect_graph(out, "the output")
    try:
        out.square().sum().backward()
    except RuntimeError as error:
        raise AnswerRaised(error) from error


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


@TwoStage.row("only what flows is moved: x, and the middle")
def two_transfers(trial):
    for devices in _routes(trial):
        model, _ = _made(trial, trial.seeds[2], devices)
        _run(trial, model, trial.randn(3, 5, on=devices[0]))  # what happens only once has happened
        for start, count in ((devices[0], 1), (devices[1], 2)):
            log = watch()
            _run(trial, model, trial.randn(6, 5, seed=trial.seeds[2], on=start), log)
            needed = "x to the first device if it is elsewhere, the middle to the second, and nothing more"
            expect_at_most(log, count, needed)
