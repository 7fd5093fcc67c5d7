"""A trial: an answer on a device, with fresh inputs and a record of the last call."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch

from devlab.checks import settings
from devlab.checks.calls import AnswerRaised, Call, Snapshot, name_inputs, require_parameters, run
from devlab.checks.expect import Mismatch, readable
from devlab.checks.late_copies import delay_copies

if TYPE_CHECKING:
    from devlab.watching.watch import Log


MOST_UNUSUAL = 4  # calls of a row with unusual settings in force: more would cost much and find nothing
NOTHING = contextlib.nullcontext()
NEEDS_TWO = "it needs two accelerators; DEVLAB_DEVICE=sim judges it on two simulated ones"


class Skip(Exception):
    """A row cannot be judged on this machine; the message says why."""


class Elsewhere(Skip):
    """A row can be judged on another machine alone, which the message names: it takes no pass away here."""


class Caller:
    """Calls the learner's code for the rows of a judgement.

    A grader hands its own to `judge`, which also keeps what was answered, or gives back what was kept. Such a
    replay (`replays`) has no more calls to give than a row makes.
    """

    replays = False

    def row(self) -> None:
        """Take note that the next row, or the same row on the next device, begins to be judged."""

    def call(
        self, trial: "Trial", function: Callable, args: tuple, label: str, changes: bool, log: "Log | None"
    ) -> object:
        """Make a call for a trial, which `Trial.run` describes, and return its result."""
        if trial.unusual:
            trial.calls += 1
            if trial.calls > MOST_UNUSUAL:
                raise Skip("a few calls show what the answer leaves changed")
        arguments = name_inputs(function, args)
        call = trial.last_call = Call(label, arguments)
        if function is trial.answer:
            trial.require_parameters(args)
        before = None if changes else Snapshot(args, arguments)
        outside = settings.now()
        try:
            with trial.unusual.in_force() if trial.unusual else NOTHING:
                inside = settings.now() if trial.unusual else outside
                with log or NOTHING, delay_copies((trial.device, *trial.others)):
                    result = run(function, call, args, {})
                left = settings.changes(inside)
        finally:
            settings.restore(outside)  # the answer's settings must not change the row's own tensors
        if left:
            raise left[0]
        if before:
            before.require_untouched(args)
        if isinstance(result, torch.Tensor):
            readable(result)
        return result


class Trial:
    """What a row's judgement works with: the answer, the device, and inputs from several seeds.

    `others` holds the other devices of the bench, the CPU first, for tasks about two places; `caller` makes
    the calls.
    """

    def __init__(
        self,
        answer: Callable,
        signature: str,
        device: torch.device,
        others: tuple[torch.device, ...] = (),
        seed: int = 0,
        caller: Caller | None = None,
    ):
        self.answer = answer
        self.signature = signature
        self.device = device
        self.others = others
        self.caller = caller or Caller()
        self.seeds = tuple(range(seed, seed + 3))
        self.situation = ""  # where the last call believed to be, if that is not the trial's device
        self.last_call: Call | None = None
        self.unusual: settings.Unusual | None = None  # settings that are in force while the answer is called
        self.calls = 0  # of the answer, with unusual settings in force

    @property
    def name(self) -> str:
        """Return the exercise's name, which is what verdicts call the answer."""
        return self.signature.removeprefix("class ").partition("(")[0]

    def randn(
        self, *shape: int, seed: int = 0, dtype: torch.dtype = torch.float32, on: torch.device | None = None
    ) -> torch.Tensor:
        """Return normal random numbers on the trial's device: for each seed the same on every device."""
        numbers = torch.randn(shape, generator=torch.Generator().manual_seed(1000 + seed))
        return numbers.to(on or self.device, dtype)

    def randint(self, low: int, high: int, shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
        """Return random integers from `low` up to, not including, `high`, on the trial's device."""
        generator = torch.Generator().manual_seed(1000 + seed)
        return torch.randint(low, high, shape, generator=generator).to(self.device)

    def other(self) -> torch.device:
        """Return another device than the trial's; raises Skip where there is no other."""
        if not self.others:
            raise Skip("it needs a second device, and only the CPU is in use here")
        return self.others[-1]

    def second(self) -> torch.device:
        """Return another accelerator than the trial's device; raises Skip where there is none.

        A row asks for the second accelerator last: before that, it judges all that one accelerator can tell.
        """
        found = self.other()
        if found.type == "cpu":
            raise Elsewhere(NEEDS_TWO)
        return found

    @contextlib.contextmanager
    def assumed(self) -> Iterator[None]:
        """Run a block that takes for granted what another row asks: its failure is no finding of this row.

        Whatever stops the block leaves the row not reached: another row reports that fault.
        """
        try:
            yield
        except (Mismatch, AnswerRaised) as stopped:
            stopped.assumed = True
            raise

    def call(self, *args: object, changes: bool = False) -> object:
        """Call the answer and return its result, under what every call of the learner's code must keep to.

        The call fails where the answer cannot take the arguments, where it changed an input (the numbers and
        the form of tensors and arrays, and what stands in nested lists, tuples and dicts), where it left the
        default device, the default dtype, the gradient mode or the current device changed, and where it
        returns a tensor that cannot be read. With `changes` the inputs may be changed; a row that wants to
        look at them later than this does takes a `snapshot`.

        Two things are asked by the rows alone. A module may be changed, because training changes it: rows
        that forbid a change say `verbs.untouched`. A copy to the host may be under way: rows that ask for its
        end say `verbs.at_once`, because to wait after every call would hide what other rows watch.
        """
        return self.run(self.answer, *args, label=self.name, changes=changes)

    def watched(self, *args: object, changes: bool = False) -> "tuple[object, Log]":
        """Call the answer as `call` does; return its result, and the log of what it moved and waited for."""
        from devlab.watching.watch import watch  # here, so that importing devlab stays light

        log = watch()
        return self.run(self.answer, *args, label=self.name, changes=changes, log=log), log

    def snapshot(self, *args: object) -> Snapshot:
        """Return what the inputs of a call hold, for rows that look at them later than `call` would."""
        return Snapshot(args, name_inputs(self.answer, args))

    def require_parameters(self, args: tuple) -> None:
        """Raise Mismatch where the answer cannot take the arguments that the task gives it."""
        require_parameters(self.answer, self.signature, args)

    def run(
        self, function: Callable, *args: object, label: str, changes: bool = False, log: "Log | None" = None
    ) -> object:
        """Call any of the learner's code, such as a module it made; `label` is what verdicts call it.

        A `log`, from `devlab.watch()`, records the call and nothing else.
        """
        return self.caller.call(self, function, args, label, changes, log)
