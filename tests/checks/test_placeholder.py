"""Not attempted means that nothing was written; a placeholder beside work is named, with its line."""

import asyncio
import functools
import json
from pathlib import Path

import pytest
import torch
from torch import nn

import devlab
from devlab.checks.check import verdict
from devlab.checks.placeholder import STUB, is_blank, is_printed
from devlab.checks.result import Outcome
from devlab.learner import progress

ROOT = Path(__file__).parents[2]


def cells(folder: str, lesson: str) -> list[str]:
    """Return the sources of the code cells of a lesson's notebook."""
    (path,) = (ROOT / folder).glob(f"{lesson}*.ipynb")
    return [
        "".join(one["source"]) for one in json.loads(path.read_bytes())["cells"] if one["cell_type"] == "code"
    ]


def printed(folder: str, lesson: str, name: str):
    """Return a function or class as the course's notebook defines it."""
    source = next(one for one in cells(folder, lesson) if f"def {name}(" in one or f"class {name}" in one)
    names = {"torch": torch, "nn": nn, "devlab": devlab, "functional": nn.functional}
    definition = source.partition("\n\n\n")[0]
    exec(f"from __future__ import annotations\n{definition}", names)
    return names[name]


def test_an_unreachable_placeholder_does_no_harm():
    """A right answer with the placeholder's line left below its `return` is right."""

    def device_of(x):
        return x.device
        raise NotImplementedError("your code here")

    assert verdict(device_of).passed


def test_a_placeholder_that_is_reached_is_named_with_its_line():
    """Work is there: that is an error, and the last line says what to do."""

    def device_of(x):
        place = x.device
        print(place)
        raise NotImplementedError("your code here")

    result = verdict(device_of)
    assert result.outcome is Outcome.ERROR
    assert result.headline == "the placeholder still stands in `device_of`"
    details = dict(result.details)
    assert details["at"].startswith("test_placeholder.py, line ")
    assert details["at"].endswith('raise NotImplementedError("your code here")')
    assert details["next"] == "write what belongs there; if `device_of` is complete, delete that line"


def test_rows_that_pass_keep_their_points():
    """A branch that is not written yet takes no point from those that are."""

    def same_place(a, b):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            return a.device == b.device
        raise NotImplementedError("your code here")

    result = verdict(same_place)
    assert result.outcome is Outcome.ERROR
    assert result.points == 2
    assert Outcome.NOT_ATTEMPTED not in [one for row in result.rows for one in row.outcomes.values()]


def test_another_functions_placeholder_is_called_by_its_name():
    """`fit` that calls a `train_step` which is still empty: the verdict sends to `train_step`."""

    def train_step(model, batch, optimizer, device):
        raise NotImplementedError("your code here")

    def fit(model, loader, optimizer, device, epochs):
        return [sum(train_step(model, batch, optimizer, device) for batch in loader) for _ in range(epochs)]

    result = verdict(fit)
    assert result.headline == "the placeholder still stands in `train_step`, which fit calls"
    assert result.outcome is Outcome.ERROR


class RunningMean(nn.Module):
    """Half written: its buffers are there, its forward is not."""

    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        """Be written later."""
        raise NotImplementedError("your code here")


def test_a_class_with_one_method_to_write():
    """The method is named, with its class."""
    result = verdict(RunningMean)
    assert result.outcome is Outcome.ERROR
    assert result.headline == "the placeholder still stands in `RunningMean.forward`"


@pytest.mark.parametrize(
    ("lesson", "name"),
    [("05", "CausalMask"), ("05", "RunningMean"), ("07", "Prefetcher"), ("09", "TwoStage"), ("11", "fit")],
)
def test_what_is_handed_out_is_blank(lesson, name):
    """Functions, modules whose skeleton calls `super().__init__()`, and classes of several methods."""
    handed_out = printed("exercises", lesson, name)
    assert is_blank(handed_out)
    assert verdict(handed_out).outcome is Outcome.NOT_ATTEMPTED


def test_what_was_written_is_not_blank():
    """A class with an attribute or a method of its own, and one that inherits its work."""

    class Begun(nn.Module):
        size = 3

        def forward(self, x):
            raise NotImplementedError("your code here")

    class Heir(RunningMean):
        pass

    assert not any(map(is_blank, (Begun, Heir, RunningMean, 3, functools.partial(print))))


def test_a_decorated_placeholder_is_blank():
    """A decorator alone is no work."""

    @torch.no_grad()
    def evaluate(model, loader, device):
        raise NotImplementedError("your code here")

    assert is_blank(evaluate)


def test_a_programs_own_words_are_no_placeholder():
    """PyTorch raises NotImplementedError as well, with words of its own."""

    class CausalMask(nn.Module):
        def __init__(self, max_length):
            super().__init__()

    result = verdict(CausalMask)
    assert STUB not in str(result)
    assert result.outcome in (Outcome.FAILED, Outcome.ERROR)


def test_a_bare_not_implemented_error():
    """In the learner's own line it is a placeholder; in a package it is what that package says."""

    def device_of(x):
        raise NotImplementedError

    assert verdict(device_of).headline == "the placeholder still stands in `device_of`"

    def device_of(x):
        return asyncio.AbstractEventLoop().time()

    assert verdict(device_of).headline == "your code raised NotImplementedError on cpu"


PATIENTS = ["fix_mask", "fix_hidden_state", "FixedPositions"]


@pytest.mark.parametrize("name", PATIENTS)
def test_an_untouched_patient_is_no_try(name, capsys):
    """The clinic hands out broken programs, to be run first: the verdict is shown, and counts for nothing."""
    patient = printed("exercises", "10", name)
    assert is_printed(name, patient)
    result = devlab.check(patient)
    assert result.outcome in (Outcome.FAILED, Outcome.ERROR)
    assert result.headline in capsys.readouterr().out
    assert name not in progress.load()[0]


def test_a_mended_patient_counts():
    """One line changed makes it the learner's."""

    def fix_mask(x):
        return x + torch.full(x.shape[1:], float("-inf")).triu(1).cpu()

    assert not is_printed("fix_mask", fix_mask)
    devlab.check(fix_mask)
    assert progress.load()[0]["fix_mask"].attempts == 1


def test_the_lessons_own_demonstration_counts_for_nothing():
    """Running lesson 00 again takes no try and no hint from the learner's own progress."""
    demonstration = printed("notebooks", "00", "device_of")
    assert devlab.check(demonstration).outcome is Outcome.FAILED
    devlab.hint(demonstration)
    assert progress.load()[0] == {}
    devlab.hint("device_of")
    assert progress.hints_seen("device_of") == 1


def test_a_pass_counts_whatever_a_notebook_prints(monkeypatch):
    """A lesson may print the very answer: whoever writes the same has passed."""
    monkeypatch.setattr("devlab.checks.check.is_printed", lambda name, answer: True)

    def device_of(x):
        return x.device

    devlab.check(device_of)
    assert progress.has_passed("device_of")
