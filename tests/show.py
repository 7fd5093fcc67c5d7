"""Shows an exercise as its author must see it: `make exercise NAME=append_ones`.

Prints the signature, the facts and the hints, then judges every answer of its bank: the verdict as a learner
reads it, and the time it took. Ends with what the contributing guide asks for and is missing, if anything is;
the exit status is 1 then.
"""

import sys
import time

from bank import ANSWERS, Answer, load

from devlab.checks.exercise import Exercise, find, nearest
from devlab.checks.judge import judge

SLOWEST = 1.0  # seconds that a verdict may take


def shown(exercise: Exercise, answer: Answer) -> list[str]:
    """Print an answer's verdict and its time; return what is wrong with it."""
    began = time.perf_counter()
    result = judge(exercise, answer.code)
    seconds = time.perf_counter() - began
    kind = "right" if answer.fragment is None else "wrong"
    print(f"\n── {kind}: {answer.name} ({1000 * seconds:.0f} ms)")
    if answer.fragment is None and result.passed:
        print("passed")
    else:
        print(result)
    faults = [f"{answer.name} took {seconds:.1f} s"] if seconds > SLOWEST else []
    if answer.fragment is None and not result.passed:
        faults.append(f"{answer.name} is right and was refused")
    if answer.fragment is not None and result.passed:
        faults.append(f"{answer.name} is wrong and was accepted")
    if answer.fragment is not None and not result.passed and answer.fragment not in str(result):
        faults.append(f"{answer.name} is refused without its message: {answer.fragment}")
    return faults


def missing(exercise: Exercise, bank: list[Answer]) -> list[str]:
    """Return what the contributing guide asks of an exercise and this one lacks."""
    right = sum(answer.fragment is None for answer in bank)
    wrong = len(bank) - right
    asked = (
        (right >= 3, f"three right answers that differ in approach; there are {right}"),
        (wrong >= 6, f"six wrong answers, each with its message; there are {wrong}"),
        (len(exercise.hints) >= 2, f"two hints; there are {len(exercise.hints)}"),
        (bool(exercise.facts), "the facts that an answer needs"),
        (exercise.possible >= 2, f"two rows; there are {exercise.possible}"),
    )
    return [f"missing: {what}" for there, what in asked if not there]


def main(name: str) -> int:
    """Show the exercise of a name, and return 0 where nothing is wrong with it."""
    exercise = find(name)
    if exercise is None:
        print(f"there is no exercise {name!r}; near: {', '.join(nearest(name)) or 'nothing'}")
        return 1
    path = ANSWERS / f"{name}.py"
    if not path.is_file():
        print(f"{name} has no bank of answers: write tests/answers/{name}.py")
        return 1
    print(f"{exercise.signature}\nlesson {exercise.lesson}, facts {', '.join(exercise.facts)}")
    print(*(f"hint {number}: {hint}" for number, hint in enumerate(exercise.hints, 1)), sep="\n")
    bank = load(path)
    faults = missing(exercise, bank) + [fault for answer in bank for fault in shown(exercise, answer)]
    print("\n" + ("\n".join(f"✗ {fault}" for fault in faults) or "✓ nothing is missing"))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
