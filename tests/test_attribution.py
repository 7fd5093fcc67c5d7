"""A warning of PyTorch names the line that called, whichever function of devlab stands in between."""

import inspect
import warnings

import numpy
import pytest
import torch
from torch import nn

import devlab.sim

devlab.sim.enable()


@pytest.fixture(autouse=True)
def warned_each_time():
    """Let PyTorch give each warning every time, and not once in a process."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)


def locked():
    """Return an array that cannot be written."""
    array = numpy.ones(2)
    array.flags.writeable = False
    return array


CALLS = {
    "To copy construct": lambda x: torch.tensor(x),
    "To copy construct from a tensor": lambda x: x.new_tensor(x),
    "Creating a tensor from a list": lambda x: torch.tensor([numpy.ones(2)], device=x.device),
    "The given NumPy array": lambda x: torch.as_tensor(locked(), device=x.device),
    "The use of `x.T`": lambda x: x.expand(1, 2, 3).T,
    "ComplexHalf support": lambda x: torch.zeros(2, dtype=torch.complex32, device=x.device),
    "ComplexHalf support is": lambda x: torch.randn(2, dtype=torch.complex32, device=x.device),
    "ComplexHalf support is experimental": lambda x: x.to(torch.complex32),
    "Casting complex values": lambda x: (x + 1j).to(torch.float32),
    "Casting complex values to real": lambda x: x.copy_(x + 1j),
    "An output with one": lambda x: torch.add(x, x, out=torch.ones(5, device=x.device)),
    "An output with one or more": lambda x: torch.mm(x, x.T, out=torch.ones(5, device=x.device)),
    "The number of elements": lambda x: torch.arange(3, out=torch.ones(2, 2, device=x.device)),
    "std\\(\\)": lambda x: x[0, 0].std(),
    "torch.range is deprecated": lambda x: torch.range(0, 3, device=x.device),
    "The .grad attribute": lambda x: (x.clone().requires_grad_() * 2).grad,
    "Using a target size": lambda x: nn.functional.mse_loss(x, x[0]),
    "indexing with dtype": lambda x: x[torch.ones(2, 3, dtype=torch.uint8, device=x.device)],
}


@pytest.mark.parametrize("place", ["cpu", "sim:1"])
@pytest.mark.parametrize("said", CALLS)
def test_a_warning_names_the_line_that_called(said, place):
    """The CPU's tensors pass the same replaced functions."""
    x, call = torch.ones(2, 3, device=place), CALLS[said]
    with pytest.warns(UserWarning, match=said) as caught:
        call(x)
    code = call.__code__
    assert {(one.filename, one.lineno) for one in caught} == {(__file__, code.co_firstlineno)}


def warn(x):
    """Warn from two lines."""
    torch.tensor(x)
    torch.tensor(x)


@pytest.mark.parametrize("place", ["cpu", "sim:0"])
@pytest.mark.parametrize(("action", "lines"), [("default", [1, 2]), ("always", [1, 2, 1, 2]), ("once", [1])])
def test_pythons_filters_are_asked_about_that_line(action, lines, place):
    """A line warns once, or each time, as the program's filters say."""
    x, first = torch.ones(2, device=place), inspect.getsourcelines(warn)[1] + 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        warn(x)
        warn(x)
    assert [one.lineno - first for one in caught] == lines


def test_a_filter_may_name_the_module():
    """It means the module that called."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", module=__name__)
        warn(torch.ones(2))
        warnings.filterwarnings("error", module=__name__)
        with pytest.raises(UserWarning, match="To copy construct"):
            warn(torch.ones(2))
    assert not caught
