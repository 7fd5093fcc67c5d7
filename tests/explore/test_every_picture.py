"""What holds for each of the explorers, in each state that its controls reach one by one."""

import base64
import contextlib
import html
import json
import re
from xml.etree import ElementTree

import pytest
from explore.fitting import faults

from devlab import explore
from devlab.explore.controls import Action, Choice, Number, Refused, Setting, Switch

NAMES = explore.__all__


def opened(name: str):
    """Return an explorer without showing it."""
    from importlib import import_module

    return import_module(f"devlab.explore.pictures.{name}").explorer()


def states(explorer) -> list:
    """Return the first state and every state one change away."""
    found, first = [explorer.state], explorer.state
    for control in explorer.controls:
        explorer.state = first
        if isinstance(control, Choice):
            values = [value for _, value in control.pairs]
        elif isinstance(control, Switch):
            values = [True, False]
        elif isinstance(control, Number):
            values = [control.least, control.most]
        else:
            if isinstance(control, Action) and control.can(first):
                found.append(control.act(first))
            continue
        for value in values:
            explorer.set(**{control.field: value})
            found.append(explorer.state)
            explorer.state = first
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("name", NAMES)
def test_every_text_can_be_read(name):
    """Nothing is cut off and nothing is written over, whatever one control is turned to."""
    explorer = opened(name)
    for state in states(explorer):
        assert faults(explorer.draw(state)) == [], state


@pytest.mark.parametrize("name", NAMES)
def test_the_words_differ_with_the_state(name, capsys):
    """Outside a notebook the words are all there is."""
    explorer = getattr(explore, name)()
    assert capsys.readouterr().out.strip() == explorer.text().strip()
    said = {explorer.describe(state) for state in states(explorer)}
    assert len(said) > 1
    assert all(0 < len(words) < 700 for words in said)


@pytest.mark.parametrize("name", NAMES)
def test_drawing_changes_nothing(name):
    """The same state gives the same picture, to the last byte, live and still."""
    explorer = opened(name)
    before = explorer.state
    assert explorer.html() == explorer.html()
    assert explorer.scene.data() == explorer.scene.data()
    assert explorer.state == before


@pytest.mark.parametrize("name", NAMES)
def test_the_still_picture_is_an_image_with_words_for_those_who_cannot_see_it(name):
    """An image survives in a notebook that nobody trusts; an SVG in the page would be taken out of it."""
    explorer = opened(name)
    page = explorer.html()
    (words,) = re.findall(r'<img alt="([^"]+)"', page)
    assert html.unescape(words) == explorer.words
    assert "<svg" not in page
    (held,) = re.findall(r"base64,([^\"]+)", page)
    ElementTree.fromstring(base64.b64decode(held))


@pytest.mark.parametrize("name", NAMES)
def test_every_state_can_be_sent_and_fits_into_one_frame(name):
    """As JSON; the picture has one height, so that nothing below it jumps, and is low enough for a laptop."""
    explorer = opened(name)
    scenes = []
    for state in states(explorer):
        explorer.state = state
        scenes.append(explorer.scene)
        json.dumps(scenes[-1].data())
    assert len({scene.high for scene in scenes}) == 1
    assert scenes[0].high <= 400
    assert len({scene.seconds is None for scene in scenes}) == 1


@pytest.mark.parametrize("name", NAMES)
def test_what_a_shape_asks_for_can_be_had(name):
    """By a click, or by dragging it to any of its places."""
    explorer = opened(name)
    for state in states(explorer):
        explorer.state = state
        for shape in explorer.scene.shapes:
            for wish in filter(None, (shape.asks, *(stop.asks for stop in shape.stops))):
                explorer.state = state
                # A program whose lines were moved may not run any more, which is answered in words.
                with contextlib.suppress(*([Refused] if "own" in wish.get("set", ()) else [])):
                    explorer.set(**wish["set"]) if "set" in wish else explorer.press(wish["press"])
            if shape.asks or shape.stops:
                assert shape.says, f"{shape.id} can be used, and does not say for what"


@pytest.mark.parametrize("name", NAMES)
def test_every_control_has_a_label_and_moves_the_state(name):
    """A control that changes nothing would be a broken one."""
    explorer = opened(name)
    labels = [control.label for control in explorer.controls if not control.drawn]
    assert len(set(labels)) == len(labels)
    assert all(labels)
    for control in explorer.controls:
        if isinstance(control, Choice):
            assert len(control.pairs) > 1
    assert len(states(explorer)) > 1


@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_set_is_refused_in_words(name):
    """With the names and the values that there are."""
    explorer = opened(name)
    with pytest.raises(Refused, match="There is no 'colour' to set here"):
        explorer.set(colour="red")
    with pytest.raises(Refused, match="There is no button 'Explode' here"):
        explorer.press("Explode")
    for control in explorer.controls:
        if isinstance(control, Setting):
            with pytest.raises(Refused, match=control.field):
                explorer.set(**{control.field: object()})
