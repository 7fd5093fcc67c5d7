"""Lesson 05: models and buffers, and helpers made from their input."""

import contextlib

import torch
from torch import nn

from devlab.checks import expect
from devlab.checks.calls import AnswerRaised
from devlab.checks.exercise import Lesson

lesson = Lesson(
    "05_buffers",
    "Models and buffers",
    (
        "CausalMask",
        "RunningMean",
        "SinusoidalPositions",
        "mask_like",
        "add_noise",
        "append_ones",
        "left_behind",
        "model_device",
    ),
)

FLOATS = (torch.float16, torch.bfloat16, torch.float64)


def floats_of(device: torch.device) -> list[torch.dtype]:
    """Return the floating dtypes other than float32 that the device can hold.

    >>> floats_of(torch.device("cpu"))
    [torch.float16, torch.bfloat16, torch.float64]
    """
    return [dtype for dtype in FLOATS if _holds(device, dtype)]


def _holds(device: torch.device, dtype: torch.dtype) -> bool:
    try:
        torch.zeros(1, dtype=dtype, device=device)
    except (TypeError, RuntimeError):  # Apple's GPUs have no float64
        return False
    return True


class Made:
    """A module that an answer's class made, driven as a learner would drive it."""

    def __init__(self, trial, *sizes: int):
        self.trial = trial
        self.name = f"{trial.name}({', '.join(map(str, sizes))})"
        self.module = trial.call(*sizes)
        expect.module(self.module, trial.name, f"what {self.name} makes")

    def __call__(self, x: torch.Tensor) -> object:
        """Run the module's forward on x."""
        return self.trial.run(self.module, x, label=self.name)

    def to(self, device: torch.device) -> "Made":
        """Move the module as a part of a model, the way it moves in real life."""
        self.trial.run(nn.Sequential(self.module).to, device, label=f"nn.Sequential({self.name}).to")
        return self

    def buffer(self, name: str) -> torch.Tensor:
        """Return the registered buffer of that name; raise Mismatch that says what it is instead."""
        found = dict(self.module.named_buffers(recurse=False, remove_duplicate=False)).get(name)
        wanted = f'a buffer named "{name}"'
        if found is None:
            self._explain_missing(name, wanted)
        if found.requires_grad:
            expect.fail(f"the buffer `{name}` asks for a gradient", "requires_grad=False", found)
        return found

    def _explain_missing(self, name: str, wanted: str) -> None:
        value = getattr(self.module, name, None)
        if isinstance(value, nn.Parameter):
            expect.fail(f"`{name}` is a parameter: an optimizer would train it", wanted, value)
        if isinstance(value, torch.Tensor):
            expect.fail(f"`{name}` is a plain attribute: `.to` leaves it behind", wanted, value)
        if value is not None:
            expect.fail(f"`{name}` is {expect.a_type(value)}, not a buffer", wanted, value)
        others = [other for other, _ in self.module.named_buffers()]
        got = f"its buffers: {', '.join(others)}" if others else "no buffer at all"
        expect.fail(f"there is no buffer named `{name}` after __init__", wanted, got)

    def require_only_buffers(self) -> None:
        """Expect a module as it comes from its class: no parameters, and not yet moved anywhere."""
        for name, parameter in self.module.named_parameters():
            expect.fail(f"`{name}` is a parameter: an optimizer would train it", "no parameter", parameter)
        for name, buffer in self.module.named_buffers():
            if buffer.device.type != "cpu":
                words = f"`{name}` is made on {buffer.device}, wherever the model will be"
                expect.fail(words, "a new module on cpu, until `.to` moves it", buffer)

    def require_on(self, device: torch.device, *names: str) -> None:
        """Expect the named buffers on the device."""
        for name in names:
            expect.device(self.buffer(name), device, f"after `.to({str(device)!r})` the buffer `{name}`")

    def require_saved(self, *names: str) -> None:
        """Expect the named buffers in the state_dict."""
        saved = list(self.module.state_dict())
        for name in names:
            if name not in saved:
                expect.fail(
                    f"`{name}` is not saved: the state_dict lacks it", f'"{name}" among the keys', saved
                )

    def require_stays(self, name: str, x: torch.Tensor) -> None:
        """Expect a forward that moves nothing of the module, whatever x it is given from elsewhere."""
        before = self.buffer(name).device
        with contextlib.suppress(AnswerRaised):  # an error is the right answer to an x that is elsewhere
            self(x)
        if (now := self.buffer(name).device) != before:
            headline = f"forward moved `{name}` to {now}, where x was: a module is moved by `.to` alone"
            expect.fail(headline, f"`{name}` on {before}", f"`{name}` on {now}")

    def require_read(self, name: str, x: torch.Tensor, what: str) -> None:
        """Expect a forward that reads the buffer: with nothing in it the result must be another."""
        before = self(x)
        expect.kind(before, torch.Tensor, "a tensor", what)
        before = before.detach().clone()
        if not self.buffer(name).any():
            expect.fail(f"the buffer `{name}` holds only zeros", "what forward is to answer from", "zeros")
        setattr(self.module, name, torch.zeros_like(self.buffer(name)))
        after = self(x)
        if isinstance(after, torch.Tensor) and torch.equal(before.cpu(), after.detach().cpu()):
            expect.fail(
                f"forward answers from another tensor than the buffer `{name}`",
                f"another result once `{name}` is filled with zeros",
                "the same result as before",
            )


def another(trial) -> torch.device:
    """Return a device to come from or to pass through: another one, or the same where there is but one."""
    return trial.others[-1] if trial.others else trial.device


def holding(**attributes: object) -> nn.Module:
    """Return a bare module with the attributes, set as `self.name = value` sets them."""
    module = nn.Module()
    for name, value in attributes.items():
        setattr(module, name, value)
    return module


def norm() -> nn.Module:
    """Return a module with one parameter and two kinds of buffers, on the CPU."""
    module = holding(weight=nn.Parameter(torch.ones(3)))
    module.register_buffer("mean", torch.zeros(3))
    module.register_buffer("steps", torch.arange(4), persistent=False)
    return module
