"""`devlab.launch`: start a program once for each rank of a group, as `torchrun` does."""

import multiprocessing
import os
import runpy
import socket
import sys
import tempfile
import time
from pathlib import Path

import torch.distributed as dist

PATIENCE = 180  # seconds for a program in all: on a slow machine importing PyTorch takes many of them
HERE = "127.0.0.1"
# What a server imports once, where processes can begin as copies of it: this takes seconds.
PRELOADED = ["torch", "torch.nn.parallel", "torch.distributed.fsdp"]


def launch(program: str, world_size: int) -> list[str]:
    """Run a program's text in several processes; print and return what each has said, in the order of ranks.

    Each process finds in its environment what `torchrun` puts there: RANK, LOCAL_RANK, WORLD_SIZE, and the
    address at which they meet. A process that has failed shows its error, and those that still run after
    three minutes are ended.

    >>> said = launch("import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])", 2)
    rank 0 of 2
    rank 1 of 2
    """
    with tempfile.TemporaryDirectory(prefix="devlab-launch-") as folder, socket.socket() as free:
        script = Path(folder) / "train.py"
        script.write_text(program, encoding="utf-8")
        meeting = {"MASTER_ADDR": HERE, "WORLD_SIZE": str(world_size)}
        if os.name == "nt":
            # A store in this process would need libuv, which PyTorch for Windows lacks: rank 0 has the store.
            free.bind((HERE, 0))
            port = free.getsockname()[1]
            free.close()
        else:
            # This process has the store, as torchrun does: rank 0 might end before the others have left.
            book = dist.TCPStore(HERE, 0, is_master=True, wait_for_workers=False)
            port = book.port
            meeting["TORCHELASTIC_USE_AGENT_STORE"] = "True"
        meeting["MASTER_PORT"] = str(port)
        ranks = [
            _started(script, dict(os.environ) | meeting | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank in range(world_size)
        ]
        until, texts = time.monotonic() + PATIENCE, []
        try:
            for rank, process in enumerate(ranks):
                process.join(max(0, until - time.monotonic()))
                said, complained = (_text(script, str(rank), kind) for kind in ("said", "errors"))
                texts.append(said)
                # A process may die while it leaves its group, after its last line: no fault of the program.
                failed = process.exitcode and ("Traceback" in complained or not said)
                print(said + (complained if failed else ""), end="")
        finally:
            for process in ranks:
                process.kill()
                process.join()
    return texts


def _started(script: Path, environment: dict[str, str]) -> multiprocessing.process.BaseProcess:
    """Start a program as a copy of a server that has imported PyTorch and touched no device.

    Windows has no such server, and there each process imports PyTorch itself.
    """
    if "forkserver" in multiprocessing.get_all_start_methods():
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
    else:
        context = multiprocessing.get_context("spawn")
    process = context.Process(target=_run, args=(str(script), environment))
    process.start()
    return process


def _run(script: str, environment: dict[str, str]) -> None:
    """Be one rank: run the program with its environment; what it says and its errors go to files."""
    os.environ.clear()
    os.environ.update(environment)
    for number, kind in ((1, "said"), (2, "errors")):
        file = os.open(f"{script}.{kind}{environment['RANK']}", os.O_WRONLY | os.O_CREAT)
        os.dup2(file, number)
    sys.argv = [script]
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  it ends with the process
    runpy.run_path(script, run_name="__main__")


def _text(script: Path, rank: str, kind: str) -> str:
    path = Path(f"{script}.{kind}{rank}")
    return path.read_text(encoding="utf-8") if path.exists() else ""
