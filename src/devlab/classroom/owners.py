"""Tells which student each file of a download belongs to, by its path and by what lies beside it.

The outermost part of a path that tells students apart names the student, whatever the names inside it say.
A platform's pattern counts where most of the names beside it follow it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from devlab.classroom.download import File, safe

# How learning platforms name what a teacher downloads. Moodle: a folder a student, or all in one (its source,
# mod/assign/classes/downloader.php; before 4.1 a folder's name ends in "_"). Canvas, with the students' names
# or without: all files in one folder (lib/content_zipper.rb). Blackboard: the same. Brightspace: as Moodle.
PLATFORMS = (
    re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)(?:_(?P<rest>.*))?"),
    re.compile(r"(?P<name>[^_]+)_(?P<late>LATE_)?(?P<id>\d+)_\d+_(?P<rest>.+)"),
    re.compile(r"(?P<late>LATE_)?(?P<name>anon_[^_]+)_\d+_(?P<rest>.+)"),
    re.compile(r".+?_(?P<name>[^_]+)_attempt_(?P<time>\d{4}(?:-\d\d){5})(?:_(?P<rest>.*)|\.txt)?"),
    re.compile(
        r"(?P<id>\d+)-\d+ ?- (?P<name>.+?) ?- (?P<month>[A-Z][a-z]{2})\w* (?P<day>\d+), (?P<year>\d{4}) "
        r"(?P<clock>\d+) (?P<half>[AP])M(?: ?- (?P<rest>.+))?"
    ),
)
MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
# `05_buffers-2`, `05_buffers (2)`, `05_buffers-Copy2`, `Version 2`: the second of several.
ATTEMPT = re.compile(r"(?:-(?:Copy)?|\s*\(|\bVersion )(?P<number>\d{1,3})\)?$", re.IGNORECASE)
EXERCISES = re.compile(r"[\W_]*exercises?$", re.IGNORECASE)
LATE = re.compile(r"(?<![A-Za-z])LATE(?![A-Za-z])")
CANVAS = PLATFORMS[1]  # Canvas names files and no folders, and many other names look like Canvas's names


@dataclass(eq=False)
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


def find_platforms(parts: Iterable[str]) -> list[re.Pattern]:
    """Return the platforms' patterns that names lying side by side follow.

    The pattern that most of the names follow comes first, then the one that most of the others follow, as
    long as it is more than half of those that are left.

    >>> find_platforms(["anna.ipynb", "ben_1_2_x.ipynb"])
    []
    """
    left, found = set(parts), []
    while left:
        following = [(pattern, {part for part in left if pattern.fullmatch(part)}) for pattern in PLATFORMS]
        pattern, most = max(following, key=lambda pair: len(pair[1]))
        if len(most) <= len(left) / 2:
            break
        found.append(pattern)
        left -= most
    return found


def match_platform(part: str, patterns: Iterable[re.Pattern]) -> dict[str, str] | None:
    """Read a name that a learning platform made by one of some patterns; None where it is not of this kind.

    `prefix` is all before the rest; it ends in "/" where the name is a folder's.

    >>> match_platform("Zoë Ångström_4711_assignsubmission_file", PLATFORMS)["prefix"]
    'Zoë Ångström_4711_assignsubmission_file/'
    >>> list(match_platform("muellerjan_LATE_815_90210_05_buffers-2.ipynb", PLATFORMS).values())
    ['muellerjan', '815', '', 'LATE_', '05_buffers-2.ipynb', 'muellerjan_LATE_815_90210_']
    """
    found = next(filter(None, (pattern.fullmatch(part) for pattern in patterns)), None)
    if not found:
        return None
    facts = dict.fromkeys(("name", "id", "time", "late", "rest"), "") | found.groupdict("")
    if "month" in facts:  # Brightspace's 12:26 is 1226, and no text that sorts
        day, clock = (int(facts[name]) for name in ("day", "clock"))
        month = MONTHS.find(facts["month"])
        facts["time"] = f"{facts['year']} {month:02} {day:02} {facts['half']} {clock % 1200:04}"
    return facts | {"prefix": part.removesuffix(facts["rest"]) if facts["rest"] else f"{part}/"}


def split_attempt(stem: str) -> tuple[str, int]:
    """Split a count of attempts from a name: 0 where there is none.

    >>> split_attempt("05_buffers-2"), split_attempt("05_buffers (3)"), split_attempt("05_buffers")
    (('05_buffers', 2), ('05_buffers', 3), ('05_buffers', 0))
    """
    found = ATTEMPT.search(stem)
    return (stem[: found.start()], int(found["number"])) if found and found.start() else (stem, 0)


def split_at_assignment(name: str, assignments: Sequence[str]) -> tuple[str, str, str]:
    """Return what stands before and after the assignment in a name, and the assignment, "" for none.

    The word "exercises" counts as a part of the assignment's name, whether that name has it or not.

    >>> split_at_assignment("anna maria - 05 Buffers (final)", ["05_buffers"])
    ('anna maria', '', '05_buffers')
    >>> split_at_assignment("05_buffers_exercises_anna", ["05_buffers"])
    ('', 'anna', '05_buffers')
    """
    for assignment in sorted(assignments, key=len, reverse=True):
        bare = EXERCISES.sub("", assignment) or assignment
        words = r"[\W_]+".join(map(re.escape, re.split(r"[\W_]+", bare)))
        pattern = re.compile(rf"(?<![^\W_]){words}(?![^\W_])(?:[\W_]*exercises?(?![^\W_]))?", re.IGNORECASE)
        if found := pattern.search(name):
            before, after = (text.strip(" _-–.,") for text in (name[: found.start()], name[found.end() :]))
            return before, re.sub(r"^\((\w+)\)$", "", after), assignment
    return name, "", ""


def is_assignment(part: str, assignments: Sequence[str]) -> bool:
    """Tell whether a folder's name is an assignment's and nothing else.

    >>> is_assignment("05 Buffers", ["05_buffers"]), is_assignment("anna 05 buffers", ["05_buffers"])
    (True, False)
    """
    before, after, assignment = split_at_assignment(split_attempt(part)[0], assignments)
    return bool(assignment) and not before and not after


def find_owners(roots: Sequence[list[File]], assignments: Sequence[str]) -> list[Owned]:
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
    found = [one for level in (*levels, side_by_side) for one in _find_owners_at(level, assignments)]
    for level in by_folder.values():
        alone = len(by_folder) == 1 or _tells_apart(level, assignments)
        found += _find_owners_at(level, assignments, {} if alone else {file: "" for file, _ in level})
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
    patterns = find_platforms([name])
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
    if len(folders) > 1 or (len(several) > 1 and find_platforms(several)):
        return True
    lefts = defaultdict(set)
    for name in loose:
        before, after, assignment = split_at_assignment(_plain_stem(name), assignments)
        lefts[assignment].add(before or after)
    return any(assignment and len(names - {""}) > 1 for assignment, names in lefts.items())


def _find_owners_at(
    level: Level, assignments: Sequence[str], names: dict[File, str] | None = None
) -> list[Owned]:
    """Return the owners of files that lie side by side.

    `names` are the students, if known already; "" stands for the name of the file's folder.
    """
    handed_in = {file.parts[at] for file, at in level if len(file.parts) > at + 1 or file.called_notebook}
    patterns = find_platforms(handed_in or {file.parts[at] for file, at in level})
    if not names:
        loose = [file for file, at in level if len(file.parts) == at + 1]
        loose = [file for file in loose if not match_platform(file.name, patterns)]
        names = _name_students([file for file in loose if file.called_notebook] or loose, assignments)
    return [_find_owner(file, at, patterns, names, assignments) for file, at in level]


def _find_owner(
    file: File, at: int, patterns: list[re.Pattern], names: dict[File, str], assignments: Sequence[str]
) -> Owned:
    part, inside = file.parts[at], file.parts[at + 1 :]
    attempts = [split_attempt(_stem(name))[1] for name in (part, *inside)]
    if told := match_platform(part, patterns):
        *_, assignment = split_at_assignment("/".join(map(_stem, (told["rest"], *inside))), assignments)
        attempt = told["time"], split_attempt(_stem(told["rest"]))[1] or max(attempts)
        student, number, late = safe(told["name"]), told["id"], bool(told["late"])
        facts = (assignment, number, attempt, late, True, told["prefix"])
        return Owned(file, student, ("platform", student, number), *facts)
    *_, assignment = split_at_assignment("/".join((*file.parts[:-1], _stem(file.name))), assignments)
    facts = {"assignment": assignment, "attempt": ("", max(attempts))}
    facts["late"] = any(LATE.search(name) for name in (part, *inside))
    if inside:
        folder = LATE.sub("", _stem(part)).strip(" _-")
        before, after, _ = split_at_assignment(folder, assignments)
        student = safe(before or after or folder)
        return Owned(file, student, (*file.parts[:at], folder), told=True, **facts)
    stem = _plain_stem(part)
    student = names.get(file, "")
    if not student and file in names:  # the name is the assignment's: the file lies in its student's folder
        key = (str(file.path.absolute().parent), *file.parts[:at])
        return Owned(file, _folder_of(file, assignments), key, **facts)
    return Owned(file, student or safe(stem), (*file.parts[:at], stem), **facts)


def _name_students(loose: list[File], assignments: Sequence[str]) -> dict[File, str]:
    """Name the students of files that lie in no student's folder: `anna_05_buffers.ipynb`.

    Of what stands before and after the assignment, the side counts that tells all of them apart. A name that
    is nothing but the assignment's gives "".
    """
    sides, unknown = defaultdict(dict), []
    for file in loose:
        stem = _plain_stem(file.name)
        before, after, assignment = split_at_assignment(stem, assignments)
        if assignment:
            sides[assignment][file] = before, after
        else:
            unknown.append((file, [token for token in stem.split("_") if token.strip()] or [stem]))
    names = _name_by_tokens(unknown)
    for found in sides.values():
        pairs = set(found.values())
        for side in (0, 1):
            if len({pair[side] for pair in pairs if pair[side]}) == len(pairs - {("", "")}):
                names |= {file: safe(pair[side]) for file, pair in found.items()}
                break
        else:
            names |= {file: safe("_".join(filter(None, pair))) for file, pair in found.items()}
    return names


def _name_by_tokens(files: list[tuple[File, list[str]]]) -> dict[File, str]:
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
    count = Counter(tokens[0] for tokens in lists)
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
    return LATE.sub("", split_attempt(_stem(name))[0])


def _stem(name: str) -> str:
    """Return a name without its endings: `05_buffers.ipynb.txt` is called 05_buffers."""
    for ending in (".zip", ".html", ".txt", ".json", ".py", ".pdf", ".docx", ".ipynb"):
        if name.lower().endswith(ending):
            name = name[: -len(ending)]
    return name
