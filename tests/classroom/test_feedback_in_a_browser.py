"""A page of feedback as a browser shows it: axe finds no fault, but for one that is planted."""

import pytest
from axe_core_python.base import AXE_SCRIPT

from devlab.classroom import feedback
from devlab.classroom.results import WORDS, Graded, Record

DEVICES = {"cpu": "passed", "sim:0": "failed", "sim:1": None}
RECORD = Record(
    "Zoë Ångström",
    "05_buffers",
    "x.ipynb",
    tuple(
        Graded(f"f{position}", outcome, 1, 3, "a headline", (("a row", DEVICES | {"sim:0": outcome}),), code)
        for position, (outcome, code) in enumerate((name, (("got", "f32[3]"),)) for name in WORDS)
    ),
    problem="it is cut off in the middle",
    remarks=("marked late by the learning platform",),
)


def shown(browser, html: str, path, scheme: str = "light", width: int = 900):
    """Open a page from a file, as a student does."""
    path.write_text(html, encoding="utf-8")
    # axe itself runs in the page, which lets nothing run.
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    page.goto(path.as_uri())
    return page


def violations(page) -> list[str]:
    """Return what axe says of a page."""
    page.evaluate(AXE_SCRIPT)
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser, scheme, tmp_path):
    """Every outcome's sign and words have contrast, tables have heads, and the page has a language."""
    page = shown(browser, feedback.page(RECORD, "05 Models and buffers"), tmp_path / "x.html", scheme)
    assert violations(page) == []
    light = page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert light == (scheme == "light")
    page.close()


def test_axe_looks(browser, tmp_path):
    """A faint colour is found, so that silence means something."""
    html = feedback.page(RECORD, "x").replace("--soft: #595959", "--soft: #c0c0c0")
    page = shown(browser, html, tmp_path / "x.html")
    assert any(found.startswith("color-contrast") for found in violations(page))
    page.close()


def test_it_fits_a_phone(browser, tmp_path):
    """On 360 pixels nothing sticks out, however long a line the student wrote."""
    wide = Record("a", "b", "c", (Graded("f", "error", 0, 1, "x" * 400, source="y = " + "z" * 900),))
    page = shown(browser, feedback.page(wide, "b"), tmp_path / "x.html", width=360)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
    page.close()
