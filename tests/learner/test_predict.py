"""`devlab.predict`: a guess is remembered and never graded, the truth is set beside it, nothing waits."""

from types import SimpleNamespace

import IPython.display
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


@pytest.fixture
def shown(monkeypatch):
    """Return what stands in the cell that tells the truth, as it is at the end, for a question in a page."""
    cells = []

    def display(data, raw, display_id):
        cells.append(data)
        place = len(cells) - 1
        return SimpleNamespace(update=lambda data, raw: cells.__setitem__(place, data))

    monkeypatch.setattr(IPython.display, "display", display)
    monkeypatch.setattr(devlab.learner.predict.Prediction, "show", lambda one: one._drawn.append(str))
    return cells


def test_an_open_question_is_stored_as_it_was_asked_and_a_guess_with_it(asked):
    """So that a notebook that is opened the next day still shows what was said."""
    before = asked.bundle("m")
    assert before["text/plain"] == "Where is y?\n  - cpu\n  - sim:0"
    assert "Run the cell to guess." in before["text/html"]
    asked.press("cpu")
    assert "You said “cpu”." in asked.bundle("m")["text/html"]
    again = devlab.predict(QUESTION, "cpu", "sim:0")
    assert again.bundle("m") == asked.bundle("m")
    again.was("cpu")
    assert "Run the cell to guess." not in again.bundle("m")["text/html"]


def test_a_guess_is_remembered_and_the_truth_is_set_beside_it(asked, capsys):
    """By the words of the card, whose signs do not rely on colour."""
    assert asked.scene.caption == "What do you think? Guess before you run the next cell."
    asked.press("cpu")
    again = devlab.predict(QUESTION, "cpu", "sim:0")
    assert again.scene.caption == "You said “cpu”. Now run the next cell."
    capsys.readouterr()
    again.was("sim:0")
    assert capsys.readouterr().out == "Where is y?\n✗ You said “cpu”. The answer is “sim:0”.\n"
    assert again.scene.caption == "✗ You said “cpu”. The answer is “sim:0”."


def test_a_guess_cannot_be_changed_once_the_truth_is_known(asked):
    """Before that, as often as a reader likes."""
    asked.press("cpu")
    asked.press("sim:0")
    asked.was("sim:0")
    assert sentence(asked.state) == "✓ You said “sim:0”. The answer is “sim:0”."
    with pytest.raises(Refused, match="'cpu' can do nothing in this state"):
        asked.press("cpu")


def test_without_a_page_the_truth_is_printed_without_a_guess(asked, capsys):
    """Nobody could click there."""
    capsys.readouterr()
    asked.was("cpu")
    assert capsys.readouterr().out == "Where is y? The answer is “cpu”.\n"
    assert progress.guesses() == {}


def test_run_all_leaves_the_question_open_and_the_answer_folded(shown):
    """The guess may come after the truth, and opens the answer in the cell that found it."""
    asked = devlab.predict(QUESTION, "cpu", "sim:0")
    asked.was("sim:0")
    assert "<details data-devlab-open>" in shown[0]["text/html"]
    assert "sim:0" not in asked.words.removesuffix("The choices: cpu; sim:0.")
    asked.press("cpu")
    assert "<details" not in shown[0]["text/html"]
    assert "✗ You said “cpu”. The answer is “sim:0”." in shown[0]["text/html"]
    assert len(shown) == 1


def test_the_buttons_look_chosen_then_right_or_wrong(asked):
    """The right one is shown, too, when another was chosen."""

    def looks():
        return [(one.pressed(asked.state), one.look(asked.state)) for one in asked.controls]

    assert looks() == [(False, ""), (False, "")]
    asked.press("cpu")
    assert looks() == [(True, ""), (False, "")]
    asked.was("sim:0")
    assert looks() == [(True, "wrong"), (False, "right")]


@pytest.mark.parametrize(
    ("guess", "truth", "about", "right"),
    [
        (50, 50, False, True),
        (49, 50, False, False),
        (26, 50.4, True, True),
        (100, 50.4, True, True),
        (25, 50.4, True, False),
        (101, 50.4, True, False),
        (-3, -2, True, True),
        (0, 0, True, True),
    ],
)
def test_a_number_is_guessed_exactly_or_by_ratio(guess, truth, about, right, capsys):
    """Within a factor of 2, and the truth is said with two digits."""
    asked = devlab.predict("How many times?")
    asked.set(guess=guess)
    (asked.was_about if about else asked.was)(truth)
    assert asked.state.right is right
    assert sentence(asked.state) == f"{'✓' if right else '✗'} You said {guess}. It is {truth:.0f}."
    with pytest.raises(Refused, match="the guess stays"):
        asked.set(guess=1)


def test_a_number_is_remembered_and_what_is_no_number_is_refused(capsys):
    """A field that was left empty sends nothing."""
    asked = devlab.predict("How many times?")
    asked.set(guess=2.5)
    assert devlab.predict("How many times?").scene.caption == "You said 2.5. Now run the next cell."
    with pytest.raises(Refused, match="a number, not None"):
        asked.set(guess=None)
    with pytest.raises(Refused, match="a number, not 'many'"):
        asked.was("many")


@pytest.mark.parametrize(
    ("number", "choices", "nearest"),
    [(52.7, (3, 30, 300), "30"), (13, (1, 10, 20), "10"), (1.9, (0, 1, 2), "2"), (150, (30, 300), "300")],
)
def test_of_numbers_to_choose_from_the_nearest_by_ratio_is_right(number, choices, nearest, capsys):
    """By difference where a ratio says nothing, as with 0; 150 is five times 30 and half of 300."""
    asked = devlab.predict("How many?", *choices)
    asked.press(nearest)
    asked.was_about(number)
    assert asked.state.right
    assert f"and {nearest} is nearest" in asked.scene.caption


@pytest.mark.parametrize(
    ("truth", "choices", "meant"),
    [
        (True, ("it is", "it is not"), "it is"),
        (False, ("it is", "it is not"), "it is not"),
        ([], ("a", "b", "none"), "none"),
        (["b"], ("a", "b", "none"), "b"),
        (["a", "b"], ("a", "b", "a and b"), "a and b"),
        (["a", "b"], ("a", "b", "either"), "either"),
        ([5.0, 2.0], ("[5.0, 2.0]", "an error"), "[5.0, 2.0]"),
    ],
)
def test_a_truth_may_be_told_as_it_was_found(truth, choices, meant, capsys):
    """So that no cell of a lesson ends with a line that is harder than its subject."""
    asked = devlab.predict("Which?", *choices)
    asked.was(truth)
    assert asked.state.truth == meant


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
    states = [State(), State("a"), State(None, "a"), State("a", "a"), State("b", "a"), State(3, 1)]
    assert len({sentence(state) for state in states}) == len(states)
