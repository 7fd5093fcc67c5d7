"""One copy to the host that is safe to read."""

import torch

from devlab.checks import expect
from devlab.devices import has_float64
from devlab.lessons.lesson_04_transfers import (
    CPU,
    expect_arrived,
    keep_busy,
    lesson,
    read_at_once,
    times,
)
from devlab.sim import clock

read_back = lesson.exercise(
    "read_back",
    signature="read_back(x)",
    facts=("M2", "P4", "P6"),
    hints=(
        "Two steps: start the copy without waiting for it, then wait once, before you return the result. "
        "Which device has to be waited for?",
        '`x.to("cpu", non_blocking=True)` starts the copy. Its content is undefined until '
        "`torch.accelerator.synchronize(x.device)` has returned. On the CPU there is nothing to wait for.",
        'Where `x.device.type == "cpu"`, return x. Else `y = x.to("cpu", non_blocking=True)`, then '
        "`torch.accelerator.synchronize(x.device)`, then `return y`. Without its device, `synchronize()` "
        "waits for the current one.",
    ),
)


@read_back.row("a CPU tensor with x's values")
def values_on_the_cpu(trial):
    dtypes = [torch.float32, torch.float16, torch.int64, torch.bool]
    dtypes += [torch.float64] if has_float64(trial.device) else []
    for place, dtype in enumerate(dtypes):
        x = (3 * trial.randn(5, 3, seed=trial.seeds[place % 3])).to(dtype)
        if dtype.itemsize == 8:  # digits that a third dtype on the way would lose
            x = x + 2**53 if dtype is torch.int64 else x / 3
        got, wanted = trial.call(x), x.cpu().clone()
        early = {
            "the result is all zeros, as memory is before a copy arrives: it was read too early": 0 * wanted
        }
        expect.named(got, wanted, early, "x's values")
        expect.lost_digits(got, wanted, wanted)
        expect.tensor(got, wanted, CPU, within=0.0)
    first, second = (trial.randn(5, 3, seed=seed) for seed in trial.seeds[:2])
    got = trial.call(first)
    trial.call(second)  # what one call has returned is not the next one's to write into
    expect.tensor(got, first.cpu().clone(), CPU, "the first result, after a second call")
    x = trial.randn(6, 4, seed=trial.seeds[0])
    for view in (x.t()[1:, ::2], x[2, 3], x[:0], x[:1].expand(3, 4)):
        expect.tensor(trial.call(view), view.cpu().clone(), CPU)


@read_back.row("safe to read at once")
def safe_to_read(trial):
    for seed in trial.seeds:
        x = trial.randn(40, 30, seed=seed)
        wanted = x.cpu().clone()
        keep_busy(trial.device)
        got, seen, _ = read_at_once(trial, x)
        expect.kind(got, torch.Tensor, "a tensor")
        expect_arrived(trial, got, seen, wanted, "the result")
        expect.tensor(seen, wanted, CPU)
    if trial.device.type == "sim":
        keep_busy(trial.device)
        # What is queued where x was made may still write into it.
        due = clock.current.queues[trial.device.index].free_at
        trial.call(x, changes=True)
        if clock.now() < due:
            headline = "x was copied before the work that is queued ahead on its device was done"
            asked = "a copy in the current stream, or in one that waits for it"
            expect.fail(headline, asked, "a copy beside that work, which may still write into x")


@read_back.row("one copy, for which the host need not wait", only="accelerator")
def copy_does_not_block(trial):
    x = trial.randn(40, 30, seed=trial.seeds[0])
    _, log = trial.watched(x)
    for transfer in log.events.transfers:
        asked = "a non-blocking copy, then a wait of your own"
        if not transfer.non_blocking:
            expect.fail("the copy itself blocks: non_blocking was not asked for", asked, transfer.manner)
        if transfer.blocking and trial.device.type != "mps":
            headline = "the copy blocks: it goes into memory that is not pinned"
            expect.fail(headline, asked, transfer.manner)
    if log.transfers != 1:
        headline = f"{times(log.transfers, 'transfer')}, where one is enough"
        expect.fail(headline, "one copy to cpu", str(log.transfers))
