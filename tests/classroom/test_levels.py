"""Isolation levels: found by trying, required on request, and what the filter of system calls refuses."""

import os
import platform
import subprocess
import sys
import venv
from pathlib import Path

import numpy
import pytest
import torch
from classroom.students import LESSON, RIGHT, hand_in

import devlab
from devlab.classroom import course
from devlab.classroom.engine import walls
from devlab.classroom.engine.walls import isolation_available
from devlab.classroom.results import Record

BEST = isolation_available()
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's"),
    pytest.mark.skipif(not walls.filter_known(), reason=f"no filter is made for {platform.machine()}"),
]
# Machines with fewer walls than this one: what a filter refuses is as good as absent.
LESSER = {1: "landlock_create_ruleset 444 444", 2: "unshare 272 97"}
WITHOUT = (
    "import errno, platform\nfrom devlab.classroom.engine import walls\n"
    "column = walls.MACHINES[platform.machine()][1]\n"
    "walls.enter_filter(walls._whole(walls._each({refused!r}, column, errno.EPERM)))\n"
)


def on_lesser(level: int, code: str) -> subprocess.CompletedProcess:
    """Run Python where the machine allows a level and no more."""
    program = WITHOUT.format(refused=LESSER[level]) + code
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def cli(command: list[str]) -> str:
    """Return the Python that runs a command of devlab's."""
    return f"from devlab import cli\nraise SystemExit(cli.main({command}))"


@pytest.mark.parametrize("level", [level for level in LESSER if level < BEST])
def test_a_lesser_machine_is_found_out_and_refused(tmp_path, level):
    """--require-isolation grades nothing where a wall is missing, and nothing runs."""
    folder = tmp_path / "course"
    course.lay_out(folder, ["0"])
    hand_in(folder / "handout" / LESSON / f"{LESSON}.ipynb", tmp_path / "downloads", {"Anna": (RIGHT, {})})
    out = tmp_path / "results" / "results.jsonl"
    command = ["grade", str(tmp_path / "downloads"), "--course", str(folder), "--out", str(out)]
    found = on_lesser(level, "from devlab.classroom.engine.walls import *\nprint(isolation_available())")
    assert found.stdout.strip() == str(level), found.stderr
    refused = on_lesser(level, cli([*command, "--require-isolation", "3"]))
    assert refused.returncode == 1
    words = f"This machine allows isolation level {level}, and 3 is required: nothing was graded.\n"
    assert refused.stderr == words
    assert not out.parent.exists()
    allowed = on_lesser(level, cli([*command, "--require-isolation", str(level)]))
    assert allowed.returncode == 0, allowed.stderr
    assert f"1 graded, 0 not, at isolation level {level} of 3" in allowed.stdout
    assert ("could read and change all that you can" in allowed.stdout) == (level == 1)


@pytest.mark.skipif(BEST < 3, reason="this machine has no namespaces to take away")
def test_walls_that_fail_are_the_graders_failure(tmp_path):
    """Where a wall cannot be built nothing runs, and nobody gets a zero for it."""
    folder = tmp_path / "course"
    course.lay_out(folder, ["0"])
    downloads = tmp_path / "downloads"
    answer = {"device_of": f"open({str(tmp_path / 'ran')!r}, 'w').close()"}
    hand_in(folder / "handout" / LESSON / f"{LESSON}.ipynb", downloads, {"Anna": (answer, {})})
    code = "from pathlib import Path\nfrom devlab.classroom import collect, course\n"
    code += "from devlab.classroom.engine.grade import Settings, grade\n"
    code += (
        f"found = collect.collect([Path({str(downloads)!r})], course.handouts_of(Path({str(folder)!r})))\n"
    )
    code += f"for one in grade(found, Path({str(folder)!r}), Settings(3)): print(one.line())"
    done = on_lesser(2, code)
    (record,) = map(Record.from_line, done.stdout.splitlines())
    assert {one.outcome for one in record.exercises} == {"grader error"}
    assert "walls of isolation level 3 could not be built" in record.exercises[0].headline
    assert not (tmp_path / "ran").exists()


# What a submission might try, each a line that must raise this; OTHER is a process of the same user.
REFUSED = {
    "import socket; socket.socket()": "PermissionError",
    "import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)": "PermissionError",
    "import socket; socket.socket(socket.AF_UNIX)": "PermissionError",
    "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)": "PermissionError",
    "import socket; socket.socket(40, socket.SOCK_STREAM)": "PermissionError",  # AF_VSOCK
    "call(101, 16, OTHER)": "PermissionError",  # ptrace, to attach
    "call(310, OTHER, 0, 0, 0, 0, 0)": "PermissionError",  # process_vm_readv
    "call(425, 8, 0)": "Function not implemented",  # io_uring_setup
    "call(435, 0, 0)": "Function not implemented",  # clone3
    "call(56, 0x10000011, 0, 0, 0, 0)": "PermissionError",  # clone into a new user namespace
    "call(0x40000000 + 39)": "Function not implemented",  # getpid of another kind of program
    "call(500)": "Function not implemented",
    "import os; os.truncate(FILE, 0)": "PermissionError",
    "import os; os.open(FILE, os.O_RDONLY | os.O_TRUNC)": "PermissionError",
    "import os; os.kill(OTHER, 0)": "PermissionError",
    "import os; os.kill(-1, 0)": "PermissionError",
    "import signal; signal.pidfd_send_signal(os.pidfd_open(OTHER), 0)": "PermissionError",
    "import resource; resource.prlimit(OTHER, resource.RLIMIT_CPU)": "PermissionError",
    "import os; os.setpriority(os.PRIO_PROCESS, OTHER, 19)": "PermissionError",
    "call(29, 5, 4096, 0o1666)": "PermissionError",  # shmget
    "call(250, 0, -3, 0)": "PermissionError",  # keyctl
}
# And what honest code does.
ALLOWED = [
    "import subprocess; assert subprocess.run(['true']).returncode == 0",
    "import socket; one, other = socket.socketpair(); one.send(b'x'); assert other.recv(1) == b'x'",
    "import threading; thread = threading.Thread(target=print); thread.start(); thread.join()",
    "import os; os.kill(os.getpid(), 0); os.kill(0, 0)",
    "import asyncio; asyncio.run(asyncio.sleep(0))",
    "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
    "import os; open(FILE, 'w').write('whole'); assert open(FILE).read() == 'whole'",
    "import os; os.truncate(os.open(FILE, os.O_RDWR), 1); assert open(FILE).read() == 'w'",
    "import shutil; shutil.copy(FILE, FILE + '2')",
    "import os, signal\nif os.fork() == 0: os.abort()\nassert os.wait()[1]",
]
FILTERED = """
import ctypes, os
from devlab.classroom.engine import walls
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    if libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
OTHER, FILE = {other}, {file!r}
if {network}: import socket; socket.socket()
walls.enter_filter(walls.filter_for_submissions(network={network}, signals={signals}))
for tried in {tries}:
    try:
        exec(tried)
        print("done")
    except OSError as error:
        print(type(error).__name__, error)
print(oct(os.stat(FILE).st_mode & 0o777), os.stat(FILE).st_mtime_ns)
"""


# What is imported late, by this process and by one that it starts, which lists folders to find it.
WALLED = """
import subprocess, sys, torch
from pathlib import Path
from devlab.classroom.engine import walls
assert not Path(torch.__file__).is_relative_to(sys.prefix)
walls.enter_walls(walls.ruleset(Path({scratch!r})), 2)
import torch.utils.benchmark
subprocess.run([sys.executable, "-c", "import numpy"], check=True)
"""


@pytest.mark.skipif(BEST < 2, reason="this machine has no Landlock")
def test_packages_that_lie_elsewhere_can_be_read(tmp_path):
    """A user's own, or those that one environment lends another: also what is imported behind the walls."""
    scratch, made = tmp_path / "scratch", tmp_path / "made"
    scratch.mkdir()
    venv.create(made, symlinks=True)
    (own,) = made.glob("lib/python*/site-packages")
    lent = {str(Path(one.__file__).parents[1]) for one in (torch, numpy, devlab)}
    (own / "lent.pth").write_text("\n".join(lent), encoding="utf-8")
    command = [str(made / "bin" / "python"), "-c", WALLED.format(scratch=str(scratch))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_solutions_are_kept_back_wherever_packages_lie(tmp_path, monkeypatch):
    """Of a folder of packages all can be read but the course that is in there."""
    packages = tmp_path / "site-packages"
    for name in ("numpy/core.py", "devlab/cli.py", "devlab/course/solutions/00.ipynb"):
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text("", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages), str(tmp_path)])
    found = {path for path in walls.readable.__wrapped__() if path.is_relative_to(tmp_path)}
    assert found == {packages / "numpy", packages / "devlab" / "cli.py"}


def filtered(tmp_path: Path, tries: list[str], network: bool = False, signals: bool = False) -> list[str]:
    """Run lines under the filter in another process; return what came of each, and of a file."""
    file = tmp_path / "file"
    file.write_text("as it was", encoding="utf-8")
    facts = {"other": os.getppid(), "file": str(file), "tries": tries, "network": network, "signals": signals}
    done = subprocess.run(
        [sys.executable, "-c", FILTERED.format(**facts)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers below are x86_64's")
def test_the_filter_refuses(tmp_path):
    """Each for itself, by the kernel's word."""
    got = filtered(tmp_path, list(REFUSED))
    for (tried, expected), came in zip(REFUSED.items(), got, strict=False):
        assert expected in came, f"{tried}: {came}"
    assert (tmp_path / "file").read_text(encoding="utf-8") == "as it was"


def test_the_filter_leaves_honest_code_alone(tmp_path):
    """Programs, threads, pipes, files, its own signals."""
    got = [line for line in filtered(tmp_path, ALLOWED) if line]
    assert got[:-1] == ["done"] * len(ALLOWED)


def test_permissions_and_dates_stay_whatever_a_submission_believes(tmp_path):
    """Landlock does not watch them, and code that sets them in passing must not fail."""
    file = tmp_path / "file"
    tries = ["os.chmod(FILE, 0)", "os.utime(FILE, (0, 0))", "os.chown(FILE, 1, 1)"]
    tries += ["os.setxattr(FILE, 'user.mark', b'1')", "os.fchmod(os.open(FILE, os.O_RDONLY), 0)"]
    *got, last = filtered(tmp_path, tries)
    assert got == ["done"] * len(tries)
    facts = file.stat()
    assert last == f"{oct(facts.st_mode & 0o777)} {facts.st_mtime_ns}"
    assert facts.st_mode & 0o600 == 0o600
    assert facts.st_mtime_ns > 0
    assert os.listxattr(file) == []
    assert facts.st_uid == os.geteuid()


def test_a_network_of_its_own_has_sockets_of_the_internets_kinds_alone(tmp_path):
    """For the lesson whose processes meet on 127.0.0.1."""
    tries = ["import socket; socket.socket()", "import socket; socket.socket(socket.AF_INET6)"]
    tries += ["import socket; socket.socket(socket.AF_UNIX)", "os.kill(OTHER, 0)"]
    got = filtered(tmp_path, tries, network=True, signals=True)
    assert got[:2] == ["done", "done"]
    assert "PermissionError" in got[2]
    assert got[3] == "done"
