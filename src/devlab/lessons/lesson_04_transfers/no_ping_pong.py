"""The outputs of a whole data set, fetched at once."""

import torch
from torch import nn
from torch.utils.data import DataLoader

from devlab.checks.late_copies import keep_busy
from devlab.checks.scenes import scene
from devlab.checks.seen import UNJUDGED, most, must
from devlab.checks.settings import seed_generators
from devlab.checks.values import times
from devlab.checks.verbs import at_once, untouched
from devlab.lessons.lesson_04_transfers import CPU, lesson
from devlab.watching.watch import watch

no_ping_pong = lesson.exercise(
    "no_ping_pong(model, loader, device)",
    ("P1", "P2", "R1", "R2", "R5"),
    "Count the transfers: each batch goes in once, and all the outputs come out together. Where should they "
    "wait until then?",
    "Keep the outputs in a list, on the device. `torch.cat` joins them there. And without `torch.no_grad()` "
    "each output keeps its graph alive.",
    "Under `with torch.no_grad():` write `outputs = [model(x.to(device)) for x in loader]`, and then `return "
    "torch.cat(outputs).cpu()`.",
)


def ours(model, loader, device):
    with torch.no_grad():
        return torch.cat([model(x.to(device)) for x in loader]).cpu()


def make_model(t):
    seed_generators(t.seeds[0])
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).to(t.device)


def load(t, count, seed, size, **options):
    return DataLoader(t.randn(count, 3, seed=seed, on=CPU), size, **options)


@scene(no_ping_pong, ours, "all outputs, in order, on the CPU", asked="the outputs of all batches, in order")
def all_outputs(t):
    model = make_model(t)
    # A single output for each input still has a dimension. Whole numbers go in and half precision comes out.
    narrow, embedding = nn.Sequential(nn.Linear(3, 1)), nn.Embedding(4, 3).half()
    asked = [(model, load(t, *given)) for given in zip((10, 6, 3), t.seeds, (4, 3, 5), strict=True)]
    asked += [(narrow, load(t, 7, t.seeds[0], 4))]
    asked += [(embedding, DataLoader(torch.arange(14).view(7, 2) % 4, 3))]
    asked += [(narrow, load(t, 7, t.seeds[1], 3, sampler=range(6, -1, -1)))]  # the loader decides the order
    for model, loader in asked:
        model.to(t.device)  # the next row judges whether a call moved the model, or changed its dtype
        keep_busy(t.device)
        before = next(model.parameters()).dtype
        got = at_once(t, model, loader, t.device)
        yield "the result", got if next(model.parameters()).dtype == before else UNJUDGED, 1e-4


@scene(no_ping_pong, ours, "the model stays where it is")
def model_stays(t):
    training, loader = make_model(t), load(t, 7, t.seeds[2], 4)
    training[0].weight.grad = torch.ones_like(training[0].weight)
    evaluating = nn.Sequential(make_model(t), nn.BatchNorm1d(2)).to(t.device).eval()
    embedding, whole = nn.Embedding(4, 3).half().to(t.device), DataLoader(torch.arange(7) % 4, 4)
    changed, now = "`{path}` of the model was changed", "another `{path}`, or another setting of it"
    for model, given in ((training, loader), (evaluating, loader), (embedding, whole)):
        with untouched(model, changed, "the model as it came", now):
            t.call(model, given, t.device)
            for name, one in model.named_parameters():
                words = f"the model was moved to {one.device}"
                yield must(one.device == t.device, words, f"{name} on {t.device}", one)


@scene(no_ping_pong, ours, "without a graph")
def without_graph(t):
    got = t.call(make_model(t), load(t, 7, t.seeds[0], 3), t.device)
    yield must(not got.requires_grad, "the result still holds its graph", "requires_grad=False", got)


@scene(no_ping_pong, ours, "one transfer in a batch, one out at the end", only="accelerator")
def few_transfers(t):
    model, loader = make_model(t), load(t, 13, t.seeds[1], 3)
    log, seen, here = watch(), [], str(t.device)
    with model[0].register_forward_pre_hook(lambda *_: seen.append([*log.events.transfers])):
        t.run(t.answer, model, loader, t.device, label=t.name, log=log)
    copies = log.events.transfers
    into, out = [one for one in copies if one.target == here], [one for one in copies if one.source == here]
    early = out and into and copies.index(out[0]) < copies.index(into[0])
    asked, got = "5 transfers in for 5 batches, 1 out", f"{len(into)} in, {len(out)} out"
    gone = got + "".join(f"; {one.line}" for one in out[:1])
    words = f"something was copied away from {here} before the first batch came: it is no output"
    yield must(not early, words, asked, gone)
    words = f"{len(out)} transfers out of {here}: the outputs should wait there until the end"
    yield must(len(out) < 2, words, asked, gone)
    words = f"{times(len(into), 'transfer')} into {here} for 5 batches: each should come in one"
    yield must(len(into) == 5, words, asked, got + "".join(f"; {one.line}" for one in into[:1]))
    ahead = max((sum(one.target == here for one in met) - n for n, met in enumerate(seen)), default=0)
    words = f"{ahead} batches were on {here} at once, before the model had seen them"
    at_its_turn = "each batch moved when its turn comes, since all together may not fit"
    yield must(ahead <= 3, words, at_its_turn, got)  # one in use, and a few that are fetched ahead
    words = f"the outputs did not come from {here} in one transfer"
    yield must(len(out) == 1 and len(copies) == 6, words, asked, got)
    yield most("the host waited {} times, by {causes}", log.events.synchronizations, 1, "once, at the end")
