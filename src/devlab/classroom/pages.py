"""What `devlab course` writes beside the notebooks: nbgrader's settings, and a page for the teacher."""

CONFIG = '''"""nbgrader's settings for this course. Change what you like: `devlab course` leaves it be."""

import os
import warnings

from devlab.classroom.steps import autograde_steps, generate_assignment_steps

c = get_config()  # noqa: F821  nbgrader provides it

c.CourseDirectory.course_id = "devlab"

# Every submission is judged on the CPU and two simulated accelerators: marks do not depend on the machine.
os.environ.setdefault("DEVLAB_DEVICE", "sim")
# What students pass is not your own progress.
os.environ.setdefault("DEVLAB_PROGRESS", os.devnull)

# SQLAlchemy 2.1 warns of how nbgrader 0.9 adds a submission; the submission is added all the same.
warnings.filterwarnings("ignore", message="Object of type <Submitted", module="nbgrader")

# The stub that devlab knows: calling it means "not attempted", never "wrong".
c.ClearSolutions.code_stub = {"python": 'raise NotImplementedError("your code here")'}

# Some tasks hand out a broken program in place of the stub, and nbgrader alone would leave it in comments.
c.GenerateAssignment.preprocessors = generate_assignment_steps()
# A copied or deleted cell costs neither its student nor the class anything.
c.Autograde.sanitize_preprocessors = autograde_steps()

# Seconds a cell. The first one imports PyTorch, which takes long on a cold machine.
c.Execute.timeout = 60
c.Execute.extra_arguments = ["--HistoryManager.hist_file=:memory:", "--IPKernelApp.log_level=ERROR"]
'''

MARKS = {
    "rows": """\
A check gives a point for each row of its verdict that passes on every device. For all points or none, make a
course with `--marks whole`. To weigh a check double, double both: the points of its cell in `source/`
(nbgrader's Create Assignment panel shows them) and its code, `2 * devlab.check(f).points`.""",
    "whole": """\
A check gives all its points or none. For a point for each row of its verdict that passes, make a course with
`--marks rows`. To change a check's points, change both: the points of its cell in `source/` (nbgrader's
Create Assignment panel shows them) and the number in its code.""",
}

PAGE = """# Your course

One assignment a lesson. Run the commands in this folder; `{one}` stands for any assignment.

## Hand out

`handout/{one}.zip`, unpacked in `handout/{one}/`, is what students get: the tasks without their
solutions. Students need devlab and JupyterLab, nothing else. Upload the zip to your learning platform.

Changed something in `source/`? `devlab course .` makes `handout/` anew and leaves your changes alone.

## Mark with one command

Download all submissions from your platform, as a zip or unpacked, and

```
devlab grade DOWNLOADS --course .
```

Marks and feedback are then in `results/`. Each submission runs in a sandbox: a broken or hostile one costs
only itself.

## Or mark with nbgrader

```
nbgrader generate_assignment {one}
devlab collect DOWNLOADS --course .
nbgrader autograde {one}
nbgrader generate_feedback {one}
nbgrader export
```

The first command notes the checks and points in the gradebook; the second puts the downloads into
`submitted/`, where nbgrader looks for them. nbgrader runs what students wrote with your rights, on your
machine, one submission after another: only for people you trust.

## Marks

{marks}

Everything is judged on the CPU and on two simulated accelerators, whatever machine you have, so that marks do
not depend on it; `nbgrader_config.py` sets that.

## Before you trust it

```
nbgrader validate source/{one}/{one}.ipynb
```

says "Success!" where the solutions get full marks on your machine. `source/` holds the solutions: keep it to
yourself. devlab is open, though: `devlab.solution(...)` shows a solution to whoever gives up.
"""


def teachers_page(example: str, marks: str) -> str:
    """Return the README of a course, with commands that name one of its assignments.

    >>> print(teachers_page("05_buffers", "rows").splitlines()[0])
    # Your course
    """
    return PAGE.format(one=example, marks=MARKS[marks])
