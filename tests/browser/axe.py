"""What axe says of our HTML inside JupyterLab."""

from axe_core_python.base import AXE_SCRIPT

OURS = ".jp-OutputArea-output.jp-RenderedHTMLCommon"
FAULT = """from IPython.display import HTML, display
display(HTML('<p style="color:#999;background:#aaa">faint</p>'))
"""


def violations(page, selector: str = OURS) -> list[str]:
    """Return what axe says of some outputs; inside JupyterLab it looks only at what has a size, in view."""
    if not page.evaluate("() => 'axe' in window"):
        page.add_style_tag(content="body{min-height:100vh}")
        page.evaluate(AXE_SCRIPT)
    found = page.evaluate(
        "selector => axe.run({include: [[selector]]}, {resultTypes: ['violations']})", selector
    )
    return [
        f"{violation['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for violation in found["violations"]
        for node in violation["nodes"]
    ]
