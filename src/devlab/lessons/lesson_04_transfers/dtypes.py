"""A dtype on the way, and a prediction: what `.to` does, and when it does nothing."""

import torch

from devlab.checks import expect, settings, slips
from devlab.devices import has_float64
from devlab.lessons.lesson_04_transfers import CPU, expect_arrived, lesson, read_at_once, times
from devlab.sim.private import OperatorMode
from devlab.watching.watch import watch

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


def _numbers(trial, dtype: torch.dtype, on: torch.device, seed: int) -> torch.Tensor:
    """Return numbers between 0 and 100 of any dtype: none that some dtype cannot hold."""
    plain = (20 * trial.randn(5, 3, seed=seed, on=CPU)).abs().clamp(max=100)
    return (plain > 15 if dtype is torch.bool else plain).to(dtype).to(on)


def _expect_cast(got: object, x: torch.Tensor, wanted: torch.Tensor, on: torch.device) -> None:
    """Expect x's values in another dtype; digits that went lost are told from other mistakes."""
    slips.lost_digits(got, wanted, x)
    held = x.detach().cpu().contiguous()
    if held.element_size() == wanted.element_size() and held.dim():
        words = "the bytes were read anew as another dtype (`view`), and the numbers were not converted"
        slips.named(got, wanted, {words: lambda: held.view(wanted.dtype)}, "the same numbers", within=0.0)
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
            x = _numbers(trial, before, source, trial.seeds[place % 3])
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
            x = _numbers(trial, before, source, trial.seeds[0])
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
            x = _numbers(trial, before, source, trial.seeds[1])
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
        whole = _numbers(trial, before, trial.device, trial.seeds[2])
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


returns_itself = lesson.exercise(
    "returns_itself",
    signature="returns_itself(x, device, dtype)",
    facts=("M4", "M6"),
    hints=(
        "`x.to(device, dtype)` makes a new tensor as soon as anything has to change. What could have to "
        "change? Ask x about it.",
        "`x.device` is a whole address, index and all, and compares with one that has its index by `==`. So "
        "do dtypes. A bare `device` has `device.index is None`, and means the current device of its kind: "
        "`torch.accelerator.current_device_index()`.",
        'Where `device.index is None` and `device.type != "cpu"`, put '
        "`torch.device(device.type, torch.accelerator.current_device_index())` in its place. Then "
        "`return x.device == device and x.dtype == dtype`.",
    ),
)


class _Results(OperatorMode):
    """Notes the first operator that makes a tensor, of any size: `watch` counts bytes, and some have none."""

    def __init__(self):
        super().__init__()
        self.first = ""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and not self.first:
            self.first = f"a tensor of {result.numel()} elements on {result.device}, by torch.ops.{func}"
        return result


def _expect_prediction(trial, x, device, dtype, wanted: bool, why: str) -> None:
    got = trial.call(x, device, dtype)
    expect.kind(got, bool, "a bool")
    expect.equal(got, wanted, why)


def _every_dtype(*devices: torch.device) -> list[torch.dtype]:
    wide = [torch.float64] if has_float64(*devices) else []
    return [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool, *wide]


@returns_itself.row("True where nothing has to change")
def nothing_changes(trial):
    for device in (trial.device, *trial.others):
        for dtype in _every_dtype(device)[: None if device == trial.device else 2]:
            x = _numbers(trial, dtype, device, trial.seeds[0])
            _expect_prediction(trial, x, device, dtype, True, f"x is {dtype} on {device} already")
    x = trial.randn(4, 6, seed=trial.seeds[1])
    kinds = {
        "a transposed view": x.t(),
        "a view with steps": x[:, ::2],
        "a single number": x[0, 0],
        "an empty tensor": x[:0],
        "an expanded view": x[:1].expand(3, 6),
        "a parameter": torch.nn.Parameter(x.clone()),
    }
    for words, one in kinds.items():
        why = f"{words} with that device and dtype comes back itself, too"
        _expect_prediction(trial, one, trial.device, torch.float32, True, why)
    if trial.device.type != "cpu":
        _expect_of_bare(trial, trial.device)


def _expect_of_bare(trial, current: torch.device) -> None:
    """Expect the prediction for a device without an index while `current` is the current device."""
    bare, x = torch.device(trial.device.type), trial.randn(4, 3, seed=trial.seeds[1])
    with settings.current(current):
        why = f'x is on {trial.device}, and "{bare}" means {current}, the current device'
        _expect_prediction(trial, x, bare, x.dtype, current == trial.device, why)


@returns_itself.row("False where the device differs, or its index")
def device_differs(trial):
    trial.other()
    for other in trial.others:
        for dtype in (torch.float32, torch.int64):
            for x, device in (
                (_numbers(trial, dtype, trial.device, trial.seeds[0]), other),
                (_numbers(trial, dtype, other, trial.seeds[1]), trial.device),
            ):
                why = f"x is on {x.device}, and {device} was asked for"
                _expect_prediction(trial, x, device, dtype, False, why)
        why = "the device differs and the dtype, too"
        _expect_prediction(trial, trial.randn(3, on=other), trial.device, torch.float16, False, why)
        if other.type == trial.device.type:
            _expect_of_bare(trial, other)


@returns_itself.row("False where the dtype differs")
def dtype_differs(trial):
    dtypes = _every_dtype(trial.device)
    for before, after in zip(dtypes, [*dtypes[1:], dtypes[0]], strict=True):
        x = _numbers(trial, before, trial.device, trial.seeds[2])
        for one in (x, x[:0]):
            why = f"x is {before}, and {after} was asked for"
            _expect_prediction(trial, one, trial.device, after, False, why)


@returns_itself.row("nothing is moved or made to find out")
def nothing_moves(trial):
    x = trial.randn(40, 30, seed=trial.seeds[0])
    for device in (trial.device, *trial.others):
        for dtype in (torch.float32, torch.float16):
            made, log = _Results(), watch()

            def noted(x, device, dtype, made=made):
                with made:
                    return trial.answer(x, device, dtype)

            trial.run(noted, x, device, dtype, label=trial.name, log=log)
            if log.transfers or log.synchronizations:
                said = f"{times(log.transfers, 'transfer')}, {log.bytes_moved} bytes"
                expect.fail("x was moved to find out", "no transfer", said)
            if made.first:
                expect.fail("a tensor was made to find out", "no new tensor", made.first)
