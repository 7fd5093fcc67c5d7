"""The processes of `ddp_gradients` begin together, and no answer is blamed for what the machine does."""

import importlib
import itertools
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from bank import ANSWERS, load

from devlab import launching
from devlab.checks.exercise import find
from devlab.checks.judge import judge
from devlab.checks.result import Outcome
from devlab.lessons import ranks

DATA = [([[1.0]], [[2.0]])] * 2

# Rank 0 has joined the group, and half a second later hears of it; a rank that does not wait is done by then.
SLOW_TO_JOIN = """
import time
import torch.distributed as dist
from devlab.lessons import ranks

joined = dist.init_process_group

def late(*args, rank, **kwargs):
    joined(*args, rank=rank, **kwargs)
    time.sleep(0 if rank else 0.5)
    open(f"{folder}/joined{rank}", "w").write(repr(time.time()))

dist.init_process_group = late
"""


def test_no_rank_begins_before_all_have_joined(tmp_path, monkeypatch):
    """A rank that ended before would close the connection under the other: seen once in some 300 runs."""
    folder = str(tmp_path)

    def when(rank, world_size, data):
        import time

        with open(f"{folder}/began{rank}", "w") as file:
            file.write(repr(time.time()))
        return []

    slow = launching.Launcher(f"folder = {folder!r}\n{SLOW_TO_JOIN}", ranks.LONGEST)
    monkeypatch.setattr(ranks, "_launcher", slow)
    assert [report.kind for report in ranks.run(when, DATA)] == ["list", "list"]
    slow.end()
    times = {
        path.name: float(path.read_text())
        for name in ("joined", "began")
        for path in tmp_path.glob(f"{name}?")
    }
    assert min(times["began0"], times["began1"]) >= max(times["joined0"], times["joined1"])


@pytest.mark.parametrize(
    ("turn", "needed", "given"),
    [(60, 5, 5), (0.01, 9999, 600)],
    ids=["a machine that stands still", "one that runs"],
)
def test_seconds_in_which_the_machine_stood_still_do_not_count(monkeypatch, turn, needed, given):
    """A function has six seconds of a machine that runs: `turn` is how long each look at it takes."""
    clock, looks, ended = itertools.count(step=turn), itertools.count(1), []

    def status() -> int | None:
        return None if next(looks) < needed else 0

    monkeypatch.setattr(launching, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    launching.watch([(status, lambda: ended.append(next(looks)))], ranks.LONGEST, lambda seconds: None)
    assert ended == [pytest.approx(given + 1, abs=3)]


@pytest.fixture(params=["forked", "spawned"])
def way(request, monkeypatch):
    """How processes start: Windows, which has no fork, spawns them."""
    monkeypatch.setattr(launching, "FORKS", request.param == "forked" and launching.FORKS)


def test_a_process_that_still_runs_is_ended_and_what_it_said_is_kept(way, tmp_path, monkeypatch):
    """Its exit status is None; that of a process which ended by itself is its own."""
    monkeypatch.setenv("DEVLAB_TEST", "x")
    monkeypatch.chdir(tmp_path)
    slow = launching.Launcher("import devlab", 5)
    code = (
        "import time; from os import environ as e, getcwd\n"
        "print(e['RANK'], e['WORLD_SIZE'], e['DEVLAB_TEST'], getcwd(), flush=True)\n"
        "sys.exit(3) if e['LOCAL_RANK'] == '0' else time.sleep(60)"
    )
    (tmp_path / "said").mkdir()
    assert slow.run(code, 2, {}, str(tmp_path / "said")) == [3, None]
    said = [(tmp_path / "said" / f"said{rank}").read_text() for rank in (0, 1)]
    assert said == [f"{rank} 2 x {tmp_path}\n" for rank in (0, 1)]
    slow.end()


def test_a_server_that_has_ended_is_replaced_and_leaves_no_pipe_open():
    """The template of `devlab.explain` ends by itself after a while, and pytest makes open pipes an error."""
    if not launching.FORKS:
        pytest.skip("only where processes are forked there is a server")
    launcher = launching.Launcher("", 60)
    ended = launcher.wake()
    ended.kill()
    ended.wait()
    assert launcher.run("pass", 1, {}) == [0]
    assert ended.stdin.closed
    assert ended.stdout.closed
    launcher.end()


def test_an_interrupted_group_ends_with_its_server(tmp_path, monkeypatch):
    """After Ctrl-C no process of the group is left, and the next group gets its own answer."""
    launcher, interrupted = launching.Launcher("import devlab", 60), tmp_path / "began"
    if not launching.FORKS:
        pytest.skip("only a server outlives an interrupted call")
    server = launcher.wake()

    def interrupt(*_: object) -> bytes:
        while not (interrupted.exists() and interrupted.read_text()):
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(server, "stdout", SimpleNamespace(readline=interrupt, close=server.stdout.close))
    code = f"import time; open({str(interrupted)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    with pytest.raises(KeyboardInterrupt):
        launcher.run(code, 1, {})
    monkeypatch.undo()
    with pytest.raises(ProcessLookupError):
        os.kill(int(interrupted.read_text()), 0)
    assert launcher.run("pass", 2, {}) == [0, 0]
    launcher.end()


@pytest.fixture
def no_way_to_meet(monkeypatch):
    """Leave the ranks no network to meet over."""
    monkeypatch.setattr(ranks, "_met", True)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nowhere")


# Thorough, for its processes wait until PyTorch gives up; the two tests below pretend the same.
@pytest.mark.thorough
def test_processes_that_do_not_find_each_other_are_no_fault_of_the_answers(no_way_to_meet):
    """PyTorch's own words say what is wrong with the machine."""
    right = next(answer for answer in load(ANSWERS / "ddp_gradients.py") if answer.fragment is None)
    result = judge(find("ddp_gradients"), right.code)
    assert result.outcome is Outcome.SKIPPED
    assert result.headline.startswith("its processes did not find each other (")
    assert "nowhere" in result.headline
    assert result.headline.endswith("): run the check once more")
    assert result.points == 0


@pytest.fixture
def tries(monkeypatch):
    """How each further try to run a group shall go; those that were run are taken out."""
    going = []
    monkeypatch.setattr(
        ranks, "_run_once", lambda *_: [ranks.Report(kind=going.pop(0), error="too late")] * 2
    )
    monkeypatch.setattr(ranks, "_met", True)
    return going


def test_a_machine_that_stood_still_gets_a_second_try(tries):
    """The function has not run, so that nothing of it is run twice."""
    tries += ["apart", "list", "list"]
    assert [report.kind for report in ranks.run(len, DATA)] == ["list", "list"]
    assert tries == ["list"]


def test_a_machine_on_which_nobody_meets_gets_one_try_a_row(tries):
    """Each takes some seconds; as soon as processes have met, there are two again."""
    tries += ["apart", "apart", "apart", "list", "apart", "list"]
    for left in (4, 3):
        with pytest.raises(ranks.Apart, match="too late"):
            ranks.run(len, DATA)
        assert len(tries) == left
    for left in (2, 0):
        assert ranks.run(len, DATA)
        assert len(tries) == left


def test_classes_that_a_notebook_makes_are_sent():
    """A data class, a named tuple, a class with methods of every kind."""
    notebook = {"__name__": "__main__"}
    exec(
        """
from collections import namedtuple
from dataclasses import dataclass

@dataclass
class Shard:
    x: int
    y: int = 5

Pair = namedtuple("Pair", "x y")

class Sum:
    def __init__(self, *numbers):
        self.numbers = numbers

    @property
    def total(self):
        return self.added(self.numbers)

    @staticmethod
    def added(numbers):
        return sum(numbers)

    @classmethod
    def of(cls, *numbers):
        return cls(*numbers)

def work():
    return Sum.of(Shard(1).x, Shard(1).y, *Pair(x=2, y=3)).total
""",
        notebook,
    )
    sent = ranks.ship(notebook["work"])
    program = "import pickle, sys; print(pickle.load(sys.stdin.buffer)())"
    done = subprocess.run([sys.executable, "-c", program], input=sent, capture_output=True)
    assert done.stdout.decode().strip() == "11", done.stderr.decode()


def test_a_function_of_the_learners_own_file_runs_in_both(tmp_path, monkeypatch):
    """What is imported from a file on the path is found in the other processes, too."""
    (tmp_path / "my_answers.py").write_text(
        "import torch\nfrom my_model import make\n\n\n"
        "def mine(rank, world_size, data):\n    return [make()]\n",
        encoding="utf-8",
    )
    (tmp_path / "my_model.py").write_text(
        "import torch\n\n\ndef make():\n    return torch.ones(2)\n", "utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    reports = ranks.run(importlib.import_module("my_answers").mine, DATA)
    assert [report.kind for report in reports] == ["list", "list"], reports
    assert [report.result[0]["values"] for report in reports] == [[1.0, 1.0]] * 2


def test_a_process_of_the_two_starts_no_others(monkeypatch):
    """A file that checks its own answer when it is imported does so in the other processes as well."""
    monkeypatch.setenv(ranks.INSIDE, "1")
    with pytest.raises(ranks.CannotShip):
        ranks.run(lambda rank, world_size, data: [], DATA)


def test_a_function_that_computes_for_ever_is_ended_at_its_line():
    """A loop without an end is a verdict, which names the line."""

    def endless(rank, world_size, data):
        while True:
            rank += 1

    reports = ranks.run(endless, DATA)
    assert {report.kind for report in reports} == {"late"}, reports
