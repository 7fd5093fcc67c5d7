"""The tables of figures: the modelled ones are the simulator's, the measured ones come from a GPU's files."""

import json
import re
from pathlib import Path

import pytest
import torch
from hardware import record

from devlab.sim import clock, specs
from factory import numbers, recorded
from factory.documented import CHIPS
from factory.reading import SourceError

ROOT = Path(__file__).resolve().parents[2]
MADE_UP = {"source": "recorded on NVIDIA Made-Up 1", "date": "2031-02-03", "torch": "9.9.9"}


@pytest.fixture
def folder(tmp_path):
    """Return a folder with made-up recordings of one GPU, and a rehearsal that counts for nothing."""
    cases = {
        "bandwidth": {
            "pinned to the device, 1048576 bytes": {"seconds": 1e-4, "bytes/s": 10.5e9},
            "pageable to the device, 1048576 bytes": {"seconds": 3e-4, "bytes/s": 3.5e9},
        },
        "crossover": {
            f"matrix product, {dtype}, 2048 x 2048": {"device": 1e-4} for dtype in ("float32", "bfloat16")
        },
    }
    for name, made in cases.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({**MADE_UP, "cases": made}), encoding="utf-8")
    rehearsal = {"source": "simulated, not recorded", "torch": "9.9.9", "cases": {"a": 1}}
    (tmp_path / "allocator.json").write_text(json.dumps(rehearsal), encoding="utf-8")
    return tmp_path


def columns(table: str) -> list[list[str]]:
    """Return the rows of a table, its head first, each as its cells."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in (lines[0], *lines[2:])]


@pytest.mark.parametrize("name", recorded.TABLES)
def test_without_a_recording_no_column_claims_to_be_measured(name, tmp_path):
    """The table has the modelled figures and the makers', and says that these are not measured."""
    said = recorded.tabled(f"![From here to there.](recorded:{name})", tmp_path)
    assert said.startswith("**From here to there.**\n\n| ")
    assert recorded.DOCUMENTED in said
    head, *rest = columns(said)
    assert head[1] == recorded.MODELLED
    assert not [cell for cell in head if "measured" in cell]
    assert all(len(row) == len(head) for row in rest)


@pytest.mark.parametrize("name", recorded.TABLES)
def test_a_recording_adds_a_column_with_the_gpu_and_the_day(name, folder):
    """The column is the last, and each row has it; rehearsals add none."""
    said = recorded.tabled(f"![Words.](recorded:{name})", folder)
    head, *rest = columns(said)
    assert [cell for cell in head if cell.startswith("measured on")] == [head[-1]]
    assert head[-1] == "measured on NVIDIA Made-Up 1, 2031-02-03"
    assert "Measured on NVIDIA Made-Up 1, 2031-02-03, with torch 9.9.9." in said
    assert all(len(row) == len(head) for row in rest)


def test_the_figures_are_those_of_the_recording(folder):
    """What was not recorded is left open."""
    table = columns(recorded.tabled("![Words.](recorded:hardware)", folder))
    found = {row[0]: row[-1] for row in table}
    assert found["arithmetic in float32"] == "172 TFLOP/s"  # 2 · 2048³ in 100 µs
    assert found["from the host's memory"] == "10.5 GB/s pinned, 3.5 GB/s pageable"
    assert found["its bandwidth"] == recorded.MISSING


def test_a_second_gpu_in_a_folder_of_its_own_adds_a_second_column(folder):
    """Files of two GPUs do not mix."""
    other = folder / "other"
    other.mkdir()
    cases = {"pinned to the device, 1048576 bytes": {"bytes/s": 20.5e9}}
    made = {**MADE_UP, "source": "recorded on NVIDIA Made-Up 2", "cases": cases}
    (other / "bandwidth.json").write_text(json.dumps(made), encoding="utf-8")
    head, *rest = columns(recorded.tabled("![Words.](recorded:hardware)", folder))
    assert [cell.split(",")[0] for cell in head[-2:]] == [
        "measured on NVIDIA Made-Up 1",
        "measured on NVIDIA Made-Up 2",
    ]
    found = {row[0]: row[-2:] for row in rest}
    assert found["from the host's memory"] == [
        "10.5 GB/s pinned, 3.5 GB/s pageable",
        "20.5 GB/s pinned, – pageable",
    ]
    assert found["arithmetic in float32"] == ["172 TFLOP/s", recorded.MISSING]


def test_the_measured_basics_fill_their_rows(folder):
    """The memory's own rate and the large products are those of the measured table, as is their quotient."""
    basics = {
        "device memory bytes/s (copy 1 GiB, read + written)": 2e12,
        "operations/s, 8192 x 8192 product, float32": 50e12,
        "operations/s, 8192 x 8192 product, bfloat16": 500e12,
    }
    made = {**MADE_UP, "cases": {"basics": basics}}
    (folder / "measured.json").write_text(json.dumps(made), encoding="utf-8")
    hardware = columns(recorded.tabled("![Words.](recorded:hardware)", folder))
    found = {row[0]: row[-1] for row in hardware}
    assert found["its bandwidth"] == "2 TB/s"
    assert found["arithmetic in float32"] == "50 TFLOP/s"  # and not the 172 of the smaller product
    balance = {row[0]: row[-1] for row in columns(recorded.tabled("![Words.](recorded:balance)", folder))}
    assert balance["**balance in float32**"] == "25 FLOP per byte"
    assert balance["**balance in 16 bits**"] == "250 FLOP per byte"


def test_the_balance_of_the_h200_is_the_measured_one():
    """50.5 TFLOP/s and 796 TFLOP/s by 4.24 TB/s; its maker's peaks are not in the table."""
    rows = columns(recorded.tabled("![Words.](recorded:balance)"))
    found = {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[1:]}
    head = next(name for name in rows[0] if name.startswith("measured on NVIDIA H200"))
    assert found["bandwidth of its memory"][head] == "4.2 TB/s"
    assert found["**balance in float32**"][head] == "12 FLOP per byte"
    assert found["**balance in 16 bits**"][head] == "188 FLOP per byte"


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("basics:seconds of one.item(), queue empty", "9.8 µs"),
        ("basics:host seconds to start nn.Linear forward", "27 µs"),
        ("launch_bound:150 small operators, one graph replay, until done", "170 µs"),
        ("held_by_copies:pageable.to(device, non_blocking), 4096 KiB", "22 ms"),
        ("launch_bound:torch.compile of it, first call", "1.4 s"),
        ("basics:device memory bytes/s (copy 1 GiB, read + written)", "4.2 TB/s"),
        ("basics:host memory bytes/s (copy 256 MiB, 1 threads)", "10 GB/s"),
        ("basics:operations/s, 8192 x 8192 product, float32", "50 TFLOP/s"),
        ("spine:TF32:tokens/s", "163,000"),
        ("spine:TF32:seconds a step", "101 ms"),
        ("loading:file bytes", "498 MB"),
        ("memory_by_phase:step 1: peak of backward", "11 GB"),
        ("memory_by_phase:bytes of parameters", "498 MB"),
        ("spine:TF32:parameters", "124,475,904"),
        ("spine:TF32:in use (nvidia-smi MiB)", "23,219 MiB"),
        ("spine:bfloat16, fused, every block checkpointed:first step", "100 ms"),  # 99.6, and not 1e+02
    ],
)
def test_a_figure_is_written_with_its_unit(name, written):
    """Two digits, or all in front of the point; the name tells whether it is a time, a rate or bytes."""
    assert recorded.tabled(f"It took {{measured:{name}}} there.") == f"It took {written} there."


def test_a_figure_that_was_not_measured_is_said():
    """The message names those that there are, of the section where there is one."""
    with pytest.raises(SourceError, match=r"no figure 'basic:x' was measured; for 'basic' there is: basics"):
        recorded.tabled("{measured:basic:x}")
    with pytest.raises(SourceError, match=r"for 'seconds of luck' there is: host seconds to start x \+ 1"):
        recorded.figure("basics:seconds of luck")
    with pytest.raises(SourceError, match=r"queue empty' has no parts"):
        recorded.figure("basics:seconds of one.item(), queue empty:median")
    with pytest.raises(SourceError, match=r"'basics' is a group of figures: host seconds"):
        recorded.figure("basics")
    with pytest.raises(SourceError, match=r"'memory_by_phase:the out-of-memory message' is no figure"):
        recorded.figure("memory_by_phase:the out-of-memory message")


def test_every_figure_of_the_recording_can_be_written():
    """Each number of the measured table has a unit and digits, and no two have to share a name."""
    record = json.loads((recorded.RECORDED / "h200" / "measured.json").read_text(encoding="utf-8"))

    def figures(cases: dict, before: str = ""):
        for name, case in cases.items():
            if isinstance(case, dict):
                yield from figures(case, f"{before}{name}:")
            elif isinstance(case, int | float):
                yield before + name

    names = list(figures(record["cases"]))
    assert len(names) > 300
    written = re.compile(r"[\d.,]+( (µs|ms|s|[kMGT]?B(/s)?|[kMGT]?FLOP/s|MiB))?")
    assert not [name for name in names if not written.fullmatch(recorded.figure(name))]


def test_other_prose_is_left_alone_and_a_table_that_is_not_there_is_said():
    """The message names those that there are."""
    prose = "Words and ![a picture](drawing:all_reduce)."
    assert recorded.tabled(prose) == prose
    with pytest.raises(SourceError, match="no table 'bandwidths' of recordings; there is: hardware, balance"):
        recorded.tabled("![Words.](recorded:bandwidths)")


def test_a_real_recording_says_its_day(monkeypatch):
    """Without it a column could not."""
    monkeypatch.setattr(
        torch, "get_device_module", lambda device: type("", (), {"get_device_name": lambda d: "X"})
    )
    monkeypatch.setattr(record, "_driver", lambda: "1")
    head = record.source(torch.device("cuda", 0))
    assert head["source"] == "recorded on X"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", head["date"])


@pytest.mark.parametrize(("size", "kind"), [(1 << 10, "pinned"), (1 << 20, "pageable"), (1 << 24, "pinned")])
def test_the_numbers_to_know_are_the_simulators(size, kind):
    """A transfer takes as long on the simulated device's clock as the drawing of lesson 00 says."""
    from devlab import sim

    sim.enable()
    here = torch.empty(size, dtype=torch.uint8)
    here = here.pin_memory() if kind == "pinned" else here
    there = torch.empty(size, dtype=torch.uint8, device="sim:0")
    with clock.virtual():
        torch.accelerator.synchronize("sim:0")
        begun = clock.now()
        there.copy_(here)
        took = clock.now() - begun
    assert took == pytest.approx(numbers.transfer(size, getattr(specs.CUDA_LIKE, kind)), rel=0.01)


def test_lesson_00_says_in_words_what_its_drawing_shows():
    """The words for a screen reader and the four things to read off hold for the specs as they are."""
    lesson = (ROOT / "source" / "lessons" / "00_start_here.py").read_text(encoding="utf-8")
    words = re.search(r"!\[([^\]]+)\]\(drawing:numbers_to_know\)", lesson)[1]
    found = {one.work: one.seconds for one in numbers.numbers()}
    for seconds in found.values():
        figure = float(f"{seconds:.2g}")
        shown = {f"{figure * scale:g}" for scale in (1e3, 1e6)} | {f"{round(figure * 1e6)}"}
        assert shown & set(re.findall(r"[\d.]*\d", words)), seconds
    product = found["product of 4096 × 4096, GPU"]
    reading = found["the device reads 1 GB of its memory"]
    assert round(found["transfer of 1 GB, pageable"] / product) == 15
    assert round(product / reading) == 5
    assert reading > found["product of 4096 × 4096, GPU, 16 bits"]
    assert round(2 * numbers.SIDE**3 / 1e9) == 137


def test_the_balance_is_the_quotient_of_the_peaks():
    """Of each chip whose maker publishes both, with its source; the reference machine has lesson 07's 27."""
    said = recorded.tabled("![Words.](recorded:balance)")
    head, *rest = columns(said)
    found = {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rest}
    assert found["**balance in float32**"][recorded.MODELLED] == "27 FLOP per byte"
    assert found["**balance in 16 bits**"]["NVIDIA H100 SXM, documented"] == "295 FLOP per byte"  # 989 / 3.35
    for chip in CHIPS:
        whole = bool(chip.rate and chip.half_rate)
        assert (chip.source in said) is (f"{chip.name}, documented" in head) is whole


def test_the_documented_figures_name_their_sources():
    """Each chip its own."""
    said = recorded.tabled("![Words.](recorded:hardware)")
    assert "*Documented by the makers, not measured.*" in said
    assert all(
        chip.source + chip.transfer_source in said and f"{chip.name}, documented" in said for chip in CHIPS
    )
    assert (CHIPS[0].bandwidth * 1e9, CHIPS[0].rate * 1e12) == (
        specs.CUDA_LIKE.bandwidth,
        specs.CUDA_LIKE.rate,
    )
