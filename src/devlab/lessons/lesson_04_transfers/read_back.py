"""One transfer to the host whose result is safe to read."""

import torch

from devlab.checks import cases, expect
from devlab.checks.late_copies import keep_busy
from devlab.checks.verbs import at_once, counts
from devlab.lessons.lesson_04_transfers import CPU, lesson

read_back = lesson.exercise(
    "read_back(x)",
    ("M2", "P4", "P6"),
    "Take two steps: launch the transfer without waiting for it, then wait once, before you return the "
    "result. Which device has to be waited for?",
    '`x.to("cpu", non_blocking=True)` launches the transfer. The content is undefined until '
    "`torch.accelerator.synchronize(x.device)` has returned. On the CPU there is nothing to wait for.",
    'Where `x.device.type == "cpu"`, return x. Else `y = x.to("cpu", non_blocking=True)`, then '
    "`torch.accelerator.synchronize(x.device)`, then `return y`. Without its device, `synchronize()` waits "
    "for the current one.",
)

EARLY = "the result is all zeros, as memory is before a transfer arrives: it was read too early"


def _expect_fetched(got: object, x: torch.Tensor, what: str = "the result", within: float | None = None):
    wanted = x.cpu()
    if x.numel():
        expect.name_slip(got, wanted, {EARLY: 0 * wanted}, "x's values", within)
        expect.name_lost_digits(got, wanted, x)
    expect.tensor(got, wanted, CPU, what, within)


@read_back.row("a CPU tensor with x's values")
def values_on_the_cpu(trial):
    plain = 3 * trial.randn(5, 3, seed=trial.seeds[0])
    x = trial.randn(6, 4, seed=trial.seeds[0])
    views = (x.t()[1:, ::2], x[2, 3], x[:0], x[:1].expand(3, 4))
    keep_busy(trial.device)
    for one in (plain, *cases.dtypes(plain), plain > 0, *views):
        _expect_fetched(trial.call(one), one, within=0.0)
    first, second = (trial.randn(5, 3, seed=seed) for seed in trial.seeds[:2])
    got = trial.call(first)
    trial.call(second)  # a second call must not write into the result of the first
    _expect_fetched(got, first, "the first result, after a second call")
    trial.second()


@read_back.row("safe to read at once")
def safe_to_read(trial):
    shape = (
        (40, 30) if trial.device.type in ("cpu", "sim") else (4096, 4096)
    )  # a copy that takes a millisecond
    for seed in trial.seeds:
        x = trial.randn(*shape, seed=seed)
        keep_busy(trial.device)
        expect.tensor(at_once(trial, x), x, CPU)
    if trial.device.type not in ("cpu", "mps"):
        x = trial.randn(40, 30, seed=seed)
        keep_busy(trial.device)
        # Work that was launched earlier on x's device may still write into x.
        earlier = torch.Event(trial.device)
        earlier.record(torch.accelerator.current_stream(trial.device))
        trial.call(x, changes=True)
        if not earlier.query():
            headline = "x was transferred before the work that was launched earlier on its device was done"
            asked = "a transfer in the current stream, or in one that waits for it"
            expect.fail(headline, asked, "a transfer beside that work, which may still write into x")
    trial.second()


@read_back.row("one transfer, for which the host need not wait", only="accelerator")
def transfer_does_not_block(trial):
    x = trial.randn(40, 30, seed=trial.seeds[0])
    for one in (x, x[0, 1]):
        _expect_one_transfer(trial, one)


def _expect_one_transfer(trial, x: torch.Tensor) -> None:
    _, log = trial.watched(x)
    transfers, asked = log.events.transfers, "a non-blocking transfer, then a wait of your own"
    by_choice = [one for one in transfers if not one.non_blocking]
    blocking = [one for one in transfers if one.blocking and trial.device.type != "mps"]
    headline = "the transfer itself blocks: non_blocking was not asked for"
    if len(by_choice) == len(transfers):  # beside one that does not block, a blocking one is one too many
        counts(by_choice, 0, headline, asked, "{one.manner}")
    counts(transfers, 1, "{times}, where one is enough", "one transfer to cpu", "{count}", least=1)
    counts(blocking, 0, "the transfer blocks: it goes into memory that is not pinned", asked, "{one.manner}")
