"""Reads a download: the files in folders and zips, and notebooks."""

import functools
import io
import json
import re
import time
import unicodedata
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

# Characters that are not allowed in every path, or that mean something in nbgrader's patterns.
UNSAFE = re.compile(r'[\\/:*?"<>|+\[\]{}\x00-\x1f\x7f]')


def nfc(text: str) -> str:
    """Return text with each accented letter as one character: on macOS a letter and its accent may be two.

    The name of a file that is not UTF-8 is read as Windows-1252, or else as Latin-1.

    >>> nfc("Zoe\\u0308") == nfc("Zo\\udceb") == "Zo\\u00eb"
    True
    """
    for encoding in ("utf-8", "cp1252", "latin-1"):
        try:
            text = text.encode("utf-8", "surrogateescape").decode(encoding)
            break
        except UnicodeError:  # also for a lone surrogate that stands for no byte of a file's name
            continue
    return unicodedata.normalize("NFC", text)


def printable(text: str) -> str:
    r"""Return text that does nothing to a terminal: students choose the names of files.

    >>> printable("anna\x1b[2J")
    'anna?[2J'
    """
    return "".join(one if one.isprintable() else "?" for one in text)


def safe(name: str) -> str:
    """Return a name that can be a folder's on every system, and an id in nbgrader.

    It has no comma, since `nbgrader export` sets no name in quotation marks.

    >>> safe("  O'Neil, Ana + co. ")
    "O'Neil Ana _ co"
    """
    words = " ".join(UNSAFE.sub("_", printable(nfc(name))).replace(",", " ").split())
    return words.strip(" .")[:100].strip(" .")


def zip_name(info: zipfile.ZipInfo) -> str:
    """Return a member's name as it was meant: zips without the UTF-8 flag hold UTF-8 or an old code page."""
    if info.flag_bits & 0x800:
        return info.filename
    try:
        return info.filename.encode("cp437").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return info.filename


# Files that systems and tools leave beside a student's files; no student handed them in.
RUBBISH = {"__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini", ".ipynb_checkpoints", "__pycache__", ".git"}
# Endings under which a zip is opened: browsers and people rename zips. An office document is a zip, too, and
# is not opened.
ARCHIVES = (".zip", ".ipynb", ".txt", ".json")
OTHER_ARCHIVES = (".rar", ".7z", ".tar", ".gz", ".tgz", ".bz2", ".xz")
DEEPEST = 5
DEEPEST_FOLDER = 60  # folders inside each other; deeper files are listed and not read
TOO_DEEP = f"more than {DEEPEST_FOLDER} folders lie inside each other here: ask for the notebook itself"
# A student's notebook with many pictures has some megabytes; a zip of zeros unpacks to anything.
LARGEST = 50 * 2**20
MOST = 50_000  # files in a zip
LONGEST_NAME = 255  # characters, as on a disk; a zip may hold names of 65,000
MOST_CELLS = 10_000  # in a notebook
# How many files, and how many bytes of zips, may come out of the zips inside a zip: out of each that lies in
# it directly (with those inside it), and out of all together.
SHARE, WHOLE = (5_000, 200 * 2**20), (500_000, 2 * 2**30)


class Unreadable(Exception):
    """A file that cannot be read; the message says why and what to do."""


def reason_of(problem: Exception) -> str:
    """Return what an exception says, in one short line."""
    text = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
    return printable(text)[:200]


@dataclass
class Share:
    """How many files, and bytes of zips, may still come out of a zip; `whole` is what this is a share of."""

    entries: int
    size: int
    whole: "Share | None" = None

    def take(self, entries: int, size: int) -> None:
        """Count what is about to come out; raises Unreadable where that is more than is left."""
        self.entries, self.size = self.entries - entries, self.size - size
        if min(self.entries, self.size) < 0:
            raise Unreadable("too much is packed into this zip: ask for the notebook itself")
        if self.whole:
            self.whole.take(entries, size)


@dataclass(frozen=True)
class File:
    """A file, wherever it is: `parts` is its path below what the teacher named, zips counting as folders.

    `path` is the file on the disk, `members` the way on from there through zips; `changed` is seconds
    since 1970 and `size` bytes, as far as a zip or the disk knows; `problem` says why the file is not read.
    """

    parts: tuple[str, ...]
    path: Path
    members: tuple[str, ...] = ()
    changed: float = 0.0
    problem: str = ""
    size: int = 0

    @property
    def name(self) -> str:
        """Return the file's own name."""
        return self.parts[-1]

    @property
    def called_notebook(self) -> bool:
        """Tell whether the name is a notebook's, whatever ending was put behind `.ipynb`."""
        return ".ipynb" in self.name.lower()

    @property
    def date(self) -> str:
        """Return when the file was changed last, as nbgrader writes it, "" where nothing tells."""
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.changed)) if self.changed else ""

    @property
    def shown(self) -> str:
        """Return the path to show a teacher: `download.zip/anna/05_buffers.ipynb`."""
        return printable("/".join(map(nfc, (self.path.as_posix(), *self.members))))

    def read(self) -> bytes:
        """Return the content; raises Unreadable where it cannot be had, or is over 50 MB."""
        try:
            if not self.members:
                if self.path.stat().st_size > LARGEST:
                    raise Unreadable(_too_large(self.path.stat().st_size))
                return self.path.read_bytes()
            return _content(_innermost(_archive(self.path), self.members[:-1]), self.members[-1])
        except Unreadable:
            raise
        except Exception as problem:  # whatever a decompressor raises is a problem of this file alone
            raise Unreadable(f"it cannot be read ({reason_of(problem)}): ask for it again") from problem


def walk_files(root: Path) -> Iterator[File]:
    """Yield every file at or below a path, in a fixed order. Rubbish is left out, and links are not followed.

    An empty folder is yielded too, with a problem: it may be a student's.
    """
    waiting = [(root, (nfc(root.name or root.resolve().name),))]
    while waiting:
        path, parts = waiting.pop()
        if path.name in RUBBISH or path.name.startswith("._"):
            continue
        try:
            found, inside = _at(path, parts)
        except Exception as problem:
            found, inside = [File(parts, path, problem=_why(problem))], []
        yield from found
        waiting += [(child, (*parts, nfc(child.name))) for child in reversed(inside)]


def _why(problem: Exception) -> str:
    return str(problem) if isinstance(problem, Unreadable) else f"it cannot be opened ({reason_of(problem)})"


def _at(path: Path, parts: tuple[str, ...]) -> tuple[list[File], list[Path]]:
    """Return the files that are found at a path, and the paths inside it that are still to be looked at."""
    if path.is_symlink():
        raise Unreadable("this is a link to another place, which is not followed")
    if path.is_dir():
        inside = [one for one in sorted(path.iterdir()) if one.name not in RUBBISH]
        if inside and len(parts) >= DEEPEST_FOLDER:
            raise Unreadable(TOO_DEEP)
        empty = File((*parts, "nothing"), path, problem="the folder is empty: ask for what is missing")
        return [empty] * (not inside), inside
    if not path.is_file():
        raise Unreadable("this is neither a file nor a folder")
    facts = path.stat()
    return list(_open(File(parts, path, changed=facts.st_mtime, size=facts.st_size), path)), []


def _open(file: File, content: Path | bytes, depth: int = 0, share: Share | None = None) -> Iterator[File]:
    """Yield a zip's members in place of the zip, and any other file as it is; raises Unreadable.

    `share` is what may still come out of the zips that this one lies in, None where it lies in none.
    """
    if not _may_be_zip(file.name) or not _begins_as_zip(content):
        yield file
        return
    if depth >= DEEPEST:
        raise Unreadable(f"zips are nested more than {DEEPEST} deep: ask for the notebook itself")
    if isinstance(content, bytes) and content.count(b"PK\1\2") > MOST:  # its list takes seconds
        raise Unreadable(f"it has more than {MOST:,} files")
    try:
        zipped = _archive(content)
    except Exception as problem:
        raise Unreadable(f"the zip is damaged ({reason_of(problem)}): ask for it again") from problem
    infos = [info for info in zipped.infolist() if not info.is_dir()]
    if not infos or len(infos) > MOST:
        found = f"has {len(infos):,} files" if infos else "is empty"
        raise Unreadable(f"the zip {found}: ask for the notebook itself")
    if share:
        share.take(len(infos), 0)
    whole = Share(*WHOLE)
    for info in sorted(infos, key=lambda one: one.filename):
        names = nfc(zip_name(info)).replace("\\", "/").split("/")
        inner = tuple(name for name in names if name not in ("", "."))
        if not inner or RUBBISH & set(inner) or inner[-1].startswith("._"):
            continue
        parts = (*file.parts, *(name[:LONGEST_NAME] for name in inner[:DEEPEST_FOLDER]))
        member = File(parts, file.path, (*file.members, info.filename), _time_of(info), size=info.file_size)
        try:
            _require_sound(info, inner)
            yield from list(_open_member(member, zipped, depth, share or Share(*SHARE, whole)))
        except Exception as problem:
            told = (*file.members, info.filename[:LONGEST_NAME])
            yield replace(member, members=told, problem=_why(problem))


def _require_sound(info: zipfile.ZipInfo, inner: tuple[str, ...]) -> None:
    """Raise Unreadable where a member of a zip, at a path inside it, is not to be read."""
    if info.flag_bits & 1:
        raise Unreadable("the zip has a password: unpack it, and name the folder")
    if info.file_size > LARGEST:
        raise Unreadable(_too_large(info.file_size))
    if len(inner) > DEEPEST_FOLDER:
        raise Unreadable(TOO_DEEP)
    if (longest := max(map(len, inner))) > LONGEST_NAME:
        raise Unreadable(f"a name in its path has {longest:,} characters: ask for it by a shorter name")


def _open_member(member: File, zipped: zipfile.ZipFile, depth: int, share: Share) -> Iterator[File]:
    name = member.members[-1]
    if not _may_be_zip(member.name) or _content(zipped, name, 2) != b"PK":
        yield member
        return
    share.take(1, member.size)
    yield from _open(member, _content(zipped, name), depth + 1, share)


def _may_be_zip(name: str) -> bool:
    return "." not in name or name.lower().endswith(ARCHIVES)


def _too_large(size: int) -> str:
    return f"it has {size / 2**20:.0f} MB, and no notebook needs more than 50: ask for it without its outputs"


def _begins_as_zip(content: Path | bytes) -> bool:
    if isinstance(content, bytes):
        return content[:2] == b"PK"
    with content.open("rb") as stream:
        return stream.read(2) == b"PK"


def _archive(content: Path | bytes) -> zipfile.ZipFile:
    if isinstance(content, bytes):
        return zipfile.ZipFile(io.BytesIO(content))
    facts = content.stat()
    return _archive_at(content, facts.st_ino, facts.st_size, facts.st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _archive_at(path: Path, *facts: int) -> zipfile.ZipFile:
    """Return an archive as long as the file stays as it is: opening a class's reads its whole contents."""
    return zipfile.ZipFile(path)


@functools.lru_cache(maxsize=1)
def _innermost(zipped: zipfile.ZipFile, members: tuple[str, ...]) -> zipfile.ZipFile:
    """Return the zip that a file lies in. The last one is kept, since the next file often lies in it, too."""
    for member in members:
        zipped = _archive(_content(zipped, member))
    return zipped


def _content(zipped: zipfile.ZipFile, name: str, most: int = LARGEST + 1) -> bytes:
    """Return a member's content, or its first `most` bytes; raises Unreadable."""
    try:
        with zipped.open(name) as stream:
            data = stream.read(most)
    except Exception as problem:  # whatever a decompressor raises is a problem of this file alone
        raise Unreadable(f"it cannot be read ({reason_of(problem)}): ask for it again") from problem
    if len(data) > LARGEST:  # the zip may have changed since its members were listed
        raise Unreadable(_too_large(len(data)))
    return data


def _time_of(info: zipfile.ZipInfo) -> float:
    try:
        return time.mktime((*info.date_time, 0, 0, -1))
    except (ValueError, OverflowError):
        return 0.0


AGAIN = "ask for the .ipynb file (in JupyterLab: File, Download)"
# The first bytes of files that students hand in by mistake, and the remark on each.
KINDS = (
    (b"%PDF", f"this is a PDF: {AGAIN}"),
    (b"PK", f"this is a zip archive or an office document: {AGAIN}"),
    (b"\x1f\x8b", f"this is a compressed archive: {AGAIN}"),
    (b"\x89PNG", f"this is a picture: {AGAIN}"),
    (b"\xff\xd8\xff", f"this is a picture: {AGAIN}"),
    (b"\xd0\xcf\x11\xe0", f"this is an office document: {AGAIN}"),
    (b"version https://git-lfs", f"this is a pointer of git-lfs, not the file: {AGAIN}"),
)


def is_notebook(content: bytes) -> bool:
    """Tell whether a file whose name does not say so is meant to be a notebook, or part of one."""
    return b"{" in content[:64] and b"cells" in content.replace(b"\0", b"")


def notebook_of(content: bytes) -> tuple[dict, list[str]]:
    """Return a notebook of format 4, and remarks on what had to be guessed; raises Unreadable.

    Each of its cells has a `cell_type`, a `source` in one piece and `metadata`, and an `id` that is text or
    none.

    >>> notebook_of(b'{"cells": [{"cell_type": "code", "source": ["1 + ", "2"]}]}')[0]["cells"][0]["source"]
    '1 + 2'
    """
    if not content.strip(b"\0 \t\r\n"):
        raise Unreadable(f"the file is empty: {AGAIN}")
    for start, problem in KINDS:
        if content.startswith(start):
            raise Unreadable(problem)
    text, remarks = _decode(content)
    try:
        notebook = json.loads(text)
    except (RecursionError, MemoryError) as problem:
        raise Unreadable(f"its JSON is nested too deep for any notebook: {AGAIN}") from problem
    except ValueError as problem:
        raise Unreadable(_no_json(text, problem)) from problem
    if not isinstance(notebook, dict) or "cells" not in notebook:
        raise Unreadable(f"this is JSON, but no notebook: {AGAIN}")
    return {**notebook, "cells": _cells(notebook["cells"])}, remarks


def _decode(content: bytes) -> tuple[str, list[str]]:
    """Return the text, and a remark where its encoding is a guess."""
    encoding, remarks = json.detect_encoding(content), []
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as problem:
        if encoding != "utf-8":
            raise Unreadable(f"it is damaged at byte {problem.start}: {AGAIN}") from problem
        text = content.decode("cp1252", "replace")
        remarks = ["not in UTF-8; read as Windows-1252, so that letters outside English may be wrong"]
    return text.strip("\0\ufeff \t\r\n"), remarks


def _no_json(text: str, problem: ValueError) -> str:
    start = text.lstrip()[:2000].lower()
    if start.startswith(("<!doctype html", "<html", "<?xml")):
        return f"this is a saved web page: {AGAIN}"
    if any(mark in text for mark in ("\n<<<<<<< ", "\n>>>>>>> ")):
        return "it holds git's marks of a merge conflict: ask the student to settle it and hand in again"
    if not start.startswith(("{", "[")):
        if start.startswith(("import ", "from ", "#", "def ", "class ")):
            return f"this is Python code, not a notebook: {AGAIN}"
        return f"this is text, but no notebook: {AGAIN}"
    if not isinstance(problem, json.JSONDecodeError):
        return f"its JSON is damaged ({problem}): {AGAIN}"
    if problem.pos >= len(text.rstrip()) or problem.msg.startswith("Unterminated"):
        return f"it is cut off in the middle, at line {problem.lineno}: {AGAIN}"
    return f"its JSON is damaged at line {problem.lineno}: {AGAIN}"


def _cells(cells: object) -> list[dict]:
    """Return the cells that can be read: a damaged cell must not cost the others."""
    if not isinstance(cells, list):
        raise Unreadable(f"its cells are damaged: {AGAIN}")
    if len(cells) > MOST_CELLS:
        raise Unreadable(f"it has {len(cells):,} cells, more than any notebook needs: {AGAIN}")
    kept = []
    for cell in cells:
        source = cell.get("source") if isinstance(cell, dict) else None
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if not isinstance(source, str) or not isinstance(cell.get("cell_type"), str):
            continue
        metadata = cell.get("metadata") if isinstance(cell.get("metadata"), dict) else {}
        facts = metadata.get("nbgrader")
        if "nbgrader" in metadata and not (
            isinstance(facts, dict) and isinstance(facts.get("grade_id"), str)
        ):
            metadata = {key: value for key, value in metadata.items() if key != "nbgrader"}
        cell = {key: value for key, value in cell.items() if key != "id" or isinstance(value, str)}
        kept.append({**cell, "source": whole(source.replace("\r\n", "\n")), "metadata": metadata})
    return kept


def whole(text: object) -> str:
    """Return text without lone surrogates: escapes in a notebook can make them, and UTF-8 has none."""
    return str(text).encode("utf-8", "replace").decode("utf-8")


def without_doubles(notebook: dict) -> dict:
    """Return a notebook in which each grade id and each cell's id stands once.

    Of several cells with one grade id the last keeps it, and the others become ordinary cells. nbgrader gives
    up on a whole class over one notebook with doubles.
    """
    cells, seen, ids = [], set(), set()
    for cell in reversed(notebook["cells"]):
        facts = cell["metadata"].get("nbgrader", {})
        if facts.get("grade_id") in seen:
            rest = {name: value for name, value in cell["metadata"].items() if name != "nbgrader"}
            cell = {**cell, "metadata": rest}
        seen |= {facts["grade_id"]} if facts else set()
        if cell.get("id") in ids:
            cell = {**cell, "id": f"copy-{len(cells)}"}
        ids |= {cell["id"]} if "id" in cell else set()
        cells.append(cell)
    return {**notebook, "cells": cells[::-1]}
