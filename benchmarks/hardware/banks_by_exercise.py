"""Every answer of every bank, judged on the CPU and on the device: how many were misjudged, and which.

Each exercise is judged in a process of its own, so that an answer that spoils the device spoils no other
exercise. Exercises that measure time are judged after all others, one at a time.
"""

import os

import torch
from bank import ANSWERS, banks, fault, load
from hardware import parts

from devlab.checks.exercise import find
from devlab.checks.judge import judge

TIMED = ("time_op", "event_time", "regime", "crossover")


def names() -> list[str]:
    """Return every exercise that has a bank; one with many answers comes before one with few."""
    return [path.stem for path in sorted(banks(), key=lambda path: -path.stat().st_size)]


def record(device: torch.device, exercises: list[str] | None = None) -> dict[str, dict]:
    """Return how many answers of each exercise are right and wrong, and each verdict that misjudged."""
    exercises = names() if exercises is None else exercises
    timed = [name for name in exercises if name in TIMED]
    others = [name for name in exercises if name not in TIMED]
    at_once = max(1, (os.cpu_count() or 1) // 2)
    found = parts.ask_in_parts("banks_by_exercise", device, others, at_once=at_once, each=1) if others else {}
    if timed:
        found |= parts.ask_in_parts("banks_by_exercise", device, timed, at_once=1, each=1)
    return dict(sorted(found.items()))


def ask(name: str, device: torch.device) -> dict[str, object]:
    """Return what became of one bank; devlab judges on the CPU and the device that DEVLAB_DEVICE names."""
    answers = load(ANSWERS / f"{name}.py")
    right = sum(answer.fragment is None for answer in answers)
    misjudged = {}
    for answer in answers:
        result = judge(find(answer.exercise), answer.code)
        if fault(answer, result):
            misjudged[answer.name] = {"right": answer.fragment is None, "verdict": str(result)}
    return {"right": right, "wrong": len(answers) - right, "misjudged": misjudged}
