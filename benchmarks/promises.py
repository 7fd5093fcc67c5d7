"""How a benchmark says whether a promise is kept: one line each, which `run.py` gathers into a table."""

MARK = "promise: "


def promise(
    what: str, got: float, unit: str, *, beside: str, most: float | None = None, least: float | None = None
) -> bool:
    """Print one promise, what was measured and the reference beside it; return whether it is kept.

    >>> promise("x + 1 on sim", 7.5, "µs more", beside="1.9 µs on the CPU", most=10)
    promise: kept    | x + 1 on sim | 7.5 µs more | at most 10 | 1.9 µs on the CPU
    True
    """
    kept = (most is None or got <= most) and (least is None or got >= least)
    bound = f"at most {most:g}" if most is not None else f"at least {least:g}"
    print(
        f"{MARK}{'kept' if kept else 'BROKEN':<7} | {what} | {got:.3g} {unit} | {bound} | {beside}",
        flush=True,
    )
    return kept
