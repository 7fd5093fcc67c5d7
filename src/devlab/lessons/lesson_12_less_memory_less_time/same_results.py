"""Whether two tensors are equal within what their dtype can hold, wherever they are."""

import torch

from devlab.checks import cases, expect, verbs
from devlab.lessons.lesson_12_less_memory_less_time import lesson

same_results = lesson.exercise(
    "same_results(a, b)",
    ("F1", "F4"),
    "Two tensors on two devices cannot be compared by an operator. Where could both be? And what does "
    "`torch.testing.assert_close` know about a dtype?",
    "`torch.testing.assert_close(a, b, check_device=False, equal_nan=True)` raises an AssertionError where "
    "they differ, by the tolerance of their dtype, shapes included.",
    "`try:` that call, then `return True`; `except AssertionError:` `return False`.",
)

# Below and above what each dtype is allowed at a large number, as shares of it: half of it and twice.
NEAR, FAR = 0.5, 2.0


def _ask(trial, a: torch.Tensor, b: torch.Tensor, wanted: bool, why: str) -> None:
    verbs.answers(trial, a, b, wanted=wanted, why=why)


def _pair(trial, dtype: torch.dtype, share: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return large numbers, and such as differ from them by a share of the dtype's tolerance."""
    x = trial.randn(3, 5, seed=trial.seeds[0])
    a = ((x + x.sign()) * 64).cpu().to(dtype)
    b = (a.double() * (1 + share * expect.ROUNDING[dtype][0])).to(dtype)
    return a.to(trial.device), b.to(trial.device)


@same_results.row("equal within float32's tolerance")
def in_float32(trial):
    a, near = _pair(trial, torch.float32, NEAR)
    _ask(trial, a, a.clone(), True, "equal tensors are said to differ")
    _ask(trial, a, near, True, "they differ by rounding alone, and the answer is {got}")
    _ask(trial, a, _pair(trial, torch.float32, FAR)[1], False, "they differ by more than float32's rounding")
    for place in (0, -1):  # a difference in one element
        other = a.clone()
        other.view(-1)[place] += 1
        for pair in ((a, other), (other, a)):
            _ask(trial, *pair, False, "one element of them differs, and the answer is {got}")
    _ask(trial, a, -a, False, "one is the other with its sign turned, and the answer is {got}")
    wide = a.clone()
    wide[0, 0] = 1e6
    other = wide.clone()
    other[-1, -1] += 0.5
    _ask(trial, wide, other, False, "each number counts by its own size: beside 1000000 another one differs")
    zeros, tiny = torch.zeros_like(a), torch.full_like(a, 5e-6)
    _ask(trial, zeros, tiny, True, "near zero a tolerance is absolute: 1e-5 for float32")
    _ask(trial, zeros, tiny * 4, False, "near zero 2e-5 is more than float32's absolute tolerance")


@same_results.row("each dtype its own tolerance")
def each_its_own(trial):
    for dtype in cases.floats(trial.device):
        for share, wanted in ((NEAR, True), (FAR, False)):
            side = "within" if wanted else "outside"
            why = f"the difference is {side} the tolerance of {dtype}, and the answer is {{got}}"
            _ask(trial, *_pair(trial, dtype, share), wanted, why)
        zeros, near = torch.zeros(3, dtype=dtype, device=trial.device), expect.ROUNDING[dtype][1]
        for share, wanted in ((NEAR, True), (FAR, False)):
            why = f"near zero the tolerance of {dtype} is {near:g}, and the answer is {{got}}"
            _ask(trial, zeros, zeros + share * near, wanted, why)


@same_results.row("wherever they are")
def anywhere(trial):
    a, near = _pair(trial, torch.float32, NEAR)
    far = _pair(trial, torch.float32, FAR)[1]
    for there in cases.places(trial)[1:]:
        _ask(trial, a, near.to(there), True, f"one of them is on {there}, and the numbers agree")
        _ask(trial, near.to(there), a, True, f"one of them is on {there}, and the numbers agree")
        _ask(trial, a, far.to(there), False, f"one of them is on {there}, and the numbers differ")


@same_results.row("another shape is another result")
def shapes(trial):
    ones = torch.ones(3, 4, device=trial.device)
    for other in (ones[:1], ones[0, 0], ones.t(), ones.view(-1), ones[None], ones[:0]):
        shape = list(other.shape)
        why = f"the shapes are [3, 4] and {shape}, and {{got}} was answered"
        _ask(trial, ones, other, False, why)
        _ask(trial, other, ones, False, why)
    _ask(trial, ones[:0], ones[:0].clone(), True, "two empty tensors of one shape are the same")
    _ask(trial, ones[:0], ones[:, :0], False, "the shapes are [0, 4] and [3, 0], and {got} was answered")
    _ask(trial, ones[0, 0], ones[1, 1], True, "two tensors without dimensions hold the same number")
    _ask(trial, ones[0, 0], 2 * ones[1, 1], False, "two tensors without dimensions hold other numbers")
    _ask(trial, ones.t(), ones.t().contiguous(), True, "strides are no part of a result")
    leaf = ones.clone().requires_grad_()
    for pair in ((leaf, ones), (ones, leaf)):
        _ask(trial, *pair, True, "the numbers are the same: a tensor that requires grad is compared, too")


@same_results.row("nan where nan is, inf where inf is")
def nan_and_inf(trial):
    for x in cases.unruly(trial.randn(3, 4, seed=trial.seeds[1])):
        _ask(trial, x, x.clone(), True, "nan and inf stand in the same places, and the answer is {got}")
        _ask(trial, x, x.nan_to_num(0.0, posinf=float("inf")), False, "one has nan where the other has 0")
        _ask(trial, x.nan_to_num(0.0, posinf=float("inf")), x, False, "one has nan where the other has 0")
        mirrored = torch.where(x.isinf(), -x, x)
        _ask(trial, x, mirrored, False, "one has inf where the other has -inf")
        _ask(trial, x, x + 1, False, "nan and inf stand in the same places, and the other numbers differ")
        one, other = (x.nan_to_num(0.0, posinf=float("inf")) for _ in range(2))
        one.view(-1)[1] = other.view(-1)[-2] = float("nan")
        _ask(trial, one, other, False, "each has one nan, in another place, and the answer is {got}")
        largest = x.nan_to_num(float("nan"))
        _ask(trial, x, largest, False, "one has inf where the other has the largest number of its dtype")
