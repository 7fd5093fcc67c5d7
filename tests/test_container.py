"""What the container is made of, and how a server in it lays out the course."""

import functools
import json
import re
from pathlib import Path

from traitlets.config import Config

from devlab import lab

ROOT = Path(__file__).resolve().parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
CONFIG = ROOT / ".devcontainer" / "jupyter_server_config.py"


def test_what_the_dockerfile_copies_is_there():
    """No file that it names was renamed, and it installs the extra of a learner at the pins."""
    for source, _ in re.findall(r"^COPY (\S+) (\S+)$", DOCKERFILE, re.MULTILINE):
        assert (ROOT / source).exists()
    assert "-c /srv/devlab/constraints.txt" in DOCKERFILE
    assert '"/srv/devlab[lab]"' in DOCKERFILE


def test_the_server_runs_without_root():
    """The last user that the Dockerfile names is the learner."""
    assert re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)[-1] == "${NB_USER}"


def test_a_server_lays_out_the_course_and_opens_its_first_lesson(tmp_path, monkeypatch):
    """Also when it starts again, and what the learner changed stays."""
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    config = Config()
    start = functools.partial(exec, CONFIG.read_text(encoding="utf-8"), {"get_config": lambda: config})
    start()
    opened = config.LabApp.default_url.removeprefix("/lab/tree/")
    assert config.ServerApp.default_url == config.LabApp.default_url
    assert opened.endswith(lab.FIRST)
    (tmp_path / opened).write_text("mine", encoding="utf-8")
    start()
    assert (tmp_path / opened).read_text(encoding="utf-8") == "mine"


def test_the_editors_container_is_made_from_the_same_dockerfile():
    """And its user is the one that the Dockerfile makes."""
    said = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    assert (ROOT / ".devcontainer" / said["build"]["dockerfile"]).resolve() == ROOT / "Dockerfile"
    assert f"ARG NB_USER={said['remoteUser']}\n" in DOCKERFILE
