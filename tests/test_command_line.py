"""What all commands of `devlab` have in common."""

import os
import subprocess
import sys

import pytest


@pytest.mark.skipif(os.name == "nt", reason="a closed pipe is another error on Windows")
# `devlab progress` is thorough: both are printed in one place.
@pytest.mark.parametrize("command", [["doctor"], pytest.param(["progress"], marks=pytest.mark.thorough)])
def test_a_reader_that_goes_early_sees_no_traceback(command, tmp_path):
    """As `devlab doctor | head -1`: what is said goes nowhere, in one line beside it."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        environment = os.environ | {"DEVLAB_PROGRESS": str(tmp_path / "progress.json")}
        run = "import sys; from devlab.cli import main; sys.exit(main())"
        program = [sys.executable, "-c", run, *command]
        done = subprocess.run(
            program, stdout=writing, stderr=subprocess.PIPE, text=True, env=environment, timeout=120
        )
    finally:
        os.close(writing)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "devlab stopped: nobody reads what it says any more"
    assert "Traceback" not in done.stderr
