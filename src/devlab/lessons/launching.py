"""`devlab.launch`: start a program once for each rank of a group, as `torchrun` does."""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import torch.distributed as dist

PATIENCE = 180  # seconds for a program in all: on a slow machine importing PyTorch takes many of them
HERE = "127.0.0.1"


def launch(program: str, world_size: int) -> list[str]:
    """Run the text of a program in several processes; print and return what each has said, in their order.

    Each process finds in its environment what `torchrun` puts there: RANK, LOCAL_RANK, WORLD_SIZE, and the
    address at which they meet. A process that has failed shows its error, and those that still run after
    three minutes are ended.

    >>> said = launch("import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])", 2)
    rank 0 of 2
    rank 1 of 2
    """
    texts = []
    with tempfile.TemporaryDirectory(prefix="devlab-launch-") as folder, socket.socket() as free:
        script = Path(folder) / "train.py"
        script.write_text(program, encoding="utf-8")
        meeting = {"MASTER_ADDR": HERE, "WORLD_SIZE": str(world_size)}
        if os.name == "nt":  # PyTorch for Windows lacks what the other form needs: rank 0 keeps the addresses
            free.bind((HERE, 0))
            port = free.getsockname()[1]
            free.close()
        else:
            # This process keeps them, as torchrun does: rank 0 might end before the others have left.
            book = dist.TCPStore(HERE, 0, is_master=True, wait_for_workers=False)
            port = book.port
            meeting["TORCHELASTIC_USE_AGENT_STORE"] = "True"
        meeting["MASTER_PORT"] = str(port)
        processes = [
            subprocess.Popen(
                [sys.executable, str(script)],
                env=os.environ | meeting | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(world_size)
        ]
        try:
            for process in processes:
                said, complained = process.communicate(timeout=PATIENCE)
                texts.append(said)
                # One may die while it leaves its group, after its last line: no fault of the program.
                failed = process.returncode and ("Traceback" in complained or not said)
                print(said + (complained if failed else ""), end="")
        finally:
            for process in processes:
                process.kill()
                process.wait()
    return texts
