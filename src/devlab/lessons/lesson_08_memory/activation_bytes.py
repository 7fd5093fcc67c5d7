"""What a block of a transformer keeps for its backward, judged by what autograd saves on the device."""

import torch
from torch import nn
from torch.nn import functional as F

from devlab.checks import expect
from devlab.checks.scenes import scene
from devlab.checks.seen import Seen
from devlab.lessons.lesson_08_memory import lesson

activation_bytes = lesson.exercise(
    "activation_bytes(shape, hidden, heads, dtype, fused)",
    ("H2", "H8"),
    "Go through `forward` line by line. Of each operation ask what its backward needs: a Linear and a "
    "LayerNorm need their input, a product needs both factors, `silu` its input, a sum nothing. A tensor "
    "that two of them need is there once.",
    "In units of batch · length numbers: x, norm_1's result, q, k and v, attention's result, the sum and "
    "norm_2's result make 8 · width. Then count the four tensors of `hidden`, and for attention that is "
    "written out heads · length, the table that `softmax` returns.",
    "`numbers = batch * length * (8 * width + 4 * hidden + (0 if fused else heads * length))`, and "
    "`return numbers * dtype.itemsize`",
)

ASKED = "what the block keeps on this device"
WITHIN = 0.02  # the norms' statistics, the mask and the sums of fused attention are less than this


class Block(nn.Module):
    """The block of the task."""

    def __init__(self, width: int, hidden: int, heads: int, fused: bool):
        super().__init__()
        self.heads, self.fused = heads, fused
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gate, self.up = nn.Linear(width, hidden), nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return attention's result and the gated layers', each added to what came in."""
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.norm_1(x)).chunk(3, -1)
        )
        if self.fused:
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=x.device).triu(1)
            scores = (q @ k.transpose(2, 3) / q.shape[3] ** 0.5).masked_fill(later, float("-inf"))
            attended = scores.softmax(-1) @ v
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        normed = self.norm_2(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


def ours(shape, hidden, heads, dtype, fused):
    batch, length, width = shape
    numbers = batch * length * (8 * width + 4 * hidden + (0 if fused else heads * length))
    return numbers * dtype.itemsize


def measure_kept(block, x):
    """Return the bytes of the storages that the graph of block(x) keeps, without the block's parameters."""
    kept = {}

    def note(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        block(x)
    for parameter in block.parameters():
        kept.pop(parameter.untyped_storage().data_ptr(), None)
    return sum(kept.values())


def see_predictions(t, fused, *cases):
    for shape, hidden, heads, dtype in cases:
        got = t.call(shape, hidden, heads, dtype, fused)
        expect.kind(got, int, "an int", "the number of bytes")
        block = Block(shape[-1], hidden, heads, fused).to(t.device, dtype)
        right = measure_kept(block, t.randn(*shape, dtype=dtype))
        yield Seen("the number of bytes", float(got), WITHIN, ASKED, right=float(right))


@scene(activation_bytes, ours, "fused attention keeps no table", only="cpu")
def fused_attention(t):  # not every device fuses it
    yield from see_predictions(t, True, ((2, 32, 64), 192, 8, torch.float32))


@scene(activation_bytes, ours, "written-out attention: a table for each head")
def written_out(t):
    shapes = ((4, 32, 64), 160, 8), ((3, 64, 48), 64 + 32 * (t.seeds[1] % 3), 6)
    yield from see_predictions(t, False, *((*shape, torch.float32) for shape in shapes))


@scene(activation_bytes, ours, "each number at the size of its dtype")
def dtypes(t):
    halves = torch.bfloat16, torch.float16
    yield from see_predictions(t, False, *(((4, 32, 48), 112, 3, dtype) for dtype in halves))
