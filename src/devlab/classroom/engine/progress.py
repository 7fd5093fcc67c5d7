"""What `devlab grade` shows while it works: a line for each submission and, on a terminal, a bar."""

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator

from devlab.classroom.download import printable


@contextlib.contextmanager
def shown(total: int) -> Iterator[Callable[[str], None]]:
    """Yield the function that shows a submission's line; `total` is how many there will be.

    The bar needs a terminal and rich; without them the lines come alone, each with its number.

    >>> with shown(12) as show:
    ...     show("anna, 05_buffers: 3 of 34")
     1/12  anna, 05_buffers: 3 of 34
    """
    numbers = itertools.count(1)

    def numbered(text: str) -> str:
        return f"{next(numbers):{len(str(total))}}/{total}  {printable(text)}"

    bar = _bar() if sys.stdout.isatty() else None
    if bar is None:
        yield lambda text: print(numbered(text), flush=True)
        return
    from rich.text import Text  # a name in [brackets] is no style

    with bar:
        task = bar.add_task("", total=total)

        def show(text: str) -> None:
            bar.console.print(Text(numbered(text)), soft_wrap=True)
            bar.advance(task)

        yield show


def _bar():
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as TimeLeft
    except ImportError:
        return None
    return Progress(BarColumn(None), MofNCompleteColumn(), TimeElapsedColumn(), "left", TimeLeft())
