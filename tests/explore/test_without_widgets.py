"""Without anywidget an explorer shows its still picture and its words, and `predict` its question."""

import sys
from types import SimpleNamespace

import IPython.display
import pytest

import devlab
from devlab.explore import explorer


@pytest.fixture
def displayed(monkeypatch):
    """Take anywidget away from a notebook, and return what is displayed there."""
    shown = []
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "devlab.explore.live", raising=False)
    monkeypatch.delattr(devlab.explore, "live", raising=False)
    monkeypatch.setattr(explorer, "notebook_shell", lambda: SimpleNamespace(execution_count=1))
    monkeypatch.setattr(IPython.display, "display", lambda data, raw: shown.append(data))
    return shown


def test_an_explorer_shows_its_still_picture(displayed, capsys):
    """And says what is missing, and how to get it."""
    devlab.explore.devices()
    ((data,), said) = displayed, capsys.readouterr().out
    assert "data:image/svg+xml;base64," in data["text/html"]
    assert said.strip() == explorer.NEEDS
    assert "pip install" in said


def test_a_question_can_be_answered_by_its_truth(displayed, tmp_path, monkeypatch, capsys):
    """Nothing waits for a guess that cannot be made."""
    monkeypatch.setenv("DEVLAB_PROGRESS", str(tmp_path / "progress.jsonl"))
    asked = devlab.predict("Where is y?", "cpu", "sim:0")
    assert displayed[0]["text/plain"].startswith("Where is y?")
    asked.was("cpu")
    assert capsys.readouterr().out.endswith("Where is y? The answer is “cpu”.\n")
