"""Where the course's own files are: a wheel carries them, in a clone they stand where they are made."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
# The folder of each kind in the wheel, below devlab/course (by pyproject.toml), and in a clone.
FOLDERS = {
    "exercise sources": ("exercises", "source/exercises"),
    "lessons": ("notebooks", "notebooks"),
    "exercises": ("unsolved", "exercises"),
    "solutions": ("solutions", "solutions"),
    "pages": ("docs", "docs"),
}
# Of the project's pages a learner's course has those that lessons link to, or that link to lessons.
PAGES = ("borrow_a_gpu.md", "glossary.md", "questions.md", "summary.md")


def notebook(folder: str, lesson: str) -> str:
    """Return the path, from the course's own folder, of a lesson's notebook: all links are made from it.

    A learner has the lesson and its exercises open side by side, in tabs that show nothing but these names.

    >>> notebook("notebooks", "05_buffers"), notebook("exercises", "05_buffers")
    ('notebooks/05_buffers.ipynb', 'exercises/05_buffers_exercises.ipynb')
    """
    return f"{folder}/{lesson}_exercises.ipynb" if folder == "exercises" else f"{folder}/{lesson}.ipynb"


def files(kind: str) -> list[Path]:
    """Return the files of a kind, a lesson each, in course order, or pages; none where nothing is carried.

    >>> files("solutions")[0].name
    '00_start_here.ipynb'
    """
    wheel, clone = FOLDERS[kind]
    for folder in (PACKAGE / "course" / wheel, PACKAGE.parents[1] / clone):
        pages = [folder / name for name in PAGES if (folder / name).exists()]
        if found := pages if kind == "pages" else sorted(folder.glob("[0-9][0-9]_*.*")):
            return found
    return []


def rules_for_helpers() -> Path | None:
    """Return the rules for the AI that a learner asks, which go with the notebooks; None if none are carried.

    >>> rules_for_helpers().read_text("utf-8").splitlines()[0]
    '# If you are an AI helping someone with this course'
    """
    places = PACKAGE / "course" / "AGENTS.md", PACKAGE.parents[1] / "AGENTS.md"
    return next((path for path in places if path.is_file()), None)
