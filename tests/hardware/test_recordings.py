"""The simulator, held to what was recorded on each GPU: only what is listed as different may differ.

`benchmarks/recorded/<the GPU>/differences.json` names each case that differs, by its reason. A new difference
fails, and so does one that has been mended and still stands in the list.
`python benchmarks/hardware/record.py --compare benchmarks/recorded/h200` shows all of them.
"""

import importlib
import json
import re
from pathlib import Path

import pytest
import torch
from hardware import agreement, parts, record

from devlab import sim
from devlab.sim import specs

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "benchmarks" / "recorded"
FOLDERS = [path for path in sorted(RECORDED.iterdir()) if path.is_dir()]
WHOLE = [
    ("allocator", 0),
    ("synchronizations", 0),
    ("copies that wait", 0),
    ("mixed devices", 0),
    ("mixed devices", 1),
    ("late errors", 0),
]
# `make test` asks every 31st pair of operator and dtype, and of every fourth operator its bytes.
PAIRS, OPERATORS = 31, 4


def shares(count: int) -> list:
    """Return the numbers of the shares of a long comparison, of which `make test` tries the first."""
    return [pytest.param(place, marks=[pytest.mark.thorough] if place else []) for place in range(count)]


def recorded(folder: Path, comparison: str) -> None:
    """Skip where nobody has made a recording yet."""
    path = agreement.path_of(folder, agreement.COMPARISONS[comparison].recording)
    if not path.exists():
        pytest.skip(f"{path.name} has not been recorded on this GPU: make record-cuda, on a machine with one")


def held(found: agreement.Agreement) -> None:
    """Fail with every difference that is not listed, and with every listed one that is gone."""
    assert found.asked
    assert not found.new, str(found)
    assert not found.mended, str(found)


@pytest.fixture(params=FOLDERS, ids=[path.name for path in FOLDERS])
def folder(request):
    """The recordings of one GPU."""
    return request.param


@pytest.mark.parametrize(("comparison", "index"), WHOLE)
def test_only_what_is_listed_differs(folder, comparison, index, empty_memory):
    """Books after each step, waits, results and errors of mixed devices, and where late errors come."""
    recorded(folder, comparison)
    rule = agreement.COMPARISONS[comparison]
    answers = record.asked(rule.simulated_by or rule.recording, torch.device("sim", index))
    held(agreement.compared(folder, comparison, answers))


@pytest.mark.parametrize("share", shares(PAIRS))
def test_operators_take_the_dtypes_that_the_gpu_takes(folder, share):
    """A difference is listed as the release's exactly where the CPU's answers differ, too."""
    comparison = "operators by dtype"
    recorded(folder, comparison)
    answers = asked("operators_by_dtype", share, PAIRS)
    found = agreement.compared(folder, comparison, answers, answers)
    held(found)
    rule = agreement.COMPARISONS[comparison]
    by_release = {case for case, both in found.differing.items() if rule.by_release(*both)}
    assert by_release == {case for case, why in found.reasons.items() if why == agreement.RELEASE}


@pytest.mark.parametrize("share", shares(OPERATORS))
def test_operators_wait_keep_and_need_what_they_do_on_the_gpu(folder, share):
    """Who waits, by PyTorch's own word, and the bytes kept and the peak of each operator in float32."""
    recorded(folder, "operators that wait")
    answers = asked("operators_waits_and_bytes", share, OPERATORS)
    for comparison in ("operators that wait", "bytes kept", "peak bytes"):
        held(agreement.compared(folder, comparison, answers, answers))


def asked(name: str, share: int, of: int) -> dict[str, dict]:
    """Return the simulator's answers to one share of the questions of a recording."""
    sim.enable()
    module = importlib.import_module(f"hardware.{name}")
    return parts.ask_here(module, torch.device("sim", 0), module.names()[share::of])


def test_every_listed_difference_is_of_a_recorded_case(folder):
    """With a reason in words, and each case once."""
    families = json.loads((folder / agreement.KNOWN).read_text(encoding="utf-8"))["cases"]
    assert families.keys() <= agreement.COMPARISONS.keys()
    for comparison, reasons in families.items():
        cases = agreement.recorded_cases(folder, comparison)
        listed = [case for family in reasons.values() for case in agreement.spelt_out(family)]
        assert len(listed) == len(set(listed))
        assert set(listed) <= cases.keys()
        assert all(len(reason.split()) > 3 for reason in reasons)


def test_a_recording_says_on_which_gpu_it_was_made(folder):
    """What has a head names one GPU, the same in the whole folder, which is called after it."""
    paths = [agreement.path_of(folder, name) for name in record.RECORDINGS]
    heads = [agreement.read(path)[0] for path in paths if path.exists()]
    sources = {head["source"] for head in heads if head}
    assert [record.folder_of(source.removeprefix("recorded on ")) for source in sources] == [folder.name]


def test_the_page_says_in_numbers_where_the_simulator_agrees():
    """The table of docs/simulator.md has every comparison with the H200, less the listed differences."""
    page = (ROOT / "docs/simulator.md").read_text(encoding="utf-8")
    section = page.partition("## Held to a real GPU")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+?) \| ([\d,]+) of ([\d,]+) \|", section, re.MULTILINE)
    told = {name: tuple(int(count.replace(",", "")) for count in counts) for name, *counts in rows}
    assert told == agreement.totals(RECORDED / "h200")


def test_the_page_says_how_the_banks_were_judged():
    """The counts of the recording: all answers, and those of both kinds that were misjudged."""
    _, banks = agreement.read(RECORDED / "h200" / "banks_by_exercise.json")
    answers = sum(bank["right"] + bank["wrong"] for bank in banks.values())
    misjudged = [one for bank in banks.values() for one in bank["misjudged"].values()]
    right = sum(one["right"] for one in misjudged)
    passed = sum(one["verdict"].startswith("✓") for one in misjudged)
    page = " ".join((ROOT / "docs/simulator.md").read_text(encoding="utf-8").split())
    words = r"Of the ([\d,]+) answers of the banks, (\d+) right ones were refused and (\d+) wrong ones passed"
    told = re.search(words, page)
    assert [int(count.replace(",", "")) for count in told.groups()] == [answers, right, passed]


def test_copies_take_about_as_long_as_recorded():
    """On the chip that is modelled, a T4, and no other: within a factor of three of the best recorded."""
    folder = RECORDED / "t4"
    if not (folder / "bandwidth.json").exists():
        pytest.skip("the modelled chip, a T4, has not been recorded: make record-cuda, on a machine with one")
    _, cases = agreement.read(folder / "bandwidth.json")
    chip = specs.CUDA_LIKE
    for kind, modelled in (("pinned", chip.pinned), ("pageable", chip.pageable), ("staging", chip.staging)):
        measured = max(case["bytes/s"] for name, case in cases.items() if name.startswith(kind))
        assert 1 / 3 < measured / modelled < 3, (kind, measured, modelled)
