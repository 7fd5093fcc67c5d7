"""A verdict in a live notebook: its buttons, what it says of a failed cell, of a difference, of a loop."""

import json

import pytest
from playwright.sync_api import expect

from browser.axe import violations
from browser.lab import Notebook

CHECK = "devlab.check(device_of)"
CELLS = (
    "import devlab, torch\ndevice = devlab.start()",
    "def device_of(x):\n    return torch.ones(1).device",
    CHECK,
)
CARDS = ".jp-Cell-outputArea:has([data-devlab-still])"


def opened(server, page) -> Notebook:
    """Open a notebook with a wrong answer, and run all of it."""
    server.write("verdict.ipynb", *CELLS)
    notebook = Notebook(page, "verdict.ipynb")
    notebook.run_all()
    assert notebook.errors() == []
    return notebook


def recorded_hints(server) -> list[int]:
    """Return the numbers of the hints that are remembered."""
    lines = map(json.loads, server.progress.read_text().splitlines())
    return [line["hint"] for line in lines if "hint" in line]


def test_buttons_add_hints_and_at_last_a_solution(server, page):
    """By mouse and keyboard, in the card itself, remembered as after `devlab.hint`; axe finds nothing."""
    notebook = opened(server, page)
    verdict = notebook.cell(CHECK)
    hint, solution = (verdict.get_by_role("button", name=f"Show a {what}") for what in ("hint", "solution"))
    expect(solution).to_be_disabled()
    expect(verdict).to_contain_text("3 hints left, then a solution")
    for number in (1, 2, 3):
        hint.click() if number < 3 else hint.press("Enter")
        expect(verdict).to_contain_text(f"hint {number} of 3 for device_of")
    expect(hint).to_be_disabled()
    solution.click()
    expect(verdict.locator("pre", has_text="return x.device")).to_be_visible()
    expect(solution).to_be_disabled()
    assert recorded_hints(server) == [1, 2, 3]
    for theme in notebook.themes():
        notebook.keep_screenshot(CHECK, f"verdict_with_help_{theme}")
        assert violations(page, CARDS) == [], theme


def test_the_next_day_the_card_has_its_hints_and_no_dead_button(server, page):
    """Saved, its kernel shut down, opened again."""
    notebook = opened(server, page)
    notebook.cell(CHECK).get_by_role("button", name="Show a hint").click()
    expect(notebook.cell(CHECK)).to_contain_text("hint 1 of 3")
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save').then(() => true)")
    page.evaluate("() => [...window.jupyterapp.shell.widgets('main')].forEach(widget => widget.dispose())")
    server.shut_kernels_down()
    notebook = Notebook(page, "verdict.ipynb")
    verdict = notebook.cell(CHECK)
    dead = verdict.get_by_text("Error displaying widget: model not found")
    expect(dead).to_have_count(1)  # JupyterLab says so only after it has looked for the widget
    expect(dead).to_be_hidden()
    expect(verdict).to_contain_text("hint 1 of 3")
    expect(verdict).to_contain_text("devlab.hint(device_of)")
    expect(verdict.get_by_role("button", name="Show a hint")).to_have_count(0)


def test_a_cell_that_has_failed_since_is_named_first(server, page):
    """The answer that is judged is an earlier one; once the cell runs again, nothing is said any more."""
    notebook = opened(server, page)
    for broken in ("def device_of(x)\n    return x.device", "1 / 0\ndef device_of(x):\n    return x.device"):
        notebook.write("def device_of", broken)
        notebook.run("def device_of")
        notebook.run(CHECK)
        expect(notebook.cell(CHECK)).to_contain_text("writes device_of anew and has failed")
        expect(notebook.cell(CHECK)).to_contain_text("this is your earlier version, from In[2]")
    notebook.keep_screenshot(CHECK, "verdict_of_an_earlier_version")
    notebook.write("def device_of", "def device_of(x):\n    return x.device")
    notebook.run("def device_of")
    notebook.run(CHECK)
    expect(notebook.cell(CHECK)).to_contain_text("3 of 3 points")
    expect(notebook.cell(CHECK)).not_to_contain_text("earlier version")
    expect(notebook.cell(CHECK).get_by_role("button", name="Show a solution")).to_be_enabled()
    expect(notebook.cell(CHECK).get_by_role("button", name="Show a hint")).to_have_count(0)


def test_what_differs_is_marked(server, page):
    """In what was expected and in what came."""
    notebook = opened(server, page)
    assert notebook.cell(CHECK).locator("mark").all_inner_texts() == ["sim:0", "cpu"]


@pytest.mark.parametrize("interrupted", [True, False])
def test_an_endless_loop_says_that_it_runs_and_ends_in_a_verdict(server, page, interrupted):
    """By an interrupt of the learner's or by the limit; what was said meanwhile is gone then."""
    notebook = opened(server, page)
    notebook.write("def device_of", "def device_of(x):\n    while True:\n        x = x + 1")
    notebook.run("def device_of")
    notebook.edit(CHECK)
    page.keyboard.press("Shift+Enter")
    verdict = notebook.cell(CHECK)
    expect(verdict).to_contain_text(
        "Your device_of has been running for more than 3 seconds.", timeout=60_000
    )
    if interrupted:
        notebook.keep_screenshot(CHECK, "verdict_still_running")
        page.evaluate(
            "() => window.jupyterapp.commands.execute('notebook:interrupt-kernel').then(() => true)"
        )
    said = "you have interrupted it" if interrupted else "your code was still running after"
    expect(verdict).to_contain_text(said, timeout=90_000)
    expect(verdict).to_contain_text("line 2:  while True:")
    expect(verdict).not_to_contain_text("for 3 seconds now")
    notebook.wait_until_idle()
    notebook.keep_screenshot(CHECK, f"verdict_endless_{interrupted}")
    assert notebook.errors() == []
