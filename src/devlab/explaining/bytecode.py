"""What an operation worked on, read from the compiled code where the source text is not to be had."""

import ast
import dis
from types import CodeType


def loaded(code: CodeType, instruction: int) -> list[str]:
    """Return the names and attributes that the failing instruction's expression loads, in order.

    >>> source = compile("a + b.c", "nowhere", "eval")
    >>> add = next(i for i in dis.get_instructions(source) if i.opname.startswith("BINARY"))
    >>> loaded(source, add.offset)
    ['a', 'b.c']
    """
    positions = list(code.co_positions())
    if instruction // 2 >= len(positions) or None in positions[instruction // 2]:
        return []
    whole = positions[instruction // 2]
    found: list[str] = []
    fresh = False  # an attribute belongs to a name only if nothing came between
    for one in dis.get_instructions(code):
        if one.offset > instruction or not _within(positions[one.offset // 2], whole):
            continue
        names = one.argval if isinstance(one.argval, tuple) else (one.argval,)
        if one.opname.startswith(("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF")):
            found += [name for name in names if isinstance(name, str)]
            fresh = True
        elif one.opname == "LOAD_ATTR" and fresh and "NULL" not in one.argrepr:
            found[-1] = f"{found[-1]}.{one.argval}"
        elif one.opname not in ("CACHE", "EXTENDED_ARG", "COPY"):
            fresh = False
    return found


def _within(inner: tuple, whole: tuple) -> bool:
    if None in inner:
        return False
    return (inner[0], inner[2]) >= (whole[0], whole[2]) and (inner[1], inner[3]) <= (whole[1], whole[3])


def as_call(names: list[str], line: int) -> ast.Call | None:
    """Return a call that stands for the unseen operation: what was loaded, as its arguments."""
    if not names:
        return None
    call = ast.parse(f"operation({', '.join(names)})", mode="eval").body
    return ast.increment_lineno(call, line - 1)
