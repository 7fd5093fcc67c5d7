"""The step whose work fails on the device, though the error comes at a later line."""

import contextlib
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from devlab.checks import expect, verbs
from devlab.checks.calls import AnswerRaised
from devlab.checks.probes import Called
from devlab.checks.scenes import scene
from devlab.checks.seen import must
from devlab.lessons.lesson_10_debugging import lesson

failing_step = lesson.exercise(
    "failing_step(steps, x)",
    ("X1", "X4"),
    "A step that returns has only launched its work. At which line does the host learn whether the work "
    "went well, and how can you put such a line between any two steps?",
    "After each step call `torch.accelerator.synchronize(x.device)`, in the same `try` as the step. "
    "On the CPU there is nothing to wait for, and the step itself raises.",
    "`for place, step in enumerate(steps)`: in a `try` first `x = step(x)` and then the wait; `except "
    "(IndexError, RuntimeError): return place`. An error of earlier work must not be blamed on the first "
    "step, so wait once before the loop, outside of any `try`.",
)

READS = "item", "tolist", "cpu"
ASSERTED = "{}: device-side assert triggered. The error might be reported at some other call"


def wait(x):
    if x.device.type != "cpu":
        torch.accelerator.synchronize(x.device)


def ours(steps, x):
    wait(x)
    for place, step in enumerate(steps):
        try:
            x = step(x)
            wait(x)
        except (IndexError, RuntimeError):
            return place
    return None


class Late(TorchFunctionMode):
    """The late errors of a device, pretended: a real GPU would be lost for good, and the notebook with it.

    What fails is found where something waits, and from then on everything raises.
    """

    def __init__(self, device):
        super().__init__()
        self.device, self.failed, self.found = device, False, False

    def fail(self, x):
        """Launch work that fails; on the CPU the line itself raises."""
        if self.device.type == "cpu":
            raise IndexError("index 9 is out of bounds for dimension 0 with size 3")
        self.failed = True
        return x + 1

    def work(self, x):
        """Launch work that is sound; raise where it is known that work has failed."""
        if self.found:
            self.wait(self.device)
        return x * 2

    def read(self, x):
        """Do sound work that waits in the middle, as for an `.item()`."""
        self.wait(self.device)
        return x * 2

    def wait(self, where=None):
        """Wait for a device, the current one where none is named: raise if work has failed there."""
        where = torch.device(self.device.type if where is None else where)
        current = torch.accelerator.current_device_index() if where.index is None else where.index
        if self.failed and current == (self.device.index or 0):
            self.found = True
            raise torch.AcceleratorError(ASSERTED.format(self.device.type))

    @contextlib.contextmanager
    def pretended(self):
        """Have whatever waits for a device wait for this one, for a block."""
        with contextlib.ExitStack() as stack:
            if self.device.type != "cpu":
                for module in (torch.accelerator, torch.get_device_module(self.device)):
                    stack.enter_context(mock.patch.object(module, "synchronize", self.wait))
                stack.enter_context(self)
            yield

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """Wait where a tensor's method brings its numbers to the host."""
        if getattr(func, "__name__", "") in READS and args[0].device == self.device:
            self.wait(self.device)
        return func(*args, **kwargs or {})


def see_step(t, *names):
    """See which of the steps, methods of `Late` by name, the answer finds, and what it ran."""
    device = Late(t.device)
    steps = [Called(getattr(device, name), name) for name in names]
    x = t.randn(3, seed=t.seeds[0])
    with device.pretended():
        got = t.call(steps, x)
    expect.kind(got, (int, type(None)), "an int, or None", "the step")
    yield "the step", str(got), None, "the index of the step that launched the work which failed"
    yield "how often each step ran", " ".join(str(len(step.calls)) for step in steps)
    given = [step.calls[0][0] for step in steps if step.calls]
    yield "what the last step was given", given[-1]


@scene(failing_step, ours, "the step that launched what failed")
def the_step(t):
    for names in (
        ["work", "fail", "work", "work"],
        ["work", "work", "fail", "read", "work"],
        ["fail", "work", "read"],
        ["work", "read", "fail"],
    ):
        yield from see_step(t, *names)


@scene(failing_step, ours, "None where all went well")
def all_went_well(t):
    yield from see_step(t, "work", "read", "work")


@scene(failing_step, ours, "an error of earlier work comes out", only="accelerator")
def earlier_work(t):
    device, x = Late(t.device), t.randn(3)
    device.fail(x)
    with device.pretended(), contextlib.suppress(AnswerRaised):
        got = t.call([Called(device.work), Called(device.work)], x)
        yield must(False, "an error of earlier work was blamed on a step", "the error itself", got)


@scene(failing_step, ours, "on a device that is not the current one", only="accelerator")
def not_the_current_device(t):
    with verbs.current(t.second()):
        yield from see_step(t, "work", "fail", "work")
