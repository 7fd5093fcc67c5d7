"""Apple's rules, on each kind of device: what a Mac refuses is refused there too."""

import contextlib

import pytest
import torch

from devlab import apples_rules, pretend, sim


@pytest.fixture(autouse=True)
def simulator():
    """The simulated accelerator is there."""
    sim.enable()


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_the_simulated_accelerator_refuses_wide_dtypes(dtype):
    """And has them again when the block has ended."""
    device = torch.device("sim")
    with apples_rules(device), pytest.raises(TypeError, match="MPS framework doesn't support"):
        torch.empty(0, dtype=dtype, device=device)
    assert torch.empty(0, dtype=dtype, device=device).dtype is dtype


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_a_gpu_of_another_maker_refuses_them_too(dtype):
    """Moved there, made there, and converted there; on the CPU they stay possible."""
    with pretend("NVIDIA L4"):
        device = torch.device("cuda:0")
        there = torch.ones(2, device=device)
        with apples_rules(device):
            for wide in (lambda: torch.ones(2, dtype=dtype).to(device), lambda: there.to(dtype)):
                with pytest.raises(TypeError, match="doesn't support"):
                    wide()
            assert torch.ones(2, dtype=dtype).to(device, torch.complex64).dtype is torch.complex64
        assert there.to(dtype).dtype is dtype


def test_a_gpu_of_another_maker_lacks_two_operators():
    """Others run, and the CPU has them all."""
    with pretend("NVIDIA L4"):
        there = torch.eye(3, device="cuda:0")
        with apples_rules(there.device):
            for missing in (torch.special.log_ndtr, torch.mode):
                with pytest.raises(NotImplementedError):
                    missing(there)
                with pytest.raises(NotImplementedError):
                    missing(input=there)
                missing(input=there.cpu())
            assert torch.linalg.inv(there).shape == (3, 3)


REFUSED = {
    "float64": lambda device: torch.ones(2, device=device).double(),
    "complex128": lambda device: torch.ones(2, dtype=torch.complex128, device=device),
    "log_ndtr": lambda device: torch.special.log_ndtr(torch.eye(2, device=device)),
    "mode": lambda device: torch.mode(torch.eye(2, device=device)),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_a_refusal_has_the_same_words_everywhere(refused):
    """With the device's name, and the way out that PyTorch names."""
    said = []
    for name in ("sim", "cuda"):
        device = torch.device(name)
        pretended = contextlib.nullcontext() if name == "sim" else pretend("NVIDIA L4")
        with pretended, apples_rules(device), pytest.raises((TypeError, NotImplementedError)) as raised:
            refused(device)
        assert name in str(raised.value)
        said.append(str(raised.value).replace(name, "device"))
    assert said[0] == said[1]


@pytest.mark.parametrize("kind", ["cpu", "mps"])
def test_a_mac_and_the_cpu_stay_as_they_are(kind):
    """What a Mac's own GPU refuses, it refuses by itself."""
    with pretend(accelerator="mps"):
        device = torch.device(kind)
        with apples_rules(device):
            assert torch.special.log_ndtr(torch.eye(2, device=device)).device.type == kind
