"""The outputs of a whole data set, fetched at once."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader

from devlab.checks import expect
from devlab.checks.isolation import seed_generators
from devlab.lessons.lesson_04_transfers import (
    CPU,
    expect_arrived,
    keep_busy,
    lesson,
    read_at_once,
    times,
)
from devlab.watching.watch import watch

no_ping_pong = lesson.exercise(
    "no_ping_pong",
    signature="no_ping_pong(model, loader, device)",
    facts=("P1", "P2", "R1", "R2", "R5"),
    hints=(
        "Count the journeys: each batch goes in once, and all the outputs come out together. Where do they "
        "wait until then?",
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


def _reference(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return copy.deepcopy(model).cpu()(inputs)


@no_ping_pong.row("all outputs, in order, on the CPU")
def all_outputs(trial):
    model = _model(trial)
    for (count, size), seed in zip(((10, 4), (6, 3), (3, 5)), trial.seeds, strict=True):
        model.to(trial.device)  # whether a call moved it is judged in the next row
        inputs = _inputs(trial, count, seed)
        wanted = _reference(model, inputs)
        keep_busy(trial.device)
        got, seen, _ = read_at_once(trial, model, DataLoader(inputs, batch_size=size), trial.device)
        expect.kind(got, torch.Tensor, "a tensor")
        if got.device != CPU:
            expect.fail(f"the outputs stayed on {got.device}", "one tensor on cpu", got)
        expect_arrived(trial, got, seen, wanted, "the result")
        parts = wanted.split(size)
        mistaken = {
            "only the last batch's outputs came back": parts[-1],
            "only the first batch's outputs came back": parts[0],
        }
        expect.named(
            seen, wanted, mistaken, f"the outputs of all {len(parts)} batches, in order", within=1e-4
        )
        if seen.shape == wanted.shape and not expect.is_alike(seen, wanted, 1e-4):
            mine, right = (rows.detach()[rows.detach()[:, 0].argsort()] for rows in (seen, wanted))
            if expect.is_alike(mine, right, 1e-4):
                expect.fail("the outputs came back in another order", "the loader's order", seen)
        expect.tensor(seen, wanted, CPU, within=1e-4)
    inputs = _inputs(trial, 7, trial.seeds[0])
    model = nn.Sequential(nn.Linear(3, 1)).to(trial.device)  # one output for each input has a dimension, too
    got = trial.call(model, DataLoader(inputs, batch_size=4), trial.device)
    expect.tensor(got, _reference(model, inputs), CPU, within=1e-4)
    # Whole numbers in, half precision out: neither is to become something else on the way.
    words = torch.arange(7) % 4
    model = nn.Embedding(4, 3).half().to(trial.device)
    got = trial.call(model, DataLoader(words, batch_size=3), trial.device)
    expect.tensor(got, _reference(model, words), CPU)


@no_ping_pong.row("the model stays where it is")
def model_stays(trial):
    model, inputs = _model(trial), _inputs(trial, 7, trial.seeds[2])
    before = [
        (name, tensor.device, tensor.detach().cpu().clone()) for name, tensor in model.named_parameters()
    ]
    trial.call(model, DataLoader(inputs, batch_size=4), trial.device)
    now = dict(model.named_parameters())
    for name, device, values in before:
        if now[name].device != device:
            headline = f"the model was moved to {now[name].device}"
            expect.fail(headline, f"{name} on {device}", f"{name} on {now[name].device}")
        expect.values(now[name], values, f"the model's {name}")


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
        ahead.append(sum(transfer.target == here for transfer in log.events.transfers) - len(ahead))

    with model[0].register_forward_pre_hook(note):
        args = model, DataLoader(inputs, batch_size=3), trial.device
        trial.run(trial.answer, *args, label=trial.name, log=log)
    into = [transfer for transfer in log.events.transfers if transfer.target == here]
    out = [transfer for transfer in log.events.transfers if transfer.source == here]
    asked = "5 transfers in for 5 batches, 1 out"
    got = f"{len(into)} in, {len(out)} out"
    order = log.events.transfers
    if out and into and order.index(out[0]) < order.index(into[0]):
        headline = f"something was copied away from {here} before the first batch came: it is no output"
        expect.fail(headline, asked, f"{got}; {out[0].line}")
    if len(out) > 1:
        headline = f"{len(out)} transfers out of {here}, where the outputs are to wait until the end"
        expect.fail(headline, asked, f"{got}; {out[0].line}")
    if len(into) != 5:
        where = f"; {into[0].line}" if into else ""
        headline = f"{times(len(into), 'transfer')} into {here} for 5 batches: each is to come in one"
        expect.fail(headline, asked, got + where)
    if max(ahead, default=0) > 3:  # one in use, and some fetched ahead
        headline = f"{max(ahead)} batches were on {here} at once, before the model had seen them"
        expect.fail(headline, "each batch moved when its turn comes, since all together may not fit", got)
    if len(out) != 1 or log.transfers != 6:
        expect.fail(f"the outputs did not come from {here} in one transfer", asked, got)
    if log.synchronizations > 1:
        waits = [f"{wait.cause}, {wait.line}" for wait in log.events.synchronizations]
        causes = " and ".join(dict.fromkeys(wait.cause for wait in log.events.synchronizations))
        headline = f"the host waited {len(waits)} times, by {causes}"
        expect.fail(headline, "once, for the outputs", waits[0])
