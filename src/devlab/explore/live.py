"""The live picture of an explorer: a widget that shows its views and passes on what a reader asks for."""

import asyncio
import traceback
import uuid
from collections.abc import Callable
from pathlib import Path

import anywidget
import traitlets
from IPython.display import display

from devlab.explore.controls import (
    Action,
    Amount,
    Choice,
    Control,
    Measurement,
    Refused,
    Setting,
    with_settings_of,
)
from devlab.panel import Panel

HERE = Path(__file__).parent


class Live(anywidget.AnyWidget):
    """One explorer in one place of a page. `view` is what there is to see, all of it sent at once."""

    _esm = HERE / "live.js"
    _css = HERE / "live.css"
    view = traitlets.Dict().tag(sync=True)

    def __init__(self, explorer: Panel, mark: str):
        self.explorer, self.mark = explorer, mark
        self._measuring: dict[str, asyncio.Task] = {}
        self._shares: dict[str, float] = {}
        self._refusals = 0
        super().__init__(view=self._view())
        # JupyterLab lets another thread of the kernel hear what a page asks for. It is answered in
        # the thread of the cells, which has the current streams, and in which the simulated host's work
        # takes time.
        try:
            there = asyncio.get_running_loop()
        except RuntimeError:  # IPython in a terminal, where no page asks for anything
            return
        self.on_msg(lambda _, content, buffers: there.call_soon_threadsafe(self.ask, content["asks"]))

    def follow(self) -> None:
        """Show the present state."""
        self.view = self._view()

    def ask(self, wish: dict) -> None:
        """Do what a reader asks for; what is refused, or breaks, is said under the picture."""
        explorer = self.explorer
        explorer.problem = ""
        try:
            if "set" in wish:
                explorer.set(**wish["set"])
            elif "stop" in wish:
                self._measuring[wish["stop"]].cancel()
            elif isinstance(explorer.button(wish["press"]), Measurement):
                label = wish["press"]
                self._measuring[label] = asyncio.ensure_future(self._measure(explorer.button(label)))
            else:
                explorer.press(wish["press"])
        except Refused as refused:
            self._say(str(refused))
        except Exception as ours:
            self._say(f"This could not be drawn, please report it: {type(ours).__name__}: {ours}")
            self.log.debug("".join(traceback.format_exception(ours)))

    def _say(self, problem: str) -> None:
        self._refusals += 1  # a view that is new, so that what was typed goes from its field each time
        self.explorer.problem = problem
        self.explorer.redraw()

    async def _measure(self, control: Measurement) -> None:
        try:
            for share, state in control.steps(self.explorer.state):
                explorer, self._shares[control.label] = self.explorer, share
                explorer.state = with_settings_of(explorer.state, state, explorer.controls)
                explorer.redraw()
                await asyncio.sleep(0.02)  # the kernel answers others meanwhile, the Stop button first
        except Exception as ours:
            self._say(f"The measurement ended early: {type(ours).__name__}: {ours}")
        finally:
            del self._measuring[control.label]
            self.follow()

    def _view(self) -> dict:
        explorer = self.explorer
        return {
            "mark": self.mark,
            "refusals": self._refusals,
            "title": explorer.title,
            "controls": [self._describe(control) for control in explorer.controls if not control.drawn],
            "scene": explorer.scene.data(),
            "words": explorer.words,
            "problem": explorer.problem,
        }

    def _describe(self, control: Control) -> dict:
        """Return a control and its present value as data for the page."""
        told = {"kind": type(control).__name__, "label": control.label}
        state = self.explorer.state
        if isinstance(control, Setting):
            value = getattr(state, control.field)
            told |= {"field": control.field, "value": value}
            if isinstance(control, Choice):
                texts = [text for text, _ in control.pairs]
                told |= {"options": texts, "value": control.text_of(value)}
        if isinstance(control, Action | Amount):
            told |= {"able": control.can(state), "look": control.look(state)}
        if isinstance(control, Action) and control.pressed:
            told["pressed"] = control.pressed(state)
        if isinstance(control, Measurement):
            told |= {
                "able": control.label not in self._measuring,
                "share": self._shares.get(control.label, 0.0),
            }
        return told | {name: getattr(control, name) for name in ("least", "most") if hasattr(control, name)}


def show(explorer: Panel) -> Callable[[], None]:
    """Display an explorer's still picture and the live one that hides it; return what draws both anew.

    The still picture stays in the saved notebook, on paper, and in viewers without a kernel.
    """
    mark = uuid.uuid4().hex  # no still that an earlier kernel left in the notebook has it
    still = display(explorer.bundle(mark), raw=True, display_id=True)
    live = Live(explorer, mark)
    # The widget has no text of its own, so a viewer that cannot run widgets shows nothing of it.
    view = {"version_major": 2, "version_minor": 0, "model_id": live.model_id}
    display({"application/vnd.jupyter.widget-view+json": view}, raw=True)

    def draw_there() -> None:
        live.follow()
        still.update(explorer.bundle(mark), raw=True)

    return draw_there
