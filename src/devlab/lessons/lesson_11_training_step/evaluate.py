"""Accuracy over a loader, read once at the end, the model's mode put back."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from devlab.checks import expect, verbs
from devlab.lessons.lesson_11_training_step import (
    counts_of_batches,
    expect_turns,
    journeys,
    lesson,
    make_model,
    samples,
    twin,
    watched_to_first_forward,
)

evaluate = lesson.exercise(
    "evaluate",
    signature="evaluate(model, loader, device)",
    facts=("T1", "T4", "R4", "R5", "P2"),
    hints=(
        "Accuracy is the number of right answers divided by the number of samples. Python knows the "
        "second, `len(labels)`. The first is computed on the device, and can stay there until the loop is "
        "over.",
        "`correct += (model(inputs).argmax(dim=1) == labels).sum()` adds tensors on the device and waits "
        "for nothing. Around the loop belong `torch.no_grad()` and evaluation mode, which has to be undone "
        "for each module.",
        "`modes = {module: module.training for module in model.modules()}` before `model.eval()`; after "
        "the loop `module.training = mode` for each of them, and `return correct.item() / total`.",
    ),
)


# Samples and the size of a batch. 2,053 of the first are right, and float16 cannot hold that number.
SIZES = ((2739, 391), (10, 4), (8, 3))
MARGIN = 0.01
STAYS = "a model that stays as it is"


def _loader(inputs: torch.Tensor, labels: torch.Tensor, size: int) -> DataLoader:
    return DataLoader(TensorDataset(inputs, labels), batch_size=size)


def _seasoned(trial, seed: int) -> torch.nn.Sequential:
    """Return a model on the device whose running statistics are far from any batch's own."""
    model = make_model(seed, trial.device)
    with torch.no_grad():
        model[1].running_mean += torch.linspace(-1, 1, 6).to(trial.device)
        model[1].running_var *= 3
    return model


def _labelled(trial, ours: torch.nn.Module, count: int, size: int, seed: int) -> tuple:
    """Return samples of which the last, smaller batch is all wrong: then batches do not weigh the same."""
    inputs, _ = samples(trial, count, seed)
    with torch.no_grad():
        first, second = ours(inputs).topk(2).values.unbind(1)
        # Two classes nearly alike may change places on a device that rounds in another way.
        inputs[first - second < MARGIN] = inputs[(first - second).argmax()].clone()
        labels = ours(inputs).argmax(1)
    wrong = torch.zeros(count, dtype=torch.bool)
    wrong[1::4] = True
    wrong[count - (count % size or 1) :] = True
    return inputs, torch.where(wrong, (labels + 1) % 3, labels)


def _expect_accuracy(got: object, ours: torch.nn.Module, inputs, labels: torch.Tensor, size: int) -> None:
    with torch.no_grad():
        logits = ours(inputs)
    right = logits.argmax(1) == labels
    hits, count = int(right.sum()), len(right)

    def slips() -> dict[str, float | None]:
        parts = right.split(size)
        found = [int(part.sum()) for part in parts]
        shares = [hit / len(part) for hit, part in zip(found, parts, strict=True)]
        uneven = sum(shares) / len(parts), hits / (len(parts) * size)
        return {
            "a small batch counts like a full one: a mean over batches, or batches times their size?": next(
                (one for one in uneven if abs(got - one) < 1e-6), None
            ),
            "the accuracy is a percentage, and a share from 0 to 1 is asked": 100 * hits / count,
            "the accuracy is a count, and the share of all samples is asked": hits,
            "the right answers were divided by the number of batches, not of samples": hits / len(parts),
            "that is the share of wrong answers": 1 - hits / count,
            "the smallest logit was taken for the answer, and it is the largest": (
                int((logits.argmin(1) == labels).sum()) / count
            ),
            "that is the last batch alone": shares[-1],
            "that is the first batch alone": shares[0],
            "only the right answers of the first batch were counted": found[0] / count,
            "only the right answers of the last batch were counted": found[-1] / count,
            "that is the mean loss, and the accuracy is asked": float(F.cross_entropy(logits, labels)),
            "the accuracy was rounded": round(hits / count, 2),
            "whole batches were counted: every answer of a batch had to be right": (
                shares.count(1) / len(parts)
            ),
        }

    asked, said = f"{hits} of {count}: {{wanted:.6g}}", "{got:.6g}"
    headline, what = "the accuracy is wrong", "the accuracy"
    verbs.number(got, hits / count, headline, slips, asked, said, what, 1e-6, otherwise=lambda: "")


@evaluate.row("right answers over all samples")
def accuracy_over_samples(trial):
    for (count, size), seed in zip(SIZES, trial.seeds, strict=True):
        model = _seasoned(trial, seed)
        ours = twin(model).eval()
        data = _labelled(trial, ours, count, size, seed)
        got = trial.call(model.eval(), _loader(*data, size), trial.device)
        _expect_accuracy(got, ours, *data, size)


@evaluate.row("in evaluation mode, without a graph")
def evaluation_mode(trial):
    model = _seasoned(trial, trial.seeds[0]).train()
    ours = twin(model).eval()
    data = _labelled(trial, ours, 10, 4, trial.seeds[1])
    model[0].requires_grad_(False)
    for parameter in model[3].parameters():
        parameter.grad = torch.ones_like(parameter)
    held = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
    whole = []  # the mode of the model itself, which its own forward may ask about
    hook = model.register_forward_pre_hook(lambda module, _: whole.append(module.training))
    graphs = []  # also of a copy of the model, which takes its hooks along
    model[-1].register_forward_hook(lambda module, _, output: graphs.append(output.requires_grad))
    got = trial.call(model, _loader(*data, 4), trial.device)
    hook.remove()
    if any(model[-1].modes) or any(whole):
        expect.fail("the forward ran in training mode", "model.eval() before the loop", "training is True")
    if any(graphs):
        headline = "the forward built a graph, which takes memory for nothing"
        expect.fail(headline, "torch.no_grad() around the loop", "outputs with requires_grad=True")
    for name, tensor in model.state_dict().items():
        if tensor.dtype != held[name].dtype or not torch.equal(tensor.cpu(), held[name]):
            expect.fail(f"the model's {name} was changed", STAYS, tensor)
    for name, parameter in model.named_parameters():
        came = not name.startswith("0.")
        if parameter.requires_grad != came:
            words = f"{name} came with requires_grad={came}, and left with another"
            expect.fail(words, STAYS, f"requires_grad={parameter.requires_grad}")
        kept = parameter.grad is not None and bool((parameter.grad == 1).all())
        if kept != name.startswith("3."):
            expect.fail("the model's gradients were touched", STAYS, "another one")
    _expect_accuracy(got, ours, *data, 4)


@evaluate.row("the mode it found is restored")
def mode_restored(trial):
    words = {True: "training", False: "evaluation"}
    loader = _loader(*samples(trial, 5, trial.seeds[2]), 3)
    # The third model trains while its normalization evaluates, as in fine-tuning; of the last, one layer
    # trains alone. Both are parts of a part.
    for before, mixed in ((True, False), (False, False), (True, True), (False, True)):
        parts = _seasoned(trial, trial.seeds[2])
        model = (nn.Sequential(parts) if mixed else parts).train(before)
        if mixed:
            parts[1 if before else 3].train(not before)
        came = {name: module.training for name, module in model.named_modules(prefix="model")}
        with verbs.untouched(model, "`{path}` of the model was changed", STAYS, "another one"):
            trial.call(model, loader, trial.device)
            for name, module in model.named_modules(prefix="model"):
                mode = came[name]
                if module.training != mode:
                    which = "a model" if module is model else f"a model's {type(module).__name__}"
                    headline = f"{which} that came in {words[mode]} mode was left in {words[not mode]} mode"
                    advice = "each module's own mode" if mixed else f"{name}.training is {mode}"
                    expect.fail(headline, advice, f"{name}.training is {not mode}")
            if parts[0].weight.device != trial.device:
                expect.fail(f"the model was moved to {parts[0].weight.device}", f"on {trial.device}", model)
            parts[-1].modes.clear()  # the probe's own notes


@evaluate.row("one wait, at the end", only="accelerator")
def one_wait(trial):
    here, model = trial.device, _seasoned(trial, trial.seeds[1])
    # Five batches, of which no tensor is as large as a vector with a number for each of them.
    loader = _loader(*samples(trial, 19, trial.seeds[0]), 4)
    log, before = watched_to_first_forward(trial, model, loader, here)
    into, numbers, out = journeys(log, here)
    waits = max(log.events.synchronizations, out, key=len)
    headline, said = f"the host waited {{times}} for {here}", "{one.cause}, {one.line}"
    verbs.counts(waits, 1, headline, "once, at the end", said, of="time")
    into += numbers[2:]  # a count or two may begin as a number of Python's
    most = 10 + counts_of_batches(into, loader)
    headline, said = f"{{times}} into {here} for 10 tensors", "{count}; {last.line}"
    verbs.counts(into, most, headline, "each tensor of 5 batches once", said)
    if not into:
        expect.fail(f"nothing was moved to {here}", "the batches, one by one", "no transfer")
    headline, said = f"{{times}} into {here}: each batch goes in as it comes", "{count}; {one.line}"
    verbs.counts(into, most, headline, "each batch by itself: all of them need not fit", said, 5)
    expect_turns(before, here)
