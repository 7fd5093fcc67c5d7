"""Who each file of a download belongs to, judged by its path and by what lies beside it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from devlab.classroom.names import LATE, attempt_of, by_platform, is_assignment, safe, without
from devlab.classroom.unpack import File


@dataclass(frozen=True)
class Owned:
    """A file and what its path tells: the student, the assignment if named, which attempt, and lateness.

    `number` is the platform's for the student. `told` says that the path surely tells a student, so that
    even a file that is no notebook is something they handed in.
    """

    file: File
    student: str
    assignment: str = ""
    number: str = ""
    attempt: tuple[str, int] = ("", 0)
    late: bool = False
    told: bool = False


def owners(roots: Sequence[list[File]], assignments: Sequence[str]) -> list[Owned]:
    """Return each file with its owner; a root is the files found under one path that the teacher named."""
    found = []
    for files in roots:
        wrapped = _wrapping(files, assignments)
        starts = {file: _start(file, wrapped, assignments) for file in files}
        loose = [file for file in files if starts[file] == len(file.parts) - 1]
        names = _names_in(loose, assignments, several=len(roots) > 1)
        found += [_owned(file, starts[file], names, assignments) for file in files]
    return found


def _start(file: File, wrapped: int, assignments: Sequence[str]) -> int:
    """Return which part of the path names the student, past a folder for the assignment."""
    start = min(wrapped, len(file.parts) - 1)
    while start < len(file.parts) - 1 and is_assignment(file.parts[start], assignments):
        start += 1
    return start


def _owned(file: File, start: int, names: dict[File, str], assignments: Sequence[str]) -> Owned:
    stem = _stem(file.name)
    attempts = [attempt_of(part)[1] for part in (*file.parts[:-1], stem)]
    for position, part in enumerate(file.parts):
        if name := by_platform(part):
            inner = "/".join((_stem(name.rest), *file.parts[position + 1 :]))
            count = attempt_of(_stem(name.rest))[1] or max(attempts)
            _, assignment = without(inner, assignments)
            return Owned(file, name.student, assignment, name.number, (name.attempt, count), name.late, True)
    late = any(LATE.search(part) for part in file.parts[start:])
    _, assignment = without("/".join((*file.parts[:-1], stem)), assignments)
    if file in names:
        return Owned(file, names[file], assignment, attempt=("", max(attempts)), late=late)
    folder = LATE.sub("", _stem(file.parts[start])).strip(" _-")
    student = safe(without(folder, assignments)[0] or folder)
    return Owned(file, student, assignment, attempt=("", max(attempts)), late=late, told=True)


def _wrapping(files: list[File], assignments: Sequence[str]) -> int:
    """Return how many leading parts of every path are wrapping, such as the download's own name.

    `download.zip/Class 7/anna/05.ipynb` beside `download.zip/Class 7/ben/05.ipynb` has two.
    """
    deep = [file for file in files if len(file.parts) > 1]
    if not deep:
        return 0
    wrapped = 1
    while True:
        # What lies loose beside the folders is a teacher's list or a platform's index.
        nested = [file.parts for file in deep if len(file.parts) > wrapped + 1]
        first = {parts[wrapped] for parts in nested}
        if len(first) != 1:
            return wrapped
        (only,) = first
        second = {parts[wrapped + 1] for parts in nested if len(parts) > wrapped + 2}
        if not is_assignment(only, assignments):
            several = len({one for one in second if not is_assignment(one, assignments)}) > 1
            if not several or by_platform(only):
                return wrapped
        wrapped += 1


def _names_in(loose: list[File], assignments: Sequence[str], several: bool) -> dict[File, str]:
    """Name the students of files that lie in no student's folder: `anna_05_buffers.ipynb`."""
    names, unknown = {}, []
    for file in loose:
        stem = LATE.sub("", attempt_of(_stem(file.name))[0])
        left, assignment = without(stem, assignments)
        if assignment and left:
            names[file] = safe(left)
        elif assignment or several:
            names[file] = _folder_of(file, assignments)
        else:
            unknown.append((file, [token for token in stem.split("_") if token.strip()] or [stem]))
    return names | _by_tokens(unknown)


def _by_tokens(files: list[tuple[File, list[str]]]) -> dict[File, str]:
    """Tell the students apart by names like `anna_maria_homework`, whatever the last words mean."""
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
        if not is_assignment(folder, assignments):
            return safe(_stem(folder))
    return safe(_stem(file.name))


def _stem(name: str) -> str:
    for ending in (".ipynb", ".zip", ".html", ".txt", ".py", ".pdf", ".docx"):
        if name.lower().endswith(ending):
            return name[: -len(ending)]
    return name
