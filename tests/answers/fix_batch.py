"""Answers to fix_batch."""

import torch
from bank import right, wrong


@right
def keeps_the_result(model, batch, device):
    inputs, labels = batch
    inputs = inputs.to(device)
    labels = labels.to(device)
    return model(inputs)


@right
def in_the_call(model, batch, device):
    return model(batch[0].to(device))


@right
def moves_the_whole_batch(model, batch, device):
    inputs, _ = [tensor.to(device, non_blocking=True) for tensor in batch]
    return model.forward(inputs)


@right
def to_where_the_model_is(model, batch, device):
    inputs, _labels = batch
    return model(inputs.to(next(model.parameters()).device))


@right
def into_a_new_tensor(model, batch, device):
    inputs = torch.empty_like(batch[0], device=device)
    inputs.copy_(batch[0])
    return model(inputs)


@right
def moves_the_model_in_vain(model, batch, device):
    model.to(device)
    inputs, _ = (part.to(device=device) for part in batch)
    return model(inputs)


@wrong("Expected all tensors to be on the same device", row="the inputs reach the model's device")
def the_broken_program(model, batch, device):
    inputs, labels = batch
    inputs.to(device)
    labels.to(device)
    return model(inputs)


@wrong("Expected all tensors to be on the same device", row="the inputs reach the model's device")
def labels_only(model, batch, device):
    inputs, labels = batch
    labels = labels.to(device)
    return model(inputs)


@wrong("the result is on cpu, not {device}", row="the inputs reach the model's device")
def the_model_comes_to_the_batch(model, batch, device):
    return model.cpu()(batch[0])


@wrong("something left {device} for cpu", row="the model stays as it is")
def the_model_comes_and_its_result_goes(model, batch, device):
    return model.cpu()(batch[0]).to(device)


@wrong("something left {device} for cpu", row="the model stays as it is")
def the_model_comes_and_goes(model, batch, device):
    logits = model.cpu()(batch[0]).to(device)
    model.to(device)
    return logits


@wrong("the result is on cpu, not {device}", row="the inputs reach the model's device")
def brought_back(model, batch, device):
    return model(batch[0].to(device)).cpu()


@wrong("something left {device} for cpu", row="the model stays as it is")
def there_and_back(model, batch, device):
    return model(batch[0].to(device)).cpu().to(device)


@wrong("your code raised", row="the inputs reach the model's device")
def always_cuda(model, batch, device):
    return model(batch[0].cuda())


@wrong("your code raised", row="the inputs reach the model's device")
def list_has_no_to(model, batch, device):
    inputs, _ = batch.to(device)
    return model(inputs)


@wrong("the result has left the graph", row="gradients reach the model")
def detached(model, batch, device):
    return model(batch[0].to(device)).detach()


@wrong("the result has left the graph", row="gradients reach the model")
def without_gradients(model, batch, device):
    with torch.no_grad():
        return model(batch[0].to(device))


@wrong("the result is None: is a `return` missing?", row="the inputs reach the model's device")
def forgets_to_return(model, batch, device):
    model(batch[0].to(device))


@wrong("the result has shape [6], not [6,4]", row="the inputs reach the model's device")
def the_classes(model, batch, device):
    return model(batch[0].to(device)).argmax(1)


@wrong("the values of the result are wrong", row="the inputs reach the model's device")
def probabilities(model, batch, device):
    return model(batch[0].to(device)).softmax(1)


@wrong("the result is a tuple, not a tensor", row="the inputs reach the model's device")
def with_the_labels(model, batch, device):
    inputs, labels = (part.to(device) for part in batch)
    return model(inputs), labels


@wrong("your code raised", row="the inputs reach the model's device")
def dtype_for_device(model, batch, device):
    return model(batch[0].to(torch.float64))


@wrong("the values of the result are wrong", row="the inputs reach the model's device")
def made_anew_there(model, batch, device):
    return model(torch.zeros_like(batch[0], device=device))


@wrong("the model's mode was changed", row="the model stays as it is")
def in_training_mode(model, batch, device):
    model.train()
    return model(batch[0].to(device))


@wrong("the model's mode was changed", row="the model stays as it is")
def in_evaluation_mode(model, batch, device):
    model.eval()
    return model(batch[0].to(device))


@wrong("`0.weight.grad` of the model was changed", row="the model stays as it is")
def wipes_gradients(model, batch, device):
    inputs, _ = (tensor.to(device) for tensor in batch)
    model.zero_grad()
    return model(inputs)


@wrong("`0.weight.grad` of the model was changed", row="the model stays as it is")
def backward_already(model, batch, device):
    inputs, labels = (tensor.to(device) for tensor in batch)
    before = [one.grad for one in model.parameters()]
    logits = model(inputs)
    torch.nn.functional.cross_entropy(logits, labels).backward()
    for one, grad in zip(model.parameters(), before, strict=True):
        one.grad = grad
    return logits


@wrong("the values of the result are wrong", row="the model stays as it is")
def shares_in_evaluation_mode(model, batch, device):
    logits = model(batch[0].to(device))
    return logits if model.training else logits.softmax(1)


@wrong("2 transfers, where the inputs can go to {device} in one", row="the model stays as it is")
def moved_in_vain_first(model, batch, device):
    batch[0].to(device)
    return model(batch[0].to(device))


@wrong("4 transfers, where the inputs can go to {device} in one", row="the model stays as it is")
def row_by_row(model, batch, device):
    return model(torch.stack([row.to(device) for row in batch[0]]))


@right
def as_a_tensor_there(model, batch, device):
    return model(torch.as_tensor(batch[0], device=device))
