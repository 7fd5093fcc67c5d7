"""The simulator, held to the table of mixed-device calls, case by case."""

import importlib.util
import json
import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
ASKED = json.loads((ROOT / "benchmarks/recorded/pytorchs_tests.json").read_text(encoding="utf-8"))
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


def test_the_page_quotes_what_pytorchs_own_tests_found():
    """Each count of the record, and of which releases and of how many files it is."""
    page = (ROOT / "docs/simulator.md").read_text(encoding="utf-8")
    section = page.partition("## Asked by PyTorch's own tests")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| ([^|]+) \| ([\d,]+) \|$", section, re.MULTILINE))
    assert {what: int(count.replace(",", "")) for what, count in rows.items()} == ASKED["all"]
    told = re.search(
        r"tests of PyTorch ([\d.]+)\s+under\s+torch\s+([\d.]+); (\d+) files are recorded", section
    )
    of, under = ASKED["tests of"].removesuffix("a0"), ASKED["torch"].partition("+")[0]
    assert told.groups() == (of, under, str(len(ASKED["files"])))


def test_pytorchs_own_tests_find_little_that_is_the_simulators():
    """Each of those failures is recorded with its first line, and no test ends the process."""
    assert len(ASKED["the simulator's own"]) == ASKED["all"]["the simulator's own"] <= 10
    assert ASKED["all"]["deaths"] == 0
