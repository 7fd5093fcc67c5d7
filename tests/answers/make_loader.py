"""Answers to make_loader."""

import torch
from bank import right, wrong
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler


@right
def pinned_unless(dataset, batch_size, device):
    return DataLoader(dataset, batch_size=batch_size, pin_memory=device.type not in ("cpu", "mps"))


@right
def with_a_branch(dataset, batch_size, device):
    if str(device) == "cpu" or str(device).startswith("mps"):
        return DataLoader(dataset, batch_size)
    return DataLoader(dataset, batch_size, pin_memory=True)


@right
def shuffled(dataset, batch_size, device):
    helps = {"cpu": False, "mps": False}.get(torch.device(device).type, True)
    return DataLoader(dataset, batch_size=batch_size, shuffle=True, pin_memory=helps)


@right
def with_a_batch_sampler(dataset, batch_size, device):
    sampler = BatchSampler(SequentialSampler(dataset), batch_size, drop_last=False)
    pin = device.type != "cpu" and device.type != "mps"
    return DataLoader(dataset, batch_sampler=sampler, pin_memory=pin)


@right
def with_a_collate_of_its_own(dataset, batch_size, device):
    def together(samples):
        return tuple(torch.stack(column) for column in zip(*samples, strict=True))

    pin = device.type not in {"cpu", "mps"}
    return DataLoader(dataset, batch_size=batch_size, collate_fn=together, pin_memory=pin)


class OwnLoader(DataLoader):
    pass


@right
def a_loader_of_its_own(dataset, batch_size, device):
    return OwnLoader(dataset, batch_size=batch_size, pin_memory=device.type != "cpu" and device.type != "mps")


@wrong("are not pinned", row="pinned for an accelerator")
def never_pinned(dataset, batch_size, device):
    return DataLoader(dataset, batch_size=batch_size)


@wrong("the minibatches for cpu are pinned", row="not pinned for the CPU and for mps")
def always_pinned(dataset, batch_size, device):
    return DataLoader(dataset, batch_size=batch_size, pin_memory=True)


@wrong("are not pinned", row="pinned for an accelerator")
def where_cuda_is(dataset, batch_size, device):
    return DataLoader(dataset, batch_size=batch_size, pin_memory=torch.cuda.is_available())


@wrong("the minibatches for cpu are pinned", row="not pinned for the CPU and for mps")
def where_an_accelerator_is(dataset, batch_size, device):
    return DataLoader(dataset, batch_size=batch_size, pin_memory=torch.accelerator.is_available())


@wrong("the minibatches for cpu are pinned", row="not pinned for the CPU and for mps")
def compares_a_device_with_a_text(dataset, batch_size, device):
    return DataLoader(dataset, batch_size=batch_size, pin_memory=device != "cpu" and device != "mps")


@wrong("the minibatches for mps are pinned", row="not pinned for the CPU and for mps")
def all_but_the_cpu(dataset, batch_size, device):
    return DataLoader(dataset, batch_size=batch_size, pin_memory=device.type != "cpu")


@wrong("the minibatches for mps:0 are pinned", row="not pinned for the CPU and for mps")
def compares_whole_devices(dataset, batch_size, device):
    without = torch.device("cpu"), torch.device("mps")
    return DataLoader(dataset, batch_size=batch_size, pin_memory=device not in without)


@wrong("are not pinned", row="pinned for an accelerator")
def cuda_alone(dataset, batch_size, device):
    return DataLoader(dataset, batch_size=batch_size, pin_memory=device.type == "cuda")


@wrong("are not pinned", row="pinned for an accelerator")
def turned_round(dataset, batch_size, device):
    return DataLoader(dataset, batch_size=batch_size, pin_memory=device.type in ("cpu", "mps"))


@wrong("the loader yields tensors on {device}", row="it yields tensors on the CPU")
def moves_in_the_collate(dataset, batch_size, device):
    def together(samples):
        return tuple(torch.stack(column).to(device) for column in zip(*samples, strict=True))

    return DataLoader(dataset, batch_size=batch_size, collate_fn=together)


@wrong("the last minibatch, which is smaller, was dropped", row="every sample once, in minibatches")
def drops_the_last(dataset, batch_size, device):
    pin = device.type not in ("cpu", "mps")
    return DataLoader(dataset, batch_size=batch_size, pin_memory=pin, drop_last=True)


@wrong("every minibatch holds one sample, although batch_size is 3", row="every sample once, in minibatches")
def forgets_the_batch_size(dataset, batch_size, device):
    return DataLoader(dataset, pin_memory=device.type not in ("cpu", "mps"))


@wrong(
    "all 7 samples came in one minibatch, although batch_size is 3", row="every sample once, in minibatches"
)
def a_size_by_habit(dataset, batch_size, device):
    return DataLoader(dataset, batch_size=32, pin_memory=device.type not in ("cpu", "mps"))


@wrong(
    "not every sample came once: some came twice, and others were left out",
    row="every sample once, in minibatches",
)
def drawn_with_replacement(dataset, batch_size, device):
    sampler = torch.utils.data.RandomSampler(dataset, replacement=True)
    pin = device.type not in ("cpu", "mps")
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler, pin_memory=pin)


@wrong("not a DataLoader", row="every sample once, in minibatches")
def a_generator(dataset, batch_size, device):
    loader = DataLoader(dataset, batch_size=batch_size)
    return (batch for batch in loader)


@wrong("not a DataLoader", row="every sample once, in minibatches")
def a_list(dataset, batch_size, device):
    return list(DataLoader(dataset, batch_size=batch_size, pin_memory=device.type not in ("cpu", "mps")))


@wrong("is None: is a `return` missing?", row="every sample once, in minibatches")
def forgetful(dataset, batch_size, device):
    DataLoader(dataset, batch_size=batch_size, pin_memory=device.type not in ("cpu", "mps"))


@wrong("unexpected keyword argument 'device'", row="every sample once, in minibatches")
def asks_the_loader_for_a_device(dataset, batch_size, device):
    return DataLoader(dataset, batch_size=batch_size, device=device)


@wrong("are not pinned", row="pinned for an accelerator")
def moves_the_loader(dataset, batch_size, device):
    loader = DataLoader(dataset, batch_size=batch_size)
    loader.pin = device.type != "cpu"
    return loader


@wrong("a minibatch is not a pair of inputs and labels", row="every sample once, in minibatches")
def only_the_inputs(dataset, batch_size, device):
    inputs = [x for x, _ in dataset]
    return DataLoader(inputs, batch_size=batch_size, pin_memory=device.type not in ("cpu", "mps"))


@wrong("minibatches, the second 0", row="every sample once, in minibatches")
def one_epoch_only(dataset, batch_size, device):
    order = iter(torch.randperm(len(dataset)).tolist())
    pins = device.type not in ("cpu", "mps")
    return DataLoader(dataset, batch_size=batch_size, sampler=order, pin_memory=pins)


@wrong(
    "with batch_size 9 the minibatches of 19 samples have other sizes",
    row="every sample once, in minibatches",
)
def small_ones_at_most(dataset, batch_size, device):
    return DataLoader(dataset, min(batch_size, 4), pin_memory=device.type not in ("cpu", "mps"))


@right
def from_options(dataset, batch_size, device):
    options = {"batch_size": batch_size}
    if device.type != "cpu" and device.type != "mps":
        options["pin_memory"] = True
    return DataLoader(dataset, **options)


@right
def as_text(dataset, batch_size, device):
    return DataLoader(dataset, batch_size=batch_size, pin_memory=not str(device).startswith(("cpu", "mps")))


@wrong("the result is a list, not a DataLoader", row="every sample once, in minibatches")
def only_first_batch(dataset, batch_size, device):
    return next(iter(DataLoader(dataset, batch_size)))


@wrong("only 3 of 7 samples came", row="every sample once, in minibatches")
def subset(dataset, batch_size, device):
    return DataLoader(
        torch.utils.data.Subset(dataset, range(batch_size)),
        batch_size,
        pin_memory=device.type not in ("cpu", "mps"),
    )


@wrong(
    "the result is a _SingleProcessDataLoaderIter, not a DataLoader", row="every sample once, in minibatches"
)
def iter_of_it(dataset, batch_size, device):
    return iter(DataLoader(dataset, batch_size, pin_memory=device.type not in ("cpu", "mps")))


@wrong("the labels came as torch.float32", row="every sample once, in minibatches")
def floats_labels(dataset, batch_size, device):
    return DataLoader(
        [(x, y.float()) for x, y in dataset], batch_size, pin_memory=device.type not in ("cpu", "mps")
    )


@wrong("are not pinned", row="pinned for an accelerator")
def kinds_that_are_known(dataset, batch_size, device):
    return DataLoader(dataset, batch_size=batch_size, pin_memory=device.type in ("cuda", "sim"))


@wrong("has no attribute 'tensors'", row="every sample once, in minibatches")
def of_the_tensors_of_the_data_set(dataset, batch_size, device):
    samples = torch.utils.data.TensorDataset(*dataset.tensors)
    return DataLoader(samples, batch_size=batch_size, pin_memory=device.type not in ("cpu", "mps"))


@wrong("the minibatches for cpu are pinned", row="not pinned for the CPU and for mps")
def labels_are_always_pinned(dataset, batch_size, device):
    def together(samples):
        inputs, labels = map(torch.stack, zip(*samples, strict=True))
        inputs = inputs if device.type in ("cpu", "mps") else inputs.pin_memory()
        return inputs, labels.pin_memory() if torch.accelerator.is_available() else labels

    return DataLoader(dataset, batch_size=batch_size, collate_fn=together)


@right
def for_the_accelerator_that_is_here(dataset, batch_size, device):
    here = torch.accelerator.current_accelerator()
    pins = here is not None and device.type == here.type != "mps"
    return DataLoader(dataset, batch_size=batch_size, pin_memory=pins)


@right
def pins_in_the_collate(dataset, batch_size, device):
    def together(samples):
        parts = map(torch.stack, zip(*samples, strict=True))
        return [part if device.type in ("cpu", "mps") else part.pin_memory() for part in parts]

    return DataLoader(dataset, batch_size=batch_size, collate_fn=together)
