"""The drawings of the lessons: a module for each subject, and `sheet` to draw on."""

from importlib import import_module
from pkgutil import iter_modules

from factory.drawings.sheet import DRAWINGS, drawn

for module in iter_modules(__path__, f"{__name__}."):
    import_module(module.name)

__all__ = ["DRAWINGS", "drawn"]
