"""The lists of autocast are PyTorch's: its own header is asked, and each rule is tried."""

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from devlab.sim import autocasting

HEADER = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
HALF = torch.float16


def listed(macro: str) -> set[str]:
    """Return what a list in PyTorch's header names, as `name` or `name.overload`."""
    text = HEADER.read_text(encoding="utf-8")
    body = re.search(rf"#define {macro}\(_\)(.*?[^\\])\n", text, re.DOTALL)[1]
    return {".".join(part.strip() for part in found.split(",")) for found in re.findall(r"_\((.*?)\)", body)}


@pytest.mark.skipif(not HEADER.exists(), reason="this torch has no headers")
@pytest.mark.parametrize(
    ("macro", "ours", "beside"),
    [
        ("AT_FORALL_LOWER_PRECISION_FP", autocasting.LOWER, set()),
        ("AT_FORALL_FP32", autocasting.FLOAT32, set()),
        (
            "AT_FORALL_FP32_SET_OPT_DTYPE",
            autocasting.FLOAT32_BY_DEFAULT,
            {"norm.Scalar", "norm.ScalarOpt_dim"},
        ),
        ("AT_FORALL_PROMOTE", autocasting.WIDEST, set()),
    ],
)
def test_the_lists_are_pytorchs(macro, ours, beside):
    """`norm` has a list of its own there, because its dtype is an argument of another operator."""
    assert set(ours) == listed(macro) | beside


@pytest.mark.parametrize(
    ("call", "dtype"),
    [
        (lambda x: torch.einsum("ij,jk->ik", x, x), HALF),
        (lambda x: torch.linalg.multi_dot([x, x, x]), HALF),
        (lambda x: torch.addr(x, x[0], x[0]), HALF),
        (lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]), HALF),
        (lambda x: torch.nn.RNNCell(4, 4, device=x.device)(x), HALF),
        (lambda x: torch.nn.GRUCell(4, 4, device=x.device)(x), HALF),
        (lambda x: torch.nn.LSTMCell(4, 4, device=x.device)(x)[0], HALF),
        (lambda x: torch.acos(x.half()), torch.float32),
        (lambda x: F.rms_norm(x.half(), (4,)), torch.float32),
        (lambda x: torch.cdist(x.half(), x.half()), torch.float32),
        (lambda x: F.interpolate(x.half()[None, None], 8), torch.float32),
        (lambda x: F.interpolate(x.half()[None, None], 8, mode="bicubic"), torch.float32),
        (lambda x: F.cross_entropy(x.half(), torch.tensor([0, 1, 2, 3], device=x.device)), torch.float32),
        (lambda x: F.triplet_margin_loss(x.half(), x.half(), x.half()), torch.float32),
        (lambda x: x.half().sum(), torch.float32),
        (lambda x: x.half().sum(dtype=HALF), HALF),
        (lambda x: x.half().softmax(-1), torch.float32),
        (lambda x: x.half().softmax(-1, dtype=HALF), HALF),
        (lambda x: torch.linalg.vector_norm(x.half()), torch.float32),
        (lambda x: x.half().norm(), torch.float32),
        (lambda x: torch.atan2(x.half(), x), torch.float32),
        (lambda x: torch.atan2(x.half(), x.half()), HALF),
        (lambda x: torch.dot(x[0].half(), x[0]), torch.float32),
        (lambda x: torch.zeros_like(x).scatter_add(0, torch.zeros_like(x).long(), x.half()), torch.float32),
        (lambda x: x + x.half(), torch.float32),
        (lambda x: x.double() @ x.double(), torch.float64),
    ],
)
def test_the_dtype_is_that_of_cuda(call, dtype, device):
    """Lower precision, float32, float32 unless a dtype is asked for, the widest, or no cast at all."""
    x = torch.rand(4, 4, device=device)
    with torch.autocast("sim", dtype=HALF):
        assert call(x).dtype is dtype


def test_a_loss_that_is_unsafe_is_refused(device):
    """As on CUDA, where it names the function to use in its place."""
    x = torch.rand(4, device=device)
    words = r"(?s)are unsafe to autocast\.\nMany models .* BCEWithLogits are\nsafe to autocast\.$"
    with torch.autocast("sim", dtype=HALF), pytest.raises(RuntimeError, match=words):
        F.binary_cross_entropy(x, x)
    with torch.autocast("sim", dtype=HALF):
        assert F.binary_cross_entropy_with_logits(x, x).dtype is torch.float32


def test_cross_entropy_asks_for_the_dtype_of_its_logits(device):
    """So its logarithms are rounded to 16 bits, as an H200 showed: a loss of 1.06885, and not 1.06879."""
    logits = torch.tensor([[0.3, -1.2, 0.7], [1.1, 0.2, -0.4]], device=device).half()
    labels = torch.tensor([1, 0], device=device)
    with torch.autocast("sim", dtype=HALF):
        loss = F.cross_entropy(logits, labels)
    assert loss.dtype is torch.float32
    rounded = F.log_softmax(logits, -1)
    assert rounded.dtype is HALF
    assert torch.equal(loss, F.nll_loss(rounded.float(), labels))
    assert not torch.equal(loss, F.cross_entropy(logits.float(), labels))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x @ x,
        lambda x: F.linear(x, x, x[0]),
        lambda x: torch.einsum("ij,jk->ik", x, x),
        lambda x: torch.bmm(x[None], x[None]),
        lambda x: F.conv2d(x[None, None], x[None, None, :2, :2]),
        lambda x: torch.cat((x, x)),
        lambda x: F.bilinear(x, x, x[None]),
        lambda x: torch.linalg.pinv(x),
        lambda x: F.mse_loss(x.half(), x.half()),
    ],
)
def test_the_cpus_autocast_does_not_touch_a_device(call, device):
    """It casts tensors of the CPU alone, by the source of PyTorch's `is_autocast_eligible`."""
    x = torch.rand(4, 4, device=device)
    expected = call(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = call(x)
        assert (x.cpu() @ x.cpu()).dtype is torch.bfloat16
    assert found.dtype is expected.dtype
    assert torch.equal(found, expected)
