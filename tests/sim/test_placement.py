"""Where tensors are made, what they say of themselves, and how they move."""

import io
import subprocess
import sys

import numpy as np
import pytest
import torch

import devlab.sim

SIM0, SIM1, CPU = torch.device("sim:0"), torch.device("sim:1"), torch.device("cpu")


def test_importing_changes_nothing():
    """No device is registered, and no heavy package is loaded."""
    code = (
        "import sys, torch; before = set(sys.modules); import devlab.sim; "
        "assert not devlab.sim.enabled() and not hasattr(torch, 'sim'); "
        "extra = {m.partition('.')[0] for m in set(sys.modules) - before}; "
        "assert not extra & {'IPython', 'matplotlib', 'torchgen', 'yaml'}, extra"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_enabling_twice_is_harmless():
    """The second call does nothing."""
    devlab.sim.enable()
    assert devlab.sim.enabled()
    assert devlab.sim.device_count() == 2


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("torch.cuda.is_initialized = lambda: True", "restart the kernel"),
        # Thorough: each has a process that imports PyTorch, and one of the three shows that reasons are told.
        pytest.param(
            "torch.utils.rename_privateuse1_backend('other')",
            "'other' is already registered",
            marks=pytest.mark.thorough,
        ),
        pytest.param("torch.ones(2, requires_grad=True).sum().backward()", "", marks=pytest.mark.thorough),
    ],
)
def test_enabling_late_explains_itself(before, message):
    """After another accelerator it says what to do; after work on the CPU it just works."""
    code = (
        f"import torch; {before}; import devlab.sim; devlab.sim.enable(); "
        "x = torch.ones(2, device='sim:1', requires_grad=True); (x * 2).sum().backward(); print(x.grad)"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (run.returncode == 0) == (not message)
    assert message in run.stderr if message else not run.stderr


def test_leaving_with_live_tensors_is_quiet():
    """Nothing is printed when the interpreter ends, whatever is still alive or under way."""
    code = (
        "import torch, devlab.sim; devlab.sim.enable(); "
        "keep = [torch.ones(3, device='sim') for _ in range(9)]; "
        "w = torch.ones(2, device='sim:1', requires_grad=True); loss = (w.exp() * 2).sum(); "
        "late = loss.detach().to('cpu', non_blocking=True)"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_a_missing_private_name_is_named(monkeypatch):
    """What a future torch took away is in the error."""
    from devlab.sim import private

    monkeypatch.setattr(private, "_missing", ["torch._C._to_dlpack"])
    with pytest.raises(RuntimeError, match=r"torch\._C\._to_dlpack"):
        private.require()


@pytest.mark.parametrize("make", [torch.zeros, torch.ones, torch.empty, torch.rand, torch.randn])
@pytest.mark.parametrize("name", ["sim:0", "sim:1", SIM0, SIM1])
def test_factories(make, name):
    """Made where they were asked for, as plain tensors."""
    made = make(2, 3, device=name)
    assert made.device == torch.device(name)
    assert made.shape == (2, 3)
    assert type(made) is torch.Tensor


@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.full((2,), 7, device=d),
        lambda d: torch.arange(5, device=d),
        lambda d: torch.linspace(0, 1, 4, device=d),
        lambda d: torch.logspace(0, 1, 4, device=d),
        lambda d: torch.eye(3, device=d),
        lambda d: torch.tensor([[1, 2], [3, 4]], device=d),
        lambda d: torch.as_tensor(np.arange(3), device=d),
        lambda d: torch.asarray([1.0], device=d),
        lambda d: torch.tril_indices(3, 3, device=d),
    ],
)
def test_factories_hold_the_same_values_as_on_the_cpu(make, device):
    """Those whose values are fixed."""
    made = make(device)
    assert made.device == device
    assert torch.equal(made.cpu(), make("cpu"))


def test_relatives_are_made_beside_their_model(device):
    """The *_like and new_* families, on either device."""
    x = torch.randn(2, 3).to(device)
    for made in (
        torch.zeros_like(x),
        torch.ones_like(x),
        torch.empty_like(x),
        torch.full_like(x, 2),
        torch.rand_like(x),
        torch.randn_like(x),
        x.new_zeros(4),
        x.new_ones(4),
        x.new_full((4,), 1.0),
        x.new_tensor([1.0]),
        x.new_empty(4),
    ):
        assert made.device == device
        assert made.dtype == x.dtype
    assert torch.zeros_like(x, device="cpu").device == CPU
    assert torch.zeros_like(torch.ones(2), device=device).device == device


def test_a_tensor_says_where_it_is(device):
    """Attributes and the printed form."""
    x = torch.ones(2).to(device)
    assert x.is_sim
    assert not x.is_cpu
    assert not x.is_cuda
    assert not torch.ones(2).is_sim
    assert x.get_device() == device.index
    assert x.new_zeros(1).get_device() == device.index
    assert repr(x) == f"tensor([1., 1.], device='{device}')"
    assert repr(x.bfloat16()[0]) == f"tensor(1., device='{device}', dtype=torch.bfloat16)"


def test_moving_in_every_form(device):
    """By device, by dtype, by both, by another tensor, and by name."""
    x = torch.randn(3, 4)
    y = x.to(device)
    assert y.device == device
    assert torch.equal(y.cpu(), x)
    assert y.cpu().device == CPU
    assert x.sim(device.index).device == device
    assert x.to(device, torch.float64).dtype == torch.float64
    assert x.to(device=device, dtype=torch.bfloat16).device == device
    assert x.to(y).device == device
    assert y.to(x).device == CPU
    assert y.to(torch.int64).device == device
    assert y.double().device == device
    assert x.to(device, non_blocking=True).device == device
    assert x.type_as(y).device == device
    other = torch.device("sim", 1 - device.index)
    assert y.to(other).device == other
    assert y.sim(other.index).device == other
    assert torch.equal(y.to(other).cpu(), x)


def test_nothing_to_do_returns_the_tensor_itself(device):
    """No copy is made unless one is asked for."""
    y = torch.randn(3).to(device)
    assert y.to(device) is y
    assert y.to(str(device)) is y
    assert y.to(device, torch.float32) is y
    assert y.to(torch.float32) is y
    assert y.to(y) is y
    assert y.sim(device.index) is y
    assert torch.as_tensor(y, device=device) is y
    assert y.contiguous() is y
    copied = y.to(device, copy=True)
    assert copied is not y
    assert copied.data_ptr() != y.data_ptr()


def test_moving_leaves_the_original_alone(device):
    """The copy has memory of its own."""
    x = torch.zeros(3)
    y = x.to(device)
    y += 1
    assert x.tolist() == [0, 0, 0]
    assert y.tolist() == [1, 1, 1]


def test_as_tensor_changes_device():
    """From one simulated device to the other."""
    x = torch.ones(2, device="sim:1")
    assert torch.as_tensor(x, device="sim:0").device == SIM0
    assert torch.tensor([1], device="sim:1").device == SIM1


def test_a_bare_name_means_the_current_device():
    """Index 0, or what set_device or a block says."""
    assert torch.zeros(1, device="sim").device == SIM0
    for select in (torch.sim.set_device, torch.accelerator.set_device_index):
        select(1)
        assert torch.accelerator.current_device_index() == torch.sim.current_device() == 1
        for made in (
            torch.zeros(1, device="sim"),
            torch.tensor([1.0], device="sim"),
            torch.as_tensor([1.0], device="sim"),
            torch.ones(1).to("sim"),
            torch.ones(1).to(device=torch.device("sim")),
            torch.ones(1).sim(),
            torch.nn.Linear(1, 1).to("sim").weight,
            torch.nn.Linear(1, 1, device="sim").weight,
        ):
            assert made.device == SIM1
        select(0)
    with torch.sim.device(1):
        assert torch.zeros(1, device="sim").device == SIM1
    with torch.accelerator.device_index(1):
        assert torch.ones(1).to("sim").device == SIM1
    assert torch.zeros(1, device="sim").device == SIM0


def test_a_bare_default_device_is_the_current_one():
    """Also for the functions that ask Python for their values, and for the question itself."""
    torch.sim.set_device(1)
    torch.set_default_device("sim")
    try:
        for made in (torch.zeros(1), torch.tensor([1.0]), torch.as_tensor([1.0]), torch.asarray([1.0])):
            assert made.device == SIM1
        assert torch.get_default_device() == SIM1
        assert torch.tensor([1.0], device="cpu").is_cpu
        with torch.device("cpu"):
            assert torch.tensor([1.0]).is_cpu
    finally:
        torch.set_default_device(None)
        torch.sim.set_device(0)
    with torch.sim.device(1), torch.device("sim"):
        assert torch.tensor([1.0]).device == torch.get_default_device() == SIM1


def test_default_device(device):
    """As a block, and for everything that follows."""
    with torch.device(device):
        assert torch.zeros(2).device == device
        assert torch.tensor([1.0]).device == device
        assert torch.nn.Linear(2, 2).weight.device == device
    torch.set_default_device(device)
    try:
        assert torch.randn(2).device == device
        assert torch.get_default_device() == device
    finally:
        torch.set_default_device(None)  # "cpu" would leave a mode, which PyTorch's fast paths heed


def test_the_simulator_itself_ignores_the_default_device(device):
    """What it makes on the host for its own use stays there."""
    with torch.device(device):
        out = torch.empty(0)
        torch.add(torch.ones(2), 1, out=out)
        assert out.tolist() == [2, 2]
        out.resize_(50)
        assert out[:2].tolist() == [2, 2]
        file = io.BytesIO()
        torch.save(out, file)
        file.seek(0)
        assert torch.load(file).device == torch.load(file_at(file), map_location=device).device == device
        assert out.cpu().device == CPU
        assert torch.nn.functional.dropout(torch.ones(3)).device == device


def file_at(file):
    """Return a file, wound back."""
    file.seek(0)
    return file


def test_no_third_device():
    """The error names the device asked for and those there are."""
    with pytest.raises(RuntimeError, match="sim:2 was asked for, simulated here: sim:0 and sim:1"):
        torch.zeros(1, device="sim:2")
    with pytest.raises(RuntimeError, match="sim:7"):
        torch.zeros(1).to("sim:7")


def test_reading_back(device):
    """Lists, numbers and arrays; NumPy is refused in PyTorch's own words."""
    x = torch.tensor([[1.5, 2.5]], device=device)
    assert x.tolist() == [[1.5, 2.5]]
    assert x[0, 1].item() == 2.5
    assert float(x.sum()) == 4.0
    assert bool((x > 1).all())
    assert x.cpu().numpy().tolist() == [[1.5, 2.5]]
    message = (
        f"can't convert {device} device type tensor to numpy. "
        "Use Tensor.cpu() to copy the tensor to host memory first."
    )
    for convert in (
        lambda: x.numpy(),
        lambda: np.asarray(x),
        lambda: np.array(x),
        lambda: np.asarray(x, dtype=np.float64),
        lambda: x.__array__(),
    ):
        with pytest.raises(TypeError) as error:
            convert()
        assert str(error.value) == message


def test_storage_of_a_view_is_the_whole(device):
    """Bytes, addresses, offsets and version counters are shared."""
    base = torch.arange(12.0).reshape(3, 4).to(device)
    row, column = base[1], base[:, 2]
    assert row.untyped_storage().nbytes() == column.untyped_storage().nbytes() == 48
    assert row.nbytes == 16
    assert row.element_size() == 4
    assert row.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    assert row.storage_offset() == 4
    assert row._base is base
    row.fill_(0)
    assert base.sum().item() == 66 - 22
    assert base._version == row._version == 1
    assert not column.is_contiguous()
    assert torch.equal(column.contiguous().cpu(), base.cpu()[:, 2])
    assert base.t().data_ptr() == base.data_ptr()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8, torch.bool, torch.complex64])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (5,), (2, 3)])
def test_any_dtype_and_shape_survives_the_journey(dtype, shape, device):
    """Half precision, integers, truth values, complex; empty and zero-dimensional."""
    x = torch.randint(0, 2, shape).to(dtype)
    y = x.to(device)
    assert (y.dtype, y.shape, y.device) == (dtype, shape, device)
    assert y.untyped_storage().nbytes() == x.untyped_storage().nbytes()
    assert torch.equal(y.cpu(), x)
    assert torch.equal((y + y).cpu(), x + x)


def test_strides_survive_the_journey(device):
    """As PyTorch keeps them when it copies."""
    x = torch.randn(4, 6).t()[::2]
    y = x.to(device)
    assert torch.equal(y.cpu(), x)
    assert y.stride() == x.to("cpu", copy=True).stride()
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert image.to(device).is_contiguous(memory_format=torch.channels_last)


def test_conjugate_and_negative_views(device):
    """PyTorch's lazy bits are kept, and resolved where they must be."""
    z = torch.randn(3, dtype=torch.complex64)
    y = z.to(device)
    assert y.conj().is_conj()
    assert torch.equal(y.conj().cpu().resolve_conj(), z.conj().resolve_conj())
    assert torch.equal(y.conj().imag.cpu(), z.conj().imag)
    assert torch.equal((y.conj() @ y).cpu(), z.conj() @ z)
    assert torch.equal(torch.view_as_real(y).cpu(), torch.view_as_real(z))


def test_growing_and_replacing_storage(device):
    """resize_, set_ and out= of another size."""
    x = torch.arange(3.0, device=device)
    x.resize_(2, 3)
    assert x.shape == (2, 3)
    assert x.flatten()[:3].tolist() == [0, 1, 2]
    y = torch.ones(4, device=device)
    x.set_(y)
    assert x.data_ptr() == y.data_ptr()
    assert x.tolist() == [1, 1, 1, 1]
    out = torch.empty(0, device=device)
    torch.add(y, 1, out=out)
    assert out.tolist() == [2, 2, 2, 2]
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        torch.add(torch.ones(2, device=device), 1, out=out)


@pytest.mark.parametrize("dtype", [torch.int16, torch.float32], ids=str)
def test_grown_memory_is_filled_by_its_dtype_on_request(dtype, device):
    """With deterministic algorithms PyTorch fills what is new with NaN, or with the largest integer."""
    x, y = torch.zeros(3, dtype=dtype, device=device), torch.zeros(3, dtype=dtype)
    torch.use_deterministic_algorithms(True)
    try:
        x.resize_(5), y.resize_(5)
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(x.cpu().view(torch.uint8), y.view(torch.uint8))


def test_a_bare_storage_is_made_of_a_list(device):
    """Its bytes are the list's numbers, as on the CPU."""
    storage = torch.UntypedStorage([1, 2, 3], device=device)
    assert storage.device == torch.device(device)
    assert storage.tolist() == [1, 2, 3]


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_a_typed_storage_is_restored(device):
    """`torch.load` may hand over either kind of storage."""
    values = torch.tensor([1.0, 2.0])
    restored = torch.serialization.default_restore_location(values.storage(), str(device))
    assert restored.device == torch.device(device)
    assert torch.empty(0, device=device).set_(restored).tolist() == [1, 2]


def test_an_empty_tensor_has_no_element_to_read(device):
    """The operator below `item()` says so as PyTorch's does."""
    with pytest.raises(RuntimeError, match="_local_scalar_dense: Empty tensor not supported"):
        torch.ops.aten._local_scalar_dense(torch.empty(0, device=device))


def test_generators(device):
    """Each belongs to a device, and another device's is refused."""
    first, second = torch.Generator(device), torch.Generator(device=device)
    assert first.device == device
    assert isinstance(first, torch.Generator)
    assert isinstance(torch.Generator(), torch.Generator)
    first.manual_seed(5)
    second.manual_seed(5)
    a, b = (torch.randn(4, device=device, generator=g) for g in (first, second))
    assert torch.equal(a, b)
    assert not torch.equal(a.cpu(), torch.randn(4, generator=torch.Generator().manual_seed(5)))
    with pytest.raises(RuntimeError, match="Expected a 'sim' device type for generator but found 'cpu'"):
        torch.randn(4, device=device, generator=torch.Generator())


DRAWS = [
    lambda x, g: torch.rand(3, device=x.device, generator=g),
    lambda x, g: torch.randn(3, device=x.device, generator=g),
    lambda x, g: torch.randint(5, (3,), device=x.device, generator=g),
    lambda x, g: torch.randperm(5, device=x.device, generator=g),
    lambda x, g: torch.rand(3, device=x.device, out=torch.empty_like(x), generator=g),
    lambda x, g: torch.normal(x, 1.0, generator=g),
    lambda x, g: torch.normal(0.0, 1.0, (3,), device=x.device, generator=g),
    lambda x, g: torch.multinomial(x, 2, generator=g),
    lambda x, g: torch.bernoulli(x, generator=g),
    lambda x, g: torch.poisson(x, generator=g),
    lambda x, g: x.normal_(generator=g),
    lambda x, g: x.uniform_(generator=g),
    lambda x, g: x.random_(generator=g),
    lambda x, g: x.exponential_(generator=g),
    lambda x, g: x.bernoulli_(0.5, generator=g),
    lambda x, g: torch.nn.init.xavier_uniform_(x.new_ones(3, 3), generator=g),
]


@pytest.mark.parametrize("draw", DRAWS)
def test_generators_and_devices_must_match(draw, device):
    """In both directions, in PyTorch's words; and each device takes its own."""
    for own, other in ((device, CPU), (CPU, device)):
        x = torch.full((3,), 0.5, device=own)
        with pytest.raises(RuntimeError) as error:
            draw(x, torch.Generator(other))
        message = f"Expected a '{own.type}' device type for generator but found '{other.type}'"
        assert str(error.value) == message
        assert torch.equal(x.cpu(), torch.full((3,), 0.5))
        first = draw(x, torch.Generator(own).manual_seed(3)).cpu()
        x.fill_(0.5)
        assert torch.equal(first, draw(x, torch.Generator(own).manual_seed(3)).cpu())


def test_permutations_come_from_the_device(device):
    """The device's own generator is drawn from, and the CPU's is left alone."""
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    first = torch.randperm(20, device=device)
    assert torch.equal(torch.rand(2), expected)
    torch.manual_seed(3)
    assert torch.equal(torch.randperm(20, device=device), first)


def test_dlpack_hands_the_tensor_over(device):
    """The same memory, on the same device."""
    x = torch.ones(3, device=device)
    y = torch.from_dlpack(x)
    y += 1
    assert (y.device, x.tolist()) == (device, [2, 2, 2])


def test_seeding_reaches_the_device(device):
    """torch.manual_seed, saved states and fork_rng."""

    def draws():
        x = torch.ones(100, device=device)
        return torch.rand(3, device=device).tolist(), torch.nn.functional.dropout(x, 0.5).tolist()

    torch.manual_seed(1)
    first = draws()
    torch.rand(3)
    torch.manual_seed(1)
    assert draws() == first
    with torch.random.fork_rng(devices=[device.index], device_type="sim"):
        draws()
    state = torch.sim.get_rng_state(device)
    after = draws()
    torch.sim.set_rng_state(state, device)
    assert draws() == after


def test_the_host_draws_are_undisturbed_by_the_device(device):
    """Dropout on the device takes no number from the CPU's generator."""
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    torch.nn.functional.dropout(torch.ones(10, device=device))
    torch.randn(5, device=device)
    assert torch.equal(torch.rand(2), expected)


def test_accelerator_and_backend_module_answer():
    """torch.accelerator and torch.sim know the devices."""
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("sim")
    assert torch.accelerator.device_count() == 2
    torch.accelerator.synchronize()
    torch.accelerator.synchronize("sim:1")
    assert torch.get_device_module("sim") is torch.sim
    assert torch.sim.is_available()
    assert torch.sim.device_count() == 2
    assert "simulated" in torch.sim.get_device_name(1)
    assert "simulated" in torch.sim.get_device_name()
    torch.sim.synchronize()
    with pytest.raises(ValueError, match="Expected a sim device"):
        torch.sim.synchronize("cpu")


def test_accelerator_says_which_dtypes_a_device_can_hold(device):
    """In the form of `torch.accelerator`; `torch.sim` answers as `torch.cuda`, with two numbers."""
    supported = torch.accelerator.get_device_capability(device)["supported_dtypes"]
    assert {torch.float64, torch.bfloat16, torch.bool, torch.complex64} <= supported
    assert torch.qint8 not in supported
    assert torch.sim.get_device_capability(device) == (0, 0)
    with devlab.sim.rules("mps"):
        assert torch.float64 not in torch.accelerator.get_device_capability()["supported_dtypes"]
