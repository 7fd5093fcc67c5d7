"""`devlab.predict`: a guess is remembered and never graded, the truth is set beside it, nothing waits."""

import pytest

import devlab
from devlab.explore.controls import Refused
from devlab.learner import overview, progress
from devlab.learner.predict import State, sentence

QUESTION = "Where is y?"


@pytest.fixture(autouse=True)
def own_file(tmp_path, monkeypatch):
    """Keep the progress of these tests to themselves."""
    monkeypatch.setenv("DEVLAB_PROGRESS", str(tmp_path / "progress.jsonl"))


@pytest.fixture
def asked(capsys):
    """Ask a question."""
    return devlab.predict(QUESTION, "cpu", "sim:0")


def test_what_is_stored_and_printed_is_the_same_for_every_reader(asked, capsys):
    """Before a guess, after it, and in the next run, which remembers it."""
    before = asked.bundle("m")
    asked.press("cpu")
    assert asked.bundle("m") == before
    again = devlab.predict(QUESTION, "cpu", "sim:0")
    assert again.bundle("m") == before
    assert before["text/plain"] == "Where is y?\n  - cpu\n  - sim:0"


def test_a_guess_is_remembered_and_the_truth_is_set_beside_it(asked, capsys):
    """By the words of the card, whose signs do not rely on colour."""
    assert asked.scene.caption == "What do you think? Choose before you run the next cell."
    asked.press("cpu")
    again = devlab.predict(QUESTION, "cpu", "sim:0")
    assert again.scene.caption == "Your guess: cpu. Now run the next cell."
    capsys.readouterr()
    again.was("sim:0")
    assert capsys.readouterr().out == "Where is y? sim:0\n"
    assert again.scene.caption == "✗ Your guess: cpu. The answer: sim:0."


def test_a_guess_cannot_be_changed_once_the_truth_is_known(asked):
    """Before that, as often as a reader likes."""
    asked.press("cpu")
    asked.press("sim:0")
    asked.was("sim:0")
    assert sentence(asked.state) == "✓ Your guess is right: sim:0."
    with pytest.raises(Refused, match="'cpu' can do nothing in this state"):
        asked.press("cpu")


def test_a_notebook_that_runs_through_needs_no_guess(asked):
    """The truth is shown all the same."""
    asked.was("cpu")
    assert asked.scene.caption == "The answer: cpu."
    assert progress.guesses() == {}


def test_guesses_are_counted_and_change_no_verdict(asked, capsys):
    """They stand below the overview of the exercises."""
    assert "guess" not in overview.progress().text()
    asked.press("cpu")
    asked.press("sim:0")
    devlab.predict("And x?", "cpu", "sim:0").press("cpu")
    standing = overview.progress()
    assert "2 guesses made before looking; they are not graded" in standing.text()
    assert progress.load() == ({}, 0)


def test_a_truth_that_is_no_choice_is_refused(asked):
    """With the choices that there are."""
    with pytest.raises(Refused, match="'cuda' is none of the choices: 'cpu', 'sim:0'"):
        asked.was("cuda")


@pytest.mark.parametrize(
    ("question", "choices", "words"),
    [
        ("", ("a", "b"), "a question in words is needed, not ''"),
        (7, ("a", "b"), "a question in words is needed, not 7"),
        ("which?", ("a",), "at least two choices that differ are needed"),
        ("which?", ("a", "a"), "at least two choices that differ are needed"),
    ],
)
def test_a_question_without_choices_is_refused_in_words(question, choices, words):
    """With what was given."""
    with pytest.raises(ValueError, match=words):
        devlab.predict(question, *choices)


def test_the_words_for_each_state_differ():
    """Open, guessed, told, right and wrong."""
    states = [State(), State("a"), State(None, "a"), State("a", "a"), State("b", "a")]
    assert len({sentence(state) for state in states}) == len(states)
