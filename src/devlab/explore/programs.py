"""Short programs for an accelerator, run statement by statement: what host and device did, and when."""

import functools
import time
from typing import NamedTuple

import torch

from devlab.watching.record import Line
from devlab.watching.timeline import COMPUTING, HOST, Span, lay_out
from devlab.watching.watch import watch

FILE = "<the timeline's program>"
WAIT = "torch.accelerator.synchronize(device)"
PREPARATION = "x = torch.ones(n, n, device=device); w = x / n"
# Prepared only for the programs that use the name: not every device has it.
NEEDED = {
    "batch": "batch = torch.ones(n // 4, n).pin_memory()",
    "plain": "plain = torch.ones(n // 8, n)",
    "side": "main = torch.accelerator.current_stream(device); side = torch.Stream(device)",
}
MISSING = {"cpu": ("batch", "plain", "side"), "mps": ("side",)}
EARLY = "bring it home, read it early"
PROGRAMS = {
    "three matrix products": ("a = x @ w", "b = a @ w", "c = b @ w"),
    "a loss printed in the loop": ("loss = (x @ w).mean()", "print(loss.item())") * 3,
    "losses printed at the end": (
        "a = (x @ w).mean()",
        "b = (x @ w).mean()",
        "c = (x @ w).mean()",
        "print(torch.stack([a, b, c]).tolist())",
    ),
    "bring the result home": ("y = x @ w", "y = y.relu()", "home = y.cpu()", "z = x @ w"),
    EARLY: ("y = x @ w", 'home = y.to("cpu", non_blocking=True)', "print(home[0, 0].item())"),
    "a batch from ordinary memory": (
        "y = x @ w",
        "b = plain.to(device, non_blocking=True)",
        "c = plain.to(device)",
        "z = c @ w",
    ),
    "a batch in the same stream": (
        "y = x @ w",
        "b = batch.to(device, non_blocking=True)",
        "z = b @ w",
    ),
    "a batch in a second stream": (
        "y = x @ w",
        "with side: b = batch.to(device, non_blocking=True)",
        "main.wait_stream(side)",
        "z = b @ w",
    ),
}


class Run(NamedTuple):
    """What each lane did, in seconds, and what the statements printed, by their number from 1."""

    lanes: dict[str, list[Span]]
    printed: dict[int, str]
    home: float | None  # what `home` holds at its first place, once everything has arrived

    @property
    def end(self) -> float:
        """Return when the last of them was done."""
        return max(span.end for spans in self.lanes.values() for span in spans)


def offered(device: str) -> list[str]:
    """Return the names of the programs that can run there.

    >>> len(offered("cuda:0")), len(offered("mps:0")), len(offered("cpu"))
    (8, 7, 5)
    """
    missing = MISSING.get(device.partition(":")[0], ())
    return [name for name, lines in PROGRAMS.items() if not any(word in "".join(lines) for word in missing)]


@functools.lru_cache(maxsize=32)
def run(statements: tuple[str, ...], device: str) -> Run:
    """Run the statements under a watch; on a real device twice: the first time it has kernels to load.

    >>> run(("a = x @ w", "print(a[0, 0].item())"), "cpu").printed
    {2: '1.0'}
    """
    if device == "cpu":
        return _run_here(statements)
    for _ in range(1 if device.startswith("sim") else 2):
        names = _prepared(device)
        for word, preparation in NEEDED.items():
            if word in "".join(statements):
                exec(preparation, names)
        torch.accelerator.synchronize(device)
        with watch() as log:
            for number, statement in enumerate(statements, start=1):
                _execute(statement, number, names)
        torch.accelerator.synchronize(device)
    return Run(lay_out(log.events), names["printed"], _home(names))


def _run_here(statements: tuple[str, ...]) -> Run:
    """Run the statements where there is no accelerator: the host does all the work, and waits for nobody."""
    spans = []
    for _ in range(2):
        names = _prepared("cpu")
        spans.clear()
        first = time.perf_counter()
        for number, statement in enumerate(statements, start=1):
            began = time.perf_counter() - first
            if statement != WAIT:
                _execute(statement, number, names)
            ended = time.perf_counter() - first
            spans.append(Span(began, ended, COMPUTING, statement, Line(FILE, number)))
    return Run({HOST: spans}, names["printed"], _home(names))


def _prepared(device: str) -> dict:
    """Return the names that the programs use; what they print is kept by the number of the statement."""
    real = not device.startswith(("cpu", "sim"))
    names: dict = {"torch": torch, "device": device, "n": 2048 if real else 512, "printed": {}, "number": 0}
    names["print"] = lambda value: names["printed"].update({names["number"]: str(value)})
    exec(PREPARATION, names)
    return names


def _execute(statement: str, number: int, names: dict) -> None:
    """Run a statement on the line of its number, by which the log knows it."""
    names["number"] = number
    exec(compile("\n" * (number - 1) + statement, FILE, "exec"), names)


def _home(names: dict) -> float | None:
    return names["home"][0, 0].item() if "home" in names else None
