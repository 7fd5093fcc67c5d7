"""Runs nbval's notebooks in the world that they were built in; keeps some tests for `--thorough`."""

import os
import shutil
import sys
import tempfile
from pathlib import Path


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
