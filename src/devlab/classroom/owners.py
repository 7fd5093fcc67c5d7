"""Tells which student each file of a download belongs to, by its path and by what lies beside it.

The outermost part of a path that tells students apart names the student, whatever the names inside it say.
A platform's pattern counts where most of the names beside it follow it.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from devlab.classroom.download import (
    LATE,
    PLATFORMS,
    File,
    attempt_of,
    beside,
    by_platform,
    is_assignment,
    platforms_of,
    safe,
    without,
)

CANVAS = PLATFORMS[1]  # Canvas names files and no folders, and many other names look like Canvas's names


@dataclass(frozen=True)
class Owned:
    """A file and what its path tells: the student, the assignment if it names one, the attempt, and lateness.

    Two files have the same `key` only if they are one person's; `number` is the platform's for the student,
    and `prefix` what the platform put before the file's own name.
    `told` says that the path surely tells a student, so that even a file that is no notebook counts as handed
    in.
    """

    file: File
    student: str
    key: tuple[str, ...]
    assignment: str = ""
    number: str = ""
    attempt: tuple[str, int] = ("", 0)
    late: bool = False
    told: bool = False
    prefix: str = ""


def owners(roots: Sequence[list[File]], assignments: Sequence[str]) -> list[Owned]:
    """Return each file with its owner; a root is the files found under one path that the teacher named."""
    levels, by_folder, side_by_side = [], defaultdict(list), []
    for files in roots:
        inside = _levels(files, assignments)
        if len(files) == 1 and len(files[0].parts) == 1:
            by_folder[files[0].path.absolute().parent].append((files[0], 0))
        elif len(roots) > 1 and not any(_tells_apart(level, assignments) for level in inside):
            side_by_side += [(file, 0) for file in files]
        else:
            levels += inside
    found = [one for level in (*levels, side_by_side) for one in _owners_at(level, assignments)]
    for level in by_folder.values():
        alone = len(by_folder) == 1 or _tells_apart(level, assignments)
        found += _owners_at(level, assignments, {} if alone else {file: "" for file, _ in level})
    return found


Level = list[tuple[File, int]]  # files, and which part of their path lies beside the others'


def _levels(files: list[File], assignments: Sequence[str]) -> list[Level]:
    """Return the files by the places at which their students lie side by side.

    A folder that holds all of them, such as the download's own, is no such place, and neither is a folder
    named after an assignment: both are looked into.
    """
    waiting, found = [(files, 1)], []
    while waiting:
        files, at = waiting.pop()
        inside = defaultdict(list)
        for file in files:
            inside[file.parts[at] if len(file.parts) > at + 1 else ""].append(file)
        level = [(file, min(at, len(file.parts) - 1)) for file in inside.pop("", ())]
        alone = len(inside) == 1 and not any(file.called_notebook for file, _ in level)
        for name, deeper in inside.items():
            below = [(file, at + 1) for file in deeper]
            if is_assignment(name, assignments) or (alone and _wraps(name, below, assignments)):
                waiting.append((deeper, at + 1))
            else:
                level += [(file, at) for file in deeper]
        found += [level] if level else []
    return found


def _wraps(name: str, below: Level, assignments: Sequence[str]) -> bool:
    """Tell whether a name with nothing beside it is that of a folder of several students, not a student's."""
    patterns = platforms_of([name])
    loose = [file for file, at in below if len(file.parts) == at + 1 and file.called_notebook]
    if CANVAS in patterns and len(loose) > 1:  # the download itself, with numbers in its name
        return True
    return _tells_apart(below, assignments) and not set(patterns) - {CANVAS}


def _tells_apart(level: Level, assignments: Sequence[str]) -> bool:
    """Tell whether folders or the names of notebooks at a place are those of several students."""
    folders = {file.parts[at] for file, at in level if len(file.parts) > at + 1}
    folders = {name for name in folders if not is_assignment(name, assignments)}
    loose = [file.name for file, at in level if len(file.parts) == at + 1 and file.called_notebook]
    several = folders.union(loose)
    if len(folders) > 1 or (len(several) > 1 and platforms_of(several)):
        return True
    lefts = defaultdict(set)
    for name in loose:
        left, assignment = without(_plain_stem(name), assignments)
        lefts[assignment].add(left)
    return any(assignment and len(names - {""}) > 1 for assignment, names in lefts.items())


def _owners_at(level: Level, assignments: Sequence[str], names: dict[File, str] | None = None) -> list[Owned]:
    """Return the owners of files that lie side by side.

    `names` are the students, if known already; "" stands for the name of the file's folder.
    """
    handed_in = {file.parts[at] for file, at in level if len(file.parts) > at + 1 or file.called_notebook}
    patterns = platforms_of(handed_in or {file.parts[at] for file, at in level})
    if not names:
        loose = [file for file, at in level if len(file.parts) == at + 1]
        loose = [file for file in loose if not by_platform(file.name, patterns)]
        names = _names_in([file for file in loose if file.called_notebook] or loose, assignments)
    return [_find_owner(file, at, patterns, names, assignments) for file, at in level]


def _find_owner(
    file: File, at: int, patterns: list[re.Pattern], names: dict[File, str], assignments: Sequence[str]
) -> Owned:
    part, inside = file.parts[at], file.parts[at + 1 :]
    attempts = [attempt_of(_stem(name))[1] for name in (part, *inside)]
    if name := by_platform(part, patterns):
        _, assignment = without("/".join(map(_stem, (name.rest, *inside))), assignments)
        count = attempt_of(_stem(name.rest))[1] or max(attempts)
        facts = (assignment, name.number, (name.attempt, count), name.late, True, name.prefix)
        return Owned(file, name.student, ("platform", name.student, name.number), *facts)
    _, assignment = without("/".join((*file.parts[:-1], _stem(file.name))), assignments)
    facts = {"assignment": assignment, "attempt": ("", max(attempts))}
    facts["late"] = any(LATE.search(name) for name in (part, *inside))
    if inside:
        folder = LATE.sub("", _stem(part)).strip(" _-")
        student = safe(without(folder, assignments)[0] or folder)
        return Owned(file, student, (*file.parts[:at], folder), told=True, **facts)
    stem = _plain_stem(part)
    student = names.get(file, "")
    if not student and file in names:  # the name is the assignment's: the file lies in its student's folder
        key = (str(file.path.absolute().parent), *file.parts[:at])
        return Owned(file, _folder_of(file, assignments), key, **facts)
    return Owned(file, student or safe(stem), (*file.parts[:at], stem), **facts)


def _names_in(loose: list[File], assignments: Sequence[str]) -> dict[File, str]:
    """Name the students of files that lie in no student's folder: `anna_05_buffers.ipynb`.

    Of what stands before and after the assignment, the side counts that tells all of them apart. A name that
    is nothing but the assignment's gives "".
    """
    sides, unknown = defaultdict(dict), []
    for file in loose:
        stem = _plain_stem(file.name)
        before, after, assignment = beside(stem, assignments)
        if assignment:
            sides[assignment][file] = before, after
        else:
            unknown.append((file, [token for token in stem.split("_") if token.strip()] or [stem]))
    names = _by_tokens(unknown)
    for found in sides.values():
        pairs = set(found.values())
        for side in (0, 1):
            if len({pair[side] for pair in pairs if pair[side]}) == len(pairs - {("", "")}):
                names |= {file: safe(pair[side]) for file, pair in found.items()}
                break
        else:
            names |= {file: safe("_".join(filter(None, pair))) for file, pair in found.items()}
    return names


def _by_tokens(files: list[tuple[File, list[str]]]) -> dict[File, str]:
    """Tell the students apart by names like `anna_maria_homework`: last words that all share are no names."""
    if not files:
        return {}
    lists = [tokens for _, tokens in files]
    shared = 0
    if len(lists) > 1:
        shortest = min(map(len, lists))
        while shared < shortest - 1 and len({tokens[-1 - shared] for tokens in lists}) == 1:
            shared += 1
    if shared:
        return {file: safe("_".join(tokens[:-shared])) for file, tokens in files}
    count = defaultdict(int)
    for tokens in lists:
        count[tokens[0]] += 1
    return {file: safe(tokens[0] if count[tokens[0]] == 1 else "_".join(tokens)) for file, tokens in files}


def _folder_of(file: File, assignments: Sequence[str]) -> str:
    """Return the nearest folder's name that is not an assignment's."""
    above = file.path.absolute().parts[:-1] if not file.members else ()
    for folder in (*reversed(file.parts[:-1]), *reversed(above)):
        if not is_assignment(_stem(folder), assignments):
            return safe(_stem(folder))
    return safe(_stem(file.name))


def _plain_stem(name: str) -> str:
    """Return a file's name without its ending, the count of attempts and a mark of lateness."""
    return LATE.sub("", attempt_of(_stem(name))[0])


def _stem(name: str) -> str:
    """Return a name without its endings: `05_buffers.ipynb.txt` is called 05_buffers."""
    for ending in (".zip", ".html", ".txt", ".json", ".py", ".pdf", ".docx", ".ipynb"):
        if name.lower().endswith(ending):
            name = name[: -len(ending)]
    return name
