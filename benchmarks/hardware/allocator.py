"""What the caching allocator's books say after each step of known and of random sequences of requests."""

import gc
import random

import torch

KIB, MIB = 1 << 10, 1 << 20
# Each step asks for bytes under a name, frees a name, or empties the cache.
KNOWN = {
    "one byte": [("ask", "a", 1)],
    "a block and a little": [("ask", "a", 512), ("ask", "b", 513)],
    "a small segment is shared": [("ask", "a", MIB), ("ask", "b", MIB), ("ask", "c", 1)],
    "the edge of small": [("ask", "a", MIB), ("ask", "b", MIB + 1)],
    "a large segment is shared": [("ask", name, 5 * MIB) for name in "abcde"],
    "the edge of large": [("ask", "a", 10 * MIB - 512), ("ask", "b", 10 * MIB - 1), ("ask", "c", 11 * MIB)],
    "a freed block is used again": [("ask", "a", 3 * MIB), ("free", "a"), ("ask", "b", 3 * MIB)],
    "the best fit": [
        *(("ask", name, size * MIB) for name, size in (("a", 4), ("b", 1.5), ("c", 2), ("d", 1.5), ("e", 6))),
        ("free", "a"),
        ("free", "c"),
        ("ask", "f", 2 * MIB),
        ("ask", "g", 3 * MIB),
    ],
    "neighbours merge": [
        *(("ask", name, 5 * MIB) for name in "abcd"),
        ("free", "b"),
        ("free", "c"),
        ("ask", "e", 9 * MIB),
    ],
    "emptying": [
        *(("ask", "a", 5 * MIB), ("ask", "b", 30 * MIB)),
        *(("free", "b"), ("empty",), ("free", "a"), ("empty",)),
    ],
    "a live block keeps its segment": [
        *(("ask", name, 5 * MIB) for name in "abcd"),
        ("free", "a"),
        ("free", "b"),
        ("free", "d"),
        ("empty",),
    ],
    "a large block is not split for a little": [
        *(("ask", "a", 30 * MIB), ("free", "a")),
        ("ask", "b", 29.5 * MIB),
    ],
}
SEEDS = range(20)


def random_steps(seed: int) -> list[tuple]:
    """Return a sequence of requests of all sizes, frees, and an emptying now and then."""
    chance = random.Random(seed)
    alive, steps = [], []
    for number in range(60):
        choice = chance.random()
        if choice < 0.05:
            steps.append(("empty",))
        elif choice < 0.45 and alive:
            steps.append(("free", alive.pop(chance.randrange(len(alive)))))
        else:
            largest = chance.choice((4 * KIB, 900 * KIB, 3 * MIB, 24 * MIB))
            alive.append(f"t{number}")
            steps.append(("ask", alive[-1], chance.randrange(1, largest)))
    return steps


def sequences() -> dict[str, list[tuple]]:
    """Return every sequence by its name."""
    return KNOWN | {f"random {seed}": random_steps(seed) for seed in SEEDS}


def record(device: torch.device) -> dict[str, list[list[int]]]:
    """Return, for each sequence, the books after each of its steps.

    The books are five numbers: bytes allocated, bytes reserved, the peak of bytes allocated, segments, and
    blocks in use. They count from an empty allocator.
    """
    return {name: _books(device, steps) for name, steps in sequences().items()}


def _books(device: torch.device, steps: list[tuple]) -> list[list[int]]:
    module = torch.get_device_module(device)
    gc.collect()
    module.empty_cache()
    if module.memory_reserved(device):
        raise RuntimeError(f"{device} is in use: record this in a process in which nothing has run there")
    module.reset_peak_memory_stats(device)
    alive: dict[str, torch.Tensor] = {}
    pages = []
    for action, *details in steps:
        if action == "ask":
            name, size = details
            alive[name] = torch.empty(int(size), dtype=torch.uint8, device=device)
        elif action == "free":
            del alive[details[0]]
        else:
            module.empty_cache()
        stats = module.memory_stats(device)
        pages.append(
            [
                module.memory_allocated(device),
                module.memory_reserved(device),
                module.max_memory_allocated(device),
                stats["segment.all.current"],
                stats["allocation.all.current"],
            ]
        )
    return pages
