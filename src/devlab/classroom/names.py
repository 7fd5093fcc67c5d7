"""Who handed a file in, and what for, as the names in its path tell."""

import re
import unicodedata
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# How learning platforms name what a teacher downloads. Moodle: a folder a student, or all in one. Canvas and
# Blackboard: all files in one folder. Brightspace: a folder a student, or all in one.
PLATFORMS = (
    re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)(?:_(?P<rest>.*))?"),
    re.compile(r"(?P<name>[^_]+)_(?P<late>LATE_)?(?P<id>\d+)_\d+_(?P<rest>.+)"),
    re.compile(r".+?_(?P<name>[^_]+)_attempt_(?P<time>\d{4}(?:-\d\d){5})(?:_(?P<rest>.*)|\.txt)?"),
    re.compile(
        r"(?P<id>\d+)-\d+ ?- (?P<name>.+?) ?- (?P<time>\w+ \d+, \d{4} \d+ [AP]M)(?: ?- (?P<rest>.+))?"
    ),
)
# `05_buffers-2`, `05_buffers (2)`, `05_buffers-Copy2`, `Version 2`: the second of several.
ATTEMPT = re.compile(r"(?:-(?:Copy)?|\s*\(|\bVersion )(?P<number>\d{1,3})\)?$", re.IGNORECASE)
EXERCISES = re.compile(r"[\W_]*exercises?$", re.IGNORECASE)
LATE = re.compile(r"(?<![A-Za-z])LATE(?![A-Za-z])")
# What a path or a pattern of nbgrader's could stumble over.
UNSAFE = re.compile(r'[\\/:*?"<>|+\[\]{}\x00-\x1f\x7f]')


@dataclass(frozen=True)
class Name:
    """What a name tells: the student (and the platform's number for them), an attempt, lateness, the rest."""

    student: str = ""
    number: str = ""
    attempt: str = ""
    late: bool = False
    rest: str = ""


def nfc(text: str) -> str:
    """Return text with each accented letter as one character: macOS hands out two, others one.

    A name of a file that is not UTF-8 is read as Windows' or ISO's Latin letters.

    >>> nfc("Zoe\\u0308") == nfc("Zo\\udceb") == "Zo\\u00eb"
    True
    """
    for encoding in ("utf-8", "cp1252", "latin-1"):
        try:
            text = text.encode("utf-8", "surrogateescape").decode(encoding)
            break
        except UnicodeError:  # for half a character, too, which is in no name that a system gives
            continue
    return unicodedata.normalize("NFC", text)


def printable(text: str) -> str:
    r"""Return text that does nothing to a terminal: names of files are whatever students made them.

    >>> printable("anna\x1b[2J")
    'anna?[2J'
    """
    return "".join(one if one.isprintable() else "?" for one in text)


def platforms_of(parts: Iterable[str]) -> list[re.Pattern]:
    """Return the patterns that names lying side by side share: each that of most of those that are left.

    >>> platforms_of(["anna.ipynb", "ben_1_2_x.ipynb"])
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


def by_platform(part: str, patterns: Iterable[re.Pattern]) -> Name | None:
    """Read a name that a learning platform made by one of some patterns; None where it is not of this kind.

    >>> by_platform("Zoë Ångström_4711_assignsubmission_file_", PLATFORMS)
    Name(student='Zoë Ångström', number='4711', attempt='', late=False, rest='')
    >>> by_platform("muellerjan_LATE_815_90210_05_buffers-2.ipynb", PLATFORMS)
    Name(student='muellerjan', number='815', attempt='', late=True, rest='05_buffers-2.ipynb')
    """
    found = next(filter(None, (pattern.fullmatch(part) for pattern in patterns)), None)
    if not found:
        return None
    facts = {"id": "", "time": "", "late": None, "rest": ""} | found.groupdict()
    student = safe(facts["name"])
    return Name(student, facts["id"], facts["time"], bool(facts["late"]), facts["rest"] or "")


def safe(name: str) -> str:
    """Return a name that can be a folder's on every system, and an id in nbgrader.

    >>> safe("  O'Neil, Ana + co. ")
    "O'Neil, Ana _ co"
    """
    words = " ".join(UNSAFE.sub("_", printable(nfc(name))).split())
    return words.strip(" .")[:100].strip(" .")


def attempt_of(stem: str) -> tuple[str, int]:
    """Split a count of attempts from a name: 0 where there is none.

    >>> attempt_of("05_buffers-2"), attempt_of("05_buffers (3)"), attempt_of("05_buffers")
    (('05_buffers', 2), ('05_buffers', 3), ('05_buffers', 0))
    """
    found = ATTEMPT.search(stem)
    return (stem[: found.start()], int(found["number"])) if found and found.start() else (stem, 0)


def beside(name: str, assignments: Sequence[str]) -> tuple[str, str, str]:
    """Return what stands before and after the assignment in a name, and which it is; "" where it is none.

    The word "exercises" belongs to an assignment's name, whether it has it or not.

    >>> beside("anna maria - 05 Buffers (final)", ["05_buffers"])
    ('anna maria', '', '05_buffers')
    >>> beside("05_buffers_exercises_anna", ["05_buffers"])
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


def without(name: str, assignments: Sequence[str]) -> tuple[str, str]:
    """Split the assignment from a name: what is left, and which; "" where none is in it.

    >>> without("anna maria - 05 Buffers (final)", ["05_buffers"])
    ('anna maria', '05_buffers')
    """
    before, after, assignment = beside(name, assignments)
    return before or after, assignment


def is_assignment(part: str, assignments: Sequence[str]) -> bool:
    """Tell whether a folder's name is an assignment's and nothing else.

    >>> is_assignment("05 Buffers", ["05_buffers"]), is_assignment("anna 05 buffers", ["05_buffers"])
    (True, False)
    """
    left, assignment = without(attempt_of(part)[0], assignments)
    return bool(assignment) and not left


def zip_name(info: zipfile.ZipInfo) -> str:
    """Return a member's name as it was meant: zips without the UTF-8 flag hold UTF-8 or an old code page."""
    if info.flag_bits & 0x800:
        return info.filename
    try:
        return info.filename.encode("cp437").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return info.filename
