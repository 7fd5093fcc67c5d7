"""Every example in docs/ runs and prints what the page says."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
FENCE = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [page for page in sorted(DOCS.glob("*.md")) if FENCE.search(page.read_text(encoding="utf-8"))]


def examples(text: str) -> str:
    """Return the text with all but the examples blanked, so that line numbers stay those of the page."""
    kept = [""] * (text.count("\n") + 1)
    for fence in FENCE.finditer(text):
        first = text[: fence.start(1)].count("\n")
        lines = fence[1].splitlines()
        kept[first : first + len(lines)] = lines
    return "\n".join(kept)


def run(page: Path) -> int:
    """Run a page as one session, from top to bottom, with the simulated accelerator on."""
    import devlab.sim

    devlab.sim.enable()
    text = examples(page.read_text(encoding="utf-8"))
    session = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(session)
    return runner.failures


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(page):
    """In a process of its own, where no other test has left anything in a device's memory."""
    done = subprocess.run(
        [sys.executable, "-X", "utf8", __file__, str(page)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_instruments_have_pages():
    """Each instrument has a page with runnable examples."""
    assert {"watch", "explain", "time_op", "memory", "doctor"} <= {page.stem for page in PAGES}


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1])) > 0)
