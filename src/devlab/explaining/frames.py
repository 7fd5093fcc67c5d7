"""The frames of a traceback as scopes, without those that say nothing of the learner's program."""

import inspect
import types

from devlab.checks.calls import PACKAGE, is_learners
from devlab.explaining.bytecode import as_call, loaded
from devlab.explaining.scope import TORCH, Scope
from devlab.explaining.source import FUNCTIONS, source_of

# PyTorch's compiler, whose values are not the program's.
_COMPILER = tuple(f"{TORCH}/{part}" for part in ("_dynamo", "_inductor", "fx"))
# PyTorch's functions that only pass a call on.
_RELAYS = frozenset(
    [
        "__torch_function__",
        "handle_torch_function",
        "_call_impl",
        "_wrapped_call_impl",
        "wrapper",
        "_use_grad",
        "maybe_fallback",
        "decorate_context",
        "fn",
    ]
)


def scopes_of(error: BaseException) -> list[Scope]:
    """Return the traceback's frames as scopes, outermost first, without devlab's own and PyTorch's relays."""
    scopes: list[Scope] = []
    entry = error.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        relay = code.co_filename.startswith(TORCH) and code.co_name in _RELAYS
        compiling = code.co_filename.startswith(_COMPILER)
        if not relay and not compiling and not code.co_filename.startswith(str(PACKAGE)):
            scopes.append(_scope(entry, scopes[-1] if scopes else None))
        entry = entry.tb_next
    return scopes


def _locals(frame: types.FrameType) -> dict:
    """Return a copy of a frame's variables.

    Before Python 3.13 a function's frame keeps what `f_locals` once gave. An error in it would keep its
    traceback alive, and with it the memory of a device that was full, until the function returns.
    """
    kept = frame.f_locals
    values = dict(kept)
    if type(kept) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        for name in [name for name, value in values.items() if isinstance(value, BaseException)]:
            del kept[name]
    return values


def _scope(entry: types.TracebackType, caller: Scope | None) -> Scope:
    frame = entry.tb_frame
    code = frame.f_code
    source = source_of(code.co_filename)
    values = _locals(frame)
    free = code.co_freevars
    failing = node = None
    if source is not None:
        failing = source.failing(code, entry.tb_lasti)
        if code.co_name in ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"):
            node = source.enclosing(failing, FUNCTIONS) if failing is not None else None
            node = node or source.tree
            values = (caller.values if caller else {}) | values
            if caller is not None and caller.node is node:
                caller, free = caller.caller, caller.free
        else:
            node = source.function(code)
    elif caller is None or not code.co_filename.startswith("<frozen"):
        failing = as_call(loaded(code, entry.tb_lasti), entry.tb_lineno)
    return Scope(
        name=code.co_name,
        filename=code.co_filename,
        line=entry.tb_lineno,
        source=source,
        node=node,
        values=values,
        globals=frame.f_globals,
        failing=failing,
        caller=caller,
        mine=is_learners(code.co_filename),
        free=free,
        names=code.co_names,
        given=code.co_varnames[: code.co_argcount + code.co_kwonlyargcount],
    )
