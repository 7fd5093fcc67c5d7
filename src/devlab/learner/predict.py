"""`devlab.predict`: guess before you look. The guess is made by a click, and the truth is set beside it."""

from dataclasses import dataclass, replace

from devlab.explore.controls import Action, Refused
from devlab.explore.explorer import Explorer
from devlab.explore.scene import Scene
from devlab.learner.progress import guess_of, record_guess
from devlab.panel import Note


@dataclass(frozen=True)
class State:
    """A guess, and what is the case; None where they are not known yet."""

    guess: str | None = None
    truth: str | None = None


class Prediction(Explorer):
    """A question with its choices; `was(truth)` tells what is the case.

    What a notebook stores, and what is printed where there is no notebook, is the question alone: it is the
    same for every reader. The guess and the truth stand in the live card.
    """

    def __init__(self, question: str, choices: tuple[str, ...]):
        self.choices = choices
        controls = [Action(choice, self._guess(choice), _open) for choice in choices]
        super().__init__(question, State(), draw, self._describe, controls)
        remembered = guess_of(question)
        if remembered in choices:
            self.state = State(remembered)

    def _guess(self, choice: str):
        def guess(state: State) -> State:
            record_guess(self.title, choice)
            return replace(state, guess=choice)

        return guess

    def was(self, truth: object) -> None:
        """Say what is the case; the question's card sets the guess beside it.

        Raises:
            Refused: when the truth is none of the choices.
        """
        truth = str(truth)
        if truth not in self.choices:
            raise Refused(f"{truth!r} is none of the choices: {', '.join(map(repr, self.choices))}.")
        self.state = replace(self.state, truth=truth)
        self.redraw()
        Note(f"{self.title} {truth}").show()

    def was_about(self, number: float) -> None:
        """Say which of the choices, all of them numbers, comes nearest to what is the case.

        >>> guess = predict("How many segments?", 1, 10)
        How many segments?
          - 1
          - 10
        >>> guess.was_about(2)
        How many segments? 1
        """
        self.was(min(self.choices, key=lambda choice: abs(float(choice) - number)))

    def _describe(self, state: State) -> str:
        return f"{sentence(state)} The choices: {'; '.join(self.choices)}."

    def text(self) -> str:
        """Return the question and its choices."""
        return "\n".join([self.title, *(f"  - {choice}" for choice in self.choices)])

    def html(self, mark: str = "") -> str:
        """Return the question and its choices, without the guess."""
        return f'<div data-devlab-still="{mark}">{Note(self.text()).html()}</div>'


def _open(state: State) -> bool:
    """A guess can be changed until the truth is known."""
    return state.truth is None


def sentence(state: State) -> str:
    """Say where a guess stands.

    >>> sentence(State("cpu", "sim:0"))
    '✗ Your guess: cpu. The answer: sim:0.'
    """
    if state.truth is None:
        if state.guess is None:
            return "What do you think? Choose before you run the next cell."
        return f"Your guess: {state.guess}. Now run the next cell."
    if state.guess is None:
        return f"The answer: {state.truth}."
    if state.guess == state.truth:
        return f"✓ Your guess is right: {state.truth}."
    return f"✗ Your guess: {state.guess}. The answer: {state.truth}."


def draw(state: State) -> Scene:
    """Return a scene of words alone: where the guess stands."""
    return Scene(0, [], sentence(state))


def predict(question: str, *choices: object) -> Prediction:
    """Ask for a guess and return the question; its `was(truth)` sets the truth beside the guess.

    The guess is made with a click or a key, can be changed until the truth is known, and is remembered like
    progress; it is counted and never graded. A notebook that runs from top to bottom does not stop for it.

    Raises:
        ValueError: when the question is empty, or there are fewer than two choices, or two alike.

    >>> guess = predict("Where is y?", "cpu", "sim:0")
    Where is y?
      - cpu
      - sim:0
    >>> guess.was("sim:0")
    Where is y? sim:0
    """
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"a question in words is needed, not {question!r}")
    words = tuple(map(str, choices))
    if len(words) < 2 or len(set(words)) < len(words):
        raise ValueError(f"at least two choices that differ are needed after the question, not {words!r}")
    asked = Prediction(question, words)
    asked.show()
    return asked
