"""Answers to fit."""

import torch
from bank import right, wrong
from torch.nn import functional as F


def moved(batch, device):
    return [tensor.to(device, non_blocking=device.type == "cuda") for tensor in batch]


def train_step(model, batch, optimizer, device):
    model.train()
    x, y = batch[0].to(device), batch[1].to(device)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@right
def summed_on_the_device(model, loader, optimizer, device, epochs):
    losses = []
    for _ in range(epochs):
        total = count = 0
        for batch in loader:
            total += train_step(model, batch, optimizer, device) * len(batch[1])
            count += len(batch[1])
        losses.append((total / count).item())
    return losses


@right
def read_once_at_the_very_end(model, loader, optimizer, device, epochs):
    means = []
    for _ in range(epochs):
        steps, sizes = [], []
        for x, y in loader:
            steps.append(train_step(model, (x, y), optimizer, device))
            sizes.append(len(y))
        weights = [size / sum(sizes) for size in sizes]
        means.append(sum(step * weight for step, weight in zip(steps, weights, strict=True)))
    return torch.stack(means).tolist()


@right
def everything_inline(model, loader, optimizer, device, epochs):
    losses = []
    criterion = torch.nn.CrossEntropyLoss(reduction="sum")
    model.train()
    for _epoch in range(epochs):
        total = torch.zeros((), device=device)
        for x, y in loader:
            x, y = (
                x.to(device, non_blocking=device.type == "cuda"),
                y.to(device, non_blocking=device.type == "cuda"),
            )
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(model(x), y)
            (loss / len(y)).backward()
            optimizer.step()
            total += loss.detach()
        losses.append(float(total) / len(loader.dataset))
    return losses


@right
def fetched_together_by_epoch(model, loader, optimizer, device, epochs):
    history = []
    for _ in range(epochs):
        pairs = [(train_step(model, batch, optimizer, device), len(batch[0])) for batch in loader]
        values = torch.stack([loss for loss, _ in pairs]).cpu().tolist()
        count = sum(n for _, n in pairs)
        history.append(sum(value * n for value, (_, n) in zip(values, pairs, strict=True)) / count)
    return history


@right
def loss_held_by_a_name(model, loader, optimizer, device, epochs):
    means = torch.empty(epochs, device=device)
    for epoch in range(epochs):
        model.train()
        means[epoch] = 0
        seen = 0
        for inputs, labels in loader:
            inputs, labels = inputs.to(device), labels.to(device)
            logits = model(inputs)
            loss = F.cross_entropy(logits, labels)
            for parameter in model.parameters():
                parameter.grad = None
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                means[epoch] += loss * len(labels)
            seen += len(labels)
        means[epoch] /= seen
    return means.cpu().numpy().astype(float).tolist()


@right
def running_mean(model, loader, optimizer, device, epochs):
    def one_epoch():
        mean, seen = torch.tensor(0.0, device=device), 0
        for batch in loader:
            size = batch[0].shape[0]
            seen += size
            mean.lerp_(train_step(model, batch, optimizer, device), size / seen)
        return mean.item()

    return [one_epoch() for _ in range(epochs)]


def weighed_by_sizes(dtype, losses, sizes, device):
    sizes = torch.tensor(sizes, dtype=dtype, device=device)
    return (torch.stack(losses) * sizes).sum() / sizes.sum()


@right
def sizes_in_one_vector(model, loader, optimizer, device, epochs):
    means = []
    for _ in range(epochs):
        pairs = [(train_step(model, batch, optimizer, device), len(batch[0])) for batch in loader]
        means.append(weighed_by_sizes(torch.float32, *zip(*pairs, strict=True), device).item())
    return means


@right
def sizes_in_one_vector_of_integers(model, loader, optimizer, device, epochs):
    means = []
    for _ in range(epochs):
        pairs = [(train_step(model, batch, optimizer, device), len(batch[0])) for batch in loader]
        means.append(weighed_by_sizes(torch.int64, *zip(*pairs, strict=True), device).item())
    return means


@right
def all_sizes_at_the_very_end(model, loader, optimizer, device, epochs):
    epochs = [
        [(train_step(model, batch, optimizer, device), len(batch[0])) for batch in loader]
        for _ in range(epochs)
    ]
    losses = torch.stack([torch.stack([loss for loss, _ in pairs]) for pairs in epochs])
    sizes = torch.tensor([[size for _, size in pairs] for pairs in epochs]).to(device)
    return ((losses * sizes).sum(1) / sizes.sum(1)).tolist()


@right
def listed_on_the_cpu_first(model, loader, optimizer, device, epochs):
    means = []
    for _ in range(epochs):
        total = count = 0
        for batch in list(loader):
            total += train_step(model, batch, optimizer, device) * len(batch[1])
            count += len(batch[1])
        means.append((total / count).item())
    return means


@right
def two_batches_ahead(model, loader, optimizer, device, epochs):
    def ahead():
        queue = []
        for x, y in loader:
            queue.append(
                (
                    x.to(device, non_blocking=device.type == "cuda"),
                    y.to(device, non_blocking=device.type == "cuda"),
                )
            )
            if len(queue) > 2:
                yield queue.pop(0)
        yield from queue

    means = []
    for _ in range(epochs):
        total = count = 0
        for batch in ahead():
            total += train_step(model, batch, optimizer, device) * len(batch[1])
            count += len(batch[1])
        means.append((total / count).item())
    return means


@wrong(
    "8 tensors of the batches were on {device} before the first forward",
    row="one transfer for each tensor of a batch",
)
def the_whole_epoch_moved_first(model, loader, optimizer, device, epochs):
    means = []
    for _ in range(epochs):
        total = count = 0
        for batch in [(x.to(device), y.to(device)) for x, y in loader]:
            total += train_step(model, batch, optimizer, device) * len(batch[1])
            count += len(batch[1])
        means.append((total / count).item())
    return means


@wrong(
    "24 transfers into {device} for 16 tensors: more goes in than the batches",
    row="one transfer for each tensor of a batch",
)
def sizes_as_vectors_of_each_batch(model, loader, optimizer, device, epochs):
    means = []
    for _ in range(epochs):
        total = count = 0
        for batch in loader:
            size = torch.full((4,), len(batch[1])).to(device)
            total += train_step(model, batch, optimizer, device) * size
            count += size
        means.append((total / count).mean().item())
    return means


@wrong("the host waited 8 times in 2 epochs: .item()", row="at most one wait in an epoch")
def item_each_step(model, loader, optimizer, device, epochs):
    losses = []
    for _ in range(epochs):
        total = count = 0
        for batch in loader:
            total += train_step(model, batch, optimizer, device).item() * len(batch[1])
            count += len(batch[1])
        losses.append(total / count)
    return losses


@wrong("the host waited 10 times in 2 epochs: int() and .item()", row="at most one wait in an epoch")
def counts_right_answers_too(model, loader, optimizer, device, epochs):
    losses = []
    model.train()
    for _ in range(epochs):
        total = count = hits = 0
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(y)
            count += len(y)
            hits += int((logits.argmax(1) == y).sum())
        losses.append((total / count).item())
    return losses


@wrong("the host waited 10 times in 2 epochs: synchronize() and .item()", row="at most one wait in an epoch")
def synchronizes_each_step(model, loader, optimizer, device, epochs):
    losses = []
    for _ in range(epochs):
        total = count = 0
        for batch in loader:
            total += train_step(model, batch, optimizer, device) * len(batch[1])
            count += len(batch[1])
            if device.type != "cpu":
                torch.accelerator.synchronize(device)
        losses.append((total / count).item())
    return losses


@wrong(
    "the mean over batches counts the samples of a small batch more",
    row="the mean loss over samples, for each epoch",
)
def mean_of_means(model, loader, optimizer, device, epochs):
    losses = []
    for _ in range(epochs):
        steps = [train_step(model, batch, optimizer, device) for batch in loader]
        losses.append(torch.stack(steps).mean().item())
    return losses


@wrong("that is the loss of each epoch's last batch alone", row="the mean loss over samples, for each epoch")
def the_last_batch(model, loader, optimizer, device, epochs):
    losses = []
    for _ in range(epochs):
        for batch in loader:
            loss = train_step(model, batch, optimizer, device)
        losses.append(loss.item())
    return losses


@wrong(
    "that is the sum over the samples: divide it by how many there are",
    row="the mean loss over samples, for each epoch",
)
def the_sum(model, loader, optimizer, device, epochs):
    losses = []
    for _ in range(epochs):
        total = sum(train_step(model, batch, optimizer, device) * len(batch[1]) for batch in loader)
        losses.append(total.item())
    return losses


@wrong(
    "sum and count were never reset: an epoch's loss holds those before it",
    row="the mean loss over samples, for each epoch",
)
def never_reset(model, loader, optimizer, device, epochs):
    losses = []
    total = count = 0
    for _ in range(epochs):
        for batch in loader:
            total += train_step(model, batch, optimizer, device) * len(batch[1])
            count += len(batch[1])
        losses.append((total / count).item())
    return losses


@wrong("3 graphs of earlier steps were still alive", row="no graph outlives its step")
def keeps_the_graphs(model, loader, optimizer, device, epochs):
    losses = []
    model.train()
    for _ in range(epochs):
        total = count = 0
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss * len(y)
            count += len(y)
        losses.append((total / count).item())
    return losses


@wrong("7 graphs of earlier steps were still alive", row="no graph outlives its step")
def keeps_the_losses(model, loader, optimizer, device, epochs):
    every, sizes = [], []
    model.train()
    for _ in range(epochs):
        every.append([])
        sizes = []
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            every[-1].append(loss * len(y))
            sizes.append(len(y))
    return [(torch.stack(losses).sum() / sum(sizes)).item() for losses in every]


@wrong("the loader was gone through once for 2 epochs", row="every batch of every epoch trains the model")
def lists_the_loader(model, loader, optimizer, device, epochs):
    losses, batches = [], list(loader)
    for _ in range(epochs):
        total = count = 0
        for batch in batches:
            total += train_step(model, batch, optimizer, device) * len(batch[1])
            count += len(batch[1])
        losses.append((total / count).item())
    return losses


@wrong("the loader was gone through once for 2 epochs", row="every batch of every epoch trains the model")
def moved_once_for_all(model, loader, optimizer, device, epochs):
    losses = []
    batches = [[part.to(device) for part in batch] for batch in loader]
    for _ in range(epochs):
        total = count = 0
        for batch in batches:
            total += train_step(model, batch, optimizer, device) * len(batch[1])
            count += len(batch[1])
        losses.append((total / count).item())
    return losses


@wrong(
    "24 transfers into {device} for 16 tensors: some tensor goes twice",
    row="one transfer for each tensor of a batch",
)
def moves_the_inputs_twice(model, loader, optimizer, device, epochs):
    losses = []
    for _ in range(epochs):
        total = count = 0
        for x, y in loader:
            assert x.to(device).shape == x.shape
            total += train_step(model, (x, y), optimizer, device) * len(y)
            count += len(y)
        losses.append((total / count).item())
    return losses


@wrong(
    "20 transfers into {device} for 16 tensors: more goes in than the batches",
    row="one transfer for each tensor of a batch",
)
def sizes_as_tensors(model, loader, optimizer, device, epochs):
    losses = []
    for _ in range(epochs):
        total = count = 0
        for batch in loader:
            size = torch.tensor(len(batch[1])).to(device)
            total += train_step(model, batch, optimizer, device) * size
            count += size
        losses.append((total / count).item())
    return losses


@wrong("Expected all tensors to be on the same device", row="the mean loss over samples, for each epoch")
def forgets_to_move(model, loader, optimizer, device, epochs):
    losses = []
    model.train()
    for _ in range(epochs):
        total = count = 0
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(y)
            count += len(y)
        losses.append((total / count).item())
    return losses


@wrong("Expected all tensors to be on the same device", row="the mean loss over samples, for each epoch")
def total_on_the_cpu(model, loader, optimizer, device, epochs):
    losses = []
    for _ in range(epochs):
        total, count = torch.zeros(1), 0
        for batch in loader:
            step = train_step(model, batch, optimizer, device)
            total = torch.cat([total, step.reshape(1) * len(batch[1])])
            count += len(batch[1])
        losses.append((total.sum() / count).item())
    return losses


@wrong("the losses are tensors, not floats", row="the mean loss over samples, for each epoch")
def tensors(model, loader, optimizer, device, epochs):
    losses = []
    for _ in range(epochs):
        total = count = 0
        for batch in loader:
            total += train_step(model, batch, optimizer, device) * len(batch[1])
            count += len(batch[1])
        losses.append(total / count)
    return losses


@wrong("the result is a Tensor, not a list of floats", row="the mean loss over samples, for each epoch")
def one_tensor(model, loader, optimizer, device, epochs):
    return torch.tensor(summed_on_the_device(model, loader, optimizer, device, epochs))


@wrong("1 loss for 2 epochs", row="the mean loss over samples, for each epoch")
def returns_in_the_loop(model, loader, optimizer, device, epochs):
    losses = []
    for _ in range(epochs):
        total = count = 0
        for batch in loader:
            total += train_step(model, batch, optimizer, device) * len(batch[1])
            count += len(batch[1])
        losses.append((total / count).item())
        return losses
    return None


@wrong("5 losses for 2 epochs", row="the mean loss over samples, for each epoch")
def a_loss_for_each_batch(model, loader, optimizer, device, epochs):
    losses = [0.0] * (epochs - 2)
    for _ in range(epochs):
        losses += [train_step(model, batch, optimizer, device).item() for batch in loader]
    return losses[:5] if epochs == 2 else losses


@wrong("a forward ran in evaluation mode", row="the mean loss over samples, for each epoch")
def in_evaluation_mode(model, loader, optimizer, device, epochs):
    losses = []
    for _ in range(epochs):
        total = count = 0
        model.eval()
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(y)
            count += len(y)
        losses.append((total / count).item())
    return losses


@wrong(
    "gradients from before were counted: call zero_grad before each backward",
    row="the mean loss over samples, for each epoch",
)
def forgets_to_zero(model, loader, optimizer, device, epochs):
    losses = []
    model.train()
    for _ in range(epochs):
        total = count = 0
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(y)
            count += len(y)
        losses.append((total / count).item())
    return losses


@wrong("the optimizer that was given took no step", row="the mean loss over samples, for each epoch")
def an_optimizer_of_its_own(model, loader, optimizer, device, epochs):
    optimizer = torch.optim.Adam(model.parameters())
    return summed_on_the_device(model, loader, optimizer, device, epochs)


@wrong("the result is None: is a `return` missing?", row="the mean loss over samples, for each epoch")
def forgetful(model, loader, optimizer, device, epochs):
    summed_on_the_device(model, loader, optimizer, device, epochs)


@wrong("the model's 0.weight is on cpu, not {device}", row="every batch of every epoch trains the model")
def takes_the_model_home(model, loader, optimizer, device, epochs):
    losses = summed_on_the_device(model, loader, optimizer, device, epochs)
    model.cpu()
    return losses


LAST = []


@wrong("when fit had returned, 1 graph of its steps lived on", row="no graph outlives its step")
def keeps_the_last_loss(model, loader, optimizer, device, epochs):
    losses = []
    for _ in range(epochs):
        model.train()
        total = count = 0
        for inputs, labels in loader:
            inputs, labels = inputs.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(labels)
            count += len(labels)
        losses.append((total / count).item())
    LAST[:] = [loss]
    return losses


@wrong("the optimizer that was given took no step", row="the mean loss over samples, for each epoch")
def takes_no_step(model, loader, optimizer, device, epochs):
    losses = []
    for _ in range(epochs):
        model.train()
        total = count = 0
        for inputs, labels in loader:
            inputs, labels = inputs.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            total += loss.detach() * len(labels)
            count += len(labels)
        losses.append((total / count).item())
    return losses


@wrong(
    "that is the sum of the batches' losses, not divided by anything",
    row="the mean loss over samples, for each epoch",
)
def sum_of_the_batches(model, loader, optimizer, device, epochs):
    out = []
    for _ in range(epochs):
        t = 0
        for b in loader:
            t += train_step(model, b, optimizer, device)
        out.append(t.item())
    return out


@wrong(
    "the count was never reset: each epoch's sum is divided by the samples of all so far",
    row="the mean loss over samples, for each epoch",
)
def count_never_reset(model, loader, optimizer, device, epochs):
    out = []
    n = 0
    for _ in range(epochs):
        t = 0
        for b in loader:
            t += train_step(model, b, optimizer, device) * len(b[1])
            n += len(b[1])
        out.append((t / n).item())
    return out


@wrong(
    "the batches' means were added and divided by the samples: weigh each by its size",
    row="the mean loss over samples, for each epoch",
)
def means_over_samples(model, loader, optimizer, device, epochs):
    out = []
    for _ in range(epochs):
        t = n = 0
        for b in loader:
            t += train_step(model, b, optimizer, device)
            n += len(b[1])
        out.append((t / n).item())
    return out


@wrong(
    "the optimizer took one step in an epoch, and one for each batch is asked",
    row="the mean loss over samples, for each epoch",
)
def step_per_epoch(model, loader, optimizer, device, epochs):
    out = []
    model.train()
    for _ in range(epochs):
        t = n = 0
        optimizer.zero_grad()
        for b in loader:
            x, y = moved(b, device)
            l = F.cross_entropy(model(x), y)
            l.backward()
            t += l.detach() * len(y)
            n += len(y)
        optimizer.step()
        out.append((t / n).item())
    return out


@wrong(
    "each batch was weighed as a full one, and the last one is smaller",
    row="the mean loss over samples, for each epoch",
)
def all_as_full(model, loader, optimizer, device, epochs):
    out = []
    for _ in range(epochs):
        t = 0
        for b in loader:
            t += train_step(model, b, optimizer, device) * loader.batch_size
        out.append((t / len(loader.dataset)).item())
    return out


@wrong(
    "the optimizer took 4 steps for 6 batches: one is asked for each",
    row="the mean loss over samples, for each epoch",
)
def full_batches_alone(model, loader, optimizer, device, epochs):
    out = []
    for _ in range(epochs):
        t = n = 0
        for b in loader:
            if len(b[1]) < loader.batch_size:
                continue
            t += train_step(model, b, optimizer, device) * len(b[1])
            n += len(b[1])
        out.append((t / n).item())
    return out


@wrong("the model ran 12 times for 6 batches", row="the mean loss over samples, for each epoch")
def measured_afterwards(model, loader, optimizer, device, epochs):
    out = []
    for _ in range(epochs):
        for b in loader:
            train_step(model, b, optimizer, device)
        t = n = 0
        with torch.no_grad():
            for b in loader:
                x, y = moved(b, device)
                t += F.cross_entropy(model(x), y) * len(y)
                n += len(y)
        out.append((t / n).item())
    return out


@right
def weighted_at_once(model, loader, optimizer, device, epochs):
    size = len(loader.dataset)
    return [
        float(sum(train_step(model, b, optimizer, device) * (len(b[1]) / size) for b in loader))
        for _ in range(epochs)
    ]


@right
def summed_and_divided(model, loader, optimizer, device, epochs):
    model.train()
    out = []
    for _ in range(epochs):
        t = n = 0
        for x, y in loader:
            x, y = (x.to(device), y.to(device))
            s = F.cross_entropy(model(x), y, reduction="sum")
            optimizer.zero_grad()
            (s / len(y)).backward()
            optimizer.step()
            t = t + s.detach()
            n += len(y)
        out.append(float(t) / n)
    return out


@wrong("3.bias came frozen and can be trained now", row="every batch of every epoch trains the model")
def trains_what_is_frozen(model, loader, optimizer, device, epochs):
    model.requires_grad_(True)
    return summed_on_the_device(model, loader, optimizer, device, epochs)


@wrong("that is the loss of each epoch's first batch alone", row="the mean loss over samples, for each epoch")
def the_first_batch(model, loader, optimizer, device, epochs):
    steps = [[train_step(model, batch, optimizer, device) for batch in loader] for _ in range(epochs)]
    return [epoch[0].item() for epoch in steps]


@wrong(
    "the sum was never reset: it holds the epochs before", row="the mean loss over samples, for each epoch"
)
def sum_never_reset(model, loader, optimizer, device, epochs):
    losses, total = [], 0
    for _ in range(epochs):
        count = 0
        for batch in loader:
            total += train_step(model, batch, optimizer, device) * len(batch[1])
            count += len(batch[1])
        losses.append((total / count).item())
    return losses


@wrong(
    "zero_grad comes between backward and step, and takes away what the step needs",
    row="the mean loss over samples, for each epoch",
)
def zeroes_between_backward_and_step(model, loader, optimizer, device, epochs):
    losses = []
    for _ in range(epochs):
        total = count = 0
        for batch in loader:
            x, y = moved(batch, device)
            loss = F.cross_entropy(model.train()(x), y)
            loss.backward()
            optimizer.zero_grad()
            optimizer.step()
            total += loss.detach() * len(y)
            count += len(y)
        losses.append((total / count).item())
    return losses
