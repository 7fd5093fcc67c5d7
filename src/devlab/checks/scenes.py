"""Scenes: rows that are judged by what two answers are seen to do on the same device.

A scene is a generator that uses an answer and yields what it sees. The course's own answer plays it first,
then the learner's; the first thing seen that differs is the finding, so that nothing expected is computed
elsewhere. The known mistakes of an exercise stand in a table beside its file (`known`): where the learner's
answer is seen to do what a known mistake does, the headline is the words for that mistake.
"""

import contextlib
import functools
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from devlab.checks import expect, known, time_limits
from devlab.checks.calls import AnswerRaised, where_raised
from devlab.checks.exercise import Exercise, Row
from devlab.checks.expect import Mismatch
from devlab.checks.probes import Endless
from devlab.checks.seen import UNJUDGED, Seen
from devlab.checks.settings import fresh_defaults
from devlab.checks.trial import Skip, Trial
from devlab.checks.values import on_cpu, times
from devlab.checks.verbs import causes


class Scene(NamedTuple):
    """A row that is a scene; the learner's answer has to be seen as `ours` is."""

    exercise: Exercise
    label: str
    program: Callable[[Trial], Iterator]
    ours: Callable
    asked: str

    @property
    def table(self) -> Path:
        """Return the path of the exercise's known mistakes, beside the file that judges it."""
        return Path(self.program.__code__.co_filename).with_suffix(".json")


def scene(
    exercise: Exercise,
    ours: Callable,
    label: str,
    asked: str = "",
    only: str | None = None,
) -> Callable:
    """Add the decorated generator, which takes a Trial, to an exercise as a row.

    `asked` says what is wanted in the words of the task, for all that is seen without words of its own.

    >>> double = Exercise("double", "00", "double(x)", ("D1",), ("twice", "x + x"))
    >>> @scene(double, lambda x: 2 * x, "twice as much")
    ... def twice(trial):
    ...     yield "the result", trial.call(torch.ones(2))
    >>> double.rows[0].judge(Trial(lambda x: x + 1, "double(x)", torch.device("cpu")))
    >>> double.rows[0].judge(Trial(lambda x: x, "double(x)", torch.device("cpu")))
    Traceback (most recent call last):
    ...
    devlab.checks.expect.Mismatch: the values of the result are wrong
    """

    def add(program: Callable) -> Callable:
        made = Scene(exercise, label, program, ours, asked)
        judge = functools.wraps(program)(lambda trial: play(made, trial))
        exercise.rows += (Row(label, judge, only, made),)
        return program

    return add


def play(scene: Scene, trial: Trial) -> None:
    """Expect the learner's answer to be seen as ours is; raises the Mismatch."""
    ours = see_ours(scene, trial)
    fresh_defaults()
    # The generator is closed here, so that its `with` blocks do not end while a traceback holds them.
    with contextlib.closing(see(scene, trial)) as mine:
        seen, found = find_difference(mine, ours)
        # A replay has no answer to look at more closely, and unusual settings are judged by what they are.
        if found and not (trial.caller.replays or trial.unusual):
            found = name_mistake(scene, seen, ours, found, mine, trial)
    if found:
        raise found


def find_difference(mine: Iterator[Seen], ours: Sequence[Seen]) -> tuple[list[Seen], Mismatch | None]:
    """Compare what is seen as it comes; return it, and how the last thing differs from ours, if it does.

    Raises Mismatch for something that has to be so and is not, and where the program ends before ours does.
    """
    seen: list[Seen] = []
    for thing in mine:
        if thing.must:  # has no place among the others: an answer may go on longer than ours does
            compare(thing, thing)
            continue
        seen.append(thing)
        try:
            compare(thing, ours[len(seen) - 1] if len(seen) <= len(ours) else None)
        except Mismatch as found:
            return seen, found
    if len(seen) < len(ours):
        raise Mismatch("the program ended early", ours[len(seen)].what, "nothing more")
    return seen, None


def name_mistake(
    scene: Scene, seen: list[Seen], ours: Sequence[Seen], found: Mismatch, rest: Iterator, trial: Trial
) -> Mismatch:
    """Return what was found, with the words for the known mistake that is seen to do the same, if any."""
    call, situation, words = trial.last_call, trial.situation, ""
    try:
        if trial.seeds[0]:  # the table was made with the numbers of seed 0, and a grader asks for others
            play(scene, begin_anew(trial, 0))
        with contextlib.closing(see_later(scene, trial)) as later, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a scene goes on with what its own first difference forbids
            words = known.find_words(known.read(scene.table), scene.label, seen, ours, (rest, later), trial)
    except Exception as again:  # a look-up that fails must not break the verdict
        words = again.headline if getattr(again, "named", False) else ""
    trial.last_call, trial.situation = call, situation
    wrong = found.headline.endswith(" wrong")
    found = Mismatch(words or found.headline, found.expected, found.got)
    found.named = bool(words) if words or wrong else None
    return found


def see_ours(scene: Scene, trial: Trial) -> tuple[Seen, ...]:
    """Return what the scene sees of our own answer on the trial's device, with the trial's inputs.

    It is played once, to its end, and remembered under all that changes rounding or rules.
    """
    simulator = sys.modules.get("devlab.sim")  # looked up, not imported, as a real device has no need of it
    simulated = any(device.type == "sim" for device in (trial.device, *trial.others))
    rules = simulator.following() if simulated else ""
    rounding = torch.get_float32_matmul_precision(), torch.get_num_threads(), rules
    return remember(scene, trial.signature, trial.device, trial.others, trial.seeds[0], rounding)


@functools.cache  # the memory of this is out of a submission's reach, as a dict's is not
def remember(
    scene: Scene, signature: str, device: torch.device, others: tuple, seed: int, rounding: tuple
) -> tuple[Seen, ...]:
    """Play our own answer as a trial of these facts, and return what the scene sees of it."""
    fresh_defaults()
    found = []
    with contextlib.suppress(Skip):  # the learner's play meets what this machine cannot show, and says so
        for thing in see(scene, Trial(scene.ours, signature, device, others, seed)):
            if known.is_readable(thing.value):  # what is remembered holds no memory of a device
                thing = thing._replace(value=on_cpu(thing.value).clone(), home=thing.value.device)
            found += [thing] * (not thing.must)
    return tuple(found)


def begin_anew(trial: Trial, seed: int) -> Trial:
    """Return another trial of the same answer on the same device, with the inputs of a seed."""
    return Trial(trial.answer, trial.signature, trial.device, trial.others, seed)


def see(scene: Scene, trial: Trial) -> Iterator[Seen]:
    """Yield what a scene sees of an answer, which must be compared before the scene goes on.

    Each step has a time limit of its own. What the learner's own lines raise comes out as AnswerRaised.
    """
    with contextlib.closing(scene.program(trial)) as steps:
        while True:
            try:
                with time_limits.limited():
                    thing = next(steps)
            except StopIteration:
                return
            except Endless:
                raise Mismatch("the loop does not come to an end", "an end", "calls, and so on") from None
            except (Mismatch, AnswerRaised, Skip):
                raise
            except Exception as error:
                if where_raised(error):
                    raise AnswerRaised(error) from error
                raise
            thing = thing if isinstance(thing, Seen) else Seen(*thing)
            if isinstance(thing.value, torch.Tensor) and thing.value.layout is torch.strided:
                thing = thing._replace(value=thing.value.detach())
            yield thing._replace(asked=thing.asked or scene.asked)


def see_later(scene: Scene, trial: Trial) -> Iterator[Seen]:
    """Yield what the later scenes of the exercise see of the answer, which tells two mistakes apart."""
    rows = scene.exercise.rows
    for row in rows[[row.scene for row in rows].index(scene) + 1 :]:
        if row.scene and row.applies_to(trial.device):
            fresh_defaults()
            with contextlib.suppress(Exception):
                yield from see(row.scene, begin_anew(trial, trial.seeds[0]))


def compare(mine: Seen, ours: Seen | None) -> None:
    """Raise the Mismatch that says how a thing seen differs from ours; None stands for nothing more."""
    if ours is None:
        raise Mismatch("the program went another way", "nothing more", mine.what)
    got, wanted, asked = mine.value, ours.value if mine.right is None else mine.right, mine.asked
    if got is UNJUDGED or (mine.must and got):
        return
    if mine.must:
        expect.fail(mine.what, asked, mine.got)
    elif mine.most is not None:
        if got > max(mine.most, wanted):  # our own answer may need more on this device
            noun = times(got, mine.noun) if isinstance(got, int) else ""
            line = getattr(mine.events[-1], "line", "") if mine.events else ""
            headline = mine.what.format(got, times=noun, causes=causes(mine.events))
            expect.fail(headline, asked, f"{got}" + f"; {line}" * bool(line))
    elif isinstance(wanted, torch.Tensor):
        _compare_tensors(mine, wanted, ours.home or wanted.device)
    else:
        expect.kind(got, type(wanted), expect.a_type(wanted), mine.what)
        if mine.within is None or not isinstance(wanted, float):
            if got != wanted:
                headline = f"{mine.what} is {_word(got)}, not {_word(wanted)}"
                expect.fail(headline, asked or _word(wanted), got)
        elif not abs(got - wanted) <= mine.within * max(1, abs(wanted)):
            expect.fail(f"{mine.what} is wrong", f"{asked}{': ' * bool(asked)}{wanted:.6g}", f"{got:.6g}")


def _compare_tensors(mine: Seen, wanted: torch.Tensor, home: torch.device) -> None:
    within = mine.within
    if mine.rel and wanted.numel():
        within = max(within or 0.0, mine.rel * float(wanted.detach().abs().max()))
    try:
        expect.tensor(mine.value, wanted, home, mine.what, within)
    except Mismatch as found:
        if found.headline.startswith("the values of"):
            found.expected = f"{mine.asked}{': ' * bool(mine.asked)}{found.expected}"
            found.headline = mine.wrong or found.headline
        raise


def _word(value: object) -> str:
    return str(value) if isinstance(value, str | torch.device | torch.dtype) else expect.describe(value)
