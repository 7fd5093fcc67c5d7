"""The smallest change that brings a tensor to where it was needed, as a line of the learner's own code."""

import ast
from dataclasses import replace

import torch

from devlab.explaining import flow, reach
from devlab.explaining.culprit import Operand, operands, written
from devlab.explaining.edit import (
    Mend,
    in_statement,
    line_of,
    moved,
    rebindable,
    reference,
    remade,
    rewritten,
    serves_others,
    with_argument,
)
from devlab.explaining.frames import MISSING, Scope, argument_for, handed_on, own_nodes, passed
from devlab.explaining.story import BATCH, LOADED, MADE, MOVED, NUMPY, Hop, Story, follow


def at_use(operand: Operand, home: str) -> Mend | None:
    """Bring a tensor over before its use, where the learner's own code first had the tensor in hand."""
    story = operand.story
    hops = [hop for hop in story.trail[: story.joined] if hop.scope.mine and not hop.holds_many]
    shared = next((place for place, hop in enumerate(hops) if serves_others(hop, operand.device)), None)
    if shared is not None:
        hops = hops[: shared + 1]
    cached = story.held in (reach.ATTRIBUTE, reach.ITEM) and story.end != BATCH
    born = [hop for hop in hops if hop.scope is story.scope]
    chosen = hops[:1] if cached else born[:1] or hops[-1:]
    for hop in chosen + [hop for hop in reversed(hops) if hop not in chosen]:
        here = cached or (shared is not None and hop is hops[shared])
        if change := _at_hop(operand, hop, home, here):
            return change
    return _all_of_it(operand, home) or inside_line(operand, home)


def _at_hop(operand: Operand, hop: Hop, home: str, here: bool) -> Mend | None:
    """Bring a tensor over at one of its names: by a line before, or, where `here` is set, inside the line."""
    scope = hop.scope
    if thrown := thrown_away(hop):
        return Mend(scope.where(thrown.lineno), f"{hop.text} = {scope.text(thrown)}")
    ref = _reference(operand, scope, hop.line, home, hop.text)
    own = operand.scope is scope
    if operand.suffix and own and (here or ast.unparse(operand.node) == ast.unparse(hop.node)):
        return Mend(
            scope.where(), _each(scope.text(operand.node), scope.evaluate(operand.node), ref), before=True
        )
    if here and own and scope.source is not None and (change := inside_line(operand, home)):
        return change
    if isinstance(hop.node, ast.Subscript) and _all_misplaced(hop, operand.device):
        whole = scope.text(hop.node.value)
        return Mend(scope.where(hop.line), _each(whole, scope.evaluate(hop.node.value), ref), before=True)
    if isinstance(hop.node, ast.Subscript) and isinstance(scope.evaluate(hop.node.value), tuple):
        whole = scope.text(hop.node.value)  # a tuple takes no new element
        code = f"{whole} = tuple(value.to({ref}) for value in {whole})"
        return Mend(scope.where(hop.line), code, before=True)
    if rebindable(hop) and not (here and not own and _in_line(scope, hop.node)):
        return Mend(scope.where(hop.line), f"{hop.text} = {hop.text}.to({ref})", before=True)
    return _in_line(scope, hop.node, ref)


def _all_misplaced(hop: Hop, device: str) -> bool:
    """Tell whether an element under a constant key is one of several, and all of them on the device."""
    value = hop.scope.evaluate(hop.node.value)
    items = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(items, list) or not isinstance(hop.node.slice, ast.Constant) or len(items) < 2:
        return False
    return isinstance(hop.node.value, ast.Name) and all(
        isinstance(item, torch.Tensor) and str(item.device) == device for item in items
    )


def _in_line(scope: Scope, node: ast.AST, ref: str = "") -> Mend | None:
    """Bring the value of an expression over, inside the expression's own line."""
    if scope.source is None or node not in scope.source.parents:
        return None
    if not isinstance(getattr(node, "ctx", None), ast.Load | None):
        return None
    return line_of(scope, node, in_statement(scope, node, moved(scope.text(node), ref)))


def together(operand: Operand, home: str) -> Mend | None:
    """Bring over several tensors, misplaced alike, in one line: where they are made, or where they meet."""
    use, scope = _use(operand)
    others = as_misplaced(use, scope, operand.device) if scope is not None else []
    stories = [operand.story, *(follow(node, scope, operand.device) for node in others)]
    made = list(dict.fromkeys(story.node for story in stories))
    if len(made) == 1:
        return None
    first = stories[0].scope
    if all(
        story.end == MADE and story.scope.mine and story.scope.source is first.source for story in stories
    ):
        in_one = len({first.source.statement(node) for node in made}) == 1
        ref = reference(first, made[0].lineno, home)
        changes = [(node, remade(node, first, ref, MADE)) for node in made]
        if in_one and (change := line_of(first, made[0], in_statement(first, *changes[0], *changes[1:]))):
            return change
    return inside_line(operand, home)


def inside_line(operand: Operand, home: str) -> Mend | None:
    """Bring an operand over in the line that failed, with the others there that are as misplaced."""
    use, scope = _use(operand)
    if scope is None or scope.source is None or written(operand):
        return None
    if scope is operand.scope and operand.story.joined != 0:  # `table.to(x.device).cos()` says it best
        named = [hop.node for hop in operand.story.trail[:1] if any(n is hop.node for n in ast.walk(use))]
        use = (named or [use])[0]
    ref = _reference(operand, scope, scope.line, home, scope.text(use))
    nodes = [use, *as_misplaced(use, scope, operand.device)]
    first, *more = [(node, _brought(node, scope, ref)) for node in nodes]
    return line_of(scope, use, in_statement(scope, *first, *more))


def _brought(node: ast.AST, scope: Scope, ref: str) -> str:
    if flow.is_call_of(node, scope, flow.FACTORIES):
        return remade(node, scope, ref, MADE)
    if flow.moved_to(node, scope):
        return remade(node, scope, ref, MOVED)
    return moved(scope.text(node), ref)


def as_misplaced(use: ast.AST, scope: Scope, device: str) -> list[ast.expr]:
    """Return the other tensors of a line that are on the culprit's device and that PyTorch works on."""
    if scope.source is None or use not in scope.source.parents:
        return []
    found: list[ast.expr] = []
    around = [use]
    while not isinstance(around[-1], ast.stmt):
        parent = scope.source.parents[around[-1]]
        apart = isinstance(parent, ast.Tuple | ast.List | ast.Dict | ast.Assign | ast.Return)
        if (
            apart
            and not isinstance(around[-1], ast.Subscript)
            and not isinstance(scope.source.parents.get(parent), ast.Call)
        ):
            break  # its neighbours there meet it in no operation
        around.append(parent)
    queue = [around[-1]]
    while queue:
        node = queue.pop(0)
        if node is use or isinstance(node, ast.Lambda | ast.comprehension):
            continue
        tensor = scope.evaluate(node)
        named = isinstance(tensor, torch.Tensor) and tensor.dim() > 0 and str(tensor.device) == device
        made = flow.is_call_of(node, scope, flow.FACTORIES) and flow.infer(node, scope) == device
        if (named or (made and node not in around)) and isinstance(
            getattr(node, "ctx", None), ast.Load | None
        ):
            found.append(node)
        elif not isinstance(node, ast.Call) or node in around or _pytorchs(node, scope):
            queue += [n for n in ast.iter_child_nodes(node) if not _anywhere(node, n)]
    return found


def _anywhere(node: ast.AST, part: ast.AST) -> bool:
    """Tell whether a part of an expression serves on any device: what is written to, asked, or tested."""
    if isinstance(node, ast.Attribute):
        return node.attr in ("shape", "device", "dtype", "ndim")
    if isinstance(node, ast.Compare):
        return isinstance(node.ops[0], ast.Is | ast.IsNot)
    method = isinstance(part, ast.Attribute) and isinstance(node, ast.Call) and part is node.func
    return (method and part.attr.endswith("_")) or (isinstance(node, ast.IfExp) and part is node.test)


def _pytorchs(call: ast.Call, scope: Scope) -> bool:
    if flow.moved_to(call, scope):
        return False
    leaves = ("numpy", "item", "tolist", "size")
    method = isinstance(call.func, ast.Attribute) and call.func.attr not in leaves
    return flow.is_torchs(call, scope) or (method and bool(flow.infer(call.func.value, scope)))


def used_as(node: ast.AST, scope: Scope) -> tuple[ast.AST, Scope | None]:
    """Return the learner's own expression that a library's operand is the value of, with its scope."""
    while not scope.mine:
        if not isinstance(node, ast.Name) or (passed := argument_for(scope, node.id)) is None:
            return node, None
        node, scope = passed
    if scope.source is not None and node not in scope.source.parents:  # the name of a path, not of the text
        text = ast.unparse(node)
        line = scope.source.statement(scope.failing) if scope.failing is not None else None
        alike = [n for n in ast.walk(line) if ast.unparse(n) == text] if line is not None else []
        node = alike[0] if alike else node
    return node, scope


def _use(operand: Operand) -> tuple[ast.AST, Scope | None]:
    use, scope = used_as(operand.node, operand.scope)
    if scope is None:  # a library gave it another name: it is the one argument on that device
        scope = operand.scope
        while scope is not None and not scope.mine:
            scope = None if handed_on(scope, "input") else scope.caller
        call = scope.failing if scope is not None else None
        given = list(passed(call)) if isinstance(call, ast.Call) else []
        there = [node for node in given if flow.is_on(node, scope, operand.device)]
        use, scope = (there[0], scope) if len(there) == 1 else (use, None)
    found = flow.infer(use, scope) if scope is not None else ""
    return use, scope if not found or flow.same(found, operand.device) else None


def _reference(operand: Operand, scope: Scope, line: int, home: str, without: str) -> str:
    """Return how to say the device; among several accelerators, as that of what the tensor meets."""
    if operand.device != "cpu" and scope.failing is not None:
        call = scope.failing
        function = scope.evaluate(call.func) if isinstance(call, ast.Call) else None
        if isinstance(function, torch.nn.Module) and flow.same(flow.device_of(function) or "?", home):
            return f"next({scope.text(call.func)}.parameters()).device"
        for other in operands(scope):
            named = isinstance(other.node, ast.Name | ast.Attribute) and not other.suffix
            if named and flow.same(other.device or "?", home) and other.tensor is not None:
                return f"{other.text.removesuffix('.T').removesuffix('.mT')}.device"
    return reference(scope, line, home, without)


def _all_of_it(operand: Operand, home: str) -> Mend | None:
    """Bring over a list, tuple or dict that is passed as one, where no name stands for the tensor alone."""
    hop = next((hop for hop in operand.story.trail if hop.scope.mine), None)
    if hop is None or not rebindable(hop):
        return None
    code = _each(hop.text, hop.scope.evaluate(hop.node), reference(hop.scope, hop.line, home))
    return Mend(hop.scope.where(hop.line), code, before=True) if code else None


def _each(text: str, value: object, ref: str) -> str:
    """Return the line that brings over every tensor of a list, tuple or dict."""
    if isinstance(value, dict):
        return f"{text} = {{key: value.to({ref}) for key, value in {text}.items()}}"
    if isinstance(value, list):
        return f"{text} = [value.to({ref}) for value in {text}]"
    return f"{text} = tuple(value.to({ref}) for value in {text})" if isinstance(value, tuple) else ""


def thrown_away(hop: Hop) -> ast.Call | None:
    """Return a statement `x.to(...)` that throws its result away, if the function has one for this name."""
    for node in own_nodes(hop.scope.node) if hop.scope.node is not None else ():
        call = node.value if isinstance(node, ast.Expr) and node.lineno <= hop.line else None
        method = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        if method and call.func.attr in flow.MOVERS and ast.unparse(call.func.value) == hop.text:
            return call
    return None


# A distribution is given one parameter of such a group and may keep all; any one makes the distribution.
_EITHER = (("logits", "probs"), ("scale_tril", "covariance_matrix", "precision_matrix"))


def rebuilt(operand: Operand, home: str) -> Mend | None:
    """Make a distribution again, which has no `.to`, from its own parameters brought over."""
    path = operand.story.path
    holder = path.steps[-1].holder if path and path.steps else operand.story.owner
    if not isinstance(holder, torch.distributions.Distribution):
        return None
    text = path.text.rpartition(".")[0] if path else ""
    kind, scope = type(holder), path.scope if path else operand.scope
    own = [n for n in kind.arg_constraints if isinstance(vars(holder).get(n), torch.Tensor)]
    for either in _EITHER:
        own = [n for n in own if n not in either or n == next(e for e in either if e in own)]
    if not (text and own) or "._" in text or getattr(torch.distributions, kind.__name__, None) is not kind:
        return None
    ref = reference(scope, scope.line, home)
    given = ", ".join(f"{name}={text}.{name}.to({ref})" for name in own)
    torchs = "torch" if scope.lookup("torch") is torch else "__import__('torch')"
    anew = f"{torchs}.distributions.{kind.__name__}({given})"
    node = ast.parse(text, mode="eval").body
    if rebindable(Hop(text, scope, scope.line, node)):
        return Mend(scope.where(), f"{text} = {anew}", before=True)
    uses = [n for n in ast.walk(scope.failing) if ast.unparse(n) == text] if scope.failing is not None else []
    return line_of(scope, uses[0], in_statement(scope, uses[0], anew)) if uses else None


def mend(operand: Operand, home: str) -> Mend | None:
    """Return the change that brings the culprit to `home`, the device of the others."""
    story = operand.story
    if story.held == reach.STATE or (story.path and story.path.of_optimizer):
        return _state(operand)
    if story.held == reach.BUFFER and story.write is not None:
        return _given_anew(story)
    if home == "cpu" and any(written(other) for other in operands(operand.scope)):
        return inside_line(operand, home)
    at_once = _registered_at_once(operand) or rebuilt(operand, home)
    if change := at_once or (not story.registered and together(operand, home)):
        return change
    if story.held == reach.ATTRIBUTE and isinstance(story.owner, torch.nn.Module):
        return _attribute(operand, home)
    if story.held == reach.ATTRIBUTE:
        return _at_making(story, home, certain=True) or at_use(operand, home)
    return _at_making(story, home) or at_use(operand, home)


def _at_making(story: Story, home: str, certain: bool = False) -> Mend | None:
    """Make the tensor on the right device in the first place."""
    call, scope = story.node, story.scope
    if story.joined is not None or any(
        serves_others(hop, story.device) for hop in story.trail if hop.scope.mine
    ):
        return None
    if story.end not in (MADE, NUMPY, MOVED, LOADED) or not isinstance(call, ast.Call) or not scope.mine:
        return None
    ref = reference(scope, call.lineno, home)
    if certain and ref.startswith('"'):
        return None
    return line_of(scope, call, in_statement(scope, call, remade(call, scope, ref, story.end)))


def _given_anew(story: Story) -> Mend:
    """A registered tensor takes new values where it is, not a new tensor."""
    write, scope = story.write, story.write_scope
    target = f"{scope.parameters()[0]}.{story.attr}"
    code = with_argument(write.value, scope, "device", f"{target}.device")
    return Mend(scope.where(write.line), in_statement(scope, write.value, code))


# A container that another method fills is a cache, filled while the module works.
_SETTING_UP = ("__init__", "__post_init__", "build", "_build", "setup", "reset_parameters")


def _attribute(operand: Operand, home: str) -> Mend | None:
    story = operand.story
    write, scope = story.write, story.write_scope
    name = story.attr
    value = vars(story.owner).get(name, MISSING)
    owner = scope.parameters()[0] if scope and scope.parameters() else "self"
    initial = scope is not None and scope.name not in ("forward", "__call__")
    initial = initial and not isinstance(scope.node, ast.ClassDef)
    if write is None and isinstance(value, torch.Tensor):
        hop = next(hop for hop in story.trail if hop.text.endswith(f".{name}"))
        base = hop.text.removesuffix(f".{name}")
        return Mend(
            f"the __init__ of {type(story.owner).__name__}", f'{base}.register_buffer("{name}", {hop.text})'
        )
    if write is None or not initial or write.how not in ("assign", "item"):
        return _use_or_making(operand, home)
    where = scope.where(write.line)
    text = scope.text(write.value)
    if isinstance(value, torch.Tensor) and write.how == "assign":
        if scope.function is None:  # assigned from outside the class, perhaps after the move
            if story.end in (MADE, NUMPY, MOVED) and story.joined is None and story.scope is scope:
                ref = reference(scope, write.line, home)
                made = remade(story.node, scope, ref, story.end)
                text = rewritten(scope.source, write.value, (story.node, made))
            target = scope.text(write.statement).partition("=")[0].strip().rpartition(".")[0]
            return Mend(where, f'{target}.register_buffer("{name}", {text})')
        return Mend(where, f'{owner}.register_buffer("{name}", {text})')
    if isinstance(value, list | tuple | dict) and scope.name not in _SETTING_UP:
        return _use_or_making(operand, home)
    nn = "nn" if scope.globals.get("nn") is torch.nn else "torch.nn"
    change = container(f"{owner}.{name}", name, owner, value, where, text, write.how)
    if change is not None:
        return replace(change, code=change.code.replace("torch.nn", nn))
    change = at_use(operand, home)
    advice = (
        f"{owner}.register_buffer(...) for each, under a name of its own, and {owner}.{name} by those names"
    )
    return replace(change, otherwise=advice) if change and scope.name == "__init__" else change


def _registered_at_once(operand: Operand) -> Mend | None:
    """Register all the tensors that one line `self.a, self.b = ...` gives to a module."""
    story = operand.story
    statement = story.write.statement if story.held == reach.ATTRIBUTE and story.write else None
    targets = getattr(statement, "targets", [None])[0]
    values = getattr(statement, "value", None)
    if (
        statement is None
        or not isinstance(story.owner, torch.nn.Module)
        or story.write_scope.name != "__init__"
    ):
        return None
    if not (isinstance(targets, ast.Tuple) and isinstance(values, ast.Tuple)):
        return None
    own, lines = vars(story.owner), []
    for target, value in zip(targets.elts, values.elts, strict=True):
        text, given = story.write_scope.text(target), story.write_scope.text(value)
        owner, _, name = text.rpartition(".")
        tensor = isinstance(own.get(name), torch.Tensor)
        lines.append(f'{owner}.register_buffer("{name}", {given})' if tensor else f"{text} = {given}")
    return Mend(story.write_scope.where(statement.lineno), "; ".join(lines))


def container(target: str, name: str, owner: str, value, where: str, text: str, how: str) -> Mend | None:
    """Return the line that registers what a plain list or dict of a module holds."""
    if isinstance(value, torch.nn.Module):
        return Mend(where, f"{target} = {text}")
    if not isinstance(value, list | tuple | dict):
        return None
    items = list(value.values() if isinstance(value, dict) else value)
    named = isinstance(value, dict)
    if any(isinstance(item, torch.nn.Module) for item in items):
        kind = "ModuleDict" if named else "ModuleList"
        filled = text if how == "assign" else "{}" if named else "[]"
        return Mend(where, f"{target} = torch.nn.{kind}({'' if filled in ('[]', '{}') else filled})")
    if any(isinstance(item, torch.nn.Parameter) for item in items):
        kind = "ParameterDict" if named else "ParameterList"
        return Mend(where, f"{target} = torch.nn.{kind}({text if how == 'assign' else ''})")
    return None


def _use_or_making(operand: Operand, home: str) -> Mend | None:
    story = operand.story
    if operand.suffix:
        return at_use(operand, home)
    made = story.end in (MADE, NUMPY) and isinstance(story.node, ast.Call)
    if made and flow.keyword(story.node, "device") is None:
        return _at_making(story, home, certain=True) or at_use(operand, home)
    return at_use(operand, home)


def _state(operand: Operand) -> Mend | None:
    path = operand.story.path
    if path is None:
        return None
    state = next(i for i, step in enumerate(path.steps) if step.kind == reach.STATE)
    name = path.steps[state - 1].path if state else path.root
    code = f"{name}.load_state_dict({name}.state_dict())"
    return Mend(path.scope.where(), code, before=True)
