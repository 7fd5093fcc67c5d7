"""A JupyterLab of our own and a real browser in front of it."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, Error, Page, TimeoutError, expect, sync_playwright

from devlab.lab import CONTENTS, PAGE

ROOT = Path(__file__).resolve().parents[2]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
VIEWPORT = {"width": 1280, "height": 1600}
POLLING = 30  # milliseconds between two looks; by default each frame is one, and frames are drawn for it
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Nothing that a reader would notice; the rest is as JupyterLab is installed.
AS_INSTALLED = {
    "@jupyterlab/apputils-extension:notification": {"checkForUpdates": False},
}
# Every cell stands in the page, also those out of view.
SETTINGS = AS_INSTALLED | {"@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"}}


def installed_browser() -> str | None:
    """Return the path of a Chromium or Chrome of this machine; None leaves the choice to playwright."""
    here = (shutil.which(name) for name in BROWSERS)
    return os.environ.get("DEVLAB_BROWSER") or next(filter(None, here), None)


def until(page: Page, condition: str, act: Callable[[], None], arg: object = None) -> None:
    """Do something until it has its effect, three times at the most.

    On a busy machine JupyterLab may still be drawing when something is done, and undo its effect.
    """
    for patience in (10_000, 10_000, 30_000):
        act()
        with contextlib.suppress(TimeoutError):
            page.wait_for_function(condition, arg=arg, polling=POLLING, timeout=patience)
            return
    raise AssertionError(f"it never came true: {condition} {arg}")


def start_browser() -> Iterator[Browser]:
    """Start the browser, for a fixture; without one, its tests are skipped, but never in CI."""
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=installed_browser(), args=FLAGS)
        except Error as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"no Chromium or Chrome that starts here: {str(error).splitlines()[0]}")
        yield browser
        browser.close()


class Server:
    """A JupyterLab server on a copy of the course, with its own settings, progress and kernels."""

    def __init__(self, folder: Path, settings: dict = SETTINGS, app: str = "lab"):
        self.course = folder / "course"
        self.lay_out_course()
        config = folder / "config"
        (config / "labconfig").mkdir(parents=True)
        (config / "labconfig" / "default_setting_overrides.json").write_text(json.dumps(settings))
        self.progress = folder / "progress.jsonl"
        environment = os.environ | {
            "JUPYTER_CONFIG_DIR": str(config),
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
            "IPYTHONDIR": str(folder / "ipython"),
            "DEVLAB_PROGRESS": str(self.progress),
            "DEVLAB_DEVICE": "sim",
        }
        command = [sys.executable, "-m", "jupyter", app, "--no-browser", "--expose-app-in-browser",
                   "--allow-root", CONTENTS, PAGE, "--ServerApp.port=0", "--IdentityProvider.token=",
                   "--ServerApp.disable_check_xsrf=True", f"--ServerApp.root_dir={self.course}"]  # fmt: skip
        self.log = folder / "server.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self.address = self._wait_for_address()

    def lay_out_course(self) -> None:
        """Copy the course's notebooks as they are committed, over whatever a test made of them."""
        for name in ("notebooks", "exercises", "solutions"):
            shutil.copytree(ROOT / name, self.course / name, dirs_exist_ok=True)

    def write(self, path: str, *cells: str) -> None:
        """Write a notebook of some code cells into the course."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        nbformat.write(notebook, self.course / path)

    def _wait_for_address(self) -> str:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            found = re.search(r"http://(?:localhost|127\.0\.0\.1):(\d+)/", self.log.read_text())
            if found:
                return f"http://127.0.0.1:{found.group(1)}"
            if self.process.poll() is not None:
                break
            time.sleep(0.2)
        raise RuntimeError(f"JupyterLab did not start:\n{self.log.read_text()[-2000:]}")

    def shut_kernels_down(self) -> None:
        """End every kernel, so that a notebook opened again does not find its old one."""
        with urllib.request.urlopen(f"{self.address}/api/sessions") as answer:
            sessions = json.load(answer)
        for session in sessions:
            request = urllib.request.Request(f"{self.address}/api/sessions/{session['id']}", method="DELETE")
            urllib.request.urlopen(request).close()

    def stop(self) -> None:
        """End the server and its kernels."""
        self.shut_kernels_down()
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:  # how fast Jupyter ends is not what these tests are about
            self.process.kill()
            self.process.wait(30)


class Notebook:
    """One notebook, open in the page: cells found by what they say, used as a learner uses them."""

    def __init__(self, page: Page, path: str):
        self.page = page
        self.path = path
        # Without `true` the opened widget would come back with all that it holds, which takes seconds.
        page.evaluate(
            "path => window.jupyterapp.commands.execute('docmanager:open', {path}).then(() => true)", path
        )
        self.panel = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        expect(self.panel).to_be_visible(timeout=30_000)
        page.wait_for_function(
            """path => {
                const widget = window.jupyterapp.shell.currentWidget;
                return widget?.context?.path === path && widget.context.isReady
                    && widget.sessionContext.session?.kernel?.status === 'idle';
            }""",
            arg=path,
            timeout=60_000,
            polling=POLLING,
        )
        self._use_theme("light")

    def themes(self) -> Iterator[str]:
        """Put JupyterLab into each theme as a loop asks for it, that which is on first: changes take time."""
        for theme in ("light", "dark") if self._theme() == "light" else ("dark", "light"):
            self._use_theme(theme)
            yield theme

    def _theme(self) -> str:
        return self.page.evaluate("() => document.body.dataset.jpThemeLight === 'true' ? 'light' : 'dark'")

    def _use_theme(self, theme: str) -> None:
        """Switch JupyterLab to a theme and wait until it is on."""
        if self._theme() == theme:
            return
        name = f"JupyterLab {theme.capitalize()}"
        self.page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", name
        )
        self.page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)
        expect(self.page.locator("#jupyterlab-splash")).to_have_count(0)

    def clear_outputs(self) -> None:
        """Take away the outputs of every cell."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
        expect(self.panel.locator(".jp-OutputArea-output")).to_have_count(0)

    def cell(self, code: str):
        """Return the code cell that contains a piece of code."""
        return self.panel.locator(".jp-CodeCell").filter(
            has=self.page.locator(".jp-InputArea", has_text=code)
        ).first  # fmt: skip

    def output(self, code: str):
        """Return the output area of the code cell that contains a piece of code."""
        return self.cell(code).locator(".jp-OutputArea-output").first

    def counts(self) -> list[int | None]:
        """Return the execution count of each code cell."""
        return self.page.evaluate(
            """() => [...window.jupyterapp.shell.currentWidget.model.cells]
                .filter(cell => cell.type === 'code').map(cell => cell.executionCount)"""
        )

    def run_all(self) -> None:
        """Run every cell and wait until each has run."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.wait_until_idle()
        assert None not in self.counts()

    def edit(self, code: str) -> None:
        """Click into the cell that contains `code`, and wait until it listens to the keyboard."""
        editor = self.cell(code).locator(".cm-content")
        editor.click()
        expect(editor).to_be_focused()

    def run(self, code: str) -> None:
        """Click into a cell and press Shift+Enter."""
        self.edit(code)
        # The count tells that the cell has run; a restarted kernel counts from 1 again.
        cell = self.page.evaluate_handle(
            """() => {
                const cell = window.jupyterapp.shell.currentWidget.content.activeCell.model;
                cell.executionCount = null;
                return cell;
            }"""
        )
        self.page.keyboard.press("Shift+Enter")
        self.page.wait_for_function(
            "cell => cell.executionCount !== null", arg=cell, timeout=60_000, polling=POLLING
        )
        self.wait_until_idle()

    def write(self, code: str, new: str) -> None:
        """Replace the text of the cell that contains `code`, as by pasting over it."""
        self.edit(code)
        self.page.keyboard.press("ControlOrMeta+A")
        self.page.keyboard.insert_text(new)
        self.wait_for_source(new)

    def add_below(self, code: str, new: str) -> None:
        """Add a cell below the one that contains `code` and write into it."""
        self.edit(code)
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("b")
        self.wait_for_source("")
        self.page.keyboard.press("Enter")
        self.page.keyboard.insert_text(new)
        self.wait_for_source(new)

    def wait_for_source(self, text: str) -> None:
        """Wait until the active cell holds exactly this text."""
        self.page.wait_for_function(
            """text => window.jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel.source
                === text""",
            arg=text,
        )

    def restart(self) -> None:
        """Restart the kernel and wait for the new one."""
        self.page.evaluate(
            "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
        )
        self.wait_until_idle()

    def wait_until_idle(self) -> None:
        """Wait until no cell is waiting or running and the kernel is idle."""
        self.page.wait_for_function(
            """() => {
                const widget = window.jupyterapp.shell.currentWidget;
                const busy = [...widget.content.widgets].some(
                    cell => cell.node.querySelector('.jp-InputPrompt')?.textContent.includes('*'));
                return !busy && widget.sessionContext.session?.kernel?.status === 'idle';
            }""",
            timeout=90_000,
            polling=POLLING,
        )

    def keep_screenshot(self, code: str, name: str) -> None:
        """Keep a picture of a cell in `build/screenshots`, for people to look at."""
        folder = ROOT / "build" / "screenshots"
        folder.mkdir(parents=True, exist_ok=True)
        self.cell(code).screenshot(path=folder / f"{name}.png")

    def errors(self) -> list[str]:
        """Return everything red: tracebacks and standard error."""
        kinds = ("error", "stderr")
        red = ", ".join(f'[data-mime-type="application/vnd.jupyter.{kind}"]' for kind in kinds)
        return self.panel.locator(red).all_inner_texts()
