"""A prediction: when `.to` does nothing."""

import torch

from devlab.checks import expect, verbs
from devlab.devices import has_float64
from devlab.lessons.lesson_04_transfers import lesson, numbers_of, times
from devlab.sim.private import OperatorMode
from devlab.watching.watch import watch

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
            x = numbers_of(trial, dtype, device, trial.seeds[0])
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
    with verbs.current(current):
        why = f'x is on {trial.device}, and "{bare}" means {current}, the current device'
        _expect_prediction(trial, x, bare, x.dtype, current == trial.device, why)


@returns_itself.row("False where the device differs, or its index")
def device_differs(trial):
    trial.other()
    for other in trial.others:
        for dtype in (torch.float32, torch.int64):
            for x, device in (
                (numbers_of(trial, dtype, trial.device, trial.seeds[0]), other),
                (numbers_of(trial, dtype, other, trial.seeds[1]), trial.device),
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
        x = numbers_of(trial, before, trial.device, trial.seeds[2])
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
