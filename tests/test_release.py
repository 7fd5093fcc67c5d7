"""What a release takes from the changelog and from the README."""

import runpy
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import devlab

ROOT = Path(__file__).resolve().parents[1]
README = "A [page](docs/a.md) and ![a [b] picture](docs/b.png), [elsewhere](https://x.test/y), [here](#top)."


@pytest.fixture
def long_description(monkeypatch):
    """The function of .ci/metadata.py; Hatchling, which loads that file, is not installed here."""
    interface = ModuleType("interface")
    interface.MetadataHookInterface = object
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)
    return runpy.run_path(str(ROOT / ".ci" / "metadata.py"))["long_description"]


def test_links_and_pictures_lead_into_the_repository(long_description):
    """At the tag of the version, so that an old page keeps its pictures."""
    assert long_description(README, "https://git.test/devlab", "1.2.0") == (
        "A [page](https://git.test/devlab/blob/v1.2.0/docs/a.md) and "
        "![a [b] picture](https://git.test/devlab/raw/v1.2.0/docs/b.png), "
        "[elsewhere](https://x.test/y), [here](#top)."
    )


def test_without_an_address_they_become_words(long_description):
    """A package index shows a broken picture for a relative address."""
    said = "A page and *a [b] picture*, [elsewhere](https://x.test/y), [here](#top)."
    assert long_description(README, "", "1.2.0") == said


def test_notes_are_the_changelogs_section():
    """Between its heading and the next."""
    notes = runpy.run_path(str(ROOT / ".ci" / "release.py"))["notes"]
    changelog = "# Changelog\n\n## 1.1.0 (2026-01-02)\n\nNew.\n\n### More\n\n## 1.0.0\n\nOld.\n"
    assert notes(changelog, "1.1.0") == "New.\n\n### More"
    assert notes(changelog, "1.0.0") == "Old."
    assert notes(changelog, "1.0") == ""


def test_the_version_is_written_once():
    """In the package; pyproject.toml takes it from there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/devlab/__init__.py"
    assert devlab.__version__.count(".") == 2
