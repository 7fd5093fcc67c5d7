"""Calls that make no sense get an answer, never a traceback."""

import functools
import json
from pathlib import Path

import pytest
import torch

import devlab
from devlab.checks.placeholder import STUB, is_blank
from devlab.checks.result import Outcome


def device_off(x):
    """Misspelt."""
    return x.device


def places(batch):
    """One that is there, and is passed inside of something else."""


class device_of:
    """A class where a function is asked for."""


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (3, "this is an int"),
        (None, "this is None"),
        ("device_of", "this is the name in quotes"),
        ("devise_of", "did you mean device_of"),
        (lambda x: x.device, "a lambda has no name that says which exercise it answers"),
        (device_off, "did you mean device_of"),
        (device_of, "the task asks for a function, and this is a class"),
        (torch.device("cpu"), "takes the function itself"),
        (torch, "takes the function itself"),
        (torch.nn.Linear(1, 1), "a Linear has no name that says which exercise it answers"),
        (print, "there is no exercise of this name"),
        (functools.partial(device_off, 3), "a partial has no name that says which exercise it answers"),
        (functools.partial(places), "devlab.check(places)"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_check_answers_kindly(answer, said, capsys, progress_file):
    """The message says what was wrong and what to do; nothing is remembered as an attempt."""
    result = devlab.check(answer)
    shown = capsys.readouterr().out
    assert said in shown
    assert "next" in shown
    assert result.outcome is Outcome.ERROR
    assert not result.passed
    assert not progress_file.exists()


def test_call_instead_of_the_function(capsys):
    """`check(device_of(x))` passes a device: the message says to leave the parentheses out."""
    devlab.check(torch.device("cpu"))
    assert "without parentheses" in capsys.readouterr().out


@pytest.mark.parametrize("command", [devlab.hint, devlab.solution, devlab.reset])
@pytest.mark.parametrize(
    "answer", [3, None, device_off, "nothing_like_it"], ids=["int", "None", "misspelt", "unknown"]
)
def test_help_answers_kindly(command, answer, capsys):
    """Hint, solution and reset take the same care."""
    command(answer)
    assert "next:" in capsys.readouterr().out


def test_an_empty_body_is_not_attempted():
    """A docstring, `pass` or `...` alone is the same as the stub."""

    def device_of(x):
        """Tomorrow."""

    assert devlab.check(device_of).outcome is Outcome.NOT_ATTEMPTED

    def device_of(x): ...

    assert devlab.check(device_of).outcome is Outcome.NOT_ATTEMPTED


def test_the_stub_is_not_attempted(capsys):
    """The stub raises NotImplementedError; that is never an error of the learner's."""

    def device_of(x):
        raise NotImplementedError("your code here")

    result = devlab.check(device_of)
    assert result.outcome is Outcome.NOT_ATTEMPTED
    assert result.points == 0
    assert result.possible == 3
    assert "not attempted yet" in capsys.readouterr().out


def test_stubs_are_known_as_they_are_handed_out_without_being_called():
    """Of ddp_gradients that saves seconds; whoever wrote a line before the stub's is still called."""
    notebooks = sorted((Path(__file__).parents[2] / "exercises").glob("[0-9]*.ipynb"))
    cells = ["".join(cell["source"]) for one in notebooks for cell in json.loads(one.read_bytes())["cells"]]
    stubs = [cell for cell in cells if cell.startswith("def ") and STUB in cell]
    assert len(stubs) > 50  # the others are classes, and broken programs to mend
    for source in stubs:
        name, names = source.removeprefix("def ").partition("(")[0], {"torch": torch}
        exec(f"from __future__ import annotations\n{source}", names)
        assert is_blank(names[name]), name

    def begun(x):
        print(x.device)
        raise NotImplementedError("your code here")

    def told(x):
        raise ValueError("your code here")

    def of_its_own(x):
        raise NotImplementedError("sparse tensors")

    assert not any(map(is_blank, (begun, told, of_its_own)))


def test_a_learners_own_not_implemented_is_an_error():
    """Only the stub's own words mean the stub."""

    def device_of(x):
        raise NotImplementedError("sparse tensors")

    assert devlab.check(device_of).outcome is Outcome.ERROR
