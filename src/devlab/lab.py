"""`devlab lab`: the course's notebooks in a folder of the learner's, and JupyterLab open on them."""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from devlab import carried
from devlab.borrowed import with_install_cell

# The folders of a learner's course, and the kind of carried file for each.
CARRIED = {"notebooks": "lessons", "exercises": "exercises", "docs": "pages"}
FIRST = "notebooks/00_start_here.ipynb"
# The class that hands JupyterLab its notebooks: see devlab.contents.
CONTENTS = "--ServerApp.contents_manager_class=devlab.contents.Contents"
# Has JupyterLab read the course's style sheet; a reader who gives "--LabApp.custom_css=False" is without it.
PAGE = "--LabApp.custom_css=True"
# The hash of each file when the course wrote it: a file that still has this hash is not the learner's work.
LEDGER = ".devlab-course.json"


class LabError(Exception):
    """The notebooks cannot be laid out or opened; the message says why and what to do."""


@dataclass
class Laid:
    """What `lay_out` did: files that are new, brought up to date, and left as the learner changed them."""

    folder: Path
    new: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return what a learner reads.

        >>> print(Laid(Path("course"), new=["a.ipynb", "b.ipynb"], kept=["c.ipynb"]).text())
        The course is in course: 2 files new, 1 left as you changed it.
        """
        counts = [
            f"{len(names)} {words}"
            for names, words in (
                (self.new, "files new" if len(self.new) > 1 else "file new"),
                (self.updated, "brought up to date"),
                (self.kept, "left as you changed " + ("them" if len(self.kept) > 1 else "it")),
            )
            if names
        ]
        return f"The course is in {self.folder}: {', '.join(counts) or 'nothing to do'}."


def lay_out(folder: Path, colab: bool = False) -> Laid:
    """Copy notebooks, pages and AGENTS.md into a folder; what a learner changed there is never overwritten.

    A file that is there and still as the course left it is brought up to date. With `colab` each notebook
    begins with a cell that installs devlab. Raises LabError where the folder cannot be written.
    """
    folder = Path(folder)
    laid = Laid(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ledger = _ledger(folder)
        for name, source in _find_carried().items():
            content = source.read_bytes()
            if colab and source.suffix == ".ipynb":
                content = with_install_cell(content)
            _lay(folder / name, name, content, ledger, laid)
        (folder / LEDGER).write_text(json.dumps(ledger, indent=1) + "\n", encoding="utf-8")
    except OSError as problem:
        raise LabError(
            f"The notebooks cannot be put into {folder} ({problem.strerror}). "
            "Name a folder that you may write."
        ) from problem
    return laid


def _lay(target: Path, name: str, content: bytes, ledger: dict[str, str], laid: Laid) -> None:
    ours = hashlib.sha256(content).hexdigest()
    found = hashlib.sha256(target.read_bytes()).hexdigest() if target.exists() else None
    if found == ours:
        pass
    elif found is None or found == ledger.get(name):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        (laid.new if found is None else laid.updated).append(name)
    else:
        laid.kept.append(name)
        return
    ledger[name] = ours


def _ledger(folder: Path) -> dict[str, str]:
    try:
        known = json.loads((folder / LEDGER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # lost or damaged: every file that differs counts as the learner's and is kept
    return known if isinstance(known, dict) else {}


def _find_carried() -> dict[str, Path]:
    """Return the files that this installation carries, by their place in the course."""
    found = {f"{place}/{path.name}": path for place, kind in CARRIED.items() for path in carried.files(kind)}
    if FIRST not in found:
        raise LabError(
            "This installation of devlab carries no notebooks. Install it from its wheel or a clone."
        )
    if rules := carried.rules_for_helpers():
        found[rules.name] = rules
    return found


def open_jupyter(folder: Path, arguments: list[str]) -> int:
    """Open JupyterLab on the first lesson and return its exit status when it ends."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise LabError(
            'JupyterLab is not installed here: pip install "devlab[lab]". Or open the folder in an editor '
            "that knows notebooks."
        )
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder.resolve()}", CONTENTS]
    command += [PAGE, f"--LabApp.default_url=/lab/tree/{FIRST}", "--log-level=WARN"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # JupyterLab wants a superuser to say so
    if not _has_browser():
        command.append("--no-browser")
    try:
        return subprocess.run([*command, *arguments], check=False).returncode
    except KeyboardInterrupt:  # how a server is stopped
        return 0


def _has_browser() -> bool:
    """Tell whether a browser can open here: without one JupyterLab prints its address and serves."""
    if sys.platform != "linux":
        return True
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(display or shutil.which("wslview"))
