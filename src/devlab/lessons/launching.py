"""`devlab.launch`: start a program once for each rank of a group, as `torchrun` does."""

import contextlib
import multiprocessing
import os
import runpy
import socket
import sys
import tempfile
import time
from pathlib import Path

PATIENCE = 180  # seconds for a program in all: on a slow machine importing PyTorch takes many of them
# What a server imports once, where processes can begin as copies of it: this takes seconds.
PRELOADED = ["torch", "torch.nn.parallel", "torch.distributed.fsdp"]


def launch(program: str, world_size: int) -> list[str]:
    """Run the text of a program in several processes; print and return what each has said, in their order.

    Each process finds in its environment what `torchrun` puts there: RANK, LOCAL_RANK, WORLD_SIZE, and the
    address at which they meet. A process that has failed shows its error, and those that still run after
    three minutes are ended.

    >>> said = launch("import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])", 2)
    rank 0 of 2
    rank 1 of 2
    """
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": str(world_size)}
    with tempfile.TemporaryDirectory(prefix="devlab-launch-") as folder:
        script = Path(folder) / "train.py"
        script.write_text(program, encoding="utf-8")
        said = [(Path(folder) / f"said{rank}", Path(folder) / f"errors{rank}") for rank in range(world_size)]
        processes = []
        for rank, texts in enumerate(said):
            environment = dict(os.environ) | meeting | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            arguments = str(script), environment, *map(str, texts)
            processes.append(_context().Process(target=_run, args=arguments))
        until = time.monotonic() + PATIENCE
        try:
            for process in processes:
                process.start()
            for process, (text, errors) in zip(processes, said, strict=True):
                process.join(max(0, until - time.monotonic()))
                print(_read(text) + (_read(errors) if process.exitcode else ""), end="")
            return [_read(text) for text, _ in said]
        finally:
            for process in processes:
                with contextlib.suppress(ValueError, AttributeError):  # it has not begun
                    process.kill()
                    process.join()


def _context() -> multiprocessing.context.BaseContext:
    """Return how processes begin: as copies of a server that has imported PyTorch and touched no device.

    Windows has no such server, and there each process imports PyTorch itself.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def _run(script: str, environment: dict[str, str], said: str, errors: str) -> None:
    """Be one rank: run the program with its environment; what it says and its errors go to files."""
    os.environ.clear()
    os.environ.update(environment)
    for number, name in ((1, said), (2, errors)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
    sys.argv = [script]
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  it ends with the process
    runpy.run_path(script, run_name="__main__")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
