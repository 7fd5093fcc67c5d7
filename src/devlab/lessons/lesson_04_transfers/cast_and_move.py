"""Device and dtype in one step: which of the two dtypes travels."""

import torch

from devlab.checks import cases, expect
from devlab.checks.late_copies import keep_busy
from devlab.checks.verbs import at_once, counts
from devlab.devices import has_float64
from devlab.lessons.lesson_04_transfers import lesson, numbers_of

cast_and_move = lesson.exercise(
    "cast_and_move(x, device, dtype)",
    ("M1", "M4", "M5", "P8", "R1"),
    "`x.to(device, dtype)` gives the right result. But which of the two dtypes travels? Watch the bytes for "
    "float64 to float16 and for uint8 to float32, in both directions.",
    "Two steps give you the choice: `x.to(dtype).to(device)` changes the dtype before the transfer, "
    "`x.to(device).to(dtype)` after it. `dtype.itemsize` is the bytes that one element takes.",
    "If `dtype.itemsize < x.dtype.itemsize`, the new dtype is the smaller one: cast first, then move. Else "
    "move first, then cast.",
)

NARROWING = ((torch.float32, torch.float16), (torch.int64, torch.uint8), (torch.float32, torch.bool))
WIDENING = ((torch.float16, torch.float32), (torch.uint8, torch.float32), (torch.bool, torch.int64))
LEVEL = ((torch.float32, torch.int32), (torch.float16, torch.bfloat16), (torch.float32, torch.float32))
DOUBLE = ((torch.float64, torch.float16), (torch.float32, torch.float64), (torch.float64, torch.int64))


def _list_pairs(*devices: torch.device) -> list[tuple[torch.dtype, torch.dtype]]:
    return [*NARROWING, *WIDENING, *LEVEL, *(DOUBLE if has_float64(*devices) else ())]


READ_ANEW = "the bytes were read anew as another dtype (`view`), and the numbers were not converted"


def _expect_cast(got: object, x: torch.Tensor, device: torch.device, dtype: torch.dtype) -> None:
    held = x.cpu()
    wanted = held.to(dtype)
    if held.numel():
        expect.name_slip(got, wanted, {READ_ANEW: lambda: held.contiguous().view(dtype)}, "the same numbers")
    if isinstance(got, torch.Tensor) and not got.is_meta and got.shape == wanted.shape:
        expect.name_lost_digits(got, wanted, x)
    expect.tensor(got, wanted, device)


def _list_telling(source: torch.device, target: torch.device) -> list[tuple[torch.Tensor, torch.dtype]]:
    """Return tensors whose numbers a third dtype on the way would change, each with its new dtype."""
    negative = torch.tensor([-1, 100, -128], dtype=torch.int8)
    large = torch.tensor([1e30, -3e5], dtype=torch.bfloat16)
    whole, long = torch.tensor([2**24 + 1, -5], dtype=torch.int32), torch.tensor([2**53 + 1, -5])
    found = [(negative, torch.int32), (negative.int(), torch.int8), (large, torch.float32)]
    found += [(whole, torch.int64), (long, torch.int64)]
    if has_float64(source, target):
        found += [(whole, torch.float64)]
        found += [(torch.tensor([1e300, -1e-300], dtype=torch.float64), torch.float64)]
    return [(x.to(source), after) for x, after in found]


@cast_and_move.row("x's values, on the device and in the dtype")
def cast_and_moved(trial):
    here = trial.device
    for place, source in enumerate((here, *trial.others)):
        # Each source gets another third of the pairs: on a bench with three devices, together they get all.
        for before, after in _list_pairs(source, here)[place % 3 :: 3]:
            asked = numbers_of(trial, before, source, trial.seeds[place % 3]), here, after
            keep_busy(source)
            _expect_cast(at_once(trial, *asked), *asked)
        for x, after in _list_telling(source, here):
            _expect_cast(trial.call(x, here, after), x, here, after)
    x = trial.randn(6, 4, seed=trial.seeds[0], on=source)
    for view in (x.t()[1::2], x[0, 1], x[:0]):
        _expect_cast(trial.call(view, here, torch.float16), view, here, torch.float16)


@cast_and_move.row("one transfer, straight there")
def one_transfer(trial):
    for source in cases.places(trial)[1:]:
        for before, after in (NARROWING[0], WIDENING[1], LEVEL[-1]):
            x = numbers_of(trial, before, source, trial.seeds[0])
            copies = trial.watched(x, trial.device, after)[1].events.transfers
            way = " → ".join([str(source), *(copy.target for copy in copies)])
            counts(copies, 1, "{times} instead of one", f"{source} → {trial.device}, once", way, least=1)
    trial.second()


@cast_and_move.row("the smaller of the two dtypes travels")
def smaller_travels(trial):
    for source in cases.places(trial)[1:]:
        double = DOUBLE[:1] if has_float64(source, trial.device) else ()
        for before, after in (*NARROWING, *WIDENING, *LEVEL, *double):
            x = numbers_of(trial, before, source, trial.seeds[1])
            least = x.numel() * min(before.itemsize, after.itemsize)
            _, log = trial.watched(x, trial.device, after)
            order = "cast first, then move" if after.itemsize < before.itemsize else "move first, then cast"
            asked = f"{least} bytes transferred ({before} to {after}: {order})"
            larger = max(before, after, key=lambda dtype: dtype.itemsize)
            if log.bytes_moved > x.numel() * larger.itemsize:
                headline = (
                    f"from {source} to {trial.device} more bytes travelled than {before} and {after} take"
                )
                expect.fail(headline, f"{least} bytes transferred", f"{log.bytes_moved} bytes")
            headline = f"from {source} to {trial.device} it travelled as {larger}"
            expect.that(log.bytes_moved <= least, headline, asked, f"{log.bytes_moved} bytes")


@cast_and_move.row("no transfer where it is already")
def already_there(trial):
    same = ((dtype, dtype) for dtype in (torch.int64, torch.float16, torch.bool))
    for before, after in (NARROWING[1], WIDENING[0], LEVEL[0], LEVEL[-1], *same):
        whole = numbers_of(trial, before, trial.device, trial.seeds[2])
        for x in (whole, whole.t()):
            got, log = trial.watched(x, trial.device, after)
            headline = f"x was on {trial.device} already, and something moved"
            counts(log.events.transfers, 0, headline, "no transfer", "{one.source} → {one.target}")
            if before != after:
                continue
            # A small tensor that only answers a question is no copy of x; a tensor of x's size is.
            if isinstance(got, torch.Tensor) and got.untyped_storage() != x.untyped_storage():
                expect.fail("nothing had to change, and x was copied", "x itself", "a copy of it")
            if log.bytes_allocated >= x.nbytes:
                made = f"{log.bytes_allocated} bytes of new tensors"
                expect.fail("nothing had to change, and x was copied in between", "no new tensor", made)
