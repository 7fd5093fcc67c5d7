"""Guess before you look: what is shown before a guess, after it, and in the notebook of the next day."""

from playwright.sync_api import expect

from browser.axe import violations
from browser.lab import ROOT, VIEWPORT, Notebook

CELLS = (
    "import devlab\nguess = devlab.predict('Where is y?', 'cpu', 'sim:0')",
    "print('it gives the answer away')\nguess.was('sim:0')",
    "times = devlab.predict('How many times as fast is it?')",
    "times.was_about(52.7)",
    "devlab.explore.timeline()",
)
CARDS = ".jp-Cell-outputArea:has(.devlab-explorer, [data-devlab-open])"


def opened(server, page) -> Notebook:
    """Open a notebook of two questions, their answers and a picture, and run all of it."""
    server.write("guessing.ipynb", *CELLS)
    notebook = Notebook(page, "guessing.ipynb")
    notebook.run_all()
    assert notebook.errors() == []
    return notebook


def make_guesses(notebook: Notebook) -> None:
    """Answer the first question wrongly by mouse, the second well enough by keyboard."""
    notebook.cell("guess = ").get_by_role("button", name="cpu", exact=True).click()
    number = notebook.cell("times = ").get_by_role("spinbutton")
    number.fill("40")
    number.press("Enter")
    expect(notebook.cell("guess.was")).to_contain_text("✗ You said “cpu”. The answer is “sim:0”.")
    expect(notebook.cell("times.was")).to_contain_text("✓ You said 40. It is 53.")


def test_run_all_leaves_the_question_open_and_a_guess_opens_the_answer(server, page):
    """Nothing of the cell that finds the answer is shown before; a line opens it without a guess."""
    notebook = opened(server, page)
    asked, told = notebook.cell("guess = "), notebook.cell("guess.was")
    given_away = told.get_by_text("it gives the answer away", exact=True)
    expect(told.get_by_text("Guess above, and the answer opens here.")).to_be_visible()
    expect(given_away).to_be_hidden()
    told.locator("summary").click()
    expect(given_away).to_be_visible()
    make_guesses(notebook)
    expect(given_away).to_be_visible()
    wrong, right = asked.get_by_role("button", name="cpu"), asked.get_by_role("button", name="sim:0")
    for button, pressed, look in ((wrong, "true", "wrong"), (right, "false", "right")):
        expect(button).to_have_attribute("aria-pressed", pressed)
        expect(button).to_have_attribute("data-look", look)
        expect(button).to_be_disabled()
    expect(notebook.cell("times = ").get_by_role("spinbutton")).to_be_disabled()


def test_no_violations_before_and_after_the_guess(server, page):
    """In both themes; the screenshots are for people to look at."""
    notebook = opened(server, page)
    for name in ("open", "guessed"):
        for theme in notebook.themes():
            assert violations(page, CARDS) == [], (name, theme)
            notebook.panel.screenshot(path=ROOT / "build" / "screenshots" / f"guess_{name}_{theme}.png")
        if name == "open":
            make_guesses(notebook)


def test_the_next_day_shows_the_guess_and_the_picture_and_no_error(server, page):
    """Saved, its kernel shut down, and opened again: the cards have no widget any more."""
    notebook = opened(server, page)
    make_guesses(notebook)
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save').then(() => true)")
    page.evaluate("() => [...window.jupyterapp.shell.widgets('main')].forEach(widget => widget.dispose())")
    server.shut_kernels_down()
    notebook = Notebook(page, "guessing.ipynb")
    dead = notebook.panel.get_by_text("Error displaying widget: model not found")
    expect(dead).to_have_count(3)  # JupyterLab says so only after it has looked for the widgets
    for number in range(3):
        expect(dead.nth(number)).to_be_hidden()
    expect(notebook.cell("guess = ").get_by_text("✗ You said “cpu”.")).to_be_visible()
    expect(notebook.cell("explore.timeline").locator("img")).to_be_visible()
    expect(notebook.cell("explore.timeline").get_by_text("Run the cell to play.")).to_be_visible()


def test_the_answers_of_a_stored_lesson_are_folded_until_the_cell_runs(server, page):
    """Under a question nobody reads its answer by accident."""
    page.set_viewport_size(VIEWPORT | {"height": 3000})
    notebook = Notebook(page, "notebooks/00_start_here.ipynb")
    told = notebook.cell("own, from_the_host")
    expect(told.locator(".jp-Placeholder-content")).to_be_visible()
    expect(told.locator(".jp-Cell-outputArea")).to_be_hidden()
    for code in ("import devlab", "import CUDA_LIKE", "On an H200: bytes a second"):
        notebook.run(code)
    notebook.cell("On an H200: bytes a second").get_by_role("button", name="2", exact=True).click()
    notebook.run("own, from_the_host")
    output = told.locator(".jp-Cell-outputArea")
    expect(output).to_be_visible()
    expect(output).to_contain_text("✗ You said 2. It is 190, and 200 is nearest.")


def test_a_number_out_of_range_is_answered_and_not_changed_in_silence(server, page):
    """What was typed stays until the reader has read why it cannot be."""
    server.write("numbers.ipynb", "import devlab", "devlab.explore.pipeline()")
    notebook = Notebook(page, "numbers.ipynb")
    notebook.run("import devlab")
    notebook.run("explore.pipeline")
    cell = notebook.cell("explore.pipeline")
    number = cell.get_by_role("spinbutton").first
    number.fill("12345")
    number.press("Enter")
    expect(cell.locator(".caption")).to_contain_text("is a whole number from")
    expect(cell.locator(".caption")).to_contain_text("not 12345")
