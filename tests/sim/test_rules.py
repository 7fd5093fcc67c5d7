"""Under MPS's rules: one device, no float64, some operators missing; and everything as before afterwards."""

import pytest
import torch

import devlab.sim


def test_one_device():
    """The second is gone inside the block, and back after it."""
    with devlab.sim.rules("mps"):
        assert devlab.sim.following() == "mps"
        assert devlab.sim.device_count() == torch.accelerator.device_count() == 1
        assert "simulated" in torch.sim.get_device_name()
        assert "mps-like" in torch.sim.get_device_name()
        with pytest.raises(RuntimeError, match="sim:1 was asked for, simulated here: sim:0"):
            torch.ones(2, device="sim:1")
        assert torch.ones(2, device="sim").device == torch.device("sim:0")
    assert devlab.sim.following() == "cuda"
    assert torch.accelerator.device_count() == 2
    assert torch.ones(2, device="sim:1").sum().item() == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(2, dtype=torch.float64, device="sim"),
        lambda: torch.ones(2, dtype=torch.float64).to("sim"),
        lambda: torch.ones(2, device="sim").double(),
        lambda: torch.ones(2, device="sim").to(torch.float64),
        lambda: torch.tensor([1.0], dtype=torch.float64, device="sim"),
    ],
)
def test_no_float64(make):
    """Made, moved or cast: PyTorch's words for MPS."""
    with devlab.sim.rules("mps"), pytest.raises(TypeError) as error:
        make()
    assert str(error.value) == (
        "Cannot convert a sim Tensor to float64 dtype as the MPS framework doesn't support float64. "
        "Please use float32 instead."
    )
    assert make().dtype == torch.float64


def test_float64_may_be_cast_on_the_way():
    """Device and dtype in one call."""
    with devlab.sim.rules("mps"):
        x = torch.ones(2, dtype=torch.float64).to("sim", torch.float32)
        assert x.cpu().double().tolist() == [1, 1]


MISSING = {
    torch.linalg.eig: "aten::linalg_eig",
    torch.linalg.eigvals: "aten::_linalg_eigvals",
    torch.special.log_ndtr: "aten::special_log_ndtr.out",  # a structured operator is run by its `out` form
    lambda x: torch.heaviside(x, x): "aten::heaviside.out",
    lambda x: torch.nn.functional.adaptive_max_pool3d(x[None, None], 1): "aten::adaptive_max_pool3d.out",
}


@pytest.mark.parametrize(("call", "name"), MISSING.items(), ids=MISSING.values())
def test_missing_operators(call, name):
    """NotImplementedError on the device, and the CPU still has them."""
    x = torch.eye(3, device="sim")
    with devlab.sim.rules("mps"):
        with pytest.raises(NotImplementedError, match=f"The operator '{name}' is not currently implemented"):
            call(x)
        call(x.cpu())
    call(x)


def test_ordinary_work_goes_on():
    """A training step and an LSTM."""
    with devlab.sim.rules("mps"):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).to("sim")
        optimizer = torch.optim.AdamW(model.parameters())
        loss = torch.nn.functional.cross_entropy(
            model(torch.randn(5, 4, device="sim")), torch.zeros(5, dtype=torch.int64, device="sim")
        )
        loss.backward()
        optimizer.step()
        torch.nn.LSTM(3, 3).to("sim")(torch.ones(2, 1, 3, device="sim"))
        assert loss.item() > 0


def test_leaving_by_an_error_restores_the_rules():
    """And an unknown set of rules is refused."""
    with pytest.raises(KeyError), devlab.sim.rules("mps"):
        raise KeyError
    assert devlab.sim.following() == "cuda"
    with pytest.raises(ValueError, match="'tpu'"):
        devlab.sim.rules("tpu")


@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.tensor([1.5, 1e10, -2.0], device=d),
        lambda d: torch.tensor(0.1, device=d),
        lambda d: torch.arange(3, device=d) * 10**6,
        lambda d: torch.tensor([True, False], device=d),
        lambda d: torch.tensor([1.0, float("nan")], device=d, dtype=torch.bfloat16),
        lambda d: torch.tensor([1 + 2j], device=d),
        lambda d: torch.zeros(0, device=d),
    ],
)
def test_printing(make):
    """MPS measures values in 32-bit floats to print them; nothing asks for float64."""
    with devlab.sim.rules("mps"):
        assert repr(make("sim")).replace(", device='sim:0'", "") == repr(make("cpu"))


def test_the_table_of_devices_says_that_there_is_no_float64():
    """`devlab.devices()` asks the device under the rules in force."""
    from devlab.devices import has_float64

    with devlab.sim.rules("mps"):
        assert not has_float64(torch.device("sim"))
    assert has_float64(torch.device("sim"))
