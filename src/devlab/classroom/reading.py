"""Reads what a student handed in as a notebook, or says what it is instead and what to do."""

import json

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
    text, remarks = _decoded(content)
    try:
        notebook = json.loads(text)
    except (RecursionError, MemoryError) as problem:
        raise Unreadable(f"its JSON is nested too deep for any notebook: {AGAIN}") from problem
    except ValueError as problem:
        raise Unreadable(_no_json(text, problem)) from problem
    if not isinstance(notebook, dict) or not {"cells", "worksheets"} & set(notebook):
        raise Unreadable(f"this is JSON, but no notebook: {AGAIN}")
    if "cells" not in notebook:
        remarks.append("a notebook of the old format 3")
        notebook = {"cells": _cells_of_format_3(notebook["worksheets"]), "metadata": {}}
    return {**notebook, "cells": _cells(notebook["cells"])}, remarks


def _decoded(content: bytes) -> tuple[str, list[str]]:
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


def _cells_of_format_3(worksheets: object) -> list[dict]:
    """Return the cells of an old notebook: its code is called input, and a heading is a type of its own."""
    cells = []
    for sheet in worksheets if isinstance(worksheets, list) else ():
        for cell in sheet.get("cells", ()) if isinstance(sheet, dict) else ():
            if isinstance(cell, dict):
                kind = "markdown" if cell.get("cell_type") == "heading" else cell.get("cell_type")
                cells.append({**cell, "cell_type": kind, "source": cell.get("input", cell.get("source"))})
    return cells


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
        cell = {key: value for key, value in cell.items() if key != "id" or isinstance(value, str)}
        kept.append({**cell, "source": whole(source.replace("\r\n", "\n")), "metadata": metadata})
    return kept


def whole(text: object) -> str:
    """Return text without halves of characters, which escapes in a notebook make and no file can hold."""
    return str(text).encode("utf-8", "replace").decode("utf-8")


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
