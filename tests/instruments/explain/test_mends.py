"""The proposed change is carried out: with it, the program gets past the line at which it failed."""

from pathlib import Path

import pytest
from instruments.explain.broken import Broken
from instruments.explain.patching import apply
from instruments.explain.test_programs import PROGRAMS, outcome

from devlab.instruments.explain import explained
from devlab.instruments.explain.error import NO_OPERATOR, problem_of

PROGRAMS_FOLDER = Path(__file__).parent / "programs"
# Their changes are about a machine that is not here, or name a keyword to be put where the loader is made.
NOT_CARRIED_OUT = {
    "host_side.loader_with_a_device_generator",
    "host_side.loader_under_a_default_device",
    "dtypes.operator_missing",
    "places.cuda_on_a_machine_without",
}
CARRIED_OUT = [program for program in PROGRAMS if program.name not in NOT_CARRIED_OUT]


# A program may hold the same mistake twice, as with a mean and a standard deviation.
ROUNDS = 2


def mended(program: Broken, folder: Path) -> str:
    """Return what goes wrong after the change; "" if nothing about devices or dtypes does."""
    report = outcome(program)
    path = PROGRAMS_FOLDER / f"{program.name.partition('.')[0]}.py"
    for _ in range(ROUNDS):
        module = apply(report, path, folder)
        path = Path(module.__file__)
        try:
            vars(module)[program.run.__name__].run()
        except Exception as error:
            if problem_of(error).kind in ("", NO_OPERATOR):
                return ""
            report, was = explained(error), report
            if report.culprit == was.culprit:
                return f"{error}\n{was.text()}"
        else:
            return ""
    return f"still not mended\n{report.text()}"


@pytest.mark.parametrize("program", CARRIED_OUT, ids=[program.name for program in CARRIED_OUT])
def test_the_change_mends_the_program(program, tmp_path):
    """Nothing about devices or dtypes goes wrong any more."""
    wrong = mended(program, tmp_path)
    assert not wrong, wrong
