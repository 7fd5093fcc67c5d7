"""The cell that installs devlab on a borrowed machine: `devlab lab --colab` puts it into each notebook."""

import json

from devlab import __version__

# Colab and Kaggle bring their own PyTorch, which fits their GPU, so nothing here asks for another. Kaggle
# shows files that were added to a notebook as a data set below /kaggle/input.
INSTALL = f"""\
# Colab and Kaggle start without devlab, so this cell installs it. Where devlab is there, nothing happens.
import importlib.util
from pathlib import Path

if importlib.util.find_spec("devlab") is None:
    wheels = [*Path.cwd().glob("devlab-*.whl"), *Path("/kaggle/input").rglob("devlab-*.whl")]
    devlab_source = str(max(wheels)) if wheels else "devlab=={__version__}"
    %pip install -q {{devlab_source}} anywidget
"""


def with_install_cell(notebook: bytes) -> bytes:
    """Return a notebook that begins with the cell that installs devlab.

    A wheel of devlab that was uploaded beside the notebook is taken first, else the release of this version.

    >>> made = with_install_cell(b'{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    >>> json.loads(made)["cells"][0]["id"]
    'install-devlab'
    """
    content = json.loads(notebook)
    cell = {
        "cell_type": "code",
        "execution_count": None,
        "id": "install-devlab",
        "metadata": {},
        "outputs": [],
        "source": INSTALL.splitlines(keepends=True),
    }
    content["cells"] = [cell, *content["cells"]]
    return (json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode()
