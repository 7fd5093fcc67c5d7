"""Answers to fix_labels."""

import torch
from bank import right, wrong
from torch import nn
from torch.nn import functional


@right
def labels_to_logits(logits, labels):
    return functional.cross_entropy(logits, labels.to(logits.device))


@right
def as_a_criterion(logits, labels):
    criterion = nn.CrossEntropyLoss()
    return criterion(logits, labels.to(device=logits.device))


@right
def in_two_steps(logits, labels):
    return functional.nll_loss(logits.log_softmax(-1), labels.to(device=logits.device))


@right
def by_definition(logits, labels):
    labels = labels.to(logits.device)
    return (logits.logsumexp(1) - logits.gather(1, labels[:, None])[:, 0]).mean()


@right
def like_another(logits, labels):
    there = torch.empty_like(labels, device=logits.device).copy_(labels)
    return functional.cross_entropy(logits, there)


@wrong("something left {device} for cpu", row="labels from any device")
def one_hot(logits, labels):
    shares = functional.one_hot(labels.cpu(), logits.shape[1]).to(logits)
    return -(shares * logits.log_softmax(1)).sum(1).mean()


@wrong("Expected all tensors to be on the same device", row="labels from any device")
def the_broken_program(logits, labels):
    return functional.cross_entropy(logits, labels)


@wrong("Expected all tensors to be on the same device", row="labels from any device")
def thrown_away(logits, labels):
    labels.to(logits.device)
    return functional.cross_entropy(logits, labels)


@wrong("something left {device} for cpu", row="labels from any device")
def logits_to_the_cpu(logits, labels):
    return functional.cross_entropy(logits.cpu(), labels.cpu())


@wrong("something left {device} for cpu", row="labels from any device")
def logits_to_labels(logits, labels):
    return functional.cross_entropy(logits.to(labels.device), labels)


@wrong("your code raised", row="labels from any device")
def dtype_for_device(logits, labels):
    return functional.cross_entropy(logits, labels.to(logits))


@wrong("your code raised", row="labels from any device")
def always_cuda(logits, labels):
    return functional.cross_entropy(logits.cuda(), labels.cuda())


@wrong("the result has left the graph", row="the gradient reaches the logits")
def detached(logits, labels):
    return functional.cross_entropy(logits.detach(), labels.to(logits.device))


@wrong("the result has left the graph", row="the gradient reaches the logits")
def a_number_again(logits, labels):
    loss = functional.cross_entropy(logits, labels.to(logits.device))
    return torch.tensor(loss.item(), device=logits.device)


@wrong("the loss is a float, not a tensor", row="labels from any device")
def a_number(logits, labels):
    return functional.cross_entropy(logits, labels.to(logits.device)).item()


@wrong("that is the sum over the rows, and their mean is asked", row="labels from any device")
def summed(logits, labels):
    return functional.cross_entropy(logits, labels.to(logits.device), reduction="sum")


@wrong("the loss has shape [7], not []", row="labels from any device")
def each_row(logits, labels):
    return functional.cross_entropy(logits, labels.to(logits.device), reduction="none")


@wrong("softmax was applied before: cross_entropy takes the logits as they are", row="labels from any device")
def softmax_twice(logits, labels):
    return functional.cross_entropy(logits.softmax(1), labels.to(logits.device))


@wrong("log_softmax is missing: `nll_loss` takes log-probabilities", row="labels from any device")
def without_the_softmax(logits, labels):
    return functional.nll_loss(logits, labels.to(logits.device))


@wrong("the values of the loss are wrong", row="labels from any device")
def new_labels(logits, labels):
    return functional.cross_entropy(logits, torch.zeros_like(labels, device=logits.device))


@wrong("the loss is None: is a `return` missing?", row="labels from any device")
def forgets_to_return(logits, labels):
    functional.cross_entropy(logits, labels.to(logits.device))


@right
def by_logsumexp(logits, labels):
    labels = labels.to(logits.device)
    return (logits.logsumexp(1) - logits.gather(1, labels[:, None])[:, 0]).mean()


@wrong("the values of the gradient that reaches the logits are wrong", row="the gradient reaches the logits")
def half_detached(logits, labels):
    labels = labels.to(logits.device)
    return (logits.detach().logsumexp(1) - logits.gather(1, labels[:, None])[:, 0]).mean()


@wrong("no backward leads through the result any more", row="the gradient reaches the logits")
def backward_already(logits, labels):
    loss = torch.nn.functional.cross_entropy(logits, labels.to(logits.device))
    loss.backward()
    return loss


@wrong("something left {device} for cpu", row="labels from any device")
def all_on_the_cpu_and_back(logits, labels):
    return functional.cross_entropy(logits.cpu(), labels.cpu()).to(logits.device)


@wrong("something left {device} for cpu", row="labels from any device")
def labels_by_the_cpu(logits, labels):
    return functional.cross_entropy(logits, labels.cpu().to(logits.device))


@wrong("that is the share of right answers, and the loss is asked", row="labels from any device")
def share_of_right_answers(logits, labels):
    return (logits.argmax(1) == labels.to(logits.device)).float().mean()


@right
def one_hot_there(logits, labels):
    return functional.cross_entropy(
        logits, functional.one_hot(labels.to(logits.device), logits.shape[1]).to(logits.dtype)
    )


@wrong("7 transfers, where the labels can go to {device} in one", row="labels from any device")
def label_by_label(logits, labels):
    there = torch.stack([label.to(logits.device) for label in labels])
    return functional.cross_entropy(logits, there)
