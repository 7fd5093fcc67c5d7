"""Large pages under a process's code: what it runs stays what it was, and nothing is done where none are."""

import subprocess
import sys
from pathlib import Path

import pytest

from devlab.classroom.engine import large_pages

# A process that has its code exchanged while another thread runs it, and says how much of it then is where.
EXCHANGING = """
import threading, torch
from devlab.classroom.engine import large_pages
BEFORE
x, ended, wrong = torch.arange(64.0).reshape(8, 8), threading.Event(), []
right = (x @ x).sin().sum(0).tolist()
def work():
    while not ended.is_set():
        if (x @ x).sin().sum(0).tolist() != right:
            wrong.append(1)
running = threading.Thread(target=work)
running.start()
copied = large_pages.copy_code(large_pages.code_that_ran())
ended.set()
running.join()
large, runs = 0, False
for line in open("/proc/self/smaps"):
    if "-" in line.split()[0]:
        runs = line.split()[1] == "r-xp"
    elif runs and line.startswith("AnonHugePages"):
        large += int(line.split()[1]) * 1024
after = (x @ x).sin().sum(0).tolist() == right and not wrong
print(after, copied, large, torch.nn.Linear(3, 2)(torch.ones(1, 3)).shape[1])
"""


def exchanged(before: str = "") -> list[str]:
    """Return what such a process says, in which something was done before."""
    source = EXCHANGING.replace("BEFORE", before)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60)
    assert not done.returncode, done.stderr
    return done.stdout.split()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process has mapped")
def test_code_goes_on_as_it_was():
    """Another thread runs the very code; all that was copied is in large pages, which fork cheaply."""
    right, copied, large, two = exchanged()
    assert (right, two) == ("True", "2")
    assert copied == large
    if not large_pages.SIZE.exists():
        assert copied == "0"


FORKED = """
import os, torch
from devlab.classroom.engine import large_pages
code, x = large_pages.code_that_ran(), torch.ones(8, 8)
if not os.fork():
    there = sum(length for _, length in large_pages.code_that_ran())
    copied = large_pages.copy_code(code)
    # Where the kernel cannot do it, nothing is copied.
    all_of_it = not copied or (copied == sum(length for _, length in code) and copied > 2 * there)
    os._exit(0 if all_of_it and (x @ x).sum().item() == 512 else 1)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process has mapped")
def test_a_fork_copies_what_its_parent_has_run():
    """Of itself it knows next to nothing: the table of code in small pages is not taken over."""
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["0"], done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process has mapped")
@pytest.mark.parametrize(
    "before",
    [
        "large_pages.SIZE = large_pages.Path('/nowhere')",  # a kernel without large pages
        "large_pages.COLLAPSE = 999",  # one that cannot put pages together
        "large_pages.READ_EXEC = 1 << 20",  # one that lets nobody make code
    ],
)
def test_a_kernel_that_refuses_leaves_all_as_it_is(before):
    """No code is exchanged, and the process goes on."""
    assert exchanged(before) == ["True", "0", "0", "2"]


def test_a_system_without_large_pages_has_nothing_to_collapse(monkeypatch):
    """As on a Mac."""
    monkeypatch.setattr(large_pages, "SIZE", Path("/nowhere"))
    assert large_pages.collapse() == 0
    assert large_pages.code_that_ran() == []
