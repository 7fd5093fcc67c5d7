"""Which devices may meet in one call, and what PyTorch says where they may not."""

import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from devlab.sim import clock

HOST = torch.ones(3, 3)
SIM = torch.ones(3, 3, device="sim:0")
OTHER = torch.ones(3, 3, device="sim:1")


@pytest.mark.parametrize(
    "call",
    [
        lambda: SIM + torch.tensor(2.0),
        lambda: torch.tensor(2.0) * SIM,
        lambda: SIM - 1,
        lambda: 2 / SIM,
        lambda: SIM.gt(torch.tensor(0.5)),
        lambda: torch.where(SIM > 0, SIM, torch.tensor(0.0)),
        lambda: torch.where(SIM > 0, 1.0, 0.0),
        lambda: SIM[torch.tensor([0, 2])],
        lambda: SIM[torch.tensor([True, False, True])],
        lambda: SIM[HOST > 0],
        lambda: SIM.clone().masked_fill_(SIM > 0, torch.tensor(3.0)),
        lambda: torch.zeros_like(SIM).copy_(HOST),
        lambda: torch.zeros_like(SIM).copy_(OTHER),
        lambda: SIM.clone().index_put_((torch.tensor([0]),), torch.tensor(1.0)),
        lambda: SIM.clone().add_(torch.tensor(1.0)),
        lambda: torch.addcmul(SIM, torch.tensor(0.0), SIM),
    ],
)
def test_what_mixes(call):
    """Zero-dimensional CPU tensors, numbers, CPU indices and copies."""
    assert call().device == torch.device("sim:0")


def test_assignment_across_devices():
    """Assignment to a slice is a copy, and copies cross devices."""
    x = torch.zeros(3, 3, device="sim:0")
    x[0] = torch.ones(3)
    x[1, :2] = torch.ones(2, device="sim:1")
    x[2] = 5
    assert x.sum().item() == 3 + 2 + 15
    y = torch.zeros(3)
    y[:] = x[0]
    assert y.tolist() == [1, 1, 1]


AT_LEAST_TWO = "Expected all tensors to be on the same device, but found at least two devices, {} and {}!"
BUT_GOT = (
    "Expected all tensors to be on the same device, but got {} is on {}, different from other tensors on {} "
    "(when checking argument in method wrapper_CUDA_{})"
)


INPUT_TYPE = "Input type (torch{}.FloatTensor) and weight type (torch{}.FloatTensor) should be the same"
OR_MKLDNN = "or input should be a MKLDNN tensor and weight is a dense tensor"


def pictures(count):
    """Return some grey pictures on the CPU."""
    return torch.ones(count, 1, 4, 4)


def attended(mask):
    """Return attention on the device under a mask."""
    x = torch.ones(1, 2, 4, 8, device="sim")
    return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


def convolved(count, weight):
    """Return pictures of the CPU under a small convolution; PyTorch hands more than one picture to oneDNN."""
    return F.conv2d(pictures(count), weight[None, None])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SIM + HOST, AT_LEAST_TWO.format("sim:0", "cpu")),
        (lambda: HOST + SIM, AT_LEAST_TWO.format("sim:0", "cpu")),
        (lambda: HOST.clone().add_(SIM), AT_LEAST_TWO.format("sim:0", "cpu")),
        (lambda: torch.tensor(1.0).add_(SIM.sum()), AT_LEAST_TWO.format("sim:0", "cpu")),
        (lambda: SIM + OTHER, AT_LEAST_TWO.format("sim:0", "sim:1")),
        (lambda: OTHER.sum() + SIM, AT_LEAST_TWO.format("sim:1", "sim:0")),
        (lambda: F.mse_loss(SIM, HOST), AT_LEAST_TWO.format("sim:0", "cpu")),
        (lambda: torch.where(HOST > 0, SIM, SIM), AT_LEAST_TWO.format("sim:0", "cpu")),
        (
            lambda: torch.addcmul(SIM, torch.tensor(0.0), torch.tensor(1.0)),
            "Trying to pass too many CPU scalars to non-CPU kernel!",
        ),
        (lambda: SIM @ HOST, BUT_GOT.format("mat2", "cpu", "sim:0", "mm")),
        (lambda: HOST @ SIM, BUT_GOT.format("mat2", "sim:0", "cpu", "mm")),
        (lambda: SIM @ OTHER, BUT_GOT.format("mat2", "sim:1", "sim:0", "mm")),
        (lambda: nn.Linear(3, 3)(SIM), BUT_GOT.format("mat1", "sim:0", "cpu", "addmm")),
        (lambda: nn.Linear(3, 3).to("sim")(HOST), BUT_GOT.format("mat1", "cpu", "sim:0", "addmm")),
        (lambda: torch.cat([SIM, HOST]), BUT_GOT.format("tensors", "cpu", "sim:0", "cat")),
        (
            lambda: F.embedding(torch.tensor([1]), SIM),
            BUT_GOT.format("index", "cpu", "sim:0", "_index_select"),
        ),
        (
            lambda: F.cross_entropy(SIM, torch.tensor([0, 1, 2])),
            BUT_GOT.format("target", "cpu", "sim:0", "nll_loss_forward"),
        ),
        (
            lambda: SIM.gather(0, torch.zeros(1, 3, dtype=torch.int64)),
            BUT_GOT.format("index", "cpu", "sim:0", "gather"),
        ),
        (
            lambda: HOST[torch.tensor([0], device="sim")],
            "indices should be either on cpu or on the same device as the indexed tensor (cpu)",
        ),
        (
            lambda: HOST.clone().index_put_((torch.tensor([0], device="sim"),), SIM[:1]),
            AT_LEAST_TWO.format("sim:0", "cpu"),
        ),
        (lambda: F.bilinear(HOST, SIM, SIM[None]), BUT_GOT.format("mat2", "sim:0", "cpu", "bmm")),
        (lambda: F.bilinear(SIM, HOST, SIM[None]), BUT_GOT.format("mat2", "cpu", "sim:0", "bmm")),
        (
            lambda: torch.sum(SIM, 0, out=torch.zeros(3)),
            "Expected out tensor to have device sim:0, but got cpu instead",
        ),
        (
            lambda: torch.mean(HOST, 0, out=torch.zeros(3, device="sim")),
            "CUDAGuardImpl initialized with non-CUDA DeviceType: cpu",
        ),
        (
            lambda: attended(torch.zeros(4, 4)),
            BUT_GOT.format("attn_bias", "cpu", "sim:0", "__scaled_dot_product_efficient_attention"),
        ),
        (lambda: convolved(1, SIM), BUT_GOT.format("weight", "sim:0", "cpu", "__slow_conv2d_forward")),
        (lambda: convolved(2, SIM), f"{INPUT_TYPE.format('', '.sim')} {OR_MKLDNN}"),
        (
            lambda: F.conv_transpose2d(pictures(2), SIM[None, None]),
            f"{INPUT_TYPE.format('', '.sim')} {OR_MKLDNN}",
        ),
        (lambda: F.conv2d(pictures(2).to("sim"), HOST[None, None]), INPUT_TYPE.format(".sim", "")),
        (
            lambda: nn.BatchNorm2d(1)(pictures(2).to("sim")),
            BUT_GOT.format("weight", "cpu", "sim:0", "_cudnn_batch_norm"),
        ),
        (
            lambda: nn.BatchNorm2d(1).to("sim")(pictures(2)),
            BUT_GOT.format("weight", "sim:0", "cpu", "_native_batch_norm"),
        ),
        (
            lambda: SIM[torch.tensor([0], device="sim:1")],
            "indices should be either on cpu or on the same device as the indexed tensor (sim:0)",
        ),
        (
            lambda: SIM.masked_fill(HOST > 0, 1.0),
            "expected self and mask to be on the same device, but got mask on cpu and self on sim:0",
        ),
    ],
)
def test_what_does_not_mix(call, message):
    """PyTorch's wording, whole."""
    with pytest.raises(RuntimeError, match="^" + re.escape(message) + "$"):
        call()


@pytest.mark.parametrize("index", [[0, 2], [True, False, True]])
@pytest.mark.parametrize("value", [5.0, torch.tensor(5.0), torch.tensor(5.0, device="sim")])
def test_a_number_is_written_into_the_host_where_the_device_says(index, value):
    """PyTorch copies the indices to the tensor's device first, and waits for them; an H200 does so."""
    x, index = torch.zeros(3), torch.tensor(index, device="sim")
    done = clock.launch(0, 3_000_000_000)
    x[index] = value
    assert clock.now() >= done
    assert x.tolist() == [5, 0, 5]


def test_operands_are_unchanged_by_a_refusal():
    """The check comes before the work."""
    x = torch.ones(3, device="sim:0")
    with pytest.raises(RuntimeError):
        x.add_(torch.ones(3))
    assert x.tolist() == [1, 1, 1]
