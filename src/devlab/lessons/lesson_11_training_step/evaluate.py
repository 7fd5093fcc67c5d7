"""Accuracy over a loader, read once at the end, the model's mode put back."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from devlab.checks import expect, verbs
from devlab.checks.scenes import scene
from devlab.checks.seen import Seen, most, must
from devlab.lessons import lesson_11_training_step as kit
from devlab.lessons.lesson_11_training_step import lesson

evaluate = lesson.exercise(
    "evaluate(model, loader, device)",
    ("T1", "T4", "R4", "R5", "P2"),
    "Accuracy is the number of right answers divided by the number of samples. Python knows the second, "
    "`len(labels)`. The first is computed on the device, and can stay there until the loop is over.",
    "`correct += (model(inputs).argmax(dim=1) == labels).sum()` adds tensors on the device and waits for "
    "nothing. Around the loop belong `torch.no_grad()` and evaluation mode, which has to be undone for each "
    "module.",
    "`modes = {module: module.training for module in model.modules()}` before `model.eval()`; after the loop "
    "`module.training = mode` for each of them, and `return correct.item() / total`.",
)


STAYS = "a model that stays as it is"


def ours(model, loader, device):
    modes = {module: module.training for module in model.modules()}
    model.eval()
    with torch.no_grad():
        hits = sum((model(x.to(device)).argmax(1) == y.to(device)).sum() for x, y in loader)
    for module, training in modes.items():
        module.training = training
    return hits.item() / len(loader.dataset)


def ready(t, seed, count, size):
    """Return a model whose running statistics are no batch's, and a loader whose last batch is all wrong."""
    model, (inputs, _) = kit.make_model(seed).eval(), kit.samples(t, count, seed)
    with torch.no_grad():
        model[1].running_mean += torch.linspace(-1, 1, 6)
        model[1].running_var *= 3
        first, second = model[:4](inputs).topk(2).values.unbind(1)
        # Two classes nearly alike may change places on a device that rounds in another way.
        inputs[first - second < 0.01] = inputs[(first - second).argmax()].clone()
        labels = model[:4](inputs).argmax(1)
    wrong = torch.arange(count) % 4 == 1
    wrong[count - (count % size or 1) :] = True  # batches do not weigh the same
    labels[wrong] = (labels[wrong] + 1) % 3
    return model.to(t.device), DataLoader(TensorDataset(inputs, labels), size)


@scene(evaluate, ours, "right answers over all samples")
def accuracy_over_samples(t):
    # 2,053 of the first samples are right, and float16 cannot hold that number.
    for count, size, seed in zip((2739, 10, 8), (391, 4, 3), t.seeds, strict=True):
        got = t.call(*ready(t, seed, count, size), t.device)
        yield Seen("the accuracy", got, 1e-6, f"the right answers divided by {count} samples")


@scene(evaluate, ours, "in evaluation mode, without a graph", "the share of right answers")
def evaluation_mode(t):
    model, loader = ready(t, t.seeds[0], 10, 4)
    model.train()[0].requires_grad_(False)
    for parameter in model[3].parameters():
        parameter.grad = torch.ones_like(parameter)
    held, modes, graphs = kit.twin(model).state_dict(), model[-1].modes, []
    # The model's own forward may ask about its own mode, and a copy of the model takes its hooks along.
    model.register_forward_pre_hook(lambda module, _: modes.append(module.training))
    model[-1].register_forward_hook(lambda module, _, output: graphs.append(output.requires_grad))
    got = t.call(model, loader, t.device)
    yield must(not any(modes), "the forward ran in training mode", "model.eval() before the loop")
    headline, asked = "the forward built a graph, which takes memory for nothing", "torch.no_grad()"
    yield must(not any(graphs), headline, f"{asked} around the loop", "outputs with requires_grad=True")
    for name, tensor in model.state_dict().items():
        same = tensor.dtype == held[name].dtype and expect.is_alike(tensor, held[name], 0.0)
        yield must(same, f"the model's {name} was changed", STAYS, tensor)
    for name, parameter in model.named_parameters():
        came, now = not name.startswith("0."), parameter.requires_grad
        headline = f"{name} came with requires_grad={came}, and left with another"
        yield must(now == came, headline, STAYS, f"requires_grad={now}")
        kept = parameter.grad is not None and bool((parameter.grad == 1).all())
        yield must(kept == name.startswith("3."), "the model's gradients were touched", STAYS, "another one")
    yield "the accuracy", got, 1e-6


@scene(evaluate, ours, "the mode it found is restored")
def mode_restored(t):
    words = "evaluation", "training"
    # The third model trains while its normalization evaluates, as in fine-tuning; of the last, one layer
    # trains alone. Both are parts of a part.
    for before, mixed in ((True, False), (False, False), (True, True), (False, True)):
        parts, loader = ready(t, t.seeds[2], 5, 3)
        model = (nn.Sequential(parts) if mixed else parts).train(before)
        parts[1 if before else 3].train(before != mixed)
        came = {name: module.training for name, module in model.named_modules(prefix="model")}
        with verbs.untouched(model, "`{path}` of the model was changed", STAYS, "another one"):
            t.call(model, loader, t.device)
            for name, module in model.named_modules(prefix="model"):
                mode, which = came[name], "a model" + f"'s {type(module).__name__}" * (module is not model)
                headline = f"{which} that came in {words[mode]} mode was left in {words[not mode]} mode"
                asked = "each module's own mode" if mixed else f"{name}.training is {mode}"
                yield must(module.training == mode, headline, asked, f"{name}.training is {not mode}")
            now = parts[0].weight.device
            yield must(now == t.device, f"the model was moved to {now}", f"on {t.device}", model)
            parts[-1].modes.clear()  # the probe's own notes


@scene(evaluate, ours, "one wait, at the end", only="accelerator")
def one_wait(t):
    # Five batches, of which no tensor is as large as a vector with a number for each of them.
    model, loader = ready(t, t.seeds[1], 19, 4)
    log, before = kit.watch_to_first_forward(t, model, loader, t.device)
    into, numbers, out = kit.journeys(log, t.device)
    waits = max(log.events.synchronizations, out, key=len)
    yield most(f"the host waited {{times}} for {t.device}: {{causes}}", waits, 1, "once, at the end")
    into += numbers[2:]  # a count or two may begin as a number of Python's
    headline, limit = f"{{times}} into {t.device}", 10 + kit.count_sizes(into, loader)
    asked, said = "each tensor of 5 batches once", "{count}; {last.line}"
    verbs.counts(into, limit, f"{headline} for 10 tensors", asked, said)
    headline, asked = f"{headline}: each batch goes in as it comes", "all of them need not fit"
    verbs.counts(into, limit, headline, f"each batch by itself: {asked}", "{count}; {one.line}", 5)
    yield kit.see_turns(before, t.device)
