"""Layers on several devices, run one after the other."""

import copy
import itertools

import torch
from torch import nn

from devlab.checks import cases, expect, verbs
from devlab.checks.settings import seed_generators
from devlab.lessons.lesson_13_bigger_than_one_device import lesson
from devlab.watching.watch import Log, watch

Chain = lesson.exercise(
    "class Chain(layers, placement)",
    ("Q3",),
    "`x.to(device)` transfers nothing where x is there already. So `forward` may ask for a move before "
    "every layer, and a transfer comes about only where the device changes. What has to be remembered?",
    "In `__init__`: `self.layers = nn.ModuleList(layer.to(device) ...)` over `zip(layers, placement)`, "
    "and `self.placement = list(placement)`: a layer without parameters cannot be asked where it is.",
    "`for layer, device in zip(self.layers, self.placement): x = layer(x.to(device))`, then `return x`",
)

WITHIN = 1e-4


def _make_layers(seed: int) -> list[nn.Module]:
    """Return five small layers on the CPU: two with parameters, one with buffers alone, two with neither.

    The layer with buffers is in evaluation mode, and the bias of the first is frozen.
    """
    seed_generators(seed)
    first = nn.Linear(5, 7)
    first.bias.requires_grad_(False)
    norm = nn.BatchNorm1d(7, affine=False)
    norm.running_mean.normal_(), norm.running_var.uniform_(0.5, 2)
    return [first, nn.Tanh(), norm.eval(), nn.Flatten(), nn.Linear(7, 3)]


def _list_placements(trial) -> list[list[torch.device]]:
    """Return placements of the five layers on two devices: in two parts, there and back, and in one place."""
    one, other = trial.device, trial.other()
    both_ways = [other, other, one, one, other], [one, one, one, other, other]
    return [*both_ways, [one, other, one, other, one], [other] * 5]


def _make_models(trial, placement: list[torch.device], seed: int) -> tuple[nn.Module, nn.Sequential]:
    """Return the answer's model, and a reference of the same layers that stays on the CPU."""
    layers = _make_layers(seed)
    reference = nn.Sequential(*map(copy.deepcopy, layers))
    model = trial.call(layers, placement, changes=True)
    expect.module(model, "Chain", "what Chain(layers, placement) makes")
    return model, reference


def _run(trial, model: nn.Module, x: torch.Tensor, log=None) -> torch.Tensor:
    return trial.run(model, x, label="Chain(layers, placement)", log=log)


@Chain.row("the layers' output, on the last layer's device")
def right_output(trial):
    for placement in _list_placements(trial):
        for seed, start in zip(trial.seeds, cases.places(trial), strict=False):
            model, reference = _make_models(trial, placement, seed)
            x = trial.randn(4, 5, seed=seed, on=start)
            what = f"the output for x on {start}"
            got = _run(trial, model, x, log := watch())
            wanted = reference(x.detach().cpu()).detach()
            _expect_arrived(log, got, wanted)
            expect.tensor(got, wanted, placement[-1], what, WITHIN)


def _expect_arrived(log: Log, got: object, wanted: torch.Tensor) -> None:
    """Say so where other numbers may come from a copy to the CPU for which nothing waited."""
    late = [one for one in log.events.transfers if one.target == "cpu" and not one.blocking]
    alike = not isinstance(got, torch.Tensor) or got.is_meta or expect.is_alike(got, wanted, WITHIN)
    if late and not log.synchronizations and not alike:
        headline = "a layer on the CPU read its input before that had arrived: it was copied with "
        asked = "a copy to the CPU that the host waits for: `x.to(device)`"
        expect.fail(headline + "non_blocking=True", asked, late[0].line)


@Chain.row("each layer lives where the placement says")
def layers_in_place(trial):
    for placement in _list_placements(trial):
        model, reference = _make_models(trial, placement, trial.seeds[0])
        tensors = [*model.parameters(), *model.buffers()]
        count = len([*reference.parameters(), *reference.buffers()])
        if len(tensors) < count:
            headline = f"the model knows {len(tensors)} of {count} parameters and buffers: a plain list "
            expect.fail(headline + "registers no layer", "an nn.ModuleList of the layers", model)
        for number, (layer, device) in enumerate(zip(reference, placement, strict=True)):
            for wanted in (*layer.parameters(), *layer.buffers()):
                same = [t for t in tensors if t.shape == wanted.shape and torch.equal(t.cpu(), wanted)]
                if same and all(one.device != device for one in same):
                    headline = f"layer {number} is on {same[0].device} when the model is made"
                    expect.fail(headline, f"layer {number} on {device}", f"on {same[0].device}")
        _expect_state(model, reference, "making the model")
        _run(trial, model, trial.randn(4, 5, on=placement[0]))
        _expect_state(model, reference, "running the model")


def _expect_state(model: nn.Module, reference: nn.Module, what: str) -> None:
    """Expect of a model the reference's layers in evaluation mode, and its frozen parameters."""

    def kept(side: nn.Module) -> tuple[list[str], list[str]]:
        evaluating = [f"{one}" for one in side.modules() if not (one.training or [*one.children()])]
        return sorted(evaluating), sorted(f"{[*p.shape]}" for p in side.parameters() if not p.requires_grad)

    words = (
        f"{what} has changed {which}" for which in ("the mode of a layer", "which parameters are trained")
    )
    for headline, got, asked in zip(words, kept(model), kept(reference), strict=True):
        if got != asked:
            found, wanted = (", ".join(one) or "none" for one in (got, asked))
            expect.fail(headline, f"in evaluation mode, or frozen: {wanted}", found)


@Chain.row("a transfer only where the device changes")
def transfers_where_it_changes(trial):
    for placement in _list_placements(trial):
        model, _ = _make_models(trial, placement, trial.seeds[1])
        _run(trial, model, trial.randn(4, 5, on=placement[0]))  # what happens only once has happened
        for start in cases.places(trial):
            way = [start, *placement]
            changes = [(str(a), str(b)) for a, b in itertools.pairwise(way) if a != b]
            x = trial.randn(6, 5, seed=trial.seeds[2], on=start)
            log = watch()
            _run(trial, model, x, log)
            copies = log.events.transfers
            asked = " then ".join(f"{a} to {b}" for a, b in changes) or "no transfer"
            headline = f"{{times}} for {verbs.times(len(changes), 'change')} of device"
            verbs.counts(copies, len(changes), headline, asked, "{routes}; the last at {last.line}")
            if [(one.source, one.target) for one in copies] != changes:
                headline = "the transfers do not follow the placement"
                expect.fail(headline, asked, verbs.routes(copies) or "no transfer")


@Chain.row("gradients flow back through all of it, to x")
def gradients_flow(trial):
    for placement in _list_placements(trial):
        model, reference = _make_models(trial, placement, trial.seeds[1])
        x = trial.randn(4, 5, seed=trial.seeds[0]).requires_grad_()
        verbs.flows(_run(trial, model, x), x, reference, cut="the output has lost its graph")
        verbs.pull(reference(x.detach().cpu()))
        for name, parameter in model.named_parameters():
            if parameter.grad is None and parameter.requires_grad:
                expect.fail(f"no gradient reached {name}", "a gradient for each parameter", "None")
        sides = [
            sorted(one.grad.norm().item() for one in side.parameters() if one.requires_grad)
            for side in (model, reference)
        ]
        # The reference went backward twice, by `flows` with a copy of x and here: its gradients are doubled.
        got, wanted = torch.tensor(sides[0]), torch.tensor(sides[1]) / 2
        expect.values(got, wanted, "the gradients", within=1e-3 * max(1.0, wanted.max().item()))
