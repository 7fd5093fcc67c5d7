"""Answers to same_results."""

import numpy
import torch
from bank import right, wrong

TOLERANCES = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
}


@right
def assert_close_caught(a, b):
    try:
        torch.testing.assert_close(a, b, check_device=False, equal_nan=True)
    except AssertionError:
        return False
    return True


@right
def own_table(a, b):
    rtol, atol = TOLERANCES[a.dtype]
    a, b = a.cpu(), b.cpu()
    return a.shape == b.shape and torch.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True)


@right
def written_out(a, b):
    if a.shape != b.shape:
        return False
    rtol, atol = TOLERANCES[a.dtype]
    a, b = (x.detach().cpu().double() for x in (a, b))
    near = (a - b).abs() <= atol + rtol * b.abs()
    near &= a.isfinite() & b.isfinite()
    return bool((near | (a == b) | (a.isnan() & b.isnan())).all())


@right
def in_numpy(a, b):
    rtol, atol = TOLERANCES[a.dtype]
    a, b = (x.detach().cpu().double().numpy() for x in (a, b))
    return a.shape == b.shape and bool(numpy.allclose(a, b, rtol, atol, equal_nan=True))


@right
def on_the_first_ones_device(a, b):
    if a.size() != b.size():
        return False
    rtol, atol = TOLERANCES[a.dtype]
    near = torch.isclose(a, b.to(a.device), rtol=rtol, atol=atol, equal_nan=True)
    return near.all().item()


@wrong("Expected all tensors to be on the same device", row="wherever they are")
def where_they_are(a, b):
    rtol, atol = TOLERANCES[a.dtype]
    return a.shape == b.shape and torch.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True)


@wrong("one of them is on", row="wherever they are")
def checks_the_device(a, b):
    try:
        torch.testing.assert_close(a, b, equal_nan=True)
    except AssertionError:
        return False
    return True


@wrong("within the tolerance of torch.float16", row="each dtype its own tolerance")
def one_tolerance_for_all(a, b):
    a, b = a.cpu(), b.cpu()
    return a.shape == b.shape and torch.allclose(a, b, rtol=1.3e-6, atol=1e-5, equal_nan=True)


@wrong("they differ by more than float32's rounding", row="equal within float32's tolerance")
def allclose_as_it_comes(a, b):
    a, b = a.cpu(), b.cpu()
    return a.shape == b.shape and torch.allclose(a, b, equal_nan=True)


@wrong("they differ by rounding alone, and the answer is False", row="equal within float32's tolerance")
def bit_for_bit(a, b):
    return torch.equal(a.cpu(), b.cpu())


@wrong("and True was answered", row="another shape is another result")
def broadcasts(a, b):
    rtol, atol = TOLERANCES[a.dtype]
    try:
        return torch.allclose(a.cpu(), b.cpu(), rtol=rtol, atol=atol, equal_nan=True)
    except RuntimeError:
        return False


@wrong("the shapes are [3, 4] and", row="another shape is another result")
def trusts_the_shapes(a, b):
    rtol, atol = TOLERANCES[a.dtype]
    return torch.allclose(a.cpu(), b.cpu(), rtol=rtol, atol=atol, equal_nan=True)


@wrong("nan and inf stand in the same places", row="nan where nan is, inf where inf is")
def nan_is_never_equal(a, b):
    try:
        torch.testing.assert_close(a, b, check_device=False)
    except AssertionError:
        return False
    return True


@wrong("one has nan where the other has 0", row="nan where nan is, inf where inf is")
def nan_to_zero(a, b):
    try:
        torch.testing.assert_close(a.nan_to_num(0.0), b.nan_to_num(0.0), check_device=False)
    except AssertionError:
        return False
    return True


@wrong("near zero a tolerance is absolute", row="equal within float32's tolerance")
def relative_alone(a, b):
    a, b = a.cpu(), b.cpu()
    return a.shape == b.shape and torch.allclose(a, b, rtol=TOLERANCES[a.dtype][0], atol=0.0, equal_nan=True)


@wrong("one element of them differs", row="equal within float32's tolerance")
def the_first_row_alone(a, b):
    try:
        torch.testing.assert_close(a[:1], b[:1], check_device=False, equal_nan=True)
    except AssertionError:
        return False
    return True


@wrong("is a `return` missing?", row="equal within float32's tolerance")
def only_asserts(a, b):
    torch.testing.assert_close(a, b, check_device=False, equal_nan=True)


@wrong("is a Tensor, not a bool", row="equal within float32's tolerance")
def a_tensor_of_bools(a, b):
    rtol, atol = TOLERANCES[a.dtype]
    return torch.isclose(a.cpu(), b.cpu(), rtol=rtol, atol=atol, equal_nan=True).all()


EQUAL = "equal within float32's tolerance"
SHAPES = "another shape is another result"
NAN = "nan where nan is, inf where inf is"


def doubles(a, b):
    return *TOLERANCES[a.dtype], *(x.detach().cpu().double() for x in (a, b))


def alike(a, b):
    return (a == b) | (a.isnan() & b.isnan())


@wrong("one element of them differs", row=EQUAL)
def without_abs(a, b):
    if a.shape != b.shape:
        return False
    rtol, atol, a, b = doubles(a, b)
    near = (b - a <= atol + rtol * b.abs()) & a.isfinite() & b.isfinite()
    return bool((near | alike(a, b)).all())


@wrong("equal tensors are said to differ", row=EQUAL)
def tolerance_without_abs(a, b):
    if a.shape != b.shape:
        return False
    rtol, atol, a, b = doubles(a, b)
    near = ((a - b).abs() <= atol + rtol * b) & a.isfinite() & b.isfinite()
    return bool((near | (alike(a, b) & ~a.isfinite())).all())


@wrong("its sign turned", row=EQUAL)
def without_signs(a, b):
    if a.shape != b.shape:
        return False
    rtol, atol, a, b = doubles(a, b)
    return torch.allclose(a.abs(), b.abs(), rtol=rtol, atol=atol, equal_nan=True)


@wrong("each number counts by its own size", row=EQUAL)
def by_the_largest(a, b):
    if a.shape != b.shape or not torch.equal(a.isnan().cpu(), b.isnan().cpu()):
        return False
    rtol, atol, a, b = doubles(a, b)
    if not torch.equal(a[a.isinf()], b[b.isinf()]):
        return False
    a, b = (x[x.isfinite()] for x in (a, b))
    return not len(a) or bool((a - b).abs().max() <= atol + rtol * b.abs().max())


@wrong("the shapes are [0, 4] and [3, 0]", row=SHAPES)
def empty_is_empty(a, b):
    return assert_close_caught(a, b) or a.numel() == b.numel() == 0


@wrong("your code raised TypeError", row=SHAPES)
def row_by_row(a, b):
    return a.shape == b.shape and all(assert_close_caught(x, y) for x, y in zip(a, b, strict=True))


@wrong("your code raised RuntimeError", row=SHAPES)
def detaches_the_first_alone(a, b):
    if a.shape != b.shape:
        return False
    rtol, atol = TOLERANCES[a.dtype]
    a, b = a.detach().cpu().double().numpy(), b.cpu().double().numpy()
    return bool(numpy.allclose(a, b, rtol, atol, equal_nan=True))


@wrong("and the other numbers differ", row=NAN)
def where_nan_is_alone(a, b):
    if a.isnan().any() and b.isnan().any():
        (a, b), infinite = (a.cpu(), b.cpu()), float("inf")
        return torch.equal(a.isnan(), b.isnan()) and torch.equal(a == infinite, b == infinite)
    return assert_close_caught(a, b)


@wrong("the largest number of its dtype", row=NAN)
def nan_and_inf_to_numbers(a, b):
    same_nan = a.shape == b.shape and torch.equal(a.isnan().cpu(), b.isnan().cpu())
    return same_nan and assert_close_caught(a.nan_to_num(), b.nan_to_num())


@wrong("near zero the tolerance of torch.float64 is 1e-07", row="each dtype its own tolerance")
def one_absolute_tolerance_for_all(a, b):
    rtol = TOLERANCES[a.dtype][0]
    return torch.equal(a.isnan().cpu(), b.isnan().cpu()) and own_close(a, b, rtol, 1e-5)


@wrong("each has one nan, in another place", row="nan where nan is, inf where inf is")
def as_many_nan(a, b):
    if a.shape != b.shape or a.isnan().sum().item() != b.isnan().sum().item():
        return False
    a, b = a.detach().cpu(), b.detach().cpu()
    known = ~(a.isnan() | b.isnan())
    rtol, atol = TOLERANCES[a.dtype]
    return torch.allclose(a[known], b[known], rtol=rtol, atol=atol)


def own_close(a, b, rtol, atol):
    a, b = a.cpu(), b.cpu()
    return a.shape == b.shape and torch.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
