"""A prediction: when `.to` does nothing."""

import torch

from devlab.checks import cases, expect
from devlab.checks.verbs import answers, current, times
from devlab.lessons.lesson_04_transfers import lesson, numbers_of
from devlab.sim.private import OperatorMode
from devlab.watching.watch import watch

returns_itself = lesson.exercise(
    "returns_itself(x, device, dtype)",
    ("M4", "M6"),
    "`x.to(device, dtype)` makes a new tensor as soon as anything has to change. What could have to change? "
    "Ask x about it.",
    "`x.device` is a whole address, index and all, and compares with one that has its index by `==`. So do "
    "dtypes. A bare `device` has `device.index is None`, and means the current device of its kind: "
    "`torch.accelerator.current_device_index()`.",
    'Where `device.index is None` and `device.type != "cpu"`, put `torch.device(device.type, '
    "torch.accelerator.current_device_index())` in its place. Then `return x.device == device and x.dtype == "
    "dtype`.",
)


class _Results(OperatorMode):
    """Notes the first operator that makes a tensor, even an empty tensor, which `watch` does not count."""

    def __init__(self):
        super().__init__()
        self.first = ""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and not self.first:
            self.first = f"a tensor of {result.numel()} elements on {result.device}, by torch.ops.{func}"
        return result


def _every_dtype(device: torch.device) -> list[torch.dtype]:
    return [torch.float32, *cases.floats(device), torch.int64, torch.int32, torch.bool]


def _expect(trial, wanted: bool, x: torch.Tensor, device: torch.device, dtype: torch.dtype, why: str) -> None:
    answers(trial, x, device, dtype, wanted=wanted, why=why, what="the result")


def _expect_of_bare(trial, device: torch.device) -> None:
    """Expect the prediction for a device without an index while `device` is the current one."""
    bare, x = torch.device(trial.device.type), trial.randn(4, 3, seed=trial.seeds[1])
    why = f'x is on {trial.device}, and "{bare}" means {device}, the current device'
    with current(device):
        _expect(trial, device == trial.device, x, bare, x.dtype, why)


@returns_itself.row("True where nothing has to change")
def nothing_changes(trial):
    for device in (trial.device, *trial.others):
        for dtype in _every_dtype(device)[: None if device == trial.device else 2]:
            x = numbers_of(trial, dtype, device, trial.seeds[0])
            _expect(trial, True, x, device, dtype, f"x is {dtype} on {device} already")
    x = trial.randn(4, 6, seed=trial.seeds[1])
    for words, one in (cases.views(x) | cases.kinds(x)).items():
        why = f"{words} with that device and dtype comes back itself, too"
        _expect(trial, True, one, trial.device, torch.float32, why)
    if trial.device.type != "cpu":
        _expect_of_bare(trial, trial.device)
    trial.second()


@returns_itself.row("False where the device differs, or its index")
def device_differs(trial):
    for other in cases.places(trial)[1:]:
        for dtype in (torch.float32, torch.int64):
            for source, device in ((trial.device, other), (other, trial.device)):
                x = numbers_of(trial, dtype, source, trial.seeds[0])
                _expect(trial, False, x, device, dtype, f"x is on {source}, and {device} was asked for")
        why = "the device differs and the dtype, too"
        _expect(trial, False, trial.randn(3, on=other), trial.device, torch.float16, why)
        if other.type == trial.device.type:
            _expect_of_bare(trial, other)
        elif trial.device.type != "cpu":
            bare = torch.device(trial.device.type)
            with current(trial.device):
                why = f'x is on {other}, and "{bare}" was asked for'
                _expect(trial, False, trial.randn(3, on=other), bare, torch.float32, why)
    trial.second()


@returns_itself.row("False where the dtype differs")
def dtype_differs(trial):
    dtypes = _every_dtype(trial.device)
    for before, after in zip(dtypes, [*dtypes[1:], dtypes[0]], strict=True):
        x = numbers_of(trial, before, trial.device, trial.seeds[2])
        for one in (x, x[:0]):
            _expect(trial, False, one, trial.device, after, f"x is {before}, and {after} was asked for")
    with current(trial.device):
        bare, why = torch.device(trial.device.type), f"x is {before}, and {after} was asked for"
        _expect(trial, False, x, bare, after, f'{why}, on "{bare}", which means {trial.device}')


@returns_itself.row("nothing is moved or made to find out")
def nothing_moves(trial):
    x = trial.randn(40, 30, seed=trial.seeds[0])
    for device in (trial.device, *trial.others, torch.device(trial.device.type)):
        for dtype in (torch.float32, torch.float16):
            made, log = _Results(), watch()

            def noted(x, device, dtype, made=made):
                with made:
                    return trial.answer(x, device, dtype)

            trial.run(noted, x, device, dtype, label=trial.name, log=log)
            if log.transfers or log.synchronizations:
                said = f"{times(log.transfers, 'transfer')}, {log.bytes_moved} bytes"
                expect.fail("x was moved to find out", "no transfer", said)
            expect.that(not made.first, "a tensor was made to find out", "no new tensor", made.first)
