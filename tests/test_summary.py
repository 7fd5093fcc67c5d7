"""The sheet for the wall says what the last lesson says: one text, in two places."""

from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
RULE = "> **Move the model once"


def test_the_sheet_is_the_lessons_summary():
    """Edit the summary in source/lessons/11_training_step.py, then copy it, from the rule on."""
    cells = nbformat.read(ROOT / "notebooks" / "11_training_step.ipynb", as_version=4).cells
    (cell,) = [cell.source for cell in cells if cell.source.startswith("## Summary")]
    sheet = (ROOT / "docs" / "summary.md").read_text("utf-8")
    assert sheet[sheet.index(RULE) :].strip() == cell[cell.index(RULE) :].strip()
