"""The simulator, held to what was recorded on a real GPU. Until there is a recording, each test says so."""

import json
from pathlib import Path

import pytest
from hardware import record

from devlab.sim import specs

RECORDED = Path(__file__).parents[2] / "benchmarks" / "recorded"


def recording(name: str) -> dict:
    """Return the cases of a recording, or skip where nobody has made it yet."""
    path = RECORDED / f"{name}.json"
    if not path.exists():
        pytest.skip(
            f"no recording of the {name} from a GPU exists yet: make record-cuda, on a machine with one"
        )
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["source"].startswith("recorded on "), f"{path} does not say which GPU it was recorded on"
    return found["cases"]


@pytest.mark.parametrize("name", ["allocator", "synchronizations"])
def test_the_simulator_does_as_recorded(name, tmp_path):
    """The allocator's books after each step; which operations make the host wait, and what watch says."""
    expected = recording(name)
    assert record.main(["--device", "sim", "--out", str(tmp_path), "--only", name]) == 0
    found = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))["cases"]
    assert found == expected


def test_no_answer_was_misjudged_on_the_gpu():
    """Every answer of every bank got what it deserves on CUDA."""
    assert recording("banks")["misjudged"] == {}


def test_copies_take_about_as_long_as_recorded():
    """The modelled bandwidths are within a factor of three of the best recorded: a model, not a GPU."""
    cases = recording("bandwidth")
    chip = specs.CUDA_LIKE
    for kind, modelled in (("pinned", chip.pinned), ("pageable", chip.pageable), ("staging", chip.staging)):
        measured = max(case["bytes/s"] for name, case in cases.items() if name.startswith(kind))
        assert 1 / 3 < measured / modelled < 3, (kind, measured, modelled)
