"""Runs nbval's notebooks in the world that they were built in; keeps some tests for `--thorough`.

Every test, a doctest too, has a progress file of its own.
"""

import itertools
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest


def pytest_addoption(parser):
    """Add the option of `make test-all`."""
    words = "run also what costs most and finds least: the same once more, with other numbers or other rules"
    parser.addoption("--thorough", action="store_true", help=words)


def pytest_collection_modifyitems(config, items):
    """Leave out what is marked as thorough, unless it is asked for."""
    if config.getoption("--thorough"):
        return
    left = [item for item in items if item.get_closest_marker("thorough")]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if not item.get_closest_marker("thorough")]


def pytest_configure(config):
    """Before nbval starts a kernel: no GPU, no learner's progress within reach, PyTorch imported once."""
    config.addinivalue_line("markers", "thorough: for `make test-all`, which runs with --thorough")
    # A machine that only judges, with torch, NumPy and pytest, has no nbval and needs no factory.
    if getattr(config.option, "nbval", False):
        import nbval.kernel

        from factory import kernel

        scratch = tempfile.mkdtemp()
        config.add_cleanup(lambda: shutil.rmtree(scratch, ignore_errors=True))
        os.environ.update(kernel.environment(Path(scratch)))
        config.option.nbval_sanitize_with = str(kernel.VARIES)
        manager = nbval.kernel.KernelManager

        def with_own_sockets(**options):
            return manager(**options, **kernel.sockets(Path(tempfile.mkdtemp(dir=scratch))))

        nbval.kernel.KernelManager = with_own_sockets
        if sys.platform == "linux":  # on macOS a fork of a process with threads may crash; Windows has none
            from jupyter_client.provisioning import local_provisioner
            from notebooks import forked_kernel

            first = forked_kernel.First()
            config.add_cleanup(first.end)
            local_provisioner.launch_kernel = first.launch


@pytest.fixture(scope="session")
def progress_files(tmp_path_factory):
    """Return paths in one folder, a new path each time: to make a folder takes as long as most tests."""
    folder = tmp_path_factory.mktemp("progress")
    return (folder / str(number) / "progress.jsonl" for number in itertools.count())


@pytest.fixture(autouse=True)
def progress_file(progress_files, monkeypatch):
    """Give each test a progress file of its own, and no memory of what others could not save.

    The doctests of `src` have one, too: what they print must not depend on what was tried on this machine,
    and they must not write into its file.
    """
    from devlab.learner import progress

    path = next(progress_files)
    monkeypatch.setenv("DEVLAB_PROGRESS", str(path))
    monkeypatch.delenv("DEVLAB_STRICT", raising=False)
    monkeypatch.setattr(progress, "_unsaved", [])
    monkeypatch.setattr(progress, "_told", set())
    return path
