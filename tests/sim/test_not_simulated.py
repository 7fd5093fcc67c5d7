"""What is not simulated is refused in words that say so and what to do; what is near to it works."""

import pytest
import torch
from torch import nn

SPARSE = {
    "to_sparse": lambda d: torch.eye(3, device=d).to_sparse(),
    "to_sparse_bsr": lambda d: torch.eye(4, device=d).to_sparse_bsr((2, 2)),
    "a copy": lambda d: torch.eye(3).to_sparse().to(d),
    "a copy of rows": lambda d: torch.eye(3).to_sparse_csr().to(d).values(),
    "made of its parts": lambda d: torch.sparse_coo_tensor(
        torch.tensor([[0, 1]], device=d), torch.ones(2, device=d), (3,), check_invariants=False
    ),
    "made of rows": lambda d: torch.sparse_csr_tensor(
        torch.tensor([0, 1, 2]), torch.tensor([0, 1]), torch.ones(2), (2, 2), device=d
    ).values(),
    "empty": lambda d: torch.empty(2, 2, layout=torch.sparse_coo, device=d),
    "zeros": lambda d: torch.zeros_like(torch.eye(3).to_sparse(), device=d),
    "a product with a sparse tensor of the CPU": lambda d: torch.eye(3).to_sparse() @ torch.eye(3, device=d),
    "a product with sparse rows": lambda d: torch.eye(3).to_sparse_csr() @ torch.eye(3, device=d),
    "a sum": lambda d: torch.eye(3, device=d) + torch.eye(3).to_sparse(),
    "copy_": lambda d: torch.eye(3, device=d).copy_(torch.eye(3).to_sparse()),
    "sparse.mm": lambda d: torch.sparse.mm(torch.eye(3).to_sparse(), torch.eye(3, device=d)),
    "an embedding's gradient": lambda d: gradient(nn.Embedding(5, 3, sparse=True), d),
    "the gradient of a bag": lambda d: gradient(nn.EmbeddingBag(5, 3, sparse=True), d),
}
QUANTIZED = {
    "quantize_per_tensor": lambda d: torch.quantize_per_tensor(torch.ones(3, device=d), 0.1, 0, torch.quint8),
    "by channels": lambda d: torch.quantize_per_channel(
        torch.ones(2, 2, device=d), torch.ones(2, device=d), torch.zeros(2, device=d).long(), 1, torch.qint8
    ),
    "a copy": lambda d: quantized().to(d),
    "copy_": lambda d: torch.ones(3, device=d).copy_(quantized()),
    "empty": lambda d: torch.empty(2, dtype=torch.quint8, device=d),
}
NESTED = {
    "a result": lambda d: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device=d) + 1,
    "a copy": lambda d: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]).to(d),
}


def gradient(module, device):
    """Run an embedding forward and backward."""
    module.to(device)(torch.tensor([[0, 2, 1]], device=device)).sum().backward()
    return module.weight.grad


def quantized():
    """Return a quantized tensor of the CPU."""
    return torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)


@pytest.mark.filterwarnings("ignore:Sparse", "ignore:.*quantiz", "ignore:The PyTorch API of nested")
@pytest.mark.parametrize(
    ("said", "make"),
    [
        pytest.param(said, make, id=f"{kind}, {name}")
        for kind, said, cases in (
            (
                "sparse",
                "Could not use a sparse tensor on {}: sparse tensors are not simulated. Make it",
                SPARSE,
            ),
            (
                "quantized",
                "on {}: (quantized tensors|tensors of this dtype) are not simulated. Make it",
                QUANTIZED,
            ),
            (
                "nested",
                "nested tensor on {}: nested tensors are not simulated. Keep the batch padded",
                NESTED,
            ),
        )
        for name, make in cases.items()
    ],
)
def test_kinds_of_tensors_that_are_refused(said, make, device):
    """The error is not one from inside PyTorch, and names the device that was meant."""
    with pytest.raises(NotImplementedError, match=said.format(device)):
        make(device)


def test_quantization_in_floats_works(device):
    """What training with quantization in mind uses, and tensors that are not quantized."""
    x = torch.rand(4, device=device)
    pretended = torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255)
    assert torch.equal(pretended.cpu(), torch.fake_quantize_per_tensor_affine(x.cpu(), 0.1, 0, 0, 255))
    assert torch.equal(x.dequantize(), x)
    assert torch.equal(x.to_dense(), x)


def test_a_storage_keeps_its_size(device):
    """A tensor's `resize_` takes another storage."""
    x = torch.ones(4, device=device)
    with pytest.raises(
        NotImplementedError, match=f"Could not resize a storage on {device}: .* Call `resize_` of"
    ):
        x.untyped_storage().resize_(64)
    assert x.untyped_storage().resize_(16).nbytes() == 16
    assert x.resize_(8)[:4].tolist() == [1] * 4
    assert torch.ones(4).untyped_storage().resize_(64).nbytes() == 64


def test_to_meta_and_not_back(device):
    """A tensor on meta has no data, which PyTorch says."""
    x = torch.ones(2, 3, device=device)
    for blank in (x.to("meta"), torch.zeros_like(x, device="meta"), x.new_ones(2, 3, device="meta")):
        assert (blank.device.type, blank.shape) == ("meta", x.shape)
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data"):
            blank.to(device)
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data"):
            x.copy_(blank)
        for left, right in ((x, blank), (blank, x)):
            with pytest.raises(RuntimeError, match="is not on the expected device"):
                left + right
    assert torch.empty_like(blank, device=device).device == device
    assert blank.copy_(x).is_meta


def test_modules_on_meta(device):
    """A module's parameters are new ones then, as with CUDA."""
    layer = nn.Linear(2, 2, device=device)
    weight = layer.weight
    assert layer.to("meta").weight.is_meta
    assert weight.device == device
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        weight.data = torch.ones(2, 2, device="meta")
    assert layer.to_empty(device=device).weight.device == device


def test_narrow_copy(device):
    """It copies a part, and says which part there is not."""
    x = torch.arange(6, device=device).view(2, 3)
    part = x.narrow_copy(1, 1, 2)
    assert part.tolist() == [[1, 2], [4, 5]]
    assert part.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    with pytest.raises(RuntimeError, match="exceeds dimension size"):
        x.narrow_copy(1, 1, 3)


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        (
            5,
            torch.AcceleratorError,
            "invalid device ordinal: sim:5 was asked for, simulated here: sim:0 and sim:1",
        ),
        ("sim:5", torch.AcceleratorError, "invalid device ordinal"),
        ("cpu", ValueError, "cpu doesn't match the current accelerator sim"),
        ("sim", ValueError, "Expected a torch.device with a specified index or an integer, but got:sim"),
        (None, ValueError, "Expected a torch.device with a specified index or an integer, but got:None"),
        (1.5, ValueError, "Expected a torch.device with a specified index or an integer"),
    ],
)
def test_devices_that_cannot_be_made_current(asked, error, said):
    """In PyTorch's words, by `torch.accelerator` and by `torch.sim`."""
    with pytest.raises(error, match=said):
        torch.accelerator.set_device_index(asked)
    if asked == "cpu":
        said = "Expected a sim device, but got: cpu"
    if not isinstance(asked, float):
        with pytest.raises(error, match=said):
            torch.sim.set_device(asked)


def test_a_negative_index_changes_nothing():
    """So PyTorch documents it."""
    torch.accelerator.set_device_index(1)
    torch.accelerator.set_device_index(-1)
    torch.sim.set_device(-1)
    assert torch.accelerator.current_device_index() == 1
