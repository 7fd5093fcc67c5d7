"""devlab's own step in `nbgrader generate_assignment`, which a course's nbgrader_config.py adds."""


def generate_assignment_steps() -> list[type]:
    """Return nbgrader's steps with devlab's after the one that clears solutions."""
    from nbgrader.converters import GenerateAssignment
    from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor

    from devlab.classroom.broken import revived

    class HandOutBroken(NbGraderPreprocessor):
        """Puts the broken program that a task is about in the place of the stub."""

        def preprocess_cell(self, cell, resources, cell_index):
            """Revive the program in a cell that students fill in."""
            if cell.metadata.get("nbgrader", {}).get("solution"):
                cell.source = revived(cell.source)
            return cell, resources

    steps = list(GenerateAssignment.class_traits()["preprocessors"].default())
    steps.insert(steps.index(ClearSolutions) + 1, HandOutBroken)
    return steps
