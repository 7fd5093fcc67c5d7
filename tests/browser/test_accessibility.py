"""axe finds nothing in our own HTML, in either theme; a planted fault proves that it looks."""

from playwright.sync_api import expect

from browser.axe import FAULT, violations
from browser.lab import Notebook
from devlab.checks.result import Outcome

# Every kind of panel, shown by one cell.
PANELS = """import devlab
from devlab.checks.result import Outcome, Result, RowResult
from devlab.panel import Note

for outcome in Outcome:
    rows = (RowResult("the label moves too", {"cpu": Outcome.PASSED, "sim:0": outcome, "sim:1": None}),)
    details = (("called with", "move(x=f32[2] cpu)"), ("next", "devlab.hint(move)"))
    Result("move", outcome, "the headline", rows, details, 1).show()
devlab.progress()
devlab.devices()
devlab.hint("device_of")
devlab.solution("device_of", give_up=True)
"""
INSTRUMENTS = """import torch
import devlab
x, y = torch.ones(64, 64), torch.ones(64, 64, device="sim:0")
try:
    x + y
except RuntimeError as error:
    devlab.explain(error)
with devlab.watch() as log:
    x.to("sim:0").sum().item()
log.show()
log.timeline()
devlab.memory("sim:0")
devlab.time_op(lambda: y @ y, "sim:0")
"""


def test_panels_have_no_violations(page):
    """Verdicts of every outcome, progress, devices, hints and solutions, in light and in dark."""
    notebook = Notebook(page, "exercises/00_start_here_exercises.ipynb")
    notebook.write("devlab.start()", PANELS)
    notebook.run("from devlab.panel")
    expect(notebook.cell("from devlab.panel").locator(".jp-RenderedHTMLCommon")).to_have_count(
        len(Outcome) + 4
    )
    notebook.write("devlab.check(device_of)", INSTRUMENTS)
    notebook.run("log.timeline()")
    outputs = notebook.cell("log.timeline()").locator(".jp-RenderedHTMLCommon")
    expect(outputs).to_have_count(5)
    assert notebook.errors() == []
    for theme in notebook.themes():
        outputs.first.scroll_into_view_if_needed()
        notebook.keep_screenshot("log.timeline()", f"instruments_{theme}")
        assert violations(page) == [], theme

    notebook.clear_outputs()
    notebook.write("def device_of", FAULT)
    notebook.run("faint")
    notebook.cell("faint").locator(".jp-RenderedHTMLCommon").scroll_into_view_if_needed()
    for theme in notebook.themes():
        assert any("color-contrast" in violation for violation in violations(page)), theme
