"""What package indexes show of devlab: the README, with links and pictures that resolve there, and addresses.

The repository's address is known to whoever publishes, and stands in no file: `DEVLAB_REPOSITORY` says it
while a release is built. Without it, links into the repository become plain words and pictures their texts.
"""

import os
import re

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#)([^)\s]+)\)")


def long_description(readme: str, repository: str, version: str) -> str:
    """Return a README whose relative links lead into a repository, at the version's tag."""

    def settled(link: re.Match) -> str:
        mark, words, target = link.groups()
        if not repository:
            return f"*{words}*" if mark else words
        return f"{mark}[{words}]({repository}/{'raw' if mark else 'blob'}/v{version}/{target})"

    return LINK.sub(settled, readme)


class Shown(MetadataHookInterface):
    """Hatchling's hook: it fills in what pyproject.toml calls dynamic."""

    def update(self, metadata: dict) -> None:
        """Set the long description, and the addresses where there is one."""
        repository = os.environ.get("DEVLAB_REPOSITORY", "").rstrip("/")
        with open(os.path.join(self.root, "README.md"), encoding="utf-8") as stream:
            text = long_description(stream.read(), repository, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        if repository:
            metadata["urls"] = {
                "Repository": repository,
                "Changelog": f"{repository}/blob/v{metadata['version']}/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
