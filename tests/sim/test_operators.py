"""PyTorch's own database of operators, forward and gradient: each result on `sim` is the CPU's.

Where the database says that CUDA has no kernel for a dtype, the device must refuse it.

The database brings its own samples. Each is run on the CPU and on a simulated device from the same seed, and
results, gradients, shapes, dtypes, strides and devices are compared.
"""

import itertools
import re
import sys
import types
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

from devlab.sim import random_numbers

# A few samples catch a fault in a kernel as well as hundreds do: kernels here are built from schemas.
SAMPLES = {torch.float32: 4}
SHARDS = 2
# Every operator in float32. Of the other dtypes one half is thorough: their kernels are float32's.
DTYPES = [torch.float32, torch.bfloat16, torch.complex64, torch.int64, torch.bool]
TRIED = [
    pytest.param(dtype, shard, marks=[pytest.mark.thorough] if shard and dtype is not torch.float32 else [])
    for dtype in DTYPES
    for shard in range(SHARDS)
]
# PyTorch's chunked cross-entropy sums in another order off the CPU, which shows in eight bits.
TOLERANCE = {torch.bfloat16: {"rtol": 2e-2, "atol": 1e-2}}

# Whatever was in memory before is what these return.
UNDEFINED = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
# A CUDA device refuses these samples as well: the tensor of indices must be on the CPU.
REFUSED_BY_CUDA = {"tensor_split"}
# The sample is a view, and moving it leaves the rest of its storage behind, on CUDA too.
BEYOND_THE_SAMPLE = {"as_strided.partial_views"}
# Sparse tensors are not simulated.
SPARSE = {"to_sparse", "sparse.mm.reduce", "sparse.sampled_addmm"}
# Each device chooses its own form of attention, and with it the strides of the result and, in eight bits,
# its last digits.
OWN_FORM = {"nn.functional.scaled_dot_product_attention"}
# CUDA multiplies matrices of bfloat16; PyTorch's tables say so only where a GPU is there to be asked.
ASKS_THE_GPU = {"addbmm", "bmm", "matmul", "nn.functional.bilinear", "__rmatmul__"}
EXCLUDED = UNDEFINED | REFUSED_BY_CUDA | BEYOND_THE_SAMPLE | SPARSE


def database():
    """Return PyTorch's list of operators; importing it asks for a package of which nothing is used here."""
    stand_in = types.ModuleType("expecttest")
    stand_in.TestCase = unittest.TestCase
    stand_in.assert_expected_inline = None
    sys.modules.setdefault("expecttest", stand_in)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db

    return op_db


def full_name(op) -> str:
    """Return the name that tells an operator's variants apart."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def moved(values, device):
    """Return some arguments with every tensor, and every mention of the CPU, on `device`."""

    def move(value):
        if isinstance(value, torch.Tensor):
            return value.detach().to(device).requires_grad_(value.requires_grad)
        return torch.device(device) if value == "cpu" or value == torch.device("cpu") else value

    return tree_map(move, values)


def outcome(op, sample, device, gradients):
    """Return the results of one sample on `device`, and the gradients of its operands."""
    args, kwargs = moved(((sample.input, *sample.args), sample.kwargs), device)
    torch.manual_seed(7)
    results = [t for t in tree_leaves(op.op(*args, **kwargs)) if isinstance(t, torch.Tensor)]
    leaves = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
    ends = [t.real.sum() if t.is_complex() else t.sum() for t in results if t.requires_grad]
    if gradients and leaves and ends:
        found = torch.autograd.grad(ends, leaves, allow_unused=True)
        results += [gradient for gradient in found if gradient is not None]
    return results


def compare(op, sample, device, gradients) -> str | None:
    """Return what differs between the CPU's outcome and the device's, or None."""
    try:
        expected = outcome(op, sample, "cpu", gradients)
    except Exception:  # not an operator of this build, or not of this dtype after all
        return None
    got = outcome(op, sample, device, gradients)
    if len(got) != len(expected):
        return f"{len(got)} results for {len(expected)}"
    for ours, theirs in zip(got, expected, strict=True):
        if (ours.device, ours.dtype, ours.shape) != (torch.device(device), theirs.dtype, theirs.shape):
            return f"{ours.device} {ours.dtype} {ours.shape}, not {theirs.dtype} {theirs.shape}"
        free = full_name(op) in OWN_FORM
        if ours.numel() > 1 and ours.stride() != theirs.stride() and not free:
            return f"strides {ours.stride()}, not {theirs.stride()}"
        torch.testing.assert_close(ours.cpu(), theirs, equal_nan=True, **TOLERANCE.get(theirs.dtype, {}))
    return None


def missing_on_cuda(op, dtype) -> bool:
    """Tell whether the CPU has an operator for a dtype and CUDA has not, as PyTorch's tables say."""
    asks = dtype is torch.bfloat16 and full_name(op) in ASKS_THE_GPU
    return not asks and dtype in op.supported_dtypes("cpu") - op.supported_dtypes("cuda")


def refusal(op, samples, device) -> str | None:
    """Return what is wrong with how the device refuses what CUDA has no kernel for, or None.

    Some samples need no such kernel, such as products of numbers, which are elementwise.
    """
    for sample in samples:
        try:
            outcome(op, sample, device, gradients=False)
        except (NotImplementedError, RuntimeError) as refused:
            words = ("not implemented for", "not supported for", "CUDA has no kernel")
            return None if any(one in str(refused) for one in words) else str(refused)
    return "it computes what CUDA has no kernel for"


def disagreements(dtype, shard) -> tuple[int, dict[str, str]]:
    """Return how many operators of a shard were tried, and what differs, by operator."""
    wrong, tried = {}, 0
    for op in database()[shard::SHARDS]:
        if full_name(op) in EXCLUDED or not op.supports_dtype(dtype, "cpu"):
            continue
        if dtype is torch.bfloat16 and full_name(op) in OWN_FORM:
            continue
        tried += 1
        gradients = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
        # The public way to the samples inspects the stack for each, which takes longer than all else here.
        samples = op.sample_inputs_func(op, "cpu", dtype, gradients)
        # Least squares have methods that are the CPU's alone.
        samples = (sample for sample in samples if sample.kwargs.get("driver", "gels") == "gels")
        if missing_on_cuda(op, dtype):
            if difference := refusal(op, samples, f"sim:{shard % 2}"):
                wrong[full_name(op)] = difference
            continue
        for number, sample in enumerate(itertools.islice(samples, SAMPLES.get(dtype, 2))):
            try:
                difference = compare(op, sample, f"sim:{shard % 2}", gradients)
            except Exception as error:
                difference = f"{type(error).__name__}: {error}"
            if difference:
                wrong[full_name(op)] = f"sample {number}: {difference}"
                break
    return tried, wrong


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("dtype", "shard"), TRIED)
def test_every_operator_agrees_with_the_cpu(dtype, shard, monkeypatch):
    """Results, gradients, dtypes, shapes, strides and devices."""
    monkeypatch.setattr(random_numbers, "_SALT", 0)  # the device draws the CPU's numbers, to be comparable
    # Seeding notes the stack that seeded. In a thread it is short, which makes this test twice as fast.
    with ThreadPoolExecutor(1) as thread:
        tried, wrong = thread.submit(disagreements, dtype, shard).result()
    assert tried > 100
    assert not wrong


def test_products_look_at_dtypes_before_a_kernel_is_chosen():
    """Integers and floats are refused as such, although CUDA has no product of integers at all."""
    whole, real = torch.ones(2, 2, 2, dtype=torch.int32, device="sim"), torch.ones(2, 2, 2, device="sim")
    with pytest.raises(RuntimeError, match="Input dtypes must be the same"):
        torch.baddbmm(whole, real, real)
    with pytest.raises(NotImplementedError, match="\"baddbmm_cuda\" not implemented for 'Int'"):
        torch.baddbmm(whole, whole, whole)


@pytest.mark.parametrize(
    ("call", "kernel"),
    [
        (lambda x: x.bool() @ x.bool(), "addmm_cuda"),
        (lambda x: torch.bmm(x[None].bool(), x[None].bool()), "baddbmm_cuda"),
        (lambda x: x.softmax(0), "host_softmax"),
        (lambda x: torch.nn.functional.gelu(x), "GeluCUDAKernelImpl"),
        (lambda x: torch.nn.functional.silu(x), "silu_cuda"),
        (
            lambda x: torch.nn.functional.grid_sample(x[None, None], x[None, :, :2, None].mT),
            "grid_sampler_2d_cuda",
        ),
        (lambda x: torch.nn.functional.adaptive_avg_pool2d(x[None], 2), "adaptive_avg_pool2d_cuda"),
        (lambda x: x.bool().round(), "round_cuda"),
        (lambda x: x.cfloat() < x.cfloat(), "compare_cuda"),
        (lambda x: x.to(torch.uint16) & x.to(torch.uint16), "bitwise_and_cuda"),
        (lambda x: x.to(torch.uint16).sort(), "sort"),
        (lambda x: x.to(torch.complex32).cumprod(0), "cumprod_cuda"),
        (
            lambda x: x.cfloat().scatter_reduce(0, x, x.cfloat(), "prod"),
            "cuda_scatter_gather_base_kernel_func",
        ),
    ],
)
def test_a_dtype_is_refused_in_the_name_of_cudas_kernel(call, kernel, device):
    """As an H200 answered, where the CPU has no kernel either, and where the CPU has one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # complex32 is experimental
        with pytest.raises(NotImplementedError, match=f'^"{kernel}" not implemented for '):
            call(torch.zeros(4, 4, dtype=torch.int64, device=device))


@pytest.mark.parametrize(
    ("call", "dtypes"),
    [
        (lambda x: x.flip(0), [torch.uint16]),
        (
            lambda x: x.gather(0, torch.zeros(2, 2, dtype=torch.int64, device=x.device)),
            [torch.uint16, torch.complex32],
        ),
        (lambda x: x.index_select(0, torch.tensor([1], device=x.device)), [torch.uint16]),
        (lambda x: torch.eye(3, dtype=x.dtype, device=x.device), [torch.uint16, torch.complex32]),
        (
            lambda x: torch.tril_indices(3, 3, dtype=x.dtype, device=x.device),
            [torch.float16, torch.uint8, torch.bool],
        ),
        (
            lambda x: torch.nn.functional.pixel_shuffle(x.expand(1, 4, 2, 2), 2),
            [torch.uint16, torch.complex32],
        ),
        (lambda x: x.median(), [torch.bool]),
        (
            lambda x: torch.nn.functional.max_unpool1d(x, torch.tensor([[0, 3], [1, 2]], device=x.device), 2),
            [torch.int64, torch.uint8],
        ),
    ],
)
def test_what_an_h200_computes_and_the_cpu_does_not(call, dtypes, device):
    """The elements are those of the same call in float32."""
    values = torch.tensor([[1.0, 2.0], [0.0, 1.0]], device=device)
    for dtype in dtypes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # complex32 is experimental
            found, expected = (
                call(values.to(dtype)),
                call(values.bool().float() if dtype is torch.bool else values),
            )
            assert found.dtype is dtype
            assert torch.equal(found.cpu().to(torch.complex64), expected.cpu().to(dtype).to(torch.complex64))


def test_spectrograms_of_16_bit_floats_take_powers_of_two(device):
    """`stft` asks cuFFT by itself, and an H200 refuses its window of ten."""
    x, window = torch.ones(32, device=device).half(), torch.ones(10, device=device).half()
    with pytest.raises(RuntimeError, match=re.escape("half precision, but got a signal size of[10]")):
        torch.stft(x, 10, window=window, return_complex=True)


def test_least_squares_have_one_method():
    """CUDA has `gels` alone, and says so before it looks whether there is such a method."""
    matrix, right = torch.eye(3, device="sim"), torch.ones(3, 1, device="sim")
    assert torch.linalg.lstsq(matrix, right, driver="gels").solution.tolist() == [[1], [1], [1]]
    for driver in ("gelsy", "no such driver"):
        with pytest.raises(RuntimeError, match="`driver` other than `gels` is not supported on CUDA"):
            torch.linalg.lstsq(matrix, right, driver=driver)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.float16, torch.float64])
def test_what_cuda_has_no_kernel_for_is_refused(dtype):
    """The dtypes that the comparison above leaves out."""
    missing = {full_name(op): op for op in database() if missing_on_cuda(op, dtype)}
    missing = {name: op for name, op in missing.items() if name not in EXCLUDED}
    wrong = {
        name: refusal(op, op.sample_inputs_func(op, "cpu", dtype, False), "sim:0")
        for name, op in missing.items()
    }
    assert missing
    assert not {name: said for name, said in wrong.items() if said}


# Where the reference is computed for a dtype that the CPU lacks, and what becomes of its results.
WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex32: torch.complex64,
    torch.bool: torch.uint8,
    **dict.fromkeys((torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64), torch.float64),
}
HALVED = {torch.float32: torch.float16, torch.complex64: torch.complex32}


def cast(values, dtypes):
    """Return nested values with the tensors, and the mentions, of some dtypes in other dtypes."""

    def change(value):
        if isinstance(value, torch.Tensor):
            return value.detach().to(dtypes.get(value.dtype, value.dtype)).requires_grad_(value.requires_grad)
        return dtypes.get(value, value) if isinstance(value, torch.dtype) else value

    return tree_map(change, values)


def alone_on_cuda(op, dtype) -> str | None:
    """Return how the device fails a pair of operator and dtype that CUDA takes and the CPU does not."""
    gradients = op.supports_autograd and dtype in op.supported_backward_dtypes("cuda")
    gradients = gradients and full_name(op) not in ROUNDED_IN_STEPS
    wider = {dtype: WIDER[dtype]} if dtype in WIDER else {}
    narrower = (
        HALVED if dtype in (torch.float16, torch.complex32) else {new: old for old, new in wider.items()}
    )
    for sample in itertools.islice(op.sample_inputs_func(op, "cpu", dtype, gradients), 3):
        try:
            got = outcome(op, sample, "sim:1", gradients)
        except NotImplementedError as refused:
            said = str(refused)
            if "runs on CUDA; the simulator computes on the CPU, which has no kernel for" in said:
                continue
            if "sparse tensors are not simulated" in said:
                continue
            return str(refused)
        same = types.SimpleNamespace(**cast({part: getattr(sample, part) for part in GIVEN}, wider))
        try:
            expected = outcome(op, sample, "cpu", gradients)  # some samples need no kernel that the CPU lacks
        except RuntimeError:
            if full_name(op) in NO_REFERENCE:
                continue
            expected = cast(outcome(op, same, "cpu", gradients), narrower)
        for ours, theirs in zip(got, expected, strict=True):
            if (str(ours.device), ours.dtype) != ("sim:1", theirs.dtype):
                return f"{ours.device} {ours.dtype}, not {theirs.dtype}"
            # A sum of large numbers that nearly cancel is as exact as the numbers.
            largest = theirs.to(torch.complex64).abs().nan_to_num(posinf=0).sum().clamp(1, 100).item()
            torch.testing.assert_close(ours.cpu(), theirs, equal_nan=True, rtol=5e-3, atol=5e-4 * largest)
    return None


GIVEN = ("input", "args", "kwargs")
# The CPU adds up complex numbers with NaN among them in no dtype.
NO_REFERENCE = {"nansum", "nanmean"}
# Their derivatives take several operators, and each result is rounded to 16 bits, or too large for them.
ROUNDED_IN_STEPS = {"logaddexp", "pow"}


@pytest.mark.filterwarnings("ignore")
def test_what_cuda_computes_and_the_cpu_does_not(monkeypatch):
    """It is computed in a wider dtype, and rounded to the dtype that CUDA gives, or refused in words."""
    monkeypatch.setattr(random_numbers, "_SALT", 0)
    tried, wrong = 0, {}
    for op in database():
        for dtype in op.supported_dtypes("cuda") - op.supported_dtypes("cpu"):
            tried += 1
            try:
                difference = alone_on_cuda(op, dtype)
            except Exception as error:
                difference = f"{type(error).__name__}: {error}"
            if difference:
                wrong[f"{full_name(op)} {dtype}"] = difference
    assert tried > 90
    assert not wrong


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_a_dtype_that_the_cpu_lacks_is_written_in_place_and_out(device):
    """As methods with an underscore and `out=` do, whatever dtype the target has."""
    x = torch.tensor([1.0, 2.0], device=device).to(torch.complex32)
    expected = torch.tensor([1.0, 2.0]).cos().to(torch.complex32)
    into = torch.empty(0, dtype=torch.complex32, device=device)
    assert torch.cos(x, out=into) is into
    torch.testing.assert_close(into.cpu(), expected)
    assert torch.cos(x, out=into.to(torch.complex64)).dtype is torch.complex64
    assert x.cos_() is x
    torch.testing.assert_close(x.cpu(), expected)


def test_sums_without_nan_of_complex_numbers(device):
    """CUDA leaves a number out when either part is NaN."""
    x = torch.tensor([1 + 2j, complex(float("nan"), 1), complex(3, float("nan"))], device=device)
    assert x.nansum().item() == 1 + 2j
    assert torch.nansum(x, 0, out=x.new_zeros(())).item() == 1 + 2j


@pytest.mark.parametrize(
    ("name", "sizes"), [("fft", "[6]"), ("rfft", "[6]"), ("irfft", "[10]"), ("fft2", "[8, 6]")]
)
def test_transforms_of_16_bit_floats_take_powers_of_two(name, sizes, device):
    """As cuFFT does; in inference mode and as complex numbers, too."""
    x = torch.ones(8, 6, device=device).half()
    refused = pytest.raises(RuntimeError, match=re.escape(f"half precision, but got a signal size of{sizes}"))
    transform = getattr(torch.fft, name)
    with refused:
        transform(x)
    with torch.inference_mode(), refused:
        transform(x)
    assert transform(x.float()).shape == transform(x.float().cpu()).shape
    with pytest.raises(RuntimeError, match="Unsupported dtype BFloat16"):
        transform(x.bfloat16())


def test_what_only_cuda_has_is_refused_in_words(device):
    """The error does not name the CPU's backend, of which the program knows nothing."""
    x = torch.ones(2, 2, device=device)
    with pytest.raises(NotImplementedError, match=r"'aten::mm\.dtype' runs on CUDA; the simulator"):
        torch.mm(x.half(), x.half(), out_dtype=torch.float32)
    with pytest.raises(
        NotImplementedError, match=r"Could not run 'aten::int_repr' .* from the 'sim' backend"
    ):
        x.int_repr()


@pytest.mark.parametrize(
    ("dtype", "said"),
    [
        *((dtype, "GET was unable to find an engine") for dtype in (torch.int8, torch.uint8, torch.int32)),
        (torch.int16, "not supported for Short"),
        (torch.int64, "not supported for Long"),
        (torch.bool, "not supported for Bool"),
    ],
)
def test_cudnn_convolves_no_integers(dtype, said, device):
    """The CPU has kernels for most of them, which PyTorch's database does not mention."""
    x, weight = torch.ones(1, 2, 5, 5), torch.ones(3, 2, 3, 3)
    with pytest.raises(RuntimeError, match=said):
        torch.conv2d(x.to(device, dtype), weight.to(device, dtype))
    assert torch.conv2d(x.to(device), weight.to(device)).shape == (1, 3, 3, 3)


DETERMINISTIC = (
    "does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms"
)


@pytest.mark.parametrize(
    ("caller", "call"),
    [
        ("median CUDA with indices output", lambda x: x.median(0)),
        ("kthvalue CUDA", lambda x: x.kthvalue(2, 0)),
        ("_histc_cuda with floating point input", torch.histc),
        ("_bincount_cuda", lambda x: torch.bincount(torch.ones_like(x[0]).long(), weights=x[0])),
        ("reflection_pad1d_backward_out_cuda", lambda x: gradient(torch.nn.ReflectionPad1d(1), x)),
        ("adaptive_avg_pool2d_backward_cuda", lambda x: gradient(torch.nn.AdaptiveAvgPool2d(2), x[None])),
    ],
)
def test_deterministic_algorithms_are_asked_for(caller, call, device):
    """What CUDA adds up in any order is refused, or warned of, where the program asks for one order."""
    x = torch.rand(4, 4, device=device)
    call(x)
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match=f"^{caller} {DETERMINISTIC}"):
            call(x)
        assert not x.median().isnan()
        assert torch.bincount(x[0].long()).sum() == 4
        torch.use_deterministic_algorithms(True, warn_only=True)
        with pytest.warns(UserWarning, match=f"^{caller} {DETERMINISTIC}"):
            call(x)
    finally:
        torch.use_deterministic_algorithms(False)


def gradient(module, x) -> None:
    """Run a module forward and backward."""
    module(x.clone().requires_grad_()).sum().backward()


def test_the_exclusions_are_still_operators():
    """The list is short, and no entry is stale."""
    assert {full_name(op) for op in database()} >= EXCLUDED
    assert len(EXCLUDED) <= 12


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("remainder", [torch.fmod, torch.remainder])
def test_a_remainder_by_zero_is_no_error_as_on_cuda(remainder, dtype):
    """The CPU raises; CUDA's numbers are those that PyTorch's own test expects of it."""
    x = torch.tensor([7, 5, 0 if dtype is torch.uint8 else -5], dtype=dtype, device="sim")
    least = 255 if dtype is torch.uint8 else -1
    most = 0xFFFFFFFF if dtype is torch.int64 else least
    divisors = torch.tensor([4, 0, 0], dtype=dtype, device="sim")
    expected = [3, most, most if dtype is torch.uint8 else -1]
    assert remainder(x, divisors).tolist() == expected
    assert remainder(x, 0).tolist()[1:] == expected[1:]
    assert getattr(x.clone(), f"{remainder.__name__}_")(divisors).tolist() == expected
    assert remainder(x, divisors, out=torch.empty_like(x)).tolist() == expected
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        remainder(x.cpu(), divisors.cpu())
