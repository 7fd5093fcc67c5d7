"""The changes that might mend a program: edits of a learner's text, from its syntax and its live values."""

import ast
import contextlib
import itertools
import re
import types
from collections.abc import Iterator
from typing import NamedTuple

import torch

from devlab.explaining import report as kinds
from devlab.explaining.culprit import inside, operands
from devlab.explaining.edit import Edit, Text, block_of, changed
from devlab.explaining.flow import FACTORIES, LIKE, MOVERS, device_of, devices_of, dtype_of, keyword, moved_to
from devlab.explaining.frames import FUNCTIONS, MISSING, Scope, called_name, own_nodes, parameters, source_of
from devlab.explaining.report import Problem
from devlab.explaining.told import told

# By kind of change: when it is tried, and what it costs where several survive.
PRIOR_COST = {
    "register": (5, 0), "container": (6, 0), "thrown away": (8, 0), "move earlier": (7, 0), "logits": (10, 4),
    "device name": (10, 1), "generator": (12, 1), "in a move": (14, 1), "batch": (15, 0), "assign": (15, 0),
    "load": (18, 1), "move again": (19, 3), "factory": (20, 1), "made": (22, 2), "device argument": (24, 5),
    "not moved": (26, 9), "definition": (25, 3), "moved elsewhere": (28, 7), "factory elsewhere": (30, 6),
    "return": (33, 5), "each definition": (34, 4), "unpacked": (35, 4), "state": (34, 2), "cpu": (35, 5),
    "copy": (35, 5), "numpy": (34, 5), "pin": (37, 4), "move model": (38, 3), "move model away": (38, 9),
    "use": (32, 6), "line before": (33, 6), "each use": (33, 7), "all uses": (34, 7), "dtype": (41, 5),
    "widened": (43, 20),
    "operator": (40, 5), "workers": (60, 8), "to_empty": (16, 20), "autocast": (10, 1),
}  # fmt: skip
_AT_USE = (kinds.MISMATCH, kinds.INDEX, kinds.HOST_ONLY, kinds.GENERATOR, kinds.META)
_DEVICES = (*_AT_USE, kinds.NO_DEVICE, kinds.FORK, kinds.PINNED, kinds.LOAD)
_DTYPES = (kinds.DTYPE, kinds.NO_DTYPE)
_HOST = (kinds.HOST_ONLY, kinds.FORK, kinds.PINNED)
_NUMPY = (kinds.NUMPY, kinds.GRAPH, kinds.NUMPY_DTYPE)
_PLACE = re.compile(r"dev|place|where|kind|gpu|card")
_DEVICE = re.compile(r"(?:cpu|meta|(?:cuda|sim|mps|xpu)(?::\d+)?)")
_AWAY = (".cpu()", ".detach()", ".detach().cpu()", ".detach().cpu().numpy()", ".float()")
_AWAY += (".detach().cpu().float()", ".item()", ".tolist()")
_EACH_AWAY = ("x.detach().cpu()", "x.detach().cpu().numpy()", "x.item()")
_NO_TENSOR = (int, float, bool, str, type(None), torch.device, torch.dtype, types.ModuleType, type)
_NO_TENSOR += (types.FunctionType, types.MethodType)
_LOGITS = {"binary_cross_entropy": "binary_cross_entropy_with_logits", "BCELoss": "BCEWithLogitsLoss"}
_BEGIN = "lambda m: m.reset_parameters() if hasattr(m, 'reset_parameters') else None"
_LITERALS = {ast.List: "List", ast.ListComp: "List", ast.Dict: "Dict", ast.DictComp: "Dict"}
_EXPRESSIONS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp, ast.UnaryOp)
_EXPRESSIONS += (ast.Compare, ast.List, ast.ListComp)
_Ref = tuple[str, str]


class Candidate(NamedTuple):
    """A change of one file, in the lines `first` to `last`; `away` where it brings something to the CPU."""

    kind: str
    file: str
    edits: tuple[Edit, ...]
    prior: float
    first: int
    last: int
    away: bool = False


def device_named(value: object) -> str:
    """Return the device that a value is on or names; "" for none."""
    if isinstance(value, torch.nn.Module):
        return device_of(value) or next((str(buffer.device) for buffer in value.buffers()), "")
    if isinstance(value, torch.Tensor | torch.Generator):
        return str(value.device)
    name = str(value) if isinstance(value, str | torch.device) else ""
    bare = ":" not in name and name not in ("cpu", "meta")
    return f"{name}{':0' * bare}" if _DEVICE.fullmatch(name) else ""


def candidates_of(scopes: list[Scope], problem: Problem, sources: list[str]) -> list[Candidate]:
    """Return the changes to try, the likeliest first; `sources` are files and cells besides the frames'."""
    scopes = scopes + told(scopes, problem.message)
    finder = _Finder(scopes, problem)
    texts = {scope.filename: Text(scope.source) for scope in finder.scopes}
    texts |= {name: Text(found) for name in sources if name not in texts and (found := source_of(name))}
    for depth, scope in enumerate(reversed(finder.scopes)):
        finder.begin(texts[scope.filename])
        finder.at_failing(scope, 6 * depth)
    live = {scope.filename for scope in finder.scopes}
    for text in texts.values():
        finder.begin(text, 0 if text.source.filename in live else 10)
        for node in list(text.source.parents):
            finder.at(node)
    unique: dict[tuple, Candidate] = {}
    for one in sorted(finder.found, key=lambda candidate: candidate.prior):
        unique.setdefault((one.file, changed(texts[one.file].source.text, one.edits)), one)
    return list(unique.values())


class _Finder:
    def __init__(self, scopes: list[Scope], problem: Problem):
        self.scopes = [scope for scope in scopes if scope.mine and scope.source is not None]
        self.problem, self.kind, self.found = problem, problem.kind, []
        self.live = {scope.node: scope for scope in self.scopes}
        met = [operand for scope in reversed(scopes) for operand in operands(scope)]
        self.narrow = {o.tensor.dtype for o in met if o.tensor is not None} & {torch.float16, torch.bfloat16}
        seen = [operand.device for operand in met]
        seen += [*problem.devices]
        values = [(n, v, s) for s in self.scopes for n, v in s.values.items()]
        seen += [v for n, v, s in values if n in s.parameters() or isinstance(v, torch.device)]
        homes = [home for home in dict.fromkeys(map(device_named, seen)) if _is_here(home)]
        if self.kind in (kinds.META, *_HOST) and "cpu" not in homes:
            homes.append("cpu")
        if not any(home != "cpu" for home in homes) and torch.accelerator.is_available():
            homes.insert(0, f"{torch.accelerator.current_accelerator().type}:0")
        self.homes = sorted(homes, key=lambda home: home == "cpu")

    def begin(self, text: Text, far: int = 0) -> None:
        self.text, self.far, self.known = text, far, {}

    def add(
        self, kind: str, node: ast.AST, *edits: Edit, extra: float = 0, but: str = "", own: str = "¤"
    ) -> None:
        """Note a candidate, for each way to write a device where its text has the sign for one.

        Ways that begin with `own`, and those for the device `but`, are left out.
        """
        text, source = self.text.source.text, self.text.source
        many = any("¤" in new for _, _, new in edits)
        for code, home in self.refs(node) if many else [("", "cpu" if kind == "cpu" else "")]:
            here = tuple((begin, end, new.replace("¤", code)) for begin, end, new in edits)
            if (but and home == but) or code.startswith(own) or changed(text, here) == text:
                continue
            with contextlib.suppress(SyntaxError):
                ast.parse(changed(text, here))
                literal = 8 * (code.startswith('"') and home != "cpu") + code.startswith("next(")
                last = node.end_lineno if isinstance(node, ast.expr) else node.lineno
                prior = PRIOR_COST[kind][0] + self.far + extra + literal
                away = home == "cpu" or any('"cpu"' in new for _, _, new in here)
                self.found.append(Candidate(kind, source.filename, here, prior, node.lineno, last, away))

    def refs(self, node: ast.AST) -> list[_Ref]:
        """Return ways to write a device at a place: the code, and the device, "" where that is unknown."""
        function = self._function(node)
        if (function, node.lineno) not in self.known:
            found, counts = {}, {}
            for code, home in [*self._written(function, node.lineno), *((f'"{h}"', h) for h in self.homes)]:
                fits = not home or not self.homes or home in self.homes
                if fits and code not in found and counts.get(home, 0) < (2 if home else 4):
                    found[code] = home
                    counts[home] = counts.get(home, 0) + 1
            self.known[function, node.lineno] = list(found.items())
        return self.known[function, node.lineno]

    def _is_live(self, node: ast.AST) -> bool:
        return self._function(node) in self.live

    def _function(self, node: ast.AST) -> ast.AST:
        return self.text.source.enclosing(node, FUNCTIONS) or self.text.source.tree

    def _written(self, function: ast.AST, line: int) -> Iterator[_Ref]:
        scope = self.live.get(function)
        names = [argument.arg for argument in parameters(function)]
        if scope is None:
            yield from ((name, "") for name in names if _PLACE.search(name))
            others = [name for name in names if name not in ("self", "cls") and not _PLACE.search(name)]
            yield from ((f"{name}.device", "") for name in others)
            if names[:1] == ["self"] and getattr(function, "name", "") != "__init__":
                yield "next(self.parameters()).device", ""
            wide = self.scopes[-1].globals if self.scopes and not isinstance(function, FUNCTIONS) else {}
            known = {name: value for name, value in wide.items() if not name.startswith("_")}
            yield from _named(known, "", (str, torch.device))
            if isinstance(function, FUNCTIONS):
                yield from itertools.islice(self._written(self._function(function), line), 3)
            return
        stored = [n for n in own_nodes(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        late = {n.id for n in stored} - {n.id for n in stored if n.lineno < line} - set(names)
        order = [*names, *(name for name in scope.values if name not in names)]
        values = {n: scope.values[n] for n in order if n in scope.values and n not in late}
        wide = {n: v for n, v in scope.globals.items() if not n.startswith("_") and n in scope.source.text}
        own, told = dict(getattr(values.get("self"), "__dict__", {})), (str, torch.device)
        yield from _named(values, "", told)
        yield from _named({n: v for n, v in values.items() if n in names}, "", torch.Tensor)
        yield from _named(own, "self.", told)
        yield from _named(wide, "", told)
        yield from _named(values, "", torch.Tensor)
        yield from _named(own, "self.", torch.Tensor)
        yield from _named(values | {f"self.{n}": v for n, v in own.items()}, "", torch.nn.Module)

    def at_failing(self, scope: Scope, deep: int) -> None:
        """Find changes in the statement that failed, or by a line before it, in one live frame."""
        text, kind = self.text, self.kind
        if scope.failing not in text.source.parents:
            return
        statement, moved = text.source.statement(scope.failing), {}
        alone = not text.raw[text.starts[statement.lineno - 1] : text.span(statement)[0]].strip()
        for node in _writable(text, statement):
            value, code, span = scope.evaluate(node), text.closed(node), text.span(node)
            if isinstance(value, _NO_TENSOR):
                continue
            known, tensor = value is not MISSING, value is MISSING or isinstance(value, torch.Tensor)
            extra = deep + 3 * (not known) + (not isinstance(node, ast.Name | ast.Attribute | ast.Subscript))
            where = {"but": device_named(value), "own": f"{text.of(node)}."}
            if kind in _AT_USE and tensor:
                edit = (*span, f"{code}.to(¤)")
                self.add("use", node, edit, extra=extra, **where)
                if known:
                    moved.setdefault(where["but"], []).append(edit)
                if known and alone and isinstance(node, ast.Name) and scope.is_local(node.id):
                    line = text.before(statement, f"{node.id} = {edit[2]}")
                    self.add("line before", statement, line, extra=deep, **where)
            elif kind in _AT_USE and isinstance(value, list | tuple | dict) and inside(value):
                self.add("each use", node, (*span, _each(value, code)), extra=deep, **where)
            if kind in _NUMPY and not isinstance(value, torch.nn.Module):
                if isinstance(value, torch.Tensor):
                    moved.setdefault("", []).append((*span, f"{code}.detach().cpu().numpy()"))
                for way, more in _ways_to_numpy(code, node, value):
                    self.add("numpy", node, (*span, way), extra=deep + more)
            elif kind in _DTYPES and tensor:
                for dtype, way, more in self._dtypes(scope, node):
                    wider = _is_wider(dtype, dtype_of(node, scope))
                    self.add("widened" if wider else "dtype", node, (*span, code + way), extra=deep + more)
            elif kind == kinds.HOST_ONLY and tensor:
                self.add("cpu", node, (*span, f"{code}.cpu()"), extra=deep)
            elif kind == kinds.STRIDES:
                self.add("copy", node, (*span, f"{code}.copy()"), extra=deep)
            elif kind == kinds.PINNED and isinstance(node, ast.Call) and called_name(node) == "pin_memory":
                self.add("pin", node, (*span, text.of(node.func.value)), extra=deep)
            elif kind == kinds.NO_OPERATOR and isinstance(value, torch.Tensor):
                call, (begin, end) = scope.failing, text.span(scope.failing)
                there = changed(text.of(call), [(span[0] - begin, span[1] - begin, f"{code}.cpu()")])
                self.add("operator", call, (begin, end, f"{there}.to({code}.device)"), extra=deep)
        for device, edits in moved.items():
            for some in _apart(edits):
                self.add("all uses", statement, *some, extra=deep, but=device)
        if alone and kind in (kinds.MISMATCH, kinds.META, *_DTYPES):
            self._modules(scope, statement, deep)

    def _modules(self, scope: Scope, statement: ast.stmt, deep: int) -> None:
        def add(kind: str, line: str) -> None:
            self.add(kind, statement, self.text.before(statement, line), extra=deep)

        for name, value in [(n, v) for n, v in scope.values.items() if n.isidentifier()]:
            if isinstance(value, torch.optim.Optimizer) and value.state and self.kind == kinds.MISMATCH:
                add("state", f"{name}.load_state_dict({name}.state_dict())")
            if not isinstance(value, torch.nn.Module):
                continue
            if self.kind in _DTYPES:
                add("dtype", f"{name}.float()")
                continue
            held = devices_of(value)
            add("move model" if held & {"cpu", "meta"} else "move model away", f"{name}.to(¤)")
            if "meta" in held:
                if _can_begin(value):
                    add("to_empty", f"{name}.to_empty(device=¤).apply({_BEGIN})")
                for other, state in scope.values.items():
                    if isinstance(state, dict) and value.state_dict().keys() <= state.keys():
                        add("assign", f"{name}.load_state_dict({other}, assign=True)")

    def _dtypes(self, scope: Scope, node: ast.AST) -> Iterator[tuple[torch.dtype, str, float]]:
        function = scope.evaluate(scope.failing.func) if isinstance(scope.failing, ast.Call) else None
        if isinstance(function, torch.nn.Module) and device_of(function):
            way = f".to(next({self.text.of(scope.failing.func)}.parameters()).dtype)"
            yield next(function.parameters()).dtype, way, 0
        for other in operands(scope):
            named = (
                isinstance(other.node, ast.Name | ast.Attribute) and other.node in self.text.source.parents
            )
            if named and other.tensor is not None and other.node is not node and not other.suffix:
                yield other.tensor.dtype, f".to({self.text.of(other.node)}.dtype)", 1
        yield from ((torch.float32, ".float()", 2), (torch.int64, ".long()", 3), (torch.bool, ".bool()", 5))

    def at(self, node: ast.AST) -> None:
        """Find changes at any place of a file: where tensors and modules are made, moved, kept, handed on."""
        devices = self.kind in _DEVICES
        if isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and devices:
            self._assignment(node)
        elif isinstance(node, ast.For) and devices:
            self._loop(node)
        elif isinstance(node, ast.Return) and node.value and devices and not self._is_live(node):
            edit = (*self.text.span(node.value), f"{self.text.closed(node.value)}.to(¤)")
            self.add("return", node, edit)
        elif isinstance(node, ast.Attribute) and devices and _is_own(node, ast.Load):
            function, parent = self._function(node), self.text.source.parents[node]
            over = [a.arg for a in parameters(function) if "dev" in a.arg and function.name != "__init__"]
            called = isinstance(parent, ast.Attribute) or getattr(parent, "func", None) is node
            if over and not called:
                edit = (*self.text.span(node), f"{self.text.of(node)}.to({over[0]})")
                self.add("in a move", node, edit)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and self.kind == kinds.NO_DEVICE:
            if re.fullmatch(r"(cuda|mps|xpu|sim|gpu)(:\d+)?", node.value):
                self.add("device name", node, (*self.text.span(node), "¤"))
            elif re.fullmatch(r":\d+", node.value):
                self.add("device name", node, (*self.text.span(node), '":0"'))
        if isinstance(node, ast.Expr | ast.Assign | ast.Return) and devices:
            self._made_together(node)
            self._order(node)

    def _call(self, node: ast.Call) -> None:
        text, kind, name = self.text, self.kind, called_name(node)
        later = 0 if self._is_live(node) else 3
        receiver = text.of(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        if kind in _DEVICES:
            for way, edit in self._placed(node, name, receiver):
                self.add(way, node, edit, extra=later)
                if name in ("load", "Generator"):
                    self.add(way, node, (*edit[:2], edit[2].replace("¤", '"cpu"')), extra=1)
            if name in MOVERS and receiver:
                self._move(node, receiver, later)
        if name == "DataLoader" and kind in (kinds.FORK, kinds.PINNED):
            alone = ("multiprocessing_context", "persistent_workers", "prefetch_factor", "num_workers")
            given = [text.of(n) for n in (*node.args, *(k for k in node.keywords if k.arg not in alone))]
            if kind == kinds.FORK:
                edit = (*text.span(node), f"{text.of(node.func)}({', '.join([*given, 'num_workers=0'])})")
                self.add("workers", node, edit)
            elif keyword(node, "pin_memory") is not None:
                self.add("pin", node, text.with_argument(node, "pin_memory", "False"))
        elif name == "load_state_dict" and kind == kinds.META:
            self.add("assign", node, text.with_argument(node, "assign", "True"))
        elif name in _LOGITS and kind == kinds.AMP:
            end = text.span(node.func)[1]
            for other in text.source.parents:
                if isinstance(other, ast.Call) and called_name(other) == "sigmoid":
                    what = text.of(other.args[0] if other.args else other.func.value)
                    edits = [(end - len(name), end, _LOGITS[name]), (*text.span(other), what)]
                    self.add("logits", node, *edits)
        elif name == "autocast" and kind == kinds.AMP:
            given = keyword(node, "device_type") or next(iter(node.args), None)
            begin = text.span(node.func)[1] + 1
            for code, _ in self.refs(node):
                way = f'"{code[1:-1].partition(":")[0]}"' if code.startswith('"') else f"{code}.type"
                rest = ", " * bool(node.args or node.keywords)
                edit = (begin, begin, f"{way}{rest}") if given is None else (*text.span(given), way)
                self.add("autocast", node, edit)
        elif kind in (*_DTYPES, kinds.AMP):
            self._told_dtype(node, name, receiver)

    def _placed(self, node: ast.Call, name: str, receiver: str) -> Iterator[tuple[str, Edit]]:
        """Yield ways to make a call put what it returns on a device."""
        text, span, first = self.text, self.text.span(node), node.args[0] if node.args else None
        given = keyword(node, "device")
        if name == "load":
            yield "load", text.with_argument(node, "map_location", "¤")
        elif name == "Generator":
            yield "generator", (*text.span(first), "¤") if first else text.with_argument(node, "device", "¤")
        elif name in ("from_numpy", "as_tensor") or (name in FACTORIES and name[0].isupper()):
            yield "made", (*span, f"{text.of(node)}.to(¤)")
        elif name in FACTORIES | LIKE:
            way = "factory" if given is None else "factory elsewhere"
            yield way, text.with_argument(node, "device", "¤")
        elif given is not None:
            yield "device argument", text.with_argument(node, "device", "¤")
        elif name in MOVERS and receiver:
            to = name == "to" and first is not None
            yield "moved elsewhere", (*text.span(first), "¤") if to else (*span, f"{receiver}.to(¤)")

    def _move(self, node: ast.Call, receiver: str, later: int) -> None:
        parent, owner = self.text.source.parents[node], node.func.value
        if isinstance(parent, ast.Expr) and isinstance(owner, ast.Name | ast.Attribute | ast.Subscript):
            self.add("thrown away", node, (*self.text.span(node), f"{receiver} = {self.text.of(node)}"))
            return
        scope, first = self.live.get(self._function(node)), node.args[0] if node.args else None
        target = scope.evaluate(first) if scope is not None and first is not None else None
        to_host = node.func.attr == "cpu" or (first is not None and "cpu" in self.text.of(first))
        if to_host or device_named(target) == "cpu" or self.kind in _HOST:
            self.add("not moved", node, (*self.text.span(node), receiver), extra=later)

    def _told_dtype(self, node: ast.Call, name: str, receiver: str) -> None:
        text, span = self.text, self.text.span(node)
        ways: list[tuple[float, Edit]] = []
        if name in FACTORIES and name not in ("from_numpy", "Generator"):
            ways += [(-11, text.with_argument(node, "dtype", "torch.float32"))]
            ways += [(-8, text.with_argument(node, "dtype", "torch.long"))]
            ways += [(-11, text.with_argument(node, "dtype", str(dtype))) for dtype in self.narrow]
        if name in ("double", "half", "bfloat16") and receiver:
            ways += [(-17, (*span, receiver))]
        if name == "astype" and node.args:
            ways += [(-15, (*text.span(node.args[0]), "np.float32"))]
        if name == "array":
            ways += [(-10, text.with_argument(node, "dtype", "np.float32"))]
        if receiver and name in ("from_numpy", "to", "zeros", "ones", "rand", "randn", "eye", "linspace"):
            ways += [(-17 if name == "from_numpy" else -8, (*span, f"{text.of(node)}.float()"))]
        for extra, edit in ways:
            self.add("dtype", node, edit, extra=extra)

    def _assignment(self, node: ast.Assign | ast.AnnAssign) -> None:
        text, target = self.text, node.targets[0] if isinstance(node, ast.Assign) else node.target
        scope, span, code = (
            self.live.get(self._function(node)),
            text.span(node.value),
            text.closed(node.value),
        )
        named = scope is not None and isinstance(target, ast.Name | ast.Attribute)
        value = scope.evaluate(ast.parse(text.of(target), mode="eval").body) if named else MISSING
        self._attribute(node, target)
        made = isinstance(node.value, ast.Call | ast.BinOp | ast.Subscript | ast.Attribute | ast.IfExp)
        where = {
            "but": device_named(value) if isinstance(value, torch.Tensor) else "",
            "own": text.of(target),
        }
        told = scope is not None and isinstance(node.value, ast.Call) and moved_to(node.value, scope)
        split = isinstance(value, torch.nn.Module) and len(devices_of(value) - {"cpu", "meta"}) > 1
        if told or split:
            return  # the move itself is to be changed; a model spread over devices is meant to be
        if isinstance(value, torch.nn.Module | torch.Tensor) or (value is MISSING and made):
            self.add("definition", node, (*span, f"{code}.to(¤)"), extra=7 * (scope is None), **where)
        elif isinstance(value, list | tuple | dict):
            self.add("each definition", node, (*span, _each(value, code)), **where)
        for one in target.elts if isinstance(target, ast.Tuple) else ():
            if isinstance(one, ast.Name):
                self.add("unpacked", node, text.after(node, f"{one.id} = {one.id}.to(¤)"), own=f"{one.id}.")

    def _attribute(self, node: ast.stmt, target: ast.AST) -> None:
        """Find what a module should register instead of an attribute, alone and with others of its class."""
        text, value, function = self.text, self.text.of(node.value), self._function(node)
        if not _is_own(target, ast.Store) or text.source.enclosing(node, (ast.ClassDef,)) is None:
            return
        nn = "nn" if any(scope.globals.get("nn") is torch.nn for scope in self.scopes) else "torch.nn"
        if type(node.value) in _LITERALS:
            for place, what in enumerate(("Module", "Parameter")):
                new = f"{nn}.{what}{_LITERALS[type(node.value)]}({value})"
                self.add("container", node, (*text.span(node.value), new), extra=3 * place)
            return

        for place, more in enumerate(("", ", persistent=False")):
            if not place or getattr(function, "name", "") == "__init__":
                edit = (*text.span(node), f'self.register_buffer("{target.attr}", {value}{more})')
                self.add("register", node, edit, extra=place / 2)

    def _loop(self, node: ast.For) -> None:
        """Bring over what a loop draws, at the head of its body."""
        scope = self.live.get(self._function(node))
        if scope is None or node.body[0].lineno == node.lineno:
            return
        names = [n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)]
        tensors = [name for name in names if isinstance(scope.values.get(name), torch.Tensor)]
        for device in dict.fromkeys(str(scope.values[name].device) for name in tensors):
            apart = [name for name in tensors if str(scope.values[name].device) == device]
            for some in dict.fromkeys([tuple(apart), *((name,) for name in apart)]):
                line = f"{', '.join(some)} = {', '.join(f'{name}.to(¤)' for name in some)}"
                edit, own = self.text.before(node.body[0], line), f"{some[0]}."
                self.add("batch", node.body[0], edit, extra=len(some) != len(apart), but=device, own=own)

    def _made_together(self, node: ast.stmt) -> None:
        made = [c for c in ast.walk(node) if isinstance(c, ast.Call) and called_name(c) in FACTORIES | LIKE]
        made = [c for c in made if not called_name(c)[0].isupper() and called_name(c) != "from_numpy"]
        made = [c for c in made if not any(o is not c and c in ast.walk(o) for o in made)]
        if len(made) > 1:
            edits = [self.text.with_argument(call, "device", "¤") for call in made]
            self.add("factory", node, *edits, extra=1)

    def _order(self, node: ast.stmt) -> None:
        """Find a move that comes too late, as `model.to(...)` does after the optimizer was made."""
        call, block = getattr(node, "value", None), block_of(self.text.source, node)
        mover = (
            isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in MOVERS
        )
        if not mover or not isinstance(call.func.value, ast.Name) or isinstance(node, ast.Return):
            return
        name, line, place = call.func.value.id, self.text.of(node), block.index(node)
        made = [s for s in block[:place] if name in [ast.unparse(t) for t in getattr(s, "targets", [])]]
        if made:
            self.add("move earlier", node, self.text.after(made[-1], line))
        for far, other in enumerate(block[place + 1 :]):
            if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(other)):
                self.add("move again", node, self.text.after(other, line), extra=far)


def _is_wider(new: torch.dtype, old: torch.dtype | None) -> bool:
    floats = old is not None and old.is_floating_point and new.is_floating_point
    return floats and new.itemsize > old.itemsize


def _can_begin(module: torch.nn.Module) -> bool:
    """Tell whether every module with values of its own can give itself fresh values."""
    own = [m for m in module.modules() if [*m.parameters(recurse=False), *m.buffers(recurse=False)]]
    return all(hasattr(m, "reset_parameters") for m in own)


def _is_here(device: str) -> bool:
    here = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    kind, _, index = device.partition(":")
    known = here is not None and kind == here.type and int(index or 0) < torch.accelerator.device_count()
    return device == "cpu" or known


def _named(values: dict, prefix: str, types_: tuple | type) -> Iterator[_Ref]:
    for name, value in list(values.items()):
        if (
            isinstance(value, types_)
            and name.removeprefix("self.").isidentifier()
            and (device := device_named(value))
        ):
            if not isinstance(value, torch.nn.Module):
                yield f"{prefix}{name}{'.device' * isinstance(value, torch.Tensor)}", device
            elif device_of(value):
                yield f"next({prefix}{name}.parameters()).device", device


def _ways_to_numpy(code: str, node: ast.AST, value: object) -> Iterator[tuple[str, float]]:
    if isinstance(value, torch.Tensor) or value is MISSING:
        yield from ((code + way, place - 6) for place, way in enumerate(_AWAY))
    if isinstance(value, list | tuple) or value is MISSING or isinstance(node, ast.List | ast.ListComp):
        yield from ((f"torch.stack({code}).detach().cpu(){more}", -2) for more in ("", ".numpy()"))
        for place, way in enumerate(_EACH_AWAY):
            yield f"[{way} if torch.is_tensor(x) else x for x in {code}]", place


def _each(value: object, code: str) -> str:
    if isinstance(value, dict):
        return f"{{k: v.to(¤) for k, v in {code}.items()}}"
    return f"[v.to(¤) for v in {code}]" if isinstance(value, list) else f"tuple(v.to(¤) for v in {code})"


def _apart(edits: list[Edit]) -> Iterator[list[Edit]]:
    """Yield two edits or more that do not overlap: the outermost, then the innermost."""
    outer = [e for e in edits if not any(o is not e and o[0] <= e[0] and e[1] <= o[1] for o in edits)]
    inner = [e for e in edits if not any(o is not e and e[0] <= o[0] and o[1] <= e[1] for o in edits)]
    yield from (some for some in (outer, inner) if len(some) > 1)


def _is_own(node: ast.AST | None, context: type) -> bool:
    own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return own and isinstance(node.ctx, context)


def _writable(text: Text, statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield the expressions of a statement that may be written anew: not called, nor written in place."""
    heads = [getattr(statement, name, None) for name in ("iter", "test")]
    heads += [item.context_expr for item in getattr(statement, "items", ())]
    heads = [head for head in heads if head is not None] if hasattr(statement, "body") else [statement]
    for node in itertools.chain.from_iterable(map(ast.walk, heads)):
        parent, above = text.source.parents.get(node), text.source.parents.get(text.source.parents.get(node))
        if not isinstance(node, _EXPRESSIONS) or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            continue
        owns = isinstance(parent, ast.Attribute | ast.Subscript) and parent.value is node
        if owns and not isinstance(parent.ctx, ast.Load):
            continue
        if isinstance(parent, ast.Attribute):
            in_place = parent.attr.endswith("_") and not parent.attr.endswith("__")
            called = isinstance(above, ast.Call) and (in_place or parent.attr in MOVERS)
            if called or parent.attr in ("device", "dtype", "shape", "size", "dim"):
                continue
        named = isinstance(parent, ast.keyword) and parent.arg in ("device", "dtype")
        alone = isinstance(parent, ast.Expr) and isinstance(node, ast.Name)
        called = getattr(parent, "func", None) is node and not isinstance(node, ast.Call)
        if not (named or alone or called):
            yield node
