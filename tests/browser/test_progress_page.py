"""The progress page where learners and teachers meet it: in JupyterLab, and as a file of its own."""

import json
import re

import pytest
from axe_core_python.base import AXE_SCRIPT
from playwright.sync_api import expect

from browser.axe import OURS, violations
from browser.lab import ROOT, VIEWPORT, Notebook
from devlab.checks.exercise import lessons

PATH = "exercises/progress.ipynb"
SHOW = "import devlab\ndevlab.progress()"
ACTIVE_CELL = "() => window.jupyterapp.shell.currentWidget.content.activeCellIndex"
SAVE = 'devlab.progress().save("me.html")'


def half_a_course() -> str:
    """Return a log with each outcome on three devices, one of them real, up to the middle of lesson 04."""
    tries = (
        ("passed", {"cpu": "passed", "sim:0": "passed", "sim:1": "passed"}),
        ("passed", {"cpu": "passed", "cuda:0": "passed"}),
        ("failed", {"cpu": "passed", "sim:0": "failed", "sim:1": "skipped"}),
        ("passed", {"cpu": "passed", "sim:0": "passed", "sim:1": "passed"}),
        ("error", {"cpu": "passed", "cuda:0": "error"}),
    )
    lines = []
    for lesson in lessons()[:5]:
        for number, exercise in enumerate(lesson.exercises[:5]):
            outcome, devices = tries[0 if lesson.id < "03" else number]
            points = exercise.possible if outcome == "passed" else 1
            line = {"exercise": exercise.name, "outcome": outcome, "points": points, "devices": devices}
            lines.append(line | {"time": "2026-11-20T10:00:00+0000"})
    lines.append({"exercise": "returns_itself", "hint": 1, "time": "2026-11-20T10:05:00+0000"})
    return "".join(json.dumps(line) + "\n" for line in lines)


def keep(target, name: str, **options) -> None:
    """Keep a picture in `build/screenshots`, for people to look at."""
    folder = ROOT / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    target.screenshot(path=folder / f"{name}.png", **options)


def sticks_out(locator) -> bool:
    """Tell whether a part of an element is wider than the element shows."""
    return locator.evaluate("node => node.scrollWidth > node.clientWidth + 1")


def faults(alone) -> list[str]:
    """Return what axe says of a page of its own."""
    alone.evaluate(AXE_SCRIPT)
    found = alone.evaluate("() => axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]


@pytest.fixture(autouse=True)
def fresh():
    """One notebook and one kernel for all tests of this module."""


@pytest.fixture(scope="module")
def written(server, fresh_module):
    """Write a notebook beside the exercises, of no more than is used here: JupyterLab is faster with less."""
    server.write(PATH, SHOW, f"import devlab\n{SAVE}")


@pytest.fixture
def notebook(server, page, written):
    """Open the notebook of a learner who is in the middle of the course."""
    server.progress.write_text(half_a_course())
    page.set_viewport_size(VIEWPORT)
    notebook = Notebook(page, PATH)
    notebook.clear_outputs()
    return notebook


def test_it_reads_in_both_themes_and_on_narrow_and_wide_screens(page, notebook):
    """Nothing is cut off, axe finds nothing, and with every lesson open as little."""
    for theme in notebook.themes():
        for width in (800, 1600):
            page.set_viewport_size({"width": width, "height": 1600})
            notebook.run("devlab.progress()")
            output = notebook.output("devlab.progress()")
            expect(output).to_contain_text("exercises passed")
            expect(output.get_by_role("table", name="04 Transfers")).to_be_visible()
            keep(output, f"progress_page_{theme}_{width}")
            assert not sticks_out(output)
            output.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
            keep(output, f"progress_page_{theme}_{width}_open")
            output.scroll_into_view_if_needed()
            assert not sticks_out(output)
            assert violations(page) == []


def test_axe_sees_it(page, notebook):
    """A faint remark would be found, so that silence means something."""
    notebook.run("devlab.progress()")
    output = notebook.output("devlab.progress()")
    output.locator("td", has_text="1 hint").evaluate("node => node.style.color = '#ccc'")
    assert any(found.startswith("color-contrast") for found in violations(page))


def test_a_table_too_wide_for_its_pane_scrolls_by_keyboard(page, notebook):
    """The arrow keys move the table, not JupyterLab's cells."""
    page.set_viewport_size({"width": 640, "height": 1600})
    notebook.run("devlab.progress()")
    group = notebook.output("devlab.progress()").get_by_role("group", name="04 Transfers")
    assert sticks_out(group)
    group.focus()
    before = page.evaluate(ACTIVE_CELL)
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.activeElement.scrollLeft > 0")
    assert page.evaluate(ACTIVE_CELL) == before


def test_lessons_open_by_keyboard_and_by_mouse_and_next_leads_there(page, notebook, server):
    """Enter and Space are the page's own here, not JupyterLab's; the link opens the notebook."""
    notebook.run("devlab.progress()")
    output = notebook.output("devlab.progress()")
    lesson = output.locator("details", has_text="02 CUDA")
    table = output.get_by_role("table", name="02 CUDA")
    expect(table).to_be_hidden()
    lesson.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(table).to_be_visible()
    page.keyboard.press("Space")
    expect(table).to_be_hidden()
    lesson.locator("summary").click()
    expect(table).to_be_visible()
    row = table.get_by_role("row", name="passed make_on")
    expect(row.get_by_role("img", name="passed")).to_have_count(4)

    expect(output).to_contain_text(
        "next: returns_itself in exercises/04_transfers_exercises.ipynb (lesson 04 Transfers)"
    )
    server.progress.unlink()
    notebook.run("devlab.progress()")
    expect(output).to_contain_text("nothing tried yet: read notebooks/00_start_here.ipynb")
    expect(output.locator("details[open]")).to_contain_text("00 Start here")
    assert violations(page) == []
    keep(output, "progress_page_begin")
    output.get_by_role("link", name="notebooks/00_start_here.ipynb").click()
    opened = "path => window.jupyterapp.shell.currentWidget?.context?.path === path"
    page.wait_for_function(opened, arg="notebooks/00_start_here.ipynb")


def test_an_exercise_can_be_clicked(page, notebook):
    """Its name leads to its task in the notebook of exercises."""
    notebook.run("devlab.progress()")
    output = notebook.output("devlab.progress()")
    link = output.get_by_role("table", name="04 Transfers").get_by_role("link", name="returns_itself")
    expect(link).to_have_attribute("href", re.compile("#cell-id=task_returns_itself$"))
    link.click()
    opened = "path => window.jupyterapp.shell.currentWidget?.context?.path === path"
    page.wait_for_function(opened, arg="exercises/04_transfers_exercises.ipynb")


def stands_alone(browser, saved, scheme: str) -> None:
    """Look at a saved page in a colour scheme: on a screen, on a phone, on paper."""
    alone = browser.new_page(viewport={"width": 800, "height": 1000}, color_scheme=scheme, bypass_csp=True)
    alone.goto(saved.as_uri())
    assert faults(alone) == []
    expect(alone.get_by_role("table")).to_have_count(len(lessons()))
    background = alone.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    keep(alone, f"progress_saved_{scheme}", full_page=True)
    alone.set_viewport_size({"width": 360, "height": 800})
    assert alone.evaluate("() => document.documentElement.scrollWidth") <= 360
    assert faults(alone) == []  # what scrolls by itself here does so by keyboard too
    keep(alone, f"progress_saved_{scheme}_phone")
    alone.emulate_media(media="print")
    sign = alone.get_by_role("img", name="failed").last
    # Paper gets no backgrounds: a white sign would be nothing on nothing.
    assert sign.evaluate("node => getComputedStyle(node).color") == "rgb(0, 0, 0)"
    assert alone.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    alone.pdf(path=ROOT / "build" / "screenshots" / f"progress_saved_{scheme}.pdf")
    alone.close()


def test_the_saved_page_stands_alone(page, notebook, browser, server):
    """Saved from the notebook, opened as a file: both colour schemes, a phone, and paper."""
    notebook.run(SAVE)
    expect(notebook.cell(SAVE).locator(OURS)).to_have_count(2)
    saved = server.course / "exercises" / "me.html"
    expect(notebook.cell(SAVE).locator(OURS).last).to_contain_text(f"saved: {saved}")
    for scheme in ("light", "dark"):
        stands_alone(browser, saved, scheme)
