"""Ask many questions in several processes, none of which can spoil the answers of another.

A recording that is made in parts has `names()`, the questions, and `ask(name, device)`, the answer to one. A
kernel that asserts leaves its process without a usable device: such a process ends itself, and a new one
goes on with the next question. What ends a process by force loses the answer to one question alone.
"""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

SPOILT = 75  # the exit status of a process whose device takes no more work
LIMIT = 300  # seconds for one process


def most_at_once() -> int:
    """Return how many processes leave a quarter of the processors free, and at least one."""
    return max(1, (os.cpu_count() or 1) * 3 // 4)


def ask_in_parts(
    recording: str,
    device: torch.device,
    names: list[str],
    *,
    at_once: int,
    each: int | None = None,
    settings: dict[str, str] | None = None,
) -> dict[str, dict]:
    """Return the answer to every question, from processes of which `at_once` run at a time.

    `each` is how many questions a process is given (None: they are dealt out evenly to `at_once` processes),
    and `settings` are environment variables of all of them.
    """
    count = at_once if each is None else -(-len(names) // each)
    hands = [names[place::count] for place in range(count)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(at_once) as pool:
        files = [Path(folder) / f"{place}.jsonl" for place in range(count)]
        # As many processes as processors: more threads would only wait for each other.
        own = {"DEVLAB_PROGRESS": f"{folder}/progress.jsonl", "OMP_NUM_THREADS": "1"}
        variables = os.environ | own | (settings or {})

        def follow(file: Path, hand: list[str]) -> dict[str, dict]:
            return _followed(recording, device, file, hand, variables)

        answers = {}
        for some in pool.map(follow, files, hands):
            answers |= some
    return {name: answers[name] for name in names}


def _followed(recording: str, device, file: Path, hand: list[str], variables: dict) -> dict[str, dict]:
    """Start processes, one after the other, until each question of a hand has an answer."""
    script = str(Path(__file__).with_name("record.py"))
    command = [sys.executable, script, "--device", str(device), "--part", recording, str(file)]
    answers: dict[str, dict] = {}
    while left := [name for name in hand if name not in answers]:
        questions = json.dumps(left)
        try:
            done = subprocess.run(
                command, input=questions, env=variables, capture_output=True, text=True, timeout=LIMIT
            )
            ended = f"exit status {done.returncode}: {done.stderr[-300:]}"
        except subprocess.TimeoutExpired:
            ended = f"no answer within {LIMIT} s"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        rows = [json.loads(line) for line in lines]
        answers |= {row["name"]: row["answer"] for row in rows if "answer" in row}
        begun = next((row["name"] for row in reversed(rows)), left[0])
        answers.setdefault(begun, {"error": ["the process ended", ended]})
    return answers


def answer_part(recording, device: torch.device, file: Path) -> int:
    """Answer the questions on standard input, into the lines of `file`; return the exit status."""
    with file.open("a", encoding="utf-8") as lines:

        def write(row: dict) -> None:
            lines.write(json.dumps(row) + "\n")
            lines.flush()

        for name in json.load(sys.stdin):
            write({"name": name})
            write({"name": name, "answer": recording.ask(name, device)})
            if spoilt(device):
                return SPOILT
    return 0


def ask_here(recording, device: torch.device, names: list[str]) -> dict[str, dict]:
    """Return the answers of a simulated device, which can be made usable again, from this process."""
    from devlab import sim

    answers = {}
    for name in names:
        answers[name] = recording.ask(name, device)
        sim.reset()
    return answers


def spoilt(device: torch.device) -> bool:
    """Tell whether the device takes no more work in this process."""
    try:
        torch.accelerator.synchronize(device)
    except Exception:
        return True
    return False
