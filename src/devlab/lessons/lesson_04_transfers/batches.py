"""A loader's minibatches on the device."""

import itertools
from collections.abc import Iterable

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader, TensorDataset

from devlab.checks import expect, pretend
from devlab.checks.probes import CountingLoader
from devlab.checks.verbs import counts, times
from devlab.lessons.lesson_04_transfers import MOST, lesson, samples
from devlab.watching.watch import Log, watch


def _as_tuple(samples: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a minibatch as a tuple, which loaders may yield as well as a list."""
    inputs, labels = zip(*samples, strict=True)
    return torch.stack(inputs), torch.stack(labels)


batches = lesson.exercise(
    "batches(loader, device)",
    ("P2", "P4", "P5"),
    "A function with `yield` in it is a generator, which runs on only when the next value is wanted. If the "
    "`yield` stands inside the loop, one minibatch is moved at a time.",
    "`x.to(device, non_blocking=True)` does not wait for the transfer, which may read x when it is no longer "
    "there. Pinned memory is kept until then, pageable memory not on every kind of device. Ask x which of "
    "the two it has: `x.is_pinned()`.",
    "`for x, y in loader:` and, inside it, `yield x.to(device, non_blocking=x.is_pinned()), y.to(device, "
    "non_blocking=y.is_pinned())`",
)


def _loader(trial, count: int, size: int, seed: int, pinned: bool = False) -> CountingLoader:
    dataset = TensorDataset(*samples(trial, count, seed))
    return CountingLoader(DataLoader(dataset, batch_size=size, pin_memory=pinned))


class _Unsafe(TorchFunctionMode):
    """Notes whether a copy that does not block reads pageable memory."""

    met = False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        place = COPIES.get(
            getattr(func, "__name__", "")
        )  # by name: the simulator may stand in for the method
        source = None if place is None else args[place]
        asked = next((one for one in args[1:] if type(one) is bool), kwargs.get("non_blocking"))
        self.met |= bool(asked) and source is not None and not source.is_pinned()
        return func(*args, **kwargs)


COPIES = {"to": 0, "copy_": 1}  # where the source stands among the arguments


def _expect_safe_on_a_mac(trial) -> None:
    """Expect that a Mac reads each minibatch before it is freed: PyTorch does not keep it (issue 189690)."""
    with pretend.machine(trial, (), built=False, other="mps"), _Unsafe() as copies:
        _all(trial, _loader(trial, 7, 3, trial.seeds[0]), on=torch.device("mps", 0))
    if copies.met:
        said = "on Apple's GPU a minibatch may be freed before it has been read: its copy did not block"
        expect.fail(said, "`non_blocking=True` from pinned memory alone", "from pageable memory, too")


def _all(trial, loader: CountingLoader | DataLoader, log: Log | None = None, on: object = None) -> list:
    """Return every minibatch that the answer yields for a device, the trial's own if no other is named."""

    def run_through(loader, device):
        made = trial.answer(loader, device)
        # A generator's body runs in this loop, so the learner's errors may be raised here.
        return list(itertools.islice(made, MOST)) if isinstance(made, Iterable) else made

    trial.require_parameters((loader, trial.device))
    got = trial.run(run_through, loader, on or trial.device, label="batches", log=log)
    headline = "the result is None: the function needs a `yield` for each minibatch"
    expect.that(got is not None, headline, "something to loop over, such as a generator", "None")
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
        expect.fail(f"{came} came", f"all {len(wanted)} minibatches", times(len(got), "minibatch"))
    for place, (batch, pair) in enumerate(zip(got, wanted, strict=False)):
        swapped = {"inputs and labels have changed places": pair[1]}
        expect.name_slip(batch[0], pair[0], swapped, "(inputs, labels)")
        for tensor, right, name in zip(batch, pair, ("the input tensor", "the label tensor"), strict=True):
            if isinstance(tensor, torch.Tensor) and tensor.device != trial.device:
                headline = f"{name} {'stayed' if tensor.is_cpu else 'is'} on {tensor.device}"
                expect.fail(headline, f"{name} on {trial.device}", tensor)
            expect.tensor(tensor, right, trial.device, f"{name} of minibatch {place}")
    headline = f"the minibatches do not come to an end: the loader has {len(wanted)}"
    expect.that(len(got) != MOST, headline, "each of them once", f"{MOST} and more")
    headline = f"{len(got)} minibatches came, and the loader has {len(wanted)}"
    expect.that(len(got) <= len(wanted), headline, "each of them once", f"{len(got)} minibatches")


@batches.row("every minibatch arrives, in order")
def every_batch_arrives(trial):
    for (count, size), seed in zip(((7, 3), (8, 4), (2, 5)), trial.seeds, strict=True):
        inputs, labels = samples(trial, count, seed)
        for pinned in (False, trial.device.type not in ("cpu", "mps")):
            got = _all(trial, _loader(trial, count, size, seed, pinned))
            _expect_pairs(trial, got, inputs, labels, size)
    pairs = DataLoader(TensorDataset(inputs, labels), batch_size=size, collate_fn=_as_tuple)
    _expect_pairs(trial, _all(trial, pairs), inputs, labels, size)
    # Inputs may be whole numbers, and labels may be floats.
    words, prices = labels[:, None] % 7, inputs[:, 0] / 3
    got = _all(trial, DataLoader(TensorDataset(words, prices), batch_size=size))
    _expect_pairs(trial, got, words, prices, size)
    if got := _all(trial, _loader(trial, 0, 3, seed)):
        came = times(len(got), "minibatch")
        expect.fail(f"{came} came from a loader that has none", "nothing to loop over", got)
    _expect_safe_on_a_mac(trial)
    trial.second()


@batches.row("each is moved when it is wanted")
def moved_as_wanted(trial):
    loader = _loader(trial, 27, 3, trial.seeds[0])

    def take_one(loader, device):
        made = trial.answer(loader, device)
        return next(iter(made), None) if isinstance(made, Iterable) else made

    trial.run(take_one, loader, trial.device, label="batches")
    headline = f"{loader.taken} minibatches were taken before the first was used"
    expect.that(loader.taken <= 3, headline, "one at a time, by `yield`", f"{loader.taken} taken")


@batches.row("from pinned memory, transfers do not block", only="accelerator")
def pinned_transfers_do_not_block(trial):
    if trial.device.type == "mps":
        return
    log = watch()
    _all(trial, _loader(trial, 7, 3, trial.seeds[1], pinned=True), log)
    for one in log.events.transfers:
        if (one.blocking or not one.pinned) and one.target == str(trial.device):
            why = "non_blocking was not asked for" if one.pinned else "it was made from pageable memory"
            words = "a transfer that does not block"
            expect.fail(f"the host waited for a transfer: {why}", words, f"{one.manner}, {one.line}")
    _expect_no_wait(log)


def _expect_no_wait(log: Log) -> None:
    headline = "the host waited for {one.device}: {one.cause}"
    counts(log.events.synchronizations, 0, headline, "no synchronization in the loop")


@batches.row("one transfer for each tensor, nothing more", only="accelerator")
def one_transfer_each(trial):
    for pinned in (False, True) if trial.device.type != "mps" else (False,):
        _expect_one_transfer_each(trial, pinned)


def _expect_one_transfer_each(trial, pinned: bool) -> None:
    log = watch()
    _all(trial, _loader(trial, 7, 3, trial.seeds[2], pinned), log)
    transfers, here = log.events.transfers, str(trial.device)
    headline = "a minibatch was pinned by hand, just before its transfer"
    asked = "an unpinned loader's tensors copied as they are"
    counts([one for one in transfers if one.pinned and not pinned], 0, headline, asked)
    other = next((one.target for one in transfers if one.target != here), None)
    detour = f": a tensor went to {other}" if other else ""
    asked = "6 transfers: inputs and labels of 3 minibatches"
    counts(transfers, 6, f"{{times}} for 6 tensors{detour}", asked, "{count}", least=6)
    # A small tensor that only answers a question does not count. All labels have 56 bytes, all inputs more.
    made = log.allocated.get(here, 0)
    headline = f"what had been moved was copied once more on {here}"
    words = f"{log.bytes_moved} bytes of new tensors there, as many as were moved"
    expect.that(made < log.bytes_moved + 56, headline, words, f"{made} bytes")
    _expect_no_wait(log)
