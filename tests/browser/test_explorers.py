"""Every explorer in JupyterLab: each control by mouse and by keyboard, both themes, two widths, axe."""

from ast import literal_eval

import pytest
from explore.test_every_picture import opened
from playwright.sync_api import expect

from browser.axe import FAULT, violations
from browser.lab import POLLING, ROOT, Notebook
from devlab import explore
from devlab.explore.controls import Action, Choice, Number, Setting, Switch

PATH = "explorers.ipynb"
NAMES = explore.__all__
CONTROLS = ".jp-OutputArea-output .jupyter-widgets"
WIDTHS = (800, 1600)
OUTPUTS = ".jp-Cell-outputArea:has(.jp-OutputArea-output)"
# What cannot be read in full: letters beyond the picture, words wider than what they stand in, all of it
# wider than the page.
CLIPPED = """cell => {
    const found = [], beyond = (inner, outer) =>
        inner.left < outer.left - 1 || inner.right > outer.right + 1 ||
        inner.top < outer.top - 1 || inner.bottom > outer.bottom + 1;
    const area = cell.querySelector('.jp-OutputArea').getBoundingClientRect();
    const svg = cell.querySelector('svg[role=img]'), frame = svg.getBoundingClientRect();
    if (frame.left < area.left - 1 || frame.right > area.right + 1) found.push('the picture');
    for (const text of svg.querySelectorAll('g[id*=-text_]'))
        if (beyond(text.getBoundingClientRect(), frame)) found.push('letters: ' + text.id);
    for (const one of cell.querySelectorAll('figcaption, figure strong, .widget-label, .jupyter-button')) {
        const box = one.getBoundingClientRect();
        if (one.scrollWidth > one.clientWidth + 1 && one.clientWidth) found.push('words: ' + one.innerText);
        if (box.right > area.right + 1) found.push('beyond the page: ' + one.innerText);
    }
    return found;
}"""


@pytest.fixture(autouse=True)
def fresh():
    """One notebook and one kernel for all tests of this module: nothing is cleaned up between them."""


@pytest.fixture(scope="module")
def notebook(server, page, fresh_module):
    """Open a notebook with every explorer, each in a cell of its own; none has been run."""
    cells = ["from devlab import explore", FAULT, *(f"shown = explore.{name}()" for name in NAMES)]
    server.write(PATH, *cells)
    notebook = Notebook(page, PATH)
    notebook.run("from devlab import explore")
    return notebook


@pytest.fixture(scope="module", params=NAMES)
def shown(notebook, request):
    """Show one explorer, and no other: with the pictures of all, each look into the page takes longer."""
    notebook.clear_outputs()
    notebook.run(f"explore.{request.param}()")
    assert notebook.errors() == []
    return Shown(notebook, request.param)


class Shown:
    """One explorer, as it stands in the page."""

    def __init__(self, notebook: Notebook, name: str):
        self.notebook, self.name = notebook, name
        self.cell = notebook.cell(f"explore.{name}()")
        self.outputs = self.cell.locator(".jp-Cell-outputArea")
        self.picture = self.cell.locator("svg[role=img]")
        self.desk = self.cell.locator(CONTROLS).first
        self.explorer = opened(name)

    def widget(self, control):
        """Return the one element of a control that takes the focus."""
        if isinstance(control, Setting):
            return self.desk.get_by_label(control.label, exact=True)
        return self.desk.get_by_role("button", name=control.label, exact=True)

    def ask(self, expression: str):
        """Return what a Python expression is worth in the kernel."""
        return self.notebook.page.evaluate(
            """async expression => {
                const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
                const wanted = {code: '', user_expressions: {it: expression}};
                const reply = await kernel.requestExecute(wanted).done;
                return reply.content.user_expressions.it.data['text/plain'];
            }""",
            expression,
        )

    def use(self, control, by_keyboard: bool) -> None:
        """Use a control once, and see that the state, the picture and its words follow."""
        before = self.picture.get_attribute("aria-label")
        widget = self.widget(control)
        field, wanted = getattr(control, "field", None), None
        if isinstance(control, Choice):
            wanted = self._choose(control, widget, by_keyboard)
        elif isinstance(control, Switch):
            wanted = str(not widget.is_checked())
            widget.press("Space") if by_keyboard else widget.click()
        elif isinstance(control, Number):
            wanted = self._count(control, widget, by_keyboard)
        elif isinstance(control, Action):
            widget.press("Enter") if by_keyboard else widget.click()
        else:
            self._measure(widget, by_keyboard)
        self.wait_for_words("!==", before)
        words, value = literal_eval(self.ask(f"(shown.words, repr(shown.state.{field or 'device'}))"))
        self.wait_for_words("===", words)
        assert value == wanted or field is None, control

    def wait_for_words(self, relation: str, words: str) -> None:
        """Wait for these words, or for others; each failed try of `expect` would describe the whole page."""
        self.notebook.page.wait_for_function(
            f"""([cell, words]) => {{
                const picture = cell.querySelector('svg[role=img]');
                return picture && picture.getAttribute('aria-label') {relation} words;
            }}""",
            arg=[self.cell.element_handle(), words],
            polling=POLLING,
        )

    def _choose(self, control: Choice, widget, by_keyboard: bool) -> str:
        """Choose the next of the options, or the one before the last."""
        now = widget.evaluate("one => one.selectedIndex")
        step = 1 if now + 1 < len(control.pairs) else -1
        if by_keyboard:  # the list is opened first: else the arrows are JupyterLab's, and go to another cell
            widget.press("Space")
            widget.press("ArrowDown" if step == 1 else "ArrowUp")
            widget.press("Enter")
        else:
            widget.select_option(index=now + step)  # the list itself is drawn by the system
        return repr(control.pairs[now + step][1])

    def _count(self, control: Number, widget, by_keyboard: bool) -> str:
        """Go one up, or one down from the greatest."""
        now = int(widget.input_value())
        wanted = now + 1 if now < control.most else now - 1
        if by_keyboard:
            widget.press("ArrowUp" if wanted > now else "ArrowDown")
            widget.press("Enter")
        else:
            box = widget.bounding_box()
            up = box["height"] * (0.3 if wanted > now else 0.7)
            widget.hover()
            widget.click(position={"x": box["width"] - 8, "y": up})
        return repr(wanted)

    def _measure(self, start, by_keyboard: bool) -> None:
        """Start a measurement; by mouse wait for its end, by keyboard stop it."""
        stop = start.locator("xpath=..").get_by_role("button", name="Stop", exact=True)
        start.press("Enter") if by_keyboard else start.click()
        expect(stop).to_be_enabled()
        if by_keyboard:
            stop.press("Enter")
        expect(stop).to_be_disabled()
        expect(start).to_be_enabled()


def test_no_violations_and_nothing_clipped(notebook, page, shown):
    """In both themes, in narrow and in wide pages; the screenshots are for people to look at."""
    for theme in notebook.themes():
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 1600})
            shown.cell.scroll_into_view_if_needed()
            assert shown.cell.evaluate(CLIPPED) == [], (theme, width)
        folder = ROOT / "build" / "screenshots"
        shown.outputs.screenshot(path=folder / f"explore_{shown.name}_{theme}.png")
        assert violations(page, OUTPUTS) == [], theme


def test_every_control_by_mouse_and_by_keyboard(shown):
    """State, picture and words follow; where a button has nothing to do, another control comes first."""
    shown.picture.scroll_into_view_if_needed()
    assert shown.picture.get_attribute("aria-label") == shown.explorer.words
    for by_keyboard in (False, True):
        waiting = list(shown.explorer.controls)
        while waiting:
            now = [control for control in waiting if shown.widget(control).is_enabled()]
            assert now, f"never enabled: {[control.label for control in waiting]}"
            for control in now:
                if shown.widget(control).is_enabled():
                    shown.use(control, by_keyboard)
                    waiting.remove(control)
    expect(shown.cell.locator("figcaption")).to_have_text(shown.picture.get_attribute("aria-label"))


def test_tab_goes_from_control_to_control(page, shown):
    """In the order in which they stand there, past those that are disabled."""
    widgets = [shown.widget(control) for control in shown.explorer.controls]
    widgets = [widget for widget in widgets if widget.is_enabled()]
    widgets[0].focus()
    for widget in widgets:
        expect(widget).to_be_focused()
        page.keyboard.press("Tab")


def test_axe_looks(notebook, page):
    """A planted fault is found, in both themes, so that silence means something."""
    notebook.clear_outputs()
    notebook.run("faint")
    for theme in notebook.themes():
        assert any("color-contrast" in found for found in violations(page, OUTPUTS)), theme
