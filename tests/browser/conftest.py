"""One server and one page for all, since JupyterLab loads for seconds; each test opens its notebooks anew.

Not for the session: while playwright is open, its event loop runs in this thread, and a later test that calls
asyncio.run cannot.
"""

import pytest
from playwright.sync_api import expect

from browser.lab import VIEWPORT, Server, start_browser


@pytest.fixture(scope="package")
def server(tmp_path_factory):
    """Start JupyterLab on a copy of the course."""
    server = Server(tmp_path_factory.mktemp("lab"))
    yield server
    server.stop()


@pytest.fixture(scope="package")
def browser():
    """Start the browser for all modules of this folder."""
    yield from start_browser()


@pytest.fixture(scope="package")
def page(server, browser):
    """Open JupyterLab once."""
    return opened_page(server, browser, VIEWPORT)


def opened_page(server, browser, viewport: dict[str, int]):
    """Open JupyterLab in a window of some size."""
    page = browser.new_page(viewport=viewport)
    page.set_default_timeout(30_000)
    expect.set_options(timeout=30_000)
    page.goto(f"{server.address}/lab")
    page.wait_for_function("() => window.jupyterapp?.restored && window.jupyterapp.shell", timeout=90_000)
    page.evaluate("() => window.jupyterapp.restored.then(() => true)")
    return page


@pytest.fixture(autouse=True)
def fresh(server, page):
    """Leave nothing open and no kernel running for the next test."""
    yield
    tidy_up(server, page)


@pytest.fixture(scope="module")
def fresh_module(server, page):
    """The same after a module whose tests share a notebook and its kernel."""
    yield
    tidy_up(server, page)


def tidy_up(server, page) -> None:
    """Close every notebook, end every kernel, forget all progress."""
    page.evaluate("() => [...window.jupyterapp.shell.widgets('main')].forEach(widget => widget.dispose())")
    server.shut_kernels_down()
    server.lay_out_course()
    server.progress.unlink(missing_ok=True)
    page.set_viewport_size(VIEWPORT)
