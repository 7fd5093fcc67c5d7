"""The rest of PyTorch, used on a simulated device as on any other."""

import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from devlab.sim import kernels


def on_both(module, x, device):
    """Return the results, input gradients and parameter gradients of a module on the CPU and on `device`."""
    found = []
    for place in ("cpu", device):
        module.zero_grad()
        module.to(place)
        y = x.detach().to(place).requires_grad_()
        out = module(y)
        parts = [
            t
            for part in (out if isinstance(out, tuple) else (out,))
            for t in (part if isinstance(part, tuple) else (part,))
        ]
        sum(((i + 1) * part).sum() for i, part in enumerate(parts)).backward()
        assert all(part.device == torch.device(place) for part in parts)
        found.append([t.detach().cpu() for t in (*parts, y.grad, *(p.grad for p in module.parameters()))])
    return found


@pytest.mark.parametrize(
    "module",
    [
        lambda: nn.LSTM(4, 5),
        lambda: nn.LSTM(4, 5, num_layers=2, bidirectional=True),
        lambda: nn.LSTM(4, 5, bias=False),
        lambda: nn.GRU(4, 5, num_layers=2, bidirectional=True),
        lambda: nn.GRU(4, 5, bias=False),
        lambda: nn.RNN(4, 5),
    ],
)
def test_recurrent_networks(module, device):
    """Results and gradients of whole layers, stacked and in both directions."""
    torch.manual_seed(0)
    for ours, theirs in zip(*on_both(module(), torch.randn(7, 3, 4), device), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_recurrent_cells(cell, device):
    """Results and gradients of single steps."""
    torch.manual_seed(0)
    for ours, theirs in zip(*on_both(cell(4, 5), torch.randn(3, 4), device), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_fused_backwards_are_the_formulas_own():
    """The written backwards agree with autograd's of the same formula."""
    torch.manual_seed(0)
    gates = [torch.randn(3, 8, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    cell = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    hidden, following, workspace = kernels.lstm_cell(*gates, cell)
    down = torch.randn_like(hidden), torch.randn_like(following)
    expected = torch.autograd.grad((hidden, following), (gates[0], cell), down)
    got = kernels.lstm_cell_backward(*down, cell, following, workspace, True)
    torch.testing.assert_close(got[:2], expected)
    gates = [torch.randn(3, 6, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    state, workspace = kernels.gru_cell(*gates, cell)
    expected = torch.autograd.grad(state, (*gates, cell), down[0])
    torch.testing.assert_close(kernels.gru_cell_backward(down[0], workspace, False)[:3], expected)


def test_packed_sequences(device):
    """Lengths stay on the CPU, data on the device."""
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(6, 3, 4).to(device), [6, 4, 2])
    out, lengths = nn.utils.rnn.pad_packed_sequence(nn.LSTM(4, 5).to(device)(packed)[0])
    assert out.device == device
    assert lengths.tolist() == [6, 4, 2]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_packing_wants_the_lengths_on_the_host(dtype, device):
    """PyTorch's own words, which name the place where they are."""
    lengths = torch.tensor([3, 2], dtype=dtype, device=device)
    words = f"^'lengths' argument should be a 1D CPU int64 tensor, but got 1D {device} Long tensor$"
    with pytest.raises(RuntimeError, match=words):
        nn.utils.rnn.pack_padded_sequence(torch.ones(3, 2, 4, device=device), lengths)


IMPORTED_BEFORE = """
import torch
from torch import Event, Generator, Stream
import devlab.sim

devlab.sim.enable()
assert (Event, Generator, Stream) == (torch.Event, torch.Generator, torch.Stream)
start, end = Event("sim", enable_timing=True), Event("sim", enable_timing=True)
start.record()
torch.ones(1000, 1000, device="sim") @ torch.ones(1000, 1000, device="sim")
end.record(torch.sim.current_stream())
end.synchronize()
assert start.elapsed_time(end) > 0.2, start.elapsed_time(end)
assert Generator("sim:1").device == torch.device("sim:1")
assert Generator().device == torch.device("cpu")
with Stream("sim:1") as side:
    assert torch.sim.current_stream("sim:1") == side
"""


def test_names_imported_before_enabling_mean_the_simulated_ones():
    """`from torch import Event` in a first cell, the simulator in a later one."""
    done = subprocess.run([sys.executable, "-c", IMPORTED_BEFORE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "module",
    [
        lambda: nn.TransformerEncoderLayer(8, 2, batch_first=True, dropout=0.0),
        lambda: nn.MultiheadAttention(8, 2, batch_first=True),
        lambda: nn.Sequential(nn.Conv1d(3, 4, 3, padding=1), nn.BatchNorm1d(4), nn.ReLU(), nn.MaxPool1d(2)),
    ],
)
def test_layers(module, device):
    """Results and gradients of attention, convolution and normalization."""
    torch.manual_seed(0)
    module = module()
    if isinstance(module, nn.MultiheadAttention):
        inner = module
        module = nn.Module()
        module.inner = inner
        module.forward = lambda x: inner(x, x, x)
    for ours, theirs in zip(*on_both(module, torch.randn(2, 3, 8), device), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(dtype, device):
    """Products in the lower precision, softmax and losses in 32 bits, parameters as they were."""
    model, x = nn.Linear(4, 4).to(device), torch.randn(2, 4, device=device)
    with torch.autocast("sim", dtype=dtype):
        y = model(x)
        loss = F.cross_entropy(y, torch.tensor([0, 1], device=device))
        assert (y.dtype, (y @ y.t()).dtype, y.softmax(-1).dtype, (x + x).dtype) == (
            dtype,
            dtype,
            torch.float32,
            torch.float32,
        )
    assert loss.dtype == torch.float32
    loss.backward()
    assert model.weight.grad.dtype == torch.float32
    assert model(x).dtype == torch.float32


def test_gradient_scaling(device):
    """A scaled step is a step."""
    model = nn.Linear(4, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("sim", init_scale=8.0)
    before = model.weight.detach().clone()
    with torch.autocast("sim", dtype=torch.float16):
        loss = model(torch.randn(2, 4, device=device)).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(before, model.weight)
    assert scaler.get_scale() == 8.0


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_function_transforms(device):
    """vmap, grad, jvp and hessian."""
    x = torch.randn(3, 4).to(device)
    summed = torch.vmap(lambda a: (a * 2).sum())(x).cpu()
    assert torch.allclose(summed, (x.cpu() * 2).sum(1))  # in another order, so not to the last bit
    assert torch.equal(torch.func.grad(lambda a: (a**2).sum())(x), 2 * x)
    assert torch.func.jvp(lambda a: a**2, (x,), (torch.ones_like(x),))[1].device == device
    assert torch.func.hessian(lambda a: (a**3).sum())(x[0]).device == device


COMPILED = """
import torch
import devlab.sim
devlab.sim.enable()
function = lambda x: torch.relu(x * 2 + 1)
compiled = torch.compile(function, backend=lambda graph, _: graph.forward, dynamic=True)
print([list(compiled(torch.ones(rows, 4, device="sim:0")).shape) for rows in (3, 5)])
"""


def test_the_first_compilation_of_a_process_may_ask_for_the_current_stream():
    """Dynamo asks through `torch.accelerator` while it compiles, and must not begin to compile the answer."""
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False)
    assert done.stdout == "[[3, 4], [5, 4]]\n", done.stderr[-1000:]


def test_compile_with_the_eager_backend(device):
    """The traced model computes what the model computes."""
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).to(device), torch.randn(2, 4, device=device)
    assert torch.equal(torch.compile(model, backend="eager")(x), model(x))


def test_pytorchs_own_benchmark(device):
    """It synchronizes through torch.accelerator."""
    from torch.utils import benchmark

    assert benchmark.Timer("x + x", globals={"x": torch.ones(3, device=device)}).timeit(20).median > 0


def test_clipping(device):
    """By norm and by value; the norm stays on the device."""
    model = nn.Linear(4, 4).to(device)
    model(torch.randn(2, 4, device=device)).sum().backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    assert norm.device == device
    nn.utils.clip_grad_value_(model.parameters(), 0.01)
    assert model.weight.grad.abs().max().item() <= 0.011


def test_checkpointing_and_weight_norm(device):
    """Recomputation in backward, and parametrized weights."""
    from torch.utils.checkpoint import checkpoint

    x = torch.randn(3, device=device, requires_grad=True)
    checkpoint(lambda a: (a * 2).sum(), x, use_reentrant=False).backward()
    assert x.grad.tolist() == [2, 2, 2]
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)).to(device)
    assert layer(torch.ones(1, 3, device=device)).device == device


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_keeps_the_random_numbers(reentrant, device):
    """What is computed again in backward drops the same elements, as on CUDA."""
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(400, device=device, requires_grad=True)
    y = checkpoint(lambda a: torch.dropout(a, 0.5, True) ** 2, x, use_reentrant=reentrant)
    before = torch.sim.get_rng_state(device)
    y.sum().backward()
    assert torch.equal(x.grad, 2 * y)
    assert torch.equal(torch.sim.get_rng_state(device), before)


WORKERS = """
import torch
import devlab.sim


class OnDevice(torch.utils.data.Dataset):
    def __init__(self):
        self.data = torch.arange(4.0).to("sim:1")
        self.weight = torch.nn.Parameter(torch.ones(2, device="sim:0"))

    def __len__(self):
        return 4

    def __getitem__(self, place):
        assert (self.data.device, self.weight.device) == (torch.device("sim:1"), torch.device("sim:0"))
        assert type(self.weight) is torch.nn.Parameter
        return self.data[place].cpu()


if __name__ == "__main__":
    devlab.sim.enable()
    loader = torch.utils.data.DataLoader(OnDevice(), num_workers=1, multiprocessing_context="spawn")
    assert [x.item() for x in loader] == [0, 1, 2, 3]
"""


def test_datasets_on_the_device_reach_workers(tmp_path):
    """Spawned workers find the tensors on their devices; `test_forks` is about forked ones."""
    script = tmp_path / "workers.py"
    script.write_text(WORKERS)
    subprocess.run([sys.executable, script], check=True, timeout=120)
