"""An answer that leaves a setting of the whole program changed is found, whatever it was before."""

import pytest
import torch

from devlab.checks import settings, verbs
from devlab.checks.calls import AnswerRaised
from devlab.checks.exercise import Exercise, find
from devlab.checks.judge import judge
from devlab.checks.result import Outcome
from devlab.checks.settings import Changed
from devlab.checks.trial import Trial
from devlab.devices import bench


def trial_of(answer) -> Trial:
    """Return what a row works with, on the CPU."""
    return Trial(answer, "double(x)", torch.device("cpu"))


def test_what_is_put_back_counts_for_nothing():
    """So does an answer that touches nothing."""

    def double(x):
        with torch.device("meta"):
            torch.empty(1)
        return 2 * x

    assert trial_of(double).call(3) == 6


CHANGES = {
    "default device": lambda: torch.set_default_device("meta"),
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "gradient mode": lambda: torch.set_grad_enabled(False),
    "current device": lambda: torch.accelerator.set_device_index(1),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_setting_is_named_and_put_back(name):
    """Each call of an answer is looked at, without a word in the lesson; nothing of it reaches the row."""
    bench()

    def double(x):
        CHANGES[name]()
        return 2 * x

    before = settings.now()
    with pytest.raises(Changed, match=f"changed the {name} of the whole program"):
        trial_of(double).call(3)
    assert settings.now() == before


def test_what_was_there_before_is_put_back_by_us_as_well():
    """A row's own default device outlives the call of an answer."""
    torch.set_default_device("meta")
    try:
        trial_of(lambda x: x).call(3)
        assert torch.get_default_device().type == "meta"
    finally:
        torch.set_default_device(None)


def test_other_defaults_while_it_runs():
    """To set what a new process has is a change then, and a verdict names the defaults of the call."""

    def double(x):
        torch.set_default_dtype(torch.float32)
        return 2 * x

    def fails(x):
        raise KeyError(x)

    with pytest.raises(Changed, match="changed the default dtype of the whole program"):
        verbs.kept(trial_of(double), 3, dtype=torch.float64)
    trial = trial_of(fails)
    with pytest.raises(AnswerRaised):
        verbs.kept(trial, 3, device=torch.device("meta"))
    assert trial.last_call.reads == "after torch.set_default_device('meta'): double(x=3)"
    assert torch.get_default_device() == torch.device("cpu")


def test_parameters_that_are_not_the_tasks():
    """They are told as `trial.call` tells them."""
    with pytest.raises(AssertionError, match="parameters are not those of the task"):
        verbs.kept(trial_of(lambda: 3), 3)


def doubling() -> Exercise:
    """Return a small exercise with two rows, whose inputs need no gradient."""
    exercise = Exercise("double", "00_test", "double(x)", ("D1",), ("first hint", "second hint"))
    exercise.row("twice the value")(lambda trial: trial.call(trial.randn(3)))
    exercise.row("of a number, too")(lambda trial: trial.call(3))
    return exercise


def to_a_constant(name):
    """Return an answer that sets a setting and puts back what a new process has."""
    sets = {
        "default device": (lambda: torch.set_default_device("cpu"), lambda: torch.set_default_device(None)),
        "default dtype": (
            lambda: torch.set_default_dtype(torch.float16),
            lambda: torch.set_default_dtype(torch.float32),
        ),
        "gradient mode": (lambda: torch.set_grad_enabled(False), lambda: torch.set_grad_enabled(True)),
        "current device": (
            lambda: torch.accelerator.set_device_index(1),
            lambda: torch.accelerator.set_device_index(0),
        ),
    }
    there, back = sets[name]

    def double(x):
        there()
        result = 2 * x
        back()
        return result

    return double


@pytest.mark.parametrize("name", CHANGES)
def test_a_setting_put_back_to_a_constant_is_found(name):
    """Each answer is judged once with unusual settings in force; the verdict names the one it lost."""
    result = judge(doubling(), to_a_constant(name), bench())
    assert result.outcome is Outcome.FAILED, str(result)
    assert f"your code changed the {name} of the whole program" in str(result)
    called = dict(result.details)["called with"]
    assert called.startswith("after torch."), called
    assert "double(x=" in called
    assert [row.passed for row in result.rows] == [False, False], "the second row's is the same fault"
    assert result.rows[0].outcomes["cpu"] is Outcome.FAILED
    assert result.rows[1].outcomes["cpu"] is Outcome.NOT_REACHED
    assert result.rows[0].outcomes["sim:0"] is Outcome.PASSED


def test_settings_put_back_to_what_they_were_pass():
    """So does an answer whose result follows the defaults: nothing says that it may not."""

    def double(x):
        device, dtype = torch.get_default_device(), torch.get_default_dtype()
        torch.set_default_device("cpu")
        torch.set_default_dtype(torch.float16)
        with torch.no_grad():
            result = x + x
        torch.set_default_device(device)
        torch.set_default_dtype(dtype)
        return result

    assert judge(doubling(), double, bench()).passed
    assert judge(doubling(), lambda x: torch.zeros(3), bench()).passed


@pytest.mark.parametrize("name", ["resolve", "same_place"])
def test_the_course_own_tasks_see_a_lost_default_device(name):
    """`set_default_device(spec) … set_default_device(None)` loses a notebook's own default of sim:1."""

    def address(spec):
        if isinstance(spec, torch.Tensor):
            return spec.device
        torch.set_default_device(spec)
        place = torch.empty(0).device
        torch.set_default_device(None)
        return place

    def resolve(spec):
        return address(spec)

    def same_place(a, b):
        return address(a) == address(b)

    result = judge(find(name), locals()[name], bench())
    assert "your code changed the default device of the whole program" in str(result)
    assert "after torch.set_default_device(" in str(result)


def test_only_one_device_is_enough():
    """Where there is no second device, the default device is one that holds nothing."""
    cpu = (torch.device("cpu"),)
    result = judge(doubling(), to_a_constant("default device"), cpu)
    assert "after torch.set_default_device('meta'): double(" in str(result)


def test_a_block_around_the_check_is_left_alone():
    """In `with torch.device(...)` no default device is set: PyTorch would lose count of its own blocks."""
    devices = bench()
    with torch.device("sim:1"):
        assert judge(doubling(), lambda x: 2 * x, devices).passed
        assert torch.get_default_device() == torch.device("sim:1")
