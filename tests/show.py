"""Shows an exercise as its author must see it: `make exercise NAME=append_ones`.

Prints the signature, the facts and the hints, then judges every answer of its bank: the verdict as a learner
reads it, the row that refused it, and the time it took. Ends with what the contributing guide asks for and is
missing, if anything is; the exit status is 1 then.
"""

import ast
import inspect
import sys
import time
from collections import Counter
from pathlib import Path

from bank import ANSWERS, Answer, fault, load, refused_by

from devlab.checks.exercise import Exercise, Lesson, find, lessons, nearest
from devlab.checks.judge import judge
from devlab.checks.result import Result

ROOT = ANSWERS.parents[1]
SLOWEST = 1.0  # seconds that a verdict may take
SHORTEST = 8  # characters of a message, which tell it from others
MOST_LINES = 60  # of judgement, for a pure function


def judged(exercise: Exercise, answer: Answer) -> tuple[Result, float]:
    """Return an answer's verdict, and the seconds that it took."""
    began = time.perf_counter()
    result = judge(exercise, answer.code)
    return result, time.perf_counter() - began


def shown(exercise: Exercise, answer: Answer) -> list[str]:
    """Print an answer's verdict, its row and its time; return what is wrong with it."""
    result, seconds = judged(exercise, answer)
    if seconds > SLOWEST:  # the first verdict of a process imports what others find there
        _, seconds = judged(exercise, answer)
    kind = "right" if answer.fragment is None else "wrong"
    print(f"\n── {kind}: {answer.name} ({1000 * seconds:.0f} ms)")
    print("passed" if answer.fragment is None and result.passed else result)
    if row := refused_by(result):
        print(f"refused by the row: {row}")
    faults = [f"{answer.name} took {seconds:.1f} s, and a verdict may take {SLOWEST:g} s"]
    return faults * (seconds > SLOWEST) + [what for what in [fault(answer, result)] if what]


def file_of(exercise: Exercise) -> Path:
    """Return the file in which an exercise is judged."""
    return (
        Path(inspect.getfile(inspect.unwrap(exercise.rows[0].judge)))
        if exercise.rows
        else package(exercise.lesson)
    )


def package(lesson: str) -> Path:
    """Return the folder of a lesson's judgement."""
    return ROOT / "src" / "devlab" / "lessons" / f"lesson_{lesson}"


def lines_of_judgement(source: str) -> int:
    """Count a file's lines of code, but for its imports and what declares the exercise.

    >>> lines_of_judgement('''"What it is."
    ... from x import y
    ... double = lesson.exercise(
    ...     "double(x)",
    ... )
    ...
    ... def twice(trial):
    ...     # A comment.
    ...     assert trial.call(3) == 6
    ... ''')
    2
    """
    counted = set()
    for node in ast.parse(source).body:
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        declares = isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("lesson.exercise(")
        if not (text or declares or isinstance(node, ast.Import | ast.ImportFrom)):
            first = min(one.lineno for one in [node, *getattr(node, "decorator_list", [])])
            counted |= set(range(first, node.end_lineno + 1))
    lines = source.splitlines()
    return sum(bool(text := lines[at - 1].strip()) and not text.startswith("#") for at in counted)


def missing(exercise: Exercise, bank: list[Answer]) -> list[str]:
    """Return what the contributing guide asks of an exercise and this one lacks."""
    right = sum(answer.fragment is None for answer in bank)
    wrong = len(bank) - right
    source = ROOT / "source" / "exercises" / f"{exercise.lesson}.py"
    task = source.read_text(encoding="utf-8") if source.is_file() else ""
    asked = (
        (right >= 3, f"three right answers that differ in approach; there are {right}"),
        (wrong >= 6, f"six wrong answers, each with its message and its row; there are {wrong}"),
        *(
            (False, f"more of the message of {answer.name}: {fragment!r} says too little")
            for answer in bank
            for fragment in answer.fragments
            if len(fragment) < SHORTEST
        ),
        (len(exercise.hints) >= 2, f"two hints; there are {len(exercise.hints)}"),
        (bool(exercise.facts), "the facts that an answer needs"),
        (exercise.possible >= 2, f"two rows; there are {exercise.possible}"),
        (
            file_of(exercise).stem == exercise.name,
            f"its judgement in {exercise.name}.py; it is in {file_of(exercise).name}",
        ),
        *(
            (f'{what}="{exercise.name}"' in task, f'the cell {what}="{exercise.name}" in {name_of(source)}')
            for what in ("exercise", "check")
        ),
    )
    return [f"missing: {what}" for there, what in asked if not there]


def summary(exercise: Exercise, bank: list[Answer]) -> str:
    """Return the figures of an exercise, and which of its rows no wrong answer names."""
    right = sum(answer.fragment is None for answer in bank)
    lines = lines_of_judgement(file_of(exercise).read_text(encoding="utf-8"))
    few = lines < MOST_LINES
    said = [f"{right} right and {len(bank) - right} wrong answers"]
    said += [
        f"{lines} lines of judgement" + ("" if few else f"; a pure function needs fewer than {MOST_LINES}")
    ]
    named = Counter(row for answer in bank for row in answer.rows)
    said += [f"no wrong answer is for the row: {row.label}" for row in exercise.rows if not named[row.label]]
    return "\n".join(said)


def name_of(path: Path) -> str:
    """Return a path as it is written in the repository."""
    return path.relative_to(ROOT).as_posix()


def unknown(name: str, course: list[Lesson]) -> str:
    """Say why there is no exercise of a name, and what to do."""
    for lesson in course:
        if name in lesson.order:
            path = name_of(package(lesson.id) / f"{name}.py")
            return f"lesson {lesson.id} lists {name}, and nothing makes it: write {path}"
    if strays := sorted((ROOT / "src" / "devlab" / "lessons").glob(f"lesson_*/{name}.py")) if name else []:
        return f"{name_of(strays[0])} makes no exercise: write `{name} = lesson.exercise(...)` there"
    return f"there is no exercise {name!r}; near: {', '.join(nearest(name)) or 'nothing'}"


def main(name: str) -> int:
    """Show the exercise of a name, and return 0 where nothing is wrong with it."""
    try:
        course = lessons()
    except ValueError as error:  # a file whose name the lesson does not list
        print(f"{error}: add it to the order in the lesson's __init__.py")
        return 1
    exercise = find(name)
    if exercise is None:
        print(unknown(name, course))
        return 1
    path = ANSWERS / f"{name}.py"
    if not path.is_file():
        print(f"{name} has no bank of answers: write {name_of(path)}")
        return 1
    print(f"{exercise.signature}\nlesson {exercise.lesson}, facts {', '.join(exercise.facts)}")
    print(*(f"hint {number}: {hint}" for number, hint in enumerate(exercise.hints, 1)), sep="\n")
    bank = load(path)
    faults = missing(exercise, bank) + [one for answer in bank for one in shown(exercise, answer)]
    print(f"\n{summary(exercise, bank)}")
    print("\n".join(f"✗ {one}" for one in faults) or "✓ nothing is missing")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
