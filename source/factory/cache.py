"""Knows which notebooks are up to date, so that a rebuild executes only what changed."""

import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path

from factory.make import targets

# Whatever shapes an output or the text of a notebook.
TOOLS = ("torch", "numpy", "ipykernel", "ipython", "jupytext", "nbclient", "nbformat", "nbgrader")
CODE = ("src/devlab", "source/factory", "benchmarks/recorded")


class Cache:
    """Remembers, for each source, what it was made from and the digests of the notebooks made."""

    def __init__(self, root: Path) -> None:
        """Read the memory of earlier builds in `root`; a damaged or missing one knows nothing."""
        self.root = root
        self.path = root / "build" / "notebooks.json"
        self.ground = _digest_of_ground(root)
        try:
            self.known = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self.known = {}

    def is_current(self, source: Path) -> bool:
        """Tell whether a source's notebooks are there as last built, from just this source and ground."""
        return self.known.get(source.relative_to(self.root).as_posix()) == self._state(source)

    def remember(self, source: Path) -> None:
        """Note that the notebooks now on disk are what this source makes."""
        self.known[source.relative_to(self.root).as_posix()] = self._state(source)
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps(self.known, indent=1, sort_keys=True), encoding="utf-8")

    def _state(self, source: Path) -> dict[str, str | None]:
        made = {target: _digest(self.root / target) for target in targets(source)}
        return {"ground": self.ground, "source": _digest(source)} | made


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def _digest_of_ground(root: Path) -> str:
    """Digest what every notebook depends on: the package, the factory, the recordings, the tools."""
    files = [path for folder in CODE for path in sorted((root / folder).rglob("*")) if path.is_file()]
    parts = [f"{p.relative_to(root).as_posix()} {_digest(p)}" for p in files if "__pycache__" not in p.parts]
    parts += [f"{tool} {version(tool)}" for tool in TOOLS] + [platform.python_version()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
