"""Every link of a notebook leads somewhere: to a file that is there, and to a cell of prose in it."""

import re
from pathlib import Path

import nbformat
import pytest

from devlab.carried import files
from factory.links import cell_id

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(path for folder in ("notebooks", "exercises") for path in (ROOT / folder).glob("*.ipynb"))
LESSONS = [path for path in NOTEBOOKS if path.parent.name == "notebooks"]
LINK = re.compile(r"\]\((?!https?:|data:)([^)#\s]*)(?:#([^)\s]+))?\)")


def prose(path: Path) -> str:
    """Return the notebook's prose, with links that were wrapped over two lines in one piece."""
    cells = nbformat.read(path, as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def anchors(path: Path) -> set[str]:
    """Return what a link to the notebook may name: its cells of prose."""
    cells = nbformat.read(path, as_version=4).cells
    return {f"cell-id={cell.id}" for cell in cells if cell.cell_type == "markdown"}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_links_lead_somewhere(notebook):
    """A renamed lesson or heading breaks the links to it, and this names them."""
    for target, anchor in LINK.findall(prose(notebook)):
        if target.startswith("data:"):  # a drawing, whole
            continue
        path = (notebook.parent / target).resolve() if target else notebook
        assert path.exists(), f"{target} is not there"
        if anchor and target:
            assert anchor in anchors(path), f"{target} has no cell for #{anchor}"
        elif anchor:
            assert f"cell-id={cell_id(anchor)}" in anchors(path), f"{notebook.name} has no heading #{anchor}"


@pytest.mark.parametrize("page", files("pages"), ids=lambda path: path.stem)
def test_links_of_a_page_lead_somewhere(page):
    """A page that a learner's course holds leads to cells, as a notebook does: JupyterLab opens it, too."""
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{target} is not there"
        if anchor and path.suffix == ".ipynb":
            assert anchor in anchors(path), f"{target} has no cell for #{anchor}"


QUESTION = re.compile(r"^### .+\n(.+\n)+", re.MULTILINE)


def test_every_question_has_a_short_answer_and_a_place_in_the_course():
    """Two sentences, or one where that is enough, and one link at the end, to a cell of a lesson."""
    text = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
    answers = [found[0].split("\n", 1) for found in QUESTION.finditer(text)]
    assert len(answers) == text.count("\n### ") > 40
    for question, answer in answers:
        said, _, link = answer.partition("→")
        assert re.fullmatch(r" \[[^\]]+\]\(\.\./notebooks/\d\d_\w+\.ipynb#cell-id=[\w-]+\)\n", link), question
        assert len(re.findall(r"[.?](?:\s|$)", said)) <= 2, question


TERM = re.compile(r"- \*\*([^*]+)\*\*: .+\. → \[[^\]]+\]\(\.\./(notebooks/\w+\.ipynb)#cell-id=[\w-]+\)")


def test_every_term_of_the_glossary_is_used_where_its_link_leads():
    """One sentence each, in the order of the alphabet; a lesson that drops a term fails here."""
    lines = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    entries = [line for line in lines if line.startswith("- ")]
    assert len(entries) > 40
    terms = []
    for line in entries:
        found = TERM.fullmatch(line)
        assert found, line
        term, lesson = found.groups()
        terms.append(term.lower())
        words = " ".join(prose(ROOT / lesson).replace("*", "").split()).lower()
        assert term.lower() in words, f"{lesson} no longer speaks of {term}"
    assert terms == sorted(terms)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_a_link_to_an_exercise_leads_to_its_task(lesson):
    """Not to the top of the exercises, but for the one at a lesson's end, which speaks of all of them."""
    whole = [link for link in LINK.findall(prose(lesson)) if "exercises/" in link[0] and not link[1]]
    assert len(whole) == 1, whole


def test_there_are_links_to_check():
    """The pattern finds links and anchors at all."""
    found = [link for notebook in NOTEBOOKS for link in LINK.findall(prose(notebook))]
    assert sum(bool(anchor) for _, anchor in found) >= 10
