"""The device of each parameter and buffer of a model."""

import torch
from torch import nn

from devlab.checks import cases, expect
from devlab.lessons.lesson_10_debugging import lesson, unchanged

device_report = lesson.exercise(
    "device_report(model)",
    ("X2", "X3"),
    "What `.to` moves are the parameters and the buffers. PyTorch has a walk for each that yields pairs of a "
    "dotted name and a tensor.",
    "`model.named_parameters()` and `model.named_buffers()`. A `state_dict` will not do: it leaves out the "
    "buffers that are not saved.",
    "`{name: tensor.device for name, tensor in [*model.named_parameters(), *model.named_buffers()]}`",
)


def _expect_report(trial, model: nn.Module, wanted: dict[str, torch.device], why: str = "") -> None:
    """Expect exactly these names and devices; of "a or b", which are one tensor, one name or both."""
    with unchanged(model, "the model was changed: looking must change nothing"):
        got = trial.call(model)
    expect.kind(got, dict, "a dict", "the report")
    for names in wanted:
        first, *others = names.split(" or ")
        if first not in got and got.keys().isdisjoint(others):
            said = ", ".join(map(str, got)) or "an empty dict"
            expect.fail(f"`{first}` is not in the report{why}", names, said)
    wanted = {name: device for names, device in wanted.items() for name in names.split(" or ")}
    for name, device in got.items():
        if name not in wanted:
            asked, said = ", ".join(wanted) or "an empty dict", ", ".join(map(str, got))
            expect.fail(f"`{name}` is reported, but it is no parameter and no buffer", asked, said)
        expect.kind(device, torch.device, "a torch.device", f"the value at `{name}`")
        expect.equal(device, wanted[name], f"`{name}` is reported on another device than its own")


PARAMETERS = ("0.weight", "0.bias", "1.weight", "1.bias", "2.head.weight", "2.head.bias")
BUFFERS = ("1.running_mean", "1.running_var", "1.num_batches_tracked")


def _net() -> nn.Module:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ModuleDict({"head": nn.Linear(4, 2)}))
    net[0].bias.requires_grad_(False)
    return net


@device_report.row("every parameter, by its dotted name")
def reports_parameters(trial):
    deep = nn.Sequential(nn.Sequential(nn.Sequential(nn.Linear(4, 2, bias=False))))
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), deep)
    model[0].bias.requires_grad_(False)
    model = model.to(trial.device)
    _expect_report(trial, model, dict.fromkeys(("0.weight", "0.bias", "2.0.0.0.weight"), trial.device))
    _expect_report(trial, nn.Linear(2, 3).to(trial.device), dict.fromkeys(("weight", "bias"), trial.device))


@device_report.row("every buffer, saved or not")
def reports_buffers(trial):
    model = _net()
    model.register_buffer("steps", torch.arange(3), persistent=False)
    model.register_buffer("nothing", None)
    model = model.to(trial.device)
    names = (*PARAMETERS, *BUFFERS, "steps")
    _expect_report(trial, model, dict.fromkeys(names, trial.device), ": it is a parameter or a buffer")
    only = nn.Module()
    only.register_buffer("table", torch.ones(4))
    _expect_report(trial, only.to(trial.device), {"table": trial.device})
    # In a submodule of a model that evaluates: two empty buffers, and a buffer that is a part of another.
    model, whole = cases.module(part=nn.Module()).eval(), trial.randn(4)
    buffers = {"one": trial.randn(0), "two": trial.randn(0), "all": whole, "some": whole[:2]}
    for name, buffer in buffers.items():
        model.part.register_buffer(name, buffer, persistent=False)
    _expect_report(trial, model, {f"part.{name}": trial.device for name in buffers})


@device_report.row("each on its own device")
def reports_each(trial):
    other = trial.other()
    model = _net().to(trial.device)
    model[0].to(other)
    model[1].running_var = model[1].running_var.to(other)
    model[2].head.bias = nn.Parameter(torch.ones(2, device=other))
    astray = ("0.weight", "0.bias", "1.running_var", "2.head.bias")
    wanted = {name: other if name in astray else trial.device for name in (*PARAMETERS, *BUFFERS)}
    _expect_report(trial, model, wanted)


@device_report.row("and nothing else")
def reports_nothing_else(trial):
    _expect_report(trial, nn.ReLU(), {})
    tied = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    tied[1].weight = tied[0].weight
    tied.scale, tied.tables = torch.ones(3), [torch.ones(2)]
    tied.spare = [nn.Linear(2, 2)]
    _expect_report(trial, tied.to(trial.device), {"0.weight or 1.weight": trial.device})
    _expect_report(trial, cases.module(window=torch.ones(2), name="net"), {})
