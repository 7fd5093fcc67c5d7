"""The memory of births: cheap, weak, complete for the factories, and gone when it is told to go."""

import gc
import weakref

import pytest
import torch

from devlab.checks.trial import Trial
from devlab.explaining import births, explained


@pytest.fixture
def remembering():
    """Births away from sim:0 are remembered during the test, and forgotten after it."""
    births.remember("sim:0")
    yield
    births.forget()


def line_of(function) -> int:
    """Return the line on which a function begins."""
    return function.__code__.co_firstlineno


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(3),
        lambda: torch.tensor([1.0, 2.0]),
        lambda: torch.arange(4),
        lambda: torch.randn(2, 2),
        lambda: torch.ones_like(torch.empty(2)),
        lambda: torch.full((2,), 1.0, device="sim:1"),
    ],
)
def test_a_tensor_made_elsewhere_has_a_birth(remembering, make):
    """File and line of the learner's code, for each factory, and on another accelerator too."""
    assert births.birth_of(make()) == f"test_births.py, line {line_of(make)}"


def test_a_tensor_on_the_home_device_has_none(remembering):
    """Only what may be in the wrong place is remembered."""
    assert births.birth_of(torch.zeros(3, device="sim:0")) is None


def test_what_a_row_makes_is_nobodys_and_what_an_answer_makes_is_its_own(remembering):
    """The line that asked for a verdict made none of the row's inputs; an answer's lines made its tensors."""
    trial = Trial(len, "f(x)", torch.device("cpu"))
    assert births.birth_of(trial.randn(2)) is None

    def answer():
        return torch.zeros(2)

    assert births.birth_of(trial.run(answer, label="f")) == f"test_births.py, line {line_of(answer) + 1}"


def test_no_tensor_is_kept_alive(remembering):
    """The memory holds weak references, and forgets each when its tensor dies."""
    tensor = torch.zeros(3)
    alive = weakref.ref(tensor)
    key = id(tensor)
    del tensor
    gc.collect()
    assert alive() is None
    assert key not in births._births


def test_pytorchs_own_functions_come_back():
    """Forgetting leaves PyTorch as it was."""
    before = {name: getattr(torch, name) for name in births.WATCHED}
    births.remember("sim:0")
    births.remember("sim:1")
    assert torch.zeros is not before["zeros"]
    births.forget()
    assert {name: getattr(torch, name) for name in births.WATCHED} == before


def test_where_nobody_reads_explanations_nothing_is_remembered(monkeypatch):
    """A process that grades refrains for good: to ask for the memory then changes nothing in PyTorch."""
    monkeypatch.setattr(births, "_refraining", [])
    births.remember("sim:0")
    births.refrain()
    before = {name: getattr(torch, name) for name in births.WATCHED}
    births.remember("sim:0")
    assert {name: getattr(torch, name) for name in births.WATCHED} == before
    assert not births.active()
    assert births.birth_of(torch.zeros(3)) is None


def test_the_default_device_still_holds(remembering):
    """PyTorch applies a default device to its factories, wrapped or not."""
    torch.set_default_device("sim:1")
    try:
        assert torch.zeros(2).device == torch.device("sim:1")
    finally:
        torch.set_default_device(None)


def test_compiled_functions_still_compile(remembering):
    """The graph breaks nowhere because of the memory."""

    def add(x):
        return x + torch.zeros(3)

    compiled = torch.compile(add, backend="eager", fullgraph=True)
    assert compiled(torch.ones(3)).tolist() == [1, 1, 1]


STORE = {}


def fill():
    """Put a table where no source tells what it holds."""
    exec("STORE['a' + 'b'] = make(3)", {"STORE": STORE, "make": lambda n: torch.ones(n)})


def test_a_birth_tells_what_the_source_does_not(remembering):
    """The frame is gone and the key is computed: the place is remembered all the same."""
    fill()
    try:
        torch.ones(3, device="sim:0") * STORE["ab"]
    except RuntimeError as error:
        report = explained(error)
    assert report.culprit == 'STORE["ab"]'
    assert f"made at test_births.py, line {line_of(fill) + 2}" in report.origin
