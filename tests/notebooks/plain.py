"""A source of the course, run as what it is: a Python script, without a notebook.

The process that is forked for it has imported PyTorch before, which is most of the time that a script takes.
"""

import multiprocessing
import os
import runpy
from pathlib import Path

import devlab.sim

ROOT = Path(__file__).resolve().parents[2]


def run(source: Path, environment: dict[str, str], said: Path, rules: str = "cuda") -> int:
    """Run a source from its first line to its last; return its exit status. What it says goes to a file."""
    ways = multiprocessing.get_all_start_methods()
    start = multiprocessing.get_context("forkserver" if "forkserver" in ways else "spawn")
    if "forkserver" in ways:
        start.set_forkserver_preload(["torch", "devlab.sim"])
    process = start.Process(target=_script, args=(source, environment, said, rules))
    process.start()
    process.join()
    return process.exitcode


def _script(source: Path, environment: dict[str, str], said: Path, rules: str) -> None:
    os.environ.update(environment)
    os.chdir(ROOT / "exercises")
    with said.open("w", encoding="utf-8") as stream:
        for standard in (1, 2):
            os.dup2(stream.fileno(), standard)
    devlab.sim.enable()
    with devlab.sim.rules(rules):
        runpy.run_path(str(source), run_name="__main__")
