"""One server for all, and one page a module; each test opens its notebooks anew.

Not one page for the session: while playwright is open, its event loop runs in this thread, and a later test
that calls asyncio.run cannot.
"""

import pytest
from browser.lab import Server
from playwright.sync_api import expect


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """Start JupyterLab on a copy of the course."""
    server = Server(tmp_path_factory.mktemp("lab"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def page(server, browser):
    """Open JupyterLab once."""
    page = browser.new_page(viewport={"width": 1280, "height": 1600})
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
    page.evaluate("() => [...window.jupyterapp.shell.widgets('main')].forEach(widget => widget.dispose())")
    server.shut_kernels_down()
    server.lay_out_course()
    server.progress.unlink(missing_ok=True)
