"""Groups of processes, one for each rank: `devlab.launch` runs a program in them, as `torchrun` does."""

import atexit
import contextlib
import json
import multiprocessing
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch.distributed as dist

from devlab.panel import notebook_shell

LONGEST = 180  # seconds for a program: on a slow machine importing PyTorch takes many of them
STARTING = 24  # seconds more where a process must import PyTorch first
TURN = 0.05  # the most that counts between two looks at a group: the machine may stand still meanwhile
HERE = "127.0.0.1"
FORKS = hasattr(os, "fork")


def launch(program: str, world_size: int, *, quiet: bool = False) -> list[str]:
    """Run a program's text in several processes; print and return what each has said, in the order of ranks.

    Each process finds in its environment what `torchrun` puts there: RANK, LOCAL_RANK, WORLD_SIZE, and the
    address at which they meet. A process that has failed shows its error, which alone is printed when
    `quiet`, and those that still run after three minutes are ended. In a notebook a cell that begins with
    `%%launch 2` is such a program; with `%%launch 2 said` nothing is printed, and the list is named `said`.

    >>> said = launch("import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])", 2)
    rank 0 of 2
    rank 1 of 2
    """
    with tempfile.TemporaryDirectory(prefix="devlab-launch-") as folder:
        script = Path(folder, "train.py")
        script.write_text(program, encoding="utf-8")
        meeting = {"MASTER_ADDR": HERE}
        if os.name == "nt":
            # A store in this process would need libuv, which PyTorch for Windows lacks: rank 0 has the store.
            with socket.create_server((HERE, 0)) as free:
                port = free.getsockname()[1]
        else:
            # This process has the store, as torchrun does: rank 0 might end before the others have left.
            book = dist.TCPStore(HERE, 0, is_master=True, wait_for_workers=False)
            port = book.port
            meeting["TORCHELASTIC_USE_AGENT_STORE"] = "True"
        meeting["MASTER_PORT"] = str(port)
        code = f"import runpy; sys.argv = [{str(script)!r}]; runpy.run_path(sys.argv[0], run_name='__main__')"
        texts = []
        for rank, status in enumerate(_launcher.run(code, world_size, meeting, folder)):
            files = [Path(folder, f"{kind}{rank}") for kind in ("said", "errors")]
            said, errors = (file.read_text("utf-8", "replace") if file.exists() else "" for file in files)
            texts.append(said)
            # A process may die while it leaves its group, after its last line: no fault of the program.
            failed = status and ("Traceback" in errors or not said)
            print(said * (not quiet) + (errors if failed else ""), end="")
    return texts


def launch_cell(line: str, program: str) -> None:
    """Run a notebook's cell that begins with `%%launch`, a number of ranks and perhaps a name."""
    ranks, _, name = line.strip().partition(" ")
    if not (ranks.isdigit() and int(ranks) and (not name or name.isidentifier())):
        print("Write a number of ranks, %%launch 2, and perhaps a name for what they say, %%launch 2 said.")
        return
    said = launch(program, int(ranks), quiet=bool(name))
    if name:
        notebook_shell().user_ns[name] = said


class Launcher:
    """Starts groups of processes in milliseconds: they are forked from a server that has touched no device.

    `prepare` is the code that the server runs first, imports above all, in `starting` seconds at most. A
    process that still runs after so many `seconds` is ended. Where there is no fork (Windows) there is no
    server: each process starts anew, which takes seconds.
    """

    def __init__(self, prepare: str, seconds: float, starting: float = STARTING):
        self.prepare, self.seconds, self.starting = prepare, seconds, starting
        self._lock = threading.RLock()
        self._server: subprocess.Popen | None = None
        atexit.register(self.end)

    @property
    def limit(self) -> float:
        """Return the seconds after which a process is ended; where there is no fork, it must import first."""
        return self.seconds + (0 if FORKS else STARTING)

    def run(self, code: str, count: int, variables: dict[str, str], folder: str = "") -> list[int | None]:
        """Run Python code in a process for each rank; return exit statuses, None where a process was ended.

        The processes have this one's environment with `variables` and their ranks, its working directory and
        its path for imports. What a rank says goes to files of `folder`, and nowhere where there is none.
        """
        path, here = [entry or os.getcwd() for entry in sys.path], os.getcwd()
        code = f"import os, sys; os.chdir({here!r}); sys.path[:] = {path!r}\n{code}"
        ranks = []
        for rank in range(count):
            own = {"WORLD_SIZE": str(count), "RANK": str(rank), "LOCAL_RANK": str(rank)}
            files = [f"{folder}/{kind}{rank}" if folder else os.devnull for kind in ("said", "errors")]
            ranks.append((code, {**os.environ, **variables, **own}, files))
        if not FORKS:
            return watch([_spawn(*rank) for rank in ranks], self.limit)
        with self._lock:
            server, guard = self.wake(), threading.Timer(self.seconds + self.starting, self.end)
            guard.start()
            try:
                server.stdin.write(json.dumps([self.seconds, ranks]).encode() + b"\n")
                server.stdin.flush()
                return json.loads(server.stdout.readline())
            except (OSError, ValueError):  # the server has ended, and the processes with it
                return [-signal.SIGKILL] * count
            except BaseException:  # the learner interrupts
                self.end()
                raise
            finally:
                guard.cancel()

    def wake(self) -> subprocess.Popen | None:
        """Return the server, started if it does not run: this takes seconds, which `run` is then spared."""
        with self._lock:
            if FORKS and (self._server is None or self._server.poll() is not None):
                self.end()  # closes the pipes of a server that has ended
                self._server = subprocess.Popen(
                    [sys.executable, "-c", f"from {__name__} import serve; serve({self.prepare!r})"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            return self._server

    def end(self) -> None:
        """End the server and every process that it started."""
        server, self._server = self._server, None
        if server is None:
            return
        with contextlib.suppress(OSError):
            server.stdin.write(b"\n")
            server.stdin.close()
        try:
            server.wait(timeout=2)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        server.stdout.close()


def serve(prepare: str) -> None:
    """Be a server: run a group for each request that comes, and answer with the exit statuses."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # a process must read no requests and print no answers
        os.dup2(nothing, stream)
    exec(prepare, {})
    while len(request := requests.readline()) > 1:
        seconds, ranks = json.loads(request)
        processes = [_fork(seconds, *rank) for rank in ranks]
        statuses = watch(processes, seconds, lambda pause: select.select([requests], [], [], pause)[0])
        print(json.dumps(statuses), file=answers, flush=True)
    os._exit(0)


def watch(
    processes: list[tuple[Callable, Callable]], seconds: float, pause: Callable = time.sleep
) -> list[int | None]:
    """Wait for processes, end what still runs after so many seconds, and return the exit statuses.

    A process is two functions: the first tells its exit status, the second ends it. `pause` waits for the
    time that it is given; where it returns something true, all processes are ended at once.
    """
    left, before = seconds, time.monotonic()
    try:
        while any(status() is None for status, _ in processes) and left > 0 and not pause(0.002):
            left, before = left - min(time.monotonic() - before, TURN), time.monotonic()
        return [status() for status, _ in processes]
    finally:
        for _, end in processes:
            end()


def _fork(seconds: float, code: str, environment: dict[str, str], files: list[str]):
    work = seconds, code, environment, files
    process = multiprocessing.get_context("fork").Process(target=_run, args=work)
    process.start()

    def end() -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()

    return (lambda: process.exitcode), end


def _run(seconds: float, code: str, environment: dict[str, str], files: list[str]) -> None:
    """Be one rank of a server's: run the code with the rank's environment and files."""
    os.setpgid(0, 0)  # processes that the code starts end with this process
    signal.alarm(int(seconds) + 2)  # this process ends as well if the server has ended
    os.environ.clear()
    os.environ.update(environment)
    for stream, file in zip((sys.stdout, sys.stderr), files, strict=True):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), stream.fileno())
        stream.reconfigure(encoding="utf-8")
    exec(code, {})


def _spawn(code: str, environment: dict[str, str], files: list[str]):
    environment["PYTHONIOENCODING"] = "utf-8"
    with open(files[0], "wb") as said, open(files[1], "wb") as errors:
        streams = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": errors}
        process = subprocess.Popen([sys.executable, "-c", code], env=environment, **streams)
    return process.poll, lambda: (process.kill(), process.wait())


_launcher = Launcher("import torch.nn.parallel, torch.distributed.fsdp", LONGEST)
