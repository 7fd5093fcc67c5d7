"""Hands notebooks to JupyterLab with this Python's version in them, so that opening them changes nothing.

JupyterLab writes the kernel's version into an open notebook as soon as the kernel runs, and asks later
whether to save the change. The stored notebooks cannot hold the version of every learner's Python.
"""

import os
import platform
from pathlib import Path

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager


class Contents(AsyncLargeFileManager):
    """Jupyter's own manager of files; a notebook that it reads names the Python that runs here.

    Where JupyterLab is told to read a `custom.css`, it finds the course's, unless the reader has one. It does
    not ask about Jupyter's news, unless the reader's own settings say so.
    """

    def __init__(self, **wanted):
        super().__init__(**wanted)
        if self.parent:
            page = str(Path(__file__).parent / "page")
            self.parent.static_custom_path.insert(1, page)
            known = os.environ.get("JUPYTER_CONFIG_PATH")
            os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, (known, page)))

    async def get(self, path, content=True, **wanted):
        """Return the model of a file or folder, as Jupyter's manager does."""
        model = await super().get(path, content=content, **wanted)
        if content and model["type"] == "notebook":
            language = model["content"]["metadata"].get("language_info", {})
            if language.get("name") == "python":
                language["version"] = platform.python_version()
        return model
