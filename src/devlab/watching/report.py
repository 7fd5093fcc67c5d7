"""How a watch's log reads: the counts in a line or two, then a table of what crossed and what waited."""

from collections.abc import Iterator

from devlab.panel import escape
from devlab.watching.events import Synchronization, Transfer
from devlab.watching.record import Record
from devlab.watching.sizes import size

MOST_ROWS = 40
_HEADING = ("times", "what", "from → to", "bytes", "how", "line")
_NUMBERS = frozenset({"times", "bytes"})


def text(record: Record) -> str:
    """Return the whole log as aligned text."""
    rows, more = _table(record)
    if not rows:
        return "\n".join(_summary(record))
    rows = [_HEADING, *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADING))]
    lines = [
        "  ".join(
            cell.rjust(width) if name in _NUMBERS else cell.ljust(width)
            for cell, width, name in zip(row, widths, _HEADING, strict=True)
        ).rstrip()
        for row in rows
    ]
    return "\n".join([*_summary(record), "", *lines, *more])


def html(record: Record) -> str:
    """Return the whole log as HTML."""
    first, *rest = _summary(record)
    parts = [f"<div><strong>{escape(first)}</strong></div>", *(f"<div>{escape(line)}</div>" for line in rest)]
    rows, more = _table(record)
    if rows:
        head = "".join(f'<th scope="col" style="{_align(name)}">{name}</th>' for name in _HEADING)
        body = "".join(
            "<tr>"
            + "".join(
                f'<td style="{_align(name)};white-space:pre-wrap">{escape(cell)}</td>'
                for cell, name in zip(row, _HEADING, strict=True)
            )
            + "</tr>"
            for row in rows
        )
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
    return "".join([*parts, *(f"<div>{escape(line)}</div>" for line in more)])


def _align(name: str) -> str:
    return f"text-align:{'right' if name in _NUMBERS else 'left'}"


def count(number: int, word: str) -> str:
    """Return a number with its noun.

    >>> count(1, "transfer"), count(2, "transfer"), count(2, "launch")
    ('1 transfer', '2 transfers', '2 launches')
    """
    plural = f"{word}es" if word.endswith("ch") else f"{word}s"
    return f"{number:,} {word if number == 1 else plural}"


def _summary(record: Record) -> list[str]:
    lines = [
        f"{count(record.transfers, 'transfer')} ({size(record.bytes_moved)}), "
        f"{count(record.synchronizations, 'synchronization')}, {count(record.launches, 'launch')}, "
        f"{size(record.bytes_allocated)} of new tensors"
    ]
    if record.operators:
        lines.append("operators    " + _each(record.operators, "{:,}".format))
    if record.allocated:
        lines.append("new tensors  " + _each(record.allocated, size))
    if record.dropped:
        lines.append(f"the first {len(record.events):,} events are listed; the counts are complete")
    if record.error is not None:
        lines.append(f"the block raised {type(record.error).__name__}; what it did until then is here")
    return lines


def _each(counts: dict[str, int], say) -> str:
    named = {
        f"{name} (simulated)" if name.startswith("sim") else name: number for name, number in counts.items()
    }
    return " · ".join(f"{name} {say(number)}" for name, number in named.items())


def _table(record: Record) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return the rows, the same happening on the same line being one, and a line on what was left out."""
    times: dict[tuple[str, ...], int] = {}
    for row in _happenings(record):
        times[row] = times.get(row, 0) + 1
    rows = [(f"{number:,}", *row) for row, number in times.items()]
    left = len(rows) - MOST_ROWS
    return rows[:MOST_ROWS], [f"… and {count(left, 'row')} more: see log.events"] if left > 0 else []


def _happenings(record: Record) -> Iterator[tuple[str, ...]]:
    """Yield what happened, a copy to the CPU and the wait for it as one."""
    copied = set()
    for event in record.events:
        if type(event) is Transfer:
            waits = event.blocking and event.target == "cpu"
            if waits:
                copied.add(id(event.when))
            yield (
                f"copy and wait  {event.cause}" if waits else f"copy  {event.cause}",
                f"{event.source} → {event.target}",
                size(event.bytes),
                event.manner,
                str(event.line),
            )
        elif type(event) is Synchronization and id(event.when) not in copied:
            yield (f"wait  {event.cause}", event.device, "", "the host waits", str(event.line))
