"""One step from several small batches, by the gradient of the large batch that they make together."""

import weakref

import torch
from torch import nn
from torch.nn import functional as F

from devlab.checks.scenes import scene
from devlab.checks.seen import most, must
from devlab.checks.settings import seed_generators
from devlab.lessons import lesson_12_less_memory_less_time as kit
from devlab.lessons.lesson_12_less_memory_less_time import lesson

accumulate = lesson.exercise(
    "accumulate(model, batches, optimizer, device)",
    ("F6",),
    "`backward` adds to `.grad`, so a backward for each batch and one step at the end will do. But the mean "
    "of a batch of two counts as much as the mean of a batch of ten. How does each sample count the same?",
    "`samples = sum(len(labels) for _, labels in batches)` is known before the first forward. A batch's part "
    "of the large mean is `loss * len(labels) / samples`.",
    "Zero the gradients; for each batch move it, `part = F.cross_entropy(model(x), y) * len(y) / samples`, "
    "`part.backward()`, `total += part.detach()`; then one step, and `return total.item()`.",
)

SIZES = ((7, 3, 1), (2, 9), (4,))


class Keeping(nn.Module):
    """Passes its input on, and counts of how many batches something is still kept for backward."""

    def __init__(self):
        super().__init__()
        self.kept, self.seen = (
            weakref.WeakSet(),
            [],
        )  # of each forward: samples, batches kept before, the mode
        self.register_buffer("one", torch.ones(1), persistent=False)

    def forward(self, x):
        """Return x as it is, behind a step of the graph that keeps a token for backward."""
        self.seen.append((len(x), len(self.kept), self.training))

        def pack(tensor):
            token = nn.Identity()
            self.kept.add(token)
            return token, tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed[1]):
            return x * self.one


def ours(model, batches, optimizer, device):
    optimizer.zero_grad()
    count, total = sum(len(labels) for _, labels in batches), 0.0
    for x, y in batches:
        part = F.cross_entropy(model(x.to(device)), y.to(device), reduction="sum") / count
        part.backward()
        total += part.detach()
    optimizer.step()
    return float(total)


def ready(t, seed, sizes):
    """Return a model, its optimizer and batches."""
    model = kit.make_model(seed)
    model = nn.Sequential(*model[:2], Keeping(), *model[2:]).to(t.device)
    return (
        model,
        kit.make_optimizer(model),
        [kit.samples(t, size, 10 * seed + place) for place, size in enumerate(sizes)],
    )


@scene(accumulate, ours, "the mean loss of all samples, a float")
def mean_loss(t):
    for sizes, seed in zip(SIZES, t.seeds, strict=True):
        model, optimizer, batches = ready(t, seed, sizes)
        yield "the loss", t.call(model, batches, optimizer, t.device), 2e-5


@scene(accumulate, ours, "one step, by the gradient of that mean")
def one_step(t):
    for scale, sizes, seed in zip((1, 1, 1, 5), (*SIZES, SIZES[0]), (*t.seeds, t.seeds[0]), strict=True):
        model, optimizer, batches = ready(t, seed, sizes)
        if scale > 1:  # the gradient is longer than 1
            seed_generators(seed)
            model = nn.Linear(kit.FEATURES, kit.CLASSES, device=t.device)
            optimizer, batches = kit.make_optimizer(model), [(scale * x, y) for x, y in batches]
        for value in (1000.0, float("nan")):  # what gradients from before hold
            t.call(kit.soil_gradients(model, value), batches, optimizer, t.device)
            for name, parameter in model.named_parameters():
                yield f"the parameter {name} after the step", parameter.detach(), 1e-4


@scene(accumulate, ours, "one batch at a time, its graph let go")
def one_at_a_time(t):
    for modes in ("train", "eval", "a part in eval"):
        model, optimizer, batches = ready(t, t.seeds[1], (4, 6, 3, 5))
        model.train(modes != "eval")
        model[2].train(modes == "train")
        before = [module.training for module in model.modules()]
        t.call(model, batches, optimizer, t.device)
        seen = model[2].seen
        yield most("{} samples went through the model at once", max((one[0] for one in seen), default=0), 6)
        yield "the number of forwards", len(seen)
        words = "when a forward began, the graphs of {} batches before it were still kept"
        yield most(
            words, max(one[1] for one in seen), 0, "backward after each forward, which lets the graph go"
        )
        mode = f"the model was put into {'evaluation' if modes == 'train' else 'training'} mode"
        mode = mode if modes != "a part in eval" else "a part of the model was put into another mode"
        same = all(one[2] == (modes == "train") for one in seen)
        yield must(
            same and before == [module.training for module in model.modules()], mode, "each in its own mode"
        )


@scene(accumulate, ours, "each batch moved once, one wait at most", only="accelerator")
def few_waits(t):
    model, optimizer, batches = ready(t, t.seeds[0], (4, 6, 3))
    _, log = t.watched(model, batches, optimizer, t.device)
    waits = log.events.synchronizations
    yield most(f"the host waited for {t.device} {{}} times", len(waits), 1, "one, for the float at the end")
    into = [one for one in log.events.transfers if one.target == str(t.device) and one.bytes > 8]
    yield f"the number of transfers to {t.device}", len(into)
