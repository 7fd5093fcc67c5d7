"""JupyterLab with the settings that it is installed with: cells out of view are drawn late, or not at all."""

import pytest
from playwright.sync_api import expect

from browser.conftest import opened_page
from browser.lab import AS_INSTALLED, Notebook, Server, until

EXERCISES = "exercises/10_debugging_exercises.ipynb"
LESSON = "notebooks/10_debugging.ipynb"
SEVERAL = "notebooks/09_several_devices.ipynb"
# Whether a cell can be read; it moves a little when the cells above have got their true height.
IN_VIEW = """([path, cell]) => {
    const widget = window.jupyterapp.shell.currentWidget;
    const node = widget?.content?.widgets?.find(one => one.model.id === cell)?.node;
    if (widget?.context?.path !== path || !node?.isConnected) return false;
    const view = widget.content.node.getBoundingClientRect(), own = node.getBoundingClientRect();
    return own.bottom > view.top + 60 && own.top < view.top + view.height / 2;
}"""


CLOSE_ALL = "() => [...window.jupyterapp.shell.widgets('main')].forEach(widget => widget.dispose())"


@pytest.fixture(autouse=True)
def fresh():
    """The server of this module is its own, and is left in order by each test."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Start JupyterLab with no setting of ours."""
    server = Server(tmp_path_factory.mktemp("lab"), AS_INSTALLED)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def page(server, browser):
    """Open JupyterLab in a window of a usual size."""
    page = opened_page(server, browser, {"width": 1366, "height": 768})
    yield page
    page.close()


@pytest.fixture(autouse=True)
def closed(server, page):
    """Leave nothing open and no kernel running for the next test."""
    yield
    page.evaluate(CLOSE_ALL)
    server.shut_kernels_down()


@pytest.mark.parametrize(
    ("start", "path", "cell"),
    [
        (EXERCISES, LESSON, "Look-at-the-whole-scene"),
        (EXERCISES, LESSON, "Tables-that-are-not-registered"),
        (SEVERAL, "exercises/09_several_devices_exercises.ipynb", "task_ddp_gradients"),
    ],
)  # fmt: skip
def test_a_link_lands_at_its_heading_in_a_notebook_that_is_not_open_yet(page, start, path, cell):
    """What the link names is in the upper half of the window.

    Links within a notebook are left to JupyterLab, which shifts their target while it draws.
    """

    def follow() -> None:
        page.evaluate(CLOSE_ALL)
        notebook = Notebook(page, start)
        page.evaluate(
            """async id => {
                const content = window.jupyterapp.shell.currentWidget.content;
                const holds = cell => cell.model.sharedModel.source.includes('#cell-id=' + id + ')');
                await content.scrollToItem(content.widgets.findIndex(holds), 'start');
            }""",
            cell,
        )
        notebook.panel.locator(f"a[href$='#cell-id={cell}']").first.click()

    until(page, IN_VIEW, follow, arg=[path, cell])


@pytest.mark.parametrize("path", [LESSON, EXERCISES])
def test_a_notebook_is_unchanged_when_it_is_opened(page, path):
    """Nothing asks to be saved when the kernel has started: it found its own version in the notebook."""
    notebook = Notebook(page, path)
    page.wait_for_timeout(500)  # JupyterLab writes what the kernel told it a moment later
    assert not page.evaluate("() => window.jupyterapp.shell.currentWidget.model.dirty")
    notebook.run("import")
    assert page.evaluate("() => window.jupyterapp.shell.currentWidget.model.dirty")


def test_lines_are_short_enough_to_be_read_and_nothing_asks_about_news(page):
    """Of about 75 letters, by the course's own style sheet, which JupyterLab is told to read."""
    notebook = Notebook(page, LESSON)
    paragraph = notebook.panel.locator(".jp-MarkdownOutput p").first
    letters = paragraph.evaluate(
        """one => {
            const measure = document.createElement('canvas').getContext('2d');
            measure.font = getComputedStyle(one).font;
            const letter = measure.measureText(one.textContent).width / one.textContent.length;
            return one.clientWidth / letter;
        }"""
    )
    assert 65 < letters < 90
    assert page.get_by_text("notified about official Jupyter news").count() == 0


def test_a_lesson_and_its_exercises_are_told_apart_by_their_tabs(page):
    """Each tab shows its whole name, also those of the longest."""
    for path in (
        "notebooks/12_less_memory_less_time.ipynb",
        "exercises/12_less_memory_less_time_exercises.ipynb",
    ):
        Notebook(page, path)
    labels = page.locator("#jp-main-dock-panel .lm-TabBar-tabLabel", has_text="12_less_memory")
    expect(labels).to_have_count(2)
    for label in labels.all():
        assert label.evaluate("one => one.scrollWidth <= one.clientWidth + 1"), label.inner_text()


def test_a_program_for_several_ranks_is_highlighted(page):
    """Its keywords have a colour of their own, as in any cell."""
    notebook = Notebook(page, "notebooks/13_bigger_than_one_device.ipynb")
    page.evaluate(
        """async () => {
            const content = window.jupyterapp.shell.currentWidget.content;
            const is_program = cell => cell.model.sharedModel.source.startsWith('%%launch 2\\n');
            await content.scrollToItem(content.widgets.findIndex(is_program), 'start');
        }"""
    )
    line = notebook.cell("%%launch 2").locator(".cm-line", has_text="import torch.distributed as dist")
    colours = line.locator("span").evaluate_all("all => all.map(one => getComputedStyle(one).color)")
    assert len(set(colours)) > 1, colours


# What the keys do in JupyterLab: cut, delete, insert above, go to another cell, change the kind of cell.
KEYS = ["x", "d", "d", "a", "ArrowRight", "ArrowLeft", "m", "0", "0"]
STATE = """() => {
    const content = window.jupyterapp.shell.currentWidget.content;
    const cells = content.widgets.map(cell => [cell.model.type, cell.model.id]);
    return [cells, content.activeCellIndex, content.mode];
}"""
CELLS = ("from devlab import explore", "explore.devices()", "1 + 1")


def controls_keep_their_keys(page) -> None:
    """Whatever the control: the cells stay, the same one is active. An arrow chooses, Ctrl+S saves."""
    root = page.locator(".devlab-explorer")
    choice = root.get_by_role("combobox").first
    others = [root.get_by_role("button").first, root.locator("svg [tabindex='0']").first]
    for control in (choice, *others):
        control.focus()
        before = page.evaluate(STATE)
        for key in KEYS:
            page.keyboard.press(key)
        assert page.evaluate(STATE) == before, control
        expect(control).to_be_focused()
    chosen = choice.input_value()
    choice.press("ArrowDown")
    expect(choice).not_to_have_value(chosen)
    assert page.evaluate("() => window.jupyterapp.shell.currentWidget.model.dirty")
    # The answer of the kernel to the choice may come after the first save.
    saved = "() => !window.jupyterapp.shell.currentWidget.model.dirty"
    until(page, saved, lambda: page.keyboard.press("ControlOrMeta+s"))


def test_plain_keys_of_a_focused_control_do_nothing_to_the_notebook(server, page):
    """In JupyterLab, which looks at a key after the control has had it."""
    server.write("keys.ipynb", *CELLS)
    notebook = Notebook(page, "keys.ipynb")
    notebook.run("from devlab")
    notebook.run("explore.devices")
    controls_keep_their_keys(page)
    assert notebook.errors() == []


def test_the_same_in_notebook_7(tmp_path, browser):
    """Which looks at a key before the control has had it."""
    server = Server(tmp_path, AS_INSTALLED, "notebook")
    try:
        server.write("keys.ipynb", *CELLS)
        page = browser.new_page()
        page.goto(f"{server.address}/notebooks/keys.ipynb")
        page.wait_for_function(
            """() => window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status
                === 'idle'""",
            timeout=90_000,
        )
        page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells').then(() => true)")
        expect(page.locator(".devlab-explorer select").first).to_be_visible(timeout=60_000)
        controls_keep_their_keys(page)
        page.close()
    finally:
        server.stop()
