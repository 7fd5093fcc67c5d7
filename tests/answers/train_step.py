"""Answers to train_step."""

import torch
from bank import right, wrong
from torch import nn
from torch.nn import functional as F


def moved(batch, device):
    return [tensor.to(device, non_blocking=device.type == "cuda") for tensor in batch]


@right
def plain(model, batch, optimizer, device):
    model.train()
    inputs, labels = batch
    inputs, labels = inputs.to(device), labels.to(device)
    loss = F.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@right
def zero_first_with_a_criterion(model, batch, optimizer, device):
    model.train(True)
    optimizer.zero_grad(set_to_none=False)
    x, y = (part.to(device, non_blocking=device.type == "cuda") for part in batch)
    criterion = nn.CrossEntropyLoss()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach().clone()


@right
def by_hand(model, batch, optimizer, device):
    model.train()
    x, y = batch[0].to(device), batch[1].to(device)
    logs = model(x).log_softmax(dim=1)
    loss = -logs.gather(1, y[:, None]).mean()
    model.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.data


@right
def with_a_closure(model, batch, optimizer, device):
    model.train()
    x, y = [part.to(device) for part in batch]

    def closure():
        optimizer.zero_grad()
        loss = F.nll_loss(F.log_softmax(model(x), dim=-1), y)
        loss.backward()
        return loss

    return optimizer.step(closure).detach()


@right
def gradients_asked_for(model, batch, optimizer, device):
    model.train()
    x, y = (torch.empty_like(part, device=device).copy_(part) for part in batch)
    loss = F.cross_entropy(model(x), y)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()
    return loss.detach_()


@right
def where_the_model_is(model, batch, optimizer, device):
    for module in model.modules():
        module.train()
    there = next(model.parameters()).device
    x, y = batch[0].to(there), batch[1].to(there)
    with torch.enable_grad():
        optimizer.zero_grad()
        loss = F.cross_entropy(input=model(x), target=y, reduction="sum") / len(y)
        loss.backward()
    optimizer.step()
    with torch.no_grad():
        return loss * 1


@wrong("the loss still holds its graph", row="the loss is detached")
def forgets_to_detach(model, batch, optimizer, device):
    model.train()
    x, y = batch[0].to(device), batch[1].to(device)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


@wrong("the loss is a Python number: the host waited for it", row="the loss of the batch, on the device")
def returns_item(model, batch, optimizer, device):
    model.train()
    x, y = batch[0].to(device), batch[1].to(device)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


@wrong("the loss is on cpu, not {device}", row="the loss of the batch, on the device")
def returns_it_on_the_cpu(model, batch, optimizer, device):
    model.train()
    x, y = batch[0].to(device), batch[1].to(device)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach().cpu()


@wrong("the host waited for {device}: .item()", row="two transfers in, and no wait")
def prints_the_loss(model, batch, optimizer, device):
    model.train()
    x, y = batch[0].to(device), batch[1].to(device)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
    return loss.detach()


@wrong("the host waited for {device}: bool()", row="two transfers in, and no wait")
def stops_on_nan(model, batch, optimizer, device):
    model.train()
    x, y = batch[0].to(device), batch[1].to(device)
    loss = F.cross_entropy(model(x), y)
    if torch.isnan(loss):
        raise ValueError("nan")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@wrong("the host waited for {device}: synchronize()", row="two transfers in, and no wait")
def synchronizes(model, batch, optimizer, device):
    model.train()
    x, y = batch[0].to(device), batch[1].to(device)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return loss.detach()


@wrong("the forward ran in evaluation mode", row="the loss of the batch, on the device")
def forgets_training_mode(model, batch, optimizer, device):
    x, y = batch[0].to(device), batch[1].to(device)
    was = model.training
    model.eval()
    loss = F.cross_entropy(model(x), y)
    model.train(was)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@wrong("the forward ran in evaluation mode", row="the loss of the batch, on the device")
def leaves_the_mode_alone(model, batch, optimizer, device):
    x, y = batch[0].to(device), batch[1].to(device)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@wrong("the model was left in evaluation mode", row="in training mode, whatever it was before")
def evaluation_afterwards(model, batch, optimizer, device):
    model.train()
    x, y = batch[0].to(device), batch[1].to(device)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.eval()
    return loss.detach()


@wrong(
    "gradients from before were counted: call zero_grad before each backward",
    row="one step, by this batch's gradient alone",
)
def forgets_to_zero(model, batch, optimizer, device):
    model.train()
    x, y = batch[0].to(device), batch[1].to(device)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


@wrong(
    "gradients from before were counted: call zero_grad before each backward",
    row="one step, by this batch's gradient alone",
)
def zeroes_at_the_end(model, batch, optimizer, device):
    model.train()
    x, y = batch[0].to(device), batch[1].to(device)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


@wrong(
    "zero_grad comes between backward and step, and takes away what the step needs",
    row="one step, by this batch's gradient alone",
)
def zeroes_between_backward_and_step(model, batch, optimizer, device):
    model.train()
    x, y = batch[0].to(device), batch[1].to(device)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss.detach()


@wrong("the optimizer that was given took no step", row="one step, by this batch's gradient alone")
def forgets_the_step(model, batch, optimizer, device):
    model.train()
    x, y = batch[0].to(device), batch[1].to(device)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    return loss.detach()


@wrong(
    "the gradient was clipped before the step, and no clipping is asked",
    row="one step, by this batch's gradient alone",
)
def clips_unasked(model, batch, optimizer, device):
    model.train()
    x, y = batch[0].to(device), batch[1].to(device)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    optimizer.step()
    return loss.detach()


@wrong("Expected all tensors to be on the same device", row="the loss of the batch, on the device")
def forgets_the_labels(model, batch, optimizer, device):
    model.train()
    x, y = batch
    loss = F.cross_entropy(model(x.to(device)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@wrong("Expected all tensors to be on the same device", row="the loss of the batch, on the device")
def throws_the_move_away(model, batch, optimizer, device):
    model.train()
    x, y = batch
    x.to(device)
    y.to(device)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@wrong("has no attribute 'to'", row="the loss of the batch, on the device")
def moves_the_pair(model, batch, optimizer, device):
    model.train()
    x, y = batch.to(device)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@wrong("Expected all tensors to be on the same device", row="the loss of the batch, on the device")
def the_first_accelerator(model, batch, optimizer, device):
    model.train()
    there = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    x, y = (part.to(there) for part in batch)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@wrong("the loss is None: is a `return` missing?", row="the loss of the batch, on the device")
def forgets_to_return(model, batch, optimizer, device):
    model.train()
    x, y = batch[0].to(device), batch[1].to(device)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@wrong(
    "that is the loss after a step: one forward, before the step, is asked",
    row="the loss of the batch, on the device",
)
def loss_of_the_new_weights(model, batch, optimizer, device):
    model.train()
    x, y = batch[0].to(device), batch[1].to(device)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        return F.cross_entropy(model(x), y)


@wrong("that is the sum over the batch, and the mean is asked", row="the loss of the batch, on the device")
def summed(model, batch, optimizer, device):
    model.train()
    x, y = batch[0].to(device), batch[1].to(device)
    loss = F.cross_entropy(model(x), y, reduction="sum")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@wrong(
    "softmax was applied before: cross_entropy takes the logits as they are",
    row="the loss of the batch, on the device",
)
def softmax_twice(model, batch, optimizer, device):
    model.train()
    x, y = batch[0].to(device), batch[1].to(device)
    loss = F.cross_entropy(model(x).softmax(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@wrong("4 transfers between devices, not 2", row="two transfers in, and no wait")
def moves_twice(model, batch, optimizer, device):
    model.train()
    optimizer.zero_grad()
    for x, y in [[part.to(device) for part in batch] for _ in range(2)]:
        last = x, y
    loss = F.cross_entropy(model(last[0]), last[1])
    loss.backward()
    optimizer.step()
    return loss.detach()


@right
def by_logsumexp(model, batch, optimizer, device):
    model.train()
    inputs, labels = (tensor.to(device) for tensor in batch)
    logits = model(inputs)
    loss = (logits.logsumexp(1) - logits.gather(1, labels[:, None]).squeeze(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@right
def rows_the_other_way_round(model, batch, optimizer, device):
    model.train()
    inputs, labels = (tensor.to(device).flip(0) for tensor in batch)
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@wrong(
    "the gradient was clipped before the step, and no clipping is asked",
    row="one step, by this batch's gradient alone",
)
def clipped(model, batch, optimizer, device):
    model.train()
    inputs, labels = (tensor.to(device) for tensor in batch)
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


@right
def keeps_its_logits_in_the_model(model, batch, optimizer, device):
    model.train()
    inputs, labels = (tensor.to(device) for tensor in batch)
    optimizer.zero_grad()
    model.logits = model(inputs)
    loss = F.cross_entropy(model.logits, labels)
    loss.backward()
    optimizer.step()
    return loss.detach()


@wrong(
    "step comes before backward, so it uses the gradients from before, or none",
    row="one step, by this batch's gradient alone",
)
def step_before_backward(model, batch, optimizer, device):
    model.train()
    x, y = moved(batch, device)
    l = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    optimizer.step()
    l.backward()
    return l.detach()


@wrong(
    "backward was never called, so there is no gradient to step by",
    row="one step, by this batch's gradient alone",
)
def no_backward(model, batch, optimizer, device):
    model.train()
    x, y = moved(batch, device)
    l = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    optimizer.step()
    return l.detach()


@wrong(
    "the optimizer took 6 steps for 3 batches: one is asked for each",
    row="one step, by this batch's gradient alone",
)
def two_steps(model, batch, optimizer, device):
    model.train()
    x, y = moved(batch, device)
    l = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    l.backward()
    optimizer.step()
    optimizer.step()
    return l.detach()


@wrong("the optimizer that was given took no step", row="one step, by this batch's gradient alone")
def by_a_rule_of_its_own(model, batch, optimizer, device):
    model.train()
    x, y = moved(batch, device)
    l = F.cross_entropy(model(x), y)
    model.zero_grad()
    l.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
    return l.detach()


@wrong(
    "zero_grad comes between backward and step, and takes away what the step needs",
    row="one step, by this batch's gradient alone",
)
def fills_with_zeros_between(model, batch, optimizer, device):
    model.train()
    x, y = moved(batch, device)
    l = F.cross_entropy(model(x), y)
    l.backward()
    optimizer.zero_grad(set_to_none=False)
    optimizer.step()
    return l.detach()


@wrong(
    "that is the loss after a step: one forward, before the step, is asked",
    row="the loss of the batch, on the device",
)
def two_rounds(model, batch, optimizer, device):
    model.train()
    x, y = moved(batch, device)
    for _ in range(2):
        l = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        l.backward()
        optimizer.step()
    return l.detach()


@right
def zero_between_forward_and_loss(model, batch, optimizer, device):
    model.train()
    x, y = moved(batch, device)
    o = model(x)
    optimizer.zero_grad()
    l = F.cross_entropy(o, y)
    l.backward()
    optimizer.step()
    return l.detach()


@right
def gradients_set_to_none(model, batch, optimizer, device):
    model.train(True)
    for p in model.parameters():
        p.grad = None
    x, y = batch
    l = F.nll_loss(model(x.to(device)).log_softmax(-1), y.to(device))
    l.backward()
    optimizer.step()
    return l.data


@wrong("3.weight came frozen and can be trained now", row="what is frozen or unused stays as it is")
def thaws_the_model(model, batch, optimizer, device):
    model.train().requires_grad_(True)
    x, y = moved(batch, device)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@wrong(
    "the parameter spare has no part in the loss, and was changed",
    row="what is frozen or unused stays as it is",
)
def zeros_for_everything(model, batch, optimizer, device):
    model.train()
    x, y = moved(batch, device)
    loss = F.cross_entropy(model(x), y)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    loss.backward()
    optimizer.step()
    return loss.detach()


@wrong("One of the differentiated Tensors", row="what is frozen or unused stays as it is")
def asks_for_all_gradients(model, batch, optimizer, device):
    model.train()
    x, y = moved(batch, device)
    loss = F.cross_entropy(model(x), y)
    parameters = list(model.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient
    optimizer.step()
    return loss.detach()


@wrong("the parameter 3.weight is frozen, and was changed", row="what is frozen or unused stays as it is")
def zeros_for_what_is_frozen(model, batch, optimizer, device):
    model.train()
    x, y = moved(batch, device)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    for parameter in model.parameters():
        if not parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    loss.backward()
    optimizer.step()
    return loss.detach()


@wrong("4 transfers for two tensors on {second}", row="the batch may come from any device")
def by_way_of_the_cpu(model, batch, optimizer, device):
    return plain(model, [part if part.device == device else part.cpu() for part in batch], optimizer, device)


@wrong(
    "the gradient was clipped before the step, and no clipping is asked",
    row="one step, by this batch's gradient alone",
)
def clipped_at_ten(model, batch, optimizer, device):
    model.train()
    x, y = moved(batch, device)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    optimizer.step()
    return loss.detach()


@wrong(
    "log_softmax is missing: `nll_loss` takes log-probabilities", row="the loss of the batch, on the device"
)
def forgets_log_softmax(model, batch, optimizer, device):
    model.train()
    x, y = moved(batch, device)
    optimizer.zero_grad()
    loss = F.nll_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


@wrong(
    "that is the share of right answers, and the loss is asked", row="the loss of the batch, on the device"
)
def share_of_right_answers(model, batch, optimizer, device):
    model.train()
    x, y = moved(batch, device)
    optimizer.zero_grad()
    logits = model(x)
    F.cross_entropy(logits, y).backward()
    optimizer.step()
    return (logits.argmax(1) == y).float().mean()


@wrong(
    "backward was called twice for each batch: its gradient counts twice",
    row="one step, by this batch's gradient alone",
)
def two_backwards(model, batch, optimizer, device):
    model.train()
    x, y = moved(batch, device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward(retain_graph=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


@wrong(
    "step comes before backward, so it uses the gradients from before, or none",
    row="one step, by this batch's gradient alone",
)
def steps_by_what_was_left(model, batch, optimizer, device):
    model.train()
    x, y = moved(batch, device)
    loss = F.cross_entropy(model(x), y)
    optimizer.step()
    optimizer.zero_grad()
    loss.backward()
    return loss.detach()
