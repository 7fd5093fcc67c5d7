"""Makes every notebook of the course from its source: `make notebooks`, or `python source/build.py --help`.

Before that, each exercise's table of known mistakes is made from its bank of answers.

source/lessons/NN_name.py    ->  notebooks/NN_name.ipynb   executed
source/exercises/NN_name.py  ->  solutions/NN_name.ipynb   executed
                                 exercises/NN_name_exercises.ipynb   solutions cleared, not executed

Last come the pictures for readers without a kernel, docs/gallery.html and docs/images/a_gigabyte.svg.
"""

import argparse
import os
import sys
from pathlib import Path

from factory.cache import Cache
from factory.exercises import Points, rows_of
from factory.make import make, orphans, sources, targets
from factory.reading import SourceError

ROOT = Path(__file__).resolve().parents[1]


def build(root: Path, *, force: bool = False, only: str = "", points: Points = rows_of) -> int:
    """Bring the notebooks of `root` up to date, one printed line each; return how many sources failed."""
    cache = Cache(root)
    failed = 0
    for source in sources(root):
        if not source.stem.startswith(only):
            continue
        outcome = "up to date"
        if force or not cache.is_current(source):
            try:
                made = make(source, root, points)
            except SourceError as error:
                print(f"failed      {error}", file=sys.stderr, flush=True)
                failed += 1
                continue
            for target, text in made.items():
                _write(root / target, text)
            cache.remember(source)
            outcome = "built"
        for target in targets(source):
            print(f"{outcome:<11} {target}", flush=True)
    for orphan in orphans(root):
        orphan.unlink()
        print(f"removed     {orphan.relative_to(root).as_posix()} (it has no source)")
    return failed


def build_tables(*, force: bool = False) -> None:
    """Bring the tables of known mistakes up to date, a printed line for each that was made."""
    sys.path.append(str(ROOT / "tests"))
    from factory import mistakes  # here, because it reads the banks of answers among the tests

    for name, table in mistakes.tables().items():
        if force or not mistakes.is_current(table):
            _write(table, mistakes.make(name, table))
            print(f"{'built':<11} {table.relative_to(ROOT).as_posix()}", flush=True)


def build_pictures(*, force: bool = False) -> None:
    """Bring the gallery and the README's moving picture up to date, a printed line for each that was made."""
    os.environ["DEVLAB_DEVICE"] = "sim"  # before the explorers look for devices, as for the notebooks
    from factory import gallery, moving

    page = ROOT / "docs" / "gallery.html"
    if force or not page.exists() or not gallery.is_current(page.read_text("utf-8")):
        _write(page, gallery.make_gallery())
        print(f"{'built':<11} {page.relative_to(ROOT).as_posix()}", flush=True)
    picture, text = ROOT / moving.PICTURE, moving.make_picture()
    if not picture.exists() or picture.read_text("utf-8") != text:
        _write(picture, text)
        print(f"{'built':<11} {moving.PICTURE}", flush=True)


def _write(path: Path, text: str) -> None:
    """Replace a file whole: an interrupted build leaves the old notebook, never half of the new one."""
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(text, encoding="utf-8", newline="\n")
    os.replace(unfinished, path)


def main() -> int:
    """Read the command line, build, and return the exit status."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--force", action="store_true", help="rebuild even what is up to date")
    parser.add_argument("--only", default="", metavar="NN", help="only sources so numbered, as in 05")
    parser.add_argument("--tables", action="store_true", help="only the tables of known mistakes")
    options = parser.parse_args()
    build_tables(force=options.force)
    if options.tables:
        return 0
    try:
        if build(ROOT, force=options.force, only=options.only):
            return 1
        if not options.only:
            build_pictures(force=options.force)
        return 0
    except SourceError as error:
        print(f"failed      {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
