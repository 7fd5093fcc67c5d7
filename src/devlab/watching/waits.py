"""What an operator that makes the host wait for an accelerator is called in a log."""

from collections.abc import Iterator

from devlab.sim.waits import counts_mask
from devlab.watching.operators import Kind


def causes(kind: Kind, args: tuple, kwargs: dict) -> Iterator[str]:
    """Yield the cause of each wait in one operator, in the learner's words."""
    if kind.role == "index":
        if counts_mask(args):
            yield "boolean mask"
    elif kind.waits is not None and kind.waits(args, kwargs):
        yield f"{kind.name.strip('_').rstrip('2')}()"
