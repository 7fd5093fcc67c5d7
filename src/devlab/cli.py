"""The command line: `devlab lab`, `devlab doctor`, `devlab progress`, and the classroom's `devlab course`."""

import argparse
import json
import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 for good, 1 where something wants mending.

    Bad usage prints the usage and exits with status 2.

    >>> _parser().parse_args(["doctor", "--json"]).json
    True
    """
    arguments = _parser().parse_args(argv)
    try:
        status = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe. Python would flush once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print("devlab stopped: nobody reads what it says any more", file=sys.stderr)
        return 1
    except OSError as problem:  # over a single file each command says it with that file; this is a folder
        where = f"{problem.filename}: " if problem.filename else ""
        said = f"{where}{problem.strerror or problem}. Name a place that you may use."
        print(f"devlab stopped. {said}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="devlab", description="Learn where tensors live.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    doctor = commands.add_parser(
        "doctor",
        help="what is here, what is wrong with it, and the cure",
        description="Print what is here: Python, PyTorch, drivers, devices, kernels; and each common "
        "misconfiguration with its cure. The exit status is 1 when something wants mending.",
    )
    doctor.add_argument("--json", action="store_true", help="print everything as JSON")
    doctor.set_defaults(run=_doctor)
    progress = commands.add_parser(
        "progress", help="the whole course at a glance", description="Print every exercise with its outcome."
    )
    progress.add_argument(
        "--save", metavar="FILE", help="write it to a file for a teacher too: .html, .csv or .json"
    )
    progress.set_defaults(run=_progress)
    lab = commands.add_parser(
        "lab",
        help="put the course's notebooks into a folder and open JupyterLab",
        description="Put the lessons and exercises into FOLDER and open JupyterLab on the first lesson. What "
        "you changed there is never overwritten. What stands after -- goes to JupyterLab.",
    )
    lab.add_argument("folder", nargs="?", default="devlab-course", metavar="FOLDER")
    lab.add_argument("--no-open", action="store_true", help="only put the notebooks there")
    lab.add_argument(
        "--colab",
        action="store_true",
        help="only put them there, each with a first cell that installs devlab on Colab or Kaggle",
    )
    lab.add_argument("jupyter", nargs="*", metavar="-- OPTIONS", help="options for JupyterLab")
    lab.set_defaults(run=_lab)
    course = commands.add_parser(
        "course",
        help="lay out a course to hand out and mark, with nbgrader or without",
        description="Make DIR a ready nbgrader course, one assignment a lesson, with a page that says what "
        "to type next. What you changed there stays; only DIR/handout, for students, is made anew.",
    )
    course.add_argument("folder", metavar="DIR", help="a new folder, or a course made before")
    course.add_argument(
        "--lessons", nargs="+", default=[], metavar="LESSON", help="lessons by number or name; all by default"
    )
    course.add_argument(
        "--marks",
        choices=("rows", "whole"),
        default="rows",
        help="rows: a point for each row of a verdict that passes (default); whole: all points or none",
    )
    course.add_argument(
        "--gradescope", action="store_true", help="make DIR/gradescope too: a zip of an autograder for each"
    )
    course.add_argument(
        "--github", action="store_true", help="make DIR/github too: a template repository for each"
    )
    course.set_defaults(run=_course)
    collect = commands.add_parser(
        "collect",
        help="put downloaded submissions where nbgrader looks for them",
        description="Find the notebooks in downloads from a learning platform, put them into DIR/submitted "
        "for nbgrader, and list every file in DIR/collected.csv. The exit status is 1 when something cannot "
        "be graded. `devlab grade` does not need this.",
    )
    collect.add_argument("submissions", nargs="+", metavar="DOWNLOADS", help="files, folders or zips")
    collect.add_argument("--course", default=".", metavar="DIR", help="the course; here, by default")
    collect.set_defaults(run=_collect)
    grade = commands.add_parser(
        "grade",
        help="mark downloaded submissions, each in a process of its own",
        description="Mark what students handed in: each runs in a process of its own, and a line of "
        "JSON is kept for each. The same command again goes on where an interrupted one stopped.",
    )
    grade.add_argument("submissions", nargs="+", metavar="SUBMISSIONS", help="files, folders or zips")
    grade.add_argument("--course", default=".", metavar="DIR", help="the course; here, by default")
    grade.add_argument("--out", default="results/results.jsonl", metavar="FILE", help="results, a line each")
    grade.add_argument(
        "--jobs", type=int, metavar="N", help="submissions side by side (as many as there are cores to use)"
    )
    grade.add_argument(
        "--dask", metavar="ADDRESS", help="grade on a Dask cluster; local: one of --jobs processes here"
    )
    grade.add_argument("--shard", metavar="I/N", help="only the I-th of N parts; their files concatenate")
    grade.add_argument(
        "--require-isolation",
        type=int,
        choices=range(4),
        metavar="LEVEL",
        help="grade nothing where the machine allows less: 3 namespaces, 2 Landlock, 1 limits, 0 the clock",
    )
    grade.add_argument("--seconds", type=float, default=20, help="time for an exercise (20)")
    grade.add_argument("--memory", type=int, default=2048, help="MiB for a submission (2048)")
    grade.set_defaults(run=_grade)
    report = commands.add_parser(
        "report",
        help="make tables and feedback from the results of `devlab grade`",
        description="Write grades.csv, exercises.csv and a page of feedback for each student from what "
        "`devlab grade` leaves. Results of several machines are read as one; the last line counts.",
    )
    report.add_argument("results", nargs="+", metavar="RESULTS", help="files of JSON lines")
    report.add_argument("--to", metavar="FOLDER", help="where to write; beside the first file, by default")
    report.add_argument("--course", default=".", metavar="DIR", help="the course; here, by default")
    report.add_argument(
        "--fill",
        nargs=2,
        metavar=("TABLE", "COLUMN"),
        help="fill a column of Moodle's grading worksheet or Canvas's gradebook, in a copy by the results",
    )
    report.add_argument("--gradebook", action="store_true", help="write marks into nbgrader's gradebook too")
    report.add_argument(
        "--gradescope", metavar="FILE", help="write Gradescope's results.json of one submission"
    )
    report.add_argument("--markdown", metavar="FILE", help="write the feedback of one submission as Markdown")
    report.set_defaults(run=_report)
    return parser


def _doctor(arguments: argparse.Namespace) -> int:
    from devlab.doctor import Diagnosis
    from devlab.facts import gather

    diagnosis = Diagnosis(gather())
    print(json.dumps(diagnosis.as_dict(), indent=2) if arguments.json else diagnosis)
    return 0 if diagnosis.healthy else 1


def _progress(arguments: argparse.Namespace) -> int:
    from devlab.learner.overview import progress

    shown = progress()
    return 1 if arguments.save is not None and shown.save(arguments.save).path is None else 0


def _lab(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from devlab import lab

    try:
        laid = lab.lay_out(Path(arguments.folder), arguments.colab)
        print(laid.text(), flush=True)
        return 0 if arguments.no_open or arguments.colab else lab.open_jupyter(laid.folder, arguments.jupyter)
    except lab.LabError as problem:
        print(problem, file=sys.stderr)
        return 1


def _course(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from devlab.classroom import course, github, gradescope

    try:
        layout = course.lay_out(Path(arguments.folder), arguments.lessons, arguments.marks)
    except course.CourseError as problem:
        print(problem, file=sys.stderr)
        return 1
    print(layout.text())
    status = 0
    for asked, make in ((arguments.gradescope, gradescope.pack), (arguments.github, github.lay_out)):
        for assignment in layout.assignments if asked else ():
            try:
                print(f"made {make(layout.folder, assignment)}")
            except course.CourseError as problem:
                print(problem, file=sys.stderr)
                status = 1
    return status


def _collect(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from devlab.classroom import course
    from devlab.classroom.collect import collect, write

    folder, paths = Path(arguments.course), [Path(path) for path in arguments.submissions]
    if missing := [str(path) for path in paths if not path.exists()]:
        print(f"Not there: {', '.join(missing)}", file=sys.stderr)
        return 1
    try:
        found = collect(paths, course.handouts_of(folder))
    except course.CourseError as problem:
        print(problem, file=sys.stderr)
        return 1
    listed = write(found, folder)
    print(f"{found.text()}\nEvery file is listed in {listed}")
    return 1 if found.problems else 0


def _grade(arguments: argparse.Namespace) -> int:
    from devlab.classroom.engine import command

    return command.run(arguments)


def _report(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from devlab.classroom import feedback, gradescope, markdown, results

    files = [Path(path) for path in arguments.results]
    try:
        records = list(results.read_all(files))
        if (arguments.gradescope or arguments.markdown) and len(records) != 1:
            print(f"Each of these files holds one submission, and there are {len(records)}.", file=sys.stderr)
            return 1
        written = feedback.write(records, Path(arguments.to) if arguments.to else files[0].parent)
        if arguments.gradescope:
            Path(arguments.gradescope).write_text(gradescope.results_json(records[0]), encoding="utf-8")
        if arguments.markdown:
            Path(arguments.markdown).write_text(markdown.page(records[0]), encoding="utf-8")
        print(written.text())
        if arguments.gradebook:
            print(f"gradebook  {results.write_gradebook(records, Path(arguments.course))} submissions")
        if arguments.fill:
            table, column = arguments.fill
            print(results.fill_table(records, Path(table), column, written.grades.parent))
    except results.GradebookError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 1 if written.problems else 0
