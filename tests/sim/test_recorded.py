"""The simulator, held to the table of mixed-device calls, case by case."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
RECORDING = json.loads((ROOT / "benchmarks/recorded/mixed_devices.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def recorder():
    """The recording script, as a module."""
    spec = importlib.util.spec_from_file_location("recorder", ROOT / "benchmarks/hardware/mixed_devices.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("place", ["sim:0", "sim:1"])
def test_every_case_is_as_recorded(recorder, place):
    """The device of the result, or the type and the text of the error."""
    found = recorder.record(torch.device(place))
    differing = {
        case: (found.get(case), expected)
        for case, expected in RECORDING["cases"].items()
        if found.get(case) != expected
    }
    assert not differing
    assert found.keys() == RECORDING["cases"].keys()


def test_the_recording_is_long_and_says_where_it_comes_from():
    """A real GPU's name, or that none was asked."""
    assert len(RECORDING["cases"]) >= 150
    source = RECORDING["source"]
    assert source == "documented rules, not recorded" or source.startswith("recorded on ")
