"""Carrying out what explain proposes: the changed program, in a file of its own."""

import ast
import importlib.util
import itertools
import re
from pathlib import Path

_copies = itertools.count()


def changed(source: str, line: int, code: str, before: bool) -> str:
    """Return a source with the statement at a line replaced, or with a line added before it."""
    lines = source.splitlines()
    starting = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.stmt) and n.lineno <= line]
    covering = [n for n in starting if n.end_lineno >= line]
    statement = max(covering, key=lambda n: n.lineno)
    indent = " " * statement.col_offset
    last = statement.lineno - 1 if before else statement.end_lineno
    return "\n".join([*lines[: statement.lineno - 1], indent + code, *lines[last:], ""])


def apply(report, path: Path, folder: Path):
    """Return the module at `path` as it is after the change that a report proposes."""
    place = re.search(r"(\S+), line (\d+)", report.mend_where)
    assert place, report.text()
    assert place[1] == path.name, report.text()
    text = changed(path.read_text(encoding="utf-8"), int(place[2]), report.mend, report.mend_before)
    copy = folder / f"again_{next(_copies)}_{path.name}"
    copy.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(copy.stem, copy)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
