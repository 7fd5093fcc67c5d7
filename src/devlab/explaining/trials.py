"""One trial: a learner's program run again from its beginning, perhaps changed, and what came of that."""

import ast
import contextlib
import importlib.machinery
import io
import linecache
import math
import multiprocessing
import os
import pickle
import re
import sys
import time
import types
import warnings
from collections import Counter
from typing import NamedTuple

import torch

from devlab.explaining.candidates import candidates_of
from devlab.explaining.frames import Scope, own_nodes, parameters, scopes_of
from devlab.explaining.report import cause_of
from devlab.panel import notebook_shell
from devlab.shell import Shell
from devlab.sim import events, following, reset, rule, rules

LIMIT = 10.0  # seconds by the clock
_PLAIN = (torch.device, torch.dtype, str, int, float, type(None))
_KEPT = (torch.Tensor, torch.nn.Module, torch.optim.Optimizer, list, dict, set)
_SHOWN = 50
_inside: list[bool] = []


class Trial(NamedTuple):
    """A program and how it is to be tried: pairs of a file's name and text, run in this order.

    Where `function` is set, that function is called after them with pickled arguments. `unguarded` names
    the `try` statements that let errors through: pairs of a file's name and a number. A simulated device
    plays the part of the `real` kind. With `blind`, devices may meet; with `lines`, the lines that ran are
    told; with `more`, the candidates at the error.
    """

    units: list
    name: str = "__main__"
    function: str = ""
    args: bytes = b""
    unguarded: tuple = ()
    real: str = ""
    follows: str = "cuda"
    argv: tuple = ()
    changed: dict | None = None
    blind: bool = False
    lines: bool = False
    more: bool = False


def inside() -> bool:
    """Tell whether this process is a trial."""
    return bool(_inside)


def trial_of(scopes: list[Scope]) -> Trial | None:
    """Return how to run again the program that a traceback is of; None where that cannot be done."""
    known = [s for s in scopes if s.mine and s.source is not None and s.line <= len(s.source.lines)]
    # A function that caught the error is not where the program begins, but what looks after the program.
    for scope in sorted(known, key=lambda s: not isinstance(s.node, ast.Module) and bool(_guards(s))):
        real = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        facts = {
            "name": scope.globals.get("__name__") or "__main__",
            "unguarded": [(scope.filename, number) for number in _guards(scope)],
            "real": real.type if real is not None and real.type != "sim" else "",
            "follows": following() if real is not None and real.type == "sim" else "cuda",
            "argv": sys.argv,
        }
        unit = [scope.filename, scope.source.text]
        if isinstance(scope.node, ast.Module):
            return Trial([*_cells_before(scope), unit], **facts)
        args = _arguments(scope)
        if args is not None:
            return Trial([unit], function=scope.name, args=args, **facts)
    return None


def _guards(scope: Scope) -> list[int]:
    """Return the numbers of the `try` statements in whose body a frame failed."""
    around, node, parents = [], scope.failing, scope.source.parents
    while node in parents and node is not scope.node:
        if isinstance(parents[node], ast.Try) and node in parents[node].body:
            around.append(parents[node])
        node = parents[node]
    return [number for number, one in enumerate(_tries(scope.source.tree)) if one in around]


def _tries(tree: ast.AST) -> list[ast.Try]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Try)]


def _arguments(scope: Scope) -> bytes | None:
    """Return the pickled arguments that a function of a file was called with; None where not known."""
    function, source = scope.node, scope.source
    if not isinstance(function, ast.FunctionDef) or source.parents.get(function) is not source.tree:
        return None
    names, given = [argument.arg for argument in parameters(function)], function.args
    stored = {n.id for n in own_nodes(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    fits = (n in scope.values and (n not in stored or isinstance(scope.values[n], _PLAIN)) for n in names)
    if given.vararg or given.kwarg or given.posonlyargs or not all(fits):
        return None
    with contextlib.suppress(Exception):  # whatever a learner's own object says to being copied
        return pickle.dumps({name: scope.values[name] for name in names})
    return None


def _cells_before(scope: Scope) -> list[list]:
    """Return the notebook's cells, in the order of their execution, that the failing one depends on."""
    shell = notebook_shell()
    done = [f"{text}\n" for text in shell.history_manager.input_hist_parsed] if shell else []
    same = [n for n, text in enumerate(done) if text.rstrip() == scope.source.text.rstrip()]
    needed, found = _names(scope.source.tree)[0], []
    for number in reversed(range(1, same[-1] if same else 1)):
        with contextlib.suppress(SyntaxError):
            read, given, used = _names(ast.parse(done[number]))
            if needed & given or any(isinstance(shell.user_ns.get(name), _KEPT) for name in needed & used):
                needed |= read
                raw = shell.history_manager.input_hist_raw[number]
                found.insert(0, [shell.compile.get_code_name(raw, done[number], number), done[number]])
    return found


def _names(tree: ast.AST) -> tuple[set, set, set]:
    """Return the names that code reads, those that get a value, and those that may be changed in place."""
    nodes = list(ast.walk(tree))
    names = [n for n in nodes if isinstance(n, ast.Name)]
    given = {n.id for n in names if not isinstance(n.ctx, ast.Load)}
    given |= {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    given |= {(n.asname or n.name).partition(".")[0] for n in nodes if isinstance(n, ast.alias)}
    parts = [
        n for n in nodes if isinstance(n, ast.Attribute | ast.Subscript) and isinstance(n.ctx, ast.Store)
    ]
    changing = parts + [n for n in nodes if isinstance(n, ast.Call)]
    used = {m.id for n in changing for m in ast.walk(n) if isinstance(m, ast.Name)}
    return {n.id for n in names if isinstance(n.ctx, ast.Load)}, given, used


def run(trial: Trial) -> dict:
    """Run a trial in this process, which must be the trial's own and walled in: what came of it."""
    _inside[:] = [True]
    reset()
    torch.manual_seed(0)
    multiprocessing.set_start_method("fork", force=True)
    warnings.simplefilter("ignore")
    sys.stdout = sys.stderr = io.StringIO()
    sys.argv = list(trial.argv) or [""]
    if trial.blind:
        rule.settle = _settle_blindly
    texts = dict(trial.units) | (trial.changed or {})
    for name, text in texts.items():
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    loader = importlib.machinery.SourceFileLoader
    original = loader.get_code

    def get_code(self: object, name: str) -> types.CodeType:  # other files are imported as changed
        path = os.path.abspath(self.get_filename(name))
        return _compiled(path, texts[path], trial) if path in texts else original(self, name)

    loader.get_code = get_code
    module = sys.modules[trial.name] = types.ModuleType(trial.name)
    module.__file__ = trial.units[-1][0]
    if trial.function:  # what a script does where it is the program is not asked for
        module.__name__ = f"tried_{trial.name.strip('_')}"
    sys.path.insert(0, os.path.dirname(os.path.abspath(module.__file__)))
    Shell(module)
    ops, counts, met = Counter(), Counter(), set()

    def meter(event: tuple) -> None:
        if isinstance(event, events.Launch):
            ops[f"sim:{event.index}"] += 1
        counts[type(event)] += 1

    events.observers.append(meter)
    if trial.lines:

        def local(frame: types.FrameType, *_: object) -> object:
            met.add((frame.f_code.co_filename, frame.f_lineno))
            return local

        sys.settrace(lambda frame, *_: local(frame) if frame.f_code.co_filename in texts else None)
    out: dict = {}
    try:
        with rules(trial.follows):
            value = _executed(trial, texts, module, (ops, counts))
            torch.sim.synchronize()
        events.observers.remove(meter)
        out = {"status": "ok", "value": flat(value)}
    except BaseException as raised:  # a test's own failure is one, and so is SystemExit
        error, problem = cause_of(raised)
        scopes = scopes_of(error)
        out = {"status": "error", "kind": problem.kind, "place": place_of(scopes)}
        if trial.more and problem.kind:
            found = candidates_of(scopes, problem, list(texts))
            out["more"] = [one for one in found if one.file in texts]
    finally:
        sys.settrace(None)
    out |= {"lines": sorted(met), "seconds": time.process_time(), "ops": ops}
    return out | {"transfers": counts[events.Transfer], "waits": counts[events.Synchronization]}


def _executed(trial: Trial, texts: dict, module: types.ModuleType, meters: tuple) -> object:
    for number, (name, _) in enumerate(trial.units, 1):
        for meter in meters:  # what earlier cells did does not count
            meter.clear()
        try:
            exec(_compiled(name, texts[name], trial), module.__dict__)
        except Exception:  # an earlier cell failed before, too
            if number == len(trial.units):
                raise
    if trial.function:
        return getattr(module, trial.function)(**pickle.loads(trial.args))
    values = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return {name: value for name, value in values.items() if isinstance(value, torch.Tensor | float | list)}


def _compiled(name: str, text: str, trial: Trial) -> types.CodeType:
    tree = ast.parse(text)
    tries = _tries(tree)
    for file, number in trial.unguarded:
        if file == name and number < len(tries):
            tries[number].handlers = [ast.ExceptHandler(None, None, [ast.Raise(None, None)])]
    for node in ast.walk(tree) if trial.real else ():  # a simulated accelerator plays the real one's part
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = re.sub(rf"^{trial.real}(?=$|:\d+$)", "sim", node.value)
        elif getattr(node, "attr", "") == trial.real and getattr(node.value, "attr", "") != "backends":
            node.attr = "sim"
    return compile(ast.fix_missing_locations(tree), name, "exec", dont_inherit=True)


def _settle_blindly(name: str, schema: torch.FunctionSchema, args: tuple, kwargs: dict) -> int:
    """Let tensors of several devices meet, as a program would in which devices do not matter."""
    away = [(not w, t.device.index) for _, t, w in rule._operands(schema, args, kwargs) if not t.is_cpu]
    return min(away, key=lambda pair: pair[0])[1]


def place_of(scopes: list[Scope]) -> list:
    """Return the file and line of the learner's that an error arose in."""
    return next(([scope.filename, scope.line] for scope in reversed(scopes) if scope.mine), ["", 0])


def flat(value: object) -> list:
    """Return a result as a list to be compared with another process's; "on meta" for what has no data."""
    if isinstance(value, torch.Tensor) and (value.device.type == "meta" or value.is_complex()):
        return ["on meta" if value.device.type == "meta" else "complex"]
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu").double().flatten().tolist()[:_SHOWN]
    if isinstance(value, list | tuple | dict):
        items = list(value.values()) if isinstance(value, dict) else value
        return [part for item in items[:_SHOWN] for part in flat(item)]
    return [value if isinstance(value, str | int | float | type(None)) else type(value).__name__]


def agree(one: list, other: list) -> bool:
    """Tell whether two flat results agree, numbers to a thousandth."""
    return len(one) == len(other) and all(map(_alike, one, other))


def _alike(one: object, other: object) -> bool:
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    near = numbers and math.isclose(one, other, rel_tol=1e-3, abs_tol=1e-3)
    return near or one == other or (one != one and other != other)
