"""What of a lesson might be pasted as an answer, and whether it passes: for `test_pasting`.

A module of its own, since a process that is started for a lesson imports it by name.
"""

import ast
import builtins
import contextlib
import copy
import inspect
import io
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

import devlab.sim
from devlab.checks import time_limits
from devlab.checks.exercise import Exercise, exercises
from devlab.checks.judge import judge, judge_row
from devlab.checks.result import Outcome
from devlab.checks.settings import preserve_state
from devlab.checks.trial import Caller
from devlab.devices import bench
from factory.reading import read

ROOT = Path(__file__).resolve().parents[2]
PASTED = "pasted"  # what a function is called until an exercise's name is known
REFUSED = (Outcome.FAILED, Outcome.ERROR)


@dataclass
class Candidate:
    """What might be pasted: what it is called, and its code.

    Code with `free` names is a function's body: it is completed where they include the parameters of an
    exercise, and these include the function's `own`.
    """

    name: str
    code: list[ast.stmt]
    free: set[str] | None = None
    own: frozenset[str] = frozenset()

    def source(self, exercise: Exercise) -> list[ast.stmt] | None:
        """Return statements that define it under the exercise's name; None where it cannot be an answer."""
        if self.free is None:
            wanted = ast.ClassDef if exercise.wants_class else ast.FunctionDef | ast.Assign
            own = copy.deepcopy(self.code)
            if not isinstance(own[-1], wanted):
                return None
            for node in ast.walk(ast.Module(own)):
                if isinstance(node, ast.Name) and node.id in (self.name, PASTED):
                    node.id = exercise.name
                elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node is own[-1]:
                    node.name = exercise.name
            return own
        if exercise.wants_class or not self.own <= set(parameters(exercise)) <= self.free:
            return None
        made = ast.parse(f"def {exercise.signature}: pass").body
        made[0].body = copy.deepcopy(self.code)
        return made


def parameters(exercise: Exercise) -> list[str]:
    """Return the names of an exercise's parameters.

    >>> parameters(exercises()[1])
    ['a', 'b']
    """
    signature = exercise.signature.removeprefix("class ")
    return [one.arg for one in ast.parse(f"def {signature}: pass").body[0].args.args]


def pasted(path: Path, environment: dict[str, str]) -> list[str]:
    """Run a lesson and return each of its exercises that a part of it passes, with that part."""
    os.environ.update(environment)
    torch.set_num_threads(1)
    devlab.sim.enable()
    cells = [cell.source for cell in read(path, ROOT).cells if cell.cell_type == "code"]
    return passed(cells, [exercise for exercise in exercises() if exercise.lesson == path.stem])


def passed(cells: list[str], own: list[Exercise]) -> list[str]:
    """Run cells as far as their definitions need it; return each exercise that a part of them passes."""
    programs = [
        ast.parse(repr(cell.partition("\n")[2]) if "%%launch" in cell[:8] else cell) for cell in cells
    ]
    found = [candidates(number, program, own) for number, program in enumerate(programs, start=1)]
    needed = dependencies(
        programs, {name for several in found for one in several for name in loaded(one.code)}
    )
    world, late, told = {"__name__": "__main__"}, [], []
    for program, several in zip(programs, found, strict=True):
        for statement in program.body:
            if brings(statement) & needed or isinstance(statement, ast.Import | ast.ImportFrom):
                run([statement], world)
        for one in several:
            missing = loaded(one.code) - world.keys() - set(dir(builtins)) - stored(one.code)
            late += [one] if missing else []
            told += [] if missing else verdicts(one, own, world)
    for one in late:  # these call what a later cell defines
        told += verdicts(one, own, world)
    return told


def verdicts(candidate: Candidate, own: list[Exercise], world: dict) -> list[str]:
    """Return the exercises that a candidate passes."""
    made = ((exercise, answer(candidate, exercise, world)) for exercise in own)
    accepted = (one.name for one, function in made if function and accepts(one, function))
    return [f"{name} ← {candidate.name}" for name in accepted]


def answer(candidate: Candidate, exercise: Exercise, world: dict) -> object:
    """Return a candidate under an exercise's name, None where it cannot take the exercise's arguments."""
    source = candidate.source(exercise)
    if source is None:
        return None
    own = dict(world)
    run(source, own)
    made = own.get(exercise.name)
    try:
        inspect.signature(made).bind(*parameters(exercise))
    except (TypeError, ValueError):
        return None
    return made


def accepts(exercise: Exercise, function: object) -> bool:
    """Tell whether an answer passes; the first row that refuses it decides."""
    devices = bench()
    with swallowed():
        with preserve_state(), time_limits.watch_calls(), repaired():
            for row in exercise.rows:
                for device in (one for one in devices if row.applies_to(one, devices)):
                    found = judge_row(exercise, row, function, device, devices, 0, Caller())
                    if found.outcome in REFUSED:
                        return False
        return judge(exercise, function).outcome not in REFUSED


def run(statements: list[ast.stmt], world: dict) -> None:
    """Run statements in a namespace; what they print or raise is not asked for."""
    module = ast.fix_missing_locations(ast.Module(statements, []))
    with swallowed(), contextlib.suppress(Exception):
        exec(compile(module, "lesson.py", "exec"), world)


MENDED = (
    *(torch, torch.cuda, torch.accelerator, torch.version, torch.mps),
    *(torch.backends, torch.backends.mps, os),
)


@contextlib.contextmanager
def repaired() -> Iterator[None]:
    """Put back after a block what it replaced of PyTorch, to pretend another machine.

    No process of its own is forked for it: autograd does not survive a fork.
    """
    before = [dict(vars(module)) for module in MENDED]
    environment = dict(os.environ)
    try:
        yield
    finally:
        for module, held in zip(MENDED, before, strict=True):
            vars(module).update(held)
        os.environ.clear()
        os.environ.update(environment)


@contextlib.contextmanager
def swallowed() -> Iterator[None]:
    """Keep quiet in a block."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def candidates(number: int, program: ast.Module, own: list[Exercise]) -> list[Candidate]:
    """Return what might be pasted of a cell: its definitions, those of a program in it, the cell itself."""
    found = list(definitions(number, program))
    for one in [one.code[0] for one in found if isinstance(one.code[0], ast.FunctionDef)]:
        names = frozenset(node.arg for node in ast.walk(one.args) if isinstance(node, ast.arg))
        if any(names < set(parameters(exercise)) for exercise in own):
            found.append(Candidate(f"body of {one.name}", one.body, loaded(one.body), names))
    for node in ast.walk(program):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "def " in node.value:
            with contextlib.suppress(SyntaxError):
                text = ast.parse(node.value)
                imports = [one for one in text.body if isinstance(one, ast.Import | ast.ImportFrom)]
                found += [Candidate(one.name, imports + one.code) for one in definitions(number, text)]
    spoken = before_stored(program)
    wanted = any(set(parameters(one)) <= spoken for one in own if not one.wants_class)
    if wanted and (value := last_value(program)):
        body = [*program.body[:-1], ast.Return(value)]
        found.append(Candidate(f"cell {number}", body, spoken))
    return found


def definitions(number: int, program: ast.AST) -> Iterator[Candidate]:
    """Yield the functions and classes of a program, and its lambdas, but not what stands inside of them."""
    for node in ast.iter_child_nodes(program):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield Candidate(node.name, [node])
        elif isinstance(node, ast.Lambda):
            named = ast.Assign([ast.Name(PASTED, ast.Store())], node)
            yield Candidate(f"lambda in cell {number}", [named])
        else:
            yield from definitions(number, node)


def last_value(program: ast.Module) -> ast.expr | None:
    """Return what a cell ends with: an expression, what it assigns, or what it prints last."""
    last = program.body[-1]
    if not isinstance(last, ast.Expr | ast.Assign):
        return None
    value = last.value
    printed = isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[-1] in ("print", "was")
    return value.args[-1] if printed and value.args else value


def dependencies(programs: list[ast.Module], needed: set[str]) -> set[str]:
    """Return all names that the given ones are made of, so that what only shows something need not run."""
    statements = [statement for program in programs for statement in program.body]
    while more := {
        name for one in statements if brings(one) & needed for name in loaded([one]) if name not in needed
    }:
        needed = needed | more
    return needed


def brings(statement: ast.stmt) -> set[str]:
    """Return the names that a statement defines or may change."""
    if isinstance(statement, ast.Expr):
        return {root(statement.value)} - set(dir(builtins))
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    found = stored([statement])
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            found.add(root(node))
    return found


def root(node: ast.expr) -> str:
    """Return the name that an expression such as `model.layers[0].half()` begins with, or ""."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def loaded(statements: list[ast.stmt]) -> set[str]:
    """Return the names that are read anywhere in statements."""
    names = (node for node in ast.walk(ast.Module(statements)) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Load)}


def stored(statements: list[ast.stmt]) -> set[str]:
    """Return the names that are given a value anywhere in statements, parameters and imports among them."""
    found = set()
    for node in ast.walk(ast.Module(statements)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
    return found


def before_stored(program: ast.Module) -> set[str]:
    """Return the names that a cell reads before it gives them a value."""
    read_first, given = set(), set()
    for statement in program.body:
        made = stored([statement])
        reads_first = isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr)
        read_first |= loaded([statement]) - given - (set() if reads_first else made)
        given |= made
    return read_first
