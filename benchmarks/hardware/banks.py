"""Every answer of every bank, judged on the CPU and on the device: how many were misjudged, and which."""

import time
from collections import Counter

import torch
from bank import Answer, all_answers, fault

from devlab.checks.exercise import find
from devlab.checks.judge import judge
from devlab.checks.result import Result


def record(device: torch.device) -> dict[str, object]:
    """Return the counts by exercise, and for each answer that was misjudged the verdict it got."""
    counts: dict[str, Counter] = {}
    misjudged = {}
    begun = time.perf_counter()
    for answer in all_answers():
        result = judge(find(answer.exercise), answer.code)
        kind = "right" if answer.fragment is None else "wrong"
        counts.setdefault(answer.exercise, Counter())[kind] += 1
        if not as_it_should_be(answer, result):
            counts[answer.exercise]["misjudged"] += 1
            misjudged[f"{answer.exercise} {answer.name}"] = str(result)
    return {
        "seconds": round(time.perf_counter() - begun, 1),
        "exercises": {name: dict(count) for name, count in counts.items()},
        "misjudged": misjudged,
    }


def as_it_should_be(answer: Answer, result: Result) -> bool:
    """Tell whether the verdict is what the bank asks for; on one accelerator a row may need two."""
    return fault(answer, result) is None
