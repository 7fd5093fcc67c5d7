"""One reference machine: the figures of speed in prose and in code are those of `devlab.sim.specs`.

Looked at are the lessons, exercises, hints and messages, explorers, pages and the README. A figure of a real
chip may stand beside the table's where its sentence or row names the chip and says that it is documented, or
from a data sheet (for a row, the head of its first column may say so); a figure of the machine that ran
something, where it says that it was measured.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from devlab.sim.specs import CUDA_LIKE, HOST, MPS_LIKE

ROOT = Path(__file__).resolve().parents[1]


def known(*chips) -> dict[str, set[float]]:
    """Return what the table knows: bytes a second, operations a second, seconds before work is under way."""
    roads = ("bandwidth", "pinned", "pageable", "staging", "peer")
    return {
        "bandwidth": {getattr(chip, road) for chip in chips for road in roads} | {HOST.bandwidth},
        "rate": {rate for chip in (HOST, *chips) for rate in (chip.rate, chip.half_rate)},
        "start": {HOST.call}
        | {time for chip in chips for time in (chip.launch, chip.shortest, chip.launch + chip.shortest)}
        | {chip.product for chip in chips},
    }


REFERENCE, WITH_APPLES = known(CUDA_LIKE), known(CUDA_LIKE, MPS_LIKE)
APPLE = re.compile(r"\b(?:Apple|Macs?|mps|MPS)\b")

NUMBER = r"(?<![\w.])(?P<number>\d+(?:[.,]\d+)*(?: ?[·×] ?10[⁰¹²³⁴⁵⁶⁷⁸⁹]+)?|10[⁰¹²³⁴⁵⁶⁷⁸⁹]+)"
SCALES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
WORDS = {"mega": 1e6, "giga": 1e9, "tera": 1e12}
PATTERNS = {
    "bandwidth": [
        re.compile(NUMBER + r" ?(?P<scale>[kMGT]i?)B(?:/s| per second| a second)"),
        re.compile(NUMBER + r" (?P<word>mega|giga|tera)bytes? (?:a|per|each) second"),
    ],
    "rate": [
        re.compile(NUMBER + r" ?(?P<scale>[MGT])(?:FLOP/s|FLOPS?\b|flop/s|flops?\b)", re.IGNORECASE),
        re.compile(NUMBER + r" (?:float32 |floating-point )?operations (?:a|per|each) second"),
    ],
    "start": [re.compile(NUMBER + r" ?(?P<micro>µs|microseconds?)")],
}
# Microseconds are compared where they are what it takes to begin.
BEGINS = re.compile(
    r"\blaunch|\ba call\b|\bbefore (?:it|work|an operation) |\bhowever small\b", re.IGNORECASE
)
# A table may have its unit in a heading, or in the first cell of a row.
UNITS = {
    "bandwidth": re.compile(r"(?P<word>mega|giga|tera)bytes? (?:a|per|each) second|(?P<scale>[MGT])B/s"),
    "rate": re.compile(r"operations (?:a|per|each) second|(?P<scale>[MGT])FLOP/?s", re.IGNORECASE),
}
CHIP = re.compile(
    r"\b(?:[ABHLPTV]\d{1,3}|GH?200|GB\d+|Ryzen AI Max|MI\d{3}X?|RTX \w+|GTX \w+|M[1-9](?: \w+)?|DDR\d\S*"
    r"|EPYC|Xeon|PCIe \d\S*|Core i\d-\w+)\b"
)
DOCUMENTED = re.compile(r"\bdocument|\bdata sheet", re.IGNORECASE)
MEASURED = re.compile(r"\bmeasured\b|\btook\b", re.IGNORECASE)
POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
# Powers of ten that turn units into each other.
CONVERSIONS = {10.0**power for power in (3, 6, 9, 12)}


def value(number: str) -> float:
    """Return what a number in prose stands for.

    >>> value("1,024"), value("8.1 · 10¹²"), value("10¹¹")
    (1024.0, 8100000000000.0, 100000000000.0)
    """
    power = re.fullmatch(r"(?:(.+?) ?[·×] ?)?10([⁰¹²³⁴⁵⁶⁷⁸⁹]+)", number)
    plain, exponent = (power[1] or "1", power[2].translate(POWERS)) if power else (number, "0")
    return float(plain.replace(",", "")) * 10.0 ** int(exponent)


def scale(found: re.Match) -> float:
    """Return by what the unit multiplies its number."""
    parts = found.groupdict()
    if parts.get("micro"):
        return 1e-6
    if parts.get("word"):
        return WORDS[parts["word"]]
    return SCALES[parts["scale"]] if parts.get("scale") in SCALES else 1.0


def is_known(kind: str, figure: float, sentence: str = "") -> bool:
    """Tell whether the table has a figure, to two digits; Apple's chip has its own, where it is named."""
    table = WITH_APPLES if APPLE.search(sentence) else REFERENCE
    return any(abs(figure - one) <= 0.02 * one for one in table[kind])


def sentences(text: str) -> Iterator[tuple[str, str]]:
    """Yield the sentences and table rows of a text, each row with what its table's heading says."""
    heading = ""
    for block in re.split(r"\n\s*\n", text):
        rows = [line.strip() for line in block.splitlines()]
        table = [row for row in rows if row.startswith("|")]
        prose = " ".join(row for row in rows if not row.startswith("|"))
        for sentence in re.split(r"(?<=[.!?])\s+(?=[\"'(*`A-Z])", prose):
            yield sentence, ""
        heading = table[0] if table else ""
        for row in table:
            yield without_measured(row, heading), heading


def without_measured(row: str, heading: str) -> str:
    """Return a row of a table without what stands below a heading that says "measured".

    >>> without_measured("| copy | 12 GB/s | 55 GB/s |", "| | modelled | H200, measured |")
    '| copy | 12 GB/s ||'
    """
    cells, heads = row.split("|"), heading.split("|")
    if row == heading or len(cells) != len(heads):
        return row
    return "|".join("" if MEASURED.search(head) else cell for cell, head in zip(cells, heads, strict=True))


def figures(sentence: str, heading: str) -> Iterator[tuple[str, float]]:
    """Yield the figures of speed in a sentence or row: their kind, and what they are in the table's units."""
    for kind, patterns in PATTERNS.items():
        if kind == "start" and not BEGINS.search(sentence):
            continue
        for pattern in patterns:
            for found in pattern.finditer(sentence):
                yield kind, value(found["number"]) * scale(found)
    cells, heads = ([cell.strip() for cell in row[1:-1].split("|")] for row in (sentence, heading))
    if not heading or len(cells) != len(heads) or sentence == heading:
        return
    for kind, unit in UNITS.items():
        for place, (cell, head) in enumerate(zip(cells, heads, strict=True)):
            found = unit.search(head) or (place and unit.search(cells[0]))
            plain = re.match(NUMBER + r"(?!\s*[kMGT]?i?(?:B|FLOP|µs))", cell)
            if found and plain:
                yield kind, value(plain["number"]) * scale(found)


def second_machines(text: str) -> list[str]:
    """Return the sentences and rows of a text whose figures the table does not have."""
    found = []
    for sentence, heading in sentences(text):
        documented = DOCUMENTED.search(sentence) or DOCUMENTED.search(
            heading.split("|")[1] if heading else ""
        )
        allowed = (CHIP.search(sentence) and documented) or MEASURED.search(sentence)
        if not allowed and any(
            not is_known(kind, figure, sentence) for kind, figure in figures(sentence, heading)
        ):
            found.append(sentence)
    return found


def comments_and_strings(source: str) -> tuple[str, list[str]]:
    """Return the prose of a source file that becomes a notebook, and the strings in its code."""
    prose = "\n".join(
        line.removeprefix("#").removeprefix(" ") for line in source.splitlines() if line[:1] == "#"
    )
    return re.sub(r"^%%.*$", "\n", prose, flags=re.MULTILINE), strings(source)


def strings(source: str) -> list[str]:
    """Return the strings of a program, without its docstrings."""
    tree = ast.parse(source)
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented
    ]


def typed_rates(source: str) -> list[str]:
    """Return the numbers in a program that are as large as a rate, written as floats, and not the table's."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NUMBER and "e" in token.string.lower() and "x" not in token.string.lower():
            figure = float(token.string)
            fine = is_known("bandwidth", figure) or is_known("rate", figure) or figure in CONVERSIONS
            if 1e8 < figure < 1e16 and not fine:
                found.append(token.string)
    return found


# `documented.py` is the other table: the makers' figures, each with its source.
LESSONS = sorted(path for path in (ROOT / "source").glob("*/*.py") if path.name != "documented.py")
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PROGRAMS = sorted(
    path
    for part in ("lessons", "explore", "watching", "explaining", "checks")
    for path in (ROOT / "src/devlab" / part).rglob("*.py")
)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_lessons_and_exercises_know_one_machine(path):
    """In their prose, in what they print, and in what they calculate with."""
    prose, printed = comments_and_strings(path.read_text("utf-8"))
    assert second_machines(prose) + [one for text in printed for one in second_machines(text)] == []
    assert typed_rates(path.read_text("utf-8")) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_pages_know_one_machine(path):
    """What a page says is the table's, or says whose it is."""
    assert second_machines(path.read_text("utf-8")) == []


def test_programs_know_one_machine():
    """Hints, verdicts, explorers and logs; rates are taken from the table, not typed."""
    found = {
        path.name: [one for text in strings(path.read_text("utf-8")) for one in second_machines(text)]
        + typed_rates(path.read_text("utf-8"))
        for path in PROGRAMS
    }
    assert {name: texts for name, texts in found.items() if texts} == {}


@pytest.mark.parametrize(
    "text",
    [
        "The slot carries 32 GB/s.",
        "Its memory runs at 3.35 TB/s.",
        "About 90 gigabytes a second.",
        "A launch costs 10 µs.",
        "It does 10¹³ operations a second.",
        "Products run at 19.5 TFLOP/s.",
        "| the road | gigabytes a second |\n|---|---|\n| the slot | 32 |",
        "| | CPU | accelerator |\n|---|---|---|\n| operations a second | 10¹¹ | 8.1 · 10¹² |",
        "| | CPU |\n|---|---|\n| before it starts | 10 µs |",
        "The documentation is long, and the slot carries 32 GB/s.",
        "An H100 has 3350 GB/s.",
        "The device copies 50 GB/s.",
        "| | modelled | H200, measured |\n|---|---|---|\n| pinned | 32 GB/s | 55 GB/s |",
    ],
)
def test_a_second_machine_is_found(text):
    """Wherever the figure stands, and with half of the exemption."""
    assert second_machines(text)


@pytest.mark.parametrize(
    "text",
    [
        "From pinned memory 12 GB/s, from ordinary memory 4 GB/s.",
        "System memory moves about 51 GB/s.",
        "A launch costs the host 5 µs, and each transfer 7 µs however small.",
        "A launch of a product costs the host 8 µs.",
        "It does 8.1 · 10¹² operations a second.",
        "| the road | gigabytes a second |\n|---|---|\n| inside | 300 |\n| between | 12 |",
        "NVIDIA's data sheet for the H100 SXM names 3350 GB/s.",
        "| a CPU, documented by its maker | memory |\n|---|---|\n| Core i7-13700K | 90 GB/s |",
        "| | modelled | H200, measured |\n|---|---|---|\n| pinned | 12 GB/s | 55 GB/s |",
        "On this machine a launch took 31 µs, measured.",
        "The sum takes 31 µs.",
        "4 GiB of memory, and 3 GB a day.",
        "Under Apple's rules the device copies 50 GB/s.",
    ],
)
def test_the_tables_and_documented_figures_pass(text):
    """To two digits, in any unit; figures of other things are none of its business."""
    assert second_machines(text) == []


def test_typed_rates_are_found():
    """A float as large as a rate is the table's, or turns one unit into another."""
    assert typed_rates("x = n / 32e9 + 1e13 * y") == ["32e9", "1e13"]
    assert typed_rates("x = n / 12e9 * 1e6 + 1e-6 + 0x1e9 + 3e38") == []
