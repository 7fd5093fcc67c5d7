"""How a bank of answers is written and read, and what its answers are in a notebook.

A file `tests/answers/<exercise>.py` holds functions (or classes) marked `@right`, or
`@wrong("a fragment of the message the learner must see", row="the label of the row that must refuse it")`.
A fragment names no kind of device: `Answer.messages` says what stands for the devices judged.
Their names say how they go about it.
"""

import ast
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from devlab.checks.result import Outcome, Result

ANSWERS = Path(__file__).parent / "answers"


@dataclass(frozen=True)
class Answer:
    """One answer of a bank: what was written, and the message and row it must get (None: it must pass)."""

    exercise: str
    name: str
    code: Callable
    fragment: str | tuple[str, ...] | None
    row: str | tuple[str, ...] | None = None

    @property
    def rows(self) -> tuple[str, ...]:
        """Return the labels of the rows that may be the first to refuse the answer."""
        return (self.row,) if isinstance(self.row, str) else self.row or ()

    @property
    def fragments(self) -> tuple[str, ...]:
        """Return the fragments of which a verdict must hold one."""
        return (self.fragment,) if isinstance(self.fragment, str) else self.fragment or ()

    def messages(self, result: Result) -> list[str]:
        """Return the fragments with the names of the devices that a verdict judged.

        A bank writes `{device}` for the first accelerator, `{second}` for the second and `{kind}` for the
        name of their kind, so that it holds on a real one, too.
        """
        devices = accelerators_of(result)
        names = dict(zip(("{device}", "{second}"), devices, strict=False))
        names |= {"{kind}": devices[0].partition(":")[0]} if devices else {}
        found = []
        for fragment in self.fragments:
            for name, device in names.items():
                fragment = fragment.replace(name, device)
            found.append(fragment)
        return found


def accelerators_of(result: Result) -> list[str]:
    """Return the names of the accelerators that a verdict is about."""
    return [device for device in result.devices if device != "cpu"]


def right(code: Callable) -> Callable:
    """Mark an answer that must pass on every device."""
    code.__must_get__ = None, None
    return code


def wrong(fragment: str | tuple[str, ...], row: str | tuple[str, ...]) -> Callable:
    """Mark an answer that must be refused first by this row, or one of these, with this fragment, or one."""

    def mark(code: Callable) -> Callable:
        code.__must_get__ = fragment, row
        return code

    return mark


def load(path: Path) -> list[Answer]:
    """Return the answers of one bank, in the order of the file."""
    spec = importlib.util.spec_from_file_location(f"answers_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    marked = [(name, code) for name, code in vars(module).items() if "__must_get__" in vars_of(code)]
    return [Answer(path.stem, name, code, *code.__must_get__) for name, code in marked]


def vars_of(value: object) -> dict:
    """Return a value's own attributes; inherited marks do not count."""
    return getattr(value, "__dict__", {})


def banks() -> list[Path]:
    """Return the path of every bank."""
    return sorted(ANSWERS.glob("*.py"))


def all_answers() -> list[Answer]:
    """Return every answer of every bank."""
    return [answer for path in banks() for answer in load(path)]


def refused_by(result: Result) -> str | None:
    """Return the label of the first row that an answer did not pass."""
    stops = (Outcome.FAILED, Outcome.ERROR)
    return next(
        (row.label for row in result.rows if any(one in stops for one in row.outcomes.values())), None
    )


def needs_two(result: Result) -> tuple[str, ...]:
    """Return the labels of the rows that were not judged for want of a second accelerator."""
    if len(accelerators_of(result)) != 1:
        return ()
    return tuple(row.label for row in result.rows if Outcome.SKIPPED in row.outcomes.values())


def fault(answer: Answer, result: Result) -> str | None:
    """Tell how a verdict differs from what the bank asks for; None where it does not.

    On one accelerator a row that needs two need not be judged: a right answer passes without it, and a wrong
    one may be left to it, if that is the row that must refuse it.
    """
    unjudged = needs_two(result)
    if unjudged and result.passed and "two accelerators" not in str(result):
        return f"{answer.name} is not judged by the row {unjudged[0]!r}, and the verdict does not say why"
    if answer.fragment is None:
        if result.passed and result.points + len(unjudged) == result.possible:
            return None
        return f"{answer.name} is right and was refused: {result.points} of {result.possible} points"
    if "please report it" in str(result):
        return f"{answer.name} made the check itself fail"
    if set(unjudged) & set(answer.rows):
        return None
    if result.outcome not in (Outcome.FAILED, Outcome.ERROR):
        return f"{answer.name} is wrong and was not refused ({result.outcome})"
    if not any(message in str(result) for message in answer.messages(result)):
        return f"{answer.name} is refused without its message: {' or '.join(answer.messages(result))}"
    if (row := refused_by(result)) not in answer.rows:
        return f"{answer.name} is refused by the row {row!r}, and names {' or '.join(map(repr, answer.rows))}"
    return None


def one_of_each(values: list, kind: Callable) -> list:
    """Return pytest's parameters for values, of which `make test` tries the first of each kind alone."""
    import pytest  # benchmarks read the banks on machines that have torch and NumPy alone

    met, parameters = set(), []
    for value in values:
        marks = [pytest.mark.thorough] if kind(value) in met else []
        met.add(kind(value))
        parameters.append(pytest.param(value, marks=marks))
    return parameters


def handed_in(path: Path) -> dict[str, str]:
    """Return each answer of a bank as a student hands it in: one cell, with what it uses of the bank."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    answers = {node.name: node for node in tree.body if getattr(node, "decorator_list", ()) and _mark(node)}
    for node in answers.values():
        node.decorator_list.remove(_mark(node))
    bank = {node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "bank"}
    shared = set(tree.body) - set(answers.values()) - bank
    cells = {}
    for name, answer in answers.items():
        used = shared | {answer}
        while more := {answers[one.id] for one in _names(used) if one.id in answers} - used:
            used |= more
        itself = [one for one in _names(used) if one.id == name]
        answer.name = path.stem
        for one in itself:
            one.id = path.stem
        cells[name] = "\n\n".join(ast.unparse(node) for node in tree.body if node in used)
        answer.name = name
        for one in itself:
            one.id = name
    return cells


def _mark(node: ast.FunctionDef | ast.ClassDef) -> ast.expr | None:
    """Return the decorator by which an answer is marked."""
    found = (one for one in node.decorator_list if ast.unparse(one).split("(")[0] in ("right", "wrong"))
    return next(found, None)


def _names(nodes: set[ast.stmt]) -> list[ast.Name]:
    return [one for node in nodes for one in ast.walk(node) if isinstance(one, ast.Name)]
