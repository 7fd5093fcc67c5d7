"""A picture that waits for the reader's guess: what it shows and says before and after it is played."""

import pytest
from explore.test_every_picture import opened
from playwright.sync_api import expect

from browser.lab import ROOT, Notebook

# How much of an element stands in the notebook's window, from 0 to 1.
IN_VIEW = """one => {
    const own = one.getBoundingClientRect();
    const view = one.closest('.jp-WindowedPanel-outer').getBoundingClientRect();
    return (Math.min(own.bottom, view.bottom) - Math.max(own.top, view.top)) / own.height;
}"""


@pytest.mark.parametrize(("name", "bar"), [("timeline", "host 1 0"), ("pipeline", "load 0")])
def test_the_answer_is_there_after_the_playing_and_not_before(server, page, name, bar):
    """Neither in the picture, nor in its caption, nor for a screen reader."""
    server.write("playing.ipynb", "from devlab import explore", f"shown = explore.{name}()")
    notebook = Notebook(page, "playing.ipynb")
    notebook.run("from devlab import explore")
    notebook.run(f"explore.{name}()")
    assert notebook.errors() == []
    explorer, root = opened(name), notebook.cell(f"explore.{name}()").locator(".devlab-explorer")
    caption, spoken = root.locator(".caption"), root.locator(".spoken")
    expect(caption).to_have_text(explorer.scene.guess)
    expect(spoken).to_have_text(explorer.scene.guess)
    expect(root.locator(f"[data-id='{bar}']")).to_be_hidden()
    root.locator(".shape[tabindex='0']").focus()
    for _ in explorer.scene.shapes:  # the keys pass over what has not come about
        page.keyboard.press("ArrowDown")
        expect(root.locator(".shape:focus")).to_be_visible()
    root.get_by_role("button", name="Play", exact=True).press("Enter")
    expect(caption).to_have_text(explorer.scene.caption)
    expect(spoken).to_have_text(explorer.words)
    expect(root.locator(f"[data-id='{bar}']")).to_be_visible()
    root.get_by_role("slider").press("Home")
    expect(root.locator(f"[data-id='{bar}']")).to_be_hidden()


def test_the_first_lesson_has_a_picture_on_its_first_screen_that_moves_at_a_click(page):
    """In a window of a usual size: a still when the notebook is opened, a live one when its cell has run."""
    page.set_viewport_size({"width": 1366, "height": 768})
    notebook = Notebook(page, "notebooks/00_start_here.ipynb")
    cell = notebook.cell("explore.devices()")
    still = cell.locator("img")
    expect(still).to_be_visible()
    for theme in notebook.themes():
        page.screenshot(path=ROOT / "build" / "screenshots" / f"first_screen_{theme}.png")
        assert still.evaluate(IN_VIEW) > 0.5
    notebook.run("explore.devices()")
    root = cell.locator(".devlab-explorer")
    expect(still).to_be_hidden()
    root.get_by_role("button", name="Send a gigabyte").click()
    expect(root.locator(".frame.playing")).to_be_visible()
    page.screenshot(path=ROOT / "build" / "screenshots" / "first_screen_playing.png")
