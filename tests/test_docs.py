"""Every example in docs/ runs and prints what the page says."""

import re
from pathlib import Path

import pytest
from notebooks import forked

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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(page):
    """In a process of its own, where no other test has left anything in a device's memory."""
    said = forked.examples(examples(page.read_text(encoding="utf-8")), page.name)
    assert not said, said


def test_the_instruments_have_pages():
    """Each instrument has a page with runnable examples."""
    assert {"watch", "explain", "time_op", "memory", "doctor"} <= {page.stem for page in PAGES}


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_opens_with_what_its_reader_can_do_afterwards(page):
    """The summary apart, which is a sheet for the wall."""
    if page.stem != "summary":
        assert page.read_text(encoding="utf-8").split("\n\n")[1].startswith("After this page you ")


def test_the_readme_is_read_in_a_few_minutes():
    """It has at most 900 words; what does not fit there stands in docs/."""
    assert len((DOCS.parent / "README.md").read_text(encoding="utf-8").replace("|", " ").split()) <= 900
