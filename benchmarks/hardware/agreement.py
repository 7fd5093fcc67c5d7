"""Where the simulator agrees with what was recorded on a GPU: the rule of each recording, one copy of each.

`differences.json` in a GPU's folder lists, for each comparison, what is known to differ: the reason of a
family, and the cases of it. A new difference, and one that has gone, are both said.
"""

import gzip
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

RELEASE = "the release of PyTorch: the CPU answers differently, too"
KNOWN = "differences.json"


@dataclass(frozen=True)
class Comparison:
    """How one recording is compared: its name, and the rule, which says whether two answers agree.

    `asked` tells whether an answer of the GPU is one that can be compared at all, and `by_release` whether
    two answers differ on the CPU as well, where the two were given by different releases of PyTorch.
    """

    recording: str
    agree: Callable[[object, object], bool]
    asked: Callable[[object], bool] = lambda case: True
    simulated_by: str | None = None  # the module that asks the simulator, where it is not the recording's own
    by_release: Callable[[object, object], bool] = lambda there, here: False


def _translated(case: dict) -> str:
    """Return an outcome without the name of the kind of device."""
    return re.sub(r"\bcuda(?=\b|:)", "sim", json.dumps(case, sort_keys=True))


def _steps(case: dict) -> dict:
    """Return at which step of each mode which type of error came."""
    return {
        mode: {step: said if isinstance(said, str) else said[0] for step, said in steps.items()}
        for mode, steps in case.items()
        if mode in ("0", "1") and isinstance(steps, dict)
    }


def _waits(row: dict) -> bool:
    """Tell whether the host waits: by PyTorch's own word where it has one, or else by devlab's."""
    if "pytorch says" in row:
        return row["pytorch says"] > 0
    return row["watch"]["synchronizations"] + row["watch"]["blocking"] > 0


def _ran(row: dict) -> bool:
    return "error" not in row


def _of_both(question: Callable[[dict], object]) -> Callable[[dict, dict], bool]:
    return lambda there, here: _ran(here) and question(there) == question(here)


COMPARISONS = {
    "allocator": Comparison("allocator", lambda there, here: there == here),
    "synchronizations": Comparison("synchronizations", lambda there, here: there == here),
    "copies that wait": Comparison(
        "measured", lambda there, here: there == here, simulated_by="copies_that_wait"
    ),
    "mixed devices": Comparison("mixed_devices", lambda there, here: _translated(there) == _translated(here)),
    "operators by dtype": Comparison(
        "operators_by_dtype",
        lambda there, here: "sample" not in here and ("ok" in there) == ("ok" in here),
        asked=lambda row: "sample" not in row,
        by_release=lambda there, here: "sample" in here or (there["cpu"] is True) != (here["cpu"] is True),
    ),
    "operators that wait": Comparison("operators_waits_and_bytes", _of_both(_waits), asked=_ran),
    "bytes kept": Comparison("operators_waits_and_bytes", _of_both(lambda row: row["kept"]), asked=_ran),
    "peak bytes": Comparison("operators_waits_and_bytes", _of_both(lambda row: row["peak"]), asked=_ran),
    "late errors": Comparison("late_errors", lambda there, here: there == here),
}


def read(path: Path) -> tuple[dict[str, str], dict[str, object]]:
    """Return the head of a recording, which says where it comes from, and its cases by name."""
    if path.suffix == ".gz":
        rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
        head = rows.pop(0) if "source" in rows[0] else {}
        return head, {" ".join(filter(None, (row["op"], row.get("dtype")))): row for row in rows}
    found = json.loads(path.read_text(encoding="utf-8"))
    return {key: value for key, value in found.items() if key != "cases"}, found["cases"]


def path_of(folder: Path, recording: str) -> Path:
    """Return where a folder has a recording: compressed rows of operators, or one JSON object."""
    rows = recording.startswith("operators_")
    return folder / f"{recording}{'.jsonl.gz' if rows else '.json'}"


def cases_of(comparison: str, cases: dict[str, object]) -> dict[str, object]:
    """Return the single answers that are compared: of late errors, one for each case and mode."""
    if comparison == "copies that wait" and "held_by_copies" in cases:
        from hardware.copies_that_wait import by_time

        return by_time(cases["held_by_copies"])
    if comparison != "late errors":
        return cases
    return {
        f"{name} | CUDA_LAUNCH_BLOCKING={mode}": steps
        for name, modes in cases.items()
        for mode, steps in _steps(modes).items()
    }


def recorded_cases(folder: Path, comparison: str) -> dict[str, object]:
    """Return what the GPU answered in each case of a comparison."""
    _, cases = read(path_of(folder, COMPARISONS[comparison].recording))
    return cases_of(comparison, cases)


def families(folder: Path) -> dict[str, dict[str, list[str] | dict[str, str]]]:
    """Return what a folder lists as different: by comparison, the cases of each reason."""
    path = folder / KNOWN
    return json.loads(path.read_text(encoding="utf-8"))["cases"] if path.exists() else {}


def known(folder: Path, comparison: str) -> dict[str, str]:
    """Return the reason of every difference that is listed in a folder, by case."""
    reasons = families(folder).get(comparison, {})
    return {case: reason for reason, cases in reasons.items() for case in spelt_out(cases)}


def drop(folder: Path, comparison: str, mended: Iterable[str]) -> None:
    """Take cases that no longer differ out of a folder's list, and families that are empty then."""
    path, gone = folder / KNOWN, set(mended)
    if not gone:
        return
    listed = json.loads(path.read_text(encoding="utf-8"))
    left = {why: _without(cases, gone) for why, cases in listed["cases"][comparison].items()}
    listed["cases"][comparison] = {why: cases for why, cases in left.items() if cases}
    path.write_text(json.dumps(listed, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _without(cases: list[str] | dict[str, str], gone: set[str]) -> list[str] | dict[str, str]:
    if isinstance(cases, list):
        return [case for case in cases if case not in gone]
    left = {
        op: " ".join(dtype for dtype in dtypes.split() if f"{op} {dtype}" not in gone)
        for op, dtypes in cases.items()
    }
    return {op: dtypes for op, dtypes in left.items() if dtypes}


def spelt_out(cases: list[str] | dict[str, str]) -> Iterable[str]:
    """Yield the cases of a family: a list of them, or the dtypes of each operator."""
    if isinstance(cases, list):
        yield from cases
    else:
        yield from (f"{op} {dtype}" for op, dtypes in cases.items() for dtype in dtypes.split())


@dataclass(frozen=True)
class Agreement:
    """What a comparison found: how many cases were compared, and for each that differs both answers."""

    comparison: str
    asked: int
    differing: dict[str, tuple[object, object]]
    reasons: dict[str, str]

    @property
    def new(self) -> dict[str, tuple[object, object]]:
        """Return what differs and is not listed."""
        return {case: both for case, both in self.differing.items() if case not in self.reasons}

    @property
    def mended(self) -> list[str]:
        """Return what is listed and does not differ: it is to be taken out of the list."""
        return [case for case in self.reasons if case not in self.differing]

    def __str__(self) -> str:
        same = self.asked - len(self.differing)
        words = f"{self.comparison:<20} {same:>6,} of {self.asked:>6,} agree"
        if count := len(self.new):
            words += f", {count} difference{' is' if count == 1 else 's are'} new"
        lines = [words]
        lines += [f"    mended, to be taken out of {KNOWN}: {case}" for case in self.mended]
        lines += [
            f"    new: {case}\n        GPU       {there}\n        simulator {here}"
            for case, (there, here) in self.new.items()
        ]
        return "\n".join(lines)


def compared(folder: Path, comparison: str, here: dict[str, object], names=None) -> Agreement:
    """Compare the simulator's answers with a folder's recording, in the cases of `names` (None: in all).

    Raises:
        ValueError: when a case was recorded that the simulator was not asked, and `names` has it.
    """
    rule = COMPARISONS[comparison]
    there, here = recorded_cases(folder, comparison), cases_of(comparison, here)
    asked = [name for name, case in there.items() if rule.asked(case) and (names is None or name in names)]
    if lost := [name for name in asked if name not in here]:
        raise ValueError(f"the recording has cases of {comparison} that are no longer asked: {lost}")
    differing = {name: (there[name], here[name]) for name in asked if not rule.agree(there[name], here[name])}
    reasons = {name: why for name, why in known(folder, comparison).items() if name in set(asked)}
    return Agreement(comparison, len(asked), differing, reasons)


def totals(folder: Path) -> dict[str, tuple[int, int]]:
    """Return, by comparison, how many cases agree but for the listed differences, and how many there are."""
    counts = {}
    for comparison, rule in COMPARISONS.items():
        if path_of(folder, rule.recording).exists():
            asked = sum(rule.asked(case) for case in recorded_cases(folder, comparison).values())
            counts[comparison] = asked - len(known(folder, comparison)), asked
    return counts
