"""A loader that pins where that helps."""

import contextlib
import itertools
from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from devlab.checks import expect, pretend
from devlab.lessons.lesson_04_transfers import CPU, MOST, lesson, samples

make_loader = lesson.exercise(
    "make_loader(dataset, batch_size, device)",
    ("P1", "P3", "P4"),
    "`torch.utils.data.DataLoader` has an argument that pins every batch. It should be True for some devices "
    "and False for others. What about `device` decides?",
    '`device.type` is the kind of device as text, without an index. Two kinds need no pinning: `"cpu"`, '
    'where nothing is copied, and `"mps"`, which shares its memory with the CPU.',
    '`return DataLoader(dataset, batch_size=batch_size, pin_memory=device.type not in ("cpu", "mps"))`',
)

HERE = contextlib.nullcontext()


def _dataset(trial, count: int) -> Dataset:
    """Return a data set, which has tensors of its own or has not."""
    whole = TensorDataset(*samples(trial, count, trial.seeds[0]))
    return whole if count % 2 else Subset(whole, range(count))


def _epochs(
    trial, count: int, size: int, device: torch.device, where: contextlib.AbstractContextManager = HERE
) -> tuple[DataLoader, Iterator[list]]:
    """Return the answer's loader, and an iterator over what it yields in each epoch."""
    asked = _dataset(trial, count), size, device
    with where:
        loader = trial.call(*asked)
    expect.kind(loader, DataLoader, "a DataLoader")

    def run_through(dataset, batch_size, device):  # a learner's own collate function may raise on the way
        return list(itertools.islice(loader, MOST))

    return loader, (trial.run(run_through, *asked, label=trial.name) for _ in itertools.count())


def _load(trial, count: int, size: int) -> list:
    """Return what the answer's loader yields in an epoch; expect pairs, and as many in the next epoch."""
    _, epochs = _epochs(trial, count, size, trial.device)
    batches, again = next(epochs), next(epochs)
    words = "the minibatches do not come to an end"
    expect.that(len(batches) != MOST, words, "every sample once in each epoch", f"{MOST} and more")
    if len(again) != len(batches):
        headline = f"the first epoch has {len(batches)} minibatches, the second {len(again)}"
        expect.fail(headline, "every sample in each epoch", f"{len(again)} minibatches")
    for batch in batches:
        if not isinstance(batch, list | tuple) or len(batch) != 2:
            expect.fail("a minibatch is not a pair of inputs and labels", "[inputs, labels]", batch)
    return batches


def _expect_sizes(batches: list, count: int, size: int) -> None:
    lengths = [len(y) for _, y in batches]
    wanted = [size] * (count // size) + [count % size] * bool(count % size)
    if lengths == wanted:
        return
    headline = f"with batch_size {size} the minibatches of {count} samples have other sizes"
    if lengths == wanted[:-1]:
        headline = "the last minibatch, which is smaller, was dropped"
    elif sum(lengths) < count:
        headline = f"only {sum(lengths)} of {count} samples came"
    elif set(lengths) == {1}:
        headline = f"every minibatch holds one sample, although batch_size is {size}"
    elif len(lengths) == 1:
        headline = f"all {count} samples came in one minibatch, although batch_size is {size}"
    expect.fail(headline, f"minibatches of {wanted} samples", f"minibatches of {lengths} samples")


@make_loader.row("every sample once, in minibatches")
def every_sample_once(trial):
    for count, size in ((7, 3), (8, 4), (5, 1), (2, 6), (19, 9)):
        inputs, labels = samples(trial, count, trial.seeds[0])
        batches = _load(trial, count, size)
        _expect_sizes(batches, count, size)
        for tensor in itertools.chain(*batches):
            expect.kind(tensor, torch.Tensor, "a tensor", "a part of a minibatch")
        x, y = (torch.cat(parts).cpu() for parts in zip(*batches, strict=True))
        if y.dtype != labels.dtype:
            expect.fail(f"the labels came as {y.dtype}", f"{labels.dtype}, as the dataset has them", y)
        if sorted(y.tolist()) != labels.tolist():
            missing = sorted(set(labels.tolist()) - set(y.tolist()))
            headline = "not every sample came once: some came twice, and others were left out"
            expect.fail(headline, "each label once", f"without the labels {missing}")
        expect.tensor(x, inputs[y - 100], CPU, "the input tensor that comes with the labels")


@make_loader.row("it yields tensors on the CPU")
def yields_cpu_tensors(trial):
    for tensor in itertools.chain(*_load(trial, 7, 3)):
        if tensor.device != CPU:
            headline = f"the loader yields tensors on {tensor.device}, and to move them is the next task"
            expect.fail(headline, "minibatches on cpu", tensor)


@make_loader.row("pinned for an accelerator", only="accelerator")
def pinned_where_it_helps(trial):
    if trial.device.type == "mps":
        return
    for tensor in itertools.chain(*_load(trial, 7, 3)):
        if tensor.is_cpu and not tensor.is_pinned():
            asked = "pin_memory=True: transfers from pinned memory need not block"
            expect.fail(f"the minibatches for {trial.device} are not pinned", asked, "pageable memory")
    # Any accelerator: this one is of a kind that the machine lacks, and pretended while the loader is made.
    xpu = torch.device("xpu", 0)
    loader, epochs = _epochs(trial, 7, 3, xpu, pretend.machine(trial, [], other=xpu.type))
    # A loader that is asked to pin may be asked to pin for that device, which is not here.
    if not (loader.pin_memory or all(x.is_pinned() and y.is_pinned() for x, y in next(epochs))):
        asked = "pinned memory for any accelerator except mps"
        expect.fail(f"the minibatches for {xpu} are not pinned", asked, "pageable memory")


@make_loader.row("not pinned for the CPU and for mps")
def not_pinned_elsewhere(trial):
    for device in (CPU, torch.device("mps"), torch.device("mps", 0)):
        loader, epochs = _epochs(trial, 7, 3, device)
        # The loader's own setting counts too: without an accelerator nothing can be pinned.
        if loader.pin_memory or any(one.is_pinned() for one in itertools.chain(*next(epochs))):
            asked = "pageable memory: pinning costs time and would gain nothing"
            expect.fail(f"the minibatches for {device} are pinned", asked, "pinned memory")
