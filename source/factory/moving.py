"""A scene as an SVG that plays itself over and over, for pages that run no script, such as the README."""

from xml.etree import ElementTree

from devlab.explore.scene import Box, Path, Scene, Shape
from devlab.explore.still import svg
from factory.gallery import open_explorer

PICTURE = "docs/images/a_gigabyte.svg"
SVG = "http://www.w3.org/2000/svg"
REST = 2.5  # seconds for which the whole picture is shown before it begins anew


def make_picture() -> str:
    """Return the README's picture: a gigabyte on its way over each connection of the simulated machine."""
    explorer = open_explorer("devices")
    explorer.press("Send a gigabyte")
    return move_scene(explorer.scene, explorer.words)


def move_scene(scene: Scene, spoken: str) -> str:
    """Return the SVG of a scene whose shapes come about as `live.js` plays them, followed by a rest."""
    ElementTree.register_namespace("", SVG)
    root = ElementTree.fromstring(svg(scene, spoken, gone=True))
    groups = {group.get("id"): group for group in root.iter(f"{{{SVG}}}g")}
    for shape in scene.shapes:
        if shape.during:
            _play(groups[shape.id], shape, scene.seconds)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _play(group: ElementTree.Element, shape: Shape, seconds: float) -> None:
    begin, end = (share * seconds / (seconds + REST) for share in shape.during)
    if shape.comes:
        x, y = shape.comes
        moves = f"{-x:g} {-y:g};{-x:g} {-y:g};0 0;0 0"
        _animate(group, "transform", moves, (0, begin, end, 1), seconds, type="translate")
    elif isinstance(shape, Box):
        for rect in group.iter(f"{{{SVG}}}rect"):
            wide = rect.get("width")
            _animate(rect, "width", f"0;0;{wide};{wide}", (0, begin, end, 1), seconds)
    elif isinstance(shape, Path) and shape.flows:
        goes = f"0;0;{-shape.flows:g};{-shape.flows:g}"
        _animate(group[0], "stroke-dashoffset", goes, (0, begin, end, 1), seconds)
        _animate(group, "visibility", "visible;hidden", (0, end), seconds, calcMode="discrete")
    else:
        _animate(group, "visibility", "hidden;visible", (0, begin), seconds, calcMode="discrete")


def _animate(element, attribute: str, values: str, times: tuple, seconds: float, **more: str) -> None:
    name = "animateTransform" if attribute == "transform" else "animate"
    said = {
        "attributeName": attribute,
        "values": values,
        "keyTimes": ";".join(f"{time:.4f}" for time in times),
        "dur": f"{seconds + REST:g}s",
        "repeatCount": "indefinite",
    }
    ElementTree.SubElement(element, f"{{{SVG}}}{name}", said | more)
