"""The order of comparison, and what each difference is called."""

import numpy
import pytest
import torch

from devlab.checks import expect

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("got", "said"),
    [
        (None, "is a `return` missing"),
        ([1.0, 2.0, 3.0], "the result is a list, not a tensor"),
        (torch.ones(3, 1, dtype=torch.float64), "has shape [3,1], not [3]"),
        (torch.ones(3, dtype=torch.float64, device="meta"), "is torch.float64, not torch.float32"),
        (torch.ones(3, device="meta"), "is on meta, not cpu"),
        (torch.tensor([1.0, float("nan"), 3.0]), "holds nan or inf"),
        (torch.tensor([1.0, 2.0, 3.5]), "the values of the result are wrong"),
    ],
    ids=["nothing", "type", "shape", "dtype", "device", "finiteness", "values"],
)
def test_stops_at_the_first_difference(got, said):
    """Type, shape, dtype, device, finiteness, values."""
    with pytest.raises(expect.Mismatch) as caught:
        expect.tensor(got, torch.tensor([1.0, 2.0, 3.0]), CPU)
    assert said in caught.value.headline


def test_the_place_of_a_wrong_value_is_named():
    """The worst element, with its index."""
    with pytest.raises(expect.Mismatch) as caught:
        expect.values(torch.tensor([[1.0, 2.0], [3.0, 9.0]]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert (caught.value.expected, caught.value.got) == ("4 at [1, 1]", "9 at [1, 1]")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tolerance_is_the_dtypes_own(dtype):
    """One rounding is forgiven, a tenth is not."""
    wanted = torch.tensor([1.0, 2.0], dtype=dtype)
    expect.values(wanted * (1 + torch.finfo(dtype).eps / 2), wanted)
    with pytest.raises(expect.Mismatch):
        expect.values(wanted + 0.1, wanted)


def test_a_wider_tolerance_is_absolute():
    """`within` forgives by so much and no more, whatever the size of the numbers."""
    wanted = torch.tensor([1000.0])
    expect.values(wanted + 0.9, wanted, within=1.0)
    with pytest.raises(expect.Mismatch):
        expect.values(wanted + 1.1, wanted, within=1.0)


def test_nothing_is_forgiven_in_integers_and_booleans():
    """Exact kinds compare exactly, infinities and nan where they belong are fine."""
    expect.values(torch.tensor([float("inf"), float("nan")]), torch.tensor([float("inf"), float("nan")]))
    with pytest.raises(expect.Mismatch):
        expect.values(torch.tensor([True, False]), torch.tensor([True, True]))
    with pytest.raises(expect.Mismatch):
        expect.values(torch.tensor([10**9]), torch.tensor([10**9 + 1]))


def test_a_bool_is_no_int():
    """Python counts True among the integers; a task that asks for a number does not."""
    expect.kind(True, bool, "a bool")
    with pytest.raises(expect.Mismatch, match="a bool, not an int"):
        expect.kind(True, int, "an int")


@pytest.mark.parametrize(
    ("got", "said"),
    [
        (None, "is a `return` missing"),
        (torch.ones(2, 3), "the result is a Tensor, not a NumPy array"),
        (numpy.ones(6), "has shape [6], not [2,3]"),
        (numpy.ones((2, 3)), "is float64, not float32"),
        (numpy.zeros((2, 3), dtype="float32"), "the values of the result are wrong"),
    ],
    ids=["nothing", "type", "shape", "dtype", "values"],
)
def test_arrays_are_compared_in_the_same_order(got, said):
    """Type, shape, dtype, values; the strides of the two may differ."""
    wanted = numpy.ones((2, 3), dtype="float32")
    expect.array(wanted[::-1], wanted)
    with pytest.raises(expect.Mismatch) as caught:
        expect.array(got, wanted)
    assert said in caught.value.headline


def test_numbers_that_numpy_cannot_read_are_compared():
    """The imaginary part of a conjugate shares its memory, and PyTorch alone knows its sign."""
    negative = torch.tensor([1 + 2j]).conj().imag
    expect.values(negative, negative + 1e-9, within=1e-3)
