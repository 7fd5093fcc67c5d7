"""Ordinary programs that met a gap of the simulator once, each in a few lines."""

import gc

import pytest
import torch
from torch import nn

SIM = torch.device("sim:0")


@pytest.mark.parametrize("device", ["cpu", "sim:0", "sim:1"])
def test_lazy_modules_move_and_begin(device):
    """Their parameters hold no data when they are moved, to the CPU too while the simulator is enabled."""
    model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d()).to(device)
    assert model(torch.ones(4, 5, device=device)).device == torch.device(device)
    assert {one.device for one in model.parameters()} == {torch.device(device)}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_transformer_in_eval_mode_takes_a_padding_mask():
    """On CUDA PyTorch leaves the padding out by a nested tensor; here it computes with it, to one end."""
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, batch_first=True), 2).eval()
    x, padding = torch.randn(2, 3, 8), torch.tensor([[False, False, True], [False] * 3])
    with torch.no_grad():
        wanted = model(x, src_key_padding_mask=padding)
        got = model.to(SIM)(x.to(SIM), src_key_padding_mask=padding.to(SIM))
    torch.testing.assert_close(got.cpu()[~padding], wanted[~padding])


def test_a_nested_tensor_that_a_model_insists_on_is_refused_in_words():
    """The message says what to do."""
    layer = nn.TransformerEncoderLayer(8, 2, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, mask_check=False).eval().to(SIM)
    padding = torch.tensor([[False, False, True]], device=SIM)
    with torch.no_grad(), pytest.raises(NotImplementedError, match="nested tensors are not simulated"):
        model(torch.randn(1, 3, 8, device=SIM), src_key_padding_mask=padding)


@pytest.mark.parametrize(
    ("draw", "dtype"),
    [
        (lambda **options: torch.rand(3, **options), torch.float32),
        (lambda **options: torch.randn(3, **options), torch.float32),
        (lambda **options: torch.randint(9, (3,), **options), torch.int64),
        (lambda **options: torch.randperm(9, **options), torch.int64),
    ],
)
def test_random_numbers_into_out_come_from_the_devices_generator(draw, dtype):
    """A seed gives the same numbers, with `out=` and without, and the CPU's generator stays where it was."""
    torch.sim.manual_seed(3)
    wanted = draw(device=SIM)
    torch.sim.manual_seed(3)
    before = torch.get_rng_state()
    got = draw(out=torch.empty(wanted.shape, dtype=dtype, device=SIM))
    assert torch.equal(got, wanted)
    assert torch.equal(torch.get_rng_state(), before)


def test_integers_are_counted():
    """As on CUDA; the CPU's histogram knows floats alone."""
    found = torch.histc(torch.tensor([1, 2, 2], device=SIM), bins=3, min=0, max=2)
    assert found.tolist() == [0, 1, 2]
    assert found.dtype == torch.int64


def test_streams_and_events_have_their_numbers():
    """A bare index means a device of the current accelerator; PyTorch's C++ knows the kind by a number."""
    stream = torch.Stream(1)
    assert stream.device == torch.device("sim:1")
    assert stream.device_type == torch.Stream(SIM).device_type > 0
    event = torch.Event(SIM)
    assert event.event_id == 0
    event.record()
    assert event.event_id != 0


def test_the_module_has_what_torch_cuda_has():
    """`torch.sim.memory`, `torch.sim.amp` and a storage that moves."""
    x = torch.ones(4, device=SIM)
    assert torch.sim.memory.memory_allocated(SIM) >= x.nbytes
    with torch.sim.amp.autocast(dtype=torch.bfloat16):
        assert (torch.ones(2, 2, device=SIM) @ torch.ones(2, 2, device=SIM)).dtype == torch.bfloat16
    assert torch.sim.amp.GradScaler().is_enabled()
    assert torch.ones(2).untyped_storage().sim().device.type == "sim"


def test_a_star_import_brings_the_names_of_torch_cuda_alone():
    """Not the modules that `torch.sim` itself needs. PyTorch asks a backend for the dtypes of autocast."""
    names = {}
    exec("from torch.sim import *", names)
    del names["__builtins__"]
    assert {name for name in names if not hasattr(torch.cuda, name)} == {"get_amp_supported_dtype"}


def test_data_parallel_names_what_to_use():
    """It is one process for all devices, which PyTorch advises against."""
    with pytest.raises(NotImplementedError, match="DistributedDataParallel"):
        nn.DataParallel(nn.Linear(2, 2).to(SIM))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own, when it loads its compiler
def test_compiling_runs_the_graph_and_says_so():
    """The result is the eager one, and a sentence says that nothing is fused."""
    torch.compiler.reset()
    model = torch.compile(nn.Linear(3, 2).to(SIM))
    x = torch.ones(1, 3, device=SIM)
    with pytest.warns(UserWarning, match="nothing is fused"):
        got = model(x)
    assert torch.equal(got, model._orig_mod(x))


@pytest.mark.usefixtures("empty_memory")
def test_the_graph_of_a_failed_backward_dies_with_its_error():
    """Nothing waits for the collector: the memory is free when the error is."""

    def fail(grad):
        raise ZeroDivisionError

    gc.collect()
    gc.disable()
    try:
        before = torch.sim.memory_allocated(SIM)
        try:
            x = torch.ones(1000, device=SIM, requires_grad=True)
            y = (x * 2).exp()
            y.register_hook(fail)
            y.sum().backward()
        except ZeroDivisionError:
            pass
        del x, y
        assert torch.sim.memory_allocated(SIM) == before
    finally:
        gc.enable()
