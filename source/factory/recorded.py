"""Tables of figures in the prose of a lesson, with a column for each GPU that has been recorded.

A lesson names a table in the place of an image's address, alone in its paragraph:

    ![What the words above the table say](recorded:hardware)

`TABLES` has the names. What the reference machine is modelled to do stands in every table, beside what the
makers document; what a real GPU was measured to do comes from the files that `make record-cuda` writes to
`benchmarks/recorded/`, in a folder for each GPU.

A single figure of the H200 stands in prose by its name in `h200/measured.json`, or behind the name of another
file there, and is written out with its unit: `{measured:basics:seconds of one.item(), queue empty}` becomes
`9.8 µs`, and `{measured:launches:host, one launch of x.add_(1)}` becomes `6 µs`.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from devlab.sim.specs import CUDA_LIKE
from devlab.watching.memory import size
from factory.documented import CHIPS, Chip
from factory.reading import SourceError

RECORDED = Path(__file__).resolve().parents[2] / "benchmarks" / "recorded"
FIGURE = re.compile(r"\{measured:([^{}]+)\}")
PLACE = re.compile(r"^!\[([^\]]+)\]\(recorded:(\w+)\)$", re.MULTILINE)
MODELLED = "reference machine, modelled"
DOCUMENTED = "*Documented by the makers, not measured.*"
MEASURED = "recorded on "  # how the source of a recording from a real GPU begins
MISSING = "–"


@dataclass(frozen=True)
class Recording:
    """What was recorded on one GPU: its cases, by the name of the recording."""

    gpu: str
    date: str
    torch: str
    cases: dict[str, dict]


def recordings(folder: Path = RECORDED) -> list[Recording]:
    """Read what was recorded on real GPUs; rehearsals and documented rules are passed over.

    Files of one GPU and one day belong together, whatever folder they are in.
    """
    found: dict[tuple[str, str], Recording] = {}
    for path in sorted(folder.rglob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["source"].startswith(MEASURED):
            key = record["source"].removeprefix(MEASURED), record["date"]
            one = found.setdefault(key, Recording(*key, record["torch"], {}))
            one.cases[path.stem] = record["cases"]
    return list(found.values())


def tabled(prose: str, folder: Path = RECORDED) -> str:
    """Return prose in which every table and every figure that it names is written out.

    Raises:
        SourceError: when there is no table or no figure of a name.
    """

    def table(place: re.Match) -> str:
        words, name = place.groups()
        if name not in TABLES:
            raise SourceError(f"there is no table {name!r} of recordings; there is: {', '.join(TABLES)}")
        measured = recordings(folder)
        origins = [f"*Measured on {one.gpu}, {one.date}, with torch {one.torch}.*" for one in measured]
        return "\n\n".join([f"**{words}**", TABLES[name](measured), *origins])

    return FIGURE.sub(lambda place: figure(" ".join(place[1].split())), PLACE.sub(table, prose))


def figure(name: str) -> str:
    """Return what was measured on the H200, with its unit; the parts of its name stand between colons.

    >>> figure("basics:seconds of one.item(), queue empty"), figure("spine:TF32:tokens/s")
    ('9.8 µs', '163,000')
    >>> figure("bandwidth:pinned to the device, 268435456 bytes:bytes/s")
    '55 GB/s'

    Raises:
        SourceError: when nothing of that name was measured.
    """
    file, _, inside = name.partition(":")
    path, left = RECORDED / "h200" / f"{file}.json", inside
    if not path.exists():
        path, left = path.with_name("measured.json"), name
    found = json.loads(path.read_text(encoding="utf-8"))["cases"]
    while left:
        part, _, rest = (left, "", "") if left in found else left.partition(":")
        if part not in found:
            raise SourceError(f"no figure {name!r} was measured; for {part!r} there is: {', '.join(found)}")
        found, left = found[part], rest
        if left and not isinstance(found, dict):
            raise SourceError(f"no figure {name!r} was measured; {part!r} has no parts")
    if isinstance(found, dict):
        raise SourceError(f"{name!r} is a group of figures: {', '.join(found)}")
    if not isinstance(found, int | float):
        raise SourceError(f"{name!r} is no figure: {found}")
    return _written(name, found)


def _written(name: str, value: float) -> str:
    """Return a figure with two digits, or all in front of the point, and the unit that its name tells."""
    if re.search("(tokens|images)/s", name):
        return f"{float(f'{value:.3g}'):,.0f}"
    unit, scales = next((unit, scales) for words, unit, scales in UNITS if re.search(words, name))
    prefix, scale = next((pair for pair in scales if value >= pair[1]), scales[-1])
    value /= scale
    return f"{f'{value:,.0f}' if value >= 99.5 else f'{value:.2g}'} {prefix}{unit}".rstrip()


SMALL = (("", 1), ("m", 1e-3), ("µ", 1e-6))
LARGE = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
# What tells the unit in a figure's name: what is no count, no rate and no number of bytes is a time.
UNITS = (
    (":(parameters|batch|tokens|loss)$", "", (("", 1),)),
    ("MiB[)]$", "MiB", (("", 1),)),
    ("operations/s|FLOP/s", "FLOP/s", LARGE),
    ("bytes/s", "B/s", LARGE),
    ("seconds", "s", SMALL),
    ("bytes|peak|memory_by_phase", "B", LARGE),
    ("", "s", SMALL),
)


def _table(sources: dict[str, str], measured: list[Recording], rows: list[list[str]], remark: str) -> str:
    """Return a table with a column for each source and each recording, and a dash where a row ends early."""
    documented = [f"{name}, documented" for name in sources]
    heads = ["", MODELLED, *documented, *(f"measured on {one.gpu}, {one.date}" for one in measured)]
    filled = [[*row, *[MISSING] * (len(heads) - len(row))] for row in rows]
    lines = ["| " + " | ".join(line) + " |" for line in (heads, ["---"] * len(heads), *filled)]
    named = "; ".join(f"{name}: {source}" for name, source in sources.items())
    return "\n".join(lines) + f"\n\n{DOCUMENTED} {named}. {remark}"


def _bytes(rate: float | None) -> str:
    if rate is None:
        return MISSING
    return f"{rate / 1e12:.2g} TB/s" if rate >= 1e12 else f"{rate / 1e9:.3g} GB/s"


def _tera(rate: float | None) -> str:
    return MISSING if rate is None else f"{rate / 1e12:.3g} TFLOP/s"


def _best(one: Recording, beginning: str) -> float | None:
    """Return the best rate of a recording's copies."""
    cases = one.cases.get("bandwidth", {})
    return max((case["bytes/s"] for name, case in cases.items() if name.startswith(beginning)), default=None)


def _basic(one: Recording, name: str) -> float | None:
    """Return one of the measured basics of a recording."""
    return one.cases.get("measured", {}).get("basics", {}).get(name)


def _own_bandwidth(one: Recording) -> float | None:
    return _basic(one, "device memory bytes/s (copy 1 GiB, read + written)")


def _product_rate(one: Recording, dtype: str) -> float | None:
    """Return the rate of a large product: of 8192 rows, or of 2048 where no other was recorded."""
    cases, large = one.cases.get("crossover"), _basic(one, f"operations/s, 8192 x 8192 product, {dtype}")
    return large or (cases and 2 * 2048**3 / cases[f"matrix product, {dtype}, 2048 x 2048"]["device"])


def _peaks(chips: Iterable[Chip], measured: list[Recording]) -> list[list[str]]:
    """Return the rows that say how fast memory and processors are."""
    documented = [f"{chip.bandwidth} GB/s" for chip in chips]
    own = [_bytes(_own_bandwidth(one)) for one in measured]
    rows = [["its bandwidth", _bytes(CUDA_LIKE.bandwidth), *documented, *own]]
    for words, name, dtype in (
        ("arithmetic in float32", "rate", "float32"),
        ("products in 16 bits", "half_rate", "bfloat16"),
    ):
        peaks = [getattr(chip, name) for chip in chips]
        rows.append(
            [
                words,
                _tera(getattr(CUDA_LIKE, name)),
                *(f"{peak} TFLOP/s" if peak else MISSING for peak in peaks),
                *(_tera(_product_rate(one, dtype)) for one in measured),
            ]
        )
    return rows


def hardware(measured: list[Recording]) -> str:
    """What the makers document of GPUs, beside the reference machine and what was measured."""
    rows = [
        ["memory", size(CUDA_LIKE.capacity), *(chip.memory for chip in CHIPS)],
        *_peaks(CHIPS, measured),
        [
            "from the host's memory",
            f"{_bytes(CUDA_LIKE.pinned)} pinned, {_bytes(CUDA_LIKE.pageable)} pageable",
            *(chip.from_host for chip in CHIPS),
            *(
                f"{_bytes(_best(one, 'pinned to the device'))} pinned, "
                f"{_bytes(_best(one, 'pageable to the device'))} pageable"
                for one in measured
            ),
        ],
        ["between two of them", _bytes(CUDA_LIKE.peer), *(chip.between for chip in CHIPS)],
    ]
    remark = (
        "Peaks in 16 bits are without sparsity. NVIDIA gives PCIe and NVLink for both directions together, "
        "and they stand here at half. A dash is what was not published, or not recorded."
    )
    return _table({chip.name: chip.source + chip.transfer_source for chip in CHIPS}, measured, rows, remark)


def balance(measured: list[Recording]) -> str:
    """How many operations a chip can do while its memory moves a byte: by its maker's peaks, and measured."""
    chips = [chip for chip in CHIPS if chip.rate and chip.half_rate]
    bandwidth, *rates = _peaks(chips, measured)
    rows = [["bandwidth of its memory", *bandwidth[1:]], *rates]
    for words, name, dtype in (
        ("balance in float32", "rate", "float32"),
        ("balance in 16 bits", "half_rate", "bfloat16"),
    ):
        quotients = [getattr(CUDA_LIKE, name) / CUDA_LIKE.bandwidth]
        quotients += [1000 * getattr(chip, name) / chip.bandwidth for chip in chips]
        quotients += [_quotient(_product_rate(one, dtype), _own_bandwidth(one)) for one in measured]
        rows.append([f"**{words}**", *map(_per_byte, quotients)])
    remark = (
        "Peaks in 16 bits are without sparsity. The balance is the quotient of the two peaks, or of the two "
        "rates that were measured."
    )
    return _table({chip.name: chip.source for chip in chips}, measured, rows, remark)


def _quotient(rate: float | None, bandwidth: float | None) -> float | None:
    return rate / bandwidth if rate and bandwidth else None


def _per_byte(quotient: float | None) -> str:
    return MISSING if quotient is None else f"{quotient:.0f} FLOP per byte"


TABLES = {"hardware": hardware, "balance": balance}
