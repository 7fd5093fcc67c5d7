"""The outputs of a whole data set, fetched at once."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader

from devlab.checks import expect
from devlab.checks.settings import seed_generators
from devlab.checks.verbs import Same, at_once, counts, keep_busy, untouched
from devlab.lessons.lesson_04_transfers import CPU, lesson
from devlab.watching.watch import watch

no_ping_pong = lesson.exercise(
    "no_ping_pong",
    signature="no_ping_pong(model, loader, device)",
    facts=("P1", "P2", "R1", "R2", "R5"),
    hints=(
        "Count the transfers: each batch goes in once, and all the outputs come out together. Where should "
        "they wait until then?",
        "Keep the outputs in a list, on the device. `torch.cat` joins them there. And without "
        "`torch.no_grad()` each output keeps its graph alive.",
        "Under `with torch.no_grad():` write `outputs = [model(x.to(device)) for x in loader]`, and then "
        "`return torch.cat(outputs).cpu()`.",
    ),
)


def _model(trial) -> nn.Module:
    seed_generators(trial.seeds[0])
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).to(trial.device)


def _inputs(trial, count: int, seed: int) -> torch.Tensor:
    return trial.randn(count, 3, seed=seed, on=CPU)


def _outputs(model: nn.Module, inputs: torch.Tensor, size: int) -> torch.Tensor:
    with torch.no_grad():
        return copy.deepcopy(model).cpu()(inputs)


def _look(trial, got: torch.Tensor, *_: object) -> None:
    if got.device != CPU:
        expect.fail(f"the outputs stayed on {got.device}", "one tensor on cpu", got)


def _look_at_order(got: torch.Tensor, wanted: torch.Tensor, *_: object) -> None:
    if not expect.is_alike(got, wanted, 1e-4):
        mine, right = (rows.detach()[rows.detach()[:, 0].argsort()] for rows in (got, wanted))
        if expect.is_alike(mine, right, 1e-4):
            expect.fail("the outputs came back in another order", "the loader's order", got)


# The arguments are a model, all inputs of a loader, and the batch size.
outputs = Same(
    _outputs,
    {
        "only the last batch's outputs came back": lambda *args: _outputs(*args).split(args[-1])[-1],
        "only the first batch's outputs came back": lambda *args: _outputs(*args).split(args[-1])[0],
    },
    lambda model, inputs, size: f"the outputs of all {-(-len(inputs) // size)} batches, in order",
    within=1e-4,
    first=_look,
    then=_look_at_order,
)


@no_ping_pong.row("all outputs, in order, on the CPU")
def all_outputs(trial):
    model = _model(trial)
    for (count, size), seed in zip(((10, 4), (6, 3), (3, 5)), trial.seeds, strict=True):
        model.to(trial.device)  # the next row judges whether a call moved the model
        inputs = _inputs(trial, count, seed)
        keep_busy(trial.device)
        got = at_once(trial, model, DataLoader(inputs, batch_size=size), trial.device)
        outputs.compare(trial, got, model, inputs, size)
    # A single output for each input still has a dimension.
    narrow = nn.Sequential(nn.Linear(3, 1)).to(trial.device)
    # Whole numbers go in and half precision comes out: both dtypes stay what they are.
    words, embedding = torch.arange(14).view(7, 2) % 4, nn.Embedding(4, 3).half().to(trial.device)
    for model, inputs, size in ((narrow, _inputs(trial, 7, trial.seeds[0]), 4), (embedding, words, 3)):
        got = trial.call(model, DataLoader(inputs, batch_size=size), trial.device)
        outputs.compare(trial, got, model, inputs, size)
    # The loader decides on the order, not its data set.
    inputs = _inputs(trial, 7, trial.seeds[1])
    narrow.to(trial.device)
    got = trial.call(narrow, DataLoader(inputs, batch_size=3, sampler=range(6, -1, -1)), trial.device)
    outputs.compare(trial, got, narrow, inputs.flip(0), 3)


@no_ping_pong.row("the model stays where it is")
def model_stays(trial):
    training, inputs = _model(trial), _inputs(trial, 7, trial.seeds[2])
    training[0].weight.grad = torch.ones_like(training[0].weight)
    evaluating = nn.Sequential(_model(trial), nn.BatchNorm1d(2)).to(trial.device).eval()
    narrow, words = nn.Embedding(4, 3).half().to(trial.device), torch.arange(7) % 4
    for model, given in ((training, inputs), (evaluating, inputs), (narrow, words)):
        changed = "`{path}` of the model was changed"
        now = "another `{path}`, or another setting of it"
        with untouched(model, changed, "the model as it came", now):
            _expect_in_place(trial, model, given)


def _expect_in_place(trial, model: nn.Module, inputs: torch.Tensor) -> None:
    trial.call(model, DataLoader(inputs, batch_size=4), trial.device)
    for name, parameter in model.named_parameters():
        if parameter.device != trial.device:
            headline = f"the model was moved to {parameter.device}"
            expect.fail(headline, f"{name} on {trial.device}", f"{name} on {parameter.device}")


@no_ping_pong.row("without a graph")
def without_graph(trial):
    loader = DataLoader(_inputs(trial, 7, trial.seeds[0]), batch_size=3)
    got = trial.call(_model(trial), loader, trial.device)
    expect.kind(got, torch.Tensor, "a tensor")
    if got.requires_grad:
        expect.fail("the result still holds its graph", "requires_grad=False", "requires_grad=True")


@no_ping_pong.row("one transfer in a batch, one out at the end", only="accelerator")
def few_transfers(trial):
    model, inputs = _model(trial), _inputs(trial, 13, trial.seeds[1])
    log, ahead, here = watch(), [], str(trial.device)

    def note(*_: object) -> None:
        ahead.append(sum(one.target == here for one in log.events.transfers) - len(ahead))

    with model[0].register_forward_pre_hook(note):
        args = model, DataLoader(inputs, batch_size=3), trial.device
        trial.run(trial.answer, *args, label=trial.name, log=log)
    copies = log.events.transfers
    into, out = [one for one in copies if one.target == here], [one for one in copies if one.source == here]
    asked, got = "5 transfers in for 5 batches, 1 out", f"{len(into)} in, {len(out)} out"
    early = out[:1] if out and into and copies.index(out[0]) < copies.index(into[0]) else []
    headline = f"something was copied away from {here} before the first batch came: it is no output"
    counts(early, 0, headline, asked, f"{got}; {{one.line}}")
    headline = f"{{times}} out of {here}: the outputs should wait there until the end"
    counts(out, 1, headline, asked, f"{got}; {{one.line}}")
    headline = f"{{times}} into {here} for 5 batches: each should come in one"
    counts(into, 5, headline, asked, f"{got}; {{one.line}}" if into else got, least=5)
    if max(ahead, default=0) > 3:  # a batch in use, and a few that are fetched ahead
        headline = f"{max(ahead)} batches were on {here} at once, before the model had seen them"
        expect.fail(headline, "each batch moved when its turn comes, since all together may not fit", got)
    if len(out) != 1 or len(copies) != 6:
        expect.fail(f"the outputs did not come from {here} in one transfer", asked, got)
    headline, said = "the host waited {count} times, by {causes}", "{one.cause}, {one.line}"
    counts(log.events.synchronizations, 1, headline, "once, for the outputs", said)
