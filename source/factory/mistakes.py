"""Makes the tables of known mistakes: what each wrong answer of a bank is seen to do.

An exercise that has scenes gets a table beside its file; `devlab.checks.known` says what stands in it. A
table is current while the judgement and the bank are those that it was made from.
"""

import ast
import contextlib
import hashlib
import json
import re
import warnings
from pathlib import Path

import torch
from bank import ANSWERS, Answer, load

from devlab.checks import known, scenes, time_limits
from devlab.checks.exercise import Exercise, exercises, find
from devlab.checks.settings import fresh_defaults, preserve_state
from devlab.checks.trial import Trial
from devlab.devices import simulated_accelerators

DEVICES = (torch.device("cpu"), *simulated_accelerators())


def tables() -> dict[str, Path]:
    """Return the path of the table of each exercise that has scenes, by the exercise's name."""
    rows = [row for exercise in exercises() for row in exercise.rows if row.scene]
    return {row.scene.exercise.name: row.scene.table for row in rows}


def digest(table: Path) -> str:
    """Return a digest of what a table is made from, as Python reads it: comments and layout do not count."""
    files = table.with_suffix(".py"), table.with_name("__init__.py"), ANSWERS / f"{table.stem}.py"
    parts = [ast.unparse(ast.parse(path.read_text(encoding="utf-8"))) for path in files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def is_current(table: Path) -> bool:
    """Tell whether a table was made from the judgement and the bank as they are."""
    head = json.dumps({"made from": digest(table)}, separators=(",", ":"))[:-1]
    return table.exists() and table.read_text(encoding="utf-8").startswith(head)


def make(name: str, table: Path) -> str:
    """Return the text of an exercise's table."""
    return write({"made from": digest(table)} | know(find(name), load(ANSWERS / f"{name}.py")))


def know(exercise: Exercise, bank: list[Answer]) -> dict:
    """Return the words and the rows of a table, from what a bank's wrong answers do on three devices."""
    words: list[str] = []
    rows: dict[str, dict[str, dict]] = {}
    for answer in [one for one in bank if one.fragment is not None]:
        for row in exercise.rows:
            for device in DEVICES if row.scene else ():
                if row.label in answer.rows and row.applies_to(device, DEVICES):
                    add_entry(rows.setdefault(row.label, {}), words, row.scene, answer, device)
    for place in [place for places in rows.values() for place in places.values()]:
        counts = [count_later(entry, place["known"]) for entry in place["known"]]
        for entry, count in zip(place["known"], counts, strict=True):
            del entry[2][count:]
        place["known"] = [e for n, e in enumerate(place["known"]) if e not in place["known"][:n]]
    return {"words": words, "rows": {label: places for label, places in rows.items() if places}}


def add_entry(
    places: dict, words: list[str], one: scenes.Scene, answer: Answer, device: torch.device
) -> None:
    """Add what a wrong answer shows first that differs from ours, on a device, to the places of its row."""
    others = tuple(other for other in DEVICES if other != device)
    trial = Trial(answer.code, one.exercise.signature, device, others)
    with preserve_state(), time_limits.watch_calls(), warnings.catch_warnings(action="ignore"):
        try:
            found = find_entry(one, trial)
        except time_limits.TooLong:
            time_limits.disarm()
            return
    if found:
        place, headline, right, slip, later = found
        said = answer.fragments[0]
        if "{" in said and device != DEVICES[1]:
            return  # the bank's names are those of a verdict about the first accelerator
        if said in known.strip_devices(headline, trial):
            said = ""  # the general words say it already, and no other mistake may lend its own
        if said not in words:
            words.append(said)
        kept = places.setdefault(place, {"ours": right, "known": []})
        kept["known"].append([words.index(said), slip, later])


def find_entry(one: scenes.Scene, trial: Trial) -> tuple | None:
    """Return the place of the first thing that differs, the headline, both prints, and what comes later.

    Return None where nothing differs, or where what ends the scene has words of its own.
    """
    ours = scenes.see_ours(one, trial)
    fresh_defaults()
    with (
        contextlib.closing(scenes.see(one, trial)) as mine,
        contextlib.closing(scenes.see_later(one, trial)) as rest,
    ):
        try:
            seen, differs = scenes.find_difference(mine, ours)
        except Exception:
            return None
        if not differs or len(seen) > len(ours):
            return None
        thing, theirs = seen[-1], ours[len(seen) - 1]
        right = theirs.value if thing.right is None else thing.right
        slip = known.make_print(thing.value, trial, right, thing.within)
        later = [
            what if what is None or isinstance(what, str) else known.make_print(what.value, trial)
            for _, what in zip(range(known.LATER), known.see_on(mine, rest), strict=False)
        ]
    kept = known.make_print(right, trial)
    if kept[0] == "tensor":  # our own numbers tell whether the inputs are the same, wherever they are
        kept[1] = kept[3] = None
    return known.name_place(seen, trial), differs.headline, kept, slip, later


def count_later(entry: list, entries: list[list]) -> int:
    """Return how many of the things seen later tell an entry from the other mistakes' that look alike."""
    rivals = [other for other in entries if other[0] != entry[0] and are_near(other[1], entry[1])]
    apart = [
        next(
            (n for n, both in enumerate(zip(entry[2], other[2], strict=False)) if not are_near(*both)),
            known.LATER,  # a closer look than this may tell them apart
        )
        for other in rivals
    ]
    return max(apart, default=-1) + 1


def are_near(mine: list | str | None, theirs: list | str | None) -> bool:
    """Tell whether two prints, or the words of two endings, could be taken for one another."""
    if not (isinstance(mine, list) and isinstance(theirs, list)) or "value" in (mine[0], theirs[0]):
        return mine == theirs
    if mine[2] != theirs[2] or None in (mine[4], theirs[4]):
        return mine == theirs
    numbers, others = (dict(zip(kept[5], kept[4], strict=True)) for kept in (mine, theirs))
    return all(is_near(number, others[place]) for place, number in numbers.items() if place in others)


def is_near(one: float | str, other: float | str) -> bool:
    """Tell whether two numbers of prints are within a twentieth."""
    words = isinstance(one, str) or isinstance(other, str)
    return one == other if words else abs(one - other) <= 0.05 * max(1, abs(one))


def write(table: dict) -> str:
    """Return a table as JSON with a line for each place and each entry, so that a diff can be read."""
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":"))
    return re.sub(r'(?<=,)(?=\[\d+,\[|"[^"]*":\{)', "\n", text) + "\n"
