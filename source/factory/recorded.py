"""Tables of figures in the prose of a lesson, with a column for each GPU that has been recorded.

A lesson names a table in the place of an image's address, alone in its paragraph:

    ![What the words above the table say](recorded:bandwidth)

`TABLES` has the names. What the reference machine is modelled to do stands in every table; what a real GPU
was measured to do comes from the files that `make record-cuda` writes to `benchmarks/recorded/`, or to a
folder in it, one for each GPU. As long as there is none, the table says so.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from devlab.sim.specs import CUDA_LIKE, HOST
from devlab.watching.memory import duration, size
from factory import numbers
from factory.documented import CHIPS, Chip
from factory.reading import SourceError

RECORDED = Path(__file__).resolve().parents[2] / "benchmarks" / "recorded"
PLACE = re.compile(r"^!\[([^\]]+)\]\(recorded:(\w+)\)$", re.MULTILINE)
MODELLED = "reference machine, modelled"
NONE = "*Measured on a GPU: nothing yet.*"
DOCUMENTED = "*Documented by the makers, not measured.*"
MISSING = "–"


@dataclass(frozen=True)
class Recording:
    """What was recorded on one GPU: its cases, by the name of the recording."""

    gpu: str
    date: str
    torch: str
    cases: dict[str, dict]

    @property
    def title(self) -> str:
        """Return the head of this GPU's column."""
        return f"measured on {self.gpu}, {self.date}"

    def get(self, recording: str, case: str, figure: str = "") -> float | None:
        """Return one recorded figure, or None where it was not recorded."""
        found = self.cases.get(recording, {}).get(case)
        return found.get(figure) if figure and isinstance(found, dict) else found


def recordings(folder: Path = RECORDED) -> list[Recording]:
    """Read what was recorded on real GPUs; rehearsals and documented rules are passed over.

    Files of one GPU and one day belong together, whatever folder they are in.
    """
    found: dict[tuple[str, str], Recording] = {}
    for path in sorted(folder.rglob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        gpu = record.get("source", "").removeprefix("recorded on ")
        if gpu == record.get("source", ""):
            continue
        key = gpu, record.get("date", "on a day that was not noted")
        one = found.setdefault(key, Recording(*key, record["torch"], {}))
        one.cases[path.stem] = record["cases"]
    return list(found.values())


def tabled(prose: str, folder: Path = RECORDED) -> str:
    """Return prose in which every table that it names is written out.

    Raises:
        SourceError: when there is no table of a name.
    """

    def table(place: re.Match) -> str:
        words, name = place.groups()
        if name not in TABLES:
            raise SourceError(f"there is no table {name!r} of recordings; there is: {', '.join(TABLES)}")
        measured = recordings(folder)
        rows = TABLES[name](measured)
        if not measured and DOCUMENTED in rows:
            return f"**{words}**\n\n{rows}"
        return f"**{words}**\n\n{rows}\n\n{_origin(measured)}"

    return PLACE.sub(table, prose)


def _origin(measured: list[Recording]) -> str:
    if not measured:
        return NONE
    return (
        "*"
        + " ".join(f"Measured on {one.gpu}, {one.date}, with torch {one.torch}." for one in measured)
        + "*"
    )


def _rows(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _shown(figure: float | None, write: Callable[[float], str]) -> str:
    return MISSING if figure is None else write(figure)


def _rate(rate: float) -> str:
    """Write a bandwidth.

    >>> _rate(12e9), _rate(3.35e12), _rate(140.8e6)
    ('12 GB/s', '3350 GB/s', '0.141 GB/s')
    """
    return f"{rate / 1e9:.0f} GB/s" if rate >= 99.5 * 1e9 else f"{rate / 1e9:.3g} GB/s"


def _tera(rate: float) -> str:
    return f"{rate / 1e12:.3g} TFLOP/s"


def _best(one: Recording, beginning: str) -> float | None:
    """Return the best rate of a recording's copies."""
    cases = one.cases.get("bandwidth", {})
    return max((case["bytes/s"] for name, case in cases.items() if name.startswith(beginning)), default=None)


def _product_rate(one: Recording, dtype: str) -> float | None:
    seconds = one.get("crossover", f"matrix product, {dtype}, 2048 x 2048", "device")
    return seconds and 2 * 2048**3 / seconds


def _peaks(chips: Iterable[Chip], measured: list[Recording]) -> list[list[str]]:
    """Return the rows that say how fast memory and processors are."""
    chips = list(chips)
    return [
        [
            "its bandwidth",
            _rate(CUDA_LIKE.bandwidth),
            *(f"{chip.bandwidth} GB/s" for chip in chips),
            *(MISSING for _ in measured),
        ],
        [
            "arithmetic in float32",
            _tera(CUDA_LIKE.rate),
            *(_shown(chip.rate, lambda rate: f"{rate} TFLOP/s") for chip in chips),
            *(_shown(_product_rate(one, "float32"), _tera) for one in measured),
        ],
        [
            "products in 16 bits",
            _tera(CUDA_LIKE.half_rate),
            *(_shown(chip.half_rate, lambda rate: f"{rate} TFLOP/s") for chip in chips),
            *(_shown(_product_rate(one, "bfloat16"), _tera) for one in measured),
        ],
    ]


def hardware(measured: list[Recording]) -> str:
    """What the makers document of GPUs, beside the reference machine and what was measured."""
    rows = [
        ["memory", size(CUDA_LIKE.capacity), *(chip.memory for chip in CHIPS), *(MISSING for _ in measured)],
        *_peaks(CHIPS, measured),
        [
            "from the host's memory",
            f"{_rate(CUDA_LIKE.pinned)} pinned, {_rate(CUDA_LIKE.pageable)} pageable",
            *(chip.from_host for chip in CHIPS),
            *(
                f"{_shown(_best(one, 'pinned to the device'), _rate)} pinned, "
                f"{_shown(_best(one, 'pageable to the device'), _rate)} pageable"
                for one in measured
            ),
        ],
        [
            "between two of them",
            _rate(CUDA_LIKE.peer),
            *(chip.between for chip in CHIPS),
            *(MISSING for _ in measured),
        ],
    ]
    heads = ["", MODELLED, *(f"{chip.name}, documented" for chip in CHIPS), *(one.title for one in measured)]
    sources = "; ".join(f"{chip.name}: {chip.source}{chip.transfer_source}" for chip in CHIPS)
    remark = (
        "Peaks in 16 bits are those for ordinary matrices; for its newer GPUs NVIDIA also names twice as "
        "much, for matrices in which two of every four numbers are zero. NVIDIA gives PCIe and "
        "NVLink for both directions together, and a transfer has one, so both stand here at half. A dash is "
        "what was not published, or not recorded."
    )
    return f"{_rows(heads, rows)}\n\n{DOCUMENTED} {sources}. {remark}"


def balance(measured: list[Recording]) -> str:
    """How many operations a chip can do while its memory moves a byte, by its maker's peaks."""
    chips = [chip for chip in CHIPS if chip.rate and chip.half_rate]
    bandwidth, *rates = _peaks(chips, measured)
    rows = [["bandwidth of its memory", *bandwidth[1:]], *rates]
    for words, name in (("balance in float32", "rate"), ("balance in 16 bits", "half_rate")):
        quotients = (1000 * getattr(chip, name) / chip.bandwidth for chip in chips)
        rows.append(
            [
                f"**{words}**",
                f"{getattr(CUDA_LIKE, name) / CUDA_LIKE.bandwidth:.0f} FLOP per byte",
                *(f"{quotient:.0f} FLOP per byte" for quotient in quotients),
                *(MISSING for _ in measured),
            ]
        )
    heads = ["", MODELLED, *(f"{chip.name}, documented" for chip in chips), *(one.title for one in measured)]
    sources = "; ".join(f"{chip.name}: {chip.source}" for chip in chips)
    return (
        f"{_rows(heads, rows)}\n\n{DOCUMENTED} {sources}. Peaks in 16 bits are "
        "without sparsity. The balance is the quotient of the two peaks."
    )


def bandwidth(measured: list[Recording]) -> str:
    """Transfers of several sizes, pinned and pageable, each way."""
    rows = []
    for count in (1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 28):
        for way in ("to the device", "to the host"):
            for kind, rate in (("pinned", CUDA_LIKE.pinned), ("pageable", CUDA_LIKE.pageable)):
                case = f"{kind} {way}, {count} bytes"
                rows.append(
                    [
                        f"{size(count)} {way}, {kind}",
                        _rate(count / numbers.transfer(count, rate)),
                        *(_shown(one.get("bandwidth", case, "bytes/s"), _rate) for one in measured),
                    ]
                )
    return _rows(["transfer", MODELLED, *(one.title for one in measured)], rows)


# What is recorded, and what it is on the reference machine.
LAUNCHES = {
    "host, one launch of x.add_(1)": ("the host launches `x.add_(1)`", CUDA_LIKE.launch),
    "host, one launch of a matrix product": ("the host launches a small matrix product", CUDA_LIKE.launch),
    "device, x.add_(1)": ("`x.add_(1)` on one number, from the launch to its end", numbers.kernel()),
    "host, synchronize with nothing to do": ("the host synchronizes, and nothing is left to do", 0.0),
}


def launches(measured: list[Recording]) -> str:
    """What it costs to start work."""
    rows = [
        [
            words,
            duration(modelled),
            *(_shown(one.get("launches", case), duration) for one in measured),
        ]
        for case, (words, modelled) in LAUNCHES.items()
    ]
    return _rows(["", MODELLED, *(one.title for one in measured)], rows)


SIDES = [1 << power for power in range(4, 12)]
# Of an n by n matrix of float32: arithmetic operations, and bytes read and written.
WORK: dict[str, Callable[[int], tuple[float, float]]] = {
    "add": lambda n: (0, 8 * n * n),
    "exp": lambda n: (0, 8 * n * n),
    "sum": lambda n: (0, 4 * n * n),
    "matrix product": lambda n: (2 * n**3, 12 * n * n),
}


def _first(wins: Iterable[tuple[int, bool | None]]) -> str:
    """Return the side from which on the device always wins.

    >>> _first([(16, False), (32, True), (64, True)]), _first([(16, True), (32, False)]), _first([(16, None)])
    ('from 32 × 32', 'never', '–')
    """
    first = None
    for side, won in wins:
        if won is None:
            return MISSING
        first = (first or side) if won else None
    return f"from {first} × {first}" if first else "never"


def _modelled_win(operation: str, moved: bool, side: int) -> bool:
    operations, traffic = WORK[operation](side)
    cpu = HOST.call + max(operations / HOST.rate, traffic / HOST.bandwidth)
    there = numbers.transfer(4 * side * side, CUDA_LIKE.pageable) if moved else 0
    return there + numbers.kernel(operations, traffic) < cpu


def _measured_win(one: Recording, operation: str, moved: bool, side: int) -> bool | None:
    case = one.cases.get("crossover", {}).get(f"{operation}, float32, {side} x {side}")
    return case and (case["transfer"] if moved else 0) + case["device"] < case["cpu"]


def crossover(measured: list[Recording]) -> str:
    """From which size on the device wins, with the data there already and with the transfer."""
    rows = []
    for operation in WORK:
        for moved, words in ((False, "data there already"), (True, "transfer included")):
            rows.append(
                [
                    f"{operation}, {words}",
                    _first((side, _modelled_win(operation, moved, side)) for side in SIDES),
                    *(
                        _first((side, _measured_win(one, operation, moved, side)) for side in SIDES)
                        for one in measured
                    ),
                ]
            )
    return _rows(["the device is quicker", MODELLED, *(one.title for one in measured)], rows)


TABLES = {
    "hardware": hardware,
    "balance": balance,
    "bandwidth": bandwidth,
    "launches": launches,
    "crossover": crossover,
}
