"""How long a reader waits, in milliseconds, from a click or a key to the changed picture, in a real browser.

Each explorer is opened in JupyterLab. Where the kernel must answer, the first list, switch or button is used
again and again, and the time runs until the page has changed; where the kernel need not answer, the head of
the player is moved. Beside it stands what matplotlib takes to draw one plot of two curves, which is how the
pictures were drawn before. Needs Chromium and the packages of the tests.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from browser.conftest import opened_page
from browser.lab import Notebook, Server, installed_browser, start_browser
from explore.test_every_picture import NAMES
from promises import promise

THROUGH_KERNEL, IN_PAGE = 40, 16
ROUNDS = 15
# Uses a control once, and returns the milliseconds until something in the picture or its caption differs.
TIMED = """async root => {
    const control = root.querySelector('.desk select, .desk input, .desk button:enabled');
    const changed = new Promise(done => {
        const watcher = new MutationObserver(() => { watcher.disconnect(); done(performance.now()); });
        const what = { subtree: true, attributes: true, childList: true, characterData: true };
        for (const part of root.querySelectorAll('.frame > svg, .caption')) watcher.observe(part, what);
    });
    const begun = performance.now();
    if (control.tagName === 'BUTTON') control.click();
    else {
        if (control.tagName === 'SELECT') {
            control.selectedIndex = (control.selectedIndex + 1) % control.options.length;
        } else if (control.type === 'checkbox') control.checked = !control.checked;
        else control.value = Number(control.value) + (control.value < control.max ? 1 : -1);
        control.dispatchEvent(new Event('change'));
    }
    const late = new Promise(done => setTimeout(() => done(begun + 5000), 5000));
    return await Promise.race([changed, late]) - begun;
}"""
MOVED = """root => {
    const head = root.querySelector('.player input');
    if (!head || getComputedStyle(head).visibility === 'hidden' || !head.offsetParent) return null;
    const begun = performance.now();
    head.value = (Number(head.value) + 137) % 1000;
    head.dispatchEvent(new Event('input'));
    root.querySelector('.frame > svg').getBoundingClientRect();  // the layout is done, too
    return performance.now() - begun;
}"""


def by_matplotlib() -> float:
    """Return the median milliseconds in which matplotlib draws two curves as an SVG."""
    import io

    from matplotlib.figure import Figure

    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        figure = Figure(figsize=(8, 4))
        axes = figure.subplots()
        for slope in (1, 2):
            axes.loglog([10**power for power in range(8)], [slope * 10**power for power in range(8)])
        figure.savefig(io.StringIO(), format="svg")
        times.append(1000 * (time.perf_counter() - begun))
    return statistics.median(times)


def main() -> None:
    """Print the table and the promises."""
    if installed_browser() is None:
        print("no Chromium or Chrome here: nothing was measured")
        return
    server, browsers = Server(Path(tempfile.mkdtemp())), start_browser()
    kernel, page_alone = {}, {}
    try:
        page = opened_page(server, next(browsers), {"width": 1366, "height": 900})
        server.write("redraw.ipynb", "from devlab import explore", *(f"explore.{name}()" for name in NAMES))
        notebook = Notebook(page, "redraw.ipynb")
        notebook.run("from devlab")
        print(f"{'explorer':<12}{'by the kernel':>15}{'slowest':>10}{'in the page':>14}")
        for name in NAMES:
            notebook.clear_outputs()
            notebook.run(f"explore.{name}()")
            root = notebook.cell(f"explore.{name}()").locator(".devlab-explorer")
            times = []
            for _ in range(ROUNDS):
                times.append(root.evaluate(TIMED))
                page.wait_for_timeout(400)  # until the shapes have come to rest
            moved = [once for once in (root.evaluate(MOVED) for _ in range(ROUNDS)) if once is not None]
            kernel[name] = statistics.median(times)
            page_alone[name] = statistics.median(moved) if moved else 0.0
            alone = f"{page_alone[name]:.1f}" if moved else "-"
            print(f"{name:<12}{kernel[name]:>15.0f}{max(times):>10.0f}{alone:>14}", flush=True)
    finally:
        server.stop()
        next(browsers, None)
    beside = f"{by_matplotlib():.0f} ms by matplotlib"
    slowest = max(kernel, key=kernel.get)
    promise(f"click to picture, {slowest}", kernel[slowest], "ms", beside=beside, most=THROUGH_KERNEL)
    slowest = max(page_alone, key=page_alone.get)
    promise(f"the player's head, {slowest}", page_alone[slowest], "ms", beside=beside, most=IN_PAGE)


if __name__ == "__main__":
    main()
