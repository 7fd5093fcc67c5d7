"""What the simulated accelerator costs, beside the CPU and beside PyTorch's FakeTensorMode, in one run.

Times are processor time, the smallest of many short rounds, so that other work on the machine hardly shows.
"""

import gc
import resource
import time
import timeit

import torch
from promises import promise
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import devlab.sim


def microseconds(function, calls: int = 300, rounds: int = 100) -> float:
    return beside([function], calls, rounds)[0]


def beside(functions, calls: int = 300, rounds: int = 100) -> list[float]:
    """Return each function's time in microseconds; they take turns, so that one load meets all.

    Each round ends with a question about memory, which makes the allocator do what it has put off.
    """
    for function in functions:
        function()
    settle = torch.sim.memory_allocated
    times = [
        [
            timeit.timeit(function, number=calls, timer=time.process_time)
            + timeit.timeit(settle, number=1, timer=time.process_time)
            for function in functions
        ]
        for _ in range(rounds)
    ]
    return [min(column) / calls * 1e6 for column in zip(*times, strict=True)]


def elementwise(device):
    x, y = torch.ones(8, 8, device=device), torch.ones(8, 8, device=device)
    return lambda: x + y


def with_number(device):
    x = torch.ones(8, 8, device=device)
    return lambda: x + 1


def in_place(device):
    x, y = torch.ones(8, 8, device=device), torch.ones(8, 8, device=device)
    return lambda: x.mul_(y)


def of_one(device):
    x = torch.ones(8, 8, device=device)
    return lambda: x.relu()


def training_step(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    x, y = torch.randn(128, 64).to(device), torch.randint(0, 10, (128,)).to(device)

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def growth_of_memory(operations: int = 100_000) -> tuple[int, int]:
    """Return the bytes by which the device's memory and the process grew over many operations."""
    add = elementwise("sim")
    for _ in range(1000):
        add()
    gc.collect()
    device, process = torch.sim.memory_allocated(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(operations):
        add()
    gc.collect()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - process
    return torch.sim.memory_allocated() - device, grown * 1024


OPERATIONS = {"x + 1": with_number, "x.mul_(y)": in_place, "x.relu()": of_one, "x + y": elementwise}


def main() -> None:
    """Print the table and the promises."""
    torch.set_num_threads(1)
    devlab.sim.enable()
    times = {}
    for name, make in OPERATIONS.items():
        cpu, sim = times[name] = beside([make("cpu"), make("sim")])
        print(f"{name:<13} cpu {cpu:.1f} us, sim {sim:.1f} us (+{sim - cpu:.1f})")
    with FakeTensorMode():
        fake = microseconds(elementwise("cpu"), calls=75)
    print(f"{'x + y':<13} under FakeTensorMode {fake:.1f} us")
    step_cpu, step_sim = beside([training_step(device) for device in ("cpu", "sim")], calls=8)
    print(f"training step cpu {step_cpu:.0f} us, sim {step_sim:.0f} us")
    device, process = growth_of_memory()
    print(f"100,000 operations left {device} bytes on the device, and the process {process} bytes larger")
    for name, (cpu, sim) in times.items():
        promise(f"{name} on sim", sim - cpu, "µs more", beside=f"{cpu:.1f} µs on the CPU", most=10)
    promise("x + y on sim", fake / times["x + y"][1], "times as fast", beside="FakeTensorMode", least=5)
    promise("training step", step_sim / step_cpu, "times", beside=f"{step_cpu:.0f} µs on the CPU", most=3)
    promise("100,000 operations on sim", device, "bytes left", beside="an empty device", most=0)


if __name__ == "__main__":
    main()
