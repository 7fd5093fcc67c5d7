"""Every file of a download, in folders and in zips inside zips, without writing anything to the disk."""

import contextlib
import io
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from devlab.classroom.names import nfc, printable, zip_name

# What systems and tools leave beside a student's files, and nobody handed in.
RUBBISH = {"__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini", ".ipynb_checkpoints", "__pycache__", ".git"}
# Some browsers and people rename a zip. An office document is one too, and is left as it is.
ARCHIVES = (".zip", ".ipynb", ".txt", ".json")
OTHER_ARCHIVES = (".rar", ".7z", ".tar", ".gz", ".tgz", ".bz2", ".xz")
DEEPEST = 5
DEEPEST_FOLDER = 60  # of folders inside each other; what lies deeper is named and not read
TOO_DEEP = f"more than {DEEPEST_FOLDER} folders lie inside each other here: ask for the notebook itself"
# A student's notebook with many pictures has some megabytes; a zip of zeros unpacks to anything.
LARGEST = 50 * 2**20
MOST = 50_000
_kept: tuple[contextlib.ExitStack, dict[Path, zipfile.ZipFile]] | None = None


class Unreadable(Exception):
    """A file that cannot be read; the message says why and what to do."""


def said(problem: Exception) -> str:
    """Return what an exception says, in one short line."""
    text = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
    return printable(text)[:200]


@dataclass(frozen=True)
class File:
    """A file, wherever it is: `parts` is its path below what the teacher named, zips counting as folders.

    `path` is the file on the disk, `members` the way on from there through zips; `changed` is seconds
    since 1970, as far as a zip or the disk knows; `problem` says why it cannot be looked into.
    """

    parts: tuple[str, ...]
    path: Path
    members: tuple[str, ...] = ()
    changed: float = 0.0
    problem: str = ""

    @property
    def name(self) -> str:
        """Return the file's own name."""
        return self.parts[-1]

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
            content: bytes | Path = self.path
            for member in self.members:
                content = _member(content, member)
            return content
        except Unreadable:
            raise
        except Exception as problem:  # whatever a decompressor raises is a problem of this file alone
            raise Unreadable(f"it cannot be read ({said(problem)}): ask for it again") from problem


def files(root: Path) -> Iterator[File]:
    """Yield every file at or below a path, in a fixed order; without rubbish, and following no links.

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
            found, inside = [File(parts, path, problem=f"it cannot be opened ({said(problem)})")], []
        yield from found
        waiting += [(child, (*parts, nfc(child.name))) for child in reversed(inside)]


def _at(path: Path, parts: tuple[str, ...]) -> tuple[list[File], list[Path]]:
    """Return the files that are found at a path, and the paths inside it that are still to be looked at."""
    if path.is_symlink():
        return [File(parts, path, problem="this is a link to another place, which is not followed")], []
    if path.is_dir():
        inside = [one for one in sorted(path.iterdir()) if one.name not in RUBBISH]
        if not inside:
            empty = "the folder is empty: ask for what is missing"
            return [File((*parts, "nothing"), path, problem=empty)], []
        if len(parts) >= DEEPEST_FOLDER:
            return [File(parts, path, problem=TOO_DEEP)], []
        return [], inside
    if path.is_file():
        return list(_opened(File(parts, path, changed=path.stat().st_mtime), path)), []
    return [File(parts, path, problem="this is neither a file nor a folder")], []


def _opened(file: File, content: Path | bytes, depth: int = 0) -> Iterator[File]:
    """Yield a zip's members in place of the zip, and any other file as it is."""
    named = "." not in file.name or file.name.lower().endswith(ARCHIVES)
    if not named or not _begins_as_zip(content):
        yield file
        return
    if depth >= DEEPEST:
        yield _with(file, f"zips are nested more than {DEEPEST} deep: ask for the notebook itself")
        return
    try:
        with zipfile.ZipFile(_stream(content)) as zipped:
            infos = [info for info in zipped.infolist() if not info.is_dir()]
    except Exception as problem:
        yield _with(file, f"the zip is damaged ({said(problem)}): ask for it again")
        return
    if not infos or len(infos) > MOST:
        found = f"has {len(infos):,} files" if infos else "is empty"
        yield _with(file, f"the zip {found}: ask for the notebook itself")
        return
    for info in sorted(infos, key=lambda one: one.filename):
        try:
            yield from list(_member_of(file, info, depth))
        except Exception as problem:
            why = f"it cannot be opened ({said(problem)})"
            parts, members = (*file.parts, printable(info.filename)), (*file.members, info.filename)
            yield File(parts, file.path, members, problem=why)


def _member_of(file: File, info: zipfile.ZipInfo, depth: int) -> Iterator[File]:
    names = nfc(zip_name(info)).replace("\\", "/").split("/")
    inner = tuple(name for name in names if name not in ("", "."))
    if not inner or RUBBISH & set(inner) or inner[-1].startswith("._"):
        return
    parts = (*file.parts, *inner[:DEEPEST_FOLDER])
    member = File(parts, file.path, (*file.members, info.filename), _changed(info))
    if info.flag_bits & 1:
        yield _with(member, "the zip has a password: unpack it, and name the folder")
    elif info.file_size > LARGEST:
        yield _with(member, _too_large(info.file_size))
    elif len(inner) > DEEPEST_FOLDER:
        yield _with(member, TOO_DEEP)
    elif "." not in inner[-1] or inner[-1].lower().endswith(ARCHIVES):
        try:
            yield from _opened(member, member.read(), depth + 1)
        except Unreadable as problem:
            yield _with(member, str(problem))
    else:
        yield member


def _with(file: File, problem: str) -> File:
    return File(file.parts, file.path, file.members, file.changed, problem)


def _too_large(size: int) -> str:
    return f"it has {size / 2**20:.0f} MB, and no notebook needs more than 50: ask for it without its outputs"


def _begins_as_zip(content: Path | bytes) -> bool:
    if isinstance(content, bytes):
        return content[:2] == b"PK"
    try:
        with content.open("rb") as stream:
            return stream.read(2) == b"PK"
    except OSError:
        return False


def _stream(content: Path | bytes):
    return io.BytesIO(content) if isinstance(content, bytes) else content


@contextlib.contextmanager
def kept_open() -> Iterator[None]:
    """Keep zips open for the length of a block that reads many of their members.

    Opening a class's zip reads its whole table of contents. None stays open afterwards: a sandboxed process
    must not inherit a way to what others handed in.
    """
    global _kept
    _kept = contextlib.ExitStack(), {}
    try:
        with _kept[0]:
            yield
    finally:
        _kept = None


def _archive(content: Path | bytes) -> contextlib.AbstractContextManager[zipfile.ZipFile]:
    if _kept is None or isinstance(content, bytes):
        return zipfile.ZipFile(_stream(content))
    stack, opened = _kept
    if content not in opened:
        opened[content] = stack.enter_context(zipfile.ZipFile(content))
    return contextlib.nullcontext(opened[content])


def _member(content: Path | bytes, name: str) -> bytes:
    with _archive(content) as zipped, zipped.open(name) as stream:
        # What the zip says of a member's size may be a lie.
        data = stream.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise Unreadable(_too_large(len(data)))
    return data


def _changed(info: zipfile.ZipInfo) -> float:
    try:
        return time.mktime((*info.date_time, 0, 0, -1))
    except (ValueError, OverflowError):
        return 0.0
