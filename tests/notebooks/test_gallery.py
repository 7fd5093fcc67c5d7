"""The pictures for readers without a kernel: docs/gallery.html, and the README's picture that moves."""

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from devlab import explore
from factory import gallery, moving

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "gallery.html").read_text("utf-8")
FRESH = "import json, sys; from factory import gallery; print(json.dumps(gallery.store(sys.argv[1])))"


def test_the_page_stores_todays_views():
    """If it does not: make notebooks."""
    assert gallery.is_current(PAGE)


@pytest.mark.thorough
@pytest.mark.parametrize("name", explore.__all__)
def test_each_stored_view_is_todays(name):
    """Down to the last one, in a process that has drawn nothing yet."""
    env = os.environ | {"DEVLAB_DEVICE": "sim", "PYTHONPATH": str(ROOT / "source")}
    fresh = subprocess.run([sys.executable, "-c", FRESH, name], env=env, capture_output=True, check=True)
    assert gallery.are_alike(
        json.dumps(gallery.read_stored(PAGE)[name]), json.dumps(json.loads(fresh.stdout))
    )


def test_every_stored_wish_is_offered_and_leads_to_a_view():
    """A wish is stored under the words in which the page asks for it."""
    for name, held in gallery.read_stored(PAGE).items():
        for view, led in zip(held["views"], held["answers"], strict=True):
            shapes = [held["shapes"][number] for number in view["scene"]["shapes"]]
            offered = gallery.list_wishes(view | {"scene": view["scene"] | {"shapes": shapes}})
            assert {*map(json.dumps, map(json.loads, led))} <= {*map(json.dumps, offered)}, name
            assert all(0 <= number < len(held["views"]) for number in led.values())


def test_a_page_with_an_older_script_is_not_current():
    """Neither is a page with another first view."""
    assert not gallery.is_current(PAGE.replace("class Picture", "class Painting"))
    held = gallery.read_stored(PAGE)["allocator"]
    held["views"][0] = held["views"][0] | {"title": "Another"}
    assert not gallery.has_first_views("allocator", held)


def test_the_moving_picture_is_todays_and_ends_as_the_scene():
    """It is written by `make notebooks`; what is animated ends with the still picture's values."""
    text = (ROOT / moving.PICTURE).read_text("utf-8")
    assert text == moving.make_picture()
    parts = ElementTree.fromstring(text).iter()
    moved = [part for part in parts if part.tag.endswith(("animate", "animateTransform"))]
    assert len(moved) >= 4
    for part in moved:
        ends = part.get("values").split(";")[-1]
        flows = (
            part.get("attributeName") == "stroke-dashoffset" or ends == "hidden"
        )  # bytes that have arrived
        assert flows or ends in ("0 0", "visible") or part.get("attributeName") == "width"
