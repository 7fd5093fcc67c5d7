"""The seal puts back what a submission exchanged of what judges it, and touches nothing else."""

import io
import json
import subprocess
import sys
import types

import pytest
import torch

from devlab.checks import calls, exercise, expect, known, pretend, result, scenes
from devlab.checks.expect import Mismatch
from devlab.checks.trial import Trial
from devlab.classroom.engine import worker
from devlab.classroom.engine.seal import KEPT, Names, Seal
from devlab.learner import progress
from devlab.shell import Shell


@pytest.fixture(params=[True, False], ids=["by version numbers", "one by one"])
def seal(request, monkeypatch):
    """Return a seal over lesson 05, as Python to 3.12 and as later ones or others need it."""
    monkeypatch.setattr("devlab.classroom.engine.seal.KEPT", KEPT and request.param)
    return Seal(one for one in exercise.exercises() if one.lesson == "05_buffers")


def always(*_, **__):
    """Stand for anything."""
    return True


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (expect, "equal"),
        (expect, "ROUNDING"),
        (scenes, "remember"),
        (known, "read"),
        (calls, "Snapshot"),
        (calls.Snapshot, "require_untouched"),
        (result.Outcome, "FAILED"),
        (torch, "isclose"),
        (torch.Tensor, "__repr__"),
        (torch.nn, "Linear"),
        (json, "dumps"),
        (io, "StringIO"),
    ],
)
def test_another_value_for_a_name(seal, place, name):
    """Whatever a name of the checks, of PyTorch or of Python stood for must stay."""
    before = vars(place)[name]
    type.__setattr__(place, name, always) if isinstance(place, type) else setattr(place, name, always)
    (found,) = seal.put_back_after_call()
    assert found.endswith(name)
    assert vars(place)[name] is before
    assert seal.put_back() == []


@pytest.mark.parametrize(
    ("place", "name"),
    [(expect, "isinstance"), (torch.Tensor, "all"), (torch.Tensor, "device"), (torch.nn.Parameter, "cpu")],
)
def test_a_new_name_before_the_one_that_is_meant(seal, place, name):
    """A builtin shadowed in a module, a method that a tensor inherits: both go after the call."""
    setattr(place, name, always)
    (found,) = seal.put_back_after_call()
    assert found.endswith(f".{name}")
    assert name not in vars(place)


def test_a_name_that_makes_room_for_a_new_one(seal, monkeypatch):
    """As many names as before are not the same names."""
    monkeypatch.delattr(expect, "__doc__")
    expect.isinstance = always
    assert seal.put_back_after_call() == ["devlab.checks.expect.isinstance"]


def test_a_wider_tolerance(seal):
    """Tables of constants are put back entry by entry."""
    before = expect.ROUNDING[torch.float32]
    expect.ROUNDING[torch.float32] = (1e9, 1e9)
    assert seal.put_back_after_call() == ["devlab.checks.expect.ROUNDING.torch.float32"]
    assert expect.ROUNDING[torch.float32] is before


def test_a_patch_that_comes_with_every_call(seal):
    """Each is put back, also where the interpreter's version numbers told of the first."""
    before = torch.equal
    for _ in range(3):
        torch.equal = always
        assert seal.put_back_after_call() == ["torch.equal"]
        assert torch.equal is before


def test_what_follows_each_call_is_put_back(seal):
    """A trace or a profile that the code left on would slow what judges it."""
    sys.setprofile(always)
    seal.put_back_after_call()
    assert sys.getprofile() is None


REWRITES = """
import torch
from devlab.checks import expect
from devlab.checks.exercise import exercises
from devlab.classroom.engine.seal import Seal, refuse_rewriting
refuse_rewriting(Seal(exercises()[:2]).functions)
code = (lambda *_, **__: True).__code__
for one in (expect.equal, torch.nn.functional.relu, torch.nn.Module.to):
    changes = [("__code__", code), ("__defaults__", (1,)), ("__kwdefaults__", {"x": 1})]
    for part, value in [*changes, ("__defaults__", None), ("__kwdefaults__", None)]:
        try:
            setattr(one, part, value)
            print(one, part, value)
        except RuntimeError:
            pass
        try:
            delattr(one, part)
            print(one, part, "deleted")
        except (RuntimeError, TypeError):
            pass
"""


def test_no_sealed_function_gets_other_code():
    """Code is not compared after every call: what is sealed cannot be rewritten, PyTorch's own included."""
    done = subprocess.run([sys.executable, "-c", REWRITES], capture_output=True, text=True, check=True)
    assert done.stdout == ""


def test_what_is_compared_less_often_is_put_back(seal):
    """Before each exercise."""
    before, progress.heading_of = progress.heading_of, always
    assert seal.put_back_after_call() == []
    assert seal.put_back() == ["devlab.learner.progress.heading_of"]
    assert progress.heading_of is before


def test_a_cell_of_the_teachers_may_change_anything(seal):
    """The record is taken anew, and holds from there on; a class that a student made stays a student's."""
    shell = Shell()
    notebook = shell.notebook

    class Late:
        pass

    notebook.Late = Late
    before = torch.zeros
    cell = "import torch\nones = torch.zeros = torch.ones\nclass Made: pass"
    worker._run_teachers_cell(cell, "<cell 1>", shell, seal)
    assert seal.put_back() == []
    assert torch.zeros is torch.ones
    assert notebook.Made in seal.known
    assert Late not in seal.known
    torch.zeros = before
    assert seal.put_back() == ["torch.zeros"]
    torch.zeros = before


def test_fewer_rows_and_rows_that_were_exchanged(seal, monkeypatch):
    """Each exercise gets back the rows it had."""
    first, second = seal.exercises[:2]
    rows = first.rows, second.rows
    monkeypatch.setattr(first, "rows", rows[1])
    monkeypatch.setattr(second, "rows", list(rows[0][1:]))
    seal.put_back()
    assert (first.rows, second.rows) == rows


class Yes:
    """Equals anything."""

    __eq__ = always


@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: [1, (one,)], lambda one: {"a": one}])
def test_a_result_that_decides_what_it_equals(seal, wrap):
    """It is wrong, wherever it stands, and no forgery; what a library makes is fine."""
    seal.known.discard(Yes)
    with pytest.raises(Mismatch, match="of Yes, a class that decides for itself what it equals"):
        seal.require_plain(wrap(Yes()))
    seal.require_plain(wrap(torch.ones(1)))


@pytest.mark.parametrize("name", ["judge", "only", "label"])
def test_a_row_cannot_be_changed(seal, name):
    """Not even as a frozen dataclass can: another judge in the same row would go unseen."""
    row = seal.exercises[0].rows[0]
    with pytest.raises(AttributeError):
        object.__setattr__(row, name, len)
    with pytest.raises(TypeError):
        seal.exercises[0].rows[0] = row


def test_no_constant_of_what_judges_can_be_emptied(seal):
    """A set or a list stays the same object when it is; of dicts the seal knows what they hold."""
    places = {place: owner for names in (seal.near, seal.rest) for place, owner, *_ in names.places}
    names = [
        f"{place}.{key}"
        for place, owner in places.items()
        if place.startswith("devlab.") and not isinstance(owner, dict)
        for key, value in vars(owner).items()
        if key.isupper() and isinstance(value, list | set | bytearray)
    ]
    assert names == []


def test_a_pretended_machine_keeps_its_answers(seal):
    """What the rows themselves exchange is theirs to put back."""
    with pretend.machine(Trial(always, "f()", torch.device("cpu")), ["NVIDIA T4"]):
        assert seal.put_back_after_call() == []
        assert torch.cuda.is_available()
    assert seal.put_back() == []


def test_a_function_that_replaces_nothing(seal, monkeypatch):
    """Learners may add what is theirs: to a module of PyTorch, to its classes, to builtins."""
    monkeypatch.setattr(torch.nn.Module, "where", always, raising=False)
    monkeypatch.setattr(torch.nn, "Mine", types.SimpleNamespace, raising=False)
    assert seal.put_back() == []


@pytest.mark.skipif(not KEPT, reason="this Python keeps no versions of its dicts (3.13 and later)")
def test_version_numbers_tell_every_change():
    """However a name is set, also by code that Python has made quicker after some rounds."""
    module, owner = types.ModuleType("module"), type("Owner", (), {"name": always})
    module.name = always
    known = Names([("module", module, {"name": always}), ("owner", owner, {"name": always})])

    def by_attribute(value):
        module.name = value

    exec("def by_global(value):\n    global name\n    name = value", vars(module))
    ways = [by_attribute, module.by_global, lambda value: setattr(owner, "name", value)]
    ways += [
        lambda value: vars(module).update(name=value),
        lambda value: vars(module).__setitem__("name", value),
    ]
    for way in ways:
        for _ in range(100):
            assert known.find_exchanged() == []
            way(object())
            assert len(known.find_exchanged()) == 1
            way(always)
    del module.name
    assert len(known.find_exchanged()) == 1
