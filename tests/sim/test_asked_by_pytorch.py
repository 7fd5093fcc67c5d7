"""What PyTorch's own tests found of the simulator: the record of it, and the page that quotes it."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ASKED = json.loads((ROOT / "benchmarks/recorded/pytorchs_tests.json").read_text(encoding="utf-8"))


def test_the_page_quotes_what_pytorchs_own_tests_found():
    """Each count of the record, and of which releases and of how many files it is."""
    page = (ROOT / "docs/simulator.md").read_text(encoding="utf-8")
    section = page.partition("## Asked by PyTorch's own tests")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| ([^|]+) \| ([\d,]+) \|$", section, re.MULTILINE))
    assert {what: int(count.replace(",", "")) for what, count in rows.items()} == ASKED["all"]
    told = re.search(
        r"tests of PyTorch ([\d.]+)\s+under\s+torch\s+([\d.]+); (\d+) files are recorded", section
    )
    of, under = ASKED["tests of"].removesuffix("a0"), ASKED["torch"].partition("+")[0]
    assert told.groups() == (of, under, str(len(ASKED["files"])))


def test_pytorchs_own_tests_find_little_that_is_the_simulators():
    """Each of those failures is recorded with its first line, and no test ends the process."""
    assert len(ASKED["the simulator's own"]) == ASKED["all"]["the simulator's own"] <= 10
    assert ASKED["all"]["deaths"] == 0
