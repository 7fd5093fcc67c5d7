"""The seal sees what a submission does to the code that judges it, and nothing where all is as it was."""

import importlib
import io
import json
import subprocess
import sys
import types

import pytest
import torch

from devlab.checks import calls, exercise, expect, known, pretend, result, scenes
from devlab.checks.trial import Trial
from devlab.classroom.engine import worker
from devlab.classroom.engine.seal import APART, KEPT, OFFSET, Seal, Versions, _places
from devlab.learner import progress


@pytest.fixture(scope="module", params=[True, False], ids=["read in place", "asked one by one"])
def seal(request):
    """Return a seal over lesson 05, as Python to 3.12 and as later ones or others need it."""
    seal = Seal([one for one in exercise.exercises() if one.lesson == "05_buffers"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("devlab.classroom.engine.seal.KEPT", KEPT and request.param)
        patch.setattr("devlab.classroom.engine.seal.OFFSET", OFFSET if request.param else None)
        seal.note()
        yield seal


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
    try:
        type.__setattr__(place, name, always) if isinstance(place, type) else setattr(place, name, always)
        assert seal.broken().endswith(name)
    finally:
        type.__setattr__(place, name, before) if isinstance(place, type) else setattr(place, name, before)
    assert seal.broken() == seal.patched() == ""


@pytest.mark.parametrize(
    ("place", "name"),
    [(expect, "isinstance"), (torch.Tensor, "all"), (torch.Tensor, "device"), (torch.nn.Parameter, "cpu")],
)
def test_a_new_name_before_the_one_that_is_meant(seal, monkeypatch, place, name):
    """A builtin shadowed in a module, a method that a tensor inherits: both are seen after the call."""
    monkeypatch.setattr(place, name, always, raising=False)
    assert seal.patched().endswith(f".{name}")


def test_a_name_that_makes_room_for_a_new_one(seal, monkeypatch):
    """As many names as before are not the same names."""
    monkeypatch.delattr(expect, "__doc__")
    monkeypatch.setattr(expect, "isinstance", always, raising=False)
    assert seal.patched().startswith("devlab.checks.expect.")


def test_a_wider_tolerance(seal, monkeypatch):
    """Tables of constants are sealed entry by entry."""
    monkeypatch.setitem(expect.ROUNDING, torch.float32, (1e9, 1e9))
    assert seal.patched() == "devlab.checks.expect.ROUNDING.torch.float32"


def test_code_and_defaults_rewritten_in_place(seal, monkeypatch):
    """The function is the same, and does something else."""
    monkeypatch.setattr(expect.tensor, "__defaults__", ("the result", 1e9))
    assert seal.broken() == "devlab.checks.expect.tensor"
    monkeypatch.undo()
    before = expect.equal.__code__
    try:
        expect.equal.__code__ = always.__code__
        assert seal.broken() == "devlab.checks.expect.equal"
    finally:
        expect.equal.__code__ = before


REWRITES = """
import torch
from devlab.checks import expect
from devlab.checks.exercise import exercises
from devlab.classroom.engine.seal import Seal, refuse_spying
seal = Seal(exercises()[:2])
seal.note()
refuse_spying(seal)
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


def test_what_is_compared_less_often_runs_in_no_row():
    """Neither the lessons nor what judges them use a module that is left out after each call."""
    exercise.exercises()
    apart = {f"devlab.checks.{name}" for name in APART}
    judging = [
        module
        for name, module in sys.modules.items()
        if name.startswith(("devlab.checks.", "devlab.lessons.")) and name not in apart
    ]
    assert len(judging) > 40
    for module in judging:
        for value in vars(module).values():
            named = (
                value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", "")
            )
            assert named not in apart, f"{module.__name__} uses {named}"


def test_what_is_compared_less_often_is_compared(seal, monkeypatch):
    """Before and after each exercise."""
    monkeypatch.setattr(progress, "heading_of", always)
    assert seal.patched() == ""
    assert seal.broken() == "devlab.learner.progress.heading_of"


def test_a_cell_of_the_teachers_may_change_anything(monkeypatch):
    """The record is taken anew, and holds from there on."""
    seal = Seal(())
    seal.note()
    monkeypatch.setattr(torch, "zeros", always)
    assert seal.broken() == "torch.zeros"
    seal.renew(())
    assert seal.broken() == ""
    monkeypatch.undo()
    assert seal.broken() == "torch.zeros"

    class Late:
        pass

    seal.renew(())
    assert Late not in seal.known, "it may be a student's"
    seal.renew([Late])
    assert Late in seal.known


@pytest.mark.parametrize(("name", "anew"), [("of_the_walls", False), ("devlab.checks.late", True)])
def test_a_module_that_came_is_ours_from_the_next_renewal_on(seal, monkeypatch, name, anew):
    """The record is taken anew for what verdicts rest on alone: building the walls imports modules, too."""
    seal.renew(())  # other tests import what they need
    came = types.ModuleType(name)
    came.judged = lambda: None
    monkeypatch.setitem(sys.modules, name, came)
    assert seal.came() == {name: came}
    before = seal.all
    seal.renew(())
    assert seal.came() == {}
    assert (seal.all is not before) == anew
    monkeypatch.setattr(came, "judged", len)
    assert seal.broken() == (f"{name}.judged" if anew else "")


def test_fewer_rows(seal, monkeypatch):
    """An exercise keeps the rows it had."""
    one = seal.exercises[0]
    monkeypatch.setattr(one, "rows", one.rows[1:])
    assert seal.patched() == f"the rows of {one.name}"


def test_rows_that_were_exchanged(seal, monkeypatch):
    """As many rows stand in all, and each is one of the course's."""
    first, second = seal.exercises[:2]
    rows = first.rows, second.rows
    monkeypatch.setattr(first, "rows", rows[1])
    monkeypatch.setattr(second, "rows", rows[0])
    assert seal.patched() == f"the rows of {first.name}"


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
    places = _places(seal.sealed)
    names = [
        f"{place}.{key}"
        for place, owner in places.items()
        for key, value in vars(owner).items()
        if key.isupper() and isinstance(value, list | set | bytearray)
    ]
    assert names == []


def test_other_rows_that_equal_them(seal, monkeypatch):
    """What stands in for the rows could show others to whoever looks next."""
    monkeypatch.setattr(seal.exercises[0], "rows", list(seal.exercises[0].rows))
    assert seal.patched() == f"the rows of {seal.exercises[0].name}"


def test_modules_that_students_imported_are_not_the_teachers(seal, monkeypatch, tmp_path):
    """Only what came while a cell of the teacher's ran may decide for itself what it equals."""
    for name in ("students_own", "teachers_own"):
        (tmp_path / f"{name}.py").write_text("class Equal:\n    pass\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    notebook = types.ModuleType("__main__")
    try:
        students = importlib.import_module("students_own").Equal
        before = worker._names(notebook, seal)
        notebook.given = importlib.import_module("teachers_own")
        made = worker._new(notebook, before, seal)
        assert sys.modules["teachers_own"].Equal in made
        assert students not in made
    finally:
        for name in ("students_own", "teachers_own"):
            sys.modules.pop(name, None)


def test_a_pretended_machine_breaks_nothing(seal):
    """What the rows themselves exchange, they put back."""
    with pretend.machine(Trial(always, "f()", torch.device("cpu")), ["NVIDIA T4"]):
        pass
    assert seal.broken() == ""


def test_a_function_that_replaces_nothing(seal, monkeypatch):
    """Learners may add what is theirs: to a module of PyTorch, to its classes, to builtins."""
    monkeypatch.setattr(torch.nn.Module, "where", always, raising=False)
    monkeypatch.setattr(torch.nn, "Mine", types.SimpleNamespace, raising=False)
    assert seal.broken() == ""


@pytest.mark.skipif(not KEPT, reason="this Python keeps no versions of its dicts (3.13 and later)")
def test_versions_tell_every_change(monkeypatch):
    """However a name is set, also by code that Python has made quicker after some rounds."""
    monkeypatch.setattr("devlab.classroom.engine.seal.KEPT", True)
    module, owner = types.ModuleType("module"), type("Owner", (), {"name": 0})
    known = Versions([vars(module), vars(owner)])

    def by_attribute(value):
        module.name = value

    exec("def by_global(value):\n    global name\n    name = value", vars(module))
    ways = [by_attribute, module.by_global, lambda value: setattr(owner, "name", value)]
    ways += [
        lambda value: vars(module).update(name=value),
        lambda value: vars(module).__setitem__("name", value),
    ]
    for way in ways:
        for value in range(100):
            way(object())
            before = known.now()
            assert known.same(before)
            assert module.name is not owner.name
            assert known.same(before)
            way(value)
            assert not known.same(before)
    before = known.now()
    del module.name
    assert not known.same(before)
