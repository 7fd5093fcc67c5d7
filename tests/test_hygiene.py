"""What must never be committed: a machine's own paths, places to download from, unfinished business."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Written so that this file does not find itself.
FORBIDDEN = {
    "a path of one machine": r"(?<![\w.}~<>-])/(home|work|tmp|root|Users|opt|mnt)/\w",
    "a registry": r"pypi\.org|pythonhosted\.org|anaconda\.org|npmjs\.|--(extra-)?index-ur[l]|--find-link[s]",
    "a download address": r"download\.pytorch\.org|https?://\S+\.(whl|zip|exe|deb|tar\.\w+)\b",
    "unfinished business": r"\b(TOD[O]|FIXM[E]|XX[X]|HAC[K])\b",
}


def tracked() -> dict[str, str]:
    """Read every tracked text file, by its path."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    names = listed.stdout.decode().split("\0")[:-1]
    texts = {}
    for name in names:
        try:
            texts[name] = (ROOT / name).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue  # a picture, or deleted and not yet committed
    return texts


@pytest.mark.parametrize(("what", "pattern"), FORBIDDEN.items(), ids=FORBIDDEN)
def test_no_tracked_file_holds(what, pattern):
    """Every tracked text file is looked through, notebooks included."""
    files = tracked()
    if not files:
        pytest.skip("not a git checkout, so there are no tracked files to look through")
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in files.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if re.search(pattern, line)
    ]
    assert not found, f"{what}:\n" + "\n".join(found)
