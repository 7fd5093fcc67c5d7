"""A class of hostile students beside honest ones, at every isolation level that the machine allows."""

import contextlib
import ctypes
import hashlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from classroom.forged_answers import FORGED, HIDDEN, KINDS
from classroom.hostile_answers import EVERYTHING, GREEDY, HARMS, WALLED
from classroom.students import LESSON, RIGHT, hand_in

from devlab.classroom import course
from devlab.classroom.collect import collect
from devlab.classroom.engine.grade import Settings, grade
from devlab.classroom.engine.quota import Limits
from devlab.classroom.engine.walls import isolation_available

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's")
ROOT = Path(__file__).resolve().parents[2]
BEST = isolation_available()
SHARED = 0x0DE50000 + os.getpid() % 0x10000  # the key of the memory that one of them leaves
HONEST = ("Honest Hana", "Middle Mia", "Zealous Zoe")  # first, between and last
# With so little output, what floods the watcher is over the limit long before its time is up.
SMALL = Limits(seconds=3, memory=512, processes=32, output=1)


def tree(folder: Path) -> dict[str, str]:
    """Return all that a folder holds and what each file is: content, permissions, time, attributes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        facts = path.lstat()
        said = f"{facts.st_mode} {facts.st_nlink} {facts.st_uid}"
        if path.is_file() and not path.is_symlink():
            content = hashlib.sha256(path.read_bytes()).hexdigest() if os.access(path, os.R_OK) else "locked"
            said += f" {facts.st_mtime_ns} {os.listxattr(path)} {content}"
        found[str(path.relative_to(folder))] = said
    return found


def processes(word: str) -> list[str]:
    """Return the processes that were started with a word or work in a folder of that name."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            said = (process / "cmdline").read_bytes().decode(errors="replace")
            if word in said or word in os.readlink(process / "cwd"):
                found.append(said)
    return found


def take_away(key: int) -> bool:
    """Take shared memory away by its key; tell whether there was any."""
    libc = ctypes.CDLL(None)
    found = libc.shmget(key, 0, 0)
    return found >= 0 and libc.shmctl(found, 0, None) == 0  # IPC_RMID


def listens(port: int) -> bool:
    """Tell whether anybody listens on a port of this machine."""
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Outside:
    """The world that the sandbox must keep: files, a port, a socket in a file, and this process's signals."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir()
        for name in HARMS:
            (folder / self.file(name)).write_text("as it was", encoding="utf-8")
        self.doors = [socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)]
        for door in self.doors:
            door.bind(("127.0.0.1", 0))
        self.doors.append(socket.socket(socket.AF_UNIX))
        # A path of a socket has 107 bytes at most.
        self.short = tempfile.mkdtemp(prefix="devlab-door-", dir="/tmp")
        os.chmod(self.short, 0o755)
        self.doors[2].bind(f"{self.short}/door")
        os.chmod(f"{self.short}/door", 0o777)
        self.doors[0].listen()
        self.doors[2].listen()
        self.threads = [threading.Thread(target=self._hear, args=(door,), daemon=True) for door in self.doors]
        for thread in self.threads:
            thread.start()

    @staticmethod
    def file(name: str) -> str:
        return name.replace(" ", "_")

    def places(self) -> dict[str, str]:
        """Return what words in capitals stand for."""
        return {
            "OUTSIDE": str(self.folder),
            "PORT": str(self.doors[0].getsockname()[1]),
            "DATAGRAMS": str(self.doors[1].getsockname()[1]),
            "DOOR": f"{self.short}/door",
            "GRADER": str(os.getpid()),
            "SHELL": repr(shutil.which("sh")),
        }

    def note(self, name: str, *_: object) -> None:
        """Write down that something came through, in the file of its name."""
        with contextlib.suppress(OSError):
            (self.folder / self.file(name)).write_text("something came", encoding="utf-8")

    def _hear(self, door: socket.socket) -> None:
        while True:
            try:
                with contextlib.ExitStack() as stack:
                    one = door
                    if door.type == socket.SOCK_STREAM:
                        one = stack.enter_context(door.accept()[0])
                    if word := one.recv(100).decode():
                        self.note(word)
            except OSError:
                return

    def close(self) -> None:
        for door in self.doors:
            with contextlib.suppress(OSError):
                door.shutdown(socket.SHUT_RDWR)
            door.close()
        for thread in self.threads:
            thread.join(5)
        shutil.rmtree(self.short)


@pytest.fixture
def outside(tmp_path):
    """Make the world that must stay as it is, and listen for what comes through."""
    world = Outside(tmp_path / "outside")
    before = signal.signal(signal.SIGUSR1, lambda *_: world.note("signals"))
    yield world
    signal.signal(signal.SIGUSR1, before)
    world.close()


def filled(source: str, places: dict[str, str]) -> str:
    """Put places where words in capitals stand for them."""
    for word, place in places.items():
        source = source.replace(word, place)
    return source


# What happens inside a process is the same at every level. Of what forges and hides, `make test` tries one
# of each kind.
FEW = {name: kind[name] for kind in KINDS.values() for name in list(kind)[:1]}
REST = {name: one for name, one in FORGED.items() if name not in FEW}
CORPORA = [pytest.param(BEST, {**EVERYTHING, **FEW}, id=f"level {BEST}")]
CORPORA += [
    pytest.param(level, corpus, id=f"level {level}{what}", marks=pytest.mark.thorough)
    for level, corpus, what in [
        (BEST, REST, ", forged"),
        *((level, {**WALLED, **HIDDEN}, "") for level in range(1, BEST)),
    ]
]


@pytest.mark.parametrize(("level", "corpus"), CORPORA)
def test_hostile_work_gets_what_it_deserves_and_changes_nothing(
    tmp_path, outside, level, corpus, monkeypatch
):
    """Marks, neighbours, files, processes and ports: all as if nobody had tried anything."""
    folder, downloads = tmp_path / "course", tmp_path / "downloads"
    course.lay_out(folder, ["0"])
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    places = outside.places() | {
        "FREE": str(free_port()),
        "SHARED": str(SHARED),
        "SOURCE": str(folder / "source" / LESSON / f"{LESSON}.ipynb"),
        "SOLUTIONS": str(ROOT / "solutions" / f"{LESSON}.ipynb"),
        "NEIGHBOUR": str(downloads / f"{HONEST[0]}_4700_assignsubmission_file_" / f"{LESSON}.ipynb"),
    }
    answers = {HONEST[0]: (RIGHT, {})}
    for name, hostile in corpus.items():
        answers[name] = ({**RIGHT, hostile.answers: filled(hostile.source, places)}, {})
    answers |= {name: (RIGHT, {}) for name in HONEST[1:]}
    hand_in(folder / "handout" / LESSON / f"{LESSON}.ipynb", downloads, answers)

    before = tree(tmp_path)
    settings = Settings(level, SMALL, jobs=2)
    records = {
        one.student: one for one in grade(collect([downloads], course.handouts_of(folder)), folder, settings)
    }

    wrong = []
    for name, hostile in corpus.items():
        one = records[name]
        gained = hostile.free >= level and name not in HARMS and hostile.points == (3, 0)
        deserved = (3, 5) if gained else hostile.points
        got = tuple(exercise.points for exercise in one.exercises)
        outcome = {exercise.name: exercise.outcome for exercise in one.exercises}.get(hostile.answers)
        # A busy machine may be too slow for what takes more than its share.
        told = {hostile.outcome, "timeout"} if name in GREEDY or name in HIDDEN else {hostile.outcome}
        # Below level 2 its folders are really locked, and what they hold cannot be seen.
        told |= {"killed"} if name == "locked folders" and level < 2 else set()
        if got != deserved or (hostile.outcome and outcome not in told):
            said = [(exercise.outcome, exercise.headline) for exercise in one.exercises]
            wrong.append(f"{name}: {got}, deserved {deserved} {hostile.outcome}: {said}")
    assert not wrong, "\n".join(wrong)
    assert {name: records[name].points for name in HONEST} == dict.fromkeys(HONEST, 8)
    assert {record.isolation for record in records.values()} == {level}

    after = tree(tmp_path)
    harmed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    free = {name for name, hostile in HARMS.items() if hostile.free >= level}
    expected = {f"outside/{Outside.file(name)}" for name in free}
    assert harmed - {"outside", "outside/made", "outside/renamed"} == expected - {"outside/makes"}
    assert (after.get("outside/made") is not None) == ("makes" in free)
    assert processes(str(tmp_path)) == []
    assert not listens(int(places["FREE"]))
    assert take_away(SHARED) == (EVERYTHING["shared memory"].free >= level)


def test_the_corpus_is_large_enough():
    """Issue 7 asks for forty, and issue 31 for as many more."""
    assert len(EVERYTHING) >= 40
    assert len(FORGED) >= 40
