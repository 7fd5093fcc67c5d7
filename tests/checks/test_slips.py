"""A wrong result is called by the name of a slip only where it is exactly what the slip gives."""

import pytest
import torch

from devlab.checks import expect
from devlab.checks.expect import Mismatch

WANTED = torch.tensor([1.0, 2.0])
DOUBLED = {"doubled": lambda: 2 * WANTED}


def test_the_slip_that_gives_the_result_is_named():
    """Shape and numbers decide; another dtype or a device with memory of its own does not hide a slip."""
    for got in (2 * WANTED, (2 * WANTED).half(), (2 * WANTED).requires_grad_()):
        with pytest.raises(Mismatch, match="doubled"):
            expect.name_slip(got, WANTED, DOUBLED)


@pytest.mark.parametrize(
    "got",
    [WANTED, 3 * WANTED, 2 * WANTED + 1e-2, (2 * WANTED)[None], None, "text", torch.ones(2, device="meta")],
    ids=["right", "unknown", "only near", "another shape", "none", "text", "without data"],
)
def test_nothing_is_said_of_any_other_result(got):
    """A guess would mislead; what is unknown is left to the comparison that follows."""
    expect.name_slip(got, WANTED, DOUBLED)


def test_a_right_result_needs_no_slips():
    """Where a slip takes time to compute, it is not computed for a right result."""
    expect.name_slip(WANTED, WANTED, {"never": lambda: pytest.fail("the result is right")})


def test_a_slip_that_gives_what_is_wanted_is_none():
    """For some inputs a slip makes no difference, and then it is not what went wrong."""
    expect.name_slip(WANTED + 1, WANTED, {"nothing": WANTED})
    expect.name_slip(WANTED, WANTED, {"nothing": WANTED})


def test_a_slip_that_these_inputs_do_not_admit_is_passed_over():
    """A diagnosis that cannot be computed never breaks a verdict."""
    broken = {"joined": lambda: torch.cat([torch.tensor(1.0), WANTED])}
    with pytest.raises(Mismatch, match="doubled"):
        expect.name_slip(2 * WANTED, WANTED, broken | DOUBLED)


def test_lost_digits_name_the_dtype_that_lost_the_least():
    """float16 loses what float32 loses and more: the one that explains the result is named."""
    x = torch.tensor([1 / 3, 1e-3], dtype=torch.float64)
    for third in (torch.float32, torch.float16):
        with pytest.raises(Mismatch, match=f"the numbers were {third} on the way"):
            expect.name_lost_digits(x.to(third).double(), x, x)
    expect.name_lost_digits(x, x, x)
    expect.name_lost_digits(x.float(), x, x)  # a wrong dtype is another mistake
