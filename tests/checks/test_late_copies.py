"""Copies to the host that nothing waits for: on a real device the checks let them arrive late.

On an H200, on 27 November 2026, four answers that read such a copy too early passed. No GPU has judged them
since. Here a fast GPU is pretended: a simulated copy that ends soon has arrived at once.
"""

import pytest
import torch
from bank import ANSWERS, Answer, fault, load

from devlab.checks import late_copies, trial
from devlab.checks.exercise import find
from devlab.checks.judge import judge
from devlab.checks.late_copies import LateCopies, delay_copies
from devlab.sim import clock

PASSED_BY_LUCK = {
    "Chain": "DoesNotWait",
    "add_across": "read_before_it_arrives",
    "mask_like": "without_waiting",
    "no_ping_pong": "does_not_wait",
}
SOON = 0.5e-3  # seconds: a small copy takes less, and the work in front of it more


@pytest.fixture
def fast_copies(monkeypatch):
    """A simulated device whose copies to the host have arrived at once if nothing is queued before them."""
    arrive = clock.arrive

    def arrive_soon(moment: float, write) -> None:
        if moment - clock.now() < SOON:
            write()
        else:
            arrive(moment, write)

    monkeypatch.setattr(clock, "arrive", arrive_soon)


def answer_of(exercise: str, name: str) -> Answer:
    """Return one answer of a bank."""
    return next(one for one in load(ANSWERS / f"{exercise}.py") if one.name == name)


def test_luck_lets_a_wrong_answer_pass(fast_copies):
    """The pretended GPU shows what the H200 showed, so the next test tests something."""
    answer = answer_of("add_across", "read_before_it_arrives")
    assert judge(find("add_across"), answer.code).passed


@pytest.mark.parametrize(("exercise", "name"), PASSED_BY_LUCK.items())
def test_late_copies_refuse_what_luck_lets_pass(fast_copies, monkeypatch, exercise, name):
    """With work in front of each copy, an answer that does not wait reads what was there before."""
    monkeypatch.setattr(trial, "delay_copies", lambda devices: LateCopies())
    answer = answer_of(exercise, name)
    assert fault(answer, judge(find(exercise), answer.code)) is None


@pytest.mark.parametrize(
    ("exercise", "name"),
    [("Chain", "WaitsForWhatItAsked"), ("no_ping_pong", "read_back_without_blocking")],
)
def test_an_answer_that_waits_passes(monkeypatch, exercise, name):
    """Who waits for the copy loses time alone."""
    monkeypatch.setattr(trial, "delay_copies", lambda devices: LateCopies())
    assert judge(find(exercise), answer_of(exercise, name).code).passed


def test_only_copies_to_the_host_that_do_not_block_are_late(monkeypatch):
    """Copies to a device, and those for which the host waits, keep their time."""
    busy: list = []
    monkeypatch.setattr(late_copies, "keep_busy", busy.append)
    there, home = torch.ones(2, device="sim:0"), torch.ones(2).pin_memory()
    with LateCopies():
        (
            there.cpu(),
            there.to("cpu"),
            there.to("sim:1", non_blocking=True),
            home.to("sim:0", non_blocking=True),
        )
        there.copy_(home, non_blocking=True), there.to(torch.float16, non_blocking=True)
        assert busy == []
        there.to("cpu", non_blocking=True), there.to(home, non_blocking=True), home.copy_(there, True)
        there.to(device=torch.device("cpu"), non_blocking=True)
        torch.nn.Linear(1, 1, device="sim:0").to("cpu", non_blocking=True)
    assert busy == [there.device] * 6


def test_simulated_copies_are_late_without_it():
    """What is right for a real device would make the model's times other ones."""
    assert isinstance(delay_copies([torch.device("cuda", 0)]), LateCopies)
    assert not isinstance(delay_copies([torch.device("sim", 0), torch.device("cpu")]), LateCopies)
