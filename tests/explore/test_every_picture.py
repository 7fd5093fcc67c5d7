"""What holds for each of the explorers, in each state that its controls reach one by one."""

import re
from itertools import combinations

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
    """The same state gives the same picture, to the last byte."""
    explorer = opened(name)
    before = explorer.state
    first, second = explorer.html(), explorer.html()
    assert explorer.state == before
    assert first == second
    assert first.count("<svg") == 1
    assert 'role="img"' in first
    assert "currentColor" in first
    assert "#000000" not in first


def test_no_two_pictures_share_an_id():
    """They stand in one page, where the letters of one would be drawn from another, and vanish with it."""
    pages = [opened(name).html() for name in NAMES]
    ids = [set(re.findall(r' id="([^"]+)"', page)) for page in pages]
    assert all(one.isdisjoint(other) for one, other in combinations(ids, 2))
    for page, own in zip(pages, ids, strict=True):
        assert own
        assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', page)) <= own


@pytest.mark.parametrize("name", NAMES)
def test_every_control_has_a_label_and_moves_the_state(name):
    """A control that changes nothing would be a broken one."""
    explorer = opened(name)
    labels = [control.label for control in explorer.controls]
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
