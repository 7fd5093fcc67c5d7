"""A trial leaves nothing behind and ends in time; where there are no trials, no change is shown."""

import torch

from devlab.explaining import choice, explained, wall
from devlab.explaining.template import Template
from devlab.explaining.trials import Trial

OUTSIDE = """
import os, pathlib, socket, subprocess
import torch
folder = pathlib.Path({folder!r})
torch.save({{"x": torch.ones(2)}}, folder / "kept.pt")
assert torch.load(folder / "kept.pt")["x"].sum() == 2
os.makedirs(folder / "new" / "deep")
(folder / "new" / "deep" / "notes.txt").write_text("a note")
with open(folder / "there.txt", "a") as file:
    file.write(" and more")
assert (folder / "there.txt").read_text() == "before and more"
def refused(act):
    try:
        act()
    except OSError:
        return True
    return False
assert refused(lambda: os.open(folder / "raw.txt", os.O_CREAT | os.O_WRONLY))
assert refused(lambda: os.truncate(folder / "there.txt", 0))
assert refused(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
assert refused(lambda: subprocess.run(["true"]))
"""


def tried(text: str) -> dict:
    """Return what comes of a program in a trial."""
    template = Template()
    try:
        return template.tried(Trial([["program.py", text]]))
    finally:
        template.end()


def test_nothing_that_a_trial_does_lasts(tmp_path):
    """Files, folders, checkpoints, the network, other programs: inside all seems well, outside nothing is."""
    (tmp_path / "there.txt").write_text("before")
    got = tried(OUTSIDE.format(folder=str(tmp_path)))
    assert got["status"] == "ok", got
    assert [path.name for path in tmp_path.iterdir()] == ["there.txt"]
    assert (tmp_path / "there.txt").read_text() == "before"


def test_a_program_that_does_not_end_is_ended():
    """After its limit; the next trial runs."""
    assert tried("while True:\n    pass\n")["status"] == "time"


MAGICS = """
import os
get_ipython().run_line_magic('timeit', '-n 2 -r 1 os.environ.update(TIMED="yes")')
assert os.environ["TIMED"] == "yes"
here = get_ipython().run_line_magic('pwd', '')
assert here == os.getcwd()
get_ipython().system('pip install something')
assert get_ipython().getoutput('echo out').n != 'out'
get_ipython().run_line_magic('matplotlib', 'inline')
get_ipython().run_cell_magic('time', '', 'x = 3')
assert x == 3
"""


def test_magics_mean_in_a_trial_what_they_mean_in_a_notebook():
    """A magic with options runs its statement, and a program that the wall refuses raises nothing."""
    got = tried(MAGICS)
    assert got["status"] == "ok", got


def failing():
    """Add what is on two devices, after a backward pass, which a fork of this process could not repeat."""
    weight = torch.ones(2, requires_grad=True)
    weight.sum().backward()
    return torch.ones(2, device="sim:0") * weight


def two_causes(device="sim:0"):
    """Meet two devices, and after that two dtypes."""
    table = torch.ones(2, 2)
    first = torch.ones(2, 2, device=device) * table
    return first @ torch.ones(2, 2, device=device, dtype=torch.float64)


def error_of(run) -> Exception:
    """Return the error that a function raises."""
    try:
        run()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_the_learners_process_is_untouched():
    """Its generators of random numbers draw what they would have drawn."""
    torch.manual_seed(3)
    error, before = error_of(failing), torch.get_rng_state()
    report = explained(error)
    assert report.changes, report.text()
    assert torch.equal(torch.get_rng_state(), before)


def test_two_causes_are_said_to_be_two():
    """Two changes, with both of which the program runs."""
    report = explained(error_of(two_causes))
    assert len(report.changes) == 2, report.text()
    assert "\n  and " in report.text()


def test_where_there_is_no_wall_no_change_is_shown(monkeypatch):
    """What is known is, and why nothing more."""
    monkeypatch.setattr(wall, "landlock_here", lambda: 0)
    report = explained(error_of(failing))
    assert (report.culprit, report.mend) == ("weight", "")
    assert "none is shown untried" in report.text()


def test_an_interrupt_keeps_what_is_known(monkeypatch):
    """Ctrl-C while changes are tried ends the trials alone."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(choice, "trial_of", interrupted)
    report = explained(error_of(failing))
    assert report.culprit == "weight"
    assert "interrupted" in report.text()
