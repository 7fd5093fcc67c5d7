"""What lessons conclude in words from an H200's figures holds for the recordings."""

import gzip
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "recorded" / "h200"


def cases(name: str) -> dict:
    """Return the cases of a recording."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["cases"]


BATCHES = (32, 256, 2048, 16384)
MEASURED = {**cases("measured"), **{name: cases(name) for name in ("bandwidth", "crossover", "traces")}}


def test_lesson_00_compares_the_two_memories_as_measured():
    """Its own memory is nearly two hundred times as fast as a pageable transfer, as the lesson says."""
    own = MEASURED["basics"]["device memory bytes/s (copy 1 GiB, read + written)"]
    transfer = MEASURED["bandwidth"]["pageable to the device, 268435456 bytes"]["bytes/s"]
    assert own / transfer == pytest.approx(195, abs=5)
    lesson = (FOLDER.parents[2] / "source" / "lessons" / "00_start_here.py").read_text(encoding="utf-8")
    assert f"own, from_the_host = {own / 1e9:.0f}, {transfer / 1e9:.1f}  # GB/s, measured on" in lesson
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


def test_lesson_07_says_up_to_where_more_is_free():
    """Four million numbers take as long as 256, and 256 rows as long as one, up to the measured balance."""
    add = {side: MEASURED["crossover"][f"add, float32, {side} x {side}"]["device"] for side in (16, 2048)}
    assert add[2048] < 1.1 * add[16]
    basics = MEASURED["basics"]
    rate = basics["operations/s, 8192 x 8192 product, bfloat16"]
    balance = rate / basics["device memory bytes/s (copy 1 GiB, read + written)"]
    assert balance == pytest.approx(187, abs=1)
    rows = "bfloat16 (rows x 4096) @ (4096 x 4096), {} rows, device seconds"
    took = {count: MEASURED["launch_bound"][rows.format(count)] for count in (1, 32, 256, 512, 1024)}
    assert max(took[32], took[256]) < took[1] < took[512] < took[1024] / 1.5


def test_lesson_07_says_when_errors_come():
    """Of 35 kinds of errors in values, 22 pass the line that makes them and are raised by a later one."""
    late = [case["0"] for case in cases("late_errors").values()]
    assert len(late) == 35
    assert sum(case["call"] == "no error" != case["item"] for case in late) == 22


def test_lesson_07_says_what_its_traces_show():
    """Small batches leave the GPU idle 95 % of the time, a loader in the way half, workers a fifth."""
    shares = {}
    for path in sorted((FOLDER.parents[2] / "src" / "devlab" / "data" / "h200").glob("*.json.gz")):
        slices = [
            one for one in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] if one["ph"] == "X"
        ]
        work = [one["dur"] for one in slices if one["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]
        (whole,) = [one["dur"] for one in slices if one["name"].startswith("PyTorch Profiler")]
        shares[path.name.partition(".")[0]] = 1 - sum(work) / whole
        kernels = sum(one["cat"] == "kernel" for one in slices) / 3
        assert not path.name.startswith("small") or kernels == pytest.approx(40, abs=5)
    assert shares == pytest.approx(
        {
            "small_batches_item": 0.95,
            "small_batches_launch_bound": 0.95,
            "loader_in_the_main_process_waits": 0.52,
            "pinned_no_wait": 0.54,
            "workers_pinned_no_wait": 0.21,
        },
        abs=0.01,
    )


def test_lesson_07_bounds_the_transformer():
    """Six operations for each parameter and token take 242 ms of a product's rate, two thirds of the step."""
    first = MEASURED["spine"]["float32, attention by hand"]
    rate = MEASURED["basics"]["operations/s, 8192 x 8192 product, float32"]
    bound = 6 * first["parameters"] * first["tokens"] / rate
    assert bound == pytest.approx(0.242, abs=0.001)
    assert bound / first["seconds a step"] == pytest.approx(2 / 3, abs=0.02)


def test_lesson_08_counts_activations_on_paper():
    """16 x width numbers for each token and block, scores and parameters: what the forward left."""
    phase = MEASURED["memory_by_phase"]
    tokens = 8 * 1024
    counted = 4 * tokens * (12 * 16 * 768 + 50_304) + phase["bytes of parameters"]
    assert counted == pytest.approx(6.98e9, abs=0.01e9)
    assert counted == pytest.approx(phase["step 0: after forward"], rel=0.01)


def test_lesson_09_says_when_two_gpus_are_slower_than_one():
    """Over PCIe 3.0 sending takes as long as the fast step, and hides behind the slow one."""
    step = MEASURED["spine_compiled"]["bfloat16, fused, compiled"]
    slow = MEASURED["spine"]["float32, attention by hand"]["seconds a step"]
    sending = 4 * step["parameters"] / 16e9  # 2 (N - 1) / N is 1 for two ranks
    assert sending == pytest.approx(step["seconds a step"], rel=0.05)
    assert sending < slow * 2 / 3 / 5
    half = step["seconds a step"] / 2
    assert half / 3 + max(half * 2 / 3, sending) > step["seconds a step"]


def test_lessons_10_and_11_say_what_a_wait_and_a_batch_cost():
    """A read of the loss costs three per cent; 8 texts are nearly as fast as one; two hours in all."""
    spine = MEASURED["spine"]
    fused = spine["bfloat16, fused AdamW"]
    item = spine["bfloat16, fused, loss.item() each step"]
    assert item["seconds a step"] / fused["seconds a step"] == pytest.approx(1.03, abs=0.005)
    one, eight = (spine[f"bfloat16, fused, batch {size}"]["seconds a step"] for size in (1, 8))
    assert eight < 1.05 * one
    assert spine["bfloat16, fused, batch 64"]["tokens/s"] < 1.15 * fused["tokens/s"]
    assert 6 * fused["parameters"] * 2.5e9 == pytest.approx(1.9e18, rel=0.02)
    assert 1.7 < 2.5e9 / fused["tokens/s"] / 3600 < 2


def test_lesson_08_counts_copies_and_finds_the_peak():
    """One, two and four copies; the peak has the scores' gradient and another tensor of their size."""
    phase = MEASURED["memory_by_phase"]
    whole = phase["bytes of parameters"]
    held = [phase[f"step 0: {moment}"] / whole for moment in ("after backward", "after the optimizer")]
    assert held == pytest.approx([2, 4], rel=0.01)
    scores = 8 * 1024 * 50_304 * 4
    above = phase["step 0: peak of backward"] - phase["step 0: after forward"]
    assert above == pytest.approx(2 * scores, rel=0.01)


def test_lesson_11_says_where_small_training_is_faster():
    """The CPU wins with small batches; on the GPU the time hardly depends on the batch."""
    took = {
        where: [MEASURED["small_training"][f"{where}, batch {batch}, seconds a step"] for batch in BATCHES]
        for where in ("cpu", "cuda")
    }
    cpu_wins = [cpu < cuda for cpu, cuda in zip(took["cpu"], took["cuda"], strict=True)]
    assert cpu_wins == [True, True, False, False]
    assert max(took["cuda"]) < 2 * min(took["cuda"])


def test_lesson_12_sums_up_its_table():
    """Eleven times as fast in a third of the memory; checkpoints cost a quarter more time and save memory."""
    spine, compiled = MEASURED["spine"], MEASURED["spine_compiled"]["bfloat16, fused, compiled"]
    first, fused = spine["float32, attention by hand"], spine["bfloat16, fused AdamW"]
    assert first["seconds a step"] / compiled["seconds a step"] == pytest.approx(11, abs=0.5)
    assert compiled["peak allocated"] / first["peak allocated"] == pytest.approx(1 / 3, abs=0.05)
    twice = spine["bfloat16, fused, every block checkpointed"]
    assert twice["seconds a step"] / fused["seconds a step"] == pytest.approx(1.25, abs=0.03)
    assert twice["peak allocated"] < 0.7 * fused["peak allocated"]
    product = MEASURED["basics"]["operations/s, 8192 x 8192 product, bfloat16"]
    assert compiled["model FLOP/s (6 N a token)"] / product == pytest.approx(0.48, abs=0.005)
