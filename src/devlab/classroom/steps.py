"""devlab's own steps in nbgrader's commands, which a course's nbgrader_config.py adds."""

from devlab.classroom.download import without_doubles
from devlab.classroom.handout import revive_programs


def generate_assignment_steps() -> list[type]:
    """Return nbgrader's steps with one after clearing that hands out broken programs as code."""
    from nbgrader.converters import GenerateAssignment
    from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor

    class HandOutBroken(NbGraderPreprocessor):
        """Puts the broken program that a task is about in the place of the stub."""

        def preprocess_cell(self, cell, resources, cell_index):
            """Revive the program in a cell that students fill in."""
            if cell.metadata.get("nbgrader", {}).get("solution"):
                cell.source = revive_programs(cell.source)
            return cell, resources

    steps = _default(GenerateAssignment, "preprocessors")
    steps.insert(steps.index(ClearSolutions) + 1, HandOutBroken)
    return steps


def autograde_steps() -> list[type]:
    """Return nbgrader's steps with one in front that settles what students do to cells by accident.

    A copied cell has the same grade id twice, over which nbgrader 0.9 gives up on the whole class; a check's
    cell that was deleted would cost its points, though the answer is there.
    """
    from nbformat import from_dict
    from nbgrader.api import Gradebook
    from nbgrader.converters import Autograde
    from nbgrader.preprocessors import NbGraderPreprocessor

    class SettleCells(NbGraderPreprocessor):
        """Makes grade ids single, and puts missing checks back at the end."""

        def preprocess(self, nb, resources):
            """Return the notebook with every check of the assignment in it once."""
            nb = from_dict(without_doubles(nb))
            here = {cell.metadata.get("nbgrader", {}).get("grade_id") for cell in nb.cells}
            facts = resources["nbgrader"]
            where = (facts["notebook"], facts["assignment"])
            with Gradebook(facts["db_url"]) as book:
                for check in book.find_notebook(*where).grade_cells:
                    if check.name not in here:
                        nb.cells.append(_check(check, book.find_source_cell(check.name, *where)))
            return nb, resources

    return [SettleCells, *_default(Autograde, "sanitize_preprocessors")]


def _check(check, source):
    """Make a check's cell anew from what the gradebook knows of it."""
    from nbformat.v4 import new_code_cell

    facts = {"grade": True, "solution": False, "task": False, "schema_version": 3, "cell_type": "code"}
    own = {"grade_id": check.name, "locked": True, "points": check.max_score, "checksum": source.checksum}
    return new_code_cell(source.source, metadata={"nbgrader": facts | own})


def _default(converter: type, name: str) -> list[type]:
    return list(converter.class_traits()[name].default())
