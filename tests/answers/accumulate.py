"""Answers to accumulate."""

import torch
from bank import right, wrong
from torch import nn
from torch.nn import functional as F

LOSS = "the mean loss of all samples, a float"
STEP = "one step, by the gradient of that mean"
ONE = "one batch at a time, its graph let go"
WAITS = "each batch moved once, one wait at most"


def moved(batch, device):
    return [tensor.to(device, non_blocking=device.type == "cuda") for tensor in batch]


def count(batches):
    return sum(len(labels) for _, labels in batches)


@right
def weighted(model, batches, optimizer, device):
    total = sum(len(labels) for _, labels in batches)
    mean = 0
    optimizer.zero_grad()
    for inputs, labels in batches:
        inputs, labels = inputs.to(device), labels.to(device)
        part = F.cross_entropy(model(inputs), labels) * len(labels) / total
        part.backward()
        mean += part.detach()
    optimizer.step()
    return mean.item()


@right
def sums_over_the_count(model, batches, optimizer, device):
    samples = count(batches)
    losses = []
    model.zero_grad(set_to_none=False)
    for batch in batches:
        x, y = moved(batch, device)
        loss = F.cross_entropy(model(x), y, reduction="sum")
        (loss / samples).backward()
        losses.append(loss.detach())
    optimizer.step()
    return float(torch.stack(losses).sum()) / samples


@right
def gradients_divided_at_the_end(model, batches, optimizer, device):
    criterion = nn.CrossEntropyLoss(reduction="sum")
    optimizer.zero_grad()
    total, seen = torch.zeros((), device=device), 0
    for batch in batches:
        x, y = moved(batch, device)
        loss = criterion(model(x), y)
        loss.backward()
        total += loss.detach()
        seen += y.numel()
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad /= seen
    optimizer.step()
    return (total / seen).item()


@right
def gradients_asked_for(model, batches, optimizer, device):
    parameters, samples, total = list(model.parameters()), count(batches), 0
    added = [torch.zeros_like(parameter) for parameter in parameters]
    for batch in batches:
        x, y = moved(batch, device)
        loss = F.cross_entropy(model(x), y) * (len(y) / samples)
        for held, gradient in zip(added, torch.autograd.grad(loss, parameters), strict=True):
            held += gradient
        total = total + loss.detach()
    for parameter, gradient in zip(parameters, added, strict=True):
        parameter.grad = gradient
    optimizer.step()
    return total.tolist()


@right
def weight_given_to_backward(model, batches, optimizer, device):
    samples, total = count(batches), 0
    optimizer.zero_grad()
    for x, y in (moved(batch, device) for batch in batches):
        loss = F.cross_entropy(model(x), y)
        weight = len(y) / samples
        loss.backward(torch.full_like(loss, weight))
        total += loss.detach() * weight
    optimizer.step()
    return float(total)


@wrong("the batches' means were averaged: a small batch counts like a large one", row=LOSS)
def mean_of_means(model, batches, optimizer, device):
    total = 0
    optimizer.zero_grad()
    for batch in batches:
        x, y = moved(batch, device)
        loss = F.cross_entropy(model(x), y) / len(batches)
        loss.backward()
        total += loss.detach()
    optimizer.step()
    return total.item()


@wrong("the batches' means were averaged: a small batch counts like a large one", row=STEP)
def gradient_of_the_mean_of_means(model, batches, optimizer, device):
    total = 0
    optimizer.zero_grad()
    for batch in batches:
        x, y = moved(batch, device)
        loss = F.cross_entropy(model(x), y)
        (loss / len(batches)).backward()
        total += loss.detach() * len(y)
    optimizer.step()
    return total.item() / count(batches)


@wrong("the batches' means were added up, and the mean over all samples is asked", row=STEP)
def adds_up(model, batches, optimizer, device):
    total = 0
    optimizer.zero_grad()
    for batch in batches:
        x, y = moved(batch, device)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        total += loss.detach() * len(y)
    optimizer.step()
    return total.item() / count(batches)


@wrong("that is the gradient of the sum over all samples, and their mean is asked", row=STEP)
def of_the_sum(model, batches, optimizer, device):
    total = 0
    optimizer.zero_grad()
    for batch in batches:
        x, y = moved(batch, device)
        loss = F.cross_entropy(model(x), y, reduction="sum")
        loss.backward()
        total += loss.detach()
    optimizer.step()
    return total.item() / count(batches)


@wrong(
    "each batch had a step of its own, so the later losses are a changed model's: one step is asked", row=LOSS
)
def a_step_in_each(model, batches, optimizer, device):
    total = 0
    for batch in batches:
        x, y = moved(batch, device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(y)
    return total.item() / count(batches)


@wrong("only the last batch's part was used: zero_grad comes once, before the first", row=STEP)
def zeroes_in_each(model, batches, optimizer, device):
    total, samples = 0, count(batches)
    for batch in batches:
        x, y = moved(batch, device)
        loss = F.cross_entropy(model(x), y) * len(y) / samples
        optimizer.zero_grad()
        loss.backward()
        total += loss.detach()
    optimizer.step()
    return total.item()


@wrong("gradients from before were counted: call zero_grad before the first backward", row=STEP)
def forgets_to_zero(model, batches, optimizer, device):
    total, samples = 0, count(batches)
    for batch in batches:
        x, y = moved(batch, device)
        loss = F.cross_entropy(model(x), y) * len(y) / samples
        loss.backward()
        total += loss.detach()
    optimizer.step()
    return total.item()


@wrong("18 samples went through the model at once", row=ONE)
def one_large_batch(model, batches, optimizer, device):
    x, y = (torch.cat([part.to(device) for part in parts]) for parts in zip(*batches, strict=True))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


@wrong("when a forward began, the graphs of 3 batches before it were still kept", row=ONE)
def one_backward_for_all(model, batches, optimizer, device):
    total = 0
    for batch in batches:
        x, y = moved(batch, device)
        total = total + F.cross_entropy(model(x), y, reduction="sum")
    loss = total / count(batches)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


@wrong("when a forward began, the graphs of 3 batches before it were still kept", row=ONE)
def keeps_the_graphs(model, batches, optimizer, device):
    losses, samples = [], count(batches)
    optimizer.zero_grad()
    for batch in batches:
        x, y = moved(batch, device)
        losses.append(F.cross_entropy(model(x), y) * len(y) / samples)
        losses[-1].backward(retain_graph=True)
    optimizer.step()
    return float(sum(losses))


@wrong("the model was put into evaluation mode", row=ONE)
def draws_no_dropout(model, batches, optimizer, device):
    model.eval()
    return weighted(model, batches, optimizer, device)


@wrong("the model was put into training mode", row=ONE)
def trains_whatever_it_is_told(model, batches, optimizer, device):
    model.train()
    return weighted(model, batches, optimizer, device)


@wrong("the host waited for {device} 3 times: .item()", row=WAITS)
def waits_for_each(model, batches, optimizer, device):
    total, samples = 0.0, count(batches)
    optimizer.zero_grad()
    for batch in batches:
        x, y = moved(batch, device)
        loss = F.cross_entropy(model(x), y) * len(y) / samples
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


@wrong("no parameter has changed: was a step taken?", row=STEP)
def forgets_the_step(model, batches, optimizer, device):
    total, samples = 0, count(batches)
    optimizer.zero_grad()
    for batch in batches:
        x, y = moved(batch, device)
        loss = F.cross_entropy(model(x), y) * len(y) / samples
        loss.backward()
        total += loss.detach()
    return total.item()


@wrong("the loss is a tensor, and a float is asked", row=LOSS)
def returns_a_tensor(model, batches, optimizer, device):
    total, samples = 0, count(batches)
    optimizer.zero_grad()
    for batch in batches:
        x, y = moved(batch, device)
        loss = F.cross_entropy(model(x), y) * len(y) / samples
        loss.backward()
        total += loss.detach()
    optimizer.step()
    return total


@wrong("that is the last batch's loss alone", row=LOSS)
def the_last_loss(model, batches, optimizer, device):
    samples = count(batches)
    optimizer.zero_grad()
    for batch in batches:
        x, y = moved(batch, device)
        loss = F.cross_entropy(model(x), y)
        (loss * len(y) / samples).backward()
    optimizer.step()
    return loss.item()


@wrong("Expected all tensors to be on the same device", row=LOSS)
def forgets_the_labels(model, batches, optimizer, device):
    total, samples = 0, count(batches)
    optimizer.zero_grad()
    for x, y in batches:
        loss = F.cross_entropy(model(x.to(device)), y) * len(y) / samples
        loss.backward()
        total += loss.detach()
    optimizer.step()
    return total.item()


@wrong("weight is not where one step by the gradient of all samples' mean takes it", row=STEP)
def clipped(model, batches, optimizer, device):
    total, samples = 0, count(batches)
    optimizer.zero_grad()
    for batch in batches:
        x, y = moved(batch, device)
        loss = F.cross_entropy(model(x), y) * len(y) / samples
        loss.backward()
        total += loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return total.item()


@wrong("gradients from before were counted: call zero_grad before the first backward", row=STEP)
def zeroes_by_a_product(model, batches, optimizer, device):
    total, samples = 0, count(batches)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad *= 0
    for batch in batches:
        x, y = moved(batch, device)
        loss = F.cross_entropy(model(x), y) * len(y) / samples
        loss.backward()
        total += loss.detach()
    optimizer.step()
    return total.item()


@wrong("the optimizer that was given took no step", row=STEP)
def an_optimizer_of_its_own(model, batches, optimizer, device):
    return weighted(model, batches, torch.optim.SGD(model.parameters(), lr=0.1), device)


@wrong("a part of the model was put into another mode", row=ONE)
def one_mode_for_all(model, batches, optimizer, device):
    model.train(model.training)
    return weighted(model, batches, optimizer, device)
