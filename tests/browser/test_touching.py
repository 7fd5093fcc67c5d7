"""What answers a hand: words at the pointer, handles taken anywhere, lines written, numbers refused."""

import pytest
from playwright.sync_api import expect

from browser.lab import Notebook

# How far the words beside a shape are from the pointer, and whether they cover what they explain.
BESIDE = """([root, id, [x, y]]) => {
    const tip = root.querySelector('.tip').getBoundingClientRect();
    const shape = root.querySelector(`[data-id='${id}']`).getBoundingClientRect();
    const away = Math.hypot(
        Math.max(tip.left - x, 0, x - tip.right), Math.max(tip.top - y, 0, y - tip.bottom));
    const over = tip.left < shape.right && tip.right > shape.left
        && tip.top < shape.bottom && tip.bottom > shape.top;
    return [away, over];
}"""


@pytest.fixture
def open_one(server, page):
    """Return a function that opens an explorer in a notebook of its own."""

    def open_it(name: str):
        server.write("touching.ipynb", "from devlab import explore", f"shown = explore.{name}()")
        notebook = Notebook(page, "touching.ipynb")
        notebook.run("from devlab import explore")
        notebook.run(f"explore.{name}()")
        root = notebook.cell(f"explore.{name}()").locator(".devlab-explorer")
        expect(root.locator(".frame > svg")).to_be_visible()
        return root

    return open_it


def shape(root, name: str):
    """Return a shape by its id."""
    return root.locator(f"[data-id='{name}']")


def middle(one) -> tuple[float, float]:
    """Return where the middle of a shape is on the screen."""
    box = one.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_words_stand_at_the_pointer_and_never_over_their_shape_nor_longer_than_it(open_one, page):
    """Beside a stretch of a lane; another size takes the stretch away, and the words with it."""
    root = open_one("transfers")
    tip, bar = root.locator(".tip"), shape(root, "host starting work 1")
    page.mouse.move(*middle(bar))
    expect(tip).to_have_text("the host: starting work for 5 µs, from 0 to 5 µs, simulated")
    place = page.evaluate(BESIDE, [root.element_handle(), "host starting work 1", middle(bar)])
    assert place[0] < 40
    assert not place[1]
    root.get_by_label("copy", exact=True).select_option("to the CPU")
    root.get_by_label("host memory", exact=True).select_option("pinned")
    expect(shape(root, "host staging 1")).to_have_count(0)
    page.mouse.move(5, 5)
    expect(tip).to_be_hidden()


def test_a_ring_comes_to_the_pointer_from_anywhere_over_the_curves(open_one, page):
    """Far from the curve, and on its way it asks for each size that it passes."""
    root = open_one("transfers")
    frame = root.locator(".frame > svg").bounding_box()
    scale = frame["width"] / 760
    page.mouse.move(frame["x"] + 300 * scale, frame["y"] + 50 * scale)
    page.mouse.down()
    expect(shape(root, "looked at")).to_contain_text("1 KiB")
    page.mouse.move(frame["x"] + 620 * scale, frame["y"] + 60 * scale, steps=8)
    expect(shape(root, "looked at")).to_contain_text("64 MiB")
    page.mouse.up()
    expect(root.locator(".caption")).to_contain_text("64 MiB from pageable memory")


def test_the_lines_of_a_program_are_moved_and_written_where_they_stand(open_one, page):
    """By a drag, by a double click and by F2; what does not run is answered and put back."""
    root = open_one("timeline")
    caption, line = root.locator(".caption"), shape(root, "line 2")
    line.dblclick()
    expect(root.locator("input.line")).to_be_focused()
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.insert_text("b = (a @ w).relu()")
    page.keyboard.press("Enter")
    expect(line).to_have_text(" 2  b = (a @ w).relu()")
    expect(root.locator("input.line")).to_have_count(0)
    line.focus()
    page.keyboard.press("F2")
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.insert_text("b = nothing @ w")
    page.keyboard.press("Enter")
    expect(caption).to_have_text(
        "These lines do not run, so they were put back. NameError: name 'nothing' is not defined"
    )
    expect(line).to_have_text(" 2  b = (a @ w).relu()")
    start, goal = middle(shape(root, "line 3")), middle(line)
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*goal, steps=5)
    page.mouse.up()
    expect(caption).to_contain_text("NameError: name 'b' is not defined")  # `c = b @ w` cannot come first
    shape(root, "new line").click()
    page.keyboard.insert_text("print(c[0, 0].item())")
    page.keyboard.press("Enter")
    expect(shape(root, "line 4")).to_have_text(" 4  print(c[0, 0].item())")


def test_a_number_out_of_range_is_answered_each_time(open_one):
    """In words, with the range; the field shows the number that holds."""
    root = open_one("pipeline")
    field = root.get_by_label("batches", exact=True)
    for _ in range(2):
        field.fill("12")
        field.blur()
        expect(field).to_have_value("5")
        expect(root.locator(".caption")).to_have_text("batches is a whole number from 2 to 8, not 12.")
