"""The capstone: whole epochs, the mean loss of each, and the counts that make them fast."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from devlab.checks import expect, verbs
from devlab.checks.probes import CountingLoader, Graphs
from devlab.checks.scenes import scene
from devlab.checks.seen import most, must
from devlab.checks.settings import seed_generators
from devlab.data import digits
from devlab.lessons import lesson_11_training_step as kit
from devlab.lessons.lesson_11_training_step import lesson

fit = lesson.exercise(
    "fit(model, loader, optimizer, device, epochs)",
    ("T1", "T2", "T3", "T4", "Z1", "P2", "R1", "R4", "K5", "W3"),
    "Two loops around your `train_step`. Which number does Python have to read, and how often in an epoch?",
    "Batches differ in size, so a loss counts as many times as its batch has samples. Add up `loss * "
    "len(labels)` on the device, count the samples in Python, and divide at the end of the epoch.",
    "Begin each epoch with `total = count = 0`. For each batch `total += len(batch[1]) * train_step(model, "
    "batch, optimizer, device)` and `count += len(batch[1])`. At its end `losses.append((total / "
    "count).item())`.",
)


def ours(model, loader, optimizer, device, epochs):
    losses = []
    model.train()
    for _ in range(epochs):
        total = count = 0
        for x, y in loader:
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(y)
            count += len(y)
        losses.append(float(total / count))
    return losses


def make_loader(inputs, labels, size, seed=None):
    generator, shuffle = torch.Generator().manual_seed(seed or 0), seed is not None
    loader = DataLoader(TensorDataset(inputs, labels), size, shuffle=shuffle, generator=generator)
    return CountingLoader(loader, most=50)


def see_losses(got, epochs, fault="", calls=()):
    """See the losses that an answer returned, if nothing is wrong with its steps."""
    expect.kind(got, list, "a list of floats")
    tensors = any(isinstance(loss, torch.Tensor) for loss in got)
    yield must(not tensors, "the losses are tensors, not floats", "a list of floats", got)
    headline = f"{verbs.times(len(got), 'loss')} for {verbs.times(epochs, 'epoch')}"
    yield must(len(got) == epochs, headline, "one loss for each epoch", got)
    yield must(not fault, fault, "each step as in train_step", " → ".join(calls[:6]) or "none of the three")
    for epoch, loss in enumerate(got, start=1):
        yield f"the loss of epoch {epoch}", loss, kit.WITHIN


@scene(fit, ours, "the mean loss over samples, for each epoch", "the mean over its samples")
def mean_loss(t):
    for (count, size, epochs), seed in zip(((10, 4, 2), (7, 7, 1)), t.seeds, strict=False):
        model, loader = kit.make_model(seed, t.device).eval(), make_loader(*kit.samples(t, count, seed), size)
        optimizer, before = kit.make_optimizer(model), kit.make_model(seed).state_dict()
        with kit.note_calls(model, optimizer) as calls:
            got = t.call(model, loader, optimizer, t.device, epochs)
        fault = kit.find_fault(model, before, calls, epochs * len(loader))
        if calls.count(kit.STEP) == epochs < epochs * len(loader):
            fault = "the optimizer took one step in an epoch, and one for each batch is asked"
        yield from see_losses(got, epochs, fault, calls)


@scene(fit, ours, "every batch of every epoch trains the model", "each step as in train_step")
def trains_the_model(t):
    seed = t.seeds[1]
    model = kit.make_model(seed, t.device).eval()
    model[3].bias.requires_grad_(False)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
    # The loader shuffles: each epoch has another order, so the first epoch's batches in a list will not do.
    loader = make_loader(*kit.samples(t, 10, seed + 7), 4, seed)
    got = t.call(model, loader, kit.make_optimizer(model, "adam"), t.device, 2)
    headline = f"the loader was gone through {verbs.times(loader.passes, 'time')} for 2 epochs"
    asked = "once in each epoch, which may have another order"
    yield must(loader.passes == 2, headline, asked, loader.passes)
    frozen = not model[3].bias.requires_grad
    yield must(frozen, "3.bias came frozen and can be trained now", got="requires_grad=True")
    yield from kit.see_weights(model, "two epochs")
    yield from see_losses(got, 2)


def make_task(t):
    """Return the arguments for a call; no tensor of its 4 batches has as many bytes as their 4 sizes."""
    model = kit.make_model(t.seeds[2], t.device)
    return model, make_loader(*kit.samples(t, 18, t.seeds[0]), 5), kit.make_optimizer(model), t.device, 2


@scene(fit, ours, "one transfer for each tensor of a batch", only="accelerator")
def one_transfer_each(t):
    model, loader, *rest = make_task(t)
    log, before = kit.watch_to_first_forward(t, model, loader, *rest)
    into, numbers, _ = kit.journeys(log, t.device)
    into += numbers[4:]  # a sum or two may begin as a number of Python's, in each epoch
    limit, more = 16 + kit.count_sizes(into, loader, 2), "each batch goes in as it comes"
    if len(into) > 16:
        sizes = [tensor.nbytes for batch in loader for tensor in batch]
        twice = sum(one.bytes in sizes for one in into) > 16
        more = "some tensor goes twice" if twice else "more goes in than the batches"
    headline, said = f"{{times}} into {t.device} for 16 tensors: {more}", "{count}; {last.line}"
    asked = "16 transfers: inputs and labels of 4 batches, in 2 epochs"
    verbs.counts(into, limit, headline, asked, said, least=16)
    yield kit.see_turns(before, t.device)


@scene(fit, ours, "at most one wait in an epoch", only="accelerator")
def one_wait_an_epoch(t):
    _, log = t.watched(*make_task(t))
    waits = max(log.events.synchronizations, kit.journeys(log, t.device)[2], key=len)
    yield most("the host waited {times} in 2 epochs: {causes}", waits, 2, "at most once in an epoch")


@scene(fit, ours, "no graph outlives its step")
def no_graph_kept(t):
    model, graphs, alive = kit.make_model(t.seeds[1], t.device), Graphs(), []
    # On the layers, because an answer may call `model.forward(x)`, which runs no hook of the model's.
    model[0].register_forward_pre_hook(lambda *_: alive.append(graphs.alive))
    model[-1].register_forward_hook(lambda *args: graphs.mark(args[-1]))
    loader = make_loader(*kit.samples(t, 12, t.seeds[1]), 3)
    t.call(model, loader, kit.make_optimizer(model), t.device, 2)
    left, asked = graphs.left(), "no graph that outlives its step"
    headline = f"when fit had returned, {verbs.times(left, 'graph')} of its steps lived on"
    yield must(not left, headline, asked, "memory that is held for nothing")
    # A name such as `loss` or `logits` may hold the last step's graph until the next step takes the name.
    headline, asked = "{} graphs of earlier steps were still alive", "a detached loss where losses are kept"
    yield most(headline, max(alive, default=0), 2, asked)


@scene(fit, ours, "it learns to read real digits", "the mean over its samples")
def learns_digits(t):
    images, labels = digits()
    seed_generators(t.seeds[0])
    model = nn.Linear(64, 10).to(t.device)
    loader = make_loader(images[:96].flatten(1), labels[:96], 40)
    yield from see_losses(t.call(model, loader, kit.make_optimizer(model), t.device, 3), 3)
    yield from kit.see_weights(model, "three epochs")
