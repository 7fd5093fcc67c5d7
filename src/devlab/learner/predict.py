"""`devlab.predict`: guess before you look. The guess is made by a click, and the truth is set beside it."""

import contextlib
import math
from dataclasses import dataclass, replace

from devlab.checks.result import CHIPS, Outcome
from devlab.explore.controls import Action, Amount, Refused
from devlab.explore.explorer import Explorer
from devlab.explore.scene import Scene
from devlab.explore.still import framed
from devlab.learner.progress import guesses, record_guess
from devlab.panel import Note, card, escape

NEAR = 2  # the factor by which a guess of a ratio may be off
# A cell whose question is still open shows nothing but errors, and a line that opens it.
OPEN = (
    "<style>.jp-OutputArea:has([data-devlab-open]:not([open])) > .jp-OutputArea-child:not(:has("
    '[data-devlab-open], [data-mime-type="application/vnd.jupyter.error"])){display:none}</style>'
)


@dataclass(frozen=True)
class State:
    """A guess, and what is the case, each a choice or a number; None where they are not known yet.

    A number may be off by a `factor`; `nearest` is the choice that comes nearest to a true number.
    """

    guess: str | float | None = None
    truth: str | float | None = None
    factor: float = 1
    nearest: str = ""

    @property
    def right(self) -> bool:
        """Tell whether the guess is as good as was asked."""
        if isinstance(self.guess, str):
            return self.guess == (self.nearest or self.truth)
        low, high = sorted((self.truth / self.factor, self.truth * self.factor))
        return low <= self.guess <= high

    @property
    def open(self) -> bool:
        """Tell whether the guess can still be made or changed: until it stands beside the truth."""
        return self.truth is None or self.guess is None

    def look(self, guess: object) -> str:
        """Return how the button of a guess looks: "right", "wrong", or "" while nothing is known."""
        if self.open or guess not in (self.guess, self.truth, self.nearest):
            return ""
        return "right" if self.right or guess != self.guess else "wrong"


class Prediction(Explorer):
    """A question; `was(truth)` or `was_about(number)` tells what is the case, in the cell that found it.

    As long as there is no guess, the answer is folded away, and the question stays open.
    """

    def __init__(self, question: str, choices: tuple[str, ...]):
        self.choices = choices
        controls = [self._button(choice) for choice in choices]
        if not choices:
            controls = [Amount("guess", "Your guess:", lambda s: s.open, lambda s: s.look(s.guess))]
        remembered = guesses().get(question)
        if not choices:
            remembered = _as_number(remembered)
        elif remembered not in choices:
            remembered = None
        super().__init__(question, State(remembered), draw, self._describe, controls, self._follow)

    def _button(self, choice: str) -> Action:
        return Action(
            choice,
            lambda state: self._follow(state, replace(state, guess=choice)),
            lambda state: state.open,
            pressed=lambda state: state.guess == choice,
            look=lambda state: state.look(choice),
        )

    def _follow(self, before: State, now: State) -> State:
        if not before.open:
            raise Refused("The answer is known, and the guess stays.")
        record_guess(self.title, str(now.guess))
        return now

    def was(self, truth: object) -> None:
        """Say what is the case; the answer stands in this cell, with the guess beside it.

        `truth` is a choice, or a number where a number was asked for. True and False stand for the first and
        the second of two choices; a list holds those of several things for which the question is true, and
        stands for "both" or "neither" where they are choices.

        Raises:
            Refused: when the truth is none of the choices, or no number.
        """
        if not self.choices:
            self._tell(replace(self.state, truth=Amount("the truth", "").accept(truth)))
            return
        words = next((word for word in _spell(truth, self.choices) if word in self.choices), None)
        if words is None:
            raise Refused(f"{str(truth)!r} is none of the choices: {', '.join(map(repr, self.choices))}.")
        self._tell(replace(self.state, truth=words))

    def was_about(self, number: float) -> None:
        """Say what number is the case: of numbers to choose from the nearest is right, by ratio.

        A guess that was typed in is right within a factor of 2.

        >>> guess = predict("How many segments?", 1, 10)
        How many segments?
          - 1
          - 10
        >>> guess.was_about(4)
        How many segments? It is 4, and 10 is nearest.
        """
        by_ratio = number > 0 and all(float(choice) > 0 for choice in self.choices)
        scale = math.log if by_ratio else float
        nearest = min(self.choices, key=lambda one: abs(scale(float(one)) - scale(number)), default="")
        self._tell(replace(self.state, truth=number, factor=NEAR, nearest=nearest))

    def _tell(self, state: State) -> None:
        """Set the truth beside the guess, in the question's card and in the cell that runs."""
        live = bool(self._drawn)
        self.state = state
        self.redraw()
        if not live:  # nobody could click
            Note(self._answer()["text/plain"]).show()
            return
        from IPython.display import display

        shown = display(self._answer(), raw=True, display_id=True)
        self._drawn.append(lambda: shown.update(self._answer(), raw=True))

    def _answer(self) -> dict[str, str]:
        state = self.state
        told = f"<div>{escape(self.title)}</div><strong>{escape(sentence(state))}</strong>"
        if state.guess is None:
            summary = "<summary>Guess above, and the answer opens here. Or open it without a guess.</summary>"
            folded = f"{escape(self.title)} <strong>{escape(answer(state))}</strong>"
            shown = f"{OPEN}<details data-devlab-open>{summary}{folded}</details>"
            return {"text/plain": f"{self.title} {answer(state)}", "text/html": shown}
        accent = CHIPS[Outcome.PASSED if state.right else Outcome.FAILED].edge
        return {"text/plain": f"{self.title}\n{sentence(state)}", "text/html": card(told, accent)}

    def _describe(self, state: State) -> str:
        choices = f" The choices: {'; '.join(self.choices)}." if self.choices else ""
        return sentence(state) + choices

    def text(self) -> str:
        """Return the question, its choices, and where a guess stands that was made."""
        made = [] if self.state.guess is None else [sentence(self.state)]
        return "\n".join([self.title, *(f"  - {choice}" for choice in self.choices), *made])

    def html(self, mark: str = "") -> str:
        """Return the same as HTML."""
        choices = "".join(f"<li>{escape(choice)}</li>" for choice in self.choices)
        made = "" if self.state.guess is None else f"<div>{escape(sentence(self.state))}</div>"
        asked = f"<strong>{escape(self.title)}</strong>{f'<ul>{choices}</ul>' * bool(choices)}{made}"
        return framed(asked, mark, "guess" * self.state.open)


def _as_number(word: str | None) -> float | None:
    with contextlib.suppress(TypeError, ValueError):
        return float(word)


def _spell(truth: object, choices: tuple[str, ...]) -> list[str]:
    """List the words that may stand for a truth among the choices."""
    words = [str(truth)]
    if isinstance(truth, bool) and len(choices) == 2:
        words.append(choices[not truth])
    elif isinstance(truth, list):
        all_of = ["both", "either", " and ".join(map(str, truth))] if len(truth) > 1 else map(str, truth)
        words += all_of if truth else ["none", "neither", "nothing"]
    return words


def _quote(value: str | float) -> str:
    """Write a choice in quotation marks and a number without, two digits of it where it was measured.

    >>> _quote("cpu"), _quote("3"), _quote(1_000), _quote(52.7)
    ('“cpu”', '3', '1,000', '53')
    """
    if isinstance(value, str):
        return f"“{value}”" if _as_number(value) is None else value
    return f"{value:,.0f}" if value == round(value) else f"{float(f'{value:.2g}'):,g}"


def answer(state: State) -> str:
    """Say what is the case.

    >>> answer(State(truth="cpu")), answer(State(truth=52.7))
    ('The answer is “cpu”.', 'It is 53.')
    """
    words = _quote(state.truth)
    nearest = f", and {state.nearest} is nearest" if state.nearest not in ("", words) else ""
    return f"The answer is {words}." if words.startswith("“") else f"It is {words}{nearest}."


def sentence(state: State) -> str:
    """Say where a guess stands.

    >>> sentence(State("2", "50"))
    '✗ You said 2. It is 50.'
    """
    if state.guess is None:
        if state.truth is None:
            return "What do you think? Guess before you run the next cell."
        return "What do you think? Guess, and the answer opens below."
    said = f"You said {_quote(state.guess)}."
    if state.truth is None:
        return f"{said} Now run the next cell."
    return f"{'✓' if state.right else '✗'} {said} {answer(state)}"


def draw(state: State) -> Scene:
    """Return a scene of words alone: where the guess stands."""
    return Scene(0, [], sentence(state))


def predict(question: str, *choices: object) -> Prediction:
    """Ask for a guess and return the question; its `was(truth)` sets the truth beside the guess.

    Without choices a number is asked for. The guess is made with a click or a key, can be changed until the
    truth is known, and is remembered like progress; it is counted and never graded. A notebook that runs from
    top to bottom does not stop for it, and leaves the question open.

    Raises:
        ValueError: when the question is empty, or there is one choice alone, or two are alike.

    >>> guess = predict("Where is y?", "cpu", "sim:0")
    Where is y?
      - cpu
      - sim:0
    >>> guess.was("sim:0")
    Where is y? The answer is “sim:0”.
    """
    if not isinstance(question, str) or not question.strip():
        raise ValueError(f"a question in words is needed, not {question!r}")
    words = tuple(map(str, choices))
    if len(words) == 1 or len(set(words)) < len(words):
        raise ValueError(f"at least two choices that differ are needed after the question, not {words!r}")
    asked = Prediction(question, words)
    asked.show()
    return asked
