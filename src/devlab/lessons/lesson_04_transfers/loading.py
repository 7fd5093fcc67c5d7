"""A loader that pins where that helps, and its minibatches on the device."""

import itertools
from collections.abc import Iterable, Iterator

import torch
from torch.utils.data import DataLoader, TensorDataset

from devlab.checks import expect
from devlab.checks.calls import require_parameters
from devlab.lessons.lesson_04_transfers import CPU, lesson, times
from devlab.watching.watch import Log, watch

make_loader = lesson.exercise(
    "make_loader",
    signature="make_loader(dataset, batch_size, device)",
    facts=("P1", "P3", "P4"),
    hints=(
        "`torch.utils.data.DataLoader` has an argument that pins every batch. It should be True for some "
        "devices and False for others: what of `device` decides?",
        '`device.type` is the kind of device as text, without an index. Two kinds need no pinning: `"cpu"`, '
        'where nothing is copied, and `"mps"`, which shares its memory with the CPU.',
        '`return DataLoader(dataset, batch_size=batch_size, pin_memory=device.type not in ("cpu", "mps"))`',
    ),
)


MOST = 50  # minibatches that are taken: no loader here has so many


def _as_tuple(samples: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a minibatch as a tuple, which loaders may yield as well as a list."""
    inputs, labels = zip(*samples, strict=True)
    return torch.stack(inputs), torch.stack(labels)


def _samples(trial, count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and labels on the CPU; every label is another number."""
    inputs = trial.randn(count, 3, seed=seed, on=CPU)
    return inputs, torch.arange(100, 100 + count)


def _listed(trial, loader: DataLoader, *asked: object) -> list:
    """Return what the loader yields; a learner's own collate function may raise on the way."""

    def run_through(dataset, batch_size, device):
        return list(itertools.islice(loader, MOST))

    return trial.run(run_through, *asked, label="make_loader")


def _loaded(trial, count: int, size: int, device: torch.device) -> list:
    """Return what the answer's loader yields; Mismatch where it is no loader or yields no pairs."""
    dataset = TensorDataset(*_samples(trial, count, trial.seeds[0]))
    loader = trial.call(dataset, size, device)
    expect.kind(loader, DataLoader, "a DataLoader")
    batches = _listed(trial, loader, dataset, size, device)
    if len(batches) == MOST:
        expect.fail(
            "the minibatches do not come to an end", "every sample once in each epoch", f"{MOST} and more"
        )
    if len(again := _listed(trial, loader, dataset, size, device)) != len(batches):
        headline = f"the first epoch has {len(batches)} minibatches, the second {len(again)}"
        expect.fail(headline, "every sample in each epoch", f"{len(again)} minibatches")
    for batch in batches:
        if not isinstance(batch, list | tuple) or len(batch) != 2:
            expect.fail("a minibatch is not a pair of inputs and labels", "[inputs, labels]", batch)
    return batches


@make_loader.row("every sample once, in minibatches")
def every_sample_once(trial):
    for count, size in ((7, 3), (8, 4), (5, 1), (2, 6), (19, 9)):
        inputs, labels = _samples(trial, count, trial.seeds[0])
        batches = _loaded(trial, count, size, trial.device)
        lengths = [len(y) for _, y in batches]
        wanted = [size] * (count // size) + [count % size] * bool(count % size)
        if lengths != wanted:
            headline = f"with batch_size {size} the minibatches of {count} samples have other sizes"
            if sum(lengths) < count and lengths != wanted[:-1]:
                headline = f"only {sum(lengths)} of {count} samples came"
            elif lengths == wanted[:-1]:
                headline = "the last minibatch, which is smaller, was dropped"
            elif set(lengths) == {1}:
                headline = f"every minibatch holds one sample, although batch_size is {size}"
            elif len(lengths) == 1:
                headline = f"all {count} samples came in one minibatch, although batch_size is {size}"
            expect.fail(headline, f"minibatches of {wanted} samples", f"minibatches of {lengths} samples")
        for tensor in (one for batch in batches for one in batch):
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
    for x, y in _loaded(trial, 7, 3, trial.device):
        for tensor in (x, y):
            if tensor.device != CPU:
                headline = f"the loader yields tensors on {tensor.device}, and moving them is the next task"
                expect.fail(headline, "minibatches on cpu", tensor)


@make_loader.row("pinned for an accelerator", only="accelerator")
def pinned_where_it_helps(trial):
    if trial.device.type == "mps":
        return
    for batch in _loaded(trial, 7, 3, trial.device):
        for tensor in batch:
            if tensor.is_cpu and not tensor.is_pinned():
                headline = f"the minibatches for {trial.device} are not pinned"
                expect.fail(
                    headline, "pin_memory=True: copies from pinned memory need not block", "ordinary memory"
                )


@make_loader.row("not pinned for the CPU and for mps")
def not_pinned_elsewhere(trial):
    for device in (CPU, torch.device("mps"), torch.device("mps", 0)):
        dataset = TensorDataset(*_samples(trial, 7, trial.seeds[1]))
        loader = trial.call(dataset, 3, device)
        expect.kind(loader, DataLoader, "a DataLoader")
        # The loader's own setting counts too: without an accelerator nothing can be pinned.
        if loader.pin_memory or any(x.is_pinned() for x, _ in _listed(trial, loader, dataset, 3, device)):
            headline = f"the minibatches for {device} are pinned"
            expect.fail(
                headline, "ordinary memory: pinning costs time and would gain nothing", "pinned memory"
            )


batches = lesson.exercise(
    "batches",
    signature="batches(loader, device)",
    facts=("P2", "P4", "P5"),
    hints=(
        "A function with `yield` in it is a generator: it runs on only when the next value is wanted. So one "
        "minibatch is moved at a time, if the `yield` stands inside the loop.",
        "`x.to(device, non_blocking=True)` does not wait for the copy. From pinned memory the host goes on "
        "at once, from ordinary memory when the bytes are staged, so the same line is right for both.",
        "`for x, y in loader:` and, inside it, `yield x.to(device, non_blocking=True), y.to(device, "
        "non_blocking=True)`",
    ),
)


class Counting(DataLoader):
    """A loader that counts the minibatches taken from it."""

    taken = 0

    def __iter__(self) -> Iterator:
        """Yield the minibatches, and count each."""
        for batch in super().__iter__():
            self.taken += 1
            yield batch


def _loader(trial, count: int, size: int, seed: int, pinned: bool = False) -> Counting:
    dataset = TensorDataset(*_samples(trial, count, seed))
    return Counting(dataset, batch_size=size, pin_memory=pinned)


def _all(trial, loader: DataLoader, log: Log | None = None) -> list:
    """Return every minibatch that the answer yields."""

    def run_through(loader, device):
        made = trial.answer(loader, device)
        # A generator's body runs here, so its errors are the learner's, too.
        return list(itertools.islice(made, MOST)) if isinstance(made, Iterable) else made

    require_parameters(trial.answer, trial.signature, (loader, trial.device))
    got = trial.run(run_through, loader, trial.device, label="batches", log=log)
    if got is None:
        headline = "the result is None: the function needs a `yield` for each minibatch"
        expect.fail(headline, "something to loop over, such as a generator", "None")
    if isinstance(got, list) and len(got) == 2 and all(isinstance(one, torch.Tensor) for one in got):
        headline = "one minibatch was returned, and the loop ended there: each is to be yielded"
        expect.fail(headline, "every minibatch, by `yield`", got)
    expect.kind(got, list, "something to loop over, such as a generator")
    return got


def _expect_pairs(trial, got: list, inputs: torch.Tensor, labels: torch.Tensor, size: int) -> None:
    wanted = list(zip(inputs.split(size), labels.split(size), strict=True))
    for place, batch in enumerate(got):
        if not isinstance(batch, list | tuple) or len(batch) != 2:
            expect.fail(f"minibatch {place} is not a pair of inputs and labels", "(inputs, labels)", batch)
    if len(got) < len(wanted):
        came = f"only {len(got)} of the loader's {len(wanted)} minibatches" if got else "no minibatch"
        expect.fail(f"{came} came", f"all {len(wanted)} minibatches", times(len(got), "minibatch", "es"))
    for place, (batch, pair) in enumerate(zip(got, wanted, strict=False)):
        expect.named(
            batch[0], pair[0], {"inputs and labels have changed places": pair[1]}, "(inputs, labels)"
        )
        for tensor, right, name in zip(batch, pair, ("the input tensor", "the label tensor"), strict=True):
            if isinstance(tensor, torch.Tensor) and tensor.device != trial.device:
                headline = f"{name} {'stayed' if tensor.is_cpu else 'is'} on {tensor.device}"
                expect.fail(headline, f"{name} on {trial.device}", tensor)
            expect.tensor(tensor, right, trial.device, f"{name} of minibatch {place}")
    if len(got) == MOST:
        headline = f"the minibatches do not come to an end: the loader has {len(wanted)}"
        expect.fail(headline, "each of them once", f"{MOST} and more")
    if len(got) > len(wanted):
        headline = f"{len(got)} minibatches came, and the loader has {len(wanted)}"
        expect.fail(headline, "each of them once", f"{len(got)} minibatches")


@batches.row("every minibatch arrives, in order")
def every_batch_arrives(trial):
    for (count, size), seed in zip(((7, 3), (8, 4), (2, 5)), trial.seeds, strict=True):
        inputs, labels = _samples(trial, count, seed)
        for pinned in (False, trial.device.type not in ("cpu", "mps")):
            got = _all(trial, _loader(trial, count, size, seed, pinned))
            _expect_pairs(trial, got, inputs, labels, size)
    pairs = DataLoader(TensorDataset(inputs, labels), batch_size=size, collate_fn=_as_tuple)
    _expect_pairs(trial, _all(trial, pairs), inputs, labels, size)
    # Words are numbers that are whole, and a label may be any number.
    words, prices = labels[:, None] % 7, inputs[:, 0] / 3
    got = _all(trial, DataLoader(TensorDataset(words, prices), batch_size=size))
    _expect_pairs(trial, got, words, prices, size)


@batches.row("each is moved when it is wanted")
def moved_as_wanted(trial):
    loader = _loader(trial, 27, 3, trial.seeds[0])

    def take_one(loader, device):
        made = trial.answer(loader, device)
        return next(iter(made), None) if isinstance(made, Iterable) else made

    trial.run(take_one, loader, trial.device, label="batches")
    if loader.taken > 3:
        headline = f"{loader.taken} minibatches were taken before the first was used"
        expect.fail(headline, "one at a time, by `yield`", f"{loader.taken} taken")


@batches.row("from pinned memory, copies do not block", only="accelerator")
def pinned_copies_do_not_block(trial):
    if trial.device.type == "mps":
        return
    log = watch()
    _all(trial, _loader(trial, 7, 3, trial.seeds[1], pinned=True), log)
    for copy in log.events.transfers:
        if (copy.blocking or not copy.pinned) and copy.target == str(trial.device):
            why = "non_blocking was not asked for" if copy.pinned else "it went through ordinary memory"
            words = "a copy that does not block"
            expect.fail(f"the host waited for a copy: {why}", words, f"{copy.manner}, {copy.line}")
    for wait in log.events.synchronizations:
        headline = f"the host waited for {wait.device}: {wait.cause}"
        expect.fail(headline, "no synchronization in the loop", str(wait.line))


@batches.row("one copy for each tensor, nothing more", only="accelerator")
def one_copy_each(trial):
    log = watch()
    _all(trial, _loader(trial, 7, 3, trial.seeds[2]), log)
    asked = "6 transfers: inputs and labels of 3 minibatches"
    for copy in log.events.transfers:
        if copy.pinned:
            headline = "a minibatch was pinned by hand, just before its copy"
            expect.fail(headline, "an unpinned loader's tensors copied as they are", f"{copy.line}")
    if log.transfers != 6:
        other = next((one.target for one in log.events.transfers if one.target != str(trial.device)), None)
        detour = f": a tensor went to {other}" if other else ""
        expect.fail(f"{times(log.transfers, 'transfer')} for 6 tensors{detour}", asked, f"{log.transfers}")
    made = log.allocated.get(str(trial.device), 0)
    # Small tensors that only answer a question are no copies; the labels alone are 56 bytes.
    if made >= log.bytes_moved + 56:
        headline = f"what had been moved was copied once more on {trial.device}"
        words = f"{log.bytes_moved} bytes of new tensors there, as many as were moved"
        expect.fail(headline, words, f"{made} bytes")
    if log.synchronizations:
        wait = log.events.synchronizations[0]
        headline = f"the host waited for {wait.device}: {wait.cause}"
        expect.fail(headline, "no synchronization in the loop", str(wait.line))
