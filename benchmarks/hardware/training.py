"""A GPT of 124 million parameters: its step by step, its loading, and its memory from phase to phase."""

import gc
import statistics
import subprocess
import tempfile
from pathlib import Path

import torch
from hardware.stopwatch import Stopwatch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

SMALL = {"layers": 2, "width": 64, "heads": 2, "vocabulary": 512}
GIB = 1 << 30


class Block(nn.Module):
    """A block of a transformer, with PyTorch's attention or with one that is written out."""

    def __init__(self, width: int, heads: int, by_hand: bool):
        super().__init__()
        self.heads, self.by_hand = heads, by_hand
        self.before_attention, self.before_layers = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.joined = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        """Return x of shape (batch, tokens, width), attended and worked on."""
        batch, tokens, width = x.shape
        parts = self.queries_keys_values(self.before_attention(x)).chunk(3, -1)
        shape = batch, tokens, self.heads, width // self.heads
        attended = self.attend(*(part.view(shape).transpose(1, 2) for part in parts))
        x = x + self.joined(attended.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.before_layers(x))))

    def attend(self, queries, keys, values):
        """Return the values, weighted by causal attention."""
        if not self.by_hand:
            return F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        scores = queries @ keys.transpose(-2, -1) / queries.shape[-1] ** 0.5
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        return scores.masked_fill(later, float("-inf")).softmax(-1) @ values


class GPT(nn.Module):
    """GPT-2's smallest size, with one matrix for the first layer and the last."""

    def __init__(
        self,
        layers: int = 12,
        width: int = 768,
        heads: int = 12,
        vocabulary: int = 50304,
        context: int = 1024,
        by_hand: bool = False,
        checkpointed: bool = False,
    ):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, by_hand) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.checkpointed = checkpointed

    def forward(self, tokens, targets):
        """Return the loss."""
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def spine(watch: Stopwatch, small: bool) -> dict[str, dict]:
    """One change after another: seconds of a step, tokens a second, bytes."""
    quick = {"tf32": True, "autocast": torch.bfloat16, "fused": True}
    changes = {
        "float32, attention by hand": {"by_hand": True},
        "float32, scaled_dot_product_attention": {},
        "TF32": {"tf32": True},
        "float16 autocast and GradScaler": {"tf32": True, "autocast": torch.float16},
        "bfloat16 autocast": {"tf32": True, "autocast": torch.bfloat16},
        "bfloat16, fused AdamW": quick,
        "bfloat16, fused, loss.item() each step": quick | {"item": True},
        "bfloat16, fused, every block checkpointed": quick | {"checkpointed": True},
    }
    figures = {name: trained(watch, small, **change) for name, change in changes.items()}
    for batch in (1, 2) if small else (1, 2, 4, 8, 32, 64):
        figures[f"bfloat16, fused, batch {batch}"] = trained(watch, small, batch=batch, steps=5, **quick)
    return figures


def spine_compiled(watch: Stopwatch, small: bool) -> dict[str, dict]:
    """The quickest of them, compiled."""
    if small:
        return {}
    settings = {"tf32": True, "autocast": torch.bfloat16, "fused": True, "compiled": True}
    return {"bfloat16, fused, compiled": trained(watch, small, **settings)}


def trained(
    watch: Stopwatch,
    small: bool,
    *,
    batch: int | None = None,
    steps: int = 8,
    tf32: bool = False,
    autocast: torch.dtype | None = None,
    fused: bool = False,
    item: bool = False,
    compiled: bool = False,
    **model,
) -> dict[str, float]:
    """Return what some steps of training took, or the error that ended them."""
    device, books = watch.device, torch.accelerator
    batch, tokens = batch or (2 if small else 16), 32 if small else 1024
    gc.collect()
    books.empty_cache()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.manual_seed(0)
    try:
        with device:
            gpt = GPT(context=tokens, **(SMALL if small else {}), **model)
        optimizer = torch.optim.AdamW(gpt.parameters(), 3e-4, fused=True if fused and not small else None)
        data = torch.randint(0, 500, (batch, tokens), device=device)
        scaler = torch.amp.GradScaler(device.type, enabled=autocast is torch.float16)
        forward = torch.compile(gpt) if compiled else gpt
        books.reset_peak_memory_stats(device)

        def step():
            with torch.autocast(device.type, autocast or torch.bfloat16, enabled=autocast is not None):
                loss = forward(data, data)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            if item:
                loss.item()
            return loss

        first, _ = _timed(watch, step, 1)
        _timed(watch, step, 1 if small else 2)
        seconds, host = _timed(watch, step, 1 if small else steps)
        loss = step().item()
    except Exception as error:
        return {"error": str(error)[:400]}
    finally:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    parameters = sum(parameter.numel() for parameter in gpt.parameters())
    return {
        "parameters": parameters,
        "batch": batch,
        "tokens": batch * tokens,
        "seconds a step": seconds,
        "tokens/s": batch * tokens / seconds,
        "model FLOP/s (6 N a token)": 6 * parameters * batch * tokens / seconds,
        "host seconds a step": host,
        "first step": first,
        "loss": loss,
        "peak allocated": books.max_memory_allocated(device),
        "peak reserved": books.max_memory_reserved(device),
        "in use (nvidia-smi MiB)": _in_use(device),
    }


def _timed(watch: Stopwatch, step, steps: int) -> tuple[float, float]:
    """Return the seconds of a step, of several in a row, and the median that each kept the host."""
    watch.wait()
    begun, kept = watch.now(), []
    for _ in range(steps):
        one = watch.now()
        step()
        kept.append(watch.now() - one)
    watch.wait()
    return (watch.now() - begun) / steps, statistics.median(kept)


def _in_use(device: torch.device) -> int | None:
    """Return the MiB in use on a CUDA device as the driver counts them, and None of any other."""
    if device.type != "cuda":
        return None
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run([*command, f"--id={device.index or 0}"], capture_output=True, text=True)
        return int(said.stdout.split()[0])
    except (OSError, IndexError, ValueError):
        return None


def loading(watch: Stopwatch, small: bool) -> dict[str, float]:
    """Ways to bring the parameters from a file onto the device."""
    device, sizes = watch.device, SMALL if small else {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "gpt.pt"
        torch.save(GPT(**sizes).state_dict(), file)

        def moved(**options):
            gpt = GPT(**sizes)
            gpt.load_state_dict(torch.load(file, weights_only=True, **options))
            gpt.to(device)

        def mapped():
            with torch.device("meta"):
                gpt = GPT(**sizes)
            state = torch.load(file, weights_only=True, mmap=True, map_location=device)
            gpt.load_state_dict(state, assign=True)

        def made():
            with device:
                GPT(**sizes)

        ways = {
            "made on the CPU, loaded, moved": moved,
            "made on the CPU, loaded onto the device, moved": lambda: moved(map_location=device),
            "made on meta, mapped, assigned": mapped,
            "only made, on the device": made,
        }
        return {"file bytes": file.stat().st_size} | {
            name: watch.whole(way, 3, 1) for name, way in ways.items()
        }


def memory_by_phase(watch: Stopwatch, small: bool) -> dict[str, object]:
    """Bytes after each phase of two steps, their peaks, and the words of an allocation that fails."""
    device, books = watch.device, torch.accelerator
    gc.collect()
    books.empty_cache()
    before = books.memory_allocated(device)
    with device:
        gpt = GPT(**(SMALL if small else {}))
    figures = {"bytes of parameters": books.memory_allocated(device) - before}
    optimizer = torch.optim.AdamW(gpt.parameters(), 3e-4)
    data = torch.randint(0, 500, (2, 32) if small else (8, 1024), device=device)
    for number in range(2):

        def after(phase: str, number: int = number) -> None:
            figures[f"step {number}: after {phase}"] = books.memory_allocated(device) - before
            if phase in ("forward", "backward"):
                figures[f"step {number}: peak of {phase}"] = books.max_memory_allocated(device) - before

        books.reset_peak_memory_stats(device)
        loss = gpt(data, data)
        after("forward")
        books.reset_peak_memory_stats(device)
        loss.backward()
        after("backward")
        optimizer.step()
        after("the optimizer")
        optimizer.zero_grad()
        after("zero_grad")
    kept, size = [], 512 << 20 if small else 8 * GIB
    try:
        while True:
            kept.append(torch.empty(size, dtype=torch.uint8, device=device))
    except torch.OutOfMemoryError as error:
        figures["the out-of-memory message"] = str(error)
    del kept, gpt, optimizer, loss
    books.empty_cache()  # other processes are to find the memory free
    return figures
