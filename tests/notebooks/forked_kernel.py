"""Kernels for nbval that are forked from a process which has imported PyTorch.

To import PyTorch is most of what a kernel costs, and each notebook has a kernel of its own. Here a first
process imports what every kernel imports. For each kernel it forks, and the fork goes on as
`python -m ipykernel_launcher` does: with its own environment, folder, session and sockets.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from importlib import import_module

SECONDS = 30  # that a killed kernel may take to end


class First:
    """The process that kernels are forked from. It starts with the first kernel and ends with pytest."""

    def __init__(self):
        self.process = None

    def launch(self, command: list[str], *, env: dict[str, str], cwd: str = ".", **_) -> "Kernel":
        """Start a kernel, in the place of `jupyter_client.launcher.launch_kernel`."""
        if self.process is None:
            streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self.process = subprocess.Popen([sys.executable, __file__], text=True, env=env, **streams)
        asked = {
            "arguments": command[command.index("-f") :],
            "environment": dict(env),
            "folder": os.path.abspath(cwd),
        }
        print(json.dumps(asked), file=self.process.stdin, flush=True)
        return Kernel(int(self.process.stdout.readline()))

    def end(self) -> None:
        """End the process; a kernel that is left ends when it misses the process."""
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()


class Kernel:
    """What Jupyter uses of `subprocess.Popen`, for a process that is another one's child."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int):
        self.pid = pid

    def poll(self) -> int | None:
        """Return None while the kernel runs. Its exit status goes to its parent, so 0 stands for each."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return 0
        return None

    def wait(self) -> int:
        """Wait until the kernel has ended."""
        deadline = time.monotonic() + SECONDS
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the kernel {self.pid} did not end")
            time.sleep(0.01)
        return 0

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the kernel has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)


def serve() -> None:
    """Fork a kernel for each line of the standard input, and print its process id."""
    import torch

    for name in ("ipykernel.kernelapp", "devlab.sim"):
        import_module(name)
    torch.set_num_threads(1)  # as in the kernels' environment; a fork takes no threads along
    before = signal.signal(signal.SIGCHLD, reap)
    for line in sys.stdin:
        said, saying = os.pipe()
        child = os.fork()
        if child:
            os.close(saying)
            os.read(said, 1)  # the kernel has a session of its own now, and may be signalled as a group
            os.close(said)
            print(child, flush=True)
            continue
        os.setsid()
        os.write(saying, b".")
        signal.signal(signal.SIGCHLD, before)
        become_kernel(**json.loads(line), pipes=(said, saying))


def reap(*_) -> None:
    """Take the exit status of kernels that ended: they stay as zombies until then."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def become_kernel(arguments: list[str], environment: dict[str, str], folder: str, pipes) -> None:
    """Go on as a kernel does that was started from a shell, and never return."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    for pipe in pipes:
        os.close(pipe)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv[:] = [sys.argv[0], *arguments]
    from ipykernel.kernelapp import IPKernelApp

    IPKernelApp.launch_instance(arguments, parent_handle=os.getppid())
    sys.exit()


if __name__ == "__main__":
    sys.path.pop(0)  # Python puts this file's folder there; a kernel finds the notebook's in its place
    serve()
