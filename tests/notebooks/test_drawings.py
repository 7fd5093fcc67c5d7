"""The drawings of the lessons: each can be read, is used, and stands in its notebook as an image."""

import base64
import re
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from explore.fitting import faults

from devlab.carried import files
from factory.drawings import DRAWINGS, drawn
from factory.reading import SourceError

ROOT = Path(__file__).resolve().parents[2]
USED = re.compile(r"\(drawing:(\w+)\)")


@pytest.mark.parametrize("name", DRAWINGS)
def test_every_word_can_be_read(name):
    """Nothing is cut off and nothing is written over other words."""
    assert faults(DRAWINGS[name]()) == []


def test_every_drawing_is_in_a_lesson():
    """And every lesson names drawings that there are."""
    used = [
        name for path in (ROOT / "source" / "lessons").glob("*.py") for name in USED.findall(path.read_text())
    ]
    assert sorted(used) == sorted(DRAWINGS)


def test_a_drawing_that_is_not_there_is_said_with_those_that_are():
    """The message is for whoever writes a lesson."""
    with pytest.raises(SourceError, match="no drawing 'all_reduced'; there is: "):
        drawn("![words](drawing:all_reduced)")


def test_an_image_is_sound_and_says_its_words():
    """What stands in the notebook is an SVG; its words are those of the lesson."""
    (said, data) = re.fullmatch(
        r"!\[(.+)\]\(data:image/svg\+xml;base64,(.+)\)", drawn("![a b](drawing:all_reduce)")
    ).groups()
    root = ElementTree.fromstring(base64.b64decode(data))
    assert said == root.attrib["aria-label"] == "a b"


def test_every_lesson_shows_a_picture_without_running():
    """An image in its prose, or one that an explorer left in its output."""
    for path in files("lessons"):
        cells = nbformat.read(path, as_version=4).cells
        outputs = [
            out.get("data", {}).get("text/html", "") for cell in cells for out in cell.get("outputs", [])
        ]
        shown = [cell.source for cell in cells if cell.cell_type == "markdown"] + outputs
        assert any("data:image/svg+xml;base64," in text for text in shown), path.name
