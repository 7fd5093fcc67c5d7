"""What single lessons need: two devices, an account of memory, a limit, processes."""

import os
import subprocess
import sys

import pytest
import torch

import devlab
from devlab.explore.controls import Refused


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    """Have what these functions decide for a process end with the test, and nothing be explained in it."""
    monkeypatch.setenv("DEVLAB_DEVICE", "")
    monkeypatch.setattr("devlab.begin.explain_errors", lambda device: None)


def pretend(monkeypatch, kind: str, count: int) -> None:
    """Pretend that one kind of accelerator is here, and no other."""
    for other in ("cuda", "mps", "xpu"):
        monkeypatch.setattr(getattr(torch, other), "is_available", lambda other=other: other == kind)
    monkeypatch.setattr(getattr(torch, kind), "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"GPU number {index}")


@pytest.mark.parametrize(("said", "used"), [(None, 1), ("3", 2)])
def test_a_lesson_of_small_work_asks_for_one_thread_where_the_learner_asked_for_none(
    monkeypatch, capsys, said, used
):
    """Beside a busy process the threads of small work wait for each other."""
    before = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", said or "")
    if not said:
        monkeypatch.delenv("OMP_NUM_THREADS")
    torch.set_num_threads(2)
    try:
        devlab.start(threads=1)
        assert torch.get_num_threads() == used
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("kind", "count", "found"),
    [("cuda", 2, "cuda"), ("cuda", 4, "cuda"), ("cuda", 1, "sim"), ("mps", 1, "sim")],
)
def test_two_devices_are_real_where_there_are_two(monkeypatch, capsys, kind, count, found):
    """The course then uses no others in this process, and says what they are."""
    pretend(monkeypatch, kind, count)
    first, second = devlab.start_two()
    assert (str(first), str(second)) == (f"{found}:0", f"{found}:1")
    said = capsys.readouterr().out
    assert ("simulated accelerators" in said) == (found == "sim")
    assert ("GPU number 0 and cuda:1, GPU number 1" in said) == (found == "cuda")
    assert os.environ["DEVLAB_DEVICE"] == ("sim" if found == "sim" else "")


@pytest.mark.parametrize(
    ("wanted", "found"), [("sim", "sim:0"), ("sim:1", "sim:0"), ("cpu", "sim:0"), ("cuda", "cuda:0")]
)
def test_what_the_environment_wants_holds_where_there_are_two_of_it(monkeypatch, capsys, wanted, found):
    """A lesson about two devices needs two, whatever one of them was asked for."""
    pretend(monkeypatch, "cuda", 2)
    monkeypatch.setenv("DEVLAB_DEVICE", wanted)
    assert str(devlab.start_two()[0]) == found


@pytest.mark.parametrize(("kind", "found"), [("cuda", "cuda:0"), ("mps", "sim:0"), ("xpu", "xpu:0")])
def test_a_device_with_an_account_of_its_memory(monkeypatch, capsys, kind, found):
    """A Mac's keeps another one, so lesson 08 runs on the simulated device there."""
    pretend(monkeypatch, kind, 1)
    monkeypatch.setattr(torch.xpu, "get_device_name", lambda index: "an Intel GPU")
    assert str(devlab.start(account=True)) == found
    assert found.partition(":")[0] in capsys.readouterr().out


def test_a_limit_is_a_small_memory_for_a_block():
    """Out of memory is raised inside it, and the old size is back after it, also after an error."""
    torch.sim.empty_cache()
    whole = torch.sim.mem_get_info("sim:1")[1]
    with pytest.raises(torch.OutOfMemoryError), devlab.memory_limit(torch.device("sim:1"), 64 << 20):
        torch.empty(65 << 20, dtype=torch.uint8, device="sim:1")
    assert torch.sim.mem_get_info("sim:1")[1] == whole


def test_a_real_gpu_is_limited_by_pytorch_and_set_back(monkeypatch):
    """By a fraction of its whole memory, never above 1, and by no tensor."""
    fractions = [0.9]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (5 << 30, 16 << 30))
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda device: fractions[-1])
    monkeypatch.setattr(
        torch.cuda, "set_per_process_memory_fraction", lambda fraction, device: fractions.append(fraction)
    )
    with devlab.memory_limit(torch.device("cuda:0"), 1 << 30):
        pass
    with devlab.memory_limit(torch.device("cuda:0"), 1 << 40):
        pass
    assert fractions == [0.9, 1 / 16, 0.9, 1.0, 0.9]


def test_a_program_is_started_for_each_rank_and_a_failure_is_shown(capsys):
    """What a rank printed comes in the order of the ranks; the error of one that failed comes with it."""
    program = "import os\nprint('rank', os.environ['RANK'])\nassert os.environ['LOCAL_RANK'] != '1', 'no'\n"
    assert devlab.launch(program, 2) == ["rank 0\n", "rank 1\n"]
    said = capsys.readouterr().out
    assert said.startswith("rank 0\nrank 1\n")
    assert "AssertionError: no" in said


CELLS = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in (
    "import devlab; device = devlab.start()",
    "%%launch 2\\nimport os\\nprint('rank', os.environ['RANK'])",
    "%%launch 2 said\\nimport os\\nprint('unseen', os.environ['RANK'])",
    "print(said)",
    "%%launch two\\nprint('never')",
):
    shell.run_cell(cell, store_history=True)
"""


def test_a_cell_can_be_a_program_for_several_ranks():
    """What it says is printed, or named where a name is given; a number that is none is answered."""
    done = subprocess.run(
        [sys.executable, "-c", CELLS],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "DEVLAB_DEVICE": "sim"},
    )
    assert done.stdout.splitlines()[1:] == [
        "rank 0",
        "rank 1",
        "['unseen 0\\n', 'unseen 1\\n']",
        "Write a number of ranks, %%launch 2, and perhaps a name for what they say, %%launch 2 said.",
    ]


def test_the_nearest_of_several_numbers(capsys):
    """A real device may give a figure that is none of the choices."""
    devlab.predict("How many?", 1, 10, 20).was_about(13)
    assert capsys.readouterr().out.endswith("How many? It is 13, and 10 is nearest.\n")
    with pytest.raises(Refused):
        devlab.predict("How many?", 1, 10).was(3)
