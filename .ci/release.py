#!/usr/bin/env python3
"""Makes a release ready: `make release VERSION=1.0.0`. Publishing it is left to a person.

It sets the version and the changelog's heading, builds wheel and source into dist/, installs the wheel in a
bare environment and uses it there, and writes what is new to dist/notes.md. REPOSITORY=https://… gives
package indexes the addresses and pictures (see metadata.py).
"""

import argparse
import datetime
import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"

USE = """
import sys, devlab
def device_of(x):
    return x.device
devlab.start()
assert devlab.check(device_of).passed
from devlab.cli import main
assert main(["lab", "--no-open", "mine"]) == 0
assert main(["course", "class", "--lessons", "0"]) == 0
assert main(["doctor"]) == 0
assert devlab.__version__ == sys.argv[1], devlab.__version__
"""


def run(*command: object, **options) -> None:
    """Run a command, showing it; end the release where it fails."""
    print("$", *command, flush=True)
    if subprocess.run([str(part) for part in command], check=False, **options).returncode:
        sys.exit("The release stops here: the command above failed.")


def edited(path: Path, pattern: str, text: str) -> None:
    """Replace the one place of a file that a pattern matches."""
    before = path.read_text(encoding="utf-8")
    after, count = re.subn(pattern, text, before, count=1, flags=re.MULTILINE)
    if not count:
        sys.exit(f"The release stops here: {path.name} has no place that looks like {pattern}")
    path.write_text(after, encoding="utf-8")


def notes(changelog: str, version: str) -> str:
    """Return the changelog's section of a version, without its heading.

    >>> notes("# Changelog\\n\\n## 1.0.0 (2026-01-01)\\n\\nNew.\\n\\n## 0.9.0\\n\\nOld.\\n", "1.0.0")
    'New.'
    """
    found = re.search(
        rf"^## {re.escape(version)}(?: [^\n]*)?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    return found[1].strip() if found else ""


def in_a_bare_environment(wheel: Path, version: str) -> None:
    """Install the wheel with torch and NumPy alone, and use what a learner and a teacher use first."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(Path(folder) / "bare", with_pip=True)
        python = Path(folder) / "bare" / ("Scripts" if os.name == "nt" else "bin") / "python"
        run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel)
        environment = os.environ | {"DEVLAB_DEVICE": "sim", "DEVLAB_PROGRESS": os.devnull}
        run(python, "-c", USE, version, cwd=folder, env=environment)


def faults(wheel: Path) -> list[str]:
    """Return what a package index would show wrongly."""
    with zipfile.ZipFile(wheel) as zipped:
        (name,) = [name for name in zipped.namelist() if name.endswith(".dist-info/METADATA")]
        shown = message_from_bytes(zipped.read(name))
    text = shown.get_payload()
    found = [f"a link that leads nowhere: {link}" for link in re.findall(r"\]\((?!https?:|#)[^)]*\)", text)]
    found += [
        f"no {field}" for field in ("Summary", "License-Expression", "Requires-Python") if not shown[field]
    ]
    return found if shown["Description-Content-Type"] == "text/markdown" else [*found, "no Markdown"]


def main() -> None:
    """Make the release, or say what stands in its way."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("version")
    version = parser.parse_args().version
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit(f"{version} is no version; say VERSION=1.0.0")
    if subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True).stdout.strip():
        sys.exit(
            "There are changes that are not committed. Commit them first, so that the release holds them."
        )
    edited(ROOT / "src/devlab/__init__.py", r'^__version__ = ".*"$', f'__version__ = "{version}"')
    if not notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version):
        today = datetime.date.today().isoformat()
        edited(ROOT / "CHANGELOG.md", r"^## Unreleased$", f"## {version} ({today})")
    for old in DIST.glob("devlab-*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / ("Scripts" if os.name == "nt" else "bin") / "python"
        run(python, "-m", "pip", "install", "-q", "hatchling>=1.27")
        run(python, "-m", "hatchling", "build", "-d", DIST, cwd=ROOT)
    (wheel,) = DIST.glob(f"devlab-{version}-*.whl")
    if wrong := faults(wheel):
        sys.exit("The release stops here:\n" + "\n".join(wrong))
    in_a_bare_environment(wheel, version)
    new = notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    (DIST / "notes.md").write_text(f"{new}\n", encoding="utf-8")
    print(f"""
devlab {version} is in {DIST.relative_to(ROOT)}: wheel, source, notes.md. What is left for a person:
  git commit -am "Release {version}" && git tag v{version}     and push both
  upload dist/devlab-{version}* to the package index, for example with twine
  make a release of the tag where the repository lives, with dist/notes.md as its text""")


if __name__ == "__main__":
    main()
