"""Scenes as data, as a still picture, and what the page knows of them."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from devlab.explore import live, scene, still
from devlab.explore.scene import Box, Scene, Shape, Words
from devlab.explore.scene import Path as Line
from devlab.explore.still import svg

PAGE = (Path(live.__file__).parent / "live.js").read_text(encoding="utf-8")
ONE_OF_EACH = (
    Box(id="box", x=1, y=2, wide=30, high=40, hatched=True, says="a < box"),
    Words(id="words", x=5, y=6, words="1 < 2 & 3", bold=True, mono=True, quiet=True),
    Line(id="line", points=((0, 0), (3, 4)), fill="#00ff00", dashed=True, arrow=True, faint=True),
)


def test_there_is_one_of_each_kind():
    """A new kind of shape comes with a line in this test."""
    assert {type(shape) for shape in ONE_OF_EACH} == set(Shape.__subclasses__())


def test_the_still_picture_is_sound_xml_in_which_words_are_words():
    """Whatever they contain."""
    root = ElementTree.fromstring(svg(Scene(50, ONE_OF_EACH, "A caption."), 'said "so" & <so>'))
    assert root.attrib["aria-label"] == 'said "so" & <so>'
    assert "1 < 2 & 3" in "".join(root.itertext())
    assert "a < box" in "".join(root.itertext())
    assert [one.attrib["fill"] for one in root.iter() if one.attrib.get("d") == "M0 0L3 4"] == ["#00ff00"]


@pytest.mark.parametrize("shape", ONE_OF_EACH, ids=lambda shape: shape.id)
def test_the_page_draws_every_kind_and_reads_every_property(shape):
    """A property that the page did not know would be lost without a word."""
    kind = type(shape).__name__
    assert f"draw{kind}(" in PAGE
    told = Scene(50, [shape], "").data()["shapes"][0]
    reads = re.search(rf"draw{kind}\(\{{(.+?)\}}\)", PAGE, re.DOTALL)[1]
    known = set(re.findall(r"(\w+)(?=[,:=\s}]|$)", reads)) | {"kind", "id", "says", "faint"}
    assert set(told) <= known, kind


def test_two_shapes_cannot_share_an_id():
    """The page would lose one of them."""
    with pytest.raises(ValueError, match="cannot share an id: words"):
        Scene(50, [*ONE_OF_EACH, Words(id="words", x=0, y=0, words="again")], "")


def test_what_has_its_usual_value_is_not_sent():
    """What is sent is small, and the usual values are those of the page."""
    (told,) = Scene(9, [Box(id="b", x=1, y=2, wide=3, high=4)], "").data()["shapes"]
    assert told == {"kind": "Box", "id": "b", "x": 1, "y": 2, "wide": 3, "high": 4}
    usual = dict(re.findall(r"(\w+) = ([^,}]+)[,} ]", re.search(r"drawBox\(\{(.+?)\}\)", PAGE)[1]))
    assert {name: value.strip('"') for name, value in usual.items()} == {
        "fill": Box.fill, "thick": str(Box.thick), "round": str(Box.round),
    }  # fmt: skip
    assert f"size = {scene.USUAL}" in PAGE
    assert f"thick = {Line.thick}" in PAGE
    assert f"FAINT = {still.FAINT};" in PAGE
