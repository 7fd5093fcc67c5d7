"""Pictures that are stored as images stand on the page's own ground, in either theme of JupyterLab."""

from playwright.sync_api import expect

from browser.lab import ROOT, Notebook

CELLS = (
    "from IPython.display import HTML, Markdown\nfrom devlab.explore.pictures import devices",
    "HTML(devices.explorer().html())",
    "Markdown(DRAWING)",
)
# The red, green and blue of an image's corner as the page shows it, and of the page's own ground.
GROUNDS = """image => {
    const sheet = document.createElement("canvas");
    const pen = sheet.getContext("2d");
    pen.drawImage(image, 0, 0);
    const ground = getComputedStyle(image.closest(".jp-Notebook")).backgroundColor.match(/\\d+/g);
    return [[...pen.getImageData(2, 2, 1, 1).data].slice(0, 3), ground.slice(0, 3).map(Number)];
}"""


def test_no_white_plate_in_the_dark_theme_and_no_dark_plate_in_the_light(server, page):
    """A picture of an explorer and a drawing of a lesson, by the course's style sheet."""
    drawing = (ROOT / "notebooks" / "00_start_here.ipynb").read_text().partition("](data:image/svg")[2]
    drawing = f"![words](data:image/svg{drawing.partition(')')[0]})"
    server.write("stills.ipynb", f"DRAWING = {drawing!r}\n{CELLS[0]}", *CELLS[1:])
    notebook = Notebook(page, "stills.ipynb")
    notebook.run_all()
    assert notebook.errors() == []
    images = notebook.panel.locator(".jp-OutputArea-output img")
    expect(images).to_have_count(2)
    for theme in notebook.themes():
        for image in images.all():
            shown, ground = image.evaluate(GROUNDS)
            assert max(abs(one - other) for one, other in zip(shown, ground, strict=True)) < 10, theme
        notebook.panel.screenshot(path=ROOT / "build" / "screenshots" / f"stills_{theme}.png")
