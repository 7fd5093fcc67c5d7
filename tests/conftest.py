"""Every test judges on the simulated bench, and nobody's progress file is touched."""

import os

import pytest

# Set before devlab chooses: the tests of the simulator must run on a machine with a GPU, too.
os.environ.setdefault("DEVLAB_DEVICE", "sim")


@pytest.fixture(autouse=True)
def progress_file(tmp_path, monkeypatch):
    """Give each test a progress file of its own, and no memory of what others could not save."""
    from devlab.checks import progress

    path = tmp_path / "progress" / "progress.jsonl"
    monkeypatch.setenv("DEVLAB_PROGRESS", str(path))
    monkeypatch.delenv("DEVLAB_STRICT", raising=False)
    monkeypatch.setattr(progress, "_unsaved", [])
    monkeypatch.setattr(progress, "_told", set())
    return path
