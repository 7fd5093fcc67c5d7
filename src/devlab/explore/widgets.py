"""The thin layer: ipywidgets made from an explorer's controls, and the picture that they redraw.

The picture is an output of its own, not part of the widgets: it stays in the saved notebook, on paper, and in
viewers that have no kernel, where the controls are not shown.
"""

import asyncio
from collections.abc import Callable

import ipywidgets
from IPython.display import display

from devlab.explore.controls import Action, Choice, Control, Measurement, Refused, Setting, Switch
from devlab.panel import UNSEEN, Panel, escape

WIDE = {"description_width": "initial"}
FITTING = {"width": "auto", "flex": "0 0 auto"}  # as wide as its words, however narrow the page

# JupyterLab has commands on plain keys: `x` cuts the cell, arrows leave it. While a control has the focus,
# these keys belong to the control, and a handler in the page must see to that. JupyterLab looks at a key
# after the control has had it; Notebook 7 looks before, and heeds the attribute. Both keep Ctrl+S and its
# like. A widget's HTML is never stored, so a stored notebook holds no script.
KEEP_KEYS = """<style onload="
    const keep = event => {
        const plain = !event.ctrlKey && !event.altKey && !event.metaKey;
        event.target.toggleAttribute('data-lm-suppress-shortcuts', plain);
        if (plain && event.type === 'keydown') event.stopPropagation();
    };
    for (const type of ['focusin', 'keydown', 'keyup'])
        this.closest('.widget-vbox').addEventListener(type, keep);
"></style>"""


def show(explorer: Panel) -> Callable[[], None]:
    """Display an explorer's picture and controls; return what draws the picture anew there.

    `explorer` is an `Explorer`, whose module imports this one: an import of that class would be a circle.
    """
    picture = display(_bundle(explorer), raw=True, display_id=True)
    desk = Desk(explorer)
    if desk.widgets:
        box = ipywidgets.VBox([desk.box, desk.said, ipywidgets.HTML(KEEP_KEYS, layout={"display": "none"})])
        view = {"version_major": 2, "version_minor": 0, "model_id": box.model_id}
        # The controls have no text of their own, so a viewer that cannot run widgets shows nothing of them.
        display({"application/vnd.jupyter.widget-view+json": view}, raw=True)

    def draw_there() -> None:
        picture.update(_bundle(explorer), raw=True)
        desk.follow()

    return draw_there


def _bundle(explorer: Panel) -> dict:
    return {"text/plain": explorer.text(), "text/html": explorer.html()}


class Desk:
    """The controls of one explorer as widgets, in the order in which they are declared."""

    def __init__(self, explorer: Panel):
        self.explorer = explorer
        self.busy = False  # while the widgets follow the state, their changes are not the reader's
        self.widgets = {id(control): self._widget(control) for control in explorer.controls}
        row = {"display": "flex", "flex_flow": "row wrap", "align_items": "center", "grid_gap": "4px 12px"}
        self.box = ipywidgets.Box(list(self.widgets.values()), layout=row)
        self.said = ipywidgets.HTML()
        self.follow()

    def follow(self) -> None:
        """Bring every widget to what the state says."""
        self.busy = True
        try:
            for control in self.explorer.controls:
                widget = self.widgets[id(control)]
                if isinstance(control, Setting):
                    widget.value = getattr(self.explorer.state, control.field)
                elif isinstance(control, Action):
                    widget.disabled = not control.can(self.explorer.state)
        finally:
            self.busy = False
        # A screen reader alone says the words of the picture, anew after each change.
        self.said.value = f'<div role="status" style="{UNSEEN}">{escape(self.explorer.words)}</div>'

    def _widget(self, control: Control) -> ipywidgets.Widget:
        if isinstance(control, Measurement):
            return self._measurement(control)
        if isinstance(control, Action):
            button = ipywidgets.Button(description=control.label, layout=FITTING)
            button.on_click(lambda _: self._try(lambda: self.explorer.press(control.label)))
            return button
        value = getattr(self.explorer.state, control.field)
        shared = {"description": control.label, "value": value, "style": WIDE, "layout": FITTING}
        if isinstance(control, Choice):
            widget = ipywidgets.Dropdown(options=control.pairs, **shared)
        elif isinstance(control, Switch):
            widget = ipywidgets.Checkbox(indent=False, **shared)
        else:
            shared["layout"] = {"width": "auto", "max_width": "16em"}
            widget = ipywidgets.BoundedIntText(min=control.least, max=control.most, **shared)
        widget.observe(lambda change: self._set(control.field, change["new"]), "value")
        return widget

    def _set(self, field: str, value: object) -> None:
        if not self.busy:
            self._try(lambda: self.explorer.set(**{field: value}))

    def _try(self, change: Callable[[], None]) -> None:
        """Make a change; what is refused, or breaks, is said under the picture."""
        self.explorer.problem = ""
        try:
            change()
        except Refused as refused:
            self._say(str(refused))
        except Exception as ours:
            self._say(f"This could not be drawn, please report it: {type(ours).__name__}: {ours}")

    def _say(self, problem: str) -> None:
        self.explorer.problem = problem
        self.explorer.redraw()

    def _measurement(self, control: Measurement) -> ipywidgets.Widget:
        """Return a button that starts, its progress, and a button that stops."""
        start = ipywidgets.Button(description=control.label, layout=FITTING)
        stop = ipywidgets.Button(description="Stop", layout=FITTING, disabled=True)
        done = ipywidgets.FloatProgress(min=0.0, max=1.0, description="done", style=WIDE)
        running: list[asyncio.Task] = []

        async def measure() -> None:
            start.disabled, stop.disabled, done.value = True, False, 0.0
            try:
                for share, state in control.steps(self.explorer.state):
                    self.explorer.state, done.value = state, share
                    self._try(self.explorer.redraw)
                    await asyncio.sleep(0.02)  # the kernel answers others meanwhile, the Stop button first
            except Exception as ours:
                self._say(f"The measurement ended early: {type(ours).__name__}: {ours}")
            finally:
                start.disabled, stop.disabled = False, True

        start.on_click(lambda _: running.append(asyncio.ensure_future(measure())))
        stop.on_click(lambda _: running and running[-1].cancel())
        return ipywidgets.HBox([start, stop, done], layout={"flex_flow": "row wrap"})
