"""An answer that makes a simulated device fail is told so, and what follows is judged as ever."""

import pytest
import torch
from torch.nn import functional

import devlab.sim
from devlab.checks import expect
from devlab.checks.calls import settle_devices
from devlab.checks.exercise import Exercise
from devlab.checks.judge import judge
from devlab.checks.result import Outcome
from devlab.checks.settings import preserve_state
from devlab.classroom.engine import worker
from devlab.devices import bench
from devlab.shell import Shell

devlab.sim.enable()
SIM = [torch.device("sim:0")]


@pytest.fixture(autouse=True)
def clean():
    """Leave no device in the state in which a test leaves it."""
    bench()
    devlab.sim.reset()
    yield
    devlab.sim.reset()


def picking() -> Exercise:
    """Return a small exercise: the rows of a table."""
    exercise = Exercise("pick", "00_test", "pick(table, rows)", ("D1",), ("first hint", "second hint"))

    @exercise.row("the rows")
    def rows(trial):
        table, at = trial.randn(3, 2), torch.tensor([2, 0], device=trial.device)
        expect.tensor(trial.call(table, at), table.cpu()[[2, 0]].to(trial.device), trial.device)

    @exercise.row("of whole numbers")
    def whole(trial):
        table, at = trial.randint(0, 9, (4, 1)), torch.tensor([3], device=trial.device)
        expect.tensor(trial.call(table, at), table[3:], trial.device)

    return exercise


def right(table, rows):
    """Return the rows."""
    return table[rows]


def from_one(table, rows):
    """Count from 1, and wait for nothing."""
    return table[rows + 1]


def from_one_and_wait(table, rows):
    """Count from 1, and wait for the device."""
    found = table[rows + 1]
    found.sum().item()
    return found


def from_one_in_silence(table, rows):
    """Count from 1, and let no error out."""
    try:
        return from_one_and_wait(table, rows)
    except torch.AcceleratorError:
        return table[:2]


def for_floats_alone(table, rows):
    """Count from 1 in the first row of the verdict alone."""
    return from_one(table, rows) if table.is_floating_point() else right(table, rows)


@pytest.mark.parametrize("answer", [from_one, from_one_and_wait, from_one_in_silence])
def test_the_verdict_says_what_the_device_noticed_and_where(answer):
    """The line is the one that launched it, whether the answer waits, hides the error, or does not wait."""
    result = judge(picking(), answer, SIM)
    assert result.outcome is Outcome.ERROR
    assert result.headline == "the device found a value out of range on sim:0, after your code had gone on"
    told = dict(result.details)
    assert told["raised"] == "AcceleratorError: sim error: device-side assert triggered"
    assert told["because"] == "index 3 is out of bounds for dimension 0 with size 3"
    assert told["at"].endswith("table[rows + 1]")
    assert told["called with"].startswith("pick(table=f32[3,2] sim:0")
    assert "notebook" not in told


def test_the_next_row_and_the_next_answer_are_judged_as_ever():
    """The device is usable again after each call."""
    result = judge(picking(), for_floats_alone, SIM)
    assert [row.passed for row in result.rows] == [False, True]
    assert judge(picking(), right, SIM).passed
    torch.sim.synchronize()


class Mine(RuntimeError):
    """An exception of the learner's own, which keeps something under the same name."""

    failure = "mine"


def test_a_learners_own_exception_is_not_taken_for_the_devices():
    """Only PyTorch's error that the simulator has raised is."""

    def pick(table, rows):
        raise Mine("no")

    result = judge(picking(), pick, SIM)
    assert result.headline == "your code raised Mine on sim:0"


def test_what_only_the_row_waits_for():
    """A backward pass of the row, or its look at a result, may be what meets the error."""
    exercise = Exercise("loss", "00_test", "loss(x)", ("D1",), ("first hint", "second hint"))
    launched = []

    @exercise.row("it has a value")
    def value(trial):
        trial.call(trial.randn(2))
        launched[0]()
        torch.sim.synchronize()

    def loss(x):
        launched.append(lambda: x[torch.tensor([5], device=x.device)])

    result = judge(exercise, loss, SIM)
    assert result.headline.startswith("the device found a value out of range")
    assert "x[torch.tensor([5], device=x.device)]" in dict(result.details)["at"]


def test_a_notebook_whose_device_failed_is_judged_on_a_sound_one_and_told():
    """The cells of the notebook still need a reset, and the verdict says so."""
    at = torch.tensor([9], device="sim")
    torch.ones(3, device="sim")[at]
    torch.set_default_device("sim")
    try:
        result = judge(picking(), right, SIM)
    finally:
        torch.set_default_device(None)
    assert result.passed
    told = dict(result.details)["notebook"]
    assert told.startswith("sim:0 has met a value out of range, at test_late_errors.py, line ")
    assert told.endswith("it is usable here, and in your cells after devlab.sim.reset()")
    with pytest.raises(torch.AcceleratorError):
        torch.sim.synchronize()


def test_a_block_of_preserved_state_puts_a_failure_back():
    """The block does not see what failed before it, and what follows does not see what failed in it."""
    with preserve_state():
        torch.ones(3, device="sim")[torch.tensor([9], device="sim")]
    torch.sim.synchronize()


def test_a_cell_fails_no_later_cell():
    """The engine of grading makes the device usable after each cell; a kernel would stay without it."""
    notebook = Shell()
    notebook.user_ns.update(torch=torch, functional=functional)
    cell = "loss = functional.cross_entropy(torch.ones(1, 4, device='sim'), torch.tensor([4], device='sim'))"
    assert worker._run_cell(cell, "<cell 1>", notebook) == ""
    assert worker._run_cell("x = torch.ones(3, device='sim').sum().item()", "<cell 2>", notebook) == ""
    said = worker._run_cell(f"{cell}; loss.item()", "<cell 3>", notebook)
    assert said.startswith("AcceleratorError: sim error: device-side assert triggered")
    assert worker._run_cell("x = torch.ones(3, device='sim').sum().item()", "<cell 4>", notebook) == ""
    assert settle_devices() is None
