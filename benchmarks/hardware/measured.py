"""What a real GPU takes and needs, for the tables and the prose of the lessons. Names are names of figures.

Seconds are medians. On any other device than CUDA all sizes are small: that is a rehearsal of the code.
"""

import time
import traceback

import torch
from hardware import training
from hardware.stopwatch import Stopwatch
from torch import nn
from torch.nn import functional as F

from devlab.sim import clock

PRECISIONS = (
    ("float64", torch.float64, False),
    ("float32", torch.float32, False),
    ("float32 with TF32", torch.float32, True),
    ("float16", torch.float16, False),
    ("bfloat16", torch.bfloat16, False),
)
COPIES = [1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048, 3072, 4096, 16384, 65536]  # KiB
ROWS = [1 << power for power in range(15)]
BATCHES = (32, 256, 2048, 16384)


def record(device: torch.device, sections: list[str] | None = None) -> dict[str, dict]:
    """Return every section's figures by name; a section that fails says how, and the others go on."""
    table = {}
    with clock.virtual():
        for name in SECTIONS if sections is None else sections:
            begun = time.perf_counter()
            try:
                table[name] = SECTIONS[name](Stopwatch(device), device.type != "cuda")
            except Exception:
                table[name] = {"failed": traceback.format_exc()[-1500:]}
            print(f"  {name:<15} {time.perf_counter() - begun:>6.1f} s", flush=True)
    return table


def basics(watch: Stopwatch, small: bool) -> dict[str, float]:
    """The host's time to start and to wait; rates of memory and of products."""
    device, figures = watch.device, {}
    x, one = torch.zeros(8, device=device), torch.zeros((), device=device)
    matrix = torch.randn(64, 64, device=device)
    layer = nn.Linear(64, 64).to(device)
    here = torch.zeros(1024)
    there = here.to(device)
    for name, call in {
        "host seconds to start x + 1 (8 numbers)": lambda: x + 1,
        "host seconds to start x.add_(1)": lambda: x.add_(1),
        "host seconds to start a 64 x 64 product": lambda: matrix @ matrix,
        "host seconds to start nn.Linear forward": lambda: layer(matrix),
        "seconds of one.item(), queue empty": one.item,
        "seconds of bool(one > 0), queue empty": lambda: bool(one > 0),
        "seconds of synchronize, queue empty": watch.wait,
        "seconds of 4 KB pageable .to(device)": lambda: here.to(device),
        "seconds of 4 KB .cpu()": there.cpu,
        "seconds of torch.empty(8, device)": lambda: torch.empty(8, device=device),
    }.items():
        figures[name] = watch.host(call)
    figures["seconds of 1 MB pin_memory(), new each time"] = watch.host(
        lambda: torch.empty(1 << 18).pin_memory(), 20
    )
    figures["device seconds of one small kernel in a row"] = watch.on_device(lambda: x.add_(1), 2000)
    return figures | _memory_rates(watch, small) | _product_rates(watch, small)


def _memory_rates(watch: Stopwatch, small: bool) -> dict[str, float]:
    origin = torch.zeros(1 << (18 if small else 28), device=watch.device)
    target, moved = torch.zeros_like(origin), 2 * origin.nbytes
    name = "device memory bytes/s ({} 1 GiB, read + written)"
    figures = {
        name.format("copy"): moved / watch.on_device(lambda: target.copy_(origin)),
        name.format("add_"): moved / watch.on_device(lambda: origin.add_(1)),
    }
    if not watch.real:
        return figures  # the host's memory is this machine's, and its clock is modelled
    here = torch.zeros(1 << 26)
    copy, before = torch.zeros_like(here), torch.get_num_threads()
    for threads in dict.fromkeys((1, before)):
        torch.set_num_threads(threads)
        seconds = watch.whole(lambda: copy.copy_(here), 10)
        figures[f"host memory bytes/s (copy 256 MiB, {threads} threads)"] = 2 * here.nbytes / seconds
    torch.set_num_threads(before)
    return figures


def _product_rates(watch: Stopwatch, small: bool) -> dict[str, float]:
    side, figures = 128 if small else 8192, {}
    for name, dtype, tf32 in PRECISIONS:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        square = torch.randn(side, side, device=watch.device, dtype=dtype)
        seconds = watch.on_device(lambda square=square: square @ square, 6, 2)
        figures[f"operations/s, {side} x {side} product, {name}"] = 2 * side**3 / seconds
    torch.backends.cuda.matmul.allow_tf32 = False
    return figures


def held_by_copies(watch: Stopwatch, small: bool) -> dict[str, float]:
    """How long a copy behind about 20 ms of work keeps the host: does it wait for the queue?"""
    device = watch.device
    square = torch.randn(*[256 if small else 8192] * 2, device=device)
    figures = {"seconds of the work in front": watch.whole(lambda: square @ square, 5)}
    for kib in COPIES[:4] if small else COPIES:
        for name, copy in copies(device, kib).items():
            figures[f"{name}, {kib} KiB"] = watch.behind(lambda: square @ square, copy)
    return figures


def copies(device: torch.device, kib: int) -> dict:
    """Return every kind of copy of some KiB."""
    pageable, back = torch.ones(kib * 256), torch.ones(kib * 256)
    pinned, pinned_back = pageable.pin_memory(), back.pin_memory()
    x = torch.ones(kib * 256, device=device)
    return {
        "pageable.to(device)": lambda: pageable.to(device),
        "pageable.to(device, non_blocking)": lambda: pageable.to(device, non_blocking=True),
        "pinned.to(device)": lambda: pinned.to(device),
        "pinned.to(device, non_blocking)": lambda: pinned.to(device, non_blocking=True),
        "x.cpu()": lambda: x.cpu(),
        "x.to(cpu, non_blocking)": lambda: x.to("cpu", non_blocking=True),
        "pageable.copy_(x, non_blocking)": lambda: back.copy_(x, non_blocking=True),
        "pinned.copy_(x, non_blocking)": lambda: pinned_back.copy_(x, non_blocking=True),
    }


def transfers(watch: Stopwatch, small: bool) -> dict[str, float]:
    """Ways to bring 19 MB of pictures over."""
    device, shape = watch.device, (4, 3, 32, 32) if small else (32, 3, 224, 224)
    x = torch.randn(shape)
    pinned, whole_numbers = x.pin_memory(), torch.randint(0, 255, shape, dtype=torch.uint8)
    ways = {
        "pageable .to": lambda: x.to(device),
        "pinned .to": lambda: pinned.to(device),
        "pinned .to, non_blocking": lambda: pinned.to(device, non_blocking=True),
        "x.pin_memory().to(device, non_blocking), pinned memory cached": lambda: x.pin_memory().to(
            device, non_blocking=True
        ),
        "uint8 pageable .to and division there": lambda: whole_numbers.to(device).float().div_(255),
        "one by one, 32 transfers of a 32nd": lambda: [one.to(device) for one in x],
    }
    return {name: watch.whole(way) for name, way in ways.items()}


def launch_bound(watch: Stopwatch, small: bool) -> dict[str, float]:
    """Many small operators: one by one, as one CUDA graph, compiled; and rows of a product."""
    device = watch.device
    x, large = torch.randn(1024, device=device), torch.randn(1 << (16 if small else 26), device=device)

    def chain():
        y = x
        for _ in range(50):
            y = torch.relu(y * 1.01 + 0.1)
        return y

    def few(x):
        return torch.relu(x * 1.01 + 0.1) * 2 - 1

    figures = {
        "150 small operators, eager, until done": watch.whole(chain),
        "150 small operators, device seconds by events": watch.on_device(chain),
        "five operators on 256 MiB, eager": watch.on_device(lambda: few(large), 10),
    }
    if not small:
        figures["150 small operators, one graph replay, until done"] = watch.whole(_graph(chain).replay)
        figures |= _compiled(watch, few, large)
    square = torch.randn(*[256 if small else 8192] * 2, device=device)
    name = "without a wait: time of an 8192 product by the host's clock"
    figures[name] = watch.host(lambda: square @ square, 5, 1)
    side = 64 if small else 4096
    weights = torch.randn(side, side, device=device, dtype=torch.bfloat16)
    for rows in ROWS[:4] if small else ROWS:
        batch = torch.randn(rows, side, device=device, dtype=torch.bfloat16)
        name = f"bfloat16 (rows x 4096) @ (4096 x 4096), {rows} rows, device seconds"
        figures[name] = watch.on_device(lambda batch=batch: batch @ weights, 50)
    return figures


def _compiled(watch: Stopwatch, few, large: torch.Tensor) -> dict[str, object]:
    """Return what a compiled function takes; not every machine has the compiler that this needs."""
    compiled = torch.compile(few)
    begun = watch.now()
    try:
        compiled(large)
    except Exception as error:
        return {"compile failed": str(error)[:300]}
    watch.wait()
    first = watch.now() - begun
    return {
        "torch.compile of it, first call": first,
        "five operators on 256 MiB, compiled": watch.on_device(lambda: compiled(large), 10),
    }


def _graph(call) -> "torch.cuda.CUDAGraph":
    """Return the CUDA graph of a call, which must have run in a side stream before it is captured."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def small_training(watch: Stopwatch, small: bool) -> dict[str, float]:
    """A step of a network for the digits: the CPU against the device, by batch."""
    figures = {}
    for place in (torch.device("cpu"), watch.device):
        for batch in BATCHES[:1] if small else BATCHES:
            step = _digits(place, batch)
            figures[f"{place.type}, batch {batch}, seconds a step"] = watch.whole(step, 30, 5)
    return figures


def _digits(place: torch.device, batch: int):
    """Return a step of training that network."""
    layers = nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    model = nn.Sequential(*layers).to(place)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.randn(batch, 64, device=place)
    y = torch.randint(0, 10, (batch,), device=place)

    def step():
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


SECTIONS = {
    "basics": basics,
    "held_by_copies": held_by_copies,
    "transfers": transfers,
    "small_training": small_training,
    "loading": training.loading,
    "spine": training.spine,
    "spine_compiled": training.spine_compiled,
    "launch_bound": launch_bound,
    "memory_by_phase": training.memory_by_phase,
}
