"""The simulator, held to what was recorded on each GPU: only what is listed as different may differ.

`benchmarks/recorded/<the GPU>/differences.json` names each case that differs, by its reason. A new difference
fails, and so does one that has been mended and still stands in the list.
`python benchmarks/hardware/record.py --compare benchmarks/recorded/h200` shows all of them.
"""

import importlib
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


OWN = "device memory bytes/s (add_ 1 GiB, read + written)"
PRODUCT = "matrix product, float32, 1024 x 1024"


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
    families = agreement.families(folder)
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


def test_the_page_about_borrowing_shows_what_the_h200_took():
    """Each figure of the example's column, from the recording that has it, in the digits that stand there."""
    cases = {name: agreement.read(RECORDED / "h200" / f"{name}.json")[1] for name in record.RECORDINGS[:7]}
    basics, copies, products = (cases[name] for name in ("measured", "bandwidth", "crossover"))
    basics = basics["basics"]

    def copied(kind: str) -> str:
        case = copies[f"{kind} to the device, {1 << 28} bytes"]
        return f"{case['seconds'] * 1e3:.3g} ms, {case['bytes/s'] / 1e9:.0f} GB/s"

    quicker = [
        side
        for side in (16, 32, 64, 128, 256)
        if (case := products[f"matrix product, float32, {side} x {side}"])["device"] < case["cpu"]
    ]
    expected = {
        "256 MiB from pageable memory": copied("pageable"),
        "256 MiB from pinned memory": copied("pinned"),
        "one number to the host": f"{basics['seconds of one.item(), queue empty'] * 1e6:.1f} µs",
        "adding 1 to a single number": f"{cases['launches']['device, x.add_(1)'] * 1e6:.1f} µs",
        "256 MiB read and written there": f"{basics[OWN] / 1e12:.1f} TB/s, with 1 GiB",
        "a product of 1024 × 1024": f"{products[PRODUCT]['device'] * 1e6:.0f} µs",
        "from which size on is the GPU quicker at `x @ x`? (lesson 07)": (
            f"{quicker[0] // 2} to {quicker[0]}, beside one thread of its CPU"
        ),
        "bytes reserved after the first small tensor (lesson 08)": (
            f"{cases['allocator']['one byte'][0][1] >> 20} MiB"
        ),
    }
    page = (ROOT / "docs/borrow_a_gpu.md").read_text(encoding="utf-8")
    head, *rows = (line.split("|")[1:-1] for line in page.splitlines() if line.count("|") == 6)
    place = [cell.strip() for cell in head].index("H200, measured")
    told = {row[0].strip(): row[place].strip() for row in rows}
    assert {work: told.get(work) for work in expected} == expected


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
