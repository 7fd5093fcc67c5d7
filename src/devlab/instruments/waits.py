"""Which operators make the host wait for an accelerator, because it needs to know their outcome."""

from collections.abc import Iterator

from devlab.instruments.operators import MASKS, Kind, fills_mask


def causes(kind: Kind, args: tuple, kwargs: dict) -> Iterator[str]:
    """Yield the cause of each wait in one operator, in the learner's words."""
    if kind.role == "index":
        if _counts_mask(kind, args):
            yield "boolean mask"
    elif kind.waits and kwargs.get("output_size") is None:
        yield f"{kind.name.strip('_').rstrip('2')}()"


def _counts_mask(kind: Kind, args: tuple) -> bool:
    """Tell whether the number of True elements of a mask on the accelerator must be known."""
    if not any(index is not None and index.dtype in MASKS and not index.is_cpu for index in args[1]):
        return False
    if kind.name == "index":
        return True
    return not fills_mask(args)
