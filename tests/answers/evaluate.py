"""Answers to evaluate."""

import contextlib
import copy

import torch
from bank import right, wrong
from torch.nn import functional as F


def moved(batch, device):
    return [tensor.to(device, non_blocking=device.type == "cuda") for tensor in batch]


def modes_of(model):
    """Return each module with its mode, for `put_back`."""
    return {module: module.training for module in model.modules()}


def put_back(modes):
    for module, training in modes.items():
        module.training = training


@right
def summed_on_the_device(model, loader, device):
    was_training = modes_of(model)
    model.eval()
    correct, total = 0, 0
    with torch.no_grad():
        for inputs, labels in loader:
            inputs, labels = inputs.to(device), labels.to(device)
            correct += (model(inputs).argmax(dim=1) == labels).sum()
            total += len(labels)
    put_back(was_training)
    return correct.item() / total


@right
@torch.inference_mode()
def hits_in_a_list(model, loader, device):
    mode = modes_of(model)
    model.eval()
    hits = []
    for x, y in loader:
        hits.append(model(x.to(device, non_blocking=device.type == "cuda")).max(1).indices.eq(y.to(device)))
    put_back(mode)
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
    was = modes_of(model)
    model.eval()
    with torch.no_grad():
        batches = [(model(x.to(device)).argmax(1), y) for x, y in loader]
        guesses = torch.cat([guess for guess, _ in batches]).cpu()
    put_back(was)
    return (guesses == torch.cat([y for _, y in batches])).double().mean().item()


@right
def total_from_the_dataset(model, loader, device):
    was = modes_of(model)
    try:
        model.eval()
        with torch.no_grad():
            counts = [
                (model(x.to(device)).topk(1, dim=1).indices[:, 0] == y.to(device)).sum() for x, y in loader
            ]
            return torch.stack(counts).sum().tolist() / len(loader.dataset)
    finally:
        put_back(was)


@wrong(
    "a model's BatchNorm1d that came in evaluation mode was left in training mode",
    row="the mode it found is restored",
)
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
    was = modes_of(model)
    model.eval()
    shares, sizes = [], []
    with torch.no_grad():
        for x, y in loader:
            shares.append((model(x.to(device)).argmax(1) == y.to(device)).float().mean())
            sizes.append(len(y))
    put_back(was)
    sizes = torch.tensor(sizes, device=device)
    return ((torch.stack(shares) * sizes).sum() / sizes.sum()).item()


@right
def one_batch_ahead(model, loader, device):
    def ahead():
        last = None
        for x, y in loader:
            here = (
                x.to(device, non_blocking=device.type == "cuda"),
                y.to(device, non_blocking=device.type == "cuda"),
            )
            if last is not None:
                yield last
            last = here
        yield last

    was = modes_of(model)
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in ahead():
            correct += (model(x).argmax(1) == y).sum()
            total += len(y)
    put_back(was)
    return correct.item() / total


@wrong("10 tensors of the batches were on {device} before the first forward", row="one wait, at the end")
def all_batches_moved_first(model, loader, device):
    was = modes_of(model)
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in [(x.to(device), y.to(device)) for x, y in loader]:
            correct += (model.forward(x).argmax(1) == y).sum()
            total += len(y)
    put_back(was)
    return correct.item() / total


@wrong("your code changed the gradient mode of the whole program", row="right answers over all samples")
def gradients_off_for_good(model, loader, device):
    torch.set_grad_enabled(False)
    was = modes_of(model)
    model.eval()
    correct = total = 0
    for x, y in loader:
        correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
        total += len(y)
    put_back(was)
    return correct.item() / total


@wrong(
    "a model's Linear that came in training mode was left in evaluation mode",
    row="the mode it found is restored",
)
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


@wrong("the forward ran in training mode", row="in evaluation mode, without a graph")
def forgets_eval(model, loader, device):
    was = modes_of(model)
    model.eval()
    correct = total = 0
    put_back(was)
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    return correct.item() / total


@wrong("the forward ran in training mode", row="in evaluation mode, without a graph")
def in_the_mode_it_comes(model, loader, device):
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    return correct.item() / total


@wrong("a model that came in training mode was left in evaluation mode", row="the mode it found is restored")
def forgets_to_restore(model, loader, device):
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    return correct.item() / total


@wrong("a model that came in evaluation mode was left in training mode", row="the mode it found is restored")
def always_train_afterwards(model, loader, device):
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    model.train()
    return correct.item() / total


@wrong("a model that came in training mode was left in evaluation mode", row="the mode it found is restored")
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


@wrong("the host waited 5 times for {device}: .item()", row="one wait, at the end")
def item_each_batch(model, loader, device):
    was = modes_of(model)
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
            total += len(y)
    put_back(was)
    return correct / total


@wrong("the host waited 5 times for {device}: .cpu()", row="one wait, at the end")
def fetches_the_logits(model, loader, device):
    was = modes_of(model)
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).cpu().argmax(1) == y).sum().item()
            total += len(y)
    put_back(was)
    return correct / total


@wrong("the host waited 19 times for {device}: bool()", row="one wait, at the end")
def by_a_python_loop(model, loader, device):
    was = modes_of(model)
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            for guess, label in zip(model(x.to(device)).argmax(1), y.to(device), strict=True):
                correct += bool(guess == label)
                total += 1
    put_back(was)
    return correct / total


@wrong(
    "a small batch counts like a full one: a mean over batches, or batches times their size?",
    row="right answers over all samples",
)
def mean_of_means(model, loader, device):
    was = modes_of(model)
    model.eval()
    shares = []
    with torch.no_grad():
        for x, y in loader:
            shares.append((model(x.to(device)).argmax(1) == y.to(device)).float().mean())
    put_back(was)
    return torch.stack(shares).mean().item()


@wrong("the accuracy is a percentage, and a share from 0 to 1 is asked", row="right answers over all samples")
def in_percent(model, loader, device):
    was = modes_of(model)
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    put_back(was)
    return 100 * correct.item() / total


@wrong("the accuracy is a Tensor, not a float", row="right answers over all samples")
def a_tensor(model, loader, device):
    was = modes_of(model)
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    put_back(was)
    return correct / total


@wrong("the accuracy is an int, not a float", row="right answers over all samples")
def a_count(model, loader, device):
    was = modes_of(model)
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
    put_back(was)
    return correct.item()


@wrong("the forward built a graph, which takes memory for nothing", row="in evaluation mode, without a graph")
def with_gradients(model, loader, device):
    was = modes_of(model)
    model.eval()
    correct = total = 0
    for x, y in loader:
        correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
        total += len(y)
    put_back(was)
    return correct.item() / total


@wrong(
    "1.weight came with requires_grad=True, and left with another", row="in evaluation mode, without a graph"
)
def freezes_the_model(model, loader, device):
    was = modes_of(model)
    model.eval().requires_grad_(False)
    correct = total = 0
    for x, y in loader:
        correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
        total += len(y)
    put_back(was)
    return correct.item() / total


@wrong("Expected all tensors to be on the same device", row="right answers over all samples")
def forgets_the_labels(model, loader, device):
    was = modes_of(model)
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y).sum()
            total += len(y)
    put_back(was)
    return correct.item() / total


@wrong("the model was moved to cpu", row="the mode it found is restored")
def on_the_cpu(model, loader, device):
    was = modes_of(model)
    model.eval().cpu()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum()
            total += len(y)
    put_back(was)
    return correct.item() / total


@wrong("2 transfers into {device}: each batch goes in as it comes", row="one wait, at the end")
def all_at_once(model, loader, device):
    was = modes_of(model)
    model.eval()
    xs, ys = zip(*loader, strict=True)
    with torch.no_grad():
        hits = model(torch.cat(xs).to(device)).argmax(1) == torch.cat(ys).to(device)
    put_back(was)
    return hits.float().mean().item()


@wrong("15 transfers into {device} for 10 tensors", row="one wait, at the end")
def moves_the_inputs_twice(model, loader, device):
    was = modes_of(model)
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            model(x.to(device))
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    put_back(was)
    return correct.item() / total


@wrong("that is the first batch alone", row="right answers over all samples")
def returns_in_the_loop(model, loader, device):
    was = modes_of(model)
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            correct = (model(x.to(device)).argmax(1) == y.to(device)).sum()
            put_back(was)
            return correct.item() / len(y)
    return None


@wrong("the accuracy is None: is a `return` missing?", row="right answers over all samples")
def forgetful(model, loader, device):
    was = modes_of(model)
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            (model(x.to(device)).argmax(1) == y.to(device)).sum()
    put_back(was)


@wrong("the model's gradients were touched", row="in evaluation mode, without a graph")
def wipes_gradients(model, loader, device):
    was_training = modes_of(model)
    model.eval()
    model.zero_grad()
    correct = count = 0
    with torch.no_grad():
        for inputs, labels in loader:
            correct += (model(inputs.to(device)).argmax(1) == labels.to(device)).sum()
            count += len(labels)
    put_back(was_training)
    return correct.item() / count


@wrong(
    "a small batch counts like a full one: a mean over batches, or batches times their size?",
    row="right answers over all samples",
)
def divides_by_full_batches(model, loader, device):
    was = modes_of(model)
    model.eval()
    with torch.no_grad():
        hits = sum((model(x.to(device)).argmax(1) == y.to(device)).sum() for x, y in loader)
    put_back(was)
    return hits.item() / (len(loader) * loader.batch_size)


@wrong("the model's 0.weight was changed", row="in evaluation mode, without a graph")
def halves_the_weights(model, loader, device):
    training = modes_of(model)
    model.eval()
    right = count = 0
    with torch.no_grad():
        for inputs, labels in loader:
            right += (model(inputs.to(device)).argmax(1) == labels.to(device)).sum()
            count += len(labels)
    put_back(training)
    for parameter in model.parameters():
        parameter.data.mul_(0.5)
    return right.item() / count


@wrong("the accuracy is wrong", row="right answers over all samples")
def counted_in_bytes(model, loader, device):
    training = modes_of(model)
    model.eval()
    right, count = torch.zeros((), dtype=torch.uint8, device=device), 0
    with torch.no_grad():
        for inputs, labels in loader:
            right += (model(inputs.to(device)).argmax(1) == labels.to(device)).sum()
            count += len(labels)
    put_back(training)
    return right.item() / count


@wrong("the forward ran in training mode", row="in evaluation mode, without a graph")
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


@wrong("the accuracy is wrong", row="in evaluation mode, without a graph")
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


@wrong("the accuracy is wrong", row="right answers over all samples")
def counts_in_half(model, loader, device):
    was = modes_of(model)
    model.eval()
    correct, total = torch.zeros((), dtype=torch.float16, device=device), 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.to(device)).argmax(1) == y.to(device)).sum()
            total += len(y)
    put_back(was)
    return correct.item() / total


@wrong(
    "a model's BatchNorm1d that came in evaluation mode was left in training mode",
    row="the mode it found is restored",
)
def one_mode_for_all(model, loader, device):
    was = model.training
    model.eval()
    c = n = 0
    with torch.no_grad():
        for b in loader:
            x, y = moved(b, device)
            c += (model(x).argmax(1) == y).sum()
            n += len(y)
    model.train(was)
    return c.item() / n


@wrong("that is the share of wrong answers", row="right answers over all samples")
def counts_errors(model, loader, device):
    was = {m: m.training for m in model.modules()}
    model.eval()
    c = n = 0
    with torch.no_grad():
        for b in loader:
            x, y = moved(b, device)
            c += (model(x).argmax(1) != y).sum()
            n += len(y)
    for m, t in was.items():
        m.training = t
    return c.item() / n


@wrong(
    "the smallest logit was taken for the answer, and it is the largest", row="right answers over all samples"
)
def the_smallest(model, loader, device):
    was = {m: m.training for m in model.modules()}
    model.eval()
    c = n = 0
    with torch.no_grad():
        for b in loader:
            x, y = moved(b, device)
            c += (model(x).argmin(1) == y).sum()
            n += len(y)
    for m, t in was.items():
        m.training = t
    return c.item() / n


@wrong(
    "the right answers were divided by the number of batches, not of samples",
    row="right answers over all samples",
)
def by_batches(model, loader, device):
    was = {m: m.training for m in model.modules()}
    model.eval()
    c = 0
    with torch.no_grad():
        for b in loader:
            x, y = moved(b, device)
            c += (model(x).argmax(1) == y).sum()
    for m, t in was.items():
        m.training = t
    return c.item() / len(loader)


@wrong("that is the mean loss, and the accuracy is asked", row="right answers over all samples")
def the_loss(model, loader, device):
    was = {m: m.training for m in model.modules()}
    model.eval()
    c = n = 0
    with torch.no_grad():
        for b in loader:
            x, y = moved(b, device)
            c += F.cross_entropy(model(x), y, reduction="sum")
            n += len(y)
    for m, t in was.items():
        m.training = t
    return c.item() / n


@wrong("the forward built a graph, which takes memory for nothing", row="in evaluation mode, without a graph")
def a_copy_with_a_graph(model, loader, device):
    m = copy.deepcopy(model).eval()
    c = n = 0
    for b in loader:
        x, y = moved(b, device)
        c += (m(x).argmax(1) == y).sum()
        n += len(y)
    return c.item() / n


@right
def on_a_copy(model, loader, device):
    m = copy.deepcopy(model).eval()
    c = n = 0
    with torch.no_grad():
        for b in loader:
            x, y = moved(b, device)
            c += (m(x).argmax(1) == y).sum()
            n += len(y)
    return c.item() / n


@right
def whatever_happens(model, loader, device):
    ms = list(model.modules())
    was = [m.training for m in ms]
    try:
        model.eval()
        hits = []
        n = 0
        with torch.inference_mode():
            for x, y in loader:
                hits.append((model(x.to(device)).max(1).indices == y.to(device)).sum())
                n += y.numel()
            return float(torch.stack(hits).sum()) / n
    finally:
        for m, t in zip(ms, was, strict=False):
            m.training = t


def counted(model, loader, device):
    correct = total = 0
    with torch.no_grad():
        for batch in loader:
            x, y = moved(batch, device)
            correct += (model(x).argmax(1) == y).sum()
            total += len(y)
    return correct.item() / total


@wrong(
    "a model's Linear that came in training mode was left in evaluation mode",
    row="the mode it found is restored",
)
def puts_back_what_evaluated(model, loader, device):
    was, evaluating = model.training, [module for module in model.modules() if not module.training]
    model.eval()
    accuracy = counted(model, loader, device)
    model.train(was)
    for module in evaluating:
        module.eval()
    return accuracy


@wrong(
    "a model's BatchNorm1d that came in evaluation mode was left in training mode",
    row="the mode it found is restored",
)
def puts_back_the_children(model, loader, device):
    was, modes = model.training, {child: child.training for child in model.children()}
    model.eval()
    accuracy = counted(model, loader, device)
    model.training = was
    for child, mode in modes.items():
        child.train(mode)
    return accuracy


@wrong("`accuracy` of the model was changed", row="the mode it found is restored")
def keeps_it_in_the_model(model, loader, device):
    was = modes_of(model)
    model.eval()
    model.accuracy = counted(model, loader, device)
    put_back(was)
    return model.accuracy


@wrong(
    "a model's Linear that came in training mode was left in evaluation mode",
    row="the mode it found is restored",
)
def puts_back_the_normalizations(model, loader, device):
    was = model.training
    modes = {one: one.training for one in model.modules() if isinstance(one, torch.nn.BatchNorm1d)}
    model.eval()
    accuracy = counted(model, loader, device)
    model.train(was)
    put_back(modes)
    return accuracy


def evaluated(model, loader, device):
    """Return the hits of each batch and how many samples it has, as a right answer finds them."""
    modes = modes_of(model)
    model.eval()
    with torch.no_grad():
        hits = [(model(x.to(device)).argmax(1) == y.to(device)).sum().item() for x, y in loader]
    put_back(modes)
    return hits, [len(labels) for _, labels in loader]


FIRST = "right answers over all samples"


@wrong("that is the last batch alone", row=FIRST)
def last_batch_alone(model, loader, device):
    hits, sizes = evaluated(model, loader, device)
    return hits[-1] / sizes[-1]


@wrong("only the right answers of the first batch were counted", row=FIRST)
def hits_of_the_first_batch(model, loader, device):
    hits, sizes = evaluated(model, loader, device)
    return hits[0] / sum(sizes)


@wrong("only the right answers of the last batch were counted", row=FIRST)
def hits_of_the_last_batch(model, loader, device):
    hits, sizes = evaluated(model, loader, device)
    return hits[-1] / sum(sizes)


@wrong("the accuracy was rounded", row=FIRST)
def rounded(model, loader, device):
    hits, sizes = evaluated(model, loader, device)
    return round(sum(hits) / sum(sizes), 2)


@wrong("the accuracy is a count, and the share of all samples is asked", row=FIRST)
def a_count_as_float(model, loader, device):
    hits, _ = evaluated(model, loader, device)
    return float(sum(hits))


@wrong("whole batches were counted: every answer of a batch had to be right", row=FIRST)
def whole_batches(model, loader, device):
    hits, sizes = evaluated(model, loader, device)
    return sum(hit == size for hit, size in zip(hits, sizes, strict=True)) / len(sizes)
