"""The grader's side of the processes that grade: it starts them, asks them, and ends them."""

import contextlib
import json
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from devlab.classroom.engine import quota
from devlab.classroom.engine.quota import Limits

# Looking for garbage while PyTorch is imported would take a tenth of the time and find little.
START = "import gc; gc.disable(); from devlab.classroom.engine.zygote import main; main()"
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
ONE_THREAD += ("VECLIB_MAXIMUM_THREADS",)
# For each fork the kernel copies a table of all pages, and PyTorch's process has 40,000 small ones. glibc
# takes large ones for its heap where it is asked to, and keeps what is freed: clearing them takes long.
HEAP = {"GLIBC_TUNABLES": f"glibc.malloc.hugetlb=1:glibc.malloc.trim_threshold={256 << 20}"}
# Only these variables of the teacher's environment are passed on, since others may hold secrets. The last two
# tell where a cluster keeps packages and libraries: of them only absolute paths are passed on, so that no
# module comes from the folder that the grader was started in.
PASSED_ON = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "PYTHONPATH", "LD_LIBRARY_PATH")
WHOLE = PASSED_ON[-2:]
MOST_SAID = 1 << 16  # bytes of a message between a watcher and its template
SPARE = 60.0  # seconds that a template may take beyond the limits of a submission, to start above all


class EngineError(Exception):
    """Grading cannot go on; the message says why and what to do."""


class CannotBegin(EngineError):
    """No submission can be graded here, as where PyTorch cannot be imported."""


@dataclass(frozen=True)
class Settings:
    """How to grade: the isolation level, limits, and how many templates work side by side.

    `hidden` are paths that no submission may read, wherever they lie: the course, what was handed in, and
    the results.
    """

    level: int
    limits: Limits = field(default_factory=Limits)
    jobs: int = 1
    hidden: tuple[str, ...] = ()


class Family:
    """A zygote and all that descends from it: a watcher for each job, with its template and its checker.

    `steps` are the teacher's notebook with the solutions; `handles` are the ways to the watchers.
    """

    def __init__(self, settings: Settings, steps: Sequence):
        self.folder = tempfile.TemporaryDirectory(prefix="devlab-grade-", ignore_cleanup_errors=True)
        # The submission's user must be able to reach its scratch folder, and nothing else in here.
        os.chmod(self.folder.name, 0o711)
        pairs = [socket.socketpair() for _ in range(settings.jobs)]
        ends = [its.fileno() for _, its in pairs]
        kept = {name: _whole(name, value) for name, value in os.environ.items() if name in PASSED_ON}
        threads = dict.fromkeys(ONE_THREAD, "1")
        own = {"DEVLAB_DEVICE": os.environ.get("DEVLAB_DEVICE") or "sim", "DEVLAB_PROGRESS": os.devnull}
        said = Path(self.folder.name, "said")  # why the zygote could not begin
        with said.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", START],  # no module comes from the working folder
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=kept | threads | HEAP | own,
                pass_fds=ends,
                start_new_session=True,
            )
        for _, its in pairs:
            its.close()
        self.handles = [Handle(self.process.pid, ours, settings.limits.seconds, said) for ours, _ in pairs]
        names = [name for kind, name, _ in steps if kind == "check"]
        facts = {"folder": str(Path(self.folder.name).resolve()), "ends": ends, "names": names}
        facts |= {"level": settings.level, "limits": asdict(settings.limits), "hidden": settings.hidden}
        with contextlib.suppress(OSError), self.process.stdin as stream:  # else its handles say that it ended
            send(stream, facts)
            send(stream, {"steps": steps})

    def end(self, patience: float = 5) -> None:
        """End all processes, after some seconds by force; a thread that waits for an answer gets none."""
        for handle in self.handles:
            with contextlib.suppress(OSError):
                handle.ours.shutdown(socket.SHUT_RDWR)
        try:
            self.process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            quota.kill(self.process.pid)
            self.process.wait()

    def close(self) -> None:
        """End all processes, and remove what they left; no thread may be waiting for an answer."""
        self.end()
        for handle in self.handles:
            handle.close()
        self.folder.cleanup()


class Handle:
    """The grader's way to a watcher; `ended` tells that the watcher or its template is gone.

    `said` is the file that holds why the family could not begin.
    """

    def __init__(self, starter: int, ours: socket.socket, seconds: float, said: Path):
        self.process = starter  # until the watcher says which process it is
        self.ours = ours
        self.seconds = seconds
        self.said = said
        self.learned = self.ended = False
        self.requests, self.answers = ours.makefile("wb"), ours.makefile("rb", buffering=0)

    def ask(self, request: dict) -> dict:
        """Send a request and wait for its answer.

        Raises:
            CannotBegin: when the family never came so far as to have a template; the message says why.
            EngineError: when the template is gone.
        """
        patience = quota.longest(self.seconds, len(request["names"])) + SPARE
        try:
            if not self.learned:
                self.process, self.learned = self._answer(patience)["learned"], True
            send(self.requests, request)
            return self._answer(patience)
        except (OSError, ValueError) as problem:
            self.ended = True
            self._require_begun()
            raise EngineError(f"the template process ended ({problem})") from problem

    def _answer(self, patience: float) -> dict:
        if not select.select([self.answers], [], [], patience)[0]:
            self.ended = True
            quota.kill(self.process)
            raise EngineError(f"the template process gave no answer for {patience:g} seconds")
        answer = receive(self.answers)
        if answer is None:
            self.ended = True
            self._require_begun()
            raise EngineError("the template process ended")
        return answer

    def _require_begun(self) -> None:
        said = self.said.read_text(encoding="utf-8", errors="replace") if self.said.exists() else ""
        lines = said.strip().split("\n")
        indented = [place for place, line in enumerate(lines) if line.startswith(" ")]
        # The lines after a traceback's last step are the error.
        if error := " ".join(lines[indented[-1] + 1 :] if indented else lines).strip():
            raise CannotBegin(f"no process that grades could begin: {error}")

    def close(self) -> None:
        """Close the way; a request that was never read is lost."""
        for one in (self.requests, self.answers, self.ours):
            with contextlib.suppress(OSError):
                one.close()


def _whole(name: str, value: str) -> str:
    """Return the value of a variable of the environment; of a list of folders only the absolute ones."""
    if name not in WHOLE:
        return value
    return os.pathsep.join(path for path in value.split(os.pathsep) if os.path.isabs(path))


def receive(stream) -> dict | None:
    """Read one message, None at the end."""
    head = _exactly(stream, 4)
    return json.loads(_exactly(stream, struct.unpack(">I", head)[0])) if len(head) == 4 else None


def _exactly(stream, size: int) -> bytes:
    # By hand: a buffered stream would take the next message too.
    data = bytearray()
    while len(data) < size and (got := stream.read(size - len(data))):
        data += got
    return bytes(data)


def send(stream, message: dict) -> None:
    """Write one message."""
    text = json.dumps(message).encode()
    stream.write(struct.pack(">I", len(text)) + text)
    stream.flush()
