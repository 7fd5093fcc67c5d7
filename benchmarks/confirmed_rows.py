"""How many rows of the course `devlab grade` confirms by a replay, and whether any honest verdict is refuted.

Each exercise's first right answer is what the checker learns from. Then every answer of the banks, right or
wrong, is judged as a worker does and replayed as the checker does: both must agree.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from bank import all_answers
from promises import promise

from devlab.checks.judge import judge
from devlab.checks.registry import exercises
from devlab.classroom.engine.checker import Checker
from devlab.classroom.engine.recorder import Recorder
from devlab.devices import bench

SEED = 4711


def recorded(recorder: Recorder, exercise, code) -> dict:
    """Judge an answer; return its verdict with the transcript, as it comes over a pipe."""
    recorder.take()
    result = judge(exercise, code, bench(), SEED, recorder)
    rows = [
        [row.label, {place: one and str(one) for place, one in row.outcomes.items()}] for row in result.rows
    ]
    return json.loads(json.dumps({"rows": rows, "calls": recorder.take()}))


def main() -> None:
    """Print the table and the promise."""
    recorder, checker = Recorder(), Checker(bench(), SEED)
    answers = {}
    for answer in all_answers():
        answers.setdefault(answer.exercise, []).append(answer)
    rows = confirmed = checked = count = 0
    refuted: list[str] = []
    print(f"{'exercise':<26}{'rows':>6}{'confirmed':>11}{'more refuted where wrong':>26}")
    for exercise in exercises():
        bank = answers[exercise.name]
        right = recorded(recorder, exercise, bank[0].code)
        checker.learn(exercise.name, right)
        sure = len(checker.check(exercise.name, right)["confirmed"])
        able = {row.label: True for row in exercise.rows}
        places = [row for row in exercise.rows for device in bench() if row.applies_to(device, bench())]
        for row, (known, _, _) in zip(places, checker.known[exercise.name], strict=True):
            able[row.label] &= known
        more = sum(able.values()) - sure
        print(f"{exercise.name:<26}{len(exercise.rows):>6}{sure:>11}{more:>26}")
        rows, confirmed, checked = rows + len(exercise.rows), confirmed + sure, checked + more
        for answer in bank:
            said = checker.check(exercise.name, recorded(recorder, exercise, answer.code))
            refuted += [f"{exercise.name}, {answer.name}: {label}" for label in said["refuted"]]
            count += 1
    print(f"{'all':<26}{rows:>6}{confirmed:>11}{checked:>26}")
    print("\n".join(refuted))
    promise("honest verdicts refuted", len(refuted), f"of {count}", beside=f"{rows} rows", most=0)


if __name__ == "__main__":
    main()
