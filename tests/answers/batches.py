"""Answers to batches."""

import torch
from bank import right, wrong


@right
def pair_by_pair(loader, device):
    for x, y in loader:
        yield x.to(device, non_blocking=x.is_pinned()), y.to(device, non_blocking=y.is_pinned())


@right
def unless_it_is_apples(loader, device):
    later = device.type != "mps"
    for x, y in loader:
        yield x.to(device, non_blocking=later), y.to(device, non_blocking=later)


@wrong("a minibatch may be freed before it has been read", row="every minibatch arrives, in order")
def never_blocking(loader, device):
    for x, y in loader:
        yield x.to(device, non_blocking=True), y.to(device, non_blocking=True)


@wrong("a minibatch may be freed before it has been read", row="every minibatch arrives, in order")
def never_blocking_by_place(loader, device):
    for batch in loader:
        yield [part.to(device, part.dtype, True) for part in batch]


@wrong("a minibatch may be freed before it has been read", row="every minibatch arrives, in order")
def never_blocking_into_new_tensors(loader, device):
    for batch in loader:
        targets = [torch.empty_like(part, device=device) for part in batch]
        yield [target.copy_(part, non_blocking=True) for target, part in zip(targets, batch, strict=True)]


@right
def as_an_expression(loader, device):
    return (tuple(part.to(device, non_blocking=part.is_pinned()) for part in batch) for batch in loader)


@right
def by_map(loader, device):
    def there(batch):
        return [part.to(device, non_blocking=part.is_pinned()) for part in batch]

    return map(there, loader)


@right
def any_tree(loader, device):
    def moved(value):
        if torch.is_tensor(value):
            return value.to(device=device, non_blocking=value.is_pinned())
        if isinstance(value, dict):
            return {key: moved(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(moved(item) for item in value)
        return value

    for batch in loader:
        yield moved(batch)


@right
def into_new_tensors(loader, device):
    for batch in loader:
        targets = [torch.empty_like(part, device=device) for part in batch]
        for target, part in zip(targets, batch, strict=True):
            target.copy_(part, non_blocking=part.is_pinned())
        yield targets


class Moved:
    def __init__(self, loader, device):
        self.loader, self.device = loader, device

    def __iter__(self):
        for x, y in self.loader:
            yield x.to(self.device, non_blocking=x.is_pinned()), y.to(self.device, non_blocking=y.is_pinned())


@right
def an_object_to_loop_over(loader, device):
    return Moved(loader, device)


@right
def one_ahead(loader, device):
    waiting = None
    for batch in loader:
        coming = [part.to(device, non_blocking=part.is_pinned()) for part in batch]
        if waiting is not None:
            yield waiting
        waiting = coming
    if waiting is not None:
        yield waiting


@wrong("non_blocking was not asked for", row="from pinned memory, transfers do not block")
def blocking(loader, device):
    for x, y in loader:
        yield x.to(device), y.to(device)


@wrong("non_blocking was not asked for", row="from pinned memory, transfers do not block")
def only_the_inputs_without_waiting(loader, device):
    for x, y in loader:
        yield x.to(device, non_blocking=x.is_pinned()), y.to(device)


@wrong("the input tensor stayed on cpu", row="every minibatch arrives, in order")
def throws_the_result_away(loader, device):
    for x, y in loader:
        x.to(device, non_blocking=x.is_pinned())
        y.to(device, non_blocking=y.is_pinned())
        yield x, y


@wrong("the label tensor stayed on cpu", row="every minibatch arrives, in order")
def forgets_the_labels(loader, device):
    for x, y in loader:
        yield x.to(device, non_blocking=x.is_pinned()), y


@wrong("were taken before the first was used", row="each is moved when it is wanted")
def all_at_once(loader, device):
    return [[part.to(device, non_blocking=part.is_pinned()) for part in batch] for batch in loader]


@wrong("were taken before the first was used", row="each is moved when it is wanted")
def all_first_then_one_by_one(loader, device):
    moved = [
        (x.to(device, non_blocking=x.is_pinned()), y.to(device, non_blocking=y.is_pinned()))
        for x, y in loader
    ]
    yield from moved


@wrong("were taken before the first was used", row="each is moved when it is wanted")
def listed_first(loader, device):
    for x, y in list(loader):
        yield x.to(device, non_blocking=x.is_pinned()), y.to(device, non_blocking=y.is_pinned())


@wrong("pinned by hand, just before its transfer", row="one transfer for each tensor, nothing more")
def pins_by_hand(loader, device):
    for x, y in loader:
        if device.type == "cpu":
            yield x, y
        else:
            x, y = x.pin_memory(), y.pin_memory()
            yield x.to(device, non_blocking=x.is_pinned()), y.to(device, non_blocking=y.is_pinned())


@wrong("the host waited for {device}: synchronize()", row="from pinned memory, transfers do not block")
def synchronizes(loader, device):
    for x, y in loader:
        batch = x.to(device, non_blocking=x.is_pinned()), y.to(device, non_blocking=y.is_pinned())
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
        yield batch


@wrong("only 1 of the loader's 3 minibatches came", row="every minibatch arrives, in order")
def only_the_first(loader, device):
    x, y = next(iter(loader))
    return [(x.to(device, non_blocking=x.is_pinned()), y.to(device, non_blocking=y.is_pinned()))]


@wrong("no minibatch came", row="every minibatch arrives, in order")
def yields_nothing(loader, device):
    for x, y in loader:
        x, y = x.to(device, non_blocking=x.is_pinned()), y.to(device, non_blocking=y.is_pinned())
    return
    yield


@wrong(
    "the result is None: the function needs a `yield` for each minibatch",
    row="every minibatch arrives, in order",
)
def forgets_to_yield(loader, device):
    for x, y in loader:
        x, y = x.to(device, non_blocking=x.is_pinned()), y.to(device, non_blocking=y.is_pinned())


@wrong("has no attribute 'to'", row="every minibatch arrives, in order")
def moves_the_list(loader, device):
    for batch in loader:
        yield batch.to(device, non_blocking=batch.is_pinned())


@wrong("has no attribute 'to'", row="every minibatch arrives, in order")
def moves_the_loader(loader, device):
    yield from loader.to(device)


@wrong("the input tensor stayed on cpu", row="every minibatch arrives, in order")
def the_loader_itself(loader, device):
    return loader


@wrong("minibatch 0 is not a pair of inputs and labels", row="every minibatch arrives, in order")
def the_inputs_alone(loader, device):
    for x, _ in loader:
        yield x.to(device, non_blocking=x.is_pinned())


@wrong("minibatch 0 is not a pair of inputs and labels", row="every minibatch arrives, in order")
def one_tensor_at_a_time(loader, device):
    for batch in loader:
        for part in batch:
            yield part.to(device, non_blocking=part.is_pinned())


@wrong("the label tensor of minibatch 0", row="every minibatch arrives, in order")
def labels_as_floats(loader, device):
    for x, y in loader:
        yield (
            x.to(device, non_blocking=x.is_pinned()),
            y.to(device, torch.float32, non_blocking=y.is_pinned()),
        )


@wrong("the host waited for {device}: .item()", row="from pinned memory, transfers do not block")
def looks_at_each(loader, device):
    for x, y in loader:
        x, y = x.to(device, non_blocking=x.is_pinned()), y.to(device, non_blocking=y.is_pinned())
        if torch.isfinite(x).all().item():
            yield x, y


@wrong("12 transfers for 6 tensors", row="one transfer for each tensor, nothing more")
def there_and_back_again(loader, device):
    for x, y in loader:
        for _ in range(2):
            a, b = x.to(device, non_blocking=x.is_pinned()), y.to(device, non_blocking=y.is_pinned())
        yield a, b


@wrong(
    "the host waited for a transfer: it was made from pageable memory",
    row="from pinned memory, transfers do not block",
)
def clones_before_the_copy(loader, device):
    for x, y in loader:
        yield (
            x.clone().to(device, non_blocking=x.is_pinned()),
            y.clone().to(device, non_blocking=y.is_pinned()),
        )


@wrong("the input tensor stayed on cpu", row="every minibatch arrives, in order")
def only_pinned_ones(loader, device):
    for x, y in loader:
        if x.is_pinned():
            x, y = x.to(device, non_blocking=x.is_pinned()), y.to(device, non_blocking=y.is_pinned())
        yield x, y


@wrong("the input tensor is on {device}", row="every minibatch arrives, in order")
def to_the_first_accelerator(loader, device):
    for x, y in loader:
        if device.type == "cpu":
            yield x, y
        else:
            first = torch.device(device.type, 0)
            yield x.to(first, non_blocking=x.is_pinned()), y.to(first, non_blocking=y.is_pinned())


@wrong("copied once more on {device}", row="one transfer for each tensor, nothing more")
def clones_after_the_copy(loader, device):
    for x, y in loader:
        if device.type == "cpu":
            yield x, y
        else:
            yield (
                x.to(device, non_blocking=x.is_pinned()).clone(),
                y.to(device, non_blocking=y.is_pinned()).clone(),
            )


@wrong(
    "one minibatch was returned, and the loop ended there: each is to be yielded",
    row="every minibatch arrives, in order",
)
def returns_in_the_loop(loader, device):
    for x, y in loader:
        return x.to(device, non_blocking=x.is_pinned()), y.to(device, non_blocking=y.is_pinned())
    return None


@wrong(
    "the input tensor of minibatch 0 is torch.float32, not torch.int64",
    row="every minibatch arrives, in order",
)
def names_the_dtypes(loader, device):
    for x, y in loader:
        yield (
            x.to(device, torch.float32, non_blocking=x.is_pinned()),
            y.to(device, torch.long, non_blocking=y.is_pinned()),
        )


@wrong("'tuple' object does not support item assignment", row="every minibatch arrives, in order")
def into_the_lists(loader, device):
    for batch in loader:
        for place, tensor in enumerate(batch):
            batch[place] = tensor.to(device, non_blocking=tensor.is_pinned())
        yield batch


@wrong("the minibatches do not come to an end", row="every minibatch arrives, in order")
def epoch_after_epoch(loader, device):
    while True:
        for x, y in loader:
            yield x.to(device, non_blocking=x.is_pinned()), y.to(device, non_blocking=y.is_pinned())


@right
def named_tuple_lists(loader, device):
    for batch in loader:
        yield [tensor.to(device, non_blocking=tensor.is_pinned()) for tensor in batch]


@right
def generator_expression(loader, device):
    return (
        (x.to(device, non_blocking=x.is_pinned()), y.to(device, non_blocking=y.is_pinned()))
        for x, y in loader
    )


@right
def mapped(loader, device):
    def moved(pair):
        return tuple(tensor.to(device, non_blocking=tensor.is_pinned()) for tensor in pair)

    return map(moved, loader)


class Following:
    def __init__(self, loader, device):
        self.source, self.device = (iter(loader), device)

    def __iter__(self):
        return self

    def __next__(self):
        x, y = next(self.source)
        return (x.to(self.device, non_blocking=x.is_pinned()), y.to(self.device, non_blocking=y.is_pinned()))


@right
def an_iterator_of_its_own(loader, device):
    return Following(loader, device)


@right
def asks_a_scalar(loader, device):
    one = torch.zeros((), device=device)
    for x, y in loader:
        yield (x.to(one.device, non_blocking=x.is_pinned()), y.to(one.device, non_blocking=y.is_pinned()))


@wrong("inputs and labels have changed places", row="every minibatch arrives, in order")
def yields_the_labels_first(loader, device):
    for x, y in loader:
        yield (y.to(device, non_blocking=y.is_pinned()), x.to(device, non_blocking=x.is_pinned()))


@wrong(
    "RuntimeError: mean(): could not infer output dtype. Input dtype must be either a floating",
    row="every minibatch arrives, in order",
)
def prints_each(loader, device):
    for x, y in loader:
        x, y = (x.to(device, non_blocking=x.is_pinned()), y.to(device, non_blocking=y.is_pinned()))
        print(x.mean())
        yield (x, y)


@wrong("only 2 of the loader's 3 minibatches came", row="every minibatch arrives, in order")
def skips_the_first(loader, device):
    it = iter(loader)
    next(it)
    for x, y in it:
        yield (x.to(device, non_blocking=x.is_pinned()), y.to(device, non_blocking=y.is_pinned()))


@wrong("12 transfers for 6 tensors", row="one transfer for each tensor, nothing more")
def pinned_ones_twice(loader, device):
    for x, y in loader:
        for _ in range(2 if x.is_pinned() else 1):
            a, b = x.to(device, non_blocking=x.is_pinned()), y.to(device, non_blocking=y.is_pinned())
        yield a, b


@wrong("copied once more on {device}", row="one transfer for each tensor, nothing more")
def clones_what_was_pinned(loader, device):
    for x, y in loader:
        a, b = x.to(device, non_blocking=x.is_pinned()), y.to(device, non_blocking=y.is_pinned())
        yield (a.clone(), b.clone()) if x.is_pinned() else (a, b)


@wrong("1 minibatch came from a loader that has none", row="every minibatch arrives, in order")
def one_ahead_of_nothing(loader, device):
    waiting = None
    for batch in loader:
        if waiting is not None:
            yield waiting
        waiting = [part.to(device, non_blocking=part.is_pinned()) for part in batch]
    yield waiting


@wrong("generator raised StopIteration", row="every minibatch arrives, in order")
def the_first_by_next(loader, device):
    source = iter(loader)
    waiting = [part.to(device, non_blocking=part.is_pinned()) for part in next(source)]
    for batch in source:
        yield waiting
        waiting = [part.to(device, non_blocking=part.is_pinned()) for part in batch]
    yield waiting


@right
def by_next_until_it_stops(loader, device):
    source = iter(loader)
    while (batch := next(source, None)) is not None:
        yield tuple(part.to(device, non_blocking=part.is_pinned()) for part in batch)
