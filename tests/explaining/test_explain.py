"""What explain does beside naming culprits: it never fails, never hides, and says when it does not know."""

import functools
import os
import re
import subprocess
import sys

import numpy
import pytest
import torch

import devlab
from devlab.explaining import explained, known_of
from devlab.explaining import report as kinds
from devlab.explaining.report import problem_of, worth_explaining
from devlab.panel import escape


def caught(run) -> BaseException:
    """Return the error that a function raises."""
    try:
        run()
    except BaseException as error:
        return error
    pytest.fail("nothing was raised")


def mixed():
    """Add what is on two devices."""
    x = torch.ones(3, device="sim:0")
    weight = torch.ones(3)
    return x * weight


def test_the_panel_says_all_that_matters():
    """Operation, tensors, shapes, dtypes, devices, culprit, origin, change, place; HTML says the same."""
    report = explained(caught(mixed))
    first = mixed.__code__.co_firstlineno
    for part in ("x * weight", "f32[3]", "sim:0", "cpu", f"line {first + 3}", "made in mixed"):
        assert part in report.text()
        assert part in report.html()
    assert report.known
    assert report.mend == "weight = torch.ones(3, device=x.device)", report.text()
    assert report.changes[0].where == f"test_explain.py, line {first + 3}"
    assert "<code>weight</code>" in report.html()
    assert not re.search(r"<style|class=|<script", report.html())


def test_the_culprit_has_a_sign_not_a_colour():
    """One row of the table is marked, as text and as HTML."""
    report = explained(caught(mixed))
    assert report.text().count("→") == 1
    assert report.html().count("→") == 1


def test_an_error_about_something_else_is_left_alone():
    """It says that it is no matter of devices, and what it does read."""
    report = explained(caught(lambda: {}["missing"]))
    assert not report.known
    assert "not about devices" in report.headline
    assert not worth_explaining(KeyError("missing"))


def test_without_an_error_it_says_so(capsys, monkeypatch):
    """Nothing has failed yet."""
    monkeypatch.delattr(sys, "last_value", raising=False)
    monkeypatch.delattr(sys, "last_exc", raising=False)
    assert "no error" in devlab.explain().text()
    assert "no error" in capsys.readouterr().out


def test_the_error_being_handled_is_explained(capsys):
    """Inside `except`, no argument is needed."""
    try:
        mixed()
    except RuntimeError:
        assert devlab.explain().culprit == "weight"


def test_the_last_error_of_the_interpreter_is_explained(monkeypatch, capsys):
    """At the prompt, no argument is needed either."""
    monkeypatch.setattr(sys, "last_value", caught(mixed), raising=False)
    assert devlab.explain().culprit == "weight"


def test_an_error_that_another_one_wraps_is_found():
    """Frameworks raise their own error from PyTorch's."""

    def train():
        try:
            mixed()
        except RuntimeError as error:
            raise ValueError("training failed in step 3") from error

    assert explained(caught(train)).culprit == "weight"


def test_a_reading_that_fails_says_so_and_raises_nothing(monkeypatch):
    """An instrument that fails would hide the learner's own error."""

    def broken(*_):
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("devlab.explaining.read", broken)
    report = explained(caught(mixed))
    assert not report.known
    assert "I do not know" in report.headline
    assert "Expected all tensors to be on the same device" in report.text()


def test_the_error_itself_is_untouched():
    """Its message, its traceback and its notes are what they were."""
    error = caught(mixed)
    before = (str(error), error.__traceback__, error.args, getattr(error, "__notes__", None))
    explained(error)
    assert (str(error), error.__traceback__, error.args, getattr(error, "__notes__", None)) == before


class Tripwire:
    """An object that goes off when anyone runs its code."""

    @property
    def table(self):
        raise SystemExit("a property was run")

    def __getitem__(self, key):
        raise SystemExit("an element was computed")

    def __getattr__(self, name):
        raise SystemExit("an attribute was computed")

    def __repr__(self):
        raise SystemExit("it was printed")

    def __eq__(self, other):
        raise SystemExit("it was compared")

    __hash__ = None


def test_nobodys_code_is_run():
    """Reading a frame runs no property, no `__getitem__`, no `__repr__` of the learner's."""

    def meet(wire, x, y):
        return [x * y, wire.table, wire[0]]

    assert explained(caught(lambda: meet(Tripwire(), torch.ones(2, device="sim:0"), torch.ones(2)))).known


def test_code_whose_source_cannot_be_read_is_said_to_be_so():
    """Compiled text leaves no lines behind, and nothing is guessed."""
    names = {"torch": torch}
    text = "def go(x):\n    mask = torch.ones(2)\n    return x * mask\n\ngo(torch.ones(2, device='sim:0'))"
    report = explained(caught(lambda: exec(compile(text, "<nowhere>", "exec"), names)))
    assert (report.culprit, report.mend) == ("", "")
    assert "the source of the code that failed cannot be read here" in report.text()


def test_an_error_in_backward_without_frames_is_not_guessed_at():
    """Where nothing is to be seen it says so, and how to see more."""

    def backward():
        loss = torch.ones(1, requires_grad=True).sum()
        loss.register_hook(fail)
        loss.backward()

    def fail(_):
        raise RuntimeError("Expected all tensors to be on the same device, but found at least two devices")

    report = explained(caught(backward))
    assert not report.known
    assert "I do not know which tensor" in report.headline


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (
            "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
            "(when checking argument for argument mat1 in method wrapper_CUDA_addmm)",
            kinds.MISMATCH,
        ),
        (
            "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
            kinds.MISMATCH,
        ),
        ("Input type (float) and bias type (c10::Half) should be the same", kinds.DTYPE),
        ("Placeholder storage has not been allocated on MPS device!", kinds.MISMATCH),
        ("Tensor for argument weight is on cpu but expected on mps", kinds.MISMATCH),
        ("Tensor for argument #2 'mat1' is on CPU, but expected it to be on GPU", kinds.MISMATCH),
        (
            "attempting to assign a gradient with device type 'cpu' to a tensor with device type 'cuda'.",
            kinds.MISMATCH,
        ),
        (
            "indices should be either on cpu or on the same device as the indexed tensor (cpu)",
            kinds.INDEX,
        ),
        ("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first", kinds.NUMPY),
        (
            "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor",
            kinds.HOST_ONLY,
        ),
        ("Expected a 'cuda' device type for generator but found 'cpu'", kinds.GENERATOR),
        ("CUDA error: invalid device ordinal", kinds.NO_DEVICE),
        ("Torch not compiled with CUDA enabled", kinds.NO_DEVICE),
        ("Attempting to deserialize object on a CUDA device but it is not available", kinds.LOAD),
        ("mat1 and mat2 must have the same dtype, but got Float and Double", kinds.DTYPE),
        ("expected scalar type Long but found Float", kinds.DTYPE),
        (
            "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64.",
            kinds.NO_DTYPE,
        ),
        ("\"addmm_impl_cpu_\" not implemented for 'Half'", kinds.NO_DTYPE),
        (
            "The operator 'aten::_linalg_svd.U' is not currently implemented for the MPS device.",
            kinds.NO_OPERATOR,
        ),
        ("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned", kinds.PINNED),
        ("Cannot re-initialize CUDA in forked subprocess.", kinds.FORK),
        ("The size of tensor a (3) must match the size of tensor b (4)", ""),
        ("CUDA out of memory. Tried to allocate 2.00 GiB.", kinds.FULL),
    ],
)
def test_messages_are_told_apart(message, kind):
    """PyTorch's own wordings, on every kind of device."""
    assert problem_of(RuntimeError(message)).kind == kind


def test_a_full_memory_can_be_used_again_after_its_explanation(empty_memory):
    """What the error held is free when its `except` block is left, in the very function that asked."""
    half = 128 * 2**20
    kept = [torch.ones(half, device="sim:0")]
    try:
        for _ in range(3):
            kept.append(torch.ones(half, device="sim:0"))
    except torch.OutOfMemoryError as error:
        report = explained(error)
    assert report.culprit == "kept"
    kept.clear()
    again = [torch.ones(half, device="sim:0")]

    def more():
        inner = [torch.ones(half // 2, device="sim:0")]
        inner.append(torch.ones(half, device="sim:0"))

    try:
        more()
    except torch.OutOfMemoryError as error:
        report = explained(error)
    assert report.known
    again.append(torch.ones(half - 2**20, device="sim:0"))


CELLS = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in (
    "import devlab, torch; device = devlab.start(); device = devlab.start()",
    "table = torch.arange(3.0)",
    "%time other = 3",
    "torch.ones(3, device=device) + table",
    "{}['missing']",
):
    shell.run_cell(cell, store_history=True)
"""


def test_in_a_notebook_it_appears_under_the_error():
    """Once, after the traceback, and only under an error about devices; other cells are read, too."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CELLS], capture_output=True, text=True, check=False
    )
    shown = done.stdout
    assert shown.count("devlab explains") == 1, done.stdout + done.stderr
    assert shown.index("RuntimeError") < shown.index("devlab explains: table is on cpu")
    assert "table = torch.arange(3.0, device=device)" in shown
    assert "KeyError" in shown


def replaces():
    """Mend a line."""
    mask = torch.ones(4)
    return torch.ones(4, device="sim:0") * mask


def adds():
    """Mend by a line that is added."""
    model, x = torch.nn.Linear(4, 2), torch.ones(1, 4, device="sim:0")
    return model(x)


def test_the_change_is_shown_as_lines_that_go_and_lines_that_come():
    """In HTML; where a line is only added, nothing goes."""
    first, second = (explained(caught(program)) for program in (replaces, adds))
    assert [one.replaced for one in first.changes] == ["mask = torch.ones(4)"]
    assert "− mask = torch.ones(4)</code>" in first.html()
    assert f"+ {escape(first.mend)}</code>" in first.html()
    assert second.changes[0].before
    assert "−" not in second.html()
    assert f"+ {escape(second.mend)}</code>" in second.html()


RUNS = """
from IPython.core.interactiveshell import InteractiveShell
from ipykernel.compiler import XCachingCompiler
shell = InteractiveShell.instance(compiler_class=XCachingCompiler)
for cell in (
    "import devlab, torch; device = devlab.start(); table = torch.ones(3)",
    "def look(x):\\n    return x + table",
    "look(torch.ones(3, device=device))",
    "try:\\n    look(torch.ones(3, device=device))\\nexcept RuntimeError as error:\\n    kept = error",
    "table = table.to(device)",
    "def look(x):\\n    return x + table",
    "look(torch.ones(3, device=device))",
    "try:\\n    look(torch.ones(3, device=device))\\nexcept RuntimeError as error:\\n    kept = error",
):
    shell.run_cell(cell, store_history=True)
print("== later")
shell.run_cell("devlab.explain(kept)", store_history=True)
"""


def test_a_cell_is_named_by_the_run_that_raised():
    """The same text ran again since: In[2], not In[6], was in force when the error came."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUNS],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "DEVLAB_DEVICE": "sim", "HOME": "/nonexistent"},
    )
    at_once, _, later = done.stdout.partition("== later")
    assert "(Cell In[2], line 2, in look, run by Cell In[3])" in at_once, done.stdout + done.stderr
    assert "(Cell In[2], line 2, in look, run by Cell In[4])" in later, later + done.stderr
    assert "In[6]" not in later


class Normalized(torch.nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.register_buffer("spread", torch.as_tensor(rows.std(axis=0)))


def test_no_culprit_and_no_change_is_inside_pytorch():
    """PyTorch's `_apply` calls the buffer `t`: the learner knows its name, and changes no file there."""
    with devlab.sim.rules("mps"):
        report = explained(caught(lambda: Normalized(numpy.ones((2, 3))).to("sim")))
    assert report.culprit == "spread of Normalized"
    assert "module.py" not in report.text()
    assert not report.changes


def test_a_tensor_that_pytorch_passed_on_has_the_learners_name():
    """`cross_entropy` calls it `input`, the learner `model(x)`."""
    model, x, labels = (
        torch.nn.Linear(3, 2).to("sim:0"),
        torch.ones(1, 3, device="sim:0"),
        torch.zeros(1).long(),
    )
    report = explained(caught(lambda: torch.nn.CrossEntropyLoss()(model(x), labels)))
    assert [one.name for one in report.met] == ["model(x)", "labels"]


def test_a_generators_state_belongs_on_the_cpu_whatever_made_it():
    """A state made inline under a default device is known to be there, and nothing is said of lengths."""
    generator = torch.Generator("sim")
    words = generator.get_state().tolist()

    def put_back():
        generator.set_state(torch.tensor(words, dtype=torch.uint8))

    def run():
        with torch.device("sim"):
            put_back()

    report = explained(caught(run))
    assert report.culprit == "torch.tensor(words, dtype=torch.uint8)"
    assert "the state of a generator" in report.note


@functools.cache
def table(length, kind):
    """Return positions, made once for each kind of device."""
    return torch.linspace(0, 1, length, device=kind)


def test_a_remembered_tensor_is_the_culprit():
    """`sim` means one device at the first call; the devices' names are those of the message."""
    table.cache_clear()

    def add(x):
        return x + table(x.shape[-1], x.device.type)

    report = explained(caught(lambda: add(torch.zeros(4, device="sim:1"))))
    assert report.culprit == "table(x.shape[-1], x.device.type)"
    assert report.headline.endswith("is on sim:0, and the operation needs it on sim:1")
    assert "remembered by the cache of table" in report.origin


KEPT = {}


def test_a_line_that_ran_with_other_values_is_said_to_have():
    """A table in a module-wide dict: the line that made the table would now make it elsewhere."""

    def positions(x):
        if "positions" not in KEPT:
            KEPT["positions"] = torch.arange(4.0, device=x.device)
        return x + KEPT["positions"]

    KEPT.clear()
    positions(torch.zeros(4))
    report = explained(caught(lambda: positions(torch.zeros(4, device="sim"))))
    assert report.culprit == 'KEPT["positions"]'
    assert "in an earlier call, for now that would be on sim:0" in report.origin


class Net(torch.nn.Module):
    def __init__(self, device):
        super().__init__()
        self.table = torch.zeros(4, device=device)

    def forward(self, x):
        return x + self.table


def attach(model, rows):
    """Give a model another table."""
    model.table = torch.from_numpy(rows)


def test_an_attribute_that_another_function_replaced():
    """The line in `__init__` made another tensor, on another device."""
    model = Net("sim:0")
    attach(model, numpy.ones(4, dtype="float32"))
    report = known_of(caught(lambda: model(torch.ones(2, 4, device="sim:0"))))
    assert report.culprit == "self.table"
    assert "in attach" in report.origin


def test_a_buffer_that_no_checkpoint_holds_is_named():
    """The other tensors of the model have data: it is not the model that is on meta."""
    with torch.device("meta"):
        model = torch.nn.Linear(2, 2)
        model.register_buffer("rates", torch.ones(2), persistent=False)
    model.load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)}, assign=True)
    report = explained(caught(lambda: model.to("sim")))
    assert report.headline == "model.rates is on meta, and holds no data yet"
    assert "no checkpoint holds rates" in report.note
    assert not report.mend
