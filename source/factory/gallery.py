"""Pictures for readers who have no kernel: `docs/gallery.html`, and the README's picture that moves.

A page without a kernel cannot compute. So the views that a reader may come to are computed here and stored in
the page, `MOST` of each explorer and the nearest to its first view; a wish for another is answered in words.
"""

import base64
import gzip
import json
import math
import re
from collections import deque
from collections.abc import Iterator
from importlib import import_module

from devlab.explore.explorer import Explorer
from devlab.explore.live import HERE, Live

MOST = 240
# The lesson in which each explorer stands.
LESSONS = {
    "devices": "00_start_here",
    "transfers": "04_transfers",
    "mover": "05_buffers",
    "sharing": "06_numpy_sharing",
    "timeline": "07_asynchrony",
    "pipeline": "07_asynchrony",
    "allocator": "08_memory",
    "crossover": "07_asynchrony",
}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
_STORED = re.compile(r'<script type="application/gzip" data-name="(\w+)">([^<]*)</script>')


def is_current(page: str) -> bool:
    """Tell whether a page has today's script and style, and today's first views of each explorer."""
    files = [(HERE / name).read_text("utf-8").split("export default")[0] for name in ("live.js", "live.css")]
    stored = read_stored(page)
    return (
        all(text in page for text in files)
        and PLAYED in page
        and list(stored) == list(LESSONS)
        and all(has_first_views(name, held) for name, held in stored.items())
    )


def has_first_views(name: str, stored: dict, most: int = 12) -> bool:
    """Tell whether the first views that are stored of an explorer are today's."""
    shapes: dict[str, int] = {}
    views = [_number_shapes(view, shapes) for view in explore_views(open_explorer(name), most)[0]]
    today = _key([views, [json.loads(shape) for shape in shapes]])
    return are_alike(_key([stored["views"][:most], stored["shapes"][: len(shapes)]]), today)


def are_alike(one: str, other: str) -> bool:
    """Tell whether two texts differ in the last digits of their numbers at most.

    Those digits depend on how long the simulated clock has run, and so on what was drawn before.

    >>> are_alike("M215.02 178", "M215.03 178"), are_alike("M215 178", "M225 178"), are_alike("M2", "L2")
    (True, False, False)
    """
    if _NUMBER.sub("#", one) != _NUMBER.sub("#", other):
        return False
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=1e-3, abs_tol=0.02) for a, b in pairs)


def make_gallery() -> str:
    """Return the page, with the same bytes for the same views."""
    sections = "".join(_write_section(name) for name in LESSONS)
    script = (HERE / "live.js").read_text("utf-8").replace("export default { render };", PLAYED)
    return PAGE.format(style=(HERE / "live.css").read_text("utf-8"), sections=sections, script=script)


def read_stored(page: str) -> dict[str, dict]:
    """Return what a gallery's page stores of each explorer, by name."""
    return {name: json.loads(gzip.decompress(base64.b64decode(held))) for name, held in _STORED.findall(page)}


def store(name: str) -> dict:
    """Return what the page stores of an explorer: each shape once, the views, and where wishes lead."""
    views, answers = explore_views(open_explorer(name))
    shapes: dict[str, int] = {}
    numbered = [_number_shapes(view, shapes) for view in views]
    return {
        "shapes": [json.loads(shape) for shape in shapes],
        "views": numbered,
        "answers": answers,
        "whole": all(len(led) == len(_list_keys(view)) for led, view in zip(answers, views, strict=True)),
    }


def _number_shapes(view: dict, shapes: dict[str, int]) -> dict:
    scene = _round_times(view["scene"])
    numbers = [shapes.setdefault(_key(_round_times(shape)), len(shapes)) for shape in scene["shapes"]]
    return view | {"scene": scene | {"shapes": numbers}}


def _round_times(held: dict) -> dict:
    """Round the moments of a play: their last digits depend on how long the simulated clock has run."""
    times = {name: held[name] for name in ("during", "comes", "goes", "seconds") if held.get(name)}
    return held | json.loads(json.dumps(times), parse_float=lambda digits: round(float(digits), 4))


def _list_keys(view: dict) -> set[str]:
    return {_key(wish) for wish in list_wishes(view)}


def _write_section(name: str) -> str:
    stored, lesson = store(name), LESSONS[name]
    number, title = lesson.split("_", 1)
    extent = f"Of its steps, the nearest {MOST} are"
    if stored["whole"]:
        measures = any(control["kind"] == "Measurement" for control in stored["views"][0]["controls"])
        extent = "All its steps but the measurement are" if measures else "All its steps are"
    held = base64.b64encode(gzip.compress(_key(stored).encode(), 9, mtime=0)).decode()
    return (
        f'<section id="{name}" data-lesson="{number}"><p>Lesson {number}, '
        f"<em>{title.replace('_', ' ')}</em>. {extent} stored in this page.</p><div class='place'></div>"
        f'<script type="application/gzip" data-name="{name}">{held}</script></section>'
    )


def open_explorer(name: str) -> Explorer:
    """Return an explorer of this name without showing it."""
    return import_module(f"devlab.explore.pictures.{name}").explorer()


def list_wishes(view: dict) -> Iterator[dict]:
    """Yield all that a reader can ask for in a view: by its controls, by a click and by dragging."""
    for control in view["controls"]:
        kind, value = control["kind"], control.get("value")
        if kind == "Choice":
            others = (option for option in control["options"] if option != value)
            yield from ({"set": {control["field"]: option}} for option in others)
        elif kind == "Switch":
            yield {"set": {control["field"]: not value}}
        elif kind == "Number":
            numbers = range(control["least"], control["most"] + 1)
            yield from ({"set": {control["field"]: number}} for number in numbers if number != value)
        elif kind == "Action" and control["able"]:
            yield {"press": control["label"]}
    for shape in view["scene"]["shapes"]:
        yield from filter(None, [shape.get("asks"), *(stop["asks"] for stop in shape.get("stops", ()))])


def explore_views(explorer: Explorer, most: int = MOST) -> tuple[list[dict], list[dict[str, int]]]:
    """Return an explorer's views and, for each, the numbers of the views that wishes lead to.

    The first view comes first, and the views nearest to it follow, at most `most` in all.
    """
    live = Live(explorer, "")
    views, answers, numbers = [live.view], [], {(explorer.state, ""): 0}
    waiting = deque([explorer.state])
    while waiting:
        state, led = waiting.popleft(), {}
        for wish in list_wishes(views[len(answers)]):
            explorer.state = state
            live.ask(wish)
            reached = explorer.state, explorer.problem
            if reached not in numbers and len(views) < most:
                numbers[reached] = len(views)
                live.follow()
                views.append(live.view)
                waiting.append(explorer.state)
            if reached in numbers:
                led[_key(wish)] = numbers[reached]
        answers.append(led)
    return views, answers


def _key(data: object) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)


PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>devlab: eight pictures to play with</title>
<style>
:root {{ color-scheme: light dark; --jp-layout-color2: light-dark(#e8e8e8, #3a3a3a); }}
body {{ max-width: 800px; margin: 0 auto; padding: 16px; font: 16px/1.5 system-ui, sans-serif; }}
section {{ margin: 0 0 48px; }}
section > p {{ margin: 0 0 6px; font-size: 14px; }}
{style}
</style>
</head>
<body>
<main>
<h1>Eight pictures to play with</h1>
<p>These are the pictures of the course <em>devlab: learn where tensors live</em>. Here they are played from
stored views, without Python; in the course's notebooks they compute, and can measure your own machine. Every
time and size on this page is simulated.</p>
{sections}
</main>
<script type="module">
{script}
</script>
</body>
</html>
"""
PLAYED = """
// In the place of a kernel: the views that are stored in this page.
class Stored {
  constructor(held, lesson) {
    Object.assign(this, held, { lesson, number: 0, problem: "" });
  }

  get() {
    const view = this.views[this.number];
    const shapes = view.scene.shapes.map(number => this.shapes[number]);
    return { ...view, scene: { ...view.scene, shapes }, problem: this.problem || view.problem };
  }

  on(_, draw) {
    this.draw = draw;
  }

  send({ asks }) {
    const next = this.answers[this.number][JSON.stringify(asks)];
    this.problem = next === undefined
      ? `This page has not stored that step: the notebook of lesson ${this.lesson} can take it.`
      : "";
    this.number = next ?? this.number;
    this.draw();
  }
}

for (const section of document.querySelectorAll("section")) {
  const letters = atob(section.querySelector("script").textContent);
  const bytes = Uint8Array.from(letters, letter => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const held = JSON.parse(await new Response(stream).text());
  render({ model: new Stored(held, section.dataset.lesson), el: section.querySelector(".place") });
}
"""
