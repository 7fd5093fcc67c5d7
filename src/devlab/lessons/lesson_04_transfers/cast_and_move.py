"""A dtype on the way: which of two travels."""

import torch

from devlab.checks import expect
from devlab.devices import has_float64
from devlab.lessons.lesson_04_transfers import expect_arrived, lesson, numbers_of, read_at_once, times

cast_and_move = lesson.exercise(
    "cast_and_move",
    signature="cast_and_move(x, device, dtype)",
    facts=("M1", "M4", "M5", "P8", "R1"),
    hints=(
        "`x.to(device, dtype)` gives the right result. Which of the two dtypes travels, though? Watch it for "
        "float64 to float16 and for uint8 to float32, in both directions.",
        "Two steps give you the choice: `x.to(dtype).to(device)` casts before the journey, "
        "`x.to(device).to(dtype)` after it. `dtype.itemsize` is the bytes that one element takes.",
        "If `dtype.itemsize < x.dtype.itemsize`, the new dtype is the smaller one: cast first, then move. "
        "Else move first, then cast.",
    ),
)

NARROWING = ((torch.float32, torch.float16), (torch.int64, torch.uint8), (torch.float32, torch.bool))
WIDENING = ((torch.float16, torch.float32), (torch.uint8, torch.float32), (torch.bool, torch.int64))
LEVEL = ((torch.float32, torch.int32), (torch.float16, torch.bfloat16), (torch.float32, torch.float32))
DOUBLE = ((torch.float64, torch.float16), (torch.float32, torch.float64), (torch.float64, torch.int64))


def _pairs(*devices: torch.device) -> list[tuple[torch.dtype, torch.dtype]]:
    return [*NARROWING, *WIDENING, *LEVEL, *(DOUBLE if has_float64(*devices) else ())]


def _expect_cast(got: object, x: torch.Tensor, wanted: torch.Tensor, on: torch.device) -> None:
    """Expect x's values in another dtype; digits that went lost are told from other mistakes."""
    expect.lost_digits(got, wanted, x)
    held = x.detach().cpu().contiguous()
    if held.element_size() == wanted.element_size() and held.dim():
        words = "the bytes were read anew as another dtype (`view`), and the numbers were not converted"
        expect.named(got, wanted, {words: lambda: held.view(wanted.dtype)}, "the same numbers", within=0.0)
    expect.tensor(got, wanted, on)


def _telling(source: torch.device, target: torch.device) -> list[tuple[torch.Tensor, torch.dtype]]:
    negative = torch.tensor([-1, 100, -128], dtype=torch.int8)
    large = torch.tensor([1e30, -3e5], dtype=torch.bfloat16)
    found = [(negative, torch.int32), (negative.int(), torch.int8), (large, torch.float32)]
    if has_float64(source, target):
        found += [(torch.tensor([16_777_217, -5], dtype=torch.int32), torch.float64)]
        found += [(torch.tensor([1e300, -1e-300], dtype=torch.float64), torch.float64)]
    return [(x.to(source), after) for x, after in found]


@cast_and_move.row("x's values, on the device and in the dtype")
def cast_and_moved(trial):
    for place, source in enumerate((trial.device, *trial.others)):
        # Each source gets another third of the pairs; together they are all.
        for before, after in _pairs(source, trial.device)[place % 3 :: 3]:
            x = numbers_of(trial, before, source, trial.seeds[place % 3])
            wanted = x.cpu().clone().to(after)
            got, seen, _ = read_at_once(trial, x, trial.device, after)
            expect_arrived(trial, got, seen, wanted, "the result")
            _expect_cast(seen, x, wanted, trial.device)
        # What only one of the two dtypes holds: a third one on the way would lose it.
        for x, after in _telling(source, trial.device):
            wanted = x.cpu().clone().to(after)
            _expect_cast(trial.call(x, trial.device, after), x, wanted, trial.device)
    x = trial.randn(6, 4, seed=trial.seeds[0], on=source)
    for view in (x.t()[1::2], x[0, 1], x[:0]):
        wanted = view.cpu().clone().half()
        expect.tensor(trial.call(view, trial.device, torch.float16), wanted, trial.device)


@cast_and_move.row("one transfer, straight there")
def one_transfer(trial):
    trial.other()
    for source in trial.others:
        for before, after in (NARROWING[0], WIDENING[1]):
            x = numbers_of(trial, before, source, trial.seeds[0])
            _, log = trial.watched(x, trial.device, after)
            if log.transfers != 1:
                way = " → ".join([str(source), *(copy.target for copy in log.events.transfers)])
                asked = f"{source} → {trial.device}, once"
                expect.fail(f"{times(log.transfers, 'transfer')} instead of one", asked, way)


@cast_and_move.row("the smaller of the two dtypes travels")
def smaller_travels(trial):
    trial.other()
    for source in trial.others:
        double = DOUBLE[:1] if has_float64(source, trial.device) else ()
        for before, after in (*NARROWING, *WIDENING, *double):
            x = numbers_of(trial, before, source, trial.seeds[1])
            least = x.numel() * min(before.itemsize, after.itemsize)
            _, log = trial.watched(x, trial.device, after)
            if log.bytes_moved <= least:
                continue
            order = "cast first, then move" if after.itemsize < before.itemsize else "move first, then cast"
            larger = max(before, after, key=lambda dtype: dtype.itemsize)
            expect.fail(
                f"from {source} to {trial.device} it travelled as {larger}",
                f"{least} bytes on the way ({before} to {after}: {order})",
                f"{log.bytes_moved} bytes",
            )


@cast_and_move.row("no transfer where it is already")
def already_there(trial):
    for before, after in (NARROWING[1], WIDENING[0], LEVEL[0], LEVEL[-1]):
        whole = numbers_of(trial, before, trial.device, trial.seeds[2])
        for x in (whole, whole.t()):
            got, log = trial.watched(x, trial.device, after)
            for copy in log.events.transfers[:1]:
                went = f"{copy.source} → {copy.target}"
                expect.fail(f"x was on {trial.device} already, and something moved", "no transfer", went)
            if before != after:
                continue
            # A small tensor that only answers a question is no copy of x; one of x's size is.
            if isinstance(got, torch.Tensor) and got.untyped_storage() != x.untyped_storage():
                expect.fail("nothing had to change, and x was copied", "x itself", "a copy of it")
            if log.bytes_allocated >= x.nbytes:
                made = f"{log.bytes_allocated} bytes of new tensors"
                expect.fail("nothing had to change, and x was copied on the way", "no new tensor", made)
