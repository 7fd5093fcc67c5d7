"""After `devlab.start()`: errors about devices are explained, and tracebacks leave out the simulator."""

import torch

from devlab.explaining import explained
from devlab.explaining.births import remember
from devlab.explaining.error import worth_explaining
from devlab.explaining.uncaught import shorten_uncaught
from devlab.panel import notebook_shell


def explain_errors(home: torch.device) -> None:
    """Explain from now on, in a notebook, each error about devices under its traceback.

    Tensors made elsewhere than on `home` are remembered from now on, in a notebook or not, and where `home`
    is simulated, uncaught errors are shown without the simulator's own frames.
    """
    if home.type != "cpu":
        remember(home)
    if home.type == "sim":
        shorten_uncaught()
    shell = notebook_shell()
    if shell is not None and _after_cell not in shell.events.callbacks["post_run_cell"]:
        shell.events.register("post_run_cell", _after_cell)


def _after_cell(result) -> None:
    """Show an explanation after the traceback that IPython has shown; whatever goes wrong stays silent."""
    try:
        error = result.error_in_exec
        if error is not None and worth_explaining(error):
            explained(error).show()
    except Exception:  # the learner's own error is there, and nothing may come between
        return
