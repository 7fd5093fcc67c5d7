"""A picture that waits for the reader's guess: what it shows and says before and after it is played."""

import pytest
from explore.test_every_picture import opened
from playwright.sync_api import expect

from browser.lab import Notebook


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
