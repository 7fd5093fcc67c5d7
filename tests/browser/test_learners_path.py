"""A learner's first quarter of an hour, with mouse and keyboard, in a real JupyterLab."""

from playwright.sync_api import expect

from browser.lab import Notebook

WRONG = """def device_of(x):
    return torch.device("cpu")
"""
RIGHT = """def device_of(x):
    return x.device
"""


def screenshots(notebook: Notebook, code: str, name: str) -> None:
    """Keep a picture of a cell in either theme."""
    for theme in notebook.themes():
        notebook.keep_screenshot(code, f"{name}_{theme}")


def test_from_the_first_run_to_a_kept_pass(server, page):
    """Run All, a wrong answer, a hint, the right answer, a restart, and the progress is still there."""
    notebook = Notebook(page, "exercises/00_start_here_exercises.ipynb")

    notebook.run_all()
    assert notebook.errors() == []
    expect(notebook.output("devlab.check(device_of)")).to_contain_text("not attempted yet")
    expect(notebook.output("devlab.check(same_place)")).to_contain_text("not attempted yet")
    screenshots(notebook, "devlab.check(device_of)", "not_attempted")

    notebook.write("def device_of", WRONG)
    notebook.run("def device_of")
    notebook.run("devlab.check(device_of)")
    verdict = notebook.output("devlab.check(device_of)")
    expect(verdict).to_contain_text("a matrix is on sim:0, and the answer is cpu")
    expect(verdict).to_contain_text("devlab.hint(device_of)")
    row = verdict.get_by_role("row", name="is right for every kind of tensor")
    expect(row.get_by_role("img", name="passed")).to_have_count(1)
    expect(row.get_by_role("img", name="failed")).to_have_count(2)
    screenshots(notebook, "devlab.check(device_of)", "failed")

    notebook.add_below("devlab.check(device_of)", "devlab.hint(device_of)")
    notebook.run("devlab.hint(device_of)")
    expect(notebook.output("devlab.hint(device_of)")).to_contain_text("hint 1 of 3")
    screenshots(notebook, "devlab.hint(device_of)", "hint")

    notebook.write("def device_of", RIGHT)
    notebook.run("def device_of")
    notebook.run("devlab.check(device_of)")
    expect(notebook.output("devlab.check(device_of)")).to_contain_text("passed")
    expect(notebook.output("devlab.check(device_of)")).to_contain_text("3 of 3")
    screenshots(notebook, "devlab.check(device_of)", "passed")

    notebook.restart()
    notebook.write("devlab.hint(device_of)", "import devlab\ndevlab.progress()")
    notebook.run("devlab.progress()")
    overview = notebook.output("devlab.progress()")
    expect(overview).to_contain_text("exercises passed")
    expect(overview.get_by_role("row", name="passed device_of")).to_be_visible()
    screenshots(notebook, "devlab.progress()", "progress")
    assert notebook.errors() == []


def test_an_error_names_the_learners_own_line(page):
    """The learner's exception is shown with the cell and the line it came from."""
    notebook = Notebook(page, "exercises/00_start_here_exercises.ipynb")
    notebook.run("devlab.start()")
    notebook.write("def device_of", "def device_of(x):\n    y = x + 1\n    return y.place\n")
    notebook.run("def device_of")
    notebook.run("devlab.check(device_of)")
    verdict = notebook.output("devlab.check(device_of)")
    expect(verdict).to_contain_text("your code raised AttributeError")
    expect(verdict).to_contain_text("line 3:  return y.place")
    expect(verdict).to_contain_text("Cell In[2]")
    screenshots(notebook, "devlab.check(device_of)", "error")
    assert notebook.errors() == []


def test_a_check_shows_once_even_in_the_middle_of_a_cell(page):
    """The verdict appears when it is made, and not again as the cell's value."""
    notebook = Notebook(page, "exercises/00_start_here_exercises.ipynb")
    notebook.run("devlab.start()")
    notebook.write("devlab.check(device_of)", "first = devlab.check(3)\ndevlab.check(4)")
    notebook.run("first = ")
    expect(notebook.cell("first = ").locator(".jp-OutputArea-output")).to_have_count(2)
    notebook.write("first = ", "first")
    notebook.run("first")
    assert notebook.errors() == []
