"""Probes: what rows give an answer to work with, which notes what the answer does with it."""

import contextlib
import gc
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.utils.data import DataLoader

from devlab.checks import expect
from devlab.checks.calls import AnswerRaised
from devlab.checks.values import times

if TYPE_CHECKING:
    from devlab.checks.trial import Trial


class Endless(BaseException):
    """Ends a loop of an answer that would not end by itself; no `except Exception` of an answer stops it."""


class Called:
    """A function for an answer to call: it notes the arguments of each call, and whether graphs are made.

    `name` is what verdicts call it. After `most` calls it raises Endless.

    >>> step = Called(lambda n: n + 1, "step")
    >>> step(2), step, step.calls, step.graphs
    (3, step, [(2,)], True)
    """

    def __init__(self, function: Callable, name: str = "", most: int | None = None):
        self.function = function
        self.name = name or function.__name__
        self.most = most
        self.calls: list[tuple] = []
        self.graphs = True

    def __call__(self, *args: object, **named: object) -> object:
        """Note the call and make it; an argument given by its name is noted behind the others."""
        self.calls.append((*args, *named.values()))
        if self.most is not None and len(self.calls) > self.most:
            raise Endless
        self.graphs = self.graphs and torch.is_grad_enabled()
        return self.function(*args, **named)

    def __repr__(self) -> str:
        return self.name

    def require_calls(self, count: int, name: str = "", graphs: bool = True) -> None:
        """Expect so many calls, with gradients: without them a function makes no graph, and takes less.

        `name` is what the answer's parameter calls the function, where that is another name; without `graphs`
        calls without gradients will do.
        """
        made, asked, name = len(self.calls), times(count, "call"), name or self.name
        expect.that(made, f"{name} was never called", f"{asked} of {name}", "no call")
        if made != count:
            said, found = times(count, "time"), times(made, "time")
            expect.fail(f"{name} was called {found}, not {said}", f"{asked} of {name}", times(made, "call"))
        if graphs and not self.graphs:
            headline = f"{name} was called without gradients: it makes no graph then, and takes less"
            expect.fail(headline, f"{name} as it is called elsewhere", "torch.no_grad() around it")


class CountingLoader:
    """A loader of given batches, or of another loader's, that counts what is taken of it.

    `taken` is how many batches were taken in the pass that began last, `passes` how many passes began; after
    `most` passes it raises Endless. Whatever else is asked of it, such as its dataset, the other loader has.
    Over a DataLoader it is an instance of DataLoader, too.

    >>> loader = CountingLoader([1, 2, 3])
    >>> next(iter(loader)), loader.taken, loader.passes, loader
    (1, 1, 1, a loader of 3 batches)
    """

    def __init__(self, batches: Iterable, most: int | None = None):
        self.batches = batches
        self.most = most
        self.taken = 0
        self.passes = 0

    def __len__(self) -> int:
        return len(self.batches)

    def __repr__(self) -> str:
        return f"a loader of {times(len(self), 'batch')}"

    def __getattr__(self, name: str) -> object:
        return getattr(vars(self).get("batches"), name)

    @property
    def __class__(self) -> type:
        """Return the other loader's class: an answer may ask whether it was given a DataLoader."""
        return type(self.batches) if isinstance(self.batches, DataLoader) else CountingLoader

    def __iter__(self) -> Iterator:
        """Begin another pass, and count each batch of it."""
        self.passes += 1
        if self.most is not None and self.passes > self.most:
            raise Endless
        self.taken = 0
        return self._count_batches()

    def _count_batches(self) -> Iterator:
        for batch in self.batches:
            self.taken += 1
            yield batch


class _Token:
    """Something that lives as long as what holds it."""


class _Marked(torch.autograd.Function):
    """Passes a tensor on; its node in the graph holds a token."""

    @staticmethod
    def forward(ctx, x, token):
        ctx.token = token
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Graphs:
    """Counts which graphs are still alive, of those that it has marked.

    >>> graphs = Graphs()
    >>> loss = graphs.mark(torch.ones(2, requires_grad=True).sum())
    >>> graphs.alive
    1
    >>> loss = loss.detach()
    >>> graphs.left()
    0
    """

    def __init__(self):
        self._tokens: weakref.WeakSet[_Token] = weakref.WeakSet()

    def mark(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the same tensor, behind a step of its graph that is watched; it must have a graph."""
        token = _Token()
        self._tokens.add(token)
        return _Marked.apply(tensor, token)

    @property
    def alive(self) -> int:
        """Return how many of the marked graphs are alive."""
        return len(self._tokens)

    def left(self) -> int:
        """Return how many are alive after a collection of what only cycles of references keep alive."""
        if self.alive:
            gc.collect()
        return self.alive


class Built:
    """A module that an answer's class made, driven as a learner would drive it."""

    def __init__(self, trial: "Trial", *sizes: object, changes: bool = False):
        self.trial = trial
        self.name = f"{trial.name}({', '.join(map(expect.describe, sizes))})"
        self.module = trial.call(*sizes, changes=changes)
        expect.module(self.module, trial.name, f"what {self.name} makes")

    def __call__(self, x: torch.Tensor) -> object:
        """Run the module's forward on x."""
        return self.trial.run(self.module, x, label=self.name)

    def to(self, device: torch.device) -> "Built":
        """Move the module as a part of a model, the way it moves in real life."""
        self.trial.run(nn.Sequential(self.module).to, device, label=f"nn.Sequential({self.name}).to")
        return self

    def buffer(self, name: str) -> torch.Tensor:
        """Return the registered buffer of that name; raise Mismatch that says what it is instead."""
        found = dict(self.module.named_buffers(recurse=False, remove_duplicate=False)).get(name)
        if found is None:
            self._explain_missing(name, f'a buffer named "{name}"')
        if found.requires_grad:
            expect.fail(f"the buffer `{name}` asks for a gradient", "requires_grad=False", found)
        return found

    def _explain_missing(self, name: str, wanted: str) -> None:
        value = getattr(self.module, name, None)
        if isinstance(value, nn.Parameter):
            expect.fail(f"`{name}` is a parameter: an optimizer would train it", wanted, value)
        if isinstance(value, torch.Tensor):
            expect.fail(f"`{name}` is a plain attribute: `.to` leaves it behind", wanted, value)
        expect.that(value is None, f"`{name}` is {expect.a_type(value)}, not a buffer", wanted, value)
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
            headline = f"`{name}` is not saved: the state_dict lacks it"
            expect.that(name in saved, headline, f'"{name}" among the keys', saved)

    def require_stays(self, name: str, x: torch.Tensor) -> None:
        """Expect a forward that moves no part of the module when it is given an x on another device."""
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

    def copy_result(self, x: torch.Tensor, what: str = "the result") -> torch.Tensor:
        """Expect of forward a tensor where x is, which `what` names, and return a copy of it on the CPU."""
        got = self(x)
        expect.kind(got, torch.Tensor, "a tensor", what)
        expect.device(got, x.device, what)
        return got.detach().cpu().clone()
