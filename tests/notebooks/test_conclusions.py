"""What lessons 00, 01 and 04 conclude in words from an H200's figures holds for the recording."""

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "recorded" / "h200"


def cases(name: str) -> dict:
    """Return the cases of a recording."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["cases"]


MEASURED = {**cases("measured"), **{name: cases(name) for name in ("bandwidth", "crossover", "traces")}}


def test_lesson_00_compares_the_two_memories_as_measured():
    """Its own memory is nearly two hundred times as fast as a pageable transfer, as the lesson says."""
    own = MEASURED["basics"]["device memory bytes/s (copy 1 GiB, read + written)"]
    transfer = MEASURED["bandwidth"]["pageable to the device, 268435456 bytes"]["bytes/s"]
    assert own / transfer == pytest.approx(195, abs=5)
    product = MEASURED["launch_bound"]["bfloat16 (rows x 4096) @ (4096 x 4096), 4096 rows, device seconds"]
    assert 1e9 / own / product == pytest.approx(4 / 3, rel=0.05)


def test_lesson_01_has_the_first_size_at_which_the_accelerator_wins():
    """With two transfers there and one back the CPU is faster at 128, and the accelerator at 512."""
    wins = {}
    for side in (32, 128, 512, 2048):
        times = MEASURED["crossover"][f"matrix product, float32, {side} x {side}"]
        wins[side] = times["device"] + 3 * times["transfer"] < times["cpu"]
    assert wins == {32: False, 128: False, 512: True, 2048: True}


def test_lesson_04_says_which_transfers_wait_for_the_work_in_front():
    """All that block do; without blocking the large ones from pageable memory, and none that is pinned."""
    held, front = MEASURED["held_by_copies"], MEASURED["held_by_copies"]["seconds of the work in front"]
    for size in (256, 2048, 4096, 16384):
        waits = [
            held[f"{kind}.to(device{manner}), {size} KiB"] > 0.9 * front
            for kind in ("pageable", "pinned")
            for manner in ("", ", non_blocking")
        ]
        assert waits == [True, size > 2048, True, False], size


def test_lesson_04_says_what_pays():
    """Pinning by hand wins once the memory is cached; workers cost where the data is in memory already."""
    transfers, traces = MEASURED["transfers"], MEASURED["traces"]
    by_hand = transfers["x.pin_memory().to(device, non_blocking), pinned memory cached"]
    assert transfers["pinned .to"] < by_hand < transfers["pageable .to"]
    rates = [
        traces[name]["images/s"]
        for name in ("workers_pinned_no_wait", "loader_in_the_main_process_waits", "pinned_no_wait")
    ]
    assert rates == sorted(rates)
    assert traces["small_batches_item"]["images/s"] > traces["small_batches_launch_bound"]["images/s"]


@pytest.mark.parametrize("side", [512, 1024, 2048])
def test_lesson_04_compares_operations_with_transfers(side):
    """An addition is cheaper than either transfer; the product is dearer than the pinned one at 2048 only."""
    bandwidth, crossover = MEASURED["bandwidth"], MEASURED["crossover"]
    pageable, pinned = (
        bandwidth[f"{kind} to the device, {4 * side * side} bytes"]["seconds"]
        for kind in ("pageable", "pinned")
    )
    addition = crossover[f"add, float32, {side} x {side}"]["device"]
    product = crossover[f"matrix product, float32, {side} x {side}"]["device"]
    assert 3 * addition < pinned < pageable
    assert (product > pinned) is (side == 2048)
    assert product < pageable
