"""Autograd, modules, optimizers, saving and loading: a model lives on a simulated device as on any other."""

import copy
import io
import pickle
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


def losses(device, optimizer=torch.optim.AdamW, **options):
    """Return the losses of twenty steps of a small network on `device`."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 3)).to(device)
    x, y = torch.randn(32, 6).to(device), torch.randint(0, 3, (32,)).to(device)
    chosen = optimizer(model.parameters(), lr=1e-2, **options)
    values = []
    for _ in range(20):
        chosen.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        chosen.step()
        values.append(loss.item())
    assert all(p.device == torch.device(device) for p in model.parameters())
    return values


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (torch.optim.AdamW, {}),
        (torch.optim.AdamW, {"foreach": True}),
        (torch.optim.AdamW, {"foreach": False}),
        (torch.optim.AdamW, {"fused": True}),
        (torch.optim.Adam, {}),
        (torch.optim.SGD, {}),
        (torch.optim.SGD, {"momentum": 0.9, "foreach": True}),
        (torch.optim.RMSprop, {}),
    ],
)
def test_losses_are_bit_identical_to_the_cpu(optimizer, options, device):
    """Every step of every optimizer, in each of its forms."""
    assert losses(device, optimizer, **options) == losses("cpu", optimizer, **options)


def test_gradients_stay_with_their_tensors(device):
    """On the device of the leaf."""
    w = torch.randn(4, 2, device=device, requires_grad=True)
    (torch.randn(3, 4).to(device) @ w).relu().sum().backward()
    assert w.grad.device == device
    assert w.is_leaf


def test_gradients_cross_devices():
    """Through both simulated devices and back to the CPU."""
    a = torch.randn(3, requires_grad=True)
    b = (a.to("sim:0") * 2).to("sim:1") * 3
    b.cpu().sum().backward()
    assert a.grad.tolist() == [6, 6, 6]
    inner = torch.randn(3, device="sim:1", requires_grad=True)
    (grad,) = torch.autograd.grad((inner.to("sim:0") ** 2).sum(), inner)
    assert torch.equal(grad, 2 * inner)
    assert grad.device == torch.device("sim:1")


def test_backward_in_another_thread():
    """Also for the second device."""
    w = torch.ones(2, device="sim:1", requires_grad=True)
    thread = threading.Thread(target=lambda: (w * 2).sum().backward())
    thread.start()
    thread.join()
    assert w.grad.tolist() == [2, 2]


def test_two_stages_on_two_devices_train():
    """The loss falls, and each half's gradients are at home."""

    class TwoStage(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 8).to("sim:0")
            self.second = nn.Linear(8, 1).to("sim:1")

        def forward(self, x):
            return self.second(self.first(x.to("sim:0")).relu().to("sim:1"))

    torch.manual_seed(0)
    model = TwoStage()
    x = torch.randn(64, 4)
    y = x.sum(1, keepdim=True).to("sim:1")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    history = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    assert history[-1] < history[0] / 5
    assert model.first.weight.grad.device == torch.device("sim:0")
    assert model.second.weight.grad.device == torch.device("sim:1")


class Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(3))
        self.register_buffer("cache", torch.ones(3), persistent=False)
        self.stray = torch.ones(3)


def test_modules_move_in_place():
    """The same parameters and buffers, on every device in turn."""
    module = Kept()
    weight = module.linear.weight
    before = weight.detach().clone()
    for place in ("sim:1", "sim:0", "sim:1", "cpu", "sim:0"):
        assert module.to(place) is module
        assert module.linear.weight is weight
        assert type(weight) is nn.Parameter
        assert weight.requires_grad
        assert weight.is_leaf
        assert weight.device == module.seen.device == module.cache.device == torch.device(place)
        assert module.stray.device.type == "cpu"
        assert torch.equal(weight.detach().cpu(), before)
    assert set(module.state_dict()) == {"linear.weight", "linear.bias", "seen"}
    assert module.sim(1).seen.device == torch.device("sim:1")
    assert module.cpu().seen.device.type == "cpu"
    assert module.to("sim:1", torch.float64).linear.weight.dtype == torch.float64


def test_an_optimizer_made_before_the_move_still_trains():
    """It holds the parameters that moved."""
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to("sim:1")
    before = model.weight.detach().clone()
    model(torch.ones(1, 2, device="sim:1")).sum().backward()
    optimizer.step()
    assert not torch.equal(model.weight, before)


def test_gradients_move_with_the_module():
    """Values and device."""
    model = nn.Linear(2, 1)
    model(torch.ones(1, 2)).sum().backward()
    expected = model.weight.grad.clone()
    for place in ("sim:0", "sim:1", "cpu"):
        model.to(place)
        assert model.weight.grad.device == torch.device(place)
        assert torch.equal(model.weight.grad.cpu(), expected)


def test_moving_a_module_while_its_graph_is_alive():
    """As CUDA allows."""
    model = nn.Linear(2, 1)
    loss = model(torch.ones(1, 2)).sum()
    model.to("sim:0")
    assert model.weight.device == torch.device("sim:0")
    assert loss.item() == loss.item()


def test_data_may_be_replaced():
    """By data on another device, and of another shape."""
    p = nn.Parameter(torch.ones(2))
    same = p
    p.data = p.data.to("sim:1")
    assert same.device == torch.device("sim:1")
    p.data = p.data[:1]
    assert p.shape == (1,)
    (p * 2).sum().backward()
    assert p.grad.tolist() == [2]


def test_buffers_may_be_assigned(device):
    """And are saved as assigned."""
    module = Kept().to(device)
    module.seen = torch.full((3,), 2.0)
    module.to(device)
    assert module.seen.device == device
    module.seen += 1
    assert module.state_dict()["seen"].tolist() == [3, 3, 3]


@pytest.mark.parametrize("place", [None, "cpu", "sim:0", "sim:1", "sim", torch.device("sim:1")])
def test_saving_and_loading(place):
    """Safe loading, to wherever map_location says."""
    model = Kept().to("sim:1")
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "row": torch.arange(4.0, device="sim:0")[1:]}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True, map_location=place)
    expected = torch.device("sim:0" if place == "sim" else place or "sim:1")
    assert loaded["model"]["linear.weight"].device == expected
    assert loaded["row"].tolist() == [1, 2, 3]
    other = Kept()
    other.load_state_dict(loaded["model"])
    assert torch.equal(other.linear.weight, model.linear.weight.cpu())


def test_loading_with_a_mapping():
    """From one device's name to another's."""
    file = io.BytesIO()
    torch.save(torch.ones(2, device="sim:0"), file)
    file.seek(0)
    assert torch.load(file, map_location={"sim:0": "sim:1"}).device == torch.device("sim:1")


def test_optimizer_state_survives(device):
    """And follows the parameters to their device."""
    model = nn.Linear(2, 2).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2, device=device)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    fresh = torch.optim.AdamW(nn.Linear(2, 2).to(device).parameters())
    fresh.load_state_dict(torch.load(file, map_location="cpu"))
    assert fresh.state_dict()["state"][0]["exp_avg"].device == device


def test_copies(device):
    """Deep copies and pickles keep device and values."""
    model = Kept().to(device)
    twin = copy.deepcopy(model)
    assert twin.linear.weight.device == twin.seen.device == device
    assert torch.equal(twin.linear.weight, model.linear.weight)
    assert twin.linear.weight.data_ptr() != model.linear.weight.data_ptr()
    x = torch.arange(6.0, device=device).reshape(2, 3)[:, 1]
    assert copy.copy(x).device == device
    assert torch.equal(copy.deepcopy(x), x)
    y = pickle.loads(pickle.dumps(x))
    assert y.device == device
    assert torch.equal(y, x)


@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_yield_cpu_tensors(workers, device):
    """With and without worker processes."""
    data = torch.utils.data.TensorDataset(torch.arange(8.0), torch.arange(8))
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=workers)
    total = torch.zeros((), device=device)
    for x, y in loader:
        assert x.device.type == "cpu"
        total += (x.to(device) * y.to(device)).sum()
    assert total.item() == sum(i * i for i in range(8))


def test_no_grad_and_inference_mode(device):
    """Neither changes a result."""
    model = nn.Linear(2, 2).to(device)
    x = torch.ones(1, 2, device=device)
    with torch.no_grad():
        assert not model(x).requires_grad
    with torch.inference_mode():
        y = model(x)
        assert y.is_inference()
        assert y.sum().item() == y.cpu().sum().item()


def test_in_place_and_leaf_rules_are_pytorchs(device):
    """Version counters and leaf checks are the engine's own."""
    w = torch.ones(2, device=device, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
        w.add_(1)
    y = w.exp()
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


@pytest.mark.parametrize("kind", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_hook_that_raises_is_heard(kind, device):
    """Its error arrives at backward(), as on other devices; a later backward is not troubled by it."""
    w = torch.ones(2, device=device, requires_grad=True)

    def complain(_):
        raise ValueError("not finite")

    handle = getattr(w, kind)(complain)
    with pytest.raises(ValueError, match="not finite"):
        (w * 2).sum().backward()
    handle.remove()
    w.grad = None
    (w * 2).sum().backward()
    assert w.grad.tolist() == [2, 2]


def test_a_hook_may_change_the_gradient(device):
    """What a hook returns is the gradient from there on."""
    w = torch.ones(2, device=device, requires_grad=True)
    w.register_hook(lambda grad: grad * 3)
    (w * 2).sum().backward()
    assert w.grad.tolist() == [6, 6]


def test_attention_differs_from_the_cpus_in_the_last_digits_alone():
    """As docs/simulator.md says: on the CPU it is one kernel, on sim several operators."""
    torch.manual_seed(0)
    tensors = [torch.randn(2, 4, 16, 8) for _ in range(3)]
    on_cpu = torch.nn.functional.scaled_dot_product_attention(*tensors)
    on_sim = torch.nn.functional.scaled_dot_product_attention(*(one.to("sim") for one in tensors)).cpu()
    assert 0 < (on_cpu - on_sim).abs().max() < 1e-6


def test_to_empty_makes_a_parameter_for_each_name_as_on_cuda():
    """No meta tensor takes over another device's contents, so what was tied on meta is tied no more."""
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        model[1].weight = model[0].weight
    model.to_empty(device="sim:1")
    assert model[1].weight is not model[0].weight
    assert {parameter.device for parameter in model.parameters()} == {torch.device("sim:1")}
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        torch.ones(2, device="meta").data = torch.ones(2, device="sim:1")


CHECKPOINTED_BEFORE = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from devlab import sim

checkpoint(nn.Linear(4, 4), torch.ones(2, 4, requires_grad=True), use_reentrant=False).sum().backward()
sim.enable()
block = nn.Sequential(nn.Linear(4, 4), nn.Tanh()).to("sim")
with torch.autocast("sim", dtype=torch.float16):
    result = checkpoint(block, input=torch.ones(2, 4, device="sim"), use_reentrant=False)
result.float().sum().backward()
"""


def test_a_checkpoint_on_the_cpu_leaves_autocast_on_the_device_alone():
    """PyTorch keeps the first answer to which device a checkpoint is for when no tensor goes by position."""
    run = subprocess.run([sys.executable, "-c", CHECKPOINTED_BEFORE], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_a_checkpoint_keeps_the_random_numbers_of_positional_inputs_alone():
    """As on CUDA: `torch.utils.checkpoint.get_device_states` looks at positional arguments."""
    redrawn = {}
    for name in ("by position", "by name"):
        x = torch.ones(1000, device="sim:0", requires_grad=True)
        args, kwargs = ((x,), {}) if name == "by position" else ((), {"input": x})
        y = checkpoint(torch.nn.Dropout(0.5), *args, use_reentrant=False, **kwargs)
        y.sum().backward()
        redrawn[name] = ((x.grad == 0) != (y == 0)).sum().item()
    assert redrawn["by position"] == 0
    assert redrawn["by name"] > 0
