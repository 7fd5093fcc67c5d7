"""The sheet for the wall begins with the rule of lesson 11, and the lesson leads to it."""

from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
RULE = "> **Move the model once, each batch once, and make helpers from existing tensors.**"


def test_the_sheet_and_the_lesson_have_one_rule():
    """Its one line stands in both, word for word, and the lesson's last cell links to the sheet."""
    cells = nbformat.read(ROOT / "notebooks" / "11_training_step.ipynb", as_version=4).cells
    assert sum(RULE in cell.source for cell in cells) == 1
    assert "](../docs/summary.md)" in cells[-1].source
    assert RULE in (ROOT / "docs" / "summary.md").read_text("utf-8")
