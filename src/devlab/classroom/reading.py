"""Reads what a student handed in as a notebook, or says what it is instead and what to do."""

import codecs
import json
from collections import Counter

from devlab.classroom.unpack import Unreadable

AGAIN = "ask for the .ipynb file (in JupyterLab: File, Download)"
# The first bytes of what is handed in by mistake.
KINDS = (
    (b"%PDF", f"this is a PDF: {AGAIN}"),
    (b"PK", f"this is a zip archive or an office document: {AGAIN}"),
    (b"\x1f\x8b", f"this is a compressed archive: {AGAIN}"),
    (b"\x89PNG", f"this is a picture: {AGAIN}"),
    (b"\xff\xd8\xff", f"this is a picture: {AGAIN}"),
    (b"\xd0\xcf\x11\xe0", f"this is an office document: {AGAIN}"),
    (b"version https://git-lfs", f"this is a pointer of git-lfs, not the file: {AGAIN}"),
)
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def notebook_of(content: bytes) -> tuple[dict, list[str]]:
    """Return a notebook of format 4, and remarks on what had to be guessed; raises Unreadable.

    Each of its cells has a `cell_type`, a `source` in one piece and `metadata`.

    >>> notebook_of(b'{"cells": [{"cell_type": "code", "source": ["1 + ", "2"]}]}')[0]["cells"][0]["source"]
    '1 + 2'
    """
    if not content.strip(b"\0 \t\r\n"):
        raise Unreadable(f"the file is empty: {AGAIN}")
    for start, problem in KINDS:
        if content.startswith(start):
            raise Unreadable(problem)
    text, remarks = _decoded(content)
    try:
        notebook = json.loads(text)
    except RecursionError as problem:
        raise Unreadable(f"its JSON is nested too deep for any notebook: {AGAIN}") from problem
    except ValueError as problem:
        raise Unreadable(_no_json(text, problem)) from problem
    if not isinstance(notebook, dict) or not {"cells", "worksheets"} & set(notebook):
        raise Unreadable(f"this is JSON, but no notebook: {AGAIN}")
    if "cells" not in notebook:
        raise Unreadable("a notebook of the old format 3: open it in JupyterLab and save it, then grade that")
    return {**notebook, "cells": _cells(notebook["cells"])}, remarks


def _decoded(content: bytes) -> tuple[str, list[str]]:
    for mark, encoding in MARKS:
        if content.startswith(mark):
            try:
                return content.decode(encoding), []
            except UnicodeDecodeError as problem:
                raise Unreadable(f"it is damaged at byte {problem.start}: {AGAIN}") from problem
    if content[1:2] == b"\0" or content[:1] == b"\0":
        encoding = "utf-16-le" if content[1:2] == b"\0" else "utf-16-be"
        return content.decode(encoding, "replace"), []
    try:
        return content.decode("utf-8"), []
    except UnicodeDecodeError:
        remark = "not in UTF-8; read as Windows-1252, so that letters outside English may be wrong"
        return content.decode("cp1252", "replace"), [remark]


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
    """Return the cells that are cells: one that is damaged must not cost the others."""
    if not isinstance(cells, list):
        raise Unreadable(f"its cells are damaged: {AGAIN}")
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
        kept.append({**cell, "source": source.replace("\r\n", "\n"), "metadata": metadata})
    return kept


def doubles(notebook: dict) -> list[str]:
    """Return the grade ids that more than one cell has, as a copied cell makes them."""
    seen = Counter(
        facts["grade_id"] for cell in notebook["cells"] if (facts := cell["metadata"].get("nbgrader"))
    )
    return [grade_id for grade_id, count in seen.items() if count > 1]


def without_doubles(notebook: dict) -> dict:
    """Return a notebook whose grade ids are single: of several cells, the last stays what it was.

    The others stay as ordinary cells. nbgrader gives up on a whole class over one notebook with doubles.
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
