"""What can be dragged, by mouse and by keyboard: the allocator's next tensor, over what is free."""

import pytest
from playwright.sync_api import expect

from browser.lab import Notebook

PATH = "dragging.ipynb"
# Whether a shape is seen between its old and its new place, after what is asked for by a click on another.
MOVES = """async ([shape, button]) => {
    const top = () => shape.getBoundingClientRect().top, seen = new Set([top()]);
    button.click();
    for (let frame = 0; frame < 90; frame++) {
        await new Promise(requestAnimationFrame);
        seen.add(top());
    }
    return seen.size;
}"""


@pytest.fixture
def picture(server, page):
    """Open the allocator, with every second of nine tensors freed and J of 12 MiB waiting."""
    server.write(PATH, "from devlab import explore", "shown = explore.allocator()")
    notebook = Notebook(page, PATH)
    notebook.run("from devlab import explore")
    notebook.run("explore.allocator()")
    picture = notebook.cell("explore.allocator()").locator(".devlab-explorer")
    expect(picture.locator("[data-id='J']")).to_be_visible()
    return picture


def shape(picture, name: str):
    """Return a shape by its id."""
    return picture.locator(f"[data-id='{name}']")


def middle(one) -> tuple[float, float]:
    """Return where the middle of a shape is on the screen."""
    box = one.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def says(picture, words: str) -> None:
    """See that a sentence stands below the picture."""
    expect(picture.locator(".caption")).to_contain_text(words)


def test_by_mouse(picture, page):
    """Held over a gap it says what is there; let go at its own place it asks nothing, elsewhere it asks."""
    tip, caption = picture.locator(".tip"), picture.locator(".caption").inner_text()
    home, gap = middle(shape(picture, "J")), middle(shape(picture, "segment 2 at 36864"))
    page.mouse.move(*home)
    page.mouse.down()
    page.mouse.move(*gap, steps=4)
    expect(tip).to_have_text("2 MiB free here, 12 MiB needed")
    page.mouse.move(*home, steps=4)
    expect(tip).to_have_text("J, 12 MiB, waits here")
    page.mouse.up()
    shape(picture, "B").click()
    says(picture, "B is freed")  # and nothing was asked for before
    assert "out of memory" not in caption.lower()
    expect(shape(picture, "line 2")).to_have_text("del B")
    page.mouse.move(*home)
    page.mouse.down()
    page.mouse.move(*gap, steps=4)
    page.mouse.up()
    says(picture, "J, 12 MiB, went into the shortest free piece that is long enough, of 20 MiB")
    page.mouse.click(*home)
    says(picture, "Out of memory")  # a click, once
    expect(shape(picture, "line 4")).to_have_text("empty(12 MiB) fails")


def test_by_keyboard(picture, page):
    """Arrows hold it over one gap after another, Escape takes it back, and Enter lets go; no key is lost."""
    waits = shape(picture, "J")
    home = waits.bounding_box()
    page.mouse.move(*middle(waits))  # from under which it goes
    waits.focus()
    for free in (6, 8, 6):
        page.keyboard.press("ArrowRight")
        expect(waits).to_have_attribute("aria-label", f"{free} MiB free here, 12 MiB needed")
        expect(picture.locator(".tip")).to_have_text(f"{free} MiB free here, 12 MiB needed")
    assert waits.bounding_box() != home
    page.keyboard.press("Escape")
    expect(waits).to_have_css("transform", "matrix(1, 0, 0, 1, 0, 18)")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    says(picture, "Out of memory")
    expect(waits).to_be_focused()
    shape(picture, "D").focus()
    page.keyboard.press("Enter")
    says(picture, "D is freed")
    expect(shape(picture, "segment 2 at 0")).to_be_focused()  # where D was
    for key in ("x", "d", "d"):
        page.keyboard.press(key)
    assert page.evaluate("() => window.jupyterapp.shell.currentWidget.model.cells.length") == 3


def test_what_was_asked_for_moves_to_its_place(picture):
    """Also where a shape that is drawn before it goes: here the free piece that it fills."""
    picture.locator("select").select_option("6 MiB")
    says(picture, "A, C, E, G, I are freed")
    expect(shape(picture, "next")).to_have_text("next: J, 6 MiB in one piece")
    allocate = picture.get_by_role("button", name="Allocate", exact=True).element_handle()
    frames = picture.page.evaluate(MOVES, [shape(picture, "J").element_handle(), allocate])
    assert frames > 4
