"""Every explorer in JupyterLab: by mouse and by keyboard, both themes, two widths, axe."""

import json
from ast import literal_eval
from itertools import pairwise

import pytest
from explore.test_every_picture import opened
from playwright.sync_api import expect

from browser.axe import FAULT, violations
from browser.lab import AS_INSTALLED, POLLING, ROOT, VIEWPORT, Notebook, Server
from devlab import explore
from devlab.explore.controls import Action, Choice, Number, Setting, Switch
from devlab.explore.scene import WIDE

PATH = "explorers.ipynb"
NAMES = explore.__all__
WIDTHS = (800, 1600)
LAPTOP = {"width": 1366, "height": 768}
OUTPUTS = ".jp-Cell-outputArea:has(.jp-OutputArea-output)"
# What cannot be read in full: letters beyond the picture, words wider than what they stand in, all of it
# wider than the page.
CLIPPED = """cell => {
    const found = [], beyond = (inner, outer) =>
        inner.left < outer.left - 1 || inner.right > outer.right + 1 ||
        inner.top < outer.top - 1 || inner.bottom > outer.bottom + 1;
    const area = cell.querySelector('.jp-OutputArea').getBoundingClientRect();
    const svg = cell.querySelector('.devlab-explorer svg'), frame = svg.getBoundingClientRect();
    if (frame.left < area.left - 1 || frame.right > area.right + 1) found.push('the picture');
    for (const text of svg.querySelectorAll('text, g[id*=-text_]'))
        if (beyond(text.getBoundingClientRect(), frame)) found.push('letters: ' + text.textContent);
    for (const one of cell.querySelectorAll('.title, .caption, label, button')) {
        const box = one.getBoundingClientRect();
        if (one.scrollWidth > one.clientWidth + 1 && one.clientWidth) found.push('words: ' + one.innerText);
        if (box.right > area.right + 1) found.push('beyond the page: ' + one.innerText);
    }
    return found;
}"""
# Where everything in the frame stands, the picture's own shapes left out.
PLACES = """root => [...root.querySelectorAll('.title, .desk *, .frame, .player, .caption')].map(one => {
    const box = one.getBoundingClientRect(), own = root.getBoundingClientRect();
    return [one.classList[0] || one.tagName, Math.round(box.top - own.top), Math.round(box.left - own.left)];
}).filter(([name]) => name !== 'OPTION')"""


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
        self.root = self.cell.locator(".devlab-explorer")
        self.picture = self.root.locator(".frame > svg")
        self.spoken = self.root.locator(".spoken")
        self.desk = self.root.locator(".desk")
        expect(self.picture).to_be_visible()
        self.explorer = opened(name)

    @property
    def controls(self) -> list:
        """Return the controls that have a widget."""
        return [control for control in self.explorer.controls if not control.drawn]

    def able(self) -> list:
        """Return the shapes that take the focus."""
        return [one for one in self.explorer.scene.shapes if one.says or one.asks or one.stops]

    def restart(self) -> None:
        """Bring the explorer in the page to its first state."""
        self.notebook.clear_outputs()
        self.notebook.run(f"explore.{self.name}()")
        expect(self.picture).to_be_visible()

    def use_shape(self, shape, by_keyboard: bool) -> None:
        """Click a shape, or bring a shape that can be dragged to another of its places."""
        page = self.notebook.page
        group = self.picture.locator(f"[data-id='{shape.id}']")
        if by_keyboard:
            group.focus()
            at_its_end = shape.along and abs(shape.stops[-1].x - shape.x - shape.wide / 2) < 1
            page.keyboard.press("Enter" if shape.asks else "ArrowLeft" if at_its_end else "ArrowRight")
            return
        if shape.asks:
            group.click(position=self._inside(group))
            return
        frame, box = self.picture.bounding_box(), group.bounding_box()
        scale = frame["width"] / WIDE
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        far = max(shape.stops, key=lambda stop: abs(frame["x"] + stop.x * scale - middle[0])
                  + abs(frame["y"] + stop.y * scale - middle[1]))  # fmt: skip
        page.mouse.move(*middle)
        page.mouse.down()
        page.mouse.move(frame["x"] + far.x * scale, frame["y"] + far.y * scale, steps=5)
        page.mouse.up()

    @staticmethod
    def _inside(group) -> dict[str, float]:
        """Return a place near the corner of a shape, where no other shape is likely to lie over it."""
        box = group.bounding_box()
        return {"x": min(5, box["width"] / 2), "y": min(5, box["height"] / 2)}

    def ask_text(self, expression: str) -> str:
        """Return a Python expression's text in the kernel."""
        return literal_eval(self.ask(expression))

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
        before = self.spoken.text_content()
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
        words, value = literal_eval(
            self.ask(f"(shown.scene.guess or shown.words, repr(getattr(shown.state, {str(field)!r}, None)))")
        )
        self.wait_for_words("===", words)
        assert value == wanted or field is None, control

    def wait_for_words(self, relation: str, words: str) -> None:
        """Wait for these words, or for others; each failed try of `expect` would describe the whole page."""
        self.notebook.page.wait_for_function(
            f"""([cell, words]) => {{
                const spoken = cell.querySelector('.devlab-explorer .spoken');
                return spoken && spoken.textContent {relation} words;
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
        else:
            widget.fill(str(wanted))
            widget.blur()
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


def test_question_controls_picture_and_caption_fit_on_a_laptop(page, shown):
    """Nothing has to be scrolled while a reader plays."""
    page.set_viewport_size(LAPTOP)
    window = page.locator(".jp-NotebookPanel-notebook .jp-WindowedPanel-outer").bounding_box()
    assert shown.root.bounding_box()["height"] <= window["height"]


def test_every_control_by_mouse_and_by_keyboard(shown):
    """State, picture and words follow, and nothing else moves; a button that can do nothing waits."""
    shown.picture.scroll_into_view_if_needed()
    assert shown.spoken.text_content() == (shown.explorer.scene.guess or shown.explorer.words)
    places = shown.root.evaluate(PLACES)
    for by_keyboard in (False, True):
        waiting = list(shown.controls)
        while waiting:
            now = [control for control in waiting if shown.widget(control).is_enabled()]
            if not now:
                shown.restart()
                now = [control for control in waiting if shown.widget(control).is_enabled()]
            assert now, f"never enabled: {[control.label for control in waiting]}"
            for control in now:
                if shown.widget(control).is_enabled():
                    shown.use(control, by_keyboard)
                    waiting.remove(control)
    assert shown.root.evaluate(PLACES) == places
    expect(shown.picture).to_have_attribute("aria-label", shown.root.locator(".caption").text_content())


def test_tab_goes_from_control_to_control_and_into_the_picture(page, shown):
    """In the order in which they stand there, past those that are disabled."""
    widgets = [shown.widget(control) for control in shown.controls]
    widgets = [widget for widget in widgets if widget.is_enabled()]
    for widget, following in pairwise(widgets):
        widget.focus()
        page.keyboard.press("Tab")
        expect(following).to_be_focused()
    page.keyboard.press("Tab")
    assert shown.root.locator(".shape:focus:not([tabindex])").count() == 0
    assert shown.picture.locator("[tabindex='0']").count() == 1 or not shown.able()


def test_what_can_be_clicked_or_dragged_can_be_used_by_mouse_and_by_keyboard(page, shown):
    """The first shape that asks for something by a click, and the first that can be dragged."""
    scene = shown.explorer.scene
    for shape in [
        *[one for one in scene.shapes if one.asks][:1],
        *[one for one in scene.shapes if one.stops][:1],
    ]:
        for by_keyboard in (False, True):
            shown.restart()
            shown.picture.scroll_into_view_if_needed()
            before = shown.spoken.text_content()
            shown.use_shape(shape, by_keyboard)
            shown.wait_for_words("!==", before)
    assert shown.notebook.errors() == []


def test_what_is_dragged_along_its_stops_is_followed_and_keeps_the_focus(page, shown):
    """Words and picture follow before it is let go; the keys go from stop to stop."""
    for shape in [one for one in shown.explorer.scene.shapes if one.along]:
        shown.restart()
        shown.picture.scroll_into_view_if_needed()
        group = shown.picture.locator(f"[data-id='{shape.id}']")
        box, scale = group.bounding_box(), shown.picture.bounding_box()["width"] / WIDE
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        before = shown.spoken.text_content()
        far = max((stop.x - shape.x for stop in shape.stops), key=abs)
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 0.6 * far * scale, y, steps=5)
        shown.wait_for_words("!==", before)
        page.mouse.up()
        for key in ("ArrowLeft", "ArrowRight"):
            before = shown.spoken.text_content()
            page.keyboard.press(key)
            shown.wait_for_words("!==", before)
            expect(group).to_be_focused()


def test_the_still_picture_is_hidden_while_the_live_one_is_there(shown):
    """And is stored beside it for whoever opens the notebook without a kernel."""
    still = shown.cell.locator("[data-devlab-still]")
    assert still.count() == 1
    expect(still).to_be_hidden()
    assert still.locator("img").get_attribute("alt") == shown.ask_text("shown.words")


def test_without_widgets_the_stored_picture_is_shown_though_nobody_trusts_it(server, page, notebook):
    """Opened again without running, in a notebook that is not trusted."""
    name = NAMES[0]
    notebook.clear_outputs()
    notebook.run(f"explore.{name}()")
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save').then(() => true)")
    stored = json.loads((server.course / PATH).read_text(encoding="utf-8"))
    (cell,) = [one for one in stored["cells"] if f"explore.{name}()" in "".join(one["source"])]
    cell["outputs"] = [out for out in cell["outputs"] if "text/html" in out.get("data", {})]
    (server.course / "stored.ipynb").write_text(json.dumps(stored), encoding="utf-8")
    again = Notebook(page, "stored.ipynb")
    image = again.cell(f"explore.{name}()").locator("img")
    expect(image).to_be_visible()
    assert image.evaluate("one => one.naturalWidth") > 700
    assert image.get_attribute("alt")


@pytest.fixture(scope="module")
def notebook_7(tmp_path_factory, browser):
    """Open every explorer in Notebook 7, each in a cell of its own, and run all cells."""
    server = Server(tmp_path_factory.mktemp("notebook_7"), AS_INSTALLED, "notebook")
    try:
        server.write("all.ipynb", "from devlab import explore", *(f"explore.{name}()" for name in NAMES))
        page = browser.new_page(viewport=VIEWPORT)
        page.goto(f"{server.address}/notebooks/all.ipynb")
        page.wait_for_function(
            """() => window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status
                === 'idle'""",
            timeout=90_000,
        )
        page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells').then(() => true)")
        yield page
        page.close()
    finally:
        server.stop()


@pytest.mark.parametrize("name", NAMES)
def test_in_notebook_7_controls_and_shapes_are_used_by_mouse_and_by_keyboard(notebook_7, name):
    """The first control and the first shape that asks for something."""
    title = opened(name).title
    cell = notebook_7.locator(".jp-CodeCell", has_text=f"explore.{name}()")
    cell.scroll_into_view_if_needed()
    root = cell.locator(".devlab-explorer")
    expect(root.locator(".title")).to_have_text(title, timeout=60_000)
    spoken, control = root.locator(".spoken"), root.locator(".desk :is(select, input, button:enabled)").first
    for act in (_by_mouse, _by_keyboard):
        before = spoken.text_content()
        act(control)
        expect(spoken).not_to_have_text(before)
    shapes = root.locator(".shape.asks")
    if shapes.count():
        before = spoken.text_content()
        shapes.first.focus()
        for key in ("Enter", "ArrowRight", "ArrowLeft"):  # a click, or a step to either side
            if spoken.text_content() == before:
                notebook_7.keyboard.press(key)
                notebook_7.wait_for_timeout(300)
        expect(spoken).not_to_have_text(before)


def _by_mouse(control) -> None:
    """Use a control once: the next of a list, the other state of a switch, a number more, a click."""
    kind = control.evaluate("one => one.type || one.tagName")
    if kind == "select-one":
        control.select_option(index=(control.evaluate("one => one.selectedIndex") + 1) % 2)
    elif kind == "number":
        control.fill(str(int(control.input_value()) + 1))
        control.blur()
    else:
        control.click()


def _by_keyboard(control) -> None:
    """Do the same with keys alone."""
    kind = control.evaluate("one => one.type || one.tagName")
    if kind == "select-one":
        control.press("ArrowUp" if control.evaluate("one => one.selectedIndex") else "ArrowDown")
    elif kind == "number":
        control.press("ArrowDown")
    else:
        control.press("Space" if kind == "checkbox" else "Enter")


def test_axe_looks(notebook, page):
    """A planted fault is found, in both themes, so that silence means something."""
    notebook.clear_outputs()
    notebook.run("faint")
    for theme in notebook.themes():
        assert any("color-contrast" in found for found in violations(page, OUTPUTS)), theme
