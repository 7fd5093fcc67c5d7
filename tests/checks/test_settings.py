"""An answer that leaves a setting of the whole program changed is found out, and only then."""

import pytest
import torch

from devlab.checks import settings
from devlab.checks.calls import AnswerRaised
from devlab.checks.expect import Mismatch
from devlab.checks.trial import Trial


def trial_of(answer) -> Trial:
    """Return what a row works with, on the CPU."""
    return Trial(answer, "double(x)", torch.device("cpu"))


def test_what_is_put_back_counts_for_nothing():
    """So does an answer that touches nothing."""

    def double(x):
        with torch.device("meta"):
            torch.empty(1)
        return 2 * x

    assert settings.kept(trial_of(double), 3) == 6


def test_each_setting_is_named():
    """Whichever it is; a row may ask for some alone."""

    def double(x):
        torch.set_default_dtype(torch.float64)
        return 2 * x

    with pytest.raises(Mismatch, match="changed the default dtype of the whole program"):
        settings.kept(trial_of(double), 3)
    assert settings.kept(trial_of(double), 3, names=("current device",)) == 6
    assert torch.get_default_dtype() == torch.float32


def test_other_defaults_while_it_runs():
    """What a new process has is a change then, and a verdict says under which defaults it was called."""

    def double(x):
        torch.set_default_dtype(torch.float32)
        return 2 * x

    def fails(x):
        raise KeyError(x)

    with pytest.raises(Mismatch, match="changed the default dtype of the whole program"):
        settings.kept(trial_of(double), 3, dtype=torch.float64)
    trial = trial_of(fails)
    with pytest.raises(AnswerRaised):
        settings.kept(trial, 3, device=torch.device("meta"))
    assert trial.last_call.reads == "after torch.set_default_device('meta'): double(x=3)"
    assert torch.get_default_device() == torch.device("cpu")


def test_parameters_that_are_not_the_tasks():
    """They are told as `trial.call` tells them."""
    with pytest.raises(Mismatch, match="parameters are not those of the task"):
        settings.kept(trial_of(lambda: 3), 3)
