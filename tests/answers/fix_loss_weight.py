"""Answers to fix_loss_weight."""

import torch
from bank import right, wrong
from torch import nn
from torch.nn import functional


@right
def weight_to_logits(logits, labels, weight):
    return functional.cross_entropy(logits, labels, weight=weight.to(logits.device))


@right
def a_criterion_that_moves(logits, labels, weight):
    criterion = nn.CrossEntropyLoss(weight=weight).to(logits.device)
    return criterion(logits, labels)


@right
def with_dtype(logits, labels, weight):
    return functional.nll_loss(logits.log_softmax(1), labels, weight.to(logits))


@right
def by_definition(logits, labels, weight):
    each = functional.cross_entropy(logits, labels, reduction="none")
    share = weight.to(labels.device)[labels]
    return (each * share).sum() / share.sum()


@right
def all_to_the_logits(logits, labels, weight):
    labels, weight = (tensor.to(logits.device) for tensor in (labels, weight))
    return functional.cross_entropy(logits, labels, weight)


@wrong("something left {device} for cpu", row="a weight from any device")
def as_new_tensor(logits, labels, weight):
    return functional.cross_entropy(logits, labels, weight=logits.new_tensor(weight.tolist()))


@wrong("Expected all tensors to be on the same device", row="a weight from any device")
def the_broken_program(logits, labels, weight):
    return functional.cross_entropy(logits, labels, weight=weight)


@wrong("Expected all tensors to be on the same device", row="a weight from any device")
def labels_instead(logits, labels, weight):
    return functional.cross_entropy(logits, labels.to(logits.device), weight=weight)


@wrong("Expected all tensors to be on the same device", row="a weight from any device")
def thrown_away(logits, labels, weight):
    weight.to(logits.device)
    return functional.cross_entropy(logits, labels, weight=weight)


@wrong("Expected all tensors to be on the same device", row="a weight from any device")
def moved_criterion_without_its_weight(logits, labels, weight):
    criterion = nn.CrossEntropyLoss().to(logits.device)
    criterion.weight = weight
    return criterion(logits, labels)


@wrong("the weight was not used", row="a weight from any device")
def without_the_weight(logits, labels, weight):
    return functional.cross_entropy(logits, labels)


@wrong("something left {device} for cpu", row="a weight from any device")
def all_to_the_cpu(logits, labels, weight):
    return functional.cross_entropy(logits.cpu(), labels.cpu(), weight=weight.cpu())


@wrong("something left {device} for cpu", row="a weight from any device")
def all_to_the_weight(logits, labels, weight):
    device = weight.device
    return functional.cross_entropy(logits.to(device), labels.to(device), weight=weight)


@wrong("the weight was not used", row="a weight from any device")
def ones_instead(logits, labels, weight):
    return functional.cross_entropy(logits, labels, weight=torch.ones_like(weight, device=logits.device))


@wrong(
    "the weighted rows were divided by their number, and the sum of the weights used is asked",
    row="a weight from any device",
)
def mean_over_rows(logits, labels, weight):
    each = functional.cross_entropy(logits, labels, weight=weight.to(logits.device), reduction="none")
    return each.mean()


@wrong(
    "that is the sum of the weighted rows, not divided by the weights used", row="a weight from any device"
)
def summed(logits, labels, weight):
    return functional.cross_entropy(logits, labels, weight.to(logits.device), reduction="sum")


@wrong(
    "the weight was multiplied with the logits, and it belongs to the rows of the loss",
    row="a weight from any device",
)
def scaled_logits(logits, labels, weight):
    return functional.cross_entropy(logits * weight.to(logits.device), labels)


@wrong("the values of the loss are wrong", row="a weight from any device")
def normalized_to_nothing(logits, labels, weight):
    weight = weight.to(logits.device)
    return functional.cross_entropy(logits, labels, weight / weight.sum()) * weight.sum()


@wrong("your code raised", row="a weight from any device")
def always_cuda(logits, labels, weight):
    return functional.cross_entropy(logits, labels, weight=weight.cuda())


@wrong("the result has left the graph", row="the gradient reaches the logits")
def detached(logits, labels, weight):
    return functional.cross_entropy(logits, labels, weight=weight.to(logits.device)).detach()


@wrong("the loss is a float, not a tensor", row="a weight from any device")
def a_number(logits, labels, weight):
    return functional.cross_entropy(logits, labels, weight=weight.to(logits.device)).item()


@wrong("the loss is None: is a `return` missing?", row="a weight from any device")
def forgets_to_return(logits, labels, weight):
    functional.cross_entropy(logits, labels, weight=weight.to(logits.device))


@wrong("the values of the gradient that reaches the logits are wrong", row="the gradient reaches the logits")
def gradient_without_weights(logits, labels, weight):
    plain = torch.nn.functional.cross_entropy(logits, labels)
    weighed = torch.nn.functional.cross_entropy(logits, labels, weight=weight.to(logits.device))
    return plain + (weighed - plain).detach()


@wrong("the values of the loss are wrong", row="a weight from any device")
def weights_in_order_of_size(logits, labels, weight):
    weight = weight.to(logits.device).sort().values
    return torch.nn.functional.cross_entropy(logits, labels, weight=weight)


@wrong("something left {device} for cpu", row="a weight from any device")
def all_on_the_cpu_and_back(logits, labels, weight):
    return functional.cross_entropy(logits.cpu(), labels.cpu(), weight=weight.cpu()).to(logits.device)


@wrong("something left {device} for cpu", row="a weight from any device")
def weight_by_the_cpu(logits, labels, weight):
    return functional.cross_entropy(logits, labels, weight=weight.cpu().to(logits.device))


@wrong(
    "it was divided by the sum of all classes' weights, and those of the labels at hand are asked",
    row="a weight from any device",
)
def by_all_weights(logits, labels, weight):
    w = weight.to(logits.device)
    return (functional.cross_entropy(logits, labels, reduction="none") * w[labels]).sum() / w.sum()


@wrong("the weights are upside down: 1 / weight", row="a weight from any device")
def upside_down(logits, labels, weight):
    return functional.cross_entropy(logits, labels, weight=1 / weight.to(logits.device))


@right
def like_the_logits(logits, labels, weight):
    return functional.cross_entropy(logits, labels, weight=weight.to(logits))


@right
def normalized(logits, labels, weight):
    w = weight.to(logits.device)
    return functional.cross_entropy(logits, labels, weight=w / w.sum())


@wrong("3 transfers, where the weight can go to {device} in one", row="a weight from any device")
def class_by_class(logits, labels, weight):
    there = torch.stack([one.to(logits.device) for one in weight])
    return functional.cross_entropy(logits, labels, weight=there)


@wrong("your code raised RuntimeError", row="each label counts by its class's weight")
def always_in_float32(logits, labels, weight):
    return functional.cross_entropy(logits, labels, weight=weight.to(logits.device, torch.float32))


@right
def by_one_hot_rows(logits, labels, weight):
    shares = functional.one_hot(labels, logits.shape[1]) * weight.to(logits.device)
    return -(shares * logits.log_softmax(1)).sum() / shares.sum()
