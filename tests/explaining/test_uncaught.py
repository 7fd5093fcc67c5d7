"""Uncaught errors on the simulated device show the frames that a real GPU would, and say how to see all."""

import re
import subprocess
import sys
import traceback

import pytest
import torch

from devlab.explaining import explained, uncaught
from devlab.explaining.uncaught import without_simulator


def trace_of(run):
    """Return the traceback of the error that a function raises."""
    try:
        run()
    except Exception as error:
        return error.__traceback__
    pytest.fail("nothing was raised")


def mixed():
    """Add what is on two devices."""
    return torch.ones(3, device="sim:0") + torch.ones(3)


def through_a_module():
    """Call a module that was not moved."""
    return torch.nn.Linear(3, 2)(torch.ones(3, device="sim:0"))


def no_such_device():
    """Ask for a device that is not there."""
    return torch.ones(3, device="sim:7")


def no_memory():
    """Ask for more than there is."""
    return torch.ones(2**40, device="sim:0")


def in_lower_precision():
    """Let autocast hand the operation on."""
    with torch.autocast("sim", dtype=torch.bfloat16):
        return torch.ones(3, 3, device="sim:0") @ torch.ones(3, 3)


def in_a_hook():
    """Fail in a function that the backward pass calls."""
    x = torch.ones(3, device="sim:0", requires_grad=True)
    x.register_hook(lambda gradient: gradient * torch.ones(3))
    x.sum().backward()


@pytest.mark.parametrize(
    ("run", "last"),
    [
        (mixed, "mixed"),
        (through_a_module, "forward"),
        (no_such_device, "no_such_device"),
        (no_memory, "no_memory"),
        (in_lower_precision, "in_lower_precision"),
        (in_a_hook, "<lambda>"),
    ],
)
def test_the_traceback_ends_at_the_last_line_that_is_not_the_simulators(run, last):
    """It is the learner's line, or that of the library which the learner called; those above stay."""
    whole = trace_of(run)
    short = traceback.extract_tb(without_simulator(whole))
    assert short[-1].name == last
    assert not [frame for frame in short if "/sim/" in frame.filename]
    others = [f.name for f in traceback.extract_tb(whole) if not re.search(r"/sim/|_ops", f.filename)]
    assert [frame.name for frame in short] == others
    assert run.__name__ in [frame.name for frame in short]


def test_an_error_that_is_not_the_simulators_keeps_its_traceback():
    """The very same object: nothing was rebuilt."""
    whole = trace_of(lambda: [][1])
    assert without_simulator(whole) is whole


def chained():
    """Raise an error from an error of the simulator's."""
    try:
        mixed()
    except RuntimeError as error:
        raise ValueError("step 3") from error


def grouped():
    """Raise several errors at once."""
    raise ExceptionGroup("two", [ValueError(), ValueError()])


@pytest.mark.parametrize("run", [chained, grouped])
def test_errors_that_are_chained_or_grouped_are_shown_as_ever(run):
    """What they say of each other is in their tracebacks."""
    with pytest.raises((ValueError, ExceptionGroup)) as caught:
        run()
    assert uncaught.shortened(caught.value, caught.value.__traceback__) is caught.value.__traceback__


PROGRAM = """
import devlab, torch
device = devlab.start()
devlab.start()
def add(x):
    return x + torch.ones(3)
add(torch.ones(3, device=device))
"""


# The whole traceback is thorough: a notebook's is asked for below.
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_script_ends_with_its_own_frames(tmp_path, whole):
    """Two frames and a line that says how to see all; with the setting, all of them and no such line."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    setting = {"DEVLAB_TRACEBACK": "whole"} if whole else {}
    done = subprocess.run(
        [sys.executable, path],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", "DEVLAB_DEVICE": "sim", **setting},
    )
    assert done.returncode == 1
    assert ("/sim/" in done.stderr) is whole
    assert done.stderr.count("  File ") == 2 or whole
    assert done.stderr.count("DEVLAB_TRACEBACK=whole in the environment shows them.") == (not whole)


CELLS = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("import devlab, torch; device = devlab.start(); device = devlab.start()")
shell.run_cell("torch.ones(3, device=device) + torch.ones(3)")
print("== whole")
shell.run_cell("%tb")
print("== other")
shell.run_cell("{}['missing']")
shell.run_cell("1 +")
"""


def test_a_notebook_shows_its_own_cell_and_tb_the_rest():
    """One frame, a line under it, the explanation; `%tb` shows the simulator's, and others are untouched."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CELLS],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", "DEVLAB_DEVICE": "sim", "HOME": "/nonexistent"},
    )
    short, _, rest = done.stdout.partition("== whole")
    whole, _, other = rest.partition("== other")
    assert "/sim/" not in short, done.stdout + done.stderr
    order = [short.index(part) for part in ("RuntimeError", "`%tb` shows them.", "devlab explains")]
    assert order == sorted(order)
    assert "/sim/" in whole
    assert "KeyError" in other
    assert "SyntaxError" in other
    assert "left out" not in whole + other


def test_explain_still_reads_the_whole_traceback():
    """What is shown is shorter; what is there to read is not."""
    with pytest.raises(RuntimeError) as caught:
        through_a_module()
    before = caught.value.__traceback__
    assert explained(caught.value).culprit
    assert caught.value.__traceback__ is before
