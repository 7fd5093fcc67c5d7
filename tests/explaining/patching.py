"""Carrying out what explain proposes: the changed program, in a file of its own."""

import importlib.util
import itertools
from pathlib import Path

_copies = itertools.count()


def apply(report, path: Path, folder: Path):
    """Return the module at `path` as it is after the changes that a report shows."""
    assert report.changes, report.text()
    assert report.changes[0].where.startswith(f"{path.name}, line "), report.text()
    copy = folder / f"again_{next(_copies)}_{path.name}"
    copy.write_text(report.changed[str(path)], encoding="utf-8")
    spec = importlib.util.spec_from_file_location(copy.stem, copy)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
