#!/usr/bin/env python3
"""Finds a Chromium for the browser tests, or gets one, and prints where it is.

Looks for an installed Chrome or Chromium, then asks Debian's package manager (as root), then playwright.
Without one the browser tests are skipped and say so; where CI is set, that is a failure.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

COMMANDS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
APPLICATIONS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
)


def installed() -> str | None:
    """Find a browser that is already here."""
    chosen = os.environ.get("DEVLAB_BROWSER")
    found = [path for path in (chosen, *APPLICATIONS) if path and Path(path).exists()]
    found += [path for path in map(shutil.which, COMMANDS) if path]
    return found[0] if found else playwrights_own()


def playwrights_own() -> str | None:
    """Find the browser that playwright downloaded, if it did."""
    if not importlib.util.find_spec("playwright"):
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def run(*command: str) -> bool:
    """Run a command, its words going to stderr, and tell whether it succeeded."""
    print("$", *command, file=sys.stderr, flush=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(command, stdout=sys.stderr, env=environment, check=False).returncode == 0


def install() -> str | None:
    """Get a browser by the ways that need no one's answer."""
    if shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0:
        get = ("apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "chromium")
        if (run("apt-get", "update", "--quiet") and run(*get)) and (found := installed()):
            return found
    if importlib.util.find_spec("playwright"):
        run(sys.executable, "-m", "playwright", "install", "chromium")
    return installed()


def main() -> int:
    """Print the browser's path; without one, say what to do."""
    if found := installed() or install():
        print(found)
        return 0
    print(
        "No Chrome or Chromium found, and none could be installed: the browser tests will be skipped.\n"
        "Install one (Debian: apt install chromium), or set DEVLAB_BROWSER to its path.",
        file=sys.stderr,
    )
    return 1 if os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main())
