"""GitHub: `devlab course DIR --github` lays out a template repository for each assignment.

GitHub Classroom, or a teacher by hand, makes a repository for each student from the template. Whenever the
student pushes, the workflow in it grades the notebook and comments the feedback on the commit.
"""

from pathlib import Path

from devlab import __version__
from devlab.classroom.course import CourseError, available, write_text

WORKFLOW = """\
# Grades the notebook whenever it is pushed, and comments the feedback on the commit.
name: grade
on: [push, workflow_dispatch]
permissions:
  contents: write # a comment on a commit needs it
jobs:
  grade:
    runs-on: ubuntu-latest
    timeout-minutes: 20
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - name: install devlab, from a wheel in this repository if there is one
        run: |
          wheel="$(ls devlab-*.whl 2>/dev/null | tail -n 1)"
          python -m pip install "${wheel:-devlab==VERSION}"
      - name: grade
        run: |
          devlab course "$RUNNER_TEMP/course" --lessons LESSON
          mkdir -p "$RUNNER_TEMP/in/student"
          cp *.ipynb "$RUNNER_TEMP/in/student"
          results="$RUNNER_TEMP/out/results.jsonl"
          # What it prints holds remarks for the teacher, and students can read this log.
          devlab grade "$RUNNER_TEMP/in" --course "$RUNNER_TEMP/course" --out "$results" > /dev/null || true
          devlab report "$results" --markdown "$RUNNER_TEMP/feedback.md"
          cat "$RUNNER_TEMP/feedback.md" >> "$GITHUB_STEP_SUMMARY"
      - name: comment the feedback
        if: github.event_name == 'push'
        env:
          GH_TOKEN: ${{ github.token }}
        run: |
          gh api "repos/$GITHUB_REPOSITORY/commits/$GITHUB_SHA/comments" \\
            -F body=@"$RUNNER_TEMP/feedback.md" --silent
"""

README = """\
# LESSON

Open `LESSON.ipynb` in JupyterLab, with devlab installed, and fill in the cells. Each has a check below
it, which you can run as often as you like. Then commit and push: the workflow grades the notebook on the CPU
and on two simulated accelerators, and writes the feedback as a comment on your commit.
"""


def lay_out(folder: Path, assignment: str) -> Path:
    """Write the template repository of an assignment, `github/ASSIGNMENT`, and return its folder.

    It holds what students get, from `handout/`, and a workflow; no solutions. The workflow grades the
    assignment as the installed devlab brings it.
    """
    if assignment not in available():
        raise CourseError(
            f"No template was made of {assignment}: its workflow could not grade it, because an installed "
            "devlab brings the lessons of the course alone. Use `devlab grade` or `--gradescope` for it."
        )
    template = Path(folder) / "github" / assignment
    handed_out = Path(folder) / "handout" / assignment
    for path in sorted(handed_out.iterdir()):
        write_text(template / path.name, path.read_text(encoding="utf-8"))
    workflow = WORKFLOW.replace("VERSION", __version__).replace("LESSON", assignment)
    write_text(template / ".github" / "workflows" / "grade.yml", workflow)
    write_text(template / "README.md", README.replace("LESSON", assignment))
    write_text(template / ".gitignore", ".ipynb_checkpoints/\n__pycache__/\n")
    return template
