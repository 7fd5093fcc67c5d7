"""Learn where tensors live: a course on PyTorch devices, and the checks behind it."""

from devlab.checks.check import check
from devlab.checks.help import hint, solution
from devlab.checks.overview import progress
from devlab.checks.result import CheckFailed
from devlab.devices import devices, start

__version__ = "0.1.0"
__all__ = ["CheckFailed", "check", "devices", "hint", "progress", "solution", "start"]
