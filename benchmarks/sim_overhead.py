"""What the simulated accelerator costs, beside the CPU and beside PyTorch's FakeTensorMode, in one run.

Times are processor time, the smallest of several rounds, so that other work on the machine hardly shows.
"""

import gc
import resource
import time
import timeit

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import devlab.sim


def microseconds(function, calls: int = 2000, rounds: int = 15) -> float:
    function()
    best = min(timeit.repeat(function, number=calls, repeat=rounds, timer=time.process_time))
    return best / calls * 1e6


def elementwise(device):
    x, y = torch.ones(8, 8, device=device), torch.ones(8, 8, device=device)
    return lambda: x + y


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


def main() -> None:
    torch.set_num_threads(1)
    devlab.sim.enable()
    cpu, sim = microseconds(elementwise("cpu")), microseconds(elementwise("sim"))
    with FakeTensorMode():
        fake = microseconds(elementwise("cpu"), calls=500)
    print(f"elementwise   cpu {cpu:.1f} us, sim {sim:.1f} us (+{sim - cpu:.1f}), fake {fake:.1f} us")
    print(f"              sim is {fake / sim:.1f} times faster than FakeTensorMode")
    step_cpu, step_sim = (microseconds(training_step(device), calls=50) for device in ("cpu", "sim"))
    print(f"training step cpu {step_cpu:.0f} us, sim {step_sim:.0f} us: {step_sim / step_cpu:.2f} times")
    device, process = growth_of_memory()
    print(f"100,000 operations left {device} bytes on the device, and the process {process} bytes larger")


if __name__ == "__main__":
    main()
