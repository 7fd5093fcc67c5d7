"""The lesson about memory on devices that a notebook has lived on: its tensors left gaps in the cache."""

import gc

import pytest
import torch
from bank import Answer, all_answers, one_of_each

from devlab.checks.exercise import find
from devlab.checks.judge import judge
from devlab.checks.result import Outcome
from devlab.devices import bench
from devlab.lessons.lesson_08_memory import gaps_filled

MIB = 1 << 20


def of_memory(answer: Answer) -> bool:
    """Tell whether an answer is one to an exercise of the lesson about memory."""
    return find(answer.exercise).lesson == "08_memory"


@pytest.fixture(scope="module", autouse=True)
def lived_in():
    """A small tensor lives in a large segment, and others in small segments, with room beside them."""
    kept, memory = [], torch.get_device_module(bench()[1])
    gc.collect()
    for device in bench()[1:]:
        memory.empty_cache()
        before = memory.memory_reserved(device) - memory.memory_allocated(device)
        with gaps_filled(memory, 6 * MIB, device):  # those that other tests have left
            torch.empty(200 * MIB, dtype=torch.uint8, device=device)  # dies at once, and stays in the cache
            kept.append(torch.empty(6 * MIB, dtype=torch.uint8, device=device))
        kept += [torch.empty(1000 + 500 * place, device=device) for place in range(60)][::2]
        memory.empty_cache()
        assert memory.memory_reserved(device) - memory.memory_allocated(device) > before + 190 * MIB
    yield
    kept.clear()
    gc.collect()
    memory.empty_cache()


@pytest.mark.parametrize(
    "answer",
    one_of_each(
        list(filter(of_memory, all_answers())), lambda answer: (answer.exercise, answer.fragment is None)
    ),
    ids=lambda answer: f"{answer.exercise}-{answer.name}",
)
def test_answers_are_judged_as_on_a_fresh_device(answer):
    """Right ones pass, and wrong ones do not; the numbers by which some are told may be others."""
    result = judge(find(answer.exercise), answer.code, bench())
    if answer.fragment is None:
        assert result.passed, str(result)
    else:
        assert result.outcome in (Outcome.FAILED, Outcome.ERROR), str(result)
        assert "please report it" not in str(result)
