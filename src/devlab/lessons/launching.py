"""`devlab.launch`: start a program once for each rank of a group, as `torchrun` does."""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

PATIENCE = 180  # seconds for a program in all: on a slow machine importing PyTorch takes many of them


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
        texts = []
        try:
            for process in processes:
                said, complained = process.communicate(timeout=PATIENCE)
                texts.append(said)
                print(said + (complained if process.returncode else ""), end="")
            return texts
        finally:
            for process in processes:
                process.kill()
                process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
