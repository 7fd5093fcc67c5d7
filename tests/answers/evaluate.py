"""Answers to evaluate."""

import contextlib

import torch
from bank import right, wrong


@right
def summed_on_the_device(model, loader, device):
    was_training = model.training
    model.eval()
    correct, total = 0, 0
    with torch.no_grad():
        for inputs, labels in loader:
            inputs, labels = inputs.to(device), labels.to(device)
            correct += (model(inputs).argmax(dim=1) == labels).sum()
            total += len(labels)
    model.train(was_training)
    return correct.item() / total


@right
@torch.inference_mode()
def hits_in_a_list(model, loader, device):
    mode = model.training
    model.eval()
    hits = []
    for x, y in loader:
        hits.append(model(x.to(device, non_blocking=True)).max(1).indices.eq(y.to(device)))
    model.train(mode)
    return torch.cat(hits).float().mean().item()


@contextlib.contextmanager
def evaluating(model):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@right
def mode_by_mode(model, loader, device):
    with evaluating(model), torch.no_grad():
        correct = torch.zeros((), dtype=torch.long, device=device)
        total = 0
        for x, y in loader:
            correct.add_(torch.eq(model(x.to(device)).argmax(-1), y.to(device)).sum())
            total += y.numel()
        return float(correct) / total


@right
def compared_on_the_cpu(model, loader, device):
    was = model.training
    model.eval()
    with torch.no_grad():
        batches = [(model(x.to(device)).argmax(1), y) for x, y in loader]
        guesses = torch.cat([guess for guess, _ in batches]).cpu()
    model.train(was)
    return (guesses == torch.cat([y for _, y in batches])).double().mean().item()


@right
def total_from_the_dataset(model, loader, device):
    was = model.training
    try:
        model.eval()
        with torch.no_grad():
            counts = [
                (model(x.to(device)).topk(1, dim=1).indices[:, 0] == y.to(device)).sum() for x, y in loader
            ]
            return torch.stack(counts).sum().tolist() / len(loader.dataset)
    finally:
        model.train(was)


@right
def only_if_it_was_training(model, loader, device):
    training = model.training
    if training:
        model.eval()
    right_ones, samples = torch.tensor(0.0, device=device), 0
    for batch in loader:
        x, y = [part.to(device) for part in batch]
        with torch.no_grad():
            logits = model(x)
        right_ones += (logits.argmax(1) == y).float().sum()
        samples += x.size(0)
    if training:
        model.train()
    return (right_ones / samples).item()


@right
def shares_weighed_by_sizes(model, loader, device):
    was = model.training
    model.eval()
    shares, sizes = [], []
    with torch.no_grad():
        for x, y in loader:
            shares.append((model(x.to(device)).argmax(1) == y.to(device)).float().mean())
            sizes.append(len(y))
    model.train(was)
    sizes = torch.tensor(sizes, device=device)
    return ((torch.stack(shares) * sizes).sum() / sizes.sum()).item()


@right
def one_batch_ahead(model, loader, device):
    def ahead():
        last = None
        for x, y in loader:
            here = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            if last is not None:
                yield last
            last = here
        yield last

    was = model.training
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in ahead():
            correct += (model(x).argmax(1) == y).sum()
            total += len(y)
    model.train(was)
    return correct.item() / total


@wrong("10 tensors of the batches were on sim:0 before the first forward")
def all_batches_moved_first(model, loader, device):
    was = model.training
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in [(x.to(device), y.to(device)) for x, y in loader]:
            correct += (model.forward(x).argmax(1) == y).sum()
            total += len(y)
    model.train(was)
    return correct.item() / total


@wrong("your code changed the gradient mode of the whole program")
def gradients_off_for_good(model, loader, device):
    torch.set_grad_enabled(False)
    was = model.training
    model.eval()
    correct = total = 0
    for x, y in loader:
        correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
        total += len(y)
    model.train(was)
    return correct.item() / total


@wrong("was left with its Linear in evaluation mode")
def restores_the_outermost_alone(model, loader, device):
    was = model.training
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    model.training = was
    return correct.item() / total


@wrong("the forward ran in training mode")
def forgets_eval(model, loader, device):
    was = model.training
    model.eval()
    correct = total = 0
    model.train(was)
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    return correct.item() / total


@wrong("the forward ran in training mode")
def in_the_mode_it_comes(model, loader, device):
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    return correct.item() / total


@wrong("was left in evaluation mode")
def forgets_to_restore(model, loader, device):
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    return correct.item() / total


@wrong("a model that came in evaluation mode was left in training mode")
def always_train_afterwards(model, loader, device):
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    model.train()
    return correct.item() / total


@wrong("was left in evaluation mode")
def remembers_too_late(model, loader, device):
    model.eval()
    was = model.training
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    model.train(was)
    return correct.item() / total


@wrong("the host waited 5 times for sim:0")
def item_each_batch(model, loader, device):
    was = model.training
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
            total += len(y)
    model.train(was)
    return correct / total


@wrong("the host waited 5 times for sim:0")
def fetches_the_logits(model, loader, device):
    was = model.training
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).cpu().argmax(1) == y).sum().item()
            total += len(y)
    model.train(was)
    return correct / total


@wrong("the host waited")
def by_a_python_loop(model, loader, device):
    was = model.training
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            for guess, label in zip(model(x.to(device)).argmax(1), y.to(device), strict=True):
                correct += bool(guess == label)
                total += 1
    model.train(was)
    return correct / total


@wrong("a small batch counts like a full one")
def mean_of_means(model, loader, device):
    was = model.training
    model.eval()
    shares = []
    with torch.no_grad():
        for x, y in loader:
            shares.append((model(x.to(device)).argmax(1) == y.to(device)).float().mean())
    model.train(was)
    return torch.stack(shares).mean().item()


@wrong("the accuracy is a percentage")
def in_percent(model, loader, device):
    was = model.training
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    model.train(was)
    return 100 * correct.item() / total


@wrong("the accuracy is a Tensor, not a float")
def a_tensor(model, loader, device):
    was = model.training
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    model.train(was)
    return correct / total


@wrong("the accuracy is an int, not a float")
def a_count(model, loader, device):
    was = model.training
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
    model.train(was)
    return correct.item()


@wrong("the forward built a graph that nobody needs")
def with_gradients(model, loader, device):
    was = model.training
    model.eval()
    correct = total = 0
    for x, y in loader:
        correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
        total += len(y)
    model.train(was)
    return correct.item() / total


@wrong("requires_grad=True, and left with another")
def freezes_the_model(model, loader, device):
    was = model.training
    model.eval().requires_grad_(False)
    correct = total = 0
    for x, y in loader:
        correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
        total += len(y)
    model.train(was)
    return correct.item() / total


@wrong("Expected all tensors to be on the same device")
def forgets_the_labels(model, loader, device):
    was = model.training
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y).sum()
            total += len(y)
    model.train(was)
    return correct.item() / total


@wrong("the model was moved to cpu")
def on_the_cpu(model, loader, device):
    was = model.training
    model.eval().cpu()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum()
            total += len(y)
    model.train(was)
    return correct.item() / total


@wrong("each batch goes in as it comes")
def all_at_once(model, loader, device):
    was = model.training
    model.eval()
    xs, ys = zip(*loader, strict=True)
    with torch.no_grad():
        hits = model(torch.cat(xs).to(device)).argmax(1) == torch.cat(ys).to(device)
    model.train(was)
    return hits.float().mean().item()


@wrong("15 copies into sim:0 for 10 tensors")
def moves_the_inputs_twice(model, loader, device):
    was = model.training
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            model(x.to(device))
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    model.train(was)
    return correct.item() / total


@wrong("the accuracy is wrong")
def returns_in_the_loop(model, loader, device):
    was = model.training
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            correct = (model(x.to(device)).argmax(1) == y.to(device)).sum()
            model.train(was)
            return correct.item() / len(y)
    return None


@wrong("is None: is a `return` missing?")
def forgetful(model, loader, device):
    was = model.training
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            (model(x.to(device)).argmax(1) == y.to(device)).sum()
    model.train(was)


@wrong("the model's gradients were touched")
def wipes_gradients(model, loader, device):
    was_training = model.training
    model.eval()
    model.zero_grad()
    correct = count = 0
    with torch.no_grad():
        for inputs, labels in loader:
            correct += (model(inputs.to(device)).argmax(1) == labels.to(device)).sum()
            count += len(labels)
    model.train(was_training)
    return correct.item() / count


@wrong("or batches times their size?")
def divides_by_full_batches(model, loader, device):
    was = model.training
    model.eval()
    with torch.no_grad():
        hits = sum((model(x.to(device)).argmax(1) == y.to(device)).sum() for x, y in loader)
    model.train(was)
    return hits.item() / (len(loader) * loader.batch_size)


@wrong("the model's 0.weight was changed")
def halves_the_weights(model, loader, device):
    training = model.training
    model.eval()
    right = count = 0
    with torch.no_grad():
        for inputs, labels in loader:
            right += (model(inputs.to(device)).argmax(1) == labels.to(device)).sum()
            count += len(labels)
    model.train(training)
    for parameter in model.parameters():
        parameter.data.mul_(0.5)
    return right.item() / count


@wrong("the accuracy is wrong")
def counted_in_bytes(model, loader, device):
    training = model.training
    model.eval()
    right, count = torch.zeros((), dtype=torch.uint8, device=device), 0
    with torch.no_grad():
        for inputs, labels in loader:
            right += (model(inputs.to(device)).argmax(1) == labels.to(device)).sum()
            count += len(labels)
    model.train(training)
    return right.item() / count


@wrong("the forward ran in training mode")
def all_parts_but_the_whole(model, loader, device):
    modes = [(module, module.training) for module in model.modules()]
    for child in model.children():
        child.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    for module, mode in modes:
        module.training = mode
    return correct.item() / total


@wrong("the accuracy is wrong")
def trusts_only_what_is_trained(model, loader, device):
    """Of a model that came in training mode it reads the last batch alone."""
    was_training, hits, total = model.training, 0, 0
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            if was_training:
                hits, total = 0, 0
            hits += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    model.train(was_training)
    return hits.item() / total


@wrong("the accuracy is wrong")
def counts_in_half(model, loader, device):
    was = model.training
    model.eval()
    correct, total = torch.zeros((), dtype=torch.float16, device=device), 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    model.train(was)
    return correct.item() / total
